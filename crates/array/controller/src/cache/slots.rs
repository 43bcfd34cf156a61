//! The cache: slots of one cache block each, their states, and the lists they stand in.
//!
//! ```text
//!            write                 destage starts           destage ends
//!   Free ───────────► Dirty ───────────────────► Flushing ───────────────► Clean ──► Free (evicted)
//!     │                 ▲                            │ write                 │ write
//!     │ read fill       └──── a new slot (copy) ◄────┤         Dirty ◄───────┘
//!     └──────► Filling ───────────────────────────────│─────────────────────► Clean
//!                                 Preserved ◄────────┘ its device is lost
//! ```
//! A block under destage never changes, because parity is computed from it and it is being sent: a write to it
//! takes a new slot and the old one is *detached*, to be freed when its destage ends. A slot that is being filled
//! from a member is detached the same way.
//!
//! A slot is *preserved* when a device is gone for now that its blocks need: NVRAM goes on naming it, so that an
//! array that starts again with the device is whole. Until then nothing reads it, and no write gets its place: when all slots
//! are preserved, writes go past the cache.
//!
//! Invariants: an attached slot is the only one the index names for its key; `Clean` slots, and no others, are in
//! the recency list; `Dirty` and `Flushing` slots, and no others, are in the queue by age, in order of `sequence`; of two
//! slots with one key that are not clean the attached one has the higher `sequence`; a slot with `pins` or `incoming` is
//! never reused.

mod age;
mod nvram;

pub(super) use nvram::Restored;

use crate::api::{BufferRef, BufferSpace};
use crate::ids::{CacheBlockIndex, SlotIndex};
use crate::table::{NIL, Table};
use age::AgeQueue;
use raidlab_units::Nanos;

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SlotState {
    #[default]
    Free,
    /// Agrees with the members where `valid`.
    Clean,
    /// Newer than the members where `dirty`.
    Dirty,
    /// Being written to the members; must not change.
    Flushing,
    /// Being read from a member.
    Filling,
    /// Given up by this run, but not forgotten.
    Preserved,
}

/// One cache block, in one line of the processor's cache: most of what an access to a large cache costs is waiting for it.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
pub(super) struct Slot {
    /// Number of the cache block within the volume.
    pub(super) key: CacheBlockIndex,
    /// Blocks that hold data, a bit each.
    pub(super) valid: u64,
    /// Blocks newer than the members, a bit each.
    pub(super) dirty: u64,
    pub(super) state: SlotState,
    /// No longer named by the index.
    pub(super) detached: bool,
    /// Holds data of a write with forced unit access, or what a start found, so its destage must survive power loss.
    pub(super) promised: bool,
    /// What is dirty here is in the second controller's memory, too.
    pub(super) mirrored: bool,
    /// Copies out of this slot under way.
    pub(super) pins: u16,
    /// Copies into this slot under way.
    pub(super) incoming: u16,
    /// Order in which slots became dirty.
    pub(super) sequence: u64,
    pub(super) dirtied_at: Nanos,
    /// Next dirty slot of the same stripe.
    pub(super) next_of_stripe: SlotIndex,
    /// First of the requests that wait until this slot has been destaged; while it is being filled, the fill.
    pub(super) first_waiter: u32,
    /// The slot before it in the recency list; while it is in the queue by age, its place there.
    previous: u32,
    next: SlotIndex,
}

const _: () = assert!(size_of::<Slot>() == 64, "a slot is one line");

/// What a slot takes over from the one that it replaced, until that has arrived.
#[derive(Clone, Copy, Debug)]
struct TakeOver {
    carried: u64,
    shadow: SlotIndex,
    /// Carried blocks that are to be forgotten when they arrive.
    stale: u64,
}

impl TakeOver {
    const NOTHING: Self = Self { carried: 0, shadow: SlotIndex::NONE, stale: 0 };
}

impl Slot {
    /// True when it holds what the members do not have yet.
    pub(super) fn is_newer_than_members(&self) -> bool {
        matches!(self.state, SlotState::Dirty | SlotState::Flushing)
    }
}

/// A doubly linked list through the slots.
#[derive(Clone, Copy, Debug)]
struct List {
    head: SlotIndex,
    tail: SlotIndex,
}

impl List {
    const EMPTY: Self = Self { head: SlotIndex::NONE, tail: SlotIndex::NONE };
}

