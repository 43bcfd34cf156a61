//! Faults: what a plan does to the array, and when.
//!
//! A fault is an event at a count of host requests. What it hits (which member, which block) it draws from a seed of its
//! own, so taking one fault out of a plan leaves the others as they are, and a plan that fails can be shrunk.
//!
//! | fault | what happens | not injected, in a bounded plan, if |
//! |---|---|---|
//! | metadata rot | a block of a member's metadata, in either copy, changes, now or while power is off: see `rot.rs` | another has rotted since the latest start, or some device is not as it should be |
//! | late write | a member goes and comes back, and what was being written to it lands after that: see `absence.rs` | as for pulled |
//! | hang | I/O of a member does not end until the loss of the member is told: see `absence.rs` | as for pulled |
//! | clock jump | the clock jumps: timers are late, and many are due at once | |
//! | cut at a moment | power fails between two actions at a chosen moment: see `moments.rs` | as for a power cut |
//! | peer failover | the second controller goes, comes back with blank memory and takes over as soon as it may | as for a controller failover |
//! | host retry | from now on, or no longer, the host repeats writes that failed or that a cut left without an answer | |
//! | old image | a device that was replaced, or NVRAM that was lost, comes back as it was in an older incarnation: see `relics.rs` | the device that is there now may not be lost; NVRAM is promised |
//! | sector tear | from now on, or no longer, power cuts tear blocks that are longer than a sector: see `sectors.rs` | blocks are no longer |
//! | latent error | a block can't be read until it is written | a stripe would miss more than the level survives |
//! | write error | the next write to a member fails, and what it was to write can't be read | the level would not survive the member's loss |
//! | stale write | the next write to a member fails, and what was there can be read: see `media.rs` | the same |
//! | flush error | the next flush of a member fails, and what was in its cache may be lost | the same; members have no cache |
//! | transient read error | one read of a member's data, or of the log at a start, fails | a stripe would miss more than the level survives; for the log, some device is not as it should be |
//! | error region | a run of neighbouring blocks can't be read, of one member or of several | as for a latent error, block by block |
//! | pulled | a member is gone and the controller is told | the same |
//! | died | a member is gone and the next I/O to it says so | the same |
//! | battery | the battery fails, or is good again | |
//! | power cut | power fails and comes back: see `power.rs` | the array keeps nothing on its devices, or a block that can't be read, or is called bad, meets a write hole |
//! | stop | the array is stopped cleanly and started again | the array keeps nothing on its devices |
//! | returned | a device that is gone or missing is there again, as it was or blank, and the controller is told | |
//! | failed by hand | the operator fails a healthy device | as for pulled |
//! | check, repair, scan stop | the operator asks for it | |
//! | corruption | of an array at rest some parity, or copies but the first, change silently, and data where the rest of its row tells; a check must count them, a repair mend what the evidence decides and leave the rest, a repair from the data mend that | beyond the bounds always: what else disagrees there can't be told |
//! | peer | the second controller goes, or comes back with blank memory | the cache is not mirrored; what was restored at a start is still only here |
//! | controller failover | the controller is gone, the second one takes over: see `failover.rs` | as for a power cut; the second has not got all that is dirty |
//! | silent corruption, lost write, wrong-place write | a device corrupts data without an error: see `silent_corruption.rs` | as for a latent error; or blocks have no tags |
//! | zeroed range | a run of places of a member, or all to its end, becomes zeros, tags and all, now or while the array is stopped: see `silent_corruption.rs` | as for a latent error, strip by strip; or blocks have no tags |
//! | read outage | reads of the data of a member or of several fail for a while: see `media.rs` | it is longer than the array tries again; another is not long over; something of them can't be read |
//! | recover | the operator has bad blocks tried once more | |
//! | order | another order in which actions finish: any, oldest or newest first, one member or memory last | |

use super::flights::FinishOrder;
use super::members::Presence;
use super::plan::TortureMode;
use super::trace::TraceEvent;
use super::violation::Failure;
use super::world::{TortureWorld, is_in_sync};
use raidlab_controller::{BatteryState, Scan};
use raidlab_units::{BlockSize, MemberIndex, StripeIndex};
use raidlab_workload::Rng;
use serde::{Deserialize, Serialize};

