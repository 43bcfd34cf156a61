//! Summaries of a publication's places, as cells: the page and the terminal show the same ones.

use raidlab_advisor::PlaceSummary;

/// What stands above the cells of [`place_cells`].
pub(crate) const PLACE_HEADER: [&str; 8] =
    ["Place", "Figures", "Median %", "90th %", "Not fitted to", "Median %", "90th %", "Kendall's tau"];

/// The name of a place and its figures: of all rows, of those that nothing was fitted to, and the order.
pub(crate) fn place_cells(place: &PlaceSummary) -> [String; PLACE_HEADER.len()] {
    let pct = |pct: Option<f64>| pct.map_or("-".to_owned(), |pct| format!("{pct:.1}"));
    let PlaceSummary { place, summary, summary_not_fitted: rest, kendall_tau } = place;
    [
        if place.is_empty() { "(no place)".to_owned() } else { place.clone() },
        summary.rows.to_string(),
        pct(summary.median_abs_error_pct),
        pct(summary.p90_abs_error_pct),
        rest.rows.to_string(),
        pct(rest.median_abs_error_pct),
        pct(rest.p90_abs_error_pct),
        kendall_tau.map_or("-".to_owned(), |tau| format!("{tau:.2}")),
    ]
}
