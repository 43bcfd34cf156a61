//! Requests that begin or end within a block. A read takes the covering blocks and sends a part of them. For a *ragged*
//! (unaligned) write the blocks at its edges are read, completed, and written whole.
//!
//! ```text
//!               block 7      block 8      block 9
//! payload            ▒▒▒▒▒▒|▒▒▒▒▒▒▒▒▒▒▒▒|▒▒▒▒
//! 1. read       ######                       ########     into a scratch buffer, then beside the payload
//! 2. write      ######▒▒▒▒▒▒|▒▒▒▒▒▒▒▒▒▒▒▒|▒▒▒▒########
//! ```
//! Between 1 and 2 no other write may touch these blocks, or its bytes would be undone. So if two writes share a block
//! and one of them is ragged, the later waits until the earlier has ended, even of another client. A write waits only
//! for writes that are there when it comes, so none starves. It takes its place only when its whole payload has
//! arrived, so others wait for the array alone, never for a client.
//!
//! The cost: an aligned write needs one comparison while no ragged write is under way; a ragged one, and those at the
//! same time, walk over the buffers when they come and when they end.
//!
//! Invariants: `ragged` counts the ragged writes that wait, are being completed or written; a write waits exactly while
//! its `blocked_by` is not 0 or its edges are being read.

use crate::common::{Common, Work};
use raidlab_controller::{HostOp, HostRequest, HostTag};
use raidlab_nbd::{Op, Piece};
use raidlab_runtime::HostBuffers;
use raidlab_units::{BlockCount, BlockSize, Lba};
use std::collections::VecDeque;
use std::ops::Range;

/// Ragged writes whose edges are read at once; further ones wait.
pub(crate) const SCRATCH_BUFFERS: u32 = 16;

/// Which of a write's edges a read brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Both, because they are one block or neighbours.
    All,
    First,
    Last,
}

/// A ragged write whose edges are being read.
#[derive(Clone, Copy, Debug)]
struct Fill {
    tag: HostTag,
    part: Part,
}

/// The order of writes that share blocks, and the edges that are being read.
#[derive(Debug)]
pub(crate) struct Edges {
    block_bytes: u64,
    ragged: u32,
    /// Of each buffer: how many earlier writes its write waits for.
    blocked_by: Vec<u32>,
    /// Writes that wait for others, in their order.
    waiting: Vec<HostTag>,
    /// Ragged writes whose turn it is and that wait for a scratch buffer.
    due: VecDeque<HostTag>,
    /// Of each scratch buffer: what it is used for.
    fills: Vec<Option<Fill>>,
    /// Scratch buffers whose read has ended, and whether it went well.
    ended: VecDeque<(usize, bool)>,
    /// The bytes between a scratch buffer and the one that they are for.
    patch: Vec<u8>,
}

impl Edges {
    /// For `buffers` buffers, behind which the scratch buffers are, and blocks of `block_size`.
    pub(crate) fn new(buffers: u32, block_size: BlockSize) -> Self {
        Self {
            block_bytes: block_size.bytes(),
            ragged: 0,
            blocked_by: vec![0; buffers as usize],
            waiting: Vec::with_capacity(buffers as usize),
            due: VecDeque::with_capacity(buffers as usize),
            fills: vec![None; SCRATCH_BUFFERS as usize],
            ended: VecDeque::with_capacity(SCRATCH_BUFFERS as usize),
            patch: Vec::with_capacity(2 * block_size.bytes() as usize),
        }
    }

    /// Length of a block in bytes.
    pub(crate) const fn block_bytes(&self) -> usize {
        self.block_bytes as usize
    }

    /// Bytes between the beginning of the first block and the piece.
    pub(crate) const fn skip(&self, piece: &Piece) -> usize {
        (piece.offset & (self.block_bytes - 1)) as usize
    }

    const fn is_whole(&self, piece: &Piece) -> bool {
        (piece.offset | piece.length as u64) & (self.block_bytes - 1) == 0
    }

