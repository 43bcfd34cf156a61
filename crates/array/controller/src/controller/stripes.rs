//! Routes: stripe operations from phase to phase, with the I/O and memory tasks that each asks for.
//!
//! `StripeEngine` plans what an operation does at each unit; `WriteCoalescing` decides when a write through is carried out.

use crate::api::{HostError, HostTag, IoClass, MemberError, Notice, Segment};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::host_front::Request;
use crate::ids::{LockKey, OpId, VisitId};
use crate::member_io::{HostIo, IoOwner, OpIo};
use crate::memory_task::TaskOwner;
use crate::metadata::{Stretch, SuperblockWaiter};
use crate::request::{CopySet, Rows};
use crate::scan::Purpose;
use crate::stripe_engine::{Finding, Job, Planned, Settled, StripeEngine, Surroundings, VisitStep};
use crate::write_coalescing::{self, WriteCoalescing};
use raidlab_raid::UnitPlace;
use raidlab_units::{BlockCount, MemberIndex, MemberLba, StripeIndex};

impl Controller {
    /// The stripe engine, and what planning looks at of the others.
    fn stripes(&mut self) -> (&mut StripeEngine, Surroundings<'_>) {
        let Self { stripes, geometry, metadata, ios, .. } = self;
        (stripes, Surroundings { geometry, metadata, ios })
    }

    /// Write coalescing, and what it looks at of the others.
    pub(super) fn coalescing(&mut self) -> (&mut WriteCoalescing, write_coalescing::Surroundings<'_>) {
        let (now, has_stalled) = (self.now, self.cache.has_stalled());
        let Self { coalescing, geometry, stripe_locks: locks, stripes, host, outbox, .. } = self;
        let around =
            write_coalescing::Surroundings { now, geometry, locks, stripes, host, has_stalled, outbox };
        (coalescing, around)
    }

    /// Starts an empty operation on a stripe that the caller has locked.
    pub(super) fn new_op(&mut self, key: LockKey, stripe: StripeIndex, job: Job, class: IoClass) -> OpId {
        self.stripes.begin(&self.geometry, (key, stripe), job, class)
    }

    /// Carries out what has collected and is not to be held. The world has handed in all that it has.
    pub(super) fn start_collected(&mut self) {
        self.coalescing.begin_look();
        let mut started = false;
        loop {
            let (coalescing, mut around) = self.coalescing();
            let Some(op) = coalescing.next_due(&mut around) else { break };
            self.start_through(op);
            started = true;
        }
        if started {
            self.pump();
        }
    }

    /// Carries out an operation that writes through.
    pub(super) fn start_through(&mut self, id: OpId) {
        let (coalescing, mut around) = self.coalescing();
        coalescing.start(id, &mut around);
        self.launch_op(id);
    }

    /// Has the operation looked at that collects in a stripe which is now waited for.
    pub(super) fn look_at_awaited(&mut self, key: LockKey) {
        self.coalescing.look_at_awaited(key, &mut self.stripe_locks);
    }

    /// Runs an operation whose pieces or target are in place.
    pub(super) fn launch_op(&mut self, id: OpId) {
        self.stripes.op_mut(id).sort_pieces();
        self.plan_op(id);
    }

    fn plan_op(&mut self, id: OpId) {
        let (stripes, around) = self.stripes();
        match stripes.plan(id, around) {
            Planned::Ready => self.start_reads(id),
            Planned::InLine => {}
            Planned::Impossible => self.finish_op(id, false),
        }
    }

    /// Plans an operation anew. What it gives back may be what others wait for, and it may now stand in line behind them.
    fn plan_again(&mut self, id: OpId) {
        self.release_staging(id);
        self.plan_op(id);
        self.pump_staging();
    }

    fn release_staging(&mut self, id: OpId) {
        self.stripes.release_staging(id);
        if self.checksums.is_on() {
            self.checksums.release_kept(self.stripes.op_mut(id));
        }
    }

    /// Lets operations in line for staging go on, in order, as far as there is room.
    fn pump_staging(&mut self) {
        while let Some(id) = self.stripes.next_in_line(&self.geometry) {
            self.start_reads(id);
        }
    }

