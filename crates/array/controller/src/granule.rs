//! Granules: the unit in which changes to the array are kept apart.
//!
//! Where there is parity a granule is a stripe, because any change in it changes its parity; elsewhere it is a
//! strip. At most one stripe operation runs in a granule; others wait in line, and writes that wait are gathered into
//! the next operation. A granule also lists the dirty cache slots that lie in it, so that a destage takes them all.
//!
//! One event asks for the same granule several times, so the one that was asked for last is remembered. The keys of
//! dirty granules stand one behind the other, too, because a sweep over them that went from slot to slot would wait for
//! memory at each.
//!
//! Invariants: a granule has an entry here exactly while it is locked, waited for, or dirty; its key is among the dirty
//! ones exactly while it lists a slot.

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
    /// To be read from a member as soon as the granule is in sync.
    Read,
    /// To be read for the last time, with nobody else at work in the granule.
    LastRound,
    /// For a visit in the background, which its fragment names as its request.
    Visit,
}

/// A fragment in line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiter {
    pub(crate) kind: WaitKind,
    pub(crate) fragment: Fragment,
    pub(crate) next: u32,
}

/// What is known of the write through that has locked a granule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Through {
    Unknown,
    /// It still collects, as this operation.
    Collects(u32),
    /// It is being carried out, and has the granule's last block.
    WritesEnd,
}

/// One granule: half a line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Granule {
    key: u64,
    pub(crate) locked: bool,
    /// Locked by a visit that resyncs it, so that what its members hold is about to change.
    pub(crate) syncing: bool,
    /// Wanted by a request that waits for its destage.
    pub(crate) urgent: bool,
    /// The operation that collects, or one of the numbers below.
    through: u32,
    first_waiter: u32,
    last_waiter: u32,
    /// First of the dirty slots that no destage has taken.
    pub(crate) first_dirty: u32,
    /// Its place among the dirty granules, while it lists a slot.
    dirty_at: u32,
}

const _: () = assert!(size_of::<Granule>() == 32, "a granule is half a line");

/// Stands for [`Through::WritesEnd`], as [`NIL`] does for [`Through::Unknown`].
const WRITES_END: u32 = NIL - 1;

impl Default for Granule {
    fn default() -> Self {
        Self {
            key: NO_KEY,
            locked: false,
            syncing: false,
            urgent: false,
            through: NIL,
            first_waiter: NIL,
            last_waiter: NIL,
            first_dirty: NIL,
            dirty_at: NIL,
        }
    }
}

impl Granule {
    pub(crate) const fn through(&self) -> Through {
        match self.through {
            NIL => Through::Unknown,
            WRITES_END => Through::WritesEnd,
            op => Through::Collects(op),
        }
    }

    pub(crate) const fn set_through(&mut self, through: Through) {
        self.through = match through {
            Through::Unknown => NIL,
            Through::WritesEnd => WRITES_END,
            Through::Collects(op) => op,
        };
    }

    /// True if something waits for it to be free.
    pub(crate) const fn is_awaited(&self) -> bool {
        self.urgent || self.first_waiter != NIL
    }
}

/// No granule has this number.
const NO_KEY: u64 = u64::MAX;

/// A granule that lists dirty slots, or did when this was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirtyGranule {
    pub(crate) key: u64,
    /// Its entry then, or [`NIL`] if that is not known.
    pub(crate) entry: u32,
}

/// Bits of a key that one pass of a sort looks at.
const DIGIT_BITS: u32 = 11;

/// Fewer than this are sorted by comparing them.
const FEW: usize = 512;

