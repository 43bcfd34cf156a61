//! Plans: which arrays serve given applications best. Arithmetic rejects most candidates, short simulations rank the
//! rest, and long ones confirm the best.
//!
//! ```
//! use raidlab_hardware::Catalog;
//! use raidlab_planning::{RiskQuery, risk};
//!
//! let catalog = Catalog::builtin();
//! let report = risk(&RiskQuery::new("6".parse()?, 8), Some(catalog.drive("exos-x24-24tb")?))?;
//! assert!(report.markov.per_year < 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! catalogue, prices ─► parts ─► enumeration ─► frontier ⇄ short runs ─► long runs of the best
//!                               (arithmetic)   (bounds)                 + degraded + rebuilding + risk
//! ```
//! - **The search** is [`raidlab_advisor::plan::Frontier`]'s: arrays that can't beat the best even at their bound are
//!   not run, and the most promising of the rest comes first. It ends when nothing is left, or with its budget.
//! - **Settings** are all tried, one by one, on arrays that may be the best: the effect of a cache, a strip or a write
//!   policy is simulated and not assumed. Settings that lose acknowledged writes in a power failure are left out unless
//!   the order allows them.
//! - **Applications** are run one by one, and the array must serve each of them; or all at the same time, and it must
//!   serve all at once.
//!
//! The same order gives the same plan on any number of threads and hosts, unless its time runs out.

#![forbid(unsafe_code)]

mod alternatives;
mod application;
mod choose;
mod corrections;
mod estimates;
pub mod explain;
mod faults;
mod have;
mod judge;
mod life;
mod loss;
mod md;
mod outcome;
mod parts;
mod prediction;
mod prices;
mod reason;
pub mod reliability;
mod risk;
mod tiers;
mod told;
mod zones;

pub use alternatives::{Alternative, Kind};
pub use application::{Application, default_history};
pub use estimates::PerformanceRange;
pub use explain::{
    AskedFigure, Cause, ComparedRun, DoneFigure, ExplainError, Explanation, Finding, Trial, explain,
};
pub use faults::Rebuild;
pub use have::{Have, HaveError};
pub use life::{DriveLife, WARRANTY_YEARS};
pub use md::{MdAnswer, MdDefaults, lines_for_writes, tuned as tuned_md};
pub use outcome::{PlanOutcome, Planned, PlannedApplication, SearchEnd, SimulatedArray};
pub use parts::{default_levels, default_settings};
pub use prediction::{OwnHardware, Prediction, PredictionError};
pub use prices::{PartPrice, PriceError, Prices};
pub use risk::{RiskQuery, RiskQueryError, risk};
pub use tiers::{GroupSearch, Missing, Placement, TIER_APPLICATIONS_MAX, Tier, TiersOutcome, plan_tiers};

pub use corrections::{DriveCorrection, drive_corrections};

use crate::judge::Pace;
use raidlab_advisor::plan::{
    Enumeration, Geometry, Hardware, Judged, Needs, PartList, Performance, Request, Space, enumerate,
    estimate::Demand, near_misses, pareto, relaxations, relaxed_needs,
};
use raidlab_controller::{ConfigError, ReadPolicy, Resilience, WritePolicy};
use raidlab_hardware::{Catalog, CatalogError, YearRange};
use raidlab_hosts::{Hosts, HostsError, all_processors};
use raidlab_raid::LayoutError;
use raidlab_units::ByteCount;
use raidlab_workload::{BottleneckFacts, RunResult, SpecError};
use raidlab_worlds::CacheSettings;
use raidlab_worlds::simulated::{SimulatedError, name_bottleneck};
use raidlab_worlds::{ModelledArray, ModelledSettings, Models, drive_beside};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Instant;

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
    /// Whether they run at the same time; else one after the other.
    pub together: bool,
    /// Years of the parts to choose from where these are not named.
    pub era: YearRange,
    /// Drives to choose from; all of the era if empty.
    pub drives: &'a [String],
    /// Kinds of drives to choose from, as [`raidlab_hardware::DriveModel::class`] names them, or `ssd` for all flash; all if empty.
    pub kinds: &'a [String],
    /// Parts that are there already.
    pub have: &'a Have,
    /// Controllers to choose from; all of the era if empty.
    pub controllers: &'a [String],
    /// Enclosures to choose from; all of the era if empty, or all that there are for controllers that are named.
    pub enclosures: &'a [String],
    /// Levels, counts, spares and settings.
    pub space: Space,
    /// Geometries to simulate at most; their settings and the longer runs of the best come to it. Without it the search goes on
    /// until nothing can be better, or there is no more time.
    pub simulations_max: Option<usize>,
    /// How many to tell of.
    pub top: usize,
    /// Threads; all processors if none.
    pub threads: Option<NonZeroUsize>,
    /// Seed of everything random.
    pub seed: u64,
}

