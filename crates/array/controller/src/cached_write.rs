//! Writes into the cache: places for their blocks, copies, and what becomes dirty when they have arrived.
//!
//! A request takes places block by block. When none is free it stands in line, keeping those it has (they become
//! dirty and can be destaged), and goes on when a destage has freed some; later cached writes line up behind it.

use crate::api::HostOp;
use crate::cache::{SlotState, runs_of_ones};
use crate::controller::Controller;
use crate::geometry::CacheBlock;
use crate::io::{Arrival, Move, TaskOwner};
use crate::request::Request;
use crate::table::NIL;
use raidlab_units::{BlockCount, Lba};

/// A request that waits for the destage of a slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SlotWaiter {
    pub(crate) request: u32,
    pub(crate) next: u32,
}

impl Controller {
    /// True when the cache holds data of the range that the members do not have yet.
    pub(crate) fn holds_dirty(&self, lba: Lba, blocks: BlockCount) -> bool {
        self.cache.dirty_count() > 0
            && self.geometry.cache_keys(lba, blocks).any(|key| {
                let state = self.cache.lookup(key).map(|slot| self.cache[slot].state);
                matches!(state, Some(SlotState::Dirty | SlotState::Flushing))
            })
    }

    /// Drops clean and arriving copies of the range.
    pub(crate) fn forget_cached(&mut self, lba: Lba, blocks: BlockCount) {
        if self.cache.is_empty() {
            return;
        }
        for key in self.geometry.cache_keys(lba, blocks) {
            let Some(slot) = self.cache.lookup(key) else { continue };
            match self.cache[slot].state {
                SlotState::Clean => self.cache.drop_clean(slot),
                SlotState::Filling => self.cache.detach(slot),
                SlotState::Dirty | SlotState::Flushing | SlotState::Free | SlotState::Preserved => {}
            }
        }
    }

    /// Writes a request into the cache; `durable` ones end when the members have the data.
    pub(crate) fn begin_cached_write(&mut self, tag: u32, durable: bool) {
        let request = &mut self.requests[tag as usize];
        request.durable = durable;
        // Held until the last block has its place.
        request.pending += 1;
        self.stalled.push_back(tag);
    }

    /// Gives places to the cached writes in line, in order, as far as there are places. None while a write goes through:
    /// a slot that holds its old data must be free to be forgotten when it ends.
    #[inline]
    pub(crate) fn pump_stalled(&mut self) {
        if self.through_in_flight == 0 && !self.stalled.is_empty() {
            self.place_stalled();
        }
    }

    #[inline(never)]
    fn place_stalled(&mut self) {
        while let Some(&tag) = self.stalled.front() {
            self.place_blocks(tag);
            let Request { placed, blocks, .. } = self.requests[tag as usize];
            if placed < blocks.0 {
                return;
            }
            self.stalled.pop_front();
            self.end_part(tag, Ok(()));
        }
    }

