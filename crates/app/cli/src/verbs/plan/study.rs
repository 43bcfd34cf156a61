//! A study of a plan's best arrays: each as a real software array over files, and simulated, under the same load.
//!
//! `raidlab study` makes the arrays, measures them and shows predicted and measured figures side by side. The files are
//! rarely on the planned hardware: the figures agree only if the folder is on the plan's drives (`raidlab calibrate`).

use crate::failure::Failure;
use raidlab_planning::{PlanOrder, Planned};
use raidlab_units::ByteCount;
use raidlab_workload::builtin_workload;
use raidlab_worlds::check_iodepths;
use serde::Serialize;

/// Members of the real arrays hold so much, and one more strip.
const MEMBER: ByteCount = ByteCount::from_mib(128);

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct StudyFile<'a> {
    schema: u32,
    title: String,
    question: String,
    seed: u64,
    load: Load<'a>,
    array: Vec<Real>,
    simulate: Vec<Simulated<'a>>,
}

#[derive(Serialize)]
struct Load<'a> {
    workloads: Vec<&'a str>,
    /// None where all workloads have their own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    iodepths: Vec<u32>,
    ramp: &'static str,
    run: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Real {
    directory: &'static str,
    levels: [String; 1],
    members: u16,
    member_size: String,
    strip_size: String,
    write_policies: [&'static str; 1],
    disk_cache: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Simulated<'a> {
    controller: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    enclosure: Option<&'a str>,
    drive: &'a str,
    levels: [String; 1],
    members: u16,
    strip_size: String,
    write_policies: [&'static str; 1],
    disk_cache: bool,
    region: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    condition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fill: Option<u8>,
}

/// The study file of `top`, in TOML.
pub(super) fn study(top: &[Planned], order: &PlanOrder<'_>) -> Result<String, Failure> {
    let names: Vec<&str> = order.applications.iter().map(|app| app.workload.name()).collect();
    if let Some(unknown) = names.iter().find(|name| builtin_workload(name).is_err()) {
        let problem = anyhow::anyhow!("'{unknown}' is no built-in workload, which a study needs to name it");
        return Err(Failure::input(problem).with_hint("'raidlab workloads' lists them all"));
    }
    let mut iodepths: Vec<u32> =
        top.iter().flat_map(|one| one.judged.performance.iter().map(|it| it.iodepth)).collect();
    iodepths.sort_unstable();
    iodepths.dedup();
    if check_iodepths(order.applications.iter().map(|app| &app.workload)).is_err() {
        iodepths.clear();
    }
    let file = StudyFile {
        schema: 1,
        title: format!("Plan for {}", names.join(", ")),
        question: "Does the planned array do for real what it does in the simulation?".to_owned(),
        seed: order.seed,
        load: Load { workloads: names, iodepths, ramp: "2s", run: "5s" },
        array: top.iter().map(real).collect(),
        simulate: top.iter().map(|one| simulated(one, order)).collect(),
    };
    toml::to_string(&file).map_err(Failure::run)
}

fn policy(one: &Planned) -> [&'static str; 1] {
    [one.write_policy.name()]
}

fn real(one: &Planned) -> Real {
    Real {
        directory: "plan-data",
        levels: [one.judged.geometry.level.to_string()],
        members: one.judged.geometry.members,
        member_size: MEMBER.to_string(),
        strip_size: one.strip.to_string(),
        write_policies: policy(one),
        disk_cache: one.judged.settings.disk_cache,
    }
}

fn simulated<'a>(one: &'a Planned, order: &PlanOrder<'_>) -> Simulated<'a> {
    Simulated {
        controller: &one.parts.controller,
        enclosure: one.parts.enclosure.as_deref(),
        drive: &one.parts.drive,
        levels: [one.judged.geometry.level.to_string()],
        members: one.judged.geometry.members,
        strip_size: one.strip.to_string(),
        write_policies: policy(one),
        disk_cache: one.judged.settings.disk_cache,
        region: format!("{} B", order.needs.usable.0),
        condition: one.array.condition.map(|condition| condition.to_string()),
        fill: one.array.fill,
    }
}
