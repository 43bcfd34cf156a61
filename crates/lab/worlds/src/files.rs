//! Programs with files on modelled hosts, in virtual time: Bonnie, parallel readers of cold files, and loads on one file.

use super::{array_settings, empty_result, load_settings, set_measurement};
use crate::arrays::{ModelledArray, Models, array_facts};
use crate::load::Load;
use crate::simulated::{SimulatedError, simulation_load};
use raidlab_hardware::{Catalog, CatalogError, FilesystemModel, HostModel, PAGE_BYTES};
use raidlab_sim::{
    ControllerName, FileAccess, FilePlace, FilesOutcome, HostVolume, SimulatedEnclosure, SimulatedHost,
    simulate_file_load, simulate_files,
};
use raidlab_units::ByteCount;
use raidlab_workload::program::{
    BonnieConfig, BonniePhase, BonnieProgram, FileId, PhaseFigures, Readers, ReadersConfig, StreamsFigures,
    WriteEnding,
};
use raidlab_workload::{Metric, PhaseResult, RunResult, World};
use serde::Serialize;
use std::time::Instant;

/// Bonnie on one file of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BonnieLoad {
    /// The host, by its name in the catalogue.
    pub host: String,
    /// The filesystem on the array.
    pub filesystem: String,
    /// Length of the file.
    pub file: ByteCount,
    /// How phases that write end.
    pub ending: WriteEnding,
    /// Seed of all that is random.
    pub seed: u64,
}

/// Parallel readers of files of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReadersLoad {
    /// The host, by its name in the catalogue.
    pub host: String,
    /// The filesystem on the array.
    pub filesystem: String,
    /// Readers at once.
    pub streams: u32,
    /// Length of each file.
    pub file: ByteCount,
    /// Length of a read.
    pub block: ByteCount,
    /// Files that each reader has: the timed one, and those that keep the load up, as far as there is room.
    pub reads: u32,
    /// Seed of all that is random.
    pub seed: u64,
}

/// The models that a load on files needs beside the array's.
#[derive(Clone, Copy, Debug)]
pub struct HostModels<'a> {
    /// The host.
    pub host: &'a HostModel,
    /// The filesystem.
    pub filesystem: &'a FilesystemModel,
}

impl<'a> HostModels<'a> {
    /// Looks up host and filesystem.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] for the first that `catalog` lacks.
    pub fn look_up(catalog: &'a Catalog, host: &str, filesystem: &str) -> Result<Self, CatalogError> {
        Ok(Self { host: catalog.host(host)?, filesystem: catalog.filesystem(filesystem)? })
    }
}

impl BonnieLoad {
    /// Looks up host and filesystem.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] for the first that `catalog` lacks.
    pub fn look_up<'a>(&self, catalog: &'a Catalog) -> Result<HostModels<'a>, CatalogError> {
        HostModels::look_up(catalog, &self.host, &self.filesystem)
    }
}

