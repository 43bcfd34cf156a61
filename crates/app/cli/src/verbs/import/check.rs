//! `raidlab import fio --check`: the requests of an imported job file beside those of the real fio.

use super::{FioArgs, refused, surroundings};
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer};
use crate::schema::Form;
use raidlab_jobs::{Checked, FioTrial, TrialLog, fio_trial};
use raidlab_units::counted;
use serde::Serialize;
use std::path::Path;
use std::process::Command;

/// How long fio may take for a few thousand requests that reach no device.
const FIO_SECONDS_MAX: &str = "60";

/// Has fio make the requests of `text`, and compares them.
pub(super) fn run(args: &FioArgs, name: &str, text: &str, output: &Output) -> Result<Exit, Failure> {
    let failed = |error: std::io::Error| Failure::run(error).context("a folder for fio's logs can't be made");
    let folder = tempfile::Builder::new().prefix("raidlab-fio").tempdir().map_err(failed)?;
    let logs = folder.path().to_string_lossy().into_owned();
    let trial = surroundings(&args.job.file, &args.env, |around| fio_trial(name, text, around, &logs));
    let trial = trial.map_err(refused)?;
    let version = run_fio(args, &trial, folder.path())?;
    let read =
        |index: usize| TrialLog { text: std::fs::read_to_string(folder.path().join(index.to_string())).ok() };
    let logs: Vec<TrialLog> = (0..trial.logs()).map(read).collect();
    let checked = trial.compare(&logs);
    let agrees = checked.iter().all(|it| it.differs.is_none());
    if output.is_json() {
        let jobs = checked.iter().map(JobAnswer::of).collect();
        print_answer(&Answer { fio: &version, agrees, jobs })?;
    } else {
        print(&as_text(&version, &checked))?;
    }
    Ok(if agrees { Exit::Done } else { Exit::BoundMissed })
}

/// Runs the trial; the version of fio.
fn run_fio(args: &FioArgs, trial: &FioTrial, folder: &Path) -> Result<String, Failure> {
    let missing = |error: std::io::Error| {
        Failure::run(error)
            .context("fio can't be run")
            .with_hint("--check compares with a real fio: install it, or leave --check out")
    };
    let version = Command::new("fio").arg("--version").output().map_err(missing)?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let job = folder.join("job.fio");
    std::fs::write(&job, &trial.job_file)
        .map_err(|error| Failure::run(error).context("fio's job file can't be written"))?;
    // It ends fio even where nobody waits for it any more.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", FIO_SECONDS_MAX, "fio"])
        .arg(&job)
        .arg("--output-format=terse")
        .current_dir(folder);
    command.envs(args.env.iter().map(|(name, value)| (name, value)));
    let ended = command.output().map_err(missing)?;
    if ended.status.success() {
        return Ok(version);
    }
    if matches!(ended.status.code(), None | Some(124 | 137)) {
        let problem =
            anyhow::anyhow!("{version} did not end in {FIO_SECONDS_MAX} s on {}", args.job.file.display());
        return Err(
            Failure::run(problem).with_hint("run the job with fio alone: some values keep it busy for ever")
        );
    }
    let told = String::from_utf8_lossy(&ended.stderr);
    let problem =
        anyhow::anyhow!("{version} refuses {}: {}", args.job.file.display(), told.trim().replace('\n', "; "));
    Err(Failure::input(problem).with_hint("mend the job file until fio runs it"))
}

fn as_text(version: &str, checked: &[Checked]) -> String {
    let line = |it: &Checked| match &it.differs {
        None if it.requests < it.requests_of_job => {
            let (job, found, all) = (&it.job, it.requests, counted(it.requests_of_job, "request"));
            format!("{job}: the first {found} of up to {all} as {version} makes them\n")
        }
        None => format!("{}: {} as {version} makes them\n", it.job, counted(it.requests, "request")),
        Some(differs) => format!("{differs}\n"),
    };
    checked.iter().map(line).collect()
}

/// The form of its answer.
pub(in crate::verbs) const FORM: Form = Form::whole::<Answer<'_>>();

/// What was found, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Answer<'a> {
    fio: &'a str,
    agrees: bool,
    jobs: Vec<JobAnswer<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct JobAnswer<'a> {
    job: &'a str,
    clone: u32,
    requests: u64,
    requests_of_job: u64,
    differs: Option<&'a str>,
}

impl<'a> JobAnswer<'a> {
    fn of(it: &'a Checked) -> Self {
        let Checked { clone, requests, requests_of_job, .. } = *it;
        Self { job: &it.job, clone, requests, requests_of_job, differs: it.differs.as_deref() }
    }
}
