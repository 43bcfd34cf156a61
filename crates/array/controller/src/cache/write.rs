//! Writes into the cache: places for their blocks, copies, and what becomes dirty when they have arrived.
//!
//! A request takes places block by block. When none is free it stands in line, keeping those it has (they become
//! dirty and can be destaged), and goes on when a destage has freed some; later cached writes line up behind it.

use super::CacheEngine;
use super::slots::{SlotState, runs_of_ones};
use crate::api::HostOp;
use crate::controller::Controller;
use crate::geometry::CacheBlock;
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::host_front::Request;
use crate::memory_task::{Arrival, Move, TaskOwner};
use crate::table::NIL;
use raidlab_units::{BlockCount, Lba};

/// A request that waits for the destage of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotWaiter {
    pub(super) request: u32,
    pub(super) next: u32,
}

impl CacheEngine {
    /// True when the cache holds data of the range that the members do not have yet.
    pub(crate) fn holds_dirty(&self, geometry: &Geometry, lba: Lba, blocks: BlockCount) -> bool {
        self.slots.dirty_count() > 0
            && geometry.cache_keys(lba, blocks).any(|key| {
                let state = self.slots.lookup(key).map(|slot| self.slots[slot].state);
                matches!(state, Some(SlotState::Dirty | SlotState::Flushing))
            })
    }

    /// Drops clean and arriving copies of the range.
    pub(crate) fn forget(&mut self, geometry: &Geometry, lba: Lba, blocks: BlockCount) {
        if self.slots.is_empty() {
            return;
        }
        for key in geometry.cache_keys(lba, blocks) {
            let Some(slot) = self.slots.lookup(key) else { continue };
            match self.slots[slot].state {
                SlotState::Clean => self.slots.drop_clean(slot),
                SlotState::Filling => self.slots.detach(slot),
                SlotState::Dirty | SlotState::Flushing | SlotState::Free | SlotState::Preserved => {}
            }
        }
    }

    /// Lets a part of the request wait until the slot, dirty or being destaged, has been destaged.
    pub(super) fn wait_for_destage(&mut self, slot: u32, tag: u32, host: &mut HostFront) {
        host.add_parts(tag, 1);
        let waiter = self.slot_waiters.take();
        let next = core::mem::replace(&mut self.slots[slot].first_waiter, waiter);
        self.slot_waiters[waiter] = SlotWaiter { request: tag, next };
    }
}

impl Controller {
    /// Writes a request into the cache; `durable` ones end when the members have the data.
    pub(crate) fn begin_cached_write(&mut self, tag: u32, durable: bool) {
        self.host.set_durable(tag, durable);
        // Held until the last block has its place.
        self.host.add_parts(tag, 1);
        self.cache.stalled.push_back(tag);
    }

    /// Gives places to the cached writes in line, in order, as far as there are places. None while a write goes through:
    /// a slot that holds its old data must be free to be forgotten when it ends.
    #[inline]
    pub(crate) fn pump_stalled(&mut self) {
        if self.host.through_in_flight() == 0 && !self.cache.stalled.is_empty() {
            self.place_stalled();
        }
    }

    #[inline(never)]
    fn place_stalled(&mut self) {
        while let Some(&tag) = self.cache.stalled.front() {
            self.place_blocks(tag);
            let Request { placed, blocks, .. } = self.host.request(tag);
            if placed < blocks.0 {
                return;
            }
            self.cache.stalled.pop_front();
            self.end_part(tag, Ok(()));
        }
    }

