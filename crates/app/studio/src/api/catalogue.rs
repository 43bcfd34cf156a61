//! The modelled hardware, every figure with its source, and the workloads.

use super::{SCHEMA, ok};
use crate::fault::{Fault, csv_response};
use axum::response::Response;
use raidlab_hardware::{Catalog, CatalogEntry};
use raidlab_workload::builtin_workloads;
use serde::Serialize;

#[derive(Serialize)]
struct EntryList<'a> {
    schema: u32,
    entries: Vec<CatalogEntry<'a>>,
}

#[derive(Serialize)]
struct WorkloadList {
    schema: u32,
    workloads: Vec<NamedWorkload>,
}

#[derive(Serialize)]
struct NamedWorkload {
    name: String,
    title: String,
    source: String,
    writes: bool,
    own_iodepth: bool,
}

pub(super) async fn list() -> Response {
    let catalog = Catalog::builtin();
    ok(&EntryList { schema: SCHEMA, entries: catalog.entries().collect() })
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
    let workloads = builtin_workloads()
        .into_iter()
        .map(|workload| NamedWorkload {
            name: workload.name().to_owned(),
            writes: workload.spec.writes(),
            own_iodepth: workload.spec.has_own_iodepth(),
            title: workload.title,
            source: workload.source,
        })
        .collect();
    ok(&WorkloadList { schema: SCHEMA, workloads })
}
