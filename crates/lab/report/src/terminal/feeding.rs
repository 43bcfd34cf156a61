//! How many accelerators storage feeds, number by number, with a bar for the utilisation of each.

use super::{TerminalOptions, heading};
use crate::document::{Block, Table, render};
use crate::figures::fed_cells;
use raidlab_worlds::Feeding;

/// Columns of the bar of full utilisation, which all bars are filled up to.
const BAR_COLUMNS: f64 = 25.0;

/// Prints each number that was run.
pub fn feeding(found: &Feeding, options: TerminalOptions) -> String {
    let header = ["accelerators", "AU %", "MB/s", "samples/s", "", "utilisation"];
    let row = |point: &raidlab_worlds::FedPoint| {
        let bar = "#".repeat((point.au_pct / 100.0 * BAR_COLUMNS).round() as usize);
        let mut cells = fed_cells(point);
        cells.push(format!("{bar:<25}"));
        cells
    };
    let table = Table::plain("", &header, 0).section(found.points.iter().map(row));
    let head = format!("{}: utilisation of {} % or more", found.workload, found.au_goal_pct);
    format!("\n{}\n{}", heading(&head, options), render([Block::table(table)], options))
}
