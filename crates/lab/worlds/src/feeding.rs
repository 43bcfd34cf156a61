//! Finds how many accelerators storage feeds: the largest number whose utilisation keeps the bound of the workload.
//!
//! ```text
//! AU  │• • • •                 the numbers that were asked for, then some of those between
//!     │┄┄┄┄┄┄┄┄┄┄┄┄┄ bound     the last that keeps it and the first that does not
//!     │          •   •
//!     └──────────────── accelerators
//! ```
//! More accelerators never have a higher utilisation on the same storage, so numbers between two that keep the bound need
//! no run. With a checkpoint asked for, one more run writes it, with a writer for each accelerator that is fed.

use crate::load::Load;
use raidlab_units::{ByteCount, NanoSpan, three_digits};
use raidlab_workload::{
    Accelerator, AcceleratorFacts, AccessSpec, Actor, CHECKPOINT_SUFFIX, Checkpoint, CheckpointFacts,
    DriverError, MixPart, OfferedLoad, Places, RunResult,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// What to find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedingOrder {
    /// Numbers of accelerators to try first, rising.
    pub counts: Vec<u32>,
    /// Bytes of a checkpoint, all writers together, and the time of training between two.
    pub checkpoint: Option<(ByteCount, NanoSpan)>,
    /// Whether windows may be longer than those of the load, so that enough batches fall into them.
    pub may_lengthen: bool,
}

/// Batches of each accelerator before a window, in it, and the fewest that one may have before it is made longer.
const RAMP_STEPS: f64 = 8.0;
const RUN_STEPS: f64 = 30.0;
const STEPS_MIN: u64 = 20;
/// The share of the samples that may come from what was loaded ahead, and how much longer it is waited for more to be used up.
const STOCK_MAX: f64 = 0.01;
const RAMP_GROWTH: u64 = 4;
/// How often a window is made longer.
const LONGER_MAX: u32 = 3;

/// `load` with windows of so many batches, each of which takes `step_secs`.
fn lengthened(load: &Load, step_secs: f64) -> Load {
    let ramp = load.ramp.max(NanoSpan::from_secs_f64(RAMP_STEPS * step_secs));
    let run = load.run.max(NanoSpan::from_secs_f64(RUN_STEPS * step_secs));
    Load { ramp, run, ..load.clone() }
}

/// One number of accelerators.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FedPoint {
    /// How many.
    pub accelerators: u32,
    /// Their utilisation.
    pub au_pct: f64,
    /// What they trained on; what was only loaded ahead is not in it.
    pub mb_per_s: f64,
    /// Samples that they trained on.
    pub samples_per_s: f64,
    /// Whether that keeps the bound.
    pub keeps: bool,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Feeding {
    /// Name of the workload.
    pub workload: String,
    /// What it ran on.
    pub target: String,
    /// The bound on utilisation.
    pub au_goal_pct: f64,
    /// Every number that was run, rising.
    pub points: Vec<FedPoint>,
    /// The largest that keeps the bound; none if none does.
    pub most: Option<u32>,
    /// Whether a larger number was run and missed it; else storage may feed more than was asked.
    pub is_limit: bool,
    /// The busiest part where the bound is missed first, and how busy it was, where the world tells.
    pub busiest: Option<String>,
    /// The checkpoint, if one was asked for.
    pub checkpoint: Option<CheckpointFacts>,
    /// The busiest part while it was written, where the world tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint_busiest: Option<String>,
}

