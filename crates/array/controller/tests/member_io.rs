//! The member I/Os behind each host request, counted exactly, level by level and state by state.
//!
//! The figures are the published formulas (2R+2W for a small write of RAID 5, and so on); members answer at once.

use raidlab_controller::{
    Action, ArrayConfig, BatteryState, CacheConfig, CacheMemory, Controller, HostOp, HostRequest, HostTag,
    IoClass, MemberOp, ReadPolicy, WritePolicy,
};
use raidlab_testkit::{CountedWorld, READ, STRIP, WRITE, array};
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, NanoSpan, Nanos};

fn config(level: &str, members: u16, write_policy: WritePolicy) -> ArrayConfig {
    let cache = CacheConfig {
        block_size: ByteCount::from_kib(16),
        memory: CacheMemory::BatteryBacked,
        write_policy,
        ..CacheConfig::default()
    };
    array(level, members, cache)
}

/// A world whose members answer at once.
fn instant(config: &ArrayConfig) -> CountedWorld {
    CountedWorld::new(config, NanoSpan::ZERO)
}

#[test]
fn member_ios_per_host_request() {
    /// Level, members, failed members, request, first block, blocks, member reads, member writes.
    type Row = (&'static str, u16, &'static [u16], HostOp, u64, u64, u32, u32);
    let full = |strips: u64| strips * STRIP;
    let rows: &[Row] = &[
        ("0", 6, &[], READ, 0, 2, 1, 0),
        ("0", 6, &[], WRITE, 0, 2, 0, 1),
        ("0", 6, &[], WRITE, 0, full(6), 0, 6),
        ("1", 2, &[], READ, 0, 2, 1, 0),
        ("1", 2, &[], WRITE, 0, 2, 0, 2),
        ("1", 2, &[0], WRITE, 0, 2, 0, 1),
        ("10", 6, &[], READ, 0, 2, 1, 0),
        ("10", 6, &[], WRITE, 0, 2, 0, 2),
        ("10", 6, &[], WRITE, 0, full(3), 0, 6),
        ("10", 6, &[0], READ, 0, 2, 1, 0),
        ("5", 6, &[], READ, 0, 2, 1, 0),
        ("5", 6, &[], WRITE, 0, 2, 2, 2),
        ("5", 6, &[], WRITE, 14, 4, 3, 3),
        ("5", 6, &[], WRITE, 0, full(5), 0, 6),
        ("5", 6, &[], WRITE, 0, full(4), 1, 5),
        ("5", 3, &[], WRITE, 0, 2, 1, 2),
        // Strip 0 of stripe 0 is on member 0, parity on member 5.
        ("5", 6, &[0], READ, 0, 2, 5, 0),
        ("5", 6, &[0], WRITE, 0, 2, 4, 1),
        ("5", 6, &[1], WRITE, 0, 2, 2, 2),
        ("5", 6, &[5], WRITE, 0, 2, 0, 1),
        ("6", 8, &[], WRITE, 0, 2, 3, 3),
        ("6", 6, &[], WRITE, 0, 2, 3, 3),
        ("6", 6, &[], WRITE, 0, full(4), 0, 6),
        // Data of stripe 0 on 1 to 4, P on 5, Q on 0.
        ("6", 6, &[5], WRITE, 0, 2, 2, 2),
        ("6", 6, &[5, 0], WRITE, 0, 2, 0, 1),
        ("6", 6, &[1, 2], READ, 0, 2, 4, 0),
        ("6", 6, &[1, 5], READ, 0, 2, 4, 0),
        ("6", 6, &[1, 2], WRITE, 0, 2, 4, 2),
        ("50:2-spans", 6, &[], WRITE, 0, 2, 1, 2),
        ("60:2-spans", 10, &[], WRITE, 0, 2, 2, 3),
    ];
    for &(level, members, failed, op, lba, blocks, reads, writes) in rows {
        let mut world = instant(&config(level, members, WritePolicy::WriteThrough));
        for &member in failed {
            world.controller.handle_member_loss(Nanos::ZERO, MemberIndex(member));
        }
        let counted = world.run(op, lba, blocks);
        assert_eq!(
            counted,
            (reads, writes),
            "RAID {level} x{members} less {failed:?}: {op:?} {lba}+{blocks}"
        );
        assert!(world.controller.is_idle(), "RAID {level} x{members} less {failed:?} is left busy");
    }
}

