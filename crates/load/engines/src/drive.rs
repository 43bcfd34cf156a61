//! The loop of one load thread: pure drivers on one side, an engine on the other, and the clock between them.
//!
//! ```text
//! loop:  now = when the last requests were reaped
//!        poll the drivers at now and queue what they issue; after a batch submit it, and go on with a new now,
//!        until there is nothing more to issue
//!        reap         one call submits the rest and waits for the first completion
//!       now = clock  report all completions to the drivers at now
//! ```
//! **What a latency contains.** It starts with `now`, before the request is queued, and ends with the clock after the
//! call that returned its completion. Requests of a batch share their time stamps, so a latency is never too short. It
//! is too long by the time to process the completions of the last pass and to queue up to a batch (about 10 ns each),
//! and by the time since its completion was posted: at most one pass of the loop. The loop never sleeps while
//! completions are ready. Storage that answers within the submitting call (a page cache) serves a batch one by one, and
//! each of its requests waits for all in flight, by Little's law.
//!
//! **Why batches are short.** If everything that ended at once is issued again at once, requests travel in convoys: the
//! device idles while they are prepared, and the processor idles while they are served. At 32 requests in flight a
//! virtio disk did 73 000 random reads per second in such convoys, and 85 000 with batches of 1 to 8, of which larger
//! ones cost less processor time. Storage that answers within the call can't idle: if a whole batch comes back at once,
//! the next one is twice as long, up to [`BATCH_MAX`].
//!
//! **What counts** is decided by the driver: completions within the measured window.
//!
//! **Failed requests** count as errors and the run goes on, unless all others must fail like this one (`EINVAL`,
//! `ENOSPC`, end of file, ...) or [`FAILURES_IN_A_ROW_MAX`] failed in a row: then the target is abandoned, and the
//! others go on.
//!
//! **A stop** (`cancel`) is noticed within [`LOOK_UP_EVERY`]: nothing more is issued, requests in flight are awaited,
//! and the results so far are returned.

use crate::clock::Clock;
use crate::engine::{Completion, Engine, EngineIo, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::run::IoFailure;
use crate::ticks::LoopClock;
use crate::verify::Check;
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::{Driver, DriverStep, IoOp};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// The loop looks up at least this often, for a stop and for progress.
const LOOK_UP_EVERY: NanoSpan = NanoSpan::from_millis(50);
/// So many requests are queued at most before they are submitted, to storage that does not answer within the call and
/// to storage that does.
const BATCH_MIN: u32 = 4;
const BATCH_MAX: u32 = 32;
/// Time between two tellings of progress.
pub(crate) const PROGRESS_EVERY: NanoSpan = NanoSpan::from_millis(100);
/// How long requests in flight are waited for after the end.
const DRAIN_MAX: NanoSpan = NanoSpan::from_secs(60);
/// So many failures without a success between them end the load on a target.
const FAILURES_IN_A_ROW_MAX: u32 = 1000;

/// One target under load: its driver, and what went wrong.
#[derive(Debug)]
pub(crate) struct Lane<'a> {
    pub(crate) driver: Driver,
    pub(crate) path: &'a Path,
    /// Judges what is read.
    pub(crate) check: Option<Check<'a>>,
    failures_in_a_row: u32,
    pub(crate) first_failure: Option<IoFailure>,
    /// Why the target is left alone.
    pub(crate) error: Option<LoadError>,
}

impl<'a> Lane<'a> {
    pub(crate) fn new(driver: Driver, path: &'a Path, check: Option<Check<'a>>) -> Self {
        Self { driver, path, check, failures_in_a_row: 0, first_failure: None, error: None }
    }
}

