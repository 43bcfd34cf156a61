//! A report as a tree: headings, paragraphs, lists, tables, figures, cards. Each answer is put together once; three writers render it.
//!
//! ```text
//! runs, plans, publications ──> Block ──┬──> grid, terminal   tables of one line a row, wrapped text
//!                                       ├──> html             a page that holds all it needs
//!                                       └──> markdown         the page's text; charts are references to their files
//! ```
//! Text is plain in the tree, whatever a name in it contains; each writer escapes it, in one place. Figures are in the tree as a
//! terminal shows them; a page sets them: thousands apart, dashes for what is not known.

mod grid;
pub(crate) mod html;
mod markdown;
mod terminal;

pub use grid::shortened;
pub use html::Picture;
pub(crate) use terminal::render;

use crate::chart::Chart;
use std::ops::Range;

/// A page: its cover, and what follows.
#[derive(Clone, Debug, Default)]
pub struct Document {
    pub(crate) kicker: &'static str,
    pub(crate) title: String,
    /// What it was to find out, if anything was asked.
    pub(crate) question: String,
    /// What it is about, in a few figures.
    pub(crate) facts: Vec<Fact>,
    pub(crate) body: Vec<Block>,
}

/// A name and its value.
pub(crate) type Fact = (String, String);

/// A piece of a report.
#[derive(Clone, Debug)]
pub(crate) enum Block {
    /// A part with a heading; `id` is its address on the page.
    Section {
        id: String,
        title: String,
        body: Vec<Block>,
    },
    /// A heading within a part.
    Heading(String),
    /// A terminal sets it in by so many spaces.
    Paragraph {
        text: Text,
        indent: usize,
    },
    List(Vec<Text>),
    /// What is to be known before figures are trusted.
    Warnings(Vec<String>),
    /// Names with their values, line by line.
    Setup(Vec<Fact>),
    Cards(Vec<Card>),
    Table(Box<Table>),
    Figure(Figure),
    /// What a click opens; a terminal leaves it out.
    Folded {
        title: String,
        body: Vec<Block>,
        /// Whether it holds so much that paper leaves it folded.
        is_long: bool,
    },
    /// The key to the charts beside it: names with samples, as SVG. On a page only.
    Legend(Vec<(String, String)>),
    /// Lines as they are, for a terminal only.
    Verbatim(String),
}

/// Something that is recommended, with its figures and its reasons.
#[derive(Clone, Debug, Default)]
pub(crate) struct Card {
    /// What the choices are for, where there may be several.
    pub(crate) title: Option<String>,
    pub(crate) choices: Vec<Choice>,
}

/// One choice.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// What stands above its title.
    pub(crate) kicker: String,
    pub(crate) title: String,
    /// What stands below its title.
    pub(crate) settings: String,
    pub(crate) facts: Vec<Fact>,
    /// The finding, and what speaks for it.
    pub(crate) reasons: Vec<String>,
}

/// Charts side by side with a caption; its number is its place in the document.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) panels: Vec<Chart>,
    pub(crate) title: String,
    pub(crate) caption: String,
    /// What else may be on the axes.
    pub(crate) axes: Option<AxesChoice>,
}

/// Figures that a reader may put on the axes of a chart.
#[derive(Clone, Debug)]
pub(crate) struct AxesChoice {
    pub(crate) names: Vec<&'static str>,
    /// Which are on them, across and up.
    pub(crate) shown: [usize; 2],
    /// The places of all points on all axes, as JSON.
    pub(crate) places: String,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    /// What it is, for those who hear it.
    pub(crate) label: String,
    /// What stands above it on a page.
    pub(crate) caption: String,
    /// Headings over several columns.
    pub(crate) groups: Vec<Group>,
    pub(crate) columns: Vec<Column>,
    pub(crate) sections: Vec<Rows>,
    pub(crate) look: TableLook,
    /// Spaces between columns of a terminal.
    pub(crate) gap: u16,
}

/// How a table takes its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TableLook {
    /// As wide as it must be; a page scrolls it.
    #[default]
    Wide,
    /// Text wraps; where a screen is narrow its cells stand below each other.
    Stacking,
}

/// A heading over several columns.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) columns: Range<usize>,
    pub(crate) name: String,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: ColumnKind,
    /// Whether a terminal has no room for it.
    pub(crate) is_detail: bool,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Number,
    /// In one line.
    Text,
    /// May be broken.
    Prose,
}

/// Rows that belong together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    /// What they are of, on a page; a terminal has that in a column.
    pub(crate) title: Option<Text>,
    pub(crate) rows: Vec<Row>,
}

/// A row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    pub(crate) look: RowLook,
}

/// What is special about a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RowLook {
    #[default]
    Plain,
    /// One's own among published ones.
    Own,
    /// Of storage without an array.
    Bare,
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub(crate) text: Text,
    /// Whether it is the best of its column.
    pub(crate) is_best: bool,
    /// How much it is of the best, where it is judged by that.
    pub(crate) share: Option<f64>,
}

