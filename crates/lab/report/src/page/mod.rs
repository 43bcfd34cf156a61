//! Pages that open anywhere, without a network, and read like a white paper.
//!
//! The answer comes first: a table of the recommendations that fits one screen, a publication's tables if the study is
//! compared with one, and the reasons. Then come all figures: for each profile bars at one load, and folded below
//! them throughput and latency over the load, the latency distribution, its series over the window, a map of it, any
//! figure against any other, and one table of all. Then comes the method. The contents are at the side. Charts are
//! small multiples: a panel per side, a line per configuration, one legend for all.
//!
//! Each page is a [`Document`]; how it is written is in `document`. Without scripts everything is there except the choice
//! of axes and the switches of lines.

mod answer;
mod charts;
mod conclusion;
mod explorer;
mod feeding;
mod heat;
mod latency_matrix;
mod legend;
mod network;
mod over_time;
mod paper;
mod plan;
mod programs;
mod tables;

pub use explorer::{Quantity, QuantityError};
pub use feeding::{FedCurve, FedPlace};
pub use latency_matrix::latency_matrix;
pub use paper::paper;
pub use plan::plan;
pub use programs::programs;
pub(crate) use tables::summary;

use crate::StudyReport;
use crate::chart::Chart;
use crate::document::{Block, Card, Choice as CardChoice, Document, Fact, Figure};
use crate::figures::{Column, grouped, survives, three_digits};
use crate::known::is_missing_count;
use crate::matrix::{Matrix, side_name};
use charts::Panel;
use over_time::LatencyOf;
use raidlab_advisor::{Choice, ComparedTable, Verdict};
use raidlab_units::NanoSpan;
use raidlab_workload::{OfferedLoad, RunResult};
use raidlab_worlds::feedings;
use std::collections::BTreeSet;

/// The page of `report`.
pub fn study(report: &StudyReport) -> Document {
    let matrix = Matrix::of(report.runs, report.iodepth);
    let is_network = report.runs.iter().any(|run| run.network.is_some());
    let warnings = report.warnings.iter().cloned().chain(matrix.warnings()).collect();
    let conclusion = if is_network { None } else { conclusion::section(&matrix, report.verdicts) };
    let results = if is_network { vec![network::results(report.runs)] } else { results(&matrix, report) };
    let parts = [Block::warnings(warnings), published(report.compared)];
    let fed = feedings(report.runs);
    let mut body = feeding::sections(&fed);
    body.extend(answer::section(report));
    body.extend(parts.into_iter().flatten());
    body.extend(recommendations(report.verdicts));
    body.extend(conclusion);
    body.extend(results);
    body.extend(method_section(&report.setup, &report.method));
    body.extend(Block::notes(&report.notes));
    Document {
        kicker: "Storage study",
        title: report.title.to_owned(),
        question: report.question.to_owned(),
        facts: facts(report, &matrix),
        body,
    }
}

