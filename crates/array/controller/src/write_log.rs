//! The write logs of Linux md: what the change of a stripe writes down before it goes to the members.
//!
//! ```text
//!               batch of 8 is in,             write        flush of a device        all stripes
//!  computed ─► or none is computed ─► send ─► done ──────► with a write cache ────► on members ─► finished
//!              [ a unit collects ]
//!
//!  partial parity log: one on each member; a unit lies on the member that has the parity of its stripes, and the next one
//!                      waits until it is finished
//!  journal:            one, on a device beside the members; units follow each other, and go on in their order
//! ```
//! A unit is one write: a page of 4 KiB that says what it holds, then pages. The partial parity log has a page of each stripe
//! that is written in part; a journal has all data and parity that is written.
//!
//! In virtual time only: nothing is read back after a crash, and the writes carry no bytes. Left out: a journal that is written
//! back, and what is done when a journal has taken 10 GiB (`r5l_do_reclaim`).
//!
//! Source: Linux 6.1 `drivers/md/raid5-ppl.c`, `raid5-cache.c`, as named below, and `raid5.c`, `handle_active_stripes`: up to
//! `MAX_STRIPE_BATCH` stripes are handled, and then units are sent (`log_write_stripe_run`).

use crate::api::{Area, IoClass, MemberError, MemberIo, MemberIoId, MemberOp};
use crate::checksums::Part;
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::member_io::{BesideIo, IoOwner, IoState};
use crate::rules::WriteLogPlace;
use crate::stripe_op::{OpKind, StripeOp};
use crate::table::{NIL, Slab};
use raidlab_units::{BlockCount, ByteCount, MemberIndex, MemberLba};
use std::collections::VecDeque;

const PAGE_BYTES: u64 = 4096;

/// Stripes that a thread handles before units are sent: `MAX_STRIPE_BATCH`.
const BATCH: u32 = 8;

/// Pages of partial parity in a unit at most: `PPL_SPACE_SIZE`.
const PARTIAL_PAGES_MAX: u64 = (128 << 10) / PAGE_BYTES;

/// Runs of stripes in a unit at most: `PPL_HDR_MAX_ENTRIES`, which is `(PPL_HEADER_SIZE - sizeof(struct ppl_header)) /
/// sizeof(struct ppl_header_entry)`, with 536 and 24 bytes.
const RUNS_MAX: u32 = (4096 - 536) / 24;

/// Bytes of a unit's first page before what it lists (`struct r5l_meta_block`), of an entry (`struct r5l_payload_data_parity`), and of a
/// checksum in it.
const META_BYTES: u64 = 32;
const PAYLOAD_BYTES: u64 = 16;
const CHECKSUM_BYTES: u64 = 4;

/// Length of the partial parity log on each member, which its units go round: mdadm's `MULTIPLE_PPL_AREA_SIZE_SUPER1`.
pub(crate) const PARTIAL_LOG_BYTES: u64 = 1 << 20;

/// What a journal goes round. Its length matters only where it ends on a disk.
const JOURNAL_BYTES: u64 = 1 << 30;

/// Which stripes one entry of a partial parity log can describe: those that follow each other and write the same strips.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    next: MemberLba,
    strips: u64,
}

/// How far a unit is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Collecting,
    /// It is being written.
    Sent,
    /// It has been written, and waits for those before it or for a flush.
    Written,
    /// Its stripes are being written to the members.
    Running,
    /// Members are being flushed, so that what its stripes wrote survives power loss.
    Flushing,
}

/// One write of a log.
#[derive(Debug, Default)]
struct Unit {
    log: u16,
    phase: Phase,
    stripes: Vec<u32>,
    /// Stripes that are not on the members; then flushes under way.
    pending: u32,
    /// Pages behind the first.
    pages: u64,
    /// Entries, and the latest one.
    runs: u32,
    run: Run,
    /// Bytes used of the first page.
    meta_bytes: u64,
}

/// The units of one log in order: those under way, and at the end the one that collects.
#[derive(Debug, Default)]
struct Line {
    units: VecDeque<u32>,
    /// Where the next unit goes, in bytes from the log's start.
    next: u64,
}

/// All logs of an array.
#[derive(Debug)]
pub(crate) struct WriteLog {
    place: WriteLogPlace,
    lines: Vec<Line>,
    units: Slab<Unit>,
    /// Changes of stripes that are being computed, and will come here.
    computing: u32,
    /// Stripes taken in since units were sent.
    batch: u32,
    /// A flush of the journal is under way, for so many units at the head of its line.
    flushing: usize,
}

