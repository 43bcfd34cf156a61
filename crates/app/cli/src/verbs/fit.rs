//! `raidlab fit`: searches catalogue figures without a source, and reports the quality on rows that the search did not
//! use; with `--to`, figures that the user names, by runs of the user's own.

pub(super) mod runs;
mod text;

use crate::failure::{Exit, Failure};
use crate::inputs::{catalog_change, catalog_with};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer, remark};
use crate::progress::Progress;
use crate::schema::Form;
use crate::whole_file::{check_writable, rewrite, write_whole};
use raidlab::{Catalog, CatalogChange};
use raidlab_papers::{Fit, FitEffort, FitError, FitProgress, FitTask, Paper, fit};
use raidlab_study::RunOptions;
use raidlab_units::NanoSpan;
use raidlab_worlds::read_text;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Arguments of `raidlab fit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The paper; 'raidlab reproduce list' has them
    #[arg(value_name = "ID", required_unless_present = "to", conflicts_with = "to")]
    paper: Option<String>,
    #[command(flatten)]
    own: runs::OwnArgs,
    /// Search these alone, an entry or one of its figures; may be repeated. With --to, the figures to fit, ENTRY:KEY each
    #[arg(long, value_name = "ENTRY[:KEY]")]
    only: Vec<String>,
    /// Rounds over all figures at most; it ends sooner where nothing is gained
    #[arg(long, default_value_t = 6, value_name = "N")]
    rounds: u32,
    /// Points to try all over the bounds of each figure before the first round, for what small steps cannot see
    #[arg(long, default_value_t = 0, value_name = "N")]
    scan: u32,
    /// Virtual time before each window of the search, at most [default: the paper's]
    #[arg(long, value_name = "TIME", conflicts_with = "to")]
    ramp: Option<NanoSpan>,
    /// Length of each window of the search in virtual time [default: the paper's]
    #[arg(long, value_name = "TIME", conflicts_with = "to")]
    run: Option<NanoSpan>,
    /// Leave out to predict all rows with the paper's own windows before and after
    #[arg(long, conflicts_with = "to")]
    no_check: bool,
    /// Another value of a figure of the catalogue that is in effect all the time; may be repeated
    #[arg(long, value_parser = catalog_change, value_name = "ENTRY:KEY=VALUE")]
    set: Vec<CatalogChange>,
    /// Store the values with all residuals here [default: ID-fitted.toml]. With --to, the new file that the entry is written to
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Put the values and their source into the catalogue's files in this folder as well
    #[arg(long, value_name = "CATALOG", conflicts_with = "to")]
    write: Option<PathBuf>,
    /// Say what the present values come to and what depends on them; search and store nothing
    #[arg(long, conflicts_with_all = ["out", "write", "to"])]
    dry_run: bool,
    /// Threads; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
}

impl Args {
    /// Name of the paper; clap has made sure that there is one without `--to`.
    fn paper(&self) -> &str {
        self.paper.as_deref().unwrap_or_default()
    }

    /// The file that the values are stored in.
    fn result(&self) -> PathBuf {
        self.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}-fitted.toml", self.paper())))
    }
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    if args.paper.is_none() {
        return runs::run(args, output);
    }
    let paper = Paper::builtin(args.paper()).map_err(Failure::input)?;
    catalog_with(&[], &args.set)?;
    if let Some(folder) = &args.write {
        check_catalog(folder)?;
    }
    if !args.dry_run {
        check_writable(&args.result())?;
    }
    let found = search(args, &paper)?;
    let Some(found) = found else { return Ok(Exit::Interrupted) };
    if output.is_json() {
        print_answer(&Fitted { dry_run: args.dry_run, fit: &found })?;
    } else {
        print(&text::of(&found, args.dry_run, output))?;
    }
    if !args.dry_run {
        keep(args, &found)?;
    }
    Ok(if found.stopped { Exit::Interrupted } else { Exit::Done })
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Fitted<'_>>();

/// What was found, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Fitted<'a> {
    dry_run: bool,
    fit: &'a Fit,
}

/// Searches; none if stopped before there was anything to keep.
fn search(args: &Args, paper: &Paper) -> Result<Option<Fit>, Failure> {
    let task = FitTask {
        paper,
        only: &args.only,
        changes: &args.set,
        effort: FitEffort { ramp_max: args.ramp, run: args.run },
        rounds: if args.dry_run { 0 } else { args.rounds },
        scan: if args.dry_run { 0 } else { args.scan },
        check: !args.no_check && !args.dry_run,
        threads: args.threads.unwrap_or(RunOptions::default().threads),
    };
    let mut progress = Progress::start();
    let found = fit(
        &task,
        &cancel_flag("stopping; the best values found so far are kept (once more to stop at once)"),
        &mut |state| show(&mut progress, state),
    );
    progress.end();
    match found {
        Ok(found) => Ok(Some(found)),
        Err(FitError::Cancelled) => Ok(None),
        Err(error @ (FitError::Parameter(_) | FitError::UnknownOnly { .. } | FitError::NoRows { .. })) => {
            Err(Failure::input(error).with_hint("papers/ID/fit.toml names the figures and their bounds"))
        }
        Err(error) => Err(Failure::run(error)),
    }
}

fn show(progress: &mut Progress, state: &FitProgress<'_>) {
    let FitProgress { doing, rounds: (round, rounds), start, best, simulations, .. } = state;
    let gain = if start.is_finite() { format!(": {start:.4}, now {best:.4}") } else { String::new() };
    let round = (round + 1).min(*rounds);
    let label = format!("round {round} of {rounds}, {doing}{gain}, {simulations} simulations");
    progress.show(&label, state.fraction);
}

/// Stores what was found.
fn keep(args: &Args, found: &Fit) -> Result<(), Failure> {
    let path = args.result();
    write_whole(&path, found.as_file())?;
    remark(format_args!(
        "stored: {}; 'raidlab reproduce {} --fitted FILE' uses it",
        path.display(),
        args.paper()
    ));
    let Some(folder) = &args.write else { return Ok(()) };
    if !found.is_better() {
        remark(format_args!("the catalogue is as it was: these values are no better on the fitted rows"));
        return Ok(());
    }
    for change in found.changes() {
        let path = file_in(folder, &change.entry)?;
        let text = read_text(&path).map_err(Failure::run)?;
        let changed = change.applied_to(&path.display().to_string(), &text).map_err(Failure::input)?;
        rewrite(&path, changed.as_bytes())?;
        remark(format_args!("written: {} {} = {}", path.display(), change.key, change.value));
    }
    Ok(())
}

/// The file of `entry` in a catalogue at `folder`.
fn file_in(folder: &Path, entry: &str) -> Result<PathBuf, Failure> {
    let name = Catalog::file_of(entry).map_err(Failure::input)?;
    Ok(folder.join(name.strip_prefix("catalog/").unwrap_or(name)))
}

/// Finds out before the search whether `folder` is a catalogue.
fn check_catalog(folder: &Path) -> Result<(), Failure> {
    let controllers = folder.join("controllers");
    if controllers.is_dir() {
        return Ok(());
    }
    let problem = anyhow::anyhow!("{} is no catalogue: it has no folder 'controllers'", folder.display());
    Err(Failure::input(problem).with_hint("name the folder 'catalog' of the program's source"))
}
