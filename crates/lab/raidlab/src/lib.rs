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
//! | [`plan()`], [`PlanOrder`] | which arrays serve applications best |
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
pub mod results;
mod simulation;
mod sweep;

pub use array::Array;
pub use facts::{LineFacts, PartFacts, WorkloadFacts};
pub use own_fit::{FitOfRuns, FitOfRunsError, FitOfRunsTask, FittedRun, FittedTo, Untold, fit_runs};
pub use simulation::{SetupError, SimulateError, Simulation, WINDOW_DEFAULT, Window, simulate};
pub use sweep::{Sweep, SweepError, SweepOptions, SweepRun};

pub use raidlab_advisor::plan::{Goal, Growth, Needs, OwnNeeds, Space};
pub use raidlab_advisor::risk::{FieldCount, RiskError, RiskReport};
pub use raidlab_advisor::{Bound, BoundError};
pub use raidlab_controller::{
    ArrayConfig, ArrayRules, CacheConfig, CacheMemory, ConfigError, FlushOrder, IoPolicy, MemberCache,
    MetadataPolicy, ReadPolicy, Resilience, WritePolicy,
};
pub use raidlab_hardware::{
    Catalog, CatalogChange, CatalogEntry, CatalogError, CatalogFile, DriveHistory, DriveModel, DriveOp,
    DriveRequest, FigureSource, OwnDrive, OwnDriveModel, Sector, SectorCount, YearRange, md_setting_key,
    nearest,
};
pub use raidlab_hosts::{Hosts, HostsError};
pub use raidlab_planning::reliability::{CheckDays, RebuildRate};
pub use raidlab_planning::{
    Application, AskedFigure, Cause, ComparedRun, DoneFigure, ExplainError, Explanation, Finding, Have,
    HaveError, OwnHardware, PartPrice, PlanError, PlanOrder, PlanOutcome, Planned, Prediction,
    PredictionError, PriceError, Prices, RiskQuery, RiskQueryError, Trial, default_history, default_levels,
    default_settings,
};
pub use raidlab_raid::{Layout, LayoutError, Level, LevelVariant, MirrorLayout, ParityRotation};
pub use raidlab_sim::{FileAccess, SimError};
pub use raidlab_units::{BlockSize, ByteCount, BytesPerSec, NanoSpan, Nanos};
pub use raidlab_workload::{AccessLine, AccessSpec, Metric, RunResult as Run, Workload, builtin_workloads};
pub use raidlab_worlds::{
    ArrayFile, ArrayFileError, CacheSettings, ControllerSettings, Load, MirrorLink, ModelledArray, Models,
    OwnIodepths, Owner, WorkloadError,
    simulated::{LoadsError, SimulatedError},
};

/// Searches for the arrays that serve applications best.
///
/// ```
/// use raidlab::{
///     Application, ByteCount, Catalog, Have, Hosts, Needs, PlanOrder, Prices, Space, YearRange, default_settings, plan, workload,
/// };
///
/// let [drives, controllers, enclosures] = ["st3600057ss", "perc-h800", "md1200"].map(|id| [id.to_owned()]);
/// let order = PlanOrder {
///     catalog: &Catalog::builtin(),
///     prices: &Prices::default(),
///     needs: Needs { usable: ByteCount::from_gib(500), survive: 1, iops: Some(500.0), ..Needs::default() },
///     applications: &[Application::new(workload("md1200-oltp")?, 16)],
///     together: false,
///     era: YearRange::default(),
///     drives: &drives,
///     kinds: &[],
///     have: &Have::default(),
///     controllers: &controllers,
///     enclosures: &enclosures,
///     space: Space {
///         levels: vec!["10".parse()?],
///         members_min: 2,
///         members_max: 8,
///         enclosures_max: 1,
///         spares: vec![0],
///         settings: default_settings(&[]),
///         allows_volatile: false,
///     },
///     simulations_max: Some(1),
///     top: 1,
///     threads: None,
///     seed: 1,
/// };
/// let found = plan(&order, &mut Hosts::alone(), &mut || true, &mut |_, _| {})?;
/// println!("{}", found.top[0].label);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use raidlab_planning::plan;

/// Tells how likely an array loses data.
///
/// ```
/// use raidlab::{Catalog, RiskQuery, risk};
///
/// let catalog = Catalog::builtin();
/// let report = risk(&RiskQuery::new("6".parse()?, 8), Some(catalog.drive("exos-x24-24tb")?))?;
/// assert!(report.markov.per_year < 0.01);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use raidlab_planning::risk;

/// Tells which assumption of a prediction measured runs show to be wrong.
///
/// ```
/// use raidlab::{Array, Catalog, CatalogChange, NanoSpan, OwnHardware, Prediction, Simulation, Window, explain, workload};
///
/// let array = Array::new("jbod".parse()?, 1, "generic-nvme", "linux-md-nvme");
/// let window = Window { ramp: NanoSpan::from_millis(20), run: NanoSpan::from_millis(200), settles: false, ..Window::default() };
/// let load = window.iodepth(4).load(&workload("storagebench-database")?);
/// let predicted = Simulation::new(&Catalog::builtin(), array.clone())?.run(&load, None)?;
/// // In place of a measured one: a drive that takes longer to read than its entry says.
/// let slow = CatalogChange { entry: "generic-nvme".into(), key: "host.read_latency".into(), value: "90 us".into(), source: None };
/// let measured = Simulation::new(&Catalog::with(&[], &[slow])?, array.clone())?.run(&load, None)?;
///
/// let prediction = Prediction::new(array.into(), [&load], OwnHardware::default());
/// let explanation = explain(&prediction, &[predicted], &[measured], None, &mut |_| {})?;
/// assert!(!explanation.trials.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use raidlab_planning::explain;

/// A published evaluation, to be predicted and compared.
///
/// ```
/// use raidlab::{Catalog, Hosts, NanoSpan, PredictChanges, Reproduction};
/// use std::{num::NonZeroUsize, sync::atomic::AtomicBool};
///
/// let short = PredictChanges { ramp: Some(NanoSpan::from_secs(1)), run: Some(NanoSpan::from_secs(2)), ..PredictChanges::default() };
/// let mut paper = Reproduction::of_paper("md1200-2011", None)?.with(&short);
/// paper.rows.truncate(2);
/// paper.claims.clear();
/// let how = (&mut Hosts::alone(), NonZeroUsize::MIN, false);
/// let reproduced = paper.predict(&Catalog::builtin(), how, &AtomicBool::new(false), &mut |_, _| {})?;
/// let prediction = reproduced.prediction.expect("it has figures");
/// assert_eq!(prediction.rows.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub use raidlab_papers::Reproduction;
pub use raidlab_papers::{PredictChanges, PredictError, Reproduced, ReproductionError};

use std::path::Path;

/// The workload called `name`: a built-in one by its full or short name, or the file of that path if it ends in `.toml`.
///
/// ```
/// let oltp = raidlab::workload("md1200-oltp")?;
/// assert_eq!(oltp.spec.lines[0].bytes, 8192);
/// assert!(raidlab::workload("md1200-oltb").is_err_and(|error| error.to_string().contains("did you mean")));
/// # Ok::<(), raidlab::WorkloadError>(())
/// ```
///
/// # Errors
/// [`WorkloadError`] says what may have been meant, or what is wrong in the file and where.
pub fn workload(name: &str) -> Result<Workload, WorkloadError> {
    raidlab_worlds::find_workload(name, Path::new(""))
}
