//! Destage: dirty cache goes to the members in rounds over the volume, all dirty blocks of a stripe together.
//!
//! A round lists the stripes that are dirty when it begins. It takes them in order of address, so that members see ascending
//! writes, or of age. A parity stripe is written once for all that is dirty in it. Destage runs while
//! - the dirty share rose above the start mark and has not fallen to the stop mark, or
//! - a cached write waits for a place, a host flush waits, or a block has been dirty for longer than `flush_after`, or
//! - the cache may not hold dirty data at all, because the battery is not good.
//!
//! Stripes that a request waits for go first.

use super::CacheEngine;
use super::slots::{SlotState, runs_of_ones};
use crate::api::{BufferRef, IoClass, Notice, TimerId};
use crate::config::{CacheConfig, FlushOrder};
use crate::controller::Controller;
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::outbox::Outbox;
use crate::request::Rows;
use crate::stripe_engine::{OpKind, Piece};
use crate::stripe_locks::{DirtyStripe, StripeLocks, sort_by_key};
use crate::table::NIL;
use raidlab_units::{BlockCount, ByteCount, Lba, Nanos};
use std::collections::VecDeque;

/// The timer for blocks that have been dirty for long.
pub(crate) const AGE_TIMER: TimerId = TimerId(0);

/// The age timer is due at most so many times in the span that blocks may stay dirty.
const AGE_STEPS: u64 = 16;

/// Stripes of a round that are looked at together, ahead of their destages.
const LOOK_AHEAD: usize = 8;

/// What destaging is at.
#[derive(Debug, Default)]
pub(super) struct Destage {
    /// The marks, in slots: destaging starts above the one and stops at the other.
    start_above: u32,
    stop_at: u32,
    /// Stripes of the present round, in order.
    round: Vec<DirtyStripe>,
    /// Scratch memory for sorting them.
    spare: Vec<DirtyStripe>,
    /// Next of them.
    at: usize,
    /// Those before this have been looked at.
    looked_to: usize,
    /// Member writes of the operations under way.
    active_writes: u32,
    /// Bytes that those of them write that write parts of stripes.
    partial_bytes: u64,
    /// Stripes that a request waits for.
    pub(super) urgent: VecDeque<u64>,
    /// The dirty share is on its way from the start mark down to the stop mark.
    draining: bool,
    /// Blocks that became dirty before this sequence are due whatever their age.
    due_before: u64,
    /// Slots that became dirty before this sequence hold what a host flush promised to keep.
    pub(super) promised_before: u64,
    /// Destages under way that may end in members' volatile caches.
    pub(super) unforced_count: u32,
    timer_set: bool,
}

impl Destage {
    pub(super) fn new(cache: &CacheConfig, slots: u32) -> Self {
        let share = |pct: u8| (u64::from(slots) * u64::from(pct) / 100) as u32;
        Self {
            start_above: share(cache.flush_start_pct),
            stop_at: share(cache.flush_stop_pct),
            ..Self::default()
        }
    }
}

impl CacheEngine {
    /// True while fewer member writes are under way than destages may have.
    #[inline]
    pub(super) fn may_destage(&self) -> bool {
        let partial_is_full = |max: ByteCount| self.destage.partial_bytes >= max.0;
        self.destage.active_writes < self.config.flush_iodepth
            && !self.config.flush_partial_bytes.is_some_and(partial_is_full)
    }

    #[inline]
    pub(super) fn watch_marks(&mut self) {
        let dirty = self.slots.dirty_count();
        if dirty > self.destage.start_above {
            self.destage.draining = true;
        } else if dirty <= self.destage.stop_at {
            self.destage.draining = false;
        }
    }

    #[inline(never)]
    pub(super) fn next_in_round(&mut self, geometry: &Geometry, locks: &mut StripeLocks) -> Option<u64> {
        for _ in 0..2 {
            while self.destage.at < self.destage.round.len() {
                self.look_ahead(locks);
                let stripe = self.destage.round[self.destage.at];
                self.destage.at += 1;
                locks.recall(stripe);
                if self.can_destage(locks, stripe.key) {
                    return Some(stripe.key);
                }
            }
            self.begin_round(geometry, locks);
        }
        None
    }

    fn begin_round(&mut self, geometry: &Geometry, locks: &mut StripeLocks) {
        let mut round = core::mem::take(&mut self.destage.round);
        round.clear();
        match self.config.flush_order {
            FlushOrder::Address => {
                round.extend_from_slice(locks.dirty());
                sort_by_key(&mut round, &mut self.destage.spare);
            }
            FlushOrder::Age => self.list_by_age(geometry, &mut round),
        }
        self.destage.round = round;
        (self.destage.at, self.destage.looked_to) = (0, 0);
    }

