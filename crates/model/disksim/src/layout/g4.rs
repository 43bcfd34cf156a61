//! Where every sector is, from a `dm_layout_g4` block: a tree of repeated patterns.
//!
//! ```text
//!   IDX node (the last one is the root): entries, each for a run of blocks
//!     entry: child repeated every `len` blocks, `cyllen` cylinders further in and `alen` turns further on each time
//!       child: another IDX node ... or a track pattern (TP): sectors `low..=high` of a track with `spt`
//! ```
//!
//! The tree is unfolded into tracks. The places that it counts are then assigned to blocks in order, except for runs of
//! places that are slipped over; a run of blocks can be moved to sectors named by cylinder, head and sector.
//!
//! Invariant: places come in order and without gaps, or the layout is refused. Left out: moved blocks on tracks that
//! the tree does not have are put at the angle that their sector has on an unskewed track.

use super::{TRACKS_MAX, places};
use crate::error::ImportError;
use crate::fields::Fields;
use crate::syntax::{Block, Value};
use raidlab_hardware::{Extent, Sector};
use std::collections::BTreeMap;

/// Nodes within nodes; real drives have four or so.
const DEPTH_MAX: u32 = 16;

/// A track pattern.
#[derive(Clone, Copy, Debug)]
struct Pattern {
    low: i64,
    high: i64,
    per_track: u32,
}

#[derive(Clone, Copy, Debug)]
enum Child {
    Node(usize),
    Track { pattern: usize, head: u32 },
}

/// An entry of a node.
#[derive(Clone, Copy, Debug)]
struct Entry {
    first: i64,
    cylinder: i64,
    angle: f64,
    len: i64,
    cylinders: i64,
    turn: f64,
    run: i64,
    inwards: bool,
    child: Child,
}

/// A run of places on one track.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: i64,
    places: i64,
    cylinder: u32,
    head: u32,
    sector: i64,
    /// In turns.
    angle: f64,
    per_track: u32,
}

/// The tree.
struct Tree {
    patterns: Vec<Pattern>,
    nodes: Vec<Vec<Entry>>,
}

/// What a tree has been unfolded to so far.
#[derive(Default)]
struct Unfolded {
    runs: Vec<Run>,
    /// Repetitions looked at.
    steps: u64,
}

/// The extents of a drive of at most `blocks` blocks with this layout.
pub(crate) fn layout_g4(
    file: &str,
    block: &Block,
    blocks: u64,
    warnings: &mut Vec<String>,
) -> Result<Vec<Extent>, ImportError> {
    let mut fields = Fields::new(file, block);
    let tree = Tree { patterns: patterns(&mut fields)?, nodes: nodes(&mut fields)? };
    let slips = pairs(&mut fields)?;
    let moved = moved(&mut fields)?;
    let (_, param) = fields.list("IDX")?;
    let mut unfolded = Unfolded::default();
    let whole = Instance { first: 0, cylinder: 0, angle: 0.0, places: i64::MAX };
    let root = tree.nodes.len().checked_sub(1);
    let is_sound = root.is_some_and(|root| tree.unfold(root, whole, 0, &mut unfolded).is_some());
    let mut runs = unfolded.runs;
    runs.sort_by_key(|run| run.first);
    let mut next = 0;
    let whole = is_sound
        && runs.iter().all(|run| {
            let follows = run.first == next;
            next += run.places;
            follows
        });
    if !whole {
        return Err(fields.bad(param, "a tree of entries that follow each other and name what is there"));
    }
    fields.finish(&[], warnings);
    Ok(extents(&runs, &slips, &moved, blocks))
}

