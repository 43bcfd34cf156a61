//! A member I/O in flight: its memory, its entries, and its retries.
//!
//! ```text
//! gather ─► push: entries of the ring ─► all have ended ─► outcome ─► done, failed, or pushed again
//!           (of a link: `links`)              └─ a flush behind, if the write must be durable and there is no FUA
//! ```
//! A short or interrupted I/O goes on entry by entry from the last certain position ([`IoSlot::at`]), as long as it
//! makes progress. A flush is never retried: after an error the system may report the next one as a success although
//! the data of the failed one is lost (`fsync(2)`; Rebello et al., "Can Applications Recover from fsync Failures?",
//! USENIX ATC 2020).
//!
//! Invariant: its list of pieces stays in place while entries name it.

use crate::device::Flushing;
use crate::error::RingError;
use crate::memory::Memory;
use crate::pieces::cut;
use crate::ring::{Direction, PIECES_PER_ENTRY, Ring, Target};
use raidlab_controller::{MemberError, Segment};
use raidlab_device::ring::IoVec;
use raidlab_units::{MemberIndex, Nanos};

/// How often an I/O is tried that gets no further.
const ATTEMPTS: u32 = 4;

/// Bits of an I/O's number in the name of its entries; how often its slot was given up stands above them.
pub(super) const NUMBER_BITS: u32 = 24;

/// One member I/O in flight.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own about what is in flight")]
pub(super) struct IoSlot {
    pub(super) transfer: Option<Transfer>,
    pub(super) member: MemberIndex,
    pub(super) pieces: Vec<IoVec>,
    /// When it was begun.
    pub(super) since: Nanos,
    /// How many I/Os of this slot were given up while entries of theirs were in flight.
    pub(super) life: u8,
    /// Bytes that are moved for sure, over all copies, once its entries go out one by one.
    pub(super) at: Option<u64>,
    /// The memory of the entry that goes out alone.
    rest: Vec<IoVec>,
    /// It goes on waiting, on a device that was given up.
    pub(super) stays: bool,
    /// What is in flight is a flush.
    pub(super) is_flushing: bool,
    /// Entries not completed yet.
    pub(super) entries: u32,
    /// Bytes still to be moved.
    pub(super) bytes_left: u64,
    pub(super) attempts: u32,
    /// Interrupted by the system for a reason that has nothing to do with the member.
    pub(super) interrupted: bool,
    /// The device had no room for some of it.
    pub(super) lacks_room: bool,
    /// It has waited for room.
    pub(super) waited: bool,
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
    /// Transfers begin and end at multiples of this.
    pub(super) block_bytes: u64,
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
    /// The name of its entries: no other I/O has it while one of them is in flight.
    pub(super) const fn name(&self, number: u32) -> u32 {
        number | (self.life as u32) << NUMBER_BITS
    }

    /// Queues the I/O's entries.
    pub(super) fn push(&mut self, number: u32, flushing: Flushing, ring: &mut Ring) -> Result<(), RingError> {
        let file = self.member.0;
        let is_again = self.attempts > 0;
        self.attempts += 1;
        (self.interrupted, self.lacks_room, self.flush_after, self.error) = (false, false, false, None);
        self.bytes_left = 0;
        let Some(transfer) = self.transfer else { return self.push_flush(number, ring) };
        let Transfer { offset, copy_offset, bytes, buffer, .. } = transfer;
        self.is_flushing = false;
        let direction = match transfer.direction {
            Direction::Read => Direction::Read,
            Direction::Write { durable } => {
                self.flush_after = flushing.flushes_after(durable);
                Direction::Write { durable: flushing.has_fua(durable) }
            }
        };
        let copies = 1 + u32::from(copy_offset.is_some());
        self.bytes_left = bytes * u64::from(copies);
        if is_again {
            return self.push_rest(self.at.unwrap_or_default(), transfer, direction, number, ring);
        }
        self.entries = copies * self.pieces.len().div_ceil(PIECES_PER_ENTRY) as u32;
        let name = self.name(number);
        for start in [Some(offset), copy_offset].into_iter().flatten() {
            if let [piece] = self.pieces[..] {
                ring.push_transfer(name, file, direction, start, Target::Single(piece, buffer))?;
                continue;
            }
            let mut at = start;
            for pieces in self.pieces.chunks(PIECES_PER_ENTRY) {
                ring.push_transfer(name, file, direction, at, Target::Pieces(pieces))?;
                at += pieces.iter().map(|piece| piece.bytes as u64).sum::<u64>();
            }
        }
        Ok(())
    }

