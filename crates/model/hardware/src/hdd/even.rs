//! The layout computed from a data sheet: the place of a sector, and the distance of two.
//!
//! Tracks of a zone are equally long; the number of sectors per track falls in equal steps from the outermost zone to
//! the innermost. Sectors are counted along a track, then head by head down a cylinder, then inwards. Each track starts
//! a skew later in the rotation than the one before it, so that a head switch or a seek to the next cylinder does not
//! lose a rotation.
//!
//! ```text
//!   turn position of a sector:   cylinder * (turns per cylinder) + head * (1 + head skew) + sector / sectors per track
//!                                 \____________________________ 32.32 fixed point ______________________________/
//!   its low 32 bits: the angle at which the sector starts;   the difference of two: turns for all between them to pass
//! ```
//!
//! So reading `n` sectors takes `turn(last) + one sector - turn(first)`, track changes included, and the number of
//! sectors that pass in some time is the same formula backwards ([`EvenLayout::sector_at`]).
//!
//! Sectors per track follow from the sustained rates of the data sheet, which include the skews. Left out: spare
//! sectors and tracks, and serpentine numbering along one surface, which shortens track changes a little.

use super::geometry::{Around, GeometryError, Place, TURN};
use super::model::DataSheet;
use crate::drive::{SECTOR_BYTES, Sector, SectorCount};
use raidlab_units::NanoSpan;
use std::sync::Arc;

/// What a skew has more than the time to change over, in turns: estimated, as skews are not published.
pub(super) const SKEW_MARGIN_TURNS: f64 = 0.02;

#[derive(Clone, Copy, Debug)]
struct Zone {
    first_sector: u64,
    first_cylinder: u32,
    sectors_per_track: u32,
    sectors_per_cylinder: u32,
    /// One sector in 2^-48 turns: 16 bits more than a position, so that a track's worth of them adds up.
    sector_turn_q48: u64,
}

/// The layout of sectors on the platters. Copies share its tables, which every request reads.
#[derive(Clone, Debug)]
pub(crate) struct EvenLayout {
    zones: Arc<[Zone]>,
    /// Zone of the first sector of each stretch of `1 << hint_shift` sectors.
    zone_hints: Arc<[u16]>,
    hint_shift: u32,
    cylinders_per_zone: u32,
    cylinders: u32,
    heads: u32,
    /// From the start of one track to the start of the next head's.
    head_turn: u64,
    /// From the start of one cylinder to the start of the next.
    cylinder_turn: u64,
}

impl EvenLayout {
    /// Lays out `capacity` sectors.
    pub(crate) fn new(mechanics: &DataSheet, capacity: SectorCount) -> Result<Self, GeometryError> {
        check(mechanics)?;
        let ns_per_turn = 60e9 / f64::from(mechanics.rpm);
        let skew = Skew::new(mechanics, ns_per_turn);
        let heads = u64::from(mechanics.heads);
        let cylinder_turn = heads * TURN + (heads - 1) * skew.head + skew.cylinder;
        let tracks = sectors_per_track(mechanics, cylinder_turn as f64 / TURN as f64 * ns_per_turn);
        let sectors_of_one_each = heads * tracks.iter().map(|sectors| u64::from(*sectors)).sum::<u64>();
        let per_zone = capacity.0.div_ceil(sectors_of_one_each);
        let cylinders = per_zone * tracks.len() as u64;
        if cylinders > 8_000_000 {
            return Err(GeometryError::Cylinders { sectors: capacity.0, cylinders });
        }
        let outermost = heads * per_zone * u64::from(tracks[0]);
        if outermost > u64::from(u32::MAX) {
            return Err(GeometryError::ZoneTooLarge { zones: mechanics.zones, sectors: outermost });
        }
        let mut geometry = Self {
            zones: zones(&tracks, mechanics.heads, per_zone as u32).into(),
            zone_hints: Arc::default(),
            hint_shift: 0,
            cylinders_per_zone: per_zone as u32,
            cylinders: cylinders as u32,
            heads: mechanics.heads,
            head_turn: TURN + skew.head,
            cylinder_turn,
        };
        geometry.index_zones(capacity);
        geometry.cylinders = geometry.place(Sector(capacity.0 - 1)).cylinder + 1;
        if geometry.cylinders < 3 {
            return Err(GeometryError::Cylinders {
                sectors: capacity.0,
                cylinders: geometry.cylinders.into(),
            });
        }
        Ok(geometry)
    }

    /// Fills the table that finds a sector's zone in one step or two.
    fn index_zones(&mut self, capacity: SectorCount) {
        const STRETCHES: u64 = 1024;
        self.hint_shift = (capacity.0 / STRETCHES).max(1).ilog2();
        self.zone_hints = (0..=capacity.0 >> self.hint_shift)
            .map(|stretch| {
                let first = stretch << self.hint_shift;
                (self.zones.partition_point(|zone| zone.first_sector <= first) - 1) as u16
            })
            .collect();
    }

