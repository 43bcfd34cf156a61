//! Routes: what the background scan asks for, which is stripe locks, stripe operations and member flushes.

use crate::api::IoClass;
use crate::controller::Controller;
use crate::ids::{LockKey, VisitId};
use crate::member_io::IoOwner;
use crate::metadata::SuperblockWaiter;
use crate::request::{Fragment, Rows};
use crate::scan::{
    Begun, NextStep, PassedStrip, Purpose, STARTS_MAX, ScanChange, StepKind, Surroundings, VisitEnd,
};
use crate::stripe_engine::{Comparison, Job, VisitStep};
use crate::stripe_locks::WaitKind;
use raidlab_units::{MemberIndex, MemberLba};
use std::collections::VecDeque;

impl Controller {
    /// Begins, goes on with and ends scans and read repairs, as far as there is something to do.
    #[inline]
    pub(super) fn pump_scan(&mut self) {
        if !self.scan.is_quiet(&self.metadata) && self.start.is_serving() {
            self.move_scan_on();
            self.let_host_in();
        }
    }

    /// Begins the requests that came in a slice of the scan, when that is over.
    #[inline(never)]
    fn let_host_in(&mut self) {
        while !self.scan.holds_host()
            && let Some(request) = self.start.next_waiting()
        {
            self.begin_request(request);
        }
    }

    #[inline(never)]
    fn move_scan_on(&mut self) {
        if self.scan.is_due(&self.metadata) {
            if let Some(line) = self.scan.look(&self.metadata, &mut self.outbox) {
                self.leave_ended(line);
            }
            self.metadata.assign_spares();
        }
        while let Some(visit) = self.scan.begin_read_repair() {
            self.line_up_visit(visit);
        }
        for _ in 0..STARTS_MAX {
            self.change_scan();
            let Self { scan, metadata, geometry, outbox, now, host, .. } = self;
            match scan.begin_visit(*now, host.requests_made(), geometry, metadata, outbox) {
                Begun::Nothing => return,
                Begun::Passed => {}
                Begun::Visit(id) => self.line_up_visit(id),
            }
        }
        self.scan.set_timer(self.now, &mut self.outbox);
    }

    /// Changes which scan runs, for as long as there is something to change.
    fn change_scan(&mut self) {
        loop {
            let Self { scan, metadata, geometry, outbox, .. } = self;
            match scan.change(&mut Surroundings { geometry, metadata, outbox }) {
                ScanChange::Nothing => return,
                ScanChange::Begun => {}
                ScanChange::Ended(line) => self.leave_ended(line),
                ScanChange::Flush(scan) => {
                    self.flush_members(IoOwner::BoundaryFlush { scan });
                    return;
                }
            }
        }
    }

    /// Gives up the stripes of visits that stood in line behind the boundary of a rebuild that has ended.
    fn leave_ended(&mut self, line: VecDeque<VisitId>) {
        for visit in line {
            if self.scan.has_visit_ended(visit) {
                self.leave_stripe(visit);
            }
        }
    }

    /// Starts a visit when its stripe is free.
    fn line_up_visit(&mut self, id: VisitId) {
        let (key, purpose) = (self.scan.stripe_of(id), self.scan.purpose(id));
        let is_resync = purpose == Purpose::Resync;
        if (is_resync && self.stripe_locks.lock(key))
            || self.lock_or_wait(key, WaitKind::Visit(id), Fragment::default())
        {
            self.start_visit(id);
        }
    }

    /// Resyncs a stripe, which is locked, before the host has it.
    pub(super) fn resync_stripe(&mut self, key: LockKey) {
        self.resync_rows(key, &[Rows { first: 0, count: self.geometry.strip_rows() }]);
    }

    /// The same where only these rows may disagree.
    pub(super) fn resync_rows(&mut self, key: LockKey, rows: &[Rows]) {
        let id = self.scan.new_sync_first(key, rows);
        self.start_visit(id);
    }

