//! `raidlab fit --to`: figures of the catalogue by runs of the user's own.

use super::Args;
use crate::failure::{Exit, Failure};
use crate::inputs::CatalogArgs;
use crate::output::{Output, print, print_answer, remark};
use crate::progress::Progress;
use crate::schema::Form;
use crate::verbs::import::foreign_runs;
use crate::verbs::keep::DbArgs;
use crate::verbs::simulate::bad_array;
use crate::whole_file::{check_writable, write_whole};
use raidlab::{
    Array, Catalog, CatalogChange, DriveHistory, FitOfRuns, FitOfRunsError, FitOfRunsTask, FittedTo,
    OwnHardware, PredictionError, Run, WritePolicy, fit_runs,
};
use raidlab_report::terminal::{broken, table};
use raidlab_store::RunSelector;
use raidlab_units::counted;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Points that are tried all over the range of each figure, where nobody says.
const SCAN: u32 = 11;

/// Arguments of `--to`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Fitted to runs of your own")]
pub(super) struct OwnArgs {
    /// What is fitted to: a run 12, 3..7, study:2 or tag:NAME of the results file, or a file of results of fio (JSON); may be repeated
    #[arg(long, value_name = "RUNS|FILE.json", requires = "only")]
    to: Vec<String>,
    /// The array that was measured (TOML)
    #[arg(long, value_name = "FILE.toml", requires = "to", conflicts_with_all = ["drive", "controller"])]
    array: Option<PathBuf>,
    /// The drive that was measured, alone, by its name in the catalogue
    #[arg(long, value_name = "ID", requires_all = ["to", "controller"])]
    drive: Option<String>,
    /// What it is plugged into, by its name in the catalogue
    #[arg(long, value_name = "ID", requires_all = ["to", "drive"])]
    controller: Option<String>,
    /// What was done to the solid-state drives before: fresh, sequential, random, or random:N [default: random:3]
    #[arg(long, value_name = "CONDITION", requires = "to")]
    condition: Option<DriveHistory>,
    /// Name of the new entry [default: that of the old one with -fitted]
    #[arg(long, value_name = "ID", requires_all = ["to", "out"])]
    id: Option<String>,
    /// Write values at a bound of the search, too, and those that the runs do not tell
    #[arg(long, requires_all = ["to", "out"])]
    untold: bool,
    #[command(flatten)]
    place: DbArgs,
    /// Know the hardware in this file, too, or in all .toml files of this folder; may be repeated
    #[arg(long, value_name = "FILE.toml|FOLDER", requires = "to")]
    catalog: Vec<PathBuf>,
}

/// Runs the verb.
pub(super) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let own = &args.own;
    if let Some(path) = &args.out {
        check_writable(path)?;
    }
    let hardware = CatalogArgs::of(own.catalog.clone(), args.set.clone()).own_hardware(None)?;
    Catalog::with(&hardware.files, &hardware.changes).map_err(Failure::input)?;
    let array = own.array()?;
    let mut runs = Vec::new();
    for to in &own.to {
        runs.extend(own.runs(to)?);
    }
    let task = FitOfRunsTask {
        array: &array,
        files: &hardware.files,
        changes: &hardware.changes,
        figures: &args.only,
        runs: &runs,
        rounds: args.rounds,
        // What is far off is found by no steps.
        scan: if args.scan == 0 { SCAN } else { args.scan },
        threads: args.threads,
    };
    let mut progress = Progress::start();
    let found = fit_runs(&task, &mut |doing, done| progress.show(doing, done));
    progress.end();
    let found = found.map_err(failed)?;
    if output.is_json() {
        print_answer(&Answer { fit_of_runs: &found })?;
    } else {
        print(&as_text(&found, output))?;
    }
    if let Some(path) = &args.out {
        keep(args, &found, &hardware, path)?;
    }
    Ok(Exit::Done)
}

/// The form of its answer.
pub(in crate::verbs) const FORM: Form = Form::whole::<Answer<'_>>();

