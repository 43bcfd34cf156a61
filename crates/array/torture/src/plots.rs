//! Plots: sequences of steps that a story takes as a whole, because independent draws seldom produce them (`stories.rs`).
//!
//! | plot | what happens | the defect that it finds |
//! |---|---|---|
//! | doubt | a cut leaves copies or parity in doubt, a device goes that has a copy, the host reads; all are back | a start that lets the host see what the next one takes back |
//! | outvoted | devices go one soon after the other while a state is on its way; they are back without the rest | an answer that relies on that state |
//! | replaced unheard | another device comes and is rebuilt within one state; then the former one is back | a start that goes by states alone |
//! | lost while logged | a device goes between a record and the next, before the devices hear of it | a record that tells too early what needs no replay |
//! | lost while rebuilt | the last device in sync goes while a region is marked and another is rebuilt | a write that goes on, with a mark that nobody asks for; maps of the rebuilt device that outrank later ones |
//! | lost row | all of a row but one block can't be read, and is written block by block | parity computed from what power takes back |
//! | written over | a record and a later one for the same block; the log can't be read on some devices | data of the earlier one, taken for good |
//! | older incarnation | NVRAM is lost twice, and has its older log the second time | records that are taken for the present ones |
//! | torn record | a cut tears a record, after one that alone says what is retired | a ring that wrote the former over the latter |
//! | promised part | a whole stripe is written and not flushed, then a block of it with forced unit access; its device is away after a cut | a promise that relies on what is not durable |
//! | flicker | a block is written twice; at the second time another strip and all parity can't be read for a moment | parity that is made anew under an older record |
//! | read again | reads of most of a row fail for a while, and blocks of it are written meanwhile; then they are read once more | a block that comes back although it was overtaken, or does not although it could |
//! | harmed start | a write of a whole stripe or of one strip is torn; while the start replays its record a device can't be read or written once, or goes; another cut follows | a start that believes what it could not read, or forgets what it left in doubt |
//! | lost while torn | rows of a torn stripe are written, and their device goes before the resync has ended; it may be rebuilt then | parity taken for good in all rows; doubts that outlast the rebuild |
//!
//! Most end in a power cut after which all devices are there, and a read of what it was about.

use super::arrays::pick as one_of;
use super::flights::{FinishOrder, Work};
use super::members::{Doom, Presence};
use super::plan::TortureMode;
use super::stories::{Scene, WAIT_STEPS};
use super::violation::Failure;
use super::world::{TortureWorld, is_in_sync};
use raidlab_controller::{
    Area, BatteryState, BufferSpace, CacheMemory, DeviceState, HostOp, MemberCache, MemberOp, MemoryStep,
    MetadataPolicy,
};
use raidlab_format::AreaLayout;
use raidlab_raid::StripUnit;
use raidlab_units::{BlockCount, Lba, MemberIndex, MemberLba, StripeIndex};
use raidlab_workload::Rng;

impl TortureWorld {
    /// Does several things in a row.
    pub(super) fn unfold_plot(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let has_log = self.config.resilience.metadata == MetadataPolicy::Log;
        let has_nvram_log = has_log && self.config.cache.memory == CacheMemory::BatteryBacked;
        // Records in NVRAM hold the rows of whole stripes, too.
        let may_forget =
            !has_nvram_log && self.whole_stripes_pct > 0 && self.config.member_cache == MemberCache::On;
        if self.moments.has_doubts && pick.chance_pct(40) {
            return self.unfold_doubt(scene, pick);
        }
        match pick.below(10) {
            0 | 1 => self.doubt(scene, pick),
            2 => self.outvote(scene, pick),
            3 => self.replace_unheard(scene, pick),
            4 => self.lose_row(scene, pick),
            5 => self.write_over(scene, pick),
            6 if self.is_long() => self.lose_while_rebuilt(scene, pick),
            6 if has_log && self.layout.shape().parities > 0 => self.flicker(scene, pick),
            7 if has_nvram_log => self.live_again(scene, pick),
            8 if has_log && pick.chance_pct(50) => self.harm_start(scene, pick),
            8 if has_log => self.tear_record(scene, pick),
            9 if self.has_write_hole() => self.lose_while_torn(scene, pick),
            9 if has_log && may_forget => self.promise_part(scene, pick),
            _ => self.lose_while_logged(scene, pick),
        }
    }

