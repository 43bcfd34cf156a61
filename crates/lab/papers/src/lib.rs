//! Published evaluations: their measurements and claims, predictions of them, and fits of models to them.
//!
//! ```
//! use raidlab_papers::{Paper, paper_ids};
//!
//! for id in paper_ids() {
//!     let paper = Paper::builtin(id)?;
//!     println!("{id}: {} figures, {} claims", paper.rows.len(), paper.claims.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! published.csv ─► PublishedRow ─► predict ─► raidlab_worlds::simulated ─► Comparison
//! ```
#![forbid(unsafe_code)]

mod claims;
mod compared;
mod fit;
mod matrix_run;
mod papers;
mod predict;
mod published;
mod reproduction;
mod training;

pub use claims::{
    Against, CLAIM_COLUMNS, Choice, Claim, ClaimMethod, ClaimPart, ClaimPrediction, ClaimSide, ClaimWorkload,
    PredictedClaim, WorkloadPair, parse_claims, predict_claims, read_claims,
};
pub use fit::{
    BeforeAfter, Fit, FitEffort, FitError, FitFile, FitFileParameter, FitParameter, FitParameterError,
    FitProgress, FitTask, FittedKey, FittedParameter, Residual, StoredFit, StoredFitError, StoredResidual,
    fit, parse_fit_file,
};
pub use matrix_run::{ForeignRow, KnownLimits, MatrixLimits, MatrixPlace, MatrixPlan, matrix_row};
pub use papers::{Method, MetricCorrection, NotStated, Paper, PaperError, paper_ids};
pub use predict::{
    FittedFigure, PredictError, PredictOptions, PredictTask, PredictedConfiguration, PredictedRow,
    Prediction, predict,
};
pub use published::{
    COLUMNS, MatrixRow, PublishedError, PublishedMetric, PublishedRow, RowProblem, matrix_header,
    parse_published, read_matrix, read_published,
};
pub use reproduction::{PredictChanges, Reproduced, Reproduction, ReproductionError};
pub use training::{
    HostFigures, TRAINING_ID, TrainingError, TrainingFigures, TrainingPoint, TrainingPrediction,
    TrainingReproduction, TrainingRow, builtin_training, host_figures, is_training, parse_training,
    predict_training, training_method,
};