/// What was found, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Answer<'a> {
    fit_of_runs: &'a FitOfRuns,
}

impl OwnArgs {
    /// What was measured.
    fn array(&self) -> Result<Array, Failure> {
        let array = match (&self.array, &self.drive, &self.controller) {
            (Some(path), ..) => Array::read(path).map_err(Failure::input)?,
            (None, Some(drive), Some(controller)) => {
                let alone = "jbod".parse().map_err(Failure::run)?;
                Array::new(alone, 1, drive, controller).write_policy(WritePolicy::WriteThrough)
            }
            _ => {
                let problem = anyhow::anyhow!("--to needs what was measured");
                return Err(Failure::input(problem).with_hint(
                    "name --drive ID and --controller ID, hba-9500-16i for a host adapter and linux-md-nvme for NVMe drives, or give --array FILE.toml",
                ));
            }
        };
        Ok(array.condition(self.condition, None))
    }

    /// The runs that `to` names.
    fn runs(&self, to: &str) -> Result<Vec<(String, Run)>, Failure> {
        let path = Path::new(to);
        let is_file = path.extension().is_some_and(|it| it == "json" || it == "gz" || it == "zst");
        if is_file || path.is_file() {
            let runs = foreign_runs(path)?;
            let name = |(number, run): (usize, Run)| (format!("{to}, job {number}"), run);
            return Ok((1..).zip(runs).map(name).collect());
        }
        let selector: RunSelector = to.parse().map_err(|error| {
            Failure::input(error).with_hint("or name a file that fio wrote with --output-format=json")
        })?;
        let runs = self.place.runs(&[selector])?;
        Ok(runs.into_iter().map(|run| (format!("run {}", run.id), run.result)).collect())
    }
}

fn failed(error: FitOfRunsError) -> Failure {
    let error = match error {
        FitOfRunsError::Setup(PredictionError::Array(error)) => return bad_array(*error),
        error => error,
    };
    let hint = match &error {
        FitOfRunsError::UnknownFigure { .. } | FitOfRunsError::Figure(_) => {
            "'raidlab catalog ENTRY' lists the figures of an entry; numbers above zero can be fitted"
        }
        FitOfRunsError::NoLines { .. } => {
            "leave that run out; runs of 'measure', and of fio with one kind of job each, say it"
        }
        FitOfRunsError::NoFigures { .. } => "name runs of 'measure', or results of fio",
        _ => return Failure::input(error),
    };
    Failure::input(error).with_hint(hint)
}

fn as_text(found: &FitOfRuns, output: &Output) -> String {
    let terminal = output.terminal();
    let mut text = broken(&found.array, terminal.width);
    let row = |figure: &FittedTo| {
        let interval = match (&figure.low, &figure.high) {
            (Some(low), Some(high)) => format!("{low} to {high}"),
            _ => "not known".to_owned(),
        };
        let end = if figure.at_bound { "at its bound" } else { "" };
        vec![
            format!("{}:{}", figure.entry, figure.key),
            figure.was.clone(),
            figure.value.clone(),
            interval,
            end.to_owned(),
        ]
    };
    let rows = found.figures.iter().map(row).collect();
    text += &table(&["Figure", "Was", "Is", "95 % interval", ""], 1, vec![rows], terminal);
    for untold in &found.untold {
        let sentence = match &untold.figures[..] {
            [one] => format!(
                "These runs do not tell {one}: it may be much more or less, and they would be the same."
            ),
            several => format!(
                "These runs do not tell these apart, one makes up for the other: {}. Add runs of another size, iodepth or direction, or fit fewer of them.",
                several.join(", ")
            ),
        };
        text += &broken(&sentence, terminal.width);
    }
    for figure in found.figures.iter().filter(|figure| figure.at_bound) {
        let sentence = format!(
            "The search of {}:{} ended at its bound, {}: what fits best lies beyond, or another figure is wrong.",
            figure.entry, figure.key, figure.value
        );
        text += &broken(&sentence, terminal.width);
    }
    let rows = found.runs.iter().flat_map(|run| {
        run.before.iter().zip(&run.after).enumerate().map(|(index, (before, after))| {
            let name = if index == 0 { run.name.clone() } else { String::new() };
            let off = |pct: f64| format!("{:+.1} %", 100.0 * (100.0 / (100.0 + pct) - 1.0));
            vec![name, before.name.to_owned(), off(before.difference_pct), off(after.difference_pct)]
        })
    });
    let rows = rows.collect();
    text += "\n";
    text += &table(&["Predicted", "figure", "before", "after"], 2, vec![rows], terminal);
    let _ = writeln!(
        text,
        "\noff by {:.1} % on average before, {:.1} % after; {}",
        found.off_pct_before,
        found.off_pct_after,
        counted(found.simulations, "simulation")
    );
    text
}

