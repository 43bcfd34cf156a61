//! Bad blocks, one by one and in crowds of random faults.

use super::world::{Counted, STRIP, World, config, with_integrity};
use proptest::prelude::*;
use raidlab_controller::{
    ConfigError, Controller, DeviceState, HostError, HostOp, IoPolicy, MemberCache, Scan, WritePolicy,
};
use raidlab_testkit::BLOCK;
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, MemberLba, NanoSpan};

#[test]
fn a_write_that_ends_in_a_medium_error_keeps_its_member() {
    for (level, members, other_reads) in [("1", 2, 1), ("10", 4, 1), ("5", 6, 5), ("6", 6, 4)] {
        let mut world = World::new(&config(level, members, 4), 0);
        let (stripe, strip, _) = world.controller.layout().locate(Lba(0));
        let unit = raidlab_raid::StripUnit::Data { strip, copy: 0 };
        let device = world.controller.layout().place(stripe, unit).member;
        world.devices[device.index()].unwritable.insert(2);
        assert_eq!(world.write(0, 6), Ok(()), "RAID {level}");
        assert_eq!(world.bad(), [(device.0, 0, 6)], "RAID {level}: any of them may be bad");
        assert_eq!(world.state(device.0), DeviceState::InSync { role: device });
        world.count();
        assert_eq!(world.read(1, 1), Ok(()));
        assert_eq!(world.count(), Counted { reads: other_reads, writes: 0 }, "RAID {level}: from redundancy");
        assert_eq!(world.read(6, 1), Ok(()));
        assert_eq!(world.count(), Counted { reads: 1, writes: 0 }, "RAID {level}: beside the bad blocks");
        assert_eq!(world.write(3, 2), Ok(()), "RAID {level}");
        assert_eq!(
            world.bad(),
            [(device.0, 0, 3), (device.0, 5, 1)],
            "RAID {level}: what was written is good"
        );
        assert_eq!(world.read(0, 8), Ok(()));
        world.devices[device.index()].unwritable.clear();
        world.controller.handle_scan(world.now, Scan::Check).expect("free");
        world.pump();
        world.settle();
        assert_eq!(world.bad(), [], "RAID {level}: a check restores what can be");
        world.check_devices();
    }
}

#[test]
fn without_redundancy_the_host_is_told_and_the_rest_goes_on() {
    let mut world = World::new(&config("0", 3, 4), 0);
    world.devices[0].unwritable.insert(1);
    assert_eq!(world.write(0, 3 * STRIP), Err(HostError::ArrayFailed { lba: Lba(0) }));
    assert_eq!(world.bad(), [(0, 0, STRIP)]);
    assert_eq!(world.read(2, 1), Err(HostError::DataLost { lba: Lba(2) }));
    assert_eq!(world.read(STRIP, 2 * STRIP), Ok(()));
    assert_eq!(world.write(2, 4), Ok(()));
    assert_eq!(world.read(2, 4), Ok(()));
    assert_eq!(world.bad(), [(0, 0, 2), (0, 6, 2)]);
}

#[test]
fn bad_blocks_of_different_rows_do_not_add_up() {
    let mut world = World::new(&config("5", 4, 4), 0);
    for (device, row) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
        world.controller.mark_bad_blocks(MemberIndex(device), MemberLba(row), BlockCount(1));
    }
    assert_eq!(world.read(0, 3 * STRIP), Ok(()));
    assert_eq!(world.write(0, 7), Ok(()));
    world.check_devices();
    assert_eq!(world.bad(), [(1, 2, 1), (2, 3, 1)], "what was written is good, data and parity");
    assert_eq!(world.read(0, 3 * STRIP), Ok(()));
    world.check_devices();
}

#[test]
fn read_errors_of_different_rows_do_not_add_up() {
    let mut world = World::new(&config("5", 4, 4), 0);
    for (device, row) in [(1, 2), (2, 3), (3, 5)] {
        world.devices[device].unreadable.insert(row);
    }
    // To compute parity the write reads strips 1 and 2, and then the old parity; none of them can be read whole.
    assert_eq!(world.write(0, STRIP), Ok(()));
    assert_eq!(world.bad(), []);
    world.check_devices();
    world.lose(0);
    assert_eq!(world.read(0, 3 * STRIP), Ok(()));
}

