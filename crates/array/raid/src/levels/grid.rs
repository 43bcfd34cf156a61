//! Members cut into strips: the grid of rows and members that every level fills in its own way.
//! ```text
//!          m0        m1        m2
//! row 0   strip     strip     strip     a row is the strips at the same place on all members
//! row 1   strip     strip     strip
//!         (rest)    (rest)    (rest)    less than a strip: unused
//! ```
//! How a level fills the grid is its [`Filling`](super::filling::Filling). This runs several times per host
//! I/O, so divisors are examined once, when the layout is built.

use crate::layout::StripeShape;
use crate::spec::LayoutSpec;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeIndex};

/// A divisor above zero that knows whether it is a power of two, as most strip lengths are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisor {
    value: u64,
    /// The shift that divides, or [`NO_SHIFT`].
    shift: u32,
}

const NO_SHIFT: u32 = u32::MAX;

impl Divisor {
    pub(super) const fn new(value: u64) -> Self {
        assert!(value > 0, "nothing can be shared out over nothing");
        Self { value, shift: if value.is_power_of_two() { value.trailing_zeros() } else { NO_SHIFT } }
    }

    /// Returns quotient and remainder.
    #[inline]
    pub(super) const fn split(self, number: u64) -> (u64, u64) {
        if self.shift != NO_SHIFT {
            (number >> self.shift, number & (self.value - 1))
        } else if (number | self.value) >> 32 == 0 {
            // Division of 32 bits takes about half the time on many processors, and most strip numbers are
            // small.
            let (number, value) = (number as u32, self.value as u32);
            ((number / value) as u64, (number % value) as u64)
        } else {
            (number / self.value, number % self.value)
        }
    }
}

/// The strips of all members, and how many of them make a stripe's data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) shape: StripeShape,
    pub(super) members: u16,
    /// Rows that are filled: all whole strips of a member, or fewer.
    pub(super) rows: u64,
    strip: Divisor,
    data_strips: Divisor,
}

/// The part of a [`StripeShape`] that a level decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct StripeParts {
    pub(super) data_strips: u16,
    pub(super) copies: u16,
    pub(super) parities: u16,
}

impl Grid {
    /// The grid of `spec`, whose sizes are checked.
    pub(super) fn new(spec: &LayoutSpec, parts: StripeParts) -> Self {
        let StripeParts { data_strips, copies, parities } = parts;
        let strip_blocks = spec.strip_blocks;
        Self {
            shape: StripeShape { data_strips, copies, parities, strip_blocks },
            members: spec.members,
            rows: spec.member_blocks.0 / strip_blocks.0,
            strip: Divisor::new(strip_blocks.0),
            data_strips: Divisor::new(u64::from(data_strips)),
        }
    }

    /// The same grid without its last row, if that has no row to pair with.
    pub(super) const fn of_row_pairs(mut self) -> Self {
        self.rows -= self.rows % 2;
        self
    }

    /// Number of stripes that fill the rows; what is left at the end of the last row is less than a stripe.
    pub(super) fn stripe_count(&self) -> u64 {
        self.rows * u64::from(self.members) / u64::from(self.shape.unit_count())
    }

    /// Returns the first block of `row` on each member.
    #[inline]
    pub(super) fn start_of(&self, row: u64) -> MemberLba {
        assert!(row < self.rows, "row {row} is past the last of {} rows", self.rows);
        MemberLba(row * self.strip.value)
    }

    /// Returns the row that holds `lba`, and the block within the strip; `None` past the last row.
    #[inline]
    pub(super) fn row_of(&self, member: MemberIndex, lba: MemberLba) -> Option<(u64, BlockCount)> {
        assert!(member.0 < self.members, "{member} is not one of {} members", self.members);
        let (row, block) = self.strip.split(lba.0);
        (row < self.rows).then_some((row, BlockCount(block)))
    }

    /// [`crate::Layout::locate`] with the divisors known.
    #[inline]
    pub(super) fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        let (strip, block) = self.strip.split(lba.0);
        let (stripe, strip_of_stripe) = self.data_strips.split(strip);
        (StripeIndex(stripe), strip_of_stripe as u16, BlockCount(block))
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splitting_is_division(number: u64, value in 1u64.., shift in 0u32..64, bits in 0u32..64) {
            for value in [value, 1 << shift, value % 1000 + 1] {
                let number = number >> bits;
                prop_assert_eq!(Divisor::new(value).split(number), (number / value, number % value));
            }
        }
    }
}
