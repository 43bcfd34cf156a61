//! From a row to its simulation: the modelled array and the load, and the resulting figure.

use super::files::{self, phase_of};
use super::{PredictOptions, PredictTask, served};
use crate::published::{PublishedError, PublishedMetric, PublishedRow, RowProblem};
use raidlab_controller::{CacheConfig, Resilience, WritePolicy};
use raidlab_hardware::{Catalog, CatalogError, FigureSource};
use raidlab_raid::{Level, LevelVariant, ParseLevelError};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use raidlab_workload::program::BonniePhase;
use raidlab_workload::{BottleneckFacts, LookupError, RunResult, Workload, builtin_workload};
use raidlab_worlds::CacheSettings;
use raidlab_worlds::ControllerSettings;
use raidlab_worlds::Load;
use raidlab_worlds::files::{BonnieLoad, run_bonnie};
use raidlab_worlds::served::{SentLoad, ServedLoad, run_network, run_served};
use raidlab_worlds::simulated::{SimulatedError, name_bottleneck, run_simulated};
use raidlab_worlds::{ModelledArray, ModelledSettings, Models, Parts, UnknownParts};
use raidlab_worlds::{ReadOff, read_off};
use serde::{Deserialize, Serialize};

/// A row's simulation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Setup {
    /// None for what is done in memory alone.
    pub(crate) array: Option<ModelledArray>,
    pub(crate) load: SetupLoad,
}

/// What is asked of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SetupLoad {
    /// Requests to raw volumes. With a limit, the load is the one to begin with.
    Requests { load: Box<Load>, limit: Option<NanoSpan> },
    /// Bonnie on a file.
    Bonnie(BonnieLoad),
    /// Readers of a file server.
    Served(ServedLoad),
    /// A network alone.
    Network(SentLoad),
}

impl SetupLoad {
    /// The same with a seed that is `more` greater.
    pub(crate) fn with_more_seed(&self, more: u64) -> Self {
        match self {
            Self::Requests { load, limit } => {
                let load = Box::new(Load { seed: load.seed + more, ..Load::clone(load) });
                Self::Requests { load, limit: *limit }
            }
            Self::Bonnie(load) => Self::Bonnie(BonnieLoad { seed: load.seed + more, ..load.clone() }),
            Self::Served(load) => Self::Served(ServedLoad { seed: load.seed + more, ..load.clone() }),
            Self::Network(load) => Self::Network(load.clone()),
        }
    }
}

