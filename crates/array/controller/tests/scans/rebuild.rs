//! Rebuilds: their cost, their boundary, spares, and what goes wrong on the way.

use super::last_counts;
use super::world::{Counted, STRIP, World, config};
use raidlab_controller::{
    Action, ArrayConfig, DeviceState, HostError, HostOp, MemberCache, MemberOp, Notice, Scan, ScanCounts,
    ScanEnd, ScanProgress,
};
use raidlab_units::{ByteCount, Lba, MemberIndex, MemberLba};

fn with_spares(level: &str, members: u16, rows: u64, spares: u16) -> ArrayConfig {
    let mut config = config(level, members, rows);
    config.resilience.spares = spares;
    config
}

const fn in_sync(role: u16) -> DeviceState {
    DeviceState::InSync { role: MemberIndex(role) }
}

const fn rebuild(target: u16) -> Scan {
    Scan::Rebuild { target: MemberIndex(target) }
}

#[test]
fn a_rebuild_costs_what_the_level_says() {
    // Level, members, member I/Os for each strip of the target.
    for (level, members, reads) in [
        ("1", 2, 1),
        ("1", 3, 1),
        ("10", 4, 1),
        ("1e", 5, 1),
        ("5", 6, 5),
        ("3", 4, 3),
        ("6", 6, 4),
        ("50:2-spans", 6, 2),
    ] {
        for lost in [0, members - 1] {
            let mut world = World::new(&with_spares(level, members, 12, 1), 0);
            world.lose(lost);
            assert_eq!(
                world.notices,
                [
                    Notice::MemberFailed { member: MemberIndex(lost) },
                    Notice::ScanStarted { scan: rebuild(members) }
                ]
            );
            world.settle();
            // Of RAID 1E with an odd number of members the last place may be unused.
            let strips = last_counts(&world).stripes as u32;
            assert!(strips == 12 || level == "1e");
            assert_eq!(world.count(), Counted { reads: strips * reads, writes: strips }, "RAID {level}");
            let rewritten_rows = u64::from(strips) * STRIP;
            let expected = ScanCounts { stripes: u64::from(strips), rewritten_rows, ..ScanCounts::default() };
            assert_eq!(last_counts(&world), expected, "RAID {level}");
            assert_eq!(world.state(lost), DeviceState::Missing);
            assert_eq!(world.state(members), in_sync(lost));
            world.check_devices();
            assert_eq!(world.read(0, world.controller.volume_blocks().0), Ok(()));
        }
    }
}

/// Finishes all that can be finished but the writes of one device to one strip.
fn finish_all_but(world: &mut World, device: u16, strip: u64) {
    let kept = |action: &Action| match action {
        Action::Member(io) => {
            io.member.0 == device && io.lba.0 / STRIP == strip && matches!(io.op, MemberOp::Write { .. })
        }
        _ => false,
    };
    while let Some(index) = world.in_flight.iter().position(|action| !kept(action)) {
        world.finish(index);
    }
}

#[test]
fn the_boundary_moves_in_order_and_what_is_restored_above_it_stays_locked() {
    for cached in [MemberCache::Off, MemberCache::On] {
        let mut config = with_spares("5", 4, 10, 1);
        config.member_cache = cached;
        let mut world = World::new(&config, 0);
        world.lose(3);
        finish_all_but(&mut world, 4, 0);
        let boundary = |world: &World| match world.state(4) {
            DeviceState::Rebuilding { boundary, .. } => boundary,
            state => panic!("{state:?}"),
        };
        assert_eq!(boundary(&world), MemberLba(0), "strips 1 to 3 are restored, but not strip 0");
        world.count();
        // Stripe 2 is restored and locked, stripe 7 is not begun.
        let locked = world.submit(HostOp::Write { fua: false }, 2 * 3 * STRIP, 1);
        finish_all_but(&mut world, 4, 0);
        assert_eq!((world.results[locked], world.count()), (None, Counted::default()));
        let above = world.submit(HostOp::Write { fua: false }, 7 * 3 * STRIP, 3 * STRIP);
        finish_all_but(&mut world, 4, 0);
        assert_eq!((world.results[above], world.count()), (Some(Ok(())), Counted { reads: 0, writes: 3 }));
        // A read of what the target holds above the boundary is recovered.
        let read = world.submit(HostOp::Read, 0, 2 * 3 * STRIP);
        let mut steps = 0;
        while boundary(&world) < MemberLba(4 * STRIP) {
            assert!(world.step());
            steps += 1;
            assert!(steps < 1000);
        }
        world.settle();
        assert_eq!((world.results[locked], world.results[read]), (Some(Ok(())), Some(Ok(()))));
        assert_eq!(world.state(4), in_sync(3));
        world.check_devices();
    }
}