    fn start_reads(&mut self, id: OpId) {
        let op = self.stripes.op_mut(id);
        op.begin_reads();
        if op.is_write() && op.reads_any() {
            self.coalescing.begin_preread(id);
        }
        let mut from = 0;
        while let Some((unit, rows, place)) = self.stripes.op(id).next_read(from) {
            from = unit + 1;
            let op = self.stripes.op_mut(id);
            if !self.metadata.holds(place) {
                // Its device was lost while the operation stood in line.
                op.note_read_failed(unit, MemberError::Gone);
                continue;
            }
            op.count_io();
            let class = op.class();
            self.member_read(place, rows, class, IoOwner::Op(OpIo::Read { op: id, unit }));
        }
        self.end_of_read(id);
    }

    /// Takes in the end of a member I/O of an operation.
    pub(super) fn op_io_ended(
        &mut self,
        io: OpIo,
        extent: (MemberIndex, MemberLba, u32),
        result: Result<(), MemberError>,
    ) {
        match io {
            OpIo::Read { op, unit } => {
                if let Err(error) = result {
                    self.stripes.op_mut(op).note_read_failed(unit, error);
                }
                self.end_of_read(op);
            }
            OpIo::WriteData { op, .. } | OpIo::WriteParity { op, .. } => {
                self.rows_written(extent, result);
                self.end_of_write(op);
            }
            OpIo::Rewrite { op, unit } => {
                self.rows_rewritten(extent, result);
                if result.is_ok() {
                    self.note_rewritten(op, unit, extent.0);
                }
                self.end_of_rewrite(op);
            }
        }
    }

    fn end_of_read(&mut self, id: OpId) {
        let op = self.stripes.op_mut(id);
        if !op.end_io() {
            return;
        }
        if op.has_read_failed() {
            return self.plan_again(id);
        }
        if self.stripes.op(id).dares() {
            self.note_read_again(id);
        }
        self.start_compute(id);
    }

    /// Takes in that an operation could read what it read, also what may be called unreadable.
    fn note_read_again(&mut self, id: OpId) {
        let Self { stripes, metadata, outbox, .. } = self;
        let mut from = 0;
        while let Some((unit, rows, place)) = stripes.op(id).next_read(from) {
            from = unit + 1;
            if let Some(device) = metadata.holder(place) {
                let lba = place.start + BlockCount(u64::from(rows.first));
                metadata.rows_read_again((device, lba, rows.count), outbox);
            }
        }
    }

    fn start_compute(&mut self, id: OpId) {
        self.stripes.op_mut(id).begin_computing();
        self.choose_partial_parity(id);
        let (bytes_in, bytes_out) = self.stripes.op(id).parity_volume(&self.geometry);
        if bytes_out == 0 {
            self.op_computed(id);
        } else {
            self.begin_computing(id);
            self.tasks.start_parity(TaskOwner::Parity { op: id }, (bytes_in, bytes_out), &mut self.outbox);
        }
    }

    /// Takes in that parity, or the recovered data, is computed.
    pub(super) fn op_computed(&mut self, id: OpId) {
        let op = self.stripes.op(id);
        match op.job() {
            Job::Write => {
                self.coalescing.end_preread(id);
                self.end_computing(id);
                self.admit(id);
                self.send_units_if_due();
            }
            Job::Recover(_) | Job::Probe(_) => self.finish_op(id, true),
            Job::Restore(_) => self.admit_rewrites(id),
            Job::Compare(..) if op.has_mended() => self.admit_rewrites(id),
            Job::Compare(..) => self.start_comparison(id),
        }
    }

    // Writes in place.

    /// Makes parity that will no longer agree with the data bad blocks, before the data is written.
    pub(super) fn give_parity_up(&mut self, id: OpId) {
        let op = self.stripes.op(id);
        if op.gives_parity_up() {
            self.metadata.spoil_parity(&self.geometry, op.key(), op.hull(), &mut self.outbox);
        }
    }

