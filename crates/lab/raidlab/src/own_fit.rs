//! Figures of the catalogue, fitted to runs that were measured on such an array.
//!
//! ```text
//! runs ─► loads ─► simulated with other values ─► how far off ─► search ─► values
//!                                                                            │ each a little up and down
//!                                             intervals, and what these runs can't tell apart
//! ```
//! - **What is minimised** is what [`explain()`](crate::explain()) judges by: requests per second, mean latencies and percentiles of each
//!   run, each in what a good model may be off ([`distance`]).
//! - **Intervals** are those of least squares at the minimum: how fast the figures leave the measured ones when a value moves, against
//!   how far off they are where it is best, or a fifth of the tolerances, whichever is more. 95 %, by twice the standard error.
//! - **What can't be told apart** are directions in which all values may move by half and more within that: one value that matters to
//!   none of the runs, or several of which one makes up for another.
//!
//! Left out: which of several minima is the true one. Source of the intervals: N. R. Draper, H. Smith, *Applied Regression Analysis*.

mod eigen;

use crate::{Array, DoneFigure, PredictionError};
use eigen::eigen;
use raidlab_advisor::{PatternSearch, SearchConfig};
use raidlab_hardware::{Catalog, CatalogChange, CatalogError, CatalogFile, nearest};
use raidlab_hosts::{Hosts, all_processors};
use raidlab_papers::{FitParameter, FitParameterError, FittedFigure};
use raidlab_planning::explain::{distance, done, like_run, off, off_pct};
use raidlab_workload::RunResult;
use raidlab_worlds::simulated::{SimulatedError, run_simulated};
use raidlab_worlds::{ArrayFile, ArrayFileError, Load};
use serde::Serialize;
use std::num::NonZeroUsize;

/// A figure may become so many times less or more than it is.
const TIMES_MAX: f64 = 32.0;

/// How far values are moved to see what depends on them, as a natural logarithm: more than a simulation's chance.
const MOVED: f64 = 0.08;

/// The least that a figure may be off by chance, of its tolerance.
const CHANCE_LEAST: f64 = 0.2;

/// Standard errors to either side of a value.
const ERRORS: f64 = 2.0;

/// A direction in which values may move by half is not known.
const UNKNOWN: f64 = 0.405;

/// The least part that a value has in a direction to be named with it.
const PART_LEAST: f64 = 0.25;

/// What is fitted to what.
#[derive(Clone, Copy, Debug)]
pub struct FitOfRunsTask<'a> {
    /// What was measured, as the catalogue can have it.
    pub array: &'a Array,
    /// Catalogue files of the user's own.
    pub files: &'a [CatalogFile],
    /// Changes of the catalogue that are in effect all the time.
    pub changes: &'a [CatalogChange],
    /// The figures, `ENTRY:KEY`.
    pub figures: &'a [String],
    /// The runs with their names.
    pub runs: &'a [(String, RunResult)],
    /// Rounds over all figures at most.
    pub rounds: u32,
    /// Points to try all over each figure's range before the first round.
    pub scan: u32,
    /// Threads; all processors if none is said.
    pub threads: Option<NonZeroUsize>,
}

