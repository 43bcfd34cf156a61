//! The simulated configuration, and its results.

use super::attribution::TimesOutcome;
use super::load::Load;
use super::utilisation::{ControllerUtilisation, Utilisation};
use super::world::World;
use core::fmt;
use raidlab_controller::{ArrayConfig, ConfigError, Controller, Counters, MetadataPolicy};
use raidlab_hardware::{ControllerModel, DriveModel, DualModel};
use raidlab_units::{ByteCount, Iops, MemberIndex, NanoSpan, Nanos};
use raidlab_workload::{
    AccessSpec, Driver, DriverConfig, DriverError, IoOp, IssuedCounts, Measurement, OpSet, ReplayError,
    Worker, derived_seed,
};

/// An array of modelled hardware.
#[derive(Clone, Debug)]
pub struct SimulatedArray {
    /// Level, members and cache. Whether the members' own write caches are in use is its `member_cache`.
    pub config: ArrayConfig,
    /// Every member.
    pub drive: DriveModel,
    /// The controller's hardware.
    pub controller: ControllerModel,
}

impl SimulatedArray {
    /// The enclosure that has this array and no other.
    pub fn enclosure(&self) -> SimulatedEnclosure {
        let (config, drive) = (self.config.clone(), self.drive.clone());
        let volume = SimulatedVolume { config, drive, owner: ControllerName::A, beside: None };
        SimulatedEnclosure { controller: self.controller.clone(), second: None, volumes: vec![volume] }
    }
}

/// Volumes of modelled hardware in one enclosure, behind one or two controllers.
#[derive(Clone, Debug)]
pub struct SimulatedEnclosure {
    /// The hardware of each controller.
    pub controller: ControllerModel,
    /// What there is besides if there are two.
    pub second: Option<SecondController>,
    /// The volumes; at least one.
    pub volumes: Vec<SimulatedVolume>,
}

impl SimulatedEnclosure {
    /// A controller for `volume`, new, that passes discards on if its hardware does and the members know what to do with them.
    pub(super) fn controller_of(&self, volume: &SimulatedVolume) -> Result<Controller, ConfigError> {
        let mut controller = Controller::new(&volume.config)?;
        if self.controller.passes_discards && volume.drive.knows_trim() {
            controller.pass_discards();
        }
        Ok(controller)
    }
}

/// A volume, which is an array of its own, and whose it is.
#[derive(Clone, Debug)]
pub struct SimulatedVolume {
    /// Level, members and cache: the part of its controller's memory that is this volume's.
    pub config: ArrayConfig,
    /// Every member.
    pub drive: DriveModel,
    /// The controller that serves it, as long as that one works.
    pub owner: ControllerName,
    /// The device beside the members, where the rules of the array have one ([`raidlab_controller::ArrayRules::has_device_beside`]); one as the members are if none.
    pub beside: Option<DriveModel>,
}

impl SimulatedVolume {
    /// True if the members of both are alike.
    pub(super) fn has_same_drives(&self, other: &Self) -> bool {
        self.drive == other.drive && self.config.member_cache == other.config.member_cache
    }
}

/// The two controllers of an enclosure; one alone is A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControllerName {
    /// The first.
    A,
    /// The second.
    B,
}

/// What a second controller brings with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondController {
    /// What is between the two.
    pub dual: DualModel,
    /// Which of them fails, if one does.
    pub failure: Option<ControllerFailure>,
}

/// A controller that stops for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControllerFailure {
    /// Which.
    pub controller: ControllerName,
    /// When, from the start of the measured window.
    pub after: NanoSpan,
}

impl ControllerName {
    /// The other one.
    #[inline]
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

impl fmt::Display for ControllerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::A => "A",
            Self::B => "B",
        })
    }
}

/// What to ask of the array.
#[derive(Clone, Debug)]
pub struct SimulationLoad {
    /// The workload.
    pub workload: AccessSpec,
    /// Requests in flight, shared out evenly where there are several volumes.
    pub iodepth: u32,
    /// The part of each volume in use, from its start.
    pub region: LoadRegion,
    /// Time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window; that of a replay ends with its trace, if that is sooner.
    pub run: NanoSpan,
    /// Seed of all that is random: the workload's places and the members' angles of rotation.
    pub seed: u64,
}

