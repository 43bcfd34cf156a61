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
//! Data and tags are never written in one I/O, so that a write that is lost or goes to a wrong place leaves the other. Left
//! out: a device that loses both. A world that carries lengths only gives no digests, and no tag ever differs.

use crate::api::{Area, IoClass, MemberError, MemberIo, MemberIoId, MemberOp, Notice, Segment};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::member_io::{IoOwner, IoState, OpIo};
use crate::memory_task::TaskOwner;
use crate::request::Rows;
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

/// What one I/O of a check carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Part {
    #[default]
    Data,
    Checksums,
    /// Data up to the end of its strip, and the tags behind it.
    Both,
}

/// A member I/O with the tags of its blocks.
#[derive(Debug)]
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
    data: Result<(), MemberError>,
    tags: Result<(), MemberError>,
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

impl Controller {
    /// Reads or writes `rows` blocks at `lba` with their tags.
    pub(crate) fn begin_check(
        &mut self,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
        op: MemberOp,
        class: IoClass,
        owner: IoOwner,
    ) {
        let first = self.checksums.row_of(lba);
        assert!(first + rows <= self.geometry.strip_rows(), "a member I/O stays within a strip");
        let id = self.checksums.checks.take();
        self.checksums.checks[id] = Check {
            owner,
            op,
            class,
            device,
            role: self.metadata.role(device).expect("only what plays a role is read or written"),
            strip_start: MemberLba(lba.0 - u64::from(first)),
            rows: Rows { first, count: rows },
            ..Check::default()
        };
        // The device is not done with before the check is.
        self.ios.begin_check(device, op, lba, rows);
        if op == MemberOp::Read { self.take_tag_place(id) } else { self.take_line(id) }
    }

    fn take_line(&mut self, id: u32) {
        let Check { device, strip_start, .. } = self.checksums.checks[id];
        self.checksums.checks[id].phase = Phase::Waiting;
        if self.checksums.enter_line(device, strip_start, id) {
            self.checksums.checks[id].has_line = true;
            self.take_tag_place(id);
        }
    }

    /// Gets a place for the tags of a check that has the line if it needs it, and goes on with it.
    fn take_tag_place(&mut self, id: u32) {
        if self.checksums.checks[id].place == NIL {
            let kept = self.take_kept_tags(id);
            let may_take = self.checksums.waiting.is_empty();
            let Some(place) = kept.or_else(|| if may_take { self.checksums.take_place() } else { None })
            else {
                return self.checksums.waiting.push_back(id);
            };
            self.checksums.checks[id].place = place;
        }
        self.read_for_check(id);
    }

    /// Goes on with checks whose turn has come. Returns true if there were any.
    pub(crate) fn pump_tags(&mut self) -> bool {
        let mut any = false;
        loop {
            if let Some(id) = self.checksums.ready.pop_front() {
                self.take_tag_place(id);
            } else if !self.checksums.waiting.is_empty()
                && let Some(place) = self.checksums.take_place()
            {
                let id = self.checksums.waiting.pop_front().expect("somebody waits");
                self.checksums.checks[id].place = place;
                self.read_for_check(id);
            } else {
                return any;
            }
            any = true;
        }
    }

    /// True if the device of a check has left the array since.
    fn check_is_orphaned(&self, id: u32) -> bool {
        let Check { device, role, .. } = self.checksums.checks[id];
        self.metadata.role(device) != Some(role)
    }

    /// Reads what a check needs: data and tags, or, for a write, the tags that it leaves as they are.
    fn read_for_check(&mut self, id: u32) {
        if self.check_is_orphaned(id) {
            return self.end_check(id, Err(MemberError::Gone));
        }
        let Check { op, rows, place, .. } = self.checksums.checks[id];
        let tag_rows = self.checksums.tag_rows_of(rows);
        let check = &mut self.checksums.checks[id];
        (check.phase, check.data, check.tags) = (Phase::Reading, Ok(()), Ok(()));
        if op == MemberOp::Read {
            self.checksums.set_held(place, tag_rows);
            if self.checksums.is_adjacent(rows) {
                self.io_of_check(id, MemberOp::Read, Part::Both);
            } else {
                self.io_of_check(id, MemberOp::Read, Part::Data);
                self.io_of_check(id, MemberOp::Read, Part::Checksums);
            }
        } else if self.checksums.rows_of(tag_rows) == rows {
            if !self.checksums.holds(place, tag_rows) {
                self.checksums.fill_unknown(self.own.bytes_mut(), place, tag_rows);
            }
            self.digest_for_check(id);
        } else if self.checksums.holds(place, tag_rows) {
            self.digest_for_check(id);
        } else {
            self.checksums.set_held(place, tag_rows);
            self.io_of_check(id, MemberOp::Read, Part::Checksums);
        }
    }

