//! Stories: a few requests and faults in quick succession, all around the same one or two stripes.
//!
//! Most defects of recovery need several things to go wrong with one stripe in a row, before anything else puts it right: writes
//! under way, a device that goes and comes back as it was, a start cut short, a read that settles which version is there. Faults
//! drawn independently seldom meet like this. A story draws its steps at random, and takes each only if the mode allows it:
//!
//! | step | what happens |
//! |---|---|
//! | requests | writes, reads or a flush, of the story's stripes; they stay under way |
//! | time | a few actions finish, or all that the host waits for, or everything; the clock jumps |
//! | loss | a device of the stripe goes, told or untold, or is about to fail a write or flush |
//! | return | a device that is gone is back, as it was or blank; now and then its rebuild goes on for a while |
//! | media | a block of the stripe can't be read |
//! | battery, peer | the battery fails or is good again; the second controller is renewed or takes over |
//! | read errors | a read of the log fails on some devices at the next start |
//! | plot | several of these in a row that one draw seldom brings together: see `plots.rs` |
//! | image | that of a device or of NVRAM is taken, to come back later (`relics.rs`) |
//! | cut, stop | power is cut, now and then with nothing of the metadata on its way arriving; or the array is stopped cleanly |
//!
//! One story in three is about the protection of the cache, not about devices. Beyond the bounds the devices that were gone may be
//! back after a cut while the others are away. In half of the stories writes of the state take longer than all else. A story ends
//! with a power cut that waits for one of the next answers, actions, states or steps of a start.

use super::arrays::pick as one_of;
use super::flights::FinishOrder;
use super::members::{Doom, Presence};
use super::moments::{Moment, Trap};
use super::violation::Failure;
use super::world::TortureWorld;
use raidlab_controller::{BatteryState, CacheMemory, DeviceState, HostOp, MemberCache};
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, Lba, MemberIndex, StripeIndex};
use raidlab_workload::Rng;

/// Actions that a step waits for at most.
pub(super) const WAIT_STEPS: u64 = 4_000;

/// The stripes that a story is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) first: StripeIndex,
    pub(super) stripes: u64,
    /// The rows of each strip that requests and bad blocks are in.
    pub(super) first_row: u64,
    pub(super) rows: u64,
    /// About what protects the cache, rather than about devices.
    is_of_protection: bool,
}

impl TortureWorld {
    /// Tells a story, and sets a power cut for its end.
    pub(super) fn tell_story(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        let stripes = self.layout.stripe_count().0;
        let first = pick.below(stripes);
        let strip_blocks = self.layout.shape().strip_blocks.0;
        let first_row = pick.below(strip_blocks);
        let scene = Scene {
            first: StripeIndex(first),
            stripes: (1 + pick.below(2)).min(stripes - first),
            first_row,
            rows: one_of(pick, &[1, 2, 4, strip_blocks]).min(strip_blocks - first_row),
            is_of_protection: self.config.cache.memory == CacheMemory::BatteryBacked && pick.below(3) == 0,
        };
        match pick.below(4) {
            0 | 1 => {
                self.order = self.slow_state();
            }
            2 => self.order = FinishOrder::draw(pick, self.config.members),
            _ => {}
        }
        for _ in 0..3 + pick.below(12) {
            self.look_at_states();
            self.take_step(scene, pick)?;
            if self.is_refused {
                return Ok(());
            }
        }
        let moments = [
            Moment::Answer,
            Moment::Answer,
            Moment::FlushAnswer,
            Moment::Action,
            Moment::State,
            Moment::StateKept,
            Moment::Start,
        ];
        let (moment, most) = (one_of(pick, &moments), one_of(pick, &[1, 3, 20]));
        let left = pick.below(most);
        let (brings_back, withholds) = (pick.chance_pct(60), pick.chance_pct(60));
        let pick = Rng::new(pick.next_u64());
        self.moments.trap = Some(Trap { moment, left, pick, brings_back, withholds, starts: 0 });
        Ok(())
    }

