//! The world itself: the controller, its memories and devices, the clock that is made up, and the steps of a run.

use super::absence::Absence;
use super::checkers::losses::Losses;
use super::checkers::protocol::Claims;
use super::checkers::records::Records;
use super::checkers::redundancy::fill;
use super::copies::Copying;
use super::flights::{FinishOrder, Flights};
use super::host::Hosts;
use super::media::Media;
use super::members::{AreaBytes, Device, Presence};
use super::memories::{Memories, Peer, garbage};
use super::moments::Moments;
use super::operator::Audit;
use super::plan::TortureMode;
use super::relics::Relics;
use super::report::TortureReport;
use super::sectors::TornBlocks;
use super::silent_corruption::Armed;
use super::stripes::{BadRange, Stripes};
use super::tags::TagMap;
use super::told::FirstCopy;
use super::trace::{Trace, TraceEvent};
use super::violation::{Failure, Violation};
use super::volume::{Stamp, VolumeHistory};
use raidlab_controller::{
    ArrayConfig, BatteryState, BufferSpace, ConfigError, Controller, DeviceState, HostOp, MetadataPolicy,
    NewArray, StartError, new_areas,
};
use raidlab_format::{AreaLayout, ArrayName, ArrayUuid, DeviceUuid, StartNonce, StartOptions, assemble};
use raidlab_raid::Layout;
use raidlab_units::{BlockCount, Lba, MemberIndex, Nanos};
use raidlab_workload::{Rng, derived_seed};
use std::collections::BTreeSet;

/// How far redundancy has been recomputed after a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resync {
    /// There is none, and the devices know so.
    Not,
    /// It goes on.
    Runs,
    /// It has ended, and some devices may not know yet.
    Through,
}

/// A controller over devices in memory, checked at every step.
#[derive(Debug)]
pub struct TortureWorld {
    pub(super) config: ArrayConfig,
    pub(super) controller: Controller,
    pub(super) layout: Box<dyn Layout>,
    pub(super) volume_blocks: BlockCount,
    pub(super) memories: Memories,
    pub(super) devices: Vec<Device>,
    /// What each device is to the controller, as it may be written down, when last looked at.
    pub(super) states: Vec<DeviceState>,
    /// Whether each device is in sync even if power fails now: the devices keep a state that says so.
    pub(super) proven: Vec<bool>,
    /// Blocks that the controller calls bad, or that the devices do until they know better.
    pub(super) bad: Vec<BadRange>,
    pub(super) flights: Flights,
    pub(super) claims: Claims,
    pub(super) hosts: Hosts,
    pub(super) timers: [Option<Nanos>; Controller::TIMERS as usize],
    pub(super) volume: VolumeHistory,
    /// What reads have told of copies in doubt.
    pub(super) told: Vec<FirstCopy>,
    pub(super) random: Rng,
    /// Decides which requests are handed in together, apart from all else.
    pub(super) batches: Rng,
    pub(super) order: FinishOrder,
    pub(super) battery: BatteryState,
    pub(super) battery_changed: Stamp,
    seed: u64,
    /// Starts of the array, the first among them.
    pub(super) starts: u64,
    pub(super) now: Nanos,
    pub(super) stamp: Stamp,
    pub(super) last_progress: Stamp,
    pub(super) losses: Losses,
    /// Devices that will lie about a write.
    pub(super) armed: Vec<Armed>,
    /// Blocks with unknown tags that nobody need restore; all, once redundancy was too little for a while.
    pub(super) left_unknown: Option<BTreeSet<(MemberIndex, u64)>>,
    /// Makes a range of a device zeros while the array is stopped.
    pub(super) zeroes_at_stop: Option<Rng>,
    /// Accesses that will fail, and have failed.
    pub(super) media: Media,
    /// Decides what of the second copies arrives, apart from all else.
    pub(super) tails: Rng,
    /// A power cut that waits for its moment.
    pub(super) moments: Moments,
    /// Share of requests that are for a whole stripe, in percent.
    pub(super) whole_stripes_pct: u8,
    pub(super) copying: Copying,
    pub(super) records: Records,
    /// What is being looked at of a write of metadata.
    pub(super) record_bytes: Vec<u8>,
    /// Devices take discards, and leave all as it is.
    pub(super) members_discard: bool,
    pub(super) relics: Relics,
    pub(super) absence: Absence,
    /// Blocks that power cuts have torn within.
    pub(super) torn: TornBlocks,
    pub(super) writes: u64,
    pub(super) mode: TortureMode,
    /// The array was stopped cleanly.
    pub(super) is_stopped: bool,
    /// The array could not be started again.
    pub(super) is_refused: bool,
    /// Devices that may be failed although they answer: the latest start found them too old to be used, or not at all, or
    /// they went and came back, or the operator failed them.
    pub(super) excluded: Vec<bool>,
    /// Devices that have come back, perhaps as others, of which the state on the devices does not know yet.
    pub(super) unlisted: Vec<bool>,
    /// Redundancy is being recomputed after a crash.
    pub(super) resync: Resync,
    /// The check or repair that runs.
    pub(super) audit: Audit,
    /// Blocks of which requests were told that they are lost, since the volume is read at the end.
    pub(super) told_lost: Vec<Lba>,
    pub(super) report: TortureReport,
    pub(super) trace: Trace,
    pub(super) digests: Vec<u32>,
}