fn patterns(fields: &mut Fields<'_>) -> Result<Vec<Pattern>, ImportError> {
    let numbers = fields.numbers("TP")?;
    let (_, param) = fields.list("TP")?;
    let pattern = |row: &[f64]| {
        let pattern = Pattern { low: row[0] as i64, high: row[1] as i64, per_track: row[2] as u32 };
        let is_sound = 0 <= pattern.low
            && pattern.low <= pattern.high
            && pattern.high < i64::from(pattern.per_track)
            && pattern.per_track <= 65_535;
        is_sound.then_some(pattern)
    };
    let patterns: Option<Vec<Pattern>> = numbers.chunks_exact(3).map(pattern).collect();
    patterns
        .filter(|_| numbers.len() % 3 == 0)
        .ok_or_else(|| fields.bad(param, "a list of lowest sector, highest sector and sectors per track"))
}

fn nodes(fields: &mut Fields<'_>) -> Result<Vec<Vec<Entry>>, ImportError> {
    let (values, param) = fields.list("IDX")?;
    let node = |value: &Value| match value {
        Value::List(values) => entries(values),
        _ => None,
    };
    let nodes: Option<Vec<Vec<Entry>>> = values.iter().map(node).collect();
    nodes.ok_or_else(|| {
        fields.bad(
            param,
            "lists of entries of lbn, cyl, off, len, cyllen, alen, runlen, cylrunlen, TRACK or IDX, child, and a head for TRACK",
        )
    })
}

fn entries(mut values: &[Value]) -> Option<Vec<Entry>> {
    let mut entries = Vec::new();
    while !values.is_empty() {
        let number = |index: usize| match values.get(index) {
            Some(Value::Number(number)) if number.abs() < 1e15 => Some(*number),
            _ => None,
        };
        let count = |index| number(index).map(|number| number as i64);
        let child = count(9).filter(|child| *child >= 0)? as usize;
        let (child, used) = match values.get(8)? {
            Value::Word(word) if word == "IDX" => (Child::Node(child), 10),
            Value::Word(word) if word == "TRACK" => {
                let head = count(10).filter(|head| (0..256).contains(head))? as u32;
                (Child::Track { pattern: child, head }, 11)
            }
            _ => return None,
        };
        let entry = Entry {
            first: count(0)?,
            cylinder: count(1)?,
            angle: number(2)?,
            len: count(3).filter(|len| *len > 0)?,
            cylinders: count(4)?,
            turn: number(5)?,
            run: count(6)?,
            inwards: count(7)? >= 0,
            child,
        };
        entries.push(entry);
        values = &values[used..];
    }
    Some(entries)
}

/// Places that are slipped over: the first, and how many.
fn pairs(fields: &mut Fields<'_>) -> Result<Vec<(i64, i64)>, ImportError> {
    let numbers = places(fields, "Slips")?;
    let pair = |pair: &[u64]| (pair[0].cast_signed(), pair[1].cast_signed());
    let mut slips: Vec<(i64, i64)> = numbers.chunks_exact(2).map(pair).collect();
    slips.sort_unstable();
    Ok(slips)
}

/// Moved blocks: the first, how many, cylinder, head, sector and sectors per track.
fn moved(fields: &mut Fields<'_>) -> Result<Vec<[i64; 6]>, ImportError> {
    let numbers = places(fields, "Remaps")?;
    let row = |row: &[u64]| [row[0], row[1], row[2], row[3], row[4], row[5]].map(u64::cast_signed);
    let mut moved: Vec<[i64; 6]> = numbers.chunks_exact(6).map(row).collect();
    let is_sound = |row: &[i64; 6]| {
        let [first, blocks, cylinder, head, sector, per_track] = *row;
        (0..=65_535).contains(&per_track)
            && (0..1_000_000).contains(&cylinder)
            && (0..256).contains(&head)
            && 0 <= first
            && 0 < blocks
            && 0 <= sector
            && sector + blocks <= per_track
    };
    if let (false, Some(param)) = (moved.iter().all(is_sound), fields.find("Remaps")) {
        return Err(fields.bad(param, "a list of lbn, length, cylinder, head, sector and sectors per track"));
    }
    moved.sort_unstable();
    Ok(moved)
}

