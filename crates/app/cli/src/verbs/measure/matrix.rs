//! `raidlab measure --matrix FILE.csv`: read latencies beside a writer on existing storage, in the columns of published
//! matrices.
//!
//! Each cell is in the file as soon as it is measured, so Ctrl-C keeps what is finished.

use super::{Args, Lately, failure, open, precondition, show};
use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer, remark};
use crate::progress::Progress;
use crate::schema::Form;
use crate::verbs::loads::Stop;
use raidlab_calibrate::Arrivals;
use raidlab_engines::LoadProgress;
use raidlab_hosts::Hosts;
use raidlab_measure::file::FileBench;
use raidlab_papers::{
    KnownLimits, MatrixLimits, MatrixPlan, MatrixRow, matrix_header, matrix_row, read_matrix,
};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::RunResult;
use raidlab_worlds::Load;
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A read alone that takes longer is that of a disk.
const DISK_READ_US: f64 = 1500.0;

const CELLS_ARE_KEPT: &str = "stopping; cells that are finished are in the file (once more to stop at once)";

/// How a matrix is measured.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A matrix of latencies instead")]
pub(super) struct MatrixArgs {
    /// Instead of workloads, measure what random reads take at each of many rates beside one sequential writer at each of many,
    /// into this file, which must not be there without --matrix-resume; without --destroy-data nothing is written [--run: 30s]
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["workload", "iodepth", "block_size", "read_pct", "bound", "report"])]
    pub(super) matrix: Option<PathBuf>,
    /// Steps of each rate up to what the target does at most
    #[arg(long, value_name = "N", default_value_t = 10, requires = "matrix", value_parser = clap::value_parser!(u32).range(1..=100))]
    matrix_steps: u32,
    /// Length of the reads
    #[arg(long, value_name = "SIZE", default_value = "4KiB", requires = "matrix")]
    matrix_block: ByteCount,
    /// Go on with a file that has some cells already, under the limits that they were measured under
    #[arg(long, requires = "matrix", conflicts_with = "precondition")]
    matrix_resume: bool,
    /// When reads arrive: poisson or even
    #[arg(long, value_name = "HOW", default_value = "poisson", requires = "matrix", value_parser = arrivals)]
    matrix_arrivals: Arrivals,
}

fn arrivals(text: &str) -> Result<Arrivals, String> {
    match text {
        "poisson" => Ok(Arrivals::Poisson),
        "even" => Ok(Arrivals::Even),
        _ => Err("reads arrive as poisson or even".into()),
    }
}

/// What came of it.
struct Measured {
    limits: MatrixLimits,
    rows: Vec<MatrixRow>,
    left_out: usize,
    exit: Exit,
}

/// Runs the verb.
pub(super) fn run(args: &Args, path: &Path, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    if args.targets.len() != 1 || !hosts.is_alone() {
        return Err(Failure::input(anyhow::anyhow!("a matrix is of one target and one process")));
    }
    let cancel = cancel_flag(CELLS_ARE_KEPT);
    let mut progress = Progress::start();
    let may_write = !args.destroy_data.is_empty() || args.size.is_some() || args.precondition > 0;
    let opened =
        open(args, (&args.targets, None), (&|_| may_write, args.size), (&mut *hosts, &cancel, &mut progress));
    let mut bench = match opened {
        Err(error) if error.is_cancelled() => return Ok(Exit::Interrupted),
        opened => opened.map_err(|error| failure(error, args))?,
    };
    let plan = plan(args, may_write)?;
    let (mut file, there) =
        if args.matrix.matrix_resume { go_on(path)? } else { (create(path)?, Vec::new()) };
    let known = plan.known_limits(&there).map_err(Failure::input)?;
    let capacity = bench.size();
    let mut run = |load: &Load, label: &str, share: f64| {
        let mut lately = Lately::default();
        let mut tell = |seen: &LoadProgress| show(seen, label, share, (&mut progress, &mut lately));
        match bench.run(load, hosts, &cancel, &mut tell) {
            Err(error) if error.is_cancelled() => Err(Stop::Cancelled),
            ran => ran.map_err(|error| Stop::Failed(failure(error, args))),
        }
    };
    let measured =
        precondition(args, &mut run).and_then(|()| cells(&plan, (&mut file, there, known), &mut run));
    progress.end();
    close(args, bench)?;
    let measured = match measured {
        Err(Stop::Cancelled) => return Ok(Exit::Interrupted),
        Err(Stop::Failed(failure)) => return Err(failure),
        Ok(measured) => measured,
    };
    tell(&measured, &plan, capacity, path, output)?;
    Ok(measured.exit)
}

fn close(args: &Args, bench: FileBench) -> Result<(), Failure> {
    if args.remove { bench.close().map_err(Failure::run) } else { Ok(()) }
}

fn create(path: &Path) -> Result<std::fs::File, Failure> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
        let problem = anyhow::anyhow!("{} can't be begun: {error}", path.display());
        Failure::input(problem)
            .with_hint("name a file that is not there with --matrix, or go on with this one: --matrix-resume")
    })?;
    write(&mut file, &matrix_header())?;
    Ok(file)
}

/// The file at `path`, to write more into it, and what is in it.
fn go_on(path: &Path) -> Result<(std::fs::File, Vec<MatrixRow>), Failure> {
    let rows = read_matrix(path).map_err(Failure::input)?;
    let file = OpenOptions::new().append(true).open(path).map_err(Failure::run)?;
    Ok((file, rows))
}

