//! Which candidates are simulated and for how long, and which of them are the best.
//!
//! ```text
//! frontier ⇄ short runs ─► smaller ones of the best ─► long runs, degraded, rebuilding
//! ```
//! The search ends when the frontier is empty, or with the order's budget: time, or a number of geometries; then the
//! arrays that could still be better are counted.

use super::application::part_name;
use super::estimates::{PerformanceRange, at_end};
use super::faults::Faults;
use super::judge::{Window, alone, judge};
use super::life::{DriveLife, drive_life};
use super::md;
use super::reason::{beside, reason, rests_on, settings_label};
use super::{Bench, Crew, PARTS_SHARE, PlanError, Planned, SearchEnd, Stage};
use raidlab_advisor::plan::{Frontier, Hardware, Judged, Kept, Performance, Ranking, Request, Settings};
use raidlab_hardware::{Catalog, End};
use raidlab_units::ByteCount;
use raidlab_workload::RunResult;
use raidlab_worlds::Parts;

/// Geometries that are run at once, before it is asked whether that is enough.
const BATCH: usize = 6;

/// Kinds of drives of which smaller arrays are run, too, where there is no throughput need.
const DRIVES_SMALLER: usize = 3;

/// Which of the numbers of members smaller ones have, in thirds of how many there are.
const SMALLER: [usize; 3] = [0, 1, 2];

/// Best arrays whose chunks are tried.
const CHUNKS_OF: usize = 2;

/// How far it all is, about, when the search, the smaller ones, the longer runs, the bottlenecks and the faults are done; parts
/// are before, and the ends of what figures may be after.
const SEARCH_SHARE: f64 = 0.65;
const SMALLER_SHARE: f64 = 0.75;
const LONG_SHARE: f64 = 0.85;
const BOTTLENECKS_SHARE: f64 = 0.90;
const FAULTS_SHARE: f64 = 0.97;

/// What was chosen.
pub(super) struct Chosen<'a> {
    pub(super) top: Vec<Planned>,
    /// Each geometry that was simulated, with its best settings, best first.
    pub(super) all: Vec<Judged>,
    /// Arrays that were simulated, each number of settings counted.
    pub(super) simulated: u64,
    /// Geometries that could still be better, with settings that were not tried.
    pub(super) left_out: u64,
    /// Why the search ended.
    pub(super) end: SearchEnd,
    /// The order of arrays.
    pub(super) ranking: Ranking<'a>,
}

pub(super) fn choose<'a>(
    bench: &Bench<'_>,
    request: &Request<'a>,
    (kept, delivered): (&[Kept], &Catalog),
    mut crew: Crew<'_>,
) -> Result<Chosen<'a>, PlanError> {
    let mut frontier = Frontier::new(request.clone(), kept.to_vec());
    let end = search(bench, &mut frontier, &mut crew)?;
    let (left_out, ranking) = (frontier.open(), frontier.ranking());
    let (judged, tried) = frontier.into_results();
    let simulated = tried.len() as u64;
    let mut search = Search { bench, ranking, judged, tried, simulated, crew: &mut crew };
    search.run_smaller(request, kept)?;
    search.run_chunks()?;
    let mut top = search.top()?;
    if let Some(first) = top.first_mut() {
        let rebuild = first.rebuild_bytes_per_sec;
        first.md = md::answer(bench, (delivered, rebuild), &first.judged, (request, kept), search.crew)?;
    }
    Ok(Chosen { top, all: search.judged, simulated: search.simulated, left_out, end, ranking })
}

