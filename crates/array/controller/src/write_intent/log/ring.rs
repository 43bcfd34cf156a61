//! The ring of the log: the numbers of records, the room of each, and the oldest that is not retired.
//!
//! ```text
//!             ring:   | free | retired | applied | live | writing | free |
//!                            tail ─────────────────────────► head
//! ```
//! Records have consecutive sequence numbers; room is given and taken in that order. A retired record keeps its room until the
//! devices have a record or state that says so: a torn record must not take with it a later one and leave an older one of the same
//! rows, which a start would write again over newer data. So the longest record always has room left for it: one that says what is
//! retired. A record never wraps: what does not fit before the end of the ring begins at its start.
//!
//! Records that share a write are given room one by one, and lose it together: the headers of all stand at its beginning.
//!
//! Left out: what records hold and where they go, which is the log's.

use crate::ids::OpId;
use crate::request::Rows;
use core::ops::Range;
use raidlab_format::RecordHolds;
use raidlab_units::{MemberIndex, StripeIndex};
use std::collections::VecDeque;

/// How far a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Digesting,
    Writing,
    Live,
    /// Its writes in place are done; records are counted as that happens.
    Applied(u64),
    Retired,
}

/// One record.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) op: OpId,
    pub(super) stripe: StripeIndex,
    pub(super) phase: Phase,
    pub(super) holds: RecordHolds,
    /// The rows from the first to the last that it names.
    pub(super) rows: Rows,
    /// The strip that is written, where it holds partial parity.
    pub(super) partial_of: Option<u16>,
    /// Where it begins in the ring.
    pub(super) at_block: u64,
    pub(super) header_blocks: u64,
    pub(super) blocks: u64,
    /// Its header's place in own memory.
    pub(super) header: u32,
    /// Its header stands in a block with that of the record before it.
    pub(super) shares_header: bool,
    /// The tail that it names.
    pub(super) named_tail: u64,
    /// Records that share its writes, itself included; the fields below are those of the first of them.
    pub(super) batched: u32,
    /// Devices that it was sent to.
    pub(super) replicas: [Option<MemberIndex>; REPLICAS_MAX],
    pub(super) pending: u8,
    pub(super) found_by: FoundBy,
}

/// Which controller finds a record at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FoundBy {
    /// Any: it is on the members, or not sent yet, so that nothing has been written in place.
    Any,
    /// Either of the two: it is in the NVRAM of both.
    Both,
    /// This one only: it is in its NVRAM.
    ThisOnly,
}

/// What a start does to rows by a record that is not retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DoneBefore {
    Nothing,
    /// They are written again, or compared.
    Rewritten,
    /// A strip is left as it is found, old or new.
    LeftAsFound,
}

/// Two parities at most, and one more.
pub(super) const REPLICAS_MAX: usize = 3;

/// Sequential writes side by side that are recognised.
const STREAMS: usize = 4;

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    blocks: u64,
    /// Oldest first; sequences are consecutive.
    records: VecDeque<Record>,
    first_sequence: u64,
    /// The tail that records name. A device that is missing may lack what was retired since it left, and is taken for
    /// one in sync until the devices know better; so this stays behind while they do not.
    named_tail: u64,
    /// The highest tail that the devices have.
    kept_tail: u64,
    /// Sequence and stripe of the records that no tail on the devices excludes yet, oldest first.
    replayable: VecDeque<(u64, StripeIndex)>,
}

impl Ring {
    /// An empty ring of so many blocks whose next record has number `next_sequence`.
    pub(super) const fn new(blocks: u64, next_sequence: u64) -> Self {
        Self {
            blocks,
            records: VecDeque::new(),
            first_sequence: next_sequence,
            named_tail: next_sequence,
            kept_tail: next_sequence,
            replayable: VecDeque::new(),
        }
    }

    pub(super) fn record(&self, sequence: u64) -> &Record {
        &self.records[(sequence - self.first_sequence) as usize]
    }

    pub(super) fn record_mut(&mut self, sequence: u64) -> &mut Record {
        &mut self.records[(sequence - self.first_sequence) as usize]
    }

    /// The records that have room, oldest first.
    pub(super) fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// The records that a start writes again, by the tail that is named: those that are retired, too, while the devices do not
    /// know who has failed since, and may have failed the very flush.
    pub(super) fn replayed(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().skip((self.named_tail - self.first_sequence) as usize)
    }

    pub(super) fn records_mut(&mut self) -> impl Iterator<Item = &mut Record> {
        self.records.iter_mut()
    }

    /// Takes in a record that has got room. Returns its number.
    pub(super) fn begin(&mut self, record: Record) -> u64 {
        let sequence = self.first_sequence + self.records.len() as u64;
        self.replayable.push_back((sequence, record.stripe));
        self.records.push_back(record);
        sequence
    }

