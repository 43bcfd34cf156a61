//! The one result type: what a run was, and what was measured in it.
//!
//! [`Measurement`] is what a driver counted, with full histograms; [`RunResult`] is the record that is stored,
//! compared and shown, whatever world it came from. Times are nanoseconds, sizes bytes, and the names say so.

use crate::access::LineFacts;
use crate::bins::{self, LatencyBin};
use crate::histogram::LatencyHistogram;
use crate::hosts::HostsFacts;
use crate::network::NetworkFacts;
use crate::program::{BonniePhase, PhaseFigures, StreamsFigures};
use crate::series::{RunSeries, Series};
use crate::split::{LatencySplit, SplitStats};
use crate::steady::{self, SteadyState};
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpStats {
    /// Requests completed without error.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: ByteCount,
    /// Requests that failed.
    pub errors: u64,
    /// Total latency of the successful ones, from the (intended) start to completion.
    pub lat: LatencyHistogram,
    /// The two parts of that latency, where they were told apart.
    pub split: Option<Box<SplitStats>>,
}

/// What a driver counted in the measured window: ramp and drain are not in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Length of the window.
    pub window: NanoSpan,
    /// Reads.
    pub read: OpStats,
    /// Writes.
    pub write: OpStats,
    /// Both, interval by interval.
    pub series: Series,
    /// Each part of a mix; empty for a workload of one part. The figures above are of all of them.
    pub parts: Vec<PartMeasurement>,
    /// How late requests of open loops started; none without any.
    pub lag: Option<LagStats>,
}

/// What a driver counted of one part of a mix.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PartMeasurement {
    /// Its name.
    pub name: String,
    /// Reads.
    pub read: OpStats,
    /// Writes.
    pub write: OpStats,
    /// How late its requests started, in an open loop.
    pub lag: Option<LagStats>,
}

/// How late the requests of open loops started, of those that started in the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LagStats {
    /// From arrival to start. It is in the latencies.
    pub lag: LatencyHistogram,
    /// From start to completion, of those that completed in the window: latencies without the lag.
    pub service: LatencyHistogram,
    /// Requests that arrived until the end of the window and never started.
    pub unserved: u64,
}

/// How late the requests of open loops started, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LagSummary {
    /// Requests that started in the window.
    pub started: u64,
    /// Requests that arrived until its end and never started.
    pub unserved: u64,
    /// Mean time from arrival to start, which is in the latencies.
    pub lag_ns_mean: f64,
    /// Its median.
    #[serde(default)]
    pub lag_ns_p50: u64,
    /// Its 99th percentile.
    pub lag_ns_p99: u64,
    /// The longest.
    pub lag_ns_max: u64,
    /// Mean time from start to completion; zero for runs from before it was kept.
    #[serde(default)]
    pub service_ns_mean: f64,
    /// Its median.
    #[serde(default)]
    pub service_ns_p50: u64,
    /// Its 99th percentile.
    #[serde(default)]
    pub service_ns_p99: u64,
    /// The longest.
    #[serde(default)]
    pub service_ns_max: u64,
}

