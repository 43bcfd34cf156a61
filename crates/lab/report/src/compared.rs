//! A publication's tables with the user's figures in them.

use crate::document::{Cell, Column, Row, RowLook, Span, Table, Text};
use crate::figures::three_digits;
use raidlab_advisor::{ComparedCell, ComparedRow, ComparedTable};

/// The table, one's own rows below a rule.
pub(crate) fn table(table: &ComparedTable) -> Table {
    let (own, published): (Vec<&ComparedRow>, Vec<&ComparedRow>) =
        table.rows.iter().partition(|row| row.is_own);
    let columns = table.columns.iter().map(|column| Column::number(column.as_str()));
    let columns = std::iter::once(Column::text("")).chain(columns).collect();
    Table::new(table.title.as_str(), columns)
        .captioned(table.title.as_str())
        .section(published.into_iter().map(row))
        .section(own.into_iter().map(row))
}

fn row(row: &ComparedRow) -> Row {
    let figures = row.cells.iter().map(|cell| Cell::from(cell_text(cell.as_ref())));
    Row {
        cells: std::iter::once(Cell::from(row.label.as_str())).chain(figures).collect(),
        look: if row.is_own { RowLook::Own } else { RowLook::Plain },
    }
}

fn cell_text(cell: Option<&ComparedCell>) -> Text {
    let Some(ComparedCell { value, remark }) = cell else { return "-".into() };
    let figure = three_digits(*value);
    if remark.is_empty() {
        figure.into()
    } else {
        Text::from(figure).and(Span::Small(format!(" ({remark})")))
    }
}
