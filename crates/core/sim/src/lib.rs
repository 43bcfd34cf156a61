//! The virtual world: an event queue and a clock, a workload against a modelled array, and a world of real bytes
//! that checks the controller.
//!
//! The array controller is a pure state machine that has to be driven by a world. This crate has two:
//!
//! - [`simulate`] runs a workload against a [`SimulatedArray`], the controller over hardware models, in virtual time
//!   with lengths only, and tells what was measured and which resource was the bottleneck;
//! - [`ByteWorld`] runs the same controller over members in memory with real bytes, finishes its actions in any
//!   order that a seed picks, and checks every answer against a reference.
//!
//! [`EventQueue`] is the clock of the first: events at the same time leave it first in, first out.
#![forbid(unsafe_code)]

mod array;
mod bytes;
mod queue;

pub use array::{
    Bottleneck, LoadRegion, SimError, SimulatedArray, SimulationLoad, SimulationOutcome, Utilisation,
    simulate,
};
pub use bytes::{
    Access, BlockFault, ByteWorld, Failure, LossNotice, MemberLoss, Place, RunPlan, RunReport, TraceEvent,
    Violation, WriteNumber,
};
pub use queue::{Due, EventQueue};
