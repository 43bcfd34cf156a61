//! Medians, intervals and edges.
//!
//! The **edge**: a random read waits for part of a rotation, so its time is uniform from `edge` to `edge + turn`. The
//! minimum of many such times is above the edge by `turn / (count + 1)` on average, and by more than three times that
//! in one case of twenty. The maximum would bound it from the other side, but some reads cross the end of a track and
//! take longer, and answers may be late: such additions do not affect the minimum.

use serde::Serialize;

/// A figure and the interval that holds it with 95 %, in the figure's unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// From.
    pub low: f64,
    /// To.
    pub high: f64,
}

impl Estimate {
    /// Median and interval of repeats, by the normal curve; a single one has no width. The spread is that of the middle half, so
    /// that a few late answers change nothing: 1.4826 times the median distance from the median is the deviation of normal
    /// figures, and 1.253 times the error of the mean is that of the median.
    pub(crate) fn of(repeats: &[f64]) -> Self {
        let value = median(repeats);
        let distances: Vec<f64> = repeats.iter().map(|it| (it - value).abs()).collect();
        let reach = 1.96 * 1.253 * 1.4826 * median(&distances) / (repeats.len().max(1) as f64).sqrt();
        Self { value, low: value - reach, high: value + reach }
    }

    /// One that is exact.
    pub(crate) const fn exact(value: f64) -> Self {
        Self { value, low: value, high: value }
    }

    /// The same in another unit.
    pub(crate) fn times(self, factor: f64) -> Self {
        Self { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Half the width.
    pub(crate) fn reach(&self) -> f64 {
        (self.high - self.low) / 2.0
    }
}

/// The median; of an even number the mean of the two in the middle; of none, zero.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

/// From the lower tenth to the upper.
pub(crate) fn spread(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    sorted.get(last * 9 / 10).copied().unwrap_or(0.0) - sorted.get(last / 10).copied().unwrap_or(0.0)
}

/// The edge of `times` that are spread over a `turn`; see the head.
pub(crate) fn edge(times: &[f64], turn: f64) -> Estimate {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min);
    let above = turn / (times.len() + 1) as f64;
    Estimate { value: least - above, low: least - 3.0 * above, high: least }
}

/// Least squares of `y = c + a sqrt(x) + b x`: `c`, `a`, `b`, with weights.
pub(crate) fn root_line(points: &[(f64, f64, f64)]) -> Option<[f64; 3]> {
    let mut rows = [[0.0; 4]; 3];
    for (x, y, weight) in points {
        let terms = [1.0, x.sqrt(), *x];
        for (row, left) in rows.iter_mut().zip(terms) {
            for (cell, right) in row.iter_mut().zip(terms.into_iter().chain([*y])) {
                *cell += weight * left * right;
            }
        }
    }
    for pivot in 0..3 {
        let best = (pivot..3).max_by(|a, b| rows[*a][pivot].abs().total_cmp(&rows[*b][pivot].abs()))?;
        rows.swap(pivot, best);
        if rows[pivot][pivot].abs() < 1e-12 {
            return None;
        }
        let lead = rows[pivot];
        for (index, row) in rows.iter_mut().enumerate() {
            if index != pivot {
                let factor = row[pivot] / lead[pivot];
                row.iter_mut().zip(lead).for_each(|(cell, above)| *cell -= factor * above);
            }
        }
    }
    Some([rows[0][3] / rows[0][0], rows[1][3] / rows[1][1], rows[2][3] / rows[2][2]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::Rng;

    #[test]
    fn the_edge_is_found_within_a_turn_over_the_count() {
        let mut random = Rng::new(7);
        for (edge_ns, turn) in [(500.0, 4e6), (3.4e6, 4e6), (8e6, 8.3e6)] {
            let mut times: Vec<f64> = (0..300).map(|_| edge_ns + turn * random.unit_f64()).collect();
            times.push(edge_ns + 2.0 * turn);
            let found = edge(&times, turn);
            assert!((found.value - edge_ns).abs() < turn / 100.0, "{edge_ns}: {found:?}");
            assert!(found.low <= edge_ns && edge_ns <= found.high, "{edge_ns}: {found:?}");
        }
    }

    #[test]
    fn a_curve_is_fitted_exactly() {
        let points: Vec<(f64, f64, f64)> =
            (1..9).map(|i| f64::from(i) / 8.0).map(|x| (x, 0.2 + 3.0 * x.sqrt() + 2.0 * x, 1.0)).collect();
        let [c, a, b] = root_line(&points).expect("enough points");
        assert!((c - 0.2).abs() < 1e-9 && (a - 3.0).abs() < 1e-9 && (b - 2.0).abs() < 1e-9);
        assert_eq!(root_line(&points[..2]), None);
    }

    #[test]
    fn a_median_needs_no_mean() {
        assert_eq!(median(&[5.0, 1.0, 100.0]), 5.0);
        assert_eq!(median(&[4.0, 1.0]), 2.5);
        assert_eq!(Estimate::of(&[2.0]), Estimate { value: 2.0, low: 2.0, high: 2.0 });
        let late = Estimate::of(&[2.0, 2.1, 1.9, 2.05, 90.0]);
        assert!(late.value == 2.05 && late.reach() < 0.15, "{late:?}");
    }
}
