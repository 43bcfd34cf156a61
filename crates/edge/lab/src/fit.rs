//! Fits free figures of the catalogue to some of a paper's rows and claims.
//!
//! What is free stands in the paper's `study.toml`: figures of drives and controllers, never of a row, each with its
//! bounds and the rows and claims that it is meant to explain.
//! ```text
//! study.toml [fit] ─► values ─► Catalog::builtin_with ─► predict the rows ─► mean square of ln(predicted / published)
//!                       ▲                                                        │
//!                       └───────── search: one value at a time, finer and finer ◄┘        best so far ─► fit.toml
//! ```
//! The figures of all rows are simulated as `reproduce` does it, so a fit says nothing that `reproduce` does not confirm.
//! Invariants: the same study and seed give the same fit on any number of threads; every value that is tried can be
//! written into the catalogue as it is (three digits); the result is never worse than the catalogue's own values.
//! Left out: weights. A row counts as much as another, a ratio of a claim as much as a figure.

mod search;
mod stored;

pub use search::Search;
pub use stored::{StoredFit, StoredFitError, StoredParameter, StoredResidual};

use crate::claims::{ClaimPrediction, predict_claims};
use crate::papers::Paper;
use crate::predict::{PredictError, PredictOptions, PredictTask, Prediction, predict};
use raidlab_hardware::{Catalog, CatalogChange, CatalogError};
use serde::{Deserialize, Serialize};
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicBool, Ordering};

/// What may be fitted to a paper, and how long to search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FitMethod {
    /// Sets of values that are tried at most.
    pub trials: NonZeroU32,
    /// The free figures.
    pub parameters: Vec<FitParameter>,
}

/// A free figure of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FitParameter {
    /// Ids of the drives or controllers.
    pub entries: Vec<String>,
    /// Their keys, which all take the same value.
    pub keys: Vec<String>,
    /// What stands behind the number in the catalogue: `us`, `MB/s`; nothing for a plain number.
    #[serde(default)]
    pub unit: String,
    /// The least value.
    pub from: f64,
    /// The greatest value.
    pub to: f64,
    /// Whether it is a whole number.
    #[serde(default)]
    pub whole: bool,
    /// Ids of the rows and claims that it is to explain. All parameters are fitted to the rows of all.
    pub rows: Vec<String>,
}

impl FitParameter {
    /// The nearest value within the bounds that the catalogue can hold: three digits, or a whole number.
    pub fn rounded(&self, value: f64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let step = if value == 0.0 { 1.0 } else { 10f64.powf(value.abs().log10().floor() - 2.0) };
        let step = if self.whole { step.max(1.0) } else { step };
        // A power of ten below one is not exact, and its reciprocal is.
        let rounded = if step < 1.0 {
            (value * (1.0 / step).round()).round() / (1.0 / step).round()
        } else {
            (value / step).round() * step
        };
        rounded.clamp(self.from, self.to)
    }

    /// `value` as the catalogue writes it.
    pub fn written(&self, value: f64) -> String {
        if self.unit.is_empty() { format!("{value}") } else { format!("{value} {}", self.unit) }
    }

