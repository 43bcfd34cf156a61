//! Single cases that the random runs meet too seldom, or can't tell from others.

use crate::world::{Cut, Random, World, entries, held};
use crate::{STRIP_BLOCKS, array};
use raidlab_controller::{
    Action, ArrayConfig, BatteryState, CacheConfig, CacheMemory, Controller, HostOp, IoPolicy, MemberCache,
    MemberOp, Notice, PeerState, ReadPolicy, RestoreError, WritePolicy,
};
use raidlab_format::NvramEntry;
use raidlab_testkit::BLOCK;
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, Nanos};

const WRITE: HostOp = HostOp::Write { fua: false };
const FUA: HostOp = HostOp::Write { fua: true };

/// RAID 0 over two members, `slots` slots of one strip, which destages only when it must.
fn striped(slots: u64) -> ArrayConfig {
    let strip = ByteCount(STRIP_BLOCKS * BLOCK as u64);
    let mut config = array(&mut Random(0));
    config.level = "0".parse().expect("a level");
    config.members = 2;
    config.member_cache = MemberCache::Off;
    config.cache = CacheConfig {
        size: ByteCount(strip.0 * slots),
        block_size: strip,
        memory: CacheMemory::BatteryBacked,
        write_policy: WritePolicy::WriteBack,
        read_policy: ReadPolicy::NoReadAhead,
        io_policy: IoPolicy::Direct,
        flush_start_pct: 100,
        flush_stop_pct: 100,
        ..CacheConfig::default()
    };
    config
}

/// Writes one block in each strip given.
fn write_strips(world: &mut World, op: HostOp, strips: &[u64]) {
    for strip in strips {
        assert_eq!(world.submit(op, strip * STRIP_BLOCKS, 1), None);
        world.finish_copies();
    }
}

/// The strips that the directory names.
fn named(world: &World) -> Vec<u64> {
    entries(&world.directory).iter().map(|(_, entry)| entry.block).collect()
}

#[test]
fn what_a_lost_member_should_hold_is_there_again_when_the_array_starts_with_it() {
    let mut world = World::new(&striped(4), 1);
    write_strips(&mut world, WRITE, &[0, 1]);
    // Strip 1 is on member 1.
    assert_eq!(world.lose_member(1), None);
    assert_eq!(world.destage_all(), None);
    world.settle();
    assert_eq!(world.lost.len(), 1, "strip 1 can't be stored");
    assert_eq!(named(&world), [1], "but is still named");
    world.cut(Cut::Power);
    assert_eq!(held(&world.members[1][..BLOCK], STRIP_BLOCKS), Some(2), "and is stored after the next start");
    assert_eq!(named(&world), [0; 0]);
}

#[test]
fn a_start_without_the_lost_member_leaves_what_it_should_hold_named() {
    let mut controller = Controller::new(&striped(4)).expect("possible");
    controller.handle_member_loss(Nanos::ZERO, MemberIndex(1));
    let entry = NvramEntry { sequence: 1, block: 1, dirty: 1 };
    controller.restore_nvram([(2, entry)].into_iter()).expect("it is this array's");
    controller.handle_destage_all(Nanos::ZERO);
    let actions: Vec<Action> = core::iter::from_fn(|| controller.poll_action()).collect();
    assert!(actions.iter().all(|action| matches!(action, Action::Notice(_))), "{actions:?}");
    let lost =
        Action::Notice(Notice::WriteLost { lba: Lba(STRIP_BLOCKS), blocks: BlockCount(1), is_kept: true });
    assert!(actions.contains(&lost), "{actions:?}");
    assert_eq!(controller.restored_pending(), 0, "the rest of the volume can be served");
    assert!(controller.is_idle());
}

