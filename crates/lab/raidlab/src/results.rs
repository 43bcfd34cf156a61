//! What answers and errors of this crate hold: the types of their fields, for programs that name them.
//!
//! ```
//! use raidlab::{Catalog, RiskQuery, results::LossChance, risk};
//!
//! fn percent(chance: &LossChance) -> f64 {
//!     chance.per_year * 100.0
//! }
//!
//! let report = risk(&RiskQuery::new("1".parse()?, 2), Some(Catalog::builtin().drive("exos-x24-24tb")?))?;
//! assert!(percent(&report.markov) < 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use raidlab_advisor::plan::{
    AtRisk, Geometry, Judged, LatencyTail, Life, Margins, Need, ParetoPoint, Performance, Rejection,
    Relaxation, Role, Settings,
};
pub use raidlab_advisor::risk::{
    DrawnChance, EnduranceReport, FleetRisk, LossChance, Ranged, RebuildPace, RiskRange, RiskSpec,
};
pub use raidlab_advisor::{Comparison, ComparisonSummary, PlaceSummary};
pub use raidlab_hardware::{
    ControllerModel, DriveCondition, DriveKind, EnclosureModel, LinkModel, NoCondition, Reliability,
    SheetFigure,
};
pub use raidlab_papers::{
    Claim, ClaimPrediction, FitParameterError, FittedFigure, Method, MetricCorrection, PaperError,
    PredictOptions, PredictedConfiguration, PredictedRow, Prediction as PaperPrediction, PublishedError,
    PublishedRow,
};
pub use raidlab_planning::{
    Alternative, DriveLife, Kind, MdAnswer, Missing, PerformanceRange, PlannedApplication, Rebuild,
    SearchEnd, SimulatedArray,
};
pub use raidlab_units::{BlockSizeError, ParseUnitError};
pub use raidlab_workload::{
    AcceleratorFacts, Actor, ActorSummary, ArrayFacts, BottleneckFacts, BoundFacts, CacheFill,
    CheckpointFacts, CostFacts, DataSpec, DriverError, EnclosureFacts, FlushRule, HostsFacts, LagSummary,
    LoadFacts, LookupError, MachineLoad, MixPart, NetworkFacts, OfferedLoad, OpSet, OpSummary, Pacing,
    PartSummary, PhaseResult, Places, RangeFacts, ReplayError, Rhythm, RunSeries, SpecError, SteadyState,
    Summaries, TargetResult, TimesFacts, toml_file::TomlFileError,
};
pub use raidlab_worlds::{
    ControllersError, Estimates, ModelledControllers, Parts, RegionTooLarge, TextFileError, UnknownParts,
};
