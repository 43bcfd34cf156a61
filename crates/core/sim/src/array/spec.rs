//! What to simulate, and what came of it.

use super::utilisation::Utilisation;
use super::world::World;
use raidlab_controller::{ArrayConfig, ConfigError, Controller, Counters};
use raidlab_hardware::{ControllerModel, DriveModel};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::{AccessSpec, Driver, DriverConfig, DriverError, IssuedCounts, Measurement};

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

/// What to ask of the array.
#[derive(Clone, Debug)]
pub struct SimulationLoad {
    /// The workload.
    pub workload: AccessSpec,
    /// Requests in flight.
    pub iodepth: u32,
    /// The part of the volume in use, from its start.
    pub region: LoadRegion,
    /// Time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window.
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
    /// What the host sees of the array.
    pub volume: ByteCount,
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
    /// The members are larger than the drive.
    #[error("a member of {member} does not fit on drive '{drive}' of {capacity}: make member_size smaller")]
    MemberTooLarge {
        /// Data and metadata areas of each member.
        member: ByteCount,
        /// Name of the drive.
        drive: String,
        /// What it holds.
        capacity: ByteCount,
    },
    /// The stroke is no share.
    #[error("a stroke of {stroke_pct} percent is not between 1 and 100")]
    Stroke {
        /// What was given.
        stroke_pct: u8,
    },
    /// The load uses more than there is.
    #[error("a load over {region} does not fit on a volume of {volume}")]
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

/// Runs `load` against `array` in virtual time.
///
/// # Errors
/// [`SimError`] if the array, the load or both together make no sense.
pub fn simulate(array: &SimulatedArray, load: &SimulationLoad) -> Result<SimulationOutcome, SimError> {
    check(array)?;
    let controller = Controller::new(&array.config)?;
    let volume = array.config.block_size.bytes_of(controller.volume_blocks());
    let region = region_in(load, volume)?;
    let driver = Driver::new(&load.workload, &driver_config(array, load, region))?;
    let mut world = World::new(array, controller, driver, load);
    world.run(load.seed)?;
    Ok(world.outcome(volume))
}

fn check(array: &SimulatedArray) -> Result<(), SimError> {
    let (model, capacity) = (&array.controller, array.drive.capacity.bytes());
    let member = array.config.member_size + array.config.metadata_bytes();
    if member > capacity {
        let drive = array.drive.id.clone();
        return Err(SimError::MemberTooLarge { member, drive, capacity });
    }
    let figures = [("processors", model.processors), ("member_queue_depth", model.member_queue_depth)];
    match figures.iter().find(|(_, value)| *value == 0) {
        Some((figure, _)) => Err(SimError::ControllerFigure { controller: model.id.clone(), figure }),
        None => Ok(()),
    }
}

fn region_in(load: &SimulationLoad, volume: ByteCount) -> Result<ByteCount, SimError> {
    match load.region {
        LoadRegion::StrokePct(stroke_pct) if (1..=100).contains(&stroke_pct) => {
            Ok(ByteCount((u128::from(volume.0) * u128::from(stroke_pct) / 100) as u64))
        }
        LoadRegion::StrokePct(stroke_pct) => Err(SimError::Stroke { stroke_pct }),
        LoadRegion::Bytes(region) if region > volume => Err(SimError::RegionTooLarge { region, volume }),
        LoadRegion::Bytes(region) => Ok(region),
    }
}

fn driver_config(array: &SimulatedArray, load: &SimulationLoad, region: ByteCount) -> DriverConfig {
    DriverConfig {
        region,
        block_bytes: array.config.block_size.bytes() as u32,
        iodepth: load.iodepth,
        seed: load.seed,
        ramp: load.ramp,
        run: load.run,
        max_requests: None,
        start_offset: ByteCount::ZERO,
    }
}
