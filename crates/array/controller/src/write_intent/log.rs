//! The intent log: a ring of records on the devices, or in NVRAM.
//!
//! ```text
//!          digest rows        header and rows             op writes in place       member flush,
//!          of the payload     to parities + 1 places                               if caches are on
//! admit ─► Digesting ───────► Writing ──────────► Live ────────────────► Applied ──────────────────► Retired
//! ```
//! Numbers and room of records are the ring's (`log/ring.rs`). `log/batch.rs` says which records share a write, `log/replicas.rs`
//! which devices have them. All replicas of a record stand at the same place of the ring.
//!
//! The *tail* is the oldest record that is not retired. It goes with every record and every superblock, so that a record that
//! stands around in the ring is not written over newer data. Before a change of membership the log is drained, because a
//! device that leaves or comes takes or brings records of its own.
//!
//! While the battery is good records go to NVRAM; the superblock says where they go, and changing that drains the log,
//! too.
//!
//! A write that replaces whole rows of a stripe, in all of its units, is recorded by checksums only: after a crash they tell
//! whether all of it has arrived, and where it has not, no data that was not being written is in doubt (`replay.rs`). That holds
//! while no unit lacks its device; NVRAM takes the rows in any case, because that costs no I/O, and so do arrays with block
//! checksums, whose blocks can't be read when their write is cut off.
//!
//! A write to one run of one strip under a single parity is recorded by partial parity under the same conditions: what the parity is
//! without that strip. A start makes parity from it and from what it finds of the strip, old or new.
//!
//! A record whose operation could not be stored everywhere stays live until the next start.

mod batch;
mod replicas;
mod ring;

pub(super) use replicas::next_device;

use super::{Admission, Surroundings};
use crate::api::{BufferRef, BufferSpace, Segment};
use crate::config::{ArrayConfig, MemberCache};
use crate::geometry::Geometry;
use crate::ids::OpId;
use crate::member_io::{IntentIo, IoOwner};
use crate::memory_task::{Move, TaskOwner};
use crate::metadata::Metadata;
use crate::own::OwnMemory;
use crate::per_op::PerOp;
use crate::stripe_engine::StripeOp;
use crate::table::Slab;
use batch::Unsent;
use raidlab_format::{LogHeader, LogPlace, LogRun, NVRAM_RING_AT, RecordHolds, header_len};
use raidlab_units::{BlockSize, MemberLba, StripeIndex};
use ring::{DoneBefore, FoundBy, Phase, REPLICAS_MAX, Record, Ring};
use std::collections::VecDeque;

/// Applied records from which on members are flushed although there is room: a start compares the stripe of each, one after the
/// other.
const RECORDS_UNTIL_FLUSH: u64 = 256;

/// Where the log stands, and how members keep what they have taken.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Where the ring begins in the metadata area of each device, and its length.
    first: MemberLba,
    blocks: u64,
    block_size: BlockSize,
    member_cache: MemberCache,
    /// NVRAM is mirrored to a second controller that is there.
    mirror: bool,
    /// Blocks have checksums.
    has_checksums: bool,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    rules: Rules,
    place: LogPlace,
    /// Where the superblock says that they go that is being written, or was written last.
    next_place: LogPlace,
    ring: Ring,
    /// The tail of the superblock that is being written, or was written last.
    next_tail: u64,
    /// Operations in line for room.
    waiting: VecDeque<OpId>,
    /// The record of each operation under way that has one.
    record_of: PerOp<Option<u64>>,
    /// Records in line for the members.
    unsent: Unsent,
    /// No record may be begun.
    draining: bool,
    /// Counts records as they are applied that a member flush must cover.
    applied: u64,
    /// Those of them that the latest flush covers.
    covered: u64,
    /// I/Os of the flush that is under way, if one is.
    flush_pending: u32,
    /// Scratch memory.
    runs: Vec<LogRun>,
    segments: Vec<Segment>,
}

