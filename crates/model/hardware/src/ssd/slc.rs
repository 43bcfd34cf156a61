//! The pseudo-SLC cache: flash programmed first with one bit per cell, and later folded into all of its bits.
//!
//! ```text
//!  host --> room? --yes--> row of one page per plane, quick --> segment ... segment --fold--> whole rows, translation layer
//!               \--no----> whole rows at once (direct), or the host waits for folding (fold)
//! ```
//! A *static* part is separate flash. A *dynamic* part borrows flash without data: each unit in it takes as many as a
//! cell has bits, so it shrinks while the drive fills, and its data must then be folded. Both fill in one line of
//! segments, and are folded oldest first. A unit that is rewritten before it is folded is folded once.
//!
//! As in the translation layer one unit of each group is tracked and represents it; with groups of one unit this is
//! exact.
//!
//! Invariants: a group is in at most one segment; `valid` of a segment counts its groups; the occupied space is that of
//! the segments and of the rest of the one that is being folded.
//!
//! Left out: that garbage collection has less room while the dynamic part borrows it, folding within a die, and data
//! that firmware keeps in the cache because it is read often.

use super::bits::Bits;
use super::random::Draw;
use super::translation::Translation;
use crate::catalog::{CatalogError, Section, from_keys};
use raidlab_units::{ByteCount, NanoSpan};
use std::collections::VecDeque;

/// Segments of a full cache: it is folded in pieces of this part of it.
const SEGMENTS: u64 = 256;

/// No segment.
const NOWHERE: u32 = u32::MAX;

/// What the host's data do when the cache is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Go to whole rows at once, past the cache.
    Direct,
    /// Wait until folding has made room.
    Fold,
}

/// Flash that is programmed with one bit in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlcModel {
    /// Data that it always has room for, in flash of its own.
    pub static_size: ByteCount,
    /// Data more that it has room for on an empty drive, in flash that it borrows.
    pub dynamic_size: ByteCount,
    /// Fill of the drive in percent at which nothing is left to borrow.
    pub dynamic_until_pct: f64,
    /// What the host's data do when it is full.
    pub when_full: WhenFull,
    /// Time to program one page on all planes.
    pub program: NanoSpan,
    /// Time to sense such a page.
    pub read: NanoSpan,
}

impl SlcModel {
    /// Reads the table `[slc_cache]`.
    pub(super) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let when_full = match section.text("when_full")?.as_str() {
            "direct" => WhenFull::Direct,
            "fold" => WhenFull::Fold,
            _ => return Err(section.bad_value("when_full", "direct or fold")),
        };
        let model = from_keys!(section, Self {
            static_size, dynamic_size, dynamic_until_pct, when_full = when_full, program, read,
        });
        section.refuse_if(
            model.size() == ByteCount::ZERO,
            "static_size",
            "above zero, or dynamic_size is",
        )?;
        if !(0.0..=100.0).contains(&model.dynamic_until_pct) {
            return Err(section.bad_value("dynamic_until_pct", "from 0 to 100"));
        }
        section.refuse_if(model.program == NanoSpan::ZERO, "program", "above zero")?;
        section.finish(model)
    }

    /// Data that it has room for on an empty drive.
    pub fn size(&self) -> ByteCount {
        ByteCount(self.static_size.0.saturating_add(self.dynamic_size.0))
    }
}

/// What a cache is made of, in mapping units.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlcShape {
    pub(super) static_units: u64,
    pub(super) dynamic_units: u64,
    /// Units of the drive that may hold data while there is something to borrow.
    pub(super) until_units: u64,
    /// Units that one in the dynamic part borrows.
    pub(super) bits: u64,
    /// Groups of the translation layer, and units in each.
    pub(super) groups: u32,
    pub(super) group_units: u64,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    /// Followed units in the order in which they came, those that have gone elsewhere since included.
    followed: Vec<u32>,
    filled: u64,
    /// Those of them that are no data.
    padded: u64,
    valid: u32,
}

/// Where a group is.
#[derive(Clone, Copy, Debug)]
struct Cached {
    segment: u32,
    /// Whether flash outside of the cache held the group before.
    shadows: bool,
}

/// What is folded: followed groups, and how many units of data they and the others are.
#[derive(Clone, Debug, Default)]
pub(super) struct Folded {
    pub(super) groups: Vec<u32>,
    pub(super) units: u64,
}

