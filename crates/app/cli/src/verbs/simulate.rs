//! `raidlab simulate`: an array of modelled hardware in virtual time.

use super::keep::Keeper;
use super::loads::{
    Conclusions, Frame, JudgeArgs, ReportArgs, Rounds, Stop, SweepArgs, carry_out, conclude, is_step_by_step,
};
use crate::failure::{Exit, Failure};
use crate::hosts::{RankArgs, only_alone};
use crate::inputs::{
    CatalogArgs, io_policy, metadata_policy, on_or_off, owner, read_policy, replay_hint, window, write_policy,
};
use crate::output::{Output, remark};
use crate::progress::Progress;
use crate::whole_file::check_writable;
use raidlab::{
    Array, ArrayFile, ArrayFileError, ByteCount, CacheSettings, Catalog, ControllerSettings, DriveHistory,
    FileAccess, Hosts, IoPolicy, LevelVariant, Load, LoadsError, MetadataPolicy, NanoSpan, OwnHardware,
    Owner, Prediction, ReadPolicy, Resilience, SetupError, SimError, SimulatedError, Simulation,
    WINDOW_DEFAULT, Workload, WritePolicy, default_history,
};
use raidlab_machine::Environment;
use raidlab_tracefile::ReadingAs;
use raidlab_workload::{DriverError, FlushRule};
use raidlab_worlds::LoadPlan;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::SystemTime;

/// Headings of options.
const ARRAY: &str = "Array";
const FAILURE: &str = "A controller that fails";

/// Arguments of `raidlab simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Describe the array in a file (TOML) instead of by options
    #[arg(long, value_name = "FILE.toml", help_heading = ARRAY, conflicts_with_all = ["level", "members", "drive", "controller"])]
    array: Option<PathBuf>,
    #[command(flatten)]
    hardware: HardwareArgs,
    /// What was done to the solid-state drives before: fresh, sequential, random, or random:N for N times overwritten [default: random:3]
    #[arg(long, value_name = "CONDITION", help_heading = ARRAY)]
    condition: Option<DriveHistory>,
    /// Percent of the solid-state drives' capacity that holds data [default: 100]
    #[arg(long, value_name = "PCT", help_heading = ARRAY, value_parser = clap::value_parser!(u8).range(1..=100))]
    fill: Option<u8>,
    /// The controller that fails: A or B [default: A, with --fail-after]
    #[arg(long, value_parser = owner, value_name = "A|B", help_heading = FAILURE, requires = "fail_after", conflicts_with = "until")]
    fail: Option<Owner>,
    /// When a controller fails, from the start of the measured window
    #[arg(long, value_name = "TIME", help_heading = FAILURE, conflicts_with = "until")]
    fail_after: Option<NanoSpan>,
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    sweep: SweepArgs,
    /// Length of each measured window, in virtual time [default: 20s; a trace to its end]
    #[arg(long, value_parser = window, value_name = "TIME", help_heading = "Load")]
    run: Option<NanoSpan>,
    /// Virtual time before each measured window [default: 20s, and more until the write cache is in its steady state; none for
    /// a trace]
    #[arg(long, value_name = "TIME", help_heading = "Load")]
    ramp: Option<NanoSpan>,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Threads, where there are several runs; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Find out what sets the pace, by running parts of each load again with each part of the hardware 10 % faster: on, off [default: on; off with --until and --find-load]
    #[arg(long, value_parser = on_or_off, value_name = "on|off")]
    bottleneck: Option<bool>,
    /// Run each load twice more, with all estimated figures of the array at their slower and at their faster ends: on, off [default: off]
    #[arg(long, value_parser = on_or_off, value_name = "on|off")]
    intervals: Option<bool>,
    #[command(flatten)]
    judge: JudgeArgs,
    /// Keep the runs in this results file
    #[arg(long, value_name = "FILE.sqlite", help_heading = "Results")]
    db: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
}

/// The host, and a file on it instead of the volume.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Host and file")]
struct FileArgs {
    /// The host, by its name in the catalogue: software RAID runs on its sockets, and the load with --filesystem
    #[arg(long, value_name = "ID")]
    host: Option<String>,
    /// Run the load on a file of this filesystem, by its name in the catalogue, as long as --region
    #[arg(long, value_name = "ID", requires = "host", conflicts_with_all = ["fail_after", "controllers", "volumes"])]
    filesystem: Option<String>,
    /// How the load uses the file: direct, buffered, fsync (buffered, and synchronised after each write) [default: direct]
    #[arg(long, value_parser = file_io, value_name = "HOW", requires = "filesystem")]
    file_io: Option<FileIo>,
}

