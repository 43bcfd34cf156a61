//! Restores, rebuilds, checks, repairs and resyncs: what they cost in member I/Os, what they leave on the devices, and what
//! they give up where redundancy is not enough.

mod cached;
mod evidence;
mod faults;
mod in_doubt;
mod integrity;
mod rebuild;
mod resync;
mod world;

use raidlab_controller::{HostError, Notice, Scan, ScanCounts, ScanEnd, ScanRefused};
use raidlab_format::BadReason;
use raidlab_units::{BlockCount, ByteCount, MemberIndex, MemberLba, Nanos};
use world::{Counted, STRIP, World, config};

/// The counts of the last scan that ended.
fn last_counts(world: &World) -> ScanCounts {
    let ended = world.notices.iter().rev().find_map(|notice| match notice {
        Notice::ScanEnded { progress, .. } => Some(progress.counts),
        _ => None,
    });
    ended.expect("a scan has ended")
}

fn scan(world: &mut World, scan: Scan) -> ScanCounts {
    world.controller.handle_scan(world.now, scan).expect("nothing else runs");
    world.pump();
    world.settle();
    last_counts(world)
}

#[test]
fn a_read_error_is_restored() {
    // Level, members, reads and writes behind a read of 2 bad blocks: the failed read, what serves the host, the restore.
    for (level, members, reads, writes) in
        [("1", 2, 1 + 1 + 1, 1), ("10", 4, 1 + 1 + 1, 1), ("5", 6, 1 + 5 + 5, 1), ("6", 6, 1 + 4 + 4, 1)]
    {
        let mut world = World::new(&config(level, members, 4), 0);
        let (stripe, strip, row) = world.controller.layout().locate(raidlab_units::Lba(3));
        let unit = raidlab_raid::StripUnit::Data { strip, copy: 0 };
        let place = world.controller.layout().place(stripe, unit);
        let lba = place.start + row;
        world.devices[place.member.index()].unreadable.extend([lba.0, lba.0 + 1]);
        assert_eq!(world.read(3, 2), Ok(()), "RAID {level}");
        assert_eq!(world.count(), Counted { reads, writes }, "RAID {level}");
        let restored = Notice::Restored { member: place.member, lba, blocks: BlockCount(2) };
        assert_eq!(world.notices, [restored], "RAID {level}");
        assert!(world.devices[place.member.index()].unreadable.is_empty());
        assert_eq!(world.read(3, 2), Ok(()));
        assert_eq!(
            world.count(),
            Counted { reads: 1, writes: 0 },
            "RAID {level}: read where it stands again"
        );
        world.check_devices();
    }
}

#[test]
fn many_reads_of_a_bad_block_restore_it_once() {
    let mut world = World::new(&config("5", 4, 4), 0);
    world.devices[0].unreadable.insert(1);
    for _ in 0..8 {
        world.submit(raidlab_controller::HostOp::Read, 0, 4);
    }
    world.settle();
    assert_eq!(world.notices.len(), 1, "{:?}", world.notices);
    // Eight reads, eight recoveries of three units, one restore from three.
    assert_eq!(world.count(), Counted { reads: 8 + 8 * 3 + 3, writes: 1 });
}

#[test]
fn checks_read_each_unit_once() {
    // Level, members, stripes, reads for each.
    for (level, members, stripes, reads) in [
        ("1", 2, 10, 2),
        ("1", 3, 10, 3),
        ("10", 6, 30, 2),
        ("1e", 5, 25, 2),
        ("5", 6, 10, 6),
        ("6", 6, 10, 6),
        ("50:2-spans", 6, 20, 3),
    ] {
        let mut world = World::new(&config(level, members, 10), 0);
        for kind in [Scan::Check, Scan::Repair, Scan::RepairFromData] {
            let counts = scan(&mut world, kind);
            let expected = ScanCounts { stripes, ..ScanCounts::default() };
            assert_eq!(counts, expected, "RAID {level} {kind:?}");
            let io = Counted { reads: stripes as u32 * reads, writes: 0 };
            assert_eq!(world.count(), io, "RAID {level} {kind:?}");
        }
    }
}

