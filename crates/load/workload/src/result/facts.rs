//! Facts of a run beside its figures: the array, the controllers, the cost, the machine's activity, and the composition
//! of the load.

use super::{OpSummary, Summaries};
use crate::program::PhaseFigures;
use raidlab_units::ByteCount;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of the array that a run was on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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

/// A bound that the run was to keep, and whether it did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BoundFacts {
    /// The bound as it was written: `p99<=2ms`.
    pub bound: String,
    /// What was found, in the unit that the bound has: nanoseconds, requests per second or 10^6 bytes per second.
    pub found: f64,
    /// That with its unit, for people.
    pub found_text: String,
    /// Whether it was kept. A run without a single request keeps none.
    pub is_kept: bool,
}

impl BoundFacts {
    /// `p99<=2ms missed: 3.12 ms`.
    pub fn sentence(&self) -> String {
        let Self { bound, found_text, is_kept, .. } = self;
        format!("{bound} {}: {found_text}", if *is_kept { "held" } else { "missed" })
    }
}

/// What the run cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
    /// Writes of members' metadata, or of a log's device, in the whole run, where there were any; no member write counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_writes: Option<u64>,
    /// Host reads in the whole run, ramp and drain too: what `member_reads` is to be divided by.
    #[serde(default)]
    pub host_reads: Option<u64>,
    /// Host writes in the whole run, ramp and drain too.
    #[serde(default)]
    pub host_writes: Option<u64>,
    /// Wall-clock time of the whole run.
    pub wall_ns: u64,
    /// Wall-clock time that it took beside that to find out what set the pace, where that was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck_wall_ns: Option<u64>,
}

/// A part of a run: one phase of Bonnie.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PhaseResult {
    /// Its name, `block-write`.
    pub name: String,
    /// What was moved, how long it took, and what it cost.
    #[serde(flatten)]
    pub figures: PhaseFigures,
}

/// How a load is made up of targets and workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LoadFacts {
    /// Targets: files, devices or volumes that each get the load.
    pub targets: u32,
    /// Workers on each target.
    pub workers: u32,
    /// Requests that each worker keeps in flight on each target.
    pub iodepth_per_target: u32,
}

/// What was measured on one target of many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TargetResult {
    /// Its name as it was given.
    pub target: String,
    /// Length of the measured window; shorter than that of the run where the target failed.
    pub window_ns: u64,
    /// Its requests.
    #[serde(flatten)]
    pub ops: Summaries,
    /// Why it was left alone before the end, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the machine did during a run, ramp and drain too, all its processes counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct EnclosureFacts {
    /// Each controller, A first.
    pub controllers: Vec<ControllerFacts>,
    /// Share of the window in which the link between two of them was busy, from 0 to 1.
    pub mirror_link_busy: f64,
    /// What the failure of a controller cost, if one failed.
    pub failover: Option<FailoverFacts>,
}

/// One controller of several, and how busy it was: shares of the window, from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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

/// What a write cache held at the edges of the measured window that the members did not have yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct CacheFill {
    /// What dirty blocks took of it at the window's start.
    pub dirty_bytes_start: u64,
    /// At its end.
    pub dirty_bytes_end: u64,
    /// What the cache holds.
    pub cache_bytes: u64,
    /// From this share of it on data is written out as fast as it can.
    pub flush_start_pct: u8,
    /// Data that went into it and not out; none for runs from before that was told apart from the blocks that it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absorbed_bytes: Option<u64>,
}

impl CacheFill {
    /// How much more of it is in dirty blocks at the end; a block is dirty as a whole.
    pub(super) fn filled_bytes(self) -> f64 {
        self.dirty_bytes_end as f64 - self.dirty_bytes_start as f64
    }

    /// What went into it and not out, of `written` bytes.
    pub(super) fn absorbed_of(self, written: f64) -> f64 {
        let known = self.absorbed_bytes.map(|bytes| bytes as f64);
        known.unwrap_or_else(|| self.filled_bytes()).min(written)
    }
}

/// What set the pace of a simulated run: what would raise it if it were faster, each part made so in turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct BottleneckFacts {
    /// Its name, `requests in flight`.
    pub name: String,
    /// What was looked at: `throughput`, or `latency` of an open loop.
    pub judged_by: String,
    /// How much faster each part was made, or larger where it is room.
    pub faster_pct: f64,
    /// What that brings: so much more throughput, or so much less mean latency. The largest first.
    pub gains: Vec<PartGain>,
    /// What twice the requests in flight bring, where that can be asked.
    pub twice_iodepth_gain_pct: Option<f64>,
    /// Up to here a gain may be chance.
    pub chance_pct: f64,
    /// Runs that it took to find out.
    pub runs: u32,
    /// Host requests of all of them.
    pub requests: u64,
    /// The measured window of each.
    pub window_ns: u64,
}

/// What a faster part of the hardware brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PartGain {
    /// Its name, `host link`.
    pub part: String,
    /// So many percent more throughput, or less mean latency.
    pub gain_pct: f64,
}

/// How far the estimated figures of a simulated array let its answer go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RangeFacts {
    /// The figures that somebody estimated or fitted, part by part, `exos-x24-24tb`: `seek.full`.
    pub estimated: BTreeMap<String, Vec<String>>,
    /// All requests, with every figure that has a range at its slower end; none where no figure has one.
    pub slower: Option<OpSummary>,
    /// The same at the faster ends.
    pub faster: Option<OpSummary>,
}

