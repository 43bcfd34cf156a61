//! What the array knows about itself: devices and roles, bad blocks, stripes out of sync, and the superblock that keeps
//! all of it on the devices.
//!
//! ```text
//! in sync ──► missing ──► (one answers there) ──► spare ──► rebuilding, boundary 0 ──► in sync
//!     └─────► lost, where that is more than the level survives, or more than half of the members at once: stays so
//!             until the array starts again
//! ```
//! A spare takes a vacant role with the next event. The bad blocks of a device go with it.
//!
//! Invariant: whatever a start must know is followed by a change of the superblock (`superblock.rs`). Left out: I/Os, which
//! the controller asks for, and rebuilds, which are the background scan's.

mod bad_blocks;
mod health;
mod members;
mod out_of_sync;
mod redundancy;
mod superblock;

pub use health::Health;
pub use members::DeviceState;
pub(crate) use superblock::SuperblockWaiter;

use crate::api::{MemberError, Notice};
use crate::geometry::Geometry;
use crate::ids::LockKey;
use crate::outbox::Outbox;
use crate::request::Rows;
use bad_blocks::{BadBlocks, Change};
use core::ops::Range;
use members::{Loss, Members, places_of};
use out_of_sync::OutOfSync;
use raidlab_format::{
    ArrayState, ArrayUuid, Assembly, BadRange, BadReason, DeviceRecord, DeviceUuid, LogPlace, RegionIndex,
    RegionMap, StartNonce,
};
use raidlab_raid::{Layout, UnitPlace};
use raidlab_units::{BlockCount, MemberIndex, MemberLba, StripeIndex};
use superblock::Superblock;

/// The array's knowledge of itself.
#[derive(Debug)]
pub(crate) struct Metadata {
    members: Members,
    bad_blocks: BadBlocks,
    /// What came onto the list since it was asked for: device, first block, and how many.
    given_up: Vec<(MemberIndex, MemberLba, u64)>,
    out_of_sync: OutOfSync,
    superblock: Superblock,
    /// Counts devices that left or came.
    membership_changes: u64,
}

/// An incarnation of NVRAM, as superblock and label name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Incarnation {
    pub(crate) epoch: u64,
    /// The start that began it.
    pub(crate) start: StartNonce,
}

/// A stretch of blocks that are all bad, or all not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) bad: bool,
    pub(crate) blocks: u64,
}

impl Metadata {
    /// An array whose members are all there, with `spares` behind them; `record` is on the devices, none where they keep
    /// nothing.
    pub(crate) fn new(layout: &dyn Layout, spares: u16, record: Option<ArrayState>) -> Self {
        let in_sync = |role| DeviceState::InSync { role: MemberIndex(role) };
        let spares = std::iter::repeat_n(DeviceState::Spare, usize::from(spares));
        let states = (0..layout.member_count()).map(in_sync).chain(spares);
        Self {
            members: Members::new(states, layout.member_count()),
            bad_blocks: BadBlocks::default(),
            given_up: Vec::new(),
            out_of_sync: OutOfSync::default(),
            superblock: Superblock::new(record),
            membership_changes: 0,
        }
    }

    // Devices.

