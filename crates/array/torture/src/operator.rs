//! What the operator does to an array while it runs: brings devices back, fails them, asks for checks and repairs.
//!
//! Verified: a check or repair is refused only for a documented reason; within the bounds it counts exactly the rows that were
//! corrupted; a repair restores what was there. Only redundancy is corrupted, on an idle array, and it is mended before the host
//! goes on, because nothing could tell a read that it is wrong. Not verified: counts of scans over an array that is not resynced
//! yet, has bad blocks, or is beyond the bounds.

use super::checkers::liveness::PATIENCE_STEPS;
use super::flights::Work;
use super::members::Presence;
use super::plan::TortureMode;
use super::violation::{Failure, Violation};
use super::world::TortureWorld;
use raidlab_controller::{DeviceState, HostOp, Scan, ScanCounts, ScanRefused};
use raidlab_format::{ArrayName, DeviceUuid, LABEL_BYTES, Label};
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeIndex};
use raidlab_workload::Rng;

/// What is known of the latest check or repair.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Audit {
    /// Rows that disagree, as far as the world knows.
    corrupted: u64,
    /// It was to be stopped, or began while something else could disagree.
    pub(super) is_vague: bool,
    /// It has ended.
    has_ended: bool,
}

/// A block that was corrupted.
struct Corrupted {
    /// Stripe, strip where there is no parity, and row of that.
    row: (StripeIndex, u16, u64),
    member: MemberIndex,
    block: u64,
    original: Vec<u8>,
}

impl TortureWorld {
    /// A device that is gone, or that the array goes on without.
    pub(super) fn pick_absent(&self, pick: &mut Rng) -> Option<u64> {
        let is_absent = |device: &usize| {
            self.devices[*device].presence == Presence::Gone || self.states[*device] == DeviceState::Missing
        };
        let absent: Vec<usize> = (0..self.devices.len()).filter(is_absent).collect();
        (!absent.is_empty()).then(|| absent[pick.below(absent.len() as u64) as usize] as u64)
    }

    /// Brings a device back, or another at its place, with garbage.
    pub(super) fn bring_back(&mut self, member: MemberIndex, pick: &mut Rng) -> Result<(), Failure> {
        let device = &mut self.devices[member.index()];
        device.data.lose_power(pick);
        device.metadata.lose_power(pick);
        if pick.chance_pct(50) {
            device.data.replace(|bytes| super::memories::make_garbage(bytes, pick));
            let label_bytes = LABEL_BYTES.min(device.metadata.bytes().len());
            device.metadata.replace(|bytes| bytes[label_bytes..].fill(0));
            // What was on its way to the one before never comes to another.
            self.absence.late.retain(|late| !late.is_to(member));
        }
        self.add_device(member, pick)
    }

    /// Tells of a device that is there again. It is labelled anew over a metadata area of zeros, unless its loss is one that the
    /// array waits to see undone.
    pub(super) fn add_device(&mut self, member: MemberIndex, pick: &mut Rng) -> Result<(), Failure> {
        let device = &mut self.devices[member.index()];
        device.presence = Presence::Here;
        let device_uuid = self.label_again(member, pick);
        let device = &mut self.devices[member.index()];
        device.copy_to_tail();
        device.forget_rot();
        // What was on its way to it when it went never arrives.
        self.cut_off(member);
        (self.excluded[member.index()], self.unlisted[member.index()]) = (true, true);
        self.controller.handle_device_added(self.now, member, device_uuid);
        self.pump()
    }

    /// Lets all that is in flight to a device end in an error.
    pub(super) fn cut_off(&mut self, member: MemberIndex) {
        for flight in self.flights.iter_mut() {
            if matches!(flight.work, Work::Member(io) if io.member == member) {
                (flight.is_cut_off, flight.is_done_all_the_same) = (true, false);
            }
        }
    }

    /// Gives a device a new label and zeros behind it, as a world does with one that joins. Returns who it is.
    fn label_again(&mut self, member: MemberIndex, pick: &mut Rng) -> DeviceUuid {
        let is_lost = self
            .controller
            .device_states()
            .nth(member.index())
            .is_some_and(|state| matches!(state, DeviceState::Lost { .. }));
        if !is_lost {
            // It is written anew, maybe in another role. What it lied about is no longer what it should hold.
            self.devices[member.index()].data.corruption.clear();
        }
        let state = self.controller.array_state().filter(|_| !is_lost);
        let Some(array_uuid) = state.map(|state| state.geometry.array_uuid) else {
            return self.controller.device_uuid(member);
        };
        let mut uuid = [0; 16];
        super::memories::make_garbage(&mut uuid, pick);
        let label =
            Label { array_uuid, device_uuid: DeviceUuid(uuid), device: member, name: ArrayName::default() };
        self.relics.forget(member);
        self.devices[member.index()].metadata.replace(|bytes| {
            bytes.fill(0);
            label.encode(&mut bytes[..LABEL_BYTES]);
        });
        label.device_uuid
    }

