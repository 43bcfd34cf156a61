//! The one narrow trait between a RAID level and everything that uses it.
//!
//! A volume is cut into *stripes*. Each stripe has `data_strips` strips of data, each stored `copies` times,
//! and `parities` strips of redundancy (P, then Q), all `strip_blocks` long:
//! ```text
//!             data_strips  copies  parities
//! RAID 0 x6        6         1        0
//! RAID 1 x2        1         2        0
//! RAID 1E          1         2        0      (so are RAID 10 far and RAID 10 offset)
//! RAID 10 x6       3         2        0
//! RAID 5 x6        5         1        1
//! RAID 6 x6        4         1        2
//! RAID 50 2x3      2         1        1      (a stripe lies within one span)
//! ```
//! The volume's blocks fill strip 0 of stripe 0, then strip 1, and so on (except in [`crate::narrow_stripes`]). P is
//! the XOR of the data strips, Q is the sum of `2^i` times strip `i` in GF(256) modulo 0x11d (H. P. Anvin, "The
//! mathematics of RAID-6").
//!
//! Invariants, which the property tests hold every layout to: no two units of the volume share a member
//! block, units of one stripe lie on distinct members, and [`Layout::identify`] inverts [`Layout::place`].

use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeCount, StripeIndex};

/// What every stripe of a layout looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeShape {
    /// Strips of data in a stripe.
    pub data_strips: u16,
    /// How often each data strip is stored; 1 unless the level mirrors.
    pub copies: u16,
    /// Strips of parity in a stripe: 0, 1 (P) or 2 (P and Q).
    pub parities: u16,
    /// Length of one strip.
    pub strip_blocks: BlockCount,
}

impl StripeShape {
    /// Blocks of data in one stripe.
    #[inline]
    pub const fn stripe_blocks(&self) -> BlockCount {
        BlockCount(self.strip_blocks.0 * self.data_strips as u64)
    }

    /// Units in one stripe: every copy of every data strip, and the parities.
    #[inline]
    pub const fn unit_count(&self) -> u32 {
        self.data_strips as u32 * self.copies as u32 + self.parities as u32
    }

    /// Whether a stripe has `unit`.
    #[inline]
    pub(crate) const fn has(&self, unit: StripUnit) -> bool {
        match unit {
            StripUnit::Data { strip, copy } => strip < self.data_strips && copy < self.copies,
            StripUnit::Parity(parity) => parity < self.parities,
        }
    }
}

/// One strip of a stripe: a copy of a data strip, or a parity strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StripUnit {
    /// Copy `copy` (from 0) of data strip `strip` (from 0).
    Data {
        /// Which data strip of the stripe.
        strip: u16,
        /// Which of its copies.
        copy: u16,
    },
    /// Parity strip: 0 is P, 1 is Q.
    Parity(u16),
}

impl StripUnit {
    /// Which copy of a strip of a mirror this is. A mirror has no parity (asserted).
    #[inline]
    pub(crate) fn copy(self) -> u16 {
        match self {
            Self::Data { copy, .. } => copy,
            Self::Parity(parity) => unreachable!("a mirror has no parity {parity}"),
        }
    }
}

/// Where a strip begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitPlace {
    /// The member that holds it.
    pub member: MemberIndex,
    /// Its first block there.
    pub start: MemberLba,
}

/// How many members may fail with all data still readable.
///
/// RAID 1E *near* over an odd number of members that hold just one strip each leaves the last of them empty;
/// its failure is not counted as survived there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailuresSurvived {
    /// Any set of this many.
    pub always: u16,
    /// The luckiest set (RAID 10: one of each pair).
    pub at_best: u16,
}

/// Where each strip of a volume lives.
pub trait Layout: Send + Sync + core::fmt::Debug {
    /// What every stripe looks like.
    fn shape(&self) -> StripeShape;

    /// Number of members.
    fn member_count(&self) -> u16;

