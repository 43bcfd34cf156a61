//! Silent corruption by devices: blocks that are not what was acknowledged, on arrays whose blocks have tags.
//!
//! | fault | what happens |
//! |---|---|
//! | silent corruption | some bytes of a block, of data or of tags, change |
//! | lost write | a write of data or of tags is acknowledged, and the old bytes stay |
//! | zeroed range | a run of places, or all to the end of a device, becomes zeros, data and tags: a hole punched, a file truncated and grown, a discard; at once, or while the array is stopped, and then at times with what all devices know of written regions |
//! | wrong-place write | the same, and the new bytes go to another place of the device, in data or tags |
//!
//! A strip with such a fault is *corrupt*: it counts as unreadable until its data and tags are seen to agree again. Faults stay
//! within what the level survives, as latent errors do; for the last two kinds that is decided just before the write is done.
//! Data and tags of one strip are never both corrupt, as both could be old and agree, which nobody can detect; but zeros are found where
//! the array has recorded that something is written. Only such strips become zeros, and there a tag of zeros agrees with nothing.
//!
//! After a crash the array trusts what is in doubt. So nothing is made corrupt while anything is in doubt. Before the start after a
//! power cut or a failover, corrupt strips are put right, unless records restore all that is in doubt. They do if the log needs no
//! battery or has a good one, and the array has lost no more than it survives.
//!
//! Verified: in a bounded run a mismatch is reported only in a corrupt strip, or in one whose tags could not be read. At the end,
//! after a check, all tags agree: every corrupt block was found and healed. Not verified: that each fault is reported, because a
//! block may be overwritten before it is read; faults left in stripes that lack a unit, which a check skips.

use super::faults::Fault;
use super::flights::{Flight, Work};
use super::members::{Device, Presence};
use super::plan::TortureMode;
use super::trace::TraceEvent;
use super::violation::{Failure, Violation};
use super::world::TortureWorld;
use raidlab_controller::{
    Area, BatteryState, CacheMemory, DeviceState, MemberIo, MemberOp, MetadataPolicy, Scan,
};
use raidlab_format::{AreaLayout, WrittenMap};
use raidlab_raid::StripUnit;
use raidlab_units::{MemberIndex, MemberLba, StripeIndex};
use raidlab_workload::Rng;

/// A device that will lie about a write.
#[derive(Clone, Debug)]
pub(super) struct Armed {
    member: MemberIndex,
    is_misplaced: bool,
    pick: Rng,
}

impl TortureWorld {
    /// Changes some bytes of a block, if that may be. Returns its device.
    pub(super) fn corrupt_block(&mut self, pick: &mut Rng) -> Option<u64> {
        let stripes = self.stripes();
        let stripe = StripeIndex(pick.below(self.layout.stripe_count().0));
        let nth = pick.below(stripes.units().count() as u64) as usize;
        let place = self.layout.place(stripe, stripes.units().nth(nth)?);
        let (member, _) = stripes.fit_holder(place)?;
        let block = place.start.0 + pick.below(stripes.shape().strip_blocks.0);
        let is_in_tags = pick.below(4) == 0;
        let tags = self.devices[member.index()].data.tags;
        let (tag_place, byte) = tags.tag_place(block);
        let (at, byte) = if is_in_tags {
            (tag_place, byte + pick.below(8) as usize)
        } else {
            (tags.place(block), pick.below(self.config.block_size.bytes()) as usize)
        };
        self.forget_healed(None);
        if !self.may_lie(member, &[at]) {
            return None;
        }
        let mut content = self.devices[member.index()].data.at(at).to_vec();
        content[byte] ^= 1 + pick.below(255) as u8;
        self.lie(member, at, &content);
        Some(u64::from(member.0))
    }

    /// Makes a range of a device zeros, now or at the next stop. Returns the device.
    pub(super) fn zero_range(&mut self, pick: &mut Rng) -> Option<u64> {
        if !self.config.resilience.integrity {
            return None;
        }
        if pick.chance_pct(40) {
            self.zeroes_at_stop = Some(Rng::new(pick.next_u64()));
            return Some(0);
        }
        self.forget_healed(None);
        if self.is_quiet() { self.zero_now(pick) } else { None }
    }

    /// The same for what was put off until the array is stopped, with nothing in doubt.
    pub(super) fn zero_while_stopped(&mut self) {
        if let Some(mut pick) = self.zeroes_at_stop.take() {
            self.forget_healed(None);
            self.zero_now(&mut pick);
            if pick.chance_pct(30) {
                self.lose_written_map();
            }
        }
    }

