//! Member I/O: from the controller's [`MemberIo`] to entries of the ring and back.
//!
//! An I/O whose memory is one piece is one entry, on a registered buffer where there is one. An I/O of many pieces
//! is one vectored entry, or several where the pieces exceed what one entry takes; then the I/O is done when all
//! of them are. Pieces that touch are joined first.
//!
//! Invariant: a slot of `slots` is in use from [`MemberPort::issue`] until its I/O is handed out by
//! [`MemberPort::take`], and its list of pieces stays where it is for that time.

use crate::error::RingError;
use crate::mark::DATA_OFFSET_BYTES;
use crate::members::Members;
use crate::memory::Memory;
use crate::ring::{Direction, Done, IoVec, PIECES_PER_ENTRY, Ring, Target};
use raidlab_controller::{MemberError, MemberIo, MemberIoId, MemberOp, Segment};
use raidlab_units::{BlockSize, MemberIndex};
use rustix::io::Errno;

/// The members as the controller sees them: I/Os in, completions out.
#[derive(Debug)]
pub(crate) struct MemberPort {
    slots: Vec<IoSlot>,
    members: Members,
    block_size: BlockSize,
}

/// The end of a member I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoEnd {
    /// Which.
    pub(crate) id: MemberIoId,
    /// How it ended.
    pub(crate) result: Result<(), MemberError>,
}

/// How often an I/O is tried that the system interrupts or cuts short.
const ATTEMPTS: u32 = 4;

/// One member I/O in flight.
#[derive(Debug, Default)]
struct IoSlot {
    transfer: Option<Transfer>,
    member: MemberIndex,
    pieces: Vec<IoVec>,
    /// Entries not completed yet.
    entries: u32,
    /// Bytes still to be moved.
    bytes_left: u64,
    attempts: u32,
    /// Interrupted by the system for a reason that has nothing to do with the member.
    interrupted: bool,
    error: Option<MemberError>,
}

/// What a read or write needs beside its pieces, kept so that it can be tried again.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    direction: Direction,
    /// In the member's file.
    offset: u64,
    bytes: u64,
    /// Registered buffer that holds the only piece.
    buffer: Option<u16>,
}

impl MemberPort {
    /// Registers `members` with the ring, each at its number.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn new(members: Members, block_size: BlockSize, ring: &mut Ring) -> Result<Self, RingError> {
        for (place, file) in (0..).zip(members.descriptors()) {
            ring.set_file(place, file)?;
        }
        Ok(Self { slots: Vec::new(), members, block_size })
    }

    /// The members.
    pub(crate) const fn members(&self) -> &Members {
        &self.members
    }

    /// Queues one member I/O. `segments` are its memory, in member block order.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn issue(
        &mut self,
        io: &MemberIo,
        segments: &[Segment],
        memory: &Memory,
        ring: &mut Ring,
    ) -> Result<(), RingError> {
        let index = io.id.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, IoSlot::default);
        }
        let slot = &mut self.slots[index];
        assert!(slot.entries == 0, "member I/O {index} is in flight already");
        slot.member = io.member;
        slot.attempts = 0;
        gather(segments, memory, &mut slot.pieces);
        let bytes = self.block_size.bytes_of(io.blocks).get();
        let gathered: u64 = slot.pieces.iter().map(|piece| piece.bytes as u64).sum();
        assert!(gathered == bytes, "segments of {gathered} bytes for an I/O of {bytes}");
        let direction = match io.op {
            MemberOp::Read => Some(Direction::Read),
            MemberOp::Write { fua } => Some(Direction::Write { durable: fua }),
            MemberOp::Flush => None,
        };
        slot.transfer = direction.map(|direction| Transfer {
            direction,
            offset: DATA_OFFSET_BYTES + io.lba.0 * self.block_size.bytes(),
            bytes,
            buffer: match slot.pieces[..] {
                [_] => memory.registered_buffer(segments[0].buffer, bytes),
                _ => None,
            },
        });
        slot.push(io.id.0, ring)
    }

    /// Takes in a completion. Returns how the I/O ended, if it was its last.
    ///
    /// # Errors
    /// [`RingError`] if an interrupted I/O can't be queued again.
    pub(crate) fn take(&mut self, done: Done, ring: &mut Ring) -> Result<Option<IoEnd>, RingError> {
        let slot = &mut self.slots[done.number as usize];
        slot.entries -= 1;
        match done.result {
            Ok(bytes) => slot.bytes_left -= u64::from(bytes),
            Err(Errno::INTR | Errno::AGAIN | Errno::NOMEM) => slot.interrupted = true,
            Err(errno) => {
                let path = self.members.path(slot.member);
                tracing::warn!(member = %slot.member, path = %path.display(), %errno, "member I/O failed");
                slot.error = Some(worse(slot.error, classify(errno)));
            }
        }
        if slot.entries > 0 {
            return Ok(None);
        }
        match slot.outcome() {
            Some(result) => Ok(Some(IoEnd { id: MemberIoId(done.number), result })),
            None => slot.push(done.number, ring).map(|()| None),
        }
    }

    /// Gives the members back; nothing may be in flight.
    pub(crate) fn into_members(self) -> Members {
        self.members
    }
}

