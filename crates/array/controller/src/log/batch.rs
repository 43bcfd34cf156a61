//! Batches: records that wait while others are being written go out together (group commit).
//!
//! ```text
//! digested ─► unsent: | 7 | 8 | 9 |  ─ the batch before is stored, or there is enough ─► one write per device
//!             ring:   … 6 │ 7 | 8 | 9 │ …
//! ```
//! Records with consecutive numbers lie one behind the other in the ring, so that they are one write there, with one flush
//! of the device's cache. Each record stays whole by itself: a start that finds some of a batch takes them as if each had been
//! written alone.
//!
//! Invariant: the records of a batch need the same devices. So batches are made only where every stripe lies on all
//! members; in nested levels each record goes out as soon as it is digested.

use super::Log;
use crate::api::Segment;
use crate::controller::Controller;
use crate::intent::Intent;
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
    /// Takes the records that go out next from the line. Returns the first of them.
    fn take_batch(&mut self, blocks_wanted: u64) -> Option<u64> {
        if self.unsent.batches > 0 && self.unsent.blocks < blocks_wanted {
            return None;
        }
        let first = self.unsent.sequences.pop_front()?;
        let record = self.ring.record(first);
        let (mut count, mut end, mut blocks) = (1, record.at_block + record.blocks, record.blocks);
        // What begins where the one before ends has the number that follows.
        while let Some(&next) = self.unsent.sequences.front()
            && blocks < blocks_wanted
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
}

impl Controller {
    /// Puts a record that is digested in line for the members, and sends what should go.
    pub(super) fn send_record(&mut self, sequence: u64) {
        let log = self.log();
        log.unsent.blocks += log.ring.record(sequence).blocks;
        let place = log.unsent.sequences.partition_point(|&earlier| earlier < sequence);
        log.unsent.sequences.insert(place, sequence);
        self.send_batches();
    }

    fn send_batches(&mut self) {
        let shares_devices = self.geometry.unit_count() == usize::from(self.geometry.layout().member_count());
        let blocks_wanted = if shares_devices { BATCH_BYTES / self.geometry.block_bytes() } else { 0 };
        while let Some(first) = self.log().take_batch(blocks_wanted) {
            self.replicate(first);
        }
    }

    /// Blocks of the records of a batch.
    pub(super) fn batch_blocks(&mut self, first: u64) -> u64 {
        let ring = &self.log().ring;
        let count = u64::from(ring.record(first).batched);
        (first..first + count).map(|sequence| ring.record(sequence).blocks).sum()
    }

    /// Takes in that the records of a batch are where they can be found again.
    pub(super) fn batch_live(&mut self, first: u64) {
        let count = u64::from(self.log().ring.record(first).batched);
        self.log().unsent.batches -= 1;
        for sequence in first..first + count {
            self.record_live(sequence);
        }
        self.send_batches();
    }

    /// Adds where the bytes of a batch lie.
    pub(crate) fn batch_segments(&self, first: u64, out: &mut Vec<Segment>) {
        let Intent::Log(log) = &self.intent else { unreachable!("asked only where there is a log") };
        let count = u64::from(log.ring.record(first).batched);
        for sequence in first..first + count {
            self.record_segments(sequence, out);
        }
    }
}
