//! The one source of randomness: xoshiro256++, seeded through splitmix64.
//!
//! Everything random in a run comes from one seed that is printed with the result, so the generator is written here and
//! never changes under an old seed. Bounded draws are unbiased: Lemire's multiply-shift with rejection, which divides
//! only in the rare case that the low half of the product is below the bound.
//!
//! Sources: Blackman and Vigna, "Scrambled linear pseudorandom number generators" (2021), reference code at
//! prng.di.unimi.it; Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014);
//! Lemire, "Fast random integer generation in an interval" (2019).

/// A small fast generator: 256 bits of state, period 2^256 - 1. Not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Returns the generator of `seed`; every seed is a good one.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        Self { state: core::array::from_fn(|_| split_mix(&mut seed)) }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `bound`, each with the same chance. `bound` is above zero.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "no number is below zero");
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let threshold = bound.wrapping_neg() % bound;
            while (product as u64) < threshold {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Returns true with a chance of `pct` in a hundred; draws nothing when there is no choice.
    #[inline]
    pub fn chance_pct(&mut self, pct: u8) -> bool {
        match pct {
            0 => false,
            100.. => true,
            _ => self.below(100) < u64::from(pct),
        }
    }

    /// Returns a number from 0 up to but without 1, with 53 random bits.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// Returns the seed of the part `index` of a run that has `seed`: a worker, a member, a fault plan. Parts with
/// neighbouring indexes get unrelated streams.
pub fn derived_seed(seed: u64, index: u64) -> u64 {
    let mut state = seed ^ index.wrapping_mul(0xd1b5_4a32_d192_ed03);
    split_mix(&mut state)
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_matches_the_reference_outputs() {
        // The reference program's first outputs for the seed 1234567.
        let mut seed = 1_234_567;
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for value in expected {
            assert_eq!(split_mix(&mut seed), value);
        }
    }

    #[test]
    fn xoshiro_matches_the_reference_outputs() {
        // The reference program's first outputs for the state 1, 2, 3, 4.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let expected = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        for value in expected {
            assert_eq!(rng.next_u64(), value);
        }
    }

    #[test]
    fn bounded_draws_are_even() {
        for bound in [1u64, 2, 3, 7, 10, 100, 1000] {
            let mut rng = Rng::new(bound);
            let draws = 1000 * bound;
            let mut counts = vec![0u64; bound as usize];
            for _ in 0..draws {
                counts[rng.below(bound) as usize] += 1;
            }
            let chi2: f64 = counts.iter().map(|&n| (n as f64 - 1000.0).powi(2) / 1000.0).sum();
            let limit = bound as f64 + 6.0 * (2.0 * bound as f64).sqrt();
            assert!(chi2 < limit, "bound {bound}: chi square {chi2} above {limit}");
        }
    }

    #[test]
    fn a_bound_that_rejects_often_is_even_too() {
        // With a bound of three quarters of 2^64 a quarter of the draws is rejected; without that every third number
        // would come up twice as often as the others.
        let bound = 3u64 << 62;
        let mut rng = Rng::new(5);
        let mut classes = [0u64; 3];
        for _ in 0..30_000 {
            let value = rng.below(bound);
            assert!(value < bound);
            classes[(value % 3) as usize] += 1;
        }
        assert!(classes.iter().all(|n| n.abs_diff(10_000) < 500), "{classes:?}");
    }

    #[test]
    fn percent_chances_hold_and_the_ends_are_certain() {
        let mut rng = Rng::new(9);
        for pct in [0u8, 1, 33, 67, 99, 100] {
            let hits = (0..100_000).filter(|_| rng.chance_pct(pct)).count() as u64;
            let expected = 1000 * u64::from(pct);
            let slack = if pct == 0 || pct == 100 { 0 } else { 800 };
            assert!(hits.abs_diff(expected) <= slack, "{pct}%: {hits} of 100000");
        }
    }

    #[test]
    fn derived_seeds_differ() {
        let seeds: std::collections::BTreeSet<u64> = (0..1000).map(|index| derived_seed(42, index)).collect();
        assert_eq!(seeds.len(), 1000);
        assert!((0..1000).all(|_| (0.0..1.0).contains(&Rng::new(3).unit_f64())));
    }
}
