//! The result of a plan.

use super::alternatives::Alternative;
use super::application::{Application, part_name};
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

/// An application of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PlannedApplication {
    /// Its name, with its number where another has the same.
    pub name: String,
    /// What it asks for, in words.
    pub load: String,
}

impl PlannedApplication {
    /// All of an order.
    pub(super) fn all(applications: &[Application]) -> Vec<Self> {
        let of = |(index, app): (usize, &Application)| Self {
            name: part_name(applications, index),
            load: app.accesses(),
        };
        applications.iter().enumerate().map(of).collect()
    }
}

/// A plan.
#[derive(Debug)]
pub struct PlanOutcome {
    /// Who it is for; all that is told of each application is in this order.
    pub applications: Vec<PlannedApplication>,
    /// Whether they run at the same time.
    pub together: bool,
    /// What was needed.
    pub needs: Needs,
    /// Candidates that arithmetic looked at.
    pub candidates: u64,
    /// Of them, those that it rejected, by reason.
    pub rejected: BTreeMap<Rejection, u64>,
    /// Drives that fit no controller and enclosure that may be chosen, each with what it is plugged into.
    pub misfits: Vec<String>,
    /// Geometries that it kept.
    pub kept: u64,
    /// Time that it took, in seconds.
    pub arithmetic_secs: f64,
    /// Arrays that were simulated, each number of settings counted.
    pub simulated: u64,
    /// Whether all was searched, or its time or budget ended.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
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
    /// Whether all is there that costs anything.
    pub is_owned: bool,
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
    /// The same as `risk` has it: by the drive alone, written from end to end in the share of its time that a rebuild has.
    pub rebuild_hours_by_drive: Option<f64>,
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

/// A plan.
#[derive(Serialize, schemars::JsonSchema)]
struct PlanFacts<'a> {
    /// Who it is for; what each application gets stands in this order everywhere.
    applications: &'a [PlannedApplication],
    /// Whether they run at the same time; else each alone.
    together: bool,
    /// What was asked for.
    needs: &'a Needs,
    /// Arrays that the parts and levels give.
    candidates: u64,
    /// Arrays that arithmetic turned down, by reason.
    rejected: &'a BTreeMap<Rejection, u64>,
    /// Drives that fit no controller and enclosure that may be chosen, each with what it is plugged into.
    misfits: &'a [String],
    /// Arrays that arithmetic let through.
    kept: u64,
    /// Time for that.
    arithmetic_secs: f64,
    /// Simulations of them.
    runs_simulated: u64,
    /// Why the search ended.
    search_end: SearchEnd,
    /// Arrays that were not simulated though they might have served.
    left_out: u64,
    /// Arrays that can be no better than those shown.
    beaten: u64,
    /// What arrays are compared by: cost as given, or assumed.
    effort: &'static str,
    /// Parts without a price.
    unpriced: &'a [String],
    /// Why not another: what each kind of array misses, or costs more.
    alternatives: &'a [Alternative],
    /// The best arrays, the recommended one first.
    top: &'a [Planned],
    /// The others that were simulated.
    simulated_arrays: Vec<SimulatedFacts<'a>>,
    /// What would be found with a need less.
    relaxations: &'a [Relaxation],
}

/// An array that was simulated.
#[derive(Serialize, schemars::JsonSchema)]
struct SimulatedFacts<'a> {
    /// In words.
    array: &'a str,
    /// By name.
    settings: &'a Settings,
    /// Of each application.
    performance: &'a [Performance],
    /// Where it stands in the comparison.
    point: &'a ParetoPoint,
}

impl<'a> SimulatedFacts<'a> {
    fn of((other, point): (&'a SimulatedArray, &'a ParetoPoint)) -> Self {
        let Judged { settings, performance, .. } = &other.judged;
        Self { array: &other.label, settings, performance, point }
    }
}

impl schemars::JsonSchema for PlanOutcome {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PlanOutcome".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PlanFacts::json_schema(generator)
    }
}

impl Serialize for PlanOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = PlanFacts {
            applications: &self.applications,
            together: self.together,
            needs: &self.needs,
            candidates: self.candidates,
            rejected: &self.rejected,
            misfits: &self.misfits,
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

/// One of the best arrays.
#[derive(Serialize, schemars::JsonSchema)]
struct PlannedFacts<'a> {
    /// In words.
    array: &'a str,
    /// Why it is among those shown.
    shown_for: &'a [Role],
    /// What to buy.
    parts: &'a Parts,
    /// What to add to hardware that is there.
    adds: Option<&'a str>,
    /// How long its drives last, the shortest of all applications.
    life: Life,
    /// Height of all enclosures in rack units, where it is known; drives in the server itself take none.
    rack_units: Option<u32>,
    /// What is left with a member missing or while it is rebuilt, as a share of the throughput needed, or else of the whole
    /// array's.
    degraded_share: Option<f64>,
    /// Of the controller and the array, by name.
    settings: &'a Settings,
    /// The same as one line.
    settings_text: &'a str,
    /// Whether it keeps all needs.
    keeps_needs: bool,
    /// How far it is from the needs.
    margins: Margins,
    /// Of each application, all at work.
    performance: &'a [Performance],
    /// Of each application alone.
    alone: &'a [Performance],
    /// With a member missing.
    degraded: &'a [Performance],
    /// While one is rebuilt.
    rebuilding: &'a [Performance],
    /// Time of that rebuild in hours, the longest of all applications.
    rebuild_hours: Option<f64>,
    /// The same as `risk` has it: by the drive alone, written from end to end in the share of its time that a rebuild has.
    rebuild_hours_by_drive: Option<f64>,
    /// Chance of losing data in a year.
    risk: Option<LossChance>,
    /// Expectation of bytes lost in a year.
    bytes_lost_per_year: Option<f64>,
    /// How long solid-state drives last under each application.
    drive_life: &'a [Option<DriveLife>],
    /// Which figures of its parts rest on estimates.
    estimates: &'a [Estimates],
    /// What each application gets at both ends of what these figures may be; of the first only.
    range: &'a [PerformanceRange],
    /// What a power failure takes.
    lost_with_power: AtRisk,
    /// Space for data.
    usable_bytes: f64,
    /// Price of all parts, where they have one.
    cost: Option<f64>,
    /// Cost by usual ratios of prices, in the price of a terabyte of disk.
    assumed_cost: f64,
    /// Power of drives and controllers.
    watts: f64,
    /// Why it is recommended.
    reason: &'a str,
    /// How Linux md is to be set, of the first only where it is md.
    md: Option<&'a MdAnswer>,
    /// What that rebuild has of each member at most, in bytes per second: what leaves the host its share.
    rebuild_bytes_per_sec: Option<f64>,
    /// What the flash had been written with.
    drive_condition: Option<&'a str>,
    /// Whether the host trims.
    trims: Option<&'a str>,
}

impl schemars::JsonSchema for Planned {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Planned".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        PlannedFacts::json_schema(generator)
    }
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
            rebuild_hours_by_drive: self.rebuild_hours_by_drive,
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
