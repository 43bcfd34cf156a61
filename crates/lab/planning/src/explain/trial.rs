//! Simulations of a prediction with one thing changed.

use super::figures::{Asked, distance, off_pct};
use super::{Cause, ExplainError, Trial};
use crate::prediction::{Prediction, PredictionError};
use raidlab_controller::WritePolicy;
use raidlab_hardware::Catalog;
use raidlab_hosts::Hosts;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{
    AccessSpec, ArrivalProcess, Arrivals, Pacing, Places, RequestRate, RunResult, Workload,
};
use raidlab_worlds::simulated::{SimulatedError, run_simulated};
use raidlab_worlds::{ArrayFile, Assumption, Load, ScaledModels};
use std::num::NonZeroUsize;

/// The most that a part is made faster or slower by.
pub(super) const TIMES_MAX: f64 = 16.0;

/// Points of the first look all over that range, which is odd: the middle is what was predicted.
const FIRST: usize = 9;

/// Points of each closer look, and how often that is done.
const CLOSER: usize = 4;
const LOOKS: usize = 4;

/// Requests of a trial, about.
const REQUESTS: f64 = 20_000.0;

/// The most that the window of a trial is, and the ramp before it, where no prediction has others.
const RAMP_MAX: NanoSpan = NanoSpan::from_secs(20);

/// The least that a trial's window is.
const WINDOW_LEAST: NanoSpan = NanoSpan::from_millis(20);

/// A measured run with the load that was predicted for it and the load that it had.
pub(super) struct Pair {
    /// As predicted.
    pub(super) load: Load,
    /// As measured, for trials.
    measured: Load,
    /// The array with the part of it in use that was in use.
    array: ArrayFile,
    /// Whether the measured load is another than the predicted one.
    pub(super) is_other: bool,
    /// What is to be known of it.
    pub(super) notes: Vec<String>,
}

/// All of them, on one prediction.
pub(super) struct Bench<'a> {
    catalog: Catalog,
    predicted: ArrayFile,
    pub(super) pairs: Vec<Pair>,
    runs: &'a [RunResult],
    threads: NonZeroUsize,
}

