//! One candidate, run under each application, or under all of them at the same time.
//!
//! A window is long enough for some thousand requests, or some GB if they are large. Its ramp is long enough for a
//! write-back cache to fill ([`raidlab_worlds`]). While candidates are compared, a controller has an eighth of its cache,
//! and never more than the ramp fills: a small cache fills sooner, and is still far larger than the drives' data in
//! flight.

use super::application::together;
use super::faults::Faults;
use super::life::shortest;
use super::zones::begin_in_the_middle;
use super::{Bench, PlanError, PlanOrder};
use raidlab_advisor::Bound;
use raidlab_advisor::plan::{Geometry, Judged, Needs, Performance};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{ClosedLoop, Pacing, RequestRate, RunResult};
use raidlab_worlds::simulated::run_simulated;
use raidlab_worlds::{FILLS, Load, ModelledArray, RUN_TO_THE_END, fill_secs};

/// The least time of a window is no more than so many times its requests take.
const REQUESTS_MORE: f64 = 2.0;

/// Requests of the window for the figures that are told.
const LONG_REQUESTS: f64 = 100_000.0;

/// How many times as long a window is at most for an application that is slower than those beside it.
const APPLICATIONS_MORE: f64 = 3.0;

/// An application that makes fewer requests in the longest window there is does not make it longer.
const REQUESTS_FEW: f64 = 100.0;

/// Requests of a window at least, however large they are.
const REQUESTS_LEAST: f64 = 1_000.0;

/// A step of lowering the load goes by no more than this where it is for a percentile.
const TAIL_STEP: f64 = 3.0;

/// How many times what it needs an application is held to, so that chance does not make it less.
const HELD_TO: f64 = 1.05;

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// To tell candidates apart.
    Short,
    /// With a member missing.
    Fault,
    /// For the figures that are told.
    Long,
}

impl Window {
    /// The least and the most seconds of its ramp, and the most requests.
    const fn ramp(self) -> (f64, f64, f64) {
        match self {
            Self::Short => (0.25, 100.0, 150_000.0),
            Self::Fault => (1.0, 150.0, 300_000.0),
            Self::Long => (1.0, 200.0, 500_000.0),
        }
    }
}

/// The controller's cache in such a run: no more of it than the requests of the ramp fill, or every array would be as fast as that.
pub(super) fn cache_size(bench: &Bench<'_>, geometry: Geometry, window: Window) -> ByteCount {
    const LEAST: u64 = 32 << 20;
    let cache = &bench.models(geometry).controller.cache;
    let (whole, block) = (cache.size.0, cache.block_size.0.max(1));
    let part = if window == Window::Short { whole / 8 } else { whole };
    let written = bench.demands.iter().map(|demand| demand.bytes_mean * (1.0 - demand.read_share));
    let least_written = written.filter(|bytes| *bytes > 0.0).fold(f64::INFINITY, f64::min);
    let filled = (window.ramp().2 * least_written / FILLS) as u64;
    let part = part.min(filled).max(LEAST.min(whole));
    ByteCount(part / block * block)
}

/// How hard an application asks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Requests in flight.
    pub(super) iodepth: u32,
    /// Requests per second at most, where it is held to what it needs.
    pub(super) held_iops: Option<f64>,
}

impl Pace {
    /// A loop's own pacing, which is held to no more than this pace.
    pub(super) fn of(self, own: Pacing) -> Pacing {
        match (own, self.held_iops.and_then(RequestRate::new)) {
            (Pacing::Closed(closed), Some(held)) => {
                let rate_max = closed.rate_max.map_or(held, |own| own.min(held));
                Pacing::Closed(ClosedLoop { rate_max: Some(rate_max), ..closed })
            }
            (own, _) => own,
        }
    }
}

