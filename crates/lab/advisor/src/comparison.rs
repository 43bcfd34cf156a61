//! Published and predicted figures, and their errors.
//!
//! The error of a row is relative to the published figure: `100 * (predicted - published) / published`, in percent,
//! positive when the prediction is too high. The summary ignores the sign: half of the rows have at most the median
//! error, nine of ten at most the 90th percentile.
//!
//! Source of the percentile: the nearest-rank definition, the smallest value that at least 90% of all values do not
//! exceed. It is always one of the rows' own errors, never a number between two of them.

use serde::{Deserialize, Serialize};

/// One figure, as published and as predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ComparisonRow {
    /// Which published figure it is.
    pub id: String,
    /// What both numbers count, unit included: `iops`, `mb_per_s`.
    pub metric: String,
    /// The published figure, in the metric's unit; above zero.
    pub published: f64,
    /// The prediction, in the same unit.
    pub predicted: f64,
    /// How far the prediction is off, in percent of the published figure; positive when it is too high.
    pub error_pct: f64,
}

/// How the unit of a metric is written: `MB/s` for `mb_per_s`. A name that is not known stays as it is.
pub fn unit_of(metric: &str) -> &str {
    match metric {
        "iops" => "IOPS",
        "kib_per_s" => "KiB/s",
        "mb_per_s" => "MB/s",
        "mib_per_s" => "MiB/s",
        "cpu_pct" => "% of a processor",
        other => other,
    }
}

impl ComparisonRow {
    /// Compares `predicted` with `published`, both in the unit that `metric` names.
    ///
    /// Returns `None` when no relative error exists: `published` is not a finite number above zero, or `predicted`
    /// is not finite.
    pub fn of(id: String, metric: String, published: f64, predicted: f64) -> Option<Self> {
        let comparable = published.is_finite() && published > 0.0 && predicted.is_finite();
        comparable.then(|| {
            let error_pct = 100.0 * (predicted - published) / published;
            Self { id, metric, published, predicted, error_pct }
        })
    }
}

/// How far off the predictions are as a whole. The figures are `None` when there is no row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ComparisonSummary {
    /// Number of rows.
    pub rows: u64,
    /// Median of the absolute errors in percent: of an even number of rows, the mean of the two in the middle.
    pub median_abs_error_pct: Option<f64>,
    /// 90th percentile of the absolute errors in percent, by nearest rank.
    pub p90_abs_error_pct: Option<f64>,
}

/// What the rows of one place of a publication, a table, amount to.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PlaceSummary {
    /// The place, as the rows name it.
    pub place: String,
    /// Errors of all of its rows.
    pub summary: ComparisonSummary,
    /// Errors of those that nothing was fitted to.
    pub summary_not_fitted: ComparisonSummary,
    /// Whether they come out in the published order, from -1 to 1: the mean of Kendall's tau over the metrics of the place, each
    /// weighed by its pairs. None where there is no order.
    pub kendall_tau: Option<f64>,
}

/// Rows and their summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The rows, in the order given.
    pub rows: Vec<ComparisonRow>,
    /// What they amount to.
    pub summary: ComparisonSummary,
}

impl Comparison {
    /// Sums `rows` up.
    pub fn of(rows: Vec<ComparisonRow>) -> Self {
        let mut abs_errors_pct: Vec<f64> = rows.iter().map(|row| row.error_pct.abs()).collect();
        abs_errors_pct.sort_by(f64::total_cmp);
        let summary = ComparisonSummary {
            rows: rows.len() as u64,
            median_abs_error_pct: median(&abs_errors_pct),
            p90_abs_error_pct: nearest_rank(&abs_errors_pct, 90),
        };
        Self { rows, summary }
    }
}

/// Returns the median of `sorted`, ascending.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len().is_multiple_of(2) {
        Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper))
    } else {
        Some(upper)
    }
}

/// Returns the smallest value of `sorted`, ascending, that at least `pct` percent of the values do not exceed.
fn nearest_rank(sorted: &[f64], pct: usize) -> Option<f64> {
    assert!((1..=100).contains(&pct), "a percentile of {pct} has no rank");
    let rank = (sorted.len() * pct).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::{Comparison, ComparisonRow, median, nearest_rank};

    fn row(published: f64, predicted: f64) -> Option<ComparisonRow> {
        ComparisonRow::of("id".into(), "iops".into(), published, predicted)
    }

    #[test]
    fn the_error_is_relative_to_what_was_published() {
        for (published, predicted, error_pct) in
            [(100.0, 110.0, 10.0), (200.0, 150.0, -25.0), (0.5, 0.5, 0.0), (4.0, 0.0, -100.0)]
        {
            let error = row(published, predicted).map(|row| row.error_pct);
            assert_eq!(error, Some(error_pct), "published {published}, predicted {predicted}");
        }
    }

    #[test]
    fn there_is_no_error_relative_to_nothing() {
        for (published, predicted) in [
            (0.0, 1.0),
            (-1.0, 1.0),
            (f64::NAN, 1.0),
            (f64::INFINITY, 1.0),
            (1.0, f64::NAN),
            (1.0, f64::INFINITY),
        ] {
            assert_eq!(row(published, predicted), None, "published {published}, predicted {predicted}");
        }
    }

    #[test]
    fn the_summary_forgets_the_sign() {
        let rows =
            [90.0, 110.0, 70.0, 140.0].iter().map(|predicted| row(100.0, *predicted).unwrap()).collect();
        let summary = Comparison::of(rows).summary;
        assert_eq!(summary.rows, 4);
        assert_eq!(summary.median_abs_error_pct, Some(20.0));
        assert_eq!(summary.p90_abs_error_pct, Some(40.0));
    }

    #[test]
    fn no_rows_have_no_error() {
        let summary = Comparison::of(Vec::new()).summary;
        assert_eq!((summary.rows, summary.median_abs_error_pct, summary.p90_abs_error_pct), (0, None, None));
    }

    /// The definition, word by word: try every value in ascending order.
    fn slow_percentile(sorted: &[f64], pct: usize) -> Option<f64> {
        let covers = |value: &&f64| {
            let not_above = sorted.iter().filter(|other| *other <= value).count();
            not_above * 100 >= pct * sorted.len()
        };
        sorted.iter().find(covers).copied()
    }

    #[test]
    fn the_rank_agrees_with_the_definition_for_every_length() {
        for len in 0..40_u32 {
            // Every value but the first stands twice or thrice, so that ties are met.
            let sorted: Vec<f64> = (0..len).map(|i| f64::from((i * 2).div_ceil(5))).collect();
            for pct in [1, 10, 50, 89, 90, 91, 99, 100] {
                assert_eq!(nearest_rank(&sorted, pct), slow_percentile(&sorted, pct), "{len} values, {pct}%");
            }
        }
    }

    #[test]
    fn the_median_halves_the_values() {
        for (sorted, expected) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![1.0, 2.0], Some(1.5)),
            (vec![1.0, 5.0, 9.0], Some(5.0)),
        ] {
            assert_eq!(median(&sorted), expected, "{sorted:?}");
        }
    }
}
