//! Runs of programs on files, summarised: parallel readers step by step, Bonnie size by size, each over its repeats or
//! rounds.
//!
//! The terminal, the page, JSON and bonnie++'s CSV all show these.

use raidlab_units::BytesPerSec;
use raidlab_workload::program::{BonniePhase, ManyFilesPhase, PhaseFigures, StreamsFigures};
use raidlab_workload::{RunResult, Spread, World};
use serde::Serialize;

/// A report of such runs.
#[derive(Clone, Debug)]
pub struct ProgramReport<'a> {
    /// What it is called.
    pub title: &'a str,
    /// How it was done, paragraph by paragraph.
    pub method: Vec<String>,
    /// On what: names and values.
    pub setup: Vec<(String, String)>,
    /// Every finished run.
    pub runs: &'a [RunResult],
    /// What a reader may want to know as well.
    pub notes: Vec<String>,
    /// Published figures to compare with.
    pub published: &'a [PublishedPoint],
}

/// A published figure of such a program.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PublishedPoint {
    /// What was measured: system, level, drives.
    pub system: String,
    /// The phase of Bonnie; empty for parallel readers.
    pub phase: String,
    /// Streams, or the length of the file in MB.
    pub at: f64,
    /// MB per second; of seeks, seeks per second; of processors, percent.
    pub value: f64,
    /// Whether it is the share of a processor in percent.
    pub is_cpu_pct: bool,
}

/// So many streams on one target, over all repeats.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct StreamsStep {
    /// What was read from.
    pub target: String,
    /// Where it took place.
    pub world: World,
    /// Streams at once.
    pub streams: u32,
    /// Bytes of all timed reads by the mean time that one took, over the repeats.
    pub aggregate_mb_per_s: Spread,
    /// All that was read, timed or not, by the time it took: the mean over the repeats.
    pub delivered_mb_per_s: f64,
    /// Rate of one stream: mean, slowest and fastest over all repeats.
    pub stream_mb_per_s_mean: f64,
    /// The slowest.
    pub stream_mb_per_s_min: f64,
    /// The fastest.
    pub stream_mb_per_s_max: f64,
    /// The rate of each stream of each repeat.
    pub stream_mb_per_s: Vec<f64>,
    /// Jain's index, the mean over the repeats.
    pub fairness: f64,
    /// Processor time of the readers by the mean time of a timed read, in percent of one processor: the mean over the repeats.
    pub cpu_pct: f64,
    /// Share of all processors that were busy, whoever kept them, in percent; none in virtual time.
    pub machine_cpu_pct: Option<f64>,
    /// The smallest overlap of a repeat.
    pub overlap: f64,
    /// The largest share of pages that were in memory before a repeat, where that is known.
    pub cached_share: Option<f64>,
}

/// Bonnie with one length of file on one target, over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BonnieStep {
    /// What it was run on.
    pub target: String,
    /// Where it took place.
    pub world: World,
    /// Length of the file.
    pub file_bytes: u64,
    /// The same as a multiple of memory, where that is known.
    pub file_to_memory: Option<f64>,
    /// Rounds.
    pub rounds: u32,
    /// Each phase.
    pub phases: Vec<BonnieStepPhase>,
}

/// One phase of Bonnie over all rounds.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BonnieStepPhase {
    /// Its name, `block-write`.
    pub name: String,
    /// KiB per second; of seeks and of many files, calls per second.
    pub rate: Spread,
    /// Share of one processor in percent.
    pub cpu_pct: Spread,
}

impl BonnieStepPhase {
    /// Whether its rate counts calls rather than KiB.
    pub fn counts_calls(&self) -> bool {
        counts_calls(&self.name)
    }

    /// What its rate counts.
    pub fn unit(&self) -> &'static str {
        match (self.counts_calls(), self.name.as_str()) {
            (false, _) => "KiB/s",
            (true, "seeks") => "seeks/s",
            (true, _) => "files/s",
        }
    }
}

impl BonnieStep {
    /// Length of the file in percent of memory, where that is known.
    pub fn memory_pct(&self) -> Option<f64> {
        self.file_to_memory.map(|ratio| ratio * 100.0)
    }

    /// The phase called `name`.
    pub fn phase(&self, name: &str) -> Option<&BonnieStepPhase> {
        self.phases.iter().find(|phase| phase.name == name)
    }
}

