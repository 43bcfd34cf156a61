//! Arrays with the rules of Linux md: how many member I/Os a write costs, which parts of stripes wait, which copy is read.
//!
//! The counts are those that follow by hand from `handle_stripe_dirtying` and `raid5_activate_delayed` (drivers/md/raid5.c) and
//! from `read_balance` (drivers/md/raid1.c). Not verified here: the bytes, which `crash.rs` and `scans` look at.

use raidlab_controller::{
    Area, ArrayConfig, ArrayRules, BitmapPlace, CacheConfig, CoalescingRule, ConfigError, Controller,
    MemberCache, MemberOp, MetadataPolicy, ParityUpdate, ReadBalance, StripeCache, WriteLogPlace,
};
use raidlab_raid::StripUnit;
use raidlab_testkit::{CountedWorld as World, READ, STRIP, WRITE, array};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan, StripeIndex};

const SPAN: NanoSpan = NanoSpan::from_micros(500);

fn md(level: &str, members: u16, rules: ArrayRules) -> ArrayConfig {
    let rules = ArrayRules { coalescing: CoalescingRule::Prereads, ..rules };
    array(level, members, CacheConfig { size: ByteCount(0), rules, ..CacheConfig::default() })
}

/// Member reads and writes of a lone write of so many blocks.
fn counts(config: &ArrayConfig, blocks: u64) -> (u32, u32) {
    World::new(config, SPAN).run(WRITE, 0, blocks)
}

#[test]
fn a_write_costs_the_member_ios_that_md_needs() {
    use ParityUpdate::{FewestReads, NeverModify, PreferModify};
    let rows = [
        // Whole stripes read nothing.
        ("6", 12, 10 * STRIP, FewestReads, (0, 12)),
        ("5", 6, 5 * STRIP, NeverModify, (0, 6)),
        // 4 KiB: old data and parity, where that is less than the rest of the row.
        ("5", 6, 1, FewestReads, (2, 2)),
        ("6", 10, 1, FewestReads, (3, 3)),
        ("6", 10, 1, NeverModify, (7, 3)),
        ("5", 6, 1, NeverModify, (4, 2)),
        // Four of five strips: one is read, not four and parity.
        ("5", 6, 4 * STRIP, FewestReads, (1, 5)),
        ("5", 6, 4 * STRIP, PreferModify, (1, 5)),
        ("5", 3, 1, FewestReads, (1, 2)),
        ("10", 4, 1, FewestReads, (0, 2)),
    ];
    for (level, members, blocks, parity_update, expected) in rows {
        let config = md(level, members, ArrayRules { parity_update, ..ArrayRules::OWN });
        let counted = counts(&config, blocks);
        assert_eq!(counted, expected, "RAID {level} x{members}, {blocks} blocks, {parity_update:?}");
    }
}

/// Where both ways read as much, `rmw_level` decides: md takes the rest of the row at 1, and the old parity at 2.
#[test]
fn the_level_of_modifying_decides_between_equals() {
    let members = |parity_update| {
        let mut world = World::new(&md("5", 4, ArrayRules { parity_update, ..ArrayRules::OWN }), SPAN);
        world.request(WRITE, 0, 1);
        assert_eq!(world.poll(), (2, 0), "{parity_update:?}");
        let read: Vec<_> = world.under_way.iter().map(|io| io.member).collect();
        world.finish();
        world.poll();
        let written: Vec<_> = world.under_way.iter().map(|io| io.member).collect();
        (read, written)
    };
    let (rest, written) = members(ParityUpdate::FewestReads);
    assert!(rest.iter().all(|member| !written.contains(member)), "{rest:?} {written:?}");
    let (old, written) = members(ParityUpdate::PreferModify);
    assert!(old.iter().all(|member| written.contains(member)), "{old:?} {written:?}");
}

#[test]
fn parts_of_stripes_collect_while_another_one_reads() {
    let mut world = World::new(&md("5", 6, ArrayRules::OWN), SPAN);
    let stripe = |index: u64| index * 5 * STRIP;
    world.request(WRITE, stripe(0), 1);
    assert_eq!(world.poll(), (2, 0), "nobody reads, so that it goes on at once");
    world.request(WRITE, stripe(1), 1);
    world.request(WRITE, stripe(2), STRIP);
    world.request(WRITE, stripe(3), 1);
    assert_eq!(world.poll(), (0, 0), "they wait for the one that reads");
    world.request(WRITE, stripe(4), 5 * STRIP);
    assert_eq!(world.poll(), (0, 6), "a whole stripe waits for nobody");
    world.request(WRITE, stripe(2) + STRIP, 4 * STRIP);
    assert_eq!(world.poll(), (0, 6), "it has become whole");
    world.finish();
    assert_eq!(world.poll(), (4, 2), "the first is written, and all others read together");
    world.finish_all();
    assert_eq!((world.completed.len(), world.controller.is_idle()), (6, true));
}

