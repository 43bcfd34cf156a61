//! What all connections share: the exports, the buffers with their uses, and the requests to the array.
//!
//! Invariant: a buffer is free, held by one connection, or in use by its piece; it is returned once.

use crate::edges::Edges;
use crate::seats::Seats;
use crate::share::Share;
use raidlab_controller::{HostRequest, HostTag};
use raidlab_nbd::{Exports, Piece, ServerLimits};
use raidlab_runtime::HostBuffers;
use std::collections::VecDeque;

/// What a buffer is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Nothing.
    Free,
    /// This connection holds it.
    Held(u32),
    /// The array works on this piece of this connection.
    Running(u32, Piece),
    /// This write of this connection waits for others, or for what stands at its edges.
    Waiting(u32, Piece),
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) exports: Exports,
    pub(crate) limits: ServerLimits,
    pub(crate) seats: Seats,
    pub(crate) share: Share,
    /// What each host buffer is used for.
    pub(crate) work: Vec<Work>,
    /// Where in each buffer the bytes of its piece begin.
    pub(crate) skips: Vec<u32>,
    /// How many bytes at the front of each buffer are known to be zeros.
    pub(crate) zeroed: Vec<usize>,
    pub(crate) edges: Edges,
    /// Requests that the array is to be told.
    pub(crate) ready: VecDeque<HostRequest>,
    /// A buffer became free since the last look.
    pub(crate) freed: bool,
}

impl Common {
    /// Takes a buffer for a connection, if it may have one.
    pub(crate) fn take(&mut self, connection: u32) -> Option<HostTag> {
        let tag = self.share.take(connection)?;
        self.work[tag.0 as usize] = Work::Held(connection);
        Some(tag)
    }

    /// Makes the bytes of a piece zeros. A buffer that only zeros went through is made so once.
    pub(crate) fn fill_with_zeros(&mut self, tag: HostTag, piece: &Piece, buffers: &mut HostBuffers) {
        let (skip, known) = (self.edges.skip(piece), self.zeroed[tag.0 as usize]);
        let end = skip + piece.length as usize;
        buffers.slot_mut(tag)[known.clamp(skip, end)..end].fill(0);
        // What is at the edges of a ragged one will come between.
        let whole = skip == 0 && end.is_multiple_of(self.edges.block_bytes());
        self.zeroed[tag.0 as usize] = if whole { known.max(end) } else { 0 };
    }

    /// Gives a buffer back.
    pub(crate) fn give_back(&mut self, connection: u32, tag: HostTag) {
        self.work[tag.0 as usize] = Work::Free;
        self.share.give_back(connection, tag);
        self.freed = true;
    }
}
