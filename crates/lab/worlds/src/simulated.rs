//! Runs on modelled arrays in virtual time.

use super::{array_settings, empty_result, load_settings, set_measurement};
use crate::arrays::{ModelledArray, Models, array_facts};
use crate::controllers::{ModelledControllers, Owner};
use crate::ends::Ends;
use crate::files::{FileUse, run_file_load};
use crate::load::Load;
use crate::settle::{beyond_cycles, resting_writes, settled};
use raidlab_controller::{ConfigError, Controller, WritePolicy};
use raidlab_hosts::{Hosts, HostsError, all_processors};
use raidlab_sim::{
    BottleneckOutcome, ControllerName, Extent, FailoverOutcome, Gain, Goal, LoadRegion, Probe, ProbeFigures,
    RebuildProgress, SimError, SimulatedEnclosure, SimulationLoad, SimulationOutcome, Station, Stay,
    TimesOutcome, find_bottleneck, simulate_attributed, simulate_degraded, simulate_enclosure,
};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan};
use raidlab_workload::program::{BonnieError, ReadersError};
use raidlab_workload::{
    ArrayFacts, BottleneckFacts, CacheFill, ControllerFacts, EnclosureFacts, FailoverFacts, LoadFacts,
    PartGain, RangeFacts, RunResult, StationTimes, TimesFacts, World,
};
use std::num::NonZeroUsize;
use std::time::Instant;

/// Bytes that the members' flash is sent in a second, all members together, in whole mapping units.
pub const FLASH_HOST_RATE: &str = "flash_host_bytes_per_sec";

/// Times that flash is written for each write that it is sent.
pub const WRITE_AMPLIFICATION: &str = "write_amplification";

