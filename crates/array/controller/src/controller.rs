//! The controller itself: its parts, the events it takes, and the getters.

mod cache;
mod checks;
mod host;
mod io;
mod scan;
mod start;
mod stripes;
mod superblock;
mod write_intent;
mod written;

use crate::api::{
    Action, HostRequest, MemberError, MemberIoId, MemoryTaskId, RecordedWrites, Scan, ScanProgress, TimerId,
    Undecided,
};
use crate::cache::{AGE_TIMER, CacheEngine};
use crate::checksums::Checksums;
use crate::config::{ArrayConfig, ConfigError, MemoryNeeds};
use crate::discard::Discards;
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::ids::LockKey;
use crate::member_io::MemberIos;
use crate::memory_task::MemoryTasks;
use crate::metadata::{DeviceState, Health, Metadata};
use crate::outbox::{Counters, Outbox};
use crate::own::OwnMemory;
use crate::retries::{RETRY_TIMER, Retries};
use crate::scan::{BackgroundScan, SCAN_TIMER, ScanRefused};
use crate::start::Start;
use crate::stop::Stop;
use crate::stripe_engine::StripeEngine;
use crate::stripe_locks::StripeLocks;
use crate::write_coalescing::{HOLD_TIMER, WriteCoalescing};
use crate::write_intent::{CLEAR_TIMER, WriteIntent};
use crate::written::Written;
use core::ops::Range;
use raidlab_format::{
    AreaLayout, ArrayState, ArrayUuid, BadReason, DeviceUuid, MetadataPolicy, NVRAM_RING_AT, RegionMap,
};
use raidlab_raid::{FailuresSurvived, Layout};
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, MemberLba, Nanos};

/// An array controller. See the crate's head for how a world drives it.
#[derive(Debug)]
pub struct Controller {
    config: ArrayConfig,
    geometry: Geometry,
    now: Nanos,
    metadata: Metadata,
    write_intent: WriteIntent,
    start: Start,
    stop: Stop,
    own: OwnMemory,
    checksums: Checksums,
    written: Written,
    area: AreaLayout,
    cache: CacheEngine,
    stripe_locks: StripeLocks,
    coalescing: WriteCoalescing,
    stripes: StripeEngine,
    scan: BackgroundScan,
    ios: MemberIos,
    retries: Retries,
    tasks: MemoryTasks,
    host: HostFront,
    discards: Discards,
    outbox: Outbox,
}

impl Controller {
    /// Timers that it sets are numbered below this.
    pub const TIMERS: u32 = 5;

    /// Makes a controller for an array whose members are all present and whose redundancy agrees.
    ///
    /// # Errors
    /// [`ConfigError`] when the level does not allow the members or the sizes don't fit each other.
    pub fn new(config: &ArrayConfig) -> Result<Self, ConfigError> {
        let checked = config.check()?;
        let layout = checked.layout;
        let shape = layout.shape();
        let devices = usize::from(layout.member_count() + config.resilience.spares);
        let keeps_metadata = config.resilience.metadata != MetadataPolicy::None;
        let header_bytes = config.header_bytes_max(&*layout);
        let own = OwnMemory::new(keeps_metadata, header_bytes, Checksums::memory_bytes(config));
        let checksums = Checksums::new(config, shape.strip_blocks, own.tags_at);
        let strips_each = config.member_size.0 / (checksums.pitch() * config.block_size.bytes());
        // As if it were just created.
        let state = keeps_metadata.then(|| config.new_state(layout.member_count(), ArrayUuid::default()));
        let mut controller = Self {
            metadata: Metadata::new(&*layout, config.resilience.spares, state),
            write_intent: WriteIntent::new(config, &*layout),
            start: Start::default(),
            stop: Stop::default(),
            checksums,
            written: Written::new(config, shape.strip_blocks.0 as u32),
            own,
            area: config.metadata_area(),
            cache: CacheEngine::new(config, checked.cache_slots),
            stripe_locks: StripeLocks::new(),
            coalescing: WriteCoalescing::new(&config.cache, shape.parities > 0),
            stripes: StripeEngine::new(config, checked.staging_places, shape.parities > 0),
            scan: BackgroundScan::new(config, strips_each),
            config: config.clone(),
            geometry: Geometry::new(layout, config.block_size.bytes(), checked.cache_block_rows),
            now: Nanos::ZERO,
            ios: MemberIos::new(devices, config.block_size, &config.cache),
            retries: Retries::new(devices),
            tasks: MemoryTasks::new(),
            host: HostFront::default(),
            discards: Discards::default(),
            outbox: Outbox::default(),
        };
        controller.settle_log_place();
        Ok(controller)
    }