fn counts_calls(name: &str) -> bool {
    name == BonniePhase::Seeks.name() || ManyFilesPhase::ALL.iter().any(|phase| phase.name() == name)
}

/// The steps of the parallel readers among `runs`, in the order in which they first come.
pub fn streams_steps(runs: &[RunResult]) -> Vec<StreamsStep> {
    let with_streams: Vec<(&RunResult, &StreamsFigures)> =
        runs.iter().filter_map(|run| Some((run, run.streams.as_ref()?))).collect();
    let key = |run: &RunResult| (run.target.clone(), run.world, run.iodepth);
    let groups = grouped(with_streams, |(run, _)| key(run));
    groups.into_iter().map(|(_, group)| streams_step(&group)).collect()
}

fn streams_step(group: &[(&RunResult, &StreamsFigures)]) -> StreamsStep {
    let (first, _) = group[0];
    let of = |figure: &dyn Fn(&RunResult, &StreamsFigures) -> f64| -> Vec<f64> {
        group.iter().map(|(run, streams)| figure(run, streams)).collect()
    };
    let mean = |values: Vec<f64>| Spread::of(&values).mean;
    let each: Vec<f64> =
        group.iter().flat_map(|(_, streams)| streams.rates()).map(BytesPerSec::mb_per_s).collect();
    let busy: Option<Vec<f64>> =
        group.iter().map(|(run, _)| run.machine.as_ref()?.cpu_busy.map(|share| share * 100.0)).collect();
    let cached = group.iter().filter_map(|(_, streams)| streams.cold.as_ref()?.cached_share);
    StreamsStep {
        target: first.target.clone(),
        world: first.world,
        streams: first.iodepth,
        aggregate_mb_per_s: Spread::of(&of(&|_, streams| streams.aggregate().mb_per_s())),
        delivered_mb_per_s: mean(of(&|_, streams| streams.delivered().mb_per_s())),
        stream_mb_per_s_mean: mean(each.clone()),
        stream_mb_per_s_min: each.iter().copied().fold(f64::INFINITY, f64::min),
        stream_mb_per_s_max: each.iter().copied().fold(0.0, f64::max),
        stream_mb_per_s: each,
        fairness: mean(of(&|_, streams| streams.fairness())),
        cpu_pct: mean(of(&|_, streams| streams.cpu_pct())),
        machine_cpu_pct: busy.map(mean),
        overlap: of(&|_, streams| streams.overlap).into_iter().fold(1.0, f64::min),
        cached_share: cached.reduce(f64::max),
    }
}

/// The steps of Bonnie among `runs`: targets in the order in which they first come, and for each the sizes.
pub fn bonnie_steps(runs: &[RunResult]) -> Vec<BonnieStep> {
    let with_phases: Vec<(&RunResult, u64)> =
        runs.iter().filter_map(|run| Some((run, run.phase(BonniePhase::BlockWrite.name())?.bytes))).collect();
    let groups = grouped(with_phases, |(run, bytes)| (run.target.clone(), run.world, *bytes));
    let mut steps: Vec<BonnieStep> = groups.into_iter().map(|(_, group)| bonnie_step(&group)).collect();
    let targets: Vec<String> = steps.iter().map(|step| step.target.clone()).collect();
    let place = |target: &str| targets.iter().position(|known| known == target);
    steps.sort_by_key(|step| (place(&step.target), step.file_bytes));
    steps
}

fn bonnie_step(group: &[(&RunResult, u64)]) -> BonnieStep {
    let (first, file_bytes) = group[0];
    let phase = |name: &str| {
        let figures: Vec<_> = group.iter().filter_map(|(run, _)| run.phase(name)).collect();
        let rate = |figures: &PhaseFigures| {
            if counts_calls(name) { figures.calls_per_sec() } else { figures.rate().0 / 1024.0 }
        };
        BonnieStepPhase {
            name: name.to_owned(),
            rate: Spread::of(&figures.iter().map(|it| rate(it)).collect::<Vec<_>>()),
            cpu_pct: Spread::of(&figures.iter().map(|it| it.cpu_pct()).collect::<Vec<_>>()),
        }
    };
    BonnieStep {
        target: first.target.clone(),
        world: first.world,
        file_bytes,
        file_to_memory: first.settings.get("file to memory").and_then(|ratio| ratio.parse().ok()),
        rounds: group.len() as u32,
        phases: first.phases.iter().map(|it| phase(&it.name)).collect(),
    }
}