/// Runs Bonnie on `array`, whose parts are `models`, at the host of `load`. The same input gives the same result, but for
/// `cost.wall_ns`, which tells how long the simulation itself took.
///
/// # Errors
/// [`SimulatedError`] if the array, the file or both together make no sense.
pub fn run_bonnie(
    models: &Models<'_>,
    host: &HostModels<'_>,
    array: &ModelledArray,
    load: &BonnieLoad,
) -> Result<RunResult, SimulatedError> {
    let started = Instant::now();
    let facts = array_facts(&array.config, &array.controller_label(), &array.parts.drive)?;
    let file = FilePlace { volume: 0, room: load.file, bytes: ByteCount::ZERO };
    let simulated = simulated_host(models, host, array, vec![file]);
    let mut program =
        BonnieProgram::new(&BonnieConfig { file: load.file, seed: load.seed, ending: load.ending })?;
    let outcome = simulate_files(&simulated, &mut program, load.seed)?;
    let target = format!("{}, {} at host {}", array.label(), load.filesystem, load.host);
    let mut result = RunResult::unmeasured(World::Simulated, target, "bonnie".into(), Metric::MbPerS);
    let named = |(phase, figures): &(BonniePhase, PhaseFigures)| PhaseResult {
        name: phase.name().to_owned(),
        figures: *figures,
    };
    result.set_phases(program.figures().iter().map(named).collect());
    (result.iodepth, result.seed, result.array) = (1, load.seed, Some(facts));
    result.cost.member_reads = Some(outcome.counters.member_reads);
    result.cost.member_writes = Some(outcome.counters.member_writes);
    result.cost.metadata_writes = Some(outcome.counters.metadata_writes).filter(|&writes| writes > 0);
    (result.cost.host_reads, result.cost.host_writes) =
        (Some(outcome.requests[0]), Some(outcome.requests[1]));
    result.cost.wall_ns = started.elapsed().as_nanos() as u64;
    result.settings.extend(array_settings(&array.config));
    result.settings.extend(host_settings(host, load.filesystem.clone(), load.file, &outcome));
    let ratio = load.file.get() as f64 / host.host.memory.get().max(1) as f64;
    result.settings.insert("file to memory".into(), format!("{ratio:.3}"));
    if load.ending == WriteEnding::Sync {
        result.settings.insert("writing ends".into(), "when all is on the volume (fsync)".into());
    }
    Ok(result)
}

/// Runs parallel readers of cold files on `array`, whose parts are `models`, at the host of `load`. The same input gives the
/// same result, but for `cost.wall_ns`.
///
/// # Errors
/// [`SimulatedError`] if the array, the files or both together make no sense.
pub fn run_readers(
    models: &Models<'_>,
    host: &HostModels<'_>,
    array: &ModelledArray,
    load: &ReadersLoad,
) -> Result<RunResult, SimulatedError> {
    let started = Instant::now();
    let facts = array_facts(&array.config, &array.controller_label(), &array.parts.drive)?;
    let unit = BonnieProgram::block_bytes();
    let of_all = u64::from(load.streams) * load.file.get().next_multiple_of(unit);
    let fitting = host.filesystem.room_in(array.usable).get() / of_all.max(1);
    let reads = u64::from(load.reads).min(fitting.max(1)) as u32;
    let file = FilePlace { volume: 0, room: load.file, bytes: load.file };
    let simulated = simulated_host(models, host, array, vec![file; (load.streams * reads) as usize]);
    let files = |stream| (0..reads).map(|turn| FileId(stream + turn * load.streams)).collect();
    let config = ReadersConfig { block: load.block, files: (0..load.streams).map(files).collect() };
    let mut readers = Readers::new(config)?;
    let outcome = simulate_files(&simulated, &mut readers, load.seed)?;
    let target = format!("{}, {} at host {}", array.label(), load.filesystem, load.host);
    let name = format!("parallel read of {}", load.block);
    let mut result = RunResult::unmeasured(World::Simulated, target, name, Metric::MbPerS);
    result.set_streams(StreamsFigures::of(&readers, load.file, load.block, None));
    (result.seed, result.array) = (load.seed, Some(facts));
    result.cost.wall_ns = started.elapsed().as_nanos() as u64;
    result.settings.extend(array_settings(&array.config));
    result.settings.extend(host_settings(host, load.filesystem.clone(), load.file, &outcome));
    Ok(result)
}

/// A file that loads run on instead of the volume.
#[derive(Clone, Copy, Debug)]
pub struct FileUse<'a> {
    /// Host and filesystem.
    pub host: HostModels<'a>,
    /// Through the page cache or past it.
    pub access: FileAccess,
}