impl WriteLog {
    /// The logs at `place` of an array of so many members.
    pub(crate) fn new(place: WriteLogPlace, members: u16) -> Self {
        let logs = match place {
            WriteLogPlace::PartialParity => members,
            WriteLogPlace::Journal => 1,
        };
        Self {
            place,
            lines: (0..logs).map(|_| Line::default()).collect(),
            units: Slab::new(),
            computing: 0,
            batch: 0,
            flushing: 0,
        }
    }

    /// Bytes that it takes of each member.
    pub(crate) const fn member_bytes(&self) -> u64 {
        match self.place {
            WriteLogPlace::PartialParity => PARTIAL_LOG_BYTES,
            WriteLogPlace::Journal => 0,
        }
    }

    /// The unit of `log` that takes a stripe in, which `has_room` says of one that collects; a new one if there is none.
    fn collecting(&mut self, log: u16, has_room: impl Fn(&Unit) -> bool) -> u32 {
        let line = &mut self.lines[usize::from(log)];
        let last = line.units.back().copied().filter(|&unit| self.units[unit].phase == Phase::Collecting);
        if let Some(unit) = last.filter(|&unit| has_room(&self.units[unit])) {
            return unit;
        }
        let id = self.units.take();
        let unit = &mut self.units[id];
        unit.stripes.clear();
        (unit.log, unit.phase, unit.pending) = (log, Phase::Collecting, 0);
        (unit.pages, unit.runs, unit.meta_bytes) = (0, 0, META_BYTES);
        line.units.push_back(id);
        id
    }

    /// The next unit that may be sent. Source: `ppl_submit_current_io`, which sends the first of a line only.
    fn next_to_send(&self) -> Option<u32> {
        let collects = |&unit: &u32| self.units[unit].phase == Phase::Collecting;
        let of_line = |line: &Line| match self.place {
            WriteLogPlace::PartialParity => line.units.front().copied().filter(collects),
            WriteLogPlace::Journal => line.units.iter().copied().find(collects),
        };
        self.lines.iter().find_map(of_line)
    }
}

impl Controller {
    fn write_log(&mut self) -> &mut WriteLog {
        self.write_log.as_mut().expect("asked only where there is one")
    }

    /// Takes in that parity of a change is being computed.
    pub(crate) fn log_computing(&mut self, id: u32) {
        if let Some(log) = &mut self.write_log
            && self.ops[id].kind == OpKind::Write
        {
            log.computing += 1;
            self.ops[id].counts_as_computing = true;
        }
    }

    /// Takes in that parity of a change is computed.
    pub(crate) fn log_computed(&mut self, id: u32) {
        if core::mem::take(&mut self.ops[id].counts_as_computing) {
            self.write_log().computing -= 1;
        }
    }

    /// Sends what was taken in if a thread has nothing more to handle, or has handled a batch.
    pub(crate) fn send_units_if_due(&mut self) {
        if let Some(log) = &mut self.write_log
            && log.batch > 0
            && (log.batch >= BATCH || log.computing == 0)
        {
            self.send_units();
        }
    }

    /// Writes down what a change is to write, if that is kept and not written down yet. Returns false if there is nothing to wait for.
    ///
    /// Source: `ppl_write_stripe`, `r5l_write_stripe`: both leave out what writes no parity.
    pub(crate) fn logs_first(&mut self, id: u32) -> bool {
        let Some(WriteLog { place, .. }) = self.write_log else { return false };
        let parity = self.geometry.data_strips();
        let parity_place = self.ops[id].places[parity];
        let writes_parity = self.ops[id].plan.computes_parity() && self.metadata.holds(parity_place);
        if self.ops[id].log_unit.is_some() || !writes_parity {
            return false;
        }
        let unit = match place {
            WriteLogPlace::PartialParity => self.log_partial_parity(id, parity_place.member),
            WriteLogPlace::Journal => self.log_stripe(id),
        };
        self.ops[id].log_unit = Some(unit);
        let log = self.write_log();
        log.units[unit].stripes.push(id);
        log.units[unit].pending += 1;
        log.batch += 1;
        self.send_units_if_due();
        true
    }

