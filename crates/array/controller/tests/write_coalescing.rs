//! Writes through that are gathered into whole stripes: what comes together, what is held for more, and what ends a hold.
//!
//! Member I/O ends only when a test says so. Not verified here: the bytes and crashes, which is the torture net's part.

use raidlab_controller::{ArrayConfig, CacheConfig, HostOp, MemberCache};
use raidlab_testkit::{CountedWorld as World, STRIP, WRITE, array};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan};

/// How long members take for a write.
const SPAN: NanoSpan = NanoSpan::from_micros(500);

fn config(level: &str, members: u16) -> ArrayConfig {
    let cache = CacheConfig { size: ByteCount(0), ..CacheConfig::default() };
    ArrayConfig { member_cache: MemberCache::On, ..array(level, members, cache) }
}

/// RAID 5 over 6 members that has written a stripe, so that it knows how long that takes.
fn that_knows_its_members() -> World {
    let mut world = World::new(&config("5", 6), SPAN);
    world.request(WRITE, 0, 5 * STRIP);
    world.finish_all();
    world.completed.clear();
    world
}

/// The same, with stripe 0 being written up to its end and the first strip of stripe 1 held.
fn that_holds() -> World {
    let mut world = that_knows_its_members();
    for strip in 0..6 {
        world.request(WRITE, strip * STRIP, STRIP);
    }
    assert_eq!(world.poll(), (0, 6), "stripe 0 is written whole, and nothing else is done");
    world
}

#[test]
fn writes_that_come_together_are_whole_stripes() {
    // Level, members, requests, blocks of each; member reads and writes.
    let rows: &[(&str, u16, u64, u64, u32, u32)] = &[
        ("5", 6, 5, STRIP, 0, 6),
        ("5", 6, 10, STRIP, 0, 12),
        ("5", 6, 80, 1, 0, 6),
        ("5", 6, 2, 1, 2, 2),
        ("6", 6, 4, STRIP, 0, 6),
        ("50:2-spans", 6, 4, STRIP, 0, 6),
    ];
    for &(level, members, requests, blocks, reads, writes) in rows {
        for backwards in [false, true] {
            let mut world = World::new(&config(level, members), SPAN);
            for index in 0..requests {
                let place = if backwards { requests - 1 - index } else { index };
                world.request(WRITE, place * blocks, blocks);
            }
            world.finish_all();
            let counted = (world.reads, world.writes);
            assert_eq!(counted, (reads, writes), "{requests} writes of {blocks} on RAID {level}");
            assert_eq!(world.completed.len() as u64, requests);
            assert!(world.controller.is_idle());
        }
    }
}

#[test]
fn one_request_at_a_time_never_waits() {
    for strips in [1, 4, 13] {
        let mut world = that_knows_its_members();
        for index in 0..20 {
            world.request(WRITE, index * strips * STRIP, strips * STRIP);
            world.finish_all();
            assert_eq!(world.completed.pop(), Some(index as u32 + 1), "of {strips} strips");
        }
        assert_eq!(world.timer, None, "writes of {strips} strips");
    }
}

#[test]
fn a_stripe_is_held_until_the_host_has_gone_on() {
    let mut world = that_holds();
    world.finish();
    assert_eq!(world.poll(), (0, 0), "stripe 1 is held on");
    let held_until = world.timer.expect("for so long").1;
    assert_eq!(held_until - world.now, SPAN);
    for strip in 6..10 {
        world.now += SPAN / 2;
        world.request(WRITE, strip * STRIP, STRIP);
        assert_eq!(world.poll(), if strip < 9 { (0, 0) } else { (0, 6) }, "strip {strip}");
    }
    // It fires for what is no longer held, too.
    world.fire();
    assert_eq!(world.poll(), (0, 0));
    world.finish_all();
    assert_eq!(world.completed.len(), 10);
    assert!(world.controller.is_idle());
}

/// Writes stripe `at` whole and the first strip of the next, and nothing more. Returns whether that was held.
fn is_tail_held(world: &mut World, at: u64) -> bool {
    for strip in 5 * at..5 * at + 6 {
        world.request(WRITE, strip * STRIP, STRIP);
    }
    let is_held = world.poll() == (0, 6);
    if is_held {
        world.finish();
        assert_eq!(world.poll(), (0, 0), "the hold goes on for a time");
        world.fire();
        assert_eq!(world.poll(), (2, 0), "the strip is written by itself");
    }
    world.finish_all();
    assert!(world.controller.is_idle());
    is_held
}