/// Why there is no fit.
#[derive(Debug, thiserror::Error)]
pub enum FitOfRunsError {
    /// The array or the catalogue can't be.
    #[error(transparent)]
    Setup(#[from] PredictionError),
    /// A figure is none of the array's parts.
    #[error("'{asked}' is no figure of {parts}{}", nearest.as_ref().map_or(String::new(), |near| format!(", did you mean '{near}'?")))]
    UnknownFigure {
        /// What was asked for.
        asked: String,
        /// The parts.
        parts: String,
        /// The figure most like it.
        nearest: Option<String>,
    },
    /// A figure is no number.
    #[error(transparent)]
    Figure(#[from] FitParameterError),
    /// No figure or no run.
    #[error("nothing to fit: name figures and runs")]
    Nothing,
    /// A run does not say what it did.
    #[error("{run} does not say which requests it made, so that they can't be simulated")]
    NoLines {
        /// The run.
        run: String,
    },
    /// A run has no figures.
    #[error("{run} has no requests per second and no latencies: it measured something else")]
    NoFigures {
        /// The run.
        run: String,
    },
    /// Runs can't be simulated with the figures as they are.
    #[error("{run} can't be simulated: {source}")]
    Run {
        /// The run.
        run: String,
        /// What is against it.
        source: SimulatedError,
    },
}

impl From<ArrayFileError> for FitOfRunsError {
    fn from(error: ArrayFileError) -> Self {
        Self::Setup(error.into())
    }
}

impl From<CatalogError> for FitOfRunsError {
    fn from(error: CatalogError) -> Self {
        Self::Setup(error.into())
    }
}

/// A fitted figure.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FittedTo {
    /// The entry.
    pub entry: String,
    /// Its figure.
    pub key: String,
    /// Its value before, as the catalogue has it.
    pub was: String,
    /// Its value now.
    pub value: String,
    /// The least that it may be, at 95 %; none where these runs do not tell.
    pub low: Option<String>,
    /// The most.
    pub high: Option<String>,
    /// Whether the search ended where it may not go on.
    pub at_bound: bool,
}

/// Figures of which these runs do not tell one from another; a single one that they do not tell at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Untold {
    /// The figures, `ENTRY:KEY`.
    pub figures: Vec<String>,
}

/// A run that was fitted to.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FittedRun {
    /// Its name.
    pub name: String,
    /// What it did, beside what is predicted with the figures as they were.
    pub before: Vec<DoneFigure>,
    /// The same with the fitted ones.
    pub after: Vec<DoneFigure>,
}

/// What came of a fit to runs.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FitOfRuns {
    /// The array in words.
    pub array: String,
    /// The figures.
    pub figures: Vec<FittedTo>,
    /// What can't be told apart.
    pub untold: Vec<Untold>,
    /// The runs.
    pub runs: Vec<FittedRun>,
    /// How far requests per second and mean latencies were off on average, in percent.
    pub off_pct_before: f64,
    /// How far they are.
    pub off_pct_after: f64,
    /// How far all figures were off, in what a good model may be.
    pub distance_before: f64,
    /// How far they are.
    pub distance_after: f64,
    /// Simulations done.
    pub simulations: u64,
}

impl FittedTo {
    /// Whether the runs tell it: the search ended within its bounds, and another value would not do as well.
    pub fn is_told(&self) -> bool {
        !self.at_bound && self.low.is_some() && self.high.is_some()
    }
}

impl FitOfRuns {
    /// The changes of the catalogue that it asks for.
    pub fn changes(&self) -> impl Iterator<Item = &FittedTo> {
        self.figures.iter().filter(|figure| figure.value != figure.was)
    }
}