    /// Cylinders in use.
    pub(crate) fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// See [`super::geometry::Geometry::place`].
    #[inline]
    pub(crate) fn place(&self, sector: Sector) -> Place {
        let mut index = self.zone_hints[(sector.0 >> self.hint_shift) as usize] as usize;
        while self.zones.get(index + 1).is_some_and(|next| next.first_sector <= sector.0) {
            index += 1;
        }
        let zone = &self.zones[index];
        // A zone holds fewer than 2^32 sectors (refused otherwise when laid out), so that these divisions are short.
        let in_zone = (sector.0 - zone.first_sector) as u32;
        let cylinder_in_zone = in_zone / zone.sectors_per_cylinder;
        let in_cylinder = in_zone - cylinder_in_zone * zone.sectors_per_cylinder;
        let head = in_cylinder / zone.sectors_per_track;
        let on_track = in_cylinder - head * zone.sectors_per_track;
        let cylinder = zone.first_cylinder + cylinder_in_zone;
        let track_turn = u64::from(cylinder) * self.cylinder_turn + u64::from(head) * self.head_turn;
        Place {
            cylinder,
            head,
            turn: track_turn + ((u64::from(on_track) * zone.sector_turn_q48) >> 16),
            sector_turn: zone.sector_turn_q48 >> 16,
            left_on_track: zone.sectors_per_track - on_track,
        }
    }

    /// Turns from the start of the first sector, which is at `first`, until `sectors` have passed, track changes
    /// included; and the cylinder and head of the last one.
    #[inline]
    pub(crate) fn pass(&self, first: &Place, start: Sector, sectors: SectorCount) -> (u64, u32, u32) {
        if sectors.0 <= u64::from(first.left_on_track) {
            return (first.sector_turn * sectors.0, first.cylinder, first.head);
        }
        let last = self.place(Sector(start.0 + sectors.0 - 1));
        (last.turn + last.sector_turn - first.turn, last.cylinder, last.head)
    }

    /// The end of the track, or of the cylinder, that holds `sector`.
    pub(crate) fn end_around(&self, sector: Sector, around: Around) -> u64 {
        let place = self.place(sector);
        let track_end = sector.0 + u64::from(place.left_on_track);
        match around {
            Around::Track => track_end,
            Around::Cylinder => {
                let zone = &self.zones[(place.cylinder / self.cylinders_per_zone) as usize];
                track_end + u64::from((self.heads - 1 - place.head) * zone.sectors_per_track)
            }
        }
    }

    /// The first sector of the track that holds `sector`.
    pub(crate) fn track_start(&self, sector: Sector) -> u64 {
        let place = self.place(sector);
        let zone = &self.zones[(place.cylinder / self.cylinders_per_zone) as usize];
        sector.0 + u64::from(place.left_on_track) - u64::from(zone.sectors_per_track)
    }

    /// The first sector that is not wholly past at the turn position `turn`, and its cylinder and head.
    pub(crate) fn sector_at(&self, turn: u64) -> (Sector, u32, u32) {
        let cylinder = ((turn / self.cylinder_turn) as u32).min(self.cylinders - 1);
        let in_cylinder = turn - u64::from(cylinder) * self.cylinder_turn;
        let head = ((in_cylinder / self.head_turn) as u32).min(self.heads - 1);
        let on_track = in_cylinder - u64::from(head) * self.head_turn;
        let zone = &self.zones[(cylinder / self.cylinders_per_zone) as usize];
        // Past the last sector lies the skew; the head is then waiting for the next track's first sector.
        let sector = (on_track << 16) / zone.sector_turn_q48;
        let in_zone = u64::from(cylinder - zone.first_cylinder) * u64::from(zone.sectors_per_cylinder)
            + u64::from(head) * u64::from(zone.sectors_per_track)
            + sector.min(u64::from(zone.sectors_per_track));
        (Sector(zone.first_sector + in_zone), cylinder, head)
    }
}

/// How much later each track starts, in 2^-32 turns.
struct Skew {
    head: u64,
    cylinder: u64,
}

impl Skew {
    /// A skew is the longest change-over plus a margin that makes it safe.
    fn new(mechanics: &DataSheet, ns_per_turn: f64) -> Self {
        let turn_of =
            |change: NanoSpan| ((change.0 as f64 / ns_per_turn + SKEW_MARGIN_TURNS) * TURN as f64) as u64;
        let single = mechanics.seek_read.single_track.max(mechanics.seek_write.single_track);
        Self { head: turn_of(mechanics.head_switch), cylinder: turn_of(single.max(mechanics.head_switch)) }
    }
}

fn check(mechanics: &DataSheet) -> Result<(), GeometryError> {
    let counts = [
        ("rpm", mechanics.rpm, 1000, 50_000),
        ("heads", mechanics.heads, 1, 64),
        ("zones", mechanics.zones, 1, 1000),
    ];
    if let Some((figure, _, least, most)) =
        counts.into_iter().find(|(_, count, least, most)| !(*least..=*most).contains(count))
    {
        return Err(GeometryError::Count { figure, least, most });
    }
    if mechanics.inner_rate.0 > mechanics.outer_rate.0 {
        return Err(GeometryError::InnerFaster { inner: mechanics.inner_rate, outer: mechanics.outer_rate });
    }
    Ok(())
}

