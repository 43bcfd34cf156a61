//! The result of a plan.

use super::alternatives::Alternative;
use super::estimates::PerformanceRange;
use super::life::DriveLife;
use super::md::MdAnswer;
use raidlab_advisor::plan::{AtRisk, Judged, Margins, ParetoPoint, Performance, Rejection, Relaxation, Role};
use raidlab_advisor::risk::LossChance;
use raidlab_controller::WritePolicy;
use raidlab_units::ByteCount;
use raidlab_workload::RunResult;
use raidlab_worlds::Estimates;
use raidlab_worlds::Parts;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// Whether effort is money, as the price of some arrays is known; else it is drives.
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
    /// Whether some array keeps all needs.
    pub fn fits(&self) -> bool {
        self.top.first().is_some_and(|best| best.keeps_needs)
    }
}