/// Simulates what the frontier hands out until it is empty or the budget is used up.
pub(super) fn search(
    bench: &Bench<'_>,
    frontier: &mut Frontier<'_>,
    crew: &mut Crew<'_>,
) -> Result<SearchEnd, PlanError> {
    let budget = bench.order.simulations_max;
    let mut from = PARTS_SHARE;
    loop {
        let done = frontier.judged().len();
        let geometries = budget.map_or(BATCH, |most| BATCH.min(most.saturating_sub(done)));
        if geometries == 0 && frontier.open() > 0 {
            return Ok(SearchEnd::Simulations);
        }
        // What was found at least is an answer.
        if done > 0 && frontier.open() > 0 && !crew.has_time()? {
            return Ok(SearchEnd::Time);
        }
        let batch = frontier.poll_batch(geometries);
        if batch.is_empty() {
            return Ok(SearchEnd::Proven);
        }
        let label = format!("simulated {done} arrays, {} could be better", frontier.open());
        let to = from + (SEARCH_SHARE - from) / 4.0;
        let results = judge_all(bench, crew, Stage { label: &label, from, to }, (&batch, Window::Short))?;
        frontier.handle_judged(results.into_iter().map(|(judged, _)| judged).collect());
        from = to;
    }
}

/// Judges `list` on several processors, in order.
fn judge_all(
    bench: &Bench<'_>,
    crew: &mut Crew<'_>,
    stage: Stage<'_>,
    (list, window): (&[Judged], Window),
) -> Result<Vec<(Judged, Vec<RunResult>)>, PlanError> {
    crew.on_all(stage, list.len(), |index| judge(bench, &list[index], window))
}

pub(super) struct Search<'a, 'b, 'c> {
    pub(super) bench: &'a Bench<'a>,
    pub(super) ranking: Ranking<'a>,
    /// Each geometry once, with the best settings so far.
    pub(super) judged: Vec<Judged>,
    /// Every run that was made.
    pub(super) tried: Vec<Judged>,
    pub(super) simulated: u64,
    pub(super) crew: &'b mut Crew<'c>,
}

