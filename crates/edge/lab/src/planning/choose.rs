//! Which candidates are simulated, how long, and which of them are the best.

use super::{Bench, GROWTHS_MAX, PlanError, Planned};
use crate::load::Load;
use crate::parallel::{all_processors, in_parallel};
use crate::worlds::simulated::run_simulated;
use raidlab_advisor::plan::{Geometry, Judged, Kept, Performance, Settings, rank};
use raidlab_units::NanoSpan;
use raidlab_workload::{Metric, RunResult};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

/// Families whose members are run at once, before it is asked whether that is enough.
const BATCH: usize = 12;

/// Geometries whose settings are tried, beyond those asked for.
const SETTINGS_BEYOND: usize = 3;

/// How long a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Short,
    Long,
}

/// What was chosen.
pub(super) struct Chosen {
    pub(super) top: Vec<Planned>,
    /// Each geometry that was simulated, with its best settings.
    pub(super) all: Vec<Judged>,
    pub(super) geometries: u64,
    pub(super) simulated: u64,
}

pub(super) fn choose(
    bench: &Bench<'_>,
    kept: &[Kept],
    progress: &mut dyn FnMut(&str, f64),
) -> Result<Chosen, PlanError> {
    let mut search = Search { bench, judged: Vec::new(), simulated: 0, progress };
    search.run_families(families(bench, kept))?;
    rank(&mut search.judged, &bench.order.needs);
    search.try_settings()?;
    let top = search.top()?;
    let geometries = search.judged.len() as u64;
    Ok(Chosen { top, all: search.judged, geometries, simulated: search.simulated })
}

/// Candidates that differ in the number of members only, fewest first; the families in the order in which they are run.
fn families<'a>(bench: &Bench<'_>, kept: &'a [Kept]) -> Vec<Vec<&'a Kept>> {
    let mut families: BTreeMap<Geometry, Vec<&Kept>> = BTreeMap::new();
    for one in kept {
        families.entry(Geometry { members: 0, ..one.geometry }).or_default().push(one);
    }
    let mut families: Vec<Vec<&Kept>> = families.into_values().collect();
    for family in &mut families {
        family.sort_by_key(|one| one.geometry.members);
    }
    families.sort_by(|a, b| bound(bench, b).total_cmp(&bound(bench, a)));
    families
}

/// No member of the family is better than this: what it does at best, or, where a throughput is needed, less what it takes.
fn bound(bench: &Bench<'_>, family: &[&Kept]) -> f64 {
    if wants_rate(bench) {
        return -effort(family[0]);
    }
    family.iter().map(|one| at_best(bench, one)).fold(0.0, f64::max)
}

fn wants_rate(bench: &Bench<'_>) -> bool {
    bench.order.needs.iops.is_some() || bench.order.needs.bytes_per_sec.is_some()
}

fn effort(kept: &Kept) -> f64 {
    kept.cost.unwrap_or_else(|| f64::from(kept.geometry.members + kept.geometry.spares))
}

/// The score that its bounds would have.
fn at_best(bench: &Bench<'_>, kept: &Kept) -> f64 {
    let figures = kept.at_best.iter().zip(bench.demands).zip(bench.order.applications);
    figures.map(|((rate, demand), app)| metric(app.metric, *rate, rate * demand.bytes_mean)).product()
}

fn metric(metric: Metric, iops: f64, bytes_per_sec: f64) -> f64 {
    match metric {
        Metric::Iops => iops,
        Metric::MbPerS => bytes_per_sec / 1e6,
    }
}

pub(super) fn performance(result: &RunResult) -> Performance {
    Performance {
        iops: result.total.iops.0,
        bytes_per_sec: result.total.bytes_per_sec.0,
        lat_ns_mean: result.total.lat_ns_mean,
        iodepth: result.iodepth,
    }
}

