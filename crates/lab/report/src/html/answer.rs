//! The answer: whether bounds are held, and the recommendation for each workload, in a table that fits one screen.

use super::{escaped, escaped_digits, side_name};
use crate::StudyReport;
use crate::figures::survives;
use raidlab_advisor::{Choice, Verdict, noise};
use raidlab_workload::{BoundFacts, RunResult};

/// What the cells of a row are called; on a narrow screen each stands beside its cell.
const HEADER: [&str; 8] = [
    r#"<span class="unseen">measured or simulated</span>"#,
    "Recommended",
    "each array",
    "delivers",
    "mean ms",
    "usable",
    "survives",
    "next best",
];

/// The section; empty where nothing was judged, no bound was set and no noise is known.
pub(super) fn section(report: &StudyReport) -> String {
    let noise = noise(report.runs)
        .map_or_else(String::new, |noise| format!(r#"<p class="noise">{}</p>"#, escaped(&noise.sentence())));
    let table = if report.verdicts.is_empty() { String::new() } else { table(report.verdicts) };
    let body = bounds(report.runs) + &table + &noise;
    if body.is_empty() {
        return String::new();
    }
    super::section("answer", "Answer", &body)
}

/// Whether each run kept the bounds that it was to keep: first what that comes to, then run by run.
fn bounds(runs: &[RunResult]) -> String {
    let judged = || runs.iter().flat_map(|run| run.bounds.iter().map(move |bound| (run, bound)));
    let (all, missed) = (judged().count(), judged().filter(|(_, bound)| !bound.is_kept).count());
    let sum = match (all, missed) {
        (0, _) => return String::new(),
        (1, 0) => "The bound is held.".to_owned(),
        (1, _) => "The bound is missed.".to_owned(),
        (_, 0) => format!("All {all} bounds are held."),
        _ => format!("{missed} of {all} bounds are missed."),
    };
    let row = |(run, it): (&RunResult, &BoundFacts)| {
        let cells = [
            ("bound", &it.bound),
            ("found", &it.found_text),
            ("result", &if it.is_kept { "held" } else { "missed" }.to_owned()),
            ("load", &run.offered_load().to_string()),
            ("on", &run.configuration_label()),
        ]
        .map(|(name, text)| format!(r#"<td class="text" data-name="{name}">{}</td>"#, escaped(text)));
        format!(r#"<tr><th scope="row" class="name">{}</th>{}</tr>"#, escaped(&run.workload), cells.concat())
    };
    let head = ["Workload", "bound", "found", "result", "load", "on"]
        .map(|name| format!(r#"<th scope="col" class="name">{name}</th>"#))
        .concat();
    let rows: String = judged().map(row).collect();
    format!(
        r#"<p><b>{sum}</b></p><table class="answers"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"#
    )
}

fn table(verdicts: &[Verdict]) -> String {
    let head: String = HEADER.map(|name| format!(r#"<th scope="col" class="name">{name}</th>"#)).concat();
    let bodies: String = verdicts
        .chunk_by(|a, b| a.workload == b.workload)
        .map(|of_workload| {
            let rows: String = of_workload.iter().map(row).collect();
            let name = escaped(&of_workload[0].workload);
            format!(r#"<tbody><tr><th scope="rowgroup" colspan="8" class="section">{name}</th></tr>{rows}</tbody>"#)
        })
        .collect();
    format!(r#"<table class="answers"><thead><tr>{head}</tr></thead>{bodies}</table>"#)
}

fn row(verdict: &Verdict) -> String {
    let figure = |of: &dyn Fn(&Choice) -> String| {
        verdict.recommended.as_ref().map_or_else(|| "–".to_owned(), |choice| escaped(&of(choice)))
    };
    let cells = [
        format!("<b>{}</b>", escaped(&verdict.answer())),
        picture(verdict),
        figure(&|choice| choice.metric_text(verdict.metric)),
        verdict
            .recommended
            .as_ref()
            .map_or_else(|| "–".to_owned(), |choice| escaped_digits(choice.lat_ns_mean / 1e6)),
        figure(&|choice| format!("{:.0} %", 100.0 * choice.array.usable_fraction())),
        figure(&|choice| survives(&choice.array, "–")),
        next_best(verdict),
    ];
    let cells: String = cells
        .iter()
        .zip(&HEADER[1..])
        .map(|(cell, name)| format!(r#"<td class="text" data-name="{name}">{cell}</td>"#))
        .collect();
    format!(r#"<tr><th scope="row" class="name">{}</th>{cells}</tr>"#, side_name(verdict.world))
}

/// Bars of all arrays, best first: those that any of may be taken are full, the others pale.
fn picture(verdict: &Verdict) -> String {
    const WIDTH: f64 = 7.0;
    const GAP: f64 = 2.0;
    const HEIGHT: f64 = 28.0;
    let choices: Vec<&Choice> = verdict.alternatives.iter().map(|row| &row.choice).collect();
    let most = choices.iter().map(|one| one.metric_value).fold(f64::MIN_POSITIVE, f64::max);
    let is_answer = |one: &Choice| {
        verdict.recommended.as_ref().is_some_and(|best| best.label == one.label)
            || verdict.too_close.contains(&one.label)
    };
    let bar = |(index, one): (usize, &&Choice)| {
        let height = (HEIGHT * one.metric_value / most).max(1.0);
        let (x, y) = (index as f64 * (WIDTH + GAP), HEIGHT - height);
        let opacity = if is_answer(one) { 1.0 } else { 0.3 };
        let text = escaped(&format!("{}: {}", one.label, one.metric_text(verdict.metric)));
        format!(
            r#"<rect x="{x}" y="{y:.1}" width="{WIDTH}" height="{height:.1}" opacity="{opacity}"><title>{text}</title></rect>"#
        )
    };
    let bars: String = choices.iter().enumerate().map(bar).collect();
    let width = choices.len() as f64 * (WIDTH + GAP);
    format!(
        r#"<svg role="img" aria-label="{} of each array, best first" width="{width}" height="{HEIGHT}" fill="currentColor">{bars}</svg>"#,
        verdict.metric.unit()
    )
}

/// The runner-up, and how much of the recommended one's figure it has.
fn next_best(verdict: &Verdict) -> String {
    let (Some(best), Some(second)) = (&verdict.recommended, &verdict.runner_up) else {
        return "–".to_owned();
    };
    let share = 100.0 * second.metric_value / best.metric_value.max(f64::MIN_POSITIVE);
    format!("{} <small>({share:.0} %)</small>", escaped(&second.label))
}