    /// Queues one entry that goes on from `at`.
    fn push_rest(
        &mut self,
        at: u64,
        transfer: Transfer,
        direction: Direction,
        number: u32,
        ring: &mut Ring,
    ) -> Result<(), RingError> {
        let at = at - at % transfer.block_bytes;
        self.at = Some(at);
        self.bytes_left -= at;
        self.entries = 1;
        let within = at % transfer.bytes;
        let start =
            if at < transfer.bytes { transfer.offset } else { transfer.copy_offset.expect("a second copy") };
        self.rest.clear();
        cut(&self.pieces, within, transfer.bytes - within, &mut self.rest);
        self.rest.truncate(PIECES_PER_ENTRY);
        let name = self.name(number);
        ring.push_transfer(name, self.member.0, direction, start + within, Target::Pieces(&self.rest))
    }

    pub(super) fn push_flush(&mut self, number: u32, ring: &mut Ring) -> Result<(), RingError> {
        self.entries = 1;
        self.is_flushing = true;
        ring.push_flush(self.name(number), self.member.0)
    }

    /// Takes in that an entry has moved so many bytes.
    pub(super) fn move_on(&mut self, bytes: u64) {
        self.bytes_left -= bytes;
        if let (Some(at), Some(transfer)) = (&mut self.at, self.transfer) {
            *at += bytes;
            if bytes >= transfer.block_bytes {
                self.attempts = 1;
            }
        }
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
    use std::io::Read;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::FileExt;

    /// One I/O of three pieces and two copies on a file; each transfer counts for `moved` bytes only, what is behind them is spoilt.
    /// Returns how the I/O ended, how many transfers it took, and the file.
    fn cut_short(moved: u64) -> (Result<(), MemberError>, u32, Vec<u8>) {
        const BLOCK: usize = 4096;
        let data: Vec<u8> = (0..6 * BLOCK).map(|at| (at / BLOCK + at) as u8).collect();
        let mut file = tempfile::tempfile().expect("a file");
        let mut ring = Ring::new(1, raidlab_units::NanoSpan::ZERO).expect("a ring");
        ring.set_file(0, file.as_raw_fd()).expect("it is taken");
        let bounds = [0..BLOCK, BLOCK..4 * BLOCK, 4 * BLOCK..6 * BLOCK];
        let mut slot =
            IoSlot { pieces: bounds.map(|range| IoVec::of(&data[range])).to_vec(), ..IoSlot::default() };
        // They lie side by side; so that they do not, the middle one comes last.
        slot.pieces.swap(1, 2);
        let bytes = data.len() as u64;
        let (direction, copy_offset) = (Direction::Write { durable: false }, Some(bytes));
        slot.transfer = Some(Transfer {
            direction,
            offset: 0,
            copy_offset,
            bytes,
            block_bytes: BLOCK as u64,
            buffer: None,
        });
        let (mut transfers, mut done) = (0, Vec::new());
        let result = loop {
            slot.push(0, Flushing::Whole, &mut ring).expect("it is pushed");
            while slot.entries > 0 {
                ring.enter(Some(raidlab_units::NanoSpan::from_millis(100))).expect("the ring works");
                ring.reap(&mut done);
                for end in done.drain(..) {
                    let whole = u64::from(end.result.expect("it is written"));
                    let counted = whole.min(moved);
                    if let Some(at) = slot.at {
                        let junk = vec![0xee; (whole - counted) as usize];
                        file.write_all_at(&junk, at + counted).expect("it is spoilt");
                    }
                    slot.entries -= 1;
                    slot.move_on(counted);
                    transfers += 1;
                }
            }
            if let Some(result) = slot.outcome() {
                break result;
            }
        };
        let mut found = Vec::new();
        file.read_to_end(&mut found).expect("it is read");
        let copy = [&data[..BLOCK], &data[4 * BLOCK..], &data[BLOCK..4 * BLOCK]].concat();
        assert!(result.is_err() || found == copy.repeat(2), "wrong bytes after transfers of {moved}");
        (result, transfers, found)
    }

    #[test]
    fn transfers_that_are_cut_short_go_on_where_they_ended_for_as_long_as_they_get_on() {
        // Two copies at once; then blocks of both, one by one, and no more than that.
        for (moved, transfers) in [(1 << 20, 2), (4096, 2 + 12), (8192 + 512, 2 + 6), (5 * 4096, 2 + 4)] {
            let (result, counted, _) = cut_short(moved);
            assert_eq!((result, counted), (Ok(()), transfers), "{moved}");
        }
        for stuck in [0, 511] {
            assert_eq!(cut_short(stuck).0, Err(MemberError::Gone), "{stuck}");
        }
    }

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
