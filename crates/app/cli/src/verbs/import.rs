//! `raidlab import`: job files of other load tools as workload files, block traces as Parquet files, and runs stored
//! elsewhere.

mod runs;
mod trace;

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_json, remark};
use raidlab_jobs::{Import, ImportError, Step, import_fio, import_icf};
use raidlab_report::import::{is_fio, is_iometer};
use raidlab_worlds::read_foreign_text;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Arguments of `raidlab import`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    kind: Kind,
}

/// What is imported.
#[derive(Debug, clap::Subcommand)]
enum Kind {
    /// A job file of fio, as workload files
    Fio(JobArgs),
    /// A configuration of Iometer (.icf), as workload files
    Icf(JobArgs),
    /// A block trace (iolog of fio, text of blkparse, MSR Cambridge, SPC, `DiskSim`), as a Parquet file
    Trace(trace::Args),
    /// Runs from another machine, as `raidlab export json` writes them, another results file, or results of fio and Iometer
    Runs(runs::Args),
}

#[derive(Debug, clap::Args)]
struct JobArgs {
    /// The file
    file: PathBuf,
    /// Write a workload file for each step into this folder, instead of the only one to standard output
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

type Reader = fn(&str, &str) -> Result<Import, ImportError>;

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    match &args.kind {
        Kind::Fio(args) => jobs(args, import_fio, output),
        Kind::Icf(args) => jobs(args, import_icf, output),
        Kind::Trace(args) => trace::run(args, output),
        Kind::Runs(args) => runs::run(args, output),
    }
}

fn jobs(args: &JobArgs, reader: Reader, output: &Output) -> Result<Exit, Failure> {
    let text = read_foreign_text(&args.file).map_err(Failure::input)?;
    if is_fio(&text) || is_iometer(&text) {
        let results = anyhow::anyhow!("{} holds results, and no job", args.file.display());
        return Err(Failure::input(results).with_hint("take them in with 'raidlab import runs'"));
    }
    let name = args.file.file_name().map_or_else(|| "-".into(), |name| name.to_string_lossy().into_owned());
    let import = reader(&name, &text).map_err(refused)?;
    if let Some(folder) = &args.output {
        write_all(folder, &import)?;
    }
    if output.is_json() {
        print_json(&as_json(&import))?;
        return Ok(Exit::Done);
    }
    match (&args.output, &import.steps[..]) {
        (None, [only]) => print(&file_text(only, &import.notes))?,
        (None, steps) => {
            let problem =
                anyhow::anyhow!("{} holds {} steps, a workload file each", args.file.display(), steps.len());
            return Err(Failure::input(problem).with_hint("give a folder for them with --output"));
        }
        (Some(folder), steps) => {
            let command = |step: &Step| step.run.command(&path_of(folder, step).display().to_string()) + "\n";
            print(&steps.iter().map(command).collect::<String>())?;
        }
    }
    import.notes.iter().for_each(|note| remark(format_args!("note: {note}")));
    Ok(Exit::Done)
}

/// All reasons, a line each.
fn refused(error: ImportError) -> Failure {
    let hint = match error.reasons.len() {
        1 => "mend or take out that line",
        _ => "mend or take out these lines",
    };
    Failure::input(error).with_hint(hint)
}

fn path_of(folder: &Path, step: &Step) -> PathBuf {
    folder.join(format!("{}.toml", step.workload.name()))
}

/// The workload file of a step: how the original ran it and what differs stand in front.
fn file_text(step: &Step, notes: &[String]) -> String {
    let command = step.run.command(&format!("{}.toml", step.workload.name()));
    let mut lines: Vec<String> = std::iter::once(&command)
        .chain(notes)
        .map(|line| format!("# {}", line.replace(char::is_control, " ")))
        .collect();
    lines.push(step.workload.to_toml());
    lines.join("\n")
}

/// Writes a file for each step; none that is there already is written over.
fn write_all(folder: &Path, import: &Import) -> Result<(), Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::input(anyhow::Error::new(error).context(format!("cannot write {}", path.display())))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    for step in &import.steps {
        let path = path_of(folder, step);
        let text = file_text(step, &import.notes);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}

fn as_json(import: &Import) -> Value {
    let step = |step: &Step| {
        json!({
            "name": step.workload.name(),
            "targets": step.run.targets,
            "run_ns": step.run.run.map(raidlab_units::NanoSpan::get),
            "ramp_ns": step.run.ramp.map(raidlab_units::NanoSpan::get),
            "iodepths": step.run.iodepths,
            "size_bytes": step.run.size.map(raidlab_units::ByteCount::get),
            "seed": step.run.seed,
            "buffered": step.run.buffered,
            "toml": step.workload.to_toml(),
        })
    };
    json!({ "schema": 1, "steps": import.steps.iter().map(step).collect::<Vec<_>>(), "notes": import.notes })
}
