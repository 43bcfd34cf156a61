//! `raidlab reproduce`: predicts published figures and relative claims, and compares.

mod bottleneck;
mod claims;
mod report;

use super::keep::{KeepDbArgs, Planned};
use crate::failure::{Exit, Failure};
use crate::hosts::{RankArgs, only_alone};
use crate::inputs::{CatalogArgs, on_or_off, window};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_json, remark};
use crate::progress::Progress;
use crate::whole_file::check_writable;
use raidlab_advisor::ComparisonSummary;
use raidlab_hosts::Hosts;
use raidlab_machine::Environment;
use raidlab_papers::{
    Claim, ClaimPrediction, FittedFigure, Method, MetricCorrection, Paper, PaperError, PredictError,
    PredictOptions, PredictTask, Prediction, PublishedRow, paper_ids, predict, predict_claims,
    read_published,
};
use raidlab_report::terminal::places;
use raidlab_study::{RunOptions, claim_runs, predicted_runs};
use raidlab_units::{ByteCount, NanoSpan};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::SystemTime;

/// Arguments of `raidlab reproduce`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// `list`, or the id of a paper
    #[arg(required_unless_present = "published", value_name = "list|ID")]
    paper: Option<String>,
    /// Only the figures of this table of the paper
    #[arg(long, value_name = "N", requires = "paper", conflicts_with = "published")]
    table: Option<String>,
    /// Predict the figures of this file instead; its columns are those of the papers' files. They are simulated as those of the
    /// paper ID; without it each as those of the paper that has its system or workload
    #[arg(long, value_name = "FILE.csv")]
    published: Option<PathBuf>,
    /// Predict the paper's claims that stand in this file instead of those built in
    #[arg(long, value_name = "FILE.csv", requires = "paper", conflicts_with_all = ["published", "table"])]
    claims: Option<PathBuf>,
    /// Length of a strip, where it is not as the paper or the controller has it
    #[arg(long, value_name = "SIZE")]
    strip_size: Option<ByteCount>,
    /// Virtual time before each measured window [default: that of the paper with these systems, or 300s, and 5s for write-through]
    #[arg(long, value_name = "TIME")]
    ramp: Option<NanoSpan>,
    /// Length of each measured window in virtual time [default: the paper's, or 20s]
    #[arg(long, value_parser = window, value_name = "TIME")]
    run: Option<NanoSpan>,
    /// Seed of everything random [default: the paper's, or 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    catalog: CatalogArgs,
    /// Write an HTML report with charts of every table here; it opens without a network
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Threads; all processors by default
    #[arg(long, value_name = "N")]
    threads: Option<std::num::NonZeroUsize>,
    /// Find out what sets the pace of each simulated volume, by running parts of its load again with each part of the hardware 10 %
    /// faster: on, off [default: off]
    #[arg(long, value_parser = on_or_off, value_name = "on|off")]
    bottleneck: Option<bool>,
    /// End with code 3 if the median absolute error is above this
    #[arg(long, value_parser = error_bound, value_name = "PCT")]
    max_median_error: Option<f64>,
    /// End with code 3 if the 90th percentile of the absolute errors is above this
    #[arg(long, value_parser = error_bound, value_name = "PCT")]
    max_p90_error: Option<f64>,
    #[command(flatten)]
    keep: KeepDbArgs,
    #[command(flatten)]
    pub(crate) ranks: RankArgs,
}

/// Settings of files whose systems no paper measured.
const FILE_OPTIONS: PredictOptions = PredictOptions {
    strip_size: None,
    drives_per_volume: None,
    ramp: NanoSpan::from_secs(300),
    ramp_write_through: NanoSpan::from_secs(5),
    run: NanoSpan::from_secs(20),
    seed: 1,
};

