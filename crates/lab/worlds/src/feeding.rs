//! Finds how many accelerators storage feeds: the largest number whose utilisation keeps the bound of the workload.
//!
//! ```text
//! AU  │• • • •                 the numbers that were asked for, then halves of what lies between
//!     │┄┄┄┄┄┄┄┄┄┄┄┄┄ bound     the last that keeps it and the first that does not
//!     │          •   •
//!     └──────────────── accelerators
//! ```
//! More accelerators never have a higher utilisation on the same storage, so numbers between two that keep the bound need
//! no run. With a checkpoint asked for, one more run writes it, with a writer for each accelerator that is fed.

use crate::load::Load;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{
    Accelerator, AccessSpec, Actor, Checkpoint, CheckpointFacts, MixPart, Places, RunResult,
};
use serde::Serialize;

/// What to find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedingOrder {
    /// Numbers of accelerators to try first, rising.
    pub counts: Vec<u32>,
    /// Bytes of a checkpoint, all writers together, and the time of training between two.
    pub checkpoint: Option<(ByteCount, NanoSpan)>,
    /// Whether windows may be longer than those of the load, so that enough batches fall into them.
    pub may_lengthen: bool,
    /// Whether to go on, doubling, where the largest number that was asked for keeps the bound.
    pub until_missed: bool,
}

/// Batches of each accelerator before a window, in it, and the fewest that one may have before it is made longer.
const RAMP_STEPS: f64 = 8.0;
const RUN_STEPS: f64 = 30.0;
const STEPS_MIN: u64 = 20;
/// The most accelerators that are tried, and how often a window is made longer.
const ACCELERATORS_MAX: u32 = 4096;
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
    /// Whether one more was run and missed it; else storage may feed more than was asked.
    pub is_limit: bool,
    /// The busiest part where the bound is missed first, and how busy it was, where the world tells.
    pub busiest: Option<String>,
    /// The checkpoint, if one was asked for.
    pub checkpoint: Option<CheckpointFacts>,
}

/// Finds the largest number of accelerators of `like` that keeps the bound of the workload. `run` runs a load.
///
/// Length: the three stages of one search share what was found.
///
/// # Errors
/// Those of `run`.
pub fn feed<E>(
    like: &Load,
    order: &FeedingOrder,
    run: &mut dyn FnMut(&Load) -> Result<RunResult, E>,
) -> Result<Feeding, E> {
    let au_goal_pct = accelerator(&like.workload.spec).map_or(90.0, |it| it.au_goal_pct);
    let mut found = Feeding {
        workload: like.workload.name().to_owned(),
        target: String::new(),
        au_goal_pct,
        points: Vec::new(),
        most: None,
        is_limit: false,
        busiest: None,
        checkpoint: None,
    };
    let sample_bytes = accelerator(&like.workload.spec).map_or(0.0, |it| it.sample.mean_bytes());
    let mut counts = order.counts.clone();
    counts.sort_unstable();
    counts.dedup();
    let mut missed: Option<(u32, Option<String>)> = None;
    let mut look = |count: u32, found: &mut Feeding| -> Result<Option<String>, E> {
        let best = found.points.iter().map(|point| point.mb_per_s * 1e6).fold(0.0, f64::max);
        let result = run_long_enough(&with_accelerators(like, count), order, best, run)?;
        let facts = result.accelerators().copied().unwrap_or_default();
        found.target.clone_from(&result.target);
        found.points.push(FedPoint {
            accelerators: count,
            au_pct: facts.au_pct,
            mb_per_s: facts.samples_per_s * sample_bytes / 1e6,
            samples_per_s: facts.samples_per_s,
            keeps: facts.au_pct >= au_goal_pct,
        });
        Ok(busiest(&result))
    };
    for count in counts {
        let busy = look(count, &mut found)?;
        let keeps = found.points.last().is_some_and(|point| point.keeps);
        match (&missed, keeps) {
            (None, true) => found.most = Some(count),
            (None, false) => missed = Some((count, busy)),
            (Some(_), _) => {}
        }
    }
    while order.until_missed
        && missed.is_none()
        && let Some(last) = found.most.filter(|most| *most < ACCELERATORS_MAX)
    {
        let count = last.saturating_mul(2).min(ACCELERATORS_MAX);
        let busy = look(count, &mut found)?;
        if found.points.last().is_some_and(|point| point.keeps) {
            found.most = Some(count);
        } else {
            missed = Some((count, busy));
        }
    }
    while let Some((above, _)) = &missed {
        let (below, above) = (found.most.unwrap_or(0), *above);
        if above - below < 2 {
            break;
        }
        let count = below.midpoint(above);
        let busy = look(count, &mut found)?;
        if found.points.last().is_some_and(|point| point.keeps) {
            found.most = Some(count);
        } else {
            missed = Some((count, busy));
        }
    }
    found.points.sort_by_key(|point| point.accelerators);
    found.is_limit = missed.is_some();
    found.busiest = missed.and_then(|(_, busy)| busy);
    if let Some(checkpoint) = order.checkpoint {
        let writers = found.most.unwrap_or(1);
        found.checkpoint = run(&saving(like, writers, checkpoint))?.checkpoint().copied();
    }
    Ok(found)
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
            break;
        }
        // Where not one fell into it nobody knows how long it takes.
        let step_secs = load.run.as_secs_f64() / (steps as f64).max(0.5);
        load = lengthened(&load, step_secs);
        result = run(&load)?;
    }
    Ok(result)
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
    let accelerators = if count == 1 { "accelerator" } else { "accelerators" };
    load.workload.spec.name = format!("{} with {count} {accelerators}", like.workload.name());
    load
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
    let name = format!("{}, checkpoint", like.workload.name());
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

    #[test]
    fn windows_hold_enough_batches_and_it_goes_on_until_the_bound_is_missed() {
        let workload = find_workload("mlperf-unet3d", Path::new("")).unwrap();
        let second = NanoSpan::from_secs(1);
        let (ramp, run, seed) = (second, second, 1);
        let like = Load { workload, iodepth: 1, workers: 1, ramp, run, seed, once: false, settles: false };
        let mut ran = Vec::new();
        let order = FeedingOrder {
            counts: vec![2],
            may_lengthen: true,
            until_missed: true,
            ..FeedingOrder::default()
        };
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
                samples_per_s: 7.0 * f64::from(count) / step_secs,
                ..AcceleratorFacts::default()
            };
            let actors =
                vec![ActorSummary { part: "training".into(), facts: ActorFacts::Accelerator(facts) }];
            Ok::<_, Infallible>(RunResult { actors, ..example_result("x", 1.0) })
        })
        .unwrap();
        assert_eq!((found.most, found.is_limit), (Some(7), true), "{found:?}");
        assert!(found.points.iter().any(|point| point.accelerators == 8), "{found:?}");
        for count in [2, 4, 7, 8] {
            let steps = ran.iter().rev().find(|(ran, _)| *ran == count).unwrap().1;
            assert!(steps >= STEPS_MIN, "{count}: {steps}");
        }
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
            let facts = AcceleratorFacts { accelerators: count, au_pct, ..AcceleratorFacts::default() };
            let actors =
                vec![ActorSummary { part: "training".into(), facts: ActorFacts::Accelerator(facts) }];
            let mut result = RunResult { actors, ..example_result("x", 1.0) };
            result.settings.insert("busy host link".into(), "97.4 %".into());
            Ok::<_, Infallible>(result)
        });
        let Ok(found) = result;
        (found, ran)
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