/// What goes wrong. See the module's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A block can't be read until it is written.
    LatentError,
    /// The next write to a member fails.
    WriteError,
    /// A member is gone, and the controller is told.
    Pulled,
    /// A member is gone, and the controller finds out.
    Died,
    /// The battery changes its state.
    Battery,
    /// Actions finish in another order.
    Order,
    /// Power fails and comes back.
    PowerCut,
    /// The array is stopped cleanly and started again.
    Stop,
    /// A device that was gone is there again.
    Returned,
    /// The operator fails a healthy device.
    FailedByHand,
    /// The operator asks for a check.
    Check,
    /// The operator asks for a repair.
    Repair,
    /// The operator stops a check or repair.
    ScanStop,
    /// Redundancy is corrupted silently, found and mended.
    Corruption,
    /// The second controller goes, or comes back.
    Peer,
    /// The controller is gone, and the second one takes over.
    Failover,
    /// Bytes of a block change.
    SilentCorruption,
    /// A write is acknowledged and not done.
    LostWrite,
    /// A write goes to another place.
    WrongPlaceWrite,
    /// The next flush of a member fails.
    FlushError,
    /// The next write to a member fails, and what was there can be read.
    StaleWrite,
    /// A read fails once.
    TransientRead,
    /// Neighbouring blocks can't be read, of one member or several.
    ErrorRegion,
    /// Metadata of a member changes.
    MetadataRot,
    /// A member goes and comes back, and writes land after that.
    LateWrite,
    /// I/O of a member does not end.
    Hang,
    /// The clock jumps.
    ClockJump,
    /// Power fails at a chosen moment.
    CutAtMoment,
    /// The second controller goes, comes, and takes over as soon as it may.
    PeerFailover,
    /// The host begins or ceases to repeat writes.
    HostRetry,
    /// An image of an older incarnation comes back.
    OldImage,
    /// From now on, or no longer, power cuts tear blocks at sectors.
    SectorTear,
    /// A range of a member becomes zeros, tags and all.
    ZeroedRange,
    /// Reads of a member fail for a while.
    ReadOutage,
    /// The operator has bad blocks tried once more.
    Recover,
}

impl Fault {
    /// True if only arrays whose blocks have tags survive it.
    pub const fn is_lie(self) -> bool {
        matches!(self, Self::SilentCorruption | Self::LostWrite | Self::WrongPlaceWrite | Self::ZeroedRange)
    }

    /// True if it waits for its moment, and is counted when that comes.
    const fn waits(self) -> bool {
        matches!(
            self,
            Self::LostWrite
                | Self::WrongPlaceWrite
                | Self::ZeroedRange
                | Self::TransientRead
                | Self::CutAtMoment
                | Self::PeerFailover
                | Self::OldImage
        )
    }

    /// How many kinds there are.
    pub const COUNT: usize = 35;
    /// Every kind, in the order of [`super::TortureReport::faults`].
    pub const ALL: [Self; Self::COUNT] = [
        Self::LatentError,
        Self::WriteError,
        Self::Pulled,
        Self::Died,
        Self::Battery,
        Self::Order,
        Self::PowerCut,
        Self::Stop,
        Self::Returned,
        Self::FailedByHand,
        Self::Check,
        Self::Repair,
        Self::ScanStop,
        Self::Corruption,
        Self::Peer,
        Self::Failover,
        Self::SilentCorruption,
        Self::LostWrite,
        Self::WrongPlaceWrite,
        Self::FlushError,
        Self::StaleWrite,
        Self::TransientRead,
        Self::ErrorRegion,
        Self::MetadataRot,
        Self::LateWrite,
        Self::Hang,
        Self::ClockJump,
        Self::CutAtMoment,
        Self::PeerFailover,
        Self::HostRetry,
        Self::OldImage,
        Self::SectorTear,
        Self::ZeroedRange,
        Self::ReadOutage,
        Self::Recover,
    ];

    /// Its name in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LatentError => "latent-error",
            Self::WriteError => "write-error",
            Self::Pulled => "pulled",
            Self::Died => "died",
            Self::Battery => "battery",
            Self::Order => "order",
            Self::PowerCut => "power-cut",
            Self::Stop => "stop",
            Self::Returned => "returned",
            Self::FailedByHand => "failed-by-hand",
            Self::Check => "check",
            Self::Repair => "repair",
            Self::ScanStop => "scan-stop",
            Self::Corruption => "corruption",
            Self::Peer => "peer",
            Self::Failover => "controller-failover",
            Self::SilentCorruption => "silent-corruption",
            Self::LostWrite => "lost-write",
            Self::WrongPlaceWrite => "wrong-place-write",
            Self::FlushError => "flush-error",
            Self::StaleWrite => "stale-write",
            Self::TransientRead => "transient-read-error",
            Self::ErrorRegion => "error-region",
            Self::MetadataRot => "metadata-rot",
            Self::LateWrite => "late-write",
            Self::Hang => "hang",
            Self::ClockJump => "clock-jump",
            Self::CutAtMoment => "cut-at-moment",
            Self::PeerFailover => "peer-failover",
            Self::HostRetry => "host-retry",
            Self::OldImage => "old-image",
            Self::SectorTear => "sector-tear",
            Self::ZeroedRange => "zeroed-range",
            Self::ReadOutage => "read-outage",
            Self::Recover => "recover",
        }
    }
}

