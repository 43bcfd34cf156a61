//! Striping with parity that moves from row to row, shared by RAID 5 and RAID 6. One row of the grid is one stripe, and
//! the rotation says which member holds which unit of it.
//! ```text
//! two parities   left-symmetric        left-asymmetric       right-symmetric       right-asymmetric
//!   row  0       Q  D0 D1 D2 P         Q  D0 D1 D2 P         P  Q  D0 D1 D2        P  Q  D0 D1 D2
//!        1       D0 D1 D2 P  Q         D0 D1 D2 P  Q         D2 P  Q  D0 D1        D0 P  Q  D1 D2
//!        2       D1 D2 P  Q  D0        D0 D1 P  Q  D2        D1 D2 P  Q  D0        D0 D1 P  Q  D2
//!        3       D2 P  Q  D0 D1        D0 P  Q  D1 D2        D0 D1 D2 P  Q         D0 D1 D2 P  Q
//!        4       P  Q  D0 D1 D2        P  Q  D0 D1 D2        Q  D0 D1 D2 P         Q  D0 D1 D2 P
//! ```
//! Invariants: parity is on consecutive members, wrapping, and every member holds exactly one unit of every
//! stripe. As many members may fail as there are parities.
//!
//! Source: Linux md, `raid5_compute_sector` (drivers/md/raid5.c), `ALGORITHM_LEFT_SYMMETRIC` and its three
//! relatives. The places, and P, are md's in all four. Q is the sum of `2^i` times strip `i` here, in the
//! order of the volume. md numbers the strips by the members, beginning after Q and leaving P out
//! (`raid6_d0`, `raid6_idx_to_slot`, `set_syndrome_sources`), with the powers of 2 modulo 0x11d
//! (lib/raid6/mktables.c). So
//!
//! - in both *symmetric* rotations, where the volume goes on right after Q, the two orders are one, and a
//!   RAID 6 here is md's to the byte;
//! - in both *asymmetric* ones Q differs in every row with data on both sides of parity: md weighs what
//!   follows Q first. Of the rows drawn, 2 and 3 (left) and 1 and 2 (right) differ.
//!
//! Left out: md's rotations for DDF (`ddf_layout`), which weigh a strip by `2^member`, and those with Q on a
//! member of its own (`*_6`).

use super::filling::{Cell, FilledGrid, Filling};
use super::grid::{Divisor, Grid, StripeParts};
use crate::layout::{StripUnit, StripeShape};
use crate::level::ParityRotation;
use crate::spec::LayoutSpec;
use raidlab_units::StripeIndex;

/// Returns the layout with `parities` parity strips in each stripe; `spec` is of a level that allows its
/// members.
pub(super) fn rotating_parity(spec: &LayoutSpec, parities: u16) -> FilledGrid<Rotation> {
    let grid = Grid::new(spec, StripeParts { data_strips: spec.members - parities, copies: 1, parities });
    FilledGrid::new(grid, Rotation::new(spec.level.parity_rotation, spec.members, parities))
}

/// The rotation of `parities` parity strips over `members` members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rotation {
    members: u16,
    parities: u16,
    row: Divisor,
    moves_left: bool,
    symmetric: bool,
}

impl Rotation {
    fn new(rotation: ParityRotation, members: u16, parities: u16) -> Self {
        assert!(parities < members, "{members} members have no room for data beside {parities} parities");
        let (moves_left, symmetric) = match rotation {
            ParityRotation::LeftSymmetric => (true, true),
            ParityRotation::LeftAsymmetric => (true, false),
            ParityRotation::RightSymmetric => (false, true),
            ParityRotation::RightAsymmetric => (false, false),
        };
        Self { members, parities, row: Divisor::new(u64::from(members)), moves_left, symmetric }
    }

    #[inline]
    fn p_member(&self, row: u64) -> u16 {
        let moved = self.row.split(row).1 as u16;
        if self.moves_left { self.members - 1 - moved } else { moved }
    }

    #[inline]
    fn data_member(&self, p_member: u16, strip: u16) -> u16 {
        if self.symmetric {
            return self.wrap(p_member + self.parities + strip);
        }
        strip + self.parities_before(p_member, strip >= p_member)
    }

    /// How many parities lie on members before a data strip, in member order: those that wrapped to the
    /// front, or else all when the strip is past P.
    #[inline]
    fn parities_before(&self, p_member: u16, past_p: bool) -> u16 {
        let wrapped = (p_member + self.parities).saturating_sub(self.members);
        if wrapped > 0 {
            wrapped
        } else if past_p {
            self.parities
        } else {
            0
        }
    }

    #[inline]
    fn wrap(&self, member: u16) -> u16 {
        if member >= self.members { member - self.members } else { member }
    }
}

impl Filling for Rotation {
    #[inline]
    fn cell_of(&self, stripe: StripeIndex, unit: StripUnit) -> Cell {
        let p_member = self.p_member(stripe.0);
        let member = match unit {
            StripUnit::Parity(parity) => self.wrap(p_member + parity),
            StripUnit::Data { strip, .. } => self.data_member(p_member, strip),
        };
        Cell { row: stripe.0, member }
    }

    /// All in one row, and the place of P is worked out once.
    #[inline]
    fn cells_of(&self, stripe: StripeIndex, shape: &StripeShape, mut each: impl FnMut(Cell)) {
        let (row, p_member) = (stripe.0, self.p_member(stripe.0));
        for strip in 0..shape.data_strips {
            each(Cell { row, member: self.data_member(p_member, strip) });
        }
        for parity in 0..shape.parities {
            each(Cell { row, member: self.wrap(p_member + parity) });
        }
    }

    #[inline]
    fn unit_in(&self, Cell { row, member }: Cell) -> (StripeIndex, StripUnit) {
        let p_member = self.p_member(row);
        let from_p = self.wrap(member + self.members - p_member);
        let unit = if from_p < self.parities {
            StripUnit::Parity(from_p)
        } else if self.symmetric {
            StripUnit::Data { strip: from_p - self.parities, copy: 0 }
        } else {
            let strip = member - self.parities_before(p_member, member > p_member);
            StripUnit::Data { strip, copy: 0 }
        };
        (StripeIndex(row), unit)
    }
}
