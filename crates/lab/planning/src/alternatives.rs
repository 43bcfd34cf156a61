//! Why not another level, other drives, another controller: one line for each, from a run or from arithmetic.
//!
//! ```text
//! each level, kind of drive, line of controllers that the best is not of
//!   ├─ some were kept ─► the most promising is run (a few times) ─► kept, at what effort; or missed, by how much
//!   │                                                              and what of it was not run and may take less
//!   └─ none was       ─► the need at which the nearest failed, and how much of it it has
//! ```
//! A kind is done when nothing of it is expected to stand before the first of it that was run.

use super::choose::judge_all;
use super::judge::Window;
use super::reason::at_cost;
use super::{Bench, Crew, PlanError, Stage};
use raidlab_advisor::plan::{
    Enumeration, Frontier, Geometry, Judged, Kept, Nearest, Needs, PartList, Performance, Ranking, Rejection,
};
use raidlab_units::counted;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Arrays of one kind that are run at most.
const ROUNDS: usize = 3;

raidlab_units::named! {
    /// What an alternative differs in.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Kind {
        /// The level.
        Level = "level",
        /// The kind of drive.
        Drives = "drives",
        /// The line of controllers.
        Controller = "controller",
        /// Parts without a price, where others have one.
        Unpriced = "parts",
    }
}

/// Why an answer is not of another kind.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Alternative {
    /// What it differs in.
    pub kind: Kind,
    /// `RAID 6`, `hdd`, `linux-md`.
    pub name: String,
    /// The array that came nearest, in words; none where arithmetic rejects all.
    pub array: Option<String>,
    /// What it gets, the slowest of all applications.
    pub performance: Option<Performance>,
    /// Its cost, where it is known.
    pub cost: Option<f64>,
    /// Whether it keeps all needs; none where that is not known, as none of it was simulated.
    pub keeps_needs: Option<bool>,
    /// Why it is not the best, in one line.
    pub verdict: String,
}

/// The most promising array of each kind that was not run, where it may stand before all of it that were.
pub(super) type Hopes = BTreeMap<Class, Judged>;

/// A kind of arrays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    kind: Kind,
    name: String,
}

impl Class {
    /// All kinds that there are among `parts` and the levels of the order.
    fn all(bench: &Bench<'_>) -> BTreeSet<Self> {
        let levels = bench.order.space.levels.iter().map(|it| (Kind::Level, it.level.name()));
        let drives = bench.parts.drives.iter().map(|it| (Kind::Drives, &it.kind[..]));
        let controllers = bench.parts.controllers.iter().map(|it| (Kind::Controller, &it.family[..]));
        let all = levels.chain(drives).chain(controllers);
        all.map(|(kind, name)| Self { kind, name: name.to_owned() }).collect()
    }

    fn holds(&self, geometry: Geometry, cost: Option<f64>, parts: &PartList) -> bool {
        let name = match self.kind {
            Kind::Level => geometry.level.level.name(),
            Kind::Drives => &parts.drives[usize::from(geometry.drive)].kind,
            Kind::Controller => &parts.controllers[usize::from(geometry.controller)].family,
            Kind::Unpriced => return cost.is_none(),
        };
        name == self.name
    }

