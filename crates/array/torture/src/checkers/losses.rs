//! Losses: a request fails, or data is lost, only for a reason, and every loss is reported.
//!
//! A request may fail, acknowledged data may be given up, and a block may become an error for these reasons. The reason must be
//! in the row of one of the request's blocks; for doubt and lost devices, in one of its stripes.
//!
//! | reason | until |
//! |---|---|
//! | more is gone or unreadable than the level survives | that is over |
//! | a row was written while that was so: parity can't make up the rest of it any more (`volume.rs`: gone) | it is rewritten |
//! | redundancy is in doubt after a crash, by a policy that leaves the write hole open, and something is missing | it agrees |
//! | the same, and the start found the block called bad: only redundancy could give it, whatever a torn write left there | it is written |
//! | a write to the very block failed | one succeeds |
//! | a device is lost: nothing is written that the devices would have to know, and of copies in doubt the first may be on it | the next start |
//! | all blocks of a row were being written when the array ended, which the log recorded by checksums, and the start misses some | it is rewritten |
//! | a block was written or restored while a device was lost: the devices could not be told that it is bad no more | it is rewritten |
//!
//! Within the bounds only the last but one of these is a reason, whatever the controller calls lost or missing.
//!
//! Verified: that, and that a flush fails exactly when data was given up before it; a member is failed only where the
//! faults justify it (it is gone, or a write to it failed); a member that does not hold what it should is out of the array
//! when all is quiet; in a bounded run, each bad block is one that can't be read, or was in a stripe in doubt, or was found
//! called bad by the latest start and has been reached by a write that was cut off, or of which the devices had not been told.
//! Each record of checksums is of a stripe that had all its devices when it was made (`power.rs`): only then may rows be lost with it.
//! Not verified: which block of a row it was; bad blocks of a run beyond redundancy, once they are listed.

use crate::flights::Work;
use crate::host::HostInFlight;
use crate::members::Presence;
use crate::plan::TortureMode;
use crate::stripes::{BadRange, Stripes};
use crate::violation::{Failure, Violation};
use crate::volume::Stamp;
use crate::world::{Resync, TortureWorld, is_in_sync};
use raidlab_controller::{
    Area, Controller, DeviceState, HostError, HostOp, HostRequest, HostTag, MemberIo, MemberOp, Notice, Scan,
    ScanProgress,
};
use raidlab_format::{AreaLayout, ArrayState, BAD_RANGES_MAX, BadReason, LogRun, RegionIndex, RegionMap};
use raidlab_raid::{StripUnit, UnitPlace};
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, MemberLba, StripeIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What was lost, and where it may be.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    /// Losses that no flush has failed for.
    untold: u64,
    /// The next flush must fail.
    pub(crate) must_be_told: bool,
    /// For each stripe, if any: requests that begin until then may find its redundancy in doubt.
    in_doubt_until: Vec<Stamp>,
    /// For rows: requests that begin before this may have met them failed, and then they were written.
    failed_until: BTreeMap<(StripeIndex, u64), Stamp>,
    /// Some stripe is in doubt now.
    any_doubt: bool,
    /// The latest start had records to write again, which may have gone with a device before they were.
    may_lack_records: bool,
    /// Rows all of whose blocks were being written when the array ended, and are compared with checksums by the start.
    torn_rows: Vec<(StripeIndex, u64)>,
    /// Blocks that the latest start found called bad and no write has reached since.
    found_bad: BTreeSet<(MemberIndex, u64)>,
    /// Those of them that can be read because a write reached them that was cut off, or ended before the devices were told.
    reached: BTreeSet<(MemberIndex, u64)>,
    /// Blocks that could be read and were called bad all the same when the latest controller ended, with no write to them under way.
    needless: BTreeSet<(MemberIndex, u64)>,
    /// Blocks that a read has found unreadable since a write last reached them.
    unreadable: BTreeSet<(MemberIndex, u64)>,
    /// The target of the latest rebuild.
    target: Option<MemberIndex>,
    /// When a device was last given another state.
    changed: Stamp,
}

