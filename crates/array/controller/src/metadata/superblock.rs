//! The superblock: when the devices need a new generation of it, when they have it, and who waits for that.
//!
//! Whatever a start must know (which devices hold what, bad blocks, whether redundancy agrees) is changed in memory first;
//! [`Superblock::change`] then asks for a new generation on all devices that answer. Writes and flushes that rely on the
//! change end only when that generation is kept: see "The barrier" in `docs/fault-tolerance.md`.
//! ```text
//! change ─► wanted ─► (membership changed: log drained) ─► encode ─► a write to every device ─► kept ─► waiters
//!             ▲                                                             │
//!             └──────────────── a device could not write: it fails ◄────────┘
//! ```
//! A *lost* device freezes the superblock: the devices keep the last good generation. Whoever waits for a generation that
//! will never be written then fails.
//!
//! Invariant: one generation is written at a time, and a slot is only overwritten when the other holds a generation that
//! every answering device has.
//!
//! Left out: the I/Os themselves, which the controller asks for.

use super::bad_blocks::BadBlocks;
use super::members::{DeviceState, Members};
use crate::api::HostTag;
use crate::ids::{OpId, VisitId};
use raidlab_format::{ArrayState, BadRange, DeviceRecord};
use raidlab_units::{MemberIndex, MemberLba};
use std::collections::VecDeque;

/// Who waits for a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SuperblockWaiter {
    /// An operation that has written in place.
    Op(OpId),
    /// An operation that may not write before the array is known to be dirty.
    Admission(OpId),
    /// An operation that writes without a record, before no older one of its stripe is left.
    Rewrite(OpId),
    /// One part of a host request.
    Part(HostTag),
    /// A visit that has made copies agree.
    Visit(VisitId),
    /// Regions whose tags are real, before the devices are told.
    Regions,
}

/// The superblock as the devices should have it, and how far they have it.
///
/// Changes and generations are counted apart. One generation brings all changes up to it, and generations have no gaps:
/// the slot of the next one is never that of the present one.
#[derive(Debug)]
pub(super) struct Superblock {
    /// What the devices should hold; none where the array keeps nothing.
    record: Option<Box<ArrayState>>,
    /// Changes asked for so far. Generations are counted apart, because one may hold several changes: none is left out,
    /// so that each goes to the slot of the one before the last.
    wanted: u64,
    /// Changes up to this are on every device that answers, and on those that are lost.
    kept: u64,
    /// Changes up to this are on some device that answers: the next start finds them there.
    reached: u64,
    /// The generation with the changes up to this is to name no record of the log that is left.
    drained: u64,
    /// A device was lost that has not got the generation under way.
    missed: bool,
    /// Whether the kept one says that the array is in use.
    nvram_dirty: bool,
    /// Whether the one that was sent last does.
    sent_dirty: bool,
    /// A generation with the changes up to this is being written, by so many writes.
    writing: Option<u64>,
    pending: u32,
    waiting: VecDeque<(u64, SuperblockWaiter)>,
    /// Who counts for a start with the devices that lack what is not kept yet.
    electors: Electors,
    /// Who the generation calls in sync that was sent last.
    sent: Electors,
}

/// The devices that a generation calls in sync: more than half of them could start by it.
#[derive(Debug, Default)]
struct Electors {
    /// Each with its role.
    devices: Vec<(MemberIndex, MemberIndex)>,
    /// How many there may be.
    count: usize,
}

impl Electors {
    fn take(&mut self, record: &ArrayState) {
        let lines = (0..).map(MemberIndex).zip(&record.devices);
        let in_sync = lines.filter(|(_, line)| line.state == raidlab_format::DeviceState::InSync);
        self.devices.clear();
        self.devices.extend(in_sync.filter_map(|(device, line)| Some((device, MemberIndex(line.role?)))));
        self.count = self.devices.len();
    }
}

