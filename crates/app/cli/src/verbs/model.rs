//! `raidlab model`: drive models from data sheets, and their validation against real drives.
//!
//! A drive is named by folder and name, and is built from the files of `DiskSim` 4.0's validation suite:
//! `NAME.diskspecs`, `NAME.model`, the seek curve that this one names, `NAME.trace`, and `NAME.parv` for the bus if it
//! is there. There can be two models or specifications; `NAME_validate` was made for the trace and comes first.

pub(super) mod fit;
pub(super) mod from_sheet;
pub(super) mod matrix;

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer, remark};
use crate::schema::Form;
use anyhow::Context;
use raidlab_disksim::{DriveFiles, Imported, Validation, import, parse_trace, validate};
use raidlab_report::terminal::{DriveValidation, drive_validation};
use raidlab_trace::TraceRecord;
use raidlab_worlds::read_text;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `raidlab model`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Replay the trace of a real drive on its model, and say how far apart the response times are
    Validate(ValidateArgs),
    /// Make a model that does what a drive's data sheet says, as an entry of the catalogue
    FromSheet(Box<from_sheet::Args>),
    /// Replay a published matrix of read latencies beside a writer on a drive's model, and say how far apart they are
    Matrix(matrix::Args),
    /// Fit a flash drive's entry to five cells of its matrix at most, and say how far the others are off
    Fit(fit::Args),
}

#[derive(Debug, clap::Args)]
struct ValidateArgs {
    /// Folder and name of a drive: its files are NAME.diskspecs, NAME.model, NAME.seek, NAME.trace and NAME.parv
    #[arg(value_name = "DIR/NAME")]
    drive: PathBuf,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    match &args.command {
        Command::Validate(args) => run_validate(args, output),
        Command::FromSheet(args) => from_sheet::run(args, output),
        Command::Matrix(args) => matrix::run(args, output),
        Command::Fit(args) => fit::run(args, output),
    }
}

fn run_validate(args: &ValidateArgs, output: &Output) -> Result<Exit, Failure> {
    // Both are looked at before either is complained about, but for a name of which there is nothing at all.
    let specs = need(&args.drive, "diskspecs")?;
    let ((name, imported), (trace_path, trace)) =
        match (read_drive(&args.drive, specs), read_trace(&args.drive)) {
            (Ok(drive), Ok(trace)) => (drive, trace),
            (Err(drive), Err(trace)) => return Err(drive.and(trace)),
            (Err(failure), _) | (_, Err(failure)) => return Err(failure),
        };
    for warning in &imported.warnings {
        remark(format_args!("warning: {warning}"));
    }
    let validation = validate(&imported.model, &trace)
        .with_context(|| format!("{name} can't replay {}", trace_path.display()))
        .map_err(Failure::input)?;
    show(&name, &validation, output)?;
    Ok(Exit::Done)
}

fn show(name: &str, validation: &Validation, output: &Output) -> Result<(), Failure> {
    let page = DriveValidation {
        disk: name,
        measured: &validation.measured,
        predicted: &validation.predicted,
        demerit_pct: validation.demerit_pct,
    };
    if output.is_json() {
        return print_answer(&ValidationAnswer {
            disk: name,
            requests: validation.measured.len(),
            mean_measured_ms: page.mean_measured_ms(),
            mean_predicted_ms: page.mean_predicted_ms(),
            demerit_pct: validation.demerit_pct,
        });
    }
    print(&drive_validation(&page, output.terminal()))
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<ValidationAnswer<'_>>();

/// A drive's model beside a trace of the drive, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct ValidationAnswer<'a> {
    disk: &'a str,
    requests: usize,
    mean_measured_ms: f64,
    mean_predicted_ms: f64,
    demerit_pct: f64,
}

/// The trace of the drive of this name.
fn read_trace(drive: &Path) -> Result<(PathBuf, Vec<TraceRecord>), Failure> {
    let (path, text) = need(drive, "trace")?;
    let trace = parse_trace(&text)
        .with_context(|| format!("{} is no trace", path.display()))
        .map_err(Failure::input)?;
    Ok((path, trace))
}

/// The drive of this name, from its specification and other files.
fn read_drive(drive: &Path, (specs_path, specs): (PathBuf, String)) -> Result<(String, Imported), Failure> {
    let name = drive.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| Failure::input(anyhow::anyhow!("{} names no drive", drive.display())))?;
    let folder = drive.parent().unwrap_or(Path::new("")).to_owned();
    let model = find(drive, "model")?.filter(|(path, _)| is_for_validation(path));
    let system = find(drive, "parv")?;
    let file_name =
        |path: &Path| path.file_name().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let named =
        |file: &Option<(PathBuf, String)>| file.as_ref().map(|(path, text)| (file_name(path), text.clone()));
    let (model, system) = (named(&model), named(&system));
    let files = DriveFiles {
        name: &name,
        specs_file: &file_name(&specs_path),
        specs: &specs,
        model: model.as_ref().map(|(file, text)| (file.as_str(), text.as_str())),
        system: system.as_ref().map(|(file, text)| (file.as_str(), text.as_str())),
    };
    // Files name others in their own folder only; the name of one is no way out of it.
    let mut fetch = |file: &str| {
        let plain = Path::new(file).file_name()?;
        read_text(&folder.join(plain)).ok()
    };
    let imported = import(&files, &mut fetch)
        .with_context(|| format!("{} can't be imported", drive.display()))
        .map_err(Failure::input)?;
    Ok((name, imported))
}

fn is_for_validation(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("_validate"))
}

/// The drive's file with this extension, the one for validation first.
fn find(drive: &Path, extension: &str) -> Result<Option<(PathBuf, String)>, Failure> {
    for suffix in ["_validate", ""] {
        let mut path = drive.as_os_str().to_owned();
        path.push(format!("{suffix}.{extension}"));
        let path = PathBuf::from(path);
        if path.is_file() {
            let text = read_text(&path).map_err(Failure::input)?;
            return Ok(Some((path, text)));
        }
    }
    Ok(None)
}

fn need(drive: &Path, extension: &str) -> Result<(PathBuf, String), Failure> {
    find(drive, extension)?.ok_or_else(|| {
        let missing = anyhow::anyhow!("there is no {}.{extension}", drive.display());
        Failure::input(missing).with_hint("a drive is named by folder and name, without an extension")
    })
}