/// All slots.
#[derive(Debug)]
pub(super) struct Slots {
    entries: Vec<Slot>,
    /// What each slot takes over; counts where any does.
    take_overs: Vec<TakeOver>,
    take_over_count: u32,
    index: Table,
    free: Vec<SlotIndex>,
    /// Clean slots, least recently used first.
    recency: List,
    /// Dirty and flushing slots, oldest first.
    age: AgeQueue,
    dirty_count: u32,
    used_count: u32,
    next_sequence: u64,
    block_bytes: u64,
    /// The second controller is there: what becomes dirty from now on is copied to it.
    mirrors: bool,
    /// Slots in the queue by age, and preserved ones, that are not mirrored.
    unmirrored_count: u32,
    /// Slots below this sequence were restored from NVRAM.
    restored_before: u64,
    /// Those of them in the queue by age.
    restored_count: u32,
    preserved_count: u32,
}

impl Slots {
    pub(super) fn new(slot_count: u32, block_bytes: u64) -> Self {
        Self {
            entries: vec![Slot::default(); slot_count as usize],
            take_overs: vec![TakeOver::NOTHING; slot_count as usize],
            take_over_count: 0,
            index: Table::with_room_for(slot_count as usize),
            free: (0..slot_count).rev().map(SlotIndex).collect(),
            recency: List::EMPTY,
            age: AgeQueue::new(slot_count as usize),
            dirty_count: 0,
            used_count: 0,
            next_sequence: 1,
            block_bytes,
            mirrors: false,
            unmirrored_count: 0,
            restored_before: 0,
            restored_count: 0,
            preserved_count: 0,
        }
    }

    pub(super) const fn slot_count(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Slots that are dirty or being destaged.
    pub(super) const fn dirty_count(&self) -> u32 {
        self.dirty_count
    }

    /// True when no slot holds anything, so that no lookup can hit.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.used_count == 0
    }

    /// Sequence that the next slot to become dirty will get.
    pub(super) const fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// The slot that has been dirty longest.
    #[inline]
    pub(super) fn oldest_dirty(&self) -> Option<SlotIndex> {
        self.age.oldest()
    }

    /// Array blocks of them that the members do not have yet.
    pub(super) fn dirty_blocks(&self) -> u64 {
        self.age.iter().map(|slot| u64::from(self[slot].dirty.count_ones())).sum()
    }