    /// Takes in a host request. Its tag must not be in use (asserted). Until [`crate::Notice::Serving`] it waits, and where scans have a
    /// share of the time ([`crate::ArrayRules::scan_share_pct`]), while a slice of it goes on.
    pub fn handle_host_request(&mut self, now: Nanos, request: HostRequest) {
        self.advance(now);
        self.end_stop();
        if self.start.is_serving() && !self.scan.holds_host() {
            self.begin_request(request);
        } else {
            self.start.hold(request);
        }
        self.pump();
    }

    /// Takes in the end of a member I/O. After [`MemberError::Gone`] the member is out of the array.
    pub fn handle_member_completion(&mut self, now: Nanos, id: MemberIoId, result: Result<(), MemberError>) {
        self.advance(now);
        self.member_io_done(id.0, result);
        self.pump();
    }

    /// Takes in the end of a memory task.
    pub fn handle_memory_completion(&mut self, now: Nanos, id: MemoryTaskId) {
        self.advance(now);
        self.memory_task_done(id.0, &[]);
        self.pump();
    }

    /// Takes in the end of a digest task: the CRC32C (Castagnoli, as in iSCSI) of each of its rows, in the order of
    /// [`Controller::digest_rows`].
    pub fn handle_digests(&mut self, now: Nanos, id: MemoryTaskId, digests: &[u32]) {
        self.advance(now);
        self.memory_task_done(id.0, digests);
        self.pump();
    }

    /// Takes in that a timer is due.
    ///
    /// # Panics
    /// If the controller has set no such timer.
    pub fn handle_timer(&mut self, now: Nanos, id: TimerId) {
        self.advance(now);
        match id {
            AGE_TIMER => self.cache.age_timer_due(),
            CLEAR_TIMER => self.clear_timer_due(),
            SCAN_TIMER => self.scan.timer_due(),
            HOLD_TIMER => self.coalescing.timer_due(),
            RETRY_TIMER => self.retries_due(),
            TimerId(other) => panic!("the controller sets no timer {other}"),
        }
        self.pump();
    }

    /// Takes in that a member is gone: pulled, dead, or failed by the operator. The world still ends each I/O that it
    /// has under way on that member.
    ///
    /// # Panics
    /// If the array has no such device, member or spare.
    pub fn handle_member_loss(&mut self, now: Nanos, member: MemberIndex) {
        self.advance(now);
        self.fail_member(member);
        self.pump();
    }

    /// Makes all that is dirty due for the members at once, whatever the marks and its age: before a shutdown, or
    /// between two runs. [`Controller::is_idle`] says when it is done.
    pub fn handle_destage_all(&mut self, now: Nanos) {
        self.advance(now);
        self.cache.destage_all();
        self.pump();
    }

    /// Stops the array cleanly: destages, makes everything durable, and lets the devices know that they agree. The host
    /// must have no request in flight and make none until [`crate::Notice::Stopped`].
    pub fn handle_stop(&mut self, now: Nanos) {
        self.advance(now);
        self.begin_stop();
        self.pump();
    }

    /// Takes in that a device answers at the place of one that has left: the same again, or another. Its world has given it
    /// a label with this identity, drawn for it, over a metadata area of zeros (see "A device that joins" in
    /// `docs/on-disk-format.md`). Nothing on it is trusted: it becomes a spare, when what was under way there has ended, and
    /// takes the place of a missing member if there is one. It counts once the state names it. A device that is lost is not
    /// labelled again, and stays lost until the array starts again.
    ///
    /// # Panics
    /// If the array has no such device, member or spare.
    pub fn handle_device_added(&mut self, now: Nanos, device: MemberIndex, device_uuid: DeviceUuid) {
        self.advance(now);
        self.add_device(device, device_uuid);
        self.pump();
    }

