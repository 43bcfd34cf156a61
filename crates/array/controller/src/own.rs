//! The controller's own memory: images of what it writes to metadata areas. No byte of the host is in it.
//!
//! ```text
//! | state image 16 KiB | bitmap image 4 KiB | label of NVRAM | page of written regions | header places | tag places |
//! ```
//! An image does not change while it is being written. `checksums.rs` says what tag places are; an array that keeps
//! nothing else has only them.
//!
//! Worlds read and write it past any cache, so it begins on a multiple of [`ALIGNMENT_BYTES`], as do all places in it that
//! I/O names, and stays where it is.

use crate::api::{BufferRef, BufferSpace};
use raidlab_format::{BITMAP_BYTES, NVRAM_RING_AT, STATE_BYTES, WRITTEN_PAGE_BYTES};

/// What it begins on a multiple of.
pub(crate) const ALIGNMENT_BYTES: usize = 4096;

/// Where the image of the state begins.
pub(crate) const STATE_AT: usize = 0;
/// Where the image of the bitmap begins.
pub(crate) const BITMAP_AT: usize = STATE_AT + STATE_BYTES;
/// Where the label of NVRAM begins.
pub(crate) const NVRAM_LABEL_AT: usize = BITMAP_AT + BITMAP_BYTES;
/// Where the image of a page of written regions begins.
pub(crate) const WRITTEN_AT: usize = NVRAM_LABEL_AT + NVRAM_RING_AT;
const HEADERS_AT: usize = WRITTEN_AT + WRITTEN_PAGE_BYTES;

/// Log records that may be on their way to the log at once.
const HEADER_PLACES: u32 = 32;

/// The controller's own memory.
#[derive(Debug, Default)]
pub(crate) struct OwnMemory {
    /// Its bytes, with some before them so that they begin on a whole unit. It never grows.
    memory: Vec<u8>,
    /// Bytes before it.
    before: usize,
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
            return Self::of_bytes(tag_bytes);
        }
        let places = if header_bytes == 0 { 0 } else { HEADER_PLACES };
        let tags_at = HEADERS_AT + header_bytes * places as usize;
        let free_headers = (0..places).rev().collect();
        Self { tags_at, header_bytes, free_headers, ..Self::of_bytes(tags_at + tag_bytes) }
    }

    fn of_bytes(bytes: usize) -> Self {
        let memory = vec![0; if bytes == 0 { 0 } else { bytes + ALIGNMENT_BYTES }];
        let before = if bytes == 0 { 0 } else { memory.as_ptr().align_offset(ALIGNMENT_BYTES) };
        let mut own = Self { memory, before, ..Self::default() };
        own.memory.truncate(before + bytes);
        own
    }

    /// All of it.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.before..]
    }

    /// All of it, for writing.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.before..]
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
        &mut self.bytes_mut()[start..start + length]
    }

    /// Copies the first `length` bytes of a header's place to byte `at` of another.
    pub(crate) fn copy_header(&mut self, place: u32, length: usize, (to, at): (u32, usize)) {
        let [from, to] = [place, to].map(|place| HEADERS_AT + place as usize * self.header_bytes);
        self.bytes_mut().copy_within(from..from + length, to + at);
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