impl FileArgs {
    /// Puts software RAID on the host of today that is named.
    fn put_on_host(&self, controller: &str, catalog: &mut Catalog) -> Result<(), Failure> {
        match &self.host {
            // With files, the host has a part whatever the controller is.
            Some(host) if self.filesystem.is_none() => {
                catalog.put_on_host(controller, host).map_err(|error| {
                    Failure::input(error)
                        .with_hint("leave --host out, or add --filesystem to run on a file of the host")
                })
            }
            _ => Ok(()),
        }
    }

    /// Whether the host keeps the file in its memory.
    fn access(&self) -> FileAccess {
        match self.file_io {
            None | Some(FileIo::Direct) => FileAccess::Direct,
            Some(FileIo::Buffered | FileIo::Fsync) => FileAccess::Buffered,
        }
    }

    /// Has each write of the plan synchronised, if that is asked for.
    fn synchronise(&self, plan: &mut LoadPlan) -> Result<(), Failure> {
        if self.file_io != Some(FileIo::Fsync) {
            return Ok(());
        }
        for workload in &mut plan.workloads {
            let spec = &mut workload.spec;
            let has_own_loops = !spec.parts.is_empty() && !spec.has_weights();
            if spec.flush.is_some() || has_own_loops || spec.trace.is_some() {
                let error = anyhow::anyhow!("workload '{}' says itself when it flushes", spec.name);
                return Err(Failure::input(error).with_hint("use --file-io buffered"));
            }
            spec.flush = Some(FlushRule { every: NonZeroU32::MIN, with_metadata: true });
        }
        Ok(())
    }
}

/// How a load uses its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileIo {
    Direct,
    Buffered,
    Fsync,
}

/// Reads `--file-io`.
fn file_io(text: &str) -> Result<FileIo, String> {
    match text {
        "direct" => Ok(FileIo::Direct),
        "buffered" => Ok(FileIo::Buffered),
        "fsync" => Ok(FileIo::Fsync),
        _ => Err(format!("'{text}' is none of direct, buffered, fsync")),
    }
}

/// The array by options. What is left out is as the controller is delivered.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = ARRAY)]
struct HardwareArgs {
    /// RAID level: 0, 1, 5, 6, 10, 10:far, 1e:offset, 50:2-spans, ...
    #[arg(long, required_unless_present = "array")]
    level: Option<LevelVariant>,
    /// Number of members
    #[arg(long, required_unless_present = "array", value_name = "N")]
    members: Option<u16>,
    /// Members, by their name in the catalogue
    #[arg(long, required_unless_present = "array", value_name = "ID")]
    drive: Option<String>,
    /// Controller, by its name in the catalogue
    #[arg(long, required_unless_present = "array", value_name = "ID")]
    controller: Option<String>,
    /// Enclosure, by its name in the catalogue
    #[arg(long, value_name = "ID", conflicts_with = "array")]
    enclosure: Option<String>,
    /// When writes are acknowledged: write-through, write-back, write-back-bad-battery [default: write-back where
    /// there is a cache]
    #[arg(long, value_parser = write_policy, value_name = "POLICY", conflicts_with = "array")]
    write_policy: Option<WritePolicy>,
    /// Read-ahead: no-read-ahead, read-ahead, adaptive [default: adaptive]
    #[arg(long, value_parser = read_policy, value_name = "POLICY", conflicts_with = "array")]
    read_policy: Option<ReadPolicy>,
    /// Whether reads stay in the cache: direct, cached [default: direct]
    #[arg(long, value_parser = io_policy, value_name = "POLICY", conflicts_with = "array")]
    io_policy: Option<IoPolicy>,
    /// The members' own write caches: on, off
    #[arg(long, value_parser = on_or_off, value_name = "on|off", conflicts_with = "array")]
    disk_cache: Option<bool>,
    /// Memory of the controller's cache
    #[arg(long, value_name = "SIZE", conflicts_with = "array")]
    cache_size: Option<ByteCount>,
    /// Length of a strip
    #[arg(long, value_name = "SIZE", conflicts_with = "array")]
    strip_size: Option<ByteCount>,
    /// What the controller keeps on the members against crashes: none, resync, bitmap, log [default: none]
    #[arg(long, value_parser = metadata_policy, value_name = "POLICY", conflicts_with = "array")]
    metadata: Option<MetadataPolicy>,
    /// Controllers of the enclosure, 1 or 2, with a volume on each
    #[arg(long, value_name = "N", conflicts_with = "array")]
    controllers: Option<u8>,
    /// Volumes, each with so many members, spread evenly over the controllers [default: one for each]
    #[arg(long, value_name = "N", conflicts_with = "array")]
    volumes: Option<u16>,
    /// Whether two controllers mirror what is dirty in their caches: on, off [default: on]
    #[arg(long, value_parser = on_or_off, value_name = "on|off", conflicts_with = "array")]
    mirror: Option<bool>,
    /// Part of the volume in use, from its start [default: all]
    #[arg(long, value_name = "SIZE", conflicts_with = "array")]
    region: Option<ByteCount>,
}