/// What comes to a stripe that is being changed collects, too, and is one change.
#[test]
fn what_waits_for_its_stripe_collects() {
    let mut world = World::new(&md("5", 6, ArrayRules::OWN), SPAN);
    world.request(WRITE, 0, 1);
    assert_eq!(world.poll(), (2, 0));
    for block in 1..4 {
        world.request(WRITE, block, 1);
    }
    assert_eq!(world.poll(), (0, 0));
    world.finish();
    assert_eq!(world.poll(), (0, 2));
    world.finish();
    assert_eq!(world.poll(), (2, 0), "three writes read once");
    world.finish_all();
    assert_eq!((world.reads, world.writes, world.completed.len()), (4, 4, 4));
}

#[test]
fn the_stripe_cache_bounds_what_is_under_way() {
    let rules = ArrayRules { stripe_pages_max: Some(2), ..ArrayRules::OWN };
    let mut world = World::new(&md("5", 6, rules), SPAN);
    for stripe in 0..5 {
        world.request(WRITE, stripe * 5 * STRIP, 1);
    }
    assert_eq!(world.poll(), (4, 0), "two pages for two rows");
    world.finish_all();
    assert_eq!((world.reads, world.writes, world.completed.len()), (10, 10, 5));
    // A stripe with more rows than the cache has pages takes all of them.
    assert_eq!(world.run(WRITE, 0, 5 * STRIP), (0, 6));
    assert!(world.controller.is_idle());
}

/// Rows of a block, as md's are of a page, and a stripe cache of so many of them.
fn in_rows(stripe_cache: StripeCache, rows: u32) -> ArrayRules {
    let row = Some(ByteCount::from_kib(4));
    ArrayRules { row, stripe_cache, stripe_pages_max: Some(rows), preread_bypass: Some(1), ..ArrayRules::OWN }
}

/// Each row is changed by itself: which are read and how follows from what the host writes of it.
#[test]
fn rows_of_a_stripe_are_changed_by_themselves() {
    let mut world = World::new(&md("5", 6, in_rows(StripeCache::None, 256)), SPAN);
    world.request(WRITE, 0, 1);
    assert_eq!(world.poll(), (2, 0));
    world.request(WRITE, 1, 1);
    world.finish();
    assert_eq!(world.poll(), (2, 2), "another row of the same stripe is read while the first is written");
    world.finish_all();
    // The first and the last row of all strips are whole, those between lack a strip.
    let mut world = World::new(&md("5", 3, in_rows(StripeCache::None, 256)), SPAN);
    assert_eq!(world.run(WRITE, 0, STRIP + 1), (STRIP as u32 - 1, 2 * STRIP as u32 + 1));
    assert!(world.controller.is_idle());
}

/// What a chunk holds is read at once, whatever the rows, while all members are there.
#[test]
fn reads_are_not_cut_into_rows() {
    let mut world = World::new(&md("6", 5, in_rows(StripeCache::Held, 256)), SPAN);
    assert_eq!(world.run(READ, 0, 3 * STRIP), (3, 0));
    assert_eq!(world.run(READ, STRIP - 1, 2), (2, 0));
    let unit = StripUnit::Data { strip: 0, copy: 0 };
    let member = world.controller.layout().place(StripeIndex(0), unit).member;
    world.controller.handle_member_loss(world.now, member);
    assert_eq!(world.run(READ, 0, STRIP), (3 * STRIP as u32, 0), "by recovery, row by row");
}

/// What the stripe cache holds of a row is not read again, as long as it holds the row.
#[test]
fn the_stripe_cache_saves_reads() {
    let rewrites = |stripe_cache, rows, blocks: &[u64]| {
        let mut world = World::new(&md("6", 8, in_rows(stripe_cache, rows)), SPAN);
        blocks.iter().map(|&block| world.run(WRITE, block, 1)).collect::<Vec<_>>()
    };
    // Old data and parity; then the data of another strip of the row; then nothing.
    let sequence = [0, STRIP, 0, STRIP];
    assert_eq!(rewrites(StripeCache::Held, 256, &sequence), [(3, 3), (1, 3), (0, 3), (0, 3)]);
    assert_eq!(rewrites(StripeCache::HeldWithoutWrites, 256, &sequence), [(3, 3), (1, 3), (1, 3), (1, 3)]);
    assert_eq!(rewrites(StripeCache::None, 256, &sequence), [(3, 3); 4]);
    // Every eighth row shares a list, here with places for two: others than row 8 take that of row 0, row 1 does not.
    let stripe = 6 * STRIP;
    let (miss, hit) = ((3, 3), (0, 3));
    assert_eq!(
        rewrites(StripeCache::Held, 16, &[0, 8, 0, 1, stripe, 8, 0]),
        [miss, miss, hit, miss, miss, miss, miss]
    );
    assert_eq!(rewrites(StripeCache::Held, 16, &[0, 8, 1, 2, 3, 0]), [miss, miss, miss, miss, miss, hit]);
}

