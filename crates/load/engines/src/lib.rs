//! Load on real targets: the pure workload driver, run against files and block devices as they are.
//!
//! ```text
//! Target::open ── safety ──► Target ──► run_targets ──► Driver  (what to do, what counts; pure)
//! lay_out_file ──┘                        threads  └────► Engine  (`io_uring`, pread and pwrite, nothing)
//! ```
//! - [`lay_out_file`] makes a test file with every block written, with data that neither compresses nor deduplicates;
//!   its mark lets raidlab recognise it.
//! - [`Target::open`] finds size and block size, and opens for direct I/O or, on request, through the page cache.
//! - [`run_targets`] keeps the requested number of requests in flight on one or many targets, with one or many threads,
//!   and returns the drivers' measurements and the cost.
//! - [`programs`] runs the file programs of the workload crate, Bonnie and parallel readers, on real files;
//!   [`residency`] makes files cold and checks that they are.
//! - [`soak`] reads the same data again and again, and counts errors.
//! - [`net`] moves data over TCP to another process, here or on another host, and measures the cost on both sides.
//!
//! Invariants: nothing is written that [`raidlab_device::safety::permit_write`] did not allow; no I/O allocates or
//! takes a lock; memory that the kernel may still write to is never freed.
#![deny(unsafe_code)]

mod can_do;
mod clock;
mod drive;
mod engine;
mod error;
mod lay_out;
mod library;
mod memory;
pub mod net;
mod nfs;
mod noise;
pub mod programs;
mod remote;
pub mod residency;
mod run;
mod samples;
pub mod soak;
mod target;
mod ticks;
mod timed;
mod verify;
mod xrootd;

pub use engine::{
    Completion, Engine, EngineIo, EngineKind, FailureCause, FilesEngine, MappedEngine, NbdEngine, NfsEngine,
    NullEngine, SlotTable, SyncEngine, UnknownEngine, UringEngine, UringOptions, XrootdEngine,
};
pub use error::LoadError;
pub use lay_out::{LaidOut, LayOut, LayOutContent, LayOutProgress, lay_out_file};
pub use memory::IoMemory;
pub use nfs::{NfsLibrary, is_nfs_uri, nfs_library};
pub use remote::{RemoteError, is_remote_uri, lay_out_remote, remove_remote, uri_in_folder};
pub use run::{
    Go, IoFailure, LoadOptions, LoadOutcome, LoadProgress, TargetOutcome, ThreadCost, run_targets,
};
pub use samples::SampleFolder;
pub use target::{TEST_FILE_NAME, Target, TargetKind, TargetOptions, place_of};
pub use timed::with_timed;
pub use verify::Verified;
pub use xrootd::{XrootdLibrary, is_xrootd_uri, xrootd_library};
