//! The translation layer: which superblock holds the data of which logical unit, and what garbage collection moves.
//!
//! ```text
//!   host writes --> open superblock --full--> closed ... closed --victim--> what is valid moves on --> free
//!                        ^                                                        |
//!                        +--- one stream: moved data join the host's data --------+--- two streams: their own superblock
//! ```
//! A superblock is one block of every plane of every die: it is filled, collected and erased as a whole. When the host
//! needs a new one and only the reserve is free, victims are collected. So write amplification results from the
//! workload and the spare room; nothing here prescribes it.
//!
//! **Scaled geometry.** A drive of terabytes has billions of units. One unit in each *group* of `2^group_shift`
//! consecutive ones is tracked, at a place within its group that a hash chooses, and it represents its whole group
//! (spatial sampling, as Waldspurger et al., SHARDS, FAST 2015, do for caches). Each superblock is filled by every unit
//! that is written, tracked or not, and its valid share is that of its tracked units. With groups of one unit this is
//! the whole translation layer, page by page. A victim is chosen among superblocks whose valid share is known from a
//! few thousand units; with a few hundred, greedy collection would find some that are emptier by chance, and amplify
//! less. So a scaled drive has fewer and larger superblocks, too.
//!
//! Invariants: a tracked unit is in at most one superblock; `valid` of a superblock is the number of tracked units
//! whose place it is; a free superblock holds nothing.
//!
//! Left out: data that become invalid in a superblock while it is collected (a victim is emptied at once; only the time
//! for it is spread over the writes that follow). Moves of wear levelling and refresh count as time only (`drain`):
//! whole superblocks change places.
//! Sources: Desnoyers, "Analytic models of SSD write performance", ACM TOS 10(2), 2014; Van Houdt, "A mean field model for a
//! class of garbage collection algorithms in flash-based solid state drives", SIGMETRICS 2013.

use super::random::{Draw, spread};
use super::victim::{Closed, Collection};
use std::collections::VecDeque;

/// No superblock.
const NOWHERE: u16 = u16::MAX;

/// Free superblocks that are kept back, so that a victim always has somewhere to go.
pub(crate) const RESERVE: usize = 3;

/// Superblocks of the host over which garbage collection is spread.
const PACE_SUPERBLOCKS: f64 = 8.0;

/// A victim with a larger share of valid data is not worth collecting before it has to be.
const AHEAD_SHARE_MAX: f64 = 0.9;

/// Units that are followed at most.
const FOLLOWED_MAX: u64 = 1 << 19;

/// Superblocks at most, and at most where not every unit is followed: enough followed units have to be in each.
const SUPERBLOCKS_MAX: f64 = 60_000.0;
const SUPERBLOCKS_SCALED: f64 = 192.0;

/// What a translation layer is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Logical units.
    pub(crate) units: u64,
    /// Units that a superblock holds.
    pub(crate) superblock_units: u64,
    /// Superblocks.
    pub(crate) superblocks: u16,
    /// One unit in `2^group_shift` is followed.
    pub(crate) group_shift: u32,
    /// How victims are chosen.
    pub(crate) collection: Collection,
    /// Whether moved data have superblocks of their own.
    pub(crate) separates_moved: bool,
}

/// What the shape of a drive follows from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Geometry {
    /// Logical units.
    pub(crate) units: u64,
    /// Room for data beyond them, as a share of them.
    pub(crate) spare: f64,
    /// Units in one block of every plane of every die.
    pub(crate) superblock_units: u64,
    /// How victims are chosen.
    pub(crate) collection: Collection,
    /// Whether moved data have superblocks of their own.
    pub(crate) separates_moved: bool,
}

impl Geometry {
    /// The shape of a drive, scaled where it has more units than are worth following.
    pub(crate) fn shape(&self) -> Shape {
        let mut group_shift = 0;
        while self.units >> group_shift > FOLLOWED_MAX {
            group_shift += 1;
        }
        let most = if group_shift == 0 { SUPERBLOCKS_MAX } else { SUPERBLOCKS_SCALED };
        self.shape_in(group_shift, most)
    }

