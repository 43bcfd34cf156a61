//! `raidlab measure`: a load on existing storage.

pub(super) mod matrix;

use super::keep::Keeper;
use super::loads::{
    Conclusions, Frame, JudgeArgs, ReportArgs, Rounds, Stop, SweepArgs, carry_out, conclude, is_step_by_step,
};
use crate::failure::{Exit, Failure};
use crate::hosts::{RankArgs, agree, names_here, text_here};
use crate::inputs::{Numbers, replay_hint, window};
use crate::interrupt::{RUNS_ARE_KEPT, cancel_flag};
use crate::output::{Output, remark};
use crate::patience::{PATIENCE, once_it_answers};
use crate::progress::Progress;
use crate::whole_file::check_writable;
use raidlab_device::{is_nbd_uri, null_size_text};
use raidlab_engines::{
    EngineKind, LoadError, LoadOptions, LoadProgress, TargetOptions, UringOptions, is_remote_uri, place_of,
};
use raidlab_hosts::Hosts;
use raidlab_machine::Environment;
use raidlab_measure::file::{FileBench, FileError};
use raidlab_tracefile::ReadingAs;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Accelerator, DriverError, LatencySteps, RunResult, Workload};
use raidlab_worlds::{Load, LoadPlan, accelerator, sweep};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Heading of options about what is measured.
const TARGET: &str = "Target";

/// Arguments of `raidlab measure`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, block devices, folders that a test file is put into, NBD, NFS and root URIs, the sockets of arrays that are served, or
    /// null:SIZE for a target that does nothing. What does not exist is laid out with --size: a folder if its name ends with / or the
    /// workload is accelerators alone, which read sample files in it, else a file
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<PathBuf>,
    #[command(flatten)]
    sweep: SweepArgs,
    /// Length of each measured window [default: 5s; a trace to its end]
    #[arg(long, value_parser = window, value_name = "TIME", help_heading = "Load")]
    run: Option<NanoSpan>,
    /// Time before each measured window [default: 1s; none for a trace]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    ramp: Option<NanoSpan>,
    /// Size of the test file, or of all sample files, to lay out where they do not exist
    #[arg(long, value_name = "SIZE", help_heading = TARGET)]
    size: Option<ByteCount>,
    /// Use the page cache instead of direct I/O
    #[arg(long, help_heading = TARGET)]
    buffered: bool,
    /// Allow writing over the data of these targets: repeat their names
    #[arg(long, value_delimiter = ',', value_name = "NAME,...", help_heading = TARGET)]
    destroy_data: Vec<String>,
    /// How the load is made.
    #[command(flatten)]
    engine: EngineArgs,
    #[command(flatten)]
    judge: JudgeArgs,
    /// First write all of the target so many times, in sequence, 128 KiB each
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = TARGET)]
    precondition: u32,
    /// A matrix of latencies instead.
    #[command(flatten)]
    matrix: matrix::MatrixArgs,
    /// Results file; every run is in it as soon as it is finished
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite", help_heading = "Results")]
    db: PathBuf,
    #[command(flatten)]
    report: ReportArgs,
    /// Remove the test file afterwards if it was laid out by this command
    #[arg(long, help_heading = TARGET)]
    remove: bool,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
}

/// How the load is made.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "How requests are made")]
struct EngineArgs {
    /// How requests are made: `io_uring`, psync, buffered, mmap, nbd, nfs, xrootd or null; by default what suits the target
    #[arg(long, value_name = "NAME")]
    engine: Option<EngineKind>,
    /// Threads that each have --iodepth requests in flight on each target: a number, a list 1,2,4 or a range 1..8
    #[arg(long, default_value = "1", value_parser = sweep::workers, value_name = "N,...", conflicts_with = "trace")]
    workers: Numbers,
    /// Processors that the threads are bound to, one each, in turn: 0,2 or 0-3
    #[arg(long, value_name = "N,...")]
    cpus: Option<Cpus>,
    /// `io_uring` polls the device for ends instead of waiting for its interrupt (IOPOLL)
    #[arg(long, visible_alias = "hipri")]
    poll: bool,
    /// `io_uring` has a thread of the kernel take the requests (SQPOLL)
    #[arg(long, visible_alias = "sqpoll")]
    kernel_thread: bool,
    /// What is asked of each request.
    #[command(flatten)]
    requests: RequestArgs,
}