    fn place_blocks(&mut self, tag: u32) {
        let mut task = None;
        let Request { op, lba, durable, placed, .. } = self.host.request(tag);
        let fua = op == HostOp::Write { fua: true };
        // What has no place yet.
        let mut walk = self.walk(tag).skip(BlockCount(placed), lba);
        'fragments: while let Some(fragment) = walk.next(self.geometry.layout()) {
            let key = self.geometry.lock_key(&fragment);
            let mut row = fragment.rows.first;
            while row < fragment.rows.end() {
                let block = self.geometry.cache_block_at(&fragment, row);
                let end = block.rows_end.min(fragment.rows.end());
                let written = block.mask(row, end);
                let mut replaces = false;
                let Some(slot) = self.slot_to_write(block, written, tag, &mut task, &mut replaces, key)
                else {
                    break 'fragments;
                };
                self.cache.slots[slot].promised |= fua;
                if durable {
                    self.cache.wait_for_destage(slot, tag, &mut self.host);
                }
                let id =
                    *task.get_or_insert_with(|| self.tasks.new_copies(TaskOwner::CopyIn { request: tag }));
                let part =
                    fragment.part(crate::request::Rows::between(row, end), self.geometry.block_bytes());
                let to = self.cache.slots.buffer(slot, block.byte(row, self.geometry.block_bytes()));
                let bytes = u64::from(end - row) * self.geometry.block_bytes();
                let copy = Move { from: part.host_buffer(), to, bytes };
                let mirrored = self.cache.slots[slot].mirrored;
                self.tasks.add_copy(id, copy, mirrored);
                let valid = if replaces { written | self.cache.slots.carried(slot) } else { written };
                self.tasks.add_arrival(id, Arrival { slot, valid, dirty: written, replaces });
                self.cache.slots[slot].incoming += 1;
                self.host.add_placed(tag, u64::from(end - row));
                row = end;
            }
        }
        if let Some(id) = task {
            self.host.add_parts(tag, 1);
            self.tasks.start_copies(id, &mut self.outbox);
        }
    }

    /// Finds a slot that may be written: the one that holds the block, or a new one; none while the cache is full or
    /// the blocks are being carried to their slot. What the old slot of a block under destage holds beside the written
    /// rows goes along, and `replaces` tells so.
    fn slot_to_write(
        &mut self,
        block: CacheBlock,
        written: u64,
        tag: u32,
        task: &mut Option<u32>,
        replaces: &mut bool,
        stripe: u64,
    ) -> Option<u32> {
        let old = self.cache.slots.lookup(block.key);
        let slot = match old.map(|slot| (slot, self.cache.slots[slot].state)) {
            Some((slot, SlotState::Dirty | SlotState::Clean)) => {
                if self.cache.slots.carried(slot) & written != 0 {
                    return None;
                }
                slot
            }
            Some((slot, SlotState::Flushing | SlotState::Filling)) => {
                let new = self.allocate(block.key)?;
                self.cache.slots[slot].detached = true;
                if self.cache.slots[slot].valid != 0 {
                    let id = *task
                        .get_or_insert_with(|| self.tasks.new_copies(TaskOwner::CopyIn { request: tag }));
                    let carried = self.cache.slots[slot].valid & !written;
                    self.copy_slot(slot, new, carried, id);
                    self.cache.slots.begin_take_over(new, carried, slot);
                    *replaces = true;
                }
                new
            }
            Some((_, SlotState::Free | SlotState::Preserved)) => unreachable!("the index names no such slot"),
            None => self.allocate(block.key)?,
        };
        if self.cache.slots[slot].state != SlotState::Dirty {
            self.cache.slots.make_dirty(slot, self.now);
            self.cache.slots[slot].next_of_stripe = self.stripe_locks.list_dirty(stripe, slot);
        }
        Some(slot)
    }

    /// Takes a slot for a write; one that holds data for an array that starts again must go if there is no other.
    fn allocate(&mut self, key: u64) -> Option<u32> {
        let slot = self.cache.slots.allocate(key);
        if slot.is_none() && self.cache.give_up_preserved(&mut self.outbox) {
            self.cache.slots.allocate(key)
        } else {
            slot
        }
    }

    fn copy_slot(&mut self, from: u32, to: u32, blocks: u64, task: u32) {
        for (first, count) in runs_of_ones(blocks) {
            let byte = u64::from(first) * self.geometry.block_bytes();
            let (source, target) = (self.cache.slots.buffer(from, byte), self.cache.slots.buffer(to, byte));
            let bytes = u64::from(count) * self.geometry.block_bytes();
            self.tasks.add_copy(task, Move { from: source, to: target, bytes }, false);
        }
        self.cache.slots.pin(from);
        self.tasks.add_pin(task, from);
    }

    /// Takes in that a copy into the cache has arrived. What it brought is kept before the write is acknowledged.
    pub(crate) fn copy_in_done(&mut self, tag: u32, arrivals: &[Arrival]) {
        for arrival in arrivals {
            let slot = &mut self.cache.slots[arrival.slot];
            let named = slot.dirty;
            slot.valid |= arrival.valid;
            slot.dirty |= arrival.dirty;
            slot.incoming -= 1;
            let is_named = slot.dirty == named;
            if slot.first_waiter != NIL && slot.incoming == 0 {
                let block = slot.key;
                let key = self.geometry.lock_of_block(block);
                self.cache.destage.urgent.push_back(key);
            }
            if arrival.replaces {
                self.cache.slots.end_take_over(arrival.slot);
            }
            if !is_named {
                self.cache.keep_slot(arrival.slot, &mut self.outbox);
            }
        }
        self.end_part(tag, Ok(()));
    }
}