impl Search<'_, '_, '_> {
    /// Without a throughput need the search ends with as many drives as help: runs smaller ones of the best kinds of drives, with the
    /// settings that were best, so that it can be seen what more drives are worth.
    fn run_smaller(&mut self, request: &Request<'_>, kept: &[Kept]) -> Result<(), PlanError> {
        if self.ranking.needs.wants_rate() {
            return Ok(());
        }
        let mut drives = Vec::new();
        let mut smaller: Vec<Judged> = Vec::new();
        for judged in &self.judged {
            let own = judged.geometry;
            if drives.len() == DRIVES_SMALLER || drives.contains(&own.drive) {
                continue;
            }
            drives.push(own.drive);
            let mut like: Vec<&Kept> = kept
                .iter()
                .filter(|it| it.geometry.is_like(&own) && it.geometry.members < own.members)
                .collect();
            like.sort_by_key(|it| it.geometry.members);
            let mut ats: Vec<usize> = SMALLER.iter().map(|thirds| thirds * like.len() / 3).collect();
            ats.dedup();
            let new = |one: &Judged| self.judged.iter().all(|it| it.geometry != one.geometry);
            let these = ats.into_iter().filter_map(|at| like.get(at));
            smaller.extend(these.map(|it| it.unjudged(request, judged.settings)).filter(new));
        }
        let stage =
            Stage { label: "simulating smaller ones of the best", from: SEARCH_SHARE, to: SMALLER_SHARE };
        let results = judge_all(self.bench, self.crew, stage, (&smaller, Window::Short))?;
        self.simulated += results.len() as u64;
        for (judged, _) in results {
            self.tried.push(judged.clone());
            self.judged.push(judged);
        }
        self.ranking.sort(&mut self.judged);
        Ok(())
    }

    /// Runs the best arrays of md with other chunks, which are kept where they are better.
    fn run_chunks(&mut self) -> Result<(), PlanError> {
        let best = &self.judged[..CHUNKS_OF.min(self.judged.len())];
        let of_md: Vec<&Judged> = best
            .iter()
            .filter(|one| one.settings.strip.is_none() && md::has_chunks(self.bench, one))
            .collect();
        let with = |one: &Judged, kib: u64| {
            let settings = Settings { strip: Some(ByteCount::from_kib(kib)), ..one.settings };
            Judged { settings, ..one.clone() }
        };
        let others: Vec<Judged> =
            of_md.iter().flat_map(|one| md::CHUNKS_KIB.map(|kib| with(one, kib))).collect();
        let stage = Stage { label: "trying other chunks", from: SMALLER_SHARE, to: SMALLER_SHARE };
        let results = judge_all(self.bench, self.crew, stage, (&others, Window::Short))?;
        self.simulated += results.len() as u64;
        for (judged, _) in results {
            self.tried.push(judged.clone());
            let place = self.judged.iter_mut().find(|it| it.geometry == judged.geometry);
            if let Some(place) = place.filter(|it| self.ranking.key(&judged) < self.ranking.key(it)) {
                *place = judged;
            }
        }
        self.ranking.sort(&mut self.judged);
        Ok(())
    }

    /// Runs the best longer, degraded and rebuilding.
    pub(super) fn top(&mut self) -> Result<Vec<Planned>, PlanError> {
        let needs = self.ranking.needs;
        let count = self.bench.order.top.min(self.judged.len());
        // What misses a need is told of only where nothing keeps them.
        let keeps = self.judged[..count].iter().filter(|one| one.keeps(needs)).count();
        let best: Vec<Judged> = self.judged[..if keeps > 0 { keeps } else { count }].to_vec();
        let stage = Stage { label: "running the best for longer", from: SMALLER_SHARE, to: LONG_SHARE };
        let mut results = judge_all(self.bench, self.crew, stage, (&best, Window::Long))?;
        self.simulated += results.len() as u64;
        for (place, (judged, _)) in self.judged.iter_mut().zip(&results) {
            *place = judged.clone();
            self.tried.push(judged.clone());
        }
        self.ranking.sort(&mut self.judged);
        let order: Vec<Judged> =
            self.judged.iter().filter(|one| results.iter().any(|(it, _)| it == *one)).cloned().collect();
        results.sort_by_key(|(judged, _)| order.iter().position(|other| other == judged));
        self.bottlenecks(&mut results)?;
        let faults = self.faults(&order)?;
        let alone = self.alone(&order)?;
        let range = self.range(order.first())?;
        let (bench, apps) = (self.bench, self.bench.order.applications);
        let planned = results
            .into_iter()
            .zip(faults)
            .map(|((judged, runs), faults)| planned(bench, judged, runs, faults, (&order, &self.tried)));
        let mut planned: Vec<Planned> = planned.collect();
        for (one, alone) in planned.iter_mut().zip(alone) {
            one.reason += &beside(bench, &one.judged, &alone);
            one.alone = alone;
        }
        if let Some(first) = planned.first_mut() {
            let names = (0..apps.len()).map(|app| part_name(apps, app));
            first.reason += &rests_on(&first.estimates, names.zip(&range));
            first.range = range;
        }
        Ok(planned)
    }

    /// Where applications run together, what each gets of each of `best` alone, with as many requests in flight.
    fn alone(&mut self, best: &[Judged]) -> Result<Vec<Vec<Performance>>, PlanError> {
        let (bench, apps) = (self.bench, self.bench.order.applications.len());
        if !bench.order.together {
            return Ok(best.iter().map(|_| Vec::new()).collect());
        }
        let stage = Stage { label: "running each application alone", from: FAULTS_SHARE, to: FAULTS_SHARE };
        let job = |index: usize| alone(bench, &best[index / apps], index % apps);
        let found = self.crew.on_all(stage, best.len() * apps, job)?;
        Ok(found.chunks_exact(apps).map(<[Performance]>::to_vec).collect())
    }

    /// Runs the first once more with its parts at both ends of what their figures may be.
    fn range(&mut self, first: Option<&Judged>) -> Result<Vec<PerformanceRange>, PlanError> {
        const ENDS: [End; 2] = [End::Slower, End::Faster];
        let Some(first) = first else { return Ok(Vec::new()) };
        let (bench, runs) = (self.bench, self.bench.order.runs());
        let stage =
            Stage { label: "running the first at both ends of its estimates", from: FAULTS_SHARE, to: 1.0 };
        let job = |index: usize| at_end(bench, first, (index / 2, ENDS[index % 2]));
        let found = self.crew.on_all(stage, 2 * runs, job)?;
        let both = |pair: &[Vec<Performance>]| {
            let ends = pair[0].iter().zip(&pair[1]);
            ends.map(|(slower, faster)| PerformanceRange { slower: *slower, faster: *faster })
                .collect::<Vec<_>>()
        };
        Ok(found.chunks_exact(2).flat_map(both).collect())
    }

    /// Finds what sets the pace of each run of the best.
    fn bottlenecks(&mut self, best: &mut [(Judged, Vec<RunResult>)]) -> Result<(), PlanError> {
        let (bench, each) = (self.bench, self.bench.order.runs());
        let jobs = best.len() * each;
        let stage =
            Stage { label: "finding the bottlenecks of the best", from: LONG_SHARE, to: BOTTLENECKS_SHARE };
        let job = |index: usize| bench.bottleneck(&best[index / each].0, index % each);
        let found = self.crew.on_all(stage, jobs, job)?;
        let runs = best.iter_mut().flat_map(|(_, runs)| runs);
        runs.zip(found).for_each(|(run, facts)| run.bottleneck = Some(facts));
        Ok(())
    }

    /// What faults do to each of `best`.
    fn faults(&mut self, best: &[Judged]) -> Result<Vec<Faults>, PlanError> {
        let bench = self.bench;
        let with_redundancy = best.iter().enumerate().filter(|(_, judged)| judged.survives_always > 0);
        let runs = 0..bench.order.runs();
        let jobs: Vec<(usize, usize)> =
            with_redundancy.flat_map(|(one, _)| runs.clone().map(move |run| (one, run))).collect();
        let stage =
            Stage { label: "failing a member of the best", from: BOTTLENECKS_SHARE, to: FAULTS_SHARE };
        let run = |index: usize| {
            let (one, run) = jobs[index];
            bench.faults(&best[one], run)
        };
        let results = self.crew.on_all(stage, jobs.len(), run)?;
        let mut faults: Vec<Faults> = best.iter().map(|_| Faults::default()).collect();
        for ((one, _), of_run) in jobs.iter().zip(results) {
            faults[*one].add(of_run);
        }
        Ok(faults)
    }
}