    fn io_of_check(&mut self, id: u32, op: MemberOp, part: Part) {
        let check = &mut self.checksums.checks[id];
        check.pending += 1;
        let Check { owner, class, device, strip_start, rows, .. } = *check;
        let first = check.at(rows.first);
        let tag_rows = self.checksums.tag_rows_of(rows);
        let (lba, blocks) = match part {
            Part::Data => (self.checksums.physical(first), rows.count),
            Part::Checksums => (self.checksums.tag_row_place(strip_start, tag_rows.first), tag_rows.count),
            Part::Both => (self.checksums.physical(first), rows.count + tag_rows.count),
        };
        let blocks = BlockCount(u64::from(blocks));
        let io = MemberIo { id: MemberIoId(0), member: device, op, area: Area::Data, lba, blocks, class };
        let state = IoState { owner, member: device, lba: first, rows: rows.count, check: id, part };
        self.ios.begin(io, state, &mut self.outbox);
    }

    /// Where the tags of a check lie.
    pub(crate) fn tag_segment(&self, id: u32) -> Segment {
        let Check { rows, place, .. } = self.checksums.checks[id];
        let tag_rows = self.checksums.tag_rows_of(rows);
        let bytes = u64::from(tag_rows.count) * self.geometry.block_bytes();
        Segment { buffer: self.checksums.buffer(place, tag_rows.first), bytes }
    }

    /// Takes in the end of an I/O of a check.
    pub(crate) fn check_io_done(&mut self, id: u32, part: Part, result: Result<(), MemberError>) {
        let check = &mut self.checksums.checks[id];
        check.pending -= 1;
        if part == Part::Both && result == Err(MemberError::Medium) {
            // One by one tells which of them it is.
            self.io_of_check(id, MemberOp::Read, Part::Data);
            return self.io_of_check(id, MemberOp::Read, Part::Checksums);
        }
        if part == Part::Checksums {
            check.tags = result;
        } else {
            check.data = result;
        }
        let (pending, device) = (check.pending, check.device);
        if result == Err(MemberError::Gone) {
            self.fail_member(device);
        }
        if pending > 0 {
            return;
        }
        let Check { phase, data, tags, .. } = self.checksums.checks[id];
        let gone = [data, tags].contains(&Err(MemberError::Gone));
        match phase {
            _ if gone => self.end_check(id, Err(MemberError::Gone)),
            Phase::Reading if tags.is_err() => self.tags_unreadable(id),
            Phase::Reading if data.is_ok() => self.digest_for_check(id),
            _ => {
                if tags.is_ok() {
                    self.restore_behind(id);
                }
                self.end_check(id, data.and(tags));
            }
        }
    }

    /// Puts rows in line whose tags a write did not find. Where their block can't be written either, that would never end.
    fn restore_behind(&mut self, id: u32) {
        let Check { device, strip_start, to_restore, .. } = self.checksums.checks[id];
        if !to_restore.is_empty() {
            let first = strip_start + BlockCount(u64::from(to_restore.first));
            self.scan.repair_again(&self.geometry, &self.metadata, (device, first, to_restore.count));
        }
    }