/// Tells that drives are in another condition than workloads bring them to, which write in sequence only.
fn tell_condition(workloads: &[Workload]) {
    let is_it = |workload: &Workload| {
        let spec = &workload.spec;
        spec.writes() && default_history([spec], false) == DriveHistory::Sequential
    };
    if workloads.iter().any(is_it) {
        remark(format_args!(
            "note: all writes are sequential, and the drives are taken to be overwritten at random before: --condition sequential is what \
             such writes lead to, and what 'plan' takes then"
        ));
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    let steps = is_step_by_step(&args.judge)?;
    let mut array = args.array()?;
    let training = args.sweep.training();
    let mut simulation = args.set_up(&array, steps)?;
    let is_by_training = training.is_all && !array.has_condition() && simulation.drives_have_condition();
    if is_by_training {
        array = array.condition(Some(DriveHistory::Sequential), None);
        simulation = args.set_up(&array, steps)?;
    }
    let frame = Frame {
        // A checkpoint that starts and ends before the window would not be seen.
        ramp: (args.ramp.or(training.is_saving.then_some(NanoSpan::ZERO)), WINDOW_DEFAULT),
        // Rounds until steady are windows of one long run, and end when it is.
        settles: !args.judge.is_in_rounds(),
        run: (args.run, WINDOW_DEFAULT),
        targets: simulation.volumes(),
        reading: ReadingAs::Asked,
        finds_load: args.judge.finds_load(),
    };
    let mut plan = args.sweep.plan(&frame)?;
    args.file.synchronise(&mut plan)?;
    args.judge.check_checkpoint(&plan, simulation.region())?;
    if hosts.leads() && is_by_training {
        remark(format_args!(
            "note: training data and checkpoints are written in sequence, and so the drives are taken to have been: --condition random:3 is \
             that of drives that were overwritten at random"
        ));
    }
    if hosts.leads() && !array.has_condition() && simulation.drives_have_condition() {
        tell_condition(&plan.workloads);
    }
    if steps {
        only_alone("simulate' with one run after the other", hosts)?;
    }
    if let Some(report) = &args.report.report
        && hosts.leads()
    {
        check_writable(report)?;
    }
    args.report.compared_paper()?;
    let seed = args.sweep.seed;
    let title = format!("simulate {}", simulation.label());
    let db = args.db.as_deref().filter(|_| hosts.leads());
    let prediction = args.prediction(&array, &plan)?;
    let kept = (&plan, prediction.as_ref());
    let mut keeper = Keeper::begin(db, "simulate", title, kept, seed, Environment::of_machine())?;
    let mut progress = Progress::start_on(hosts);
    let mut conclusions = if steps {
        let mut run = |load: &Load, label: &str, done: f64| {
            progress.show(label, done);
            let failed = |error| Stop::Failed(refused(error).context(load.label()));
            simulation.run(load, args.threads).map_err(failed)
        };
        carry_out(&plan, seed, &args.judge, Rounds::Windows, &mut keeper, &mut run)?
    } else {
        side_by_side(args, &simulation, &plan, hosts, (&mut keeper, &mut progress))?
    };
    progress.end();
    if !hosts.leads() {
        return conclusions.exit_unshown(&keeper);
    }
    conclude(keeper, conclusions, &args.report, output)
}

impl Args {
    /// The array that is asked for.
    fn array(&self) -> Result<Array, Failure> {
        let array = match &self.array {
            Some(path) => Array::read(path).map_err(Failure::input)?,
            None => self.hardware.describe(),
        };
        let array = match self.fail_after {
            Some(after) => array.failing(self.fail, after),
            None => array,
        };
        Ok(array.condition(self.condition, self.fill))
    }

    /// What is predicted, for who simulates it again; none of a file on a host.
    fn prediction(&self, array: &Array, plan: &LoadPlan) -> Result<Option<Prediction>, Failure> {
        if self.db.is_none() || self.file.filesystem.is_some() {
            return Ok(None);
        }
        let hardware = OwnHardware {
            host: self.file.host.clone(),
            ..self.catalog.own_hardware(Some(array.controller_id()))?
        };
        let loads: Vec<Load> = plan.loads(self.sweep.seed).collect();
        Ok(Some(Prediction::new(array.clone().into(), &loads, hardware)))
    }

    /// The array in the catalogue, ready for runs; one after the other where it goes by `steps`.
    fn set_up(&self, array: &Array, steps: bool) -> Result<Simulation, Failure> {
        let mut catalog = self.catalog.load_with_md(array.controller_id())?;
        self.file.put_on_host(array.controller_id(), &mut catalog)?;
        let refused = |error| self.refused_setup(error);
        let mut simulation = Simulation::new(&catalog, array.clone()).map_err(refused)?;
        if let (Some(host), Some(filesystem)) = (&self.file.host, &self.file.filesystem) {
            simulation = simulation.on_file(host, filesystem, self.file.access()).map_err(refused)?;
        }
        if self.bottleneck.unwrap_or(!steps && self.file.filesystem.is_none()) {
            simulation = simulation.finding_bottleneck().map_err(refused)?;
        }
        if self.intervals == Some(true) {
            simulation = simulation.with_ranges().map_err(refused)?;
        }
        Ok(simulation)
    }

    /// What is wrong with the array, and what to do.
    fn refused_setup(&self, error: SetupError) -> Failure {
        let hint = match &error {
            SetupError::Array(_) => None,
            SetupError::Host(_) => Some("'raidlab catalog' lists hosts and filesystems"),
            SetupError::Ends(_) => Some("leave --intervals out"),
            SetupError::SeveralVolumes => Some("leave [controllers] out"),
            SetupError::NoRegion => Some("say --region SIZE, or region in the array's file"),
            SetupError::BottleneckOfFile => Some("leave --bottleneck or --filesystem out"),
        };
        match error {
            SetupError::Array(error) => {
                let is_count = self.array.is_none() && matches!(error, ArrayFileError::Impossible { .. });
                let failure = bad_array(error);
                if is_count { failure.with_option("--members") } else { failure }
            }
            error => Failure::input(error).with_any_hint(hint),
        }
    }
}

/// Runs all loads of `plan` on several processors, of several hosts where there are.
fn side_by_side(
    args: &Args,
    simulation: &Simulation,
    plan: &LoadPlan,
    hosts: &mut Hosts,
    (keeper, progress): (&mut Keeper, &mut Progress),
) -> Result<Conclusions, Failure> {
    let loads: Vec<Load> = plan.loads(args.sweep.seed).collect();
    let started_at = SystemTime::now();
    let mut count = 0;
    let mut kept = Ok(());
    let ran = simulation.run_all(&loads, (hosts, args.threads), &mut |index, result| {
        count += 1;
        progress.show(&format!("simulated {}", loads[index].label()), f64::from(count) / loads.len() as f64);
        if kept.is_ok() {
            let mut result = result.clone();
            args.judge.judge(&mut result);
            kept = keeper.store(index, started_at, &result);
        }
    });
    keeper.results = ran.map_err(|error| match error {
        LoadsError::Load(index, error) => refused(error).context(loads[index].label()),
        LoadsError::Hosts(error) => Failure::run(error),
    })?;
    keeper.results.iter_mut().for_each(|result| args.judge.judge(result));
    kept.map(|()| Conclusions::default())
}

/// A load that does not go with the array.
fn refused(error: SimulatedError) -> Failure {
    let hint = match &error {
        SimulatedError::Simulation(SimError::Driver(DriverError::Replay(fault))) => Some(replay_hint(fault)),
        _ => None,
    };
    Failure::input(error).with_any_hint(hint)
}

/// What is wrong with the description of an array.
pub(super) fn bad_array(error: ArrayFileError) -> Failure {
    let is_unknown = matches!(error, ArrayFileError::UnknownParts(_));
    Failure::input(error).with_any_hint(is_unknown.then_some("'raidlab catalog' lists the hardware"))
}

impl HardwareArgs {
    /// The array of these options. Clap has made sure that the four parts are there.
    fn describe(&self) -> Array {
        let (Some(level), Some(members), Some(drive), Some(controller)) =
            (self.level, self.members, self.drive.clone(), self.controller.clone())
        else {
            unreachable!("clap requires level, members, drive and controller without --array");
        };
        Array::from(ArrayFile {
            enclosure: self.enclosure.clone(),
            write_policy: self.write_policy,
            strip_size: self.strip_size,
            disk_cache: self.disk_cache,
            region: self.region,
            cache: CacheSettings {
                size: self.cache_size,
                read_policy: self.read_policy,
                io_policy: self.io_policy,
                ..CacheSettings::default()
            },
            resilience: Resilience { metadata: self.metadata.unwrap_or_default(), ..Resilience::default() },
            controllers: self.controllers(),
            ..ArrayFile::new(level, members, drive, controller)
        })
    }

    /// What is said of controllers and volumes.
    fn controllers(&self) -> Option<ControllerSettings> {
        let Self { controllers, volumes, mirror, .. } = *self;
        let is_given = controllers.is_some() || volumes.is_some() || mirror.is_some();
        let count = controllers.unwrap_or(1);
        is_given.then(|| ControllerSettings { volumes, mirror, ..ControllerSettings::of_count(count) })
    }
}
