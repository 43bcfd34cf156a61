//! The world itself: issues the controller's actions, finishes them in the order of the seed, checks what comes out.

use super::actions::{FinishOrder, InFlight};
use super::host::HostInFlight;
use super::memory::Memories;
use super::redundancy::Stripes;
use super::violation::{Failure, LossNotice, TraceEvent, Violation};
use super::volume::{Stamp, VolumeHistory};
use raidlab_controller::{ArrayConfig, BatteryState, ConfigError, Controller, HostOp, HostRequest, HostTag};
use raidlab_raid::Layout;
use raidlab_units::{BlockCount, Lba, MemberIndex, Nanos, StripeIndex};
use raidlab_workload::Rng;
use std::collections::{BTreeSet, VecDeque};

/// Latest events kept for the trace of a failure.
const TRACE_EVENTS: usize = 200;

/// Events without an answer to the host after which the controller counts as stalled.
const PATIENCE_STEPS: u64 = 50_000;

/// One member: its data area, and whether it is gone.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) bytes: Vec<u8>,
    /// What would be left after a power loss: `bytes` without the writes in the member's own volatile cache.
    pub(super) durable: Vec<u8>,
    /// Blocks that can't be read until they are written.
    pub(super) bad_blocks: BTreeSet<u64>,
    pub(super) lost: Option<LossNotice>,
}

impl Member {
    fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, durable: Vec::new(), bad_blocks: BTreeSet::new(), lost: None }
    }

    pub(super) const fn is_lost(&self) -> bool {
        self.lost.is_some()
    }
}

/// A controller over members in memory, checked at every step.
#[derive(Debug)]
pub struct ByteWorld {
    pub(super) config: ArrayConfig,
    pub(super) controller: Controller,
    pub(super) layout: Box<dyn Layout>,
    pub(super) memories: Memories,
    pub(super) members: Vec<Member>,
    pub(super) in_flight: Vec<InFlight>,
    pub(super) hosts: Vec<Option<HostInFlight>>,
    pub(super) timers: Vec<Option<Nanos>>,
    pub(super) volume: VolumeHistory,
    pub(super) random: Rng,
    pub(super) order: FinishOrder,
    pub(super) battery: BatteryState,
    pub(super) battery_changed: Stamp,
    pub(super) seed: u64,
    pub(super) now: Nanos,
    pub(super) stamp: Stamp,
    pub(super) last_progress: Stamp,
    pub(super) writes: u64,
    pub(super) failed_requests: u64,
    pub(super) trace: VecDeque<(u64, TraceEvent)>,
}

impl ByteWorld {
    /// Builds the array with consistent members. `seed` picks the order in which actions finish, and garbage in
    /// memory that the controller has not written yet.
    ///
    /// # Errors
    /// [`ConfigError`] if the configuration is no array.
    pub fn new(config: &ArrayConfig, seed: u64) -> Result<Self, ConfigError> {
        let controller = Controller::new(config)?;
        let layout = config.layout()?;
        let mut random = Rng::new(seed);
        let needs = controller.memory_needs();
        let mut garbage = |bytes: u64| (0..bytes).map(|_| random.next_u64() as u8).collect::<Vec<_>>();
        let memories = Memories {
            cache: garbage(needs.cache_bytes.0),
            staging: garbage(needs.staging_bytes.0),
            host: Vec::new(),
        };
        let member = |_| Member::new(garbage(config.member_size.0));
        let mut members: Vec<_> = (0..config.members).map(member).collect();
        let block_bytes = config.block_size.bytes() as usize;
        Stripes { layout: &*layout, block_bytes }.fill(&mut members);
        for member in &mut members {
            member.durable.clone_from(&member.bytes);
        }
        let order = FinishOrder::draw(&mut random, config.members);
        Ok(Self {
            volume: VolumeHistory::new(controller.volume_blocks()),
            config: config.clone(),
            controller,
            layout,
            memories,
            members,
            in_flight: Vec::new(),
            hosts: Vec::new(),
            timers: Vec::new(),
            random,
            order,
            battery: BatteryState::Good,
            battery_changed: Stamp(0),
            seed,
            now: Nanos::ZERO,
            stamp: Stamp(1),
            last_progress: Stamp(1),
            writes: 0,
            failed_requests: 0,
            trace: VecDeque::with_capacity(TRACE_EVENTS),
        })
    }

    /// The controller, for its getters.
    pub const fn controller(&self) -> &Controller {
        &self.controller
    }

    /// What a member holds now.
    pub fn member_bytes(&self, member: MemberIndex) -> &[u8] {
        &self.members[usize::from(member.0)].bytes
    }

    /// Host requests without an answer yet.
    pub fn waiting_count(&self) -> usize {
        self.hosts.iter().flatten().count()
    }

    /// Host requests that failed, all of them with good reason.
    pub const fn failed_requests(&self) -> u64 {
        self.failed_requests
    }

    /// Gives the controller a request. A write carries a pattern that names it; a range outside the volume is the
    /// caller's mistake (asserted).
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn submit(&mut self, op: HostOp, lba: Lba, blocks: BlockCount) -> Result<HostTag, Failure> {
        assert!(lba.0 + blocks.0 <= self.controller.volume_blocks().0, "the range must be in the volume");
        let tag = self.free_tag();
        let request = HostRequest { tag, op, lba, blocks };
        self.tick(TraceEvent::Request(request));
        let write = self.begin_host(&request);
        self.hosts[tag.0 as usize] = Some(HostInFlight { request, started: self.stamp, write });
        self.controller.handle_host_request(self.now, request);
        self.pump()?;
        Ok(tag)
    }