#[test]
fn a_write_that_nothing_holds_fails() {
    for (level, members, unwritable) in [("1", 2, vec![0, 1]), ("5", 4, vec![0, 3]), ("6", 5, vec![1, 4, 0])]
    {
        let mut world = World::new(&config(level, members, 4), 0);
        for device in unwritable {
            world.devices[device].unwritable.insert(2);
        }
        assert_eq!(world.write(0, 4), Err(HostError::ArrayFailed { lba: Lba(0) }), "RAID {level}");
        assert_eq!(world.read(2, 1), Err(HostError::DataLost { lba: Lba(2) }), "RAID {level}");
        assert_eq!(world.read(4, 4), Ok(()), "RAID {level}");
        assert_eq!(world.write(0, 2), Ok(()), "RAID {level}");
        assert_eq!(world.read(0, 2), Ok(()), "RAID {level}");
        world.check_devices();
    }
}

#[test]
fn a_write_where_more_is_lost_than_parity_tells_still_lands() {
    for (level, members, parities) in [("5", 5, vec![4]), ("6", 6, vec![0, 5])] {
        let mut world = World::new(&config(level, members, 4), 0);
        let first = u16::from(level != "5");
        let lost: Vec<u16> = (first..=first + parities.len() as u16).collect();
        for &device in &lost {
            world.controller.mark_bad_blocks(MemberIndex(device), MemberLba(3), BlockCount(2));
        }
        // Over the lost rows and some beside them.
        assert_eq!(world.write(1, 6), Ok(()), "RAID {level}");
        assert_eq!(world.read(0, STRIP), Ok(()), "RAID {level}");
        let mut bad: Vec<_> = lost[1..].iter().chain(&parities).map(|device| (*device, 3, 2)).collect();
        bad.sort_unstable();
        assert_eq!(world.bad(), bad, "RAID {level}: parity agrees with nothing there");
        for index in 1..lost.len() as u64 {
            let lba = index * STRIP + 3;
            assert_eq!(world.read(lba, 1), Err(HostError::DataLost { lba: Lba(lba) }), "RAID {level}");
        }
        // A missing member's rows can't be told there, but elsewhere.
        world.check_devices();
        for index in 1..lost.len() as u64 {
            assert_eq!(world.write(index * STRIP, STRIP), Ok(()), "RAID {level}");
        }
        assert_eq!(world.bad(), [], "RAID {level}: all is told again");
        world.check_devices();
        world.lose(first);
        assert_eq!(world.read(0, STRIP), Ok(()), "RAID {level}");
    }
}

#[test]
fn a_device_with_too_many_bad_ranges_is_failed() {
    let mut world = World::new(&config("5", 4, 200), 0);
    for range in 0..512 {
        world.controller.mark_bad_blocks(MemberIndex(1), MemberLba(range * 2), BlockCount(1));
    }
    assert_eq!(world.bad().len(), 512);
    assert_eq!(world.state(1), DeviceState::InSync { role: MemberIndex(1) });
    world.controller.mark_bad_blocks(MemberIndex(1), MemberLba(1026), BlockCount(1));
    assert_eq!(world.state(1), DeviceState::Missing);
    assert_eq!(world.bad(), []);
    assert_eq!(world.read(0, 600), Ok(()));
}

#[derive(Clone, Debug)]
enum Event {
    Host { write: bool, at: u64, blocks: u64 },
    Unreadable { device: u16, at: u64, blocks: u64 },
    Unwritable { device: u16, at: u64 },
    Corrupt { device: u16, at: u64 },
    Lose { device: u16 },
    Add { device: u16 },
    Check { repair: bool },
    Steps { count: u8 },
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let host = (any::<bool>(), any::<u64>(), 1u64..40).prop_map(|(write, at, blocks)| Event::Host {
        write,
        at,
        blocks,
    });
    let unreadable = (any::<u16>(), any::<u64>(), 1u64..6)
        .prop_map(|(device, at, blocks)| Event::Unreadable { device, at, blocks });
    let event = prop_oneof![
        12 => host,
        2 => unreadable,
        1 => (any::<u16>(), any::<u64>()).prop_map(|(device, at)| Event::Unwritable { device, at }),
        1 => (any::<u16>(), any::<u64>()).prop_map(|(device, at)| Event::Corrupt { device, at }),
        1 => any::<u16>().prop_map(|device| Event::Lose { device }),
        1 => any::<u16>().prop_map(|device| Event::Add { device }),
        1 => any::<bool>().prop_map(|repair| Event::Check { repair }),
        8 => (0u8..60).prop_map(|count| Event::Steps { count }),
    ];
    proptest::collection::vec(event, 1..60)
}

