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

use super::Surroundings;
use crate::api::MemberOp;
use crate::config::{ArrayConfig, MemberCache, PARTIAL_LOG_BYTES};
use crate::geometry::Geometry;
use crate::ids::OpId;
use crate::member_io::{BesideIo, IoOwner, MemberIos};
use crate::metadata::Metadata;
use crate::outbox::Outbox;
use crate::per_op::PerOp;
use crate::rules::WriteLogPlace;
use crate::stripe_engine::StripeOp;
use crate::table::Slab;
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
    stripes: Vec<OpId>,
    /// Stripes that are not on the members; then flushes under way.
    pending: u32,
    /// Pages behind the first.
    pages: u64,
    /// Entries, and the latest one.
    runs: u32,
    run: Run,
    /// Roles that its stripes write, a bit each, where the log is on members.
    written: u64,
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

/// How far an operation's change of its stripe is.
#[derive(Debug, Default)]
struct Change {
    /// It counts among those being computed.
    is_computed: bool,
    /// The unit that has it, until it is on the members.
    unit: Option<u32>,
}

/// All logs of an array.
#[derive(Debug)]
pub(crate) struct WriteLog {
    place: WriteLogPlace,
    member_cache: MemberCache,
    /// Where a log begins on its device.
    begins_at: ByteCount,
    /// The device that has the journal.
    beside: MemberIndex,
    lines: Vec<Line>,
    units: Slab<Unit>,
    /// What is known of each operation.
    changes: PerOp<Change>,
    /// Changes of stripes that are being computed, and will come here.
    computing: u32,
    /// Stripes taken in since units were sent.
    batch: u32,
    /// A flush of the journal is under way, for so many units at the head of its line.
    flushing: usize,
}

impl WriteLog {
    /// The logs of an array; none where it has none.
    pub(super) fn of(config: &ArrayConfig) -> Option<Self> {
        let place = config.cache.rules.write_log?;
        let (logs, begins_at) = if place.is_on_members() {
            // It lies behind the rest of the metadata.
            (config.members, config.metadata_bytes().0 - PARTIAL_LOG_BYTES)
        } else {
            (1, 0)
        };
        Some(Self {
            place,
            member_cache: config.member_cache,
            begins_at: ByteCount(begins_at),
            beside: config.device_beside(),
            lines: (0..logs).map(|_| Line::default()).collect(),
            units: Slab::new(),
            changes: PerOp::new(),
            computing: 0,
            batch: 0,
            flushing: 0,
        })
    }

    /// Bytes that it takes of each member.
    pub(super) const fn member_bytes(&self) -> u64 {
        if self.place.is_on_members() { PARTIAL_LOG_BYTES } else { 0 }
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
        (unit.pages, unit.runs, unit.written, unit.meta_bytes) = (0, 0, 0, META_BYTES);
        line.units.push_back(id);
        id
    }

    /// The next unit that may be sent. Source: `ppl_submit_current_io`, which sends the first of a line only.
    fn next_to_send(&self) -> Option<u32> {
        let collects = |&unit: &u32| self.units[unit].phase == Phase::Collecting;
        let of_line = |line: &Line| {
            let mut units = line.units.iter().copied();
            if self.place.is_on_members() { units.next().filter(collects) } else { units.find(collects) }
        };
        self.lines.iter().find_map(of_line)
    }

    /// Takes in that parity of a change is being computed.
    pub(crate) fn begin_computing(&mut self, id: OpId) {
        self.computing += 1;
        self.changes.of(id).is_computed = true;
    }

    /// Takes in that parity is computed, if it is that of a change which counts.
    pub(crate) fn end_computing(&mut self, id: OpId) {
        self.computing -= u32::from(core::mem::take(&mut self.changes.of(id).is_computed));
    }

    /// True if units should be sent: a thread has nothing more to handle, or has handled a batch.
    pub(crate) const fn is_due(&self) -> bool {
        self.batch > 0 && (self.batch >= BATCH || self.computing == 0)
    }

    /// Takes in what a change is to write, if that is written down and not yet. Returns false if there is nothing to wait for.
    ///
    /// Source: `ppl_write_stripe`, `r5l_write_stripe`: both leave out what writes no parity.
    pub(crate) fn takes_in(&mut self, id: OpId, around: &mut Surroundings<'_>) -> bool {
        let Surroundings { geometry, metadata, ops, .. } = around;
        let op = &ops[id];
        let parity_place = op.places()[geometry.data_strips()];
        let writes_parity = op.computes_parity() && metadata.holds(parity_place);
        if self.changes.of(id).unit.is_some() || !writes_parity {
            return false;
        }
        let unit = match self.place {
            WriteLogPlace::PartialParity => self.take_partial_parity(op, parity_place.member, geometry),
            WriteLogPlace::Journal => self.take_stripe(op, geometry),
        };
        self.changes.of(id).unit = Some(unit);
        self.units[unit].stripes.push(id);
        self.units[unit].pending += 1;
        self.batch += 1;
        true
    }

