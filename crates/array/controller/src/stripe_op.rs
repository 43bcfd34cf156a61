//! Stripe operations: the one way in which redundancy changes or is used.
//!
//! ```text
//!            ┌────────── a read failed: plan again without that unit ─────────┐
//!            ▼                                                                │
//!  lock ─► plan ─► wait for staging ─► read units ─► compute parity ─► write data and parity ─► unlock
//!                                                        └─ recover: into the host's buffer ─────►┘
//! ```
//! All member writes of an operation start together, after everything was read and computed (data first and then parity, where
//! [`crate::CacheConfig::parity_after_data`] says so); writes to a member that
//! is missing by then are left out, which is right because parity already accounts for the new data. Rows whose write ends
//! in a medium error are bad blocks of their member from then on. A write that finds bad blocks in its way may be carried
//! out in several windows, one after the other (see `lost_rows.rs`).
//!
//! What an operation finds and does at each unit is in `units.rs`. Operations in the background take the same way up to the computing; what they do then is in `restore.rs` and
//! `compare.rs`.

use crate::api::{BufferRef, HostError, IoClass, MemberError, Segment};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::gather::Hold;
use crate::geometry::Geometry;
use crate::host_front::Request;
use crate::lost_rows::Failed;
use crate::member_io::{IoOwner, OpIo};
use crate::memory_task::TaskOwner;
use crate::metadata::SuperblockWaiter;
use crate::plan::{BeyondRedundancy, Plan, UnitView};
use crate::request::{CopySet, Fragment, Rows};
use crate::table::NIL;
use crate::units::UnitUse;
use crate::write_intent::OpIntent;
use raidlab_format::LogRun;
use raidlab_raid::UnitPlace;
use raidlab_units::{Nanos, StripeIndex};

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
    pub(crate) class: Option<IoClass>,
    pub(crate) fua: bool,
    /// Sorted by strip, then row; they don't overlap.
    pub(crate) pieces: Vec<Piece>,
    /// Pieces for the windows after this one, likewise.
    pub(crate) rest: Vec<Piece>,
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
    pub(crate) plan: Plan,
    pub(crate) hull: Rows,
    /// Where each unit of the stripe begins.
    pub(crate) places: Vec<UnitPlace>,
    /// Data strips, then parity strips.
    pub(crate) units: Vec<UnitUse>,
    pub(crate) views: Vec<UnitView>,
    /// Units that failed to read although their member answers.
    pub(crate) unreadable: Vec<u16>,
    pub(crate) pending: u32,
    read_failed: bool,
    /// Its data is being written, and its parity has yet to be.
    parity_is_due: bool,
    /// How far it is while it collects.
    pub(crate) hold: Hold,
    /// It stands among those that are looked at with the next poll.
    pub(crate) is_looked_at: bool,
    /// It reads what the change of its parity needs, and others collect meanwhile.
    pub(crate) prereads: bool,
    /// It is delayed, until which turn of its entry is over.
    pub(crate) is_delayed: bool,
    pub(crate) turn: u32,
    /// It writes its stripe whole, before which parts of stripes wait.
    pub(crate) writes_whole: bool,
    /// What it takes of [`crate::ArrayRules::stripe_pages_max`].
    pub(crate) stripe_pages: u32,
    /// When it was carried out, for one whose time is counted.
    pub(crate) began: Option<Nanos>,
    /// What write intent keeps of it.
    pub(crate) intent: OpIntent,
    /// The fragment that a recovery is for; for operations in the background, see [`OpKind::is_background`].
    pub(crate) target: Fragment,
}