const LEVELS: [(&str, u16, u16); 10] = [
    ("0", 3, 0),
    ("1", 2, 1),
    ("1", 3, 2),
    ("10", 4, 1),
    ("1e", 5, 1),
    ("5", 3, 1),
    ("5", 5, 1),
    ("6", 4, 2),
    ("6", 6, 2),
    ("50:2-spans", 6, 1),
];

/// Strips on each member.
const ROWS: u64 = 5;

/// How many faults of which kind a run has.
#[derive(Clone, Copy, Debug)]
enum Mercy {
    /// Only what the level survives: no request may fail.
    Survivable,
    /// Any: requests may fail, but nothing may be read wrong.
    None,
}

/// Units of a stripe that have faults, at most as many as the level survives.
fn survives(world: &World, device: u16, survived: u16) -> bool {
    let faulty = |index: u16| {
        let state = world.state(index);
        let holds = matches!(state, DeviceState::InSync { .. } | DeviceState::Rebuilding { .. });
        let bad = world.bad().iter().any(|bad| bad.0 == index);
        let has = &world.devices[usize::from(index)];
        matches!(state, DeviceState::Rebuilding { .. })
            || bad
            || (holds && (!has.unreadable.is_empty() || !has.unwritable.is_empty()))
    };
    let held = world
        .controller
        .device_states()
        .filter(|state| matches!(state, DeviceState::InSync { .. } | DeviceState::Rebuilding { .. }))
        .count() as u16;
    let missing = world.controller.layout().member_count() - held;
    let others = (0..world.devices.len() as u16).filter(|&other| other != device && faulty(other)).count();
    missing + (others as u16) < survived
}

/// How the array of a run is set up.
#[derive(Clone, Copy, Debug)]
struct Settings {
    write_back: bool,
    cached: bool,
    integrity: bool,
    seed: u64,
}

fn settings() -> impl Strategy<Value = Settings> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 0u64..1000)
        .prop_map(|(write_back, cached, integrity, seed)| Settings { write_back, cached, integrity, seed })
}

fn run(level: (&str, u16, u16), settings: Settings, events: &[Event], mercy: Mercy) {
    let (name, members, survived) = level;
    let Settings { write_back, cached, integrity, seed } = settings;
    let mut config = config(name, members, ROWS);
    if integrity {
        config = with_integrity(config);
    }
    config.resilience.spares = 1;
    config.member_cache = if cached { MemberCache::On } else { MemberCache::Off };
    if write_back {
        config.cache.write_policy = WritePolicy::WriteBack;
        config.cache.io_policy = IoPolicy::Cached;
    }
    if seed % 2 == 0 {
        // As little as is allowed, so that operations stand in line for it.
        config.staging_size = ByteCount(0);
        match Controller::new(&config) {
            Err(ConfigError::StagingTooSmall { needed, .. }) => config.staging_size = needed,
            other => unreachable!("every level needs some: {other:?}"),
        }
    }
    let mut world = World::new(&config, seed);
    if matches!(mercy, Mercy::None) && seed % 3 == 0 {
        world.crash();
    }
    // Without mercy tag blocks fail, too.
    world.tags_lost = integrity && matches!(mercy, Mercy::None);
    for event in events {
        let may_fail =
            |world: &World, device| matches!(mercy, Mercy::None) || survives(world, device, survived);
        apply(&mut world, event, may_fail);
    }
    world.controller.handle_destage_all(world.now);
    world.pump();
    world.settle();
    let volume = world.controller.volume_blocks().0;
    for lba in (0..volume).step_by(7) {
        let _ = world.read(lba, 7.min(volume - lba));
    }
    // What is corrupt and was not read is still there; that nothing was read wrong has been seen to.
    let corrupt = world.tags_lost && events.iter().any(|event| matches!(event, Event::Corrupt { .. }));
    let compared = if corrupt { 0 } else { world.check_devices() };
    if matches!(mercy, Mercy::Survivable) {
        assert_eq!(world.failed, 0, "{:?}", world.notices);
        assert!(compared > 0);
    }
}

