//! Runs on real arrays over member files.
//!
//! The files of one section serve all its arrays, one after another. Between levels an array is created again over
//! them, all zeros, because redundancy of one layout does not fit another; between write policies of one level it is
//! kept.
//!
//! They are ordinary arrays with a reserved name, which identifies files that an earlier run left behind: those are
//! replaced, any others are not touched.

use raidlab_controller::{ArrayConfig, ConfigError, Controller};
use raidlab_format::ArrayName;
use raidlab_machine::MachineWatch;
use raidlab_runtime::{
    ArrayError, ArrayOutcome, ArrayWorld, Contents, CreateError, CreateOptions, DeviceReport, RunSettings,
    StartOptions, create, examine,
};
use raidlab_units::ByteCount;
use raidlab_workload::{Driver, DriverError, IssuedCounts, OpSet, RunResult, WindowProgress, World};
use raidlab_worlds::{
    Load, array_facts, array_label, array_settings, empty_result, load_settings, set_measurement,
};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// A real array over member files.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SoftwareArray {
    /// Level, members, cache.
    pub config: ArrayConfig,
    /// What the host sees.
    pub usable: ByteCount,
    /// Threads beside its own.
    pub threads: ArrayThreads,
}

/// Threads of a real array beside its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ArrayThreads {
    /// For I/O of members.
    pub io: u8,
    /// For parity and digests.
    pub parity: u8,
}

impl ArrayThreads {
    /// Most of each kind.
    pub const MAX: u8 = 64;
}

impl SoftwareArray {
    /// Checks `config`.
    ///
    /// # Errors
    /// [`ConfigError`] when the controller refuses it.
    pub fn new(config: ArrayConfig) -> Result<Self, ConfigError> {
        let usable = config.block_size.bytes_of(Controller::new(&config)?.volume_blocks());
        Ok(Self { config, usable, threads: ArrayThreads::default() })
    }

    /// The array in a few words.
    pub fn label(&self) -> String {
        array_label(&self.config)
    }
}

/// The name of arrays that are made for a study.
const SCRATCH_NAME: &str = "raidlab study, scratch";

/// Why a real array can't be run.
#[derive(Debug, thiserror::Error)]
pub enum RealArrayError {
    /// The controller refuses the array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It can't be made.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// It can't be run.
    #[error(transparent)]
    Array(#[from] ArrayError),
    /// The load does not fit the volume.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A member file can't be taken away.
    #[error("the member file {} can't be removed: {source}", path.display())]
    Remove {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl RealArrayError {
    /// Whether the caller asked for it.
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Create(CreateError::Cancelled) | Self::Array(ArrayError::Cancelled))
    }
}

/// The member files of a section, `member-00.raidlab` and so on, in `folders` in turn.
fn member_paths(folders: &[PathBuf], count: u16) -> Vec<PathBuf> {
    let names = (0..count).map(|index| format!("member-{index:02}.raidlab"));
    names.zip(folders.iter().cycle()).map(|(name, folder)| folder.join(name)).collect()
}

/// Makes `array` over files in `folders`, all zeros. Files that a study left there are used again or replaced; any other
/// file in the way is an error.
///
/// # Errors
/// [`RealArrayError`]: a file in the way, no space, no direct I/O, or `cancel`.
#[expect(clippy::missing_panics_doc, reason = "the name is short")]
pub fn make_array(
    array: &SoftwareArray,
    folders: &[PathBuf],
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(ByteCount, ByteCount),
) -> Result<(), RealArrayError> {
    let options = CreateOptions {
        name: ArrayName::new(SCRATCH_NAME).expect("it is short"),
        members: member_paths(folders, array.config.members),
        contents: Contents::Written,
        replace_own: true,
        ..CreateOptions::default()
    };
    create(&array.config, &options, cancel, progress)?;
    Ok(())
}

/// Removes the files that [`make_array`] made, which their labels tell from any other file in their place.
///
/// # Errors
/// [`RealArrayError::Remove`] for the first that can't be; the others are removed all the same.
pub fn remove_array(folders: &[PathBuf], count: u16) -> Result<(), RealArrayError> {
    let mut outcome = Ok(());
    let paths = member_paths(folders, count);
    let found = examine(&paths, StartOptions::default()).devices.into_iter();
    for DeviceReport { path, .. } in found.filter(|device| device.name.as_deref() == Some(SCRATCH_NAME)) {
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(source) => outcome = outcome.and(Err(RealArrayError::Remove { path, source })),
        }
    }
    outcome
}

/// An array that is ready for runs.
#[derive(Debug)]
pub struct ArrayBench<'a> {
    array: &'a SoftwareArray,
    world: ArrayWorld,
    region: ByteCount,
    folders: Vec<PathBuf>,
}

impl<'a> ArrayBench<'a> {
    /// Starts the array that [`make_array`] made in `folders` with the settings of `array`, with the first `region` of its
    /// volume in use.
    ///
    /// # Errors
    /// [`ArrayError`] when it does not start. The member files stay.
    pub fn new(array: &'a SoftwareArray, region: ByteCount, folders: &[PathBuf]) -> Result<Self, ArrayError> {
        let paths = member_paths(folders, array.config.members);
        let settings = RunSettings {
            io_threads: array.threads.io.into(),
            parity_threads: array.threads.parity.into(),
            ..RunSettings::of(&array.config)
        };
        let started = ArrayWorld::start(&paths, &settings, StartOptions::default());
        Ok(Self { array, world: started.world?, region, folders: folders.to_owned() })
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
        load.workload.spec.check_ops(OpSet::OF_ARRAYS)?;
        let mut driver = Driver::new(&load.workload.spec, &load.driver_config(self.region, block_bytes))?;
        let watch = MachineWatch::start(self.folders.first().map_or(Path::new("."), PathBuf::as_path));
        let outcome =
            self.world.run(&mut driver, cancel, &mut |window: WindowProgress| progress(window.fraction))?;
        let mut result = empty_result(World::Array, self.array.label(), load);
        result.machine = Some(watch.end());
        set_measurement(&mut result, load, &outcome.measurement);
        result.array = Some(array_facts(config, "raidlab", "file")?);
        set_cost(&mut result, &outcome, driver.issued());
        result.settings = load_settings(load, self.region);
        result.settings.extend(array_settings(config));
        let registered = if self.world.has_registered_buffers() { "registered" } else { "plain" };
        result.settings.insert("io threads".into(), self.array.threads.io.to_string());
        result.settings.insert("parity threads".into(), self.array.threads.parity.to_string());
        result.settings.insert("buffers".into(), registered.into());
        result.settings.insert("drain after the run".into(), outcome.drain.to_string());
        Ok(result)
    }
}

fn set_cost(result: &mut RunResult, outcome: &ArrayOutcome, issued: IssuedCounts) {
    let host_ios = issued.requests();
    let cost = &mut result.cost;
    cost.member_reads = Some(outcome.counters.member_reads);
    cost.member_writes = Some(outcome.counters.member_writes);
    cost.metadata_writes = Some(outcome.counters.metadata_writes).filter(|&writes| writes > 0);
    cost.host_reads = Some(issued.reads);
    cost.host_writes = Some(issued.writes);
    cost.cpu_ns_per_io = (host_ios > 0).then(|| outcome.cpu.get() as f64 / host_ios as f64);
    cost.wall_ns = outcome.wall.get();
}

#[cfg(test)]
mod tests;
