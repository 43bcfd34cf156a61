//! Routes: operations to write intent before they write in place, and back when they may.
//!
//! Writes to a stripe without parity left need no intent: nothing there can disagree. They do need it where blocks have checksums,
//! and while an older record of the stripe may be written again.
//!
//! Operations that may go on are taken one by one: each may put others in line, or end them.

use crate::api::{IoClass, MemberError};
use crate::controller::Controller;
use crate::ids::{LockKey, OpId};
use crate::member_io::{BesideIo, IntentIo, IoOwner};
use crate::metadata::SuperblockWaiter;
use crate::request::Rows;
use crate::write_intent::{
    Admission, Bitmap, Compared, Log, Replay, ReplayStep, Surroundings, WriteIntent, WriteLog,
};
use raidlab_format::{LogPlace, RecordHolds, Replay as Record};
use raidlab_raid::UnitPlace;
use raidlab_units::{BlockCount, MemberIndex, MemberLba};

/// Rows of a device that an I/O was for.
type Extent = (MemberIndex, MemberLba, u32);

impl Controller {
    /// Write intent, and what it looks at of the others.
    fn write_intent(&mut self) -> (&mut WriteIntent, Surroundings<'_>) {
        let log_place = self.wanted_log_place();
        let Self { write_intent, geometry, metadata, stripes, own, ios, tasks, outbox, now, cache, .. } =
            self;
        let (now, has_peer) = (*now, cache.has_peer());
        let around = Surroundings {
            now,
            geometry,
            metadata,
            ops: stripes.ops(),
            own,
            ios,
            tasks,
            outbox,
            log_place,
            has_peer,
        };
        (write_intent, around)
    }

    /// Lets an operation write in place, at once or when what must be written down before is.
    pub(super) fn admit(&mut self, id: OpId) {
        self.give_parity_up(id);
        let is_forgotten = self.metadata.is_frozen() && !self.metadata.is_kept();
        if is_forgotten || self.metadata.touches_lost(&self.geometry, self.stripes.op(id).key()) {
            // Nothing would be acknowledged. What it relies on would be forgotten, or the device that is lost would come
            // back with redundancy of what was there before.
            return self.give_window_up(id);
        }
        if self.waits_for_region(id) {
            return;
        }
        let is_bare = self.geometry.parities() > 0
            && !self.stripes.op(id).writes_parity(&self.geometry, &self.metadata);
        let stripe = self.stripes.op(id).stripe();
        if !self.metadata.is_kept() && (is_bare || self.metadata.may_find_parity(&self.geometry, stripe)) {
            // After a crash parity would count as good, and a record as whole, unless the devices know what is missing or given up.
            return self.metadata.wait(SuperblockWaiter::Admission(id));
        }
        let is_old_one_left = self.write_intent.may_be_replayed(stripe);
        let unprotected = is_bare && !self.checksums.is_on() && !is_old_one_left;
        if self.write_intent.is_nothing() || unprotected {
            return self.start_writes(id);
        }
        if !self.metadata.mark_dirty() {
            return self.metadata.wait(SuperblockWaiter::Admission(id));
        }
        self.write_down(id);
    }

    fn write_down(&mut self, id: OpId) {
        match self.write_intent.admit(id, self.stripes.op(id).stripe()) {
            Admission::Now => self.start_writes(id),
            Admission::WithImage => self.pump_bitmap(),
            Admission::WithRecord => self.pump_log(),
            Admission::BehindOthers => {}
        }
    }

    /// Takes in that an operation's writes in place have ended; `stored` unless what was written can't be read back.
    ///
    /// Only a device that is lost may need what was written down: it comes back as if nothing had happened. What a medium
    /// error has taken is a bad block, and nothing would write it again.
    pub(super) fn end_intent(&mut self, id: OpId, stored: bool) {
        if self.write_intent.has_write_log() {
            self.change_written(id);
        }
        let stored = stored || !self.metadata.is_frozen();
        let Self { write_intent, stripes, now, metadata, outbox, .. } = self;
        if write_intent.end_write((id, stripes.op(id).stripe()), stored, (*now, metadata, outbox)) {
            self.pump_log();
        }
    }

