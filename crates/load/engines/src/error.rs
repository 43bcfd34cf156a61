//! Why a target can't be opened, laid out or loaded. Every message says what was wrong, where, and what to do.

use crate::engine::{FailureCause, NAME_URING};
use crate::remote::RemoteError;
use raidlab_device::NbdError;
use raidlab_device::ring::RingError;
pub(crate) use raidlab_device::ring::errno_of;
use raidlab_device::safety::SafetyError;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{DriverError, OpSet, ReplayError};
use rustix::io::Errno;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why a target can't be opened, laid out or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A call of the operating system failed.
    #[error("cannot {op} '{}': {errno}{}", .path.display(), path_advice(op, *.errno))]
    System {
        /// On what.
        path: PathBuf,
        /// What was to be done, as an infinitive.
        op: &'static str,
        /// What the system answered.
        errno: Errno,
    },
    /// The path is neither a regular file nor a block device.
    #[error("'{}' is {kind}: give a regular file or a block device", .path.display())]
    NotStorage {
        /// Which path.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// There are no samples.
    #[error("'{}' has no sample files: --size lays them out, as many as fit", .path.display())]
    NoSamples {
        /// The folder.
        path: PathBuf,
    },
    /// There are other samples.
    #[error("the sample files in '{}' are {problem}: --size lays them out anew, or give another folder", .path.display())]
    OtherSamples {
        /// The folder.
        path: PathBuf,
        /// What is wrong with them.
        problem: &'static str,
    },
    /// The size of a target that does nothing can't be read.
    #[error("'null:{size}' is no target: write its size behind the colon, such as null:1GiB")]
    NullSize {
        /// What stands there.
        size: String,
    },
    /// An NBD export can't be used.
    #[error("can't use '{}': {source}", .path.display())]
    Nbd {
        /// Its URI.
        path: PathBuf,
        /// Why.
        source: NbdError,
    },
    /// The trace could not be replayed to its end.
    #[error("the replay on '{}' ended early: {source}", .path.display())]
    Replay {
        /// Which target.
        path: PathBuf,
        /// Why.
        source: ReplayError,
    },
    /// A file of a file server can't be used.
    #[error("can't use '{}': {source}", .path.display())]
    Remote {
        /// Its URI.
        path: PathBuf,
        /// Why.
        source: RemoteError,
    },
    /// A request is longer than the target takes.
    #[error("'{}' takes requests of {bytes_max} bytes at most, not of {bytes}: use smaller ones", .path.display())]
    TooLong {
        /// Which target.
        path: PathBuf,
        /// Longest request of the workload.
        bytes: u32,
        /// Longest that it takes.
        bytes_max: u32,
    },
    /// The engine is none for the target.
    #[error("the {engine} engine can't load '{}': leave it out to have the one that can", .path.display())]
    EngineUnfit {
        /// Which target.
        path: PathBuf,
        /// Which engine.
        engine: &'static str,
    },
    /// A load that writes nothing, or a target that keeps nothing, leaves nothing to verify.
    #[error(
        "there is nothing to verify on '{}' with the workload '{workload}': it takes a workload that writes, and a target that \
         keeps what is written",
        .path.display()
    )]
    VerifyNothing {
        /// Which target.
        path: PathBuf,
        /// The workload.
        workload: String,
    },
    /// The ledger of a target would take too much memory.
    #[error(
        "'{}' has {} in blocks of {block_bytes} bytes: up to {} can be verified",
        .path.display(), .size.beside(size_max), .size_max.beside(size)
    )]
    VerifySize {
        /// Which target.
        path: PathBuf,
        /// Its size.
        size: ByteCount,
        /// Its blocks.
        block_bytes: u32,
        /// What can be verified.
        size_max: ByteCount,
    },
    /// The file system has no direct I/O.
    #[error(
        "the file system of '{}' refuses direct I/O (O_DIRECT): use a file on another one, or ask for buffered \
         I/O to measure this one together with the page cache",
        .path.display()
    )]
    DirectRefused {
        /// Which file.
        path: PathBuf,
    },
    /// Neither the system nor a trial tells which lengths direct I/O takes.
    #[error(
        "'{}' takes direct I/O neither in blocks of 512 nor of 4096 bytes ({errno}): ask for buffered I/O",
        .path.display()
    )]
    NoBlockSize {
        /// Which target.
        path: PathBuf,
        /// What the system answered to a read of 4096 bytes.
        errno: Errno,
    },
    /// A test file was not laid out to its end.
    #[error("'{}' is a test file that was not laid out to its end: lay it out again", .path.display())]
    Unfinished {
        /// Which file.
        path: PathBuf,
    },
    /// The file exists with another size than asked for.
    #[error(
        "'{}' exists with {}, not the {} asked for: leave the size out to use it as it is, or give \
         another path", .path.display(), .size.beside(wanted), .wanted.beside(size)
    )]
    SizeDiffers {
        /// Which file.
        path: PathBuf,
        /// Its size.
        size: ByteCount,
        /// The size asked for.
        wanted: ByteCount,
    },
    /// The size of a test file is no multiple of 4096, or zero.
    #[error("a test file of {} bytes can't be laid out at '{}': give a multiple of 4096 above zero", .bytes.get(), .path.display())]
    LayOutSize {
        /// Which file.
        path: PathBuf,
        /// The size asked for.
        bytes: ByteCount,
    },
    /// Samples of such a size together are no file of them, or too many.
    #[error(
        "sample files of {bytes} can't be laid out at '{}': ask for {least}, which is one file of these samples, to {most}",
        .path.display()
    )]
    SamplesSize {
        /// The folder.
        path: PathBuf,
        /// The size asked for.
        bytes: ByteCount,
        /// What one file takes.
        least: ByteCount,
        /// What as many as there may be take.
        most: ByteCount,
    },
    /// The file system has too little room.
    #[error(
        "no room for '{}': it needs {}, its file system has {}: free some space, ask for a \
         smaller file, or use another file system",
        .path.display(), .needed.beside(available), .available.beside(needed)
    )]
    NoSpace {
        /// Which file.
        path: PathBuf,
        /// Bytes that the file needs.
        needed: ByteCount,
        /// Bytes that the file system has for it.
        available: ByteCount,
    },
    /// The region to load reaches past the end of the target.
    #[error(
        "'{}' holds {}, less than the region of {} to be loaded: use a smaller region or a larger target",
        .path.display(), .size.beside(region), .region.beside(size)
    )]
    TooSmall {
        /// Which target.
        path: PathBuf,
        /// Its size.
        size: ByteCount,
        /// What was asked for.
        region: ByteCount,
    },
    /// The driver's block size does not fit the target's.
    #[error("'{}' takes multiples of {target_bytes} bytes, not of {driver_bytes}: use its block size or a multiple of it", .path.display())]
    BlockSize {
        /// Which target.
        path: PathBuf,
        /// The block size of the target.
        target_bytes: u32,
        /// The block size asked for.
        driver_bytes: u32,
    },
    /// The workload writes, but the target was opened for reading.
    #[error("workload '{workload}' writes, but '{}' was opened for reading only: allow writing to it", .path.display())]
    ReadOnly {
        /// Which target.
        path: PathBuf,
        /// Name of the workload.
        workload: String,
    },
    /// The engine can't keep that many requests in flight.
    #[error(
        "the {engine} engine keeps 1 to {iodepth_max} requests in flight, not {iodepth}: more workers have more"
    )]
    Iodepth {
        /// Which engine.
        engine: &'static str,
        /// The most that it can.
        iodepth_max: u32,
        /// What was asked for.
        iodepth: u32,
    },
    /// The target can't be mapped.
    #[error("cannot map the {size} of '{}': {errno}; use another engine", .path.display())]
    Map {
        /// Which target.
        path: PathBuf,
        /// Its size.
        size: ByteCount,
        /// What the system answered.
        errno: Errno,
    },
    /// The workload asks for what target and engine have no way to do.
    #[error("there are {ops} in the workload, which '{}' can't do with the {engine} engine: {}", .path.display(), ops_advice(engine))]
    CannotDo {
        /// Which target.
        path: PathBuf,
        /// With which engine.
        engine: &'static str,
        /// What it can't do.
        ops: OpSet,
    },
    /// The workload changes data in a way that is not verified.
    #[error("there are {ops} in the workload for '{}', and what they leave is not verified: leave the verification out", .path.display())]
    Unverifiable {
        /// Which target.
        path: PathBuf,
        /// What is not verified.
        ops: OpSet,
    },
    /// Settings of `io_uring` for another engine.
    #[error("{what} is of io_uring, and '{}' is loaded by {engine}: leave it out, or use --engine io_uring", .path.display())]
    NotOfEngine {
        /// Which target.
        path: PathBuf,
        /// With which engine.
        engine: &'static str,
        /// What was asked for.
        what: &'static str,
    },
    /// The server of an export has no writes that end when the medium has them.
    #[error("the server of '{}' offers no forced unit access (FUA): leave it out", .path.display())]
    NoFua {
        /// Which target.
        path: PathBuf,
    },
    /// Writes with FUA end before they are durable.
    #[error("'{}' is on {why}", .path.display())]
    FuaLost {
        /// Which target.
        path: PathBuf,
        /// On which file system, what that does, and what to do.
        why: &'static str,
    },
    /// The memory for the requests can't be had.
    #[error("cannot get {bytes} of memory for the requests: {errno}; use fewer or smaller requests")]
    Memory {
        /// How much.
        bytes: ByteCount,
        /// What the system answered.
        errno: Errno,
    },
    /// The engine can't be set up or waited for.
    #[error("cannot {op} with the {engine} engine: {errno}{}", ring_advice(*.errno))]
    Engine {
        /// Which engine.
        engine: &'static str,
        /// What was to be done, as an infinitive.
        op: &'static str,
        /// What the system answered.
        errno: Errno,
    },
    /// A thread can't be bound to a processor.
    #[error("no thread can be bound to processor {cpu}: {errno}; give processors that this process may use")]
    Pin {
        /// Its number.
        cpu: u32,
        /// What the system answered.
        errno: Errno,
    },
    /// The workload does not fit the target.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// Writing is not allowed.
    #[error(transparent)]
    Safety(#[from] SafetyError),
    /// An I/O failed in a way that all others will too, or a long row of them failed.
    #[error("{op} of {bytes} bytes at byte {offset_bytes} of '{}' failed, {times}: {cause}{}", .path.display(), cause_advice(*.cause))]
    Failing {
        /// Which target.
        path: PathBuf,
        /// What it was to do, in a word.
        op: &'static str,
        /// Where.
        offset_bytes: u64,
        /// Length.
        bytes: u32,
        /// Why.
        cause: FailureCause,
        /// How often, in words.
        times: String,
    },
    /// Requests did not come back.
    #[error("{in_flight} requests to '{}' did not come back within {waited}: the storage hangs, see the kernel's log", .path.display())]
    Stuck {
        /// Which target.
        path: PathBuf,
        /// How many.
        in_flight: u32,
        /// How long they were waited for.
        waited: NanoSpan,
    },
    /// Others that were to begin at the same moment are not ready.
    #[error("the load was not begun, because others were not ready")]
    NotStarted,
    /// The user stopped the lay-out; the file is gone or empty.
    #[error("stopped while '{}' was laid out; it was taken away again", .path.display())]
    Cancelled {
        /// Which file.
        path: PathBuf,
    },
}

