//! The same hardware with one part faster, to find out how much that part limits.
//!
//! A part is made faster by shortening its own times and raising its rates by the same share; the simulation shows the
//! effect on the others. [`DrivePart::All`] speeds up the drive's clock, which leaves nothing out, whatever the model
//! of the drive is made of.
//!
//! Left out: real products. A drive of 16,500 rpm is a question, not a product.

use crate::controller::{CommandCost, ControllerModel, MemoryCost, ParityWorker};
use crate::drive::{DriveKind, DriveModel};
use crate::hdd::{MechanicsModel, SeekAnchors};
use crate::link::LinkModel;
use crate::ssd::CapModel;
use raidlab_units::{BytesPerSec, NanoSpan, Nanos};

/// How much faster, in percent; below zero it is slower, down to almost -100.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FasterPct(pub f64);

/// Parts of a whole that [`FasterPct`] is counted in where times are whole nanoseconds.
const WHOLE: u128 = 100_000;

impl FasterPct {
    /// What takes `times` as long.
    pub fn taking(times: f64) -> Self {
        Self(100.0 / times - 100.0)
    }

    /// What takes `span` now.
    pub fn span(self, span: NanoSpan) -> NanoSpan {
        let parts = self.parts();
        let longer = (u128::from(span.0) * WHOLE + parts / 2) / parts;
        NanoSpan(u64::try_from(longer).unwrap_or(u64::MAX))
    }

    /// Its speed, of a whole that is as it was.
    fn parts(self) -> u128 {
        ((self.factor() * WHOLE as f64).round() as u128).max(1)
    }

    /// What runs at `rate` now.
    pub fn rate(self, rate: BytesPerSec) -> BytesPerSec {
        BytesPerSec(rate.0 * self.factor())
    }

    /// What `link` is then.
    pub fn link(self, link: LinkModel) -> LinkModel {
        LinkModel { rate: self.rate(link.rate), per_transfer: self.span(link.per_transfer) }
    }

    fn factor(self) -> f64 {
        1.0 + self.0 / 100.0
    }

    fn command(self, cost: CommandCost) -> CommandCost {
        CommandCost {
            read: self.span(cost.read),
            write: self.span(cost.write),
            per_page: self.span(cost.per_page),
        }
    }

    fn memory(self, cost: MemoryCost) -> MemoryCost {
        MemoryCost { per_task: self.span(cost.per_task), rate: self.rate(cost.rate) }
    }

    fn seek(self, anchors: SeekAnchors) -> SeekAnchors {
        SeekAnchors {
            single_track: self.span(anchors.single_track),
            average: self.span(anchors.average),
            full_stroke: self.span(anchors.full_stroke),
        }
    }
}

raidlab_units::named! {
    /// A part of a controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ControllerPart {
        /// The link to the host.
        HostLink = "host link",
        /// Its processors: commands, copies, and parity where they compute it.
        Processors = "controller processors",
        /// The engine beside them that computes parity.
        ParityEngine = "parity engine",
        /// The link to the members.
        MemberLink = "member link",
        /// The memory of the host that it is software on.
        Memory = "host memory",
        /// The threads that change stripes, in Linux md: raid5d and its workers.
        StripeThreads = "stripe threads",
        /// The thread that decides, in software which has others for I/O.
        FirstThread = "first thread",
    }
}

raidlab_units::named! {
    /// A part of a drive.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum DrivePart {
        /// The whole drive.
        All = "drives",
        /// The arm: its seeks.
        Arm = "drives' arms",
        /// The platters: rotation, and with it the media's rate.
        Platters = "drives' platters",
        /// Flash dies: reading, programming and erasing.
        Dies = "drives' dies",
        /// The buses between the dies and the drive's controller.
        Channels = "drives' channels",
        /// The drive's own controller: what it takes for a command.
        Firmware = "drives' firmware",
        /// The limits on rates that the hardware does not set.
        Caps = "drives' rate limits",
        /// The drive's link to what it is plugged into.
        Interface = "drives' interfaces",
        /// Room beyond the capacity: the more there is, the less garbage collection moves.
        SpareRoom = "drives' spare room",
    }
}

