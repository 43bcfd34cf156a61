//! Bytes received but not yet parsed: a buffer filled at its end and emptied from its front.
//!
//! Invariant: bytes move only when room is requested, so a receive in flight keeps its place.

use raidlab_nbd::MESSAGE_BYTES_MAX;

/// Length of an inbox: many requests, or some short writes.
const INBOX_BYTES: usize = 128 << 10;
const _: () =
    assert!(INBOX_BYTES > 2 * MESSAGE_BYTES_MAX, "the longest message fits, and a TLS record beside it");

/// The bytes, oldest first.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; INBOX_BYTES].into_boxed_slice(), start: 0, end: 0 }
    }

    /// What came and is not taken.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Takes `bytes` off the front.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.start += bytes;
        assert!(self.start <= self.end, "more was taken than came");
    }

    /// Where more can be put; what is there may move to the front for it.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.start > 0 && self.bytes.len() - self.end < MESSAGE_BYTES_MAX {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.bytes[self.end..]
    }

    /// Counts `bytes` that were put into the room.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.bytes.len(), "more came than there was room for");
    }
}
