//! Unsynced granules: those whose redundancy may disagree with the data, because the array was not stopped cleanly.
//!
//! | level | where the granule has all its data | where some of its data is on no device |
//! |---|---|---|
//! | parity | is resynced (parity computed again from the data) before the host touches it | stays unsynced |
//! | copies | is resynced (later copies written again from the first) before the host touches it | is lost anyway |
//!
//! In a granule that stays unsynced nothing is ever made up from parity: what a device holds is read as it is, the rest is
//! an error. A write there leaves parity alone, or computes it from all data; when it did so for all rows the granule is
//! in sync.
//!
//! Where copies disagree the first one counts, for good once the host has read it. So a granule that lacks a copy is not in
//! sync before the devices know who is missing: after a crash that device would be back, and its copy could be the first. While
//! it stands on a *lost* device, which will be back, only the copies before that one's are read.
//!
//! Where blocks have tags, these may disagree with the data, too, even without redundancy. A resync reads
//! everything that is there, and what is read in an unsynced granule is believed and given new tags.
//!
//! Invariant: the set takes memory only while some granule is in it.

use crate::controller::Controller;
use crate::request::Fragment;
use core::ops::Range;
use raidlab_format::{RegionIndex, RegionMap};
use raidlab_raid::StripUnit;

/// The set of unsynced granules: a bit each.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    words: Vec<u64>,
    count: u64,
}

impl Unsynced {
    /// True when no granule is unsynced: the common case, which costs one branch.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Granules in the set.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    pub(crate) fn contains(&self, key: u64) -> bool {
        self.count > 0 && self.words[(key / 64) as usize] >> (key % 64) & 1 == 1
    }

    /// Adds `keys`, of `granules` that there are.
    fn mark(&mut self, keys: Range<u64>, granules: u64) {
        self.words.resize(granules.div_ceil(64) as usize, 0);
        for key in keys {
            let word = &mut self.words[(key / 64) as usize];
            self.count += u64::from(*word >> (key % 64) & 1 == 0);
            *word |= 1 << (key % 64);
        }
        if self.count == 0 {
            self.words = Vec::new();
        }
    }

    /// Takes `key` out of the set.
    fn remove(&mut self, key: u64) {
        if self.contains(key) {
            self.words[(key / 64) as usize] &= !(1 << (key % 64));
            self.count -= 1;
            if self.count == 0 {
                self.words = Vec::new();
            }
        }
    }

    /// The first granule of the set from `key` on.
    pub(crate) fn next(&self, key: u64) -> Option<u64> {
        let first = (key / 64) as usize;
        let masked = |index: usize| {
            let mask = if index == first { u64::MAX << (key % 64) } else { u64::MAX };
            self.words[index] & mask
        };
        let index = (first..self.words.len()).find(|&index| masked(index) != 0)?;
        Some(index as u64 * 64 + u64::from(masked(index).trailing_zeros()))
    }
}

impl Controller {
    /// How many granules there are: stripes where there is parity, else strips.
    pub fn granule_count(&self) -> u64 {
        self.geometry.granule_count()
    }

    /// How many granules may disagree with their redundancy; see [`Controller::mark_unsynced`].
    pub const fn unsynced_granules(&self) -> u64 {
        self.unsynced.count()
    }

    /// Notes that the redundancy of granules (numbers below [`Controller::granule_count`], asserted) may disagree with
    /// their data, as after a crash. They are resynced with the next event, and before the host touches them.
    pub fn mark_unsynced(&mut self, granules: Range<u64>) {
        let count = self.granule_count();
        assert!(granules.end <= count, "granules {granules:?} are not all among {count}");
        if self.geometry.is_redundant() || self.tags.is_on() {
            self.unsynced.mark(granules, count);
            self.sweeps.resync_due = true;
            self.sweeps.attention = true;
        }
    }

    /// True when the granule is to be resynced before anything else, and can be.
    #[inline]
    pub(crate) fn needs_resync(&self, key: u64) -> bool {
        self.unsynced.contains(key) && self.has_all_data(key)
    }

    /// True while a resync of the granule is under way, which goes on for a while when a device is lost.
    pub(crate) fn is_being_synced(&mut self, key: u64) -> bool {
        self.granules.get(key).is_some_and(|granule| granule.syncing)
    }

