//! Resyncs: stripes whose redundancy may disagree are made to agree before anybody relies on it.

use super::last_counts;
use super::world::{Counted, STRIP, World, config};
use raidlab_controller::{DeviceState, HostError, HostOp, Notice, Scan, WritePolicy};
use raidlab_format::BadReason;
use raidlab_testkit::BLOCK;
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, MemberLba};

/// Spoils what redundancy of the first stripe holds: P of RAID 5, the second copy of RAID 1.
fn spoil(world: &mut World, device: usize) {
    for row in [0, 4] {
        world.devices[device].bytes[row * BLOCK..][..BLOCK].fill(0x42);
    }
}

#[test]
fn a_resync_makes_redundancy_agree() {
    for (level, members, device, stripes) in
        [("5", 4, 3, 0..3), ("6", 5, 4, 0..2), ("1", 3, 1, 0..4), ("10", 4, 1, 0..1)]
    {
        let mut world = World::new(&config(level, members, 6), 17);
        spoil(&mut world, device);
        let count = stripes.end;
        world.controller.mark_out_of_sync(stripes);
        assert_eq!(world.controller.out_of_sync_stripes(), count);
        world.controller.handle_timer(world.now, raidlab_controller::TimerId(0));
        world.pump();
        assert_eq!(world.notices, [Notice::ScanStarted { scan: Scan::Resync }]);
        world.settle();
        let counts = last_counts(&world);
        assert_eq!(
            (counts.stripes, counts.mismatched_rows, counts.rewritten_rows),
            (count, 2, 5),
            "RAID {level}"
        );
        assert_eq!(world.controller.out_of_sync_stripes(), 0);
        world.check_devices();
    }
}

#[test]
fn the_host_has_its_stripe_resynced_first() {
    let write = HostOp::Write { fua: false };
    // Level, members, request, reads and writes of the resync and of the request.
    for (level, members, op, io) in [
        ("5", 4, HostOp::Read, Counted { reads: 4 + 1, writes: 1 }),
        ("5", 4, write, Counted { reads: 4 + 2, writes: 1 + 2 }),
        ("6", 6, HostOp::Read, Counted { reads: 6 + 1, writes: 1 }),
        ("1", 2, HostOp::Read, Counted { reads: 2 + 1, writes: 1 }),
        ("1", 2, write, Counted { reads: 2, writes: 1 + 2 }),
    ] {
        let mut world = World::new(&config(level, members, 6), 0);
        world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
        spoil(&mut world, if level == "1" { 1 } else { usize::from(members) - 1 });
        world.controller.mark_out_of_sync(0..2);
        assert_eq!(world.run(op, 0, 1), Ok(()), "RAID {level}");
        assert_eq!(world.count(), io, "RAID {level} {op:?}");
        assert_eq!(world.controller.out_of_sync_stripes(), 1, "RAID {level}");
        assert_eq!(world.read(0, 1), Ok(()));
        assert_eq!(world.count(), Counted { reads: 1, writes: 0 }, "RAID {level}: once is enough");
        world.check_devices();
    }
}

/// Defect (plan `2004916-beyond` of torture): all rows of the first copy were written anew from the second, also those that had been
/// read and told.
#[test]
fn a_bad_block_of_the_first_copy_leaves_its_other_rows_first() {
    let mut world = World::new(&config("1", 2, 6), 5);
    spoil(&mut world, 1);
    world.devices[0].unreadable.insert(2);
    world.controller.mark_out_of_sync(0..1);
    assert_eq!(world.read(0, 1), Ok(()));
    world.settle();
    assert_eq!(world.controller.out_of_sync_stripes(), 0);
    world.check_devices();
    assert!(world.devices[0].unreadable.is_empty(), "the block is made up from the second copy");
}

#[test]
fn a_destage_and_a_degraded_read_come_after_the_resync() {
    let mut config = config("5", 4, 6);
    config.cache.write_policy = WritePolicy::WriteBack;
    let mut world = World::new(&config, 21);
    world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
    spoil(&mut world, 3);
    world.controller.mark_out_of_sync(0..1);
    assert_eq!(world.write(2, 3), Ok(()));
    world.controller.handle_destage_all(world.now);
    world.pump();
    world.settle();
    assert_eq!(world.controller.out_of_sync_stripes(), 0);
    world.check_devices();
    world.devices[1].unreadable.insert(4);
    assert_eq!(world.read(0, 3 * STRIP), Ok(()));
}

