//! The write buffer: data that are in the drive but not yet on flash.
//!
//! ```text
//!  put --> gathering (first in, first out) --take--> programming --release--> free
//!            ^ written again: same place                 ^ written again: a new place
//! ```
//! A place holds one mapping unit. A mask says which of its sectors were written, so that small adjacent writes become
//! one unit, and missing sectors must be read before it goes to flash.
//!
//! A flush waits for everything put before it: puts are counted by *epochs*, and each flush that must wait ends one.
//!
//! Invariants: the index names the newest place of a unit; a unit has at most one gathering place; the epochs' counts
//! add up to the places in use.

use super::bits::Bits;
use super::random::spread;
use core::ops::Range;
use std::collections::VecDeque;

/// Sectors of a unit, one bit each.
pub(super) type SectorMask = u128;

/// A place in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place(u32);

#[derive(Clone, Copy, Debug)]
struct Held {
    unit: u64,
    mask: SectorMask,
    epoch: u64,
    is_gathering: bool,
}

#[derive(Clone, Debug, Default)]
struct Epoch {
    places: u64,
    /// Flushes that end with it.
    waiting: Vec<u32>,
}

/// The buffer of one drive.
#[derive(Clone, Debug)]
pub(super) struct WriteBuffer {
    held: Vec<Held>,
    free: Vec<u32>,
    gathering: VecDeque<u32>,
    index: UnitIndex,
    /// The last one is the current one.
    epochs: VecDeque<Epoch>,
    first_epoch: u64,
    flushed: VecDeque<u32>,
}

impl WriteBuffer {
    /// A buffer of so many places, empty.
    pub(super) fn new(places: u32) -> Self {
        Self {
            held: vec![Held { unit: 0, mask: 0, epoch: 0, is_gathering: false }; places as usize],
            free: (0..places).rev().collect(),
            gathering: VecDeque::with_capacity(places as usize),
            index: UnitIndex::new(places),
            epochs: VecDeque::from([Epoch::default()]),
            first_epoch: 0,
            flushed: VecDeque::new(),
        }
    }

    /// Takes in sectors of a unit; false if there is no room.
    #[inline]
    pub(super) fn put(&mut self, unit: u64, mask: SectorMask) -> bool {
        if let Some(place) = self.index.get(unit) {
            let held = &mut self.held[place as usize];
            if held.is_gathering {
                held.mask |= mask;
                return true;
            }
        }
        let Some(place) = self.free.pop() else { return false };
        let epoch = self.first_epoch + self.epochs.len() as u64 - 1;
        self.held[place as usize] = Held { unit, mask, epoch, is_gathering: true };
        self.epochs.back_mut().expect("there is a current epoch").places += 1;
        self.gathering.push_back(place);
        self.index.insert(unit, place);
        true
    }

    /// Whether all of these sectors of a unit are here.
    #[inline]
    pub(super) fn has(&self, unit: u64, mask: SectorMask) -> bool {
        self.index.get(unit).is_some_and(|place| self.held[place as usize].mask & mask == mask)
    }

    /// Units that wait for a program.
    pub(super) fn gathering(&self) -> usize {
        self.gathering.len()
    }

    /// Whether a flush waits for units that gather.
    pub(super) fn must_drain(&self) -> bool {
        self.epochs.len() > 1
            && self
                .gathering
                .front()
                .is_some_and(|first| self.held[*first as usize].epoch < self.current_epoch())
    }

    fn current_epoch(&self) -> u64 {
        self.first_epoch + self.epochs.len() as u64 - 1
    }

    /// Takes the unit that has waited longest, to be programmed: its place, number and sectors.
    pub(super) fn take(&mut self) -> Option<(Place, u64, SectorMask)> {
        let place = self.gathering.pop_front()?;
        let held = &mut self.held[place as usize];
        held.is_gathering = false;
        Some((Place(place), held.unit, held.mask))
    }