/// Figures and how they are to be predicted.
struct Figures {
    /// Name of their file, for messages.
    file: String,
    /// How they were measured, if that is known.
    method: Option<Method>,
    rows: Vec<PublishedRow>,
    /// Name of the file of the claims, for messages.
    claims_file: String,
    claims: Vec<Claim>,
    /// Ids of rows that the model was fitted to, whether they are among these or not.
    fitted_rows: Vec<String>,
    /// Ids of the papers that figures of a file are taken as the figures of.
    papers: Vec<String>,
    /// Where the figures count something else than their metric says.
    corrections: Vec<MetricCorrection>,
    options: PredictOptions,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    if args.paper.as_deref() == Some("list") && args.published.is_none() {
        only_alone("reproduce list", hosts)?;
        return list(output);
    }
    if let Some(path) = &args.report
        && hosts.leads()
    {
        check_writable(path)?;
    }
    let figures = load(args)?;
    let started_at = SystemTime::now();
    let catalog = args.catalog.load()?;
    let task = PredictTask {
        file: &figures.file,
        rows: &figures.rows,
        fitted_rows: &figures.fitted_rows,
        options: figures.options,
        catalog: &catalog,
        threads: args.threads.unwrap_or(RunOptions::default().threads),
        finds_bottleneck: args.bottleneck == Some(true),
    };
    let predicted = predict_all(&figures, &task, hosts);
    let (prediction, claims) = match predicted {
        Err(PredictError::Cancelled) => return Ok(Exit::Interrupted),
        Err(error @ PredictError::Rows(_)) => {
            return Err(Failure::input(error)
                .with_hint("'raidlab catalog' and 'raidlab workloads' list what is known"));
        }
        Err(PredictError::Hosts(error)) => return Err(Failure::run(error)),
        predicted => predicted.map_err(Failure::run)?,
    };
    if hosts.leads() {
        show(args, &figures, (prediction.as_ref(), claims.as_ref()), started_at, output)?;
    }
    let summaries = prediction.iter().map(|prediction| prediction.summary);
    let summaries = summaries.chain(claims.iter().map(|claims| claims.summary.errors));
    let missed = summaries.map(|summary| judge(args, &summary, hosts)).find(|exit| *exit != Exit::Done);
    Ok(missed.unwrap_or(Exit::Done))
}

/// Keeps, prints and reports.
fn show(
    args: &Args,
    figures: &Figures,
    (prediction, claims): (Option<&Prediction>, Option<&ClaimPrediction>),
    started_at: SystemTime,
    output: &Output,
) -> Result<(), Failure> {
    keep(args, figures, (prediction, claims), started_at)?;
    if output.is_json() {
        print_json(&as_json(figures, prediction, claims))?;
    } else {
        print(&as_text(figures, prediction, claims, output))?;
    }
    if let Some(path) = &args.report {
        report::write(path, figures, prediction, claims)?;
    }
    Ok(())
}

/// Keeps a run for each simulated configuration.
fn keep(
    args: &Args,
    figures: &Figures,
    (prediction, claims): (Option<&Prediction>, Option<&ClaimPrediction>),
    started_at: SystemTime,
) -> Result<(), Failure> {
    let mut results = prediction.map_or_else(Vec::new, predicted_runs);
    results.extend(claims.map_or_else(Vec::new, claim_runs));
    let title = figures.method.as_ref().map_or(&figures.file, |method| &method.title);
    let planned = Planned {
        kind: "reproduce",
        title: format!("reproduce {title}"),
        method: format!("Configurations of {}, simulated.", figures.file),
        runs: results.len() as u64,
        seed: figures.options.seed,
        configuration: serde_json::to_string(&figures.options).map_err(Failure::run)?,
    };
    args.keep.keep(planned, Environment::of_machine(), started_at, results)
}

