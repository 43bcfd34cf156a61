//! Published and predicted figures as a page like a study's.
//!
//! ```text
//! cover: how many figures, errors, order ─ all places in one table ─ for each place:
//!   predicted against published, both logarithmic │ error of each row in percent
//!   the rows
//! ```
//! In the left chart exact predictions lie on the diagonal, whatever their size, and errors of a tenth on the dashed
//! lines. Hollow marks and hatched bars are rows that the model was fitted to: they prove nothing. Rows without an
//! error, claims of order alone, are in the table only.

use super::{digits, feeding};
use crate::chart::{Axis, Bar, Chart, Colour, Line, Mark, Marker, Point, height_for};
use crate::document::{Block, Document, Fact};
use crate::figures::three_digits;
use crate::places::{comparison_table, places_table};
use crate::{PaperPlace, PaperReport, PaperRow};
use raidlab_advisor::{ComparisonSummary, unit_of};

/// Share by which the dashed lines are off the diagonal.
const BAND: f64 = 0.1;
/// Width of the chart of errors.
const PANEL_WIDTH: f64 = 560.0;

/// The page of `report`.
pub fn paper(report: &PaperReport) -> Document {
    let mut method: Vec<Block> = report.method.iter().map(|text| Block::paragraph(&text[..])).collect();
    if !report.assumed.is_empty() {
        method.extend([Block::Heading("Assumed beyond that".into()), Block::list(&report.assumed)]);
    }
    let places = Block::table(places_table(report.places.iter().map(|place| &place.summary)));
    let mut body = vec![
        Block::section("method", "How it was measured, and what is assumed", method),
        Block::section("results", "Place by place", vec![places]),
    ];
    body.extend(report.places.iter().enumerate().map(|(index, place)| place_section(index, place)));
    body.extend(Block::notes(&report.notes));
    let mut facts = summary_facts("all figures", report.summary);
    facts.extend(summary_facts("not fitted to", report.summary_not_fitted));
    Document {
        kicker: "Published figures, predicted",
        title: report.title.to_owned(),
        question: report.source.to_owned(),
        facts,
        body,
    }
}

fn summary_facts(of: &str, summary: ComparisonSummary) -> Vec<Fact> {
    let pct =
        |pct: Option<f64>| pct.map_or("none".to_owned(), |pct| format!("{}\u{202f}%", three_digits(pct)));
    vec![
        (format!("Rows, {of}"), summary.rows.to_string()),
        ("Median error".to_owned(), pct(summary.median_abs_error_pct)),
        ("90th percentile".to_owned(), pct(summary.p90_abs_error_pct)),
    ]
}

/// The charts and the table of one place.
fn place_section(index: usize, place: &PaperPlace) -> Block {
    let unnamed = "Figures".to_owned();
    let name = if place.summary.place.is_empty() { &unnamed } else { &place.summary.place };
    let names = short_names(&place.rows);
    let panels = [
        ("predicted against published", against(place, &names)),
        ("error of each row", errors(place, &names)),
    ]
    .map(|(heading, chart)| Chart {
        heading: heading.to_owned(),
        label: format!("{name}. {}", chart.label),
        ..chart
    });
    let caption = format!(
        "Left: on the line what is right, on the dashed ones what is off by {:.0} %. Right: too high to the right. Hollow and \
         hatched: fitted to.",
        BAND * 100.0
    );
    let panels = if place.rows.is_empty() { Vec::new() } else { panels.to_vec() };
    let mut body: Vec<Block> = Block::figure(panels, format!("{name}."), &caption).into_iter().collect();
    body.extend(feeding::figure(&place.fed, "MiB/s", None));
    let rows = place.rows.iter().map(|row| (&row.comparison, row.note.as_str()));
    let table = comparison_table(rows).captioned(name.as_str());
    body.push(Block::folded_table(format!("All {} rows", place.rows.len()), table));
    Block::section(format!("place-{index}"), name.as_str(), body)
}

/// The rows' names without what all of them begin with, up to a dot.
fn short_names(rows: &[PaperRow]) -> Vec<String> {
    let first = rows.first().map_or("", |row| row.comparison.id.as_str());
    let ends = first.match_indices('.').map(|(at, _)| at + 1);
    let shared = ends.filter(|end| rows.iter().all(|row| row.comparison.id.starts_with(&first[..*end])));
    let cut = shared.max().unwrap_or(0);
    rows.iter().map(|row| row.comparison.id[cut..].to_owned()).collect()
}

/// The metrics of a place in the order in which they come; each has a colour.
fn metrics(place: &PaperPlace) -> Vec<&str> {
    let mut metrics: Vec<&str> = Vec::new();
    for row in &place.rows {
        if !metrics.contains(&row.comparison.metric.as_str()) {
            metrics.push(&row.comparison.metric);
        }
    }
    metrics
}

