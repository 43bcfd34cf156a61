//! The NVRAM directory: what it says of each cache slot, and a start from it.
//!
//! Each slot has an entry that names the blocks which only this slot holds: the bits of `Slot::dirty`, no more and no fewer.
//! The world stores an entry when it takes the [`Action::Keep`](crate::Action::Keep), so the order of actions is all that is
//! needed:
//! ```text
//! copy into the slot ends ──► Keep {its dirty blocks} ──► Complete (the write)
//! destage ends            ──► Keep {none}             ──► whatever the slot is used for next
//! ```
//! - A block is named only when its bytes have arrived. A later write may be on its way over them; it is not acknowledged, and
//!   a copy leaves each block old or new.
//! - A write to a block under destage takes a new slot. Both are named until the destage has ended; for a block in both, the
//!   higher sequence counts. A start first cuts the older entry down to what the newer lacks, and destages then: if the newer
//!   were cleared first, the older would come back over it at the next start.
//! - What is restored was promised to someone: its destage survives power loss by itself.
//!
//! Entries are stored whatever the battery's state, so that a battery that gets good finds them right. With a mirror the
//! second controller's memory holds the same, and failover is the same start.
//!
//! Left out: clean blocks, which a start reads from the members again.

use super::protection::PeerState;
use super::slots::{Restored, Slot};
use super::{CacheEngine, Surroundings};
use crate::api::{BufferRef, BufferSpace, Keep};
use crate::config::CacheMemory;
use crate::geometry::Geometry;
use crate::ids::{CacheBlockIndex, SlotIndex};
use crate::memory_task::{MemoryTasks, Move, TaskOwner};
use crate::metadata::Metadata;
use crate::outbox::Outbox;
use crate::own::{self, OwnMemory, own_buffer};
use core::cmp::Reverse;
use raidlab_format::{ArrayState, NVRAM_LABEL_BYTES, NVRAM_RING_AT, NvramEntry, NvramLabel};

/// Sequences at or above this were never given out.
const SEQUENCE_END: u64 = 1 << 63;

/// Why NVRAM can't be this array's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The directory is longer than the cache.
    #[error("NVRAM has an entry of cache slot {slot}, and the cache has {slots}: its size was changed")]
    NoSuchSlot {
        /// The slot.
        slot: u32,
        /// Slots that are kept.
        slots: u32,
    },
    /// A block is outside the volume.
    #[error("NVRAM names block {block} of {blocks} of the volume, in cache blocks")]
    NoSuchBlock {
        /// The cache block.
        block: u64,
        /// Cache blocks in the volume.
        blocks: u64,
    },
    /// A bit stands for no block.
    #[error("NVRAM says of a cache block of {rows} blocks that {dirty:#x} of them are dirty")]
    NoSuchRow {
        /// The bits.
        dirty: u64,
        /// Array blocks in a cache block.
        rows: u32,
    },
    /// Two entries are for the same slot.
    #[error("NVRAM has two entries of cache slot {slot}")]
    SlotTwice {
        /// The slot.
        slot: u32,
    },
    /// A sequence is impossible, or two entries have it.
    #[error("NVRAM has an impossible sequence {sequence}")]
    Sequence {
        /// The sequence.
        sequence: u64,
    },
}

impl CacheEngine {
    /// Entries of the directory that the world keeps.
    pub(crate) fn directory_entries(&self) -> u32 {
        if self.keeps_directory() { self.slots.slot_count() } else { 0 }
    }

    /// Whether anyone could start from the cache memory: this controller after a power loss, or the second one.
    pub(crate) fn keeps_directory(&self) -> bool {
        self.config.memory == CacheMemory::BatteryBacked || self.config.mirror
    }

    /// True when the second controller takes what is kept.
    fn mirrors_nvram(&self) -> bool {
        self.config.mirror && self.peer == PeerState::Present
    }

    /// Stores what the slot holds now.
    pub(super) fn keep_slot(&mut self, slot: SlotIndex, outbox: &mut Outbox) {
        if !self.keeps_directory() {
            return;
        }
        let Slot { sequence, key, dirty, mirrored, .. } = self.slots[slot];
        let entry = NvramEntry { sequence, block: key.0, dirty };
        outbox.keep(Keep { slot: slot.0, entry, mirrored });
    }

    /// Ends the destage of a slot. What could not be stored stays named where it `is_kept` ([`CacheEngine::outlasts_loss`]).
    pub(crate) fn settle_destaged(&mut self, slot: SlotIndex, is_kept: bool, outbox: &mut Outbox) {
        if is_kept {
            self.slots.preserve(slot);
        } else {
            self.slots.finish_flush(slot);
            self.keep_slot(slot, outbox);
        }
    }

    /// True where NVRAM goes on naming what a slot holds and could not be stored: no write to its blocks can succeed before the
    /// array starts again, so that it stays the newest.
    pub(crate) fn outlasts_loss(&self, geometry: &Geometry, metadata: &Metadata, slot: SlotIndex) -> bool {
        let (stripe, strip, _) = geometry.layout().locate(self.first_lba(geometry, slot));
        self.keeps_directory() && !metadata.survives(geometry, stripe, strip)
    }