/// The figures of one part of a mix, as stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PartSummary {
    /// Its name.
    pub name: String,
    /// Reads.
    pub read: OpSummary,
    /// Writes.
    pub write: OpSummary,
    /// Both together.
    pub total: OpSummary,
    /// How late its requests started, in an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagSummary>,
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
    /// Standard deviation of total latency.
    #[serde(default)]
    pub lat_ns_stddev: f64,
    /// Smallest total latency.
    pub lat_ns_min: u64,
    /// Median total latency.
    pub lat_ns_p50: u64,
    /// 90th percentile of total latency.
    #[serde(default)]
    pub lat_ns_p90: u64,
    /// 99th percentile of total latency.
    pub lat_ns_p99: u64,
    /// 99.9th percentile of total latency.
    pub lat_ns_p999: u64,
    /// 99.99th percentile of total latency.
    #[serde(default)]
    pub lat_ns_p9999: u64,
    /// 99.999th percentile of total latency.
    #[serde(default)]
    pub lat_ns_p99999: u64,
    /// Largest total latency.
    pub lat_ns_max: u64,
    /// The distribution of total latency at the steps of [`CURVE_PCT`], for charts; empty when nothing was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lat_curve: Vec<LatencyPoint>,
    /// How many requests took how long, in bins at most 12.5 % wide; those without a request are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lat_bins: Vec<LatencyBin>,
    /// The two parts of total latency, where they were told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<LatencySplit>,
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
pub const CURVE_PCT: [f64; 20] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.99,
    99.999, 100.0,
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
    /// Returns figures of nothing whose histogram is allocated already.
    pub(crate) fn allocated() -> Self {
        Self { lat: LatencyHistogram::allocated(), ..Self::default() }
    }

    /// Counts `times` requests of `bytes` each that ended after `lat`, or failed without one.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u32, lat: Option<NanoSpan>, times: u64) {
        if let Some(lat) = lat {
            self.requests += times;
            self.bytes += ByteCount(u64::from(bytes) * times);
            self.lat.record_many_ns(lat.get(), times);
        } else {
            self.errors += times;
        }
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.lat.merge(&other.lat);
        SplitStats::merge(&mut self.split, other.split.as_deref());
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
            lat_ns_stddev: lat.stddev_ns(),
            lat_ns_min: lat.min_ns(),
            lat_ns_p50: lat.percentile_ns(50.0),
            lat_ns_p90: lat.percentile_ns(90.0),
            lat_ns_p99: lat.percentile_ns(99.0),
            lat_ns_p999: lat.percentile_ns(99.9),
            lat_ns_p9999: lat.percentile_ns(99.99),
            lat_ns_p99999: lat.percentile_ns(99.999),
            lat_ns_max: lat.max_ns(),
            lat_curve: if lat.count() == 0 { Vec::new() } else { CURVE_PCT.map(curve).to_vec() },
            lat_bins: bins::coarse(lat.iter(), lat.max_ns()),
            split: stats.split.as_ref().map(|split| split.summary()),
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
        for theirs in &other.parts {
            match self.parts.iter_mut().find(|part| part.name == theirs.name) {
                Some(part) => part.merge(theirs),
                None => self.parts.push(theirs.clone()),
            }
        }
        self.lag = LagStats::merged(self.lag.take(), other.lag.as_ref());
        self.series.merge(&other.series);
    }

    /// Returns the figures of each direction and of both together.
    pub fn summaries(&self) -> Summaries {
        Summaries::of(&self.read, &self.write, self.window)
    }

    /// Returns the figures of each part of a mix.
    pub fn part_summaries(&self) -> Vec<PartSummary> {
        let summary = |part: &PartMeasurement| {
            let Summaries { read, write, total } = Summaries::of(&part.read, &part.write, self.window);
            let lag = part.lag.as_ref().map(LagStats::summary);
            PartSummary { name: part.name.clone(), read, write, total, lag }
        };
        self.parts.iter().map(summary).collect()
    }
}

impl Summaries {
    fn of(read: &OpStats, write: &OpStats, window: NanoSpan) -> Self {
        let mut total = read.clone();
        total.merge(write);
        Self {
            read: OpSummary::of(read, window),
            write: OpSummary::of(write, window),
            total: OpSummary::of(&total, window),
        }
    }
}

impl PartMeasurement {
    fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.lag = LagStats::merged(self.lag.take(), other.lag.as_ref());
    }
}

impl LagSummary {
    /// Whether requests waited for their start for longer than they took, on average.
    pub fn is_longer_than_service(&self) -> bool {
        self.service_ns_mean > 0.0 && self.lag_ns_mean > self.service_ns_mean
    }
}

impl LagStats {
    /// Both together; none if there is neither.
    pub(crate) fn merged(own: Option<Self>, other: Option<&Self>) -> Option<Self> {
        let Some(other) = other else { return own };
        let mut own = own.unwrap_or_default();
        own.lag.merge(&other.lag);
        own.service.merge(&other.service);
        own.unserved += other.unserved;
        Some(own)
    }