#[test]
fn a_check_counts_and_a_repair_rewrites_what_disagrees() {
    // Level, members, and the device that holds redundancy of stripe 0.
    for (level, members, device) in
        [("1", 2, 1), ("1", 3, 2), ("10", 4, 1), ("5", 4, 3), ("6", 5, 4), ("6", 5, 0), ("3", 4, 3)]
    {
        let mut world = World::new(&config(level, members, 4), 0);
        for row in [1, 2, 5] {
            world.devices[device].bytes[row * raidlab_testkit::BLOCK + 7] ^= 0x55;
        }
        let found = scan(&mut world, Scan::Check);
        assert_eq!((found.mismatched_rows, found.rewritten_rows), (3, 0), "RAID {level}");
        world.count();
        let repaired = scan(&mut world, Scan::RepairFromData);
        assert_eq!((repaired.mismatched_rows, repaired.rewritten_rows), (3, 5), "RAID {level}: their hull");
        assert_eq!(world.count().writes, 1, "RAID {level}");
        world.check_devices();
        assert_eq!(scan(&mut world, Scan::Check).mismatched_rows, 0);
    }
}

#[test]
fn a_check_restores_what_it_can_not_read() {
    for (level, members) in [("1", 2), ("10", 4), ("5", 4), ("6", 5)] {
        let mut world = World::new(&config(level, members, 6), 0);
        for device in 0..members {
            world.devices[usize::from(device)].unreadable.insert(u64::from(device) * STRIP + 3);
        }
        let counts = scan(&mut world, Scan::Check);
        assert_eq!((counts.mismatched_rows, counts.unreadable_rows), (0, 0), "RAID {level}");
        assert!(world.devices.iter().all(|device| device.unreadable.is_empty()), "RAID {level}");
        assert_eq!(world.notices.len(), usize::from(members) + 2, "RAID {level}: {:?}", world.notices);
        world.check_devices();
        assert_eq!(world.bad(), []);
    }
}

#[test]
fn a_check_passes_over_what_lacks_a_unit() {
    let mut world = World::new(&config("6", 6, 6), 0);
    world.lose(0);
    let counts = scan(&mut world, Scan::Check);
    // Of six stripes device 0 holds P of one and Q of another; there the other parity is compared.
    assert_eq!(counts.stripes, 6);
    assert_eq!(world.count(), Counted { reads: 2 * 5, writes: 0 });
}

/// Where a member is missing there is less to compare, or nothing: a check that found no difference does not vouch for that.
#[test]
fn a_check_counts_what_it_could_not_compare_in_full() {
    // Level, members, of how many stripes one member holds a part.
    for (level, members, stripes, of_one) in
        [("5", 4, 12, 12), ("6", 5, 12, 12), ("1", 2, 12, 12), ("10", 4, 24, 12)]
    {
        let mut world = World::new(&config(level, members, 12), 3);
        let whole = scan(&mut world, Scan::Check);
        assert_eq!((whole.stripes, whole.incomplete_stripes), (stripes, 0), "RAID {level}");
        world.lose(1);
        world.settle();
        let degraded = scan(&mut world, Scan::Check);
        assert_eq!((degraded.stripes, degraded.incomplete_stripes), (stripes, of_one), "RAID {level}");
        assert_eq!(degraded.mismatched_rows, 0, "RAID {level}");
    }
}

#[test]
fn scans_are_refused_where_they_can_not_be() {
    let mut world = World::new(&config("0", 2, 4), 0);
    let ask = |world: &mut World, scan| world.controller.handle_scan(world.now, scan);
    assert_eq!(ask(&mut world, Scan::Check), Err(ScanRefused::NoRedundancy));
    let mut world = World::new(&config("5", 3, 100), 0);
    assert_eq!(ask(&mut world, Scan::Resync), Err(ScanRefused::NotOnDemand));
    assert_eq!(ask(&mut world, Scan::Check), Ok(()));
    assert_eq!(ask(&mut world, Scan::Repair), Err(ScanRefused::Busy { scan: Scan::Check }));
    assert_eq!(world.controller.handle_scan_stop(world.now), Some(Scan::Check));
    world.pump();
    world.settle();
    let Some(Notice::ScanEnded { progress, end }) = world.notices.last() else { panic!("it has ended") };
    assert_eq!((*end, progress.number), (ScanEnd::Stopped, 1));
    assert!((1..100).contains(&progress.done), "{progress:?}");
    assert_eq!(world.controller.handle_scan_stop(world.now), None);
    assert_eq!(world.controller.scan_progress(), None);
    world.lose(0);
    world.lose(1);
    assert_eq!(ask(&mut world, Scan::Check), Err(ScanRefused::MembersLost));
}

