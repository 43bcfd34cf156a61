//! The page cache: which units of which file are in memory, which are dirty, and which are reclaimed first.
//!
//! ```text
//!  low zone    head ► inactive ► tail ─► reclaimed        read or written once: inactive
//!  high zone   head ► active   ► tail ─► inactive         again: referenced; again: active
//! ```
//! Memory above what the kernel can always address is a separate zone. A new unit takes a free place of the high zone,
//! else of the low one; when both have none, a batch of each zone is reclaimed from the tail of its inactive list. A
//! dirty unit there moves to the head, and is returned to the caller to be written unless it was used since it was last
//! examined. So a zone smaller than the dirty limit sends its dirty units to the volume in the order of use, beside the
//! flusher's writes in order of address, but only units that the flusher has left behind for a whole cycle of the list.
//!
//! Invariant: a unit is in one list exactly while it holds something. Source: Linux 2.6.8, `mm/vmscan.c`
//! (`shrink_list`), `mm/swap.c`.
//! `mm/swap.c`.

use raidlab_hardware::Server;
use raidlab_units::Nanos;

/// No unit, no inode.
pub(super) const NONE: u32 = u32::MAX;

/// Units reclaimed from each zone at once, in pages: Linux's `SWAP_CLUSTER_MAX`.
const BATCH_PAGES: u32 = 32;

/// Units looked at for each one that is to be reclaimed.
const SCAN_FACTOR: u32 = 8;

/// Names one file's contents; a file that is made anew gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InodeId(pub(super) u32);

/// A run of units of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) inode: InodeId,
    pub(super) first: u32,
    pub(super) units: u32,
}

#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a page's flags are independent of each other")]
struct Unit {
    inode: u32,
    index: u32,
    prev: u32,
    next: u32,
    zone: u8,
    is_active: bool,
    is_referenced: bool,
    is_here: bool,
    is_dirty: bool,
    is_writing: bool,
}

impl Unit {
    /// A unit of `zone` that holds nothing.
    const fn free(zone: u8) -> Self {
        Self {
            inode: NONE,
            index: 0,
            prev: NONE,
            next: NONE,
            zone,
            is_active: false,
            is_referenced: false,
            is_here: false,
            is_dirty: false,
            is_writing: false,
        }
    }
}

/// A list through the units; the head is the newest.
#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl List {
    const EMPTY: Self = Self { head: NONE, tail: NONE, len: 0 };

    fn push(&mut self, units: &mut [Unit], at: u32) {
        let unit = &mut units[at as usize];
        (unit.prev, unit.next) = (NONE, self.head);
        if self.head == NONE {
            self.tail = at;
        } else {
            units[self.head as usize].prev = at;
        }
        self.head = at;
        self.len += 1;
    }

    fn remove(&mut self, units: &mut [Unit], at: u32) {
        let Unit { prev, next, .. } = units[at as usize];
        match prev {
            NONE => self.head = next,
            prev => units[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => units[next as usize].prev = prev,
        }
        self.len -= 1;
    }
}

#[derive(Clone, Debug)]
struct Zone {
    lists: [List; 2],
    free: Vec<u32>,
    /// Units that have never held anything, which take no memory of ours.
    fresh: u32,
    /// Units to be moved from the active to the inactive list.
    demote: f64,
}

/// One file's contents.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// Where its unit stands, by number.
    places: Vec<u32>,
    /// A bit for each unit that is dirty.
    dirty_bits: Vec<u64>,
    /// Units that are dirty and not being written.
    pub(super) flushable: u32,
    /// Units that are dirty or being written.
    pub(super) unwritten: u32,
    /// Where the flusher goes on.
    cursor: u32,
    /// Since when it is dirty.
    pub(super) dirty_since: Nanos,
    /// Whether the flusher is to write it, however little is dirty.
    pub(super) must_flush: bool,
    /// Which volume it is on.
    pub(super) volume: u16,
    /// Position of its first byte among the volume's data.
    pub(super) base: u64,
    /// Its length in bytes.
    pub(super) bytes: u64,
    /// Blocks of its map that have gone out.
    pub(super) maps_written: u64,
    /// Who writes to it, or writes it out: one at a time.
    pub(super) writers: Server,
    /// Whether the journal has to tell something of it that a commit has not taken in.
    pub(super) is_news: bool,
    /// Where its units are that were written again on a filesystem that copies on write: by number, among the volume's data.
    moved: Vec<u32>,
    is_alive: bool,
}

/// What a reclaim or an allocation could do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allocated {
    Unit,
    /// Everything is dirty or under way: something has to end first.
    NoMemory,
}

