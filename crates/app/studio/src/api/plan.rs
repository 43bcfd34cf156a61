//! Plans: which arrays of the catalogue serve an application best.

use super::input::{Order, size, text, time};
use super::start;
use crate::StudioState;
use crate::command::CommandLine;
use crate::fault::{Fault, json_response};
use crate::job::JobKind;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use raidlab_hardware::Catalog;
use raidlab_workload::builtin_workloads;
use serde::Deserialize;
use std::sync::Arc;

/// What an array must do, and what it may be made of.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PlanOrder {
    app: String,
    usable: String,
    survive: Option<u16>,
    iops: Option<u32>,
    mib_per_sec: Option<u32>,
    mean_iops: Option<u32>,
    mean_response: Option<String>,
    bound: Option<String>,
    years: Option<u16>,
    written_per_day: Option<String>,
    growth: Option<u16>,
    keep_degraded: Option<u16>,
    loss_per_year: Option<f64>,
    goal: Option<String>,
    slots: Option<u16>,
    rack_units: Option<u16>,
    power: Option<u16>,
    kinds: Option<String>,
    levels: Option<String>,
    members: Option<String>,
    have: Option<String>,
    era: Option<String>,
    prices: Option<String>,
    budget: Option<u32>,
    drive: Option<String>,
    controller: Option<String>,
    simulations: Option<u16>,
    top: Option<u16>,
}

pub(super) async fn plan(
    State(studio): State<Arc<StudioState>>,
    Order { order, dry_run }: Order<PlanOrder>,
) -> Result<Response, Fault> {
    text("app", Some(&order.app))?;
    if !builtin_workloads().iter().any(|workload| workload.name() == order.app) {
        return Err(Fault::input("there is no such workload", "app", "take one of /api/workloads"));
    }
    size("usable", Some(&order.usable))?;
    size("written_per_day", order.written_per_day.as_ref())?;
    time("mean_response", order.mean_response.as_ref())?;
    let texts = [
        ("bound", &order.bound),
        ("kinds", &order.kinds),
        ("levels", &order.levels),
        ("members", &order.members),
        ("have", &order.have),
        ("era", &order.era),
        ("goal", &order.goal),
    ];
    for (field, value) in texts {
        text(field, value.as_ref())?;
    }
    if let Some(prices) = &order.prices {
        studio.folder.check("prices", prices)?;
    }
    is_known("drive", "drive", order.drive.as_ref())?;
    is_known("controller", "controller", order.controller.as_ref())?;
    let subject = format!("{}, {}", order.app, order.usable);
    let command = CommandLine::new(&["plan"])
        .option("--app", Some(order.app))
        .option("--usable", Some(order.usable))
        .option("--survive", order.survive)
        .option("--iops", order.iops)
        .option("--mib-per-sec", order.mib_per_sec)
        .option("--mean-iops", order.mean_iops)
        .option("--mean-response", order.mean_response)
        .option("--bound", order.bound)
        .option("--years", order.years)
        .option("--written-per-day", order.written_per_day)
        .option("--growth", order.growth)
        .option("--keep-degraded", order.keep_degraded)
        .option("--loss-per-year", order.loss_per_year)
        .option("--goal", order.goal)
        .option("--slots", order.slots)
        .option("--rack-units", order.rack_units)
        .option("--power", order.power)
        .option("--kinds", order.kinds)
        .option("--levels", order.levels)
        .option("--members", order.members)
        .option("--have", order.have)
        .option("--era", order.era)
        .option("--prices", order.prices)
        .option("--budget", order.budget)
        .option("--drives", order.drive)
        .option("--controllers", order.controller)
        .option("--simulations", order.simulations)
        .option("--top", order.top);
    // A plan with prices is made anew: the file may have changed.
    let is_fixed = !command.arguments().iter().any(|argument| argument.starts_with("--prices"));
    if let Some(job) = studio.jobs.same(&command).filter(|_| is_fixed && !dry_run) {
        return Ok(json_response(StatusCode::ACCEPTED, &job.view(0)));
    }
    start(&studio, JobKind::Plan, subject, command, dry_run)
}

/// Checks that the catalogue has an entry of this kind and name.
fn is_known(field: &str, kind: &str, id: Option<&String>) -> Result<(), Fault> {
    let catalog = Catalog::builtin();
    if id.is_none_or(|id| catalog.entries().any(|entry| entry.kind == kind && entry.id == id)) {
        return Ok(());
    }
    Err(Fault::input("the catalogue has nothing of that name", field, "take one of /api/catalogue"))
}