    /// Reads what destages of the next stripes will ask for. Each would wait for memory several times, one after the
    /// other; here the processor waits for many places at the same time.
    fn look_ahead(&mut self, locks: &mut StripeLocks) {
        let from = self.destage.looked_to;
        if self.destage.at < from {
            return;
        }
        let to = (from + LOOK_AHEAD).min(self.destage.round.len());
        let mut first_slots = [NIL; LOOK_AHEAD];
        let mut sum = 0;
        for (stripe, first) in self.destage.round[from..to].iter().zip(&mut first_slots) {
            let (cell, slot) = locks.look_at(*stripe);
            sum ^= cell;
            *first = slot;
        }
        let slots = first_slots.into_iter().filter(|slot| *slot != NIL);
        sum ^= slots.map(|slot| self.slots.look_at(slot)).fold(0, |sum, read| sum ^ read);
        // What is read counts only for having been read.
        core::hint::black_box(sum);
        self.destage.looked_to = to;
    }

    /// Lists the stripes of dirty slots, the oldest first. A stripe may come more than once; the later times find it
    /// clean.
    fn list_by_age(&self, geometry: &Geometry, out: &mut Vec<DirtyStripe>) {
        for slot in self.slots.dirty_by_age() {
            if self.slots[slot].state == SlotState::Dirty {
                out.push(DirtyStripe { key: geometry.lock_of_block(self.slots[slot].key), entry: NIL });
            }
        }
        out.dedup();
    }

    /// True when the stripe is free and has a dirty slot whose data has all arrived.
    pub(super) fn can_destage(&self, locks: &mut StripeLocks, key: u64) -> bool {
        let mut slot = locks.first_dirty_if_free(key);
        while slot != NIL {
            if self.slots[slot].incoming == 0 {
                return true;
            }
            slot = self.slots[slot].next_of_stripe;
        }
        false
    }

    /// When a dirty slot has been so for long enough.
    pub(super) fn due_time(&self, slot: u32) -> Nanos {
        self.slots[slot].dirtied_at + self.config.flush_after
    }

    /// Sets the timer, which is not set, for the block that has been dirty longest, unless it is due: then it is on its way, and every
    /// event looks again.
    pub(super) fn set_age_timer(&mut self, now: Nanos, outbox: &mut Outbox) {
        let Some(oldest) = self.slots.oldest_dirty() else { return };
        let due = self.due_time(oldest);
        if due > now {
            self.destage.timer_set = true;
            // Blocks that became dirty shortly after one another are let grow old together.
            let at = due.max(now + self.config.flush_after / AGE_STEPS);
            outbox.set_timer(AGE_TIMER, at);
        }
    }

    /// Marks all that is dirty as due.
    pub(crate) fn destage_all(&mut self) {
        self.destage.due_before = self.slots.next_sequence();
    }

    /// Takes in that blocks may have been dirty for long enough.
    pub(crate) fn age_timer_due(&mut self) {
        self.destage.timer_set = false;
    }

    /// Address of the first block that a slot has a place for.
    pub(super) fn first_lba(&self, geometry: &Geometry, slot: u32) -> Lba {
        Lba(self.slots[slot].key * u64::from(geometry.cache_block_rows()))
    }

    /// Says that dirty data is lost: to the operator, to the next host flush, and to the writes that brought it if they are
    /// still under way.
    pub(super) fn lose_write(
        &mut self,
        lba: Lba,
        blocks: BlockCount,
        host: &mut HostFront,
        outbox: &mut Outbox,
    ) {
        self.lost_since_flush = Some(lba);
        host.fail_cached_writes(lba, blocks);
        outbox.notify(Notice::WriteLost { lba, blocks });
    }
}

impl Controller {
    /// Starts destages as far as they are wanted and allowed.
    #[inline]
    pub(crate) fn pump_destage(&mut self) {
        if self.cache.slots.dirty_count() == 0 {
            self.cache.destage.draining = false;
            return;
        }
        self.cache.watch_marks();
        if self.cache.may_destage() && (!self.cache.destage.urgent.is_empty() || self.wants_destage()) {
            self.start_destages();
        }
        if !self.cache.destage.timer_set {
            self.cache.set_age_timer(self.now, &mut self.outbox);
        }
    }

    #[inline(never)]
    fn start_destages(&mut self) {
        while self.cache.may_destage() {
            let urgent = self.next_urgent();
            let Some(key) = urgent.or_else(|| {
                if self.wants_destage() {
                    self.cache.next_in_round(&self.geometry, &mut self.stripe_locks)
                } else {
                    None
                }
            }) else {
                break;
            };
            self.start_destage(key);
            self.cache.watch_marks();
        }
    }