/// Ready parts of stripes let so many whole stripes go before as `preread_bypass_threshold` says.
#[test]
fn whole_stripes_go_before_parts() {
    let sent = |bypass| {
        let rules = ArrayRules { preread_bypass: bypass, ..in_rows(StripeCache::None, 256) };
        let mut world = World::new(&md("5", 4, rules), SPAN);
        let stripe = |index: u64| index * 3 * STRIP;
        world.request(WRITE, stripe(9), 3 * STRIP);
        world.poll();
        world.request(WRITE, 0, 1);
        let mut sent = vec![world.poll()];
        for index in [8, 7] {
            world.request(WRITE, stripe(index), 3 * STRIP);
            sent.push(world.poll());
        }
        world.finish_all();
        assert!(world.controller.is_idle(), "{bypass:?}");
        sent
    };
    assert_eq!(sent(None), [(2, 0), (0, 64), (0, 64)]);
    assert_eq!(sent(Some(1)), [(0, 0), (2, 64), (0, 64)], "rows are counted, and a stripe has 16");
    assert_eq!(sent(Some(20)), [(0, 0), (0, 64), (2, 64)]);
    assert_eq!(sent(Some(0)), [(0, 0), (0, 64), (0, 64)]);
}

/// Of members that rotate an idle one is read; where none is, the nearest, however many wait there.
#[test]
fn the_nearest_copy_is_read_where_none_is_idle() {
    let members = |read_balance| {
        let config = md("1", 2, ArrayRules { read_balance, ..ArrayRules::OWN });
        let mut world = World::new(&config, SPAN);
        for lba in [0, 500, 1, 2, 3] {
            world.request(READ, lba, 1);
        }
        world.poll();
        assert!(world.under_way.iter().all(|io| io.op == MemberOp::Read));
        world.under_way.iter().map(|io| io.member).collect::<Vec<_>>()
    };
    let [first, second] = [MemberIndex(0), MemberIndex(1)];
    assert_eq!(members(ReadBalance::IdleThenNearest), [first, second, first, first, first]);
    // Of two that are as busy, too, the nearer one: it has just been sent to the block before.
    assert_eq!(members(ReadBalance::FewestInFlight), [first, second, first, second, second]);
}

const LOGGED: MemberOp = MemberOp::Write { fua: true };

/// Rows, and what is written down before they are changed.
fn logged(level: &str, members: u16, place: WriteLogPlace) -> ArrayConfig {
    md(level, members, ArrayRules { write_log: Some(place), ..in_rows(StripeCache::None, 256) })
}

/// What is under way: the area, the member, the operation and its length in pages.
fn under_way(world: &World) -> Vec<(Area, u16, MemberOp, u64)> {
    world.under_way.iter().map(|io| (io.area, io.member.0, io.op, io.blocks.0)).collect()
}

/// A page that says what follows and a page of partial parity, on the member that has the parity; then data and parity.
#[test]
fn a_partial_parity_log_is_written_before_a_part_of_a_stripe() {
    let mut world = World::new(&logged("5", 6, WriteLogPlace::PartialParity), SPAN);
    world.request(WRITE, 0, 1);
    assert_eq!(world.poll(), (2, 0));
    world.finish();
    assert_eq!(world.poll(), (0, 1));
    let (area, parity, op, pages) = under_way(&world)[0];
    assert_eq!((area, op, pages), (Area::Metadata, LOGGED, 2));
    world.finish();
    assert_eq!(world.poll(), (0, 2), "data and parity when it is written");
    assert!(world.under_way.iter().any(|io| io.member.0 == parity), "{parity} has the parity, too");
    world.finish_all();
    assert!(world.controller.is_idle());
}

/// Units have up to 8 rows, and the next one of a member waits until the one before is on the members. A unit of whole rows has no partial parity.
#[test]
fn units_of_a_partial_parity_log_follow_each_other() {
    let mut world = World::new(&logged("5", 6, WriteLogPlace::PartialParity), SPAN);
    world.request(WRITE, 0, 5 * STRIP);
    assert_eq!(world.poll(), (0, 1));
    assert_eq!(under_way(&world)[0].3, 1, "one page for eight rows");
    world.finish();
    assert_eq!(world.poll(), (0, 8 * 6), "eight rows of six members");
    world.finish();
    assert_eq!(world.poll(), (0, 1), "the other eight");
    world.finish_all();
    assert_eq!((world.completed.len(), world.controller.is_idle()), (1, true));
    assert_eq!((world.reads, world.writes), (0, 2 + 16 * 6));
}

