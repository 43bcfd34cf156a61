//! Stripes out of sync: those whose redundancy may disagree with the data, because the array was not stopped cleanly.
//!
//! What is done about one is in `redundancy.rs`. Nothing is made up from parity of a stripe that stays out of sync: what a
//! device holds is read as it is, the rest is an error. A write there leaves parity alone, or computes it from all data; when
//! it has done so for all rows the stripe is in sync.
//!
//! Where copies disagree the first one counts, for good once the host has read it. So a strip that lacks a copy, or rows of one that
//! could not be written, is not in sync before the devices know that: after a crash these would be back, and could be the first.
//! While it stands on a *lost* device, which will be back, only the copies before that one are read.
//!
//! Block checksums may disagree with the data, too, even without redundancy. A resync reads everything that is there, and
//! believes what it reads in a stripe out of sync: it is given new checksums.
//!
//! Invariant: the set takes memory only while something is in it.

use crate::ids::LockKey;
use core::ops::Range;

/// The set of stripes out of sync, a bit for each stripe lock.
#[derive(Debug, Default)]
pub(super) struct OutOfSync {
    words: Vec<u64>,
    count: u64,
}

impl OutOfSync {
    /// True when no stripe is out of sync: the common case, which costs one branch.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Stripes in the set.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    #[inline]
    pub(super) fn contains(&self, key: LockKey) -> bool {
        self.count > 0 && self.words[(key.0 / 64) as usize] >> (key.0 % 64) & 1 == 1
    }

    /// Adds `keys`, of so many `locks` that there are.
    pub(super) fn mark(&mut self, keys: Range<LockKey>, locks: u64) {
        self.words.resize(locks.div_ceil(64) as usize, 0);
        for key in keys.start.0..keys.end.0 {
            let word = &mut self.words[(key / 64) as usize];
            self.count += u64::from(*word >> (key % 64) & 1 == 0);
            *word |= 1 << (key % 64);
        }
        if self.count == 0 {
            self.words = Vec::new();
        }
    }

    /// Takes `key` out of the set.
    pub(super) fn remove(&mut self, key: LockKey) {
        if self.contains(key) {
            self.words[(key.0 / 64) as usize] &= !(1 << (key.0 % 64));
            self.count -= 1;
            if self.count == 0 {
                self.words = Vec::new();
            }
        }
    }

    /// The first stripe of the set from `key` on.
    pub(super) fn next(&self, key: LockKey) -> Option<LockKey> {
        let first = (key.0 / 64) as usize;
        let masked = |index: usize| {
            let mask = if index == first { u64::MAX << (key.0 % 64) } else { u64::MAX };
            self.words[index] & mask
        };
        let index = (first..self.words.len()).find(|&index| masked(index) != 0)?;
        Some(LockKey(index as u64 * 64 + u64::from(masked(index).trailing_zeros())))
    }
}

#[cfg(test)]
mod tests {
    use super::{LockKey, OutOfSync};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_set(history in proptest::collection::vec((0u64..200, 0u64..80, any::<bool>()), 0..60)) {
            let (mut out_of_sync, mut set) = (OutOfSync::default(), BTreeSet::new());
            for (first, count, mark) in history {
                let range = first..(first + count).min(200);
                if mark {
                    set.extend(range.clone());
                    out_of_sync.mark(LockKey(range.start)..LockKey(range.end), 200);
                } else {
                    set.remove(&first);
                    out_of_sync.remove(LockKey(first));
                }
                prop_assert_eq!(out_of_sync.count(), set.len() as u64);
                prop_assert_eq!(out_of_sync.is_empty(), out_of_sync.words.is_empty());
                for key in 0..200 {
                    prop_assert_eq!(out_of_sync.contains(LockKey(key)), set.contains(&key));
                    prop_assert_eq!(out_of_sync.next(LockKey(key)), set.range(key..).next().map(|key| LockKey(*key)));
                }
            }
        }
    }
}
