//! The range of a plan's first array when its estimated figures vary ([`raidlab_worlds`]).

use super::{Bench, PlanError, judge};
use raidlab_advisor::plan::{Judged, Performance};
use raidlab_hardware::End;
use raidlab_worlds::simulated::run_simulated;
use serde::Serialize;

/// What one application gets at both ends of what the array's figures may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerformanceRange {
    /// Every figure at its slower end.
    pub slower: Performance,
    /// Every figure at its faster end.
    pub faster: Performance,
}

/// What the applications of a run get with the array's parts at one end, with as many requests in flight as without.
pub(super) fn at_end(
    bench: &Bench<'_>,
    judged: &Judged,
    (run, end): (usize, End),
) -> Result<Vec<Performance>, PlanError> {
    let order = bench.order;
    let catalog = bench
        .models(judged.geometry)
        .catalog_at(order.catalog, end)
        .map_err(|source| PlanError::End { label: bench.label(judged.geometry), source: Box::new(source) })?;
    let order = order.with_catalog(&catalog);
    let bench = Bench { order: &order, parts: bench.parts, demands: bench.demands };
    let array = bench.array(judged, judged.geometry.spares, judge::Window::Fault)?;
    let iodepths = judge::iodepths(&bench, judged, run);
    let load = judge::load(&bench, judged, run, judge::Window::Fault, &iodepths);
    let result = run_simulated(&bench.models(judged.geometry), &array, &load).map_err(|source| {
        PlanError::Simulation { label: format!("{}, {}", bench.label(judged.geometry), load.label()), source }
    })?;
    Ok(bench.performance(&result, &iodepths))
}
