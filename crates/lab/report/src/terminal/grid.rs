//! A table of text with groups of columns and sections of rows, laid out by `comfy-table`.
//!
//! ```text
//!                   ---- measured ----   ---- simulated ---     groups, over their columns
//! Profile   Array   IOPS       mean ms   IOPS       mean ms     header
//! ----------------------------------------------------------
//! database  RAID 0  1230*      0.130     ...                    section
//! ----------------------------------------------------------
//! restore   RAID 0  ...
//! ```
//!
//! Every row is one line, so lines can be counted: rules and groups are inserted between the lines of `comfy-table`.

use super::{TerminalOptions, printable};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table, presets};
use std::ops::Range;

/// Spaces before a group, on top of the gap between columns.
const GROUP_INDENT: u16 = 1;

/// What is in a cell.
#[derive(Clone, Debug)]
pub struct GridCell {
    /// What stands in it.
    pub text: String,
    /// Whether a terminal shows it bold.
    pub bold: bool,
}

impl GridCell {
    /// `text` as it is.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), bold: false }
    }
}

/// A heading over several columns.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its columns.
    pub columns: Range<usize>,
    /// The heading.
    pub name: String,
}

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// Headings above the header.
    pub groups: Vec<Group>,
    /// Names of the columns.
    pub header: Vec<String>,
    /// Columns from this one on hold numbers and are aligned to the right.
    pub first_number: usize,
    /// Rows, in sections with a rule between them.
    pub sections: Vec<Vec<Vec<GridCell>>>,
    /// Spaces between columns.
    pub gap: u16,
}

impl Grid {
    /// A table of `sections` without groups and bold text; from column `first_number` on text is aligned right.
    pub fn plain(header: &[&str], first_number: usize, sections: Vec<Vec<Vec<String>>>) -> Self {
        let cells = |row: Vec<String>| row.iter().map(|text| GridCell::plain(printable(text))).collect();
        let section = |rows: Vec<Vec<String>>| rows.into_iter().map(cells).collect();
        Self {
            groups: Vec::new(),
            header: header.iter().map(|name| (*name).to_owned()).collect(),
            first_number,
            sections: sections.into_iter().map(section).collect(),
            gap: 2,
        }
    }

    /// Characters that the widest line has.
    pub fn width(&self) -> usize {
        let widths = self.column_widths(&self.table(false));
        widths.iter().sum::<usize>() - usize::from(self.gap)
    }

    /// Prints the table; every line ends with a line feed.
    pub fn render(&self, options: TerminalOptions) -> String {
        let table = self.table(options.colour);
        let widths = self.column_widths(&table);
        let rule = if options.colour { "─" } else { "-" };
        let full_rule = rule.repeat(widths.iter().sum::<usize>() - usize::from(self.gap));
        let mut lines = table.lines();
        let mut text = String::new();
        let mut push = |line: &str| {
            text.push_str(line.trim_end());
            text.push('\n');
        };
        if !self.groups.is_empty() {
            push(&self.group_line(&widths, rule));
        }
        push(&lines.next().expect("the header is a line"));
        for section in self.sections.iter().filter(|section| !section.is_empty()) {
            push(&full_rule);
            for _ in section {
                push(&lines.next().expect("every row is a line"));
            }
        }
        text
    }

    fn table(&self, colour: bool) -> Table {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(self.header.iter().map(|name| bold_if(Cell::new(name), colour)));
        for row in self.sections.iter().flatten() {
            table.add_row(row.iter().map(|cell| bold_if(Cell::new(&cell.text), cell.bold && colour)));
        }
        let last = self.header.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((self.indent(index), if index == last { 0 } else { self.gap }));
            if index >= self.first_number {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    /// Spaces before a column: a group stands apart from what is before it.
    fn indent(&self, column: usize) -> u16 {
        if self.groups.iter().any(|group| group.columns.start == column) { GROUP_INDENT } else { 0 }
    }

    /// Widths of the columns, indent and gap included.
    fn column_widths(&self, table: &Table) -> Vec<usize> {
        let widths = table.column_max_content_widths().into_iter().enumerate();
        widths.map(|(index, width)| usize::from(self.indent(index) + width + self.gap)).collect()
    }

    /// The line of the groups' names, each in the middle of a rule over its columns.
    fn group_line(&self, widths: &[usize], rule: &str) -> String {
        let mut line = String::new();
        let mut at = 0;
        for group in &self.groups {
            let start = widths[..group.columns.start].iter().sum::<usize>() + usize::from(GROUP_INDENT);
            let width =
                widths[group.columns.clone()].iter().sum::<usize>() - usize::from(self.gap + GROUP_INDENT);
            let name = shortened(&group.name, width.saturating_sub(4));
            let rules = width.saturating_sub(name.chars().count() + 2);
            line.push_str(&" ".repeat(start - at));
            line.push_str(&format!("{} {name} {}", rule.repeat(rules / 2), rule.repeat(rules.div_ceil(2))));
            at = start + width;
        }
        line
    }
}

/// `name` in at most `width` characters; three dots stand for what is left out.
fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(3)).chain("...".chars()).collect()
}

fn bold_if(cell: Cell, bold: bool) -> Cell {
    if bold { cell.add_attribute(Attribute::Bold) } else { cell }
}