impl Losses {
    /// Takes note of it that a device has another state: requests under way may have met what was missing until now.
    pub(crate) fn note_change(&mut self, now: Stamp) {
        self.changed = now;
    }

    /// True while a start may still find rows torn.
    pub(crate) const fn has_torn_rows(&self) -> bool {
        !self.torn_rows.is_empty()
    }

    /// Takes note of a flush that failed; false if it had no reason.
    fn tell(&mut self) -> bool {
        let is_due = self.untold > 0;
        self.untold = self.untold.saturating_sub(1);
        is_due
    }
}

impl TortureWorld {
    /// Checks that a request had reason to fail.
    pub(crate) fn check_failed(
        &mut self,
        host: &HostInFlight,
        error: HostError,
    ) -> Result<(), Box<Violation>> {
        self.look_at_states();
        let HostRequest { tag, op, lba, blocks } = host.request;
        let is_justified = match op {
            HostOp::Flush => self.losses.tell(),
            _ => self.may_fail(lba, blocks, host.started),
        };
        let is_refused = op != HostOp::Read && self.may_have_lost();
        if is_justified || is_refused {
            Ok(())
        } else {
            Err(Violation::NeedlessFailure { tag, error }.into())
        }
    }

    /// Whether a request begun at `started` may find that some of the range is lost, or can't be stored. Within the bounds only rows
    /// that a start found torn may be lost, whatever the controller says of its devices.
    fn may_fail(&self, lba: Lba, blocks: BlockCount, started: Stamp) -> bool {
        let mut each = (lba.0..lba.0 + blocks.0).map(Lba);
        if self.mode == TortureMode::Bounded {
            return each.any(|lba| self.is_given_up_in_row(lba, started));
        }
        self.losses.changed >= started
            || each.any(|lba| self.may_fail_in_row(lba, started))
            || self.stripes().of_range(lba, blocks).any(|stripe| self.may_fail_in_stripe(stripe, started))
    }

    /// Whether there is a reason in the row of a block.
    fn may_fail_in_row(&self, lba: Lba, started: Stamp) -> bool {
        let stripes = self.stripes();
        let (stripe, _, row) = self.layout.locate(lba);
        self.is_called_lost(lba)
            || stripes.is_row_failed(stripe, row.0)
            || self.losses.failed_until.get(&(stripe, row.0)).is_some_and(|until| *until > started)
            || self.is_given_up_in_row(lba, started)
    }

    /// Whether a write to the block had failed, or some block of its row was given up.
    fn is_given_up_in_row(&self, lba: Lba, started: Stamp) -> bool {
        let (stripe, _, row) = self.layout.locate(lba);
        self.volume.is_undefined(lba, started) || self.is_row_given_up(stripe, row.0, started)
    }

    /// Whether some block of a row was given up for good.
    fn is_row_given_up(&self, stripe: StripeIndex, row: u64, started: Stamp) -> bool {
        self.stripes().row_blocks(stripe, row).any(|lba| self.volume.may_be_gone(lba, started))
    }

    /// Whether there is a reason in all of a stripe.
    fn may_fail_in_stripe(&self, stripe: StripeIndex, started: Stamp) -> bool {
        self.is_doubtful(stripe, started) || self.awaits_resync(stripe, started)
    }

    /// True if a block is lost with what the devices call bad. A row that was written, restored or torn while they could not be
    /// told is readable, but a bad block from the next start on.
    fn is_called_lost(&self, lba: Lba) -> bool {
        self.mode == TortureMode::Beyond && self.stripes().is_called_lost(lba)
    }

