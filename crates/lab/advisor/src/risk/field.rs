//! Failure rates from counts of failures and drive days, with their exact interval.
//!
//! Failures at a constant rate are a Poisson count. Its exact two-sided interval (Garwood 1936) ends at the rates at
//! which a count as high, or as low, as the observed one has probability [`TAIL`]:
//! ```text
//! low:  P(N >= failures; low * exposure)  = 2.5 %          (0 if nothing failed)
//! high: P(N <= failures; high * exposure) = 2.5 %          (the rule of three, nearly, if nothing failed: 3.69 / exposure)
//! ```
//! Source: F. Garwood, "Fiducial Limits for the Poisson Distribution", Biometrika 28, 1936.

use serde::{Deserialize, Serialize};

/// Chance that is left out on either side of an interval of 95 %.
const TAIL: f64 = 0.025;

/// Days in the year that rates are told for, as data centres count.
const DAYS_PER_YEAR: f64 = 365.0;

/// A figure that is known to lie in a range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranged {
    /// The least that it may be.
    pub low: f64,
    /// What it is taken to be.
    pub value: f64,
    /// The most that it may be.
    pub high: f64,
}

impl Ranged {
    /// A figure that is taken as it is.
    pub const fn exactly(value: f64) -> Self {
        Self { low: value, value, high: value }
    }

    /// The same, each of the three changed by `change`, which never falls where its argument grows.
    #[must_use]
    pub fn map(self, change: impl Fn(f64) -> f64) -> Self {
        Self { low: change(self.low), value: change(self.value), high: change(self.high) }
    }
}

/// What a population of drives did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldCount {
    /// Drives that failed.
    pub failures: u64,
    /// Days that drives were watched, summed over all of them; above zero.
    pub drive_days: f64,
}

impl FieldCount {
    /// Failures of a drive in a year of 365 days, with the exact interval of 95 %.
    pub fn failures_per_year(&self) -> Ranged {
        let years = self.drive_days / DAYS_PER_YEAR;
        let (low, high) = poisson_interval(self.failures, TAIL);
        Ranged { low: low / years, value: self.failures as f64 / years, high: high / years }
    }

    /// Share of drives that fail within a year, with the exact interval of 95 %.
    pub fn annual_failure_share(&self) -> Ranged {
        self.failures_per_year().map(|rate| -(-rate).exp_m1())
    }
}

/// The means between which a Poisson distribution's mean lies when `count` was seen, with at most the chance `tail` that it is beyond
/// either.
pub(super) fn poisson_interval(count: u64, tail: f64) -> (f64, f64) {
    let low = if count == 0 { 0.0 } else { mean_at(|mean| 1.0 - at_most(count - 1, mean) - tail, count) };
    (low, mean_at(|mean| tail - at_most(count, mean), count))
}

/// Where `rising` passes zero, by bisection.
fn mean_at(rising: impl Fn(f64) -> f64, count: u64) -> f64 {
    let (mut low, mut high) = (0.0, count as f64 + 10.0 * (count as f64).sqrt() + 10.0);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if rising(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Chance of `count` or fewer: from the largest of their terms on to both sides.
fn at_most(count: u64, mean: f64) -> f64 {
    let largest = count.min(mean as u64);
    let ln_factorial: f64 = (2..=largest).map(|k| (k as f64).ln()).sum();
    let ln_term = if largest == 0 { -mean } else { largest as f64 * mean.ln() - mean - ln_factorial };
    let (middle, mut sum) = (ln_term.exp(), 0.0);
    let mut term = middle;
    for k in (1..=largest).rev() {
        term *= k as f64 / mean;
        sum += term;
        if term < 1e-18 * sum {
            break;
        }
    }
    term = middle;
    for k in largest + 1..=count {
        term *= mean / k as f64;
        sum += term;
    }
    (sum + middle).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Limits as tables of the distribution give them: half of chi-square's quantiles.
    #[test]
    fn limits_are_those_of_the_tables() {
        for (count, low, high) in [
            (0, 0.0, 3.6889),
            (1, 0.0253, 5.5716),
            (5, 1.6235, 11.6683),
            (10, 4.7954, 18.3904),
            (50, 37.1110, 65.9189),
        ] {
            let found = poisson_interval(count, TAIL);
            assert!((found.0 - low).abs() < 1e-3, "{count}: {found:?}");
            assert!((found.1 - high).abs() < 1e-3, "{count}: {found:?}");
        }
    }

    /// 57 failures in 3,125,133 days are told as 0.67 % (Backblaze, third quarter of 2025).
    #[test]
    fn a_published_count_gives_the_published_rate() {
        let rate = FieldCount { failures: 57, drive_days: 3_125_133.0 }.failures_per_year();
        assert!((100.0 * rate.value - 0.67).abs() < 0.005, "{rate:?}");
        assert!(
            (100.0 * rate.low - 0.504).abs() < 0.002 && (100.0 * rate.high - 0.863).abs() < 0.002,
            "{rate:?}"
        );
        // Many failures: the interval of a normal distribution is near.
        let many = FieldCount { failures: 40_000, drive_days: 1e9 }.failures_per_year();
        assert!(((many.high - many.low) / many.value / (2.0 * 1.96 / 200.0) - 1.0).abs() < 0.01, "{many:?}");
    }
}
