//! Power cuts: what is left of bytes that were on their way, and the start from what is left.
//!
//! ```text
//!  writes in flight      none, all, a front part or any of the blocks reach the device
//!  volatile writes       kept or dropped, whole or block by block (members.rs)
//!  memory tasks          none, all, a front part or any of their blocks are done
//!  cache, NVRAM log,     kept if the battery is good, else garbage (now and then kept all the same)
//!   directory
//!  everything else       garbage
//! ```
//! The devices come back in any order; one that was gone may come back with its old bytes, one that was there may be gone.
//! A start that is refused with reason is tried once more with every device there. The run ends where that is refused, too.

use super::checkers::liveness::PATIENCE_STEPS;
use super::flights::Work;
use super::members::{Device, Presence};
use super::memories::Peer;
use super::plan::TortureMode;
use super::trace::TraceEvent;
use super::violation::{Failure, Violation};
use super::volume::WriteNumber;
use super::world::{Resync, TortureWorld};
use raidlab_controller::{
    Area, BatteryState, BufferSpace, CacheMemory, Controller, DeviceState, MemberCache, MemberIo, MemberOp,
    MetadataPolicy, PeerState, StartError,
};
use raidlab_format::{
    ArrayState, AssembleError, Assembly, DeviceRecord, DeviceState as RecordedState, Doubt, LogRun,
    RecordHolds, StartOptions, assemble,
};
use raidlab_units::{MemberIndex, StripeIndex};
use raidlab_workload::Rng;

/// How much of something that was on its way got through.
#[derive(Clone, Copy, Debug)]
pub(super) enum Torn {
    Nothing,
    All,
    /// Parts before this one.
    Front(u64),
    /// Each part by the toss of a coin.
    Some,
}

impl Torn {
    pub(super) fn draw(parts: u64, random: &mut Rng) -> Self {
        match random.below(5) {
            0 | 1 => Self::Nothing,
            2 => Self::All,
            3 => Self::Front(random.below(parts + 1)),
            _ => Self::Some,
        }
    }

    pub(super) fn holds(self, part: u64, random: &mut Rng) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::Front(parts) => part < parts,
            Self::Some => random.chance_pct(50),
        }
    }
}

/// What a start knows: why redundancy is in doubt, if it is, and how many records are to be replayed.
pub(super) type Known = (Option<Doubt>, usize);

/// Events in which the log of an array leaves NVRAM whose battery has failed.
const LOG_MOVES_STEPS: u64 = 2_000;

/// Why an array was not started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The devices are no array that may be started.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The controller won't.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Roles that no device has by `state`, not even in part.
fn vacant_roles(state: &ArrayState) -> Vec<MemberIndex> {
    let has = |role: MemberIndex| {
        let is_member =
            |it: &&DeviceRecord| matches!(it.state, RecordedState::InSync | RecordedState::Rebuilding);
        state.devices.iter().filter(is_member).any(|it| it.role == Some(role.0))
    };
    (0..state.geometry.members).map(MemberIndex).filter(|role| !has(*role)).collect()
}

impl TortureWorld {
    /// Cuts power and starts the array again; now and then power fails again during the start.
    pub(super) fn power_cut(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        loop {
            self.check_bitmaps()?;
            self.lose_power(pick);
            self.undo_corruption();
            self.shuffle_devices(pick);
            self.start_again(pick)?;
            if self.is_refused || !pick.chance_pct(30) || !self.may_crash() {
                return Ok(());
            }
            for _ in 0..pick.below(60) {
                self.step()?;
            }
            self.look_at_states();
            if !self.may_crash() {
                return Ok(());
            }
        }
    }

    /// Stops the array cleanly and starts it again. Nothing may be left in doubt, and NVRAM is not needed.
    pub(super) fn stop_and_start(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        self.await_host()?;
        self.is_stopped = false;
        self.take_older(pick);
        self.controller.handle_stop(self.now);
        self.pump()?;
        let began = self.stamp;
        while !self.is_stopped {
            if !self.step()? || self.stamp.0 - began.0 > PATIENCE_STEPS {
                return Err(self.failure(Violation::NeverStopped));
            }
        }
        self.note_missed_stop();
        self.check_bitmaps()?;
        let was_lost = self.has_lost();
        let was_out_of_sync = self.controller.out_of_sync_stripes() > 0;
        // A device that is lost was not told to keep what it has in its cache.
        if !was_lost || self.config.member_cache == MemberCache::Off {
            self.volume.promise_all(WriteNumber(self.writes), self.stamp);
        }
        self.lose_power(pick);
        if was_lost || was_out_of_sync {
            self.undo_corruption();
        } else {
            self.zero_while_stopped();
        }
        self.shuffle_devices(pick);
        // Where but one device is left, nothing else tells what has rotted.
        let is_rotten = self.mode == TortureMode::Beyond && self.devices.iter().any(Device::is_rotten);
        let assembly = self.start_again(pick)?;
        let is_clean = assembly.is_none_or(|(doubt, records)| doubt.is_none() && records == 0);
        if is_clean || was_lost || was_out_of_sync || is_rotten {
            Ok(())
        } else {
            Err(self.failure(Violation::NotClean))
        }
    }

