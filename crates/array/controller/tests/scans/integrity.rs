//! Tags: silent corruption, lost writes and writes to a wrong place are found when they are read, and healed.

use super::scan;
use super::world::{Counted, STRIP, World, WriteFault, config, with_integrity};
use raidlab_controller::{HostError, HostOp, IoPolicy, MemberCache, Notice, Scan, WritePolicy};
use raidlab_raid::StripUnit;
use raidlab_testkit::BLOCK;
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, MemberLba};

/// Levels that can heal, with their members.
const REDUNDANT: [(&str, u16); 10] = [
    ("1", 2),
    ("1", 3),
    ("10", 4),
    ("10:far", 4),
    ("1e", 5),
    ("3", 4),
    ("5", 5),
    ("6", 6),
    ("50:2-spans", 6),
    ("60:2-spans", 8),
];

/// What goes wrong with one block.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Data,
    Tag,
    DataWriteLost,
    TagWriteLost,
    DataWriteElsewhere,
}

const ALL: [Wrong; 5] =
    [Wrong::Data, Wrong::Tag, Wrong::DataWriteLost, Wrong::TagWriteLost, Wrong::DataWriteElsewhere];

/// Each place of a unit of stripe 0: device (which is the role, too) and the block where it begins.
fn units(world: &World, strip: u16) -> Vec<(MemberIndex, u64)> {
    let shape = world.controller.layout().shape();
    let copies = (0..shape.copies).map(|copy| StripUnit::Data { strip, copy });
    let parities = (0..shape.parities).map(StripUnit::Parity);
    let places = copies.chain(parities).map(|unit| {
        let place = world.controller.layout().place(raidlab_units::StripeIndex(0), unit);
        (place.member, place.start.0)
    });
    places.collect()
}

/// Lets row 3 of a unit go wrong while blocks 2 to 4 of the volume are written.
fn go_wrong(world: &mut World, wrong: Wrong, (device, start): (MemberIndex, u64)) {
    let block = start + 3;
    let (tag_block, tag_byte) = world.tag_place(block);
    let data_block = world.physical(block);
    // A strip further on, of the same device.
    let elsewhere = world.physical(block + STRIP);
    let fault = match wrong {
        Wrong::Data | Wrong::Tag => None,
        Wrong::DataWriteLost => Some((data_block, None)),
        Wrong::TagWriteLost => Some((tag_block, None)),
        Wrong::DataWriteElsewhere => Some((data_block, Some(elsewhere))),
    };
    if let Some((block, to)) = fault {
        world.write_faults.push(WriteFault { device: device.0, block, to });
    }
    assert_eq!(world.write(2, 3), Ok(()));
    assert_eq!(world.write_faults, [], "{wrong:?} came to pass");
    let bytes = &mut world.devices[device.index()].bytes;
    match wrong {
        Wrong::Data => bytes[data_block as usize * BLOCK + 100] ^= 4,
        Wrong::Tag => bytes[tag_block as usize * BLOCK + tag_byte] ^= 4,
        _ => {}
    }
    world.count();
}

fn mismatches(world: &World) -> Vec<(u16, u64, u64)> {
    let found = world.notices.iter().filter_map(|notice| match notice {
        Notice::Mismatch { member, lba, blocks } => Some((member.0, lba.0, blocks.0)),
        _ => None,
    });
    found.collect()
}

/// True if the block of the device is among those found.
fn names(found: &[(u16, u64, u64)], (device, block): (u16, u64)) -> bool {
    found.iter().any(|it| it.0 == device && (it.1..it.1 + it.2).contains(&block))
}

