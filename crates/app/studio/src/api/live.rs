//! Measurements and soaks of files in the folder.
//!
//! `raidlab measure` and `raidlab soak` themselves decide whether a file may be overwritten: a file with data must be
//! named again in `destroy_data`.

use super::input::{Order, size, text, time};
use super::{other_db, start};
use crate::StudioState;
use crate::command::CommandLine;
use crate::fault::Fault;
use crate::job::JobKind;
use axum::extract::State;
use axum::response::Response;
use raidlab_report::shortened;
use raidlab_workload::builtin_workloads;
use serde::Deserialize;
use std::sync::Arc;

/// What to measure.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MeasureOrder {
    target: String,
    workload: String,
    iodepth: Option<String>,
    block_size: Option<String>,
    ramp: Option<String>,
    run: Option<String>,
    size: Option<String>,
    bound: Option<String>,
    destroy_data: Option<String>,
    #[serde(default)]
    remove: bool,
}

/// What to soak.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SoakOrder {
    target: String,
    size: Option<String>,
    time: Option<String>,
    volume: Option<String>,
    passes: Option<u32>,
    rate: Option<String>,
    #[serde(default)]
    write: bool,
    #[serde(default)]
    rewrite: bool,
    destroy_data: Option<String>,
}

pub(super) async fn measure(
    State(studio): State<Arc<StudioState>>,
    Order { order, dry_run }: Order<MeasureOrder>,
) -> Result<Response, Fault> {
    studio.folder.check("target", &order.target)?;
    if !builtin_workloads().iter().any(|workload| workload.name() == order.workload) {
        let what = format!("there is no workload '{}'", shortened(&order.workload, 60));
        return Err(Fault::input(what, "workload", "take one of /api/workloads"));
    }
    text("iodepth", order.iodepth.as_ref())?;
    text("block_size", order.block_size.as_ref())?;
    text("bound", order.bound.as_ref())?;
    time("ramp", order.ramp.as_ref())?;
    time("run", order.run.as_ref())?;
    size("size", order.size.as_ref())?;
    is_named("destroy_data", order.destroy_data.as_ref(), &order.target)?;
    let command = CommandLine::new(&["measure"])
        .values(std::slice::from_ref(&order.target))
        .option("--workload", Some(&order.workload))
        .option("--iodepth", order.iodepth)
        .option("--block-size", order.block_size)
        .option("--ramp", order.ramp)
        .option("--run", order.run)
        .option("--size", order.size)
        .option("--bound", order.bound)
        .option("--destroy-data", order.destroy_data)
        .flag("--remove", order.remove)
        .option("--db", other_db(&studio.db));
    start(&studio, JobKind::Measure, format!("{}, {}", order.target, order.workload), command, dry_run)
}

pub(super) async fn soak(
    State(studio): State<Arc<StudioState>>,
    Order { order, dry_run }: Order<SoakOrder>,
) -> Result<Response, Fault> {
    studio.folder.check("target", &order.target)?;
    time("time", order.time.as_ref())?;
    for (field, value) in [("size", &order.size), ("volume", &order.volume), ("rate", &order.rate)] {
        size(field, value.as_ref())?;
    }
    is_named("destroy_data", order.destroy_data.as_ref(), &order.target)?;
    let command = CommandLine::new(&["soak"])
        .values(std::slice::from_ref(&order.target))
        .option("--size", order.size)
        .option("--time", order.time)
        .option("--volume", order.volume)
        .option("--passes", order.passes)
        .option("--rate", order.rate)
        .flag("--write", order.write)
        .flag("--rewrite", order.rewrite)
        .option("--destroy-data", order.destroy_data)
        .option("--db", Some(studio.db.display()));
    start(&studio, JobKind::Soak, order.target, command, dry_run)
}

/// Checks that what may be destroyed is what is written to, and nothing else.
pub(super) fn is_named(field: &str, named: Option<&String>, target: &str) -> Result<(), Fault> {
    if named.is_none_or(|named| named == target) {
        return Ok(());
    }
    let what = "it is not the name of what would be written over";
    Err(Fault::input(what, field, format!("leave it out, or write '{target}' to have its data destroyed")))
}
