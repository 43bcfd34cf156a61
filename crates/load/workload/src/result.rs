//! The one result type: a run's settings and its measurements.
//!
//! ```text
//! Measurement (what drivers counted) ─► figures ─┐
//! array, cost, machine, targets ────────► facts ─┴─► RunResult, which is stored, compared and shown
//! ```
//! [`RunResult`] is the same for all worlds. Times are nanoseconds, sizes bytes, and the names say so.

mod actors;
mod facts;
mod figures;
mod offered;

pub use actors::{
    AcceleratorFacts, ActorFacts, ActorMeasurement, ActorSummary, CacheFacts, CheckpointFacts,
    CompactionFacts, LogFacts,
};
pub(crate) use actors::{
    AcceleratorStats, ActorStats, CacheStats, CheckpointStats, CompactionStats, LogStats,
};
pub use facts::{
    ArrayFacts, BottleneckFacts, BoundFacts, CacheFill, ControllerFacts, CostFacts, DeviceLoad,
    EnclosureFacts, FailoverFacts, LoadFacts, MachineLoad, PartGain, PhaseResult, RangeFacts, StationTimes,
    TargetResult, TimesFacts,
};
pub use figures::{
    CURVE_PCT, Counts, LagStats, LagSummary, LatencyPoint, Measurement, OpStats, OpSummary, OtherStats,
    OtherSummaries, PartMeasurement, PartSummary, Summaries,
};
pub use offered::OfferedLoad;

pub(crate) use actors::au_goal_pct_default;

use crate::hosts::HostsFacts;
use crate::network::NetworkFacts;
use crate::program::{BonniePhase, PhaseFigures, StreamsFigures};
use crate::series::RunSeries;
use crate::spec::AccessLine;
use crate::steady::{self, SteadyState};
use raidlab_units::{ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

raidlab_units::named! {
    /// Where a run took place.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum World {
        /// On storage as it is: a file or a block device.
        #[default]
        Measured = "measured",
        /// On a raidlab array over real members.
        Array = "array",
        /// In virtual time on modelled members.
        Simulated = "simulated",
    }
}

/// The figure by which a workload is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Requests per second.
    #[default]
    Iops,
    /// 10^6 bytes per second.
    MbPerS,
}

/// Batches of an accelerator in a window, the fewest that tell anything.
const BATCHES_MIN: u64 = 5;
/// What follows the name of a training whose checkpoint alone is written.
pub const CHECKPOINT_SUFFIX: &str = ", checkpoint";

/// Share of the writes of a window that may go into a cache alone before it is said.
const ABSORBED_SHARE_MAX: f64 = 0.1;

/// What is said of several runs, and what one of them says.
type Doubt = (&'static str, fn(&RunResult) -> Option<String>);

/// What may be the matter with runs.
static DOUBTS: [Doubt; 6] = [
    ("have parts that could not be plugged together", RunResult::misfit_text),
    ("measured nothing", RunResult::nothing_measured_text),
    ("were not steady within their windows", RunResult::unsteady_text),
    ("had a write cache that was still filling", RunResult::filling_text),
    ("had requests that started late", RunResult::late_text),
    ("had too few batches of accelerators in their windows", RunResult::few_batches_text),
];

impl Metric {
    /// The unit for tables: `IOPS` or `MB/s`.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::MbPerS => "MB/s",
        }
    }
}

/// One run: what it was and what was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunResult {
    /// Where it took place.
    pub world: World,
    /// What was measured, for people: a path, or an array in words.
    pub target: String,
    /// The array, if it was one.
    pub array: Option<ArrayFacts>,
    /// What could not be plugged together of its parts; it was simulated all the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub misfits: Vec<String>,
    /// Its controllers and volumes, where there are several of either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enclosure: Option<EnclosureFacts>,
    /// Name of the workload.
    pub workload: String,
    /// What it asks, line by line; empty for runs from before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<AccessLine>,
    /// How the workload is judged.
    pub metric: Metric,
    /// Requests in flight.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u32>")]
    pub iodepth: u32,
    /// Arrivals per second of an open loop; none of a closed one, and of runs from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals_per_sec: Option<f64>,
    /// How they are made up, where there is more than one target or worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadFacts>,
    /// The seed that everything random came from.
    pub seed: u64,
    /// Length of the measured window.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub window_ns: u64,
    /// All requests in it.
    #[serde(flatten)]
    pub ops: Summaries,
    /// Each target, where there is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetResult>,
    /// Each part of a mix; empty for a workload of one part. The figures above are of all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartSummary>,
    /// What its actors did: utilisation of accelerators, pauses of checkpoints; empty without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actors: Vec<ActorSummary>,
    /// How late requests of open loops started; none without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagSummary>,
    /// The window interval by interval; none for runs from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<RunSeries>,
    /// Whether the figure was steady within the window; none where the window is too short to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<SteadyState>,
    /// How far a write cache filled in the window; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_fill: Option<CacheFill>,
    /// What set the pace, where that was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<BottleneckFacts>,
    /// How far it would go with the estimated figures of its array at their ends, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Box<RangeFacts>>,
    /// Where the time of its requests went, where that was followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<TimesFacts>,
    /// The parts of a run that measures several things one after the other, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseResult>,
    /// Parallel readers, where the run was of such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsFigures>,
    /// The bounds that it was to keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<BoundFacts>,
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

