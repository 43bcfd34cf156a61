//! Replay: writing the records of the intent log again when an array starts.
//!
//! ```text
//! read header and rows ─► copy to the devices that lack it ─► write in place ─► next record
//!  of one copy             forced unit access, all done        rows that the state found does not call bad
//! ```
//! A crash may have torn a record on all devices but one. Once some of it is in place the stripe needs it, so before that it
//! is made whole on as many devices as it was to be on: then it is there whichever of them are away when this start is
//! cut short, too. On each device a copy stands at the record's own place of the ring, which was free when the record was
//! made. A copy that is whole is not written again. A copy on a device that has left meanwhile, and at whose place another
//! answers, is none: what is read there are other bytes, and nobody would look at their checksums once more.
//!
//! A record that can't be read from any of its copies leaves its stripe unsynced, and the data that it was to write is bad
//! blocks: an older record may just have been written over it. Where its devices are lost that lasts until they are back,
//! because the state is frozen; else it is so only of one that was whole on all its devices. One that a crash has torn had
//! begun nothing in place, and what is there is right. Rows that the state found calls bad blocks
//! are not written: what a record has for them is older than that, parity of what was there before, or was never
//! acknowledged, because the list had not been changed yet.
//!
//! Left out: copies of a record in kept memory, which does not lose some of it.

use crate::api::{
    Area, BufferRef, BufferSpace, IoClass, MemberError, MemberIo, MemberIoId, MemberOp, Segment,
};
use crate::controller::Controller;
use crate::member_io::{IntentIo, IoOwner};
use crate::request::Rows;
use crate::start::Start;
use raidlab_format::{BadRange, KEPT_RING_AT, LogSource, Replay, header_len};
use raidlab_raid::UnitPlace;
use raidlab_units::{BlockCount, MemberIndex, MemberLba, StripeIndex};

/// The record that is being written again.
#[derive(Debug)]
pub(crate) struct Current {
    record: Replay,
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
    pending: u32,
    failed: bool,
}

/// Rows of a run of a record that are written again together.
struct ReplayPart {
    run: u16,
    /// Rows of the run before them.
    skipped: u32,
    place: UnitPlace,
    rows: Rows,
}

impl Controller {
    /// Begins to write a record again.
    pub(crate) fn begin_replay(&mut self, record: Replay) {
        let mut places = Vec::with_capacity(record.runs.len());
        for (index, run) in record.runs.iter().enumerate() {
            // Runs of one strip have no row in common, and there may be more runs than places.
            let earlier = record.runs[..index].iter().position(|earlier| earlier.unit == run.unit);
            let new_place = || self.staging_free.pop().expect("a stripe fits in staging");
            places.push(earlier.map_or_else(new_place, |earlier| places[earlier]));
        }
        let device = |source: LogSource| match source {
            LogSource::Device(device) => Some(device),
            LogSource::Kept => None,
        };
        let holders: Vec<_> = record.copies.iter().filter_map(|copy| device(copy.source)).collect();
        let lacks_copy = !holders.is_empty()
            && self.next_log_device(record.stripe, record.sequence, &holders.iter().copied()).is_some();
        // Records that this array makes have headers that fit.
        let is_copied = lacks_copy && self.own.fits_header(self.header_bytes_of(&record));
        let header = is_copied.then(|| self.own.take_header().expect("no record is made before"));
        self.start.current =
            Some(Current { record, copy: 0, places, header, lacks_copy, holders, pending: 0, failed: false });
        self.read_record();
    }

    fn current(&mut self) -> &mut Current {
        self.start.current.as_mut().expect("a record is being replayed")
    }

    /// Length of a record's header in bytes.
    fn header_bytes_of(&self, record: &Replay) -> usize {
        let rows = record.runs.iter().map(|run| run.rows).sum();
        header_len(record.runs.len() as u16, rows, self.config.block_size) as usize
    }

    /// Reads the record from the next of its copies, all rows, and its header where it may have to be copied.
    fn read_record(&mut self) {
        self.pass_replaced();
        let Current { record, copy, header, .. } = self.current();
        let Some(&copy) = record.copies.get(*copy) else { return self.give_up_record() };
        let has_header = header.is_some();
        let runs: Vec<u32> = record.runs.iter().map(|run| run.rows).collect();
        (self.current().pending, self.current().failed) = (1, false);
        if let LogSource::Device(device) = copy.source {
            if has_header {
                let (at_block, blocks, _) = self.record_extent();
                self.read_log(device, at_block, blocks, IoOwner::Intent(IntentIo::ReplayHeader));
            }
            let mut at_block = copy.block;
            for (run, rows) in runs.into_iter().enumerate() {
                let owner = IoOwner::Intent(IntentIo::ReplayRead { run: run as u16 });
                self.read_log(device, at_block, BlockCount(u64::from(rows)), owner);
                at_block += u64::from(rows);
            }
        }
        self.end_of_replay_read();
    }