/// A load under way.
#[derive(Debug)]
pub(crate) struct Drive<'a, 'b, E> {
    pub(crate) engine: &'b mut E,
    /// By the engine's numbers of the targets.
    pub(crate) lanes: Vec<Lane<'a>>,
    table: SlotTable,
    clock: LoopClock,
    done: Vec<Completion>,
    batch: u32,
    /// Writes end when the medium has them.
    pub(crate) fua: bool,
    /// Places of the requests that were queued since the last call, where latency is cut in two.
    queued: Option<Vec<u32>>,
    pub(crate) in_flight_reached: u32,
}

impl<'a, 'b, E: Engine> Drive<'a, 'b, E> {
    /// Returns the loop for `lanes`, one for each of the engine's targets, with the slots of `table`.
    pub(crate) fn new(engine: &'b mut E, lanes: Vec<Lane<'a>>, table: SlotTable, clock: Clock) -> Self {
        let done = Vec::with_capacity(table.in_flight_max().max(256) as usize);
        Self {
            engine,
            lanes,
            table,
            clock: LoopClock::new(clock),
            done,
            batch: BATCH_MIN,
            fua: false,
            queued: None,
            in_flight_reached: 0,
        }
    }

    /// Returns the same loop, which tells the drivers when it hands requests to the engine's calls, for one more reading
    /// of the clock for each call.
    #[must_use]
    pub(crate) fn with_latency_split(mut self) -> Self {
        self.queued = Some(Vec::with_capacity(self.table.in_flight_max() as usize));
        self
    }

