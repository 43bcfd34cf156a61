//! The layout of a drive with known tracks: a table instead of a formula.
//!
//! An [`Extent`] is a run of consecutive sectors that pass under one head without a gap. A track without defects is one
//! extent; a slipped sector splits it; a moved sector is a separate extent. A run of sectors is followed extent by
//! extent:
//!
//! ```text
//!   head 3  ..|12|13|14|15|            end of an extent
//!   head 4                 <- change ->|wait|16|17|18|..      a head switch or a seek, then the next extent comes round
//! ```
//!
//! So slips, spare sectors, moved sectors, and skews that are too short for the change all cost their real time.
//!
//! Invariant: extents are in order of their sectors, none is empty, and each begins where the one before it ends.
//! Source of the idea: Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters", 1995.

use super::geometry::{Around, Place, Spindle, TURN};
use super::model::MeasuredMechanics;
use crate::drive::{Sector, SectorCount};
use raidlab_units::NanoSpan;
use std::sync::Arc;

/// What rounding of angles may add up to along one track, in 2^-32 turns: 10 microseconds at most.
const CATCH_TURNS: u32 = 1 << 12;

/// A run of consecutive sectors on one track, without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first sector.
    pub first: Sector,
    /// How many there are; at least one.
    pub sectors: u32,
    /// Cylinder, counted from the outermost.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// Angle at which the first sector begins, in 2^-32 turns.
    pub angle: u32,
    /// Sectors that a turn of this track has room for.
    pub sectors_per_turn: u32,
}

/// Why extents are no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackTableError {
    /// Nothing.
    #[error("a drive must have sectors")]
    Empty,
    /// The extents are not one run of sectors.
    #[error("sector {expected} should come next, not an extent that begins at {found}")]
    Gap {
        /// First sector not yet placed.
        expected: u64,
        /// Where the next extent begins.
        found: u64,
    },
    /// No sectors, more than a turn of them, or a turn of none.
    #[error("at sector {first}: {sectors} sectors on a track of {sectors_per_turn}")]
    BadExtent {
        /// Its first sector.
        first: u64,
        /// Its length.
        sectors: u32,
        /// Room on its track.
        sectors_per_turn: u32,
    },
}

/// The extents of a whole drive, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackTable {
    extents: Vec<Extent>,
}

impl TrackTable {
    /// The table of these extents, which must cover all sectors from the first on, in order.
    ///
    /// # Errors
    /// [`TrackTableError`] names the first extent that does not fit.
    pub fn new(extents: Vec<Extent>) -> Result<Self, TrackTableError> {
        let mut expected = 0;
        for extent in &extents {
            if extent.first.0 != expected {
                return Err(TrackTableError::Gap { expected, found: extent.first.0 });
            }
            if extent.sectors == 0 || extent.sectors > extent.sectors_per_turn {
                return Err(TrackTableError::BadExtent {
                    first: expected,
                    sectors: extent.sectors,
                    sectors_per_turn: extent.sectors_per_turn,
                });
            }
            expected += u64::from(extent.sectors);
        }
        if expected == 0 { Err(TrackTableError::Empty) } else { Ok(Self { extents }) }
    }

    /// All extents, in order of their sectors.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Sectors of the drive.
    #[expect(clippy::missing_panics_doc, reason = "a table is not empty")]
    pub fn capacity(&self) -> SectorCount {
        let last = self.extents.last().expect("a table is not empty");
        SectorCount(last.first.0 + u64::from(last.sectors))
    }

    /// The extent that holds `sector`, which must be on the drive.
    pub fn locate(&self, sector: Sector) -> &Extent {
        &self.extents[self.index(sector)]
    }

    fn index(&self, sector: Sector) -> usize {
        self.extents.partition_point(|extent| extent.first <= sector) - 1
    }
}

impl Extent {
    fn end(&self) -> u64 {
        self.first.0 + u64::from(self.sectors)
    }

    fn is_on_track_of(&self, other: &Self) -> bool {
        (self.cylinder, self.head) == (other.cylinder, other.head)
    }