/// The load of application `index` on an array. The ramp lets a write-back cache fill at the rate that is to be expected.
pub(super) fn load(bench: &Bench<'_>, judged: &Judged, index: usize, window: Window, iodepth: u32) -> Load {
    let app = &bench.order.applications[index];
    let demand = &bench.demands[index];
    let cache = bench.models(judged.geometry).controller.cache.size.0 as f64;
    let written = judged.performance.get(index).map_or(0.0, |it| it.iops)
        * demand.bytes_mean
        * (1.0 - demand.read_share);
    let fills = if judged.settings.write_back && written > 0.0 { 1.5 * cache / written } else { 1.0 };
    let (least, most, run) = match window {
        Window::Short => (1.0, 60.0, NanoSpan::from_secs(2)),
        Window::Long => (3.0, 200.0, NanoSpan::from_secs(6)),
    };
    Load {
        workload: app.clone(),
        iodepth,
        workers: 1,
        ramp: NanoSpan::from_secs_f64(fills.clamp(least, most)),
        run,
        seed: bench.order.seed,
        once: false,
    }
}

/// Runs every application on an array. Where the mean latency is above its bound the load is lowered, as Little's law has it.
fn judge(bench: &Bench<'_>, kept: &Judged, window: Window) -> Result<(Judged, Vec<RunResult>), PlanError> {
    const LOWERINGS_MAX: u32 = 4;
    let (mut judged, mut runs) = (kept.clone(), Vec::new());
    let array = bench.array(kept.geometry, kept.settings, kept.geometry.spares)?;
    let models = bench.models(kept.geometry);
    for index in 0..bench.order.applications.len() {
        let mut iodepth = bench.order.iodepth;
        let mut lowered = 0;
        let result = loop {
            let load = load(bench, kept, index, window, iodepth);
            let result = run_simulated(&models, &array, &load).map_err(|source| PlanError::Simulation {
                label: format!("{}, {}", bench.label(kept.geometry), load.label()),
                source,
            })?;
            let limit = bench.order.needs.mean_response.map_or(f64::INFINITY, |limit| limit.get() as f64);
            let over = result.total.lat_ns_mean / limit;
            if over <= 1.0 || iodepth == 1 || lowered == LOWERINGS_MAX {
                break result;
            }
            lowered += 1;
            iodepth = ((f64::from(iodepth) / over * 0.97) as u32).clamp(1, iodepth - 1);
        };
        judged.performance[index] = performance(&result);
        runs.push(result);
    }
    judged.score =
        runs.iter().map(|run| metric(run.metric, run.total.iops.0, run.total.bytes_per_sec.0)).product();
    Ok((judged, runs))
}

struct Search<'a, 'b> {
    bench: &'a Bench<'a>,
    judged: Vec<Judged>,
    simulated: u64,
    progress: &'b mut dyn FnMut(&str, f64),
}