    /// True if a crash might let an older record of the stripe be written again.
    pub(super) fn may_be_replayed(&self, stripe: StripeIndex) -> bool {
        self.replayable.iter().any(|&(_, of)| of == stripe)
    }

    /// True if one of the latest records is of the stripe or the one before it.
    pub(super) fn goes_on_in(&self, stripe: StripeIndex) -> bool {
        let latest = self.replayable.iter().rev().take(STREAMS);
        latest.map(|&(_, of)| of.0).any(|of| of == stripe.0 || of + 1 == stripe.0)
    }

    /// True if a start would compare the stripe with a record of checksums, and power may yet take some of what that wrote.
    pub(super) fn is_to_be_compared(&self, stripe: StripeIndex) -> bool {
        let is_it = |record: &Record| record.stripe == stripe && record.holds == RecordHolds::Checksums;
        self.records.iter().any(|record| is_it(record) && record.phase != Phase::Retired)
    }

    /// What a start would do first to these rows of the stripe, of what power may yet take; what `own`, a strip, has of partial parity
    /// does not count.
    pub(super) fn done_before(&self, stripe: StripeIndex, rows: Rows, own: Option<u16>) -> DoneBefore {
        if !self.may_be_replayed(stripe) {
            return DoneBefore::Nothing;
        }
        let counts = |record: &&Record| {
            let is_own = record.partial_of.is_some() && record.partial_of == own;
            record.stripe == stripe && record.phase != Phase::Retired && record.rows.overlaps(rows) && !is_own
        };
        let done = |record: &Record| match record.partial_of {
            None => DoneBefore::Rewritten,
            Some(_) => DoneBefore::LeftAsFound,
        };
        self.records.iter().filter(counts).map(done).max().unwrap_or(DoneBefore::Nothing)
    }

    /// The tail that records name.
    pub(super) const fn named_tail(&self) -> u64 {
        self.named_tail
    }

    /// Lets records name the present tail.
    pub(super) fn name_tail(&mut self) {
        self.named_tail = self.tail();
    }

    /// Frees the room of records before the tail that is named and that the devices have, batch by batch.
    pub(super) fn forget_retired(&mut self) {
        let tail = self.kept_tail.min(self.named_tail);
        let freed = self.before(tail);
        self.records.drain(..freed);
        self.first_sequence += freed as u64;
    }

    /// How many records, in whole batches, are before `tail`.
    fn before(&self, tail: u64) -> usize {
        let mut count = 0;
        while let Some(first) = self.records.get(count)
            && self.first_sequence + count as u64 + u64::from(first.batched) <= tail
        {
            count += first.batched as usize;
        }
        count
    }

    /// Takes in that the devices have a state or record which names this tail.
    pub(super) fn tail_is_kept(&mut self, tail: u64) {
        self.kept_tail = self.kept_tail.max(tail);
        while self.replayable.front().is_some_and(|&(sequence, _)| sequence < tail) {
            self.replayable.pop_front();
        }
    }

    /// The oldest record that is not retired, or the next one.
    pub(super) fn tail(&self) -> u64 {
        let retired = self.records.iter().take_while(|record| record.phase == Phase::Retired);
        self.first_sequence + retired.count() as u64
    }

    /// True when every record is retired.
    pub(super) fn is_drained(&self) -> bool {
        self.records.iter().all(|record| record.phase == Phase::Retired)
    }

    /// Where a record of so many blocks may go: it touches none that a start may still find, and leaves room for the longest, a third
    /// of the ring, at the latest when the devices have the tail that it names.
    pub(super) fn room_for(&self, blocks: u64) -> Option<u64> {
        let (Some(first), Some(last)) = (self.records.front(), self.records.back()) else {
            return (blocks <= self.blocks).then_some(0);
        };
        let latest = last.at_block..last.at_block + last.blocks;
        let at_block = self.room_between(latest, first.at_block, blocks)?;
        let own = at_block..at_block + blocks;
        let leaves_room = |first| self.room_between(own.clone(), first, self.blocks / 3).is_some();
        let first_kept = || self.records.get(self.before(self.named_tail)).map_or(at_block, |it| it.at_block);
        (leaves_room(first.at_block) || leaves_room(first_kept())).then_some(at_block)
    }

    /// Where `blocks` may go behind the latest record without touching the oldest.
    fn room_between(&self, latest: Range<u64>, oldest_at: u64, blocks: u64) -> Option<u64> {
        let head = latest.end;
        if latest.start >= oldest_at {
            if head + blocks <= self.blocks {
                return Some(head);
            }
            return (blocks <= oldest_at).then_some(0);
        }
        (head + blocks <= oldest_at).then_some(head)
    }
}

#[cfg(test)]
mod tests;
