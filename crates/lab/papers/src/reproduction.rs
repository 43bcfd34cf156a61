//! A published evaluation, or figures of a file, with all that their prediction needs, and what it came to.

use crate::claims::{Claim, ClaimPrediction, predict_claims, read_claims};
use crate::papers::{Method, MetricCorrection, Paper, PaperError};
use crate::predict::{PredictError, PredictOptions, PredictTask, Prediction, predict};
use crate::published::{PublishedError, PublishedRow, read_published};
use raidlab_hardware::Catalog;
use raidlab_hosts::Hosts;
use raidlab_units::{ByteCount, NanoSpan};
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Settings of files whose systems no paper measured.
const FILE_OPTIONS: PredictOptions = PredictOptions {
    strip_size: None,
    drives_per_volume: None,
    ramp: NanoSpan::from_secs(300),
    ramp_write_through: NanoSpan::from_secs(5),
    run: NanoSpan::from_secs(20),
    seed: 1,
};

/// What is other than the paper has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictChanges {
    /// Length of a strip.
    pub strip_size: Option<ByteCount>,
    /// Virtual time before each measured window.
    pub ramp: Option<NanoSpan>,
    /// Length of each measured window in virtual time.
    pub run: Option<NanoSpan>,
    /// Seed of everything random.
    pub seed: Option<u64>,
}

/// Why there are no figures to predict.
#[derive(Debug, thiserror::Error)]
pub enum ReproductionError {
    /// There is no such paper or table.
    #[error(transparent)]
    Paper(#[from] PaperError),
    /// The file can't be read.
    #[error(transparent)]
    Published(#[from] PublishedError),
    /// The file has no claims of the paper.
    #[error("{path} holds no claims of paper '{paper}'")]
    NoClaims {
        /// The file.
        path: String,
        /// Id of the paper.
        paper: String,
    },
    /// The paper has no claims.
    #[error("nothing is known of how the claims of paper '{paper}' were measured")]
    UnknownMethod {
        /// Id of the paper.
        paper: String,
    },
}

/// Figures and claims, and how they are to be predicted.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Reproduction {
    /// Name of the figures' file.
    pub file: String,
    /// How they were measured, if that is known.
    pub method: Option<Method>,
    /// Where the figures count something else than their metric says.
    pub corrections: Vec<MetricCorrection>,
    /// Ids of the papers that figures of a file are taken as the figures of.
    pub papers: Vec<String>,
    /// How they are simulated where they say nothing themselves.
    pub options: PredictOptions,
    /// The figures.
    #[serde(skip)]
    pub rows: Vec<PublishedRow>,
    /// Name of the claims' file.
    #[serde(skip)]
    pub claims_file: String,
    /// The claims.
    #[serde(skip)]
    pub claims: Vec<Claim>,
    /// Ids of rows that the model was fitted to, whether they are among these or not.
    #[serde(skip)]
    pub fitted_rows: Vec<String>,
}

/// What predictions came to beside what was published.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Reproduced<'a> {
    /// What was predicted.
    #[serde(flatten)]
    pub of: &'a Reproduction,
    /// The figures, if there are any.
    #[serde(flatten)]
    pub prediction: Option<Prediction>,
    /// Name of the claims' file, if there are claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims_file: Option<&'a str>,
    /// The claims, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<ClaimPrediction>,
}

impl Reproduction {
    /// The figures and claims of a paper that is built in, by its id; of one `table` if that is named.
    ///
    /// # Errors
    /// [`ReproductionError::Paper`] if there is no such paper or table.
    pub fn of_paper(id: &str, table: Option<&str>) -> Result<Self, ReproductionError> {
        let mut paper = Paper::builtin(id)?;
        if let Some(table) = table {
            paper.keep_table(table)?;
        }
        let stands = |correction: &&MetricCorrection| paper.places().contains(&correction.place.as_str());
        Ok(Self {
            file: format!("papers/{id}/published.csv"),
            corrections: paper.method.corrections.iter().filter(stands).cloned().collect(),
            papers: Vec::new(),
            options: PredictOptions::from(&paper.method),
            claims_file: format!("papers/{id}/claims.csv"),
            fitted_rows: paper.method.fitted_rows.clone(),
            rows: paper.rows,
            claims: paper.claims,
            method: Some(paper.method),
        })
    }