#[test]
fn with_caches_on_the_boundary_is_kept_after_a_flush() {
    let mut config = with_spares("1", 2, 200, 1);
    config.member_cache = MemberCache::On;
    let mut world = World::new(&config, 0);
    world.lose(0);
    let mut flushed = Vec::new();
    while world.state(2) != in_sync(0) {
        let live = match world.state(2) {
            DeviceState::Rebuilding { boundary, .. } => boundary.0 / STRIP,
            state => panic!("{state:?}"),
        };
        let kept = match world.controller.kept_device_states().nth(2) {
            Some(DeviceState::Rebuilding { boundary, .. }) => boundary.0 / STRIP,
            state => panic!("{state:?}"),
        };
        assert!(kept <= live && kept % 64 == 0);
        if let Some(Action::Member(io)) = world.in_flight.first()
            && io.op == MemberOp::Flush
        {
            flushed.push((io.member.0, live));
        }
        assert!(world.step());
    }
    // What the target was made of must be there to stay, too.
    for device in [1, 2] {
        let of_device: Vec<_> = flushed.iter().filter(|it| it.0 == device).map(|it| it.1).collect();
        assert_eq!(of_device.len(), 4, "three on the way and one at the end: {of_device:?}");
        assert_eq!(of_device[3], 200);
    }
    world.settle();
    world.check_devices();
}

#[test]
fn several_members_are_rebuilt_one_after_the_other() {
    let mut world = World::new(&with_spares("6", 6, 10, 2), 3);
    world.lose(1);
    world.lose(4);
    assert_eq!(world.state(7), DeviceState::Rebuilding { role: MemberIndex(4), boundary: MemberLba(0) });
    world.settle();
    assert_eq!((world.state(6), world.state(7)), (in_sync(1), in_sync(4)));
    let scans: Vec<_> = world
        .notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::ScanStarted { scan } => Some((*scan, true)),
            Notice::ScanEnded { progress, end: ScanEnd::Through } => Some((progress.scan, false)),
            _ => None,
        })
        .collect();
    assert_eq!(scans, [(rebuild(6), true), (rebuild(6), false), (rebuild(7), true), (rebuild(7), false)]);
    world.check_devices();
}

/// Steps until the boundary of `target` has reached `strips`.
fn run_to(world: &mut World, target: u16, strips: u64) {
    while !matches!(world.state(target), DeviceState::Rebuilding { boundary, .. } if boundary.0 >= strips * STRIP)
    {
        assert!(world.step(), "the rebuild has come to a stop: {:?}", world.state(target));
    }
}

#[test]
fn a_second_failure_is_survived_where_the_level_does() {
    let mut world = World::new(&with_spares("6", 6, 20, 2), 5);
    world.lose(2);
    run_to(&mut world, 6, 8);
    world.lose(0);
    assert_eq!(world.state(7), DeviceState::Rebuilding { role: MemberIndex(0), boundary: MemberLba(0) });
    world.settle();
    assert_eq!((world.state(6), world.state(7)), (in_sync(2), in_sync(0)));
    world.check_devices();
    assert_eq!(world.read(0, world.controller.volume_blocks().0), Ok(()));
}

#[test]
fn a_rebuild_stops_where_the_level_does_not_survive() {
    for (level, members) in [("5", 4), ("1", 2), ("10", 4)] {
        let mut world = World::new(&with_spares(level, members, 20, 1), 5);
        world.lose(1);
        run_to(&mut world, members, 5);
        world.lose(0);
        world.settle();
        assert_eq!(world.state(0), DeviceState::Lost { role: MemberIndex(0) }, "RAID {level}");
        assert!(matches!(world.state(members), DeviceState::Rebuilding { .. }), "RAID {level}");
        assert!(
            matches!(world.notices.last(), Some(Notice::ScanEnded { end: ScanEnd::BrokenOff, .. })),
            "RAID {level}"
        );
        assert_eq!(world.bad(), [], "what the lost device holds may come back");
        assert!(world.write(0, 1).is_err(), "RAID {level}");
        // A lost device is not taken back while the array runs.
        world.add(0);
        world.settle();
        assert_eq!(world.state(0), DeviceState::Lost { role: MemberIndex(0) });
    }
}

