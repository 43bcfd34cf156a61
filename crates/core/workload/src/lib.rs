//! What to ask of storage and what came of it: access specifications, the pure workload driver, latency
//! histograms and the one result type that every world fills in.
//!
//! ```text
//! workloads/*.toml ─► Workload ─► AccessSpec ─► Driver ─► Measurement ─► RunResult
//!                     (names, metric)  (lines)   (I/Os)    (histograms)    (figures)
//! ```
//! Nothing here knows what a disk is. A [`Driver`] hands out I/Os by offset and length and is told when they
//! complete; whether that happened on a real file, in a modelled array or through the network is the world's affair.
#![forbid(unsafe_code)]

mod bins;
mod driver;
mod histogram;
mod profile;
pub mod program;
mod result;
mod rng;
mod series;
mod spec;
pub mod steady;
mod stream;
pub mod toml_file;

pub use bins::LatencyBin;
pub use driver::{
    Driver, DriverConfig, DriverError, DriverIo, DriverStep, IoOp, IssuedCounts, WindowProgress,
};
pub use histogram::LatencyHistogram;
pub use profile::{LookupError, Workload, builtin_workload, builtin_workloads};
pub use result::{
    ArrayFacts, CURVE_PCT, ControllerFacts, CostFacts, DeviceLoad, EnclosureFacts, FailoverFacts,
    LatencyPoint, LoadFacts, MachineLoad, Measurement, Metric, OpStats, OpSummary, RunResult, Summaries,
    World,
};
pub use rng::{Rng, derived_seed};
pub use series::{RunSeries, Series, SeriesColumns};
pub use spec::{AccessLine, AccessSpec, SpecError};
pub use steady::SteadyState;