/// Turns segments into pieces of memory, those that touch joined into one.
fn gather(segments: &[Segment], memory: &Memory, pieces: &mut Vec<IoVec>) {
    pieces.clear();
    for segment in segments {
        let next = memory.io_vec(segment.buffer, segment.bytes);
        match pieces.last_mut() {
            Some(last) if last.base.addr() + last.bytes == next.base.addr() => last.bytes += next.bytes,
            _ => pieces.push(next),
        }
    }
}

impl IoSlot {
    /// Queues the I/O's entries.
    fn push(&mut self, number: u32, ring: &mut Ring) -> Result<(), RingError> {
        let file = self.member.0;
        self.attempts += 1;
        self.interrupted = false;
        self.error = None;
        self.entries = 1;
        self.bytes_left = self.transfer.map_or(0, |transfer| transfer.bytes);
        let Some(Transfer { direction, offset, buffer, .. }) = self.transfer else {
            return ring.push_flush(number, file);
        };
        if let [piece] = self.pieces[..] {
            return ring.push_transfer(number, file, direction, offset, Target::Single(piece, buffer));
        }
        let mut at = offset;
        self.entries = self.pieces.len().div_ceil(PIECES_PER_ENTRY) as u32;
        for pieces in self.pieces.chunks(PIECES_PER_ENTRY) {
            ring.push_transfer(number, file, direction, at, Target::Pieces(pieces))?;
            at += pieces.iter().map(|piece| piece.bytes as u64).sum::<u64>();
        }
        Ok(())
    }

    /// How the I/O ended, or `None` if it is to be tried again.
    fn outcome(&self) -> Option<Result<(), MemberError>> {
        if let Some(error) = self.error {
            return Some(Err(error));
        }
        if !self.interrupted && self.bytes_left == 0 {
            return Some(Ok(()));
        }
        if self.attempts < ATTEMPTS {
            return None;
        }
        // A transfer that moves too little time and again meets the end of the file: the member was cut behind our
        // back. One that is interrupted time and again says nothing against the member as a whole.
        Some(Err(if self.interrupted { MemberError::Medium } else { MemberError::Gone }))
    }
}

/// What an error of the system means for the array. Only errors that say that the device itself is no more make
/// the member gone; all others leave it in the array, and the array repairs or reports the blocks concerned.
/// Source: `block/blk-core.c` of Linux, the table `blk_errors`, says which error a device's answer becomes.
fn classify(errno: Errno) -> MemberError {
    match errno {
        Errno::NXIO | Errno::NODEV | Errno::BADF | Errno::NOLINK | Errno::STALE => MemberError::Gone,
        _ => MemberError::Medium,
    }
}

/// A member that is gone is worse than one that can't read some blocks.
fn worse(first: Option<MemberError>, second: MemberError) -> MemberError {
    if first == Some(MemberError::Gone) { MemberError::Gone } else { second }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_io_is_tried_again_only_when_that_may_help() {
        let slot = |attempts, interrupted, bytes_left, error| IoSlot {
            bytes_left,
            attempts,
            interrupted,
            error,
            ..IoSlot::default()
        };
        let rows = [
            (slot(1, false, 0, None), Some(Ok(()))),
            (slot(1, true, 512, None), None),
            (slot(1, true, 0, None), None),
            (slot(1, false, 512, None), None),
            (slot(ATTEMPTS, false, 0, None), Some(Ok(()))),
            (slot(ATTEMPTS, true, 512, None), Some(Err(MemberError::Medium))),
            (slot(ATTEMPTS, false, 512, None), Some(Err(MemberError::Gone))),
            (slot(1, true, 512, Some(MemberError::Gone)), Some(Err(MemberError::Gone))),
        ];
        for (slot, expected) in rows {
            assert_eq!(slot.outcome(), expected, "{slot:?}");
        }
    }

    #[test]
    fn errors_of_the_system_become_errors_of_members() {
        let rows = [
            (Errno::IO, MemberError::Medium),
            (Errno::NODATA, MemberError::Medium),
            (Errno::ILSEQ, MemberError::Medium),
            (Errno::NOSPC, MemberError::Medium),
            (Errno::NXIO, MemberError::Gone),
            (Errno::NODEV, MemberError::Gone),
            (Errno::BADF, MemberError::Gone),
        ];
        for (errno, expected) in rows {
            assert_eq!(classify(errno), expected, "{errno}");
        }
        assert_eq!(worse(Some(MemberError::Gone), MemberError::Medium), MemberError::Gone);
        assert_eq!(worse(Some(MemberError::Medium), MemberError::Gone), MemberError::Gone);
        assert_eq!(worse(None, MemberError::Medium), MemberError::Medium);
    }
}