#[test]
fn a_read_finds_and_heals() {
    for (level, members) in REDUNDANT {
        for wrong in ALL {
            for io_policy in [IoPolicy::Direct, IoPolicy::Cached] {
                let mut config = with_integrity(config(level, members, 4));
                config.cache.io_policy = io_policy;
                let mut world = World::new(&config, 0);
                let unit = units(&world, 0)[0];
                go_wrong(&mut world, wrong, unit);
                let what = format!("RAID {level} x{members} {wrong:?} {io_policy:?}");
                let volume = world.controller.volume_blocks().0;
                // The first copy is read by the first of these; a block that went elsewhere is met, too.
                for _ in 0..members {
                    assert_eq!(world.read(0, 2 * STRIP), Ok(()), "{what}");
                    assert_eq!(world.read(0, volume), Ok(()), "{what}");
                }
                let found = mismatches(&world);
                let here = (unit.0.0, unit.1 + 3);
                assert!(names(&found, here), "{what}: {:?}", world.notices);
                let counted: u64 = found.iter().map(|it| it.2).sum();
                assert_eq!(world.controller.counters().mismatched_blocks, counted, "{what}");
                let restored = world
                    .notices
                    .iter()
                    .any(|notice| matches!(notice, Notice::Restored { member, .. } if *member == unit.0));
                assert!(restored, "{what}: {:?}", world.notices);
                if let Wrong::DataWriteElsewhere = wrong {
                    scan(&mut world, Scan::Check);
                }
                world.check_devices();
                let before = mismatches(&world).len();
                assert_eq!(world.read(0, volume), Ok(()));
                assert_eq!(mismatches(&world).len(), before, "{what}: healed");
            }
        }
    }
}

#[test]
fn a_check_finds_and_heals_in_every_unit() {
    for (level, members) in REDUNDANT {
        for wrong in ALL {
            let count = units(&World::new(&with_integrity(config(level, members, 4)), 0), 0).len();
            for unit in 0..count {
                let mut world = World::new(&with_integrity(config(level, members, 4)), 3);
                let unit = units(&world, 0)[unit];
                go_wrong(&mut world, wrong, unit);
                scan(&mut world, Scan::Check);
                let what = format!("RAID {level} x{members} {wrong:?} {unit:?}");
                let here = (unit.0.0, unit.1 + 3);
                let found = mismatches(&world);
                assert!(names(&found, here), "{what}: {:?}", world.notices);
                world.check_devices();
                let before = found.len();
                scan(&mut world, Scan::Check);
                assert_eq!(mismatches(&world).len(), before, "{what}: healed");
            }
        }
    }
}

#[test]
fn without_redundancy_it_is_an_error_until_it_is_written() {
    for (level, members) in [("0", 3), ("jbod", 2)] {
        for wrong in ALL {
            let mut world = World::new(&with_integrity(config(level, members, 4)), 0);
            let unit = units(&world, 0)[0];
            go_wrong(&mut world, wrong, unit);
            let what = format!("{level} {wrong:?}");
            let lost = |lba| Err(HostError::DataLost { lba: Lba(lba) });
            // With a tag block that was not written, all that was written with it is an error.
            let all = matches!(wrong, Wrong::TagWriteLost);
            assert_eq!(world.read(3, 1), lost(3), "{what}");
            // Which of them is told first is open: what has been found bad is not waited for.
            assert!(matches!(world.read(0, STRIP), Err(HostError::DataLost { .. })), "{what}");
            assert_eq!(world.read(2, 1), if all { lost(2) } else { Ok(()) }, "{what}");
            assert_eq!(world.read(0, 2), Ok(()), "{what}");
            assert!(names(&mismatches(&world), (unit.0.0, unit.1 + 3)), "{what}: {:?}", world.notices);
            assert_eq!(world.write(2, 3), Ok(()), "{what}");
            assert_eq!(world.read(0, STRIP), Ok(()), "{what}");
        }
    }
}

#[test]
fn a_member_that_lies_in_a_degraded_stripe_is_an_error() {
    let mut world = World::new(&with_integrity(config("5", 4, 4)), 0);
    go_wrong(&mut world, Wrong::DataWriteLost, (MemberIndex(0), 0));
    world.lose(1);
    assert_eq!(world.read(3, 1), Err(HostError::DataLost { lba: Lba(3) }));
    assert_eq!(world.read(4, 4), Ok(()));
    assert_eq!(world.write(3, 1), Ok(()));
    assert_eq!(world.read(0, STRIP), Ok(()));
    world.check_devices();
}

/// The first write of a block of zeros, which has a tag of zeros.
#[test]
fn the_first_write_of_a_block_is_found_lost_like_any_other() {
    for wrong in ALL {
        let mut world = World::new(&with_integrity(config("5", 4, 4)), 0);
        for device in &mut world.devices {
            device.bytes.fill(0);
        }
        world.reads_race = true;
        assert_eq!(world.read(0, world.controller.volume_blocks().0), Ok(()));
        assert_eq!(mismatches(&world), [], "zeros are what nobody has written");
        world.reads_race = false;
        go_wrong(&mut world, wrong, (MemberIndex(0), 0));
        assert_eq!(world.read(2, 3), Ok(()), "{wrong:?}");
        assert!(names(&mismatches(&world), (0, 3)), "{wrong:?}: {:?}", world.notices);
    }
}

