//! The array's state on its devices: when a new generation is needed, when it is kept, and who waits for it.
//!
//! Whatever must be known after a restart (which devices hold what, bad blocks, whether redundancy agrees) is changed in
//! memory first; [`Controller::change_state`] then asks for a new generation on all devices that answer. Writes and
//! flushes that could rely on the change end only when that generation is kept: see "The barrier" in
//! `docs/fault-tolerance.md`.
//! ```text
//! change_state ─► wanted ─► (membership changed: log drained) ─► encode ─► a write to every device ─► kept ─► waiters
//!                   ▲                                                             │
//!                   └──────────────── a device could not write: it fails ◄────────┘
//! ```
//! Once a device is *lost* (more are gone than the level survives, or than half of the members at once) the state is
//! frozen: what is on the devices stays the last good one. Whoever waits for a generation that will never be written
//! then fails.
//!
//! Invariant: one generation is written at a time, and a slot is only overwritten when the other holds a generation that
//! every answering device has.

use crate::api::{Area, HostError, IoClass, MemberError, MemberIo, MemberIoId, MemberOp};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::io::IoOwner;
use crate::members::{DeviceState, Members};
use crate::own;
use crate::visit::VisitEnd;
use raidlab_format::{ArrayState, BadRange, DeviceRecord, STATE_BYTES};
use raidlab_units::{BlockCount, MemberIndex, MemberLba, Nanos};
use std::collections::VecDeque;

/// Who waits for a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateWaiter {
    /// An operation that has written in place.
    Op(u32),
    /// An operation that may not write before the array is known to be dirty.
    Admission(u32),
    /// One part of a host request.
    Part(u32),
    /// A visit that has made copies agree.
    Visit(u32),
}

/// The array's state as the devices should have it, and how far they have it.
///
/// Changes and generations are counted apart. One generation brings all changes up to it, and generations have no gaps:
/// the slot of the next one is never that of the present one.
#[derive(Debug)]
pub(crate) struct StateKeeper {
    /// What the devices should hold; none where the array keeps nothing.
    pub(crate) record: Option<Box<ArrayState>>,
    /// Changes asked for so far. Generations are counted apart, because one may hold several changes: none is left out,
    /// so that each goes to the slot of the one before the last.
    wanted: u64,
    /// Changes up to this are on every device that answers, and on those that are lost.
    kept: u64,
    /// Changes up to this are on some device that answers: the next start finds them there.
    reached: u64,
    /// A device was lost that has not got the generation under way.
    missed: bool,
    /// Whether the kept one says that the array is in use.
    kept_dirty: bool,
    /// Whether the one that was sent last does.
    sent_dirty: bool,
    /// A generation with the changes up to this is being written, by so many writes.
    writing: Option<u64>,
    pending: u32,
    waiting: VecDeque<(u64, StateWaiter)>,
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

impl StateKeeper {
    /// `record` is on the devices; none where nothing is kept.
    pub(crate) fn new(record: Option<ArrayState>) -> Self {
        let mut sent = Electors::default();
        if let Some(record) = &record {
            sent.take(record);
        }
        // A device that is one generation behind may count more, until it has this one.
        let count = record.as_ref().map_or(0, |record| usize::from(record.geometry.members));
        Self {
            electors: Electors { count, ..sent },
            sent: Electors::default(),
            kept_dirty: record.as_ref().is_none_or(|record| record.dirty),
            sent_dirty: false,
            record: record.map(Box::new),
            wanted: 0,
            kept: 0,
            reached: 0,
            missed: false,
            writing: None,
            pending: 0,
            waiting: VecDeque::new(),
        }
    }

    /// True when the devices know all there is to know.
    #[inline]
    pub(crate) const fn is_kept(&self) -> bool {
        self.record.is_none() || self.kept >= self.wanted
    }

    /// True if those that are gone could start without those that are left, once `device` is gone, too: they are more
    /// than half of the members by the last state that they have.
    pub(crate) fn is_outvoted_without(&self, device: MemberIndex, members: &Members) -> bool {
        let is_left = |(it, _): &&(MemberIndex, MemberIndex)| {
            *it != device && matches!(members.state(*it), DeviceState::InSync { .. })
        };
        let Electors { devices, count } = &self.electors;
        2 * (count - devices.iter().filter(is_left).count()) > *count
    }

    /// The devices, with their roles, that a start finds in sync when nothing more is written down.
    pub(crate) fn found_in_sync(&self) -> &[(MemberIndex, MemberIndex)] {
        &self.electors.devices
    }