impl Log {
    /// The empty log of an array, on the members.
    pub(super) fn new(config: &ArrayConfig) -> Self {
        let (area, block_bytes) = (config.metadata_area(), config.block_size.bytes());
        let rules = Rules {
            first: MemberLba(area.log.offset_bytes / block_bytes),
            blocks: area.log.length_bytes / block_bytes,
            block_size: config.block_size,
            member_cache: config.member_cache,
            mirror: config.cache.mirror,
            has_checksums: config.resilience.integrity,
        };
        Self::with_rules(rules, 1)
    }

    /// The same at a start: the next record has number `next_sequence`.
    pub(super) fn start_again(&mut self, next_sequence: u64) {
        *self = Self::with_rules(self.rules, next_sequence);
    }

    const fn with_rules(rules: Rules, next_sequence: u64) -> Self {
        Self {
            rules,
            place: LogPlace::Members,
            next_place: LogPlace::Members,
            ring: Ring::new(rules.blocks, next_sequence),
            next_tail: next_sequence,
            waiting: VecDeque::new(),
            record_of: PerOp::new(),
            unsent: Unsent::new(),
            draining: false,
            applied: 0,
            covered: 0,
            flush_pending: 0,
            runs: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Where records go.
    pub(super) const fn place(&self) -> LogPlace {
        self.place
    }

    /// Puts the log of an array that was never started where it should go.
    pub(crate) const fn settle(&mut self, place: LogPlace) {
        (self.place, self.next_place) = (place, place);
    }

    /// Takes in that a superblock is about to be written that says where records go. Returns the tail that it names: the oldest
    /// record that is not retired, or the next one.
    pub(crate) fn is_named(&mut self, place: LogPlace) -> u64 {
        self.next_place = place;
        self.next_tail = self.ring.tail();
        self.next_tail
    }

    /// Stops new records. Returns true when all that were begun are retired.
    pub(crate) fn drain(&mut self, around: &mut Surroundings<'_>) -> bool {
        self.draining = true;
        let is_drained = self.ring.is_drained();
        if !is_drained {
            self.begin_flush(around);
        }
        is_drained
    }

    /// Lets records begin again although no superblock will be written. Returns true if they were stopped.
    pub(crate) const fn cancel_drain(&mut self) -> bool {
        core::mem::replace(&mut self.draining, false)
    }

    /// Lets records begin again, after the superblock was written.
    pub(crate) fn superblock_written(&mut self, metadata: &Metadata) {
        self.place = self.next_place;
        self.ring.tail_is_kept(self.next_tail);
        self.draining = false;
        self.retire(metadata);
    }

    /// True if a crash might let an older record of the stripe be written again.
    pub(super) fn may_be_replayed(&self, stripe: StripeIndex) -> bool {
        self.ring.may_be_replayed(stripe)
    }

    /// True when a second controller that takes over finds every record that its start may need.
    pub(super) fn is_mirrored(&self) -> bool {
        self.place == LogPlace::Members
            || self.ring.replayed().all(|record| record.found_by != FoundBy::ThisOnly)
    }

    /// Notes that a second controller that has come has no record in its NVRAM, and one that has gone none that can be found.
    pub(crate) fn forget_mirrored(&mut self) {
        let mirrored = self.ring.records_mut().filter(|record| record.found_by == FoundBy::Both);
        mirrored.for_each(|record| record.found_by = FoundBy::ThisOnly);
    }

    /// Puts an operation in line for a record.
    pub(super) fn admit(&mut self, op: OpId) -> Admission {
        self.waiting.push_back(op);
        if self.waiting.len() == 1 { Admission::WithRecord } else { Admission::BehindOthers }
    }

    /// True if operations are in line for records.
    pub(crate) fn has_line(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Begins records for operations in line, as far as there is room. Returns one that may never write, which is no longer
    /// in line: after it this is to be called once more.
    pub(crate) fn begin_records(&mut self, around: &mut Surroundings<'_>) -> Option<OpId> {
        while let Some(&op) = self.waiting.front() {
            if self.is_stuck(around) {
                return self.waiting.pop_front();
            }
            let holds = if self.takes_records(around) { self.holds(op, around) } else { None };
            if holds.is_some_and(|holds| self.begin_record(op, holds, around)) {
                self.waiting.pop_front();
                if self.applied - self.covered >= RECORDS_UNTIL_FLUSH {
                    self.begin_flush(around);
                }
            } else if !self.begin_flush(around) {
                return None;
            }
        }
        None
    }

    /// True while records go where they belong. They stay on the members while no superblock can say otherwise.
    fn takes_records(&self, around: &Surroundings<'_>) -> bool {
        let stays = self.place == LogPlace::Members && around.metadata.is_frozen();
        (self.place == around.log_place || stays) && !self.draining
    }

    /// True when the superblock is frozen and no record may be begun any more: the devices would not know what it relies on or
    /// where it is, or the oldest will not be retired.
    fn is_stuck(&self, Surroundings { metadata, log_place, .. }: &Surroundings<'_>) -> bool {
        if !metadata.is_frozen() {
            return false;
        }
        let oldest = self.ring.records().find(|record| record.phase != Phase::Retired);
        let stays = |record: &Record| match record.phase {
            Phase::Live => record.op == OpId::NONE,
            phase => matches!(phase, Phase::Applied(_)),
        };
        !metadata.is_kept()
            || (self.place == LogPlace::Nvram && *log_place != self.place)
            || oldest.is_some_and(stays)
    }

    /// True if a record of an operation need not hold all rows: a start finds all devices of the stripe, or those that it has told
    /// enough, and goes by what stands on them.
    fn is_enough(&self, op: &StripeOp, metadata: &Metadata) -> bool {
        self.place == LogPlace::Members
            && !self.rules.has_checksums
            && !metadata.is_frozen()
            && op.has_all_devices(metadata)
    }

    /// True if an operation should leave partial parity for its record. Of sequential writes the next goes to another strip of these
    /// rows, and would wait for a flush of the members.
    pub(crate) fn takes_partial_parity(&self, op: &StripeOp, metadata: &Metadata) -> bool {
        self.is_enough(op, metadata) && !self.ring.goes_on_in(op.stripe())
    }

    /// What a record of an operation that begins now holds; nothing if members must be flushed first, because parity that the
    /// operation has computed relies on what volatile caches may lose, of which no record has the rows.
    ///
    /// What a write of one strip has left there is in the parity of each write to these rows of another strip. If power takes it, that
    /// parity is wrong, and so would be what is made up from it. What a write of whole stripes has left counts only for who
    /// promises something: whatever it wrote may be lost until it is flushed.
    ///
    /// Partial parity says what the strip is by the parity that stands there, where the strip can't be read. So it stands alone: what
    /// the parity was to be by another record of the rows must not be left out because this one names it, too.
    fn holds(&self, id: OpId, around: &Surroundings<'_>) -> Option<RecordHolds> {
        let Surroundings { geometry, metadata, ops, .. } = around;
        let op = &ops[id];
        let is_enough = self.is_enough(op, metadata);
        if is_enough && op.replaces_rows(geometry) {
            return Some(RecordHolds::Checksums);
        }
        let strip = op.partial_parity_of();
        let before = self.ring.done_before(op.stripe(), op.hull(), strip);
        let relies = before == DoneBefore::LeftAsFound;
        let promises = op.is_forced() && self.ring.is_to_be_compared(op.stripe());
        if relies || promises {
            return None;
        }
        let is_alone = before == DoneBefore::Nothing;
        let is_partial = is_enough && strip.is_some() && is_alone;
        Some(if is_partial { RecordHolds::PartialParity } else { RecordHolds::Rows })
    }

    /// Begins a record for an operation. Returns false if there is no room.
    fn begin_record(&mut self, id: OpId, holds: RecordHolds, around: &mut Surroundings<'_>) -> bool {
        let Surroundings { geometry, ops, own, tasks, outbox, .. } = around;
        let op = &ops[id];
        let rows = op.list_runs(geometry, &mut self.runs);
        let header_bytes = header_len(self.runs.len() as u16, holds.checksums(rows), self.rules.block_size);
        let header_blocks = header_bytes / geometry.block_bytes();
        let blocks = header_blocks + holds.payload_blocks(rows);
        let Some(at_block) = self.ring.room_for(blocks) else { return false };
        let Some(header) = own.take_header() else { return false };
        let record = Record {
            op: id,
            stripe: op.stripe(),
            phase: Phase::Digesting,
            holds,
            rows: op.hull(),
            partial_of: op.partial_parity_of().filter(|_| holds == RecordHolds::PartialParity),
            at_block,
            header_blocks,
            blocks,
            header,
            shares_header: false,
            named_tail: self.ring.named_tail(),
            batched: 1,
            replicas: [None; REPLICAS_MAX],
            pending: 0,
            found_by: FoundBy::Any,
        };
        let sequence = self.ring.begin(record);
        let before = self.record_of.of(id).replace(sequence);
        debug_assert!(before.is_none(), "{id:?} has one record at a time");
        let task = tasks.new_digest(TaskOwner::Record { sequence });
        if holds == RecordHolds::PartialParity {
            tasks.add_rows(task, op.partial_parity_segment(geometry));
        } else {
            op.for_each_segment(geometry, |segment| tasks.add_rows(task, segment));
        }
        tasks.start_digest(task, outbox);
        true
    }

    /// Takes in the digests of a record's payload: makes the header and sends the record off, into NVRAM or to the line for the
    /// members. Returns true for those: batches may have to be sent.
    pub(crate) fn digested(&mut self, sequence: u64, digests: &[u32], around: &mut Surroundings<'_>) -> bool {
        let op = &around.ops[self.ring.record(sequence).op];
        let rows = op.list_runs(around.geometry, &mut self.runs);
        let named_tail = self.name_tail(around.metadata);
        let superblock = around.metadata.kept_record();
        let holds = self.ring.record(sequence).holds;
        let header = LogHeader {
            array_uuid: superblock.geometry.array_uuid,
            sequence,
            tail_sequence: named_tail,
            epoch: superblock.epoch,
            stripe: op.stripe(),
            holds,
        };
        // A world that carries lengths only has no digests, and nobody ever reads what it writes.
        let count = holds.checksums(rows);
        let checksums = (0..count as usize).map(|row| digests.get(row).copied().unwrap_or(0));
        let length = header_len(self.runs.len() as u16, count, self.rules.block_size) as usize;
        let record = self.ring.record_mut(sequence);
        let out = around.own.header_mut(record.header, length);
        header.encode_into(&self.runs, checksums, self.rules.block_size, out);
        (record.phase, record.named_tail) = (Phase::Writing, named_tail);
        match self.place {
            LogPlace::Members => self.line_up(sequence),
            LogPlace::Nvram => self.keep_record(sequence, around),
        }
        self.place == LogPlace::Members
    }

    /// Puts a record into NVRAM.
    fn keep_record(&mut self, sequence: u64, around: &mut Surroundings<'_>) {
        let Surroundings { geometry, ops, own, tasks, outbox, has_peer, .. } = around;
        let record = self.ring.record_mut(sequence);
        record.found_by = if *has_peer { FoundBy::Both } else { FoundBy::ThisOnly };
        let mut offset = NVRAM_RING_AT as u64 + record.at_block * geometry.block_bytes();
        let task = tasks.new_copies(TaskOwner::NvramRecord { sequence });
        let mut segments = core::mem::take(&mut self.segments);
        segments.clear();
        self.record_segments(sequence, geometry, (ops, own), &mut segments);
        for segment in &segments {
            let to = BufferRef { space: BufferSpace::NvramLog, offset };
            let copy = Move { from: segment.buffer, to, bytes: segment.bytes };
            tasks.add_copy(task, copy, self.rules.mirror && *has_peer);
            offset += segment.bytes;
        }
        self.segments = segments;
        tasks.start_copies(task, outbox);
    }

    /// Takes in that a record is where it can be found again. Returns its operation, which may write in place; there may be
    /// room for others.
    pub(crate) fn record_live(&mut self, sequence: u64, own: &mut OwnMemory) -> OpId {
        let record = self.ring.record_mut(sequence);
        record.phase = Phase::Live;
        let (op, header, tail) = (record.op, record.header, record.named_tail);
        self.ring.tail_is_kept(tail);
        self.ring.forget_retired();
        own.give_header(header);
        op
    }

    /// Adds where the bytes of a record lie.
    fn record_segments(
        &self,
        sequence: u64,
        geometry: &Geometry,
        (ops, own): (&Slab<StripeOp, OpId>, &OwnMemory),
        out: &mut Vec<Segment>,
    ) {
        let record = self.ring.record(sequence);
        if !record.shares_header {
            let bytes = record.header_blocks * geometry.block_bytes();
            out.push(Segment { buffer: own.header_buffer(record.header), bytes });
        }
        let op = &ops[record.op];
        match record.holds {
            RecordHolds::Rows => op.for_each_segment(geometry, |segment| out.push(segment)),
            RecordHolds::Checksums => {}
            RecordHolds::PartialParity => out.push(op.partial_parity_segment(geometry)),
        }
    }

    /// Takes in that an operation has written in place. Returns false if it has no record.
    pub(super) fn end_write(&mut self, id: OpId, stored: bool, metadata: &Metadata) -> bool {
        let Some(sequence) = self.record_of.known_mut(id).and_then(Option::take) else { return false };
        let volatile = self.rules.member_cache == MemberCache::On;
        let record = self.ring.record_mut(sequence);
        if !stored {
            // It may be needed by a start with the devices that are lost now. Whoever waits for its room waits in vain.
            record.op = OpId::NONE;
            return true;
        }
        record.phase = if volatile { Phase::Applied(self.applied) } else { Phase::Retired };
        self.applied += u64::from(volatile);
        self.retire(metadata);
        true
    }

    /// The tail that a record names that is made now.
    fn name_tail(&mut self, metadata: &Metadata) -> u64 {
        if metadata.is_kept() {
            self.ring.name_tail();
        }
        self.ring.named_tail()
    }

    fn retire(&mut self, metadata: &Metadata) {
        self.name_tail(metadata);
        self.ring.forget_retired();
    }

    /// Flushes the members if records wait for it. Returns true if that has ended already, because no device is there.
    fn begin_flush(&mut self, around: &mut Surroundings<'_>) -> bool {
        let has_applied = self.ring.records().any(|record| matches!(record.phase, Phase::Applied(_)));
        // A device that is lost can't be flushed.
        if self.flush_pending > 0 || !has_applied || around.metadata.is_frozen() {
            return false;
        }
        self.covered = self.applied;
        let Surroundings { metadata, ios, outbox, .. } = around;
        let devices = metadata.answering();
        self.flush_pending = 1 + ios.flush_all(devices, IoOwner::Intent(IntentIo::LogFlush), outbox);
        self.flush_done(metadata)
    }

    /// Takes in the end of one member flush. Returns true after the last: there may be room for records.
    pub(crate) fn flush_done(&mut self, metadata: &Metadata) -> bool {
        self.flush_pending -= 1;
        if self.flush_pending > 0 {
            return false;
        }
        let before = self.covered;
        if !metadata.is_frozen() {
            for record in self.ring.records_mut() {
                if matches!(record.phase, Phase::Applied(applied) if applied < before) {
                    record.phase = Phase::Retired;
                }
            }
        }
        self.retire(metadata);
        true
    }
}