/// How many accelerators of each workload the storage of each of `runs` feeds, in the order in which they were first run. Of several runs of
/// a number the last counts.
pub fn feedings(runs: &[RunResult]) -> Vec<Feeding> {
    let is_alike =
        |a: &RunResult, b: &RunResult| (a.world, &a.target, &a.array) == (b.world, &b.target, &b.array);
    let mut groups: Vec<&RunResult> = Vec::new();
    for run in runs.iter().filter(|run| run.accelerators().is_some()) {
        if !groups.iter().any(|first| first.workload == run.workload && is_alike(first, run)) {
            groups.push(run);
        }
    }
    let of_group = |first: &&RunResult| {
        let mut own = runs.iter().filter(|run| is_alike(first, run));
        let by_count: BTreeMap<u32, (&RunResult, &AcceleratorFacts)> = own
            .clone()
            .filter(|run| run.workload == first.workload)
            .filter_map(|run| run.accelerators().map(|facts| (facts.accelerators, (run, facts))))
            .collect();
        let missed = by_count.iter().find(|(_, (_, facts))| !facts.keeps_goal());
        let kept = by_count.keys().take_while(|count| missed.is_none_or(|(missed, _)| *count < missed));
        let saved = own.rfind(|run| run.checkpoint_of() == Some(first.workload.as_str()));
        Feeding {
            workload: first.workload.clone(),
            target: first.target.clone(),
            au_goal_pct: first.accelerators().map_or(0.0, |facts| facts.au_goal_pct),
            most: kept.last().copied(),
            is_limit: missed.is_some(),
            busiest: missed.and_then(|(_, (run, _))| busiest(run)),
            checkpoint: saved.and_then(|run| run.checkpoint().copied()),
            checkpoint_busiest: saved.and_then(busiest),
            points: by_count.values().map(|(_, facts)| FedPoint::of(facts)).collect(),
        }
    };
    groups.iter().map(of_group).collect()
}

impl FedPoint {
    fn of(facts: &AcceleratorFacts) -> Self {
        Self {
            accelerators: facts.accelerators,
            au_pct: facts.au_pct,
            mb_per_s: facts.bytes_per_sec.mb_per_s(),
            samples_per_s: facts.samples_per_s,
            keeps: facts.keeps_goal(),
        }
    }
}

impl Feeding {
    /// The answer first, then what limits it, then the checkpoint.
    pub fn sentences(&self) -> Vec<String> {
        let Self { workload, target, au_goal_pct, points, .. } = self;
        let best = points.iter().find(|point| Some(point.accelerators) == self.most);
        let mut told = vec![match best {
            None => format!("{target} feeds not one accelerator of {workload} at AU >= {au_goal_pct} %"),
            Some(best) => {
                let count = OfferedLoad::Accelerators(best.accelerators);
                let more = if self.is_limit { "" } else { ", the most that were tried" };
                let rate = three_digits(best.mb_per_s);
                format!(
                    "{target} feeds {count} of {workload} at AU >= {au_goal_pct} %{more}: AU {:.1} %, {rate} MB/s",
                    best.au_pct
                )
            }
        }];
        if let Some(missed) = points.iter().find(|point| !point.keeps) {
            let busiest =
                self.busiest.as_ref().map_or_else(String::new, |part| format!("; bottleneck: {part}"));
            // What is just below the bound is told so that it is seen to be.
            let digits = if (missed.au_pct - au_goal_pct).abs() < 0.1 { 2 } else { 1 };
            told.push(format!("with {} AU is {:.digits$} %{busiest}", missed.accelerators, missed.au_pct));
        }
        let of_checkpoint = |it| checkpoint_sentence(it, self.checkpoint_busiest.as_deref());
        told.extend(self.checkpoint.as_ref().map(of_checkpoint));
        told
    }
}

fn checkpoint_sentence(it: &CheckpointFacts, busiest: Option<&str>) -> String {
    let pause = it
        .pause_ns_mean
        .map_or_else(|| "an unknown time".to_owned(), |ns| NanoSpan(ns.round() as u64).to_string());
    let share = it.share_pct.map_or_else(String::new, |pct| format!(": {pct:.2} % of the time"));
    let how = if it.is_by_rate { ", worked out from its rate as it did not end in the window" } else { "" };
    let busiest = busiest.map_or_else(String::new, |part| format!("; bottleneck: {part}"));
    format!(
        "a checkpoint of {} holds training up for {pause}{how}, at {}{share}{busiest}",
        ByteCount(it.bytes).plain(),
        it.bytes_per_sec
    )
}

