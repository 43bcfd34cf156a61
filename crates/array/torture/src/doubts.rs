//! Plots of doubt: redundancy of a stripe is in doubt after a cut, and before that is settled devices go (`plots.rs` has the others).
//!
//! | plot | what happens | the defect that it finds |
//! |---|---|---|
//! | written in doubt | the device of a torn stripe goes; strips of the stripe are written as wholes, through the cache where there is one; later another device takes the place | a write that is taken and can't be stored; a stripe that nobody resyncs when it can be |
//! | read under resync | copies differ, and the host reads; while that has the stripe resynced a device goes beyond what the array survives, and the host reads again | a read that sees what the resync is about to take back; copies that count as equal without the lost one |
//! | compared twice | a whole stripe is torn; while the start resyncs what differs from its record, a device goes; another cut follows | a stripe that still differs and of which the devices do not hear |
//! | written beside the lost | devices go until the array has failed, none of them of the stripe, which is then written as a whole | a record that relies on what no start is told |
//!
//! Plans that have them tell them in stories (`doubts`), in the place of two plots in five.

use super::arrays::pick as one_of;
use super::members::{Doom, Presence};
use super::stories::{Scene, WAIT_STEPS};
use super::violation::Failure;
use super::world::{TortureWorld, is_in_sync};
use raidlab_controller::{HostOp, MetadataPolicy};
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, Lba, MemberIndex, StripeIndex};
use raidlab_workload::Rng;

impl TortureWorld {
    /// Tells one of these plots.
    pub(super) fn unfold_doubt(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let shape = self.layout.shape();
        let has_log = self.config.resilience.metadata == MetadataPolicy::Log && shape.parities > 0;
        match pick.below(4) {
            0 if has_log => self.compare_twice(scene, pick),
            1 if has_log => self.write_beside_lost(scene, pick),
            _ if shape.copies > 1 => self.read_under_resync(scene, pick),
            _ => self.write_in_doubt(scene, pick),
        }
    }

