//! A study as one HTML file that opens anywhere, without a network, and reads like a white paper.
//!
//! The answer comes first: the recommendations with their reasons. Then how it was found, then all figures: one table,
//! and for each profile bars at one iodepth, throughput and latency over the iodepth, and the distribution of latency.
//! Charts are small multiples: a panel per side, a line per configuration, one key for all.
//!
//! The file carries everything it needs: its style, the text of plotly.js (once) and the charts as data. Its content
//! security policy forbids every load, so that this stays true whatever a name in it contains. All names are escaped.
//! Without scripts the tables still tell everything that the charts show.

mod charts;
mod legend;
mod network;
mod over_time;
mod paper;
mod plan;
mod programs;
mod tables;

pub use paper::paper;
pub use plan::plan;
pub use programs::programs;

use crate::StudyReport;
use crate::figures::{Column, grouped, survives, three_digits};
use crate::matrix::{Matrix, side_name};
use charts::{Chart, Panel};
use over_time::LatencyOf;
use raidlab_advisor::{Choice, Verdict};
use raidlab_units::NanoSpan;
use serde_json::json;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/report.css");
const SCRIPT: &str = include_str!("assets/report.js");

/// Prints `report` as one HTML document.
pub fn study(report: &StudyReport) -> String {
    let matrix = Matrix::of(report.runs, report.iodepth);
    let mut charts = Vec::new();
    let is_network = report.runs.iter().any(|run| run.network.is_some());
    let results =
        if is_network { network::results(report.runs, &mut charts) } else { results(&matrix, &mut charts) };
    let warnings: Vec<String> = report.warnings.iter().cloned().chain(matrix.warnings()).collect();
    let published = report.published.map_or_else(String::new, |published| {
        section("published", "Published and predicted figures", &tables::comparison(published))
    });
    fill(
        PAGE,
        &[
            ("kicker", "Storage study"),
            ("title", &escaped(report.title)),
            ("question", &escaped(report.question)),
            ("facts", &facts(report, &matrix)),
            ("warnings", &warning_box(&warnings)),
            ("recommendations", &recommendations(report.verdicts)),
            ("method", &method_section(&report.setup, &report.method)),
            ("results", &results),
            ("published", &published),
            ("notes", &notes(&report.notes)),
            ("version", env!("CARGO_PKG_VERSION")),
            ("css", STYLE),
            ("plotly", if charts.is_empty() { "" } else { plotly_script() }),
            ("charts", &charts_json(&charts)),
            ("script", SCRIPT),
        ],
    )
}

