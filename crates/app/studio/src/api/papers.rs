//! Papers: their methods, their published figures, and the jobs that predict them.

use super::input::{Named, Order};
use super::{SCHEMA, ok, start};
use crate::StudioState;
use crate::command::CommandLine;
use crate::fault::{Fault, csv_response, json_response};
use crate::job::JobKind;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use raidlab_advisor::unit_of;
use raidlab_controller::{IoPolicy, ReadPolicy, WritePolicy};
use raidlab_papers::{Method, MetricCorrection, Paper, PaperError, PublishedRow, paper_ids};
use raidlab_units::{ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Which figures to predict.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PredictOrder {
    /// Only those of this table.
    table: Option<String>,
    /// And what sets the pace of each, which takes several runs more.
    #[serde(default)]
    bottleneck: bool,
}

#[derive(Serialize)]
struct PaperList<'a> {
    schema: u32,
    papers: Vec<PaperHead<'a>>,
}

#[derive(Serialize)]
struct PaperHead<'a> {
    id: &'a str,
    title: &'a str,
    authors: Option<&'a str>,
    source: String,
    publisher: &'a str,
    tables: Vec<&'a str>,
    figures: usize,
    claims: usize,
}

#[derive(Serialize)]
struct PaperAnswer<'a> {
    schema: u32,
    #[serde(flatten)]
    head: PaperHead<'a>,
    method: &'a [String],
    assumed: &'a [String],
    corrections: &'a [MetricCorrection],
    rows: Vec<Row<'a>>,
}

/// A published figure, and of which system it is; what the publication does not say is null.
#[derive(Serialize)]
struct Row<'a> {
    id: &'a str,
    table: &'a str,
    system: &'a str,
    raid: &'a str,
    drives: u16,
    drive: &'a str,
    workload: &'a str,
    block_bytes: Option<ByteCount>,
    queue_depth: Option<u32>,
    streams: Option<u32>,
    metric: &'static str,
    unit: &'a str,
    published: f64,
    /// The model was fitted to it.
    fitted: bool,
    note: &'a str,
    write_policy: Option<WritePolicy>,
    read_policy: Option<ReadPolicy>,
    io_policy: Option<IoPolicy>,
    disk_cache: Option<bool>,
    cache_mirroring: Option<bool>,
    filesystem: Option<&'a str>,
    volumes: Option<u32>,
    response_limit_ns: Option<NanoSpan>,
    stroke_pct: Option<f64>,
    file_bytes: Option<ByteCount>,
}

pub(super) async fn list() -> Result<Response, Fault> {
    let papers = paper_ids().map(paper).collect::<Result<Vec<_>, Fault>>()?;
    Ok(ok(&PaperList { schema: SCHEMA, papers: papers.iter().map(PaperHead::of).collect() }))
}

pub(super) async fn one(Named(id): Named) -> Result<Response, Fault> {
    let paper = paper(&id)?;
    let Method { method, assumed, corrections, fitted_rows, .. } = &paper.method;
    Ok(ok(&PaperAnswer {
        schema: SCHEMA,
        head: PaperHead::of(&paper),
        method,
        assumed,
        corrections,
        rows: paper.rows.iter().map(|row| Row::of(row, fitted_rows)).collect(),
    }))
}

pub(super) async fn published(Named(id): Named) -> Result<Response, Fault> {
    let paper = paper(&id)?;
    let text = Paper::published_text(&id).unwrap_or_default();
    Ok(csv_response(&format!("{}.csv", paper.method.id), text.to_owned()))
}

pub(super) async fn predict(
    State(studio): State<Arc<StudioState>>,
    Named(id): Named,
    Order { order, dry_run }: Order<PredictOrder>,
) -> Result<Response, Fault> {
    let mut paper = paper(&id)?;
    if let Some(table) = &order.table {
        paper.keep_table(table).map_err(fault)?;
    }
    let command = CommandLine::new(&["reproduce", &id]).option("--table", order.table.as_ref());
    let command = command.option("--bottleneck", order.bottleneck.then_some("on"));
    let subject = order.table.map_or(id.clone(), |table| format!("{id}, {table}"));
    // What was predicted stays as it is: the same figures come of the same seed.
    if let Some(job) = studio.jobs.same(&command).filter(|_| !dry_run) {
        return Ok(json_response(StatusCode::ACCEPTED, &job.view(0)));
    }
    start(&studio, JobKind::Reproduce, subject, command, dry_run)
}

fn paper(id: &str) -> Result<Paper, Fault> {
    Paper::builtin(id).map_err(fault)
}

fn fault(error: PaperError) -> Fault {
    match error {
        PaperError::Unknown { .. } => Fault::absent(error.to_string(), "paper", "take one of /api/papers"),
        PaperError::UnknownTable { .. } => {
            Fault::input(error.to_string(), "table", "take one of the paper's")
        }
        other => Fault::internal(other.to_string(), "paper"),
    }
}

impl<'a> PaperHead<'a> {
    fn of(paper: &'a Paper) -> Self {
        let method = &paper.method;
        Self {
            id: &method.id,
            title: &method.title,
            authors: method.authors.as_deref(),
            source: method.source(),
            publisher: &method.publisher,
            tables: paper.places(),
            figures: paper.rows.len(),
            claims: paper.claims.len(),
        }
    }
}

impl<'a> Row<'a> {
    fn of(row: &'a PublishedRow, fitted: &[String]) -> Self {
        let metric = row.metric.name();
        Self {
            id: &row.id,
            table: &row.place,
            system: &row.system,
            raid: &row.raid,
            drives: row.drives,
            drive: &row.drive,
            workload: &row.workload,
            block_bytes: row.block,
            queue_depth: (row.queue_depth > 0).then_some(row.queue_depth),
            streams: (row.streams > 0).then_some(row.streams),
            metric,
            unit: unit_of(metric),
            published: row.value,
            fitted: fitted.contains(&row.id),
            note: &row.note,
            write_policy: row.write_policy,
            read_policy: row.read_policy,
            io_policy: row.io_policy,
            disk_cache: row.disk_cache,
            cache_mirroring: row.cache_mirroring,
            filesystem: row.filesystem.as_deref(),
            volumes: (row.volumes > 1).then_some(row.volumes),
            response_limit_ns: row.response_limit,
            stroke_pct: row.stroke_pct,
            file_bytes: row.file,
        }
    }
}
