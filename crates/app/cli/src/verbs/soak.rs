//! `raidlab soak`: the same data read again and again, and every bit compared.

use super::keep::{KeepDbArgs, Planned};
use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_named};
use crate::progress::Progress;
use crate::schema::Form;
use raidlab_engines::LoadError;
use raidlab_engines::soak::{
    DriveHealth, FaultCounts, FaultNote, HealthSources, SoakError, SoakLimit, SoakOptions, SoakProgress,
    SoakRecord, TemperatureSeries, soak,
};
use raidlab_machine::Environment;
use raidlab_report::terminal::{SoakFigures, soaks};
use raidlab_study::soak_run;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Arguments of `raidlab soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files or block devices, soaked side by side; what they hold is read and left as it is
    #[arg(required = true, value_name = "FILE")]
    targets: Vec<PathBuf>,
    /// Size of the file to lay out where there is none
    #[arg(long, value_name = "SIZE")]
    size: Option<ByteCount>,
    /// End after this time
    #[arg(long, value_name = "TIME")]
    time: Option<NanoSpan>,
    /// End when so much has been read of each target
    #[arg(long, value_name = "SIZE")]
    volume: Option<ByteCount>,
    /// End after so many passes over each target
    #[arg(long, value_name = "N")]
    passes: Option<u64>,
    /// Move no more than this in a second, each target
    #[arg(long, value_name = "SIZE")]
    rate: Option<ByteCount>,
    /// Bytes of one read
    #[arg(long, default_value = "1MiB", value_name = "SIZE")]
    block: ByteCount,
    /// Write stamped data over what is there first; needs --destroy-data for what holds data
    #[arg(long)]
    write: bool,
    /// Write each target anew after every pass, so that lost writes are found too
    #[arg(long)]
    rewrite: bool,
    /// Write each target anew after every pass, and in each such writing run this command, which cuts the power of the storage
    /// and ends when it is back; what was acknowledged must then be there. The target's name is in `RAIDLAB_TARGET`
    #[arg(long, value_name = "COMMAND")]
    power_cut: Option<String>,
    /// Allow writing over the data of this target: repeat its name
    #[arg(long, value_name = "NAME")]
    destroy_data: Option<String>,
    /// Folder of the records [default: that of each file; the current one for devices]
    #[arg(long, value_name = "DIR")]
    records: Option<PathBuf>,
    /// Read through the page cache, which is asked to forget what was read
    #[arg(long)]
    buffered: bool,
    /// Confidence of the upper bound on the rate of errors, in percent
    #[arg(long, default_value_t = 95.0, value_name = "PCT")]
    confidence: f64,
    #[command(flatten)]
    keep: KeepDbArgs,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if !(args.confidence > 0.0 && args.confidence < 100.0) {
        let error = anyhow::anyhow!("--confidence {} is not between 0 and 100 percent", args.confidence);
        return Err(Failure::input(error));
    }
    let options = options(args);
    let started_at = SystemTime::now();
    let cancel = cancel_flag("stopping; what was counted is kept (once more to stop at once)");
    let mut progress = Progress::start();
    let ended = soak(&args.targets, &options, &cancel, &mut |seen| show(seen, &mut progress));
    progress.end();
    let mut records = Vec::new();
    let mut first_failure = None;
    for ended in ended {
        match ended {
            Ok(record) => records.push(record),
            Err(SoakError::Target(LoadError::Cancelled { .. })) => {}
            Err(error) => {
                let failure = failure(error);
                match first_failure {
                    None => first_failure = Some(failure),
                    Some(_) => output.error(&failure),
                }
            }
        }
    }
    if !records.is_empty() {
        conclude(&records, args.confidence, output)?;
        keep(args, &records, started_at)?;
    }
    let any_fault = records.iter().any(|record| record.faults.total() > 0);
    match first_failure {
        Some(failure) => Err(failure),
        None if any_fault => Ok(Exit::RunFailed),
        None if cancel.load(Ordering::Relaxed) => Ok(Exit::Interrupted),
        None => Ok(Exit::Done),
    }
}

/// Keeps a run for each target. Its figures are of all soaks of the target, as its record has them.
fn keep(args: &Args, records: &[SoakRecord], started_at: SystemTime) -> Result<(), Failure> {
    let names: Vec<String> = records.iter().map(|record| record.path.display().to_string()).collect();
    let planned = Planned {
        kind: "soak",
        title: format!("soak {}", names.join(", ")),
        method: "Data read again and again, every bit compared.".to_owned(),
        runs: args.targets.len() as u64,
        seed: 0,
        configuration: serde_json::to_string(records).map_err(Failure::run)?,
    };
    let results = records.iter().map(|record| soak_run(record, args.confidence)).collect();
    args.keep.keep(planned, Environment::of_target(&args.targets[0]), started_at, results).map(|_| ())
}

fn options(args: &Args) -> SoakOptions {
    SoakOptions {
        size: args.size,
        direct: !args.buffered,
        chunk: args.block,
        rate: args.rate.map(|bytes| BytesPerSec(bytes.get() as f64)),
        limit: SoakLimit { time: args.time, volume: args.volume, passes: args.passes },
        write: args.write,
        rewrite: args.rewrite || args.power_cut.is_some(),
        power_cut: args.power_cut.clone(),
        health: HealthSources::default(),
        destroy_data: args.destroy_data.clone(),
        records: args.records.clone(),
    }
}

fn failure(error: SoakError) -> Failure {
    let is_input = match &error {
        SoakError::Target(error) => error.is_input(),
        SoakError::Record { .. } | SoakError::PowerCut { .. } => false,
        _ => true,
    };
    if matches!(error, SoakError::Chunk { .. }) {
        return Failure::input(error).with_hint("name another length of reads with --block");
    }
    if is_input { Failure::input(error) } else { Failure::run(error) }
}

/// Shows the target that is furthest behind.
fn show(seen: &[SoakProgress], progress: &mut Progress) {
    let faults: u64 = seen.iter().map(|target| target.faults).sum();
    let last = seen.iter().min_by(|a, b| {
        (a.passes, a.pass_share).partial_cmp(&(b.passes, b.pass_share)).expect("shares are numbers")
    });
    if let Some(target) = last {
        let label = format!(
            "{} {}: pass {}, {} read, {} faults in all",
            target.doing,
            target.path.display(),
            target.passes + 1,
            target.read,
            faults
        );
        let read = seen.iter().map(|target| target.read.get()).sum();
        let counts = [("read_bytes", read), ("passes", target.passes), ("faults", faults)];
        progress.show_counts(&label, target.pass_share, &counts);
    }
}

fn conclude(records: &[SoakRecord], confidence_pct: f64, output: &Output) -> Result<(), Failure> {
    let bound = |record: &SoakRecord| record.fault_rate_upper_bound(confidence_pct / 100.0);
    if output.is_json() {
        let targets: Vec<_> =
            records.iter().map(|record| SoakAnswer::of(record, confidence_pct, bound(record))).collect();
        return print_named("targets", targets);
    }
    let figures: Vec<_> = records
        .iter()
        .map(|record| SoakFigures {
            target: record.path.display().to_string(),
            passes: record.passes,
            bytes_read: record.bytes_read,
            seconds: record.seconds,
            faults: kinds(record),
            notes: record.notes.iter().map(|note| (note.byte, note.what.as_str())).collect(),
            rate_bound: bound(record),
            beside: beside(record),
        })
        .collect();
    print(&soaks(&figures, confidence_pct, output.terminal()))
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::part::<Vec<SoakAnswer<'_>>>("targets");

/// What is known of a target, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct SoakAnswer<'a> {
    target: &'a Path,
    size_bytes: u64,
    passes: u64,
    read_bytes: u64,
    written_bytes: u64,
    duration_s: f64,
    faults: &'a FaultCounts,
    faults_total: u64,
    changed_bits: u64,
    confidence_pct: f64,
    fault_rate_per_bit_upper_bound: Option<f64>,
    notes: &'a [FaultNote],
    power_cuts: u64,
    drives: &'a [DriveHealth],
    temperatures: Vec<TemperatureAnswer<'a>>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct TemperatureAnswer<'a> {
    sensor: &'a str,
    samples: Vec<TemperatureSample>,
}

#[derive(Serialize, schemars::JsonSchema)]
struct TemperatureSample {
    at_s: f64,
    celsius: f64,
}

impl<'a> SoakAnswer<'a> {
    fn of(record: &'a SoakRecord, confidence_pct: f64, bound: Option<f64>) -> Self {
        let temperature = |series: &'a TemperatureSeries| TemperatureAnswer {
            sensor: &series.sensor,
            samples: series
                .samples
                .iter()
                .map(|&(at_s, celsius)| TemperatureSample { at_s, celsius })
                .collect(),
        };
        Self {
            target: &record.path,
            size_bytes: record.bytes,
            passes: record.passes,
            read_bytes: record.bytes_read,
            written_bytes: record.bytes_written,
            duration_s: record.seconds,
            faults: &record.faults,
            faults_total: record.faults.total(),
            changed_bits: record.bits_changed,
            confidence_pct,
            fault_rate_per_bit_upper_bound: bound,
            notes: &record.notes,
            power_cuts: record.power_cuts,
            drives: &record.health.drives,
            temperatures: record.health.temperatures.iter().map(temperature).collect(),
        }
    }
}

/// What is to be said beside the figures: power cuts, what drives counted, how warm it was.
fn beside(record: &SoakRecord) -> Vec<String> {
    let mut lines = Vec::new();
    if record.power_cuts > 0 {
        let lost = record.notes.iter().filter(|note| note.after_power_cut).count();
        lines.push(format!(
            "power was cut {} times; {lost} of the faults were seen right after",
            record.power_cuts
        ));
    }
    for drive in &record.health.drives {
        let model = drive.model.as_deref().map_or(String::new(), |model| format!(" ({model})"));
        let name = format!("drive {}{model}", drive.drive);
        if let Some(why) = &drive.why_not {
            lines.push(format!("{name}: SMART counters can't be read: {why}"));
        }
        if drive.passed == Some(false) {
            lines.push(format!("{name}: says of itself that it FAILS"));
        }
        let changes: Vec<String> = drive
            .changes()
            .map(|(counter, before, after)| format!("{counter} {before} to {after}"))
            .collect();
        let unchanged = drive.after.len() - changes.len().min(drive.after.len());
        if !changes.is_empty() {
            lines.push(format!("{name}: {}; {unchanged} other SMART counters as before", changes.join(", ")));
        } else if unchanged > 0 {
            lines.push(format!("{name}: all {unchanged} SMART counters as before"));
        }
    }
    for series in &record.health.temperatures {
        if let Some((low, mean, high)) = series.range() {
            let count = series.samples.len();
            let name = &series.sensor;
            lines.push(format!("{name}: {low:.1} to {high:.1} C, mean {mean:.1} of {count} samples"));
        }
    }
    lines
}

fn kinds(record: &SoakRecord) -> Vec<(&'static str, u64)> {
    let faults = record.faults;
    let all = [
        ("changed", faults.changed),
        ("in a wrong place", faults.wrong_place),
        ("lost writes", faults.old),
        ("foreign", faults.foreign),
        ("unreadable", faults.unreadable),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}
