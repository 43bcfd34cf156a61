//! Engines take requests to targets and bring completions back. The run loop knows only this interface.
//!
//! | engine | how | in flight |
//! |---|---|---|
//! | `io_uring` | a ring shared with the kernel | any number |
//! | `psync` | `pread`, `pwrite` | 1 for each thread |
//! | `buffered` | the same through the page cache | 1 for each thread |
//! | `mmap` | copies out of and into a mapping of the target | 1 for each thread |
//! | `nbd` | a connection for each target, on a ring | any number |
//! | `nfs` | a connection for each target, by libnfs | any number |
//! | `xrootd` | a thread for each request, by `XRootD`'s client | up to 256 for each worker |
//! | `files` | `pread` on the files of a folder, each opened and closed | up to 1024 for each worker |
//! | `null` | nothing at all: shows the load generator's own cost | any number |
//!
//! **Flushes, trims and writes of zeroes** take a slot like any request, and have no buffer. Which of them an engine
//! can do on a target is checked before the load ([`crate::can_do`]); an engine never gets others.
//!
//! **Short transfers:** an engine continues with the rest of a request that moved fewer bytes than requested, and
//! reports the request when all of it is done; its latency covers all parts. A transfer of zero bytes is the end of the
//! file, which is a failure. Interrupted calls (`EINTR`, `EAGAIN`) are repeated.

mod bus_error;
mod calls;
mod crew;
mod files;
mod in_flight;
mod mapped;
mod nbd;
mod nfs;
mod null;
mod one_at_a_time;
mod sync;
mod uring;
mod xrootd;

pub(crate) use calls::{discard, punch_hole, zero_range};

pub use files::FilesEngine;
pub use mapped::MappedEngine;
pub use nbd::NbdEngine;
pub use nfs::NfsEngine;
pub use null::NullEngine;
pub use sync::SyncEngine;
pub use uring::UringEngine;
pub use xrootd::XrootdEngine;

use raidlab_units::NanoSpan;
use raidlab_workload::IoOp;
use rustix::io::Errno;
use std::fmt;
use std::str::FromStr;

pub(crate) const NAME_URING: &str = EngineKind::Uring.name();

raidlab_units::named! {
    /// Which engine to use.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum EngineKind {
        /// `io_uring`: any number of requests in flight.
        #[default]
        Uring = "io_uring",
        /// `pread` and `pwrite`: one request at a time for each thread.
        Sync = "psync",
        /// `pread` and `pwrite` through the page cache: one request at a time for each thread.
        Buffered = "buffered",
        /// Copies out of and into a mapping of the target: one request at a time for each thread.
        Mapped = "mmap",
        /// The NBD protocol, for exports: any number of requests in flight.
        Nbd = "nbd",
        /// The NFS protocol by libnfs, for files of a server: any number of requests in flight.
        Nfs = "nfs",
        /// `XRootD`'s client, for files of a server: a thread for each request in flight.
        Xrootd = "xrootd",
        /// Files of a folder, each opened and closed: a thread for each request in flight.
        Files = "files",
        /// Requests end when they are waited for, and nothing was done.
        Null = "null",
    }
}

/// An engine's name that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no engine '{0}': there are io_uring, psync, buffered, mmap, nbd, nfs, xrootd, files and null"
)]
pub struct UnknownEngine(String);

impl EngineKind {
    /// Whether it has one request in flight at a time, so that each target of each worker takes a thread.
    pub const fn is_one_at_a_time(self) -> bool {
        matches!(self, Self::Sync | Self::Buffered | Self::Mapped)
    }

    /// Whether its targets are to be opened with the page cache in use.
    pub const fn is_through_page_cache(self) -> bool {
        matches!(self, Self::Buffered | Self::Mapped)
    }
}

impl FromStr for EngineKind {
    type Err = UnknownEngine;

    fn from_str(text: &str) -> Result<Self, UnknownEngine> {
        Self::named(text).ok_or_else(|| UnknownEngine(text.to_owned()))
    }
}

/// What the `io_uring` engine is wanted to do beyond the plain; what it can't is left out, with a note in the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UringOptions {
    /// Ends are polled for at the device instead of told by its interrupt (`IOPOLL`).
    pub io_poll: bool,
    /// A thread of the kernel takes requests by itself, so that submission needs no call (`SQPOLL`).
    pub kernel_thread: bool,
}

/// A request for an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineIo {
    /// Its place in the [`SlotTable`].
    pub slot: u32,
    /// Which of the engine's targets, from 0.
    pub target: u32,
    /// What it does.
    pub op: IoOp,
    /// First byte, counted from the start of the target; zero for a flush.
    pub offset_bytes: u64,
    /// Length in bytes; zero for a flush.
    pub bytes: u32,
    /// A write that ends when the medium has it (forced unit access).
    pub fua: bool,
}

