//! NVRAM: its label, its ring of intent records, and the directory of the cache.
//!
//! ```text
//! log          | label, 64 bytes, zeros to 4096 | ring of intent records ...  |
//! directory    | entry of slot 0, 32 bytes | entry of slot 1 | ...             |
//!
//! label:  0 seal, 16 bytes: magic "RAIDKEP\n", version, 0, CRC32C of the 64 bytes
//!        16 array_uuid  16 bytes
//!        32 nvram_epoch  u64
//!        40 start        u64     the nonce of the start that wrote it
//!        48 zeros to 64
//! entry:  0 sequence  u64     counts what was written to the cache
//!         8 block     u64     which cache block of the volume
//!        16 dirty     u64     a bit for each of its array blocks; 0: the slot is empty
//!        24 zero      u32
//!        28 CRC32C    u32     of the 28 bytes before it and the slot's number (u32)
//! ```
//! The label names the array, the epoch and the start that began it: the state has the same `nvram_epoch` and `nvram_start`. NVRAM
//! that was with another array or another copy of it, or was left behind when the array went on without it, does not match and
//! is not used.
//!
//! An entry is written at once; a torn entry was never relied on, and counts as empty.

use crate::error::{DecodeError, Part};
use crate::identity::{ArrayUuid, StartNonce};
use crate::seal::{SEAL_BYTES, check_length, check_zeros, open_plain, put, seal, take, u32_at, u64_at};

/// Length of the NVRAM label.
pub const NVRAM_LABEL_BYTES: usize = 64;
/// Where the ring begins in the NVRAM log.
pub const NVRAM_RING_AT: usize = 4096;
/// Length of an entry of the directory.
pub const NVRAM_ENTRY_BYTES: usize = 32;

const UUID_AT: usize = SEAL_BYTES;
const NVRAM_EPOCH_AT: usize = 32;
const START_AT: usize = 40;
const ZEROS_AT: usize = 48;

/// Which array the NVRAM belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvramLabel {
    /// The array.
    pub array_uuid: ArrayUuid,
    /// The epoch of the NVRAM; the state's [`crate::ArrayState::nvram_epoch`] must be the same.
    pub nvram_epoch: u64,
    /// The start that began it; the state's [`crate::ArrayState::nvram_start`] must be the same.
    pub start: StartNonce,
}

impl NvramLabel {
    /// Writes the label over `out`, which must be [`NVRAM_LABEL_BYTES`] long.
    ///
    /// # Panics
    /// If `out` is not `NVRAM_LABEL_BYTES` long.
    pub fn encode(&self, out: &mut [u8]) {
        assert_eq!(out.len(), NVRAM_LABEL_BYTES, "a label of NVRAM has its own length");
        out.fill(0);
        put(out, UUID_AT, self.array_uuid.0);
        put(out, NVRAM_EPOCH_AT, self.nvram_epoch.to_le_bytes());
        put(out, START_AT, self.start.to_le_bytes());
        seal(out, Part::NvramLabel, 0);
    }

    /// Reads the label that `bytes` begins with.
    ///
    /// # Errors
    /// [`DecodeError`] when there is none, or it is damaged or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_length(bytes, Part::NvramLabel, NVRAM_LABEL_BYTES as u64)?;
        let bytes = &bytes[..NVRAM_LABEL_BYTES];
        open_plain(bytes, Part::NvramLabel)?;
        check_zeros(bytes, Part::NvramLabel, ZEROS_AT)?;
        Ok(Self {
            array_uuid: ArrayUuid(take(bytes, UUID_AT)),
            nvram_epoch: u64_at(bytes, NVRAM_EPOCH_AT),
            start: StartNonce::from_stored(u64_at(bytes, START_AT)),
        })
    }
}

/// What a slot of the cache holds that the members do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvramEntry {
    /// Counts what was written to the cache: of two entries for a block, the higher is the newer.
    pub sequence: u64,
    /// Which cache block of the volume.
    pub block: u64,
    /// A bit for each array block of it that the members do not have; 0 when the slot is empty.
    pub dirty: u64,
}

impl NvramEntry {
    /// Returns the entry's bytes in the directory.
    pub fn encode(&self, slot: u32) -> [u8; NVRAM_ENTRY_BYTES] {
        let mut bytes = [0; NVRAM_ENTRY_BYTES];
        put(&mut bytes, 0, self.sequence.to_le_bytes());
        put(&mut bytes, 8, self.block.to_le_bytes());
        put(&mut bytes, 16, self.dirty.to_le_bytes());
        put(&mut bytes, 28, self.checksum(slot).to_le_bytes());
        bytes
    }

    /// Reads the entry of `slot`, or `None` when the slot is empty or the entry was written in part only.
    pub fn decode(slot: u32, bytes: &[u8; NVRAM_ENTRY_BYTES]) -> Option<Self> {
        let entry = Self { sequence: u64_at(bytes, 0), block: u64_at(bytes, 8), dirty: u64_at(bytes, 16) };
        let whole = u32_at(bytes, 28) == entry.checksum(slot) && u32_at(bytes, 24) == 0;
        (whole && entry.dirty != 0).then_some(entry)
    }

    /// The checksum of the fields, the zeros behind them and the slot's number. Made of words and not of the entry's bytes:
    /// to read in one piece what was just written in several, a processor waits for all that it has still to write.
    fn checksum(&self, slot: u32) -> u32 {
        let words = [self.sequence, self.block, self.dirty, u64::from(slot) << 32];
        crc_fast::crc32_iscsi(words.map(u64::to_le_bytes).as_flattened())
    }
}

/// The contents of NVRAM.
#[derive(Clone, Copy, Debug)]
pub struct NvramImage<'a> {
    /// The label and the ring.
    pub log: &'a [u8],
    /// The directory; a rest that is no whole entry is not looked at.
    pub directory: &'a [u8],
}

impl<'a> NvramImage<'a> {
    /// The ring of intent records; empty when the log is too short to have one.
    pub fn ring(&self) -> &'a [u8] {
        self.log.get(NVRAM_RING_AT..).unwrap_or_default()
    }

    /// The slots that hold something, with what they hold, in order of slot.
    pub fn entries(&self) -> impl Iterator<Item = (u32, NvramEntry)> + use<'a> {
        let (entries, _) = self.directory.as_chunks();
        (0..).zip(entries).filter_map(|(slot, bytes)| Some((slot, NvramEntry::decode(slot, bytes)?)))
    }
}
