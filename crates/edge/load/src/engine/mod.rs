//! Engines: what takes requests to a target and brings completions back. The run loop knows only this interface.
//!
//! **Short transfers:** an engine goes on with the rest of a request that moved fewer bytes than asked for, and
//! reports the request when all of it is done; its latency covers all parts. A transfer of nothing is the end of
//! the file, which is a failure. Interrupted calls (`EINTR`, `EAGAIN`) are repeated.

mod sync;
mod uring;

pub use sync::SyncEngine;
pub use uring::UringEngine;

use raidlab_units::NanoSpan;
use raidlab_workload::{DriverIo, IoOp};
use rustix::io::Errno;
use std::fmt;

/// Which engine to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineKind {
    /// `io_uring`: any number of requests in flight.
    #[default]
    Uring,
    /// `pread` and `pwrite`: one request at a time.
    Sync,
}

/// A request that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The slot it had.
    pub slot: u32,
    /// Why it failed, if it did.
    pub failure: Option<FailureCause>,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The system's answer.
    Errno(Errno),
    /// The target ends before the request does.
    EndOfFile,
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => errno.fmt(f),
            Self::EndOfFile => f.write_str("the target ends before the request does"),
        }
    }
}

impl FailureCause {
    /// Whether every other request would fail like this one, so that to go on is of no use.
    pub(crate) fn is_for_all(self) -> bool {
        match self {
            Self::EndOfFile => true,
            Self::Errno(errno) => matches!(
                errno,
                Errno::INVAL
                    | Errno::BADF
                    | Errno::ACCESS
                    | Errno::PERM
                    | Errno::ROFS
                    | Errno::NOSPC
                    | Errno::DQUOT
                    | Errno::FBIG
                    | Errno::NXIO
                    | Errno::NODEV
                    | Errno::OPNOTSUPP
                    | Errno::FAULT
            ),
        }
    }
}

/// Takes requests to a target.
pub trait Engine {
    /// Its name, for results.
    fn name(&self) -> &'static str;

    /// Takes `io` in; it is under way with the next [`Engine::flush`] or [`Engine::reap`]. Its slot must be free.
    fn submit(&mut self, io: DriverIo);

    /// Puts all that was taken in under way, without waiting for any of it.
    ///
    /// # Errors
    /// What the system answers if it takes nothing at all; what it can't take for the moment goes with the next call.
    fn flush(&mut self) -> Result<(), Errno>;

    /// Waits until a request ended or `at_most` is over, and appends those that ended to `done`.
    ///
    /// # Errors
    /// What the system answers if it can't be waited for at all; failed requests are completions.
    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno>;

    /// The most requests that it can have in flight.
    fn iodepth_max(&self) -> u32;

    /// Requests taken in that did not end yet.
    fn in_flight(&self) -> u32;

    /// Returns the request that has or last had `slot`.
    fn io(&self, slot: u32) -> DriverIo;

    /// Transfers that moved fewer bytes than asked for and were gone on with.
    fn short_transfers(&self) -> u64;

    /// What is not as good as it could be, in sentences for people.
    fn notes(&self) -> &[String];
}

/// A slot before its first request.
const NO_IO: DriverIo = DriverIo { slot: 0, op: IoOp::Read, offset_bytes: 0, bytes: 0 };
