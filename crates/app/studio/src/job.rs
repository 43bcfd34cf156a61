//! Jobs: raidlab run as a separate process, observed while it runs.
//!
//! ```text
//!            standard error: lines {"progress": …} ──► ticks      anything else ──► messages, and the failure at the end
//! process ──<
//!            standard output: JSON ──► result
//! ```
//! A job is stopped as a user would stop it: by an interrupt, upon which it keeps what is finished; a second one ends
//! it at once. It has its own process group, so that Ctrl-C in the studio's terminal reaches it through the studio
//! only.
//!
//! Invariants: a process is waited for and signalled under the same lock, so no signal reaches another process that has
//! taken its id; ticks, messages and results are bounded.
//!
//! Left out: jobs that outlive the studio, and a history of jobs on disk: finished runs are in the results file,
//! whoever started them.

mod watch;

use crate::command::CommandLine;
use crate::fault::Fault;
use axum::http::StatusCode;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Jobs that run at once, servers included.
const RUNNING_MAX: usize = 12;
/// Jobs that are remembered; the oldest finished ones are forgotten.
const KEPT_MAX: usize = 48;
/// Longest wait for jobs to end when the studio does.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// What a job is for, which is the page that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum JobKind {
    /// Plans an array.
    Plan,
    /// Predicts figures of a paper.
    Reproduce,
    /// Measures a file.
    Measure,
    /// Soaks a file.
    Soak,
    /// Makes an array.
    ArrayCreate,
    /// Serves an array.
    ArrayServe,
    /// Serves a modelled array.
    Emulate,
}

/// How a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum JobState {
    /// It runs.
    Running,
    /// It has ended as it should, or missed a bound.
    Done,
    /// It could not do what was asked.
    Failed,
    /// It was stopped.
    Stopped,
}

/// A job as pages see it.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct JobView {
    id: u64,
    kind: JobKind,
    /// What it is about: a file, a paper, an array.
    subject: String,
    command: String,
    state: JobState,
    exit_code: Option<i32>,
    started_at_unix_ms: u64,
    ended_at_unix_ms: Option<u64>,
    /// Lines that are no progress, the latest ones.
    messages: Vec<String>,
    /// What went wrong, as the command line tells it: kinds (`error`, `because`, `hint`) and texts.
    failure: Option<Value>,
    has_result: bool,
    ticks: Vec<Tick>,
    /// The number of the next tick.
    next_tick: u64,
}

/// A line of progress.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Tick {
    /// Its number, from 0; as time goes on numbers are left out, so that many hours fit.
    #[serde(rename = "tick")]
    pub(crate) number: u64,
    /// Time since the job's start.
    pub(crate) at_ms: u64,
    /// What the command says: label, share, and counts.
    #[serde(flatten)]
    pub(crate) progress: Value,
}

/// What changes while a job runs.
#[derive(Debug, Default)]
struct Seen {
    child: Option<Child>,
    is_asked_to_stop: bool,
    exit_code: Option<i32>,
    ended_at_unix_ms: Option<u64>,
    ticks: Vec<Tick>,
    next_tick: u64,
    messages: Vec<String>,
    failure: Option<Value>,
    result: Option<Arc<str>>,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    id: u64,
    kind: JobKind,
    subject: String,
    command: CommandLine,
    started_at_unix_ms: u64,
    begun: Instant,
    seen: Mutex<Seen>,
}

impl Job {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn state(&self) -> JobState {
        self.seen().state()
    }

    /// The job, with the ticks from number `from` on.
    pub(crate) fn view(&self, from: u64) -> JobView {
        let seen = self.seen();
        JobView {
            id: self.id,
            kind: self.kind,
            subject: self.subject.clone(),
            command: self.command.to_string(),
            state: seen.state(),
            exit_code: seen.exit_code,
            started_at_unix_ms: self.started_at_unix_ms,
            ended_at_unix_ms: seen.ended_at_unix_ms,
            messages: seen.messages.clone(),
            failure: seen.failure.clone(),
            has_result: seen.result.is_some(),
            ticks: seen.ticks.iter().filter(|tick| tick.number >= from).cloned().collect(),
            next_tick: seen.next_tick,
        }
    }

