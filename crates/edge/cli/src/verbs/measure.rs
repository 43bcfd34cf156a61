//! `raidlab measure`: a load on storage as it is.

use super::conclude_runs;
use crate::failure::{Exit, Failure};
use crate::inputs::{Iodepths, PacingArgs, workloads};
use crate::interrupt::cancel_flag;
use crate::output::Output;
use crate::progress::Progress;
use raidlab_lab::worlds::file::{FileBench, FileError};
use raidlab_lab::{Bound, Load, LoadPlan};
use raidlab_load::{EngineKind, LoadError, LoadOptions, TargetOptions, UringOptions, place_of};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::RunResult;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Arguments of `raidlab measure`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, block devices, folders that a test file is put into, or null:SIZE for a target that does nothing; a file
    /// that does not exist is laid out with --size
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<PathBuf>,
    /// Workloads: built-in names such as `database`, or workload files (.toml)
    #[arg(long, short, value_delimiter = ',', required = true, value_name = "NAME,...")]
    workload: Vec<String>,
    /// Requests in flight on each target of each worker: a number, a list 1,8,64, or a range 1..64 that doubles
    #[arg(long, visible_alias = "queue-depth", default_value = "1", value_name = "N,...")]
    iodepth: Iodepths,
    /// When requests start.
    #[command(flatten)]
    pacing: PacingArgs,
    /// Length of each measured window
    #[arg(long, default_value = "5s", value_name = "TIME")]
    run: NanoSpan,
    /// Time before each measured window
    #[arg(long, default_value = "1s", value_name = "TIME")]
    ramp: NanoSpan,
    /// Size of the test file to lay out where a target does not exist
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteCount>,
    /// Use the page cache instead of direct I/O
    #[arg(long)]
    buffered: bool,
    /// Allow writing over the data of these targets: repeat their names
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    destroy_data: Vec<String>,
    /// How the load is made.
    #[command(flatten)]
    engine: EngineArgs,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// A bound to be kept, such as `mean<=20ms`, `p99<=100ms`, `iops>=5000` or `mb_per_s>=200`; may be repeated
    #[arg(long, value_name = "BOUND")]
    bound: Vec<Bound>,
    /// Remove the test file afterwards if it was laid out by this command
    #[arg(long)]
    remove: bool,
}

/// How the load is made.
#[derive(Debug, clap::Args)]
struct EngineArgs {
    /// How requests are made: `io_uring`, psync, buffered or null; by default what suits the target
    #[arg(long, value_name = "NAME")]
    engine: Option<EngineKind>,
    /// Threads that each have --iodepth requests in flight on each target
    #[arg(long, default_value = "1", value_name = "N")]
    workers: NonZeroU32,
    /// Processors that the threads are bound to, one each, in turn: 0,2 or 0-3
    #[arg(long, value_name = "N,...")]
    cpus: Option<Cpus>,
    /// `io_uring` polls the device for ends instead of waiting for its interrupt (IOPOLL)
    #[arg(long, visible_alias = "hipri")]
    poll: bool,
    /// `io_uring` has a thread of the kernel take the requests (SQPOLL)
    #[arg(long, visible_alias = "sqpoll")]
    kernel_thread: bool,
}

impl EngineArgs {
    fn options(&self) -> LoadOptions {
        LoadOptions {
            engine: self.engine,
            uring: UringOptions { io_poll: self.poll, kernel_thread: self.kernel_thread },
            workers: self.workers,
            cpus: self.cpus.as_ref().map_or_else(Vec::new, |cpus| cpus.0.clone()),
        }
    }
}

/// Processors by their numbers, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cpus(Vec<u32>);

impl std::str::FromStr for Cpus {
    type Err = String;

    /// Reads `3`, `0,2` or `0-3`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            |part: &str| format!("'{part}' names no processors: write 3, a list 0,2 or a range 0-3");
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let ends = (first.trim().parse::<u16>(), last.trim().parse::<u16>());
            let (Ok(first), Ok(last)) = ends else { return Err(refused(part)) };
            if first > last {
                return Err(refused(part));
            }
            cpus.extend((first..=last).map(u32::from));
        }
        Ok(Self(cpus))
    }
}