impl TortureWorld {
    /// Builds the array with consistent members. `seed` picks the order in which actions finish, and garbage in
    /// memory that the controller has not written yet.
    ///
    /// Length: a line for each field.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration is no array.
    pub fn new(config: &ArrayConfig, seed: u64) -> Result<Self, ConfigError> {
        let (controller, metadata) = create(config, seed)?;
        let layout = config.layout()?;
        let mut random = Rng::new(seed);
        let needs = controller.memory_needs();
        let memories = Memories::new(&needs, config.cache.mirror, &mut random);
        let block_bytes = config.block_size.bytes();
        let shape = layout.shape();
        let mut claims =
            Claims::new(block_bytes, shape.copies > 1 || shape.parities > 0 || config.resilience.integrity);
        claims.set_memory(BufferSpace::Cache, needs.cache_bytes.0);
        claims.set_memory(BufferSpace::Staging, needs.staging_bytes.0);
        claims.set_memory(BufferSpace::NvramLog, needs.nvram_log_bytes.0);
        if config.cache.mirror {
            claims.set_memory(BufferSpace::PeerCache, needs.cache_bytes.0);
            claims.set_memory(BufferSpace::PeerNvramLog, needs.nvram_log_bytes.0);
        }
        claims.set_memory(BufferSpace::Own, controller.own_memory().len() as u64);
        let devices = new_devices(config, &*layout, metadata, &mut random);
        for device in &devices {
            claims.add_device(device.data.bytes().len() as u64, device.metadata.bytes().len() as u64);
        }
        let order = FinishOrder::draw(&mut random, config.members);
        Ok(Self {
            volume: VolumeHistory::new(controller.volume_blocks()),
            config: config.clone(),
            told: Vec::new(),
            volume_blocks: controller.volume_blocks(),
            states: controller.kept_device_states().collect(),
            proven: controller.kept_device_states().map(is_in_sync).collect(),
            bad: Vec::new(),
            controller,
            layout,
            memories,
            devices,
            flights: Flights::default(),
            claims,
            hosts: Hosts::default(),
            timers: [None; Controller::TIMERS as usize],
            random,
            batches: Rng::new(derived_seed(seed, 6)),
            order,
            battery: BatteryState::Good,
            battery_changed: Stamp(0),
            seed,
            starts: 1,
            now: Nanos::ZERO,
            stamp: Stamp(1),
            last_progress: Stamp(1),
            losses: Losses::default(),
            armed: Vec::new(),
            left_unknown: Some(BTreeSet::new()),
            zeroes_at_stop: None,
            media: Media::default(),
            torn: TornBlocks::default(),
            moments: Moments::default(),
            whole_stripes_pct: 0,
            records: Records::default(),
            record_bytes: Vec::new(),
            members_discard: false,
            copying: Copying { pct: 0, pick: Rng::new(derived_seed(seed, 20)) },
            relics: Relics::default(),
            absence: Absence::default(),
            tails: Rng::new(derived_seed(seed, 7)),
            writes: 0,
            mode: TortureMode::Bounded,
            is_stopped: false,
            is_refused: false,
            excluded: vec![false; usize::from(config.members + config.resilience.spares)],
            unlisted: vec![false; usize::from(config.members + config.resilience.spares)],
            resync: Resync::Not,
            audit: Audit::default(),
            told_lost: Vec::new(),
            report: TortureReport::default(),
            trace: Trace::new(seed),
            digests: Vec::new(),
        })
    }