/// The cache of one drive.
#[derive(Clone, Debug)]
pub(super) struct SlcCache {
    shape: SlcShape,
    segment_units: u64,
    segments: VecDeque<Segment>,
    /// Number of the first segment.
    first: u32,
    places: Vec<Cached>,
    /// Groups that are in a segment.
    held: Bits,
    /// Groups in the cache whose older copy outside is no longer valid.
    shadowed: u64,
    occupied: u64,
    /// Of segments that are being folded: data that no row has taken yet, and room that comes free with it.
    data_left: u64,
    room_left: u64,
    cached: u64,
    folded: u64,
}

impl SlcCache {
    pub(super) fn new(shape: SlcShape) -> Self {
        let size = shape.static_units + shape.dynamic_units;
        Self {
            shape,
            segment_units: (size / SEGMENTS).max(1),
            segments: VecDeque::from([Segment::default()]),
            first: 0,
            places: vec![Cached { segment: NOWHERE, shadows: false }; shape.groups as usize],
            held: Bits::new(shape.groups as usize, false),
            shadowed: 0,
            occupied: 0,
            data_left: 0,
            room_left: 0,
            cached: 0,
            folded: 0,
        }
    }

    /// Fills it with data of the first `groups` groups of `translation`, as writes at random up to this moment leave it.
    pub(super) fn fill_up(&mut self, translation: &mut Translation, groups: u64, seed: u64) {
        let (mut draw, units) = (Draw::new(seed), self.shape.group_units);
        while groups > 0 && self.has_room(units, translation.mapped_units()) {
            let group = draw.below(groups) as u32;
            let was_outside = translation.forget(group);
            self.put(Some(group), was_outside);
            (1..units).for_each(|_| self.put(None, false));
        }
        self.cached = 0;
    }

    /// Units that it may hold while `mapped` units of the drive are outside of it.
    fn allowed(&self, mapped: u64) -> u64 {
        let SlcShape { static_units, dynamic_units, until_units, bits, group_units, .. } = self.shape;
        let outside = mapped + self.shadowed * group_units;
        static_units + dynamic_units.min(until_units.saturating_sub(outside) / bits)
    }

    /// Whether `units` more fit in.
    pub(super) fn has_room(&self, units: u64, mapped: u64) -> bool {
        self.occupied + units <= self.allowed(mapped)
    }

    /// Units that it holds beyond what it may.
    pub(super) fn excess(&self, mapped: u64) -> u64 {
        self.occupied.saturating_sub(self.allowed(mapped))
    }

    /// Whether it holds nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Whether the newest data of `group` are here, as far as its followed unit tells.
    #[inline]
    pub(super) fn holds(&self, group: u32) -> bool {
        self.held.has(group as usize)
    }

    /// Takes in that a unit is written here; `followed` is its group if it is the one that is followed, and `was_outside` says
    /// whether that had data outside.
    pub(super) fn put(&mut self, followed: Option<u32>, was_outside: bool) {
        if let Some(group) = followed {
            let shadows = self.forget(group) || was_outside;
            let last = self.segments.len() - 1;
            self.places[group as usize] = Cached { segment: self.first.wrapping_add(last as u32), shadows };
            self.held.put(group as usize, true);
            self.shadowed += u64::from(shadows);
            self.segments[last].followed.push(group);
            self.segments[last].valid += 1;
        }
        self.cached += 1;
        self.fill(1);
    }

    /// Takes in that room for `units` was used up without data.
    pub(super) fn pad(&mut self, units: u64) {
        self.segments.back_mut().expect("there is an open segment").padded += units;
        self.fill(units);
    }

    fn fill(&mut self, units: u64) {
        self.occupied += units;
        let open = self.segments.back_mut().expect("there is an open segment");
        open.filled += units;
        if open.filled >= self.segment_units {
            self.segments.push_back(Segment::default());
        }
    }

    /// Takes in that the data of a followed group are no longer here; whether flash outside held it before.
    pub(super) fn forget(&mut self, group: u32) -> bool {
        let Cached { segment, shadows } = self.places[group as usize];
        if segment == NOWHERE {
            return false;
        }
        self.places[group as usize] = Cached { segment: NOWHERE, shadows: false };
        self.held.put(group as usize, false);
        self.shadowed -= u64::from(shadows);
        self.segments[segment.wrapping_sub(self.first) as usize].valid -= 1;
        shadows
    }