/// With caches on the members those that were written are flushed before the next unit, and the journal before its stripes.
#[test]
fn write_logs_flush_what_has_a_cache() {
    let flushes = |world: &World| world.under_way.iter().filter(|io| io.op == MemberOp::Flush).count();
    let config =
        ArrayConfig { member_cache: MemberCache::On, ..logged("5", 6, WriteLogPlace::PartialParity) };
    let mut world = World::new(&config, SPAN);
    world.request(WRITE, 0, 1);
    for _ in 0..3 {
        world.poll();
        world.finish();
    }
    world.poll();
    assert_eq!(flushes(&world), 2, "data and parity");
    world.finish_all();
    world.request(WRITE, 0, 5 * STRIP);
    world.poll();
    world.finish();
    world.poll();
    world.finish();
    world.poll();
    assert_eq!(flushes(&world), 6);
    world.finish();
    assert_eq!(world.poll(), (0, 1), "the second unit");
    world.finish_all();
    assert!(world.controller.is_idle());

    let config = ArrayConfig { member_cache: MemberCache::On, ..logged("6", 6, WriteLogPlace::Journal) };
    let mut world = World::new(&config, SPAN);
    world.request(WRITE, 0, 4 * STRIP);
    world.poll();
    world.finish();
    world.poll();
    assert_eq!(under_way(&world), [(Area::Metadata, 6, MemberOp::Flush, 0)]);
    world.finish();
    assert_eq!(world.poll(), (0, 8 * 6), "the unit that the flush was for");
    assert!(
        under_way(&world).contains(&(Area::Metadata, 6, MemberOp::Flush, 0)),
        "and a flush for the other one"
    );
    world.finish_all();
    assert!(world.controller.is_idle());
}

/// A journal takes all data and parity that is written, and its units do not wait for each other's stripes.
#[test]
fn a_journal_is_written_before_the_members() {
    let mut world = World::new(&logged("6", 6, WriteLogPlace::Journal), SPAN);
    world.request(WRITE, 0, 1);
    assert_eq!(world.poll(), (3, 0));
    world.finish();
    assert_eq!(world.poll(), (0, 1));
    let plain = MemberOp::Write { fua: false };
    assert_eq!(
        under_way(&world),
        [(Area::Metadata, 6, plain, 4)],
        "one of data, two of parity, on the device behind the members"
    );
    world.finish();
    assert_eq!(world.poll(), (0, 3));
    world.finish_all();
    world.request(WRITE, 0, 4 * STRIP);
    assert_eq!(world.poll(), (0, 2), "two units of eight rows");
    assert!(under_way(&world).iter().all(|&(_, member, _, pages)| (member, pages) == (6, 1 + 8 * 6)));
    world.finish_all();
    assert_eq!((world.completed.len(), world.controller.is_idle()), (2, true));
}

#[test]
fn write_logs_are_for_parity() {
    for (level, members, place) in [
        ("6", 6, WriteLogPlace::PartialParity),
        ("5", 65, WriteLogPlace::PartialParity),
        ("10", 4, WriteLogPlace::PartialParity),
        ("10", 4, WriteLogPlace::Journal),
    ] {
        let mut config = logged(level, members, place);
        config.staging_size = ByteCount::from_mib(64);
        let refused = Controller::new(&config).map(|_| ()).expect_err(level);
        assert!(matches!(refused, ConfigError::WriteLog { .. }), "RAID {level} x{members}: {refused}");
    }
}

/// The first write to a region waits for its bit: in the members' metadata behind a flush, or in a file on one device.
#[test]
fn a_bitmap_stands_where_the_rules_say() {
    let array = |bitmap_place| {
        let rules = ArrayRules { bitmap_place, ..in_rows(StripeCache::None, 256) };
        let mut config = ArrayConfig { member_cache: MemberCache::On, ..md("5", 4, rules) };
        config.resilience.metadata = MetadataPolicy::Bitmap;
        let mut world = World::new(&config, SPAN);
        world.run(WRITE, 0, 3 * STRIP);
        // The array is marked as in use by now.
        world.request(WRITE, 63 * STRIP, 3 * STRIP);
        world.poll();
        under_way(&world)
    };
    let file = array(BitmapPlace::Beside);
    assert_eq!(file, [(Area::Metadata, 4, MemberOp::Write { fua: false }, 1)]);
    let flushed = array(BitmapPlace::MembersFlushed);
    assert_eq!(flushed.iter().map(|io| io.2).collect::<Vec<_>>(), [MemberOp::Flush; 4]);
    let plain = array(BitmapPlace::Members);
    assert_eq!(plain.iter().map(|io| io.2).collect::<Vec<_>>(), [LOGGED; 4]);
}
