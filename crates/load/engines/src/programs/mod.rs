//! Programs on real files: the pure programs of [`raidlab_workload::program`], a thread for each of their processes.
//!
//! ```text
//!  thread per process:  poll_step ─► the call, without the lock ─► clocks ─► handle_return ─► ...
//!                         └───────────── the program, behind a lock ───────────┘
//! ```
//! All threads have their buffers before any of them begins, and begin together. A waiting process is woken when
//! another one waits or finishes. The clock is read after each call (20 ns); the processor time, which takes a system
//! call, only after calls that moved no data. A process's cost is the user and system time of its thread.
//!
//! Characters go through a buffer like the C library's (`chars.rs`). Every block written is unique, so that storage can
//! neither compress nor deduplicate it.
//!
//! Left out: separate address spaces. Bonnie's seekers are processes; what they share as threads costs nothing here.

mod chars;
mod process;

use crate::clock::{Clock, thread_cpu, wait_until};
use crate::error::LoadError;
use crate::run::Go;
use process::ProcessFiles;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::program::{FileCall, ProcessTime, Program, ProgramStep};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time between two tellings of progress.
const TELL_EVERY: Duration = Duration::from_millis(200);
/// How long a sleeping process may take to notice that it is to stop.
const NAP: Duration = Duration::from_millis(50);

/// The files of a program, by number, and how they are read.
#[derive(Clone, Debug)]
pub struct ProgramFiles {
    /// Where they are.
    pub paths: Vec<PathBuf>,
    /// Data ends here, whatever comes after; without it, at the end of the file.
    pub length: Option<ByteCount>,
    /// Longest read or write.
    pub block: ByteCount,
    /// Whether files that the program does not make are opened for writing, too.
    pub may_write: bool,
    /// What becomes of them in the page cache.
    pub caching: PageCaching,
    /// Seed of what is written.
    pub seed: u64,
}

/// What becomes of a file in the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCaching {
    /// It stays there.
    Kept,
    /// It is dropped when it is closed, so that it is cold when it is read again.
    DroppedAtClose,
    /// It is read and written past it.
    Direct,
}

/// How a program ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramEnd {
    /// All its processes have finished.
    Finished,
    /// The caller stopped it; what it measured so far is not whole.
    Cancelled,
}

/// Runs `program` on `files` until all its processes have finished, from a moment that `start` fixes: it is called from this thread
/// when all processes are ready to begin. `tell` gets the bytes moved so far. Returns as well how long after that moment the last one
/// began; zero where none was fixed.
///
/// # Errors
/// [`LoadError`] of the first call that failed; then all processes stop. [`LoadError::NotStarted`] where `start` says so.
pub fn run_program<P: Program + Send>(
    program: &mut P,
    files: &ProgramFiles,
    start: &mut dyn FnMut() -> Go,
    cancel: &AtomicBool,
    tell: &mut dyn FnMut(ByteCount),
) -> Result<(ProgramEnd, NanoSpan), LoadError> {
    let processes = program.process_count();
    let mut tables = Vec::with_capacity(processes as usize);
    for process in 0..processes {
        tables.push(ProcessFiles::new(files, process)?);
    }
    let stage = Stage {
        state: Mutex::new(State { program, changes: 0, failure: None }),
        changed: Condvar::new(),
        stop: AtomicBool::new(false),
        moved: AtomicU64::new(0),
        together: Barrier::new(tables.len() + 1),
        go_at_ns: AtomicU64::new(0),
        late_ns: AtomicU64::new(0),
        clock: Clock::start(),
    };
    let (ended, all_ended) = channel();
    std::thread::scope(|scope| {
        for (process, table) in (0..).zip(tables) {
            let (stage, ended) = (&stage, ended.clone());
            scope.spawn(move || {
                let _others = StopOnPanic(stage);
                stage.run(process, table);
                // The receiver is there until all threads have ended.
                let _ = ended.send(());
            });
        }
        drop(ended);
        stage.open_the_gate(start);
        while all_ended.recv_timeout(TELL_EVERY) != Err(RecvTimeoutError::Disconnected) {
            tell(ByteCount(stage.moved.load(Ordering::Relaxed)));
            if cancel.load(Ordering::Relaxed) {
                stage.stop();
            }
        }
    });
    let state = stage.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let late = NanoSpan(stage.late_ns.into_inner());
    match state.failure {
        Some(failure) => Err(failure),
        None if stage.stop.into_inner() => Ok((ProgramEnd::Cancelled, late)),
        None => Ok((ProgramEnd::Finished, late)),
    }
}

