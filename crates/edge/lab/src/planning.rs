//! Plans: arithmetic first, then simulation of what is left, longer for fewer, until a ranking stands.
//!
//! ```text
//! catalogue, prices ─► parts ─► enumeration ─► families ─► short runs ─► settings ─► long runs of the best
//!                                 (arithmetic)  (drive, controller, level, …)          + degraded + rebuilding + risk
//! ```
//! - **A family** differs in the number of members only. With a throughput need its fewest members that arithmetic allows are
//!   run first; where they miss the need, as many more as they miss it by, a few times at most. Without such a need
//!   its most members are run.
//! - **Order and end.** Families are run in order of what they take at least (cost, else drives), or of what they do at best.
//!   Both are bounds, so that the search may end once enough arrays are found that no later family can beat.
//! - **Settings** are tried all, one by one, on the best geometries: what a cache, a strip or a write policy does is found out
//!   and not assumed.
//! - Each application is run alone, and the array must serve each of them.
//!
//! The same orders give the same plan, on any number of threads and hosts.

mod choose;
mod judge;
mod parts;
mod prices;
mod reason;
mod shortlist;

pub use parts::{default_levels, default_settings};
pub use prices::{PriceError, Prices};

use crate::arrays::{ModelledArray, ModelledSettings, Models, Parts};
use crate::cache::CacheSettings;
use crate::reliability::{REBUILD_SHARE, RebuildRate, annual_failure_share, bits_per_read_error};
use crate::worlds::simulated::{SimulatedError, name_bottleneck, run_degraded};
use raidlab_advisor::plan::{
    Geometry, Judged, Margins, Needs, ParetoPoint, PartList, Performance, Rejection, Relaxation, Request,
    Space, enumerate, estimate::Demand, near_misses, pareto, relaxations,
};
use raidlab_advisor::risk::{
    FLASH_BLOCKS_PER_ERROR, FLASH_LATENT_ERRORS_PER_YEAR, FOLLOW_DAYS, LATENT_ERRORS_PER_YEAR, LossChance,
    Risk, RiskSpec,
};
use raidlab_controller::{ConfigError, ReadPolicy, Resilience, WritePolicy};
use raidlab_hardware::{Catalog, CatalogError, DriveModel, YearRange};
use raidlab_hosts::{Hosts, HostsError, all_processors};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessSpec, BottleneckFacts, RunResult, Workload};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Instant;

/// How often a family may grow after it missed a need.
const GROWTHS_MAX: u32 = 3;

/// Stripes that a rebuild has under way at most, and how many times as many it is given where it does not get its rate.
const REBUILD_IODEPTH_MAX: u32 = 256;
const REBUILD_IODEPTH_STEP: u32 = 4;

/// A rebuild that takes so many times as long as at its reserved rate starves.
const STARVED: f64 = 1.1;

/// How far it all is, about, when the parts are known.
const PARTS_SHARE: f64 = 0.05;

/// What to plan.
#[derive(Debug)]
pub struct PlanOrder<'a> {
    /// The hardware there is.
    pub catalog: &'a Catalog,
    /// Prices and powers.
    pub prices: &'a Prices,
    /// What the array must do.
    pub needs: Needs,
    /// The applications; at least one.
    pub applications: &'a [Application],
    /// Years of the parts to choose from where these are not named.
    pub era: YearRange,
    /// Drives to choose from; all of the era if empty.
    pub drives: &'a [String],
    /// Controllers to choose from; all of the era if empty.
    pub controllers: &'a [String],
    /// Enclosures to choose from; all of the era if empty, or all that there are for controllers that are named.
    pub enclosures: &'a [String],
    /// Levels, counts, spares and settings.
    pub space: Space,
    /// Geometries to simulate at most, or a few more; their settings and the longer runs of the best come to it.
    pub simulations_max: usize,
    /// How many to tell of.
    pub top: usize,
    /// Threads; all processors if none.
    pub threads: Option<NonZeroUsize>,
    /// Seed of everything random.
    pub seed: u64,
}

