//! What is in cache of rows that the array itself has rewritten, or given up, does not outlive that.

use super::scan;
use super::world::{STRIP, World, config};
use raidlab_controller::{HostError, IoPolicy, Scan, WritePolicy};
use raidlab_testkit::BLOCK;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba};

/// A mirror whose last copy is wrong in every block, with reads in cache that came from either.
fn read_from_both(write_policy: WritePolicy, members: u16) -> World {
    let mut config = config("1", members, 4);
    (config.cache.io_policy, config.cache.write_policy) = (IoPolicy::Cached, write_policy);
    let mut world = World::new(&config, 0);
    for block in 0..4 * STRIP {
        world.block_mut(MemberIndex(members - 1), block).fill(0x55);
    }
    world.reads_race = true;
    // Both at a time, so that copies share them.
    for lba in (0..4 * STRIP).step_by(8) {
        for at in lba..lba + 8 {
            world.submit(raidlab_controller::HostOp::Read, at, 1);
        }
        world.settle();
    }
    world.reads_race = false;
    world
}

#[test]
fn reads_behind_a_repair_are_of_the_copy_that_counts() {
    for members in [2, 3] {
        let mut world = read_from_both(WritePolicy::WriteThrough, members);
        assert!(scan(&mut world, Scan::Repair).rewritten_rows > 0);
        assert_eq!(world.read(0, 4 * STRIP), Ok(()), "RAID 1 x{members}");
    }
}

#[test]
fn clean_blocks_beside_dirty_ones_are_forgotten_and_dirty_ones_stay() {
    let mut world = read_from_both(WritePolicy::WriteBack, 2);
    // Every other block of the cache's blocks of two.
    for lba in (0..6).step_by(2) {
        assert_eq!(world.write(lba, 1), Ok(()));
    }
    assert!(scan(&mut world, Scan::Repair).rewritten_rows > 0);
    assert_eq!(world.read(0, 4 * STRIP), Ok(()));
}

#[test]
fn blocks_that_are_given_up_are_errors_at_once() {
    let mut config = config("0", 2, 4);
    config.cache.io_policy = IoPolicy::Cached;
    let mut world = World::new(&config, 0);
    assert_eq!(world.read(0, 4), Ok(()));
    world.controller.mark_bad_blocks(MemberIndex(0), MemberLba(2), BlockCount(1));
    assert_eq!(world.read(2, 1), Err(HostError::DataLost { lba: Lba(2) }));
    assert_eq!(world.read(3, 1), Ok(()));
    let bytes = &world.devices[0].bytes[2 * BLOCK..3 * BLOCK];
    assert!(!bytes.iter().all(|byte| *byte == 0xee), "it was there");
}