    /// True when each data strip of the granule stands on some device.
    pub(crate) fn has_all_data(&self, key: u64) -> bool {
        let (stripe, first) = self.geometry.granule_start(key);
        if self.touches_lost(key) {
            return false;
        }
        let strips = if self.geometry.parities() > 0 {
            0..self.geometry.data_strips() as u16
        } else {
            first..first + 1
        };
        strips.into_iter().all(|strip| {
            let mut copies = (0..self.geometry.copies()).map(|copy| StripUnit::Data { strip, copy });
            copies.any(|unit| self.members.holds(self.geometry.layout().place(stripe, unit)))
        })
    }

    /// True if a unit of the granule stands on a device that is lost.
    pub(crate) fn touches_lost(&self, key: u64) -> bool {
        let places = (0..self.geometry.granule_units()).map(|unit| self.geometry.granule_place(key, unit));
        self.members.any_lost() && self.members.touches_lost(places)
    }

    /// How many of a fragment's copies, the first of them, a resync will take before one that is on a lost device; none where
    /// copies agree, or none is lost.
    pub(crate) fn doubted_copies(&self, fragment: &Fragment) -> Option<u16> {
        if self.unsynced.is_empty() || self.geometry.parities() > 0 || !self.members.any_lost() {
            return None;
        }
        let is_lost = |copy: &u16| {
            let unit = StripUnit::Data { strip: fragment.strip, copy: *copy };
            self.members.touches_lost(core::iter::once(self.geometry.layout().place(fragment.stripe, unit)))
        };
        let lost = (0..self.geometry.copies()).find(is_lost);
        lost.filter(|_| self.unsynced.contains(self.geometry.granule_key(fragment)))
    }

    /// True if a granule whose copies have been made to agree lacks one whose device the devices may still take for one in
    /// sync. Where they will never know better it is a lost one.
    pub(crate) fn lacks_copy_unknown(&self, key: u64) -> bool {
        let mut places =
            (0..self.geometry.granule_units()).map(|unit| self.geometry.granule_place(key, unit));
        let is_awaited = !self.state.is_kept() && !self.state_is_frozen();
        self.geometry.copies() > 1 && is_awaited && places.any(|place| !self.members.holds(place))
    }

    /// Takes in that redundancy agrees in a granule.
    pub(crate) fn granule_synced(&mut self, key: u64) {
        if !self.unsynced.contains(key) {
            return;
        }
        self.unsynced.remove(key);
        let (stripe, _) = self.geometry.granule_start(key);
        let region = self.geometry.granules_of(self.region_stripes(stripe));
        if self.unsynced.next(region.start).is_none_or(|next| next >= region.end) {
            self.release_region(stripe);
        }
        if self.unsynced.is_empty() {
            self.all_synced();
        }
    }

    /// Lets the devices know that redundancy agrees everywhere.
    fn all_synced(&mut self) {
        if !self.state_is_frozen()
            && let Some(record) = &mut self.state.record
            && core::mem::take(&mut record.needs_resync)
        {
            self.change_state();
        }
    }

    /// Marks what a bitmap marks.
    pub(crate) fn mark_regions_unsynced(&mut self, marked: &RegionMap) {
        let mut next = marked.next_marked(RegionIndex(0));
        while let Some(region) = next {
            self.mark_unsynced(self.geometry.granules_of(marked.stripes_of(region)));
            next = marked.next_marked(RegionIndex(region.0 + 1));
        }
    }

    /// Takes in that a resync has walked over all that it could. What stays unsynced lacks data on a device.
    pub(crate) fn resync_done(&mut self) {
        if self.unsynced.is_empty() {
            self.all_synced();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Unsynced;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(history in proptest::collection::vec((0u64..200, 0u64..80, any::<bool>()), 0..60)) {
            let (mut unsynced, mut set) = (Unsynced::default(), BTreeSet::new());
            for (first, count, mark) in history {
                let range = first..(first + count).min(200);
                if mark {
                    set.extend(range.clone());
                    unsynced.mark(range, 200);
                } else {
                    set.remove(&first);
                    unsynced.remove(first);
                }
                prop_assert_eq!(unsynced.count(), set.len() as u64);
                prop_assert_eq!(unsynced.is_empty(), unsynced.words.is_empty());
                for key in 0..200 {
                    prop_assert_eq!(unsynced.contains(key), set.contains(&key));
                    prop_assert_eq!(unsynced.next(key), set.range(key..).next().copied());
                }
            }
        }
    }
}
