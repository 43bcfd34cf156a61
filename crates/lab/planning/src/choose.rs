//! Which candidates are simulated and for how long, and which of them are the best.
//!
//! ```text
//! frontier ⇄ short runs ─► the best of other kinds, smaller ones ─► long runs ─► degraded, rebuilding,
//!                                                                              bottleneck, estimates
//! ```
//! The search ends when the frontier is empty, or with the order's budget: time, or a number of geometries; then the
//! arrays that could still be better are counted.

use super::application::part_name;
use super::judge::{Window, judge};
use super::md;
use super::reason::{missed_with_faults, rests_on};
use super::told::{Told, planned_of};
use super::{Application, Bench, Crew, PARTS_SHARE, PlanError, Planned, SearchEnd, Stage, alternatives};
use raidlab_advisor::plan::{
    Enumeration, Frontier, Geometry, Judged, Kept, Needs, Ranking, Request, Settings, diverse, roles,
};
use raidlab_hardware::Catalog;
use raidlab_units::{ByteCount, counted};
use raidlab_workload::RunResult;

/// Geometries that are run at once, before it is asked whether that is enough.
const BATCH: usize = 6;

/// Kinds of drives of which smaller arrays are run, too, where there is no throughput need.
const DRIVES_SMALLER: usize = 3;

/// Which of the numbers of members smaller ones have, in thirds of how many there are.
const SMALLER: [usize; 3] = [0, 1, 2];

/// Best arrays whose chunks are tried.
const CHUNKS_OF: usize = 2;

/// Arrays at most that would take less and are run for longer for they missed a need by little.
const NEAR_MISSES_MAX: usize = 3;

/// How often others are run for longer at most because of what the longer runs found.
const OTHERS_MAX: usize = 3;

/// How far it all is, about, when the search, the best of other kinds, the smaller ones and the longer runs are done; parts are
/// before, and what is told of the best after.
const SEARCH_SHARE: f64 = 0.55;
const KINDS_SHARE: f64 = 0.65;
const SMALLER_SHARE: f64 = 0.75;
pub(super) const LONG_SHARE: f64 = 0.85;
pub(super) const FAULTS_SHARE: f64 = 0.94;

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
    /// What of each kind was not simulated and may stand before what was.
    pub(super) hopes: alternatives::Hopes,
    /// The order of arrays.
    pub(super) ranking: Ranking<'a>,
}

pub(super) fn choose<'a>(
    bench: &Bench<'_>,
    request: &Request<'a>,
    (enumeration, delivered): (&Enumeration, &Catalog),
    mut crew: Crew<'_>,
) -> Result<Chosen<'a>, PlanError> {
    let kept = &enumeration.kept;
    let mut frontier = Frontier::new(request.clone(), kept.clone());
    let end = search(bench, &mut frontier, &mut crew)?;
    let (left_out, ranking) = (frontier.open(), frontier.ranking());
    let hopes = alternatives::run(bench, &mut frontier, &mut crew, (SEARCH_SHARE, KINDS_SHARE))?;
    let (judged, tried) = frontier.into_results();
    let simulated = tried.len() as u64;
    let mut search = Search { bench, ranking, judged, tried, simulated, long: Vec::new(), crew: &mut crew };
    search.run_smaller(request, kept)?;
    search.run_chunks()?;
    let mut top = search.top()?;
    if let Some(first) = top.first_mut() {
        let rebuild = first.rebuild_bytes_per_sec;
        first.md = md::answer(bench, (delivered, rebuild, 0), &first.judged, (request, kept), search.crew)?;
    }
    Ok(Chosen { top, all: search.judged, simulated: search.simulated, left_out, end, hopes, ranking })
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
        let simulated = counted(done as u64, "array");
        let label = format!("simulated {simulated}, {} could be better", frontier.open());
        let to = from + (SEARCH_SHARE - from) / 4.0;
        let results = judge_all(bench, crew, Stage { label: &label, from, to }, (&batch, Window::Short))?;
        frontier.handle_judged(results.into_iter().map(|(judged, _)| judged).collect());
        from = to;
    }
}

/// Judges `list` on several processors, in order.
pub(super) fn judge_all(
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
    /// The geometries that were run for longer, and how many times their shorter runs they came to.
    pub(super) long: Vec<(Geometry, f64)>,
    pub(super) crew: &'b mut Crew<'c>,
}

