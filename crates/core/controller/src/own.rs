//! The controller's own memory: images of what it writes to metadata areas. No byte of the host is in it.
//!
//! ```text
//! | state image 16 KiB | bitmap image 4 KiB | label of kept memory | header places | tag places |
//! ```
//! An image does not change while it is being written. `tags.rs` says what tag places are; an array that keeps
//! nothing else has only them.

use crate::api::{BufferRef, BufferSpace};
use raidlab_format::{BITMAP_BYTES, KEPT_RING_AT, STATE_BYTES};

/// Where the image of the state begins.
pub(crate) const STATE_AT: usize = 0;
/// Where the image of the bitmap begins.
pub(crate) const BITMAP_AT: usize = STATE_AT + STATE_BYTES;
/// Where the label of kept memory begins.
pub(crate) const KEPT_LABEL_AT: usize = BITMAP_AT + BITMAP_BYTES;
const HEADERS_AT: usize = KEPT_LABEL_AT + KEPT_RING_AT;

/// Log records that may be on their way to the log at once.
const HEADER_PLACES: u32 = 32;

/// The controller's own memory.
#[derive(Debug, Default)]
pub(crate) struct OwnMemory {
    pub(crate) bytes: Vec<u8>,
    /// Where tags begin.
    pub(crate) tags_at: usize,
    header_bytes: usize,
    free_headers: Vec<u32>,
}

impl OwnMemory {
    /// Memory for an array that keeps metadata, or none, with `tag_bytes` for tags; headers of records take up
    /// to `header_bytes`, 0 without a log.
    pub(crate) fn new(keeps_metadata: bool, header_bytes: usize, tag_bytes: usize) -> Self {
        if !keeps_metadata {
            return Self { bytes: vec![0; tag_bytes], ..Self::default() };
        }
        let places = if header_bytes == 0 { 0 } else { HEADER_PLACES };
        let tags_at = HEADERS_AT + header_bytes * places as usize;
        Self {
            bytes: vec![0; tags_at + tag_bytes],
            tags_at,
            header_bytes,
            free_headers: (0..places).rev().collect(),
        }
    }

    /// Takes a place for a header, if one is free.
    pub(crate) fn take_header(&mut self) -> Option<u32> {
        self.free_headers.pop()
    }

    /// True if a place takes a header of this length.
    pub(crate) const fn fits_header(&self, length: usize) -> bool {
        length <= self.header_bytes
    }

    /// Gives a place back.
    pub(crate) fn give_header(&mut self, place: u32) {
        self.free_headers.push(place);
    }

    /// The first `length` bytes of a header's place.
    pub(crate) fn header_mut(&mut self, place: u32, length: usize) -> &mut [u8] {
        assert!(length <= self.header_bytes, "a header is no longer than its place");
        let start = HEADERS_AT + place as usize * self.header_bytes;
        &mut self.bytes[start..start + length]
    }

    /// Where a header's place begins.
    pub(crate) const fn header_buffer(&self, place: u32) -> BufferRef {
        own_buffer(HEADERS_AT + place as usize * self.header_bytes)
    }
}

/// A byte of own memory.
pub(crate) const fn own_buffer(offset: usize) -> BufferRef {
    BufferRef { space: BufferSpace::Own, offset: offset as u64 }
}
