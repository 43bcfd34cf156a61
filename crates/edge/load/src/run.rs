//! The run: workers that load targets side by side, from the same moment on, and what came of it.
//!
//! ```text
//! worker 0 ── thread: engine ── driver of target 0, driver of target 1, ...       iodepth requests in flight for
//! worker 1 ── thread: engine ── driver of target 0, driver of target 1, ...       each target of each worker
//! ```
//! Each worker has `iodepth` requests in flight on each target, as in Iometer: `workers x targets x iodepth` in all.
//! An engine that has one request in flight at a time takes a thread for each target of each worker. Targets of
//! different kinds take an engine, and so a thread, for each kind.
//!
//! All engines are ready before the first request of any. Every driver has a seed of its own, and the workers'
//! sequential streams start evenly spread over each target. Where hosts make a load together the caller is asked when to
//! start once all is ready here ([`run_targets_from`]), and all threads wait for that moment.
//!
//! **A target that fails** is left alone, and what was measured on it until then is kept; the others go on. If all
//! fail the run is an error.

use crate::can_do::cannot_do;
use crate::clock::{Clock, ThreadReading, process_cpu, wait_until};
use crate::drive::{Drive, Lane, PROGRESS_EVERY};
use crate::engine::{
    Engine, EngineKind, FailureCause, MappedEngine, NbdEngine, NfsEngine, NullEngine, SlotTable, SyncEngine,
    UringEngine, UringOptions, XrootdEngine,
};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::{Target, TargetKind};
use crate::verify::{Verified, Verifier};
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::{
    AccessSpec, Driver, DriverConfig, IoOp, IssuedCounts, Measurement, OpSet, WindowProgress, derived_seed,
};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// How to run.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// With which engine; without one each target takes what suits its kind.
    pub engine: Option<EngineKind>,
    /// What `io_uring` is wanted to do beyond the plain.
    pub uring: UringOptions,
    /// Threads that each load all targets.
    pub workers: NonZeroU32,
    /// Processors that the threads are bound to, one each, in turn; none leaves that to the system.
    pub cpus: Vec<u32>,
    /// Writes end when the medium has them, not a cache (forced unit access).
    pub fua: bool,
    /// Latency is cut in two: until a request is handed to the kernel, and from there.
    pub latency_split: bool,
    /// Writes are stamped, and all that is read is judged ([`raidlab_verify`]).
    pub verify: bool,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            engine: None,
            uring: UringOptions::default(),
            workers: NonZeroU32::MIN,
            cpus: Vec::new(),
            fua: false,
            latency_split: false,
            verify: false,
        }
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

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadProgress {
    /// Time since the first request.
    pub elapsed: NanoSpan,
    /// Share that is over, and what was counted.
    pub window: WindowProgress,
}

/// Runs `spec` on `target` as `config` says: [`run_targets`] on one.
///
/// # Errors
/// As [`run_targets`].
pub fn run(
    target: &Target,
    spec: &AccessSpec,
    config: &DriverConfig,
    options: &LoadOptions,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    run_targets(&[(target, config.clone())], spec, options, cancel, progress)
}

/// When the threads of a run begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// At once.
    Now,
    /// When the monotonic clock of this host shows so many nanoseconds.
    At(u64),
    /// Never: others are not ready.
    Not,
}

/// Runs `spec` on each target as its config says. Blocks until the windows are over and all requests are back, or
/// `cancel` becomes true. `progress` is called about ten times a second from this thread.
///
/// # Errors
/// [`LoadError`] if the workload does not fit a target, an engine can't be set up, or requests fail on every target
/// in a way that makes the measurement worthless.
pub fn run_targets(
    targets: &[(&Target, DriverConfig)],
    spec: &AccessSpec,
    options: &LoadOptions,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    run_targets_from(targets, spec, options, &mut || Go::Now, cancel, progress)
}

