//! A run that several hosts make together: each rank does its part, rank 0 merges them, and all get the one result.
//!
//! ```text
//! rank 0   part ─ share ──┐
//! rank 1   part ─ share ──┼─► rank 0: histograms, counts and series added up, first and last done ─► RunResult ─► all ranks
//! rank 2   part ─ share ──┘
//! ```
//! Because every rank gets the same result, each decides the same about what comes next: a search or rounds until
//! steady need nothing more.
//!
//! Invariants: rates count everything completed in the window, which has the same length on all; a run of one process
//! is unchanged by this.

use raidlab_engines::Go;
use raidlab_hosts::{ClockOffset, CommonStart, Hosts, HostsError, Refusal};
use raidlab_workload::{CostFacts, HostsFacts, LoadFacts, Measurement, RankFacts, RunResult, TargetResult};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::sync::atomic::AtomicBool;

/// What one rank did.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Share {
    /// Its result, as if it had been alone.
    pub(super) result: RunResult,
    /// What it counted, with full histograms; nothing where the result says all.
    pub(super) measurement: Measurement,
    /// How long after the common start it began.
    pub(super) started_ns: u64,
    /// From then to the end of its last request.
    pub(super) wall_ns: u64,
}

/// An error that other ranks are told of, and that may come from them.
pub(super) trait Shared: From<HostsError> {
    /// What they are told.
    fn refusal(&self) -> Refusal;
}

/// Who makes a run together: the ranks, by name, and their clocks at its start.
#[derive(Debug)]
pub(super) struct Crew {
    names: Vec<String>,
    clocks: Vec<ClockOffset>,
}

impl Crew {
    /// How many they are.
    pub(super) fn count(&self) -> u32 {
        self.names.len() as u32
    }
}

/// Makes a run on all ranks. `own` does this rank's part: it gets what to ask when it is ready to begin, and what to call ten
/// times a second while it goes on. `merge` makes one result of the shares, by rank; it is called on rank 0.
///
/// # Errors
/// What went wrong, on all ranks the same, with the name of the rank; a `cancel` on any.
pub(super) fn run_together<E: Shared>(
    hosts: &mut Hosts,
    cancel: &AtomicBool,
    own: impl FnOnce(&mut dyn FnMut() -> Go, &mut dyn FnMut()) -> Result<Share, E>,
    merge: impl FnOnce(Vec<Share>, &Crew) -> RunResult,
) -> Result<RunResult, E> {
    if hosts.is_alone() {
        return Ok(own(&mut || Go::Now, &mut || {})?.result);
    }
    let hosts = RefCell::new(hosts);
    let mut start: Option<Result<CommonStart, HostsError>> = None;
    let mut begin = || {
        let started = start.insert(hosts.borrow_mut().start(Ok(())));
        started.as_ref().map_or(Go::Not, |start| start.at_monotonic_ns.map_or(Go::Now, Go::At))
    };
    let done = own(&mut begin, &mut || hosts.borrow_mut().watch(cancel));
    let hosts = hosts.into_inner();
    let clocks = match start {
        Some(started) => started?.clocks,
        // Not ready: the others wait for this rank, and are told.
        None => hosts.start(done.as_ref().map(|_| ()).map_err(E::refusal))?.clocks,
    };
    let crew = Crew { names: hosts.names().to_vec(), clocks };
    Ok(hosts.together(done.map_err(|error| error.refusal()), |shares| merge(shares, &crew))?)
}

/// The seed of a rank's part of a run: that of the run on rank 0, and others on the others.
pub(super) fn seed_of_rank(seed: u64, hosts: &Hosts) -> u64 {
    if hosts.leads() { seed } else { raidlab_workload::derived_seed(seed, u64::from(hosts.rank())) }
}

/// The one result of all shares, by rank, and what all counted. Whoever calls puts the latter into the former.
pub(super) fn merged(shares: Vec<Share>, crew: &Crew) -> (RunResult, Measurement) {
    let Crew { names, clocks } = crew;
    let ranks = shares.iter().zip(0..).map(|(share, rank)| rank_facts(share, rank, names, clocks)).collect();
    let label = label(&shares, names);
    let mut measurement = Measurement::default();
    let mut result: Option<RunResult> = None;
    for (share, name) in shares.into_iter().zip(names) {
        measurement.merge(&share.measurement);
        let mut theirs = share.result;
        theirs.targets = targets(&theirs, name);
        match &mut result {
            None => result = Some(theirs),
            Some(sum) => add(sum, theirs),
        }
    }
    let mut result = result.expect("rank 0 has a share");
    result.target = label;
    result.hosts = Some(HostsFacts { ranks });
    // Machines are not one machine.
    result.machine = None;
    (result, measurement)
}

