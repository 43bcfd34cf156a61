//! RAID 1E: each strip and its copy lie at neighbouring places, counted along the rows. A stripe is one
//! strip.
//! ```text
//! row   m0    m1    m2
//!  0    D0    D0'   D1
//!  1    D1'   D2    D2'
//! ```
//! Copy `c` of stripe `s` is at place `2s + c`; place `p` is row `p / members` of member `p % members`. With
//! an even number of members this is RAID 10 with other stripes. When rows times members is odd, the last
//! place stays unused.
//!
//! Source: Linux md raid10 "near" layout with two copies and any number of members.

use super::grid::{Divisor, Grid, StripeParts};
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Striped mirroring over any number of members.
#[derive(Debug)]
pub(crate) struct Raid1e {
    grid: Grid,
    members: Divisor,
    stripes: u64,
}

impl Raid1e {
    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(3..=u16::MAX)?;
        spec.require_no_spans()?;
        spec.require_no_rotation()?;
        let grid = Grid::new(spec, StripeParts { data_strips: 1, copies: 2, parities: 0 });
        let members = u64::from(spec.members);
        Ok(Self { grid, members: Divisor::new(members), stripes: grid.rows * members / 2 })
    }
}

impl Layout for Raid1e {
    fn shape(&self) -> StripeShape {
        self.grid.shape
    }

    fn member_count(&self) -> u16 {
        self.grid.members
    }

    fn stripe_count(&self) -> StripeCount {
        StripeCount(self.stripes)
    }

    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace {
        let StripUnit::Data { strip: 0, copy: copy @ (0 | 1) } = unit else {
            panic!("a stripe of RAID 1E is one strip in two copies, not {unit:?}")
        };
        assert!(stripe.0 < self.stripes, "stripe {stripe} is past the end of the volume");
        let (row, member) = self.members.split(2 * stripe.0 + u64::from(copy));
        UnitPlace { member: MemberIndex(member as u16), start: self.grid.start_of(row) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        let place = row * u64::from(self.grid.members) + u64::from(member.0);
        let unit = StripUnit::Data { strip: 0, copy: (place % 2) as u16 };
        (place / 2 < self.stripes).then_some((StripeIndex(place / 2), unit, block))
    }

    /// Any two neighbours, the last and the first member among them when their number is odd, share a strip.
    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: 1, at_best: self.grid.members / 2 }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