#[test]
fn the_target_fails_and_the_next_spare_takes_over() {
    let mut world = World::new(&with_spares("5", 4, 20, 2), 9);
    world.lose(1);
    run_to(&mut world, 4, 6);
    world.lose(4);
    world.settle();
    assert_eq!(world.state(4), DeviceState::Missing);
    assert_eq!(world.state(5), in_sync(1));
    world.check_devices();
    // One that is found out by its I/O, with no spare left.
    world.devices[5].gone = true;
    world.settle();
    assert_eq!(world.read(0, world.controller.volume_blocks().0), Ok(()));
    assert_eq!(world.state(5), DeviceState::Missing);
}

#[test]
fn a_device_that_comes_back_is_a_spare_and_takes_a_vacant_place() {
    let mut world = World::new(&config("5", 4, 12), 11);
    world.lose(2);
    assert_eq!(world.write(0, 40), Ok(()));
    world.add(2);
    assert!(world.notices.contains(&Notice::MemberAdded { member: MemberIndex(2) }));
    assert_eq!(world.state(2), DeviceState::Rebuilding { role: MemberIndex(2), boundary: MemberLba(0) });
    world.settle();
    assert_eq!(world.state(2), in_sync(2));
    world.check_devices();
    // With a spare in its place it waits.
    let mut world = World::new(&with_spares("5", 4, 12, 1), 11);
    world.lose(2);
    world.settle();
    world.add(2);
    world.settle();
    assert_eq!((world.state(2), world.state(4)), (DeviceState::Spare, in_sync(2)));
    world.lose(0);
    world.settle();
    assert_eq!(world.state(2), in_sync(0));
    world.check_devices();
}

#[test]
fn a_device_is_taken_back_when_its_old_requests_have_ended() {
    let mut world = World::new(&config("5", 4, 12), 0);
    let read = world.submit(HostOp::Read, 0, 1);
    world.lose(0);
    world.add(0);
    assert_eq!(world.state(0), DeviceState::Missing, "a read is under way on what it was");
    world.finish(0);
    assert_eq!(world.state(0), DeviceState::Rebuilding { role: MemberIndex(0), boundary: MemberLba(0) });
    world.settle();
    assert_eq!((world.results[read], world.state(0)), (Some(Ok(())), in_sync(0)));
    world.check_devices();
}

#[test]
fn a_device_added_unasked_is_not_trusted() {
    let mut world = World::new(&config("1", 2, 12), 0);
    world.devices[1].bytes.fill(0x77);
    world.add(1);
    world.settle();
    assert_eq!(world.state(1), in_sync(1));
    world.check_devices();
}

#[test]
fn rows_that_no_source_gives_are_lost_and_the_rest_is_rebuilt() {
    let mut world = World::new(&with_spares("5", 4, 6, 1), 0);
    // Stripe 0: data on 0, 1, 2, parity on 3. Device 0 is rebuilt, rows 2 and 6 of device 1 can't be read.
    world.devices[1].unreadable.extend([2, 6]);
    world.lose(0);
    world.settle();
    assert_eq!(world.state(4), in_sync(0));
    assert_eq!(world.bad(), [(1, 2, 1), (1, 6, 1), (4, 2, 1), (4, 6, 1)]);
    assert_eq!(last_counts(&world).unreadable_rows, 2);
    assert_eq!(world.read(0, 8), Err(HostError::DataLost { lba: Lba(2) }));
    assert_eq!(world.read(3, 3), Ok(()));
    assert_eq!(world.read(STRIP, 2), Ok(()));
    assert_eq!(world.read(STRIP + 2, 1), Err(HostError::DataLost { lba: Lba(STRIP + 2) }));
    world.check_devices();
    // Written again, the first strip is readable where it stands; parity waits for the second.
    assert_eq!(world.write(0, 8), Ok(()));
    assert_eq!(world.read(0, 8), Ok(()));
    assert_eq!(world.bad(), [(1, 2, 1), (1, 6, 1), (3, 2, 1), (3, 6, 1)]);
    assert_eq!(world.write(STRIP, 8), Ok(()));
    assert_eq!(world.bad(), []);
    world.check_devices();
    world.lose(1);
    assert_eq!(world.read(0, world.controller.volume_blocks().0), Ok(()));
}