/// Predicts the rows, if there are any, and the claims, if there are any.
fn predict_all(
    figures: &Figures,
    task: &PredictTask<'_>,
    hosts: &mut Hosts,
) -> Result<(Option<Prediction>, Option<ClaimPrediction>), PredictError> {
    let mut progress = Progress::start_on(hosts);
    let mut tell = |finished: usize, planned: usize| {
        let label = format!("{finished} of {planned} configurations simulated");
        progress.show(&label, finished as f64 / planned.max(1) as f64);
    };
    let cancel = cancel_flag("stopping (once more to stop at once)");
    let rows = (!figures.rows.is_empty()).then(|| predict(task, hosts, &cancel, &mut tell)).transpose();
    let claims = rows.and_then(|rows| {
        let method = figures.method.as_ref().and_then(|method| method.claims.as_ref());
        let method = method.filter(|_| !figures.claims.is_empty());
        let task = PredictTask { file: &figures.claims_file, ..*task };
        let claims =
            method.map(|method| predict_claims(&task, &figures.claims, method, (hosts, &cancel), &mut tell));
        Ok((rows, claims.transpose()?))
    });
    progress.end();
    claims
}

fn list(output: &Output) -> Result<Exit, Failure> {
    let papers = paper_ids().map(Paper::builtin).collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    if output.is_json() {
        let rows: Vec<Value> = papers
            .iter()
            .map(|paper| json!({ "method": paper.method, "places": paper.places(), "figures": paper.rows.len(), "claims": paper.claims.len() }))
            .collect();
        print_json(&json!({ "schema": 1, "papers": rows }))?;
        return Ok(Exit::Done);
    }
    for paper in &papers {
        let method = &paper.method;
        let figures = match paper.rows.len() {
            0 => None,
            count => Some(format!("{count} figures in {}", paper.places().join(", "))),
        };
        let claims = (!paper.claims.is_empty()).then(|| format!("{} claims", paper.claims.len()));
        let text = format!(
            "{}  {}\n  {}\n  {}",
            method.id,
            figures.into_iter().chain(claims).collect::<Vec<_>>().join(", and "),
            method.title,
            method.source()
        );
        print(&text)?;
    }
    Ok(Exit::Done)
}

fn load(args: &Args) -> Result<Figures, Failure> {
    let mut figures = match (&args.published, &args.paper) {
        (Some(path), id) => {
            let mut rows = read_published(path).map_err(Failure::input)?;
            let adopted = Paper::adopt(&mut rows, id.as_deref()).map_err(Failure::input)?;
            // A row keeps its id when it is copied out of a paper's file, and it was fitted to all the same.
            let fitted_rows = Paper::all_fitted_rows().map_err(Failure::run)?;
            let options = match &adopted.papers[..] {
                [method] if adopted.strays == 0 => PredictOptions::from(method),
                _ => FILE_OPTIONS,
            };
            Figures {
                file: path.display().to_string(),
                method: None,
                rows,
                claims_file: String::new(),
                claims: Vec::new(),
                fitted_rows,
                papers: adopted.papers.into_iter().map(|method| method.id).collect(),
                corrections: adopted.corrections,
                options,
            }
        }
        (None, Some(id)) => {
            let mut paper = paper(id, args.table.as_deref()).map_err(Failure::input)?;
            let mut claims_file = format!("papers/{id}/claims.csv");
            if let Some(path) = &args.claims {
                paper.claims = claims::of_file(path, &paper.method)?;
                paper.rows.clear();
                claims_file = path.display().to_string();
            }
            let options = PredictOptions::from(&paper.method);
            let file = format!("papers/{id}/published.csv");
            let stands = |correction: &&MetricCorrection| paper.places().contains(&correction.place.as_str());
            let corrections = paper.method.corrections.iter().filter(stands).cloned().collect();
            let fitted_rows = paper.method.fitted_rows.clone();
            let (rows, claims, method) = (paper.rows, paper.claims, Some(paper.method));
            Figures {
                file,
                method,
                rows,
                claims_file,
                claims,
                fitted_rows,
                papers: Vec::new(),
                corrections,
                options,
            }
        }
        (None, None) => unreachable!("clap requires a paper or a file"),
    };
    let of_rows = figures.rows.iter_mut().filter_map(|row| row.options.as_mut());
    for options in core::iter::once(&mut figures.options).chain(of_rows) {
        options.strip_size = args.strip_size.or(options.strip_size);
        options.ramp = args.ramp.unwrap_or(options.ramp);
        options.ramp_write_through = args.ramp.unwrap_or(options.ramp_write_through);
        options.run = args.run.unwrap_or(options.run);
        options.seed = args.seed.unwrap_or(options.seed);
    }
    Ok(figures)
}