    /// Checks that the devices do not call a block bad whose write, begun at `started`, was promised to be kept: the next start would.
    /// Where another write to it was under way beside this one and has failed, or still is, the devices may have that one last. A long
    /// write is acknowledged long after its first blocks arrived: beyond the bounds a read may have found these unreadable since.
    pub(crate) fn check_healed(
        &self,
        (tag, started): (HostTag, Stamp),
        lba: Lba,
    ) -> Result<(), Box<Violation>> {
        let is_told = self.bad.is_empty()
            || self.has_lost()
            || self.is_redundant()
            || !self.can_restart()
            || self.volume.is_undefined(lba, started)
            || self.hosts.is_being_written(lba);
        let (stripe, strip, row) = self.layout.locate(lba);
        let unit = StripUnit::Data { strip, copy: 0 };
        if is_told || !self.stripes().is_row_called_bad(stripe, unit, row.0) {
            return Ok(());
        }
        let place = self.layout.place(stripe, unit);
        let (holder, block) = (self.stripes().holder(place), place.start.0 + row.0);
        let is_found_since = |holder| self.losses.unreadable.contains(&(holder, block));
        if self.mode == TortureMode::Beyond && holder.is_some_and(is_found_since) {
            return Ok(());
        }
        let is_it = |range: &raidlab_format::BadRange| {
            let blocks = range.first.0..range.first.0 + u64::from(range.count);
            Some(range.device) == holder && blocks.contains(&block)
        };
        match self.newest_state() {
            Some(state) if state.bad_ranges.iter().any(is_it) => {
                Err(Violation::HealedUnheard { tag, lba }.into())
            }
            _ => Ok(()),
        }
    }

    /// Whether the list of bad blocks has no room: a device that would need more leaves. The list that the devices have may be some
    /// changes behind.
    fn is_list_full(&self) -> bool {
        const BEHIND: usize = 16;
        self.newest_state().is_some_and(|state| state.bad_ranges.len() + BEHIND >= BAD_RANGES_MAX)
    }

    /// The newest state that a device has now.
    fn newest_state(&self) -> Option<ArrayState> {
        let slots = AreaLayout::new(ByteCount(0)).state;
        let areas = self.devices.iter().filter(|device| device.presence == Presence::Here);
        let found = areas.flat_map(|device| slots.map(|slot| slot.of(device.metadata.bytes())));
        let states = found.filter_map(|bytes| ArrayState::decode(bytes?).ok());
        states.max_by_key(|state| state.generation)
    }

    /// True if a device is lost beyond what the level survives: then the state on the devices stays as it is, and no write
    /// that would need a new one is acknowledged.
    pub(crate) fn has_lost(&self) -> bool {
        self.states.iter().any(|state| matches!(state, DeviceState::Lost { .. }))
    }

    /// The same, where it excuses something: within the bounds no device is lost that way.
    fn may_have_lost(&self) -> bool {
        self.mode == TortureMode::Beyond && self.has_lost()
    }

    // Doubt.

    /// Notes in which stripes redundancy is in doubt after a start: those that it finds out of sync, and, beyond the bounds, those
    /// with `records` that may go with their device before they are written again.
    pub(crate) fn note_doubts(&mut self, out_of_sync: &RegionMap, records: &[StripeIndex]) {
        let found_bad = bad_blocks_of(&self.controller);
        let is_reached =
            |it: &&(MemberIndex, u64)| !self.is_spoiled(**it) && !self.losses.needless.contains(it);
        let reached = found_bad.iter().filter(is_reached).copied().collect();
        self.losses =
            Losses { may_lack_records: !records.is_empty(), found_bad, reached, ..Losses::default() };
        if !self.is_redundant() {
            return;
        }
        let mut in_doubt_until = vec![Stamp(0); self.layout.stripe_count().0 as usize];
        let mut next = out_of_sync.next_marked(RegionIndex(0));
        while let Some(region) = next {
            for stripe in out_of_sync.stripes_of(region).start.0..out_of_sync.stripes_of(region).end.0 {
                in_doubt_until[stripe as usize] = Stamp::NEVER;
                self.losses.any_doubt = true;
            }
            next = out_of_sync.next_marked(RegionIndex(region.0 + 1));
        }
        for stripe in records.iter().filter(|_| self.mode == TortureMode::Beyond) {
            in_doubt_until[stripe.0 as usize] = Stamp::NEVER;
            self.losses.any_doubt = true;
        }
        self.losses.in_doubt_until = in_doubt_until;
    }

