//! An index from 64-bit keys to 32-bit places, and a store of reusable entries: the two containers that the
//! controller's hot path is made of. Neither allocates once it has reached its working size.

/// No place: the end of a list, or an empty cell.
pub(crate) const NIL: u32 = u32::MAX;

/// Open addressing with linear probing and backward-shift deletion (Knuth, TAOCP 6.4, algorithm R), so that
/// there are no tombstones and a long run stays as fast as it began. Iteration is not offered: its order would
/// depend on history.
///
/// A cell holds half of the key's hash and not the key, which stands at the place already: a table of half the size is
/// twice as often in the processor's cache. Whoever looks for a key says which key a place has.
#[derive(Debug)]
pub(crate) struct Table {
    cells: Vec<Cell>,
    shift: u32,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    hash: u32,
    place: u32,
}

impl Cell {
    const EMPTY: Self = Self { hash: 0, place: NIL };
}

/// Fibonacci hashing: neighbouring keys, the common case, spread over the whole table.
#[inline]
const fn hash_of(key: u64) -> u32 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

impl Table {
    /// Room for `entries` at a load of at most one half; it grows beyond that.
    pub(crate) fn with_room_for(entries: usize) -> Self {
        let capacity = (entries.max(8) * 2).next_power_of_two();
        assert!(capacity.trailing_zeros() <= 32, "a hash of 32 bits tells the cells apart");
        Self { cells: vec![Cell::EMPTY; capacity], shift: 32 - capacity.trailing_zeros(), len: 0 }
    }

    #[inline]
    const fn home(&self, hash: u32) -> usize {
        (hash as u64 >> self.shift) as usize
    }

    /// The cell that `is_wanted` on the way of `hash`, or the empty one at its end.
    #[inline]
    fn find(&self, hash: u32, is_wanted: impl Fn(u32) -> bool) -> Result<usize, usize> {
        let mask = self.cells.len() - 1;
        let mut cell = self.home(hash);
        loop {
            let Cell { hash: held, place } = self.cells[cell];
            if place == NIL {
                return Err(cell);
            }
            if held == hash && is_wanted(place) {
                return Ok(cell);
            }
            cell = (cell + 1) & mask;
        }
    }

    /// Returns the place of `key`; `key_at` says which key a place has.
    #[inline]
    pub(crate) fn get(&self, key: u64, key_at: impl Fn(u32) -> u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.find(hash_of(key), |place| key_at(place) == key).ok().map(|cell| self.cells[cell].place)
    }

    /// Reads the cell where the way of `key` begins.
    #[inline]
    pub(crate) fn look_at(&self, key: u64) -> u32 {
        self.cells[self.home(hash_of(key))].place
    }

    /// Sets the place of `key`, new or known; `key_at` says which key a place has.
    pub(crate) fn insert(&mut self, key: u64, place: u32, key_at: impl Fn(u32) -> u64) {
        assert!(place != NIL, "NIL marks empty cells");
        if (self.len + 1) * 2 > self.cells.len() {
            self.grow();
        }
        let hash = hash_of(key);
        match self.find(hash, |held| key_at(held) == key) {
            Ok(cell) => self.cells[cell].place = place,
            Err(cell) => {
                self.cells[cell] = Cell { hash, place };
                self.len += 1;
            }
        }
    }

    /// Forgets `key`, whose place must be this one.
    pub(crate) fn remove(&mut self, key: u64, place: u32) {
        let mask = self.cells.len() - 1;
        let mut hole = self.find(hash_of(key), |held| held == place).expect("only known keys are removed");
        let mut cell = hole;
        loop {
            cell = (cell + 1) & mask;
            let held = self.cells[cell];
            if held.place == NIL {
                break;
            }
            // An entry may move back into the hole unless its home lies cyclically after the hole.
            let from_home = cell.wrapping_sub(self.home(held.hash)) & mask;
            let from_hole = cell.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.cells[hole] = held;
                hole = cell;
            }
        }
        self.cells[hole] = Cell::EMPTY;
        self.len -= 1;
    }

    fn grow(&mut self) {
        let mut larger = Self::with_room_for(self.cells.len());
        for &held in self.cells.iter().filter(|cell| cell.place != NIL) {
            let cell = larger.find(held.hash, |_| false).expect_err("a table has empty cells");
            larger.cells[cell] = held;
        }
        larger.len = self.len;
        *self = larger;
    }
}

/// A number of an entry of a [`Slab`].
pub(crate) trait SlabKey: Copy {
    fn of_entry(entry: u32) -> Self;
    fn entry(self) -> u32;
}

impl SlabKey for u32 {
    #[inline]
    fn of_entry(entry: u32) -> Self {
        entry
    }

    #[inline]
    fn entry(self) -> u32 {
        self
    }
}

/// Entries by number, given back and taken again. An entry keeps what it had allocated.
#[derive(Debug)]
pub(crate) struct Slab<T, K = u32> {
    numbered: core::marker::PhantomData<K>,
    entries: Vec<T>,
    free: Vec<u32>,
    /// Whether each entry is in `free`: a search of that list took most of the time of a build with assertions.
    #[cfg(debug_assertions)]
    is_free: Vec<bool>,
}

impl<T: Default, K: SlabKey> Slab<T, K> {
    pub(crate) const fn new() -> Self {
        Self {
            numbered: core::marker::PhantomData,
            entries: Vec::new(),
            free: Vec::new(),
            #[cfg(debug_assertions)]
            is_free: Vec::new(),
        }
    }

    /// Takes an entry; it holds what its last user left in it.
    #[inline]
    pub(crate) fn take(&mut self) -> K {
        let entry = self.free.pop().unwrap_or_else(|| {
            self.entries.push(T::default());
            #[cfg(debug_assertions)]
            self.is_free.push(true);
            (self.entries.len() - 1) as u32
        });
        #[cfg(debug_assertions)]
        {
            self.is_free[entry as usize] = false;
        }
        K::of_entry(entry)
    }

    /// Gives an entry back.
    #[inline]
    pub(crate) fn give(&mut self, key: K) {
        let entry = key.entry();
        #[cfg(debug_assertions)]
        assert!(
            !core::mem::replace(&mut self.is_free[entry as usize], true),
            "entry {entry} given back twice"
        );
        self.free.push(entry);
    }

    /// Entries taken and not given back.
    pub(crate) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T, K: SlabKey> core::ops::Index<K> for Slab<T, K> {
    type Output = T;
    #[inline]
    fn index(&self, key: K) -> &T {
        &self.entries[key.entry() as usize]
    }
}

impl<T, K: SlabKey> core::ops::IndexMut<K> for Slab<T, K> {
    #[inline]
    fn index_mut(&mut self, key: K) -> &mut T {
        &mut self.entries[key.entry() as usize]
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
            // A stride of a large power of two makes homes collide.
            let keys: Vec<u64> = history.iter().map(|(key, _)| key << 58 | key).collect();
            let key_at = |place: u32| keys[place as usize];
            for (step, (_, insert)) in history.into_iter().enumerate() {
                let key = keys[step];
                if insert {
                    table.insert(key, step as u32, key_at);
                    map.insert(key, step as u32);
                } else if let Some(place) = map.remove(&key) {
                    table.remove(key, place);
                }
                for probe in 0u64..40 {
                    let probe = probe << 58 | probe;
                    prop_assert_eq!(table.get(probe, key_at), map.get(&probe).copied());
                }
            }
        }
    }
}
