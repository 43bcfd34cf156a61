//! What arrays and load share about existing storage.
//!
//! - [`safety`] decides whether a file, a device or an export may be overwritten. Every part of raidlab asks it before
//!   it writes to anything that it did not make.
//! - [`NbdClient`] reads and writes an NBD export, one request at a time. [`NbdReplies`] is its receiving side, and
//!   that of those with many requests in flight.
//! - [`keeps_dsync`] and related functions know what the filesystem of a file promises for `io_uring`'s writes.
//! - [`null_size_text`] reads the name of storage that stores nothing.
//! - [`ring::Ring`] is the `io_uring` of both.
//! - [`Trailer`] marks raidlab's own test files.
//!
//! Left out: sending many requests to an export, for which arrays and load engines have their own code.
//!
//! `unsafe` is only in [`ring`].
#![deny(unsafe_code)]

mod file_system;
mod nbd_client;
mod nbd_replies;
mod null;
pub mod ring;
pub mod safety;
mod trailer;

pub use file_system::{DsyncLoser, dsync_loser, keeps_dsync, waits_in_submission, with_inline_io};
pub use nbd_client::{NbdClient, NbdError, NbdPayload, is_nbd_uri};
pub use nbd_replies::{NbdEnd, NbdFilling, NbdMemory, NbdPlace, NbdReceiveOptions, NbdReplies};
pub use null::null_size_text;
pub use trailer::{MAGIC, TRAILER_BYTES, Trailer};
