//! Host reads that the cache serves: what slots hold is copied, what is on its way is waited for, the rest is read.

use super::slots::{Slot, SlotState};
use super::{CacheEngine, Surroundings};
use crate::ids::SlotIndex;
use crate::memory_task::{Move, TaskOwner};
use crate::request::{Fragment, Rows};

/// A fragment that is being read, and how far.
#[derive(Debug)]
pub(crate) struct CachedRead {
    fragment: Fragment,
    row: u32,
    /// From here on nothing has been found yet.
    missing_from: u32,
}

impl CachedRead {
    /// A read from the start of a fragment.
    pub(crate) const fn of(fragment: Fragment) -> Self {
        let row = fragment.rows.first;
        Self { fragment, row, missing_from: row }
    }

    /// Goes on at `row`. Returns what is missing before `found`.
    fn go_on(&mut self, found: u32, row: u32, block_bytes: u64) -> Option<Fragment> {
        let missing_from = core::mem::replace(&mut self.missing_from, row);
        self.row = row;
        (missing_from < found).then(|| self.fragment.part(Rows::between(missing_from, found), block_bytes))
    }
}

impl CacheEngine {
    /// Serves what the cache has of a fragment up to the end of a run that it has not. Returns that run, to be read.
    pub(crate) fn next_missing(
        &mut self,
        read: &mut CachedRead,
        copies: &mut Option<u32>,
        around: &mut Surroundings<'_>,
    ) -> Option<Fragment> {
        let (geometry, block_bytes) = (around.geometry, around.geometry.block_bytes());
        let fragment = read.fragment;
        while read.row < fragment.rows.end() {
            let row = read.row;
            let block = geometry.cache_block_at(&fragment, row);
            let rows_end = block.rows_end.min(fragment.rows.end());
            let wanted = block.mask(row, rows_end);
            let Some(slot) = self.slots.lookup(block.key) else {
                read.row = rows_end;
                continue;
            };
            if self.slots[slot].state == SlotState::Filling {
                let part = fragment.part(Rows::between(row, rows_end), block_bytes);
                self.wait_for_fill(slot, part, around.host);
                let missing = read.go_on(row, rows_end, block_bytes);
                if missing.is_some() {
                    return missing;
                }
                continue;
            }
            // Runs of blocks that the slot holds, that only its shadow holds, and that neither holds take turns.
            let Slot { valid, .. } = self.slots[slot];
            let shadow = self.slots.shadow(slot);
            let shadowed = if shadow == SlotIndex::NONE { 0 } else { self.slots[shadow].valid & !valid };
            let bit = block.bit(row);
            let (source, held) = if shadowed >> bit & 1 == 1 { (shadow, shadowed) } else { (slot, valid) };
            let (held, any) = ((held & wanted) >> bit, ((valid | shadowed) & wanted) >> bit);
            let run = if held & 1 == 1 { held.trailing_ones() } else { any.trailing_zeros() };
            let run_end = rows_end.min(row + run);
            if held & 1 == 0 {
                read.row = run_end;
                continue;
            }
            // The copy pins the slot before the read before it looks for slots to fill.
            let part = fragment.part(Rows::between(row, run_end), block_bytes);
            self.copy_out(source, block.byte(row, block_bytes), part, copies, around);
            let missing = read.go_on(row, run_end, block_bytes);
            if missing.is_some() {
                return missing;
            }
        }
        read.go_on(fragment.rows.end(), fragment.rows.end(), block_bytes)
    }

    fn copy_out(
        &mut self,
        slot: SlotIndex,
        slot_byte: u64,
        part: Fragment,
        copies: &mut Option<u32>,
        around: &mut Surroundings<'_>,
    ) {
        let owner = TaskOwner::CopyOut { request: part.request };
        let task = *copies.get_or_insert_with(|| around.tasks.new_copies(owner));
        let bytes = u64::from(part.rows.count) * around.geometry.block_bytes();
        let from = self.slots.buffer(slot, slot_byte);
        around.outbox.count_hits(part.rows.count);
        around.tasks.add_copy(task, Move { from, to: part.host_buffer(), bytes }, false);
        around.tasks.add_pin(task, slot);
        self.slots.pin(slot);
        self.slots.touch(slot);
    }
}
