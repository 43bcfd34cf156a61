//! The mean-field equations of garbage collection by the least valid of `d` superblocks, with hot and cold units.
//!
//! The state is the share of superblocks with each number of hot and cold valid units. One step in time is one victim:
//! it is chosen with the probability that it is the least valid of `d`, and returns with its valid data and the host's
//! new data; meanwhile every valid unit of a class dies at the rate of that class. The fixed point is reached by Euler
//! steps.
//! Source: Van Houdt, SIGMETRICS 2013 (one class), and Performance Evaluation 70, 2013 (two).

use super::Skew;

/// Victims per superblock in an Euler step, and steps until nothing changes any more.
const STEP: f64 = 0.02;
const STEPS: usize = 4_000;

struct Equations {
    size: usize,
    choices: i32,
    /// Share of the writes, and units per superblock, of each class.
    shares: [f64; 2],
    units: [f64; 2],
    mass: Vec<f64>,
}

/// Write amplification of superblocks of `size` units, where there are `ratio` times as many places as units.
pub(super) fn mean_field(size: usize, ratio: f64, choices: i32, skew: Skew) -> f64 {
    let mean = size as f64 / ratio;
    let mut equations = Equations {
        size,
        choices,
        shares: [skew.share, 1.0 - skew.share],
        units: [skew.hot * mean, (1.0 - skew.hot) * mean],
        mass: vec![0.0; (size + 1) * (size + 1)],
    };
    equations.begin(skew.hot);
    (0..STEPS).map(|_| equations.step()).last().expect("there are steps")
}

impl Equations {
    fn cell(&self, hot: usize, cold: usize) -> usize {
        hot * (self.size + 1) + cold
    }

    /// Shares out the units evenly over the superblocks.
    fn begin(&mut self, hot_share: f64) {
        let mean = self.units[0] + self.units[1];
        let low = mean as usize;
        for (valid, weight) in [(low, 1.0 - mean.fract()), (low + 1, mean.fract())] {
            let hot = valid as f64 * hot_share;
            let (floor, part) = (hot as usize, hot.fract());
            for (hot, part) in [(floor, 1.0 - part), (floor + 1, part)] {
                if part > 0.0 {
                    let cell = self.cell(hot, valid - hot);
                    self.mass[cell] += weight * part;
                }
            }
        }
    }

    /// Chance that a victim has so many valid units, for each superblock that has.
    fn choice_rates(&self) -> Vec<f64> {
        let level = |valid: usize| (0..=valid).map(|hot| self.mass[self.cell(hot, valid - hot)]).sum();
        let levels: Vec<f64> = (0..=self.size).map(level).collect();
        let mut above = 0.0_f64;
        let mut rates = vec![0.0; self.size + 1];
        for valid in (0..=self.size).rev() {
            let with = above + levels[valid];
            let chosen = with.max(0.0).powi(self.choices) - above.max(0.0).powi(self.choices);
            rates[valid] = if levels[valid] > 1e-300 { chosen / levels[valid] } else { 0.0 };
            above = with;
        }
        rates
    }

    /// One Euler step; returns the write amplification before it.
    fn step(&mut self) -> f64 {
        let rates = self.choice_rates();
        let pairs = || (0..=self.size).flat_map(|hot| (0..=self.size - hot).map(move |cold| (hot, cold)));
        let kept: f64 =
            pairs().map(|(h, c)| self.mass[self.cell(h, c)] * rates[h + c] * (h + c) as f64).sum();
        let written = self.size as f64 - kept;
        let death = |class: usize| {
            if self.units[class] > 0.0 { written * self.shares[class] / self.units[class] } else { 0.0 }
        };
        let mut next = self.mass.clone();
        for (hot, cold) in pairs() {
            let here = self.mass[self.cell(hot, cold)];
            if here > 0.0 {
                self.die(&mut next, (hot, cold), here, [death(0), death(1)]);
                self.collect(&mut next, (hot, cold), here * rates[hot + cold]);
            }
        }
        self.mass = next;
        self.size as f64 / written
    }

    /// What valid units that die do to superblocks with so many.
    fn die(&self, next: &mut [f64], (hot, cold): (usize, usize), here: f64, death: [f64; 2]) {
        let fewer = [hot.checked_sub(1).map(|h| (h, cold)), cold.checked_sub(1).map(|c| (hot, c))];
        for (class, to) in fewer.into_iter().enumerate() {
            if let Some((h, c)) = to {
                let count = if class == 0 { hot } else { cold };
                let gone = STEP * here * count as f64 * death[class];
                next[self.cell(h, c)] += gone;
                next[self.cell(hot, cold)] -= gone;
            }
        }
    }

    /// What becomes of victims with so many valid units: the host fills them up, hot or cold by chance.
    fn collect(&self, next: &mut [f64], (hot, cold): (usize, usize), rate: f64) {
        let victims = STEP * rate;
        next[self.cell(hot, cold)] -= victims;
        let gap = self.size - hot - cold;
        let is_one_class = self.shares[1] <= 0.0;
        let mut chance = if is_one_class { 0.0 } else { self.shares[1].powf(gap as f64) };
        for more in 0..=gap {
            if is_one_class {
                chance = if more == gap { 1.0 } else { 0.0 };
            }
            next[self.cell(hot + more, cold + gap - more)] += victims * chance;
            if !is_one_class {
                chance *= (gap - more) as f64 / (more + 1) as f64 * self.shares[0] / self.shares[1];
            }
        }
    }
}
