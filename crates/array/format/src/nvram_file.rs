//! NVRAM as a file: what precedes the memory itself, and how a directory entry is changed.
//!
//! ```text
//! byte 0      2048        3072         4096         8192            directory_at   cache_at
//!  | header    | redo line | redo place | redo block | label, ring   | directory    | cache |    from multiples of 4096
//!
//! header:     0 seal, 16 bytes: magic "RAIDMEM\n", version, 0, CRC32C of the 64 bytes
//!            16 cache_bytes        u64     length of the cache
//!            24 cache_block_bytes  u64     length of one of its blocks, the unit of the directory
//!            32 block_bytes        u64     the array's block, the unit of an entry's bits
//!            40 log_bytes          u64     length of label and ring
//!            48 entries            u64     of the directory
//!            56 zeros to 64
//! redo line:  0 slot               u64
//!             8 entry              32 bytes
//!            40 CRC32C             u64     of the 40 bytes, with bit 32 set
//! redo place: 0 u64                         0, or one more than the array block of the cache that the redo block is for
//! ```
//! The file is mapped, and the process that stores an entry may be killed between any two stores of 8 bytes. So an
//! entry is written to the redo line before its own place: the line's checksum is set to 0, slot and entry are stored,
//! then the checksum, then the entry in its place. A start stores a redo line with a valid checksum again. It holds the
//! last entry stored, so that changes nothing unless the store was interrupted.
//!
//! A later write may overwrite a cache block that an entry names, which must then be old or new as a whole: the new
//! block is copied to the redo block, the redo place is set, the block is copied to its own place, and the redo place
//! is set to 0. A start copies a redo block again if its place is set.
//!
//! Left out: that stores become durable in this order, which the memory must ensure.

use crate::error::{DecodeError, Part, Problem};
use crate::nvram::NVRAM_ENTRY_BYTES;
use crate::seal::{SEAL_BYTES, check_length, check_zeros, open_plain, put, seal, u64_at};
use raidlab_units::{BlockSize, ByteCount};

/// Length of the header.
pub const NVRAM_FILE_HEADER_BYTES: usize = 64;
/// Where the redo line stands.
pub const REDO_LINE_AT: u64 = 2048;
/// Where the redo place stands.
pub const REDO_PLACE_AT: u64 = 3072;
/// Where the redo block stands.
pub const REDO_BLOCK_AT: u64 = 4096;
/// Words of 8 bytes in the redo line.
pub const REDO_LINE_WORDS: usize = 6;

const UNIT_BYTES: u64 = 4096;
/// No memory is longer.
const LENGTH_MAX: u64 = 1 << 48;
const CACHE_BYTES_AT: usize = SEAL_BYTES;
const CACHE_BLOCK_AT: usize = 24;
const BLOCK_AT: usize = 32;
const LOG_BYTES_AT: usize = 40;
const ENTRIES_AT: usize = 48;
const ZEROS_AT: usize = 56;
/// Sets a checksum apart from no line at all.
const LINE_WHOLE: u64 = 1 << 32;

/// What an NVRAM file is made for. Another array, or other settings, need another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NvramFileHeader {
    /// Length of the cache.
    pub cache_bytes: ByteCount,
    /// Length of one of its blocks.
    pub cache_block_bytes: ByteCount,
    /// Length of the array's block.
    pub block_bytes: ByteCount,
    /// Length of label and ring.
    pub log_bytes: ByteCount,
    /// Entries of the directory.
    pub entries: u32,
}

impl NvramFileHeader {
    /// Writes the header over `out`, which must be [`NVRAM_FILE_HEADER_BYTES`] long.
    ///
    /// # Panics
    /// If `out` is not `NVRAM_FILE_HEADER_BYTES` long.
    pub fn encode(&self, out: &mut [u8]) {
        assert_eq!(out.len(), NVRAM_FILE_HEADER_BYTES, "a header of NVRAM has its own length");
        out.fill(0);
        put(out, CACHE_BYTES_AT, self.cache_bytes.0.to_le_bytes());
        put(out, CACHE_BLOCK_AT, self.cache_block_bytes.0.to_le_bytes());
        put(out, BLOCK_AT, self.block_bytes.0.to_le_bytes());
        put(out, LOG_BYTES_AT, self.log_bytes.0.to_le_bytes());
        put(out, ENTRIES_AT, u64::from(self.entries).to_le_bytes());
        seal(out, Part::NvramFile, 0);
    }