/// Writes the new entry.
fn keep(args: &Args, found: &FitOfRuns, hardware: &OwnHardware, path: &Path) -> Result<(), Failure> {
    let (changes, left_out): (Vec<&FittedTo>, Vec<&FittedTo>) =
        found.changes().partition(|it| it.is_told() || args.own.untold);
    for it in left_out {
        let why = if it.at_bound { "lies at the bound of the search" } else { "is not told by these runs" };
        remark(format_args!("not written: {}:{} = {} {why}; --untold writes it", it.entry, it.key, it.value));
    }
    let mut entries: Vec<&str> = changes.iter().map(|it| it.entry.as_str()).collect();
    entries.dedup();
    let entry = match entries[..] {
        [entry] => entry,
        [] => {
            remark(format_args!("no figure was found that is better: {} is not written", path.display()));
            return Ok(());
        }
        _ => {
            let problem =
                anyhow::anyhow!("figures of {} were fitted, and a file has one entry", entries.join(" and "));
            return Err(Failure::input(problem)
                .with_hint("fit figures of one entry at a time with --out, or leave --out out"));
        }
    };
    let own = hardware.files.iter().find(|file| is_of(&file.text, entry));
    let (file, mut text) = match own {
        Some(file) => (file.name.clone(), file.text.clone()),
        None => (entry.to_owned(), Catalog::text_of(entry).map_err(Failure::input)?.to_owned()),
    };
    let id = args.own.id.clone().unwrap_or_else(|| format!("{entry}-fitted"));
    let to = args.own.to.join(", ").replace(['"', '\\'], "");
    let set = hardware.changes.iter().filter(|change| change.entry == entry).cloned();
    let fitted = changes.iter().map(|figure| {
        let range = match (&figure.low, &figure.high) {
            _ if figure.at_bound => "at the bound of the search".to_owned(),
            (Some(low), Some(high)) => format!("{low} to {high} at 95 %"),
            _ => "those runs do not tell it from others".to_owned(),
        };
        CatalogChange {
            entry: entry.to_owned(),
            key: figure.key.clone(),
            value: figure.value.clone(),
            source: Some(format!("fitted: by 'raidlab fit --to {to}', {range}")),
        }
    });
    let name = CatalogChange { entry: entry.to_owned(), key: "id".into(), value: id.clone(), source: None };
    for change in set.chain(fitted).chain([name]) {
        text = change.applied_to(&file, &text).map_err(Failure::input)?;
    }
    // It must be what the catalogue reads.
    let mut catalog = Catalog::with(&hardware.files, &[]).map_err(Failure::input)?;
    catalog.add("the new entry", &text).map_err(Failure::input)?;
    write_whole(path, &text)?;
    remark(format_args!(
        "written: {}; 'raidlab simulate --catalog {} ...' knows it as {id}",
        path.display(),
        path.display()
    ));
    Ok(())
}

/// Whether `text` is the entry called `id`.
fn is_of(text: &str, id: &str) -> bool {
    text.lines().any(|line| {
        line.split_once('=')
            .is_some_and(|(key, value)| key.trim() == "id" && value.trim().trim_matches('"') == id)
    })
}