/// The same as [`run_targets`], from a moment that `start` fixes: it is called from this thread when all here is ready to begin,
/// and not at all if something is not.
///
/// # Errors
/// As [`run_targets`]; [`LoadError::NotStarted`] where `start` says so.
pub fn run_targets_from(
    targets: &[(&Target, DriverConfig)],
    spec: &AccessSpec,
    options: &LoadOptions,
    start: &mut dyn FnMut() -> Go,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    for (target, config) in targets {
        check_fit(target, spec, config)?;
        check_engine(target, options)?;
        check_ops(target, spec.ops(), options)?;
    }
    let jobs = jobs(targets, options);
    let order = Order {
        targets,
        spec,
        options,
        cancel,
        gate: Barrier::new(jobs.len() + 1),
        is_off: AtomicBool::new(false),
        go_at_ns: AtomicU64::new(0),
        board: Mutex::new(vec![LoadProgress::default(); jobs.len()]),
        clock: Clock::start(),
        verifiers: verifiers(targets, spec, options)?,
    };
    let (before, own_before) = (process_cpu(), ThreadReading::now());
    let ended = std::thread::scope(|scope| {
        let (alive, all_gone) = channel::<()>();
        let threads: Vec<_> = jobs
            .iter()
            .enumerate()
            .map(|(number, job)| {
                let (order, alive) = (&order, alive.clone());
                scope.spawn(move || {
                    let _alive = alive;
                    order.run(number, job)
                })
            })
            .collect();
        drop(alive);
        order.open_the_gate(start);
        while let Err(RecvTimeoutError::Timeout) =
            all_gone.recv_timeout(Duration::from_nanos(PROGRESS_EVERY.get()))
        {
            if let Some(seen) = order.progress() {
                progress(&seen);
            }
        }
        let joined = threads.into_iter().map(ScopedJoinHandle::join);
        joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect::<Vec<_>>()
    });
    let (after, own_after) = (process_cpu(), ThreadReading::now());
    let beside = own_after.cpu - own_before.cpu;
    let ended: Vec<JobOutcome> =
        ended.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    if ended.is_empty() {
        return Err(LoadError::NotStarted);
    }
    let mut outcome = gather(targets.len(), ended);
    for (target, verifier) in outcome.targets.iter_mut().zip(&order.verifiers) {
        target.verified = Some(verifier.verified());
    }
    let others = (after - before).get().saturating_sub(beside.get() + outcome.cost.thread_cpu.get());
    outcome.cost.kernel_threads_cpu = NanoSpan(others);
    outcome.notes.extend(unpolled_note(spec, options));
    outcome.cancelled = cancel.load(Ordering::Relaxed);
    fail_if_all_did(outcome)
}

/// Whether all that is asked for is reads and writes.
fn moves_bytes_only(spec: &AccessSpec) -> bool {
    spec.ops().without(OpSet::TRANSFERS).is_empty()
}

/// Says so if a ring was to poll and does not, because it polls for reads and writes only.
fn unpolled_note(spec: &AccessSpec, options: &LoadOptions) -> Option<String> {
    let note = "ends came by interrupt, not by polling (IOPOLL): a ring polls for reads and writes only";
    (options.uring.io_poll && !moves_bytes_only(spec)).then(|| note.into())
}

fn verifiers(
    targets: &[(&Target, DriverConfig)],
    spec: &AccessSpec,
    options: &LoadOptions,
) -> Result<Vec<Verifier>, LoadError> {
    if !options.verify {
        return Ok(Vec::new());
    }
    let verifier = |(target, config): &(&Target, DriverConfig)| {
        let slots = (options.workers.get(), spec.iodepth(config.iodepth));
        Verifier::new(target, spec, config, slots)
    };
    targets.iter().map(verifier).collect()
}

fn check_fit(target: &Target, spec: &AccessSpec, config: &DriverConfig) -> Result<(), LoadError> {
    let path = || target.path().to_path_buf();
    if config.region > target.size() {
        return Err(LoadError::TooSmall { path: path(), size: target.size(), region: config.region });
    }
    let (target_bytes, driver_bytes) = (target.block_bytes(), config.block_bytes);
    if !driver_bytes.is_multiple_of(target_bytes) {
        return Err(LoadError::BlockSize { path: path(), target_bytes, driver_bytes });
    }
    if let Some(bytes_max) = target.request_bytes_max()
        && spec.request_bytes_max() > bytes_max
    {
        return Err(LoadError::TooLong { path: path(), bytes: spec.request_bytes_max(), bytes_max });
    }
    if spec.writes() && !target.may_write() {
        return Err(LoadError::ReadOnly { path: path(), workload: spec.name.clone() });
    }
    Ok(())
}

/// Exports are loaded by the NBD protocol only, files of file servers by theirs, and nothing else is by any.
fn check_engine(target: &Target, options: &LoadOptions) -> Result<(), LoadError> {
    let is_remote =
        |engine: EngineKind| matches!(engine, EngineKind::Nbd | EngineKind::Nfs | EngineKind::Xrootd);
    let suits = |engine: EngineKind| match engine_for(target) {
        only if is_remote(only) => engine == only,
        _ => !is_remote(engine),
    };
    match options.engine.filter(|engine| !suits(*engine)) {
        Some(engine) => Err(LoadError::EngineUnfit { path: target.path().into(), engine: engine.name() }),
        None if options.fua && !target.takes_fua() => Err(LoadError::NoFua { path: target.path().into() }),
        None => Ok(()),
    }
}

