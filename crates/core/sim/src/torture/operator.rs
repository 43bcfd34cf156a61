//! What the operator does to an array while it runs.

use super::flights::Work;
use super::members::Presence;
use super::violation::Failure;
use super::world::TortureWorld;
use raidlab_controller::DeviceState;
use raidlab_format::LABEL_BYTES;
use raidlab_units::MemberIndex;
use raidlab_workload::Rng;

impl TortureWorld {
    /// A device that is gone, or that the array goes on without.
    pub(super) fn pick_absent(&self, pick: &mut Rng) -> Option<u64> {
        let is_absent = |device: &usize| {
            self.devices[*device].presence == Presence::Gone || self.states[*device] == DeviceState::Missing
        };
        let absent: Vec<usize> = (0..self.devices.len()).filter(is_absent).collect();
        (!absent.is_empty()).then(|| absent[pick.below(absent.len() as u64) as usize] as u64)
    }

    /// Brings a device back: as it was when power was taken from it, or another at its place, with garbage on it and
    /// nothing but the label that says whose place it takes.
    pub(super) fn bring_back(&mut self, member: MemberIndex, pick: &mut Rng) -> Result<(), Failure> {
        let device = &mut self.devices[member.index()];
        device.data.lose_power(pick);
        device.metadata.lose_power(pick);
        if pick.chance_pct(50) {
            device.data.replace(|bytes| super::memories::make_garbage(bytes, pick));
            let label_bytes = LABEL_BYTES.min(device.metadata.bytes().len());
            device.metadata.replace(|bytes| bytes[label_bytes..].fill(0));
        }
        device.presence = Presence::Here;
        // What was on its way to it when it went never arrives.
        for flight in self.flights.iter_mut() {
            flight.is_cut_off |= matches!(flight.work, Work::Member(io) if io.member == member);
        }
        self.excluded[member.index()] = true;
        self.controller.handle_device_added(self.now, member);
        self.pump()
    }
}
