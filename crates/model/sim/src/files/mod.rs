//! Programs that do file calls on a host with modelled arrays, in virtual time.
//!
//! ```text
//!  Program ──call──► processors ──► page cache ──miss, read-ahead──► elevator of the volume ──► ArrayPort ──► drives
//!     ▲                                 │ dirty                          ▲
//!     └── bytes ──                      └────── flusher ─────────────────┘
//! ```
//! - **Time**: every call takes a processor for the time in the host's model; the flusher takes one for each page.
//! - **Pages** are kept in units of some pages (`SimulatedHost::unit`), in zones with an active and an inactive list
//!   each.
//! - **Dirty units** are written back: in the background above one mark; above the other, writers wait.
//! - **Volumes** have a queue each, in which reads and writes alternate, and below it the same array controllers over
//!   the same drives as everywhere; software RAID is a controller without a cache.
//!
//! - **`fsync`** waits for the data, and for a commit of the journal: its blocks, a flush, a forced record
//!   (`commit.rs`). Calls that come while one is under way share the next.
//! - **Direct** reads and writes bypass cache and elevator; a workload's driver is a program like others (`driven.rs`).
//!
//! Lengths only: no byte is moved. Events of equal time are handled in this order: the host's, then those of the
//! arrays, in their order. Left out: swap, programs' memory, mapped access, directories.
//! Source of what a kernel does: Linux 2.6.0, `mm/` and `drivers/block/as-iosched.c`.

mod cache;
mod commit;
mod direct;
mod driven;
mod elevator;
mod flush;
mod process;
mod spec;
mod world;

pub use driven::simulate_file_load;
pub use spec::{FileAccess, FilePlace, FilesOutcome, HostVolume, SimulatedHost, simulate_files};