#[derive(Clone, Debug)]
pub(super) struct PageCache {
    units: Vec<Unit>,
    zones: [Zone; 2],
    inodes: Vec<Inode>,
    batch: u32,
    /// Dirty units that are not being written.
    pub(super) dirty: u32,
    /// Units that are being written.
    pub(super) writing: u32,
}

impl PageCache {
    /// A cache of `high` and `low` units, of so many pages each.
    pub(super) fn new(low: u32, high: u32, pages_per_unit: u32) -> Self {
        let zone = |fresh| Zone { lists: [List::EMPTY; 2], free: Vec::new(), fresh, demote: 0.0 };
        Self {
            units: Vec::new(),
            zones: [zone(low), zone(high)],
            inodes: Vec::new(),
            batch: (BATCH_PAGES / pages_per_unit).max(1),
            dirty: 0,
            writing: 0,
        }
    }

    /// A new, empty file at `base` of `volume`, or one of `bytes` that was there before.
    pub(super) fn add_inode(&mut self, volume: u16, base: u64, bytes: u64) -> InodeId {
        self.inodes.push(Inode { volume, base, bytes, is_alive: true, ..Inode::default() });
        InodeId(self.inodes.len() as u32 - 1)
    }

    pub(super) fn inode(&self, inode: InodeId) -> &Inode {
        &self.inodes[inode.0 as usize]
    }

    pub(super) fn inode_mut(&mut self, inode: InodeId) -> &mut Inode {
        &mut self.inodes[inode.0 as usize]
    }

    /// The files on `volume` that have something to flush, in the order in which they were made.
    pub(super) fn flushable_on(&self, volume: u16) -> impl Iterator<Item = (InodeId, &Inode)> {
        let inodes = (0..).map(InodeId).zip(&self.inodes);
        inodes.filter(move |(_, inode)| inode.volume == volume && inode.flushable > 0)
    }

    /// All files.
    pub(super) fn inodes_mut(&mut self) -> impl Iterator<Item = &mut Inode> {
        self.inodes.iter_mut().filter(|inode| inode.is_alive)
    }

    fn place(&self, inode: InodeId, index: u32) -> u32 {
        self.inode(inode).places.get(index as usize).copied().unwrap_or(NONE)
    }

    /// Whether the unit is in memory, or on its way there.
    pub(super) fn holds(&self, inode: InodeId, index: u32) -> bool {
        self.place(inode, index) != NONE
    }

    /// Whether the unit can be read from memory.
    pub(super) fn is_here(&self, inode: InodeId, index: u32) -> bool {
        let at = self.place(inode, index);
        at != NONE && self.units[at as usize].is_here
    }

    /// Makes a place for a unit that is not held; dirty units that stand in the way are added to `outgoing`.
    pub(super) fn allocate(&mut self, inode: InodeId, index: u32, outgoing: &mut Vec<Run>) -> Allocated {
        let Some(at) = self.take_free(outgoing) else { return Allocated::NoMemory };
        let zone = self.units[at as usize].zone;
        let unit = &mut self.units[at as usize];
        *unit = Unit { inode: inode.0, index, ..Unit::free(zone) };
        self.zones[usize::from(zone)].lists[0].push(&mut self.units, at);
        let places = &mut self.inodes[inode.0 as usize].places;
        if places.len() <= index as usize {
            places.resize(index as usize + 1, NONE);
        }
        places[index as usize] = at;
        Allocated::Unit
    }

    fn take_free(&mut self, outgoing: &mut Vec<Run>) -> Option<u32> {
        self.pop_free(1).or_else(|| self.pop_free(0)).or_else(|| {
            self.reclaim(0, outgoing);
            self.reclaim(1, outgoing);
            self.pop_free(1).or_else(|| self.pop_free(0))
        })
    }

    /// A unit of a zone that holds nothing.
    fn pop_free(&mut self, zone: u8) -> Option<u32> {
        let Zone { free, fresh, .. } = &mut self.zones[usize::from(zone)];
        free.pop().or_else(|| {
            *fresh = fresh.checked_sub(1)?;
            self.units.push(Unit::free(zone));
            Some(self.units.len() as u32 - 1)
        })
    }