    /// The claims of a paper that stand in the file at `path`, instead of its own figures and claims.
    ///
    /// # Errors
    /// [`ReproductionError`]: no such paper, a file that can't be read or has none of its claims, or a paper of which nothing is known
    /// about claims.
    pub fn of_claims(id: &str, path: &Path) -> Result<Self, ReproductionError> {
        let own = Self::of_paper(id, None)?;
        let mut claims = read_claims(path)?;
        claims.retain(|claim| claim.paper == id);
        if claims.is_empty() {
            return Err(ReproductionError::NoClaims { path: path.display().to_string(), paper: id.into() });
        }
        if own.method.as_ref().is_none_or(|method| method.claims.is_none()) {
            return Err(ReproductionError::UnknownMethod { paper: id.into() });
        }
        let claims_file = path.display().to_string();
        Ok(Self { claims, claims_file, rows: Vec::new(), corrections: Vec::new(), ..own })
    }

    /// The figures of a file, simulated as those of the paper `id`; without it each as those of the paper that has its system or
    /// workload.
    ///
    /// # Errors
    /// [`ReproductionError`]: the file can't be read, or there is no such paper.
    pub fn of_file(path: &Path, id: Option<&str>) -> Result<Self, ReproductionError> {
        let mut rows = read_published(path)?;
        let adopted = Paper::adopt(&mut rows, id)?;
        let options = match &adopted.papers[..] {
            [method] if adopted.strays == 0 => PredictOptions::from(method),
            _ => FILE_OPTIONS,
        };
        Ok(Self {
            file: path.display().to_string(),
            method: None,
            corrections: adopted.corrections,
            papers: adopted.papers.into_iter().map(|method| method.id).collect(),
            options,
            rows,
            claims_file: String::new(),
            claims: Vec::new(),
            // A row keeps its id when it is copied out of a paper's file, and it was fitted to all the same.
            fitted_rows: Paper::all_fitted_rows()?,
        })
    }

    /// The same with changed settings.
    #[must_use]
    pub fn with(mut self, changes: &PredictChanges) -> Self {
        let of_rows = self.rows.iter_mut().filter_map(|row| row.options.as_mut());
        for options in core::iter::once(&mut self.options).chain(of_rows) {
            options.strip_size = changes.strip_size.or(options.strip_size);
            options.ramp = changes.ramp.unwrap_or(options.ramp);
            options.ramp_write_through = changes.ramp.unwrap_or(options.ramp_write_through);
            options.run = changes.run.unwrap_or(options.run);
            options.seed = changes.seed.unwrap_or(options.seed);
        }
        self
    }

    /// Predicts the figures, if there are any, and the claims, if there are any, with the hardware of `catalog` on up to `threads`
    /// threads of each of `hosts`, and finds out what set the pace if that is asked for. `progress` is told how many configurations are
    /// done, and of how many.
    ///
    /// # Errors
    /// [`PredictError`]: rows that name what is not known, `cancel`, or a host that is lost.
    pub fn predict(
        &self,
        catalog: &Catalog,
        (hosts, threads, finds_bottleneck): (&mut Hosts, NonZeroUsize, bool),
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Reproduced<'_>, PredictError> {
        let task = PredictTask {
            file: &self.file,
            rows: &self.rows,
            fitted_rows: &self.fitted_rows,
            options: self.options,
            catalog,
            threads,
            finds_bottleneck,
        };
        let rows = (!self.rows.is_empty()).then(|| predict(&task, hosts, cancel, progress));
        let prediction = rows.transpose()?;
        let method = self.method.as_ref().and_then(|method| method.claims.as_ref());
        let method = method.filter(|_| !self.claims.is_empty());
        let task = PredictTask { file: &self.claims_file, ..task };
        let claims =
            method.map(|method| predict_claims(&task, &self.claims, method, (hosts, cancel), progress));
        let claims = claims.transpose()?;
        let claims_file = claims.as_ref().map(|_| self.claims_file.as_str());
        Ok(Reproduced { of: self, prediction, claims_file, claims })
    }
}
