//! One volume: its array controller's logic, the load on it, and its members.

use super::attribution::{Attribution, Tally};
use super::event::{Event, Life, Step};
use super::load::{HostIo, Load};
use super::members::{Member, MemberIos};
use super::plug::Plug;
use super::spec::{ControllerName, SimulatedVolume};
use super::stripe_threads::StripeVolume;
use crate::queue::EventQueue;
use raidlab_controller::{Controller, Counters, Keep, MemberCache, MemberIoId, Notice, Segment, WritePolicy};
use raidlab_format::{NVRAM_ENTRY_BYTES, NvramImage};
use raidlab_hardware::{ControllerModel, Drive, DriveCondition, DriveHistory, DriveModel, DriveOptions};
use raidlab_units::{BlockSize, ByteCount, NanoSpan, Nanos};
use raidlab_workload::Rng;
use std::collections::VecDeque;

/// Spindles are up to this much apart: many turns of any drive.
const SPINDLE_SPREAD: NanoSpan = NanoSpan::from_secs(1);

/// Whether the hosts are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// Its controller is gone and no other serves it yet. Requests wait at the hosts.
    Down,
    /// The other controller destages what the mirror held.
    Restoring,
}

/// Where the time of requests goes, or nothing: what is known when it is compiled costs a run that does not ask for it nothing.
#[derive(Debug)]
pub(super) struct Times<const FOLLOWED: bool>(Box<Attribution>);

impl<const FOLLOWED: bool> Times<FOLLOWED> {
    /// What follows it, if something does.
    #[inline]
    pub(super) fn get(&mut self) -> Option<&mut Attribution> {
        FOLLOWED.then_some(&mut *self.0)
    }

    /// What came of it.
    pub(super) fn tally(&self) -> &Tally {
        self.0.tally()
    }
}

/// Everything that belongs to one volume; `FOLLOWED` if it is followed where the time of its requests goes.
#[derive(Debug)]
pub(super) struct Volume<const FOLLOWED: bool = false> {
    pub(super) index: u16,
    pub(super) owner: ControllerName,
    pub(super) life: Life,
    pub(super) phase: Phase,
    pub(super) is_finished: bool,
    pub(super) block_size: BlockSize,
    /// Neither caching nor reading ahead is at work.
    pub(super) passes_through: bool,
    pub(super) write_policy: WritePolicy,
    pub(super) has_parity: bool,
    /// Where md's stripe threads change it.
    pub(super) stripes: Option<StripeVolume>,
    /// Members and spares; what stands behind them in [`Volume::members`] is the device beside them.
    devices: usize,
    /// What these have made and not sent.
    pub(super) plug: Plug,
    /// Requests on their way out of it.
    pub(super) unplugged: Vec<(MemberIoId, Nanos)>,
    /// What each request holds the lock for that all to md's RAID 10 share.
    pub(super) raid10_lock: NanoSpan,
    /// Where the bytes of a member I/O lie, while that is asked.
    pub(super) segments: Vec<Segment>,
    pub(super) controller: Controller,
    pub(super) load: Load,
    /// The host's I/O in each slot; slots serve as host tags.
    pub(super) host_ios: Vec<HostIo>,
    pub(super) members: Vec<Member>,
    pub(super) member_ios: MemberIos,
    /// Its first deadline slot: the members come first, then the driver, then the controller's timers.
    pub(super) first_slot: u32,
    /// When the other controller has the latest entry of the directory that was sent.
    pub(super) kept_at: Nanos,
    /// Length of the entries that are not sent yet.
    pub(super) unsent_kept: ByteCount,
    /// Host requests completed.
    pub(super) host_requests: u64,
    /// The other controller's copy of the directory; empty where nobody will start from it.
    peer_directory: Vec<u8>,
    /// What controllers before the present one counted.
    earlier: Counters,
    /// Member I/Os of the controller before.
    pub(super) abandoned: MemberIos,
    /// What an operator should know, where one is told.
    pub(super) notices: Option<VecDeque<Notice>>,
    /// Where the time of requests goes, where that is followed.
    pub(super) times: Times<FOLLOWED>,
}

