//! The virtual worlds: an event queue and a clock, and a workload against a modelled array.
//!
//! ```
//! use raidlab_sim::EventQueue;
//! use raidlab_units::Nanos;
//!
//! let mut queue = EventQueue::new(0);
//! queue.push(Nanos(20), "second");
//! queue.push(Nanos(10), "first");
//! assert_eq!(queue.pop().map(|(at, _)| at), Some(Nanos(10)));
//! ```
//!
//! The array controller is a pure state machine that a world drives. This crate has three worlds:
//!
//! - [`simulate`] runs a workload against a [`SimulatedArray`], the controller over hardware models, in virtual time
//!   with lengths only, and returns the measurements; [`simulate_enclosure`] does so for several volumes behind one or
//!   two controllers, of which one may fail; [`find_bottleneck`] finds the limiting part;
//! - [`LiveArray`] is the same array for callers that bring requests at times of their own clock;
//! - [`simulate_files`] runs programs that do file calls on a [`SimulatedHost`]: processors, a page cache, filesystems,
//!   and the same arrays below them.
//!
//! A fourth, with real bytes under faults, checks the controller: `raidlab-torture`.
//!
//! [`EventQueue`] is the clock of the first two: events at the same time leave it first in, first out.
#![forbid(unsafe_code)]

mod array;
mod files;
mod queue;
mod streams;

pub use array::{
    Bottleneck, BottleneckOutcome, ControllerFailure, ControllerName, ControllerUtilisation, Extent,
    FailoverOutcome, FlashWrites, Gain, Goal, LiveAnswer, LiveArray, LoadRegion, Part, Probe, ProbeFigures,
    ProbeRunner, RebuildProgress, SecondController, SimError, SimulatedArray, SimulatedEnclosure,
    SimulatedVolume, SimulationLoad, SimulationOutcome, Station, Stay, StayMean, Stays, TimesOutcome,
    Utilisation, VolumeLoad, find_bottleneck, simulate, simulate_attributed, simulate_degraded,
    simulate_each, simulate_enclosure,
};
pub use files::{
    FileAccess, FilePlace, FilesOutcome, HostVolume, SimulatedHost, simulate_file_load, simulate_files,
};
pub use queue::{Due, EventQueue};
pub use streams::{NfsSpec, PlacedFile, StreamsOutcome, StreamsSpec, StreamsVolume, simulate_streams};
