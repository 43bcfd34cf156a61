//! Kept runs as tables of typed columns, for statistics programs: one row per run, per interval, or per bin of a histogram.
//!
//! The tables are made here once; [`crate::csv`] and [`crate::parquet`] only write them. Names carry the unit, a value
//! that does not apply is null, and counts are unsigned. Settings and further figures are a JSON object in one column
//! each, since runs have different ones.
//!
//! Invariant: every row has a value of its kind, or none, for every column.

use crate::known::{is_missing, is_missing_count};
use raidlab_store::StoredRun;
use raidlab_workload::{ArrayFacts, OpSummary, RunResult, RunSeries, SeriesColumns, Summaries};
use serde::Serialize;

/// A run, and where it is kept.
#[derive(Clone, Copy, Debug)]
pub struct KeptRun<'a> {
    /// Its number.
    pub id: i64,
    /// Number of its study run.
    pub study: i64,
    /// Title of that.
    pub title: &'a str,
    /// Start, UTC, ISO 8601.
    pub started_at: &'a str,
    /// Its tags.
    pub tags: &'a [String],
    /// What came of it.
    pub run: &'a RunResult,
}

impl<'a> From<&'a StoredRun> for KeptRun<'a> {
    fn from(stored: &'a StoredRun) -> Self {
        let StoredRun { id, study, title, started_at, tags, result, .. } = stored;
        Self { id: *id, study: *study, title, started_at, tags, run: result }
    }
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A number from 0 to 2^64 - 1.
    Count,
    /// Any number.
    Real,
}

/// What is in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: it does not apply.
    None,
    /// Text.
    Text(String),
    /// A count.
    Count(u64),
    /// A number.
    Real(f64),
}

impl Value {
    /// The text, if it is one.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The count, if it is one.
    pub fn count(&self) -> Option<u64> {
        if let Self::Count(count) = self { Some(*count) } else { None }
    }

    /// The number, if it is one.
    pub fn real(&self) -> Option<f64> {
        if let Self::Real(number) = self { Some(*number) } else { None }
    }
}

/// Columns with names and kinds, and rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<Value>>,
}

/// A column: its name, its kind, and where its value stands in `T`.
type Column<T> = (&'static str, Kind, fn(&T) -> Value);

/// What a run is.
fn run_columns<'a>() -> [Column<KeptRun<'a>>; 22] {
    [
        ("run", Kind::Count, |kept| count(kept.id)),
        ("study", Kind::Count, |kept| count(kept.study)),
        ("title", Kind::Text, |kept| text(kept.title)),
        ("started_at", Kind::Text, |kept| {
            if kept.started_at.is_empty() { Value::None } else { text(kept.started_at) }
        }),
        ("tags_json", Kind::Text, |kept| json(&kept.tags)),
        ("world", Kind::Text, |kept| text(kept.run.world.name())),
        ("target", Kind::Text, |kept| text(&kept.run.target)),
        ("level", Kind::Text, |kept| array(kept, |facts| text(&facts.level))),
        ("members", Kind::Count, |kept| array(kept, |facts| Value::Count(facts.members.into()))),
        ("member_kind", Kind::Text, |kept| array(kept, |facts| text(&facts.member_kind))),
        ("controller", Kind::Text, |kept| array(kept, |facts| text(&facts.controller))),
        ("strip_bytes", Kind::Count, |kept| array(kept, |facts| Value::Count(facts.strip_bytes.0))),
        ("write_policy", Kind::Text, |kept| array(kept, |facts| text(&facts.write_policy))),
        ("usable_bytes", Kind::Count, |kept| array(kept, |facts| Value::Count(facts.usable_bytes.0))),
        ("raw_bytes", Kind::Count, |kept| array(kept, |facts| Value::Count(facts.raw_bytes.0))),
        ("failures_survived_always", Kind::Count, |kept| {
            array(kept, |facts| Value::Count(facts.failures_survived_always.into()))
        }),
        ("failures_survived_at_best", Kind::Count, |kept| {
            array(kept, |facts| Value::Count(facts.failures_survived_at_best.into()))
        }),
        ("workload", Kind::Text, |kept| text(&kept.run.workload)),
        ("metric", Kind::Text, |kept| Value::Text(serde_name(&kept.run.metric))),
        ("iodepth", Kind::Count, |kept| unless_missing(kept.run, kept.run.iodepth.into())),
        ("arrivals_per_sec", Kind::Real, |kept| kept.run.arrivals_per_sec.map_or(Value::None, Value::Real)),
        ("window_ns", Kind::Count, |kept| unless_missing(kept.run, kept.run.window_ns)),
    ]
}