    /// Bounds the rate of scans from here on: bytes walked over on each member in a second; no bound if none. At 0 they
    /// rest where they are.
    pub fn handle_scan_rate(&mut self, now: Nanos, bytes_per_sec: Option<ByteCount>) {
        self.advance(now);
        self.config.resilience.scan_bytes_per_sec = bytes_per_sec;
        self.scan.set_rate(now, bytes_per_sec, &mut self.outbox);
        self.pump();
    }

    /// Begins a check or a repair.
    ///
    /// # Errors
    /// [`ScanRefused`] while another scan runs, and where it can't be.
    pub fn handle_scan(&mut self, now: Nanos, scan: Scan) -> Result<(), ScanRefused> {
        self.advance(now);
        self.scan.ask(&self.geometry, &self.metadata, scan, &mut self.outbox)?;
        self.pump();
        Ok(())
    }

    /// Ends the check or repair that runs or is parked where it is, once what it has under way has ended, and returns which it
    /// is; none if there is none. A rebuild or a resync goes on.
    pub fn handle_scan_stop(&mut self, now: Nanos) -> Option<Scan> {
        self.advance(now);
        let stopped = self.scan.stop(&mut self.outbox);
        self.pump();
        stopped
    }

    /// Hands out the next action, in the order in which they must be taken. A world asks when it has handed in all that it
    /// has at the moment: writes that come together are carried out together.
    #[inline]
    pub fn poll_action(&mut self) -> Option<Action> {
        if self.outbox.is_empty() && self.coalescing.has_work() {
            self.start_collected();
        }
        self.outbox.poll()
    }

    /// Length of the metadata area of each device.
    pub fn metadata_blocks(&self) -> BlockCount {
        let own = if self.metadata.record().is_some() { self.area.total_bytes } else { 0 };
        BlockCount((own + self.write_intent.write_log_bytes().0) / self.geometry.block_bytes())
    }

    /// Length of NVRAM's label and log: none where nothing is kept, or no memory.
    fn nvram_log_bytes(&self) -> ByteCount {
        let keeps = self.metadata.record().is_some() && self.cache.keeps_directory();
        ByteCount(if keeps { NVRAM_RING_AT as u64 + self.area.log.length_bytes } else { 0 })
    }

    /// The memory behind [`crate::BufferSpace::Own`]. What a member I/O or a task names in it does not change until that
    /// ends.
    pub fn own_memory(&self) -> &[u8] {
        self.own.bytes()
    }

    /// The same, for what member reads bring into it.
    pub fn own_memory_mut(&mut self) -> &mut [u8] {
        self.own.bytes_mut()
    }

    /// Moves that memory to another place, for a world whose I/O on it does not end. Returns what was there, which must be kept until
    /// that I/O has ended.
    pub fn move_own_memory(&mut self) -> Vec<u8> {
        self.own.move_away()
    }

    fn advance(&mut self, now: Nanos) {
        assert!(now >= self.now, "time went back from {} to {} ns", self.now.0, now.0);
        self.now = now;
        self.ios.set_now(now);
    }

    /// Lets each part go on, until none has made work for another. What it keeps true, whichever event came before:
    ///
    /// - each part has asked for all that it can at this time: who waits for memory, a lock, a record, the state or the start has
    ///   what it waits for or is in line for it;
    /// - nothing is asked for twice: a part that has asked is under way, and is not asked again before that ends;
    /// - the order of parts is the same at all times, so that the same events give the same actions.
    ///
    /// It ends: each round that is followed by another has taken something out of a line, moved a start or a scan on, or made
    /// room.
    fn pump(&mut self) {
        loop {
            self.forget_given_up();
            self.pump_scan();
            self.pump_stalled();
            let dirty = self.cache.dirty_count();
            self.pump_destage();
            // What could not be stored has made room at once.
            let made_room = self.cache.has_stalled() && self.cache.dirty_count() < dirty;
            self.pump_flushes();
            // Whoever waited for the state, and what a start brings back or lets in, may have made work for the others.
            let went_on = self.pump_superblock();
            let moved_on = self.pump_start();
            self.pump_stop();
            let checked = self.checksums.any_ready() && self.pump_checks();
            self.pump_written();
            let scanned = self.scan.is_due(&self.metadata) && self.start.is_serving();
            if !(made_room || went_on || moved_on || checked || scanned) {
                return;
            }
        }
    }