impl<const FOLLOWED: bool> Volume<FOLLOWED> {
    /// Makes a volume of a controller and a load, with its index and its first deadline slot; its members are as `drive`, idle, and
    /// turn as `random` has them.
    pub(super) fn new(
        spec: &SimulatedVolume,
        (controller, load): (Controller, Load),
        (index, first_slot): (u16, u32),
        (model, drive): (&ControllerModel, &Drive),
        random: &mut Rng,
    ) -> Self {
        let (members, spares) =
            (usize::from(spec.config.members), usize::from(spec.config.resilience.spares));
        let count = members + spares;
        let spare = (spares > 0).then(|| Self::spare_drive(spec));
        let beside = spec.config.cache.rules.has_device_beside().then(|| Self::drive_beside(spec));
        let drives = core::iter::repeat_n(drive, members)
            .chain(spare.iter().flat_map(|spare| core::iter::repeat_n(spare, spares)))
            .chain(&beside);
        let member = |drive: &Drive| {
            let ahead = NanoSpan(random.below(SPINDLE_SPREAD.0));
            let (depth, bytes) = (model.member_queue_depth, model.member_queue_bytes);
            let mut member = Member::new(drive.clone(), ahead, depth, bytes);
            if FOLLOWED {
                member.follow_times();
            }
            member
        };
        let shape = spec.config.layout().map(|layout| layout.shape());
        let is_raid10 = shape.as_ref().is_ok_and(|shape| shape.copies > 1 && shape.data_strips > 1);
        let members: Vec<_> = drives.map(member).collect();
        Self {
            index,
            owner: spec.owner,
            life: Life::default(),
            phase: Phase::Serving,
            is_finished: false,
            block_size: spec.config.block_size,
            passes_through: spec.config.cache.is_passed_by(),
            write_policy: spec.config.cache.write_policy,
            has_parity: shape.as_ref().is_ok_and(|shape| shape.parities > 0),
            devices: count,
            stripes: shape.ok().filter(|shape| model.md.is_some() && shape.parities > 0).map(|shape| {
                StripeVolume {
                    data_strips: shape.data_strips.into(),
                    parities: shape.parities.into(),
                    has_write_log: spec.config.cache.rules.write_log.is_some(),
                }
            }),
            plug: Plug::new(members.len()),
            unplugged: Vec::new(),
            raid10_lock: model
                .md
                .as_ref()
                .filter(|_| is_raid10)
                .map_or(NanoSpan::ZERO, raidlab_hardware::MdModel::raid10_lock),
            segments: Vec::new(),
            host_ios: vec![HostIo::NONE; load.iodepth() as usize],
            controller,
            load,
            members,
            member_ios: MemberIos::default(),
            first_slot,
            kept_at: Nanos::ZERO,
            unsent_kept: ByteCount::ZERO,
            host_requests: 0,
            peer_directory: Vec::new(),
            earlier: Counters::default(),
            abandoned: MemberIos::default(),
            notices: None,
            times: Times(Box::new(Attribution::new())),
        }
    }

    /// An idle drive as the members of a volume over `spec` are.
    pub(super) fn idle_drive(spec: &SimulatedVolume) -> Drive {
        Self::idle(spec, &spec.drive)
    }

    fn idle(spec: &SimulatedVolume, drive: &DriveModel) -> Drive {
        let write_cache = Some(spec.config.member_cache == MemberCache::On);
        Drive::new(drive, DriveOptions { write_cache, ..DriveOptions::default() })
    }

    /// A spare has never been written: what is rebuilt onto it is written in sequence, and its flash has nothing to move.
    fn spare_drive(spec: &SimulatedVolume) -> Drive {
        let fresh = DriveCondition { history: DriveHistory::Fresh, fill_pct: 0 };
        let as_new = spec.drive.clone().in_condition(fresh);
        as_new.map_or_else(|_| Self::idle_drive(spec), |model| Self::idle(spec, &model))
    }

