//! The vocabulary between the controller and its world: requests, actions, completions, places in memory.

use raidlab_format::{BadReason, NVRAM_ENTRY_BYTES, NvramEntry};
use raidlab_raid::code::PARITIES_MAX;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, Nanos};

/// Names a host request while it is in flight. The world chooses it, small and dense (an index into its own
/// table of outstanding requests), and may use it again after its [`HostCompletion`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostTag(pub u32);

/// What the host wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOp {
    /// Read into the host's buffer.
    Read,
    /// Write from the host's buffer.
    Write {
        /// Force unit access: acknowledged only when it would survive power loss.
        fua: bool,
    },
    /// Acknowledged when everything acknowledged before it would survive power loss. Has no range.
    Flush,
    /// The host has no use for what is in the range, and may read anything there until it writes it again. A hint: it never
    /// fails for what members do, and where the array can't pass it on ([`crate::Controller::passes_discards`]) nothing is done.
    Discard,
}

/// One request of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRequest {
    /// The world's name for it.
    pub tag: HostTag,
    /// What to do.
    pub op: HostOp,
    /// First block.
    pub lba: Lba,
    /// Length; at least one block but for [`HostOp::Flush`].
    pub blocks: BlockCount,
}

/// A finished host request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCompletion {
    /// Which request.
    pub tag: HostTag,
    /// How it ended.
    pub result: Result<(), HostError>,
}

/// Why a host request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// The range is empty or reaches past the end of the volume.
    #[error("blocks {lba}+{blocks} are outside the volume of {volume_blocks} blocks")]
    OutOfRange {
        /// First block asked for.
        lba: Lba,
        /// Length asked for.
        blocks: BlockCount,
        /// Size of the volume.
        volume_blocks: BlockCount,
    },
    /// More of a stripe is missing, unreadable or fails its checksum than the level survives.
    #[error(
        "block {lba} cannot be read: more of its stripe is missing, unreadable or fails its checksum than the level survives"
    )]
    DataLost {
        /// A block that is lost.
        lba: Lba,
    },
    /// The write cannot be stored: too few members of its stripe are left that can hold it.
    #[error(
        "block {lba} cannot be written: more of its stripe is missing or can't be written than the level survives"
    )]
    ArrayFailed {
        /// A block that could not be stored.
        lba: Lba,
    },
}

/// Names a member I/O in flight; dense, reused after its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberIoId(pub u32);

/// What to do on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberOp {
    /// Read blocks into the segments of the I/O.
    Read,
    /// Write blocks from the segments of the I/O.
    Write {
        /// Must survive power loss when it completes, whatever the member's own cache does.
        fua: bool,
    },
    /// Make everything that completed before it survive power loss. Has no range.
    Flush,
    /// Forget what is in the range. Only in worlds that asked for it ([`crate::Controller::pass_discards`]).
    Discard,
}

/// Why the controller does a member I/O; worlds schedule and report by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoClass {
    /// A host request waits for it.
    Host,
    /// Writes dirty cache to members.
    Destage,
    /// Reads ahead of a sequential host.
    ReadAhead,
    /// Rebuilds, checks or repairs.
    Background,
}

/// The part of a device that a member I/O goes to. Each is addressed from its own block 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Area {
    /// Strips of the volume.
    #[default]
    Data,
    /// What the array keeps about itself: [`crate::Controller::metadata_blocks`] long.
    Metadata,
}

/// One read, write, flush or discard of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// The controller's name for it.
    pub id: MemberIoId,
    /// Which device: a member, or a spare behind them.
    pub member: MemberIndex,
    /// What to do.
    pub op: MemberOp,
    /// Which part of it.
    pub area: Area,
    /// First block in that part.
    pub lba: MemberLba,
    /// Length; zero for [`MemberOp::Flush`].
    pub blocks: BlockCount,
    /// Why.
    pub class: IoClass,
}

/// How a member I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// Some blocks of the range can't be read or written; the member itself still answers.
    #[error("medium error")]
    Medium,
    /// The member is gone; no further I/O to it can succeed.
    #[error("member does not answer")]
    Gone,
}

/// Names a memory task in flight; dense, reused after its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryTaskId(pub u32);

/// What a memory task is, for worlds that charge time for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// Moves bytes, host to cache or cache to host.
    Copy,
    /// Computes parity, or missing data from parity.
    Parity,
    /// Computes the CRC32C of rows, those of [`crate::Controller::digest_rows`]. A world that carries bytes answers
    /// with [`crate::Controller::handle_digests`], one that carries lengths only as for any task.
    Digest,
}

/// Work on memory. Its steps are read with [`crate::Controller::memory_steps`] by worlds that carry bytes.
///
/// A world does a task whole before it does another that touches the same bytes. Two copies may do so, for a host that
/// reads what it is writing, or writes it twice at once; then either order is right, but no mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTask {
    /// The controller's name for it.
    pub id: MemoryTaskId,
    /// What it is.
    pub kind: MemoryKind,
    /// Bytes of input, all sources together.
    pub bytes_in: u64,
    /// Bytes of output, all destinations together.
    pub bytes_out: u64,
}

