//! Power cuts and failovers at chosen moments, between two actions that the controller hands out.
//!
//! | moment | power is cut |
//! |---|---|
//! | any action | after one of the next |
//! | an answer, or that to a flush | just when the host has it |
//! | an answer after a loss | the same, soon after a member was lost, which may be back then |
//! | an entry of NVRAM | just when it is stored |
//! | rebuild | while a device is rebuilt |
//! | replay | soon after another cut, while the array starts |
//! | failover | soon after the second controller took over |
//! | return of the lost | beyond the bounds only: after more devices went than the level survives; all are back then |
//!
//! Plans with rare moments have these, too:
//!
//! | rare moment | power is cut |
//! |---|---|
//! | a state on its way | while the devices do not know all there is to know; the same soon after a clean start, or a loss |
//! | a state that was kept | soon after they know it |
//! | an answer after a loss | to a flush or a write that was under way when a member was lost, which is back then |
//! | an answer after a battery failure | the same, when the battery failed |
//! | starts in a row | while the array starts, once or several times one after the other |
//! | an answer of an array that waits | beyond the bounds only: soon after more devices went than the level survives; all are back |
//!
//! Two in three of these cuts leave nothing of the metadata that was on its way, or in a device's cache, on any device, and devices
//! that are gone have lost all that was in their caches. In most of them writes of the state take longer than all else.
//!
//! Plans with stories have them end in such a cut, see `stories.rs`.
//!
//! What the controller would have handed out next is gone with it. The cut waits until the mode allows it (`may_crash`), and comes only
//! under load: a clean stop, or what a check at rest asks for, is left alone.
//!
//! *Failover after a change of peer*: the second controller goes and comes back with blank memory, and takes over as soon as it
//! may: when all that the next start would need has been mirrored again.

use super::faults::Fault;
use super::members::Presence;
use super::memories::Peer;
use super::plan::TortureMode;
use super::violation::Failure;
use super::world::TortureWorld;
use raidlab_controller::{
    Action, BatteryState, CacheMemory, HostCompletion, HostOp, PeerState, Scan, WritePolicy,
};
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, Lba, MemberIndex};
use raidlab_workload::Rng;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Action,
    Answer,
    FlushAnswer,
    Keep,
    Rebuild,
    Start,
    State,
    StateKept,
}

/// A power cut that waits for its moment.
#[derive(Clone, Debug)]
pub(super) struct Trap {
    pub(super) moment: Moment,
    /// Such moments to pass over.
    pub(super) left: u64,
    pub(super) pick: Rng,
    /// All devices that are gone are back then.
    pub(super) brings_back: bool,
    /// Nothing of the metadata that was on its way arrives anywhere, and devices that are gone forget their caches.
    pub(super) withholds: bool,
    /// Starts after it that are cut, too.
    pub(super) starts: u64,
}

/// What waits for its moment, and whether that has come.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a thing of its own")]
pub(super) struct Moments {
    pub(super) trap: Option<Trap>,
    /// The load goes on, so that power may be cut when the moment comes.
    pub(super) may_spring: bool,
    /// It has come: nothing more is handed out.
    pub(super) is_sprung: bool,
    /// All devices are there after the next power cut.
    pub(super) all_come_back: bool,
    /// Beyond the bounds: the devices that are gone are there after the next power cut, and the others are not.
    pub(super) others_come_back: bool,
    /// What the latest answer was to.
    pub(super) answered: Option<HostOp>,
    /// The second controller takes over as soon as it may.
    pub(super) fails_over: Option<Rng>,
    /// Traps may be set for rare moments.
    pub(super) has_rare: bool,
    /// Traps may be set at the end of a story.
    pub(super) has_stories: bool,
    /// Stories may have plots of doubt (`doubts.rs`).
    pub(super) has_doubts: bool,
    /// Metadata that is not durable when power is cut is lost on all devices, as is data on those that are gone.
    pub(super) withholds: bool,
    /// The devices did not know all there is to know when an action was last looked at.
    was_pending: bool,
}

