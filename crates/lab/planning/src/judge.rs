//! One candidate, run under each application, or under all of them at the same time.
//!
//! A window is long enough for some thousand requests, or some GB if they are large. Its ramp is long enough for a
//! write-back cache to fill ([`raidlab_worlds`]). While candidates are compared, a controller has an eighth of its cache,
//! and never more than the ramp fills: a small cache fills sooner, and is still far larger than the drives' data in
//! flight.

use super::application::together;
use super::faults::Faults;
use super::life::shortest;
use super::reliability::{REBUILD_SHARE, RebuildRate};
use super::zones::begin_in_the_middle;
use super::{Bench, PlanError, PlanOrder};
use raidlab_advisor::Bound;
use raidlab_advisor::plan::{Geometry, Judged, Needs, Performance};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{ClosedLoop, Pacing, RequestRate, RunResult};
use raidlab_worlds::simulated::run_simulated;
use raidlab_worlds::{FILLS, Load, ModelledArray, RUN_TO_THE_END, fill_secs};

/// The least time of a window is no more than so many times its requests take, and no more than those take where bytes bound it.
const REQUESTS_MORE: f64 = 2.0;

/// Requests of the window for the figures that are told, and where the slowest thousandth is bound.
const LONG_REQUESTS: f64 = 50_000.0;
const LONG_REQUESTS_DEEP: f64 = 100_000.0;

/// How many times as long a window is at most for an application that is slower than those beside it.
const APPLICATIONS_MORE: f64 = 3.0;

/// An application that makes fewer requests in the longest window there is does not make it longer.
const REQUESTS_FEW: f64 = 100.0;

/// Requests of a window at least, however large they are.
const REQUESTS_LEAST: f64 = 1_000.0;

/// A step of lowering the load goes by no more than this where it is for a percentile.
const TAIL_STEP: f64 = 3.0;

/// Numbers of requests in flight are near each other where one is so many times the other.
const NEAR: f64 = 1.1;

/// How many times what it needs an application is held to, so that chance does not make it less.
pub(super) const HELD_TO: f64 = 1.05;

/// How many times as many requests arrive where it is asked what is left beyond those that do.
pub(super) const MORE_ARRIVALS: f64 = 2.0;

