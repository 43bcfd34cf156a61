//! Runs on modelled arrays in virtual time.

use super::{array_settings, empty_result, load_settings};
use crate::arrays::{ModelledArray, Models, array_facts};
use crate::load::Load;
use raidlab_controller::ConfigError;
use raidlab_sim::{LoadRegion, SimError, SimulatedArray, SimulationLoad, SimulationOutcome, simulate};
use raidlab_workload::{RunResult, World};
use std::time::Instant;

/// Why a modelled array can't be run.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// The controller refuses the array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The array, the load or both together make no sense.
    #[error(transparent)]
    Simulation(#[from] SimError),
}

/// Runs `load` on `array`, whose parts are `models`. The same input gives the same result, but for
/// `cost.wall_ns`, which tells how long the simulation itself took.
///
/// # Errors
/// [`SimulatedError`] if the array, the load or both together make no sense.
pub fn run_simulated(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
) -> Result<RunResult, SimulatedError> {
    let started = Instant::now();
    let facts = array_facts(&array.config, &array.parts.controller, &array.parts.drive)?;
    let simulated = SimulatedArray {
        config: array.config.clone(),
        drive: models.drive.clone(),
        controller: models.controller.clone(),
    };
    let outcome = simulate(
        &simulated,
        &SimulationLoad {
            workload: load.workload.spec.clone(),
            iodepth: load.iodepth,
            region: LoadRegion::Bytes(array.region),
            ramp: load.ramp,
            run: load.run,
            seed: load.seed,
        },
    )?;
    let mut result = empty_result(World::Simulated, array.label(), load);
    result.set_measurement(&outcome.measurement);
    result.array = Some(facts);
    result.cost.member_reads = Some(outcome.counters.member_reads);
    result.cost.member_writes = Some(outcome.counters.member_writes);
    result.cost.host_reads = Some(outcome.issued.reads);
    result.cost.host_writes = Some(outcome.issued.writes);
    result.cost.wall_ns = started.elapsed().as_nanos() as u64;
    result.settings = load_settings(load, array.region);
    result.settings.extend(array_settings(&array.config));
    result.settings.extend(hardware_settings(array, &outcome));
    Ok(result)
}

/// What the hardware is and how busy it was.
fn hardware_settings(array: &ModelledArray, outcome: &SimulationOutcome) -> Vec<(String, String)> {
    let pct = |share: f64| format!("{:.1} %", share * 100.0);
    let busy = &outcome.utilisation;
    let mut settings = vec![
        ("bottleneck", busy.bottleneck().to_string()),
        ("busy drives, mean", pct(busy.drives_mean)),
        ("busy drives, most", pct(busy.drives_max)),
        ("busy processors", pct(busy.processors)),
        ("busy host link", pct(busy.host_link)),
        ("busy member link", pct(busy.member_link)),
    ];
    if let Some(enclosure) = &array.parts.enclosure {
        settings.push(("enclosure", enclosure.clone()));
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
