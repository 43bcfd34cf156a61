//! Blocks of which a check or repair could not tell what is wrong: a list for the operator, bounded and in order of address.
//!
//! Ranges that follow on from each other are one. What the list has no room for is told and counted all the same.

use super::BackgroundScan;
use crate::api::{Notice, Undecided};
use crate::outbox::Outbox;

/// Ranges on the list, at most.
const LISTED_MAX: usize = 64;

/// What the latest check or repair could not decide.
#[derive(Debug, Default)]
pub(super) struct UndecidedList(Vec<Undecided>);

impl UndecidedList {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn add(&mut self, new: Undecided) {
        let follows = |old: &&mut Undecided| old.strips == new.strips && old.lba + old.blocks == new.lba;
        if let Some(old) = self.0.iter_mut().find(follows) {
            old.blocks += new.blocks;
        } else if self.0.len() < LISTED_MAX {
            let at = self.0.partition_point(|old| old.lba < new.lba);
            self.0.insert(at, new);
        }
    }
}

impl BackgroundScan {
    /// Tells of blocks that a visit could not decide.
    pub(crate) fn note_undecided(&mut self, found: Undecided, outbox: &mut Outbox) {
        self.undecided.add(found);
        outbox.notify(Notice::Undecided(found));
    }

    /// Counts rows that a check has found wrong, which it leaves as they are.
    pub(crate) const fn note_wrong(&mut self, rows: u64) {
        self.wrong_rows += rows;
    }

    /// Rows that the latest check or repair found wrong and left as they are.
    pub(crate) const fn wrong_rows(&self) -> u64 {
        self.wrong_rows
    }

    /// What the latest check or repair could not decide, as far as it is listed.
    pub(crate) fn undecided(&self) -> &[Undecided] {
        &self.undecided.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::{BlockCount, Lba};

    #[test]
    fn ranges_are_joined_in_order_and_bounded() {
        let range = |lba, blocks, strips| Undecided { lba: Lba(lba), blocks: BlockCount(blocks), strips };
        let mut list = UndecidedList::default();
        for found in [range(40, 1, 3), range(8, 2, 3), range(10, 1, 3), range(41, 1, 1)] {
            list.add(found);
        }
        assert_eq!(list.0, [range(8, 3, 3), range(40, 1, 3), range(41, 1, 1)]);
        (0..200).for_each(|at| list.add(range(1_000 + 2 * at, 1, 1)));
        assert_eq!(list.0.len(), LISTED_MAX);
        list.clear();
        assert!(list.0.is_empty());
    }
}