    fn lose_power(&mut self, pick: &mut Rng) {
        self.report.restarts += 1;
        self.look_at_states();
        let is_found_again = self.keeps_memory();
        self.tick(TraceEvent::PowerCut);
        // What a device then forgets was not so while the controller was there.
        self.note_end_of_controller();
        for device in &mut self.devices {
            let withholds = self.moments.withholds;
            let forgets = withholds && device.presence == Presence::Gone;
            for (area, forgets) in [(&mut device.data, forgets), (&mut device.metadata, withholds)] {
                if forgets { area.lose(Torn::Nothing, pick) } else { area.lose_power(pick) }
            }
            device.lose_tail(withholds, pick);
        }
        self.end_flights(pick, true);
        self.moments.withholds = false;
        self.rot_at_cut();
        let is_kept =
            self.config.cache.memory == CacheMemory::BatteryBacked && self.battery == BatteryState::Good;
        let is_found = is_kept || pick.below(4) == 0;
        self.memories.lose_power(is_found, pick);
        if !is_found && self.relics.memory.is_some() {
            self.find_old_memory(pick);
        }
        self.volume.cut(WriteNumber(self.writes), self.stamp, is_found_again);
        self.last_progress = self.stamp;
    }

    /// Ends all that is in flight as it was when the controller was gone: done, not done, or torn.
    pub(super) fn end_flights(&mut self, pick: &mut Rng, is_durable: bool) {
        self.absence.hung = None;
        self.absence.late.clear();
        self.note_unanswered();
        // Claims keep what is in flight apart, so the order does not matter but among writes to one place.
        while !self.flights.is_empty() {
            let (entry, flight) = self.flights.take(pick.below(self.flights.len() as u64) as usize);
            match flight.work {
                Work::Member(_) if flight.is_cut_off => {}
                Work::Member(io) => self.tear_write(&io, &flight.segments, is_durable, pick),
                Work::Memory(_) => {
                    let block_bytes = self.config.block_size.bytes();
                    let own = self.controller.own_memory();
                    self.memories.execute_torn(own, &flight.steps, block_bytes, pick);
                }
                Work::Idle => unreachable!("an idle entry is not in flight"),
            }
            self.flights.give(entry, flight);
        }
        self.claims.clear();
        self.hosts.clear();
        self.timers.fill(None);
    }

    /// Writes as much as arrives; into the device's volatile cache, unless power is gone.
    fn tear_write(
        &mut self,
        io: &MemberIo,
        segments: &[raidlab_controller::Segment],
        is_durable: bool,
        pick: &mut Rng,
    ) {
        let MemberOp::Write { fua } = io.op else { return };
        if self.devices[usize::from(io.member.0)].presence == Presence::Gone
            || (self.moments.withholds && io.area == Area::Metadata)
        {
            return;
        }
        if io.area == Area::Data {
            // What arrives can be read again, though the devices still call it bad.
            self.note_lost_rows(io);
        }
        let device = &mut self.devices[usize::from(io.member.0)];
        let block_bytes = self.config.block_size.bytes();
        let mut bytes = vec![0; (io.blocks.0 * block_bytes) as usize];
        self.memories.gather(self.controller.own_memory(), &mut bytes, segments);
        let torn = Torn::draw(io.blocks.0, pick);
        let arrived: Vec<bool> = (0..io.blocks.0).map(|block| torn.holds(block, pick)).collect();
        for (block, bytes) in bytes.chunks_exact(block_bytes as usize).enumerate() {
            if arrived[block] {
                let area = device.area_mut(io.area);
                area.write(io.lba.0 + block as u64, 1, fua || is_durable).copy_from_slice(bytes);
            }
        }
        if self.torn.is_on && is_durable {
            self.tear_sectors(io, &bytes, &arrived);
        }
        if io.area == Area::Metadata {
            self.tear_copy(io, &bytes);
        }
    }

