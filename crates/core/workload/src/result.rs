//! The one result type: what a run was, and what was measured in it.
//!
//! [`Measurement`] is what a driver counted, with full histograms; [`RunResult`] is the record that is stored,
//! compared and shown, whatever world it came from. Times are nanoseconds, sizes bytes, and the names say so.

use crate::histogram::LatencyHistogram;
use raidlab_units::{ByteCount, BytesPerSec, Iops, NanoSpan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a run took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum World {
    /// On storage as it is: a file or a block device.
    Measured,
    /// On a raidlab array over real members.
    Array,
    /// In virtual time on modelled members.
    Simulated,
}

/// The figure by which a workload is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Requests per second.
    Iops,
    /// 10^6 bytes per second.
    MbPerS,
}

/// What a driver counted for one direction, within the measured window only.
#[derive(Clone, Debug, Default)]
pub struct OpStats {
    /// Requests completed without error.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: ByteCount,
    /// Requests that failed.
    pub errors: u64,
    /// Total latency of the successful ones, from the (intended) start to completion.
    pub lat: LatencyHistogram,
}

/// What a driver counted in the measured window: ramp and drain are not in it.
#[derive(Clone, Debug, Default)]
pub struct Measurement {
    /// Length of the window.
    pub window: NanoSpan,
    /// Reads.
    pub read: OpStats,
    /// Writes.
    pub write: OpStats,
}

/// The figures of one direction, as stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpSummary {
    /// Requests completed without error in the window.
    pub requests: u64,
    /// Requests that failed in the window.
    pub errors: u64,
    /// Requests per second.
    pub iops: Iops,
    /// Bytes per second.
    pub bytes_per_sec: BytesPerSec,
    /// Mean total latency.
    pub lat_ns_mean: f64,
    /// Smallest total latency.
    pub lat_ns_min: u64,
    /// Median total latency.
    pub lat_ns_p50: u64,
    /// 99th percentile of total latency.
    pub lat_ns_p99: u64,
    /// 99.9th percentile of total latency.
    pub lat_ns_p999: u64,
    /// Largest total latency.
    pub lat_ns_max: u64,
}

/// What is known of the array that a run was on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArrayFacts {
    /// RAID level as the user writes it: `0`, `5`, `10`.
    pub level: String,
    /// Number of members.
    pub members: u16,
    /// Model or kind of the members: a catalogue id, or `file`.
    pub member_kind: String,
    /// Controller: a catalogue id, or `raidlab` for the software array.
    pub controller: String,
    /// Length of a strip.
    pub strip_bytes: ByteCount,
    /// `write-through` or `write-back`.
    pub write_policy: String,
    /// What the host sees.
    pub usable_bytes: ByteCount,
    /// All members together.
    pub raw_bytes: ByteCount,
    /// Any set of this many members may fail.
    pub failures_survived_always: u16,
    /// The luckiest set of members that may fail.
    pub failures_survived_at_best: u16,
}

/// What the run cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostFacts {
    /// Processor time of this process per host I/O, where it was measured.
    pub cpu_ns_per_io: Option<f64>,
    /// Member reads in the whole run, where there are members.
    pub member_reads: Option<u64>,
    /// Member writes in the whole run, where there are members.
    pub member_writes: Option<u64>,
    /// Wall-clock time of the whole run.
    pub wall_ns: u64,
}

/// One run: what it was and what was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Where it took place.
    pub world: World,
    /// What was measured, for people: a path, or an array in words.
    pub target: String,
    /// The array, if it was one.
    pub array: Option<ArrayFacts>,
    /// Name of the workload.
    pub workload: String,
    /// How the workload is judged.
    pub metric: Metric,
    /// Requests in flight.
    pub iodepth: u32,
    /// The seed that everything random came from.
    pub seed: u64,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Reads.
    pub read: OpSummary,
    /// Writes.
    pub write: OpSummary,
    /// Both together.
    pub total: OpSummary,
    /// What it cost.
    pub cost: CostFacts,
    /// Further settings, by name.
    pub settings: BTreeMap<String, String>,
}
