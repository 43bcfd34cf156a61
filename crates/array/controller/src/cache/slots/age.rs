//! The slots that are dirty or being destaged, in order of age.
//!
//! A ring of slots in which each remembers its place, so that leaving it is one store and no neighbour is asked for: those
//! would seldom be in the processor's cache. Whoever leaves lets a hole behind, and the oldest end passes over holes.
//! ```text
//!           first                    next
//!   . . . .  17  NIL  4   NIL  NIL  9 . . .       places count on and wrap; the ring's cell is the place modulo its length
//! ```
//! Invariant: the first cell is no hole. When the ring is full the holes are pressed out; it has room for [`ROOM`] times the
//! slots there are, so that this is seldom, and costs little for each slot that came meanwhile.

use crate::ids::SlotIndex;

/// Cells for each slot.
const ROOM: usize = 4;

#[derive(Debug)]
pub(super) struct AgeQueue {
    cells: Vec<SlotIndex>,
    first: u32,
    next: u32,
}

impl AgeQueue {
    pub(super) fn new(slot_count: usize) -> Self {
        let length = (ROOM * slot_count).next_power_of_two();
        assert!(length.trailing_zeros() < 32, "a number of 32 bits tells the places apart");
        Self { cells: vec![SlotIndex::NONE; length], first: 0, next: 0 }
    }

    #[inline]
    const fn cell(&self, place: u32) -> usize {
        place as usize & (self.cells.len() - 1)
    }

    /// Puts a slot at the end. Returns its place; `moved` is told of slots whose place has changed.
    #[inline]
    pub(super) fn push(&mut self, slot: SlotIndex, moved: impl FnMut(SlotIndex, u32)) -> u32 {
        if self.next.wrapping_sub(self.first) as usize == self.cells.len() {
            self.press_out_holes(moved);
        }
        let place = self.next;
        let cell = self.cell(place);
        self.cells[cell] = slot;
        self.next = place.wrapping_add(1);
        place
    }

    fn press_out_holes(&mut self, mut moved: impl FnMut(SlotIndex, u32)) {
        let mut to = self.first;
        for from in 0..self.cells.len() as u32 {
            let from = self.cell(self.first.wrapping_add(from));
            let slot = core::mem::replace(&mut self.cells[from], SlotIndex::NONE);
            if slot != SlotIndex::NONE {
                let cell = self.cell(to);
                self.cells[cell] = slot;
                moved(slot, to);
                to = to.wrapping_add(1);
            }
        }
        self.next = to;
        assert!((self.next.wrapping_sub(self.first) as usize) < self.cells.len(), "each slot is in it once");
    }

    /// Takes out the slot at `place`.
    #[inline]
    pub(super) fn take(&mut self, place: u32) {
        let cell = self.cell(place);
        debug_assert!(self.cells[cell] != SlotIndex::NONE, "nothing is at place {place}");
        self.cells[cell] = SlotIndex::NONE;
        while self.first != self.next && self.cells[self.cell(self.first)] == SlotIndex::NONE {
            self.first = self.first.wrapping_add(1);
        }
    }

    /// The slot that has been in it longest.
    #[inline]
    pub(super) fn oldest(&self) -> Option<SlotIndex> {
        (self.first != self.next).then(|| self.cells[self.cell(self.first)])
    }

    /// All slots, the oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = SlotIndex> + '_ {
        let places = 0..self.next.wrapping_sub(self.first);
        let slots = places.map(|place| self.cells[self.cell(self.first.wrapping_add(place))]);
        slots.filter(|slot| *slot != SlotIndex::NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The queue agrees with a list through any history, however often its places wrap and its holes are pressed out.
        #[test]
        fn queue_agrees_with_a_list(
            history in proptest::collection::vec(any::<(bool, u8)>(), 0..600),
            start in prop_oneof![Just(0), Just(u32::MAX - 20)],
        ) {
            const SLOTS: u32 = 8;
            let mut queue = AgeQueue::new(SLOTS as usize);
            (queue.first, queue.next) = (start, start);
            let mut places = [None; SLOTS as usize];
            let mut list: Vec<SlotIndex> = Vec::new();
            for (leaves, pick) in history {
                if leaves && !list.is_empty() {
                    let slot = list.remove(usize::from(pick) % list.len());
                    queue.take(places[slot.0 as usize].take().expect("it is in the list"));
                } else if let Some(slot) = (0..SLOTS).map(SlotIndex).find(|slot| !list.contains(slot)) {
                    list.push(slot);
                    let place = queue.push(slot, |slot, place| places[slot.0 as usize] = Some(place));
                    places[slot.0 as usize] = Some(place);
                }
                prop_assert_eq!(queue.oldest(), list.first().copied());
                prop_assert_eq!(queue.iter().collect::<Vec<_>>(), list.clone());
            }
        }
    }
}