    /// What it printed; nothing before its end, or if it printed no JSON.
    pub(crate) fn result(&self) -> Option<Arc<str>> {
        self.seen().result.clone()
    }

    /// Asks it to stop, or to stop at once if it was asked before.
    pub(crate) fn stop(&self) {
        let mut seen = self.seen();
        seen.is_asked_to_stop = true;
        if let Some(child) = &seen.child
            && let Err(error) = kill_process(Pid::from_child(child), Signal::INT)
        {
            tracing::warn!(%error, job = self.id, "a job can't be stopped");
        }
    }
}

impl Seen {
    fn state(&self) -> JobState {
        match self.exit_code {
            _ if self.child.is_some() => JobState::Running,
            // 3 is a bound that was missed, which is a result.
            Some(0 | 3) => JobState::Done,
            _ if self.is_asked_to_stop => JobState::Stopped,
            _ => JobState::Failed,
        }
    }
}

/// All jobs.
#[derive(Debug)]
pub(crate) struct Jobs {
    program: PathBuf,
    folder: PathBuf,
    known: Mutex<BTreeMap<u64, Arc<Job>>>,
    next: AtomicU64,
}

impl Jobs {
    pub(crate) fn new(program: PathBuf, folder: PathBuf) -> Self {
        Self { program, folder, known: Mutex::default(), next: AtomicU64::new(1) }
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Job>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts `command`.
    pub(crate) fn start(
        &self,
        kind: JobKind,
        subject: String,
        command: CommandLine,
    ) -> Result<Arc<Job>, Fault> {
        let mut jobs = self.jobs();
        if jobs.values().filter(|job| job.state() == JobState::Running).count() >= RUNNING_MAX {
            let what = format!("{RUNNING_MAX} jobs run already");
            let remedy = "wait until one has ended, or stop one";
            return Err(Fault::new(StatusCode::TOO_MANY_REQUESTS, what, command.to_string(), remedy));
        }
        let mut child = self.spawn(&command).map_err(|error| {
            Fault::internal(format!("the command can't be started: {error}"), command.to_string())
        })?;
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let job = Arc::new(Job {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            kind,
            subject,
            command,
            started_at_unix_ms: unix_ms(),
            begun: Instant::now(),
            seen: Mutex::new(Seen { child: Some(child), ..Seen::default() }),
        });
        let (out, err) = (out.expect("it is a pipe"), err.expect("it is a pipe"));
        watch::start(&job, out, err);
        jobs.insert(job.id, Arc::clone(&job));
        forget_old(&mut jobs);
        Ok(job)
    }

    fn spawn(&self, command: &CommandLine) -> std::io::Result<Child> {
        Command::new(&self.program)
            .args(command.arguments())
            .arg("--json")
            .current_dir(&self.folder)
            .env("RAIDLAB_PROGRESS", "json")
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
    }

    /// A job of this command that runs or has ended well: what it does is the same each time.
    pub(crate) fn same(&self, command: &CommandLine) -> Option<Arc<Job>> {
        let is_of_use = |state| matches!(state, JobState::Running | JobState::Done);
        let jobs = self.jobs();
        jobs.values().rev().find(|job| job.command == *command && is_of_use(job.state())).cloned()
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Job>> {
        self.jobs().get(&id).cloned()
    }

    /// All that are remembered, latest first.
    pub(crate) fn list(&self) -> Vec<Arc<Job>> {
        self.jobs().values().rev().cloned().collect()
    }

    /// Stops all and waits until they have ended; who takes too long is told to end at once.
    pub(crate) fn stop_all(&self) {
        let running = || self.list().into_iter().filter(|job| job.state() == JobState::Running);
        running().for_each(|job| job.stop());
        for limit in [STOP_LIMIT, Duration::from_secs(2)] {
            let begin = Instant::now();
            while running().next().is_some() && begin.elapsed() < limit {
                std::thread::sleep(Duration::from_millis(20));
            }
            running().for_each(|job| job.stop());
        }
    }
}

fn forget_old(jobs: &mut BTreeMap<u64, Arc<Job>>) {
    while jobs.len() > KEPT_MAX {
        let old = jobs.values().find(|job| job.state() != JobState::Running).map(|job| job.id);
        let Some(old) = old else { return };
        jobs.remove(&old);
    }
}

fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
