//! Papers: their methods, their published figures, and the jobs that predict them.

use super::input::{Named, Order};
use super::{ok, start};
use crate::StudioState;
use crate::command::CommandLine;
use crate::fault::{Fault, csv_response, json_response};
use crate::job::JobKind;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use raidlab_advisor::unit_of;
use raidlab_papers::{Paper, PaperError, PublishedRow, paper_ids};
use serde::Deserialize;
use serde_json::{Value, json};
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

pub(super) async fn list() -> Result<Response, Fault> {
    let papers: Vec<Value> = paper_ids().map(|id| Ok(head(&paper(id)?))).collect::<Result<_, Fault>>()?;
    Ok(ok(&json!({ "schema": 1, "papers": papers })))
}

pub(super) async fn one(Named(id): Named) -> Result<Response, Fault> {
    let paper = paper(&id)?;
    let mut value = head(&paper);
    value["schema"] = json!(1);
    value["method"] = json!(paper.method.method);
    value["assumed"] = json!(paper.method.assumed);
    value["corrections"] = json!(paper.method.corrections);
    let row = |row: &PublishedRow| row_json(row, &paper.method.fitted_rows);
    value["rows"] = paper.rows.iter().map(row).collect();
    value["claims"] = json!(paper.claims.len());
    Ok(ok(&value))
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

fn head(paper: &Paper) -> Value {
    let method = &paper.method;
    json!({
        "id": method.id,
        "title": method.title,
        "authors": method.authors,
        "source": method.source(),
        "publisher": method.publisher,
        "tables": paper.places(),
        "figures": paper.rows.len(),
        "claims": paper.claims.len(),
    })
}

fn row_json(row: &PublishedRow, fitted: &[String]) -> Value {
    json!({
        "id": row.id,
        "table": row.place,
        "system": row.system,
        "raid": row.raid,
        "drives": row.drives,
        "drive": row.drive,
        "workload": row.workload,
        "block_bytes": row.block,
        "queue_depth": (row.queue_depth > 0).then_some(row.queue_depth),
        "streams": (row.streams > 0).then_some(row.streams),
        "metric": row.metric.name(),
        "unit": unit_of(row.metric.name()),
        "published": row.value,
        "fitted": fitted.contains(&row.id),
        "note": row.note,
        "write_policy": row.write_policy,
        "read_policy": row.read_policy,
        "io_policy": row.io_policy,
        "disk_cache": row.disk_cache,
        "cache_mirroring": row.cache_mirroring,
        "filesystem": row.filesystem,
        "volumes": (row.volumes > 1).then_some(row.volumes),
        "response_limit_ns": row.response_limit,
        "stroke_pct": row.stroke_pct,
        "file_bytes": row.file,
    })
}
