//! `raidlab torture`: the controller under load and faults, with every byte checked, one seed after another.
//!
//! Each plan is a separate run, so threads share only the next one and the sums; the digest of a campaign does not
//! depend on their number. The first failure ends the campaign: its plan is shrunk, shown, and stored in a file to run
//! again, since a seed gives another plan when the drawing of plans changes. A plan that ends the process or does not end is stored as
//! it is, and the campaign goes on (`watched.rs`).

mod watched;

use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer, remark};
use crate::progress::Progress;
use crate::schema::Form;
use crate::whole_file::write_whole;
use clap::ValueEnum;
use raidlab_raid::LevelVariant;
use raidlab_studio::quoted;
use raidlab_torture::{
    Fault, Shrunk, TortureMode, TorturePlan, TortureReport, read_plans, shrink, write_plans,
};
use raidlab_worlds::read_text;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use watched::{Before, Died, Watched};

/// How often progress is shown.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Arguments of `raidlab torture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The first seed; it decides the array, the load and the faults
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Host requests of each seed
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    ops: u64,
    /// Seeds to run, counted up from the first
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Go on with further seeds for so long, whatever their number
    #[arg(long, value_name = "N", conflicts_with = "seeds", value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Faults no worse than what the level survives, or worse
    #[arg(long, value_enum, default_value_t = Mode::Bounded)]
    mode: Mode,
    /// Seeds to run at once [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZero<usize>>,
    /// CPU time of one run; a plan that takes more is kept, and counts as a failure
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    run_seconds: u64,
    /// Which arrays have block checksums, and devices with silent corruption: changed bytes, lost and misplaced writes
    /// [default: what each seed draws, one in five]
    #[arg(long, value_enum)]
    checksums: Option<Checksums>,
    /// Only arrays of this level
    #[arg(long)]
    level: Option<LevelVariant>,
    /// Run the plans of this file, which a failure left behind, instead of seeds
    #[arg(long, value_name = "FILE.toml",
        conflicts_with_all = ["seed", "ops", "seeds", "minutes", "mode", "checksums", "level"])]
    plan: Option<PathBuf>,
    /// Folder for the plan of a failure, cut down to what is needed to see it again
    #[arg(long, value_name = "DIR", default_value = ".")]
    save_plans: PathBuf,
}

/// Faults, and what must hold.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// No more goes wrong than the level survives: no request may fail
    Bounded,
    /// More goes wrong than the level survives: requests may fail, but nothing may be wrong
    Beyond,
}

/// Arrays with block checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Checksums {
    /// All arrays have them
    All,
    /// No array has them
    None,
}

impl From<Mode> for TortureMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Bounded => Self::Bounded,
            Mode::Beyond => Self::Beyond,
        }
    }
}

/// What the threads of a campaign share.
struct Campaign<'a> {
    args: &'a Args,
    /// Plans to run in place of seeds.
    plans: Option<Vec<TorturePlan>>,
    until: Option<Instant>,
    next: AtomicU64,
    stop: &'a AtomicBool,
    done: AtomicBool,
    sum: Mutex<TortureReport>,
    /// The first plan that failed: its number, itself, and how.
    failed: Mutex<Option<(u64, TorturePlan, raidlab_torture::Failure)>>,
    /// Notes what is begun.
    watched: Watched,
    /// The only plan to run.
    only: Option<u64>,
}