    /// The change that was asked for last.
    pub(crate) const fn latest_change(&self) -> u64 {
        self.wanted
    }

    /// True when the next start will know of a change.
    pub(crate) const fn has_reached(&self, change: u64) -> bool {
        self.reached >= change
    }
}

impl Controller {
    /// Notes that what the devices must remember has changed.
    pub(crate) fn change_state(&mut self) {
        self.state.wanted += 1;
    }

    /// Has the devices keep the state once more, in the slot of the generation before the last: that slot is written anew on all of them.
    pub fn handle_state_renewal(&mut self, now: Nanos) {
        self.advance(now);
        if self.state.record.is_some() && !self.state_is_frozen() {
            self.change_state();
        }
        self.pump();
    }

    /// Lets `waiter` go on when all changes up to now are kept.
    pub(crate) fn wait_for_state(&mut self, waiter: StateWaiter) {
        self.state.waiting.push_back((self.state.wanted, waiter));
    }

    /// True when no further generation will be written.
    pub(crate) const fn state_is_frozen(&self) -> bool {
        self.members.any_lost()
    }

    /// True while the devices do not know all there is to know, and may come to know more: a generation that is on its way
    /// when a device is lost still arrives.
    pub(crate) const fn state_is_pending(&self) -> bool {
        !self.state.is_kept() && (!self.state_is_frozen() || self.state.writing.is_some())
    }

    /// True when a device is lost that may yet lose what it has acknowledged, because its cache is on.
    pub(crate) fn lost_device_is_volatile(&self) -> bool {
        self.config.member_cache == MemberCache::On && self.members.any_lost()
    }

    /// Asks for the array to be marked as in use. Returns true when it is known to be.
    pub(crate) fn mark_dirty(&mut self) -> bool {
        if self.state.kept_dirty {
            return true;
        }
        if let Some(record) = &mut self.state.record
            && !record.dirty
        {
            record.dirty = true;
            self.change_state();
        }
        false
    }

    /// Writes the newest generation if it is wanted and may be written. Returns true if someone who waited went on.
    #[inline]
    pub(crate) fn pump_state(&mut self) -> bool {
        if self.state.record.is_none() {
            self.state.kept = self.state.wanted;
            return false;
        }
        self.move_state_on()
    }

    #[inline(never)]
    fn move_state_on(&mut self) -> bool {
        if self.state_is_frozen() {
            self.cancel_drain();
        } else if self.state.writing.is_none() && !self.state.is_kept() && !self.start.is_replaying() {
            let membership_changed = self.membership_changed();
            let drains = membership_changed || self.log_moves();
            if !drains || (self.newcomers_served() && self.drain_log()) {
                self.write_state(membership_changed);
            }
        }
        self.pump_state_waiters()
    }

    /// True when the devices differ from the record in more than how far a rebuild is.
    fn membership_changed(&self) -> bool {
        let record = self.state.record.as_ref().expect("asked only where there is one");
        let mut now = (0..).map(MemberIndex).zip(record.devices.iter().zip(self.members.states()));
        now.any(|(device, (line, state))| {
            let (kept, role) = described(state);
            let is_same = line.state == kept && (line.role == role || state == DeviceState::Missing);
            !is_same || line.device_uuid != self.members.uuid(device)
        })
    }

    fn write_state(&mut self, membership_changed: bool) {
        let changes = self.state.wanted;
        let log_place = self.state.record.as_ref().expect("asked only where there is one").log_place;
        let log_tail = self.log_is_named(log_place);
        let record = self.state.record.as_mut().expect("asked only where there is one");
        record.generation += 1;
        record.epoch += u64::from(membership_changed);
        record.log_tail = log_tail.unwrap_or(record.log_tail);
        let devices = (0..).map(MemberIndex).zip(record.devices.iter_mut());
        for ((device, line), state) in devices.zip(self.members.kept_states()) {
            describe(line, state);
            line.device_uuid = self.members.uuid(device);
            // A device that is missing keeps its role until another plays it.
            if line.role.is_some_and(|role| {
                state == DeviceState::Missing && self.members.player(MemberIndex(role)).is_some()
            }) {
                line.role = None;
            }
        }
        record.bad_ranges.clear();
        record.bad_ranges.extend(self.bad.iter().map(|(device, first, blocks)| BadRange {
            device,
            first,
            count: blocks.0 as u32,
        }));
        record.encode(&mut self.own.bytes_mut()[own::STATE_AT..own::STATE_AT + STATE_BYTES]);
        self.send_state(changes);
    }

