//! The run: the pure driver on one side, an engine on the other, and the clock between them.
//!
//! ```text
//! loop:  t0 = clock   poll the driver at t0 and queue what it issues; after SUBMIT_BATCH submit them, and
//!                     go on with a new t0, until it has nothing more to issue
//!        reap         one call submits the rest and waits for the first completion
//!        t1 = clock   report all that ended to the driver at t1
//! ```
//! **What a latency holds.** It starts at t0, before the request is queued, and ends at t1. Requests of a batch
//! share their stamps, so a latency is never too short. It is too long by the time to queue up to [`SUBMIT_BATCH`]
//! requests (about 0.1 us each) and by the time since its completion was posted: at most what one pass of the loop
//! takes, about 1 us for every [`SUBMIT_BATCH`] requests of it, and well below 1 us at one request in flight. The
//! loop never sleeps while completions lie ready. Storage that answers within the submitting call (a page cache)
//! serves a batch one by one, and each of its requests waits for all of it, as Little's law has it.
//!
//! **Why batches are short.** If all that ended at once is issued again at once, requests travel in convoys: the
//! device idles while they are prepared, and the processor idles while they are served. At 32 requests in flight
//! a virtio disk did 73 000 random reads per second in such convoys, and 85 000 with batches of 1 to 8, of which
//! larger ones cost less processor time.
//!
//! **What counts** is the driver's business: completions within the measured window.
//!
//! **Failed requests** count as errors and the run goes on, unless all others must fail like this one (`EINVAL`,
//! `ENOSPC`, end of file, ...) or [`FAILURES_IN_A_ROW_MAX`] failed in a row: then the run ends with an error.
//!
//! **A stop** (`cancel`) is seen within [`LOOK_UP_EVERY`]: nothing more is issued, what is in flight comes back,
//! and what was measured until then is returned.

use crate::clock::{Clock, CostReading};
use crate::engine::{Completion, Engine, EngineKind, FailureCause, SyncEngine, UringEngine};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::Target;
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::{
    AccessSpec, Driver, DriverConfig, DriverStep, IoOp, IssuedCounts, Measurement, WindowProgress,
};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The loop looks up at least this often, for a stop and for progress.
const LOOK_UP_EVERY: NanoSpan = NanoSpan::from_millis(50);
/// So many requests are queued at most before they are submitted.
const SUBMIT_BATCH: u32 = 4;
/// Time between two calls of the progress callback.
const PROGRESS_EVERY: NanoSpan = NanoSpan::from_millis(100);
/// How long requests in flight are waited for after the end.
const DRAIN_MAX: NanoSpan = NanoSpan::from_secs(60);
/// So many failures without a success between them end the run.
const FAILURES_IN_A_ROW_MAX: u32 = 1000;

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// With which engine.
    pub engine: EngineKind,
}

/// What the thread that ran the load has used from the first request to the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCost {
    /// Processor time of the thread, user and system; the kernel's share of each request is in it.
    pub thread_cpu: NanoSpan,
    /// Processor time of the whole process: larger where the kernel handed requests to worker threads, and by
    /// what other threads of the process did.
    pub process_cpu: NanoSpan,
    /// How often the thread waited, where the system tells.
    pub context_switches_voluntary: Option<u64>,
    /// How often it was made to wait, where the system tells.
    pub context_switches_involuntary: Option<u64>,
}

/// A request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoFailure {
    /// Direction.
    pub op: IoOp,
    /// Where, from the start of the target.
    pub offset_bytes: u64,
    /// Length.
    pub bytes: u32,
    /// Why.
    pub cause: FailureCause,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct LoadOutcome {
    /// What the driver counted in the window.
    pub measurement: Measurement,
    /// The run was stopped before its end.
    pub cancelled: bool,
    /// Requests of the whole run: ramp and drain are in it. The cost is that of all these.
    pub issued: IssuedCounts,
    /// What the run cost.
    pub cost: ThreadCost,
    /// From the first request to the return of the last.
    pub wall: NanoSpan,
    /// The most requests that were in flight at once.
    pub iodepth_reached: u32,
    /// Name of the engine.
    pub engine: &'static str,
    /// Transfers that moved fewer bytes than asked for; the engine went on with the rest.
    pub short_transfers: u64,
    /// The first request that failed, if one did. How many did stands in the measurement.
    pub first_failure: Option<IoFailure>,
    /// What was not as good as it could be, in sentences for people.
    pub notes: Vec<String>,
}

