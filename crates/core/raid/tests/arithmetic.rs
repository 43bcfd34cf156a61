//! The formulas that people know, for every level.

use raidlab_raid::arithmetic::{
    Capacity, MemberIos, full_stripe_write, member_ios_per_host_io, small_read, small_write,
};
use raidlab_raid::{Layout, LayoutSpec, build_layout};
use raidlab_units::BlockCount;

fn layout_of(level: &str, members: u16) -> Box<dyn Layout> {
    let spec = LayoutSpec {
        level: level.parse().expect(level),
        members,
        strip_blocks: BlockCount(128),
        member_blocks: BlockCount(1280),
    };
    build_layout(&spec).expect(level)
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
        ("10", 6, 0, 2, 6, 1.33),
        ("3", 6, 2, 2, 6, 1.99),
        ("5", 6, 2, 2, 6, 1.99),
        ("6", 6, 3, 3, 6, 2.65),
        ("50:2-spans", 6, 2, 2, 3, 1.99),
        ("60:2-spans", 8, 3, 3, 4, 2.65),
    ] {
        let shape = layout_of(level, members).shape();
        assert_eq!(small_read(&shape), MemberIos { reads: 1, writes: 0 }, "{level}");
        assert_eq!(small_write(&shape), MemberIos { reads, writes }, "{level}");
        assert_eq!(full_stripe_write(&shape), MemberIos { reads: 0, writes: full_writes }, "{level}");
        let per_host_io = member_ios_per_host_io(&shape, 0.67);
        assert!((per_host_io - at_two_thirds_reads).abs() < 1e-9, "{level}: {per_host_io}");
    }
}

#[test]
fn capacity_is_as_the_formulas_give_it() {
    for (level, members, usable_members) in [
        ("jbod", 6, 6.0),
        ("0", 6, 6.0),
        ("1", 2, 1.0),
        ("1e", 5, 2.5),
        ("10", 6, 3.0),
        ("3", 6, 5.0),
        ("5", 6, 5.0),
        ("6", 6, 4.0),
        ("50:2-spans", 6, 4.0),
        ("60:2-spans", 8, 4.0),
    ] {
        let capacity = Capacity::of(layout_of(level, members).as_ref(), BlockCount(1280));
        assert_eq!(capacity.raw_blocks, BlockCount(1280 * u64::from(members)), "{level}");
        let share = usable_members / f64::from(members);
        assert!((capacity.usable_share() - share).abs() < 1e-12, "{level}: {capacity:?}");
        assert!((capacity.overhead_share() - (1.0 - share)).abs() < 1e-12, "{level}: {capacity:?}");
    }
}

#[test]
fn tails_that_hold_no_strip_are_overhead() {
    // Members of 1300 blocks hold ten strips of 128 and leave 20 blocks.
    let layout = layout_of("0", 2);
    let capacity = Capacity::of(layout.as_ref(), BlockCount(1300));
    assert_eq!(capacity, Capacity { raw_blocks: BlockCount(2600), usable_blocks: BlockCount(2560) });
}
