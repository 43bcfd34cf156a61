//! RAID 3: data striped over all members but the last, which holds P.
//! ```text
//! stripe   m0   m1   m2   m3
//!    0     D0   D1   D2   P
//!    1     D3   D4   D5   P
//! ```
//! Left out: the lock-step spindles and the byte-wise striping of the first RAID 3; with strips of one block
//! the members come as near to it as a block interface allows. Source: Patterson, Gibson and Katz 1988.

use super::grid::{Grid, StripeParts};
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{DATA_STRIPS_MAX, LayoutError, LayoutSpec};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Striping with P on the last member.
#[derive(Debug)]
pub(crate) struct Raid3 {
    grid: Grid,
}

impl Raid3 {
    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(3..=DATA_STRIPS_MAX + 1)?;
        spec.require_no_spans()?;
        spec.require_no_rotation()?;
        let grid = Grid::new(spec, StripeParts { data_strips: spec.members - 1, copies: 1, parities: 1 });
        Ok(Self { grid })
    }

    fn parity_member(&self) -> u16 {
        self.grid.members - 1
    }
}

impl Layout for Raid3 {
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
        let member = match unit {
            StripUnit::Data { strip, copy: 0 } if strip < self.parity_member() => strip,
            StripUnit::Parity(0) => self.parity_member(),
            _ => panic!("{unit:?} is not in a stripe of RAID 3"),
        };
        UnitPlace { member: MemberIndex(member), start: self.grid.start_of(stripe.0) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        let unit = if member.0 == self.parity_member() {
            StripUnit::Parity(0)
        } else {
            StripUnit::Data { strip: member.0, copy: 0 }
        };
        Some((StripeIndex(row), unit, block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: 1, at_best: 1 }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
