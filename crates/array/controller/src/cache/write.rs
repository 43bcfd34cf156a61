//! Writes into the cache: places for their blocks, copies, and what becomes dirty when they have arrived.
//!
//! A request takes places block by block. When none is free it stands in line, keeping those it has (they become
//! dirty and can be destaged), and goes on when a destage has freed some; later cached writes line up behind it. Where none will
//! get free before the array starts again, what has no place goes past the cache.

use super::slots::{SlotState, runs_of_ones};
use super::{CacheEngine, Surroundings};
use crate::api::{HostOp, HostTag};
use crate::geometry::CacheBlock;
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::host_front::Request;
use crate::ids::{LockKey, SlotIndex};
use crate::memory_task::{Arrival, Move, TaskOwner};
use crate::outbox::Outbox;
use crate::request::Rows;
use crate::table::NIL;
use raidlab_units::{BlockCount, Lba};

/// A request that waits for the destage of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SlotWaiter {
    pub(super) request: HostTag,
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

    /// Drops clean and arriving copies of the range, also those beside what is dirty: the members may hold something else.
    pub(crate) fn forget(&mut self, geometry: &Geometry, lba: Lba, blocks: BlockCount) {
        if self.slots.is_empty() {
            return;
        }
        for key in geometry.cache_keys(lba, blocks) {
            let Some(slot) = self.slots.lookup(key) else { continue };
            match self.slots[slot].state {
                SlotState::Clean => self.slots.drop_clean(slot),
                SlotState::Filling => self.slots.detach(slot),
                SlotState::Dirty | SlotState::Flushing => self.slots.forget_clean_blocks(slot),
                SlotState::Free | SlotState::Preserved => {}
            }
        }
    }

    /// Lets a part of the request wait until the slot, dirty or being destaged, has been destaged.
    pub(super) fn wait_for_destage(&mut self, slot: SlotIndex, tag: HostTag, host: &mut HostFront) {
        host.add_parts(tag, 1);
        let waiter = self.slot_waiters.take();
        let next = core::mem::replace(&mut self.slots[slot].first_waiter, waiter);
        self.slot_waiters[waiter] = SlotWaiter { request: tag, next };
    }

    /// Puts a request in line for places in the cache; `durable` ones end when the members have the data.
    #[inline]
    pub(crate) fn begin_write(&mut self, tag: HostTag, durable: bool, host: &mut HostFront) {
        host.set_durable(tag, durable);
        // Held until the last block has its place.
        host.add_parts(tag, 1);
        self.stalled.push_back(tag);
    }

    /// Gives places to the cached writes in line, in order, as far as there are places. Returns the next that leaves the line,
    /// and is held no longer: it has all of its places, or will get no more of them.
    #[inline]
    pub(crate) fn next_placed(&mut self, around: &mut Surroundings<'_>) -> Option<HostTag> {
        let tag = *self.stalled.front()?;
        self.place_blocks(tag, around);
        if around.host.is_placed(tag) || !self.has_room() { self.stalled.pop_front() } else { None }
    }

    #[inline]
    fn place_blocks(&mut self, tag: HostTag, around: &mut Surroundings<'_>) {
        let geometry = around.geometry;
        let mut task = None;
        let Request { op, lba, blocks, durable, placed, .. } = around.host.request(tag);
        let fua = op == HostOp::Write { fua: true };
        // What has no place yet.
        let mut walk = geometry.walk(tag, lba, blocks).skip(BlockCount(placed), lba);
        'fragments: while let Some(fragment) = walk.next(geometry.layout()) {
            let key = geometry.lock_key(&fragment);
            let mut row = fragment.rows.first;
            while row < fragment.rows.end() {
                let block = geometry.cache_block_at(&fragment, row);
                let end = block.rows_end.min(fragment.rows.end());
                let written = block.mask(row, end);
                let Some((slot, replaces)) = self.slot_to_write(block, written, tag, &mut task, key, around)
                else {
                    break 'fragments;
                };
                self.slots[slot].promised |= fua;
                if durable {
                    self.wait_for_destage(slot, tag, around.host);
                }
                let id =
                    *task.get_or_insert_with(|| around.tasks.new_copies(TaskOwner::CopyIn { request: tag }));
                let part = fragment.part(Rows::between(row, end), geometry.block_bytes());
                let to = self.slots.buffer(slot, block.byte(row, geometry.block_bytes()));
                let bytes = u64::from(end - row) * geometry.block_bytes();
                let copy = Move { from: part.host_buffer(), to, bytes };
                let mirrored = self.slots[slot].mirrored;
                around.tasks.add_copy(id, copy, mirrored);
                let valid = if replaces { written | self.slots.carried(slot) } else { written };
                around.tasks.add_arrival(id, Arrival { slot, valid, dirty: written, replaces });
                self.slots[slot].incoming += 1;
                around.host.add_placed(tag, u64::from(end - row));
                row = end;
            }
        }
        if let Some(id) = task {
            around.host.add_parts(tag, 1);
            around.tasks.start_copies(id, around.outbox);
        }
    }

    /// Finds a slot that may be written: the one that holds the block, or a new one; none while the cache is full or
    /// the blocks are being carried to their slot. What the old slot of a block under destage holds beside the written
    /// rows goes along: true is returned if it does.
    #[inline]
    fn slot_to_write(
        &mut self,
        block: CacheBlock,
        written: u64,
        tag: HostTag,
        task: &mut Option<u32>,
        stripe: LockKey,
        around: &mut Surroundings<'_>,
    ) -> Option<(SlotIndex, bool)> {
        let mut replaces = false;
        let old = self.slots.lookup(block.key);
        let slot = match old.map(|slot| (slot, self.slots[slot].state)) {
            Some((slot, SlotState::Dirty | SlotState::Clean)) => {
                if self.slots.carried(slot) & written != 0 {
                    return None;
                }
                slot
            }
            Some((slot, SlotState::Flushing | SlotState::Filling)) => {
                let new = self.slots.allocate(block.key)?;
                self.slots[slot].detached = true;
                if self.slots[slot].valid != 0 {
                    let id = *task
                        .get_or_insert_with(|| around.tasks.new_copies(TaskOwner::CopyIn { request: tag }));
                    let carried = self.slots[slot].valid & !written;
                    self.copy_slot((slot, new), carried, id, around);
                    self.slots.begin_take_over(new, carried, slot);
                    replaces = true;
                }
                new
            }
            Some((_, SlotState::Free | SlotState::Preserved)) => unreachable!("the index names no such slot"),
            None => self.slots.allocate(block.key)?,
        };
        if self.slots[slot].state != SlotState::Dirty {
            self.slots.make_dirty(slot, around.now);
            self.slots[slot].next_of_stripe = around.locks.list_dirty(stripe, slot);
        }
        Some((slot, replaces))
    }

    fn copy_slot(
        &mut self,
        (from, to): (SlotIndex, SlotIndex),
        blocks: u64,
        task: u32,
        around: &mut Surroundings<'_>,
    ) {
        let block_bytes = around.geometry.block_bytes();
        for (first, count) in runs_of_ones(blocks) {
            let byte = u64::from(first) * block_bytes;
            let (source, target) = (self.slots.buffer(from, byte), self.slots.buffer(to, byte));
            let bytes = u64::from(count) * block_bytes;
            around.tasks.add_copy(task, Move { from: source, to: target, bytes }, false);
        }
        self.slots.pin(from);
        around.tasks.add_pin(task, from);
    }

    /// Takes in that a copy into the cache has arrived. What it brought is kept before the write is acknowledged.
    #[inline]
    pub(crate) fn end_copies_in(&mut self, geometry: &Geometry, arrivals: &[Arrival], outbox: &mut Outbox) {
        for arrival in arrivals {
            let carries = self.slots.carries(arrival.slot, arrival.replaces);
            let slot = &mut self.slots[arrival.slot];
            let named = slot.dirty;
            slot.valid |= arrival.valid & (arrival.dirty | carries);
            slot.dirty |= arrival.dirty;
            slot.incoming -= 1;
            let is_named = slot.dirty == named;
            if slot.first_waiter != NIL && slot.incoming == 0 {
                let block = slot.key;
                let key = geometry.lock_of_block(block);
                self.destage.urgent.push_back(key);
            }
            if arrival.replaces {
                self.slots.end_take_over(arrival.slot);
            }
            if !is_named {
                self.keep_slot(arrival.slot, outbox);
            }
        }
    }
}
