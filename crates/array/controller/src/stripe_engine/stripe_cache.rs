//! Which pages of stripes Linux md's stripe cache holds after they were changed: what it holds is not read again.
//!
//! ```text
//!   stripe changed ─► its pages stay: read, written, parity ─► changed again: reads only what is not there
//!                                                          └─► another stripe takes its place: longest unused first
//! ```
//! It is a directory, without the pages: a world that carries bytes can't have it (asserted by [`crate::Controller::memory_steps`]).
//! Members are read and written by whole rows of stripes then, as md does by pages.
//!
//! Left out: pages that reads by recovery leave; stripes that are being changed take their places when that begins and may lose
//! them to others before it ends; strips behind the 128th of a stripe, which are never held.
//! Source: Linux drivers/md/raid5.c: `get_free_stripe` takes from the head of an `inactive_list`, where `do_release_stripe` puts
//! stripes at the tail; there are eight, and a stripe's address says which (`stripe_hash_locks_hash`); `R5_UPTODATE`; `handle_stripe_dirtying`; `ops_run_biodrain` for `R5_SkipCopy`.

use super::op::StripeOp;
use super::plan::Plan;
use crate::geometry::Geometry;
use crate::ids::LockKey;
use crate::metadata::Metadata;
use crate::request::Rows;
use crate::rules::{ArrayRules, StripeCache};
use crate::table::{NIL, Slab, Table};

/// Units of a stripe as a set: data strips, then parities.
type Units = u128;

/// One stripe.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: LockKey,
    held: Units,
    older: u32,
    newer: u32,
}

/// Lists that the stripes are shared out over by their number: `NR_STRIPE_HASH_LOCKS`.
const LISTS: usize = 8;

/// What is held of which stripes.
#[derive(Debug)]
pub(super) struct Directory {
    lists: [List; LISTS],
    /// Data stays when it was written: `R5_SkipCopy` is off.
    keeps_data: bool,
}

/// Stripes, from the one that was used last to the one that was not for longest.
#[derive(Debug)]
struct List {
    index: Table,
    entries: Slab<Entry>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

impl Directory {
    /// The directory that the rules ask for, empty.
    pub(super) fn of(rules: &ArrayRules) -> Option<Self> {
        let stripes = rules.stripe_pages_max.unwrap_or(0) as usize;
        let room = |list| List::new((stripes + LISTS - 1 - list) / LISTS);
        let keeps_data = rules.stripe_cache == StripeCache::Held;
        (rules.stripe_cache != StripeCache::None)
            .then(|| Self { lists: core::array::from_fn(room), keeps_data })
    }

    /// What is held of the stripe.
    fn held(&self, key: LockKey) -> Units {
        let list = &self.lists[key.0 as usize % LISTS];
        list.find(key).map_or(0, |entry| list.entries[entry].held)
    }

    /// Makes a stripe the one of its list that was used last. Returns what is held of it.
    fn touch(&mut self, key: LockKey) -> &mut Units {
        let list = &mut self.lists[key.0 as usize % LISTS];
        let entry = list.touch(key);
        &mut list.entries[entry].held
    }
}

impl List {
    /// A list with room for so many stripes, one at least.
    fn new(capacity: usize) -> Self {
        let (index, entries) = (Table::with_room_for(capacity), Slab::new());
        Self { index, entries, newest: NIL, oldest: NIL, capacity: capacity.max(1) }
    }

    fn find(&self, key: LockKey) -> Option<u32> {
        self.index.get(key.0, |entry| self.entries[entry].key.0)
    }

    fn unlink(&mut self, entry: u32) {
        let Entry { older, newer, .. } = self.entries[entry];
        match newer {
            NIL => self.newest = older,
            newer => self.entries[newer].older = older,
        }
        match older {
            NIL => self.oldest = newer,
            older => self.entries[older].newer = newer,
        }
    }