    pub(super) fn start_writes(&mut self, id: OpId) {
        if self.write_intent.has_write_log() && self.logs_first(id) {
            return;
        }
        self.stripes.op_mut(id).begin_data_writes();
        let mut first = 0;
        while first < self.stripes.op(id).pieces().len() {
            let (count, rows) = self.stripes.written_run(id, first);
            let strip = self.stripes.op(id).pieces()[first].strip;
            for copy in 0..self.geometry.copies() {
                let unit = if self.geometry.parities() > 0 { strip } else { copy };
                let place = self.stripes.op(id).places()[usize::from(unit)];
                let io = OpIo::WriteData { op: id, first_piece: first as u32, pieces: count as u32 };
                self.op_write(io, place, rows);
            }
            first += count;
        }
        if !self.config.cache.parity_after_data {
            self.start_parity_writes(id);
        }
        self.end_of_write(id);
    }

    fn start_parity_writes(&mut self, id: OpId) {
        self.stripes.op_mut(id).begin_parity_writes();
        let mut next = 0;
        loop {
            let op = self.stripes.op(id);
            let hull = op.hull();
            let found = op.new_parities(&self.geometry).nth(next);
            let Some((unit, place)) = found else { return };
            next += 1;
            self.op_write(OpIo::WriteParity { op: id, unit }, place, hull);
        }
    }

    fn op_write(&mut self, io: OpIo, place: UnitPlace, rows: Rows) {
        if !self.metadata.holds(place) {
            return;
        }
        let op = self.stripes.op_mut(io.op());
        op.count_io();
        let is_cached = self.config.member_cache == MemberCache::On;
        let fua = op.is_forced() || (is_cached && op.leaves_parity_behind(&self.geometry, &self.metadata));
        let class = op.class();
        self.member_write(place, rows, class, fua, IoOwner::Op(io));
    }

    /// Takes in the end of one write of the operation.
    fn end_of_write(&mut self, id: OpId) {
        let op = self.stripes.op_mut(id);
        if !op.end_io() {
            return;
        }
        if op.parity_is_due() {
            op.count_io();
            self.start_parity_writes(id);
            return self.end_of_write(id);
        }
        let stored = self.window_written(id);
        self.stripes.hold_pages(id, &self.geometry);
        self.end_intent(id, stored);
        if self.stripes.op_mut(id).next_window() {
            self.plan_again(id);
        } else if self.metadata.is_kept() {
            self.finish_written(id, true);
        } else {
            self.metadata.wait(SuperblockWaiter::Op(id));
        }
    }

    /// Takes in that the writes of a window have ended. Returns true if all can be read back.
    fn window_written(&mut self, id: OpId) -> bool {
        let op = self.stripes.op(id);
        if op.makes_agree(&self.geometry) {
            self.stripe_synced(op.key());
        }
        let Self { stripes, geometry, metadata, .. } = self;
        stripes.op_mut(id).note_unstored(geometry, metadata)
    }

    /// Ends an operation that may not write in place, with all windows that it has left.
    pub(super) fn give_window_up(&mut self, id: OpId) {
        self.stripes.op_mut(id).give_up(&self.geometry);
        self.finish_op(id, false);
    }

    /// Ends an operation that has written in place; `kept` unless the devices will never know what it relied on.
    pub(super) fn finish_written(&mut self, id: OpId, kept: bool) {
        let op = self.stripes.op_mut(id);
        if !kept {
            op.fail_all();
        }
        let stored = op.failed().is_empty();
        self.finish_op(id, stored);
    }

    // Comparing and restoring.

    /// Asks for the digests of what is to be compared.
    fn start_comparison(&mut self, id: OpId) {
        let Self { stripes, geometry, tasks, outbox, .. } = self;
        let op = stripes.op(id);
        if !op.compares_any(geometry) {
            return self.admit_rewrites(id);
        }
        let task = tasks.new_digest(TaskOwner::Digest { op: id });
        let bytes = u64::from(op.hull().count) * geometry.block_bytes();
        match op.trial_rows(geometry) {
            Some(sum) => tasks.add_rows(task, sum),
            None => op.for_each_compared(geometry, |buffer| tasks.add_rows(task, Segment { buffer, bytes })),
        }
        tasks.start_digest(task, outbox);
    }

