//! `raidlab observe`: what applications ask of devices, and workloads that ask the same.

use crate::failure::{Exit, Failure};
use crate::inputs::{some_time, window};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer, remark};
use crate::schema::Form;
use crate::whole_file::{check_writable, write_whole};
use raidlab_machine::watch::{
    CPU_SHARE, ProcessIo, TargetError, WatchOrder, WatchTarget, Watched, check_requests, watch,
};
use raidlab_observe::{DeviceFigures, Distance, Imitation, Observed, imitate};
use raidlab_report::terminal::{ObservedDevice, observed};
use raidlab_trace::TraceRecord;
use raidlab_tracefile::{TraceFileError, TraceRecorder};
use raidlab_units::{NanoSpan, counted};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Targets of this name are all devices.
const HOST: &str = "host";

/// Arguments of `raidlab observe`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Block devices, partitions, or files, which stand for the device that holds them; `host` is all devices of this machine
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// How long to watch; Ctrl-C ends it earlier
    #[arg(long, default_value = "10s", value_parser = window, value_name = "TIME")]
    time: NanoSpan,
    /// From one reading of the counters to the next [default: 100ms, longer for watches of more than a minute]
    #[arg(long, value_parser = some_time, value_name = "TIME")]
    interval: Option<NanoSpan>,
    /// Read counters only, even where the kernel shows single requests
    #[arg(long)]
    counters: bool,
    /// Write files into this folder: DEVICE.toml, a workload like what was seen, and, where requests were seen one by one, trace.parquet
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

/// Shortest time from one reading to the next: the kernel's times are milliseconds.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// Readings of a watch that says nothing else, beyond which the interval grows.
const READINGS: u32 = 600;

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let targets = args.watch_targets()?;
    let time = Duration::from_nanos(args.time.get());
    let usual = (time / READINGS).clamp(Duration::from_millis(100), Duration::from_secs(10));
    let interval = args.interval.map_or(usual, |span| Duration::from_nanos(span.get())).max(INTERVAL_MIN);
    let files =
        args.output.as_deref().map(|folder| Files::check(folder, &targets, !args.counters)).transpose()?;
    let order = WatchOrder { targets, time, interval, wants_requests: !args.counters };
    let mut recorder = files.as_ref().and_then(|files| files.trace.as_deref()).map(|path| {
        let names: Vec<String> = order.targets.iter().map(|target| target.name.clone()).collect();
        TraceRecorder::create(path, "raidlab observe", &names)
    });
    let mut problem = None;
    let mut take = |record: &TraceRecord| {
        if let Some(Ok(recorder)) = &mut recorder {
            problem = problem.take().or_else(|| recorder.push(record).err());
        }
    };
    let cancelled = cancel_flag("stopping; what was seen is told (once more to stop at once)");
    let watched = watch(&order, &|| cancelled.load(Ordering::Relaxed), &mut take).map_err(refused)?;
    if let Some(error) = problem {
        return Err(Failure::run(error));
    }
    let trace = recorder.transpose().map_err(Failure::run)?.map(TraceRecorder::finish).transpose();
    let trace = trace.map_err(|error: TraceFileError| Failure::run(error))?.flatten();
    show(&order, &watched, files.as_ref(), trace.as_deref(), output)?;
    Ok(Exit::Done)
}

fn refused(error: TargetError) -> Failure {
    let hint = match &error {
        TargetError::Unknown { .. } => Some("'lsblk' lists the devices; 'host' is all of them"),
        _ => None,
    };
    Failure::input(error).with_any_hint(hint)
}

impl Args {
    fn watch_targets(&self) -> Result<Vec<WatchTarget>, Failure> {
        let mut found: Vec<WatchTarget> = Vec::new();
        for given in &self.targets {
            let all =
                if given == HOST { WatchTarget::all() } else { WatchTarget::find(given).map(|it| vec![it]) };
            for target in all.map_err(refused)? {
                if let Some(file) = &target.file {
                    remark(format_args!(
                        "note: {} is on {}, and that is watched",
                        file.display(),
                        target.name
                    ));
                }
                if found.iter().all(|known| known.name != target.name) {
                    found.push(target);
                }
            }
        }
        Ok(found)
    }
}

/// The files that are written.
struct Files {
    folder: PathBuf,
    trace: Option<PathBuf>,
}

impl Files {
    /// Finds out before the watch whether its files can be written after it.
    fn check(folder: &Path, targets: &[WatchTarget], wants_requests: bool) -> Result<Self, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| {
            let error = anyhow::Error::new(error).context(format!("cannot make {}", folder.display()));
            Failure::input(error)
        })?;
        let files = Self {
            folder: folder.to_owned(),
            trace: (wants_requests && check_requests().is_ok()).then(|| folder.join("trace.parquet")),
        };
        targets.iter().try_for_each(|target| check_writable(&files.workload(&target.name)))?;
        Ok(files)
    }

    fn workload(&self, device: &str) -> PathBuf {
        self.folder.join(format!("{device}.toml"))
    }
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Seen<'_>>();

/// What was seen, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Seen<'a> {
    devices: Vec<SeenDevice<'a>>,
    processes: &'a [ProcessIo],
    processes_hidden: u64,
    cpu_pct: f64,
    requests_seen_pct: Option<f64>,
    events_lost: u64,
    trace: Option<&'a Path>,
    notes: &'a [String],
}