    /// A stripe is torn, the device of a strip goes before that is resynced, and strips are written as wholes.
    fn write_in_doubt(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        self.hand_in_stripe(lba);
        self.pump()?;
        self.let_pass(one_of(pick, &[8, 30, 60]), |_| false)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        self.lose_holder(lba)?;
        if pick.chance_pct(50) {
            self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        }
        for _ in 0..=pick.below(3) {
            self.hand_in_strip(if pick.chance_pct(60) { lba } else { self.any_lba_of(scene, pick) });
            self.pump()?;
            self.let_pass(one_of(pick, &[0, 4, 30]), |_| false)?;
        }
        self.ask_for(scene, false, pick)?;
        self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)?;
        self.destage()?;
        self.ask_for_all(HostOp::Read, scene)?;
        let absent = self.pick_absent(pick).filter(|_| pick.chance_pct(70));
        let Some(member) = absent else { return Ok(()) };
        self.bring_back(MemberIndex(member as u16), pick)?;
        self.come_to_rest()
    }

    /// Copies are in doubt, and while a read has them made equal a device goes that the array can't do without.
    fn read_under_resync(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        self.ask_at(HostOp::Write { fua: false }, lba)?;
        self.ask_for(scene, false, pick)?;
        self.let_pass(one_of(pick, &[3, 10, 30]), |_| false)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        // Where copies stand on neighbours, the next that goes may be of another strip that has lost one.
        self.lose_some_without(lba, one_of(pick, &[1, 1, 1, 2, 4]), pick)?;
        self.ask_at(HostOp::Read, lba)?;
        self.let_pass(pick.below(10), |_| false)?;
        if pick.chance_pct(60) { self.lose_holder(lba) } else { self.lose_copy(lba, pick) }?;
        for _ in 0..=pick.below(3) {
            self.ask_at(HostOp::Read, lba)?;
            self.let_pass(pick.below(4), |_| false)?;
        }
        self.let_pass(one_of(pick, &[10, 40, WAIT_STEPS]), |world| world.waiting_count() == 0)?;
        self.ask_at(HostOp::Read, lba)?;
        self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)?;
        self.cut(true, false, pick)?;
        self.read_when_served(lba)
    }

    /// The start finds a stripe torn and resyncs it, but a device goes over that.
    fn compare_twice(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        self.destage()?;
        self.hand_in_stripe(lba);
        self.pump()?;
        self.controller.handle_destage_all(self.now);
        self.pump()?;
        // Some of what the record is of has arrived, and some has not.
        self.let_pass(300, Self::is_record_under_way)?;
        self.let_pass(300, |world| !world.is_record_under_way())?;
        self.let_pass(one_of(pick, &[1, 2, 4, 8]), |_| false)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        let is_found_torn =
            |world: &Self| world.controller.out_of_sync_stripes() > 0 || world.controller.is_serving();
        self.let_pass(WAIT_STEPS, is_found_torn)?;
        self.let_pass(pick.below(8), |world| world.controller.is_serving())?;
        self.look_at_states();
        let unit = self.any_unit_of(scene, pick);
        if let Some((member, _)) = unit.filter(|(member, _)| self.may_lose(*member)) {
            match pick.below(4) {
                0 => self.devices[member.index()].presence = Presence::Doomed(Doom::WriteKeepingOld),
                _ => self.lose(member)?,
            }
        }
        self.let_pass(one_of(pick, &[40, 200, WAIT_STEPS]), |world| world.controller.is_idle())?;
        self.cut(true, false, pick)?;
        self.ask_for_all(HostOp::Read, scene)
    }

    /// A whole stripe is written that has all its devices, while others are lost.
    fn write_beside_lost(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let (stripe, ..) = self.layout.locate(lba);
        // Records that wait for a flush of the members would leave no room for others once it can't be made.
        self.hand_in(HostOp::Flush, Lba(0), BlockCount(0));
        self.destage()?;
        for member in (0..self.devices.len() as u16).map(MemberIndex) {
            self.look_at_states();
            let is_apart = is_in_sync(self.states[member.index()]) && !self.holds_some_of(member, stripe);
            if is_apart && !self.has_lost() && self.may_lose(member) {
                // Without a device that the others have not heard of, there are records after the next.
                self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
                self.lose(member)?;
            }
        }
        if pick.chance_pct(50) {
            self.hand_in_stripe(lba);
        } else {
            self.ask_at(HostOp::Write { fua: true }, lba)?;
        }
        self.destage()?;
        self.cut(true, false, pick)?;
        self.read_when_served(lba)
    }

    /// Whether a device holds a unit of a stripe.
    fn holds_some_of(&self, member: MemberIndex, stripe: StripeIndex) -> bool {
        let stripes = self.stripes();
        stripes.units().any(|unit| stripes.holder(self.layout.place(stripe, unit)) == Some(member))
    }

    /// Takes away the device of one of a block's copies, where it may be lost.
    fn lose_copy(&mut self, lba: Lba, pick: &mut Rng) -> Result<(), Failure> {
        self.look_at_states();
        let (stripe, strip, _) = self.layout.locate(lba);
        let copy = pick.below(u64::from(self.layout.shape().copies)) as u16;
        let holder = self.stripes().holder(self.layout.place(stripe, StripUnit::Data { strip, copy }));
        holder.filter(|member| self.may_lose(*member)).map_or(Ok(()), |member| self.lose(member))
    }

    /// Has the stripe of a block written as a whole.
    fn hand_in_stripe(&mut self, lba: Lba) {
        let blocks = self.layout.shape().stripe_blocks();
        self.hand_in(HostOp::Write { fua: true }, Lba(lba.0 / blocks.0 * blocks.0), blocks);
    }

    /// Has the strip of a block written as a whole.
    fn hand_in_strip(&mut self, lba: Lba) {
        let blocks = self.layout.shape().strip_blocks;
        let (stripe, strip, _) = self.layout.locate(lba);
        self.hand_in(
            HostOp::Write { fua: false },
            self.layout.strip_start(stripe, strip),
            BlockCount(blocks.0),
        );
    }
}
