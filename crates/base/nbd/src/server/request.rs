//! A request in flight: its contents, its progress, and the checks before it begins.
//!
//! Source: the document, "Request types", "Command flags" and "Error values".

use crate::export::{Export, PAYLOAD_BYTES_DEFAULT, TransmissionFlags};
use crate::op::{Errno, Op};
use crate::wire::{RequestHeader, command, command_flag};

/// A part of a request that fits into one of the world's buffers, or all of a request that needs none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The request's place in the table.
    pub(super) request: u16,
    /// What is to be done.
    pub op: Op,
    /// First byte of the export.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
}

/// How a piece ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceEnd {
    /// Done; of a read, the bytes are in the buffer.
    Done,
    /// A read is done and all bytes are zero; they are in the buffer, too.
    Zeroes,
    /// It failed.
    Failed(Errno),
}

/// What a request is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Op(Op),
    /// Answered without the world.
    BlockStatus,
    /// Refused: never begun.
    Refused,
}

/// A request from its header until its last reply is handed out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) kind: Kind,
    /// It was a read, and thus is answered in the form of reads, refused or not.
    pub(super) reads: bool,
    pub(super) cookie: u64,
    pub(super) offset: u64,
    pub(super) length: u32,
    /// Bytes given out as pieces, or skipped.
    pub(super) cut: u32,
    /// No more pieces will be given out.
    pub(super) all_cut: bool,
    /// Pieces given out that have not ended; of reads, those that are not handed out as replies.
    pub(super) running: u32,
    /// Bytes of a read handed out in the order of a simple reply.
    pub(super) replied: u32,
    pub(super) error: Option<Errno>,
}

impl Request {
    pub(super) const IDLE: Self = Self {
        kind: Kind::Refused,
        reads: false,
        cookie: 0,
        offset: 0,
        length: 0,
        cut: 0,
        all_cut: true,
        running: 0,
        replied: 0,
        error: None,
    };

    /// The next piece, of at most `piece_bytes`. A request that fits is one piece; a longer one is cut where the
    /// export's multiples of `piece_bytes` are.
    pub(super) fn next_piece(&self, request: u16, op: Op, piece_bytes: u32) -> Piece {
        let left = self.length - self.cut;
        let offset = self.offset + u64::from(self.cut);
        let uncut = matches!(op, Op::Trim { .. } | Op::Flush);
        let length = if uncut || left <= piece_bytes && self.cut == 0 {
            left
        } else {
            left.min(piece_bytes - (offset % u64::from(piece_bytes)) as u32)
        };
        Piece { request, op, offset, length }
    }

    /// Counts a piece of `length` bytes as given out.
    pub(super) const fn count_piece(&mut self, length: u32) {
        self.cut += length;
        self.all_cut = self.cut == self.length;
        self.running += 1;
    }
}

/// What the checks need to know of the export and the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    size_bytes: u64,
    minimum: u32,
    payload_max: u32,
    flags: TransmissionFlags,
    structured: bool,
    allocation: bool,
    piece_bytes: u32,
}

/// Longest write whose payload is taken in only to refuse it.
pub(super) const REFUSED_PAYLOAD_MAX: u32 = PAYLOAD_BYTES_DEFAULT;

impl Rules {
    pub(super) fn new(export: &Export, structured: bool, allocation: bool, piece_bytes: u32) -> Self {
        let sizes = export.block_sizes;
        Self {
            size_bytes: export.size_bytes,
            minimum: sizes.minimum(),
            payload_max: sizes.payload_max(),
            flags: export.flags,
            structured,
            allocation,
            piece_bytes,
        }
    }

    /// The longest write that is no fault.
    pub(super) const fn write_bytes_max(&self) -> u32 {
        if self.payload_max > REFUSED_PAYLOAD_MAX { self.payload_max } else { REFUSED_PAYLOAD_MAX }
    }

    /// Returns what a request asks for, or the error that it gets.
    pub(super) fn check(&self, header: &RequestHeader) -> Result<Kind, Errno> {
        let kind = self.kind(header).ok_or(Errno::Invalid)?;
        let op = match kind {
            Kind::Op(op) => Some(op),
            Kind::BlockStatus | Kind::Refused => None,
        };
        if op == Some(Op::Flush) {
            return if header.offset == 0 && header.length == 0 { Ok(kind) } else { Err(Errno::Invalid) };
        }
        if op.is_some_and(Op::changes) && self.flags.contains(TransmissionFlags::READ_ONLY) {
            return Err(Errno::NotPermitted);
        }
        let grows = matches!(op, Some(Op::Write { .. } | Op::WriteZeroes { .. }));
        let end = header.offset.checked_add(u64::from(header.length));
        if end.is_none_or(|end| end > self.size_bytes) {
            return Err(if grows { Errno::NoSpace } else { Errno::Invalid });
        }
        if (header.offset | u64::from(header.length)) & (u64::from(self.minimum) - 1) != 0 {
            return Err(Errno::Invalid);
        }
        if kind == Kind::BlockStatus && header.length == 0 {
            return Err(Errno::Invalid);
        }
        self.check_length(op, header).map(|()| kind)
    }

    fn check_length(&self, op: Option<Op>, header: &RequestHeader) -> Result<(), Errno> {
        let too_long = match op {
            Some(Op::Read) if header.flags & command_flag::DF != 0 => self.piece_bytes.min(self.payload_max),
            Some(Op::Read | Op::Write { .. }) => self.payload_max,
            _ => u32::MAX,
        };
        if header.length <= too_long {
            return Ok(());
        }
        // Only reads in chunks may be refused as too long by name.
        Err(if op == Some(Op::Read) && self.structured { Errno::TooLong } else { Errno::Invalid })
    }

    /// The kind by command and flags; nothing for what was not offered.
    fn kind(&self, header: &RequestHeader) -> Option<Kind> {
        use TransmissionFlags as Flags;
        let offers = |flag| self.flags.contains(flag);
        let fua_offered = if offers(Flags::SEND_FUA) { command_flag::FUA } else { 0 };
        let df_offered = if self.structured { command_flag::DF } else { 0 };
        let fua = header.flags & command_flag::FUA != 0;
        let no_hole = header.flags & command_flag::NO_HOLE != 0;
        let (kind, allowed) = match header.command {
            command::READ => (Kind::Op(Op::Read), df_offered),
            command::WRITE => (Kind::Op(Op::Write { fua }), 0),
            command::FLUSH if offers(Flags::SEND_FLUSH) => (Kind::Op(Op::Flush), 0),
            command::TRIM if offers(Flags::SEND_TRIM) => (Kind::Op(Op::Trim { fua }), 0),
            command::CACHE if offers(Flags::SEND_CACHE) => (Kind::Op(Op::Cache), 0),
            command::WRITE_ZEROES if offers(Flags::SEND_WRITE_ZEROES) => {
                (Kind::Op(Op::WriteZeroes { fua, no_hole }), command_flag::NO_HOLE)
            }
            command::BLOCK_STATUS if self.allocation => (Kind::BlockStatus, command_flag::REQ_ONE),
            _ => return None,
        };
        (header.flags & !(allowed | fua_offered) == 0).then_some(kind)
    }
}
