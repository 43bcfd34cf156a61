//! Routes: member I/Os and memory tasks go out for a part and their ends come back to it.
//!
//! The part that owns an I/O knows what its end means and where its bytes lie.

use crate::api::{
    Area, HostTag, IoClass, MemberError, MemberIo, MemberIoId, MemberOp, MemorySteps, MemoryTaskId, Segment,
};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::discard::Run;
use crate::geometry::UnitRow;
use crate::member_io::{BesideIo, HostIo, IntentIo, IoOwner, IoPart, IoState, OpIo};
use crate::memory_task::TaskOwner;
use crate::own::{self, own_buffer};
use crate::request::{CopySet, Rows};
use crate::retries::Retry;
use crate::stripe_engine::Job;
use crate::table::NIL;
use raidlab_raid::UnitPlace;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Rows of a device that an I/O was for.
type Extent = (MemberIndex, MemberLba, u32);

impl Controller {
    fn member_io(
        &mut self,
        member: MemberIndex,
        op: MemberOp,
        lba: MemberLba,
        rows: u32,
        class: IoClass,
        owner: IoOwner,
    ) {
        if self.checksums.is_on() {
            return self.begin_check((member, lba, rows), op, class, owner);
        }
        let blocks = BlockCount(u64::from(rows));
        let id = MemberIoId(0);
        let io = MemberIo { id, member, op, area: Area::Data, lba, blocks, class };
        self.ios.begin_for(owner, io, &mut self.outbox);
    }

    /// Reads `rows` of the unit at `place`.
    #[inline]
    pub(super) fn member_read(&mut self, place: UnitPlace, rows: Rows, class: IoClass, owner: IoOwner) {
        let device = self.metadata.holder(place).expect("only what a device holds is read from it");
        let lba = place.start + BlockCount(u64::from(rows.first));
        self.member_io(device, MemberOp::Read, lba, rows.count, class, owner);
    }

    /// Writes `rows` of the unit at `place`.
    pub(super) fn member_write(
        &mut self,
        place: UnitPlace,
        rows: Rows,
        class: IoClass,
        fua: bool,
        owner: IoOwner,
    ) {
        let device = self.metadata.holder(place).expect("only a device that holds the place is written");
        self.device_write(device, place, rows, class, fua, owner);
    }

    /// Writes `rows` of the unit at `place` on a device that need not hold it yet.
    pub(super) fn device_write(
        &mut self,
        device: MemberIndex,
        place: UnitPlace,
        rows: Rows,
        class: IoClass,
        fua: bool,
        owner: IoOwner,
    ) {
        let lba = place.start + BlockCount(u64::from(rows.first));
        // What takes bad blocks off their list must be there to stay: under it are old bytes, or none.
        let heals = self.metadata.any_bad() && self.metadata.overlaps_bad(device, lba, u64::from(rows.count));
        let fua = fua || (heals && self.config.member_cache == MemberCache::On);
        self.member_io(device, MemberOp::Write { fua }, lba, rows.count, class, owner);
    }

    /// Has a device that holds a range forget it.
    pub(super) fn member_discard(&mut self, Run { device, lba, rows }: Run, request: HostTag) {
        let owner = IoOwner::Host(HostIo::Discard { request });
        self.member_io(device, MemberOp::Discard, lba, rows, IoClass::Host, owner);
    }

    /// Makes what all devices that answer have completed durable. Returns how many these are.
    pub(super) fn flush_members(&mut self, owner: IoOwner) -> u32 {
        let Self { metadata, ios, outbox, .. } = self;
        let devices = metadata.answering();
        ios.flush_all(devices, owner, outbox)
    }

    /// Takes in the end of a member I/O.
    pub(super) fn member_io_done(&mut self, id: u32, result: Result<(), MemberError>) {
        let state = self.ios.end(id);
        let IoState { owner, member, lba, rows, check, part, .. } = state;
        if let IoOwner::Beside(io) = owner {
            return self.beside_io_ended(io, member, result);
        }
        if result == Err(MemberError::Medium) && self.reads_later(state) {
            return;
        }
        if check != NIL {
            return self.check_io_done(check, part, member, result);
        }
        if result == Err(MemberError::Medium) {
            self.medium_error(owner, member, lba, rows);
        }
        self.member_io_ended(owner, (member, lba, rows), result);
    }

    // Reads that are tried again.