    /// A shape with groups and at most so many superblocks beside the reserve. What is free in the reserve and in what is open,
    /// half of each, is no part of the spare room.
    pub(crate) fn shape_in(&self, group_shift: u32, superblocks_max: f64) -> Shape {
        let with_spare = self.units as f64 * (1.0 + self.spare);
        let open = if self.separates_moved { 2 } else { 1 };
        let in_use = (with_spare / self.superblock_units as f64).round().clamp(1.0, superblocks_max);
        Shape {
            units: self.units,
            superblock_units: (with_spare / (in_use + 0.5 * f64::from(open))).floor().max(1.0) as u64,
            superblocks: in_use as u16 + RESERVE as u16 + open,
            group_shift,
            collection: self.collection,
            separates_moved: self.separates_moved,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Superblock {
    /// Followed units in the order in which they came, those that have gone elsewhere since included.
    followed: Vec<u32>,
    /// Units that it was filled with.
    filled: u64,
    /// Those of them that are no data.
    padded: u64,
    /// Followed units that are still here.
    valid: u32,
    /// When it was closed, in superblocks; none while it is free or open.
    closed_at: Option<u64>,
}

/// What followed units stand for: their part of the data of their superblock. So chance, which lets more of them into one
/// superblock than into another, makes none look emptier than it is.
#[derive(Clone, Copy, Debug)]
struct Share {
    data_units: u64,
    followed: u64,
}

impl Share {
    fn units_of(self, count: u64) -> u64 {
        (count * self.data_units).checked_div(self.followed).unwrap_or(0)
    }
}

impl Superblock {
    fn share(&self) -> Share {
        Share { data_units: self.filled - self.padded, followed: self.followed.len() as u64 }
    }

    /// Units that are valid.
    fn valid_units(&self) -> u64 {
        self.share().units_of(u64::from(self.valid))
    }
}

/// What was written so far, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// For the host.
    pub(crate) host: u64,
    /// Moved by garbage collection.
    pub(crate) moved: u64,
}

impl Written {
    /// Units written for each of the host's.
    #[cfg(test)]
    pub(crate) fn amplification(self) -> f64 {
        (self.host + self.moved) as f64 / self.host as f64
    }
}

/// The translation layer of one drive.
#[derive(Clone, Debug)]
pub(crate) struct Translation {
    shape: Shape,
    /// Superblock of the followed unit of each group.
    places: Vec<u16>,
    /// Groups whose followed unit holds data.
    mapped: u64,
    superblocks: Vec<Superblock>,
    free: VecDeque<u16>,
    /// Open superblock for the host, and for what is moved if that is apart.
    open: [u16; 2],
    closed: u64,
    written: Written,
    /// Units that were moved and whose time is not paid yet; negative where it was paid ahead.
    owed: i64,
    /// Units moved for each of the host's, over its last superblocks.
    pace: f64,
    /// Share of the last victim that was valid.
    victim_share: f64,
    draw: Draw,
}

impl Translation {
    /// A layer that holds nothing.
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        let groups = shape.units.div_ceil(1 << shape.group_shift);
        assert!(u32::try_from(groups).is_ok(), "{groups} followed units are too many");
        assert!(usize::from(shape.superblocks) > RESERVE + 2, "too few superblocks to collect any");
        let mut free: VecDeque<u16> = (0..shape.superblocks).collect();
        let mut next = || free.pop_front().expect("there are more than two");
        Self {
            places: vec![NOWHERE; groups as usize],
            mapped: 0,
            superblocks: vec![Superblock::default(); usize::from(shape.superblocks)],
            open: [next(), if shape.separates_moved { next() } else { NOWHERE }],
            free,
            shape,
            closed: 0,
            written: Written::default(),
            owed: 0,
            pace: 0.0,
            victim_share: 0.0,
            draw: Draw::new(seed),
        }
    }

    /// Takes in that the host's `unit` is written.
    #[inline]
    pub(crate) fn write(&mut self, unit: u64) {
        self.append(self.followed(unit), 1);
    }

    /// The group of `unit`.
    #[inline]
    pub(crate) fn group(&self, unit: u64) -> u32 {
        (unit >> self.shape.group_shift) as u32
    }

    /// The group of `unit`, if it is the one that is followed for it.
    #[inline]
    pub(crate) fn followed(&self, unit: u64) -> Option<u32> {
        let group = unit >> self.shape.group_shift;
        (unit == self.followed_unit(group)).then_some(group as u32)
    }

    #[inline]
    fn followed_unit(&self, group: u64) -> u64 {
        let place = spread(group) & ((1 << self.shape.group_shift) - 1);
        group << self.shape.group_shift | place
    }

    /// Takes in that `units` of data come at once, with the followed groups among them.
    pub(crate) fn write_many(&mut self, groups: &[u32], units: u64) {
        let share = Share { data_units: units, followed: groups.len() as u64 };
        for (count, group) in (1..).zip(groups) {
            self.append(Some(*group), share.units_of(count) - share.units_of(count - 1));
        }
        let mut left = if groups.is_empty() { units } else { 0 };
        while left > 0 {
            let piece = left.min(self.shape.superblock_units);
            self.append(None, piece);
            left -= piece;
        }
    }

    /// Collects one victim before it has to be, unless `ahead` superblocks are free beside the reserve or there is little to
    /// gain; the units that this moved.
    pub(crate) fn collect_ahead(&mut self, ahead: usize) -> Option<u64> {
        if self.free.len() >= RESERVE + ahead {
            return None;
        }
        let victim = self.victim()?;
        if self.superblocks[usize::from(victim)].valid_units() as f64
            > AHEAD_SHARE_MAX * self.shape.superblock_units as f64
        {
            return None;
        }
        let moved = self.written.moved;
        self.empty(victim);
        Some(self.written.moved - moved)
    }

    /// Superblocks.
    pub(crate) fn superblocks(&self) -> u16 {
        self.shape.superblocks
    }

    /// Takes in that a followed group holds no data here any more; whether it did.
    pub(crate) fn forget(&mut self, group: u32) -> bool {
        let before = core::mem::replace(&mut self.places[group as usize], NOWHERE);
        if before == NOWHERE {
            return false;
        }
        self.superblocks[usize::from(before)].valid -= 1;
        self.mapped -= 1;
        true
    }

    /// The groups whose followed unit is in `units`.
    pub(crate) fn groups_in(&self, units: core::ops::Range<u64>) -> impl Iterator<Item = u32> + use<> {
        let (shift, shape) = (self.shape.group_shift, self.shape);
        let last = units.end.div_ceil(1 << shift).min(shape.units.div_ceil(1 << shift));
        let place = move |group: u64| group << shift | (spread(group) & ((1 << shift) - 1));
        (units.start >> shift..last)
            .filter(move |group| units.contains(&place(*group)))
            .map(|group| group as u32)
    }

    /// Units of groups that hold data here.
    pub(crate) fn mapped_units(&self) -> u64 {
        self.mapped << self.shape.group_shift
    }

    /// Units of one group.
    pub(crate) fn group_units(&self) -> u64 {
        1 << self.shape.group_shift
    }

    /// Takes in that all of a group is written; what filling a drive does.
    pub(crate) fn write_group(&mut self, group: u32) {
        self.append(Some(group), 1 << self.shape.group_shift);
    }

    /// Takes in that room for `units` was used up without data, to fill up a program.
    pub(crate) fn pad(&mut self, units: u64) {
        self.superblocks[usize::from(self.open[0])].padded += units;
        self.append(None, units);
    }

    /// Number of groups.
    pub(crate) fn groups(&self) -> u32 {
        self.places.len() as u32
    }

    /// Whether the data of `unit` are on flash, as far as its group tells.
    #[inline]
    pub(crate) fn is_written(&self, unit: u64) -> bool {
        // A full drive need not look: the map is larger than the processor's cache.
        self.mapped == self.places.len() as u64
            || self.places[(unit >> self.shape.group_shift) as usize] != NOWHERE
    }

    /// What was written so far.
    pub(crate) fn written(&self) -> Written {
        self.written
    }

    /// Forgets what was written and is owed, so that counting starts now.
    pub(crate) fn start_counting(&mut self) {
        (self.written, self.owed) = (Written::default(), 0);
    }

    /// Units that garbage collection should spend its time on for each one of the host's: what it moved for the last
    /// superblocks of the host, and a part of what it owes, which is less than nothing where it is ahead.
    #[inline]
    pub(crate) fn due_per_unit(&self) -> f64 {
        let behind = self.owed as f64 / self.shape.superblock_units as f64;
        // What was collected ahead is used up first.
        let pace = if self.free.len() > RESERVE { 0.0 } else { self.pace };
        (pace + behind / PACE_SUPERBLOCKS).max(0.0)
    }

    /// Takes in that time was spent on so many units that were moved, or will be.
    pub(crate) fn pay(&mut self, units: u64) {
        self.owed -= units.cast_signed();
    }

    /// Share of the last victim that was valid.
    pub(crate) fn victim_share(&self) -> f64 {
        self.victim_share
    }

    /// Memory that the map and the superblocks take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let lists =
            self.superblocks.iter().map(|superblock| superblock.followed.capacity() * size_of::<u32>());
        self.places.len() * size_of::<u16>()
            + self.superblocks.len() * size_of::<Superblock>()
            + lists.sum::<usize>()
    }