#[derive(Serialize, schemars::JsonSchema)]
struct SeenDevice<'a> {
    #[serde(flatten)]
    figures: &'a DeviceFigures,
    file: Option<&'a Path>,
    workload: Option<SeenWorkload<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct SeenWorkload<'a> {
    toml: String,
    output: Option<PathBuf>,
    distances: &'a [Distance],
    notes: &'a [String],
}

fn show(
    order: &WatchOrder,
    watched: &Watched,
    files: Option<&Files>,
    trace: Option<&Path>,
    output: &Output,
) -> Result<(), Failure> {
    let figures: Vec<DeviceFigures> = watched.devices.iter().map(Observed::figures).collect();
    let made: Vec<Option<Imitation>> =
        watched.devices.iter().map(|it| imitate(&format!("seen-{}", it.load().name), it)).collect();
    if let Some(files) = files {
        for (target, made) in order.targets.iter().zip(&made) {
            if let Some(made) = made {
                write_whole(&files.workload(&target.name), made.workload.to_toml())?;
            }
        }
    }
    let notes = notes(watched, trace);
    let devices: Vec<SeenDevice<'_>> = figures
        .iter()
        .zip(&order.targets)
        .zip(&made)
        .map(|((figures, target), made)| SeenDevice {
            figures,
            file: target.file.as_deref(),
            workload: made.as_ref().map(|made| SeenWorkload {
                toml: made.workload.to_toml(),
                output: files.map(|files| files.workload(&target.name)),
                distances: &made.distances,
                notes: &made.notes,
            }),
        })
        .collect();
    if output.is_json() {
        return print_answer(&Seen {
            devices,
            processes: &watched.processes,
            processes_hidden: watched.processes_hidden,
            cpu_pct: watched.cpu_share * 100.0,
            requests_seen_pct: watched.requests_share.map(|share| share * 100.0),
            events_lost: watched.events_lost,
            trace,
            notes: &notes,
        });
    }
    print(&in_words(&devices, &watched.processes, output))?;
    let of_workloads =
        devices.iter().filter_map(|it| Some((&it.figures.device, it.workload.as_ref()?.notes)));
    for (name, note) in of_workloads.flat_map(|(name, notes)| notes.iter().map(move |note| (name, note))) {
        remark(format_args!("note: workload of {name}: {note}"));
    }
    for note in &notes {
        remark(format_args!("note: {note}"));
    }
    Ok(())
}

fn in_words(devices: &[SeenDevice<'_>], moved: &[ProcessIo], output: &Output) -> String {
    let rows: Vec<ObservedDevice<'_>> = devices
        .iter()
        .map(|it| {
            let file = it.file.map(|file| file.display().to_string());
            let distances = it.workload.as_ref().map_or(&[][..], |workload| workload.distances);
            ObservedDevice { figures: it.figures, file, distances }
        })
        .collect();
    let written = devices.iter().filter_map(|it| it.workload.as_ref()?.output.as_ref());
    let written = written.map(|path| {
        format!(
            "workload: raidlab plan --app {0} --usable SIZE, or raidlab simulate --workload {0}\n",
            path.display()
        )
    });
    observed(&rows, output.terminal()) + &processes(moved, output) + &written.collect::<String>()
}

/// What is to be known of the watch itself.
fn notes(watched: &Watched, trace: Option<&Path>) -> Vec<String> {
    let mut notes = Vec::new();
    let cpu_pct = watched.cpu_share * 100.0;
    let more = if watched.cpu_share > CPU_SHARE { ", more than it should" } else { "" };
    notes.push(format!("watching took {cpu_pct:.2} % of one processor{more}"));
    notes.extend(watched.devices.iter().flat_map(Observed::notes));
    if let Some(problem) = &watched.problem {
        notes.push(format!("{problem}; 'raidlab doctor' says what is missing"));
    }
    if let Some(share) = watched.requests_share.filter(|share| *share < 0.99) {
        let whole =
            if trace.is_some() { ": the trace has gaps, and can't be replayed at its times" } else { "" };
        notes.push(format!(
            "single requests were seen for {:.0} % of the time, so that watching stays cheap{whole}",
            share * 100.0
        ));
    }
    if watched.events_lost > 0 {
        notes.push(format!(
            "the kernel had no room for {} of requests",
            counted(watched.events_lost, "event")
        ));
    }
    if watched.processes_hidden > 0 {
        let hidden = watched.processes_hidden;
        notes.push(format!(
            "{} of others may not be looked into: only root sees what is moved there",
            counted(hidden, "process")
        ));
    }
    notes
}

fn processes(list: &[ProcessIo], output: &Output) -> String {
    if list.is_empty() {
        return String::new();
    }
    let row = |it: &ProcessIo| {
        let figures = [it.read_mb_per_s, it.write_mb_per_s, it.read_calls_per_s, it.write_calls_per_s];
        let figures = figures.map(|figure| format!("{figure:.2}"));
        [it.pid.to_string(), it.name.clone()].into_iter().chain(figures).collect()
    };
    let header = ["Process", "Name", "Read MB/s", "Write MB/s", "Read calls/s", "Write calls/s"];
    let rows = list.iter().map(row).collect();
    "\n".to_owned() + &raidlab_report::terminal::table(&header, 2, vec![rows], output.terminal())
}
