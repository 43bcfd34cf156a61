//! Routes: cached reads and writes, fills, destages, and what protects the cache.
//!
//! `CacheEngine` owns the slots. It chooses the stripe to destage and knows what a power loss leaves. It returns what it needs of
//! members and stripes step by step, and the controller carries that out.

use crate::api::{HostTag, IoClass, MemberError};
use crate::cache::{
    BatteryState, CacheEngine, CachedRead, DestageStep, PeerState, RestoreError, Surroundings,
};
use crate::controller::Controller;
use crate::ids::OpId;
use crate::member_io::IoOwner;
use crate::request::{CopySet, Fragment};
use raidlab_format::NvramEntry;
use raidlab_units::{BlockCount, Lba, Nanos};

impl Controller {
    /// The cache, and what it looks at of the others.
    #[inline]
    fn cache(&mut self) -> (&mut CacheEngine, Surroundings<'_>) {
        let Self { cache, now, geometry, metadata, stripe_locks, stripes, host, tasks, outbox, .. } = self;
        let (now, locks) = (*now, stripe_locks);
        (cache, Surroundings { now, geometry, metadata, locks, stripes, host, tasks, outbox })
    }

    // Reads.

    /// Serves what the cache has of a fragment from it, and reads the runs that it has not.
    pub(super) fn read_through_cache(&mut self, fragment: Fragment, copies: &mut Option<u32>) {
        let mut read = CachedRead::of(fragment);
        loop {
            let (cache, mut around) = self.cache();
            let Some(missing) = cache.next_missing(&mut read, copies, &mut around) else { return };
            self.read_missing(missing);
        }
    }

    /// Reads the blocks of `fragment` into the cache and gives the host its part. Returns false, having done
    /// nothing, where that can't be: a block is cached already, there is no room, or no copy to read from.
    pub(super) fn fill_for(&mut self, fragment: Fragment) -> bool {
        let rows = self.geometry.rounded_out(fragment.rows);
        let Some(fill) = self.start_fill(&Fragment { rows, ..fragment }, IoClass::Host) else { return false };
        self.cache.join_fill(fill, fragment, &mut self.host);
        true
    }

    fn start_fill(&mut self, whole: &Fragment, class: IoClass) -> Option<u32> {
        if self.metadata.any_out_of_sync() {
            let key = self.geometry.lock_key(whole);
            if self.metadata.needs_resync(&self.geometry, key) || self.is_being_synced(key) {
                return None;
            }
        }
        let (_, place) =
            self.ios.loads().best_copy(whole, CopySet::NONE, (&self.geometry, &self.metadata))?;
        let fill = self.cache.begin_fill(&self.geometry, whole)?;
        self.member_read(place, whole.rows, class, IoOwner::Fill { fill });
        Some(fill)
    }

    /// Takes in the end of a fill.
    pub(super) fn fill_done(&mut self, fill: u32, result: Result<(), MemberError>) {
        let mut waiters = self.cache.take_waiters(fill);
        for part in waiters.drain(..) {
            let Self { cache, geometry, tasks, outbox, .. } = self;
            match result {
                Ok(()) => cache.copy_from_fill(geometry, fill, part, tasks, outbox),
                Err(_) => self.read_from_members(part, CopySet::NONE),
            }
        }
        self.cache.end_fill(&self.geometry, fill, result.is_ok(), waiters);
    }

    /// Reads on behind a host read, if the policy and the host's habits ask for it.
    pub(super) fn read_ahead(&mut self, tag: HostTag, lba: Lba, blocks: BlockCount) {
        let ahead = self.cache.note_read(&self.geometry, (tag, lba, blocks), &mut self.host);
        let is_needless = self.config.cache.read_ahead_with_queue && self.ios.answer_quickly();
        let Some((lba, blocks)) = ahead.filter(|_| !is_needless) else { return };
        let mut walk = self.geometry.walk(HostTag::default(), lba, blocks);
        while let Some(fragment) = walk.next(self.geometry.layout()) {
            let mut left = self.geometry.rounded_out(fragment.rows);
            while let Some(rows) = self.cache.next_unknown(&self.geometry, &fragment, &mut left) {
                self.start_fill(&Fragment { rows, ..fragment }, IoClass::ReadAhead);
            }
        }
    }

    // Writes and destages.

    /// Gives places to the cached writes in line. None while a write goes through: a slot that holds its old data must be free
    /// to be forgotten when it ends.
    #[inline]
    pub(super) fn pump_stalled(&mut self) {
        if self.host.through_in_flight() == 0 && self.cache.has_stalled() {
            self.place_stalled();
        }
    }

    #[inline(never)]
    fn place_stalled(&mut self) {
        while self.cache.has_stalled() {
            let (cache, mut around) = self.cache();
            let Some(tag) = cache.next_placed(&mut around) else { return };
            if !self.host.is_placed(tag) {
                self.write_through(tag);
            }
            self.end_part(tag, Ok(()));
        }
    }

    /// Starts destages as far as they are wanted and allowed.
    #[inline]
    pub(super) fn pump_destage(&mut self) {
        if !self.cache.watch_marks() {
            return;
        }
        if self.cache.is_destage_due(self.now, &self.host, self.log_is_mirrored()) {
            self.start_destages();
        }
        self.cache.set_age_timer(self.now, &mut self.outbox);
    }

