//! A table of the tree as lines of text, laid out by `comfy-table`.
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

use super::{Cell as TableCell, ColumnKind, RowLook, Span, Table};
use crate::terminal::{TerminalOptions, printable};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table as Lines, presets};

/// Spaces before a group, on top of the gap between columns.
const GROUP_INDENT: u16 = 1;

impl Table {
    /// The same without what a terminal has no room for.
    pub(super) fn for_terminal(self) -> Self {
        let kept: Vec<bool> = self.columns.iter().map(|column| !column.is_detail).collect();
        self.with_columns(&kept)
    }

    /// Characters that the widest line has.
    pub(crate) fn width(&self) -> usize {
        let widths = self.column_widths(&self.lines(false));
        widths.iter().sum::<usize>() - usize::from(self.gap)
    }

    /// The table, in parts of as many columns as have room within `width`; each part begins with the columns that tell its rows apart. A
    /// table with groups of columns stays whole, and so does a column that is too wide by itself.
    pub(super) fn within(self, width: usize) -> Vec<Self> {
        if self.width() <= width || !self.groups.is_empty() {
            return vec![self];
        }
        let widths = self.column_widths(&self.lines(false));
        let keys = self.key_columns();
        let key_width: usize = widths[..keys].iter().sum();
        let mut parts: Vec<Vec<bool>> = Vec::new();
        let mut taken = usize::MAX;
        for (column, own) in widths.iter().enumerate().skip(keys) {
            if taken.saturating_add(*own) > width + usize::from(self.gap) {
                parts.push((0..self.columns.len()).map(|index| index < keys).collect());
                taken = key_width;
            }
            taken += own;
            parts.last_mut().expect("the first column begins one")[column] = true;
        }
        parts.iter().map(|kept| self.clone().with_columns(kept)).collect()
    }

    /// How many columns it takes from the left until no two rows are alike in them; one where none do.
    fn key_columns(&self) -> usize {
        let is_key = |count: &usize| {
            let mut keys: Vec<Vec<String>> = self
                .rows()
                .map(|row| row.cells[..*count].iter().map(|cell| cell.text.plain()).collect())
                .collect();
            keys.sort();
            keys.windows(2).all(|pair| pair[0] != pair[1])
        };
        (1..self.columns.len()).find(is_key).unwrap_or(1)
    }

    /// Prints the table; every line ends with a line feed.
    pub(super) fn render(&self, options: TerminalOptions) -> String {
        let table = self.lines(options.colour);
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
        for section in self.sections.iter().filter(|section| !section.rows.is_empty()) {
            push(&full_rule);
            for _ in &section.rows {
                push(&lines.next().expect("every row is a line"));
            }
        }
        text
    }

    fn lines(&self, colour: bool) -> Lines {
        let mut table = Lines::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if colour {
            table.enforce_styling();
        } else {
            table.force_no_tty();
        }
        table.set_header(
            self.columns.iter().map(|column| bold_if(Cell::new(printable(&column.name)), colour)),
        );
        // The mark of the best would put its digits out of line: the others of its column have a space for it.
        let marked: Vec<bool> =
            (0..self.columns.len()).map(|column| self.rows().any(|row| row.cells[column].is_best)).collect();
        for row in self.rows() {
            let cell = |(cell, has_marks): (&TableCell, &bool)| {
                let mark = if cell.is_best {
                    "*"
                } else if *has_marks {
                    " "
                } else {
                    ""
                };
                let is_strong = matches!(cell.text.0[..], [Span::Strong(_)]);
                let is_bold = is_strong || cell.is_best || row.look == RowLook::Own;
                bold_if(Cell::new(printable(&cell.text.plain()) + mark), is_bold && colour)
            };
            table.add_row(row.cells.iter().zip(&marked).map(cell));
        }
        let last = self.columns.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((self.indent(index), if index == last { 0 } else { self.gap }));
            if self.columns[index].kind == ColumnKind::Number {
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
    fn column_widths(&self, table: &Lines) -> Vec<usize> {
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
            let name = shortened(&printable(&group.name), width.saturating_sub(4));
            let rules = width.saturating_sub(name.chars().count() + 2);
            line.push_str(&" ".repeat(start - at));
            line.push_str(&format!("{} {name} {}", rule.repeat(rules / 2), rule.repeat(rules.div_ceil(2))));
            at = start + width;
        }
        line
    }
}

/// `name` in at most `width` characters; three dots stand for what is left out.
pub fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width.saturating_sub(3)).chain("...".chars()).collect()
}

fn bold_if(cell: Cell, bold: bool) -> Cell {
    if bold { cell.add_attribute(Attribute::Bold) } else { cell }
}