impl TortureWorld {
    /// Sets a power cut for a moment to come.
    pub(super) fn set_trap(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        if self.moments.has_stories && pick.chance_pct(60) {
            return self.tell_story(pick);
        }
        if self.moments.has_rare && pick.chance_pct(60) {
            return self.set_rare_trap(pick);
        }
        let mut brings_back = false;
        let (moment, count) = match pick.below(10) {
            0 | 1 => (Moment::Action, 40),
            2 => (Moment::Answer, 8),
            3 => (Moment::FlushAnswer, 2),
            4 => {
                brings_back = pick.chance_pct(70);
                self.lose_one(pick)?;
                (super::arrays::pick(pick, &[Moment::Answer, Moment::FlushAnswer, Moment::Action]), 4)
            }
            5 => (Moment::Keep, 10),
            6 => (Moment::Rebuild, 200),
            7 => {
                self.power_cut(pick)?;
                (Moment::Start, 40)
            }
            8 => {
                if self.may_fail_over() {
                    self.fail_over(pick)?;
                }
                (Moment::Start, 40)
            }
            _ => {
                brings_back = self.mode == TortureMode::Beyond;
                if brings_back {
                    self.lose_too_many(pick)?;
                }
                (Moment::Action, 200)
            }
        };
        let (left, pick) = (pick.below(count), Rng::new(pick.next_u64()));
        self.moments.trap = Some(Trap { moment, left, pick, brings_back, withholds: false, starts: 0 });
        Ok(())
    }

    /// Sets a power cut for a rare moment to come.
    fn set_rare_trap(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        let (mut brings_back, mut starts) = (pick.chance_pct(50), 0);
        if pick.chance_pct(60) {
            self.order = self.slow_state();
        }
        // A battery matters to some arrays, and to those most.
        let keeps_dirty = self.config.cache.memory == CacheMemory::BatteryBacked
            && self.config.cache.write_policy != WritePolicy::WriteThrough;
        let kind = if keeps_dirty && pick.chance_pct(40) { 5 } else { pick.below(8) };
        let (moment, count) = match kind {
            0 => (Moment::State, 40),
            1 => (Moment::StateKept, 6),
            2 => {
                self.stop_and_start(pick)?;
                (Moment::State, 40)
            }
            3 | 4 => {
                let lba = self.hand_in_some(pick)?;
                self.lose_holder(lba)?;
                brings_back = pick.chance_pct(80);
                (super::arrays::pick(pick, &[Moment::Answer, Moment::FlushAnswer, Moment::State]), 2)
            }
            5 => {
                self.hand_in_some(pick)?;
                self.fail_battery()?;
                (super::arrays::pick(pick, &[Moment::Answer, Moment::FlushAnswer]), 2)
            }
            6 => {
                starts = pick.below(3);
                self.power_cut(pick)?;
                (Moment::Start, 60)
            }
            _ if self.mode == TortureMode::Beyond => {
                brings_back = true;
                self.hand_in_some(pick)?;
                self.lose_too_many(pick)?;
                (super::arrays::pick(pick, &[Moment::Answer, Moment::Action]), 20)
            }
            _ => (Moment::StateKept, 2),
        };
        let (left, withholds) = (pick.below(count), pick.chance_pct(67));
        let pick = Rng::new(pick.next_u64());
        self.moments.trap = Some(Trap { moment, left, pick, brings_back, withholds, starts });
        Ok(())
    }

    /// Has a few writes and a flush under way. Returns what is written last.
    fn hand_in_some(&mut self, pick: &mut Rng) -> Result<Lba, Failure> {
        let mut lba = Lba(0);
        for _ in 0..=pick.below(3) {
            lba = Lba(pick.below(self.volume_blocks.0));
            // Long ones have to wait for room in the cache.
            let blocks = super::arrays::pick(pick, &[1, 2, 8, 64]).min(self.volume_blocks.0 - lba.0);
            self.hand_in(HostOp::Write { fua: pick.chance_pct(30) }, lba, BlockCount(blocks));
        }
        self.pump()?;
        for _ in 0..super::arrays::pick(pick, &[0, 4, 30]) {
            self.step()?;
        }
        self.hand_in(HostOp::Flush, Lba(0), BlockCount(0));
        self.pump()?;
        for _ in 0..pick.below(4) {
            self.step()?;
        }
        Ok(lba)
    }

    /// Takes away the device that holds a block, or its first copy, if it may be lost.
    pub(super) fn lose_holder(&mut self, lba: Lba) -> Result<(), Failure> {
        self.look_at_states();
        let (stripe, strip, _) = self.layout.locate(lba);
        let stripes = self.stripes();
        let is_its = |unit: &StripUnit| matches!(unit, StripUnit::Data { strip: of, .. } if *of == strip);
        let unit = stripes.units().find(is_its);
        let holder = unit.and_then(|unit| stripes.fit_holder(self.layout.place(stripe, unit)));
        match holder.map(|(member, _)| member).filter(|member| self.may_lose(*member)) {
            Some(member) => self.lose(member),
            None => Ok(()),
        }
    }