    /// Returns the figures.
    pub fn summary(&self) -> LagSummary {
        LagSummary {
            started: self.lag.count(),
            unserved: self.unserved,
            lag_ns_mean: self.lag.mean_ns(),
            lag_ns_p50: self.lag.percentile_ns(50.0),
            lag_ns_p99: self.lag.percentile_ns(99.0),
            lag_ns_max: self.lag.max_ns(),
            service_ns_mean: self.service.mean_ns(),
            service_ns_p50: self.service.percentile_ns(50.0),
            service_ns_p99: self.service.percentile_ns(99.0),
            service_ns_max: self.service.max_ns(),
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
    /// Processor time per host I/O, where it was measured: of this process for an array, of the threads that made the
    /// load for storage as it is.
    pub cpu_ns_per_io: Option<f64>,
    /// Processor time per host I/O that the kernel's own threads took for this process beside those, where it was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_threads_cpu_ns_per_io: Option<f64>,
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

/// A part of a run: one phase of Bonnie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// Its name, `block-write`.
    pub name: String,
    /// What was moved, how long it took, and what it cost.
    #[serde(flatten)]
    pub figures: PhaseFigures,
}

/// How a load is made up of targets and workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadFacts {
    /// Targets: files, devices or volumes that each get the load.
    pub targets: u32,
    /// Workers on each target.
    pub workers: u32,
    /// Requests that each worker keeps in flight on each target.
    pub iodepth_per_target: u32,
}

/// What was measured on one target of many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TargetResult {
    /// Its name as it was given.
    pub target: String,
    /// Length of the measured window; shorter than that of the run where the target failed.
    pub window_ns: u64,
    /// Reads.
    pub read: OpSummary,
    /// Writes.
    pub write: OpSummary,
    /// Both together.
    pub total: OpSummary,
    /// Why it was left alone before the end, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the machine did during a run, ramp and drain too, all its processes counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineLoad {
    /// How long it was watched.
    pub watched_ns: u64,
    /// Processors that it has.
    pub cpus: u32,
    /// Share of all processors' time that was busy, from 0 to 1; none where the system does not tell.
    pub cpu_busy: Option<f64>,
    /// Share of it in the kernel, interrupts included.
    pub cpu_system: Option<f64>,
    /// Share of it that interrupts took.
    pub cpu_interrupts: Option<f64>,
    /// Interrupts per second.
    pub interrupts_per_sec: Option<f64>,
    /// Context switches per second.
    pub context_switches_per_sec: Option<f64>,
    /// Processor time of this process, user and system.
    pub process_cpu_ns: Option<u64>,
    /// The part of it that was spent in the kernel.
    #[serde(default)]
    pub process_cpu_system_ns: Option<u64>,
    /// How often the threads that made the load waited, where that was counted.
    pub load_switches_voluntary: Option<u64>,
    /// How often they were made to wait.
    pub load_switches_involuntary: Option<u64>,
    /// The queue of the block device under the target, where there is one.
    pub device: Option<DeviceLoad>,
}

/// What a block device's queue did during a run: the differences of its kernel counters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceLoad {
    /// Kernel name, `sda` or `nvme0n1`.
    pub name: String,
    /// Reads that it ended.
    pub reads: u64,
    /// Writes that it ended.
    pub writes: u64,
    /// Reads that were merged into others before they got to it.
    pub read_merges: u64,
    /// Writes that were merged into others before they got to it.
    pub write_merges: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Mean time of a read in the queue and the device; zero where there was none.
    pub read_ns_mean: f64,
    /// Mean time of a write in the queue and the device; zero where there was none.
    pub write_ns_mean: f64,
    /// Requests in queue and device, on average over the time watched.
    pub in_flight_mean: f64,
    /// Share of the time in which there was any, from 0 to 1.
    pub utilisation: f64,
}

/// What is known of the controllers and volumes that a run was on, where there are several of either.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnclosureFacts {
    /// Each controller, A first.
    pub controllers: Vec<ControllerFacts>,
    /// Share of the window in which the link between two of them was busy, from 0 to 1.
    pub mirror_link_busy: f64,
    /// What the failure of a controller cost, if one failed.
    pub failover: Option<FailoverFacts>,
}