    /// Takes in the end of an I/O of write intent.
    pub(super) fn intent_io_ended(&mut self, io: IntentIo, extent: Extent, result: Result<(), MemberError>) {
        let (member, ..) = extent;
        match io {
            IntentIo::ReplayHeader | IntentIo::ReplayRead { .. } => {
                let (intent, mut around) = self.write_intent();
                let step = intent.replay().read_done(result, &mut around);
                return self.go_on_with_replay(step);
            }
            IntentIo::ReplayCheck { run, skipped } => {
                return self.replay_rows_read(result.err().map(|_| (run, skipped)));
            }
            IntentIo::ReplayWrite { .. } => {
                self.rows_rewritten(extent, result);
                return self.replay_write_done();
            }
            _ => self.fail_on_flush_error(member, result),
        }
        let failed = result.err().map(|_| member);
        let (intent, mut around) = self.write_intent();
        match io {
            IntentIo::BitmapPreflush if failed.is_none() => {
                let bitmap = intent.bitmap().expect("it was flushed for");
                bitmap.write_image(member, around.ios, around.outbox);
            }
            IntentIo::Bitmap | IntentIo::BitmapPreflush => self.image_done(),
            IntentIo::BitmapFlush => {
                if intent.bitmap().is_some_and(|bitmap| bitmap.flush_done(&mut around)) {
                    self.pump_bitmap();
                }
            }
            IntentIo::Records { first } => {
                if intent.log().is_some_and(|log| log.replica_done(first, failed, &mut around)) {
                    self.batch_live(first);
                }
            }
            IntentIo::LogFlush => {
                if intent.log().is_some_and(|log| log.flush_done(around.metadata)) {
                    self.pump_log();
                }
            }
            IntentIo::ReplayHeaderCopy | IntentIo::ReplayPayloadCopy => {
                let step = intent.replay().copy_done(failed, &mut around);
                self.go_on_with_replay(step);
            }
            IntentIo::ReplayHeader
            | IntentIo::ReplayRead { .. }
            | IntentIo::ReplayCheck { .. }
            | IntentIo::ReplayWrite { .. } => unreachable!("seen to above"),
        }
    }

    // The bitmap.

    /// Sends an image of the bitmap if one is wanted and none is under way.
    pub(super) fn pump_bitmap(&mut self) {
        let (intent, mut around) = self.write_intent();
        if intent.bitmap().is_some_and(|bitmap| bitmap.send(&mut around)) {
            self.image_written();
        }
    }

    fn image_done(&mut self) {
        if self.write_intent.bitmap().is_some_and(Bitmap::image_done) {
            self.image_written();
        }
    }

    /// Lets those go on that were in line for the image that is written.
    fn image_written(&mut self) {
        for _ in 0..self.write_intent.bitmap().map_or(0, |bitmap| bitmap.line_len()) {
            // Where no device is left, the next image ends at once and lets all go on.
            let Some(id) = self.write_intent.bitmap().and_then(Bitmap::next_in_line) else { break };
            // A device that was lost meanwhile lacks the image, and may be the only one that the next start asks.
            self.admit(id);
        }
        self.pump_bitmap();
    }

    /// Takes in that it is time to look for regions to clear.
    pub(super) fn clear_timer_due(&mut self) {
        let (intent, mut around) = self.write_intent();
        if intent.bitmap().is_some_and(|bitmap| bitmap.clear_timer_due(&mut around)) {
            self.pump_bitmap();
        }
    }

    /// Clears the bitmap for a stop: members were flushed.
    pub(super) fn clear_bitmap(&mut self) {
        let Self { write_intent, metadata, .. } = self;
        if let Some(bitmap) = write_intent.bitmap() {
            bitmap.clear_now(metadata);
            self.pump_bitmap();
        }
    }

    /// Gives a device that came an image of the bitmap.
    pub(super) fn greet_newcomer(&mut self) {
        if let Some(bitmap) = self.write_intent.bitmap() {
            bitmap.greet_newcomer();
            self.pump_bitmap();
        }
    }

    // The log.

    /// Where the log's records should go now.
    fn wanted_log_place(&self) -> LogPlace {
        // A record in NVRAM must be found by the second controller, too, if it takes over. Before the host is served NVRAM
        // has no label of its own, and records of what it held go to the members, whatever the battery.
        let found_by_peer = !self.config.cache.mirror || self.cache.has_peer();
        if self.start.is_serving() && self.cache.survives_power_loss() && found_by_peer {
            LogPlace::Nvram
        } else {
            LogPlace::Members
        }
    }

