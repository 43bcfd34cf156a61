//! Results of a run: thread by thread, target by target, and all together.

use crate::clock::ThreadReading;
use crate::drive::Lane;
use crate::engine::FailureCause;
use crate::error::LoadError;
use crate::verify::Verified;
use raidlab_units::NanoSpan;
use raidlab_workload::{IoOp, IssuedCounts, Measurement, WindowProgress};

/// What came of a run.
#[derive(Debug)]
pub struct LoadOutcome {
    /// What the drivers counted in the window, all targets and workers together.
    pub measurement: Measurement,
    /// The same for each target, in their order.
    pub targets: Vec<TargetOutcome>,
    /// The run was stopped before its end.
    pub cancelled: bool,
    /// Requests of the whole run: ramp and drain are in it. The cost is that of all these.
    pub issued: IssuedCounts,
    /// What the run cost.
    pub cost: ThreadCost,
    /// From the first request to the return of the last.
    pub wall: NanoSpan,
    /// How long after the moment that was to be the start the last thread began; zero where none was fixed.
    pub late: NanoSpan,
    /// The most requests that were in flight at once, the threads' figures added up.
    pub iodepth_reached: u32,
    /// Threads that ran it.
    pub threads: u32,
    /// Names of the engines, and what they did to be quick.
    pub engine: String,
    /// Transfers that moved fewer bytes than asked for; the engine went on with the rest.
    pub short_transfers: u64,
    /// What was not as good as it could be, in sentences for people.
    pub notes: Vec<String>,
}

impl LoadOutcome {
    /// Processor time of the load's threads per request, in nanoseconds; none without requests.
    pub fn cpu_ns_per_io(&self) -> Option<f64> {
        let requests = self.issued.requests();
        (requests > 0).then(|| self.cost.thread_cpu.get() as f64 / requests as f64)
    }

    /// Processor time of the kernel's own threads for this process per request, in nanoseconds; none without requests.
    pub fn kernel_threads_cpu_ns_per_io(&self) -> Option<f64> {
        let requests = self.issued.requests();
        (requests > 0).then(|| self.cost.kernel_threads_cpu.get() as f64 / requests as f64)
    }

    /// The first request that failed, if one did.
    pub fn first_failure(&self) -> Option<IoFailure> {
        self.targets.iter().find_map(|target| target.first_failure)
    }
}

/// What came of a run on one target.
#[derive(Debug, Default)]
pub struct TargetOutcome {
    /// What the drivers counted in the window.
    pub measurement: Measurement,
    /// Requests of the whole run: ramp and drain are in it.
    pub issued: IssuedCounts,
    /// The first request that failed, if one did. How many did stands in the measurement.
    pub first_failure: Option<IoFailure>,
    /// Why the target was left alone before the end, if it was.
    pub error: Option<LoadError>,
    /// What was found in what was read, where that was asked for.
    pub verified: Option<Verified>,
}

impl TargetOutcome {
    /// Adds what another worker did on the same target.
    fn add(&mut self, other: Self) {
        self.measurement.merge(&other.measurement);
        self.issued.add(other.issued);
        self.first_failure = self.first_failure.or(other.first_failure);
        self.error = self.error.take().or(other.error);
    }
}

/// What the threads that ran the load have used from the first request to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCost {
    /// Processor time of the threads, user and system; the kernel's share of each request is in it.
    pub thread_cpu: NanoSpan,
    /// Processor time of the process beside those threads: what the kernel's own threads did for it (requests that it
    /// handed to workers, a thread that submits), and other threads of the process.
    pub kernel_threads_cpu: NanoSpan,
    /// How often the threads waited, where the system tells.
    pub context_switches_voluntary: Option<u64>,
    /// How often they were made to wait, where the system tells.
    pub context_switches_involuntary: Option<u64>,
}