/// What was run, in a few numbers.
fn facts(report: &StudyReport, matrix: &Matrix) -> String {
    let list = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
    let seeds = list(report.runs.iter().map(|run| run.seed.to_string()).collect());
    let windows: BTreeSet<u64> = report.runs.iter().map(|run| run.window_ns).collect();
    let window = match (windows.first(), windows.last()) {
        (Some(shortest), Some(longest)) if shortest == longest => NanoSpan(*shortest).to_string(),
        (Some(shortest), Some(longest)) => format!("{} to {}", NanoSpan(*shortest), NanoSpan(*longest)),
        _ => "none".to_owned(),
    };
    let depths: Vec<String> = matrix.iodepths.iter().map(u32::to_string).collect();
    let runs = report.runs.len().to_string();
    let rows = if report.runs.iter().any(|run| run.network.is_some()) {
        vec![("Runs", runs), ("Connections", depths.join(", ")), ("Measured window", window)]
    } else {
        vec![
            ("Runs", runs),
            ("Configurations", matrix.configurations.len().to_string()),
            ("Profiles", matrix.profiles.len().to_string()),
            ("iodepth", depths.join(", ")),
            ("Measured window", window),
            ("Seed", seeds),
        ]
    };
    let rows: String =
        rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>")).collect();
    format!(r#"<dl class="facts">{rows}</dl>"#)
}

fn warning_box(warnings: &[String]) -> String {
    if warnings.is_empty() {
        return String::new();
    }
    format!(
        r#"<aside class="warnings" aria-labelledby="warnings"><h2 id="warnings">Before trusting these figures</h2>{}</aside>"#,
        list(warnings)
    )
}

/// A card per profile.
fn recommendations(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let cards: String = verdicts.chunk_by(|a, b| a.workload == b.workload).map(card).collect();
    section("recommendations", "Recommendations", &format!(r#"<div class="cards">{cards}</div>"#))
}

/// The recommendations for one profile, measured and simulated.
fn card(verdicts: &[Verdict]) -> String {
    let choices: String = verdicts.iter().map(choice).collect();
    format!(
        r#"<article class="card"><h3>{}</h3><div class="choices">{choices}</div></article>"#,
        escaped(&verdicts[0].workload)
    )
}

/// One recommendation with its figures and its reason.
fn choice(verdict: &Verdict) -> String {
    let side = side_name(verdict.world);
    let figures = verdict.recommended.as_ref().map_or_else(String::new, choice_figures);
    let label = verdict.recommended.as_ref().map_or("nothing", |choice| &choice.label);
    format!(
        r#"<div class="choice"><p class="side">{side}</p><h4>{}</h4>{figures}{}</div>"#,
        escaped(label),
        reason(&verdict.reason)
    )
}

/// A reason: its first sentence, which is the finding, and what speaks for it as a list.
fn reason(text: &str) -> String {
    let mut sentences = sentences(text).into_iter().map(escaped);
    let finding = sentences.next().unwrap_or_default();
    let grounds: String = sentences.map(|sentence| format!("<li>{sentence}</li>")).collect();
    let grounds = if grounds.is_empty() { grounds } else { format!("<ul>{grounds}</ul>") };
    format!(r#"<div class="reason"><p>{finding}</p>{grounds}</div>"#)
}

/// The sentences of `text`: one ends at a full stop that a space and a capital letter follow.
fn sentences(text: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(". ") {
        if text[at + 2..].starts_with(char::is_uppercase) {
            sentences.push(&text[start..=at]);
            start = at + 2;
        }
    }
    sentences.push(&text[start..]);
    sentences
}

fn choice_figures(choice: &Choice) -> String {
    let rows = [
        ("IOPS", escaped_digits(choice.iops.0)),
        ("MB/s", escaped_digits(choice.bytes_per_sec.mb_per_s())),
        ("mean ms", escaped_digits(choice.lat_ns_mean / 1e6)),
        ("usable", format!("{:.0}\u{202f}%", 100.0 * choice.array.usable_fraction())),
        ("survives", survives(&choice.array, "–")),
        ("iodepth", choice.iodepth.to_string()),
    ];
    let rows: String =
        rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>")).collect();
    format!(r#"<dl class="figures">{rows}</dl>"#)
}

/// On what it was done, and how.
fn method_section(setup: &[(String, String)], paragraphs: &[String]) -> String {
    let mut body = String::new();
    if !setup.is_empty() {
        let row = |(name, value): &(String, String)| {
            format!("<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value))
        };
        let rows: String = setup.iter().map(row).collect();
        body += &format!(r#"<h3>Setup</h3><dl class="setup">{rows}</dl>"#);
    }
    if !paragraphs.is_empty() {
        let paragraphs: String = paragraphs.iter().map(|text| format!("<p>{}</p>", escaped(text))).collect();
        body += &format!("<h3>Method</h3>{paragraphs}");
    }
    if body.is_empty() { body } else { section("method", "How it was found", &body) }
}

/// The table and the charts.
fn results(matrix: &Matrix, charts: &mut Vec<Chart>) -> String {
    if matrix.profiles.is_empty() {
        return section("results", "Results", "<p>No run was finished.</p>");
    }
    let mut figures = Figures { matrix, charts, count: 0 };
    let profiles: String = (0..matrix.profiles.len()).map(|profile| figures.profile(profile)).collect();
    let noscript =
        "<noscript><p>The charts need scripts; the tables show the same figures without them.</p></noscript>";
    let table = tables::summary(matrix);
    section("results", "Results", &format!("{table}{noscript}")) + &profiles
}

/// Numbers the figures and collects their charts.
struct Figures<'a> {
    matrix: &'a Matrix<'a>,
    charts: &'a mut Vec<Chart>,
    count: usize,
}

impl Figures<'_> {
    /// The section of one profile.
    fn profile(&mut self, profile: usize) -> String {
        let matrix = self.matrix;
        let names = matrix.profiles[profile];
        let judged = Column::judging(names.metric);
        let bars = self.figure(
            profile,
            &[("", &|panel, id| panel.bars(id, judged))],
            &format!("Throughput in {} at iodepth {}.", judged.unit(), matrix.iodepth),
            "Solid bars write through, hatched ones write back. Measured and simulated panels have scales of their own.",
        );
        let throughput = self.figure(
            profile,
            &[("", &|panel, id| panel.over_iodepth(id, judged))],
            &format!("Throughput in {} against iodepth.", judged.unit()),
            "Where a line stops rising, more requests in flight only make each wait longer.",
        );
        let latency = self.figure(
            profile,
            &[
                ("mean", &|panel, id| panel.over_iodepth(id, Column::LatMean)),
                ("99th percentile", &|panel, id| panel.over_iodepth(id, Column::LatP99)),
            ],
            "Latency against iodepth.",
            "Mean and 99th percentile in ms on a logarithmic scale; lower is better.",
        );
        let distribution = self.figure(
            profile,
            &[("", &|panel, id| panel.distribution(id))],
            &format!("Distribution of latency at iodepth {}.", matrix.iodepth),
            "The share of requests that were done within a time; each further nine is one step to the right.",
        );
        let over_time = self.over_time(profile, judged);
        let legend = legend::of(matrix, profile);
        let table = tables::every_depth(matrix, profile);
        let latencies = tables::latencies(matrix, profile);
        let id = format!("profile-{profile}");
        let body = format!(
            "{legend}{bars}{throughput}{latency}{distribution}{over_time}<details><summary>Figures at every iodepth</summary>{table}</details><details><summary>Latency by percentiles</summary>{latencies}</details>"
        );
        section(&id, names.workload, &body)
    }

    /// The course of the runs at the iodepth shown, where they lasted long enough to have one.
    fn over_time(&mut self, profile: usize, judged: Column) -> String {
        let iodepth = self.matrix.iodepth;
        let rate = self.figure(
            profile,
            &[("", &|panel, id| panel.rate_over_time(id, judged))],
            &format!("Throughput in {} over time at iodepth {iodepth}.", judged.unit()),
            "A level line is a steady state; a slope is a cache that fills, or a device that is not yet itself.",
        );
        let latency = self.figure(
            profile,
            &[
                ("mean", &|panel, id| panel.latency_over_time(id, LatencyOf::Mean)),
                ("99th percentile", &|panel, id| panel.latency_over_time(id, LatencyOf::P99)),
                ("longest", &|panel, id| panel.latency_over_time(id, LatencyOf::Max)),
            ],
            &format!("Latency over time at iodepth {iodepth}."),
            "Of the requests done in each interval, in ms on a logarithmic scale; stalls stand out in the longest.",
        );
        rate + &latency
    }

    /// A figure: for each of `rows` a panel per side, and a caption. Empty when there is nothing to show.
    fn figure(&mut self, profile: usize, rows: &[PanelRow], title: &str, caption: &str) -> String {
        let mut panels = String::new();
        for (row_name, make) in rows {
            for (side, names) in self.matrix.sides.iter().enumerate() {
                let id = format!("chart-{}", self.charts.len() + 1);
                if let Some(chart) = make(Panel { matrix: self.matrix, profile, side }, id) {
                    panels += &panel_html(&chart, names.name(), names.hardware().as_deref(), row_name);
                    self.charts.push(chart);
                }
            }
        }
        if panels.is_empty() {
            return panels;
        }
        self.count += 1;
        format!(
            r#"<figure><div class="panels">{panels}</div><figcaption><b>Figure {}. {title}</b> {caption}</figcaption></figure>"#,
            self.count
        )
    }
}

/// A row of a figure: its name, and what makes a panel of it.
type PanelRow<'a> = (&'a str, &'a dyn Fn(Panel, String) -> Option<Chart>);

fn panel_html(chart: &Chart, side: &str, hardware: Option<&str>, row_name: &str) -> String {
    let parts: Vec<String> = [row_name, hardware.unwrap_or("")]
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| escaped(part))
        .collect();
    format!(
        r#"<div class="panel"><p>{side} <small>{}</small></p><div class="plot" id="{}" role="img" aria-label="{}"></div></div>"#,
        parts.join(" · "),
        chart.id,
        escaped(&chart.label)
    )
}

fn notes(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { section("notes", "Notes", &list(notes)) }
}

/// A section with a heading; `title` is escaped here, `body` is HTML.
fn section(id: &str, title: &str, body: &str) -> String {
    format!(r#"<section aria-labelledby="{id}"><h2 id="{id}">{}</h2>{body}</section>"#, escaped(title))
}

fn list(items: &[String]) -> String {
    let items: String = items.iter().map(|item| format!("<li>{}</li>", escaped(item))).collect();
    format!("<ul>{items}</ul>")
}

/// `text` with the characters replaced that mean something in HTML, in text and in quoted attributes.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

/// A figure with three digits and its thousands apart.
fn escaped_digits(value: f64) -> String {
    grouped(&three_digits(value))
}

/// The charts as JSON that can stand in a script element: nothing in it can end the element.
fn charts_json(charts: &[Chart]) -> String {
    let chart = |chart: &Chart| json!({ "id": chart.id, "data": chart.data, "layout": chart.layout });
    let all: Vec<_> = charts.iter().map(chart).collect();
    serde_json::Value::from(all).to_string().replace('<', "\\u003c")
}

/// The script element with the text of plotly.js. The crate that carries it adds another with `MathJax`, which no
/// chart here needs.
fn plotly_script() -> &'static str {
    static SCRIPT_ELEMENT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        let sources = plotly::Plot::offline_js_sources();
        let plotly = sources.split_inclusive("</script>").find(|element| element.contains("plotly.js v"));
        plotly.expect("the plotly crate carries plotly.js").trim_start().to_owned()
    });
    &SCRIPT_ELEMENT
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
