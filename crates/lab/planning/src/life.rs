//! How many years an array's solid-state drives last under an application, from its simulated writes to flash.
//!
//! The run gives the writes to the members, with parity and copies, and their write amplification. They are counted at
//! what the host writes in a day, if that is told, else at its mean rate, else at the rate needed, else at what the array
//! does. Rated writes come from the drive's catalogue entry; `raidlab_advisor::risk::Endurance` has the formula.

use super::Bench;
use raidlab_advisor::plan::{Judged, Life};
use raidlab_advisor::risk::{Endurance, LossRules, RatedFlash, SECS_PER_DAY};
use raidlab_hardware::DriveModel;
use raidlab_workload::RunResult;
use raidlab_worlds::simulated::{FLASH_HOST_RATE, WRITE_AMPLIFICATION};
use serde::Serialize;

/// Years that makers mostly give a warranty for on drives for servers, which their drive writes per day are told for.
pub const WARRANTY_YEARS: f64 = 5.0;

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
    let rated = rated_flash(drive)?;
    let apps = bench.order.apps_of(index);
    let share_of = |app: usize| {
        let does = judged.performance[app].iops;
        let needed = || needs.requests_per_sec(app, bench.demands[app].bytes_mean);
        let at = needs.mean_iops_of(app).or(bench.order.applications[app].mean_iops).or_else(needed);
        at.map_or(1.0, |at| (at / does).min(1.0))
    };
    let iops = apps.clone().map(|app| judged.performance[app].iops * share_of(app)).sum();
    // Each application at the pace that it needs, by what it writes of all.
    let written_by = |app: usize| match &run.parts[..] {
        parts if bench.order.together && !parts.is_empty() => {
            parts[app - apps.start].ops.write.bytes_per_sec.0
        }
        _ => run.ops.write.bytes_per_sec.0,
    };
    let by_host: f64 = apps.clone().map(written_by).sum();
    let paced: f64 = apps.clone().map(|app| written_by(app) * share_of(app)).sum();
    let pace = if by_host > 0.0 { paced / by_host } else { 1.0 };
    let members = f64::from(judged.geometry.members);
    let written = run.figures.get(FLASH_HOST_RATE).copied().filter(|rate| *rate > 0.0);
    let member_bytes_per_day = match (needs.written_per_day, written) {
        (None, written) => written? * pace * SECS_PER_DAY / members,
        (Some(per_day), Some(written)) if by_host > 0.0 => per_day * written / by_host / members,
        // A run that writes nothing tells nothing of how writes spread.
        (Some(per_day), _) => per_day * write_factor(judged, needs.written_in_sequence) / members,
    };
    let found = run.figures.get(WRITE_AMPLIFICATION).copied();
    let found = found.or(needs.written_in_sequence.then_some(1.0));
    let endurance = Endurance {
        rated_bytes: rated.rated_bytes,
        rated_amplification: rated.amplification(),
        amplification: found.map_or_else(|| rated.amplification(), |found| rated.amplification_of(found)),
        member_bytes_per_day,
    };
    let years = endurance.years();
    Some(DriveLife { endurance, years, margin: years / WARRANTY_YEARS - 1.0, iops })
}

/// Bytes that members write for each byte: in whole stripes, or in small writes, of which each goes to its place and to each parity or
/// copy.
fn write_factor(judged: &Judged, in_sequence: bool) -> f64 {
    let rules = LossRules::of_level(judged.geometry.level, judged.geometry.members);
    let factors = rules.map(|rules| rules.write_factors());
    factors.map_or(1.0, |factors| if in_sequence { factors.whole_stripes } else { factors.small })
}

/// What its maker allows to be written, and the flash behind it; none of disks, and of flash that nobody rates.
pub(super) fn rated_flash(drive: &DriveModel) -> Option<RatedFlash> {
    let rated = drive.reliability.rated_writes.filter(|_| drive.is_flash())?;
    Some(RatedFlash {
        rated_bytes: rated.0 as f64,
        capacity: drive.capacity.bytes().0 as f64,
        spare: drive.spare_room(),
        bits_per_cell: drive.bits_per_cell(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_advisor::risk::DAYS_PER_YEAR;
    use raidlab_hardware::Catalog;
    use std::collections::BTreeMap;

    /// Full drive writes of TBW, or of drive writes a day over the warranty, by drive, as sheets have them.
    fn promised() -> BTreeMap<&'static str, f64> {
        let mut lines = include_str!("../../../../validation/drive-sheets.tsv").lines();
        let names: Vec<&str> = lines.next().expect("a head").split('\t').collect();
        let column = |name: &str| names.iter().position(|it| *it == name).expect("a column");
        let (capacity, per_day, total) = (column("capacity"), column("dwpd"), column("tbw_tb"));
        let promised = lines.filter_map(|line| {
            let cells: Vec<&str> = line.split('\t').collect();
            let terabytes: f64 = cells[capacity].strip_suffix("TB")?.parse().ok()?;
            let by_total = cells[total].parse().ok().map(|total: f64| total / terabytes);
            let by_days = cells[per_day].parse().ok().map(|days: f64| days * WARRANTY_YEARS * 365.0);
            Some((cells[0], by_total.or(by_days)?))
        });
        promised.collect()
    }

    /// A drive that is written as its maker allows lasts as long as its warranty; one that is written in sequence no longer than its
    /// cells.
    #[test]
    fn every_drive_lasts_its_warranty() {
        let (catalog, promised) = (Catalog::builtin(), promised());
        let (mut rated_drives, mut on_sheets) = (0, 0);
        for drive in catalog.drives() {
            let Some(rated) = rated_flash(drive) else { continue };
            let years = |amplification, member_bytes_per_day| {
                let endurance = Endurance {
                    rated_bytes: rated.rated_bytes,
                    rated_amplification: rated.amplification(),
                    amplification: rated.amplification_of(amplification),
                    member_bytes_per_day,
                };
                endurance.years()
            };
            let per_day = rated.rated_bytes / WARRANTY_YEARS / DAYS_PER_YEAR;
            let at_random = years(rated.modelled(), per_day);
            assert!((at_random / WARRANTY_YEARS - 1.0).abs() < 1e-6, "{}: {at_random} years", drive.id);
            let cycles = years(1.0, rated.capacity) * DAYS_PER_YEAR / (1.0 + rated.spare.unwrap_or(0.0));
            let most = match rated.bits_per_cell {
                1 => 100_000.0,
                2 => 10_000.0,
                3 => 5000.0,
                _ => 1500.0,
            };
            let most = f64::max(most, rated.rated_bytes / rated.capacity);
            assert!((100.0..=1.0001 * most).contains(&cycles), "{}: {cycles} erase cycles", drive.id);
            rated_drives += 1;
            let Some(promised) = promised.get(&*drive.id) else { continue };
            let share = rated.rated_bytes / rated.capacity / promised;
            // Warranties of 3 years are 0.6 of those of 5.
            assert!((0.59..1.25).contains(&share), "{}: {share} of what its sheet promises", drive.id);
            on_sheets += 1;
        }
        assert!(rated_drives > 60 && on_sheets > 50, "{rated_drives}, {on_sheets} with a sheet");
    }
}