/// A fault of a plan. Written as a line: `120 power-cut 0x5eed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct FaultEvent {
    /// Host requests made before it.
    pub after_ops: u64,
    /// What.
    pub fault: Fault,
    /// Seed of what it hits.
    pub pick: u64,
}

impl TortureWorld {
    /// Injects a fault, the `index`-th of its plan, where the mode allows it.
    pub(super) fn inject(&mut self, index: usize, event: &FaultEvent) -> Result<(), Failure> {
        self.look_at_states();
        if self.controller.is_idle() {
            self.trust_suspects();
        }
        let mut pick = Rng::new(event.pick);
        let Some(hit) = self.aim(event.fault, &mut pick) else { return Ok(()) };
        self.report.faults[event.fault as usize] += u64::from(!event.fault.waits());
        self.tick(TraceEvent::Fault(index, event.fault, hit));
        self.strike(event.fault, MemberIndex(hit as u16), &mut pick)
    }

    /// What a fault hits; nothing where the mode does not allow it. What changes without a word is changed here.
    fn aim(&mut self, fault: Fault, pick: &mut Rng) -> Option<u64> {
        match fault {
            Fault::LatentError => self.spoil_block(pick),
            Fault::WriteError
            | Fault::StaleWrite
            | Fault::Pulled
            | Fault::Died
            | Fault::LateWrite
            | Fault::FailedByHand => self.pick_victim(pick),
            Fault::FlushError => self.pick_flush_victim(pick),
            Fault::Hang => self.pick_hang_victim(pick),
            Fault::TransientRead => Some(self.arm_read(pick)),
            Fault::ErrorRegion => self.spoil_region(pick),
            Fault::ReadOutage => self.begin_outage(pick),
            Fault::MetadataRot => self.rot(pick),
            Fault::OldImage => self.take_image(pick),
            Fault::Battery
            | Fault::Order
            | Fault::Check
            | Fault::Repair
            | Fault::Recover
            | Fault::ScanStop
            | Fault::ClockJump
            | Fault::HostRetry => Some(0),
            Fault::Corruption => self.has_redundancy_to_corrupt().then_some(0),
            Fault::Peer => self.may_change_peer().then_some(0),
            Fault::PeerFailover => self.config.cache.mirror.then_some(0),
            Fault::Failover => self.may_fail_over().then_some(0),
            Fault::PowerCut | Fault::CutAtMoment => self.may_crash().then_some(0),
            Fault::SectorTear => (self.config.block_size != BlockSize::B512).then_some(0),
            Fault::Stop => self.can_restart().then_some(0),
            Fault::Returned => self.pick_absent(pick),
            Fault::SilentCorruption => self.corrupt_block(pick),
            Fault::LostWrite | Fault::WrongPlaceWrite => self.arm(fault, pick),
            Fault::ZeroedRange => self.zero_range(pick),
        }
    }

    /// Does what a fault does to the controller or the world.
    fn strike(&mut self, fault: Fault, member: MemberIndex, pick: &mut Rng) -> Result<(), Failure> {
        match fault {
            Fault::ReadOutage if pick.chance_pct(50) => return self.read_again(pick),
            Fault::LatentError
            | Fault::ReadOutage
            | Fault::SilentCorruption
            | Fault::LostWrite
            | Fault::WrongPlaceWrite
            | Fault::TransientRead
            | Fault::ErrorRegion
            | Fault::MetadataRot
            | Fault::ZeroedRange
            | Fault::OldImage => {}
            Fault::WriteError | Fault::StaleWrite | Fault::FlushError => {
                self.devices[member.index()].presence = Presence::Doomed(Self::doom_of(fault));
            }
            Fault::Hang => self.hang(member, pick),
            Fault::ClockJump => self.jump(pick),
            Fault::SectorTear => self.torn.is_on = !self.torn.is_on,
            Fault::HostRetry => {
                self.hosts.again = if self.hosts.again.is_none() { Some(Vec::new()) } else { None }
            }
            Fault::Order => self.order = FinishOrder::draw(pick, self.config.members),
            Fault::Died => self.devices[member.index()].presence = Presence::Gone,
            Fault::Pulled => {
                self.devices[member.index()].presence = Presence::Gone;
                self.controller.handle_member_loss(self.now, member);
                return self.pump();
            }
            Fault::LateWrite => return self.return_with_writes(member, pick),
            Fault::Battery => return self.change_battery(pick),
            Fault::PowerCut => return self.power_cut(pick),
            Fault::CutAtMoment => return self.set_trap(pick),
            Fault::Stop => return self.stop_and_start(pick),
            Fault::Returned => return self.bring_back(member, pick),
            Fault::FailedByHand => return self.fail_by_hand(member),
            Fault::Check => return self.ask_for_scan(Scan::Check),
            Fault::Repair => return self.ask_for_scan(Scan::Repair),
            Fault::Recover => return self.ask_for_recovery(),
            Fault::ScanStop => return self.stop_scan(),
            Fault::Corruption => return self.corrupt_and_mend(pick),
            Fault::Peer => return self.change_peer(pick),
            Fault::PeerFailover => return self.renew_peer(pick),
            Fault::Failover => return self.fail_over(pick),
        }
        Ok(())
    }