    /// Makes zeros of what all devices say of written regions, where others tell of what any of them holds.
    fn lose_written_map(&mut self) {
        let is_bounded = self.mode == TortureMode::Bounded && self.is_redundant();
        let is_any_out = self.devices.iter().any(Device::is_out);
        let (false, true, Some(state)) = (is_any_out, is_bounded, self.controller.array_state()) else {
            return;
        };
        let slots = AreaLayout::of(&self.config.geometry(state.geometry.array_uuid)).written;
        let block_bytes = self.config.block_size.bytes();
        for metadata in self.devices.iter_mut().map(|device| &mut device.metadata) {
            for slot in slots {
                for block in slot.offset_bytes / block_bytes..slot.end_bytes() / block_bytes {
                    metadata.put(block, &vec![0; block_bytes as usize]);
                }
            }
        }
    }

    /// Zeroes the parts of a range that are in strips where the mode allows that.
    fn zero_now(&mut self, pick: &mut Rng) -> Option<u64> {
        let member = MemberIndex(pick.below(self.devices.len() as u64) as u16);
        if self.devices[member.index()].is_out() {
            return None;
        }
        let tags = self.devices[member.index()].data.tags;
        let strips = self.config.member_size.0 / (tags.pitch() * self.config.block_size.bytes());
        let first = pick.below(strips * tags.pitch());
        let end = match pick.below(4) {
            0 => u64::MAX,
            1 => first + 1,
            _ => first + 1 + pick.below(3 * tags.pitch()),
        };
        let maps = self.recorded_maps()?;
        let mut any = false;
        for strip in tags.strip(first)..strips.min(tags.strip(end.saturating_sub(1)) + 1) {
            let places = strip * tags.pitch()..(strip + 1) * tags.pitch();
            let is_recorded = maps.iter().all(|map| map.is_marked(map.region_of(strip)));
            if is_recorded
                && self.devices[member.index()].data.is_written(strip)
                && self.survives_lies(member, &[places.start])
            {
                any = true;
                self.zero_places(member, strip, places.start.max(first)..places.end.min(end));
            }
        }
        self.report.faults[Fault::ZeroedRange as usize] += u64::from(any);
        any.then_some(u64::from(member.0))
    }

    /// What each device says of written regions; none where some device says nothing, or the array keeps nothing. A page of one is
    /// on its way to all, and counts from when the last has it.
    fn recorded_maps(&self) -> Option<Vec<WrittenMap>> {
        let geometry = self.config.geometry(self.controller.array_state()?.geometry.array_uuid);
        let slots = AreaLayout::of(&geometry).written;
        let has_role = |index: &usize| self.role_of(MemberIndex(*index as u16)).is_some();
        let is_here = |index: &usize| self.devices[*index].presence != Presence::Gone;
        let maps = (0..self.devices.len()).filter(has_role).filter(is_here).map(|index| {
            let mut map = WrittenMap::new(geometry.strips(), slots[0].length_bytes)?;
            let area = self.devices[index].metadata.bytes();
            for slot in slots {
                let bytes = &area[slot.offset_bytes as usize..slot.end_bytes() as usize];
                map.join(bytes, geometry.array_uuid);
            }
            Some(map)
        });
        maps.collect()
    }

    fn zero_places(&mut self, member: MemberIndex, strip: u64, places: core::ops::Range<u64>) {
        let Some(role) = self.role_of(member) else { return };
        self.devices[member.index()].data.corruption.add_zeroed(strip, role);
        let zeros = vec![0; self.config.block_size.bytes() as usize];
        for place in places {
            self.lie(member, place, &zeros);
        }
    }

    /// Lets a device lie about one of its next writes.
    pub(super) fn arm(&mut self, fault: Fault, pick: &mut Rng) -> Option<u64> {
        if !self.config.resilience.integrity {
            return None;
        }
        let member = MemberIndex(pick.below(self.devices.len() as u64) as u16);
        let is_misplaced = fault == Fault::WrongPlaceWrite;
        self.armed.push(Armed { member, is_misplaced, pick: Rng::new(pick.next_u64()) });
        Some(u64::from(member.0))
    }

