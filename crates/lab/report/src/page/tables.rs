//! The tables of runs: of a study, and of the runs of one profile.

use crate::document::{Block, Cell, Column as Head, Row, RowLook, Rows, Span, Table, Text};
use crate::figures::{Column, ONE_IN, capacity, ns_to_ms, range_text, survives, three_digits};
use crate::known::has_moved;
use crate::matrix::{CellKey, Matrix};
use raidlab_workload::{LagSummary, LatencyFigures, OpSummary, RunResult};

/// What the figures of [`summary`] are.
pub(super) fn legend(matrix: &Matrix) -> String {
    format!(
        "All configurations at {}, reads and writes together. Shaded: the best array of its column. Bars: the \
         figure by which the profile is judged, against the best of its side. Survives: failed members in the worst \
         case, and in the best where that differs.",
        matrix.shown_loads()
    )
}

/// The table of the study: rows of each profile, and a group of columns for each of `sides`.
pub(crate) fn summary(matrix: &Matrix, sides: &[usize]) -> Table {
    let mut columns = vec![Head::text("Array"), Head::text("Writes"), Head::text("Survives")];
    for _ in sides {
        columns.push(Head::number("usable"));
        columns.extend(Column::ALL.map(|column| Head::number(column.heading())));
    }
    let mut table = Table::new("Summary table", columns);
    for (index, side) in sides.iter().enumerate() {
        let (start, count) = (3 + index * (1 + Column::ALL.len()), 1 + Column::ALL.len());
        table = table.group(start..start + count, matrix.sides[*side].full_name());
    }
    table.sections = (0..matrix.profiles.len()).map(|profile| profile_rows(matrix, profile, sides)).collect();
    table
}

/// The rows of one profile: the configurations that have a run on one of the sides at any load.
fn profile_rows(matrix: &Matrix, profile: usize, sides: &[usize]) -> Rows {
    let names = matrix.profiles[profile];
    let has_run = |index: &usize| sides.iter().any(|side| !matrix.line(profile, *index, *side).is_empty());
    let row = |configuration: usize| {
        let (name, policy) = matrix.name(configuration);
        let policy = match policy {
            Some(_) if matrix.only_reads(profile) => "any",
            Some(policy) => policy.strip_prefix("write-").unwrap_or(policy),
            None => "-",
        };
        let survived = matrix.any_facts(configuration).map_or("-".to_owned(), |facts| survives(facts, "-"));
        let mut cells = vec![Cell::from(name), Cell::from(policy), Cell::from(survived)];
        for side in sides {
            let usable = matrix.facts(configuration, *side);
            cells.push(usable.map_or("-".to_owned(), |facts| capacity(facts.usable_bytes)).into());
            let run = matrix.shown(profile, configuration, *side);
            cells.extend(Column::ALL.map(|column| summary_cell(matrix, (profile, *side), column, run)));
        }
        let is_array = matrix.configurations[configuration].is_array();
        Row { cells, look: if is_array { RowLook::Plain } else { RowLook::Bare } }
    };
    let judged = format!(" judged by {}", Column::judging(names.metric).unit());
    Rows {
        title: Some(Text::from(names.workload).and(Span::Small(judged))),
        rows: (0..matrix.configurations.len()).filter(has_run).map(row).collect(),
    }
}

fn summary_cell(
    matrix: &Matrix,
    (profile, side): (usize, usize),
    column: Column,
    run: Option<&RunResult>,
) -> Cell {
    let Some(run) = run else { return "-".into() };
    let is_judged = column == Column::judging(matrix.profiles[profile].metric);
    Cell {
        is_best: matrix.is_best(profile, side, column, run),
        share: is_judged.then(|| share_of_best(matrix, profile, side, column, run)),
        ..column.digits(run).into()
    }
}

/// The figure of `run` over the highest of its profile and side, from 0 to 1.
fn share_of_best(matrix: &Matrix, profile: usize, side: usize, column: Column, run: &RunResult) -> f64 {
    let all = (0..matrix.configurations.len()).filter_map(|index| matrix.shown(profile, index, side));
    let highest = all.map(|run| column.value(run)).fold(0.0, f64::max);
    if highest > 0.0 { column.value(run) / highest } else { 0.0 }
}

