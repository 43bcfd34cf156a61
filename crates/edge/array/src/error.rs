//! Why members can't be made or opened, and why an array can't run.

use raidlab_controller::{ConfigError, HostError};
use raidlab_units::ByteCount;
use std::io;
use std::path::PathBuf;

/// Why member files can't be made, opened or removed.
#[derive(Debug, thiserror::Error)]
pub enum MembersError {
    /// An array has at least one member.
    #[error("no member files were named: an array needs at least one")]
    NoMembers,
    /// The same path was given for two members.
    #[error("{} is named twice: every member needs a file of its own", path.display())]
    NamedTwice {
        /// The path.
        path: PathBuf,
    },
    /// The data area is empty, or not whole pages.
    #[error("a member of {bytes} can't be: its size must be a positive multiple of 4 KiB")]
    BadSize {
        /// Size asked for.
        bytes: ByteCount,
    },
    /// A file is in the way.
    #[error("{} exists already: remove it, or name another place", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file is in the way that is no scratch member, so it is never replaced.
    #[error("{} exists and is no raidlab scratch member, so it is not replaced: name another place", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another array, of this process or another, uses the file.
    #[error("{} is in use: stop the run or array that uses it, or name another place", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file lacks the mark that creation leaves.
    #[error("{} is no raidlab member: {reason}", path.display())]
    NotAMember {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The file belongs to another place of the array, or to another array.
    #[error(
        "{} is member {found_index} of {found_count} of set {found_set:016x}, but member {index} of {count} of set \
         {set:016x} is wanted here: name all members of one array, in their order",
        path.display()
    )]
    WrongPlace {
        /// The file.
        path: PathBuf,
        /// Index in its mark.
        found_index: u16,
        /// Member count in its mark.
        found_count: u16,
        /// Set in its mark.
        found_set: u64,
        /// Index by its place in the list.
        index: u16,
        /// Length of the list.
        count: u16,
        /// Set of the first member.
        set: u64,
    },
    /// The file is shorter or longer than its mark says.
    #[error("{} is {found} long, but its mark says {expected}: it was cut or overwritten", path.display())]
    WrongLength {
        /// The file.
        path: PathBuf,
        /// Its length.
        found: ByteCount,
        /// What the mark says.
        expected: ByteCount,
    },
    /// The filesystem is too full.
    #[error(
        "no space for {} and the members beside it: {needed} are needed, {available} are available: free some space \
         or make the members smaller", path.display()
    )]
    NoSpace {
        /// The first member that does not fit.
        path: PathBuf,
        /// What that member and those after it on the same filesystem need.
        needed: ByteCount,
        /// What the filesystem has left.
        available: ByteCount,
    },
    /// The filesystem has no direct I/O, without which the page cache would be measured.
    #[error("the filesystem of {} has no direct I/O (O_DIRECT): name a place on another one", path.display())]
    NoDirectIo {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `io_uring` can't be used.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// No memory for the buffer of zeros.
    #[error("no memory for a buffer of {bytes}: {source}")]
    Memory {
        /// Size asked for.
        bytes: ByteCount,
        /// What the system said.
        source: io::Error,
    },
    /// The caller asked to stop; the files made so far are removed.
    #[error("stopped before all members were made; the files made so far are removed")]
    Cancelled,
}

/// `io_uring` can't be set up or used.
#[derive(Debug, thiserror::Error)]
#[error(
    "can't {doing}: {source}; io_uring needs Linux 5.11 or later, must not be switched off \
     (/proc/sys/kernel/io_uring_disabled), and a container's seccomp profile must allow it"
)]
pub struct RingError {
    /// What was tried.
    pub doing: &'static str,
    /// What the system said.
    pub source: io::Error,
}

/// Why an array can't be set up or run.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The configuration is no array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Member files carry a mark and their data area, and no metadata.
    #[error("{what} is not possible on member files opened for one run: leave it out")]
    NeedsMetadata {
        /// What the configuration asks for.
        what: &'static str,
    },
    /// The configuration wants another number of members.
    #[error("the configuration wants {wanted} members, but {found} member files were given")]
    MemberCount {
        /// By the configuration.
        wanted: u16,
        /// Given.
        found: usize,
    },
    /// A member is smaller than the configuration says.
    #[error("{} has a data area of {found}, but the configuration wants {wanted}", path.display())]
    MemberTooSmall {
        /// The member.
        path: PathBuf,
        /// Its data area.
        found: ByteCount,
        /// By the configuration.
        wanted: ByteCount,
    },
    /// The member's device can't do I/O as fine as the array's block.
    #[error(
        "{} takes direct I/O in units of {needed} only, but the array's block is {block}: \
         use a block of 4 KiB", path.display()
    )]
    BlockTooSmall {
        /// The member.
        path: PathBuf,
        /// The array's block.
        block: ByteCount,
        /// Smallest unit of the member.
        needed: ByteCount,
    },
    /// No memory for the cache, staging or host buffers.
    #[error("no memory for {what} of {bytes}: {source}")]
    Memory {
        /// Which memory.
        what: &'static str,
        /// Size asked for.
        bytes: ByteCount,
        /// What the system said.
        source: io::Error,
    },
    /// `io_uring` can't be used.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The workload's region is larger than the volume.
    #[error("the workload uses {region}, but the volume has only {volume}")]
    RegionTooLarge {
        /// Of the workload.
        region: ByteCount,
        /// Of the array.
        volume: ByteCount,
    },
    /// The workload's blocks are no multiple of the array's.
    #[error("the workload's unit of {unit} is no multiple of the array's block of {block}")]
    UnitMismatch {
        /// Of the workload.
        unit: ByteCount,
        /// Of the array.
        block: ByteCount,
    },
    /// Dirty blocks could not be written to the members.
    #[error("the cache could not be drained to the members: {0}")]
    DrainFailed(#[source] HostError),
    /// The caller asked to stop. Nothing of the host is in flight any more.
    #[error("stopped by request")]
    Cancelled,
}
