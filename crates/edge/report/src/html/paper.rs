//! Published figures beside predicted ones as a page of the same make as a study's.
//!
//! ```text
//! cover: how many figures, errors, order ─ all places in one table ─ for each place:
//!   predicted against published, both logarithmic │ error of each row in percent
//!   the rows
//! ```
//! On the left what is right lies on the diagonal, whatever its size, and what is off by a tenth on the dashed lines. Hollow marks
//! and hatched bars are rows that figures of the model were fitted to: they prove nothing. Rows that have no error, claims of
//! order alone, are in the table only.

use super::charts::{Chart, Panel, SERIES_COLOURS, log_ticks};
use super::{
    PAGE, SCRIPT, STYLE, charts_json, escaped, escaped_digits, fill, list, plotly_script, section, tables,
};
use crate::figures::three_digits;
use crate::{PaperPlace, PaperReport, PaperRow};
use raidlab_advisor::ComparisonSummary;
use serde_json::{Value, json};

/// Share by which the dashed lines are off the diagonal.
const BAND: f64 = 0.1;
/// Height of a row's bar, and of what is above and below all bars.
const ROW_REM: f64 = 1.15;
const AXIS_REM: f64 = 4.5;
/// Least height of a panel.
const PANEL_REM: f64 = 19.0;

/// Prints `report` as one HTML document.
pub fn paper(report: &PaperReport) -> String {
    let mut charts = Vec::new();
    let places: String = report
        .places
        .iter()
        .enumerate()
        .map(|(index, place)| place_section(index, place, &mut charts))
        .collect();
    let method = report.method.iter().map(|text| format!("<p>{}</p>", escaped(text))).collect::<String>();
    let assumed = if report.assumed.is_empty() {
        String::new()
    } else {
        format!("<h3>Assumed beyond that</h3>{}", list(&report.assumed))
    };
    let noscript =
        "<noscript><p>The charts need scripts; the tables show the same figures without them.</p></noscript>";
    let results =
        section("results", "Place by place", &(tables::places(&report.places) + noscript)) + &places;
    let notes =
        if report.notes.is_empty() { String::new() } else { section("notes", "Notes", &list(&report.notes)) };
    fill(
        PAGE,
        &[
            ("kicker", "Published figures, predicted"),
            ("title", &escaped(report.title)),
            ("question", &escaped(report.source)),
            ("facts", &facts(report)),
            ("warnings", ""),
            ("recommendations", ""),
            ("method", &section("method", "How it was measured, and what is assumed", &(method + &assumed))),
            ("results", &results),
            ("published", ""),
            ("notes", &notes),
            ("version", env!("CARGO_PKG_VERSION")),
            ("css", STYLE),
            ("plotly", if charts.is_empty() { "" } else { plotly_script() }),
            ("charts", &charts_json(&charts)),
            ("script", SCRIPT),
        ],
    )
}