/// Sorts by key, digit by digit from the lowest (Knuth, TAOCP 5.2.5, algorithm R); `spare` is scratch memory. The keys of a
/// volume are short, and a sort by comparison would look at each four times as often.
pub(crate) fn sort_by_key(granules: &mut Vec<DirtyGranule>, spare: &mut Vec<DirtyGranule>) {
    if granules.len() < FEW {
        return granules.sort_unstable_by_key(|granule| granule.key);
    }
    let highest = granules.iter().fold(0, |bits, granule| bits | granule.key);
    spare.resize(granules.len(), DirtyGranule { key: NO_KEY, entry: NIL });
    for shift in (0..u64::BITS - highest.leading_zeros()).step_by(DIGIT_BITS as usize) {
        let digit = |granule: &DirtyGranule| (granule.key >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut counts = [0_u32; 1 << DIGIT_BITS];
        for granule in granules.iter() {
            counts[digit(granule)] += 1;
        }
        let mut sum = 0;
        let mut starts = counts.map(|count| {
            sum += count;
            sum - count
        });
        for granule in granules.iter() {
            let start = &mut starts[digit(granule)];
            spare[*start as usize] = *granule;
            *start += 1;
        }
        core::mem::swap(granules, spare);
    }
}

/// All granules that matter at the moment.
#[derive(Debug)]
pub(crate) struct Granules {
    index: Table,
    entries: Slab<Granule>,
    waiters: Slab<Waiter>,
    /// The granule that was asked for last, and its entry.
    latest: (u64, u32),
    /// Granules that list dirty slots, in no order.
    dirty: Vec<DirtyGranule>,
}

impl Granules {
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
    fn find(&mut self, key: u64) -> Option<u32> {
        if self.latest.0 != key {
            let Self { index, entries, .. } = self;
            self.latest = (key, index.get(key, |entry| entries[entry].key)?);
        }
        Some(self.latest.1)
    }

    #[inline]
    fn find_or_make(&mut self, key: u64) -> u32 {
        self.find(key).unwrap_or_else(|| {
            let entry = self.entries.take();
            self.entries[entry] = Granule { key, ..Granule::default() };
            let Self { index, entries, .. } = self;
            index.insert(key, entry, |entry| entries[entry].key);
            self.latest = (key, entry);
            entry
        })
    }

    /// The entry of `key`, if it has one.
    #[inline]
    pub(crate) fn get(&mut self, key: u64) -> Option<&mut Granule> {
        let entry = self.find(key)?;
        Some(&mut self.entries[entry])
    }

    /// The entry of `key`, made if need be.
    #[inline]
    pub(crate) fn obtain(&mut self, key: u64) -> &mut Granule {
        let entry = self.find_or_make(key);
        &mut self.entries[entry]
    }

    /// Forgets the entry of `key` if nothing keeps it.
    pub(crate) fn tidy(&mut self, key: u64) {
        let Some(entry) = self.find(key) else { return };
        let granule = &self.entries[entry];
        if !granule.locked && granule.first_waiter == NIL && granule.first_dirty == NIL {
            self.index.remove(key, entry);
            self.entries[entry].key = NO_KEY;
            self.entries.give(entry);
            self.latest = (NO_KEY, NIL);
        }
    }

    /// Lists a dirty slot of `key`. Returns the one that was listed before it, or [`NIL`].
    pub(crate) fn list_dirty(&mut self, key: u64, slot: u32) -> u32 {
        let entry = self.find_or_make(key);
        let granule = &mut self.entries[entry];
        if granule.first_dirty == NIL {
            granule.dirty_at = self.dirty.len() as u32;
            self.dirty.push(DirtyGranule { key, entry });
        }
        core::mem::replace(&mut granule.first_dirty, slot)
    }

    /// Takes all dirty slots of `key` off its list. Returns the first of them, or [`NIL`].
    pub(crate) fn take_dirty(&mut self, key: u64) -> u32 {
        let Some(granule) = self.get(key) else { return NIL };
        let first = core::mem::replace(&mut granule.first_dirty, NIL);
        if first != NIL {
            let at = granule.dirty_at;
            self.dirty.swap_remove(at as usize);
            if let Some(moved) = self.dirty.get(at as usize) {
                self.entries[moved.entry].dirty_at = at;
            }
        }
        first
    }

    /// The granules that list dirty slots, in no order.
    pub(crate) fn dirty(&self) -> &[DirtyGranule] {
        &self.dirty
    }

    /// Remembers the entry of a granule that was dirty, if it is still its own.
    pub(crate) fn recall(&mut self, granule: DirtyGranule) {
        if granule.entry != NIL && self.entries[granule.entry].key == granule.key {
            self.latest = (granule.key, granule.entry);
        }
    }

    /// Reads what a destage of a granule that was dirty will ask for, so that it is in the processor's cache by then. Returns
    /// a number that depends on it, and the first slot that the entry lists.
    #[inline]
    pub(crate) fn look_at(&self, granule: DirtyGranule) -> (u32, u32) {
        let cell = self.index.look_at(granule.key);
        (cell, if granule.entry == NIL { NIL } else { self.entries[granule.entry].first_dirty })
    }

    /// Puts `fragment` at the end of the line of `key`, which has an entry.
    pub(crate) fn wait(&mut self, key: u64, kind: WaitKind, fragment: Fragment) {
        let waiter = self.waiters.take();
        self.waiters[waiter] = Waiter { kind, fragment, next: NIL };
        let granule = self.get(key).expect("only a granule in use is waited for");
        let last = core::mem::replace(&mut granule.last_waiter, waiter);
        if last == NIL {
            granule.first_waiter = waiter;
        } else {
            self.waiters[last].next = waiter;
        }
    }

    /// The first in the line of `key`.
    pub(crate) fn peek_waiter(&mut self, key: u64) -> Option<Waiter> {
        let first = self.get(key)?.first_waiter;
        (first != NIL).then(|| self.waiters[first])
    }

    /// True if a fragment to be written that `is_wanted` stands in the line of `key`.
    pub(crate) fn any_write_waits(&self, key: u64, is_wanted: impl Fn(&Fragment) -> bool) -> bool {
        let Some(entry) = self.index.get(key, |entry| self.entries[entry].key) else { return false };
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
    pub(crate) fn pop_waiter(&mut self, key: u64) -> Waiter {
        let entry = self.find(key).expect("the line belongs to a granule in use");
        let first = self.entries[entry].first_waiter;
        let waiter = self.waiters[first];
        let granule = &mut self.entries[entry];
        granule.first_waiter = waiter.next;
        if waiter.next == NIL {
            granule.last_waiter = NIL;
        }
        self.waiters.give(first);
        waiter
    }

    /// True when no granule is in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.in_use() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sorting_by_digits_is_sorting(keys in proptest::collection::vec(any::<u64>(), 0..3 * FEW), bits in 0u32..64) {
            let granules = keys.iter().enumerate();
            let mut by_digits: Vec<_> =
                granules.map(|(entry, key)| DirtyGranule { key: key >> bits, entry: entry as u32 }).collect();
            let mut by_comparison = by_digits.clone();
            by_comparison.sort_by_key(|granule| (granule.key, granule.entry));
            sort_by_key(&mut by_digits, &mut Vec::new());
            if keys.len() < FEW {
                // The order of equal keys, which no sweep has, is left open.
                by_digits.sort_by_key(|granule| (granule.key, granule.entry));
            }
            prop_assert_eq!(by_digits, by_comparison);
        }
    }
}
