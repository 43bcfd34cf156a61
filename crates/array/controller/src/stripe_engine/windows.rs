//! Writes where redundancy is lost in some rows, and what counts as stored there.
//!
//! Bad blocks seldom lie in the same rows of two units, but a write is planned for all rows of its hull together. When they
//! are in its way it is carried out in *windows*: the first row of the hull, then the rest, which may be narrowed again.
//! ```text
//!          D0    D1    D2    P
//! row 0    new   bad   .     .      a window: D1 is recovered, all is written
//! row 1    new   bad   bad   .      a window: D1 and D2 are lost; D0 is written, P is given up
//! row 2    new   .     .     .      the rest
//! ```
//! In a row where more is lost than redundancy brings back, new data still goes to the device that should hold it. Parity
//! of the row then agrees with nothing: it becomes a bad block before the data is written, so that nothing is derived from
//! it. When the last lost strip of the row has been written again, parity is computed anew.
//!
//! An operation may carry what many requests and cache slots want written. What could not be stored is told row by row: the
//! others have what they asked for.

use super::Surroundings;
use super::op::StripeOp;
use super::plan::{self, BeyondRedundancy, Cover, Plan};
use super::writing::Piece;
use crate::geometry::Geometry;
use crate::metadata::Metadata;
use crate::request::Rows;
use crate::rules::ParityUpdate;
use raidlab_units::{BlockCount, Lba};

/// Blocks that an operation was to write and that can't be read back.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    ranges: Vec<(Lba, BlockCount)>,
    /// All that it was to write is among them.
    all: bool,
}

impl Failed {
    pub(crate) fn clear(&mut self) {
        self.ranges.clear();
        self.all = false;
    }

    /// Notes that nothing of all windows counts as stored.
    pub(crate) const fn take_all(&mut self) {
        self.all = true;
    }

    /// True when all was stored.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.ranges.is_empty() && !self.all
    }

    /// The first of so many blocks from `lba` on, all of them the operation's, that was not stored.
    pub(crate) fn first_in(&self, lba: Lba, blocks: BlockCount) -> Option<Lba> {
        if self.all {
            return (blocks > BlockCount::ZERO).then_some(lba);
        }
        let end = lba + blocks;
        let overlap = |&(first, count): &(Lba, BlockCount)| {
            let both = first.max(lba);
            (both < end.min(first + count)).then_some(both)
        };
        self.ranges.iter().filter_map(overlap).min()
    }
}

impl StripeOp {
    /// Plans the window of a write.
    pub(super) fn write_plan(
        &self,
        around: Surroundings<'_>,
        update: ParityUpdate,
    ) -> Result<Plan, BeyondRedundancy> {
        let Surroundings { geometry, metadata, .. } = around;
        if geometry.parities() > 0 && metadata.is_out_of_sync(self.key) {
            let cover = Cover { hull_rows: self.hull.count, strip_rows: geometry.strip_rows() };
            return plan::choose_out_of_sync(&self.views, geometry.parities(), cover);
        }
        let chosen = plan::choose(&self.views, geometry.parities(), update);
        chosen.or_else(|error| {
            if self.hull.count == 1 && self.may_abandon(around) { Ok(Plan::Abandon) } else { Err(error) }
        })
    }

    /// True if what a window of one row writes has devices to hold it, and what it does not write is lost already.
    fn may_abandon(&self, Surroundings { geometry, metadata, .. }: Surroundings<'_>) -> bool {
        let held = self.views.iter().all(|view| view.touched.is_empty() || view.stored);
        let missing = self.views.iter().filter(|view| !view.stored).count();
        let lost = metadata.stripe_touches_lost(geometry, self.stripe);
        held && missing <= geometry.parities() && !lost
    }

    /// Leaves only the first row of the hull in the window of a write that can't be planned because of bad blocks. Returns
    /// false where that can't help.
    pub(super) fn narrow_window(
        &mut self,
        Surroundings { geometry, metadata, .. }: Surroundings<'_>,
    ) -> bool {
        let bad = self.views.iter().any(|view| view.stored && !view.readable);
        let may_help = self.is_write() && self.hull.count > 1 && bad;
        if !may_help || metadata.is_out_of_sync(self.key) {
            return false;
        }
        let end = self.hull.first + 1;
        let (pieces, rest) = (&mut self.writing.pieces, &mut self.writing.rest);
        assert!(rest.is_empty(), "a window that was narrowed is one row");
        let rest_of = |piece: &Piece| {
            let first = piece.rows.first.max(end);
            let skipped = u64::from(first - piece.rows.first) * geometry.block_bytes();
            let mut source = piece.source;
            source.offset += skipped;
            Piece { rows: Rows::between(first, piece.rows.end()), source, ..*piece }
        };
        rest.extend(pieces.iter().filter(|piece| piece.rows.end() > end).map(rest_of));
        pieces.retain(|piece| piece.rows.first < end);
        for piece in pieces {
            piece.rows = Rows::between(piece.rows.first, piece.rows.end().min(end));
        }
        // A read that failed was of more rows; which of them are bad is found out row by row.
        self.unreadable.clear();
        self.dares = false;
        true
    }

    /// Gives the window of a write up and goes on with the next. Returns false if there is none.
    pub(super) fn skip_window(&mut self, geometry: &Geometry) -> bool {
        if !self.is_write() {
            return false;
        }
        self.note_failed(geometry);
        self.next_window()
    }

    /// Puts the rest of a write in its window. Returns false if there is none.
    pub(crate) fn next_window(&mut self) -> bool {
        if self.writing.rest.is_empty() {
            return false;
        }
        self.writing.pieces.clear();
        core::mem::swap(&mut self.writing.pieces, &mut self.writing.rest);
        self.unreadable.clear();
        self.dares = false;
        true
    }

    /// Notes that nothing of this window and the next was stored.
    pub(crate) fn give_up(&mut self, geometry: &Geometry) {
        self.note_failed(geometry);
        if self.next_window() {
            self.note_failed(geometry);
        }
    }

    /// Notes that nothing of the window was stored.
    fn note_failed(&mut self, geometry: &Geometry) {
        for piece in 0..self.writing.pieces.len() {
            let Piece { strip, rows, .. } = self.writing.pieces[piece];
            self.note_rows_failed(geometry, strip, rows);
        }
    }

    fn note_rows_failed(&mut self, geometry: &Geometry, strip: u16, rows: Rows) {
        let lba = geometry.strip_lba(self.stripe, strip, rows.first);
        self.writing.failed.ranges.push((lba, BlockCount(u64::from(rows.count))));
    }

    /// True if the window was the whole stripe, and its parity computed from that: it agrees now.
    pub(crate) fn makes_agree(&self, geometry: &Geometry) -> bool {
        self.plan == Plan::ReconstructWrite && self.hull.count == geometry.strip_rows()
    }

    /// Notes what of a window that was written can't be read back. Returns true if all can.
    pub(crate) fn note_unstored(&mut self, geometry: &Geometry, metadata: &Metadata) -> bool {
        if metadata.is_unharmed() {
            return true;
        }
        let mut stored = true;
        for index in 0..self.writing.pieces.len() {
            let Piece { strip, rows, .. } = self.writing.pieces[index];
            if metadata.is_stored(geometry, (self.stripe, strip), rows) {
                continue;
            }
            stored = false;
            for row in (rows.first..rows.end()).map(|row| Rows::between(row, row + 1)) {
                if !metadata.is_stored(geometry, (self.stripe, strip), row) {
                    self.note_rows_failed(geometry, strip, row);
                }
            }
        }
        stored
    }
}