/// Runs `load` on a file as long as the region of `array`, whose parts are `models`. The file is there when the load begins,
/// unless the load does nothing but write it in sequence. The same input gives the same result, but for `cost.wall_ns`.
///
/// # Errors
/// [`SimulatedError`] if the array, the file or the load make no sense.
pub fn run_file_load(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
    file: &FileUse<'_>,
) -> Result<RunResult, SimulatedError> {
    let started = Instant::now();
    let facts = array_facts(&array.config, &array.controller_label(), &array.parts.drive)?;
    let spec = &load.workload.spec;
    let is_written_in_sequence =
        spec.trace.is_none() && !spec.reads() && spec.all_lines().all(|line| line.random_pct == 0);
    let bytes = if is_written_in_sequence { ByteCount::ZERO } else { array.region };
    let place = FilePlace { volume: 0, room: array.region, bytes };
    let host = SimulatedHost {
        unit: ByteCount(PAGE_BYTES),
        access: file.access,
        ..simulated_host(models, &file.host, array, vec![place])
    };
    let (outcome, measurement) = simulate_file_load(&host, &simulation_load(array, load))?;
    let filesystem = file.host.filesystem.id.clone();
    let target = format!("{}, {filesystem} at host {}", array.label(), file.host.host.id);
    let mut result = empty_result(World::Simulated, target, load);
    set_measurement(&mut result, load, &measurement);
    result.array = Some(facts);
    result.cost.member_reads = Some(outcome.counters.member_reads);
    result.cost.member_writes = Some(outcome.counters.member_writes);
    result.cost.metadata_writes = Some(outcome.counters.metadata_writes).filter(|&writes| writes > 0);
    result.cost.wall_ns = started.elapsed().as_nanos() as u64;
    result.settings = load_settings(load, array.region);
    result.settings.extend(array_settings(&array.config));
    result.settings.extend(host_settings(&file.host, filesystem, array.region, &outcome));
    let access = match file.access {
        FileAccess::Buffered => "buffered",
        FileAccess::Direct => "direct",
    };
    result.settings.insert("file access".into(), access.into());
    let begins = if is_written_in_sequence { "empty" } else { "whole" };
    result.settings.insert("file at the start".into(), begins.into());
    Ok(result)
}

fn simulated_host(
    models: &Models<'_>,
    host: &HostModels<'_>,
    array: &ModelledArray,
    files: Vec<FilePlace>,
) -> SimulatedHost {
    let volume = models.volume(&array.config, ControllerName::A);
    let on_host = models.controller.clone().on_host(host.host);
    let controller = models.enclosure.map_or(on_host.clone(), |enclosure| on_host.behind(enclosure));
    let mut filesystem = host.filesystem.clone();
    if let Some(bytes) = array_read_ahead(models, array) {
        filesystem.read_ahead_max = filesystem.read_ahead_max.max(bytes);
    }
    SimulatedHost {
        host: host.host.clone(),
        enclosures: vec![SimulatedEnclosure { controller, second: None, volumes: vec![volume] }],
        volumes: vec![HostVolume { enclosure: 0, volume: 0, filesystem }],
        files,
        unit: ByteCount(BonnieProgram::block_bytes()),
        access: FileAccess::Buffered,
    }
}

/// Read-ahead that Linux md of today asks for: two stripes, where there are stripes.
///
/// Source: Linux 5.10 and later, drivers/md/raid0.c, raid5.c and raid10.c (`blk_queue_io_opt`), block/blk-settings.c
/// (`disk_update_readahead`, twice `io_opt`).
fn array_read_ahead(models: &Models<'_>, array: &ModelledArray) -> Option<ByteCount> {
    models.controller.md.as_ref()?;
    let shape = array.config.layout().ok()?.shape();
    let strip = array.config.strip_size.get();
    (shape.data_strips > 1).then(|| ByteCount(2 * u64::from(shape.data_strips) * strip))
}

fn host_settings(
    host: &HostModels<'_>,
    filesystem: String,
    file: ByteCount,
    outcome: &FilesOutcome,
) -> Vec<(String, String)> {
    let bytes = |index: usize| ByteCount(outcome.bytes[index]).to_string();
    let settings = [
        ("host", host.host.id.clone()),
        ("host memory", host.host.memory.to_string()),
        ("filesystem", filesystem),
        ("file", file.to_string()),
        ("virtual time", outcome.virtual_time.to_string()),
        ("read from the volume", bytes(0)),
        ("written to the volume", bytes(1)),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