    /// Reads the header that `bytes` begins with.
    ///
    /// # Errors
    /// [`DecodeError`] when there is none, or it is damaged or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_length(bytes, Part::NvramFile, NVRAM_FILE_HEADER_BYTES as u64)?;
        let bytes = &bytes[..NVRAM_FILE_HEADER_BYTES];
        open_plain(bytes, Part::NvramFile)?;
        check_zeros(bytes, Part::NvramFile, ZEROS_AT)?;
        let value = u64_at(bytes, ENTRIES_AT);
        let problem = Problem::Field { field: "entries", value, allowed: "below 2^32" };
        let entries =
            u32::try_from(value).map_err(|_| DecodeError::Impossible { part: Part::NvramFile, problem })?;
        let length = |at, field| match u64_at(bytes, at) {
            value if value > LENGTH_MAX => {
                Err(DecodeError::field(Part::NvramFile, field, value, "256 TiB or less"))
            }
            value => Ok(ByteCount(value)),
        };
        let block_bytes = length(BLOCK_AT, "block_bytes")?;
        if BlockSize::new(block_bytes.0).is_err() {
            return Err(DecodeError::field(Part::NvramFile, "block_bytes", block_bytes.0, "512 or 4096"));
        }
        Ok(Self {
            cache_bytes: length(CACHE_BYTES_AT, "cache_bytes")?,
            cache_block_bytes: length(CACHE_BLOCK_AT, "cache_block_bytes")?,
            block_bytes,
            log_bytes: length(LOG_BYTES_AT, "log_bytes")?,
            entries,
        })
    }

    /// Where label and ring begin.
    pub const fn log_at(&self) -> u64 {
        REDO_BLOCK_AT + UNIT_BYTES
    }

    /// Where the directory begins.
    pub const fn directory_at(&self) -> u64 {
        (self.log_at() + self.log_bytes.0).next_multiple_of(UNIT_BYTES)
    }

    /// Length of the directory.
    pub const fn directory_bytes(&self) -> u64 {
        self.entries as u64 * NVRAM_ENTRY_BYTES as u64
    }

    /// Where the cache begins.
    pub const fn cache_at(&self) -> u64 {
        (self.directory_at() + self.directory_bytes()).next_multiple_of(UNIT_BYTES)
    }

    /// Length of the file.
    pub const fn total_bytes(&self) -> u64 {
        (self.cache_at() + self.cache_bytes.0).next_multiple_of(UNIT_BYTES)
    }
}

/// The redo line of an entry; its last word is the checksum.
pub fn redo_line(slot: u32, entry: &[u8; NVRAM_ENTRY_BYTES]) -> [u64; REDO_LINE_WORDS] {
    let mut line = [u64::from(slot), 0, 0, 0, 0, 0];
    line[1..5].copy_from_slice(&entry_words(entry));
    line[5] = line_checksum(&line);
    line
}

/// The words of an entry, as they lie in memory.
pub fn entry_words(entry: &[u8; NVRAM_ENTRY_BYTES]) -> [u64; 4] {
    core::array::from_fn(|word| u64_at(entry, word * 8))
}

/// Reads a redo line: which slot, and its entry. Nothing where it was not written to its end.
pub fn read_redo_line(line: &[u64; REDO_LINE_WORDS]) -> Option<(u32, [u8; NVRAM_ENTRY_BYTES])> {
    if line[5] != line_checksum(line) {
        return None;
    }
    let mut entry = [0; NVRAM_ENTRY_BYTES];
    for (bytes, word) in entry.chunks_exact_mut(8).zip(&line[1..5]) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Some((u32::try_from(line[0]).ok()?, entry))
}

fn line_checksum(line: &[u64; REDO_LINE_WORDS]) -> u64 {
    let words: [u64; 5] = line[..5].try_into().expect("a line has six words");
    LINE_WHOLE | u64::from(crc_fast::crc32_iscsi(words.map(u64::to_le_bytes).as_flattened()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvram::NvramEntry;

    fn header() -> NvramFileHeader {
        NvramFileHeader {
            cache_bytes: ByteCount(40 * 8192),
            cache_block_bytes: ByteCount(8192),
            block_bytes: ByteCount(512),
            log_bytes: ByteCount(4096 + 5000),
            entries: 40,
        }
    }

    #[test]
    fn parts_follow_each_other_on_whole_units() {
        let header = header();
        let ends = [header.log_at() + 9096, header.directory_at() + 1280, header.cache_at() + 40 * 8192];
        let starts = [header.directory_at(), header.cache_at(), header.total_bytes()];
        for (end, start) in ends.into_iter().zip(starts) {
            assert!(start.is_multiple_of(4096) && (end..end + 4096).contains(&start), "{end} {start}");
        }
    }

    #[test]
    fn a_header_is_read_as_written_and_every_flip_is_found() {
        let mut bytes = [0xdd; NVRAM_FILE_HEADER_BYTES];
        header().encode(&mut bytes);
        assert_eq!(NvramFileHeader::decode(&bytes), Ok(header()));
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(NvramFileHeader::decode(&bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    /// Whoever stores an entry may be gone after any of the stores: the start finds the old entry or the new one.
    #[test]
    fn an_entry_is_old_or_new_after_any_store() {
        let entry =
            |sequence| NvramEntry { sequence, block: 3 * sequence, dirty: u64::MAX / sequence }.encode(7);
        let (older, old, new) = (entry(1), entry(2), entry(3));
        for before in [[0; REDO_LINE_WORDS], redo_line(7, &old), redo_line(6, &older)] {
            for stores in 0..=12 {
                let (mut line, mut place) = (before, entry_words(&old));
                let target = redo_line(7, &new);
                let steps = (0..12).take(stores);
                for step in steps {
                    match step {
                        0 => line[5] = 0,
                        1..6 => line[step - 1] = target[step - 1],
                        6 => line[5] = target[5],
                        7..11 => place[step - 7] = entry_words(&new)[step - 7],
                        _ => {}
                    }
                }
                if let Some((7, entry)) = read_redo_line(&line) {
                    place = entry_words(&entry);
                }
                let expected = if stores < 7 { old } else { new };
                assert_eq!(place, entry_words(&expected), "after {stores} stores");
            }
        }
    }
}