/// The places of requests in flight: `iodepth` for each target, numbered so that the target is in the upper bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTable {
    targets: u32,
    iodepth: u32,
    shift: u32,
}

impl SlotTable {
    /// Returns the table for `targets` targets with up to `iodepth` requests in flight each, both above zero.
    pub fn new(targets: u32, iodepth: u32) -> Self {
        Self { targets, iodepth, shift: iodepth.next_power_of_two().ilog2() }
    }

    /// Returns the place of a driver's slot on a target.
    #[inline]
    pub fn slot_of(&self, target: u32, driver_slot: u32) -> u32 {
        target << self.shift | driver_slot
    }

    /// Returns the target and the driver's slot of a place.
    #[inline]
    pub fn split(&self, slot: u32) -> (u32, u32) {
        (slot >> self.shift, slot & ((1 << self.shift) - 1))
    }

    /// Returns which buffer belongs to a place; buffers are numbered without gaps.
    #[inline]
    pub fn buffer_of(&self, slot: u32) -> u32 {
        let (target, driver_slot) = self.split(slot);
        target * self.iodepth + driver_slot
    }

    /// Places there are, with the gaps.
    pub fn slots(&self) -> usize {
        (self.targets as usize) << self.shift
    }

    /// The most requests that are in flight.
    pub fn in_flight_max(&self) -> u32 {
        self.targets.saturating_mul(self.iodepth)
    }
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
    /// The connection to the target ended.
    Disconnected,
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Errno(errno) => errno.fmt(f),
            Self::EndOfFile => f.write_str("the target ends before the request does"),
            Self::Disconnected => f.write_str("the connection ended"),
        }
    }
}

impl FailureCause {
    /// Whether every other request would fail like this one, so that to go on is of no use.
    pub(crate) fn is_for_all(self) -> bool {
        match self {
            Self::EndOfFile | Self::Disconnected => true,
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

/// Takes requests to targets.
pub trait Engine {
    /// Its name, for results.
    fn name(&self) -> &'static str;

    /// Takes `io` in; it is under way with the next [`Engine::flush`] or [`Engine::reap`]. Its slot must be free.
    fn submit(&mut self, io: EngineIo);

    /// Puts all that was taken in under way, without waiting for any of it.
    ///
    /// # Errors
    /// What the system answers if it takes nothing at all; what it can't take for the moment goes with the next call.
    fn flush(&mut self) -> Result<(), Errno>;

    /// Returns how many requests have ended that were not handed out, without a call.
    fn ready(&mut self) -> u32;

    /// Waits until a request ended or `at_most` is over, and appends those that ended to `done`.
    ///
    /// # Errors
    /// What the system answers if it can't be waited for at all; failed requests are completions.
    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno>;

    /// The most requests that it can have in flight.
    fn in_flight_max(&self) -> u32;

    /// Requests taken in that did not end yet.
    fn in_flight(&self) -> u32;

    /// Returns the memory that `io` writes from or reads into, while it is not under way; none if the engine or the request
    /// moves no bytes.
    fn buffer(&mut self, _io: &EngineIo) -> Option<&mut [u8]> {
        None
    }

    /// Returns the request that has or last had `slot`.
    fn io(&self, slot: u32) -> EngineIo;

    /// Transfers that moved fewer bytes than asked for and were gone on with.
    fn short_transfers(&self) -> u64 {
        0
    }

    /// What it does to be quick, in a word or two each.
    fn facts(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What is not as good as it could be, in sentences for people.
    fn notes(&self) -> &[String] {
        &[]
    }
}

/// A slot before its first request.
const NO_IO: EngineIo =
    EngineIo { slot: 0, target: 0, op: IoOp::Read, offset_bytes: 0, bytes: 0, fua: false };

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn places_are_told_apart_and_buffers_have_no_gaps() {
        for (targets, iodepth) in [(1, 1), (1, 32), (3, 1), (3, 5), (24, 17), (2, 32_768)] {
            let table = SlotTable::new(targets, iodepth);
            let mut buffers = BTreeSet::new();
            for target in 0..targets {
                for driver_slot in 0..iodepth {
                    let slot = table.slot_of(target, driver_slot);
                    assert_eq!(table.split(slot), (target, driver_slot));
                    assert!((slot as usize) < table.slots());
                    buffers.insert(table.buffer_of(slot));
                }
            }
            assert_eq!(table.in_flight_max(), targets * iodepth);
            assert!(buffers.into_iter().eq(0..targets * iodepth));
        }
    }

    #[test]
    fn engines_are_known_by_their_names() {
        for kind in EngineKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        let error = "libaio".parse::<EngineKind>().unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no engine 'libaio': there are io_uring, psync, buffered, mmap, nbd, nfs, xrootd, files and null"
        );
    }
}
