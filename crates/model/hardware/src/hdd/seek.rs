//! The seek time over a distance.
//!
//! `time(d) = a sqrt(d - 1) + b (d - 1) + c` for a distance of `d >= 1` cylinders: the square root is acceleration and
//! deceleration, the line the top speed, the constant settling. The three numbers follow from the three times of a data
//! sheet: one cylinder gives `c`; the mean over all pairs of cylinders and the full stroke give `a` and `b`.
//!
//! Two cylinders drawn at random from `n` are `d` apart with probability `2 (n - d) / n^2`; as data sheets do,
//! the mean is over pairs that differ. Source: Lee and Katz, "An analytic performance model of disk arrays",
//! SIGMETRICS 1993; the distribution: Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994.

use super::model::SeekAnchors;
use raidlab_units::NanoSpan;

/// Why no curve meets the anchors.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum SeekError {
    /// Times out of order.
    #[error("seek times must rise from single_track over average to full_stroke")]
    NotRising,
    /// The curve would fall somewhere: the average does not fit between the other two.
    #[error(
        "an average seek of {average} does not fit a full stroke of {full_stroke}: the curve through both would fall \
         with distance"
    )]
    Falls {
        /// As given.
        average: NanoSpan,
        /// As given.
        full_stroke: NanoSpan,
    },
}

/// A fitted curve, in nanoseconds unless [`SeekCurve::scaled`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SeekCurve {
    pub(crate) root: f32,
    pub(crate) line: f32,
    pub(crate) settle: f32,
}

impl SeekCurve {
    /// The curve through `anchors` for an arm over `cylinders` (at least 3).
    pub(crate) fn fit(anchors: &SeekAnchors, cylinders: u32) -> Result<Self, SeekError> {
        let [single, average, full] =
            [anchors.single_track, anchors.average, anchors.full_stroke].map(|span| span.0 as f64);
        if !(single <= average && average <= full) {
            return Err(SeekError::NotRising);
        }
        let (mean_root, mean_line) = mean_terms(cylinders);
        let longest = f64::from(cylinders) - 2.0;
        let (full_root, full_line) = (longest.sqrt(), longest);
        // Cramer's rule on: root * mean_root + line * mean_line = average - c, and the same for the full stroke.
        let determinant = mean_root * full_line - full_root * mean_line;
        let root = ((average - single) * full_line - (full - single) * mean_line) / determinant;
        let line = (mean_root * (full - single) - full_root * (average - single)) / determinant;
        // A falling curve would have its lowest slope at one of the ends.
        let slope_at_end = root / (2.0 * full_root) + line;
        if root < 0.0 || slope_at_end < 0.0 {
            return Err(SeekError::Falls { average: anchors.average, full_stroke: anchors.full_stroke });
        }
        Ok(Self { root: root as f32, line: line as f32, settle: single as f32 })
    }

    /// Time for `steps` cylinders more than one, whose root is `root`.
    #[inline]
    pub(crate) fn at(&self, root: f32, steps: f32) -> f32 {
        self.root * root + self.line * steps + self.settle
    }

    /// The curve in units of which there are `factor` in one of its own.
    pub(crate) fn scaled(&self, factor: f32) -> Self {
        Self { root: self.root * factor, line: self.line * factor, settle: self.settle * factor }
    }

    /// What this curve takes more than `other`.
    pub(crate) fn less(&self, other: &Self) -> Self {
        Self {
            root: self.root - other.root,
            line: self.line - other.line,
            settle: self.settle - other.settle,
        }
    }
}

/// Means of `sqrt(d - 1)` and of `d - 1` over all pairs of different cylinders.
///
/// With `m = n - 1` the first is the sum of `sqrt(k) (m - k)` for `k` below `m`, over the number of pairs. The
/// sums of `k^(1/2)` and `k^(3/2)` have the Euler-Maclaurin series used here; what is left out is below
/// `m^(-1/2)`, against a result that grows with `m^(5/2)`.
fn mean_terms(cylinders: u32) -> (f64, f64) {
    const ZETA_MINUS_1_2: f64 = -0.207_886_224_977_354_57;
    const ZETA_MINUS_3_2: f64 = -0.025_485_201_889_833_036;
    let m = f64::from(cylinders) - 1.0;
    let pairs = m * (m + 1.0) / 2.0;
    let root_sum = 4.0 / 15.0 * m.powf(2.5) + ZETA_MINUS_1_2 * m - m.sqrt() / 12.0 - ZETA_MINUS_3_2;
    (root_sum / pairs, (m + 2.0) / 3.0 - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anchors(single_us: u64, average_us: u64, full_us: u64) -> SeekAnchors {
        SeekAnchors {
            single_track: NanoSpan::from_micros(single_us),
            average: NanoSpan::from_micros(average_us),
            full_stroke: NanoSpan::from_micros(full_us),
        }
    }

    fn slow_mean_terms(cylinders: u32) -> (f64, f64) {
        let n = f64::from(cylinders);
        let share = |distance: u32| (n - f64::from(distance)) / (n * (n - 1.0) / 2.0);
        let mean = |f: fn(f64) -> f64| (1..cylinders).map(|d| f(f64::from(d - 1)) * share(d)).sum();
        (mean(f64::sqrt), mean(|steps| steps))
    }

    #[test]
    fn means_equal_the_plain_sums() {
        for cylinders in [3, 4, 10, 1000, 84_000] {
            let (fast, slow) = (mean_terms(cylinders), slow_mean_terms(cylinders));
            assert!(
                (fast.0 - slow.0).abs() < 0.01 * slow.0.min(1.0),
                "{cylinders}: {fast:?} is not {slow:?}"
            );
            assert!((fast.1 - slow.1).abs() < 1e-6 * slow.1, "{cylinders}: {fast:?} is not {slow:?}");
        }
    }

    #[test]
    fn curve_meets_its_three_anchors() {
        let rows = [(200, 3400, 6600), (440, 3900, 7400), (500, 8000, 17_350), (1000, 8500, 16_000)];
        for (single, average, full) in rows {
            let cylinders = 90_000;
            let curve = SeekCurve::fit(&anchors(single, average, full), cylinders).expect("a sound row");
            let time_ns = |distance: u32| {
                let steps = (distance - 1) as f32;
                f64::from(curve.at(steps.sqrt(), steps))
            };
            let close = |got_ns: f64, want_us: u64| (got_ns / 1e3 / want_us as f64 - 1.0).abs() < 1e-3;
            assert!(close(time_ns(1), single), "single track of {single} us");
            assert!(close(time_ns(cylinders - 1), full), "full stroke of {full} us");
            let n = f64::from(cylinders);
            let mean: f64 =
                (1..cylinders).map(|d| time_ns(d) * (n - f64::from(d)) * 2.0 / (n * (n - 1.0))).sum();
            assert!(close(mean, average), "average of {average} us, got {mean} ns");
        }
    }

    #[test]
    fn impossible_anchors_are_refused() {
        let fit = |single, average, full| SeekCurve::fit(&anchors(single, average, full), 50_000);
        assert_eq!(fit(5000, 3000, 7000), Err(SeekError::NotRising));
        assert!(matches!(fit(200, 6900, 7000), Err(SeekError::Falls { .. })));
        assert!(matches!(fit(200, 1000, 20_000), Err(SeekError::Falls { .. })));
    }
}