    /// Passes over the copies on devices at whose place others answer now.
    fn pass_replaced(&mut self) {
        let Start { current, replaced, .. } = &mut self.start;
        let Current { record, copy, .. } = current.as_mut().expect("a record is being replayed");
        let is_there = |source| !matches!(source, LogSource::Device(device) if replaced.contains(&device));
        *copy += record.copies[*copy..].iter().take_while(|copy| !is_there(copy.source)).count();
    }

    /// Reads blocks of a device's ring.
    fn read_log(&mut self, device: MemberIndex, at_block: u64, blocks: BlockCount, owner: IoOwner) {
        self.current().pending += 1;
        let lba = MemberLba(self.area.log.offset_bytes / self.geometry.block_bytes() + at_block);
        let (id, op, area, class) = (MemberIoId(0), MemberOp::Read, Area::Metadata, IoClass::Host);
        self.begin_member_io(MemberIo { id, member: device, op, area, lba, blocks, class }, owner);
    }

    /// Where the record begins in the ring, by the copy that is read, and the blocks of its header and of all of it.
    fn record_extent(&self) -> (u64, BlockCount, BlockCount) {
        let &Current { ref record, copy, .. } =
            self.start.current.as_ref().expect("a record is being replayed");
        let header_blocks = self.header_bytes_of(record) as u64 / self.geometry.block_bytes();
        let rows: u64 = record.runs.iter().map(|run| u64::from(run.rows)).sum();
        let at_block = record.copies[copy].block - header_blocks;
        (at_block, BlockCount(header_blocks), BlockCount(header_blocks + rows))
    }

    /// Takes in the end of a read of a record.
    pub(crate) fn replay_read_done(&mut self, result: Result<(), MemberError>) {
        self.current().failed |= result.is_err();
        self.end_of_replay_read();
    }

    fn end_of_replay_read(&mut self) {
        self.current().pending -= 1;
        if self.current().pending > 0 {
            return;
        }
        if self.current().failed {
            self.current().copy += 1;
            return self.read_record();
        }
        self.copy_record();
    }

    /// Copies the record to the devices that lack it.
    fn copy_record(&mut self) {
        self.current().pending = 1;
        while let Some(device) = self.next_copy() {
            let (at_block, _, blocks) = self.record_extent();
            let lba = MemberLba(self.area.log.offset_bytes / self.geometry.block_bytes() + at_block);
            self.current().holders.push(device);
            self.current().pending += 1;
            self.metadata_write(device, lba, blocks, IoOwner::Intent(IntentIo::ReplayCopy));
        }
        self.end_of_copy();
    }

    /// The device that another copy of the record should go to, if it needs one and there is one.
    fn next_copy(&self) -> Option<MemberIndex> {
        let Current { record, header, holders, .. } = self.start.current.as_ref()?;
        let is_left = |device: &MemberIndex| self.metadata.role(*device).is_some();
        let holders = holders.iter().copied().filter(is_left);
        header.and_then(|_| self.next_log_device(record.stripe, record.sequence, &holders))
    }

    /// Takes in the end of one copy of the record.
    pub(crate) fn replay_copy_done(&mut self, device: MemberIndex, result: Result<(), MemberError>) {
        if result.is_err() {
            self.fail_member(device);
            self.current().holders.retain(|holder| *holder != device);
        }
        self.end_of_copy();
    }

    fn end_of_copy(&mut self) {
        self.current().pending -= 1;
        if self.current().pending > 0 {
            return;
        }
        // Some may have been lost on the way.
        if self.next_copy().is_some() { self.copy_record() } else { self.apply_record() }
    }

    fn apply_record(&mut self) {
        self.current().pending = 1;
        for ReplayPart { run, skipped, place, rows } in self.replay_parts() {
            self.current().pending += 1;
            self.member_write(
                place,
                rows,
                IoClass::Host,
                false,
                IoOwner::Intent(IntentIo::ReplayWrite { run, skipped }),
            );
        }
        self.replay_write_done();
    }

    /// Takes in the end of a write of a record.
    pub(crate) fn replay_write_done(&mut self) {
        self.current().pending -= 1;
        if self.current().pending == 0 {
            self.end_replay();
        }
    }

