//! A member I/O in flight: its memory, its entries, and whether it is tried again.
//!
//! ```text
//! gather ─► push: entries of the ring ─► all have ended ─► outcome ─► done, failed, or pushed again
//!           (of a link: `links`)              └─ a flush behind, where the write is to be durable and has no FUA
//! ```
//! Invariant: its list of pieces stays where it is while entries name it.

use crate::device::Flushing;
use crate::error::RingError;
use crate::memory::Memory;
use crate::pieces::IoVec;
use crate::ring::{Direction, PIECES_PER_ENTRY, Ring, Target};
use raidlab_controller::{MemberError, Segment};
use raidlab_units::MemberIndex;

/// How often an I/O is tried that the system interrupts or cuts short.
const ATTEMPTS: u32 = 4;

/// One member I/O in flight.
#[derive(Debug, Default)]
pub(super) struct IoSlot {
    pub(super) transfer: Option<Transfer>,
    pub(super) member: MemberIndex,
    pub(super) pieces: Vec<IoVec>,
    /// Entries not completed yet.
    pub(super) entries: u32,
    /// Bytes still to be moved.
    pub(super) bytes_left: u64,
    pub(super) attempts: u32,
    /// Interrupted by the system for a reason that has nothing to do with the member.
    pub(super) interrupted: bool,
    /// A flush follows when all of it is written, to make it durable.
    pub(super) flush_after: bool,
    pub(super) error: Option<MemberError>,
}

impl AsRef<[IoVec]> for IoSlot {
    fn as_ref(&self) -> &[IoVec] {
        &self.pieces
    }
}

/// What a read or write needs beside its pieces, kept so that it can be tried again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transfer {
    pub(super) direction: Direction,
    /// On the device.
    pub(super) offset: u64,
    /// Where it is written once more: label and states have a second copy.
    pub(super) copy_offset: Option<u64>,
    pub(super) bytes: u64,
    /// Registered buffer that holds the only piece.
    pub(super) buffer: Option<u16>,
}

/// Turns segments into pieces of memory, those that touch joined into one.
pub(super) fn gather(segments: &[Segment], memory: &Memory, pieces: &mut Vec<IoVec>) {
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
    pub(super) fn push(&mut self, number: u32, flushing: Flushing, ring: &mut Ring) -> Result<(), RingError> {
        let file = self.member.0;
        self.attempts += 1;
        (self.interrupted, self.flush_after, self.error) = (false, false, None);
        self.bytes_left = 0;
        let Some(Transfer { direction, offset, copy_offset, bytes, buffer }) = self.transfer else {
            return self.push_flush(number, ring);
        };
        let direction = match direction {
            Direction::Read => Direction::Read,
            Direction::Write { durable } => {
                self.flush_after = flushing.flushes_after(durable);
                Direction::Write { durable: flushing.has_fua(durable) }
            }
        };
        let copies = 1 + u32::from(copy_offset.is_some());
        self.bytes_left = bytes * u64::from(copies);
        self.entries = copies * self.pieces.len().div_ceil(PIECES_PER_ENTRY) as u32;
        for start in [Some(offset), copy_offset].into_iter().flatten() {
            if let [piece] = self.pieces[..] {
                ring.push_transfer(number, file, direction, start, Target::Single(piece, buffer))?;
                continue;
            }
            let mut at = start;
            for pieces in self.pieces.chunks(PIECES_PER_ENTRY) {
                ring.push_transfer(number, file, direction, at, Target::Pieces(pieces))?;
                at += pieces.iter().map(|piece| piece.bytes as u64).sum::<u64>();
            }
        }
        Ok(())
    }

    pub(super) fn push_flush(&mut self, number: u32, ring: &mut Ring) -> Result<(), RingError> {
        self.entries = 1;
        ring.push_flush(number, self.member.0)
    }

    /// How the I/O ended, or `None` if it is to be tried again.
    pub(super) fn outcome(&self) -> Option<Result<(), MemberError>> {
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
}