impl Setup {
    /// The entries of the catalogue that have a part in its timing, each with its figures.
    pub(crate) fn entries<'a>(&self, catalog: &'a Catalog) -> Vec<(&'a str, &'a [FigureSource])> {
        let known = "rows were looked up";
        let mut entries: Vec<(&str, &[FigureSource])> = Vec::new();
        match &self.load {
            SetupLoad::Served(load) => {
                let server = catalog.server(&load.server).expect(known);
                entries.push((&server.id, &server.sources));
                let network = load.network(catalog).expect(known);
                entries.extend(network.map(|network| (network.id.as_str(), network.sources.as_slice())));
                let filesystem = catalog.filesystem(&load.filesystem).expect(known);
                entries.push((&filesystem.id, &filesystem.sources));
            }
            SetupLoad::Network(load) => {
                let network = catalog.network(&load.network).expect(known);
                entries.push((&network.id, &network.sources));
            }
            SetupLoad::Bonnie(load) => {
                let host = load.look_up(catalog).expect(known);
                entries.push((&host.host.id, &host.host.sources));
                entries.push((&host.filesystem.id, &host.filesystem.sources));
            }
            SetupLoad::Requests { .. } => {}
        }
        if let Some(array) = &self.array {
            let models = array.parts.look_up(catalog).expect(known);
            entries.push((&models.controller.id, &models.controller.sources));
            entries.push((&models.drive.id, &models.drive.sources));
        }
        entries
    }

    pub(crate) fn simulate(&self, catalog: &Catalog) -> Result<Simulated, SimulatedError> {
        let measured = |result| Simulated { result, read_off: None };
        let Some(array) = &self.array else {
            let SetupLoad::Network(load) = &self.load else {
                unreachable!("all other loads are on an array")
            };
            return Ok(measured(run_network(load, catalog)));
        };
        let models = &array.parts.look_up(catalog).expect("rows were looked up");
        let (load, limit) = match &self.load {
            SetupLoad::Requests { load, limit } => (load, *limit),
            SetupLoad::Bonnie(load) => {
                let host = load.look_up(catalog).expect("rows were looked up");
                return Ok(measured(run_bonnie(models, &host, array, load)?));
            }
            SetupLoad::Served(load) => return Ok(measured(run_served(models, array, load, catalog)?)),
            SetupLoad::Network(load) => return Ok(measured(run_network(load, catalog))),
        };
        let run = |iodepth| run_simulated(models, array, &Load { iodepth, ..Load::clone(load) });
        let Some(limit) = limit else {
            return Ok(measured(run(load.iodepth)?));
        };
        let step = u32::from(array.volume_count());
        let (read_off, result) = read_off(limit, (load.iodepth, step), run)?;
        Ok(Simulated { result, read_off: Some(read_off) })
    }

    /// What set the pace of requests to raw volumes, which came to `result`; none for files, servers and networks.
    pub(crate) fn bottleneck(
        &self,
        catalog: &Catalog,
        result: &RunResult,
    ) -> Result<Option<BottleneckFacts>, SimulatedError> {
        let (Some(array), SetupLoad::Requests { load, .. }) = (&self.array, &self.load) else {
            return Ok(None);
        };
        let models = &array.parts.look_up(catalog).expect("rows were looked up");
        let load = Load { iodepth: result.iodepth, ..Load::clone(load) };
        name_bottleneck(models, array, &load).map(Some)
    }
}

/// What came of a row's simulation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Simulated {
    pub(crate) result: RunResult,
    pub(crate) read_off: Option<ReadOff>,
}

impl Simulated {
    /// The figure of `workload`, which names the phase where there are several.
    pub(crate) fn figure(&self, metric: PublishedMetric, workload: &str) -> f64 {
        let total = &self.result.ops.total;
        let phase = phase_of(workload).map(BonniePhase::name);
        let phase = self.result.phases.iter().find(|result| phase == Some(&result.name));
        let phase = phase.map(|phase| phase.figures);
        let (iops, rate) = match (&self.read_off, phase) {
            (_, Some(phase)) => (phase.calls_per_sec(), phase.rate()),
            (Some(read_off), None) => (read_off.iops, BytesPerSec(read_off.bytes_per_sec)),
            (None, None) => (total.iops.0, total.bytes_per_sec),
        };
        match metric {
            PublishedMetric::Iops => iops,
            PublishedMetric::KibPerS => rate.0 / 1024.0,
            PublishedMetric::MbPerS => rate.mb_per_s(),
            PublishedMetric::MibPerS => rate.mib_per_s(),
            PublishedMetric::CpuPct => phase.expect("rows of other workloads were refused").cpu_pct(),
        }
    }
}