fn rank_facts(share: &Share, rank: u32, names: &[String], clocks: &[ClockOffset]) -> RankFacts {
    let clock = clocks.get(rank as usize).copied().unwrap_or_default();
    let total = &share.result.ops.total;
    let bytes = total.bytes_per_sec.0 * share.result.window_ns as f64 / 1e9;
    RankFacts {
        rank,
        host: names[rank as usize].clone(),
        clock_offset_ns: clock.wall_ns,
        clock_error_ns: clock.error_ns,
        started_ns: share.started_ns,
        done_ns: share.started_ns + share.wall_ns,
        requests: total.requests,
        bytes: bytes.round() as u64,
        window_ns: share.result.window_ns,
    }
}

/// The one result of programs, whose figures are rates and no latencies: those that `figures` puts in, from the results of all
/// ranks.
pub(super) fn merged_programs(
    shares: Vec<Share>,
    crew: &Crew,
    figures: impl FnOnce(&mut RunResult, Vec<RunResult>),
) -> RunResult {
    let results = shares.iter().map(|share| share.result.clone()).collect();
    let (mut result, _) = merged(shares, crew);
    (result.load, result.targets) = (None, Vec::new());
    figures(&mut result, results);
    result
}

/// The targets of all, named once where they are called the same on all hosts.
fn label(shares: &[Share], names: &[String]) -> String {
    let first = &shares[0].result.target;
    if shares.iter().all(|share| share.result.target == *first) {
        return format!("{first} on {} hosts: {}", names.len(), names.join(", "));
    }
    let each = shares.iter().zip(names).map(|(share, name)| format!("{} on {name}", share.result.target));
    each.collect::<Vec<_>>().join(", ")
}

/// The targets of one rank, with its host's name.
fn targets(result: &RunResult, host: &str) -> Vec<TargetResult> {
    let on_host = |target: &str| format!("{target} on {host}");
    if result.targets.is_empty() {
        return vec![TargetResult {
            target: on_host(&result.target),
            window_ns: result.window_ns,
            ops: result.ops.clone(),
            error: None,
        }];
    }
    let named = |target: &TargetResult| TargetResult { target: on_host(&target.target), ..target.clone() };
    result.targets.iter().map(named).collect()
}

/// Adds what another rank did, but for what is counted in histograms.
fn add(sum: &mut RunResult, theirs: RunResult) {
    let own_load = |run: &RunResult| {
        run.load.unwrap_or(LoadFacts { targets: 1, workers: 1, iodepth_per_target: run.iodepth })
    };
    let (mut load, other) = (own_load(sum), own_load(&theirs));
    load.targets += other.targets;
    sum.load = Some(load);
    sum.iodepth = u32::try_from(load.iodepth_total()).unwrap_or(u32::MAX);
    sum.targets.extend(theirs.targets);
    add_cost(&mut sum.cost, &theirs.cost);
}

fn add_cost(sum: &mut CostFacts, theirs: &CostFacts) {
    let ios = |cost: &CostFacts| (cost.host_reads.unwrap_or(0) + cost.host_writes.unwrap_or(0)) as f64;
    let (own, other) = (ios(sum), ios(theirs));
    // Processor time per request of all requests, whoever made them.
    let mean = |one: Option<f64>, two: Option<f64>| match (one, two) {
        (Some(one), Some(two)) if own + other > 0.0 => Some((one * own + two * other) / (own + other)),
        (one, two) => one.or(two),
    };
    sum.cpu_ns_per_io = mean(sum.cpu_ns_per_io, theirs.cpu_ns_per_io);
    sum.kernel_threads_cpu_ns_per_io =
        mean(sum.kernel_threads_cpu_ns_per_io, theirs.kernel_threads_cpu_ns_per_io);
    let both = |one: Option<u64>, two: Option<u64>| Some(one? + two?);
    sum.host_reads = both(sum.host_reads, theirs.host_reads);
    sum.host_writes = both(sum.host_writes, theirs.host_writes);
    sum.wall_ns = sum.wall_ns.max(theirs.wall_ns);
}