    /// Lets a read that has failed wait to be tried again, where nothing else has what it was for. Returns false where it is not.
    fn reads_later(&mut self, state: IoState) -> bool {
        let Some(role) = self.metadata.role(state.member).filter(|role| self.is_last_resort(*role, &state))
        else {
            return false;
        };
        let waits = self.retries.put(self.now, (role, state), &mut self.outbox);
        if waits {
            // The device is not done with before that is.
            self.ios.begin_check(state.member, MemberOp::Read, state.lba, state.rows);
        }
        waits
    }

    /// True if too little would be left of rows without what could not be read, so that they would be errors, or be given up. So are
    /// those whose checksums a write leaves as they are: it would make them unknown.
    fn is_last_resort(&self, role: MemberIndex, state: &IoState) -> bool {
        let Self { geometry, metadata, .. } = self;
        let (mut tried, mut failed) = (CopySet::NONE, [].as_slice());
        match state.owner {
            _ if self.checksums.reads_for_write(state.check) => return true,
            IoOwner::Host(HostIo::Read { tried: of_read, .. }) => tried = of_read,
            IoOwner::Op(OpIo::Read { op, .. }) => failed = self.stripes.op(op).unreadable(),
            IoOwner::Intent(IntentIo::ReplayCheck { .. }) => {}
            IoOwner::Intent(io) => return io.reads_record() && self.write_intent.is_at_last_copy(),
            _ => return false,
        }
        let Some(UnitRow { key, unit, row }) = geometry.unit_at(role, state.lba) else { return false };
        let rows = Rows { first: row, count: state.rows };
        // What is read of several strips at once is read strip by strip then, and what is on the list has been tried.
        if rows.end() > geometry.strip_rows() || metadata.is_bad(geometry.lock_place(key, unit), rows) {
            return false;
        }
        // What dares has tried without, and forgotten what failed then.
        let is_insisting = match state.owner {
            IoOwner::Op(OpIo::Read { op, .. }) => {
                let op = self.stripes.op(op);
                op.dares() || matches!(op.job(), Job::Probe(_))
            }
            _ => false,
        };
        let is_lacking = |it: u16| it == unit || tried.contains(it) || failed.contains(&it);
        tried.is_last_round() || is_insisting || !metadata.can_make_up(geometry, key, rows, is_lacking)
    }

    /// Tries the reads again whose time has come.
    pub(super) fn retries_due(&mut self) {
        while let Some(Retry { role, state, .. }) = self.retries.next_due(self.now, &mut self.outbox) {
            let IoState { owner, member, lba, rows, check, part, tries } = state;
            self.ios.end_check(member);
            let is_there = self.metadata.role(member) == Some(role);
            match (check, is_there) {
                (NIL, true) => self.read_again(state),
                (NIL, false) => self.member_io_ended(owner, (member, lba, rows), Err(MemberError::Gone)),
                (_, true) => self.check_again(check, part, tries),
                (_, false) => self.check_io_done(check, part, member, Err(MemberError::Gone)),
            }
        }
    }

    fn read_again(&mut self, state: IoState) {
        let IoState { owner, member, lba, rows, .. } = state;
        let class =
            if let IoOwner::Op(io) = owner { self.stripes.op(io.op()).class() } else { IoClass::Host };
        let is_record = matches!(owner, IoOwner::Intent(io) if io.reads_record());
        let area = if is_record { Area::Metadata } else { Area::Data };
        let blocks = BlockCount(u64::from(rows));
        let io = MemberIo { id: MemberIoId(0), member, op: MemberOp::Read, area, lba, blocks, class };
        self.ios.begin(io, state, &mut self.outbox);
    }

