//! RAID 1: every member holds the whole volume; a stripe is one strip on all members.
//! ```text
//! stripe   m0   m1
//!    0     D0   D0'
//!    1     D1   D1'
//! ```

use super::grid::{Grid, StripeParts};
use crate::layout::{FailuresSurvived, Layout, StripUnit, StripeShape, UnitPlace};
use crate::spec::{LayoutError, LayoutSpec};
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// Mirroring.
#[derive(Debug)]
pub(crate) struct Raid1 {
    grid: Grid,
}

impl Raid1 {
    pub(crate) fn new(spec: &LayoutSpec) -> Result<Self, LayoutError> {
        spec.require_members(2..=u16::MAX)?;
        spec.require_no_spans()?;
        spec.require_no_rotation()?;
        let grid = Grid::new(spec, StripeParts { data_strips: 1, copies: spec.members, parities: 0 });
        Ok(Self { grid })
    }
}

impl Layout for Raid1 {
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
        let StripUnit::Data { strip: 0, copy } = unit else {
            panic!("a stripe of RAID 1 is one strip with no parity, not {unit:?}")
        };
        assert!(copy < self.grid.members, "copy {copy} is not in the stripe");
        UnitPlace { member: MemberIndex(copy), start: self.grid.start_of(stripe.0) }
    }

    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)> {
        let (row, block) = self.grid.row_of(member, lba)?;
        Some((StripeIndex(row), StripUnit::Data { strip: 0, copy: member.0 }, block))
    }

    fn failures_survived(&self) -> FailuresSurvived {
        FailuresSurvived { always: self.grid.members - 1, at_best: self.grid.members - 1 }
    }

    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        self.grid.locate(lba)
    }
}