    /// Takes in the digests of a comparison; none from a world that carries no bytes.
    pub(super) fn op_digested(&mut self, id: OpId, digests: &[u32]) {
        let visit = self.stripes.op(id).step().visit;
        let makes_agree = self.scan.purpose(visit).makes_agree();
        match self.stripes.take_digests(id, &self.geometry, digests, makes_agree) {
            Finding::Settled(settled) => {
                self.tell_found(id, settled);
                self.admit_rewrites(id);
            }
            Finding::Mixed => {
                self.scan.compare_singly(visit);
                self.finish_op(id, true);
            }
            Finding::Suspects => self.start_trial(id),
            Finding::Mends(settled) => {
                self.tell_found(id, settled);
                self.start_trial(id);
            }
        }
    }

    /// Asks for the memory work of a trial.
    fn start_trial(&mut self, id: OpId) {
        let volume = self.stripes.op(id).trial_volume(&self.geometry);
        self.tasks.start_parity(TaskOwner::Parity { op: id }, volume, &mut self.outbox);
    }

    /// Counts what a comparison has found, and tells the operator what is wrong by the evidence, and where that says nothing.
    fn tell_found(&mut self, id: OpId, Settled { mismatched, undecided }: Settled) {
        let Self { stripes, scan, metadata, geometry, outbox, .. } = self;
        let op = stripes.op(id);
        scan.count(op.step().visit, |counts| {
            counts.mismatched_rows += mismatched;
            counts.undecided_rows += undecided;
        });
        if undecided > 0 {
            scan.note_undecided(op.rows_in_question(geometry), outbox);
        } else if !scan.purpose(op.step().visit).makes_agree() {
            scan.note_wrong(mismatched);
        }
        if op.trusts_data() {
            return;
        }
        for (place, rows) in op.wrong_rows() {
            if let Some(member) = metadata.holder(place) {
                let (lba, blocks) = (place.start + BlockCount(u64::from(rows.first)), u64::from(rows.count));
                outbox.notify(Notice::Outvoted { member, lba, blocks: BlockCount(blocks) });
            }
        }
    }

    /// Lets an operation in the background write, once no record of its stripe is left that a start would write over that. Its own
    /// writes have none, and make good what a start passes over: a bad block, or redundancy that a later record could not update.
    fn admit_rewrites(&mut self, id: OpId) {
        let op = self.stripes.op(id);
        if op.rewrites_any() && self.write_intent.may_be_replayed(op.stripe()) && !self.metadata.is_frozen() {
            self.metadata.want_drained();
            return self.metadata.wait(SuperblockWaiter::Rewrite(id));
        }
        self.start_rewrites(id);
    }

    /// Writes what an operation in the background has to write.
    pub(super) fn start_rewrites(&mut self, id: OpId) {
        let op = self.stripes.op_mut(id);
        if op.is_comparison() && self.metadata.touches_lost(&self.geometry, op.key()) {
            // Nothing may change there any more: the lost device comes back as if nothing had happened.
            return self.finish_op(id, false);
        }
        op.begin_rewrites();
        let (visit, class, compares) = (op.step().visit, op.class(), op.is_comparison());
        // Nothing will resync the stripe once more.
        let syncs = self.scan.purpose(visit).syncs();
        let fua = syncs && self.config.member_cache == MemberCache::On;
        for unit in 0..self.geometry.lock_units() {
            let Some((place, rows)) = self.stripes.op(id).rewrite(unit) else { continue };
            let device =
                if compares { self.metadata.holder(place) } else { self.restored_device(visit, place) };
            let Some(device) = device else { continue };
            self.stripes.op_mut(id).count_io();
            let owner = IoOwner::Op(OpIo::Rewrite { op: id, unit });
            self.device_write(device, place, rows, class, fua, owner);
        }
        self.end_of_rewrite(id);
    }

    /// The device that takes what a visit restores, while it plays the role.
    fn restored_device(&self, visit: VisitId, place: UnitPlace) -> Option<MemberIndex> {
        let device = self.scan.device(visit);
        (self.metadata.player(place.member) == Some(device)).then_some(device)
    }