    /// The number in `text`, which the catalogue has.
    fn read(&self, text: &str) -> Option<f64> {
        text.strip_suffix(&self.unit)?.trim().parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// The catalogue's value, which all keys must have.
    ///
    /// # Errors
    /// [`FitError`] if there is none, or it is not in this unit, or keys differ.
    pub fn committed(&self) -> Result<f64, FitError> {
        let mut common = None;
        for (entry, key) in self.places() {
            let value = self.value_of(entry, key)?;
            if common.get_or_insert(value).total_cmp(&value).is_ne() {
                return Err(unusable(entry, key, "differs from the other keys of its parameter"));
            }
        }
        common.ok_or_else(|| unusable(&self.entries.concat(), "", "has no key"))
    }

    /// Every entry with every key.
    fn places(&self) -> impl Iterator<Item = (&String, &String)> {
        self.entries.iter().flat_map(|entry| self.keys.iter().map(move |key| (entry, key)))
    }

    /// What it is called in tables and messages.
    pub fn name(&self) -> String {
        format!("{}: {}", self.entries.join(", "), self.keys.join(", "))
    }

    fn value_of(&self, entry: &str, key: &str) -> Result<f64, FitError> {
        let text = Catalog::builtin_value(entry, key)?;
        self.read(&text).ok_or_else(|| unusable(entry, key, &format!("is '{text}', not in '{}'", self.unit)))
    }
}

fn unusable(entry: &str, key: &str, why: &str) -> FitError {
    FitError::Unusable { entry: entry.to_owned(), key: key.to_owned(), why: why.to_owned() }
}

/// Why there is no fit.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// The paper's study marks nothing as free.
    #[error("paper '{paper}' has nothing to fit: its study.toml has no [fit]")]
    NothingFree {
        /// The paper.
        paper: String,
    },
    /// A parameter can't be fitted as the study has it.
    #[error("{entry}: {key} {why}")]
    Unusable {
        /// Drive or controller.
        entry: String,
        /// The key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A parameter names rows that the paper lacks.
    #[error("paper '{paper}' has no row or claim '{row}', which its [fit] names")]
    UnknownRow {
        /// The paper.
        paper: String,
        /// The row.
        row: String,
    },
    /// The catalogue has no such figure.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A prediction failed.
    #[error(transparent)]
    Predict(#[from] PredictError),
}

/// What is told while a fit is under way.
#[derive(Clone, Copy, Debug)]
pub struct FitProgress {
    /// Sets of values tried, the present one not counted.
    pub trials: u32,
    /// Sets that are tried at most.
    pub trials_max: u32,
    /// Root of the mean square error of the best set so far, in percent; none before the first is known.
    pub best_error_pct: Option<f64>,
}

/// What a fit came to.
#[derive(Clone, Debug, PartialEq)]
pub struct FitOutcome {
    /// The values of the parameters in the catalogue, and the best ones found.
    pub values: Vec<(f64, f64)>,
    /// Root of the mean square error with the first ones and with the second ones, in percent.
    pub error_pct: (f64, f64),
    /// Sets of values tried.
    pub trials: u32,
    /// Whether the search came to its end, and was neither stopped nor out of trials.
    pub is_complete: bool,
    /// Whether it was stopped.
    pub was_stopped: bool,
    /// The figures with the catalogue's values, and with the best ones: of the fitted rows alone if the search was stopped.
    pub before: Figures,
    /// The same with the best values.
    pub after: Figures,
}

/// Everything predicted with one set of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// The rows, if there are any.
    pub rows: Option<Prediction>,
    /// The claims, if there are any.
    pub claims: Option<ClaimPrediction>,
}

/// A figure as published and as predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Residual {
    /// The row or claim.
    pub id: String,
    /// As published.
    pub published: f64,
    /// As predicted.
    pub predicted: f64,
    /// Whether the parameters are fitted to it.
    pub fitted: bool,
}

impl Residual {
    /// How far the prediction is off, in percent of the published figure.
    pub fn error_pct(&self) -> f64 {
        (self.predicted / self.published - 1.0) * 100.0
    }
}

impl Figures {
    /// All figures, those of rows first.
    pub fn residuals(&self, fitted: &[String]) -> Vec<Residual> {
        let rows = self
            .rows
            .iter()
            .flat_map(|prediction| &prediction.rows)
            .map(|row| (row.comparison.id.clone(), row.comparison.published, row.comparison.predicted));
        let claims = self.claims.iter().flat_map(|prediction| &prediction.claims);
        let claims = claims.map(|claim| (claim.row.id.clone(), claim.row.published, claim.row.predicted));
        let residual = |(id, published, predicted): (String, f64, f64)| Residual {
            fitted: fitted.contains(&id),
            id,
            published,
            predicted,
        };
        rows.chain(claims).map(residual).collect()
    }
}

/// Which figures of a paper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Those that the parameters are fitted to.
    Fitted,
    /// All.
    All,
}

/// A fit of one paper.
#[derive(Debug)]
pub struct Fit<'a> {
    paper: &'a Paper,
    method: &'a FitMethod,
    /// The rows and claims that the parameters are fitted to.
    fitted: Vec<String>,
    threads: NonZeroUsize,
}

impl<'a> Fit<'a> {
    /// A fit as the paper's study describes it.
    ///
    /// # Errors
    /// [`FitError`] if it describes none, or names rows that are not there.
    pub fn new(paper: &'a Paper, threads: NonZeroUsize) -> Result<Self, FitError> {
        let id = &paper.method.id;
        let method = paper.method.fit.as_ref().ok_or_else(|| FitError::NothingFree { paper: id.clone() })?;
        let mut fitted: Vec<String> = Vec::new();
        for row in method.parameters.iter().flat_map(|parameter| &parameter.rows) {
            let is_known = paper.rows.iter().any(|known| known.id == *row)
                || paper.claims.iter().any(|known| known.id == *row);
            if !is_known {
                return Err(FitError::UnknownRow { paper: id.clone(), row: row.clone() });
            }
            if !fitted.contains(row) {
                fitted.push(row.clone());
            }
        }
        Ok(Self { paper, method, fitted, threads })
    }

    /// What is free, as the study has it.
    pub fn method(&self) -> &FitMethod {
        self.method
    }

    /// The parameters.
    pub fn parameters(&self) -> &[FitParameter] {
        &self.method.parameters
    }