/// How well a change fits.
pub(super) struct Fit {
    pub(super) off_pct: f64,
    pub(super) distance: f64,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        prediction: &Prediction,
        runs: &'a [RunResult],
        threads: NonZeroUsize,
    ) -> Result<Self, ExplainError> {
        let catalog = prediction.catalog()?;
        let predicted = prediction.array().clone();
        let loads = prediction.loads()?;
        let pair = |run: &RunResult| {
            let load = likest(&loads, run).ok_or(ExplainError::NoRuns)?;
            Pair::of(load, run, &predicted, &catalog)
        };
        let pairs = runs.iter().map(pair).collect::<Result<_, _>>()?;
        Ok(Self { catalog, predicted, pairs, runs, threads })
    }

    pub(super) fn label(&self) -> Result<String, ExplainError> {
        Ok(self.predicted.resolve(&self.catalog).map_err(PredictionError::from)?.1.label())
    }

    /// The predicted run of `pair`, simulated again.
    pub(super) fn as_predicted(&self, pair: &Pair) -> Result<RunResult, ExplainError> {
        let failed = |source| ExplainError::Run { load: pair.load.label(), source };
        let (models, array) = self.predicted.resolve(&self.catalog).map_err(PredictionError::from)?;
        run_simulated(&models, &array, &pair.load).map_err(failed)
    }

    /// How well the prediction fits under the measured loads.
    pub(super) fn as_measured(&self) -> Result<Fit, ExplainError> {
        let fits = self.fits(&[(Assumption::Drive, 1.0)])?;
        Ok(fits.into_iter().next().expect("one for each change"))
    }

    /// Each part alone, as much slower or faster as fits best.
    pub(super) fn parts(&self, progress: &mut dyn FnMut(f64)) -> Result<Vec<Trial>, ExplainError> {
        let most = TIMES_MAX.ln();
        let spread = |low: f64, high: f64, count: usize, ends: bool| -> Vec<f64> {
            let (from, of) = if ends { (0, count - 1) } else { (1, count + 1) };
            (from..from + count).map(|at| low + (high - low) * at as f64 / of as f64).collect()
        };
        // What was tried of each part: logarithms of times, in order.
        let mut tried: Vec<(Assumption, Vec<(f64, Fit)>)> =
            Assumption::ALL.iter().map(|part| (*part, Vec::new())).collect();
        for look in 0..=LOOKS {
            let mut asked = Vec::new();
            for (part, known) in &tried {
                let points = match best_of(known) {
                    None => spread(-most, most, FIRST, true),
                    Some(best) => {
                        let low = known[best.saturating_sub(1)].0;
                        let high = known[(best + 1).min(known.len() - 1)].0;
                        spread(low, high, CLOSER, false)
                    }
                };
                asked.extend(points.into_iter().map(|point| (*part, point)));
            }
            let changes: Vec<_> = asked.iter().map(|(part, point)| (*part, point.exp())).collect();
            for ((part, point), fit) in asked.into_iter().zip(self.fits(&changes)?) {
                let (_, known) = tried.iter_mut().find(|(it, _)| *it == part).expect("all are there");
                known.push((point, fit));
            }
            for (_, known) in &mut tried {
                known.sort_by(|one, other| one.0.total_cmp(&other.0));
            }
            progress((look + 1) as f64 / (LOOKS + 1) as f64);
        }
        let trial = |(part, known): (Assumption, Vec<(f64, Fit)>)| {
            let (times, fit) = &known[best_of(&known).expect("it was tried")];
            Trial {
                change: Cause::of(part),
                times: Some(times.exp()),
                at_bound: false,
                off_pct: fit.off_pct,
                distance: fit.distance,
                explains: false,
            }
        };
        Ok(tried.into_iter().map(trial).collect())
    }

    /// How well each of `changes` fits all runs.
    fn fits(&self, changes: &[(Assumption, f64)]) -> Result<Vec<Fit>, ExplainError> {
        let count = self.pairs.len();
        let job = |index: usize| {
            let (part, times) = changes[index / count];
            self.run(&self.pairs[index % count], part, times)
        };
        let all = Hosts::alone().share_all((changes.len() * count, self.threads), job, |_, _| {});
        let mut all = all.expect("a host alone loses nobody").into_iter();
        let mut fits = Vec::new();
        for _ in changes {
            let mut results = Vec::new();
            for pair in &self.pairs {
                let failed = |source| ExplainError::Run { load: pair.measured.label(), source };
                results.push(all.next().expect("one for each").map_err(failed)?);
            }
            let pairs = || results.iter().zip(self.runs);
            fits.push(Fit { off_pct: off_pct(pairs()), distance: distance(pairs()) });
        }
        Ok(fits)
    }

    fn run(&self, pair: &Pair, part: Assumption, times: f64) -> Result<RunResult, SimulatedError> {
        let (models, array) =
            pair.array.resolve(&self.catalog).expect("it was resolved when the pair was made");
        let scaled = ScaledModels::of(&models, part, times);
        run_simulated(&scaled.models(), &array, &pair.measured)
    }
}

/// The index of what fits best; the nearest to what was assumed of equals.
fn best_of(known: &[(f64, Fit)]) -> Option<usize> {
    let by = |one: &usize, other: &usize| {
        let ((at, fit), (other_at, other_fit)) = (&known[*one], &known[*other]);
        fit.distance.total_cmp(&other_fit.distance).then(at.abs().total_cmp(&other_at.abs()))
    };
    (0..known.len()).min_by(by)
}

/// The load that is most like what `run` was asked: of its workload's name, of its lines, of the nearest number in flight.
fn likest<'a>(loads: &'a [Load], run: &RunResult) -> Option<&'a Load> {
    let unlike = |load: &&Load| {
        let spec = &load.workload.spec;
        let lines: Vec<_> = spec.all_lines().copied().collect();
        let depth = f64::from(spec.iodepth(load.iodepth).max(1)) / f64::from(run.iodepth.max(1));
        let is_other = |other: bool, weight: f64| if other { weight } else { 0.0 };
        is_other(load.workload.name() != run.workload, 100.0)
            + is_other(lines != run.lines, 1000.0)
            + depth.ln().abs()
    };
    loads.iter().min_by(|one, other| unlike(one).total_cmp(&unlike(other)))
}

