//! From runs to a recommendation: which array serves a workload best, by how much, and why.
//!
//! ```
//! use raidlab_advisor::Bound;
//!
//! let bound: Bound = "p99<=2ms".parse()?;
//! assert_eq!(bound.to_string(), "p99<=2ms");
//! assert!("p99<2ms".parse::<Bound>().is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! runs of one workload in one world
//!   └─ configurations (level, write policy, members) ─ each judged at one load ─ ranked ─► Verdict
//! ```
//! - **Load.** A configuration is judged at the highest load whose mean latency stays within a limit (20 ms, as in the
//!   `FAStT` evaluation). If no load does, it is judged at the lowest, and ranks behind all that keep the limit.
//! - **Figure.** The workload's metric decides. Results within 2 % of the best count as equal, and so do results that
//!   repeats do not tell apart ([`significance::Rounds`], p >= 0.05), or of single runs the spread within them
//!   ([`BatchMeans`], p >= 0.05), which are called *too close to call*. Of equals
//!   the one with more usable capacity wins, then the one that survives more failures, then write-through.
//! - **Recommendation.** Only arrays that survive at least one failure are recommended; the fastest without redundancy
//!   is named, too. Runs with failed requests are listed but never recommended, nor are runs whose write cache was still
//!   filling: they tell of the cache, not of the array.
//! - The reason is built from the figures: member I/Os per host I/O show the cost of parity and mirrors.
//!
//! Real and simulated runs are judged separately. Everything here is pure, and its order depends only on the runs.
//! Sources: the evaluations `fastt600-2004` (20 ms) and `md1200-2011` (recommendation per application).
#![forbid(unsafe_code)]

mod batches;
mod bound;
mod claim;
mod compared;
mod comparison;
mod contrast;
pub mod correction;
mod judge;
mod noise;
pub mod plan;
mod rank;
mod reason;
pub mod risk;
mod search;
pub mod significance;
pub mod why;

pub use batches::BatchMeans;
pub use bound::{Bound, BoundError};
pub use claim::{CLAIM_TOLERANCE_PCT, ClaimKind, ClaimMeasure, ClaimRow, ClaimSummary, ClaimVerdict};
pub use compared::{ComparedCell, ComparedRow, ComparedTable};
pub use comparison::{Comparison, ComparisonRow, ComparisonSummary, PlaceSummary, unit_of};
pub use contrast::{Contrast, ContrastCell, ContrastFigure, ContrastValue, RunGroup};
pub use judge::{LAT_MEAN_LIMIT, verdicts, verdicts_within};
pub use noise::{Noise, noise};
pub use rank::kendall_tau;
pub use search::{PatternSearch, SearchConfig, SearchRange};

use raidlab_units::{BytesPerSec, Iops};
use raidlab_workload::{ArrayFacts, Metric, OfferedLoad, World};
use serde::{Deserialize, Serialize};

/// What is recommended for one workload in one world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Verdict {
    /// Name of the workload.
    pub workload: String,
    /// Where the runs took place: real arrays or simulated ones.
    pub world: World,
    /// How the workload is judged.
    pub metric: Metric,
    /// Limit of the mean latency that sets the depth judged.
    pub lat_ns_mean_limit: u64,
    /// The best configuration that survives a failure; `None` when no such one was run without errors.
    pub recommended: Option<Choice>,
    /// Labels of those that survive a failure, too, and that chance may set apart from the best, by repeats or else by the spread
    /// within single runs: which of them is faster is too close to call, and the recommended one is what costs least of them.
    #[serde(default)]
    pub too_close: Vec<String>,
    /// The best such configuration of another level, or of another write policy when there is one level only.
    pub runner_up: Option<Choice>,
    /// The best configuration that survives no failure.
    pub fastest_without_redundancy: Option<Choice>,
    /// Why, in sentences.
    pub reason: String,
    /// Every configuration that was run, best first, the recommended one among them.
    pub alternatives: Vec<Alternative>,
}

