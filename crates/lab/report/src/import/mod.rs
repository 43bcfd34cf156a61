//! Results of other load tools as runs, so that they can be compared with raidlab's own.
//!
//! ```text
//! fio --output-format=terse ─► terse.rs ┐
//! fio --output-format=json or json+ ────┴► fio.rs ──┐  (snapshots.rs: reports of one fio while it runs)
//!                                                  ├─► ForeignResults: a RunResult for each job or test
//! Iometer's results file (.csv) ─► iometer.rs ─────┤
//! diskspd, elbencho, vdbench, sysbench, ... ─► others ┤
//! biolatency, biosnoop of bpftrace ─► latency.rs ─────┘
//! ```
//! A figure that the file lacks stays zero, which all comparisons and displays treat as "not measured", and the run's
//! setting `lacks` names it. Nothing is guessed: no percentile is derived from a mean, and none of reads and writes
//! together from those of each. The setting `measured by` names the program.
//!
//! Nothing here panics, whatever the bytes. [`crate::export`] is the inverse.

mod fio;
mod iometer;
mod latency;
mod others;
mod snapshots;
mod terse;

pub use fio::{fio, is_fio};
pub use iometer::{iometer, is_iometer};
pub use latency::{is_latency_table, latency_tables};
pub use others::{other_tool, others};

use crate::known::has_moved;
use raidlab_workload::{LatencyBin, LatencyPoint, OpSummary, RunResult, Summaries};

/// What a file of results holds.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignResults {
    /// The program that measured, with its version.
    pub program: String,
    /// What the file calls itself; may be empty.
    pub title: String,
    /// Its runs.
    pub runs: Vec<ForeignRun>,
    /// What is to be known of all of them: sentences.
    pub notes: Vec<String>,
}

/// A run, and when it began.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignRun {
    /// The run.
    pub run: RunResult,
    /// Its start in milliseconds since 1970; that of its results where no start is told, and none where the file has no time.
    pub started_at_unix_ms: Option<u64>,
}

/// Why a file can't be taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignError {
    /// It is not whole, or something else.
    #[error("{0}")]
    Malformed(String),
    /// It has no results.
    #[error("there are no results in it")]
    Empty,
}

/// What no figure of a storage device reaches, in any unit: what does is damage, and would not come back from the store.
const FIGURE_MAX: f64 = 1e15;

/// A figure: finite, not negative, and none that no device reaches. Programs print `NaN` and `-1` of what they don't know.
fn figure(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|it| (0.0..FIGURE_MAX).contains(it))
}

/// The target as it is called here: with who measured it, since runs of one workload on one target are taken for repeats.
fn target_of(name: &str, program: &str) -> String {
    if name.is_empty() { format!("storage ({program})") } else { format!("{name} ({program})") }
}

/// Mean and deviation of two groups of requests together; percentiles only where one of the two is empty.
fn pooled(read: &OpSummary, write: &OpSummary) -> OpSummary {
    if write.requests == 0 {
        return OpSummary { errors: read.errors + write.errors, ..read.clone() };
    }
    if read.requests == 0 {
        return OpSummary { errors: read.errors + write.errors, ..write.clone() };
    }
    let (m, n) = (read.requests as f64, write.requests as f64);
    let mean = (m * read.lat_ns_mean + n * write.lat_ns_mean) / (m + n);
    let square = |op: &OpSummary| op.lat_ns_stddev.powi(2) + (op.lat_ns_mean - mean).powi(2);
    OpSummary {
        requests: read.requests.saturating_add(write.requests),
        errors: read.errors + write.errors,
        iops: raidlab_units::Iops(read.iops.0 + write.iops.0),
        bytes_per_sec: raidlab_units::BytesPerSec(read.bytes_per_sec.0 + write.bytes_per_sec.0),
        lat_ns_mean: mean,
        lat_ns_stddev: ((m * square(read) + n * square(write)) / (m + n)).sqrt(),
        lat_ns_min: read.lat_ns_min.min(write.lat_ns_min),
        lat_ns_max: read.lat_ns_max.max(write.lat_ns_max),
        ..OpSummary::default()
    }
}

/// Sets the distribution of a latency that is told in classes: their ends in nanoseconds, in rising order, with their requests.
fn set_classes(summary: &mut OpSummary, classes: &[(u64, u64)]) {
    let requests: u64 = classes.iter().map(|(_, requests)| requests).sum();
    let mut seen = 0;
    for (lat_ns, requests_in) in classes.iter().copied().filter(|(_, requests)| *requests > 0) {
        seen += requests_in;
        let pct = seen as f64 / requests as f64 * 100.0;
        summary.lat_curve.push(LatencyPoint { pct, lat_ns });
        summary.lat_bins.push(LatencyBin { lat_ns, requests: requests_in });
    }
}

/// The percentiles that a run shows and a file may not have, as the notes of what it lacks: those of `total`, and whether reads and
/// writes have them apart.
fn missing_percentiles(ops: &Summaries) -> Vec<String> {
    /// What it is called, and where it stands.
    type Percentile = (&'static str, fn(&OpSummary) -> u64);
    let all: [Percentile; 6] = [
        ("50", |op| op.lat_ns_p50),
        ("90", |op| op.lat_ns_p90),
        ("99", |op| op.lat_ns_p99),
        ("99.9", |op| op.lat_ns_p999),
        ("99.99", |op| op.lat_ns_p9999),
        ("99.999", |op| op.lat_ns_p99999),
    ];
    let has_apart = |of: fn(&OpSummary) -> u64| {
        let mut moved = [&ops.read, &ops.write].into_iter().filter(|op| has_moved(op)).peekable();
        moved.peek().is_some() && moved.all(|op| of(op) > 0)
    };
    let missing = all.into_iter().filter(|(_, of)| of(&ops.total) == 0);
    let (apart, nowhere): (Vec<_>, Vec<_>) = missing.partition(|(_, of)| has_apart(*of));
    let names = |of: &[Percentile]| {
        let names: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
        (ops.total.requests > 0 && !names.is_empty()).then(|| format!("percentiles {}", names.join(", ")))
    };
    let apart = names(&apart).map(|names| format!("{names} of reads and writes together (each has its own)"));
    apart.into_iter().chain(names(&nowhere)).collect()
}

#[cfg(test)]
mod tests;