#[test]
fn the_rate_bound_holds() {
    // 4 KiB strips at 1 MiB/s: 256 strips in a second on each member, whatever the level's stripes are.
    for (level, members, stripes) in [("5", 4, 512), ("1", 2, 512), ("10", 4, 1024), ("50:2-spans", 6, 1024)]
    {
        let mut slow = config(level, members, 512);
        slow.resilience.scan_bytes_per_sec = Some(ByteCount::from_mib(1));
        let mut world = World::new(&slow, 0);
        let start = world.now;
        let counts = scan(&mut world, Scan::Check);
        assert_eq!(counts.stripes, stripes);
        let seconds = (world.now.0 - start.0) as f64 / 1e9;
        assert!((1.95..2.05).contains(&seconds), "RAID {level}: {seconds} s");
    }
}

#[test]
fn progress_is_told_and_depth_kept() {
    let mut config = config("5", 4, 20);
    config.resilience.scan_iodepth = 3;
    let mut world = World::new(&config, 7);
    world.controller.handle_scan(world.now, Scan::Check).expect("free");
    world.pump();
    assert_eq!(world.in_flight.len(), 3 * 4, "three stripes at once");
    let mut last = 0;
    while let Some(progress) = world.controller.scan_progress() {
        assert_eq!((progress.scan, progress.total), (Scan::Check, 20));
        assert!(progress.done >= last);
        last = progress.done;
        world.step();
    }
    assert_eq!(last, 19, "the last one ends it");
}

#[test]
fn the_host_and_a_scan_take_turns_in_a_stripe() {
    let mut config = config("5", 4, 1);
    config.cache.coalesce_writes = false;
    let mut world = World::new(&config, 0);
    world.submit(raidlab_controller::HostOp::Write { fua: false }, 0, 1);
    world.submit(raidlab_controller::HostOp::Write { fua: false }, 0, 1);
    world.controller.handle_scan(world.now, Scan::Check).expect("free");
    world.pump();
    let late = world.submit(raidlab_controller::HostOp::Write { fua: false }, 0, 1);
    while world.controller.scan_progress().is_some() {
        assert_eq!(world.results[late], None, "it came after the check");
        world.step();
    }
    world.settle();
    assert_eq!(world.results, [Some(Ok(())); 3]);
    assert_eq!(last_counts(&world).mismatched_rows, 0);
}

#[test]
fn a_row_that_is_lost_is_an_error_until_it_is_written() {
    for (level, members) in [("1", 2), ("10", 4)] {
        let mut world = World::new(&config(level, members, 4), 0);
        world.devices[0].unreadable.extend([2, 3]);
        world.devices[1].unreadable.insert(3);
        let lost = Err(HostError::DataLost { lba: raidlab_units::Lba(3) });
        assert_eq!(world.read(0, 8), lost, "RAID {level}");
        assert_eq!(world.bad(), [(0, 3, 1), (1, 3, 1)], "RAID {level}");
        let told = |device| Notice::BlocksLost {
            member: MemberIndex(device),
            lba: MemberLba(3),
            blocks: BlockCount(1),
            reason: BadReason::Unreadable,
        };
        assert!(world.notices.contains(&told(0)), "RAID {level}: {:?}", world.notices);
        assert!(world.notices.contains(&told(1)), "RAID {level}: {:?}", world.notices);
        world.count();
        assert_eq!(world.read(3, 1), lost);
        assert_eq!(world.count(), Counted { reads: 2, writes: 0 }, "each copy is tried once more");
        assert_eq!(world.read(0, 3), Ok(()));
        assert_eq!(world.write(3, 1), Ok(()));
        assert_eq!(world.bad(), []);
        assert_eq!(world.read(0, 8), Ok(()));
        world.check_devices();
    }
}

#[test]
fn time_is_not_needed_without_a_rate_bound() {
    let mut world = World::new(&config("1", 2, 600), 0);
    world.lose(1);
    let counts = scan(&mut world, Scan::Check);
    assert_eq!(counts.stripes, 600);
    assert!(world.now < Nanos(1_000), "one copy is nothing to compare: {} ns", world.now.0);
}
