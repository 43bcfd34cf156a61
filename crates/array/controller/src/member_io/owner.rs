//! Who waits for a member I/O, by part.

use crate::api::HostTag;
use crate::ids::OpId;
use crate::request::{CopySet, Fragment};

/// The part that waits for a member I/O, and what it has to know at the end of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IoOwner {
    #[default]
    Nobody,
    Host(HostIo),
    /// Cache slots read from a member.
    Fill {
        fill: u32,
    },
    Op(OpIo),
    Superblock,
    /// Tags of a strip that nobody has written become real ones.
    Tags,
    /// A page of the map of written regions.
    WrittenPage,
    Intent(IntentIo),
    Beside(BesideIo),
    /// A member flush before the boundary of the rebuild with this number is written down.
    BoundaryFlush {
        scan: u32,
    },
    /// A member flush before the host is served.
    StartFlush,
    /// A member flush before the array is stopped.
    StopFlush,
}

/// A member I/O of a host request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostIo {
    /// A fragment read straight into the host's buffer, and the copies tried so far.
    Read { fragment: Fragment, tried: CopySet },
    /// A fragment written straight from the host's buffer, where there is no redundancy.
    Write { fragment: Fragment },
    /// A member flush for a host flush.
    Flush { request: HostTag },
    /// A run on a member that a host discard covers.
    Discard { request: HostTag },
}

/// A member I/O of a stripe operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpIo {
    Read {
        op: OpId,
        unit: u16,
    },
    /// A run of pieces.
    WriteData {
        op: OpId,
        first_piece: u32,
        pieces: u32,
    },
    WriteParity {
        op: OpId,
        unit: u16,
    },
    /// Rows of a unit that an operation in the background restores or makes agree.
    Rewrite {
        op: OpId,
        unit: u16,
    },
}

impl OpIo {
    /// The operation's number.
    pub(crate) const fn op(self) -> OpId {
        match self {
            Self::Read { op, .. }
            | Self::WriteData { op, .. }
            | Self::WriteParity { op, .. }
            | Self::Rewrite { op, .. } => op,
        }
    }
}

/// A member I/O of the write-intent bitmap, of the log or of its replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntentIo {
    Bitmap,
    /// A member flush before bits of the bitmap are cleared.
    BitmapFlush,
    /// A member flush before the bitmap is written there.
    BitmapPreflush,
    /// A replica of a batch of records of the log, known by its first.
    Records {
        first: u64,
    },
    /// A member flush before records are retired.
    LogFlush,
    /// The header of a record, read to be copied.
    ReplayHeader,
    /// A run of a record, read to be written again.
    ReplayRead {
        run: u16,
    },
    /// A copy of a header, and of those that share its block, to a device that lacks the record.
    ReplayHeaderCopy,
    /// A copy of a record's payload.
    ReplayPayloadCopy,
    /// Rows of a run of a record, read to be compared with its checksums.
    ReplayCheck {
        run: u16,
        skipped: u32,
    },
    /// Rows of a run of a record, written again.
    ReplayWrite {
        run: u16,
        skipped: u32,
    },
}

impl IntentIo {
    /// True if it reads a record of the log.
    pub(crate) const fn reads_record(self) -> bool {
        matches!(self, Self::ReplayHeader | Self::ReplayRead { .. })
    }
}

/// An I/O of a write log, or of the device beside the members: no member counts it among its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BesideIo {
    /// The bitmap on the device beside the members.
    Bitmap,
    /// A unit of a write log.
    WriteLog { unit: u32 },
    /// A member flush before a unit of a write log is finished.
    WriteLogFlush { unit: u32 },
    /// A flush of the journal.
    JournalFlush,
}
