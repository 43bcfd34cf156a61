//! RAID 6: striping with two parity strips, P then Q, which move from member to member. Left-symmetric unless
//! told otherwise:
//! ```text
//! stripe   m0   m1   m2   m3   m4
//!    0     Q    D0   D1   D2   P
//!    1     D3   D4   D5   P    Q
//!    2     D7   D8   P    Q    D6
//! ```
//! The rotations are drawn in `rotation.rs`. Left out: three members, which would be a slow triple mirror.

use super::grid::{Grid, StripeParts};
use super::rotation::Rotation;
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{DATA_STRIPS_MAX, LayoutError, LayoutSpec};
use core::ops::RangeInclusive;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Striping with rotating P and Q.
#[derive(Debug)]
pub(crate) struct Raid6 {
    grid: Grid,
    rotation: Rotation,
}

impl Raid6 {
    pub(super) const MEMBERS: RangeInclusive<u16> = 4..=DATA_STRIPS_MAX + 2;

    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(Self::MEMBERS)?;
        spec.require_no_spans()?;
        let grid = Grid::new(spec, StripeParts { data_strips: spec.members - 2, copies: 1, parities: 2 });
        Ok(Self { grid, rotation: Rotation::new(spec.level.parity_rotation, spec.members, 2) })
    }
}

impl Layout for Raid6 {
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
        FailuresSurvived { always: 2, at_best: 2 }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