fn no_drive(drives: &str, kinds: &str, era: YearRange) -> String {
    match (drives, kinds) {
        ("", "") => format!("no drive is of the years --era {era}: name others, or drives"),
        ("", kinds) => {
            format!("no drive of the years --era {era} is of --kinds {kinds}: name other kinds or years")
        }
        (drives, kinds) => {
            format!("no drive that is offered ({drives}) is of --kinds {kinds}: name other kinds or drives")
        }
    }
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
    /// No drive is left to choose from.
    #[error("{}", no_drive(drives, kinds, *era))]
    NoDrive {
        /// Those that were named.
        drives: String,
        /// The kinds that were asked for.
        kinds: String,
        /// The years of drives that were not named.
        era: YearRange,
    },
    /// No level that was asked for is made of so many members.
    #[error("{0} (--levels, --members)")]
    NoLayout(#[from] LayoutError),
    /// An application can't run beside others.
    #[error(
        "application '{application}' {what}, and only what is one stream of requests can run together with others: leave out \
         --together, or give each part a workload file of its own"
    )]
    NotTogether {
        /// Its name.
        application: String,
        /// What it is instead.
        what: &'static str,
    },
    /// An application says nothing of what it asks before it runs.
    #[error(
        "application '{application}' has no line that says what it asks, and a plan counts by that: {instead}"
    )]
    NoLines {
        /// Its name.
        application: String,
        /// What can be planned or run in its place.
        instead: &'static str,
    },
    /// An application is for several targets, and there is one array.
    #[error(transparent)]
    Targets(#[from] SpecError),
    /// A mean rate is above the peak.
    #[error(
        "application '{application}' makes {mean} requests/s on average (--mean-iops) and {peak} at its peak (--iops, --mib-per-sec): no \
         mean is above its peak; lower --mean-iops or raise the peak"
    )]
    MeanAbovePeak {
        /// Its name.
        application: String,
        /// Requests per second on average.
        mean: f64,
        /// At its peak.
        peak: f64,
    },
    /// More is needed than an application asks for.
    #[error(
        "application '{application}' asks for {own} requests/s, a rate of its own ([arrival] or [limit] in its file), and {needed} are \
         needed (--iops, --mib-per-sec): no array makes it ask for more; lower the need or raise its rate"
    )]
    NeedAboveOwnRate {
        /// Its name.
        application: String,
        /// Requests per second that it asks for.
        own: f64,
        /// That are needed.
        needed: f64,
    },
    /// The applications can't be placed on two arrays.
    #[error("no plan of two arrays: {what}")]
    NoTiers {
        /// What is against it, and what to do.
        what: String,
    },
    /// No level survives so many failures with so much for the host.
    #[error(
        "--survive {survive}: no array of at most {members_max} drives of the --levels allowed has {:.1} TB and survives more than \
         {most} {}; ask for --survive {most} at most, for less --usable, or allow more drives or levels",
        usable.0 as f64 / 1e12,
        if *most == 1 { "failure" } else { "failures, whichever they are" }
    )]
    TooManyFailures {
        /// What is asked for.
        survive: u16,
        /// The most that an array survives.
        most: u16,
        /// What the host needs.
        usable: ByteCount,
        /// Members at most.
        members_max: u16,
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
    /// The parts of an array can't be at the end of their figures' ranges together.
    #[error(
        "{label} at the end of what its figures may be: {source}; correct the 'low' or 'high' of that entry"
    )]
    End {
        /// Which array.
        label: String,
        /// What the catalogue's reader says.
        source: Box<CatalogError>,
    },
    /// The ranks can't go on together.
    #[error(transparent)]
    Hosts(#[from] HostsError),
}