    /// Finishes one action or fires one timer. Returns false if there is nothing left to happen.
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn step(&mut self) -> Result<bool, Failure> {
        self.now = Nanos(self.now.0 + self.random.below(50_000));
        if self.waiting_count() > 0 && self.stamp.0 - self.last_progress.0 > PATIENCE_STEPS {
            return Err(self.stalled());
        }
        let due = self.next_timer().filter(|(_, at)| *at <= self.now);
        if let Some((timer, at)) = due.filter(|_| self.in_flight.is_empty() || self.random_bool()) {
            return self.fire(timer, at).map(|()| true);
        }
        if !self.in_flight.is_empty() {
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

    /// Turns the battery bad, or good again.
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn change_battery(&mut self) -> Result<(), Failure> {
        self.battery = match self.battery {
            BatteryState::Good => BatteryState::Failed,
            BatteryState::Charging | BatteryState::Learning | BatteryState::Failed => BatteryState::Good,
        };
        self.tick(TraceEvent::Battery(self.battery));
        self.battery_changed = self.stamp;
        self.controller.handle_battery(self.now, self.battery);
        self.pump()
    }

    /// Takes a member away: its bytes turn to garbage, I/O in flight to it and all later I/O fails.
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn lose_member(&mut self, member: MemberIndex, notice: LossNotice) -> Result<(), Failure> {
        self.tick(TraceEvent::MemberLost(member, notice));
        let lost = &mut self.members[usize::from(member.0)];
        lost.lost = Some(notice);
        for byte in &mut lost.bytes {
            *byte = self.random.next_u64() as u8;
        }
        if notice == LossNotice::Told {
            self.controller.handle_member_loss(self.now, member);
        }
        self.pump()
    }

    /// Makes one random block of a random member unreadable, if the level survives that and the loss of `losses` more
    /// members.
    pub fn spoil_block(&mut self, losses: usize) {
        let stripe = StripeIndex(self.random.below(self.layout.stripe_count().0));
        let units = self.stripes().units();
        let unit = units[self.random.below(units.len() as u64) as usize];
        if !self.stripes().survives_bad_block(&self.members, stripe, unit, losses) {
            return;
        }
        let place = self.layout.place(stripe, unit);
        let block = place.start.0 + self.random.below(self.layout.shape().strip_blocks.0);
        self.tick(TraceEvent::BlockSpoiled(place.member, block));
        self.members[usize::from(place.member.0)].bad_blocks.insert(block);
    }

    /// Flushes, lets everything finish, reads the whole volume back through the controller, and checks every strip
    /// on every member left. Returns the number of stripes that could not be checked because they failed.
    ///
    /// # Errors
    /// [`Failure`] if anything is wrong.
    pub fn verify(&mut self) -> Result<u64, Failure> {
        self.await_host()?;
        self.submit(HostOp::Flush, Lba(0), BlockCount(0))?;
        self.await_host()?;
        self.await_idle()?;
        let volume_blocks = self.controller.volume_blocks().0;
        let stripe_blocks = self.layout.shape().stripe_blocks().0;
        for lba in (0..volume_blocks).step_by(stripe_blocks as usize) {
            self.submit(HostOp::Read, Lba(lba), BlockCount(stripe_blocks.min(volume_blocks - lba)))?;
            self.await_host()?;
        }
        self.await_idle()?;
        self.stripes().check(&self.members, &self.volume).map_err(|violation| self.failure(violation))
    }

    fn await_idle(&mut self) -> Result<(), Failure> {
        let start = self.stamp.0;
        while !self.controller.is_idle() {
            if !self.step()? || self.stamp.0 - start > PATIENCE_STEPS {
                return Err(self.failure(Violation::NeverIdle));
            }
        }
        Ok(())
    }

    pub(super) fn stripes(&self) -> Stripes<'_> {
        Stripes { layout: &*self.layout, block_bytes: self.config.block_size.bytes() as usize }
    }

    pub(super) const fn random_mut(&mut self) -> &mut Rng {
        &mut self.random
    }

    pub(super) fn random_bool(&mut self) -> bool {
        self.random.chance_pct(50)
    }

    pub(super) fn tick(&mut self, event: TraceEvent) {
        self.stamp.0 += 1;
        self.note(event);
    }

    pub(super) fn note(&mut self, event: TraceEvent) {
        if self.trace.len() == TRACE_EVENTS {
            self.trace.pop_front();
        }
        self.trace.push_back((self.stamp.0, event));
    }

    pub(super) fn stalled(&self) -> Failure {
        self.failure(Violation::Stalled { waiting: self.waiting_count(), in_flight: self.in_flight.len() })
    }

    pub(super) fn failure(&self, violation: impl Into<Box<Violation>>) -> Failure {
        Failure {
            seed: self.seed,
            step: self.stamp.0,
            violation: violation.into(),
            trace: self.trace.iter().copied().collect(),
        }
    }
}