    #[inline]
    fn append(&mut self, followed: Option<u32>, units: u64) {
        self.written.host += units;
        if let Some(group) = followed {
            self.settle(group, self.open[0]);
        }
        let superblock = &mut self.superblocks[usize::from(self.open[0])];
        superblock.filled += units;
        if superblock.filled >= self.shape.superblock_units {
            self.open_next(0);
            let moved = self.written.moved;
            while self.free.len() < RESERVE {
                self.collect();
            }
            let ratio = (self.written.moved - moved) as f64 / self.shape.superblock_units as f64;
            self.pace += (ratio - self.pace) / PACE_SUPERBLOCKS;
        }
    }

    /// Makes `superblock` the place of a followed unit.
    #[inline]
    fn settle(&mut self, group: u32, superblock: u16) {
        let before = core::mem::replace(&mut self.places[group as usize], superblock);
        if before == NOWHERE {
            self.mapped += 1;
        } else {
            self.superblocks[usize::from(before)].valid -= 1;
        }
        let superblock = &mut self.superblocks[usize::from(superblock)];
        superblock.valid += 1;
        superblock.followed.push(group);
    }

    /// Closes an open superblock and opens a free one, which takes what did not fit into the one before.
    fn open_next(&mut self, stream: usize) {
        let full = &mut self.superblocks[usize::from(self.open[stream])];
        let over = full.filled - self.shape.superblock_units;
        full.filled = self.shape.superblock_units;
        full.padded = full.padded.min(full.filled);
        full.closed_at = Some(self.closed);
        self.closed += 1;
        self.open[stream] = self.free.pop_front().expect("collecting keeps a reserve");
        self.superblocks[usize::from(self.open[stream])].filled = over;
    }

