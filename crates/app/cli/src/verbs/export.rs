//! `raidlab export`: runs of a results file as tables, in full, and in the formats of other tools; traces as fio's.

use crate::failure::{Exit, Failure};
use crate::inputs::workload;
use crate::output::{Output, print, print_answer, print_named, remark};
use crate::schema;
use crate::verbs::keep::{DbArgs, selected, store_failure};
use crate::whole_file::{cannot_write, check_free, write_whole};
use raidlab_jobs::{FioExport, RunHints, export_fio};
use raidlab_report::export::{fio, iometer};
use raidlab_report::table::{KeptRun, Table};
use raidlab_store::{RunSelector, StoredRun};
use raidlab_tracefile::{TraceFile, TraceFileError, write_iolog};
use raidlab_units::NanoSpan;
use serde::Serialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Arguments of `raidlab export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    form: Form,
}

#[derive(Debug, clap::Subcommand)]
enum Form {
    /// As CSV: a row per run, per interval of its window, or per bin of its latencies
    Csv(TableArgs),
    /// As Parquet, for `DuckDB`, pandas and Polars: the same tables
    Parquet(TableArgs),
    /// As JSON with everything that is known, which `raidlab import runs` takes in
    Json(RunsArgs),
    /// As fio 3 prints a run with --output-format=json+, for fio-plot and others
    Fio(FioArgs),
    /// A workload as a job file of fio, as far as fio can say it; what is lost stands in it
    FioJob(FioJobArgs),
    /// As Iometer 1.1.0 writes its results file
    Iometer(RunsArgs),
    /// A trace (.parquet) as an iolog of version 3, which fio replays with its `read_iolog`
    Iolog(IologArgs),
}

#[derive(Debug, clap::Args)]
struct FioJobArgs {
    /// The workload: a built-in name, or a workload file (.toml)
    workload: String,
    /// The file or device that fio is to load; may be repeated, one for each target that the workload has parts for, in their order
    /// [default: TARGET]
    #[arg(long, value_name = "PATH")]
    target: Vec<String>,
    /// Requests in flight of loops without a number of their own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    iodepth: u32,
    /// Length of the run [default: until each job has moved its size]
    #[arg(long, value_name = "TIME")]
    run: Option<NanoSpan>,
    /// Time before the run is measured
    #[arg(long, value_name = "TIME", requires = "run")]
    ramp: Option<NanoSpan>,
    /// Use the page cache instead of direct I/O
    #[arg(long)]
    buffered: bool,
    /// Write here instead of to standard output
    #[arg(long, short, value_name = "FILE.fio")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct IologArgs {
    /// The trace
    #[arg(value_name = "TRACE.parquet")]
    trace: PathBuf,
    /// Files or devices that fio is to use, in the order of the trace's devices, instead of the trace's own names
    #[arg(long, value_delimiter = ',', value_name = "PATH,...")]
    file: Vec<String>,
    /// Write here instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct TableArgs {
    /// Runs: a number 12, a range 3..7, study:2, tag:NAME
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<RunSelector>,
    /// Rows of the table
    #[arg(long, value_enum, default_value_t = TableOf::Runs, value_name = "WHAT")]
    table: TableOf,
    #[command(flatten)]
    place: PlaceArgs,
}

/// What a row of a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TableOf {
    /// A run
    Runs,
    /// An interval of a run's window
    Series,
    /// A bin of a run's latencies
    Histograms,
}

#[derive(Debug, clap::Args)]
struct RunsArgs {
    /// Runs: a number 12, a range 3..7, study:2, tag:NAME
    #[arg(required = true, value_name = "RUNS")]
    runs: Vec<RunSelector>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, clap::Args)]
struct FioArgs {
    /// Number of the run, as `raidlab runs` lists it
    run: i64,
    #[command(flatten)]
    place: PlaceArgs,
    /// Write the logs over time beside the file, named as fio-plot looks for them; needs -o
    #[arg(long, requires = "output")]
    logs: bool,
}

#[derive(Debug, clap::Args)]
struct PlaceArgs {
    #[command(flatten)]
    db: DbArgs,
    /// Write here instead of to standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    match &args.form {
        Form::Csv(args) => {
            let text = args.table(raidlab_report::csv::table)?;
            tell(&deliver(&text, &args.place)?, output)
        }
        Form::Parquet(args) => parquet(args, output),
        Form::Json(args) => {
            let store = args.place.db.open()?;
            let runs = selected(&store, &args.runs)?;
            let archive = store.archive(&runs).map_err(store_failure)?;
            tell(&deliver(&archive.to_json(), &args.place)?, output)
        }
        Form::Fio(args) => {
            let run = args.place.db.open()?.run(args.run).map_err(store_failure)?;
            let mut written = deliver(&fio::json(&run.result, run.started_at_unix), &args.place)?;
            if let (true, Some(place)) = (args.logs, &args.place.output) {
                for (name, text) in fio::logs(&run.result) {
                    let path = place.with_file_name(name);
                    write_whole(&path, &text)?;
                    written.push(path);
                }
            }
            tell(&written, output)
        }
        Form::FioJob(args) => fio_job(args, output),
        Form::Iolog(args) => iolog(args, output),
        Form::Iometer(args) => {
            let runs = args.place.db.runs(&args.runs)?;
            let title = runs.first().map_or("", |run| &run.title);
            let timed: Vec<_> = runs.iter().map(timed).collect();
            let timed: Vec<_> = timed
                .iter()
                .zip(&runs)
                .map(|((started_at, ended_at), run)| iometer::TimedRun {
                    run: &run.result,
                    started_at,
                    ended_at,
                })
                .collect();
            tell(&deliver(&iometer::csv(title, &timed), &args.place)?, output)
        }
    }
}

impl TableArgs {
    /// What `write` makes of the table.
    fn table<T>(&self, write: impl Fn(&Table) -> T) -> Result<T, Failure> {
        let runs = self.place.db.runs(&self.runs)?;
        let kept: Vec<KeptRun<'_>> = runs.iter().map(KeptRun::from).collect();
        Ok(write(&match self.table {
            TableOf::Runs => Table::runs(&kept),
            TableOf::Series => Table::series(&kept),
            TableOf::Histograms => Table::histograms(&kept),
        }))
    }
}

fn parquet(args: &TableArgs, output: &Output) -> Result<Exit, Failure> {
    let Some(path) = &args.place.output else {
        let missing = anyhow::anyhow!("Parquet is no text: it needs a file");
        return Err(Failure::input(missing).with_hint("name it with --output FILE.parquet"));
    };
    let content = match args.table {
        TableOf::Runs => "runs",
        TableOf::Series => "series",
        TableOf::Histograms => "histograms",
    };
    let bytes = args.table(|table| raidlab_report::parquet::table(table, content))?.map_err(Failure::run)?;
    write_whole(path, &bytes)?;
    tell(std::slice::from_ref(path), output)
}

/// The form of its answer.
pub(crate) const FIO_JOB: schema::Form = schema::Form::whole::<FioJobAnswer>();

/// A job file, and what it does not say.
#[derive(Serialize, schemars::JsonSchema)]
struct FioJobAnswer {
    /// The file's text, where it was not written to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<String>,
    /// Where it was written.
    written: Vec<PathBuf>,
    /// What is lost, in sentences.
    lost: Vec<String>,
}

fn fio_job(args: &FioJobArgs, output: &Output) -> Result<Exit, Failure> {
    let workload = workload(&args.workload)?;
    let hints = RunHints {
        targets: args.target.clone(),
        run: args.run,
        ramp: args.ramp,
        iodepths: vec![args.iodepth],
        buffered: args.buffered,
        ..RunHints::default()
    };
    let FioExport { text, lost } = export_fio(&workload, &hints);
    if let Some(path) = &args.output {
        write_whole(path, &text)?;
    }
    if output.is_json() {
        let job = args.output.is_none().then_some(text);
        print_answer(&FioJobAnswer { job, written: args.output.iter().cloned().collect(), lost })?;
        return Ok(Exit::Done);
    }
    if args.output.is_none() {
        print(&text)?;
    }
    for one in &lost {
        remark(format_args!("lost: {one}"));
    }
    Ok(Exit::Done)
}

fn iolog(args: &IologArgs, output: &Output) -> Result<Exit, Failure> {
    let trace = TraceFile::open(&args.trace).map_err(Failure::input)?;
    let zeroes = trace.meta().summary.zeroes;
    if zeroes > 0 {
        remark(format_args!(
            "warning: {zeroes} writes of zeroes stand as writes in the iolog: fio has nothing else"
        ));
    }
    let Some(path) = &args.output else {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        return match write_iolog(&trace, &args.file, Path::new("standard output"), &mut out) {
            // Whoever read the trace has had enough of it.
            Err(TraceFileError::Io { source, .. }) if source.kind() == ErrorKind::BrokenPipe => {
                Ok(Exit::Done)
            }
            ended => ended.map(|()| Exit::Done).map_err(Failure::run),
        };
    };
    check_free(path)?;
    let file = std::fs::File::create(path).map_err(|error| cannot_write(path, error))?;
    write_iolog(&trace, &args.file, path, &mut std::io::BufWriter::new(file)).map_err(Failure::run)?;
    tell(std::slice::from_ref(path), output)
}

/// When a run started and ended, as Iometer prints it.
fn timed(run: &StoredRun) -> (String, String) {
    let text = |iso: &str| iso.replace('T', " ").replace('.', ":").trim_end_matches('Z').to_owned();
    (text(&run.started_at), text(&run.ended_at))
}

/// Writes `text` to its file, or prints it. Returns the file.
fn deliver(text: &str, place: &PlaceArgs) -> Result<Vec<PathBuf>, Failure> {
    match &place.output {
        Some(path) => write_whole(path, text).map(|()| vec![path.clone()]),
        None => print(text).map(|()| Vec::new()),
    }
}

/// Says what was written; nothing where the result itself went to standard output.
fn tell(written: &[PathBuf], output: &Output) -> Result<Exit, Failure> {
    if !written.is_empty() && output.is_json() {
        print_named("written", written)?;
    }
    Ok(Exit::Done)
}
