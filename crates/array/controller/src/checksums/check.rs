//! Checks: member I/O of data together with the checksums of its blocks.
//!
//! Whoever reads or writes data of a member asks for one I/O. Where blocks have checksums it becomes a check, which ends as
//! that one I/O would:
//! ```text
//! read    data and tags ─► digest ─► agree: done
//!            ▲                └────► differ: once more, with the strip's line ─► differ: a medium error
//!            └──────────────────────────────────┘                              └► in doubt: new tags, done
//! write   line ─► tags, unless held or all new ─► digest ─► data and new tags, two writes ─► done
//! ```
//! A read takes no line at first, and may see one of the two writes of another without the other. Before a difference is
//! believed, both are read again while no write is under way in the strip.
//!
//! **In doubt** are stripes out of sync: a crash may have come between data and tags, and both are what the array may hold.
//! There the data is believed, as it is without checksums, and given the tags that it should have.
//!
//! Tags that can't be read take their rows with them: all whose tags stand in the same blocks. A write of some of these rows
//! makes the tags of the others unknown and has them repaired.
//!
//! A third kind, for the first write in a region, has no data: it reads the tags of a strip, and writes them with those of zeros replaced
//! (`written.rs`).
//!
//! Data and tags are never written in one I/O, so that a write that is lost or goes to a wrong place leaves the other. Left
//! out: a device that loses both. A world that carries lengths only gives no digests, and no tag ever differs.

mod digests;

use super::{Checksums, Surroundings};
use crate::api::{Area, IoClass, MemberError, MemberIo, MemberIoId, MemberOp, Segment};
use crate::member_io::{IoOwner, IoPart, IoState, OpIo};
use crate::metadata::Metadata;
use crate::request::Rows;
use crate::stripe_engine::{StripeEngine, StripeOp};
use crate::table::NIL;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// How far a check is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Waits for the line or a place.
    #[default]
    Waiting,
    Reading,
    Digesting,
    Writing,
}

/// A member I/O with the tags of its blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    owner: IoOwner,
    op: MemberOp,
    class: IoClass,
    device: MemberIndex,
    role: MemberIndex,
    /// Where the layout begins the strip, and the rows of it.
    strip_start: MemberLba,
    rows: Rows,
    phase: Phase,
    /// Holds the line of its strip.
    has_line: bool,
    place: u32,
    pending: u8,
    /// How its data fared; at its end, how its I/O did.
    data: Result<(), MemberError>,
    tags: Result<(), MemberError>,
    /// Rows of which one has a medium error, if that is how it ended.
    failed: Rows,
    /// Rows whose tags could not be read, to be restored once their block has been written.
    to_restore: Rows,
    /// The next in the line of the strip.
    pub(super) next: u32,
}

impl Default for Check {
    fn default() -> Self {
        Self {
            owner: IoOwner::Nobody,
            op: MemberOp::Read,
            class: IoClass::Host,
            device: MemberIndex(0),
            role: MemberIndex(0),
            strip_start: MemberLba::ZERO,
            rows: Rows::NONE,
            phase: Phase::Waiting,
            has_line: false,
            place: NIL,
            pending: 0,
            data: Ok(()),
            tags: Ok(()),
            failed: Rows::NONE,
            to_restore: Rows::NONE,
            next: NIL,
        }
    }
}

impl Check {
    const fn is_read(&self) -> bool {
        matches!(self.op, MemberOp::Read)
    }

    fn at(&self, row: u32) -> MemberLba {
        self.strip_start + BlockCount(u64::from(row))
    }
}

/// How a check goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CheckStep {
    /// It waits for its line, a place or I/Os.
    Waits,
    /// The blocks of its I/O are to be digested.
    Digest(u32),
    /// It has ended.
    End(u32),
}

/// The end of a check, which is that of its I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CheckEnd {
    pub(crate) owner: IoOwner,
    /// What the I/O was for.
    pub(crate) extent: (MemberIndex, MemberLba, u32),
    pub(crate) result: Result<(), MemberError>,
    /// Where a medium error is.
    pub(crate) failed: (MemberLba, u32),
}

