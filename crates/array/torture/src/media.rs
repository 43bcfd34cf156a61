//! What media do: accesses that fail, once or for good, and regions that go bad together.
//!
//! | fault | what happens | what the array may find after that |
//! |---|---|---|
//! | write error | a write stops on the way | what it was to write can't be read; a device that failed metadata is unfit |
//! | write error that keeps the old | the same | its front may be new, the rest is what was there, with the old tags or the new |
//! | flush error | a flush fails, and all that is in flight there | the device is unfit; each of its volatile writes may be gone |
//! | transient read error | one read fails | all is as it was |
//! | read outage | all reads of the data of a device, or of several, fail for a while | all is as it was, if that was short; else what was read meanwhile may be called bad |
//! | error region | a run of blocks of a device can't be read, or the same of several | |
//!
//! What can be read although an access to it has failed is *suspect* (`members.rs`). For the bounds a suspect block counts as missing:
//! the array has reason to restore it, and not to use it meanwhile. A write ends that. So does a start that does not call the block
//! bad: from then on it must hold what the host may find.
//!
//! **A short outage is none.** One that ends before the array ceases to try again must not be seen, whatever else is missing: within the
//! bounds nothing is suspect after it.

use super::arrays::pick as one_of;
use super::faults::Fault;
use super::flights::{Flight, Work};
use super::members::{Doom, Presence};
use super::plan::TortureMode;
use super::world::TortureWorld;
use raidlab_controller::{Area, MemberCache, MemberIo, MemberOp};
use raidlab_raid::StripUnit;
use raidlab_units::{MemberIndex, NanoSpan, Nanos, StripeIndex};
use raidlab_workload::Rng;

/// Reads of a start that may fail while each record of the log is on one more device.
const START_ERRORS_MAX: u32 = 1;

/// A device whose next read of an area fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailingRead {
    member: MemberIndex,
    area: Area,
}

/// How long outages last that the array must survive: it tries again for 520 ms.
const SHORT_MS: [u64; 5] = [1, 15, 90, 300, 500];
/// And others. While reads fail and writes don't, the array writes what it could not read again and again.
const LONG_MS: [u64; 2] = [700, 900];
/// For how long, at most, the array does not wait for a device that it has waited for in vain.
const CALM: NanoSpan = NanoSpan::from_millis(1_100);

/// A time in which reads of a device fail.
#[derive(Clone, Copy, Debug)]
struct Outage {
    member: MemberIndex,
    until: Nanos,
}

/// Accesses that will fail, and have failed.
#[derive(Debug, Default)]
pub(super) struct Media {
    /// Devices of which a read will fail.
    pub(super) failing_reads: Vec<FailingRead>,
    outages: Vec<Outage>,
    /// Reads of metadata that have failed since the latest start.
    pub(super) start_errors: u32,
    /// A device has dropped volatile writes with a flush that failed, since the latest start.
    pub(super) has_dropped: bool,
    /// Metadata rots with the next power cut.
    pub(super) rots_at_cut: Option<Rng>,
    /// Records may be on one device each, since the array served last.
    pub(super) has_single_records: bool,
}

impl TortureWorld {
    /// What a device that is hit will fail.
    pub(super) const fn doom_of(fault: Fault) -> Doom {
        match fault {
            Fault::StaleWrite => Doom::WriteKeepingOld,
            Fault::FlushError => Doom::Flush,
            _ => Doom::Write,
        }
    }

    /// A device that may be lost with a flush that fails, where there are flushes.
    pub(super) fn pick_flush_victim(&self, pick: &mut Rng) -> Option<u64> {
        self.pick_victim(pick).filter(|_| self.config.member_cache == MemberCache::On)
    }

    /// Lets a write or flush of a doomed device fail.
    pub(super) fn fail_as_doomed(&mut self, doom: Doom, io: &MemberIo, flight: &Flight) {
        let is_write = io.area == Area::Data && io.op != MemberOp::Flush;
        let device = &mut self.devices[io.member.index()];
        device.presence = if is_write { Presence::Here } else { Presence::Unfit };
        if io.op == MemberOp::Flush {
            self.media.has_dropped = true;
            device.data.lose_power(&mut self.random);
            device.metadata.lose_power(&mut self.random);
            // A device that has forgotten says so before it reads what was there before.
            return self.cut_off(io.member);
        }
        // It stops somewhere on the way.
        let area = device.area_mut(io.area);
        let done = self.random.below(io.blocks.0);
        if done > 0 {
            let bytes = area.write(io.lba.0, done, false);
            let front = super::actions::cut(&flight.segments, bytes.len() as u64);
            self.memories.gather(self.controller.own_memory(), bytes, &front);
        }
        if is_write {
            let places = io.lba.0..io.lba.0 + io.blocks.0;
            match doom {
                Doom::WriteKeepingOld => places.for_each(|place| area.suspect(place)),
                _ => places.for_each(|place| area.spoil(place)),
            }
            self.look_at_states();
            self.note_unreadable(io.member, io.lba.0, io.blocks.0, doom == Doom::WriteKeepingOld);
        }
    }

