//! Losses: what fails or is lost fails only because of what is missing, and is reported.
//!
//! Verified: a request fails, acknowledged data is given up, or a member is failed only where the faults justify it (more
//! units of a stripe gone or unreadable than the level survives; the member gone, or a write to it failed); a member
//! that does not hold what it should is out of the array when all is quiet. Not verified: that the stripe that a failed
//! flush is about is one that was written; requests that were under way while a block became readable again.

use crate::torture::host::HostInFlight;
use crate::torture::members::Presence;
use crate::torture::plan::TortureMode;
use crate::torture::violation::{Failure, Violation};
use crate::torture::world::{TortureWorld, is_in_sync};
use raidlab_controller::{DeviceState, HostError, HostOp, HostRequest, Notice, Sweep};
use raidlab_units::{Lba, MemberIndex};

impl TortureWorld {
    /// Checks that a request had reason to fail.
    pub(in crate::torture) fn check_failed(
        &mut self,
        host: &HostInFlight,
        error: HostError,
    ) -> Result<(), Box<Violation>> {
        self.look_at_states();
        let HostRequest { tag, op, lba, blocks } = host.request;
        let stripes = self.stripes();
        let is_failed = match op {
            HostOp::Flush => stripes.indices().any(|stripe| stripes.is_failed(stripe)),
            _ => stripes.is_range_failed(lba, blocks),
        };
        let is_refused = op != HostOp::Read && self.has_lost();
        if is_failed || is_refused || self.healed >= host.started {
            Ok(())
        } else {
            Err(Violation::NeedlessFailure { tag, error }.into())
        }
    }

    /// True if a device is lost beyond what the level survives: then the state on the devices stays as it is, and no write
    /// that would need a new one is acknowledged.
    pub(in crate::torture) fn has_lost(&self) -> bool {
        self.states.iter().any(|state| matches!(state, DeviceState::Lost { .. }))
    }

    /// Checks a notice, and notes what the array says it lost.
    pub(in crate::torture) fn take_notice(&mut self, notice: Notice) -> Result<(), Failure> {
        self.look_at_states();
        match notice {
            Notice::WriteLost { lba, blocks } => {
                if !self.stripes().is_range_failed(lba, blocks) && !self.has_lost() {
                    return Err(self.failure(Violation::NeedlessLoss { lba }));
                }
                (lba.0..lba.0 + blocks.0).for_each(|lba| self.volume.lose(Lba(lba)));
            }
            Notice::MemberFailed { member } => {
                let device = usize::from(member.0);
                if !self.excluded[device] && !self.devices[device].is_out() {
                    return Err(self.failure(Violation::NeedlessMemberFailure { member }));
                }
            }
            Notice::BlocksLost { member, lba, blocks } => {
                if self.mode == TortureMode::Bounded {
                    return Err(self.failure(Violation::NeedlessBadBlock { member, lba }));
                }
                // What stands there is not to be believed until it is written.
                let data = &mut self.devices[member.index()].data;
                (lba.0..lba.0 + blocks.0).for_each(|block| data.spoil(block));
            }
            Notice::MemberAdded { member } => self.excluded[member.index()] = false,
            Notice::Serving => self.last_progress = self.stamp,
            Notice::Stopped => self.is_stopped = true,
            Notice::SweepEnded { sweep: Sweep::Resync, .. } => self.is_resyncing = false,
            Notice::SweepEnded { sweep: sweep @ (Sweep::Check | Sweep::Repair), counts } => {
                self.take_counts(sweep, counts)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks, when all is quiet, that no member is trusted that failed a write, and that no spare waits while a role is
    /// vacant.
    pub(in crate::torture) fn check_membership(&self) -> Result<(), Failure> {
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