/// What the workload asks for beyond reads and writes must be what target and engine can do, and what can be verified.
fn check_ops(target: &Target, ops: OpSet, options: &LoadOptions) -> Result<(), LoadError> {
    let engine = options.engine.unwrap_or_else(|| engine_for(target));
    let missing = cannot_do(target, engine, ops);
    if !missing.is_empty() {
        return Err(LoadError::CannotDo { path: target.path().into(), engine: engine.name(), ops: missing });
    }
    let unverifiable = ops.without(OpSet::TRANSFERS).without(OpSet::FLUSHES);
    if options.verify && !unverifiable.is_empty() {
        return Err(LoadError::Unverifiable { path: target.path().into(), ops: unverifiable });
    }
    Ok(())
}

/// What one thread does.
#[derive(Debug)]
struct Job {
    worker: u32,
    engine: EngineKind,
    /// Indexes of its targets.
    targets: Vec<usize>,
}

/// Divides the work: for each worker one job for all targets of a kind, or for each target where an engine takes one
/// request at a time.
fn jobs(targets: &[(&Target, DriverConfig)], options: &LoadOptions) -> Vec<Job> {
    let mut jobs: Vec<Job> = Vec::new();
    for worker in 0..options.workers.get() {
        let first = jobs.len();
        for (index, (target, config)) in targets.iter().enumerate() {
            let engine = options.engine.unwrap_or_else(|| engine_for(target));
            let joins = |job: &&mut Job| {
                let (other, other_config) = &targets[job.targets[0]];
                let is_no_op = |target: &Target| target.kind() == TargetKind::NoOp;
                let both_or_none = is_no_op(other) == is_no_op(target);
                job.engine == engine && both_or_none && other_config.iodepth == config.iodepth
            };
            match jobs[first..].iter_mut().find(joins) {
                Some(job) if !engine.is_one_at_a_time() => job.targets.push(index),
                _ => jobs.push(Job { worker, engine, targets: vec![index] }),
            }
        }
    }
    jobs
}

fn engine_for(target: &Target) -> EngineKind {
    match target.kind() {
        TargetKind::NoOp => EngineKind::Null,
        TargetKind::Nbd => EngineKind::Nbd,
        TargetKind::Nfs => EngineKind::Nfs,
        TargetKind::Xrootd => EngineKind::Xrootd,
        TargetKind::File | TargetKind::BlockDevice => EngineKind::Uring,
    }
}

/// What all threads share.
struct Order<'a> {
    targets: &'a [(&'a Target, DriverConfig)],
    spec: &'a AccessSpec,
    options: &'a LoadOptions,
    cancel: &'a AtomicBool,
    /// Opens when every thread is ready, or has failed to be; and again when it is known whether and when to begin.
    gate: Barrier,
    /// One failed to be ready, or others did.
    is_off: AtomicBool,
    /// When to begin, by the monotonic clock; zero for at once.
    go_at_ns: AtomicU64,
    /// How far each thread has come.
    board: Mutex<Vec<LoadProgress>>,
    clock: Clock,
    /// One for each target, where what is read is judged.
    verifiers: Vec<Verifier>,
}

/// What came of one thread's work.
#[derive(Debug)]
struct JobOutcome {
    /// Indexes of the targets, and what came of each.
    targets: Vec<(usize, TargetOutcome)>,
    cost: ThreadCost,
    wall: NanoSpan,
    late: NanoSpan,
    in_flight_reached: u32,
    engine: String,
    short_transfers: u64,
    notes: Vec<String>,
}

