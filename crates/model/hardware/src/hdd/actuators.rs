//! A drive with one arm, or with two independent ones.
//!
//! ```text
//!   sectors  0 ........ half | half ........ end
//!            arm 0, its heads | arm 1, its heads       one spindle, one interface, one firmware
//! ```
//!
//! Each arm has half of the sectors, of the heads and of the cache. As one logical unit (SATA) both share the queue. As
//! two (SAS) each has its own, and the second unit's sectors are counted after those of the first, as on a host that
//! concatenates the two units. A stream over one half runs at the rate of one arm: only load on both halves doubles it.
//!
//! The figures in `mechanics` and `buffer` are those of one arm. Left out: disturbance between the arms.
//! Source: Seagate, "Exos 2X18 SATA product manual" (halves by LBA); T13 ACS-5, concurrent positioning ranges.

use super::machine::{Front, HardDrive};
use super::model::HardDriveModel;
use crate::catalog::{CatalogError, Section};
use crate::drive::{DriveCompletion, DriveOp, DriveOptions, DriveRequest, DriveTimes, Sector, SectorCount};
use crate::link::LinkModel;
use raidlab_units::Nanos;
use std::collections::{BTreeSet, VecDeque};

/// Two arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActuatorsModel {
    /// Logical units that the host sees: one with a common queue, or two with a queue each.
    pub logical_units: u8,
}

impl ActuatorsModel {
    /// Reads the table `actuators`.
    pub(crate) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let count: u8 = section.figure("count")?;
        section.refuse_if(count != 2, "count", "2; a drive of one arm has no such table")?;
        let logical_units = section.figure("logical_units")?;
        section.refuse_if(!(1..=2).contains(&logical_units), "logical_units", "1 or 2")?;
        section.finish(Self { logical_units })
    }
}

/// Two arms behind one interface.
#[derive(Clone, Debug)]
pub(crate) struct TwoArms {
    arms: [HardDrive; 2],
    /// Sectors of the first.
    border: u64,
    front: Front,
    /// Commands that both arms have parts of, while neither part is done.
    shared: BTreeSet<u32>,
    /// Commands that the common queue holds, and its length, if there is one.
    outstanding: u32,
    queue_depth: Option<u32>,
    waiting: VecDeque<DriveRequest>,
    done: VecDeque<DriveCompletion>,
    /// Where the time of each of them went, while that is followed.
    times: VecDeque<DriveTimes>,
}

impl TwoArms {
    /// The model must be one that the catalogue reader accepted.
    pub(crate) fn new(
        model: &HardDriveModel,
        actuators: ActuatorsModel,
        capacity: SectorCount,
        link: LinkModel,
        options: DriveOptions,
    ) -> Self {
        let border = capacity.0 / 2;
        let arm = |sectors| HardDrive::new(model, SectorCount(sectors), link, options);
        let depth = options.queue_depth.unwrap_or(model.firmware.queue_depth).max(1);
        Self {
            arms: [arm(border), arm(capacity.0 - border)],
            border,
            front: Front::default(),
            shared: BTreeSet::new(),
            outstanding: 0,
            queue_depth: (actuators.logical_units == 1).then_some(depth),
            waiting: VecDeque::new(),
            done: VecDeque::new(),
            times: VecDeque::new(),
        }
    }

    pub(crate) fn follow_times(&mut self) {
        self.arms.iter_mut().for_each(HardDrive::follow_times);
    }

    pub(crate) fn poll_times(&mut self) -> Option<DriveTimes> {
        self.times.pop_front()
    }

    pub(crate) fn poll_deadline(&self) -> Option<Nanos> {
        self.arms.iter().filter_map(HardDrive::poll_deadline).min()
    }

    pub(crate) fn poll_completion(&mut self) -> Option<DriveCompletion> {
        self.done.pop_front()
    }

    pub(crate) fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        if self.queue_depth.is_some_and(|depth| self.outstanding >= depth) {
            self.waiting.push_back(request);
        } else {
            self.accept(now, request);
        }
    }

    pub(crate) fn handle_deadline(&mut self, now: Nanos) {
        for arm in 0..2 {
            if self.arms[arm].poll_deadline().is_some_and(|due| due <= now) {
                self.with_front(arm, |drive| drive.handle_deadline(now));
                self.collect(arm);
            }
        }
        while self.queue_depth.is_some_and(|depth| self.outstanding < depth) {
            let Some(request) = self.waiting.pop_front() else { break };
            self.accept(now, request);
        }
    }

    fn accept(&mut self, now: Nanos, request: DriveRequest) {
        self.outstanding += 1;
        let parts = self.parts(&request);
        if parts.iter().all(Option::is_some) {
            self.shared.insert(request.id);
        }
        for (arm, part) in parts.into_iter().enumerate() {
            if let Some(part) = part {
                self.with_front(arm, |drive| drive.handle_request(now, part));
            }
        }
    }

    /// What each arm has of a command.
    fn parts(&self, request: &DriveRequest) -> [Option<DriveRequest>; 2] {
        if request.op == DriveOp::Flush {
            let flush = DriveRequest { start: Sector(0), ..*request };
            return [Some(flush), Some(flush)];
        }
        let (start, end) = (request.start.0, request.start.0 + request.sectors.0);
        let part = |start: u64, end: u64, base: u64| {
            let (start, sectors) =
                (Sector(start.saturating_sub(base)), SectorCount(end.saturating_sub(start)));
            (sectors.0 > 0).then_some(DriveRequest { start, sectors, ..*request })
        };
        [part(start, end.min(self.border), 0), part(start.max(self.border), end, self.border)]
    }

    /// Lets one arm work with the interface and the firmware that both share.
    fn with_front(&mut self, arm: usize, work: impl FnOnce(&mut HardDrive)) {
        let drive = &mut self.arms[arm];
        drive.swap_front(&mut self.front);
        work(drive);
        drive.swap_front(&mut self.front);
    }

    fn collect(&mut self, arm: usize) {
        while let Some(completion) = self.arms[arm].poll_completion() {
            let times = self.arms[arm].poll_times();
            // The first part of a shared command to be done only leaves the other.
            if !self.shared.remove(&completion.id) {
                self.outstanding -= 1;
                self.done.push_back(completion);
                self.times.extend(times);
            }
        }
    }
}
