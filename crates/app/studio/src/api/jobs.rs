//! Jobs: what runs, its progress, and its result.

use super::input::{Nothing, Numbered, known_parameters, number};
use super::{SCHEMA, ok};
use crate::StudioState;
use crate::fault::Fault;
use crate::job::{Job, JobView};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
struct JobList {
    schema: u32,
    jobs: Vec<JobView>,
}

pub(super) async fn list(State(studio): State<Arc<StudioState>>) -> Response {
    let jobs = studio.jobs.list().iter().map(|job| job.view(u64::MAX)).collect();
    ok(&JobList { schema: SCHEMA, jobs })
}

pub(super) async fn one(
    State(studio): State<Arc<StudioState>>,
    Numbered(id): Numbered,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    known_parameters(query.as_deref(), &["from"])?;
    let from = number(query.as_deref(), "from", u64::MAX)?.unwrap_or(0);
    Ok(ok(&find(&studio, id)?.view(from)))
}

pub(super) async fn result(
    State(studio): State<Arc<StudioState>>,
    Numbered(id): Numbered,
) -> Result<Response, Fault> {
    let result = find(&studio, id)?.result();
    let result = result.ok_or_else(|| {
        Fault::conflict(
            format!("job {id} has no result"),
            "job",
            "wait until it is done; if it has ended, its failure says why there is none",
        )
    })?;
    Ok(([("content-type", "application/json")], result.to_string()).into_response())
}

pub(super) async fn stop(
    State(studio): State<Arc<StudioState>>,
    Numbered(id): Numbered,
    Nothing: Nothing,
) -> Result<Response, Fault> {
    let job = find(&studio, id)?;
    job.stop();
    Ok(ok(&job.view(u64::MAX)))
}

fn find(studio: &StudioState, id: u64) -> Result<Arc<Job>, Fault> {
    let absent = || Fault::absent(format!("there is no job {id}"), "job", "take one of /api/jobs");
    studio.jobs.get(id).ok_or_else(absent)
}
