//! RAID 5: striping with one parity strip, which moves from member to member. Left-symmetric unless told
//! otherwise:
//! ```text
//! stripe   m0   m1   m2   m3
//!    0     D0   D1   D2   P
//!    1     D4   D5   P    D3
//!    2     D8   P    D6   D7
//!    3     P    D9   D10  D11
//! ```
//! The rotations are drawn in `rotation.rs`. Left out: two members, which would be a slow mirror.

use super::grid::{Grid, StripeParts};
use super::rotation::Rotation;
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{DATA_STRIPS_MAX, LayoutError, LayoutSpec};
use core::ops::RangeInclusive;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Striping with rotating P.
#[derive(Debug)]
pub(crate) struct Raid5 {
    grid: Grid,
    rotation: Rotation,
}

impl Raid5 {
    pub(super) const MEMBERS: RangeInclusive<u16> = 3..=DATA_STRIPS_MAX + 1;

    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(Self::MEMBERS)?;
        spec.require_no_spans()?;
        let grid = Grid::new(spec, StripeParts { data_strips: spec.members - 1, copies: 1, parities: 1 });
        Ok(Self { grid, rotation: Rotation::new(spec.level.parity_rotation, spec.members, 1) })
    }
}

impl Layout for Raid5 {
    fn shape(&self) -> StripeShape {
        self.grid.shape
    }

    fn member_count(&self) -> u16 {
        self.grid.members
    }

    fn stripe_count(&self) -> StripeCount {
        StripeCount(self.grid.rows)
    }

    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace {
        let member = MemberIndex(self.rotation.member_of(stripe.0, unit));
        UnitPlace { member, start: self.grid.start_of(stripe.0) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        Some((StripeIndex(row), self.rotation.unit_on(row, member.0), block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: 1, at_best: 1 }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
