//! `raidlab reproduce mlperf-storage-1.0`, and `--published FILE.csv` of the same columns: accelerators that storage keeps
//! busy, beside what was published.

use super::{Args, judge_errors};
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer};
use crate::progress::Progress;
use crate::verbs::report::write_page;
use crate::whole_file::check_writable;
use raidlab_advisor::{Comparison, ComparisonRow, ComparisonSummary, PlaceSummary, kendall_tau};
use raidlab_papers::{
    Method, TRAINING_ID, TrainingPoint, TrainingPrediction, TrainingReproduction, TrainingRow,
    builtin_training, host_figures, is_training, parse_training, predict_training, training_method,
};
use raidlab_report::{Document, FedCurve, FedPlace, PaperPlace, PaperReport, PaperRow, page, terminal};
use raidlab_units::counted;
use raidlab_workload::OfferedLoad;
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
    let is_own = args.published.is_some();
    if let Some(path) = &args.report {
        check_writable(path)?;
    }
    let catalog = args.catalog.load()?;
    let mut progress = Progress::start();
    let mut tell = |done: usize, all: usize| {
        progress.show(
            &format!("{done} of {} predicted", counted(all as u64, "run")),
            done as f64 / all.max(1) as f64,
        );
    };
    let found = predict_training(&file, rows, &catalog, &mut tell).map_err(Failure::input)?;
    progress.end();
    if output.is_json() {
        print_answer(&found)?;
    } else {
        print(&as_text(&found, is_own, output)?)?;
    }
    if let Some(path) = &args.report {
        write_page(path, &page(&found, is_own)?)?;
    }
    Ok(judge_errors(args, &found.rates))
}

/// Title and source: of a file of the user it is that.
fn head(found: &TrainingReproduction, method: &Method, is_own: bool) -> (String, String) {
    if is_own {
        return (format!("Training runs of {}", found.file), "figures of the user".to_owned());
    }
    (method.title.clone(), method.source())
}

fn as_text(found: &TrainingReproduction, is_own: bool, output: &Output) -> Result<String, Failure> {
    let method = training_method().map_err(Failure::run)?;
    let host = host_figures().map_err(Failure::run)?;
    let (title, source) = head(found, &method, is_own);
    let mut text = format!("{title}\n{source}\n\n");
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
         software target are fitted to {}, {fitted} of them here; drives are their data sheets.\n",
        counted(host.fitted_rows.len() as u64, "run")
    );
    text += &key;
    text.extend(method.assumed.iter().map(|assumption| format!("  assumed: {assumption}\n")));
    Ok(terminal::broken(&text, output.terminal().width))
}

/// The page: each system with utilisation and rate against the number of accelerators.
fn page(found: &TrainingReproduction, is_own: bool) -> Result<Document, Failure> {
    let method = training_method().map_err(Failure::run)?;
    let of_system = |rows: &[TrainingPrediction]| {
        let compared: Vec<PaperRow> = rows.iter().filter_map(row).collect();
        let rates = |wanted: &dyn Fn(&PaperRow) -> bool| {
            let rows = compared.iter().filter(|row| wanted(row)).map(|row| row.comparison.clone());
            Comparison::of(rows.collect()).summary
        };
        let pairs = compared.iter().map(|row| (row.comparison.published, row.comparison.predicted));
        let summary = PlaceSummary {
            place: rows[0].system.clone(),
            summary: rates(&|_| true),
            summary_not_fitted: rates(&|row| !row.fitted),
            kendall_tau: kendall_tau(pairs),
        };
        let fed = rows.iter().filter_map(curve).collect();
        PaperPlace { summary, rows: compared, fed }
    };
    let systems = found.rows.chunk_by(|row, next| row.system == next.system);
    let places: Vec<PaperPlace> = systems.map(of_system).filter(|place| !place.rows.is_empty()).collect();
    let near = |(near, of): (u64, u64)| format!("right or one off in {near} of {of}");
    let mut notes = vec![format!(
        "The largest number of accelerators that keeps the bound is {}, and {} of the runs that nothing was fitted to.",
        near(found.largest_near),
        near(found.largest_near_not_fitted)
    )];
    notes.extend(
        not_predicted(&found.rows)
            .split("\n\n")
            .map(|text| text.trim().replace('\n', " "))
            .filter(|text| !text.is_empty()),
    );
    let (title, source) = head(found, &method, is_own);
    Ok(page::paper(&PaperReport {
        title: &title,
        source: &source,
        method: method.method.clone(),
        assumed: method.assumed.clone(),
        notes,
        summary: found.rates,
        summary_not_fitted: found.rates_not_fitted,
        places,
    }))
}

/// The rate of a run beside what was published.
fn row(row: &TrainingPrediction) -> Option<PaperRow> {
    let it = row.predicted.as_ref()?;
    let id = format!("{}, {}", row.what, OfferedLoad::Accelerators(row.accelerators));
    let comparison = ComparisonRow::of(id, "mib_per_s".to_owned(), row.mib_per_s, it.mib_per_s)?;
    let fitted = if row.fitted { ", fitted to" } else { "" };
    let note = format!("feeds {} at most, set by {}{fitted}", it.accelerators_max, it.narrowest);
    Some(PaperRow { comparison, fitted: row.fitted, note })
}

fn curve(row: &TrainingPrediction) -> Option<FedCurve> {
    let point = |it: &TrainingPoint| FedPlace {
        accelerators: it.accelerators,
        au_pct: it.au_pct,
        rate: it.mib_per_s,
    };
    let published = FedPlace { accelerators: row.accelerators, au_pct: row.au_pct, rate: row.mib_per_s };
    Some(FedCurve {
        name: row.what.clone(),
        au_goal_pct: row.au_goal_pct,
        points: row.predicted.as_ref()?.curve.iter().map(point).collect(),
        published: Some(published),
    })
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
        format!("\nnot predicted, {}: {reason}\n  {}\n", counted(count, "run"), systems.join("\n  "))
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
