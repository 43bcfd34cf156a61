//! Parity that moves from row to row: which member holds which unit of a row.
//! ```text
//! two parities   left-symmetric        left-asymmetric       right-symmetric       right-asymmetric
//!   row  0       Q  D0 D1 D2 P         Q  D0 D1 D2 P         P  Q  D0 D1 D2        P  Q  D0 D1 D2
//!        1       D0 D1 D2 P  Q         D0 D1 D2 P  Q         D2 P  Q  D0 D1        D0 P  Q  D1 D2
//!        2       D1 D2 P  Q  D0        D0 D1 P  Q  D2        D1 D2 P  Q  D0        D0 D1 P  Q  D2
//!        3       D2 P  Q  D0 D1        D0 P  Q  D1 D2        D0 D1 D2 P  Q         D0 D1 D2 P  Q
//!        4       P  Q  D0 D1 D2        P  Q  D0 D1 D2        Q  D0 D1 D2 P         Q  D0 D1 D2 P
//! ```
//! Parity is on consecutive members, wrapping. Source: Linux md `raid5_compute_sector` (drivers/md/raid5.c),
//! `ALGORITHM_LEFT_SYMMETRIC` and its three relatives. The places are md's in all four; Q's bytes are too in
//! the symmetric ones, but in the asymmetric ones md weighs the strips by member from Q on, and this crate
//! weighs strip `i` by `2^i` everywhere.

use super::grid::Divisor;
use crate::layout::StripUnit;
use crate::level::ParityRotation;

/// The rotation of `parities` parity strips over `members` members.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rotation {
    members: u16,
    parities: u16,
    row: Divisor,
    moves_left: bool,
    symmetric: bool,
}

impl Rotation {
    pub(super) fn new(rotation: ParityRotation, members: u16, parities: u16) -> Self {
        assert!(parities < members, "{members} members have no room for data beside {parities} parities");
        let (moves_left, symmetric) = match rotation {
            ParityRotation::LeftSymmetric => (true, true),
            ParityRotation::LeftAsymmetric => (true, false),
            ParityRotation::RightSymmetric => (false, true),
            ParityRotation::RightAsymmetric => (false, false),
        };
        Self { members, parities, row: Divisor::new(u64::from(members)), moves_left, symmetric }
    }

    /// Returns the member that holds `unit` in `row`.
    #[inline]
    pub(super) fn member_of(&self, row: u64, unit: StripUnit) -> u16 {
        let p_member = self.p_member(row);
        match unit {
            StripUnit::Parity(parity) => {
                assert!(parity < self.parities, "parity {parity} is not in the stripe");
                self.wrap(p_member + parity)
            }
            StripUnit::Data { strip, copy } => {
                assert!(strip < self.members - self.parities, "strip {strip} is not in the stripe");
                assert!(copy == 0, "copy {copy} is not in the stripe");
                self.data_member(p_member, strip)
            }
        }
    }

    /// Returns the unit that `member` holds in `row`.
    #[inline]
    pub(super) fn unit_on(&self, row: u64, member: u16) -> StripUnit {
        let p_member = self.p_member(row);
        let from_p = self.wrap(member + self.members - p_member);
        if from_p < self.parities {
            return StripUnit::Parity(from_p);
        }
        let strip = if self.symmetric {
            from_p - self.parities
        } else {
            member - self.parities_before(p_member, member > p_member)
        };
        StripUnit::Data { strip, copy: 0 }
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
