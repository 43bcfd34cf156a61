//! Transfers as entries of the ring: which operation does a read or a write, by its memory.
//!
//! | memory | operation |
//! |---|---|
//! | one piece in a registered buffer | `READ_FIXED`, `WRITE_FIXED` |
//! | one piece elsewhere | `READ`, `WRITE` |
//! | several pieces | `READV`, `WRITEV` |

use crate::pieces::IoVec;
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fixed;

/// `RWF_DSYNC` of `pwritev2(2)`: the write is durable when it completes.
const RWF_DSYNC: i32 = 2;
/// Longest list of pieces in one entry (`IOV_MAX`).
pub(crate) const PIECES_PER_ENTRY: usize = 1024;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// File to memory.
    Read,
    /// Memory to file.
    Write {
        /// Durable on completion.
        durable: bool,
    },
}

/// Memory of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'a> {
    /// One piece, within the registered buffer of that number if there is one.
    Single(IoVec, Option<u16>),
    /// At most [`PIECES_PER_ENTRY`] pieces.
    Pieces(&'a [IoVec]),
}

impl Target<'_> {
    /// Its length in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Single(piece, _) => piece.bytes,
            Self::Pieces(pieces) => pieces.iter().map(IoVec::bytes).sum(),
        }
    }
}

/// The entry of a transfer at byte `offset` of the registered `file`.
pub(super) fn transfer_entry(file: u16, direction: Direction, offset: u64, target: Target<'_>) -> Entry {
    let file = Fixed(file.into());
    match (direction, target) {
        (Direction::Read, Target::Single(piece, Some(buffer))) => {
            opcode::ReadFixed::new(file, piece.base, piece.bytes as u32, buffer).offset(offset).build()
        }
        (Direction::Read, Target::Single(piece, None)) => {
            opcode::Read::new(file, piece.base, piece.bytes as u32).offset(offset).build()
        }
        (Direction::Read, Target::Pieces(pieces)) => {
            opcode::Readv::new(file, pieces.as_ptr().cast(), pieces.len() as u32).offset(offset).build()
        }
        (Direction::Write { durable }, Target::Single(piece, Some(buffer))) => {
            opcode::WriteFixed::new(file, piece.base, piece.bytes as u32, buffer)
                .offset(offset)
                .rw_flags(write_flags(durable))
                .build()
        }
        (Direction::Write { durable }, Target::Single(piece, None)) => {
            opcode::Write::new(file, piece.base, piece.bytes as u32)
                .offset(offset)
                .rw_flags(write_flags(durable))
                .build()
        }
        (Direction::Write { durable }, Target::Pieces(pieces)) => {
            opcode::Writev::new(file, pieces.as_ptr().cast(), pieces.len() as u32)
                .offset(offset)
                .rw_flags(write_flags(durable))
                .build()
        }
    }
}

const fn write_flags(durable: bool) -> i32 {
    if durable { RWF_DSYNC } else { 0 }
}
