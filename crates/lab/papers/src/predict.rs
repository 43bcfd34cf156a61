//! Predictions of published figures: each row becomes a modelled array and a load. Every distinct one is simulated
//! once, or at rising loads if the figure is at a response time, and the results are compared with the publication.
//!
//! ```text
//! rows ─ look up hardware and workload ─► distinct (array, load) ─ simulate on all processors ─► Comparison
//! ```
//! A row whose hardware or workload is not in the catalogue is a [`RowProblem`], and problems are reported all at once:
//! no row is left out. Invariant: figures depend on the rows, the method and the seed, not on the number of threads.

pub(crate) mod files;
pub(crate) mod served;
mod setup;

pub(crate) use setup::{Setup, SetupLoad, Simulated, set_up, set_up_rows};

use crate::papers::Method;
use crate::published::{PublishedError, PublishedRow};
use raidlab_advisor::{Comparison, ComparisonRow, ComparisonSummary, PlaceSummary, kendall_tau};
use raidlab_hardware::Catalog;
use raidlab_hosts::{Hosts, HostsError, Jobs, Stop};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::RunResult;
use raidlab_worlds::ModelledArray;
use raidlab_worlds::ReadOff;
use raidlab_worlds::simulated::SimulatedError;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

/// How rows are simulated where they say nothing themselves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PredictOptions {
    /// Length of a strip; `None` is as the controller is delivered.
    pub strip_size: Option<ByteCount>,
    /// Drives of a volume, about, behind two controllers; `None` is one volume for each controller.
    pub drives_per_volume: Option<u16>,
    /// Virtual time before the measured window.
    pub ramp: NanoSpan,
    /// The same for write-through, which has no cache to fill.
    pub ramp_write_through: NanoSpan,
    /// Length of the measured window in virtual time.
    pub run: NanoSpan,
    /// Seed of everything random.
    pub seed: u64,
}

impl From<&Method> for PredictOptions {
    fn from(method: &Method) -> Self {
        Self {
            strip_size: Some(method.strip_size),
            drives_per_volume: method.drives_per_volume,
            ramp: method.ramp,
            ramp_write_through: method.ramp_write_through,
            run: method.run,
            seed: method.seed,
        }
    }
}

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    /// Rows name what the catalogue lacks, or an array that can't be.
    #[error(transparent)]
    Rows(#[from] PublishedError),
    /// A simulation failed.
    #[error("row '{row}': {source}")]
    Simulation {
        /// The first row that it was for.
        row: String,
        /// What failed.
        source: SimulatedError,
    },
    /// The caller asked to stop.
    #[error("stopped before all figures were predicted")]
    Cancelled,
    /// The ranks can't go on together.
    #[error(transparent)]
    Hosts(#[from] HostsError),
}

/// One figure as published and as predicted, with the simulation that predicted it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PredictedRow {
    /// Id, metric, both figures and the error.
    #[serde(flatten)]
    pub comparison: ComparisonRow,
    /// Where in the publication it stands.
    pub place: String,
    /// Whether fitted figures of the catalogue were fitted to it.
    pub fitted: bool,
    /// Which of [`Prediction::configurations`] it was predicted by.
    pub configuration: usize,
}

/// A simulated configuration.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PredictedConfiguration {
    /// The array, with every setting that was in effect; none where nothing was read from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<ModelledArray>,
    /// What came of it; where figures were read off, of the greatest load that kept to the limit.
    pub result: RunResult,
    /// How they were read off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_off: Option<ReadOff>,
}

/// A figure of the catalogue that was fitted to published results.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FittedFigure {
    /// Drive or controller.
    pub entry: String,
    /// Its place in the catalogue file.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What it was fitted to.
    pub source: String,
}

/// All figures, predicted.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Prediction {
    /// The rows, in the order of the file.
    pub rows: Vec<PredictedRow>,
    /// What all rows amount to.
    pub summary: ComparisonSummary,
    /// What the rows amount to that nothing was fitted to.
    pub summary_not_fitted: ComparisonSummary,
    /// What the rows of each place (table) amount to, in the order of the file.
    pub places: Vec<PlaceSummary>,
    /// The distinct configurations, in the order of their first rows.
    pub configurations: Vec<PredictedConfiguration>,
    /// The catalogue's fitted figures of the hardware in use.
    pub fitted_figures: Vec<FittedFigure>,
}

