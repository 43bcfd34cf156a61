//! A level of your own: declustered parity, stripes of three over seven members. `cargo run -p raidlab-raid --example own_level`.
//!
//! Each stripe has two strips of data and one of parity. Its members are `{b, b + 1, b + 3} mod 7`, a difference set: any two of the seven
//! members meet in one stripe of seven. So a rebuild reads a third of each of the six others, where RAID 5 reads all of them. The price is
//! space: two thirds are usable, of RAID 5 over seven six sevenths.
//!
//! Source: M. Holland, G. Gibson, "Parity Declustering for Continuous Operation in Redundant Disk Arrays", ASPLOS 1992.

use raidlab_raid::arithmetic::Capacity;
use raidlab_raid::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use raidlab_units::{BlockCount, MemberIndex, MemberLba, StripeCount, StripeIndex};
use std::collections::BTreeSet;

const MEMBERS: u64 = 7;
/// Members of stripe 0; those of stripe `b` are `b` further.
const DIFFERENCES: [u64; 3] = [0, 1, 3];
/// Rows of a member in which seven stripes lie.
const ROWS: u64 = 3;

#[derive(Debug)]
struct Declustered {
    strip_blocks: BlockCount,
    stripes: StripeCount,
}

impl Declustered {
    fn new(strip_blocks: BlockCount, member_blocks: BlockCount) -> Self {
        let tables = member_blocks.0 / (ROWS * strip_blocks.0);
        Self { strip_blocks, stripes: StripeCount(tables * MEMBERS) }
    }
}

impl Layout for Declustered {
    fn shape(&self) -> StripeShape {
        StripeShape { data_strips: 2, copies: 1, parities: 1, strip_blocks: self.strip_blocks }
    }

    fn member_count(&self) -> u16 {
        MEMBERS as u16
    }

    fn stripe_count(&self) -> StripeCount {
        self.stripes
    }

    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace {
        assert!(stripe.0 < self.stripes.0, "stripe {} is beyond the volume", stripe.0);
        let nth = match unit {
            StripUnit::Data { strip, .. } => u64::from(strip),
            StripUnit::Parity(_) => 2,
        };
        let (table, within) = (stripe.0 / MEMBERS, stripe.0 % MEMBERS);
        let member = (within + DIFFERENCES[nth as usize]) % MEMBERS;
        // Each member has one first, one second and one parity strip of seven stripes.
        let row = table * ROWS + nth;
        UnitPlace { member: MemberIndex(member as u16), start: MemberLba(row * self.strip_blocks.0) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = (lba.0 / self.strip_blocks.0, lba.0 % self.strip_blocks.0);
        let (table, nth) = (row / ROWS, row % ROWS);
        let within = (u64::from(member.0) + MEMBERS - DIFFERENCES[nth as usize]) % MEMBERS;
        let stripe = StripeIndex(table * MEMBERS + within);
        let unit =
            if nth == 2 { StripUnit::Parity(0) } else { StripUnit::Data { strip: nth as u16, copy: 0 } };
        (stripe.0 < self.stripes.0).then_some((stripe, unit, BlockCount(block)))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: 1, at_best: 1 }
    }
}

/// Units of a stripe, the parity last.
const UNITS: [StripUnit; 3] =
    [StripUnit::Data { strip: 0, copy: 0 }, StripUnit::Data { strip: 1, copy: 0 }, StripUnit::Parity(0)];

fn main() {
    let member_blocks = BlockCount(3_000);
    let layout = Declustered::new(BlockCount(10), member_blocks);
    // What every layout must keep: units lie apart, and `identify` inverts `place`.
    let mut taken = BTreeSet::new();
    for stripe in (0..layout.stripe_count().0).map(StripeIndex) {
        for unit in UNITS {
            let place = layout.place(stripe, unit);
            assert!(taken.insert((place.member, place.start.0)), "{stripe:?} {unit:?} shares {place:?}");
            assert_eq!(layout.identify(place.member, place.start), Some((stripe, unit, BlockCount(0))));
        }
    }
    // Any member may go; no two may.
    for one in 0..MEMBERS as u16 {
        assert!(!layout.loses_data(&|member| member.0 == one));
        assert!((0..one).all(|two| layout.loses_data(&|member| member.0 == one || member.0 == two)));
    }
    // Strips of each other member that the rebuild of member 0 reads.
    let mut reads = [0_u64; MEMBERS as usize];
    for stripe in (0..layout.stripe_count().0).map(StripeIndex) {
        let members = UNITS.map(|unit| layout.place(stripe, unit).member);
        if members.contains(&MemberIndex(0)) {
            members.iter().filter(|member| member.0 != 0).for_each(|member| reads[member.index()] += 1);
        }
    }
    let capacity = Capacity::of(&layout, member_blocks);
    let strips = member_blocks.0 / layout.strip_blocks.0;
    println!("usable: {:.1} % of all space", 100.0 * capacity.usable_share());
    for (member, read) in (0..).zip(reads).skip(1) {
        println!(
            "a rebuild of member 0 reads {:.1} % of member {member}",
            100.0 * read as f64 / strips as f64
        );
        assert_eq!(3 * read, strips);
    }
}