/// Fits figures to runs. `progress` is told what is done and how much of it is.
///
/// ```
/// use raidlab::{Array, Catalog, CatalogChange, FitOfRunsTask, NanoSpan, Window, fit_runs, simulate, workload};
///
/// let array = Array::new("jbod".parse()?, 1, "generic-nvme", "linux-md-nvme");
/// let window = Window { ramp: NanoSpan::from_millis(20), run: NanoSpan::from_millis(200), settles: false, ..Window::default() };
/// // In place of a measured run: a drive that takes longer to read than its entry says.
/// let slow = CatalogChange { entry: "generic-nvme".into(), key: "host.read_latency".into(), value: "90 us".into(), source: None };
/// let run = simulate(&Catalog::with(&[], &[slow])?, array.clone(), &workload("storagebench-database")?, &window)?;
///
/// let task = FitOfRunsTask {
///     array: &array,
///     files: &[],
///     changes: &[],
///     figures: &["generic-nvme:host.read_latency".into()],
///     runs: &[("measured".into(), run)],
///     rounds: 1,
///     scan: 0,
///     threads: None,
/// };
/// let fit = fit_runs(&task, &mut |_, _| {})?;
/// assert!(fit.distance_after <= fit.distance_before);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`FitOfRunsError`]; what is wrong with what is asked is found before the search.
pub fn fit_runs(
    task: &FitOfRunsTask<'_>,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<FitOfRuns, FitOfRunsError> {
    let mut bench = Bench::new(task)?;
    let start: Vec<f64> = bench.parameters.iter().map(|it| it.range().start).collect();
    let before = bench.at(&start)?;
    let ranges: Vec<_> = bench.parameters.iter().map(FitParameter::range).collect();
    let config = SearchConfig { rounds: task.rounds, scan_points: task.scan, ..SearchConfig::default() };
    let mut search = PatternSearch::new(&ranges, config);
    while let Some(batch) = search.poll_batch() {
        let doing =
            search.moving().map_or("all figures at once".to_owned(), |at| bench.parameters[at].name());
        progress(&doing, f64::from(search.rounds()) / f64::from(task.rounds.max(1)));
        // Hardware that can't be is no better.
        let found = bench.all(&batch);
        let distances = found.iter().map(|it| it.as_ref().map_or(f64::INFINITY, |runs| bench.distance(runs)));
        let distances: Vec<f64> = distances.collect();
        search.handle_values(&distances);
    }
    let (point, _) = search.best();
    progress("intervals", 1.0);
    let after = bench.at(&point)?;
    let slopes = bench.slopes(&point, &after);
    let (intervals, untold) = bench.intervals(&after, &slopes);
    let pairs = |runs: &[RunResult]| -> (f64, f64) {
        let both = || runs.iter().zip(task.runs.iter().map(|(_, run)| run));
        (off_pct(both()), distance(both()))
    };
    let ((off_pct_before, distance_before), (off_pct_after, distance_after)) =
        (pairs(&before), pairs(&after));
    let figure = |((parameter, value), interval): ((&FitParameter, &f64), Option<f64>)| {
        let key = |value: f64| parameter.keys_at(value).swap_remove(0);
        let now = key(*value);
        let end = |times: f64| interval.map(|ln| key(value * (times * ln).exp()).value);
        FittedTo {
            entry: now.entry,
            key: now.key,
            was: now.was,
            value: now.value,
            low: end(-1.0),
            high: end(1.0),
            at_bound: parameter.is_at_bound(*value),
        }
    };
    let figures = bench.parameters.iter().zip(&point).zip(intervals).map(figure).collect();
    let runs = task.runs.iter().zip(before.iter().zip(&after)).map(|((name, run), (before, after))| {
        FittedRun { name: name.clone(), before: done(before, run), after: done(after, run) }
    });
    Ok(FitOfRuns {
        array: bench.label,
        figures,
        untold,
        runs: runs.collect(),
        off_pct_before,
        off_pct_after,
        distance_before,
        distance_after,
        simulations: bench.simulations,
    })
}

/// Simulates the runs with other values.
struct Bench<'a> {
    task: &'a FitOfRunsTask<'a>,
    label: String,
    parameters: Vec<FitParameter>,
    /// Of each run, its load and the array with the part of it in use.
    loads: Vec<(Load, ArrayFile)>,
    threads: NonZeroUsize,
    simulations: u64,
}

impl<'a> Bench<'a> {
    fn new(task: &'a FitOfRunsTask<'a>) -> Result<Self, FitOfRunsError> {
        if task.figures.is_empty() || task.runs.is_empty() {
            return Err(FitOfRunsError::Nothing);
        }
        let catalog = Catalog::with(task.files, task.changes)?;
        let file = ArrayFile::from(task.array.clone());
        let (_, modelled) = file.resolve(&catalog)?;
        let mut loads = Vec::new();
        for (name, run) in task.runs {
            if run.ops.total.requests == 0 {
                return Err(FitOfRunsError::NoFigures { run: name.clone() });
            }
            let (load, region) =
                like_run(run).ok_or_else(|| FitOfRunsError::NoLines { run: name.clone() })?;
            let region = region.filter(|region| region.0 >= 4096).map_or(modelled.region, |region| {
                raidlab_units::ByteCount(region.0 / 4096 * 4096).min(modelled.usable)
            });
            loads.push((load, ArrayFile { region: Some(region), ..file.clone() }));
        }
        Ok(Self {
            task,
            label: modelled.label(),
            parameters: parameters(task, &file, &catalog)?,
            loads,
            threads: task.threads.unwrap_or_else(all_processors),
            simulations: 0,
        })
    }

