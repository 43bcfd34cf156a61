//! JBOD: members one after another ("linear" in Linux md), a stripe being one strip.
//! ```text
//! row   m0   m1   m2
//!  0    S0   S2   S4
//!  1    S1   S3   S5
//! ```
//! Invariant: a member holds a contiguous piece of the volume.

use super::grid::{Divisor, Grid, StripeParts};
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Members one after another.
#[derive(Debug)]
pub(crate) struct Jbod {
    grid: Grid,
    rows: Divisor,
}

impl Jbod {
    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(1..=u16::MAX)?;
        spec.require_no_spans()?;
        spec.require_no_rotation()?;
        let grid = Grid::new(spec, StripeParts { data_strips: 1, copies: 1, parities: 0 });
        Ok(Self { grid, rows: Divisor::new(grid.rows) })
    }
}

impl Layout for Jbod {
    fn shape(&self) -> StripeShape {
        self.grid.shape
    }

    fn member_count(&self) -> u16 {
        self.grid.members
    }

    fn stripe_count(&self) -> StripeCount {
        StripeCount(self.grid.rows * u64::from(self.grid.members))
    }

    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace {
        assert_eq!(unit, StripUnit::Data { strip: 0, copy: 0 }, "a stripe of JBOD is one strip");
        let (member, row) = self.rows.split(stripe.0);
        assert!(member < u64::from(self.grid.members), "stripe {stripe} is past the end of the volume");
        UnitPlace { member: MemberIndex(member as u16), start: self.grid.start_of(row) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        let stripe = u64::from(member.0) * self.grid.rows + row;
        Some((StripeIndex(stripe), StripUnit::Data { strip: 0, copy: 0 }, block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: 0, at_best: 0 }
    }

    /// Its stripes don't come round, and each member holds some that no other holds.
    fn loses_data(&self, is_missing: &dyn Fn(MemberIndex) -> bool) -> bool {
        (0..self.grid.members).any(|member| is_missing(MemberIndex(member)))
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
