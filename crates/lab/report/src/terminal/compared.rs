//! A publication's tables with the user's figures in them.

use super::grid::{Grid, GridCell};
use super::{TerminalOptions, heading, printable};
use crate::figures::three_digits;
use raidlab_advisor::{ComparedCell, ComparedRow, ComparedTable};

/// Prints each of `tables`, one's own rows below a rule.
pub fn compared(tables: &[ComparedTable], options: TerminalOptions) -> String {
    tables
        .iter()
        .map(|table| format!("\n{}\n{}", heading(&table.title, options), grid(table).render(options)))
        .collect()
}

fn grid(table: &ComparedTable) -> Grid {
    let (own, published): (Vec<&ComparedRow>, Vec<&ComparedRow>) =
        table.rows.iter().partition(|row| row.is_own);
    let rows = |rows: Vec<&ComparedRow>| -> Vec<Vec<GridCell>> { rows.into_iter().map(row).collect() };
    let sections = [rows(published), rows(own)];
    let columns = table.columns.iter().map(|column| printable(column));
    let header = std::iter::once(String::new()).chain(columns).collect();
    let sections = sections.into_iter().filter(|section| !section.is_empty()).collect();
    Grid { header, sections, ..Grid::plain(&[], 1, Vec::new()) }
}

fn row(row: &ComparedRow) -> Vec<GridCell> {
    let figures = row.cells.iter().map(|cell| cell_text(cell.as_ref()));
    let texts = std::iter::once(printable(&row.label)).chain(figures);
    texts.map(|text| GridCell { text, bold: row.is_own }).collect()
}

fn cell_text(cell: Option<&ComparedCell>) -> String {
    match cell {
        None => "-".to_owned(),
        Some(ComparedCell { value, remark }) if remark.is_empty() => three_digits(*value),
        Some(ComparedCell { value, remark }) => format!("{} ({})", three_digits(*value), printable(remark)),
    }
}
