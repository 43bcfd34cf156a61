//! A workload against a modelled array, in virtual time.
//!
//! The controller decides what is done; the hardware models decide how long it takes. A request passes these
//! resources, each first come, first served, and a step that takes no time makes no event:
//! ```text
//!            write data             command                    read data
//!  Driver ══► host link ══► processors ══► Controller ══► host link ══► Driver
//!                                 ▲           │  ▲ actions
//!                     copy, parity└───────────┘  │
//!                                 ┌─ command ────┴───────────────────────────┐
//!                          processors ─► line of the member ─► member link ─► drive    (write)
//!                                                         └──────────────► drive ─► member link   (read)
//! ```
//! At most `member_queue_depth` commands are at a drive; the rest wait in the member's line, first in, first out.
//! Lengths only: no byte is moved. Everything random comes from the seeds of the array and of the load.
//!
//! Left out: arbitration on the links below the granularity of one transfer, and interrupts of the host.

mod members;
mod servers;
mod spec;
mod utilisation;
mod world;

pub use spec::{LoadRegion, SimError, SimulatedArray, SimulationLoad, SimulationOutcome, simulate};
pub use utilisation::{Bottleneck, Utilisation};
