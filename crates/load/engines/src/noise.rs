//! Pseudo-random bytes that neither compress nor deduplicate: every 8 bytes depend on the seed and their place.
//!
//! The n-th word of a stream is splitmix64's n-th output, so any part of it can be generated directly.
//! Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).

const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns word `index` of the stream of `seed`.
#[inline]
pub(crate) fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `bytes` with the stream of `seed` from word `first` on.
pub(crate) fn fill(seed: u64, first: u64, bytes: &mut [u8]) {
    for (index, chunk) in bytes.chunks_mut(8).enumerate() {
        let word = word(seed, first + index as u64).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_splitmix64() {
        // First outputs for seed 1234567, as published with the reference implementation.
        let expected = [6_457_827_717_110_365_317_u64, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        for (index, expected) in expected.into_iter().enumerate() {
            assert_eq!(word(1_234_567, index as u64), expected);
        }
    }

    #[test]
    fn parts_join_up_and_blocks_differ() {
        let mut whole = vec![0; 64 * 4096];
        fill(7, 0, &mut whole);
        let mut part = vec![0; 4096];
        fill(7, 5 * 512, &mut part);
        assert_eq!(part, &whole[5 * 4096..6 * 4096]);
        let blocks: std::collections::BTreeSet<&[u8]> = whole.chunks(4096).collect();
        assert_eq!(blocks.len(), 64);
        let mut odd = [0; 11];
        fill(7, 0, &mut odd);
        assert_eq!(odd, whole[..11]);
    }
}
