//! Stripe locks: one operation at a time changes a stripe, and others wait in line.
//!
//! With parity a lock covers a whole stripe, because any change in it changes its parity; without, one strip with its copies.
//! Code and comments call either the *stripe* of the lock, and number them by its *key*. At most one stripe operation runs under
//! a lock; others wait in line, and writes that wait are coalesced into the next one. A lock also lists the dirty cache slots of
//! its stripe, so that a destage takes them all.
//!
//! One event asks for the same lock several times, so the one that was asked for last is remembered. The keys of dirty stripes
//! stand side by side, too: a round of destages that went from slot to slot would wait for memory at each.
//!
//! Invariants: a lock has an entry here exactly while it is held, waited for, or lists dirty slots; its key is among the dirty
//! ones exactly while it lists a slot. Left out: who holds it, and what is done when it is free.

use crate::ids::{LockKey, OpId, SlotIndex, VisitId};
use crate::request::Fragment;
use crate::table::{NIL, Slab, Table};

/// What a fragment waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum WaitKind {
    /// To be written through.
    #[default]
    Write,
    /// To be read by recovery from redundancy.
    Recover,
    /// To be read from a member as soon as the stripe is in sync.
    Read,
    /// To be read for the last time, with nobody else at work in the stripe.
    LastRound,
    /// For a visit in the background, whose fragment is empty.
    Visit(VisitId),
}

/// A fragment in line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiter {
    pub(crate) kind: WaitKind,
    pub(crate) fragment: Fragment,
    pub(crate) next: u32,
}

/// What is known of the write through that has locked a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    Unknown,
    /// It still collects, as this operation.
    Collects(OpId),
    /// It is being carried out, and has the stripe's last block.
    WritesEnd,
}

/// One lock: half a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct StripeLock {
    key: LockKey,
    is_held: bool,
    /// Held by a visit that resyncs the stripe, so that what its members hold is about to change.
    is_syncing: bool,
    /// Wanted by a request that waits for a destage.
    is_urgent: bool,
    /// The operation that collects, or one of the numbers below.
    through: u32,
    first_waiter: u32,
    last_waiter: u32,
    /// First of the dirty slots that no destage has taken.
    first_dirty: SlotIndex,
    /// Its place among the dirty stripes, while it lists a slot.
    dirty_at: u32,
}

const _: () = assert!(size_of::<StripeLock>() == 32, "a lock is half a line");

/// Stands for [`Through::WritesEnd`], as [`NIL`] does for [`Through::Unknown`].
const WRITES_END: u32 = NIL - 1;

impl Default for StripeLock {
    fn default() -> Self {
        Self {
            key: NO_KEY,
            is_held: false,
            is_syncing: false,
            is_urgent: false,
            through: NIL,
            first_waiter: NIL,
            last_waiter: NIL,
            first_dirty: SlotIndex::NONE,
            dirty_at: NIL,
        }
    }
}

impl StripeLock {
    const fn through(&self) -> Through {
        match self.through {
            NIL => Through::Unknown,
            WRITES_END => Through::WritesEnd,
            op => Through::Collects(OpId(op)),
        }
    }

    const fn set_through(&mut self, through: Through) {
        self.through = match through {
            Through::Unknown => NIL,
            Through::WritesEnd => WRITES_END,
            Through::Collects(OpId(op)) => op,
        };
    }

    /// True if something waits for it to be free.
    const fn is_awaited(&self) -> bool {
        self.is_urgent || self.first_waiter != NIL
    }
}

/// No lock has this number.
const NO_KEY: LockKey = LockKey(u64::MAX);

/// A stripe with dirty slots, or one that had them when this was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirtyStripe {
    pub(crate) key: LockKey,
    /// Its entry then, or [`NIL`] if that is not known.
    pub(crate) entry: u32,
}

/// Bits of a key that one pass of a sort looks at.
const DIGIT_BITS: u32 = 11;

/// Fewer than this are sorted by comparing them.
const FEW: usize = 512;