impl ThreadCost {
    /// Adds what another thread used.
    fn add(&mut self, other: &Self) {
        let sum = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one + other);
        self.thread_cpu += other.thread_cpu;
        self.context_switches_voluntary =
            sum(self.context_switches_voluntary, other.context_switches_voluntary);
        self.context_switches_involuntary =
            sum(self.context_switches_involuntary, other.context_switches_involuntary);
    }
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure {
    /// What it was to do.
    pub op: IoOp,
    /// Where, from the start of the target.
    pub offset_bytes: u64,
    /// Length.
    pub bytes: u32,
    /// Why.
    pub cause: FailureCause,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadProgress {
    /// Time since the first request.
    pub elapsed: NanoSpan,
    /// Share that is over, and what was counted.
    pub window: WindowProgress,
}

/// What came of one thread's work.
#[derive(Debug)]
pub(super) struct JobOutcome {
    /// Indexes of the targets, and what came of each.
    pub(super) targets: Vec<(usize, TargetOutcome)>,
    pub(super) cost: ThreadCost,
    pub(super) wall: NanoSpan,
    pub(super) late: NanoSpan,
    pub(super) in_flight_reached: u32,
    pub(super) engine: String,
    pub(super) short_transfers: u64,
    pub(super) notes: Vec<String>,
}

pub(super) fn of_lane(lane: Lane<'_>) -> TargetOutcome {
    let replayed = lane.driver.trace_fault().cloned();
    let fault = replayed.map(|source| LoadError::Replay { path: lane.path.into(), source });
    TargetOutcome {
        measurement: lane.driver.measurement(),
        issued: lane.driver.issued(),
        first_failure: lane.first_failure,
        error: lane.error.or(fault),
        verified: None,
    }
}

pub(super) fn cost_between(before: &ThreadReading, after: &ThreadReading) -> ThreadCost {
    let switches = before.switches.zip(after.switches);
    ThreadCost {
        thread_cpu: after.cpu - before.cpu,
        context_switches_voluntary: switches.map(|(before, after)| after.0 - before.0),
        context_switches_involuntary: switches.map(|(before, after)| after.1 - before.1),
        ..ThreadCost::default()
    }
}

/// Adds up what the threads did.
pub(super) fn gather(targets: usize, ended: Vec<JobOutcome>) -> LoadOutcome {
    let mut outcome = LoadOutcome {
        measurement: Measurement::default(),
        targets: (0..targets).map(|_| TargetOutcome::default()).collect(),
        cancelled: false,
        issued: IssuedCounts::default(),
        cost: ThreadCost {
            context_switches_voluntary: Some(0),
            context_switches_involuntary: Some(0),
            ..ThreadCost::default()
        },
        wall: NanoSpan::ZERO,
        late: NanoSpan::ZERO,
        iodepth_reached: 0,
        threads: ended.len() as u32,
        engine: String::new(),
        short_transfers: 0,
        notes: Vec::new(),
    };
    let mut engines: Vec<String> = Vec::new();
    for job in ended {
        for (index, target) in job.targets {
            outcome.measurement.merge(&target.measurement);
            outcome.issued.add(target.issued);
            outcome.targets[index].add(target);
        }
        outcome.cost.add(&job.cost);
        outcome.wall = outcome.wall.max(job.wall);
        outcome.late = outcome.late.max(job.late);
        outcome.iodepth_reached += job.in_flight_reached;
        outcome.short_transfers += job.short_transfers;
        push_new(&mut engines, [job.engine]);
        push_new(&mut outcome.notes, job.notes);
    }
    outcome.engine = engines.join(", ");
    outcome
}

fn push_new(list: &mut Vec<String>, texts: impl IntoIterator<Item = String>) {
    for text in texts {
        if !list.contains(&text) {
            list.push(text);
        }
    }
}

/// A run on targets of which every one failed measured nothing: its error is that of the first.
pub(super) fn fail_if_all_did(mut outcome: LoadOutcome) -> Result<LoadOutcome, LoadError> {
    let all = outcome.targets.iter().all(|target| target.error.is_some());
    match outcome.targets.first_mut().and_then(|target| target.error.take_if(|_| all)) {
        Some(error) => Err(error),
        None => Ok(outcome),
    }
}

pub(super) fn both(one: &WindowProgress, other: &WindowProgress) -> WindowProgress {
    let mut lat = one.lat;
    lat.add(&other.lat);
    WindowProgress {
        fraction: one.fraction.min(other.fraction),
        in_ramp: one.in_ramp || other.in_ramp,
        requests: one.requests + other.requests,
        bytes: one.bytes + other.bytes,
        errors: one.errors + other.errors,
        in_flight: one.in_flight + other.in_flight,
        lat,
    }
}