/// What the array is for.
#[derive(Clone, Debug)]
pub struct Application {
    /// What is asked.
    pub workload: Workload,
    /// Requests in flight.
    pub iodepth: u32,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The catalogue lacks a part.
    #[error(transparent)]
    UnknownPart(#[from] CatalogError),
    /// A drive that was asked for can't be a member.
    #[error("drive '{drive}' is host-managed: arrays here write anywhere, which it refuses; leave it out")]
    HostManaged {
        /// Name of the drive.
        drive: String,
    },
    /// The controller refuses an array that arithmetic allows.
    #[error("{label} can't be: {source}")]
    Impossible {
        /// Which.
        label: String,
        /// What is against it.
        source: ConfigError,
    },
    /// An array can't be simulated.
    #[error("{label} can't be simulated: {source}")]
    Simulation {
        /// Which.
        label: String,
        /// What is against it.
        source: SimulatedError,
    },
    /// The ranks can't go on together.
    #[error(transparent)]
    Hosts(#[from] HostsError),
}

/// A plan.
#[derive(Debug)]
pub struct PlanOutcome {
    /// Candidates that arithmetic looked at.
    pub candidates: u64,
    /// Of them, those that it rejected, by reason.
    pub rejected: BTreeMap<Rejection, u64>,
    /// Geometries that it kept.
    pub kept: u64,
    /// Time that it took, in seconds.
    pub arithmetic_secs: f64,
    /// Arrays that were simulated, each number of settings counted.
    pub simulated: u64,
    /// Geometries that were kept and not simulated, because enough were; they may be better.
    pub left_out: u64,
    /// Geometries that were kept and not simulated, because they can't beat those that were.
    pub beaten: u64,
    /// The best, best first; those that keep all needs before those that do not.
    pub top: Vec<Planned>,
    /// Every array that was simulated, with its best settings, in words.
    pub others: Vec<(String, Judged)>,
    /// The arrays of `others` in the chart of performance against effort.
    pub pareto: Vec<ParetoPoint>,
    /// Whether effort is money; else it is drives.
    pub has_prices: bool,
    /// Where nothing fits, which single need would have to give how far, the smallest change first.
    pub relaxations: Vec<Relaxation>,
}

/// One of the best.
#[derive(Debug)]
pub struct Planned {
    /// In words: `RAID 10 x8 of st3600057ss, perc-h800, md1200`.
    pub label: String,
    /// Settings in words.
    pub settings_label: String,
    /// Its parts by their names in the catalogue.
    pub parts: Parts,
    /// Length of its strips.
    pub strip: ByteCount,
    /// What was judged.
    pub judged: Judged,
    /// How far it is from the needs.
    pub margins: Margins,
    /// Whether it keeps all of them.
    pub keeps_needs: bool,
    /// The run of each application.
    pub runs: Vec<RunResult>,
    /// The same with a member missing; none where the level has no redundancy.
    pub degraded: Vec<Performance>,
    /// The same while that member is rebuilt.
    pub rebuilding: Vec<Performance>,
    /// Time of the rebuild under that load, in hours, from how far it came; the longest of all applications. It has a reserved
    /// rate: `rebuilding` is what service keeps beside it.
    pub rebuild_hours: Option<f64>,
    /// Chance of data loss, where the catalogue knows how often the drives fail.
    pub risk: Option<LossChance>,
    /// Why it stands where it stands.
    pub reason: String,
}

impl PlanOutcome {
    /// Whether some array keeps all needs.
    pub fn fits(&self) -> bool {
        self.top.first().is_some_and(|best| best.keeps_needs)
    }
}

/// Makes the plan on the threads of `hosts`. `progress` is told what is being done, and about how much of it is done.
///
/// # Errors
/// [`PlanError`] if a part is not known, an array can't be simulated or a rank is lost.
pub fn plan(
    order: &PlanOrder<'_>,
    hosts: &mut Hosts,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<PlanOutcome, PlanError> {
    let mut crew = Crew { hosts, threads: order.threads.unwrap_or_else(all_processors), progress };
    let parts = parts::of_order(order, &mut crew)?;
    let demands: Vec<Demand> = order.applications.iter().map(|app| demand_of(&app.workload.spec)).collect();
    let request = Request { needs: &order.needs, demands: &demands, space: &order.space, parts: &parts };
    let started = Instant::now();
    let enumeration = enumerate(&request);
    let arithmetic_secs = started.elapsed().as_secs_f64();
    let bench = Bench { order, parts: &parts, demands: &demands };
    let chosen = choose::choose(&bench, &enumeration.kept, crew)?;
    let others: Vec<(String, Judged)> =
        chosen.all.into_iter().map(|judged| (bench.label(judged.geometry), judged)).collect();
    let judged: Vec<Judged> = others.iter().map(|(_, judged)| judged.clone()).collect();
    let relaxations = match &judged[..] {
        [] => relaxations(&request),
        some if some.iter().any(|one| one.keeps(&order.needs)) => Vec::new(),
        some => near_misses(some, &order.needs),
    };
    let kept = enumeration.kept.len() as u64;
    Ok(PlanOutcome {
        candidates: enumeration.candidates,
        rejected: enumeration.rejected,
        kept,
        arithmetic_secs,
        simulated: chosen.simulated,
        left_out: chosen.left_out,
        beaten: kept.saturating_sub(judged.len() as u64 + chosen.left_out),
        top: chosen.top,
        pareto: pareto(&judged, &order.needs),
        has_prices: judged.iter().all(|one| one.cost.is_some()),
        others,
        relaxations,
    })
}

/// What an application asks on average, parts and lines alike; of a trace, what its summary counts.
pub(crate) fn demand_of(spec: &AccessSpec) -> Demand {
    if let Some(trace) = &spec.trace {
        let summary = trace.summary();
        return Demand {
            read_share: summary.read_pct().unwrap_or(100.0) / 100.0,
            random_share: 1.0 - summary.sequential_pct / 100.0,
            bytes_mean: summary.length_bytes_mean().unwrap_or(4096.0).max(512.0),
        };
    }
    let (mut weight, mut reads, mut random, mut bytes) = (0.0, 0.0, 0.0, 0.0);
    for line in spec.all_lines() {
        let share = f64::from(line.share_pct);
        weight += share;
        reads += share * f64::from(line.read_pct) / 100.0;
        random += share * f64::from(line.random_pct) / 100.0;
        bytes += share * f64::from(line.bytes);
    }
    Demand { read_share: reads / weight, random_share: random / weight, bytes_mean: bytes / weight }
}

/// Who does the work, and who is told of it.
struct Crew<'a> {
    hosts: &'a mut Hosts,
    threads: NonZeroUsize,
    /// Told what is being done, and about how much of all is done.
    progress: &'a mut dyn FnMut(&str, f64),
}

/// How far it all is when some work begins, and when it is done.
#[derive(Clone, Copy)]
struct Stage<'a> {
    label: &'a str,
    from: f64,
    to: f64,
}

impl Crew<'_> {
    /// Does `count` jobs; the results are in order.
    fn on_all<T: Send + Serialize + DeserializeOwned>(
        &mut self,
        stage: Stage<'_>,
        count: usize,
        job: impl Fn(usize) -> Result<T, PlanError> + Sync,
    ) -> Result<Vec<T>, PlanError> {
        let mut done = 0;
        let Self { hosts, threads, progress } = self;
        progress(stage.label, stage.from);
        let results = hosts.share_all((count, *threads), job, |_, _| {
            done += 1;
            progress(stage.label, stage.from + (stage.to - stage.from) * f64::from(done) / count as f64);
        });
        results?.into_iter().collect()
    }
}