impl Superblock {
    /// `record` is on the devices; none where nothing is kept.
    pub(super) fn new(record: Option<ArrayState>) -> Self {
        let mut sent = Electors::default();
        if let Some(record) = &record {
            sent.take(record);
        }
        // A device that is one generation behind may count more, until it has this one.
        let count = record.as_ref().map_or(0, |record| usize::from(record.geometry.members));
        Self {
            electors: Electors { count, ..sent },
            sent: Electors::default(),
            nvram_dirty: record.as_ref().is_none_or(|record| record.dirty),
            sent_dirty: false,
            record: record.map(Box::new),
            wanted: 0,
            kept: 0,
            reached: 0,
            drained: 0,
            missed: false,
            writing: None,
            pending: 0,
            waiting: VecDeque::new(),
        }
    }

    /// What the devices should hold; none where the array keeps nothing.
    pub(super) fn record(&self) -> Option<&ArrayState> {
        self.record.as_deref()
    }

    /// The same, to be changed.
    pub(super) fn record_mut(&mut self) -> Option<&mut ArrayState> {
        self.record.as_deref_mut()
    }

    /// Notes that what the devices must remember has changed.
    pub(super) const fn change(&mut self) {
        self.wanted += 1;
    }

    /// Asks for a generation behind all records of the log.
    pub(super) const fn want_drained(&mut self) {
        self.change();
        self.drained = self.wanted;
    }

    /// True until the devices have that.
    pub(super) const fn wants_drained(&self) -> bool {
        self.drained > self.kept
    }

    /// True when the devices know all there is to know.
    #[inline]
    pub(super) const fn is_kept(&self) -> bool {
        self.record.is_none() || self.kept >= self.wanted
    }

    /// True while a generation is on its way.
    pub(super) const fn is_being_written(&self) -> bool {
        self.writing.is_some()
    }

    /// True if those that are gone could start without those that are left, once `device` is gone, too: they are more
    /// than half of the members by the last superblock that they have.
    pub(super) fn is_outvoted_without(&self, device: MemberIndex, members: &Members) -> bool {
        let is_left = |(it, _): &&(MemberIndex, MemberIndex)| {
            *it != device && matches!(members.state(*it), DeviceState::InSync { .. })
        };
        let Electors { devices, count } = &self.electors;
        2 * (count - devices.iter().filter(is_left).count()) > *count
    }

    /// The devices, with their roles, that a start finds in sync when nothing more is written down.
    pub(super) fn found_in_sync(&self) -> &[(MemberIndex, MemberIndex)] {
        &self.electors.devices
    }

    /// The change that was asked for last.
    pub(super) const fn latest_change(&self) -> u64 {
        self.wanted
    }

    /// True when the next start will know of a change.
    pub(super) const fn has_reached(&self, change: u64) -> bool {
        self.reached >= change
    }

    /// Takes all changes for kept where the array keeps nothing. Returns whether that is so.
    #[inline]
    pub(super) const fn keeps_nothing(&mut self) -> bool {
        if self.record.is_none() {
            self.kept = self.wanted;
        }
        self.record.is_none()
    }

    /// Marks the array as in use. Returns true when it is known to be.
    pub(super) fn mark_dirty(&mut self) -> bool {
        if self.nvram_dirty {
            return true;
        }
        if let Some(record) = &mut self.record
            && !record.dirty
        {
            record.dirty = true;
            self.change();
        }
        false
    }

    /// Marks the array as cleanly stopped, by one more generation. Levels without redundancy, and writes that leave none, do not say
    /// that the array is in use: but for two generations a copy of a member from before them would be taken for it.
    pub(super) fn mark_clean(&mut self) {
        if let Some(record) = &mut self.record {
            record.dirty = false;
            self.change();
        }
    }

    /// True when the devices differ from the record in more than how far a rebuild is.
    pub(super) fn membership_changed(&self, members: &Members) -> bool {
        let record = self.record.as_ref().expect("asked only where there is one");
        let mut now = (0..).map(MemberIndex).zip(record.devices.iter().zip(members.states()));
        now.any(|(device, (line, state))| {
            let (kept, role) = described(state);
            let is_same = line.state == kept && (line.role == role || state == DeviceState::Missing);
            !is_same || line.device_uuid != members.uuid(device)
        })
    }

