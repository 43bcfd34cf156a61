//! `raidlab measure`: a load on storage as it is.

use super::loads::{
    Conclusions, JudgeArgs, Keeper, Mode, ReportArgs, Stop, SweepArgs, carry_out, conclude, is_search,
};
use super::report::check_writable;
use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::Output;
use crate::progress::Progress;
use raidlab_lab::worlds::file::{FileBench, FileError};
use raidlab_lab::{Environment, Load, LoadPlan};
use raidlab_load::{LoadOptions, TargetOptions};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::RunResult;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Arguments of `raidlab measure`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A file or block device; a file that does not exist is laid out with --size
    target: PathBuf,
    #[command(flatten)]
    sweep: SweepArgs,
    /// Length of each measured window
    #[arg(long, default_value = "5s", value_name = "TIME")]
    run: NanoSpan,
    /// Time before each measured window
    #[arg(long, default_value = "1s", value_name = "TIME")]
    ramp: NanoSpan,
    /// Size of the test file to lay out where the target does not exist
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteCount>,
    /// Use the page cache instead of direct I/O
    #[arg(long)]
    buffered: bool,
    /// Allow writing over the data of this target: repeat its name
    #[arg(long, value_name = "NAME")]
    destroy_data: Option<String>,
    #[command(flatten)]
    judge: JudgeArgs,
    /// Repeat each run in rounds until the last five are steady, 25 at most (SNIA PTS); --run is the length of a round
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "find_load")]
    until: Option<Until>,
    /// First write all of the target so many times, in sequence, 128 KiB each
    #[arg(long, default_value_t = 0, value_name = "N")]
    precondition: u32,
    /// Results file; every run is in it as soon as it is finished
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    db: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
    /// Remove the test file afterwards if it was laid out by this command
    #[arg(long)]
    remove: bool,
}

/// What a run is repeated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Until {
    /// A steady state
    Steady,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let plan = args.sweep.plan(args.ramp, args.run)?;
    is_search(&args.judge)?;
    if let Some(report) = &args.report.report {
        check_writable(report)?;
    }
    let cancel = cancel_flag();
    let mut progress = Progress::start();
    let ran = measure(args, &plan, &cancel, &mut progress);
    progress.end();
    let Some((keeper, conclusions)) = ran? else { return Ok(Exit::Interrupted) };
    conclude(keeper, &conclusions, &args.judge, &args.report, output)
}

/// The finished runs and what was concluded; nothing if the user stopped before the first.
fn measure(
    args: &Args,
    plan: &LoadPlan,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<Option<(Keeper, Conclusions)>, Failure> {
    let target = TargetOptions {
        lay_out: args.size,
        direct: !args.buffered,
        may_write: args.precondition > 0 || plan.workloads.iter().any(|workload| workload.spec.writes()),
        destroy_data: args.destroy_data.clone(),
    };
    let what = args.target.display().to_string();
    let mut lay_out = |written: ByteCount, total: ByteCount| {
        progress.show(
            &format!("laying out {what}: {written} of {total}"),
            written.get() as f64 / total.get() as f64,
        );
    };
    let opened = FileBench::open(&args.target, &target, LoadOptions::default(), cancel, &mut lay_out);
    let mut bench = match opened {
        Err(error) if error.is_cancelled() => return Ok(None),
        opened => opened.map_err(|error| failure(error, args))?,
    };
    let environment = Environment::of_target(&args.target);
    let mut keeper =
        Keeper::begin(Some(&args.db), format!("measure {what}"), plan, args.sweep.seed, environment)?;
    let mode = if args.until.is_some() { Mode::UNTIL_STEADY } else { Mode::ONCE };
    let mut run = |load: &Load, label: &str, done: f64| {
        let mut tell = |fraction: f64| progress.show(label, done.max(fraction));
        match bench.run(load, cancel, &mut tell) {
            Err(error) if error.is_cancelled() => Err(Stop::Cancelled),
            ran => ran.map_err(|error| Stop::Failed(failure(error, args))),
        }
    };
    let conclusions = match precondition(args, &mut run) {
        Err(Stop::Cancelled) => return Ok(None),
        Err(Stop::Failed(failure)) => return Err(failure),
        Ok(()) => carry_out(plan, args.sweep.seed, &args.judge, &mode, &mut keeper, &mut run)?,
    };
    if args.remove {
        bench.close().map_err(Failure::run)?;
    }
    Ok(Some((keeper, conclusions)))
}

/// Writes all of the target as often as asked for, as SNIA's workload-independent preconditioning does (it asks for 2).
fn precondition(
    args: &Args,
    run: &mut dyn FnMut(&Load, &str, f64) -> Result<RunResult, Stop>,
) -> Result<(), Stop> {
    for pass in 1..=args.precondition {
        run(
            &Load::filling(args.sweep.seed),
            &format!("writing all, pass {pass} of {}", args.precondition),
            0.0,
        )?;
    }
    Ok(())
}

fn failure(error: FileError, args: &Args) -> Failure {
    if args.size.is_none() && !args.target.exists() {
        return Failure::input(error).with_hint("give --size to have a test file laid out there");
    }
    let is_refused = matches!(error, FileError::Load(raidlab_load::LoadError::Safety(_)));
    if is_refused { Failure::input(error) } else { Failure::run(error) }
}
