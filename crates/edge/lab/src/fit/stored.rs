//! A fit as it is kept: beside the study of its paper, as `fit.toml`, where the catalogue's fitted figures come from.
//!
//! It holds the values with their bounds, and of every row and claim what was published and what was predicted with them.
//! [`StoredFit::check`] proves that the catalogue has these very values.

use super::{FitError, FitMethod, FitOutcome, FitParameter};
use raidlab_workload::toml_file::{self, TomlFileError};
use serde::{Deserialize, Serialize};

/// Version of the form of the file.
const SCHEMA: u32 = 1;

/// A kept fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoredFit {
    /// Version of the form of the file.
    pub schema: u32,
    /// The paper.
    pub paper: String,
    /// Seed of everything random.
    pub seed: u64,
    /// Sets of values that were tried.
    pub trials: u32,
    /// Whether the search came to its end.
    pub is_complete: bool,
    /// Root of the mean square error over the fitted rows with the values from before, in percent.
    pub error_before_pct: f64,
    /// The same with the values found.
    pub error_pct: f64,
    /// The values.
    pub parameters: Vec<StoredParameter>,
    /// Every row and claim that was predicted with them.
    pub residuals: Vec<StoredResidual>,
}

/// A fitted figure of the catalogue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoredParameter {
    /// Ids of the drives or controllers.
    pub entries: Vec<String>,
    /// Their keys, which all have this value.
    pub keys: Vec<String>,
    /// The value, as the catalogue writes it.
    pub value: String,
    /// What it was before.
    pub before: String,
}

/// How far off a figure is with the values found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StoredResidual {
    /// The row or claim.
    pub id: String,
    /// As published.
    pub published: f64,
    /// As predicted.
    pub predicted: f64,
    /// In percent of what was published.
    pub error_pct: f64,
    /// Whether the values were fitted to it.
    pub fitted: bool,
}

/// Why a kept fit is not what the catalogue's figures come from.
#[derive(Debug, thiserror::Error)]
pub enum StoredFitError {
    /// The file is wrong.
    #[error(transparent)]
    File(#[from] TomlFileError),
    /// A parameter of the study can't be compared.
    #[error(transparent)]
    Parameter(#[from] FitError),
    /// The fit is of other parameters than the study has.
    #[error("the fit has not the parameters of the study: {what}")]
    OtherParameters {
        /// What differs.
        what: String,
    },
    /// The catalogue has another value.
    #[error("{parameter} is {committed} in the catalogue, and the fit has {stored}")]
    Differs {
        /// Entries and keys.
        parameter: String,
        /// In the catalogue.
        committed: String,
        /// In the fit.
        stored: String,
    },
    /// A row that was fitted to is not among those of the study, or the other way round.
    #[error("the fit was made to other rows than the study says: {row}")]
    OtherRows {
        /// A row of one and not of the other.
        row: String,
    },
}

impl StoredFit {
    /// What to keep of `outcome`.
    pub fn of(paper: &str, seed: u64, method: &FitMethod, fitted: &[String], outcome: &FitOutcome) -> Self {
        let parameter = |(parameter, (before, after)): (&FitParameter, &(f64, f64))| StoredParameter {
            entries: parameter.entries.clone(),
            keys: parameter.keys.clone(),
            value: parameter.written(*after),
            before: parameter.written(*before),
        };
        let residuals = outcome.after.residuals(fitted).into_iter();
        Self {
            schema: SCHEMA,
            paper: paper.to_owned(),
            seed,
            trials: outcome.trials,
            is_complete: outcome.is_complete,
            error_before_pct: hundredths(outcome.error_pct.0),
            error_pct: hundredths(outcome.error_pct.1),
            parameters: method.parameters.iter().zip(&outcome.values).map(parameter).collect(),
            residuals: residuals
                .map(|residual| StoredResidual {
                    error_pct: hundredths(residual.error_pct()),
                    id: residual.id,
                    published: residual.published,
                    predicted: hundredths(residual.predicted),
                    fitted: residual.fitted,
                })
                .collect(),
        }
    }

    /// Reads `text`, the contents of `file`.
    ///
    /// # Errors
    /// [`TomlFileError`] names line and key.
    pub fn parse(file: &str, text: &str) -> Result<Self, TomlFileError> {
        toml_file::parse(file, text, SCHEMA)
    }

    /// The file's text.
    pub fn to_toml(&self) -> String {
        let head = format!(
            "# What 'raidlab fit {}' found; the catalogue has these values ('raidlab fit {} --check').\n",
            self.paper, self.paper
        );
        head + &toml::to_string(self).expect("numbers and texts can be written as TOML")
    }

    /// Proves that the catalogue has the values of this fit, and that it is one of what `method` has free, to the rows that
    /// it names.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, method: &FitMethod) -> Result<(), StoredFitError> {
        if self.parameters.len() != method.parameters.len() {
            let what = format!("{} of them, not {}", self.parameters.len(), method.parameters.len());
            return Err(StoredFitError::OtherParameters { what });
        }
        for (stored, parameter) in self.parameters.iter().zip(&method.parameters) {
            if (&stored.entries, &stored.keys) != (&parameter.entries, &parameter.keys) {
                return Err(StoredFitError::OtherParameters { what: parameter.name() });
            }
            let committed = parameter.written(parameter.committed()?);
            if committed != stored.value {
                let (parameter, stored) = (parameter.name(), stored.value.clone());
                return Err(StoredFitError::Differs { parameter, committed, stored });
            }
        }
        let of_study: Vec<&String> = method.parameters.iter().flat_map(|parameter| &parameter.rows).collect();
        let here =
            |row: &String| self.residuals.iter().any(|residual| residual.fitted && residual.id == *row);
        let missing = of_study.iter().find(|row| !here(row)).map(|row| (*row).clone());
        let fitted = self.residuals.iter().filter(|residual| residual.fitted).map(|residual| &residual.id);
        let surplus = fitted.into_iter().find(|row| !of_study.contains(row)).cloned();
        match missing.or(surplus) {
            Some(row) => Err(StoredFitError::OtherRows { row }),
            None => Ok(()),
        }
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