    fn sector_turn(&self) -> u64 {
        TURN / u64::from(self.sectors_per_turn)
    }

    /// Turns that `sectors` of it take; computed at once, so that their rounding does not add up.
    fn turns(&self, sectors: u64) -> u64 {
        TURN * sectors / u64::from(self.sectors_per_turn)
    }
}

/// A table, and what it takes to get from extent to extent.
#[derive(Clone, Debug)]
pub(crate) struct TrackLayout {
    table: Arc<TrackTable>,
    cylinders: u32,
    /// By distance in cylinders, in 2^-32 turns.
    seek: Arc<[u64]>,
    head_switch: u64,
    /// What a write takes more after a change, or less.
    write_settle: i64,
}

/// A head that reads or writes on, from extent to extent.
struct Pass<'a> {
    layout: &'a TrackLayout,
    index: usize,
    /// The next sector, and turns from the start of the run to it.
    sector: u64,
    turns: u64,
    /// The angle of it.
    angle: u32,
}

impl TrackLayout {
    pub(crate) fn new(measured: &MeasuredMechanics, spindle: Spindle) -> Self {
        let settle = spindle.turns_in(NanoSpan(measured.write_settle_ns.unsigned_abs())).cast_signed();
        Self {
            table: Arc::clone(&measured.tracks),
            cylinders: measured.tracks.extents.iter().map(|extent| extent.cylinder).max().unwrap_or(0) + 1,
            seek: measured.seek.iter().map(|span| spindle.turns_in(*span)).collect(),
            head_switch: spindle.turns_in(measured.head_switch),
            write_settle: settle * measured.write_settle_ns.signum(),
        }
    }

    pub(crate) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    pub(crate) fn place(&self, sector: Sector) -> Place {
        let extent = self.table.locate(sector);
        let before = sector.0 - extent.first.0;
        Place {
            cylinder: extent.cylinder,
            head: extent.head,
            turn: (u64::from(extent.angle) + extent.turns(before)) % TURN,
            sector_turn: extent.sector_turn(),
            left_on_track: extent.sectors - before as u32,
        }
    }

    pub(crate) fn pass(
        &self,
        first: &Place,
        start: Sector,
        sectors: SectorCount,
        write: bool,
    ) -> (u64, u32, u32) {
        let mut pass = self.begin(first, start);
        let end = start.0 + sectors.0;
        loop {
            let extent = pass.extent();
            if end <= extent.end() {
                pass.read_to(end);
                return (pass.turns, extent.cylinder, extent.head);
            }
            pass.read_to(extent.end());
            pass.change(write);
        }
    }

    pub(crate) fn reached(&self, first: &Place, from: Sector, turns: u64) -> (Sector, u32, u32) {
        let mut pass = self.begin(first, from);
        loop {
            let extent = pass.extent();
            let left = extent.end() - pass.sector;
            let fits = turns.saturating_sub(pass.turns) / extent.sector_turn();
            if fits < left || pass.index + 1 == self.table.extents.len() {
                return (Sector(pass.sector + fits.min(left)), extent.cylinder, extent.head);
            }
            pass.read_to(extent.end());
            pass.change(false);
        }
    }

    /// The end of the track, or of the cylinder, that holds `sector`: where the sectors leave it first.
    pub(crate) fn end_around(&self, sector: Sector, around: Around) -> u64 {
        let first = self.table.index(sector);
        let here = &self.table.extents[first];
        let is_inside = |extent: &&Extent| match around {
            Around::Track => extent.is_on_track_of(here),
            Around::Cylinder => extent.cylinder == here.cylinder,
        };
        self.table.extents[first..].iter().take_while(is_inside).last().map_or(sector.0 + 1, Extent::end)
    }