    /// Lets devices go or come while power is off.
    fn shuffle_devices(&mut self, pick: &mut Rng) {
        for device in self.devices.iter_mut().filter(|device| device.presence != Presence::Gone) {
            device.presence = Presence::Here;
        }
        let others_come_back = core::mem::take(&mut self.moments.others_come_back);
        if core::mem::take(&mut self.moments.all_come_back) {
            self.devices.iter_mut().for_each(|device| device.presence = Presence::Here);
            return;
        }
        let is_gone = |device: &Device| device.presence == Presence::Gone;
        if others_come_back && self.mode == TortureMode::Beyond && self.devices.iter().any(is_gone) {
            for device in &mut self.devices {
                device.presence = if is_gone(device) { Presence::Here } else { Presence::Gone };
            }
            return;
        }
        let victim = MemberIndex(pick.below(self.devices.len() as u64) as u16);
        match pick.below(8) {
            0 if self.may_lose(victim) => self.devices[victim.index()].presence = Presence::Gone,
            1 | 2 => self.devices.iter_mut().for_each(|device| device.presence = Presence::Here),
            _ => {}
        }
        if self.relics.device.is_some() {
            self.find_old_device(pick);
        }
        if self.relics.has_older {
            self.find_older(pick);
            self.take_older(pick);
        }
    }