    /// That arithmetic has nothing against some of it, and none was run; none where it rejects all. Drives of which all arrays take
    /// many times what the best does were not measured: their arrays may serve, too.
    fn not_run(
        &self,
        bench: &Bench<'_>,
        found: &Enumeration,
        (best, ranking): (Option<&Judged>, Ranking<'_>),
    ) -> Option<String> {
        let of_it = found.kept.iter().filter(|one| self.holds(one.geometry, one.cost, bench.parts));
        // What has no price takes more than what has one.
        let effort = |one: &Kept| match one.cost.filter(|_| ranking.has_prices) {
            Some(cost) => (false, cost),
            None => (true, one.assumed_cost),
        };
        let least = of_it.min_by(|a, b| {
            let (a, b) = (effort(a), effort(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        })?;
        let takes = takes(bench, (least.geometry, effort(least)), best);
        Some(format!("not simulated; by arithmetic it may keep the needs {takes}"))
    }

    /// How near the nearest of it came that arithmetic rejected.
    fn nearest(&self, found: &Enumeration, parts: &PartList) -> Option<Nearest> {
        let nearer = |a: &Nearest, b: &Nearest| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1));
        let all: Vec<Nearest> = match self.kind {
            Kind::Level => {
                let of_it = found.nearest_levels.iter().filter(|(level, _)| level.level.name() == self.name);
                of_it.map(|(_, nearest)| *nearest).collect()
            }
            Kind::Drives => {
                let is_it = |at: u16| parts.drives[usize::from(at)].kind == self.name;
                found.nearest_drives.iter().filter(|(at, _)| is_it(**at)).map(|(_, it)| *it).collect()
            }
            Kind::Controller => {
                let is_it = |at: u16| parts.controllers[usize::from(at)].family == self.name;
                found.nearest_controllers.iter().filter(|(at, _)| is_it(**at)).map(|(_, it)| *it).collect()
            }
            Kind::Unpriced => Vec::new(),
        };
        all.into_iter().max_by(nearer)
    }
}

/// What the array that takes least of some takes, and the others more: money, or by usual ratios of prices; where the best takes
/// nothing, what is to be added to what is there.
fn takes(
    bench: &Bench<'_>,
    (geometry, (is_assumed, effort)): (Geometry, (bool, f64)),
    best: Option<&Judged>,
) -> String {
    let best_assumed = best.map(|best| best.assumed_cost).filter(|cost| *cost > 0.0);
    match (is_assumed, best_assumed) {
        _ if bench.is_owned(geometry) => "with nothing to be bought".to_owned(),
        (false, _) => format!("at a cost of {effort:.0} and more"),
        (true, Some(best)) => {
            format!("at {:.2} times the cost and more, by usual ratios of prices", effort / best)
        }
        (true, None) => match bench.short_adds(geometry) {
            Some(adds) => format!("with {adds} and more to be added"),
            None => {
                format!("with {} and more", counted(geometry.members + geometry.spares, "drive"))
            }
        },
    }
}

/// Whether it is known what its drives do at best.
fn is_measured(geometry: Geometry, parts: &PartList) -> bool {
    !parts.drives[usize::from(geometry.drive)].rates.random.is_empty()
}

/// All kinds, and what has no price where others have one.
fn classes(bench: &Bench<'_>, ranking: Ranking<'_>) -> BTreeSet<Class> {
    let mut classes = Class::all(bench);
    if ranking.has_prices {
        classes.insert(Class { kind: Kind::Unpriced, name: "without a price".to_owned() });
    }
    classes
}

/// Runs the most promising arrays of each kind until nothing of it is expected to stand before what was run of it, a few at most. The
/// most promising of what is left then comes back.
pub(super) fn run(
    bench: &Bench<'_>,
    frontier: &mut Frontier<'_>,
    crew: &mut Crew<'_>,
    (from, to): (f64, f64),
) -> Result<Hopes, PlanError> {
    let classes = classes(bench, frontier.ranking());
    let part = |round: usize| from + (to - from) * round as f64 / ROUNDS as f64;
    for round in 0..ROUNDS {
        let mut batch: Vec<Judged> = Vec::new();
        for class in &classes {
            // What is about to be run may be the first of it.
            let is_next = batch.iter().any(|one| class.holds(one.geometry, one.cost, bench.parts));
            let done = frontier.judged().len() + batch.len();
            if is_next || bench.order.simulations_max.is_some_and(|most| done >= most) {
                continue;
            }
            // A drive that was not measured is bounded by links alone, and would look the most promising of all.
            batch.extend(frontier.poll_of(|geometry, cost| {
                class.holds(geometry, cost, bench.parts) && is_measured(geometry, bench.parts)
            }));
        }
        if batch.is_empty() {
            break;
        }
        let stage =
            Stage { label: "simulating the best of other kinds", from: part(round), to: part(round + 1) };
        let results = judge_all(bench, crew, stage, (&batch, Window::Short))?;
        frontier.handle_judged(results.into_iter().map(|(judged, _)| judged).collect());
    }
    Ok(hopes(bench, frontier))
}

/// The most promising array of each kind that was not run, where it may stand before all of it that were.
pub(super) fn hopes(bench: &Bench<'_>, frontier: &Frontier<'_>) -> Hopes {
    let hope = |class: Class| {
        let hope = frontier.hope_of(|geometry, cost| class.holds(geometry, cost, bench.parts))?;
        Some((class, hope))
    };
    classes(bench, frontier.ranking()).into_iter().filter_map(hope).collect()
}

/// Each kind that the best of `judged` is not of, in a line.
pub(super) fn of(
    bench: &Bench<'_>,
    (best, judged, hopes): (Option<&Judged>, &[Judged], &Hopes),
    ranking: Ranking<'_>,
    found: &Enumeration,
) -> Vec<Alternative> {
    let mut classes = Class::all(bench);
    if ranking.has_prices && judged.iter().any(|one| one.cost.is_none()) {
        classes.insert(Class { kind: Kind::Unpriced, name: "without a price".to_owned() });
    }
    let is_other =
        |class: &Class| best.is_none_or(|best| !class.holds(best.geometry, best.cost, bench.parts));
    let of_class = |class: Class| {
        let of_it = judged.iter().find(|one| class.holds(one.geometry, one.cost, bench.parts));
        let (keeps_needs, verdict) = match (of_it, best) {
            (Some(one), Some(best)) => {
                let hope = hopes.get(&class).and_then(|hope| may_be(bench, (hope, one), best, ranking));
                let verdict = against(bench, one, best, ranking) + &hope.unwrap_or_default();
                (Some(one.keeps(ranking.needs)), verdict)
            }
            _ => match class.not_run(bench, found, (best, ranking)) {
                Some(verdict) => (None, verdict),
                None => (Some(false), class.nearest(found, bench.parts).map(out)?),
            },
        };
        let slowest = |one: &Judged| one.performance.iter().copied().min_by(|a, b| a.iops.total_cmp(&b.iops));
        let name = match class.kind {
            Kind::Level => format!("RAID {}", class.name),
            Kind::Drives | Kind::Controller | Kind::Unpriced => class.name,
        };
        Some(Alternative {
            kind: class.kind,
            name,
            array: of_it.map(|one| bench.label(one.geometry)),
            performance: of_it.and_then(slowest),
            cost: of_it.and_then(|one| one.cost),
            keeps_needs,
            verdict,
        })
    };
    classes.into_iter().filter(is_other).filter_map(of_class).collect()
}

/// That an array which was not run may stand before `first`, the first of its kind that was; none where longer runs say otherwise.
fn may_be(
    bench: &Bench<'_>,
    (hope, first): (&Judged, &Judged),
    best: &Judged,
    ranking: Ranking<'_>,
) -> Option<String> {
    let is_cheaper = match (ranking.effort(hope), ranking.effort(first)) {
        (Some(hope), Some(first)) => hope < first,
        (hope, _) => hope.is_some(),
    };
    let is_as_dear = ranking.needs.wants_cheapest() && first.keeps(ranking.needs) && !is_cheaper;
    if is_as_dear || !hope.keeps(ranking.needs) || ranking.key(hope) >= ranking.key(first) {
        return None;
    }
    let label = bench.label(hope.geometry);
    Some(if ranking.needs.wants_cheapest() {
        format!("; not simulated: {label}, {}, may keep them", at_cost(bench, hope, best))
    } else {
        format!("; not simulated: {label} may be faster")
    })
}

/// What an array that was run misses, or what it takes more than the best.
fn against(bench: &Bench<'_>, one: &Judged, best: &Judged, ranking: Ranking<'_>) -> String {
    let missed = missed_needs(one, ranking.needs);
    if !missed.is_empty() {
        return format!("misses {}", missed.join(", "));
    }
    let speed = match one.times_as_fast(best) {
        Some(speed) if (0.995..1.005).contains(&speed) => "; as fast".to_owned(),
        Some(speed) => format!("; {speed:.2} times as fast"),
        None => String::new(),
    };
    format!("keeps the needs {}{speed}", at_cost(bench, one, best))
}

/// The needs that an array misses, each with how far.
pub(super) fn missed_needs(one: &Judged, needs: &Needs) -> Vec<String> {
    let margins = one.margins(needs);
    let missed = margins.all().filter(|(_, margin)| *margin < 0.0);
    let mut missed: Vec<String> = missed.map(|(name, margin)| missed_by(name, margin)).collect();
    if needs.years.is_some_and(|years| margins.life.is_none() && !one.life.lasts(years)) {
        missed.push("drive life, as nobody says how much may be written".to_owned());
    }
    missed
}

/// A need with how far it is missed.
pub(super) fn missed_by(name: &str, margin: f64) -> String {
    format!("{name} by {:.0} %", (-100.0 * margin).max(1.0))
}

/// What arithmetic says of those that it rejects.
fn out((reason, share): Nearest) -> String {
    match reason {
        Rejection::Throughput => {
            format!("by arithmetic at best {:.0} % of the throughput needed", 100.0 * share)
        }
        Rejection::Capacity => format!("at most {:.0} % of the capacity needed", 100.0 * share),
        Rejection::Endurance => format!("drives last at best {:.0} % of the years needed", 100.0 * share),
        Rejection::Budget => format!("costs {:.2} times the budget", 1.0 / share),
        Rejection::Power => format!("takes {:.2} times the power allowed", 1.0 / share),
        Rejection::Loss => format!("{:.1} times the chance of losing data that is allowed", 1.0 / share),
        Rejection::RackUnits => format!("takes {:.2} times the rack units allowed", 1.0 / share),
        other => other.to_string(),
    }
}