/// Makes the plan on the threads of `hosts`. The search goes on while `has_time` says so, which is asked on the first host.
/// `progress` is told what is being done, and about how much of it is done.
///
/// # Errors
/// [`PlanError`] if a part is not known, an array can't be simulated or a rank is lost.
pub fn plan(
    order: &PlanOrder<'_>,
    hosts: &mut Hosts,
    has_time: &mut dyn FnMut() -> bool,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<PlanOutcome, PlanError> {
    order.applications.iter().try_for_each(|app| app.workload.spec.check_targets(1))?;
    order.applications.iter().try_for_each(Application::check_demand)?;
    if order.together {
        order.applications.iter().try_for_each(Application::check_together)?;
    }
    let threads = order.threads.unwrap_or_else(all_processors);
    let mut crew = Crew { hosts, threads, has_time, progress };
    let (delivered, tuned) = (order.catalog, md::tuned(order.catalog));
    let order = &order.with_catalog(tuned.as_ref().unwrap_or(delivered));
    let demands = order.demands();
    let Choice { parts, enumeration, arithmetic_secs } = parts_and_candidates(order, &demands, &mut crew)?;
    let request = order.request(&demands, &parts);
    let bench = Bench { order, parts: &parts, demands: &demands };
    let chosen = choose::choose(&bench, &request, (&enumeration, delivered), crew)?;
    let best = chosen.top.first().map(|one| &one.judged);
    let mut pareto = pareto(&chosen.all, chosen.ranking);
    // What was run briefly and would stand before the best is before it by chance.
    for point in &mut pareto {
        let one = &chosen.all[point.index];
        let is_before = |best: &Judged| {
            one.geometry != best.geometry && chosen.ranking.key(one) < chosen.ranking.key(best)
        };
        point.is_efficient &= !best.is_some_and(is_before);
        point.is_efficient |= point.keeps_needs && best.is_some_and(|best| one.geometry == best.geometry);
    }
    let has_prices = chosen.ranking.has_prices;
    let judged = &chosen.all;
    let relaxations = match &judged[..] {
        [] => relaxations(&request),
        some if some.iter().any(|one| one.keeps(&order.needs)) => Vec::new(),
        some => near_misses(some, &order.needs),
    };
    let kept = enumeration.kept.len() as u64;
    let unpriced = || parts::unpriced(&parts, &enumeration.kept, (best, &chosen.all), &order.needs);
    let unpriced = if has_prices { unpriced() } else { Vec::new() };
    Ok(PlanOutcome {
        applications: PlannedApplication::all(order.applications),
        together: order.together,
        needs: order.needs.clone(),
        candidates: enumeration.candidates,
        rejected: enumeration.rejected.clone(),
        misfits: enumeration.misfit_names(&parts),
        kept,
        arithmetic_secs,
        simulated: chosen.simulated,
        end: chosen.end,
        left_out: chosen.left_out,
        beaten: kept.saturating_sub(chosen.all.len() as u64 + chosen.left_out),
        alternatives: alternatives::of(
            &bench,
            (best, &chosen.all, &chosen.hopes),
            chosen.ranking,
            &enumeration,
        ),
        top: chosen.top,
        pareto,
        has_prices,
        unpriced,
        others: chosen.all.into_iter().map(|judged| bench.described(judged)).collect(),
        relaxations,
    })
}

/// What there is to choose from.
struct Choice {
    parts: PartList,
    enumeration: Enumeration,
    arithmetic_secs: f64,
}

/// The parts, with the drives measured that may be in the answer, and what arithmetic keeps of them.
fn parts_and_candidates(
    order: &PlanOrder<'_>,
    demands: &[Demand],
    crew: &mut Crew<'_>,
) -> Result<Choice, PlanError> {
    let mut parts = parts::of_order(order)?;
    for controller in &parts.controllers {
        drive_beside(order.catalog, order.catalog.controller(&controller.id)?)?;
    }
    let possible = measure_what_matters(order, demands, &mut parts, crew)?;
    let started = Instant::now();
    let enumeration = enumerate(&order.request(demands, &parts));
    let arithmetic_secs = started.elapsed().as_secs_f64();
    // Where nothing is left, the need that would have to give may be met by the other drives.
    if enumeration.kept.is_empty() && order.needs.wants_rate() {
        parts::measure(order, &mut parts, crew, |drive| !possible.contains(&drive))?;
    }
    // What would fit with another need may lose data too often.
    if enumeration.kept.is_empty() && order.needs.loss_per_year.is_some() {
        for needs in relaxed_needs(&order.needs) {
            let request = order.request(demands, &parts);
            let found = enumerate(&Request { needs: &needs, ..request });
            let losses = losses(order, &found, &parts, crew)?;
            parts.losses.extend(losses);
        }
    }
    Ok(Choice { parts, enumeration, arithmetic_secs })
}

/// How many times the effort of the cheapest array that may keep the needs drives are looked at for.
const EFFORT_SLACK: f64 = 2.0;

/// Drives that are measured before it is asked which others matter, and of each kind at least.
const MEASURED_FIRST: usize = 8;
const MEASURED_OF_KIND: usize = 2;

/// Measures the drives that may be in the answer; those that may be in any array.
///
/// A drive that is in no candidate, however fast it is, is not measured. Where the cheapest array is the best,
/// drives of which every array takes many times what one of others does can wait: an array of a drive that was not measured is
/// bounded by its links alone, and the search comes to it last.
fn measure_what_matters(
    order: &PlanOrder<'_>,
    demands: &[Demand],
    parts: &mut PartList,
    crew: &mut Crew<'_>,
) -> Result<BTreeSet<u16>, PlanError> {
    if order.needs.loss_per_year.is_some() {
        parts.losses = losses(order, &enumerate(&order.request(demands, parts)), parts, crew)?;
    }
    let efforts = efforts(order, demands, parts);
    let possible: BTreeSet<u16> = efforts.keys().copied().collect();
    if !order.needs.wants_cheapest() {
        parts::measure(order, parts, crew, |drive| possible.contains(&drive))?;
        return Ok(possible);
    }
    let mut left: Vec<(f64, u16)> = efforts.into_iter().map(|(drive, effort)| (effort, drive)).collect();
    left.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut measured: BTreeSet<u16> = BTreeSet::new();
    loop {
        let now = self::efforts(order, demands, parts);
        let serving = now.iter().filter(|(drive, _)| measured.contains(*drive));
        let limit = serving.map(|(_, effort)| EFFORT_SLACK * effort).reduce(f64::min);
        let count = match limit {
            Some(limit) => left.iter().take_while(|(effort, _)| *effort <= limit).count(),
            None => left.len().min(MEASURED_FIRST),
        };
        if count == 0 {
            break;
        }
        let next: BTreeSet<u16> = left.drain(..count).map(|(_, drive)| drive).collect();
        parts::measure(order, parts, crew, |drive| next.contains(&drive))?;
        measured.extend(next);
    }
    // Of kinds that are behind, some, so that the answer can say how far.
    let kind = |drive: u16| parts.drives[usize::from(drive)].kind.clone();
    let mut of_kinds: BTreeMap<String, usize> = BTreeMap::new();
    for drive in &measured {
        *of_kinds.entry(kind(*drive)).or_default() += 1;
    }
    let is_wanted = |(_, drive): &&(f64, u16)| {
        let count = of_kinds.entry(kind(*drive)).or_default();
        *count += 1;
        *count <= MEASURED_OF_KIND
    };
    let next: BTreeSet<u16> = left.iter().filter(is_wanted).map(|(_, drive)| *drive).collect();
    parts::measure(order, parts, crew, |drive| next.contains(&drive))?;
    Ok(possible)
}

/// The least that an array of each drive takes, of those that arithmetic keeps.
fn efforts(order: &PlanOrder<'_>, demands: &[Demand], parts: &PartList) -> BTreeMap<u16, f64> {
    let kept = enumerate(&order.request(demands, parts)).kept;
    let has_prices = parts.has_priced(&kept);
    let mut efforts = BTreeMap::new();
    for one in &kept {
        // What has no price comes last.
        let effort = if has_prices { one.cost.unwrap_or(f64::MAX) } else { one.assumed_cost };
        let least: &mut f64 = efforts.entry(one.geometry.drive).or_insert(effort);
        *least = least.min(effort);
    }
    efforts
}

/// How likely the arrays of `found` lose data in a year with rebuilds at their reserved rate, wherever their drives are plugged in.
/// More members lose more: where the most of a kind are allowed, none of it is looked at.
fn losses(
    order: &PlanOrder<'_>,
    found: &Enumeration,
    parts: &PartList,
    crew: &mut Crew<'_>,
) -> Result<BTreeMap<Geometry, f64>, PlanError> {
    let all: BTreeSet<Geometry> = found.kept.iter().map(|one| one.geometry.on_paper()).collect();
    let mut largest: BTreeMap<Geometry, Geometry> = BTreeMap::new();
    for one in &all {
        let most = largest.entry(Geometry { members: 0, ..*one }).or_insert(*one);
        most.members = most.members.max(one.members);
    }
    let mut told = |of: Vec<Geometry>| {
        let stage = Stage { label: "telling how likely arrays lose data", from: 0.0, to: 0.0 };
        let loss = |index: usize| {
            let drive = order.catalog.drive(&parts.drives[usize::from(of[index].drive)].id)?;
            Ok(loss::per_year(drive, of[index]))
        };
        let losses = crew.on_all(stage, of.len(), loss)?;
        let known = of.into_iter().zip(losses).filter_map(|(geometry, loss)| Some((geometry, loss?)));
        Ok::<BTreeMap<Geometry, f64>, PlanError>(known.collect())
    };
    let of_largest = told(largest.into_values().collect())?;
    let is_lossy = |one: &Geometry| order.needs.loss_per_year.is_some_and(|most| of_largest[one] > most);
    let lossy: Vec<Geometry> = of_largest.keys().filter(|one| is_lossy(one)).copied().collect();
    let of_lossy = |one: &Geometry| lossy.iter().any(|other| other.is_like(one));
    told(all.into_iter().filter(of_lossy).collect())
}

/// Who does the work, and who is told of it.
struct Crew<'a> {
    hosts: &'a mut Hosts,
    threads: NonZeroUsize,
    /// Whether the search may go on; asked on rank 0.
    has_time: &'a mut dyn FnMut() -> bool,
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
    /// Whether the search may go on, the same answer on all ranks.
    fn has_time(&mut self) -> Result<bool, PlanError> {
        let own = (self.has_time)();
        Ok(self.hosts.together(Ok(own), |all| all.first().copied().unwrap_or(own))?)
    }

    /// Does `count` jobs; the results are in order.
    fn on_all<T: Send + Serialize + DeserializeOwned>(
        &mut self,
        stage: Stage<'_>,
        count: usize,
        job: impl Fn(usize) -> Result<T, PlanError> + Sync,
    ) -> Result<Vec<T>, PlanError> {
        let mut done = 0;
        let Self { hosts, threads, progress, .. } = self;
        progress(stage.label, stage.from);
        let results = hosts.share_all((count, *threads), job, |_, _| {
            done += 1;
            progress(stage.label, stage.from + (stage.to - stage.from) * f64::from(done) / count as f64);
        });
        results?.into_iter().collect()
    }
}

