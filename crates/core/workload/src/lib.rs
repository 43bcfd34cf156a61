//! What to ask of storage and what came of it: access specifications, the pure workload driver, latency
//! histograms and the one result type that every world fills in.
//!
//! Nothing here knows what a disk is. A [`Driver`] hands out I/Os by offset and length and is told when they
//! complete; whether that happened on a real file, in a modelled array or through the network is the world's affair.
#![forbid(unsafe_code)]

mod driver;
mod histogram;
mod result;

pub use driver::{Driver, DriverConfig, DriverError, DriverIo, DriverStep, IoOp};
pub use histogram::LatencyHistogram;
pub use result::{ArrayFacts, CostFacts, Measurement, Metric, OpStats, OpSummary, RunResult, World};
