//! Power cuts and failovers at chosen moments, between two actions that the controller hands out.
//!
//! | moment | power is cut |
//! |---|---|
//! | any action | after one of the next |
//! | an answer, or that to a flush | just when the host has it |
//! | an answer after a loss | the same, soon after a member was lost, which may be back then |
//! | an entry of kept memory | just when it is stored |
//! | rebuild | while a device is rebuilt |
//! | replay | soon after another cut, while the array starts |
//! | failover | soon after the second controller took over |
//! | return of the lost | beyond the bounds only: after more devices went than the level survives; all are back then |
//!
//! What the controller would have handed out next is gone with it. The cut waits until the mode allows it (`may_crash`). Only the
//! load springs it: a clean stop, or what a check at rest asks for, is left alone.
//!
//! *Failover after a change of peer*: the second controller goes and comes back with blank memory, and takes over as soon as it
//! may: when all that the next start would need has been mirrored again.

use super::faults::Fault;
use super::members::Presence;
use super::memories::Peer;
use super::plan::TortureMode;
use super::violation::Failure;
use super::world::TortureWorld;
use raidlab_controller::{Action, HostCompletion, HostOp, PeerState, Sweep};
use raidlab_units::MemberIndex;
use raidlab_workload::Rng;

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Action,
    Answer,
    FlushAnswer,
    Keep,
    Rebuild,
    Start,
}

/// A power cut that waits for its moment.
#[derive(Clone, Debug)]
pub(super) struct Trap {
    moment: Moment,
    /// Such moments to pass over.
    left: u64,
    pick: Rng,
    /// All devices that are gone are back then.
    brings_back: bool,
}

/// What waits for its moment, and whether that has come.
#[derive(Debug, Default)]
pub(super) struct Moments {
    pub(super) trap: Option<Trap>,
    /// The load goes on, so that power may be cut when the moment comes.
    pub(super) may_spring: bool,
    /// It has come: nothing more is handed out.
    pub(super) is_sprung: bool,
    /// All devices are there after the next power cut.
    pub(super) all_come_back: bool,
    /// What the latest answer was to.
    pub(super) answered: Option<HostOp>,
    /// The second controller takes over as soon as it may.
    pub(super) fails_over: Option<Rng>,
}

impl TortureWorld {
    /// Sets a power cut for a moment to come.
    pub(super) fn set_trap(&mut self, pick: &mut Rng) -> Result<(), Failure> {
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
        self.moments.trap = Some(Trap { moment, left, pick, brings_back });
        Ok(())
    }

    /// Takes away a device that may be lost.
    fn lose_one(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        if let Some(victim) = self.pick_victim(pick) {
            let member = MemberIndex(victim as u16);
            self.devices[member.index()].presence = Presence::Gone;
            self.controller.handle_member_loss(self.now, member);
            self.pump()?;
        }
        Ok(())
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
                    |it: &raidlab_controller::SweepProgress| matches!(it.sweep, Sweep::Rebuild { .. });
                self.controller.sweep_progress().as_ref().is_some_and(rebuilds)
            }
            (Moment::Start, _) => !self.controller.is_serving(),
            _ => false,
        };
        if !is_it {
            return;
        }
        if let Some(trap) = self.moments.trap.as_mut().filter(|trap| trap.left > 0) {
            trap.left -= 1;
            return;
        }
        self.look_at_states();
        self.moments.is_sprung = self.may_crash();
    }

    /// Cuts power, as its moment has come.
    pub(super) fn cut_at_moment(&mut self) -> Result<(), Failure> {
        self.moments.is_sprung = false;
        let Some(Trap { mut pick, brings_back, .. }) = self.moments.trap.take() else { return Ok(()) };
        self.report.faults[Fault::CutAtMoment as usize] += 1;
        self.moments.all_come_back = brings_back;
        self.power_cut(&mut pick)
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
