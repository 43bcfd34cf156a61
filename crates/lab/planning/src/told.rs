//! What is told of the best arrays: faults, the chance of loss, bottlenecks, and what estimates come to.

use super::choose::{FAULTS_SHARE, LONG_SHARE, Search};
use super::estimates::{PerformanceRange, at_end};
use super::faults::{Faults, OfRun};
use super::judge::{self, Window, alone, at_need};
use super::life::{DriveLife, drive_life};
use super::reason::{at_needs, beside, reason, settings_label, wide_group};
use super::reliability::{REBUILD_SHARE, RebuildRate};
use super::{Bench, PlanError, Planned, Stage};
use raidlab_advisor::plan::{Hardware, Judged, Performance, Role};
use raidlab_advisor::risk::LossChance;
use raidlab_hardware::{DriveHistory, End};
use raidlab_workload::{BottleneckFacts, RunResult};
use raidlab_worlds::{ArrayFile, Parts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A run of the first with its parts as they are, and one at each end of what their figures may be.
const ENDS: [Option<End>; 3] = [None, Some(End::Slower), Some(End::Faster)];

impl Search<'_, '_, '_> {
    /// All that is told of each of `results` besides: faults, the chance of loss with their rebuild, and each application alone.
    pub(super) fn tell(&mut self, results: Vec<(Judged, Vec<RunResult>)>) -> Result<Vec<Told>, PlanError> {
        let bench = self.bench;
        let of_one = |(one, (judged, _)): (usize, &(Judged, _))| {
            Job::of_shown(bench, judged).map(move |job| (one, job)).collect::<Vec<_>>()
        };
        let jobs: Vec<(usize, Job)> = results.iter().enumerate().flat_map(of_one).collect();
        let stage = Stage { label: "failing a member of the best", from: LONG_SHARE, to: FAULTS_SHARE };
        let run = |index: usize| {
            let (one, job) = jobs[index];
            job.run(bench, &results[one].0)
        };
        let done = self.crew.on_all(stage, jobs.len(), run)?;
        let told = |(judged, runs): (Judged, Vec<RunResult>)| Told {
            judged,
            runs,
            faults: Faults::default(),
            risk: None,
            alone: Vec::new(),
            at_need: BTreeMap::new(),
        };
        let mut told: Vec<Told> = results.into_iter().map(told).collect();
        for ((one, _), found) in jobs.iter().zip(done) {
            told[*one].take(found, bench);
        }
        for one in &mut told {
            one.risk = one.faults.take_in(bench, &mut one.judged);
        }
        Ok(told)
    }

    /// What holds up the first, what it does at the rates that are needed, and what it gets at both ends of what its parts' figures may be.
    pub(super) fn tell_first(&mut self, told: &mut [Told]) -> Result<Vec<PerformanceRange>, PlanError> {
        let Some(first) = told.first_mut() else { return Ok(Vec::new()) };
        let (bench, runs) = (self.bench, self.bench.order.runs());
        let stage = Stage { label: "looking for the bottleneck of the first", from: FAULTS_SHARE, to: 1.0 };
        // The longest first.
        let jobs: Vec<Job> = (0..runs)
            .map(Job::Bottleneck)
            .chain((0..runs).map(Job::AtNeed))
            .chain((0..runs).flat_map(|run| ENDS.map(|end| Job::End(run, end))))
            .collect();
        let judged = &first.judged;
        let done = self.crew.on_all(stage, jobs.len(), |index| jobs[index].run(bench, judged))?;
        let mut ends: Vec<Vec<Performance>> = Vec::new();
        for found in done {
            match found {
                Found::End(of_run) => ends.push(of_run),
                other => first.take(other, bench),
            }
        }
        let all = |(run, ends): (usize, &[Vec<Performance>])| {
            let apps = bench.order.apps_of(run);
            let of_app = |(at, app): (usize, usize)| {
                let is_bound = bench.order.needs.latency_of(app).next().is_some();
                PerformanceRange::around(
                    &first.judged.performance[app],
                    [ends[0][at], ends[1][at], ends[2][at]],
                    is_bound,
                )
            };
            apps.enumerate().map(of_app).collect::<Vec<_>>()
        };
        Ok(ends.chunks_exact(ENDS.len()).enumerate().flat_map(all).collect())
    }
}

/// One of the best with all that was found of it.
pub(super) struct Told {
    pub(super) judged: Judged,
    runs: Vec<RunResult>,
    faults: Faults,
    /// How likely it loses data, with the rebuild that was seen.
    risk: Option<LossChance>,
    /// What each application gets alone, where they run together.
    alone: Vec<Performance>,
    /// What each application gets at the rate that it needs, of the first, by application.
    at_need: BTreeMap<usize, Performance>,
}

impl Told {
    /// Takes in what a job found.
    fn take(&mut self, found: Found, bench: &Bench<'_>) {
        match found {
            Found::Bottleneck(run, facts) => self.runs[run].bottleneck = Some(facts),
            Found::Faults(of_run) => self.faults.add(of_run),
            Found::Alone(performance) => self.alone.push(performance),
            Found::AtNeed(run, all) => {
                self.at_need.extend(bench.order.apps_of(run).zip(all.into_iter().flatten()));
            }
            Found::End(_) => {}
        }
    }
}

