//! `raidlab study`: runs a study file, prints its table and recommendation, writes its report.

use super::compare_paper::ComparedPaper;
use crate::failure::{Exit, Failure};
use crate::inputs::{CatalogArgs, Numbers, window};
use crate::interrupt::{RUNS_ARE_KEPT, cancel_flag};
use crate::output::{Output, print, remark};
use crate::progress::Progress;
use crate::verbs::keep::store_failure;
use crate::verbs::report::write_report;
use crate::whole_file::check_writable;
use raidlab_advisor::{ComparedTable, Verdict, verdicts};
use raidlab_report::StudyReport;
use raidlab_store::Store;
use raidlab_study::{RunOptions, Study, StudyChanges, StudyOutcome, describe, run_study};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_worlds::sweep;
use std::path::PathBuf;

/// Arguments of `raidlab study`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The study file (TOML)
    file: PathBuf,
    /// Run on this storage instead of the file's: folders, where test files are laid out and members of arrays are made in
    /// turn, or files and devices that are there; may be repeated
    #[arg(long, value_name = "PATH")]
    target: Vec<PathBuf>,
    /// Allow writing over the data of targets that are there: repeat their names
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", requires = "target")]
    destroy_data: Vec<String>,
    /// Size of test files and of members instead of the file's
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteCount>,
    /// Requests in flight on real storage instead of the file's: a number, a list 1,8,64 or a range 1..64
    #[arg(long, value_parser = sweep::iodepths, value_name = "N,...")]
    iodepth: Option<Numbers>,
    /// Time before each measured window on real storage instead of the file's
    #[arg(long, value_name = "TIME")]
    ramp: Option<NanoSpan>,
    /// Length of each measured window on real storage instead of the file's
    #[arg(long, value_parser = window, value_name = "TIME")]
    run: Option<NanoSpan>,
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
    #[command(flatten)]
    catalog: CatalogArgs,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let catalog = args.catalog.load()?;
    let study = Study::read(&args.file, &catalog).map_err(Failure::input)?;
    let changed = |reason| Failure::input(anyhow::anyhow!("{}: {reason}", args.file.display()));
    let study = study.changed(&args.changes()).map_err(changed)?;
    if let Some(report) = &args.report {
        check_writable(report)?;
    }
    let mut store = Store::open(&args.db).map_err(store_failure)?;
    let mut options = RunOptions { keep: args.keep, ..RunOptions::default() };
    options.threads = args.threads.unwrap_or(options.threads);
    let cancel = cancel_flag(RUNS_ARE_KEPT);
    let mut progress = Progress::start();
    let ran = run_study(&study, &catalog, options, &mut store, &mut progress, &cancel);
    let took = progress.end();
    let outcome = ran.map_err(|error| {
        let failure = if error.is_input() { Failure::input(error) } else { Failure::run(error) };
        failure.with_hint(format!("runs finished before are in {}", args.db.display()))
    })?;
    remark(format_args!(
        "{} of {} runs finished in {:.0} s; they are study run {} in {}",
        outcome.results.len(),
        outcome.planned,
        took.as_secs_f64(),
        outcome.study_run.0,
        args.db.display()
    ));
    let verdicts = verdicts(&outcome.results);
    let paper = study.compare_paper.as_deref().map(ComparedPaper::find).transpose()?;
    let tables = paper.map_or_else(Vec::new, |paper| paper.tables(&outcome.results));
    let report = compose(&study, &outcome, &verdicts, &tables);
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

impl Args {
    fn changes(&self) -> StudyChanges {
        StudyChanges {
            targets: self.target.clone(),
            destroy_data: self.destroy_data.clone(),
            size: self.size,
            iodepths: self.iodepth.clone().unwrap_or_default(),
            ramp: self.ramp,
            run: self.run,
        }
    }
}

fn compose<'a>(
    study: &'a Study,
    outcome: &'a StudyOutcome,
    verdicts: &'a [Verdict],
    compared: &'a [ComparedTable],
) -> StudyReport<'a> {
    StudyReport {
        title: &study.title,
        question: &study.question,
        method: describe::method(study),
        setup: describe::setup(&outcome.environment),
        runs: &outcome.results,
        verdicts,
        warnings: describe::warnings(outcome),
        notes: describe::notes(study),
        compared,
        iodepth: None,
        axes: None,
    }
}
