//! The stamp: the contents of a written sector of 512 bytes.
//!
//! ```text
//!  0        8        16       24        32                              508  512
//!  | magic  |  run   | sector |sequence |  noise, a function of the rest |CRC |    all little-endian
//! ```
//! - `run` distinguishes the data of different runs;
//! - `sector` is the place on the target, which detects misplaced data;
//! - `sequence` numbers the writes of a run, which detects old data;
//! - the CRC32C covers the 508 bytes before it, which detects changed bits.
//!
//! A stamp is smaller than any write, so it also detects torn writes. The noise neither compresses nor repeats. Each of
//! its words depends on all three numbers through the mixing function of splitmix64 (Steele, Lea and Flood 2014).

/// Bytes of a stamped sector.
pub const STAMPED_SECTOR_BYTES: usize = 512;

const MAGIC: u64 = u64::from_le_bytes(*b"rlstamp1");
const CRC_AT: usize = STAMPED_SECTOR_BYTES - 4;
const NOISE_AT: usize = 32;
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Who wrote a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The run, any number.
    pub run: u64,
    /// Its place in units of 512 bytes from the start of the target.
    pub sector: u64,
    /// Which write of the run.
    pub sequence: u64,
}

/// What was found in a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorState {
    /// Whole, with this stamp.
    Stamped(Stamp),
    /// A stamp whose checksum is wrong: bits have changed.
    Damaged,
    /// Zeros only, as where nothing was written yet.
    Blank,
    /// No stamp at all.
    Unstamped,
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills `bytes`, a whole number of sectors, with what the write `sequence` of `run` puts from `first_sector` on.
///
/// # Panics
/// If `bytes` is not a whole number of sectors.
pub fn stamp_sectors(bytes: &mut [u8], run: u64, first_sector: u64, sequence: u64) {
    assert!(bytes.len().is_multiple_of(STAMPED_SECTOR_BYTES), "whole sectors are stamped");
    for (sector, bytes) in (first_sector..).zip(bytes.chunks_exact_mut(STAMPED_SECTOR_BYTES)) {
        let head = [MAGIC, run, sector, sequence];
        for (word, bytes) in head.into_iter().zip(bytes.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut state = mix(run ^ mix(sector ^ mix(sequence)));
        for bytes in bytes[NOISE_AT..CRC_AT].chunks_mut(8) {
            state = state.wrapping_add(GOLDEN_GAMMA);
            bytes.copy_from_slice(&mix(state).to_le_bytes()[..bytes.len()]);
        }
        let crc = crc_fast::crc32_iscsi(&bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// What is in a sector of [`STAMPED_SECTOR_BYTES`].
///
/// # Panics
/// If `bytes` is not one sector.
pub fn read_sector(bytes: &[u8]) -> SectorState {
    assert_eq!(bytes.len(), STAMPED_SECTOR_BYTES, "one sector is read at a time");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let crc = u32::from_le_bytes(bytes[CRC_AT..].try_into().expect("four bytes"));
    if crc_fast::crc32_iscsi(&bytes[..CRC_AT]) == crc && word(0) == MAGIC {
        return SectorState::Stamped(Stamp { run: word(8), sector: word(16), sequence: word(24) });
    }
    if bytes.iter().all(|byte| *byte == 0) {
        return SectorState::Blank;
    }
    // A stamp that was changed in its first word, too, still has most of its bits.
    let is_like_a_stamp = (word(0) ^ MAGIC).count_ones() <= 8;
    if is_like_a_stamp { SectorState::Damaged } else { SectorState::Unstamped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stamp_never_changes_its_form() {
        let mut bytes = [0; STAMPED_SECTOR_BYTES];
        stamp_sectors(&mut bytes, 1, 2, 3);
        assert_eq!(&bytes[..8], b"rlstamp1");
        assert_eq!(
            crc_fast::crc32_iscsi(&bytes),
            0x4867_4bc7,
            "the CRC of data with its own CRC behind is a constant"
        );
        assert_eq!(bytes[32..40], [88, 72, 154, 206, 150, 136, 151, 32]);
    }

    #[test]
    fn zeros_are_blank_and_other_bytes_have_no_stamp() {
        assert_eq!(read_sector(&[0; STAMPED_SECTOR_BYTES]), SectorState::Blank);
        assert_eq!(read_sector(&[7; STAMPED_SECTOR_BYTES]), SectorState::Unstamped);
    }

    proptest! {
        #[test]
        fn every_sector_says_who_wrote_it(run: u64, first in 0..u64::MAX / 2, sequence: u64, sectors in 1usize..20) {
            let mut bytes = vec![0; sectors * STAMPED_SECTOR_BYTES];
            stamp_sectors(&mut bytes, run, first, sequence);
            for (sector, bytes) in (first..).zip(bytes.chunks(STAMPED_SECTOR_BYTES)) {
                prop_assert_eq!(read_sector(bytes), SectorState::Stamped(Stamp { run, sector, sequence }));
            }
        }

        #[test]
        fn one_changed_bit_is_found(run: u64, sector: u64, sequence: u64, bit in 0usize..4096) {
            let mut bytes = [0; STAMPED_SECTOR_BYTES];
            stamp_sectors(&mut bytes, run, sector, sequence);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(read_sector(&bytes), SectorState::Damaged);
        }
    }
}