impl ControllerModel {
    /// The same with `part` faster; none if it has no such part.
    #[must_use]
    pub fn faster(&self, part: ControllerPart, by: FasterPct) -> Option<Self> {
        let mut model = self.clone();
        match part {
            ControllerPart::HostLink => model.host_link = by.link(model.host_link),
            ControllerPart::MemberLink => {
                model.member_link = by.link(model.member_link);
                model.member_link_out = model.member_link_out.map(|link| by.link(link));
                if let Some(fabric) = &mut model.fabric {
                    fabric.latency = by.span(fabric.latency);
                }
            }
            ControllerPart::ParityEngine if self.parity_by == ParityWorker::Processors => return None,
            ControllerPart::ParityEngine => model.parity = by.memory(model.parity),
            ControllerPart::Memory => {
                let (_, sockets) = model.host.as_mut()?;
                sockets.memory_rate = by.rate(sockets.memory_rate);
            }
            ControllerPart::StripeThreads => {
                let costs = &mut model.md.as_mut()?.costs;
                for span in [&mut costs.pass, &mut costs.pass_batched, &mut costs.pass_read, &mut costs.io] {
                    *span = by.span(*span);
                }
                model.copy = by.memory(model.copy);
                model.parity = by.memory(model.parity);
            }
            ControllerPart::FirstThread => {
                let first = model.first_thread.as_mut()?;
                first.member_command = by.span(first.member_command);
                first.hand_over = by.span(first.hand_over);
                model.host_command = by.command(model.host_command);
                model.copy = by.memory(model.copy);
                model.parity = by.memory(model.parity);
                if self.processors == 1 {
                    model.member_command = by.command(model.member_command);
                }
            }
            ControllerPart::Processors if self.first_thread.is_some() => {
                if self.processors == 1 {
                    return None;
                }
                model.member_command = by.command(model.member_command);
            }
            ControllerPart::Processors => {
                if let Some(md) = &mut model.md {
                    md.costs.add_page = by.span(md.costs.add_page);
                    md.costs.libaio = by.span(md.costs.libaio);
                }
                model.host_command = by.command(model.host_command);
                model.member_command = by.command(model.member_command);
                if let Some(fabric) = &mut model.fabric {
                    fabric.initiator = by.command(fabric.initiator);
                }
                if let Some(way) = &mut model.cut_through {
                    way.cost = by.command(way.cost);
                }
                model.cache.write_in = by.span(model.cache.write_in);
                // The stripe threads of md have theirs.
                if self.md.is_none() {
                    model.copy = by.memory(model.copy);
                }
                if self.parity_by == ParityWorker::Processors && self.md.is_none() {
                    model.parity = by.memory(model.parity);
                }
            }
        }
        Some(model)
    }
}

impl DriveModel {
    /// What can be made faster of it, besides all of it.
    pub fn parts(&self) -> Vec<DrivePart> {
        let parts: &[DrivePart] = match &self.kind {
            _ if self.own.is_some() => &[],
            DriveKind::HardDrive(_) => &[DrivePart::Arm, DrivePart::Platters, DrivePart::Interface],
            DriveKind::SolidState(_) => {
                &[DrivePart::Dies, DrivePart::Channels, DrivePart::Firmware, DrivePart::Interface]
            }
            DriveKind::Flash(_) => &[
                DrivePart::Dies,
                DrivePart::Channels,
                DrivePart::Firmware,
                DrivePart::Caps,
                DrivePart::Interface,
                DrivePart::SpareRoom,
            ],
        };
        let has = |part: &DrivePart| self.faster(*part, FasterPct(1.0)).is_some_and(|other| other != *self);
        parts.iter().copied().filter(has).collect()
    }

