//! The calls behind the pages. `openapi.json` describes each; the route table below is complete.

mod arrays;
mod catalogue;
mod emulate;
mod input;
mod jobs;
mod live;
mod papers;
mod plan;
mod runs;
mod stored;

use crate::StudioState;
use crate::command::CommandLine;
use crate::fault::{Fault, json_response};
use crate::job::JobKind;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Files of the folder that are listed.
const FILES_MAX: usize = 500;

/// Paths and what answers there.
pub(crate) fn routes() -> Vec<(&'static str, MethodRouter<Arc<StudioState>>)> {
    vec![
        ("/api/openapi.json", get(openapi)),
        ("/api/studio", get(studio)),
        ("/api/papers", get(papers::list)),
        ("/api/papers/{id}", get(papers::one)),
        ("/api/papers/{id}/published.csv", get(papers::published)),
        ("/api/papers/{id}/predict", post(papers::predict)),
        ("/api/catalogue", get(catalogue::list)),
        ("/api/catalogue.csv", get(catalogue::csv)),
        ("/api/workloads", get(catalogue::workloads)),
        ("/api/runs", get(runs::list)),
        ("/api/runs.csv", get(runs::csv)),
        ("/api/runs/{id}", get(runs::one)),
        ("/api/jobs", get(jobs::list)),
        ("/api/jobs/{id}", get(jobs::one)),
        ("/api/jobs/{id}/result", get(jobs::result)),
        ("/api/jobs/{id}/stop", post(jobs::stop)),
        ("/api/measure", post(live::measure)),
        ("/api/soak", post(live::soak)),
        ("/api/arrays", get(arrays::list).post(arrays::create)),
        ("/api/arrays/stored", get(stored::list)),
        ("/api/arrays/serve", post(arrays::serve)),
        ("/api/arrays/{name}/command", post(arrays::command)),
        ("/api/emulate", post(emulate::emulate)),
        ("/api/plan", post(plan::plan)),
    ]
}

async fn openapi() -> Response {
    ([("content-type", "application/json")], include_str!("../openapi.json")).into_response()
}

/// Version of the form of lists.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Place<'a> {
    version: &'static str,
    folder: &'a Path,
    db: &'a Path,
    files: Vec<PlaceFile>,
}

#[derive(Serialize)]
struct PlaceFile {
    name: String,
    size_bytes: u64,
}

/// The command line of an order that is not carried out.
#[derive(Serialize)]
struct DryRun {
    command: String,
}

/// Where the studio is, and the files in its folder.
async fn studio(State(studio): State<Arc<StudioState>>) -> Result<Response, Fault> {
    blocking(move || {
        let files = studio.folder.files(FILES_MAX);
        let files = files.map_err(|error| {
            Fault::internal(error.to_string(), studio.folder.path().display().to_string())
        })?;
        Ok(ok(&Place {
            version: env!("CARGO_PKG_VERSION"),
            folder: studio.folder.path(),
            db: &studio.db,
            files: files.into_iter().map(|(name, size_bytes)| PlaceFile { name, size_bytes }).collect(),
        }))
    })
    .await
}

/// Does what may wait for a disk or an array on a thread that may wait.
async fn blocking(
    work: impl FnOnce() -> Result<Response, Fault> + Send + 'static,
) -> Result<Response, Fault> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Fault::internal("the request could not be worked on", "studio")))
}

fn ok(value: &impl Serialize) -> Response {
    json_response(StatusCode::OK, value)
}

/// Starts a job, or only says its command where that is all that is wanted.
fn start(
    studio: &StudioState,
    kind: JobKind,
    subject: String,
    command: CommandLine,
    dry_run: bool,
) -> Result<Response, Fault> {
    if dry_run {
        return Ok(ok(&DryRun { command: command.to_string() }));
    }
    let job = studio.jobs.start(kind, subject, command)?;
    Ok(json_response(StatusCode::ACCEPTED, &job.view(0)))
}

/// The results file, where it is not the one that verbs take by themselves.
fn other_db(db: &Path) -> Option<String> {
    (db != Path::new("raidlab.sqlite")).then(|| db.display().to_string())
}
