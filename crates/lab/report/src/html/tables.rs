//! The tables of the page.

use super::{escaped, escaped_digits};
use crate::figures::{Column, ONE_IN, capacity, ns_to_ms, range_text, survives};
use crate::matrix::{CellKey, Matrix};
use crate::places::place_cells;
use crate::{PaperPlace, PaperRow};
use raidlab_advisor::unit_of;
use raidlab_workload::{LagSummary, LatencyFigures, OpSummary, RunResult};

/// The table of the study: a group of rows per profile, a group of columns per side.
pub(super) fn summary(matrix: &Matrix) -> String {
    let caption = format!(
        "All configurations at {}, reads and writes together. Shaded: the best array of its column. Bars: the \
         figure by which the profile is judged, against the best of its side. Survives: failed members in the worst \
         case, and in the best where that differs.",
        matrix.load
    );
    let mut groups = r#"<tr><th colspan="2" class="first"></th>"#.to_owned();
    let mut names =
        r#"<th scope="col" class="name first">Configuration</th><th scope="col">survives</th>"#.to_owned();
    for side in &matrix.sides {
        let colspan = 1 + Column::ALL.len();
        let name = escaped(&side.full_name());
        groups += &format!(r#"<th scope="colgroup" colspan="{colspan}" class="group start">{name}</th>"#);
        names += r#"<th scope="col" class="start">usable</th>"#;
        names.extend(Column::ALL.map(|column| format!(r#"<th scope="col">{}</th>"#, column.heading())));
    }
    let bodies: String = (0..matrix.profiles.len()).map(|profile| profile_rows(matrix, profile)).collect();
    scrolling("Summary table", &caption, &format!("<thead>{groups}</tr><tr>{names}</tr></thead>{bodies}"))
}

/// The rows of one profile.
fn profile_rows(matrix: &Matrix, profile: usize) -> String {
    let names = matrix.profiles[profile];
    let columns = 2 + matrix.sides.len() * (1 + Column::ALL.len());
    let mut rows = format!(
        r#"<tbody><tr><th scope="rowgroup" colspan="{columns}" class="section"><span>{} <small>judged by {}</small></span></th></tr>"#,
        escaped(names.workload),
        Column::judging(names.metric).unit()
    );
    for configuration in with_runs(matrix, profile) {
        let name = name(matrix, configuration);
        let survived = matrix.any_facts(configuration).map_or("–".to_owned(), |facts| survives(facts, "–"));
        let class = if matrix.configurations[configuration].is_array() { "array" } else { "bare" };
        rows += &format!(
            r#"<tr class="{class}"><th scope="row" class="name first">{name}</th><td>{survived}</td>"#
        );
        for side in 0..matrix.sides.len() {
            let usable = matrix
                .facts(configuration, side)
                .map_or("–".to_owned(), |facts| capacity(facts.usable_bytes));
            rows += &format!(r#"<td class="start">{usable}</td>"#);
            let run = matrix.shown(profile, configuration, side);
            rows.extend(Column::ALL.map(|column| summary_cell(matrix, profile, side, column, run)));
        }
        rows += "</tr>";
    }
    rows + "</tbody>"
}

fn summary_cell(
    matrix: &Matrix,
    profile: usize,
    side: usize,
    column: Column,
    run: Option<&RunResult>,
) -> String {
    let Some(run) = run else { return "<td>–</td>".to_owned() };
    let mut classes = Vec::new();
    let mut style = String::new();
    if column == Column::judging(matrix.profiles[profile].metric) {
        classes.push("judged");
        style =
            format!(r#" style="--share:{:.0}%""#, 100.0 * share_of_best(matrix, profile, side, column, run));
    }
    let best = matrix.is_best(profile, side, column, run);
    if best {
        classes.push("best");
    }
    let spoken = if best { r#"<span class="unseen"> (best)</span>"# } else { "" };
    let class = if classes.is_empty() { String::new() } else { format!(r#" class="{}""#, classes.join(" ")) };
    format!("<td{class}{style}>{}{spoken}</td>", digits_of(column, run))
}

/// The figure of `run` over the highest of its profile and side, from 0 to 1.
fn share_of_best(matrix: &Matrix, profile: usize, side: usize, column: Column, run: &RunResult) -> f64 {
    let all = (0..matrix.configurations.len()).filter_map(|index| matrix.shown(profile, index, side));
    let highest = all.map(|run| column.value(run)).fold(0.0, f64::max);
    if highest > 0.0 { column.value(run) / highest } else { 0.0 }
}

/// Every figure of one profile over all depths, the text beside the charts.
pub(super) fn every_depth(matrix: &Matrix, profile: usize) -> String {
    let workload = escaped(matrix.profiles[profile].workload);
    let load_name = matrix.load_name();
    let mut head = format!(
        r#"<tr><th scope="col" class="name first">Configuration</th><th scope="col">{load_name}</th>"#
    );
    for side in &matrix.sides {
        for (index, column) in Column::ALL.iter().enumerate() {
            let class = if index == 0 { r#" class="start""# } else { "" };
            head += &format!(r#"<th scope="col"{class}>{}<br>{}</th>"#, side.name(), column.heading());
        }
    }
    let mut rows = String::new();
    for configuration in with_runs(matrix, profile) {
        let name = name(matrix, configuration);
        for load in &matrix.loads {
            rows +=
                &format!(r#"<tr><th scope="row" class="name first">{name}</th><td>{}</td>"#, load.value());
            for side in 0..matrix.sides.len() {
                let run = matrix.run(CellKey { profile, configuration, side, load: *load });
                for (index, column) in Column::ALL.iter().enumerate() {
                    let class = if index == 0 { r#" class="start""# } else { "" };
                    let digits = run.map_or("–".to_owned(), |run| digits_of(*column, run));
                    rows += &format!("<td{class}>{digits}</td>");
                }
            }
            rows += "</tr>";
        }
    }
    let body = format!("<thead>{head}</tr></thead><tbody>{rows}</tbody>");
    scrolling("Figures at every load", &format!("{workload}: figures at every load."), &body)
}

/// A figure, or a dash where the run has it not.
fn digits_of(column: Column, run: &RunResult) -> String {
    if column.is_known(run) { escaped_digits(column.value(run)) } else { "–".to_owned() }
}

/// The latencies of one profile over all depths, percentile by percentile, with both parts where they were told apart.
pub(super) fn latencies(matrix: &Matrix, profile: usize) -> String {
    let workload = escaped(matrix.profiles[profile].workload);
    let (load_name, mut rows) = (matrix.load_name(), String::new());
    let has_sides = matrix.sides.len() > 1;
    for configuration in with_runs(matrix, profile) {
        let name = name(matrix, configuration);
        for load in &matrix.loads {
            for (side, names) in matrix.sides.iter().enumerate() {
                let key = CellKey { profile, configuration, side, load: *load };
                let Some(run) = matrix.run(key) else { continue };
                let name = if has_sides { format!("{name}, {}", names.name()) } else { name.clone() };
                for (what, figures) in latency_rows(run) {
                    // Of results of other programs not every percentile is known.
                    let is_known = |ms: f64| ms > 0.0 || figures[0] == 0.0;
                    let digits = |ms: f64| if is_known(ms) { escaped_digits(ms) } else { "-".into() };
                    rows += &run_row(&name, run, what, &tagged_cells(&figures.map(digits)));
                }
            }
        }
    }
    let heads = ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max"];
    let heads = column_heads(&heads);
    let head = format!(
        r#"<tr><th scope="col" class="name first">Configuration</th><th scope="col">{load_name}</th><th scope="col" class="name">latency, ms</th>{heads}</tr>"#
    );
    let caption = format!("{workload}: latencies in ms at every load, reads and writes together.");
    scrolling("Latencies", &caption, &format!("<thead>{head}</thead><tbody>{rows}</tbody>"))
}

/// The total latency of a run in ms, and its parts: mean, the percentiles, and the largest.
fn latency_rows(run: &RunResult) -> Vec<(&'static str, [f64; 8])> {
    let total = &run.ops.total;
    let of = |mean: f64, rest: [u64; 7]| {
        let [p50, p90, p99, p999, mut p9999, mut p99999, max] = rest.map(ns_to_ms);
        // Of too few requests these are but the longest.
        for (tail, one_in) in [&mut p9999, &mut p99999].into_iter().zip(ONE_IN) {
            if total.requests < one_in {
                *tail = f64::NAN;
            }
        }
        [mean / 1e6, p50, p90, p99, p999, p9999, p99999, max]
    };
    let all = [
        total.lat_ns_p50,
        total.lat_ns_p90,
        total.lat_ns_p99,
        total.lat_ns_p999,
        total.lat_ns_p9999,
        total.lat_ns_p99999,
        total.lat_ns_max,
    ];
    let part = |it: &LatencyFigures| {
        of(it.ns_mean, [it.ns_p50, it.ns_p90, it.ns_p99, it.ns_p999, it.ns_p9999, it.ns_p99999, it.ns_max])
    };
    let mut rows = vec![("total", of(total.lat_ns_mean, all))];
    if let Some(split) = &total.split {
        rows.push(("until handed to the kernel", part(&split.slat)));
        rows.push(("from there to the end", part(&split.clat)));
    }
    rows
}

/// How late the requests of open loops started, of every run and each part of a mix; none where no run is such.
pub(super) fn lags(matrix: &Matrix, profile: usize) -> Option<String> {
    let mut rows = String::new();
    for (name, run) in each_run(matrix, profile) {
        let parts = run.parts.iter().filter_map(|part| Some((part.name.as_str(), part.lag.as_ref()?)));
        for (part, lag) in run.lag.iter().map(|lag| ("all", lag)).chain(parts) {
            rows += &run_row(&name, run, part, &tagged_cells(&lag_cells(lag)));
        }
    }
    let heads = column_heads(&["mean", "p50", "p99", "max"]);
    let over = r#"<tr><th colspan="5" class="first"></th><th scope="colgroup" colspan="4" class="group start">started late by, ms</th><th scope="colgroup" colspan="4" class="group start">from the start to the end, ms</th></tr>"#;
    let heads = format!(
        r#"<th scope="col" class="name">part</th><th scope="col">started</th><th scope="col">never started</th>{heads}{heads}"#
    );
    let caption = "when requests of an open loop, or of a replay, started after they were due. The wait is in the latencies.";
    run_table(matrix, profile, ("Arrivals", caption), (over, &heads), &rows)
}

/// What set the pace of each run; none where that was looked for in none.
pub(super) fn bottlenecks(matrix: &Matrix, profile: usize) -> Option<String> {
    let heads = r#"<th scope="col" class="name">bottleneck, and what it would bring</th>"#;
    let caption = "what sets the pace, found by making each part of the model faster in turn.";
    let text = |run: &RunResult| Some(run.bottleneck.as_ref()?.sentence());
    run_table(matrix, profile, ("Bottlenecks", caption), ("", heads), &text_rows(matrix, profile, text))
}

/// How far estimated figures let each run go; none where that was asked of none.
pub(super) fn ranges(matrix: &Matrix, profile: usize) -> Option<String> {
    let heads = r#"<th scope="col" class="name">from the slower to the faster end</th>"#;
    let caption = "how far it goes with all estimated figures of the array at one end.";
    let text = |run: &RunResult| run.range.as_deref().map(range_text);
    run_table(matrix, profile, ("Intervals", caption), ("", heads), &text_rows(matrix, profile, text))
}

/// Where the time of each run's requests went; none where that was followed in none.
pub(super) fn times(matrix: &Matrix, profile: usize) -> Option<String> {
    let mut rows = String::new();
    for (name, run) in each_run(matrix, profile) {
        let Some(facts) = &run.times else { continue };
        let [all, slowest] = facts.lat_ns_means();
        for it in &facts.stations {
            let figures = [
                it.waiting_ns_mean / 1e6,
                it.service_ns_mean / 1e6,
                100.0 * (it.waiting_ns_mean + it.service_ns_mean) / all,
                it.slowest_waiting_ns_mean / 1e6,
                it.slowest_service_ns_mean / 1e6,
                100.0 * (it.slowest_waiting_ns_mean + it.slowest_service_ns_mean) / slowest,
            ];
            rows += &run_row(&name, run, &it.station, &tagged_cells(&figures.map(escaped_digits)));
        }
    }
    let heads = column_heads(&["waiting, ms", "service, ms", "share, %"]);
    let over = r#"<tr><th colspan="3" class="first"></th><th scope="colgroup" colspan="3" class="group start">mean of all requests</th><th scope="colgroup" colspan="3" class="group start">of the slowest 1 %</th></tr>"#;
    let heads = format!(r#"<th scope="col" class="name">station</th>{heads}{heads}"#);
    let caption = "where the time of requests goes, along what each one waits for. Of each run the parts add up to the mean latency.";
    let body = run_table(matrix, profile, ("Where the time goes", caption), (over, &heads), &rows)?;
    Some(format!("<details><summary>Where the time goes</summary>{body}</details>"))
}

fn lag_cells(lag: &LagSummary) -> Vec<String> {
    let service = (lag.service_ns_max > 0).then_some([
        lag.service_ns_mean / 1e6,
        ns_to_ms(lag.service_ns_p50),
        ns_to_ms(lag.service_ns_p99),
        ns_to_ms(lag.service_ns_max),
    ]);
    let waits =
        [lag.lag_ns_mean / 1e6, ns_to_ms(lag.lag_ns_p50), ns_to_ms(lag.lag_ns_p99), ns_to_ms(lag.lag_ns_max)];
    let mut cells = vec![lag.started.to_string(), lag.unserved.to_string()];
    cells.extend(waits.map(escaped_digits));
    cells.extend(service.map_or_else(|| ["–"; 4].map(str::to_owned), |figures| figures.map(escaped_digits)));
    cells
}

/// Flushes, trims and writes of zeroes of every run and each part of a mix; none where no run has any.
pub(super) fn others(matrix: &Matrix, profile: usize) -> Option<String> {
    let mut rows = String::new();
    for (name, run) in each_run(matrix, profile) {
        let parts = run.parts.iter().map(|part| (part.name.as_str(), &part.ops.others));
        for (part, others) in std::iter::once(("all", &run.ops.others)).chain(parts) {
            for (operation, summary) in others.iter() {
                let cells = tagged_cells(&other_cells(summary));
                rows += &run_row(&name, run, part, &format!(r#"<td class="text">{operation}</td>{cells}"#));
            }
        }
    }
    let heads =
        column_heads(&["requests", "errors", "per second", "MB/s", "mean ms", "p50 ms", "p99 ms", "max ms"]);
    let heads = format!(
        r#"<th scope="col" class="name">part</th><th scope="col" class="name">operation</th>{heads}"#
    );
    let caption =
        "what moves no bytes. It is not in the figures of reads and writes; MB/s are of the ranges.";
    run_table(matrix, profile, ("Flushes, trims and writes of zeroes", caption), ("", &heads), &rows)
}

fn other_cells(summary: &OpSummary) -> [String; 8] {
    let bytes = summary.bytes_per_sec.mb_per_s();
    let latency = |ms: f64| if summary.requests > 0 { escaped_digits(ms) } else { "–".to_owned() };
    [
        summary.requests.to_string(),
        summary.errors.to_string(),
        escaped_digits(summary.iops.0),
        if bytes > 0.0 { escaped_digits(bytes) } else { "–".to_owned() },
        latency(summary.lat_ns_mean / 1e6),
        latency(ns_to_ms(summary.lat_ns_p50)),
        latency(ns_to_ms(summary.lat_ns_p99)),
        latency(ns_to_ms(summary.lat_ns_max)),
    ]
}

/// What the places of a publication come to.
pub(super) fn places(places: &[PaperPlace]) -> String {
    let row = |place: &PaperPlace| {
        let [name, cells @ ..] = place_cells(&place.summary);
        let cells = cells.iter().enumerate().map(|(index, cell)| {
            let class = if [3, 6].contains(&index) { r#" class="start""# } else { "" };
            format!("<td{class}>{cell}</td>")
        });
        format!(
            r#"<tr><th scope="row" class="name first">{}</th>{}</tr>"#,
            escaped(&name),
            cells.collect::<String>()
        )
    };
    let rows: String = places.iter().map(row).collect();
    let head = r#"<thead><tr><th class="first"></th><th scope="colgroup" colspan="3" class="group">all figures</th><th scope="colgroup" colspan="3" class="group start">not fitted to</th><th class="start"></th></tr><tr><th scope="col" class="name first">Place</th><th scope="col">rows</th><th scope="col">median error %</th><th scope="col">90th percentile %</th><th scope="col" class="start">rows</th><th scope="col">median error %</th><th scope="col">90th percentile %</th><th scope="col" class="start">Kendall’s tau</th></tr></thead>"#;
    let caption =
        "Errors without their sign. Kendall’s tau: 1 where all rows come out in the published order.";
    scrolling("Places", caption, &format!("{head}<tbody>{rows}</tbody>"))
}

/// The rows of one place.
pub(super) fn paper_rows(place: &str, rows: &[PaperRow]) -> String {
    let row = |row: &PaperRow| {
        let comparison = &row.comparison;
        format!(
            r#"<tr><th scope="row" class="name first">{}</th><td class="text">{}</td><td>{}</td><td>{}</td><td>{:+.1}</td><td class="text">{}</td></tr>"#,
            escaped(&comparison.id),
            escaped(unit_of(&comparison.metric)),
            escaped_digits(comparison.published),
            escaped_digits(comparison.predicted),
            comparison.error_pct,
            escaped(&row.note)
        )
    };
    let rows: String = rows.iter().map(row).collect();
    let head = r#"<thead><tr><th scope="col" class="name first">Row</th><th scope="col" class="name">Unit</th><th scope="col">published</th><th scope="col">predicted</th><th scope="col">error %</th><th scope="col" class="name">note</th></tr></thead>"#;
    scrolling("Published and predicted figures", &escaped(place), &format!("{head}<tbody>{rows}</tbody>"))
}

/// The configurations that have a run of `profile` on any side.
fn with_runs(matrix: &Matrix, profile: usize) -> Vec<usize> {
    let has_run =
        |index: &usize| (0..matrix.sides.len()).any(|side| !matrix.line(profile, *index, side).is_empty());
    (0..matrix.configurations.len()).filter(has_run).collect()
}

/// Every run of one profile, with its configuration and side in words.
fn each_run<'a>(matrix: &'a Matrix<'a>, profile: usize) -> impl Iterator<Item = (String, &'a RunResult)> {
    with_runs(matrix, profile).into_iter().flat_map(move |configuration| {
        matrix.sides.iter().enumerate().flat_map(move |(side, names)| {
            let name = format!("{}, {}", name(matrix, configuration), names.name());
            matrix.line(profile, configuration, side).into_iter().map(move |run| (name.clone(), run))
        })
    })
}

/// The name of a configuration; where the line is short it breaks before the write policy, not within.
fn name(matrix: &Matrix, configuration: usize) -> String {
    match matrix.name(configuration) {
        (name, Some(policy)) => {
            format!(r#"{}, <span class="whole">{}</span>"#, escaped(&name), escaped(policy))
        }
        (name, None) => escaped(&name),
    }
}

/// A table of single runs, if it has `rows`; `over` stands above its heads, those of configuration and load and the others.
fn run_table(
    matrix: &Matrix,
    profile: usize,
    (label, caption): (&str, &str),
    (over, heads): (&str, &str),
    rows: &str,
) -> Option<String> {
    let load_name = matrix.load_name();
    let caption = format!("{}: {caption}", escaped(matrix.profiles[profile].workload));
    let content = format!(
        r#"<thead>{over}<tr><th scope="col" class="name first">Configuration</th><th scope="col">{load_name}</th>{heads}</tr></thead><tbody>{rows}</tbody>"#
    );
    (!rows.is_empty()).then(|| scrolling(label, &caption, &content))
}

/// A row of such a table: configuration, load, what of the run it is of, and `cells`.
fn run_row(name: &str, run: &RunResult, what: &str, cells: &str) -> String {
    format!(
        r#"<tr><th scope="row" class="name first">{name}</th><td>{}</td><td class="text">{}</td>{cells}</tr>"#,
        run.offered_load().value(),
        escaped(what)
    )
}

/// A row with a text of each run that has one.
fn text_rows(matrix: &Matrix, profile: usize, text: impl Fn(&RunResult) -> Option<String>) -> String {
    each_run(matrix, profile).filter_map(|(name, run)| Some(run_row(&name, run, &text(run)?, ""))).collect()
}

fn tagged_cells(cells: &[String]) -> String {
    cells.iter().map(|cell| format!("<td>{cell}</td>")).collect()
}

fn column_heads(heads: &[&str]) -> String {
    heads.iter().map(|head| format!(r#"<th scope="col">{head}</th>"#)).collect()
}

/// A table in a box that scrolls sideways, and can be scrolled with the keyboard.
pub(super) fn scrolling(label: &str, caption: &str, content: &str) -> String {
    format!(
        r#"<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table><caption><span>{caption}</span></caption>{content}</table></div>"#
    )
}
