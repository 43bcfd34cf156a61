//! The result of a plan.

use super::alternatives::Alternative;
use super::estimates::PerformanceRange;
use super::life::DriveLife;
use super::md::MdAnswer;
use raidlab_advisor::plan::{
    AtRisk, Judged, Life, Margins, Needs, ParetoPoint, Performance, Rejection, Relaxation, Role, Settings,
};
use raidlab_advisor::risk::LossChance;
use raidlab_controller::WritePolicy;
use raidlab_units::ByteCount;
use raidlab_workload::RunResult;
use raidlab_worlds::{ArrayFile, Estimates, Load, Parts};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// A plan.
#[derive(Debug)]
pub struct PlanOutcome {
    /// What was needed.
    pub needs: Needs,
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
    /// Why the search ended.
    pub end: SearchEnd,
    /// Geometries that could still be better than the best, with settings that were not tried; none where it is proven.
    pub left_out: u64,
    /// Geometries that were kept and not simulated, because they can't beat those that were.
    pub beaten: u64,
    /// The best and what is shown beside it, best first; those that keep all needs before those that do not.
    pub top: Vec<Planned>,
    /// Why not another level, other drives, another controller.
    pub alternatives: Vec<Alternative>,
    /// Every array that was simulated, with its best settings, in words.
    pub others: Vec<SimulatedArray>,
    /// The arrays of `others` in the chart of performance against effort.
    pub pareto: Vec<ParetoPoint>,
    /// Whether effort is money, as the price of some arrays is known; else it is counted by usual ratios of prices.
    pub has_prices: bool,
    /// Where it is money, parts of kept arrays whose price is not known.
    pub unpriced: Vec<String>,
    /// Where nothing fits, which single need would have to give how far, the smallest change first.
    pub relaxations: Vec<Relaxation>,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SearchEnd {
    /// Nothing that was not simulated can beat the best.
    Proven,
    /// There was no more time.
    Time,
    /// As many were simulated as the order allows.
    Simulations,
}

/// An array that was simulated.
#[derive(Debug)]
pub struct SimulatedArray {
    /// In words: `RAID 10 x8 of st3600057ss, perc-h800, md1200`.
    pub label: String,
    /// Its best settings in words.
    pub settings_label: String,
    /// What was judged.
    pub judged: Judged,
}

/// One of the best.
#[derive(Debug)]
pub struct Planned {
    /// In words: `RAID 10 x8 of st3600057ss, perc-h800, md1200`.
    pub label: String,
    /// Settings in words.
    pub settings_label: String,
    /// What it is shown for; the first counts.
    pub roles: Vec<Role>,
    /// Parts that have to be bought where some are there already, in words.
    pub adds: Option<String>,
    /// Its parts by their names in the catalogue.
    pub parts: Parts,
    /// The array as it was run, for who runs it again.
    pub array: ArrayFile,
    /// What it was run with, in the order of `runs`.
    pub loads: Vec<Load>,
    /// Length of its strips.
    pub strip: ByteCount,
    /// When its controller acknowledges writes.
    pub write_policy: WritePolicy,
    /// Acknowledged writes that a loss of power takes.
    pub at_risk: AtRisk,
    /// What was judged.
    pub judged: Judged,
    /// How far it is from the needs.
    pub margins: Margins,
    /// Whether it keeps all of them.
    pub keeps_needs: bool,
    /// The run of each application, or the one of all together.
    pub runs: Vec<RunResult>,
    /// What each application gets of the array alone, where they run together.
    pub alone: Vec<Performance>,
    /// The same with a member missing; none where the level has no redundancy.
    pub degraded: Vec<Performance>,
    /// The same while that member is rebuilt.
    pub rebuilding: Vec<Performance>,
    /// Time of the rebuild under that load, in hours, from how far it came; the longest of all applications.
    pub rebuild_hours: Option<f64>,
    /// What that rebuild has of each member at most, in bytes per second: what leaves the host its share.
    pub rebuild_bytes_per_sec: Option<f64>,
    /// Chance of data loss, where the catalogue knows how often the drives fail.
    pub risk: Option<LossChance>,
    /// How long solid-state drives last under each application; none where nothing wears out, or it is not known how much may be
    /// written.
    pub drive_life: Vec<Option<DriveLife>>,
    /// How Linux md is to be set, of the first only where it is md.
    pub md: Option<MdAnswer>,
    /// Which figures of its parts rest on estimates.
    pub estimates: Vec<Estimates>,
    /// What each application gets at both ends of what these figures may be; of the first only.
    pub range: Vec<PerformanceRange>,
    /// Why it stands where it stands, a sentence or two a line.
    pub reason: String,
}

impl PlanOutcome {
    /// What effort is: `cost` or `assumed cost`.
    pub const fn effort(&self) -> &'static str {
        effort_name(self.has_prices)
    }

