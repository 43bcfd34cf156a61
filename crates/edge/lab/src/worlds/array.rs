//! Runs on real arrays over member files.
//!
//! One set of members serves all arrays of a section, one after another. Between levels the members are written
//! with zeros again, because redundancy left by one layout does not fit another; between write policies of one level
//! they are kept.

use super::{array_settings, empty_result, load_settings};
use crate::arrays::{SoftwareArray, array_facts};
use crate::load::Load;
use raidlab_array::{ArrayError, ArrayOutcome, ArrayWorld, CreateOptions, Existing, Members, MembersError};
use raidlab_controller::ConfigError;
use raidlab_units::ByteCount;
use raidlab_workload::{Driver, DriverError, IssuedCounts, RunResult, WindowProgress, World};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Why a real array can't be run.
#[derive(Debug, thiserror::Error)]
pub enum RealArrayError {
    /// The controller refuses the array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The member files.
    #[error(transparent)]
    Members(#[from] MembersError),
    /// The array over them.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The load does not fit the volume.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

impl RealArrayError {
    /// Whether the caller asked for it.
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Members(MembersError::Cancelled) | Self::Array(ArrayError::Cancelled))
    }
}

/// Makes `count` member files with data areas of `size` in `folder`. Scratch members that an earlier run left
/// there are replaced; any other file in the way is an error.
///
/// # Errors
/// [`MembersError`]: a file in the way, no space, no direct I/O, or `cancel`.
pub fn make_members(
    folder: &Path,
    count: u16,
    size: ByteCount,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(ByteCount, ByteCount),
) -> Result<Members, MembersError> {
    let options = CreateOptions { member_bytes: size, existing: Existing::ReplaceScratch };
    Members::create(&Members::paths_in(folder, count), &options, cancel, progress)
}

/// Opens the members that [`make_members`] made.
///
/// # Errors
/// [`MembersError`]: a missing file, or one that is no whole member.
pub fn open_members(folder: &Path, count: u16) -> Result<Members, MembersError> {
    Members::open(&Members::paths_in(folder, count))
}

/// An array over members that is ready for runs.
#[derive(Debug)]
pub struct ArrayBench<'a> {
    array: &'a SoftwareArray,
    world: ArrayWorld,
    region: ByteCount,
}

impl<'a> ArrayBench<'a> {
    /// Puts `array` over `members`, with the first `region` of its volume in use.
    ///
    /// # Errors
    /// [`ArrayError`] when it does not fit them. The member files stay.
    pub fn new(array: &'a SoftwareArray, region: ByteCount, members: Members) -> Result<Self, ArrayError> {
        Ok(Self { array, world: ArrayWorld::new(&array.config, members)?, region })
    }

    /// Runs `load`, telling `progress` what share of ramp and window is over, then drains the cache so that nothing of this run is left for the next.
    ///
    /// # Errors
    /// [`RealArrayError`]: a load that does not fit, a failing array, or `cancel`.
    pub fn run(
        &mut self,
        load: &Load,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<RunResult, RealArrayError> {
        let config = &self.array.config;
        let block_bytes = config.block_size.bytes() as u32;
        let mut driver = Driver::new(&load.workload.spec, &load.driver_config(self.region, block_bytes))?;
        let outcome =
            self.world.run(&mut driver, cancel, &mut |window: WindowProgress| progress(window.fraction))?;
        let mut result = empty_result(World::Array, self.array.label(), load);
        result.set_measurement(&outcome.measurement);
        result.array = Some(array_facts(config, "raidlab", "file")?);
        set_cost(&mut result, &outcome, driver.issued());
        result.settings = load_settings(load, self.region);
        result.settings.extend(array_settings(config));
        let registered = if self.world.has_registered_buffers() { "registered" } else { "plain" };
        result.settings.insert("buffers".into(), registered.into());
        result.settings.insert("drain after the run".into(), outcome.drain.to_string());
        Ok(result)
    }

    /// Returns the members for the next array.
    pub fn into_members(self) -> Members {
        self.world.into_members()
    }
}

fn set_cost(result: &mut RunResult, outcome: &ArrayOutcome, issued: IssuedCounts) {
    let host_ios = issued.reads + issued.writes;
    let cost = &mut result.cost;
    cost.member_reads = Some(outcome.counters.member_reads);
    cost.member_writes = Some(outcome.counters.member_writes);
    cost.host_reads = Some(issued.reads);
    cost.host_writes = Some(issued.writes);
    cost.cpu_ns_per_io = (host_ios > 0).then(|| outcome.cpu.get() as f64 / host_ios as f64);
    cost.wall_ns = outcome.wall.get();
}
