//! What numbers stand for: of locks, cache blocks, slots, operations and visits, so that none is taken for another.

use crate::table::{NIL, SlabKey};
use raidlab_units::StripeIndex;

/// The number of a stripe lock: of its stripe where there is parity, else of its strip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LockKey(pub(crate) u64);

/// The number of a cache block within the volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CacheBlockIndex(pub(crate) u64);

/// The number of a cache slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotIndex(pub(crate) u32);

/// The number of a stripe operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpId(pub(crate) u32);

/// The number of a visit to a stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VisitId(pub(crate) u32);

impl LockKey {
    /// The lock of a stripe that has parity; without, each strip has its own.
    #[inline]
    pub(crate) const fn of_stripe(stripe: StripeIndex) -> Self {
        Self(stripe.0)
    }

    /// The lock behind this one.
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The lock before this one, if it is not the first.
    pub(crate) fn before(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

impl SlotIndex {
    /// No slot: the end of a list.
    pub(crate) const NONE: Self = Self(NIL);
}

impl OpId {
    /// No operation.
    pub(crate) const NONE: Self = Self(NIL);
}

macro_rules! slab_keys {
    ($($id:ident),+) => {$(
        impl SlabKey for $id {
            #[inline]
            fn of_entry(entry: u32) -> Self {
                Self(entry)
            }

            #[inline]
            fn entry(self) -> u32 {
                self.0
            }
        }
    )+};
}

slab_keys!(OpId, VisitId);
