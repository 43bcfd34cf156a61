//! Why devices can't be used, why an array can't be made, and why it can't run.

use raidlab_controller::{ConfigError, HostError, MetadataPolicy, StartError};
pub use raidlab_device::ring::RingError;
use raidlab_device::safety::SafetyError;
use raidlab_format::{ArrayUuid, AssembleError, DecodeError, NvramVerdict};
use raidlab_units::{ByteCount, Lba, NanoSpan};
use std::io;
use std::path::PathBuf;

/// Why a device can't be opened, made, read or written.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// A file is in the way of one that is to be made.
    #[error("{} exists already: remove it, or name another place", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// Neither a regular file nor a block device.
    #[error("{} is neither a file nor a block device", path.display())]
    NotStorage {
        /// What it is not.
        path: PathBuf,
    },
    /// Another array, or something else, uses it.
    #[error("{} is in use: stop the array, or release what is mounted or built on it", path.display())]
    InUse {
        /// The device.
        path: PathBuf,
    },
    /// Somebody uses the same storage by another way.
    #[error(
        "{} is in use by another way, {}: stop the array, or release what is mounted or built on it",
        path.display(), way.display()
    )]
    InUseElsewhere {
        /// The device.
        path: PathBuf,
        /// The file below it, or the loop device beside it.
        way: PathBuf,
    },
    /// It may be read only. An array writes its state to its members, also when its export is read-only.
    #[error(
        "{} can't be written ({source}): let this user write it, or leave it out to start without it",
        path.display()
    )]
    NotWritable {
        /// The device.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system is too full.
    #[error(
        "no space for {} and what is to be made beside it: {} are needed, {} are available: free some \
         space or make them smaller", path.display(), needed.beside(available), available.beside(needed)
    )]
    NoSpace {
        /// The first that does not fit.
        path: PathBuf,
        /// What it and those before it on the same file system need.
        needed: ByteCount,
        /// What the file system has left.
        available: ByteCount,
    },
    /// The file system has no direct I/O, without which nothing is known to be on the device.
    #[error("the file system of {} has no direct I/O (O_DIRECT): name a place on another one", path.display())]
    NoDirectIo {
        /// The file.
        path: PathBuf,
    },
    /// A call of the system on it does not end.
    #[error(
        "{} does not answer: to {doing} it has not ended for {limit}; look at the kernel's log, and leave the device out or replace it",
        path.display()
    )]
    Silent {
        /// What was tried.
        doing: &'static str,
        /// The device.
        path: PathBuf,
        /// How long it was waited for.
        limit: NanoSpan,
    },
    /// An NBD export, a null member, or what names one, is none that an array can use.
    #[error("can't use {}: {reason}", path.display())]
    Refused {
        /// Its name.
        path: PathBuf,
        /// Why, and what would help.
        reason: String,
    },
    /// The system refused.
    #[error("can't {doing} {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which device or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No memory for a buffer.
    #[error("no memory for a buffer of {bytes}: {source}")]
    Memory {
        /// Size asked for.
        bytes: ByteCount,
        /// What the system said.
        source: io::Error,
    },
}

/// Why an array can't be made, or a device can't join one.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The configuration is no array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It may not be overwritten.
    #[error(transparent)]
    Safety(#[from] SafetyError),
    /// The same device was named for two places.
    #[error("{} is named twice, or under two names: every place needs a device of its own", path.display())]
    NamedTwice {
        /// The path that was named later.
        path: PathBuf,
    },
    /// The configuration wants another number of members.
    #[error("the array has {wanted} members, and {found} devices were named for them")]
    MemberCount {
        /// By the configuration.
        wanted: u16,
        /// Named.
        found: usize,
    },
    /// More devices than an array can have.
    #[error("{devices} devices with the spares' slots are too many: an array has 256 at most")]
    TooManyDevices {
        /// Members and slots for spares.
        devices: usize,
    },
    /// A file is to be made and nobody said how long.
    #[error("{} does not exist: give a size to have a file made there, or name another device", path.display())]
    NoSize {
        /// The path.
        path: PathBuf,
    },
    /// A device is too short for the array.
    #[error("{} has {}, and the array needs {}", path.display(), found.beside(needed), needed.beside(found))]
    TooShort {
        /// The device.
        path: PathBuf,
        /// Length that would do.
        needed: ByteCount,
        /// Its length.
        found: ByteCount,
    },
    /// The device can't do I/O as fine as the array's block.
    #[error(
        "{} takes direct I/O in units of {needed} only, but the array's block is {block}: \
         use a block of 4 KiB", path.display()
    )]
    BlockTooSmall {
        /// The device.
        path: PathBuf,
        /// The array's block.
        block: ByteCount,
        /// Smallest unit of the device.
        needed: ByteCount,
    },
    /// No random numbers for identities.
    #[error("the system gives no random numbers: {source}")]
    NoRandom {
        /// What the system said.
        source: io::Error,
    },
    /// `io_uring` can't be used.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// The caller asked to stop; the files made so far are removed, and nothing is labelled.
    #[error("stopped before the array was made; the files made so far are removed")]
    Cancelled,
}

