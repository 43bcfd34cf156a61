//! A reproduction as an HTML page: each place with its charts, and the claims as one more place.

use super::bottleneck;
use crate::failure::Failure;
use crate::verbs::report::write_page;
use raidlab::Reproduced;
use raidlab_advisor::{Comparison, ComparisonRow, ComparisonSummary, PlaceSummary, kendall_tau};
use raidlab_papers::{ClaimPrediction, MetricCorrection, PredictedClaim, PredictedRow, Prediction};
use raidlab_report::{PaperPlace, PaperReport, PaperRow, page};
use std::path::Path;

/// Writes the page.
pub(super) fn write(path: &Path, found: &Reproduced<'_>) -> Result<(), Failure> {
    let Reproduced { of: figures, prediction, claims, .. } = found;
    let places = prediction
        .iter()
        .flat_map(|prediction| prediction.places.iter().map(|place| of_place(place, prediction)));
    let places: Vec<PaperPlace> = places.chain(claims.as_ref().map(of_claims)).collect();
    let method = figures.method.as_ref();
    let source = method.map_or(String::new(), raidlab_papers::Method::source);
    let correction = |correction: &MetricCorrection| {
        let MetricCorrection { place, metric, reason, .. } = correction;
        format!("The figures of {place} count {}: {reason}.", metric.name())
    };
    let rows = || places.iter().flat_map(|place| &place.rows);
    let report = PaperReport {
        title: method.map_or(&figures.file, |method| &method.title),
        source: &source,
        method: method.map_or(Vec::new(), |method| method.method.clone()),
        assumed: method.map_or(Vec::new(), |method| method.assumed.clone()),
        notes: figures.corrections.iter().map(correction).collect(),
        summary: summary_of(rows()),
        summary_not_fitted: summary_of(rows().filter(|row| !row.fitted)),
        places: places.clone(),
    };
    write_page(path, &page::paper(&report))
}

fn summary_of<'a>(rows: impl Iterator<Item = &'a PaperRow>) -> ComparisonSummary {
    Comparison::of(rows.map(|row| row.comparison.clone()).collect()).summary
}

fn of_place(place: &PlaceSummary, prediction: &Prediction) -> PaperPlace {
    let rows = prediction.rows.iter().filter(|row| row.place == place.place);
    let note = |row: &PredictedRow| {
        let fitted = row.fitted.then(|| "fitted to".to_owned());
        let bottleneck = bottleneck::of_row(row, prediction).map(|name| format!("bottleneck: {name}"));
        fitted.into_iter().chain(bottleneck).collect::<Vec<_>>().join(", ")
    };
    let rows =
        rows.map(|row| PaperRow { comparison: row.comparison.clone(), fitted: row.fitted, note: note(row) });
    PaperPlace { summary: place.clone(), rows: rows.collect(), fed: Vec::new() }
}

fn of_claims(claims: &ClaimPrediction) -> PaperPlace {
    // A claim of order alone has no error; the terminal lists it with its verdict.
    let rows: Vec<PaperRow> =
        claims.claims.iter().filter(|claim| claim.row.error_pct.is_some()).filter_map(claim_row).collect();
    let summary = PlaceSummary {
        place: "Claims".to_owned(),
        summary: claims.summary.errors,
        summary_not_fitted: claims.summary_not_fitted.errors,
        kendall_tau: kendall_tau(rows.iter().map(|row| (row.comparison.published, row.comparison.predicted))),
    };
    PaperPlace { summary, rows, fed: Vec::new() }
}

fn claim_row(claim: &PredictedClaim) -> Option<PaperRow> {
    let row = &claim.row;
    let comparison = ComparisonRow::of(row.id.clone(), "ratio".to_owned(), row.published, row.predicted)?;
    let fitted = if claim.fitted { ", fitted to" } else { "" };
    Some(PaperRow { comparison, fitted: claim.fitted, note: format!("{}{fitted}", row.verdict.name()) })
}