    /// Goes on without tags that can't be read, where that is possible.
    fn tags_unreadable(&mut self, id: u32) {
        let Check { rows, place, has_line, data, .. } = self.checksums.checks[id];
        let tag_rows = self.checksums.tag_rows_of(rows);
        let tagged = self.checksums.rows_of(tag_rows);
        if self.checksums.checks[id].is_read() {
            if data.is_err() || !self.is_in_doubt(id) {
                return self.end_check_with(id, Err(MemberError::Medium), tagged);
            }
            if !has_line {
                return self.check_again(id);
            }
        }
        self.checksums.fill_unknown(self.own.bytes_mut(), place, tag_rows);
        let Check { owner, device, strip_start, .. } = self.checksums.checks[id];
        let first = strip_start + BlockCount(u64::from(tagged.first));
        match owner {
            _ if self.checksums.checks[id].is_read() => {}
            IoOwner::Op(OpIo::Rewrite { op, .. }) => {
                // A visit looks at the rows that it has still to come to by itself, but not at those behind it.
                let ahead = self.scan.rows_ahead(self.stripes.op(op).target.request);
                if ahead.hull(tagged) != ahead {
                    self.checksums.checks[id].to_restore = tagged;
                }
            }
            _ => self.repair_later(device, first, tagged.count),
        }
        self.digest_for_check(id);
    }

    /// True if data and tags of the check may disagree because of a crash.
    fn is_in_doubt(&self, id: u32) -> bool {
        let Check { role, strip_start, .. } = self.checksums.checks[id];
        let found = self.geometry.unit_at(role, strip_start).expect("only what the layout uses is read");
        self.metadata.is_out_of_sync(found.key)
    }

    fn digest_for_check(&mut self, id: u32) {
        self.checksums.checks[id].phase = Phase::Digesting;
        let Check { owner, rows, .. } = self.checksums.checks[id];
        let task = self.tasks.new_digest(TaskOwner::Checksums { check: id });
        let mut segments = core::mem::take(&mut self.checksums.segments);
        segments.clear();
        self.owner_segments(owner, rows.count, &mut segments);
        for segment in &segments {
            self.tasks.add_rows(task, *segment);
        }
        self.checksums.segments = segments;
        self.tasks.start_digest(task, &mut self.outbox);
    }

    /// Takes in the digests of a check's blocks; none from a world that carries no bytes.
    pub(crate) fn check_digested(&mut self, id: u32, digests: &[u32]) {
        let check = &self.checksums.checks[id];
        let rows = check.rows;
        assert!(digests.is_empty() || digests.len() == rows.count as usize, "a digest for each row");
        if !check.is_read() {
            self.set_tags(id, digests);
            return self.write_for_check(id, Part::Data);
        }
        let differing = self.differing_rows(id, digests);
        let Check { has_line, tags, .. } = self.checksums.checks[id];
        if differing.is_empty() && tags.is_ok() {
            self.end_check(id, Ok(()));
        } else if !has_line {
            self.check_again(id);
        } else if self.is_in_doubt(id) {
            self.set_tags(id, digests);
            self.write_for_check(id, Part::Checksums);
        } else if self.check_is_orphaned(id) {
            // What a device holds that has left is nobody's concern, and there is no place to restore it to.
            self.end_check(id, Err(MemberError::Gone));
        } else {
            self.tell_of_differing_rows(id, digests);
            self.end_check_with(id, Err(MemberError::Medium), differing);
        }
    }

    fn row_differs(&self, id: u32, row: u32, digests: &[u32]) -> bool {
        let check = &self.checksums.checks[id];
        let Some(&digest) = digests.get((row - check.rows.first) as usize) else { return false };
        let address = (check.role, check.at(row));
        !self.checksums.agrees(self.own.bytes(), check.place, address, digest)
    }

    /// The hull of the rows whose tags say otherwise.
    fn differing_rows(&self, id: u32, digests: &[u32]) -> Rows {
        let rows = self.checksums.checks[id].rows;
        let differing = (rows.first..rows.end()).filter(|&row| self.row_differs(id, row, digests));
        differing.fold(Rows::NONE, |hull, row| hull.hull(Rows::between(row, row + 1)))
    }

    /// Counts the rows whose tags say otherwise, and tells the operator run by run.
    fn tell_of_differing_rows(&mut self, id: u32, digests: &[u32]) {
        let Check { rows, device, strip_start, .. } = self.checksums.checks[id];
        let mut run = Rows { first: rows.first, count: 0 };
        for row in rows.first..=rows.end() {
            if row < rows.end() && self.row_differs(id, row, digests) {
                run.count += 1;
                continue;
            }
            if !run.is_empty() {
                let blocks = BlockCount(u64::from(run.count));
                self.outbox.count_mismatched(blocks.0);
                let lba = strip_start + BlockCount(u64::from(run.first));
                self.outbox.notify(Notice::Mismatch { member: device, lba, blocks });
            }
            run = Rows { first: row + 1, count: 0 };
        }
    }