    /// Frees a batch of a zone.
    fn reclaim(&mut self, zone: usize, outgoing: &mut Vec<Run>) {
        let mut freed = 0;
        let most =
            (self.batch * SCAN_FACTOR).min(self.zones[zone].lists[0].len + self.zones[zone].lists[1].len);
        for _ in 0..most {
            if freed == self.batch {
                break;
            }
            self.demote(zone);
            let Zone { lists: [inactive, _], free, .. } = &mut self.zones[zone];
            let at = inactive.tail;
            if at == NONE {
                continue;
            }
            inactive.remove(&mut self.units, at);
            let unit = self.units[at as usize];
            if unit.is_here && !unit.is_dirty && !unit.is_writing {
                self.inodes[unit.inode as usize].places[unit.index as usize] = NONE;
                self.units[at as usize].inode = NONE;
                free.push(at);
                freed += 1;
                continue;
            }
            inactive.push(&mut self.units, at);
            if !unit.is_dirty || unit.is_writing {
                continue;
            }
            if unit.is_referenced {
                self.units[at as usize].is_referenced = false;
            } else {
                let run = Run { inode: InodeId(unit.inode), first: unit.index, units: 1 };
                self.begin_write(run);
                outgoing.push(run);
            }
        }
    }

    /// Moves units from the active list, so many for each inactive one looked at that the active list settles at twice
    /// the length of the inactive one.
    fn demote(&mut self, zone: usize) {
        let Zone { lists: [inactive, active], demote, .. } = &mut self.zones[zone];
        *demote += f64::from(active.len) / (2.0 * f64::from(inactive.len + 1));
        while *demote >= 1.0 && active.len > 0 {
            *demote -= 1.0;
            let at = active.tail;
            active.remove(&mut self.units, at);
            let unit = &mut self.units[at as usize];
            (unit.is_active, unit.is_referenced) = (false, false);
            inactive.push(&mut self.units, at);
        }
        *demote = demote.min(8.0);
    }

    /// A read or write of the unit.
    pub(super) fn touch(&mut self, inode: InodeId, index: u32) {
        let at = self.place(inode, index);
        let unit = &mut self.units[at as usize];
        if unit.is_active || !unit.is_referenced {
            unit.is_referenced = true;
            return;
        }
        (unit.is_active, unit.is_referenced) = (true, false);
        let zone = &mut self.zones[usize::from(unit.zone)];
        zone.lists[0].remove(&mut self.units, at);
        zone.lists[1].push(&mut self.units, at);
    }

    /// The run has been read.
    pub(super) fn end_read(&mut self, run: Run) {
        for index in run.first..run.first + run.units {
            let at = self.place(run.inode, index);
            if at != NONE {
                self.units[at as usize].is_here = true;
            }
        }
        self.free_if_dead(run);
    }

    /// The unit, which is held, has been written to.
    pub(super) fn set_dirty(&mut self, now: Nanos, inode: InodeId, index: u32) {
        let at = self.place(inode, index) as usize;
        let unit = &mut self.units[at];
        unit.is_here = true;
        if unit.is_dirty {
            return;
        }
        unit.is_dirty = true;
        self.dirty += 1;
        let is_writing = unit.is_writing;
        let inode = &mut self.inodes[inode.0 as usize];
        if inode.unwritten == 0 {
            inode.dirty_since = now;
        }
        if !is_writing {
            inode.unwritten += 1;
            inode.flushable += 1;
            let word = index as usize / 64;
            if inode.dirty_bits.len() <= word {
                inode.dirty_bits.resize(word + 1, 0);
            }
            inode.dirty_bits[word] |= 1 << (index % 64);
        }
    }

    /// The next run of at most `most` dirty units of a file behind where the flusher was; it is being written from now on.
    pub(super) fn next_dirty(&mut self, inode: InodeId, most: u32) -> Option<Run> {
        let this = &self.inodes[inode.0 as usize];
        if this.flushable == 0 {
            return None;
        }
        let first = this.next_bit(this.cursor).or_else(|| this.next_bit(0))?;
        let is_dirty = |index: u32| this.bit(index);
        let units = (1..most).take_while(|more| is_dirty(first + more)).count() as u32 + 1;
        let run = Run { inode, first, units };
        self.begin_write(run);
        self.inodes[inode.0 as usize].cursor = first + units;
        Some(run)
    }

    fn begin_write(&mut self, run: Run) {
        let inode = &mut self.inodes[run.inode.0 as usize];
        for index in run.first..run.first + run.units {
            let unit = &mut self.units[inode.places[index as usize] as usize];
            debug_assert!(
                unit.is_dirty && !unit.is_writing,
                "only what is dirty is written, and once at a time"
            );
            (unit.is_dirty, unit.is_writing) = (false, true);
            inode.dirty_bits[index as usize / 64] &= !(1 << (index % 64));
        }
        inode.flushable -= run.units;
        self.dirty -= run.units;
        self.writing += run.units;
        if inode.flushable == 0 {
            inode.must_flush = false;
        }
    }

