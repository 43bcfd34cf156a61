//! Digests of the blocks of checks: against the tags that were read, and as those that are written.

use super::{Check, CheckStep, Checksums, IoPart, Surroundings};
use crate::api::{MemberError, Notice, Segment};
use crate::member_io::IoOwner;
use crate::memory_task::{MemoryTasks, TaskOwner};
use crate::outbox::Outbox;
use crate::request::Rows;
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
        let differing = self.differing_rows(id, digests, around);
        let Check { has_line, tags, .. } = self.checks[id];
        if differing.is_empty() && tags.is_ok() {
            self.end_check(id, Ok(()))
        } else if !has_line {
            self.check_again(id, around)
        } else if self.is_in_doubt(id, around) {
            self.set_tags(id, digests, around);
            self.write_for_check(id, IoPart::Checksums, around)
        } else if self.is_orphaned(id, around.metadata) {
            // What a device holds that has left is nobody's concern, and there is no place to restore it to.
            self.end_check(id, Err(MemberError::Gone))
        } else {
            self.tell_of_differing_rows(id, digests, around);
            self.end_check_with(id, Err(MemberError::Medium), differing)
        }
    }

    fn row_differs(&self, id: u32, row: u32, digests: &[u32], around: &Surroundings<'_>) -> bool {
        let check = &self.checks[id];
        let Some(&digest) = digests.get((row - check.rows.first) as usize) else { return false };
        let address = (check.role, check.at(row));
        !self.agrees((around.own.bytes(), around.written), check.place, address, digest)
    }

    /// The hull of the rows whose tags say otherwise.
    #[inline]
    fn differing_rows(&self, id: u32, digests: &[u32], around: &Surroundings<'_>) -> Rows {
        let rows = self.checks[id].rows;
        let differing = (rows.first..rows.end()).filter(|&row| self.row_differs(id, row, digests, around));
        differing.fold(Rows::NONE, |hull, row| hull.hull(Rows::between(row, row + 1)))
    }

    /// Counts the rows whose tags say otherwise, and tells the operator run by run.
    fn tell_of_differing_rows(&self, id: u32, digests: &[u32], around: &mut Surroundings<'_>) {
        let Check { rows, device, strip_start, .. } = self.checks[id];
        let mut run = Rows { first: rows.first, count: 0 };
        for row in rows.first..=rows.end() {
            if row < rows.end() && self.row_differs(id, row, digests, around) {
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
