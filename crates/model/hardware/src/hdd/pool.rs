//! The write cache of a current disk: all dirty extents in order of their sectors, of which the arm sees the nearest.
//!
//! Tens of thousands of extents fit into 256 MiB and more. The arm can't evaluate them all before each movement, and
//! need not: among so many the next ones in its direction are a fraction of a millimetre away, and only the rotation is
//! left to choose by. So a *window* of the next extents is evaluated, sweeping from the outer to the inner edge and
//! again from the outer.
//!
//! ```text
//!   sectors  ..[==]....[=]..[====]......[=]...[==]..      extents that touch become one
//!                  arm ^ [----- window of 4 ------]
//! ```
//!
//! Random writes thus reach the media in less than half of the time of random reads: that is the meaning of 170 random
//! reads and 550 random writes per second in data sheets of one disk. While a flush waits, only extents older than it
//! are seen.
//!
//! It holds tens of MB and more, which takes minutes to fill with small writes and to follow in virtual time. So a drive may
//! begin with what earlier writes of a load left in it ([`RestingWrites`]): as much as it holds before it writes out beside reads.
//!
//! Invariants: extents don't overlap; each is counted once in the [`WriteCache`], with the epoch of its oldest data.
//! Source: Seltzer, Chen and Ousterhout, "Disk scheduling revisited", USENIX Winter 1990 (what long queues gain).

use super::dirty::{BlockedWrite, WriteCache};
use crate::catalog::{CatalogError, Section, from_keys};
use crate::drive::{SECTOR_BYTES, SectorCount};
use crate::ssd::random::spread;
use raidlab_units::{ByteCount, Nanos};
use std::collections::BTreeMap;

/// A write cache that is written out in order of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolModel {
    /// What may be dirty.
    pub size: ByteCount,
    /// The longest piece that is written before the next command is looked at.
    pub run: ByteCount,
    /// Extents among which the arm chooses.
    pub window: u32,
    /// Whether what is dirty survives a loss of power: then every write is acknowledged from it, forced ones, too, and a
    /// flush has nothing to wait for.
    pub protected: bool,
    /// What is dirty in it at first; nothing as delivered.
    pub resting: Option<RestingWrites>,
}

/// Writes that came before: extents of equal length, spread evenly, in a cache that is about to be written out beside reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestingWrites {
    /// Length of an extent; one that is longer than the cache fills it.
    pub extent: ByteCount,
    /// They are in so many sectors from the first one on.
    pub span: SectorCount,
    /// Percent of the room up to that mark that they take.
    pub share_pct: u8,
}

impl PoolModel {
    /// Reads the table `write_cache`.
    pub(crate) fn read(mut section: Section<'_>, memory: ByteCount) -> Result<Self, CatalogError> {
        let pool = from_keys!(section, Self { size, run, window, protected: flag, resting = None });
        section.refuse_if(pool.size > memory, "size", "no more than buffer.size")?;
        if pool.run.0 < 4096 || pool.run > pool.size {
            return Err(section.bad_value("run", "from 4 KiB to the size of the write cache"));
        }
        section.refuse_if(!(1..=1024).contains(&pool.window), "window", "from 1 to 1024")?;
        section.finish(pool)
    }
}

/// A run of dirty sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dirty {
    pub(crate) start: u64,
    pub(crate) sectors: u64,
    pub(crate) epoch: u64,
    /// When the last of it is in the drive.
    pub(crate) arrived: Nanos,
}

impl Dirty {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.sectors
    }

    pub(crate) fn holds(&self, start: u64, end: u64) -> bool {
        self.start <= start && end <= self.end()
    }
}

/// All dirty extents, by their first sector.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    extents: BTreeMap<u64, Dirty>,
    window: usize,
    run_sectors: u64,
    protected: bool,
}

impl Pool {
    pub(crate) fn new(model: &PoolModel) -> Self {
        Self {
            extents: BTreeMap::new(),
            window: model.window as usize,
            run_sectors: model.run.0 / SECTOR_BYTES,
            protected: model.protected,
        }
    }

