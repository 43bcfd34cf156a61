//! Which candidates are simulated, how long, and which of them are the best.
//!
//! ```text
//! families ─► shortlist ─► two settings each ─► all settings on the best ─► long runs, degraded, rebuilding
//! ```
//! The number of geometries that are simulated is bounded by what the order says; what is left out for that is counted.

use super::judge::{Window, judge};
use super::reason::{reason, settings_label};
use super::shortlist::{Family, bound, families, shortlist, wants_rate};
use super::{Bench, Crew, Fault, Faults, GROWTHS_MAX, PARTS_SHARE, PlanError, Planned, Stage};
use crate::arrays::Parts;
use raidlab_advisor::plan::{Judged, Kept, Performance, Settings, rank};
use raidlab_workload::RunResult;

/// Families that are run at once, before it is asked whether that is enough.
const BATCH: usize = 12;

/// Geometries on which every setting is tried.
const SETTINGS_ON: usize = 4;

/// Kinds of drives of which smaller arrays are run, too, where there is no throughput need.
const DRIVES_SMALLER: usize = 3;

/// Which members of a family are smaller ones, in thirds of their number.
const SMALLER: [usize; 3] = [0, 1, 2];

/// How far it all is, about, when the families, the settings and the longer runs are done; parts are before.
const FAMILIES_SHARE: f64 = 0.6;
const SETTINGS_SHARE: f64 = 0.8;
const LONG_SHARE: f64 = 0.88;
const BOTTLENECKS_SHARE: f64 = 0.92;

/// What was chosen.
pub(super) struct Chosen {
    pub(super) top: Vec<Planned>,
    /// Each geometry that was simulated, with its best settings, best first.
    pub(super) all: Vec<Judged>,
    /// Arrays that were simulated, each number of settings counted.
    pub(super) simulated: u64,
    /// Geometries that may be better and were not simulated, because enough were.
    pub(super) left_out: u64,
}

pub(super) fn choose(bench: &Bench<'_>, kept: &[Kept], crew: Crew<'_>) -> Result<Chosen, PlanError> {
    let mut search =
        Search { bench, judged: Vec::new(), tried: Vec::new(), geometries: 0, simulated: 0, crew };
    let (list, beyond) = shortlist(families(bench, kept), bench.order.simulations_max);
    let mut left_out = search.run_families(&list)?;
    let may_be_better = |family: &&Family<'_>| !search.can_stop(family);
    left_out += beyond.iter().filter(may_be_better).map(|family| family.len() as u64).sum::<u64>();
    search.run_smaller(&list)?;
    rank(&mut search.judged, &bench.order.needs);
    search.try_settings()?;
    let top = search.top()?;
    Ok(Chosen { top, all: search.judged, simulated: search.simulated, left_out })
}

struct Search<'a, 'b> {
    bench: &'a Bench<'a>,
    /// Each geometry once, with the best settings so far.
    judged: Vec<Judged>,
    /// Every run that was made.
    tried: Vec<Judged>,
    geometries: usize,
    simulated: u64,
    crew: Crew<'b>,
}

impl Search<'_, '_> {
    /// The array as arithmetic leaves it, with `settings` and, as its performance, what it does at best.
    fn unjudged(&self, kept: &Kept, settings: Settings) -> Judged {
        let figures = kept.at_best.iter().zip(self.bench.demands).zip(self.bench.order.applications);
        let performance = figures.map(|((iops, demand), app)| Performance {
            iops: *iops,
            bytes_per_sec: iops * demand.bytes_mean,
            lat_ns_mean: 0.0,
            iodepth: app.iodepth,
        });
        Judged {
            geometry: kept.geometry,
            settings,
            usable_bytes: kept.usable.0 as f64,
            survives_always: kept.survives.0,
            cost: kept.cost,
            watts: kept.watts,
            performance: performance.collect(),
            score: 0.0,
        }
    }