    /// Slots that are dirty or being destaged, the oldest first.
    pub(super) fn dirty_by_age(&self) -> impl Iterator<Item = SlotIndex> + '_ {
        self.age.iter()
    }

    /// The slot for cache block `key`.
    #[inline]
    pub(super) fn lookup(&self, key: CacheBlockIndex) -> Option<SlotIndex> {
        self.index.get(key.0, |slot| self.entries[slot as usize].key.0).map(SlotIndex)
    }

    /// Reads a slot. Returns a number that depends on it.
    #[inline]
    pub(super) fn look_at(&self, slot: SlotIndex) -> u32 {
        self[slot].next_of_stripe.0
    }

    /// Where `block` (of `block_size` bytes) of the slot lies.
    #[inline]
    pub(super) fn buffer(&self, slot: SlotIndex, byte: u64) -> BufferRef {
        BufferRef { space: BufferSpace::Cache, offset: u64::from(slot.0) * self.block_bytes + byte }
    }

    /// Takes a slot for `key`, evicting the least recently used clean one if none is free. The slot is attached,
    /// empty, and in no list: the caller gives it a state. Where another slot stood for the key it no longer does; the
    /// caller marks that one as detached. `None` when all are dirty or in use.
    pub(super) fn allocate(&mut self, key: CacheBlockIndex) -> Option<SlotIndex> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.evict()?,
        };
        self.used_count += 1;
        self.entries[slot.0 as usize] = Slot {
            key,
            next_of_stripe: SlotIndex::NONE,
            first_waiter: NIL,
            previous: NIL,
            next: SlotIndex::NONE,
            ..Slot::default()
        };
        self.attach(slot);
        Some(slot)
    }

    /// Lets the index name the slot for its key.
    fn attach(&mut self, slot: SlotIndex) {
        let Self { index, entries, .. } = self;
        index.insert(entries[slot.0 as usize].key.0, slot.0, |slot| entries[slot as usize].key.0);
    }

    fn evict(&mut self) -> Option<SlotIndex> {
        let mut slot = self.recency.head;
        while slot != SlotIndex::NONE && self[slot].pins > 0 {
            slot = self[slot].next;
        }
        if slot == SlotIndex::NONE {
            return None;
        }
        self.drop_clean(slot);
        self.free.pop()
    }

    /// Makes a slot dirty; `Free` (just allocated) or `Clean` before, or already `Dirty`.
    pub(super) fn make_dirty(&mut self, slot: SlotIndex, now: Nanos) {
        match self[slot].state {
            SlotState::Dirty => return,
            SlotState::Clean => self.unlink(slot),
            SlotState::Free => {}
            state => unreachable!("a slot that is {state:?} must not change"),
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let mirrored = self.mirrors;
        let entry = &mut self[slot];
        entry.state = SlotState::Dirty;
        entry.sequence = sequence;
        entry.dirtied_at = now;
        entry.mirrored = mirrored;
        entry.promised = false;
        self.unmirrored_count += u32::from(!mirrored);
        self.dirty_count += 1;
        self.enter_age_queue(slot);
    }

    fn enter_age_queue(&mut self, slot: SlotIndex) {
        let Self { age, entries, .. } = self;
        let place = age.push(slot, |moved, place| entries[moved.0 as usize].previous = place);
        entries[slot.0 as usize].previous = place;
    }

    /// Starts the destage of a dirty slot.
    pub(super) fn start_flush(&mut self, slot: SlotIndex) {
        assert_eq!(self[slot].state, SlotState::Dirty);
        assert_eq!(self[slot].incoming, 0, "a slot with data under way must not be destaged");
        self[slot].state = SlotState::Flushing;
    }

    /// Ends the destage: the slot becomes clean, or free if it was detached.
    pub(super) fn finish_flush(&mut self, slot: SlotIndex) {
        self.leave_age_queue(slot);
        self[slot].dirty = 0;
        self.settle(slot);
    }

    fn leave_age_queue(&mut self, slot: SlotIndex) {
        let Slot { state, mirrored, sequence, previous: place, .. } = self[slot];
        assert_eq!(state, SlotState::Flushing);
        self.age.take(place);
        self.dirty_count -= 1;
        self.unmirrored_count -= u32::from(!mirrored);
        self.restored_count -= u32::from(sequence < self.restored_before);
    }

    /// Starts the fill of a slot just allocated.
    pub(super) fn start_fill(&mut self, slot: SlotIndex) {
        assert_eq!(self[slot].state, SlotState::Free);
        self[slot].state = SlotState::Filling;
    }

    /// Ends a fill with the blocks that are now valid; none when it failed.
    pub(super) fn finish_fill(&mut self, slot: SlotIndex, valid: u64) {
        assert_eq!(self[slot].state, SlotState::Filling);
        self[slot].valid = valid;
        if valid == 0 {
            self.detach(slot);
        }
        self.settle(slot);
    }

    /// Lets a slot that is neither dirty nor being filled rest: in the recency list, or freed if detached.
    fn settle(&mut self, slot: SlotIndex) {
        self[slot].state = SlotState::Clean;
        if !self[slot].detached {
            self.link_last(slot);
        } else if self[slot].pins == 0 {
            self.release(slot);
        }
    }

    /// Takes the slot out of the index, because a newer one or none stands for its key.
    pub(super) fn detach(&mut self, slot: SlotIndex) {
        if !self[slot].detached {
            let key = self[slot].key;
            self.index.remove(key.0, slot.0);
            self[slot].detached = true;
        }
    }

    /// Forgets a clean slot; it is freed at once, or when its last copy ends.
    pub(super) fn drop_clean(&mut self, slot: SlotIndex) {
        assert_eq!(self[slot].state, SlotState::Clean);
        self.unlink(slot);
        self.detach(slot);
        if self[slot].pins == 0 {
            self.release(slot);
        }
    }

    /// Forgets the blocks of a slot, and of its shadow, that are not newer than the members. What it has taken over from a slot whose
    /// destage is under way is newer until that ends.
    pub(super) fn forget_clean_blocks(&mut self, slot: SlotIndex) {
        let TakeOver { carried, shadow, .. } = self.take_over(slot);
        if shadow != SlotIndex::NONE {
            let newer = self[shadow].dirty;
            self[shadow].valid &= newer;
            self.take_overs[slot.0 as usize].stale = carried & !newer;
        }
        let Slot { key, valid, dirty, .. } = self[slot];
        if valid & !dirty != 0 {
            let under_way = self.age.iter().filter(|other| self[*other].key == key);
            let newer = under_way.fold(dirty, |newer, other| newer | self[other].dirty);
            self[slot].valid &= newer;
        }
    }

    /// What counts of the blocks that an arrival, which `replaces` the slot's shadow, carries from there.
    #[inline]
    pub(super) fn carries(&self, slot: SlotIndex, replaces: bool) -> u64 {
        if replaces { !self.take_over(slot).stale } else { u64::MAX }
    }

    /// Notes that `slot` has replaced `shadow`, and that blocks of it, `carried`, are on their way.
    pub(super) fn begin_take_over(&mut self, slot: SlotIndex, carried: u64, shadow: SlotIndex) {
        self.take_overs[slot.0 as usize] = TakeOver { carried, shadow, stale: 0 };
        self.take_over_count += 1;
    }

    /// Notes that all that `slot` takes over has arrived.
    pub(super) fn end_take_over(&mut self, slot: SlotIndex) {
        self.take_overs[slot.0 as usize] = TakeOver::NOTHING;
        self.take_over_count -= 1;
    }

    fn take_over(&self, slot: SlotIndex) -> TakeOver {
        if self.take_over_count == 0 {
            return TakeOver::NOTHING;
        }
        self.take_overs[slot.0 as usize]
    }

    /// Blocks on their way to the slot from its shadow, a bit each. They may not be written before they arrive: the late
    /// arrival would undo it.
    #[inline]
    pub(super) fn carried(&self, slot: SlotIndex) -> u64 {
        self.take_over(slot).carried
    }

    /// The slot that this one replaced, if any, until what replaces it has arrived; pinned for as long. What is not
    /// valid here yet is read there, because the members may not have it.
    #[inline]
    pub(super) fn shadow(&self, slot: SlotIndex) -> SlotIndex {
        self.take_over(slot).shadow
    }

    /// Notes that a copy out of the slot has begun.
    pub(super) fn pin(&mut self, slot: SlotIndex) {
        self[slot].pins += 1;
    }

    /// Notes that a copy out of the slot has ended. Returns true when that freed the slot.
    pub(super) fn unpin(&mut self, slot: SlotIndex) -> bool {
        self[slot].pins -= 1;
        let entry = &self[slot];
        let done = entry.pins == 0 && entry.detached && entry.state == SlotState::Clean;
        if done {
            self.release(slot);
        }
        done
    }

    /// Moves a clean slot to the recently used end.
    pub(super) fn touch(&mut self, slot: SlotIndex) {
        if self[slot].state == SlotState::Clean && !self[slot].detached {
            self.unlink(slot);
            self.link_last(slot);
        }
    }

    fn release(&mut self, slot: SlotIndex) {
        self[slot].state = SlotState::Free;
        self.used_count -= 1;
        self.free.push(slot);
    }

    /// Puts a clean slot at the recently used end.
    fn link_last(&mut self, slot: SlotIndex) {
        let tail = core::mem::replace(&mut self.recency.tail, slot);
        if tail == SlotIndex::NONE {
            self.recency.head = slot;
        } else {
            self[tail].next = slot;
        }
        let entry = &mut self[slot];
        entry.previous = tail.0;
        entry.next = SlotIndex::NONE;
    }

    fn unlink(&mut self, slot: SlotIndex) {
        let (previous, next) = (SlotIndex(self[slot].previous), self[slot].next);
        if previous == SlotIndex::NONE {
            self.recency.head = next;
        } else {
            self[previous].next = next;
        }
        if next == SlotIndex::NONE {
            self.recency.tail = previous;
        } else {
            self[next].previous = previous.0;
        }
    }
}

/// The runs of ones in `bits`, from the lowest: first bit and length of each.
pub(super) fn runs_of_ones(mut bits: u64) -> impl Iterator<Item = (u32, u32)> {
    core::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let first = bits.trailing_zeros();
        let count = (bits >> first).trailing_ones();
        bits &= !((u64::MAX >> (64 - count)) << first);
        Some((first, count))
    })
}

impl core::ops::Index<SlotIndex> for Slots {
    type Output = Slot;
    #[inline]
    fn index(&self, slot: SlotIndex) -> &Slot {
        &self.entries[slot.0 as usize]
    }
}

impl core::ops::IndexMut<SlotIndex> for Slots {
    #[inline]
    fn index_mut(&mut self, slot: SlotIndex) -> &mut Slot {
        &mut self.entries[slot.0 as usize]
    }
}
