//! `raidlab import trace`: a block trace as a Parquet file, and its summary.

use super::kinds::other_than;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer, remark};
use crate::schema::Form;
use crate::whole_file::made_whole;
use raidlab_trace::{
    BlkAction, LineProblem, ParseOptions, TimeUnit, TraceError, TraceFormat, TraceSummary, WaitMeaning,
};
use raidlab_tracefile::{Imported, TraceFileError, TraceMeta, import};
use raidlab_units::{ByteCount, NanoSpan, counted, three_digits};
use raidlab_worlds::as_text;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// So much of a file tells its kind.
const LOOKED_AT_BYTES: u64 = 64 << 10;

/// Arguments of `raidlab import trace`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The trace; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Its format: auto, fio2, fio3, blkparse, msr, spc, disksim, disksim-validate, perf, biosnoop,
    /// alibaba, tencent, systor or fiu; of binary ones blktrace, and oracle-general, which has no mark
    #[arg(long, default_value = "auto", value_name = "NAME")]
    format: AskedFormat,
    /// blkparse: the event that is a request's time; Q (queued), D (sent to the device) or C (ended)
    #[arg(long, value_enum, default_value = "Q", ignore_case = true)]
    action: Action,
    /// fio2: `wait` is milliseconds since the start, as fio has it, or microseconds since the last one, as its manual says
    #[arg(long, value_enum, default_value = "fio", value_name = "WHO")]
    wait: Wait,
    /// The unit of its times, where it is not that of its format: s, ms, us or ns (`MQSim` writes `DiskSim`'s columns with ns)
    #[arg(long, value_parser = time_unit, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,
    /// Take the requests of these devices only, by their names in the trace; may be repeated
    #[arg(long, value_name = "NAME")]
    device: Vec<String>,
    /// Write the trace here; without it the summary is all there is
    #[arg(long, short, value_name = "FILE.parquet")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    #[value(name = "Q")]
    Queued,
    #[value(name = "D")]
    Dispatched,
    #[value(name = "C")]
    Completed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Wait {
    Fio,
    Manual,
}

fn time_unit(text: &str) -> Result<TimeUnit, String> {
    TimeUnit::named(text)
        .ok_or_else(|| format!("'{text}' is none of {}", TimeUnit::ALL.map(TimeUnit::name).join(", ")))
}

/// A format by its name, or none for `auto`; blktrace has a mark by which it is known.
#[derive(Clone, Copy, Debug)]
struct AskedFormat(Option<TraceFormat>);

impl FromStr for AskedFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if ["auto", "blktrace"].contains(&text) {
            return Ok(Self(None));
        }
        let known = text.parse().map_err(|error| format!("{error}, blktrace, auto"))?;
        Ok(Self(Some(known)))
    }
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let options = ParseOptions {
        action: match args.action {
            Action::Queued => BlkAction::Queued,
            Action::Dispatched => BlkAction::Dispatched,
            Action::Completed => BlkAction::Completed,
        },
        wait: match args.wait {
            Wait::Fio => WaitMeaning::AsFioDoes,
            Wait::Manual => WaitMeaning::AsManualSays,
        },
        devices: args.device.clone(),
        time_unit: args.time_unit,
    };
    let (input, name) = open(&args.file)?;
    let taken_in = |output: Option<&Path>| {
        import(input, &name, args.format.0, options, output)
            .map_err(|error| other_kind(&args.file, &error).unwrap_or_else(|| failure(error)))
    };
    let imported = match &args.output {
        Some(path) => made_whole(path, |path| taken_in(Some(path)))?,
        None => taken_in(None)?,
    };
    if output.is_json() {
        let TraceMeta { source, start_ns, out_of_order, summary, .. } = &imported.meta;
        print_answer(&TraceAnswer {
            source,
            format: imported.format,
            lines: imported.lines,
            start_ns: *start_ns,
            out_of_order: *out_of_order,
            summary,
            notes: &imported.notes,
            output: args.output.as_deref(),
        })?;
    } else {
        print(&in_words(&imported))?;
    }
    for note in &imported.notes {
        remark(format_args!("note: {note}"));
    }
    for warning in warnings(&imported.meta) {
        remark(format_args!("warning: {warning}"));
    }
    Ok(Exit::Done)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<TraceAnswer<'_>>();

/// What was taken in, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct TraceAnswer<'a> {
    source: &'a str,
    format: &'static str,
    lines: u64,
    start_ns: u64,
    out_of_order: u64,
    summary: &'a TraceSummary,
    notes: &'a [String],
    output: Option<&'a Path>,
}

