//! The layout against plain counting: for each block, its place by the rules of the format, one after the other.

use super::*;
use crate::syntax::parse_blocks;
use proptest::prelude::*;
use raidlab_hardware::TrackTable;
use std::fmt::Write;

/// Cylinders, places per track, management area, spares, slips, moved places.
type SmallZone = (u32, u32, u64, u64, Vec<u64>, Vec<(u64, u64)>);

/// A small drive as text.
#[derive(Clone, Debug)]
struct Small {
    heads: u32,
    scheme: u32,
    mapping: u32,
    zones: Vec<SmallZone>,
}

impl Small {
    fn text(&self) -> String {
        let mut text = format!(
            "dm_layout_g1 {{ LBN-to-PBN mapping scheme = {}, Sparing scheme used = {}, Rangesize for sparing = 2, Zones = [",
            self.mapping, self.scheme
        );
        let mut cylinder = 0;
        for (cylinders, per_track, management, spares, slips, moved) in &self.zones {
            let moved: Vec<u64> = moved.iter().flat_map(|(from, to)| [*from, *to]).collect();
            let _ = write!(
                text,
                "dm_layout_g1_zone {{ First cylinder number = {cylinder}, Last cylinder number = {}, \
                 Blocks per track = {per_track}, Offset of first block = 1.0, Empty space at zone front = {management}, \
                 Skew for track switch = 2, Skew for cylinder switch = 3, Number of spares = {spares}, \
                 slips = {slips:?}, defects = {moved:?} }},",
                cylinder + cylinders - 1
            );
            cylinder += cylinders;
        }
        text + "] }"
    }

    /// Every block's cylinder, order of its track in the cylinder, and sector; by going through all places.
    fn slow(&self) -> Vec<(u32, u64, u64)> {
        let mut blocks = Vec::new();
        let mut first_cylinder = 0;
        let heads = u64::from(self.heads);
        for (cylinders, per_track, management, spares, slips, moved) in &self.zones {
            let per_track = u64::from(*per_track);
            let places = u64::from(*cylinders) * heads * per_track;
            let in_tracks = self.scheme == 1;
            let unit = |place: u64| if in_tracks { place / per_track } else { place };
            let region = match self.scheme {
                3 => per_track,
                2 | 4 | 5 | 6 => per_track * heads,
                8 => per_track * heads * 2,
                _ => places,
            };
            let spares = match self.scheme {
                0 | 7 => 0,
                1 => spares * per_track,
                _ => *spares,
            };
            let mut taken = Vec::new();
            for first in (0..places).step_by(region as usize) {
                let end = first + region;
                let spares = if end > places { 0 } else { spares };
                let mut data = 0;
                for place in first..end.min(places) {
                    let is_front_spare = matches!(self.scheme, 5 | 6) && place < first + spares;
                    let slipped = slips.contains(&unit(place));
                    let pushes = matches!(self.scheme, 4 | 6 | 7 | 10);
                    if is_front_spare || data >= region.saturating_sub(spares) {
                        continue;
                    }
                    if !slipped || pushes {
                        data += 1;
                    }
                    if !slipped {
                        taken.push(place);
                    }
                }
            }
            for place in taken.into_iter().skip(*management as usize) {
                let to = moved.iter().rev().find(|(from, _)| *from == unit(place)).map(|(_, to)| *to);
                let place = match to {
                    Some(to) if in_tracks => to * per_track + place % per_track,
                    Some(to) => to,
                    None => place,
                };
                let track = place / per_track;
                blocks.push((first_cylinder + (track / heads) as u32, track % heads, place % per_track));
            }
            first_cylinder += cylinders;
        }
        blocks
    }
}

fn small() -> impl Strategy<Value = Small> {
    let zone = (1u32..5, 3u32..9, 0u64..4, 0u64..3);
    let odd = (prop::collection::btree_set(0u64..60, 0..4), prop::option::of((0u64..30, 0u64..30)));
    (1u32..4, 0u32..11, 0u32..3, prop::collection::vec((zone, odd), 1..3)).prop_map(
        |(heads, scheme, mapping, zones)| {
            let zones =
                zones.into_iter().map(|((cylinders, per_track, management, spares), (slips, moved))| {
                    let places = u64::from(cylinders * heads * per_track);
                    let units = if scheme == 1 { u64::from(cylinders * heads) } else { places };
                    let slips: Vec<u64> = slips.into_iter().filter(|slip| *slip < units).collect();
                    let moved =
                        moved.filter(|(from, to)| *from < units && *to < units && !slips.contains(from));
                    (cylinders, per_track, management, spares, slips, moved.into_iter().collect())
                });
            Small { heads, scheme, mapping, zones: zones.collect() }
        },
    )
}

