//! How far chance reaches within one run: the standard error of its figure by the method of batch means.
//!
//! The window is cut into at most [`BATCHES_MAX`] equal batches, and their means are taken as independent figures:
//! `error^2 = s^2 / batches`, with one degree of freedom less than batches. Two runs are compared by the logarithms of
//! their figures, as in [`crate::significance::Rounds`], with Welch's degrees of freedom.
//!
//! A cache that goes through fewer than some cycles in a window makes its error large, rightly: where in its cycle the
//! window begins and ends sets the figure. Six Cheetah 15K.7, `storagebench-database` at iodepth 64, write-back, 10 s,
//! 12 seeds: RAID 5 differs between seeds by 0.5 % (standard deviation), and batches say 0.3 to 0.8 %; RAID 10, which
//! flushes about once in a window, by 2.7 %, and batches say 18 to 22 %.
//!
//! Left out: what differs between runs of a real machine, which only repeats tell.
//! Sources: A. M. Law, "Simulation Modeling and Analysis", chapter 9; B. Schmeiser, "Batch size effects in the analysis of
//! simulation output", Operations Research 30, 1982 (10 to 30 batches).

use crate::significance::{student_quantile_95, student_two_sided};
use raidlab_workload::{Metric, RunResult};
use serde::{Deserialize, Serialize};

/// Batches at least; fewer tell little of their spread.
const BATCHES_MIN: usize = 5;
/// Batches at most: longer ones depend less on each other.
const BATCHES_MAX: usize = 20;

/// What the batches of a run tell of its figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BatchMeans {
    /// Standard error of the figure, as a share of it.
    pub error_share: f64,
    /// Batches less one.
    pub degrees: f64,
}

impl BatchMeans {
    /// Of `run`'s metric; none where its window has fewer than [`BATCHES_MIN`] whole intervals, or nothing was moved.
    pub(crate) fn of(run: &RunResult) -> Option<Self> {
        let series = run.series.as_ref()?;
        let counts = match run.metric {
            Metric::Iops => &series.total.requests,
            Metric::MbPerS => &series.total.bytes,
        };
        let whole = counts.len() - usize::from(series.last_ns < series.interval_ns && !counts.is_empty());
        Self::of_counts(&counts[..whole])
    }

    /// What does not fill a batch is left out at the front.
    fn of_counts(counts: &[u64]) -> Option<Self> {
        let length = counts.len().div_ceil(BATCHES_MAX).max(1);
        let batches: Vec<f64> =
            counts.rchunks_exact(length).map(|batch| batch.iter().sum::<u64>() as f64).collect();
        let count = batches.len() as f64;
        let mean = batches.iter().sum::<f64>() / count;
        let variance = batches.iter().map(|batch| (batch - mean).powi(2)).sum::<f64>() / (count - 1.0);
        (batches.len() >= BATCHES_MIN && mean > 0.0)
            .then(|| Self { error_share: (variance / count).sqrt() / mean, degrees: count - 1.0 })
    }

    /// Half the width of the figure's 95 % interval, as a share of it.
    pub(crate) fn half_width_95(self) -> f64 {
        student_quantile_95(self.degrees) * self.error_share
    }

    /// Chance that a run with figure `own`, one of `others` that are compared with the `best`, is not slower: its figure would be as
    /// far below by luck.
    pub(crate) fn chance_that_as_good(self, own: f64, (best, its): (f64, Self), others: usize) -> f64 {
        let (a, b) = (self.error_share.powi(2), its.error_share.powi(2));
        if a + b == 0.0 {
            return if own < best { 0.0 } else { 1.0 };
        }
        let t = (best / own).ln() / (a + b).sqrt();
        let degrees = (a + b).powi(2) / (a * a / self.degrees + b * b / its.degrees);
        let beyond = student_two_sided(t, degrees) / 2.0;
        (others as f64 * if t > 0.0 { beyond } else { 1.0 - beyond }).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_follows_its_formula() {
        let found = BatchMeans::of_counts(&[90, 100, 110, 100, 100]).expect("five are enough");
        assert!((found.error_share - (50.0_f64 / 5.0).sqrt() / 100.0).abs() < 1e-12, "{found:?}");
        assert_eq!(found.degrees, 4.0);
        assert!((found.half_width_95() - 2.776 * found.error_share).abs() < 1e-4);
        assert_eq!(BatchMeans::of_counts(&[90, 100, 110, 100]), None);
        assert_eq!(BatchMeans::of_counts(&[0; 10]), None);
    }

    #[test]
    fn many_intervals_become_few_batches() {
        // Every other interval is twice the one before it; batches of two are all alike.
        let counts: Vec<u64> = (0..41).map(|at| if at == 0 { 9999 } else { 100 + at % 2 * 100 }).collect();
        let found = BatchMeans::of_counts(&counts).expect("enough");
        assert_eq!(found.degrees, 12.0, "41 intervals are 13 batches of 3");
        let even = BatchMeans::of_counts(&counts[1..]).expect("enough");
        assert_eq!((even.error_share, even.degrees), (0.0, 19.0));
    }

    #[test]
    fn two_runs_differ_as_far_as_their_errors_allow() {
        let of = |error_share| BatchMeans { error_share, degrees: 9.0 };
        // ln 1.1 = 0.0953 by errors of 0.03 and 0.04: t = 1.906 at 16.7 degrees of freedom.
        let chance = of(0.03).chance_that_as_good(100.0, (110.0, of(0.04)), 1);
        assert!((0.035..0.04).contains(&chance), "{chance}");
        let of_two = of(0.03).chance_that_as_good(100.0, (110.0, of(0.04)), 2);
        assert!((of_two - 2.0 * chance).abs() < 1e-12);
        assert!(of(0.2).chance_that_as_good(4997.0, (5537.0, of(0.004)), 3) > 0.5, "one flush in a window");
        assert_eq!(of(0.0).chance_that_as_good(100.0, (110.0, of(0.0)), 1), 0.0);
    }
}