impl Prediction {
    /// The rows and their summary alone.
    pub fn comparison(&self) -> Comparison {
        Comparison::of(self.rows.iter().map(|row| row.comparison.clone()).collect())
    }
}

/// What the rows of each place amount to, in the order of the places.
fn place_summaries(rows: &[PredictedRow]) -> Vec<PlaceSummary> {
    let mut places: Vec<&str> = Vec::new();
    for row in rows {
        if !places.contains(&row.place.as_str()) {
            places.push(&row.place);
        }
    }
    places.into_iter().map(|place| place_summary(place, rows)).collect()
}

fn place_summary(place: &str, rows: &[PredictedRow]) -> PlaceSummary {
    let rows: Vec<&PredictedRow> = rows.iter().filter(|row| row.place == place).collect();
    let not_fitted = rows.iter().filter(|row| !row.fitted);
    PlaceSummary {
        place: place.to_owned(),
        summary: Comparison::of(rows.iter().map(|row| row.comparison.clone()).collect()).summary,
        summary_not_fitted: Comparison::of(not_fitted.map(|row| row.comparison.clone()).collect()).summary,
        kendall_tau: tau_of(&rows),
    }
}

/// Kendall's tau of figures that may be of several metrics, which have no order among each other.
fn tau_of(rows: &[&PredictedRow]) -> Option<f64> {
    let mut metrics: Vec<&str> = rows.iter().map(|row| row.comparison.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let (mut sum, mut weight) = (0.0, 0.0);
    for metric in metrics {
        let of_metric = rows.iter().filter(|row| row.comparison.metric == metric);
        let pairs: Vec<(f64, f64)> =
            of_metric.map(|row| (row.comparison.published, row.comparison.predicted)).collect();
        let count = (pairs.len() * pairs.len().saturating_sub(1) / 2) as f64;
        if let Some(tau) = kendall_tau(pairs) {
            sum += tau * count;
            weight += count;
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

/// What to predict, with what, and how.
#[derive(Clone, Copy, Debug)]
pub struct PredictTask<'a> {
    /// Name of the file of the rows, for messages.
    pub file: &'a str,
    /// The figures.
    pub rows: &'a [PublishedRow],
    /// Ids of rows that fitted figures were fitted to.
    pub fitted_rows: &'a [String],
    /// How to simulate rows that have no way of their own.
    pub options: PredictOptions,
    /// The hardware.
    pub catalog: &'a Catalog,
    /// Threads to simulate on.
    pub threads: NonZeroUsize,
    /// Whether to find out what sets the pace of each configuration of raw volumes, which takes several runs more.
    pub finds_bottleneck: bool,
}

impl PredictTask<'_> {
    pub(crate) fn options_of(&self, row: &PublishedRow) -> PredictOptions {
        row.options.unwrap_or(self.options)
    }
}

/// Predicts `task` on the threads of `hosts`. `progress` gets the simulations finished and planned.
///
/// # Errors
/// [`PredictError`]; rows that can't be simulated are reported all at once, before anything is.
pub fn predict(
    task: &PredictTask<'_>,
    hosts: &mut Hosts,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Prediction, PredictError> {
    let setups = set_up_rows(task)?;
    let (distinct, of_row) = distinct_setups(&setups);
    let row_of = |setup: usize| task.rows[setup].id.clone();
    let what = ToSimulate { setups: &setups, distinct: &distinct, row_of: &row_of };
    let results = simulate(task, &what, hosts, cancel, progress)?;
    Ok(assemble(task, &setups, &distinct, &of_row, results))
}

/// What is to be simulated.
pub(crate) struct ToSimulate<'a> {
    pub(crate) setups: &'a [Setup],
    /// Those that are.
    pub(crate) distinct: &'a [usize],
    /// Names what a setup is for.
    pub(crate) row_of: &'a dyn Fn(usize) -> String,
}

/// Simulates the distinct ones of setups.
///
/// # Errors
/// [`PredictError::Simulation`], [`PredictError::Cancelled`] and [`PredictError::Hosts`].
pub(crate) fn simulate(
    task: &PredictTask<'_>,
    what: &ToSimulate<'_>,
    hosts: &mut Hosts,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Vec<Simulated>, PredictError> {
    let ToSimulate { setups, distinct, row_of } = *what;
    let mut results: Vec<Option<Simulated>> = vec![None; distinct.len()];
    let mut finished = 0;
    progress(0, distinct.len());
    let ended = hosts.share(
        Jobs { count: distinct.len(), threads: task.threads, cancel },
        |index| {
            let setup = &setups[distinct[index]];
            let mut done = setup.simulate(task.catalog)?;
            if task.finds_bottleneck {
                done.result.bottleneck = setup.bottleneck(task.catalog, &done.result)?;
            }
            Ok(done)
        },
        |index, result| {
            let row = row_of(distinct[index]);
            results[index] = Some(result.map_err(|source| PredictError::Simulation { row, source })?);
            finished += 1;
            progress(finished, distinct.len());
            Ok(())
        },
    );
    ended.map_err(|stop| match stop {
        Stop::Cancelled => PredictError::Cancelled,
        Stop::Failed(error) => error,
        Stop::Hosts(error) => PredictError::Hosts(error),
    })?;
    Ok(results.into_iter().map(|result| result.expect("all were simulated")).collect())
}

/// The indices of the first row of each distinct simulation, and for each row which of them it is.
pub(crate) fn distinct_setups(setups: &[Setup]) -> (Vec<usize>, Vec<usize>) {
    let mut distinct: Vec<usize> = Vec::new();
    let mut of_row = Vec::with_capacity(setups.len());
    for (row, setup) in setups.iter().enumerate() {
        let known = distinct.iter().position(|first| setups[*first] == *setup);
        of_row.push(known.unwrap_or_else(|| {
            distinct.push(row);
            distinct.len() - 1
        }));
    }
    (distinct, of_row)
}

fn assemble(
    task: &PredictTask<'_>,
    setups: &[Setup],
    distinct: &[usize],
    of_row: &[usize],
    results: Vec<Simulated>,
) -> Prediction {
    let predicted = |row: &PublishedRow, configuration: usize| {
        let figure = results[configuration].figure(row.counts, &row.workload);
        let comparison = ComparisonRow::of(row.id.clone(), row.metric.name().to_owned(), row.value, figure);
        PredictedRow {
            comparison: comparison.expect("published figures are above zero and rates are finite"),
            place: row.place.clone(),
            fitted: task.fitted_rows.contains(&row.id),
            configuration,
        }
    };
    let rows: Vec<PredictedRow> =
        task.rows.iter().zip(of_row).map(|(row, configuration)| predicted(row, *configuration)).collect();
    let summary = |wanted: &dyn Fn(&&PredictedRow) -> bool| {
        Comparison::of(rows.iter().filter(wanted).map(|row| row.comparison.clone()).collect()).summary
    };
    let (all, not_fitted) = (summary(&|_| true), summary(&|row| !row.fitted));
    let configurations = distinct.iter().zip(results);
    let configurations = configurations
        .map(|(first, Simulated { result, read_off })| PredictedConfiguration {
            array: setups[*first].array.clone(),
            result,
            read_off,
        })
        .collect();
    Prediction {
        places: place_summaries(&rows),
        rows,
        summary: all,
        summary_not_fitted: not_fitted,
        configurations,
        fitted_figures: fitted_figures(setups, task.catalog),
    }
}

/// The fitted figures of every drive and controller in `setups`, each entry once.
pub(crate) fn fitted_figures(setups: &[Setup], catalog: &Catalog) -> Vec<FittedFigure> {
    let mut figures: Vec<FittedFigure> = Vec::new();
    for (entry, sources) in setups.iter().flat_map(|setup| setup.entries(catalog)) {
        if figures.iter().any(|figure| figure.entry == entry) {
            continue;
        }
        let fitted = sources.iter().filter(|figure| figure.source.starts_with("fitted:"));
        figures.extend(fitted.map(|figure| FittedFigure {
            entry: entry.to_owned(),
            key: figure.key.clone(),
            value: figure.value.clone(),
            source: figure.source.clone(),
        }));
    }
    figures
}

#[cfg(test)]
pub(crate) mod tests;