    /// State of each device, members first, then spares.
    pub(crate) fn device_states(&self) -> impl Iterator<Item = DeviceState> + '_ {
        self.members.states()
    }

    /// State of each device as it may be written down: what is being rebuilt holds its role up to where it would survive a
    /// power loss.
    pub(crate) fn kept_device_states(&self) -> impl Iterator<Item = DeviceState> + '_ {
        self.members.kept_states()
    }

    /// Which physical device it is.
    pub(crate) fn device_uuid(&self, device: MemberIndex) -> DeviceUuid {
        self.members.uuid(device)
    }

    /// The role that a device which is missing played last, until another plays it.
    pub(crate) fn former_role(&self, device: MemberIndex) -> Option<MemberIndex> {
        let line = self.record()?.devices.get(device.index())?;
        let is_gone = self.members.state(device) == DeviceState::Missing;
        let role = line.role.filter(|_| is_gone).map(MemberIndex)?;
        self.members.player(role).is_none().then_some(role)
    }

    /// True if some stripe could not be read any more without this device.
    pub(crate) fn needs_device(&self, geometry: &Geometry, device: MemberIndex) -> bool {
        let role = self.members.role(device);
        role.is_some_and(|role| {
            self.members.in_sync(role) == Some(device) && self.members.is_last_hope(role, geometry.layout())
        })
    }

    /// The role that a device plays, in whole or in part.
    pub(crate) fn role(&self, device: MemberIndex) -> Option<MemberIndex> {
        self.members.role(device)
    }

    /// The device that plays a role, in whole or in part.
    pub(crate) fn player(&self, role: MemberIndex) -> Option<MemberIndex> {
        self.members.player(role)
    }

    /// The device that holds all of a role.
    pub(crate) fn in_sync(&self, role: MemberIndex) -> Option<MemberIndex> {
        self.members.in_sync(role)
    }

    /// True if a device holds all of a role, and a start that is made now finds it so.
    pub(crate) fn is_found_in_sync(&self, role: MemberIndex) -> bool {
        self.in_sync(role).is_some_and(|device| self.superblock.found_in_sync().contains(&(device, role)))
    }

    /// True if no device holds all of a role, and a start that is made now finds none either: the devices know.
    pub(crate) fn is_found_missing(&self, role: MemberIndex) -> bool {
        self.in_sync(role).is_none()
            && self.superblock.found_in_sync().iter().all(|(_, found)| *found != role)
    }

    /// True if a parity of a stripe is on no device, and yet a start may find it: it was on one that the devices call in sync. No
    /// write updates it, and no record has it.
    pub(crate) fn may_find_parity(&self, geometry: &Geometry, stripe: StripeIndex) -> bool {
        let units = geometry.unit_count();
        let mut places =
            (units - geometry.parities()..units).map(|unit| geometry.unit_place(stripe, unit as u16));
        places.any(|place| self.holder(place).is_none() && !self.is_found_missing(place.member))
    }

    /// The device that holds what the layout puts at `place`, if one does.
    #[inline]
    pub(crate) fn holder(&self, place: UnitPlace) -> Option<MemberIndex> {
        self.members.holder(place)
    }

    /// True if some device holds what the layout puts at `place`.
    #[inline]
    pub(crate) fn holds(&self, place: UnitPlace) -> bool {
        self.members.holds(place)
    }

    /// The devices that answer: all but those missing and lost.
    pub(crate) fn answering(&self) -> impl Iterator<Item = MemberIndex> + '_ {
        self.members.answering()
    }

    /// True if any device is lost.
    #[inline]
    pub(crate) const fn any_lost(&self) -> bool {
        self.members.any_lost()
    }

    /// True if a role is not held in whole by any device.
    #[inline]
    pub(crate) const fn any_incomplete(&self) -> bool {
        self.members.any_incomplete()
    }

    /// How often a device left or came. Another number than before means that scans may have to begin or end.
    #[inline]
    pub(crate) const fn membership_changes(&self) -> u64 {
        self.membership_changes
    }

    /// Takes a device out of the array.
    pub(crate) fn fail(&mut self, geometry: &Geometry, device: MemberIndex, outbox: &mut Outbox) {
        let outvoted = self.superblock.is_outvoted_without(device, &self.members);
        match self.members.lose(device, geometry.layout(), outvoted) {
            Loss::Known => return,
            Loss::Survived => {
                self.bad_blocks.forget(device);
                self.change();
            }
            Loss::BeyondRedundancy => self.members.lose_unwritten(self.superblock.found_in_sync()),
        }
        self.membership_changes += 1;
        outbox.notify(Notice::MemberFailed { member: device });
    }

    /// Takes in that a device with a new label answers at this place. Returns false where it can't join.
    pub(crate) fn announce(
        &mut self,
        geometry: &Geometry,
        device: MemberIndex,
        uuid: DeviceUuid,
        outbox: &mut Outbox,
    ) -> bool {
        match self.members.state(device) {
            DeviceState::Lost { .. } => return false,
            // It was gone and nobody said so: what it missed can't be told.
            DeviceState::InSync { .. } | DeviceState::Rebuilding { .. } | DeviceState::Spare => {
                self.fail(geometry, device, outbox);
            }
            DeviceState::Missing => {}
        }
        let joins = self.members.state(device) == DeviceState::Missing;
        if joins {
            self.members.note_newcomer(device, uuid);
        }
        joins
    }

    /// Makes a spare of a device that was announced. Nothing from before may be under way on it. Returns false if there is
    /// none.
    pub(crate) fn admit(&mut self, device: MemberIndex) -> bool {
        let comes = self.members.take_newcomer(device);
        if comes {
            self.members.set_state(device, DeviceState::Spare);
            self.change();
            self.membership_changes += 1;
        }
        comes
    }

    /// Gives vacant roles to spares; not while a device is lost, for what the array is then is not written down.
    pub(crate) fn assign_spares(&mut self) {
        while !self.members.any_lost()
            && let Some(role) = self.members.vacant_role()
            && let Some(spare) = self.members.first(|state| state == DeviceState::Spare)
        {
            let boundary = MemberLba::ZERO;
            self.members.set_state(spare, DeviceState::Rebuilding { role, boundary });
            self.change();
        }
    }

    // Rebuilds.

    /// The device that is to be rebuilt first.
    pub(crate) fn rebuild_target(&self) -> Option<MemberIndex> {
        self.members.first(|state| matches!(state, DeviceState::Rebuilding { .. }))
    }

    /// How far a device holds its role that is being rebuilt; none if it is not.
    pub(crate) fn rebuild_boundary(&self, device: MemberIndex) -> Option<MemberLba> {
        match self.members.state(device) {
            DeviceState::Rebuilding { boundary, .. } => Some(boundary),
            _ => None,
        }
    }

    /// Moves the boundary of a device that is being rebuilt.
    pub(crate) fn advance_boundary(&mut self, device: MemberIndex, to: MemberLba) {
        self.members.advance_boundary(device, to);
    }

    /// Notes that what a device that is being rebuilt holds below `to` survives a power loss.
    pub(crate) fn keep_boundary(&mut self, device: MemberIndex, to: MemberLba) {
        self.members.keep_boundary(device, to);
    }

    /// Calls a device that was rebuilt in sync.
    pub(crate) fn finish_rebuild(&mut self, device: MemberIndex) {
        let role = self.members.role(device).expect("it is being rebuilt");
        self.members.set_state(device, DeviceState::InSync { role });
        self.change();
    }

    // Bad blocks.

    /// True when some block is bad.
    #[inline]
    pub(crate) const fn any_bad(&self) -> bool {
        !self.bad_blocks.is_empty()
    }

    /// The blocks that are errors: device, first block, how many, and why.
    pub(crate) fn bad_ranges(
        &self,
    ) -> impl Iterator<Item = (MemberIndex, MemberLba, BlockCount, BadReason)> + '_ {
        self.bad_blocks.iter()
    }

    /// The first bad block of a device, or of a later one, from `lba` on, and how many behind it are bad for the same reason.
    pub(crate) fn next_bad(
        &self,
        device: MemberIndex,
        lba: MemberLba,
    ) -> Option<(MemberIndex, MemberLba, u64)> {
        self.bad_blocks.next_from(device, lba)
    }

    /// How many blocks are bad.
    pub(crate) fn bad_count(&self) -> u64 {
        self.bad_blocks.iter().map(|(.., blocks, _)| blocks.0).sum()
    }

    /// True if any of the blocks is bad, and not only because it could not be read.
    pub(crate) fn overlaps_lost(&self, extent: (MemberIndex, MemberLba, u64)) -> bool {
        self.bad_blocks.overlaps_for(BadReason::Lost, extent)
    }

    /// True if any of the blocks is bad.
    #[inline]
    pub(crate) fn overlaps_bad(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> bool {
        self.bad_blocks.overlaps(device, lba, blocks)
    }

    /// How far the blocks from `lba` on, `blocks` at most, are all bad or all not.
    pub(crate) fn bad_stretch(&self, device: MemberIndex, lba: MemberLba, blocks: u64) -> Stretch {
        self.bad_blocks.stretch(device, lba, blocks)
    }

    /// Puts blocks on the list as lost. True if they were not all there before. A device with more lost ranges than the list holds
    /// is failed.
    pub(crate) fn mark_bad(
        &mut self,
        geometry: &Geometry,
        extent: (MemberIndex, MemberLba, u64),
        outbox: &mut Outbox,
    ) -> bool {
        self.mark_bad_for(geometry, extent, BadReason::Lost, outbox)
    }

    /// The same for a reason. What can only not be read need not be on the list: the next read finds out again.
    fn mark_bad_for(
        &mut self,
        geometry: &Geometry,
        (device, lba, blocks): (MemberIndex, MemberLba, u64),
        reason: BadReason,
        outbox: &mut Outbox,
    ) -> bool {
        let holds =
            matches!(self.members.state(device), DeviceState::InSync { .. } | DeviceState::Rebuilding { .. });
        if !holds || blocks == 0 {
            return false;
        }
        let change = self.bad_blocks.add((device, lba, blocks), reason);
        self.given_up.push((device, lba, blocks));
        if change == Change::Full && reason == BadReason::Unreadable {
            return false;
        }
        self.take_bad_change(geometry, device, change, outbox);
        change != Change::Nothing
    }

    /// Calls blocks lost that are on the list, because nobody knows whether what stands there is the newest.
    pub(crate) fn overtake(&mut self, extent: (MemberIndex, MemberLba, u64)) {
        if self.bad_blocks.lose(extent) == Change::Done {
            self.change();
        }
    }

    /// Takes in that rows could be read which may be called unreadable.
    pub(crate) fn rows_read_again(
        &mut self,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
        outbox: &mut Outbox,
    ) {
        let extent = (device, lba, u64::from(rows));
        // Where the list has no room to tell them from others, they stay on it.
        if self.any_bad() && self.bad_blocks.clear_unreadable(extent) == Change::Done {
            self.change();
            outbox.notify(Notice::ReadAgain { member: device, lba, blocks: BlockCount(u64::from(rows)) });
        }
    }

    /// Takes the next blocks that came onto the list: device, first block, and how many.
    #[inline]
    pub(crate) fn next_given_up(&mut self) -> Option<(MemberIndex, MemberLba, u64)> {
        self.given_up.pop()
    }

    /// Makes rows of all parity strips of a stripe bad blocks.
    pub(crate) fn spoil_parity(
        &mut self,
        geometry: &Geometry,
        key: LockKey,
        rows: Rows,
        outbox: &mut Outbox,
    ) {
        for unit in geometry.data_strips()..geometry.unit_count() {
            let place = geometry.lock_place(key, unit as u16);
            if let Some(device) = self.holder(place) {
                let first = place.start + BlockCount(u64::from(rows.first));
                self.mark_bad(geometry, (device, first, u64::from(rows.count)), outbox);
            }
        }
    }

    fn take_bad_change(
        &mut self,
        geometry: &Geometry,
        device: MemberIndex,
        change: Change,
        outbox: &mut Outbox,
    ) {
        match change {
            Change::Nothing => {}
            Change::Done => self.change(),
            Change::Full => self.fail(geometry, device, outbox),
        }
    }

    /// Gives up rows that can't be read nor made up. That is news if they were not bad blocks before, or `is_news`.
    pub(crate) fn lose_rows(
        &mut self,
        geometry: &Geometry,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
        (reason, is_news): (BadReason, bool),
        outbox: &mut Outbox,
    ) {
        let blocks = BlockCount(u64::from(rows));
        if self.mark_bad_for(geometry, (device, lba, blocks.0), reason, outbox) || is_news {
            outbox.notify(Notice::BlocksLost { member: device, lba, blocks, reason });
        }
    }

    /// Gives up rows that a record of the log has which can't be read. Where its devices are lost, but will be back, the rows
    /// are errors only until then, and nobody is told.
    pub(crate) fn lose_rows_of_record(
        &mut self,
        geometry: &Geometry,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
        outbox: &mut Outbox,
    ) {
        if !self.is_frozen() {
            return self.lose_rows(geometry, (device, lba, rows), (BadReason::Lost, false), outbox);
        }
        self.given_up.push((device, lba, u64::from(rows)));
        if self.bad_blocks.add((device, lba, u64::from(rows)), BadReason::Lost) == Change::Full {
            self.fail(geometry, device, outbox);
        }
    }

    /// Takes in the end of a write of rows: what was written is good again, what could not be is bad. A device that is
    /// gone has been failed before.
    #[inline]
    pub(crate) fn rows_written(
        &mut self,
        geometry: &Geometry,
        (device, lba, rows): (MemberIndex, MemberLba, u32),
        result: Result<(), MemberError>,
        outbox: &mut Outbox,
    ) {
        match result {
            Ok(()) if self.bad_blocks.is_empty() => {}
            Ok(()) => {
                let change = self.bad_blocks.clear(device, lba, u64::from(rows));
                self.take_bad_change(geometry, device, change, outbox);
            }
            Err(MemberError::Medium) => {
                self.mark_bad(geometry, (device, lba, u64::from(rows)), outbox);
            }
            Err(MemberError::Gone) => {}
        }
    }

    // Stripes out of sync.

    /// True when some stripe is out of sync.
    #[inline]
    pub(crate) const fn any_out_of_sync(&self) -> bool {
        !self.out_of_sync.is_empty()
    }

    /// How many are.
    pub(crate) const fn out_of_sync_count(&self) -> u64 {
        self.out_of_sync.count()
    }

    /// True if the stripe with this lock is.
    #[inline]
    pub(crate) fn is_out_of_sync(&self, key: LockKey) -> bool {
        self.out_of_sync.contains(key)
    }

    /// The first from `key` on that is.
    pub(crate) fn next_out_of_sync(&self, key: LockKey) -> Option<LockKey> {
        self.out_of_sync.next(key)
    }

    /// Notes that redundancy of stripes may disagree with their data.
    pub(crate) fn mark_out_of_sync(&mut self, geometry: &Geometry, keys: Range<LockKey>) {
        self.out_of_sync.mark(keys, geometry.lock_count());
    }

    /// Notes the same of all stripes that a bitmap marks.
    pub(crate) fn mark_regions_out_of_sync(&mut self, geometry: &Geometry, marked: &RegionMap) {
        let mut next = marked.next_marked(RegionIndex(0));
        while let Some(region) = next {
            self.mark_out_of_sync(geometry, geometry.locks_of(marked.stripes_of(region)));
            next = marked.next_marked(RegionIndex(region.0 + 1));
        }
    }

    /// Takes in that redundancy agrees in a stripe. Returns false if that was known.
    pub(crate) fn mark_in_sync(&mut self, key: LockKey) -> bool {
        let is_news = self.out_of_sync.contains(key);
        if is_news {
            self.out_of_sync.remove(key);
            self.note_if_all_in_sync();
        }
        is_news
    }

    /// Lets the devices know, if it is so, that redundancy agrees everywhere. What stays out of sync after a resync lacks
    /// data on a device.
    pub(crate) fn note_if_all_in_sync(&mut self) {
        if self.out_of_sync.is_empty()
            && !self.is_frozen()
            && let Some(record) = self.superblock.record_mut()
            && core::mem::take(&mut record.needs_resync)
        {
            self.change();
        }
    }

    // The superblock.

    /// What the devices keep, or are to keep next; none where nothing is kept.
    pub(crate) fn record(&self) -> Option<&ArrayState> {
        self.superblock.record()
    }

    /// The same of an array that keeps something (asserted).
    pub(crate) fn kept_record(&self) -> &ArrayState {
        self.record().expect("only an array that keeps a superblock is asked")
    }

    fn kept_record_mut(&mut self) -> &mut ArrayState {
        self.superblock.record_mut().expect("only an array that keeps a superblock is asked")
    }

    /// Identity of an array that keeps a superblock.
    pub(crate) fn array_uuid(&self) -> ArrayUuid {
        self.kept_record().geometry.array_uuid
    }

    /// Notes that what the devices must remember has changed.
    pub(crate) const fn change(&mut self) {
        self.superblock.change();
    }

    /// True when the devices know all there is to know.
    #[inline]
    pub(crate) const fn is_kept(&self) -> bool {
        self.superblock.is_kept()
    }

    /// True when no further generation will be written.
    #[inline]
    pub(crate) const fn is_frozen(&self) -> bool {
        self.members.any_lost()
    }

    /// True while the devices do not know all there is to know, and may come to know more: a generation that is on its way
    /// when a device is lost still arrives.
    pub(crate) const fn is_pending(&self) -> bool {
        !self.is_kept() && (!self.is_frozen() || self.superblock.is_being_written())
    }

    /// Takes all changes for kept where the array keeps nothing. Returns whether that is so.
    #[inline]
    pub(crate) const fn keeps_nothing(&mut self) -> bool {
        self.superblock.keeps_nothing()
    }

    /// True when a generation is wanted, may be written, and none is on its way.
    pub(crate) const fn wants_generation(&self) -> bool {
        !self.superblock.is_being_written() && !self.is_kept() && !self.is_frozen()
    }

    /// Asks for a generation that no record of the log outlives.
    pub(crate) const fn want_drained(&mut self) {
        self.superblock.want_drained();
    }

    /// True until the devices have that.
    pub(crate) const fn wants_drained(&self) -> bool {
        self.superblock.wants_drained()
    }

    /// True when the devices differ from the record in more than how far a rebuild is.
    pub(crate) fn membership_changed(&self) -> bool {
        self.superblock.membership_changed(&self.members)
    }

    /// Makes the next generation of what the array is now, and its image, and begins to write it. It names `log_tail`, if
    /// there is a log.
    pub(crate) fn make_generation(&mut self, log_tail: Option<u64>, image: &mut [u8]) {
        self.superblock.make_generation(&self.members, &self.bad_blocks, log_tail, image);
    }

    /// Begins to write the generation that a start has found once more.
    pub(crate) fn begin_writing_found(&mut self) {
        self.superblock.begin_writing_found();
    }

    /// Counts so many writes of the generation.
    pub(crate) const fn begin_superblock_writes(&mut self, writes: u32) {
        self.superblock.begin_device_writes(writes);
    }

    /// Takes in that a device could not write the generation: it fails.
    pub(crate) fn fail_superblock_write(
        &mut self,
        geometry: &Geometry,
        device: MemberIndex,
        outbox: &mut Outbox,
    ) {
        self.fail(geometry, device, outbox);
        if matches!(self.members.state(device), DeviceState::Lost { .. }) {
            self.superblock.miss_device();
        }
    }

    /// Takes in the end of one write. Returns true after the last.
    pub(crate) fn end_superblock_write(&mut self) -> bool {
        self.superblock.end_device_write()
    }

    /// Lets `waiter` go on when all changes up to now are kept.
    pub(crate) fn wait(&mut self, waiter: SuperblockWaiter) {
        self.superblock.wait(waiter);
    }

    /// The next whose wait is over, and whether what it waited for is kept.
    pub(crate) fn next_waiter(&mut self) -> Option<(SuperblockWaiter, bool)> {
        self.superblock.next_waiter(self.is_pending())
    }

    /// Marks the array as in use. Returns true when it is known to be.
    pub(crate) fn mark_dirty(&mut self) -> bool {
        self.superblock.mark_dirty()
    }

    /// Has the devices keep one more generation now that nothing is written to them any more.
    pub(crate) fn note_stopping(&mut self) {
        if !self.is_frozen() {
            self.change();
        }
    }

    /// Marks the array as cleanly stopped.
    pub(crate) fn mark_clean(&mut self) {
        self.superblock.mark_clean();
    }

    /// Notes that a start has found what can only be put right by a resync.
    pub(crate) fn note_resync_needed(&mut self) {
        self.kept_record_mut().needs_resync = true;
    }

    /// Says where the log's records go from the start on.
    pub(crate) fn settle_log_place(&mut self, place: LogPlace) -> bool {
        let record = self.superblock.record_mut();
        record.map(|record| record.log_place = place).is_some()
    }

    /// Says where the log's records are to go.
    pub(crate) fn move_log(&mut self, place: LogPlace) {
        if let Some(record) = self.superblock.record_mut()
            && record.log_place != place
        {
            record.log_place = place;
            self.change();
        }
    }

    // The incarnation of NVRAM, which superblock and NVRAM name; an odd number is an incarnation, an even one the end of the one before.

    /// The one that the superblock names.
    pub(crate) fn nvram_incarnation(&self) -> Incarnation {
        let record = self.kept_record();
        Incarnation { epoch: record.nvram_epoch, start: record.nvram_start }
    }

    /// Ends the incarnation of NVRAM. Returns the change by which the devices know.
    pub(crate) fn end_nvram_incarnation(&mut self) -> u64 {
        let record = self.kept_record_mut();
        record.nvram_epoch = (record.nvram_epoch | 1) + 1;
        record.nvram_start = record.start;
        self.change();
        self.superblock.latest_change()
    }

    /// Begins the next incarnation of NVRAM. From the first write on NVRAM alone may hold what was acknowledged: a start without it
    /// must be able to tell. Returns the change by which the devices know.
    pub(crate) fn begin_nvram_incarnation(&mut self) -> u64 {
        let record = self.kept_record_mut();
        record.nvram_epoch |= 1;
        record.dirty = true;
        self.change();
        self.superblock.latest_change()
    }

    /// Lets an earlier incarnation of NVRAM go on, which the devices could not be told the end of.
    pub(crate) fn keep_nvram_incarnation(&mut self, Incarnation { epoch, start }: Incarnation) {
        let record = self.kept_record_mut();
        (record.nvram_epoch, record.nvram_start) = (epoch, start);
    }

    /// True when the next start will know of a change.
    pub(crate) const fn has_reached(&self, change: u64) -> bool {
        self.superblock.has_reached(change)
    }

    // Starts.

    /// Takes over what a start has found of the devices. Returns those that the superblock calls in sync and that are not
    /// there.
    ///
    /// # Errors
    /// The same where without them some stripe can't be read.
    pub(crate) fn take_devices(
        &mut self,
        geometry: &Geometry,
        assembly: &Assembly,
    ) -> Result<Vec<MemberIndex>, Vec<MemberIndex>> {
        let mut absent = Vec::new();
        for (device, line) in (0..).map(MemberIndex).zip(&assembly.state.devices) {
            let is_present = assembly.present[device.index()].is_some();
            let state = if is_present { found_state(line) } else { DeviceState::Missing };
            self.members.set_state(device, state);
            self.members.set_uuid(device, line.device_uuid);
            if !is_present && line.state == raidlab_format::DeviceState::InSync {
                absent.push(device);
            }
        }
        if self.members.loses_data(geometry.layout()) { Err(absent) } else { Ok(absent) }
    }

    /// Takes over the superblock that a start has found, and the bad blocks of the devices that hold a role. One that is
    /// absent comes back as a spare, of which nothing is known.
    pub(crate) fn take_superblock(&mut self, record: ArrayState) {
        let holds_role = |range: &&BadRange| self.members.role(range.device).is_some();
        for range in record.bad_ranges.iter().filter(holds_role) {
            self.bad_blocks.add((range.device, range.first, u64::from(range.count)), range.reason);
        }
        self.superblock = Superblock::new(Some(record));
    }
}

/// The state that a superblock gives a device.
fn found_state(line: &DeviceRecord) -> DeviceState {
    let role = MemberIndex(line.role.unwrap_or_default());
    match line.state {
        raidlab_format::DeviceState::InSync => DeviceState::InSync { role },
        raidlab_format::DeviceState::Rebuilding => DeviceState::Rebuilding { role, boundary: line.boundary },
        raidlab_format::DeviceState::Spare => DeviceState::Spare,
        raidlab_format::DeviceState::Missing => DeviceState::Missing,
    }
}

#[cfg(test)]
mod tests;
