//! What a write operation writes: pieces of data in windows, and the runs that members and records see of them.

use super::op::StripeOp;
use super::plan::Plan;
use super::windows::Failed;
use crate::api::{BufferRef, HostTag, Segment};
use crate::geometry::Geometry;
use crate::ids::SlotIndex;
use crate::metadata::Metadata;
use crate::request::{Fragment, Rows};
use crate::table::NIL;
use raidlab_format::LogRun;

/// A contiguous run of new data within a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) strip: u16,
    pub(crate) rows: Rows,
    pub(crate) source: BufferRef,
}

/// What only writes have.
#[derive(Debug, Default)]
pub(super) struct Writing {
    pub(super) fua: bool,
    /// Sorted by strip, then row; they don't overlap.
    pub(super) pieces: Vec<Piece>,
    /// Pieces for the windows after this one, likewise.
    pub(super) rest: Vec<Piece>,
    /// What could not be stored.
    pub(super) failed: Failed,
    /// Host requests to tell, one entry per fragment written through.
    pub(super) told: Vec<HostTag>,
    /// Cache slots being destaged.
    pub(super) slots: Vec<SlotIndex>,
    destage: DestageVolume,
    /// The data strip in whose staging place parity is left as it is without the strip that is written.
    pub(super) partial_parity: Option<u16>,
}

impl Writing {
    pub(super) fn begin(&mut self) {
        (self.fua, self.partial_parity) = (false, None);
        self.failed.clear();
        self.pieces.clear();
        self.rest.clear();
        self.told.clear();
        self.slots.clear();
    }
}

/// What a destage counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DestageVolume {
    /// Member writes.
    pub(crate) writes: u32,
    /// The bytes of these, if it writes a part of a stripe.
    pub(crate) partial_bytes: u64,
}

impl StripeOp {
    /// Adds a fragment of a host write, whose request is told.
    pub(crate) fn add_fragment(&mut self, fragment: &Fragment, fua: bool) {
        let Fragment { strip, rows, request, .. } = *fragment;
        self.writing.pieces.push(Piece { strip, rows, source: fragment.host_buffer() });
        self.writing.told.push(request);
        self.writing.fua |= fua;
    }

    /// Brings its pieces in order.
    pub(crate) fn sort_pieces(&mut self) {
        self.writing.pieces.sort_unstable_by_key(|piece| (piece.strip, piece.rows.first));
    }

    /// Adds a dirty cache slot and its pieces.
    pub(crate) fn add_slot(&mut self, slot: SlotIndex, fua: bool, pieces: impl Iterator<Item = Piece>) {
        self.writing.slots.push(slot);
        self.writing.pieces.extend(pieces);
        self.writing.fua |= fua;
    }

    /// Counts what the slots that it has are written with, when all are there.
    pub(crate) fn count_destage(&mut self, geometry: &Geometry) -> DestageVolume {
        let writes = self.writes_of_pieces(geometry);
        self.writing.destage =
            DestageVolume { writes, partial_bytes: self.partial_bytes_of_pieces(geometry) };
        self.writing.destage
    }

    /// What was counted.
    pub(crate) const fn destage(&self) -> DestageVolume {
        self.writing.destage
    }

    /// Notes that nothing of all windows counts as stored.
    pub(crate) const fn fail_all(&mut self) {
        self.writing.failed.take_all();
    }

    /// True if it writes all rows of its stripe.
    pub(crate) fn is_whole(&self, geometry: &Geometry) -> bool {
        self.rows_of_pieces() == geometry.data_strips() as u32 * geometry.strip_rows()
    }

    /// Rows of all pieces together.
    fn rows_of_pieces(&self) -> u32 {
        self.writing.pieces.iter().map(|piece| piece.rows.count).sum()
    }

    /// True if nothing of what was there stays in the rows that it writes, of data or of parity.
    pub(crate) fn replaces_rows(&self, geometry: &Geometry) -> bool {
        self.plan.computes_parity()
            && self.rows_of_pieces() == geometry.data_strips() as u32 * self.hull.count
    }

    /// Member writes that the pieces take when all members are present, parity among them.
    fn writes_of_pieces(&mut self, geometry: &Geometry) -> u32 {
        self.sort_pieces();
        let (mut runs, mut first) = (0, 0);
        while first < self.writing.pieces.len() {
            first += self.run_of_pieces(first).0;
            runs += 1;
        }
        runs * u32::from(geometry.copies()) + geometry.parities() as u32
    }