    /// The first sector of the run of sectors, on the track that holds `sector`, that it is in.
    pub(crate) fn track_start(&self, sector: Sector) -> u64 {
        let here = self.table.index(sector);
        let extents = &self.table.extents[..=here];
        let is_inside = |extent: &&Extent| extent.is_on_track_of(&extents[here]);
        extents.iter().rev().take_while(is_inside).last().map_or(sector.0, |extent| extent.first.0)
    }

    fn begin(&self, first: &Place, start: Sector) -> Pass<'_> {
        Pass {
            layout: self,
            index: self.table.index(start),
            sector: start.0,
            turns: 0,
            angle: first.turn as u32,
        }
    }

    /// Turns for the arm to get from one extent to another track.
    fn change_turns(&self, from: &Extent, to: &Extent, write: bool) -> u64 {
        let distance = from.cylinder.abs_diff(to.cylinder) as usize;
        let switch = if from.head == to.head { 0 } else { self.head_switch };
        let moved = self.seek[distance.min(self.seek.len() - 1)].max(switch);
        moved.saturating_add_signed(if write { self.write_settle } else { 0 })
    }
}

impl<'a> Pass<'a> {
    fn extent(&self) -> &'a Extent {
        &self.layout.table.extents[self.index]
    }

    fn read_to(&mut self, end: u64) {
        let turns = self.extent().turns(end - self.sector);
        self.sector = end;
        self.advance(turns);
    }

    /// Goes on to the next extent, and waits until its first sector comes round.
    fn change(&mut self, write: bool) {
        let (from, to) = (self.extent(), &self.layout.table.extents[self.index + 1]);
        if !from.is_on_track_of(to) {
            let change = self.layout.change_turns(from, to, write);
            self.advance(change);
        }
        let ahead = to.angle.wrapping_sub(self.angle);
        if ahead.wrapping_neg() > CATCH_TURNS {
            self.advance(u64::from(ahead));
        }
        self.angle = to.angle;
        self.index += 1;
    }

    fn advance(&mut self, turns: u64) {
        self.turns += turns;
        self.angle = self.angle.wrapping_add(turns as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADS: u32 = 3;
    const PER_TRACK: u32 = 16;

    /// Tracks of 16 sectors; of some only a part holds blocks, in two pieces.
    fn drive(skew: u32, gaps: &[(u32, u32)], head_switch_us: u64) -> TrackLayout {
        let mut extents: Vec<Extent> = Vec::new();
        for (track, (gap, width)) in (0u32..).zip(gaps) {
            let pieces = [(0, *gap), (gap + width, PER_TRACK.saturating_sub(gap + width))];
            for (sector, sectors) in pieces.into_iter().filter(|(_, sectors)| *sectors > 0) {
                let first = extents.last().map_or(0, Extent::end);
                let angle = u64::from(track * skew + sector) * TURN / u64::from(PER_TRACK);
                extents.push(Extent {
                    first: Sector(first),
                    sectors,
                    cylinder: track / HEADS,
                    head: track % HEADS,
                    angle: angle as u32,
                    sectors_per_turn: PER_TRACK,
                });
            }
        }
        let measured = MeasuredMechanics {
            rpm: 6000.0,
            tracks: Arc::new(TrackTable::new(extents).expect("contiguous")),
            seek: [0, 1100, 1500, 1800].map(NanoSpan::from_micros).into(),
            head_switch: NanoSpan::from_micros(head_switch_us),
            settle_in_place_read: NanoSpan(0),
            settle_in_place_write: NanoSpan(0),
            write_settle_ns: 300_000,
        };
        TrackLayout::new(&measured, Spindle::new(measured.rpm))
    }

    /// Turns from the start of `start` until the sector before `end` has passed, a sector at a time, in floating point.
    fn slow_turns(layout: &TrackLayout, start: u64, end: u64, write: bool, head_switch_us: u64) -> f64 {
        let whole = |turns: u64| turns as f64 / TURN as f64;
        let place = |sector: u64| layout.place(Sector(sector));
        let (mut turns, mut angle) = (0.0, whole(place(start).turn));
        let mut before = place(start);
        for sector in start..end {
            let here = place(sector);
            if (here.cylinder, here.head) != (before.cylinder, before.head) {
                let seek = [0.0, 0.11, 0.15, 0.18][here.cylinder.abs_diff(before.cylinder) as usize];
                let switch = if here.head == before.head { 0.0 } else { head_switch_us as f64 / 10_000.0 };
                let change = f64::max(seek, switch) + if write { 0.03 } else { 0.0 };
                (turns, angle) = (turns + change, angle + change);
            }
            let wait = (whole(here.turn) - angle).rem_euclid(1.0);
            let wait = if wait > 0.9999 { 0.0 } else { wait };
            turns += wait + 1.0 / f64::from(PER_TRACK);
            angle = whole(here.turn) + 1.0 / f64::from(PER_TRACK);
            before = here;
        }
        turns
    }

    proptest! {
        #[test]
        fn a_run_takes_what_its_sectors_and_changes_take(
            skew in 0u32..6,
            gaps in prop::collection::vec((0u32..16, 0u32..3), 12),
            head_switch_us in 300u64..900,
            run in (0.0f64..1.0, 0.0f64..1.0),
            write in any::<bool>(),
        ) {
            let layout = drive(skew, &gaps, head_switch_us);
            let capacity = layout.table.capacity().0;
            let start = ((capacity as f64 * run.0) as u64).min(capacity - 1);
            let end = (start + 1 + (60.0 * run.1) as u64).min(capacity);
            let first = layout.place(Sector(start));
            let (turns, cylinder, head) = layout.pass(&first, Sector(start), SectorCount(end - start), write);
            let last = layout.place(Sector(end - 1));
            prop_assert_eq!((cylinder, head), (last.cylinder, last.head));
            let slow = slow_turns(&layout, start, end, write, head_switch_us);
            // A change that ends just when the sector comes may be judged either way: a turn apart.
            let apart = (turns as f64 / TURN as f64 - slow).abs();
            let judged = (apart - apart.round()).abs();
            let on_edge = head_switch_us.is_multiple_of(625) || skew == 0;
            prop_assert!(apart < 1e-3 || (on_edge && judged < 1e-3), "{turns} is not {slow} turns");
        }

        #[test]
        fn reached_is_the_inverse_of_pass(
            skew in 0u32..6,
            gaps in prop::collection::vec((0u32..16, 0u32..3), 12),
            run in (0.0f64..1.0, 0.0f64..1.0),
            part in 1u64..99,
        ) {
            let layout = drive(skew, &gaps, 700);
            let capacity = layout.table.capacity().0;
            let start = ((capacity as f64 * run.0) as u64).min(capacity - 1);
            let sector = (start + (60.0 * run.1) as u64).min(capacity - 1);
            let (first, place) = (layout.place(Sector(start)), layout.place(Sector(sector)));
            let (end, ..) = layout.pass(&first, Sector(start), SectorCount(sector + 1 - start), false);
            // A little inside of the sector, whose ends are rounded.
            let inside = end - place.sector_turn * part / 100;
            let (got, cylinder, head) = layout.reached(&first, Sector(start), inside);
            prop_assert_eq!((got, cylinder, head), (Sector(sector), place.cylinder, place.head));
        }
    }

    #[test]
    fn tables_with_gaps_or_without_sectors_are_refused() {
        let extent = |first, sectors| Extent {
            first: Sector(first),
            sectors,
            cylinder: 0,
            head: 0,
            angle: 0,
            sectors_per_turn: PER_TRACK,
        };
        assert_eq!(TrackTable::new(vec![]), Err(TrackTableError::Empty));
        let gap = TrackTable::new(vec![extent(0, 4), extent(5, 4)]);
        assert_eq!(gap, Err(TrackTableError::Gap { expected: 4, found: 5 }));
        for sectors in [0, PER_TRACK + 1] {
            let bad = TrackTable::new(vec![extent(0, sectors)]);
            assert!(matches!(bad, Err(TrackTableError::BadExtent { first: 0, .. })), "{sectors} sectors");
        }
    }
}