    fn wants_destage(&self) -> bool {
        let Some(oldest) = self.cache.slots.oldest_dirty() else { return false };
        self.cache.destage.draining
            || !self.cache.stalled.is_empty()
            || (self.host.has_flushes() && !self.cache_survives_power_loss())
            || !self.writes_back()
            || self.cache.slots[oldest].sequence < self.cache.destage.due_before
            || self.cache.due_time(oldest) <= self.now
    }

    fn next_urgent(&mut self) -> Option<u64> {
        while let Some(key) = self.cache.destage.urgent.pop_front() {
            if self.cache.can_destage(&mut self.stripe_locks, key) {
                return Some(key);
            }
            if self.stripe_locks.hurry(key) {
                self.look_at_awaited(key);
            }
        }
        None
    }

    #[inline(never)]
    fn start_destage(&mut self, key: u64) {
        let (stripe, _) = self.geometry.lock_start(key);
        let was_free = self.stripe_locks.lock(key);
        assert!(was_free, "only a stripe that nobody works on is destaged");
        if self.metadata.needs_resync(&self.geometry, key) {
            // When it is in sync it is the next to be destaged.
            self.stripe_locks.hurry(key);
            return self.resync_stripe(key);
        }
        let mut slot = self.stripe_locks.take_dirty(key);
        let id = self.new_op(key, stripe, OpKind::Write, IoClass::Destage);
        while slot != NIL {
            let next = self.cache.slots[slot].next_of_stripe;
            if self.cache.slots[slot].incoming == 0 {
                self.add_slot(id, slot);
            } else {
                self.cache.slots[slot].next_of_stripe = self.stripe_locks.list_dirty(key, slot);
            }
            slot = next;
        }
        let op = self.stripes.op_mut(id);
        op.writes = op.writes_of_pieces(&self.geometry);
        op.partial_bytes = op.partial_bytes_of_pieces(&self.geometry);
        self.cache.destage.active_writes += op.writes;
        self.cache.destage.partial_bytes += op.partial_bytes;
        self.cache.destage.unforced_count += u32::from(!op.fua);
        self.launch_op(id);
    }

    fn add_slot(&mut self, id: u32, slot: u32) {
        self.cache.slots.start_flush(slot);
        let must_survive = self.must_survive(slot);
        let op = self.stripes.op_mut(id);
        op.fua |= must_survive;
        op.slots.push(slot);
        let (_, strip, first_row) = self.geometry.layout().locate(self.cache.first_lba(&self.geometry, slot));
        for (first, count) in runs_of_ones(self.cache.slots[slot].dirty) {
            let source: BufferRef =
                self.cache.slots.buffer(slot, u64::from(first) * self.geometry.block_bytes());
            let rows = Rows { first: first_row.0 as u32 + first, count };
            op.pieces.push(Piece { strip, rows, source });
        }
    }

    /// Takes in that an operation has written its slots, or could not.
    pub(crate) fn end_destage(&mut self, id: u32) {
        let op = self.stripes.op(id);
        if op.slots.is_empty() {
            return;
        }
        self.cache.destage.active_writes -= op.writes;
        self.cache.destage.partial_bytes -= op.partial_bytes;
        self.cache.destage.unforced_count -= u32::from(!op.fua);
        for index in 0..self.stripes.op(id).slots.len() {
            let slot = self.stripes.op(id).slots[index];
            let stored = self.stripes.op(id).failed.is_empty() || !self.lose_slot(id, slot);
            let mut waiter = core::mem::replace(&mut self.cache.slots[slot].first_waiter, NIL);
            while waiter != NIL {
                let waiting = self.cache.slot_waiters[waiter];
                self.cache.slot_waiters.give(waiter);
                let result = if stored { Ok(()) } else { self.result_for(id, waiting.request) };
                self.end_part(waiting.request, result);
                waiter = waiting.next;
            }
            self.cache.settle_destaged(&self.geometry, &self.metadata, slot, stored, &mut self.outbox);
        }
    }

    /// Gives up on dirty data of a slot that no member can take. Returns false if there is none.
    fn lose_slot(&mut self, id: u32, slot: u32) -> bool {
        let mut any = false;
        for (first, count) in runs_of_ones(self.cache.slots[slot].dirty) {
            let mut at = self.cache.first_lba(&self.geometry, slot) + BlockCount(u64::from(first));
            let end = at + BlockCount(u64::from(count));
            let failed = &self.stripes.op(id).failed;
            while let Some(lost) = failed.first_in(at, BlockCount(end.0 - at.0)) {
                let blocks =
                    (lost.0..end.0).take_while(|lba| failed.first_in(Lba(*lba), BlockCount(1)).is_some());
                let blocks = BlockCount(blocks.count() as u64);
                self.cache.lose_write(lost, blocks, &mut self.host, &mut self.outbox);
                any = true;
                at = lost + blocks;
            }
        }
        if any {
            self.cache.slots.detach(slot);
        }
        any
    }
}
