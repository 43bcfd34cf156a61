//! Load on real targets: the pure workload driver, run against files and block devices as they are.
//!
//! ```text
//! Target::open ── safety ──► Target ──► run ──► Driver  (what to do, what counts; pure)
//! lay_out_file ──┘                       └────► Engine  (`io_uring`, or one pread/pwrite at a time)
//! ```
//! - [`lay_out_file`] makes a test file whose every block is written, with data that neither compresses nor
//!   deduplicates; its mark lets raidlab know it again.
//! - [`Target::open`] finds size and block size, and opens for direct I/O or, when asked, through the page cache.
//! - [`run`] keeps the asked number of requests in flight and returns what the driver measured, with what it cost.
//! - [`safety`] decides whether something may be overwritten. It is for every part of raidlab that writes to
//!   files or devices which it did not make.
//!
//! Invariants: nothing is written that [`safety::permit_write`] did not allow; no I/O allocates or takes a lock;
//! memory that the kernel may still write to is never given back.
#![deny(unsafe_code)]

mod clock;
mod engine;
mod error;
mod lay_out;
mod memory;
mod noise;
mod run;
pub mod safety;
mod target;
mod trailer;

pub use engine::{Completion, Engine, EngineKind, FailureCause, SyncEngine, UringEngine};
pub use error::LoadError;
pub use lay_out::{LaidOut, LayOut, LayOutProgress, lay_out_file};
pub use memory::IoMemory;
pub use run::{IoFailure, LoadOptions, LoadOutcome, LoadProgress, ThreadCost, run, run_on_engine};
pub use target::{Target, TargetKind, TargetOptions, with_inline_io};