    /// Source: `ppl_log_stripe`.
    fn take_partial_parity(&mut self, op: &StripeOp, role: MemberIndex, geometry: &Geometry) -> u32 {
        let (pieces, hull, places) = (op.pieces(), op.hull(), op.places());
        let strips = pieces.iter().fold(0, |strips, piece| strips | 1_u64 << piece.strip);
        let (first, rows) = (places[0].start, BlockCount(geometry.strip_rows().into()));
        let written: u64 = pieces.iter().map(|piece| u64::from(piece.rows.count)).sum();
        let is_whole = written == u64::from(hull.count) * geometry.data_strips() as u64;
        let id = self.collecting(role.0, |unit| unit.pages < PARTIAL_PAGES_MAX && unit.runs < RUNS_MAX);
        let unit = &mut self.units[id];
        if unit.runs == 0 || unit.run != (Run { next: first, strips }) {
            unit.runs += 1;
        }
        unit.run = Run { next: first + rows, strips };
        unit.pages += u64::from(!is_whole);
        let roles = pieces.iter().map(|piece| places[usize::from(piece.strip)].member);
        unit.written |= roles.chain([role]).fold(0, |roles, role| roles | 1 << role.0);
        id
    }

    /// Source: `r5l_log_stripe`, `r5l_get_meta`.
    fn take_stripe(&mut self, op: &StripeOp, geometry: &Geometry) -> u32 {
        let strips = op.pieces().chunk_by(|a, b| a.strip == b.strip).count();
        let (data, parity) = (strips as u64, geometry.parities() as u64);
        let bytes = data * (PAYLOAD_BYTES + CHECKSUM_BYTES) + PAYLOAD_BYTES + parity * CHECKSUM_BYTES;
        let unit = self.collecting(0, |unit| unit.meta_bytes + bytes <= PAGE_BYTES);
        self.units[unit].meta_bytes += bytes;
        self.units[unit].pages += data + parity;
        unit
    }

    /// Sends what was taken in. Returns a unit that goes on although it was not written, because its device is missing: after it
    /// this is to be called once more.
    pub(crate) fn send(&mut self, around: &mut Surroundings<'_>) -> Option<u32> {
        self.batch = 0;
        while let Some(unit) = self.next_to_send() {
            if !self.send_unit(unit, around) {
                return Some(unit);
            }
        }
        None
    }

    /// Returns false if there is no device to write to.
    fn send_unit(
        &mut self,
        id: u32,
        Surroundings { metadata, ios, outbox, .. }: &mut Surroundings<'_>,
    ) -> bool {
        let unit = &mut self.units[id];
        unit.phase = Phase::Sent;
        let bytes = (1 + unit.pages) * PAGE_BYTES;
        let is_on_member = self.place.is_on_members();
        let room = if is_on_member { PARTIAL_LOG_BYTES } else { JOURNAL_BYTES };
        let next = &mut self.lines[usize::from(unit.log)].next;
        if *next + bytes > room {
            *next = 0;
        }
        let at = self.begins_at + ByteCount(*next);
        *next += bytes;
        let device = if is_on_member { metadata.player(MemberIndex(unit.log)) } else { Some(self.beside) };
        let Some(device) = device else { return false };
        // Source: `ppl_submit_iounit`: `REQ_OP_WRITE | REQ_FUA`.
        let write = MemberOp::Write { fua: is_on_member };
        ios.begin_beside(BesideIo::WriteLog { unit: id }, device, write, (at, ByteCount(bytes)), outbox);
        true
    }

    /// Takes in that a unit is written. Its line may have units that are to go on: [`WriteLog::next_to_run`].
    pub(crate) fn unit_written(&mut self, unit: u32, ios: &mut MemberIos, outbox: &mut Outbox) -> u16 {
        self.units[unit].phase = Phase::Written;
        if self.flushes_journal() {
            self.flush_journal(ios, outbox);
        }
        self.units[unit].log
    }

    /// True where the journal is flushed before its units go on.
    fn flushes_journal(&self) -> bool {
        !self.place.is_on_members() && self.member_cache == MemberCache::On
    }