/// Looks up hardware and workload of every row.
pub(crate) fn set_up_rows(task: &PredictTask<'_>) -> Result<Vec<Setup>, PublishedError> {
    let (mut setups, mut problems) = (Vec::new(), Vec::new());
    for row in task.rows {
        match set_up(row, task) {
            Ok(setup) => setups.push(setup),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() {
        Ok(setups)
    } else {
        Err(PublishedError::Rows { file: task.file.to_owned(), problems })
    }
}

/// The simulation of one row, or everything that is wrong with it.
pub(crate) fn set_up(row: &PublishedRow, task: &PredictTask<'_>) -> Result<Setup, Vec<RowProblem>> {
    /// Requests per drive that keep most arrays busy.
    const FIRST_PER_DRIVE: u32 = 4;
    let options = task.options_of(row);
    if row.workload.starts_with(files::BONNIE) {
        return files::set_up_bonnie(row, task);
    }
    if row.counts == PublishedMetric::CpuPct {
        let why = "is predicted of Bonnie's phases only: leave the row out".to_owned();
        return Err(vec![problem(row, "metric", row.counts.name(), why, None)]);
    }
    if row.workload.starts_with(served::SERVED) {
        return served::set_up_served(row, task);
    }
    let (models, workload) = match (look_up_hardware(row, task.catalog), look_up_workload(row)) {
        (Ok(models), Ok(workload)) => (models, workload),
        (models, workload) => {
            let hardware = models.err().unwrap_or_default();
            return Err(hardware.into_iter().chain(workload.err()).collect());
        }
    };
    let array = modelled_array(row, &models, &options).map_err(|problem| vec![problem])?;
    let first = FIRST_PER_DRIVE * u32::from(row.drives);
    let through = row.write_policy == Some(WritePolicy::WriteThrough);
    let load = Load {
        workload,
        iodepth: if row.response_limit.is_some() { first } else { row.queue_depth },
        ramp: if through { options.ramp_write_through } else { options.ramp },
        run: options.run,
        workers: 1,
        seed: options.seed,
        once: false,
        settles: false,
    };
    Ok(Setup {
        array: Some(array),
        load: SetupLoad::Requests { load: Box::new(load), limit: row.response_limit },
    })
}

pub(super) fn modelled_array(
    row: &PublishedRow,
    models: &Models<'_>,
    options: &PredictOptions,
) -> Result<ModelledArray, RowProblem> {
    models.check_fit().map_err(|why| problem(row, "drive", &row.drive, why, None))?;
    let write_policy = row.write_policy;
    let write_policy =
        write_policy.ok_or_else(|| problem(row, "write_policy", "", "is empty but needed".into(), None))?;
    let raid = match row.raid.as_str() {
        "single" => "jbod",
        // Publications name the level alone, which means the fewest spans that it can have.
        "50" => "50:2-spans",
        "60" => "60:2-spans",
        named => named,
    };
    let level: LevelVariant = raid
        .parse()
        .map_err(|error: ParseLevelError| problem(row, "raid", &row.raid, error.to_string(), None))?;
    let is_dual = system_of(row).is_dual;
    let volumes = if is_dual { volume_count(level, row.drives, options.drives_per_volume) } else { 1 };
    let settings = ModelledSettings {
        level,
        members: row.drives / volumes,
        write_policy,
        strip_size: options.strip_size,
        disk_cache: row.disk_cache,
        cache: CacheSettings {
            read_policy: row.read_policy,
            io_policy: row.io_policy,
            ..CacheSettings::default()
        },
        resilience: Resilience::default(),
    };
    let array = ModelledArray::new(models, &settings);
    let array = array.map_err(|error| problem(row, "raid", &row.raid, error.to_string(), None))?;
    let used = row.stroke_pct.map_or(array.usable, |pct| part_of(array.usable, pct, array.config.cache));
    let array = array.with_region(used);
    let array = array.map_err(|error| problem(row, "stroke_pct", "", error.to_string(), None))?;
    if !is_dual {
        return match row.cache_mirroring {
            Some(true) => Err(problem(row, "cache_mirroring", "on", "needs two controllers".into(), None)),
            _ => Ok(array),
        };
    }
    let mirror = Some(row.cache_mirroring.unwrap_or(false));
    let controllers =
        ControllerSettings { volumes: Some(volumes), mirror, ..ControllerSettings::of_count(2) };
    let array = array.with_controllers(models, &controllers);
    array.map_err(|error| problem(row, "system", &row.system, error.to_string(), None))
}

/// Volumes that `drives` are shared out in behind two controllers: an even number of equal ones, of about so many drives
/// as `wanted` says each; one alone where that fits better, as for the drives of one volume.
pub(super) fn volume_count(level: LevelVariant, drives: u16, wanted: Option<u16>) -> u16 {
    let wanted = wanted.unwrap_or(drives / 2);
    let pairs_only = level.level == Level::Raid10;
    let fits = |volumes: &u16| {
        let members = drives / volumes;
        drives.is_multiple_of(*volumes) && members >= 2 && (!pairs_only || members.is_multiple_of(2))
    };
    let even = (1..=drives / 2).map(|half| half * 2).filter(fits);
    core::iter::once(1).chain(even).min_by_key(|volumes| (drives / volumes).abs_diff(wanted)).unwrap_or(1)
}

/// What the `system` column names.
struct SystemName<'a> {
    controller: &'a str,
    enclosure: Option<&'a str>,
    is_dual: bool,
}

/// Takes `dual-controller/enclosure` apart.
fn system_of(row: &PublishedRow) -> SystemName<'_> {
    let (controller, enclosure) = match row.system.split_once('/') {
        Some((controller, enclosure)) => (controller, Some(enclosure)),
        None => (row.system.as_str(), None),
    };
    match controller.strip_prefix("dual-") {
        Some(controller) => SystemName { controller, enclosure, is_dual: true },
        None => SystemName { controller, enclosure, is_dual: false },
    }
}

