//! `raidlab study`: runs a study file, prints its table and recommendation, writes its report.

use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print};
use crate::progress::Progress;
use raidlab_advisor::{Verdict, verdicts};
use raidlab_hardware::Catalog;
use raidlab_lab::{RunOptions, Store, Study, StudyOutcome, describe, run_study};
use raidlab_report::StudyReport;
use std::path::{Path, PathBuf};

/// Arguments of `raidlab study`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The study file (TOML)
    file: PathBuf,
    /// Write an HTML report with charts here; it opens without a network
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Results file; every run is in it as soon as it is finished
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    db: PathBuf,
    /// Leave test files and members where they are
    #[arg(long)]
    keep: bool,
    /// Threads for simulations; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let catalog = Catalog::builtin();
    let study = Study::read(&args.file, &catalog).map_err(Failure::input)?;
    if let Some(report) = &args.report {
        check_writable(report)?;
    }
    let mut store = Store::open(&args.db)
        .map_err(|error| Failure::run(error).with_hint("name another results file with --db"))?;
    let mut options = RunOptions { keep: args.keep, ..RunOptions::default() };
    options.threads = args.threads.unwrap_or(options.threads);
    let cancel = cancel_flag();
    let mut progress = Progress::start();
    let ran = run_study(&study, &catalog, options, &mut store, &mut progress, &cancel);
    let took = progress.end();
    let outcome = ran.map_err(|error| {
        Failure::run(error).with_hint(format!("runs finished before are in {}", args.db.display()))
    })?;
    eprintln!(
        "{} of {} runs finished in {:.0} s; they are study run {} in {}",
        outcome.results.len(),
        outcome.planned,
        took.as_secs_f64(),
        outcome.study_run.0,
        args.db.display()
    );
    let verdicts = verdicts(&outcome.results);
    let report = compose(&study, &outcome, &verdicts);
    if let Some(path) = &args.report {
        write_report(path, &report)?;
    }
    if output.is_json() {
        print(&raidlab_report::json::study(&report))?;
    } else {
        print(&raidlab_report::terminal::study(&report, output.terminal()))?;
    }
    Ok(if outcome.complete { Exit::Done } else { Exit::Interrupted })
}

fn compose<'a>(study: &'a Study, outcome: &'a StudyOutcome, verdicts: &'a [Verdict]) -> StudyReport<'a> {
    StudyReport {
        title: &study.title,
        question: &study.question,
        method: describe::method(study),
        setup: describe::setup(&outcome.environment),
        runs: &outcome.results,
        verdicts,
        warnings: describe::warnings(outcome),
        notes: describe::notes(study),
        published: None,
        iodepth: None,
    }
}

/// Finds out before the study whether its report can be written after it.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let existed = path.exists();
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map_err(|error| cannot_write(path, error))?;
    if !existed {
        std::fs::remove_file(path).map_err(|error| cannot_write(path, error))?;
    }
    Ok(())
}

fn write_report(path: &Path, report: &StudyReport<'_>) -> Result<(), Failure> {
    std::fs::write(path, raidlab_report::html::study(report)).map_err(|error| cannot_write(path, error))?;
    eprintln!("report: {}", path.display());
    Ok(())
}

fn cannot_write(path: &Path, error: std::io::Error) -> Failure {
    Failure::run(error)
        .context(format!("the report {} cannot be written", path.display()))
        .with_hint("name a file in a folder that exists, that you can write to, and that has room")
}