    /// Fails a device that answers.
    pub(super) fn fail_by_hand(&mut self, member: MemberIndex) -> Result<(), Failure> {
        self.excluded[member.index()] = true;
        self.controller.handle_member_loss(self.now, member);
        self.pump()
    }

    /// Asks for a check or a repair.
    pub(super) fn ask_for_scan(&mut self, scan: Scan) -> Result<(), Failure> {
        let is_busy = self.controller.scan_progress().is_some();
        match self.controller.handle_scan(self.now, scan) {
            Ok(()) => {
                // What was lost to the write hole is counted, too, and what a start has yet to find torn.
                let has_bad = self.controller.bad_blocks().next().is_some() || self.losses.has_torn_rows();
                let is_vague = self.is_resyncing() || has_bad || self.mode == TortureMode::Beyond;
                self.audit = Audit { is_vague, has_ended: false, ..self.audit };
                self.pump()
            }
            Err(refused) => {
                let is_right = match refused {
                    ScanRefused::Busy { .. } => is_busy,
                    ScanRefused::NoRedundancy => !self.is_redundant() && !self.config.resilience.integrity,
                    ScanRefused::MembersLost => self.has_lost(),
                    ScanRefused::NotOnDemand => false,
                };
                if is_right { Ok(()) } else { Err(self.failure(Violation::ScanRefused { scan, refused })) }
            }
        }
    }

    /// Asks for bad blocks to be tried once more.
    pub(super) fn ask_for_recovery(&mut self) -> Result<(), Failure> {
        let is_busy = self.controller.scan_progress().is_some();
        match self.controller.handle_scan(self.now, Scan::Recover) {
            Ok(()) => self.pump(),
            Err(ScanRefused::Busy { .. }) if is_busy => Ok(()),
            Err(ScanRefused::MembersLost) if self.has_lost() => Ok(()),
            Err(refused) => Err(self.failure(Violation::ScanRefused { scan: Scan::Recover, refused })),
        }
    }

    /// Has bad blocks tried once more when nothing else goes on, and checks that none is left which can be read.
    pub(super) fn recover_all(&mut self) -> Result<(), Failure> {
        self.end_outages();
        self.look_at_states();
        if self.controller.scan_progress().is_some() || self.has_lost() || !self.controller.is_serving() {
            return Ok(());
        }
        self.ask_for_recovery()?;
        self.await_idle()?;
        self.look_at_states();
        self.check_recovered().map_err(|violation| self.failure(violation))
    }

    /// Stops a check or a repair.
    pub(super) fn stop_scan(&mut self) -> Result<(), Failure> {
        self.audit.is_vague = true;
        self.controller.handle_scan_stop(self.now);
        self.pump()
    }

    /// Takes in what a check or repair counted.
    pub(super) fn take_counts(&mut self, scan: Scan, counts: ScanCounts) -> Result<(), Failure> {
        self.audit.has_ended = true;
        let Audit { corrupted: expected, is_vague, .. } = self.audit;
        if !is_vague && (counts.mismatched_rows, counts.unreadable_rows) != (expected, 0) {
            return Err(self.failure(Violation::Miscounted { scan, counts, expected }));
        }
        Ok(())
    }

    /// True if the level has redundancy.
    pub(super) fn is_redundant(&self) -> bool {
        let shape = self.layout.shape();
        shape.parities > 0 || shape.copies > 1
    }

    /// Whether the mode and the level have something that may be corrupted.
    pub(super) fn has_redundancy_to_corrupt(&self) -> bool {
        self.mode == TortureMode::Bounded && self.is_redundant() && !self.config.resilience.integrity
    }

