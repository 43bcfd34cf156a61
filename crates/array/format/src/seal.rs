//! The seal that every sealed structure begins with, and the little-endian fields behind it.
//!
//! ```text
//!  0      8          10     12          16
//!  | magic | version | aux  | CRC32C    | fields ...                       zeros to the end |
//! ```
//! `aux` belongs to the structure (a sector's number, a count of runs), and is 0 if unused. The checksum (Castagnoli
//! polynomial, as in iSCSI, RFC 3720 section 12.1) covers the whole structure with its own field taken as 0.
//!
//! Invariant: this prefix and the coverage of the checksum are the same in every version, so that a newer version is
//! told from damage. Unused bytes are 0 and are checked, so that each value has one encoding.

use crate::error::{DecodeError, Part};
use crate::zeros::append_zeros;
use crc_fast::{CrcAlgorithm, Digest};

/// The version that is written, and the newest that is understood.
///
/// Version 1 knew no log records without data, version 2 none that share a block or have partial parity, version 3 no map of written
/// regions, no nonces of starts and no reasons of bad ranges, where it wrote zeros; all else is the same, so that what they wrote is
/// read as it is.
pub(crate) const VERSION: u16 = 4;
/// The oldest that is understood.
const VERSION_MIN: u16 = 1;
/// Generations, epochs and sequences are below this: who goes on from one that was read may add to it freely.
pub const COUNTERS_END: u64 = 1 << 63;
/// Where the fields begin.
pub(crate) const SEAL_BYTES: usize = 16;

const VERSION_AT: usize = 8;
const AUX_AT: usize = 10;
const CHECKSUM_AT: usize = 12;

/// Writes prefix and checksum; the fields must be there already.
pub(crate) fn seal(bytes: &mut [u8], part: Part, aux: u16) {
    let end = bytes.len();
    seal_front(bytes, end, part, aux);
}

/// The same for bytes that are zeros from `end` on, not before the fields; those are not read.
pub(crate) fn seal_front(bytes: &mut [u8], end: usize, part: Part, aux: u16) {
    bytes[..VERSION_AT].copy_from_slice(part.magic());
    put(bytes, VERSION_AT, VERSION.to_le_bytes());
    put(bytes, AUX_AT, aux.to_le_bytes());
    let sum = append_zeros(checksum(&bytes[..end]), bytes.len() - end);
    put(bytes, CHECKSUM_AT, sum.to_le_bytes());
}

/// The version by which a structure was written that has been opened.
pub(crate) fn version(bytes: &[u8]) -> u16 {
    u16_at(bytes, VERSION_AT)
}

/// Checks magic, checksum and version of a structure that is exactly `bytes`.
pub(crate) fn open(bytes: &[u8], part: Part) -> Result<(), DecodeError> {
    check_magic(bytes, part)?;
    let (stored, computed) = (stored_checksum(bytes), checksum(bytes));
    if stored != computed {
        return Err(DecodeError::Checksum { part, stored, computed });
    }
    match u16_at(bytes, VERSION_AT) {
        VERSION_MIN..=VERSION => Ok(()),
        found => Err(DecodeError::UnknownVersion { part, found, known: VERSION }),
    }
}

/// Like [`open`], for a structure without a number of its own in the prefix.
pub(crate) fn open_plain(bytes: &[u8], part: Part) -> Result<(), DecodeError> {
    open(bytes, part)?;
    match aux(bytes) {
        0 => Ok(()),
        _ => Err(DecodeError::NotZero { part, offset: AUX_AT as u64 }),
    }
}

/// Checks that there is room for a prefix, and the magic.
pub(crate) fn check_magic(bytes: &[u8], part: Part) -> Result<(), DecodeError> {
    check_length(bytes, part, SEAL_BYTES as u64)?;
    if bytes[..VERSION_AT] == *part.magic() { Ok(()) } else { Err(DecodeError::BadMagic { part }) }
}

/// Checks that there are `needed` bytes or more.
pub(crate) fn check_length(bytes: &[u8], part: Part, needed: u64) -> Result<(), DecodeError> {
    let found = bytes.len() as u64;
    if found >= needed { Ok(()) } else { Err(DecodeError::TooShort { part, needed, found }) }
}

/// Checks that the bytes from `from` on are 0.
pub(crate) fn check_zeros(bytes: &[u8], part: Part, from: usize) -> Result<(), DecodeError> {
    match bytes[from..].iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(offset) => Err(DecodeError::NotZero { part, offset: (from + offset) as u64 }),
    }
}

/// The structure's own number in the prefix.
pub(crate) fn aux(bytes: &[u8]) -> u16 {
    u16_at(bytes, AUX_AT)
}

/// The checksum that the prefix carries.
pub(crate) fn stored_checksum(bytes: &[u8]) -> u32 {
    u32_at(bytes, CHECKSUM_AT)
}

/// The checksum of `bytes` with its own field taken as 0.
fn checksum(bytes: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&bytes[..CHECKSUM_AT]);
    digest.update(&[0; SEAL_BYTES - CHECKSUM_AT]);
    digest.update(&bytes[SEAL_BYTES..]);
    digest.finalize() as u32
}

/// Copies `field` to `at`.
pub(crate) fn put<const N: usize>(bytes: &mut [u8], at: usize, field: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&field);
}

/// Returns the `N` bytes at `at`, which the caller has found to be there.
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(take(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(take(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(take(bytes, at))
}
