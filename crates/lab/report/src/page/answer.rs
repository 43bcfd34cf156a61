//! The answer: whether bounds are held, and the recommendation for each workload, in a table that fits one screen.

use super::side_name;
use crate::StudyReport;
use crate::document::{Block, Cell, Column, Rows, Span, Table, TableLook, Text, html::escaped};
use crate::figures::{survives, three_digits};
use raidlab_advisor::{Choice, Verdict, noise};
use raidlab_workload::{BoundFacts, RunResult};

/// The part; none where nothing was judged, no bound was set and no noise is known.
pub(super) fn section(report: &StudyReport) -> Option<Block> {
    let mut body = bounds(report.runs);
    if !report.verdicts.is_empty() {
        body.push(Block::table(table(report.verdicts)));
    }
    body.extend(noise(report.runs).map(|noise| Block::paragraph(noise.sentence())));
    Block::section_of("answer", "Answer", body)
}

/// Whether each run kept the bounds that it was to keep: first what that comes to, then run by run.
fn bounds(runs: &[RunResult]) -> Vec<Block> {
    let judged = || runs.iter().flat_map(|run| run.bounds.iter().map(move |bound| (run, bound)));
    let (all, missed) = (judged().count(), judged().filter(|(_, bound)| !bound.is_kept).count());
    let sum = match (all, missed) {
        (0, _) => return Vec::new(),
        (1, 0) => "The bound is held.".to_owned(),
        (1, _) => "The bound is missed.".to_owned(),
        (_, 0) => format!("All {all} bounds are held."),
        _ => format!("{missed} of {all} bounds are missed."),
    };
    let row = |(run, it): (&RunResult, &BoundFacts)| {
        let result = if it.is_kept { "held" } else { "missed" };
        let load = run.offered_load().to_string();
        let found = [it.bound.clone(), it.found_text.clone(), result.to_owned(), load];
        [vec![run.workload.clone()], found.to_vec(), vec![run.configuration_label()]].concat()
    };
    let columns = ["Workload", "bound", "found", "result", "load", "on"].map(Column::text);
    let table = Table { look: TableLook::Stacking, ..Table::new("Bounds", columns.to_vec()) };
    vec![Block::paragraph(Text::strong(sum)), Block::table(table.section(judged().map(row)))]
}

fn table(verdicts: &[Verdict]) -> Table {
    let columns =
        ["Side", "Recommended", "each array", "delivers", "mean ms", "usable", "survives", "next best"];
    let of_workload = |verdicts: &[Verdict]| Rows {
        title: Some(verdicts[0].workload.as_str().into()),
        rows: verdicts.iter().map(|verdict| row(verdict).into()).collect(),
    };
    Table {
        sections: verdicts.chunk_by(|a, b| a.workload == b.workload).map(of_workload).collect(),
        look: TableLook::Stacking,
        ..Table::new("Recommendations", columns.map(Column::text).to_vec())
    }
}

fn row(verdict: &Verdict) -> Vec<Cell> {
    let figure = |of: &dyn Fn(&Choice) -> String| -> Cell {
        verdict.recommended.as_ref().map_or_else(|| "-".to_owned(), of).into()
    };
    vec![
        side_name(verdict.world).into(),
        Text::strong(verdict.answer()).into(),
        Text(vec![Span::Drawn(picture(verdict))]).into(),
        figure(&|choice| choice.metric_text(verdict.metric)),
        figure(&|choice| three_digits(choice.lat_ns_mean / 1e6)),
        figure(&|choice| format!("{:.0} %", 100.0 * choice.array.usable_fraction())),
        figure(&|choice| survives(&choice.array, "–")),
        next_best(verdict).into(),
    ]
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
fn next_best(verdict: &Verdict) -> Text {
    let (Some(best), Some(second)) = (&verdict.recommended, &verdict.runner_up) else { return "-".into() };
    let share = 100.0 * second.metric_value / best.metric_value.max(f64::MIN_POSITIVE);
    Text::from(format!("{} ", second.label)).and(Span::Small(format!("({share:.0} %)")))
}