#[test]
fn reads_that_race_with_writes_never_find_a_difference() {
    for (level, members) in [("0", 3), ("jbod", 2), ("1", 2), ("10", 4), ("5", 4), ("6", 5)] {
        for (seed, io_policy) in (1..40).flat_map(|seed| [(seed, IoPolicy::Direct), (seed, IoPolicy::Cached)])
        {
            let mut config = with_integrity(config(level, members, 2));
            config.cache.io_policy = io_policy;
            if seed % 4 == 0 {
                config.cache.write_policy = WritePolicy::WriteBack;
            }
            let mut world = World::new(&config, seed);
            world.reads_race = true;
            let volume = world.controller.volume_blocks().0;
            for _ in 0..60 {
                let lba = world.draw(volume.min(3 * STRIP));
                let blocks = 1 + world.draw(9.min(volume - lba));
                let op =
                    if world.draw(2) == 0 { HostOp::Read } else { HostOp::Write { fua: world.draw(4) == 0 } };
                world.submit(op, lba, blocks);
                for _ in 0..world.draw(12) {
                    world.step();
                }
            }
            world.controller.handle_destage_all(world.now);
            world.pump();
            world.settle();
            assert_eq!(mismatches(&world), [], "RAID {level} seed {seed}");
            assert_eq!(world.failed, 0, "RAID {level} seed {seed}");
        }
    }
}

#[test]
fn what_a_crash_left_apart_is_believed_and_tagged_anew() {
    for (level, members) in [("0", 3), ("1", 2), ("10", 4), ("5", 4), ("6", 5)] {
        let mut world = World::new(&with_integrity(config(level, members, 4)), 11);
        // Block 3 of each device got its tag and not its data, or the other way round: which it is does not
        // matter.
        for device in 0..members {
            world.set_tag(MemberIndex(device), 3, 0x1234_5678);
        }
        world.controller.mark_out_of_sync(0..world.controller.lock_count());
        assert_eq!(world.read(0, 5), Ok(()), "RAID {level}");
        world.settle();
        assert_eq!(world.controller.out_of_sync_stripes(), 0, "RAID {level}");
        assert_eq!(mismatches(&world), [], "RAID {level}");
        world.check_devices();
    }
}

/// A strip that lacks data elsewhere stays out of sync, and is read as it is.
#[test]
fn what_stays_in_doubt_is_believed() {
    let mut world = World::new(&with_integrity(config("5", 4, 4)), 13);
    world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
    world.set_tag(MemberIndex(0), 3, 0x1234_5678);
    world.controller.mark_out_of_sync(0..4);
    world.lose(1);
    assert_eq!(world.read(0, STRIP), Ok(()));
    assert_eq!(world.read(STRIP, 1), Err(HostError::DataLost { lba: Lba(STRIP) }));
    assert_eq!(world.write(4, 2), Ok(()), "its tag row is read from where the read has put it right");
    assert_eq!(world.read(0, STRIP), Ok(()));
    assert_eq!(mismatches(&world), []);
}

#[test]
fn tags_that_can_not_be_read_are_restored() {
    for (level, members) in REDUNDANT {
        for write in [false, true] {
            let mut world = World::new(&with_integrity(config(level, members, 4)), 0);
            let (device, start) = units(&world, 0)[0];
            let tag_block = world.tag_place(start).0;
            world.devices[device.index()].unreadable.insert(tag_block);
            let result = if write { world.write(2, 3) } else { world.read(2, 3) };
            assert_eq!(result, Ok(()), "RAID {level}");
            world.settle();
            world.check_devices();
            assert!(world.devices[device.index()].unreadable.is_empty(), "RAID {level}");
            assert_eq!(mismatches(&world), [], "RAID {level}: it is a medium error");
            assert_eq!(world.bad(), [], "RAID {level}");
        }
    }
    let mut world = World::new(&with_integrity(config("0", 2, 4)), 0);
    world.devices[0].unreadable.insert(STRIP);
    assert_eq!(world.read(0, 1), Err(HostError::DataLost { lba: Lba(0) }), "nothing vouches for it");
    assert_eq!(world.write(0, 1), Ok(()));
    assert_eq!(world.read(0, 1), Ok(()));
    assert_eq!(world.read(1, 1), Err(HostError::DataLost { lba: Lba(1) }));
    assert_eq!(world.write(1, STRIP - 1), Ok(()));
    assert_eq!(world.read(0, STRIP), Ok(()));
}