/// The load of run `run` on an array, with its applications at these paces.
pub(super) fn load(bench: &Bench<'_>, judged: &Judged, run: usize, window: Window, paces: &[Pace]) -> Load {
    let order = bench.order;
    let mut workload = if order.together {
        together(order.applications, &order.needs.own, paces)
    } else {
        order.applications[run].workload.clone()
    };
    begin_in_the_middle(bench, judged, &mut workload);
    let (ramp, length) = if workload.spec.trace.is_some() {
        (NanoSpan::ZERO, trace_window(window))
    } else {
        times(bench, judged, run, window)
    };
    let (iodepth, seed) = (paces[0].iodepth, order.seed);
    Load { workload, iodepth, workers: 1, ramp, run: length, seed, once: false, settles: false }
}

/// The pace of each application of run `run`, as the array was judged with.
pub(super) fn paces(bench: &Bench<'_>, judged: &Judged, run: usize) -> Vec<Pace> {
    let pace = |it: &Performance| Pace { iodepth: it.iodepth, held_iops: it.held_iops };
    judged.performance[bench.order.apps_of(run)].iter().map(pace).collect()
}

/// The same, with those that got more than they need held to a little more than that; none where there is none beside others.
pub(super) fn held(bench: &Bench<'_>, judged: &Judged, run: usize) -> Option<Vec<Pace>> {
    let (order, free) = (bench.order, paces(bench, judged, run));
    let mut held = free.clone();
    for (app, pace) in order.apps_of(run).zip(&mut held) {
        let need = order.needs.requests_per_sec(app, bench.demands[app].bytes_mean);
        let most = need.map(|need| HELD_TO * need).filter(|most| *most < judged.performance[app].iops);
        if let Some(most) = most.filter(|_| !order.applications[app].workload.spec.pacing.is_open()) {
            pace.held_iops = Some(most);
        }
    }
    (order.together && held.len() > 1 && held != free).then_some(held)
}

/// A trace is run to its end where it matters, and over its first seconds to tell candidates apart.
fn trace_window(window: Window) -> NanoSpan {
    match window {
        Window::Short => NanoSpan::from_secs(20),
        Window::Fault => NanoSpan::from_secs(60),
        Window::Long => RUN_TO_THE_END,
    }
}

fn times(bench: &Bench<'_>, judged: &Judged, run: usize, window: Window) -> (NanoSpan, NanoSpan) {
    // Requests and bytes, the least and the most seconds of the window.
    let (requests, bytes, run_secs) = match window {
        Window::Short => (20_000.0, 1.5e9, (0.25, 10.0)),
        Window::Fault => (30_000.0, 2e9, (1.0, 10.0)),
        Window::Long => (LONG_REQUESTS, 6e9, (1.0, 20.0)),
    };
    let ramp = window.ramp();
    let apps = bench.order.apps_of(run);
    let rate = |app: usize| judged.performance.get(app).map_or(1.0, |it| it.iops.max(1.0));
    let iops: f64 = apps.clone().map(rate).sum();
    let moved: f64 = apps.clone().map(|app| rate(app) * bench.demands[app].bytes_mean).sum();
    // Beside a fast application a slow one has fewer requests: the window is longer for it, as far as that goes.
    let counts = |rate: &f64| rate * run_secs.1 >= REQUESTS_FEW;
    let slowest = apps.clone().map(rate).filter(counts).fold(f64::INFINITY, f64::min);
    let secs = (requests / slowest).min(APPLICATIONS_MORE * requests / iops).max(requests / iops);
    // A large request is many of the members: what takes time to simulate is bytes then.
    let secs = secs.min((bytes / moved).max(REQUESTS_LEAST / iops));
    // Fast arrays do many times the requests in the least time; what is told does not get better by them, and takes as much longer.
    // What is left with a member missing is compared with the long run, and flash is faster before its buffers are full: the same time.
    let enough = if window == Window::Fault { secs * LONG_REQUESTS / requests } else { secs };
    let least = |least: f64| least.min(REQUESTS_MORE * enough);
    let length: f64 = secs.clamp(least(run_secs.0), run_secs.1);
    let written: f64 = apps
        .map(|app| rate(app) * bench.demands[app].bytes_mean * (1.0 - bench.demands[app].read_share))
        .sum();
    let cache = cache_size(bench, judged.geometry, window);
    let fills = if judged.settings.write_back { fill_secs(cache, written) } else { 0.0 };
    let ramp = fills.max(length / 2.0).min(ramp.2 / iops).clamp(least(ramp.0), ramp.1);
    (NanoSpan::from_secs_f64(ramp), NanoSpan::from_secs_f64(length))
}

