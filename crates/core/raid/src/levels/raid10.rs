//! RAID 10: striping over mirrored pairs of neighbouring members.
//! ```text
//! stripe   m0   m1   m2   m3
//!    0     D0   D0'  D1   D1'
//!    1     D2   D2'  D3   D3'
//! ```
//! An odd number of members is level 1E. Source: Linux md raid10 "near" layout with two copies.

use super::grid::{Grid, StripeParts};
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Striping over mirrored pairs.
#[derive(Debug)]
pub(crate) struct Raid10 {
    grid: Grid,
}

impl Raid10 {
    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(4..=u16::MAX)?;
        if !spec.members.is_multiple_of(2) {
            return Err(LayoutError::OddMembers { level: spec.level.level, members: spec.members });
        }
        spec.require_no_spans()?;
        spec.require_no_rotation()?;
        let grid = Grid::new(spec, StripeParts { data_strips: spec.members / 2, copies: 2, parities: 0 });
        Ok(Self { grid })
    }
}

impl Layout for Raid10 {
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
        let StripUnit::Data { strip, copy: copy @ (0 | 1) } = unit else {
            panic!("RAID 10 stores two copies of its data and no parity, not {unit:?}")
        };
        assert!(strip < self.grid.shape.data_strips, "strip {strip} is not in the stripe");
        UnitPlace { member: MemberIndex(2 * strip + copy), start: self.grid.start_of(stripe.0) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        Some((StripeIndex(row), StripUnit::Data { strip: member.0 / 2, copy: member.0 % 2 }, block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: 1, at_best: self.grid.members / 2 }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
