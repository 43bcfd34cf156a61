//! RAID 0: striping over all members, with no redundancy.
//! ```text
//! stripe   m0   m1   m2
//!    0     D0   D1   D2
//!    1     D3   D4   D5
//! ```
//! One member is allowed: many controllers can pass on a single drive in no other way.

use super::grid::{Grid, StripeParts};
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Striping.
#[derive(Debug)]
pub(crate) struct Raid0 {
    grid: Grid,
}

impl Raid0 {
    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(1..=u16::MAX)?;
        spec.require_no_spans()?;
        spec.require_no_rotation()?;
        let grid = Grid::new(spec, StripeParts { data_strips: spec.members, copies: 1, parities: 0 });
        Ok(Self { grid })
    }
}

impl Layout for Raid0 {
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
        let StripUnit::Data { strip, copy: 0 } = unit else {
            panic!("RAID 0 stores one copy of its data and no parity, not {unit:?}")
        };
        assert!(strip < self.grid.members, "strip {strip} is not in the stripe");
        UnitPlace { member: MemberIndex(strip), start: self.grid.start_of(stripe.0) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        Some((StripeIndex(row), StripUnit::Data { strip: member.0, copy: 0 }, block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: 0, at_best: 0 }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
