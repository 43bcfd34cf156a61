//! What a plan's figures rest on where nobody measured it, and how far they go with it.
//!
//! Which figures are estimated or fitted is what the catalogue says of their sources. Most of these have a range. The array is run again with
//! all of them at their slower ends together, and with all at their faster ends ([`Catalog::at_end`]): what it does lies between,
//! as far as the ranges do.

use super::{Bench, PlanError, PlanOrder, judge};
use crate::arrays::Models;
use crate::worlds::simulated::run_simulated;
use raidlab_advisor::plan::{Judged, Performance};
use raidlab_hardware::{Catalog, End, FigureSource};
use serde::Serialize;

/// The figures of one part that rest on estimates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Estimates {
    /// The part's name in the catalogue.
    pub part: String,
    /// Keys of the figures that somebody estimated or fitted.
    pub keys: Vec<String>,
    /// All figures that it has.
    pub figures: usize,
}

/// What one application gets at both ends of what the array's figures may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PerformanceRange {
    /// Every figure at its slower end.
    pub slower: Performance,
    /// Every figure at its faster end.
    pub faster: Performance,
}

/// The figures of an array's parts that rest on estimates, part by part; none of parts without any.
pub(super) fn estimates(models: &Models<'_>) -> Vec<Estimates> {
    let enclosure = models.enclosure.map(|model| (&model.id, &model.sources));
    let parts =
        [(&models.drive.id, &models.drive.sources), (&models.controller.id, &models.controller.sources)];
    let of_part = |(id, sources): (&String, &Vec<FigureSource>)| {
        let keys: Vec<String> =
            sources.iter().filter(|it| it.is_estimated()).map(|it| it.key.clone()).collect();
        (!keys.is_empty()).then(|| Estimates { part: id.clone(), keys, figures: sources.len() })
    };
    parts.into_iter().chain(enclosure).filter_map(of_part).collect()
}

/// The catalogue with an array's parts at one end.
fn catalog_at(bench: &Bench<'_>, judged: &Judged, end: End) -> Result<Catalog, PlanError> {
    let models = bench.models(judged.geometry);
    let parts = [Some(&models.drive.id), Some(&models.controller.id), models.enclosure.map(|it| &it.id)];
    let ids: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    bench
        .order
        .catalog
        .at_end(&ids, end)
        .map_err(|source| PlanError::End { label: bench.label(judged.geometry), source: Box::new(source) })
}

/// What the applications of a run get with the array's parts at one end, with as many requests in flight as without.
pub(super) fn at_end(
    bench: &Bench<'_>,
    judged: &Judged,
    (run, end): (usize, End),
) -> Result<Vec<Performance>, PlanError> {
    let order = bench.order;
    let catalog = catalog_at(bench, judged, end)?;
    let order =
        PlanOrder { catalog: &catalog, needs: order.needs.clone(), space: order.space.clone(), ..*order };
    let bench = Bench { order: &order, parts: bench.parts, demands: bench.demands };
    let array = bench.array(judged, judged.geometry.spares, judge::Window::Fault)?;
    let iodepths = judge::iodepths(&bench, judged, run);
    let load = judge::load(&bench, judged, run, judge::Window::Fault, &iodepths);
    let result = run_simulated(&bench.models(judged.geometry), &array, &load).map_err(|source| {
        PlanError::Simulation { label: format!("{}, {}", bench.label(judged.geometry), load.label()), source }
    })?;
    Ok(bench.performance(&result, &iodepths))
}