    /// Makes a stripe the one that was used last, in the place of another if need be. Returns its entry.
    fn touch(&mut self, key: LockKey) -> u32 {
        let entry = if let Some(entry) = self.find(key) {
            self.unlink(entry);
            entry
        } else {
            if self.entries.in_use() == self.capacity {
                let oldest = self.oldest;
                self.unlink(oldest);
                self.index.remove(self.entries[oldest].key.0, oldest);
                self.entries.give(oldest);
            }
            let entry = self.entries.take();
            (self.entries[entry].key, self.entries[entry].held) = (key, 0);
            let Self { index, entries, .. } = self;
            index.insert(key.0, entry, |entry| entries[entry].key.0);
            entry
        };
        (self.entries[entry].newer, self.entries[entry].older) = (NIL, self.newest);
        match self.newest {
            NIL => self.oldest = entry,
            newest => self.entries[newest].newer = entry,
        }
        self.newest = entry;
        entry
    }
}

const fn bit(unit: usize) -> Units {
    if unit < Units::BITS as usize { 1 << unit } else { 0 }
}

impl Directory {
    /// Takes a place for the stripe of an operation that begins.
    pub(super) fn take_place(&mut self, key: LockKey) {
        self.touch(key);
    }

    /// Forgets the page of a unit.
    pub(super) fn forget(&mut self, key: LockKey, unit: u16) {
        let list = &mut self.lists[key.0 as usize % LISTS];
        if let Some(entry) = list.find(key) {
            list.entries[entry].held &= !bit(usize::from(unit));
        }
    }

    /// Makes the views of a write those of whole pages, and says which of these are held.
    pub(super) fn view_pages(&self, op: &mut StripeOp, geometry: &Geometry, metadata: &Metadata) {
        let is_write = op.is_write() && geometry.parities() > 0;
        if !is_write || metadata.any_bad() || !op.unreadable.is_empty() {
            return;
        }
        let held = self.held(op.key);
        let whole = Rows { first: 0, count: geometry.strip_rows() };
        op.hull = whole;
        for (unit, view) in op.views.iter_mut().enumerate() {
            let is_written_whole = view.touched == whole && view.gap.is_empty();
            view.touched = if view.touched.is_empty() { Rows::NONE } else { whole };
            let is_data = unit + geometry.parities() < op.places.len();
            view.gap = if is_data && !is_written_whole { whole } else { Rows::NONE };
            view.held = view.readable && held & bit(unit) != 0;
        }
    }

    /// True if a change of a stripe finds here all that it needs.
    pub(super) fn has_all(&self, op: &StripeOp, geometry: &Geometry) -> bool {
        let held = self.held(op.key);
        if held == 0 {
            return false;
        }
        let (mut touched, mut whole): (Units, Units) = (0, 0);
        for piece in op.pieces() {
            touched |= bit(piece.strip.into());
            if piece.rows.count == geometry.strip_rows() {
                whole |= bit(piece.strip.into());
            }
        }
        let units = |range: core::ops::Range<usize>| range.fold(0, |units, unit| units | bit(unit));
        let data = units(0..geometry.data_strips());
        let parities = units(geometry.data_strips()..geometry.unit_count());
        let is_known = geometry.unit_count() <= Units::BITS as usize;
        is_known && ((touched | parities) & !held == 0 || data & !whole & !held == 0)
    }

    /// Holds what a write has read and written.
    pub(super) fn hold(&mut self, op: &StripeOp, geometry: &Geometry) {
        let whole = Rows { first: 0, count: geometry.strip_rows() };
        let (mut held, mut dropped): (Units, Units) = (0, 0);
        for (unit, (view, used)) in op.views.iter().zip(&op.units).enumerate() {
            let is_parity = unit + geometry.parities() >= op.views.len();
            let is_written = view.touched == whole || (is_parity && op.plan.computes_parity());
            if is_written && !is_parity && !self.keeps_data {
                dropped |= bit(unit);
            } else if is_written || used.read == whole {
                held |= bit(unit);
            }
        }
        if op.plan == Plan::Store {
            dropped = Units::MAX;
        }
        let pages = self.touch(op.key);
        *pages = (*pages | held) & !dropped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A list agrees with one that is searched from end to end.
        #[test]
        fn the_longest_unused_makes_room(keys in proptest::collection::vec(0u64..12, 0..200), capacity in 1usize..8) {
            let mut stripes = List::new(capacity);
            let mut list = vec![];
            for key in keys.into_iter().map(LockKey) {
                list.retain(|held| *held != key);
                list.push(key);
                if list.len() > capacity {
                    list.remove(0);
                }
                stripes.touch(key);
                for key in (0..12).map(LockKey) {
                    prop_assert_eq!(stripes.find(key).is_some(), list.contains(&key));
                }
            }
        }
    }
}
