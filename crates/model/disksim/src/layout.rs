//! Where every sector is, from a `dm_layout_g1` block: zones of equally long tracks. The other layouts are in [`g2`] and
//! [`g4`].
//!
//! The places of a zone are numbered along its tracks, head by head, cylinder by cylinder. Blocks take these places in
//! order, except for a management area at the front, spare places at the end (or front) of every *region*, and places
//! that are *slipped* over. A block can also be *moved* to another place of its zone.
//!
//! ```text
//!   region (a track, cylinder, range of cylinders or zone):   |0|1|2|x|3|4|..|n|  s  s  |      x slipped, s spare
//!   slips use up the spares of their region, or push all blocks after them on, depending on the scheme
//! ```
//!
//! Track by track the first place begins a skew later in the rotation. In the schemes with spares per track or per
//! cylinder, a slip also shifts everything behind its region by its own width, as in the original.
//!
//! Invariant: the extents are in order of the blocks and leave none out. Left out: slips and moves across zones, which
//! the format can't express.

mod g2;
mod g4;

pub(crate) use g2::layout_g2;
pub(crate) use g4::layout_g4;

use crate::error::ImportError;
use crate::fields::{Fields, Unused};
use crate::syntax::{Block, Value};
use raidlab_hardware::{Extent, Sector};
use std::collections::BTreeMap;

/// More tracks than any drive of the format's time has; what is beyond would only exhaust the memory.
const TRACKS_MAX: u64 = 4_000_000;

/// Where spare places are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    Track,
    Cylinder,
    Range,
    Zone,
}

/// One of the eleven sparing schemes.
#[derive(Clone, Copy, Debug)]
struct Scheme {
    region: Region,
    /// Slips and moves count tracks, not places.
    by_track: bool,
    spares_at_front: bool,
    /// Slips push blocks on instead of using spares.
    slips_push: bool,
}

impl Scheme {
    /// By its number in the format.
    fn of_number(number: u32) -> Option<Self> {
        let scheme = |region| Self { region, by_track: false, spares_at_front: false, slips_push: false };
        Some(match number {
            0 | 9 => scheme(Region::Zone),
            1 => Self { by_track: true, ..scheme(Region::Zone) },
            2 => scheme(Region::Cylinder),
            3 => scheme(Region::Track),
            4 => Self { slips_push: true, ..scheme(Region::Cylinder) },
            5 => Self { spares_at_front: true, ..scheme(Region::Cylinder) },
            6 => Self { spares_at_front: true, slips_push: true, ..scheme(Region::Cylinder) },
            7 | 10 => Self { slips_push: true, ..scheme(Region::Zone) },
            8 => scheme(Region::Range),
            _ => return None,
        })
    }

    /// Whether slips turn what is behind their region, too.
    fn slips_turn(self) -> bool {
        matches!(self.region, Region::Track | Region::Cylinder)
    }
}

/// What holds for all zones.
#[derive(Clone, Copy, Debug)]
struct Whole {
    heads: u32,
    scheme: Scheme,
    /// Scheme 0 and 7 have no spares, whatever their number says.
    has_spares: bool,
    range_cylinders: u32,
    /// 0: every cylinder from head 0 up; 1 and 2: up and down by turns, from the zone or from the drive on.
    mapping: u32,
}

/// One zone, as in the file.
#[derive(Clone, Debug)]
struct Zone {
    first_cylinder: u32,
    cylinders: u32,
    per_track: u32,
    /// In turns.
    first_angle: f64,
    track_skew: f64,
    cylinder_skew: f64,
    management: u64,
    spares: u64,
    /// Places or tracks; in order, each once.
    slips: Vec<u64>,
    /// From a place or track to another.
    moved: BTreeMap<u64, u64>,
}