/// Why an NVRAM file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum NvramError {
    /// It is another kind of file, or damaged.
    #[error(
        "{} is no NVRAM file: {source}; name the one that the array was served with, or a place where no file is yet",
        path.display()
    )]
    NotOne {
        /// The file.
        path: PathBuf,
        /// What is wrong with its header.
        source: DecodeError,
    },
    /// It is shorter than it was made.
    #[error(
        "{} was cut: it has {found} of {wanted} bytes, and what the rest held can't be known; bring the whole file back, or serve \
         with another one and --accept-lost-cache", path.display()
    )]
    Cut {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        found: u64,
        /// The length that its header tells.
        wanted: u64,
    },
    /// It was made for other settings.
    #[error(
        "{} was made for another {what} ({found}, now {wanted}): use the settings that it was made with until the array \
         has been stopped cleanly, or name another file", path.display()
    )]
    Other {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// In the file.
        found: u64,
        /// By the settings.
        wanted: u64,
    },
    /// Another array uses it, or a device that has not answered a server of before may still write to it.
    #[error(
        "{} is in use: by another array, or by a read for a server of before that its device has not answered",
        path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("can't {doing} NVRAM {}: {source}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Why an array can't be set up or run.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// The configuration is no array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What the devices hold can't be started.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The controller won't start from it.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A device is named more than once.
    #[error("{} is named twice: name each device once", path.display())]
    NamedTwice {
        /// The device.
        path: PathBuf,
    },
    /// The file for the history of events holds something else, or the one before it does.
    #[error("{} is no history of an array, and would be written to: name another file with --history", path.display())]
    NoHistory {
        /// The file.
        path: PathBuf,
    },
    /// No random numbers for the nonce of the start.
    #[error("the system gives no random numbers: {source}")]
    NoRandom {
        /// What the system said.
        source: io::Error,
    },
    /// An array that keeps nothing about itself runs only with all its members.
    #[error(
        "the array keeps no metadata (metadata none) and {absent} of its members are not there: bring them back"
    )]
    NotWhole {
        /// How many.
        absent: usize,
    },
    /// Members that store nothing, under an array that would keep something on them.
    #[error(
        "null members forget what they are told, and {metadata} would be kept on them: use metadata none"
    )]
    KeepsOnNull {
        /// What would be kept.
        metadata: MetadataPolicy,
    },
    /// A member of an array over null members that is none.
    #[error("{} is not null:SIZE, such as null:1TiB: null members and devices do not make an array together", path.display())]
    NotNull {
        /// Its name.
        path: PathBuf,
    },
    /// A device's unit of direct I/O is larger than the array's block.
    #[error("{} takes direct I/O in units of {needed} only, but the array's block is {block}", path.display())]
    BlockTooSmall {
        /// The device.
        path: PathBuf,
        /// The array's block.
        block: ByteCount,
        /// Smallest unit of the device.
        needed: ByteCount,
    },
    /// A battery-backed cache without the file that stands for its memory.
    #[error(
        "a battery-backed cache needs an NVRAM file: name one on memory that survives what the battery is to \
         protect against, or use a volatile cache"
    )]
    NoNvram,
    /// The NVRAM file is another array's.
    #[error("NVRAM belongs to array {found}, which may need what it holds: name another file")]
    NvramOfOther {
        /// The other array.
        found: ArrayUuid,
    },
    /// What was acknowledged may be in NVRAM that is not there.
    #[error(
        "the array was not stopped cleanly and its cache was in NVRAM, but {verdict}: writes that it acknowledged may \
         be in that file alone; name it with --nvram, or give them up with --accept-lost-cache"
    )]
    NvramMissing {
        /// What there is instead.
        verdict: NvramVerdict,
    },
    /// NVRAM for an array that can't be started from it.
    #[error("an array that keeps no metadata (metadata none) can't use NVRAM: use a volatile cache")]
    KeepsNothing,
    /// A mirrored cache.
    #[error("a mirrored cache needs a second controller, which there is none of here: leave 'mirror' out")]
    NoSecondController,
    /// The NVRAM file can't be used.
    #[error(transparent)]
    Kept(#[from] NvramError),
    /// The start failed on the way.
    #[error("the array does not come up: {reason}")]
    NotServing {
        /// What happened.
        reason: String,
    },
    /// The array is stopped, and writes that were acknowledged but never flushed are not on its devices.
    #[error(
        "the array is stopped, but writes it had acknowledged did not reach its devices, from block {lba} on; its events say how many"
    )]
    WritesLost {
        /// The first block of them.
        lba: Lba,
    },
    /// More memory is asked for than the machine has to spare. The system would grant it, and end programs when it is used.
    #[error(
        "the cache and the working memory take {}, and this machine has {} to spare: ask for a smaller cache",
        wanted.beside(available), available.beside(wanted)
    )]
    TooLittleMemory {
        /// Cache and working memory.
        wanted: ByteCount,
        /// What can be had without swapping.
        available: ByteCount,
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
    #[error("the workload uses {}, but the volume has only {}", region.beside(volume), volume.beside(region))]
    RegionTooLarge {
        /// Of the workload.
        region: ByteCount,
        /// Of the array.
        volume: ByteCount,
    },
    /// The workload's blocks are no multiple of the array's.
    #[error("the workload's unit of {} is no multiple of the array's block of {}", unit.beside(block), block.beside(unit))]
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