    /// Whether the boundary of a rebuild is written down on the way.
    const fn is_long(&self) -> bool {
        self.config.member_size.0 > 64 * self.config.strip_size.0
    }

    /// Leaves copies or parity in doubt, and takes a device away before they agree again; the host reads meanwhile.
    fn doubt(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let is_lost_for_good = pick.chance_pct(40);
        if is_lost_for_good {
            // The devices know of one that is missing: with the next the array has failed.
            self.lose_some_without(lba, 1, pick)?;
            self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        }
        self.ask_at(HostOp::Write { fua: false }, lba)?;
        self.ask_for(scene, false, pick)?;
        self.let_pass(one_of(pick, &[3, 10, 30]), |_| false)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        if pick.chance_pct(60) {
            self.order = self.slow_state();
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        if is_lost_for_good {
            self.lose_some_without(lba, 3, pick)?;
        }
        self.lose_holder(lba)?;
        self.ask_at(HostOp::Read, lba)?;
        self.ask_for(scene, pick.chance_pct(70), pick)?;
        self.let_pass(one_of(pick, &[10, 40, 200]), |world| world.waiting_count() == 0)?;
        if pick.chance_pct(30) {
            return Ok(());
        }
        self.cut(true, false, pick)?;
        self.read_when_served(lba)
    }

    /// A device with a copy goes while that is written, then others until the array has failed, before the devices hear of the
    /// first; those that went may come back without the rest.
    fn outvote(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        self.order = self.slow_state();
        self.ask_at(HostOp::Write { fua: pick.chance_pct(70) }, lba)?;
        self.let_pass(pick.below(6), |_| false)?;
        self.lose_holder(lba)?;
        self.let_pass(one_of(pick, &[3, 60, 60]), Self::is_all_but_told)?;
        if pick.chance_pct(60) {
            self.lose_some_without(lba, 4, pick)?;
        }
        for _ in 0..3 {
            self.look_at_states();
            if !self.has_lost() {
                self.lose_unit_of(scene, pick)?;
            }
        }
        self.let_pass(one_of(pick, &[10, 60]), |_| false)?;
        self.cut(false, pick.chance_pct(80), pick)?;
        self.read_when_served(lba)
    }

    /// Another device comes in the place of one, and is rebuilt before the devices hear of either; then the former is back.
    fn replace_unheard(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        if self.can_restart() && pick.chance_pct(70) {
            // Some have this state already when the device goes.
            self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
            self.controller.handle_state_renewal(self.now);
            self.pump()?;
            self.let_pass(1 + pick.below(self.devices.len() as u64), |_| false)?;
        }
        self.look_at_states();
        let Some(member) = self.first_holder(lba).filter(|it| self.can_restart() && self.may_lose(*it))
        else {
            return Ok(());
        };
        self.order = self.slow_state();
        self.take_image_of(member);
        self.lose(member)?;
        self.bring_back(member, pick)?;
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        self.ask_at(HostOp::Write { fua: pick.chance_pct(70) }, lba)?;
        self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)?;
        self.cut(false, false, pick)?;
        self.read_when_served(lba)
    }

    /// A device goes when the first of a few records has been sent, of which the others are being made.
    fn lose_while_logged(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let next = lba.0 + self.layout.shape().stripe_blocks().0;
        self.order = FinishOrder::SlowMemory;
        for lba in [lba, Lba(next % self.volume_blocks.0)] {
            self.hand_in(HostOp::Write { fua: pick.chance_pct(50) }, lba, BlockCount(1));
        }
        self.hand_in(HostOp::Flush, Lba(0), BlockCount(0));
        self.pump()?;
        self.let_pass(300, Self::is_record_under_way)?;
        self.let_pass(pick.below(4), |_| false)?;
        self.lose_holder(lba)?;
        self.let_pass(pick.below(40), |_| false)?;
        self.cut(true, false, pick)
    }

