//! Heads of replies: everything of a reply but its payload.
//!
//! Source: the document, "Simple reply message", "Structured reply chunk message".

use crate::op::Errno;
use crate::wire::{
    CHUNK_HEADER_BYTES, SIMPLE_REPLY_BYTES, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk,
};

/// Length of the longest head: an error with an offset.
const HEAD_BYTES_MAX: usize = CHUNK_HEADER_BYTES + 14;

/// A buffer of the world, by the world's own number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferId(pub u32);

/// The bytes that a reply begins with; none where a simple reply goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    length: u8,
}

/// The bytes of a buffer that follow the head, from its first on. When they are sent, the buffer is the world's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload {
    /// Which buffer.
    pub buffer: BufferId,
    /// How many bytes.
    pub length: u32,
}

/// What the world is to do for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a head and then the payload, if any, with nothing between.
    Reply(Head, Option<Payload>),
    /// A buffer that was kept is not needed any more.
    Free(BufferId),
}

impl Head {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Nothing: the payload goes on where the last one ended.
    pub(super) const EMPTY: Self = Self { bytes: [0; HEAD_BYTES_MAX], length: 0 };

    fn of(parts: &[&[u8]]) -> Self {
        let mut head = Self::EMPTY;
        for part in parts {
            let at = usize::from(head.length);
            head.bytes[at..at + part.len()].copy_from_slice(part);
            head.length += part.len() as u8;
        }
        head
    }

    pub(super) fn simple(cookie: u64, error: Option<Errno>) -> Self {
        let mut head = Self::EMPTY;
        head.bytes[0..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        head.bytes[4..8].copy_from_slice(&error.map_or(0, Errno::number).to_be_bytes());
        head.bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
        head.length = SIMPLE_REPLY_BYTES as u8;
        head
    }

    fn chunk(cookie: u64, kind: u16, done: bool, length: u32, parts: [&[u8]; 3]) -> Self {
        let flags = if done { chunk::FLAG_DONE } else { 0 };
        let (flags, kind) = (flags.to_be_bytes(), kind.to_be_bytes());
        let magic = STRUCTURED_REPLY_MAGIC.to_be_bytes();
        let (cookie, length) = (cookie.to_be_bytes(), length.to_be_bytes());
        Self::of(&[&magic, &flags, &kind, &cookie, &length, parts[0], parts[1], parts[2]])
    }

    /// The end of a reply that has nothing more to say.
    pub(super) fn none(cookie: u64) -> Self {
        Self::chunk(cookie, chunk::NONE, true, 0, [&[]; 3])
    }

    /// `length` bytes of the export from `offset` on; they follow.
    pub(super) fn data(cookie: u64, done: bool, offset: u64, length: u32) -> Self {
        Self::chunk(cookie, chunk::OFFSET_DATA, done, length + 8, [&offset.to_be_bytes(), &[], &[]])
    }

    /// `length` bytes of the export from `offset` on are zero.
    pub(super) fn hole(cookie: u64, done: bool, offset: u64, length: u32) -> Self {
        let parts: [&[u8]; 3] = [&offset.to_be_bytes(), &length.to_be_bytes(), &[]];
        Self::chunk(cookie, chunk::OFFSET_HOLE, done, 12, parts)
    }

    /// All of the request failed.
    pub(super) fn error(cookie: u64, errno: Errno) -> Self {
        let parts: [&[u8]; 3] = [&errno.number().to_be_bytes(), &[0; 2], &[]];
        Self::chunk(cookie, chunk::ERROR, true, 6, parts)
    }

    /// What is from `offset` on failed.
    pub(super) fn error_at(cookie: u64, done: bool, errno: Errno, offset: u64) -> Self {
        let parts: [&[u8]; 3] = [&errno.number().to_be_bytes(), &[0; 2], &offset.to_be_bytes()];
        Self::chunk(cookie, chunk::ERROR_OFFSET, done, 14, parts)
    }

    /// `length` bytes from the request's offset on have status `flags` in context `id`.
    pub(super) fn block_status(cookie: u64, id: u32, length: u32, flags: u32) -> Self {
        let parts: [&[u8]; 3] = [&id.to_be_bytes(), &length.to_be_bytes(), &flags.to_be_bytes()];
        Self::chunk(cookie, chunk::BLOCK_STATUS, true, 12, parts)
    }
}