    fn place_blocks(&mut self, tag: u32) {
        let mut task = None;
        let Request { op, lba, blocks, durable, placed, .. } = self.requests[tag as usize];
        let fua = op == HostOp::Write { fua: true };
        // What has no place yet.
        let mut walk = self.walk(tag).skip(BlockCount(placed), lba);
        'fragments: while let Some(fragment) = walk.next(self.geometry.layout()) {
            let key = self.geometry.granule_key(&fragment);
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
                self.cache[slot].promised |= fua;
                if durable {
                    self.wait_for_destage(slot, tag);
                }
                let id = *task.get_or_insert_with(|| self.new_copies(TaskOwner::CopyIn { request: tag }));
                let part =
                    fragment.part(crate::request::Rows::between(row, end), self.geometry.block_bytes());
                let to = self.cache.buffer(slot, block.byte(row, self.geometry.block_bytes()));
                let bytes = u64::from(end - row) * self.geometry.block_bytes();
                let copy = Move { from: part.host_buffer(), to, bytes };
                let mirrored = self.cache[slot].mirrored;
                let task = &mut self.tasks[id];
                let copies = if mirrored { &mut task.mirrored } else { &mut task.moves };
                copies.push(copy);
                let valid = if replaces { written | self.cache.carried(slot) } else { written };
                self.tasks[id].arrivals.push(Arrival { slot, valid, dirty: written, replaces });
                self.cache[slot].incoming += 1;
                self.requests[tag as usize].placed += u64::from(end - row);
                row = end;
            }
        }
        debug_assert!(
            self.requests[tag as usize].placed <= blocks.0,
            "placed past the end of {lba}+{blocks}"
        );
        if let Some(id) = task {
            self.requests[tag as usize].pending += 1;
            self.start_copies(id);
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
        granule: u64,
    ) -> Option<u32> {
        let old = self.cache.lookup(block.key);
        let slot = match old.map(|slot| (slot, self.cache[slot].state)) {
            Some((slot, SlotState::Dirty | SlotState::Clean)) => {
                if self.cache.carried(slot) & written != 0 {
                    return None;
                }
                slot
            }
            Some((slot, SlotState::Flushing | SlotState::Filling)) => {
                let new = self.allocate(block.key)?;
                self.cache[slot].detached = true;
                if self.cache[slot].valid != 0 {
                    let id = *task.get_or_insert_with(|| self.new_copies(TaskOwner::CopyIn { request: tag }));
                    let carried = self.cache[slot].valid & !written;
                    self.copy_slot(slot, new, carried, id);
                    self.cache.begin_take_over(new, carried, slot);
                    *replaces = true;
                }
                new
            }
            Some((_, SlotState::Free | SlotState::Preserved)) => unreachable!("the index names no such slot"),
            None => self.allocate(block.key)?,
        };
        if self.cache[slot].state != SlotState::Dirty {
            self.cache.make_dirty(slot, self.now);
            self.cache[slot].granule_next = self.granules.list_dirty(granule, slot);
        }
        Some(slot)
    }

    /// Takes a slot for a write; one that holds data for an array that starts again must go if there is no other.
    fn allocate(&mut self, key: u64) -> Option<u32> {
        let slot = self.cache.allocate(key);
        if slot.is_none() && self.give_up_preserved() { self.cache.allocate(key) } else { slot }
    }

    fn copy_slot(&mut self, from: u32, to: u32, blocks: u64, task: u32) {
        for (first, count) in runs_of_ones(blocks) {
            let byte = u64::from(first) * self.geometry.block_bytes();
            let (source, target) = (self.cache.buffer(from, byte), self.cache.buffer(to, byte));
            let bytes = u64::from(count) * self.geometry.block_bytes();
            self.tasks[task].moves.push(Move { from: source, to: target, bytes });
        }
        self.cache.pin(from);
        self.tasks[task].pinned.push(from);
    }

    /// Lets a part of the request wait until the slot, dirty or being destaged, has been destaged.
    pub(crate) fn wait_for_destage(&mut self, slot: u32, tag: u32) {
        self.requests[tag as usize].pending += 1;
        let waiter = self.slot_waiters.take();
        let next = core::mem::replace(&mut self.cache[slot].first_waiter, waiter);
        self.slot_waiters[waiter] = SlotWaiter { request: tag, next };
    }

    /// Takes in that a copy into the cache has arrived. What it brought is kept before the write is acknowledged.
    pub(crate) fn copy_in_done(&mut self, tag: u32, arrivals: &[Arrival]) {
        for arrival in arrivals {
            let slot = &mut self.cache[arrival.slot];
            let named = slot.dirty;
            slot.valid |= arrival.valid;
            slot.dirty |= arrival.dirty;
            slot.incoming -= 1;
            let is_named = slot.dirty == named;
            if slot.first_waiter != NIL && slot.incoming == 0 {
                let block = slot.key;
                let key = self.geometry.granule_of_block(block);
                self.destage.urgent.push_back(key);
            }
            if arrival.replaces {
                self.cache.end_take_over(arrival.slot);
            }
            if !is_named {
                self.keep_slot(arrival.slot);
            }
        }
        self.end_part(tag, Ok(()));
    }
}