impl LoadError {
    /// Whether nobody answers where an NBD export is to be: its socket is missing or refuses.
    pub fn is_unreachable(&self) -> bool {
        let kind = match self {
            Self::Nbd { source: NbdError::Io { source, .. }, .. } => source.kind(),
            _ => return false,
        };
        matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused)
    }

    /// Whether what was asked for is at fault, and not the machine, the storage or a server.
    pub fn is_input(&self) -> bool {
        match self {
            Self::Nbd { source: NbdError::Io { .. }, .. } => self.is_unreachable(),
            Self::System { errno, .. } => {
                matches!(*errno, Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::NAMETOOLONG)
            }
            Self::Nbd { source: NbdError::Refused { .. }, .. }
            | Self::Remote { source: RemoteError::Uri { .. } | RemoteError::InTheWay { .. }, .. }
            | Self::NotStorage { .. }
            | Self::NullSize { .. }
            | Self::NoSamples { .. }
            | Self::OtherSamples { .. }
            | Self::TooLong { .. }
            | Self::EngineUnfit { .. }
            | Self::VerifyNothing { .. }
            | Self::VerifySize { .. }
            | Self::DirectRefused { .. }
            | Self::NoBlockSize { .. }
            | Self::Unfinished { .. }
            | Self::SizeDiffers { .. }
            | Self::LayOutSize { .. }
            | Self::SamplesSize { .. }
            | Self::TooSmall { .. }
            | Self::BlockSize { .. }
            | Self::ReadOnly { .. }
            | Self::Iodepth { .. }
            | Self::CannotDo { .. }
            | Self::Unverifiable { .. }
            | Self::NotOfEngine { .. }
            | Self::NoFua { .. }
            | Self::FuaLost { .. }
            | Self::Pin { .. }
            | Self::Driver(_)
            | Self::Safety(_) => true,
            Self::Replay { .. }
            | Self::Remote { .. }
            | Self::NoSpace { .. }
            | Self::Map { .. }
            | Self::Memory { .. }
            | Self::Engine { .. }
            | Self::Failing { .. }
            | Self::Stuck { .. }
            | Self::NotStarted
            | Self::Cancelled { .. } => false,
        }
    }

    /// Returns a closure that names what failed, for `map_err` on calls of `rustix`.
    pub(crate) fn system<'a>(path: &'a Path, op: &'static str) -> impl Fn(Errno) -> Self + 'a {
        move |errno| Self::System { path: path.into(), op, errno }
    }

    /// Returns a closure that names what failed, for `map_err` on calls of the standard library.
    pub(crate) fn io<'a>(path: &'a Path, op: &'static str) -> impl Fn(std::io::Error) -> Self + 'a {
        move |error| Self::System { path: path.into(), op, errno: errno_of(&error) }
    }
}