/// Twelve reads of 64 KiB in sequence, all in flight before the first ends: spread evenly over the two copies, or kept on
/// one until it has more than `stream_lead` more in flight than the other, which then goes on with the stream.
#[test]
fn a_deep_stream_takes_as_many_copies_as_the_lead_allows() {
    for (stream_lead, on_first) in [(0, 6), (4, 5), (12, 12)] {
        let mut config = config("1", 2, WritePolicy::WriteThrough);
        config.cache.stream_lead = stream_lead;
        let mut controller = Controller::new(&config).expect("the configuration is possible");
        let mut counts = [0; 2];
        for index in 0..12_u32 {
            let (lba, blocks) = (Lba(u64::from(index) * STRIP), BlockCount(STRIP));
            let request = HostRequest { tag: HostTag(index), op: HostOp::Read, lba, blocks };
            controller.handle_host_request(Nanos::ZERO, request);
            while let Some(action) = controller.poll_action() {
                if let Action::Member(io) = action {
                    counts[io.member.index()] += 1;
                }
            }
        }
        assert_eq!(counts, [on_first, 12 - on_first], "a lead of {stream_lead}");
    }
}

/// A stream that writes every third strip, deep: its reads stay with one copy, although writes go to both and leave gaps.
#[test]
fn what_a_stream_writes_does_not_part_it_from_its_copy() {
    let mut config = config("1", 2, WritePolicy::WriteThrough);
    config.cache.stream_lead = 100;
    let mut controller = Controller::new(&config).expect("the configuration is possible");
    let mut reads = [0; 2];
    for index in 0..30_u32 {
        let (lba, blocks) = (Lba(u64::from(index) * STRIP), BlockCount(STRIP));
        let op = if index % 3 == 2 { WRITE } else { HostOp::Read };
        controller.handle_host_request(Nanos::ZERO, HostRequest { tag: HostTag(index), op, lba, blocks });
        while let Some(action) = controller.poll_action() {
            if let Action::Member(io) = action {
                reads[io.member.index()] += u32::from(io.op == MemberOp::Read);
            }
        }
    }
    assert_eq!(reads, [20, 0]);
}