/// Finds the largest number of accelerators of `like` that keeps the bound of the workload. `run` runs a load. None where `like` has no
/// accelerators.
///
/// # Errors
/// Those of `run`.
pub fn feed<E>(
    like: &Load,
    order: &FeedingOrder,
    run: &mut dyn FnMut(&Load) -> Result<RunResult, E>,
) -> Result<Option<Feeding>, E> {
    let mut runs: Vec<RunResult> = Vec::new();
    let mut look = |count: u32| -> Result<Option<Feeding>, E> {
        let rate = |run: &RunResult| run.accelerators().map_or(0.0, |facts| facts.bytes_per_sec.0);
        let best = runs.iter().map(rate).fold(0.0, f64::max);
        runs.push(run_long_enough(&with_accelerators(like, count), order, best, run)?);
        Ok(feedings(&runs).pop())
    };
    let mut counts = order.counts.clone();
    counts.sort_unstable();
    counts.dedup();
    let mut found = None;
    for count in counts {
        found = look(count)?;
    }
    while let Some(count) = found.as_ref().and_then(Feeding::next_count) {
        found = look(count)?;
    }
    if let (Some(found), Some(checkpoint)) = (&mut found, order.checkpoint) {
        let saved = run(&saving(like, found.most.unwrap_or(1), checkpoint))?;
        (found.checkpoint, found.checkpoint_busiest) = (saved.checkpoint().copied(), busiest(&saved));
    }
    Ok(found)
}

impl Feeding {
    /// The number to try next, between the largest that keeps the bound and the first that misses it: as many as keep the bound at the
    /// rate that storage gives where it is missed, one more where these are known to, and else half of the way.
    fn next_count(&self) -> Option<u32> {
        let below = self.most.unwrap_or(0);
        let missed = self.points.iter().find(|point| !point.keeps)?;
        let above = missed.accelerators;
        let likely = (f64::from(above) * missed.au_pct / self.au_goal_pct) as u32;
        let next = match likely {
            likely if likely == below => below + 1,
            likely if likely > below => likely.min(above - 1),
            _ => below.midpoint(above),
        };
        (above - below > 1).then_some(next)
    }
}

/// Runs `load`, with windows so long that enough batches end in them where that is allowed. `best` is what storage has given, in bytes per
/// second.
fn run_long_enough<E>(
    load: &Load,
    order: &FeedingOrder,
    best: f64,
    run: &mut dyn FnMut(&Load) -> Result<RunResult, E>,
) -> Result<RunResult, E> {
    let Some(it) = accelerator(&load.workload.spec).filter(|_| order.may_lengthen) else { return run(load) };
    let count = f64::from(it.count);
    let compute_secs = it.compute.as_secs_f64() + it.per_step.as_secs_f64();
    // What storage is asked for takes at least so long.
    let of_storage = if best > 0.0 { count * it.batch_bytes() / best } else { 0.0 };
    let mut load = lengthened(load, of_storage.max(compute_secs));
    let mut result = run(&load)?;
    for _ in 0..LONGER_MAX {
        let facts = result.accelerators().copied().unwrap_or_default();
        let steps = facts.steps / u64::from(facts.accelerators.max(1));
        if steps >= STEPS_MIN {
            if !lives_on_stock(it, &facts) {
                break;
            }
            load.ramp = NanoSpan(load.ramp.get().saturating_mul(RAMP_GROWTH));
        } else {
            // Where not one fell into it nobody knows how long it takes.
            let step_secs = load.run.as_secs_f64() / (steps as f64).max(0.5);
            load = lengthened(&load, step_secs);
        }
        result = run(&load)?;
    }
    Ok(result)
}

/// Whether accelerators trained on what was loaded ahead before the window: their utilisation is then above what storage feeds for long.
fn lives_on_stock(it: &Accelerator, facts: &AcceleratorFacts) -> bool {
    let busy = f64::from(facts.accelerators) * facts.au_pct / 100.0 * (1.0 - facts.pause_pct / 100.0);
    let by_au = busy * f64::from(it.batch) / it.compute.as_secs_f64().max(1e-9);
    facts.samples_per_s < by_au * (1.0 - STOCK_MAX)
}

/// The accelerators of a workload, if it has any.
pub fn accelerator(spec: &AccessSpec) -> Option<&Accelerator> {
    spec.actors().find_map(|(_, actor)| match actor {
        Actor::Accelerator(it) => Some(it),
        _ => None,
    })
}

fn with_accelerators(like: &Load, count: u32) -> Load {
    let mut load = like.clone();
    if let Some(spec) = like.workload.spec.with_accelerators(count) {
        load.workload.spec = spec;
    }
    load
}

/// Refuses a checkpoint of `bytes` beside `training` that is longer than the `room` for it, before anything runs.
///
/// # Errors
/// [`DriverError::TooLarge`], which a run that writes it would end with.
pub fn check_checkpoint(training: &str, bytes: ByteCount, room: ByteCount) -> Result<(), DriverError> {
    if bytes <= room {
        return Ok(());
    }
    let spec = format!("{training}{CHECKPOINT_SUFFIX}");
    Err(DriverError::TooLarge { spec, what: "the checkpoint", needs: bytes, has: room })
}