    /// The settings that work on this controller.
    fn settings_of(&self, kept: &Judged) -> Vec<Settings> {
        let controller = &self.bench.parts.controllers[usize::from(kept.geometry.controller)];
        let works = |it: &&Settings| {
            (!it.write_back || controller.is_battery_backed) && (!it.read_ahead || controller.reads_ahead)
        };
        self.bench.order.space.settings.iter().filter(works).copied().collect()
    }

    /// The first two settings that are tried: all that the controller can do, and nothing of it.
    fn extremes(&self, kept: &Kept) -> Vec<Judged> {
        let none = Settings { strip: None, write_back: false, read_ahead: false, disk_cache: false };
        let settings = self.settings_of(&self.unjudged(kept, none));
        let weight = |it: &Settings| (!it.disk_cache, it.write_back, it.read_ahead, it.strip.is_none());
        let plain = |it: &Settings| (!it.disk_cache, !it.write_back, !it.read_ahead, it.strip.is_none());
        let mut both: Vec<Settings> =
            settings.iter().max_by_key(|it| weight(it)).copied().into_iter().collect();
        both.extend(settings.iter().max_by_key(|it| plain(it)));
        both.dedup();
        both.into_iter().map(|settings| self.unjudged(kept, settings)).collect()
    }

    /// Judges `list` on several processors, in order.
    fn judge_all(
        &mut self,
        stage: Stage<'_>,
        list: &[Judged],
        window: Window,
    ) -> Result<Vec<(Judged, Vec<RunResult>)>, PlanError> {
        let bench = self.bench;
        let results = self.crew.on_all(stage, list.len(), |index| judge(bench, &list[index], window))?;
        self.simulated += list.len() as u64;
        self.tried.extend(results.iter().map(|(judged, _)| judged.clone()));
        Ok(results)
    }