/// More at once than there are places for tags.
#[test]
fn places_for_tags_are_waited_for() {
    for (level, members) in [("0", 3), ("10", 4), ("5", 5), ("6", 6)] {
        for seed in 0..3 {
            let mut config = with_integrity(config(level, members, 600));
            config.staging_size = ByteCount(16 * 1024 * 1024);
            config.cache.coalesce_writes = seed != 1;
            let mut world = World::new(&config, seed);
            world.reads_race = true;
            let volume = world.controller.volume_blocks().0;
            for index in 0..1500 {
                let lba = index * 13 % (volume - 2);
                let op = if index % 3 == 0 { HostOp::Read } else { HostOp::Write { fua: false } };
                if op == HostOp::Read || !world.is_busy_with(lba, 2) {
                    world.submit(op, lba, 2);
                }
            }
            world.settle();
            assert_eq!((world.failed, mismatches(&world)), (0, vec![]), "RAID {level}");
            world.check_devices();
        }
    }
}

/// Strips whose tags take more than one block.
#[test]
fn strips_with_many_tag_blocks() {
    for (level, members) in [("0", 2), ("1", 2), ("5", 4), ("6", 5)] {
        let mut long = config(level, members, 3);
        long.strip_size = ByteCount(200 * BLOCK as u64);
        long.member_size = ByteCount(3 * long.strip_size.0);
        long.staging_size = ByteCount(4 << 20);
        long.resilience.spares = 1;
        let mut world = World::new(&with_integrity(long), 5);
        let volume = world.controller.volume_blocks().0;
        for (lba, blocks) in [(0, 1), (60, 8), (63, 1), (64, 64), (1, 199), (190, 20), (0, volume)] {
            assert_eq!(world.write(lba, blocks), Ok(()), "RAID {level}");
            world.check_devices();
            assert_eq!(world.read(lba, blocks), Ok(()), "RAID {level}");
        }
        if level != "0" {
            world.block_mut(MemberIndex(0), 130)[9] ^= 1;
            assert_eq!(world.read(0, volume), Ok(()), "RAID {level}");
            assert_eq!(world.read(0, volume), Ok(()), "RAID {level}");
            world.lose(0);
            world.settle();
            world.check_devices();
        }
        assert_eq!(world.failed, 0);
    }
}

#[test]
fn a_rebuild_writes_tags() {
    for (level, members) in REDUNDANT {
        for member_cache in [MemberCache::Off, MemberCache::On] {
            let mut config = with_integrity(config(level, members, 6));
            config.resilience.spares = 1;
            config.member_cache = member_cache;
            let mut world = World::new(&config, 31);
            world.lose(1);
            for lba in [0, 5, 40] {
                let _ = world.submit(HostOp::Write { fua: false }, lba, 3);
            }
            world.settle();
            assert!(world.check_devices() > 0);
            assert_eq!(
                world.state(members),
                raidlab_controller::DeviceState::InSync { role: MemberIndex(1) }
            );
            assert_eq!(mismatches(&world), [], "RAID {level}");
        }
    }
}

#[test]
fn a_difference_costs_one_reading_more_and_a_restore() {
    // Data and tag, both once more, what serves the host, what restores; the data of 2 rows and their tag
    // row.
    for (level, members, reads) in [("1", 2, 2 + 2 + 2 + 2 + 1), ("5", 6, 2 + 2 + 5 * 2 + 5 * 2 + 1)] {
        let mut world = World::new(&with_integrity(config(level, members, 4)), 0);
        for row in [3, 4] {
            world.block_mut(MemberIndex(0), row)[0] ^= 1;
        }
        assert_eq!(world.read(3, 2), Ok(()), "RAID {level}");
        assert_eq!(world.count(), Counted { reads, writes: 2 }, "RAID {level}");
        let (member, lba, blocks) = (MemberIndex(0), MemberLba(3), BlockCount(2));
        let told = [Notice::Mismatch { member, lba, blocks }, Notice::Restored { member, lba, blocks }];
        assert_eq!(world.notices, told, "RAID {level}");
        world.check_devices();
    }
}
