//! A pseudorandom order of the numbers below `n`, without a table.
//!
//! A Feistel network over the smallest even number of bits that holds `n` is a one-to-one map; results outside `n` are
//! mapped again until they fall inside ("cycle walking"), which keeps it one-to-one and takes fewer than four rounds on
//! average. So a skewed distribution keeps its frequencies when its places are scrambled: no two ranks fall on one
//! place, as they do if ranks are hashed and cut.
//!
//! Not for secrets: four rounds of a fast mixing function. Sources: M. Luby and C. Rackoff, "How to construct
//! pseudorandom permutations" (1988); J. Black and P. Rogaway, "Ciphers with arbitrary finite domains" (2002).

use crate::rng::derived_seed;

const ROUNDS: usize = 4;

/// The order.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    count: u64,
    /// Bits of each half.
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Returns an order of the numbers below `count`, which is above zero and at most 2^62.
    pub(crate) fn new(count: u64, seed: u64) -> Self {
        debug_assert!(count > 0 && count <= 1 << 62, "{count} places");
        let bits = u64::BITS - (count - 1).leading_zeros();
        let keys = core::array::from_fn(|round| derived_seed(seed, round as u64));
        Self { count, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Returns the number at place `index` of the order; `index` is below the count.
    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        let mut number = index;
        loop {
            number = self.mix(number);
            if number < self.count {
                return number;
            }
        }
    }

    #[inline]
    fn mix(&self, number: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            let mixed = (right ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (left, right) = (right, left ^ ((mixed ^ (mixed >> 32)) & mask));
        }
        (left << self.half_bits) | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once() {
        for count in [1u64, 2, 3, 4, 5, 15, 16, 17, 1000, 4096, 65_537] {
            for seed in 0..5 {
                let order = Permutation::new(count, seed);
                let mut seen = vec![false; count as usize];
                for index in 0..count {
                    let number = order.at(index) as usize;
                    assert!(!std::mem::replace(&mut seen[number], true), "{number} of {count} came twice");
                }
            }
        }
    }

    #[test]
    fn neighbours_are_torn_apart_evenly() {
        // The first thousandth of 2^40 places, spread over 64 classes: 63 degrees of freedom.
        let order = Permutation::new(1 << 40, 3);
        let mut classes = [0u64; 64];
        for index in 0..64_000 {
            classes[(order.at(index) >> 34) as usize] += 1;
        }
        let chi2: f64 = classes.iter().map(|&n| (n as f64 - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi2 < 104.0, "chi square {chi2}");
        let other = Permutation::new(1 << 40, 4);
        assert!((0..1000).filter(|&index| order.at(index) == other.at(index)).count() < 3);
    }
}