    /// Puts what came before into an empty cache of a drive of `capacity`.
    pub(crate) fn rest(&mut self, cache: &mut WriteCache, writes: RestingWrites, capacity: SectorCount) {
        let whole = cache.sectors_max();
        let sectors = (writes.extent.0 / SECTOR_BYTES).clamp(1, whole.max(1));
        let span = writes.span.0.min(capacity.0);
        let many = cache.extents_unpressed(sectors) * u64::from(writes.share_pct) / 100;
        let count = if sectors == whole { 1 } else { many };
        // Where they would touch, fewer of them are as many as there can be.
        let count = count.min(span / (2 * sectors));
        // Each somewhere in its part of the span, or they could all be at one angle; aligned to their length as the load's own.
        let part = span / count.max(1);
        for at in 0..count {
            let start = (at * part + spread(at) % (part - sectors)) / sectors * sectors;
            let write = BlockedWrite { id: 0, start, sectors, arrived: Nanos::ZERO, forced: false };
            self.put(cache, &write);
        }
    }

    pub(crate) fn is_protected(&self) -> bool {
        self.protected
    }

    /// The longest piece written at once, in sectors.
    pub(crate) fn run_sectors(&self) -> u64 {
        self.run_sectors
    }

    /// Takes a write in and counts it in `cache`, unless there is no room.
    pub(crate) fn put(&mut self, cache: &mut WriteCache, write: &BlockedWrite) -> bool {
        let epoch = cache.epoch();
        let mut union = Dirty { start: write.start, sectors: write.sectors, epoch, arrived: write.arrived };
        let met = self.met_by(&union);
        let held: u64 = met.iter().map(|extent| extent.sectors).sum();
        if let (Some(first), Some(last)) = (met.first(), met.last()) {
            let end = union.end().max(last.end());
            union.start = union.start.min(first.start);
            union.sectors = end - union.start;
        }
        let more = union.sectors - held;
        if !(if met.is_empty() { cache.has_room(more) } else { cache.has_memory(more) }) {
            return false;
        }
        union.epoch = met.iter().map(|extent| extent.epoch).fold(epoch, u64::min);
        for extent in &met {
            self.extents.remove(&extent.start);
        }
        if met.is_empty() {
            cache.add_extent(more);
        } else {
            cache.grow_extent(more);
            cache.join_extents(met.iter().map(|extent| extent.epoch));
        }
        self.extents.insert(union.start, union);
        true
    }

    /// The extents that `new` overlaps, or touches without being of another epoch, in order.
    fn met_by(&self, new: &Dirty) -> Vec<Dirty> {
        let meets = |other: &Dirty| {
            let (from, to) = (other.start.max(new.start), other.end().min(new.end()));
            from < to || (from == to && other.epoch == new.epoch)
        };
        let before = self.extents.range(..new.start).next_back();
        let inside = self.extents.range(new.start..=new.end());
        before.into_iter().chain(inside).map(|(_, extent)| *extent).filter(meets).collect()
    }

    /// Whether one extent holds all of `start..end`.
    pub(crate) fn holds(&self, start: u64, end: u64) -> bool {
        let before = self.extents.range(..=start).next_back();
        before.is_some_and(|(_, extent)| extent.holds(start, end))
    }

    /// The extents that the arm may choose among, from the sector `from` inwards and then from the outer edge; only those
    /// of epochs up to `oldest`, if that is given.
    pub(crate) fn window(&self, from: u64, oldest: Option<u64>) -> impl Iterator<Item = &Dirty> {
        let due = move |extent: &&Dirty| oldest.is_none_or(|epoch| extent.epoch <= epoch);
        let ahead = self.extents.range(from..).chain(self.extents.range(..from));
        ahead.map(|(_, extent)| extent).filter(due).take(self.window)
    }

    /// The longest extent.
    pub(crate) fn longest(&self) -> Option<&Dirty> {
        self.extents.values().max_by_key(|extent| extent.sectors)
    }

    /// Takes `sectors` from `start` on out of the extent at `extent`, which holds them; what is left counts by itself.
    pub(crate) fn take_within(
        &mut self,
        cache: &mut WriteCache,
        extent: u64,
        start: u64,
        sectors: u64,
    ) -> Dirty {
        if extent < start {
            let front = self.take(cache, extent, start - extent);
            self.extents.insert(front.start, front);
        }
        self.take(cache, start, sectors)
    }