    fn drive_beside(spec: &SimulatedVolume) -> Drive {
        Self::idle(spec, spec.beside.as_ref().unwrap_or(&spec.drive))
    }

    /// The members and spares, without the device beside them.
    pub(super) fn devices(&self) -> &[Member] {
        &self.members[..self.devices]
    }

    /// Deadline slots that a volume over `spec`'s members needs.
    pub(super) fn slot_count(spec: &SimulatedVolume) -> u32 {
        let beside = u32::from(spec.config.cache.rules.has_device_beside());
        u32::from(spec.config.members + spec.config.resilience.spares) + beside + 1 + Controller::TIMERS
    }

    pub(super) fn driver_slot(&self) -> u32 {
        self.first_slot + self.members.len() as u32
    }

    #[inline]
    pub(super) fn event(&self, step: Step, id: u32) -> Event {
        Event { step, life: self.life, volume: self.index, id }
    }

    /// What its controllers counted, all together.
    pub(super) fn counters(&self) -> Counters {
        let mut counters = self.earlier;
        counters.merge(&self.controller.counters());
        counters
    }

    /// Lets the other controller keep its copy of the directory for a start.
    pub(super) fn keep_peer_directory(&mut self) {
        let entries = self.controller.memory_needs().directory_entries as usize;
        self.peer_directory = vec![0; entries * NVRAM_ENTRY_BYTES];
    }

    /// Stores an entry in the other controller's copy of the directory; it is yet to be sent.
    pub(super) fn keep_at_peer(&mut self, keep: &Keep) {
        self.unsent_kept += ByteCount(NVRAM_ENTRY_BYTES as u64);
        let start = keep.slot as usize * NVRAM_ENTRY_BYTES;
        if let Some(entry) = self.peer_directory.get_mut(start..start + NVRAM_ENTRY_BYTES) {
            entry.copy_from_slice(&keep.bytes());
        }
    }

    /// The controller is gone with all that it had under way. Returns how many requests of the hosts it had, and how many
    /// dirty cache blocks are lost with it: those that the other controller lacks.
    pub(super) fn lose_controller(&mut self, queue: &mut EventQueue<Event>) -> (u64, u64) {
        let is_mirrored = self.controller.config().cache.mirror && self.controller.is_mirroring();
        let lost = if is_mirrored { 0 } else { u64::from(self.controller.dirty_cache_blocks()) };
        let first_timer = self.driver_slot() + 1;
        (first_timer..first_timer + Controller::TIMERS).for_each(|timer| queue.set_deadline(timer, None));
        self.members.iter_mut().for_each(Member::drop_line);
        self.abandoned = core::mem::take(&mut self.member_ios);
        self.plug = Plug::new(self.members.len());
        self.life = Life(self.life.0 + 1);
        self.phase = Phase::Down;
        self.kept_at = Nanos::ZERO;
        self.earlier = self.counters();
        let in_flight = self.load.driver().map_or(0, |driver| driver.slots_in_flight().count() as u64);
        (in_flight, lost)
    }

    /// A step that was due for the controller before: all that is left of it is the room at the drive that it held.
    #[cold]
    pub(super) fn drop_step(&mut self, now: Nanos, event: Event) {
        if matches!(event.step, Step::MemberDataIn) {
            let member = self.abandoned.get(event.member_io()).member.index();
            self.members[member].free_room(now, self.abandoned.bytes(event.member_io()));
        }
    }

    /// Puts a new controller in place of the one that is gone, which begins with what the mirror holds, and lets it
    /// destage that. Returns how many cache blocks it restores.
    pub(super) fn take_controller(&mut self, now: Nanos, mut controller: Controller) -> u32 {
        controller.handle_peer(now, raidlab_controller::PeerState::Gone);
        let image = NvramImage { log: &[], directory: &self.peer_directory };
        controller.restore_nvram(image.entries()).expect("the directory is the same controller's as before");
        controller.handle_destage_all(now);
        let restored = controller.restored_pending();
        self.controller = controller;
        self.owner = self.owner.other();
        self.phase = Phase::Restoring;
        restored
    }
}