/// Lets an event happen; a fault only where `may_fail` says so of its device.
fn apply(world: &mut World, event: &Event, may_fail: impl Fn(&World, u16) -> bool) {
    let volume = world.controller.volume_blocks().0;
    let devices = world.devices.len() as u16;
    let all_blocks = world.devices[0].bytes.len() as u64 / BLOCK as u64;
    let block_at = |world: &World, at: u64| {
        if world.tags_lost { at % all_blocks } else { world.physical(at % (ROWS * STRIP)) }
    };
    match *event {
        Event::Host { write, at, blocks } => {
            let lba = at % volume;
            let blocks = blocks.min(volume - lba);
            if !world.is_busy_with(lba, blocks) {
                let op = if write { HostOp::Write { fua: at % 3 == 0 } } else { HostOp::Read };
                world.submit(op, lba, blocks);
            }
        }
        Event::Unreadable { device, at, blocks } if may_fail(world, device % devices) => {
            let first = block_at(world, at);
            let blocks = first..(first + blocks).min(all_blocks);
            let in_strip = |block: &u64| world.tags_lost || world.is_data(*block);
            let blocks: Vec<u64> = blocks.filter(in_strip).collect();
            world.devices[usize::from(device % devices)].unreadable.extend(blocks);
        }
        Event::Unwritable { device, at } if may_fail(world, device % devices) => {
            let block = block_at(world, at);
            world.devices[usize::from(device % devices)].unwritable.insert(block);
        }
        // In doubt what is there is believed, and in mercy nobody would know how many of a stripe are corrupt.
        Event::Corrupt { device, at } if world.tags_lost && world.controller.out_of_sync_stripes() == 0 => {
            let start = block_at(world, at) as usize * BLOCK;
            world.devices[usize::from(device % devices)].bytes[start + 1] ^= 0x10;
        }
        Event::Lose { device } if may_fail(world, device % devices) => world.lose(device % devices),
        Event::Unreadable { .. } | Event::Unwritable { .. } | Event::Lose { .. } | Event::Corrupt { .. } => {}
        Event::Add { device } => world.add_missing(device % devices),
        Event::Check { repair } => {
            let scan = if repair { Scan::Repair } else { Scan::Check };
            // Refused while another runs.
            let _ = world.controller.handle_scan(world.now, scan);
            world.pump();
        }
        Event::Steps { count } => {
            for _ in 0..count {
                world.step();
            }
        }
    }
}

proptest! {
    #[test]
    fn what_the_level_survives_is_never_noticed(
        level in proptest::sample::select(&LEVELS),
        settings in settings(),
        events in events(),
    ) {
        run(level, settings, &events, Mercy::Survivable);
    }

    #[test]
    fn nothing_is_ever_read_wrong(
        level in proptest::sample::select(&LEVELS),
        settings in settings(),
        events in events(),
    ) {
        run(level, settings, &events, Mercy::None);
    }
}

/// A member answers with errors for a moment, where nothing can stand in for it.
#[test]
fn what_could_not_be_read_for_a_moment_is_not_lost() {
    for (level, members, integrity) in
        [("5", 4, false), ("5", 4, true), ("6", 5, false), ("1", 2, false), ("0", 3, true)]
    {
        let config =
            if integrity { with_integrity(config(level, members, 4)) } else { config(level, members, 4) };
        let what = format!("RAID {level}, integrity {integrity}");
        let mut world = World::new(&config, 0);
        let survived = match level {
            "0" => 0,
            "6" => 2,
            _ => 1,
        };
        (members - survived..members).for_each(|device| world.lose(device));
        world.devices[0].unreadable.extend([0, 1, 3]);
        let before = world.now;
        let all = world.controller.volume_blocks().0;
        assert!(matches!(world.read(0, all), Err(HostError::DataLost { .. })), "{what}");
        world.settle();
        assert!(world.now.0 - before.0 > 500_000_000, "{what}: it is tried again for a while");
        assert!(!world.bad().is_empty(), "{what}: the array knows");
        let again = world.now;
        assert!(world.read(0, all).is_err(), "{what}");
        assert!(world.now.0 - again.0 < 20_000_000, "{what}: what is known to be bad is not waited for");
        // What is there after all is read at once, and a recovery finds the rest.
        world.devices[0].unreadable.clear();
        assert_eq!(world.read(0, 1), Ok(()), "{what}");
        world.controller.handle_scan(world.now, Scan::Recover).expect("nothing else runs");
        world.pump();
        world.settle();
        assert_eq!(world.bad(), [], "{what}");
        assert_eq!(world.read(0, all), Ok(()), "{what}");
        world.check_devices();
    }
}