/// Every figure of one profile at every load, the text beside the charts.
pub(super) fn every_load(matrix: &Matrix, profile: usize) -> Table {
    let mut columns = vec![Head::text("Configuration"), Head::number(matrix.load_name(profile))];
    for _ in &matrix.sides {
        columns.extend(Column::ALL.map(|column| Head::number(column.heading())));
    }
    let mut rows = Vec::new();
    for configuration in with_runs(matrix, profile) {
        for load in &matrix.loads_of(profile) {
            let mut row = vec![matrix.full_name(configuration), load.value().to_string()];
            for side in 0..matrix.sides.len() {
                let run = matrix.run(CellKey { profile, configuration, side, load: *load });
                row.extend(Column::ALL.map(|column| run.map_or("-".to_owned(), |run| column.digits(run))));
            }
            rows.push(row);
        }
    }
    let caption = format!("{}: figures at every load.", matrix.profiles[profile].workload);
    let table = Table::new("Figures at every load", columns).captioned(caption).section(rows);
    let count = Column::ALL.len();
    let sides = matrix.sides.iter().enumerate();
    sides.fold(table, |table, (index, side)| {
        table.group(2 + index * count..2 + (index + 1) * count, side.name())
    })
}

/// The latencies of one profile over all loads, percentile by percentile, with both parts where they were told apart.
pub(super) fn latencies(matrix: &Matrix, profile: usize) -> Table {
    let mut rows = Vec::new();
    for (name, run) in each_run(matrix, profile) {
        for (what, figures) in latency_rows(run) {
            // Of results of other programs not every percentile is known.
            let is_known = |ms: f64| ms > 0.0 || !has_moved(&run.ops.total);
            let digits = |ms: f64| if is_known(ms) { three_digits(ms) } else { "-".into() };
            rows.push(run_row(&name, run, what, figures.map(digits)));
        }
    }
    let heads = ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "p99.999", "max"].map(Head::number);
    let caption = "latencies in ms at every load, reads and writes together.";
    run_table(matrix, profile, ("Latencies", caption), [Head::text("latency, ms")].into_iter().chain(heads))
        .section(rows)
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

/// Where the time of each run's requests went, what set its pace, how far estimated figures let it go, how late requests started, and
/// what moved no bytes: each where that is known of any run.
pub(super) fn of_runs(matrix: &Matrix, profile: usize) -> impl Iterator<Item = Block> {
    let tables = [bottlenecks(matrix, profile), ranges(matrix, profile), times(matrix, profile)];
    let more = [lags(matrix, profile), others(matrix, profile)];
    tables.into_iter().chain(more).filter(|table| !table.is_empty()).map(|table| {
        if table.label == TIMES { Block::folded_table(TIMES, table) } else { Block::table(table) }
    })
}

const TIMES: &str = "Where the time goes";

/// How late the requests of open loops started, of every run and each part of a mix.
fn lags(matrix: &Matrix, profile: usize) -> Table {
    let mut rows = Vec::new();
    for (name, run) in each_run(matrix, profile) {
        let parts = run.parts.iter().filter_map(|part| Some((part.name.as_str(), part.lag.as_ref()?)));
        for (part, lag) in run.lag.iter().map(|lag| ("all", lag)).chain(parts) {
            rows.push(run_row(&name, run, part, lag_cells(lag)));
        }
    }
    let heads = ["mean", "p50", "p99", "max"];
    let heads = ["started", "never started"].into_iter().chain(heads).chain(heads).map(Head::number);
    let caption = "when requests of an open loop, or of a replay, started after they were due. The wait is in the latencies.";
    run_table(matrix, profile, ("Arrivals", caption), [Head::text("part")].into_iter().chain(heads))
        .group(5..9, "started late by, ms")
        .group(9..13, "from the start to the end, ms")
        .section(rows)
}

/// What set the pace of each run.
fn bottlenecks(matrix: &Matrix, profile: usize) -> Table {
    let heads = [Head::text("bottleneck, and what it would bring")];
    let caption = "what sets the pace, found by making each part of the model faster in turn.";
    let text = |run: &RunResult| Some(run.bottleneck.as_ref()?.sentence());
    run_table(matrix, profile, ("Bottlenecks", caption), heads).section(text_rows(matrix, profile, text))
}

/// How far estimated figures let each run go.
fn ranges(matrix: &Matrix, profile: usize) -> Table {
    let heads = [Head::text("from the slower to the faster end")];
    let caption = "how far it goes with all estimated figures of the array at one end.";
    let text = |run: &RunResult| run.range.as_deref().map(range_text);
    run_table(matrix, profile, ("Intervals", caption), heads).section(text_rows(matrix, profile, text))
}