    /// Number of stripes; the volume has exactly this many full stripes.
    fn stripe_count(&self) -> StripeCount;

    /// Returns where `unit` of `stripe` begins. Both must be within the volume (asserted).
    fn place(&self, stripe: StripeIndex, unit: StripUnit) -> UnitPlace;

    /// Lists where each unit of `stripe`, which must be within the volume (asserted), begins: every copy of every data
    /// strip, then the parities. Clears `out` first.
    fn places(&self, stripe: StripeIndex, out: &mut Vec<UnitPlace>) {
        let StripeShape { data_strips, copies, parities, .. } = self.shape();
        out.clear();
        for strip in 0..data_strips {
            out.extend((0..copies).map(|copy| self.place(stripe, StripUnit::Data { strip, copy })));
        }
        out.extend((0..parities).map(|parity| self.place(stripe, StripUnit::Parity(parity))));
    }

    /// Returns the stripe, unit and block within the unit that `lba` of `member` belongs to, or `None` where
    /// the layout leaves the block unused (the tail of a member, say).
    fn identify(&self, member: MemberIndex, lba: MemberLba) -> Option<(StripeIndex, StripUnit, BlockCount)>;

    /// How many failed members the level survives.
    fn failures_survived(&self) -> FailuresSurvived;

    /// True if some block of the volume can't be read when the members named by `is_missing` are missing.
    ///
    /// Looks at the stripes of the first strips of each missing member: so many that every layout has come round to the
    /// same members again.
    fn loses_data(&self, is_missing: &dyn Fn(MemberIndex) -> bool) -> bool {
        let shape = self.shape();
        let rows = 4 * u64::from(self.member_count());
        let gone = |stripe, unit| is_missing(self.place(stripe, unit).member);
        let is_lost = |stripe: StripeIndex| {
            let strip_gone =
                |&strip: &u16| (0..shape.copies).all(|copy| gone(stripe, StripUnit::Data { strip, copy }));
            let strips = (0..shape.data_strips).filter(strip_gone).count();
            let parities =
                (0..shape.parities).filter(|&parity| gone(stripe, StripUnit::Parity(parity))).count();
            strips > 0 && strips + parities > usize::from(shape.parities)
        };
        let missing = (0..self.member_count()).map(MemberIndex).filter(|&member| is_missing(member));
        let strip_start = |row: u64| MemberLba(row * shape.strip_blocks.0);
        let mut strips = missing.flat_map(|member| (0..rows).map(move |row| (member, strip_start(row))));
        strips.any(|(member, lba)| self.identify(member, lba).is_some_and(|(stripe, ..)| is_lost(stripe)))
    }

    /// Blocks of the volume that the host sees.
    fn volume_blocks(&self) -> BlockCount {
        BlockCount(self.shape().stripe_blocks().0 * self.stripe_count().0)
    }

    /// Returns the stripe that holds `lba`, the data strip within it, and the block within the strip. `lba`
    /// must be within the volume.
    #[inline]
    fn locate(&self, lba: Lba) -> (StripeIndex, u16, BlockCount) {
        let shape = self.shape();
        let strip = lba.0 / shape.strip_blocks.0;
        let block = lba.0 % shape.strip_blocks.0;
        let stripe = strip / u64::from(shape.data_strips);
        (StripeIndex(stripe), (strip % u64::from(shape.data_strips)) as u16, BlockCount(block))
    }

    /// Address of the first block of data strip `strip` of `stripe`.
    #[inline]
    fn strip_start(&self, stripe: StripeIndex, strip: u16) -> Lba {
        let shape = self.shape();
        Lba((stripe.0 * u64::from(shape.data_strips) + u64::from(strip)) * shape.strip_blocks.0)
    }

    /// Blocks from `lba` on that stand one behind the other on its member, before the volume goes on elsewhere.
    fn run_blocks(&self, lba: Lba) -> BlockCount {
        BlockCount(self.shape().strip_blocks.0 - self.locate(lba).2.0)
    }
}
