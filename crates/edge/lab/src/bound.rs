//! Bounds on a run's figures, as people write them: `mean<=20ms`, `p99<=100ms`, `iops>=5000`, `mb_per_s>=200`.

use raidlab_units::{NanoSpan, ParseUnitError};
use raidlab_workload::RunResult;
use std::fmt;
use std::str::FromStr;

/// What is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    Mean,
    P99,
    Max,
    Iops,
    MbPerS,
}

const FIGURES: [(&str, Figure); 5] = [
    ("mean", Figure::Mean),
    ("p99", Figure::P99),
    ("max", Figure::Max),
    ("iops", Figure::Iops),
    ("mb_per_s", Figure::MbPerS),
];

/// A bound: a figure of reads and writes together, a direction and a value.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    text: String,
    figure: Figure,
    is_upper: bool,
    /// In the figure's unit: nanoseconds, requests per second or 10^6 bytes per second.
    value: f64,
}

/// Why a text is no bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BoundError {
    /// There is no `<=` or `>=`.
    #[error("'{text}' has neither <= nor >=: write a bound such as mean<=20ms or iops>=5000")]
    NoRelation {
        /// What was given.
        text: String,
    },
    /// The left side is no figure.
    #[error("'{figure}' in '{text}' is no figure: write one of mean, p99, max, iops, mb_per_s")]
    UnknownFigure {
        /// What was given.
        text: String,
        /// Its left side.
        figure: String,
    },
    /// The right side is no time.
    #[error(transparent)]
    Time(#[from] ParseUnitError),
    /// The right side is no number.
    #[error("'{value}' in '{text}' is no number")]
    NotANumber {
        /// What was given.
        text: String,
        /// Its right side.
        value: String,
    },
}

impl Bound {
    /// Whether `result` keeps the bound. A run without a single request keeps none.
    pub fn is_kept(&self, result: &RunResult) -> bool {
        let total = &result.total;
        let found = match self.figure {
            Figure::Mean => total.lat_ns_mean,
            Figure::P99 => total.lat_ns_p99 as f64,
            Figure::Max => total.lat_ns_max as f64,
            Figure::Iops => total.iops.0,
            Figure::MbPerS => total.bytes_per_sec.mb_per_s(),
        };
        total.requests > 0 && if self.is_upper { found <= self.value } else { found >= self.value }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl FromStr for Bound {
    type Err = BoundError;

    /// # Errors
    /// [`BoundError`] for text without a relation, with an unknown figure or a value of the wrong kind.
    fn from_str(text: &str) -> Result<Self, BoundError> {
        let parts = text.split_once("<=").map(|parts| (parts, true));
        let parts = parts.or_else(|| text.split_once(">=").map(|parts| (parts, false)));
        let ((name, value), is_upper) = parts.ok_or_else(|| BoundError::NoRelation { text: text.into() })?;
        let (name, value) = (name.trim(), value.trim());
        let figure = FIGURES.iter().find(|(known, _)| *known == name).map(|(_, figure)| *figure);
        let figure =
            figure.ok_or_else(|| BoundError::UnknownFigure { text: text.into(), figure: name.into() })?;
        let value = match figure {
            Figure::Mean | Figure::P99 | Figure::Max => value.parse::<NanoSpan>()?.get() as f64,
            Figure::Iops | Figure::MbPerS => value
                .parse()
                .map_err(|_| BoundError::NotANumber { text: text.into(), value: value.into() })?,
        };
        Ok(Self { text: text.trim().into(), figure, is_upper, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::example_result;

    #[test]
    fn bounds_are_checked_in_both_directions() {
        // The example has 100 requests per second of 8 KiB, 1.25 ms on average and 3 ms at the 99th percentile.
        let result = example_result("database", 100.0);
        let rows = [
            ("mean<=2ms", true),
            ("mean <= 1ms", false),
            ("p99<=3ms", true),
            ("p99>=4ms", false),
            ("iops>=100", true),
            ("iops>=100.5", false),
            ("mb_per_s>=0.8", true),
            ("mb_per_s<=0.8", false),
        ];
        for (text, kept) in rows {
            assert_eq!(text.parse::<Bound>().unwrap().is_kept(&result), kept, "{text}");
        }
    }

    #[test]
    fn a_run_without_requests_keeps_no_bound() {
        let mut result = example_result("database", 100.0);
        result.total.requests = 0;
        assert!(!"mean<=1h".parse::<Bound>().unwrap().is_kept(&result));
    }

    #[test]
    fn what_is_no_bound_is_told() {
        assert!(matches!("mean=2ms".parse::<Bound>(), Err(BoundError::NoRelation { .. })));
        assert!(matches!("median<=2ms".parse::<Bound>(), Err(BoundError::UnknownFigure { .. })));
        assert!(matches!("mean<=2".parse::<Bound>(), Err(BoundError::Time(_))));
        assert!(matches!("iops>=many".parse::<Bound>(), Err(BoundError::NotANumber { .. })));
    }
}