/// Why a modelled array can't be run.
#[derive(Debug, thiserror::Error)]
pub enum SimulatedError {
    /// The controller refuses the array.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The array, the load or both together make no sense.
    #[error(transparent)]
    Simulation(#[from] SimError),
    /// Bonnie can't be run on such a file.
    #[error(transparent)]
    Bonnie(#[from] BonnieError),
    /// Readers have nothing to read.
    #[error(transparent)]
    Readers(#[from] ReadersError),
}

/// Runs `load` on `array`, whose parts are `models`; where the load settles, with the ramp that it then needs. The same input gives the same result, but for
/// `cost.wall_ns`, which tells how long the simulation itself took.
///
/// # Errors
/// [`SimulatedError`] if the array, the load or both together make no sense.
pub fn run_simulated(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
) -> Result<RunResult, SimulatedError> {
    settle(array, load, |load| run_with(models, array, load, simulate_enclosure).map(|(result, _)| result))
        .map(|(_, result)| result)
}

/// Runs `load` by `run`, where it asks for that with the ramp and the window that it needs; the load as it was run last, and its result.
fn settle(
    array: &ModelledArray,
    load: &Load,
    mut run: impl FnMut(&Load) -> Result<RunResult, SimulatedError>,
) -> Result<(Load, RunResult), SimulatedError> {
    if !load.settles {
        return Ok((load.clone(), run(load)?));
    }
    let cache = &array.config.cache;
    let of_all = ByteCount(cache.size.0 * u64::from(array.volume_count()));
    let of_all = (cache.write_policy != WritePolicy::WriteThrough).then_some(of_all);
    beyond_cycles(settled(load, of_all, &mut run)?, run)
}

/// As [`run_simulated`], and finds out where the time of requests went and what set the pace, by running parts of the load again up to a dozen times, on up to
/// `threads` threads.
///
/// # Errors
/// [`SimulatedError`] if the array, the load or both together make no sense.
#[expect(clippy::missing_panics_doc, reason = "it has run once")]
pub fn run_with_bottleneck(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
    threads: NonZeroUsize,
) -> Result<RunResult, SimulatedError> {
    let mut last = None;
    let (load, mut result) = settle(array, load, |load| {
        let (result, outcome) = run_with(models, array, load, simulate_attributed)?;
        last = Some(outcome);
        Ok(result)
    })?;
    let outcome = last.expect("it has run");
    result.times = outcome.times.as_ref().map(times_facts);
    add_bottleneck(&mut result, (models, array, &load), &outcome, threads)?;
    Ok(result)
}

/// Adds to `result` what set the pace of its run, which had this `outcome`. Nothing else of it is changed.
fn add_bottleneck(
    result: &mut RunResult,
    (models, array, load): (&Models<'_>, &ModelledArray, &Load),
    outcome: &SimulationOutcome,
    threads: NonZeroUsize,
) -> Result<(), SimulatedError> {
    let started = Instant::now();
    let enclosure = enclosure_under(models, array, load);
    let load = simulation_load(array, load);
    let found = find_bottleneck(&enclosure, &load, outcome, Extent::Gains, &mut |probes| {
        let job = |index: usize| probes[index].run().map(|it| (it.figure, it.requests));
        let done = Hosts::alone().share_all((probes.len(), threads), job, |_, _| {});
        let figures = |(figure, requests)| ProbeFigures { figure, requests };
        let done = done.expect("a host alone loses nobody").into_iter();
        done.map(|result| result.map(figures)).collect()
    })?;
    result.bottleneck = Some(bottleneck_facts(&found));
    result.cost.bottleneck_wall_ns = Some(started.elapsed().as_nanos() as u64);
    Ok(())
}

/// What sets the pace of `load` on `array`, found with as few runs as name it, one after the other.
///
/// # Errors
/// [`SimulatedError`] if the array, the load or both together make no sense.
pub fn name_bottleneck(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
) -> Result<BottleneckFacts, SimulatedError> {
    let (enclosure, load) = (enclosure_under(models, array, load), simulation_load(array, load));
    let base = simulate_enclosure(&enclosure, &load)?;
    let found = find_bottleneck(&enclosure, &load, &base, Extent::Name, &mut |probes| {
        probes.iter().map(Probe::run).collect()
    })?;
    Ok(bottleneck_facts(&found))
}

fn bottleneck_facts(found: &BottleneckOutcome) -> BottleneckFacts {
    let pct = |share: f64| 100.0 * share;
    let gain = |gain: &Gain| PartGain { part: gain.part.to_string(), gain_pct: pct(gain.share) };
    BottleneckFacts {
        name: found.bottleneck.to_string(),
        judged_by: match found.goal {
            Goal::Throughput => "throughput".into(),
            Goal::Latency => "latency".into(),
        },
        faster_pct: found.faster.0,
        gains: found.gains.iter().map(gain).collect(),
        twice_iodepth_gain_pct: found.deeper.map(pct),
        chance_pct: pct(found.noise),
        runs: found.runs,
        requests: found.requests,
        window_ns: found.window.get(),
    }
}

fn times_facts(times: &TimesOutcome) -> TimesFacts {
    let of_station = |station: Station| {
        let (mean, slowest) = (times.mean(station), times.slowest_mean(station));
        StationTimes {
            station: station.name().to_owned(),
            waiting_ns_mean: mean.waiting,
            service_ns_mean: mean.service,
            slowest_waiting_ns_mean: slowest.waiting,
            slowest_service_ns_mean: slowest.service,
        }
    };
    let took_time = |station: &Station| times.stays.at(*station) != Stay::default();
    TimesFacts {
        requests: times.requests,
        slowest_requests: times.slowest_requests,
        stations: Station::ALL.into_iter().filter(took_time).map(of_station).collect(),
    }
}

pub(super) fn simulation_load(array: &ModelledArray, load: &Load) -> SimulationLoad {
    SimulationLoad {
        workload: load.workload.spec.clone(),
        iodepth: load.iodepth,
        region: LoadRegion::Bytes(array.region),
        ramp: load.ramp,
        run: load.run,
        seed: load.seed,
    }
}

/// As [`run_simulated`], with a member gone when the load begins. Where the array has a spare that member is rebuilt meanwhile;
/// the time is what the whole rebuild takes at the pace of the run.
///
/// # Errors
/// [`SimulatedError`] if the array, the load or both together make no sense.
pub fn run_degraded(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
) -> Result<(RunResult, Option<NanoSpan>), SimulatedError> {
    let (result, outcome) =
        run_with(models, array, load, |enclosure, load| simulate_degraded(enclosure, load, MemberIndex(0)))?;
    let rebuild = outcome.rebuild.filter(|progress| progress.done > 0);
    let whole = |progress: RebuildProgress| {
        let share = progress.done as f64 / progress.total as f64;
        NanoSpan::from_secs_f64(outcome.virtual_time.as_secs_f64() / share)
    };
    Ok((result, rebuild.map(whole)))
}

fn run_with(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
    simulate: impl Fn(&SimulatedEnclosure, &SimulationLoad) -> Result<SimulationOutcome, SimError>,
) -> Result<(RunResult, SimulationOutcome), SimulatedError> {
    let started = Instant::now();
    let facts = array_facts(&array.config, &array.controller_label(), &array.parts.drive)?;
    let enclosure = enclosure_under(models, array, load);
    let simulated = simulation_load(array, load);
    let outcome = simulate(&enclosure, &simulated)?;
    let mut result = empty_result(World::Simulated, array.label(), load);
    set_measurement(&mut result, load, &outcome.measurement);
    let volumes = u32::from(array.volume_count());
    if load.workload.spec.targets().is_some() {
        result.iodepth = load.workload.spec.iodepths_on(volumes, load.iodepth, 1).iter().sum();
    } else if volumes > 1 && load.iodepth.is_multiple_of(volumes) {
        let iodepth_per_target = load.iodepth / volumes;
        result.load = Some(LoadFacts { targets: volumes, workers: 1, iodepth_per_target });
    }
    result.misfits = models.misfits(array);
    result.array = Some(of_volumes(facts, array.volume_count()));
    result.cache_fill = cache_fill(array, &outcome);
    result.enclosure = array.controllers.is_some().then(|| enclosure_facts(&enclosure, &outcome));
    result.cost.member_reads = Some(outcome.counters.member_reads);
    result.cost.member_writes = Some(outcome.counters.member_writes);
    result.cost.metadata_writes = Some(outcome.counters.metadata_writes).filter(|&writes| writes > 0);
    result.cost.host_reads = Some(outcome.issued.reads);
    result.cost.host_writes = Some(outcome.issued.writes);
    result.cost.wall_ns = started.elapsed().as_nanos() as u64;
    result.settings = load_settings(load, array.region);
    result.settings.extend(array_settings(&array.config));
    if let Some(condition) = models.drive.condition() {
        result.settings.insert("drive condition".to_owned(), condition.to_string());
    }
    if let Some(trims) = trims_told(models, array, &outcome)? {
        result.settings.insert("trims".to_owned(), trims);
    }
    result.settings.extend(hardware_settings(array, &outcome));
    if let Some((host, _)) = &models.controller.host {
        result.settings.insert("host".to_owned(), host.clone());
        let busy = format!("{:.1} %", outcome.utilisation.memory * 100.0);
        result.settings.insert("busy host memory".to_owned(), busy);
    }
    if let Some((flash, amplification)) = outcome.flash.and_then(|it| Some((it, it.amplification()?))) {
        let rate = flash.host_bytes.0 as f64 / NanoSpan(result.window_ns).as_secs_f64();
        result.figures.insert(FLASH_HOST_RATE.to_owned(), rate);
        result.figures.insert(WRITE_AMPLIFICATION.to_owned(), amplification);
    }
    Ok((result, outcome))
}

/// What became of the host's trims, if there were any.
fn trims_told(
    models: &Models<'_>,
    array: &ModelledArray,
    outcome: &SimulationOutcome,
) -> Result<Option<String>, ConfigError> {
    let (passed, ignored) = (outcome.counters.member_discards, outcome.counters.discards_ignored);
    if passed == 0 && ignored == 0 {
        return Ok(None);
    }
    let mut machine = Controller::new(&array.config)?;
    machine.pass_discards();
    let why = if !models.controller.passes_discards {
        "which passes none on"
    } else if !models.drive.knows_trim() {
        "for the drives know none"
    } else if array.config.resilience.integrity {
        "for what drives return afterwards would not agree with the block checksums"
    } else if !machine.passes_discards() {
        "for what drives return afterwards would not agree with the parity"
    } else {
        let told = format!("passed on to the drives in {passed} commands");
        let dirty = format!("; {ignored} ended where the cache was dirty");
        return Ok(Some(if ignored == 0 { told } else { told + &dirty }));
    };
    Ok(Some(format!("ended at the controller, {why}")))
}

/// How each load is run.
#[derive(Clone, Copy, Debug)]
pub struct Manner<'a> {
    /// What carries it.
    pub on: RunOn<'a>,
    /// The array's parts at the ends of what their figures may be, where each load is to be run there, too.
    pub ends: Option<Ends<'a>>,
}

/// What carries a load.
#[derive(Clone, Copy, Debug)]
pub enum RunOn<'a> {
    /// On the volume, and again in parts until it is known what set the pace.
    VolumeForBottleneck,
    /// On the volume, once.
    Volume,
    /// On a file of a host, once.
    File(FileUse<'a>),
}

/// Runs `load` on `array` as `manner` says, on up to `threads` threads.
///
/// # Errors
/// [`SimulatedError`] if the array, the load or both together make no sense.
pub fn run_on(
    models: &Models<'_>,
    array: &ModelledArray,
    load: &Load,
    (manner, threads): (&Manner<'_>, NonZeroUsize),
) -> Result<RunResult, SimulatedError> {
    let once = |models: &Models<'_>| match &manner.on {
        RunOn::File(file) => run_file_load(models, array, load, file),
        RunOn::Volume | RunOn::VolumeForBottleneck => run_simulated(models, array, load),
    };
    let mut result = match manner.on {
        RunOn::VolumeForBottleneck => run_with_bottleneck(models, array, load, threads)?,
        RunOn::Volume | RunOn::File(_) => once(models)?,
    };
    if let Some(Ends { slower, faster }) = &manner.ends {
        let at = |end: &Models<'_>| once(end).map(|result| result.ops.total);
        let (slower, faster) =
            if models.has_ranges() { (Some(at(slower)?), Some(at(faster)?)) } else { (None, None) };
        let estimated = models.estimates().into_iter().map(|it| (it.part, it.keys)).collect();
        result.range = Some(Box::new(RangeFacts { estimated, slower, faster }));
    }
    Ok(result)
}

/// Why loads were not run.
#[derive(Debug)]
pub enum LoadsError {
    /// The first load that can't be run, and why.
    Load(usize, SimulatedError),
    /// The ranks can't go on together.
    Hosts(HostsError),
}

/// Runs each of `loads` on `array` as `manner` says ([`run_on`]), on up to `threads` threads of each of `hosts`, all processors by
/// default, and hands each one that ends to `finished`, with its index. The results are in the order of the loads, and the
/// same on any number of threads and hosts.
///
/// # Errors
/// [`LoadsError`] if a load can't be run or a rank is lost.
pub fn run_simulated_loads(
    models: &Models<'_>,
    array: &ModelledArray,
    loads: &[Load],
    (hosts, threads, manner): (&mut Hosts, Option<NonZeroUsize>, Manner<'_>),
    finished: &mut dyn FnMut(usize, &RunResult),
) -> Result<Vec<RunResult>, LoadsError> {
    let threads = threads.unwrap_or_else(all_processors);
    // One load has all threads for its runs; of several, each has one for itself.
    let each = if loads.len() == 1 { threads } else { NonZeroUsize::MIN };
    let results = hosts.share_all(
        (loads.len(), threads),
        |index| run_on(models, array, &loads[index], (&manner, each)),
        |index, result| {
            if let Ok(result) = result {
                finished(index, result);
            }
        },
    );
    let results = results.map_err(LoadsError::Hosts)?.into_iter().enumerate();
    results.map(|(index, result)| result.map_err(|error| LoadsError::Load(index, error))).collect()
}

/// The array as a simulation takes it: once for each volume, each at its controller.
pub fn simulated_enclosure(models: &Models<'_>, array: &ModelledArray) -> SimulatedEnclosure {
    let volume = |owner| models.volume(&array.config, owner);
    let volumes = array.controllers.as_ref().map_or_else(
        || vec![volume(ControllerName::A)],
        |controllers| controllers.owners.iter().map(|owner| volume((*owner).into())).collect(),
    );
    let second = array.controllers.as_ref().and_then(|controllers| controllers.second);
    SimulatedEnclosure {
        controller: models.controller_in_place(),
        second: second.map(|second| second.simulated()),
        volumes,
    }
}

/// The enclosure when a run with a ramp begins: what `load` has written before rests in the members' own write caches.
fn enclosure_under(models: &Models<'_>, array: &ModelledArray, load: &Load) -> SimulatedEnclosure {
    let mut enclosure = simulated_enclosure(models, array);
    if load.ramp > NanoSpan::ZERO
        && let Some(writes) = resting_writes(array, &load.workload.spec)
    {
        for volume in &mut enclosure.volumes {
            volume.drive.rest_writes(writes);
        }
    }
    enclosure
}

/// How the write caches of all volumes filled, where there are any.
fn cache_fill(array: &ModelledArray, outcome: &SimulationOutcome) -> Option<CacheFill> {
    let cache = &array.config.cache;
    let ([start, end], [before, after]) = (&outcome.dirty[..], &outcome.unwritten[..]) else { return None };
    (cache.write_policy != WritePolicy::WriteThrough).then(|| CacheFill {
        dirty_bytes_start: start.0,
        dirty_bytes_end: end.0,
        absorbed_bytes: Some(after.0.saturating_sub(before.0)),
        cache_bytes: cache.size.0 * u64::from(array.volume_count()),
        flush_start_pct: cache.flush_start_pct,
    })
}

/// The facts of all volumes together, from those of one.
fn of_volumes(facts: ArrayFacts, volumes: u16) -> ArrayFacts {
    let times = |bytes: ByteCount| ByteCount(bytes.0 * u64::from(volumes));
    ArrayFacts {
        members: facts.members.saturating_mul(volumes),
        usable_bytes: times(facts.usable_bytes),
        raw_bytes: times(facts.raw_bytes),
        failures_survived_at_best: facts.failures_survived_at_best.saturating_mul(volumes),
        ..facts
    }
}

fn enclosure_facts(enclosure: &SimulatedEnclosure, outcome: &SimulationOutcome) -> EnclosureFacts {
    let controllers = [ControllerName::A, ControllerName::B].into_iter().zip(&outcome.controllers);
    let controller = |(name, busy): (ControllerName, &raidlab_sim::ControllerUtilisation)| ControllerFacts {
        name: name.to_string(),
        volumes: enclosure.volumes.iter().filter(|volume| volume.owner == name).count() as u16,
        processors_busy: busy.processors,
        host_link_busy: busy.host_link,
        member_link_busy: busy.member_link,
    };
    EnclosureFacts {
        controllers: controllers.map(controller).collect(),
        mirror_link_busy: outcome.utilisation.mirror_link,
        failover: outcome.failover.as_ref().map(failover_facts),
    }
}

fn failover_facts(failover: &FailoverOutcome) -> FailoverFacts {
    FailoverFacts {
        controller: failover.controller.to_string(),
        after_ns: failover.after.0,
        detection_ns: failover.detection.0,
        volumes: failover.volumes as u16,
        pause_ns: failover.pause.map(|pause| pause.0),
        requests_retried: failover.requests_retried,
        cache_blocks_restored: failover.cache_blocks_restored,
        lost_bytes_max: failover.lost_max.0,
        iops_before: failover.before.map(|rate| rate.0),
        iops_after: failover.after_pause.map(|rate| rate.0),
    }
}

/// What the hardware is and how busy it was.
fn hardware_settings(array: &ModelledArray, outcome: &SimulationOutcome) -> Vec<(String, String)> {
    let pct = |share: f64| format!("{:.1} %", share * 100.0);
    let busy = &outcome.utilisation;
    let mut settings = vec![
        ("busy drives, mean", pct(busy.drives_mean)),
        ("busy drives, most", pct(busy.drives_max)),
        ("busy processors", pct(busy.processors)),
        ("busy host link", pct(busy.host_link)),
        ("busy member link", pct(busy.member_link)),
    ];
    if busy.first_thread > 0.0 {
        settings.push(("busy first thread", pct(busy.first_thread)));
    }
    if busy.stripe_threads > 0.0 {
        settings.push(("busy stripe threads", pct(busy.stripe_threads)));
    }
    if let Some(enclosure) = &array.parts.enclosure {
        settings.push(("enclosure", enclosure.clone()));
    }
    if let Some(controllers) = &array.controllers {
        settings.extend(controller_settings(controllers, array.config.cache.mirror));
    }
    settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Whose the volumes are, and what is between two controllers. Region and cache size are those of each volume.
fn controller_settings(controllers: &ModelledControllers, mirror: bool) -> Vec<(&'static str, String)> {
    let owners: Vec<String> = controllers.owners.iter().map(Owner::to_string).collect();
    let mut settings = vec![("volume owners", owners.join(" "))];
    if let Some(second) = &controllers.second {
        let link = second.mirror_link;
        settings.extend([
            ("mirror", if mirror { "yes" } else { "no" }.to_owned()),
            ("mirror link", format!("{}, {} per transfer", link.rate, link.per_transfer)),
            ("member link", if second.member_link_shared { "shared" } else { "one each" }.to_owned()),
            ("failover detection", second.failover_detection.to_string()),
        ]);
    }
    settings
}
