//! The intent log: a ring of records on the devices, or in kept memory.
//!
//! ```text
//!          digest rows        header and rows             op writes in place       member flush,
//!          of the payload     to parities + 1 places                               if caches are on
//! admit ─► Digesting ───────► Writing ──────────► Live ────────────────► Applied ──────────────────► Retired
//! ```
//! Numbers and room of records are the ring's (`log/ring.rs`). `log/batch.rs` says which records share a write, `log/replicas.rs`
//! which devices have them. All replicas of a record stand at the same place of the ring.
//!
//! The *tail* is the oldest record that is not retired. It goes with every record and every state, so that a record that
//! stands around in the ring is not written over newer data. Before a change of membership the log is drained, because a
//! device that leaves or comes takes or brings records of its own.
//!
//! While the battery is good records go to kept memory; the state says where they go, and changing that drains the log,
//! too.
//!
//! A record whose operation could not be stored everywhere stays live until the next start.

mod batch;
mod replicas;
mod ring;

use crate::api::{BufferRef, BufferSpace, Segment};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::intent::Intent;
use crate::member_io::{IntentIo, IoOwner};
use crate::memory_task::{Move, TaskOwner};
use crate::request::Rows;
use crate::table::NIL;
use batch::Unsent;
use raidlab_format::{KEPT_RING_AT, LogHeader, LogPlace, LogRun, header_len};
use raidlab_units::StripeIndex;
use ring::{Phase, REPLICAS_MAX, Record, Ring};
use std::collections::VecDeque;

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    place: LogPlace,
    /// Where the state says that they go that is being written, or was written last.
    next_place: LogPlace,
    ring: Ring,
    /// The tail of the state that is being written, or was written last.
    next_tail: u64,
    /// Operations in line for room.
    waiting: VecDeque<u32>,
    /// Records in line for the members.
    unsent: Unsent,
    /// No record may be begun.
    draining: bool,
    /// Counts records as they are applied.
    applied: u64,
    /// A member flush is under way, for all records applied before this count.
    flushing: Option<u64>,
    flush_pending: u32,
    runs: Vec<LogRun>,
}

impl Log {
    /// An empty log of so many blocks whose next record has number `next_sequence`.
    pub(crate) const fn new(ring_blocks: u64, place: LogPlace, next_sequence: u64) -> Self {
        Self {
            place,
            next_place: place,
            ring: Ring::new(ring_blocks, next_sequence),
            next_tail: next_sequence,
            waiting: VecDeque::new(),
            unsent: Unsent::new(),
            draining: false,
            applied: 0,
            flushing: None,
            flush_pending: 0,
            runs: Vec::new(),
        }
    }
}

impl Controller {
    fn log(&mut self) -> &mut Log {
        let Intent::Log(log) = &mut self.intent else { unreachable!("asked only where there is a log") };
        log
    }

    /// Takes in that a state is about to be written that says where records go. Returns the tail that it names: the oldest
    /// record that is not retired, or the next one; none where there is no log.
    pub(crate) fn log_is_named(&mut self, place: LogPlace) -> Option<u64> {
        let Intent::Log(log) = &mut self.intent else { return None };
        log.next_place = place;
        log.next_tail = log.ring.tail();
        Some(log.next_tail)
    }

    /// Where the log's records should go now.
    fn wanted_log_place(&self) -> LogPlace {
        // A record in kept memory must be found by the second controller, too, if it takes over.
        let found_by_peer = !self.config.cache.mirror || self.cache.has_peer();
        if self.cache_survives_power_loss() && found_by_peer {
            LogPlace::KeptMemory
        } else {
            LogPlace::Members
        }
    }

    /// Stops new records. Returns true when all that were begun are retired.
    pub(crate) fn drain_log(&mut self) -> bool {
        let Intent::Log(log) = &mut self.intent else { return true };
        log.draining = true;
        if log.ring.is_drained() {
            return true;
        }
        self.flush_for_log();
        false
    }

    /// Lets records begin again although no state will be written.
    pub(crate) fn cancel_drain(&mut self) {
        if let Intent::Log(log) = &mut self.intent
            && core::mem::take(&mut log.draining)
        {
            self.pump_log();
        }
    }