/// A failure made small, and the file that its plan was written to.
struct Found {
    shrunk: Shrunk,
    saved: Result<PathBuf, Failure>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let plans = args.plan.as_deref().map(read).transpose()?;
    drawn(args, args.seed)?;
    if !args.save_plans.is_dir() {
        let error = anyhow::anyhow!("{} is no folder", args.save_plans.display());
        return Err(Failure::input(error).with_hint("--save-plans takes a folder that is there"));
    }
    let Some(watched) = Watched::of_environment() else { return watch(args, plans.as_deref()) };
    let Before { next, sum, died } = watched.before();
    let processors = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let jobs = args.jobs.unwrap_or_else(processors).get();
    let cancelled = cancel_flag("stopping after the runs that are under way (once more to stop at once)");
    let start = Instant::now();
    let campaign = Campaign {
        args,
        plans,
        until: args.minutes.map(|minutes| start + Duration::from_secs(60 * minutes)),
        next: AtomicU64::new(Watched::only().unwrap_or(next)),
        stop: &cancelled,
        done: AtomicBool::new(false),
        sum: Mutex::new(sum),
        failed: Mutex::default(),
        watched,
        only: Watched::only(),
    };
    let seed_of = |index| campaign.plan(index).map_or(0, |plan| plan.seed);
    let died: Vec<_> = died.into_iter().map(|Died { index, how }| (seed_of(index), how)).collect();
    // A panic of the controller is caught, counted as a failure and shown with its plan.
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs)
            .map(|job| {
                scope.spawn({
                    let campaign = &campaign;
                    move || campaign.work(job)
                })
            })
            .collect();
        campaign.watch(start, || workers.iter().all(std::thread::ScopedJoinHandle::is_finished));
    });
    let seconds = start.elapsed().as_secs_f64();
    let failed = campaign.failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    let shrunk = failed.map(|(_, plan, failure)| shrink(&plan, &failure));
    let _ = std::panic::take_hook();
    let found = shrunk.map(|shrunk| Found { saved: save(&args.save_plans, &shrunk), shrunk });
    let sum = campaign.sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    if output.is_json() {
        print_answer(&CampaignAnswer::of(&sum, seconds, found.as_ref(), &died))?;
    } else {
        print(&as_text(&sum, seconds, found.as_ref(), &died))?;
    }
    match (found, cancelled.load(Ordering::Relaxed)) {
        (Some(found), _) => found.saved.map(|_| Exit::RunFailed),
        (None, true) => Ok(Exit::Interrupted),
        (None, false) if died.is_empty() => Ok(Exit::Done),
        (None, false) => Ok(Exit::RunFailed),
    }
}

/// Has the campaign run by a process that this one watches. Plans that end it are stored as they are.
fn watch(args: &Args, plans: Option<&[TorturePlan]>) -> Result<Exit, Failure> {
    let program =
        std::env::current_exe().map_err(|error| Failure::run(anyhow::anyhow!("this program: {error}")))?;
    let command = || {
        let mut command = std::process::Command::new(&program);
        command.args(std::env::args_os().skip(1));
        command
    };
    watched::pass_signals_on();
    let code = watched::watch(command, |Died { index, how }| {
        let plan = match plans {
            Some(plans) => plans[*index as usize].clone(),
            None => drawn(args, args.seed.wrapping_add(*index))?,
        };
        let path = store(&args.save_plans, &plan, &format!("the run {how}"))?;
        remark(format_args!("seed {}: {how}; the plan is kept in {}", plan.seed, path.display()));
        Ok(())
    })?;
    Ok(match code {
        0 => Exit::Done,
        2 => Exit::BadInput,
        130 => Exit::Interrupted,
        _ => Exit::RunFailed,
    })
}

/// The plans of a file.
fn read(path: &Path) -> Result<Vec<TorturePlan>, Failure> {
    let text = read_text(path).map_err(Failure::input)?;
    read_plans(&path.to_string_lossy(), &text).map_err(Failure::input)
}

/// The plan of a seed.
fn drawn(args: &Args, seed: u64) -> Result<TorturePlan, Failure> {
    let Args { ops, mode, level, checksums, .. } = *args;
    let drawn = match checksums {
        Some(checksums) => TorturePlan::draw_with(checksums == Checksums::All, seed, ops, mode.into(), level),
        None => TorturePlan::draw(seed, ops, mode.into(), level),
    };
    drawn.map_err(Failure::input)
}

/// Writes a failing plan into `folder`, to a file that is not there yet.
fn save(folder: &Path, shrunk: &Shrunk) -> Result<PathBuf, Failure> {
    let Shrunk { plan, failure } = shrunk;
    store(folder, plan, &format!("{}: {}", failure.violation.checker(), one_line(failure)))
}

/// Writes a plan into `folder`, to a file that is not there yet, behind a remark.
fn store(folder: &Path, plan: &TorturePlan, remark: &str) -> Result<PathBuf, Failure> {
    let text = format!("# {remark}\n{}", write_plans(std::slice::from_ref(plan)));
    let stem = format!("{}-{}", plan.seed, plan.mode.name());
    let names = (1..).map(|nth: u32| if nth == 1 { stem.clone() } else { format!("{stem}-{nth}") });
    let mut paths = names.map(|name| folder.join(name + ".toml"));
    let path = paths.find(|path| !path.exists()).expect("one of all numbers is free");
    write_whole(&path, text)?;
    Ok(path)
}

fn one_line(failure: &raidlab_torture::Failure) -> String {
    failure.violation.to_string().replace(char::is_control, " ")
}

