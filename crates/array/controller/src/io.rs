//! Member I/O and memory tasks under way: who waits for each, and where its bytes lie.

use crate::api::{
    Area, BufferRef, BufferSpace, HostError, IoClass, MemberError, MemberIo, MemberIoId, MemberOp,
    MemoryKind, MemoryTask, MemoryTaskId, Segment,
};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::integrity::Part;
use crate::own::{self, own_buffer};
use crate::request::{CopySet, Fragment, Rows};
use crate::table::NIL;
use crate::units::UnitUse;
use raidlab_raid::UnitPlace;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Who waits for a member I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IoOwner {
    #[default]
    Nobody,
    /// A fragment read straight into the host's buffer, and the copies tried so far.
    HostRead { fragment: Fragment, tried: CopySet },
    /// A fragment written straight from the host's buffer, where there is no redundancy.
    HostWrite { fragment: Fragment },
    /// A member flush for a host flush.
    HostFlush { request: u32 },
    /// A run on a member that a host discard covers.
    HostDiscard { request: u32 },
    /// Cache slots read from a member.
    Fill { fill: u32 },
    /// A read of a stripe operation.
    OpRead { op: u32, unit: u16 },
    /// A run of pieces written by a stripe operation.
    OpWriteData { op: u32, first_piece: u32, pieces: u32 },
    /// A parity strip written by a stripe operation.
    OpWriteParity { op: u32, unit: u16 },
    /// The array's state.
    State,
    /// The bitmap.
    Bitmap,
    /// A member flush before bits of the bitmap are cleared.
    BitmapFlush,
    /// A replica of a record of the log.
    Record { sequence: u64 },
    /// A member flush before records are retired.
    LogFlush,
    /// The header of a record, read to be copied.
    ReplayHeader,
    /// A run of a record, read to be written again.
    ReplayRead { run: u16 },
    /// A copy of a record that is to be written again.
    ReplayCopy,
    /// Rows of a run of a record, written again.
    ReplayWrite { run: u16, skipped: u32 },
    /// A member flush before the host is served.
    StartFlush,
    /// A member flush before the array is stopped.
    StopFlush,
    /// Rows of a unit that an operation in the background restores or makes agree.
    OpRewrite { op: u32, unit: u16 },
    /// A member flush before the boundary of the rebuild with this number is written down.
    BoundaryFlush { sweep: u32 },
}

/// A member I/O under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IoState {
    pub(crate) owner: IoOwner,
    pub(crate) member: MemberIndex,
    /// Where it begins, tags left out.
    pub(crate) lba: MemberLba,
    pub(crate) rows: u32,
    /// The check that it is part of, or [`NIL`], and what part.
    pub(crate) check: u32,
    pub(crate) part: Part,
}

/// Who waits for a memory task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TaskOwner {
    #[default]
    Nobody,
    /// A host write into the cache.
    CopyIn { request: u32 },
    /// A host read from the cache.
    CopyOut { request: u32 },
    /// Parity, or recovered data, of a stripe operation.
    Parity { op: u32 },
    /// Checksums of a log record's payload.
    Record { sequence: u64 },
    /// A log record on its way to kept memory.
    KeepRecord { sequence: u64 },
    /// The label of kept memory.
    KeptLabel,
    /// Digests by which an operation compares.
    Digest { op: u32 },
    /// Checksums of blocks that are read or written with their tags.
    Tags { check: u32 },
}

/// One contiguous copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: BufferRef,
    pub(crate) to: BufferRef,
    pub(crate) bytes: u64,
}

/// What a copy into the cache makes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) slot: u32,
    pub(crate) valid: u64,
    pub(crate) dirty: u64,
    /// Completes what the slot takes over from its shadow.
    pub(crate) replaces: bool,
}