    /// Runs the families in order until no later one can be better or enough geometries were run, and returns how many
    /// geometries that may be better are left.
    fn run_families(&mut self, list: &[Family<'_>]) -> Result<u64, PlanError> {
        let budget = self.bench.order.simulations_max;
        for (number, batch) in list.chunks(BATCH).enumerate() {
            let rest = list[number * BATCH..].iter();
            if self.can_stop(&batch[0]) {
                break;
            }
            if self.geometries >= budget {
                return Ok(rest.map(|family| family.len() as u64).sum());
            }
            let at = |family: &Family<'_>| if wants_rate(self.bench) { 0 } else { family.len() - 1 };
            let mut open: Vec<(&Family<'_>, usize)> =
                batch.iter().map(|family| (family, at(family))).collect();
            for growth in 0..=GROWTHS_MAX {
                let text = format!("simulated {} of at most {budget} arrays", self.geometries);
                open = self.run_open(open, &text)?;
                if growth == GROWTHS_MAX || self.geometries >= budget {
                    break;
                }
            }
        }
        Ok(0)
    }

    /// Without a throughput need families were run at their largest: runs smaller ones of the best kinds of drives, so that it
    /// can be seen what more drives are worth.
    fn run_smaller(&mut self, list: &[Family<'_>]) -> Result<(), PlanError> {
        if wants_rate(self.bench) {
            return Ok(());
        }
        rank(&mut self.judged, &self.bench.order.needs);
        let mut drives = Vec::new();
        let mut open: Vec<(&Family<'_>, usize)> = Vec::new();
        for judged in &self.judged {
            let geometry = judged.geometry;
            if drives.len() == DRIVES_SMALLER || drives.contains(&geometry.drive) {
                continue;
            }
            drives.push(geometry.drive);
            let own = list.iter().find(|family| family.iter().any(|one| one.geometry == geometry));
            if let Some(family) = own {
                let ats = SMALLER.map(|thirds| thirds * family.len() / 3);
                open.extend(ats.into_iter().filter(|at| at + 1 < family.len()).map(|at| (family, at)));
            }
        }
        open.dedup_by_key(|(family, at)| (family[*at].geometry.drive, *at));
        self.run_open(open, "simulating smaller ones of the best").map(drop)
    }

    /// Runs one member of each family that is open, and returns those that should grow.
    fn run_open<'f, 'k>(
        &mut self,
        open: Vec<(&'f Family<'k>, usize)>,
        label: &str,
    ) -> Result<Vec<(&'f Family<'k>, usize)>, PlanError> {
        let variants: Vec<Vec<Judged>> = open.iter().map(|(family, at)| self.extremes(family[*at])).collect();
        let share = |geometries: usize| {
            let all = self.bench.order.simulations_max + SMALLER.len() * DRIVES_SMALLER;
            PARTS_SHARE + (FAMILIES_SHARE - PARTS_SHARE) * (geometries as f64 / all as f64).min(1.0)
        };
        let stage =
            Stage { label, from: share(self.geometries), to: share(self.geometries + variants.len()) };
        let results = self.judge_all(stage, &variants.concat(), Window::Short)?;
        let mut results = results.into_iter().map(|(judged, _)| judged);
        let mut next = Vec::new();
        for ((family, at), own) in open.into_iter().zip(&variants) {
            let mut judged: Vec<Judged> = results.by_ref().take(own.len()).collect();
            rank(&mut judged, &self.bench.order.needs);
            let Some(best) = judged.into_iter().next() else { continue };
            next.extend(self.grown(family, at, &best));
            self.judged.push(best);
            self.geometries += 1;
        }
        Ok(next)
    }

    /// The member of a family to try next, where `judged` misses a need that more drives may help.
    fn grown<'f, 'k>(
        &self,
        family: &'f Family<'k>,
        at: usize,
        judged: &Judged,
    ) -> Option<(&'f Family<'k>, usize)> {
        let margin = judged.margins(&self.bench.order.needs).throughput?;
        if margin >= 0.0 {
            return None;
        }
        let members = f64::from(family[at].geometry.members) / (1.0 + margin).max(0.05);
        let enough = |one: &&Kept| f64::from(one.geometry.members) >= members.floor();
        let next = family.iter().position(enough).unwrap_or(family.len() - 1).max(at + 1);
        (next < family.len()).then_some((family, next))
    }

    /// Whether enough arrays are found that no family from here on can beat.
    fn can_stop(&self, next: &[&Kept]) -> bool {
        let needs = &self.bench.order.needs;
        let worth = |one: &Judged| {
            if wants_rate(self.bench) {
                -one.cost.unwrap_or_else(|| f64::from(one.drives()))
            } else {
                one.score
            }
        };
        let mut found: Vec<f64> = self.judged.iter().filter(|one| one.keeps(needs)).map(worth).collect();
        found.sort_by(|a, b| b.total_cmp(a));
        found.get(self.bench.order.top - 1).is_some_and(|worst| bound(self.bench, next) < *worst)
    }

    /// Tries every setting on the best geometries, and keeps the best of each.
    fn try_settings(&mut self) -> Result<(), PlanError> {
        let count = SETTINGS_ON.min(self.judged.len());
        let mut variants = Vec::new();
        for base in &self.judged[..count] {
            let is_new = |settings: &Settings| {
                let known = |it: &Judged| it.geometry == base.geometry && it.settings == *settings;
                !self.tried.iter().any(known)
            };
            let settings = self.settings_of(base).into_iter().filter(is_new);
            variants.extend(settings.map(|settings| Judged { settings, ..base.clone() }));
        }
        let stage =
            Stage { label: "trying every setting on the best", from: FAMILIES_SHARE, to: SETTINGS_SHARE };
        self.judge_all(stage, &variants, Window::Short)?;
        for place in &mut self.judged[..count] {
            let own = self.tried.iter().filter(|it| it.geometry == place.geometry);
            let mut own: Vec<Judged> = own.cloned().collect();
            rank(&mut own, &self.bench.order.needs);
            *place = own.swap_remove(0);
        }
        rank(&mut self.judged, &self.bench.order.needs);
        Ok(())
    }

    /// Runs the best longer, degraded and rebuilding.
    fn top(&mut self) -> Result<Vec<Planned>, PlanError> {
        let needs = &self.bench.order.needs;
        let count = self.bench.order.top.min(self.judged.len());
        // What misses a need is told of only where nothing keeps them.
        let keeps = self.judged[..count].iter().filter(|one| one.keeps(needs)).count();
        let best: Vec<Judged> = self.judged[..if keeps > 0 { keeps } else { count }].to_vec();
        let stage = Stage { label: "running the best for longer", from: SETTINGS_SHARE, to: LONG_SHARE };
        let mut results = self.judge_all(stage, &best, Window::Long)?;
        for (place, (judged, _)) in self.judged.iter_mut().zip(&results) {
            *place = judged.clone();
        }
        rank(&mut self.judged, &self.bench.order.needs);
        let order: Vec<Judged> =
            self.judged.iter().filter(|one| results.iter().any(|(it, _)| it == *one)).cloned().collect();
        results.sort_by_key(|(judged, _)| order.iter().position(|other| other == judged));
        self.bottlenecks(&mut results)?;
        let faults = self.faults(&order)?;
        let planned = results
            .into_iter()
            .zip(faults)
            .map(|((judged, runs), faults)| planned(self.bench, judged, runs, faults, (&order, &self.tried)));
        Ok(planned.collect())
    }

    /// Finds what sets the pace of each run of the best.
    fn bottlenecks(&mut self, best: &mut [(Judged, Vec<RunResult>)]) -> Result<(), PlanError> {
        let (bench, apps) = (self.bench, self.bench.order.applications.len());
        let jobs = best.len() * apps;
        let stage =
            Stage { label: "finding the bottlenecks of the best", from: LONG_SHARE, to: BOTTLENECKS_SHARE };
        let job = |index: usize| bench.bottleneck(&best[index / apps].0, index % apps);
        let found = self.crew.on_all(stage, jobs, job)?;
        let runs = best.iter_mut().flat_map(|(_, runs)| runs);
        runs.zip(found).for_each(|(run, facts)| run.bottleneck = Some(facts));
        Ok(())
    }

    /// What faults do to each of `best`.
    fn faults(&mut self, best: &[Judged]) -> Result<Vec<Faults>, PlanError> {
        let bench = self.bench;
        let with_redundancy = best.iter().enumerate().filter(|(_, judged)| judged.survives_always > 0);
        let apps = 0..bench.order.applications.len();
        let jobs: Vec<(usize, usize, Fault)> = with_redundancy
            .flat_map(|(one, _)| apps.clone().map(move |app| (one, app)))
            .flat_map(|(one, app)| Fault::ALL.map(|fault| (one, app, fault)))
            .collect();
        let stage = Stage { label: "failing a member of the best", from: BOTTLENECKS_SHARE, to: 1.0 };
        let run = |index: usize| {
            let (one, app, fault) = jobs[index];
            bench.fault(&best[one], app, fault)
        };
        let results = self.crew.on_all(stage, jobs.len(), run)?;
        let mut faults: Vec<Faults> = best.iter().map(|_| Faults::default()).collect();
        for ((one, _, fault), (performance, rebuild)) in jobs.iter().zip(results) {
            faults[*one].add(*fault, performance, rebuild);
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
    let Faults { degraded, rebuilding, rebuild_hours } = faults;
    let models = bench.models(judged.geometry);
    Planned {
        parts: Parts {
            controller: models.controller.id.clone(),
            enclosure: models.enclosure.map(|enclosure| enclosure.id.clone()),
            drive: models.drive.id.clone(),
        },
        strip: judged.settings.strip.unwrap_or(models.controller.strip_size),
        label: bench.label(judged.geometry),
        settings_label: settings_label(bench, &judged),
        margins: judged.margins(needs),
        keeps_needs: judged.keeps(needs),
        risk: bench.risk(judged.geometry, rebuild_hours),
        reason: reason(bench, &judged, &runs, order, tried),
        degraded,
        rebuilding,
        rebuild_hours,
        runs,
        judged,
    }
}