/// Sectors per track of each zone, from outer to inner; `cylinder_ns` is the time to read one cylinder.
fn sectors_per_track(mechanics: &DataSheet, cylinder_ns: f64) -> Vec<u32> {
    let (outer, inner) = (mechanics.outer_rate.0, mechanics.inner_rate.0);
    let steps = f64::from((mechanics.zones - 1).max(1));
    (0..mechanics.zones)
        .map(|zone| {
            let rate = outer + (inner - outer) * f64::from(zone) / steps;
            let bytes_per_cylinder = rate * cylinder_ns / 1e9;
            ((bytes_per_cylinder / f64::from(mechanics.heads) / SECTOR_BYTES as f64).round() as u32).max(1)
        })
        .collect()
}

fn zones(tracks: &[u32], heads: u32, cylinders_per_zone: u32) -> Vec<Zone> {
    let mut first_sector = 0;
    let mut zones = Vec::with_capacity(tracks.len());
    for (index, sectors_per_track) in tracks.iter().copied().enumerate() {
        let sectors_per_cylinder = sectors_per_track * heads;
        let sectors = u64::from(sectors_per_cylinder) * u64::from(cylinders_per_zone);
        zones.push(Zone {
            first_sector,
            first_cylinder: index as u32 * cylinders_per_zone,
            sectors_per_track,
            sectors_per_cylinder,
            sector_turn_q48: (1 << 48) / u64::from(sectors_per_track),
        });
        first_sector += sectors;
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::super::fixture::cheetah;
    use super::*;
    use proptest::prelude::*;

    /// Counts through zones, cylinders and tracks one by one.
    fn slow_place(geometry: &EvenLayout, sector: u64) -> (u32, u32, u64) {
        let (mut left, mut cylinder) = (sector, 0);
        for zone in geometry.zones.iter() {
            for _ in 0..geometry.cylinders_per_zone {
                for head in 0..geometry.heads {
                    if left < u64::from(zone.sectors_per_track) {
                        return (cylinder, head, left);
                    }
                    left -= u64::from(zone.sectors_per_track);
                }
                cylinder += 1;
            }
        }
        panic!("sector {sector} is past the end");
    }

    fn geometry() -> (EvenLayout, u64) {
        let (model, capacity) = cheetah();
        (
            EvenLayout::new(model.mechanics.data_sheet().expect("in the catalogue"), capacity)
                .expect("sound"),
            capacity.0,
        )
    }

    #[test]
    fn places_equal_plain_counting() {
        let (geometry, capacity) = geometry();
        for sector in [0, 1, 1595, 1600, 12_000, 12_800, capacity / 3, capacity - 1] {
            let (cylinder, head, on_track) = slow_place(&geometry, sector);
            let place = geometry.place(Sector(sector));
            assert_eq!((place.cylinder, place.head), (cylinder, head), "sector {sector}");
            let zone = &geometry.zones[(cylinder / geometry.cylinders_per_zone) as usize];
            assert_eq!(u64::from(zone.sectors_per_track - place.left_on_track), on_track, "sector {sector}");
        }
        assert_eq!(geometry.place(Sector(capacity - 1)).cylinder, geometry.cylinders() - 1);
    }

    proptest! {
        #[test]
        fn runs_of_sectors_take_the_time_of_their_tracks_and_skews(start in 0u64..1_172_000_000, sectors in 1u64..20_000) {
            let (geometry, _) = geometry();
            let place = geometry.place(Sector(start));
            let (turns, cylinder, head) = geometry.pass(&place, Sector(start), SectorCount(sectors));
            let end = geometry.place(Sector(start + sectors - 1));
            prop_assert_eq!((cylinder, head), (end.cylinder, end.head));
            // Sector by sector: each takes its own time, and each change of track the skew on top.
            let mut sum = 0;
            let mut before = place;
            for sector in start..start + sectors {
                let here = geometry.place(Sector(sector));
                if here.head != before.head {
                    let skew = if here.head == 0 {
                        geometry.cylinder_turn - (u64::from(geometry.heads) - 1) * geometry.head_turn - TURN
                    } else {
                        geometry.head_turn - TURN
                    };
                    sum += skew;
                }
                sum += here.sector_turn;
                before = here;
            }
            // Each track's sectors add up to a turn less the rounding of one sector times their number.
            prop_assert!(turns.abs_diff(sum) <= sectors + 4096, "{turns} is not {sum}");
        }

        #[test]
        fn sector_at_is_the_inverse_of_place(sector in 0u64..1_172_123_567, part in 0u64..100) {
            let (geometry, _) = geometry();
            let place = geometry.place(Sector(sector));
            // A few units inside the sector: its two ends are rounded.
            let inside = place.turn + 2 + (place.sector_turn - 4) * part / 100;
            prop_assert_eq!(geometry.sector_at(inside), (Sector(sector), place.cylinder, place.head));
        }
    }
}