/// One repetition of a child.
#[derive(Clone, Copy)]
struct Instance {
    first: i64,
    cylinder: i64,
    angle: f64,
    /// Places that it may have at most.
    places: i64,
}

impl Tree {
    /// Adds the runs of a node, or says nothing if it names what is not there or what can't be.
    fn unfold(&self, node: usize, at: Instance, depth: u32, unfolded: &mut Unfolded) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        for entry in self.nodes.get(node)? {
            let end = entry.first.checked_add(entry.run)?.min(at.places);
            let mut first = entry.first;
            let mut repetition = 0i64;
            while first < end {
                unfolded.steps += 1;
                if unfolded.steps > 2 * TRACKS_MAX {
                    return None;
                }
                let along = if entry.inwards { repetition } else { -repetition };
                let instance = Instance {
                    first: at.first.checked_add(first)?,
                    cylinder: at.cylinder + entry.cylinder + along.checked_mul(entry.cylinders)?,
                    angle: at.angle + entry.angle + along as f64 * entry.turn,
                    places: (end - first).min(entry.len),
                };
                match entry.child {
                    Child::Node(child) => self.unfold(child, instance, depth + 1, unfolded)?,
                    Child::Track { pattern, head } => {
                        self.track(pattern, head, instance, &mut unfolded.runs)?;
                    }
                }
                first += entry.len;
                repetition += 1;
            }
        }
        Some(())
    }

    fn track(&self, pattern: usize, head: u32, at: Instance, runs: &mut Vec<Run>) -> Option<()> {
        let pattern = self.patterns.get(pattern)?;
        let cylinder = u32::try_from(at.cylinder).ok().filter(|cylinder| *cylinder <= 1_000_000)?;
        runs.push(Run {
            first: at.first,
            places: at.places.min(pattern.high - pattern.low + 1),
            cylinder,
            head,
            sector: pattern.low,
            angle: at.angle,
            per_track: pattern.per_track,
        });
        Some(())
    }
}

/// Gives the places to blocks.
fn extents(runs: &[Run], slips: &[(i64, i64)], moved: &[[i64; 6]], blocks: u64) -> Vec<Extent> {
    let tracks: BTreeMap<(u32, u32), f64> = runs
        .iter()
        .map(|run| {
            let before = run.sector as f64 / f64::from(run.per_track);
            ((run.cylinder, run.head), run.angle - before)
        })
        .collect();
    let mut extents = Vec::new();
    let (mut block, mut slip, mut away) = (0i64, 0, 0);
    let blocks = i64::try_from(blocks).unwrap_or(i64::MAX);
    for run in runs {
        let (mut place, end) = (run.first, run.first + run.places);
        while place < end && block < blocks {
            while slips.get(slip).is_some_and(|(first, count)| first + count <= place) {
                slip += 1;
            }
            if let Some((first, count)) = slips.get(slip).filter(|(first, _)| *first <= place) {
                place = first + count;
                continue;
            }
            let until = slips.get(slip).map_or(end, |(first, _)| *first).min(end);
            let mut taken = (until - place).min(blocks - block);
            while moved.get(away).is_some_and(|[first, count, ..]| first + count <= block) {
                away += 1;
            }
            match moved.get(away) {
                Some([first, count, cylinder, head, sector, per_track]) if *first <= block => {
                    taken = taken.min(first + count - block);
                    let track = (*cylinder as u32, *head as u32);
                    let angle = tracks.get(&track).copied().unwrap_or(0.0);
                    let sector = sector + (block - first);
                    extents.push(extent(block, taken, track, angle, (sector, *per_track as u32)));
                }
                other => {
                    taken = taken.min(other.map_or(i64::MAX, |[first, ..]| first - block));
                    let before = place - run.first;
                    let sector = (before, run.per_track);
                    extents.push(extent(block, taken, (run.cylinder, run.head), run.angle, sector));
                }
            }
            block += taken;
            place += taken;
        }
    }
    extents
}

