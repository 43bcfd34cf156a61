//! Results of other load tools as runs, so that they can be compared with raidlab's own.
//!
//! ```text
//! fio --output-format=terse ─► terse.rs ┐
//! fio --output-format=json or json+ ────┴► fio.rs ──┐
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
mod terse;

pub use fio::{fio, is_fio};
pub use iometer::{iometer, is_iometer};
pub use latency::{is_latency_table, latency_tables};
pub use others::{other_tool, others};

use raidlab_workload::{OpSummary, RunResult};

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

/// The percentiles that a run shows and a file may not have.
fn missing_percentiles(op: &OpSummary) -> Option<String> {
    let all = [
        ("50", op.lat_ns_p50),
        ("90", op.lat_ns_p90),
        ("99", op.lat_ns_p99),
        ("99.9", op.lat_ns_p999),
        ("99.99", op.lat_ns_p9999),
        ("99.999", op.lat_ns_p99999),
    ];
    let missing: Vec<&str> = all.iter().filter(|(_, ns)| *ns == 0).map(|(name, _)| *name).collect();
    (op.requests > 0 && !missing.is_empty()).then(|| format!("percentiles {}", missing.join(", ")))
}

#[cfg(test)]
mod tests;
