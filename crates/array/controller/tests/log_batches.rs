//! Which records of the intent log share a write of a member.
//!
//! Member I/O ends only when a test says so. Not verified here: the bytes of a batch, and what a start makes of one that is torn,
//! which `crash.rs` and torture look at.

use raidlab_controller::{Area, ArrayConfig, CacheConfig, MetadataPolicy};
use raidlab_testkit::{CountedWorld as World, STRIP, WRITE, array};
use raidlab_units::{ByteCount, NanoSpan};

const SPAN: NanoSpan = NanoSpan::from_micros(500);
/// Blocks of a member of [`array`].
const MEMBER: u64 = 1024;
/// Header, data and parity of a write of one block to RAID 5.
const RECORD: u64 = 3;

fn config(level: &str) -> ArrayConfig {
    let mut config = array(level, 6, CacheConfig { size: ByteCount(0), ..CacheConfig::default() });
    config.resilience.metadata = MetadataPolicy::Log;
    config
}

/// An array that the devices know to be dirty.
fn world(level: &str) -> World {
    let mut world = World::new(&config(level), SPAN);
    world.run(WRITE, 0, 1);
    world
}

/// Blocks of a stripe's data.
fn stripe(world: &World) -> u64 {
    world.controller.volume_blocks().0 / MEMBER * STRIP
}

/// Reads and writes of members in each phase of `count` writes of `blocks`, each at the front of a stripe of its own.
fn phases(level: &str, count: u64, blocks: impl Fn(u64) -> u64) -> Vec<(u32, u32)> {
    let mut world = world(level);
    let stripe = stripe(&world);
    (1..=count).for_each(|number| world.request(WRITE, number * stripe, blocks(stripe)));
    let mut phases = Vec::new();
    loop {
        let counted = world.poll();
        if counted == (0, 0) {
            break;
        }
        phases.push(counted);
        world.finish();
    }
    assert_eq!(world.completed.len() as u64, 1 + count);
    phases
}

#[test]
fn records_that_wait_for_one_share_the_next_writes() {
    // Level, and the phases of eight writes of a block: reads; the first record; the first change in place with all other
    // records; all other changes. A nested level has no batches.
    let rows: &[(&str, &[(u32, u32)])] = &[
        ("5", &[(16, 0), (0, 2), (0, 2 + 2), (0, 14)]),
        ("6", &[(24, 0), (0, 3), (0, 3 + 3), (0, 21)]),
        ("50:2-spans", &[(8, 0), (0, 16), (0, 16)]),
    ];
    for &(level, expected) in rows {
        assert_eq!(phases(level, 8, |_| 1), expected, "RAID {level}");
    }
}

#[test]
fn long_records_do_not_wait() {
    assert_eq!(phases("5", 3, |stripe| stripe - 1), [(3, 0), (0, 6), (0, 18)]);
}

/// Those of whole stripes are short: two of them wait for the first.
#[test]
fn records_of_whole_stripes_share_writes() {
    assert_eq!(phases("5", 3, |stripe| stripe), [(0, 2), (0, 6 + 2), (0, 12)]);
}

#[test]
fn a_batch_is_one_run_of_the_ring() {
    let mut world = world("5");
    let stripe = stripe(&world);
    (1..=8).for_each(|number| world.request(WRITE, number * stripe, 1));
    world.poll();
    world.finish();
    let mut extents = Vec::new();
    for _ in 0..2 {
        world.poll();
        let log = world.under_way.iter().filter(|io| io.area == Area::Metadata);
        extents.push(log.map(|io| (io.lba.0, io.blocks.0)).collect::<Vec<_>>());
        world.finish();
    }
    let (first, rest) = (extents[0][0], extents[1][0]);
    // Devices count as in sync once the first state is on them: until then a record holds data and parity.
    assert_eq!(
        (first.1, rest),
        (RECORD, (first.0 + RECORD, 1 + 7)),
        "one header, and partial parity of each"
    );
    assert!(extents.iter().all(|replicas| replicas.len() == 2 && replicas[0] == replicas[1]), "{extents:?}");
}