    /// The same with `part` faster, or larger where it is room; none if it has no such part.
    #[must_use]
    pub fn faster(&self, part: DrivePart, by: FasterPct) -> Option<Self> {
        let mut model = self.clone();
        match (part, &mut model.kind) {
            (DrivePart::All, _) => model.faster = by,
            (DrivePart::Interface, DriveKind::HardDrive(hard)) => {
                if let Some(bus) = &mut hard.bus {
                    (bus.read, bus.write) = (by.link(bus.read), by.link(bus.write));
                }
                model.interface = by.link(model.interface);
            }
            (DrivePart::Interface, _) => model.interface = by.link(model.interface),
            (DrivePart::Arm | DrivePart::Platters, DriveKind::HardDrive(hard)) => {
                faster_mechanics(&mut hard.mechanics, part, by);
                if part == DrivePart::Platters {
                    hard.firmware.positioning_margin = by.span(hard.firmware.positioning_margin);
                }
            }
            (DrivePart::Dies, DriveKind::SolidState(solid)) => {
                solid.page_read = by.span(solid.page_read);
                solid.page_program = by.span(solid.page_program);
            }
            (DrivePart::Channels, DriveKind::SolidState(solid)) => solid.channel = by.link(solid.channel),
            (DrivePart::Firmware, DriveKind::SolidState(solid)) => {
                solid.read_overhead = by.span(solid.read_overhead);
                solid.write_overhead = by.span(solid.write_overhead);
            }
            (DrivePart::Dies, DriveKind::Flash(flash)) => {
                let cells = &mut flash.cells;
                for span in [
                    &mut cells.read_fast,
                    &mut cells.read_slow,
                    &mut cells.program,
                    &mut cells.erase,
                    &mut cells.suspend,
                    &mut cells.decode,
                ] {
                    *span = by.span(*span);
                }
            }
            (DrivePart::Channels, DriveKind::Flash(flash)) => {
                flash.cells.channel = by.link(flash.cells.channel);
            }
            (DrivePart::Firmware, DriveKind::Flash(flash)) => {
                let front = &mut flash.front;
                for span in [
                    &mut front.read_command,
                    &mut front.write_command,
                    &mut front.per_unit,
                    &mut front.read_latency,
                    &mut front.write_latency,
                ] {
                    *span = by.span(*span);
                }
            }
            (DrivePart::Caps, DriveKind::Flash(flash)) => {
                let of_heat = flash.heat.as_mut().map(|heat| &mut heat.caps);
                of_heat.into_iter().chain([&mut flash.caps]).for_each(|caps| raise(caps, by));
            }
            (DrivePart::SpareRoom, DriveKind::Flash(flash)) => {
                flash.translation.spare_pct *= by.factor();
            }
            _ => return None,
        }
        Some(model)
    }
}

fn raise(caps: &mut CapModel, by: FasterPct) {
    let counts = [&mut caps.read_iops, &mut caps.write_iops, &mut caps.iops, &mut caps.burst_iops];
    counts.into_iter().flatten().for_each(|iops| *iops *= by.factor());
    let rates = [&mut caps.read_rate, &mut caps.write_rate, &mut caps.rate];
    rates.into_iter().flatten().for_each(|rate| *rate = by.rate(*rate));
}

fn faster_mechanics(mechanics: &mut MechanicsModel, part: DrivePart, by: FasterPct) {
    match (part, mechanics) {
        (DrivePart::Arm, MechanicsModel::DataSheet(sheet)) => {
            sheet.seek_read = by.seek(sheet.seek_read);
            sheet.seek_write = by.seek(sheet.seek_write);
        }
        (DrivePart::Arm, MechanicsModel::Measured(measured)) => {
            measured.seek = measured.seek.iter().map(|span| by.span(*span)).collect();
        }
        // The tracks stay as they are: what follows from them turns faster as a whole.
        (_, MechanicsModel::DataSheet(sheet)) => {
            sheet.rpm = (f64::from(sheet.rpm) * by.factor()).round() as u32;
            sheet.outer_rate = by.rate(sheet.outer_rate);
            sheet.inner_rate = by.rate(sheet.inner_rate);
            sheet.head_switch = by.span(sheet.head_switch);
        }
        (_, MechanicsModel::Measured(measured)) => measured.rpm *= by.factor(),
    }
}

/// A clock that runs faster than the world's, or slower.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FastClock {
    parts: u128,
}

impl FastClock {
    pub(crate) fn new(by: FasterPct) -> Self {
        Self { parts: by.parts() }
    }

    /// What it shows when the world's shows `now`.
    pub(crate) fn own(self, now: Nanos) -> Nanos {
        Nanos((u128::from(now.0) * self.parts / WHOLE) as u64)
    }