    /// A device goes, maybe the last in sync, while a region is marked in which another is rebuilt whose boundary the devices know.
    fn lose_while_rebuilt(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        self.restart_clean(pick)?;
        if self.is_refused {
            return Ok(());
        }
        // Known to be in use, in a region far away.
        self.ask_at(HostOp::Write { fua: true }, Lba(self.volume_blocks.0 - 1))?;
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        let lba = self.stripes().lba(StripeIndex(pick.below(8)), 0, scene.first_row);
        self.look_at_states();
        let Some(target) = self.first_holder(lba).filter(|it| self.may_lose(*it)) else { return Ok(()) };
        self.lose(target)?;
        self.bring_back(target, pick)?;
        self.let_pass(WAIT_STEPS, |world| {
            let state = world.controller.kept_device_states().nth(target.index());
            matches!(state, Some(DeviceState::Rebuilding { boundary, .. }) if boundary > MemberLba::ZERO)
                && world.controller.is_state_kept()
        })?;
        self.ask_at(HostOp::Write { fua: pick.chance_pct(50) }, lba)?;
        self.let_pass(60, Self::is_map_under_way)?;
        let is_rebuilt = pick.chance_pct(50);
        if is_rebuilt {
            // The mark of this one waits for the next map, which the device that is rebuilt may get alone.
            let next = lba.0 + self.layout.shape().stripe_blocks().0;
            self.ask_at(HostOp::Write { fua: true }, Lba(next % self.volume_blocks.0))?;
        }
        for _ in 0..2 {
            self.look_at_states();
            let mut others = (0..self.devices.len() as u16).map(MemberIndex).filter(|it| *it != target);
            let is_fit = |it: &MemberIndex| is_in_sync(self.states[it.index()]) && self.may_lose(*it);
            if let Some(member) = others.find(is_fit).filter(|_| !self.has_lost()) {
                self.lose(member)?;
            }
        }
        self.let_pass(one_of(pick, &[8, 30, 100]), |_| false)?;
        self.cut(true, false, pick)?;
        if !is_rebuilt || self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        self.cut(true, false, pick)
    }

