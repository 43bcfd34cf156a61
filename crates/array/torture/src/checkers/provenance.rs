//! Provenance: nothing is ever returned that was never written, and every block comes back at its own address.
//!
//! A write fills each block with a pattern made of its number and the block's address, so a block read back names the write
//! that it came from; a block put together from several, from another address, or from wrong parity is no pattern:
//! ```text
//! word   0              1      2           3           ...
//!        write number   lba    base + 2 K  base + 3 K         base = scrambled (write number, lba)
//! ```
//! Words add up in the integers while parity adds in GF(256), so sums of patterns are no patterns.
//!
//! Some writes hold copies of metadata in place of patterns, see `copies.rs`.
//!
//! Verified: every block of every host read that succeeds. Not verified: how new the data is (`durability.rs` and
//! `volume.rs` do that), and blocks whose contents the array has given up or a failed write has left open.

use crate::volume::WriteNumber;
use raidlab_units::Lba;

/// Odd, so that the words of a pattern differ in all their low bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Why what a block holds is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockFault {
    /// It is no pattern of any write to this block.
    #[error("it holds no single write to this block (starts {first_bytes:02x?})")]
    Garbage {
        /// How it starts.
        first_bytes: [u8; 16],
    },
    /// It is a write that had been replaced for good.
    #[error("it holds {held:?}; possible was one of {possible:?}")]
    Stale {
        /// What it holds.
        held: WriteNumber,
        /// What it could have held.
        possible: Vec<WriteNumber>,
    },
}

/// Fills a block with the pattern of `write` to `lba`. The block is a multiple of 8 bytes, at least 16.
pub(crate) fn fill_pattern(block: &mut [u8], lba: Lba, write: WriteNumber) {
    let (head, rest) = block.split_at_mut(16);
    head[..8].copy_from_slice(&write.0.to_le_bytes());
    head[8..].copy_from_slice(&lba.0.to_le_bytes());
    let mut word = base(lba, write);
    for bytes in rest.chunks_exact_mut(8) {
        word = word.wrapping_add(STEP);
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The write whose pattern for `lba` fills `block` from end to end.
pub(crate) fn pattern_of(block: &[u8], lba: Lba) -> Result<WriteNumber, BlockFault> {
    let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
    let write = WriteNumber(word(0));
    let mut expected = base(lba, write);
    let mut differences = word(8) ^ lba.0;
    for bytes in block[16..].chunks_exact(8) {
        expected = expected.wrapping_add(STEP);
        differences |= u64::from_le_bytes(bytes.try_into().expect("eight bytes")) ^ expected;
    }
    if differences == 0 { Ok(write) } else { Err(garbage(block)) }
}

fn garbage(block: &[u8]) -> BlockFault {
    BlockFault::Garbage { first_bytes: block[..16].try_into().expect("a block is longer") }
}

/// Scrambles both numbers so that each bit of the result depends on each bit of them (the finisher of `SplitMix64`).
const fn base(lba: Lba, write: WriteNumber) -> u64 {
    let z = write.0.wrapping_mul(STEP).wrapping_add(lba.0 << 32);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(lba: u64, write: u64) -> Vec<u8> {
        let mut block = vec![0; 512];
        fill_pattern(&mut block, Lba(lba), WriteNumber(write));
        block
    }

    #[test]
    fn a_pattern_names_its_write() {
        for (lba, write) in [(0, 0), (1, 0), (0, 1), (77, 1 << 40)] {
            assert_eq!(pattern_of(&holding(lba, write), Lba(lba)), Ok(WriteNumber(write)));
        }
    }

    #[test]
    fn torn_misplaced_and_summed_blocks_are_garbage() {
        let whole = holding(1, 5);
        assert!(pattern_of(&whole, Lba(2)).is_err(), "misplaced");
        for at in [0, 8, 16, 300, 511] {
            let mut torn = whole.clone();
            torn[at] ^= 1;
            assert!(pattern_of(&torn, Lba(1)).is_err(), "a bit differs at {at}");
        }
        let mut mixed = whole.clone();
        mixed[256..].copy_from_slice(&holding(1, 6)[256..]);
        assert!(pattern_of(&mixed, Lba(1)).is_err(), "half of each of two writes");
        // What a recovery from stale parity would make: the sum of three patterns of the block.
        let sum: Vec<u8> = (0..512).map(|at| whole[at] ^ holding(1, 6)[at] ^ holding(1, 7)[at]).collect();
        assert!(pattern_of(&sum, Lba(1)).is_err(), "a sum of three");
    }
}