    /// Lets records begin again, after the state was written.
    pub(crate) fn start_log_again(&mut self) {
        let Intent::Log(log) = &mut self.intent else { return };
        log.place = log.next_place;
        log.ring.tail_is_kept(log.next_tail);
        log.draining = false;
        self.retire_records();
    }

    /// Puts the log of an array that was never started where it should go.
    pub(crate) fn settle_log_place(&mut self) {
        let wanted = self.wanted_log_place();
        if let Intent::Log(log) = &mut self.intent
            && self.metadata.settle_log_place(wanted)
        {
            (log.place, log.next_place) = (wanted, wanted);
        }
    }

    /// True if a crash might let an older record of the stripe be written again.
    pub(crate) fn may_be_replayed(&self, stripe: StripeIndex) -> bool {
        let Intent::Log(log) = &self.intent else { return false };
        log.ring.may_be_replayed(stripe)
    }

    /// True when the next state says another place of the log than the present one.
    pub(crate) fn log_moves(&self) -> bool {
        match (&self.intent, self.metadata.record()) {
            (Intent::Log(log), Some(record)) => log.place != record.log_place,
            _ => false,
        }
    }

    /// True when a second controller that takes over finds every record that its start may need.
    pub(crate) fn log_is_mirrored(&self) -> bool {
        let Intent::Log(log) = &self.intent else { return true };
        // Before a record is sent nothing has been written in place.
        let is_found = |record: &Record| record.phase == Phase::Digesting || record.found_by_peer;
        let is_old_done = !self.start.needs_kept_log();
        is_old_done && (log.place == LogPlace::Members || log.ring.replayed().all(is_found))
    }

    /// Notes that a second controller that has come has no record, and one that has gone none that can be found.
    pub(crate) fn forget_mirrored_records(&mut self) {
        if let Intent::Log(log) = &mut self.intent {
            log.ring.records_mut().for_each(|record| record.found_by_peer = false);
        }
    }

    /// Asks for the log to go where it should, if it does not.
    pub(crate) fn check_log_place(&mut self) {
        let Intent::Log(_) = &self.intent else { return };
        let wanted = self.wanted_log_place();
        // Kept memory has no label of its own before the host is served.
        if !self.metadata.is_frozen() && self.start.is_serving() {
            self.metadata.move_log(wanted);
        }
    }

    pub(crate) fn admit_by_log(&mut self, id: u32) {
        let log = self.log();
        log.waiting.push_back(id);
        if log.waiting.len() == 1 {
            self.pump_log();
        }
    }

    /// Begins records for operations in line, as far as there is room.
    pub(crate) fn pump_log(&mut self) {
        loop {
            let Intent::Log(log) = &mut self.intent else { return };
            let Some(&id) = log.waiting.front() else { return };
            if self.log_is_stuck() {
                self.log().waiting.pop_front();
                self.give_window_up(id);
                continue;
            }
            let wanted_place = self.wanted_log_place();
            let place = self.log().place;
            // While the array starts, records of what kept memory held go to the members, whatever the battery; and they
            // stay there while no state can say otherwise.
            let stays = !self.start.is_serving() || self.metadata.is_frozen();
            let in_place = place == wanted_place || (place == LogPlace::Members && stays);
            if !in_place || self.log().draining || !self.begin_record(id) {
                return self.flush_for_log();
            }
            self.log().waiting.pop_front();
        }
    }

    /// True when the state is frozen and no record may be begun any more: the devices would not know what it relies on or
    /// where it is, or the oldest will not be retired.
    fn log_is_stuck(&self) -> bool {
        let Intent::Log(log) = &self.intent else { return false };
        let is_left = |record: &&Record| record.phase != Phase::Retired;
        let oldest = log.ring.records().find(is_left);
        let stays = |record: &Record| match record.phase {
            Phase::Live => record.op == NIL,
            phase => matches!(phase, Phase::Applied(_)),
        };
        self.metadata.is_frozen()
            && (!self.metadata.is_kept()
                || (log.place == LogPlace::KeptMemory && self.wanted_log_place() != log.place)
                || oldest.is_some_and(stays))
    }