/// One controller of several, and how busy it was: shares of the window, from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControllerFacts {
    /// `A` or `B`.
    pub name: String,
    /// Volumes that it owned when the run began.
    pub volumes: u16,
    /// Its processors.
    pub processors_busy: f64,
    /// Its link to the host.
    pub host_link_busy: f64,
    /// Its link to the members, or that of both.
    pub member_link_busy: f64,
}

/// What the failure of a controller cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FailoverFacts {
    /// Which failed.
    pub controller: String,
    /// When, from the start of the measured window.
    pub after_ns: u64,
    /// How long the other one took to find out.
    pub detection_ns: u64,
    /// Volumes that it had to take over.
    pub volumes: u16,
    /// From the failure until the last of them was served again; none if the run ended before.
    pub pause_ns: Option<u64>,
    /// Requests that were made again.
    pub requests_retried: u64,
    /// Dirty cache blocks that the other one had a copy of, and wrote to the members.
    pub cache_blocks_restored: u64,
    /// Acknowledged data that nobody had a copy of: at most so much is lost.
    pub lost_bytes_max: u64,
    /// Requests of all volumes per second in the window before the failure; none if it began with it.
    pub iops_before: Option<f64>,
    /// The same after the pause; none if the window was over.
    pub iops_after: Option<f64>,
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
    /// Its controllers and volumes, where there are several of either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<EnclosureFacts>,
    /// Name of the workload.
    pub workload: String,
    /// What it asks, line by line; empty for runs from before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<LineFacts>,
    /// How the workload is judged.
    pub metric: Metric,
    /// Requests in flight.
    pub iodepth: u32,
    /// How they are made up, where there is more than one target or worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadFacts>,
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
    /// Each target, where there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetResult>,
    /// Each part of a mix; empty for a workload of one part. The figures above are of all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartSummary>,
    /// How late requests of open loops started; none without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagSummary>,
    /// The window interval by interval; none for runs from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<RunSeries>,
    /// Whether the figure was steady within the window; none where the window is too short to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyState>,
    /// The parts of a run that measures several things one after the other, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseResult>,
    /// Parallel readers, where the run was of such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsFigures>,
    /// What it cost.
    pub cost: CostFacts,
    /// What the machine did meanwhile; none in virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineLoad>,
    /// What was sent over a network and what it cost both sides, where that is what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkFacts>,
    /// The hosts that made the load together, where there were several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsFacts>,
    /// Further figures that have no place above, by name with the unit in it: `passes`, `mean_time_to_loss_years`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
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

impl LoadFacts {
    /// Requests in flight on all targets together.
    pub fn iodepth_total(&self) -> u64 {
        u64::from(self.targets) * u64::from(self.workers) * u64::from(self.iodepth_per_target)
    }
}

impl RunResult {
    /// A run of `workload` on `target`, before anything was measured.
    pub fn unmeasured(world: World, target: String, workload: String, metric: Metric) -> Self {
        Self {
            world,
            target,
            array: None,
            enclosure: None,
            workload,
            lines: Vec::new(),
            metric,
            iodepth: 0,
            load: None,
            seed: 0,
            window_ns: 0,
            read: OpSummary::default(),
            write: OpSummary::default(),
            total: OpSummary::default(),
            targets: Vec::new(),
            parts: Vec::new(),
            lag: None,
            series: None,
            steady: None,
            phases: Vec::new(),
            streams: None,
            cost: CostFacts::default(),
            machine: None,
            network: None,
            hosts: None,
            figures: BTreeMap::new(),
            settings: BTreeMap::new(),
        }
    }

    /// What is to be known of the run before its figures are trusted: sentences.
    pub fn warnings(&self) -> Vec<String> {
        let of_streams = self.streams.iter().flat_map(StreamsFigures::warnings);
        self.unsteady_text().into_iter().chain(self.late_text()).chain(of_streams).collect()
    }

