//! Requests to storage and their results: access specifications, the pure workload driver, latency histograms and the
//! one result type that every world fills in.
//!
//! ```
//! use raidlab_workload::LatencyHistogram;
//!
//! let mut latencies = LatencyHistogram::default();
//! (1..=1_000).for_each(|us| latencies.record_ns(us * 1_000));
//! assert_eq!(latencies.count(), 1_000);
//! assert!((980_000..1_000_000).contains(&latencies.percentile_ns(99.0)));
//! ```
//!
//! ```text
//! workloads/*.toml ─► Workload ─► AccessSpec ─► Driver ─► Measurement ─► RunResult
//!                     (names, metric)  (lines)   (I/Os)    (histograms)    (figures)
//! ```
//! A [`Replay`] takes the place of the lines: the requests of a trace go through the same driver.
//!
//! Nothing here knows what a disk is. A [`Driver`] issues I/Os by offset and length and is told when they complete; the
//! world decides whether that happens on a real file, in a modelled array or over a network.
#![forbid(unsafe_code)]

mod actor;
mod bins;
mod data;
mod driver;
mod histogram;
mod hosts;
mod network;
mod op;
mod pacing;
mod permutation;
mod places;
mod portrait;
mod profile;
pub mod program;
mod replay;
mod result;
mod rhythm;
mod rng;
mod sample_files;
mod sampler;
mod schedule;
mod series;
mod spec;
mod split;
mod spread;
pub mod steady;
mod stream;
pub mod toml_file;

pub use actor::{
    Accelerator, Actor, Checkpoint, Compaction, LoaderUnit, LogWriter, ObjectCache, Phase, SizeLaw,
};
pub use bins::LatencyBin;
pub use data::{DATA_BLOCK_BYTES, DataGenerator, DataSpec};
pub use driver::{
    Driver, DriverConfig, DriverError, DriverIo, DriverStep, IssuedCounts, WindowProgress, Worker,
};
pub use histogram::{HistogramRecordError, LatencyHistogram, LatencySteps};
pub use hosts::{HostsFacts, RankFacts};
pub use network::{NetDirection, NetSide, NetworkFacts, SocketFacts};
pub use op::{IoOp, OpSet};
pub use pacing::{
    ArrivalProcess, Arrivals, ClosedLoop, FlushRule, OPEN_IODEPTH_DEFAULT, Pacing, RequestRate,
};
pub use places::{Distribution, FileOrder, HitRate, PlacedFiles, Places, Zone};
pub use portrait::{Portrait, PortraitColumn, PortraitPart, PortraitSize};
pub use profile::{LookupError, Workload, builtin_workload, builtin_workloads};
pub use replay::{BatchStep, Fit, REPLAY_BYTES_MAX, Replay, ReplayError, Timing, TraceReader, TraceSource};
pub use result::{
    AcceleratorFacts, ActorFacts, ActorMeasurement, ActorSummary, ArrayFacts, BottleneckFacts, BoundFacts,
    CHECKPOINT_SUFFIX, CURVE_PCT, CacheFacts, CacheFill, CheckpointFacts, CompactionFacts, ControllerFacts,
    CostFacts, Counts, DeviceLoad, EnclosureFacts, FailoverFacts, LagStats, LagSummary, LatencyPoint,
    LoadFacts, LogFacts, MachineLoad, Measurement, Metric, OfferedLoad, OpStats, OpSummary, OtherStats,
    OtherSummaries, PartGain, PartMeasurement, PartSummary, PhaseResult, RangeFacts, RunResult, StationTimes,
    Summaries, TargetResult, TimesFacts, World,
};
pub use rhythm::{OnOff, Rhythm, SelfSimilar, SpanLaw};
pub use rng::{Rng, derived_seed};
pub use sample_files::SampleFiles;
pub use series::{LatencyMap, RunSeries, Series, SeriesColumns};
pub use spec::{AccessLine, AccessSpec, MixPart, SpecError};
pub use split::{LatencyFigures, LatencySplit, SplitStats};
pub use spread::Spread;
pub use steady::SteadyState;
