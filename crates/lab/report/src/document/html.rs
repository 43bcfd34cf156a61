//! The page: one file that holds its style, its script and its charts as SVG, and loads nothing.
//!
//! Everything that is text goes through [`clean`] and the escaping of `maud`; only drawn charts, and the style and script of this
//! crate, are written as they are.

use super::{
    Block, Card, Cell, Choice, Column, ColumnKind, Document, Fact, Figure, Group, Row, RowLook, Span, Table,
    TableLook, Text,
};
use crate::chart::{Chart, Palette, draw};
use crate::figures::grouped;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::borrow::Cow;

const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

/// A chart of a document, for papers and slides.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its name among those of the document, `figure-2b`, fit for a file.
    pub name: String,
    pub(crate) chart: Chart,
}

impl Picture {
    /// The chart as a document of its own, with its heading and colours.
    pub fn svg(&self, palette: Palette) -> String {
        draw(&self.chart, palette)
    }

    /// What it shows, in a sentence or two.
    pub fn label(&self) -> &str {
        &self.chart.label
    }
}

/// `text` without control characters, which no XML may have and which would steer a terminal that shows the page's source.
fn clean(text: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && !c.is_ascii_whitespace();
    if text.contains(is_bad) { text.replace(is_bad, "\u{fffd}").into() } else { text.into() }
}

/// `text` as it stands in HTML and in SVG, in text and in quoted attributes.
pub(crate) fn escaped(text: &str) -> String {
    html! { (clean(text)) }.into_string()
}

impl Document {
    /// The whole page.
    pub fn to_html(&self) -> String {
        let mut writer = Writer::default();
        let body = writer.blocks(&self.body);
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    title { (clean(&self.title)) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header.cover {
                        p.kicker { (self.kicker) }
                        h1 { (clean(&self.title)) }
                        @if !self.question.is_empty() { p.lead { (clean(&self.question)) } }
                        (fact_list("facts", &self.facts))
                    }
                    div.sheet {
                        main { (body) }
                        (contents(&self.body))
                    }
                    footer {
                        p {
                            "Written by raidlab " (env!("CARGO_PKG_VERSION")) ". Figures are rounded to three significant digits; the JSON \
                             and CSV exports have all of them. 1 MB is 10" sup { "6" } " bytes. This file loads nothing from any network."
                        }
                    }
                    script { (PreEscaped(SCRIPT)) }
                }
            }
        };
        page.into_string()
    }
}

/// Links to the parts, in their order.
fn contents(body: &[Block]) -> Markup {
    let parts = body.iter().filter_map(|block| match block {
        Block::Section { id, title, .. } => Some((&id[..], &title[..])),
        Block::Warnings(_) => Some(("warnings", WARNINGS)),
        _ => None,
    });
    html! {
        nav.contents aria-label="Contents" {
            ul { @for (id, title) in parts { li { a href={ "#" (id) } { (clean(title)) } } } }
        }
    }
}

/// What stands above warnings.
pub(super) const WARNINGS: &str = "Before trusting these figures";

/// Names with their values, a list of this class.
fn fact_list(class: &str, facts: &[Fact]) -> Markup {
    html! {
        @if !facts.is_empty() {
            dl class=(class) {
                @for (name, value) in facts { div { dt { (clean(name)) } dd { (clean(&set(value))) } } }
            }
        }
    }
}

/// A figure as a page sets it: thousands apart, and real dashes.
pub(super) fn set(figure: &str) -> Cow<'_, str> {
    let is_range = figure.split_once('-').is_some_and(|(from, to)| {
        [from, to].iter().all(|end| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit()))
    });
    if figure == "-" || is_range { figure.replace('-', "–").into() } else { grouped(figure).into() }
}

/// What a cell shows: the figure that it begins with is set as one.
pub(super) fn shown(column: &Column, cell: &Cell) -> Text {
    let mut text = cell.text.clone();
    if let Some(Span::Plain(figure)) = text.0.first_mut()
        && (column.kind == ColumnKind::Number || figure == "-")
    {
        *figure = set(figure).into_owned();
    }
    text
}