    fn set_tags(&mut self, id: u32, digests: &[u32]) {
        let check = &self.checksums.checks[id];
        for (row, &digest) in (check.rows.first..).zip(digests) {
            self.checksums.set(self.own.bytes_mut(), check.place, (check.role, check.at(row)), digest);
        }
    }

    /// Writes the tags of a check, and with [`Part::Data`] its data, too.
    fn write_for_check(&mut self, id: u32, part: Part) {
        if self.check_is_orphaned(id) {
            return self.end_check(id, Err(MemberError::Gone));
        }
        let check = &mut self.checksums.checks[id];
        (check.phase, check.data, check.tags) = (Phase::Writing, Ok(()), Ok(()));
        // Nobody will be in doubt about what a read has put right once more.
        let fua = self.config.member_cache == MemberCache::On;
        let op = if check.is_read() { MemberOp::Write { fua } } else { check.op };
        if part == Part::Data {
            self.io_of_check(id, op, Part::Data);
        }
        self.io_of_check(id, op, Part::Checksums);
    }

    /// Lets a check that found a difference read again when no write is under way in its strip.
    fn check_again(&mut self, id: u32) {
        let place = core::mem::replace(&mut self.checksums.checks[id].place, NIL);
        self.checksums.give_place(place);
        self.take_line(id);
    }

    fn end_check(&mut self, id: u32, result: Result<(), MemberError>) {
        let rows = self.checksums.checks[id].rows;
        self.end_check_with(id, result, rows);
    }

    /// Ends a check; a medium error is one of the rows `failed`.
    fn end_check_with(&mut self, id: u32, result: Result<(), MemberError>, failed: Rows) {
        let check = core::mem::take(&mut self.checksums.checks[id]);
        self.checksums.checks.give(id);
        let Check { device, strip_start, .. } = check;
        let next = if check.has_line { self.checksums.leave_line(device, strip_start) } else { None };
        if let Some(next) = next {
            self.checksums.checks[next].has_line = true;
            self.checksums.ready.push_back(next);
        }
        match next {
            _ if check.place == NIL => {}
            _ if check.is_read() && result.is_ok() && self.keep_tags(&check) => {}
            Some(next) if !check.is_read() && result.is_ok() && !self.checksums.checks[next].is_read() => {
                // It holds what is on the device now.
                self.checksums.checks[next].place = check.place;
            }
            _ => self.checksums.give_place(check.place),
        }
        self.ios.end_check(device);
        if result == Err(MemberError::Medium) {
            self.medium_error(check.owner, device, check.at(failed.first), failed.count);
        }
        self.member_io_ended(check.owner, (device, check.at(check.rows.first), check.rows.count), result);
    }

    // Tags that an operation keeps from its reads to its writes. It has its stripe locked, so nobody else
    // writes there.

    /// Leaves the tags that were read for an operation with it, if it will write to the unit.
    fn keep_tags(&mut self, check: &Check) -> bool {
        let IoOwner::Op(OpIo::Read { op, unit }) = check.owner else { return false };
        let op = self.stripes.op_mut(op);
        let may_keep = self.checksums.may_keep() && !self.metadata.is_out_of_sync(op.key);
        may_keep && op.keep_checksums(unit, check.place)
    }

    /// Takes the tags that an operation has kept for a write.
    fn take_kept_tags(&mut self, id: u32) -> Option<u32> {
        let IoOwner::Op(io) = self.checksums.checks[id].owner else { return None };
        self.stripes.op_mut(io.op()).take_checksums(io)
    }

    /// Gives back what tags an operation has kept.
    pub(crate) fn release_tags(&mut self, id: u32) {
        while let Some(place) = self.stripes.op_mut(id).take_kept_checksums() {
            self.checksums.give_place(place);
        }
    }
}
