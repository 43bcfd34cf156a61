//! The laboratory: studies (matrices of runs), the results store, published figures and predictions of them.
//!
//! ```text
//! study.toml ─► Study ─► run_study ─► worlds::{file, array, simulated} ─► RunResult ─► Store (SQLite)
//! published.csv ─► PublishedRow ─► predict ─► worlds::simulated ─► Comparison
//! ```
//! Nothing here knows how results are shown: whoever calls gets [`raidlab_workload::RunResult`]s, and events through
//! a [`StudyObserver`] while they come about. Every run carries the effective configuration and the
//! [`Environment`] it ran in.
#![forbid(unsafe_code)]

mod array_file;
mod arrays;
mod beside;
mod cache;
mod claims;
mod controllers;
mod corrections;
pub mod describe;
pub mod doctor;
mod ends;
mod environment;
mod find_load;
mod fit;
mod load;
mod machine;
mod matrix_run;
mod outcomes;
mod papers;
pub mod planning;
mod predict;
mod published;
mod read_off;
pub mod reliability;
mod replay;
mod rounds;
mod runner;
mod scratch;
mod settle;
mod store;
mod study;
pub mod sweep;
mod text_file;
pub mod worlds;

pub use array_file::{ArrayFile, ArrayFileError, condition_of};
pub use arrays::{
    ArrayThreads, ModelledArray, ModelledSettings, Models, Parts, RegionTooLarge, SoftwareArray,
    UnknownParts, array_facts, member_cache,
};
pub use cache::{CacheSettings, SOFTWARE_CACHE, STAGING_SIZE, io_policy_name, read_policy_name};
pub use claims::{
    Against, CLAIM_COLUMNS, Choice, Claim, ClaimMethod, ClaimPart, ClaimPrediction, ClaimSide, ClaimWorkload,
    PredictedClaim, WorkloadPair, parse_claims, predict_claims, read_claims,
};
pub use controllers::{
    ControllerSettings, ControllersError, MirrorLink, ModelledControllers, ModelledSecond, Owner,
};
pub use corrections::{DriveCorrection, drive_corrections};
pub use ends::{Ends, Estimates};
pub use environment::{DeviceFacts, Environment, FilesystemFacts};
pub use find_load::{Certainty, FindMethod, FindOrder, FoundLoad, LoadUnit, Repeats, find_load};
pub use fit::{
    BeforeAfter, Fit, FitEffort, FitError, FitFile, FitFileParameter, FitParameter, FitParameterError,
    FitProgress, FitTask, FittedKey, FittedParameter, Residual, StoredFigure, StoredFit, StoredFitError,
    StoredResidual, fit, parse_fit_file,
};
pub use load::{Load, LoadPlan, RUN_TO_THE_END, WorkloadError, find_workload, varied};
pub use matrix_run::{ForeignRow, KnownLimits, MatrixLimits, MatrixPlace, MatrixPlan, matrix_row};
pub use outcomes::{claim_runs, predicted_runs, risk_run, soak_run};
pub use papers::{Method, MetricCorrection, NotStated, Paper, PaperError, paper_ids};
pub use predict::{
    FittedFigure, PredictError, PredictOptions, PredictTask, PredictedConfiguration, PredictedRow,
    Prediction, predict,
};
pub use published::{
    COLUMNS, MatrixRow, PublishedError, PublishedMetric, PublishedRow, RowProblem, matrix_header,
    parse_published, read_matrix, read_published,
};
pub use raidlab_advisor::{Bound, BoundError};
pub use read_off::{LoadPoint, ReadOff};
pub use replay::{ReplayOrder, ReplayOrderError, default_iodepth};
pub use rounds::{ROUNDS_MAX, SteadyRounds, until_steady};
pub use runner::{RunOptions, StudyError, StudyEvent, StudyObserver, StudyOutcome, run_study};
pub use scratch::ScratchError;
pub use store::{
    Archive, ArchiveError, FinishedRun, ForeignStudy, Imported, RunFilter, RunLine, RunSelector,
    RunSelectorError, Store, StoreError, StoredRun, StoredStudy, StudyEnd, StudyRunHead, StudyRunId,
};
pub use study::{ArraySection, MeasureSection, SimulateSection, Study, StudyChanges, StudyFileError};
pub use text_file::{TextFileError, read_foreign_text, read_text};