/// Reads a figure that is not known as it is kept here: as zero.
fn zero_of_null<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: serde::Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl RunResult {
    /// The setting that names what another program's results don't have.
    pub const LACKS: &str = "lacks";

    /// Whether another program measured it, so that a zero may stand for a figure that is not known.
    pub fn is_foreign(&self) -> bool {
        self.settings.contains_key(Self::LACKS)
    }

    /// A run of `workload` on `target`, before anything was measured.
    pub fn unmeasured(world: World, target: String, workload: String, metric: Metric) -> Self {
        Self { world, target, workload, metric, ..Self::default() }
    }

    /// What is to be known of the run before its figures are trusted: sentences.
    pub fn warnings(&self) -> Vec<String> {
        let of_streams = self.streams.iter().flat_map(StreamsFigures::warnings);
        self.doubts().map(|(_, text)| text).chain(of_streams).collect()
    }

    /// The same but for streams, each with what is said of several runs that have it: `were not steady within their windows`.
    pub fn doubts(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        DOUBTS.iter().filter_map(|(what, text)| Some((*what, text(self)?)))
    }

    /// A sentence for all of `runs` with the same doubt, with that of the first and what it ran on; of one run alone, what is said of it.
    pub fn doubts_of<'a>(runs: impl IntoIterator<Item = &'a Self>) -> Vec<String> {
        let runs: Vec<&Self> = runs.into_iter().collect();
        let sentence = |(what, text): &Doubt| {
            let mut doubted = runs.iter().filter_map(|run| Some((run, text(run)?)));
            let (first, text) = doubted.next()?;
            Some(match runs.len() {
                1 => text,
                all => {
                    let count = 1 + doubted.count();
                    format!("{count} of {all} runs {what}; the first, on {}: {text}", first.target)
                }
            })
        };
        DOUBTS.iter().filter_map(sentence).collect()
    }

    /// Says so if parts of the array could not be plugged together.
    pub fn misfit_text(&self) -> Option<String> {
        let misfits = self.misfits.join("; ");
        (!misfits.is_empty()).then(|| format!("{misfits}; it is simulated all the same"))
    }

    /// Says so if no request of a simulated load ended in the window.
    pub fn nothing_measured_text(&self) -> Option<String> {
        let is_plain = self.world == World::Simulated && self.streams.is_none() && self.phases.is_empty();
        let has_ended = self.ops.others.iter().any(|(_, summary)| summary.requests > 0)
            || self.ops.total.requests + self.ops.total.errors > 0;
        (is_plain && !has_ended && self.actors.is_empty()).then(|| {
            let (workload, load) = (&self.workload, self.offered_load());
            match self.window_ns {
                0 => format!(
                    "{workload} at {load} measured nothing: its requests ended before the window, which begins {} into the run: make the ramp \
                     shorter, or give it more requests",
                    self.settings.get("ramp").map_or("later", String::as_str)
                ),
                ns => format!("{workload} at {load} measured nothing: no request ended in the window of {}", NanoSpan(ns)),
            }
        })
    }

    /// Says so if so few batches fell into the window that figures of accelerators are coarse.
    pub fn few_batches_text(&self) -> Option<String> {
        let facts = self.accelerators()?;
        let each = facts.steps / u64::from(facts.accelerators.max(1));
        (each < BATCHES_MIN).then(|| {
            let window = NanoSpan(self.window_ns);
            format!(
                "{}: {each} batches of each accelerator ended in the window of {window}, which is too few for its figures: make the \
                 window longer, and the ramp",
                self.workload
            )
        })
    }

    /// Says so if the run was not steady within its window, with the arithmetic.
    pub fn unsteady_text(&self) -> Option<String> {
        let unsteady = self.steady.as_ref().filter(|steady| !steady.is_steady);
        unsteady.map(|steady| {
            let (workload, load) = (&self.workload, self.offered_load());
            let arithmetic = steady.arithmetic(self.metric.unit());
            format!(
                "{workload} at {load} was not steady within its window, taken as five rounds: {arithmetic}"
            )
        })
    }

    /// Says so if a good part of the writes went no further than into a cache that was filling, which makes any array fast
    /// until it is full.
    pub fn filling_text(&self) -> Option<String> {
        let fill = self.cache_fill?;
        let window_secs = NanoSpan(self.window_ns).as_secs_f64();
        let written = self.ops.write.bytes_per_sec.0 * window_secs;
        let (absorbed, filled) = (fill.absorbed_of(written), fill.filled_bytes());
        let mark = fill.cache_bytes as f64 * f64::from(fill.flush_start_pct) / 100.0;
        if absorbed <= ABSORBED_SHARE_MAX * written || filled <= 0.0 {
            return None;
        }
        // Where it got full in the window, the next window is the first without that.
        let left = (mark - fill.dirty_bytes_end as f64).max(0.0) / filled * window_secs;
        let until_full = NanoSpan::from_secs(if left > 0.0 { left } else { window_secs }.ceil() as u64);
        let pct = |bytes: u64| 100.0 * bytes as f64 / fill.cache_bytes as f64;
        Some(format!(
            "{} at {}: the write cache was still filling, from {:.0} to {:.0} %, and {:.0} % of what was written went \
             no further: the array's own rate comes when it is full, after some {until_full} more of ramp",
            self.workload,
            self.offered_load(),
            pct(fill.dirty_bytes_start),
            pct(fill.dirty_bytes_end),
            100.0 * absorbed / written,
        ))
    }

    /// Says so if requests waited longer for their start than they took.
    pub fn late_text(&self) -> Option<String> {
        self.lag.filter(LagSummary::is_longer_than_service).map(|lag| {
            let span = |ns: f64| NanoSpan(ns.round() as u64);
            format!(
                "{} at {}: requests started {} late on average, and took {} from then on: the load was not made as \
                 it was asked for; storage, the iodepth or this machine could not keep up",
                self.workload, self.offered_load(), span(lag.lag_ns_mean), span(lag.service_ns_mean)
            )
        })
    }

    /// The accelerators of the run, if it has any.
    pub fn accelerators(&self) -> Option<&AcceleratorFacts> {
        self.actors.iter().find_map(|actor| match &actor.facts {
            ActorFacts::Accelerator(facts) => Some(facts),
            _ => None,
        })
    }

    /// The checkpoint of the run, if it has one.
    pub fn checkpoint(&self) -> Option<&CheckpointFacts> {
        self.actors.iter().find_map(|actor| match &actor.facts {
            ActorFacts::Checkpoint(facts) => Some(facts),
            _ => None,
        })
    }

    /// The training whose checkpoint, and nothing else, was written.
    pub fn checkpoint_of(&self) -> Option<&str> {
        self.workload.strip_suffix(CHECKPOINT_SUFFIX).filter(|_| self.checkpoint().is_some())
    }

    /// The load that it was asked for.
    pub fn offered_load(&self) -> OfferedLoad {
        let accelerators = self.accelerators().map(|it| it.accelerators);
        OfferedLoad::of(self.iodepth, self.arrivals_per_sec, accelerators)
    }

    /// The bounds that were missed.
    pub fn bounds_missed(&self) -> impl Iterator<Item = &BoundFacts> {
        self.bounds.iter().filter(|bound| !bound.is_kept)
    }

    /// The figure that the workload is judged by, of reads and writes together.
    pub fn metric_value(&self) -> f64 {
        match self.metric {
            Metric::Iops => self.ops.total.iops.0,
            Metric::MbPerS => self.ops.total.bytes_per_sec.mb_per_s(),
        }
    }

    /// [`RunResult::metric_value`] with its unit, for people: `1727 IOPS`, `85.3 MB/s`.
    pub fn metric_text(&self) -> String {
        match self.metric {
            Metric::Iops => format!("{} IOPS", self.ops.total.iops),
            Metric::MbPerS => self.ops.total.bytes_per_sec.to_string(),
        }
    }

    /// What was measured in a few words: the array's level and write policy, or the target as it is.
    pub fn configuration_label(&self) -> String {
        self.array.as_ref().map_or_else(|| self.target.clone(), ArrayFacts::label)
    }

    /// Mean total latency of reads and writes together.
    pub fn lat_mean(&self) -> NanoSpan {
        NanoSpan(self.ops.total.lat_ns_mean.round() as u64)
    }

    /// Takes in what parallel readers measured: the run's rate is their aggregate, its window the mean time of a timed read.
    pub fn set_streams(&mut self, streams: StreamsFigures) {
        let bytes: u64 = streams.readers.iter().map(|reader| reader.bytes).sum();
        let requests = bytes.div_ceil(streams.block_bytes.max(1));
        let read = OpStats { requests, bytes: ByteCount(bytes), ..OpStats::default() };
        let ops = Counts { read, ..Counts::default() };
        self.set_measurement(&Measurement { window: streams.mean_time(), ops, ..Measurement::default() });
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
            ops: Counts { read: stats(read), write: stats(write), ..Counts::default() },
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
        self.window_ns = measurement.window.get();
        self.ops = measurement.summaries();
        self.parts = measurement.part_summaries();
        self.actors = measurement.actor_summaries();
        self.lag = measurement.lag.as_ref().map(LagStats::summary);
        self.series = measurement.series.columns(measurement.window);
        // Where accelerators hardly wait they set the pace: what is read by fifths of the window counts the batches that loaders began in
        // each, and says nothing of storage.
        let is_paced = self.accelerators().is_some_and(AcceleratorFacts::keeps_goal);
        let series = self.series.as_ref().filter(|_| !is_paced);
        self.steady = series.and_then(|series| steady::within(series, self.metric));
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
            ops: Counts {
                read: stats(&[100, 200, 300], 8192, 0),
                write: stats(&[1000], 4096, 2),
                ..Counts::default()
            },
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
        let Summaries { read, write, total, .. } = measurement().summaries();
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
    fn a_write_cache_that_fills_in_the_window_is_told() {
        // One write of 8192 bytes a second in a window of half a second.
        let told = |start, end, cache_bytes| {
            let cache_fill = Some(CacheFill {
                dirty_bytes_start: start,
                dirty_bytes_end: end,
                cache_bytes,
                flush_start_pct: 80,
                absorbed_bytes: None,
            });
            RunResult { cache_fill, ..run(Metric::Iops) }.warnings().join("\n")
        };
        let said = told(10_000, 12_000, 20_000);
        assert!(said.contains("from 50 to 60 %") && said.contains("49 % of what was written"), "{said}");
        assert!(said.contains("some 1.00 s more"), "4000 bytes at 4000 a second: {said}");
        assert!(told(12_000, 16_000, 20_000).contains("some 1.00 s more"), "it got full in the window");
        // Four writes of 512 bytes, each in a cache block of its own of 4096.
        let cache_fill = CacheFill {
            dirty_bytes_start: 0,
            dirty_bytes_end: 16_384,
            cache_bytes: 1 << 20,
            flush_start_pct: 80,
            absorbed_bytes: Some(2048),
        };
        let said = RunResult { cache_fill: Some(cache_fill), ..run(Metric::Iops) }.warnings().join("\n");
        assert!(said.contains("50 % of what was written"), "bytes with bytes: {said}");
        for (start, end, why) in [
            (10_000, 10_100, "nearly all that came went on to the members"),
            (12_000, 10_000, "it emptied"),
            (16_000, 16_000, "it was full all the time"),
        ] {
            assert_eq!(told(start, end, 20_000), "", "{why}");
        }
    }

    #[test]
    fn what_is_said_of_several_runs_names_what_the_first_ran_on() {
        let good = run(Metric::Iops);
        let odd = |target: &str, misfit: &str| RunResult {
            target: target.into(),
            misfits: vec![misfit.into()],
            ..good.clone()
        };
        let (a, b) = (odd("array a", "no plug"), odd("array b", "no room"));
        let told = RunResult::doubts_of([&good, &b, &a]);
        assert_eq!(
            told,
            [
                "2 of 3 runs have parts that could not be plugged together; the first, on array b: no room; it is simulated all the same"
            ]
        );
        assert_eq!(RunResult::doubts_of([&a]), a.warnings());
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
        assert_eq!(World::ALL.map(World::name), ["measured", "array", "simulated"]);
        assert_eq!([Metric::Iops, Metric::MbPerS].map(Metric::unit), ["IOPS", "MB/s"]);
    }
}
