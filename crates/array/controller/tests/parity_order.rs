//! In which order a change of a stripe is written: data and parity together, or data first and then its parity.
//!
//! Member I/O ends only when a test says so. Not verified here: the bytes, which `crash.rs` and `scans` look at.

use raidlab_controller::{ArrayConfig, CacheConfig, WritePolicy};
use raidlab_testkit::{CountedWorld as World, STRIP, WRITE, array};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan};

const SPAN: NanoSpan = NanoSpan::from_micros(500);

fn config(level: &str, parity_after_data: bool) -> ArrayConfig {
    array(level, 6, CacheConfig { size: ByteCount(0), parity_after_data, ..CacheConfig::default() })
}

/// Reads and writes of members in each phase of a write of `blocks`.
fn phases(config: &ArrayConfig, blocks: u64) -> Vec<(u32, u32)> {
    let mut world = World::new(config, SPAN);
    world.request(WRITE, 0, blocks);
    let mut phases = Vec::new();
    loop {
        let counted = world.poll();
        if counted == (0, 0) {
            break;
        }
        assert!(world.completed.is_empty(), "answered while {counted:?} are under way");
        phases.push(counted);
        world.finish();
    }
    assert_eq!(world.completed.len(), 1);
    assert!(world.controller.is_idle());
    phases
}

#[test]
fn data_is_written_before_its_parity_where_that_is_set() {
    type Phases<'a> = &'a [(u32, u32)];
    // Level, blocks; phases where all is written together, and where parity comes after data.
    let rows: &[(&str, u64, Phases<'_>, Phases<'_>)] = &[
        ("5", 1, &[(2, 0), (0, 2)], &[(2, 0), (0, 1), (0, 1)]),
        ("6", 1, &[(3, 0), (0, 3)], &[(3, 0), (0, 1), (0, 2)]),
        ("5", 5 * STRIP, &[(0, 6)], &[(0, 5), (0, 1)]),
        ("50:2-spans", 1, &[(1, 0), (0, 2)], &[(1, 0), (0, 1), (0, 1)]),
        ("10", 1, &[(0, 2)], &[(0, 2)]),
        ("0", 1, &[(0, 1)], &[(0, 1)]),
    ];
    for &(level, blocks, together, after) in rows {
        assert_eq!(phases(&config(level, false), blocks), together, "RAID {level}, {blocks} blocks together");
        assert_eq!(phases(&config(level, true), blocks), after, "RAID {level}, {blocks} blocks, data first");
    }
}

#[test]
fn destages_keep_the_order_as_well() {
    let mut config = config("5", true);
    config.cache.size = ByteCount::from_mib(1);
    config.cache.write_policy = WritePolicy::WriteBackBadBattery;
    (config.cache.flush_start_pct, config.cache.flush_stop_pct) = (0, 0);
    let mut world = World::new(&config, SPAN);
    world.request(WRITE, 0, 1);
    assert_eq!(world.poll(), (2, 0));
    assert_eq!(world.completed.len(), 1, "written back");
    world.finish();
    assert_eq!(world.poll(), (0, 1));
    world.finish();
    assert_eq!(world.poll(), (0, 1));
    world.finish_all();
    assert!(world.controller.is_idle());
}

/// Parity accounts for what a member that is gone should hold, so it must be written when the write of the data fails, and
/// when there is no member left to write it to.
#[test]
fn parity_is_written_although_the_data_is_gone() {
    let gone_before = {
        let mut world = World::new(&config("5", true), SPAN);
        world.controller.handle_member_loss(world.now, MemberIndex(0));
        world.request(WRITE, 0, STRIP);
        let counted = world.poll();
        world.finish();
        (counted, world.poll())
    };
    assert_eq!(gone_before, ((4, 0), (0, 1)), "the others are read, and parity alone is written");
    let mut world = World::new(&config("5", true), SPAN);
    world.request(WRITE, 0, 1);
    world.poll();
    world.finish();
    assert_eq!(world.poll(), (0, 1));
    let data = world.under_way[0].member;
    world.controller.handle_member_loss(world.now, data);
    world.finish();
    assert_eq!(world.poll(), (0, 1), "parity comes after all");
    assert_ne!(world.under_way[0].member, data);
    world.finish_all();
    assert_eq!(world.completed.len(), 1);
    assert!(world.controller.is_idle());
}
