//! How many years an array's solid-state drives last under an application, from its simulated writes to flash.
//!
//! The run gives the writes to the members, with parity and copies, and their write amplification. Rated writes come
//! from the drive's catalogue entry; `raidlab_advisor::risk::Endurance` has the formula.

use super::Bench;
use raidlab_advisor::plan::Judged;
use raidlab_advisor::risk::{Endurance, random_amplification};
use raidlab_hardware::DriveModel;
use raidlab_workload::RunResult;
use raidlab_worlds::simulated::{FLASH_HOST_RATE, WRITE_AMPLIFICATION};
use serde::Serialize;

/// Years that makers mostly give a warranty for on drives for servers, which their drive writes per day are told for.
pub const WARRANTY_YEARS: f64 = 5.0;

const SECS_PER_DAY: f64 = 86_400.0;

/// How long the drives last under one application, or under all that run together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DriveLife {
    /// What it is counted from, of each member on average.
    #[serde(flatten)]
    pub endurance: Endurance,
    /// Years until the rated writes are used up.
    pub years: f64,
    /// How far `years` is beyond [`WARRANTY_YEARS`], as a share of them; below zero it is less.
    pub margin: f64,
    /// Requests per second of all its applications that this is at: those needed, or what the array does where it does less or nothing is needed.
    pub iops: f64,
}

/// The life under run `index`, which is `run`; none where nothing is written or it is not known what may be.
pub(super) fn drive_life(
    bench: &Bench<'_>,
    judged: &Judged,
    index: usize,
    run: &RunResult,
) -> Option<DriveLife> {
    let drive = bench.models(judged.geometry).drive;
    let rated = drive.reliability.rated_writes?;
    let written = run.figures.get(FLASH_HOST_RATE).copied().filter(|rate| *rate > 0.0)?;
    let amplification = run.figures.get(WRITE_AMPLIFICATION).copied()?;
    let apps = bench.order.apps_of(index);
    let does: f64 = judged.performance[apps.clone()].iter().map(|it| it.iops).sum();
    let needed = |app: usize| {
        let does = judged.performance[app].iops;
        let needed = bench.order.needs.requests_per_sec(app, bench.demands[app].bytes_mean);
        needed.map_or(1.0, |needed| (needed / does).min(1.0))
    };
    // Who needs most of what it gets sets the pace of all.
    let iops = does * apps.map(needed).fold(0.0, f64::max);
    let endurance = Endurance {
        rated_bytes: rated.0 as f64,
        rated_amplification: rated_amplification(drive),
        amplification,
        member_bytes_per_day: written * iops / does * SECS_PER_DAY / f64::from(judged.geometry.members),
    };
    let years = endurance.years();
    Some(DriveLife { endurance, years, margin: years / WARRANTY_YEARS - 1.0, iops })
}

/// Write amplification that the maker's rating holds for: that of writes at random places.
fn rated_amplification(drive: &DriveModel) -> f64 {
    drive.spare_room().map_or(1.0, random_amplification)
}