/// A load that writes a checkpoint of `bytes` by `writers`.
fn saving(like: &Load, writers: u32, (bytes, every): (ByteCount, NanoSpan)) -> Load {
    let checkpoint = Checkpoint {
        writers,
        bytes: ByteCount((bytes.get() / u64::from(writers)).max(1)),
        request_bytes: 1 << 20,
        requests_per_writer: 4,
        every,
        read_back: false,
        pauses: None,
    };
    let part = MixPart {
        name: "checkpoint".to_owned(),
        actor: Some(Actor::Checkpoint(checkpoint)),
        places: Places::default(),
        ..MixPart::default()
    };
    let name = format!("{}{CHECKPOINT_SUFFIX}", like.workload.name());
    let spec = AccessSpec { name, parts: vec![part], ..AccessSpec::default() };
    // Its pause is that of the first, which starts with the run.
    let mut load = Load { ramp: NanoSpan::ZERO, ..like.clone() };
    load.workload.spec = spec;
    load
}

/// The part of the hardware that was busiest, in words.
fn busiest(result: &RunResult) -> Option<String> {
    let busy = result.settings.iter().filter_map(|(name, value)| {
        let part = name.strip_prefix("busy ")?;
        let pct: f64 = value.strip_suffix(" %")?.parse().ok()?;
        (part != "drives, mean").then_some((part, pct))
    });
    let (part, pct) = busy.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let part = if part == "drives, most" { "a drive" } else { part };
    Some(format!("{part}, busy for {pct:.0} % of the time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::find_workload;
    use core::convert::Infallible;
    use raidlab_testkit::example_result;
    use raidlab_workload::{AcceleratorFacts, ActorFacts, ActorSummary};
    use std::path::Path;

    /// One second of training behind one of ramp.
    fn like() -> Load {
        let workload = find_workload("mlperf-unet3d", Path::new("")).unwrap();
        let second = NanoSpan::from_secs(1);
        let (ramp, run, seed) = (second, second, 1);
        Load { workload, iodepth: 1, workers: 1, ramp, run, seed, once: false, settles: false }
    }

    #[test]
    fn windows_hold_enough_batches() {
        let like = like();
        let mut ran = Vec::new();
        let order = FeedingOrder { counts: vec![2, 8], may_lengthen: true, ..FeedingOrder::default() };
        let found = feed(&like, &order, &mut |load| {
            let count = accelerator(&load.workload.spec).unwrap().count;
            // Seven are fed; a batch takes longer where more ask.
            let step_secs = 0.323 * (f64::from(count) / 7.0).max(1.0);
            let steps = (load.run.as_secs_f64() / step_secs) as u64;
            ran.push((count, steps));
            let facts = AcceleratorFacts {
                accelerators: count,
                steps: steps * u64::from(count),
                au_pct: 100.0 * 0.323 / step_secs,
                au_goal_pct: 90.0,
                samples_per_s: 7.0 * f64::from(count) / step_secs,
                ..AcceleratorFacts::default()
            };
            let actors =
                vec![ActorSummary { part: "training".into(), facts: ActorFacts::Accelerator(facts) }];
            Ok::<_, Infallible>(RunResult { actors, ..example_result("x", 1.0) })
        })
        .unwrap()
        .unwrap();
        assert_eq!((found.most, found.is_limit), (Some(7), true), "{found:?}");
        for count in [2, 7, 8] {
            let steps = ran.iter().rev().find(|(ran, _)| *ran == count).unwrap().1;
            assert!(steps >= STEPS_MIN, "{count}: {steps}");
        }
    }

    /// Runs of a results file have no search behind them: what they say is what the search says.
    #[test]
    fn stored_runs_say_how_many_are_fed() {
        let run = |accelerators, au_pct: f64| {
            let facts =
                AcceleratorFacts { accelerators, au_pct, au_goal_pct: 70.0, ..AcceleratorFacts::default() };
            let actors =
                vec![ActorSummary { part: "training".into(), facts: ActorFacts::Accelerator(facts) }];
            RunResult { actors, ..example_result("cosmoflow", 1.0) }
        };
        let runs = vec![run(4, 40.0), run(1, 99.0), run(2, 50.0), run(2, 75.0), example_result("x", 1.0)];
        let found = feedings(&runs);
        let [found] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (found.most, found.is_limit, found.points.len()),
            (Some(2), true, 3),
            "of two the last counts"
        );
        assert!(
            found.sentences()[0].contains("feeds 2 accelerators of cosmoflow at AU >= 70 %"),
            "{found:?}"
        );
        assert_eq!(run(1, 99.0).offered_load().to_string(), "1 accelerator");
    }

    /// Near the limit what was loaded ahead is used up slowly, and until then utilisation is above what the rate allows.
    #[test]
    fn utilisation_and_rate_agree() {
        let like = like();
        let it = accelerator(&like.workload.spec).unwrap().clone();
        let order = FeedingOrder { counts: vec![4], may_lengthen: true, ..FeedingOrder::default() };
        let found = feed(&like, &order, &mut |load| {
            let steps = load.run.as_secs_f64() / it.compute.as_secs_f64();
            let stock = if load.ramp < NanoSpan::from_secs(30) { 6.0 } else { 0.0 };
            let accelerators = accelerator(&load.workload.spec).unwrap().count;
            let count = f64::from(accelerators);
            // Storage feeds 3.4.
            let busy = (3.4 / count).min(1.0);
            let facts = AcceleratorFacts {
                accelerators,
                steps: u64::from(accelerators) * steps as u64,
                au_pct: (100.0 * busy + stock).min(100.0),
                au_goal_pct: 90.0,
                samples_per_s: busy * count * f64::from(it.batch) / it.compute.as_secs_f64(),
                ..AcceleratorFacts::default()
            };
            let actors =
                vec![ActorSummary { part: "training".into(), facts: ActorFacts::Accelerator(facts) }];
            Ok::<_, Infallible>(RunResult { actors, ..example_result("x", 1.0) })
        });
        let Ok(found) = found;
        assert_eq!(found.unwrap().most, Some(3));
    }

    fn found(counts: &[u32], feeds: u32) -> (Feeding, Vec<u32>) {
        let second = NanoSpan::from_secs(1);
        let workload = find_workload("mlperf-unet3d", Path::new("")).unwrap();
        let like = Load {
            workload,
            iodepth: 1,
            workers: 1,
            ramp: second,
            run: second,
            seed: 1,
            once: false,
            settles: false,
        };
        let mut ran = Vec::new();
        let order = FeedingOrder { counts: counts.to_vec(), ..FeedingOrder::default() };
        let result = feed(&like, &order, &mut |load| {
            let count = accelerator(&load.workload.spec).unwrap().count;
            ran.push(count);
            let au_pct = (95.0 * f64::from(feeds) / f64::from(count)).min(95.0);
            let au_goal_pct = 90.0;
            let facts =
                AcceleratorFacts { accelerators: count, au_pct, au_goal_pct, ..AcceleratorFacts::default() };
            let actors =
                vec![ActorSummary { part: "training".into(), facts: ActorFacts::Accelerator(facts) }];
            let mut result = RunResult { actors, ..example_result("x", 1.0) };
            result.settings.insert("busy host link".into(), "97.4 %".into());
            Ok::<_, Infallible>(result)
        });
        let Ok(found) = result;
        (found.unwrap(), ran)
    }

    #[test]
    fn the_largest_number_is_found_between_those_that_are_asked_for() {
        for feeds in 1..16 {
            let (result, ran) = found(&[1, 2, 4, 8, 16], feeds);
            // 95 % of a number that is fed: one in 19 more still keeps 90 %.
            let most = (f64::from(feeds) * 95.0 / 90.0).floor() as u32;
            assert_eq!((result.most, result.is_limit), (Some(most), true), "{feeds}");
            assert!(ran.len() <= 8, "{ran:?}");
            assert!(result.points.windows(2).all(|pair| pair[0].accelerators < pair[1].accelerators));
            assert_eq!(result.busiest.as_deref(), Some("host link, busy for 97 % of the time"));
        }
        let (all, ran) = found(&[1, 4], 9);
        assert_eq!((all.most, all.is_limit, ran), (Some(4), false, vec![1, 4]));
        assert_eq!(found(&[2, 4], 0).0.most, None);
    }
}