    /// All of a row but one block of data can't be read; then each of its blocks is written.
    fn lose_row(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let shape = self.layout.shape();
        let (kept, row) =
            (pick.below(u64::from(shape.data_strips)) as u16, scene.first_row + pick.below(scene.rows));
        let units: Vec<StripUnit> = self.stripes().units().collect();
        for unit in units {
            let is_kept = matches!(unit, StripUnit::Data { strip, .. } if strip == kept);
            let place = self.layout.place(scene.first, unit);
            let holder = self.stripes().holder(place).filter(|_| !is_kept);
            if let Some(member) = holder {
                let place = self.devices[member.index()].data.tags.place(place.start.0 + row);
                self.spoil_place(member, place);
            }
        }
        for strip in (0..shape.data_strips).map(|nth| (kept + nth) % shape.data_strips) {
            let lba = self.stripes().lba(scene.first, strip, row);
            self.ask_at(HostOp::Write { fua: pick.chance_pct(30) }, lba)?;
            self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)?;
        }
        self.cut(false, false, pick)
    }

    /// A block is written twice, each time with a record; then the log can't be read on some devices.
    fn write_over(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        for _ in 0..2 + pick.below(2) {
            self.ask_at(HostOp::Write { fua: pick.chance_pct(80) }, lba)?;
            self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)?;
        }
        self.arm_log_reads(pick);
        self.cut(true, false, pick)?;
        self.read_when_served(lba)
    }

    /// A block is written, and once more while neither another strip of its row nor parity can be read; then all can, and power is cut.
    fn flicker(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let (stripe, strip, _) = self.layout.locate(lba);
        let data_strips = self.layout.shape().data_strips;
        // With a block of the next strip, so that the record has parity and not what that is without one strip.
        let row_mate = self.stripes().lba(stripe, (strip + 1) % data_strips, scene.first_row);
        for lba in [row_mate, lba] {
            self.hand_in(HostOp::Write { fua: false }, lba, BlockCount(1));
        }
        self.destage()?;
        let other = (strip + 1 + pick.below(u64::from(data_strips).max(2) - 1) as u16) % data_strips;
        let parities = (0..self.layout.shape().parities).map(StripUnit::Parity);
        let units = parities.chain([StripUnit::Data { strip: other, copy: 0 }]);
        let holder = |unit| self.stripes().holder(self.layout.place(stripe, unit));
        let members: Vec<_> = units.filter_map(holder).collect();
        self.begin_outage_of(
            &members,
            if self.mode == TortureMode::Beyond { u64::from(u32::MAX) } else { 300 },
        );
        self.ask_at(HostOp::Write { fua: false }, lba)?;
        self.controller.handle_destage_all(self.now);
        self.pump()?;
        self.let_pass(WAIT_STEPS, |world| {
            world.waiting_count() == 0 && world.controller.dirty_cache_blocks() == 0
        })?;
        self.end_outages();
        self.destage()?;
        self.cut(true, false, pick)
    }

    /// Reads of most of a row fail for a while, in which blocks of it are written; then they are read again.
    pub(super) fn read_again(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        let (stripe, shape) = (StripeIndex(pick.below(self.layout.stripe_count().0)), self.layout.shape());
        let row = pick.below(shape.strip_blocks.0);
        let units: Vec<_> = self.stripes().units().filter(|_| pick.chance_pct(80)).collect();
        let holder = |unit: &StripUnit| self.stripes().holder(self.layout.place(stripe, *unit));
        let members: Vec<_> = units.iter().filter_map(holder).collect();
        self.begin_outage_of(&members, if self.mode == TortureMode::Beyond { 5_000 } else { 400 });
        let lbas: Vec<_> =
            (0..shape.data_strips).map(|strip| self.stripes().lba(stripe, strip, row)).collect();
        self.ask_at(HostOp::Read, one_of(pick, &lbas))?;
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        for _ in 0..pick.below(3) {
            let lba = one_of(pick, &lbas);
            self.look_at_states();
            if pick.chance_pct(30)
                && let Some(member) = self.first_holder(lba).filter(|it| self.may_lose(*it))
            {
                let doom = one_of(pick, &[Doom::Write, Doom::WriteKeepingOld, Doom::WriteKeepingOld]);
                self.devices[member.index()].presence = Presence::Doomed(doom);
            }
            self.ask_at(HostOp::Write { fua: pick.chance_pct(50) }, lba)?;
            self.let_pass(one_of(pick, &[10, WAIT_STEPS]), |world| world.waiting_count() == 0)?;
            if pick.chance_pct(30) {
                self.end_outages();
            }
        }
        self.end_outages();
        if pick.chance_pct(50) {
            self.cut(pick.chance_pct(70), false, pick)?;
        }
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        if pick.chance_pct(50) {
            self.ask_for_recovery()?;
            self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        }
        for lba in lbas {
            self.ask_at(HostOp::Read, lba)?;
        }
        self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)
    }

    /// Two records are retired, and one for the block of the second of them; power is cut while another is being stored.
    fn tear_record(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let other = Lba((lba.0 + self.layout.shape().stripe_blocks().0) % self.volume_blocks.0);
        for lba in [other, lba] {
            self.hand_in(HostOp::Write { fua: true }, lba, BlockCount(1));
        }
        self.destage()?;
        self.ask_at(HostOp::Write { fua: true }, lba)?;
        self.destage()?;
        self.ask_at(HostOp::Write { fua: true }, Lba(pick.below(self.volume_blocks.0)))?;
        self.controller.handle_destage_all(self.now);
        self.pump()?;
        self.let_pass(300, Self::is_record_under_way)?;
        self.let_pass(pick.below(3), |_| false)?;
        self.cut(true, false, pick)?;
        self.read_when_served(lba)
    }

    /// A stripe or a strip is torn, and the start that replays its record meets an error or a loss, and maybe another cut.
    fn harm_start(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let stripe_blocks = self.layout.shape().stripe_blocks();
        let is_whole = pick.chance_pct(60);
        let (lba, blocks) = if is_whole {
            (Lba(lba.0 / stripe_blocks.0 * stripe_blocks.0), stripe_blocks)
        } else {
            (lba, BlockCount(1))
        };
        self.destage()?;
        self.hand_in(HostOp::Write { fua: true }, lba, blocks);
        self.pump()?;
        self.controller.handle_destage_all(self.now);
        self.pump()?;
        // Some of what the record is of has arrived, and some has not.
        self.let_pass(300, Self::is_record_under_way)?;
        self.let_pass(300, |world| !world.is_record_under_way())?;
        self.let_pass(one_of(pick, &[0, 1, 2, 4, 8, 16]), |_| false)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(pick.below(30), |world| world.controller.is_serving())?;
        self.look_at_states();
        if let Some((member, _)) = self.any_unit_of(scene, pick).filter(|(member, _)| self.may_lose(*member))
        {
            match pick.below(4) {
                0 => self.devices[member.index()].presence = Presence::Doomed(Doom::Write),
                1 => self.devices[member.index()].presence = Presence::Doomed(Doom::WriteKeepingOld),
                2 => self.fail_next_read(member),
                _ => self.lose(member)?,
            }
        }
        self.let_pass(one_of(pick, &[20, 100, WAIT_STEPS]), |world| world.controller.is_idle())?;
        if pick.chance_pct(60) {
            self.cut(true, false, pick)?;
        }
        self.read_when_served(lba)
    }

    /// A whole stripe is written and not flushed, and a block of it is promised, whose device is away after a cut.
    fn promise_part(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let blocks = self.layout.shape().stripe_blocks();
        self.hand_in(HostOp::Write { fua: false }, Lba(lba.0 / blocks.0 * blocks.0), blocks);
        self.destage()?;
        self.ask_at(HostOp::Write { fua: true }, lba)?;
        self.destage()?;
        self.look_at_states();
        if let Some(member) = self.first_holder(lba).filter(|it| self.may_lose(*it)) {
            self.devices[member.index()].presence = Presence::Gone;
        }
        self.cut(false, false, pick)?;
        self.read_when_served(lba)
    }

    /// A cut tears a stripe. A block of it is written again, and before that is resynced the device goes which the block is for.
    fn lose_while_torn(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        let lba = self.any_lba_of(scene, pick);
        let blocks = self.layout.shape().stripe_blocks();
        self.hand_in(HostOp::Write { fua: true }, Lba(lba.0 / blocks.0 * blocks.0), blocks);
        self.pump()?;
        self.let_pass(one_of(pick, &[8, 30, 60]), |_| false)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        self.ask_at(HostOp::Write { fua: true }, lba)?;
        self.let_pass(pick.below(4), |_| false)?;
        self.lose_holder(lba)?;
        self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)?;
        self.ask_for_all(HostOp::Read, scene)?;
        let absent = self.pick_absent(pick).filter(|_| pick.chance_pct(50));
        let Some(member) = absent else { return Ok(()) };
        self.bring_back(MemberIndex(member as u16), pick)?;
        self.come_to_rest()
    }

    /// NVRAM with many records of the log is lost before the devices hear of it; it is back as it was when that of the
    /// next incarnation is lost.
    fn live_again(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        self.set_battery(BatteryState::Good)?;
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        for _ in 0..8 + pick.below(16) {
            let lba = self.any_lba_of(scene, pick);
            self.ask_at(HostOp::Write { fua: pick.chance_pct(50) }, lba)?;
            self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)?;
        }
        self.take_image_of_memory();
        self.order = self.slow_state();
        self.set_battery(BatteryState::Failed)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        self.ask_for_all(HostOp::Write { fua: true }, scene)?;
        self.cut(true, false, pick)?;
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        self.set_battery(BatteryState::Good)?;
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())?;
        self.cut(true, false, pick)?;
        self.ask_for_all(HostOp::Read, scene)
    }

    /// Starts the array with nothing marked, now and then: the first writes wait until it is known to be in use, and for the marks
    /// of their regions.
    fn restart_clean(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        if !self.can_restart() || pick.chance_pct(40) {
            return Ok(());
        }
        self.stop_and_start(pick)?;
        if self.is_refused { Ok(()) } else { self.let_pass(WAIT_STEPS, |world| world.controller.is_idle()) }
    }

    /// The order in which writes of the state take longer than all else.
    pub(super) const fn slow_state(&self) -> FinishOrder {
        FinishOrder::SlowState(AreaLayout::TAIL_BYTES / self.config.block_size.bytes())
    }

    /// Asks for one block.
    pub(super) fn ask_at(&mut self, op: HostOp, lba: Lba) -> Result<(), Failure> {
        self.hand_in(op, lba, BlockCount(1));
        self.pump()
    }

    /// Lets all that was asked for reach the devices.
    pub(super) fn destage(&mut self) -> Result<(), Failure> {
        self.pump()?;
        self.controller.handle_destage_all(self.now);
        self.pump()?;
        self.let_pass(WAIT_STEPS, |world| world.controller.is_idle())
    }

    /// Reads a block when the array that was started serves.
    pub(super) fn read_when_served(&mut self, lba: Lba) -> Result<(), Failure> {
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        self.ask_at(HostOp::Read, lba)?;
        self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)
    }

    /// Asks for all of the scene's stripes when the array serves, and waits for the answers.
    pub(super) fn ask_for_all(&mut self, op: HostOp, scene: Scene) -> Result<(), Failure> {
        if self.is_refused {
            return Ok(());
        }
        self.let_pass(WAIT_STEPS, |world| world.controller.is_serving())?;
        let blocks = self.layout.shape().stripe_blocks();
        for stripe in scene.first.0..scene.first.0 + scene.stripes {
            self.hand_in(op, Lba(stripe * blocks.0), blocks);
        }
        self.pump()?;
        self.let_pass(WAIT_STEPS, |world| world.waiting_count() == 0)
    }

    /// True when nothing is under way but what the devices are to know.
    fn is_all_but_told(&self) -> bool {
        let end = self.front_blocks();
        !self.flights.is_empty()
            && self.flights.iter().all(|it| metadata_written(it.work).is_some_and(|lba| lba < end))
    }

    /// True while a record is on its way to a device or into NVRAM.
    pub(super) fn is_record_under_way(&self) -> bool {
        let end = self.front_blocks();
        let is_for_nvram = |it: &MemoryStep| it.destinations[0].space == BufferSpace::NvramLog;
        self.flights.iter().any(|it| {
            metadata_written(it.work).is_some_and(|lba| lba >= end) || it.steps.steps.iter().any(is_for_nvram)
        })
    }

    /// Blocks of a metadata area before the log.
    const fn front_blocks(&self) -> u64 {
        AreaLayout::FRONT_BYTES / self.config.block_size.bytes()
    }

    /// The device that holds a block, or its first copy.
    fn first_holder(&self, lba: Lba) -> Option<MemberIndex> {
        let (stripe, strip, _) = self.layout.locate(lba);
        self.stripes().holder(self.layout.place(stripe, StripUnit::Data { strip, copy: 0 }))
    }

    /// Takes away a device of the scene, where it may be lost.
    fn lose_unit_of(&mut self, scene: Scene, pick: &mut Rng) -> Result<(), Failure> {
        self.look_at_states();
        let victim = self.any_unit_of(scene, pick).filter(|(member, _)| self.may_lose(*member));
        victim.map_or(Ok(()), |(member, _)| self.lose(member))
    }

    /// Takes devices away that have no copy of a block, up to so many, until the array has failed.
    pub(super) fn lose_some_without(&mut self, lba: Lba, most: usize, pick: &mut Rng) -> Result<(), Failure> {
        let (stripe, strip, _) = self.layout.locate(lba);
        let copies = (0..self.layout.shape().copies).map(|copy| StripUnit::Data { strip, copy });
        let holders: Vec<MemberIndex> = copies
            .map(|unit| self.layout.place(stripe, unit))
            .filter_map(|at| self.stripes().holder(at))
            .collect();
        let first = pick.below(self.devices.len() as u64) as usize;
        let round = (0..self.devices.len()).map(|nth| (first + nth) % self.devices.len());
        let mut lost = 0;
        for member in round.map(|index| MemberIndex(index as u16)).collect::<Vec<_>>() {
            self.look_at_states();
            let is_in_sync = matches!(self.states[member.index()], DeviceState::InSync { .. });
            if lost < most
                && is_in_sync
                && !holders.contains(&member)
                && !self.has_lost()
                && self.may_lose(member)
            {
                self.lose(member)?;
                lost += 1;
            }
        }
        Ok(())
    }
}

/// The first block of metadata that is being written.
fn metadata_written(work: Work) -> Option<u64> {
    match work {
        Work::Member(io) if io.area == Area::Metadata && matches!(io.op, MemberOp::Write { .. }) => {
            Some(io.lba.0)
        }
        _ => None,
    }
}
