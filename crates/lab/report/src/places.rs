//! Published figures beside predicted ones, row by row and place by place: the page and the terminal show these tables.

use crate::document::{Column, Table};
use crate::figures::three_digits;
use raidlab_advisor::{ComparisonRow, PlaceSummary, unit_of};

/// Prints a percentage with its sign.
pub(crate) fn signed_pct(pct: f64) -> String {
    format!("{pct:+.1}")
}

/// What the places of a publication come to: all rows, those that nothing was fitted to, and the order.
pub(crate) fn places_table<'a>(places: impl Iterator<Item = &'a PlaceSummary>) -> Table {
    let header = ["Place", "rows", "median %", "90th %", "rows", "median %", "90th %", "Kendall's tau"];
    Table::plain("Places", &header, 1)
        .captioned(
            "Errors without their sign. Kendall’s tau: 1 where all rows come out in the published order.",
        )
        .group(1..4, "all figures")
        .group(4..7, "not fitted to")
        .section(places.map(place_cells))
}

fn place_cells(place: &PlaceSummary) -> Vec<String> {
    let pct = |pct: Option<f64>| pct.map_or("-".to_owned(), |pct| format!("{pct:.1}"));
    let PlaceSummary { place, summary, summary_not_fitted: rest, kendall_tau } = place;
    vec![
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

/// Published and predicted figures, each with a word on it for a page.
pub(crate) fn comparison_table<'a>(rows: impl Iterator<Item = (&'a ComparisonRow, &'a str)>) -> Table {
    let columns = vec![
        Column::text("Id"),
        Column::text("Unit"),
        Column::number("Published"),
        Column::number("Predicted"),
        Column::number("Error %"),
        Column::text("Note").detail(),
    ];
    let row = |(row, note): (&ComparisonRow, &str)| {
        vec![
            row.id.clone(),
            unit_of(&row.metric).to_owned(),
            three_digits(row.published),
            three_digits(row.predicted),
            signed_pct(row.error_pct),
            note.to_owned(),
        ]
    };
    Table::new("Published and predicted figures", columns).section(rows.map(row))
}