    /// Bytes that members are to write for the pieces and their parity, if parity is to be changed by less than a whole stripe;
    /// else 0.
    fn partial_bytes_of_pieces(&self, geometry: &Geometry) -> u64 {
        let data = u64::from(self.rows_of_pieces());
        let hull = self.writing.pieces.iter().fold(Rows::NONE, |hull, piece| hull.hull(piece.rows));
        if geometry.parities() == 0 || data == u64::from(hull.count) * geometry.data_strips() as u64 {
            return 0;
        }
        let rows = data * u64::from(geometry.copies()) + u64::from(hull.count) * geometry.parities() as u64;
        rows * geometry.block_bytes()
    }

    /// Counts the pieces from `first` on that lie next to each other in one strip, and their rows together.
    pub(crate) fn run_of_pieces(&self, first: usize) -> (usize, Rows) {
        let pieces = &self.writing.pieces[first..];
        let mut rows = pieces[0].rows;
        let mut count = 1;
        while let Some(next) = pieces.get(count) {
            if next.strip != pieces[0].strip || next.rows.first != rows.end() {
                break;
            }
            rows.count += next.rows.count;
            count += 1;
        }
        (count, rows)
    }

    /// Calls `each` with unit, rows and pieces (none for parity) of every run that it writes, parity behind data. Runs for
    /// devices that are gone are among them: what a record of it holds must not change while that is made.
    fn for_each_run(&self, geometry: &Geometry, mut each: impl FnMut(u16, Rows, &[Piece])) {
        let mut first = 0;
        while first < self.writing.pieces.len() {
            let (count, rows) = self.run_of_pieces(first);
            each(self.writing.pieces[first].strip, rows, &self.writing.pieces[first..first + count]);
            first += count;
        }
        for unit in geometry.data_strips()..self.units.len() {
            if self.units[unit].staging != NIL {
                each(unit as u16, self.hull, &[]);
            }
        }
    }

    /// Lists the runs that it writes, and returns their rows. Clears `out` first.
    pub(crate) fn list_runs(&self, geometry: &Geometry, out: &mut Vec<LogRun>) -> u32 {
        out.clear();
        self.for_each_run(geometry, |unit, rows, _| {
            out.push(LogRun { unit, first_row: rows.first, rows: rows.count });
        });
        out.iter().map(|run| run.rows).sum()
    }

    /// True if all units have a device, also for a start that is made now: a rebuild is ahead of what that finds.
    pub(crate) fn has_all_devices(&self, metadata: &Metadata) -> bool {
        self.places.iter().all(|place| metadata.is_found_in_sync(place.member))
    }

    /// Has the parity work leave partial parity if that is wanted, where the operation writes one run of one strip and the only parity,
    /// and has read what that takes. Nothing else needs what is read for it. An operation may be planned again: each time this is
    /// to be decided anew.
    pub(crate) fn choose_partial_parity(&mut self, is_wanted: bool, geometry: &Geometry) {
        self.writing.partial_parity = if is_wanted { self.partial_parity_unit(geometry) } else { None };
    }

    fn partial_parity_unit(&self, geometry: &Geometry) -> Option<u16> {
        if geometry.parities() != 1 || self.run_of_pieces(0) != (self.writing.pieces.len(), self.hull) {
            return None;
        }
        let strip = self.writing.pieces[0].strip;
        let mut others = (0..geometry.data_strips() as u16).filter(|&unit| unit != strip);
        let is_read = |unit: u16| self.units[usize::from(unit)].read == self.hull;
        match self.plan {
            Plan::ReadModifyWrite => Some(strip).filter(|&unit| is_read(unit)),
            Plan::ReconstructWrite if others.clone().all(is_read) => others.next(),
            _ => None,
        }
    }

    /// The strip that it writes, where it leaves partial parity.
    pub(crate) fn partial_parity_of(&self) -> Option<u16> {
        self.writing.partial_parity.map(|_| self.writing.pieces[0].strip)
    }

    /// Where the partial parity lies that it leaves.
    pub(crate) fn partial_parity_segment(&self, geometry: &Geometry) -> Segment {
        let unit = self.writing.partial_parity.expect("it was asked to leave it");
        let buffer = self.staged(geometry, unit, self.hull.first);
        Segment { buffer, bytes: u64::from(self.hull.count) * geometry.block_bytes() }
    }

    /// Calls `each` with where the bytes of its runs lie, in order.
    pub(crate) fn for_each_segment(&self, geometry: &Geometry, mut each: impl FnMut(Segment)) {
        let bytes = |rows: Rows| u64::from(rows.count) * geometry.block_bytes();
        self.for_each_run(geometry, |unit, rows, pieces| {
            for piece in pieces {
                each(Segment { buffer: piece.source, bytes: bytes(piece.rows) });
            }
            if pieces.is_empty() {
                each(Segment { buffer: self.staged(geometry, unit, rows.first), bytes: bytes(rows) });
            }
        });
    }
}