    /// Puts the log of an array that was never started where it should go.
    pub(super) fn settle_log_place(&mut self) {
        let wanted = self.wanted_log_place();
        if let Some(log) = self.write_intent.log()
            && self.metadata.settle_log_place(wanted)
        {
            log.settle(wanted);
        }
    }

    /// Asks for the log to go where it should, if it does not.
    pub(super) fn check_log_place(&mut self) {
        let has_log = self.write_intent.log().is_some();
        if has_log && !self.metadata.is_frozen() && self.start.is_serving() {
            self.metadata.move_log(self.wanted_log_place());
        }
    }

    /// True when the next superblock says another place of the log than the present one.
    pub(super) fn log_moves(&self) -> bool {
        let (place, record) = (self.write_intent.log_place(), self.metadata.record());
        place.zip(record).is_some_and(|(place, record)| place != record.log_place)
    }

    /// Stops new records. Returns true when all that were begun are retired.
    pub(super) fn drain_log(&mut self) -> bool {
        let (intent, mut around) = self.write_intent();
        intent.log().is_none_or(|log| log.drain(&mut around))
    }

    /// Lets records begin again although no superblock will be written.
    pub(super) fn cancel_drain(&mut self) {
        if self.write_intent.log().is_some_and(Log::cancel_drain) {
            self.pump_log();
        }
    }

    /// Lets records begin again, after the superblock was written.
    pub(super) fn start_log_again(&mut self) {
        let Self { write_intent, metadata, .. } = self;
        if let Some(log) = write_intent.log() {
            log.superblock_written(metadata);
            self.pump_log();
        }
    }

    /// Begins records for operations in line, as far as there is room, and gives up those that may never write.
    fn pump_log(&mut self) {
        while self.write_intent.log().is_some_and(|log| log.has_line()) {
            let (intent, mut around) = self.write_intent();
            let Some(id) = intent.log().and_then(|log| log.begin_records(&mut around)) else { return };
            self.give_window_up(id);
        }
    }

    /// Has a change leave partial parity, where a record of it may hold that.
    pub(super) fn choose_partial_parity(&mut self, id: OpId) {
        let Self { write_intent, stripes, geometry, metadata, .. } = self;
        let op = stripes.op_mut(id);
        let log = write_intent.log().filter(|_| op.is_write());
        let is_wanted = log.is_some_and(|log| log.takes_partial_parity(op, metadata));
        op.choose_partial_parity(is_wanted, geometry);
    }

    /// Takes in the digests of a record's payload, and sends the record off.
    pub(super) fn record_digested(&mut self, sequence: u64, digests: &[u32]) {
        let (intent, mut around) = self.write_intent();
        let log = intent.log().expect("a record is the log's");
        if log.digested(sequence, digests, &mut around) {
            self.send_batches();
        }
    }

    fn send_batches(&mut self) {
        loop {
            let (intent, mut around) = self.write_intent();
            let Some(first) = intent.log().and_then(|log| log.send_batches(&mut around)) else { return };
            self.batch_live(first);
        }
    }

    /// Takes in that the records of a batch are where they can be found again.
    fn batch_live(&mut self, first: u64) {
        let log = self.write_intent.log().expect("a record is the log's");
        for sequence in log.end_batch(first) {
            self.record_live(sequence);
        }
        self.send_batches();
    }

    /// Takes in that a record is where it can be found again: its operation may write in place.
    pub(super) fn record_live(&mut self, sequence: u64) {
        let log = self.write_intent.log().expect("a record is the log's");
        let op = log.record_live(sequence, &mut self.own);
        self.start_writes(op);
        self.pump_log();
    }

    // Replay.

    /// Begins to write a record again.
    pub(super) fn begin_replay(&mut self, record: Record) {
        if record.holds != RecordHolds::Rows {
            self.overtake_rows_of_record(&record);
        }
        let staging = self.stripes.take_places(Replay::strips_of(&record));
        let (intent, mut around) = self.write_intent();
        let step = intent.replay().begin(record, staging, &mut around);
        self.go_on_with_replay(step);
    }