    /// Lets the array come to rest, corrupts some of its blocks, and has that found, mended where the evidence says what is wrong, and
    /// then the rest of redundancy made anew.
    pub(super) fn corrupt_and_mend(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        self.await_host()?;
        self.submit(HostOp::Flush, Lba(0), BlockCount(0))?;
        self.await_host()?;
        self.await_idle()?;
        self.look_at_states();
        let is_sound = |(device, state): (&super::members::Device, &DeviceState)| {
            device.presence == Presence::Here || *state == DeviceState::Missing
        };
        if self.is_resyncing() || !self.devices.iter().zip(&self.states).all(is_sound) {
            return Ok(());
        }
        // Made up from what is wrong, a row would be wrong.
        self.media.failing_reads.clear();
        self.end_outages();
        let corrupted = self.corrupt(1 + pick.below(4), pick);
        let (mendable, others): (Vec<_>, Vec<_>) =
            corrupted.iter().partition(|it| self.is_decided(it, &corrupted));
        for scan in [Scan::Check, Scan::Repair, Scan::RepairFromData] {
            let found = if scan == Scan::RepairFromData { others.len() } else { corrupted.len() };
            self.audit.corrupted = found as u64;
            self.scan_through(scan)?;
            self.audit.corrupted = 0;
            self.check_mended(&mendable, scan != Scan::Check)?;
            self.check_mended(&others, scan == Scan::RepairFromData)?;
        }
        Ok(())
    }

    /// True if the rest of its row says that a block is wrong: more than half of the copies agree, or both parities fit no other.
    fn is_decided(&self, it: &Corrupted, all: &[Corrupted]) -> bool {
        let shape = self.layout.shape();
        let wrong = all.iter().filter(|other| other.row == it.row).count();
        if shape.parities > 0 {
            shape.parities == 2 && wrong == 1
        } else {
            2 * wrong < usize::from(shape.copies)
        }
    }

    /// Corrupts up to `count` blocks of stripes that lack nothing and have no bad blocks; of data only where that is decided, and one
    /// block of a row with two parities, where two could look like a third.
    fn corrupt(&mut self, count: u64, pick: &mut Rng) -> Vec<Corrupted> {
        let mut corrupted: Vec<Corrupted> = Vec::new();
        let bad = self.bad_blocks();
        for _ in 0..count {
            let stripes = self.stripes();
            let stripe = StripeIndex(pick.below(self.layout.stripe_count().0));
            let shape = stripes.shape();
            let has_evidence = shape.parities == 2 || shape.copies > 2;
            let may_be = |unit: &StripUnit| has_evidence || !matches!(unit, StripUnit::Data { copy: 0, .. });
            let units: Vec<StripUnit> = stripes.units().filter(may_be).collect();
            let unit = units[pick.below(units.len() as u64) as usize];
            let place = self.layout.place(stripe, unit);
            let row_in_strip = pick.below(shape.strip_blocks.0);
            let block = place.start.0 + row_in_strip;
            let strip = match unit {
                StripUnit::Data { strip, .. } if shape.parities == 0 => strip,
                _ => 0,
            };
            let row = (stripe, strip, row_in_strip);
            let is_alone = !has_evidence || corrupted.iter().all(|it| it.row != row);
            // What the array calls bad it makes up, although it may be readable again.
            let is_bad = |unit| {
                let (first, rows) = (self.layout.place(stripe, unit).start.0, stripes.shape().strip_blocks.0);
                let holder = stripes.fit_holder(self.layout.place(stripe, unit));
                holder.is_some_and(|(it, _)| bad.range((it, first)..(it, first + rows)).next().is_some())
            };
            let is_whole = !stripes.units().any(|unit| stripes.is_unavailable(stripe, unit) || is_bad(unit));
            let Some((member, device)) = stripes.fit_holder(place).filter(|_| is_whole && is_alone) else {
                continue;
            };
            if corrupted.iter().all(|it| (it.member, it.block) != (member, block)) {
                corrupted.push(Corrupted { row, member, block, original: device.data.block(block).to_vec() });
                self.devices[member.index()].data.corrupt(block, pick);
            }
        }
        corrupted
    }

    /// Carries out a check or repair to its end.
    fn scan_through(&mut self, scan: Scan) -> Result<(), Failure> {
        self.ask_for_scan(scan)?;
        let began = self.stamp.0;
        while !self.audit.has_ended {
            if !self.step()? || self.stamp.0 - began > PATIENCE_STEPS {
                return Err(self.failure(Violation::NeverIdle));
            }
        }
        self.await_idle()
    }

    /// Checks that what was corrupted is mended, or not yet touched.
    fn check_mended(&mut self, corrupted: &[&Corrupted], is_mended: bool) -> Result<(), Failure> {
        for Corrupted { member, block, original, .. } in corrupted {
            let data = &mut self.devices[member.index()].data;
            if (data.block(*block) == original) != is_mended {
                let lba = MemberLba(*block);
                return Err(self.failure(Violation::NotMended { member: *member, lba }));
            }
            data.settle(*block);
        }
        Ok(())
    }
}