    /// What the world's shows at the first moment at which it shows `own` or later.
    pub(crate) fn world(self, own: Nanos) -> Nanos {
        Nanos((u128::from(own.0) * WHOLE).div_ceil(self.parts) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, Drive, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount};

    const TENTH: FasterPct = FasterPct(10.0);
    const COUNT: u32 = 600;

    /// When the last of some reads and writes all over the drive is done.
    fn last_end(model: &DriveModel) -> u64 {
        let mut drive = Drive::new(model, DriveOptions::default());
        for id in 0..COUNT {
            let op = if id % 3 == 0 { DriveOp::Write { fua: true } } else { DriveOp::Read };
            let start = Sector(u64::from(id) * 7_654_321 % (model.capacity.0 - 8) / 8 * 8);
            drive.handle_request(Nanos(0), DriveRequest { id, op, start, sectors: SectorCount(8) });
        }
        let (mut ended, mut last) = (0, Nanos(0));
        while ended < COUNT {
            if drive.poll_completion().is_some() {
                ended += 1;
                continue;
            }
            last = drive.poll_deadline().expect("what is asked for ends");
            drive.handle_deadline(last);
        }
        last.0
    }

    fn drives() -> Vec<DriveModel> {
        let catalog = Catalog::builtin();
        ["st3600057ss", "pliant-lb150", "generic-nvme"]
            .iter()
            .filter_map(|id| catalog.drive(id).ok().cloned())
            .collect()
    }

    #[test]
    fn a_drive_as_a_whole_is_faster_by_just_that_much() {
        let drives = drives();
        assert!(drives.len() > 1, "or the test says little");
        for drive in drives {
            let faster = drive.faster(DrivePart::All, TENTH).expect("every drive can be");
            let (before, after) = (last_end(&drive), last_end(&faster));
            let expected = before as f64 / 1.1;
            assert!(
                (after as f64 - expected).abs() < f64::from(COUNT),
                "{}: {before} ns, then {after}",
                drive.id
            );
        }
    }

    #[test]
    fn a_drive_may_be_slower_too() {
        for drive in drives() {
            let slower = drive.faster(DrivePart::All, FasterPct::taking(2.5)).expect("every drive can be");
            let expected = 2.5 * last_end(&drive) as f64;
            let after = last_end(&slower) as f64;
            assert!((after - expected).abs() < 1e-4 * expected, "{}: {expected} ns, and {after}", drive.id);
        }
    }

    #[test]
    fn the_parts_of_a_drive_are_faster_by_no_more_than_all_of_it() {
        for drive in drives() {
            let before = last_end(&drive) as f64;
            let all = before / 1.1;
            let parts = drive.parts();
            assert!(parts.len() > 2, "{}: {parts:?}", drive.id);
            for part in parts {
                let model = drive.faster(part, TENTH).expect("it is one of its parts");
                assert_ne!(model, drive, "{part}");
                let after = last_end(&model) as f64;
                // Other choices of the arm, other dies: a little is chance.
                assert!((all * 0.9..before * 1.1).contains(&after), "{}: {part} {before}, {after}", drive.id);
            }
        }
    }

    #[test]
    fn drives_have_no_parts_of_other_kinds() {
        let drives = drives();
        assert_eq!(drives[0].faster(DrivePart::Dies, TENTH), None);
        assert_eq!(drives[1].faster(DrivePart::Arm, TENTH), None);
    }

    #[test]
    fn a_controller_is_faster_where_it_was_asked_for() {
        let catalog = Catalog::builtin();
        let controller = catalog.controller("perc-h800").expect("in the catalogue");
        let by = |part| controller.faster(part, TENTH);
        let link = by(ControllerPart::HostLink).expect("it has one");
        assert!((link.host_link.rate.0 / controller.host_link.rate.0 - 1.1).abs() < 1e-9);
        assert_eq!(link.member_link, controller.member_link);
        let processors = by(ControllerPart::Processors).expect("it has some");
        assert!(processors.host_command.read < controller.host_command.read);
        assert_eq!(processors.host_link, controller.host_link);
        let has_engine = controller.parity_by == ParityWorker::Engine;
        assert_eq!(by(ControllerPart::ParityEngine).is_some(), has_engine);
        assert_eq!(processors.parity == controller.parity, has_engine);
    }
}
