//! Pseudorandom numbers: a hash, and a generator. Both are `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014).

/// A hash of `value`: all of its bits depend on all of `value`'s.
#[inline]
pub(crate) const fn spread(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A seeded generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw(u64);

impl Draw {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        spread(self.0)
    }

    /// A number below `bound`, which is above zero.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        scaled(self.next(), bound)
    }
}

/// A hash as a number below `bound`.
#[inline]
pub(super) const fn scaled(hash: u64, bound: u64) -> u64 {
    ((hash as u128 * bound as u128) >> 64) as u64
}