    /// All runs at each of `points`; why not, at one where there can be no such hardware.
    fn all(&mut self, points: &[Vec<f64>]) -> Vec<Result<Vec<RunResult>, FitOfRunsError>> {
        let catalogs: Vec<_> = points.iter().map(|point| self.catalog(point)).collect();
        let can_be: Vec<&Catalog> = catalogs.iter().filter_map(|it| it.as_ref().ok()).collect();
        let count = self.loads.len();
        let job = |index: usize| {
            let (load, file) = &self.loads[index % count];
            let (models, array) =
                file.resolve(can_be[index / count]).expect("it was resolved at this point before");
            run_simulated(&models, &array, load)
        };
        let jobs = can_be.len() * count;
        self.simulations += jobs as u64;
        let all = Hosts::alone().share_all((jobs, self.threads), job, |_, _| {});
        let mut all = all.expect("a host alone loses nobody").into_iter();
        let mut of_point = || {
            let each = self.task.runs.iter().map(|(name, _)| {
                let failed = |source| FitOfRunsError::Run { run: name.clone(), source };
                all.next().expect("one for each").map_err(failed)
            });
            // All of a point are taken, whichever fails.
            each.collect::<Vec<_>>().into_iter().collect()
        };
        catalogs.into_iter().map(|catalog| catalog.and_then(|_| of_point())).collect()
    }

    /// All runs at one point.
    fn at(&mut self, point: &[f64]) -> Result<Vec<RunResult>, FitOfRunsError> {
        self.all(&[point.to_vec()]).pop().expect("one for each point")
    }

    /// The catalogue with the values of `point`, in which each array can be.
    fn catalog(&self, point: &[f64]) -> Result<Catalog, FitOfRunsError> {
        let changes = self.parameters.iter().zip(point).flat_map(|(it, value)| it.changes_at(*value));
        let changes: Vec<CatalogChange> = self.task.changes.iter().cloned().chain(changes).collect();
        let mut catalog = Catalog::with(self.task.files, &changes)?;
        let file = ArrayFile::from(self.task.array.clone());
        file.condition_drives(&mut catalog)?;
        self.loads.iter().try_for_each(|(_, file)| file.resolve(&catalog).map(|_| ()))?;
        Ok(catalog)
    }

    fn distance(&self, runs: &[RunResult]) -> f64 {
        distance(runs.iter().zip(self.task.runs.iter().map(|(_, run)| run)))
    }

    /// How far off each figure of each run is, in tolerances.
    fn off(&self, runs: &[RunResult]) -> Vec<f64> {
        let pairs = runs.iter().zip(self.task.runs);
        pairs.flat_map(|(run, (_, measured))| off(run, measured)).map(|it| it.ln / it.tolerance).collect()
    }

    /// By how much each of these changes with each parameter, for a logarithm that grows by one. `best` is at `point`, and stands for
    /// a side on which there can be no such hardware.
    fn slopes(&mut self, point: &[f64], best: &[RunResult]) -> Vec<Vec<f64>> {
        let moved = |at: usize, by: f64| -> Vec<f64> {
            let mut moved = point.to_vec();
            moved[at] *= by.exp();
            moved
        };
        let points: Vec<Vec<f64>> =
            (0..point.len()).flat_map(|at| [moved(at, MOVED), moved(at, -MOVED)]).collect();
        let found = self.all(&points);
        let side = |at: usize, runs: &Result<Vec<RunResult>, FitOfRunsError>, by: f64| match runs {
            // Values are written with three digits, and counts are whole: what they really moved by.
            Ok(runs) => (self.off(runs), self.written(at, point[at] * by.exp())),
            Err(_) => (self.off(best), self.written(at, point[at])),
        };
        let slope = |(at, pair): (usize, &[Result<Vec<RunResult>, FitOfRunsError>])| {
            let ((up, more), (down, less)) = (side(at, &pair[0], MOVED), side(at, &pair[1], -MOVED));
            let by = (more / less).ln();
            let each = up.iter().zip(&down).map(|(up, down)| if by > 0.0 { (up - down) / by } else { 0.0 });
            each.collect::<Vec<f64>>()
        };
        found.chunks(2).enumerate().map(slope).collect()
    }

