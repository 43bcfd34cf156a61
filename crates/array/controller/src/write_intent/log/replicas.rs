//! The replicas of records on the devices of their stripe. Records that share a write have theirs on the same devices; what the
//! first of them needs all of them need (`batch.rs`).
//!
//! Invariant: a record goes live when as many devices have it as it takes to outlive all losses that the stripe can: its parities
//! and one more, less those that a start finds missing. A device that has left and that the devices do not call missing yet may be
//! back at the next start, without the record, and another be absent instead. A replica whose device fails on the way is made up for
//! on another.

use super::super::Surroundings;
use super::Log;
use crate::geometry::Geometry;
use crate::member_io::{IntentIo, IoOwner};
use crate::metadata::Metadata;
use raidlab_units::{BlockCount, MemberIndex, MemberLba, StripeIndex};

impl Log {
    /// Sends a batch, known by its first record, to as many devices as it takes to outlive all losses that its stripes can.
    /// Returns true if it is on them already, because none of them is there.
    pub(super) fn replicate(&mut self, sequence: u64, around: &mut Surroundings<'_>) -> bool {
        let blocks = BlockCount(self.batch_blocks(sequence));
        let record = self.ring.record_mut(sequence);
        record.pending += 1;
        let lba = MemberLba(self.rules.first.0 + record.at_block);
        while let Some(device) = self.next_replica(sequence, around) {
            let record = self.ring.record_mut(sequence);
            let free = record.replicas.iter_mut().find(|replica| replica.is_none());
            *free.expect("a record has no more replicas than places") = Some(device);
            record.pending += 1;
            let owner = IoOwner::Intent(IntentIo::Records { first: sequence });
            around.ios.write_metadata(device, lba, blocks, owner, around.outbox);
        }
        self.end_replica(sequence, around)
    }

    /// The device that another replica of a batch should go to, if it needs one and there is one.
    fn next_replica(&self, sequence: u64, around: &Surroundings<'_>) -> Option<MemberIndex> {
        let record = self.ring.record(sequence);
        let (stripe, holders) = (around.ops[record.op].stripe(), record.replicas.iter().flatten().copied());
        next_device(around.geometry, around.metadata, (stripe, sequence), &holders)
    }

    /// Takes in the end of one replica of a batch; whoever failed to write it is out of the array. Returns true when the batch
    /// is where it can be found again.
    pub(crate) fn replica_done(
        &mut self,
        sequence: u64,
        failed: Option<MemberIndex>,
        around: &mut Surroundings<'_>,
    ) -> bool {
        let record = self.ring.record_mut(sequence);
        for replica in record.replicas.iter_mut().filter(|replica| failed.is_some() && **replica == failed) {
            *replica = None;
        }
        self.end_replica(sequence, around)
    }

    fn end_replica(&mut self, sequence: u64, around: &mut Surroundings<'_>) -> bool {
        let record = self.ring.record_mut(sequence);
        record.pending -= 1;
        if record.pending > 0 {
            return false;
        }
        // Some may have been lost on the way.
        self.next_replica(sequence, around).is_none() || self.replicate(sequence, around)
    }
}

/// The device of a stripe that should have a record of it, too, beside those that have it; none if these are enough, or all.
pub(in crate::write_intent) fn next_device(
    geometry: &Geometry,
    metadata: &Metadata,
    (stripe, sequence): (StripeIndex, u64),
    holders: &(impl Iterator<Item = MemberIndex> + Clone),
) -> Option<MemberIndex> {
    let units = geometry.unit_count() as u64;
    let role = |unit: u64| geometry.unit_place(stripe, unit as u16).member;
    let device = |unit: u64| metadata.in_sync(role(unit));
    let missing = (0..units).filter(|&unit| metadata.is_found_missing(role(unit))).count();
    let wanted = (geometry.parities() + 1).saturating_sub(missing).max(1);
    if holders.clone().count() >= wanted {
        return None;
    }
    // Consecutive records begin with different units, so that the log's load goes round.
    let round = (0..units).map(|step| (sequence + step) % units);
    round.filter_map(device).find(|&device| !holders.clone().any(|holder| holder == device))
}