/// Reads fail for less than the array tries again, of one member more than the level survives.
#[test]
fn a_short_outage_is_not_seen() {
    for (level, members, survived) in [("5", 4, 1), ("6", 5, 2), ("1", 2, 1), ("0", 3, 0), ("5", 4, 0)] {
        for integrity in [false, true] {
            let config =
                if integrity { with_integrity(config(level, members, 4)) } else { config(level, members, 4) };
            let what = format!("RAID {level} without {survived}, integrity {integrity}");
            let mut world = World::new(&config, 0);
            (members - survived..members).for_each(|device| world.lose(device));
            world.settle();
            let all = world.controller.volume_blocks().0;
            for millis in [1, 30, 200, 500] {
                for device in 0..members - survived {
                    world.devices[usize::from(device)].silent_until =
                        world.now + NanoSpan::from_millis(millis);
                }
                assert_eq!(world.read(0, all), Ok(()), "{what}, {millis} ms");
                world.settle();
                let until = world.now + NanoSpan::from_millis(millis);
                (0..members - survived).for_each(|it| world.devices[usize::from(it)].silent_until = until);
                assert_eq!(world.write(1, 1), Ok(()), "{what}, {millis} ms");
                world.settle();
                assert_eq!(world.bad(), [], "{what}, {millis} ms");
            }
            world.check_devices();
        }
    }
}

/// Blocks that were written, or whose write failed, since they could not be read.
#[test]
fn what_was_overtaken_does_not_come_back() {
    let mut world = World::new(&config("5", 4, 4), 0);
    let (stripe, _, _) = world.controller.layout().locate(Lba(0));
    let place = |world: &World, unit| world.controller.layout().place(stripe, unit).member;
    let data = |strip| raidlab_raid::StripUnit::Data { strip, copy: 0 };
    let (first, second) = (place(&world, data(0)), place(&world, data(1)));
    let missing = place(&world, data(2));
    world.lose(missing.0);
    world.devices[first.index()].unreadable.insert(0);
    assert!(world.read(0, 1).is_err());
    world.settle();
    assert_eq!(world.bad(), [(first.0, 0, 1)]);
    // The write fails: what stands there is old or new.
    world.devices[first.index()].unwritable.insert(0);
    assert!(world.write(0, 1).is_err());
    world.settle();
    world.devices[first.index()].unreadable.clear();
    world.devices[first.index()].unwritable.clear();
    world.controller.handle_scan(world.now, Scan::Recover).expect("nothing else runs");
    world.pump();
    world.settle();
    assert!(world.bad().contains(&(first.0, 0, 1)), "{:?}", world.bad());
    assert!(world.read(0, 1).is_err(), "nobody knows what stands there");
    // Another strip of the row is written meanwhile, without parity; what was only unreadable comes back all the same.
    let row = STRIP + 4;
    world.devices[second.index()].unreadable.insert(4);
    assert!(world.read(row, 1).is_err());
    world.settle();
    assert_eq!(world.write(4, 1), Ok(()), "parity takes it in");
    world.devices[second.index()].unreadable.clear();
    assert_eq!(world.read(row, 1), Ok(()));
    world.settle();
    assert!(!world.bad().contains(&(second.0, 4, 1)), "{:?}", world.bad());
    world.check_devices();
}

/// A read that was under way when a write to its block failed says nothing of what stands there now.
#[test]
fn a_read_does_not_bring_back_what_a_write_has_lost() {
    let mut world = World::new(&config("0", 2, 4), 0);
    let lost = Err(HostError::DataLost { lba: Lba(2) });
    world.devices[0].unreadable.insert(2);
    assert_eq!(world.read(2, 1), lost);
    world.devices[0].unreadable.clear();
    world.devices[0].unwritable.insert(2);
    let read = world.submit(HostOp::Read, 2, 1);
    let write = world.submit(HostOp::Write { fua: false }, 2, 1);
    world.finish(1);
    assert_eq!((world.results[read], world.results[write].map(|it| it.is_err())), (None, Some(true)));
    world.settle();
    assert_eq!(world.results[read], Some(Ok(())));
    assert_eq!(world.read(2, 1), lost);
}

/// Reads of two units fail for a while, also of what has just been written there: each is restored once, not because the other could
/// not be read for it.
#[test]
fn two_read_errors_of_a_stripe_do_not_call_each_other_for_ever() {
    let mut world = World::new(&config("6", 6, 4), 0);
    let (stripe, ..) = world.controller.layout().locate(Lba(0));
    let until = world.now + NanoSpan::from_secs(1);
    for strip in [0, 1] {
        let unit = raidlab_raid::StripUnit::Data { strip, copy: 0 };
        let device = world.controller.layout().place(stripe, unit).member;
        world.devices[device.index()].silent_until = until;
    }
    assert_eq!(world.read(0, 1), Ok(()));
    assert!(world.count().writes <= 2);
}
