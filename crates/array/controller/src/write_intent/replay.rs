//! Replay: writing the records of the intent log again when an array starts.
//!
//! ```text
//! read header and rows ─► copy to the devices that lack it ─► write in place ─► next record
//!  of one copy             forced unit access, all done        rows that the superblock found does not call bad
//!                                                        ├──► partial parity: read the strip, add it, write parity
//!                                                        └──► a record of checksums: compare (`replay/compare.rs`)
//! ```
//! With partial parity the strip stays as it is, old or new, and parity is made to agree. A row of the strip that can't be read is left
//! alone with its parity, from which it is made up: that is old or new, too.
//!
//! A crash may have torn a record on all devices but one. Once some of it is written in place the stripe needs it. So it is first
//! copied to as many devices as it was meant for; then a start that is cut short can be repeated without any of them. A copy
//! stands at the record's own place of the ring, which was free when the record was made. A copy that is whole is not written
//! again. A copy on a device that has been replaced since does not count: the new device has other bytes there. A header is copied with
//! all of its block: where that is there already it is the same, because it counts as a whole.
//!
//! A record that can't be read from any of its copies leaves its stripe out of sync, and the data that it was to write is bad
//! blocks: what stands there may be older than what was acknowledged. Where its devices are lost that lasts until they are back,
//! because the superblock is frozen; else it is so only of one that was whole on all its devices. One that a crash has torn had
//! begun nothing in place, and what is there is right. Rows that the superblock found calls lost are not written: what a record has for
//! them is older than that, parity of what was there before, or was never acknowledged, because the list had not been changed yet. Those
//! that could only not be read are, by a record that has them.
//!
//! The payload is compared with its checksums once more when it has been read to be written again.
//!
//! Rows that a later record names are left to that one: where it has checksums, an older record would tear what may have arrived
//! whole; where it has rows, it may be lost with NVRAM before they are written again, over a write that the host was promised.
//!
//! Left out: copies of a record in NVRAM, which does not lose some of it.

mod compare;
mod update;

pub(crate) use compare::Compared;

use super::Surroundings;
use super::log::next_device;
use crate::api::{BufferRef, BufferSpace, MemberError, Segment};
use crate::config::ArrayConfig;
use crate::geometry::Geometry;
use crate::ids::LockKey;
use crate::member_io::{IntentIo, IoOwner};
use crate::memory_task::TaskOwner;
use crate::metadata::Metadata;
use crate::own::OwnMemory;
use crate::request::Rows;
use core::ops::Range;
use raidlab_format::{
    BadRange, BadReason, LogSource, NVRAM_RING_AT, RecordHolds, Replay as Record, header_len,
};
use raidlab_raid::UnitPlace;
use raidlab_units::{BlockCount, BlockSize, MemberIndex, MemberLba, StripeIndex};

/// The record that is being written again.
#[derive(Debug)]
struct Current {
    record: Record,
    /// Which of its copies is read.
    copy: usize,
    /// For each run, the staging place that holds its strip.
    places: Vec<u32>,
    /// Its header's place in own memory, where it may have to be copied.
    header: Option<u32>,
    /// Some of the devices that it was to be on lack it.
    lacks_copy: bool,
    /// Devices that have the whole record, or are being sent it.
    holders: Vec<MemberIndex>,
    /// What is read to be compared.
    parts: Vec<compare::Part>,
    pending: u32,
    failed: bool,
}

/// Rows of a unit that are written again together, and the I/O that does it.
pub(crate) type ReplayWrite = (IntentIo, UnitPlace, Rows);

/// How a record goes on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReplayStep {
    /// I/Os are under way.
    Waits,
    /// These rows are to be written, and those that could not be read are to be restored. One write more than they need is counted:
    /// the hand-out itself.
    Write { writes: Vec<ReplayWrite>, unreadable: Vec<(UnitPlace, Rows)> },
    /// These rows are to be read. One read more than they need is counted: the hand-out itself.
    Read(Vec<ReplayWrite>),
    /// The stripe was compared with it.
    Compared(Compared),
    /// It can't be read: its stripe is out of sync, and these rows are lost.
    GiveUp { stripe: StripeIndex, lost: Vec<(UnitPlace, Rows)> },
}

/// The replay of one record after the other.
#[derive(Debug)]
pub(crate) struct Replay {
    current: Option<Current>,
    /// Devices at whose place others have come meanwhile.
    replaced: Vec<MemberIndex>,
    /// The record whose stripe was to be resynced last.
    resynced: Option<u64>,
    /// Where the log's first block is in the metadata area of each device.
    log_at: MemberLba,
    block_size: BlockSize,
}

