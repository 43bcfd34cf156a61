//! What was seen of storage in use, and a workload that asks the same of it.
//!
//! ```text
//! counters, reading by reading ─► Intervals ─┐                 ┌─► DeviceFigures
//!                                            ├─► Observed ─────┤
//! requests, one by one ─────────► Character ─┘                 └─► Imitation: a workload, and its distances
//! ```
//! | module | idea |
//! |---|---|
//! | `counters` | what the kernel counts of a device, and the load between two readings |
//! | `intervals` | loads of many short intervals: percentiles, burstiness, hours |
//! | `character` | sizes, runs, arrivals, depth, places, reuse and latency of requests that were seen one by one |
//! | `figures` | the figures of a device, with units in their names |
//! | `imitation` | a workload from these, driven in virtual time and compared with what was seen |
//!
//! Counters say how much and how long, not where: what only requests tell is none without them.
//!
//! Nothing is read here: who watches a machine hands over what it read.
#![forbid(unsafe_code)]

mod character;
mod counters;
mod figures;
mod imitation;
mod intervals;

pub use character::{Character, RequestFigures, SizeFigures};
pub use counters::Counters;
pub use figures::{DeviceFigures, LatencyFigures, Observed, Source};
pub use imitation::{Distance, Imitation, imitate};
pub use intervals::{HourFigures, Interval, IntervalFigures, Intervals};