    /// The parts of the record's runs that are to be written again.
    fn replay_parts(&self) -> Vec<ReplayPart> {
        let record = &self.start.current.as_ref().expect("a record is being replayed").record;
        let mut parts = Vec::new();
        for (index, run) in record.runs.iter().enumerate() {
            let place = self.geometry.unit_place(record.stripe, run.unit);
            let mut skipped = 0;
            while let Some(device) = self.metadata.holder(place).filter(|_| skipped < run.rows) {
                let rows = Rows { first: run.first_row + skipped, count: run.rows - skipped };
                let (was_bad, count) = self.found_stretch(device, place, rows);
                if !was_bad {
                    let rows = Rows { count, ..rows };
                    parts.push(ReplayPart { run: index as u16, skipped, place, rows });
                }
                skipped += count;
            }
        }
        parts
    }

    /// Whether the first of `rows` was a bad block in the state that the start has found, and how many are the same.
    fn found_stretch(&self, device: MemberIndex, place: UnitPlace, rows: Rows) -> (bool, u32) {
        let found = &self.metadata.kept_record().bad_ranges;
        let was_bad = |row: u32| {
            let lba = (place.start + BlockCount(u64::from(row))).0;
            let holds =
                |range: &BadRange| (range.first.0..range.first.0 + u64::from(range.count)).contains(&lba);
            found.iter().any(|range| range.device == device && holds(range))
        };
        let first = was_bad(rows.first);
        let same = (rows.first..rows.end()).take_while(|&row| was_bad(row) == first).count();
        (first, same as u32)
    }

    fn give_up_record(&mut self) {
        let stripe = self.current().record.stripe;
        let may_be_newer = self.metadata.is_frozen() || !self.current().lacks_copy;
        for ReplayPart { run, place, rows, .. } in self.replay_parts() {
            let is_data =
                usize::from(self.current().record.runs[usize::from(run)].unit) < self.geometry.data_strips();
            if may_be_newer
                && is_data
                && let Some(device) = self.metadata.holder(place)
            {
                let lba = place.start + BlockCount(u64::from(rows.first));
                self.metadata.lose_rows_of_record(
                    &self.geometry,
                    (device, lba, rows.count),
                    &mut self.outbox,
                );
            }
        }
        let granules = self.geometry.granules_of(stripe..StripeIndex(stripe.0 + 1));
        self.mark_unsynced(granules);
        self.metadata.note_resync_needed();
        self.end_replay();
    }

    fn end_replay(&mut self) {
        let Current { mut places, header, .. } =
            self.start.current.take().expect("a record is being replayed");
        places.sort_unstable();
        places.dedup();
        self.staging_free.extend(places);
        if let Some(header) = header {
            self.own.give_header(header);
        }
    }

    /// Lists where a record's header lies.
    pub(crate) fn replay_header_segment(&self) -> Segment {
        let current = self.start.current.as_ref().expect("a record is being replayed");
        let header = current.header.expect("a place was taken for it");
        let bytes = self.header_bytes_of(&current.record) as u64;
        Segment { buffer: self.own.header_buffer(header), bytes }
    }

    /// Lists where all of a record lies.
    pub(crate) fn replay_copy_segments(&self, out: &mut Vec<Segment>) {
        out.push(self.replay_header_segment());
        let current = self.start.current.as_ref().expect("a record is being replayed");
        let runs = current.record.runs.iter().enumerate();
        out.extend(runs.map(|(run, it)| self.replay_segment(run as u16, 0, it.rows)));
    }

    /// Lists where so many rows of a run lie, behind those skipped: in its staging place, or in kept memory.
    pub(crate) fn replay_segment(&self, run: u16, skipped: u32, rows: u32) -> Segment {
        let current = self.start.current.as_ref().expect("a record is being replayed");
        let Replay { runs, copies, .. } = &current.record;
        let index = usize::from(run);
        let before: u64 = runs[..index].iter().map(|run| u64::from(run.rows)).sum();
        let (before, first_row) = (before + u64::from(skipped), runs[index].first_row + skipped);
        let bytes = u64::from(rows) * self.geometry.block_bytes();
        let buffer = match copies[current.copy].source {
            LogSource::Kept => {
                let block = copies[current.copy].block + before;
                BufferRef {
                    space: BufferSpace::KeptLog,
                    offset: KEPT_RING_AT as u64 + block * self.geometry.block_bytes(),
                }
            }
            LogSource::Device(_) => {
                let place = u64::from(current.places[usize::from(run)]);
                let row = place * u64::from(self.geometry.strip_rows()) + u64::from(first_row);
                BufferRef { space: BufferSpace::Staging, offset: row * self.geometry.block_bytes() }
            }
        };
        Segment { buffer, bytes }
    }
}