impl Pair {
    fn of(load: &Load, run: &RunResult, array: &ArrayFile, catalog: &Catalog) -> Result<Self, ExplainError> {
        let asked = Asked::of(run);
        let mut notes = Vec::new();
        let mut measured = load.clone();
        let spec = &mut measured.workload.spec;
        let own: Vec<_> = spec.all_lines().copied().collect();
        if run.lines.is_empty() {
            notes.push(format!(
                "the run on {} does not say which requests it made: sizes and read share are those that it did, the rest is as predicted",
                run.target
            ));
            if let Some(other) = asked.read_pct().and_then(|pct| spec.with_read_pct(pct).ok()) {
                *spec = other;
            }
            if let Some(other) = asked.bytes().and_then(|bytes| spec.with_block_bytes(bytes).ok()) {
                *spec = other;
            }
        } else if run.lines != own && run.parts.len() < 2 {
            let places = if spec.parts.is_empty() { spec.places.clone() } else { Places::default() };
            *spec = AccessSpec {
                places,
                pacing: spec.pacing,
                flush: spec.flush,
                data: spec.data,
                ..AccessSpec::new(run.workload.clone(), run.lines.clone())
            };
        }
        match (asked.arrivals.and_then(RequestRate::new), &mut spec.pacing) {
            (Some(rate), Pacing::Open(arrivals)) => arrivals.rate = rate,
            (Some(rate), pacing) => {
                *pacing = Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 });
            }
            (None, pacing @ Pacing::Open(_)) => *pacing = Pacing::default(),
            (None, _) => {}
        }
        if !spec.has_own_iodepth() || spec.iodepth.is_some() {
            spec.iodepth = None;
            measured.iodepth = run.iodepth.max(1);
        }
        let (_, modelled) = array.resolve(catalog).map_err(PredictionError::from)?;
        let region = asked.region.filter(|region| *region > ByteCount::ZERO);
        let block = modelled.config.block_size.bytes();
        let region = region.map_or(modelled.region, |region| {
            ByteCount((region.0 / block * block).max(block)).min(modelled.usable)
        });
        let is_other_region = (region.0 as f64 / modelled.region.0 as f64).ln().abs() > 0.1;
        let array =
            if is_other_region { ArrayFile { region: Some(region), ..array.clone() } } else { array.clone() };
        let is_other = is_other_region
            || measured.workload.spec != load.workload.spec
            || measured.iodepth != load.iodepth;
        shorten(&mut measured, run, modelled.config.cache.write_policy == WritePolicy::WriteThrough);
        Ok(Self { load: load.clone(), measured, array, is_other, notes })
    }
}

/// The load of `run` on its own, for a trial, and the part of its target that it used; none where it does not say which requests it
/// made.
pub fn like_run(run: &RunResult) -> Option<(Load, Option<ByteCount>)> {
    if run.lines.is_empty() || run.parts.len() > 1 {
        return None;
    }
    let asked = Asked::of(run);
    let mut spec = AccessSpec::new(run.workload.clone(), run.lines.clone());
    if let Some(rate) = asked.arrivals.and_then(RequestRate::new) {
        spec.pacing = Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 });
    }
    let workload = Workload {
        title: run.workload.clone(),
        source: String::new(),
        metric: run.metric,
        notes: String::new(),
        block_bytes_published: Vec::new(),
        spec,
    };
    let mut load = Load {
        workload,
        iodepth: run.iodepth.max(1),
        workers: 1,
        ramp: RAMP_MAX,
        run: RAMP_MAX,
        seed: run.seed,
        once: false,
        settles: false,
    };
    shorten(&mut load, run, true);
    Some((load, asked.region))
}

/// Makes the window of a trial as short as so many requests take at the measured rate, and its ramp with it where no cache has to
/// fill.
fn shorten(load: &mut Load, run: &RunResult, is_without_cache: bool) {
    let enough = NanoSpan::from_secs_f64(REQUESTS / run.ops.total.iops.0.max(1e-3)).max(WINDOW_LEAST);
    load.run = load.run.min(enough);
    if is_without_cache || !load.workload.spec.writes() {
        load.ramp = load.ramp.min(enough);
        load.settles = false;
    }
}