    /// The next unit of a line whose stripes are to be written to the members, if it waits for no flush.
    ///
    /// Source: `r5l_log_run_stripes`: "don't change list order".
    pub(crate) fn next_to_run(&self, line: u16) -> Option<u32> {
        if self.flushes_journal() { None } else { self.next_written(line) }
    }

    /// The next unit of a line that is written as all before it are.
    fn next_written(&self, line: u16) -> Option<u32> {
        let phase = |unit: u32| self.units[unit].phase;
        let mut units = self.lines[usize::from(line)].units.iter().copied();
        units.find(|&unit| phase(unit) != Phase::Running).filter(|&unit| phase(unit) == Phase::Written)
    }

    /// Flushes the journal for all units that are written in order; one flush at a time.
    ///
    /// Source: `r5l_flush_stripe_to_raid`.
    pub(crate) fn flush_journal(&mut self, ios: &mut MemberIos, outbox: &mut Outbox) {
        if self.flushing > 0 {
            return;
        }
        let units = self.lines[0].units.iter().filter(|&&unit| self.units[unit].phase != Phase::Running);
        self.flushing = units.take_while(|&&unit| self.units[unit].phase == Phase::Written).count();
        if self.flushing > 0 {
            let nothing = (ByteCount(0), ByteCount(0));
            ios.begin_beside(BesideIo::JournalFlush, self.beside, MemberOp::Flush, nothing, outbox);
        }
    }

    /// Takes in the end of a flush of the journal. Returns how many units go on.
    ///
    /// Source: `r5l_log_flush_endio`.
    pub(crate) const fn journal_flushed(&mut self) -> usize {
        core::mem::replace(&mut self.flushing, 0)
    }

    /// The next unit that a flush of the journal lets go on.
    pub(crate) fn next_flushed(&self) -> u32 {
        self.next_written(0).expect("flushed because it was written")
    }

    /// Begins to write the stripes of a unit to the members, and hands them out.
    pub(crate) fn begin_run(&mut self, unit: u32) -> Vec<OpId> {
        let state = &mut self.units[unit];
        state.phase = Phase::Running;
        // Held until all have begun, so that the unit can't end early.
        state.pending += 1;
        core::mem::take(&mut state.stripes)
    }

    /// Takes in that all stripes of a unit have begun. Returns true if units are to be sent.
    pub(crate) fn end_run(&mut self, unit: u32, stripes: Vec<OpId>, around: &mut Surroundings<'_>) -> bool {
        self.units[unit].stripes = stripes;
        self.end_of_stripe(unit, around)
    }

    /// Takes in that a change has been written to the members. Returns true if units are to be sent.
    ///
    /// Source: `ppl_stripe_write_finished`, `r5l_stripe_write_finished`.
    pub(crate) fn change_written(&mut self, id: OpId, around: &mut Surroundings<'_>) -> bool {
        let unit = self.changes.of(id).unit.take();
        unit.is_some_and(|unit| self.end_of_stripe(unit, around))
    }

    fn end_of_stripe(&mut self, unit: u32, around: &mut Surroundings<'_>) -> bool {
        self.units[unit].pending -= 1;
        if self.units[unit].pending > 0 {
            return false;
        }
        let flushes = self.place.is_on_members() && self.member_cache == MemberCache::On;
        if flushes {
            let Surroundings { metadata, ios, outbox, .. } = around;
            self.flush_for(unit, metadata, ios, outbox);
        }
        self.units[unit].pending == 0 && self.finish(unit)
    }

    /// Flushes the members that a unit's stripes have written. Source: `ppl_do_flush`.
    fn flush_for(&mut self, unit: u32, metadata: &Metadata, ios: &mut MemberIos, outbox: &mut Outbox) {
        let owner = IoOwner::Beside(BesideIo::WriteLogFlush { unit });
        let unit = &mut self.units[unit];
        unit.phase = Phase::Flushing;
        let written = (0..64).filter(|role| unit.written >> role & 1 == 1).map(MemberIndex);
        unit.pending = ios.flush_all(written.filter_map(|role| metadata.player(role)), owner, outbox);
    }

    /// Takes in the end of a member flush for a unit. Returns true if units are to be sent.
    pub(crate) fn unit_flushed(&mut self, unit: u32) -> bool {
        self.units[unit].pending -= 1;
        self.units[unit].pending == 0 && self.finish(unit)
    }

    /// Source: `ppl_io_unit_finished`; the thread that woke up sends the next one.
    fn finish(&mut self, unit: u32) -> bool {
        let line = usize::from(self.units[unit].log);
        self.lines[line].units.retain(|&other| other != unit);
        self.units.give(unit);
        self.place.is_on_members() && !self.lines[line].units.is_empty()
    }
}
