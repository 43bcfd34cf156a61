//! Results as one HTML file that opens anywhere, without a network, and reads like a white paper.
//!
//! The answer comes first: a table of the recommendations that fits one screen, a publication's tables if the study is
//! compared with one, and the reasons. Then come all figures: for each profile bars at one load, and folded below
//! them throughput and latency over the load, the latency distribution, its series over the window, a map of it, any
//! figure against any other, and one table of all. Then comes the method. The contents are at the side. Charts are
//! small multiples: a panel per side, a line per configuration, one legend for all.
//!
//! The file contains everything it needs: its style and the charts as SVG. Its content security policy forbids every
//! load, whatever a name in it contains. All names are escaped. Without scripts everything is there except the choice
//! of axes and the switches of lines.

mod answer;
mod charts;
mod compared;
mod conclusion;
mod explorer;
mod heat;
mod latency_matrix;
mod legend;
mod network;
mod over_time;
mod page;
mod paper;
mod plan;
mod programs;
mod tables;

pub use explorer::{Quantity, QuantityError};
pub use latency_matrix::latency_matrix;
pub use page::{Page, Picture};
pub use paper::paper;
pub use plan::plan;
pub use programs::programs;

use crate::StudyReport;
use crate::chart::Chart;
use crate::figures::{Column, grouped, survives, three_digits};
use crate::matrix::{Matrix, side_name};
use charts::Panel;
use over_time::LatencyOf;
use page::{Document, FigureList};
use raidlab_advisor::{Choice, Verdict};
use raidlab_units::NanoSpan;
use std::collections::BTreeSet;

/// Prints `report` as one HTML document.
pub fn study(report: &StudyReport) -> Page {
    let matrix = Matrix::of(report.runs, report.iodepth);
    let mut figures = FigureList::default();
    let is_network = report.runs.iter().any(|run| run.network.is_some());
    let results = if is_network {
        network::results(report.runs, &mut figures)
    } else {
        results(&matrix, report, &mut figures)
    };
    let warnings: Vec<String> = report.warnings.iter().cloned().chain(matrix.warnings()).collect();
    let conclusion = if is_network { String::new() } else { conclusion::section(&matrix, report.verdicts) };
    let document = Document {
        kicker: "Storage study",
        title: report.title,
        question: report.question,
        facts: facts(report, &matrix),
        body: [
            answer::section(report),
            page::warning_box(&warnings),
            compared::tables(report.compared),
            recommendations(report.verdicts),
            conclusion,
            results,
            method_section(&report.setup, &report.method),
            notes(&report.notes),
        ]
        .concat(),
        warnings: &[],
    };
    document.page(figures)
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
    let loads: Vec<String> = matrix.loads.iter().map(|load| load.value().to_string()).collect();
    let runs = report.runs.len().to_string();
    let rows = if report.runs.iter().any(|run| run.network.is_some()) {
        vec![("Runs", runs), ("Connections", loads.join(", ")), ("Measured window", window)]
    } else {
        vec![
            ("Runs", runs),
            ("Configurations", matrix.configurations.len().to_string()),
            ("Profiles", matrix.profiles.len().to_string()),
            (matrix.load_name(), loads.join(", ")),
            ("Measured window", window),
            ("Seed", seeds),
        ]
    };
    figure_list("facts", &rows)
}