/// How many times its bound a latency is, as far as one step of lowering the load goes by it. The mean falls with the requests in
/// flight, as Little's law has it. What the slowest take falls with them in some places and hardly in others, so a step is at most to
/// a third.
fn excess(bound: &Bound, found: &Performance) -> f64 {
    let over = bound.figure_in(found) / bound.value();
    if bound.is_on_mean() { over } else { over.min(TAIL_STEP) }
}

/// Fewer requests in flight, where application by application a latency is so many times its bound: fewer of those that miss one, and
/// of the others where those have one left. None where that helps nobody.
fn lowered(iodepths: &[u32], over: &[f64]) -> Option<Vec<u32>> {
    let less =
        |iodepth: u32, over: f64| ((f64::from(iodepth) / over * 0.97) as u32).clamp(1, iodepth.max(2) - 1);
    let stuck = iodepths.iter().zip(over).filter(|(iodepth, over)| **over > 1.0 && **iodepth == 1);
    let by_others = stuck.map(|(_, over)| over.min(TAIL_STEP)).fold(1.0, f64::max);
    let next: Vec<u32> = iodepths
        .iter()
        .zip(over)
        .map(|(iodepth, over)| {
            let over = if *over > 1.0 { *over } else { by_others };
            if over > 1.0 { less(*iodepth, over) } else { *iodepth }
        })
        .collect();
    (next != iodepths).then_some(next)
}

/// Whether an application gets less than the rates that it needs.
fn misses_rate(order: &PlanOrder<'_>, apps: core::ops::Range<usize>, found: &[Performance]) -> bool {
    let needs = &order.needs;
    apps.zip(found).any(|(app, found)| {
        needs.iops_of(app).is_some_and(|need| found.iops < need)
            || needs.bytes_per_sec_of(app).is_some_and(|need| found.bytes_per_sec < need)
    })
}

/// A number of requests in flight between what was too much and what was enough, application by application; none where they are near
/// each other.
fn between(over: &[u32], within: &[u32]) -> Option<Vec<u32>> {
    const NEAR: f64 = 1.1;
    let is_far = |(over, within): (&u32, &u32)| f64::from(*over) > NEAR * f64::from(*within);
    let middle = |(over, within): (&u32, &u32)| (f64::from(*over) * f64::from(*within)).sqrt().round() as u32;
    let next: Vec<u32> = over.iter().zip(within).map(middle).collect();
    let is_new = next != over && next != within;
    (is_new && over.iter().zip(within).any(is_far)).then_some(next)
}

/// Runs every application on an array. Where a latency is above its bound the load is lowered.
pub(super) fn judge(
    bench: &Bench<'_>,
    kept: &Judged,
    window: Window,
) -> Result<(Judged, Vec<RunResult>), PlanError> {
    let order = bench.order;
    let (mut judged, mut runs) = (kept.clone(), Vec::new());
    let array = bench.array(kept, kept.geometry.spares, window)?;
    judged.score = 1.0;
    for run in 0..order.runs() {
        let apps = order.apps_of(run);
        let (result, found) = run_within_needs(bench, kept, (&array, run, window))?;
        judged.performance[apps.clone()].copy_from_slice(&found);
        let merit = |app: usize| {
            let found = &judged.performance[app];
            match bench.demands[app].pace {
                Some(pace) => (found.iops / pace).min(1.0),
                None => found.metric(order.applications[app].workload.metric),
            }
        };
        judged.score *= apps.map(merit).product::<f64>();
        runs.push(result);
    }
    judged.life = shortest(bench, &judged, &runs);
    let drive = bench.models(kept.geometry).drive_in_place();
    judged.loss_per_year = super::loss::per_year(&drive, kept.geometry);
    // The longer runs of the best are followed by all their faults.
    if window == Window::Short && order.needs.keep_degraded.is_some() && judged.keeps(&order.needs) {
        judged.degraded_share = Some(with_faults(bench, &judged)?);
    }
    Ok((judged, runs))
}

