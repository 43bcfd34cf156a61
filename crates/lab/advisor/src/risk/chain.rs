//! Markov chains in continuous time: the state after some time, and which absorbing state is reached first.
//!
//! *Uniformisation* (Jensen 1953) turns rates into the steps of a discrete chain that come as a Poisson process of rate
//! `L`, no lower than any state's exit rate: `p(t) = sum_n Poisson(n; L t) p(0) (I + Q / L)^n`. All terms are positive,
//! so tiny probabilities keep their digits. The sum ends when the rest of the Poisson distribution is below [`TAIL`].

/// Probability that the sum leaves out.
const TAIL: f64 = 1e-15;

/// Rates between states, per year. A state without any is absorbing.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    rates: Vec<Vec<(usize, f64)>>,
}

impl Chain {
    /// Adds a state without rates and returns its number.
    pub(super) fn add_state(&mut self) -> usize {
        self.rates.push(Vec::new());
        self.rates.len() - 1
    }

    /// Adds a rate from one state to another.
    pub(super) fn add_rate(&mut self, from: usize, to: usize, rate: f64) {
        if rate > 0.0 && from != to {
            self.rates[from].push((to, rate));
        }
    }

    fn exit_rate(&self, state: usize) -> f64 {
        self.rates[state].iter().map(|(_, rate)| rate).sum()
    }

    /// Probability of each state after `years`, from `start`, and the mean time that was spent in it, in years.
    ///
    /// The time is `sum_n P(N > n) p(0) (I + Q / L)^n / L`, where `N` is the Poisson count of steps.
    pub(super) fn after(&self, start: usize, years: f64) -> (Vec<f64>, Vec<f64>) {
        let states = self.rates.len();
        let fastest = (0..states).map(|state| self.exit_rate(state)).fold(0.0, f64::max);
        let mut now = vec![0.0; states];
        now[start] = 1.0;
        let mean = fastest * years;
        if mean == 0.0 {
            let spent = now.iter().map(|share| share * years).collect();
            return (now, spent);
        }
        let (mut sum, mut spent) = (vec![0.0; states], vec![0.0; states]);
        let (mut ln_weight, mut covered, mut step) = (-mean, 0.0, 0_u64);
        // Far beyond the mean the weights fall faster than any rounding error of `covered` matters.
        let steps_max = (mean + 12.0 * mean.sqrt() + 60.0) as u64;
        loop {
            let weight = f64::exp(ln_weight);
            covered += weight;
            let to_come = (1.0 - covered).max(0.0) / fastest;
            for ((total, time), share) in sum.iter_mut().zip(&mut spent).zip(&now) {
                *total += weight * share;
                *time += to_come * share;
            }
            if (covered >= 1.0 - TAIL && step as f64 > mean) || step >= steps_max {
                return (sum, spent);
            }
            step += 1;
            ln_weight += (mean / step as f64).ln();
            now = self.step(&now, fastest);
        }
    }

    /// One step of the discrete chain.
    fn step(&self, now: &[f64], fastest: f64) -> Vec<f64> {
        let mut next = vec![0.0; now.len()];
        for (state, share) in now.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let mut stays = fastest;
            for (to, rate) in &self.rates[state] {
                next[*to] += share * rate / fastest;
                stays -= rate;
            }
            next[state] += share * stays.max(0.0) / fastest;
        }
        next
    }

    /// Probability from each state that the chain meets one of `bad` before one of `good`, by iteration from below.
    pub(super) fn meets_first(&self, bad: &dyn Fn(usize) -> bool, good: &dyn Fn(usize) -> bool) -> Vec<f64> {
        let states = self.rates.len();
        let mut chance: Vec<f64> = (0..states).map(|state| f64::from(u8::from(bad(state)))).collect();
        for _ in 0..100_000 {
            let mut largest_change = 0.0_f64;
            for state in (0..states).filter(|&state| !bad(state) && !good(state)) {
                let exit = self.exit_rate(state);
                if exit > 0.0 {
                    let value =
                        self.rates[state].iter().map(|(to, rate)| rate * chance[*to]).sum::<f64>() / exit;
                    if value > 0.0 {
                        largest_change = largest_change.max((value - chance[state]).abs() / value);
                    }
                    chance[state] = value;
                }
            }
            if largest_change < 1e-13 {
                break;
            }
        }
        chance
    }
}
