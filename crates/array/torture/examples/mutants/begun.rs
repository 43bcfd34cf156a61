//! What a run ended without a word: each thread notes which plan it is about to run, so that the process that watches this one can tell
//! which plan looped, overflowed the stack or aborted.
//!
//! ```text
//! mutants ─► mutants, watched ─► a file for each thread: defect, plan
//!    ▲              │ a thread ends the process if a run takes too much CPU time
//!    └── goes on with the next defect
//! ```

use raidlab_torture::{TorturePlan, write_plans};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Set for the process that is watched: where it notes what it begins.
const FOLDER: &str = "RAIDLAB_MUTANTS_BEGUN";
/// Set for it, too: defects that are done with.
const DONE: &str = "RAIDLAB_MUTANTS_DONE";
/// CPU time of one run at most. Most take less than a tenth of a second.
const RUN_SECONDS_MAX: u64 = 10;
/// How the watched process ends then.
const LOOPS: i32 = 86;

/// What one thread has begun.
pub(crate) struct Begun {
    file: PathBuf,
    /// Its latest run, and what the thread had used of the processor before.
    clock: &'static Mutex<(u64, String)>,
}

impl Begun {
    /// For a thread, which calls this itself.
    pub(crate) fn new(job: usize) -> Self {
        let folder = std::env::var(FOLDER).unwrap_or_default();
        let own = std::fs::read_link("/proc/thread-self").map(|path| path.to_string_lossy().into_owned());
        let task = format!("/proc/{}/schedstat", own.unwrap_or_default());
        let clock: &'static Mutex<(u64, String)> = Box::leak(Box::new(Mutex::new((u64::MAX, task))));
        std::thread::spawn(|| end_loops(clock));
        Self { file: PathBuf::from(folder).join(job.to_string()), clock }
    }

    /// Notes that `plan` is about to be run.
    pub(crate) fn note(&self, defect: &str, plan: impl FnOnce() -> TorturePlan) {
        self.clock.lock().expect("nothing panics with it").0 = crate::hunt::cpu_ns();
        // What can't be noted can't be told.
        let _ = std::fs::write(&self.file, format!("# {defect}\n{}", write_plans(&[plan()])));
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.clock.lock().expect("nothing panics with it").0 = u64::MAX;
        let _ = std::fs::remove_file(&self.file);
    }
}

/// Ends this process when a thread has been at one run for too long.
fn end_loops(clock: &Mutex<(u64, String)>) {
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let (began, task) = &*clock.lock().expect("nothing panics with it");
        let used =
            std::fs::read_to_string(task).ok().and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        if used.is_none_or(|used| used.saturating_sub(*began) > RUN_SECONDS_MAX * 1_000_000_000) {
            std::process::exit(LOOPS);
        }
    }
}

/// True in the process that is watched.
pub(crate) fn is_watched() -> bool {
    std::env::var_os(FOLDER).is_some()
}

/// True for a defect that is done with.
pub(crate) fn is_done(name: &str) -> bool {
    std::env::var(DONE).is_ok_and(|done| done.split(' ').any(|it| it == name))
}

/// Runs this program once more and watches it; if it dies, tells of what, and runs it again without the defect that it died of.
/// `is_found` says whether that counts as found.
pub(crate) fn watch(is_found: impl Fn(&str) -> bool) -> Result<ExitCode, String> {
    let folder = std::env::temp_dir().join(format!("raidlab-mutants-{}", std::process::id()));
    let trouble = |error: std::io::Error| format!("{}: {error}", folder.display());
    let (mut done, mut code) = (Vec::<String>::new(), ExitCode::SUCCESS);
    loop {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(trouble)?;
        let program = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let mut command = Command::new(program);
        command.args(std::env::args().skip(1)).env(FOLDER, &folder).env(DONE, done.join(" "));
        let mut child =
            command.stdout(Stdio::piped()).spawn().map_err(|error| format!("this program: {error}"))?;
        let told = std::io::BufReader::new(child.stdout.take().expect("it is a pipe"));
        for line in std::io::BufRead::lines(told).map_while(Result::ok) {
            println!("{line}");
            // Each defect that is done with is told in a line of its own.
            done.extend(line.split(' ').next().filter(|name| !name.is_empty()).map(str::to_owned));
        }
        let status = child.wait().map_err(|error| format!("this program: {error}"))?;
        let died = status.code().is_none_or(|code| code == LOOPS);
        if !died {
            let failed = !status.success();
            let _ = std::fs::remove_dir_all(&folder);
            return Ok(if failed { ExitCode::FAILURE } else { code });
        }
        let how = if status.code() == Some(LOOPS) {
            format!("loops: more than {RUN_SECONDS_MAX} s of CPU time for one run")
        } else {
            format!("ended the process: {status}")
        };
        let mut any = false;
        for entry in std::fs::read_dir(&folder).map_err(trouble)?.flatten() {
            let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
            let name =
                text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or("none").to_owned();
            let seed = text.lines().find(|line| line.starts_with("seed = ")).unwrap_or("seed = ?");
            let file = format!("{name}-died.toml");
            let saved = std::fs::write(&file, &text);
            println!(
                "{name:26} {how}; {seed}, the plan is in target/mutants/{file}{}",
                if saved.is_ok() { "" } else { " (not written)" }
            );
            if !is_found(&name) {
                code = ExitCode::FAILURE;
            }
            any = true;
            done.push(name);
        }
        if !any || done.iter().any(|name| name == "none") {
            return Ok(ExitCode::FAILURE);
        }
    }
}