fn planned(
    bench: &Bench<'_>,
    judged: Judged,
    runs: Vec<RunResult>,
    faults: Faults,
    (order, tried): (&[Judged], &[Judged]),
) -> Planned {
    let needs = &bench.order.needs;
    let Faults { degraded, rebuilding, rebuild } = faults;
    let rebuild_hours = rebuild.map(|it| it.hours);
    let models = bench.models(judged.geometry);
    let lives: Vec<_> =
        runs.iter().enumerate().map(|(index, run)| drive_life(bench, &judged, index, run)).collect();
    let of_run = |(run, life): (usize, &Option<DriveLife>)| {
        bench.order.apps_of(run).map(|_| *life).collect::<Vec<_>>()
    };
    Planned {
        parts: Parts {
            controller: models.controller.id.clone(),
            enclosure: models.enclosure.map(|enclosure| enclosure.id.clone()),
            drive: models.drive.id.clone(),
        },
        strip: judged.settings.strip.unwrap_or(models.controller.strip_size),
        write_policy: bench.write_policy(&judged),
        at_risk: Hardware::of(bench.parts, judged.geometry).at_risk(judged.settings, judged.geometry.members),
        label: bench.label(judged.geometry),
        settings_label: settings_label(bench, &judged),
        margins: judged.margins(needs),
        keeps_needs: judged.keeps(needs),
        risk: bench.risk(judged.geometry, rebuild_hours),
        reason: reason(bench, &judged, (&runs, &lives), (order, tried)),
        drive_life: lives.iter().enumerate().flat_map(of_run).collect(),
        alone: Vec::new(),
        md: None,
        estimates: models.estimates(),
        range: Vec::new(),
        degraded,
        rebuilding,
        rebuild_hours,
        rebuild_bytes_per_sec: rebuild.map(|it| it.bytes_per_sec),
        runs,
        judged,
    }
}
