//! Devices that fall silent: I/O that never ends, and writes that land after their device came back.
//!
//! **I/O that never ends.** What is in flight to a device stays there. Whoever drives the controller has timeouts: after a while
//! it tells of the loss of the member, and then all of that I/O ends as with a device that is gone, though some of the writes
//! have been done. The clock goes on meanwhile, and so does the rest of the array.
//!
//! **Late writes.** A device goes with writes in flight, and comes back at once. Some of the writes land after it was labelled
//! again: data, states, records of the log. Whoever drives the controller keeps them in order with the writes to the device
//! that came back: none lands where one of those has been handed out. All that are left are dropped when power is cut.

use super::flights::Work;
use super::members::{Doom, Presence};
use super::violation::Failure;
use super::volume::Stamp;
use super::world::TortureWorld;
use raidlab_controller::{MemberIo, MemberOp, Segment};
use raidlab_units::MemberIndex;
use raidlab_workload::Rng;

/// A device whose I/O does not end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hung {
    pub(super) member: MemberIndex,
    /// When the loss of the member is told.
    until: Stamp,
}

/// Devices that are silent, or were.
#[derive(Debug, Default)]
pub(super) struct Absence {
    pub(super) hung: Option<Hung>,
    pub(super) late: Vec<LateWrite>,
}

/// A write on its way to a device that went and came back.
#[derive(Clone, Debug)]
pub(super) struct LateWrite {
    io: MemberIo,
    bytes: Vec<u8>,
}

impl LateWrite {
    pub(super) fn is_to(&self, member: MemberIndex) -> bool {
        self.io.member == member
    }
}

impl TortureWorld {
    /// A device that may be lost, and none hangs.
    pub(super) fn pick_hang_victim(&self, pick: &mut Rng) -> Option<u64> {
        self.pick_victim(pick).filter(|_| self.absence.hung.is_none())
    }

    /// Lets a device fall silent.
    pub(super) fn hang(&mut self, member: MemberIndex, pick: &mut Rng) {
        self.devices[member.index()].presence = Presence::Doomed(Doom::Silence);
        let steps_max = super::arrays::pick(pick, &[10, 100, 2_000]);
        let until = Stamp(self.stamp.0 + pick.below(steps_max));
        self.absence.hung = Some(Hung { member, until });
    }

    /// Tells of the loss of a device that has been silent for long, or when nothing else happens.
    pub(super) fn end_hang(&mut self) -> Result<(), Failure> {
        let Some(Hung { member, until }) = self.absence.hung else { return Ok(()) };
        if self.devices[member.index()].presence != Presence::Doomed(Doom::Silence) {
            // Power was cut meanwhile, or it was taken away.
            self.absence.hung = None;
            return Ok(());
        }
        if self.stamp < until && self.flights.any_but(member) {
            return Ok(());
        }
        self.absence.hung = None;
        self.devices[member.index()].presence = Presence::Gone;
        for flight in self.flights.iter_mut() {
            let is_its = matches!(flight.work, Work::Member(io) if io.member == member);
            flight.is_done_all_the_same = is_its && self.random.chance_pct(50);
        }
        self.controller.handle_member_loss(self.now, member);
        self.pump()
    }

    /// Carries out a write that is told to have failed because its device is gone.
    pub(super) fn write_all_the_same(&mut self, io: &MemberIo, segments: &[Segment]) {
        let MemberOp::Write { fua } = io.op else { return };
        let area = self.devices[io.member.index()].area_mut(io.area);
        let bytes = area.write(io.lba.0, io.blocks.0, fua);
        self.memories.gather(self.controller.own_memory(), bytes, segments);
        self.write_tail(io);
    }

    /// Takes a device away and brings it back, with its writes still on their way.
    pub(super) fn return_with_writes(&mut self, member: MemberIndex, pick: &mut Rng) -> Result<(), Failure> {
        self.devices[member.index()].presence = Presence::Gone;
        self.controller.handle_member_loss(self.now, member);
        self.pump()?;
        let mut late = Vec::new();
        for flight in self.flights.iter() {
            let Work::Member(io) = flight.work else { continue };
            if io.member == member && matches!(io.op, MemberOp::Write { .. }) {
                let mut bytes = vec![0; (io.blocks.0 * self.config.block_size.bytes()) as usize];
                self.memories.gather(self.controller.own_memory(), &mut bytes, &flight.segments);
                late.push(LateWrite { io, bytes });
            }
        }
        self.absence.late.append(&mut late);
        let device = &mut self.devices[member.index()];
        device.data.lose_power(pick);
        device.metadata.lose_power(pick);
        self.add_device(member, pick)
    }

    /// Drops late writes to where something else is being written.
    pub(super) fn drop_late(&mut self, io: &MemberIo) {
        if !matches!(io.op, MemberOp::Write { .. }) {
            return;
        }
        self.absence.late.retain(|LateWrite { io: late, .. }| {
            let is_apart = late.lba.0 + late.blocks.0 <= io.lba.0 || io.lba.0 + io.blocks.0 <= late.lba.0;
            late.member != io.member || late.area != io.area || is_apart
        });
    }

    /// Now and then lets a late write land.
    pub(super) fn land_late(&mut self) {
        if self.absence.late.is_empty() || !self.random.chance_pct(10) {
            return;
        }
        let index = self.random.below(self.absence.late.len() as u64) as usize;
        let LateWrite { io, bytes } = self.absence.late.swap_remove(index);
        if self.devices[io.member.index()].presence == Presence::Gone {
            return;
        }
        if io.area == raidlab_controller::Area::Data {
            self.note_lost_rows(&io);
        }
        let area = self.devices[io.member.index()].area_mut(io.area);
        area.write(io.lba.0, io.blocks.0, true).copy_from_slice(&bytes);
        self.write_tail(&io);
    }

    /// Lets time pass: timers are late, and many are due at once.
    pub(super) fn jump(&mut self, pick: &mut Rng) {
        let nanos = super::arrays::pick(pick, &[1_000_000, 1_000_000_000, 3_600_000_000_000]);
        self.now.0 += 1 + pick.below(nanos);
    }
}