fn facts(report: &PaperReport) -> String {
    let mut rows = summary_facts("all figures", report.summary);
    rows.extend(summary_facts("not fitted to", report.summary_not_fitted));
    let facts = rows.iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"));
    format!(r#"<dl class="facts">{}</dl>"#, facts.collect::<String>())
}

fn summary_facts(of: &str, summary: ComparisonSummary) -> Vec<(String, String)> {
    let pct =
        |pct: Option<f64>| pct.map_or("none".to_owned(), |pct| format!("{}\u{202f}%", three_digits(pct)));
    vec![
        (format!("Rows, {of}"), summary.rows.to_string()),
        ("Median error".to_owned(), pct(summary.median_abs_error_pct)),
        ("90th percentile".to_owned(), pct(summary.p90_abs_error_pct)),
    ]
}

/// The charts and the table of one place.
fn place_section(index: usize, place: &PaperPlace, charts: &mut Vec<Chart>) -> String {
    let name = if place.name.is_empty() { "Figures" } else { place.name };
    let mut panels = String::new();
    let height = PANEL_REM.max(ROW_REM * place.rows.len() as f64 + AXIS_REM);
    let names = short_names(&place.rows);
    let id = |charts: &[Chart]| format!("chart-{}", charts.len() + 1);
    for (title, chart, height) in [
        ("predicted against published", against(place, &names, id(charts)), PANEL_REM),
        ("error of each row", errors(place, &names, format!("chart-{}", charts.len() + 2)), height),
    ] {
        panels += &format!(
            r#"<div class="panel"><p>{title}</p><div class="plot" style="height:{height:.1}rem;margin-top:0" id="{}" role="img" aria-label="{}"></div></div>"#,
            chart.id,
            escaped(&format!("{name}. {}", chart.label))
        );
        charts.push(chart);
    }
    let figure = format!(
        r#"<figure><div class="panels">{panels}</div><figcaption><b>{}.</b> Left: on the line what is right, on the dashed ones what is off by {:.0} %. Right: too high to the right. Hollow and hatched: fitted to.</figcaption></figure>"#,
        escaped(name),
        BAND * 100.0
    );
    let table = tables::paper_rows(name, &place.rows);
    let body = format!("{figure}<details><summary>All {} rows</summary>{table}</details>", place.rows.len());
    section(&format!("place-{index}"), name, &body)
}

/// The rows' names without what all of them begin with, up to a dot.
fn short_names(rows: &[PaperRow]) -> Vec<String> {
    let first = rows.first().map_or("", |row| row.comparison.id.as_str());
    let ends = first.match_indices('.').map(|(at, _)| at + 1);
    let shared = ends.filter(|end| rows.iter().all(|row| row.comparison.id.starts_with(&first[..*end])));
    let cut = shared.max().unwrap_or(0);
    rows.iter().map(|row| escaped(&row.comparison.id[cut..])).collect()
}

/// The metrics of a place in the order in which they come; each has a colour.
fn metrics<'a>(place: &'a PaperPlace) -> Vec<&'a str> {
    let mut metrics: Vec<&str> = Vec::new();
    for row in &place.rows {
        if !metrics.contains(&row.comparison.metric.as_str()) {
            metrics.push(&row.comparison.metric);
        }
    }
    metrics
}

fn colour(index: usize) -> String {
    format!("var(--series-{})", index % SERIES_COLOURS + 1)
}

fn hover(name: &str, row: &PaperRow) -> String {
    let comparison = &row.comparison;
    format!(
        "<b>{name}</b><br>published {} {metric}<br>predicted {} {metric}<br>{:+.1} %{}",
        escaped_digits(comparison.published),
        escaped_digits(comparison.predicted),
        comparison.error_pct,
        if row.fitted { ", fitted to" } else { "" },
        metric = escaped(&comparison.metric)
    )
}

/// Predicted against published figures.
fn against(place: &PaperPlace, names: &[String], id: String) -> Chart {
    let figures = place.rows.iter().flat_map(|row| [row.comparison.published, row.comparison.predicted]);
    let positive = figures.filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::MAX, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    let (low, high) = if low > high { (1.0, 10.0) } else { (low / 1.2, high * 1.2) };
    let line = |factor: f64, dash: &str| {
        json!({
            "type": "scatter", "mode": "lines", "x": [low, high], "y": [low * factor, high * factor],
            "line": { "color": "var(--ink-soft)", "width": 1, "dash": dash }, "hoverinfo": "skip",
        })
    };
    let mut data = vec![line(1.0, "solid"), line(1.0 + BAND, "dot"), line(1.0 - BAND, "dot")];
    let metrics = metrics(place);
    for (index, metric) in metrics.iter().enumerate() {
        for fitted in [false, true] {
            let rows = place.rows.iter().zip(names);
            let rows: Vec<(&PaperRow, &String)> =
                rows.filter(|(row, _)| row.comparison.metric == *metric && row.fitted == fitted).collect();
            if rows.is_empty() {
                continue;
            }
            let symbol = if fitted { "circle-open" } else { "circle" };
            data.push(json!({
                "type": "scatter", "mode": "markers",
                "x": rows.iter().map(|(row, _)| row.comparison.published).collect::<Vec<_>>(),
                "y": rows.iter().map(|(row, _)| row.comparison.predicted).collect::<Vec<_>>(),
                "hovertext": rows.iter().map(|(row, name)| hover(name, row)).collect::<Vec<_>>(),
                "hoverinfo": "text",
                "marker": { "color": colour(index), "symbol": symbol, "size": 9, "line": { "width": 1.5, "color": colour(index) } },
            }));
        }
    }
    let unit = if let [only] = metrics.as_slice() { escaped(only) } else { String::new() };
    let mut layout = Panel::layout(&format!("published {unit}"), &format!("predicted {unit}"));
    let range = [low.log10(), high.log10()];
    for axis in ["xaxis", "yaxis"] {
        let ticks: Vec<f64> =
            log_ticks(low, high).into_iter().filter(|tick| (low..=high).contains(tick)).collect();
        layout[axis]["type"] = json!("log");
        layout[axis]["range"] = json!(range);
        layout[axis]["ticktext"] = json!(ticks.iter().map(|tick| escaped_digits(*tick)).collect::<Vec<_>>());
        layout[axis]["tickvals"] = json!(ticks);
    }
    let label = format!("Predicted against published figures of {} rows.", place.rows.len());
    Chart { id, label, data, layout }
}

