//! Bad blocks: rows of devices that are errors until they are written again.
//!
//! A row comes onto the list when a write to it ended in a medium error, when redundancy can't make it up any more, or, in
//! a parity strip, when it does not agree with the data and nothing is left to compute it from. Whatever would read it
//! takes its unit for unreadable there. A write that succeeds takes it off the list.
//!
//! The list is kept with the array's state, which has room for [`RANGES_MAX`] ranges; a device that would need
//! one more is failed. A device that leaves the array takes its ranges with it: it comes back as a spare.
//!
//! Invariant: ranges are sorted by device and block, not empty, and neither overlap nor touch.

use super::Stretch;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Ranges of all devices together, at most.
pub(super) const RANGES_MAX: usize = 512;

/// Blocks of one device, `first` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadRange {
    device: MemberIndex,
    first: u64,
    end: u64,
}

/// What a change to the list came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The list said so already.
    Nothing,
    /// The list is another.
    Done,
    /// There is no room for one more range; the list is as it was.
    Full,
}

/// The list.
#[derive(Debug, Default)]
pub(super) struct BadBlocks {
    ranges: Vec<BadRange>,
}

impl BadBlocks {
    /// True when no block is bad: the common case, which costs one branch.
    #[inline]
    pub(super) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first range of `device`, or of a later one, that ends behind `block`.
    fn position(&self, device: MemberIndex, block: u64) -> usize {
        self.ranges.partition_point(|range| (range.device, range.end) <= (device, block))
    }

    /// True if any of the blocks is bad.
    #[inline]
    pub(super) fn overlaps(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> bool {
        !self.is_empty() && {
            let stretch = self.stretch(device, lba, blocks);
            stretch.bad || stretch.blocks < blocks
        }
    }

    /// How far the blocks from `lba` on, `blocks` at most, are all bad or all not.
    pub(super) fn stretch(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Stretch {
        let end = lba.0 + blocks;
        match self.ranges.get(self.position(device, lba.0)) {
            Some(range) if range.device == device && range.first <= lba.0 => {
                Stretch { bad: true, blocks: range.end.min(end) - lba.0 }
            }
            Some(range) if range.device == device => {
                Stretch { bad: false, blocks: range.first.min(end) - lba.0 }
            }
            _ => Stretch { bad: false, blocks },
        }
    }

    /// Puts blocks on the list.
    pub(super) fn add(&mut self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Change {
        let (first, end) = (lba.0, lba.0 + blocks);
        if self.stretch(device, lba, blocks) == (Stretch { bad: true, blocks }) {
            return Change::Nothing;
        }
        // Those that touch the new one become part of it.
        let from = self.ranges.partition_point(|range| (range.device, range.end) < (device, first));
        let to = self.ranges.partition_point(|range| (range.device, range.first) <= (device, end));
        if from == to {
            if self.ranges.len() == RANGES_MAX {
                return Change::Full;
            }
            self.ranges.insert(from, BadRange { device, first, end });
        } else {
            let first = first.min(self.ranges[from].first);
            let end = end.max(self.ranges[to - 1].end);
            self.ranges[from] = BadRange { device, first, end };
            self.ranges.drain(from + 1..to);
        }
        Change::Done
    }

    /// Takes blocks off the list.
    pub(super) fn clear(&mut self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Change {
        if !self.overlaps(device, lba, blocks) {
            return Change::Nothing;
        }
        let (first, end) = (lba.0, lba.0 + blocks);
        let from = self.position(device, first);
        let to = self.ranges.partition_point(|range| (range.device, range.first) < (device, end));
        let before = BadRange { end: first, ..self.ranges[from] };
        let after = BadRange { first: end, ..self.ranges[to - 1] };
        let rests = [before, after].into_iter().filter(|range| range.first < range.end);
        if self.ranges.len() - (to - from) + rests.clone().count() > RANGES_MAX {
            return Change::Full;
        }
        self.ranges.splice(from..to, rests);
        Change::Done
    }

    /// Takes all blocks of a device off the list.
    pub(super) fn forget(&mut self, device: MemberIndex) {
        self.ranges.retain(|range| range.device != device);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MemberIndex, MemberLba, BlockCount)> + '_ {
        let parts =
            |range: &BadRange| (range.device, MemberLba(range.first), BlockCount(range.end - range.first));
        self.ranges.iter().map(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// The list agrees with a set of blocks through any history, and keeps its invariant.
        #[test]
        fn agrees_with_a_set_of_blocks(
            history in proptest::collection::vec((0u16..3, 0u64..40, 1u64..12, 0u8..3), 0..200),
        ) {
            let mut list = BadBlocks::default();
            let mut set = BTreeSet::new();
            for (device, first, blocks, action) in history {
                let member = MemberIndex(device);
                let range = (first..first + blocks).map(|block| (device, block));
                let before = set.clone();
                let change = match action {
                    0 => {
                        range.for_each(|block| { set.insert(block); });
                        list.add(member, MemberLba(first), blocks)
                    }
                    1 => {
                        range.for_each(|block| { set.remove(&block); });
                        list.clear(member, MemberLba(first), blocks)
                    }
                    _ => {
                        let any = range.clone().any(|block| set.contains(&block));
                        prop_assert_eq!(list.overlaps(member, MemberLba(first), blocks), any);
                        let bad = set.contains(&(device, first));
                        let same = range.take_while(|block| set.contains(block) == bad).count() as u64;
                        prop_assert_eq!(
                            list.stretch(member, MemberLba(first), blocks),
                            Stretch { bad, blocks: same }
                        );
                        Change::Nothing
                    }
                };
                prop_assert_eq!(change != Change::Nothing, before != set);
                let listed: Vec<_> = list
                    .iter()
                    .flat_map(|(device, lba, blocks)| {
                        (lba.0..lba.0 + blocks.0).map(move |block| (device.0, block))
                    })
                    .collect();
                prop_assert_eq!(&listed, &set.iter().copied().collect::<Vec<_>>());
                for pair in list.ranges.windows(2) {
                    prop_assert!((pair[0].device, pair[0].end) < (pair[1].device, pair[1].first));
                }
            }
        }
    }

    #[test]
    fn a_full_list_takes_no_more_and_does_not_split() {
        let device = MemberIndex(1);
        let mut list = BadBlocks::default();
        for range in 0..RANGES_MAX as u64 {
            assert_eq!(list.add(device, MemberLba(range * 10), 3), Change::Done);
        }
        assert_eq!(list.add(MemberIndex(0), MemberLba(5), 1), Change::Full);
        assert_eq!(list.clear(device, MemberLba(11), 1), Change::Full, "two ranges would be left of one");
        assert_eq!(list.add(device, MemberLba(13), 1), Change::Done, "grows a range");
        assert_eq!(list.clear(device, MemberLba(10), 4), Change::Done);
        assert_eq!(list.clear(device, MemberLba(21), 1), Change::Done, "now there is room");
        assert_eq!(list.ranges.len(), RANGES_MAX);
        list.forget(device);
        assert!(list.is_empty());
    }
}