    fn take_step(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let step = pick.below(30);
        if scene.is_of_protection && (13..19).contains(&step) {
            if step == 13 {
                self.take_image(pick);
                return Ok(());
            }
            return self.change_protection(pick);
        }
        match step {
            0..=4 => self.ask_for(scene, false, pick),
            5 | 6 => self.ask_for(scene, true, pick),
            7 => {
                self.hand_in(HostOp::Flush, Lba(0), BlockCount(0));
                self.pump()
            }
            8 | 9 => {
                let steps = one_of(pick, &[2, 8, 30, 200]);
                self.let_pass(steps, |_| false)
            }
            10 => self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0),
            11 => self.come_to_rest(),
            12 => {
                self.jump(pick);
                self.let_pass(30, |_| false)
            }
            13..=15 => self.lose_one_of(scene, pick),
            16 | 17 => self.bring_one_back(pick),
            18 => {
                if let Some((member, place)) = self.any_block_of(scene, pick) {
                    self.spoil_place(member, place);
                }
                Ok(())
            }
            19 => self.change_protection(pick),
            20 if self.may_crash() && pick.chance_pct(25) => self.stop_and_start(pick),
            20..=22 => self.cut(pick.chance_pct(40), pick.chance_pct(20), pick),
            23 => {
                self.take_image(pick);
                Ok(())
            }
            24..=27 => self.unfold_plot(scene, pick),
            28 => {
                self.arm_log_reads(pick);
                self.ask_for(scene, false, pick)
            }
            _ => self.let_pass(WAIT_STEPS, |world| world.controller.is_serving()),
        }
    }

    /// Lets everything finish that may.
    pub(super) fn come_to_rest(&mut self) -> Result<(), Failure> {
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        if self.controller.is_idle() { self.check_resynced() } else { Ok(()) }
    }

    /// Cuts power, if the mode allows it.
    pub(super) fn cut(&mut self, all: bool, others: bool, pick: &mut Rng) -> Result<(), Failure> {
        self.look_at_states();
        if !self.may_crash() {
            return Ok(());
        }
        (self.moments.all_come_back, self.moments.others_come_back) = (all, others);
        self.moments.withholds = pick.chance_pct(50);
        self.power_cut(pick)
    }

    /// Has a few requests of the scene under way.
    pub(super) fn ask_for(&mut self, scene: Scene, reads: bool, pick: &mut Rng) -> Result<(), Failure> {
        for _ in 0..=pick.below(3) {
            let lba = self.any_lba_of(scene, pick);
            let stripe = self.layout.shape().stripe_blocks().0;
            let end = (scene.first.0 + scene.stripes) * stripe;
            let mut length = one_of(pick, &[1, 1, 2, 8, 64]).min(end - lba.0);
            let mut lba = lba;
            if self.whole_stripes_pct > 0 && pick.chance_pct(self.whole_stripes_pct) {
                (lba, length) = (Lba(lba.0 / stripe * stripe), stripe);
            }
            let op = if reads { HostOp::Read } else { HostOp::Write { fua: pick.chance_pct(30) } };
            self.hand_in(op, lba, BlockCount(length));
        }
        self.pump()
    }

    pub(super) fn any_lba_of(&self, scene: Scene, pick: &mut Rng) -> Lba {
        let shape = self.layout.shape();
        let stripe = StripeIndex(scene.first.0 + pick.below(scene.stripes));
        let strip = pick.below(u64::from(shape.data_strips)) as u16;
        self.stripes().lba(stripe, strip, scene.first_row + pick.below(scene.rows))
    }

    /// Lets up to `steps` actions finish, or fewer until something is so.
    pub(super) fn let_pass(&mut self, steps: u64, is_enough: impl Fn(&Self) -> bool) -> Result<(), Failure> {
        for _ in 0..steps {
            if is_enough(self) || !self.step()? {
                break;
            }
        }
        Ok(())
    }

    /// A device that holds a unit of the scene, and the unit's first place there.
    pub(super) fn any_unit_of(&self, scene: Scene, pick: &mut Rng) -> Option<(MemberIndex, u64)> {
        let stripes = self.stripes();
        let stripe = StripeIndex(scene.first.0 + pick.below(scene.stripes));
        let units: Vec<StripUnit> = stripes.units().collect();
        let place = self.layout.place(stripe, one_of(pick, &units));
        let (member, device) = stripes.fit_holder(place)?;
        Some((member, device.data.tags.place(place.start.0)))
    }

    fn any_block_of(&self, scene: Scene, pick: &mut Rng) -> Option<(MemberIndex, u64)> {
        let (member, first) = self.any_unit_of(scene, pick)?;
        Some((member, first + scene.first_row + pick.below(scene.rows)))
    }

    /// Lets a device of the scene go, or be about to fail, where it may be lost.
    fn lose_one_of(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let Some((member, _)) = self.any_unit_of(scene, pick) else { return Ok(()) };
        if !self.may_lose(member) {
            return Ok(());
        }
        let has_cache = self.config.member_cache == MemberCache::On;
        let presence = match pick.below(8) {
            0 => Presence::Doomed(Doom::Write),
            1 => Presence::Doomed(Doom::WriteKeepingOld),
            2 if has_cache => Presence::Doomed(Doom::Flush),
            3 | 4 => Presence::Gone,
            _ => return self.lose(member),
        };
        self.devices[member.index()].presence = presence;
        Ok(())
    }

    /// Brings a device back; now and then lets its rebuild go on for a while, and end in another loss.
    fn bring_one_back(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        let Some(member) = self.pick_absent(pick) else { return Ok(()) };
        self.bring_back(MemberIndex(member as u16), pick)?;
        if pick.chance_pct(50) {
            return Ok(());
        }
        let steps = one_of(pick, &[100, 1_000, 4_000]);
        let is_whole = |world: &Self| world.controller.is_idle();
        self.let_pass(steps, is_whole)?;
        self.look_at_states();
        let is_target = |state: &DeviceState| matches!(state, DeviceState::Rebuilding { .. });
        let target = self.states.iter().position(is_target).map(|device| MemberIndex(device as u16));
        match target.filter(|target| self.may_lose(*target)) {
            Some(target) if pick.chance_pct(50) => {
                if self.config.member_cache == MemberCache::On && pick.chance_pct(50) {
                    self.devices[target.index()].presence = Presence::Doomed(Doom::Flush);
                    return self.let_pass(steps, is_whole);
                }
                self.lose(target)
            }
            _ => Ok(()),
        }
    }

    /// Changes what protects the cache.
    fn change_protection(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        if self.config.cache.mirror && pick.chance_pct(50) {
            return if self.may_fail_over() { self.fail_over(pick) } else { self.renew_peer(pick) };
        }
        if self.config.cache.memory != CacheMemory::BatteryBacked {
            return Ok(());
        }
        let battery =
            if self.battery == BatteryState::Good { BatteryState::Failed } else { BatteryState::Good };
        self.set_battery(battery)
    }
}