/// How many cycles of a load that changes its window lasts at least.
const CYCLES: f64 = 4.0;

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

    /// How many times the requests in flight that keep a bound those are that don't, where that is near enough: any number is, to tell
    /// candidates apart, but the figures that are told are of about as many as keep it.
    const fn near(self) -> f64 {
        match self {
            Self::Short | Self::Fault => f64::INFINITY,
            Self::Long => 1.25,
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
        let mut alone = order.applications[run].workload.clone();
        alone.spec.pacing = paces[0].of(alone.spec.pacing);
        alone
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

/// What the applications of run `run` get at the rates that they need, each held to its own; none where no rate is needed, or no
/// more is got. Where all of them arrive by themselves, what they get if [`MORE_ARRIVALS`] times as many do.
pub(super) fn at_need(
    bench: &Bench<'_>,
    judged: &Judged,
    run: usize,
) -> Result<Option<Vec<Performance>>, PlanError> {
    let (order, mut paces) = (bench.order, paces(bench, judged, run));
    if order.all_arrive(run) {
        return at_paces(bench, judged, run, (&paces, MORE_ARRIVALS)).map(Some);
    }
    let mut is_less = false;
    for (app, pace) in order.apps_of(run).zip(&mut paces) {
        let need = order.needs.requests_per_sec(app, bench.demands[app].bytes_mean);
        let Some(need) = need.filter(|need| HELD_TO * need < judged.performance[app].iops) else { continue };
        let spec = &order.applications[app].workload.spec;
        // Traces, and parts of a workload, have paces of their own.
        let is_one_loop = spec.trace.is_none() && spec.parts.is_empty() && !spec.pacing.is_open();
        if pace.held_iops.is_none() && is_one_loop {
            (pace.held_iops, is_less) = (Some(need), true);
        }
    }
    if !is_less {
        return Ok(None);
    }
    at_paces(bench, judged, run, (&paces, 1.0)).map(Some)
}

/// What the applications of run `run` get at these paces, as long as runs with a member missing take, with so many times the arrivals.
fn at_paces(
    bench: &Bench<'_>,
    judged: &Judged,
    run: usize,
    (paces, arrivals): (&[Pace], f64),
) -> Result<Vec<Performance>, PlanError> {
    let array = bench.array(judged, judged.geometry.spares, Window::Fault)?;
    let mut load = load(bench, judged, run, Window::Fault, paces);
    load.workload.spec = load.workload.spec.with_arrivals(arrivals);
    let result = run_simulated(&bench.models(judged.geometry), &array, &load).map_err(|source| {
        PlanError::Simulation { label: format!("{}, {}", bench.label(judged.geometry), load.label()), source }
    })?;
    Ok(bench.performance(&result, run, paces))
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

/// Requests of the window of a run of `apps` whose figures are told.
fn long_requests(order: &PlanOrder<'_>, mut apps: core::ops::Range<usize>) -> f64 {
    let is_deep = |bound: &Bound| !["mean", "p50", "p90", "p95", "p99"].contains(&bound.figure_name());
    if apps.any(|app| order.needs.latency_of(app).any(is_deep)) { LONG_REQUESTS_DEEP } else { LONG_REQUESTS }
}

fn times(bench: &Bench<'_>, judged: &Judged, run: usize, window: Window) -> (NanoSpan, NanoSpan) {
    let long = long_requests(bench.order, bench.order.apps_of(run));
    // Requests and bytes, the least and the most seconds of the window.
    let (requests, bytes, run_secs) = match window {
        Window::Short => (20_000.0, 1.5e9, (0.25, 10.0)),
        Window::Fault => (30_000.0, 2e9, (1.0, 10.0)),
        Window::Long => (long, 6e9, (1.0, 20.0)),
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
    let of_bytes = (bytes / moved).max(REQUESTS_LEAST / iops);
    let more = if of_bytes < secs { 1.0 } else { REQUESTS_MORE };
    let secs = secs.min(of_bytes);
    // Fast arrays do many times the requests in the least time; what is told does not get better by them, and takes as much longer.
    // What is left with a member missing is compared with the long run, and flash is faster before its buffers are full: the same time.
    let enough = if window == Window::Fault { secs * long / requests } else { secs };
    let least = |least: f64| least.min(more * enough);
    let length: f64 = secs.clamp(least(run_secs.0), run_secs.1);
    let cycle = apps.clone().map(|app| bench.order.applications[app].workload.spec.cycle()).max();
    let length = length.max(CYCLES * cycle.unwrap_or_default().as_secs_f64());
    let written: f64 = apps
        .map(|app| rate(app) * bench.demands[app].bytes_mean * (1.0 - bench.demands[app].read_share))
        .sum();
    let cache = cache_size(bench, judged.geometry, window);
    let fills = if judged.settings.write_back { fill_secs(cache, written) } else { 0.0 };
    let ramp = fills.max(length / 2.0).min(ramp.2 / iops).clamp(least(ramp.0), ramp.1);
    (NanoSpan::from_secs_f64(ramp), NanoSpan::from_secs_f64(length))
}

/// An application's requests in flight, and how many times its bound the worst of its latencies was.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tried {
    iodepth: u32,
    over: f64,
}

/// With which power of the requests in flight a latency goes, by two runs; what one run says is that it goes with them, as Little's law
/// has it for the mean.
fn power(more: Tried, less: Tried) -> f64 {
    let power = (more.over / less.over).ln() / (f64::from(more.iodepth) / f64::from(less.iodepth)).ln();
    if power.is_finite() { power.clamp(1.0 / 3.0, 3.0) } else { 1.0 }
}

/// Fewer requests in flight: fewer of the applications that miss a bound, and of the others where those have one left. None where that
/// helps nobody. How far a step goes is told by the one `before`; to a third at most (`step_max`) where percentiles are bound, which
/// fall with the requests in flight in some places and hardly in others.
fn lowered(now: &[Tried], before: Option<&[Tried]>, step_max: &[f64]) -> Option<Vec<u32>> {
    let less =
        |iodepth: u32, step: f64| ((f64::from(iodepth) / step * 0.97) as u32).clamp(1, iodepth.max(2) - 1);
    let stuck = now.iter().filter(|it| it.over > 1.0 && it.iodepth == 1);
    let by_others = stuck.map(|it| it.over.min(TAIL_STEP)).fold(1.0, f64::max);
    let step = |app: usize| {
        let it = now[app];
        if it.over <= 1.0 {
            return by_others;
        }
        let power = before.map_or(1.0, |before| power(before[app], it));
        it.over.powf(1.0 / power).min(step_max[app])
    };
    let next = |(app, it): (usize, &Tried)| {
        let step = step(app);
        if step > 1.0 { less(it.iodepth, step) } else { it.iodepth }
    };
    let next: Vec<u32> = now.iter().enumerate().map(next).collect();
    next.iter().zip(now).any(|(next, now)| *next != now.iodepth).then_some(next)
}

/// Whether an application gets less than the rates that it needs.
fn misses_rate(order: &PlanOrder<'_>, apps: core::ops::Range<usize>, found: &[Performance]) -> bool {
    let needs = &order.needs;
    apps.zip(found).any(|(app, found)| {
        needs.iops_of(app).is_some_and(|need| found.iops < need)
            || needs.bytes_per_sec_of(app).is_some_and(|need| found.bytes_per_sec < need)
    })
}

/// A number of requests in flight between what was too much and what was enough, application by application: where the latency should
/// meet its bound. None where they are near each other.
fn between(too_much: &[Tried], enough: &[Tried], near: f64) -> Option<Vec<u32>> {
    let is_far =
        |(over, within): (&Tried, &Tried)| f64::from(over.iodepth) > near * f64::from(within.iodepth);
    let middle = |(over, within): (&Tried, &Tried)| {
        let (most, least) = (f64::from(over.iodepth), f64::from(within.iodepth));
        // What another one's bound lowered meets its own anywhere.
        let share = if over.over > 1.0 && most > least {
            (0.98 / within.over).ln() / power(*over, *within) / (most / least).ln()
        } else {
            0.5
        };
        (least * (most / least).powf(share.clamp(0.2, 0.8))).round() as u32
    };
    let next: Vec<u32> = too_much.iter().zip(enough).map(middle).collect();
    let is_new = |of: &[Tried]| next.iter().zip(of).any(|(next, of)| *next != of.iodepth);
    let is_far = too_much.iter().zip(enough).any(is_far);
    (is_far && is_new(too_much) && is_new(enough)).then_some(next)
}

/// Runs every application on an array, as hard as it was run before, if it was. Where a latency is above its bound the load is lowered.
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
    let by_faults = order.needs.keep_degraded.is_some() || may_lose(bench, &judged);
    if window == Window::Short && by_faults && judged.keeps(&order.needs) {
        with_faults(bench, &mut judged)?;
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
    let begin = paces(bench, kept, run);
    let found = run_within_bounds(bench, kept, (array, run, window), &begin)?;
    let missed = shortfall(bench.order, apps.clone(), &found.1);
    // What was held to its needs in a shorter run did less without.
    if missed <= 1.0 || begin.iter().any(|pace| pace.held_iops.is_some()) {
        return Ok(found);
    }
    let mut judged = kept.clone();
    judged.performance[apps.clone()].copy_from_slice(&found.1);
    let Some(held) = held(bench, &judged, run) else { return Ok(found) };
    let held: Vec<Pace> =
        held.iter().zip(&begin).map(|(held, begin)| Pace { iodepth: begin.iodepth, ..*held }).collect();
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
pub(super) fn run_within_bounds(
    bench: &Bench<'_>,
    kept: &Judged,
    (array, run, window): (&ModelledArray, usize, Window),
    begin: &[Pace],
) -> Result<OfRun, PlanError> {
    const RUNS_MORE_MAX: u32 = 6;
    let (order, apps) = (bench.order, bench.order.apps_of(run));
    let mut depths: Vec<u32> = begin.iter().map(|pace| pace.iodepth).collect();
    let step_max: Vec<f64> = apps.clone().map(|app| step_max(order, app)).collect();
    let mut more = 0;
    let mut expected = kept.clone();
    let mut too_much: Option<Vec<Tried>> = None;
    let mut enough: Option<(OfRun, Vec<Tried>)> = None;
    loop {
        let pace = |(iodepth, begin): (&u32, &Pace)| Pace { iodepth: *iodepth, ..*begin };
        let paces: Vec<Pace> = depths.iter().zip(begin).map(pace).collect();
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
        let tried = apps.clone().zip(&found).zip(&depths).map(|((app, found), iodepth)| {
            let over = order.needs.latency_of(app).map(|bound| bound.figure_in(found) / bound.value());
            Tried { iodepth: *iodepth, over: over.fold(0.0, f64::max) }
        });
        let tried = tried.collect::<Vec<Tried>>();
        let keeps = tried.iter().all(|it| it.over <= 1.0);
        let misses = misses_rate(order, apps.clone(), &found);
        let near = if misses { NEAR } else { window.near() };
        let next = match (&enough, &too_much) {
            (None, None) if keeps => return Ok((result, found)),
            (None, before) if !keeps => lowered(&tried, before.as_deref(), &step_max),
            // What keeps its rates, too, is an answer.
            (_, Some(too_much)) if keeps => between(too_much, &tried, near),
            (Some((_, within)), _) => between(&tried, within, window.near()),
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
            enough = Some(((result, found), tried));
        } else {
            too_much = Some(tried);
        }
        (more, depths) = (more + 1, next);
    }
}

/// How far one step lowers the load of an application at most.
fn step_max(order: &PlanOrder<'_>, app: usize) -> f64 {
    let is_on_mean = order.needs.latency_of(app).all(Bound::is_on_mean);
    if is_on_mean { f64::INFINITY } else { TAIL_STEP }
}

/// Whether data are lost more often than is allowed where rebuilds take a few times as long as the rate that is reserved for them has it,
/// as beside a load they do on disks.
fn may_lose(bench: &Bench<'_>, judged: &Judged) -> bool {
    const LONGER: f64 = 5.0;
    let drive = bench.models(judged.geometry).drive_in_place();
    let pace = RebuildRate::Share(REBUILD_SHARE).pace(&drive);
    let chance = || super::loss::of_array(&drive, judged.geometry, Some(LONGER * pace?.hours));
    let most = bench.order.needs.loss_per_year;
    most.is_some_and(|most| chance().is_some_and(|chance| chance.per_year > most))
}

/// What faults do to an array, as long as its own runs were: tens of candidates are looked at so, and the best are run for longer.
fn with_faults(bench: &Bench<'_>, judged: &mut Judged) -> Result<(), PlanError> {
    let mut faults = Faults::default();
    let runs = if judged.survives_always > 0 { bench.order.runs() } else { 0 };
    for run in 0..runs {
        faults.add(bench.faults(judged, (run, Window::Short))?);
    }
    faults.take_in(bench, judged);
    Ok(())
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
    let paces = paces(&bench, &judged, 0);
    Ok(at_paces(&bench, &judged, 0, (&paces, 1.0))?[0])
}

#[cfg(test)]
mod tests {
    use super::{NEAR, TAIL_STEP, Tried, between, lowered};

    fn tried(all: &[(u32, f64)]) -> Vec<Tried> {
        all.iter().map(|(iodepth, over)| Tried { iodepth: *iodepth, over: *over }).collect()
    }

    /// A database's bound was 10 % away six times, and each step took a run.
    #[test]
    fn a_step_goes_as_far_as_the_one_before_says() {
        let lowered = |now, before: Option<(u32, f64)>| {
            let before = before.map(|it| tried(&[it]));
            lowered(&tried(&[now]), before.as_deref(), &[TAIL_STEP]).map(|next| next[0])
        };
        assert_eq!(lowered((64, 8.0), None), Some(20), "to a third at first");
        assert_eq!(lowered((64, 1.1), None), Some(56));
        assert_eq!(lowered((32, 1.2), Some((64, 1.7))), Some(21), "which goes with the root");
        assert_eq!(lowered((32, 1.2), Some((64, 4.8))), Some(28), "which goes with the square");
        assert_eq!(lowered((32, 1.2), Some((64, 1.2))), Some(17), "which does not go with it at all");
        assert_eq!(lowered((1, 1.2), Some((2, 1.3))), None, "there is nothing less");
    }

    /// 64 requests in flight became 21 where 40 kept the bound and the rate, and another array was bought.
    #[test]
    fn what_lies_between_two_steps_is_tried() {
        let between =
            |over: &[(u32, f64)], within: &[(u32, f64)]| between(&tried(over), &tried(within), NEAR);
        assert_eq!(between(&[(64, 1.5)], &[(20, 0.5)]), Some(vec![41]), "where it should be met");
        assert_eq!(between(&[(64, 1.01)], &[(20, 0.1)]), Some(vec![51]), "but not at the end");
        assert_eq!(between(&[(1 << 20, 2.0)], &[(1 << 18, 0.5)]), Some(vec![513_802]));
        assert_eq!(between(&[(40, 1.1)], &[(37, 0.9)]), None, "near enough");
        assert_eq!(between(&[(2, 1.1)], &[(1, 0.9)]), None, "nothing lies between");
        assert_eq!(
            between(&[(64, 1.5), (8, 0.1)], &[(16, 0.5), (8, 0.1)]),
            Some(vec![37, 8]),
            "each of its own"
        );
        assert_eq!(
            between(&[(64, 1.5), (8, 0.9)], &[(16, 0.5), (2, 0.1)]),
            Some(vec![37, 4]),
            "lowered for another"
        );
    }
}
