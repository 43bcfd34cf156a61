//! A workload against a modelled array, in virtual time.
//!
//! The controller decides what is done; the hardware models decide how long it takes. A request passes these resources,
//! each first come, first served; a step that takes no time makes no event:
//! ```text
//!            write data             command                    read data
//!  Driver ══► host link ══► processors ══► Controller ══► host link ══► Driver
//!                                 ▲           │  ▲ actions
//!                     copy, parity└───────────┘  │
//!                                 ┌─ command ────┴───────────────────────────┐
//!                          processors ─► queue of the member ─► member link ─► drive   (write)
//!                                                         └───────────────► drive ─► member link  (read)
//! ```
//! Several volumes, each an array with its own load, share the resources of one controller, or of two (`head.rs`), one
//! of which may fail (`failover.rs`).
//!
//! `attribution.rs` optionally tracks where each request's time went.
//!
//! At most `member_queue_depth` commands are at a drive; the rest wait in the member's queue, first in, first out.
//! Lengths only: no byte is moved. Everything random comes from the seeds of the array and of the load.
//!
//! Left out: arbitration on the links below the granularity of one transfer, and interrupts of the host.

mod attribution;
mod bottleneck;
mod event;
mod failover;
mod head;
mod live;
mod load;
mod members;
mod plug;
mod port;
mod servers;
mod service;
mod spec;
mod stripe_threads;
mod utilisation;
mod volume;
mod world;

pub use attribution::{Station, Stay, StayMean, Stays, TimesOutcome};
pub use bottleneck::{
    Bottleneck, BottleneckOutcome, Extent, Gain, Goal, Part, Probe, ProbeFigures, ProbeRunner,
    find_bottleneck,
};
pub use live::{LiveAnswer, LiveArray};
pub(crate) use load::HostIo;
pub(crate) use port::ArrayPort;
pub use spec::{
    ControllerFailure, ControllerName, FailoverOutcome, FlashWrites, LoadRegion, RebuildProgress,
    SecondController, SimError, SimulatedArray, SimulatedEnclosure, SimulatedVolume, SimulationLoad,
    SimulationOutcome, VolumeLoad, simulate, simulate_attributed, simulate_degraded, simulate_each,
    simulate_enclosure,
};
pub(crate) use spec::{driver_config, region_in};
pub use utilisation::{ControllerUtilisation, Utilisation};
