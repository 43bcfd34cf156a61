//! Striping with parity that moves from member to member: one row of the grid is one stripe, and [`Rotation`] says
//! which member holds which unit of it. What RAID 5 and RAID 6 share; drawn in their files.
//!
//! Invariant: every member holds exactly one unit of every stripe. As many members may fail as there are parities.

use super::grid::{Grid, StripeParts};
use super::rotation::Rotation;
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::LayoutSpec;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Striping with rotating parity.
#[derive(Debug)]
pub(crate) struct RotatingParity {
    grid: Grid,
    rotation: Rotation,
}

impl RotatingParity {
    /// `parities` parity strips in each stripe; `spec` is of a level that allows its members.
    pub(super) fn new(spec: &LayoutSpec, parities: u16) -> Self {
        let grid = Grid::new(spec, StripeParts { data_strips: spec.members - parities, copies: 1, parities });
        Self { grid, rotation: Rotation::new(spec.level.parity_rotation, spec.members, parities) }
    }
}

impl Layout for RotatingParity {
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
        let parities = self.grid.shape.parities;
        FailuresSurvived { always: parities, at_best: parities }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
