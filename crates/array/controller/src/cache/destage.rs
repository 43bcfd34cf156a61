//! Destage: dirty cache goes to the members in rounds over the volume, all dirty blocks of a stripe together.
//!
//! A round lists the stripes that are dirty when it begins. It takes them in order of address, so that members see ascending
//! writes, or of age. A parity stripe is written once for all that is dirty in it. Destage runs while
//! - the dirty share rose above the start mark and has not fallen to the stop mark, or
//! - a cached write waits for a place, a host flush waits, or a block has been dirty for longer than `flush_after`, or
//! - the cache may not hold dirty data at all, because the battery is not good.
//!
//! Stripes that a request waits for go first.

use super::slots::{SlotState, runs_of_ones};
use super::{CacheEngine, Surroundings};
use crate::api::{HostTag, IoClass, Notice, TimerId};
use crate::config::{CacheConfig, FlushOrder};
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::ids::{LockKey, OpId, SlotIndex};
use crate::outbox::Outbox;
use crate::request::Rows;
use crate::stripe_engine::{DestageVolume, Job, Piece, StripeOp};
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

/// What comes next of destaging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DestageStep {
    /// This operation is to be carried out.
    Write(OpId),
    /// This stripe, which is locked now, must be resynced before. Then it is the next to be destaged.
    Resync(LockKey),
    /// A request waits for this stripe, and so does its destage.
    Await(LockKey),
}

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
    pub(super) urgent: VecDeque<LockKey>,
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
    fn may_destage(&self) -> bool {
        let partial_is_full = |max: ByteCount| self.destage.partial_bytes >= max.0;
        self.destage.active_writes < self.config.flush_iodepth
            && !self.config.flush_partial_bytes.is_some_and(partial_is_full)
    }

    /// Takes in how much is dirty. Returns true if anything is.
    #[inline]
    pub(crate) fn watch_marks(&mut self) -> bool {
        let dirty = self.slots.dirty_count();
        if dirty > self.destage.start_above {
            self.destage.draining = true;
        } else if dirty <= self.destage.stop_at {
            self.destage.draining = false;
        }
        dirty > 0
    }

    /// True if destages are wanted and allowed.
    #[inline]
    pub(crate) fn is_destage_due(&self, now: Nanos, host: &HostFront, log_is_mirrored: bool) -> bool {
        self.may_destage()
            && (!self.destage.urgent.is_empty() || self.wants_destage(now, host, log_is_mirrored))
    }

    fn wants_destage(&self, now: Nanos, host: &HostFront, log_is_mirrored: bool) -> bool {
        let Some(oldest) = self.slots.oldest_dirty() else { return false };
        self.destage.draining
            || !self.stalled.is_empty()
            || (host.has_flushes() && !self.survives_power_loss())
            || !self.writes_back(log_is_mirrored)
            || self.slots[oldest].sequence < self.destage.due_before
            || self.due_time(oldest) <= now
    }

    /// Starts the next destage, as far as they are wanted and allowed.
    pub(crate) fn next_destage(
        &mut self,
        log_is_mirrored: bool,
        around: &mut Surroundings<'_>,
    ) -> Option<DestageStep> {
        self.watch_marks();
        if !self.may_destage() {
            return None;
        }
        while let Some(key) = self.destage.urgent.pop_front() {
            if self.can_destage(around.locks, key) {
                return Some(self.start_destage(key, around));
            }
            if around.locks.hurry(key) {
                return Some(DestageStep::Await(key));
            }
        }
        if !self.wants_destage(around.now, around.host, log_is_mirrored) {
            return None;
        }
        let key = self.next_in_round(around.geometry, around.locks)?;
        Some(self.start_destage(key, around))
    }

    #[inline(never)]
    fn start_destage(&mut self, key: LockKey, around: &mut Surroundings<'_>) -> DestageStep {
        let geometry = around.geometry;
        let (stripe, _) = geometry.lock_start(key);
        let was_free = around.locks.lock(key);
        assert!(was_free, "only a stripe that nobody works on is destaged");
        if around.metadata.needs_resync(geometry, key) {
            around.locks.hurry(key);
            return DestageStep::Resync(key);
        }
        let mut slot = around.locks.take_dirty(key);
        let id = around.stripes.begin(geometry, (key, stripe), Job::Write, IoClass::Destage);
        let keeps_flush = around.host.has_flushes() && self.survives_power_loss();
        let op = around.stripes.op_mut(id);
        while slot != SlotIndex::NONE {
            let next = self.slots[slot].next_of_stripe;
            if self.slots[slot].incoming == 0 {
                self.add_slot(op, slot, keeps_flush, geometry);
            } else {
                self.slots[slot].next_of_stripe = around.locks.list_dirty(key, slot);
            }
            slot = next;
        }
        let DestageVolume { writes, partial_bytes } = op.count_destage(geometry);
        self.destage.active_writes += writes;
        self.destage.partial_bytes += partial_bytes;
        self.destage.unforced_count += u32::from(!op.is_forced());
        DestageStep::Write(id)
    }

    fn add_slot(&mut self, op: &mut StripeOp, slot: SlotIndex, keeps_flush: bool, geometry: &Geometry) {
        self.slots.start_flush(slot);
        let must_survive = self.must_survive(slot, keeps_flush);
        let (_, strip, first_row) = geometry.layout().locate(self.first_lba(geometry, slot));
        let pieces = runs_of_ones(self.slots[slot].dirty).map(|(first, count)| Piece {
            strip,
            rows: Rows { first: first_row.0 as u32 + first, count },
            source: self.slots.buffer(slot, u64::from(first) * geometry.block_bytes()),
        });
        op.add_slot(slot, must_survive, pieces);
    }

    /// Takes in that an operation has written its slots, or could not.
    pub(crate) fn end_writes(&mut self, op: &StripeOp) {
        if !op.slots().is_empty() {
            let DestageVolume { writes, partial_bytes } = op.destage();
            self.destage.active_writes -= writes;
            self.destage.partial_bytes -= partial_bytes;
            self.destage.unforced_count -= u32::from(!op.is_forced());
        }
    }

    /// Takes the next request that waits for the destage of a slot.
    #[inline]
    pub(crate) fn next_waiter(&mut self, slot: SlotIndex) -> Option<HostTag> {
        let waiter = self.slots[slot].first_waiter;
        if waiter == NIL {
            return None;
        }
        let waiting = self.slot_waiters[waiter];
        self.slot_waiters.give(waiter);
        self.slots[slot].first_waiter = waiting.next;
        Some(waiting.request)
    }

    #[inline(never)]
    fn next_in_round(&mut self, geometry: &Geometry, locks: &mut StripeLocks) -> Option<LockKey> {
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
        let mut first_slots = [SlotIndex::NONE; LOOK_AHEAD];
        let mut sum = 0;
        for (stripe, first) in self.destage.round[from..to].iter().zip(&mut first_slots) {
            let (cell, slot) = locks.look_at(*stripe);
            sum ^= cell;
            *first = slot;
        }
        let slots = first_slots.into_iter().filter(|slot| *slot != SlotIndex::NONE);
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
    fn can_destage(&self, locks: &mut StripeLocks, key: LockKey) -> bool {
        let mut slot = locks.first_dirty_if_free(key);
        while slot != SlotIndex::NONE {
            if self.slots[slot].incoming == 0 {
                return true;
            }
            slot = self.slots[slot].next_of_stripe;
        }
        false
    }

    /// When a dirty slot has been so for long enough.
    fn due_time(&self, slot: SlotIndex) -> Nanos {
        self.slots[slot].dirtied_at + self.config.flush_after
    }

    /// Sets the timer, if it is not set, for the block that has been dirty longest, unless it is due: then it is on its way, and
    /// every event looks again.
    #[inline]
    pub(crate) fn set_age_timer(&mut self, now: Nanos, outbox: &mut Outbox) {
        if !self.destage.timer_set {
            self.start_age_timer(now, outbox);
        }
    }

    fn start_age_timer(&mut self, now: Nanos, outbox: &mut Outbox) {
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
    pub(super) fn first_lba(&self, geometry: &Geometry, slot: SlotIndex) -> Lba {
        geometry.block_lba(self.slots[slot].key)
    }

    /// Gives up on dirty data of a slot that its operation could not write, but for NVRAM where it `is_kept`. Returns false if there is none.
    pub(crate) fn lose_slot(
        &mut self,
        slot: SlotIndex,
        op: &StripeOp,
        is_kept: bool,
        (geometry, host, outbox): (&Geometry, &mut HostFront, &mut Outbox),
    ) -> bool {
        let failed = op.failed();
        let mut any = false;
        for (first, count) in runs_of_ones(self.slots[slot].dirty) {
            let mut at = self.first_lba(geometry, slot) + BlockCount(u64::from(first));
            let end = at + BlockCount(u64::from(count));
            while let Some(lost) = failed.first_in(at, BlockCount(end.0 - at.0)) {
                let blocks =
                    (lost.0..end.0).take_while(|lba| failed.first_in(Lba(*lba), BlockCount(1)).is_some());
                let blocks = BlockCount(blocks.count() as u64);
                self.lose_write((lost, blocks), is_kept, host, outbox);
                any = true;
                at = lost + blocks;
            }
        }
        if any {
            self.slots.detach(slot);
        }
        any
    }

    /// Says that dirty data is lost: to the operator, to the next host flush, and to the writes that brought it if they are
    /// still under way.
    fn lose_write(
        &mut self,
        (lba, blocks): (Lba, BlockCount),
        is_kept: bool,
        host: &mut HostFront,
        outbox: &mut Outbox,
    ) {
        self.lost_since_flush = Some(lba);
        host.fail_cached_writes(lba, blocks);
        outbox.notify(Notice::WriteLost { lba, blocks, is_kept });
    }
}