/// What was done before the end, and how it ended.
struct Measured {
    results: Vec<RunResult>,
    interrupted: bool,
    failure: Option<Failure>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let twice = (1..args.targets.len()).find(|index| args.targets[..*index].contains(&args.targets[*index]));
    if let Some(index) = twice {
        let name = args.targets[index].display();
        return Err(Failure::input(anyhow::anyhow!("'{name}' is given twice"))
            .with_hint("for more load on one target take --workers or --iodepth"));
    }
    let plan = LoadPlan {
        workloads: args.pacing.apply(workloads(&args.workload)?)?,
        iodepths: args.iodepth.0.clone(),
        ramp: args.ramp,
        run: args.run,
    };
    let cancel = cancel_flag();
    let mut progress = Progress::start();
    let measured = measure(args, &plan, &cancel, &mut progress);
    progress.end();
    let Measured { results, interrupted, failure } = measured?;
    if let Some(failure) = failure {
        if !results.is_empty() {
            conclude_runs(&results, &args.bound, interrupted, output)?;
        }
        return Err(failure);
    }
    let exit = conclude_runs(&results, &args.bound, interrupted, output)?;
    let mut failed = results.iter().flat_map(|run| &run.targets).filter_map(|target| target.error.as_ref());
    match failed.next() {
        Some(error) => Err(Failure::run(anyhow::anyhow!("{error}"))),
        None => Ok(exit),
    }
}

/// Runs what is planned as far as it goes. What was finished before a failure is kept.
fn measure(
    args: &Args,
    plan: &LoadPlan,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<Measured, Failure> {
    let mut measured = Measured { results: Vec::new(), interrupted: false, failure: None };
    let mut bench = match open(args, plan, cancel, progress) {
        Err(error) if error.is_cancelled() => return Ok(Measured { interrupted: true, ..measured }),
        opened => opened.map_err(|error| failure(error, args))?,
    };
    let loads: Vec<Load> = plan.loads(args.seed).collect();
    for load in &loads {
        let done = measured.results.len();
        let label = format!("run {} of {}: {}", done + 1, loads.len(), load.label());
        let mut tell = |fraction: f64| progress.show(&label, (done as f64 + fraction) / loads.len() as f64);
        match bench.run(load, cancel, &mut tell) {
            Ok(result) => measured.results.push(result),
            Err(error) if error.is_cancelled() => measured.interrupted = true,
            Err(error) => measured.failure = Some(failure(error, args).context(label)),
        }
        if measured.interrupted || measured.failure.is_some() {
            break;
        }
    }
    if args.remove {
        bench.close().map_err(Failure::run)?;
    }
    Ok(measured)
}

fn open(
    args: &Args,
    plan: &LoadPlan,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<FileBench, FileError> {
    let through_cache = args.engine.engine.is_some_and(EngineKind::is_through_page_cache);
    let target = TargetOptions {
        lay_out: args.size,
        direct: !args.buffered && !through_cache,
        may_write: plan.workloads.iter().any(|workload| workload.spec.writes()),
        destroy_data: None,
    };
    let mut lay_out = |name: &Path, written: ByteCount, total: ByteCount| {
        progress.show(
            &format!("laying out {}: {written} of {total}", name.display()),
            written.get() as f64 / total.get() as f64,
        );
    };
    FileBench::open(&args.targets, &target, &args.destroy_data, args.engine.options(), cancel, &mut lay_out)
}

fn failure(error: FileError, args: &Args) -> Failure {
    let is_missing =
        |name: &PathBuf| !place_of(name).exists() && !name.to_string_lossy().starts_with("null:");
    if args.size.is_none() && args.targets.iter().any(is_missing) {
        return Failure::input(error).with_hint("give --size to have a test file laid out there");
    }
    let is_refused = matches!(error, FileError::Load(LoadError::Safety(_) | LoadError::NullSize { .. }));
    if is_refused { Failure::input(error) } else { Failure::run(error) }
}
