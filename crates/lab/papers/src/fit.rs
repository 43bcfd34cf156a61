//! Fitting: a search for catalogue figures without a source, such that the model matches the marked rows.
//!
//! ```text
//! papers/ID/fit.toml   figures, bounds, reasons ─┐
//! papers/ID/study.toml fitted-rows ──────────────┴► search ─► values ─► all rows, before and after ─► Fit ─► fitted.toml
//! ```
//! - **What is searched**: only figures whose source in the catalogue is `fitted:`, each within physical bounds that
//!   `fit.toml` gives with their reason. Several keys that are one number (four drives of one maker) move in
//!   proportion.
//! - **What is minimised**: the mean over the marked rows of Huber's function of `|ln(predicted / published)|`. The
//!   search never sees rows that are not marked; they are predicted once before and once after it, as the check.
//! - **Cost**: a simulation is repeated only if an entry of its hardware has new values. The search may use shorter
//!   windows than the check, which always has those of the paper.
//!
//! Invariants: a fit depends on the rows, the method, the seed and the settings, not on the number of threads; a figure
//! without effect keeps its value; an interrupted fit has the best values so far. Left out: which of several equally
//! good fits is true. Source of the function: P. J. Huber, *Robust Estimation of a Location Parameter*, 1964.

mod evaluate;
mod parameter;
mod stored;

pub use parameter::{FitFile, FitFileParameter, FitParameter, FitParameterError, FittedKey, parse_fit_file};
pub use stored::{StoredFit, StoredFitError, StoredResidual};

use crate::papers::Paper;
use crate::predict::FittedFigure;
use crate::published::PublishedError;
use evaluate::{Evaluator, Figures};
use raidlab_advisor::{
    Comparison, ComparisonRow, ComparisonSummary, PatternSearch, SearchConfig, SearchRange,
};
use raidlab_hardware::{Catalog, CatalogChange, CatalogError};
use raidlab_units::NanoSpan;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};

/// Errors up to this natural logarithm count by their square, larger ones by their size: 5 %.
const HUBER_LN: f64 = 0.05;

/// How far values are moved to see what depends on them, as a natural logarithm.
const SENSITIVITY_LN: f64 = 0.048_790_164_169_432;

/// How long the simulations of a search are, where they are to be shorter than the paper's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FitEffort {
    /// Virtual time before each window, at most.
    pub ramp_max: Option<NanoSpan>,
    /// Length of each window.
    pub run: Option<NanoSpan>,
}

/// What to fit, and how.
#[derive(Clone, Copy, Debug)]
pub struct FitTask<'a> {
    /// The rows and claims, and which of them may be fitted to.
    pub paper: &'a Paper,
    /// Entries (`perc-h800`) or single figures (`perc-h800:parity.rate`) to search alone; all if empty.
    pub only: &'a [String],
    /// Changes of the catalogue that are in effect all the time.
    pub changes: &'a [CatalogChange],
    /// How the search simulates.
    pub effort: FitEffort,
    /// Rounds over all values at most; with none the fit shows what the present values come to.
    pub rounds: u32,
    /// Points to try all over the range of each number before the first round.
    pub scan: u32,
    /// Whether the rows are predicted once more in full, before and after.
    pub check: bool,
    /// Threads to simulate on.
    pub threads: NonZeroUsize,
}

/// Why there is no fit.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The figures can't be searched.
    #[error(transparent)]
    Parameter(#[from] FitParameterError),
    /// Nothing that was asked for is to be searched.
    #[error("nothing of '{asked}' is among the figures to search: {}", known.join(", "))]
    UnknownOnly {
        /// What was asked for.
        asked: String,
        /// Every first key.
        known: Vec<String>,
    },
    /// The paper marks no row that these figures could change.
    #[error("no row of paper '{paper}' that is marked for fitting depends on these figures")]
    NoRows {
        /// The paper.
        paper: String,
    },
    /// The catalogue can't be changed as asked.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// Rows can't be simulated.
    #[error(transparent)]
    Rows(#[from] PublishedError),
    /// The rows can't be predicted with the values that the search began with.
    #[error("the rows cannot be simulated with the present values: {problem}")]
    Start {
        /// What failed first.
        problem: String,
    },
    /// Stopped before the present values were simulated.
    #[error("stopped before there was anything to keep")]
    Cancelled,
}

/// How far a search has come.
#[derive(Clone, Debug)]
pub struct FitProgress<'a> {
    /// What is being done: the first key of the figure being moved, or in words.
    pub doing: &'a str,
    /// Rounds ended, and at most.
    pub rounds: (u32, u32),
    /// Share of the whole, from 0 to 1, were all rounds needed.
    pub fraction: f64,
    /// The function at the start, once known.
    pub start: f64,
    /// Its best value so far.
    pub best: f64,
    /// Simulations done.
    pub simulations: u64,
}