#[test]
fn where_all_places_are_preserved_writes_go_past_the_cache() {
    let mut world = World::new(&striped(2), 1);
    write_strips(&mut world, WRITE, &[1, 3]);
    // The third stands in line for a place, and goes to a member that is there.
    assert_eq!(world.submit(WRITE, 0, 1), None);
    assert_eq!(world.lose_member(1), None);
    assert_eq!(world.destage_all(), None);
    world.settle();
    assert_eq!(world.waiting(), 0);
    assert_eq!(held(&world.members[0][..BLOCK], 0), Some(3), "what stood in line");
    assert!(!world.controller.cache_has_room());
    write_strips(&mut world, WRITE, &[2]);
    world.settle();
    let second = &world.members[0][STRIP_BLOCKS as usize * BLOCK..][..BLOCK];
    assert_eq!(held(second, 2 * STRIP_BLOCKS), Some(4), "what came later");
    let mut strips = named(&world);
    strips.sort_unstable();
    assert_eq!(strips, [1, 3], "what was acknowledged before is still kept");
    world.cut(Cut::Power);
    assert_eq!(held(&world.members[1][..BLOCK], STRIP_BLOCKS), Some(1));
    assert_eq!(named(&world), [0; 0]);
}

#[test]
fn a_flush_waits_for_destages_into_volatile_caches_and_no_longer() {
    let mut config = striped(4);
    config.member_cache = MemberCache::On;
    config.cache.flush_start_pct = 0;
    config.cache.flush_stop_pct = 0;
    let mut world = World::new(&config, 1);
    write_strips(&mut world, WRITE, &[0]);
    let first = world.member_ios();
    assert_eq!(first[0].op, MemberOp::Write { fua: false }, "nothing was promised yet");
    assert_eq!(world.submit(HostOp::Flush, 0, 0), None);
    write_strips(&mut world, WRITE, &[1]);
    let ios = world.member_ios();
    assert!(ios.iter().all(|io| io.op != MemberOp::Flush), "the first destage has not arrived yet");
    assert_eq!(ios[1].op, MemberOp::Write { fua: true }, "what starts now is not waited for");
    world.finish_member(first[0].id);
    let flushes = world.member_ios().iter().filter(|io| io.op == MemberOp::Flush).count();
    assert_eq!(flushes, 2, "both members are flushed while the second destage is under way");
}

#[test]
fn forced_unit_access_survives_its_destage() {
    let mut config = striped(4);
    config.member_cache = MemberCache::On;
    let mut world = World::new(&config, 1);
    write_strips(&mut world, FUA, &[0]);
    assert_eq!(world.waiting(), 0, "the cache survives power loss");
    assert_eq!(world.destage_all(), None);
    assert_eq!(world.member_ios()[0].op, MemberOp::Write { fua: true });
}

#[test]
fn a_battery_that_fails_before_the_acknowledgement_holds_it_back() {
    for (policy, op, waits) in [
        (WritePolicy::WriteBack, WRITE, true),
        (WritePolicy::WriteBack, FUA, true),
        (WritePolicy::WriteBackBadBattery, WRITE, false),
        (WritePolicy::WriteBackBadBattery, FUA, true),
    ] {
        let mut config = striped(4);
        config.cache.write_policy = policy;
        let mut world = World::new(&config, 1);
        assert_eq!(world.submit(op, 0, 1), None);
        assert_eq!(world.set_battery(BatteryState::Learning), None);
        world.finish_copies();
        assert_eq!(world.waiting() == 1, waits, "{policy:?} {op:?}");
        world.settle();
        assert_eq!(world.waiting(), 0, "{policy:?} {op:?}: the members have it");
    }
}

#[test]
fn a_second_controller_that_comes_back_has_all_when_the_rest_is_destaged() {
    for policy in [WritePolicy::WriteBack, WritePolicy::WriteBackBadBattery] {
        let mut config = striped(4);
        config.cache.mirror = true;
        config.cache.write_policy = policy;
        let mut world = World::new(&config, 1);
        write_strips(&mut world, WRITE, &[0]);
        assert!(world.controller.is_mirroring());
        assert_eq!(world.set_peer(PeerState::Gone), None);
        assert!(!world.controller.is_mirroring());
        world.settle();
        assert_eq!(world.controller.dirty_cache_blocks(), 0, "what it held alone goes to the members");
        write_strips(&mut world, WRITE, &[1]);
        let forced = policy == WritePolicy::WriteBackBadBattery;
        assert_eq!(world.waiting() == 0, forced, "{policy:?}");
        assert_eq!(world.set_peer(PeerState::Present), None);
        assert_eq!(world.controller.is_mirroring(), !forced, "{policy:?}: written through, nothing is dirty");
        world.settle();
        assert!(world.controller.is_mirroring(), "{policy:?}");
        assert!(world.controller.writes_back());
        write_strips(&mut world, WRITE, &[2]);
        assert_eq!(entries(&world.peer_directory), entries(&world.directory));
        assert_eq!(entries(&world.peer_directory).len(), 1);
    }
}