impl LoadOutcome {
    /// Processor time of the thread per request, in nanoseconds; none without requests.
    pub fn cpu_ns_per_io(&self) -> Option<f64> {
        let requests = self.issued.reads + self.issued.writes;
        (requests > 0).then(|| self.cost.thread_cpu.get() as f64 / requests as f64)
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct LoadProgress {
    /// Time since the first request.
    pub elapsed: NanoSpan,
    /// Share that is over, and what was counted.
    pub window: WindowProgress,
}

/// Runs `spec` on `target` as `config` says. Blocks until the window is over and all requests are back, or
/// `cancel` becomes true. `progress` is called about ten times a second from this thread.
///
/// # Errors
/// [`LoadError`] if the workload does not fit the target, the engine can't be set up, or requests fail in a way
/// that makes the measurement worthless.
pub fn run(
    target: &Target,
    spec: &AccessSpec,
    config: &DriverConfig,
    options: LoadOptions,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    check_fit(target, spec, config)?;
    let driver = Driver::new(spec, config)?;
    let mut ops = Vec::new();
    ops.extend(spec.reads().then_some(IoOp::Read));
    ops.extend(spec.writes().then_some(IoOp::Write));
    let iodepth = driver.iodepth();
    let memory = || IoMemory::new(iodepth, spec.request_bytes_max(), &ops, config.seed);
    match options.engine {
        EngineKind::Uring => {
            let mut engine = UringEngine::new(target, iodepth, memory()?)?;
            run_on_engine(&mut engine, driver, target.path(), cancel, progress)
        }
        EngineKind::Sync => {
            let mut engine = SyncEngine::new(target, iodepth, memory()?)?;
            run_on_engine(&mut engine, driver, target.path(), cancel, progress)
        }
    }
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
    if spec.writes() && !target.may_write() {
        return Err(LoadError::ReadOnly { path: path(), workload: spec.name.clone() });
    }
    Ok(())
}

/// Runs a driver on an engine that is ready: the loop of [`run`], for engines of other crates too. `path` names
/// the target in errors.
///
/// # Errors
/// As [`run`].
pub fn run_on_engine<E: Engine>(
    engine: &mut E,
    driver: Driver,
    path: &Path,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&LoadProgress),
) -> Result<LoadOutcome, LoadError> {
    let mut run = Run {
        engine,
        driver,
        path,
        clock: Clock::start(),
        done: Vec::with_capacity(256),
        iodepth_reached: 0,
        failures_in_a_row: 0,
        first_failure: None,
        fatal: None,
    };
    let before = CostReading::now();
    let started_at = run.clock.now();
    let cancelled = run.drive(cancel, progress)?;
    run.drain()?;
    let wall = run.clock.now() - started_at;
    let after = CostReading::now();
    if let Some(error) = run.fatal {
        return Err(error);
    }
    Ok(LoadOutcome {
        measurement: run.driver.measurement(),
        cancelled,
        issued: run.driver.issued(),
        cost: cost_between(&before, &after),
        wall,
        iodepth_reached: run.iodepth_reached,
        engine: run.engine.name(),
        short_transfers: run.engine.short_transfers(),
        first_failure: run.first_failure,
        notes: run.engine.notes().to_vec(),
    })
}

fn cost_between(before: &CostReading, after: &CostReading) -> ThreadCost {
    let switches = before.switches.zip(after.switches);
    ThreadCost {
        thread_cpu: after.thread_cpu - before.thread_cpu,
        process_cpu: after.process_cpu - before.process_cpu,
        context_switches_voluntary: switches.map(|(before, after)| after.0 - before.0),
        context_switches_involuntary: switches.map(|(before, after)| after.1 - before.1),
    }
}

/// A run under way.
struct Run<'a, E> {
    engine: &'a mut E,
    driver: Driver,
    path: &'a Path,
    clock: Clock,
    done: Vec<Completion>,
    iodepth_reached: u32,
    failures_in_a_row: u32,
    first_failure: Option<IoFailure>,
    /// Why the run is of no use and ends.
    fatal: Option<LoadError>,
}

