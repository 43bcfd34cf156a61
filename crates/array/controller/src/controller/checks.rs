//! Routes: member I/Os of data that has checksums.

use crate::api::{IoClass, MemberError, MemberOp};
use crate::checksums::{CheckEnd, CheckStep, Checksums, Surroundings};
use crate::controller::Controller;
use crate::member_io::{IoOwner, IoPart};
use raidlab_units::{MemberIndex, MemberLba};

impl Controller {
    /// The checksums, and what checks look at of the others.
    #[inline]
    fn checksums(&mut self) -> (&mut Checksums, Surroundings<'_>) {
        let Self { checksums, written, geometry, metadata, stripes, scan, own, ios, outbox, .. } = self;
        (checksums, Surroundings { geometry, metadata, written, stripes, scan, own, ios, outbox })
    }

    /// Reads or writes blocks with their checksums.
    pub(super) fn begin_check(
        &mut self,
        extent: (MemberIndex, MemberLba, u32),
        op: MemberOp,
        class: IoClass,
        owner: IoOwner,
    ) {
        let (checksums, mut around) = self.checksums();
        let step = checksums.begin(extent, op, class, owner, &mut around);
        self.go_on_with_check(step);
    }

    /// Takes in the end of an I/O of a check.
    #[inline]
    pub(super) fn check_io_done(
        &mut self,
        check: u32,
        part: IoPart,
        member: MemberIndex,
        result: Result<(), MemberError>,
    ) {
        if result == Err(MemberError::Gone) {
            self.fail_member(member);
        }
        let (checksums, mut around) = self.checksums();
        let step = checksums.io_done(check, part, result, &mut around);
        self.go_on_with_check(step);
    }

    /// Tries a read of a check again that has failed.
    pub(super) fn check_again(&mut self, check: u32, part: IoPart, tries: u8) {
        let (checksums, mut around) = self.checksums();
        checksums.read_again(check, part, tries, &mut around);
    }

    /// Goes on with a check that waited for an unknown region, whatever came of that.
    pub(super) fn check_settled(&mut self, check: u32) {
        let (checksums, mut around) = self.checksums();
        let step = checksums.take_line(check, &mut around);
        self.go_on_with_check(step);
    }

    /// Takes in the digests of a check's blocks; none from a world that carries no bytes.
    pub(super) fn check_digested(&mut self, check: u32, digests: &[u32]) {
        let (checksums, mut around) = self.checksums();
        let step = checksums.digested(check, digests, &mut around);
        self.go_on_with_check(step);
    }

    /// Goes on with checks whose turn has come. Returns true if there were any.
    pub(super) fn pump_checks(&mut self) -> bool {
        let mut any = false;
        loop {
            let (checksums, mut around) = self.checksums();
            let Some(step) = checksums.next_ready(&mut around) else { return any };
            self.go_on_with_check(step);
            any = true;
        }
    }

    #[inline]
    fn go_on_with_check(&mut self, step: CheckStep) {
        match step {
            CheckStep::Waits => {}
            CheckStep::Digest(check) => self.digest_check(check),
            CheckStep::End(check) => self.end_check(check),
        }
    }

    #[inline(never)]
    fn digest_check(&mut self, check: u32) {
        let (owner, rows, mut segments) = self.checksums.begin_digest(check);
        self.owner_segments(owner, rows, &mut segments);
        self.checksums.digest(check, segments, &mut self.tasks, &mut self.outbox);
    }

    #[inline(never)]
    fn end_check(&mut self, check: u32) {
        let (checksums, mut around) = self.checksums();
        let CheckEnd { owner, extent, result, failed: (lba, rows) } = checksums.end(check, &mut around);
        if result == Err(MemberError::Medium) {
            self.medium_error(owner, extent.0, lba, rows);
        }
        self.member_io_ended(owner, extent, result);
    }
}
