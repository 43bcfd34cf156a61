//! Host reads that the cache serves: what slots hold is copied, what is on its way is waited for, the rest is read.

use super::slots::{Slot, SlotState};
use crate::controller::Controller;
use crate::memory_task::{Move, TaskOwner};
use crate::request::{Fragment, Rows};
use crate::table::NIL;

impl Controller {
    /// Serves what the cache has of a fragment from it, and reads the runs that it has not.
    pub(crate) fn read_through_cache(&mut self, fragment: Fragment, copies: &mut Option<u32>) {
        let mut row = fragment.rows.first;
        let mut missing_from = row;
        while row < fragment.rows.end() {
            let block = self.geometry.cache_block_at(&fragment, row);
            let rows_end = block.rows_end.min(fragment.rows.end());
            let wanted = block.mask(row, rows_end);
            let Some(slot) = self.cache.slots.lookup(block.key) else {
                row = rows_end;
                continue;
            };
            if self.cache.slots[slot].state == SlotState::Filling {
                self.read_run(&fragment, missing_from, row);
                self.cache.wait_for_fill(
                    slot,
                    fragment.part(Rows::between(row, rows_end), self.geometry.block_bytes()),
                    &mut self.host,
                );
                row = rows_end;
                missing_from = row;
                continue;
            }
            // Runs of blocks that the slot holds, that only its shadow holds, and that neither holds take turns.
            let Slot { valid, .. } = self.cache.slots[slot];
            let shadow = self.cache.slots.shadow(slot);
            let shadowed = if shadow == NIL { 0 } else { self.cache.slots[shadow].valid & !valid };
            let bit = block.bit(row);
            let (source, held) = if shadowed >> bit & 1 == 1 { (shadow, shadowed) } else { (slot, valid) };
            let (held, any) = ((held & wanted) >> bit, ((valid | shadowed) & wanted) >> bit);
            let run = if held & 1 == 1 { held.trailing_ones() } else { any.trailing_zeros() };
            let run_end = rows_end.min(row + run);
            if held & 1 == 1 {
                // The copy pins the slot before the read before it looks for slots to fill.
                let part = fragment.part(Rows::between(row, run_end), self.geometry.block_bytes());
                self.copy_out(source, block.byte(row, self.geometry.block_bytes()), part, copies);
                self.read_run(&fragment, missing_from, row);
                missing_from = run_end;
            }
            row = run_end;
        }
        self.read_run(&fragment, missing_from, fragment.rows.end());
    }

    fn read_run(&mut self, fragment: &Fragment, first: u32, end: u32) {
        if first < end {
            self.read_missing(fragment.part(Rows::between(first, end), self.geometry.block_bytes()));
        }
    }

    fn copy_out(&mut self, slot: u32, slot_byte: u64, part: Fragment, copies: &mut Option<u32>) {
        let owner = TaskOwner::CopyOut { request: part.request };
        let task = *copies.get_or_insert_with(|| self.tasks.new_copies(owner));
        let bytes = u64::from(part.rows.count) * self.geometry.block_bytes();
        let from = self.cache.slots.buffer(slot, slot_byte);
        self.outbox.count_hits(part.rows.count);
        self.tasks.add_copy(task, Move { from, to: part.host_buffer(), bytes }, false);
        self.tasks.add_pin(task, slot);
        self.cache.slots.pin(slot);
        self.cache.slots.touch(slot);
    }
}
