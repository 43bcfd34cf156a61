//! Runs as CSV, one line per run, for spreadsheets and statistics programs.
//!
//! RFC 4180: fields with a comma, a quotation mark or a line break stand in quotation marks, quotation marks within
//! are doubled. Lines end with a line feed. Names carry the unit; a field that does not apply is empty. Settings are
//! one JSON object in one field, since runs differ in which they have. Left out: the latency curves and
//! the figures over time, which are in the JSON.

use raidlab_workload::{ArrayFacts, OpSummary, RunResult};
use std::fmt::Display;

/// The fields before those of reads, writes and totals.
const RUN_FIELDS: [&str; 16] = [
    "world",
    "target",
    "level",
    "members",
    "member_kind",
    "controller",
    "strip_bytes",
    "write_policy",
    "usable_bytes",
    "raw_bytes",
    "failures_survived_always",
    "failures_survived_at_best",
    "workload",
    "metric",
    "iodepth",
    "window_ns",
];

/// The fields of one direction, each with `read_`, `write_` or `total_` before it.
const SUMMARY_FIELDS: [&str; 14] = [
    "requests",
    "errors",
    "iops",
    "bytes_per_sec",
    "lat_ns_mean",
    "lat_ns_stddev",
    "lat_ns_min",
    "lat_ns_p50",
    "lat_ns_p90",
    "lat_ns_p99",
    "lat_ns_p999",
    "lat_ns_p9999",
    "lat_ns_p99999",
    "lat_ns_max",
];

/// The fields after them.
const COST_FIELDS: [&str; 8] = [
    "seed",
    "cpu_ns_per_io",
    "member_reads",
    "member_writes",
    "host_reads",
    "host_writes",
    "wall_ns",
    "settings_json",
];

/// Prints `runs` with a header line.
pub fn runs(runs: &[RunResult]) -> String {
    let mut text = line(&header());
    for run in runs {
        text += &line(&record(run));
    }
    text
}

fn header() -> Vec<String> {
    let mut fields: Vec<String> = RUN_FIELDS.map(str::to_owned).to_vec();
    for direction in ["read", "write", "total"] {
        fields.extend(SUMMARY_FIELDS.map(|name| format!("{direction}_{name}")));
    }
    fields.extend(COST_FIELDS.map(str::to_owned));
    fields
}

fn record(run: &RunResult) -> Vec<String> {
    let mut fields = vec![serde_name(&run.world), run.target.clone()];
    fields.extend(array_fields(run.array.as_ref()));
    fields.extend([
        run.workload.clone(),
        serde_name(&run.metric),
        run.iodepth.to_string(),
        run.window_ns.to_string(),
    ]);
    for summary in [&run.read, &run.write, &run.total] {
        fields.extend(summary_fields(summary));
    }
    let settings = serde_json::to_string(&run.settings).expect("a map of text always prints");
    fields.extend([
        run.seed.to_string(),
        or_empty(run.cost.cpu_ns_per_io),
        or_empty(run.cost.member_reads),
        or_empty(run.cost.member_writes),
        or_empty(run.cost.host_reads),
        or_empty(run.cost.host_writes),
        run.cost.wall_ns.to_string(),
        settings,
    ]);
    fields
}

fn array_fields(facts: Option<&ArrayFacts>) -> [String; 10] {
    let Some(facts) = facts else { return Default::default() };
    [
        facts.level.clone(),
        facts.members.to_string(),
        facts.member_kind.clone(),
        facts.controller.clone(),
        facts.strip_bytes.0.to_string(),
        facts.write_policy.clone(),
        facts.usable_bytes.0.to_string(),
        facts.raw_bytes.0.to_string(),
        facts.failures_survived_always.to_string(),
        facts.failures_survived_at_best.to_string(),
    ]
}

fn summary_fields(summary: &OpSummary) -> [String; SUMMARY_FIELDS.len()] {
    [
        summary.requests.to_string(),
        summary.errors.to_string(),
        summary.iops.0.to_string(),
        summary.bytes_per_sec.0.to_string(),
        summary.lat_ns_mean.to_string(),
        summary.lat_ns_stddev.to_string(),
        summary.lat_ns_min.to_string(),
        summary.lat_ns_p50.to_string(),
        summary.lat_ns_p90.to_string(),
        summary.lat_ns_p99.to_string(),
        summary.lat_ns_p999.to_string(),
        summary.lat_ns_p9999.to_string(),
        summary.lat_ns_p99999.to_string(),
        summary.lat_ns_max.to_string(),
    ]
}

/// The name by which an enum without fields is stored, the same as in JSON.
fn serde_name(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("an enum without fields is stored as {other:?}"),
    }
}

fn or_empty(value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// One line of CSV.
fn line(fields: &[String]) -> String {
    assert_eq!(
        fields.len(),
        RUN_FIELDS.len() + 3 * SUMMARY_FIELDS.len() + COST_FIELDS.len(),
        "a line has as many fields as the header"
    );
    let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
    quoted.join(",") + "\n"
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}
