//! A world that carries bytes: members, cache and host buffers in memory, and a reference to check against.
//!
//! The same controller that is timed against hardware models here moves real bytes, and every outstanding action
//! may finish in any order that the seed picks. So thousands of interleavings that a real array meets once a year
//! are met every second, and any of them can be seen again from its seed.
//! ```text
//!  random host requests ──► Controller ──► actions in flight ──(the seed picks one)──► done, effect now
//!        │                                   │ accesses must not conflict (memory.rs)
//!        └─► VolumeHistory (volume.rs) ◄─────┴─ reads checked, acknowledged writes looked up on members
//! ```
//! Checked: every read; that what must be on the members at an acknowledgement is there; that no action in flight
//! uses bytes another one writes; that requests get an answer; that nothing fails which the level survives; and
//! after a flush, data and redundancy of every stripe on every member left. Not checked: recovery after a power loss, and
//! timing.

mod actions;
mod host;
mod memory;
mod redundancy;
mod run;
mod violation;
mod volume;
mod world;

pub use memory::{Access, Place};
pub use run::{MemberLoss, RunPlan, RunReport};
pub use violation::{Failure, LossNotice, TraceEvent, Violation};
pub use volume::{BlockFault, WriteNumber};
pub use world::ByteWorld;