    /// Passes the end of a member I/O, or of one with checksums, to its owner. A medium error has been handled before.
    pub(super) fn member_io_ended(
        &mut self,
        owner: IoOwner,
        extent: Extent,
        result: Result<(), MemberError>,
    ) {
        let (member, ..) = extent;
        if result == Err(MemberError::Gone) {
            self.fail_member(member);
        }
        match owner {
            IoOwner::Nobody => unreachable!("what is under way has an owner"),
            IoOwner::Host(io) => self.host_io_ended(io, extent, result),
            IoOwner::Fill { fill } => self.fill_done(fill, result),
            IoOwner::Op(io) => self.op_io_ended(io, extent, result),
            IoOwner::Superblock => self.superblock_write_done(member, result),
            IoOwner::Tags => self.tags_initialised(extent, result),
            IoOwner::WrittenPage => self.page_written(member, result),
            IoOwner::Intent(io) => self.intent_io_ended(io, extent, result),
            IoOwner::Beside(_) => unreachable!("ended before"),
            IoOwner::BoundaryFlush { scan: number } => {
                self.fail_on_flush_error(member, result);
                let Self { scan, metadata, geometry, .. } = self;
                scan.boundary_flushed(geometry, metadata, (number, member), result);
            }
            IoOwner::StartFlush => {
                self.fail_on_flush_error(member, result);
                self.start.end_flush();
            }
            IoOwner::StopFlush => {
                self.fail_on_flush_error(member, result);
                self.stop.end_flush();
            }
        }
        self.admit_again(member);
    }

    /// Takes in the end of a write of rows: what was written is good again, what could not be is bad.
    #[inline]
    pub(super) fn rows_written(&mut self, extent: Extent, result: Result<(), MemberError>) {
        self.metadata.rows_written(&self.geometry, extent, result, &mut self.outbox);
    }

    /// The same where the array itself has written, and not what the host wants: what is in cache of these rows may be of a copy
    /// that is no more, and must not outlive it. All rewrites in the background and at a start end here.
    pub(super) fn rows_rewritten(&mut self, extent: Extent, result: Result<(), MemberError>) {
        let (device, lba, rows) = extent;
        self.rows_written(extent, result);
        self.forget_rows(device, lba, u64::from(rows));
    }

    /// Forgets what is in cache of blocks that have been given up: they are errors, and not what was read of them before.
    #[inline]
    pub(super) fn forget_given_up(&mut self) {
        while let Some((device, lba, blocks)) = self.metadata.next_given_up() {
            self.forget_rows(device, lba, blocks);
        }
    }

    /// Drops what is kept in memory of rows of a device, unless it is newer than what the members have.
    #[inline(never)]
    fn forget_rows(&mut self, device: MemberIndex, lba: MemberLba, blocks: u64) {
        let Self { cache, stripes, geometry, metadata, .. } = self;
        if cache.is_empty() && !stripes.has_pages() {
            return;
        }
        let Some(role) = metadata.role(device) else { return };
        let (mut lba, end) = (lba, lba + BlockCount(blocks));
        while lba < end {
            let strip_rows = u64::from(geometry.strip_rows());
            let strip_end = MemberLba((lba.0 / strip_rows + 1) * strip_rows).min(end);
            let blocks = BlockCount(strip_end.0 - lba.0);
            if let Some(UnitRow { key, unit, row }) = geometry.unit_at(role, lba) {
                let (stripe, first) = geometry.lock_start(key);
                let strip = if geometry.parities() > 0 { unit } else { first };
                if usize::from(strip) < geometry.data_strips() {
                    cache.forget(geometry, geometry.strip_lba(stripe, strip, row), blocks);
                }
                stripes.forget_page(key, unit);
            }
            lba = strip_end;
        }
    }

    /// A member that could not keep what it has taken must leave the array.
    pub(super) fn fail_on_flush_error(&mut self, member: MemberIndex, result: Result<(), MemberError>) {
        if result.is_err() {
            self.fail_member(member);
        }
    }

    /// Lists the rows of a digest task. Clears `out` first; valid until the task ends. Each block of each segment, in
    /// order, is a row.
    pub fn digest_rows(&self, id: MemoryTaskId, out: &mut Vec<Segment>) {
        out.clear();
        out.extend_from_slice(self.tasks.rows(id.0));
    }

    /// Passes the end of a memory task to its owner. `digests` are those of a digest task; none where the world carries no bytes.
    pub(super) fn memory_task_done(&mut self, id: u32, digests: &[u32]) {
        let owner = self.tasks.end(id);
        let mut pins = self.tasks.take_pins(id);
        for slot in pins.drain(..) {
            self.cache.unpin(slot);
        }
        self.tasks.return_pins(id, pins);
        match owner {
            TaskOwner::Nobody => unreachable!("what is under way has an owner"),
            TaskOwner::CopyIn { request } => {
                let arrivals = self.tasks.take_arrivals(id);
                self.cache.end_copies_in(&self.geometry, &arrivals, &mut self.outbox);
                self.end_part(request, Ok(()));
                self.tasks.return_arrivals(id, arrivals);
            }
            TaskOwner::CopyOut { request } => self.end_part(request, Ok(())),
            TaskOwner::Parity { op } => self.op_computed(op),
            TaskOwner::Record { sequence } => self.record_digested(sequence, digests),
            TaskOwner::Replay => self.replay_digested(digests),
            TaskOwner::ReplayParity => self.strip_added(),
            TaskOwner::NvramRecord { sequence } => self.record_live(sequence),
            TaskOwner::NvramLabel => self.label_written(),
            TaskOwner::Digest { op } => self.op_digested(op, digests),
            TaskOwner::Checksums { check } => self.check_digested(check, digests),
        }
        self.tasks.give(id);
    }

