//! A simulated kernel under the runtime and the export, so that one seed draws clients, connections, timings, crashes, and I/O that is
//! short, interrupted, failed, hung or late.
//!
//! ```text
//! clients ◄─ pairs of sockets ─► NbdServer ─► ArrayWorld ─► entries ─► simulated ring ─► files in memory
//!    └───────── oracle ─────────────────────── (the code that is served) ──────────────────────┘
//! ```
//! A [`Plan`] is drawn from a seed, or read from a file, and run; what it finds is a [`Failure`], and [`shrink`] makes the plan small.
//!
//! What is real: the runtime, the export, the controller, files and their locks, pairs of sockets, memory. What is not: when an entry
//! ends, how, and how much it moved; the clock; what a disk's cache keeps.
//!
//! Left out: members that are NBD exports, TLS, TCP, threads for parity and for I/O, emulated arrays.
#![deny(unsafe_code)]
#![allow(
    clippy::cast_possible_wrap,
    reason = "results of entries are lengths below 2^31, as the kernel has them"
)]

mod client;
mod disk;
mod entry;
mod flight;
mod kernel;
mod member_io;
mod oracle;
mod plan;
mod session;
mod shrink;
mod sockets;
mod state;
mod text;
mod wire;
mod worlds;

pub use plan::{ClientPlan, Fault, FaultEvent, Life, LifeEnd, MemberManners, Plan, Role};
pub use session::{Facts, Failure};
pub use shrink::shrink;
pub use text::{PlanFileError, read_plan, write_plan};
