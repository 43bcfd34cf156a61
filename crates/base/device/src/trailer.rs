//! The mark of raidlab's own test files: one 4 KiB block behind the data.
//!
//! ```text
//! | data, a multiple of 4 KiB | trailer 4 KiB |
//! byte 0 magic "raidlab testfile"; 16 version u32; 20 state u32 (1 being laid out, 2 complete);
//!     24 length of the data u64; 32 seed u64; 40 checksum u64 (FNV-1a of bytes 0 to 39); zero up to 4096
//! ```
//! Numbers are little endian. The trailer is outside the part that a load target exposes, so no load overwrites it. It
//! is first written as "being laid out", so an interrupted lay-out is also recognised as raidlab's own.

use raidlab_units::ByteCount;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Length of the trailer, and the unit of the data's length.
pub const TRAILER_BYTES: u64 = 4096;
/// What a trailer begins with.
pub const MAGIC: [u8; 16] = *b"raidlab testfile";
const VERSION: u32 = 1;
const BEING_LAID_OUT: u32 = 1;
const COMPLETE: u32 = 2;
const CHECKED_BYTES: usize = 40;

/// What the trailer of a test file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Whether all data is written.
    pub complete: bool,
    /// Length of the data before the trailer.
    pub data_bytes: ByteCount,
    /// Seed of the data.
    pub seed: u64,
}

impl Trailer {
    /// The block that says so.
    pub fn encode(&self) -> [u8; TRAILER_BYTES as usize] {
        let mut block = [0; TRAILER_BYTES as usize];
        let state = if self.complete { COMPLETE } else { BEING_LAID_OUT };
        block[..16].copy_from_slice(&MAGIC);
        block[16..20].copy_from_slice(&VERSION.to_le_bytes());
        block[20..24].copy_from_slice(&state.to_le_bytes());
        block[24..32].copy_from_slice(&self.data_bytes.get().to_le_bytes());
        block[32..40].copy_from_slice(&self.seed.to_le_bytes());
        let checksum = fnv1a(&block[..CHECKED_BYTES]);
        block[40..48].copy_from_slice(&checksum.to_le_bytes());
        block
    }

    /// Returns what `block` says, or `None` when it is no trailer of this version.
    pub fn decode(block: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u64::from_le_bytes(block.get(at..at + 8)?.try_into().ok()?));
        let checksum = number(CHECKED_BYTES)?;
        if block[..16] != MAGIC || checksum != fnv1a(&block[..CHECKED_BYTES]) {
            return None;
        }
        let (version, state) = (number(16)? as u32, (number(16)? >> 32) as u32);
        let known = version == VERSION && (state == BEING_LAID_OUT || state == COMPLETE);
        known.then_some(Self {
            complete: state == COMPLETE,
            data_bytes: ByteCount(number(24)?),
            seed: number(32)?,
        })
    }

    /// Reads the trailer of a file of `file_bytes`; `None` when it has none, or one that does not fit its length.
    ///
    /// # Errors
    /// What the read met.
    pub fn read(file: &File, file_bytes: u64) -> io::Result<Option<Self>> {
        let Some(data_bytes) = file_bytes.checked_sub(TRAILER_BYTES) else { return Ok(None) };
        let mut block = [0; TRAILER_BYTES as usize];
        file.read_exact_at(&mut block, data_bytes)?;
        Ok(Self::decode(&block).filter(|trailer| trailer.data_bytes.get() == data_bytes))
    }
}

/// Fowler, Noll and Vo's hash 1a of 64 bits: against accidents, not attacks.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trailer_is_read_as_written_and_damage_is_seen() {
        for complete in [false, true] {
            let trailer = Trailer { complete, data_bytes: ByteCount::from_mib(3), seed: u64::MAX };
            let block = trailer.encode();
            assert_eq!(Trailer::decode(&block), Some(trailer));
            for at in 0..48 {
                let mut damaged = block;
                damaged[at] ^= 1;
                assert_eq!(Trailer::decode(&damaged), None, "byte {at}");
            }
            assert_eq!(Trailer::decode(&block[..47]), None);
        }
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
