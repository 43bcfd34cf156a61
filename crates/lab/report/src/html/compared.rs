//! A publication's tables with the user's figures in them, as sections of a page.

use super::tables::scrolling;
use super::{escaped, section};
use crate::figures::three_digits;
use raidlab_advisor::{ComparedCell, ComparedRow, ComparedTable};

/// The tables of `tables`, one after the other; nothing where there are none.
pub(super) fn tables(tables: &[ComparedTable]) -> String {
    if tables.is_empty() {
        return String::new();
    }
    let lead = r"<p>Rows in bold and columns named “here” are of these runs, all others as published. A dash is no figure.</p>";
    section(
        "published",
        "The publication’s tables, with these runs",
        &(lead.to_owned() + &tables.iter().map(table).collect::<String>()),
    )
}

fn table(table: &ComparedTable) -> String {
    let columns: String =
        table.columns.iter().map(|column| format!(r#"<th scope="col">{}</th>"#, escaped(column))).collect();
    let head = format!(r#"<thead><tr><th scope="col" class="name first"></th>{columns}</tr></thead>"#);
    let rows: String = table.rows.iter().map(row).collect();
    scrolling(&escaped(&table.title), &escaped(&table.title), &format!("{head}<tbody>{rows}</tbody>"))
}

fn row(row: &ComparedRow) -> String {
    let cells: String =
        row.cells.iter().map(|cell| format!("<td>{}</td>", cell_text(cell.as_ref()))).collect();
    let class = if row.is_own { r#" class="own""# } else { "" };
    format!(r#"<tr{class}><th scope="row" class="name first">{}</th>{cells}</tr>"#, escaped(&row.label))
}

fn cell_text(cell: Option<&ComparedCell>) -> String {
    let Some(cell) = cell else { return "–".to_owned() };
    let remark = if cell.remark.is_empty() {
        String::new()
    } else {
        format!(r" <small>({})</small>", escaped(&cell.remark))
    };
    escaped(&three_digits(cell.value)) + &remark
}