impl From<RingError> for LoadError {
    fn from(RingError { doing, source }: RingError) -> Self {
        Self::Engine { engine: NAME_URING, op: doing, errno: errno_of(&source) }
    }
}

fn path_advice(op: &str, errno: Errno) -> &'static str {
    if op == "create" && errno == Errno::NOENT { "; make its folder first" } else { advice(errno) }
}

fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOENT => "; check the path, or give a size to have a test file laid out there",
        Errno::ACCESS | Errno::PERM => "; check its permissions, block devices usually need root",
        Errno::ROFS => "; its file system or device is read-only",
        Errno::BUSY => "; it is mounted or held by something else, release it first",
        Errno::NOSPC | Errno::DQUOT => "; free some space or use another file system",
        Errno::NXIO | Errno::NODEV => "; the device is gone",
        _ => "",
    }
}

fn ops_advice(engine: &str) -> &'static str {
    match engine {
        "nbd" => "its server does not offer them",
        "nfs" | "xrootd" => "the client library has no call for them",
        _ => "its file system, device or kernel has no way to; another engine or target may",
    }
}

fn cause_advice(cause: FailureCause) -> &'static str {
    match cause {
        FailureCause::Disconnected => "; the server is gone or at fault, see its log",
        FailureCause::EndOfFile => "; the target was made shorter while it was loaded",
        FailureCause::Errno(Errno::INVAL) => "; the target does not take this length or place by direct I/O",
        FailureCause::Errno(Errno::IO) => "; the storage reports an error, see the kernel's log",
        FailureCause::Errno(errno) => advice(errno),
    }
}

fn ring_advice(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSYS => "; this kernel has no io_uring, use the sync engine at one request in flight",
        Errno::PERM | Errno::ACCESS => {
            "; io_uring is forbidden here (sysctl kernel.io_uring_disabled, or the container's filter), \
             use the sync engine at one request in flight"
        }
        Errno::NOMEM => "; too little memory may be locked, raise it with 'ulimit -l'",
        Errno::OPNOTSUPP => "; io_uring of Linux 5.11 or later is needed, use the sync engine",
        _ => "",
    }
}
