//! What a repair writes where copies, parity and data disagree, held against a slow oracle: for each row of each stripe all ways are
//! tried in which one unit is wrong, or a minority of copies. Where exactly one fits, that is mended; elsewhere nothing changes.

use super::scan;
use super::world::{World, config, with_integrity};
use raidlab_controller::{Notice, Scan, ScanCounts, Undecided};
use raidlab_raid::{StripUnit, gf};
use raidlab_testkit::{BLOCK, multiply};
use raidlab_units::{BlockCount, Lba, MemberIndex};
use std::collections::{BTreeMap, BTreeSet};

const LEVELS: [(&str, u16); 15] = [
    ("1", 2),
    ("1", 3),
    ("1", 4),
    ("1", 5),
    ("1e", 5),
    ("10", 4),
    ("10:far", 4),
    ("10:offset", 6),
    ("3", 4),
    ("5", 4),
    ("6", 4),
    ("6", 5),
    ("6", 8),
    ("50:2-spans", 6),
    ("60:2-spans", 10),
];

/// Where the blocks of a row stand: data by strip and copy, then parities.
type Row = Vec<(StripUnit, MemberIndex, u64)>;

/// All rows under each lock.
fn rows(world: &World) -> Vec<Row> {
    let parities = world.controller.layout().shape().parities;
    let mut rows = BTreeMap::<_, Row>::new();
    for (role, block, (stripe, unit, row)) in world.all_blocks() {
        let strip = match unit {
            StripUnit::Data { strip, .. } if parities == 0 => strip,
            _ => 0,
        };
        rows.entry((stripe, strip, row)).or_default().push((unit, role, block));
    }
    let order = |unit: &StripUnit| match *unit {
        StripUnit::Data { strip, copy } => (0, strip, copy),
        StripUnit::Parity(parity) => (1, parity, 0),
    };
    for row in rows.values_mut() {
        row.sort_by_key(|(unit, ..)| order(unit));
    }
    rows.into_values().collect()
}

fn contents(world: &mut World, row: &Row) -> Vec<Vec<u8>> {
    row.iter().map(|(_, role, block)| world.block_mut(*role, *block).to_vec()).collect()
}

/// What parity should be by the data.
fn parity(data: &[Vec<u8>], number: u16) -> Vec<u8> {
    let mut sum = vec![0; BLOCK];
    for (strip, bytes) in (0..).zip(data) {
        let factor = if number == 0 { 1 } else { gf::pow2(strip) };
        sum.iter_mut().zip(bytes).for_each(|(sum, byte)| *sum ^= multiply(factor, *byte));
    }
    sum
}

fn agrees(units: &[Vec<u8>], parities: usize) -> bool {
    let (data, stored) = units.split_at(units.len() - parities);
    (0..).zip(stored).all(|(number, stored)| *stored == parity(data, number))
}

/// The row as it is after a repair; none if nothing says what is wrong.
fn oracle(units: &[Vec<u8>], parities: usize) -> Option<Vec<Vec<u8>>> {
    if parities == 0 {
        let holders = |content: &Vec<u8>| units.iter().filter(|other| *other == content).count();
        let right = units.iter().find(|content| 2 * holders(content) > units.len())?;
        return Some(vec![right.clone(); units.len()]);
    }
    if agrees(units, parities) {
        return Some(units.to_vec());
    }
    let data_strips = units.len() - parities;
    let mut ways = Vec::new();
    for unit in 0..units.len() {
        let mut other = units.to_vec();
        if unit < data_strips {
            other[unit] = vec![0; BLOCK];
            let rest = parity(&other[..data_strips], 0);
            other[unit] = rest.iter().zip(&units[data_strips]).map(|(one, other)| one ^ other).collect();
        } else {
            other[unit] = parity(&units[..data_strips], (unit - data_strips) as u16);
        }
        if agrees(&other, parities) {
            ways.push(other);
        }
    }
    if ways.len() == 1 { ways.pop() } else { None }
}

/// Corrupts up to `units` units of some rows, each once.
fn corrupt(world: &mut World, rows: &[Row], units: u64) {
    let mut corrupted = BTreeSet::new();
    let count = 1 + world.draw(6);
    let mut at = world.draw(rows.len() as u64) as usize;
    for _ in 0..count {
        // Rows beside each other and rows apart.
        at = if world.draw(2) == 0 { at + 1 } else { world.draw(rows.len() as u64) as usize } % rows.len();
        if !corrupted.insert(at) {
            continue;
        }
        let row = &rows[at];
        for _ in 0..units.min(row.len() as u64) {
            let (_, role, block) = row[world.draw(row.len() as u64) as usize];
            let (kind, seed) = (world.draw(3), world.draw(1 << 20));
            let bytes = world.block_mut(role, block);
            match kind {
                0 => bytes.fill(0),
                1 => bytes[seed as usize % BLOCK] ^= 1 + (seed >> 10) as u8 % 255,
                _ => (0..).zip(bytes).for_each(|(at, byte)| *byte ^= ((seed * (at * 2 + 1)) >> 5) as u8 | 1),
            }
        }
    }
}