/// Where bars end: one error that is far beyond nine tenths of the others would leave them no room.
fn limit_of(place: &PaperPlace) -> f64 {
    place.summary.p90_abs_error_pct.map_or(f64::MAX, |p90| (3.0 * p90).max(30.0))
}

/// The error of each row, in the order of the publication from the top.
fn errors(place: &PaperPlace, names: &[String], id: String) -> Chart {
    let metrics = metrics(place);
    let of_row =
        |row: &PaperRow| metrics.iter().position(|metric| *metric == row.comparison.metric).unwrap_or(0);
    let errors: Vec<f64> = place.rows.iter().map(|row| row.comparison.error_pct).collect();
    let limit = limit_of(place);
    let text = |error: &f64| {
        let beyond = if error.abs() > limit { ", cut" } else { "" };
        format!("{error:+.0}{beyond}")
    };
    let bars = json!({
        "type": "bar", "orientation": "h",
        // Places on the axis are numbers, because two rows may have one name.
        "y": (0..errors.len()).collect::<Vec<_>>(),
        "x": errors.iter().map(|error| error.clamp(-limit, limit)).collect::<Vec<_>>(),
        "marker": {
            "color": place.rows.iter().map(|row| colour(of_row(row))).collect::<Vec<_>>(),
            "pattern": {
                "shape": place.rows.iter().map(|row| if row.fitted { "/" } else { "" }).collect::<Vec<_>>(),
                "fillmode": "overlay", "fgcolor": "var(--panel)", "size": 6, "solidity": 0.45,
            },
        },
        "text": errors.iter().map(text).collect::<Vec<_>>(),
        "textposition": "outside", "cliponaxis": false, "textangle": 0, "constraintext": "none",
        "hovertext": place.rows.iter().zip(names).map(|(row, name)| hover(name, row)).collect::<Vec<_>>(),
        "hoverinfo": "text",
    });
    let mut layout = Panel::layout("error %", "");
    let far = errors.iter().fold(0.0_f64, |far, error| far.max(error.abs()));
    let room = if far > limit { 1.5 } else { 1.25 };
    let reach = (far.min(limit) * room).max(12.0);
    layout["xaxis"]["range"] = json!([-reach, reach]);
    layout["xaxis"]["zeroline"] = json!(true);
    layout["xaxis"]["zerolinecolor"] = json!("var(--ink-soft)");
    layout["yaxis"]["showgrid"] = json!(false);
    layout["yaxis"]["tickvals"] = json!((0..names.len()).collect::<Vec<_>>());
    layout["yaxis"]["ticktext"] = json!(names);
    layout["yaxis"]["tickfont"]["size"] = json!(11);
    layout["yaxis"]["range"] = json!([names.len() as f64 - 0.4, -0.6]);
    layout["bargap"] = json!(0.25);
    let worst = place
        .rows
        .iter()
        .max_by(|a, b| a.comparison.error_pct.abs().total_cmp(&b.comparison.error_pct.abs()));
    let worst = worst.map_or(String::new(), |row| {
        format!(" The largest is that of {}, {:+.1} %.", row.comparison.id, row.comparison.error_pct)
    });
    let data: Vec<Value> = vec![bars];
    Chart { id, label: format!("Bar chart: error of each row in percent.{worst}"), data, layout }
}
