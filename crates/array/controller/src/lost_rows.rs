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

use crate::controller::Controller;
use crate::plan::{self, BeyondRedundancy, Cover, Plan};
use crate::request::Rows;
use crate::stripe_op::{OpKind, Piece};
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

impl Controller {
    /// Plans the window of a write.
    pub(crate) fn write_plan(&self, id: u32) -> Result<Plan, BeyondRedundancy> {
        let op = &self.ops[id];
        if self.geometry.parities() > 0 && self.metadata.is_out_of_sync(op.key) {
            let cover = Cover { hull_rows: op.hull.count, strip_rows: self.geometry.strip_rows() };
            return plan::choose_unsynced(&op.views, self.geometry.parities(), cover);
        }
        plan::choose(&op.views, self.geometry.parities(), self.config.cache.rules.parity_update).or_else(
            |error| {
                if op.hull.count == 1 && self.may_abandon(id) { Ok(Plan::Abandon) } else { Err(error) }
            },
        )
    }

    /// True if what a window of one row writes has devices to hold it, and what it does not write is lost already.
    fn may_abandon(&self, id: u32) -> bool {
        let op = &self.ops[id];
        let held = op.views.iter().all(|view| view.touched.is_empty() || view.stored);
        let missing = op.views.iter().filter(|view| !view.stored).count();
        let lost = self.metadata.stripe_touches_lost(&self.geometry, op.stripe);
        held && missing <= self.geometry.parities() && !lost
    }

    /// Leaves only the first row of the hull in the window of a write that can't be planned because of bad blocks. Returns
    /// false where that can't help.
    pub(crate) fn narrow_window(&mut self, id: u32) -> bool {
        let op = &self.ops[id];
        let bad = op.views.iter().any(|view| view.stored && !view.readable);
        if op.kind != OpKind::Write || op.hull.count < 2 || !bad || self.metadata.is_out_of_sync(op.key) {
            return false;
        }
        let block_bytes = self.geometry.block_bytes();
        let op = &mut self.ops[id];
        let end = op.hull.first + 1;
        let (pieces, rest) = (&mut op.pieces, &mut op.rest);
        assert!(rest.is_empty(), "a window that was narrowed is one row");
        let rest_of = |piece: &Piece| {
            let first = piece.rows.first.max(end);
            let skipped = u64::from(first - piece.rows.first) * block_bytes;
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
        op.unreadable.clear();
        true
    }

    /// Gives the window of a write up and goes on with the next. Returns false if there is none.
    pub(crate) fn skip_window(&mut self, id: u32) -> bool {
        if self.ops[id].kind != OpKind::Write {
            return false;
        }
        self.note_failed(id);
        self.next_window(id)
    }

    /// Puts the rest of a write in its window. Returns false if there is none.
    pub(crate) fn next_window(&mut self, id: u32) -> bool {
        let op = &mut self.ops[id];
        if op.rest.is_empty() {
            return false;
        }
        op.pieces.clear();
        core::mem::swap(&mut op.pieces, &mut op.rest);
        op.unreadable.clear();
        true
    }

    /// Notes that nothing of the window was stored.
    pub(crate) fn note_failed(&mut self, id: u32) {
        for piece in 0..self.ops[id].pieces.len() {
            let Piece { strip, rows, .. } = self.ops[id].pieces[piece];
            self.note_rows_failed(id, strip, rows);
        }
    }

    /// Notes that nothing of all windows counts as stored.
    pub(crate) fn note_all_failed(&mut self, id: u32) {
        self.ops[id].failed.all = true;
    }

    fn note_rows_failed(&mut self, id: u32, strip: u16, rows: Rows) {
        let lba = self.geometry.strip_lba(self.ops[id].stripe, strip, rows.first);
        self.ops[id].failed.ranges.push((lba, BlockCount(u64::from(rows.count))));
    }

    /// Makes parity that no longer agrees with the data bad blocks, before the data is written.
    pub(crate) fn give_parity_up(&mut self, id: u32) {
        if self.ops[id].plan == Plan::Abandon {
            let (key, hull) = (self.ops[id].key, self.ops[id].hull);
            self.metadata.spoil_parity(&self.geometry, key, hull, &mut self.outbox);
        }
    }

    /// Takes in that the writes of a window have ended. Returns true if all can be read back.
    pub(crate) fn window_written(&mut self, id: u32) -> bool {
        let op = &self.ops[id];
        let key = op.key;
        if op.plan == Plan::ReconstructWrite && op.hull.count == self.geometry.strip_rows() {
            self.stripe_synced(key);
        }
        if self.metadata.is_unharmed() {
            return true;
        }
        let mut stored = true;
        for index in 0..self.ops[id].pieces.len() {
            let Piece { strip, rows, .. } = self.ops[id].pieces[index];
            let stripe = self.ops[id].stripe;
            if self.metadata.is_stored(&self.geometry, (stripe, strip), rows) {
                continue;
            }
            stored = false;
            for row in (rows.first..rows.end()).map(|row| Rows::between(row, row + 1)) {
                if !self.metadata.is_stored(&self.geometry, (stripe, strip), row) {
                    self.note_rows_failed(id, strip, row);
                }
            }
        }
        stored
    }
}
