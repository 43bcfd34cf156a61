//! The modelled hardware, every figure with its source, and the workloads.

use super::ok;
use crate::fault::{Fault, csv_response};
use axum::response::Response;
use raidlab_hardware::Catalog;
use raidlab_workload::builtin_workloads;
use serde_json::{Value, json};

pub(super) async fn list() -> Response {
    let catalog = Catalog::builtin();
    ok(&json!({ "schema": 1, "entries": catalog.entries().collect::<Vec<_>>() }))
}

pub(super) async fn csv() -> Result<Response, Fault> {
    let catalog = Catalog::builtin();
    let mut lines = csv::Writer::from_writer(Vec::new());
    let mut write = |fields: [&str; 6]| {
        lines.write_record(fields).map_err(|error| Fault::internal(error.to_string(), "catalogue"))
    };
    write(["kind", "id", "name", "key", "value", "source"])?;
    for entry in catalog.entries() {
        for figure in entry.sources {
            write([entry.kind, entry.id, entry.name, &figure.key, &figure.value, &figure.source])?;
        }
    }
    let bytes = lines.into_inner().map_err(|error| Fault::internal(error.to_string(), "catalogue"))?;
    Ok(csv_response("catalogue.csv", String::from_utf8_lossy(&bytes).into_owned()))
}

pub(super) async fn workloads() -> Response {
    let workloads: Vec<Value> = builtin_workloads()
        .iter()
        .map(|workload| {
            json!({
                "name": workload.name(),
                "title": workload.title,
                "source": workload.source,
                "writes": workload.spec.writes(),
                "own_iodepth": workload.spec.has_own_iodepth(),
            })
        })
        .collect();
    ok(&json!({ "schema": 1, "workloads": workloads }))
}
