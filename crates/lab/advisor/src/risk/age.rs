//! How failure rates change with a drive's age, as factors of the known rate of drives of all ages.
//!
//! - **Disks** ([`DISK`]): Backblaze's drives of 2025 failed at 1.3 % in their first year, hardly less than drives of
//!   all ages (1.36 % in that quarter), and at most at 4.25 % a year at ten years and a quarter: a slow rise, no
//!   bathtub. The same company's drives of 2021 were constant until their fifth year and came to 14.24 %, ten times the
//!   mean, at seven years and nine months: the high curve. The low one is constant: much of such a rise comes from
//!   older models in the mix.
//! - **Flash** ([`FLASH`]): new drives fail at two to three times their later rate for more than a year. Factors have a
//!   mean of one over the first four years. That worn flash fails more is known from models, not from the field.
//! - **Errors of flash** ([`flash_error_factor`]): they grow with age, at most in proportion to it.
//!
//! Sources: Backblaze, "Are Hard Drives Getting Better? Let's Revisit the Bathtub Curve", October 2025 (figures as
//! blocksandfiles.com and cloudnews.tech give them); T. `LaTorre`, "Analyzing Backblaze's Stats to Find the Bathtub
//! Curve" (the mix
//! of models); S. Maneas and others, "A Study of SSD Reliability in Large Scale Enterprise Storage Deployments", FAST
//! 2020; B.
//! Schroeder, R. Lagisetty, A. Merchant, "Flash Reliability in Production", FAST 2016.

use super::field::Ranged;

/// Factors by age in years: straight between the points, and even before the first and after the last.
#[derive(Clone, Copy, Debug)]
pub struct AgeCurve {
    low: &'static [(f64, f64)],
    value: &'static [(f64, f64)],
    high: &'static [(f64, f64)],
}

/// Of hard disks.
pub const DISK: AgeCurve = AgeCurve {
    low: &[(0.0, 1.0)],
    value: &[(0.5, 0.96), (2.0, 1.0), (10.25, 3.1)],
    high: &[(0.0, 1.0), (5.0, 1.0), (7.75, 10.0)],
};

/// Of solid-state drives.
pub const FLASH: AgeCurve = AgeCurve {
    low: &[(0.0, 1.0)],
    value: &[(1.0, 1.52), (1.5, 0.76)],
    high: &[(1.0, 1.85), (1.5, 0.62), (4.0, 1.0)],
};

/// Parts of a year that a mean is taken over.
const PARTS: u32 = 16;

impl AgeCurve {
    /// Mean factor over the year after the age of `years`. The low and the high one are in order, whatever the value is.
    pub fn factor(&self, years: f64) -> Ranged {
        let [low, value, high] = [self.low, self.value, self.high].map(|points| mean(points, years));
        Ranged { low: low.min(value), value, high: high.max(value) }
    }
}

/// How many times as many errors as in the mean of its first four years flash has in the year after the age of `years`.
pub fn flash_error_factor(years: f64) -> f64 {
    f64::midpoint(years, 0.5)
}

fn mean(points: &[(f64, f64)], years: f64) -> f64 {
    let at = |part: u32| years + (f64::from(part) + 0.5) / f64::from(PARTS);
    (0..PARTS).map(|part| between(points, at(part))).sum::<f64>() / f64::from(PARTS)
}

fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let after = points.iter().position(|(age, _)| *age >= at);
    match after {
        Some(0) => points[0].1,
        Some(index) => {
            let ((from, before), (to, then)) = (points[index - 1], points[index]);
            before + (then - before) * (at - from) / (to - from)
        }
        None => points.last().map_or(1.0, |(_, factor)| *factor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_pass_through_what_was_published() {
        let old = DISK.factor(9.75);
        assert!((old.value * 1.36 - 4.25).abs() < 0.15 && old.low == 1.0 && old.high == 10.0, "{old:?}");
        assert!((DISK.factor(0.0).value * 1.36 - 1.30).abs() < 0.02);
        let mean_of_four = (0..4).map(|age| FLASH.factor(f64::from(age)).value).sum::<f64>() / 4.0;
        assert!((mean_of_four - 1.0).abs() < 0.05, "{mean_of_four}");
        let errors = (0..4).map(|age| flash_error_factor(f64::from(age))).sum::<f64>() / 4.0;
        assert!((errors - 1.0).abs() < 1e-12, "{errors}");
    }

    #[test]
    fn ranges_are_in_order_at_any_age() {
        for age in 0..60 {
            for curve in [DISK, FLASH] {
                let factor = curve.factor(f64::from(age) / 4.0);
                assert!(
                    0.0 < factor.low && factor.low <= factor.value && factor.value <= factor.high,
                    "{factor:?}"
                );
            }
        }
    }
}