    /// The blocks that a piece touches.
    const fn blocks(&self, piece: &Piece) -> Range<u64> {
        let end = piece.offset + piece.length as u64;
        piece.offset / self.block_bytes..end.div_ceil(self.block_bytes)
    }

    /// Whether one of two writes has to wait for the other.
    fn collide(&self, one: &Piece, other: &Piece) -> bool {
        let (of_one, of_other) = (self.blocks(one), self.blocks(other));
        let overlap = of_one.start < of_other.end && of_other.start < of_one.end;
        overlap && !(self.is_whole(one) && self.is_whole(other))
    }

    /// The part of its edges that is read first.
    fn first_part(&self, piece: &Piece) -> Part {
        let blocks = self.blocks(piece);
        if blocks.end - blocks.start <= 2 {
            Part::All
        } else if self.skip(piece) > 0 {
            Part::First
        } else {
            Part::Last
        }
    }

    /// The blocks that a part is read from.
    fn blocks_of(&self, part: Part, piece: &Piece) -> Range<u64> {
        let blocks = self.blocks(piece);
        match part {
            Part::All => blocks,
            Part::First => blocks.start..blocks.start + 1,
            Part::Last => blocks.end - 1..blocks.end,
        }
    }

    /// Whether a read has ended that was not taken in.
    pub(crate) fn has_news(&self) -> bool {
        !self.ended.is_empty()
    }
}

const fn is_write(op: Op) -> bool {
    matches!(op, Op::Write { .. } | Op::WriteZeroes { .. })
}

impl Common {
    /// Has the array work on a piece whose payload, if any, is in its buffer.
    pub(crate) fn submit(&mut self, connection: u32, tag: HostTag, piece: Piece) {
        self.skips[tag.0 as usize] = self.edges.skip(&piece) as u32;
        if is_write(piece.op) && (self.edges.ragged > 0 || !self.edges.is_whole(&piece)) {
            return self.line_up(connection, tag, piece);
        }
        self.work[tag.0 as usize] = Work::Running(connection, piece);
        self.tell(tag, &piece);
    }

    /// Tells the array of a piece, in whole blocks.
    fn tell(&mut self, tag: HostTag, piece: &Piece) {
        let op = match piece.op {
            Op::Read | Op::Cache => HostOp::Read,
            Op::Write { fua } | Op::WriteZeroes { fua, .. } => HostOp::Write { fua },
            Op::Flush | Op::Trim { .. } => HostOp::Flush,
        };
        self.tell_of(tag, op, self.edges.blocks(piece));
    }

    fn tell_of(&mut self, tag: HostTag, op: HostOp, blocks: Range<u64>) {
        let count = BlockCount(blocks.end - blocks.start);
        self.ready.push_back(HostRequest { tag, op, lba: Lba(blocks.start), blocks: count });
    }

    /// Puts a write behind those that it has to wait for.
    fn line_up(&mut self, connection: u32, tag: HostTag, piece: Piece) {
        let collides = |work: &&Work| {
            matches!(work, Work::Running(_, other) | Work::Waiting(_, other)
                if is_write(other.op) && self.edges.collide(&piece, other))
        };
        let blocked_by = self.work.iter().filter(collides).count() as u32;
        self.work[tag.0 as usize] = Work::Waiting(connection, piece);
        self.edges.ragged += u32::from(!self.edges.is_whole(&piece));
        self.edges.blocked_by[tag.0 as usize] = blocked_by;
        if blocked_by == 0 {
            self.take_turn(tag);
        } else {
            self.edges.waiting.push(tag);
        }
    }

    /// Begins a write that waits for no other.
    fn take_turn(&mut self, tag: HostTag) {
        let Work::Waiting(connection, piece) = self.work[tag.0 as usize] else { unreachable!("it waited") };
        if self.edges.is_whole(&piece) {
            self.work[tag.0 as usize] = Work::Running(connection, piece);
            self.tell(tag, &piece);
        } else if let Some(scratch) = self.edges.fills.iter().position(Option::is_none) {
            self.read_edges(scratch, Fill { tag, part: self.edges.first_part(&piece) }, &piece);
        } else {
            self.edges.due.push_back(tag);
        }
    }

