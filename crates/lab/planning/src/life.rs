//! How many years an array's solid-state drives last under an application, from its simulated writes to flash.
//!
//! The run gives the writes to the members, with parity and copies, and their write amplification. They are counted at
//! what the host writes in a day, if that is told, else at its mean rate, else at the rate needed, else at what the array
//! does. Rated writes come from the drive's catalogue entry; `raidlab_advisor::risk::Endurance` has the formula.

use super::Bench;
use raidlab_advisor::plan::{Judged, Life};
use raidlab_advisor::risk::{Endurance, LossRules, random_amplification};
use raidlab_hardware::DriveModel;
use raidlab_workload::RunResult;
use raidlab_worlds::simulated::{FLASH_HOST_RATE, WRITE_AMPLIFICATION};
use serde::Serialize;

/// Years that makers mostly give a warranty for on drives for servers, which their drive writes per day are told for.
pub const WARRANTY_YEARS: f64 = 5.0;

const SECS_PER_DAY: f64 = 86_400.0;

/// How long the drives last under one application, or under all that run together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct DriveLife {
    /// What it is counted from, of each member on average.
    #[serde(flatten)]
    pub endurance: Endurance,
    /// Years until the rated writes are used up.
    pub years: f64,
    /// How far `years` is beyond [`WARRANTY_YEARS`], as a share of them; below zero it is less.
    pub margin: f64,
    /// Requests per second of all its applications that this is at: on average, or those needed, or what the array does where it does
    /// less or nothing is needed.
    pub iops: f64,
}

/// The shortest life under any of the runs.
pub(super) fn shortest(bench: &Bench<'_>, judged: &Judged, runs: &[RunResult]) -> Life {
    let drive = bench.models(judged.geometry).drive;
    let of_run = |(index, run)| match drive_life(bench, judged, index, run) {
        Some(life) => Life::Years(life.years),
        None if drive.is_flash() && drive.reliability.rated_writes.is_none() => Life::Unknown,
        None => Life::Endless,
    };
    let shorter = |one: Life, other: Life| match (one, other) {
        (Life::Unknown, _) | (_, Life::Unknown) => Life::Unknown,
        (Life::Years(a), Life::Years(b)) => Life::Years(a.min(b)),
        (years @ Life::Years(_), Life::Endless) | (Life::Endless, years) => years,
    };
    runs.iter().enumerate().map(of_run).fold(Life::Endless, shorter)
}

/// The life under run `index`, which is `run`; none where nothing is written or it is not known what may be.
pub(super) fn drive_life(
    bench: &Bench<'_>,
    judged: &Judged,
    index: usize,
    run: &RunResult,
) -> Option<DriveLife> {
    let (drive, needs) = (bench.models(judged.geometry).drive, &bench.order.needs);
    let rated = drive.reliability.rated_writes?;
    let apps = bench.order.apps_of(index);
    let share_of = |app: usize| {
        let does = judged.performance[app].iops;
        let needed = || needs.requests_per_sec(app, bench.demands[app].bytes_mean);
        let at = needs.mean_iops_of(app).or_else(needed);
        at.map_or(1.0, |at| (at / does).min(1.0))
    };
    let iops = apps.clone().map(|app| judged.performance[app].iops * share_of(app)).sum();
    // Each application at the pace that it needs, by what it writes of all.
    let written_by = |app: usize| match &run.parts[..] {
        [] => run.ops.write.bytes_per_sec.0,
        parts => parts[app - apps.start].ops.write.bytes_per_sec.0,
    };
    let by_host: f64 = apps.clone().map(written_by).sum();
    let paced: f64 = apps.clone().map(|app| written_by(app) * share_of(app)).sum();
    let pace = if by_host > 0.0 { paced / by_host } else { 1.0 };
    let members = f64::from(judged.geometry.members);
    let written = run.figures.get(FLASH_HOST_RATE).copied().filter(|rate| *rate > 0.0);
    let member_bytes_per_day = match (needs.written_per_day, written) {
        (None, written) => written? * pace * SECS_PER_DAY / members,
        (Some(per_day), Some(written)) if by_host > 0.0 => per_day * written / by_host / members,
        // A run that writes nothing tells nothing of how writes spread: each goes to its place and to each parity or copy.
        (Some(per_day), _) => per_day * small_writes(judged) / members,
    };
    let rated_amplification = rated_amplification(drive);
    let endurance = Endurance {
        rated_bytes: rated.0 as f64,
        rated_amplification,
        amplification: run.figures.get(WRITE_AMPLIFICATION).copied().unwrap_or(rated_amplification),
        member_bytes_per_day,
    };
    let years = endurance.years();
    Some(DriveLife { endurance, years, margin: years / WARRANTY_YEARS - 1.0, iops })
}

/// Bytes that members write for each byte of small writes.
fn small_writes(judged: &Judged) -> f64 {
    let Judged { geometry, .. } = judged;
    LossRules::of_level(geometry.level, geometry.members).map_or(1.0, |rules| rules.write_factors().small)
}

/// Write amplification that the maker's rating holds for: that of writes at random places.
pub(super) fn rated_amplification(drive: &DriveModel) -> f64 {
    drive.spare_room().map_or(1.0, random_amplification)
}
