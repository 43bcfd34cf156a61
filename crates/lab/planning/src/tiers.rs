//! Applications on one array, or on two arrays in one enclosure behind one controller: whichever costs less.
//!
//! ```text
//! each group of applications ─► a separate search ─► arrays that serve it
//! one array for all ──────────────────────────┐
//! two groups, two arrays ─► cheapest first ─► run at the same time ─► the first that satisfies all needs
//! ```
//! - **Cost** is money where prices are known, else counted by usual ratios of prices. Controller and enclosure count once.
//! - A pair is run as in reality: both arrays on the one controller, each with half of its cache, every application at
//!   once. The figures contain their competition for links and processors.
//! - If one array costs no more than two, one is chosen.
//!
//! Left out: more than two arrays, arrays that share drives. A group's search ends when nothing can cost less than its
//! best. So if the best of both groups do not work together, only other arrays simulated on the way are tried.

use super::alternatives::{missed_by, missed_needs};
use super::application::{part_name, together};
use super::choose::{Search, search};
use super::judge::{self, Window};
use super::md;
use super::outcome::{PlannedApplication, effort_name};
use super::{Bench, Crew, PlanError, PlanOrder, Planned, SearchEnd, parts};
use raidlab_advisor::plan::{
    Frontier, Judged, Kept, Needs, PartList, Performance, Ranking, enumerate, estimate::Demand,
};
use raidlab_hardware::Catalog;
use raidlab_hosts::{Hosts, all_processors};
use raidlab_sim::{
    ControllerName, LoadRegion, SimulatedEnclosure, SimulationLoad, VolumeLoad, simulate_each,
};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::LagStats;
use raidlab_worlds::simulated::SimulatedError;
use serde::{Serialize, Serializer};

/// Applications at most: each group of them is a search.
pub const TIER_APPLICATIONS_MAX: usize = 4;

/// Pairs that are run at most before there is no plan of two arrays.
const PAIRS_MAX: usize = 6;

/// What arrays miss that kept all in short runs only.
const LONGER: &str = "a need in its longer run";

/// Requests that the run of a pair makes at most, about.
const PAIR_REQUESTS: f64 = 200_000.0;

/// Where the applications are.
#[derive(Debug)]
pub struct TiersOutcome {
    /// What was needed.
    pub needs: Needs,
    /// Who it is for.
    pub applications: Vec<PlannedApplication>,
    /// The best placement on one array, if there is one that keeps all needs.
    pub one: Option<Placement>,
    /// The best placement on two.
    pub two: Option<Placement>,
    /// The searches, group by group.
    pub searches: Vec<GroupSearch>,
    /// Where nothing keeps all needs, what did so in short runs or array by array, and misses one in longer runs or together.
    pub nearest: Option<Missing>,
    /// Whether effort is money; else it is counted by usual ratios of prices.
    pub has_prices: bool,
}

/// One search.
#[derive(Clone, Debug)]
pub struct GroupSearch {
    /// The applications, by number.
    pub applications: Vec<usize>,
    /// Geometries that arithmetic kept.
    pub kept: u64,
    /// Arrays that were simulated, each number of settings counted.
    pub simulated: u64,
    /// Geometries that could still be better.
    pub left_out: u64,
    /// Why it ended.
    pub end: SearchEnd,
    /// The array that came nearest, where none that was run keeps the needs.
    pub nearest: Option<Missing>,
}

/// Arrays that miss a need.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Missing {
    /// Each in words.
    pub arrays: Vec<String>,
    /// What they miss, and by how much.
    pub misses: Vec<String>,
}

/// Arrays that serve all applications at the same time.
#[derive(Debug)]
pub struct Placement {
    /// Each array with its applications.
    pub arrays: Vec<Tier>,
    /// What each application gets while all run, by number.
    pub performance: Vec<Performance>,
    /// Money, or drives.
    pub effort: f64,
    /// Drives, spares included.
    pub drives: u16,
}