    /// The controller, for its getters.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Data area of a member, tags and all, as a read would find it now.
    pub fn member_bytes(&self, member: MemberIndex) -> &[u8] {
        self.devices[usize::from(member.0)].data.bytes()
    }

    /// Requests that have not been answered.
    pub(super) fn waiting_count(&self) -> usize {
        self.hosts.waiting_count()
    }

    /// Finishes one action or fires one timer. Returns false if there is nothing left to happen.
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn step(&mut self) -> Result<bool, Failure> {
        self.pump()?;
        if self.moments.is_sprung {
            return Ok(true);
        }
        self.now = Nanos(self.now.0 + self.random.below(50_000));
        self.check_progress()?;
        if self.absence.hung.is_some() {
            self.end_hang()?;
        }
        self.land_late();
        if self.memories.peer_place() == Peer::Due && self.may_peer_come() {
            self.bring_peer()?;
        }
        if self.moments.is_sprung {
            return Ok(true);
        }
        let due = self.next_timer().filter(|(_, at)| *at <= self.now);
        if let Some((timer, at)) = due.filter(|_| self.flights.is_empty() || self.random.chance_pct(50)) {
            return self.fire(timer, at).map(|()| true);
        }
        if !self.flights.is_empty() {
            return self.finish_one().map(|()| true);
        }
        if let Some((timer, at)) = self.next_timer() {
            return self.fire(timer, at).map(|()| true);
        }
        if self.waiting_count() > 0 { Err(self.stalled()) } else { Ok(false) }
    }

    /// Steps until the host has all its answers.
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn await_host(&mut self) -> Result<(), Failure> {
        while self.waiting_count() > 0 {
            self.step()?;
        }
        Ok(())
    }

    /// Flushes, lets everything finish, reads the whole volume back through the controller, and checks every strip
    /// on every member left. Counts the stripes that could not be checked because they failed.
    ///
    /// # Errors
    /// [`Failure`] if anything is wrong.
    pub fn verify(&mut self) -> Result<(), Failure> {
        self.await_host()?;
        self.submit(HostOp::Flush, Lba(0), BlockCount(0))?;
        self.await_host()?;
        self.await_idle()?;
        self.recover_all()?;
        self.check_resynced()?;
        self.check_unknown_tags().map_err(|violation| self.failure(violation))?;
        let volume_blocks = self.volume_blocks.0;
        let stripe_blocks = self.layout.shape().stripe_blocks().0;
        self.told_lost.clear();
        for lba in (0..volume_blocks).step_by(stripe_blocks as usize) {
            self.submit(HostOp::Read, Lba(lba), BlockCount(stripe_blocks.min(volume_blocks - lba)))?;
            self.await_host()?;
        }
        self.await_idle()?;
        self.check_losses_are_marked()?;
        self.find_lies()?;
        self.look_at_states();
        self.trust_suspects();
        self.forget_healed(None);
        self.check_membership()?;
        self.check_tags().map_err(|violation| self.failure(violation))?;
        self.check_bad_blocks().map_err(|violation| self.failure(violation))?;
        let block_bytes = self.config.block_size.bytes() as usize;
        let bad = self.bad_blocks();
        let is_waiting = |stripe| self.awaits_resync(stripe, self.stamp);
        let checked = self.stripes().check_redundancy(block_bytes, &self.volume, is_waiting, &bad);
        self.report.stripes_unchecked += checked.map_err(|violation| self.failure(violation))?;
        Ok(())
    }