/// Where the time of the requests of a simulated run went: waiting and service along each one's critical path. The means of all
/// stations add up to the mean latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct TimesFacts {
    /// Requests of the window that moved bytes and succeeded.
    pub requests: u64,
    /// The slowest of them, one in a hundred.
    pub slowest_requests: u64,
    /// The stations on the way of a request, in their order; those that took no time are left out.
    pub stations: Vec<StationTimes>,
}

/// Mean times of requests at one station.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StationTimes {
    /// Its name, `host link`.
    pub station: String,
    /// Before the station worked for them.
    pub waiting_ns_mean: f64,
    /// While it did.
    pub service_ns_mean: f64,
    /// The same of the slowest requests.
    pub slowest_waiting_ns_mean: f64,
    /// The same of the slowest requests.
    pub slowest_service_ns_mean: f64,
}

impl TimesFacts {
    /// The mean latency, and that of the slowest requests.
    pub fn lat_ns_means(&self) -> [f64; 2] {
        let sum = |of: fn(&StationTimes) -> f64| self.stations.iter().map(of).sum::<f64>();
        [
            sum(|it| it.waiting_ns_mean + it.service_ns_mean),
            sum(|it| it.slowest_waiting_ns_mean + it.slowest_service_ns_mean),
        ]
    }
}

impl BottleneckFacts {
    /// The name of what set the pace where that is none of the parts.
    pub const IODEPTH: &str = "requests in flight";
    /// The same where the load asks for no more than it gets.
    pub const LOAD: &str = "load itself";
    /// Parts that become larger, not faster.
    pub const ROOMS: [&str; 2] = ["cache memory", "drives' spare room"];

    /// What it is and what it would bring, in a sentence without its full stop. What may be chance is not told.
    pub fn sentence(&self) -> String {
        let is_told = |pct: f64| pct.abs() > self.chance_pct;
        let gain_of = |gain: &PartGain| is_told(gain.gain_pct).then(|| self.faster(gain));
        let most = self.gains.first().and_then(gain_of);
        let deeper = self.twice_iodepth_gain_pct.filter(|pct| is_told(*pct));
        let deeper = deeper.map(|pct| format!("twice the requests in flight {}", self.brings(pct)));
        let parts = match self.name.as_str() {
            Self::IODEPTH => vec![deeper, most],
            Self::LOAD => vec![Some("it asks for no more than it gets".to_owned())],
            name => vec![self.gains.iter().find(|gain| gain.part == name).and_then(gain_of), deeper],
        };
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            let chance_pct = self.chance_pct;
            return format!(
                "{}: nothing that was tried changes more than may be chance ({chance_pct:.1} %)",
                self.name
            );
        }
        format!("{}: {}", self.name, parts.join("; "))
    }

    fn faster(&self, gain: &PartGain) -> String {
        let how = if Self::ROOMS.contains(&gain.part.as_str()) { "more" } else { "faster" };
        format!("{} {:.0} % {how} {}", gain.part, self.faster_pct, self.brings(gain.gain_pct))
    }

    fn brings(&self, pct: f64) -> String {
        let is_latency = self.judged_by == "latency";
        match (is_latency, pct < 0.0) {
            (false, false) => format!("would give {pct:.1} % more"),
            (false, true) => format!("would give {:.1} % less", -pct),
            (true, false) => format!("would take {pct:.1} % off the mean latency"),
            (true, true) => format!("would add {:.1} % to the mean latency", -pct),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_bottleneck_is_told_with_what_it_would_bring() {
        let facts = |name: &str, judged_by: &str, deeper| BottleneckFacts {
            name: name.into(),
            judged_by: judged_by.into(),
            faster_pct: 10.0,
            gains: vec![
                PartGain { part: "host link".into(), gain_pct: 8.0 },
                PartGain { part: "cache memory".into(), gain_pct: 1.1 },
                // "Stripe threads 10 % faster would give 1.3 % less" was told where up to 2.0 % may be chance.
                PartGain { part: "stripe threads".into(), gain_pct: -0.9 },
            ],
            twice_iodepth_gain_pct: deeper,
            chance_pct: 1.0,
            runs: 4,
            requests: 160_000,
            window_ns: 1,
        };
        let rows = [
            (
                facts("host link", "throughput", Some(0.2)),
                "host link: host link 10 % faster would give 8.0 % more",
            ),
            (
                facts(BottleneckFacts::IODEPTH, "throughput", Some(96.4)),
                "requests in flight: twice the requests in flight would give 96.4 % more; \
                 host link 10 % faster would give 8.0 % more",
            ),
            (
                facts("cache memory", "latency", None),
                "cache memory: cache memory 10 % more would take 1.1 % off the mean latency",
            ),
            (
                facts("stripe threads", "throughput", Some(-0.7)),
                "stripe threads: nothing that was tried changes more than may be chance (1.0 %)",
            ),
            (
                facts(BottleneckFacts::LOAD, "throughput", Some(0.0)),
                "load itself: it asks for no more than it gets",
            ),
        ];
        for (facts, expected) in rows {
            assert_eq!(facts.sentence(), expected);
        }
    }
}