/// An array and who it is for.
#[derive(Debug)]
pub struct Tier {
    /// The applications, by number.
    pub applications: Vec<usize>,
    /// The array, as it is with its own applications only.
    pub planned: Planned,
}

impl TiersOutcome {
    /// The placement that takes least; none where nothing keeps all needs.
    pub fn best(&self) -> Option<&Placement> {
        match (&self.one, &self.two) {
            (Some(one), Some(two)) if two.effort < one.effort => Some(two),
            (one, two) => one.as_ref().or(two.as_ref()),
        }
    }
}

/// Placements as they are written down.
#[derive(Serialize, schemars::JsonSchema)]
struct TiersFacts<'a> {
    /// Who it is for; `performance` of a placement is in this order.
    applications: &'a [PlannedApplication],
    needs: &'a Needs,
    effort: &'static str,
    best: Option<PlacementFacts<'a>>,
    one_array: Option<PlacementFacts<'a>>,
    two_arrays: Option<PlacementFacts<'a>>,
    /// Where nothing keeps all needs, what did so in short runs or array by array, and misses one in longer runs or together.
    nearest: Option<&'a Missing>,
    searches: Vec<SearchFacts<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct PlacementFacts<'a> {
    arrays: Vec<TierFacts<'a>>,
    performance: &'a [Performance],
    effort: f64,
    drives: u16,
}

#[derive(Serialize, schemars::JsonSchema)]
struct TierFacts<'a> {
    applications: Vec<&'a str>,
    array: &'a Planned,
}

#[derive(Serialize, schemars::JsonSchema)]
struct SearchFacts<'a> {
    applications: Vec<&'a str>,
    kept: u64,
    runs_simulated: u64,
    left_out: u64,
    search_end: SearchEnd,
    /// The array that came nearest, where none that was run keeps the needs.
    nearest: Option<&'a Missing>,
}

impl TiersOutcome {
    /// A search, as it is written down.
    fn search<'a>(&'a self, it: &'a GroupSearch) -> SearchFacts<'a> {
        SearchFacts {
            applications: self.names_of(&it.applications),
            kept: it.kept,
            runs_simulated: it.simulated,
            left_out: it.left_out,
            search_end: it.end,
            nearest: it.nearest.as_ref(),
        }
    }

    /// Names of applications, by number.
    fn names_of(&self, applications: &[usize]) -> Vec<&str> {
        applications.iter().map(|app| &self.applications[*app].name[..]).collect()
    }

    fn placement<'a>(&'a self, it: &'a Placement) -> PlacementFacts<'a> {
        let tier = |tier: &'a Tier| TierFacts {
            applications: self.names_of(&tier.applications),
            array: &tier.planned,
        };
        let Placement { arrays, performance, effort, drives } = it;
        let arrays = arrays.iter().map(tier).collect();
        PlacementFacts { arrays, performance, effort: *effort, drives: *drives }
    }
}

impl schemars::JsonSchema for TiersOutcome {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TiersOutcome".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        TiersFacts::json_schema(generator)
    }
}

impl Serialize for TiersOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = TiersFacts {
            applications: &self.applications,
            needs: &self.needs,
            effort: effort_name(self.has_prices),
            best: self.best().map(|it| self.placement(it)),
            one_array: self.one.as_ref().map(|it| self.placement(it)),
            two_arrays: self.two.as_ref().map(|it| self.placement(it)),
            nearest: self.nearest.as_ref(),
            searches: self.searches.iter().map(|it| self.search(it)).collect(),
        };
        facts.serialize(serializer)
    }
}

/// Applications that share an array.
struct Group {
    apps: Vec<usize>,
    applications: Vec<super::Application>,
    needs: Needs,
}

impl Group {
    fn new(order: &PlanOrder<'_>, apps: Vec<usize>) -> Self {
        let applications = apps.iter().map(|app| order.applications[*app].clone()).collect();
        let own: Vec<_> = apps.iter().map(|app| order.needs.own[*app].clone()).collect();
        let usable = own.iter().filter_map(|own| own.usable).fold(ByteCount::ZERO, |sum, size| sum + size);
        // Placements are for the least cost, whatever is the best of one array.
        let needs = Needs { usable, own, goal: None, ..order.needs.clone() };
        Self { apps, applications, needs }
    }