    /// Lets one of the next reads of a device fail.
    pub(super) fn arm_read(&mut self, pick: &mut Rng) -> u64 {
        let member = MemberIndex(pick.below(self.devices.len() as u64) as u16);
        let area = if pick.below(4) == 0 { Area::Metadata } else { Area::Data };
        self.media.failing_reads.push(FailingRead { member, area });
        u64::from(member.0)
    }

    /// Lets the next read of a device's data area fail.
    pub(super) fn fail_next_read(&mut self, member: MemberIndex) {
        self.media.failing_reads.push(FailingRead { member, area: Area::Data });
    }

    /// Lets the next read of the log fail on some devices.
    pub(super) fn arm_log_reads(&mut self, pick: &mut Rng) {
        for member in (0..self.devices.len() as u16).map(MemberIndex) {
            if pick.chance_pct(60) {
                self.media.failing_reads.push(FailingRead { member, area: Area::Metadata });
            }
        }
    }

    /// Lets reads of a device or of several fail for a while, if that may be. Returns the first.
    pub(super) fn begin_outage(&mut self, pick: &mut Rng) -> Option<u64> {
        let devices = self.devices.len() as u64;
        let (first, count) = (pick.below(devices), 1 + pick.below(3).min(devices - 1));
        let members: Vec<_> = (0..count).map(|nth| MemberIndex(((first + nth) % devices) as u16)).collect();
        let is_long = self.mode == TortureMode::Beyond && pick.chance_pct(50);
        let millis = if is_long { one_of(pick, &LONG_MS) } else { one_of(pick, &SHORT_MS) };
        self.begin_outage_of(&members, millis).then_some(first)
    }

    /// Lets reads of devices fail for a while, if that may be.
    pub(super) fn begin_outage_of(&mut self, members: &[MemberIndex], millis: u64) -> bool {
        if self.mode == TortureMode::Bounded {
            let is_whole = |it: &MemberIndex| self.devices[it.index()].data.is_readable();
            // A read that waits to be tried again, or is, would meet a second outage. The last timer is theirs.
            let is_read = |io: &MemberIo| io.op == MemberOp::Read && io.area == Area::Data;
            let mut flights = self.flights.iter();
            let any_read = flights.any(|flight| matches!(&flight.work, Work::Member(io) if is_read(io)));
            let any_waits = any_read || self.timers.last().is_some_and(Option::is_some);
            let is_quiet = self.controller.is_serving() && !self.is_in_doubt() && !any_waits;
            if !is_quiet || !members.iter().all(is_whole) {
                return false;
            }
            // A device that was waited for in vain is not waited for at once.
            self.now += CALM;
        }
        let until = self.now + NanoSpan::from_millis(millis);
        self.media.outages.retain(|outage| !members.contains(&outage.member));
        self.media.outages.extend(members.iter().map(|&member| Outage { member, until }));
        true
    }

    /// Lets all reads of data succeed again that nothing else keeps from it.
    pub(super) fn end_outages(&mut self) {
        self.media.outages.clear();
    }

    /// True while nothing else may go wrong with reads of a device, so that an outage stays as short as it is.
    pub(super) fn has_outage(&self, member: MemberIndex) -> bool {
        self.media.outages.iter().any(|it| it.member == member && self.now < it.until + CALM)
    }

    /// Whether a read meets an outage.
    pub(super) fn meets_outage(&mut self, io: &MemberIo) -> bool {
        let is_it = |outage: &Outage| outage.member == io.member && self.now < outage.until;
        if io.op != MemberOp::Read || io.area != Area::Data || !self.media.outages.iter().any(is_it) {
            return false;
        }
        self.audit.is_vague = true;
        if self.mode == TortureMode::Beyond {
            self.suspect_all(io);
        }
        true
    }

    /// Gives the array reason not to use what it could not read.
    fn suspect_all(&mut self, io: &MemberIo) {
        let places = io.lba.0..io.lba.0 + io.blocks.0;
        places.for_each(|place| self.devices[io.member.index()].data.suspect(place));
        self.note_unreadable(io.member, io.lba.0, io.blocks.0, false);
    }