/// The part of a volume that a load uses, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadRegion {
    /// A share in percent, 1 to 100: how far the members' arms have to go (the "stroke").
    StrokePct(u8),
    /// So many bytes.
    Bytes(ByteCount),
}

/// What came of a simulation.
#[derive(Clone, Debug)]
pub struct SimulationOutcome {
    /// What the host measured.
    pub measurement: Measurement,
    /// What the controller counted, ramp and drain included.
    pub counters: Counters,
    /// Host requests completed, ramp and drain included.
    pub host_requests: u64,
    /// Host requests issued by direction, ramp and drain included: what the counts of member I/Os are divided by.
    pub issued: IssuedCounts,
    /// Events of the virtual world.
    pub events: u64,
    /// When the last request completed.
    pub virtual_time: NanoSpan,
    /// How busy each resource was in the measured window.
    pub utilisation: Utilisation,
    /// What dirty blocks took of the cache, at the start and at the end of the measured window.
    pub dirty: Vec<ByteCount>,
    /// Acknowledged data that only the cache had, at the same times: of a dirty block all, or a part.
    pub unwritten: Vec<ByteCount>,
    /// What was written to the flash of all members in the measured window; none where no member follows that.
    pub flash: Option<FlashWrites>,
    /// How busy the resources of each controller were, A first.
    pub controllers: Vec<ControllerUtilisation>,
    /// What the failure of a controller cost, if one failed.
    pub failover: Option<FailoverOutcome>,
    /// Where the time of the requests in the measured window went, if that was asked.
    pub times: Option<TimesOutcome>,
    /// How far the rebuild of the first volume came, where one was under way when the load was over.
    pub rebuild: Option<RebuildProgress>,
    /// What the host sees of the array, of all volumes together.
    pub volume: ByteCount,
}

/// What was written to the flash of members, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashWrites {
    /// For the controller, in whole mapping units; a unit that is overwritten in the write buffer counts once.
    pub host_bytes: ByteCount,
    /// The same, and what the drives moved, folded and kept up besides; without their parity.
    pub flash_bytes: ByteCount,
}

impl FlashWrites {
    /// Times that flash is written for each write to a member; none where nothing was written.
    pub fn amplification(&self) -> Option<f64> {
        (self.host_bytes.0 > 0).then(|| self.flash_bytes.0 as f64 / self.host_bytes.0 as f64)
    }
}

/// How far a rebuild came in the virtual time of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RebuildProgress {
    /// Strips of the target that are restored.
    pub done: u64,
    /// Strips that it has.
    pub total: u64,
}