/// One searched number with what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FittedParameter {
    /// The figures of the catalogue that it is, with values before and after.
    pub keys: Vec<FittedKey>,
    /// The least that the first may be, as declared.
    pub low: String,
    /// The most.
    pub high: String,
    /// Why these bounds.
    pub reason: String,
    /// How much the function rises when the number is 5 % higher; below zero where the least gain was not reached. None where it
    /// could not be simulated or the search was stopped.
    pub rise_5_pct_up: Option<f64>,
    /// The same 5 % lower.
    pub rise_5_pct_down: Option<f64>,
    /// Whether it ended at a bound: what is beyond might fit better, and the bound says that it can't be.
    pub at_bound: bool,
}

/// One figure or claim with the predictions before and after.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Residual {
    /// The row.
    pub id: String,
    /// Whether the search looked at it.
    pub fitted: bool,
    /// What is counted.
    pub metric: String,
    /// As published.
    pub published: f64,
    /// As predicted with the values at the start.
    pub before: f64,
    /// As predicted with the fitted ones.
    pub after: f64,
    /// The latter's error in percent of what was published.
    pub error_pct: f64,
}

/// Errors before and after.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BeforeAfter {
    /// With the values at the start.
    pub before: ComparisonSummary,
    /// With the fitted ones.
    pub after: ComparisonSummary,
}

/// What came of a search.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Fit {
    /// The paper.
    pub paper: String,
    /// The numbers searched.
    pub parameters: Vec<FittedParameter>,
    /// Fitted figures of the hardware in use that were not searched.
    pub not_searched: Vec<FittedFigure>,
    /// How the search simulated.
    pub effort: FitEffort,
    /// Rounds that ended.
    pub rounds: u32,
    /// Whether it was stopped before it was done.
    pub stopped: bool,
    /// Simulations done.
    pub simulations: u64,
    /// The function at the start, with the search's settings.
    pub objective_before: f64,
    /// The same at the end.
    pub objective_after: f64,
    /// Whether residuals are those of the paper's own settings; else those of the search, of fitted rows alone.
    pub checked: bool,
    /// The rows that depend on the figures.
    pub residuals: Vec<Residual>,
    /// Rows that do not.
    pub rows_untouched: usize,
    /// The fitted rows' errors.
    pub fitted: BeforeAfter,
    /// Those of the rows that the search never saw.
    pub not_fitted: BeforeAfter,
}

impl Fit {
    /// Whether it is better on the fitted rows than what there was, by the search's function.
    pub fn is_better(&self) -> bool {
        let mean = |figure: &dyn Fn(&Residual) -> f64| {
            let fitted: Vec<f64> = self.residuals.iter().filter(|row| row.fitted).map(figure).collect();
            fitted.iter().sum::<f64>() / fitted.len().max(1) as f64
        };
        let after = mean(&|row| huber(row.after, row.published));
        after < mean(&|row| huber(row.before, row.published))
    }

    /// The changes of the catalogue that it asks for, each with its source.
    pub fn changes(&self) -> Vec<CatalogChange> {
        let source = self.source();
        let keys = self.parameters.iter().flat_map(|parameter| &parameter.keys);
        keys.filter_map(|key| key.change(&source)).collect()
    }

    /// Where its values come from, as the catalogue has it.
    pub fn source(&self) -> String {
        let paper = &self.paper;
        format!(
            "fitted: by 'raidlab fit {paper}', to the rows that papers/{paper}/study.toml names; residuals in its fitted.toml"
        )
    }
}

/// Huber's function of how far a prediction is off.
fn huber(predicted: f64, published: f64) -> f64 {
    let off = (predicted / published).ln().abs();
    if off.is_nan() {
        f64::INFINITY
    } else if off <= HUBER_LN {
        off * off / (2.0 * HUBER_LN)
    } else {
        off - HUBER_LN / 2.0
    }
}