    /// Counts rows that were written, and tells the operator of those that could not be read before.
    fn note_rewritten(&mut self, id: OpId, unit: u16, device: MemberIndex) {
        let op = self.stripes.op(id);
        let visit = op.step().visit;
        let Some((place, rows)) = op.rewrite(unit) else { return };
        self.scan.count(visit, |counts| counts.rewritten_rows += u64::from(rows.count));
        if op.is_unreadable(unit) && self.scan.purpose(visit) != Purpose::Rebuild {
            let lba = place.start + BlockCount(u64::from(rows.first));
            let blocks = BlockCount(u64::from(rows.count));
            self.outbox.notify(Notice::Restored { member: device, lba, blocks });
        }
    }

    fn end_of_rewrite(&mut self, id: OpId) {
        if self.stripes.op_mut(id).end_io() {
            self.finish_op(id, true);
        }
    }

    /// Takes in a medium error, before the owner of the I/O does. What a read could not get is queued for read repair, unless the
    /// read belongs to a visit, which repairs it itself.
    pub(super) fn medium_error(&mut self, owner: IoOwner, device: MemberIndex, lba: MemberLba, rows: u32) {
        match owner {
            // It is read again strip by strip.
            IoOwner::Host(HostIo::Read { fragment, .. })
                if fragment.rows.end() > self.geometry.strip_rows() =>
            {
                return;
            }
            IoOwner::Host(HostIo::Read { .. }) | IoOwner::Fill { .. } => {}
            IoOwner::Op(OpIo::Read { op, unit }) => {
                let op = self.stripes.op(op);
                let is_target = op.job().step().is_some_and(|step| step.unit == unit);
                // Two read errors of a stripe could call each other into line for ever: where a device is lost, and while reads of both
                // fail that are written again in between. The next read meets what is left.
                let is_chain = matches!(op.job(), Job::Restore(step)
                    if self.metadata.touches_lost(&self.geometry, op.key())
                        || self.scan.purpose(step.visit) == Purpose::ReadError);
                // So could two that are tried although they are known to be bad.
                if op.is_comparison() || is_target || is_chain || op.dares() {
                    return;
                }
            }
            _ => return,
        }
        // What is on the list has been tried.
        let Stretch { bad, blocks } = self.metadata.bad_stretch(device, lba, u64::from(rows));
        if !bad || blocks < u64::from(rows) {
            self.repair_later(device, lba, rows);
        }
    }

    // The end.

    fn finish_op(&mut self, id: OpId, succeeded: bool) {
        self.release_staging(id);
        self.coalescing.end_preread(id);
        let op = self.stripes.op(id);
        let (job, key) = (*op.job(), op.key());
        match job {
            Job::Recover(target) if succeeded => self.end_part(target.request, Ok(())),
            // Bad blocks seldom lie in the same rows of two units.
            Job::Recover(target) if target.rows.count > 1 => self.read_row_by_row(target),
            Job::Recover(target) => {
                self.stripes.end(id);
                // It keeps the stripe locked.
                self.read_from_members(target, CopySet::LAST_ROUND);
                return self.pump_staging();
            }
            Job::Write => {
                for index in 0..self.stripes.op(id).told().len() {
                    let request = self.stripes.op(id).told()[index];
                    let result = self.result_for(id, request);
                    self.end_part(request, result);
                }
                self.end_destage(id);
                self.coalescing.end(self.now, (id, key), &mut self.stripe_locks);
            }
            Job::Restore(VisitStep { visit, .. })
            | Job::Probe(VisitStep { visit, .. })
            | Job::Compare(VisitStep { visit, .. }, _) => {
                self.scan.take_unreadable(visit, self.stripes.op_mut(id));
                self.stripes.end(id);
                // The stripe stays locked until the visit ends.
                self.visit_step_done(visit, succeeded);
                return self.pump_staging();
            }
        }
        self.stripes.end(id);
        self.unlock(key);
        self.pump_staging();
    }

    /// What a write comes to for one of the requests that wanted some of it.
    pub(super) fn result_for(&self, id: OpId, request: HostTag) -> Result<(), HostError> {
        let Request { lba, blocks, .. } = self.host.request(request);
        let failed = self.stripes.op(id).failed().first_in(lba, blocks);
        failed.map_or(Ok(()), |lba| Err(HostError::ArrayFailed { lba }))
    }
}