/// A run, and what each of its applications got.
type OfRun = (RunResult, Vec<Performance>);

/// Run `run` of an array. Of applications that run together each must get what it needs, and none is owed more: where a need is
/// missed, it is run once more with those that got more held to what they need.
fn run_within_needs(
    bench: &Bench<'_>,
    kept: &Judged,
    (array, run, window): (&ModelledArray, usize, Window),
) -> Result<OfRun, PlanError> {
    let apps = bench.order.apps_of(run);
    let free: Vec<Option<f64>> = apps.clone().map(|_| None).collect();
    let found = run_within_bounds(bench, kept, (array, run, window), &free)?;
    let missed = shortfall(bench.order, apps.clone(), &found.1);
    if missed <= 1.0 {
        return Ok(found);
    }
    let mut judged = kept.clone();
    judged.performance[apps.clone()].copy_from_slice(&found.1);
    let Some(held) = held(bench, &judged, run) else { return Ok(found) };
    let held: Vec<Option<f64>> = held.iter().map(|pace| pace.held_iops).collect();
    let other = run_within_bounds(bench, kept, (array, run, window), &held)?;
    Ok(if shortfall(bench.order, apps, &other.1) < missed { other } else { found })
}

/// How many times too slow the application is that is farthest from what it needs, by rate or by latency.
fn shortfall(order: &PlanOrder<'_>, apps: core::ops::Range<usize>, found: &[Performance]) -> f64 {
    let needs = &order.needs;
    let of_app = |(app, found): (usize, &Performance)| {
        let iops = needs.iops_of(app).map(|need| need / found.iops);
        let bytes = needs.bytes_per_sec_of(app).map(|need| need / found.bytes_per_sec);
        let latency = needs.latency_of(app).map(|bound| bound.figure_in(found) / bound.value());
        iops.into_iter().chain(bytes).chain(latency).fold(0.0, f64::max)
    };
    apps.zip(found).map(of_app).fold(0.0, f64::max)
}

/// Run `run` of an array with as many requests in flight as keep the bounds on latency. These are lowered in coarse steps, so where an
/// application then misses a rate, what lies between the last two is tried.
fn run_within_bounds(
    bench: &Bench<'_>,
    kept: &Judged,
    (array, run, window): (&ModelledArray, usize, Window),
    held: &[Option<f64>],
) -> Result<OfRun, PlanError> {
    const RUNS_MORE_MAX: u32 = 6;
    let (order, apps) = (bench.order, bench.order.apps_of(run));
    let mut depths: Vec<u32> = order.applications[apps.clone()].iter().map(|app| app.iodepth).collect();
    let mut more = 0;
    let mut expected = kept.clone();
    let mut too_much: Option<Vec<u32>> = None;
    let mut enough: Option<(OfRun, Vec<u32>)> = None;
    loop {
        let pace =
            |(iodepth, held_iops): (&u32, &Option<f64>)| Pace { iodepth: *iodepth, held_iops: *held_iops };
        let paces: Vec<Pace> = depths.iter().zip(held).map(pace).collect();
        let load = load(bench, &expected, run, window, &paces);
        let result = run_simulated(&bench.models(kept.geometry), array, &load);
        let result = result.map_err(|source| PlanError::Simulation {
            label: format!("{}, {}", bench.label(kept.geometry), load.label()),
            source,
        })?;
        let found = bench.performance(&result, run, &paces);
        expected.performance[apps.clone()].copy_from_slice(&found);
        // What the ramp was made for may have been a bound, and the cache not full after it.
        let (ramp, _) = times(bench, &expected, run, window);
        if load.workload.spec.trace.is_none() && ramp.0 > 2 * load.ramp.0 {
            continue;
        }
        let over = apps.clone().zip(&found).map(|(app, found)| {
            order.needs.latency_of(app).map(|bound| excess(bound, found)).fold(0.0, f64::max)
        });
        let over = over.collect::<Vec<f64>>();
        let keeps = over.iter().all(|over| *over <= 1.0);
        let next = match (&enough, &too_much) {
            (None, None) if keeps => return Ok((result, found)),
            (None, _) if !keeps => lowered(&depths, &over),
            // What keeps its rates, too, is an answer.
            (_, Some(too_much)) if keeps => {
                between(too_much, &depths).filter(|_| misses_rate(order, apps.clone(), &found))
            }
            (Some((_, within)), _) => between(&depths, within),
            (None, _) => None,
        };
        let next = next.filter(|_| more < RUNS_MORE_MAX);
        let Some(next) = next else {
            return Ok(match enough {
                Some((kept, _)) if !keeps => kept,
                _ => (result, found),
            });
        };
        if keeps {
            enough = Some(((result, found), depths));
        } else {
            too_much = Some(depths);
        }
        (more, depths) = (more + 1, next);
    }
}

