//! `raidlab measure`: a load on storage as it is.

use super::conclude_runs;
use crate::failure::{Exit, Failure};
use crate::inputs::{Iodepths, workloads};
use crate::interrupt::cancel_flag;
use crate::output::Output;
use crate::progress::Progress;
use raidlab_lab::worlds::file::{FileBench, FileError};
use raidlab_lab::{Bound, Load, LoadPlan};
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
    /// Workloads: built-in names such as `database`, or workload files (.toml)
    #[arg(long, short, value_delimiter = ',', required = true, value_name = "NAME,...")]
    workload: Vec<String>,
    /// Requests in flight: a number, a list 1,8,64, or a range 1..64 that doubles
    #[arg(long, visible_alias = "queue-depth", default_value = "1", value_name = "N,...")]
    iodepth: Iodepths,
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

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let plan = LoadPlan {
        workloads: workloads(&args.workload)?,
        iodepths: args.iodepth.0.clone(),
        ramp: args.ramp,
        run: args.run,
    };
    let cancel = cancel_flag();
    let mut progress = Progress::start();
    let ran = measure(args, &plan, &cancel, &mut progress);
    progress.end();
    let (results, interrupted) = ran?;
    conclude_runs(&results, &args.bound, interrupted, output)
}

/// The finished runs, and whether the user stopped before all of them were.
fn measure(
    args: &Args,
    plan: &LoadPlan,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<(Vec<RunResult>, bool), Failure> {
    let target = TargetOptions {
        lay_out: args.size,
        direct: !args.buffered,
        may_write: plan.workloads.iter().any(|workload| workload.spec.writes()),
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
        Err(error) if error.is_cancelled() => return Ok((Vec::new(), true)),
        opened => opened.map_err(|error| failure(error, args))?,
    };
    let loads: Vec<Load> = plan.loads(args.seed).collect();
    let mut results = Vec::new();
    let mut interrupted = false;
    for load in &loads {
        let label = format!("run {} of {}: {}", results.len() + 1, loads.len(), load.label());
        let done = results.len() as f64;
        let mut tell = |fraction: f64| progress.show(&label, (done + fraction) / loads.len() as f64);
        match bench.run(load, cancel, &mut tell) {
            Err(error) if error.is_cancelled() => {
                interrupted = true;
                break;
            }
            ran => results.push(ran.map_err(|error| failure(error, args))?),
        }
    }
    if args.remove {
        bench.close().map_err(Failure::run)?;
    }
    Ok((results, interrupted))
}

fn failure(error: FileError, args: &Args) -> Failure {
    if args.size.is_none() && !args.target.exists() {
        return Failure::input(error).with_hint("give --size to have a test file laid out there");
    }
    let is_refused = matches!(error, FileError::Load(raidlab_load::LoadError::Safety(_)));
    if is_refused { Failure::input(error) } else { Failure::run(error) }
}
