//! The volatile write cache: the amount of dirty data, writes that wait for room, and flushes in progress.
//!
//! The dirty extents themselves are in a schedule, as the arm chooses among them; here they are only counted. Each
//! carries the epoch in which it was written. A flush ends the epoch, and is done when no extent of its epoch or an
//! earlier one is left, so later writes can't delay it for ever.

use raidlab_units::Nanos;
use std::collections::VecDeque;

/// A cached write that waits for room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockedWrite {
    pub(crate) id: u32,
    pub(crate) start: u64,
    pub(crate) sectors: u64,
    /// When its data is in the drive.
    pub(crate) arrived: Nanos,
    /// Whether it is acknowledged only when it is on the media.
    pub(crate) forced: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    id: u32,
    epoch: u64,
    extents_left: u32,
}

/// Room and obligations of the write cache.
#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    on: bool,
    extents_max: u32,
    sectors_max: u64,
    extents: u32,
    sectors: u64,
    epoch: u64,
    flushes: Vec<Flush>,
    pub(crate) blocked: VecDeque<BlockedWrite>,
}

impl WriteCache {
    pub(crate) fn new(on: bool, extents_max: u32, sectors_max: u64) -> Self {
        Self {
            on,
            extents_max,
            sectors_max,
            extents: 0,
            sectors: 0,
            epoch: 0,
            flushes: Vec::new(),
            blocked: VecDeque::new(),
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.extents == 0
    }

    /// Whether `sectors` more fit; the first extent always does.
    pub(crate) fn has_room(&self, sectors: u64) -> bool {
        self.extents == 0 || (self.extents < self.extents_max && self.sectors + sectors <= self.sectors_max)
    }

    /// Whether more sectors fit into the extents there are.
    pub(crate) fn has_memory(&self, sectors: u64) -> bool {
        self.sectors + sectors <= self.sectors_max
    }

    /// Whether destaging must not wait for an idle arm: a flush or a write waits, or little room is left.
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_flushing()
            || !self.blocked.is_empty()
            || self.extents >= self.extents_max - self.extents_max / 4
            || self.sectors >= self.sectors_max - self.sectors_max / 4
    }

    /// How many sectors fit into an empty one; none where it is off.
    pub(crate) const fn sectors_max(&self) -> u64 {
        if self.on { self.sectors_max } else { 0 }
    }

    /// How many extents of so many sectors are in it at most before destaging must not wait.
    pub(crate) fn extents_unpressed(&self, sectors: u64) -> u64 {
        let extents = u64::from(self.extents_max - self.extents_max / 4).saturating_sub(1);
        let room = (self.sectors_max - self.sectors_max / 4).saturating_sub(1);
        if self.on { extents.min(room / sectors) } else { 0 }
    }

    /// Whether a flush waits for an extent.
    pub(crate) fn is_flushing(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// Counts a new extent and returns its epoch.
    pub(crate) fn add_extent(&mut self, sectors: u64) -> u64 {
        self.extents += 1;
        self.sectors += sectors;
        self.epoch
    }

    /// Counts sectors added to an extent.
    pub(crate) fn grow_extent(&mut self, sectors: u64) {
        self.sectors += sectors;
    }

    /// Whether as much is dirty.
    pub(crate) fn may_hold(&self, sectors: u64) -> bool {
        self.sectors >= sectors
    }

    /// The epoch of what is written now.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The epoch that the first flush waits for.
    pub(crate) fn flush_epoch(&self) -> Option<u64> {
        self.flushes.first().map(|flush| flush.epoch)
    }

    /// Counts extents of these epochs as one, which has the oldest of them.
    pub(crate) fn join_extents(&mut self, epochs: impl Iterator<Item = u64>) {
        let mut epochs: Vec<u64> = epochs.collect();
        epochs.sort_unstable();
        for epoch in epochs.into_iter().skip(1) {
            self.retire_extent(epoch, 0, |_| {});
        }
    }

    /// Counts one extent of this epoch as two.
    pub(crate) fn split_extent(&mut self, epoch: u64) {
        self.extents += 1;
        for flush in self.flushes.iter_mut().filter(|flush| flush.epoch >= epoch) {
            flush.extents_left += 1;
        }
    }

    /// Ends the epoch with a flush, to be done when everything dirty is on the media. There must be something dirty.
    pub(crate) fn flush(&mut self, id: u32) {
        assert!(self.extents > 0, "a flush of a clean cache is done at once");
        self.flushes.push(Flush { id, epoch: self.epoch, extents_left: self.extents });
        self.epoch += 1;
    }

    /// Counts an extent as being on the media, and calls `done` for each flush that this completes.
    pub(crate) fn retire_extent(&mut self, epoch: u64, sectors: u64, mut done: impl FnMut(u32)) {
        self.extents -= 1;
        self.sectors -= sectors;
        for flush in self.flushes.iter_mut().filter(|flush| flush.epoch >= epoch) {
            flush.extents_left -= 1;
        }
        self.flushes.retain(|flush| {
            let left = flush.extents_left > 0;
            if !left {
                done(flush.id);
            }
            left
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_what_was_dirty_before_it_only() {
        let mut cache = WriteCache::new(true, 4, 1000);
        let before = cache.add_extent(10);
        cache.flush(7);
        let after = cache.add_extent(10);
        let mut done = Vec::new();
        cache.retire_extent(after, 10, |id| done.push(id));
        assert_eq!(done, [0u32; 0], "the extent written after the flush is none of its business");
        cache.retire_extent(before, 10, |id| done.push(id));
        assert_eq!(done, [7]);
        assert!(cache.is_clean());
    }

    #[test]
    fn room_is_bounded_by_extents_and_by_sectors() {
        let mut cache = WriteCache::new(true, 2, 100);
        assert!(cache.has_room(5000), "an empty cache takes even what is larger than itself");
        cache.add_extent(60);
        assert!(cache.has_room(40));
        assert!(!cache.has_room(41));
        cache.add_extent(1);
        assert!(!cache.has_room(1), "both extents are taken");
        assert!(cache.is_pressed());
    }
}
