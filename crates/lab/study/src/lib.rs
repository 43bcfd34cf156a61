//! Reads study files and does their runs: on real storage in rounds, one run at a time, then the simulations in
//! parallel. Each run is stored as soon as it ends.
//!
//! ```text
//! study.toml ─► Study ─► run_study ─► raidlab_worlds::{file, array, simulated} ─► RunResult ─► Store (SQLite)
//! ```
//! Nothing here knows how results are shown: the caller gets [`raidlab_workload::RunResult`]s, and events through a
//! [`StudyObserver`] during the run. Every run carries the effective configuration and the
//! [`raidlab_machine::Environment`] it ran in.
#![forbid(unsafe_code)]

pub mod describe;
mod outcomes;
mod runner;
mod study;

pub use outcomes::{claim_runs, predicted_runs, risk_run, soak_run};
pub use runner::{RunOptions, StudyError, StudyEvent, StudyObserver, StudyOutcome, run_study};
pub use study::{ArraySection, MeasureSection, SimulateSection, Study, StudyChanges, StudyFileError};
