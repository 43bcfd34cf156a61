//! Addresses and counts of blocks: where something is, and how much of it.
//!
//! A block is the addressable unit of the array (512 or 4096 bytes, see [`crate::BlockSize`]); SCSI SBC calls it a
//! logical block. Adding a count to a position gives a position, the difference of two positions is a count, and
//! address spaces never mix: a volume's [`Lba`] can't be used where a member's [`MemberLba`] is meant.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};
use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The number zero of this type.
            pub const ZERO: Self = Self(0);

            /// Returns the plain number.
            #[inline]
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

macro_rules! position {
    ($position:ident, $count:ident) => {
        impl Add<$count> for $position {
            type Output = $position;
            #[inline]
            fn add(self, count: $count) -> $position {
                $position(self.0 + count.0)
            }
        }
        impl AddAssign<$count> for $position {
            #[inline]
            fn add_assign(&mut self, count: $count) {
                self.0 += count.0;
            }
        }
        impl Sub<$position> for $position {
            type Output = $count;
            #[inline]
            fn sub(self, earlier: $position) -> $count {
                $count(self.0 - earlier.0)
            }
        }
        impl $position {
            /// Returns the position `count` further on, or `None` past the end of `u64`.
            #[inline]
            pub const fn checked_add(self, count: $count) -> Option<Self> {
                match self.0.checked_add(count.0) {
                    Some(sum) => Some(Self(sum)),
                    None => None,
                }
            }
        }
    };
}

macro_rules! count {
    ($name:ident) => {
        impl Add for $name {
            type Output = $name;
            #[inline]
            fn add(self, more: $name) -> $name {
                $name(self.0 + more.0)
            }
        }
        impl AddAssign for $name {
            #[inline]
            fn add_assign(&mut self, more: $name) {
                self.0 += more.0;
            }
        }
        impl Sub for $name {
            type Output = $name;
            #[inline]
            fn sub(self, less: $name) -> $name {
                $name(self.0 - less.0)
            }
        }
        impl SubAssign for $name {
            #[inline]
            fn sub_assign(&mut self, less: $name) {
                self.0 -= less.0;
            }
        }
        impl core::iter::Sum for $name {
            fn sum<I: Iterator<Item = $name>>(counts: I) -> $name {
                $name(counts.map(|count| count.0).sum())
            }
        }
    };
}

number! {
    /// Address of a logical block of the volume that the array shows to its host (SCSI SBC).
    Lba
}
number! {
    /// Address of a block on one member, counted from the start of the member's data area.
    MemberLba
}
number! {
    /// A number of blocks: the distance between two [`Lba`]s or two [`MemberLba`]s.
    BlockCount
}
number! {
    /// Number of a stripe, counted from the start of the volume.
    StripeIndex
}
number! {
    /// A number of stripes.
    StripeCount
}

position!(Lba, BlockCount);
position!(MemberLba, BlockCount);
position!(StripeIndex, StripeCount);
count!(BlockCount);
count!(StripeCount);

/// Which member of the array, counted from 0 in the order the array was made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberIndex(pub u16);

impl MemberIndex {
    /// Returns the index for use with a slice.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for MemberIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}