impl Search<'_, '_> {
    /// The array as arithmetic leaves it, with settings as delivered and, as its performance, what it does at best.
    fn unjudged(&self, kept: &Kept) -> Judged {
        let controller = &self.bench.parts.controllers[usize::from(kept.geometry.controller)];
        let settings = Settings {
            strip: None,
            write_back: controller.is_battery_backed,
            read_ahead: controller.reads_ahead,
            disk_cache: false,
        };
        let settings = if self.bench.order.space.settings.contains(&settings) {
            settings
        } else {
            let works = |it: &&Settings| !it.write_back || controller.is_battery_backed;
            *self.bench.order.space.settings.iter().find(works).expect("one of the settings was counted")
        };
        let figures = kept.at_best.iter().zip(self.bench.demands);
        let performance = figures.map(|(iops, demand)| Performance {
            iops: *iops,
            bytes_per_sec: iops * demand.bytes_mean,
            lat_ns_mean: 0.0,
            iodepth: self.bench.order.iodepth,
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

    /// Judges `list` on several processors, in order.
    fn judge_all(
        &mut self,
        list: &[Judged],
        window: Window,
    ) -> Result<Vec<(Judged, Vec<RunResult>)>, PlanError> {
        let mut results: Vec<_> = list.iter().map(|_| None).collect();
        let bench = self.bench;
        let ended = in_parallel(
            bench.order.threads.unwrap_or_else(all_processors),
            list.len(),
            &AtomicBool::new(false),
            |index| judge(bench, &list[index], window),
            |index, result| {
                results[index] = Some(result);
                Ok::<(), Infallible>(())
            },
        );
        assert!(ended.is_ok(), "nobody cancels, and taking a result in can't fail");
        self.simulated += list.len() as u64;
        results.into_iter().map(|result| result.expect("all were judged")).collect()
    }

    fn run_families(&mut self, families: Vec<Vec<&Kept>>) -> Result<(), PlanError> {
        let total = families.len();
        for (number, batch) in families.chunks(BATCH).enumerate() {
            let done = number * BATCH;
            if self.can_stop(&batch[0]) {
                break;
            }
            (self.progress)(
                &format!("simulating family {done} of {total}"),
                0.7 * done as f64 / total as f64,
            );
            let mut open: Vec<(&Vec<&Kept>, usize)> = if wants_rate(self.bench) {
                batch.iter().map(|family| (family, 0)).collect()
            } else {
                batch.iter().map(|family| (family, family.len() - 1)).collect()
            };
            for growth in 0..=GROWTHS_MAX {
                let list: Vec<Judged> = open.iter().map(|(family, at)| self.unjudged(family[*at])).collect();
                let results = self.judge_all(&list, Window::Short)?;
                let mut next = Vec::new();
                for ((family, at), (judged, _)) in open.into_iter().zip(results) {
                    next.extend(self.grown(family, at, &judged).filter(|_| growth < GROWTHS_MAX));
                    self.judged.push(judged);
                }
                open = next;
            }
        }
        Ok(())
    }

    /// The member of a family to try next, where `judged` misses a need that more drives may help.
    fn grown<'f>(
        &self,
        family: &'f Vec<&'f Kept>,
        at: usize,
        judged: &Judged,
    ) -> Option<(&'f Vec<&'f Kept>, usize)> {
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
        let mut found: Vec<f64> = self
            .judged
            .iter()
            .filter(|one| one.keeps(needs))
            .map(|one| {
                if wants_rate(self.bench) {
                    -one.cost.unwrap_or_else(|| f64::from(one.drives()))
                } else {
                    one.score
                }
            })
            .collect();
        found.sort_by(|a, b| b.total_cmp(a));
        found.get(self.bench.order.top - 1).is_some_and(|worst| bound(self.bench, next) < *worst)
    }

    /// Tries every setting on the best geometries, and keeps the best of each.
    fn try_settings(&mut self) -> Result<(), PlanError> {
        let count = (self.bench.order.top + SETTINGS_BEYOND).min(self.judged.len());
        let all = self.bench.order.space.settings.clone();
        for index in 0..count {
            (self.progress)("trying settings", 0.7 + 0.2 * index as f64 / count as f64);
            let base = self.judged[index].clone();
            let controller = &self.bench.parts.controllers[usize::from(base.geometry.controller)];
            let works = |it: &&Settings| {
                **it != base.settings
                    && (!it.write_back || controller.is_battery_backed)
                    && (!it.read_ahead || controller.reads_ahead)
            };
            let variants: Vec<Judged> = all
                .iter()
                .filter(works)
                .map(|settings| Judged { settings: *settings, ..base.clone() })
                .collect();
            let mut judged: Vec<Judged> =
                self.judge_all(&variants, Window::Short)?.into_iter().map(|(judged, _)| judged).collect();
            judged.push(base);
            rank(&mut judged, &self.bench.order.needs);
            self.judged[index] = judged.swap_remove(0);
        }
        rank(&mut self.judged, &self.bench.order.needs);
        Ok(())
    }

    /// Runs the best longer, degraded and rebuilding.
    fn top(&mut self) -> Result<Vec<Planned>, PlanError> {
        let count = self.bench.order.top.min(self.judged.len());
        let best: Vec<Judged> = self.judged[..count].to_vec();
        (self.progress)("running the best for longer", 0.9);
        let mut results = self.judge_all(&best, Window::Long)?;
        let mut order: Vec<Judged> = results.iter().map(|(judged, _)| judged.clone()).collect();
        rank(&mut order, &self.bench.order.needs);
        let mut top = Vec::new();
        for (index, judged) in order.iter().enumerate() {
            (self.progress)("failing a member of the best", 0.93 + 0.07 * index as f64 / count as f64);
            let at = results.iter().position(|(other, _)| other == judged).expect("it is one of them");
            let (judged, runs) = results.swap_remove(at);
            top.push(self.planned(judged, runs, &order)?);
        }
        for (place, judged) in self.judged.iter_mut().zip(order) {
            *place = judged;
        }
        Ok(top)
    }

    fn planned(&self, judged: Judged, runs: Vec<RunResult>, order: &[Judged]) -> Result<Planned, PlanError> {
        let bench = self.bench;
        let needs = &bench.order.needs;
        let (degraded, rebuilding, rebuild_hours) =
            if judged.survives_always > 0 { bench.faults(&judged)? } else { (Vec::new(), Vec::new(), None) };
        Ok(Planned {
            label: bench.label(judged.geometry),
            settings_label: settings_label(bench, &judged),
            margins: judged.margins(needs),
            keeps_needs: judged.keeps(needs),
            risk: bench.risk(judged.geometry, rebuild_hours),
            reason: reason(bench, &judged, &runs, order),
            degraded,
            rebuilding,
            rebuild_hours,
            runs,
            judged,
        })
    }
}

fn settings_label(bench: &Bench<'_>, judged: &Judged) -> String {
    let Settings { strip, write_back, read_ahead, disk_cache } = judged.settings;
    let strip = strip.unwrap_or(bench.models(judged.geometry).controller.strip_size);
    let words = [
        if write_back { "write-back" } else { "write-through" },
        if read_ahead { "adaptive read-ahead" } else { "no read-ahead" },
        if disk_cache { "disk cache on" } else { "disk cache off" },
    ];
    format!("strip {strip}, {}", words.join(", "))
}

/// Why it stands where it stands: what it is judged by beside the best, and where its bottleneck is.
fn reason(bench: &Bench<'_>, judged: &Judged, runs: &[RunResult], order: &[Judged]) -> String {
    let needs = &bench.order.needs;
    let best = &order[0];
    let mut text = if !judged.keeps(needs) {
        "It misses a need".to_owned()
    } else if judged == best {
        match (wants_rate(bench), judged.cost) {
            (true, Some(_)) => "No array that keeps the needs was found for less".to_owned(),
            (true, None) => {
                "No array that keeps the needs was found with fewer drives, or a faster one with as many"
                    .to_owned()
            }
            (false, _) => "No array was found that is faster by more than 2 %".to_owned(),
        }
    } else {
        let speed = judged.score / best.score;
        let effort = match (judged.cost, best.cost) {
            (Some(own), Some(other)) => format!("{:.2} times the cost", own / other),
            _ => format!("{} drives instead of {}", judged.drives(), best.drives()),
        };
        format!("It does {speed:.2} times what the first does, with {effort}")
    };
    for run in runs {
        let setting = |name: &str| run.settings.get(name).map_or("?", String::as_str);
        text += &format!(
            "; {}: the bottleneck is the {} (busy: drives {}, processor {}, link to the host {}, to the drives {})",
            run.workload,
            setting("bottleneck"),
            setting("busy drives, mean"),
            setting("busy processors"),
            setting("busy host link"),
            setting("busy member link"),
        );
    }
    text + "."
}