/// A card per profile.
fn recommendations(verdicts: &[Verdict]) -> String {
    if verdicts.is_empty() {
        return String::new();
    }
    let cards: String = verdicts.chunk_by(|a, b| a.workload == b.workload).map(card).collect();
    section("recommendations", "Why", &format!(r#"<div class="cards">{cards}</div>"#))
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
    format!(
        r#"<div class="choice"><p class="side">{side}</p><h4>{}</h4>{figures}{}</div>"#,
        escaped(&if verdict.too_close.is_empty() {
            verdict.answer()
        } else {
            "too close to call".to_owned()
        }),
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
    let load = choice.offered_load();
    let rows = [
        ("IOPS", escaped_digits(choice.iops.0)),
        ("MB/s", escaped_digits(choice.bytes_per_sec.mb_per_s())),
        ("mean ms", escaped_digits(choice.lat_ns_mean / 1e6)),
        ("usable", format!("{:.0}\u{202f}%", 100.0 * choice.array.usable_fraction())),
        ("survives", survives(&choice.array, "–")),
        (load.name(), load.value().to_string()),
    ];
    figure_list("figures", &rows)
}

/// Names with their values, a list of this class.
fn figure_list(class: &str, rows: &[(impl std::fmt::Display, String)]) -> String {
    let rows = rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"));
    format!(r#"<dl class="{class}">{}</dl>"#, rows.collect::<String>())
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
    if body.is_empty() {
        return body;
    }
    section("method", "How it was found", &folded("Setup and method", &body))
}

/// The table and the charts.
fn results(matrix: &Matrix, report: &StudyReport, figures: &mut FigureList) -> String {
    if matrix.profiles.is_empty() {
        return section("results", "Results", "<p>No run was finished.</p>");
    }
    let table = folded("All configurations, one table", &tables::summary(matrix));
    let mut sections = section("results", "Results", &table);
    for profile in 0..matrix.profiles.len() {
        let is_open = profile < OPEN_PROFILES;
        sections += &ProfileSection { matrix, profile, figures }.html(report, is_open);
    }
    sections
}

/// Profiles whose first figure is open; all others are folded, so that a page stays short.
const OPEN_PROFILES: usize = 6;

/// `body`, which opens at a click on its `title`.
fn folded(title: &str, body: &str) -> String {
    format!(r#"<details class="more"><summary>{}</summary>{body}</details>"#, escaped(title))
}

/// One profile, whose figures are added to those of the page.
struct ProfileSection<'a> {
    matrix: &'a Matrix<'a>,
    profile: usize,
    figures: &'a mut FigureList,
}

impl ProfileSection<'_> {
    fn html(&mut self, report: &StudyReport, is_open: bool) -> String {
        let (matrix, profile) = (self.matrix, self.profile);
        let names = matrix.profiles[profile];
        let judged = Column::judging(names.metric);
        // Of one configuration there are its loads to see, of several what tells them apart.
        let is_curve = matrix.configurations.len() == 1 && matrix.loads.len() > 1;
        let first = if is_curve { self.throughput_over_load(judged) } else { self.bars(judged) };
        let (mut open, mut body) = (legend::of(matrix, profile), String::new());
        if is_open {
            open += &first;
        } else {
            body += &first;
        }
        if !is_curve {
            body += &self.throughput_over_load(judged);
        }
        body += &self.over_load(judged);
        body += &self.over_time(judged);
        body += &self.latency_maps();
        if let Some((chart, choices)) = explorer::of(matrix, profile, report.axes) {
            let explorer = self.figures.add(
                vec![chart],
                "Any figure against any other.",
                "A point is a run, a line a configuration from its lowest load to its highest.",
            );
            body += &explorer::with_choices(&explorer, &choices);
        }
        let tables = [tables::bottlenecks, tables::ranges, tables::times, tables::lags, tables::others];
        for table in tables.map(|table| table(matrix, profile)) {
            body += &table.unwrap_or_default();
        }
        body += &format!(
            "<details><summary>Figures at every load</summary>{}</details><details><summary>Latency by percentiles</summary>{}</details>",
            tables::every_depth(matrix, profile),
            tables::latencies(matrix, profile)
        );
        open += &folded("More charts and all figures", &body);
        section(&format!("profile-{profile}"), names.workload, &open)
    }

    /// What each configuration does at the load shown.
    fn bars(&mut self, judged: Column) -> String {
        let load = self.matrix.load;
        self.figure(
            &[("", &|panel| panel.bars(judged))],
            &format!("Throughput in {} at {load}.", judged.unit()),
            "Solid bars write through, hatched ones write back. Measured and simulated panels have scales of their own.",
        )
    }

    /// What a load of so many requests in flight gets.
    fn throughput_over_load(&mut self, judged: Column) -> String {
        let throughput: &[PanelRow<'_>] = &[("", &|panel| panel.over_load(judged))];
        self.figure(
            if self.matrix.loads.len() > 1 { throughput } else { &[] },
            &format!("Throughput in {} against {}.", judged.unit(), self.matrix.load_name()),
            "Where a line stops rising, more requests in flight only make each wait longer.",
        )
    }

    /// The throughput of all configurations at once, and how long requests take.
    fn over_load(&mut self, judged: Column) -> String {
        let load = self.matrix.load;
        let has_loads = self.matrix.loads.len() > 1;
        let map = self.figures.add(
            heat::figures(self.matrix, self.profile),
            &format!("Throughput in {} of every configuration at every load.", judged.unit()),
            "The darker, the more; each map has a scale of its own.",
        );
        let latency: &[PanelRow<'_>] = &[
            ("mean", &|panel| panel.over_load(Column::LatMean)),
            ("99th percentile", &|panel| panel.over_load(Column::LatP99)),
        ];
        let latency = self.figure(
            if has_loads { latency } else { &[] },
            &format!("Latency against {}.", self.matrix.load_name()),
            "Mean and 99th percentile in ms on a logarithmic scale; lower is better.",
        );
        let distribution = self.figure(
            &[("", &|panel| panel.distribution())],
            &format!("Distribution of latency at {load}."),
            "The share of requests that were done within a time; each further nine is one step to the right.",
        );
        map + &latency + &distribution
    }

    /// The course of the runs at the load shown, where they lasted long enough to have one.
    fn over_time(&mut self, judged: Column) -> String {
        let load = self.matrix.load;
        let rate = self.figure(
            &[("", &|panel| panel.rate_over_time(judged))],
            &format!("Throughput in {} over time at {load}.", judged.unit()),
            "A level line is a steady state; a slope is a cache that fills, or a device that is not yet itself.",
        );
        let latency = self.figure(
            &[
                ("mean", &|panel| panel.latency_over_time(LatencyOf::Mean)),
                ("99th percentile", &|panel| panel.latency_over_time(LatencyOf::P99)),
                ("longest", &|panel| panel.latency_over_time(LatencyOf::Max)),
            ],
            &format!("Latency over time at {load}."),
            "Of the requests done in each interval, in ms on a logarithmic scale; stalls stand out in the longest.",
        );
        rate + &latency
    }

    /// Where the requests of each configuration are, load by load and over the window.
    fn latency_maps(&mut self) -> String {
        let by_load = self.figures.add(
            heat::maps(self.matrix, self.profile),
            "Maps of latency by load.",
            "Each column is a load, each row a time; the darker, the more of the column's requests took that long.",
        );
        let over_time = self.figures.add(
            heat::maps_over_time(self.matrix, self.profile),
            &format!("Maps of latency over time at {}.", self.matrix.load),
            "Each column is a stretch of the window. A second band is a second kind of request: a miss, a seek, a full cache.",
        );
        by_load + &over_time
    }

    /// A figure: for each of `rows` a panel per side, and a caption. Empty when there is nothing to show.
    fn figure(&mut self, rows: &[PanelRow<'_>], title: &str, caption: &str) -> String {
        let mut panels = Vec::new();
        for (row_name, make) in rows {
            for (side, names) in self.matrix.sides.iter().enumerate() {
                let panel = Panel { matrix: self.matrix, profile: self.profile, side };
                let parts = [Some(names.name().to_owned()), Some((*row_name).to_owned()), names.hardware()];
                let parts: Vec<String> =
                    parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
                panels.extend(make(panel).map(|chart| Chart { heading: parts.join(" · "), ..chart }));
            }
        }
        self.figures.add(panels, title, caption)
    }
}

/// A row of a figure: its name, and what makes a panel of it.
type PanelRow<'a> = (&'a str, &'a dyn Fn(Panel) -> Option<Chart>);

fn notes(notes: &[String]) -> String {
    if notes.is_empty() { String::new() } else { section("notes", "Notes", &list(notes)) }
}

/// A section with a heading; `title` is escaped here, `body` is HTML.
fn section(id: &str, title: &str, body: &str) -> String {
    format!(r#"<section aria-labelledby="{id}"><h2 id="{id}">{}</h2>{body}</section>"#, escaped(title))
}

/// A list; what is a list's item in text is one without its dash.
fn list(items: &[String]) -> String {
    let item = |item: &String| format!("<li>{}</li>", escaped(item.strip_prefix("- ").unwrap_or(item)));
    let items: String = items.iter().map(item).collect();
    format!("<ul>{items}</ul>")
}

/// `text` with the characters replaced that mean something in HTML, in text and in quoted attributes, and without control
/// characters, which no XML may have and which would steer a terminal that shows the page's source.
pub(crate) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() && !c.is_ascii_whitespace() => html.push(char::REPLACEMENT_CHARACTER),
            c => html.push(c),
        }
    }
    html
}

/// A figure with three digits and its thousands apart.
fn escaped_digits(value: f64) -> String {
    grouped(&three_digits(value))
}
