//! A stripe operation: what it is for, what it does at each unit, and how far it is.

use super::evidence::Trial;
use super::plan::{Plan, UnitView};
use super::units::UnitUse;
use super::windows::Failed;
use crate::api::{BufferRef, IoClass, MemberError, Segment};
use crate::geometry::Geometry;
use crate::member_io::OpIo;
use crate::memory_task::push_joined;
use crate::metadata::Metadata;
use crate::request::{Fragment, Rows};
use crate::table::NIL;
use crate::write_coalescing::Collecting;
use crate::write_intent::OpIntent;
use raidlab_format::LogRun;
use raidlab_raid::UnitPlace;
use raidlab_units::StripeIndex;

/// What a stripe operation is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Writes its pieces.
    #[default]
    Write,
    /// Reads one fragment that its own member can't give.
    Recover,
    /// Makes rows of one unit up from the others and writes them to the device that should hold them.
    Restore,
    /// Reads rows of one unit, to see whether they can be read.
    Probe,
    /// Compares redundancy with data, and makes it agree.
    Compare,
}

impl OpKind {
    /// Part of a visit to a stripe in the background: its target names unit and rows, and the visit as its request.
    pub(crate) const fn is_background(self) -> bool {
        matches!(self, Self::Restore | Self::Probe | Self::Compare)
    }
}

/// A contiguous run of new data within a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) strip: u16,
    pub(crate) rows: Rows,
    pub(crate) source: BufferRef,
}

/// One operation on one stripe.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what has happened to it and what has not are independent of each other"
)]
pub(crate) struct StripeOp {
    pub(crate) key: u64,
    pub(crate) stripe: StripeIndex,
    pub(crate) kind: OpKind,
    class: Option<IoClass>,
    pub(crate) fua: bool,
    /// Sorted by strip, then row; they don't overlap.
    pub(crate) pieces: Vec<Piece>,
    /// Pieces for the windows after this one, likewise.
    pub(super) rest: Vec<Piece>,
    /// What could not be stored.
    pub(crate) failed: Failed,
    /// Host requests to tell, one entry per fragment written through.
    pub(crate) told: Vec<u32>,
    /// Cache slots being destaged.
    pub(crate) slots: Vec<u32>,
    /// Member writes that a destage counts for.
    pub(crate) writes: u32,
    /// And the bytes of these, if it writes a part of a stripe.
    pub(crate) partial_bytes: u64,
    pub(super) plan: Plan,
    pub(crate) hull: Rows,
    /// Where each unit of the stripe begins.
    pub(crate) places: Vec<UnitPlace>,
    /// Data strips, then parity strips.
    pub(super) units: Vec<UnitUse>,
    pub(super) views: Vec<UnitView>,
    /// Units that failed to read although their member answers.
    pub(crate) unreadable: Vec<u16>,
    pending: u32,
    read_failed: bool,
    /// It tries what could not be read once more: it can't do without.
    pub(crate) dares: bool,
    /// Its data is being written, and its parity has yet to be.
    pub(crate) parity_is_due: bool,
    /// How far it is while it collects.
    pub(crate) collecting: Collecting,
    /// What it takes of [`crate::ArrayRules::stripe_pages_max`].
    pub(super) stripe_pages: u32,
    /// The data strip in whose staging place parity is left as it is without the strip that is written.
    pub(super) partial_parity: Option<u16>,
    /// A visit has it make checksums agree, too, so that it reads where nothing is to be compared.
    pub(crate) makes_checksums: bool,
    /// A comparison believes the data, and the first copy.
    pub(crate) trusts_data: bool,
    /// It compares with data that was made up from parity for that.
    pub(crate) has_restored: bool,
    /// What a comparison tries out.
    pub(super) trial: Trial,
    /// What write intent keeps of it.
    pub(crate) intent: OpIntent,
    /// The fragment that a recovery is for; for operations in the background, see [`OpKind::is_background`].
    pub(crate) target: Fragment,
}

