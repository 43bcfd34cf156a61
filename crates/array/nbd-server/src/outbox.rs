//! What is being sent to a client: many replies in one entry, heads and buffers alternating.
//!
//! ```text
//! pieces  | head head head | buffer 7 | head | buffer 2 | ...      heads that follow each other are one piece
//! ```
//! Invariant: nothing is added while an entry is in flight, so the pieces stay in place; a buffer is returned when all
//! of it is sent.

use crate::entries::send;
use raidlab_controller::HostTag;
use raidlab_device::ring::{IoVec, MessageHeader};
use raidlab_nbd::Head;
use raidlab_runtime::{PortRing, RingError};
use raidlab_units::Nanos;
use std::os::fd::BorrowedFd;

/// Replies in one entry.
const REPLIES_MAX: usize = 128;
/// Bytes of heads in one entry.
const HEAD_BYTES_MAX: usize = REPLIES_MAX * 40;

/// A batch of replies.
#[derive(Debug)]
pub(crate) struct Outbox {
    heads: Box<[u8; HEAD_BYTES_MAX]>,
    head_bytes: usize,
    /// Replies of a handshake, which have no bound that would fit above.
    words: Vec<u8>,
    pieces: Vec<IoVec>,
    /// The buffer of each piece, if it is one.
    buffers: Vec<Option<HostTag>>,
    /// Pieces that are sent.
    sent: usize,
    replies: usize,
    header: Box<MessageHeader>,
    in_flight: bool,
    /// When the client took bytes last, or the batch began.
    pub(crate) moved_at: Nanos,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            heads: Box::new([0; HEAD_BYTES_MAX]),
            head_bytes: 0,
            words: Vec::new(),
            pieces: Vec::with_capacity(2 * REPLIES_MAX),
            buffers: Vec::with_capacity(2 * REPLIES_MAX),
            sent: 0,
            replies: 0,
            header: Box::new(MessageHeader::of(&[])),
            in_flight: false,
            moved_at: Nanos::ZERO,
        }
    }

    /// Whether there is nothing to send and nothing being sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Whether an entry is in flight.
    pub(crate) const fn in_flight(&self) -> bool {
        self.in_flight
    }

    /// Whether a reply may be added.
    pub(crate) const fn has_room(&self) -> bool {
        !self.in_flight && self.sent == 0 && self.replies < REPLIES_MAX
    }

    /// Where a handshake appends its replies, while nothing is being sent (asserted).
    pub(crate) fn words(&mut self) -> &mut Vec<u8> {
        assert!(self.pieces.is_empty(), "words can't move while they are sent");
        &mut self.words
    }

    /// Adds a reply and bytes of its buffer. There must be room (asserted).
    pub(crate) fn push(&mut self, head: &Head, payload: Option<(HostTag, &[u8])>) {
        assert!(self.has_room(), "a batch on its way takes nothing more");
        let bytes = head.as_bytes();
        if !bytes.is_empty() {
            let end = self.head_bytes + bytes.len();
            self.heads[self.head_bytes..end].copy_from_slice(bytes);
            let piece = IoVec::of(&self.heads[self.head_bytes..end]);
            self.head_bytes = end;
            let follows = self.buffers.last() == Some(&None);
            if !(follows && self.pieces.last_mut().is_some_and(|last| last.join(piece))) {
                self.pieces.push(piece);
                self.buffers.push(None);
            }
        }
        if let Some((tag, bytes)) = payload {
            self.pieces.push(IoVec::of(bytes));
            self.buffers.push(Some(tag));
        }
        self.replies += 1;
    }

    /// Sends what is there and not on its way.
    pub(crate) fn flush(
        &mut self,
        ring: &mut PortRing<'_>,
        user: u64,
        socket: BorrowedFd<'_>,
        now: Nanos,
    ) -> Result<(), RingError> {
        if self.in_flight {
            return Ok(());
        }
        if self.pieces.is_empty() {
            if self.words.is_empty() {
                return Ok(());
            }
            self.pieces.push(IoVec::of(&self.words));
            self.buffers.push(None);
        }
        if self.sent == 0 {
            self.moved_at = now;
        }
        self.in_flight = true;
        send(ring, user, socket, &mut self.header, &self.pieces[self.sent..])
    }

    /// Takes in that the entry ended after `bytes`. Buffers of which all is sent go to `done`.
    pub(crate) fn handle_sent(&mut self, now: Nanos, mut bytes: usize, mut done: impl FnMut(HostTag)) {
        self.in_flight = false;
        self.moved_at = now;
        while let Some(piece) = self.pieces.get_mut(self.sent) {
            if bytes < piece.bytes {
                return piece.skip(bytes);
            }
            bytes -= piece.bytes;
            if let Some(buffer) = self.buffers[self.sent].take() {
                done(buffer);
            }
            self.sent += 1;
        }
        self.clear();
    }

    /// Takes in that the entry failed: nothing more will be sent.
    pub(crate) fn handle_failed(&mut self) {
        self.in_flight = false;
        self.clear();
    }

    fn clear(&mut self) {
        self.pieces.clear();
        self.buffers.clear();
        self.words.clear();
        self.head_bytes = 0;
        self.sent = 0;
        self.replies = 0;
    }
}
