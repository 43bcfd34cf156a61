//! The mark of a file that was made for an array whose creation has not finished.
//!
//! It is in the label's place, and the label overwrites it. A file with the mark holds only what the creation wrote,
//! and the creation was interrupted.

use crate::area::LABEL_BYTES;
use crate::error::{DecodeError, Part};
use crate::identity::ArrayUuid;
use crate::seal::{SEAL_BYTES, check_length, check_zeros, open_plain, put, seal, take};

const ARRAY_AT: usize = SEAL_BYTES;
const ZEROS_AT: usize = ARRAY_AT + 16;

/// The mark of a file that was made for an array which is not finished yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// The array that it is made for.
    pub array_uuid: ArrayUuid,
}

impl Unfinished {
    /// Writes the mark over `out`, which must be [`LABEL_BYTES`] long.
    ///
    /// # Panics
    /// If `out` is not `LABEL_BYTES` long.
    pub fn encode(&self, out: &mut [u8]) {
        assert_eq!(out.len(), LABEL_BYTES, "the mark is as long as a label");
        out.fill(0);
        put(out, ARRAY_AT, self.array_uuid.0);
        seal(out, Part::Unfinished, 0);
    }

    /// Reads the mark that `bytes` begins with.
    ///
    /// # Errors
    /// [`DecodeError`] when there is none, or it is damaged or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_length(bytes, Part::Unfinished, LABEL_BYTES as u64)?;
        let bytes = &bytes[..LABEL_BYTES];
        open_plain(bytes, Part::Unfinished)?;
        check_zeros(bytes, Part::Unfinished, ZEROS_AT)?;
        Ok(Self { array_uuid: ArrayUuid(take(bytes, ARRAY_AT)) })
    }
}