    /// A device that may be lost.
    pub(super) fn pick_victim(&self, pick: &mut Rng) -> Option<u64> {
        let victim = MemberIndex(pick.below(self.devices.len() as u64) as u16);
        self.may_lose(victim).then_some(u64::from(victim.0))
    }

    /// Whether the mode allows the loss of a device.
    pub(super) fn may_lose(&self, victim: MemberIndex) -> bool {
        let is_here = self.devices[victim.index()].presence == Presence::Here;
        let allowed = match self.mode {
            TortureMode::Bounded => {
                // A record may be on the victim only until the start has written it in place.
                let is_replaying = !self.controller.is_serving();
                let is_survived = self.stripes().survives_loss_of(victim) && self.keeps_half_without(victim);
                // Until the devices know that all agrees again, they call all in doubt.
                let is_doubted = self.is_in_doubt() || !self.controller.is_state_kept();
                let is_settled = self.media.start_errors == 0 || !is_doubted;
                let is_known = is_settled && self.is_rot_survived_without(victim);
                !is_replaying && !self.is_resyncing() && is_survived && is_known
            }
            TortureMode::Beyond => {
                self.devices.iter().filter(|device| device.presence == Presence::Here).count() > 1
            }
        };
        is_here && allowed
    }

    /// Whether half of the members are left without `victim`, of those that count before the devices know who is gone:
    /// more than half could start by themselves.
    fn keeps_half_without(&self, victim: MemberIndex) -> bool {
        let left = self.members_that_count().filter(|device| *device != victim.index()).count();
        let in_sync = self.states.iter().filter(|state| is_in_sync(**state)).count();
        let is_kept = self.controller.is_state_kept();
        2 * left >= if is_kept { in_sync } else { usize::from(self.config.members) }
    }

    /// Devices that answer and hold what their place in the array says: a start can count on them.
    pub(super) fn members_that_count(&self) -> impl Iterator<Item = usize> + '_ {
        let counts =
            |device: &usize| self.proven[*device] && self.devices[*device].presence == Presence::Here;
        (0..self.devices.len()).filter(counts)
    }

    /// Makes a block of a member unreadable and returns its member, if that may be.
    fn spoil_block(&mut self, pick: &mut Rng) -> Option<u64> {
        let stripes = self.stripes();
        let stripe = StripeIndex(pick.below(self.layout.stripe_count().0));
        let nth = pick.below(stripes.units().count() as u64) as usize;
        let unit = stripes.units().nth(nth)?;
        let place = self.layout.place(stripe, unit);
        let (victim, device) = stripes.fit_holder(place)?;
        let tags = device.data.tags;
        let strip_places = if tags.is_on() { tags.pitch() } else { stripes.shape().strip_blocks.0 };
        let block = tags.place(place.start.0) + pick.below(strip_places);
        let survives = || {
            let is_calm = !self.is_resyncing() && !self.has_outage(victim);
            is_calm && stripes.survives(stripe, |other, _| other == unit)
        };
        let allowed = self.mode == TortureMode::Beyond || survives();
        allowed.then(|| {
            self.devices[victim.index()].data.spoil(block);
            self.note_unreadable(victim, block, 1, false);
            u64::from(victim.0)
        })
    }

    fn change_battery(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        self.set_battery(match self.battery {
            BatteryState::Good => super::arrays::pick(
                pick,
                &[BatteryState::Charging, BatteryState::Learning, BatteryState::Failed],
            ),
            _ => BatteryState::Good,
        })
    }

    pub(super) fn set_battery(&mut self, battery: BatteryState) -> Result<(), Failure> {
        self.battery = battery;
        self.battery_changed = self.stamp;
        self.note(TraceEvent::Battery(self.battery));
        self.controller.handle_battery(self.now, self.battery);
        self.pump()
    }
}