    /// Calls unreadable blocks lost that a record names without having what should stand there: it may not have arrived, and parity
    /// would not agree with what did.
    fn overtake_rows_of_record(&mut self, record: &Record) {
        for run in &record.runs {
            let place = self.geometry.unit_place(record.stripe, run.unit);
            if let Some(device) = self.metadata.holder(place) {
                let lba = place.start + BlockCount(u64::from(run.first_row));
                self.metadata.overtake((device, lba, u64::from(run.rows)));
            }
        }
    }

    fn go_on_with_replay(&mut self, step: ReplayStep) {
        match step {
            ReplayStep::Waits => {}
            ReplayStep::Write { writes, unreadable } => {
                self.restore_rows_of_record(unreadable);
                for (io, place, rows) in writes {
                    self.member_write(place, rows, IoClass::Host, false, IoOwner::Intent(io));
                }
                self.replay_write_done();
            }
            ReplayStep::Read(reads) => {
                for (io, place, rows) in reads {
                    self.member_read(place, rows, IoClass::Host, IoOwner::Intent(io));
                }
                self.replay_rows_read(None);
            }
            ReplayStep::Compared(compared) => self.stripe_compared(compared),
            ReplayStep::GiveUp { stripe, lost } => {
                self.lose_rows_of_record(lost);
                self.mark_out_of_sync(stripe.0..stripe.0 + 1);
                self.metadata.note_resync_needed();
                self.end_replay();
            }
        }
    }

    fn lose_rows_of_record(&mut self, lost: Vec<(UnitPlace, Rows)>) {
        for (place, rows) in lost {
            let Some(device) = self.metadata.holder(place) else { continue };
            let lba = place.start + BlockCount(u64::from(rows.first));
            let lost = (device, lba, rows.count);
            self.metadata.lose_rows_of_record(&self.geometry, lost, &mut self.outbox);
        }
    }

    /// Takes in the end of a read of rows to be compared, of which those of a run may have failed.
    fn replay_rows_read(&mut self, failed: Option<(u16, u32)>) {
        let (intent, mut around) = self.write_intent();
        let step = intent.replay().rows_read(failed, &mut around);
        self.go_on_with_replay(step);
    }

    /// Takes in the digests of rows to be compared.
    pub(super) fn replay_digested(&mut self, digests: &[u32]) {
        let (intent, mut around) = self.write_intent();
        let step = intent.replay().digested(digests, &mut around);
        self.go_on_with_replay(step);
    }

    fn restore_rows_of_record(&mut self, unreadable: Vec<(UnitPlace, Rows)>) {
        for (place, rows) in unreadable {
            let Some(device) = self.metadata.holder(place) else { continue };
            let lba = place.start + BlockCount(u64::from(rows.first));
            self.metadata.mark_bad(&self.geometry, (device, lba, u64::from(rows.count)), &mut self.outbox);
            self.repair_later(device, lba, rows.count);
        }
    }

    /// Takes in that what stands in a strip is added to a record's partial parity.
    pub(super) fn strip_added(&mut self) {
        let (intent, around) = self.write_intent();
        let step = intent.replay().strip_added(&around);
        self.go_on_with_replay(step);
    }

    /// Takes in how a stripe compares with a record of checksums. Where all data is there parity is made anew, before the start
    /// goes on; if a device is lost over that, the stripe is compared once more. Rows that do not differ are left alone: what can't
    /// be read there can be made up.
    fn stripe_compared(&mut self, Compared { differs, spoilt, unreadable }: Compared) {
        self.lose_rows_of_record(spoilt);
        self.restore_rows_of_record(unreadable);
        let replay = self.write_intent.replay();
        if !differs.is_empty() && !replay.is_second() {
            let record = replay.note_resynced();
            let key = LockKey::of_stripe(record.stripe);
            self.end_replay();
            self.start.await_resync(record);
            self.mark_out_of_sync(key.0..key.next().0);
            let is_free = self.stripe_locks.lock(key);
            assert!(is_free, "nothing else runs while records are written again");
            return self.resync_rows(key, &differs);
        }
        let resynced = replay.is_second().then(|| replay.stripe());
        self.end_replay();
        // Where it still differs and all data is there, parity is on a lost device: nothing is recorded that would keep the next start
        // from this record.
        if let Some(stripe) = resynced
            && differs.is_empty()
        {
            self.stripe_synced(LockKey::of_stripe(stripe));
        }
    }