proptest! {
    #[test]
    fn every_block_is_where_plain_counting_puts_it(drive in small()) {
        let blocks = parse_blocks(&drive.text()).expect("sound");
        let extents = layout_g1("x.model", &blocks[0], drive.heads, &mut Vec::new()).expect("sound");
        let slow = drive.slow();
        prop_assume!(!slow.is_empty());
        let table = TrackTable::new(extents).expect("contiguous");
        prop_assert_eq!(table.capacity().0, slow.len() as u64);
        let mut zone_of = Vec::new();
        for (index, zone) in drive.zones.iter().enumerate() {
            zone_of.extend(std::iter::repeat_n(index, zone.0 as usize));
        }
        for (block, (cylinder, order, sector)) in slow.iter().enumerate() {
            let extent = table.locate(Sector(block as u64));
            let zone = zone_of[*cylinder as usize];
            let in_zone = *cylinder - drive.zones[..zone].iter().map(|zone| zone.0).sum::<u32>();
            let down = match drive.mapping { 0 => false, 1 => in_zone % 2 == 1, _ => *cylinder % 2 == 1 };
            let head = if down { drive.heads - 1 - *order as u32 } else { *order as u32 };
            prop_assert_eq!((extent.cylinder, extent.head), (*cylinder, head), "block {}", block);
            let per_track = f64::from(extent.sectors_per_turn);
            let slips = &drive.zones[zone].4;
            let track = u64::from(in_zone * drive.heads) + order;
            let before = match drive.scheme {
                3 => track * u64::from(extent.sectors_per_turn),
                2 | 4 | 5 | 6 => u64::from(in_zone * drive.heads * extent.sectors_per_turn),
                _ => 0,
            };
            let turned = slips.iter().filter(|slip| **slip < before).count() as u64;
            let switches = track - u64::from(in_zone);
            let sectors = 1 + 2 * switches + 3 * u64::from(in_zone) + turned + sector;
            let wanted = (sectors as f64 / per_track).fract();
            let inside = (block as u64 - extent.first.0) as f64 / per_track;
            let got = (f64::from(extent.angle) / 2f64.powi(32) + inside).fract();
            let apart = (wanted - got).abs();
            prop_assert!(apart.min(1.0 - apart) < 1e-6, "block {block}: {got} is not {wanted}");
        }
    }
}

#[test]
fn what_can_not_be_is_refused_by_name() {
    let text = |from: &str, to: &str| {
        let drive = Small { heads: 2, scheme: 0, mapping: 0, zones: vec![(2, 8, 0, 0, vec![], vec![])] };
        drive.text().replace(from, to)
    };
    let rows = [
        ("Sparing scheme used = 0", "Sparing scheme used = 11", "Sparing scheme used"),
        ("Blocks per track = 8", "Blocks per track = 0", "Blocks per track"),
        ("slips = []", "slips = [ 1.5 ]", "slips"),
        ("defects = []", "defects = [ 1 ]", "defects"),
        ("Last cylinder number = 1", "Last cylinder number = -1", "Last cylinder number"),
    ];
    for (from, to, key) in rows {
        let blocks = parse_blocks(&text(from, to)).expect("sound");
        let got = layout_g1("x.model", &blocks[0], 2, &mut Vec::new());
        let Err(ImportError::BadValue { key: named, .. }) = got else { panic!("{to} is wrong: {got:?}") };
        assert_eq!(named, key);
    }
    let blocks = parse_blocks(&text("slips", "slipps")).expect("sound");
    let mut warnings = Vec::new();
    layout_g1("x.model", &blocks[0], 2, &mut warnings).expect("slips may be missing");
    assert!(warnings[0].contains("'slipps'") && warnings[0].contains("'slips'"), "{warnings:?}");
}
