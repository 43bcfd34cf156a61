//! Bad blocks: rows of devices that are errors until they are written again, or can be read again.
//!
//! | reason | how a row comes onto the list | how it leaves it |
//! |---|---|---|
//! | lost | a write to it ended in a medium error; it was given up, and what stands there is made up or old; it is parity that does not agree with the data | a write that succeeds |
//! | unreadable | it could not be read, nor made up from the others | the same, or a read that succeeds |
//!
//! Whatever would read a bad row takes its unit for unreadable there; what can't do without it tries one that is *unreadable* all the
//! same. What stands there is what was last written there. A write that fails, or parity that is left behind, makes it *lost*; where
//! a crash cut writes off, it is not tried before parity is made anew.
//!
//! The list is kept with the array's state, which has room for [`RANGES_MAX`] ranges; a device that would need
//! one more of lost rows is failed. Unreadable ones are not listed then: the next read finds out again. A device that leaves the array
//! takes its ranges with it: it comes back as a spare.
//!
//! Invariant: ranges are sorted by device and block, not empty, do not overlap, and touch only where their reasons differ.

use super::Stretch;
use raidlab_format::BadReason;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Ranges of all devices together, at most.
pub(super) const RANGES_MAX: usize = 512;

/// Blocks of one device, `first` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadRange {
    device: MemberIndex,
    first: u64,
    end: u64,
    reason: BadReason,
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

    /// The ranges that overlap these blocks.
    fn overlapping(
        &self,
        device: MemberIndex,
        lba: MemberLba,
        blocks: u64,
    ) -> impl Iterator<Item = &BadRange> {
        let rest = &self.ranges[self.position(device, lba.0)..];
        rest.iter().take_while(move |range| (range.device, range.first) < (device, lba.0 + blocks))
    }

    /// True if any of the blocks is bad.
    #[inline]
    pub(super) fn overlaps(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> bool {
        !self.is_empty() && self.overlapping(device, lba, blocks).next().is_some()
    }

    /// True if any of the blocks is bad for this reason.
    pub(super) fn overlaps_for(
        &self,
        reason: BadReason,
        (device, lba, blocks): (MemberIndex, MemberLba, u64),
    ) -> bool {
        !self.is_empty() && self.overlapping(device, lba, blocks).any(|range| range.reason == reason)
    }

    /// How far the blocks from `lba` on, `blocks` at most, are all bad or all not.
    pub(super) fn stretch(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Stretch {
        let end = lba.0 + blocks;
        let mut bad_to = lba.0;
        for range in self.overlapping(device, lba, blocks) {
            if range.first > bad_to {
                let to = if bad_to > lba.0 { bad_to } else { range.first };
                return Stretch { bad: bad_to > lba.0, blocks: to - lba.0 };
            }
            bad_to = range.end.min(end);
        }
        if bad_to > lba.0 {
            Stretch { bad: true, blocks: bad_to - lba.0 }
        } else {
            Stretch { bad: false, blocks }
        }
    }

    /// Puts blocks on the list. What is lost stays so.
    pub(super) fn add(&mut self, extent: (MemberIndex, MemberLba, u64), reason: BadReason) -> Change {
        self.rewrite(extent, |before| match before {
            Some(BadReason::Lost) => before,
            _ => Some(reason),
        })
    }

    /// Takes blocks off the list.
    pub(super) fn clear(&mut self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Change {
        if !self.overlaps(device, lba, blocks) {
            return Change::Nothing;
        }
        self.rewrite((device, lba, blocks), |_| None)
    }

    /// Takes blocks off the list that are unreadable, and not lost.
    pub(super) fn clear_unreadable(&mut self, extent: (MemberIndex, MemberLba, u64)) -> Change {
        self.rewrite(extent, |before| before.filter(|reason| *reason != BadReason::Unreadable))
    }

    /// Calls those of the blocks lost that are bad; whole ranges of them where the list has no room for parts.
    pub(super) fn lose(&mut self, extent: (MemberIndex, MemberLba, u64)) -> Change {
        let to_lost = |before: Option<BadReason>| before.map(|_| BadReason::Lost);
        let change = self.rewrite(extent, to_lost);
        if change != Change::Full {
            return change;
        }
        let (device, lba, blocks) = extent;
        let hull = |hull: (u64, u64), range: &BadRange| (hull.0.min(range.first), hull.1.max(range.end));
        let (first, end) = self.overlapping(device, lba, blocks).fold((u64::MAX, 0), hull);
        self.rewrite((device, MemberLba(first), end - first), to_lost)
    }

    /// Gives blocks another reason, by the one that they have; none where they are not bad.
    fn rewrite(
        &mut self,
        (device, MemberLba(first), blocks): (MemberIndex, MemberLba, u64),
        to: impl Fn(Option<BadReason>) -> Option<BadReason>,
    ) -> Change {
        let end = first + blocks;
        // With those that touch it.
        let from = self.ranges.partition_point(|range| (range.device, range.end) < (device, first));
        let behind = self.ranges.partition_point(|range| (range.device, range.first) <= (device, end));
        let before = &self.ranges[from..behind];
        let mut after: Vec<BadRange> = Vec::with_capacity(before.len() + 2);
        let mut push = |first: u64, end: u64, reason: Option<BadReason>| match (reason, after.last_mut()) {
            (Some(reason), Some(last)) if first < end && last.end == first && last.reason == reason => {
                last.end = end;
            }
            (Some(reason), _) if first < end => after.push(BadRange { device, first, end, reason }),
            _ => {}
        };
        let mut at = first;
        for range in before {
            let reason = Some(range.reason);
            let (inner, inner_end) = (range.first.clamp(first, end), range.end.clamp(first, end));
            push(range.first, inner, reason);
            push(at, inner, to(None));
            push(inner, inner_end, to(reason));
            push(inner_end, range.end, reason);
            at = inner_end;
        }
        push(at, end, to(None));
        if after == before {
            return Change::Nothing;
        }
        if self.ranges.len() - before.len() + after.len() > RANGES_MAX {
            return Change::Full;
        }
        self.ranges.splice(from..behind, after);
        Change::Done
    }

    /// Takes all blocks of a device off the list.
    pub(super) fn forget(&mut self, device: MemberIndex) {
        self.ranges.retain(|range| range.device != device);
    }

    /// The first bad block of a device, or of a later one, from `lba` on, and how many behind it are bad for the same reason.
    pub(super) fn next_from(
        &self,
        device: MemberIndex,
        lba: MemberLba,
    ) -> Option<(MemberIndex, MemberLba, u64)> {
        let range = self.ranges.get(self.position(device, lba.0))?;
        let first = if range.device == device { range.first.max(lba.0) } else { range.first };
        Some((range.device, MemberLba(first), range.end - first))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MemberIndex, MemberLba, BlockCount, BadReason)> + '_ {
        let parts = |range: &BadRange| {
            (range.device, MemberLba(range.first), BlockCount(range.end - range.first), range.reason)
        };
        self.ranges.iter().map(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The list agrees with a map of blocks through any history, and keeps its invariant.
        #[test]
        fn agrees_with_a_map_of_blocks(
            history in proptest::collection::vec((0u16..3, 0u64..40, 1u64..12, 0u8..6), 0..200),
        ) {
            let mut list = BadBlocks::default();
            let mut map: BTreeMap<(u16, u64), BadReason> = BTreeMap::new();
            for (device, first, blocks, action) in history {
                let member = MemberIndex(device);
                let extent = (member, MemberLba(first), blocks);
                let range = (first..first + blocks).map(|block| (device, block));
                let before = map.clone();
                let change = match action {
                    0 => {
                        range.for_each(|block| { map.insert(block, BadReason::Lost); });
                        list.add(extent, BadReason::Lost)
                    }
                    1 => {
                        range.for_each(|block| { map.entry(block).or_insert(BadReason::Unreadable); });
                        list.add(extent, BadReason::Unreadable)
                    }
                    2 => {
                        range.for_each(|block| { map.remove(&block); });
                        list.clear(member, MemberLba(first), blocks)
                    }
                    3 => {
                        map.retain(|block, reason| {
                            !range.clone().any(|it| it == *block) || *reason == BadReason::Lost
                        });
                        list.clear_unreadable(extent)
                    }
                    4 => {
                        range.for_each(|block| {
                            map.entry(block).and_modify(|reason| *reason = BadReason::Lost);
                        });
                        list.lose(extent)
                    }
                    _ => {
                        let any = range.clone().any(|block| map.contains_key(&block));
                        prop_assert_eq!(list.overlaps(member, MemberLba(first), blocks), any);
                        for reason in [BadReason::Lost, BadReason::Unreadable] {
                            let any = range.clone().any(|block| map.get(&block) == Some(&reason));
                            prop_assert_eq!(list.overlaps_for(reason, extent), any);
                        }
                        let bad = map.contains_key(&(device, first));
                        let same = range.take_while(|block| map.contains_key(block) == bad).count() as u64;
                        prop_assert_eq!(
                            list.stretch(member, MemberLba(first), blocks),
                            Stretch { bad, blocks: same }
                        );
                        let next = map.range((device, first)..).next().map(|(block, _)| *block);
                        let found = list.next_from(member, MemberLba(first));
                        prop_assert_eq!(found.map(|(device, lba, _)| (device.0, lba.0)), next);
                        Change::Nothing
                    }
                };
                prop_assert_eq!(change != Change::Nothing, before != map);
                let listed: Vec<_> = list
                    .iter()
                    .flat_map(|(device, lba, blocks, reason)| {
                        (lba.0..lba.0 + blocks.0).map(move |block| ((device.0, block), reason))
                    })
                    .collect();
                prop_assert_eq!(&listed, &map.iter().map(|(block, reason)| (*block, *reason)).collect::<Vec<_>>());
                for pair in list.ranges.windows(2) {
                    let (one, next) = ((pair[0].device, pair[0].end), (pair[1].device, pair[1].first));
                    prop_assert!(one < next || (one == next && pair[0].reason != pair[1].reason));
                }
            }
        }
    }

    #[test]
    fn a_full_list_takes_no_more_and_does_not_split() {
        let (device, lost) = (MemberIndex(1), BadReason::Lost);
        let mut list = BadBlocks::default();
        for range in 0..RANGES_MAX as u64 {
            assert_eq!(list.add((device, MemberLba(range * 10), 3), BadReason::Unreadable), Change::Done);
        }
        assert_eq!(list.add((MemberIndex(0), MemberLba(5), 1), lost), Change::Full);
        assert_eq!(list.clear(device, MemberLba(11), 1), Change::Full, "two ranges would be left of one");
        assert_eq!(list.lose((device, MemberLba(11), 1)), Change::Done, "it is lost as a whole");
        assert!(!list.overlaps_for(BadReason::Unreadable, (device, MemberLba(10), 3)));
        assert_eq!(list.add((device, MemberLba(13), 1), lost), Change::Done, "grows a range");
        assert_eq!(list.clear(device, MemberLba(10), 4), Change::Done);
        assert_eq!(list.clear(device, MemberLba(21), 1), Change::Done, "now there is room");
        assert_eq!(list.ranges.len(), RANGES_MAX);
        list.forget(device);
        assert!(list.is_empty());
    }
}