#[test]
fn holds_in_vain_are_left_out_more_and_more() {
    let mut world = that_knows_its_members();
    let held: Vec<bool> = (0..14).map(|round| is_tail_held(&mut world, 3 * round)).collect();
    let vain = |skipped| [vec![true], vec![false; skipped]].concat();
    assert_eq!(held, [vain(1), vain(3), vain(7)].concat());
    // One that was worth it makes them usual again.
    let mut world = that_knows_its_members();
    assert!(is_tail_held(&mut world, 0));
    assert!(!is_tail_held(&mut world, 3));
    for strip in 30..36 {
        world.request(WRITE, strip * STRIP, STRIP);
    }
    assert_eq!(world.poll(), (0, 6));
    world.request(WRITE, 36 * STRIP, 4 * STRIP);
    assert_eq!(world.poll(), (0, 6));
    world.finish_all();
    let held: Vec<bool> = (4..8).map(|round| is_tail_held(&mut world, 3 * round)).collect();
    assert_eq!(held, [true, false, true, false]);
}

/// Once a stripe was begun too early, its rest stands in line: the next must be held all the same, or all that follow would be
/// begun too early, too.
#[test]
fn a_stripe_is_held_while_the_end_of_the_one_before_stands_in_line() {
    let mut world = that_knows_its_members();
    world.request(WRITE, 0, STRIP);
    assert_eq!(world.poll(), (2, 0));
    for strip in 1..6 {
        world.request(WRITE, strip * STRIP, STRIP);
        assert_eq!(world.poll(), (0, 0), "strip {strip}");
    }
    world.request(WRITE, 6 * STRIP, 4 * STRIP);
    assert_eq!(world.poll(), (0, 6), "stripe 1 is written whole");
    world.finish_all();
    assert_eq!(world.completed.len(), 7);
    assert!(world.controller.is_idle());
}

#[test]
fn what_ends_a_hold_at_once() {
    type End = fn(&mut World);
    let rows: &[(&str, End, (u32, u32))] = &[
        ("a flush", |world| world.request(HostOp::Flush, 0, 0), (2, 0)),
        ("forced unit access", |world| world.request(HostOp::Write { fua: true }, 6 * STRIP, 1), (3, 0)),
        ("an overlapping write", |world| world.request(WRITE, 5 * STRIP + 1, 1), (2, 0)),
        ("a read by recovery", recover, (2, 0)),
    ];
    for (name, end, counted) in rows {
        let mut world = that_holds();
        end(&mut world);
        assert_eq!(world.poll(), *counted, "{name}");
        world.finish_all();
        assert_eq!(world.completed.len() as u32, world.next_tag - 1, "{name}");
        assert!(world.controller.is_idle(), "{name}");
    }
}

/// Has a strip of stripe 1 read whose member is gone.
fn recover(world: &mut World) {
    world.controller.handle_member_loss(world.now, MemberIndex(1));
    world.request(HostOp::Read, 7 * STRIP, 1);
}

#[test]
fn nothing_is_held_where_it_would_be_of_no_use() {
    // Level, gathering, first block and blocks of a second write while stripe 0 is written whole.
    let rows: &[(&str, bool, u64, u64)] = &[
        ("5", false, 5 * STRIP, STRIP),
        ("5", true, 6 * STRIP, STRIP),
        ("5", true, 10 * STRIP, STRIP),
        ("10", true, 3 * STRIP, STRIP),
        ("0", true, 6 * STRIP, STRIP),
    ];
    for &(level, coalesce_writes, lba, blocks) in rows {
        let mut config = config(level, 6);
        config.cache.coalesce_writes = coalesce_writes;
        let mut world = World::new(&config, SPAN);
        let whole = world.controller.layout().shape().stripe_blocks().0;
        world.request(WRITE, 0, whole);
        world.finish_all();
        world.request(WRITE, 0, whole);
        assert_eq!(world.poll(), (0, 6));
        world.request(WRITE, lba, blocks);
        let (reads, writes) = world.poll();
        assert!(reads + writes > 0, "RAID {level}, gathering {coalesce_writes}: {lba}+{blocks} waits");
        world.finish_all();
        assert!(world.controller.is_idle());
    }
}