    /// Where the volume's strips are. [`TortureWorld::look_at_states`] comes first, where states may have changed.
    pub(super) fn stripes(&self) -> Stripes<'_> {
        let Self { layout, devices, states, proven, bad, .. } = self;
        Stripes { layout: &**layout, devices, states, proven, bad }
    }

    /// Whether devices may still say that redundancy is being recomputed.
    pub(super) fn is_resyncing(&self) -> bool {
        self.resync != Resync::Not
    }

    /// Takes note of what the devices are to the controller.
    pub(super) fn look_at_states(&mut self) {
        let is_kept = self.controller.is_state_kept();
        for (device, state) in self.controller.kept_device_states().enumerate() {
            let was_in_sync = is_in_sync(self.states[device]);
            let is_old = self.relics.is_old(MemberIndex(device as u16));
            self.proven[device] =
                is_in_sync(state) && !is_old && (is_kept || (was_in_sync && self.proven[device]));
            if state != self.states[device] && !was_in_sync && self.mode == TortureMode::Beyond {
                self.losses.note_change(self.stamp);
            }
            self.states[device] = state;
            self.unlisted[device] &=
                !is_kept || matches!(state, DeviceState::Missing | DeviceState::Lost { .. });
        }
        if is_kept {
            self.note_no_longer_bad();
            self.bad.clear();
            if self.resync == Resync::Through {
                self.resync = Resync::Not;
            }
        }
        for range in self.controller.bad_blocks() {
            if !self.bad.contains(&range) {
                self.bad.push(range);
            }
        }
        self.look_at_doubts();
        self.look_at_told();
    }

    pub(super) fn tick(&mut self, event: TraceEvent) {
        self.stamp.0 += 1;
        self.note(event);
        self.look_at_told();
    }

    pub(super) fn note(&mut self, event: TraceEvent) {
        self.trace.note(self.stamp.0, event);
    }

    /// A name for the next start.
    pub(super) fn next_start(&mut self) -> StartNonce {
        self.starts += 1;
        start_nonce(self.seed, self.starts)
    }

    pub(super) fn failure(&self, violation: impl Into<Box<Violation>>) -> Failure {
        Failure {
            seed: self.seed,
            ops: self.report.host_ops,
            step: self.stamp.0,
            violation: violation.into(),
            trace: self.trace.latest(),
        }
    }
}

pub(super) const fn is_in_sync(state: DeviceState) -> bool {
    matches!(state, DeviceState::InSync { .. })
}

/// What the start of that number is called.
pub(super) fn start_nonce(seed: u64, start: u64) -> StartNonce {
    StartNonce::new(derived_seed(derived_seed(seed, 10), start))
}

/// A new array: its controller, and the metadata areas of its devices, empty where it keeps none.
fn create(config: &ArrayConfig, seed: u64) -> Result<(Controller, Vec<Vec<u8>>), ConfigError> {
    let devices = config.members + config.resilience.spares;
    if config.resilience.metadata == MetadataPolicy::None {
        return Ok((Controller::new(config)?, vec![Vec::new(); usize::from(devices)]));
    }
    let uuid = |part: u64| {
        let half = |index| derived_seed(derived_seed(seed, part), index).to_le_bytes();
        core::array::from_fn(|at| half(at as u64 / 8)[at % 8])
    };
    let device_uuid = |device| Some(DeviceUuid(uuid(1_000 + u64::from(device))));
    let uuids: Vec<_> = (0..devices).map(device_uuid).collect();
    let (array_uuid, name) = (ArrayUuid(uuid(100)), ArrayName::default());
    let new = NewArray { array_uuid, name, device_uuids: &uuids, needs_resync: false };
    let metadata = new_areas(config, &new)?;
    let areas: Vec<Option<&[u8]>> = metadata.iter().map(|area| Some(&area[..])).collect();
    let assembly = assemble(&areas, None, StartOptions::default()).expect("a new array is complete");
    match Controller::start(config, assembly, start_nonce(seed, 0)) {
        Ok(controller) => Ok((controller, metadata)),
        Err(StartError::Config(error)) => Err(error),
        Err(error) => unreachable!("a new array starts: {error}"),
    }
}

/// Members that hold a volume of write 0 throughout, and spares that hold garbage.
fn new_devices(
    config: &ArrayConfig,
    layout: &dyn Layout,
    metadata: Vec<Vec<u8>>,
    random: &mut Rng,
) -> Vec<Device> {
    let mut areas: Vec<_> = metadata.iter().map(|_| garbage(config.member_size.0, random)).collect();
    let tags = TagMap::new(config);
    fill(layout, config.block_size.bytes() as usize, tags, &mut areas);
    let area = |bytes| AreaBytes::new(bytes, config.block_size, config.member_cache);
    let device = |(data, metadata): (Vec<u8>, Vec<u8>)| Device {
        data: area(data).with_tags(tags),
        tail_before: Vec::new(),
        tail: metadata[..metadata.len().min(AreaLayout::TAIL_BYTES as usize)].to_vec(),
        metadata: area(metadata),
        presence: Presence::Here,
        rots: 0,
        log_rot: None,
    };
    areas.into_iter().zip(metadata).map(device).collect()
}