/// What the failure of a controller cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailoverOutcome {
    /// Which failed.
    pub controller: ControllerName,
    /// When, from the start of the measured window.
    pub after: NanoSpan,
    /// How long the other one took to find out.
    pub detection: NanoSpan,
    /// Volumes that changed their controller.
    pub volumes: u32,
    /// From the failure until the last of them was served again; none if the run ended before.
    pub pause: Option<NanoSpan>,
    /// Requests that the failed controller had taken and not answered; their hosts asked for them again.
    pub requests_retried: u64,
    /// Dirty cache blocks that the other controller had and wrote to the members.
    pub cache_blocks_restored: u64,
    /// Acknowledged data in dirty cache blocks that only the failed controller had: at most so much is lost.
    pub lost_max: ByteCount,
    /// Requests of all volumes completed per second in the window before the failure; none if nothing of it was before.
    pub before: Option<Iops>,
    /// The same after the pause; none if nothing of the window was left.
    pub after_pause: Option<Iops>,
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The configuration is no array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The workload can't be driven.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The trace can't be replayed to its end.
    #[error(transparent)]
    Replay(ReplayError),
    /// The members are larger than the drive.
    #[error(
        "a member of {} does not fit on drive '{drive}' of {}: make member_size smaller",
        member.beside(capacity), capacity.beside(member)
    )]
    MemberTooLarge {
        /// Data and metadata areas of each member.
        member: ByteCount,
        /// Name of the drive.
        drive: String,
        /// What it holds.
        capacity: ByteCount,
    },
    /// The drives take writes only at write pointers, which no array keeps.
    #[error(
        "drive '{drive}' is host-managed: a write that is not at a zone's write pointer is an error, and arrays here write \
         anywhere; choose a conventional drive or one that manages its shingles itself"
    )]
    HostManaged {
        /// Name of the drive.
        drive: String,
    },
    /// The stroke is no share.
    #[error("a stroke of {stroke_pct} percent is not between 1 and 100")]
    Stroke {
        /// What was given.
        stroke_pct: u8,
    },
    /// The load uses more than there is.
    #[error("a load over {} does not fit on a volume of {}", region.beside(volume), volume.beside(region))]
    RegionTooLarge {
        /// What the load uses.
        region: ByteCount,
        /// What the host sees of the array.
        volume: ByteCount,
    },
    /// The controller's model has no processor or sends no command to a member.
    #[error("controller model '{controller}' has {figure} = 0: it must be at least 1")]
    ControllerFigure {
        /// Name of the controller's model.
        controller: String,
        /// Which figure.
        figure: &'static str,
    },
    /// There is nothing to simulate.
    #[error("an enclosure without volumes serves nobody: give at least one")]
    NoVolumes,
    /// A member that is to be missing is none of the array.
    #[error(
        "there is no member {member} that could be missing: the array has {devices} with its spares, counted from 0"
    )]
    NoSuchMember {
        /// Its number.
        member: u16,
        /// Members and spares.
        devices: usize,
    },
    /// Something needs a second controller, and there is one.
    #[error("volume {volume} {what}, and there is only one controller: add a second")]
    NoSecondController {
        /// Number of the volume, from 0.
        volume: usize,
        /// What needs it.
        what: &'static str,
    },
    /// Some volume would get no request.
    #[error("{iodepth} requests in flight do not reach {volumes} volumes: give at least one for each")]
    TooFewRequests {
        /// Requests in flight.
        iodepth: u32,
        /// Volumes.
        volumes: usize,
    },
    /// A controller is to fail when the run is over.
    #[error("a controller can't fail {after} into a window of {run}: let it fail sooner, or run longer")]
    FailureAfterRun {
        /// When it is to fail.
        after: NanoSpan,
        /// Length of the window.
        run: NanoSpan,
    },
    /// A volume that is to be taken over keeps metadata on its members.
    #[error(
        "a volume that keeps '{}' on its members can't be taken over in virtual time, where members hold no bytes to \
         start from: use metadata 'none'", policy.name()
    )]
    FailoverWithMetadata {
        /// What it keeps.
        policy: MetadataPolicy,
    },
    /// A host's volume is not in its enclosures, or a file's not at its host.
    #[error("there is no volume {volume}: the host has fewer")]
    NoSuchVolume {
        /// Number of the volume or enclosure, from 0.
        volume: usize,
    },
    /// Files do not fit on their volume.
    #[error(
        "files of {} do not fit on a volume with room for {}: make them shorter",
        files.beside(volume), volume.beside(files)
    )]
    FilesTooLarge {
        /// What the files take.
        files: ByteCount,
        /// Room for data.
        volume: ByteCount,
    },
    /// A request on a file shares a page with the next.
    #[error("requests of {bytes} bytes are no whole pages: on a file, make them multiples of {unit}")]
    PartOfUnit {
        /// Length of the request.
        bytes: u32,
        /// What the page cache keeps as one.
        unit: ByteCount,
    },
    /// The page cache can't be kept in such units.
    #[error("a page cache can't be kept in units of {unit}: use a multiple of 4 KiB")]
    CacheUnit {
        /// What was asked for.
        unit: ByteCount,
    },
    /// Requests wait and nothing will ever happen: a defect of raidlab.
    #[error(
        "at {at:?} with seed {seed}, host requests wait and nothing is in flight: please report this defect"
    )]
    Stalled {
        /// Virtual time.
        at: Nanos,
        /// The seed of the load.
        seed: u64,
    },
}

/// Runs `load` against `array` behind one controller in virtual time.
///
/// # Errors
/// [`SimError`] if the array, the load or both together make no sense.
pub fn simulate(array: &SimulatedArray, load: &SimulationLoad) -> Result<SimulationOutcome, SimError> {
    simulate_enclosure(&array.enclosure(), load)
}

/// Runs `load` against all volumes of `enclosure` at once in virtual time. What was measured is of all of them together.
///
/// # Errors
/// [`SimError`] if the enclosure, the load or both together make no sense.
pub fn simulate_enclosure(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
) -> Result<SimulationOutcome, SimError> {
    simulate_with::<false>(enclosure, load, None)
}