/// Figures of one direction, each with `read_`, `write_` or `total_` before it, or with `flush_`, `trim_` or `write_zeroes_`, which are
/// none where a run has nothing of the kind.
const SUMMARY_COLUMNS: [Column<OpSummary>; 14] = [
    ("requests", Kind::Count, |op| Value::Count(op.requests)),
    ("errors", Kind::Count, |op| Value::Count(op.errors)),
    ("iops", Kind::Real, |op| Value::Real(op.iops.0)),
    ("bytes_per_sec", Kind::Real, |op| Value::Real(op.bytes_per_sec.0)),
    ("lat_ns_mean", Kind::Real, |op| Value::Real(op.lat_ns_mean)),
    ("lat_ns_stddev", Kind::Real, |op| Value::Real(op.lat_ns_stddev)),
    ("lat_ns_min", Kind::Count, |op| Value::Count(op.lat_ns_min)),
    ("lat_ns_p50", Kind::Count, |op| Value::Count(op.lat_ns_p50)),
    ("lat_ns_p90", Kind::Count, |op| Value::Count(op.lat_ns_p90)),
    ("lat_ns_p99", Kind::Count, |op| Value::Count(op.lat_ns_p99)),
    ("lat_ns_p999", Kind::Count, |op| Value::Count(op.lat_ns_p999)),
    ("lat_ns_p9999", Kind::Count, |op| Value::Count(op.lat_ns_p9999)),
    ("lat_ns_p99999", Kind::Count, |op| Value::Count(op.lat_ns_p99999)),
    ("lat_ns_max", Kind::Count, |op| Value::Count(op.lat_ns_max)),
];

/// What a run cost, and what has no column of its own.
const COST_COLUMNS: [Column<RunResult>; 20] = [
    ("seed", Kind::Count, |run| unless_missing(run, run.seed)),
    ("cpu_ns_per_io", Kind::Real, |run| run.cost.cpu_ns_per_io.map_or(Value::None, Value::Real)),
    ("member_reads", Kind::Count, |run| maybe(run.cost.member_reads)),
    ("member_writes", Kind::Count, |run| maybe(run.cost.member_writes)),
    ("host_reads", Kind::Count, |run| maybe(run.cost.host_reads)),
    ("host_writes", Kind::Count, |run| maybe(run.cost.host_writes)),
    ("wall_ns", Kind::Count, |run| unless_missing(run, run.cost.wall_ns)),
    ("warnings", Kind::Text, |run| {
        let warnings = run.warnings().join(" | ");
        if warnings.is_empty() { Value::None } else { Value::Text(warnings) }
    }),
    ("bottleneck", Kind::Text, |run| run.bottleneck.as_ref().map_or(Value::None, |facts| text(&facts.name))),
    ("bottleneck_json", Kind::Text, |run| run.bottleneck.as_ref().map_or(Value::None, json)),
    ("range_json", Kind::Text, |run| run.range.as_ref().map_or(Value::None, json)),
    ("times_json", Kind::Text, |run| run.times.as_ref().map_or(Value::None, json)),
    ("accelerators", Kind::Count, |run| maybe(run.accelerators().map(|it| it.accelerators.into()))),
    ("au_pct", Kind::Real, |run| real(run.accelerators().map(|it| it.au_pct))),
    ("samples_per_s", Kind::Real, |run| real(run.accelerators().map(|it| it.samples_per_s))),
    ("checkpoint_pause_ns", Kind::Real, |run| real(run.checkpoint().and_then(|it| it.pause_ns_mean))),
    ("checkpoint_bytes_per_sec", Kind::Real, |run| real(run.checkpoint().map(|it| it.bytes_per_sec.0))),
    ("actors_json", Kind::Text, |run| if run.actors.is_empty() { Value::None } else { json(&run.actors) }),
    ("figures_json", Kind::Text, |run| json(&run.figures)),
    ("settings_json", Kind::Text, |run| json(&run.settings)),
];