/// Where the time of each run's requests went.
fn times(matrix: &Matrix, profile: usize) -> Table {
    let mut rows = Vec::new();
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
            rows.push(run_row(&name, run, &it.station, figures.map(three_digits)));
        }
    }
    let heads = ["waiting, ms", "service, ms", "share, %"];
    let heads = heads.into_iter().chain(heads).map(Head::number);
    let caption = "where the time of requests goes, along what each one waits for. Of each run the parts add up to the mean latency.";
    run_table(matrix, profile, (TIMES, caption), [Head::text("station")].into_iter().chain(heads))
        .group(3..6, "mean of all requests")
        .group(6..9, "of the slowest 1 %")
        .section(rows)
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
    cells.extend(waits.map(three_digits));
    cells.extend(service.map_or_else(|| ["-"; 4].map(str::to_owned), |figures| figures.map(three_digits)));
    cells
}

/// Flushes, trims and writes of zeroes of every run and each part of a mix.
fn others(matrix: &Matrix, profile: usize) -> Table {
    let mut rows = Vec::new();
    for (name, run) in each_run(matrix, profile) {
        let parts = run.parts.iter().map(|part| (part.name.as_str(), &part.ops.others));
        for (part, others) in std::iter::once(("all", &run.ops.others)).chain(parts) {
            for (operation, summary) in others.iter() {
                let cells = std::iter::once(operation.to_owned()).chain(other_cells(summary));
                rows.push(run_row(&name, run, part, cells));
            }
        }
    }
    let heads = ["requests", "errors", "per second", "MB/s", "mean ms", "p50 ms", "p99 ms", "max ms"];
    let heads = ["part", "operation"].map(Head::text).into_iter().chain(heads.map(Head::number));
    let caption =
        "what moves no bytes. It is not in the figures of reads and writes; MB/s are of the ranges.";
    run_table(matrix, profile, ("Flushes, trims and writes of zeroes", caption), heads).section(rows)
}

fn other_cells(summary: &OpSummary) -> [String; 8] {
    let bytes = summary.bytes_per_sec.mb_per_s();
    let latency = |ms: f64| if summary.requests > 0 { three_digits(ms) } else { "-".to_owned() };
    [
        summary.requests.to_string(),
        summary.errors.to_string(),
        three_digits(summary.iops.0),
        if bytes > 0.0 { three_digits(bytes) } else { "-".to_owned() },
        latency(summary.lat_ns_mean / 1e6),
        latency(ns_to_ms(summary.lat_ns_p50)),
        latency(ns_to_ms(summary.lat_ns_p99)),
        latency(ns_to_ms(summary.lat_ns_max)),
    ]
}

/// The configurations that have a run of `profile` on any side.
fn with_runs(matrix: &Matrix, profile: usize) -> Vec<usize> {
    let has_run =
        |index: &usize| (0..matrix.sides.len()).any(|side| !matrix.line(profile, *index, side).is_empty());
    (0..matrix.configurations.len()).filter(has_run).collect()
}

/// Every run of one profile, with its configuration in words, and its side where there are several.
fn each_run<'a>(matrix: &'a Matrix<'a>, profile: usize) -> impl Iterator<Item = (String, &'a RunResult)> {
    with_runs(matrix, profile).into_iter().flat_map(move |configuration| {
        matrix.sides.iter().enumerate().flat_map(move |(side, names)| {
            let name = matrix.full_name(configuration);
            let name = if matrix.sides.len() > 1 { format!("{name}, {}", names.name()) } else { name };
            matrix.line(profile, configuration, side).into_iter().map(move |run| (name.clone(), run))
        })
    })
}

/// A table of single runs: configuration, load, and `heads`.
fn run_table(
    matrix: &Matrix,
    profile: usize,
    (label, caption): (&str, &str),
    heads: impl IntoIterator<Item = Head>,
) -> Table {
    let columns = [Head::text("Configuration"), Head::number(matrix.load_name(profile))];
    let caption = format!("{}: {caption}", matrix.profiles[profile].workload);
    Table::new(label, columns.into_iter().chain(heads).collect()).captioned(caption)
}

/// A row of such a table: configuration, load, what of the run it is of, and `cells`.
fn run_row(name: &str, run: &RunResult, what: &str, cells: impl IntoIterator<Item = String>) -> Vec<String> {
    let first = [name.to_owned(), run.offered_load().value().to_string(), what.to_owned()];
    first.into_iter().chain(cells).collect()
}

/// A row with a text of each run that has one.
fn text_rows(
    matrix: &Matrix,
    profile: usize,
    text: impl Fn(&RunResult) -> Option<String>,
) -> Vec<Vec<String>> {
    each_run(matrix, profile).filter_map(|(name, run)| Some(run_row(&name, run, &text(run)?, []))).collect()
}