    /// Source: `ppl_log_stripe`.
    fn log_partial_parity(&mut self, id: u32, role: MemberIndex) -> u32 {
        let StripeOp { pieces, hull, places, .. } = &self.ops[id];
        let strips = pieces.iter().fold(0, |strips, piece| strips | 1_u64 << piece.strip);
        let (first, rows) = (places[0].start, BlockCount(self.geometry.strip_rows().into()));
        let written: u64 = pieces.iter().map(|piece| u64::from(piece.rows.count)).sum();
        let is_whole = written == u64::from(hull.count) * self.geometry.data_strips() as u64;
        let log = self.write_log();
        let unit = log.collecting(role.0, |unit| unit.pages < PARTIAL_PAGES_MAX && unit.runs < RUNS_MAX);
        let unit_state = &mut log.units[unit];
        if unit_state.runs == 0 || unit_state.run != (Run { next: first, strips }) {
            unit_state.runs += 1;
        }
        unit_state.run = Run { next: first + rows, strips };
        unit_state.pages += u64::from(!is_whole);
        unit
    }

    /// Source: `r5l_log_stripe`, `r5l_get_meta`.
    fn log_stripe(&mut self, id: u32) -> u32 {
        let op = &self.ops[id];
        let strips = op.pieces.chunk_by(|a, b| a.strip == b.strip).count();
        let (data, parity) = (strips as u64, self.geometry.parities() as u64);
        let bytes = data * (PAYLOAD_BYTES + CHECKSUM_BYTES) + PAYLOAD_BYTES + parity * CHECKSUM_BYTES;
        let log = self.write_log();
        let unit = log.collecting(0, |unit| unit.meta_bytes + bytes <= PAGE_BYTES);
        log.units[unit].meta_bytes += bytes;
        log.units[unit].pages += data + parity;
        unit
    }

    fn send_units(&mut self) {
        self.write_log().batch = 0;
        while let Some(unit) = self.write_log().next_to_send() {
            self.send_unit(unit);
        }
    }

    fn send_unit(&mut self, id: u32) {
        let log = self.write_log();
        let unit = &mut log.units[id];
        unit.phase = Phase::Sent;
        let bytes = (1 + unit.pages) * PAGE_BYTES;
        let (room, line) = match log.place {
            WriteLogPlace::PartialParity => (PARTIAL_LOG_BYTES, usize::from(unit.log)),
            WriteLogPlace::Journal => (JOURNAL_BYTES, 0),
        };
        let (place, next) = (log.place, &mut log.lines[line].next);
        if *next + bytes > room {
            *next = 0;
        }
        let at = *next;
        *next += bytes;
        let owner = BesideIo::WriteLog { unit: id };
        match place {
            WriteLogPlace::PartialParity => {
                // Source: `ppl_submit_iounit`: `REQ_OP_WRITE | REQ_FUA`. The log lies behind the rest of the metadata.
                let before = self.metadata_blocks().0 * self.geometry.block_bytes() - PARTIAL_LOG_BYTES;
                let Some(device) = self.metadata.player(MemberIndex(line as u16)) else {
                    return self.unit_written(id);
                };
                let op = MemberOp::Write { fua: true };
                self.beside_io(device, op, ByteCount(before + at), ByteCount(bytes), owner);
            }
            WriteLogPlace::Journal => {
                let op = MemberOp::Write { fua: false };
                self.beside_io(self.device_beside(), op, ByteCount(at), ByteCount(bytes), owner);
            }
        }
    }

    /// The device that is no member: behind them and the spares.
    pub(crate) const fn device_beside(&self) -> MemberIndex {
        MemberIndex(self.config.members + self.config.resilience.spares)
    }

    /// Asks for an I/O of a log, or of the device beside the members, which no member counts among its own.
    pub(crate) fn beside_io(
        &mut self,
        member: MemberIndex,
        op: MemberOp,
        at: ByteCount,
        length: ByteCount,
        owner: BesideIo,
    ) {
        let block_bytes = self.geometry.block_bytes();
        let (lba, blocks) = (MemberLba(at.0 / block_bytes), BlockCount(length.0.div_ceil(block_bytes)));
        let (rows, check, part) = (blocks.0 as u32, NIL, Part::Data);
        let state = IoState { owner: IoOwner::Beside(owner), member, lba, rows, check, part };
        let (id, area, class) = (MemberIoId(0), Area::Metadata, IoClass::Host);
        self.ios.begin(MemberIo { id, member, op, area, lba, blocks, class }, state, &mut self.outbox);
    }

    /// Takes in the end of an I/O of a log.
    pub(crate) fn beside_io_ended(
        &mut self,
        owner: BesideIo,
        member: MemberIndex,
        result: Result<(), MemberError>,
    ) {
        // Source: `ppl_log_endio`, `r5l_log_endio`: the device fails, and what it was written for goes on.
        if result.is_err() && member != self.device_beside() {
            self.fail_member(member);
        }
        match owner {
            BesideIo::WriteLog { unit } => self.unit_written(unit),
            BesideIo::WriteLogFlush { unit } => self.unit_flushed(unit),
            BesideIo::JournalFlush => self.journal_flushed(),
            BesideIo::Bitmap => self.end_bitmap_image(),
        }
    }