/// What is left of an array with a member missing and while it is rebuilt; nothing where it survives none.
fn with_faults(bench: &Bench<'_>, judged: &Judged) -> Result<f64, PlanError> {
    if judged.survives_always == 0 {
        return Ok(0.0);
    }
    let mut faults = Faults::default();
    for run in 0..bench.order.runs() {
        // As long as the run of the whole array was: tens of candidates are looked at so, and the best are run for longer.
        faults.add(bench.faults(judged, (run, Window::Short))?);
    }
    Ok(bench.degraded_share(&judged.performance, faults.both()))
}

/// What application `app` gets of an array alone, with as many requests in flight as it was judged with beside the others, and held to
/// nothing.
pub(super) fn alone(bench: &Bench<'_>, judged: &Judged, app: usize) -> Result<Performance, PlanError> {
    let order = bench.order;
    let own = order.needs.own.get(app).cloned().into_iter().collect();
    let needs = Needs { own, ..order.needs.clone() };
    let order = PlanOrder {
        applications: &order.applications[app..=app],
        needs,
        space: order.space.clone(),
        ..*order
    };
    let bench = Bench { order: &order, parts: bench.parts, demands: &bench.demands[app..=app] };
    let alone = Performance { held_iops: None, ..judged.performance[app] };
    let judged = Judged { performance: vec![alone], ..judged.clone() };
    let array = bench.array(&judged, judged.geometry.spares, Window::Fault)?;
    let paces = paces(&bench, &judged, 0);
    let load = load(&bench, &judged, 0, Window::Fault, &paces);
    let result = run_simulated(&bench.models(judged.geometry), &array, &load).map_err(|source| {
        PlanError::Simulation { label: format!("{}, {}", bench.label(judged.geometry), load.label()), source }
    })?;
    Ok(bench.performance(&result, 0, &paces)[0])
}

#[cfg(test)]
mod tests {
    use super::{between, lowered};

    /// 64 requests in flight became 21 where 40 kept the bound and the rate, and another array was bought.
    #[test]
    fn what_lies_between_two_steps_is_tried() {
        assert_eq!(lowered(&[64], &[3.0]), Some(vec![20]));
        assert_eq!(between(&[64], &[20]), Some(vec![36]));
        assert_eq!(between(&[1 << 20], &[1 << 18]), Some(vec![1 << 19]), "no product is too large");
        assert_eq!(between(&[64], &[36]), Some(vec![48]));
        assert_eq!(between(&[40], &[37]), None, "near enough");
        assert_eq!(between(&[2], &[1]), None, "nothing lies between");
        assert_eq!(between(&[64, 8], &[16, 8]), Some(vec![32, 8]), "each of its own");
    }
}
