//! The best arrays with a member missing, and while it is rebuilt.
//!
//! ```text
//!  rebuild   16 MiB of each member ─► rest, 7/3 as long ─► 16 MiB ─► rest ─► ...
//!  host      waits                    has the array        waits      has it
//! ```
//! A rebuild has [`REBUILD_SHARE`] of the time for itself, in slices, as hardware controllers promise it. So it ends however busy the host
//! is, and the host keeps the rest whatever the rebuild takes: members, links or the controller's processors. Both come from one run. md
//! has a rate instead: `sync_speed_min` and `sync_speed_max` at the rate that the slices came to.

use super::judge::{self, Pace, Window};
use super::reliability::{REBUILD_SHARE, RebuildRate};
use super::{Bench, PlanError, loss};
use raidlab_advisor::plan::{Judged, Performance};
use raidlab_advisor::risk::LossChance;
use raidlab_units::NanoSpan;
use raidlab_worlds::simulated::run_degraded;
use raidlab_worlds::{Load, ModelledArray};

/// Stripes that a rebuild has under way at most: enough for its rate on any array.
const REBUILD_IODEPTH: u32 = 256;

/// How much a rebuild walks over in its window at least, and how long the window may become by that.
const WALKED_LEAST: f64 = (10 * (16 << 20)) as f64;
const SECS_MAX: f64 = 10.0;

/// What it lasts on disks under random access at least: their write caches fill while a slice has the arms, and empty between slices.
const DISKS_SECS: f64 = 30.0;

/// What faults do; nothing where a level survives none.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) degraded: Vec<Performance>,
    pub(super) rebuilding: Vec<Performance>,
    /// Of the application beside which the rebuild takes longest.
    pub(super) rebuild: Option<Rebuild>,
}

/// A rebuild under a load.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub struct Rebuild {
    /// Time of all of it.
    pub hours: f64,
    /// What it walks over on each member, in bytes per second.
    pub bytes_per_sec: f64,
}

/// What the applications of a run get with a member missing, and while it is rebuilt.
pub(super) type OfRun = (Vec<Performance>, Vec<Performance>, Option<Rebuild>);

impl Faults {
    /// Takes in what faults did to the next applications.
    pub(super) fn add(&mut self, (degraded, rebuilding, rebuild): OfRun) {
        self.degraded.extend(degraded);
        self.rebuilding.extend(rebuilding);
        let both = self.rebuild.into_iter().chain(rebuild);
        self.rebuild = both.max_by(|one, other| one.hours.total_cmp(&other.hours));
    }

    /// What is left of `judged`, nothing where it survives none, and how likely it loses data with this rebuild.
    pub(super) fn take_in(&self, bench: &Bench<'_>, judged: &mut Judged) -> Option<LossChance> {
        let survives = judged.survives_always > 0;
        let left = || bench.degraded_share(&judged.performance, [&self.degraded, &self.rebuilding]);
        judged.degraded_share = Some(if survives { left() } else { 0.0 });
        let drive = bench.models(judged.geometry).drive_in_place();
        let chance = loss::of_array(&drive, judged.geometry, self.rebuild.map(|it| it.hours));
        judged.loss_per_year = chance.map(|it| it.per_year).or(judged.loss_per_year);
        chance
    }
}

impl Bench<'_> {
    /// Performance of the applications of a run with a member missing, and while it is rebuilt. Where less is left than asked for, those
    /// that get more than they need are held to it, as on the whole array.
    pub(super) fn faults(&self, judged: &Judged, (run, window): (usize, Window)) -> Result<OfRun, PlanError> {
        let free = self.faults_at(judged, (run, window), &judge::paces(self, judged, run))?;
        let share = |(degraded, rebuilding, _): &OfRun| {
            self.degraded_share(&judged.performance, [degraded, rebuilding])
        };
        let is_enough = self.order.needs.keep_degraded.is_none_or(|least| share(&free) >= least);
        let held = if is_enough { None } else { judge::held(self, judged, run) };
        let Some(held) = held else { return Ok(free) };
        let held = self.faults_at(judged, (run, window), &held)?;
        Ok(if share(&held) > share(&free) { held } else { free })
    }

    fn faults_at(
        &self,
        judged: &Judged,
        (run, window): (usize, Window),
        paces: &[Pace],
    ) -> Result<OfRun, PlanError> {
        let models = self.models(judged.geometry);
        let load = judge::load(self, judged, run, window, paces);
        let missing = self.array(judged, 0, window)?;
        let degraded = self.with_fault(judged, &missing, (&load, run, paces))?.0;
        let mut array = self.array(judged, judged.geometry.spares.max(1), window)?;
        let config = &mut array.config;
        config.resilience.scan_iodepth = config.resilience.scan_iodepth.max(REBUILD_IODEPTH);
        config.resilience.scan_bytes_per_sec = None;
        let rules = &mut config.cache.rules;
        (rules.scan_floor, rules.scan_share_pct) = (None, Some((100.0 * REBUILD_SHARE) as u8));
        let member_bytes = config.member_size.0 as f64;
        // Some slices are in the window, or it would be chance how much of it is a rest.
        let rate = RebuildRate::Share(REBUILD_SHARE).pace(&models.drive_in_place());
        let least = rate.map_or(SECS_MAX, |pace| WALKED_LEAST / pace.bytes_per_sec).min(SECS_MAX);
        let is_random = self.demands.iter().any(|demand| demand.random_share > 0.0);
        let least = if is_random && !models.drive.is_flash() { DISKS_SECS } else { least };
        let load = Load { run: load.run.max(NanoSpan::from_secs_f64(least)), ..load };
        let (rebuilding, hours) = self.with_fault(judged, &array, (&load, run, paces))?;
        // The window sees the outer edge of disks and the write buffers of flash; the whole is written no faster than `risk` has it.
        let hours = hours.map(|hours| rate.map_or(hours, |pace| hours.max(pace.hours)));
        let rebuild = hours.map(|hours| Rebuild { hours, bytes_per_sec: member_bytes / (hours * 3600.0) });
        Ok((degraded, rebuilding, rebuild))
    }

    /// What the applications get with a member gone, and the hours of its rebuild if there is a spare.
    fn with_fault(
        &self,
        judged: &Judged,
        array: &ModelledArray,
        (load, run, paces): (&Load, usize, &[Pace]),
    ) -> Result<(Vec<Performance>, Option<f64>), PlanError> {
        let (result, rebuild) =
            run_degraded(&self.models(judged.geometry), array, load).map_err(|source| {
                PlanError::Simulation {
                    label: format!("{} degraded, {}", self.label(judged.geometry), load.workload.name()),
                    source,
                }
            })?;
        Ok((self.performance(&result, run, paces), rebuild.map(|span| span.as_secs_f64() / 3600.0)))
    }
}
