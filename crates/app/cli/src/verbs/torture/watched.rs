//! The campaign in a process of its own, watched by this one: a plan that makes the controller loop, overflow its stack or abort ends that
//! process without a word, and the seed would be gone with it.
//!
//! ```text
//! raidlab torture ─► raidlab torture, watched ─► runs; each thread notes the plan that it begins, and what its runs have added up to
//!       ▲                     │ a thread that is at one run for too long ends the process
//!       └── which plan was it? each that was begun is tried alone; then on with the next, the sums kept
//! ```
//! The watched process has a group of its own: signals come from this one. Left out: how much memory a run takes.

use crate::failure::Failure;
use raidlab_torture::TortureReport;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Set for the process that is watched: the folder where it notes what it begins.
const FOLDER: &str = "RAIDLAB_TORTURE_WATCHED";
/// Set for one that runs a single plan of the campaign: its number.
const ONLY: &str = "RAIDLAB_TORTURE_ONLY";
/// How the watched process ends when a run takes too long.
const LOOPS: i32 = 86;
/// In the folder: what was done before this process, and the plans that ended one.
const BEFORE: &str = "before";
const DIED: &str = "died";

/// A plan that ended the process: its number in the campaign, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Died {
    pub(super) index: u64,
    pub(super) how: String,
}

/// What processes before this one have done.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The first plan to run.
    pub(super) next: u64,
    pub(super) sum: TortureReport,
    pub(super) died: Vec<Died>,
}

/// The process that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    folder: PathBuf,
}

impl Watched {
    /// This process, if it is watched.
    pub(super) fn of_environment() -> Option<Self> {
        std::env::var_os(FOLDER).map(|folder| Self { folder: folder.into() })
    }

    /// The only plan to run, if it is one.
    pub(super) fn only() -> Option<u64> {
        std::env::var(ONLY).ok()?.parse().ok()
    }

    /// What was done before.
    pub(super) fn before(&self) -> Before {
        let died = fs::read_to_string(self.folder.join(DIED)).unwrap_or_default();
        let died = died.lines().filter_map(|line| {
            let (index, how) = line.split_once(' ')?;
            Some(Died { index: index.parse().ok()?, how: how.to_owned() })
        });
        let (next, sum) = read_note(&self.folder.join(BEFORE)).unwrap_or_default();
        Before { next, sum, died: died.collect() }
    }

    /// What the calling thread is at; ends this process if a run of it takes more than `cpu_seconds`, or nobody watches any more.
    pub(super) fn begin_job(&self, job: usize, cpu_seconds: u64) -> Job {
        let clock_file = Path::new("/proc").join(fs::read_link("/proc/thread-self").unwrap_or_default());
        let clock_file = clock_file.join("schedstat");
        let clock: &'static Mutex<Option<u64>> = Box::leak(Box::default());
        let (read, parent) = (clock_file.clone(), std::os::unix::process::parent_id());
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                let began = *clock.lock().unwrap_or_else(PoisonError::into_inner);
                let is_over =
                    |(began, used): (u64, u64)| used.saturating_sub(began) > cpu_seconds * 1_000_000_000;
                if began.zip(cpu_ns(&read)).is_some_and(is_over)
                    || std::os::unix::process::parent_id() != parent
                {
                    std::process::exit(LOOPS);
                }
            }
        });
        Job { note: self.folder.join(format!("job-{job}")), clock, clock_file }
    }
}

/// A thread of the watched process.
#[derive(Debug)]
pub(super) struct Job {
    note: PathBuf,
    clock: &'static Mutex<Option<u64>>,
    clock_file: PathBuf,
}

impl Job {
    /// Notes the plan that is about to be run, or that none is, and what the runs before it have added up to.
    pub(super) fn note(&self, index: Option<u64>, sum: &TortureReport) {
        let began = index.and_then(|_| cpu_ns(&self.clock_file));
        *self.clock.lock().unwrap_or_else(PoisonError::into_inner) = began;
        // What can't be noted can't be told.
        let _ = fs::write(&self.note, note(index.unwrap_or(u64::MAX), sum));
    }
}

fn note(index: u64, sum: &TortureReport) -> String {
    sum.numbers().iter().fold(index.to_string(), |text, number| text + " " + &number.to_string())
}

fn read_note(path: &Path) -> Option<(u64, TortureReport)> {
    let text = fs::read_to_string(path).ok()?;
    let numbers: Option<Vec<u64>> = text.split(' ').map(|number| number.parse().ok()).collect();
    let numbers = numbers?;
    let (index, numbers) = numbers.split_first()?;
    Some((*index, TortureReport::from_numbers(numbers)?))
}

/// Processor time of a thread, in nanoseconds.
fn cpu_ns(clock_file: &Path) -> Option<u64> {
    fs::read_to_string(clock_file).ok()?.split(' ').next()?.parse().ok()
}

