//! `raidlab import`: job files of other load tools as workload files, block traces as Parquet files, histories of monitoring, and runs
//! stored elsewhere.

pub(super) mod check;
mod history;
mod kinds;
pub(super) mod runs;
pub(super) mod trace;

pub(crate) use runs::foreign_runs;

use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer, remark};
use crate::schema::Form;
use crate::whole_file::{cannot_write, check_free_for, write_whole};
use raidlab_jobs::{Import, ImportError, Included, Step, Surroundings, import_fio, import_icf};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_worlds::read_foreign_text;
use serde::Serialize;
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
    Fio(FioArgs),
    /// A configuration of Iometer (.icf), as workload files
    Icf(JobArgs),
    /// A block trace (iolog of fio, text of blkparse, perf or biosnoop, MSR Cambridge, SPC, clouds, `DiskSim`), as a Parquet file
    Trace(trace::Args),
    /// What monitoring kept (sar, iostat, PCP, Prometheus, `pg_stat_io`, esxtop, Windows), as a history that plans read
    History(history::Args),
    /// Runs from another machine, as `raidlab export json` writes them, another results file, or results of fio and Iometer
    Runs(runs::Args),
}

#[derive(Debug, clap::Args)]
struct JobArgs {
    /// The file; - is standard input
    file: PathBuf,
    /// Write a workload file for each step into this folder, instead of the only one to standard output
    #[arg(long, short, value_name = "FOLDER")]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct FioArgs {
    #[command(flatten)]
    job: JobArgs,
    /// Value of a variable that the file writes as ${NAME}; others are those of the environment; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    env: Vec<(String, String)>,
    /// Write nothing: have the real fio make the jobs' requests, with its engine null, which opens nothing, and compare number, sizes,
    /// directions and places with what is run here
    #[arg(long, conflicts_with = "output")]
    check: bool,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    match &args.kind {
        Kind::Fio(args) => {
            if args.check {
                let (name, text) = read_job("fio", &args.job.file)?;
                return check::run(args, &name, &text, output);
            }
            let reader = |name: &str, text: &str| import_fio_at(&args.job.file, &args.env, name, text);
            jobs("fio", &args.job, reader, output)
        }
        Kind::Icf(args) => jobs("icf", args, import_icf, output),
        Kind::Trace(args) => trace::run(args, output),
        Kind::History(args) => history::run(args, output),
        Kind::Runs(args) => runs::run(args, output),
    }
}

/// Reads the job file of fio at `path`, with variables of `given` and of the environment, and the files that it includes.
pub(crate) fn import_fio_at(
    path: &Path,
    given: &[(String, String)],
    name: &str,
    text: &str,
) -> Result<Import, ImportError> {
    surroundings(path, given, |around| import_fio(name, text, around))
}

/// What `read` makes of the job file at `path`, with its variables and the files beside it.
fn surroundings<T>(path: &Path, given: &[(String, String)], read: impl FnOnce(Surroundings<'_>) -> T) -> T {
    let variable = |name: &str| {
        let own = given.iter().rev().find(|(known, _)| known == name);
        let inherited = || std::env::var(name).ok().filter(|value| !value.is_empty());
        own.map(|(_, value)| (value.clone(), "--env"))
            .or_else(|| inherited().map(|value| (value, "the environment")))
            .ok_or_else(|| format!("give --env {name}=VALUE, or set it in the environment"))
    };
    let include = |asked: Included<'_>| {
        // As fio looks for it: from here, and then beside the file that includes it.
        let here = PathBuf::from(asked.path);
        let beside = || asked.by.map_or(path, Path::new).with_file_name(asked.path);
        let found = if here.exists() { here } else { beside() };
        let text = read_foreign_text(&found).map_err(|error| error.to_string())?;
        Ok((found.display().to_string(), text))
    };
    read(Surroundings { variable: &variable, include: &include })
}