    /// The number that `value` of parameter `at` is when it has been written.
    fn written(&self, at: usize, value: f64) -> f64 {
        let key = self.parameters[at].keys_at(value).swap_remove(0);
        let figure = FittedFigure { entry: key.entry, key: key.key, value: key.value, source: String::new() };
        FitParameter::around(figure, TIMES_MAX).map_or(value, |it| it.range().start)
    }

    /// Half of each value's interval as a natural logarithm, none where it is not known, and what can't be told apart.
    fn intervals(&self, best: &[RunResult], slopes: &[Vec<f64>]) -> (Vec<Option<f64>>, Vec<Untold>) {
        let count = slopes.len();
        let rest = self.off(best);
        let freedom = rest.len().saturating_sub(count).max(1) as f64;
        let error = (rest.iter().map(|off| off * off).sum::<f64>() / freedom).sqrt().max(CHANCE_LEAST);
        let product = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
        let normal: Vec<Vec<f64>> =
            slopes.iter().map(|one| slopes.iter().map(|other| product(one, other)).collect()).collect();
        let (values, vectors) = eigen(normal);
        let mut variances = vec![0.0; count];
        let (mut untold, mut is_untold) = (Vec::new(), vec![false; count]);
        for (value, vector) in values.iter().zip(&vectors) {
            let reach = ERRORS * error / value.max(0.0).sqrt();
            if reach < UNKNOWN {
                for (variance, part) in variances.iter_mut().zip(vector) {
                    *variance += (part * reach).powi(2);
                }
                continue;
            }
            let named: Vec<usize> = (0..count).filter(|at| vector[*at].abs() >= PART_LEAST).collect();
            for at in &named {
                is_untold[*at] = true;
            }
            untold.push(Untold { figures: named.iter().map(|at| self.parameters[*at].name()).collect() });
        }
        let halves = variances.iter().zip(&is_untold);
        (halves.map(|(variance, untold)| (!untold).then(|| variance.sqrt())).collect(), untold)
    }
}

/// The figures that are to be fitted.
fn parameters(
    task: &FitOfRunsTask<'_>,
    file: &ArrayFile,
    catalog: &Catalog,
) -> Result<Vec<FitParameter>, FitOfRunsError> {
    let parts: Vec<&str> = [Some(&file.drive), Some(&file.controller), file.enclosure.as_ref()]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .collect();
    let entries: Vec<_> = catalog.entries().filter(|entry| parts.contains(&entry.id)).collect();
    let all = || entries.iter().flat_map(|entry| entry.sources.iter().map(move |it| (entry.id, it)));
    let mut found: Vec<FitParameter> = Vec::new();
    for asked in task.figures {
        let place = all().find(|(id, figure)| *asked == format!("{id}:{}", figure.key));
        let Some((id, figure)) = place else {
            let names: Vec<String> = all().map(|(id, figure)| format!("{id}:{}", figure.key)).collect();
            let nearest = nearest(asked, names.iter().map(String::as_str));
            return Err(FitOfRunsError::UnknownFigure {
                asked: asked.clone(),
                parts: parts.join(", "),
                nearest,
            });
        };
        let figure = FittedFigure {
            entry: id.to_owned(),
            key: figure.key.clone(),
            value: figure.value.clone(),
            source: figure.source.clone(),
        };
        let parameter = FitParameter::around(figure, TIMES_MAX)?;
        if !found.iter().any(|other| other.name() == parameter.name()) {
            found.push(parameter);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