    /// Starts a visit whose stripe is locked for it.
    pub(super) fn start_visit(&mut self, id: VisitId) {
        let Self { scan, metadata, geometry, outbox, .. } = self;
        if scan.start_visit(id, &mut Surroundings { geometry, metadata, outbox }) {
            self.stripe_locks.set_syncing(self.scan.stripe_of(id), true);
        }
        self.drive_visit(id);
    }

    /// Takes in the end of an operation of the visit.
    pub(super) fn visit_step_done(&mut self, id: VisitId, succeeded: bool) {
        if self.scan.end_step(id, succeeded) {
            self.drive_visit(id);
        }
    }

    /// Goes from step to step, until one takes time or the visit has ended.
    fn drive_visit(&mut self, id: VisitId) {
        loop {
            let Self { scan, metadata, geometry, outbox, .. } = self;
            match scan.next_step(id, &mut Surroundings { geometry, metadata, outbox }) {
                NextStep::End(end) => return self.visit_ended(id, end),
                NextStep::Op { kind, unit, rows } => self.launch_step_op(id, kind, unit, rows),
            }
            if !self.scan.has_step_ended(id) {
                return;
            }
        }
    }

    /// Asks for the next step of a visit: an operation on rows of a unit.
    fn launch_step_op(&mut self, visit: VisitId, kind: StepKind, unit: u16, rows: Rows) {
        let key = self.scan.stripe_of(visit);
        let (stripe, _) = self.geometry.lock_start(key);
        let syncs_first = self.scan.purpose(visit) == Purpose::SyncFirst;
        let class = if syncs_first { IoClass::Host } else { IoClass::Background };
        let step = VisitStep { visit, unit, rows };
        let job = match kind {
            StepKind::Restore => Job::Restore(step),
            StepKind::Probe => Job::Probe(step),
            StepKind::Compare => Job::Compare(step, self.comparison(visit, key)),
        };
        let id = self.new_op(key, stripe, job, class);
        self.launch_op(id);
    }

    /// How a visit compares the stripe of a lock.
    fn comparison(&self, visit: VisitId, key: LockKey) -> Comparison {
        let purpose = self.scan.purpose(visit);
        Comparison {
            has_checksums: self.checksums.is_on(),
            trusts_data: purpose.trusts_data() || self.metadata.is_out_of_sync(key),
            has_restored: self.scan.has_restored(visit),
            ..Comparison::default()
        }
    }

    /// Ends a visit, or lets it wait until the superblock names the devices and blocks that are missing.
    pub(super) fn visit_ended(&mut self, id: VisitId, end: VisitEnd) {
        let key = self.scan.stripe_of(id);
        if self.scan.purpose(id).syncs() && end == VisitEnd::Done {
            if self.metadata.lacks_copy_unknown(&self.geometry, key) {
                return self.metadata.wait(SuperblockWaiter::Visit(id));
            }
            if self.geometry.parities() > 0 || !self.metadata.touches_lost(&self.geometry, key) {
                self.stripe_synced(key);
            }
        }
        if self.scan.end_visit(id) {
            self.leave_stripe(id);
        } else {
            self.pass_strips();
        }
    }

    /// Moves the boundary of the rebuild over all strips that are restored without a gap.
    fn pass_strips(&mut self) {
        while let Some(PassedStrip { visit, flush }) =
            self.scan.pass_strip(&self.geometry, &mut self.metadata)
        {
            if let Some(scan) = flush {
                self.flush_members(IoOwner::BoundaryFlush { scan });
            }
            self.leave_stripe(visit);
        }
    }

    /// Unlocks the stripe of a visit that is over, for those that wait for it.
    fn leave_stripe(&mut self, id: VisitId) {
        let key = self.scan.stripe_of(id);
        self.scan.forget_visit(id);
        self.stripe_locks.set_syncing(key, false);
        self.unlock(key);
    }

    /// Puts rows of a device in line to be written again, or to be called bad.
    pub(super) fn repair_later(&mut self, device: MemberIndex, lba: MemberLba, rows: u32) {
        self.scan.repair_later(&self.geometry, &self.metadata, (device, lba, rows));
    }
}