    /// Makes the next generation of what the array is now, and its image. It names `log_tail`, if there is a log.
    pub(super) fn make_generation(
        &mut self,
        members: &Members,
        bad_blocks: &BadBlocks,
        log_tail: Option<u64>,
        image: &mut [u8],
    ) {
        let membership_changed = self.membership_changed(members);
        let record = self.record.as_mut().expect("asked only where there is one");
        record.generation += 1;
        record.epoch += u64::from(membership_changed);
        record.log_tail = log_tail.unwrap_or(record.log_tail);
        let devices = (0..).map(MemberIndex).zip(record.devices.iter_mut());
        for ((device, line), state) in devices.zip(members.kept_states()) {
            describe(line, state);
            line.device_uuid = members.uuid(device);
            // A device that is missing keeps its role until another plays it.
            if line.role.is_some_and(|role| {
                state == DeviceState::Missing && members.player(MemberIndex(role)).is_some()
            }) {
                line.role = None;
            }
        }
        record.bad_ranges.clear();
        record.bad_ranges.extend(bad_blocks.iter().map(|(device, first, blocks, reason)| BadRange {
            device,
            first,
            count: blocks.0 as u32,
            reason,
        }));
        record.encode(image);
        self.begin_write(self.wanted);
    }

    /// Begins to write the generation that a start has found once more.
    pub(super) fn begin_writing_found(&mut self) {
        self.begin_write(self.kept);
    }

    /// Takes in that the record, which has the changes up to `changes`, goes to the devices. One write stands for the
    /// hand-out itself.
    fn begin_write(&mut self, changes: u64) {
        let record = self.record.as_ref().expect("asked only where there is one");
        self.sent.take(record);
        self.sent_dirty = record.dirty;
        self.writing = Some(changes);
        self.pending = 1;
    }

    /// Counts so many writes of the generation.
    pub(super) const fn begin_device_writes(&mut self, writes: u32) {
        self.pending += writes;
    }

    /// Takes in that a device will not have the generation, because it is lost.
    pub(super) const fn miss_device(&mut self) {
        self.missed = true;
    }

    /// Takes in the end of one write. Returns true after the last.
    pub(super) fn end_device_write(&mut self) -> bool {
        self.pending -= 1;
        if self.pending > 0 {
            return false;
        }
        self.reached = self.writing.take().expect("a generation was being written");
        if core::mem::take(&mut self.missed) {
            // It comes back with a superblock that says less, and so may those whom this one calls missing: together they
            // could be more than half. What relies on the change is not acknowledged.
            self.nvram_dirty &= self.sent_dirty;
        } else {
            self.kept = self.reached;
            self.nvram_dirty = self.sent_dirty;
            core::mem::swap(&mut self.electors, &mut self.sent);
        }
        true
    }

    /// Lets `waiter` go on when all changes up to now are kept.
    pub(super) fn wait(&mut self, waiter: SuperblockWaiter) {
        self.waiting.push_back((self.wanted, waiter));
    }

    /// The next that has waited long enough, with true, or, unless more may come to be kept, in vain, with false.
    pub(super) fn next_waiter(&mut self, is_pending: bool) -> Option<(SuperblockWaiter, bool)> {
        let &(changes, waiter) = self.waiting.front()?;
        let is_kept = changes <= self.kept;
        if !is_kept && is_pending {
            return None;
        }
        self.waiting.pop_front();
        Some((waiter, is_kept))
    }
}

/// How the record names a device's state and role.
fn described(state: DeviceState) -> (raidlab_format::DeviceState, Option<u16>) {
    match state {
        DeviceState::InSync { role } => (raidlab_format::DeviceState::InSync, Some(role.0)),
        DeviceState::Rebuilding { role, .. } => (raidlab_format::DeviceState::Rebuilding, Some(role.0)),
        DeviceState::Spare => (raidlab_format::DeviceState::Spare, None),
        DeviceState::Missing => (raidlab_format::DeviceState::Missing, None),
        DeviceState::Lost { .. } => unreachable!("a lost device freezes the superblock"),
    }
}

fn describe(line: &mut DeviceRecord, state: DeviceState) {
    let role;
    (line.state, role) = described(state);
    if state != DeviceState::Missing {
        line.role = role;
    }
    line.boundary = match state {
        DeviceState::Rebuilding { boundary, .. } => boundary,
        _ => MemberLba::ZERO,
    };
}