/// `items` by `key`, keys in the order in which they first come.
fn grouped<T, K: PartialEq>(items: Vec<T>, key: impl Fn(&T) -> K) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let key = key(&item);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use raidlab_workload::program::StreamFigures;
    use raidlab_workload::{Metric, PhaseResult};

    /// A run of streams at these rates in MB/s.
    pub(crate) fn streams_run(target: &str, rates: &[u64]) -> RunResult {
        let reader = |rate: &u64| StreamFigures {
            bytes: 1_000_000,
            elapsed_ns: 1_000_000_000 / rate,
            cpu_ns: 100_000,
        };
        let mut run =
            RunResult::unmeasured(World::Measured, target.into(), "parallel read".into(), Metric::MbPerS);
        run.set_streams(StreamsFigures {
            block_bytes: 65_536,
            file_bytes: 1_000_000,
            readers: rates.iter().map(reader).collect(),
            window_ns: 1_000_000_000,
            delivered_bytes: 50_000_000,
            overlap: 1.0,
            ran_out: 0,
            cold: None,
        });
        run
    }

    /// A run of Bonnie whose block write takes a second and everything else half of one.
    pub(crate) fn bonnie_run(target: &str, mib: u64, kib_per_s: u64) -> RunResult {
        let mut run = RunResult::unmeasured(World::Measured, target.into(), "bonnie".into(), Metric::MbPerS);
        let phase = |phase: BonniePhase| {
            let elapsed_ns = (mib << 20) * 1_000_000_000 / (kib_per_s << 10);
            let figures = PhaseFigures { bytes: mib << 20, calls: 4_000, elapsed_ns, cpu_ns: elapsed_ns / 4 };
            PhaseResult { name: phase.name().to_owned(), figures }
        };
        run.set_phases(BonniePhase::ALL.map(phase).to_vec());
        run.settings.insert("file to memory".into(), "0.25".into());
        run
    }

    #[test]
    fn repeats_are_summed_up_and_steps_kept_apart() {
        let runs = [
            streams_run("a", &[10, 30]),
            streams_run("b", &[5]),
            streams_run("a", &[20, 20]),
            streams_run("a", &[10]),
        ];
        let steps = streams_steps(&runs);
        assert_eq!(
            steps.iter().map(|step| (&*step.target, step.streams)).collect::<Vec<_>>(),
            [("a", 2), ("b", 1), ("a", 1)]
        );
        let two = &steps[0];
        assert_eq!(two.aggregate_mb_per_s.count, 2);
        // Of the first repeat 2 MB by (1/10 + 1/30) / 2 s, of the second 2 MB by 1/20 s.
        assert!((two.aggregate_mb_per_s.mean - f64::midpoint(30.0, 40.0)).abs() < 1e-3, "{two:?}");
        assert_eq!((two.stream_mb_per_s_min.round(), two.stream_mb_per_s_max.round()), (10.0, 30.0));
        assert!((two.fairness - f64::midpoint(0.8, 1.0)).abs() < 1e-6);
        assert_eq!(two.delivered_mb_per_s, 50.0);
    }

    #[test]
    fn rounds_are_summed_up_by_target_and_size() {
        let runs = [
            bonnie_run("b", 100, 1_000),
            bonnie_run("a", 100, 500),
            bonnie_run("b", 200, 900),
            bonnie_run("b", 100, 3_000),
        ];
        let steps = bonnie_steps(&runs);
        let keys: Vec<_> = steps.iter().map(|step| (&*step.target, step.file_bytes >> 20)).collect();
        assert_eq!(keys, [("b", 100), ("b", 200), ("a", 100)]);
        let write = steps[0].phase("block-write").expect("it was run");
        assert_eq!((write.rate.count, write.rate.mean.round(), write.unit()), (2, 2_000.0, "KiB/s"));
        assert!((write.cpu_pct.mean - 25.0).abs() < 1e-3);
        let seeks = steps[0].phase("seeks").expect("it was run");
        assert_eq!(seeks.unit(), "seeks/s");
        // 4000 calls in 102.4 s and in 34.1 s.
        assert!((seeks.rate.mean - 4_000.0 * (1.0 / 102.4 + 3.0 / 102.4) / 2.0).abs() < 0.1, "{seeks:?}");
        assert_eq!((steps[0].file_to_memory, steps[0].memory_pct()), (Some(0.25), Some(25.0)));
    }
}
