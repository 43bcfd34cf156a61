//! The run: workers that load targets in parallel, all starting at the same moment, and its results.
//!
//! ```text
//! worker 0 ── thread: engine ── driver of target 0, driver of target 1, ...       iodepth requests in flight for
//! worker 1 ── thread: engine ── driver of target 0, driver of target 1, ...       each target of each worker
//! ```
//! Each worker has `iodepth` requests in flight on each target, as in Iometer: `workers x targets x iodepth` in all.
//! An engine with one request in flight needs a thread for each target of each worker. Targets of different kinds need
//! an engine, and so a thread, for each kind.
//!
//! All engines are ready before the first request of any. Every driver has its own seed, and the workers' sequential
//! streams start evenly spread over each target. If several hosts make a load together, the caller decides when to
//! start once everything is ready here ([`run_targets`]), and all threads wait for that moment.
//!
//! A workload whose parts name targets asks of each target what those parts ask.
//!
//! **A target that fails** is abandoned, and its results until then are kept; the others go on. If all fail the run is
//! an error.

mod fit;
mod outcome;

pub use outcome::{IoFailure, LoadOutcome, LoadProgress, TargetOutcome, ThreadCost};

use crate::clock::{Clock, ThreadReading, process_cpu, wait_until};
use crate::drive::{Drive, Lane, PROGRESS_EVERY};
use crate::engine::{
    Engine, EngineKind, FilesEngine, MappedEngine, NbdEngine, NfsEngine, NullEngine, SlotTable, SyncEngine,
    UringEngine, UringOptions, XrootdEngine,
};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::{Target, TargetKind};
use crate::verify::Verifier;
use fit::{check_engine, check_fit, check_ops, engine_for};
use outcome::{JobOutcome, both, cost_between, fail_if_all_did, gather, of_lane};
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::{AccessSpec, Driver, DriverConfig, DriverError, OpSet, derived_seed};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::borrow::Cow;
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

/// Runs `spec` on each target as its config says, from a moment that `start` fixes: it is called from this thread when all here is
/// ready to begin, and not at all if something is not. Blocks until the windows are over and all requests are back, or
/// `cancel` becomes true. `progress` is called about ten times a second from this thread.
///
/// # Errors
/// [`LoadError`] if the workload does not fit a target, an engine can't be set up, or requests fail on every target
/// in a way that makes the measurement worthless; [`LoadError::NotStarted`] where `start` says so.
pub fn run_targets(
    targets: &[(&Target, DriverConfig)],
    spec: &AccessSpec,
    options: &LoadOptions,
    start: &mut dyn FnMut() -> Go,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    let specs = specs_of(targets, spec, options)?;
    let jobs = jobs(targets, options);
    let order = Order {
        targets,
        spec,
        specs: &specs,
        options,
        cancel,
        gate: Barrier::new(jobs.len() + 1),
        is_off: AtomicBool::new(false),
        go_at_ns: AtomicU64::new(0),
        board: Mutex::new(vec![LoadProgress::default(); jobs.len()]),
        clock: Clock::start(),
        verifiers: verifiers(targets, &specs, options)?,
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

/// What is asked of each target, which it can do.
fn specs_of<'a>(
    targets: &[(&Target, DriverConfig)],
    spec: &'a AccessSpec,
    options: &LoadOptions,
) -> Result<Vec<Cow<'a, AccessSpec>>, LoadError> {
    let each = (0..).zip(targets).map(|(index, (target, config))| {
        let own = spec.on_target(index, targets.len() as u32).map_err(DriverError::from)?;
        check_fit(target, &own, config)?;
        check_engine(target, options)?;
        check_ops(target, own.ops(), options)?;
        Ok(own)
    });
    each.collect()
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
    specs: &[Cow<'_, AccessSpec>],
    options: &LoadOptions,
) -> Result<Vec<Verifier>, LoadError> {
    if !options.verify {
        return Ok(Vec::new());
    }
    let verifier = |((target, config), spec): (&(&Target, DriverConfig), &Cow<'_, AccessSpec>)| {
        let slots = (options.workers.get(), spec.iodepth(config.iodepth));
        Verifier::new(target, spec, config, slots)
    };
    targets.iter().zip(specs).map(verifier).collect()
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

/// What all threads share.
struct Order<'a> {
    targets: &'a [(&'a Target, DriverConfig)],
    spec: &'a AccessSpec,
    /// What is asked of each target.
    specs: &'a [Cow<'a, AccessSpec>],
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
        let drivers = self.pin(number).and_then(|()| self.drivers(job));
        // Workers share the numbers that a workload has of its own.
        let iodepth = drivers.iter().flatten().map(Driver::iodepth).max().unwrap_or(1);
        let table = SlotTable::new(targets.len() as u32, iodepth);
        let ready = (drivers, table);
        let memory = || self.memory(job, table);
        match job.engine {
            EngineKind::Null => self.run_on(number, job, ready, || Ok(NullEngine::new(table))),
            EngineKind::Uring => self.run_on(number, job, ready, || {
                UringEngine::new(&targets, table, self.uring_options(), memory()?)
            }),
            EngineKind::Nbd => self.run_on(number, job, ready, || NbdEngine::new(&targets, table, memory()?)),
            EngineKind::Nfs => self.run_on(number, job, ready, || NfsEngine::new(&targets, table, memory()?)),
            EngineKind::Xrootd => {
                self.run_on(number, job, ready, || XrootdEngine::new(&targets, table, memory()?))
            }
            EngineKind::Files => {
                self.run_on(number, job, ready, || FilesEngine::new(&targets, table, memory()?))
            }
            EngineKind::Mapped => {
                self.run_on(number, job, ready, || MappedEngine::new(targets[0], iodepth, memory()?))
            }
            kind @ (EngineKind::Sync | EngineKind::Buffered) => {
                self.run_on(number, job, ready, || SyncEngine::new(targets[0], kind, iodepth, memory()?))
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
            let driver = Driver::new(&self.specs[*index], &self.config_of(job.worker, *index))?;
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

    /// Does a job with the engine that is made here, once all threads are ready.
    fn run_on<E: Engine>(
        &self,
        number: usize,
        job: &Job,
        (drivers, table): (Result<Vec<Driver>, LoadError>, SlotTable),
        engine: impl FnOnce() -> Result<E, LoadError>,
    ) -> Result<Option<JobOutcome>, LoadError> {
        let ready = drivers.and_then(|drivers| Ok((drivers, engine()?)));
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
        let seen = windows
            .reduce(|one, other| both(&one, &other))
            .map(|window| LoadProgress { elapsed: now - started_at, window });
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        board[number] = seen.unwrap_or_default();
    }

    /// How far all have come together; nothing before the first has told.
    fn progress(&self) -> Option<LoadProgress> {
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let told = board.iter().filter(|seen| seen.elapsed > NanoSpan::ZERO).copied();
        told.reduce(|one, other| LoadProgress {
            elapsed: one.elapsed.max(other.elapsed),
            window: both(&one.window, &other.window),
        })
    }
}
