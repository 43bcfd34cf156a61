//! One candidate, run under each application.
//!
//! A window is as long as it takes for some thousand requests, and its ramp as long as a write-back cache takes to fill
//! ([`crate::settle`]). To tell candidates apart a
//! controller has an eighth of its cache, which fills sooner and is still far larger than what its drives have in flight.

use super::{Bench, PlanError};
use crate::load::{Load, RUN_TO_THE_END};
use crate::settle::fill_secs;
use crate::worlds::simulated::run_simulated;
use raidlab_advisor::Bound;
use raidlab_advisor::plan::{Geometry, Judged, Performance};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::RunResult;

/// The least time of a window is no more than so many times its requests take.
const REQUESTS_MORE: f64 = 2.0;

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

/// The controller's cache in such a run.
pub(super) fn cache_size(bench: &Bench<'_>, geometry: Geometry, window: Window) -> ByteCount {
    const LEAST: u64 = 32 << 20;
    let cache = &bench.models(geometry).controller.cache;
    let (whole, block) = (cache.size.0, cache.block_size.0.max(1));
    let part = if window == Window::Short { (whole / 8).max(LEAST.min(whole)) } else { whole };
    ByteCount(part / block * block)
}

/// The load of application `index` on an array.
pub(super) fn load(bench: &Bench<'_>, judged: &Judged, index: usize, window: Window, iodepth: u32) -> Load {
    let app = &bench.order.applications[index];
    let (ramp, run) = if app.workload.spec.trace.is_some() {
        (NanoSpan::ZERO, trace_window(window))
    } else {
        times(bench, judged, index, window)
    };
    let workload = app.workload.clone();
    Load { workload, iodepth, workers: 1, ramp, run, seed: bench.order.seed, once: false, settles: false }
}

/// A trace is run to its end where it matters, and over its first seconds to tell candidates apart.
fn trace_window(window: Window) -> NanoSpan {
    match window {
        Window::Short => NanoSpan::from_secs(20),
        Window::Fault => NanoSpan::from_secs(60),
        Window::Long => RUN_TO_THE_END,
    }
}

fn times(bench: &Bench<'_>, judged: &Judged, index: usize, window: Window) -> (NanoSpan, NanoSpan) {
    // Requests, the least and the most seconds of the window; the least and the most seconds of the ramp, and the most requests.
    let (requests, run, ramp) = match window {
        Window::Short => (20_000.0, (0.25, 10.0), (0.25, 100.0, 300_000.0)),
        Window::Fault => (30_000.0, (1.0, 10.0), (0.5, 150.0, 500_000.0)),
        Window::Long => (100_000.0, (1.0, 20.0), (1.0, 200.0, 1_000_000.0)),
    };
    let demand = &bench.demands[index];
    let iops = judged.performance.get(index).map_or(1.0, |it| it.iops.max(1.0));
    // Fast arrays do many times the requests in the least time; what is told does not get better by them, and takes as much longer.
    let least = |secs: f64| secs.min(REQUESTS_MORE * requests / iops);
    let run: f64 = (requests / iops).clamp(least(run.0), run.1);
    let written = iops * demand.bytes_mean * (1.0 - demand.read_share);
    let cache = cache_size(bench, judged.geometry, window);
    let fills = if judged.settings.write_back { fill_secs(cache, written) } else { 0.0 };
    let ramp = fills.max(run / 2.0).min(ramp.2 / iops).clamp(least(ramp.0), ramp.1);
    (NanoSpan::from_secs_f64(ramp), NanoSpan::from_secs_f64(run))
}

/// How many times its bound a latency is, as far as one step of lowering the load goes by it. The mean falls with the requests in
/// flight, as Little's law has it. What the slowest take falls with them in some places and hardly in others, so a step is at most to
/// a third.
fn excess(bound: &Bound, result: &RunResult) -> f64 {
    const TAIL_STEP: f64 = 3.0;
    let over = bound.figure_of(result) / bound.value();
    if bound.is_on_mean() { over } else { over.min(TAIL_STEP) }
}

/// Runs every application on an array. Where a latency is above its bound the load is lowered.
pub(super) fn judge(
    bench: &Bench<'_>,
    kept: &Judged,
    window: Window,
) -> Result<(Judged, Vec<RunResult>), PlanError> {
    const LOWERINGS_MAX: u32 = 6;
    let (mut judged, mut runs) = (kept.clone(), Vec::new());
    let array = bench.array(kept, kept.geometry.spares, window)?;
    let models = bench.models(kept.geometry);
    for index in 0..bench.order.applications.len() {
        let mut iodepth = bench.order.applications[index].iodepth;
        let mut lowered = 0;
        let mut expected = kept.clone();
        let result = loop {
            let load = load(bench, &expected, index, window, iodepth);
            let run = run_simulated(&models, &array, &load);
            let result = run.map_err(|source| PlanError::Simulation {
                label: format!("{}, {}", bench.label(kept.geometry), load.label()),
                source,
            })?;
            expected.performance[index] = Performance::of(&result);
            // What the ramp was made for may have been a bound, and the cache not full after it.
            let (ramp, _) = times(bench, &expected, index, window);
            if load.workload.spec.trace.is_none() && ramp.0 > 2 * load.ramp.0 {
                continue;
            }
            let bounds = bench.order.needs.latency.iter();
            let over = bounds.map(|bound| excess(bound, &result)).fold(0.0, f64::max);
            if over <= 1.0 || iodepth == 1 || lowered == LOWERINGS_MAX {
                break result;
            }
            lowered += 1;
            iodepth = ((f64::from(iodepth) / over * 0.97) as u32).clamp(1, iodepth - 1);
        };
        judged.performance[index] = Performance::of(&result);
        runs.push(result);
    }
    judged.score = runs.iter().map(|run| Performance::of(run).metric(run.metric)).product();
    Ok((judged, runs))
}
