//! Members that go and devices that come: who leaves the array, who takes the vacant place.
//!
//! ```text
//! in sync ──► missing ──► (one answers there) ──► spare ──► rebuilding, boundary 0 ──► in sync
//!     └─────► lost, where that is more than the level survives, or more than half of the members at once: stays so
//!             until the array starts again
//! ```
//! A spare takes a vacant role with the next event; rebuilds then run one after the other, see `sweep.rs`. The bad
//! blocks of a device go with it.

use crate::api::Notice;
use crate::controller::Controller;
use crate::members::{DeviceState, Loss};
use raidlab_format::DeviceUuid;
use raidlab_units::{MemberIndex, MemberLba};

impl Controller {
    /// Takes a member out of the array.
    pub(crate) fn fail_member(&mut self, member: MemberIndex) {
        let outvoted = self.state.is_outvoted_without(member, &self.members);
        match self.members.lose(member, self.geometry.layout(), outvoted) {
            Loss::Known => return,
            Loss::Survived => {
                self.bad.forget(member);
                self.change_state();
            }
            Loss::BeyondRedundancy => self.members.lose_unwritten(self.state.found_in_sync()),
        }
        self.sweeps.attention = true;
        self.outbox.notify(Notice::MemberFailed { member });
    }

    /// Takes in that a device with a new label answers at this place.
    pub(crate) fn add_device(&mut self, device: MemberIndex, uuid: DeviceUuid) {
        match self.members.state(device) {
            DeviceState::Lost { .. } => return,
            // It was gone and nobody said so: what it missed can't be told.
            DeviceState::InSync { .. } | DeviceState::Rebuilding { .. } | DeviceState::Spare => {
                self.fail_member(device);
            }
            DeviceState::Missing => {}
        }
        if self.members.state(device) == DeviceState::Missing {
            self.members.note_newcomer(device, uuid);
            // Before it is admitted, too: what is read there from now on are its bytes.
            self.start.note_replaced(device);
            self.admit_again(device);
        }
    }

    /// Makes a device that has come to the place of one that left a spare, once nothing from before is under way on it.
    pub(crate) fn admit_again(&mut self, device: MemberIndex) {
        if self.members.take_newcomer(device) {
            self.members.set_state(device, DeviceState::Spare);
            self.change_state();
            self.sweeps.attention = true;
            self.greet_newcomer();
            self.outbox.notify(Notice::MemberAdded { member: device });
        }
    }

    /// Gives vacant roles to spares; not while a device is lost, for what the array is then is not written down.
    pub(crate) fn take_spares(&mut self) {
        while !self.members.any_lost()
            && let Some(role) = self.members.vacant_role()
            && let Some(spare) = self.members.first(|state| state == DeviceState::Spare)
        {
            let boundary = MemberLba::ZERO;
            self.members.set_state(spare, DeviceState::Rebuilding { role, boundary });
            self.change_state();
        }
    }
}