    /// Notes which rows a start compares with `records` of checksums. What it misses of those that were being written in all their
    /// blocks may be lost: those blocks were about to be overwritten.
    pub(crate) fn note_torn_rows(&mut self, records: &[(StripeIndex, LogRun)]) {
        for (stripe, run) in records {
            for row in u64::from(run.first_row)..u64::from(run.first_row + run.rows) {
                let mut blocks = self.stripes().row_blocks(*stripe, row).collect::<Vec<_>>().into_iter();
                if blocks.all(|lba| self.volume.was_being_written(lba)) {
                    self.losses.torn_rows.push((*stripe, row));
                }
            }
        }
    }

    /// Takes note of what the array may say is lost of the rows that a start compares, as long as it does.
    fn look_at_torn_rows(&mut self) {
        let stripes = self.stripes();
        let rows = self.losses.torn_rows.iter();
        let lost: Vec<Lba> =
            rows.flat_map(|(stripe, row)| stripes.unreadable_blocks(*stripe, *row)).collect();
        for lba in lost {
            self.volume.give_up(lba);
        }
        if self.controller.is_serving() {
            self.losses.torn_rows.clear();
        }
    }

    /// Takes note of it when redundancy agrees everywhere.
    pub(crate) fn look_at_doubts(&mut self) {
        let is_settled = self.controller.is_serving() && self.controller.out_of_sync_stripes() == 0;
        if self.losses.any_doubt && is_settled {
            self.losses.any_doubt = false;
            let now = self.stamp;
            self.losses.in_doubt_until.iter_mut().for_each(|until| *until = (*until).min(now));
        }
    }

    /// True if redundancy may have been in doubt for a request begun at `started`.
    pub(crate) fn was_in_doubt(&self, stripe: StripeIndex, started: Stamp) -> bool {
        self.losses.in_doubt_until.get(stripe.0 as usize).is_some_and(|until| *until >= started)
    }

    /// The same, while a device is lost that the stripe is on: nothing is changed there before it is back.
    pub(crate) fn awaits_resync(&self, stripe: StripeIndex, started: Stamp) -> bool {
        self.has_lost() && self.was_in_doubt(stripe, started) && self.stripes().awaits_device(stripe)
    }

    /// True if redundancy may have been in doubt for a request begun at `started`, and is needed.
    fn is_doubtful(&self, stripe: StripeIndex, started: Stamp) -> bool {
        let stripes = self.stripes();
        stripes.shape().parities > 0
            && self.was_in_doubt(stripe, started)
            && stripes.units().any(|unit| stripes.is_unavailable(stripe, unit))
    }

    /// True if a block that could be read may be lost all the same: it was called bad when redundancy came to be in doubt. The
    /// devices don't tell a block that a torn write has reached from one that it has not, and what stands in the latter may
    /// never have been the host's. Of copies that were all called bad the first counts, once it is read again: they may differ.
    fn is_bad_and_doubtful(
        &self,
        (member, block): (MemberIndex, u64),
        (stripe, unit, row): (StripeIndex, StripUnit, u64),
    ) -> bool {
        let was_bad = |it: (MemberIndex, u64)| self.losses.found_bad.contains(&it);
        let stripes = self.stripes();
        let are_all_bad = match unit {
            StripUnit::Data { strip, copy } => {
                let mut earlier = (0..copy).filter_map(|copy| {
                    let place = self.layout.place(stripe, StripUnit::Data { strip, copy });
                    // One whose device is missing counts for nothing.
                    stripes.holder(place).map(|device| (device, place.start.0 + row))
                });
                earlier.next().is_some_and(was_bad) && earlier.all(was_bad)
            }
            StripUnit::Parity(_) => false,
        };
        (stripes.shape().parities > 0 || are_all_bad)
            && self.was_in_doubt(stripe, self.stamp)
            && was_bad((member, block))
    }