/// A memory task under way.
#[derive(Debug, Default)]
pub(crate) struct TaskState {
    pub(crate) owner: TaskOwner,
    /// Copies, in order.
    pub(crate) moves: Vec<Move>,
    /// Copies into the cache that go into the second controller's, too.
    pub(crate) mirrored: Vec<Move>,
    /// Slots that the copies go into.
    pub(crate) arrivals: Vec<Arrival>,
    /// Slots that the copies come from.
    pub(crate) pinned: Vec<u32>,
    /// Rows to digest, one behind the other.
    pub(crate) rows: Vec<Segment>,
}

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
        if self.tags.is_on() && op != MemberOp::Flush {
            return self.begin_check((member, lba, rows), op, class, owner);
        }
        let blocks = BlockCount(u64::from(rows));
        let id = MemberIoId(0);
        self.begin_member_io(MemberIo { id, member, op, area: Area::Data, lba, blocks, class }, owner);
    }

    /// Asks for a member I/O of blocks without tags, whose id is given here.
    #[inline]
    pub(crate) fn begin_member_io(&mut self, io: MemberIo, owner: IoOwner) {
        let MemberIo { member, lba, blocks, .. } = io;
        let rows = blocks.0 as u32;
        self.issue_member_io(io, IoState { owner, member, lba, rows, check: NIL, part: Part::Data });
    }

    /// Asks for a member I/O, whose id is given here.
    #[inline]
    pub(crate) fn issue_member_io(&mut self, io: MemberIo, state: IoState) {
        let id = self.ios.take();
        self.ios[id] = state;
        self.members.begin_io(state.member, io.op, state.lba, BlockCount(u64::from(state.rows)));
        self.outbox.member_io(MemberIo { id: MemberIoId(id), ..io });
    }

    /// Reads `rows` of the unit at `place`.
    #[inline]
    pub(crate) fn member_read(&mut self, place: UnitPlace, rows: Rows, class: IoClass, owner: IoOwner) {
        let device = self.members.holder(place).expect("only what a device holds is read from it");
        let lba = place.start + BlockCount(u64::from(rows.first));
        self.member_io(device, MemberOp::Read, lba, rows.count, class, owner);
    }

    /// Writes `rows` of the unit at `place`.
    pub(crate) fn member_write(
        &mut self,
        place: UnitPlace,
        rows: Rows,
        class: IoClass,
        fua: bool,
        owner: IoOwner,
    ) {
        let device = self.members.holder(place).expect("only a device that holds the place is written");
        self.device_write(device, place, rows, class, fua, owner);
    }

    /// Writes `rows` of the unit at `place` on a device that need not hold it yet.
    pub(crate) fn device_write(
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
        let heals = !self.bad.is_empty() && self.bad.overlaps(device, lba, u64::from(rows.count));
        let fua = fua || (heals && self.config.member_cache == MemberCache::On);
        self.member_io(device, MemberOp::Write { fua }, lba, rows.count, class, owner);
    }

    /// Makes what a member has completed durable.
    pub(crate) fn member_flush(&mut self, member: MemberIndex, owner: IoOwner) {
        self.member_io(member, MemberOp::Flush, MemberLba::ZERO, 0, IoClass::Host, owner);
    }

    /// Has a device that holds a range forget it.
    pub(crate) fn member_discard(&mut self, device: MemberIndex, lba: MemberLba, rows: u32, request: u32) {
        self.member_io(device, MemberOp::Discard, lba, rows, IoClass::Host, IoOwner::HostDiscard { request });
    }

    /// Routes the end of a member I/O to who waits for it.
    pub(crate) fn member_io_done(&mut self, id: u32, result: Result<(), MemberError>) {
        let state = &mut self.ios[id];
        let IoState { member, lba, rows, check, part, .. } = *state;
        let owner = core::mem::take(&mut state.owner);
        assert!(owner != IoOwner::Nobody, "member I/O {id} is not under way");
        self.ios.give(id);
        self.members.end_io(member);
        if check != NIL {
            return self.check_io_done(check, part, result);
        }
        if result == Err(MemberError::Medium) {
            self.medium_error(owner, member, lba, rows);
        }
        self.member_io_ended(owner, member, lba, rows, result);
    }

    /// Tells who waits for a member I/O, or for one with tags, of its end. A medium error has been seen to.
    pub(crate) fn member_io_ended(
        &mut self,
        owner: IoOwner,
        member: MemberIndex,
        lba: MemberLba,
        rows: u32,
        result: Result<(), MemberError>,
    ) {
        if result == Err(MemberError::Gone) {
            self.fail_member(member);
        }
        match owner {
            IoOwner::Nobody => unreachable!("checked above"),
            IoOwner::HostRead { fragment, tried } => self.host_read_done(fragment, tried, result),
            IoOwner::HostWrite { fragment } => {
                self.rows_written(member, lba, rows, result);
                let lba = self.geometry.fragment_lba(&fragment);
                match result {
                    // A bad block that it has healed is one until the devices know.
                    Ok(()) => self.end_part_when_kept(fragment.request),
                    Err(_) => self.end_part(fragment.request, Err(HostError::ArrayFailed { lba })),
                }
            }
            IoOwner::HostFlush { request } => {
                self.fail_on_flush_error(member, result);
                self.end_flush_part(request);
            }
            // A hint: what a member makes of it changes nothing.
            IoOwner::HostDiscard { request } => self.end_part(request, Ok(())),
            IoOwner::Fill { fill } => self.fill_done(fill, result),
            IoOwner::OpRead { op, unit } => self.op_read_done(op, unit, result),
            IoOwner::OpWriteData { op, .. } | IoOwner::OpWriteParity { op, .. } => {
                self.rows_written(member, lba, rows, result);
                self.op_write_done(op);
            }
            IoOwner::State => self.state_write_done(member, result),
            IoOwner::Bitmap => self.bitmap_image_done(member, result),
            IoOwner::Record { sequence } => self.replica_done(sequence, member, result),
            IoOwner::ReplayHeader | IoOwner::ReplayRead { .. } => self.replay_read_done(result),
            IoOwner::ReplayCopy => self.replay_copy_done(member, result),
            IoOwner::ReplayWrite { .. } => {
                self.rows_written(member, lba, rows, result);
                self.replay_write_done();
            }
            IoOwner::BitmapFlush | IoOwner::LogFlush | IoOwner::StartFlush | IoOwner::StopFlush => {
                self.fail_on_flush_error(member, result);
                self.background_flush_done(owner);
            }
            IoOwner::OpRewrite { op, unit } => {
                self.rows_written(member, lba, rows, result);
                self.op_rewrite_done(op, unit, member, result);
            }
            IoOwner::BoundaryFlush { sweep } => {
                self.fail_on_flush_error(member, result);
                self.boundary_flushed(sweep, member, result);
            }
        }
        self.admit_again(member);
    }

    fn background_flush_done(&mut self, owner: IoOwner) {
        match owner {
            IoOwner::BitmapFlush => self.bitmap_flush_done(),
            IoOwner::LogFlush => self.log_flush_done(),
            IoOwner::StartFlush => self.start_flush_done(),
            _ => self.stop_flush_done(),
        }
    }

    /// A member that could not keep what it has taken must leave the array.
    fn fail_on_flush_error(&mut self, member: MemberIndex, result: Result<(), MemberError>) {
        if result.is_err() {
            self.fail_member(member);
        }
    }

    /// Asks for parity work.
    pub(crate) fn parity_task(&mut self, owner: TaskOwner, bytes_in: u64, bytes_out: u64) {
        let id = self.tasks.take();
        self.tasks[id].owner = owner;
        let task = MemoryTask { id: MemoryTaskId(id), kind: MemoryKind::Parity, bytes_in, bytes_out };
        self.outbox.memory(task);
    }

    /// Takes a task to collect copies in; [`Controller::start_copies`] asks for it.
    pub(crate) fn new_copies(&mut self, owner: TaskOwner) -> u32 {
        let id = self.tasks.take();
        let task = &mut self.tasks[id];
        task.owner = owner;
        task.moves.clear();
        task.mirrored.clear();
        task.arrivals.clear();
        task.pinned.clear();
        id
    }

    /// Asks for the copies collected in a task.
    pub(crate) fn start_copies(&mut self, id: u32) {
        let sum = |copies: &[Move]| copies.iter().map(|copy| copy.bytes).sum::<u64>();
        let mirrored = sum(&self.tasks[id].mirrored);
        let bytes_in = sum(&self.tasks[id].moves) + mirrored;
        let kind = MemoryKind::Copy;
        let task = MemoryTask { id: MemoryTaskId(id), kind, bytes_in, bytes_out: bytes_in + mirrored };
        self.outbox.memory(task);
    }

    /// Takes a task to collect rows to digest in; [`Controller::start_digest`] asks for it.
    pub(crate) fn new_digest(&mut self, owner: TaskOwner) -> u32 {
        let id = self.new_copies(owner);
        self.tasks[id].rows.clear();
        id
    }

    /// Adds blocks to a digest.
    pub(crate) fn add_to_digest(&mut self, id: u32, buffer: BufferRef, rows: u32) {
        let bytes = u64::from(rows) * self.geometry.block_bytes();
        push_joined(&mut self.tasks[id].rows, Segment { buffer, bytes });
    }

    /// Asks for the digests of the rows collected in a task.
    pub(crate) fn start_digest(&mut self, id: u32) {
        let bytes: u64 = self.tasks[id].rows.iter().map(|rows| rows.bytes).sum();
        let kind = MemoryKind::Digest;
        let task = MemoryTask { id: MemoryTaskId(id), kind, bytes_in: bytes, bytes_out: 0 };
        self.outbox.memory(task);
    }

    /// Lists the rows of a digest task. Clears `out` first; valid until the task ends. Each block of each segment, in
    /// order, is a row.
    pub fn digest_rows(&self, id: MemoryTaskId, out: &mut Vec<Segment>) {
        out.clear();
        out.extend_from_slice(&self.tasks[id.0].rows);
    }

    /// Routes the end of a memory task to who waits for it. `digests` are those of a digest task, or none where the
    /// world carries no bytes.
    pub(crate) fn memory_task_done(&mut self, id: u32, digests: &[u32]) {
        let task = &mut self.tasks[id];
        let owner = core::mem::take(&mut task.owner);
        for slot in task.pinned.drain(..) {
            self.cache.unpin(slot);
        }
        match owner {
            TaskOwner::Nobody => panic!("memory task {id} is not under way"),
            TaskOwner::CopyIn { request } => {
                let arrivals = core::mem::take(&mut task.arrivals);
                self.copy_in_done(request, &arrivals);
                self.tasks[id].arrivals = arrivals;
            }
            TaskOwner::CopyOut { request } => self.end_part(request, Ok(())),
            TaskOwner::Parity { op } => self.op_computed(op),
            TaskOwner::Record { sequence } => self.record_digested(sequence, digests),
            TaskOwner::KeepRecord { sequence } => self.record_live(sequence),
            TaskOwner::KeptLabel => self.label_written(),
            TaskOwner::Digest { op } => self.op_digested(op, digests),
            TaskOwner::Tags { check } => self.check_digested(check, digests),
        }
        self.tasks.give(id);
    }

    /// Lists where the bytes of a member I/O lie, in member block order. Clears `out` first; valid until the I/O ends.
    pub fn member_io_segments(&self, id: MemberIoId, out: &mut Vec<Segment>) {
        out.clear();
        let IoState { owner, rows, check, part, .. } = self.ios[id.0];
        assert!(owner != IoOwner::Nobody, "member I/O {} is not under way", id.0);
        if part != Part::Tags {
            self.owner_segments(owner, rows, out);
        }
        if part != Part::Data {
            out.push(self.tag_segment(check));
        }
    }

    /// Adds where the bytes of `rows` blocks lie that are read or written for `owner`.
    pub(crate) fn owner_segments(&self, owner: IoOwner, rows: u32, out: &mut Vec<Segment>) {
        let bytes = u64::from(rows) * self.geometry.block_bytes();
        match owner {
            IoOwner::Nobody => unreachable!("what is under way has an owner"),
            IoOwner::HostFlush { .. }
            | IoOwner::HostDiscard { .. }
            | IoOwner::BoundaryFlush { .. }
            | IoOwner::BitmapFlush
            | IoOwner::LogFlush
            | IoOwner::StartFlush
            | IoOwner::StopFlush => {}
            IoOwner::State => out.push(Segment { buffer: own_buffer(own::STATE_AT), bytes }),
            IoOwner::Bitmap => out.push(Segment { buffer: own_buffer(own::BITMAP_AT), bytes }),
            IoOwner::Record { sequence } => self.record_segments(sequence, out),
            IoOwner::ReplayHeader => out.push(self.replay_header_segment()),
            IoOwner::ReplayCopy => self.replay_copy_segments(out),
            IoOwner::ReplayRead { run } => out.push(self.replay_segment(run, 0, rows)),
            IoOwner::ReplayWrite { run, skipped } => out.push(self.replay_segment(run, skipped, rows)),
            IoOwner::HostRead { fragment, .. } | IoOwner::HostWrite { fragment } => {
                out.push(Segment { buffer: fragment.host_buffer(), bytes });
            }
            IoOwner::Fill { fill } => {
                let block_bytes = self.geometry.cache_block_bytes();
                let slots = &self.fills[fill].slots;
                out.extend(
                    slots
                        .iter()
                        .map(|&slot| Segment { buffer: self.cache.buffer(slot, 0), bytes: block_bytes }),
                );
            }
            IoOwner::OpRead { op, unit } => {
                let rows = self.ops[op].units[usize::from(unit)].read;
                out.push(Segment { buffer: self.staged(op, unit, rows.first), bytes });
            }
            IoOwner::OpRewrite { op, unit } => {
                let UnitUse { write, from, .. } = self.ops[op].units[usize::from(unit)];
                out.push(Segment { buffer: self.staged(op, from, write.first), bytes });
            }
            IoOwner::OpWriteParity { op, unit } => {
                out.push(Segment { buffer: self.staged(op, unit, self.ops[op].hull.first), bytes });
            }
            IoOwner::OpWriteData { op, first_piece, pieces } => {
                let range = first_piece as usize..(first_piece + pieces) as usize;
                for piece in &self.ops[op].pieces[range] {
                    let bytes = u64::from(piece.rows.count) * self.geometry.block_bytes();
                    push_joined(out, Segment { buffer: piece.source, bytes });
                }
            }
        }
    }

    /// Where `row` of a unit lies in the operation's staging place for it.
    pub(crate) fn staged(&self, op: u32, unit: u16, row: u32) -> BufferRef {
        let place = u64::from(self.ops[op].units[usize::from(unit)].staging);
        let offset =
            (place * u64::from(self.geometry.strip_rows()) + u64::from(row)) * self.geometry.block_bytes();
        BufferRef { space: BufferSpace::Staging, offset }
    }
}

/// Adds a segment, as part of the last one where it follows on from it.
fn push_joined(out: &mut Vec<Segment>, segment: Segment) {
    if let Some(last) = out.last_mut()
        && last.buffer.space == segment.buffer.space
        && last.buffer.offset + last.bytes == segment.buffer.offset
    {
        last.bytes += segment.bytes;
        return;
    }
    out.push(segment);
}
