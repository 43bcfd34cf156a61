//! Digests of the blocks of checks: against the tags that were read, and as those that are written.

use super::{Check, CheckStep, Checksums, IoPart, Phase, Surroundings};
use crate::api::{MemberError, Notice, Segment};
use crate::member_io::IoOwner;
use crate::memory_task::{MemoryTasks, TaskOwner};
use crate::outbox::Outbox;
use crate::request::Rows;
use crate::table::NIL;
use raidlab_units::BlockCount;

impl Checksums {
    /// Who asked for the I/O of a check, for how many blocks, and a list for where these lie.
    #[inline]
    pub(crate) fn begin_digest(&mut self, id: u32) -> (IoOwner, u32, Vec<Segment>) {
        let mut segments = core::mem::take(&mut self.segments);
        segments.clear();
        let Check { owner, rows, .. } = self.checks[id];
        (owner, rows.count, segments)
    }

    /// Asks for the digests of a check's blocks.
    #[inline]
    pub(crate) fn digest(
        &mut self,
        id: u32,
        segments: Vec<Segment>,
        tasks: &mut MemoryTasks,
        outbox: &mut Outbox,
    ) {
        let task = tasks.new_digest(TaskOwner::Checksums { check: id });
        for segment in &segments {
            tasks.add_rows(task, *segment);
        }
        self.segments = segments;
        tasks.start_digest(task, outbox);
    }

    /// Takes in the digests of a check's blocks; none from a world that carries no bytes.
    #[inline]
    pub(crate) fn digested(&mut self, id: u32, digests: &[u32], around: &mut Surroundings<'_>) -> CheckStep {
        let check = &self.checks[id];
        let rows = check.rows;
        assert!(digests.is_empty() || digests.len() == rows.count as usize, "a digest for each row");
        if !check.is_read() {
            self.set_tags(id, digests, around);
            return self.write_for_check(id, IoPart::Data, around);
        }
        let Check { has_line, tags, .. } = self.checks[id];
        if !has_line && self.waits_for_region(id, around) {
            return CheckStep::Waits;
        }
        let differing = self.rows_where(id, |row| self.row_differs(id, row, digests, around));
        if differing.is_empty() && tags.is_ok() {
            return self.end_check(id, Ok(()));
        } else if !has_line {
            return self.check_again(id, around);
        }
        let is_in_doubt = self.is_in_doubt(id, around);
        let is_wrong = |checks: &Self, row: u32, around: &Surroundings<'_>| {
            // A crash leaves old tags or new ones, but never zeros.
            if is_in_doubt {
                checks.row_vanished(id, row, around)
            } else {
                checks.row_differs(id, row, digests, around)
            }
        };
        let wrong = self.rows_where(id, |row| is_wrong(self, row, around));
        if is_in_doubt && wrong.is_empty() {
            self.set_tags(id, digests, around);
            self.write_for_check(id, IoPart::Checksums, around)
        } else if self.is_orphaned(id, around.metadata) {
            // What a device holds that has left is nobody's concern, and there is no place to restore it to.
            self.end_check(id, Err(MemberError::Gone))
        } else {
            self.tell_of_rows(id, around, is_wrong);
            self.end_check_with(id, Err(MemberError::Medium), wrong)
        }
    }

    /// Lets a read wait until it is known whether its region was written, if no device says so. It gives back what others may need for
    /// that, and reads again then.
    fn waits_for_region(&mut self, id: u32, around: &mut Surroundings<'_>) -> bool {
        let Check { place, strip_start, .. } = self.checks[id];
        if !around.written.settle_for(id, strip_start) {
            return false;
        }
        self.checks[id].phase = Phase::Waiting;
        self.checks[id].place = NIL;
        self.give_place(place);
        true
    }

    fn row_differs(&self, id: u32, row: u32, digests: &[u32], around: &Surroundings<'_>) -> bool {
        let check = &self.checks[id];
        let Some(&digest) = digests.get((row - check.rows.first) as usize) else { return false };
        let address = (check.role, check.at(row));
        !self.agrees((around.own.bytes(), &*around.written), check.place, address, digest)
    }

    /// True if somebody has written the block, and its tag is zeros.
    fn row_vanished(&self, id: u32, row: u32, around: &Surroundings<'_>) -> bool {
        let Check { place, strip_start, .. } = self.checks[id];
        self.tag(around.own.bytes(), place, row) == 0 && around.written.is_written(strip_start)
    }

    /// The hull of the rows of a check for which something holds.
    #[inline]
    fn rows_where(&self, id: u32, holds: impl Fn(u32) -> bool) -> Rows {
        let rows = self.checks[id].rows;
        let found = (rows.first..rows.end()).filter(|row| holds(*row));
        found.fold(Rows::NONE, |hull, row| hull.hull(Rows::between(row, row + 1)))
    }

    /// Counts the rows that are wrong, and tells the operator run by run.
    fn tell_of_rows(
        &self,
        id: u32,
        around: &mut Surroundings<'_>,
        is_wrong: impl Fn(&Self, u32, &Surroundings<'_>) -> bool,
    ) {
        let Check { rows, device, strip_start, .. } = self.checks[id];
        let mut run = Rows { first: rows.first, count: 0 };
        for row in rows.first..=rows.end() {
            if row < rows.end() && is_wrong(self, row, around) {
                run.count += 1;
                continue;
            }
            if !run.is_empty() {
                let blocks = BlockCount(u64::from(run.count));
                around.outbox.count_mismatched(blocks.0);
                let lba = strip_start + BlockCount(u64::from(run.first));
                around.outbox.notify(Notice::Mismatch { member: device, lba, blocks });
            }
            run = Rows { first: row + 1, count: 0 };
        }
    }

    #[inline]
    fn set_tags(&self, id: u32, digests: &[u32], around: &mut Surroundings<'_>) {
        let check = &self.checks[id];
        for (row, &digest) in (check.rows.first..).zip(digests) {
            self.set(around.own.bytes_mut(), check.place, (check.role, check.at(row)), digest);
        }
    }
}