    /// Lets a good battery fail.
    fn fail_battery(&mut self) -> Result<(), Failure> {
        if self.battery == BatteryState::Good { self.set_battery(BatteryState::Failed) } else { Ok(()) }
    }

    /// Takes away a device that may be lost.
    fn lose_one(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        if let Some(victim) = self.pick_victim(pick) {
            self.lose(MemberIndex(victim as u16))?;
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, member: MemberIndex) -> Result<(), Failure> {
        self.devices[member.index()].presence = Presence::Gone;
        self.controller.handle_member_loss(self.now, member);
        self.pump()
    }

    /// Takes devices away until the array waits for one.
    fn lose_too_many(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        for _ in 0..2 * self.devices.len() {
            self.look_at_states();
            if self.has_lost() {
                break;
            }
            self.lose_one(pick)?;
        }
        Ok(())
    }

    /// Looks whether an action that was just handed out is what a power cut waits for.
    pub(super) fn look_at_action(&mut self, action: &Action) {
        let is_pending = !self.controller.is_state_kept();
        let was_pending = core::mem::replace(&mut self.moments.was_pending, is_pending);
        let Some(trap) = &self.moments.trap else { return };
        let is_it = match (trap.moment, action) {
            (Moment::Action, _)
            | (Moment::Answer, Action::Complete(HostCompletion { result: Ok(()), .. }))
            | (Moment::Keep, Action::Keep(_)) => true,
            (Moment::FlushAnswer, Action::Complete(completion)) => {
                completion.result.is_ok() && self.moments.answered == Some(HostOp::Flush)
            }
            (Moment::Rebuild, _) => {
                let rebuilds =
                    |it: &raidlab_controller::ScanProgress| matches!(it.scan, Scan::Rebuild { .. });
                self.controller.scan_progress().as_ref().is_some_and(rebuilds)
            }
            (Moment::Start, _) => !self.controller.is_serving(),
            (Moment::State, _) => is_pending,
            (Moment::StateKept, _) => was_pending && !is_pending,
            _ => false,
        };
        if !is_it {
            return;
        }
        if let Some(trap) = self.moments.trap.as_mut().filter(|trap| trap.left > 0) {
            trap.left -= 1;
            // What is counted are actions from then on.
            if trap.moment == Moment::StateKept {
                trap.moment = Moment::Action;
            }
            return;
        }
        self.look_at_states();
        self.moments.is_sprung = self.may_crash();
    }

    /// Cuts power, as its moment has come.
    pub(super) fn cut_at_moment(&mut self) -> Result<(), Failure> {
        self.moments.is_sprung = false;
        let Some(Trap { mut pick, brings_back, withholds, starts, .. }) = self.moments.trap.take() else {
            return Ok(());
        };
        self.report.faults[Fault::CutAtMoment as usize] += 1;
        self.moments.all_come_back = brings_back;
        self.moments.withholds = withholds;
        self.power_cut(&mut pick)?;
        if starts > 0 {
            let left = pick.below(60);
            let (moment, starts) = (Moment::Start, starts - 1);
            self.moments.trap = Some(Trap { moment, left, pick, brings_back: false, withholds, starts });
        }
        Ok(())
    }

    /// Lets the second controller go and come back, to take over as soon as it may.
    pub(super) fn renew_peer(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        self.moments.fails_over = Some(Rng::new(pick.next_u64()));
        if self.memories.peer_place() == Peer::Here {
            self.battery_changed = self.stamp;
            self.controller.handle_peer(self.now, PeerState::Gone);
        }
        self.memories.set_peer(Peer::Due, pick);
        self.pump()
    }

    /// Lets the second controller take over that was to, if it may now.
    pub(super) fn fail_over_if_due(&mut self) -> Result<(), Failure> {
        if self.is_refused || self.moments.fails_over.is_none() || !self.controller.is_mirroring() {
            return Ok(());
        }
        self.look_at_states();
        if !self.may_fail_over() {
            return Ok(());
        }
        let Some(mut pick) = self.moments.fails_over.take() else { return Ok(()) };
        self.report.faults[Fault::PeerFailover as usize] += 1;
        self.fail_over(&mut pick)
    }
}