    fn order<'b>(&'b self, order: &PlanOrder<'b>) -> PlanOrder<'b> {
        let (needs, space) = (self.needs.clone(), order.space.clone());
        PlanOrder { applications: &self.applications, needs, space, top: 1, ..*order }
    }
}

/// What a search found: what arithmetic kept, each geometry with its best settings, best first, and all runs.
struct Found {
    kept: Vec<Kept>,
    judged: Vec<Judged>,
    tried: Vec<Judged>,
}

/// Places the applications of `order` on one array or two. `has_time` is asked with the share of the searches that the present one
/// ends at, whether there is time for more of it.
///
/// # Errors
/// [`PlanError`] if the order can't be placed so, a part is not known, an array can't be simulated or a rank is lost.
pub fn plan_tiers(
    order: &PlanOrder<'_>,
    hosts: &mut Hosts,
    has_time: &mut dyn FnMut(f64) -> bool,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<TiersOutcome, PlanError> {
    check(order)?;
    let threads = order.threads.unwrap_or_else(all_processors);
    let (delivered, tuned) = (order.catalog, md::tuned(order.catalog));
    let order = &order.with_catalog(tuned.as_ref().unwrap_or(delivered));
    let mut parts_crew =
        Crew { hosts: &mut *hosts, threads, has_time: &mut || true, progress: &mut *progress };
    let mut parts = parts::of_order(order)?;
    parts::measure(order, &mut parts, &mut parts_crew, |_| true)?;
    let count = order.applications.len();
    let masks: Vec<usize> = (1..1 << count).collect();
    let apps_of = |mask: usize| (0..count).filter(|app| mask >> app & 1 == 1).collect::<Vec<_>>();
    let groups: Vec<Group> = masks.iter().map(|mask| Group::new(order, apps_of(*mask))).collect();
    let orders: Vec<PlanOrder<'_>> = groups.iter().map(|group| group.order(order)).collect();
    let (mut found, mut searches, mut has_prices) = (Vec::new(), Vec::new(), false);
    for (index, (group, own)) in groups.iter().zip(&orders).enumerate() {
        let share = (index + 1) as f64 / groups.len() as f64;
        let mut crew =
            Crew { hosts: &mut *hosts, threads, has_time: &mut || has_time(share), progress: &mut *progress };
        let demands = own.demands();
        let bench = Bench { order: own, parts: &parts, demands: &demands };
        let request = own.request(&demands, &parts);
        let kept = enumerate(&request).kept;
        let mut frontier = Frontier::new(request, kept.clone());
        let end = search(&bench, &mut frontier, &mut crew)?;
        has_prices |= frontier.ranking().has_prices;
        let (left_out, ranking) = (frontier.open(), frontier.ranking());
        let (judged, tried) = frontier.into_results();
        let simulated = tried.len() as u64;
        let mut search =
            Search { bench: &bench, ranking, judged, tried, simulated, long: Vec::new(), crew: &mut crew };
        search.run_chunks()?;
        let Search { judged, tried, simulated, .. } = search;
        let applications = group.apps.clone();
        let nearest = judged.first().filter(|one| !one.keeps(&own.needs)).map(|one| Missing {
            arrays: vec![bench.label(one.geometry)],
            misses: missed_needs(one, &own.needs),
        });
        let kept_count = kept.len() as u64;
        searches.push(GroupSearch { applications, kept: kept_count, simulated, left_out, end, nearest });
        found.push(Found { kept, judged, tried });
    }
    let mut crew = Crew { hosts: &mut *hosts, threads, has_time: &mut || true, progress: &mut *progress };
    let mut tiers = Tiers {
        order,
        delivered,
        parts: &parts,
        orders: &orders,
        groups: &groups,
        found: &found,
        has_prices,
        nearest: None,
    };
    let one = tiers.one(&mut crew)?;
    let two = tiers.two(&mut crew, one.as_ref().map(|it| it.effort))?;
    let applications = PlannedApplication::all(order.applications);
    let nearest = tiers.nearest.filter(|_| one.is_none() && two.is_none());
    Ok(TiersOutcome { needs: order.needs.clone(), applications, one, two, searches, nearest, has_prices })
}

/// Checks that it can be placed on two arrays at all.
fn check(order: &PlanOrder<'_>) -> Result<(), PlanError> {
    let refuse = |what: String| Err(PlanError::NoTiers { what });
    order.applications.iter().try_for_each(super::Application::check_together)?;
    let count = order.applications.len();
    if !(2..=TIER_APPLICATIONS_MAX).contains(&count) {
        return refuse(format!("there are {count} applications: give 2 to {TIER_APPLICATIONS_MAX}"));
    }
    if (1..count).any(|app| part_name(order.applications, app) != order.applications[app].workload.name()) {
        return refuse(
            "two applications have the same name: give one of them a workload file of its own".to_owned(),
        );
    }
    if order.controllers.len() != 1 || order.enclosures.len() != 1 {
        return refuse("both arrays are in one enclosure behind one controller: name one of each with --controllers and --enclosures".to_owned());
    }
    for (app, one) in order.applications.iter().enumerate() {
        let name = one.workload.name();
        if order.needs.own.get(app).and_then(|own| own.usable).is_none() {
            return refuse(format!(
                "application '{name}' has no part of the capacity: give --usable {name}:SIZE"
            ));
        }
        if order.needs.iops_of(app).or(order.needs.bytes_per_sec_of(app)).is_none() {
            return refuse(format!(
                "application '{name}' needs no throughput, so that no array is better than another that takes less: give --iops \
                 {name}:N or --mib-per-sec {name}:N"
            ));
        }
    }
    Ok(())
}

struct Tiers<'a> {
    order: &'a PlanOrder<'a>,
    /// Linux md as the kernel has it.
    delivered: &'a Catalog,
    parts: &'a PartList,
    /// By groups: the number of a group is the set of its applications as bits, less one.
    orders: &'a [PlanOrder<'a>],
    groups: &'a [Group],
    found: &'a [Found],
    has_prices: bool,
    /// The first that was run and missed a need.
    nearest: Option<Missing>,
}