    /// Writes the state that a start has found once more: its image is in place.
    pub(crate) fn send_found_state(&mut self) {
        self.send_state(self.state.kept);
    }

    /// Writes the state's image, which has the changes up to `changes`, to all devices that answer.
    fn send_state(&mut self, changes: u64) {
        let StateKeeper { record, sent, sent_dirty, .. } = &mut self.state;
        let record = record.as_ref().expect("asked only where there is one");
        sent.take(record);
        *sent_dirty = record.dirty;
        let slot = self.area.state_slot(record.generation).offset_bytes / self.geometry.block_bytes();
        self.state.writing = Some(changes);
        self.state.pending = 1;
        let blocks = BlockCount(STATE_BYTES as u64 / self.geometry.block_bytes());
        let mut devices = core::mem::take(&mut self.member_scratch);
        devices.clear();
        devices.extend(self.members.answering());
        for &device in &devices {
            self.state.pending += 1;
            self.metadata_write(device, MemberLba(slot), blocks, IoOwner::State);
        }
        self.member_scratch = devices;
        self.end_state_write();
    }

    /// Takes in the end of one write of the state.
    pub(crate) fn state_write_done(&mut self, device: MemberIndex, result: Result<(), MemberError>) {
        if result.is_err() {
            self.fail_member(device);
            self.state.missed |= matches!(self.members.state(device), DeviceState::Lost { .. });
        }
        self.end_state_write();
    }

    fn end_state_write(&mut self) {
        self.state.pending -= 1;
        if self.state.pending > 0 {
            return;
        }
        self.state.reached = self.state.writing.take().expect("a generation was being written");
        if core::mem::take(&mut self.state.missed) {
            // It comes back with a state that says less, and so may those whom this one calls missing: together they could
            // be more than half. What relies on the change is not acknowledged.
            self.state.kept_dirty &= self.state.sent_dirty;
        } else {
            self.state.kept = self.state.reached;
            self.state.kept_dirty = self.state.sent_dirty;
            let StateKeeper { electors, sent, .. } = &mut self.state;
            core::mem::swap(electors, sent);
        }
        self.start_log_again();
    }

    /// Lets go on who has waited long enough, or in vain.
    fn pump_state_waiters(&mut self) -> bool {
        let mut went_on = false;
        while let Some(&(changes, waiter)) = self.state.waiting.front() {
            let kept = changes <= self.state.kept;
            if !kept && self.state_is_pending() {
                return went_on;
            }
            went_on = true;
            self.state.waiting.pop_front();
            match waiter {
                StateWaiter::Op(op) => self.finish_written(op, kept),
                StateWaiter::Admission(op) if kept => self.admit(op),
                StateWaiter::Admission(op) => self.give_window_up(op),
                StateWaiter::Visit(visit) => self.visit_ended(visit, VisitEnd::Done),
                StateWaiter::Part(request) => {
                    let lba = self.requests[request as usize].lba;
                    let refused = Err(HostError::ArrayFailed { lba });
                    self.end_part(request, if kept { Ok(()) } else { refused });
                }
            }
        }
        went_on
    }

    /// Ends one part of a request when all changes up to now are kept.
    pub(crate) fn end_part_when_kept(&mut self, request: u32) {
        if self.state.is_kept() {
            self.end_part(request, Ok(()));
        } else {
            self.wait_for_state(StateWaiter::Part(request));
        }
    }

    /// Writes own memory to the metadata area of a device, with forced unit access.
    pub(crate) fn metadata_write(
        &mut self,
        device: MemberIndex,
        lba: MemberLba,
        blocks: BlockCount,
        owner: IoOwner,
    ) {
        let io = MemberIo {
            id: MemberIoId(0),
            member: device,
            op: MemberOp::Write { fua: true },
            area: Area::Metadata,
            lba,
            blocks,
            class: IoClass::Host,
        };
        self.begin_member_io(io, owner);
    }
}

/// How the record names a device's state and role.
fn described(state: DeviceState) -> (raidlab_format::DeviceState, Option<u16>) {
    match state {
        DeviceState::InSync { role } => (raidlab_format::DeviceState::InSync, Some(role.0)),
        DeviceState::Rebuilding { role, .. } => (raidlab_format::DeviceState::Rebuilding, Some(role.0)),
        DeviceState::Spare => (raidlab_format::DeviceState::Spare, None),
        DeviceState::Missing => (raidlab_format::DeviceState::Missing, None),
        DeviceState::Lost { .. } => unreachable!("a lost device freezes the state"),
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