/// A line of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text(pub(crate) Vec<Span>);

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Span {
    Plain(String),
    Strong(String),
    /// What is said in passing.
    Small(String),
    /// A picture, as SVG. On a page only.
    Drawn(String),
}

impl Text {
    /// Text that is to be seen first.
    pub fn strong(text: impl Into<String>) -> Self {
        Self(vec![Span::Strong(text.into())])
    }

    /// The same and more.
    pub(crate) fn and(mut self, span: Span) -> Self {
        self.0.push(span);
        self
    }

    /// Without looks and pictures.
    pub(crate) fn plain(&self) -> String {
        let text = |span: &Span| match span {
            Span::Plain(text) | Span::Strong(text) | Span::Small(text) => text.clone(),
            Span::Drawn(_) => String::new(),
        };
        self.0.iter().map(text).collect()
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(vec![Span::Plain(text)])
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl<T: Into<Text>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

impl From<Vec<String>> for Row {
    fn from(cells: Vec<String>) -> Self {
        Self { cells: cells.into_iter().map(Cell::from).collect(), ..Self::default() }
    }
}

impl From<Vec<Cell>> for Row {
    fn from(cells: Vec<Cell>) -> Self {
        Self { cells, ..Self::default() }
    }
}

impl Column {
    fn of(name: impl Into<String>, kind: ColumnKind) -> Self {
        Self { name: name.into(), kind, is_detail: false }
    }

    pub(crate) fn number(name: impl Into<String>) -> Self {
        Self::of(name, ColumnKind::Number)
    }

    pub(crate) fn text(name: impl Into<String>) -> Self {
        Self::of(name, ColumnKind::Text)
    }

    pub(crate) fn prose(name: impl Into<String>) -> Self {
        Self::of(name, ColumnKind::Prose)
    }

    /// The same where there is room for it.
    pub(crate) fn detail(self) -> Self {
        Self { is_detail: true, ..self }
    }
}

impl Table {
    /// A table without rows.
    pub(crate) fn new(label: impl Into<String>, columns: Vec<Column>) -> Self {
        Self { label: label.into(), columns, gap: 2, ..Self::default() }
    }

    /// A table whose columns before `first_number` hold text and all others numbers.
    pub(crate) fn plain(label: impl Into<String>, header: &[&str], first_number: usize) -> Self {
        let column = |(index, name): (usize, &&str)| {
            if index < first_number { Column::text(*name) } else { Column::number(*name) }
        };
        Self::new(label, header.iter().enumerate().map(column).collect())
    }

    pub(crate) fn captioned(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// The same with a heading over `columns`.
    pub(crate) fn group(mut self, columns: Range<usize>, name: impl Into<String>) -> Self {
        self.groups.push(Group { columns, name: name.into() });
        self
    }

    /// The same with more rows, apart from those before.
    pub(crate) fn section<R: Into<Row>>(mut self, rows: impl IntoIterator<Item = R>) -> Self {
        self.sections.push(Rows { title: None, rows: rows.into_iter().map(Into::into).collect() });
        self
    }

    /// Whether there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.sections.iter().all(|section| section.rows.is_empty())
    }

    fn rows(&self) -> impl Iterator<Item = &Row> {
        self.sections.iter().flat_map(|section| &section.rows)
    }

    /// The same with the titles of its sections, without their first `cut` bytes, as the first column.
    pub(crate) fn with_section_column(mut self, name: &str, cut: usize) -> Self {
        self.columns.insert(0, Column::text(name));
        for group in &mut self.groups {
            group.columns = group.columns.start + 1..group.columns.end + 1;
        }
        for section in &mut self.sections {
            let title = match section.title.take().unwrap_or_default().0.first() {
                Some(Span::Plain(title)) => title.get(cut..).unwrap_or(title).to_owned(),
                _ => String::new(),
            };
            section.rows.iter_mut().for_each(|row| row.cells.insert(0, title.as_str().into()));
        }
        self
    }

    /// The same without the columns that say nothing of any row.
    pub(crate) fn without_empty_columns(self) -> Self {
        if self.is_empty() {
            return self;
        }
        let says: Vec<bool> = (0..self.columns.len())
            .map(|column| self.rows().any(|row| row.cells[column].text.plain() != "-"))
            .collect();
        self.with_columns(&says)
    }

    /// The same with the columns that are `kept`.
    fn with_columns(mut self, kept: &[bool]) -> Self {
        let place = |column: usize| kept[..column].iter().filter(|kept| **kept).count();
        for group in &mut self.groups {
            group.columns = place(group.columns.start)..place(group.columns.end);
        }
        let mut marks = kept.iter();
        self.columns.retain(|_| marks.next() == Some(&true));
        for row in self.sections.iter_mut().flat_map(|section| &mut section.rows) {
            let mut marks = kept.iter();
            row.cells.retain(|_| marks.next() == Some(&true));
        }
        self
    }
}

impl Block {
    pub(crate) fn paragraph(text: impl Into<Text>) -> Self {
        Self::Paragraph { text: text.into(), indent: 0 }
    }

    pub(crate) fn section(id: impl Into<String>, title: impl Into<String>, body: Vec<Self>) -> Self {
        Self::Section { id: id.into(), title: title.into(), body }
    }

    /// A part that is left out where there is nothing in it.
    pub(crate) fn section_of(id: &str, title: &str, body: Vec<Self>) -> Option<Self> {
        (!body.is_empty()).then(|| Self::section(id, title, body))
    }

    pub(crate) fn table(table: Table) -> Self {
        Self::Table(Box::new(table))
    }

    /// What opens at a click on `title`, and much of it.
    pub(crate) fn folded(title: impl Into<String>, body: Vec<Self>) -> Self {
        Self::Folded { title: title.into(), body, is_long: true }
    }

    /// The same of a table.
    pub(crate) fn folded_table(title: impl Into<String>, table: Table) -> Self {
        Self::Folded { title: title.into(), body: vec![Self::table(table)], is_long: false }
    }

    /// A figure of the `panels` that show something; none where none does.
    pub(crate) fn figure(panels: Vec<Chart>, title: impl Into<String>, caption: &str) -> Option<Self> {
        let panels: Vec<Chart> = panels.into_iter().filter(|chart| !chart.marks.is_empty()).collect();
        let (title, caption) = (title.into(), caption.to_owned());
        (!panels.is_empty()).then_some(Self::Figure(Figure { panels, title, caption, axes: None }))
    }

    /// A list; what is a list's item in text is one without its dash.
    pub(crate) fn list(items: &[String]) -> Self {
        Self::List(items.iter().map(|item| item.strip_prefix("- ").unwrap_or(item).into()).collect())
    }

    pub(crate) fn notes(notes: &[String]) -> Option<Self> {
        (!notes.is_empty()).then(|| Self::section("notes", "Notes", vec![Self::list(notes)]))
    }

    pub(crate) fn warnings(warnings: Vec<String>) -> Option<Self> {
        (!warnings.is_empty()).then_some(Self::Warnings(warnings))
    }

    /// What it contains.
    fn body(&self) -> &[Self] {
        match self {
            Self::Section { body, .. } | Self::Folded { body, .. } => body,
            _ => &[],
        }
    }
}

impl Document {
    /// All figures, in their order, by their number from 1.
    fn figures(&self) -> Vec<&Figure> {
        fn add<'a>(blocks: &'a [Block], to: &mut Vec<&'a Figure>) {
            for block in blocks {
                if let Block::Figure(figure) = block {
                    to.push(figure);
                }
                add(block.body(), to);
            }
        }
        let mut figures = Vec::new();
        add(&self.body, &mut figures);
        figures
    }

    /// Its charts, in their order.
    pub fn pictures(&self) -> Vec<Picture> {
        let figures = self.figures().into_iter().enumerate();
        let charts = figures.flat_map(|(index, figure)| figure.charts(index + 1));
        charts.map(|chart| Picture { name: chart.id.clone(), chart }).collect()
    }
}

/// Size of a chart that has a figure to itself.
const SINGLE: (f64, f64) = (736.0, 360.0);

impl Figure {
    /// Its panels with their names and sizes, where it is figure `number`.
    fn charts(&self, number: usize) -> Vec<Chart> {
        let is_single = self.panels.len() == 1;
        let named = |(index, panel): (usize, &Chart)| {
            let letter = if is_single { String::new() } else { letters(index) };
            let size = panel.size.or(is_single.then_some(SINGLE));
            Chart { id: format!("figure-{number}{letter}"), size, ..panel.clone() }
        };
        self.panels.iter().enumerate().map(named).collect()
    }
}

/// `a` to `z`, then `aa`.
fn letters(index: usize) -> String {
    let last = char::from(b'a' + (index % 26) as u8);
    if index < 26 { last.to_string() } else { letters(index / 26 - 1) + &last.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_say_nothing_go_with_their_part_of_a_group() {
        let row = ["a", "-", "1", "2"].map(str::to_owned).to_vec();
        let table = Table::plain("t", &["Name", "x", "y", "z"], 1).group(1..4, "all").section([row]);
        let table = table.without_empty_columns();
        assert_eq!(
            table.columns.iter().map(|column| &column.name[..]).collect::<Vec<_>>(),
            ["Name", "y", "z"]
        );
        assert_eq!(table.groups[0].columns, 1..3);
        assert_eq!(table.sections[0].rows[0].cells.len(), 3);
    }

    /// A plan of two arrays that found none ended in a panic: its table had no column left.
    #[test]
    fn a_table_without_rows_keeps_its_columns() {
        let table = Table::plain("t", &["Name", "x"], 1).without_empty_columns();
        let text =
            render([Block::table(table)], crate::terminal::TerminalOptions { width: 40, colour: false });
        assert_eq!(text, "Name  x\n");
    }
}