impl Tiers<'_> {
    /// Those of a group that keep its needs, best first.
    fn serving(&self, group: usize) -> impl Iterator<Item = &Judged> {
        let needs = &self.orders[group].needs;
        self.found[group].judged.iter().filter(|one| one.keeps(needs))
    }

    /// What arrays take together; controller and enclosures once. Endless where other arrays have a price and these have none.
    fn effort(&self, arrays: &[&Judged]) -> f64 {
        let costs: Option<f64> =
            arrays.iter().map(|one| if self.has_prices { one.cost } else { Some(one.assumed_cost) }).sum();
        let shared = self.parts.shared_cost(arrays[0].geometry, self.has_prices);
        costs.map_or(f64::INFINITY, |costs| costs - (arrays.len() - 1) as f64 * shared)
    }

    /// Whether arrays are in one enclosure, and within what is allowed together.
    fn fits(&self, arrays: &[&Judged]) -> bool {
        let drives: u16 = arrays.iter().map(|one| one.drives()).sum();
        let first = arrays[0].geometry;
        let slots = first.enclosure.map_or(u16::MAX, |index| self.parts.enclosures[usize::from(index)].slots);
        let ports = self.parts.controllers[usize::from(first.controller)].ports.unwrap_or(u32::MAX);
        let needs = &self.order.needs;
        let watts: f64 = arrays.iter().map(|one| one.watts).sum();
        arrays.iter().all(|one| one.geometry.enclosure == first.enclosure)
            && drives <= slots.min(needs.slots.unwrap_or(u16::MAX))
            && u32::from(drives) <= ports
            && needs.budget.is_none_or(|budget| self.effort(arrays) <= budget)
            && needs.power_watts.is_none_or(|limit| watts <= limit)
    }

    fn bench<'b>(&'b self, group: usize, demands: &'b [Demand]) -> Bench<'b> {
        Bench { order: &self.orders[group], parts: self.parts, demands }
    }

    /// An array with all that is told of the best; if it is md's, its names begin with `first`.
    fn tier(
        &self,
        group: usize,
        (judged, first): (&Judged, u16),
        crew: &mut Crew<'_>,
    ) -> Result<Option<Tier>, PlanError> {
        let own = &self.orders[group];
        let demands = own.demands();
        let bench = self.bench(group, &demands);
        let ranking = Ranking { needs: &own.needs, has_prices: self.has_prices };
        let tried = self.found[group].tried.clone();
        let mut search = Search {
            bench: &bench,
            ranking,
            judged: vec![judged.clone()],
            tried,
            simulated: 0,
            long: Vec::new(),
            crew,
        };
        let Some(mut planned) = search.top()?.into_iter().next().filter(|planned| planned.keeps_needs) else {
            return Ok(None);
        };
        let request = own.request(&demands, self.parts);
        let (found, rebuild) = (&self.found[group], planned.rebuild_bytes_per_sec);
        planned.md = md::answer(
            &bench,
            (self.delivered, rebuild, first),
            &planned.judged,
            (&request, &found.kept),
            search.crew,
        )?;
        Ok(Some(Tier { applications: self.groups[group].apps.clone(), planned }))
    }

    /// Keeps what was run first and missed a need.
    fn note(&mut self, group: usize, arrays: &[&Judged], misses: Vec<String>) {
        let bench = self.bench(group, &[]);
        let arrays = arrays.iter().map(|one| bench.label(one.geometry)).collect();
        self.nearest.get_or_insert(Missing { arrays, misses });
    }

    /// The best that one array for all comes to.
    fn one(&mut self, crew: &mut Crew<'_>) -> Result<Option<Placement>, PlanError> {
        let all = self.orders.len() - 1;
        let fitting: Vec<Judged> =
            self.serving(all).filter(|one| self.fits(&[one])).take(PAIRS_MAX).cloned().collect();
        for judged in &fitting {
            let Some(tier) = self.tier(all, (judged, 0), crew)? else {
                self.note(all, &[judged], vec![LONGER.to_owned()]);
                continue;
            };
            let (effort, performance) = (self.effort(&[judged]), tier.planned.judged.performance.clone());
            return Ok(Some(Placement { arrays: vec![tier], performance, effort, drives: judged.drives() }));
        }
        Ok(None)
    }

    /// The best that two arrays come to, where they take less than `most`.
    fn two(&mut self, crew: &mut Crew<'_>, most: Option<f64>) -> Result<Option<Placement>, PlanError> {
        let all = self.orders.len();
        let mut pairs: Vec<(f64, [(usize, Judged); 2])> = Vec::new();
        // The first application is in the first group of each pair, so that none comes twice.
        for first in (1..all).filter(|set| set & 1 == 1) {
            let (a, b) = (first - 1, (all ^ first) - 1);
            for one in self.serving(a) {
                for other in self.serving(b).filter(|other| self.fits(&[one, other])) {
                    let effort = self.effort(&[one, other]);
                    if most.is_none_or(|most| effort < most) {
                        pairs.push((effort, [(a, one.clone()), (b, other.clone())]));
                    }
                }
            }
        }
        let score = |pair: &[(usize, Judged); 2]| pair[0].1.score * pair[1].1.score;
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0).then(score(&b.1).total_cmp(&score(&a.1))));
        for (effort, pair) in pairs.into_iter().take(PAIRS_MAX) {
            let performance = self.run(&pair)?;
            let judged = Judged { performance: performance.clone(), ..pair[0].1.clone() };
            let margins = judged.margins(&self.order.needs);
            if [margins.throughput, margins.latency].into_iter().flatten().any(|margin| margin < 0.0) {
                // Capacity is that of both, of which this is one.
                let figures = [("throughput", margins.throughput), ("latency", margins.latency)];
                let missed =
                    figures.iter().filter_map(|(name, margin)| Some((name, margin.filter(|it| *it < 0.0)?)));
                let misses = missed.map(|(name, margin)| missed_by(name, margin)).collect();
                self.note(pair[0].0, &[&pair[0].1, &pair[1].1], misses);
                continue;
            }
            let drives = pair.iter().map(|(_, one)| one.drives()).sum();
            let (mut arrays, mut first) = (Vec::new(), 0);
            for (group, judged) in &pair {
                let tier = self.tier(*group, (judged, first), crew)?;
                let of_md = tier.as_ref().filter(|tier| tier.planned.md.is_some());
                first += of_md.map_or(0, |tier| md::names(&tier.planned.judged.geometry));
                arrays.extend(tier);
            }
            if arrays.len() == 2 {
                return Ok(Some(Placement { arrays, performance, effort, drives }));
            }
            self.note(pair[0].0, &[&pair[0].1, &pair[1].1], vec![LONGER.to_owned()]);
        }
        Ok(None)
    }

    /// What each application gets, by number, with both arrays at work.
    fn run(&self, pair: &[(usize, Judged); 2]) -> Result<Vec<Performance>, PlanError> {
        let (mut volumes, mut loads, mut apps) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ramp, mut run, mut iops) = (NanoSpan::ZERO, NanoSpan::ZERO, 0.0);
        let mut controller = None;
        for (group, judged) in pair {
            let (own, group) = (&self.orders[*group], *group);
            let demands = own.demands();
            let bench = self.bench(group, &demands);
            let mut array = bench.array(judged, judged.geometry.spares, Window::Fault)?;
            let cache = &mut array.config.cache;
            let block = cache.block_size.0.max(1);
            cache.size = ByteCount(cache.size.0 / 2 / block * block);
            let paces = judge::paces(&bench, judged, 0);
            let load = judge::load(&bench, judged, 0, Window::Fault, &paces);
            (ramp, run) = (ramp.max(load.ramp), run.max(load.run));
            iops += judged.performance.iter().map(|it| it.iops).sum::<f64>();
            let models = bench.models(judged.geometry);
            volumes.push(models.volume(&array.config, ControllerName::A));
            controller.get_or_insert_with(|| models.controller_in_place());
            let workload = together(own.applications, &own.needs.own, &paces).spec;
            loads.push(VolumeLoad {
                workload,
                iodepth: paces[0].iodepth,
                region: LoadRegion::Bytes(array.region),
            });
            apps.extend(self.groups[group].apps.iter().copied().zip(paces));
        }
        let most = NanoSpan::from_secs_f64(PAIR_REQUESTS / iops.max(1.0));
        let run = run.min(most.max(NanoSpan::from_millis(250)));
        let load = SimulationLoad {
            workload: loads[0].workload.clone(),
            iodepth: 1,
            region: loads[0].region,
            ramp: ramp.min(run),
            run,
            seed: self.order.seed,
        };
        let controller = controller.expect("a pair has two arrays");
        let enclosure = SimulatedEnclosure { controller, second: None, volumes };
        let (_, measured) =
            simulate_each(&enclosure, &load, &loads).map_err(|source| PlanError::Simulation {
                label: "two arrays behind one controller".to_owned(),
                source: SimulatedError::from(source),
            })?;
        // What has one part only is not told by parts.
        let totals = measured.iter().flat_map(|measured| match &measured.part_summaries()[..] {
            [] => vec![(measured.summaries().total, measured.lag.as_ref().map(LagStats::summary))],
            parts => parts.iter().map(|part| (part.ops.total.clone(), part.lag)).collect(),
        });
        let mut performance = vec![Performance::default(); apps.len()];
        for ((app, pace), (total, lag)) in apps.into_iter().zip(totals) {
            performance[app] = self.order.applications[app].got(&total, lag.as_ref(), pace);
        }
        Ok(performance)
    }
}
