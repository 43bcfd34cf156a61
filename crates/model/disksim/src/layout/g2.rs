//! Where every sector is, from a `dm_layout_g2` block: zones with their skews, and a file that lists every run of blocks.
//!
//! ```text
//!   (two lines of remarks)
//!   8057 cylinders, 0 rot, 10 heads
//!   lbn 0 --> cyl 0, head 0, sect 0, seqcnt 255          256 blocks from sector 0 on
//! ```
//!
//! Track by track in the order of the blocks, sector 0 is a skew later in the rotation; each zone begins at its own
//! skew. Defects that the file lists after the runs are left out: no block is there.

use super::in_revolutions;
use crate::error::ImportError;
use crate::fields::Fields;
use crate::syntax::{Block, Value};
use raidlab_hardware::{Extent, Sector};

/// What holds for a run of cylinders.
struct Zone {
    cylinders: std::ops::RangeInclusive<u32>,
    per_track: u32,
    /// In turns.
    skew: f64,
    track_skew: f64,
    cylinder_skew: f64,
}

/// The extents of a drive with this layout.
pub(crate) fn layout_g2(
    file: &str,
    block: &Block,
    fetch: &mut dyn FnMut(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Result<Vec<Extent>, ImportError> {
    let mut fields = Fields::new(file, block);
    let (map_file, map_param) = fields.word("Layout Map File")?;
    let (values, param) = fields.list("Zones")?;
    let mut zones = Vec::new();
    for value in values {
        let Value::Block(zone) = value else { return Err(fields.bad(param, "a list of zone blocks")) };
        zones.push(Zone::read(file, zone, warnings)?);
    }
    let map = fetch(map_file)
        .ok_or_else(|| ImportError::NoFile { file: map_file.into(), named_by: file.into() })?;
    let mut extents: Vec<Extent> = Vec::new();
    let mut turns = 0.0;
    for line in map.lines().filter(|line| line.trim_start().starts_with("lbn ")) {
        let unfit = || {
            fields.bad(map_param, "a file of runs 'lbn 0 --> cyl 0, head 0, sect 0, seqcnt 9' in the zones")
        };
        let [first, cylinder, head, sector, count] = run(line).ok_or_else(unfit)?;
        let cylinder = cylinder as u32;
        let zone = zones.iter().find(|zone| zone.cylinders.contains(&cylinder)).ok_or_else(unfit)?;
        match extents.last() {
            Some(last) if last.cylinder == cylinder && last.head == head as u32 => {}
            Some(last) if last.cylinder == cylinder => turns += zone.track_skew,
            Some(last) if zone.cylinders.contains(&last.cylinder) => turns += zone.cylinder_skew,
            _ => turns = zone.skew,
        }
        let angle: f64 = turns + sector as f64 / f64::from(zone.per_track);
        extents.push(Extent {
            first: Sector(first),
            sectors: count as u32,
            cylinder,
            head: head as u32,
            angle: (angle.rem_euclid(1.0) * 2f64.powi(32)) as u64 as u32,
            sectors_per_turn: zone.per_track,
        });
    }
    fields.finish(&[], warnings);
    Ok(extents)
}

/// Block, cylinder, head, sector and length of a run.
fn run(line: &str) -> Option<[u64; 5]> {
    let is_seqcnt = line.contains("seqcnt");
    let mut numbers = line
        .split(|c: char| !c.is_ascii_digit())
        .filter(|digits| !digits.is_empty())
        .map(|digits| digits.parse::<u64>().ok().filter(|number| *number < 1 << 40));
    let mut next = || numbers.next().flatten();
    let [first, cylinder, head, sector, count] = [next()?, next()?, next()?, next()?, next()?];
    let count = if is_seqcnt { count + 1 } else { count };
    (cylinder <= 1_000_000 && head < 256 && count < 65_536).then_some([first, cylinder, head, sector, count])
}

impl Zone {
    fn read(file: &str, block: &Block, warnings: &mut Vec<String>) -> Result<Self, ImportError> {
        let mut fields = Fields::new(file, block);
        let first = fields.count("First cylinder number", 0, 1_000_000)?;
        let last = fields.count("Last cylinder number", first, 1_000_000)?;
        let per_track = fields.count("Blocks per track", 1, 65_535)?;
        let in_turns = in_revolutions(&mut fields)?.unwrap_or(false);
        let turns = |skew: f64| if in_turns { skew } else { skew / f64::from(per_track) };
        let zone = Self {
            cylinders: first..=last,
            per_track,
            skew: turns(fields.number_or("Zone Skew", 0.0)?),
            track_skew: turns(fields.number_or("Skew for track switch", 0.0)?),
            cylinder_skew: turns(fields.number_or("Skew for cylinder switch", 0.0)?),
        };
        fields.finish(&[("First LBN", "the map has it"), ("Last LBN", "the map has it")], warnings);
        Ok(zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_blocks;

    const ZONES: &str = "dm_layout_g2 { Layout Map File = a.map, Zones = [
        dm_layout_g2_zone { First cylinder number = 0, Last cylinder number = 1, First LBN = 0, Last LBN = 35,
            Blocks per track = 10, Zone Skew = 1, Skew for track switch = 2, Skew for cylinder switch = 3 },
        dm_layout_g2_zone { First cylinder number = 2, Last cylinder number = 2, First LBN = 36, Last LBN = 43,
            Blocks per track = 8, Zone Skew = 4 } ] }";

    const MAP: &str = "remark\nremark\n3 cylinders, 0 rot, 2 heads\n\
        lbn 0 --> cyl 0, head 0, sect 0, seqcnt 3\nlbn 4 --> cyl 0, head 0, sect 5, seqcnt 4\n\
        lbn 9 --> cyl 0, head 1, sect 0, seqcnt 9\nlbn 19 --> cyl 1, head 0, sect 0, seqcnt 9\n\
        lbn 29 --> cyl 2, head 1, sect 1, seqcnt 6\nDefect at cyl 0, head 0, sect 4\n";

    fn read(map: &str) -> Result<Vec<Extent>, ImportError> {
        let blocks = parse_blocks(ZONES).expect("sound");
        layout_g2("x.model", &blocks[0], &mut |_| Some(map.into()), &mut Vec::new())
    }

    #[test]
    fn runs_lie_where_the_map_and_the_skews_put_them() {
        let extents = read(MAP).expect("sound");
        let wanted = [
            (0, 4, 0, 0, 0.1),
            (4, 5, 0, 0, 0.6),
            (9, 10, 0, 1, 0.3),
            (19, 10, 1, 0, 0.6),
            (29, 7, 2, 1, 0.625),
        ];
        assert_eq!(extents.len(), wanted.len());
        for (extent, (first, sectors, cylinder, head, turns)) in extents.iter().zip(wanted) {
            let got = (extent.first.0, extent.sectors, extent.cylinder, extent.head);
            assert_eq!(got, (first, sectors, cylinder, head));
            assert!((f64::from(extent.angle) / 2f64.powi(32) - turns).abs() < 1e-6, "{extent:?}");
        }
    }

    #[test]
    fn maps_that_are_none_are_refused() {
        for bad in [
            "lbn 0 --> cyl 7, head 0, sect 0, seqcnt 3\n",
            "lbn 0 --> cyl 0, head 0\n",
            "lbn 99999999999999999999 --> cyl 0, head 0, sect 0, seqcnt 1\n",
        ] {
            assert!(matches!(read(bad), Err(ImportError::BadValue { .. })), "{bad}");
        }
    }
}