/// What happens to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Missing,
    Rebuilt,
}

impl Fault {
    const ALL: [Self; 2] = [Self::Missing, Self::Rebuilt];
}

/// What faults do; nothing where a level survives none.
#[derive(Debug, Default)]
struct Faults {
    degraded: Vec<Performance>,
    rebuilding: Vec<Performance>,
    rebuild_hours: Option<f64>,
}

impl Faults {
    /// Takes in what a fault did to the next application.
    fn add(&mut self, fault: Fault, performance: Performance, rebuild: Option<NanoSpan>) {
        match fault {
            Fault::Missing => self.degraded.push(performance),
            Fault::Rebuilt => {
                self.rebuilding.push(performance);
                let hours = rebuild.map(|span| span.as_secs_f64() / 3600.0);
                self.rebuild_hours = self.rebuild_hours.into_iter().chain(hours).reduce(f64::max);
            }
        }
    }
}

/// What is needed to simulate candidates.
struct Bench<'a> {
    order: &'a PlanOrder<'a>,
    parts: &'a PartList,
    demands: &'a [Demand],
}

impl Bench<'_> {
    /// In words.
    fn label(&self, geometry: Geometry) -> String {
        let drive = &self.parts.drives[usize::from(geometry.drive)].id;
        let controller = &self.parts.controllers[usize::from(geometry.controller)].id;
        let spares = match geometry.spares {
            0 => String::new(),
            some => format!(" + {some} spare"),
        };
        let enclosure = geometry.enclosure.map(|index| &self.parts.enclosures[usize::from(index)].id);
        let enclosure = enclosure.map_or_else(String::new, |id| format!(", {id}"));
        format!("RAID {} x{}{spares} of {drive}, {controller}{enclosure}", geometry.level, geometry.members)
    }

    fn models(&self, geometry: Geometry) -> Models<'_> {
        let catalog = self.order.catalog;
        let known = "parts come from the catalogue";
        let drive = &self.parts.drives[usize::from(geometry.drive)].id;
        let controller = &self.parts.controllers[usize::from(geometry.controller)].id;
        let enclosure = geometry.enclosure.map(|enclosure| &self.parts.enclosures[usize::from(enclosure)].id);
        Models {
            controller: catalog.controller(controller).expect(known),
            enclosure: enclosure.map(|id| catalog.enclosure(id).expect(known)),
            drive: catalog.drive(drive).expect(known),
        }
    }

    /// The array, with as much of it in use as the host needs.
    fn array(&self, judged: &Judged, spares: u16, window: judge::Window) -> Result<ModelledArray, PlanError> {
        let Judged { geometry, settings, .. } = *judged;
        let read_policy = if settings.read_ahead { ReadPolicy::Adaptive } else { ReadPolicy::NoReadAhead };
        let modelled = ModelledSettings {
            level: geometry.level,
            members: geometry.members,
            write_policy: if settings.write_back {
                WritePolicy::WriteBack
            } else {
                WritePolicy::WriteThrough
            },
            strip_size: settings.strip,
            disk_cache: Some(settings.disk_cache),
            cache: CacheSettings {
                size: Some(judge::cache_size(self, geometry, window)),
                read_policy: Some(read_policy),
                ..CacheSettings::default()
            },
            resilience: Resilience { spares, ..Resilience::default() },
        };
        let array = ModelledArray::new(&self.models(geometry), &modelled)
            .map_err(|source| PlanError::Impossible { label: self.label(geometry), source })?;
        let block = array.config.block_size.bytes();
        let region = ByteCount(self.order.needs.usable.0.div_ceil(block) * block).min(array.usable);
        Ok(ModelledArray { region, ..array })
    }

    /// Performance of an application with a member missing, and the time of its rebuild if it is rebuilt.
    ///
    /// A rebuild has a reserved rate, [`REBUILD_SHARE`] of each member's time, as controllers have it and md's least rate does:
    /// where it gets less beside a load, it has more and more stripes under way, until it has that rate and no more. So many times as
    /// many stripes are at most so many times as fast, so steps that can't be enough are passed over.
    fn fault(
        &self,
        judged: &Judged,
        app: usize,
        fault: Fault,
    ) -> Result<(Performance, Option<NanoSpan>), PlanError> {
        let models = self.models(judged.geometry);
        let load = judge::load(self, judged, app, judge::Window::Fault, judged.performance[app].iodepth);
        let spares = if fault == Fault::Missing { 0 } else { judged.geometry.spares.max(1) };
        let mut array = self.array(judged, spares, judge::Window::Fault)?;
        let name = self.order.applications[app].workload.name();
        let label = || format!("{} degraded, {name}", self.label(judged.geometry));
        let reserved = RebuildRate::Share(REBUILD_SHARE).pace(models.drive);
        loop {
            let (result, rebuild) = run_degraded(&models, &array, &load)
                .map_err(|source| PlanError::Simulation { label: label(), source })?;
            let resilience = &mut array.config.resilience;
            let too_long = |hours: f64| {
                rebuild.map_or(f64::INFINITY, |span| span.as_secs_f64() / 3600.0 / (hours * STARVED))
            };
            let starved =
                reserved.filter(|_| fault == Fault::Rebuilt).map(|pace| (pace, too_long(pace.hours)));
            let Some((pace, mut too_long)) = starved
                .filter(|(_, too_long)| *too_long > 1.0 && resilience.sweep_iodepth < REBUILD_IODEPTH_MAX)
            else {
                return Ok((judge::performance(&result), rebuild));
            };
            resilience.sweep_bytes_per_sec = Some(ByteCount(pace.bytes_per_sec as u64));
            while too_long > 1.0 && resilience.sweep_iodepth < REBUILD_IODEPTH_MAX {
                resilience.sweep_iodepth *= REBUILD_IODEPTH_STEP;
                too_long /= f64::from(REBUILD_IODEPTH_STEP);
            }
        }
    }

    /// What sets the pace of an application on an array. Found on runs as they tell candidates apart: their cache is smaller and
    /// full sooner, and what sets the pace is the same.
    fn bottleneck(&self, judged: &Judged, app: usize) -> Result<BottleneckFacts, PlanError> {
        let array = self.array(judged, judged.geometry.spares, judge::Window::Short)?;
        let load = judge::load(self, judged, app, judge::Window::Short, judged.performance[app].iodepth);
        name_bottleneck(&self.models(judged.geometry), &array, &load).map_err(|source| {
            PlanError::Simulation {
                label: format!("{}, {}", self.label(judged.geometry), load.label()),
                source,
            }
        })
    }

    /// The chance of data loss, where the catalogue knows the drives well enough.
    fn risk(&self, geometry: Geometry, rebuild_hours: Option<f64>) -> Option<LossChance> {
        let drive: &DriveModel = self.models(geometry).drive;
        let least = drive.full_write_time().map(|time| time.as_secs_f64() / 3600.0);
        let hours = rebuild_hours.into_iter().chain(least).reduce(f64::max)?;
        let is_flash = drive.is_flash();
        let bits = if is_flash { None } else { Some(bits_per_read_error(drive)?.range.value) };
        let latent = if is_flash { FLASH_LATENT_ERRORS_PER_YEAR } else { LATENT_ERRORS_PER_YEAR };
        let spec = RiskSpec {
            level: geometry.level,
            members: geometry.members,
            annual_failure_share: annual_failure_share(drive)?.range.value,
            bits_per_read_error: bits,
            latent_errors_per_year: latent.value,
            blocks_per_latent_error: if is_flash { FLASH_BLOCKS_PER_ERROR } else { 1.0 },
            capacity: drive.capacity.bytes(),
            rebuild_hours: hours.clamp(0.1, 1e6),
            spares: geometry.spares,
            replace_hours: 24.0,
            check_days: Some(7.0),
            followed_share: 0.0,
            follow_days: FOLLOW_DAYS,
        };
        Some(Risk::new(&spec).ok()?.markov())
    }
}

#[cfg(test)]
mod tests;