    /// Lets a write to an armed device go wrong, if that may be. Returns true if it did, and the write is done with.
    pub(super) fn lie_about(&mut self, io: &MemberIo, flight: &Flight) -> bool {
        let is_ready = io.area == Area::Data && matches!(io.op, MemberOp::Write { .. });
        let Some(index) = self.armed.iter().position(|it| it.member == io.member && is_ready) else {
            return false;
        };
        self.look_at_states();
        self.forget_healed(Some(io));
        let is_misplaced = self.armed[index].is_misplaced;
        let target = if is_misplaced { self.other_place(index, io) } else { Some(io.lba.0) };
        let allowed = target.is_some_and(|target| self.may_lie(io.member, &[io.lba.0, target]));
        let Some(target) = target.filter(|_| allowed) else { return false };
        self.armed.remove(index);
        let fault = if is_misplaced { Fault::WrongPlaceWrite } else { Fault::LostWrite };
        self.report.faults[fault as usize] += 1;
        let block_bytes = self.config.block_size.bytes() as usize;
        let mut bytes = vec![0; io.blocks.0 as usize * block_bytes];
        self.memories.gather(self.controller.own_memory(), &mut bytes, &flight.segments);
        for (at, content) in (0..).zip(bytes.chunks_exact(block_bytes)) {
            let data = &mut self.devices[io.member.index()].data;
            let old = data.at(io.lba.0 + at).to_vec();
            data.put(io.lba.0 + at, content);
            self.lie(io.member, io.lba.0 + at, &old);
        }
        for (at, content) in (0..).zip(bytes.chunks_exact(block_bytes)).filter(|_| is_misplaced) {
            self.lie(io.member, target + at, content);
        }
        true
    }

    /// Where a misplaced write goes: within one strip or its tags.
    fn other_place(&mut self, index: usize, io: &MemberIo) -> Option<u64> {
        let tags = self.devices[io.member.index()].data.tags;
        let Armed { pick, .. } = &mut self.armed[index];
        let tag_blocks = tags.pitch() - tags.strip_blocks();
        let strips = self.config.member_size.0 / (tags.pitch() * self.config.block_size.bytes());
        let strip = pick.below(strips) * tags.pitch();
        if pick.below(4) == 0 && io.blocks.0 <= tag_blocks {
            return Some(strip + tags.strip_blocks() + pick.below(tag_blocks - io.blocks.0 + 1));
        }
        let room = tags.strip_blocks() - io.blocks.0.min(tags.strip_blocks());
        let target = strip + pick.below(room + 1);
        // Not onto itself, not even in part.
        (target.abs_diff(io.lba.0) >= io.blocks.0).then_some(target)
    }

    /// True while nothing is in doubt that a start, or what follows one, would believe.
    fn is_quiet(&self) -> bool {
        self.controller.is_serving() && !self.is_resyncing() && self.controller.out_of_sync_stripes() == 0
    }

    /// Whether the mode allows that these places of a device lie now, and with them their strips.
    fn may_lie(&self, member: MemberIndex, places: &[u64]) -> bool {
        self.is_quiet() && !self.devices[member.index()].is_out() && self.survives_lies(member, places)
    }

    /// The same as far as redundancy is concerned.
    fn survives_lies(&self, member: MemberIndex, places: &[u64]) -> bool {
        let data = &self.devices[member.index()].data;
        let units: Vec<_> = places.iter().map(|at| self.unit_of(member, *at)).collect();
        let (Some(units), true) = (units.into_iter().collect::<Option<Vec<_>>>(), data.tags.is_on()) else {
            return false;
        };
        let kinds = places.iter().map(|at| (data.tags.strip(*at), data.tags.is_tag(*at)));
        let is_mixed = kinds.clone().any(|one| kinds.clone().any(|two| one.0 == two.0 && one.1 != two.1));
        let is_taken = |at: &u64| {
            let strip = data.tags.strip(*at);
            data.corruption.names(strip) || data.read(strip * data.tags.pitch(), data.tags.pitch()).is_none()
        };
        let survives = |&(stripe, _): &(StripeIndex, StripUnit)| {
            self.stripes().survives(stripe, |unit, _| units.contains(&(stripe, unit)))
        };
        let is_bounded = self.mode == TortureMode::Beyond || units.iter().all(survives);
        !is_mixed && !places.iter().any(is_taken) && is_bounded
    }

    /// The role that a device plays.
    pub(crate) fn role_of(&self, member: MemberIndex) -> Option<MemberIndex> {
        match self.states[member.index()] {
            DeviceState::InSync { role } | DeviceState::Rebuilding { role, .. } => Some(role),
            DeviceState::Spare | DeviceState::Missing | DeviceState::Lost { .. } => None,
        }
    }