/// Name and text of a job file, which is none of another kind.
fn read_job(verb: &str, path: &Path) -> Result<(String, String), Failure> {
    let text = read_foreign_text(path).map_err(Failure::input)?;
    if let Some(kind) = kinds::other_than(verb, &text) {
        return Err(Failure::input(anyhow::anyhow!("{} holds no job: {kind}", path.display())));
    }
    let name = path.file_name().map_or_else(|| "-".into(), |name| name.to_string_lossy().into_owned());
    Ok((name, text))
}

fn jobs(
    verb: &str,
    args: &JobArgs,
    reader: impl FnOnce(&str, &str) -> Result<Import, ImportError>,
    output: &Output,
) -> Result<Exit, Failure> {
    let (name, text) = read_job(verb, &args.file)?;
    let import = reader(&name, &text).map_err(refused)?;
    for job in import.jobs.iter().filter(|_| !output.is_json()) {
        remark(format_args!("job {job}"));
    }
    if let Some(folder) = &args.output {
        write_all(folder, &import)?;
    }
    if output.is_json() {
        print_answer(&JobsAnswer::of(&import))?;
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
            let command = |step: &Step| command(step, &path_of(folder, step).display().to_string()) + "\n";
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

/// The command that runs `step` with its workload in `file`. Files are laid out where they are not there; those that are large enough, and devices, are
/// used as they are, and the workload says which part of them.
fn command(step: &Step, file: &str) -> String {
    let mut run = step.run.clone();
    run.size = run.size.filter(|size| {
        let holds = |target: &String| {
            std::fs::metadata(target).is_ok_and(|it| !it.is_file() || it.len() >= size.get())
        };
        run.targets.is_empty() || !run.targets.iter().all(holds)
    });
    run.command(file)
}

fn path_of(folder: &Path, step: &Step) -> PathBuf {
    folder.join(format!("{}.toml", step.workload.name()))
}

/// The workload file of a step: how the original ran it and what differs stand in front.
fn file_text(step: &Step, notes: &[String]) -> String {
    let command = command(step, &format!("{}.toml", step.workload.name()));
    let mut lines: Vec<String> = std::iter::once(&command)
        .chain(notes)
        .map(|line| format!("# {}", line.replace(char::is_control, " ")))
        .collect();
    lines.push(step.workload.to_toml());
    lines.join("\n")
}

/// Writes a file for each step; none, where one of them is somebody's.
fn write_all(folder: &Path, import: &Import) -> Result<(), Failure> {
    let cannot = |error| cannot_write(folder, error);
    let files: Vec<(PathBuf, String)> =
        import.steps.iter().map(|step| (path_of(folder, step), file_text(step, &import.notes))).collect();
    files.iter().try_for_each(|(path, text)| check_free_for(path, text.as_bytes()))?;
    std::fs::create_dir_all(folder).map_err(cannot)?;
    files.iter().try_for_each(|(path, text)| write_whole(path, text))
}

/// The form of the answer of `fio` and `icf`.
pub(crate) const JOBS: Form = Form::whole::<JobsAnswer<'_>>();

/// Jobs as workloads, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct JobsAnswer<'a> {
    steps: Vec<StepAnswer<'a>>,
    jobs: &'a [String],
    notes: &'a [String],
}

/// A workload, and how the file runs it.
#[derive(Serialize, schemars::JsonSchema)]
struct StepAnswer<'a> {
    name: &'a str,
    targets: &'a [String],
    run_ns: Option<NanoSpan>,
    ramp_ns: Option<NanoSpan>,
    iodepths: &'a [u32],
    size_bytes: Option<ByteCount>,
    seed: Option<u64>,
    buffered: bool,
    toml: String,
}

impl<'a> JobsAnswer<'a> {
    fn of(import: &'a Import) -> Self {
        let step = |Step { workload, run }: &'a Step| StepAnswer {
            name: workload.name(),
            targets: &run.targets,
            run_ns: run.run,
            ramp_ns: run.ramp,
            iodepths: &run.iodepths,
            size_bytes: run.size,
            seed: run.seed,
            buffered: run.buffered,
            toml: workload.to_toml(),
        };
        Self { steps: import.steps.iter().map(step).collect(), jobs: &import.jobs, notes: &import.notes }
    }
}