fn extent(block: i64, blocks: i64, track: (u32, u32), angle: f64, (sector, per_track): (i64, u32)) -> Extent {
    let turns = angle + sector as f64 / f64::from(per_track);
    Extent {
        first: Sector(block as u64),
        sectors: blocks as u32,
        cylinder: track.0,
        head: track.1,
        angle: (turns.rem_euclid(1.0) * 2f64.powi(32)) as u64 as u32,
        sectors_per_turn: per_track,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_blocks;
    use raidlab_hardware::TrackTable;

    /// Two heads, two zones; the second is numbered outwards. 3 slipped places, one moved run.
    const SMALL: &str = "dm_layout_g4 {
        TP = [ 0, 9, 10, 0, 7, 8 ],
        IDX = [
            [ 0, 0, 0.0, 10, 1, 0.0, 10, 1, TRACK, 0, 0,   10, 0, 0.25, 10, 1, 0.0, 10, 1, TRACK, 0, 1 ],
            [ 0, 0, 0.0, 8, 1, 0.0, 8, 1, TRACK, 1, 0,   8, 0, 0.125, 8, 1, 0.0, 8, 1, TRACK, 1, 1 ],
            [ 0, 0, 0.0, 20, 1, 0.4, 60, 3, IDX, 0,   60, 5, 0.5, 16, 1, 0.2, 48, -3, IDX, 1 ]
        ],
        Slips = [ 4, 1, 30, 2 ],
        Remaps = [ 50, 2, 2, 1, 3, 10 ]
    }";

    fn small(text: &str) -> Result<Vec<Extent>, ImportError> {
        layout_g4("x.model", &parse_blocks(text).expect("sound")[0], 105, &mut Vec::new())
    }

    /// Cylinder, head and turns of a block, by hand.
    fn slow(block: i64) -> (u32, u32, f64) {
        let place = match block {
            0..4 => block,
            4..29 => block + 1,
            _ => block + 3,
        };
        if (50..52).contains(&block) {
            return (2, 1, 2.0 * 0.4 + 0.25 + f64::from(3 + block as i32 - 50) / 10.0);
        }
        if place < 60 {
            let (cylinder, head, sector) = (place / 20, place % 20 / 10, place % 10);
            let turns = cylinder as f64 * 0.4 + head as f64 * 0.25 + sector as f64 / 10.0;
            return (cylinder as u32, head as u32, turns);
        }
        let place = place - 60;
        let (step, head, sector) = (place / 16, place % 16 / 8, place % 8);
        let turns = 0.5 - step as f64 * 0.2 + head as f64 * 0.125 + sector as f64 / 8.0;
        ((5 - step) as u32, head as u32, turns)
    }

    #[test]
    fn blocks_are_where_the_patterns_put_them() {
        let table = TrackTable::new(small(SMALL).expect("sound")).expect("contiguous");
        assert_eq!(table.capacity().0, 105);
        for block in 0..105u64 {
            let extent = table.locate(Sector(block));
            let (cylinder, head, turns) = slow(block.cast_signed());
            assert_eq!((extent.cylinder, extent.head), (cylinder, head), "block {block}");
            let inside = (block - extent.first.0) as f64 / f64::from(extent.sectors_per_turn);
            let apart = (f64::from(extent.angle) / 2f64.powi(32) + inside - turns).rem_euclid(1.0);
            assert!(apart.min(1.0 - apart) < 1e-6, "block {block} is {apart} turns off");
        }
    }

    #[test]
    fn trees_that_are_none_are_refused() {
        let rows = [
            ("IDX, 1 ]", "IDX, 7 ]"),
            ("TRACK, 1, 0", "TRACK, 9, 0"),
            ("60, 5, 0.5", "61, 5, 0.5"),
            ("0, 7, 8", "0, 8, 8"),
            ("2, 1, 3, 10 ]", "2, 1, 9, 10 ]"),
        ];
        for (from, to) in rows {
            assert!(matches!(small(&SMALL.replace(from, to)), Err(ImportError::BadValue { .. })), "{to}");
        }
    }
}
