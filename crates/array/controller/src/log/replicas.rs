//! The replicas of records on the devices of their stripe. Records that share a write have theirs on the same devices; what the
//! first of them needs all of them need (`batch.rs`).
//!
//! Invariant: a record goes live when as many devices have it as it takes to outlive all losses that the stripe can: its parities
//! and one more, less those that are missing already. A replica whose device fails on the way is made up for on another.

use crate::api::MemberError;
use crate::controller::Controller;
use crate::member_io::{IntentIo, IoOwner};
use raidlab_units::{BlockCount, MemberIndex, MemberLba, StripeIndex};

impl Controller {
    /// Sends a batch, known by its first record, to as many devices as it takes to outlive all losses that its stripes can.
    pub(super) fn replicate(&mut self, sequence: u64) {
        let lba = self.area.log.offset_bytes / self.geometry.block_bytes();
        let blocks = BlockCount(self.batch_blocks(sequence));
        let record = self.log().ring.record_mut(sequence);
        record.pending += 1;
        let lba = MemberLba(lba + record.at_block);
        while let Some(device) = self.next_replica(sequence) {
            let record = self.log().ring.record_mut(sequence);
            let free = record.replicas.iter_mut().find(|replica| replica.is_none());
            *free.expect("a record has no more replicas than places") = Some(device);
            record.pending += 1;
            self.metadata_write(device, lba, blocks, IoOwner::Intent(IntentIo::Records { first: sequence }));
        }
        self.end_replica(sequence);
    }

    /// The device that another replica of a batch should go to, if it needs one and there is one.
    fn next_replica(&mut self, sequence: u64) -> Option<MemberIndex> {
        let record = self.log().ring.record_mut(sequence);
        let (op, replicas) = (record.op, record.replicas);
        self.next_log_device(self.ops[op].stripe, sequence, &replicas.iter().flatten().copied())
    }

    /// The device of `stripe` that should have a record, too, beside those that have it; none if these are enough, or all.
    pub(crate) fn next_log_device(
        &self,
        stripe: StripeIndex,
        sequence: u64,
        holders: &(impl Iterator<Item = MemberIndex> + Clone),
    ) -> Option<MemberIndex> {
        let units = self.geometry.unit_count() as u64;
        let device = |unit: u64| self.metadata.in_sync(self.geometry.unit_place(stripe, unit as u16).member);
        let missing = (0..units).filter(|&unit| device(unit).is_none()).count();
        let wanted = (self.geometry.parities() + 1).saturating_sub(missing).max(1);
        if holders.clone().count() >= wanted {
            return None;
        }
        // Consecutive records begin with different units, so that the log's load goes round.
        let round = (0..units).map(|step| (sequence + step) % units);
        round.filter_map(device).find(|&device| !holders.clone().any(|holder| holder == device))
    }

    /// Takes in the end of one replica of a batch.
    pub(crate) fn replica_done(
        &mut self,
        sequence: u64,
        device: MemberIndex,
        result: Result<(), MemberError>,
    ) {
        if result.is_err() {
            self.fail_member(device);
            let record = self.log().ring.record_mut(sequence);
            for replica in record.replicas.iter_mut().filter(|replica| **replica == Some(device)) {
                *replica = None;
            }
        }
        self.end_replica(sequence);
    }

    fn end_replica(&mut self, sequence: u64) {
        let record = self.log().ring.record_mut(sequence);
        record.pending -= 1;
        if record.pending > 0 {
            return;
        }
        // Some may have been lost on the way.
        if self.next_replica(sequence).is_some() {
            self.replicate(sequence);
        } else {
            self.batch_live(sequence);
        }
    }
}
