//! What the host may see of stripes that a crash left in doubt when devices go: nothing that a start with those devices would take back.

use super::world::{STRIP, World, config};
use raidlab_controller::{Action, DeviceState, HostError, HostOp, MemberOp, Notice, WritePolicy};
use raidlab_testkit::BLOCK;
use raidlab_units::{ByteCount, Lba, MemberIndex};

/// The last block of the first strip, in the volume and on both devices that have it.
const BLOCK_IN_DOUBT: u64 = STRIP - 1;

const READ: HostOp = HostOp::Read;

/// RAID 1E of three: the first strip is on devices 0 and 1, and one block of it is older on device `older`. Device 2 has a copy of
/// each other strip; once it is missing, each of the others has the last copy of some strip and can only be *lost*.
fn copies_that_differ(older: usize) -> World {
    let mut world = World::new(&config("1e", 3, 4), 0);
    world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
    world.devices[older].bytes[BLOCK_IN_DOUBT as usize * BLOCK..][..BLOCK].fill(0x55);
    world
}

/// Loses the last device that has some strip.
fn lose_beyond(world: &mut World, device: u16) {
    world.lose(device);
    assert_eq!(world.state(device), DeviceState::Lost { role: MemberIndex(device) });
}

/// Has a read resync the first strip, of which the block on device 0 can't be read, and stops when it is written there anew.
fn resync_under_way(world: &mut World) -> usize {
    world.devices[0].unreadable.insert(BLOCK_IN_DOUBT);
    world.controller.mark_out_of_sync(0..1);
    world.lose(2);
    let read = world.submit(READ, BLOCK_IN_DOUBT, 1);
    while !world.in_flight.iter().any(is_rewrite) {
        assert!(world.step(), "the first copy is made up from the second");
    }
    read
}

fn is_rewrite(action: &Action) -> bool {
    matches!(action, Action::Member(io) if io.member.0 == 0 && matches!(io.op, MemberOp::Write { .. }))
}

/// The read that failed could be repeated, and what it would give is what the resync is about to replace.
#[test]
fn a_read_waits_for_the_end_of_a_resync_that_a_lost_device_breaks_off() {
    let mut world = copies_that_differ(0);
    let first = resync_under_way(&mut world);
    lose_beyond(&mut world, 1);
    world.devices[0].unreadable.clear();
    let second = world.submit(READ, BLOCK_IN_DOUBT, 1);
    while let Some(other) = world.in_flight.iter().position(|action| !is_rewrite(action)) {
        world.finish(other);
    }
    world.settle();
    assert_eq!((world.results[first], world.results[second]), (Some(Ok(())), Some(Ok(()))));
}

/// The lost device may be back without what it was to be given, and its copy is the first: that counts then.
#[test]
fn copies_are_not_in_sync_while_the_first_is_on_a_lost_device() {
    let mut world = copies_that_differ(0);
    let read = resync_under_way(&mut world);
    lose_beyond(&mut world, 0);
    world.settle();
    let lost = Some(Err(HostError::DataLost { lba: Lba(BLOCK_IN_DOUBT) }));
    assert_eq!(world.results[read], lost);
}

/// A start with the lost device, whose copy is not on the list of bad blocks, would believe that one.
#[test]
fn an_unreadable_block_in_doubt_is_not_tried_again() {
    let mut world = copies_that_differ(1);
    world.reads_race = true;
    // Neither can be read, then the second.
    for device in [0, 1] {
        world.devices[device].unreadable.insert(BLOCK_IN_DOUBT);
    }
    assert!(world.read(BLOCK_IN_DOUBT, 1).is_err());
    world.devices[1].unreadable.clear();
    assert_eq!(world.read(BLOCK_IN_DOUBT, 1), Ok(()));
    assert_eq!(world.bad(), [(0, BLOCK_IN_DOUBT, 1)]);
    world.devices[0].unreadable.clear();
    world.controller.mark_out_of_sync(0..1);
    world.lose(2);
    lose_beyond(&mut world, 1);
    let lost = Err(HostError::DataLost { lba: Lba(BLOCK_IN_DOUBT) });
    assert_eq!(world.read(BLOCK_IN_DOUBT, 1), lost);
}

/// Parity in doubt holds a strip only if it is made from all data at once, which a destage would find out when it is too late.
#[test]
fn no_strip_is_cached_that_parity_in_doubt_alone_could_hold() {
    for write_policy in [WritePolicy::WriteThrough, WritePolicy::WriteBack] {
        let mut config = config("5", 4, 4);
        config.cache.write_policy = write_policy;
        let mut world = World::new(&config, 0);
        world.controller.handle_scan_rate(world.now, Some(ByteCount::ZERO));
        world.controller.mark_out_of_sync(0..1);
        world.lose(1);
        world.devices[0].unreadable.insert(2);
        let refused = Err(HostError::ArrayFailed { lba: Lba(STRIP) });
        assert_eq!(world.write(STRIP, STRIP), refused, "{write_policy:?}");
        let is_loss = |notice: &Notice| matches!(notice, Notice::WriteLost { .. });
        assert!(!world.notices.iter().any(is_loss), "{write_policy:?}: it was taken");
    }
}
