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

impl World {
    /// The word for it in tables and files: `measured`, `array`, `simulated`.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Array => "array",
            Self::Simulated => "simulated",
        }
    }
}

impl Metric {
    /// The unit for tables: `IOPS` or `MB/s`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerS => "MB/s",
        }
    }
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
    /// Mean total latency, exact.
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
    /// The distribution of total latency at the steps of [`CURVE_PCT`], for charts; empty when nothing was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lat_curve: Vec<LatencyPoint>,
}

/// One point of a latency distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Share of the requests that took no longer, in percent.
    pub pct: f64,
    /// How long they took at most.
    pub lat_ns: u64,
}

/// Percentiles at which a latency distribution is kept.
pub const CURVE_PCT: [f64; 19] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.99,
    100.0,
];

/// The figures of a measurement: each direction, and both together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summaries {
    /// Reads.
    pub read: OpSummary,
    /// Writes.
    pub write: OpSummary,
    /// Both together.
    pub total: OpSummary,
}

impl OpStats {
    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.lat.merge(&other.lat);
    }
}

impl OpSummary {
    /// Returns the figures of `stats`, counted in a window of the length `window`.
    pub fn of(stats: &OpStats, window: NanoSpan) -> Self {
        let lat = &stats.lat;
        let curve = |pct| LatencyPoint { pct, lat_ns: lat.percentile_ns(pct) };
        Self {
            requests: stats.requests,
            errors: stats.errors,
            iops: Iops::of(stats.requests, window),
            bytes_per_sec: BytesPerSec::of(stats.bytes, window),
            lat_ns_mean: lat.mean_ns(),
            lat_ns_min: lat.min_ns(),
            lat_ns_p50: lat.percentile_ns(50.0),
            lat_ns_p99: lat.percentile_ns(99.0),
            lat_ns_p999: lat.percentile_ns(99.9),
            lat_ns_max: lat.max_ns(),
            lat_curve: if lat.count() == 0 { Vec::new() } else { CURVE_PCT.map(curve).to_vec() },
        }
    }
}

impl Measurement {
    /// Adds what a worker counted that ran at the same time: counts and histograms add up.
    ///
    /// Workers that start together have windows of the same length. Where they differ (one reached its
    /// `max_requests` first) the longest counts, so the merged rate is never above what was delivered.
    pub fn merge(&mut self, other: &Self) {
        self.window = self.window.max(other.window);
        self.read.merge(&other.read);
        self.write.merge(&other.write);
    }

    /// Returns the figures of each direction and of both together.
    pub fn summaries(&self) -> Summaries {
        let mut total = self.read.clone();
        total.merge(&self.write);
        Summaries {
            read: OpSummary::of(&self.read, self.window),
            write: OpSummary::of(&self.write, self.window),
            total: OpSummary::of(&total, self.window),
        }
    }
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
    /// Host reads in the whole run, ramp and drain too: what `member_reads` is to be divided by.
    #[serde(default)]
    pub host_reads: Option<u64>,
    /// Host writes in the whole run, ramp and drain too.
    #[serde(default)]
    pub host_writes: Option<u64>,
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

impl ArrayFacts {
    /// The configuration in a few words: `RAID 5 write-back`.
    pub fn label(&self) -> String {
        format!("RAID {} {}", self.level, self.write_policy)
    }

    /// Share of the members' space that the host sees, from 0 to 1; zero for an array without space.
    pub fn usable_fraction(&self) -> f64 {
        match self.raw_bytes.get() {
            0 => 0.0,
            raw_bytes => self.usable_bytes.get() as f64 / raw_bytes as f64,
        }
    }
}

impl CostFacts {
    /// Member reads and writes per host I/O over the whole run, where all of them were counted.
    pub fn member_ios_per_host_io(&self) -> Option<f64> {
        let member_ios = self.member_reads? + self.member_writes?;
        let host_ios = self.host_reads? + self.host_writes?;
        (host_ios > 0).then(|| member_ios as f64 / host_ios as f64)
    }
}

impl RunResult {
    /// The figure that the workload is judged by, of reads and writes together.
    pub fn metric_value(&self) -> f64 {
        match self.metric {
            Metric::Iops => self.total.iops.0,
            Metric::MbPerS => self.total.bytes_per_sec.mb_per_s(),
        }
    }

    /// [`RunResult::metric_value`] with its unit, for people: `1727 IOPS`, `85.3 MB/s`.
    pub fn metric_text(&self) -> String {
        match self.metric {
            Metric::Iops => format!("{} IOPS", self.total.iops),
            Metric::MbPerS => self.total.bytes_per_sec.to_string(),
        }
    }

    /// What was measured in a few words: the array's level and write policy, or the target as it is.
    pub fn configuration_label(&self) -> String {
        self.array.as_ref().map_or_else(|| self.target.clone(), ArrayFacts::label)
    }

    /// Mean total latency of reads and writes together.
    pub fn lat_mean(&self) -> NanoSpan {
        NanoSpan(self.total.lat_ns_mean.round() as u64)
    }

    /// Takes in the figures and the window of `measurement`.
    pub fn set_measurement(&mut self, measurement: &Measurement) {
        let Summaries { read, write, total } = measurement.summaries();
        self.window_ns = measurement.window.get();
        (self.read, self.write, self.total) = (read, write, total);
    }
}