/// A configuration with the figures it is judged by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Choice {
    /// In a few words, different for each configuration of a verdict: `RAID 5 write-back`.
    pub label: String,
    /// The array.
    pub array: ArrayFacts,
    /// Requests in flight at which it is judged.
    pub iodepth: u32,
    /// Requests per second of an open loop, whose iodepth is but a limit.
    #[serde(default)]
    pub arrivals_per_sec: Option<f64>,
    /// Whether the mean latency at that depth stays within the limit.
    pub keeps_limit: bool,
    /// The workload's metric, in its unit; of repeats the one in the middle.
    pub metric_value: f64,
    /// It in each run at that depth, in their order.
    #[serde(default)]
    pub metric_repeats: Vec<f64>,
    /// What the batches of a single run tell of its metric; none of repeats, and of windows that are too short.
    #[serde(default)]
    pub metric_batches: Option<BatchMeans>,
    /// Half the width of the 95 % interval of the metric: of repeats by the noise of all configurations, of a single run by its
    /// batches.
    #[serde(default)]
    pub metric_half_width_95: Option<f64>,
    /// Requests per second.
    pub iops: Iops,
    /// Bytes per second.
    pub bytes_per_sec: BytesPerSec,
    /// Mean total latency.
    pub lat_ns_mean: f64,
    /// 99th percentile of total latency.
    pub lat_ns_p99: u64,
    /// Requests that failed in the window.
    pub errors: u64,
    /// Whether its write cache was still filling, which makes any array fast: it is not ranked.
    #[serde(default)]
    pub is_filling: bool,
    /// Share of the host's requests that write, from 0 to 1.
    pub write_share: f64,
    /// Mean length of a host request.
    pub request_bytes_mean: f64,
    /// Member reads and writes per host I/O, where they were counted.
    pub member_ios_per_host_io: Option<f64>,
}

/// A row of the table of configurations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Alternative {
    /// The configuration.
    pub choice: Choice,
    /// Its metric over that of the recommended one, or over the first row's when none is recommended; `None` when
    /// that is zero.
    pub metric_ratio: Option<f64>,
}

impl Verdict {
    /// The answer in a few words: what is recommended, any of those that chance may set apart and what one of them is better in, or
    /// nothing.
    pub fn answer(&self) -> String {
        match (&self.recommended, &self.too_close[..]) {
            (None, _) => "nothing".to_owned(),
            (Some(choice), []) => choice.label.clone(),
            (Some(choice), others) => {
                let labels: Vec<&str> = others.iter().map(String::as_str).collect();
                let all = format!("any of {}, {}", choice.label, labels.join(", "));
                format!("{all}; {} {}", choice.label, self.ahead_in(choice, &labels))
            }
        }
    }

    /// What `choice` has of all that are as fast.
    fn ahead_in(&self, choice: &Choice, others: &[&str]) -> &'static str {
        let of_them = || {
            let all = self.alternatives.iter().map(|row| &row.choice);
            all.filter(|one| others.contains(&one.label.as_str())).map(|one| &one.array)
        };
        let own = &choice.array;
        if of_them().all(|other| other.usable_fraction() < own.usable_fraction()) {
            "leaves most space"
        } else if of_them().all(|other| other.failures_survived_always < own.failures_survived_always) {
            "survives most failures"
        } else {
            "asks for least trust"
        }
    }
}

impl Choice {
    /// The load at which it is judged.
    pub fn offered_load(&self) -> OfferedLoad {
        OfferedLoad::of(self.iodepth, self.arrivals_per_sec, None)
    }

    /// Whether any one member may fail.
    pub fn is_redundant(&self) -> bool {
        self.array.failures_survived_always > 0
    }

    /// Whether it can be ranked at all.
    pub(crate) fn is_sound(&self) -> bool {
        self.errors == 0 && self.metric_value > 0.0 && !self.is_filling
    }

    /// The workload's metric with its unit, for people; with half the width of its 95 % interval, where that is known.
    pub fn metric_text(&self, metric: Metric) -> String {
        let text = match metric {
            Metric::Iops => format!("{} IOPS", self.iops),
            Metric::MbPerS => self.bytes_per_sec.to_string(),
        };
        match self.metric_half_width_95 {
            Some(half) => format!("{text} ± {half:.0}"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests;