/// As [`simulate_enclosure`], and follows where the time of each request goes. Nothing else of the outcome is changed.
///
/// # Errors
/// [`SimError`] if the enclosure, the load or both together make no sense.
pub fn simulate_attributed(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
) -> Result<SimulationOutcome, SimError> {
    simulate_with::<true>(enclosure, load, None)
}

/// As [`simulate_enclosure`], but each volume has lost `missing` when the load begins. Where its configuration has a spare it
/// is rebuilt meanwhile, and the outcome tells how far that came.
///
/// # Errors
/// [`SimError`] if the enclosure, the load or both together make no sense.
pub fn simulate_degraded(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
    missing: MemberIndex,
) -> Result<SimulationOutcome, SimError> {
    simulate_with::<false>(enclosure, load, Some(missing))
}

/// The load of one volume of several, in place of that of the run.
#[derive(Clone, Debug)]
pub struct VolumeLoad {
    /// The workload.
    pub workload: AccessSpec,
    /// Requests in flight.
    pub iodepth: u32,
    /// The part of the volume in use, from its start.
    pub region: LoadRegion,
}

/// Runs each volume of `enclosure` under a load of its own at once in virtual time, on the hardware that they share. Times and seed are
/// those of `load`, whose workload is not looked at. What was measured is of all of them together, and then volume by volume.
///
/// # Panics
/// If there are not as many loads as volumes.
///
/// # Errors
/// [`SimError`] if the enclosure, a load or both together make no sense.
pub fn simulate_each(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
    own: &[VolumeLoad],
) -> Result<(SimulationOutcome, Vec<Measurement>), SimError> {
    assert_eq!(enclosure.volumes.len(), own.len(), "each volume has a load");
    let mut machines = Vec::with_capacity(own.len());
    let mut size = ByteCount::ZERO;
    for (index, (volume, VolumeLoad { workload, iodepth, region })) in
        (0..).zip(enclosure.volumes.iter().zip(own))
    {
        let (iodepth, region) = (*iodepth, *region);
        let alone = SimulationLoad { workload: workload.clone(), iodepth, region, ..load.clone() };
        check_figures(&enclosure.controller)?;
        workload.check_ops(OpSet::OF_ARRAYS.with(IoOp::Trim))?;
        check_volume(enclosure, index)?;
        let controller = enclosure.controller_of(volume)?;
        let bytes = volume.config.block_size.bytes_of(controller.volume_blocks());
        size += bytes;
        let block_bytes = volume.config.block_size.bytes() as u32;
        let config = DriverConfig {
            seed: volume_seed(load.seed, index),
            ..driver_config(block_bytes, &alone, (0, 1), region_in(&alone, bytes)?)
        };
        machines.push((controller, Load::Driver(Driver::new(workload, &config)?)));
    }
    let mut world = World::<false>::new(enclosure, machines, load);
    world.run(load.seed)?;
    let measured = world.volumes.iter().filter_map(|volume| volume.load.driver()).map(Driver::measurement);
    Ok((world.outcome(size), measured.collect()))
}

/// `FOLLOWED` if it is followed where the time of each request goes.
fn simulate_with<const FOLLOWED: bool>(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
    missing: Option<MemberIndex>,
) -> Result<SimulationOutcome, SimError> {
    check_controllers(enclosure, load)?;
    load.workload.check_ops(OpSet::OF_ARRAYS.with(IoOp::Trim))?;
    let volumes = enclosure.volumes.len();
    let mut machines = Vec::with_capacity(volumes);
    let mut size = ByteCount::ZERO;
    for (index, volume) in enclosure.volumes.iter().enumerate() {
        check_volume(enclosure, index)?;
        let mut controller = enclosure.controller_of(volume)?;
        if let Some(member) = missing {
            let devices = controller.device_states().count();
            if member.index() >= devices {
                return Err(SimError::NoSuchMember { member: member.0, devices });
            }
            controller.handle_member_loss(Nanos::ZERO, member);
        }
        let bytes = volume.config.block_size.bytes_of(controller.volume_blocks());
        size += bytes;
        let region = region_in(load, bytes)?;
        let block_bytes = volume.config.block_size.bytes() as u32;
        let own = load.workload.on_target(index as u32, volumes as u32).map_err(DriverError::from)?;
        let config = match load.workload.targets() {
            // The numbers of a part are those on each of its targets.
            Some(_) => DriverConfig {
                seed: volume_seed(load.seed, index),
                ..driver_config(block_bytes, load, (0, 1), region)
            },
            None => driver_config(block_bytes, load, (index, volumes), region),
        };
        let driver = Driver::new(&own, &config)?;
        machines.push((controller, Load::Driver(driver)));
    }
    let mut world = World::<FOLLOWED>::new(enclosure, machines, load);
    world.run(load.seed)?;
    Ok(world.outcome(size))
}

