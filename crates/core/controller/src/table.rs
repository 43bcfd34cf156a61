//! An index from 64-bit keys to 32-bit places, and a store of reusable entries: the two containers that the
//! controller's hot path is made of. Neither allocates once it has reached its working size.

/// No place: the end of a list, or an empty cell.
pub(crate) const NIL: u32 = u32::MAX;

/// Open addressing with linear probing and backward-shift deletion (Knuth, TAOCP 6.4, algorithm R), so that
/// there are no tombstones and a long run stays as fast as it began. Iteration is not offered: its order would
/// depend on history.
#[derive(Debug)]
pub(crate) struct Table {
    cells: Vec<(u64, u32)>,
    shift: u32,
    len: usize,
}

impl Table {
    /// Room for `entries` at a load of at most one half; it grows beyond that.
    pub(crate) fn with_room_for(entries: usize) -> Self {
        let capacity = (entries.max(8) * 2).next_power_of_two();
        Self { cells: vec![(0, NIL); capacity], shift: 64 - capacity.trailing_zeros(), len: 0 }
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        // Fibonacci hashing: neighbouring keys, the common case, spread over the whole table.
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize
    }

    #[inline]
    fn find(&self, key: u64) -> Result<usize, usize> {
        let mask = self.cells.len() - 1;
        let mut cell = self.home(key);
        loop {
            let (held, place) = self.cells[cell];
            if place == NIL {
                return Err(cell);
            }
            if held == key {
                return Ok(cell);
            }
            cell = (cell + 1) & mask;
        }
    }

    /// Returns the place of `key`.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.find(key).ok().map(|cell| self.cells[cell].1)
    }

    /// Sets the place of `key`, new or known.
    pub(crate) fn insert(&mut self, key: u64, place: u32) {
        assert!(place != NIL, "NIL marks empty cells");
        if (self.len + 1) * 2 > self.cells.len() {
            self.grow();
        }
        match self.find(key) {
            Ok(cell) => self.cells[cell].1 = place,
            Err(cell) => {
                self.cells[cell] = (key, place);
                self.len += 1;
            }
        }
    }

    /// Forgets `key`, which must be known.
    pub(crate) fn remove(&mut self, key: u64) {
        let mask = self.cells.len() - 1;
        let mut hole = self.find(key).expect("only known keys are removed");
        let mut cell = hole;
        loop {
            cell = (cell + 1) & mask;
            let (held, place) = self.cells[cell];
            if place == NIL {
                break;
            }
            // An entry may move back into the hole unless its home lies cyclically after the hole.
            let from_home = cell.wrapping_sub(self.home(held)) & mask;
            let from_hole = cell.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.cells[hole] = self.cells[cell];
                hole = cell;
            }
        }
        self.cells[hole].1 = NIL;
        self.len -= 1;
    }

    fn grow(&mut self) {
        let mut larger = Self::with_room_for(self.cells.len());
        for &(key, place) in self.cells.iter().filter(|cell| cell.1 != NIL) {
            larger.insert(key, place);
        }
        *self = larger;
    }
}

/// Entries by number, given back and taken again. An entry keeps what it had allocated.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }

    /// Takes an entry; it holds what its last user left in it.
    #[inline]
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(T::default());
            (self.entries.len() - 1) as u32
        })
    }

    /// Gives an entry back.
    #[inline]
    pub(crate) fn give(&mut self, entry: u32) {
        debug_assert!(!self.free.contains(&entry), "entry {entry} given back twice");
        self.free.push(entry);
    }

    /// Entries taken and not given back.
    pub(crate) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline]
    fn index(&self, entry: u32) -> &T {
        &self.entries[entry as usize]
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    #[inline]
    fn index_mut(&mut self, entry: u32) -> &mut T {
        &mut self.entries[entry as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The table agrees with a map through any history of insertions and removals of few, colliding keys.
        #[test]
        fn table_agrees_with_a_map(history in proptest::collection::vec((0u64..40, any::<bool>()), 0..400)) {
            let mut table = Table::with_room_for(1);
            let mut map = BTreeMap::new();
            for (step, (key, insert)) in history.into_iter().enumerate() {
                // A stride of a large power of two makes homes collide.
                let key = key << 58 | key;
                if insert {
                    table.insert(key, step as u32);
                    map.insert(key, step as u32);
                } else if map.remove(&key).is_some() {
                    table.remove(key);
                }
                for probe in 0u64..40 {
                    let probe = probe << 58 | probe;
                    prop_assert_eq!(table.get(probe), map.get(&probe).copied());
                }
            }
        }
    }
}