    /// The rows and claims that they are fitted to.
    pub fn fitted(&self) -> &[String] {
        &self.fitted
    }

    /// Searches, and predicts everything with the old values and with the best ones. Once `cancel` is set it ends with the
    /// best found so far, and predicts no further.
    ///
    /// # Errors
    /// [`FitError`]; [`PredictError::Cancelled`] if it was stopped before the catalogue's own values were tried.
    pub fn run(
        &self,
        trials_max: u32,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(FitProgress),
    ) -> Result<FitOutcome, FitError> {
        let committed = self.committed()?;
        let mut search = Search::new(&self.method.parameters, committed.clone(), trials_max);
        let mut first = None;
        while let Some(values) = search.next_trial() {
            let best_error_pct = search.best_error().map(percent);
            progress(FitProgress { trials: search.trials(), trials_max, best_error_pct });
            match self.predict(&values, Scope::Fitted, cancel) {
                Ok(figures) => {
                    search.take(self.mean_square(&figures));
                    first.get_or_insert(figures);
                }
                Err(FitError::Predict(PredictError::Cancelled)) if first.is_some() => break,
                Err(error) => return Err(error),
            }
        }
        let (values, error) = (search.best().to_vec(), search.best_error());
        let first = first.expect("the catalogue's values are tried first");
        let before_error = percent(self.mean_square(&first));
        let all = |values: &[f64]| self.predict(values, Scope::All, cancel);
        let before = all(&committed);
        // What is already known need not be simulated once more.
        let after = match &before {
            Ok(before) if values == committed => Ok(before.clone()),
            _ => all(&values),
        };
        let (before, after) = match (before, after) {
            (Ok(before), Ok(after)) => (before, after),
            // Stopped: the fitted rows are known, with the catalogue's values at least.
            _ => (first.clone(), self.predict(&values, Scope::Fitted, &AtomicBool::new(false))?),
        };
        Ok(FitOutcome {
            values: committed.into_iter().zip(values).collect(),
            error_pct: (before_error, error.map_or(before_error, percent)),
            trials: search.trials(),
            is_complete: search.is_complete(),
            was_stopped: cancel.load(Ordering::Relaxed),
            before,
            after,
        })
    }

    /// The catalogue's values.
    fn committed(&self) -> Result<Vec<f64>, FitError> {
        self.method.parameters.iter().map(FitParameter::committed).collect()
    }

    fn changes(&self, values: &[f64]) -> Vec<CatalogChange> {
        let parameters = self.method.parameters.iter().zip(values);
        let changes = parameters.flat_map(|(parameter, value)| {
            let value = parameter.written(*value);
            let change = move |(entry, key): (&String, &String)| CatalogChange {
                entry: entry.clone(),
                key: key.clone(),
                value: value.clone(),
            };
            parameter.places().map(change)
        });
        changes.collect()
    }

    fn predict(&self, values: &[f64], scope: Scope, cancel: &AtomicBool) -> Result<Figures, FitError> {
        let catalog = Catalog::builtin_with(&self.changes(values))?;
        let wanted = |id: &String| scope == Scope::All || self.fitted.contains(id);
        let rows: Vec<_> = self.paper.rows.iter().filter(|row| wanted(&row.id)).cloned().collect();
        let claims: Vec<_> = self.paper.claims.iter().filter(|claim| wanted(&claim.id)).cloned().collect();
        let task = PredictTask {
            file: &self.paper.method.id,
            rows: &rows,
            fitted_rows: &self.paper.method.fitted_rows,
            options: PredictOptions::from(&self.paper.method),
            catalog: &catalog,
            threads: self.threads,
        };
        let rows = (!rows.is_empty()).then(|| predict(&task, cancel, &mut |_, _| {})).transpose()?;
        let method = self.paper.method.claims.as_ref().filter(|_| !claims.is_empty());
        let claims = method.map(|method| predict_claims(&task, &claims, method, cancel, &mut |_, _| {}));
        Ok(Figures { rows, claims: claims.transpose()? })
    }

    /// The mean square of the logarithms of predicted over published, of the fitted rows.
    fn mean_square(&self, figures: &Figures) -> f64 {
        // A drive that serves nothing at all is a thousand times too slow, and not infinitely.
        const LEAST: f64 = 1e-3;
        let fitted = figures.residuals(&self.fitted).into_iter().filter(|residual| residual.fitted);
        let squares: Vec<f64> = fitted
            .map(|residual| (residual.predicted / residual.published).max(LEAST).ln().powi(2))
            .collect();
        squares.iter().sum::<f64>() / squares.len().max(1) as f64
    }
}

/// A mean square of logarithms as an error in percent.
fn percent(mean_square: f64) -> f64 {
    mean_square.sqrt() * 100.0
}

#[cfg(test)]
mod tests;