/// What was run, in a few numbers.
fn facts(report: &StudyReport, matrix: &Matrix) -> Vec<Fact> {
    let list = |values: BTreeSet<String>| values.into_iter().collect::<Vec<_>>().join(", ");
    let known = |run: &&RunResult, count: u64| !is_missing_count(run, count);
    let seeds = report.runs.iter().filter(|run| known(run, run.seed)).map(|run| run.seed.to_string());
    let seeds = list(seeds.collect());
    let windows = report.runs.iter().filter(|run| known(run, run.window_ns)).map(|run| run.window_ns);
    let windows: BTreeSet<u64> = windows.collect();
    let window = match (windows.first(), windows.last()) {
        (Some(shortest), Some(longest)) if shortest == longest => NanoSpan(*shortest).to_string(),
        (Some(shortest), Some(longest)) => format!("{} to {}", NanoSpan(*shortest), NanoSpan(*longest)),
        _ => "not known".to_owned(),
    };
    let loads = matrix.loads.chunk_by(|a, b| a.name() == b.name()).map(|loads| {
        let text = |load: &OfferedLoad| match load {
            OfferedLoad::Iodepth(0) => "not known".to_owned(),
            load => load.value().to_string(),
        };
        let values: Vec<String> = loads.iter().map(text).collect();
        (loads[0].name(), values.join(", "))
    });
    let runs = report.runs.len().to_string();
    let mut rows = vec![("Runs", runs)];
    if report.runs.iter().any(|run| run.network.is_some()) {
        rows.extend(loads.map(|(_, values)| ("Connections", values)));
        rows.push(("Measured window", window));
    } else {
        rows.push(("Configurations", matrix.configurations.len().to_string()));
        rows.push(("Profiles", matrix.profiles.len().to_string()));
        rows.extend(loads);
        rows.push(("Measured window", window));
        rows.extend((!seeds.is_empty()).then_some(("Seed", seeds)));
    }
    rows.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A publication's tables with these runs in them; nothing where there are none.
fn published(tables: &[ComparedTable]) -> Option<Block> {
    let lead = "Rows in bold and columns named “here” are of these runs, all others as published. A dash is no figure.";
    let tables = tables.iter().map(|table| Block::table(crate::compared::table(table)));
    let body: Vec<Block> = std::iter::once(Block::paragraph(lead)).chain(tables).collect();
    (body.len() > 1).then(|| Block::section("published", "The publication’s tables, with these runs", body))
}

/// A card per profile.
fn recommendations(verdicts: &[Verdict]) -> Option<Block> {
    let cards = cards(verdicts);
    (!verdicts.is_empty()).then(|| Block::section("recommendations", "Why", vec![cards]))
}

/// The recommendations profile by profile, measured and simulated, with figures and reasons.
pub(crate) fn cards(verdicts: &[Verdict]) -> Block {
    let card = |verdicts: &[Verdict]| Card {
        title: Some(verdicts[0].workload.clone()),
        choices: verdicts.iter().map(choice).collect(),
    };
    Block::Cards(verdicts.chunk_by(|a, b| a.workload == b.workload).map(card).collect())
}

fn choice(verdict: &Verdict) -> CardChoice {
    CardChoice {
        kicker: side_name(verdict.world).to_owned(),
        title: verdict.answer(),
        settings: String::new(),
        facts: verdict.recommended.as_ref().map_or_else(Vec::new, choice_facts),
        // The first sentence is the finding, the others speak for it.
        reasons: sentences(&verdict.reason).into_iter().map(str::to_owned).collect(),
    }
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

fn choice_facts(choice: &Choice) -> Vec<Fact> {
    let load = choice.offered_load();
    let rows = [
        ("IOPS", three_digits(choice.iops.0)),
        ("MB/s", three_digits(choice.bytes_per_sec.mb_per_s())),
        ("mean ms", three_digits(choice.lat_ns_mean / 1e6)),
        ("usable", format!("{:.0}\u{202f}%", 100.0 * choice.array.usable_fraction())),
        ("survives", survives(&choice.array, "–")),
        (load.name(), load.value().to_string()),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// On what it was done, and how.
fn method_section(setup: &[Fact], paragraphs: &[String]) -> Option<Block> {
    let mut body = Vec::new();
    if !setup.is_empty() {
        body.extend([Block::Heading("Setup".into()), Block::Setup(setup.to_vec())]);
    }
    if !paragraphs.is_empty() {
        body.push(Block::Heading("Method".into()));
        body.extend(paragraphs.iter().map(|text| Block::paragraph(&text[..])));
    }
    let is_there = !body.is_empty();
    let folded = Block::folded("Setup and method", body);
    is_there.then(|| Block::section("method", "How it was found", vec![folded]))
}

/// The table and the charts.
fn results(matrix: &Matrix, report: &StudyReport) -> Vec<Block> {
    if matrix.profiles.is_empty() {
        let none = Block::paragraph("No run was finished.");
        return vec![Block::section("results", "Results", vec![none])];
    }
    let sides: Vec<usize> = (0..matrix.sides.len()).collect();
    let summary = Block::table(summary(matrix, &sides).captioned(tables::legend(matrix)));
    let table = Block::folded("All configurations, one table", vec![summary]);
    let of_profile = |profile: usize| {
        let is_open = profile < OPEN_PROFILES;
        ProfileSection { matrix, profile }.section(report, is_open)
    };
    let mut sections = vec![Block::section("results", "Results", vec![table])];
    sections.extend((0..matrix.profiles.len()).map(of_profile));
    sections
}

/// Profiles whose first figure is open; all others are folded, so that a page stays short.
const OPEN_PROFILES: usize = 6;

/// One profile.
struct ProfileSection<'a> {
    matrix: &'a Matrix<'a>,
    profile: usize,
}

impl ProfileSection<'_> {
    fn section(&self, report: &StudyReport, is_open: bool) -> Block {
        let (matrix, profile) = (self.matrix, self.profile);
        let names = matrix.profiles[profile];
        let judged = Column::judging(names.metric);
        // Of one configuration there are its loads to see, of several what tells them apart.
        let is_curve = matrix.configurations.len() == 1 && matrix.loads_of(profile).len() > 1;
        let first = if is_curve { self.throughput_over_load(judged) } else { self.bars(judged) };
        let (mut open, mut more) = (vec![legend::of(matrix, profile)], Vec::new());
        if is_open { &mut open } else { &mut more }.extend(first);
        if !is_curve {
            more.extend(self.throughput_over_load(judged));
        }
        more.extend(self.over_load(judged));
        more.extend(self.over_time(judged));
        more.extend(self.latency_maps());
        more.extend(explorer::of(matrix, profile, report.axes).map(|(chart, axes)| {
            Block::Figure(Figure {
                panels: vec![chart],
                title: "Any figure against any other.".to_owned(),
                caption: "A point is a run, a line a configuration from its lowest load to its highest."
                    .to_owned(),
                axes: Some(axes),
            })
        }));
        more.extend(tables::of_runs(matrix, profile));
        more.push(Block::folded_table("Figures at every load", tables::every_load(matrix, profile)));
        more.push(Block::folded_table("Latency by percentiles", tables::latencies(matrix, profile)));
        open.push(Block::folded("More charts and all figures", more));
        Block::section(format!("profile-{profile}"), names.workload, open)
    }

    /// What each configuration does at the load shown.
    fn bars(&self, judged: Column) -> Option<Block> {
        let load = self.matrix.load_of(self.profile);
        self.figure(
            &[("", &|panel| panel.bars(judged))],
            &format!("Throughput in {} at {load}.", judged.unit()),
            "Solid bars write through, hatched ones write back. Measured and simulated panels have scales of their own.",
        )
    }

    /// What a load of so many requests in flight gets.
    fn throughput_over_load(&self, judged: Column) -> Option<Block> {
        let throughput: &[PanelRow<'_>] = &[("", &|panel| panel.over_load(judged))];
        self.figure(
            if self.matrix.loads_of(self.profile).len() > 1 { throughput } else { &[] },
            &format!("Throughput in {} against {}.", judged.unit(), self.matrix.load_name(self.profile)),
            "Where a line stops rising, more requests in flight only make each wait longer.",
        )
    }

    /// The throughput of all configurations at once, and how long requests take.
    fn over_load(&self, judged: Column) -> impl Iterator<Item = Block> {
        let load = self.matrix.load_of(self.profile);
        let has_loads = self.matrix.loads_of(self.profile).len() > 1;
        let map = Block::figure(
            heat::figures(self.matrix, self.profile),
            format!("Throughput in {} of every configuration at every load.", judged.unit()),
            "The darker, the more; each map has a scale of its own.",
        );
        let latency: &[PanelRow<'_>] = &[
            ("mean", &|panel| panel.over_load(Column::LatMean)),
            ("99th percentile", &|panel| panel.over_load(Column::LatP99)),
        ];
        let latency = self.figure(
            if has_loads { latency } else { &[] },
            &format!("Latency against {}.", self.matrix.load_name(self.profile)),
            "Mean and 99th percentile in ms on a logarithmic scale; lower is better.",
        );
        let distribution = self.figure(
            &[("", &|panel| panel.distribution())],
            &format!("Distribution of latency at {load}."),
            "The share of requests that were done within a time; each further nine is one step to the right.",
        );
        [map, latency, distribution].into_iter().flatten()
    }

    /// The course of the runs at the load shown, where they lasted long enough to have one.
    fn over_time(&self, judged: Column) -> impl Iterator<Item = Block> {
        let load = self.matrix.load_of(self.profile);
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
        [rate, latency].into_iter().flatten()
    }

    /// Where the requests of each configuration are, load by load and over the window.
    fn latency_maps(&self) -> impl Iterator<Item = Block> {
        let by_load = Block::figure(
            heat::maps(self.matrix, self.profile),
            "Maps of latency by load.",
            "Each column is a load, each row a time; the darker, the more of the column's requests took that long.",
        );
        let over_time = Block::figure(
            heat::maps_over_time(self.matrix, self.profile),
            format!("Maps of latency over time at {}.", self.matrix.load_of(self.profile)),
            "Each column is a stretch of the window. A second band is a second kind of request: a miss, a seek, a full cache.",
        );
        [by_load, over_time].into_iter().flatten()
    }

    /// A figure: for each of `rows` a panel per side, and a caption. None when there is nothing to show.
    fn figure(&self, rows: &[PanelRow<'_>], title: &str, caption: &str) -> Option<Block> {
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
        Block::figure(panels, title, caption)
    }
}

/// A row of a figure: its name, and what makes a panel of it.
type PanelRow<'a> = (&'a str, &'a dyn Fn(Panel) -> Option<Chart>);

/// A figure with three digits and its thousands apart.
fn digits(value: f64) -> String {
    grouped(&three_digits(value))
}