    /// The unit to which a place of a data area belongs, or to whose tags.
    pub(super) fn unit_of(&self, member: MemberIndex, place: u64) -> Option<(StripeIndex, StripUnit)> {
        let tags = self.devices[member.index()].data.tags;
        let block = MemberLba(tags.strip(place) * tags.strip_blocks());
        let (stripe, unit, _) = self.layout.identify(self.role_of(member)?, block)?;
        Some((stripe, unit))
    }

    /// Puts `content` at a place where something else should stand, which is there now.
    fn lie(&mut self, member: MemberIndex, place: u64, content: &[u8]) {
        let Some(role) = self.role_of(member) else { return };
        self.note(TraceEvent::Lie(member, place));
        let data = &mut self.devices[member.index()].data;
        let (strip, is_in_tags) = (data.tags.strip(place), data.tags.is_tag(place));
        data.corruption.add(strip, role, is_in_tags);
        if !is_in_tags {
            let truth = data.at(place).to_vec();
            data.corruption.add_truth(place, truth);
        }
        data.put(place, content);
    }

    /// Notes that places can't be read: where tags are among them, those that are not known after that agree with nothing. Where
    /// what was there is `old`, neither do the others. A device that has left may be back in the role that the devices know.
    pub(super) fn note_unreadable(&mut self, member: MemberIndex, first: u64, places: u64, old: bool) {
        let known_role = || self.controller.array_state()?.devices.get(member.index())?.role.map(MemberIndex);
        let Some(role) = self.role_of(member).or_else(known_role) else { return };
        let data = &mut self.devices[member.index()].data;
        let is_other = |place: &u64| data.tags.is_tag(*place) || (old && data.tags.is_on());
        for place in (first..first + places).filter(is_other).collect::<Vec<_>>() {
            data.corruption.add(data.tags.strip(place), role, true);
        }
    }

    /// Forgets strips that agree again, and that nothing is on its way to; `arriving` is what is no longer in flight.
    pub(super) fn forget_healed(&mut self, arriving: Option<&MemberIo>) {
        for index in 0..self.devices.len() {
            let member = MemberIndex(index as u16);
            for (strip, role) in self.devices[index].data.corruption.strips() {
                let data = &self.devices[index].data;
                let is_written = |io: &MemberIo| {
                    io.member == member
                        && io.area == Area::Data
                        && matches!(io.op, MemberOp::Write { .. })
                        && data.tags.strip(io.lba.0) == strip
                };
                let on_its_way = |flight: &Flight| matches!(&flight.work, Work::Member(io) if is_written(io));
                let is_awaited = arriving.is_some_and(is_written) || self.flights.iter().any(on_its_way);
                // A device that is lost comes back in its role, as one does after a power cut until the devices know.
                let is_lost = matches!(self.states[index], DeviceState::Lost { .. });
                let is_other =
                    !is_lost && self.role_of(member) != Some(role) && self.controller.is_state_kept();
                if is_other || (data.is_sound(strip, role) && !is_awaited) {
                    self.devices[index].data.forget_corruption(strip);
                }
            }
        }
    }

    /// Puts the truth in the place of lies when power is gone, where what is in doubt after that would be believed. What was in
    /// flight has arrived by then: a block of tags that lies was read before it was written.
    pub(super) fn undo_corruption(&mut self) {
        // A log in memory that the battery may not keep may be lost.
        let keeps_log =
            self.config.cache.memory == CacheMemory::Volatile || self.battery == BatteryState::Good;
        let brings_back = self.config.resilience.metadata == MetadataPolicy::Log
            && keeps_log
            && self.layout.shape().parities > 0
            && self.mode == TortureMode::Bounded;
        if !brings_back {
            self.devices.iter_mut().for_each(|device| device.data.undo_corruption());
        }
    }

    /// Checks that blocks had reason to disagree with their tags.
    pub(super) fn check_mismatch(&self, member: MemberIndex, lba: MemberLba) -> Result<(), Failure> {
        let data = &self.devices[member.index()].data;
        if self.mode == TortureMode::Beyond || data.corruption.names(lba.0 / data.tags.strip_blocks()) {
            return Ok(());
        }
        Err(self.failure(Violation::NeedlessMismatch { member, lba }))
    }