impl Search<'_, '_, '_> {
    /// Where the fastest is the best the search ends with as many drives as help: runs smaller ones of the best kinds of drives, with the
    /// settings that were best, so that it can be seen what more drives are worth.
    fn run_smaller(&mut self, request: &Request<'_>, kept: &[Kept]) -> Result<(), PlanError> {
        if self.ranking.needs.wants_cheapest() {
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
            Stage { label: "simulating smaller ones of the best", from: KINDS_SHARE, to: SMALLER_SHARE };
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
    pub(super) fn run_chunks(&mut self) -> Result<(), PlanError> {
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

    /// Runs the best and what is shown beside it longer, degraded and rebuilding.
    pub(super) fn top(&mut self) -> Result<Vec<Planned>, PlanError> {
        let (bench, needs) = (self.bench, self.ranking.needs);
        let mut told = self.told()?;
        self.align_short_runs();
        told.sort_by_cached_key(|one| (self.ranking.key(&one.judged), one.judged.geometry));
        let order = shown(told.iter().map(|one| &one.judged), needs);
        let rows = diverse(&order, self.ranking, bench.parts, bench.order.top);
        let order: Vec<Judged> = rows.iter().map(|row| order[row.index].clone()).collect();
        told.retain(|one| order.iter().any(|it| it.geometry == one.judged.geometry));
        let all = shown(&self.judged, needs);
        let roles = roles(&order, &all, self.ranking, bench.parts);
        let range = self.tell_first(&mut told)?;
        let apps = bench.order.applications;
        let planned = told.into_iter().zip(roles);
        let planned = planned.map(|(one, roles)| planned_of(bench, one, roles, (&order, &self.tried)));
        let mut planned: Vec<Planned> = planned.collect();
        if let Some(first) = planned.first_mut() {
            let names = || (0..apps.len()).map(|app| part_name(apps, app));
            first.reason += &missed_with_faults(needs, names(), (&first.degraded, &first.rebuilding));
            first.reason += &rests_on(&first.estimates, needs, names().zip(&range));
            first.range = range;
        }
        Ok(planned)
    }

    /// The best and what is shown beside it, after longer runs and faults. Where these miss a need that short runs kept, what comes next
    /// instead is run, too.
    fn told(&mut self) -> Result<Vec<Told>, PlanError> {
        let (bench, needs) = (self.bench, self.ranking.needs);
        let may_be_shown = shown(&self.judged, needs);
        let rows = diverse(&may_be_shown, self.ranking, bench.parts, bench.order.top);
        let mut best: Vec<Judged> = rows.iter().map(|row| may_be_shown[row.index].clone()).collect();
        best.extend(self.nearly_kept());
        let stage = Stage { label: "running the best for longer", from: SMALLER_SHARE, to: LONG_SHARE };
        let results = judge_all(bench, self.crew, stage, (&best, Window::Long))?;
        let mut results = self.with_others(results)?;
        let mut told: Vec<Told> = Vec::new();
        for round in 0..=OTHERS_MAX {
            let mut long = shown(results.iter().map(|(judged, _)| judged), needs);
            self.ranking.sort(&mut long);
            let rows = diverse(&long, self.ranking, bench.parts, bench.order.top);
            let is_shown = |one: &Judged| rows.iter().any(|row| long[row.index].geometry == one.geometry);
            let is_told = |one: &Judged| told.iter().any(|it| it.judged.geometry == one.geometry);
            let next = results.iter().filter(|(one, _)| is_shown(one) && !is_told(one)).cloned().collect();
            for one in self.tell(next)? {
                self.take(&one.judged);
                let place = results.iter_mut().find(|(judged, _)| judged.geometry == one.judged.geometry);
                place.expect("it is of them").0 = one.judged.clone();
                told.push(one);
            }
            self.ranking.sort(&mut self.judged);
            let is_told = |one: &Judged| told.iter().any(|it| it.judged.geometry == one.geometry);
            let Some(first) =
                self.judged.first().filter(|first| round < OTHERS_MAX && !is_told(first)).cloned()
            else {
                break;
            };
            if results.iter().all(|(judged, _)| judged.geometry != first.geometry) {
                results.extend(self.run_longer(&[first])?);
            }
        }
        Ok(told)
    }

    /// Arrays that would take less than the best, and miss by little in a short run what they may keep in a longer one.
    pub(super) fn nearly_kept(&self) -> Vec<Judged> {
        let needs = self.ranking.needs;
        let Some(best) = self.judged.first().filter(|best| best.keeps(needs) && needs.wants_cheapest())
        else {
            return Vec::new();
        };
        let takes = |one: &Judged| self.ranking.effort(one).unwrap_or(f64::INFINITY);
        let mut near: Vec<&Judged> = self.judged.iter().collect();
        near.retain(|one| takes(one) < takes(best) && one.nearly_keeps(needs));
        near.sort_by(|one, other| takes(one).total_cmp(&takes(other)));
        near.into_iter().take(NEAR_MISSES_MAX).cloned().collect()
    }

    /// `results` of longer runs, and those of what they put first, where by its short run it may be by chance; then of what is shown
    /// instead of those that miss a need which they kept in a short run.
    fn with_others(
        &mut self,
        mut results: Vec<(Judged, Vec<RunResult>)>,
    ) -> Result<Vec<(Judged, Vec<RunResult>)>, PlanError> {
        self.simulated += results.len() as u64;
        for (judged, _) in &results {
            self.take(judged);
        }
        for _ in 0..OTHERS_MAX {
            self.ranking.sort(&mut self.judged);
            let others = self.others(&results);
            if others.is_empty() {
                break;
            }
            results.extend(self.run_longer(&others)?);
        }
        Ok(results)
    }

    fn run_longer(&mut self, others: &[Judged]) -> Result<Vec<(Judged, Vec<RunResult>)>, PlanError> {
        let stage = Stage { label: "running another one for longer", from: LONG_SHARE, to: LONG_SHARE };
        let more = judge_all(self.bench, self.crew, stage, (others, Window::Long))?;
        self.simulated += more.len() as u64;
        for (judged, _) in &more {
            self.take(judged);
        }
        Ok(more)
    }

    /// What is run for longer next, after these `results`.
    pub(super) fn others(&self, results: &[(Judged, Vec<RunResult>)]) -> Vec<Judged> {
        let (bench, needs) = (self.bench, self.ranking.needs);
        let is_new = |one: &&Judged| results.iter().all(|(judged, _)| judged.geometry != one.geometry);
        if let Some(first) = self.judged.first().filter(is_new) {
            return vec![first.clone()];
        }
        let missing = results.iter().filter(|(judged, _)| !judged.keeps(needs)).count();
        let room = bench.order.top.saturating_sub(results.len() - missing);
        let all = shown(&self.judged, needs);
        let rows = diverse(&all, self.ranking, bench.parts, bench.order.top);
        let rows = rows.iter().map(|row| &all[row.index]).filter(|one| is_new(one) && one.keeps(needs));
        rows.take(missing.min(room)).cloned().collect()
    }

    /// Takes in what a longer run found of an array.
    fn take(&mut self, found: &Judged) {
        if let Some(place) = self.judged.iter_mut().find(|it| it.geometry == found.geometry) {
            if self.long.iter().all(|(geometry, _)| *geometry != found.geometry) && place.score > 0.0 {
                self.long.push((found.geometry, found.times_as_fast(place).unwrap_or(1.0)));
            }
            *place = found.clone();
        }
        self.tried.push(found.clone());
    }

    /// Puts what was run briefly beside what was run for longer: times what longer runs came to for arrays of the same drive, else of
    /// its kind; of the same controller first. In a short run caches and buffers are not yet full.
    pub(super) fn align_short_runs(&mut self) {
        let Self { bench, long, judged, .. } = self;
        // What has a rate of its own gets that, in short runs and in long ones.
        let has_pace: Vec<bool> = bench.order.applications.iter().map(Application::has_pace).collect();
        let apps = has_pace.iter().filter(|it| !**it).count() as f64;
        if apps == 0.0 {
            return self.ranking.sort(&mut self.judged);
        }
        let kind = |drive: u16| &bench.parts.drives[usize::from(drive)].kind;
        let is_long = |one: &Judged| long.iter().any(|(geometry, _)| *geometry == one.geometry);
        for one in judged.iter_mut().filter(|one| !is_long(one)) {
            let own = one.geometry;
            let mean = |is_like: &dyn Fn(&Geometry) -> bool| {
                let ratios = long.iter().filter(|(geometry, _)| is_like(geometry)).map(|(_, ratio)| *ratio);
                let (count, sum) = ratios.fold((0.0, 0.0), |(count, sum), ratio| (count + 1.0, sum + ratio));
                (count > 0.0).then(|| sum / count)
            };
            let of_kind = |other: &Geometry| kind(other.drive) == kind(own.drive);
            let ratio = mean(&|other| other.drive == own.drive && other.controller == own.controller)
                .or_else(|| mean(&|other| of_kind(other) && other.controller == own.controller))
                // What makes it faster may be the other controller.
                .or_else(|| mean(&|other| other.drive == own.drive).map(|ratio| ratio.min(1.0)))
                .or_else(|| mean(&of_kind).map(|ratio| ratio.min(1.0)));
            let Some(ratio) = ratio else { continue };
            one.score *= ratio;
            let of_app = ratio.powf(1.0 / apps);
            for (it, has_pace) in one.performance.iter_mut().zip(&has_pace) {
                if it.held_iops.is_some() || *has_pace {
                    continue;
                }
                (it.iops, it.bytes_per_sec) = (it.iops * of_app, it.bytes_per_sec * of_app);
            }
        }
        self.ranking.sort(&mut self.judged);
    }
}

/// Those of `all` that may be shown: what misses a need only where nothing keeps them.
pub(super) fn shown<'a>(all: impl IntoIterator<Item = &'a Judged>, needs: &Needs) -> Vec<Judged> {
    let (keeping, missing): (Vec<Judged>, Vec<Judged>) =
        all.into_iter().cloned().partition(|one| one.keeps(needs));
    if keeping.is_empty() { missing } else { keeping }
}
