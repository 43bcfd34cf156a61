//! The mark at the head of a member file, by which raidlab knows its own.
//!
//! ```text
//! byte 0      magic "raidlab member\0\0"     16 bytes
//!      16     format version (1)             u32, little endian as all numbers
//!      20     state: 1 being made, 2 ready   u32
//!      24     set                            u64   the same for all members made together
//!      32     index of the member            u16
//!      34     number of members              u16
//!      36     zero                           u32
//!      40     bytes of the data area         u64
//!      48     zero up to byte 1 MiB, left for superblocks and the intent log
//! 1 MiB       data area
//! ```
//! Left out: a checksum. The mark guards against using the wrong file, not against damage.

use raidlab_units::ByteCount;

/// Length of the reserved area at the head of every member in bytes; the data area follows it.
pub const DATA_OFFSET_BYTES: u64 = 1 << 20;

/// Length of the mark's block in bytes, a whole page so that direct I/O can write it.
pub(crate) const MARK_BYTES: usize = 4096;

const MAGIC: [u8; 16] = *b"raidlab member\0\0";
const VERSION: u32 = 1;

const _: () = assert!(DATA_OFFSET_BYTES.is_multiple_of(MARK_BYTES as u64));

/// Whether a member is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkState {
    /// Its data area is not all written yet.
    BeingMade,
    /// It can be used.
    Ready,
}

/// What the mark of a member says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Whether the member is whole.
    pub(crate) state: MarkState,
    /// The same for all members made together.
    pub(crate) set: u64,
    /// Place of this member.
    pub(crate) index: u16,
    /// Number of members.
    pub(crate) count: u16,
    /// Length of the data area.
    pub(crate) data_bytes: ByteCount,
}

impl Mark {
    /// Writes the mark into the first [`MARK_BYTES`] of a member, the rest zero.
    pub(crate) fn encode(&self, block: &mut [u8]) {
        let state: u32 = match self.state {
            MarkState::BeingMade => 1,
            MarkState::Ready => 2,
        };
        block.fill(0);
        block[..16].copy_from_slice(&MAGIC);
        block[16..20].copy_from_slice(&VERSION.to_le_bytes());
        block[20..24].copy_from_slice(&state.to_le_bytes());
        block[24..32].copy_from_slice(&self.set.to_le_bytes());
        block[32..34].copy_from_slice(&self.index.to_le_bytes());
        block[34..36].copy_from_slice(&self.count.to_le_bytes());
        block[40..48].copy_from_slice(&self.data_bytes.get().to_le_bytes());
    }

    /// Reads the mark from the first [`MARK_BYTES`] of a file.
    ///
    /// # Errors
    /// Says in words what is no mark about it.
    pub(crate) fn decode(block: &[u8]) -> Result<Self, &'static str> {
        if block.len() < 48 {
            return Err("it is too short to hold the mark of one");
        }
        let number = |at: usize, bytes: usize| {
            block[at..at + bytes].iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        if block[..16] != MAGIC {
            return Err("it does not begin with the mark of one");
        }
        if number(16, 4) != u64::from(VERSION) {
            return Err("its mark has a version that this raidlab does not know");
        }
        let state = match number(20, 4) {
            1 => MarkState::BeingMade,
            2 => MarkState::Ready,
            _ => return Err("its mark has an unknown state"),
        };
        Ok(Self {
            state,
            set: number(24, 8),
            index: number(32, 2) as u16,
            count: number(34, 2) as u16,
            data_bytes: ByteCount(number(40, 8)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mark_is_read_as_written(ready: bool, set: u64, index: u16, count: u16, data_bytes: u64) {
            let state = if ready { MarkState::Ready } else { MarkState::BeingMade };
            let mark = Mark { state, set, index, count, data_bytes: ByteCount(data_bytes) };
            let mut block = [0xff; MARK_BYTES];
            mark.encode(&mut block);
            prop_assert_eq!(Mark::decode(&block), Ok(mark));
            prop_assert!(block[48..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn what_is_no_mark_is_refused() {
        let good = {
            let mut block = [0; MARK_BYTES];
            let state = MarkState::Ready;
            Mark { state, set: 7, index: 0, count: 1, data_bytes: ByteCount(4096) }.encode(&mut block);
            block
        };
        let rows: [(usize, u8, &str); 3] = [(0, b'x', "begin"), (16, 9, "version"), (20, 7, "state")];
        for (at, byte, word) in rows {
            let mut block = good;
            block[at] = byte;
            let reason = Mark::decode(&block).expect_err("a damaged mark is refused");
            assert!(reason.contains(word), "byte {at}: {reason}");
        }
        assert!(Mark::decode(&good[..47]).expect_err("a short file is refused").contains("short"));
    }
}