impl Checksums {
    /// Reads or writes `rows` blocks at `lba` with their tags.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
        op: MemberOp,
        class: IoClass,
        owner: IoOwner,
        around: &mut Surroundings<'_>,
    ) -> CheckStep {
        let first = self.row_of(lba);
        assert!(first + rows <= self.strip_rows, "a member I/O stays within a strip");
        let id = self.checks.take();
        self.checks[id] = Check {
            owner,
            op,
            class,
            device,
            role: around.metadata.role(device).expect("only what plays a role is read or written"),
            strip_start: MemberLba(lba.0 - u64::from(first)),
            rows: Rows { first, count: rows },
            ..Check::default()
        };
        // The device is not done with before the check is.
        around.ios.begin_check(device, op, lba, rows);
        if op == MemberOp::Read { self.take_tag_place(id, around) } else { self.take_line(id, around) }
    }

    #[inline]
    pub(crate) fn take_line(&mut self, id: u32, around: &mut Surroundings<'_>) -> CheckStep {
        let Check { device, strip_start, .. } = self.checks[id];
        self.checks[id].phase = Phase::Waiting;
        if !self.enter_line(device, strip_start, id) {
            return CheckStep::Waits;
        }
        self.checks[id].has_line = true;
        self.take_tag_place(id, around)
    }

    /// Gets a place for the tags of a check that has the line if it needs it, and goes on with it.
    #[inline]
    fn take_tag_place(&mut self, id: u32, around: &mut Surroundings<'_>) -> CheckStep {
        if self.checks[id].place == NIL {
            let kept = self.take_kept_tags(id, around.stripes);
            let may_take = self.waiting.is_empty();
            let Some(place) = kept.or_else(|| if may_take { self.take_place() } else { None }) else {
                self.waiting.push_back(id);
                return CheckStep::Waits;
            };
            self.checks[id].place = place;
        }
        self.read_for_check(id, around)
    }

    /// Goes on with the next check whose turn has come.
    pub(crate) fn next_ready(&mut self, around: &mut Surroundings<'_>) -> Option<CheckStep> {
        if let Some(id) = self.ready.pop_front() {
            return Some(self.take_tag_place(id, around));
        }
        if self.waiting.is_empty() {
            return None;
        }
        let place = self.take_place()?;
        let id = self.waiting.pop_front().expect("somebody waits");
        self.checks[id].place = place;
        Some(self.read_for_check(id, around))
    }

    /// True if the device of a check has left the array since.
    fn is_orphaned(&self, id: u32, metadata: &Metadata) -> bool {
        let Check { device, role, .. } = self.checks[id];
        metadata.role(device) != Some(role)
    }

    /// Reads what a check needs: data and tags, or, for a write, the tags that it leaves as they are.
    #[inline]
    fn read_for_check(&mut self, id: u32, around: &mut Surroundings<'_>) -> CheckStep {
        if self.is_orphaned(id, around.metadata) {
            return self.end_check(id, Err(MemberError::Gone));
        }
        let Check { op, rows, place, .. } = self.checks[id];
        let tag_rows = self.tag_rows_of(rows);
        let check = &mut self.checks[id];
        (check.phase, check.data, check.tags) = (Phase::Reading, Ok(()), Ok(()));
        if op == MemberOp::Read {
            self.set_held(place, tag_rows);
            if self.is_adjacent(rows) {
                self.io_of_check(id, MemberOp::Read, IoPart::Both, around);
            } else {
                self.io_of_check(id, MemberOp::Read, IoPart::Data, around);
                self.io_of_check(id, MemberOp::Read, IoPart::Checksums, around);
            }
            return CheckStep::Waits;
        }
        if !self.holds(place, tag_rows) {
            if self.rows_of(tag_rows) != rows || self.checks[id].owner == IoOwner::Tags {
                self.set_held(place, tag_rows);
                self.io_of_check(id, MemberOp::Read, IoPart::Checksums, around);
                return CheckStep::Waits;
            }
            self.fill_unknown(around.own.bytes_mut(), place, tag_rows);
        }
        self.go_on_with_tags(id, around)
    }

    /// Tries a read of a check again that has failed.
    pub(crate) fn read_again(&mut self, id: u32, part: IoPart, tries: u8, around: &mut Surroundings<'_>) {
        self.checks[id].pending -= 1;
        self.try_io(id, MemberOp::Read, (part, tries), around);
    }

    /// True while a check reads tags that a write leaves as they are.
    pub(crate) fn reads_for_write(&self, id: u32) -> bool {
        id != NIL && !self.checks[id].is_read() && self.checks[id].phase == Phase::Reading
    }

    fn io_of_check(&mut self, id: u32, op: MemberOp, part: IoPart, around: &mut Surroundings<'_>) {
        self.try_io(id, op, (part, 0), around);
    }

    fn try_io(&mut self, id: u32, op: MemberOp, (part, tries): (IoPart, u8), around: &mut Surroundings<'_>) {
        let check = &mut self.checks[id];
        check.pending += 1;
        let Check { owner, class, device, strip_start, rows, .. } = *check;
        let first = check.at(rows.first);
        let tag_rows = self.tag_rows_of(rows);
        let (lba, blocks) = match part {
            IoPart::Data => (self.physical(first), rows.count),
            IoPart::Checksums => (self.tag_row_place(strip_start, tag_rows.first), tag_rows.count),
            IoPart::Both => (self.physical(first), rows.count + tag_rows.count),
        };
        let blocks = BlockCount(u64::from(blocks));
        let io = MemberIo { id: MemberIoId(0), member: device, op, area: Area::Data, lba, blocks, class };
        let state = IoState { owner, member: device, lba: first, rows: rows.count, check: id, part, tries };
        around.ios.begin(io, state, around.outbox);
    }

    /// Where the tags of a check lie.
    pub(crate) fn tag_segment(&self, id: u32) -> Segment {
        let Check { rows, place, .. } = self.checks[id];
        let tag_rows = self.tag_rows_of(rows);
        let bytes = u64::from(tag_rows.count) * self.block_bytes as u64;
        Segment { buffer: self.buffer(place, tag_rows.first), bytes }
    }

    /// Takes in the end of an I/O of a check. A device that is gone has been seen to.
    #[inline]
    pub(crate) fn io_done(
        &mut self,
        id: u32,
        part: IoPart,
        result: Result<(), MemberError>,
        around: &mut Surroundings<'_>,
    ) -> CheckStep {
        let check = &mut self.checks[id];
        check.pending -= 1;
        if part == IoPart::Both && result == Err(MemberError::Medium) {
            // One by one tells which of them it is.
            self.io_of_check(id, MemberOp::Read, IoPart::Data, around);
            self.io_of_check(id, MemberOp::Read, IoPart::Checksums, around);
            return CheckStep::Waits;
        }
        if part == IoPart::Checksums {
            check.tags = result;
        } else {
            check.data = result;
        }
        if check.pending > 0 {
            return CheckStep::Waits;
        }
        let Check { phase, data, tags, .. } = *check;
        let gone = [data, tags].contains(&Err(MemberError::Gone));
        match phase {
            _ if gone => self.end_check(id, Err(MemberError::Gone)),
            Phase::Reading if tags.is_err() => self.tags_unreadable(id, around),
            Phase::Reading if data.is_ok() => self.go_on_with_tags(id, around),
            _ => {
                if tags.is_ok() {
                    self.restore_behind(id, around);
                }
                self.end_check(id, data.and(tags))
            }
        }
    }

    /// Puts rows in line whose tags a write did not find. Where their block can't be written either, that would never end.
    #[inline]
    fn restore_behind(&self, id: u32, around: &mut Surroundings<'_>) {
        let Check { device, strip_start, to_restore, .. } = self.checks[id];
        if !to_restore.is_empty() {
            let first = strip_start + BlockCount(u64::from(to_restore.first));
            around.scan.repair_again(around.geometry, around.metadata, (device, first, to_restore.count));
        }
    }

    /// Goes on without tags that can't be read, where that is possible.
    fn tags_unreadable(&mut self, id: u32, around: &mut Surroundings<'_>) -> CheckStep {
        let Check { rows, place, has_line, data, .. } = self.checks[id];
        let tag_rows = self.tag_rows_of(rows);
        let tagged = self.rows_of(tag_rows);
        if self.checks[id].is_read() {
            if data.is_err() || !self.is_in_doubt(id, around) {
                return self.end_check_with(id, Err(MemberError::Medium), tagged);
            }
            if !has_line {
                return self.check_again(id, around);
            }
        }
        self.fill_unknown(around.own.bytes_mut(), place, tag_rows);
        let Check { owner, device, strip_start, .. } = self.checks[id];
        let first = strip_start + BlockCount(u64::from(tagged.first));
        match owner {
            _ if self.checks[id].is_read() => {}
            IoOwner::Op(OpIo::Rewrite { op, .. }) => {
                // A visit looks at the rows that it has still to come to by itself, but not at those behind it.
                let ahead = around.scan.rows_ahead(around.stripes.op(op).step().visit);
                if ahead.hull(tagged) != ahead {
                    self.checks[id].to_restore = tagged;
                }
            }
            _ => around.scan.repair_later(around.geometry, around.metadata, (device, first, tagged.count)),
        }
        self.go_on_with_tags(id, around)
    }

    /// True if data and tags of the check may disagree because of a crash.
    fn is_in_doubt(&self, id: u32, around: &Surroundings<'_>) -> bool {
        let Check { role, strip_start, .. } = self.checks[id];
        let found = around.geometry.unit_at(role, strip_start).expect("only what the layout uses is read");
        around.metadata.is_out_of_sync(found.key)
    }

    /// Goes on when the tags of a check are in its place.
    #[inline]
    fn go_on_with_tags(&mut self, id: u32, around: &mut Surroundings<'_>) -> CheckStep {
        let Check { owner, place, role, strip_start, .. } = self.checks[id];
        if owner != IoOwner::Tags {
            self.checks[id].phase = Phase::Digesting;
            return CheckStep::Digest(id);
        }
        if around.written.is_looking() {
            if self.tells_of_a_write(around.own.bytes(), place, role, strip_start) {
                around.written.note_written(strip_start);
            }
            return self.end_check(id, Ok(()));
        }
        if self.make_real(around.own.bytes_mut(), place, role, strip_start) {
            self.write_for_check(id, IoPart::Checksums, around)
        } else {
            self.end_check(id, Ok(()))
        }
    }

    /// Writes the tags of a check, and with [`IoPart::Data`] its data, too.
    #[inline]
    fn write_for_check(&mut self, id: u32, part: IoPart, around: &mut Surroundings<'_>) -> CheckStep {
        if self.is_orphaned(id, around.metadata) {
            return self.end_check(id, Err(MemberError::Gone));
        }
        let check = &mut self.checks[id];
        (check.phase, check.data, check.tags) = (Phase::Writing, Ok(()), Ok(()));
        // Nobody will be in doubt about what a read has put right once more.
        let fua = self.is_member_cached;
        let op = if check.is_read() { MemberOp::Write { fua } } else { check.op };
        if part == IoPart::Data {
            self.io_of_check(id, op, IoPart::Data, around);
        }
        self.io_of_check(id, op, IoPart::Checksums, around);
        CheckStep::Waits
    }

    /// Lets a check that found a difference read again when no write is under way in its strip.
    fn check_again(&mut self, id: u32, around: &mut Surroundings<'_>) -> CheckStep {
        let place = core::mem::replace(&mut self.checks[id].place, NIL);
        self.give_place(place);
        self.take_line(id, around)
    }

    fn end_check(&mut self, id: u32, result: Result<(), MemberError>) -> CheckStep {
        let rows = self.checks[id].rows;
        self.end_check_with(id, result, rows)
    }

    /// Ends a check; a medium error is one of the rows `failed`.
    fn end_check_with(&mut self, id: u32, result: Result<(), MemberError>, failed: Rows) -> CheckStep {
        let check = &mut self.checks[id];
        (check.data, check.failed) = (result, failed);
        CheckStep::End(id)
    }

    /// Forgets a check that has ended, and lets the next in its line have its turn.
    #[inline]
    pub(crate) fn end(&mut self, id: u32, around: &mut Surroundings<'_>) -> CheckEnd {
        let check = self.checks[id];
        self.checks.give(id);
        let Check { owner, device, strip_start, data: result, failed, .. } = check;
        let next = if check.has_line { self.leave_line(device, strip_start) } else { None };
        if let Some(next) = next {
            self.checks[next].has_line = true;
            self.ready.push_back(next);
        }
        match next {
            _ if check.place == NIL => {}
            _ if check.is_read() && result.is_ok() && self.keep_tags(&check, around) => {}
            Some(next) if !check.is_read() && result.is_ok() && !self.checks[next].is_read() => {
                // It holds what is on the device now.
                self.checks[next].place = check.place;
            }
            _ => self.give_place(check.place),
        }
        around.ios.end_check(device);
        let extent = (device, check.at(check.rows.first), check.rows.count);
        CheckEnd { owner, extent, result, failed: (check.at(failed.first), failed.count) }
    }

    // Tags that an operation keeps from its reads to its writes. It has its stripe locked, so nobody else
    // writes there.

    /// Leaves the tags that were read for an operation with it, if it will write to the unit.
    fn keep_tags(&self, check: &Check, around: &mut Surroundings<'_>) -> bool {
        let IoOwner::Op(OpIo::Read { op, unit }) = check.owner else { return false };
        let op = around.stripes.op_mut(op);
        let may_keep = self.may_keep() && !around.metadata.is_out_of_sync(op.key());
        may_keep && op.keep_checksums(unit, check.place)
    }

    /// Takes the tags that an operation has kept for a write.
    #[inline]
    fn take_kept_tags(&self, id: u32, stripes: &mut StripeEngine) -> Option<u32> {
        let IoOwner::Op(io) = self.checks[id].owner else { return None };
        stripes.op_mut(io.op()).take_checksums(io)
    }

    /// Gives back what tags an operation has kept.
    pub(crate) fn release_kept(&mut self, op: &mut StripeOp) {
        while let Some(place) = op.take_kept_checksums() {
            self.give_place(place);
        }
    }
}
