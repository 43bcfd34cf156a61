//! Results as JSON, for programs: every digit, the unit in the name of each field.
//!
//! Lists of runs and studies carry `schema`, which rises when a field changes its meaning. A run is the serialisation
//! of [`RunResult`], from which it can be read again without loss.

use crate::StudyReport;
use crate::matrix::Matrix;
use crate::programs::{BonnieStep, ProgramReport, PublishedPoint, StreamsStep, bonnie_steps, streams_steps};
use raidlab_advisor::{ComparedTable, Comparison, Verdict};
use raidlab_workload::{OfferedLoad, RunResult};
use serde::Serialize;

/// Version of the fields' meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct RunsOut<'a> {
    schema: u32,
    runs: &'a [RunResult],
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct NamedValue<'a> {
    name: &'a str,
    value: &'a str,
}

/// A study with all its runs, as JSON.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct StudyAnswer<'a> {
    schema: u32,
    title: &'a str,
    question: &'a str,
    method: &'a [String],
    setup: Vec<NamedValue<'a>>,
    /// The iodepth that tables show; none where they show a rate.
    iodepth: Option<u32>,
    runs: &'a [RunResult],
    verdicts: &'a [Verdict],
    warnings: Vec<String>,
    notes: &'a [String],
    #[serde(rename = "beside", skip_serializing_if = "<[_]>::is_empty")]
    compared: &'a [ComparedTable],
}

/// Prints `runs` as `{"schema": 1, "runs": [...]}`.
pub fn runs(runs: &[RunResult]) -> String {
    print(&RunsOut { schema: SCHEMA, runs })
}

/// Runs of programs on files, as JSON.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct ProgramsAnswer<'a> {
    schema: u32,
    runs: &'a [RunResult],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    streams: Vec<StreamsStep>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bonnie: Vec<BonnieStep>,
    warnings: Vec<String>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    published: &'a [PublishedPoint],
}

/// Prints runs of programs on files, and what they sum up to: steps of `streams`, of `bonnie`, or of both.
pub fn programs(report: &ProgramReport<'_>) -> String {
    print(&ProgramsAnswer {
        schema: SCHEMA,
        runs: report.runs,
        streams: streams_steps(report.runs),
        bonnie: bonnie_steps(report.runs),
        warnings: report.runs.iter().flat_map(RunResult::warnings).collect(),
        notes: &report.notes,
        published: report.published,
    })
}

/// Prints a study with all its runs, recommendations and warnings.
pub fn study(report: &StudyReport) -> String {
    let matrix = Matrix::of(report.runs, report.iodepth);
    print(&StudyAnswer {
        schema: SCHEMA,
        title: report.title,
        question: report.question,
        method: &report.method,
        setup: report.setup.iter().map(|(name, value)| NamedValue { name, value }).collect(),
        iodepth: match matrix.load {
            OfferedLoad::Iodepth(depth) => Some(depth),
            OfferedLoad::Rate(_) | OfferedLoad::Accelerators(_) => None,
        },
        runs: report.runs,
        verdicts: report.verdicts,
        warnings: report.warnings.iter().cloned().chain(matrix.warnings()).collect(),
        notes: &report.notes,
        compared: report.compared,
    })
}

/// Prints a comparison as `{"rows": [{"id", "metric", "published", "predicted", "error_pct"}, ...], "summary":
/// {"rows", "median_abs_error_pct", "p90_abs_error_pct"}}`; the summary's errors are null when there is no row.
pub fn comparison(comparison: &Comparison) -> String {
    print(comparison)
}

fn print(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("structs of text and numbers always print") + "\n"
}