impl StripeOp {
    /// Makes it a new one without pieces. What it had allocated stays.
    pub(super) fn begin(
        &mut self,
        geometry: &Geometry,
        (key, stripe): (u64, StripeIndex),
        kind: OpKind,
        class: IoClass,
    ) {
        (self.key, self.stripe, self.kind, self.class, self.fua) = (key, stripe, kind, Some(class), false);
        (self.pending, self.read_failed, self.makes_checksums, self.dares) = (0, false, false, false);
        (self.trusts_data, self.has_restored, self.trial) = (false, false, Trial::None);
        (self.intent, self.stripe_pages, self.partial_parity) = (OpIntent::default(), 0, None);
        self.collecting.begin();
        self.failed.clear();
        self.pieces.clear();
        self.rest.clear();
        self.told.clear();
        self.slots.clear();
        self.unreadable.clear();
        geometry.lock_places(key, &mut self.places);
    }

    /// One that writes the first row of the first strip of a stripe and its parity, from the first staging place.
    #[cfg(test)]
    pub(crate) fn write_a_row(&mut self, geometry: &Geometry, stripe: u64, source: BufferRef) {
        let rows = Rows::between(0, 1);
        (self.key, self.stripe, self.hull, self.plan) =
            (stripe, StripeIndex(stripe), rows, Plan::ReadModifyWrite);
        self.pieces = vec![Piece { strip: 0, rows, source }];
        self.units = vec![UnitUse::IDLE; geometry.unit_count()];
        self.units[geometry.data_strips()].staging = 0;
        geometry.lock_places(stripe, &mut self.places);
    }

    /// Makes that one write the same row of all strips.
    #[cfg(test)]
    pub(crate) fn write_whole_rows(&mut self, geometry: &Geometry) {
        let first = self.pieces[0];
        self.pieces = (0..geometry.data_strips() as u16).map(|strip| Piece { strip, ..first }).collect();
        self.plan = Plan::ReconstructWrite;
    }

    /// How urgent its I/O is.
    pub(crate) fn class(&self) -> IoClass {
        self.class.expect("set when the operation was begun")
    }

    /// Adds a fragment of a host write, whose request is told.
    pub(crate) fn add_fragment(&mut self, fragment: &Fragment, fua: bool) {
        let Fragment { strip, rows, request, .. } = *fragment;
        self.pieces.push(Piece { strip, rows, source: fragment.host_buffer() });
        self.told.push(request);
        self.fua |= fua;
    }

    /// Brings its pieces in order.
    pub(crate) fn sort_pieces(&mut self) {
        self.pieces.sort_unstable_by_key(|piece| (piece.strip, piece.rows.first));
    }

    /// True if it reads before it computes.
    pub(crate) fn reads_any(&self) -> bool {
        self.units.iter().any(|unit| !unit.read.is_empty())
    }

    /// The first unit from `from` on that it reads, with rows and place.
    pub(crate) fn next_read(&self, from: u16) -> Option<(u16, Rows, UnitPlace)> {
        let skipped = self.units.get(usize::from(from)..)?.iter().position(|unit| !unit.read.is_empty())?;
        let unit = usize::from(from) + skipped;
        Some((unit as u16, self.units[unit].read, self.places[unit]))
    }

    /// Begins to ask for I/O. The caller counts as one, so that the last that it asks for can't end before the next.
    pub(crate) const fn begin_ios(&mut self) {
        self.pending = 1;
    }

    /// Counts one more I/O.
    pub(crate) const fn count_io(&mut self) {
        self.pending += 1;
    }

    /// Takes in the end of one. Returns true if it was the last.
    pub(crate) const fn end_io(&mut self) -> bool {
        self.pending -= 1;
        self.pending == 0
    }

    /// Notes that a read failed, of a unit that is to be left alone if its device answers.
    pub(crate) fn note_read_failed(&mut self, unit: u16, error: MemberError) {
        self.read_failed = true;
        // A member that is gone is missing from now on; a bad block is held against this unit only.
        if error == MemberError::Medium {
            self.unreadable.push(unit);
        }
    }

    /// Whether a read has failed since this was asked.
    pub(crate) const fn take_read_failed(&mut self) -> bool {
        core::mem::replace(&mut self.read_failed, false)
    }

