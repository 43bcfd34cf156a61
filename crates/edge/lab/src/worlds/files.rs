//! Programs with files on modelled hosts, in virtual time: Bonnie.

use super::array_settings;
use crate::arrays::{ModelledArray, Models, array_facts};
use crate::worlds::simulated::SimulatedError;
use raidlab_hardware::{Catalog, CatalogError, FilesystemModel, HostModel};
use raidlab_sim::{
    ControllerName, FilePlace, FilesOutcome, HostVolume, SimulatedEnclosure, SimulatedHost, SimulatedVolume,
    simulate_files,
};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::program::{BonnieConfig, BonniePhase, BonnieProgram, PhaseFigures};
use raidlab_workload::{Measurement, Metric, OpStats, PhaseResult, RunResult, World};
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

impl BonnieLoad {
    /// Looks up host and filesystem.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] for the first that `catalog` lacks.
    pub fn look_up<'a>(&self, catalog: &'a Catalog) -> Result<HostModels<'a>, CatalogError> {
        Ok(HostModels { host: catalog.host(&self.host)?, filesystem: catalog.filesystem(&self.filesystem)? })
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
    let simulated = simulated_host(models, host, array, load);
    let mut program = BonnieProgram::new(&BonnieConfig { file: load.file, seed: load.seed })?;
    let outcome = simulate_files(&simulated, &mut program, load.seed)?;
    let target = format!("{}, {} at host {}", array.label(), load.filesystem, load.host);
    let mut result = RunResult::unmeasured(World::Simulated, target, "bonnie".into(), Metric::MbPerS);
    result.set_measurement(&measurement(program.figures()));
    result.phases = program
        .figures()
        .iter()
        .map(|(phase, figures)| PhaseResult { name: phase.name().to_owned(), figures: *figures })
        .collect();
    (result.iodepth, result.seed, result.array) = (1, load.seed, Some(facts));
    result.cost.member_reads = Some(outcome.counters.member_reads);
    result.cost.member_writes = Some(outcome.counters.member_writes);
    (result.cost.host_reads, result.cost.host_writes) =
        (Some(outcome.requests[0]), Some(outcome.requests[1]));
    result.cost.wall_ns = started.elapsed().as_nanos() as u64;
    result.settings.extend(array_settings(&array.config));
    result.settings.extend(host_settings(host, load, &outcome));
    Ok(result)
}

fn simulated_host(
    models: &Models<'_>,
    host: &HostModels<'_>,
    array: &ModelledArray,
    load: &BonnieLoad,
) -> SimulatedHost {
    let volume = SimulatedVolume {
        config: array.config.clone(),
        drive: models.drive.clone(),
        owner: ControllerName::A,
    };
    SimulatedHost {
        host: host.host.clone(),
        enclosures: vec![SimulatedEnclosure {
            controller: models.controller_in_place().on_host(host.host),
            second: None,
            volumes: vec![volume],
        }],
        volumes: vec![HostVolume { enclosure: 0, volume: 0, filesystem: host.filesystem.clone() }],
        files: vec![FilePlace { volume: 0, room: load.file, bytes: ByteCount::ZERO }],
        unit: ByteCount(BonnieProgram::block_bytes()),
    }
}

/// What stands for the whole run where there is room for one read and one write figure: those by blocks.
fn measurement(phases: &[(BonniePhase, PhaseFigures)]) -> Measurement {
    let of = |wanted: BonniePhase| {
        let found = phases.iter().find(|(phase, _)| *phase == wanted);
        found.map_or_else(PhaseFigures::default, |(_, figures)| *figures)
    };
    let (read, write) = (of(BonniePhase::BlockRead), of(BonniePhase::BlockWrite));
    let stats = |figures: PhaseFigures| OpStats {
        requests: figures.calls,
        bytes: ByteCount(figures.bytes),
        ..OpStats::default()
    };
    Measurement {
        window: NanoSpan(read.elapsed_ns + write.elapsed_ns),
        read: stats(read),
        write: stats(write),
        ..Measurement::default()
    }
}

fn host_settings(host: &HostModels<'_>, load: &BonnieLoad, outcome: &FilesOutcome) -> Vec<(String, String)> {
    let bytes = |index: usize| ByteCount(outcome.bytes[index]).to_string();
    let settings = [
        ("host", load.host.clone()),
        ("host memory", host.host.memory.to_string()),
        ("filesystem", load.filesystem.clone()),
        ("file", load.file.to_string()),
        ("virtual time", outcome.virtual_time.to_string()),
        ("read from the volume", bytes(0)),
        ("written to the volume", bytes(1)),
    ];
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