/// Figures of one interval.
fn interval_columns<'a>() -> [Column<Interval<'a>>; 10] {
    [
        ("start_ns", Kind::Count, |it| Value::Count(it.series.interval_ns * it.index as u64)),
        ("span_ns", Kind::Count, |it| Value::Count(it.series.span_ns(it.index))),
        ("requests", Kind::Count, |it| Value::Count(it.columns.requests[it.index])),
        ("errors", Kind::Count, |it| it.at(&it.columns.errors)),
        ("bytes", Kind::Count, |it| it.at(&it.columns.bytes)),
        ("lat_ns_mean", Kind::Count, |it| it.at(&it.columns.lat_ns_mean)),
        ("lat_ns_p50", Kind::Count, |it| it.at(&it.columns.lat_ns_p50)),
        ("lat_ns_p99", Kind::Count, |it| it.at(&it.columns.lat_ns_p99)),
        ("lat_ns_p999", Kind::Count, |it| it.at(&it.columns.lat_ns_p999)),
        ("lat_ns_max", Kind::Count, |it| it.at(&it.columns.lat_ns_max)),
    ]
}

/// The directions of a run.
const DIRECTIONS: [&str; 3] = ["read", "write", "total"];

type Other = (&'static str, fn(&RunResult) -> Option<&OpSummary>);

/// What moves no bytes, and where a run has the figures of it.
const OTHERS: [Other; 3] = [
    ("flush", |run| run.ops.others.flush.as_deref()),
    ("trim", |run| run.ops.others.trim.as_deref()),
    ("write_zeroes", |run| run.ops.others.write_zeroes.as_deref()),
];

struct Interval<'a> {
    series: &'a RunSeries,
    columns: &'a SeriesColumns,
    index: usize,
}

impl Interval<'_> {
    /// The value of a column, which may be missing in records of old.
    fn at(&self, column: &[u64]) -> Value {
        maybe(column.get(self.index).copied())
    }
}

impl Table {
    /// One row per run.
    pub fn runs(runs: &[KeptRun<'_>]) -> Self {
        let mut columns: Vec<(String, Kind)> = named(&run_columns()).collect();
        for direction in DIRECTIONS {
            columns
                .extend(SUMMARY_COLUMNS.iter().map(|(name, kind, _)| (format!("{direction}_{name}"), *kind)));
        }
        columns.extend(named(&COST_COLUMNS));
        for (other, _) in OTHERS {
            columns.extend(SUMMARY_COLUMNS.iter().map(|(name, kind, _)| (format!("{other}_{name}"), *kind)));
        }
        let row = |kept: &KeptRun<'_>| {
            let Summaries { read, write, total, .. } = &kept.run.ops;
            let mut row = values(&run_columns(), kept);
            for (kind, summary) in DIRECTIONS.into_iter().zip([read, write, total]) {
                row.extend(figures(kept.run, kind, summary));
            }
            row.extend(values(&COST_COLUMNS, kept.run));
            for (kind, of) in OTHERS {
                let empty = || vec![Value::None; SUMMARY_COLUMNS.len()];
                row.extend(of(kept.run).map_or_else(empty, |summary| figures(kept.run, kind, summary)));
            }
            row
        };
        Self { columns, rows: runs.iter().map(row).collect() }
    }