    #[inline(never)]
    fn start_destages(&mut self) {
        loop {
            let log_is_mirrored = self.log_is_mirrored();
            let (cache, mut around) = self.cache();
            match cache.next_destage(log_is_mirrored, &mut around) {
                None => return,
                Some(DestageStep::Write(op)) => self.launch_op(op),
                Some(DestageStep::Resync(key)) => self.resync_stripe(key),
                Some(DestageStep::Await(key)) => self.look_at_awaited(key),
            }
        }
    }

    /// Takes in that an operation has written its slots, or could not.
    pub(super) fn end_destage(&mut self, id: OpId) {
        self.cache.end_writes(self.stripes.op(id));
        for index in 0..self.stripes.op(id).slots().len() {
            let Self { cache, stripes, geometry, metadata, host, outbox, .. } = self;
            let op = stripes.op(id);
            let slot = op.slots()[index];
            let has_failed = !op.failed().is_empty();
            let is_kept = has_failed && cache.outlasts_loss(geometry, metadata, slot);
            let stored = !has_failed || !cache.lose_slot(slot, op, is_kept, (geometry, host, outbox));
            while let Some(request) = self.cache.next_waiter(slot) {
                let result = if stored { Ok(()) } else { self.result_for(id, request) };
                self.end_part(request, result);
            }
            self.cache.settle_destaged(slot, is_kept && !stored, &mut self.outbox);
        }
    }

    // Protection.

    /// Takes in the battery's state; under [`crate::WritePolicy::WriteBack`] a cache that needs its battery writes through,
    /// and destages what it holds, while the battery is not good.
    pub fn handle_battery(&mut self, now: Nanos, state: BatteryState) {
        self.advance(now);
        let survived = self.cache_survives_power_loss();
        self.cache.set_battery(state);
        self.hold_to_protection(survived);
        self.check_log_place();
        self.pump();
    }

    /// Takes in the second controller's state, which matters to a mirrored cache only; it is present until told
    /// otherwise. Under [`crate::WritePolicy::WriteBack`] the cache writes through, and destages what it holds, until the other
    /// is there and no slot is dirty that it lacks. A world that starts from NVRAM lets the other come only when
    /// [`Controller::restored_pending`] is 0, so that one of them always has what is restored.
    pub fn handle_peer(&mut self, now: Nanos, state: PeerState) {
        self.advance(now);
        let survived = self.cache_survives_power_loss();
        if self.cache.set_peer(state) {
            if let Some(log) = self.write_intent.log() {
                log.forget_mirrored();
            }
            // One that comes later gets the label with the first.
            if self.cache.has_incarnation() || self.start.is_labelling() {
                self.write_nvram_label();
            }
            self.check_log_place();
        }
        self.hold_to_protection(survived);
        self.pump();
    }

    /// Holds what is under way to the protection that there is now.
    fn hold_to_protection(&mut self, survived: bool) {
        for tag in self.host.tags() {
            let log_is_mirrored = self.log_is_mirrored();
            let Self { cache, geometry, host, .. } = self;
            if cache.hold_to_protection(tag, survived, log_is_mirrored, (geometry, host)) {
                self.begin_flush(tag);
            }
        }
    }

    /// Whether what is in the cache memory is found again after a power loss.
    pub fn cache_survives_power_loss(&self) -> bool {
        self.cache.survives_power_loss()
    }

    /// True while a mirrored cache's second controller has all that is dirty, so that it can take over: what it has must be
    /// of an incarnation that the devices know, and have the label that says so.
    pub fn is_mirroring(&self) -> bool {
        self.cache.is_mirroring() && self.log_is_mirrored()
    }

    /// True while writes are acknowledged from the cache, if it has room for them.
    pub fn writes_back(&self) -> bool {
        self.cache.writes_back(self.log_is_mirrored())
    }

    /// False when the cache is full of data that waits for an array which starts again with the devices that are missing now:
    /// then writes go past it.
    pub fn cache_has_room(&self) -> bool {
        self.cache.has_room()
    }

    /// True where the second controller finds all records of the log, or has no part in this array.
    #[inline]
    fn log_is_mirrored(&self) -> bool {
        !self.config.cache.mirror || self.write_intent.log_is_mirrored(!self.start.needs_nvram_log())
    }

    // NVRAM.

    /// Takes over what NVRAM holds, on a new controller (asserted) whose world has put the cache memory back and
    /// whose log has been applied. The blocks are dirty from here on and due, and are destaged from the next event on, of
    /// which [`Controller::handle_destage_all`] will do. Until [`Controller::restored_pending`] is 0 the host must not be
    /// served: where two slots hold parts of a cache block, reads find one of them only.
    ///
    /// # Errors
    /// [`RestoreError`] when an entry can't be one of this array's; nothing has been taken over then.
    pub fn restore_nvram(
        &mut self,
        entries: impl Iterator<Item = (u32, NvramEntry)>,
    ) -> Result<(), RestoreError> {
        let (cache, around) = self.cache();
        cache.restore(entries, around)
    }

    /// Restored cache slots that are not on the members yet, nor given up because a device is lost.
    pub const fn restored_pending(&self) -> u32 {
        self.cache.restored_count()
    }

    /// Begins a new incarnation of NVRAM: an empty directory, and a label that says so.
    pub(super) fn begin_nvram_incarnation(&mut self) {
        self.cache.clear_directory(&mut self.outbox);
        self.write_nvram_label();
    }

    fn write_nvram_label(&mut self) {
        let Self { cache, metadata, own, tasks, outbox, .. } = self;
        if let Some(record) = metadata.record() {
            cache.write_label(record, own, tasks, outbox);
        }
    }
}
