//! `raidlab reproduce mlperf-storage-1.0`, and `--published FILE.csv` of the same columns: accelerators that storage keeps
//! busy, beside what was published.

use super::{Args, judge_errors};
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer};
use crate::progress::Progress;
use raidlab_advisor::ComparisonSummary;
use raidlab_papers::{
    TRAINING_ID, TrainingPrediction, TrainingReproduction, TrainingRow, builtin_training, host_figures,
    is_training, parse_training, predict_training, training_method,
};
use raidlab_report::terminal;
use raidlab_worlds::read_text;
use std::collections::{BTreeMap, BTreeSet};

/// The rows, if that is what is asked for.
pub(super) fn rows(args: &Args) -> Result<Option<Vec<TrainingRow>>, Failure> {
    let is_own = args.paper.as_deref() == Some(TRAINING_ID);
    match &args.published {
        Some(path) => {
            let text = read_text(path).map_err(Failure::input)?;
            if is_own || is_training(&text) {
                let file = path.display().to_string();
                return parse_training(&file, &text).map(Some).map_err(Failure::input);
            }
            Ok(None)
        }
        None if is_own => builtin_training().map(Some).map_err(Failure::run),
        None => Ok(None),
    }
}

/// Predicts them and shows what came of it.
pub(super) fn run(args: &Args, rows: &[TrainingRow], output: &Output) -> Result<Exit, Failure> {
    let file = args
        .published
        .as_ref()
        .map_or_else(|| format!("papers/{TRAINING_ID}/published.csv"), |path| path.display().to_string());
    if args.report.is_some() {
        return Err(Failure::input(anyhow::anyhow!("there is no HTML report of training runs"))
            .with_hint("leave --report out; --json has all figures"));
    }
    let catalog = args.catalog.load()?;
    let mut progress = Progress::start();
    let mut tell = |done: usize, all: usize| {
        progress.show(&format!("{done} of {all} runs predicted"), done as f64 / all.max(1) as f64);
    };
    let found = predict_training(&file, rows, &catalog, &mut tell).map_err(Failure::input)?;
    progress.end();
    if output.is_json() {
        print_answer(&found)?;
    } else {
        print(&as_text(&found, output)?)?;
    }
    Ok(judge_errors(args, &found.rates))
}

fn as_text(found: &TrainingReproduction, output: &Output) -> Result<String, Failure> {
    let method = training_method().map_err(Failure::run)?;
    let host = host_figures().map_err(Failure::run)?;
    let mut text = format!("{}\n{}\n\n", method.title, method.source());
    text += &summary("all runs", &found.rates, found.largest_near);
    text +=
        &summary("runs that nothing was fitted to", &found.rates_not_fitted, found.largest_near_not_fitted);
    for rows in found.rows.chunk_by(|row, next| row.system == next.system) {
        text += &table(rows, output);
    }
    text += &not_predicted(&found.rows);
    let fitted = found.rows.iter().filter(|row| row.fitted).count();
    let key = format!(
        "\nn: accelerators of the run; max: the largest number that is predicted to keep the bound.\n*: figures of hosts and of the \
         software target are fitted to {} runs, {fitted} of them here; drives are their data sheets.\n",
        host.fitted_rows.len()
    );
    text += &key;
    let assumed = method.assumed.iter().map(|assumption| format!("  assumed: {assumption}\n"));
    Ok(text + &assumed.collect::<String>())
}

/// The predicted runs of one system.
fn table(rows: &[TrainingPrediction], output: &Output) -> String {
    let cells: Vec<_> = rows.iter().filter_map(cells).collect();
    if cells.is_empty() {
        return String::new();
    }
    let header = ["run", "n", "max", "AU %", "here", "MiB/s", "here", "off %", "set by"];
    let table = terminal::table::<String>(&header, 1, vec![cells], output.terminal());
    let drives: BTreeSet<String> = rows
        .iter()
        .filter_map(|row| {
            Some(format!("drives: {}, modelled as {}\n", row.drives, row.predicted.as_ref()?.drive))
        })
        .collect();
    format!("\n{}\n{table}{}", rows[0].system, drives.into_iter().collect::<String>())
}

fn cells(row: &TrainingPrediction) -> Option<Vec<String>> {
    let it = row.predicted.as_ref()?;
    let off_pct = 100.0 * (it.mib_per_s / row.mib_per_s - 1.0);
    Some(vec![
        format!("{}{}", row.what, if row.fitted { " *" } else { "" }),
        row.accelerators.to_string(),
        it.accelerators_max.to_string(),
        format!("{:.1}", row.au_pct),
        format!("{:.1}", it.au_pct),
        format!("{:.0}", row.mib_per_s),
        format!("{:.0}", it.mib_per_s),
        format!("{off_pct:+.1}"),
        it.narrowest.to_owned(),
    ])
}

/// Why runs are not predicted, and how many of which systems.
fn not_predicted(rows: &[TrainingPrediction]) -> String {
    let mut by_reason: BTreeMap<&str, (u64, BTreeSet<&str>)> = BTreeMap::new();
    for (reason, row) in rows.iter().filter_map(|row| Some((row.not_modelled?, row))) {
        let (count, systems) = by_reason.entry(reason).or_default();
        *count += 1;
        systems.insert(row.system.as_str());
    }
    let told = by_reason.into_iter().map(|(reason, (count, systems))| {
        let systems: Vec<&str> = systems.into_iter().collect();
        format!("\nnot predicted, {count} runs: {reason}\n  {}\n", systems.join("\n  "))
    });
    told.collect()
}

fn summary(what: &str, rates: &ComparisonSummary, (near, of): (u64, u64)) -> String {
    let (Some(median), Some(p90)) = (rates.median_abs_error_pct, rates.p90_abs_error_pct) else {
        return String::new();
    };
    format!(
        "{what}: rates off by {median:.1} % at the median, {p90:.1} % at the 90th percentile;\n  the largest number of accelerators \
         right or one off in {near} of {of}\n"
    )
}