/// What is needed to simulate candidates.
struct Bench<'a> {
    order: &'a PlanOrder<'a>,
    parts: &'a PartList,
    demands: &'a [Demand],
}

impl PlanOrder<'_> {
    fn request<'b>(&'b self, demands: &'b [Demand], parts: &'b PartList) -> Request<'b> {
        Request { needs: &self.needs, demands, space: &self.space, parts, together: self.together }
    }

    /// The same, of the hardware of `catalog`.
    fn with_catalog<'b>(&'b self, catalog: &'b Catalog) -> PlanOrder<'b> {
        PlanOrder { catalog, needs: self.needs.clone(), space: self.space.clone(), ..*self }
    }

    /// What the applications ask on average.
    fn demands(&self) -> Vec<Demand> {
        let of = if self.together { Application::demand_together } else { Application::demand };
        self.applications.iter().map(of).collect()
    }

    /// Refuses a mean rate above the peak that the same application needs, and a need above what it asks for.
    fn check_rates(&self) -> Result<(), PlanError> {
        for (app, application) in self.applications.iter().enumerate() {
            let demand = application.demand_together();
            let peak = self.needs.requests_per_sec(app, demand.bytes_mean);
            if let (Some(own), Some(needed)) = (demand.pace, peak)
                && needed > own
            {
                let application = application.workload.name().to_owned();
                return Err(PlanError::NeedAboveOwnRate { application, own, needed: needed.round() });
            }
            if let (Some(mean), Some(peak)) = (self.needs.mean_iops_of(app), peak)
                && mean > peak
            {
                let application = application.workload.name().to_owned();
                return Err(PlanError::MeanAbovePeak { application, mean, peak: peak.round() });
            }
        }
        Ok(())
    }

    /// Runs that it takes to see what an array does: one of all applications, or one of each.
    fn runs(&self) -> usize {
        if self.together { 1 } else { self.applications.len() }
    }

    /// Whether all that the applications in a run ask arrives by itself.
    fn all_arrive(&self, run: usize) -> bool {
        self.apps_of(run).all(|app| self.applications[app].arrivals_per_sec().is_some())
    }

    /// The applications in a run, by number.
    fn apps_of(&self, run: usize) -> Range<usize> {
        if self.together { 0..self.applications.len() } else { run..run + 1 }
    }
}