    /// Says so if the run was not steady within its window, with the arithmetic.
    pub fn unsteady_text(&self) -> Option<String> {
        let unsteady = self.steady.as_ref().filter(|steady| !steady.is_steady);
        unsteady.map(|steady| {
            let (workload, depth) = (&self.workload, self.iodepth);
            let arithmetic = steady.arithmetic(self.metric.unit());
            format!("{workload} at iodepth {depth} was not steady within its window, taken as five rounds: {arithmetic}")
        })
    }

    /// Says so if requests waited longer for their start than they took.
    pub fn late_text(&self) -> Option<String> {
        self.lag.filter(LagSummary::is_longer_than_service).map(|lag| {
            let span = |ns: f64| NanoSpan(ns.round() as u64);
            format!(
                "{} at iodepth {}: requests started {} late on average, and took {} from then on: the load was not made as \
                 it was asked for; storage, the iodepth or this machine could not keep up",
                self.workload, self.iodepth, span(lag.lag_ns_mean), span(lag.service_ns_mean)
            )
        })
    }

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

    /// Takes in what parallel readers measured: the run's rate is their aggregate, its window the mean time of a timed read.
    pub fn set_streams(&mut self, streams: StreamsFigures) {
        let bytes: u64 = streams.readers.iter().map(|reader| reader.bytes).sum();
        let requests = bytes.div_ceil(streams.block_bytes.max(1));
        let read = OpStats { requests, bytes: ByteCount(bytes), ..OpStats::default() };
        self.set_measurement(&Measurement { window: streams.mean_time(), read, ..Measurement::default() });
        self.iodepth = streams.readers.len() as u32;
        self.streams = Some(streams);
    }

    /// Takes in the phases of Bonnie. Where there is room for one figure of each direction, it is that of the blocks.
    pub fn set_phases(&mut self, phases: Vec<PhaseResult>) {
        let of = |phase: BonniePhase| {
            let found = phases.iter().find(|result| result.name == phase.name());
            found.map_or_else(PhaseFigures::default, |result| result.figures)
        };
        let stats = |figures: PhaseFigures| OpStats {
            requests: figures.calls,
            bytes: ByteCount(figures.bytes),
            ..OpStats::default()
        };
        let (read, write) = (of(BonniePhase::BlockRead), of(BonniePhase::BlockWrite));
        self.set_measurement(&Measurement {
            window: NanoSpan(read.elapsed_ns + write.elapsed_ns),
            read: stats(read),
            write: stats(write),
            ..Measurement::default()
        });
        self.phases = phases;
    }

    /// The figures of the phase called `name`, if the run has it.
    pub fn phase(&self, name: &str) -> Option<&PhaseFigures> {
        self.phases.iter().find(|phase| phase.name == name).map(|phase| &phase.figures)
    }