    /// Frees the place of a unit that is on flash.
    pub(super) fn release(&mut self, Place(place): Place) {
        let Held { unit, epoch, .. } = self.held[place as usize];
        if self.index.get(unit) == Some(place) {
            self.index.remove(unit);
        }
        self.free.push(place);
        self.epochs[(epoch - self.first_epoch) as usize].places -= 1;
        self.end_epochs();
    }

    /// Drops what is here of `units`: what gathers is not programmed, what is being programmed is not read from here.
    pub(super) fn forget(&mut self, units: Range<u64>) {
        let Self { gathering, held, index, .. } = self;
        let mut dropped = vec![];
        gathering.retain(|place| {
            let is_dropped = units.contains(&held[*place as usize].unit);
            if is_dropped {
                dropped.push(Place(*place));
            }
            !is_dropped
        });
        for (place, held) in (0..).zip(held.iter()) {
            if units.contains(&held.unit) && index.get(held.unit) == Some(place) {
                index.remove(held.unit);
            }
        }
        for place in dropped {
            self.release(place);
        }
    }

    /// Notes that `waiter` waits until all that is here is on flash; false if nothing is.
    pub(super) fn flush(&mut self, waiter: u32) -> bool {
        let current = self.epochs.back_mut().expect("there is a current epoch");
        if current.places > 0 {
            current.waiting.push(waiter);
            self.epochs.push_back(Epoch::default());
            return true;
        }
        // Nothing was put since the flush before, if there is one that waits.
        let before = self.epochs.len().checked_sub(2).and_then(|index| self.epochs.get_mut(index));
        before.map(|before| before.waiting.push(waiter)).is_some()
    }

    /// Hands out the next flush that has ended.
    pub(super) fn poll_flushed(&mut self) -> Option<u32> {
        self.flushed.pop_front()
    }

    fn end_epochs(&mut self) {
        while self.epochs.len() > 1 && self.epochs[0].places == 0 {
            let ended = self.epochs.pop_front().expect("there is more than one");
            self.first_epoch += 1;
            self.flushed.extend(ended.waiting);
        }
    }
}

/// From units to places: open addressing with linear probing, at most a quarter full.
#[derive(Clone, Debug)]
struct UnitIndex {
    cells: Vec<(u64, u32)>,
    /// Cells that are taken. Who finds a unit's own cell empty knows that it is not here; so most of those who
    /// look in vain never wait for a cell.
    taken: Bits,
    mask: usize,
}

const EMPTY: u64 = u64::MAX;

impl UnitIndex {
    fn new(places: u32) -> Self {
        let cells = (places as usize * 4).next_power_of_two();
        Self { cells: vec![(EMPTY, 0); cells], taken: Bits::new(cells, false), mask: cells - 1 }
    }

    #[inline]
    fn home(&self, unit: u64) -> usize {
        spread(unit) as usize & self.mask
    }

    /// The cell of `unit`, or the empty one where it would be.
    #[inline]
    fn find(&self, unit: u64) -> usize {
        let mut cell = self.home(unit);
        while self.cells[cell].0 != unit && self.cells[cell].0 != EMPTY {
            cell = (cell + 1) & self.mask;
        }
        cell
    }

    #[inline]
    fn get(&self, unit: u64) -> Option<u32> {
        let home = self.home(unit);
        if !self.taken.has(home) {
            return None;
        }
        let (found, place) = self.cells[self.find(unit)];
        (found == unit).then_some(place)
    }

    fn insert(&mut self, unit: u64, place: u32) {
        let cell = self.find(unit);
        self.cells[cell] = (unit, place);
        self.taken.put(cell, true);
    }

