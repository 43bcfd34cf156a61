//! The real world: bytes, files, a clock and one `io_uring` around the pure array controller.
//!
//! The controller decides; this crate executes its actions and reports the results. One thread decides:
//! ```text
//! HostPort ──requests──► Controller ──Member──► io_uring ──► member files (O_DIRECT), NBD servers
//!    ▲                     │   ▲  └──Memory──► parity kernels over the arenas
//!    └────completions──────┘   └── completions, timers
//! ```
//! Optionally, other threads compute parity (`workers`) and do I/O of members (`io_threads`).
//!
//! - [`create`] makes an array of files, block devices or NBD exports, [`examine`] says what devices are.
//! - [`ArrayWorld`] owns a controller, its members, its memory and its ring, and runs the event loop.
//! - A [`HostPort`] uses the volume: [`DriverHost`] is a workload driver in the same process,
//!   [`ScriptHost`] a list of requests with their bytes.
//!
//! Invariants: no allocation and no lock per I/O once the tables have grown to the depth in use; memory that the
//! kernel may still touch is never unmapped; every member I/O is reported to the controller exactly once.
//! `unsafe` is confined to `arena` (mapped memory), `pieces` (parts of it), `workers`, and to `ring`, `io_threads` and `port_ring`
//! (`io_uring`).
#![deny(unsafe_code)]

mod arena;
mod begin;
mod busy_poll;
mod command;
mod copies;
mod create;
mod device;
mod emulated;
mod error;
mod events;
mod examine;
mod history;
mod host;
mod io_threads;
pub mod kernel;
mod link;
mod listen;
mod member_io;
mod memory;
mod null;
mod nvram;
mod operator;
mod panic;
mod pieces;
mod port_ring;
mod random;
mod ring;
mod run;
mod serving;
mod status;
mod wake_up;
mod workers;
mod world;
mod zero_fill;

pub use begin::{RunSettings, Started, examine, would_start};
pub use create::{Contents, CreateOptions, Created, create};
pub use device::is_nbd_uri;
pub use emulated::{Backing, BackingError, EmulatedWorld, Lateness, LatenessFacts};
pub use error::{ArrayError, CreateError, DeviceError, NvramError, RingError};
pub use events::{EVENT_TARGET, EventLevel, EventStatus};
pub use examine::{AbsentDevice, ArrayFound, DeviceReport, DeviceVerdict, ExamineReport};
pub use history::{
    HistoryLine, HistoryPlace, HistoryRead, KeptHistory, find_histories, read_history, read_history_of,
};
pub use host::{DriverHost, HostPort, HostPortNeeds, HostStep, ScriptHost, ScriptOp, ScriptResult, StopWish};
pub use listen::{UnixSocketError, listen_tcp, listen_unix};
pub use memory::HostBuffers;
pub use null::is_null;
pub use operator::{
    Answer, ArrayStatus, ArrayStopped, Asked, CacheStatus, Command, CommandError, CommandQueue, Condition,
    CounterStatus, DeviceCondition, DeviceStatus, OPERATOR_SCHEMA, Operator, ScanOutcome, ScanStatus,
    operator_line, parse_scan_rate,
};
pub use port_ring::{EntryEnd, EntryId, PortRing};
pub use raidlab_format::StartOptions;
pub use run::ArrayOutcome;
pub use world::ArrayWorld;

/// Target of log events that clients can cause as often as they like. Who shows the log bounds them.
pub const CLIENT_CAUSED: &str = "raidlab::client";