impl Bench<'_> {
    /// What each application got in `run`, where they ran at these paces.
    fn performance(&self, result: &RunResult, run: usize, paces: &[Pace]) -> Vec<Performance> {
        let apps = &self.order.applications[self.order.apps_of(run)];
        if let [only] = apps {
            return vec![only.at_own_rate(Performance::of(result), result.lag.as_ref())];
        }
        let parts = apps.iter().zip(paces).zip(&result.parts);
        parts.map(|((app, pace), part)| app.got(&part.ops.total, part.lag.as_ref(), *pace)).collect()
    }

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

    fn described(&self, judged: Judged) -> SimulatedArray {
        let settings_label = reason::settings_label(self, &judged);
        SimulatedArray { label: self.label(judged.geometry), settings_label, judged }
    }

    fn models(&self, geometry: Geometry) -> Models<'_> {
        let catalog = self.order.catalog;
        let known = "parts come from the catalogue";
        let drive = &self.parts.drives[usize::from(geometry.drive)].id;
        let controller = &self.parts.controllers[usize::from(geometry.controller)].id;
        let enclosure = geometry.enclosure.map(|enclosure| &self.parts.enclosures[usize::from(enclosure)].id);
        let controller = catalog.controller(controller).expect(known);
        Models {
            controller,
            beside: drive_beside(catalog, controller).expect("looked at before"),
            enclosure: enclosure.map(|id| catalog.enclosure(id).expect(known)),
            drive: catalog.drive(drive).expect(known),
        }
    }

    /// When its controller acknowledges writes. Without a battery only the policy that does so all the same writes back.
    fn write_policy(&self, judged: &Judged) -> WritePolicy {
        let has_battery = Hardware::of(self.parts, judged.geometry).controller.is_battery_backed;
        match (judged.settings.write_back, has_battery) {
            (false, _) => WritePolicy::WriteThrough,
            (true, true) => WritePolicy::WriteBack,
            (true, false) => WritePolicy::WriteBackBadBattery,
        }
    }

    /// The array, with as much of it in use as the host needs.
    fn array(&self, judged: &Judged, spares: u16, window: judge::Window) -> Result<ModelledArray, PlanError> {
        let Judged { geometry, settings, .. } = *judged;
        let read_policy = if settings.read_ahead { ReadPolicy::Adaptive } else { ReadPolicy::NoReadAhead };
        let modelled = ModelledSettings {
            level: geometry.level,
            members: geometry.members,
            write_policy: self.write_policy(judged),
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

    /// What sets the pace of a run on an array. Found on runs as they tell candidates apart: their cache is smaller and
    /// full sooner, and what sets the pace is the same.
    fn bottleneck(&self, judged: &Judged, run: usize) -> Result<BottleneckFacts, PlanError> {
        let array = self.array(judged, judged.geometry.spares, judge::Window::Short)?;
        let paces = judge::paces(self, judged, run);
        let load = judge::load(self, judged, run, judge::Window::Short, &paces);
        name_bottleneck(&self.models(judged.geometry), &array, &load).map_err(|source| {
            PlanError::Simulation {
                label: format!("{}, {}", self.label(judged.geometry), load.label()),
                source,
            }
        })
    }

    /// What is left with a member missing and while it is rebuilt: the least share of the rates that are needed, or else of those of
    /// the whole array.
    fn degraded_share(&self, whole: &[Performance], faults: [&Vec<Performance>; 2]) -> f64 {
        let share = |(app, own): (usize, &Performance)| {
            let needed = self.order.needs.requests_per_sec(app, self.demands[app].bytes_mean);
            own.iops / needed.unwrap_or(whole[app].iops)
        };
        faults.into_iter().flat_map(|list| list.iter().enumerate().map(share)).fold(f64::INFINITY, f64::min)
    }
}

#[cfg(test)]
mod tests;
