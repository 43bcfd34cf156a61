//! Stripes out of sync: those whose redundancy may disagree with the data, because the array was not stopped cleanly.
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

use core::ops::Range;

/// The set of unsynced granules: a bit each.
#[derive(Debug, Default)]
pub(super) struct OutOfSync {
    words: Vec<u64>,
    count: u64,
}

impl OutOfSync {
    /// True when no granule is unsynced: the common case, which costs one branch.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Granules in the set.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    pub(super) fn contains(&self, key: u64) -> bool {
        self.count > 0 && self.words[(key / 64) as usize] >> (key % 64) & 1 == 1
    }

    /// Adds `keys`, of `granules` that there are.
    pub(super) fn mark(&mut self, keys: Range<u64>, granules: u64) {
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
    pub(super) fn remove(&mut self, key: u64) {
        if self.contains(key) {
            self.words[(key / 64) as usize] &= !(1 << (key % 64));
            self.count -= 1;
            if self.count == 0 {
                self.words = Vec::new();
            }
        }
    }

    /// The first granule of the set from `key` on.
    pub(super) fn next(&self, key: u64) -> Option<u64> {
        let first = (key / 64) as usize;
        let masked = |index: usize| {
            let mask = if index == first { u64::MAX << (key % 64) } else { u64::MAX };
            self.words[index] & mask
        };
        let index = (first..self.words.len()).find(|&index| masked(index) != 0)?;
        Some(index as u64 * 64 + u64::from(masked(index).trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::OutOfSync;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(history in proptest::collection::vec((0u64..200, 0u64..80, any::<bool>()), 0..60)) {
            let (mut unsynced, mut set) = (OutOfSync::default(), BTreeSet::new());
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