    /// Starts the array. Returns whether redundancy is in doubt and how many records are to be replayed; nothing if the
    /// start was refused.
    pub(super) fn start_again(&mut self, pick: &mut Rng) -> Result<Option<Known>, Failure> {
        // A start knows nothing of writes that failed, and writes the state once more.
        for device in self.devices.iter_mut().filter(|device| device.presence == Presence::Unfit) {
            device.presence = Presence::Here;
        }
        self.hide_old_devices();
        let mut order: Vec<usize> = (0..self.devices.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, pick.below(last as u64 + 1) as usize);
        }
        self.start_with(&order)
    }

    /// Starts the array from its devices in this order.
    fn start_with(&mut self, order: &[usize]) -> Result<Option<Known>, Failure> {
        self.take_log_rot_back();
        self.end_outages();
        let nonce = self.next_start();
        let started = self.assemble(order).and_then(|assembly| {
            let known = (assembly.doubt.clone(), assembly.records.len());
            let records: Vec<_> = assembly.records.iter().map(|record| record.stripe).collect();
            let bare = assembly.records.iter().filter(|record| record.holds == RecordHolds::Checksums);
            let bare: Vec<_> = bare.map(|record| (record.stripe, record.runs[0])).collect();
            let present = assembly.present.clone();
            let vacant = vacant_roles(&assembly.state);
            let out_of_sync = assembly.out_of_sync.clone();
            let controller = Controller::start(&self.config, assembly, nonce)?;
            Ok((known, present, out_of_sync, (records, bare, vacant), controller))
        });
        match started {
            Ok((known, present, out_of_sync, (records, bare, vacant), controller)) => {
                for (device, candidate) in present.iter().enumerate() {
                    if candidate.is_some_and(|candidate| order[candidate] != device) {
                        let member = MemberIndex(device as u16);
                        return Err(self.failure(Violation::Misassembled { member }));
                    }
                }
                if let Some(&member) =
                    self.relics.older_in_place.iter().find(|member| present[member.index()].is_some())
                {
                    return Err(self.failure(Violation::OlderMemberUsed { member }));
                }
                self.resync = if known.0.is_some() { Resync::Runs } else { Resync::Not };
                self.controller = controller;
                self.mend_labels();
                self.note_unknown_tags();
                self.trust_suspects();
                self.note_doubts(&out_of_sync, &records);
                self.check_bare(&bare, &vacant).map_err(|violation| self.failure(violation))?;
                self.note_torn_rows(&bare);
                (self.media.start_errors, self.media.has_dropped) = (0, false);
                self.excluded.clear();
                self.excluded.extend(present.iter().map(Option::is_none));
                self.take_controller()?;
                let is_in_doubt = |stripe| {
                    out_of_sync.is_marked(out_of_sync.region_of(stripe)) || records.contains(&stripe)
                };
                let block_bytes = self.config.block_size.bytes() as usize;
                self.stripes()
                    .check_undoubted(block_bytes, is_in_doubt, &self.bad_blocks())
                    .map_err(|violation| self.failure(violation))?;
                Ok(Some(known))
            }
            Err(refusal) => {
                self.take_refusal(refusal)?;
                let here = |world: &Self| {
                    world.devices.iter().filter(|device| device.presence == Presence::Here).count()
                };
                let were_here = here(self);
                self.devices.iter_mut().for_each(|device| device.presence = Presence::Here);
                self.hide_old_devices();
                if here(self) == were_here {
                    self.is_refused = true;
                    return Ok(None);
                }
                self.start_with(order)
            }
        }
    }

    /// Checks that records of checksums are of stripes that have all their devices: the log is drained, and its tail kept, with each
    /// change of membership.
    fn check_bare(
        &self,
        bare: &[(StripeIndex, LogRun)],
        vacant: &[MemberIndex],
    ) -> Result<(), Box<Violation>> {
        let lacks = |stripe| {
            let stripes = self.stripes();
            stripes.units().any(|unit| vacant.contains(&self.layout.place(stripe, unit).member))
        };
        match bare.iter().find(|(stripe, _)| lacks(*stripe)) {
            Some(&(stripe, _)) => Err(Violation::BareWithoutDevice { stripe }.into()),
            None => Ok(()),
        }
    }

    fn assemble(&self, order: &[usize]) -> Result<Assembly, Refusal> {
        let found = self.found_metadata(order);
        let candidates: Vec<Option<&[u8]>> = found.iter().map(Option::as_deref).collect();
        let kept = self.memories.nvram_image();
        let mut options = StartOptions::default();
        match assemble(&candidates, kept, options) {
            // The absent devices were gone before anything was written without them.
            Err(AssembleError::NoQuorum { .. }) if self.mode == TortureMode::Bounded => {
                options.accept_minority = true;
                Ok(assemble(&candidates, kept, options)?)
            }
            other => Ok(other?),
        }
    }

    /// Puts a controller that has just been started to work.
    fn take_controller(&mut self) -> Result<(), Failure> {
        if self.config.cache.mirror {
            // It comes when what was restored is on the members.
            self.memories.set_peer(Peer::Due, &mut self.random);
            self.controller.handle_peer(self.now, PeerState::Gone);
        }
        self.look_at_states();
        self.take_discards();
        let own_bytes = self.controller.own_memory().len() as u64;
        self.claims.set_memory(BufferSpace::Own, own_bytes);
        self.pump()?;
        if self.battery != BatteryState::Good {
            self.controller.handle_battery(self.now, self.battery);
        }
        self.pump()
    }

    /// Notes that the array was not started, if there is reason for that.
    fn take_refusal(&mut self, refusal: Refusal) -> Result<(), Failure> {
        self.report.refused += 1;
        let any_gone = self.devices.iter().any(|device| device.presence == Presence::Gone);
        // One that came back may be another device at its place.
        let any_other = self.excluded.iter().chain(&self.unlisted).any(|is_so| *is_so);
        let any_away = any_gone || any_other || self.devices.iter().any(Device::may_be_unknown);
        let in_sync = self.proven.iter().filter(|is_proven| **is_proven).count();
        let is_degraded = any_away || in_sync < usize::from(self.config.members);
        let is_justified = match &refusal {
            Refusal::Assemble(AssembleError::DirtyDegraded { doubt, .. }) => {
                is_degraded && self.may_doubt(doubt)
            }
            _ => self.mode == TortureMode::Beyond && any_away,
        };
        if is_justified {
            return Ok(());
        }
        Err(self.failure(Violation::Refused { refusal }))
    }

    /// Whether the settings leave it open that redundancy is in doubt, or more went wrong than they are good for.
    fn may_doubt(&self, doubt: &Doubt) -> bool {
        self.config.resilience.metadata != MetadataPolicy::Log
            || self.mode == TortureMode::Beyond
            || (matches!(doubt, Doubt::NvramLog(_)) && self.may_lose_log())
    }

    /// True while the log may be in NVRAM whose battery has failed.
    fn may_lose_log(&self) -> bool {
        self.battery != BatteryState::Good && self.stamp.0 - self.battery_changed.0 < LOG_MOVES_STEPS
    }

    /// Whether the mode allows an end without a clean stop: where parity has a write hole, what can't be read then is lost.
    pub(super) fn may_crash(&self) -> bool {
        // A device that is gone comes back if the start needs it, unless the others know that it is missing.
        let stays_away = |device: usize| {
            let is_missing = self.states[device] == DeviceState::Missing && self.controller.is_state_kept();
            self.devices[device].presence == Presence::Gone && is_missing
        };
        let is_spoiled = |device: usize| !stays_away(device) && self.devices[device].data.is_any_spoiled();
        // What the devices call bad is not believed then, though a write that they have not heard of may have mended it.
        let is_any_lost = !self.bad.is_empty() || (0..self.devices.len()).any(is_spoiled);
        self.can_restart() && (self.mode == TortureMode::Beyond || !self.has_write_hole() || !is_any_lost)
    }

    /// Whether an end without a clean stop may leave parity in doubt.
    pub(super) fn has_write_hole(&self) -> bool {
        let is_logged = self.config.resilience.metadata == MetadataPolicy::Log && !self.may_lose_log();
        self.stripes().shape().parities > 0 && !is_logged
    }

    /// Whether this array can be started again after a power cut, as far as its settings promise.
    pub(super) fn can_restart(&self) -> bool {
        self.config.resilience.metadata != MetadataPolicy::None
    }
}