impl Replay {
    /// Nothing to write again, yet.
    pub(super) fn new(config: &ArrayConfig) -> Self {
        let log_at = MemberLba(config.metadata_area().log.offset_bytes / config.block_size.bytes());
        let block_size = config.block_size;
        Self { current: None, replaced: Vec::new(), resynced: None, log_at, block_size }
    }

    /// True while a record is being written again.
    pub(super) const fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// Takes in that another device answers at the place of one that the start had found.
    pub(crate) fn note_replaced(&mut self, device: MemberIndex) {
        self.replaced.push(device);
    }

    fn current(&self) -> &Current {
        self.current.as_ref().expect("a record is being replayed")
    }

    fn current_mut(&mut self) -> &mut Current {
        self.current.as_mut().expect("a record is being replayed")
    }

    /// Strips that a record has runs of: as many staging places it takes to write it again.
    pub(crate) fn strips_of(record: &Record) -> usize {
        (0..record.runs.len()).filter(|&run| same_strip_before(record, run).is_none()).count()
    }

    /// Begins to write a record again, with a staging place for each of its strips.
    pub(crate) fn begin(
        &mut self,
        record: Record,
        staging: Vec<u32>,
        around: &mut Surroundings<'_>,
    ) -> ReplayStep {
        let mut staging = staging.into_iter();
        let mut places = Vec::with_capacity(record.runs.len());
        for run in 0..record.runs.len() {
            let place = same_strip_before(&record, run).map(|earlier| places[earlier]);
            places.push(place.unwrap_or_else(|| staging.next().expect("there is one for each strip")));
        }
        let device = |source: LogSource| match source {
            LogSource::Device(device) => Some(device),
            LogSource::Kept => None,
        };
        let holders: Vec<_> = record.copies.iter().filter_map(|copy| device(copy.source)).collect();
        let of = (record.stripe, record.sequence);
        let lacks_copy = !holders.is_empty()
            && next_device(around.geometry, around.metadata, of, &holders.iter().copied()).is_some();
        // Records that this array makes have headers that fit.
        let is_copied = lacks_copy && around.own.fits_header(self.header_bytes_of(&record));
        let header = is_copied.then(|| around.own.take_header().expect("no record is made before"));
        self.current = Some(Current {
            record,
            copy: 0,
            places,
            header,
            lacks_copy,
            holders,
            parts: Vec::new(),
            pending: 0,
            failed: false,
        });
        self.read_record(around)
    }

    /// Length of a record's header in bytes.
    fn header_bytes_of(&self, record: &Record) -> usize {
        let rows = record.runs.iter().map(|run| run.rows).sum();
        header_len(record.runs.len() as u16, record.holds.checksums(rows), self.block_size) as usize
    }

    /// Reads the record from the next of its copies, all rows, and its header where it may have to be copied.
    fn read_record(&mut self, around: &mut Surroundings<'_>) -> ReplayStep {
        self.pass_replaced();
        let Current { record, copy, .. } = self.current();
        let Some(&copy) = record.copies.get(*copy) else {
            // What it says is known without it.
            let is_known = record.holds == RecordHolds::Checksums;
            return if is_known { self.apply(around) } else { self.give_up(around) };
        };
        (self.current_mut().pending, self.current_mut().failed) = (1, false);
        if let LogSource::Device(device) = copy.source {
            if self.current().header.is_some() {
                let header = self.header_extent();
                self.read_log(device, header, IntentIo::ReplayHeader, around);
            }
            let mut at_block = copy.block;
            for run in self.payload_runs() {
                let rows = u64::from(self.current().record.runs[run].rows);
                let io = IntentIo::ReplayRead { run: run as u16 };
                self.read_log(device, (at_block, BlockCount(rows)), io, around);
                at_block += rows;
            }
        }
        self.end_of_read(around)
    }

    /// Passes over the copies on devices at whose place others answer now.
    fn pass_replaced(&mut self) {
        let Self { current, replaced, .. } = self;
        let Current { record, copy, .. } = current.as_mut().expect("a record is being replayed");
        let is_there = |source| !matches!(source, LogSource::Device(device) if replaced.contains(&device));
        *copy += record.copies[*copy..].iter().take_while(|copy| !is_there(copy.source)).count();
    }