/// A run of one of the best after its long runs; none waits for another.
#[derive(Clone, Copy, Debug)]
enum Job {
    /// What sets the pace of a run of the first.
    Bottleneck(usize),
    /// What faults do to a run.
    Faults(usize),
    /// What an application gets alone.
    Alone(usize),
    /// What the applications of a run of the first get at the rates that they need.
    AtNeed(usize),
    /// What they get with the parts of the first at one end of their figures, or as they are.
    End(usize, Option<End>),
}

/// What a job found.
#[derive(Debug, Serialize, Deserialize)]
enum Found {
    Bottleneck(usize, BottleneckFacts),
    Faults(OfRun),
    Alone(Performance),
    AtNeed(usize, Option<Vec<Performance>>),
    End(Vec<Performance>),
}

impl Job {
    /// All jobs of an array that is shown.
    fn of_shown(bench: &Bench<'_>, judged: &Judged) -> impl Iterator<Item = Self> + use<> {
        let (runs, apps) = (bench.order.runs(), bench.order.applications.len());
        let faults = if judged.survives_always > 0 { runs } else { 0 };
        let alone = if bench.order.together && apps > 1 { apps } else { 0 };
        // The longest first.
        (0..faults).map(Self::Faults).chain((0..alone).map(Self::Alone))
    }

    fn run(self, bench: &Bench<'_>, judged: &Judged) -> Result<Found, PlanError> {
        Ok(match self {
            Self::Bottleneck(run) => Found::Bottleneck(run, bench.bottleneck(judged, run)?),
            Self::Faults(run) => Found::Faults(bench.faults(judged, (run, Window::Fault))?),
            Self::Alone(app) => Found::Alone(alone(bench, judged, app)?),
            Self::AtNeed(run) => Found::AtNeed(run, at_need(bench, judged, run)?),
            Self::End(run, end) => Found::End(at_end(bench, judged, (run, end))?),
        })
    }
}

pub(super) fn planned_of(
    bench: &Bench<'_>,
    told: Told,
    roles: Vec<Role>,
    (order, tried): (&[Judged], &[Judged]),
) -> Planned {
    let needs = &bench.order.needs;
    let Told { judged, runs, faults, risk, alone, at_need } = told;
    let Faults { degraded, rebuilding, rebuild } = faults;
    let rebuild_hours = rebuild.map(|it| it.hours);
    let models = bench.models(judged.geometry);
    let by_drive = RebuildRate::Share(REBUILD_SHARE).pace(&models.drive_in_place());
    let lives: Vec<_> =
        runs.iter().enumerate().map(|(index, run)| drive_life(bench, &judged, index, run)).collect();
    let of_run = |(run, life): (usize, &Option<DriveLife>)| {
        bench.order.apps_of(run).map(|_| *life).collect::<Vec<_>>()
    };
    let modelled = bench.array(&judged, judged.geometry.spares, Window::Long);
    let condition = models.drive.condition();
    let array = ArrayFile {
        condition: condition.map(|it| it.history),
        fill: condition.filter(|it| it.history != DriveHistory::Fresh).map(|it| it.fill_pct),
        ..ArrayFile::of(&modelled.expect("it has run"))
    };
    let load = |run| {
        let paces = judge::paces(bench, &judged, run);
        judge::load(bench, &judged, run, Window::Long, &paces)
    };
    let loads = (0..runs.len()).map(load).collect();
    let mut reason = reason(bench, &judged, (&runs, &lives), (order, tried));
    reason += &beside(bench, &judged, &alone);
    reason += &(at_needs(bench, &at_need) + &wide_group(judged.geometry, rebuild_hours));
    Planned {
        parts: Parts {
            controller: models.controller.id.clone(),
            enclosure: models.enclosure.map(|enclosure| enclosure.id.clone()),
            drive: models.drive.id.clone(),
        },
        array,
        loads,
        roles,
        adds: bench.adds(judged.geometry),
        is_owned: bench.is_owned(judged.geometry),
        strip: judged.settings.strip.unwrap_or(models.controller.strip_size),
        write_policy: bench.write_policy(&judged),
        at_risk: Hardware::of(bench.parts, judged.geometry).at_risk(judged.settings, judged.geometry.members),
        label: bench.label(judged.geometry),
        settings_label: settings_label(bench, &judged),
        margins: judged.margins(needs),
        keeps_needs: judged.keeps(needs),
        risk,
        reason,
        drive_life: lives.iter().enumerate().flat_map(of_run).collect(),
        alone,
        md: None,
        estimates: models.estimates(),
        range: Vec::new(),
        degraded,
        rebuilding,
        rebuild_hours,
        rebuild_hours_by_drive: rebuild.and(by_drive).map(|pace| pace.hours),
        rebuild_bytes_per_sec: rebuild.map(|it| it.bytes_per_sec),
        runs,
        judged,
    }
}