    /// Takes a unit out and moves up what was put behind it for its sake (Knuth, TAOCP 3, 6.4, algorithm R).
    fn remove(&mut self, unit: u64) {
        let mut hole = self.find(unit);
        let mut cell = hole;
        loop {
            self.cells[hole].0 = EMPTY;
            loop {
                cell = (cell + 1) & self.mask;
                if self.cells[cell].0 == EMPTY {
                    self.taken.put(hole, false);
                    return;
                }
                let home = self.home(self.cells[cell].0);
                let stays = (cell.wrapping_sub(home) & self.mask) < (cell.wrapping_sub(hole) & self.mask);
                if !stays {
                    break;
                }
            }
            self.cells[hole] = self.cells[cell];
            hole = cell;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::random::Draw;
    use std::collections::BTreeMap;

    const ALL: SectorMask = 0xFF;

    #[test]
    fn the_index_holds_what_a_map_would() {
        let (mut index, mut oracle, mut draw) = (UnitIndex::new(64), BTreeMap::new(), Draw::new(7));
        for step in 0..100_000 {
            let unit = draw.below(100);
            if oracle.contains_key(&unit) && draw.below(2) == 0 {
                index.remove(unit);
                oracle.remove(&unit);
            } else if oracle.len() < 64 {
                index.insert(unit, step);
                oracle.insert(unit, step);
            }
            for unit in 0..100 {
                assert_eq!(index.get(unit), oracle.get(&unit).copied(), "unit {unit} after step {step}");
            }
        }
    }

    #[test]
    fn what_gathers_is_written_in_place_and_what_is_programmed_is_not() {
        let mut buffer = WriteBuffer::new(2);
        assert!(buffer.put(5, 1));
        assert!(buffer.put(5, 2), "the same place");
        assert!(buffer.has(5, 3));
        assert!(!buffer.has(5, 7));
        let (first, unit, mask) = buffer.take().unwrap();
        assert_eq!((unit, mask), (5, 3));
        assert!(buffer.put(5, ALL), "a place of its own");
        assert!(!buffer.put(6, ALL), "no room");
        buffer.release(first);
        assert!(buffer.has(5, ALL), "the newer one stays");
        assert!(buffer.put(6, ALL));
    }

    #[test]
    fn what_is_trimmed_leaves_the_buffer() {
        let mut buffer = WriteBuffer::new(4);
        (0..4).for_each(|unit| assert!(buffer.put(unit, ALL)));
        let (first, ..) = buffer.take().unwrap();
        assert!(buffer.flush(7));
        buffer.forget(0..3);
        assert_eq!([0, 1, 2, 3].map(|unit| buffer.has(unit, 1)), [false, false, false, true]);
        assert_eq!(buffer.gathering(), 1);
        assert!(buffer.put(1, ALL), "there is room");
        buffer.release(first);
        assert_eq!(buffer.poll_flushed(), None, "unit 3 is not on flash");
        let (last, unit, _) = buffer.take().unwrap();
        assert_eq!(unit, 3);
        buffer.release(last);
        assert_eq!(buffer.poll_flushed(), Some(7));
        assert!(buffer.has(1, ALL));
    }

    #[test]
    fn a_flush_waits_for_what_was_put_before_it_and_for_nothing_else() {
        let mut buffer = WriteBuffer::new(8);
        assert!(!buffer.flush(1), "nothing is here");
        buffer.put(1, ALL);
        assert!(buffer.flush(2));
        assert!(buffer.flush(3), "nothing new, and the one before waits");
        buffer.put(2, ALL);
        assert!(buffer.must_drain());
        let (one, ..) = buffer.take().unwrap();
        assert!(!buffer.must_drain(), "unit 2 is nobody's");
        let (two, ..) = buffer.take().unwrap();
        buffer.release(two);
        assert_eq!(buffer.poll_flushed(), None);
        buffer.release(one);
        assert_eq!(
            [buffer.poll_flushed(), buffer.poll_flushed(), buffer.poll_flushed()],
            [Some(2), Some(3), None]
        );
        assert!(!buffer.flush(4));
    }
}