    /// Takes out the extent at `start`, or as much of its front as `sectors_max`, which then counts by itself.
    pub(crate) fn take(&mut self, cache: &mut WriteCache, start: u64, sectors_max: u64) -> Dirty {
        let mut taken = self.extents.remove(&start).expect("chosen from the window");
        if taken.sectors > sectors_max {
            let rest = start + sectors_max;
            self.extents.insert(rest, Dirty { start: rest, sectors: taken.sectors - sectors_max, ..taken });
            cache.split_extent(taken.epoch);
            taken.sectors = sectors_max;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool() -> (Pool, WriteCache) {
        let model = PoolModel {
            size: ByteCount(1 << 20),
            run: ByteCount(8192),
            window: 4,
            protected: false,
            resting: None,
        };
        (Pool::new(&model), WriteCache::new(true, 1000, 2048))
    }

    #[test]
    fn what_rests_in_it_is_what_it_holds_before_it_writes_out_beside_reads() {
        // Extents of 4 KiB: 75 % of 1 MiB are 192. In 1000 sectors there is room for 62 that don't touch.
        for (span, share_pct, extents) in [(1_000_000, 100, 191), (1_000_000, 50, 95), (1000, 100, 62)] {
            let (mut pool, mut cache) = pool();
            let writes = RestingWrites { extent: ByteCount(4096), span: SectorCount(span), share_pct };
            pool.rest(&mut cache, writes, SectorCount(10_000_000));
            assert_eq!(pool.extents.len(), extents);
            assert!(!cache.is_pressed());
            assert!(pool.extents.values().all(|extent| extent.sectors == 8 && extent.end() <= span));
        }
    }

    fn write(start: u64, sectors: u64) -> BlockedWrite {
        BlockedWrite { id: 0, start, sectors, arrived: Nanos::ZERO, forced: false }
    }

    #[test]
    fn the_window_sweeps_inwards_and_comes_round() {
        let (mut pool, mut cache) = pool();
        for start in [500, 100, 900, 300, 700] {
            assert!(pool.put(&mut cache, &write(start, 8)));
        }
        let starts = |from| pool.window(from, None).map(|extent| extent.start).collect::<Vec<_>>();
        assert_eq!(starts(400), [500, 700, 900, 100]);
        assert_eq!(starts(901), [100, 300, 500, 700]);
    }

    #[test]
    fn a_flush_is_not_held_up_by_what_continues_older_data() {
        let (mut pool, mut cache) = pool();
        pool.put(&mut cache, &write(0, 8));
        cache.flush(7);
        pool.put(&mut cache, &write(8, 8));
        pool.put(&mut cache, &write(4, 2));
        let due: Vec<_> = pool.window(0, Some(0)).map(|extent| (extent.start, extent.sectors)).collect();
        assert_eq!(due, [(0, 8)], "overwritten it stays, continued it does not grow");
        let taken = pool.take(&mut cache, 0, 5);
        let mut done = Vec::new();
        cache.retire_extent(taken.epoch, taken.sectors, |id| done.push(id));
        assert_eq!(done, [0u32; 0], "the rest of it is still dirty");
        let taken = pool.take(&mut cache, 5, 5);
        cache.retire_extent(taken.epoch, taken.sectors, |id| done.push(id));
        assert_eq!(done, [7]);
    }

    proptest! {
        /// Against a set of dirty sectors: what is held, and what is counted.
        #[test]
        fn holds_what_was_written(writes in prop::collection::vec((0u64..200, 1u64..30, 0u32..8), 1..60)) {
            let (mut pool, mut cache) = pool();
            let mut sectors = std::collections::BTreeSet::new();
            for (start, length, what) in writes {
                if what == 0 && !cache.is_clean() {
                    cache.flush(1);
                } else if what == 1 && !cache.is_clean() {
                    let first = pool.window(start, None).next().expect("dirty").start;
                    let taken = pool.take(&mut cache, first, length);
                    cache.retire_extent(taken.epoch, taken.sectors, |_| {});
                    for sector in taken.start..taken.end() {
                        prop_assert!(sectors.remove(&sector), "taken twice");
                    }
                } else {
                    prop_assert!(pool.put(&mut cache, &write(start, length)));
                    sectors.extend(start..start + length);
                    prop_assert!(pool.holds(start, start + length) || cache.is_flushing());
                }
                let held: u64 = pool.extents.values().map(|extent| extent.sectors).sum();
                prop_assert_eq!(held, sectors.len() as u64);
                prop_assert_eq!(cache.is_clean(), sectors.is_empty());
                prop_assert_eq!(cache.has_memory(2048 - held), true);
                prop_assert_eq!(cache.has_memory(2049 - held), false);
            }
        }
    }
}
