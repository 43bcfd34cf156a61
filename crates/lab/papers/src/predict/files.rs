//! Rows of programs with files: `host/controller` in the `system` column, `bonnie-<phase>` as the workload.
//!
//! Open settings are the usual ones of such hosts: ext2, and write-back if the controller's cache has a battery.

use super::setup::{modelled_array, problem, unknown};
use super::{PredictTask, Setup, SetupLoad};
use crate::published::{PublishedRow, RowProblem};
use raidlab_controller::WritePolicy;
use raidlab_workload::program::{BonniePhase, WriteEnding};
use raidlab_worlds::Models;
use raidlab_worlds::files::BonnieLoad;

/// What workloads of files are called: this and the phase.
pub(crate) const BONNIE: &str = "bonnie-";

/// The filesystem where a row names none.
const USUAL_FILESYSTEM: &str = "ext2";

/// The phase that `workload` names, if it is one of Bonnie.
pub(crate) fn phase_of(workload: &str) -> Option<BonniePhase> {
    BonniePhase::named(workload.strip_prefix(BONNIE)?)
}

/// The simulation of a row of Bonnie, or everything that is wrong with it.
pub(super) fn set_up_bonnie(row: &PublishedRow, task: &PredictTask<'_>) -> Result<Setup, Vec<RowProblem>> {
    let mut problems = Vec::new();
    if phase_of(&row.workload).is_none() {
        let names = BonniePhase::ALL.map(BonniePhase::name).join(", ");
        let why = format!("is no phase of Bonnie: write {BONNIE} and one of {names}");
        problems.push(problem(row, "workload", &row.workload, why, None));
    }
    let Some((host, controller)) = row.system.split_once('/') else {
        let why = "must be a host and a controller, such as noral3/linux-md";
        problems.push(problem(row, "system", &row.system, why.into(), None));
        return Err(problems);
    };
    let filesystem = row.filesystem.as_deref().unwrap_or(USUAL_FILESYSTEM);
    let catalog = task.catalog;
    let known_host = catalog.host(host).map_err(|error| unknown(row, "system", error));
    let known_filesystem = catalog.filesystem(filesystem).map_err(|error| unknown(row, "filesystem", error));
    problems.extend([known_host.err(), known_filesystem.err()].into_iter().flatten());
    let controller = catalog.controller(controller).map_err(|error| unknown(row, "system", error));
    let drive = catalog.drive(&row.drive).map_err(|error| unknown(row, "drive", error));
    let (controller, drive) = match (controller, drive) {
        (Ok(controller), Ok(drive)) => (controller, drive),
        (controller, drive) => {
            problems.extend([controller.err(), drive.err()].into_iter().flatten());
            return Err(problems);
        }
    };
    let Some(file) = row.file else {
        problems.push(problem(row, "file_mib", "", "is empty but needed".into(), None));
        return Err(problems);
    };
    if !problems.is_empty() {
        return Err(problems);
    }
    let is_kept = controller.cache.battery_backed && controller.cache.size.0 > 0;
    let usual = if is_kept { WritePolicy::WriteBack } else { WritePolicy::WriteThrough };
    let filled = PublishedRow { write_policy: row.write_policy.or(Some(usual)), ..row.clone() };
    let models = Models { controller, enclosure: None, drive, beside: None };
    let array = modelled_array(&filled, &models, &task.options_of(row)).map_err(|problem| vec![problem])?;
    let load = BonnieLoad {
        host: host.to_owned(),
        filesystem: filesystem.to_owned(),
        file,
        ending: WriteEnding::Close,
        seed: task.options_of(row).seed,
    };
    Ok(Setup { array: Some(array), load: SetupLoad::Bonnie(load) })
}
