//! A laboratory for storage arrays: which array serves an application, how fast one is that you do not own, how likely it loses data,
//! and how far such answers can be trusted.
//!
//! ```
//! use raidlab::{Array, Catalog, Window, simulate, workload};
//!
//! let catalog = Catalog::builtin();
//! let array = Array::new("6".parse()?, 12, "exos-x24-24tb", "linux-md");
//! let run = simulate(&catalog, array, &workload("storagebench-streaming")?, &Window::default().iodepth(32))?;
//! println!("{} requests/s, {:.2} ms", run.ops.total.iops, run.ops.total.lat_ns_mean / 1e6);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | noun | what it is |
//! |---|---|
//! | [`Catalog`] | drives, controllers, enclosures, hosts: built in, and your own entries |
//! | [`Array`] | an array of catalogue parts, with its settings |
//! | [`Workload`] | what an application asks: built in ([`workload`]), or from a file |
//! | [`Run`] | what a run came to, with every effective setting |
//! | [`simulate`], [`Simulation`] | one array under loads |
//! | [`Sweep`] | many arrays under many loads |
//! | [`plan()`] | which arrays serve applications best |
//! | [`Prediction`], [`explain()`] | what was predicted, kept, and which assumption of it measured runs show to be wrong |
//! | [`fit_runs`] | figures of the catalogue fitted to runs of your own, with intervals |
//! | [`risk()`] | how likely an array loses data |
//! | [`Reproduction`] | published evaluations, predicted and compared |
//!
//! Everything here is simulated: no device is touched, and one seed gives one answer on any machine. What is real (files, devices, served
//! arrays) is the program's, `raidlab`. Errors are enums with fields, in the words of the command line.
#![forbid(unsafe_code)]

mod array;
mod facts;
mod own_fit;
mod simulation;
mod sweep;

pub use array::Array;
pub use facts::{LineFacts, PartFacts, WorkloadFacts};
pub use own_fit::{FitOfRuns, FitOfRunsError, FitOfRunsTask, FittedRun, FittedTo, Untold, fit_runs};
pub use simulation::{SetupError, SimulateError, Simulation, WINDOW_DEFAULT, Window, simulate};
pub use sweep::{Sweep, SweepError, SweepOptions, SweepRun};

pub use raidlab_advisor::risk::{FieldCount, RiskError, RiskReport};
pub use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, ConfigError, IoPolicy, MemberCache, MetadataPolicy, ReadPolicy,
    Resilience, WritePolicy,
};
pub use raidlab_hardware::{
    Catalog, CatalogChange, CatalogEntry, CatalogError, CatalogFile, DriveHistory, DriveModel, DriveOp,
    DriveRequest, FigureSource, OwnDrive, OwnDriveModel, Sector, SectorCount, YearRange, md_setting_key,
    nearest,
};
pub use raidlab_hosts::Hosts;
pub use raidlab_papers::{PredictChanges, PredictError, Reproduced, Reproduction, ReproductionError};
pub use raidlab_planning::reliability::{CheckDays, RebuildRate};
pub use raidlab_planning::{
    AskedFigure, Cause, ComparedRun, DoneFigure, ExplainError, Explanation, Finding, OwnHardware, Prediction,
    PredictionError, RiskQuery, RiskQueryError, Trial, explain, plan, risk,
};
pub use raidlab_raid::LevelVariant;
pub use raidlab_sim::{FileAccess, SimError};
pub use raidlab_units::{ByteCount, NanoSpan};
pub use raidlab_workload::{RunResult as Run, Workload, builtin_workloads};
pub use raidlab_worlds::{
    ArrayFile, ArrayFileError, CacheSettings, ControllerSettings, Load, OwnIodepths, Owner, WorkloadError,
    simulated::{LoadsError, SimulatedError},
};

use std::path::Path;

/// The workload called `name`: a built-in one by its full or short name, or the file of that path if it ends in `.toml`.
///
/// # Errors
/// [`WorkloadError`] says what may have been meant, or what is wrong in the file and where.
pub fn workload(name: &str) -> Result<Workload, WorkloadError> {
    raidlab_worlds::find_workload(name, Path::new(""))
}