    /// Takes note of it that a write to a device's data area has succeeded.
    pub(crate) fn note_written(&mut self, io: &MemberIo) {
        let Losses { found_bad, reached, unreadable, .. } = &mut self.losses;
        if found_bad.is_empty() && unreadable.is_empty() {
            return;
        }
        let tags = self.devices[io.member.index()].data.tags;
        for block in (io.lba.0..io.lba.0 + io.blocks.0).filter_map(|place| tags.block(place)) {
            found_bad.remove(&(io.member, block));
            reached.remove(&(io.member, block));
            unreadable.remove(&(io.member, block));
        }
    }

    // What is gone.

    /// Notes what nothing brings back when a write changes rows that have lost more than the level survives.
    pub(crate) fn note_lost_rows(&mut self, io: &MemberIo) {
        if self.devices.iter().all(|device| !device.is_out() && device.data.is_readable()) {
            return;
        }
        self.look_at_states();
        let tags = self.devices[io.member.index()].data.tags;
        let is_lost = matches!(self.states[io.member.index()], DeviceState::Lost { .. });
        for block in (io.lba.0..io.lba.0 + io.blocks.0).filter_map(|place| tags.block(place)) {
            if is_lost {
                self.note_row_of_lost(io.member, MemberLba(block));
            }
            let Some((stripe, _, row)) = self.unit_at(io.member, MemberLba(block)) else { continue };
            let stripes = self.stripes();
            // Where a block of the row is gone, its parity was given up.
            let is_gone = self.is_row_given_up(stripe, row, self.stamp);
            let is_failed = self.mode == TortureMode::Beyond && stripes.is_row_failed(stripe, row);
            if !is_failed && !is_gone {
                continue;
            }
            for lba in stripes.hopeless_blocks(stripe, row) {
                self.volume.give_up(lba);
            }
            self.losses.failed_until.insert((stripe, row), self.stamp);
        }
    }

    /// Notes what nothing brings back in a row that a write changes on a device that is lost, but answers: the devices can't
    /// be told that its bad block has been written, so it is one when the device is back.
    fn note_row_of_lost(&mut self, device: MemberIndex, block: MemberLba) {
        let back = |state: &DeviceState| match *state {
            DeviceState::Lost { role } => DeviceState::InSync { role },
            state => state,
        };
        let states: Vec<DeviceState> = self.states.iter().map(back).collect();
        let DeviceState::InSync { role } = states[device.index()] else { return };
        let Some((stripe, _, row)) = self.layout.identify(role, block) else { return };
        let stripes = Stripes { states: &states, ..self.stripes() };
        if !stripes.is_row_failed(stripe, row.0) {
            return;
        }
        for lba in stripes.hopeless_blocks(stripe, row.0) {
            self.volume.give_up(lba);
        }
    }

    /// The strip and its row at a block of a device's data area.
    fn unit_at(&self, device: MemberIndex, block: MemberLba) -> Option<(StripeIndex, StripUnit, u64)> {
        let (DeviceState::InSync { role } | DeviceState::Rebuilding { role, .. }) =
            self.states[device.index()]
        else {
            return None;
        };
        let (stripe, unit, row) = self.layout.identify(role, block)?;
        Some((stripe, unit, row.0))
    }

    /// Checks that blocks had reason to become errors, and notes what is gone with them.
    fn take_lost_blocks(
        &mut self,
        member: MemberIndex,
        lba: MemberLba,
        blocks: BlockCount,
    ) -> Result<(), Box<Violation>> {
        for block in lba.0..lba.0 + blocks.0 {
            let Some((stripe, unit, row)) = self.unit_at(member, MemberLba(block)) else { continue };
            let is_gone = self.is_row_given_up(stripe, row, self.stamp);
            if !is_gone && !self.may_lose_block((member, block), (stripe, unit, row)) {
                return Err(Violation::NeedlessBadBlock { member, block }.into());
            }
            if let StripUnit::Data { strip, .. } = unit {
                let lba = self.stripes().lba(stripe, strip, row);
                self.volume.give_up(lba);
            }
        }
        Ok(())
    }