    /// Where `row` of a unit lies in the staging place for it.
    pub(crate) fn staged(&self, geometry: &Geometry, unit: u16, row: u32) -> BufferRef {
        geometry.staging_buffer(self.units[usize::from(unit)].staging, row)
    }

    /// Lists where the bytes of an I/O of the operation lie, in order; of all but data they are `bytes` together.
    pub(crate) fn segments(&self, geometry: &Geometry, io: OpIo, bytes: u64, out: &mut Vec<Segment>) {
        let uses = |unit: u16| &self.units[usize::from(unit)];
        let buffer = match io {
            OpIo::Read { unit, .. } => self.staged(geometry, unit, uses(unit).read.first),
            OpIo::Rewrite { unit, .. } => self.staged(geometry, uses(unit).from, uses(unit).write.first),
            OpIo::WriteParity { unit, .. } => self.staged(geometry, unit, self.hull.first),
            OpIo::WriteData { first_piece, pieces, .. } => {
                for piece in &self.pieces[first_piece as usize..(first_piece + pieces) as usize] {
                    let bytes = u64::from(piece.rows.count) * geometry.block_bytes();
                    push_joined(out, Segment { buffer: piece.source, bytes });
                }
                return;
            }
        };
        out.push(Segment { buffer, bytes });
    }

    /// True if it writes a unit that holds parity, by the staging place of it.
    fn has_new_parity(&self, unit: usize) -> bool {
        self.plan.computes_parity() && self.units[unit].staging != NIL
    }

    /// The parity units that it writes, with their places.
    pub(crate) fn new_parities(&self, geometry: &Geometry) -> impl Iterator<Item = (u16, UnitPlace)> {
        let units = geometry.data_strips()..self.units.len();
        units.filter(|&unit| self.has_new_parity(unit)).map(|unit| (unit as u16, self.places[unit]))
    }

    /// True if it writes past parity that is there, but does not agree. No record brings back what it writes, and parity that is
    /// computed from it later must not find it gone.
    pub(crate) fn leaves_parity_behind(&self, geometry: &Geometry, metadata: &Metadata) -> bool {
        let is_held = |unit: usize| metadata.holds(self.places[unit]);
        !self.plan.computes_parity() && (geometry.data_strips()..geometry.unit_count()).any(is_held)
    }

    /// True if it writes parity that some device takes.
    pub(crate) fn writes_parity(&self, geometry: &Geometry, metadata: &Metadata) -> bool {
        self.new_parities(geometry).any(|(_, place)| metadata.holds(place))
    }

    /// True if it makes new parity.
    pub(crate) const fn computes_parity(&self) -> bool {
        self.plan.computes_parity()
    }

    /// True if parity will no longer agree with what it writes.
    pub(crate) fn gives_parity_up(&self) -> bool {
        self.plan == Plan::Abandon
    }

    /// The rows of a unit that it writes in the background, if any, and where the unit begins.
    pub(crate) fn rewrite(&self, unit: u16) -> Option<(UnitPlace, Rows)> {
        let rows = self.units[usize::from(unit)].write;
        (!rows.is_empty()).then(|| (self.places[usize::from(unit)], rows))
    }

    /// True if it writes anything in the background.
    pub(crate) fn rewrites_any(&self) -> bool {
        self.units.iter().any(|unit| !unit.write.is_empty())
    }

    /// True if a unit could not be read.
    pub(crate) fn is_unreadable(&self, unit: u16) -> bool {
        !self.views[usize::from(unit)].readable
    }

    /// True if it writes to a unit that it has read.
    pub(crate) fn will_write(&self, unit: u16) -> bool {
        let view = &self.views[usize::from(unit)];
        let is_data = self.pieces.iter().any(|piece| piece.strip == unit);
        let is_parity =
            self.units[usize::from(unit)].staged && view.touched.is_empty() && view.gap.is_empty();
        self.kind == OpKind::Write && view.stored && (is_data || (is_parity && self.plan.computes_parity()))
    }

