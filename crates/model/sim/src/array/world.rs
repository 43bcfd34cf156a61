//! The world of an enclosure: the order of events, and the counts.

use super::attribution::Tally;
use super::event::Event;
use super::failover::Failover;
use super::head::HardwareTimes;
use super::load::Load;
use super::members::Member;
use super::service::Shared;
use super::spec::{
    FlashWrites, RebuildProgress, SimError, SimulatedEnclosure, SimulatedVolume, SimulationLoad,
    SimulationOutcome,
};
use super::utilisation::{ControllerUtilisation, Utilisation};
use super::volume::{Phase, Volume};
use crate::queue::Due;
use raidlab_controller::{Controller, Counters, Scan};
use raidlab_hardware::{Drive, DriveKind, FlashCounters, FlashModel};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::{Driver, IssuedCounts, Measurement, Rng, derived_seed};

/// The deadline slot of no volume: a controller fails, or that is found out.
const NO_VOLUME: u16 = u16::MAX;

/// What had been done at an edge of the window.
#[derive(Clone, Debug)]
pub(super) struct Noted {
    drives: Vec<NanoSpan>,
    hardware: HardwareTimes,
    pub(super) host_requests: u64,
    /// Acknowledged data that only the cache has.
    dirty: ByteCount,
    unwritten: ByteCount,
    /// What was written to flash, if that is followed.
    flash: Option<FlashWrites>,
}

/// Everything that happens in one simulation.
#[derive(Debug)]
pub(super) struct World<'a, const FOLLOWED: bool> {
    pub(super) enclosure: &'a SimulatedEnclosure,
    pub(super) shared: Shared<'a>,
    pub(super) volumes: Vec<Volume<FOLLOWED>>,
    /// Whose each deadline slot is.
    slot_volumes: Vec<u16>,
    /// Start and end of the measured window.
    pub(super) window: [Nanos; 2],
    /// At these edges of the window.
    pub(super) noted: Vec<Noted>,
    /// The first edge that is not noted yet.
    next_edge: Nanos,
    pub(super) failover: Option<Failover>,
}

/// The volumes of `enclosure` with their controllers and loads, and whose each deadline slot is.
pub(super) fn build_volumes<const FOLLOWED: bool>(
    enclosure: &SimulatedEnclosure,
    machines: Vec<(Controller, Load)>,
    random: &mut Rng,
) -> (Vec<Volume<FOLLOWED>>, Vec<u16>) {
    let mut slot_volumes = Vec::new();
    let mut volumes = Vec::with_capacity(machines.len());
    // Volumes mostly have the same drives; copies of one share what they only read.
    let mut drives: Option<(&SimulatedVolume, Drive)> = None;
    for (index, (spec, machine)) in (0..).zip(enclosure.volumes.iter().zip(machines)) {
        let place = (index, slot_volumes.len() as u32);
        slot_volumes.resize(slot_volumes.len() + Volume::<FOLLOWED>::slot_count(spec) as usize, index);
        let known = drives.take().filter(|(of, _)| of.has_same_drives(spec));
        let (_, drive) = drives.insert(known.unwrap_or_else(|| (spec, Volume::<FOLLOWED>::idle_drive(spec))));
        volumes.push(Volume::new(spec, machine, place, (&enclosure.controller, drive), random));
    }
    (volumes, slot_volumes)
}

/// Lets the volume that `due` concerns do it, and returns which one that is, if it is one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it is the body of the world's loop")]
pub(super) fn handle_due<const FOLLOWED: bool>(
    volumes: &mut [Volume<FOLLOWED>],
    shared: &mut Shared<'_>,
    slot_volumes: &[u16],
    now: Nanos,
    due: Due<Event>,
) -> u16 {
    let index = match due {
        Due::Event(event) => event.volume,
        Due::Deadline(slot) => slot_volumes[slot as usize],
    };
    if index == NO_VOLUME {
        return index;
    }
    let volume = &mut volumes[usize::from(index)];
    match due {
        Due::Event(event) => volume.handle_event(shared, now, event),
        Due::Deadline(slot) => volume.handle_deadline(shared, now, slot),
    }
    volume.pump(shared);
    index
}

/// Data in all programs of a drive so far, its parity left out. What garbage collection moves is counted here when it is programmed,
/// evenly; the translation layer's count goes up by a superblock at a time.
fn programmed(model: &FlashModel, counters: &FlashCounters) -> ByteCount {
    let cells = &model.cells;
    let row = cells.program_bytes().0;
    // A program of the pseudo-SLC cache holds one bit in a cell, and has no parity.
    let cached = counters.cached_units * model.translation.unit.0;
    let whole_rows = counters.programs.saturating_sub(cached * u64::from(cells.bits_per_cell) / row);
    let parity_rows =
        if cells.parity_every == 0 { 0 } else { whole_rows / u64::from(cells.parity_every + 1) };
    ByteCount(cached + (whole_rows - parity_rows) * row)
}