    /// Checks that each entry can be one of this array's. Leaves them in order of slot.
    pub(crate) fn check_directory(
        &self,
        geometry: &Geometry,
        entries: &mut [(u32, NvramEntry)],
    ) -> Result<(), RestoreError> {
        let (slots, rows) = (self.directory_entries(), geometry.cache_block_rows());
        let blocks = geometry.layout().volume_blocks().0 / u64::from(rows);
        entries.sort_unstable_by_key(|(_, entry)| entry.sequence);
        let twice = entries.windows(2).find(|pair| pair[0].1.sequence == pair[1].1.sequence);
        if let Some(pair) = twice {
            return Err(RestoreError::Sequence { sequence: pair[0].1.sequence });
        }
        entries.sort_unstable_by_key(|(slot, _)| *slot);
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RestoreError::SlotTwice { slot: pair[0].0 });
        }
        for &(slot, NvramEntry { sequence, block, dirty }) in &*entries {
            if slot >= slots {
                return Err(RestoreError::NoSuchSlot { slot, slots });
            }
            if block >= blocks {
                return Err(RestoreError::NoSuchBlock { block, blocks });
            }
            if dirty & !(u64::MAX >> (64 - rows)) != 0 {
                return Err(RestoreError::NoSuchRow { dirty, rows });
            }
            if sequence == 0 || sequence >= SEQUENCE_END {
                return Err(RestoreError::Sequence { sequence });
            }
        }
        Ok(())
    }

    /// Takes over what NVRAM holds into an empty cache (asserted).
    ///
    /// # Errors
    /// [`RestoreError`] when an entry can't be one of this array's; nothing has been taken over then.
    pub(crate) fn restore(
        &mut self,
        entries: impl Iterator<Item = (u32, NvramEntry)>,
        Surroundings { geometry, locks, outbox, .. }: Surroundings<'_>,
    ) -> Result<(), RestoreError> {
        let mut found: Vec<(u32, NvramEntry)> = entries.filter(|(_, entry)| entry.dirty != 0).collect();
        assert!(self.slots.is_empty(), "only a new controller starts from NVRAM");
        self.check_directory(geometry, &mut found)?;
        for (slot, restored) in without_superseded(found, outbox) {
            self.slots.restore(slot, restored);
            let key = geometry.lock_of_block(restored.key);
            self.slots[slot].next_of_stripe = locks.list_dirty(key, slot);
        }
        self.slots.end_restore();
        self.destage_all();
        Ok(())
    }

    /// Restored slots that are not on the members yet, nor given up because a device is lost.
    pub(crate) const fn restored_count(&self) -> u32 {
        self.slots.restored_count()
    }

    /// Notes that a start has found NVRAM without the incarnation that the devices name.
    pub(crate) fn note_no_incarnation(&mut self) {
        self.lacks_incarnation = self.keeps_directory();
    }

    /// Takes in that the devices name the incarnation that NVRAM has.
    pub(crate) const fn begin_incarnation(&mut self) {
        self.lacks_incarnation = false;
    }

    /// True unless NVRAM is without an incarnation that the devices name.
    #[inline]
    pub(crate) const fn has_incarnation(&self) -> bool {
        !self.lacks_incarnation
    }

    /// Empties the directory.
    pub(crate) fn clear_directory(&self, outbox: &mut Outbox) {
        let mirrored = self.mirrors_nvram();
        for slot in 0..self.slots.slot_count() {
            let entry = NvramEntry { sequence: 0, block: 0, dirty: 0 };
            outbox.keep(Keep { slot, entry, mirrored });
        }
    }

    /// Writes the label of NVRAM, to the second controller's, too.
    pub(crate) fn write_label(
        &mut self,
        record: &ArrayState,
        own: &mut OwnMemory,
        tasks: &mut MemoryTasks,
        outbox: &mut Outbox,
    ) {
        // The devices name an incarnation, by an odd number, when its label is written.
        let label = NvramLabel {
            array_uuid: record.geometry.array_uuid,
            nvram_epoch: record.nvram_epoch | 1,
            start: record.nvram_start,
        };
        label.encode(&mut own.bytes_mut()[own::NVRAM_LABEL_AT..own::NVRAM_LABEL_AT + NVRAM_LABEL_BYTES]);
        self.labels_pending += 1;
        let task = tasks.new_copies(TaskOwner::NvramLabel);
        let to = BufferRef { space: BufferSpace::NvramLog, offset: 0 };
        let copy = Move { from: own_buffer(own::NVRAM_LABEL_AT), to, bytes: NVRAM_RING_AT as u64 };
        tasks.add_copy(task, copy, self.mirrors_nvram());
        tasks.start_copies(task, outbox);
    }

    /// Takes in that a label of NVRAM is written.
    pub(crate) const fn end_label(&mut self) {
        self.labels_pending -= 1;
    }
}

/// Leaves each block to the newest slot that names it, stores the entries that this makes smaller, and returns the
/// slots in order of sequence.
fn without_superseded(
    mut entries: Vec<(u32, NvramEntry)>,
    outbox: &mut Outbox,
) -> Vec<(SlotIndex, Restored)> {
    entries.sort_unstable_by_key(|(_, entry)| (entry.block, Reverse(entry.sequence)));
    let mut slots = Vec::with_capacity(entries.len());
    let mut newest = None;
    let mut taken = 0;
    for (slot, NvramEntry { sequence, block, dirty }) in entries {
        let detached = newest.replace(block) == Some(block);
        taken = if detached { taken } else { 0 };
        let left = dirty & !taken;
        taken |= dirty;
        if left != dirty {
            let entry = NvramEntry { sequence, block, dirty: left };
            outbox.keep(Keep { slot, entry, mirrored: false });
        }
        if left != 0 {
            slots.push((
                SlotIndex(slot),
                Restored { key: CacheBlockIndex(block), dirty: left, sequence, detached },
            ));
        }
    }
    slots.sort_unstable_by_key(|(_, restored)| restored.sequence);
    slots
}