fn open(file: &Path) -> Result<(Box<dyn BufRead>, String), Failure> {
    let opened = if file == Path::new("-") {
        as_text(io::stdin().lock())
    } else {
        File::open(file).and_then(|opened| as_text(BufReader::with_capacity(1 << 20, opened)))
    };
    let input = opened.map_err(|error| {
        Failure::input(anyhow::Error::new(error).context(format!("cannot read {}", file.display())))
    })?;
    Ok((input, file.display().to_string()))
}

/// The refusal of a file that is of another kind, if it is one whose format could not be told.
fn other_kind(file: &Path, error: &TraceFileError) -> Option<Failure> {
    let TraceFileError::Line(TraceError {
        problem: LineProblem::UnknownFormat | LineProblem::TooLong, ..
    }) = error
    else {
        return None;
    };
    if file == Path::new("-") {
        return None;
    }
    let mut first = Vec::new();
    let (input, name) = open(file).ok()?;
    input.take(LOOKED_AT_BYTES).read_to_end(&mut first).ok()?;
    let kind = other_than("trace", &String::from_utf8_lossy(&first))?;
    Some(Failure::input(anyhow::anyhow!("{name} holds no trace: {kind}")))
}

fn failure(error: TraceFileError) -> Failure {
    let hint = match &error {
        TraceFileError::NoSuchDevice { .. } => Some("without --device the summary lists all devices"),
        _ => None,
    };
    Failure::input(error).with_any_hint(hint)
}

/// What is to be known before the trace is replayed.
fn warnings(meta: &TraceMeta) -> Vec<String> {
    let mut warnings = Vec::new();
    if !meta.summary.has_times() {
        warnings.push("all requests are at one time: replay it with --timing none".to_owned());
    }
    if meta.out_of_order > 0 {
        warnings.push(format!(
            "{} of {} requests were not in the order of their times, and are now",
            meta.out_of_order, meta.summary.requests
        ));
    }
    warnings
}

/// The summary, a figure to a line.
fn in_words(imported: &Imported) -> String {
    let TraceMeta { source, summary, .. } = &imported.meta;
    let mut lines =
        vec![format!("{source}: {}, format {}", counted(imported.lines, "line"), imported.format)];
    let mut add = |name: &str, text: String| lines.push(format!("  {name:<13} {text}"));
    let TraceSummary { requests, reads, writes, flushes, trims, zeroes, .. } = summary;
    let kinds = [(*reads, "read"), (*writes, "write"), (*flushes, "flush"), (*trims, "trim")];
    let kinds = kinds.map(|(count, noun)| counted(count, noun)).join(", ");
    let zeroes =
        if *zeroes > 0 { format!(", {} of zeroes", counted(*zeroes, "write")) } else { String::new() };
    add("requests", format!("{requests}: {kinds}{zeroes}"));
    if let Some(pct) = summary.read_pct() {
        add("reads", format!("{pct:.1} % of reads and writes"));
    }
    add(
        "bytes",
        format!("{} read, {} written", ByteCount(summary.read_bytes), ByteCount(summary.write_bytes)),
    );
    add("sizes", sizes(summary));
    add("span", NanoSpan(summary.span_ns).to_string());
    if let Some(rate) = summary.requests_per_sec() {
        let most = summary.requests_per_sec_max;
        add("arrivals", format!("{} requests/s, at most {most} in a second", three_digits(rate)));
    }
    let at_least = if summary.footprint_is_at_least { "at least " } else { "" };
    add("footprint", format!("{at_least}{}", ByteCount(summary.footprint_bytes)));
    add("sequential", format!("{:.1} %", summary.sequential_pct));
    add("alignment", ByteCount(summary.align_bytes).to_string());
    if let Some(mean) = summary.response_ns_mean {
        add("response", format!("{} mean, as traced", NanoSpan(mean as u64)));
    }
    for (number, device) in summary.devices.iter().enumerate() {
        let (reads, writes) = (counted(device.reads, "read"), counted(device.writes, "write"));
        let end = ByteCount(device.end_bytes);
        lines.push(format!("  device {number}: {}, {reads}, {writes}, up to {end}", device.name));
    }
    lines.join("\n")
}

fn sizes(summary: &TraceSummary) -> String {
    let Some(mean) = summary.length_bytes_mean() else { return "none".into() };
    let each = summary.sizes.iter().map(|size| format!("{} {:.1} %", ByteCount(size.length_bytes), size.pct));
    let most = each.collect::<Vec<_>>().join(", ");
    format!("{} mean, {} at most: {most}", ByteCount(mean as u64), ByteCount(summary.length_bytes_max))
}