    /// One row per interval of each run and direction that has a series.
    pub fn series(runs: &[KeptRun<'_>]) -> Self {
        let mut columns = key_columns();
        columns.extend(named(&interval_columns()));
        let mut rows = Vec::new();
        for kept in runs {
            let Some(series) = &kept.run.series else { continue };
            for (direction, columns) in DIRECTIONS.iter().zip([&series.read, &series.write, &series.total]) {
                for index in 0..columns.len() {
                    let mut row = key(kept, direction);
                    row.extend(values(&interval_columns(), &Interval { series, columns, index }));
                    rows.push(row);
                }
            }
        }
        Self { columns, rows }
    }

    /// One row per bin of each run's and direction's latencies: how many requests took that long at most, and longer than
    /// the bin before.
    pub fn histograms(runs: &[KeptRun<'_>]) -> Self {
        let mut columns = key_columns();
        columns.extend(["lat_ns_up_to", "requests"].map(|name| (name.to_owned(), Kind::Count)));
        let mut rows = Vec::new();
        for kept in runs {
            let Summaries { read, write, total, .. } = &kept.run.ops;
            let moved = DIRECTIONS.into_iter().zip([read, write, total]);
            let others = OTHERS.into_iter().filter_map(|(other, of)| Some((other, of(kept.run)?)));
            for (direction, summary) in moved.chain(others) {
                for bin in &summary.lat_bins {
                    let mut row = key(kept, direction);
                    row.extend([Value::Count(bin.lat_ns), Value::Count(bin.requests)]);
                    rows.push(row);
                }
            }
        }
        Self { columns, rows }
    }

    /// Names and kinds of the columns, in their order.
    pub fn columns(&self) -> &[(String, Kind)] {
        &self.columns
    }

    /// The rows; each has as many values as there are columns.
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }
}

/// What the rows of series and histograms begin with.
fn key_columns() -> Vec<(String, Kind)> {
    let columns = [
        ("run", Kind::Count),
        ("workload", Kind::Text),
        ("target", Kind::Text),
        ("iodepth", Kind::Count),
        ("op", Kind::Text),
    ];
    columns.map(|(name, kind)| (name.to_owned(), kind)).to_vec()
}

fn key(kept: &KeptRun<'_>, direction: &str) -> Vec<Value> {
    let RunResult { workload, target, iodepth, .. } = kept.run;
    vec![
        count(kept.id),
        text(workload),
        text(target),
        unless_missing(kept.run, u64::from(*iodepth)),
        text(direction),
    ]
}

fn named<T>(columns: &[Column<T>]) -> impl Iterator<Item = (String, Kind)> {
    columns.iter().map(|(name, kind, _)| ((*name).to_owned(), *kind))
}

fn values<T>(columns: &[Column<T>], of: &T) -> Vec<Value> {
    columns.iter().map(|(_, _, value)| value(of)).collect()
}

/// The figures of one kind of request; none of what is not known.
fn figures(run: &RunResult, kind: &str, summary: &OpSummary) -> Vec<Value> {
    let known = |(name, _, of): &Column<OpSummary>| match of(summary) {
        Value::Count(0) | Value::Real(0.0) if is_missing(run, kind, summary, name) => Value::None,
        value => value,
    };
    SUMMARY_COLUMNS.iter().map(known).collect()
}

/// A count of a run, whose zero in results of other programs is not known.
fn unless_missing(run: &RunResult, count: u64) -> Value {
    if is_missing_count(run, count) { Value::None } else { Value::Count(count) }
}

fn array(kept: &KeptRun<'_>, of: fn(&ArrayFacts) -> Value) -> Value {
    kept.run.array.as_ref().map_or(Value::None, of)
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

/// A number of the store, which begins at 1.
fn count(id: i64) -> Value {
    u64::try_from(id).map_or(Value::None, Value::Count)
}

fn real(figure: Option<f64>) -> Value {
    figure.map_or(Value::None, Value::Real)
}

fn maybe(value: Option<u64>) -> Value {
    value.map_or(Value::None, Value::Count)
}

fn json(value: &impl Serialize) -> Value {
    Value::Text(serde_json::to_string(value).expect("maps and lists of text and numbers always print"))
}

/// The name by which an enum without fields is stored, the same as in JSON.
fn serde_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("an enum without fields is stored as {other:?}"),
    }
}