/// What the threads share.
struct Stage<'a, P> {
    state: Mutex<State<'a, P>>,
    changed: Condvar,
    stop: AtomicBool,
    moved: AtomicU64,
    /// Opens when every thread is ready, and again when it is known whether and when to begin.
    together: Barrier,
    /// When to begin, by the monotonic clock; zero for at once.
    go_at_ns: AtomicU64,
    /// How long after that the last one began.
    late_ns: AtomicU64,
    clock: Clock,
}

/// Lets the other processes end where one panics; they would wait for it for ever.
struct StopOnPanic<'s, 'a, P: Program>(&'s Stage<'a, P>);

impl<P: Program> Drop for StopOnPanic<'_, '_, P> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
    }
}

struct State<'a, P> {
    program: &'a mut P,
    /// How often a process has begun to wait, or finished.
    changes: u64,
    failure: Option<LoadError>,
}

impl<'a, P: Program> Stage<'a, P> {
    /// A thread that panicked is joined by the scope, which panics in turn: nobody goes on with what it left.
    fn lock(&self) -> MutexGuard<'_, State<'a, P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all threads are ready, asks when to begin, and lets them go. Called on the caller's thread.
    fn open_the_gate(&self, start: &mut dyn FnMut() -> Go) {
        self.together.wait();
        match start() {
            Go::Now => {}
            Go::At(monotonic_ns) => self.go_at_ns.store(monotonic_ns, Ordering::Relaxed),
            Go::Not => self.fail(LoadError::NotStarted),
        }
        self.together.wait();
    }

    /// Makes all threads end after their calls.
    fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        // Whoever is about to wait has seen the flag, or is waiting by the time the lock is had.
        drop(self.lock());
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn time(&self) -> ProcessTime {
        ProcessTime { now: self.clock.now(), cpu: thread_cpu() }
    }

    /// Runs one process to its end.
    fn run(&self, process: u32, mut files: ProcessFiles<'_>) {
        self.together.wait();
        self.together.wait();
        let late = wait_until(self.go_at_ns.load(Ordering::Relaxed));
        self.late_ns.fetch_max(late.get(), Ordering::Relaxed);
        let (mut time, mut returned, mut is_waiting) = (self.time(), None, false);
        loop {
            let mut state = self.lock();
            if let Some(bytes) = returned.take() {
                state.program.handle_return(process, time, bytes);
            }
            if self.is_stopped() {
                return;
            }
            match state.program.poll_step(process, time) {
                ProgramStep::Call(call) => {
                    drop(state);
                    is_waiting = false;
                    match self.call(call, &mut files) {
                        Ok(bytes) => returned = Some(bytes),
                        Err(error) => return self.fail(error),
                    }
                    time.now = self.clock.now();
                    if !call.moves_data() || returned == Some(0) {
                        time.cpu = thread_cpu();
                    }
                }
                ProgramStep::Wait => {
                    self.wait(state, &mut is_waiting);
                    time = self.time();
                }
                ProgramStep::Finished => {
                    state.changes += 1;
                    return self.changed.notify_all();
                }
            }
        }
    }

    /// Waits until another process waits or finishes.
    fn wait(&self, mut state: MutexGuard<'_, State<'a, P>>, is_waiting: &mut bool) {
        if !*is_waiting {
            *is_waiting = true;
            state.changes += 1;
            self.changed.notify_all();
        }
        let seen = state.changes;
        while state.changes == seen && !self.is_stopped() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn call(&self, call: FileCall, files: &mut ProcessFiles<'_>) -> Result<u64, LoadError> {
        if let FileCall::Sleep { span } = call {
            self.sleep(span);
            return Ok(0);
        }
        let bytes = files.call(call)?;
        if call.moves_data() {
            self.moved.fetch_add(bytes, Ordering::Relaxed);
        }
        Ok(bytes)
    }

    fn sleep(&self, span: NanoSpan) {
        let until = self.clock.now() + span;
        loop {
            // Read once: time goes on between two looks.
            let now = self.clock.now();
            if now >= until || self.is_stopped() {
                return;
            }
            std::thread::sleep(Duration::from_nanos((until - now).get()).min(NAP));
        }
    }

    fn fail(&self, error: LoadError) {
        self.lock().failure.get_or_insert(error);
        self.stop();
    }
}

#[cfg(test)]
mod tests;