impl Order<'_> {
    /// Waits until all threads are ready, asks when to begin, and lets them go. Called on the caller's thread.
    fn open_the_gate(&self, start: &mut dyn FnMut() -> Go) {
        self.gate.wait();
        let is_ready = !self.is_off.load(Ordering::Relaxed);
        match if is_ready { start() } else { Go::Not } {
            Go::Now => {}
            Go::At(monotonic_ns) => self.go_at_ns.store(monotonic_ns, Ordering::Relaxed),
            Go::Not => self.is_off.store(true, Ordering::Relaxed),
        }
        self.gate.wait();
    }

    /// Does a job. Returns nothing if another thread failed to be ready.
    fn run(&self, number: usize, job: &Job) -> Result<Option<JobOutcome>, LoadError> {
        let targets: Vec<&Target> = job.targets.iter().map(|index| self.targets[*index].0).collect();
        let iodepth = self.spec.iodepth(self.targets[job.targets[0]].1.iodepth);
        let table = SlotTable::new(targets.len() as u32, iodepth);
        let ready = self.pin(number).and_then(|()| self.drivers(job));
        match job.engine {
            EngineKind::Null => {
                let ready = ready.map(|drivers| (drivers, NullEngine::new(table)));
                self.run_on(number, job, table, ready)
            }
            EngineKind::Uring => {
                let ready = ready.and_then(|drivers| {
                    let memory = self.memory(job, table)?;
                    let engine = UringEngine::new(&targets, table, self.uring_options(), memory)?;
                    Ok((drivers, engine))
                });
                self.run_on(number, job, table, ready)
            }
            EngineKind::Nbd => {
                let ready = ready.and_then(|drivers| {
                    let engine = NbdEngine::new(&targets, table, self.memory(job, table)?)?;
                    Ok((drivers, engine))
                });
                self.run_on(number, job, table, ready)
            }
            EngineKind::Nfs => {
                let ready = ready.and_then(|drivers| {
                    let engine = NfsEngine::new(&targets, table, self.memory(job, table)?)?;
                    Ok((drivers, engine))
                });
                self.run_on(number, job, table, ready)
            }
            EngineKind::Xrootd => {
                let ready = ready.and_then(|drivers| {
                    let engine = XrootdEngine::new(&targets, table, self.memory(job, table)?)?;
                    Ok((drivers, engine))
                });
                self.run_on(number, job, table, ready)
            }
            EngineKind::Mapped => {
                let ready = ready.and_then(|drivers| {
                    let engine = MappedEngine::new(targets[0], iodepth, self.memory(job, table)?)?;
                    Ok((drivers, engine))
                });
                self.run_on(number, job, table, ready)
            }
            kind @ (EngineKind::Sync | EngineKind::Buffered) => {
                let ready = ready.and_then(|drivers| {
                    let engine = SyncEngine::new(targets[0], kind, iodepth, self.memory(job, table)?)?;
                    Ok((drivers, engine))
                });
                self.run_on(number, job, table, ready)
            }
        }
    }

    /// What `io_uring` is wanted to do; a ring polls for reads and writes only.
    fn uring_options(&self) -> UringOptions {
        let UringOptions { io_poll, kernel_thread } = self.options.uring;
        UringOptions { io_poll: io_poll && moves_bytes_only(self.spec), kernel_thread }
    }

    fn memory(&self, job: &Job, table: SlotTable) -> Result<IoMemory, LoadError> {
        let mut ops = Vec::new();
        ops.extend(self.spec.ops().iter().filter(|op| op.moves_bytes()));
        let seed = derived_seed(self.targets[job.targets[0]].1.seed, u64::from(job.worker));
        let memory = IoMemory::new(table.in_flight_max(), self.spec.request_bytes_max(), &ops, seed)?;
        Ok(memory.with_data(self.spec.data).filled_by_the_loop(self.options.verify))
    }

    fn pin(&self, number: usize) -> Result<(), LoadError> {
        let cpus = &self.options.cpus;
        if cpus.is_empty() {
            return Ok(());
        }
        let cpu = cpus[number % cpus.len()];
        let mut set = CpuSet::new();
        if cpu as usize >= CpuSet::MAX_CPU {
            return Err(LoadError::Pin { cpu, errno: rustix::io::Errno::INVAL });
        }
        set.set(cpu as usize);
        sched_setaffinity(None, &set).map_err(|errno| LoadError::Pin { cpu, errno })
    }

    fn drivers(&self, job: &Job) -> Result<Vec<Driver>, LoadError> {
        let driver = |index: &usize| {
            let driver = Driver::new(self.spec, &self.config_of(job.worker, *index))?;
            Ok(if self.options.latency_split { driver.with_latency_split() } else { driver })
        };
        job.targets.iter().map(driver).collect()
    }

    /// The part of one worker of the load on one target.
    fn config_of(&self, worker: u32, index: usize) -> DriverConfig {
        let config = &self.targets[index].1;
        let workers = self.options.workers.get();
        if workers == 1 {
            return config.clone();
        }
        DriverConfig { iodepth: config.iodepth, ..config.for_worker(worker, workers) }
    }

    fn run_on<E: Engine>(
        &self,
        number: usize,
        job: &Job,
        table: SlotTable,
        ready: Result<(Vec<Driver>, E), LoadError>,
    ) -> Result<Option<JobOutcome>, LoadError> {
        self.is_off.fetch_or(ready.is_err(), Ordering::Relaxed);
        self.gate.wait();
        self.gate.wait();
        let (drivers, mut engine) = ready?;
        if self.is_off.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let late = wait_until(self.go_at_ns.load(Ordering::Relaxed));
        let lane = |(driver, index): (Driver, &usize)| {
            let check = self.verifiers.get(*index).map(|verifier| verifier.check(job.worker));
            Lane::new(driver, self.targets[*index].0.path(), check)
        };
        let lanes = drivers.into_iter().zip(&job.targets).map(lane).collect();
        let before = ThreadReading::now();
        let started_at = self.clock.now();
        let mut drive = Drive::new(&mut engine, lanes, table, self.clock);
        drive.fua = self.options.fua;
        if self.options.latency_split {
            drive = drive.with_latency_split();
        }
        let mut tell = |lanes: &[Lane<'_>], since: Nanos, now: Nanos| self.tell(number, lanes, since, now);
        drive.run(self.cancel, &mut tell)?;
        let wall = self.clock.now() - started_at;
        let cost = cost_between(&before, &ThreadReading::now());
        let in_flight_reached = drive.in_flight_reached;
        let lanes = std::mem::take(&mut drive.lanes);
        let facts = engine.facts();
        let with = if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        Ok(Some(JobOutcome {
            targets: job.targets.iter().copied().zip(lanes.into_iter().map(of_lane)).collect(),
            cost,
            wall,
            late,
            in_flight_reached,
            engine: format!("{}{with}", engine.name()),
            short_transfers: engine.short_transfers(),
            notes: engine.notes().to_vec(),
        }))
    }

    fn tell(&self, number: usize, lanes: &[Lane<'_>], started_at: Nanos, now: Nanos) {
        let windows = lanes.iter().map(|lane| lane.driver.window_progress(now));
        let seen = windows.reduce(both).map(|window| LoadProgress { elapsed: now - started_at, window });
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board[number] = seen.unwrap_or_default();
    }

    /// How far all have come together; nothing before the first has told.
    fn progress(&self) -> Option<LoadProgress> {
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let told = board.iter().filter(|seen| seen.elapsed > NanoSpan::ZERO).copied();
        told.reduce(|one, other| LoadProgress {
            elapsed: one.elapsed.max(other.elapsed),
            window: both(one.window, other.window),
        })
    }
}

fn both(one: WindowProgress, other: WindowProgress) -> WindowProgress {
    WindowProgress {
        fraction: one.fraction.min(other.fraction),
        in_ramp: one.in_ramp || other.in_ramp,
        requests: one.requests + other.requests,
        bytes: one.bytes + other.bytes,
        errors: one.errors + other.errors,
        in_flight: one.in_flight + other.in_flight,
    }
}

fn cost_between(before: &ThreadReading, after: &ThreadReading) -> ThreadCost {
    let switches = before.switches.zip(after.switches);
    ThreadCost {
        thread_cpu: after.cpu - before.cpu,
        context_switches_voluntary: switches.map(|(before, after)| after.0 - before.0),
        context_switches_involuntary: switches.map(|(before, after)| after.1 - before.1),
        ..ThreadCost::default()
    }
}

fn of_lane(lane: Lane<'_>) -> TargetOutcome {
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

/// Adds up what the threads did.
fn gather(targets: usize, ended: Vec<JobOutcome>) -> LoadOutcome {
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

impl TargetOutcome {
    /// Adds what another worker did on the same target.
    fn add(&mut self, other: Self) {
        self.measurement.merge(&other.measurement);
        self.issued.add(other.issued);
        self.first_failure = self.first_failure.or(other.first_failure);
        self.error = self.error.take().or(other.error);
    }
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

/// A run on targets of which every one failed measured nothing: its error is that of the first.
fn fail_if_all_did(mut outcome: LoadOutcome) -> Result<LoadOutcome, LoadError> {
    let all = outcome.targets.iter().all(|target| target.error.is_some());
    match outcome.targets.first_mut().and_then(|target| target.error.take_if(|_| all)) {
        Some(error) => Err(error),
        None => Ok(outcome),
    }
}
