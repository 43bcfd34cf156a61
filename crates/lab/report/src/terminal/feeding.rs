//! How many accelerators storage feeds: the answer, then number by number, with a bar for the utilisation of each.

use super::{TerminalOptions, broken, heading, runs::about};
use crate::document::{Block, Table, render};
use crate::figures::fed_cells;
use raidlab_workload::RunResult;
use raidlab_worlds::{FedPoint, Feeding};

/// Columns of the bar of full utilisation, which all bars are filled up to.
const BAR_COLUMNS: f64 = 25.0;

/// Prints what was found, in sentences, and each number that was run.
pub fn feeding(found: &Feeding, options: TerminalOptions) -> String {
    let header = ["accelerators", "AU %", "MB/s", "samples/s", "bound", "utilisation"];
    let row = |point: &FedPoint| {
        let bar = "#".repeat((point.au_pct / 100.0 * BAR_COLUMNS).round() as usize);
        let mut cells = fed_cells(point);
        cells.push(format!("{bar:<25}"));
        cells
    };
    let table = Table::plain("", &header, 0).section(found.points.iter().map(row));
    let mut sentences = found.sentences().into_iter();
    let answer = heading(&sentences.next().unwrap_or_default(), options);
    let more: String = sentences.map(|sentence| format!("  {sentence}\n")).collect();
    format!("{answer}\n{}\n{}", broken(&more, options.width), render([Block::table(table)], options))
}

/// Prints each of `fed`, and what the storage of `runs`, which they were found from, is.
pub fn feedings(fed: &[Feeding], runs: &[RunResult], options: TerminalOptions) -> String {
    let of_each = |found: &Feeding| {
        let is_own = |run: &&RunResult| run.workload == found.workload && run.target == found.target;
        let about = runs.iter().rfind(is_own).map_or_else(String::new, about);
        format!("{}\n{}", feeding(found, options), broken(&about, options.width))
    };
    fed.iter().map(of_each).collect::<Vec<_>>().join("\n")
}