impl StripeOp {
    /// Where `row` of a unit lies in the staging place for it.
    pub(crate) fn staged(&self, geometry: &Geometry, unit: u16, row: u32) -> BufferRef {
        geometry.staging_buffer(self.units[usize::from(unit)].staging, row)
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

impl Controller {
    /// Starts an empty operation on a stripe that the caller has locked.
    pub(crate) fn new_op(&mut self, key: u64, stripe: StripeIndex, kind: OpKind, class: IoClass) -> u32 {
        let id = self.ops.take();
        let op = &mut self.ops[id];
        (op.key, op.stripe, op.kind, op.class, op.fua) = (key, stripe, kind, Some(class), false);
        (op.pending, op.read_failed) = (0, false);
        (op.intent, op.began) = (OpIntent::default(), None);
        (op.prereads, op.is_delayed, op.writes_whole, op.stripe_pages) = (false, false, false, 0);
        op.failed.clear();
        op.pieces.clear();
        op.rest.clear();
        op.told.clear();
        op.slots.clear();
        op.unreadable.clear();
        let mut places = core::mem::take(&mut op.places);
        self.geometry.lock_places(key, &mut places);
        self.ops[id].places = places;
        self.take_stripe_place(key);
        id
    }

    /// Runs an operation whose pieces or target are in place.
    pub(crate) fn launch_op(&mut self, id: u32) {
        self.ops[id].pieces.sort_unstable_by_key(|piece| (piece.strip, piece.rows.first));
        self.plan_op(id);
    }

    pub(crate) fn plan_op(&mut self, id: u32) {
        loop {
            self.view_units(id);
            match self.plan_of(id) {
                Ok(plan) => {
                    self.ops[id].plan = plan;
                    self.assign_units(id);
                    return self.stage_op(id);
                }
                Err(BeyondRedundancy) if self.narrow_window(id) || self.skip_window(id) => {}
                Err(BeyondRedundancy) => return self.finish_op(id, false),
            }
        }
    }

    fn plan_of(&self, id: u32) -> Result<Plan, BeyondRedundancy> {
        match self.ops[id].kind {
            OpKind::Write => self.write_plan(id),
            OpKind::Recover => self.recovery_possible(id),
            OpKind::Restore | OpKind::Probe => self.restore_possible(id),
            OpKind::Compare => self.comparison_possible(id),
        }
    }

    /// Takes staging places for the operation, or puts it in line for them.
    fn stage_op(&mut self, id: u32) {
        if self.staging.take_or_wait(id, &mut self.ops[id], &self.geometry) {
            self.start_reads(id);
        }
    }

    pub(crate) fn release_staging(&mut self, id: u32) {
        self.staging.release(&mut self.ops[id]);
        if self.checksums.is_on() {
            self.release_tags(id);
        }
    }

    /// Lets operations in line for staging go on, in order, as far as there is room.
    pub(crate) fn pump_staging(&mut self) {
        while let Some(id) = self.staging.next_in_line(&mut self.ops, &self.geometry) {
            self.start_reads(id);
        }
    }

    fn start_reads(&mut self, id: u32) {
        // Held until all reads have been asked for, so that the phase can't end early.
        self.ops[id].pending = 1;
        let mut next = 0;
        if self.ops[id].kind == OpKind::Write && self.ops[id].units.iter().any(|unit| !unit.read.is_empty()) {
            self.begin_preread(id);
        }
        while let Some(skipped) = self.ops[id].units[next..].iter().position(|unit| !unit.read.is_empty()) {
            let unit = next + skipped;
            next = unit + 1;
            let (rows, place) = (self.ops[id].units[unit].read, self.ops[id].places[unit]);
            let unit = unit as u16;
            if !self.metadata.holds(place) {
                // Its device was lost while the operation stood in line.
                self.ops[id].read_failed = true;
                continue;
            }
            self.ops[id].pending += 1;
            let class = self.ops[id].class.expect("set when the operation was made");
            self.member_read(place, rows, class, IoOwner::Op(OpIo::Read { op: id, unit }));
        }
        self.end_of_read(id);
    }

    /// Takes in the end of one read of the operation.
    pub(crate) fn op_read_done(&mut self, id: u32, unit: u16, result: Result<(), MemberError>) {
        if let Err(error) = result {
            self.ops[id].read_failed = true;
            // A member that is gone is missing from now on; a bad block is held against this unit only.
            if error == MemberError::Medium {
                self.ops[id].unreadable.push(unit);
            }
        }
        self.end_of_read(id);
    }

    fn end_of_read(&mut self, id: u32) {
        self.ops[id].pending -= 1;
        if self.ops[id].pending > 0 {
            return;
        }
        if core::mem::take(&mut self.ops[id].read_failed) {
            self.release_staging(id);
            self.plan_op(id);
            // What it gave back may be what others wait for, and it may now stand in line behind them.
            self.pump_staging();
        } else {
            self.start_compute(id);
        }
    }

    fn start_compute(&mut self, id: u32) {
        let (bytes_in, bytes_out) = self.parity_volume(id);
        if bytes_out == 0 {
            self.op_computed(id);
        } else {
            self.begin_computing(id);
            self.tasks.start_parity(TaskOwner::Parity { op: id }, (bytes_in, bytes_out), &mut self.outbox);
        }
    }

    /// Takes in that parity, or the recovered data, is computed.
    pub(crate) fn op_computed(&mut self, id: u32) {
        match self.ops[id].kind {
            OpKind::Write => {
                self.end_preread(id);
                self.end_computing(id);
                self.admit(id);
                self.send_units_if_due();
            }
            OpKind::Recover | OpKind::Probe => self.finish_op(id, true),
            OpKind::Restore => self.start_rewrites(id),
            OpKind::Compare => self.start_comparison(id),
        }
    }

    pub(crate) fn start_writes(&mut self, id: u32) {
        if self.write_intent.has_write_log() && self.logs_first(id) {
            return;
        }
        self.ops[id].pending = 1;
        let class = self.ops[id].class.expect("set when the operation was made");
        let mut first = 0;
        while first < self.ops[id].pieces.len() {
            let (count, rows) = self.written_run(id, first);
            let strip = self.ops[id].pieces[first].strip;
            for copy in 0..self.geometry.copies() {
                let unit = if self.geometry.parities() > 0 { strip } else { copy };
                let place = self.ops[id].places[usize::from(unit)];
                let owner =
                    IoOwner::Op(OpIo::WriteData { op: id, first_piece: first as u32, pieces: count as u32 });
                self.op_write(id, place, rows, class, owner);
            }
            first += count;
        }
        self.ops[id].parity_is_due = true;
        if !self.config.cache.parity_after_data {
            self.start_parity_writes(id);
        }
        self.op_write_done(id);
    }

    fn start_parity_writes(&mut self, id: u32) {
        let class = self.ops[id].class.expect("set when the operation was made");
        self.ops[id].parity_is_due = false;
        for unit in self.geometry.data_strips()..self.ops[id].units.len() {
            let written = self.ops[id].units[unit].staging != NIL && self.ops[id].plan.computes_parity();
            if written {
                let place = self.ops[id].places[unit];
                let owner = IoOwner::Op(OpIo::WriteParity { op: id, unit: unit as u16 });
                self.op_write(id, place, self.ops[id].hull, class, owner);
            }
        }
    }

    /// Member writes that the pieces take when all members are present, parity among them.
    pub(crate) fn writes_of_pieces(&mut self, id: u32) -> u32 {
        self.ops[id].pieces.sort_unstable_by_key(|piece| (piece.strip, piece.rows.first));
        let (mut runs, mut first) = (0, 0);
        while first < self.ops[id].pieces.len() {
            first += self.ops[id].run_of_pieces(first).0;
            runs += 1;
        }
        runs * u32::from(self.geometry.copies()) + self.geometry.parities() as u32
    }

    /// Bytes that members are to write for the pieces of an operation and their parity, if parity is to be changed
    /// by less than a whole stripe; else 0.
    pub(crate) fn partial_bytes_of_pieces(&self, id: u32) -> u64 {
        let pieces = &self.ops[id].pieces;
        let data: u64 = pieces.iter().map(|piece| u64::from(piece.rows.count)).sum();
        let hull = pieces.iter().fold(Rows::NONE, |hull, piece| hull.hull(piece.rows));
        if self.geometry.parities() == 0 || data == u64::from(hull.count) * self.geometry.data_strips() as u64
        {
            return 0;
        }
        let rows = data * u64::from(self.geometry.copies())
            + u64::from(hull.count) * self.geometry.parities() as u64;
        rows * self.geometry.block_bytes()
    }

    fn op_write(&mut self, id: u32, place: UnitPlace, rows: Rows, class: IoClass, owner: IoOwner) {
        if self.metadata.holds(place) {
            self.ops[id].pending += 1;
            let fua = self.ops[id].fua || self.leaves_parity_behind(id);
            self.member_write(place, rows, class, fua, owner);
        }
    }

    /// True if an operation writes past parity that is there, but does not agree. No record brings back what it writes, and
    /// parity that is computed from it later must not find it gone.
    fn leaves_parity_behind(&self, id: u32) -> bool {
        let op = &self.ops[id];
        let is_held = |unit: usize| self.metadata.holds(op.places[unit]);
        self.config.member_cache == MemberCache::On
            && !op.plan.computes_parity()
            && (self.geometry.data_strips()..self.geometry.unit_count()).any(is_held)
    }

    /// The pieces from `first` on that one write has, and its rows: those that lie next to each other, or the whole page.
    fn written_run(&self, id: u32, first: usize) -> (usize, Rows) {
        let StripeOp { pieces, views, hull, .. } = &self.ops[id];
        let strip = pieces[first].strip;
        if self.has_pages() && views.get(usize::from(strip)).is_some_and(|view| view.touched == *hull) {
            let count = pieces[first..].iter().take_while(|piece| piece.strip == strip).count();
            return (count, *hull);
        }
        self.ops[id].run_of_pieces(first)
    }

    /// Takes in the end of one write of the operation.
    pub(crate) fn op_write_done(&mut self, id: u32) {
        self.ops[id].pending -= 1;
        if self.ops[id].pending == 0 && self.ops[id].parity_is_due {
            self.start_parity_writes(id);
        }
        if self.ops[id].pending > 0 {
            return;
        }
        let stored = self.window_written(id);
        self.hold_pages(id);
        self.end_intent(id, stored);
        if self.next_window(id) {
            self.release_staging(id);
            self.plan_op(id);
            self.pump_staging();
        } else if self.metadata.is_kept() {
            self.finish_written(id, true);
        } else {
            self.metadata.wait(SuperblockWaiter::Op(id));
        }
    }

    /// Ends an operation that may not write in place, with all windows that it has left.
    pub(crate) fn give_window_up(&mut self, id: u32) {
        self.note_failed(id);
        if self.next_window(id) {
            self.note_failed(id);
        }
        self.finish_op(id, false);
    }

    /// Ends an operation that has written in place; `kept` unless the devices will never know what it relied on.
    pub(crate) fn finish_written(&mut self, id: u32, kept: bool) {
        if !kept {
            self.note_all_failed(id);
        }
        let stored = self.ops[id].failed.is_empty();
        self.finish_op(id, stored);
    }

    pub(crate) fn finish_op(&mut self, id: u32, succeeded: bool) {
        self.release_staging(id);
        self.end_preread(id);
        let StripeOp { kind, key, target, .. } = self.ops[id];
        match kind {
            OpKind::Recover if succeeded => self.end_part(target.request, Ok(())),
            // Bad blocks seldom lie in the same rows of two units.
            OpKind::Recover if target.rows.count > 1 => self.read_row_by_row(target),
            OpKind::Recover => {
                self.ops.give(id);
                // It keeps the stripe locked.
                self.read_from_members(target, CopySet::LAST_ROUND);
                return self.pump_staging();
            }
            OpKind::Write => {
                for index in 0..self.ops[id].told.len() {
                    let request = self.ops[id].told[index];
                    let result = self.result_for(id, request);
                    self.end_part(request, result);
                }
                self.end_destage(id);
                self.end_through(id);
            }
            OpKind::Restore | OpKind::Probe | OpKind::Compare => {
                let visit = target.request;
                self.scan.take_unreadable(visit, &mut self.ops[id].unreadable);
                self.ops.give(id);
                // The stripe stays locked until the visit ends.
                self.visit_step_done(visit, succeeded);
                return self.pump_staging();
            }
        }
        self.ops.give(id);
        self.unlock(key);
        self.pump_staging();
    }

    /// What a write comes to for one of the requests that wanted some of it.
    pub(crate) fn result_for(&self, id: u32, request: u32) -> Result<(), HostError> {
        let Request { lba, blocks, .. } = self.host.request(request);
        let failed = self.ops[id].failed.first_in(lba, blocks);
        failed.map_or(Ok(()), |lba| Err(HostError::ArrayFailed { lba }))
    }
}