    fn read_edges(&mut self, scratch: usize, fill: Fill, piece: &Piece) {
        self.edges.fills[scratch] = Some(fill);
        let blocks = self.edges.blocks_of(fill.part, piece);
        self.tell_of(HostTag((self.work.len() + scratch) as u32), HostOp::Read, blocks);
    }

    /// Takes in that the array is done with a scratch buffer. Returns whether `tag` is one.
    pub(crate) fn handle_scratch_end(&mut self, tag: HostTag, went_well: bool) -> bool {
        let scratch = (tag.0 as usize).checked_sub(self.work.len());
        self.edges.ended.extend(scratch.map(|scratch| (scratch, went_well)));
        scratch.is_some()
    }

    /// Takes in that a write has ended, well or not.
    pub(crate) fn handle_write_end(&mut self, piece: &Piece) {
        if self.edges.ragged == 0 || !is_write(piece.op) {
            return;
        }
        self.edges.ragged -= u32::from(!self.edges.is_whole(piece));
        let mut waiting = std::mem::take(&mut self.edges.waiting);
        waiting.retain(|tag| {
            let Work::Waiting(_, later) = self.work[tag.0 as usize] else { unreachable!("it waits") };
            let collides = self.edges.collide(piece, &later);
            let blocked_by = &mut self.edges.blocked_by[tag.0 as usize];
            *blocked_by -= u32::from(collides);
            let waits = *blocked_by > 0;
            if !waits {
                self.take_turn(*tag);
            }
            waits
        });
        self.edges.waiting = waiting;
    }

    /// Takes in one read of edges that has ended. Returns the write that failed with it, if it did.
    pub(crate) fn take_in_edges(&mut self, buffers: &mut HostBuffers) -> Option<(HostTag, u32, Piece)> {
        let (scratch, went_well) = self.edges.ended.pop_front()?;
        let Fill { tag, part } = self.edges.fills[scratch].take().expect("it was being filled");
        let Work::Waiting(connection, piece) = self.work[tag.0 as usize] else { unreachable!("it waits") };
        if went_well {
            self.fill_up(HostTag((self.work.len() + scratch) as u32), Fill { tag, part }, &piece, buffers);
            let ends_ragged =
                !(piece.offset + u64::from(piece.length)).is_multiple_of(self.edges.block_bytes);
            if part == Part::First && ends_ragged {
                self.read_edges(scratch, Fill { tag, part: Part::Last }, &piece);
                return None;
            }
            self.work[tag.0 as usize] = Work::Running(connection, piece);
            self.tell(tag, &piece);
        }
        if let Some(next) = self.edges.due.pop_front() {
            self.take_turn(next);
        }
        (!went_well).then_some((tag, connection, piece))
    }

    /// Copies what was read to the left and to the right of the payload.
    fn fill_up(&mut self, scratch: HostTag, fill: Fill, piece: &Piece, buffers: &mut HostBuffers) {
        let block = self.edges.block_bytes as usize;
        let start = self.edges.skip(piece);
        let end = start + piece.length as usize;
        let whole = end.next_multiple_of(block);
        let last = if fill.part == Part::Last { whole - block } else { 0 };
        // Bytes of the buffer, and where the scratch buffer begins in it.
        let left = (fill.part != Part::Last).then_some((0..start, 0));
        let right = (fill.part != Part::First).then_some((end..whole, last));
        for (bytes, base) in left.into_iter().chain(right) {
            self.edges.patch.clear();
            let read = &buffers.slot(scratch)[bytes.start - base..bytes.end - base];
            self.edges.patch.extend_from_slice(read);
            buffers.slot_mut(fill.tag)[bytes].copy_from_slice(&self.edges.patch);
        }
    }
}