fn images(world: &World) -> Vec<Vec<u8>> {
    world.devices.iter().map(|device| device.bytes.clone()).collect()
}

/// Blocks of the volume that were told to be undecided.
fn told(world: &World) -> u64 {
    let strip = super::world::STRIP;
    let blocks = |notice: &Notice| match notice {
        Notice::Undecided(Undecided { lba, blocks, strips }) => {
            assert_eq!(lba.0 / strip, (lba.0 + blocks.0 - 1) / strip, "within a strip");
            blocks.0 * u64::from(*strips)
        }
        _ => 0,
    };
    world.notices.iter().map(blocks).sum()
}

#[test]
fn a_repair_writes_what_the_evidence_says_and_nothing_else() {
    let mut decided = BTreeMap::<&str, [u32; 2]>::new();
    for (level, members) in LEVELS {
        for seed in 1..40 {
            let mut world = World::new(&config(level, members, 4), seed);
            let parities = usize::from(world.controller.layout().shape().parities);
            let rows = rows(&world);
            let units = 1 + seed % 3;
            corrupt(&mut world, &rows, units);
            let what = format!("RAID {level} x{members}, seed {seed}");
            let before = images(&world);
            let mut expected = World::new(&config(level, members, 4), 0);
            let (mut undecided, mut wrong) = (0, 0);
            for row in &rows {
                let found = contents(&mut world, row);
                let right = oracle(&found, parities);
                let is_undecided = right.is_none();
                for (((_, role, block), found), right) in
                    row.iter().zip(&found).zip(right.as_ref().unwrap_or(&found))
                {
                    wrong += u64::from(found != right);
                    if units == 1 && !is_undecided {
                        assert!(expected.block_mut(*role, *block) == right, "{what}: the oracle");
                    }
                    expected.block_mut(*role, *block).copy_from_slice(right);
                }
                undecided += u64::from(is_undecided);
            }
            let checked = scan(&mut world, Scan::Check);
            assert!(images(&world) == before, "{what}: a check changes nothing");
            assert_eq!(world.controller.wrong_rows() > 0, wrong > 0, "{what}: what it leaves wrong is known");
            let repaired = scan(&mut world, Scan::Repair);
            assert!(images(&world) == images(&expected), "{what}: {repaired:?}");
            for counts in [checked, repaired] {
                assert_eq!(counts.undecided_rows, undecided, "{what}");
            }
            let ScanCounts { mismatched_rows, rewritten_rows, .. } = repaired;
            assert_eq!(mismatched_rows, checked.mismatched_rows, "{what}");
            assert!(rewritten_rows >= wrong && mismatched_rows >= wrong + undecided, "{what}: {repaired:?}");
            let blocks_each = if parities > 0 { rows[0].len() - parities } else { 1 } as u64;
            assert_eq!(told(&world), 2 * undecided * blocks_each, "{what}: both tell");
            let listed: u64 =
                world.controller.undecided().iter().map(|it| it.blocks.0 * u64::from(it.strips)).sum();
            assert_eq!(listed, undecided * blocks_each, "{what}");
            assert_eq!(world.controller.wrong_rows(), 0, "{what}: nothing is left wrong");
            let again = scan(&mut world, Scan::Check);
            assert_eq!(world.controller.wrong_rows(), 0, "{what}");
            assert_eq!(again.undecided_rows, undecided, "{what}: what is decided is mended");
            let counts = decided.entry(level).or_default();
            counts[0] += u32::from(wrong > 0);
            counts[1] += u32::from(undecided > 0);
        }
    }
    // The draws reach both where both can be.
    for (level, [mended, left]) in decided {
        let has_majority = matches!(level, "1" | "6" | "60:2-spans");
        assert_eq!(mended > 0, has_majority, "RAID {level}");
        assert!(left > 0, "RAID {level}");
    }
}

/// What is in doubt after a crash is no evidence against anybody: parity is made from the data there.
#[test]
fn what_a_crash_left_is_made_to_agree() {
    for (level, members) in [("5", 4), ("6", 5), ("50:2-spans", 6)] {
        let mut world = World::new(&config(level, members, 4), 3);
        world.crash();
        world.controller.handle_scan_rate(world.now, None);
        world.pump();
        world.settle();
        world.check_devices();
        let counts = scan(&mut world, Scan::Repair);
        assert_eq!((counts.mismatched_rows, counts.undecided_rows), (0, 0), "RAID {level}");
    }
}

