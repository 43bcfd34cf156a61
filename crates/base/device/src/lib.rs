//! What arrays and load share about storage that was there before raidlab.
//!
//! - [`safety`] decides whether a file, a device or an export may be overwritten. Every part of raidlab that writes to
//!   what it did not make asks it.
//! - [`NbdClient`] reads and writes an NBD export, one request at a time.
//! - [`keeps_dsync`] and its like know what the filesystem below a file promises of `io_uring`'s writes.
//! - [`Trailer`] is the mark by which raidlab knows a test file of its own.
//!
//! Left out: many requests in flight, which arrays and load engines do each in their own way.
#![forbid(unsafe_code)]

mod file_system;
mod nbd_client;
pub mod safety;
mod trailer;

pub use file_system::{DsyncLoser, dsync_loser, keeps_dsync, waits_in_submission, with_inline_io};
pub use nbd_client::{NbdClient, NbdError, NbdPayload, is_nbd_uri};
pub use trailer::{MAGIC, TRAILER_BYTES, Trailer};