impl<'a, const FOLLOWED: bool> World<'a, FOLLOWED> {
    /// Puts the volumes together with `machines`, the controller and the load of each.
    pub(super) fn new(
        enclosure: &'a SimulatedEnclosure,
        machines: Vec<(Controller, Load)>,
        load: &SimulationLoad,
    ) -> Self {
        let mut random = Rng::new(derived_seed(load.seed, 1));
        let (volumes, slot_volumes) = build_volumes(enclosure, machines, &mut random);
        let (start, unfinished) = (Nanos::ZERO + load.ramp, volumes.len());
        let mut world = Self {
            enclosure,
            shared: Shared::new(enclosure, slot_volumes.len() as u32, unfinished),
            volumes,
            slot_volumes,
            window: [start, start + load.run],
            noted: Vec::with_capacity(2),
            next_edge: start,
            failover: None,
        };
        world.arm_failover();
        world
    }

    /// The specification of a volume.
    pub(super) fn spec(&self, volume: u16) -> &'a SimulatedVolume {
        &self.enclosure.volumes[usize::from(volume)]
    }

    /// Adds a deadline slot that is no volume's.
    pub(super) fn add_slot(&mut self) -> u32 {
        self.slot_volumes.push(NO_VOLUME);
        self.slot_volumes.len() as u32 - 1
    }

    /// Runs until all drivers are done. `seed` is for the message only.
    pub(super) fn run(&mut self, seed: u64) -> Result<(), SimError> {
        for volume in &mut self.volumes {
            volume.poll_driver(&mut self.shared, Nanos::ZERO);
            volume.pump_seldom(&mut self.shared);
        }
        let mut running = self.shared.unfinished > 0;
        while running {
            let Some((now, due)) = self.shared.queue.pop() else {
                return Err(SimError::Stalled { at: self.shared.queue.now(), seed });
            };
            if now >= self.next_edge {
                self.note_busy_times(now);
            }
            let index = handle_due(&mut self.volumes, &mut self.shared, &self.slot_volumes, now, due);
            if index == NO_VOLUME {
                self.failover_due(now);
                continue;
            }
            let volume = &self.volumes[usize::from(index)];
            if volume.phase == Phase::Restoring {
                self.try_to_serve(now, index);
            } else if volume.is_finished {
                running = self.shared.unfinished > 0;
            }
        }
        // A replay may end before its window does, and the window then ends with it.
        self.window[1] = self.window[1].min(self.shared.queue.now()).max(self.window[0]);
        self.note_busy_times(Nanos::FAR_FUTURE);
        let mut drivers = self.volumes.iter().filter_map(|volume| volume.load.driver());
        match drivers.find_map(Driver::trace_fault) {
            Some(fault) => Err(SimError::Replay(fault.clone())),
            None => Ok(()),
        }
    }

    // What is counted.

    /// Notes the busy times at the edges of the window that lie before `now`, the time of the next event.
    #[cold]
    fn note_busy_times(&mut self, now: Nanos) {
        while let Some(edge) = self.window.get(self.noted.len()).filter(|edge| **edge <= now) {
            let at = *edge;
            let members = self.volumes.iter().flat_map(Volume::devices);
            let drives = members.map(|member| member.busy_until_now(at)).collect();
            let noted = Noted {
                drives,
                hardware: self.shared.hardware.times(at),
                host_requests: self.host_requests(),
                dirty: self.dirty(),
                unwritten: self.unwritten(),
                flash: self.flash(),
            };
            self.noted.push(noted);
            self.next_edge = self.window.get(self.noted.len()).copied().unwrap_or(Nanos::FAR_FUTURE);
        }
    }

    /// Host requests completed so far.
    pub(super) fn host_requests(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.host_requests).sum()
    }

    /// Cache of all volumes in dirty blocks.
    fn dirty(&self) -> ByteCount {
        let of_volume = |(volume, spec): (&Volume<FOLLOWED>, &SimulatedVolume)| {
            u64::from(volume.controller.dirty_cache_blocks()) * spec.config.cache.block_size.0
        };
        ByteCount(self.volumes.iter().zip(&self.enclosure.volumes).map(of_volume).sum())
    }

    /// Acknowledged data that only the caches of all volumes have.
    fn unwritten(&self) -> ByteCount {
        let of_volume = |(volume, spec): (&Volume<FOLLOWED>, &SimulatedVolume)| {
            volume.controller.dirty_blocks() * spec.config.block_size.bytes()
        };
        ByteCount(self.volumes.iter().zip(&self.enclosure.volumes).map(of_volume).sum())
    }

    /// What was written to the flash of all members so far, if that is followed.
    fn flash(&self) -> Option<FlashWrites> {
        let of_volume = |(volume, spec): (&Volume<FOLLOWED>, &SimulatedVolume)| {
            let DriveKind::Flash(model) = &spec.drive.kind else { return None };
            if spec.drive.own.is_some() {
                return None;
            }
            let mut written = FlashWrites::default();
            for counters in volume.devices().iter().filter_map(Member::flash_counters) {
                written.host_bytes += ByteCount(counters.host_units * model.translation.unit.0);
                written.flash_bytes += programmed(model, &counters);
            }
            Some(written)
        };
        let volumes = self.volumes.iter().zip(&self.enclosure.volumes).filter_map(of_volume);
        volumes.reduce(|a, b| FlashWrites {
            host_bytes: a.host_bytes + b.host_bytes,
            flash_bytes: a.flash_bytes + b.flash_bytes,
        })
    }

    /// What was written to flash in the window, if that is followed.
    fn flash_in_window(&self) -> Option<FlashWrites> {
        let [start, end] = self.noted.as_slice() else { return None };
        let (start, end) = (start.flash?, end.flash?);
        let within = |from: ByteCount, to: ByteCount| ByteCount(to.0 - from.0);
        Some(FlashWrites {
            host_bytes: within(start.host_bytes, end.host_bytes),
            flash_bytes: within(start.flash_bytes, end.flash_bytes),
        })
    }

    pub(super) fn outcome(&self, volume: ByteCount) -> SimulationOutcome {
        let mut measurement = Measurement::default();
        let (mut counters, mut issued) = (Counters::default(), IssuedCounts::default());
        let mut times = Tally::default();
        for volume in &self.volumes {
            counters.merge(&volume.counters());
            times.merge(volume.times.tally());
            let Some(driver) = volume.load.driver() else { continue };
            measurement.merge(&driver.measurement());
            issued.add(driver.issued());
        }
        let controllers = self.controllers();
        SimulationOutcome {
            measurement,
            counters,
            host_requests: self.host_requests(),
            issued,
            events: self.shared.queue.scheduled_count(),
            virtual_time: self.shared.queue.now() - Nanos::ZERO,
            utilisation: self.utilisation(&controllers),
            dirty: self.noted.iter().map(|noted| noted.dirty).collect(),
            unwritten: self.noted.iter().map(|noted| noted.unwritten).collect(),
            flash: self.flash_in_window(),
            controllers,
            failover: self.failover_outcome(),
            rebuild: self.rebuild_progress(),
            times: times.outcome(),
            volume,
        }
    }

    /// How far the first volume's rebuild is, if one is under way.
    fn rebuild_progress(&self) -> Option<RebuildProgress> {
        let progress = self.volumes.first()?.controller.scan_progress()?;
        matches!(progress.scan, Scan::Rebuild { .. })
            .then_some(RebuildProgress { done: progress.done, total: progress.total })
    }

    fn share(&self, from: NanoSpan, to: NanoSpan) -> f64 {
        (to - from).as_secs_f64() / (self.window[1] - self.window[0]).as_secs_f64()
    }

    fn controllers(&self) -> Vec<ControllerUtilisation> {
        let [start, end] = self.noted.as_slice() else { return Vec::new() };
        let heads =
            start.hardware.heads.iter().zip(&end.hardware.heads).take(self.shared.hardware.head_count);
        let processors = f64::from(self.shared.hardware.model.processors);
        let controller =
            |(from, to): (&super::head::HeadTimes, &super::head::HeadTimes)| ControllerUtilisation {
                processors: self.share(from.processors, to.processors),
                first_thread: self.share(from.first_thread, to.first_thread),
                parity: self.share(from.parity, to.parity) / processors,
                parity_engine: self.share(from.parity_engine, to.parity_engine),
                host_link: self.share(from.host_link, to.host_link),
                member_link: self.share(from.member_link, to.member_link),
                memory: self.share(from.memory, to.memory),
                stripe_threads: self.share(from.stripe_threads, to.stripe_threads),
            };
        heads.map(controller).collect()
    }

    fn utilisation(&self, controllers: &[ControllerUtilisation]) -> Utilisation {
        let [start, end] = self.noted.as_slice() else { return Utilisation::default() };
        let drives = || start.drives.iter().zip(&end.drives).map(|(from, to)| self.share(*from, *to));
        let most =
            |figure: fn(&ControllerUtilisation) -> f64| controllers.iter().map(figure).fold(0.0, f64::max);
        Utilisation {
            drives_mean: drives().sum::<f64>() / start.drives.len() as f64,
            drives_max: drives().fold(0.0, f64::max),
            processors: most(|it| it.processors),
            first_thread: most(|it| it.first_thread),
            parity: most(|it| it.parity),
            parity_engine: most(|it| it.parity_engine),
            host_link: most(|it| it.host_link),
            member_link: most(|it| it.member_link),
            mirror_link: self.share(start.hardware.mirror_link, end.hardware.mirror_link),
            memory: most(|it| it.memory),
            stripe_threads: most(|it| it.stripe_threads),
        }
    }
}