impl MemoryTask {
    /// Bytes that go to the second controller's memory, too: a copy writes those twice.
    #[inline]
    pub const fn mirrored_bytes(&self) -> u64 {
        match self.kind {
            MemoryKind::Copy => self.bytes_out - self.bytes_in,
            MemoryKind::Parity | MemoryKind::Digest => 0,
        }
    }
}

/// A place in memory: a space and the byte in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRef {
    /// Which memory.
    pub space: BufferSpace,
    /// First byte within that memory.
    pub offset: u64,
}

/// The memories that the controller can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferSpace {
    /// The buffer of a host request, as long as the request.
    Host(HostTag),
    /// The cache: [`crate::MemoryNeeds::cache_bytes`] long, kept over power loss when battery-backed.
    Cache,
    /// Working memory: [`crate::MemoryNeeds::staging_bytes`] long.
    Staging,
    /// The controller's own memory, which holds metadata and no data of the host: see
    /// [`crate::Controller::own_memory`].
    Own,
    /// The intent log in memory: [`crate::MemoryNeeds::nvram_log_bytes`] long, kept over power loss as the cache is.
    NvramLog,
    /// The second controller's copy of [`BufferSpace::Cache`]. What goes there while that controller is gone is dropped.
    PeerCache,
    /// The second controller's copy of [`BufferSpace::NvramLog`].
    PeerNvramLog,
}

/// A contiguous piece of a member I/O's buffer, in member block order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it lies.
    pub buffer: BufferRef,
    /// Its length.
    pub bytes: u64,
}

/// Fills places of lists that don't count.
pub(crate) const NOWHERE: BufferRef = BufferRef { space: BufferSpace::Staging, offset: 0 };

/// The steps of one memory task, in order. Cleared and refilled by [`crate::Controller::memory_steps`], so one
/// value serves a whole run without allocating.
#[derive(Clone, Debug, Default)]
pub struct MemorySteps {
    /// The steps.
    pub steps: Vec<MemoryStep>,
    /// Sources of all steps; each step names its range.
    pub sources: Vec<BufferRef>,
    /// Coefficients in GF(256), for each step `destination_count` rows of one per source.
    pub coefficients: Vec<u8>,
}

/// One linear combination over GF(256), modulo 0x11d: `destination[r] (+)= sum of coefficient[r][s] * source[s]`.
/// With one source and coefficient 1 it is a copy, with all coefficients 1 an XOR.
///
/// Destinations never overlap sources or each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStep {
    /// Length of each source and destination.
    pub bytes: u64,
    /// Results; the first `destination_count` count.
    pub destinations: [BufferRef; PARITIES_MAX],
    /// One at least.
    pub destination_count: u8,
    /// Add to what the destinations hold, instead of replacing it.
    pub accumulate: bool,
    /// First source in [`MemorySteps::sources`].
    pub first_source: u32,
    /// Number of sources.
    pub source_count: u32,
    /// First coefficient in [`MemorySteps::coefficients`].
    pub first_coefficient: u32,
}

/// Names a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

/// What the controller asks of its world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Do this member I/O and report it with [`crate::Controller::handle_member_completion`].
    Member(MemberIo),
    /// Do this work on memory and report it with [`crate::Controller::handle_memory_completion`].
    Memory(MemoryTask),
    /// Tell the host.
    Complete(HostCompletion),
    /// Call [`crate::Controller::handle_timer`] at or after `at`. A later `Timer` of the same id replaces it.
    Timer {
        /// Which timer.
        id: TimerId,
        /// When.
        at: Nanos,
    },
    /// Store this entry of the cache's directory in memory that is kept as the cache is, in the second controller's,
    /// too, where `mirrored`. It is done when the action has been taken; nothing is reported. A power loss must leave
    /// the old entry or the new one: what the old one named may have been acknowledged.
    Keep(Keep),
    /// Something the operator should know.
    Notice(Notice),
}

/// An entry of the cache's directory, which says after a power loss what the cache memory holds. Whoever stores it asks for
/// its bytes; a world that stores none saves the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// Which entry: the number of a cache slot.
    pub slot: u32,
    /// What it says.
    pub entry: NvramEntry,
    /// Whether the second controller keeps it, too.
    pub mirrored: bool,
}

impl Keep {
    /// The entry as it is stored.
    pub fn bytes(&self) -> [u8; NVRAM_ENTRY_BYTES] {
        self.entry.encode(self.slot)
    }
}

