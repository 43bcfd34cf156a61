//! The well-known formulas, for every level.

use raidlab_raid::arithmetic::{
    Capacity, MemberIos, full_stripe_write, member_ios_per_host_io, small_read, small_write,
};
use raidlab_raid::{FailuresSurvived, Layout, LayoutSpec, build_layout};
use raidlab_units::BlockCount;

fn layout_of(level: &str, members: u16, strip_blocks: u64, member_blocks: u64) -> Box<dyn Layout> {
    let (strip_blocks, member_blocks) = (BlockCount(strip_blocks), BlockCount(member_blocks));
    let level = level.parse().expect(level);
    build_layout(&LayoutSpec { level, members, strip_blocks, member_blocks }).expect("a layout")
}

#[test]
fn member_ios_are_as_the_formulas_give_them() {
    // Level, members, reads and writes of a small write, writes of a full stripe, I/Os per host I/O at 67%
    // reads.
    for (level, members, reads, writes, full_writes, at_two_thirds_reads) in [
        ("jbod", 6, 0, 1, 1, 1.0),
        ("0", 6, 0, 1, 6, 1.0),
        ("1", 2, 0, 2, 2, 1.33),
        ("1", 3, 0, 3, 3, 1.66),
        ("1e", 5, 0, 2, 2, 1.33),
        ("1e:offset", 5, 0, 2, 2, 1.33),
        ("10", 6, 0, 2, 6, 1.33),
        ("10:far", 6, 0, 2, 2, 1.33),
        ("3", 6, 2, 2, 6, 1.99),
        ("5", 6, 2, 2, 6, 1.99),
        ("6", 6, 3, 3, 6, 2.65),
        ("50:2-spans", 6, 2, 2, 3, 1.99),
        ("60:2-spans", 8, 3, 3, 4, 2.65),
    ] {
        let shape = layout_of(level, members, 128, 1280).shape();
        assert_eq!(small_read(&shape), MemberIos { reads: 1, writes: 0 }, "{level}");
        assert_eq!(small_write(&shape), MemberIos { reads, writes }, "{level}");
        assert_eq!(full_stripe_write(&shape), MemberIos { reads: 0, writes: full_writes }, "{level}");
        let per_host_io = member_ios_per_host_io(&shape, 0.67);
        assert!((per_host_io - at_two_thirds_reads).abs() < 1e-9, "{level}: {per_host_io}");
    }
}

/// What a formula says of a level over some members.
struct Formula {
    level: &'static str,
    members: u16,
    /// The usable members, times two.
    usable_halves: u64,
    /// The part of the members that is not usable, as numerator and denominator.
    overhead: (u16, u16),
    failures_survived: FailuresSurvived,
}

const fn formula(
    level: &'static str,
    members: u16,
    usable_halves: u64,
    overhead: (u16, u16),
    (always, at_best): (u16, u16),
) -> Formula {
    Formula {
        level,
        members,
        usable_halves,
        overhead,
        failures_survived: FailuresSurvived { always, at_best },
    }
}