fn text(text: &Text) -> Markup {
    html! {
        @for span in &text.0 {
            @match span {
                Span::Plain(text) => (clean(text)),
                Span::Strong(text) => b { (clean(text)) },
                Span::Small(text) => small { (clean(text)) },
                Span::Drawn(svg) => (PreEscaped(svg)),
            }
        }
    }
}

/// Counts the figures that it has written.
#[derive(Default)]
struct Writer {
    figures: usize,
}

impl Writer {
    fn blocks(&mut self, blocks: &[Block]) -> Markup {
        html! { @for block in blocks { (self.block(block)) } }
    }

    fn block(&mut self, block: &Block) -> Markup {
        match block {
            Block::Section { id, title, body } => html! {
                section aria-labelledby=(id) { h2 id=(id) { (clean(title)) } (self.blocks(body)) }
            },
            Block::Heading(title) => html! { h3 { (clean(title)) } },
            Block::Paragraph { text: words, .. } => html! { p { (text(words)) } },
            Block::List(items) => html! { ul { @for item in items { li { (text(item)) } } } },
            Block::Warnings(warnings) => html! {
                aside.warnings aria-labelledby="warnings" {
                    h2 id="warnings" { (WARNINGS) }
                    ul { @for warning in warnings { li { (clean(warning)) } } }
                }
            },
            Block::Setup(facts) => html! {
                dl.setup { @for (name, value) in facts { dt { (clean(name)) } dd { (clean(value)) } } }
            },
            Block::Cards(cards) => html! { div.cards { @for one in cards { (card(one)) } } },
            Block::Table(it) => table(it),
            Block::Figure(it) => self.figure(it),
            Block::Folded { title, body, is_long } => html! {
                details class=[is_long.then_some("more")] { summary { (clean(title)) } (self.blocks(body)) }
            },
            Block::Legend(entries) => legend(entries),
            Block::Verbatim(_) => html! {},
        }
    }

    fn figure(&mut self, figure: &Figure) -> Markup {
        self.figures += 1;
        let charts = figure.charts(self.figures);
        let written = html! {
            figure {
                @let class = if charts.len() == 1 { "panels single" } else { "panels" };
                div class=(class) {
                    @for chart in &charts {
                        div.panel {
                            p { (clean(&chart.heading)) }
                            div.plot id=(chart.id) { (PreEscaped(draw(chart, Palette::Page))) }
                        }
                    }
                }
                figcaption { b { "Figure " (self.figures) ". " (clean(&figure.title)) } " " (clean(&figure.caption)) }
            }
        };
        let Some(axes) = &figure.axes else { return written };
        // Nothing in it can end the element.
        let places = axes.places.replace('<', "\\u003c");
        html! {
            div.explorer {
                p.axes hidden {
                    @for (name, shown) in ["Across", "Up"].iter().zip(axes.shown) {
                        label {
                            (name) " "
                            select {
                                @for (index, name) in axes.names.iter().enumerate() {
                                    option selected[index == shown] { (name) }
                                }
                            }
                        }
                        " "
                    }
                }
                (written)
                script type="application/json" { (PreEscaped(places)) }
            }
        }
    }
}

/// The key; its entries switch lines on and off.
fn legend(entries: &[(String, String)]) -> Markup {
    html! {
        ul.legend aria-label="Key to the charts; press an entry to hide or show its lines" {
            @for (name, sample) in entries {
                li {
                    button type="button" aria-pressed="true" data-name=(clean(name)) { (PreEscaped(sample)) (clean(name)) }
                }
            }
        }
    }
}

fn card(card: &Card) -> Markup {
    html! {
        article.card {
            @match &card.title {
                Some(title) => {
                    h3 { (clean(title)) }
                    div.choices { @for one in &card.choices { (choice(one, &html! { h4 { (clean(&one.title)) } })) } }
                }
                None => { @for one in &card.choices { (choice(one, &html! { h3 { (clean(&one.title)) } })) } }
            }
        }
    }
}

