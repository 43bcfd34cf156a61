//! The part of the map in memory, for drives without memory for all of it: in the drive's own memory or the host's
//! (`NVMe` host memory buffer).
//!
//! A *map page* of 4 KiB names the places of consecutive mapping units, 4 bytes for each. Reading or writing a unit
//! needs its map page here; if it is missing, it is read from flash first, and the evicted page is written back if it
//! was changed. Pages are assigned to sets in turn, and each set evicts its least recently used page.
//!
//! Left out: pages that are read ahead, what firmware keeps of the map in the flash's own order, and the time to access
//! the host's memory (it counts with the firmware's).
//! Sources: Gupta, Kim and Urgaonkar, "DFTL", ASPLOS 2009; Kim and Kim, "HMB in DRAM-less `NVMe` SSDs", `PLoS` ONE
//! 15(3), 2020: drives
//! use the host's memory to cache the map.

use raidlab_units::ByteCount;

/// Unit in which the map is read and written.
pub(super) const MAP_PAGE: ByteCount = ByteCount::from_kib(4);

/// Bytes that name the place of one mapping unit.
const ENTRY_BYTES: u64 = 4;

/// Pages of a set.
const WAYS: usize = 16;

const EMPTY: u64 = u64::MAX;

/// What it took to have a map page here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    /// It was read from flash.
    pub(super) is_missed: bool,
    /// One that was changed made room for it.
    pub(super) writes_back: bool,
}

/// Map pages that are here.
#[derive(Clone, Debug)]
pub(super) struct MapCache {
    /// Page numbers times two, and one more for those that were changed; the one used last stands first in its set.
    pages: Vec<u64>,
    ways: usize,
}

impl MapCache {
    /// A cache of `size`, empty.
    pub(super) fn new(size: ByteCount) -> Self {
        let pages = (size.0 / MAP_PAGE.0).max(1) as usize;
        let ways = pages.min(WAYS);
        Self { pages: vec![EMPTY; pages / ways * ways], ways }
    }

    /// The map page of `unit`.
    pub(super) const fn page_of(unit: u64) -> u64 {
        unit / (MAP_PAGE.0 / ENTRY_BYTES)
    }

    /// Takes in that `page` is used, and changed by a write.
    pub(super) fn touch(&mut self, page: u64, is_write: bool) -> Touched {
        let sets = (self.pages.len() / self.ways) as u64;
        let first = (page % sets) as usize * self.ways;
        let set = &mut self.pages[first..first + self.ways];
        let found = set.iter().position(|held| *held != EMPTY && held >> 1 == page);
        let place = found.unwrap_or(set.len() - 1);
        let before = set[place];
        let was_changed = before != EMPTY && before & 1 == 1;
        set[..=place].rotate_right(1);
        let is_changed = is_write || (found.is_some() && was_changed);
        set[0] = page << 1 | u64::from(is_changed);
        Touched { is_missed: found.is_none(), writes_back: found.is_none() && was_changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::random::Draw;

    /// Uniform use of `w` pages with room for `c`: one in `w / c` is here, whichever makes room.
    #[test]
    fn uniform_use_hits_as_often_as_the_cache_is_large() {
        for (held, used) in [(256, 512), (256, 1024), (1024, 1536), (16, 4096)] {
            let mut cache = MapCache::new(ByteCount(held * MAP_PAGE.0));
            let mut draw = Draw::new(used);
            let rounds = 200_000;
            let mut seen = [0u32; 2];
            for round in 0..rounds + 10 * used {
                let touched = cache.touch(draw.below(used), true);
                if round >= 10 * used {
                    seen[0] += u32::from(touched.is_missed);
                    seen[1] += u32::from(touched.writes_back);
                }
            }
            let expected = 1.0 - held as f64 / used as f64;
            let missed = f64::from(seen[0]) / rounds as f64;
            assert!((missed - expected).abs() < 0.01, "{held} of {used}: {missed} missed, not {expected}");
            assert_eq!(seen[0], seen[1], "each page that makes room was changed");
        }
    }

    #[test]
    fn what_fits_is_read_once_and_what_was_only_read_is_not_written_back() {
        let mut cache = MapCache::new(ByteCount(64 * MAP_PAGE.0));
        let missed = (0..640).filter(|i| cache.touch(i % 64, false).is_missed).count();
        assert_eq!(missed, 64);
        assert!(
            (64..128).all(|page| cache.touch(page, false) == Touched { is_missed: true, writes_back: false })
        );
        assert_eq!(MapCache::page_of(1023), 0);
        assert_eq!(MapCache::page_of(1024), 1);
    }
}