/// The extents of a drive with this layout.
pub(crate) fn layout_g1(
    file: &str,
    block: &Block,
    heads: u32,
    warnings: &mut Vec<String>,
) -> Result<Vec<Extent>, ImportError> {
    let mut fields = Fields::new(file, block);
    let number = fields.count("Sparing scheme used", 0, 10)?;
    let whole = Whole {
        heads,
        scheme: Scheme::of_number(number).expect("from 0 to 10"),
        has_spares: !matches!(number, 0 | 7),
        range_cylinders: fields.count("Rangesize for sparing", 1, 1_000_000)?,
        mapping: fields.count("LBN-to-PBN mapping scheme", 0, 2)?,
    };
    let in_turns = in_revolutions(&mut fields)?.unwrap_or(false);
    let (zones, param) = fields.list("Zones")?;
    let mut walk = Walk { whole, extents: Vec::new(), last: None };
    let mut tracks = 0;
    for value in zones {
        let Value::Block(zone) = value else { return Err(fields.bad(param, "a list of zone blocks")) };
        let zone = Zone::read(file, zone, in_turns, warnings)?;
        tracks += u64::from(zone.cylinders) * u64::from(heads);
        if tracks > TRACKS_MAX {
            return Err(fields.bad(param, "zones of no more than four million tracks in all"));
        }
        walk.zone(&zone);
    }
    fields.finish(&[], warnings);
    Ok(walk.extents)
}

/// Whether angles are in turns, not in sectors, if the block says so.
fn in_revolutions(fields: &mut Fields<'_>) -> Result<Option<bool>, ImportError> {
    if fields.find("Skew units").is_none() {
        return Ok(None);
    }
    match fields.word("Skew units")? {
        ("revolutions", _) => Ok(Some(true)),
        ("sectors", _) => Ok(Some(false)),
        (_, param) => Err(fields.bad(param, "revolutions or sectors")),
    }
}

impl Zone {
    fn read(
        file: &str,
        block: &Block,
        in_turns: bool,
        warnings: &mut Vec<String>,
    ) -> Result<Self, ImportError> {
        const UNUSED: [Unused; 0] = [];
        let mut fields = Fields::new(file, block);
        let first_cylinder = fields.count("First cylinder number", 0, 1_000_000)?;
        let last_cylinder = fields.count("Last cylinder number", first_cylinder, 1_000_000)?;
        let per_track = fields.count("Blocks per track", 1, 65_535)?;
        let in_turns = in_revolutions(&mut fields)?.unwrap_or(in_turns);
        let turns = |skew: f64| if in_turns { skew } else { skew / f64::from(per_track) };
        let mut slips = places(&mut fields, "slips")?;
        slips.sort_unstable();
        slips.dedup();
        let moved = places(&mut fields, "defects")?;
        if moved.len() % 2 != 0 {
            let param = fields.find("defects").expect("it has values");
            return Err(fields.bad(param, "pairs of a place and the one it is moved to"));
        }
        let zone = Self {
            first_cylinder,
            cylinders: last_cylinder - first_cylinder + 1,
            per_track,
            first_angle: turns(fields.number("Offset of first block")?),
            track_skew: turns(fields.number_or("Skew for track switch", 0.0)?),
            cylinder_skew: turns(fields.number_or("Skew for cylinder switch", 0.0)?),
            management: fields.count("Empty space at zone front", 0, u32::MAX)?.into(),
            spares: fields.count("Number of spares", 0, u32::MAX)?.into(),
            slips,
            moved: moved.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
        };
        fields.finish(&UNUSED, warnings);
        Ok(zone)
    }
}

fn places(fields: &mut Fields<'_>, key: &'static str) -> Result<Vec<u64>, ImportError> {
    let numbers = fields.numbers(key)?;
    let is_place = |number: &f64| number.fract() == 0.0 && (0.0..1e15).contains(number);
    if let (false, Some(param)) = (numbers.iter().all(is_place), fields.find(key)) {
        return Err(fields.bad(param, "a list of whole numbers from 0 on"));
    }
    Ok(numbers.into_iter().map(|number| number as u64).collect())
}

/// The extents so far.
struct Walk {
    whole: Whole,
    extents: Vec<Extent>,
    /// The place of this zone that the last block took.
    last: Option<u64>,
}

/// The places of one region.
struct Places {
    next: u64,
    end: u64,
    /// Blocks that it may still take.
    room: u64,
}

impl Walk {
    fn zone(&mut self, zone: &Zone) {
        self.last = None;
        let tracks = u64::from(zone.cylinders) * u64::from(self.whole.heads);
        let per_track = u64::from(zone.per_track);
        let zone_end = tracks * per_track;
        let region = match self.whole.scheme.region {
            Region::Track => per_track,
            Region::Cylinder => per_track * u64::from(self.whole.heads),
            Region::Range => per_track * u64::from(self.whole.heads) * u64::from(self.whole.range_cylinders),
            Region::Zone => zone_end,
        };
        let spares = if self.whole.has_spares { zone.spares } else { 0 };
        let spares = if self.whole.scheme.by_track { spares * per_track } else { spares };
        let mut management = zone.management;
        for first in (0..zone_end).step_by(region as usize) {
            let end = first + region;
            // A range that the zone cuts short has no spares.
            let spares = if end > zone_end { 0 } else { spares };
            let next = if self.whole.scheme.spares_at_front { first + spares } else { first };
            let room = region.saturating_sub(spares);
            self.region(zone, Places { next, end: end.min(zone_end), room }, &mut management);
        }
    }