fn write(file: &mut std::fs::File, text: &str) -> Result<(), Failure> {
    file.write_all(text.as_bytes()).and_then(|()| file.sync_data()).map_err(Failure::run)
}

fn plan(args: &Args, may_write: bool) -> Result<MatrixPlan, Failure> {
    let block = args.matrix.matrix_block.0;
    let read_block = u32::try_from(block).ok().filter(|block| (512..=1 << 20).contains(block));
    let problem = || Failure::input(anyhow::anyhow!("--matrix-block is from 512 B to 1 MiB"));
    Ok(MatrixPlan {
        steps: args.matrix.matrix_steps,
        read_block: read_block.ok_or_else(problem)?,
        write_block: may_write.then_some(131_072),
        write_iodepth: 32,
        arrivals: args.matrix.matrix_arrivals,
        ramp: args.ramp.unwrap_or(NanoSpan::from_secs(1)),
        run: args.run.unwrap_or(NanoSpan::from_secs(30)),
        seed: args.sweep.seed,
    })
}

/// Measures limits and cells. What was finished when the user stopped is in the file.
fn cells(
    plan: &MatrixPlan,
    (file, there, known): (&mut std::fs::File, Vec<MatrixRow>, KnownLimits),
    run: &mut dyn FnMut(&Load, &str, f64) -> Result<RunResult, Stop>,
) -> Result<Measured, Stop> {
    let limits = plan.limits(known, &mut |load, label| run(load, label, 0.0))?;
    let places = plan.places(&limits);
    let mut measured = Measured { limits, rows: there, left_out: 0, exit: Exit::Done };
    // The first step of the writer at which a row did not keep up.
    let mut missed = None;
    for (index, place) in places.iter().enumerate() {
        let (read, step) = place.step;
        if missed.is_some_and(|(row, from)| row == read && step >= from) {
            measured.left_out += 1;
            continue;
        }
        if measured.rows.iter().any(|row| row.id == place.id) {
            continue;
        }
        let Some(load) = plan.cell(place) else { continue };
        let share = index as f64 / places.len() as f64;
        let label = format!("cell {} of {}: {}", index + 1, places.len(), place.id);
        let result = match run(&load, &label, share) {
            Err(Stop::Cancelled) => {
                measured.exit = Exit::Interrupted;
                return Ok(measured);
            }
            ran => ran?,
        };
        if let Some(row) = matrix_row(place, &result) {
            write(file, &row.line()).map_err(Stop::Failed)?;
            measured.rows.push(row);
        } else {
            measured.left_out += 1;
            missed = Some((read, step));
        }
    }
    Ok(measured)
}

fn tell(
    measured: &Measured,
    plan: &MatrixPlan,
    capacity: ByteCount,
    path: &Path,
    output: &Output,
) -> Result<(), Failure> {
    let command = command(&measured.limits, plan, capacity);
    if measured.left_out > 0 {
        remark(format_args!(
            "{} cells are left out: the target did not keep up there, or earlier in their row",
            measured.left_out
        ));
    }
    let limits = &measured.limits;
    if output.is_json() {
        return print_answer(&MeasuredAnswer {
            matrix: path,
            cells: measured.rows.len(),
            left_out: measured.left_out,
            capacity_bytes: capacity.0,
            read_iops_max: limits.read_iops,
            read_p50_us_alone: limits.read_p50_us,
            write_mb_per_s_max: limits.write_bytes_per_sec.map(|rate| rate / 1e6),
            from_sheet: command,
        });
    }
    let write = limits
        .write_bytes_per_sec
        .map_or("not measured: it would write".to_owned(), |rate| format!("{:.1} MB/s", rate / 1e6));
    print(&format!(
        "{} cells in {}\ncapacity            {capacity}\nreads at most       {:.0}/s\na read alone        {:.1} us\nwriting in sequence {write}\n\nA model of it, and how near it comes:\n{command}\nraidlab model matrix --drive mine.toml {}\n",
        measured.rows.len(),
        path.display(),
        limits.read_iops,
        limits.read_p50_us,
        path.display()
    ))
}

/// The command that makes a model of what was measured.
fn command(limits: &MatrixLimits, plan: &MatrixPlan, capacity: ByteCount) -> String {
    let rate = |name: &str| {
        limits.write_bytes_per_sec.map_or(String::new(), |rate| format!(" {name} {:.2}MB/s", rate / 1e6))
    };
    let capacity = format!("--capacity {}B", capacity.0);
    if limits.read_p50_us > DISK_READ_US {
        let iops = format!("--read-iops {:.1} --iops-depth 128", limits.read_iops);
        return format!(
            "raidlab model from-sheet --kind hdd {capacity}{} {iops} -o mine.toml",
            rate("--seq-read")
        );
    }
    format!(
        "raidlab model from-sheet --kind nvme {capacity}{} --read-iops {:.0} --read-latency {:.1}us --read-block {}B --measured -o mine.toml",
        rate("--seq-write"),
        limits.read_iops,
        limits.read_p50_us,
        plan.read_block
    )
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<MeasuredAnswer<'_>>();

/// What was measured, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct MeasuredAnswer<'a> {
    matrix: &'a Path,
    cells: usize,
    left_out: usize,
    capacity_bytes: u64,
    read_iops_max: f64,
    read_p50_us_alone: f64,
    write_mb_per_s_max: Option<f64>,
    from_sheet: String,
}