impl<E: Engine> Run<'_, E> {
    /// Runs until the driver has finished, the run is of no use, or it is cancelled; returns whether it was.
    fn drive(
        &mut self,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(&LoadProgress),
    ) -> Result<bool, LoadError> {
        let started_at = self.clock.now();
        let mut progress_at = started_at + PROGRESS_EVERY;
        loop {
            let Some(at_most) = self.issue()? else { return Ok(false) };
            let now = self.reap(at_most)?;
            if self.fatal.is_some() {
                return Ok(false);
            }
            if cancel.load(Ordering::Relaxed) {
                self.driver.handle_stop(now);
                return Ok(true);
            }
            if now >= progress_at {
                progress_at = now + PROGRESS_EVERY;
                let window = self.driver.window_progress(now);
                progress(&LoadProgress { elapsed: now - started_at, window });
            }
        }
    }

    /// Issues all that the driver wants done. Returns how long to wait for a completion at most, or nothing when
    /// the driver has finished.
    #[inline]
    fn issue(&mut self) -> Result<Option<NanoSpan>, LoadError> {
        let mut now = self.clock.now();
        let mut queued = 0;
        let at_most = loop {
            match self.driver.poll_step(now) {
                DriverStep::Issue(io) => self.engine.submit(io),
                DriverStep::WaitUntil(time) => break time.saturating_since(now).min(LOOK_UP_EVERY),
                DriverStep::WaitForCompletion => break LOOK_UP_EVERY,
                DriverStep::Finished => return Ok(None),
            }
            queued += 1;
            // The last batch goes with the call that waits.
            if queued == SUBMIT_BATCH && self.engine.in_flight() < self.engine.iodepth_max() {
                queued = 0;
                self.engine.flush().map_err(self.cannot("submit requests"))?;
                now = self.clock.now();
            }
        };
        self.iodepth_reached = self.iodepth_reached.max(self.engine.in_flight());
        Ok(Some(at_most))
    }

    /// Returns a closure that says what could not be done, for `map_err`.
    fn cannot(&self, op: &'static str) -> impl Fn(Errno) -> LoadError + use<E> {
        let engine = self.engine.name();
        move |errno| LoadError::Engine { engine, op, errno }
    }

    /// Submits, waits, and reports what ended to the driver. Returns when that was.
    #[inline]
    fn reap(&mut self, at_most: NanoSpan) -> Result<Nanos, LoadError> {
        self.done.clear();
        self.engine.reap(at_most, &mut self.done).map_err(self.cannot("wait for requests"))?;
        let now = self.clock.now();
        for index in 0..self.done.len() {
            let Completion { slot, failure } = self.done[index];
            self.driver.handle_completion(now, slot, failure.is_none());
            match failure {
                None => self.failures_in_a_row = 0,
                Some(cause) => self.note_failure(slot, cause),
            }
        }
        Ok(now)
    }

    #[cold]
    fn note_failure(&mut self, slot: u32, cause: FailureCause) {
        let io = self.engine.io(slot);
        let failure = IoFailure { op: io.op, offset_bytes: io.offset_bytes, bytes: io.bytes, cause };
        self.first_failure.get_or_insert(failure);
        self.failures_in_a_row += 1;
        let is_row_too_long = self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX;
        if self.fatal.is_some() || !(cause.is_for_all() || is_row_too_long) {
            return;
        }
        self.fatal = Some(LoadError::Failing {
            path: self.path.into(),
            op: match io.op {
                IoOp::Read => "read",
                IoOp::Write => "write",
            },
            offset_bytes: io.offset_bytes,
            bytes: io.bytes,
            cause,
            times: match self.failures_in_a_row {
                1 => "so the run was ended".into(),
                row => format!("the last of {row} in a row"),
            },
        });
    }

    /// Waits for all that is in flight.
    fn drain(&mut self) -> Result<(), LoadError> {
        let deadline = self.clock.now() + DRAIN_MAX;
        while self.engine.in_flight() > 0 {
            if self.clock.now() >= deadline {
                let (path, in_flight) = (self.path.into(), self.engine.in_flight());
                return Err(LoadError::Stuck { path, in_flight, waited: DRAIN_MAX });
            }
            self.reap(LOOK_UP_EVERY)?;
        }
        Ok(())
    }
}