impl Campaign<'_> {
    /// Runs seeds until there are no more.
    fn work(&self, job: usize) {
        let job = self.watched.begin_job(job, self.args.run_seconds);
        let mut own = TortureReport::default();
        self.run_plans(&job, &mut own);
        job.note(None, &own);
    }

    fn run_plans(&self, job: &watched::Job, own: &mut TortureReport) {
        while !self.stop.load(Ordering::Relaxed) && !self.done.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let is_over = match (self.only, self.until) {
                (Some(only), _) => index > only,
                (None, Some(until)) => Instant::now() >= until,
                (None, None) => index >= self.count(),
            };
            if is_over {
                return;
            }
            // The level was tried before the campaign began.
            let Some(plan) = self.plan(index) else { return };
            job.note(Some(index), own);
            let result = plan.run();
            if let Ok(report) = &result {
                own.add(report);
            }
            match result {
                Ok(report) => self.sum.lock().unwrap_or_else(PoisonError::into_inner).add(&report),
                Err(failure) => {
                    self.done.store(true, Ordering::Relaxed);
                    let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                    if failed.as_ref().is_none_or(|(first, ..)| index < *first) {
                        *failed = Some((index, plan, failure));
                    }
                }
            }
        }
    }

    /// Plans to run; with a time instead, there is always one more.
    fn count(&self) -> u64 {
        self.plans.as_ref().map_or(self.args.seeds, |plans| plans.len() as u64)
    }

    fn plan(&self, index: u64) -> Option<TorturePlan> {
        match &self.plans {
            Some(plans) => plans.get(index as usize).cloned(),
            None => drawn(self.args, self.args.seed.wrapping_add(index)).ok(),
        }
    }

    /// Shows how far the campaign is, until `is_finished`.
    fn watch(&self, start: Instant, is_finished: impl Fn() -> bool) {
        let mut progress = Progress::start();
        let mut shown = start;
        while !is_finished() {
            std::thread::sleep(Duration::from_millis(2));
            if shown.elapsed() < SHOW_EVERY {
                continue;
            }
            shown = Instant::now();
            let sum = *self.sum.lock().unwrap_or_else(PoisonError::into_inner);
            let share = match self.until {
                Some(until) => start.elapsed().as_secs_f64() / (until - start).as_secs_f64().max(1.0),
                None => sum.seeds as f64 / self.count() as f64,
            };
            let rate = sum.host_ops as f64 / start.elapsed().as_secs_f64();
            let text = format!("{} seeds, {} host requests, {rate:.0} a second", sum.seeds, sum.host_ops);
            progress.show(&text, share);
        }
        progress.end();
    }
}

/// The command that shows a failure again.
fn replay_command(saved: &Path) -> String {
    format!("raidlab torture --plan={}", quoted(&saved.to_string_lossy()))
}

fn as_text(sum: &TortureReport, seconds: f64, found: Option<&Found>, died: &[(u64, String)]) -> String {
    let rate = sum.host_ops as f64 / seconds.max(1e-9);
    let rows = [
        ("seeds", sum.seeds.to_string()),
        ("host requests", sum.host_ops.to_string()),
        ("host requests/s", format!("{rate:.0}")),
        ("member I/Os", sum.member_ios.to_string()),
        ("restarts", sum.restarts.to_string()),
        ("refused starts", sum.refused.to_string()),
        ("data-lost errors", sum.data_lost_errors.to_string()),
        ("array-failed errors", sum.array_failed_errors.to_string()),
        ("violations", u32::from(found.is_some()).to_string()),
        ("ended the process", died.len().to_string()),
        ("digest", format!("{:016x}", sum.digest)),
    ];
    let mut text =
        rows.iter().fold(String::new(), |text, (name, value)| text + &format!("{name:24}{value}\n"));
    text += "faults injected\n";
    for (fault, count) in Fault::ALL.iter().zip(sum.faults) {
        let _ = writeln!(text, "  {:22}{count}", fault.name());
    }
    for (seed, how) in died {
        let _ = writeln!(text, "seed {seed} ended the process: {how}");
    }
    if let Some(Found { shrunk: Shrunk { plan, failure }, saved }) = found {
        let _ = write!(text, "\n{failure}\n{}", write_plans(std::slice::from_ref(plan)));
        if let Ok(path) = saved {
            let _ = write!(
                text,
                "\nThe plan is kept in {}\nSee it again: {}\n",
                path.display(),
                replay_command(path)
            );
        }
    }
    text
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<CampaignAnswer<'_>>();

/// What a campaign came to, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct CampaignAnswer<'a> {
    seeds: u64,
    host_ops: u64,
    host_ops_per_sec: f64,
    member_ios: u64,
    restarts: u64,
    refused_starts: u64,
    data_lost_errors: u64,
    array_failed_errors: u64,
    stripes_unchecked: u64,
    faults: BTreeMap<&'static str, u64>,
    digest: String,
    died: Vec<DiedSeed<'a>>,
    violations: u32,
    violation: Option<FoundViolation>,
}

