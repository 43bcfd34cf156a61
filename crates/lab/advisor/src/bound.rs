//! Bounds on a run's figures, as users write them: `mean<=20ms`, `p99<=100ms`, `iops>=5000`, `mb_per_s>=200`.

use crate::plan::Performance;
use core::fmt;
use core::str::FromStr;
use raidlab_units::{BytesPerSec, Iops, NanoSpan, ParseUnitError};
use raidlab_workload::{BoundFacts, RunResult};
use serde::{Serialize, Serializer};

raidlab_units::named! {
    /// What is bounded.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Figure {
        Mean = "mean",
        P50 = "p50",
        P90 = "p90",
        P95 = "p95",
        P99 = "p99",
        P999 = "p99.9",
        P9999 = "p99.99",
        P99999 = "p99.999",
        Max = "max",
        Iops = "iops",
        MbPerS = "mb_per_s",
    }
}

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
    #[error(
        "'{figure}' in '{text}' is no figure of a run: percentiles are p50, p90, p95, p99, p99.9, p99.99 and p99.999; other figures are \
         mean, max, iops and mb_per_s"
    )]
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
        let found = self.figure_of(result);
        result.ops.total.requests > 0 && if self.is_upper { found <= self.value } else { found >= self.value }
    }

    /// Whether and by what `result` keeps it.
    pub fn judged(&self, result: &RunResult) -> BoundFacts {
        let found = self.figure_of(result);
        let found_text = match self.figure {
            Figure::Iops => Iops(found).to_string() + " IOPS",
            Figure::MbPerS => BytesPerSec(found * 1e6).to_string(),
            _ => NanoSpan(found.round() as u64).to_string(),
        };
        BoundFacts { bound: self.text.clone(), found, found_text, is_kept: self.is_kept(result) }
    }

    /// The bound that a request takes at most `limit` on average.
    pub fn on_mean(limit: NanoSpan) -> Self {
        Self { text: format!("mean<={limit}"), figure: Figure::Mean, is_upper: true, value: limit.0 as f64 }
    }

    /// Whether it keeps latency from above, which is what a highest load can be found for.
    pub fn limits_latency(&self) -> bool {
        self.is_upper && !matches!(self.figure, Figure::Iops | Figure::MbPerS)
    }

    /// Whether it is one on the mean.
    pub fn is_on_mean(&self) -> bool {
        self.figure == Figure::Mean
    }

    /// What is bounded: `p99`.
    pub const fn figure_name(&self) -> &'static str {
        self.figure.name()
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value of the bound, in nanoseconds, requests per second or 10^6 bytes per second.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// What is bounded, of `result`, in the unit of [`Bound::value`].
    pub fn figure_of(&self, result: &RunResult) -> f64 {
        self.figure_in(&Performance::of(result))
    }

    /// The same of what a simulation found.
    pub fn figure_in(&self, performance: &Performance) -> f64 {
        let tail = &performance.tail;
        match self.figure {
            Figure::Mean => performance.lat_ns_mean,
            Figure::P50 => tail.lat_ns_p50 as f64,
            Figure::P90 => tail.lat_ns_p90 as f64,
            Figure::P95 => tail.lat_ns_p95 as f64,
            Figure::P99 => tail.lat_ns_p99 as f64,
            Figure::P999 => tail.lat_ns_p999 as f64,
            Figure::P9999 => tail.lat_ns_p9999 as f64,
            Figure::P99999 => tail.lat_ns_p99999 as f64,
            Figure::Max => tail.lat_ns_max as f64,
            Figure::Iops => performance.iops,
            Figure::MbPerS => performance.bytes_per_sec / 1e6,
        }
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl schemars::JsonSchema for Bound {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bound".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "A bound as it was given, such as p99<=2ms" })
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
        let figure = Figure::named(name)
            .ok_or_else(|| BoundError::UnknownFigure { text: text.into(), figure: name.into() })?;
        let value = match figure {
            Figure::Iops | Figure::MbPerS => value
                .parse()
                .map_err(|_| BoundError::NotANumber { text: text.into(), value: value.into() })?,
            _ => value.parse::<NanoSpan>()?.get() as f64,
        };
        Ok(Self { text: text.trim().into(), figure, is_upper, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_workload::{Metric, World};

    /// 100 requests per second of 8 KiB, 1.25 ms on average and 3 ms at the 99th percentile.
    fn example_result() -> RunResult {
        let mut result = RunResult::unmeasured(World::Simulated, "any".into(), "any".into(), Metric::Iops);
        let total = &mut result.ops.total;
        (total.requests, total.iops, total.bytes_per_sec) = (100, Iops(100.0), BytesPerSec(819_200.0));
        (total.lat_ns_mean, total.lat_ns_p99) = (1.25e6, 3_000_000);
        result
    }

    #[test]
    fn bounds_are_checked_in_both_directions() {
        let result = example_result();
        let rows = [
            ("mean<=2ms", true),
            ("mean <= 1ms", false),
            ("p99<=3ms", true),
            ("p99>=4ms", false),
            ("p99.999<=0ns", true),
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
        let mut result = example_result();
        result.ops.total.requests = 0;
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