    fn replay_write_done(&mut self) {
        if self.write_intent.replay().write_done() {
            self.end_replay();
        }
    }

    fn end_replay(&mut self) {
        let places = self.write_intent.replay().end(&mut self.own);
        self.stripes.give_places(places);
    }

    // Write logs of Linux md.

    /// Takes in that parity of a change is being computed.
    pub(super) fn begin_computing(&mut self, id: OpId) {
        if let Some(log) = self.write_intent.write_log()
            && self.stripes.op(id).is_write()
        {
            log.begin_computing(id);
        }
    }

    /// Takes in that parity of a change is computed.
    pub(super) fn end_computing(&mut self, id: OpId) {
        if let Some(log) = self.write_intent.write_log() {
            log.end_computing(id);
        }
    }

    /// Has a write log take in what a change writes. Returns false if there is nothing to wait for.
    pub(super) fn logs_first(&mut self, id: OpId) -> bool {
        let (intent, mut around) = self.write_intent();
        let waits = intent.write_log().is_some_and(|log| log.takes_in(id, &mut around));
        if waits {
            self.send_units_if_due();
        }
        waits
    }

    /// Sends what write logs took in if a thread has nothing more to handle, or has handled a batch.
    pub(super) fn send_units_if_due(&mut self) {
        if self.write_intent.write_log().is_some_and(|log| log.is_due()) {
            self.send_units();
        }
    }

    fn send_units(&mut self) {
        loop {
            let (intent, mut around) = self.write_intent();
            let Some(unit) = intent.write_log().and_then(|log| log.send(&mut around)) else { return };
            self.unit_written(unit);
        }
    }

    /// Takes in the end of an I/O of a write log, or of the device beside the members.
    pub(super) fn beside_io_ended(
        &mut self,
        io: BesideIo,
        member: MemberIndex,
        result: Result<(), MemberError>,
    ) {
        // Source: `ppl_log_endio`, `r5l_log_endio`: the device fails, and what it was written for goes on.
        if result.is_err() && member != self.config.device_beside() {
            self.fail_member(member);
        }
        match io {
            BesideIo::WriteLog { unit } => self.unit_written(unit),
            BesideIo::WriteLogFlush { unit } => {
                if self.write_intent.write_log().is_some_and(|log| log.unit_flushed(unit)) {
                    self.send_units();
                }
            }
            BesideIo::JournalFlush => self.journal_flushed(),
            BesideIo::Bitmap => self.image_done(),
        }
    }

    fn unit_written(&mut self, unit: u32) {
        let (intent, around) = self.write_intent();
        let log = intent.write_log().expect("a unit is a write log's");
        let line = log.unit_written(unit, around.ios, around.outbox);
        while let Some(unit) = self.write_intent.write_log().and_then(|log| log.next_to_run(line)) {
            self.run_unit(unit);
        }
    }

    fn journal_flushed(&mut self) {
        for _ in 0..self.write_intent.write_log().map_or(0, WriteLog::journal_flushed) {
            let log = self.write_intent.write_log().expect("a unit is a write log's");
            let unit = log.next_flushed();
            self.run_unit(unit);
        }
        let (intent, around) = self.write_intent();
        if let Some(log) = intent.write_log() {
            log.flush_journal(around.ios, around.outbox);
        }
    }

    /// Writes the stripes of a unit to the members.
    fn run_unit(&mut self, unit: u32) {
        let log = self.write_intent.write_log().expect("a unit is a write log's");
        let mut stripes = log.begin_run(unit);
        for id in stripes.drain(..) {
            self.start_writes(id);
        }
        let (intent, mut around) = self.write_intent();
        if intent.write_log().is_some_and(|log| log.end_run(unit, stripes, &mut around)) {
            self.send_units();
        }
    }

    fn change_written(&mut self, id: OpId) {
        let (intent, mut around) = self.write_intent();
        if intent.write_log().is_some_and(|log| log.change_written(id, &mut around)) {
            self.send_units();
        }
    }
}