    /// Whether a read fails once, as it was to, and the mode allows it now.
    pub(super) fn fails_once(&mut self, io: &MemberIo) -> bool {
        let read = FailingRead { member: io.member, area: io.area };
        let armed = self.media.failing_reads.iter().position(|it| *it == read);
        let Some(index) = armed.filter(|_| io.op == MemberOp::Read) else { return false };
        self.look_at_states();
        let is_allowed = match io.area {
            Area::Data => self.may_fail_read(io),
            Area::Metadata => self.may_fail_start_read(),
        };
        if !is_allowed {
            return false;
        }
        self.media.failing_reads.remove(index);
        self.report.faults[Fault::TransientRead as usize] += 1;
        if io.area == Area::Metadata {
            self.media.start_errors += 1;
        } else {
            self.audit.is_vague = true;
            self.suspect_all(io);
        }
        true
    }

    fn may_fail_read(&self, io: &MemberIo) -> bool {
        let place = |at| self.unit_of(io.member, io.lba.0 + at);
        let units: Option<Vec<_>> = (0..io.blocks.0).map(place).collect();
        let is_quiet = self.controller.is_serving() && !self.is_in_doubt() && !self.has_outage(io.member);
        self.mode == TortureMode::Beyond
            || units.is_some_and(|units| is_quiet && units.iter().all(|it| self.survives_with(*it)))
    }

    /// Whether `stripe` would survive the loss of a unit.
    fn survives_with(&self, (stripe, unit): (StripeIndex, StripUnit)) -> bool {
        self.stripes().survives(stripe, |other, _| other == unit)
    }

    /// Whether a start may lack what is read of the log on one device.
    fn may_fail_start_read(&self) -> bool {
        let is_whole = |device: &super::members::Device| {
            device.presence == Presence::Here && device.data.is_readable() && !device.is_rotten()
        };
        let members = usize::from(self.config.members);
        let is_complete =
            self.devices.iter().all(is_whole) && self.proven.iter().filter(|it| **it).count() == members;
        self.mode == TortureMode::Beyond || (is_complete && self.media.start_errors < START_ERRORS_MAX)
    }

    /// True while redundancy may disagree somewhere.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.is_resyncing() || self.controller.out_of_sync_stripes() > 0
    }

    /// Makes runs of blocks unreadable, at the same place of one device or several, as far as that may be. Returns the first.
    pub(super) fn spoil_region(&mut self, pick: &mut Rng) -> Option<u64> {
        let places = self.config.member_size.0 / self.config.block_size.bytes();
        let first = pick.below(places);
        let count = 1 + pick.below(24);
        let devices = self.devices.len() as u64;
        let (hit, spread) = (pick.below(devices), 1 + pick.below(3));
        let mut any = false;
        for nth in 0..spread {
            let member = MemberIndex(((hit + nth) % devices) as u16);
            for place in first..(first + count).min(places) {
                any |= self.spoil_place(member, place);
            }
        }
        any.then_some(hit)
    }

    pub(super) fn spoil_place(&mut self, member: MemberIndex, place: u64) -> bool {
        let Some(unit) = self.unit_of(member, place) else { return false };
        let is_calm = !self.is_in_doubt() && !self.has_outage(member);
        let is_allowed = self.mode == TortureMode::Beyond || (is_calm && self.survives_with(unit));
        if is_allowed && !self.devices[member.index()].is_out() {
            self.devices[member.index()].data.spoil(place);
            self.note_unreadable(member, place, 1, false);
            return true;
        }
        false
    }

    /// Takes what can be read for what should be there, unless the controller calls it bad: when it has just started, or all
    /// is quiet.
    pub(super) fn trust_suspects(&mut self) {
        for index in (0..self.devices.len())
            .filter(|index| self.devices[*index].data.has_suspects())
            .collect::<Vec<_>>()
        {
            let member = MemberIndex(index as u16);
            let bad: Vec<_> = self.controller.bad_blocks().collect();
            let device = &mut self.devices[index].data;
            let tags = device.tags;
            let is_bad = |place| {
                let strip = tags.strip(place) * tags.strip_blocks();
                let blocks = tags.block(place).map_or(strip..strip + tags.strip_blocks(), |it| it..it + 1);
                bad.iter().any(|range| {
                    range.0 == member && range.1.0 < blocks.end && blocks.start < range.1.0 + range.2.0
                })
            };
            device.trust(is_bad);
        }
    }
}