/// Searches. A search that `cancel` stops keeps its best values, once the present ones are known.
///
/// # Errors
/// [`FitError`]; everything that can be known to be wrong is found before anything is simulated.
#[expect(clippy::missing_panics_doc, reason = "both were simulated")]
pub fn fit(
    task: &FitTask<'_>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&FitProgress<'_>),
) -> Result<Fit, FitError> {
    let catalog = Catalog::builtin_with(task.changes)?;
    let declared = task.paper.fit.resolved(&evaluate::figures_in_use(task, &catalog)?)?;
    let parameters = chosen(declared, task.only)?;
    let mut evaluator = Evaluator::of_fitted(task, &parameters, &catalog)?;
    let mut run = Run { task, parameters: &parameters, start: f64::INFINITY, progress };
    let mut search = PatternSearch::new(
        &parameters.iter().map(FitParameter::range).collect::<Vec<SearchRange>>(),
        SearchConfig { rounds: task.rounds, scan_points: task.scan, ..SearchConfig::default() },
    );
    let stopped = run.search(&mut search, &mut evaluator, cancel)?;
    let (point, objective) = search.best();
    let start: Vec<f64> = parameters.iter().map(|parameter| parameter.range().start).collect();
    let rises = if stopped {
        vec![(None, None); parameters.len()]
    } else {
        run.rises(&point, objective, &mut evaluator, cancel)
    };
    let (before, after) = (evaluator.known(&start), evaluator.known(&point));
    let (before, after) = before.zip(after).expect("both were simulated");
    let simulations = evaluator.simulations;
    let full =
        if stopped || !task.check { None } else { run.check(&start, (&point, objective), &catalog, cancel)? };
    let checked = full.is_some();
    let (before, after) = full.unwrap_or((before, after));
    let residuals = residuals(&before, &after);
    let summary = |fitted: bool| summary_of(&residuals, fitted);
    Ok(Fit {
        paper: task.paper.method.id.clone(),
        not_searched: not_searched(task, &catalog, &parameters)?,
        parameters: run.fitted(&point, &rises),
        effort: task.effort,
        rounds: search.rounds(),
        stopped,
        simulations,
        objective_before: run.start,
        objective_after: objective,
        checked,
        rows_untouched: task.paper.rows.len() + task.paper.claims.len()
            - evaluate::touched(task, &parameters, &catalog)?,
        fitted: summary(true),
        not_fitted: summary(false),
        residuals,
    })
}

/// The parameters that `only` names; all if it names none.
fn chosen(parameters: Vec<FitParameter>, only: &[String]) -> Result<Vec<FitParameter>, FitError> {
    for asked in only {
        if !parameters.iter().any(|parameter| parameter.is_named(asked)) {
            let known = parameters.iter().map(FitParameter::name).collect();
            return Err(FitError::UnknownOnly { asked: asked.clone(), known });
        }
    }
    let wanted =
        |parameter: &FitParameter| only.is_empty() || only.iter().any(|asked| parameter.is_named(asked));
    Ok(parameters.into_iter().filter(wanted).collect())
}

fn not_searched(
    task: &FitTask<'_>,
    catalog: &Catalog,
    parameters: &[FitParameter],
) -> Result<Vec<FittedFigure>, FitError> {
    let figures = evaluate::figures_in_use(task, catalog)?;
    let searched =
        |figure: &FittedFigure| parameters.iter().any(|parameter| parameter.has(&figure.entry, &figure.key));
    Ok(figures.into_iter().filter(|figure| !searched(figure)).collect())
}

/// A search under way, with whom to tell.
struct Run<'a, 'b> {
    task: &'a FitTask<'a>,
    parameters: &'a [FitParameter],
    start: f64,
    progress: &'b mut dyn FnMut(&FitProgress<'_>),
}

impl Run<'_, '_> {
    /// Searches to the end; returns whether it was stopped before.
    fn search(
        &mut self,
        search: &mut PatternSearch,
        evaluator: &mut Evaluator<'_>,
        cancel: &AtomicBool,
    ) -> Result<bool, FitError> {
        while let Some(batch) = search.poll_batch() {
            let is_start = self.start.is_infinite();
            let moving = search.moving();
            let doing = match moving {
                Some(index) => self.parameters[index].name(),
                None if is_start => "the present values".to_owned(),
                None => "all figures at once".to_owned(),
            };
            let (rounds, best) = (search.rounds(), search.best().1);
            let share = moving.unwrap_or(0) as f64 / self.parameters.len().max(1) as f64;
            let fraction = (f64::from(rounds) + share) / f64::from(self.task.rounds.max(1));
            let mut tell = |simulations| {
                (self.progress)(&FitProgress {
                    doing: &doing,
                    rounds: (rounds, self.task.rounds),
                    fraction,
                    start: self.start,
                    best,
                    simulations,
                });
            };
            let Some(found) = evaluator.objectives(&batch, cancel, &mut tell) else {
                return if is_start { Err(FitError::Cancelled) } else { Ok(true) };
            };
            if is_start {
                if let Some(problem) = evaluator.problem.take().filter(|_| found[0].is_infinite()) {
                    return Err(FitError::Start { problem });
                }
                self.start = found[0];
            }
            search.handle_values(&found);
        }
        Ok(cancel.load(Ordering::Relaxed))
    }

