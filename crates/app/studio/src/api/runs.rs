//! Finished runs, from the results file. Reading never creates it.

use super::input::{Numbered, bad_parameter, known_parameters, number, parameter};
use super::{SCHEMA, blocking, ok};
use crate::StudioState;
use crate::fault::{Fault, csv_response};
use axum::extract::{RawQuery, State};
use axum::response::Response;
use raidlab_report::table::{KeptRun, Table};
use raidlab_store::{RunFilter, RunLine, Store, StoreError, StoredRun};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Runs in a list, unless told otherwise.
const LIMIT: u64 = 200;
/// Most runs in a list.
const LIMIT_MAX: u64 = 5000;
/// Most runs that are compared.
const COMPARED_MAX: usize = 64;

#[derive(Serialize)]
struct RunList<'a> {
    schema: u32,
    db: &'a Path,
    runs: Vec<RunLine>,
}

pub(super) async fn list(
    State(studio): State<Arc<StudioState>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    known_parameters(query.as_deref(), &["limit"])?;
    let limit = number(query.as_deref(), "limit", LIMIT_MAX)?.unwrap_or(LIMIT);
    blocking(move || {
        let filter = RunFilter { limit: Some(limit as u32), ..RunFilter::default() };
        let runs = open(&studio)?.map(|store| store.list_runs(&filter)).transpose();
        let runs = runs.map_err(|error| fault(&error))?.unwrap_or_default();
        Ok(ok(&RunList { schema: SCHEMA, db: &studio.db, runs }))
    })
    .await
}

pub(super) async fn one(
    State(studio): State<Arc<StudioState>>,
    Numbered(id): Numbered,
) -> Result<Response, Fault> {
    blocking(move || Ok(ok(&run(&studio, id)?))).await
}

pub(super) async fn csv(
    State(studio): State<Arc<StudioState>>,
    RawQuery(query): RawQuery,
) -> Result<Response, Fault> {
    known_parameters(query.as_deref(), &["ids"])?;
    let ids = parameter(query.as_deref(), "ids")?;
    let ids = ids.ok_or_else(|| bad_parameter("ids", "it is missing"))?;
    let ids: Vec<u64> = ids
        .split(',')
        .map(|id| id.parse().map_err(|_| bad_parameter("ids", "it is no list of numbers, 1,2,3")))
        .collect::<Result<_, _>>()?;
    if ids.len() > COMPARED_MAX {
        return Err(bad_parameter("ids", &format!("it names more than {COMPARED_MAX} runs")));
    }
    blocking(move || {
        let runs = ids.iter().map(|id| run(&studio, *id)).collect::<Result<Vec<_>, Fault>>()?;
        let kept: Vec<KeptRun<'_>> = runs.iter().map(KeptRun::from).collect();
        Ok(csv_response("runs.csv", raidlab_report::csv::table(&Table::runs(&kept))))
    })
    .await
}

fn run(studio: &StudioState, id: u64) -> Result<StoredRun, Fault> {
    let absent = || Fault::absent(format!("there is no run {id}"), "run", "take one of /api/runs");
    let store = open(studio)?.ok_or_else(absent)?;
    match store.run(i64::try_from(id).map_err(|_| absent())?) {
        Err(StoreError::NoSuchRun { .. }) => Err(absent()),
        found => found.map_err(|error| fault(&error)),
    }
}

/// The results file, if there is one.
fn open(studio: &StudioState) -> Result<Option<Store>, Fault> {
    let path = studio.folder.path().join(&studio.db);
    path.exists().then(|| Store::open(&path)).transpose().map_err(|error| fault(&error))
}

fn fault(error: &StoreError) -> Fault {
    Fault::internal(error.to_string(), "results file")
}