    /// Keeps where the checksums of a unit lie until it is written. Returns false if it will not be, or has them.
    pub(crate) fn keep_checksums(&mut self, unit: u16, place: u32) -> bool {
        let keeps = self.will_write(unit) && self.units[usize::from(unit)].tags == NIL;
        if keeps {
            self.units[usize::from(unit)].tags = place;
        }
        keeps
    }

    /// Takes what checksums were kept for the unit that an I/O writes.
    pub(crate) fn take_checksums(&mut self, io: OpIo) -> Option<u32> {
        let unit = match io {
            OpIo::WriteParity { unit, .. } => unit,
            OpIo::WriteData { first_piece, .. } => self.pieces[first_piece as usize].strip,
            OpIo::Read { .. } | OpIo::Rewrite { .. } => return None,
        };
        // Without parity nothing is read before it is written.
        let uses = self.units.get_mut(usize::from(unit))?;
        let place = core::mem::replace(&mut uses.tags, NIL);
        (place != NIL).then_some(place)
    }

    /// Takes what checksums are left that were kept, one by one.
    pub(crate) fn take_kept_checksums(&mut self) -> Option<u32> {
        let unit = self.units.iter_mut().find(|unit| unit.tags != NIL)?;
        Some(core::mem::replace(&mut unit.tags, NIL))
    }

    /// True if it writes all rows of its stripe.
    pub(crate) fn is_whole(&self, geometry: &Geometry) -> bool {
        self.rows_of_pieces() == geometry.data_strips() as u32 * geometry.strip_rows()
    }

    /// Rows of all pieces together.
    fn rows_of_pieces(&self) -> u32 {
        self.pieces.iter().map(|piece| piece.rows.count).sum()
    }

    /// True if nothing of what was there stays in the rows that it writes, of data or of parity.
    pub(crate) fn replaces_rows(&self, geometry: &Geometry) -> bool {
        self.plan.computes_parity()
            && self.rows_of_pieces() == geometry.data_strips() as u32 * self.hull.count
    }

    /// Member writes that the pieces take when all members are present, parity among them.
    pub(crate) fn writes_of_pieces(&mut self, geometry: &Geometry) -> u32 {
        self.sort_pieces();
        let (mut runs, mut first) = (0, 0);
        while first < self.pieces.len() {
            first += self.run_of_pieces(first).0;
            runs += 1;
        }
        runs * u32::from(geometry.copies()) + geometry.parities() as u32
    }

    /// Bytes that members are to write for the pieces and their parity, if parity is to be changed by less than a whole stripe;
    /// else 0.
    pub(crate) fn partial_bytes_of_pieces(&self, geometry: &Geometry) -> u64 {
        let data = u64::from(self.rows_of_pieces());
        let hull = self.pieces.iter().fold(Rows::NONE, |hull, piece| hull.hull(piece.rows));
        if geometry.parities() == 0 || data == u64::from(hull.count) * geometry.data_strips() as u64 {
            return 0;
        }
        let rows = data * u64::from(geometry.copies()) + u64::from(hull.count) * geometry.parities() as u64;
        rows * geometry.block_bytes()
    }

    /// Counts the pieces from `first` on that lie next to each other in one strip, and their rows together.
    pub(crate) fn run_of_pieces(&self, first: usize) -> (usize, Rows) {
        let pieces = &self.pieces[first..];
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
        while first < self.pieces.len() {
            let (count, rows) = self.run_of_pieces(first);
            each(self.pieces[first].strip, rows, &self.pieces[first..first + count]);
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
        self.partial_parity = if is_wanted { self.partial_parity_unit(geometry) } else { None };
    }

    fn partial_parity_unit(&self, geometry: &Geometry) -> Option<u16> {
        if geometry.parities() != 1 || self.run_of_pieces(0) != (self.pieces.len(), self.hull) {
            return None;
        }
        let strip = self.pieces[0].strip;
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
        self.partial_parity.map(|_| self.pieces[0].strip)
    }

    /// Where the partial parity lies that it leaves.
    pub(crate) fn partial_parity_segment(&self, geometry: &Geometry) -> Segment {
        let unit = self.partial_parity.expect("it was asked to leave it");
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