    /// Lists where the bytes of a member I/O lie, in member block order. Clears `out` first; valid until the I/O ends.
    pub fn member_io_segments(&self, id: MemberIoId, out: &mut Vec<Segment>) {
        out.clear();
        let IoState { owner, rows, check, part, .. } = self.ios.state(id.0);
        if part != IoPart::Checksums {
            self.owner_segments(owner, rows, out);
        }
        if part != IoPart::Data {
            out.push(self.checksums.tag_segment(check));
        }
    }

    /// Adds where the bytes of `rows` blocks lie that are read or written for `owner`.
    pub(super) fn owner_segments(&self, owner: IoOwner, rows: u32, out: &mut Vec<Segment>) {
        let bytes = u64::from(rows) * self.geometry.block_bytes();
        match owner {
            IoOwner::Nobody => unreachable!("what is under way has an owner"),
            IoOwner::BoundaryFlush { .. }
            | IoOwner::StartFlush
            | IoOwner::StopFlush
            | IoOwner::Beside(BesideIo::WriteLogFlush { .. } | BesideIo::JournalFlush)
            | IoOwner::Host(HostIo::Flush { .. } | HostIo::Discard { .. }) => {}
            IoOwner::Host(HostIo::Read { fragment, .. } | HostIo::Write { fragment }) => {
                out.push(Segment { buffer: fragment.host_buffer(), bytes });
            }
            IoOwner::Superblock => out.push(Segment { buffer: own_buffer(own::STATE_AT), bytes }),
            IoOwner::WrittenPage => out.push(Segment { buffer: own_buffer(own::WRITTEN_AT), bytes }),
            IoOwner::Tags => unreachable!("only tags are read and written"),
            IoOwner::Fill { fill } => self.cache.fill_segments(&self.geometry, fill, out),
            IoOwner::Op(io) => self.stripes.op(io.op()).segments(&self.geometry, io, bytes, out),
            IoOwner::Intent(io) => {
                let Self { write_intent, geometry, stripes, own, .. } = self;
                write_intent.segments(io, rows, (geometry, stripes.ops(), own), out);
            }
            IoOwner::Beside(BesideIo::WriteLog { .. } | BesideIo::Bitmap) => {
                unreachable!("what stands in virtual time only has no bytes")
            }
        }
    }

    /// Lists the steps of a memory task, in the order in which they must be done. Clears `out` first; valid until the
    /// task ends. No world that carries bytes has [`crate::ArrayRules::stripe_cache`].
    ///
    /// # Panics
    /// If the array keeps no pages, or the task is none that was sent.
    pub fn memory_steps(&self, id: MemoryTaskId, out: &mut MemorySteps) {
        out.clear();
        assert!(!self.stripes.has_pages(), "pages that nothing holds can't be computed with");
        match self.tasks.owner(id.0) {
            TaskOwner::Nobody => unreachable!("what is under way has an owner"),
            TaskOwner::Record { .. } => unreachable!("a digest has rows and no steps"),
            TaskOwner::CopyIn { .. }
            | TaskOwner::CopyOut { .. }
            | TaskOwner::NvramRecord { .. }
            | TaskOwner::NvramLabel => self.tasks.copy_steps(id.0, out),
            // Its rows are read with [`Controller::digest_rows`].
            TaskOwner::Replay | TaskOwner::Digest { .. } | TaskOwner::Checksums { .. } => {}
            TaskOwner::Parity { op } => self.stripes.op(op).parity_steps(&self.geometry, out),
            TaskOwner::ReplayParity => self.write_intent.replay_ref().parity_steps(&self.geometry, out),
        }
    }
}