    /// Moves what is valid in a victim, and frees it.
    fn collect(&mut self) {
        let victim = self.victim().expect("something is closed when there is no room");
        self.empty(victim);
    }

    /// The superblock to be collected next, if one is closed.
    fn victim(&mut self) -> Option<u16> {
        let mut draw = self.draw;
        let victim = self.shape.collection.choose(&self.candidates(), &mut draw);
        self.draw = draw;
        victim
    }

    fn empty(&mut self, victim: u16) {
        let index = usize::from(victim);
        let share = self.superblocks[index].share();
        let moved = self.superblocks[index].valid_units();
        let stream = usize::from(self.shape.separates_moved);
        let mut followed = core::mem::take(&mut self.superblocks[index].followed);
        let mut count = 0;
        for group in followed.drain(..) {
            if self.places[group as usize] == victim {
                self.settle(group, self.open[stream]);
                count += 1;
                self.fill(stream, share.units_of(count) - share.units_of(count - 1));
            }
        }
        self.superblocks[index] = Superblock { followed, ..Superblock::default() };
        self.free.push_back(victim);
        self.written.moved += moved;
        self.owed += moved.cast_signed();
        self.victim_share = (moved as f64 / self.shape.superblock_units as f64).min(1.0);
    }

    /// Takes in that moved units fill an open superblock.
    fn fill(&mut self, stream: usize, units: u64) {
        let open = &mut self.superblocks[usize::from(self.open[stream])];
        open.filled += units;
        if open.filled >= self.shape.superblock_units {
            self.open_next(stream);
        }
    }

    /// Superblocks that may be collected: those that are closed.
    fn candidates(&self) -> Candidates<'_> {
        Candidates { superblocks: &self.superblocks, closed: self.closed, units: self.shape.superblock_units }
    }
}

/// The superblocks as those see them who choose a victim.
struct Candidates<'a> {
    superblocks: &'a [Superblock],
    closed: u64,
    units: u64,
}

impl Closed for Candidates<'_> {
    fn len(&self) -> usize {
        self.superblocks.len()
    }

    fn valid(&self, index: usize) -> Option<u64> {
        let superblock = &self.superblocks[index];
        superblock.closed_at.map(|_| superblock.valid_units())
    }

    fn valid_share(&self, index: usize) -> f64 {
        self.superblocks[index].valid_units() as f64 / self.units as f64
    }

    fn age(&self, index: usize) -> u64 {
        self.superblocks[index].closed_at.map_or(0, |at| self.closed - at)
    }
}