#[test]
fn a_check_rests_for_a_rebuild_and_goes_on() {
    let mut world = World::new(&with_spares("5", 4, 30, 1), 13);
    world.controller.handle_scan(world.now, Scan::Check).expect("free");
    world.pump();
    while world.controller.scan_progress().is_some_and(|progress| progress.done < 10) {
        world.step();
    }
    world.lose(3);
    world.settle();
    let scans: Vec<_> = world
        .notices
        .iter()
        .filter_map(|notice| match notice {
            Notice::ScanStarted { scan } => Some((*scan, "begun", 0)),
            Notice::ScanParked { scan } => Some((*scan, "parked", 0)),
            Notice::ScanResumed { scan } => Some((*scan, "goes on", 0)),
            Notice::ScanEnded { progress, end: ScanEnd::Through } => {
                Some((progress.scan, "through", progress.done))
            }
            _ => None,
        })
        .collect();
    let expected = [
        (Scan::Check, "begun", 0),
        (Scan::Check, "parked", 0),
        (rebuild(4), "begun", 0),
        (rebuild(4), "through", 30),
        (Scan::Check, "goes on", 0),
        (Scan::Check, "through", 30),
    ];
    assert_eq!(scans, expected);
    assert_eq!(last_counts(&world).mismatched_rows, 0);
    world.check_devices();
}

/// A check over 30 stripes that has made room for the rebuild of a spare, which has come to its `strips`.
fn with_a_parked_check(strips: u64) -> World {
    let mut world = World::new(&with_spares("5", 4, 30, 1), 13);
    world.controller.handle_scan(world.now, Scan::Check).expect("free");
    world.pump();
    while world.controller.scan_progress().is_some_and(|progress| progress.done < 10) {
        world.step();
    }
    assert_eq!(world.controller.parked_scan_progress(), None);
    world.lose(3);
    run_to(&mut world, 4, strips);
    world
}

#[test]
fn a_parked_check_is_told_of_beside_the_rebuild() {
    let mut world = with_a_parked_check(5);
    let told = |progress: Option<ScanProgress>| progress.map(|it| (it.number, it.scan));
    assert_eq!(told(world.controller.scan_progress()), Some((2, rebuild(4))));
    assert_eq!(told(world.controller.parked_scan_progress()), Some((1, Scan::Check)));
    assert_eq!(world.controller.handle_scan_stop(world.now), Some(Scan::Check));
    world.pump();
    assert_eq!(world.controller.parked_scan_progress(), None);
    let stopped = |notice: &Notice| matches!(notice, Notice::ScanEnded { end: ScanEnd::Stopped, .. });
    assert!(world.notices.iter().any(stopped));
    world.settle();
    assert_eq!(world.state(4), in_sync(3));
}

#[test]
fn a_parked_check_ends_when_more_members_are_lost_than_the_level_survives() {
    let mut world = with_a_parked_check(5);
    world.lose(0);
    world.settle();
    assert_eq!((world.controller.scan_progress(), world.controller.parked_scan_progress()), (None, None));
    let broken_off = world.notices.iter().filter_map(|notice| match notice {
        Notice::ScanEnded { progress, end: ScanEnd::BrokenOff } => Some(progress.number),
        _ => None,
    });
    assert_eq!(broken_off.collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_rebuild_rests_at_a_rate_of_nothing() {
    let mut config = with_spares("5", 4, 30, 1);
    config.resilience.scan_bytes_per_sec = Some(ByteCount::from_mib(1));
    let mut world = World::new(&config, 13);
    world.lose(3);
    run_to(&mut world, 4, 7);
    world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
    world.pump();
    world.settle();
    let state = world.state(4);
    assert!(matches!(state, DeviceState::Rebuilding { .. }));
    assert_eq!(world.write(0, 60), Ok(()));
    assert_eq!(world.state(4), state);
    world.check_devices();
    world.controller.handle_scan_rate(world.now, None);
    world.pump();
    world.settle();
    assert_eq!(world.state(4), in_sync(3));
    world.check_devices();
}
