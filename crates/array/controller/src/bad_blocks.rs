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

use crate::api::{MemberError, Notice};
use crate::controller::Controller;
use crate::members::DeviceState;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Ranges of all devices together, at most.
pub(crate) const RANGES_MAX: usize = 512;

/// Blocks of one device, `first` to before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadRange {
    device: MemberIndex,
    first: u64,
    end: u64,
}

/// What a change to the list came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The list said so already.
    Nothing,
    /// The list is another.
    Done,
    /// There is no room for one more range; the list is as it was.
    Full,
}

/// A stretch of blocks that are all bad, or all not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) bad: bool,
    pub(crate) blocks: u64,
}

/// The list.
#[derive(Debug, Default)]
pub(crate) struct BadBlocks {
    ranges: Vec<BadRange>,
}

impl BadBlocks {
    /// True when no block is bad: the common case, which costs one branch.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The first range of `device`, or of a later one, that ends behind `block`.
    fn position(&self, device: MemberIndex, block: u64) -> usize {
        self.ranges.partition_point(|range| (range.device, range.end) <= (device, block))
    }

    /// True if any of the blocks is bad.
    #[inline]
    pub(crate) fn overlaps(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> bool {
        !self.is_empty() && {
            let stretch = self.stretch(device, lba, blocks);
            stretch.bad || stretch.blocks < blocks
        }
    }

    /// How far the blocks from `lba` on, `blocks` at most, are all bad or all not.
    pub(crate) fn stretch(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Stretch {
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
    pub(crate) fn add(&mut self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Change {
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
    pub(crate) fn clear(&mut self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Change {
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
    pub(crate) fn forget(&mut self, device: MemberIndex) {
        self.ranges.retain(|range| range.device != device);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (MemberIndex, MemberLba, BlockCount)> + '_ {
        let parts =
            |range: &BadRange| (range.device, MemberLba(range.first), BlockCount(range.end - range.first));
        self.ranges.iter().map(parts)
    }
}

impl Controller {
    /// The blocks that are errors until they are written again: device, first block in its data area, and how many.
    pub fn bad_blocks(&self) -> impl Iterator<Item = (MemberIndex, MemberLba, BlockCount)> + '_ {
        self.bad.iter()
    }

    /// Notes that blocks of a device's data area are bad, as after a start from its state, or because the operator knows.
    /// Nothing happens for a device that is no member. A device with more bad ranges than the list holds is failed.
    pub fn mark_bad_blocks(&mut self, device: MemberIndex, lba: MemberLba, blocks: BlockCount) {
        self.mark_bad(device, lba, blocks.0);
    }

    /// Puts blocks on the list. True if they were not all there before.
    pub(crate) fn mark_bad(&mut self, device: MemberIndex, lba: MemberLba, blocks: u64) -> bool {
        let holds =
            matches!(self.members.state(device), DeviceState::InSync { .. } | DeviceState::Rebuilding { .. });
        if !holds || blocks == 0 {
            return false;
        }
        let change = self.bad.add(device, lba, blocks);
        self.take_change(device, change);
        change != Change::Nothing
    }

    fn take_change(&mut self, device: MemberIndex, change: Change) {
        match change {
            Change::Nothing => {}
            Change::Done => self.change_state(),
            Change::Full => self.fail_member(device),
        }
    }

    /// Gives up rows that can't be read nor made up. That is news if they were not bad blocks before, or `is_news`.
    pub(crate) fn lose_rows(&mut self, device: MemberIndex, lba: MemberLba, rows: u32, is_news: bool) {
        let blocks = BlockCount(u64::from(rows));
        if self.mark_bad(device, lba, blocks.0) || is_news {
            self.outbox.notify(Notice::BlocksLost { member: device, lba, blocks });
        }
    }

    /// Gives up rows that a record of the log has which can't be read. Where its devices are lost, but will be back, the rows
    /// are errors only until then, and nobody is told.
    pub(crate) fn lose_rows_of_record(&mut self, device: MemberIndex, lba: MemberLba, rows: u32) {
        if !self.state_is_frozen() {
            self.lose_rows(device, lba, rows, false);
        } else if self.bad.add(device, lba, u64::from(rows)) == Change::Full {
            self.fail_member(device);
        }
    }

    /// Takes in the end of a write of rows: what was written is good again, what could not be is bad. A device that is
    /// gone has been failed before.
    pub(crate) fn rows_written(
        &mut self,
        device: MemberIndex,
        lba: MemberLba,
        rows: u32,
        result: Result<(), MemberError>,
    ) {
        match result {
            Ok(()) if self.bad.is_empty() => {}
            Ok(()) => {
                let change = self.bad.clear(device, lba, u64::from(rows));
                self.take_change(device, change);
            }
            Err(MemberError::Medium) => {
                self.mark_bad(device, lba, u64::from(rows));
            }
            Err(MemberError::Gone) => {}
        }
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