    /// Blocks whose tags are unknown, by device.
    fn unknown_tags(&self) -> impl Iterator<Item = (MemberIndex, u64)> {
        let devices = self.devices.iter().enumerate();
        devices.flat_map(|(index, device)| {
            device.data.unknown_tags().map(move |block| (MemberIndex(index as u16), block))
        })
    }

    /// Takes in that a start finds tags unknown whose restoring the last one did not come to.
    pub(super) fn note_unknown_tags(&mut self) {
        self.left_unknown = Some(self.unknown_tags().collect());
    }

    /// Takes in that for a while redundancy may be too little to restore what has unknown tags.
    pub(super) fn excuse_unknown_tags(&mut self) {
        self.left_unknown = None;
    }

    /// Checks, when all is quiet, that what a write found without tags has been restored, before anybody reads it.
    pub(super) fn check_unknown_tags(&self) -> Result<(), Box<Violation>> {
        let Some(left) = &self.left_unknown else { return Ok(()) };
        let is_whole = self.controller.device_states().all(|state| !matches!(state, DeviceState::Missing));
        let is_settled = self.mode == TortureMode::Bounded && self.is_redundant() && is_whole;
        if !is_settled || self.has_lost() || self.controller.out_of_sync_stripes() > 0 {
            return Ok(());
        }
        let bad = self.bad_blocks();
        let mut unknown = self.unknown_tags().filter(|it| !left.contains(it) && !bad.contains(it));
        let Some((member, block)) = unknown.find(|(member, block)| {
            let data = &self.devices[member.index()].data;
            self.unit_of(*member, data.tags.place(*block)).is_some()
        }) else {
            return Ok(());
        };
        Err(Violation::UnknownTag { member, block }.into())
    }

    /// Has everything compared that no read has come across.
    pub(super) fn find_lies(&mut self) -> Result<(), Failure> {
        self.armed.clear();
        self.media.failing_reads.clear();
        self.end_outages();
        let is_possible = self.is_redundant() && !self.has_lost();
        if self.config.resilience.integrity && is_possible {
            self.ask_for_scan(Scan::Check)?;
            self.await_idle()?;
        }
        Ok(())
    }

    /// Checks, when all is quiet and compared, that tags agree.
    pub(super) fn check_tags(&self) -> Result<(), Box<Violation>> {
        if !self.config.resilience.integrity || self.controller.out_of_sync_stripes() > 0 {
            return Ok(());
        }
        let stripes = self.stripes();
        let bad = self.bad_blocks();
        for (stripe, unit) in
            stripes.indices().flat_map(|stripe| stripes.units().map(move |unit| (stripe, unit)))
        {
            let place = self.layout.place(stripe, unit);
            let Some((member, device)) = stripes.fit_holder(place) else { continue };
            let data = &device.data;
            let lacks =
                stripes.units().any(|unit| stripes.fit_holder(self.layout.place(stripe, unit)).is_none());
            for block in place.start.0..place.start.0 + stripes.shape().strip_blocks.0 {
                let is_known = data.is_corrupt(block) && (lacks || self.mode == TortureMode::Beyond);
                let is_unreadable = data.is_unreadable(block) || bad.contains(&(member, block));
                if !data.agrees(place.member, block) && !is_known && !is_unreadable {
                    return Err(Violation::TagDisagrees { stripe, unit, member, block }.into());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TorturePlan;

    /// Defect of the test (plan `5019176-beyond`): tags of a lost device that had become unknown counted as readable once it was back.
    #[test]
    fn tags_that_a_lost_device_could_not_write_are_unknown_when_it_is_back() {
        let plan = TorturePlan::draw_with(true, 1, 100, TortureMode::Beyond, None).expect("any level");
        let mut world = TortureWorld::new(&plan.config, 1).expect("it can be");
        for member in (0..plan.config.members).map(MemberIndex) {
            world.controller.handle_member_loss(world.now, member);
        }
        world.look_at_states();
        let is_lost = |state: &DeviceState| matches!(state, DeviceState::Lost { .. });
        let lost = world.states.iter().position(is_lost).expect("no level survives that");
        let (place, _) = world.devices[lost].data.tags.tag_place(0);
        world.devices[lost].data.spoil(place);
        world.note_unreadable(MemberIndex(lost as u16), place, 1, false);
        world.devices[lost].data.write(place, 1, true).fill(0xff);
        assert!(world.devices[lost].data.is_spoiled(0, 1));
    }
}