    /// True while the last copy of the record is read.
    pub(crate) fn is_at_last_copy(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.copy + 1 == current.record.copies.len())
    }

    /// Reads blocks of a device's ring.
    fn read_log(
        &mut self,
        device: MemberIndex,
        (at_block, blocks): (u64, BlockCount),
        io: IntentIo,
        around: &mut Surroundings<'_>,
    ) {
        self.current_mut().pending += 1;
        let lba = MemberLba(self.log_at.0 + at_block);
        around.ios.read_metadata(device, lba, blocks, IoOwner::Intent(io), around.outbox);
    }

    /// Which of its runs the record has the rows of.
    fn payload_runs(&self) -> Range<usize> {
        let record = &self.current().record;
        record.holds.payload_runs(record.runs.len())
    }

    /// Where the header's blocks are in the ring, by the copy that is read.
    fn header_extent(&self) -> (u64, BlockCount) {
        let &Current { ref record, copy, .. } = self.current();
        let blocks = self.header_bytes_of(record) as u64 / self.block_size.bytes();
        (record.copies[copy].block - record.payload_at, BlockCount(blocks))
    }

    /// The same of the payload.
    fn payload_extent(&self) -> (u64, BlockCount) {
        let &Current { ref record, copy, .. } = self.current();
        let rows = record.runs[self.payload_runs()].iter().map(|run| u64::from(run.rows)).sum();
        (record.copies[copy].block, BlockCount(rows))
    }

    /// Takes in the end of a read of the record.
    pub(crate) fn read_done(
        &mut self,
        result: Result<(), MemberError>,
        around: &mut Surroundings<'_>,
    ) -> ReplayStep {
        self.current_mut().failed |= result.is_err();
        self.end_of_read(around)
    }

    fn end_of_read(&mut self, around: &mut Surroundings<'_>) -> ReplayStep {
        let current = self.current_mut();
        current.pending -= 1;
        if current.pending > 0 {
            return ReplayStep::Waits;
        }
        if current.failed {
            current.copy += 1;
            return self.read_record(around);
        }
        if !self.payload_runs().is_empty() && self.is_on_device() {
            self.digest_payload(around);
            return ReplayStep::Waits;
        }
        self.copy_record(around)
    }

    /// True if the copy that is read is on a device, which may give something else now than when the start looked at it.
    fn is_on_device(&self) -> bool {
        let Current { record, copy, .. } = self.current();
        matches!(record.copies[*copy].source, LogSource::Device(_))
    }

    fn digest_payload(&self, Surroundings { geometry, tasks, outbox, .. }: &mut Surroundings<'_>) {
        let task = tasks.new_digest(TaskOwner::Replay);
        for run in self.payload_runs() {
            let rows = self.current().record.runs[run].rows;
            tasks.add_rows(task, self.segment(geometry, run as u16, (0, rows)));
        }
        tasks.start_digest(task, outbox);
    }

    /// Takes in the digests of the payload that was read; a world that carries no bytes has none.
    fn payload_digested(&mut self, digests: &[u32], around: &mut Surroundings<'_>) -> ReplayStep {
        let current = self.current_mut();
        if digests.is_empty() || digests == current.record.row_checksums {
            return self.copy_record(around);
        }
        current.copy += 1;
        self.read_record(around)
    }

    /// Copies the record to the devices that lack it.
    fn copy_record(&mut self, around: &mut Surroundings<'_>) -> ReplayStep {
        self.current_mut().pending = 1;
        while let Some(device) = self.next_copy(around) {
            self.current_mut().holders.push(device);
            let header = (self.header_extent(), IntentIo::ReplayHeaderCopy);
            let payload = (self.payload_extent(), IntentIo::ReplayPayloadCopy);
            for ((at_block, blocks), io) in [header, payload] {
                if blocks > BlockCount(0) {
                    let lba = MemberLba(self.log_at.0 + at_block);
                    self.current_mut().pending += 1;
                    around.ios.write_metadata(device, lba, blocks, IoOwner::Intent(io), around.outbox);
                }
            }
        }
        self.end_of_copy(around)
    }

    /// The device that another copy of the record should go to, if it needs one and there is one.
    fn next_copy(&self, Surroundings { geometry, metadata, .. }: &Surroundings<'_>) -> Option<MemberIndex> {
        let Current { record, header, holders, .. } = self.current();
        let is_left = |device: &MemberIndex| metadata.role(*device).is_some();
        let holders = holders.iter().copied().filter(is_left);
        header.and_then(|_| next_device(geometry, metadata, (record.stripe, record.sequence), &holders))
    }

    /// Takes in the end of one I/O of a copy of the record; whoever failed to write it is out of the array.
    pub(crate) fn copy_done(
        &mut self,
        failed: Option<MemberIndex>,
        around: &mut Surroundings<'_>,
    ) -> ReplayStep {
        self.current_mut().holders.retain(|holder| Some(*holder) != failed);
        self.end_of_copy(around)
    }

    fn end_of_copy(&mut self, around: &mut Surroundings<'_>) -> ReplayStep {
        self.current_mut().pending -= 1;
        if self.current().pending > 0 {
            return ReplayStep::Waits;
        }
        // Some may have been lost on the way.
        if self.next_copy(around).is_some() { self.copy_record(around) } else { self.apply(around) }
    }

    fn apply(&mut self, around: &Surroundings<'_>) -> ReplayStep {
        match self.current().record.holds {
            RecordHolds::Rows => {}
            RecordHolds::Checksums => return self.begin_comparison(around),
            RecordHolds::PartialParity => return self.begin_update(around),
        }
        let mut writes = Vec::new();
        for run in 0..self.current().record.runs.len() as u16 {
            self.for_each_part(run, around, |skipped, place, rows| {
                writes.push((IntentIo::ReplayWrite { run, skipped }, place, rows));
            });
        }
        self.current_mut().pending = 1 + writes.len() as u32;
        ReplayStep::Write { writes, unreadable: Vec::new() }
    }

    /// Reads what is to be compared, unless the stripe is out of sync anyway.
    fn begin_comparison(&mut self, around: &Surroundings<'_>) -> ReplayStep {
        if around.metadata.is_out_of_sync(LockKey::of_stripe(self.current().record.stripe))
            && !self.is_second()
        {
            return ReplayStep::Compared(Compared::default());
        }
        let runs = 0..self.current().record.runs.len() as u16;
        let reads = self.parts_to_read(runs, around);
        self.current_mut().pending = 1 + reads.len() as u32;
        ReplayStep::Read(reads)
    }

    /// The stripe of the record.
    pub(crate) fn stripe(&self) -> StripeIndex {
        self.current().record.stripe
    }

    /// True if the stripe of the record was to be resynced since it was compared first.
    pub(crate) fn is_second(&self) -> bool {
        self.resynced == Some(self.current().record.sequence)
    }

    /// Takes in that the stripe of the record is about to be resynced. Returns the record, which is to be compared once more if
    /// that fails.
    pub(crate) fn note_resynced(&mut self) -> Record {
        let record = self.current().record.clone();
        self.resynced = Some(record.sequence);
        record
    }

    /// Takes in the end of a read of rows to be compared, or of the hand-out.
    pub(crate) fn rows_read(
        &mut self,
        failed: Option<(u16, u32)>,
        around: &mut Surroundings<'_>,
    ) -> ReplayStep {
        if let Some((run, skipped)) = failed {
            self.note_unreadable(run, skipped);
        }
        self.current_mut().pending -= 1;
        if self.current().pending > 0 {
            return ReplayStep::Waits;
        }
        let again = self.rows_to_read_singly(around);
        if again.is_empty() {
            if self.current().record.holds == RecordHolds::PartialParity {
                return self.add_strip(around);
            }
            self.digest_parts(around);
            return ReplayStep::Waits;
        }
        self.current_mut().pending = 1 + again.len() as u32;
        ReplayStep::Read(again)
    }

    /// Takes in the digests of what was read: the record's payload, or the rows to be compared with a record of checksums.
    pub(crate) fn digested(&mut self, digests: &[u32], around: &mut Surroundings<'_>) -> ReplayStep {
        match self.current().record.holds {
            RecordHolds::Rows | RecordHolds::PartialParity => self.payload_digested(digests, around),
            RecordHolds::Checksums => ReplayStep::Compared(self.compare(digests, around)),
        }
    }

    /// Takes in the end of a write of the record. Returns true after the last.
    pub(crate) fn write_done(&mut self) -> bool {
        self.current_mut().pending -= 1;
        self.current().pending == 0
    }

    /// Calls `each` with the parts of a run that are to be written again: rows of the run before it, its unit's place and rows.
    fn for_each_part(
        &self,
        run: u16,
        Surroundings { geometry, metadata, .. }: &Surroundings<'_>,
        mut each: impl FnMut(u32, UnitPlace, Rows),
    ) {
        let record = &self.current().record;
        let run = record.runs[usize::from(run)];
        let place = geometry.unit_place(record.stripe, run.unit);
        let mut skipped = 0;
        while let Some(device) = metadata.holder(place).filter(|_| skipped < run.rows) {
            let rows = Rows { first: run.first_row + skipped, count: run.rows - skipped };
            let (was_bad, count) = found_stretch(metadata, device, place, (rows, record.holds));
            let (is_superseded, count) = superseded_stretch(record, run.unit, Rows { count, ..rows });
            if !was_bad && !is_superseded {
                each(skipped, place, Rows { count, ..rows });
            }
            skipped += count;
        }
    }

    fn give_up(&self, around: &Surroundings<'_>) -> ReplayStep {
        let Current { record, lacks_copy, .. } = self.current();
        let has_promises = record.holds == RecordHolds::Rows;
        let may_be_newer = has_promises && (around.metadata.is_frozen() || !lacks_copy);
        let is_data = |unit: u16| usize::from(unit) < around.geometry.data_strips();
        let mut lost = Vec::new();
        for (index, run) in (0..).zip(&record.runs) {
            if may_be_newer && is_data(run.unit) {
                self.for_each_part(index, around, |_, place, rows| lost.push((place, rows)));
            }
        }
        ReplayStep::GiveUp { stripe: record.stripe, lost }
    }

    /// Ends the replay of the record. Returns its staging places.
    pub(crate) fn end(&mut self, own: &mut OwnMemory) -> Vec<u32> {
        let Current { mut places, header, .. } = self.current.take().expect("a record is being replayed");
        places.sort_unstable();
        places.dedup();
        if let Some(header) = header {
            own.give_header(header);
        }
        places
    }

    /// Where the record's header lies.
    pub(super) fn header_segment(&self, own: &OwnMemory) -> Segment {
        let Current { header, record, .. } = self.current();
        let header = header.expect("a place was taken for it");
        Segment { buffer: own.header_buffer(header), bytes: self.header_bytes_of(record) as u64 }
    }

    /// Lists where the payload lies.
    pub(super) fn payload_segments(&self, geometry: &Geometry, out: &mut Vec<Segment>) {
        let runs = &self.current().record.runs;
        let segment = |run: usize| self.segment(geometry, run as u16, (0, runs[run].rows));
        out.extend(self.payload_runs().map(segment));
    }

    /// Where so many rows of a run lie, behind those skipped: in its staging place, or in NVRAM.
    pub(super) fn segment(&self, geometry: &Geometry, run: u16, (skipped, rows): (u32, u32)) -> Segment {
        let current = self.current();
        let Record { runs, copies, .. } = &current.record;
        let index = usize::from(run);
        let before: u64 = runs[..index].iter().map(|run| u64::from(run.rows)).sum();
        let (before, first_row) = (before + u64::from(skipped), runs[index].first_row + skipped);
        let bytes = u64::from(rows) * geometry.block_bytes();
        let buffer = match copies.get(current.copy) {
            Some(copy) if copy.source == LogSource::Kept => {
                let block = copy.block + before;
                let offset = NVRAM_RING_AT as u64 + block * geometry.block_bytes();
                BufferRef { space: BufferSpace::NvramLog, offset }
            }
            _ => geometry.staging_buffer(current.places[index], first_row),
        };
        Segment { buffer, bytes }
    }
}