#[test]
fn what_can_not_be_told_is_an_error_and_never_a_guess() {
    let mut world = World::new(&config("5", 4, 6), 23);
    world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
    spoil(&mut world, 3);
    world.controller.mark_out_of_sync(0..6);
    // Device 1 holds strip 1 of stripe 0, whose parity can't be trusted.
    world.lose(1);
    assert_eq!(world.read(STRIP, 1), Err(HostError::DataLost { lba: Lba(STRIP) }));
    assert_eq!(world.read(0, STRIP), Ok(()), "strip 0 is read as it stands");
    world.count();
    assert_eq!(world.write(0, 2), Ok(()), "it has a device to stand on");
    assert_eq!(world.count(), Counted { reads: 0, writes: 1 }, "and parity is left alone");
    assert_eq!(world.write(STRIP, 2), Err(HostError::ArrayFailed { lba: Lba(STRIP) }));
    assert_eq!(world.controller.out_of_sync_stripes(), 6);
    // All rows of the missing strip: parity is computed from all data and can be trusted.
    assert_eq!(world.write(STRIP, STRIP), Ok(()));
    assert_eq!(world.controller.out_of_sync_stripes(), 5);
    assert_eq!(world.read(0, 3 * STRIP), Ok(()));
    // Stripe 2 has its parity on device 1: all its data is there, so it is resynced.
    assert_eq!(world.read(2 * 3 * STRIP, 3 * STRIP), Ok(()));
    assert_eq!(world.controller.out_of_sync_stripes(), 4);
}

#[test]
fn a_rebuild_of_out_of_sync_stripes_loses_what_only_parity_could_tell() {
    let mut config = config("5", 4, 8);
    config.resilience.spares = 1;
    let mut world = World::new(&config, 25);
    world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
    world.controller.mark_out_of_sync(0..4);
    world.lose(1);
    world.controller.handle_scan_rate(world.now, None);
    world.pump();
    world.settle();
    assert_eq!(world.state(4), DeviceState::InSync { role: MemberIndex(1) });
    assert_eq!(world.controller.out_of_sync_stripes(), 0);
    // Parity of stripe 2 is on the lost device and is made anew; the data of stripes 0, 1 and 3 there is lost.
    let lost: u64 = world.bad().iter().filter(|bad| bad.0 == 4).map(|bad| bad.2).sum();
    assert_eq!(lost, 3 * STRIP, "{:?}", world.bad());
    assert_eq!(world.read(STRIP, 1), Err(HostError::DataLost { lba: Lba(STRIP) }));
    assert_eq!(world.read(2 * 3 * STRIP, 3 * STRIP), Ok(()));
    assert_eq!(world.read(4 * 3 * STRIP, 4 * 3 * STRIP), Ok(()));
    world.check_devices();
    assert_eq!(world.write(0, world.controller.volume_blocks().0), Ok(()));
    assert_eq!(world.bad(), []);
    world.check_devices();
}

#[test]
fn unreadable_data_of_a_stripe_out_of_sync_is_lost_and_its_parity_given_up() {
    let mut world = World::new(&config("6", 5, 4), 27);
    // Stripe 0: Q on 0, data on 1 to 3, P on 4.
    world.devices[2].unreadable.extend([3, 5]);
    world.controller.mark_out_of_sync(0..1);
    world.controller.handle_timer(world.now, raidlab_controller::TimerId(0));
    world.pump();
    world.settle();
    assert_eq!(last_counts(&world).unreadable_rows, 2);
    let bad = [(0, 3, 1), (0, 5, 1), (2, 3, 1), (2, 5, 1), (4, 3, 1), (4, 5, 1)];
    assert_eq!(world.bad(), bad);
    assert_eq!(world.read(STRIP + 3, 1), Err(HostError::DataLost { lba: Lba(STRIP + 3) }));
    assert_eq!(world.read(STRIP + 4, 1), Ok(()));
    assert_eq!(world.write(0, 1), Ok(()), "rows beside it are written as ever");
    assert_eq!(world.write(STRIP, STRIP), Ok(()));
    assert_eq!(world.bad(), []);
    world.check_devices();
}

#[test]
fn a_mirror_with_one_copy_has_nothing_to_disagree_with() {
    let mut world = World::new(&config("1", 2, 4), 29);
    world.lose(0);
    world.controller.mark_out_of_sync(0..4);
    assert_eq!(world.read(0, 4 * STRIP), Ok(()));
    assert_eq!(world.controller.out_of_sync_stripes(), 0);
}

/// What stands in a block on the list may be older than what was acknowledged, though it can be read: a write to it failed.
/// So only redundancy counts there, and a crash that has put that in doubt takes the block, with a tag that agrees, too.
#[test]
fn a_bad_block_that_can_be_read_is_not_believed_where_parity_is_in_doubt() {
    for integrity in [false, true] {
        let mut config = config("5", 4, 6);
        config.resilience.integrity = integrity;
        let mut world = World::new(&config, 31);
        let (device, at) = (MemberIndex(1), MemberLba(2));
        world.controller.mark_bad_blocks(device, at, BlockCount(1));
        world.controller.mark_out_of_sync(0..1);
        let lost = Err(HostError::DataLost { lba: Lba(STRIP + 2) });
        assert_eq!(world.read(STRIP + 2, 1), lost, "integrity: {integrity}");
        let told = Notice::BlocksLost {
            member: device,
            lba: at,
            blocks: BlockCount(1),
            reason: BadReason::Unreadable,
        };
        assert!(world.notices.contains(&told), "integrity: {integrity}");
        assert_eq!(world.read(STRIP, 2), Ok(()));
        assert_eq!(world.write(STRIP + 2, 1), Ok(()));
        assert_eq!(world.read(STRIP + 2, 1), Ok(()));
    }
}
