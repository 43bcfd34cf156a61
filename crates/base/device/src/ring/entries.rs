//! Entries that load and arrays have in common. To make one touches nothing; to push it is `unsafe`, since it names memory.
//!
//! | memory of a transfer | operation |
//! |---|---|
//! | one piece in a registered buffer | `READ_FIXED`, `WRITE_FIXED` |
//! | one piece elsewhere | `READ`, `WRITE` |
//! | several pieces | `READV`, `WRITEV` |

use super::{IoVec, MessageHeader};
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::Fd;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// `RWF_DSYNC` of `pwritev2(2)`: the write is durable when it completes.
const RWF_DSYNC: i32 = 2;
/// `MSG_WAITALL`: a receive ends only when all of it is there.
const MSG_WAITALL: u32 = 0x100;
/// `MSG_NOSIGNAL`: a peer that is gone is an error and no signal.
const MSG_NOSIGNAL: u32 = 0x4000;
/// `SOCK_CLOEXEC`.
const SOCK_CLOEXEC: i32 = 0o2_000_000;
/// `POLLIN` of `poll(2)`.
const POLLIN: u32 = 1;
/// Longest list of pieces in one entry (`IOV_MAX`).
pub const PIECES_PER_ENTRY: usize = 1024;

/// A file or a socket of an entry.
#[derive(Clone, Copy, Debug)]
pub struct FileRef {
    number: i32,
    flags: Flags,
}

impl FileRef {
    /// The registered file at a place.
    #[inline]
    pub const fn registered(place: u32) -> Self {
        Self { number: place.cast_signed(), flags: Flags::FIXED_FILE }
    }

    /// A file by its descriptor, which stays open as long as an entry of it is in flight.
    pub fn open(file: &impl AsRawFd) -> Self {
        Self { number: file.as_raw_fd(), flags: Flags::empty() }
    }

    /// Makes an entry of this file.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "as `transfer`")]
    pub fn entry(self, make: impl FnOnce(Fd) -> Entry) -> Entry {
        make(Fd(self.number)).flags(self.flags)
    }
}

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
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
pub enum Target<'a> {
    /// One piece, within the registered buffer of that number if there is one.
    Single(IoVec, Option<u16>),
    /// At most [`PIECES_PER_ENTRY`] pieces.
    Pieces(&'a [IoVec]),
}

impl Target<'_> {
    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Single(piece, _) => piece.bytes,
            Self::Pieces(pieces) => pieces.iter().map(|piece| piece.bytes).sum(),
        }
    }
}

/// A transfer at byte `offset` of `file`. Its memory stays as it is, and a list of pieces where it is, until the end.
#[inline(always)]
#[allow(
    clippy::inline_always,
    reason = "an entry is 64 bytes, which calls copy; measured with the engines' example engine_cost"
)]
pub fn transfer(file: FileRef, direction: Direction, offset: u64, target: Target<'_>) -> Entry {
    let how = if direction == (Direction::Write { durable: true }) { RWF_DSYNC } else { 0 };
    file.entry(|file| match (direction, target) {
        (Direction::Read, Target::Single(IoVec { base, bytes }, Some(buffer))) => {
            opcode::ReadFixed::new(file, base, bytes as u32, buffer).offset(offset).build()
        }
        (Direction::Read, Target::Single(IoVec { base, bytes }, None)) => {
            opcode::Read::new(file, base, bytes as u32).offset(offset).build()
        }
        (Direction::Read, Target::Pieces(pieces)) => {
            opcode::Readv::new(file, pieces.as_ptr().cast(), pieces.len() as u32).offset(offset).build()
        }
        (Direction::Write { .. }, Target::Single(IoVec { base, bytes }, Some(buffer))) => {
            opcode::WriteFixed::new(file, base, bytes as u32, buffer).offset(offset).rw_flags(how).build()
        }
        (Direction::Write { .. }, Target::Single(IoVec { base, bytes }, None)) => {
            opcode::Write::new(file, base, bytes as u32).offset(offset).rw_flags(how).build()
        }
        (Direction::Write { .. }, Target::Pieces(pieces)) => {
            let (list, count) = (pieces.as_ptr().cast(), pieces.len() as u32);
            opcode::Writev::new(file, list, count).offset(offset).rw_flags(how).build()
        }
    })
}

/// Receives what is there into `piece`, or all of it if `whole`.
pub fn receive(socket: FileRef, piece: IoVec, whole: bool) -> Entry {
    let how = if whole { MSG_WAITALL.cast_signed() } else { 0 };
    socket.entry(|socket| opcode::Recv::new(socket, piece.base, piece.bytes as u32).flags(how).build())
}

/// Receives into all pieces of a message. The header stays where it is until the end, too.
pub fn receive_message(socket: FileRef, header: &mut MessageHeader) -> Entry {
    let header = std::ptr::from_mut(header).cast();
    socket.entry(|socket| opcode::RecvMsg::new(socket, header).flags(MSG_WAITALL).build())
}

/// Sends `piece`, or its beginning.
pub fn send(socket: FileRef, piece: IoVec) -> Entry {
    let how = MSG_NOSIGNAL.cast_signed();
    socket.entry(|socket| opcode::Send::new(socket, piece.base, piece.bytes as u32).flags(how).build())
}

/// Sends a message. The header stays where it is until the end, too.
pub fn send_message(socket: FileRef, header: &mut MessageHeader) -> Entry {
    let header = std::ptr::from_mut(header).cast_const().cast();
    socket.entry(|socket| opcode::SendMsg::new(socket, header).flags(MSG_NOSIGNAL).build())
}

/// Waits for a client at `listener`; the entry ends with its descriptor.
pub fn accept(listener: FileRef) -> Entry {
    listener
        .entry(|listener| opcode::Accept::new(listener, null_mut(), null_mut()).flags(SOCK_CLOEXEC).build())
}

/// Waits once until `file` is readable.
pub fn readable(file: FileRef) -> Entry {
    file.entry(|file| opcode::PollAdd::new(file, POLLIN).build())
}