    /// The run is on its volume.
    pub(super) fn end_write(&mut self, run: Run) {
        self.writing -= run.units;
        let inode = &mut self.inodes[run.inode.0 as usize];
        for index in run.first..run.first + run.units {
            let unit = &mut self.units[inode.places[index as usize] as usize];
            unit.is_writing = false;
            if unit.is_dirty {
                inode.flushable += 1;
                inode.dirty_bits[index as usize / 64] |= 1 << (index % 64);
            } else {
                inode.unwritten -= 1;
            }
        }
        self.free_if_dead(run);
    }

    /// Forgets a file; what of it is under way goes when that ends.
    pub(super) fn drop_inode(&mut self, inode: InodeId) {
        let this = &mut self.inodes[inode.0 as usize];
        this.is_alive = false;
        (this.must_flush, this.flushable) = (false, 0);
        this.dirty_bits.clear();
        for index in 0..self.inode(inode).places.len() as u32 {
            self.free_dead(inode, index);
        }
    }

    fn free_if_dead(&mut self, run: Run) {
        if !self.inode(run.inode).is_alive {
            (run.first..run.first + run.units).for_each(|index| self.free_dead(run.inode, index));
        }
    }

    /// Frees a unit of a file that is gone, unless it is under way.
    fn free_dead(&mut self, inode: InodeId, index: u32) {
        let at = self.place(inode, index);
        if at == NONE {
            return;
        }
        let unit = &mut self.units[at as usize];
        if unit.is_dirty {
            unit.is_dirty = false;
            self.dirty -= 1;
        }
        if unit.is_writing || !unit.is_here {
            return;
        }
        unit.inode = NONE;
        let zone = &mut self.zones[usize::from(unit.zone)];
        let list = usize::from(unit.is_active);
        zone.lists[list].remove(&mut self.units, at);
        zone.free.push(at);
        self.inodes[inode.0 as usize].places[index as usize] = NONE;
    }
}

impl Inode {
    /// Moves units from `first` on to those from `to` on.
    pub(super) fn move_units(&mut self, first: u32, units: u32, to: u32) {
        let end = (first + units) as usize;
        if self.moved.len() < end {
            self.moved.resize(end, NONE);
        }
        for (at, place) in self.moved[first as usize..end].iter_mut().zip(to..) {
            *at = place;
        }
    }

    /// Position of a unit of `unit` bytes among the volume's data, and how many of up to `most` stand there in one piece.
    pub(super) fn position_of(&self, index: u32, most: u32, unit: u64) -> (u64, u32) {
        let moved = |index: u32| self.moved.get(index as usize).copied().unwrap_or(NONE);
        let first = moved(index);
        let follows = |next: &u32| match first {
            NONE => moved(index + next) == NONE,
            first => moved(index + next) == first + next,
        };
        let position =
            if first == NONE { self.base + u64::from(index) * unit } else { u64::from(first) * unit };
        (position, 1 + (1..most).take_while(follows).count() as u32)
    }

    fn bit(&self, index: u32) -> bool {
        self.dirty_bits.get(index as usize / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    fn next_bit(&self, from: u32) -> Option<u32> {
        let mut word = from as usize / 64;
        let mut bits = self.dirty_bits.get(word)? & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = *self.dirty_bits.get(word)?;
        }
        Some(word as u32 * 64 + bits.trailing_zeros())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dirty_unit_is_written_when_the_reclaim_meets_it_for_the_second_time_since_it_was_used() {
        // One zone of eight units, all of them dirty and used once; a reclaim looks at eight.
        let mut cache = PageCache::new(8, 0, BATCH_PAGES);
        let inode = cache.add_inode(0, 0, 0);
        let mut outgoing = Vec::new();
        for index in 0..8 {
            assert_eq!(cache.allocate(inode, index, &mut outgoing), Allocated::Unit);
            cache.set_dirty(Nanos::ZERO, inode, index);
            cache.touch(inode, index);
        }
        assert_eq!(cache.allocate(inode, 8, &mut outgoing), Allocated::NoMemory);
        assert_eq!((outgoing.len(), cache.dirty), (0, 8), "all were used since they were looked at");
        assert_eq!(cache.allocate(inode, 8, &mut outgoing), Allocated::NoMemory);
        let firsts: Vec<_> = outgoing.iter().map(|run| run.first).collect();
        assert_eq!((firsts, cache.writing), ((0..8).collect(), 8), "in the order of use");
        outgoing.drain(..).for_each(|run| cache.end_write(run));
        assert_eq!(cache.allocate(inode, 8, &mut outgoing), Allocated::Unit);
        assert!(!cache.holds(inode, 0) && outgoing.is_empty(), "what is clean goes, the oldest first");
    }
}