fn paper(id: &str, table: Option<&str>) -> Result<Paper, PaperError> {
    let mut paper = Paper::builtin(id)?;
    if let Some(table) = table {
        paper.keep_table(table)?;
    }
    Ok(paper)
}

/// Reads a bound on errors, in percent.
fn error_bound(text: &str) -> Result<f64, String> {
    let bound = text.parse().ok().filter(|pct: &f64| pct.is_finite() && *pct >= 0.0);
    bound.ok_or_else(|| format!("'{text}' is no bound on errors: write percent, 0 or more"))
}

fn judge(args: &Args, summary: &ComparisonSummary, hosts: &Hosts) -> Exit {
    let bounds = [
        ("median", args.max_median_error, summary.median_abs_error_pct),
        ("90th percentile", args.max_p90_error, summary.p90_abs_error_pct),
    ];
    let mut exit = Exit::Done;
    for (name, limit, found) in bounds {
        if let (Some(limit), Some(found)) = (limit, found)
            && found > limit
        {
            if hosts.leads() {
                remark(format_args!(
                    "bound missed: the {name} of the absolute errors is {found:.1} %, above {limit} %"
                ));
            }
            exit = Exit::BoundMissed;
        }
    }
    exit
}

fn as_json(figures: &Figures, prediction: Option<&Prediction>, claims: Option<&ClaimPrediction>) -> Value {
    let mut json = json!({
        "schema": 1,
        "file": figures.file,
        "method": figures.method,
        "corrections": figures.corrections,
        "papers": figures.papers,
        "options": figures.options,
    });
    if let Some(prediction) = prediction {
        json["rows"] = json!(prediction.rows);
        json["summary"] = json!(prediction.summary);
        json["summary_not_fitted"] = json!(prediction.summary_not_fitted);
        json["places"] = json!(prediction.places);
        json["configurations"] = json!(prediction.configurations);
        json["fitted_figures"] = json!(prediction.fitted_figures);
    }
    if let Some(claims) = claims {
        json["claims_file"] = json!(figures.claims_file);
        json["claims"] = json!(claims);
    }
    json
}

fn as_text(
    figures: &Figures,
    prediction: Option<&Prediction>,
    claims: Option<&ClaimPrediction>,
    output: &Output,
) -> String {
    let mut text = figures
        .method
        .as_ref()
        .map_or(String::new(), |method| format!("{}\n{}\n\n", method.title, method.source()));
    if let Some(prediction) = prediction {
        text += &raidlab_report::terminal::comparison(&prediction.comparison(), output.terminal());
        text.extend(["\n", &places(prediction.places.iter(), output.terminal())]);
        let programs = prediction.configurations.iter().filter(|it| !it.result.phases.is_empty()).count();
        text += &how_text(prediction.configurations.len() - programs, figures);
        text += &programs_text(programs, figures);
        text += &read_off_text(prediction);
        text += &bottleneck::of_rows_text(prediction);
        text += &fit_text(prediction);
    }
    if let Some(claims) = claims {
        let gap = if prediction.is_some() { "\n" } else { "" };
        text += &(gap.to_owned() + &claims::table(claims, output));
        text += &how_text(claims.configurations.len(), figures);
        text += &bottleneck::of_claims_text(claims);
        text += &claims::fit_text(claims);
    }
    let assumed = figures.method.iter().flat_map(|method| &method.assumed);
    text.extend(assumed.map(|assumption| format!("  assumed: {assumption}\n")));
    text.extend(figures.corrections.iter().map(|correction| {
        let MetricCorrection { place, metric, reason, .. } = correction;
        format!("  corrected: the figures of {place} count {}: {reason}\n", metric.name())
    }));
    text
}

