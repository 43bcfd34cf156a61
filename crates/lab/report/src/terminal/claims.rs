//! Relative claims of a publication compared with predictions.

use super::{TerminalOptions, signed_pct, table};
use crate::figures::three_digits;
use raidlab_advisor::{ClaimRow, ClaimSummary};

/// Prints published claims beside predicted ones, each with its verdict and a word of the caller's, and how many hold.
pub fn claims<'a>(
    rows: impl Iterator<Item = (&'a ClaimRow, String)>,
    summary: &ClaimSummary,
    options: TerminalOptions,
) -> String {
    let row = |(row, note): (&ClaimRow, String)| {
        vec![
            row.id.clone(),
            row.kind.to_string(),
            row.verdict.to_string(),
            three_digits(row.published),
            three_digits(row.predicted),
            row.error_pct.map_or("-".to_owned(), signed_pct),
            note,
        ]
    };
    let header = ["Claim", "Kind", "Verdict", "Published", "Predicted", "Error %", "Note"];
    table(&header, 3, vec![rows.map(row).collect()], options) + "\n" + &summary_text(summary)
}

/// The lines that sum claims up.
fn summary_text(summary: &ClaimSummary) -> String {
    let figure = |pct: Option<f64>| pct.map_or("none".to_owned(), |pct| format!("{pct:.1} %"));
    format!(
        "claims compared:            {}\n  within 10 %:              {}\n  right direction only:     {}\n  \
         missed:                   {}\nmedian absolute error:      {}\n90th percentile of errors:  {}\n",
        summary.claims,
        summary.within,
        summary.direction,
        summary.missed,
        figure(summary.errors.median_abs_error_pct),
        figure(summary.errors.p90_abs_error_pct)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_advisor::{ClaimKind, ClaimMeasure};

    #[test]
    fn every_claim_is_a_line_with_its_verdict() {
        let row = |id: &str, kind, predicted| {
            ClaimRow::of(id.to_owned(), kind, ClaimMeasure::Ratio, 2.0, predicted).unwrap()
        };
        let rows = [
            row("near", ClaimKind::About, 2.1),
            row("far", ClaimKind::UpTo, 3.0),
            row("above", ClaimKind::Order, 2.5),
            row("wrong", ClaimKind::About, 0.5),
        ];
        let summary = ClaimSummary::of(&rows.iter().collect::<Vec<_>>());
        let options = TerminalOptions { width: 80, colour: false };
        let text = claims(rows.iter().map(|row| (row, "fitted".to_owned())), &summary, options);
        let line = |id: &str| {
            text.lines().find(|line| line.starts_with(id)).unwrap_or_else(|| panic!("{id}: {text}"))
        };
        for (id, words) in [
            ("near", ["within 10 %", "+5.0", "fitted"]),
            ("far", ["direction", "+50.0", "up-to"]),
            ("above", ["direction", " - ", "order"]),
            ("wrong", ["missed", "-75.0", "about"]),
        ] {
            for word in words {
                assert!(line(id).contains(word), "'{word}' is not in '{}'", line(id));
            }
        }
        assert!(text.contains("claims compared:            4"), "{text}");
    }
}