#[test]
fn who_trusts_the_data_gets_parity_from_it_and_copies_of_the_first() {
    for (level, members) in LEVELS {
        let mut world = World::new(&config(level, members, 4), 7);
        let rows = rows(&world);
        let parities = usize::from(world.controller.layout().shape().parities);
        corrupt(&mut world, &rows, 2);
        let before: Vec<_> = rows.iter().map(|row| contents(&mut world, row)).collect();
        let counts = scan(&mut world, Scan::RepairFromData);
        assert_eq!(counts.undecided_rows, 0, "RAID {level}");
        for (row, before) in rows.iter().zip(before) {
            let after = contents(&mut world, row);
            if parities == 0 {
                assert!(after.iter().all(|copy| *copy == before[0]), "RAID {level}");
            } else {
                let data = row.len() - parities;
                assert!(after[..data] == before[..data], "RAID {level}");
                assert!(agrees(&after, parities), "RAID {level}");
            }
        }
    }
}

/// A run of which all rows of one strip are wrong is mended in one, whichever strip it is.
#[test]
fn a_strip_that_is_wrong_is_found_by_both_parities() {
    for members in [4, 5, 8, 20] {
        for strip in 0..members {
            let mut world = World::new(&config("6", members, 1), 0);
            world.devices[usize::from(strip)].bytes.fill(0);
            let counts = scan(&mut world, Scan::Repair);
            assert_eq!((counts.mismatched_rows, counts.rewritten_rows, counts.undecided_rows), (8, 8, 0));
            assert_eq!(world.count().writes, 1);
            world.check_devices();
            let told = Notice::Outvoted {
                member: MemberIndex(strip),
                lba: raidlab_units::MemberLba(0),
                blocks: BlockCount(8),
            };
            assert!(world.notices.contains(&told), "{:?}", world.notices);
        }
    }
}

/// Nobody knows what a row holds that can't be read in one copy while the others disagree.
#[test]
fn what_can_not_be_read_is_no_reason_to_believe_the_rest() {
    for (level, members) in [("1", 3), ("6", 5)] {
        let mut world = World::new(&config(level, members, 1), 0);
        let layout = world.controller.layout();
        let unit = |world: &World, unit| world.controller.layout().place(raidlab_units::StripeIndex(0), unit);
        let (unreadable, wrong) = if layout.shape().parities > 0 {
            (unit(&world, StripUnit::Parity(0)), unit(&world, StripUnit::Parity(1)))
        } else {
            let copy = |copy| StripUnit::Data { strip: 0, copy };
            (unit(&world, copy(2)), unit(&world, copy(1)))
        };
        world.devices[unreadable.member.index()].unreadable.extend([2, 5]);
        world.block_mut(wrong.member, 5)[9] ^= 1;
        let before = images(&world);
        let counts = scan(&mut world, Scan::Repair);
        assert_eq!((counts.undecided_rows, counts.rewritten_rows), (1, 1), "RAID {level}");
        let unreadable = &world.devices[unreadable.member.index()].unreadable;
        assert_eq!(
            unreadable.iter().copied().collect::<Vec<_>>(),
            [5],
            "RAID {level}: the other is restored"
        );
        assert!(images(&world)[wrong.member.index()] == before[wrong.member.index()], "RAID {level}");
        let told = Notice::Undecided(Undecided {
            lba: Lba(5),
            blocks: BlockCount(1),
            strips: if level == "1" { 1 } else { 3 },
        });
        assert!(world.notices.contains(&told), "RAID {level}: {:?}", world.notices);
    }
}

/// What a parity made up agrees with it whatever else is wrong, so the other parity is not what is wrong because it stands alone.
#[test]
fn data_that_was_made_up_outvotes_no_parity() {
    let mut world = World::new(&config("6", 5, 1), 0);
    let place = |world: &World, unit| world.controller.layout().place(raidlab_units::StripeIndex(0), unit);
    let data = |strip| StripUnit::Data { strip, copy: 0 };
    let (unreadable, wrong) = (place(&world, data(0)).member, place(&world, data(1)).member);
    let parity = place(&world, StripUnit::Parity(1)).member;
    world.devices[unreadable.index()].unreadable.extend([2, 5]);
    world.block_mut(wrong, 5)[9] ^= 1;
    let before = images(&world)[parity.index()].clone();
    let counts = scan(&mut world, Scan::Repair);
    assert_eq!(counts.undecided_rows, 1);
    assert!(images(&world)[parity.index()] == before, "the second parity is left alone");
    assert_eq!(world.controller.undecided().len(), 1);
}

/// Checksums say what is wrong where parity alone can't.
#[test]
fn with_checksums_one_wrong_unit_is_always_found() {
    for (level, members) in LEVELS {
        for seed in 1..10 {
            let mut world = World::new(&with_integrity(config(level, members, 4)), seed);
            let rows = rows(&world);
            corrupt(&mut world, &rows, 1);
            let counts = scan(&mut world, Scan::Repair);
            assert_eq!((counts.undecided_rows, counts.unreadable_rows), (0, 0), "RAID {level}");
            world.check_devices();
        }
    }
}
