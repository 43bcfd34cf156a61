//! CRC32C of many blocks, several at a time.
//!
//! The processor's instruction takes eight bytes and gives its result three cycles later, but begins another every cycle. Within
//! one block each needs the result of the one before; so three blocks go side by side, and nothing has to be put together
//! afterwards. What is left over is the `crc32c` crate's, which does a block by itself.
//!
//! Source of the interleaving: V. Gopal et al., "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel, 2011.
#![cfg_attr(
    target_arch = "x86_64",
    allow(unsafe_code, reason = "the instruction needs a processor that has it")
)]

/// Appends the CRC32C of each block of `blocks` to `out`. Blocks are `block_bytes` long, a multiple of 8 (asserted); bytes behind
/// the last whole one are left out.
pub fn checksums(blocks: &[u8], block_bytes: usize, out: &mut Vec<u32>) {
    assert!(block_bytes > 0 && block_bytes.is_multiple_of(8), "blocks are whole words");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("sse4.2") {
        let mut threes = blocks.chunks_exact(3 * block_bytes);
        for three in &mut threes {
            // SAFETY: the processor has the instruction, as was just found.
            out.extend(unsafe { three_checksums(three, block_bytes) });
        }
        return out.extend(threes.remainder().chunks_exact(block_bytes).map(crc32c::crc32c));
    }
    out.extend(blocks.chunks_exact(block_bytes).map(crc32c::crc32c));
}

/// The CRC32C of three blocks, one behind the other.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn three_checksums(blocks: &[u8], block_bytes: usize) -> [u32; 3] {
    use core::arch::x86_64::_mm_crc32_u64;
    let words = |block: usize| blocks[block * block_bytes..][..block_bytes].as_chunks::<8>().0;
    let mut sums = [u64::from(u32::MAX); 3];
    for ((first, second), third) in words(0).iter().zip(words(1)).zip(words(2)) {
        sums[0] = _mm_crc32_u64(sums[0], u64::from_le_bytes(*first));
        sums[1] = _mm_crc32_u64(sums[1], u64::from_le_bytes(*second));
        sums[2] = _mm_crc32_u64(sums[2], u64::from_le_bytes(*third));
    }
    sums.map(|sum| !(sum as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_side_by_side_have_the_checksums_of_each_by_itself() {
        let bytes: Vec<u8> =
            (0..8 * 4096 + 5).map(|at: u32| (at.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        for block_bytes in [8, 512, 4096] {
            for blocks in 0..8 {
                let some = &bytes[1..][..blocks * block_bytes + 4];
                let mut sums = vec![7];
                checksums(some, block_bytes, &mut sums);
                let each = some.chunks_exact(block_bytes).map(crc32c::crc32c);
                assert_eq!(
                    sums,
                    [7].into_iter().chain(each).collect::<Vec<_>>(),
                    "{blocks} of {block_bytes}"
                );
            }
        }
    }
}
