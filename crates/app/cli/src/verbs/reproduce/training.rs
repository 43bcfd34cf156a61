//! `raidlab reproduce mlperf-storage-1.0`, and `--published FILE.csv` of the same columns: accelerators that storage keeps
//! busy, beside what was published.

use super::{Args, judge_errors};
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer};
use crate::progress::Progress;
use raidlab_advisor::ComparisonSummary;
use raidlab_papers::{
    Method, TRAINING_ID, TrainingPrediction, TrainingReproduction, TrainingRow, builtin_training,
    host_figures, is_training, predict_training, read_training, training_method,
};
use raidlab_report::terminal;
use raidlab_workload::toml_file::TomlFileError;
use raidlab_worlds::read_text;

/// The rows, if that is what is asked for.
pub(super) fn rows(args: &Args) -> Result<Option<Vec<TrainingRow>>, Failure> {
    let is_own = args.paper.as_deref() == Some(TRAINING_ID);
    match &args.published {
        Some(path) => {
            let text = read_text(path).map_err(Failure::input)?;
            if is_own || is_training(&text) {
                return read_training(path).map(Some).map_err(Failure::input);
            }
            Ok(None)
        }
        None if is_own => builtin_training().map(Some).map_err(Failure::run),
        None => Ok(None),
    }
}

/// How the runs were measured.
pub(super) fn method() -> Result<Method, TomlFileError> {
    training_method()
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
    let method = method().map_err(Failure::run)?;
    let host = host_figures().map_err(Failure::run)?;
    let mut text = format!("{}\n{}\n\n", method.title, method.source());
    text += &table(found, output);
    let fitted = found.rows.iter().filter(|row| row.fitted).count();
    let told = format!(
        "\nThe figures of hosts and of the software target are fitted to {} rows, {fitted} of them in this file; drives are \
         their data sheets.\n",
        host.fitted_rows.len()
    );
    text += &told;
    let assumed = method.assumed.iter().map(|assumption| format!("  assumed: {assumption}\n"));
    Ok(text + &assumed.collect::<String>())
}

/// Each row, and what they amount to.
fn table(found: &TrainingReproduction, output: &Output) -> String {
    let header = [
        "row",
        "AU %",
        "predicted",
        "MiB/s",
        "predicted",
        "off %",
        "accelerators",
        "at most",
        "narrowest",
        "",
    ];
    let rows = found.rows.iter().filter_map(cells).collect();
    let mut text = terminal::table::<String>(&header, 1, vec![rows], output.terminal());
    text.extend(
        found
            .rows
            .iter()
            .filter_map(|row| Some(format!("  not predicted: {}: {}\n", short(&row.id), row.not_modelled?))),
    );
    text += &summary("all rows", &found.rates, found.largest_near);
    text + &summary("rows that nothing was fitted to", &found.rates_not_fitted, found.largest_near_not_fitted)
}

fn cells(row: &TrainingPrediction) -> Option<Vec<String>> {
    let it = row.predicted.as_ref()?;
    let off_pct = 100.0 * (it.mib_per_s / row.mib_per_s - 1.0);
    Some(vec![
        short(&row.id).to_owned(),
        format!("{:.1}", row.au_pct),
        format!("{:.1}", it.au_pct),
        format!("{:.0}", row.mib_per_s),
        format!("{:.0}", it.mib_per_s),
        format!("{off_pct:+.1}"),
        row.accelerators.to_string(),
        it.accelerators_max.to_string(),
        it.narrowest.to_owned(),
        if row.fitted { "fitted" } else { "" }.to_owned(),
    ])
}

/// Without what all ids have.
fn short(id: &str) -> &str {
    id.strip_prefix("mlperf.").unwrap_or(id)
}

fn summary(what: &str, rates: &ComparisonSummary, (near, of): (u64, u64)) -> String {
    let (Some(median), Some(p90)) = (rates.median_abs_error_pct, rates.p90_abs_error_pct) else {
        return String::new();
    };
    format!(
        "{what}: the median absolute error of the rates is {median:.1} %, the 90th percentile {p90:.1} %; the largest number \
         is right or one off in {near} of {of}\n"
    )
}
