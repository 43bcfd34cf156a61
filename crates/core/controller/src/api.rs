//! The vocabulary between the controller and its world: requests, actions, completions, places in memory.

use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, Nanos};

/// Names a host request while it is in flight. The world chooses it, small and dense (an index into its own
/// table of outstanding requests), and may use it again after its [`HostCompletion`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// More members of a stripe are missing or unreadable than the level survives.
    #[error("block {lba} cannot be read: more members are missing than the level survives")]
    DataLost {
        /// A block that is lost.
        lba: Lba,
    },
    /// The write cannot be stored: too few members are left to hold it.
    #[error("block {lba} cannot be written: more members are missing than the level survives")]
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

/// One read, write or flush of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberIo {
    /// The controller's name for it.
    pub id: MemberIoId,
    /// Which member.
    pub member: MemberIndex,
    /// What to do.
    pub op: MemberOp,
    /// First block in the member's data area.
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
}

/// A contiguous piece of a member I/O's buffer, in member block order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it lies.
    pub buffer: BufferRef,
    /// Its length.
    pub bytes: u64,
}

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
    pub destinations: [BufferRef; 2],
    /// One or two.
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
    /// Something the operator should know.
    Notice(Notice),
}

/// Something the operator should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A member left the array.
    MemberFailed {
        /// Which.
        member: MemberIndex,
    },
    /// Acknowledged data in the cache could not be stored and is lost.
    WriteLost {
        /// First lost block.
        lba: Lba,
        /// How many.
        blocks: BlockCount,
    },
}