    fn begin_record(&mut self, id: u32) -> bool {
        let mut runs = core::mem::take(&mut self.log().runs);
        let rows = self.runs_of(id, &mut runs);
        let header_bytes = header_len(runs.len() as u16, rows, self.config.block_size);
        self.log().runs = runs;
        let header_blocks = header_bytes / self.geometry.block_bytes();
        let blocks = header_blocks + u64::from(rows);
        let Some(at_block) = self.log().ring.room_for(blocks) else { return false };
        let Some(header) = self.own.take_header() else { return false };
        let stripe = self.ops[id].stripe;
        let log = self.log();
        let record = Record {
            op: id,
            phase: Phase::Digesting,
            at_block,
            header_blocks,
            blocks,
            header,
            named_tail: log.ring.named_tail(),
            batched: 1,
            replicas: [None; REPLICAS_MAX],
            pending: 0,
            found_by_peer: false,
        };
        let sequence = log.ring.begin(record, stripe);
        self.ops[id].record = Some(sequence);
        let task = self.tasks.new_digest(TaskOwner::Record { sequence });
        let mut segments = core::mem::take(&mut self.segment_scratch);
        segments.clear();
        self.payload(id, &mut segments);
        for segment in &segments {
            self.add_to_digest(task, segment.buffer, (segment.bytes / self.geometry.block_bytes()) as u32);
        }
        self.segment_scratch = segments;
        self.tasks.start_digest(task, &mut self.outbox);
        true
    }

    /// Lists the runs that an operation writes, parity behind data, and returns their rows.
    fn runs_of(&self, id: u32, runs: &mut Vec<LogRun>) -> u32 {
        runs.clear();
        self.for_each_run(id, |unit, rows, _| {
            runs.push(LogRun { unit, first_row: rows.first, rows: rows.count });
        });
        runs.iter().map(|run| run.rows).sum()
    }

    /// Adds where the bytes of a record's payload lie.
    fn payload(&self, id: u32, out: &mut Vec<Segment>) {
        self.for_each_run(id, |unit, rows, pieces| {
            if let Some((first, count)) = pieces {
                for piece in &self.ops[id].pieces[first..first + count] {
                    let bytes = u64::from(piece.rows.count) * self.geometry.block_bytes();
                    out.push(Segment { buffer: piece.source, bytes });
                }
            } else {
                let bytes = u64::from(rows.count) * self.geometry.block_bytes();
                out.push(Segment { buffer: self.staged(id, unit, rows.first), bytes });
            }
        });
    }

    /// Calls `each` with unit, rows and the pieces (none for parity) of every run that the operation writes. Runs for
    /// devices that are gone are among them: what a record holds must not change while it is made.
    fn for_each_run(&self, id: u32, mut each: impl FnMut(u16, Rows, Option<(usize, usize)>)) {
        let op = &self.ops[id];
        let mut first = 0;
        while first < op.pieces.len() {
            let (count, rows) = self.run_of_pieces(id, first);
            let strip = op.pieces[first].strip;
            each(strip, rows, Some((first, count)));
            first += count;
        }
        for unit in self.geometry.data_strips()..op.units.len() {
            if op.units[unit].staging != NIL {
                each(unit as u16, op.hull, None);
            }
        }
    }

    /// Takes in the digests of a record's payload: makes the header and sends the record off.
    pub(crate) fn record_digested(&mut self, sequence: u64, digests: &[u32]) {
        let op = self.log().ring.record_mut(sequence).op;
        let mut runs = core::mem::take(&mut self.log().runs);
        let rows = self.runs_of(op, &mut runs);
        let named_tail = self.name_tail();
        let state = self.metadata.kept_record();
        let header = LogHeader {
            array_uuid: state.geometry.array_uuid,
            sequence,
            tail_sequence: named_tail,
            epoch: state.epoch,
            stripe: self.ops[op].stripe,
        };
        // A world that carries lengths only has no digests, and nobody ever reads what it writes.
        let checksums = (0..rows as usize).map(|row| digests.get(row).copied().unwrap_or(0));
        let place = self.log().ring.record_mut(sequence).header;
        let length = header_len(runs.len() as u16, rows, self.config.block_size) as usize;
        let out = self.own.header_mut(place, length);
        header.encode_into(&runs, checksums, self.config.block_size, out);
        self.log().runs = runs;
        let record = self.log().ring.record_mut(sequence);
        (record.phase, record.named_tail) = (Phase::Writing, named_tail);
        match self.log().place {
            LogPlace::Members => self.send_record(sequence),
            LogPlace::KeptMemory => self.keep_record(sequence),
        }
    }