fn check_figures(model: &ControllerModel) -> Result<(), SimError> {
    let figures = [("processors", model.processors), ("member_queue_depth", model.member_queue_depth)];
    match figures.iter().find(|(_, value)| *value == 0) {
        Some((figure, _)) => Err(SimError::ControllerFigure { controller: model.id.clone(), figure }),
        None => Ok(()),
    }
}

fn check_controllers(enclosure: &SimulatedEnclosure, load: &SimulationLoad) -> Result<(), SimError> {
    check_figures(&enclosure.controller)?;
    let volumes = enclosure.volumes.len();
    if volumes == 0 {
        return Err(SimError::NoVolumes);
    }
    let iodepth = load.workload.iodepth(load.iodepth);
    if volumes > 1 && iodepth as usize / volumes == 0 && load.workload.targets().is_none() {
        return Err(SimError::TooFewRequests { iodepth, volumes });
    }
    let failure = enclosure.second.and_then(|second| second.failure);
    match failure.filter(|failure| failure.after >= load.run) {
        Some(ControllerFailure { after, .. }) => Err(SimError::FailureAfterRun { after, run: load.run }),
        None => Ok(()),
    }
}

pub(super) fn check_volume(enclosure: &SimulatedEnclosure, index: usize) -> Result<(), SimError> {
    let SimulatedVolume { config, drive, owner, .. } = &enclosure.volumes[index];
    let (member, capacity) = (config.member_size + config.metadata_bytes(), drive.capacity.bytes());
    if drive.is_host_managed() {
        return Err(SimError::HostManaged { drive: drive.id.clone() });
    }
    if member > capacity {
        return Err(SimError::MemberTooLarge { member, drive: drive.id.clone(), capacity });
    }
    let lacks = |what| Err(SimError::NoSecondController { volume: index, what });
    let policy = config.resilience.metadata;
    match &enclosure.second {
        None if *owner == ControllerName::B => lacks("belongs to controller B"),
        None if config.cache.mirror => lacks("mirrors its cache"),
        Some(SecondController { failure: Some(failure), .. })
            if failure.controller == *owner && policy != MetadataPolicy::None =>
        {
            Err(SimError::FailoverWithMetadata { policy })
        }
        _ => Ok(()),
    }
}

/// What of `volume` the load is on.
pub(crate) fn region_in(load: &SimulationLoad, volume: ByteCount) -> Result<ByteCount, SimError> {
    match load.region {
        LoadRegion::StrokePct(stroke_pct) if (1..=100).contains(&stroke_pct) => {
            Ok(ByteCount((u128::from(volume.0) * u128::from(stroke_pct) / 100) as u64))
        }
        LoadRegion::StrokePct(stroke_pct) => Err(SimError::Stroke { stroke_pct }),
        LoadRegion::Bytes(region) if region > volume => Err(SimError::RegionTooLarge { region, volume }),
        LoadRegion::Bytes(region) => Ok(region),
    }
}

/// Streams of random numbers of volumes but the first one's; those below have other uses.
const VOLUMES_STREAM: u64 = 1_000;

/// The seed of a volume: the first one's is the same whether there are others or not.
fn volume_seed(seed: u64, index: usize) -> u64 {
    if index == 0 { seed } else { derived_seed(seed, VOLUMES_STREAM + index as u64) }
}

/// The load on one volume, or on a file, in blocks of `block_bytes`: its share of the requests in flight, and requests of its own.
pub(crate) fn driver_config(
    block_bytes: u32,
    load: &SimulationLoad,
    (index, volumes): (usize, usize),
    region: ByteCount,
) -> DriverConfig {
    let seed = volume_seed(load.seed, index);
    let (iodepth, index, volumes) = (load.iodepth, index as u32, volumes as u32);
    DriverConfig {
        region,
        block_bytes,
        iodepth: iodepth / volumes + u32::from(index < iodepth % volumes),
        seed,
        ramp: load.ramp,
        run: load.run,
        shared_seed: Some(load.seed),
        worker: Worker { index, count: volumes },
        ..DriverConfig::default()
    }
}
