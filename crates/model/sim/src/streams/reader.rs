//! One reader of a file: requested pieces, arrived pieces, and when the next window is due.
//!
//! ```text
//!   file: ├ copied ┤ being copied ┤ there ┤ under way ┤ not requested
//!                  └ first piece of a window: the next window is requested
//! ```
//! Invariants: pieces are copied in order; at most two windows are requested and not copied.
//! Source: `generic_file_readahead` of Linux 2.4.

use std::collections::VecDeque;

/// A run of a file that one request brings.
#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: u32,
    is_there: bool,
    /// Whether copying it asks for the next window.
    asks: bool,
}

/// A reader at one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    pieces: VecDeque<Piece>,
    /// Number of the first piece in `pieces`, counted from the start of the file.
    first: u32,
    /// Bytes that have been asked for.
    asked: u64,
    file_bytes: u64,
    /// Whether a piece is being copied.
    is_copying: bool,
}

impl Reader {
    /// Begins a file.
    pub(super) fn begin(&mut self, file_bytes: u64) {
        debug_assert!(self.pieces.is_empty() && !self.is_copying, "one file at a time");
        *self = Self { file_bytes, pieces: core::mem::take(&mut self.pieces), ..Self::default() };
    }

    /// Bytes asked for so far, counted from the start of the file.
    pub(super) const fn asked(&self) -> u64 {
        self.asked
    }

    /// Bytes that are not asked for yet.
    pub(super) const fn left(&self) -> u64 {
        self.file_bytes - self.asked
    }

    /// Notes that the next `bytes` are asked for and returns the number of their piece.
    pub(super) fn ask(&mut self, bytes: u32, asks: bool) -> u32 {
        self.asked += u64::from(bytes);
        self.pieces.push_back(Piece { bytes, is_there: false, asks });
        self.first + self.pieces.len() as u32 - 1
    }

    /// Takes in that a piece is there.
    pub(super) fn arrive(&mut self, piece: u32) {
        self.pieces[(piece - self.first) as usize].is_there = true;
    }

    /// Begins with the next piece if it is there and nothing is being copied.
    pub(super) fn begin_copy(&mut self) -> bool {
        let begins = !self.is_copying && self.pieces.front().is_some_and(|piece| piece.is_there);
        self.is_copying |= begins;
        begins
    }

    /// Length of the piece being copied, and whether the next window is to be asked for now.
    pub(super) fn copying(&self) -> (u32, bool) {
        let piece = self.pieces.front().filter(|_| self.is_copying).expect("a piece is being copied");
        (piece.bytes, piece.asks)
    }

    /// Ends copying a piece and returns its length.
    pub(super) fn end_copy(&mut self) -> u64 {
        let piece = self.pieces.pop_front().filter(|_| self.is_copying).expect("what ends was begun");
        self.is_copying = false;
        self.first += 1;
        u64::from(piece.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_copied_in_order_and_the_first_of_a_window_asks_for_the_next() {
        let mut reader = Reader::default();
        reader.begin(300);
        let pieces: Vec<u32> =
            [(100, true), (50, false), (150, true)].map(|(bytes, first)| reader.ask(bytes, first)).to_vec();
        assert_eq!(pieces, [0, 1, 2]);
        assert_eq!((reader.asked(), reader.left()), (300, 0));
        reader.arrive(1);
        assert!(!reader.begin_copy(), "the first is not there");
        reader.arrive(0);
        assert!(reader.begin_copy());
        assert_eq!(reader.copying(), (100, true));
        assert!(!reader.begin_copy(), "one at a time");
        assert_eq!(reader.end_copy(), 100);
        assert!(reader.begin_copy());
        assert_eq!(reader.copying(), (50, false));
        assert_eq!(reader.end_copy(), 50);
        assert!(!reader.begin_copy());
        reader.arrive(2);
        assert!(reader.begin_copy());
        assert_eq!(reader.copying(), (150, true));
    }
}