/// Something the operator should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A device left the array.
    MemberFailed {
        /// Which.
        member: MemberIndex,
    },
    /// A device is there again, as a spare.
    MemberAdded {
        /// Which.
        member: MemberIndex,
    },
    /// A scan over the array began.
    ScanStarted {
        /// What for.
        scan: Scan,
    },
    /// A check, repair or resync makes room for a rebuild.
    ScanParked {
        /// What for.
        scan: Scan,
    },
    /// A scan that was parked goes on where it was.
    ScanResumed {
        /// What for.
        scan: Scan,
    },
    /// A scan has ended.
    ScanEnded {
        /// How far it came, and what it found and did.
        progress: ScanProgress,
        /// How it ended.
        end: ScanEnd,
    },
    /// A block that could not be read was written again from redundancy.
    Restored {
        /// The device.
        member: MemberIndex,
        /// First block of its strips, tags left out.
        lba: MemberLba,
        /// How many.
        blocks: BlockCount,
    },
    /// Block checksum mismatch. The blocks are read from redundancy and restored, if there is any.
    Mismatch {
        /// The device.
        member: MemberIndex,
        /// First block of its strips, tags left out.
        lba: MemberLba,
        /// How many.
        blocks: BlockCount,
    },
    /// A check or repair has found blocks that disagree with all else that tells of them. A repair has written them anew.
    Outvoted {
        /// The device.
        member: MemberIndex,
        /// First block of its strips, tags left out.
        lba: MemberLba,
        /// How many.
        blocks: BlockCount,
    },
    /// A check or repair has found that copies, or parity and data, disagree, and nothing tells which is right. It has written nothing
    /// there.
    Undecided(Undecided),
    /// Blocks of a device can't be made up from redundancy any more. They are errors until they are written again, or, if they are only
    /// unreadable, can be read again.
    BlocksLost {
        /// The device.
        member: MemberIndex,
        /// First block of its strips, tags left out.
        lba: MemberLba,
        /// How many.
        blocks: BlockCount,
        /// Why.
        reason: BadReason,
    },
    /// Blocks among these that were errors because they could not be read are none any more: they were read.
    ReadAgain {
        /// The device.
        member: MemberIndex,
        /// First block of its strips, tags left out.
        lba: MemberLba,
        /// How many.
        blocks: BlockCount,
    },
    /// After a start: what the log and NVRAM held is on the members, and the host is served.
    Serving,
    /// A start has found that no device knows of parts of the array whether they were written.
    WrittenMapLost,
    /// The array was not stopped cleanly, and the memory that kept its cache is not there: what was acknowledged from it
    /// and not yet destaged is lost.
    NvramLost,
    /// After a stop: the devices know that they agree, and may be taken away.
    Stopped,
    /// Acknowledged data in the cache could not be stored and is lost to this run.
    WriteLost {
        /// First lost block.
        lba: Lba,
        /// How many.
        blocks: BlockCount,
        /// The cache's directory goes on naming it: an array that starts with its cache and all devices has it again.
        is_kept: bool,
    },
}

/// Which writes the devices have recorded, so that a range that became zeros, with its checksums, is not taken for one that nobody has
/// written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedWrites {
    /// None: zeros are believed everywhere.
    None,
    /// Those since the array was first started by a version that records them: zeros are believed elsewhere.
    Later,
    /// Those since the record of all others was lost on all devices. Elsewhere zeros are believed only where no checksum tells of a write.
    Lost,
    /// All.
    All,
}

/// A walk over all stripes in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// Give a device what its role should hold.
    Rebuild {
        /// The device.
        target: MemberIndex,
    },
    /// Make redundancy agree where it may not after a crash.
    Resync,
    /// Compare redundancy with the data.
    Check,
    /// Compare, and rewrite what is wrong by the evidence. Where that doesn't say what it is, nothing is written.
    Repair,
    /// Compare, and rewrite the redundancy that disagrees: parity from the data, copies from the first.
    RepairFromData,
    /// Try the blocks that are errors once more: make them up from redundancy, or read them.
    Recover,
}

/// Blocks of the volume of which one may be wrong: so many rows of each of some strips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undecided {
    /// First block in question of the first strip.
    pub lba: Lba,
    /// Blocks in question of each strip.
    pub blocks: BlockCount,
    /// Strips, one behind the other: those of the stripe where there is parity, else one.
    pub strips: u16,
}

/// How a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanEnd {
    /// It went over all that it was for.
    Through,
    /// It was asked to stop.
    Stopped,
    /// Its target left the array, or more members are lost than the level survives.
    BrokenOff,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanProgress {
    /// Which it is: scans are numbered from 1 on since the start of the array.
    pub number: u32,
    /// What for.
    pub scan: Scan,
    /// Done of `total`: strips of the target in a rebuild, bad blocks in a recovery, in runs within a strip, else stripes (strips, where
    /// there is no parity).
    pub done: u64,
    /// All that is to be done.
    pub total: u64,
    /// What it found and did so far.
    pub counts: ScanCounts,
}

/// What a scan found and did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// Stripes (strips, where there is no parity) looked at.
    pub stripes: u64,
    /// Rows that were found wrong, and rows of redundancy that disagreed with the data where nothing says which is wrong.
    pub mismatched_rows: u64,
    /// Rows of stripes (strips, where there is no parity) in which nothing says what is wrong.
    pub undecided_rows: u64,
    /// Rows rewritten.
    pub rewritten_rows: u64,
    /// Rows that could not be read or made up from the others.
    pub unreadable_rows: u64,
    /// Bad blocks that a recovery has ended with less than it began with.
    pub recovered_rows: u64,
    /// Stripes (strips, where there is no parity) of a check or repair of which a member was missing, so that they were not compared,
    /// or not in full.
    pub incomplete_stripes: u64,
}