    fn unit_written(&mut self, unit: u32) {
        let is_cached = self.config.member_cache == MemberCache::On;
        let log = self.write_log();
        log.units[unit].phase = Phase::Written;
        match log.place {
            WriteLogPlace::PartialParity => self.run_unit(unit),
            WriteLogPlace::Journal if is_cached => self.flush_journal(),
            WriteLogPlace::Journal => {
                // Source: `r5l_log_run_stripes`: "don't change list order".
                while let Some(unit) = self.next_written() {
                    self.run_unit(unit);
                }
            }
        }
    }

    /// The next unit of the journal that is written as all before it are.
    fn next_written(&mut self) -> Option<u32> {
        let log = self.write_log();
        let phase = |unit: u32| log.units[unit].phase;
        let mut units = log.lines[0].units.iter().copied();
        units.find(|&unit| phase(unit) != Phase::Running).filter(|&unit| phase(unit) == Phase::Written)
    }

    /// Flushes the journal for all units that are written in order; one flush at a time.
    ///
    /// Source: `r5l_flush_stripe_to_raid`.
    fn flush_journal(&mut self) {
        let log = self.write_log();
        if log.flushing > 0 {
            return;
        }
        let units = log.lines[0].units.iter().filter(|&&unit| log.units[unit].phase != Phase::Running);
        log.flushing = units.take_while(|&&unit| log.units[unit].phase == Phase::Written).count();
        if log.flushing > 0 {
            let device = self.device_beside();
            self.beside_io(device, MemberOp::Flush, ByteCount(0), ByteCount(0), BesideIo::JournalFlush);
        }
    }

    /// Source: `r5l_log_flush_endio`.
    fn journal_flushed(&mut self) {
        for _ in 0..core::mem::take(&mut self.write_log().flushing) {
            let unit = self.next_written().expect("flushed because it was written");
            self.run_unit(unit);
        }
        self.flush_journal();
    }

    /// Writes the stripes of a unit to the members.
    fn run_unit(&mut self, unit: u32) {
        let state = &mut self.write_log().units[unit];
        state.phase = Phase::Running;
        // Held until all have begun, so that the unit can't end early.
        state.pending += 1;
        let mut stripes = core::mem::take(&mut state.stripes);
        for id in stripes.drain(..) {
            self.start_writes(id);
        }
        self.write_log().units[unit].stripes = stripes;
        self.end_of_stripe(unit);
    }

    /// Takes in that a change of a stripe has been written to the members.
    ///
    /// Source: `ppl_stripe_write_finished`, `r5l_stripe_write_finished`.
    pub(crate) fn log_stripe_written(&mut self, id: u32) {
        if let Some(unit) = self.ops[id].log_unit.take() {
            self.end_of_stripe(unit);
        }
    }

    fn end_of_stripe(&mut self, unit: u32) {
        let log = self.write_log();
        let state = &mut log.units[unit];
        state.pending -= 1;
        if state.pending > 0 {
            return;
        }
        if log.place == WriteLogPlace::PartialParity && self.config.member_cache == MemberCache::On {
            self.flush_for(unit);
        } else {
            self.finish_unit(unit);
        }
    }

    /// Source: `ppl_do_flush`. All members that answer are flushed, where md leaves out those that the unit did not write.
    fn flush_for(&mut self, unit: u32) {
        self.write_log().units[unit].phase = Phase::Flushing;
        let flushes = self.flush_members(IoOwner::Beside(BesideIo::WriteLogFlush { unit }));
        self.write_log().units[unit].pending = flushes;
        if flushes == 0 {
            self.finish_unit(unit);
        }
    }

    fn unit_flushed(&mut self, unit: u32) {
        let state = &mut self.write_log().units[unit];
        state.pending -= 1;
        if state.pending == 0 {
            self.finish_unit(unit);
        }
    }

    /// Source: `ppl_io_unit_finished`; the thread that woke up sends the next one.
    fn finish_unit(&mut self, unit: u32) {
        let log = self.write_log();
        let line = usize::from(log.units[unit].log);
        log.lines[line].units.retain(|&other| other != unit);
        log.units.give(unit);
        if log.place == WriteLogPlace::PartialParity && !log.lines[line].units.is_empty() {
            self.send_units();
        }
    }
}