/// Plan `366298-beyond` of torture: the second controller took over, and what NVRAM kept for a start with all devices was gone.
#[test]
fn a_second_controller_lacks_what_was_preserved_before_it_came() {
    for is_alone in [false, true] {
        let mut config = striped(4);
        config.cache.mirror = true;
        config.cache.write_policy = WritePolicy::WriteBackBadBattery;
        let mut world = World::new(&config, 1);
        if is_alone {
            assert_eq!(world.set_peer(PeerState::Gone), None);
        }
        write_strips(&mut world, WRITE, &[1]);
        assert_eq!(world.lose_member(1), None);
        assert_eq!(world.destage_all(), None);
        world.settle();
        assert_eq!(named(&world), [1], "strip 1 can't be stored, and is kept");
        assert_eq!(world.controller.is_mirroring(), !is_alone, "the second one has it if it was there");
        assert_eq!(world.set_peer(PeerState::Gone), None);
        assert_eq!(world.set_peer(PeerState::Present), None);
        world.settle();
        assert!(!world.controller.is_mirroring(), "the second one is back without it");
    }
}

#[test]
fn nvram_that_is_not_this_arrays_is_refused() {
    let entry = |sequence, block, dirty| NvramEntry { sequence, block, dirty };
    let rows: &[(&[(u32, NvramEntry)], RestoreError)] = &[
        (&[(4, entry(1, 0, 1))], RestoreError::NoSuchSlot { slot: 4, slots: 4 }),
        (&[(0, entry(1, 8, 1))], RestoreError::NoSuchBlock { block: 8, blocks: 8 }),
        (&[(0, entry(1, u64::MAX, 1))], RestoreError::NoSuchBlock { block: u64::MAX, blocks: 8 }),
        (&[(0, entry(1, 0, 0x100))], RestoreError::NoSuchRow { dirty: 0x100, rows: 8 }),
        (&[(0, entry(1, 0, 1)), (0, entry(2, 1, 1))], RestoreError::SlotTwice { slot: 0 }),
        (&[(0, entry(7, 0, 1)), (1, entry(7, 1, 1))], RestoreError::Sequence { sequence: 7 }),
        (&[(0, entry(0, 0, 1))], RestoreError::Sequence { sequence: 0 }),
        (&[(0, entry(u64::MAX, 0, 1))], RestoreError::Sequence { sequence: u64::MAX }),
    ];
    for (entries, error) in rows {
        let mut controller = Controller::new(&striped(4)).expect("possible");
        assert_eq!(controller.restore_nvram(entries.iter().copied()), Err(*error));
        assert_eq!(controller.dirty_cache_blocks(), 0, "nothing is taken over");
        assert_eq!(controller.restore_nvram([(3, entry(1, 7, 0xff))].into_iter()), Ok(()));
        assert_eq!(controller.restored_pending(), 1);
    }
}

#[test]
fn a_directory_is_kept_where_someone_could_start_from_it() {
    for (memory, mirror, entries) in [
        (CacheMemory::Volatile, false, 0),
        (CacheMemory::Volatile, true, 4),
        (CacheMemory::BatteryBacked, false, 4),
        (CacheMemory::BatteryBacked, true, 4),
    ] {
        let mut config = striped(4);
        config.cache.memory = memory;
        config.cache.mirror = mirror;
        let controller = Controller::new(&config).expect("possible");
        assert_eq!(controller.memory_needs().directory_entries, entries, "{memory:?}, mirror {mirror}");
        assert_eq!(controller.is_mirroring(), mirror);
    }
}