    /// Takes in the figures and the window of `measurement`.
    pub fn set_measurement(&mut self, measurement: &Measurement) {
        let Summaries { read, write, total } = measurement.summaries();
        self.window_ns = measurement.window.get();
        (self.read, self.write, self.total) = (read, write, total);
        self.parts = measurement.part_summaries();
        self.lag = measurement.lag.as_ref().map(LagStats::summary);
        self.series = measurement.series.columns(measurement.window);
        self.steady = self.series.as_ref().and_then(|series| steady::within(series, self.metric));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(latencies_ns: &[u64], bytes: u64, errors: u64) -> OpStats {
        let mut stats = OpStats { errors, ..OpStats::default() };
        for &lat_ns in latencies_ns {
            stats.requests += 1;
            stats.bytes += ByteCount(bytes);
            stats.lat.record_ns(lat_ns);
        }
        stats
    }

    fn measurement() -> Measurement {
        Measurement {
            window: NanoSpan::from_millis(500),
            read: stats(&[100, 200, 300], 8192, 0),
            write: stats(&[1000], 4096, 2),
            ..Measurement::default()
        }
    }

    fn run(metric: Metric) -> RunResult {
        let mut run = RunResult {
            iodepth: 4,
            seed: 1,
            ..RunResult::unmeasured(World::Simulated, "six drives".into(), "made-up".into(), metric)
        };
        run.set_measurement(&measurement());
        run
    }

    #[test]
    fn summaries_hold_each_direction_and_both() {
        let Summaries { read, write, total } = measurement().summaries();
        let figures =
            |op: &OpSummary| (op.requests, op.errors, op.iops.0, op.bytes_per_sec.0, op.lat_ns_mean);
        assert_eq!(figures(&read), (3, 0, 6.0, 49_152.0, 200.0));
        assert_eq!(figures(&write), (1, 2, 2.0, 8192.0, 1000.0));
        assert_eq!(figures(&total), (4, 2, 8.0, 57_344.0, 400.0));
        let lat = (total.lat_ns_min, total.lat_ns_p50, total.lat_ns_p99, total.lat_ns_p999, total.lat_ns_max);
        assert_eq!(lat, (100, 200, 1000, 1000, 1000));
        assert_eq!(total.lat_curve.len(), CURVE_PCT.len());
        assert!(total.lat_curve.is_sorted_by_key(|point| point.lat_ns));
        assert_eq!(total.lat_curve.last(), Some(&LatencyPoint { pct: 100.0, lat_ns: 1000 }));
        assert_eq!(OpSummary::of(&OpStats::default(), NanoSpan::ZERO), OpSummary::default());
    }

    #[test]
    fn merging_adds_counts_and_keeps_the_longest_window() {
        let mut merged = measurement();
        merged.merge(&Measurement { window: NanoSpan::from_millis(400), ..measurement() });
        assert_eq!(merged.window, NanoSpan::from_millis(500));
        let total = merged.summaries().total;
        assert_eq!((total.requests, total.errors, total.iops.0, total.lat_ns_mean), (8, 4, 16.0, 400.0));
    }

    #[test]
    fn a_run_is_judged_by_its_metric() {
        let mb_per_s = 57_344.0 / 1e6;
        let table = [(Metric::Iops, 8.0, "8.0 IOPS"), (Metric::MbPerS, mb_per_s, "0.1 MB/s")];
        for (metric, value, text) in table {
            let run = run(metric);
            assert_eq!((run.metric_value(), run.metric_text().as_str()), (value, text));
            assert_eq!((run.window_ns, run.lat_mean()), (500_000_000, NanoSpan(400)));
            assert_eq!(run.configuration_label(), "six drives");
        }
    }

    #[test]
    fn labels_and_shares_of_an_array() {
        let array = ArrayFacts {
            level: "5".into(),
            members: 6,
            member_kind: "file".into(),
            controller: "raidlab".into(),
            strip_bytes: ByteCount::from_kib(64),
            write_policy: "write-back".into(),
            usable_bytes: ByteCount(500),
            raw_bytes: ByteCount(600),
            failures_survived_always: 1,
            failures_survived_at_best: 1,
        };
        assert_eq!((array.label().as_str(), array.usable_fraction()), ("RAID 5 write-back", 500.0 / 600.0));
        assert_eq!(ArrayFacts { raw_bytes: ByteCount::ZERO, ..array.clone() }.usable_fraction(), 0.0);
        let run = RunResult { array: Some(array), ..run(Metric::Iops) };
        assert_eq!(run.configuration_label(), "RAID 5 write-back");
        assert_eq!(
            [World::Measured, World::Array, World::Simulated].map(World::label),
            ["measured", "array", "simulated"]
        );
        assert_eq!([Metric::Iops, Metric::MbPerS].map(Metric::unit), ["IOPS", "MB/s"]);
    }

    #[test]
    fn member_ios_per_host_io_needs_every_count() {
        let known = CostFacts {
            member_reads: Some(30),
            member_writes: Some(20),
            host_reads: Some(15),
            host_writes: Some(10),
            ..CostFacts::default()
        };
        assert_eq!(known.member_ios_per_host_io(), Some(2.0));
        assert_eq!(CostFacts { host_reads: None, ..known.clone() }.member_ios_per_host_io(), None);
        let idle = CostFacts { host_reads: Some(0), host_writes: Some(0), ..known };
        assert_eq!(idle.member_ios_per_host_io(), None);
    }
}
