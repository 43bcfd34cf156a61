//! `raidlab fit`: fits the free figures of the catalogue to a paper, or proves that the catalogue has the fitted ones.

use crate::failure::{Exit, Failure};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_json};
use crate::progress::Progress;
use raidlab_advisor::{Comparison, ComparisonRow, ComparisonSummary};
use raidlab_lab::{
    Fit, FitOutcome, FitProgress, Paper, PredictError, Residual, RunOptions, StoredFit, paper_ids,
};
use serde_json::json;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// Arguments of `raidlab fit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The paper; its study says what is free, within which bounds, and which rows it is fitted to
    #[arg(required_unless_present = "check", value_name = "ID")]
    paper: Option<String>,
    /// Only prove that the catalogue has the values of the kept fit, of all papers unless one is named
    #[arg(long, conflicts_with_all = ["trials", "output", "threads"])]
    check: bool,
    /// Sets of values to try at most [default: as the study has it]
    #[arg(long, value_name = "N")]
    trials: Option<NonZeroU32>,
    /// Where to keep the values and residuals [default: papers/ID/fit.toml, or ID.fit.toml where there is no such folder]
    #[arg(long, short, value_name = "FILE.toml")]
    output: Option<PathBuf>,
    /// Threads; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    match (&args.paper, args.check) {
        (Some(id), false) => fit(args, &paper(id)?, output),
        (id, _) => check(id.as_deref(), output),
    }
}

fn paper(id: &str) -> Result<Paper, Failure> {
    Paper::builtin(id).map_err(Failure::input)
}

/// Compares the kept fit of one paper, or of all that have one, with the catalogue.
fn check(id: Option<&str>, output: &Output) -> Result<Exit, Failure> {
    let ids: Vec<&str> = id.map_or_else(|| paper_ids().collect(), |id| vec![id]);
    let mut checked = Vec::new();
    for id in ids.iter().copied() {
        let paper = paper(id)?;
        let (Some(method), Some(kept)) = (&paper.method.fit, &paper.kept_fit) else {
            if ids.len() == 1 {
                return Err(Failure::input(anyhow::anyhow!("paper '{id}' has no kept fit")));
            }
            continue;
        };
        kept.check(method).map_err(|error| Failure::run(error).context(id.to_owned()))?;
        checked.push((id, kept.parameters.len()));
    }
    if output.is_json() {
        let rows: Vec<_> =
            checked.iter().map(|(id, count)| json!({ "paper": id, "figures": count })).collect();
        print_json(&json!({ "schema": 1, "checked": rows }))?;
    } else {
        for (id, count) in checked {
            print(&format!("{id}: the catalogue has the {count} values of the kept fit\n"))?;
        }
    }
    Ok(Exit::Done)
}

fn fit(args: &Args, paper: &Paper, output: &Output) -> Result<Exit, Failure> {
    let threads = args.threads.unwrap_or(RunOptions::default().threads);
    let fit = Fit::new(paper, threads).map_err(Failure::input)?;
    let trials = args.trials.unwrap_or(fit.method().trials).get();
    let mut progress = Progress::start();
    let mut tell = |at: FitProgress| {
        let best = at.best_error_pct.map_or(String::new(), |best| format!(", best so far {best:.2} %"));
        let label = format!("trial {} of at most {}{best}", at.trials + 1, at.trials_max);
        progress.show(&label, f64::from(at.trials) / f64::from(at.trials_max));
    };
    let outcome = fit.run(trials, &cancel_flag(), &mut tell);
    progress.end();
    let outcome = match outcome {
        Err(raidlab_lab::FitError::Predict(PredictError::Cancelled)) => return Ok(Exit::Interrupted),
        outcome => outcome.map_err(Failure::run)?,
    };
    let kept = StoredFit::of(&paper.method.id, paper.method.seed, fit.method(), fit.fitted(), &outcome);
    let path = args.output.clone().unwrap_or_else(|| default_path(&paper.method.id));
    let written = std::fs::write(&path, kept.to_toml());
    written.map_err(|error| Failure::run(error).context(format!("{} cannot be written", path.display())))?;
    if output.is_json() {
        print_json(&json!({ "schema": 1, "file": path, "fit": kept }))?;
    } else {
        print(&as_text(&fit, &outcome))?;
        print(&format!("Kept in {}. The catalogue's files are for you to change.\n", path.display()))?;
    }
    Ok(if outcome.was_stopped { Exit::Interrupted } else { Exit::Done })
}

fn default_path(id: &str) -> PathBuf {
    let folder = PathBuf::from("papers").join(id);
    if folder.is_dir() { folder.join("fit.toml") } else { PathBuf::from(format!("{id}.fit.toml")) }
}

fn as_text(fit: &Fit<'_>, outcome: &FitOutcome) -> String {
    let mut text = String::new();
    for (parameter, (before, after)) in fit.parameters().iter().zip(&outcome.values) {
        text += &format!(
            "{}: {} -> {} (from {} to {})\n",
            parameter.name(),
            parameter.written(*before),
            parameter.written(*after),
            parameter.from,
            parameter.to
        );
    }
    let (before, after) = (outcome.before.residuals(fit.fitted()), outcome.after.residuals(fit.fitted()));
    for fitted in [true, false] {
        let name = if fitted { "fitted" } else { "not fitted" };
        for (before, after) in before.iter().zip(&after).filter(|(before, _)| before.fitted == fitted) {
            text += &format!(
                "{name:<10}  {:<52} {:>10.1} {:>10.1} ({:>+6.1} %) -> {:>10.1} ({:>+6.1} %)\n",
                before.id,
                before.published,
                before.predicted,
                before.error_pct(),
                after.predicted,
                after.error_pct()
            );
        }
        text += &format!("{name}: {} -> {}\n", summary(&before, fitted), summary(&after, fitted));
    }
    let ending = match (outcome.was_stopped, outcome.is_complete) {
        (true, _) => "stopped; this is the best so far",
        (false, true) => "no finer step helps",
        (false, false) => "out of trials",
    };
    let (before, after) = outcome.error_pct;
    text + &format!(
        "{} sets of values tried, {ending}: root of the mean square error of the fitted figures {before:.2} % -> {after:.2} %.\n",
        outcome.trials
    )
}

/// Median and 90th percentile of the absolute errors.
fn summary(residuals: &[Residual], fitted: bool) -> String {
    let rows = residuals.iter().filter(|residual| residual.fitted == fitted).filter_map(|residual| {
        ComparisonRow::of(residual.id.clone(), String::new(), residual.published, residual.predicted)
    });
    match Comparison::of(rows.collect()).summary {
        ComparisonSummary { rows, median_abs_error_pct: Some(median), p90_abs_error_pct: Some(p90) } => {
            format!("{rows} figures, median absolute error {median:.1} %, 90th percentile {p90:.1} %")
        }
        _ => "no figures".to_owned(),
    }
}
