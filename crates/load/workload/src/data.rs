//! The data of writes: blocks of bytes that compress to a given share and repeat to a given share.
//!
//! ```text
//! block n --- unique, or one of 64 that repeat (dedupe_pct of the blocks)
//!             |  noise  |  zeros  |  noise  |  zeros  | ...   by 512 bytes, compressible_pct of each zeros
//! ```
//! Arrays that compress or deduplicate store only a share of the data, and look fast with writes of zeros; so the load
//! describes its data. Content is a pure function of a seed and the number of the block, in units of 4 KiB, in which
//! arrays look for duplicates: worker, order and time don't matter.
//!
//! Left out: data that can be verified when it is read. A generator for that has the same form: seed, number of the
//! block, bytes.
//!
//! Noise is a counter through the mixing function of splitmix64, four at a time without dependence between them.

use crate::rng::derived_seed;

/// Bytes of a block that repeats or does not.
pub const DATA_BLOCK_BYTES: usize = 4096;
/// Zeros come by this many bytes.
const CHUNK_BYTES: usize = 512;
/// Blocks that come again.
const REPEATED_BLOCKS: u64 = 64;

/// What the data of writes is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataSpec {
    /// Share of each block that compresses away, in percent, up to 100.
    pub compressible_pct: u8,
    /// Share of the blocks that are copies of others, in percent, up to 100.
    pub dedupe_pct: u8,
}

impl DataSpec {
    /// Whether it is plain noise: nothing to compress and nothing that repeats.
    pub const fn is_noise(self) -> bool {
        self.compressible_pct == 0 && self.dedupe_pct == 0
    }
}

impl std::fmt::Display for DataSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("{}% compressible, {}% duplicates", self.compressible_pct, self.dedupe_pct);
        f.pad(&text)
    }
}

/// Makes the content of blocks.
#[derive(Clone, Copy, Debug)]
pub struct DataGenerator {
    seed: u64,
    spec: DataSpec,
    /// Bytes of each chunk that are noise.
    noise_bytes: usize,
}

impl DataGenerator {
    /// Returns the generator of `spec` for `seed`. Percentages above 100 count as 100.
    pub fn new(spec: DataSpec, seed: u64) -> Self {
        let zeros = CHUNK_BYTES * usize::from(spec.compressible_pct.min(100)) / 100;
        Self { seed: derived_seed(seed, 0xda7a), spec, noise_bytes: CHUNK_BYTES - zeros }
    }

    /// Fills `bytes` with the blocks from number `first_block` on; the last may be cut off.
    pub fn fill(&self, first_block: u64, bytes: &mut [u8]) {
        for (number, block) in (first_block..).zip(bytes.chunks_mut(DATA_BLOCK_BYTES)) {
            let identity = self.identity(number);
            for (index, chunk) in (0..).zip(block.chunks_mut(CHUNK_BYTES)) {
                let (noise, zeros) = chunk.split_at_mut(self.noise_bytes.min(chunk.len()));
                fill_noise(identity.wrapping_add(index << 32), noise);
                zeros.fill(0);
            }
        }
    }

    /// A number that blocks of the same content have in common.
    fn identity(&self, number: u64) -> u64 {
        let drawn = derived_seed(self.seed, number);
        let is_repeated = (u128::from(drawn) * 100) >> 64 < u128::from(self.spec.dedupe_pct);
        if is_repeated { derived_seed(!self.seed, drawn % REPEATED_BLOCKS) } else { drawn }
    }
}

/// Fills `bytes` with the noise of `seed`.
#[inline]
fn fill_noise(seed: u64, bytes: &mut [u8]) {
    let mut counter = seed;
    let mut words = bytes.chunks_exact_mut(8);
    for word in &mut words {
        word.copy_from_slice(&mixed(counter).to_le_bytes());
        counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
    let rest = words.into_remainder();
    let last = mixed(counter).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

#[inline]
fn mixed(counter: u64) -> u64 {
    let z = (counter ^ (counter >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn filled(spec: DataSpec, blocks: usize) -> Vec<u8> {
        let mut bytes = vec![0xaa; blocks * DATA_BLOCK_BYTES];
        DataGenerator::new(spec, 5).fill(100, &mut bytes);
        bytes
    }

    #[test]
    fn the_asked_share_of_the_blocks_repeats() {
        for dedupe_pct in [0u8, 1, 30, 75, 100] {
            let count = 4000;
            let bytes = filled(DataSpec { compressible_pct: 0, dedupe_pct }, count);
            let mut copies: BTreeMap<&[u8], usize> = BTreeMap::new();
            for block in bytes.chunks(DATA_BLOCK_BYTES) {
                *copies.entry(block).or_default() += 1;
            }
            let repeated: usize = copies.values().filter(|copies| **copies > 1).sum();
            let share = repeated as f64 / count as f64;
            assert!((share - f64::from(dedupe_pct) / 100.0).abs() < 0.025, "{dedupe_pct}%: {share}");
            assert!(copies.values().filter(|copies| **copies > 1).count() <= REPEATED_BLOCKS as usize);
        }
    }

    #[test]
    fn the_asked_share_of_every_block_is_zeros_and_the_rest_is_even_noise() {
        for compressible_pct in [0u8, 10, 50, 99, 100] {
            let bytes = filled(DataSpec { compressible_pct, dedupe_pct: 0 }, 200);
            let zeros = CHUNK_BYTES * usize::from(compressible_pct) / 100;
            let mut classes = [0u64; 256];
            for chunk in bytes.chunks(CHUNK_BYTES) {
                assert!(chunk[CHUNK_BYTES - zeros..].iter().all(|byte| *byte == 0));
                chunk[..CHUNK_BYTES - zeros].iter().for_each(|byte| classes[usize::from(*byte)] += 1);
            }
            let expected = classes.iter().sum::<u64>() as f64 / 256.0;
            if expected > 0.0 {
                let chi2: f64 = classes.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
                // 255 degrees of freedom: above 331 once in a thousand.
                assert!(chi2 < 331.0, "{compressible_pct}%: chi square {chi2}");
            }
        }
    }

    #[test]
    fn content_depends_on_seed_and_number_only() {
        let spec = DataSpec { compressible_pct: 25, dedupe_pct: 40 };
        let whole = filled(spec, 20);
        let mut parts = vec![0; whole.len()];
        for (index, part) in parts.chunks_mut(3 * DATA_BLOCK_BYTES).enumerate() {
            DataGenerator::new(spec, 5).fill(100 + 3 * index as u64, part);
        }
        assert_eq!(whole, parts);
        let mut cut = vec![0; 5000];
        DataGenerator::new(spec, 5).fill(100, &mut cut);
        assert_eq!(cut, whole[..5000]);
        let mut other = vec![0; 5000];
        DataGenerator::new(spec, 6).fill(100, &mut other);
        assert_ne!(cut, other);
    }
}
