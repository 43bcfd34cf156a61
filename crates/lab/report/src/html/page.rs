//! Shared by all pages: the frame, numbered figures, and the pictures that can be extracted.

use super::{escaped, list};
use crate::chart::{Chart, Palette, draw};

const PAGE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");

/// A page, and its charts one by one.
#[derive(Clone, Debug)]
pub struct Page {
    /// The whole document.
    pub html: String,
    /// Its charts, in their order.
    pub pictures: Vec<Picture>,
}

/// A chart of a page, for papers and slides.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Its name among those of the page, `figure-2b`, fit for a file.
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

/// Numbers the figures of a page and collects their charts.
#[derive(Debug, Default)]
pub(super) struct FigureList {
    charts: Vec<Chart>,
    count: usize,
}

impl FigureList {
    /// A figure of `panels`, and its caption; `title` and `caption` are text. Empty when there is nothing to show.
    pub(super) fn add(&mut self, panels: Vec<Chart>, title: &str, caption: &str) -> String {
        let panels: Vec<Chart> = panels.into_iter().filter(|chart| !chart.marks.is_empty()).collect();
        if panels.is_empty() {
            return String::new();
        }
        self.count += 1;
        let is_single = panels.len() == 1;
        let mut html = String::new();
        for (index, panel) in panels.into_iter().enumerate() {
            let letter = if is_single { String::new() } else { letters(index) };
            let id = format!("figure-{}{letter}", self.count);
            let size = panel.size.or(is_single.then_some(SINGLE));
            let chart = Chart { id, size, ..panel };
            html += &format!(
                r#"<div class="panel"><p>{}</p><div class="plot" id="{}">{}</div></div>"#,
                escaped(&chart.heading),
                chart.id,
                draw(&chart, Palette::Page)
            );
            self.charts.push(chart);
        }
        let class = if is_single { "panels single" } else { "panels" };
        format!(
            r#"<figure><div class="{class}">{html}</div><figcaption><b>Figure {}. {}</b> {}</figcaption></figure>"#,
            self.count,
            escaped(title),
            escaped(caption)
        )
    }

    /// The charts so far.
    #[cfg(test)]
    pub(super) fn charts(&self) -> &[Chart] {
        &self.charts
    }
}

/// Size of a chart that has a figure to itself.
const SINGLE: (f64, f64) = (736.0, 360.0);

/// `a` to `z`, then `aa`.
fn letters(index: usize) -> String {
    let last = char::from(b'a' + (index % 26) as u8);
    if index < 26 { last.to_string() } else { letters(index / 26 - 1) + &last.to_string() }
}

/// The parts of a page; `facts` and `body` are HTML, the rest is text.
pub(super) struct Document<'a> {
    pub(super) kicker: &'a str,
    pub(super) title: &'a str,
    pub(super) question: &'a str,
    pub(super) facts: String,
    pub(super) body: String,
    pub(super) warnings: &'a [String],
}

impl Document<'_> {
    /// The page with the charts of `figures`.
    pub(super) fn page(self, figures: FigureList) -> Page {
        let question = match self.question {
            "" => String::new(),
            question => format!(r#"<p class="lead">{}</p>"#, escaped(question)),
        };
        let html = fill(
            PAGE,
            &[
                ("kicker", self.kicker),
                ("title", &escaped(self.title)),
                ("question", &question),
                ("facts", &self.facts),
                ("warnings", &warning_box(self.warnings)),
                ("contents", &contents(&self.body)),
                ("body", &self.body),
                ("version", env!("CARGO_PKG_VERSION")),
                ("css", STYLE),
                ("script", SCRIPT),
            ],
        );
        let picture = |chart: Chart| Picture { name: chart.id.clone(), chart };
        Page { html, pictures: figures.charts.into_iter().map(picture).collect() }
    }
}

/// Links to the sections of `body`, in their order, by the headings that [`super::section`] gives them.
fn contents(body: &str) -> String {
    let links = body.split("<h2 id=\"").skip(1).filter_map(|part| {
        let (id, rest) = part.split_once("\">")?;
        let (title, _) = rest.split_once("</h2>")?;
        Some(format!(r##"<li><a href="#{id}">{title}</a></li>"##))
    });
    let links: String = links.collect();
    if links.is_empty() {
        return String::new();
    }
    format!(r#"<nav class="contents" aria-label="Contents"><ul>{links}</ul></nav>"#)
}

/// What is to be known before figures are trusted; empty where there is nothing.
pub(super) fn warning_box(warnings: &[String]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    format!(
        r#"<aside class="warnings" aria-labelledby="warnings"><h2 id="warnings">Before trusting these figures</h2>{}</aside>"#,
        list(warnings)
    )
}

/// Replaces each `{{name}}` in `template` by its value. What a value contains is never replaced again.
fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut pieces = template.split("{{");
    let mut page = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").expect("the template closes what it opens");
        let value = values.iter().find(|(known, _)| *known == name);
        page += value.unwrap_or_else(|| panic!("the template asks for {name}")).1;
        page += rest;
    }
    page
}