    /// Takes up to `row` units out, to be programmed in one row: how many they are, and what of segments that this begins
    /// goes to the translation layer.
    pub(super) fn fold_row(&mut self, row: u64) -> (u64, Folded) {
        let mut begun = Folded::default();
        while self.data_left < row && self.occupied > self.room_left {
            self.begin_segment(&mut begun);
        }
        let taken = row.min(self.data_left);
        let freed = match self.data_left {
            0 => self.room_left,
            data => (u128::from(self.room_left) * u128::from(taken) / u128::from(data)) as u64,
        };
        self.data_left -= taken;
        let freed = if self.data_left == 0 { self.room_left } else { freed };
        self.room_left -= freed;
        self.occupied -= freed;
        (taken, begun)
    }

    fn begin_segment(&mut self, begun: &mut Folded) {
        let segment = self.segments.pop_front().expect("there is always one");
        let number = self.first;
        self.first = self.first.wrapping_add(1);
        if self.segments.is_empty() {
            self.segments.push_back(Segment::default());
        }
        let before = begun.groups.len();
        for group in &segment.followed {
            let place = &mut self.places[*group as usize];
            if place.segment == number {
                self.shadowed -= u64::from(place.shadows);
                *place = Cached { segment: NOWHERE, shadows: false };
                self.held.put(*group as usize, false);
                begun.groups.push(*group);
            }
        }
        let data = segment.filled - segment.padded;
        let valid = (begun.groups.len() - before) as u64;
        let of_data = (data * valid).checked_div(segment.followed.len() as u64).unwrap_or(data);
        begun.units += of_data;
        self.folded += of_data;
        self.data_left += of_data;
        self.room_left += segment.filled;
    }

    /// Share of what is being folded that is data.
    pub(super) fn valid_share(&self) -> f64 {
        if self.room_left == 0 { 1.0 } else { self.data_left as f64 / self.room_left as f64 }
    }

    /// Units written here for the host, and units handed on to be folded.
    pub(super) fn written(&self) -> (u64, u64) {
        (self.cached, self.folded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::random::Draw;
    use std::collections::BTreeSet;

    const SHAPE: SlcShape = SlcShape {
        static_units: 64,
        dynamic_units: 300,
        until_units: 800,
        bits: 4,
        groups: 1000,
        group_units: 1,
    };

    /// With each unit followed the cache is exact: nothing is lost, nothing is folded twice, and room comes back.
    #[test]
    fn what_is_put_is_folded_once_or_forgotten() {
        let (mut cache, mut draw) = (SlcCache::new(SHAPE), Draw::new(4));
        let (mut inside, mut moved) = (BTreeSet::new(), 0);
        for step in 0..20_000 {
            let group = draw.below(1000) as u32;
            match draw.below(3) {
                0 if cache.has_room(1, 0) => {
                    cache.put(Some(group), draw.below(2) == 0);
                    inside.insert(group);
                }
                1 => {
                    cache.forget(group);
                    inside.remove(&group);
                }
                _ => {
                    let (taken, begun) = cache.fold_row(draw.below(9) + 1);
                    for group in begun.groups {
                        assert!(inside.remove(&group), "{group} is folded twice at step {step}");
                    }
                    moved += taken;
                }
            }
            assert!((0..1000).all(|group| cache.holds(group) == inside.contains(&group)), "step {step}");
            assert!(cache.occupied >= inside.len() as u64);
            assert!(cache.occupied <= 364);
        }
        while !cache.is_empty() {
            moved += cache.fold_row(8).0;
        }
        assert!((0..1000).all(|group| !cache.holds(group)));
        assert_eq!(cache.written().1, moved);
        assert!(cache.written().0 >= moved);
    }

    #[test]
    fn what_is_borrowed_shrinks_while_the_drive_fills() {
        let mut cache = SlcCache::new(SHAPE);
        // 800 units may hold data, and each borrows 4: 200 fit in, not 300.
        for (mapped, most) in [(0, 264), (400, 164), (796, 65), (800, 64), (1000, 64)] {
            assert!(cache.has_room(most, mapped), "{mapped} mapped");
            assert!(!cache.has_room(most + 1, mapped), "{mapped} mapped");
        }
        // Data that was outside before it was written here frees no flash that could be borrowed.
        (0..100).for_each(|group| cache.put(Some(group), true));
        assert_eq!(cache.excess(700), 100 - 64);
    }
}