/// Runs the campaign in processes of its own until one ends by itself, and returns how. `command` makes such a process; `tell` is told of
/// each plan that ended one.
///
/// # Errors
/// A process can't be started, or died of none of the plans that it had begun.
pub(super) fn watch(
    command: impl Fn() -> Command,
    mut tell: impl FnMut(&Died) -> Result<(), Failure>,
) -> Result<i32, Failure> {
    let trouble = |error: std::io::Error| Failure::run(anyhow::anyhow!("a temporary folder: {error}"));
    let folder = tempfile::tempdir().map_err(trouble)?;
    let notes_in = folder.path().join("notes");
    let mut before = Before::default();
    loop {
        let _ = fs::remove_dir_all(&notes_in);
        fs::create_dir(&notes_in).map_err(trouble)?;
        let lines = before.died.iter().map(|Died { index, how }| format!("{index} {how}\n"));
        fs::write(notes_in.join(DIED), lines.collect::<String>()).map_err(trouble)?;
        fs::write(notes_in.join(BEFORE), note(before.next, &before.sum)).map_err(trouble)?;
        let status = run(command().env(FOLDER, &notes_in))?;
        if let Some(code) = ended_by_itself(status) {
            return Ok(code);
        }
        let jobs = (0..).map_while(|job| read_note(&notes_in.join(format!("job-{job}"))));
        let (indices, sums): (Vec<_>, Vec<_>) = jobs.unzip();
        for sum in &sums {
            before.sum.add(sum);
        }
        let begun: Vec<u64> = indices.into_iter().filter(|index| *index != u64::MAX).collect();
        let known = before.died.len();
        for &index in &begun {
            let mut alone = command();
            alone.env(FOLDER, folder.path()).env(ONLY, index.to_string());
            let status = if begun.len() == 1 {
                status
            } else {
                run(alone.stdout(Stdio::null()).stderr(Stdio::null()))?
            };
            match ended_by_itself(status) {
                None => {
                    let is_slow = status.code() == Some(LOOPS);
                    let how = if is_slow { "takes too much CPU time".to_owned() } else { status.to_string() };
                    before.died.push(Died { index, how });
                    tell(&before.died[before.died.len() - 1])?;
                }
                Some(0) => {}
                // It has failed, and says so.
                Some(_) => {
                    let status = run(alone.stdout(Stdio::inherit()).stderr(Stdio::inherit()))?;
                    return Ok(status.code().unwrap_or(1));
                }
            }
        }
        if before.died.len() == known {
            return Err(Failure::run(anyhow::anyhow!("the campaign ended with {status}, but no plan does")));
        }
        before.next = begun.iter().max().map_or(before.next, |last| last + 1);
    }
}

/// With which number a process ended, unless that was the end of its run, too.
fn ended_by_itself(status: ExitStatus) -> Option<i32> {
    status.code().filter(|code| *code != LOOPS)
}

/// The process under way, to which signals go.
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Passes signals that are to stop this process on to the one that is watched.
pub(super) fn pass_signals_on() {
    let handler = || {
        let child = i32::try_from(CHILD.load(Ordering::Relaxed)).ok();
        if let Some(child) = child.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(child, rustix::process::Signal::TERM);
        }
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!(%error, "no handler for interrupts can be set");
    }
}

fn run(command: &mut Command) -> Result<ExitStatus, Failure> {
    let trouble = |error: std::io::Error| Failure::run(anyhow::anyhow!("the campaign's process: {error}"));
    let mut child = command.process_group(0).spawn().map_err(trouble)?;
    CHILD.store(child.id(), Ordering::Relaxed);
    let status = child.wait().map_err(trouble);
    CHILD.store(0, Ordering::Relaxed);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in place of the campaign: plan 3 of it ends the process as `ends` says, the others are run.
    fn campaign(ends: &str) -> Command {
        let zeros = " 0".repeat(TortureReport::default().numbers().len() - 1);
        let script = format!(
            r#"cd "${FOLDER}"
            for plan in ${{{ONLY}:-0 1 2 3 4 5}}; do
                test -e before && test "$plan" -lt "$(cut -d' ' -f1 before)" && continue
                echo "$plan $plan{zeros}" >job-0.new; tr -d '\n' <job-0.new >job-0
                if test "$plan" = 3; then {ends}; fi
            done
            grep -q '^3 ' died || exit 9
            test "$(cut -d' ' -f2 before)" = 3 || exit 8"#
        );
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]);
        command
    }

    #[test]
    fn what_ends_the_process_is_told_and_the_rest_is_run() {
        for (ends, told) in
            [("kill -ABRT $$", "signal: 6"), ("kill -SEGV $$", "signal: 11"), ("exit 86", "CPU time")]
        {
            let mut died = Vec::new();
            let note = |it: &Died| {
                died.push(it.clone());
                Ok(())
            };
            let code = watch(|| campaign(ends), note).expect("shells can be run");
            assert_eq!((code, died.len(), died[0].index), (0, 1, 3), "{died:?}");
            assert!(died[0].how.contains(told), "{died:?}");
        }
    }

    #[test]
    fn a_run_without_end_ends_the_process() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        if let Some(watched) = Watched::of_environment() {
            let job = watched.begin_job(0, 1);
            job.note(Some(7), &TortureReport::default());
            loop {
                std::hint::spin_loop();
            }
        }
        let mut died = Vec::new();
        let looping = || {
            let mut command = Command::new(std::env::current_exe().expect("a test is a program"));
            // Once: what goes on after it has nothing to run.
            let name = "a_run_without_end_ends_the_process";
            let mark = folder.path().join("was-run");
            if mark.exists() {
                return Command::new("true");
            }
            fs::write(mark, "").expect("files can be written");
            command.args([name, "--nocapture"]).stdout(Stdio::null());
            command
        };
        let note = |it: &Died| {
            died.push(it.clone());
            Ok(())
        };
        assert_eq!(watch(looping, note).expect("programs can be run"), 0);
        assert_eq!((died.len(), died[0].index), (1, 7));
    }
}
