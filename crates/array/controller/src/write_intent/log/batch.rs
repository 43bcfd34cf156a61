//! Batches: records that wait while others are being written go out together (group commit).
//!
//! ```text
//! digested ─► unsent: | 7 | 8 | 9 |  ─ the batch before is stored, or there is enough ─► one write per device
//!             ring:   … 6 │ 7 | 8 | 9 │ …
//! ```
//! Records with consecutive numbers lie one behind the other in the ring, so that they are one write there, with one flush
//! of the device's cache.
//! ```text
//! room given:   | header 7 | rows of 7 | header 8 | rows of 8 | header 9 | rows of 9 |
//! written:      | headers  | rows of 7 | rows of 8 | rows of 9 |  not written        |
//! ```
//! Headers share a block as far as they fit; one that does not begins the next block, behind the rows of those before it. A
//! start takes each record of a batch by itself.
//!
//! Invariant: the records of a batch need the same devices. So batches are made only where every stripe lies on all
//! members; in nested levels each record goes out as soon as it is digested.

use super::super::Surroundings;
use super::Log;
use crate::api::Segment;
use crate::geometry::Geometry;
use crate::ids::OpId;
use crate::own::OwnMemory;
use crate::stripe_engine::StripeOp;
use crate::table::Slab;
use core::ops::Range;
use raidlab_format::{seal_shared, set_payload_at, shared_len};
use std::collections::VecDeque;

/// Bytes of records that go out although others are being written: to transfer these takes longer than an I/O costs.
const BATCH_BYTES: u64 = 256 << 10;

/// The records in line for the members.
#[derive(Debug)]
pub(super) struct Unsent {
    /// In order: the digest of one may end after that of the next.
    sequences: VecDeque<u64>,
    /// Blocks of all of them.
    blocks: u64,
    /// Batches under way.
    batches: u32,
}

impl Unsent {
    pub(super) const fn new() -> Self {
        Self { sequences: VecDeque::new(), blocks: 0, batches: 0 }
    }
}

impl Log {
    /// Puts a record that is digested in line for the members.
    pub(super) fn line_up(&mut self, sequence: u64) {
        self.unsent.blocks += self.ring.record(sequence).blocks;
        let place = self.unsent.sequences.partition_point(|&earlier| earlier < sequence);
        self.unsent.sequences.insert(place, sequence);
    }

    /// Sends the batches that should go. Returns the first record of one that is where it can be found already, because no
    /// device is there: after that has been seen to this is to be called once more.
    pub(crate) fn send_batches(&mut self, around: &mut Surroundings<'_>) -> Option<u64> {
        let geometry = around.geometry;
        let shares_devices = geometry.unit_count() == usize::from(geometry.layout().member_count());
        let blocks_wanted = if shares_devices { BATCH_BYTES / geometry.block_bytes() } else { 0 };
        while let Some(first) = self.take_batch(blocks_wanted) {
            self.share_headers(first, around.own);
            if self.replicate(first, around) {
                return Some(first);
            }
        }
        None
    }

    /// Takes the records that go out next from the line. Returns the first of them.
    fn take_batch(&mut self, blocks_wanted: u64) -> Option<u64> {
        if self.unsent.batches > 0 && self.unsent.blocks < blocks_wanted {
            return None;
        }
        let first = self.unsent.sequences.pop_front()?;
        let record = self.ring.record(first);
        let (mut count, mut end, mut blocks) = (1, record.at_block + record.blocks, record.blocks);
        // It keeps its room until a later record that says that it is retired is complete, and the longest must have room beside it.
        let blocks_max = self.rules.blocks / 3;
        // What begins where the one before ends has the number that follows.
        while let Some(&next) = self.unsent.sequences.front()
            && blocks < blocks_wanted
            && blocks + self.ring.record(next).blocks <= blocks_max
            && self.ring.record(next).at_block == end
        {
            self.unsent.sequences.pop_front();
            let added = self.ring.record(next).blocks;
            (count, end, blocks) = (count + 1, end + added, blocks + added);
        }
        self.unsent.blocks -= blocks;
        self.unsent.batches += 1;
        self.ring.record_mut(first).batched = count;
        Some(first)
    }

    /// Puts the headers of a batch into as few blocks as they fit in.
    fn share_headers(&mut self, first: u64, own: &mut OwnMemory) {
        let block_bytes = self.rules.block_size.bytes() as usize;
        let (mut block, mut used, mut payload_at) = (0, block_bytes, 0);
        for sequence in self.batch(first) {
            let record = self.ring.record_mut(sequence);
            let length = shared_len(own.header_mut(record.header, block_bytes));
            record.shares_header = used + length <= block_bytes;
            if record.shares_header {
                own.copy_header(record.header, length, (block, used));
                let blocks = u16::try_from(payload_at).expect("a batch ends soon after 256 KiB");
                set_payload_at(&mut own.header_mut(block, block_bytes)[used..], blocks);
                used += length;
            } else {
                (block, used, payload_at) = (record.header, length, record.header_blocks);
            }
            payload_at += record.blocks - record.header_blocks;
        }
        for sequence in self.batch(first).skip(1) {
            let [begins, follows] = [sequence - 1, sequence].map(|it| self.ring.record(it));
            if follows.shares_header && !begins.shares_header {
                seal_shared(own.header_mut(begins.header, block_bytes));
            }
        }
    }

    /// Takes in that a batch is where it can be found again. Returns its records; others may be sent when they have been seen to.
    pub(crate) fn end_batch(&mut self, first: u64) -> Range<u64> {
        self.unsent.batches -= 1;
        self.batch(first)
    }

    fn batch(&self, first: u64) -> Range<u64> {
        first..first + u64::from(self.ring.record(first).batched)
    }

    /// Blocks that a batch writes.
    pub(super) fn batch_blocks(&self, first: u64) -> u64 {
        let records = self.batch(first).map(|sequence| self.ring.record(sequence));
        records.map(|record| record.blocks - u64::from(record.shares_header)).sum()
    }

    /// Adds where the bytes of a batch lie.
    pub(in crate::write_intent) fn batch_segments(
        &self,
        first: u64,
        geometry: &Geometry,
        (ops, own): (&Slab<StripeOp, OpId>, &OwnMemory),
        out: &mut Vec<Segment>,
    ) {
        for sequence in self.batch(first) {
            self.record_segments(sequence, geometry, (ops, own), out);
        }
    }
}