/// How sure figures at a response time are.
fn read_off_text(prediction: &Prediction) -> String {
    let read_off: Vec<_> = prediction
        .configurations
        .iter()
        .filter_map(|configuration| configuration.read_off.as_ref())
        .collect();
    if read_off.is_empty() {
        return String::new();
    }
    let gaps: Vec<f64> = read_off.iter().filter_map(|read_off| read_off.gap_pct()).collect();
    let widest = gaps.iter().copied().fold(0.0, f64::max);
    let loads: usize = read_off.iter().map(|read_off| read_off.points.len()).sum();
    format!(
        "{} configurations were read off at a mean response time, from {loads} loads; {} between two loads whose \
         rates are at most {widest:.1} % apart.\n",
        read_off.len(),
        gaps.len()
    )
}

/// Runs of programs, which end when they are done.
fn programs_text(programs: usize, figures: &Figures) -> String {
    let seed = match figures.papers.len() {
        0 | 1 => format!(", seed {}", figures.options.seed),
        _ => String::new(),
    };
    match programs {
        0 => String::new(),
        _ => format!("\nPredicted by {programs} runs of Bonnie from start to end{seed}.\n"),
    }
}

fn how_text(simulations: usize, figures: &Figures) -> String {
    if simulations == 0 {
        return String::new();
    }
    let PredictOptions { run, ramp, ramp_write_through, seed, .. } = figures.options;
    if figures.papers.len() > 1 {
        let papers = figures.papers.join(", ");
        return format!("\nPredicted by {simulations} simulations, each as its own paper is ({papers}).\n");
    }
    let of_places = figures.rows.iter().filter_map(|row| Some((row.place.as_str(), row.options?.ramp)));
    let of_places: BTreeMap<&str, NanoSpan> = of_places.filter(|(_, own)| *own != ramp).collect();
    let of_places: Vec<String> = of_places.iter().map(|(place, ramp)| format!("; {place}: {ramp}")).collect();
    format!(
        "\nPredicted by {simulations} simulations of {run} after a ramp of {ramp} (write-through: \
         {ramp_write_through}{}), seed {seed}.\n",
        of_places.concat()
    )
}

/// Which figures the model was fitted to, and how good it is on the others.
fn fit_text(prediction: &Prediction) -> String {
    let fitted: Vec<&str> =
        prediction.rows.iter().filter(|row| row.fitted).map(|row| row.comparison.id.as_str()).collect();
    let rest = &prediction.summary_not_fitted;
    let verdict = match (fitted.len(), rest.median_abs_error_pct, rest.p90_abs_error_pct) {
        (0, ..) => "No figure of this table was used to fit the model.\n".to_owned(),
        (count, Some(median), Some(p90)) => format!(
            "{count} figures were used to fit the model; of the {} others the median absolute error is \
             {median:.1} %, the 90th percentile {p90:.1} %.\n",
            rest.rows
        ),
        _ => "All of these figures were used to fit the model, so their errors prove nothing.\n".to_owned(),
    };
    let rows: Vec<String> = fitted.iter().map(|id| format!("  fitted to: {id}\n")).collect();
    verdict + &rows.concat() + &fitted_figures_text(&prediction.fitted_figures)
}

fn fitted_figures_text(figures: &[FittedFigure]) -> String {
    let line = |figure: &FittedFigure| {
        format!("  fitted figure: {} {} = {} ({})\n", figure.entry, figure.key, figure.value, figure.source)
    };
    figures.iter().map(line).collect()
}