    /// Whether a block of a unit may become an error beyond the bounds. Within them none may, but of rows that are given up.
    fn may_lose_block(
        &self,
        (member, block): (MemberIndex, u64),
        (stripe, unit, row): (StripeIndex, StripUnit, u64),
    ) -> bool {
        if self.mode == TortureMode::Bounded {
            return false;
        }
        let stripes = self.stripes();
        // The boundary may have passed what is lost of a target.
        let is_target = self.losses.target == Some(member);
        stripes.is_row_failed(stripe, row)
            || (is_target && stripes.is_row_failed_without(stripe, row, unit))
            // A torn write may have made readable what the devices call bad.
            || stripes.is_row_given_up(stripe, row, unit, is_target)
            || (is_target && stripes.shape().parities > 0 && self.was_in_doubt(stripe, self.stamp))
            || (is_target && self.losses.may_lack_records)
            // A start could not read a record from any device.
            || (self.media.start_errors > 0 && self.was_in_doubt(stripe, self.stamp))
            || self.is_doubtful(stripe, self.stamp)
            || self.is_bad_and_doubtful((member, block), (stripe, unit, row))
    }

    /// The blocks that the controller calls bad.
    pub(crate) fn bad_blocks(&self) -> BTreeSet<(MemberIndex, u64)> {
        bad_blocks_of(&self.controller)
    }

    /// Takes note of the rows that were lost with what was called bad until now, though it can be read: requests under way may have met
    /// them.
    pub(crate) fn note_no_longer_bad(&mut self) {
        if self.mode == TortureMode::Bounded || self.bad.is_empty() {
            return;
        }
        let (still_bad, stripes) = (self.bad_blocks(), self.stripes());
        let blocks = self.bad.iter().copied().flat_map(blocks_of).filter(|block| !still_bad.contains(block));
        let units = blocks.filter_map(|(member, block)| self.unit_at(member, MemberLba(block)));
        let is_lost = |(stripe, _, row): &(StripeIndex, StripUnit, u64)| {
            stripes.row_blocks(*stripe, *row).next().is_some_and(|lba| stripes.is_called_lost(lba))
        };
        let rows: Vec<_> = units.filter(is_lost).map(|(stripe, _, row)| (stripe, row)).collect();
        self.losses.failed_until.extend(rows.into_iter().map(|row| (row, self.stamp)));
    }

    /// Takes note, before what is on its way arrives, of the blocks that are called bad without need.
    pub(crate) fn note_end_of_controller(&mut self) {
        // A strip's tags may have arrived before the data that is restored with them.
        let is_left_alone = |it: &(MemberIndex, u64)| !self.is_being_written(*it);
        self.losses.needless = self.needless_bad_blocks().filter(is_left_alone).collect();
    }

    /// True while a write to a block of a device is under way.
    fn is_being_written(&self, (member, block): (MemberIndex, u64)) -> bool {
        let place = self.devices[member.index()].data.tags.place(block);
        self.flights.iter().any(|flight| match flight.work {
            Work::Member(io) => {
                let places = io.lba.0..io.lba.0 + io.blocks.0;
                io.area == Area::Data
                    && matches!(io.op, MemberOp::Write { .. })
                    && io.member == member
                    && places.contains(&place)
            }
            _ => false,
        })
    }