/// An earlier run of the strip of a run. They have no row in common, so that one staging place will do for both.
fn same_strip_before(record: &Record, run: usize) -> Option<usize> {
    record.runs[..run].iter().position(|earlier| earlier.unit == record.runs[run].unit)
}

/// Whether a later record tells better what the first of `rows` of a unit should be, and of how many the same is true.
fn superseded_stretch(record: &Record, unit: u16, rows: Rows) -> (bool, u32) {
    let mut end = rows.end();
    for later in record.superseded.iter().filter(|later| later.unit == unit) {
        let later = Rows { first: later.first_row, count: later.rows };
        if later.first <= rows.first && rows.first < later.end() {
            return (true, later.end().min(rows.end()) - rows.first);
        }
        if later.first > rows.first {
            end = end.min(later.first);
        }
    }
    (false, end - rows.first)
}

/// Whether the first of `rows` was a bad block in the superblock that the start has found, and how many are the same. Of one that is
/// only unreadable a record with its rows has the newest content.
fn found_stretch(
    metadata: &Metadata,
    device: MemberIndex,
    place: UnitPlace,
    (rows, holds): (Rows, RecordHolds),
) -> (bool, u32) {
    let is_known = |range: &&BadRange| range.reason == BadReason::Unreadable && holds == RecordHolds::Rows;
    let found: Vec<&BadRange> =
        metadata.kept_record().bad_ranges.iter().filter(|range| !is_known(range)).collect();
    let was_bad = |row: u32| {
        let lba = (place.start + BlockCount(u64::from(row))).0;
        let holds = |range: &BadRange| (range.first.0..range.first.0 + u64::from(range.count)).contains(&lba);
        found.iter().any(|range| range.device == device && holds(range))
    };
    let first = was_bad(rows.first);
    let same = (rows.first..rows.end()).take_while(|&row| was_bad(row) == first).count();
    (first, same as u32)
}