    /// Whether some array keeps all needs.
    pub fn fits(&self) -> bool {
        self.top.first().is_some_and(|best| best.keeps_needs)
    }
}

impl Planned {
    /// A setting of its runs, of the first that has it.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.runs.iter().find_map(|run| run.settings.get(name)).map(String::as_str)
    }
}

/// What effort is: money as soon as some prices are known, else by usual ratios of prices.
pub(super) const fn effort_name(has_prices: bool) -> &'static str {
    if has_prices { "cost" } else { "assumed cost" }
}

/// A plan as it is written down.
#[derive(Serialize)]
struct PlanFacts<'a> {
    needs: &'a Needs,
    candidates: u64,
    rejected: &'a BTreeMap<Rejection, u64>,
    kept: u64,
    arithmetic_secs: f64,
    runs_simulated: u64,
    search_end: SearchEnd,
    left_out: u64,
    beaten: u64,
    effort: &'static str,
    unpriced: &'a [String],
    alternatives: &'a [Alternative],
    top: &'a [Planned],
    simulated_arrays: Vec<SimulatedFacts<'a>>,
    relaxations: &'a [Relaxation],
}

/// An array that was simulated, as it is written down.
#[derive(Serialize)]
struct SimulatedFacts<'a> {
    array: &'a str,
    settings: &'a Settings,
    performance: &'a [Performance],
    point: &'a ParetoPoint,
}

impl<'a> SimulatedFacts<'a> {
    fn of((other, point): (&'a SimulatedArray, &'a ParetoPoint)) -> Self {
        let Judged { settings, performance, .. } = &other.judged;
        Self { array: &other.label, settings, performance, point }
    }
}

impl Serialize for PlanOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = PlanFacts {
            needs: &self.needs,
            candidates: self.candidates,
            rejected: &self.rejected,
            kept: self.kept,
            arithmetic_secs: self.arithmetic_secs,
            runs_simulated: self.simulated,
            search_end: self.end,
            left_out: self.left_out,
            beaten: self.beaten,
            effort: self.effort(),
            unpriced: &self.unpriced,
            alternatives: &self.alternatives,
            top: &self.top,
            simulated_arrays: self.others.iter().zip(&self.pareto).map(SimulatedFacts::of).collect(),
            relaxations: &self.relaxations,
        };
        facts.serialize(serializer)
    }
}

/// One of the best, as it is written down.
#[derive(Serialize)]
struct PlannedFacts<'a> {
    array: &'a str,
    shown_for: &'a [Role],
    parts: &'a Parts,
    adds: Option<&'a str>,
    life: Life,
    rack_units: Option<u32>,
    degraded_share: Option<f64>,
    settings: &'a Settings,
    settings_text: &'a str,
    keeps_needs: bool,
    margins: Margins,
    performance: &'a [Performance],
    alone: &'a [Performance],
    degraded: &'a [Performance],
    rebuilding: &'a [Performance],
    rebuild_hours: Option<f64>,
    risk: Option<LossChance>,
    bytes_lost_per_year: Option<f64>,
    drive_life: &'a [Option<DriveLife>],
    estimates: &'a [Estimates],
    range: &'a [PerformanceRange],
    lost_with_power: AtRisk,
    usable_bytes: f64,
    cost: Option<f64>,
    assumed_cost: f64,
    watts: f64,
    reason: &'a str,
    md: Option<&'a MdAnswer>,
    rebuild_bytes_per_sec: Option<f64>,
    drive_condition: Option<&'a str>,
    trims: Option<&'a str>,
}

impl Serialize for Planned {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let judged = &self.judged;
        let facts = PlannedFacts {
            array: &self.label,
            shown_for: &self.roles,
            parts: &self.parts,
            adds: self.adds.as_deref(),
            life: judged.life,
            rack_units: judged.rack_units,
            degraded_share: judged.degraded_share,
            settings: &judged.settings,
            settings_text: &self.settings_label,
            keeps_needs: self.keeps_needs,
            margins: self.margins,
            performance: &judged.performance,
            alone: &self.alone,
            degraded: &self.degraded,
            rebuilding: &self.rebuilding,
            rebuild_hours: self.rebuild_hours,
            risk: self.risk,
            bytes_lost_per_year: self.risk.map(|risk| risk.bytes_per_year()),
            drive_life: &self.drive_life,
            estimates: &self.estimates,
            range: &self.range,
            lost_with_power: self.at_risk,
            usable_bytes: judged.usable_bytes,
            cost: judged.cost,
            assumed_cost: judged.assumed_cost,
            watts: judged.watts,
            reason: &self.reason,
            md: self.md.as_ref(),
            rebuild_bytes_per_sec: self.rebuild_bytes_per_sec,
            drive_condition: self.setting("drive condition"),
            trims: self.setting("trims"),
        };
        facts.serialize(serializer)
    }
}