/// Sorts by key, digit by digit from the lowest (Knuth, TAOCP 5.2.5, algorithm R); `spare` is scratch memory. The keys of a
/// volume are short, and a sort by comparison would look at each four times as often.
pub(crate) fn sort_by_key(stripes: &mut Vec<DirtyStripe>, spare: &mut Vec<DirtyStripe>) {
    if stripes.len() < FEW {
        return stripes.sort_unstable_by_key(|stripe| stripe.key);
    }
    let highest = stripes.iter().fold(0_u64, |bits, stripe| bits | stripe.key.0);
    spare.resize(stripes.len(), DirtyStripe { key: NO_KEY, entry: NIL });
    for shift in (0..u64::BITS - highest.leading_zeros()).step_by(DIGIT_BITS as usize) {
        let digit = |stripe: &DirtyStripe| (stripe.key.0 >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut counts = [0_u32; 1 << DIGIT_BITS];
        for stripe in stripes.iter() {
            counts[digit(stripe)] += 1;
        }
        let mut sum = 0;
        let mut starts = counts.map(|count| {
            sum += count;
            sum - count
        });
        for stripe in stripes.iter() {
            let start = &mut starts[digit(stripe)];
            spare[*start as usize] = *stripe;
            *start += 1;
        }
        core::mem::swap(stripes, spare);
    }
}

/// All stripes that matter at the moment.
#[derive(Debug)]
pub(crate) struct StripeLocks {
    index: Table,
    entries: Slab<StripeLock>,
    waiters: Slab<Waiter>,
    /// The lock that was asked for last, and its entry.
    latest: (LockKey, u32),
    /// Stripes with dirty slots, in no order.
    dirty: Vec<DirtyStripe>,
}

impl StripeLocks {
    pub(crate) fn new() -> Self {
        Self {
            // It grows with what is under way or dirty: a small one stays in the processor's cache.
            index: Table::with_room_for(64),
            entries: Slab::new(),
            waiters: Slab::new(),
            latest: (NO_KEY, NIL),
            dirty: Vec::new(),
        }
    }

    #[inline]
    fn find(&mut self, key: LockKey) -> Option<u32> {
        if self.latest.0 != key {
            let Self { index, entries, .. } = self;
            self.latest = (key, index.get(key.0, |entry| entries[entry].key.0)?);
        }
        Some(self.latest.1)
    }

    #[inline]
    fn find_or_make(&mut self, key: LockKey) -> u32 {
        self.find(key).unwrap_or_else(|| {
            let entry = self.entries.take();
            self.entries[entry] = StripeLock { key, ..StripeLock::default() };
            let Self { index, entries, .. } = self;
            index.insert(key.0, entry, |entry| entries[entry].key.0);
            self.latest = (key, entry);
            entry
        })
    }

    /// The entry of `key`, if it has one.
    #[inline]
    fn get(&mut self, key: LockKey) -> Option<&mut StripeLock> {
        let entry = self.find(key)?;
        Some(&mut self.entries[entry])
    }

    /// The entry of `key`, made if need be.
    #[inline]
    fn obtain(&mut self, key: LockKey) -> &mut StripeLock {
        let entry = self.find_or_make(key);
        &mut self.entries[entry]
    }

    /// Takes the lock of `key`. Returns false if it is held.
    #[inline]
    pub(crate) fn lock(&mut self, key: LockKey) -> bool {
        let lock = self.obtain(key);
        !core::mem::replace(&mut lock.is_held, true)
    }

    /// Lets go of the lock of `key`. Returns true if a destage is wanted that waited for it.
    pub(crate) fn unlock(&mut self, key: LockKey) -> bool {
        let lock = self.obtain(key);
        lock.is_held = false;
        let is_urgent = core::mem::take(&mut lock.is_urgent);
        self.tidy(key);
        is_urgent
    }

    /// Notes that a destage waits for the lock of `key`. Returns false if it is free.
    pub(crate) fn hurry(&mut self, key: LockKey) -> bool {
        let Some(lock) = self.get(key).filter(|lock| lock.is_held) else { return false };
        lock.is_urgent = true;
        true
    }

    /// True while the lock of `key` is held.
    pub(crate) fn is_held(&self, key: LockKey) -> bool {
        let entry = self.index.get(key.0, |entry| self.entries[entry].key.0);
        entry.is_some_and(|entry| self.entries[entry].is_held)
    }

    /// Notes whether what holds the lock of `key` resyncs its stripe.
    pub(crate) fn set_syncing(&mut self, key: LockKey, is_syncing: bool) {
        self.obtain(key).is_syncing = is_syncing;
    }

    /// True while the stripe of `key` is being resynced.
    pub(crate) fn is_syncing(&mut self, key: LockKey) -> bool {
        self.get(key).is_some_and(|lock| lock.is_syncing)
    }

    /// What is known of the write through that holds the lock of `key`.
    pub(crate) fn through(&mut self, key: LockKey) -> Through {
        self.get(key).map_or(Through::Unknown, |lock| lock.through())
    }

    /// The same without remembering the lock.
    pub(crate) fn peek_through(&self, key: LockKey) -> Through {
        let entry = self.index.get(key.0, |entry| self.entries[entry].key.0);
        entry.map_or(Through::Unknown, |entry| self.entries[entry].through())
    }

    /// Says what is known of it.
    pub(crate) fn set_through(&mut self, key: LockKey, through: Through) {
        self.obtain(key).set_through(through);
    }

    /// True if something waits for the lock of `key`.
    pub(crate) fn is_awaited(&mut self, key: LockKey) -> bool {
        self.get(key).is_some_and(|lock| lock.is_awaited())
    }

    /// The first of the dirty slots of `key` that no destage has taken; none while the lock is held.
    pub(crate) fn first_dirty_if_free(&mut self, key: LockKey) -> SlotIndex {
        self.get(key).filter(|lock| !lock.is_held).map_or(SlotIndex::NONE, |lock| lock.first_dirty)
    }

    /// Forgets the entry of `key` if nothing keeps it.
    fn tidy(&mut self, key: LockKey) {
        let Some(entry) = self.find(key) else { return };
        let lock = &self.entries[entry];
        if !lock.is_held && lock.first_waiter == NIL && lock.first_dirty == SlotIndex::NONE {
            self.index.remove(key.0, entry);
            self.entries[entry].key = NO_KEY;
            self.entries.give(entry);
            self.latest = (NO_KEY, NIL);
        }
    }

    /// Lists a dirty slot of `key`. Returns the one that was listed before it, or none.
    pub(crate) fn list_dirty(&mut self, key: LockKey, slot: SlotIndex) -> SlotIndex {
        let entry = self.find_or_make(key);
        let lock = &mut self.entries[entry];
        if lock.first_dirty == SlotIndex::NONE {
            lock.dirty_at = self.dirty.len() as u32;
            self.dirty.push(DirtyStripe { key, entry });
        }
        core::mem::replace(&mut lock.first_dirty, slot)
    }

    /// Takes all dirty slots of `key` off its list. Returns the first of them, if any.
    pub(crate) fn take_dirty(&mut self, key: LockKey) -> SlotIndex {
        let Some(lock) = self.get(key) else { return SlotIndex::NONE };
        let first = core::mem::replace(&mut lock.first_dirty, SlotIndex::NONE);
        if first != SlotIndex::NONE {
            let at = lock.dirty_at;
            self.dirty.swap_remove(at as usize);
            if let Some(moved) = self.dirty.get(at as usize) {
                self.entries[moved.entry].dirty_at = at;
            }
        }
        first
    }

    /// The stripes that list dirty slots, in no order.
    pub(crate) fn dirty(&self) -> &[DirtyStripe] {
        &self.dirty
    }

    /// Remembers the entry of a stripe that was dirty, if it is still its own.
    pub(crate) fn recall(&mut self, stripe: DirtyStripe) {
        if stripe.entry != NIL && self.entries[stripe.entry].key == stripe.key {
            self.latest = (stripe.key, stripe.entry);
        }
    }

    /// Reads what a destage of a stripe that was dirty will ask for, so that it is in the processor's cache by then. Returns
    /// a number that depends on it, and the first slot that the entry lists.
    #[inline]
    pub(crate) fn look_at(&self, stripe: DirtyStripe) -> (u32, SlotIndex) {
        let cell = self.index.look_at(stripe.key.0);
        (cell, if stripe.entry == NIL { SlotIndex::NONE } else { self.entries[stripe.entry].first_dirty })
    }

    /// Puts `fragment` at the end of the line of `key`, which has an entry.
    pub(crate) fn wait(&mut self, key: LockKey, kind: WaitKind, fragment: Fragment) {
        let waiter = self.waiters.take();
        self.waiters[waiter] = Waiter { kind, fragment, next: NIL };
        let lock = self.get(key).expect("only a lock in use is waited for");
        let last = core::mem::replace(&mut lock.last_waiter, waiter);
        if last == NIL {
            lock.first_waiter = waiter;
        } else {
            self.waiters[last].next = waiter;
        }
    }

    /// The first in the line of `key`.
    pub(crate) fn peek_waiter(&mut self, key: LockKey) -> Option<Waiter> {
        let first = self.get(key)?.first_waiter;
        (first != NIL).then(|| self.waiters[first])
    }

    /// True if a fragment to be written that `is_wanted` stands in the line of `key`.
    pub(crate) fn any_write_waits(&self, key: LockKey, is_wanted: impl Fn(&Fragment) -> bool) -> bool {
        let Some(entry) = self.index.get(key.0, |entry| self.entries[entry].key.0) else { return false };
        let mut next = self.entries[entry].first_waiter;
        while next != NIL {
            let Waiter { kind, fragment, next: behind } = self.waiters[next];
            if kind == WaitKind::Write && is_wanted(&fragment) {
                return true;
            }
            next = behind;
        }
        false
    }

    /// Takes the first out of the line of `key`, which is not empty.
    pub(crate) fn pop_waiter(&mut self, key: LockKey) -> Waiter {
        let entry = self.find(key).expect("the line belongs to a lock in use");
        let first = self.entries[entry].first_waiter;
        let waiter = self.waiters[first];
        let lock = &mut self.entries[entry];
        lock.first_waiter = waiter.next;
        if waiter.next == NIL {
            lock.last_waiter = NIL;
        }
        self.waiters.give(first);
        waiter
    }

    /// True when no lock is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.in_use() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::HostTag;
    use proptest::prelude::*;

    const KEY: LockKey = LockKey(7);

    proptest! {
        #[test]
        fn sorting_by_digits_is_sorting(keys in proptest::collection::vec(any::<u64>(), 0..3 * FEW), bits in 0u32..64) {
            let stripes = keys.iter().enumerate();
            let mut by_digits: Vec<_> =
                stripes.map(|(entry, key)| DirtyStripe { key: LockKey(key >> bits), entry: entry as u32 }).collect();
            let mut by_comparison = by_digits.clone();
            by_comparison.sort_by_key(|stripe| (stripe.key, stripe.entry));
            sort_by_key(&mut by_digits, &mut Vec::new());
            if keys.len() < FEW {
                // The order of equal keys, which no round has, is left open.
                by_digits.sort_by_key(|stripe| (stripe.key, stripe.entry));
            }
            prop_assert_eq!(by_digits, by_comparison);
        }
    }

    #[test]
    fn who_waits_comes_in_order_and_a_lock_that_nothing_keeps_is_forgotten() {
        let mut locks = StripeLocks::new();
        assert!(locks.lock(KEY));
        assert!(!locks.lock(KEY), "it is held");
        for request in [1, 2].map(HostTag) {
            locks.wait(KEY, WaitKind::Write, Fragment { request, ..Fragment::default() });
        }
        assert!(locks.is_awaited(KEY));
        assert!(locks.any_write_waits(KEY, |fragment| fragment.request == HostTag(2)));
        assert_eq!([(); 2].map(|()| locks.pop_waiter(KEY).fragment.request), [1, 2].map(HostTag));
        assert!(locks.peek_waiter(KEY).is_none());
        assert!(!locks.unlock(KEY), "no destage waits for it");
        assert!(locks.is_empty());
    }

    #[test]
    fn a_destage_that_finds_the_lock_held_is_wanted_when_it_is_free() {
        let mut locks = StripeLocks::new();
        assert_eq!(locks.list_dirty(KEY, SlotIndex(11)), SlotIndex::NONE);
        assert!(!locks.hurry(KEY), "it is free");
        assert!(locks.lock(KEY));
        assert_eq!(locks.first_dirty_if_free(KEY), SlotIndex::NONE);
        assert!(locks.hurry(KEY));
        assert!(locks.unlock(KEY));
        assert_eq!(locks.first_dirty_if_free(KEY), SlotIndex(11));
        assert_eq!(locks.take_dirty(KEY), SlotIndex(11));
        assert!(locks.dirty().is_empty());
    }

    #[test]
    fn the_write_through_that_collects_is_found_by_its_lock() {
        let mut locks = StripeLocks::new();
        assert_eq!(locks.through(KEY), Through::Unknown);
        assert!(locks.lock(KEY));
        for through in [Through::Collects(OpId(4)), Through::WritesEnd, Through::Unknown] {
            locks.set_through(KEY, through);
            assert_eq!(locks.through(KEY), through);
        }
    }
}