    /// Blocks that the controller calls bad, but that can be read, and no write that was cut off has made them so.
    fn needless_bad_blocks(&self) -> impl Iterator<Item = (MemberIndex, u64)> + '_ {
        let is_needless =
            |it: &(MemberIndex, u64)| !self.is_spoiled(*it) && !self.losses.reached.contains(it);
        self.bad_blocks().into_iter().filter(is_needless)
    }

    fn is_spoiled(&self, (member, block): (MemberIndex, u64)) -> bool {
        self.devices[member.index()].data.is_spoiled(block, 1)
    }

    /// True if the controller calls a block bad.
    pub(crate) fn is_bad(&self, member: MemberIndex, block: u64) -> bool {
        let holds =
            |range: BadRange| range.0 == member && (range.1.0..range.1.0 + range.2.0).contains(&block);
        self.controller.bad_blocks().any(holds)
    }

    /// Checks that blocks that are errors could not be read; parity may also have been given up with its stripe.
    pub(crate) fn check_bad_blocks(&self) -> Result<(), Box<Violation>> {
        for (member, block) in self.needless_bad_blocks() {
            let is_gone = || {
                self.unit_at(member, MemberLba(block))
                    .is_some_and(|(stripe, _, row)| self.is_row_given_up(stripe, row, self.stamp))
            };
            if self.mode == TortureMode::Bounded && !is_gone() {
                return Err(Violation::NeedlessBadBlock { member, block }.into());
            }
        }
        Ok(())
    }

    /// Checks that what requests were told is lost can be read now, or is marked as such.
    pub(crate) fn check_losses_are_marked(&mut self) -> Result<(), Failure> {
        for lba in core::mem::take(&mut self.told_lost) {
            if self.is_loss_marked(lba) {
                continue;
            }
            self.submit(HostOp::Read, lba, BlockCount(1))?;
            self.await_host()?;
            self.await_idle()?;
            if !core::mem::take(&mut self.told_lost).is_empty() && !self.is_loss_marked(lba) {
                return Err(self.failure(Violation::LossNotMarked { lba }));
            }
        }
        Ok(())
    }

    /// True if a block is on no device that is there, is listed everywhere, or in doubt, or a lost device may bring it back.
    fn is_loss_marked(&mut self, lba: Lba) -> bool {
        self.look_at_states();
        let is_marked = |place: UnitPlace| {
            let Some(device) = self.stripes().holder(place) else { return true };
            let mut listed = self.controller.bad_blocks().filter(|(member, ..)| *member == device);
            listed.any(|(_, at, blocks)| (at.0..at.0 + blocks.0).contains(&place.start.0))
        };
        let stripe = self.layout.locate(lba).0;
        let is_undecided = self.was_in_doubt(stripe, self.stamp) || self.stripes().awaits_device(stripe);
        is_undecided || self.copies(lba).all(is_marked)
    }

    /// Checks, after a recovery, that no block is called unreadable that can be read, unless its stripe is in doubt.
    pub(crate) fn check_recovered(&self) -> Result<(), Box<Violation>> {
        for (member, lba, blocks, reason) in self.controller.bad_ranges() {
            for block in lba.0..lba.0 + blocks.0 {
                let unit = self.unit_at(member, MemberLba(block));
                let is_kept_out = unit.is_none_or(|(stripe, ..)| {
                    self.was_in_doubt(stripe, self.stamp) || self.stripes().awaits_device(stripe)
                });
                let data = &self.devices[member.index()].data;
                let is_readable = || self.role_of(member).is_some_and(|role| data.can_be_read(role, block));
                if reason == BadReason::Unreadable && !is_kept_out && is_readable() {
                    return Err(Violation::NotRecovered { member, block }.into());
                }
            }
        }
        Ok(())
    }

    // Notices.

    /// Checks a notice, and notes what the array says it lost.
    pub(crate) fn take_notice(&mut self, notice: Notice) -> Result<(), Failure> {
        self.look_at_states();
        if !self.losses.torn_rows.is_empty() {
            self.look_at_torn_rows();
        }
        match notice {
            Notice::WriteLost { lba, blocks, is_kept } => {
                for lba in (lba.0..lba.0 + blocks.0).map(Lba) {
                    if !self.may_fail(lba, BlockCount(1), self.stamp) && !self.may_have_lost() {
                        return Err(self.failure(Violation::NeedlessLoss { lba }));
                    }
                    self.volume.lose(lba, is_kept);
                }
                self.losses.untold += 1;
                self.losses.must_be_told |= !self.hosts.any_flush();
            }
            Notice::BlocksLost { member, lba, blocks, reason } => {
                self.excuse_unknown_tags();
                let taken = self.take_lost_blocks(member, lba, blocks);
                taken.map_err(|violation| self.failure(violation))?;
                let lost = lba.0..lba.0 + blocks.0;
                if reason == BadReason::Lost {
                    // What stands there is not to be believed until it is written.
                    let data = &mut self.devices[member.index()].data;
                    lost.for_each(|block| data.suspect(data.tags.place(block)));
                } else {
                    self.losses.unreadable.extend(lost.map(|block| (member, block)));
                }
            }
            Notice::MemberFailed { member } => {
                self.excuse_unknown_tags();
                let device = usize::from(member.0);
                if !self.excluded[device] && !self.devices[device].is_out() && !self.is_list_full() {
                    return Err(self.failure(Violation::NeedlessMemberFailure { member }));
                }
                self.note_single_records();
            }
            Notice::MemberAdded { member } => self.excluded[member.index()] = false,
            Notice::Mismatch { member, lba, .. } => self.check_mismatch(member, lba)?,
            Notice::ScanStarted { scan: Scan::Rebuild { target } } => self.losses.target = Some(target),
            Notice::Serving => {
                self.last_progress = self.stamp;
                self.devices.iter_mut().for_each(|device| device.log_rot = None);
                self.media.has_single_records = false;
                self.note_single_records();
                // While a device is lost the state on the devices stays as it is, and with it the incarnation of NVRAM that it names.
                self.relics.incarnations += u64::from(!self.has_lost());
            }
            Notice::Stopped => self.is_stopped = true,
            Notice::ScanEnded { progress: ScanProgress { scan, counts, .. }, .. } => match scan {
                Scan::Rebuild { .. } | Scan::Recover => {}
                Scan::Resync => self.resync = Resync::Through,
                Scan::Check | Scan::Repair | Scan::RepairFromData => self.take_counts(scan, counts)?,
            },
            _ => {}
        }
        Ok(())
    }

    /// Checks, when all is quiet and nothing is missing, that no stripe waits for a resync, as one may that lacks data.
    pub(crate) fn check_resynced(&mut self) -> Result<(), Failure> {
        self.look_at_states();
        let in_sync = self.states.iter().filter(|state| is_in_sync(**state)).count();
        let stripes = self.controller.out_of_sync_stripes();
        let is_whole = in_sync == usize::from(self.config.members) && self.controller.is_serving();
        if is_whole && stripes > 0 {
            return Err(self.failure(Violation::NotResynced { stripes }));
        }
        Ok(())
    }

    /// Checks, when all is quiet, that no member is trusted that failed a write, and that no spare waits while a role is
    /// vacant.
    pub(crate) fn check_membership(&self) -> Result<(), Failure> {
        let in_sync = self.states.iter().filter(|state| is_in_sync(**state)).count();
        let is_complete = in_sync == usize::from(self.config.members);
        for (device, state) in self.states.iter().enumerate() {
            let member = MemberIndex(device as u16);
            let is_waiting = matches!(state, DeviceState::Spare | DeviceState::Rebuilding { .. });
            if is_waiting && !is_complete && !self.has_lost() {
                return Err(self.failure(Violation::NotRebuilt { member }));
            }
            let is_unfit = self.devices[device].presence == Presence::Unfit;
            if is_unfit && matches!(state, DeviceState::InSync { .. } | DeviceState::Rebuilding { .. }) {
                return Err(self.failure(Violation::UnfitMember { member }));
            }
        }
        Ok(())
    }
}

fn bad_blocks_of(controller: &Controller) -> BTreeSet<(MemberIndex, u64)> {
    controller.bad_blocks().flat_map(blocks_of).collect()
}

/// Each block of a range.
fn blocks_of((member, lba, blocks): BadRange) -> impl Iterator<Item = (MemberIndex, u64)> {
    (lba.0..lba.0 + blocks.0).map(move |block| (member, block))
}