    /// How much the function rises when each number is 5 % up or down.
    fn rises(
        &mut self,
        point: &[f64],
        objective: f64,
        evaluator: &mut Evaluator<'_>,
        cancel: &AtomicBool,
    ) -> Vec<(Option<f64>, Option<f64>)> {
        let moved = |index: usize, by: f64| {
            let mut moved = point.to_vec();
            moved[index] *= by.exp();
            moved
        };
        let sides = |index| [moved(index, SENSITIVITY_LN), moved(index, -SENSITIVITY_LN)];
        let batch: Vec<Vec<f64>> = (0..point.len()).flat_map(sides).collect();
        let mut tell = |simulations| self.tell_last("5 % up and down", objective, simulations);
        let Some(found) = evaluator.objectives(&batch, cancel, &mut tell) else {
            return vec![(None, None); point.len()];
        };
        let rise = |value: f64| value.is_finite().then_some(value - objective);
        found.chunks_exact(2).map(|sides| (rise(sides[0]), rise(sides[1]))).collect()
    }

    /// All rows that depend on the figures, with the paper's own settings, at the start and at `point`; none if stopped.
    fn check(
        &mut self,
        start: &[f64],
        (point, objective): (&[f64], f64),
        catalog: &Catalog,
        cancel: &AtomicBool,
    ) -> Result<Option<(Figures, Figures)>, FitError> {
        let mut evaluator = Evaluator::of_all(self.task, self.parameters, catalog)?;
        let mut tell = |simulations| self.tell_last("all rows, before and after", objective, simulations);
        let batch = [start.to_vec(), point.to_vec()];
        let Some(_) = evaluator.objectives(&batch, cancel, &mut tell) else { return Ok(None) };
        Ok(evaluator.known(start).zip(evaluator.known(point)))
    }

    fn tell_last(&mut self, doing: &str, best: f64, simulations: u64) {
        let rounds = (self.task.rounds, self.task.rounds);
        let start = self.start;
        (self.progress)(&FitProgress { doing, rounds, fraction: 1.0, start, best, simulations });
    }

    fn fitted(&self, point: &[f64], rises: &[(Option<f64>, Option<f64>)]) -> Vec<FittedParameter> {
        let all = self.parameters.iter().zip(point).zip(rises);
        all.map(|((parameter, value), (up, down))| FittedParameter {
            keys: parameter.keys_at(*value),
            low: parameter.low.clone(),
            high: parameter.high.clone(),
            reason: parameter.reason.clone(),
            rise_5_pct_up: *up,
            rise_5_pct_down: *down,
            at_bound: parameter.is_at_bound(*value),
        })
        .collect()
    }
}

fn residuals(before: &Figures, after: &Figures) -> Vec<Residual> {
    let pairs = before.rows.iter().zip(&after.rows);
    pairs
        .map(|(before, after)| Residual {
            id: after.id.clone(),
            fitted: after.fitted,
            metric: after.metric.clone(),
            published: after.published,
            before: before.predicted,
            after: after.predicted,
            error_pct: 100.0 * (after.predicted - after.published) / after.published,
        })
        .collect()
}

fn summary_of(residuals: &[Residual], fitted: bool) -> BeforeAfter {
    let of = |predicted: &dyn Fn(&Residual) -> f64| {
        let wanted = residuals.iter().filter(|row| row.fitted == fitted);
        let rows = wanted.filter_map(|row| {
            ComparisonRow::of(row.id.clone(), row.metric.clone(), row.published, predicted(row))
        });
        Comparison::of(rows.collect()).summary
    };
    BeforeAfter { before: of(&|row| row.before), after: of(&|row| row.after) }
}

#[cfg(test)]
mod tests;
