//! Markov chains in continuous time: the state after some time, and which absorbing state is reached first.
//!
//! *Uniformisation* (Jensen 1953) turns rates into the steps of a discrete chain that come as a Poisson process of rate
//! `L`, no lower than any state's exit rate: `p(t) = sum_n Poisson(n; L t) p(0) (I + Q / L)^n`. All terms are positive,
//! so tiny probabilities keep their digits. The sum ends when the rest of the Poisson distribution is below [`TAIL`].
//!
//! A year is tens of thousands of steps where rebuilds take minutes. Chains of few states take a part of it in less than one step from
//! each of them, and then twice as long until it is a year: products of matrices, which are positive, too.

/// Probability that the sum leaves out.
const TAIL: f64 = 1e-15;

/// Steps that it takes to sum up a part of the time in which the fastest state is left once.
const STEPS_OF_A_PART: usize = 20;

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

    fn fastest(&self) -> f64 {
        (0..self.rates.len()).map(|state| self.exit_rate(state)).fold(0.0, f64::max)
    }

    fn exit_rate(&self, state: usize) -> f64 {
        self.rates[state].iter().map(|(_, rate)| rate).sum()
    }

    /// Probability of each state after `years`, from `start`, and the mean time that was spent in it, in years.
    pub(super) fn after(&self, start: usize, years: f64) -> (Vec<f64>, Vec<f64>) {
        let (states, edges) = (self.rates.len(), self.rates.iter().map(Vec::len).sum::<usize>());
        let mean = self.fastest() * years;
        let doublings = mean.max(1.0).log2().ceil() as i32;
        let work = 2 * states.pow(3) * doublings as usize + STEPS_OF_A_PART * states * edges;
        if mean * edges as f64 <= work as f64 {
            return self.by_steps(start, years);
        }
        let part = years / f64::from(2).powi(doublings);
        let (mut now, mut spent): (Vec<_>, Vec<_>) =
            (0..states).map(|state| self.by_steps(state, part)).unzip();
        for _ in 0..doublings {
            let later = product(&now, &spent);
            for (sum, more) in spent.iter_mut().flatten().zip(later.iter().flatten()) {
                *sum += more;
            }
            now = product(&now, &now);
        }
        (now.swap_remove(start), spent.swap_remove(start))
    }

    /// The same, step by step: the time is `sum_n P(N > n) p(0) (I + Q / L)^n / L`, where `N` is the Poisson count of steps.
    fn by_steps(&self, start: usize, years: f64) -> (Vec<f64>, Vec<f64>) {
        let (states, fastest) = (self.rates.len(), self.fastest());
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

/// Rows of `a` times `b`.
fn product(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let row = |shares: &Vec<f64>| {
        let mut sum = vec![0.0; shares.len()];
        for (share, row) in shares.iter().zip(b).filter(|(share, _)| **share > 0.0) {
            for (total, value) in sum.iter_mut().zip(row) {
                *total += share * value;
            }
        }
        sum
    };
    a.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also of what happens once in 10^12 years.
    #[test]
    fn doubling_agrees_with_steps() {
        let mut chain = Chain::default();
        for _ in 0..5 {
            chain.add_state();
        }
        for (from, to, rate) in
            [(0, 1, 0.02), (1, 0, 17_532.0), (1, 2, 0.018), (2, 1, 9_000.0), (2, 3, 1e-4), (1, 4, 3.0)]
        {
            chain.add_rate(from, to, rate);
        }
        for years in [1e-6, 0.3, 1.0] {
            let ((shares, spent), (by_steps, spent_by_steps)) =
                (chain.after(0, years), chain.by_steps(0, years));
            let pairs = shares.iter().chain(&spent).zip(by_steps.iter().chain(&spent_by_steps));
            for (one, other) in pairs {
                assert!((one / other - 1.0).abs() < 1e-9, "{years} years: {one} and {other}");
            }
            assert!(
                (shares.iter().sum::<f64>() - 1.0).abs() < 1e-9
                    && (spent.iter().sum::<f64>() - years).abs() < 1e-9
            );
        }
    }
}