fn hover(name: &str, row: &PaperRow) -> String {
    let comparison = &row.comparison;
    format!(
        "{name}\npublished {} {metric}\npredicted {} {metric}\n{:+.1} %{}",
        digits(comparison.published),
        digits(comparison.predicted),
        comparison.error_pct,
        if row.fitted { ", fitted to" } else { "" },
        metric = unit_of(&comparison.metric)
    )
}

/// Predicted against published figures.
fn against(place: &PaperPlace, names: &[String]) -> Chart {
    let figures = place.rows.iter().flat_map(|row| [row.comparison.published, row.comparison.predicted]);
    let positive = figures.filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::MAX, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = if low > high { (1.0, 10.0) } else { (low / 1.2, high * 1.2) };
    let guide = |factor: f64, dash: usize| {
        // Both ends stay within the chart.
        let (from, to) = (low.max(low / factor), high.min(high / factor));
        let points = [from, to].map(|x| Point { x, y: x * factor, ..Point::default() });
        Mark::Line(Line { width: 1.0, dash: Some(dash), ..Line::new("", Colour::Soft, points.to_vec()) })
    };
    let mut marks = vec![guide(1.0, 0), guide(1.0 + BAND, 2), guide(1.0 - BAND, 2)];
    let metrics = metrics(place);
    for (index, metric) in metrics.iter().enumerate() {
        for is_hollow in [false, true] {
            let rows = place.rows.iter().zip(names);
            let rows = rows.filter(|(row, _)| row.comparison.metric == *metric && row.fitted == is_hollow);
            let points: Vec<Point> = rows
                .map(|(row, name)| Point {
                    x: row.comparison.published,
                    y: row.comparison.predicted,
                    hover: hover(name, row),
                    ..Point::default()
                })
                .collect();
            let marker = Some(Marker { is_hollow, ..Marker::number(0) });
            let line =
                Line { dash: None, marker, ..Line::new(unit_of(metric), Colour::Series(index), points) };
            if !line.points.is_empty() {
                marks.push(Mark::Line(line));
            }
        }
    }
    let unit = if let [only] = metrics.as_slice() { unit_of(only) } else { "" };
    let axis =
        |what: &str| Axis { range: Some((low, high)), ..Axis::log(format!("{what} {unit}").trim_end()) };
    let label = format!("Predicted against published figures of {} rows.", place.rows.len());
    // As high as the errors beside it, up to the square in which the line goes from corner to corner.
    let size = Some((PANEL_WIDTH, height_for(place.rows.len()).min(PANEL_WIDTH)));
    Chart { label, x: axis("published"), y: axis("predicted"), marks, size, ..Chart::default() }
}

/// Where bars end: one error that is far beyond nine tenths of the others would leave them no room.
fn limit_of(place: &PaperPlace) -> f64 {
    place.summary.summary.p90_abs_error_pct.map_or(f64::MAX, |p90| (3.0 * p90).max(30.0))
}

/// The error of each row, in the order of the publication from the top.
fn errors(place: &PaperPlace, names: &[String]) -> Chart {
    let metrics = metrics(place);
    let of_row =
        |row: &PaperRow| metrics.iter().position(|metric| *metric == row.comparison.metric).unwrap_or(0);
    let errors: Vec<f64> = place.rows.iter().map(|row| row.comparison.error_pct).collect();
    let limit = limit_of(place);
    let text = |error: &f64| {
        let beyond = if error.abs() > limit { ", cut" } else { "" };
        format!("{error:+.0}{beyond}")
    };
    let bar = |(index, (row, name)): (usize, (&PaperRow, &String))| {
        let error = row.comparison.error_pct;
        Bar {
            at: -(index as f64),
            width: 0.75,
            value: error.clamp(-limit, limit),
            colour: Colour::Series(of_row(row)),
            hatch: usize::from(row.fitted),
            text: text(&error),
            hover: hover(name, row),
            tags: Vec::new(),
        }
    };
    let bars: Vec<Bar> = place.rows.iter().zip(names).enumerate().map(bar).collect();
    let far = errors.iter().fold(0.0_f64, |far, error| far.max(error.abs()));
    let room = if far > limit { 1.5 } else { 1.25 };
    let reach = (far.min(limit) * room).max(12.0);
    let x = Axis { range: Some((-reach, reach)), has_zero_line: true, ..Axis::new("error %") };
    let ticks = names.iter().enumerate().map(|(index, name)| (-(index as f64), name.clone()));
    let range = Some((0.4 - names.len() as f64, 0.6));
    let y = Axis { is_bare: true, range, ..Axis::new("").with_ticks(ticks) };
    let worst = place
        .rows
        .iter()
        .max_by(|a, b| a.comparison.error_pct.abs().total_cmp(&b.comparison.error_pct.abs()));
    let worst = worst.map_or(String::new(), |row| {
        format!(" The largest is that of {}, {:+.1} %.", row.comparison.id, row.comparison.error_pct)
    });
    let label = format!("Bar chart: error of each row in percent.{worst}");
    let size = Some((PANEL_WIDTH, height_for(place.rows.len())));
    Chart { label, x, y, marks: vec![Mark::Bars(bars)], size, ..Chart::default() }
}