    /// Runs until the drivers have finished or `cancel` is set, and all requests are back. `tell` gets the lanes about
    /// ten times a second, with the time when the first was asked for work, and the time now.
    ///
    /// # Errors
    /// [`LoadError`] if the engine fails, or requests do not come back. What is wrong with a target stands in its lane.
    pub(crate) fn run(
        &mut self,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(&[Lane<'a>], Nanos, Nanos),
    ) -> Result<(), LoadError> {
        let started_at = self.clock.now();
        let (mut now, mut tell_at) = (started_at, started_at + PROGRESS_EVERY);
        while let Some(at_most) = self.issue(now)? {
            now = self.reap(at_most)?;
            if cancel.load(Ordering::Relaxed) {
                self.lanes.iter_mut().for_each(|lane| lane.driver.handle_stop(now));
                break;
            }
            if now >= tell_at {
                tell_at = now + PROGRESS_EVERY;
                tell(&self.lanes, started_at, now);
            }
        }
        self.drain()
    }

    /// Issues all that the drivers want done. Returns how long to wait for a completion at most, or nothing when all
    /// drivers have finished.
    #[inline]
    fn issue(&mut self, mut now: Nanos) -> Result<Option<NanoSpan>, LoadError> {
        let mut queued = 0;
        let mut wait = None;
        for target in 0..self.lanes.len() {
            let at_most = loop {
                match self.lanes[target].driver.poll_step(now) {
                    DriverStep::Issue(io) => {
                        let slot = self.table.slot_of(target as u32, io.slot);
                        let (op, offset_bytes, bytes) = (io.op, io.offset_bytes, io.bytes);
                        let fua = self.fua && op == IoOp::Write;
                        let request = EngineIo { slot, target: target as u32, op, offset_bytes, bytes, fua };
                        if let Some(check) = self.lanes[target].check
                            && let Some(buffer) = self.engine.buffer(&request)
                        {
                            check.begin(io.slot, &request, buffer);
                        }
                        self.engine.submit(request);
                        if let Some(queued) = &mut self.queued {
                            queued.push(slot);
                        }
                    }
                    DriverStep::WaitUntil(time) => break Some(time.saturating_since(now)),
                    DriverStep::WaitForCompletion => break Some(LOOK_UP_EVERY),
                    DriverStep::Finished => break None,
                }
                queued += 1;
                // The last batch goes with the call that waits.
                if queued >= self.batch && self.engine.in_flight() < self.engine.in_flight_max() {
                    self.flush(std::mem::take(&mut queued))?;
                    now = self.clock.now();
                }
            };
            wait = [wait, at_most].into_iter().flatten().min();
        }
        self.in_flight_reached = self.in_flight_reached.max(self.engine.in_flight());
        Ok(wait.map(|wait| wait.min(LOOK_UP_EVERY)))
    }

    /// Tells the drivers that a call is about to hand on what was queued.
    #[inline]
    fn hand_on(&mut self) {
        let Some(queued) = &mut self.queued else { return };
        let now = self.clock.now();
        for slot in queued.drain(..) {
            let (target, driver_slot) = self.table.split(slot);
            self.lanes[target as usize].driver.handle_submitted(now, driver_slot);
        }
    }

    /// Submits a batch and chooses the length of the next one.
    #[inline]
    fn flush(&mut self, queued: u32) -> Result<(), LoadError> {
        self.hand_on();
        self.engine.flush().map_err(self.cannot("submit requests"))?;
        let came_back = self.engine.ready() >= queued;
        self.batch = if came_back { (self.batch * 2).min(BATCH_MAX) } else { BATCH_MIN };
        Ok(())
    }

    /// Returns a closure that says what could not be done, for `map_err`.
    fn cannot(&self, op: &'static str) -> impl Fn(Errno) -> LoadError + use<E> {
        let engine = self.engine.name();
        move |errno| LoadError::Engine { engine, op, errno }
    }

    /// Submits, waits, and reports what ended to the drivers. Returns when that was.
    #[inline]
    fn reap(&mut self, at_most: NanoSpan) -> Result<Nanos, LoadError> {
        self.hand_on();
        self.done.clear();
        self.engine.reap(at_most, &mut self.done).map_err(self.cannot("wait for requests"))?;
        let now = self.clock.now();
        for index in 0..self.done.len() {
            let Completion { slot, failure } = self.done[index];
            let (target, driver_slot) = self.table.split(slot);
            let lane = &mut self.lanes[target as usize];
            if let Some(check) = lane.check {
                let request = self.engine.io(slot);
                if let Some(buffer) = self.engine.buffer(&request) {
                    check.end(driver_slot, &request, buffer, failure.is_none());
                }
            }
            lane.driver.handle_completion(now, driver_slot, failure.is_none());
            match failure {
                None => lane.failures_in_a_row = 0,
                Some(cause) => self.note_failure(now, slot, cause),
            }
        }
        Ok(now)
    }

    #[cold]
    fn note_failure(&mut self, now: Nanos, slot: u32, cause: FailureCause) {
        let io = self.engine.io(slot);
        let failure = IoFailure { op: io.op, offset_bytes: io.offset_bytes, bytes: io.bytes, cause };
        let lane = &mut self.lanes[io.target as usize];
        lane.first_failure.get_or_insert(failure);
        lane.failures_in_a_row += 1;
        let is_row_too_long = lane.failures_in_a_row >= FAILURES_IN_A_ROW_MAX;
        if lane.error.is_some() || !(cause.is_for_all() || is_row_too_long) {
            return;
        }
        lane.driver.handle_stop(now);
        lane.error = Some(LoadError::Failing {
            path: lane.path.into(),
            op: io.op.name(),
            offset_bytes: io.offset_bytes,
            bytes: io.bytes,
            cause,
            times: match lane.failures_in_a_row {
                1 => "so the load on it was ended".into(),
                row => format!("the last of {row} in a row"),
            },
        });
    }

    /// Waits for all that is in flight.
    fn drain(&mut self) -> Result<(), LoadError> {
        let deadline = self.clock.now() + DRAIN_MAX;
        while self.engine.in_flight() > 0 {
            if self.clock.now() >= deadline {
                let (path, in_flight) = (self.lanes[0].path.into(), self.engine.in_flight());
                return Err(LoadError::Stuck { path, in_flight, waited: DRAIN_MAX });
            }
            self.reap(LOOK_UP_EVERY)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