/// What is asked of each request, and told of it.
#[derive(Debug, clap::Args)]
struct RequestArgs {
    /// Writes end when the medium has them, not a cache: forced unit access, dsync, msync
    #[arg(long)]
    fua: bool,
    /// Cut latency in two: until a request is handed to the kernel (slat), and from there to its end (clat)
    #[arg(long)]
    latency_split: bool,
    /// Stamp all that is written and judge all that is read: lost, torn, wrong-place and damaged blocks end with exit code 1
    #[arg(long)]
    verify: bool,
}

impl EngineArgs {
    fn options(&self) -> LoadOptions {
        LoadOptions {
            engine: self.engine,
            uring: UringOptions { io_poll: self.poll, kernel_thread: self.kernel_thread },
            cpus: self.cpus.as_ref().map_or_else(Vec::new, |cpus| cpus.0.clone()),
            fua: self.requests.fua,
            latency_split: self.requests.latency_split,
            verify: self.requests.verify,
            ..LoadOptions::default()
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

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    let twice = (1..args.targets.len()).find(|index| args.targets[..*index].contains(&args.targets[*index]));
    if let Some(index) = twice {
        let name = args.targets[index].display();
        return Err(Failure::input(anyhow::anyhow!("'{name}' is given twice"))
            .with_hint("for more load on one target take --workers or --iodepth"));
    }
    if let Some(path) = &args.matrix.matrix {
        return matrix::run(args, path, output, hosts);
    }
    let frame = Frame {
        ramp: (args.ramp, NanoSpan::from_secs(1)),
        settles: false,
        run: (args.run, NanoSpan::from_secs(5)),
        targets: args.targets.len() as u32,
        reading: ReadingAs::Ahead,
        finds_load: args.judge.finds_load(),
    };
    let plan = LoadPlan { workers: args.engine.workers.clone(), ..args.sweep.plan(&frame)? };
    is_step_by_step(&args.judge)?;
    if let Some(report) = args.report.report.as_ref().filter(|_| hosts.leads()) {
        check_writable(report)?;
    }
    args.report.compared_paper()?;
    let cancel = cancel_flag(RUNS_ARE_KEPT);
    let mut progress = Progress::start_on(hosts);
    let ran = measure(args, &plan, hosts, &cancel, &mut progress);
    progress.end();
    let Some((keeper, mut conclusions)) = ran? else { return Ok(Exit::Interrupted) };
    if !hosts.leads() {
        return conclusions.exit_unshown(&keeper);
    }
    let mut failed =
        keeper.results.iter().flat_map(|run| &run.targets).filter_map(|target| target.error.clone());
    let failed = failed.next();
    let exit = conclude(keeper, conclusions, &args.report, output)?;
    match failed {
        Some(error) => Err(Failure::run(anyhow::anyhow!("{error}"))),
        None => Ok(exit),
    }
}

/// The finished runs and what was concluded; nothing if the user stopped before the first.
fn measure(
    args: &Args,
    plan: &LoadPlan,
    hosts: &mut Hosts,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<Option<(Keeper, Conclusions)>, Failure> {
    let targets = names_here(&args.targets, hosts);
    let made = make_folders(args, plan, &targets);
    let samples = samples_of(plan, &targets);
    let opened = made.and_then(|made| {
        let bench = open_targets(args, plan, (&targets, samples), (&mut *hosts, cancel, &mut *progress))?;
        Ok((made, bench))
    });
    let own = opened.as_ref().map(|_| ()).map_err(FileError::refusal);
    if !hosts.is_alone() && agree(hosts, own)?.is_none() {
        return Ok(None);
    }
    let (made, mut bench) = match opened {
        Err(error) if error.is_cancelled() => return Ok(None),
        opened => opened.map_err(|error| failure(error, args))?,
    };
    let environment = Environment::of_target(&place_of(&targets[0]));
    let names: Vec<String> = args.targets.iter().map(|target| target.display().to_string()).collect();
    let title = format!("measure {}", names.join(", "));
    let db = hosts.leads().then_some(&*args.db);
    let mut keeper = Keeper::begin(db, "measure", title, (plan, None), args.sweep.seed, environment)?;
    // Samples are read only: a checkpoint is written to a file of its own.
    let mut written = match (samples, args.judge.checkpoint()) {
        (Some(_), Some(bytes)) => {
            let size = ByteCount(bytes.get().next_multiple_of(1 << 20) + CHECKPOINT_MARGIN);
            let opened =
                open(args, (&targets, None), (&|_| true, Some(size)), (&mut *hosts, cancel, &mut *progress));
            Some(opened.map_err(|error| failure(error, args))?)
        }
        _ => None,
    };
    if samples.is_none() {
        args.judge.check_checkpoint(plan, bench.size())?;
    }
    let mut run = |load: &Load, label: &str, done: f64| {
        let is_written = load.workload.spec.writes();
        let bench = written.as_mut().filter(|_| is_written).unwrap_or(&mut bench);
        let mut lately = Lately::default();
        let mut tell = |seen: &LoadProgress| show(seen, label, done, (&mut *progress, &mut lately));
        match bench.run(load, hosts, cancel, &mut tell) {
            Err(error) if error.is_cancelled() => Err(Stop::Cancelled),
            ran => ran.map_err(|error| Stop::Failed(failure(error, args))),
        }
    };
    let conclusions = match precondition(args, &mut run) {
        Err(Stop::Cancelled) => return Ok(None),
        Err(Stop::Failed(failure)) => return Err(failure),
        Ok(()) => carry_out(plan, args.sweep.seed, &args.judge, Rounds::Runs, &mut keeper, &mut run)?,
    };
    if args.remove {
        bench.close().and(written.map_or(Ok(()), FileBench::close)).map_err(Failure::run)?;
        // One with anything else in it stays.
        for folder in made {
            let _ = std::fs::remove_dir(folder);
        }
    }
    Ok(Some((keeper, conclusions)))
}

/// Latencies of the last second or so of a run.
#[derive(Default)]
struct Lately {
    before: LatencySteps,
    since: NanoSpan,
    told: Vec<(&'static str, u64)>,
}

impl Lately {
    /// How long it takes for a second of latencies to be told.
    const SPAN: NanoSpan = NanoSpan::from_secs(1);

    /// Percentiles of what came since they were told last, where that is a second.
    fn look(&mut self, seen: &LoadProgress) -> &[(&'static str, u64)] {
        if seen.elapsed < self.since + Self::SPAN {
            return &self.told;
        }
        let between = seen.window.lat.since(&self.before);
        let names = [("lat_ns_p50", 50.0), ("lat_ns_p99", 99.0), ("lat_ns_p999", 99.9)];
        let figures = names.iter().filter_map(|(name, pct)| Some((*name, between.percentile_ns(*pct)?)));
        self.told = figures.collect();
        (self.before, self.since) = (seen.window.lat, seen.elapsed);
        &self.told
    }
}

/// Shows how far a run is; of several the share is that of all, where that is more.
fn show(seen: &LoadProgress, label: &str, done: f64, (progress, lately): (&mut Progress, &mut Lately)) {
    let window = &seen.window;
    let mut counts = vec![
        ("elapsed_ns", seen.elapsed.get()),
        ("in_ramp", u64::from(window.in_ramp)),
        ("requests", window.requests),
        ("moved_bytes", window.bytes.get()),
        ("errors", window.errors),
        ("in_flight", u64::from(window.in_flight)),
    ];
    counts.extend_from_slice(lately.look(seen));
    progress.show_counts(label, done.max(window.fraction), &counts);
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

/// What a checkpoint's file has beyond it: each writer's part is whole blocks.
const CHECKPOINT_MARGIN: u64 = 256 << 20;

/// Who stops an opening, and who hears of it.
type Watchers<'a> = (&'a mut Hosts, &'a AtomicBool, &'a mut Progress);

/// The accelerators of a plan that read sample files: nothing but accelerators, on folders.
fn samples_of<'a>(plan: &'a LoadPlan, targets: &[PathBuf]) -> Option<&'a Accelerator> {
    plan.accelerators_alone().filter(|_| targets.iter().all(|target| target.is_dir()))
}

/// Makes the folders that are meant by names of nothing that is there, where it may be laid out; those that were made.
fn make_folders(args: &Args, plan: &LoadPlan, targets: &[PathBuf]) -> Result<Vec<PathBuf>, FileError> {
    let is_folder = |target: &&PathBuf| {
        let is_named_so = target.as_os_str().as_encoded_bytes().ends_with(b"/");
        is_path(target) && !target.exists() && (is_named_so || plan.accelerators_alone().is_some())
    };
    let meant: Vec<PathBuf> =
        targets.iter().filter(|_| args.size.is_some()).filter(is_folder).cloned().collect();
    for path in &meant {
        std::fs::create_dir_all(path)
            .map_err(|source| FileError::MakeFolder { path: path.clone(), source })?;
    }
    Ok(meant)
}

/// Says so where samples lie in a test file that might have been files of their own.
fn tell_one_file(plan: &LoadPlan, targets: &[PathBuf]) {
    let mut trained = plan.workloads.iter().filter(|workload| accelerator(&workload.spec).is_some());
    let is_laid_out = |target: &PathBuf| is_path(target) && (target.is_dir() || !target.exists());
    if let Some(workload) = trained.next().filter(|_| targets.iter().any(is_laid_out)) {
        remark(format_args!(
            "note: samples of {} lie in one test file, one after the other: sample files are read in folders, by accelerators that are the only \
             workload and all of it",
            workload.name()
        ));
    }
}

/// Whether `name` is that of a file, a device or a folder.
fn is_path(name: &Path) -> bool {
    !is_nbd_uri(name) && !is_remote_uri(name) && null_size_text(name).is_none()
}

/// Opens the targets, also those that take a while to answer, or the sample files in them.
fn open_targets(
    args: &Args,
    plan: &LoadPlan,
    (targets, samples): (&[PathBuf], Option<&Accelerator>),
    (hosts, cancel, progress): Watchers<'_>,
) -> Result<FileBench, FileError> {
    if samples.is_none() && hosts.leads() {
        tell_one_file(plan, targets);
    }
    let writes_all = args.precondition > 0 || args.judge.writes();
    // Parts for other targets write there.
    let is_written = |workload: &Workload, index: usize| {
        let own = workload.spec.on_target(index as u32, targets.len() as u32);
        own.is_ok_and(|own| own.writes())
    };
    let may_write = |index: usize| {
        let written = || plan.workloads.iter().any(|workload| is_written(workload, index));
        samples.is_none() && (writes_all || written())
    };
    let are_exports = targets.iter().all(|target| is_nbd_uri(target));
    let is_absent =
        |error: &FileError| are_exports && matches!(error, FileError::Load(error) if error.is_unreachable());
    let open_all =
        || open(args, (targets, samples), (&may_write, args.size), (&mut *hosts, cancel, &mut *progress));
    once_it_answers(targets[0].display(), PATIENCE, is_absent, open_all)
}

fn open(
    args: &Args,
    (targets, samples): (&[PathBuf], Option<&Accelerator>),
    (may_write, lay_out): (&dyn Fn(usize) -> bool, Option<ByteCount>),
    (hosts, cancel, progress): Watchers<'_>,
) -> Result<FileBench, FileError> {
    let options = |index| args.target_options(may_write(index), lay_out);
    let destroy_data: Vec<String> = args.destroy_data.iter().map(|name| text_here(name, hosts)).collect();
    let mut lay_out = |name: &Path, written: ByteCount, total: ByteCount| {
        hosts.watch(cancel);
        progress.show(
            &format!("laying out {}: {written} of {total}", name.display()),
            written.get() as f64 / total.get() as f64,
        );
    };
    let what: (&dyn Fn(usize) -> TargetOptions, _) = (&options, &destroy_data[..]);
    FileBench::open(targets, samples, what, args.engine.options(), cancel, &mut lay_out)
}

impl Args {
    fn target_options(&self, may_write: bool, lay_out: Option<ByteCount>) -> TargetOptions {
        let through_cache = self.engine.engine.is_some_and(EngineKind::is_through_page_cache);
        let direct = !self.buffered && !through_cache;
        TargetOptions { lay_out, direct, may_write, destroy_data: None }
    }
}

fn failure(error: FileError, args: &Args) -> Failure {
    if let FileError::Hosts(error) = error {
        return Failure::run(error);
    }
    let is_missing = |name: &PathBuf| is_path(name) && !place_of(name).exists();
    if args.size.is_none() && args.targets.iter().any(is_missing) {
        return Failure::input(error).with_option("<TARGET>").with_hint("--size lays one out");
    }
    if let FileError::Load(LoadError::Driver(DriverError::Replay(fault))) = &error {
        let hint = replay_hint(fault);
        return Failure::input(error).with_hint(hint);
    }
    match &error {
        FileError::Load(refused) if refused.is_input() => Failure::input(error),
        _ => Failure::run(error),
    }
}