/// `pct` percent of `usable`, in whole cache blocks so that requests stay aligned.
fn part_of(usable: ByteCount, pct: f64, cache: CacheConfig) -> ByteCount {
    let block = cache.block_size.get();
    let blocks = (usable.get() as f64 * pct / 100.0 / block as f64).floor() as u64;
    ByteCount(blocks.max(1) * block).min(usable)
}

fn look_up_hardware<'a>(row: &PublishedRow, catalog: &'a Catalog) -> Result<Models<'a>, Vec<RowProblem>> {
    let SystemName { controller, enclosure, .. } = system_of(row);
    let parts = Parts {
        controller: controller.to_owned(),
        enclosure: enclosure.map(str::to_owned),
        drive: row.drive.clone(),
    };
    let column = |part: &CatalogError| match part {
        CatalogError::UnknownId { what: "drive", .. } => "drive",
        _ => "system",
    };
    let problems =
        |UnknownParts(parts)| parts.into_iter().map(|part| unknown(row, column(&part), part)).collect();
    parts.look_up(catalog).map_err(problems)
}

pub(super) fn unknown(row: &PublishedRow, column: &'static str, error: CatalogError) -> RowProblem {
    match error {
        CatalogError::UnknownId { what, id, nearest, known } => {
            let why = format!("names a {what} that the catalogue lacks (it has {})", known.join(", "));
            problem(row, column, &id, why, nearest)
        }
        other => problem(row, column, "", other.to_string(), None),
    }
}

fn look_up_workload(row: &PublishedRow) -> Result<Workload, RowProblem> {
    let named = builtin_workload(&row.workload).map_err(|error| {
        let nearest = match &error {
            LookupError::Ambiguous { candidates, .. } => candidates.first().cloned(),
            LookupError::Unknown { nearest, .. } => nearest.first().cloned(),
        };
        problem(row, "workload", &row.workload, "is no known workload".into(), nearest)
    })?;
    let Some(block) = row.block else { return Ok(named) };
    let bad_size = |why: String| problem(row, "block_kib", &block.to_string(), why, None);
    let bytes = u32::try_from(block.get()).map_err(|_| bad_size("is too long for one request".into()))?;
    // A mix of sizes has none to replace; naming its only size again changes nothing.
    named.with_block_bytes(bytes).map_err(|error| bad_size(error.to_string()))
}

pub(super) fn problem(
    row: &PublishedRow,
    column: &'static str,
    value: &str,
    why: String,
    nearest: Option<String>,
) -> RowProblem {
    RowProblem { line: row.line, row: row.id.clone(), column, value: value.to_owned(), why, nearest }
}