fn choice(choice: &Choice, title: &Markup) -> Markup {
    html! {
        div.choice {
            p.side { (clean(&choice.kicker)) }
            (title)
            @if !choice.settings.is_empty() { p.side { (clean(&choice.settings)) } }
            (fact_list("figures", &choice.facts))
            @if let [finding, grounds @ ..] = &choice.reasons[..] {
                div.reason {
                    p { (clean(finding)) }
                    @if !grounds.is_empty() { ul { @for ground in grounds { li { (clean(ground)) } } } }
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    let content = html! {
        @if !table.caption.is_empty() { caption { span { (clean(&table.caption)) } } }
        thead {
            @if !table.groups.is_empty() { tr { (groups(table)) } }
            tr {
                @for (index, column) in table.columns.iter().enumerate() {
                    th scope="col" class=[head_class(table, index)] { (clean(&column.name)) }
                }
            }
        }
        @for section in &table.sections {
            tbody {
                @if let Some(title) = &section.title {
                    tr { th.section scope="rowgroup" colspan=(table.columns.len()) { span { (text(title)) } } }
                }
                @for row in &section.rows { (cells(table, row)) }
            }
        }
    };
    match table.look {
        TableLook::Stacking => html! { table.answers { (content) } },
        TableLook::Wide => html! {
            div.scroll role="region" aria-label=(clean(&table.label)) tabindex="0" { table { (content) } }
        },
    }
}

/// The line of headings over several columns, and empty cells between them.
fn groups(table: &Table) -> Markup {
    let mut cells = Vec::new();
    let mut at = 0;
    for Group { columns, name } in &table.groups {
        cells.extend((columns.start > at).then_some((at..columns.start, None)));
        cells.push((columns.clone(), Some(name)));
        at = columns.end;
    }
    cells.extend((table.columns.len() > at).then_some((at..table.columns.len(), None)));
    html! {
        @for (columns, name) in &cells {
            @let class = if columns.start == 0 { "first" } else { "start" };
            @match name {
                Some(name) => { th scope="colgroup" class={ "group " (class) } colspan=(columns.len()) { (clean(name)) } }
                None => { td class=(class) colspan=(columns.len()) {} }
            }
        }
    }
}

/// Whether a rule stands before a column: a group begins or ended.
fn starts(table: &Table, column: usize) -> bool {
    column > 0
        && table.groups.iter().any(|group| group.columns.start == column || group.columns.end == column)
}

fn head_class(table: &Table, column: usize) -> Option<String> {
    let is_text = table.columns[column].kind != ColumnKind::Number;
    let parts = [(is_text || column == 0, "name"), (column == 0, "first"), (starts(table, column), "start")];
    class(parts)
}

fn class<const N: usize>(parts: [(bool, &str); N]) -> Option<String> {
    let parts: Vec<&str> = parts.into_iter().filter_map(|(is, name)| is.then_some(name)).collect();
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn cells(table: &Table, row: &Row) -> Markup {
    let look = match row.look {
        RowLook::Plain => None,
        RowLook::Own => Some("own"),
        RowLook::Bare => Some("bare"),
    };
    html! {
        tr class=[look] {
            @for (index, (column, cell)) in table.columns.iter().zip(&row.cells).enumerate() {
                @if index == 0 {
                    @let class = if column.kind == ColumnKind::Prose { "name first label" } else { "name first" };
                    th scope="row" class=(class) { (content(column, cell)) }
                } @else {
                    @let classes = class([
                        (column.kind != ColumnKind::Number, "text"),
                        (column.kind == ColumnKind::Prose, "prose"),
                        (cell.share.is_some(), "judged"),
                        (cell.is_best, "best"),
                        (starts(table, index), "start"),
                    ]);
                    @let share = cell.share.map(|share| format!("--share:{:.0}%", 100.0 * share));
                    @let name = (table.look == TableLook::Stacking).then_some(&column.name);
                    td class=[classes] style=[share] data-name=[name] { (content(column, cell)) }
                }
            }
        }
    }
}

fn content(column: &Column, cell: &Cell) -> Markup {
    html! {
        (text(&shown(column, cell)))
        @if cell.is_best { span.unseen { " (best)" } }
    }
}