const FORMULAS: [Formula; 30] = [
    formula("jbod", 1, 2, (0, 1), (0, 0)),
    formula("jbod", 7, 14, (0, 1), (0, 0)),
    formula("0", 2, 4, (0, 1), (0, 0)),
    formula("0", 5, 10, (0, 1), (0, 0)),
    formula("1", 2, 2, (1, 2), (1, 1)),
    formula("1", 3, 2, (2, 3), (2, 2)),
    formula("1e", 3, 3, (1, 2), (1, 1)),
    formula("1e", 4, 4, (1, 2), (1, 2)),
    formula("1e", 5, 5, (1, 2), (1, 2)),
    formula("1e:offset", 3, 3, (1, 2), (1, 1)),
    formula("1e:offset", 6, 6, (1, 2), (1, 3)),
    formula("1e:offset", 7, 7, (1, 2), (1, 3)),
    formula("1e:far", 5, 5, (1, 2), (1, 2)),
    formula("10", 4, 4, (1, 2), (1, 2)),
    formula("10", 12, 12, (1, 2), (1, 6)),
    formula("10:far", 4, 4, (1, 2), (1, 2)),
    formula("10:far", 6, 6, (1, 2), (1, 3)),
    formula("10:offset", 8, 8, (1, 2), (1, 4)),
    formula("3", 5, 8, (1, 5), (1, 1)),
    formula("5", 3, 4, (1, 3), (1, 1)),
    formula("5", 6, 10, (1, 6), (1, 1)),
    formula("5", 7, 12, (1, 7), (1, 1)),
    formula("6", 4, 4, (1, 2), (2, 2)),
    formula("6", 5, 6, (2, 5), (2, 2)),
    formula("6", 12, 20, (1, 6), (2, 2)),
    formula("50:2-spans", 6, 8, (1, 3), (1, 2)),
    formula("50:3-spans", 15, 24, (1, 5), (1, 3)),
    formula("60:2-spans", 8, 8, (1, 2), (2, 4)),
    formula("60:3-spans", 15, 18, (2, 5), (2, 6)),
    formula("60:2-spans", 24, 40, (1, 6), (2, 4)),
];

/// Strips of 4 KiB to 1 MiB in blocks of 512 bytes.
fn strip_lengths() -> impl Iterator<Item = u64> {
    (0..=8).map(|shift| 8 << shift)
}

/// Where strips fill the members, in pairs, overhead is exactly what the formula says.
#[test]
fn capacity_overhead_and_failures_are_as_the_formulas_give_them() {
    for Formula { level, members, usable_halves, overhead, failures_survived } in FORMULAS {
        for strip_blocks in strip_lengths() {
            let member_blocks = 10 * strip_blocks;
            let layout = layout_of(level, members, strip_blocks, member_blocks);
            let what = format!("{level} over {members}, strips of {strip_blocks}");
            assert_eq!(layout.failures_survived(), failures_survived, "{what}");
            let capacity = Capacity::of(layout.as_ref(), BlockCount(member_blocks));
            let raw_blocks = BlockCount(member_blocks * u64::from(members));
            let usable_blocks = BlockCount(member_blocks * usable_halves / 2);
            assert_eq!(capacity, Capacity { raw_blocks, usable_blocks }, "{what}");
            let overhead = f64::from(overhead.0) / f64::from(overhead.1);
            assert!((capacity.overhead_share() - overhead).abs() < 1e-12, "{what}: {capacity:?}");
            assert!((capacity.usable_share() - (1.0 - overhead)).abs() < 1e-12, "{what}: {capacity:?}");
        }
    }
}

/// Members of any length: what is usable is what the formula says of the whole strips, in whole strips.
#[test]
fn what_holds_no_whole_strip_is_overhead() {
    // Drives of 73.4 GB and 1 TB, in blocks of 512 bytes, a length with no small divisor, and odd and even
    // numbers of strips with all but a block of another behind.
    let odd_lengths = [143_374_744, 1_953_525_168, 1_000_003];
    for Formula { level, members, usable_halves, .. } in FORMULAS {
        for strip_blocks in strip_lengths() {
            let tails = [8 * strip_blocks - 1, 9 * strip_blocks - 1];
            for member_blocks in odd_lengths.into_iter().chain(tails) {
                let layout = layout_of(level, members, strip_blocks, member_blocks);
                let capacity = Capacity::of(layout.as_ref(), BlockCount(member_blocks));
                let mut rows = member_blocks / strip_blocks;
                if level.ends_with(":far") || level.ends_with(":offset") {
                    rows -= rows % 2;
                }
                let usable = rows * usable_halves / 2 * strip_blocks;
                let raw = member_blocks * u64::from(members);
                let what = format!("{level} over {members} x {member_blocks}, strips of {strip_blocks}");
                let expected = Capacity { raw_blocks: BlockCount(raw), usable_blocks: BlockCount(usable) };
                assert_eq!(capacity, expected, "{what}");
                let overhead = (raw - usable) as f64 / raw as f64;
                assert!((capacity.overhead_share() - overhead).abs() < 1e-12, "{what}");
            }
        }
    }
}
