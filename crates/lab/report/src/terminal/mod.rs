//! Results as text for a terminal, or for a file that a person reads.
//!
//! [`study`] prints one table, a section per profile and a row per configuration, with measured and simulated figures
//! side by side, and then the recommendations. [`run`] and [`runs`] print results of `measure` and `simulate`,
//! [`comparison`] and [`claims`] those of `reproduce`, [`drive_validation`] of `model validate`, [`latency_matrix`] of
//! `model matrix`, [`soaks`] of `soak`, [`plan`] and [`risk`] of `plan` and `risk`, [`contrast`] of `compare`,
//! [`streams`] and [`bonnie`] of their verbs. Without colour the text is plain ASCII apart from the given names, and
//! a table has one record per line; every line of a study's names its profile, so that `grep` and `awk` can process it.

mod claims;
mod contrast;
mod explanation;
mod feeding;
mod hosts;
mod matrix;
mod network;
mod observed;
mod plan;
mod portrait;
mod programs;
mod risk;
mod runs;
mod soak;
mod study;
mod times;
mod validation;

pub use claims::claims;
pub use contrast::contrast;
pub use explanation::explanation;
pub use feeding::{feeding, feedings};
pub use hosts::hosts;
pub(crate) use matrix::matrix_cells;
pub use matrix::{MatrixCell, MatrixErrors, latency_matrix};
pub use observed::{ObservedDevice, observed};
pub use plan::{plan, tiers};
pub use portrait::{portrait, rhythm};
pub use programs::{bonnie, streams};
pub use risk::risk;
pub use runs::{run, runs};
pub use soak::{SoakFigures, soaks};
pub use study::study;
pub use validation::{DriveValidation, drive_validation};

use crate::document::{Block, Cell, Table, render};
pub(crate) use crate::places::signed_pct;
use crate::places::{comparison_table, places_table};
use raidlab_advisor::{ComparedTable, Comparison, PlaceSummary};

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Characters per line. Tables that need more are split or, failing that, are wider.
    pub width: u16,
    /// Whether the reader is a terminal that shows bold text and line drawing; otherwise plain ASCII.
    pub colour: bool,
}

/// Prints rows of text under a header, in sections with a rule between them; from column `first_number` on text is aligned right.
pub fn table<C: Into<Cell>>(
    header: &[&str],
    first_number: usize,
    sections: Vec<Vec<Vec<C>>>,
    options: TerminalOptions,
) -> String {
    let cells = |row: Vec<C>| row.into_iter().map(Into::into).collect::<Vec<Cell>>();
    let table = Table::plain("", header, first_number);
    let table = sections.into_iter().fold(table, |table, rows| table.section(rows.into_iter().map(cells)));
    render([Block::table(table)], options)
}

/// Prints what the places of a publication come to, one by one.
pub fn places<'a>(places: impl Iterator<Item = &'a PlaceSummary>, options: TerminalOptions) -> String {
    render([Block::table(places_table(places))], options)
}

/// Prints a publication's tables with one's own rows, one after the other.
pub fn compared(tables: &[ComparedTable], options: TerminalOptions) -> String {
    let text = |table: &ComparedTable| {
        let blocks = [Block::Heading(table.title.clone()), Block::table(crate::compared::table(table))];
        format!("\n{}", render(blocks, options))
    };
    tables.iter().map(text).collect()
}

/// Prints published figures beside predicted ones and how far off the predictions are.
pub fn comparison(comparison: &Comparison, options: TerminalOptions) -> String {
    let rows = comparison.rows.iter().map(|row| (row, ""));
    let table = Block::table(comparison_table(rows));
    render([table, Block::Verbatim(comparison_summary(comparison))], options)
}

/// The lines that sum a comparison up.
fn comparison_summary(comparison: &Comparison) -> String {
    let summary = comparison.summary;
    let figure = |pct: Option<f64>| pct.map_or("none".to_owned(), |pct| format!("{pct:.1} %"));
    format!(
        "figures compared:           {}\nmedian absolute error:      {}\n90th percentile of errors:  {}\n",
        summary.rows,
        figure(summary.median_abs_error_pct),
        figure(summary.p90_abs_error_pct)
    )
}

/// `name` without the control characters by which a name could steer the terminal.
pub fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// `text` with its lines, and without other control characters.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// `text` as a heading, broken as other lines are.
pub fn heading(text: &str, options: TerminalOptions) -> String {
    let text = broken_line(&printable(text), options.width.into());
    let text = text.trim_end();
    if options.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
}

/// Prints what is to be known before figures are trusted, each from a new line.
pub fn doubts(warnings: &[String], options: TerminalOptions) -> String {
    warnings
        .iter()
        .map(|warning| broken_line(&format!("warning: {}", printable(warning)), options.width.into()))
        .collect()
}

/// Breaks `text` into lines of `width` characters at spaces; every line starts with `indent` spaces.
#[expect(clippy::missing_panics_doc, reason = "there is a line to start with")]
pub fn wrapped(text: &str, width: u16, indent: usize) -> String {
    let room = usize::from(width).saturating_sub(indent).max(20);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace().map(printable) {
        let line = lines.last_mut().expect("there is a line to start with");
        if line.is_empty() {
            *line = word;
        } else if line.chars().count() + 1 + word.chars().count() <= room {
            line.push(' ');
            line.push_str(&word);
        } else {
            lines.push(word);
        }
    }
    lines.iter().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

/// Breaks the lines of `text` that are too long, behind semicolons and commas where that is possible; what follows stands two columns
/// further in than the line.
pub fn broken(text: &str, width: u16) -> String {
    text.lines().map(|line| broken_line(line, width.into())).collect()
}

fn broken_line(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start().len() + 2;
    let (mut text, mut column) = (String::new(), 0);
    let mut add = |unit: &str| {
        if column + unit.trim_end().chars().count() > width && column > indent {
            text.truncate(text.trim_end().len());
            text += &format!("\n{:indent$}", "");
            column = indent;
        }
        text += unit;
        column += unit.chars().count();
    };
    for phrase in line.split_inclusive("; ").flat_map(|clause| clause.split_inclusive(", ")) {
        // A phrase that fits no line is broken between its words.
        if phrase.trim_end().chars().count() + indent > width {
            phrase.split_inclusive(' ').for_each(&mut add);
        } else {
            add(phrase);
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::{broken, printable, wrapped};

    #[test]
    fn long_lines_break_behind_commas_else_between_words() {
        let table = [
            ("  short, it stays", "  short, it stays\n"),
            ("  read 1 IOPS, 2 MB/s; 3 errors", "  read 1 IOPS,\n    2 MB/s; 3 errors\n"),
            ("  one two three four five six seven", "  one two three four\n    five six seven\n"),
            ("  a-word-that-is-longer, x", "  a-word-that-is-longer,\n    x\n"),
        ];
        for (line, expected) in table {
            assert_eq!(broken(line, 20), expected);
        }
        assert_eq!(broken("  a\n  b\n", 20), "  a\n  b\n");
    }

    #[test]
    fn lines_break_at_spaces_and_keep_to_the_width() {
        let text = "one two three four five six seven eight nine ten";
        assert_eq!(wrapped(text, 24, 2), "  one two three four\n  five six seven eight\n  nine ten\n");
        assert_eq!(
            wrapped("a-word-longer-than-the-whole-line x", 20, 0),
            "a-word-longer-than-the-whole-line\nx\n"
        );
    }

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\r\nb\u{9b}c"), "a\u{fffd}[2J\u{fffd}\u{fffd}b\u{fffd}c");
    }
}