/// A seed whose run ended the process, or did not end.
#[derive(Serialize, schemars::JsonSchema)]
struct DiedSeed<'a> {
    seed: u64,
    how: &'a str,
}

#[derive(Serialize, schemars::JsonSchema)]
struct FoundViolation {
    seed: u64,
    ops: u64,
    checker: &'static str,
    text: String,
    plan: String,
    plan_file: Option<String>,
    command: Option<String>,
}

impl<'a> CampaignAnswer<'a> {
    fn of(sum: &TortureReport, seconds: f64, found: Option<&Found>, died: &'a [(u64, String)]) -> Self {
        Self {
            seeds: sum.seeds,
            host_ops: sum.host_ops,
            host_ops_per_sec: sum.host_ops as f64 / seconds.max(1e-9),
            member_ios: sum.member_ios,
            restarts: sum.restarts,
            refused_starts: sum.refused,
            data_lost_errors: sum.data_lost_errors,
            array_failed_errors: sum.array_failed_errors,
            stripes_unchecked: sum.stripes_unchecked,
            faults: Fault::ALL.into_iter().map(Fault::name).zip(sum.faults).collect(),
            digest: format!("{:016x}", sum.digest),
            died: died.iter().map(|(seed, how)| DiedSeed { seed: *seed, how }).collect(),
            violations: u32::from(found.is_some()),
            violation: found.map(FoundViolation::of),
        }
    }
}

impl FoundViolation {
    fn of(Found { shrunk: Shrunk { plan, failure }, saved }: &Found) -> Self {
        let file = saved.as_ref().ok();
        Self {
            seed: plan.seed,
            ops: plan.ops,
            checker: failure.violation.checker(),
            text: failure.violation.to_string(),
            plan: write_plans(std::slice::from_ref(plan)),
            plan_file: file.map(|path| path.display().to_string()),
            command: file.map(|path| replay_command(path)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_torture::Violation;

    fn found(folder: &Path) -> Found {
        let plan = TorturePlan::draw(33, 300, TortureMode::Bounded, None).expect("any level");
        let violation = Box::new(Violation::Panicked { message: "two\nlines".into() });
        let failure = raidlab_torture::Failure { seed: 33, ops: 7, step: 9, violation, trace: Vec::new() };
        let shrunk = Shrunk { plan, failure };
        Found { saved: save(folder, &shrunk), shrunk }
    }

    #[test]
    fn a_failure_leaves_its_plan_and_the_command_that_runs_it() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let in_folder = folder.path().join("it's here");
        std::fs::create_dir(&in_folder).expect("a folder can be made");
        for name in ["33-bounded.toml", "33-bounded-2.toml"] {
            let found = found(&in_folder);
            let path = in_folder.join(name);
            assert_eq!(found.saved.as_ref().expect("it can be written"), &path, "none is written over");
            assert_eq!(read(&path).expect("it can be read").first(), Some(&found.shrunk.plan));
            let text = as_text(&TortureReport::default(), 1.0, Some(&found), &[]);
            let command =
                format!("raidlab torture --plan='{}'", path.display().to_string().replace('\'', r"'\''"));
            assert!(
                text.contains(&format!("kept in {}\nSee it again: {command}\n", path.display())),
                "{text}"
            );
            let answer = CampaignAnswer::of(&TortureReport::default(), 1.0, Some(&found), &[]);
            let json = serde_json::to_value(&answer).expect("it can be written");
            assert_eq!(json["violation"]["command"], command);
            assert_eq!(json["violation"]["plan_file"], path.display().to_string());
        }
    }

    #[test]
    fn a_plan_that_can_not_be_written_is_shown_all_the_same() {
        let found = found(Path::new("/dev/null"));
        assert!(found.saved.is_err());
        let text = as_text(&TortureReport::default(), 1.0, Some(&found), &[]);
        assert!(text.contains("\n[[plan]]\nseed = 33\n"), "{text}");
        assert!(!text.contains("See it again"), "{text}");
    }
}