    /// Puts a record into kept memory.
    fn keep_record(&mut self, sequence: u64) {
        let mirrored = self.cache.has_peer();
        let record = self.log().ring.record_mut(sequence);
        record.found_by_peer = mirrored;
        let at_block = record.at_block;
        let task = self.tasks.new_copies(TaskOwner::NvramRecord { sequence });
        let mut offset = KEPT_RING_AT as u64 + at_block * self.geometry.block_bytes();
        let mut segments = core::mem::take(&mut self.segment_scratch);
        segments.clear();
        self.record_segments(sequence, &mut segments);
        for segment in &segments {
            let to = BufferRef { space: BufferSpace::KeptLog, offset };
            self.add_nvram_copy(task, Move { from: segment.buffer, to, bytes: segment.bytes });
            offset += segment.bytes;
        }
        self.segment_scratch = segments;
        self.tasks.start_copies(task, &mut self.outbox);
    }

    /// Takes in that a record is where it can be found again: its operation may write in place.
    pub(crate) fn record_live(&mut self, sequence: u64) {
        let record = self.log().ring.record_mut(sequence);
        record.phase = Phase::Live;
        let (op, header, tail) = (record.op, record.header, record.named_tail);
        self.log().ring.tail_is_kept(tail);
        self.log().ring.forget_retired();
        self.own.give_header(header);
        self.start_writes(op);
        self.pump_log();
    }

    /// Adds where the bytes of a record lie.
    fn record_segments(&self, sequence: u64, out: &mut Vec<Segment>) {
        let Intent::Log(log) = &self.intent else { unreachable!("asked only where there is a log") };
        let record = log.ring.record(sequence);
        let bytes = record.header_blocks * self.geometry.block_bytes();
        out.push(Segment { buffer: self.own.header_buffer(record.header), bytes });
        self.payload(record.op, out);
    }

    pub(crate) fn end_log_write(&mut self, id: u32, stored: bool) {
        let Some(sequence) = self.ops[id].record.take() else { return };
        let volatile = self.config.member_cache == MemberCache::On;
        let log = self.log();
        let applied = log.applied;
        let record = log.ring.record_mut(sequence);
        if !stored {
            // It may be needed by a start with the devices that are lost now. Whoever waits for its room waits in vain.
            record.op = NIL;
            return self.pump_log();
        }
        record.phase = if volatile { Phase::Applied(applied) } else { Phase::Retired };
        log.applied += 1;
        self.retire_records();
    }

    /// The tail that a record names that is made now.
    fn name_tail(&mut self) -> u64 {
        let is_kept = self.metadata.is_kept();
        let log = self.log();
        if is_kept {
            log.ring.name_tail();
        }
        log.ring.named_tail()
    }

    fn retire_records(&mut self) {
        self.name_tail();
        self.log().ring.forget_retired();
        self.pump_log();
    }

    /// Flushes the members if records wait for it and room or a drained log is wanted.
    fn flush_for_log(&mut self) {
        let log = self.log();
        let has_applied = log.ring.records().any(|record| matches!(record.phase, Phase::Applied(_)));
        // A device that is lost can't be flushed.
        if log.flushing.is_some() || !has_applied || self.metadata.is_frozen() {
            return;
        }
        let log = self.log();
        log.flushing = Some(log.applied);
        log.flush_pending = 1;
        let mut devices = core::mem::take(&mut self.member_scratch);
        devices.clear();
        devices.extend(self.metadata.answering());
        self.log().flush_pending += devices.len() as u32;
        for &device in &devices {
            self.member_flush(device, IoOwner::Intent(IntentIo::LogFlush));
        }
        self.member_scratch = devices;
        self.log_flush_done();
    }

    /// Takes in the end of one member flush for the log.
    pub(crate) fn log_flush_done(&mut self) {
        let log = self.log();
        log.flush_pending -= 1;
        if log.flush_pending > 0 {
            return;
        }
        let before = log.flushing.take().expect("a flush was under way");
        if !self.metadata.is_frozen() {
            for record in self.log().ring.records_mut() {
                if matches!(record.phase, Phase::Applied(applied) if applied < before) {
                    record.phase = Phase::Retired;
                }
            }
        }
        self.retire_records();
    }
}