    /// Lets blocks take the places of a region, the first `management` of all being none.
    fn region(&mut self, zone: &Zone, mut places: Places, management: &mut u64) {
        let per_track = u64::from(zone.per_track);
        let unit = if self.whole.scheme.by_track { per_track } else { 1 };
        while places.room > 0 && places.next < places.end {
            let place = places.next;
            if zone.slips.binary_search(&(place / unit)).is_ok() {
                places.next += unit;
                if self.whole.scheme.slips_push {
                    places.room -= unit.min(places.room);
                }
                continue;
            }
            let next_slip = zone.slips.partition_point(|slip| *slip <= place / unit);
            let slip_at = zone.slips.get(next_slip).map_or(u64::MAX, |slip| slip * unit);
            let moved = zone.moved.get(&(place / unit)).copied();
            let move_at =
                zone.moved.range(place / unit + 1..).next().map_or(u64::MAX, |(from, _)| from * unit);
            let mut run = (per_track - place % per_track).min(places.room).min(places.end - place);
            run = run.min(slip_at - place).min(move_at - place);
            let target = match moved {
                Some(to) => {
                    run = run.min(unit);
                    to * unit + place % unit
                }
                None => place,
            };
            let skipped = run.min(*management);
            *management -= skipped;
            self.put(zone, target + skipped, run - skipped);
            places.next += run;
            places.room -= run;
        }
    }

    /// Places the next `blocks` blocks along a track from `place` on.
    fn put(&mut self, zone: &Zone, place: u64, blocks: u64) {
        if blocks == 0 {
            return;
        }
        let per_track = u64::from(zone.per_track);
        let goes_on = self.last == Some(place.wrapping_sub(1)) && !place.is_multiple_of(per_track);
        self.last = Some(place + blocks - 1);
        if let (true, Some(extent)) = (goes_on, self.extents.last_mut()) {
            extent.sectors += blocks as u32;
            return;
        }
        let first = self.extents.last().map_or(0, |last| last.first.0 + u64::from(last.sectors));
        let (track, sector) = (place / per_track, place % per_track);
        let heads = u64::from(self.whole.heads);
        let (in_zone, order) = ((track / heads) as u32, (track % heads) as u32);
        let cylinder = zone.first_cylinder + in_zone;
        self.extents.push(Extent {
            first: Sector(first),
            sectors: blocks as u32,
            cylinder,
            head: self.head(cylinder, in_zone, order),
            angle: self.angle(zone, track, sector),
            sectors_per_turn: zone.per_track,
        });
    }

    /// The head that comes as number `order` in a cylinder.
    fn head(&self, cylinder: u32, in_zone: u32, order: u32) -> u32 {
        let downwards = match self.whole.mapping {
            0 => false,
            1 => in_zone % 2 == 1,
            _ => cylinder % 2 == 1,
        };
        if downwards { self.whole.heads - 1 - order } else { order }
    }

    /// Angle at which a place begins, in 2^-32 turns.
    fn angle(&self, zone: &Zone, track: u64, sector: u64) -> u32 {
        let heads = u64::from(self.whole.heads);
        let cylinders = track / heads;
        let switches = track - cylinders;
        let mut sectors = sector;
        if self.whole.scheme.slips_turn() {
            let region_tracks = if self.whole.scheme.region == Region::Track { 1 } else { heads };
            let before = track / region_tracks * region_tracks * u64::from(zone.per_track);
            sectors += zone.slips.partition_point(|slip| *slip < before) as u64;
        }
        let turns = zone.first_angle
            + switches as f64 * zone.track_skew
            + cylinders as f64 * zone.cylinder_skew
            + sectors as f64 / f64::from(zone.per_track);
        (turns.rem_euclid(1.0) * 2f64.powi(32)) as u64 as u32
    }
}

#[cfg(test)]
mod tests;