/// What tags add, all members present: a read reads the tag row beside the data, or with it where it follows at
/// once; a write reads the tag rows that it leaves in part as they are, and writes tags by themselves. Tags that
/// were read with old data or parity are not read again.
#[test]
fn member_ios_with_integrity() {
    type Row = (&'static str, u16, HostOp, u64, u64, u32, u32);
    let full = |strips: u64| strips * STRIP;
    let rows: &[Row] = &[
        ("0", 6, READ, 0, 2, 2, 0),
        ("0", 6, READ, 14, 2, 1, 0),
        ("0", 6, READ, 0, full(1), 1, 0),
        ("0", 6, READ, 14, 4, 1 + 2, 0),
        ("0", 6, WRITE, 0, 2, 1, 2),
        ("0", 6, WRITE, 0, full(6), 0, 12),
        ("1", 2, READ, 0, 2, 2, 0),
        ("1", 2, WRITE, 0, 2, 2, 4),
        ("10", 6, WRITE, 0, full(3), 0, 12),
        ("5", 6, READ, 0, 2, 2, 0),
        ("5", 6, WRITE, 0, 2, 4, 4),
        // The hull of the parity is the whole strip; it ends where its tags begin.
        ("5", 6, WRITE, 14, 4, 2 + 1 + 1, 6),
        ("5", 6, WRITE, 0, full(5), 0, 12),
        ("5", 6, WRITE, 0, full(4), 1, 10),
        // A reconstructing write reads the tags of what it writes when it writes it.
        ("5", 3, WRITE, 0, 2, 2 + 2, 4),
        ("6", 8, WRITE, 0, 2, 6, 6),
        ("6", 6, WRITE, 0, full(4), 0, 12),
    ];
    for &(level, members, op, lba, blocks, reads, writes) in rows {
        let mut config = config(level, members, WritePolicy::WriteThrough);
        config.resilience.integrity = true;
        let mut world = instant(&config);
        let counted = world.run(op, lba, blocks);
        assert_eq!(counted, (reads, writes), "RAID {level} x{members}: {op:?} {lba}+{blocks}");
        assert!(world.controller.is_idle(), "RAID {level} x{members} is left busy");
    }
}

/// Blocks that lie apart in a strip are written one by one, and the tag row is read once for all.
#[test]
fn a_tag_row_is_read_once_for_all_that_is_written_to_its_strip() {
    for (level, reads, writes) in [("0", 1, 2 * 2), ("10", 2, 4 * 2)] {
        let mut config = config(level, 6, WritePolicy::WriteBack);
        config.resilience.integrity = true;
        config.cache.block_size = ByteCount::from_kib(4);
        let mut world = instant(&config);
        for lba in [1, 5] {
            assert_eq!(world.run(WRITE, lba, 1), (0, 0));
        }
        world.controller.handle_destage_all(Nanos::ZERO);
        world.finish_all();
        assert_eq!((world.reads, world.writes), (reads, writes), "RAID {level}");
    }
}

#[test]
fn cached_writes_are_gathered_into_full_stripes() {
    for (level, stripe_strips, member_writes) in [("5", 5, 6), ("6", 4, 6), ("10", 3, 6), ("0", 6, 6)] {
        let mut world = instant(&config(level, 6, WritePolicy::WriteBack));
        for lba in (0..stripe_strips * STRIP).step_by(2) {
            let counted = world.run(WRITE, lba, 2);
            assert_eq!(counted, (0, 0), "RAID {level}: a cached write needs no member");
        }
        // Dirty blocks have a time by which they are destaged.
        world.fire();
        world.finish_all();
        assert_eq!(
            (world.reads, world.writes),
            (0, member_writes),
            "RAID {level}: full stripes need no reads"
        );
        assert!(world.controller.is_idle());
    }
}

#[test]
fn a_read_finds_what_a_cached_write_left() {
    let mut world = instant(&config("5", 6, WritePolicy::WriteBack));
    world.run(WRITE, 3, 4);
    assert_eq!(world.run(READ, 3, 4), (0, 0), "wholly in the cache");
    assert_eq!(world.run(READ, 2, 2), (1, 0), "half in the cache");
    assert_eq!(world.run(READ, 0, 16), (2, 0), "around what is in the cache");
}

#[test]
fn write_back_needs_its_battery() {
    let mut world = instant(&config("5", 6, WritePolicy::WriteBack));
    assert_eq!(world.run(WRITE, 0, 2), (0, 0));
    world.controller.handle_battery(Nanos::ZERO, BatteryState::Charging);
    world.finish_all();
    assert_eq!((world.reads, world.writes), (2, 2), "dirty blocks are destaged at once");
    assert_eq!(world.run(WRITE, 32, 2), (2, 2), "and writes go through");
    let forced = config("5", 6, WritePolicy::WriteBackBadBattery);
    let mut world = instant(&forced);
    world.controller.handle_battery(Nanos::ZERO, BatteryState::Charging);
    assert_eq!(world.run(WRITE, 0, 2), (0, 0), "unless it is forced");
}

#[test]
fn flush_and_fua_wait_for_members_where_the_cache_is_volatile() {
    let mut volatile = config("10", 6, WritePolicy::WriteBack);
    volatile.cache.memory = CacheMemory::Volatile;
    let mut world = instant(&volatile);
    assert_eq!(world.run(WRITE, 0, 2), (0, 0));
    assert_eq!(world.run(HostOp::Flush, 0, 0), (0, 2), "a flush destages");
    assert_eq!(world.run(HostOp::Write { fua: true }, 0, 2), (0, 2), "forced unit access goes through");
    let mut world = instant(&config("10", 6, WritePolicy::WriteBack));
    world.run(HostOp::Write { fua: true }, 0, 2);
    assert_eq!(world.run(HostOp::Flush, 0, 0), (0, 0), "a battery-backed cache is durable itself");
    assert_eq!(world.writes, 0);
}

#[test]
fn adaptive_read_ahead_starts_after_two_sequential_reads() {
    for read_ahead_with_queue in [false, true] {
        let mut adaptive = config("0", 4, WritePolicy::WriteThrough);
        adaptive.cache.read_policy = ReadPolicy::Adaptive;
        adaptive.cache.read_ahead_with_queue = read_ahead_with_queue;
        let mut world = instant(&adaptive);
        assert_eq!(world.run(READ, 100, 4), (1, 0), "the first access");
        assert_eq!(world.run(READ, 500, 4), (1, 0), "a random one");
        assert_eq!(world.run(READ, 504, 4), (2, 0), "the second in sequence reads ahead as much again");
        let hits = |world: &CountedWorld| world.controller.counters().cache_hit_blocks;
        assert_eq!(hits(&world), 0);
        assert_eq!(
            world.run(READ, 508, 4),
            (1, 0),
            "the third finds its blocks and reads ahead twice as much"
        );
        assert_eq!(hits(&world), 4);
    }
}

#[test]
fn nothing_is_read_ahead_for_a_host_whose_own_queue_goes_as_far() {
    for (read_ahead_with_queue, queued, expected) in [(false, 3, true), (true, 3, false), (true, 0, true)] {
        let mut adaptive = config("0", 4, WritePolicy::WriteThrough);
        adaptive.cache.read_policy = ReadPolicy::Adaptive;
        adaptive.cache.read_ahead = ByteCount(8 * 4096);
        adaptive.cache.read_ahead_with_queue = read_ahead_with_queue;
        let mut world = instant(&adaptive);
        // Two in sequence that have ended, so many that have not, and one more, which reads ahead for those to come.
        for lba in [500, 504] {
            world.run(READ, lba, 4);
        }
        let mut begin = |tag: u32| {
            let lba = Lba(508 + 4 * u64::from(tag));
            let request = HostRequest { tag: HostTag(100 + tag), op: READ, lba, blocks: BlockCount(4) };
            world.controller.handle_host_request(Nanos::ZERO, request);
            let actions = std::iter::from_fn(|| world.controller.poll_action());
            let is_ahead = |action| matches!(action, Action::Member(io) if io.class == IoClass::ReadAhead);
            actions.map(is_ahead).fold(false, |any, one| any | one)
        };
        for tag in 0..queued {
            begin(tag);
        }
        let is_ahead = begin(queued);
        assert_eq!(is_ahead, expected, "with queue: {read_ahead_with_queue}, {queued} under way");
    }
}

#[test]
fn nothing_is_read_ahead_while_the_devices_answer_at_once() {
    for read_ahead_with_queue in [false, true] {
        let mut adaptive = config("0", 4, WritePolicy::WriteThrough);
        adaptive.cache.read_policy = ReadPolicy::Adaptive;
        adaptive.cache.read_ahead = ByteCount(8 * 4096);
        adaptive.cache.read_ahead_with_queue = read_ahead_with_queue;
        let mut world = instant(&adaptive);
        let mut hits = |lba| {
            world.run(READ, lba, 4);
            world.controller.counters().cache_hit_blocks
        };
        let hits: Vec<u64> = (0..60).map(|read| hits(500 + 4 * read)).collect();
        let is_ahead = hits[59] > hits[40];
        assert_eq!((hits[10] > 0, is_ahead), (true, !read_ahead_with_queue), "{hits:?}");
    }
}

#[test]
fn read_ahead_on_a_miss_waits_until_all_of_the_last_is_used_up() {
    let mut adaptive = config("0", 4, WritePolicy::WriteThrough);
    adaptive.cache.read_policy = ReadPolicy::Adaptive;
    adaptive.cache.read_ahead_on_miss = true;
    let mut world = instant(&adaptive);
    let rows = [(500, (1, 0), 0), (504, (2, 0), 0), (508, (0, 0), 4), (512, (3, 0), 4), (516, (0, 0), 8)];
    for (lba, reads, hits) in rows {
        assert_eq!(world.run(READ, lba, 4), reads, "block {lba}");
        assert_eq!(world.controller.counters().cache_hit_blocks, hits, "block {lba}");
    }
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let sized = |size: u64| {
        let mut config = config("5", 3, WritePolicy::WriteBack);
        config.cache.size = ByteCount(size);
        Controller::new(&config).map(|_| ()).map_err(|error| error.to_string())
    };
    let block = 16 << 10;
    assert_eq!(sized(block), Ok(()));
    let said = [block / 2, (block << 28) + block].map(|size| sized(size).unwrap_err());
    let expected = [
        "write-back needs a cache of at least 16 KiB, and the cache is 8 KiB: write through, or give it a cache-size",
        "a cache of 4.00 TiB has too many blocks: make it 4 TiB at most, or its blocks longer",
    ];
    assert_eq!(said, expected);
}

#[test]
fn requests_outside_the_volume_are_refused() {
    let mut controller = Controller::new(&config("5", 3, WritePolicy::WriteThrough)).expect("possible");
    let end = controller.volume_blocks().0;
    for (lba, blocks) in [(end, 1), (end - 1, 2), (0, 0), (u64::MAX, 2)] {
        let request =
            HostRequest { tag: HostTag(7), op: HostOp::Read, lba: Lba(lba), blocks: BlockCount(blocks) };
        controller.handle_host_request(Nanos::ZERO, request);
        let Some(Action::Complete(completion)) = controller.poll_action() else { panic!("{lba}+{blocks}") };
        assert!(completion.result.is_err(), "{lba}+{blocks}");
    }
}

/// Discards reach every device that holds the range, a run on each, where nothing depends on what it returns afterwards.
#[test]
fn discards_are_runs_on_members_or_nothing() {
    /// Level, members, failed member, first block, blocks, and of each run its member, first block and length.
    type Row = (&'static str, u16, Option<u16>, u64, u64, &'static [(u16, u64, u64)]);
    let rows: &[Row] = &[
        ("0", 3, None, 0, 6 * STRIP, &[(0, 0, 2 * STRIP), (1, 0, 2 * STRIP), (2, 0, 2 * STRIP)]),
        ("0", 3, None, STRIP - 2, 4, &[(0, STRIP - 2, 2), (1, 0, 2)]),
        ("1", 2, None, 5, 3 * STRIP, &[(0, 5, 3 * STRIP), (1, 5, 3 * STRIP)]),
        ("1", 2, Some(0), 5, 3, &[(1, 5, 3)]),
        ("10", 4, None, 0, 2 * STRIP, &[(0, 0, STRIP), (1, 0, STRIP), (2, 0, STRIP), (3, 0, STRIP)]),
        ("5", 3, None, 0, 4 * STRIP, &[]),
        ("6", 4, None, 0, 4 * STRIP, &[]),
    ];
    for &(level, members, failed, lba, blocks, expected) in rows {
        for passes in [true, false] {
            let mut world =
                CountedWorld::new(&config(level, members, WritePolicy::WriteThrough), NanoSpan(1));
            if let Some(member) = failed {
                world.controller.handle_member_loss(Nanos::ZERO, MemberIndex(member));
            }
            if passes {
                world.controller.pass_discards();
            }
            world.request(HostOp::Discard, lba, blocks);
            world.poll();
            let mut runs: Vec<_> =
                world.under_way.iter().map(|io| (io.member.0, io.lba.0, io.blocks.0)).collect();
            runs.sort_unstable();
            let expected = if passes { expected } else { &[] };
            assert_eq!(runs, expected, "{level} x{members} without {failed:?}");
            assert!(world.under_way.iter().all(|io| io.op == MemberOp::Discard), "{level}");
            world.finish_all();
            assert_eq!(world.completed, [0], "{level}");
            let counters = world.controller.counters();
            let ignored = u64::from(expected.is_empty());
            assert_eq!((counters.member_discards, counters.discards_ignored), (runs.len() as u64, ignored));
        }
    }
}

/// The members are about to be written where the cache is dirty: a discard that overtook that would be pointless, and one that
/// came behind it would destroy what a later write to the cache was acknowledged for.
#[test]
fn a_discard_of_dirty_blocks_stays_with_the_cache() {
    let mut world = CountedWorld::new(&config("0", 2, WritePolicy::WriteBack), NanoSpan(1));
    world.controller.pass_discards();
    world.request(WRITE, 0, 4);
    world.poll();
    world.request(HostOp::Discard, 0, 4);
    world.request(HostOp::Discard, 1000, 4);
    world.poll();
    let discards: Vec<_> = world.under_way.iter().filter(|io| io.op == MemberOp::Discard).collect();
    assert_eq!(discards.len(), 1, "only that of the clean range: {discards:?}");
    world.finish_all();
    assert_eq!(world.controller.counters().discards_ignored, 1);
}
