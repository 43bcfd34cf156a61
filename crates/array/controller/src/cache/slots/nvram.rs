//! What the cache does for memory that outlives the controller: slots taken from it at a start, slots left in it, and
//! which of them the second controller has, too.

use super::{Slot, SlotState, Slots};
use crate::ids::{CacheBlockIndex, SlotIndex};
use crate::table::NIL;

impl Slots {
    /// Takes a free slot of a new controller for what it held: blocks `dirty` of cache block `key`. Slots come in order
    /// of their sequence, and are detached where a newer one stands for their key.
    pub(in crate::cache) fn restore(&mut self, slot: SlotIndex, restored: Restored) {
        assert_eq!(self[slot].state, SlotState::Free, "a slot is restored once");
        let Restored { key, dirty, sequence, detached } = restored;
        assert!(sequence >= self.next_sequence, "slots are restored in order of their sequence");
        self.next_sequence = sequence + 1;
        self.restored_before = self.next_sequence;
        self.restored_count += 1;
        self.unmirrored_count += 1;
        self.dirty_count += 1;
        self.used_count += 1;
        self[slot] = Slot {
            key,
            valid: dirty,
            dirty,
            state: SlotState::Dirty,
            detached,
            promised: true,
            sequence,
            next_of_stripe: SlotIndex::NONE,
            first_waiter: NIL,
            ..Slot::default()
        };
        self.enter_age_queue(slot);
        if !detached {
            self.attach(slot);
        }
    }

    /// Takes the restored slots out of the free ones.
    pub(in crate::cache) fn end_restore(&mut self) {
        let Self { free, entries, .. } = self;
        free.retain(|slot| entries[slot.0 as usize].state == SlotState::Free);
    }

    /// Restored slots that are not on the members yet.
    pub(in crate::cache) const fn restored_count(&self) -> u32 {
        self.restored_count
    }

    /// Ends the destage of a detached slot in vain, but leaves it as it is.
    pub(in crate::cache) fn preserve(&mut self, slot: SlotIndex) {
        assert!(self[slot].detached, "what is preserved is not read");
        self.leave_age_queue(slot);
        self[slot].state = SlotState::Preserved;
        self.preserved_count += 1;
        self.unmirrored_count += u32::from(!self[slot].mirrored);
    }

    /// True when all slots are preserved, so that none gets free before the array starts again.
    #[inline]
    pub(in crate::cache) const fn are_preserved(&self) -> bool {
        self.preserved_count > 0 && self.preserved_count == self.slot_count()
    }

    /// Says whether what becomes dirty from now on is mirrored. When it no longer is, nothing is.
    pub(in crate::cache) fn set_mirrors(&mut self, mirrors: bool) {
        self.mirrors = mirrors;
        if mirrors {
            return;
        }
        let Self { age, entries, .. } = self;
        for slot in age.iter() {
            entries[slot.0 as usize].mirrored = false;
        }
        self.unmirrored_count = self.dirty_count + self.preserved_count;
    }

    /// True when the second controller has all that is dirty or preserved, and will have what becomes so.
    pub(in crate::cache) const fn is_mirrored(&self) -> bool {
        self.mirrors && self.unmirrored_count == 0
    }
}

/// What a slot held.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Restored {
    pub(in crate::cache) key: CacheBlockIndex,
    pub(in crate::cache) dirty: u64,
    pub(in crate::cache) sequence: u64,
    pub(in crate::cache) detached: bool,
}