    /// The memory that the world provides for the cache and for staging.
    pub fn memory_needs(&self) -> MemoryNeeds {
        let places = self.config.staging_size.0
            / (u64::from(self.geometry.strip_rows()) * self.geometry.block_bytes());
        MemoryNeeds {
            cache_bytes: ByteCount(u64::from(self.cache.slot_count()) * self.config.cache.block_size.0),
            staging_bytes: ByteCount(
                places * u64::from(self.geometry.strip_rows()) * self.geometry.block_bytes(),
            ),
            nvram_log_bytes: self.nvram_log_bytes(),
            directory_entries: self.cache.directory_entries(),
        }
    }

    /// The configuration that it was made with.
    pub const fn config(&self) -> &ArrayConfig {
        &self.config
    }

    /// Where each strip lives.
    pub fn layout(&self) -> &dyn Layout {
        self.geometry.layout()
    }

    /// Size of the volume that the host sees.
    pub fn volume_blocks(&self) -> BlockCount {
        self.geometry.layout().volume_blocks()
    }

    /// How many members may fail.
    pub fn failures_survived(&self) -> FailuresSurvived {
        self.geometry.layout().failures_survived()
    }

    /// What each device is to the array, members first, then spares.
    pub fn device_states(&self) -> impl Iterator<Item = DeviceState> + '_ {
        self.metadata.device_states()
    }

    /// The state that the devices keep, or are to keep next; none where nothing is kept.
    pub fn array_state(&self) -> Option<&ArrayState> {
        self.metadata.record()
    }

    /// The role that a device which is missing played last, until another plays it.
    ///
    /// # Panics
    /// If the array has no such device, member or spare.
    pub fn former_role(&self, device: MemberIndex) -> Option<MemberIndex> {
        self.metadata.former_role(device)
    }

    /// Which physical device a device is.
    ///
    /// # Panics
    /// If the array has no such device, member or spare.
    pub fn device_uuid(&self, device: MemberIndex) -> DeviceUuid {
        self.metadata.device_uuid(device)
    }

    /// True if some stripe could not be read any more without this device.
    ///
    /// # Panics
    /// If the array has no such device, member or spare.
    pub fn needs_device(&self, device: MemberIndex) -> bool {
        self.metadata.needs_device(&self.geometry, device)
    }

    /// The states as they may be written down: a device that is being rebuilt holds its role up to where it would survive a
    /// power loss.
    pub fn kept_device_states(&self) -> impl Iterator<Item = DeviceState> + '_ {
        self.metadata.kept_device_states()
    }

    /// True when the devices that are left keep the latest state: who is in sync, what is bad.
    pub const fn is_state_kept(&self) -> bool {
        self.metadata.is_kept()
    }

    /// The first block of an acknowledged write that did not reach the members, if there is one that no host flush has told of: who
    /// stops the array is to hear of it.
    pub const fn untold_loss(&self) -> Option<Lba> {
        self.cache.untold_loss()
    }

    /// The blocks that are errors until they are written again, or can be read again: device, first block in its data area, and how
    /// many.
    pub fn bad_blocks(&self) -> impl Iterator<Item = (MemberIndex, MemberLba, BlockCount)> + '_ {
        self.metadata.bad_ranges().map(|(device, lba, blocks, _)| (device, lba, blocks))
    }

    /// The same with the reason of each.
    pub fn bad_ranges(&self) -> impl Iterator<Item = (MemberIndex, MemberLba, BlockCount, BadReason)> + '_ {
        self.metadata.bad_ranges()
    }

    /// Notes that blocks of a device's data area are bad, as after a start from its superblock, or because the operator knows.
    /// Nothing happens for a device that is no member. A device with more bad ranges than the list holds is failed.
    ///
    /// # Panics
    /// If the array has no such device, member or spare.
    pub fn mark_bad_blocks(&mut self, device: MemberIndex, lba: MemberLba, blocks: BlockCount) {
        self.metadata.mark_bad(&self.geometry, (device, lba, blocks.0), &mut self.outbox);
        self.forget_given_up();
    }

    /// How many stripe locks there are: one for each stripe where there is parity, else for each strip.
    pub fn lock_count(&self) -> u64 {
        self.geometry.lock_count()
    }

    /// How many stripes may disagree with their redundancy; see [`Controller::mark_out_of_sync`].
    pub const fn out_of_sync_stripes(&self) -> u64 {
        self.metadata.out_of_sync_count()
    }

    /// Notes that the redundancy of stripes (numbers below [`Controller::lock_count`], asserted) may disagree with
    /// their data, as after a crash. They are resynced with the next event, and before the host touches them.
    ///
    /// # Panics
    /// If not all of these stripes are among those of the array.
    pub fn mark_out_of_sync(&mut self, stripes: Range<u64>) {
        let count = self.lock_count();
        assert!(stripes.end <= count, "stripes {stripes:?} are not all among {count}");
        if self.can_be_out_of_sync() {
            self.metadata.mark_out_of_sync(&self.geometry, LockKey(stripes.start)..LockKey(stripes.end));
            self.scan.note_out_of_sync();
        }
    }

    /// The same of all stripes that a bitmap marks.
    fn mark_regions_out_of_sync(&mut self, marked: &RegionMap) {
        if self.can_be_out_of_sync() {
            self.metadata.mark_regions_out_of_sync(&self.geometry, marked);
            self.scan.note_out_of_sync();
        }
    }

    /// True where something could disagree: redundancy with data, or block checksums with it.
    fn can_be_out_of_sync(&self) -> bool {
        self.geometry.is_redundant() || self.checksums.is_on()
    }

    /// What the host has lost, and how far the array is from losing more.
    pub fn health(&self) -> Health {
        self.metadata.health(&self.geometry)
    }

    /// How far the scan is that runs, or rests.
    pub fn scan_progress(&self) -> Option<ScanProgress> {
        self.scan.progress()
    }

    /// Which writes are recorded; none where blocks have no checksums.
    pub fn recorded_writes(&self) -> Option<RecordedWrites> {
        self.checksums.is_on().then(|| self.written.recorded())
    }

    /// Blocks of which the latest check or repair could not tell what is wrong, in order of address. The list is bounded.
    pub fn undecided(&self) -> &[Undecided] {
        self.scan.undecided()
    }

    /// Rows that the latest check found wrong by the evidence, and left as they are; a repair writes them anew.
    pub const fn wrong_rows(&self) -> u64 {
        self.scan.wrong_rows()
    }

    /// How far the check, repair or resync is that waits until the rebuild that runs is over.
    pub fn parked_scan_progress(&self) -> Option<ScanProgress> {
        self.scan.parked_progress()
    }

    /// What has been done so far.
    pub const fn counters(&self) -> Counters {
        self.outbox.counters()
    }

    /// Acknowledged data that only the cache holds, in cache blocks.
    pub const fn dirty_cache_blocks(&self) -> u32 {
        self.cache.dirty_count()
    }

    /// The same in array blocks: a cache block is dirty as a whole where one of its array blocks is. It looks at all of them.
    pub fn dirty_blocks(&self) -> u64 {
        self.cache.dirty_blocks()
    }

    /// True when nothing is under way and nothing is dirty. A scan is under way until it has ended or rests.
    pub fn is_idle(&self) -> bool {
        self.cache.dirty_count() == 0
            && self.scan.is_idle()
            && self.ios.is_empty()
            && self.retries.is_empty()
            && self.tasks.is_empty()
            && self.checksums.is_idle()
            && self.stripe_locks.is_empty()
            && self.outbox.is_empty()
            && self.start.is_idle()
            && (self.metadata.is_kept() || self.metadata.is_frozen())
            && self.host.is_idle()
    }
}
