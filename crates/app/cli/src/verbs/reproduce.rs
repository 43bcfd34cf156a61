//! `raidlab reproduce`: predicts published figures and relative claims, and compares.

mod bottleneck;
mod claims;
mod report;
mod training;

use super::keep::{KeepDbArgs, Planned};
use crate::failure::{Exit, Failure};
use crate::hosts::{RankArgs, only_alone};
use crate::inputs::{CatalogArgs, on_or_off, window};
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer, remark};
use crate::progress::Progress;
use crate::schema::Form;
use crate::whole_file::check_writable;
use raidlab::{
    ByteCount, Catalog, Hosts, NanoSpan, PredictChanges, Reproduced, Reproduction, ReproductionError,
};
use raidlab_advisor::ComparisonSummary;
use raidlab_machine::Environment;
use raidlab_papers::{
    FittedFigure, Method, MetricCorrection, Paper, PredictError, PredictOptions, Prediction,
    builtin_training, paper_ids, training_method,
};
use raidlab_report::terminal::places;
use raidlab_study::{RunOptions, claim_runs, predicted_runs};
use serde::Serialize;
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

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output, hosts: &mut Hosts) -> Result<Exit, Failure> {
    if args.paper.as_deref() == Some("list") && args.published.is_none() {
        only_alone("reproduce list", hosts)?;
        return list(output);
    }
    if let Some(rows) = training::rows(args)? {
        only_alone("reproduce' of training runs", hosts)?;
        return training::run(args, &rows, output);
    }
    if let Some(path) = &args.report
        && hosts.leads()
    {
        check_writable(path)?;
    }
    let figures = args.figures().map_err(Failure::input)?.with(&PredictChanges {
        strip_size: args.strip_size,
        ramp: args.ramp,
        run: args.run,
        seed: args.seed,
    });
    let started_at = SystemTime::now();
    let predicted = predict_all(args, &figures, &args.catalog.load()?, hosts);
    let found = match predicted {
        Err(PredictError::Cancelled) => return Ok(Exit::Interrupted),
        Err(error @ PredictError::Rows(_)) => {
            return Err(Failure::input(error)
                .with_hint("'raidlab catalog' and 'raidlab workloads' list what is known"));
        }
        Err(PredictError::Hosts(error)) => return Err(Failure::run(error)),
        predicted => predicted.map_err(Failure::run)?,
    };
    if hosts.leads() {
        show(args, &found, started_at, output)?;
    }
    let summaries = found.prediction.iter().map(|prediction| prediction.summary);
    let summaries = summaries.chain(found.claims.iter().map(|claims| claims.summary.errors));
    let missed =
        summaries.map(|summary| judge(args, &summary, hosts.leads())).find(|exit| *exit != Exit::Done);
    Ok(missed.unwrap_or(Exit::Done))
}

/// Keeps, prints and reports.
fn show(args: &Args, found: &Reproduced<'_>, started_at: SystemTime, output: &Output) -> Result<(), Failure> {
    keep(args, found, started_at)?;
    if output.is_json() {
        print_answer(found)?;
    } else {
        print(&as_text(found, output))?;
    }
    if let Some(path) = &args.report {
        report::write(path, found)?;
    }
    Ok(())
}

/// Keeps a run for each simulated configuration.
fn keep(args: &Args, found: &Reproduced<'_>, started_at: SystemTime) -> Result<(), Failure> {
    let figures = found.of;
    let mut results = found.prediction.as_ref().map_or_else(Vec::new, predicted_runs);
    results.extend(found.claims.as_ref().map_or_else(Vec::new, claim_runs));
    let title = figures.method.as_ref().map_or(&figures.file, |method| &method.title);
    let planned = Planned {
        kind: "reproduce",
        title: format!("reproduce {title}"),
        method: format!("Configurations of {}, simulated.", figures.file),
        runs: results.len() as u64,
        seed: figures.options.seed,
        configuration: serde_json::to_string(&figures.options).map_err(Failure::run)?,
    };
    args.keep.keep(planned, Environment::of_machine(), started_at, results).map(|_| ())
}

/// Predicts figures and claims, and shows how far it is.
fn predict_all<'a>(
    args: &Args,
    figures: &'a Reproduction,
    catalog: &Catalog,
    hosts: &mut Hosts,
) -> Result<Reproduced<'a>, PredictError> {
    let mut progress = Progress::start_on(hosts);
    let mut tell = |finished: usize, planned: usize| {
        let label = format!("{finished} of {planned} configurations simulated");
        progress.show(&label, finished as f64 / planned.max(1) as f64);
    };
    let cancel = cancel_flag("stopping (once more to stop at once)");
    let threads = args.threads.unwrap_or(RunOptions::default().threads);
    let how = (hosts, threads, args.bottleneck == Some(true));
    let found = figures.predict(catalog, how, &cancel, &mut tell);
    progress.end();
    found
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Lists>();

/// What is built in.
#[derive(Serialize, schemars::JsonSchema)]
struct Lists {
    papers: Vec<Listed>,
    training: Vec<Listed>,
}

/// A paper that is built in, in the list of them.
#[derive(Serialize, schemars::JsonSchema)]
struct Listed {
    method: Method,
    places: Vec<String>,
    figures: usize,
    claims: usize,
}

fn list(output: &Output) -> Result<Exit, Failure> {
    let papers = paper_ids().map(Paper::builtin).collect::<Result<Vec<_>, _>>().map_err(Failure::run)?;
    if output.is_json() {
        let listed = |paper: Paper| Listed {
            places: paper.places().into_iter().map(str::to_owned).collect(),
            figures: paper.rows.len(),
            claims: paper.claims.len(),
            method: paper.method,
        };
        let of_training = training_method().map_err(Failure::run)?;
        let of_training = Listed {
            places: Vec::new(),
            figures: builtin_training().map_err(Failure::run)?.len(),
            claims: 0,
            method: of_training,
        };
        print_answer(&Lists {
            papers: papers.into_iter().map(listed).collect(),
            training: vec![of_training],
        })?;
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
    let method = training_method().map_err(Failure::run)?;
    let count = builtin_training().map_err(Failure::run)?.len();
    print(&format!("{}  {count} runs\n  {}\n  {}", method.id, method.title, method.source()))?;
    Ok(Exit::Done)
}

impl Args {
    /// What is to be predicted.
    fn figures(&self) -> Result<Reproduction, ReproductionError> {
        match (&self.published, &self.paper, &self.claims) {
            (Some(path), id, _) => Reproduction::of_file(path, id.as_deref()),
            (None, Some(id), Some(claims)) => Reproduction::of_claims(id, claims),
            (None, Some(id), None) => Reproduction::of_paper(id, self.table.as_deref()),
            (None, None, _) => unreachable!("clap requires a paper or a file"),
        }
    }
}

/// Reads a bound on errors, in percent.
fn error_bound(text: &str) -> Result<f64, String> {
    let bound = text.parse().ok().filter(|pct: &f64| pct.is_finite() && *pct >= 0.0);
    bound.ok_or_else(|| format!("'{text}' is no bound on errors: write percent, 0 or more"))
}

/// Judges errors where this process is alone.
fn judge_errors(args: &Args, summary: &ComparisonSummary) -> Exit {
    judge(args, summary, true)
}

fn judge(args: &Args, summary: &ComparisonSummary, leads: bool) -> Exit {
    let bounds = [
        ("median", args.max_median_error, summary.median_abs_error_pct),
        ("90th percentile", args.max_p90_error, summary.p90_abs_error_pct),
    ];
    let mut exit = Exit::Done;
    for (name, limit, found) in bounds {
        if let (Some(limit), Some(found)) = (limit, found)
            && found > limit
        {
            if leads {
                remark(format_args!(
                    "bound missed: the {name} of the absolute errors is {found:.1} %, above {limit} %"
                ));
            }
            exit = Exit::BoundMissed;
        }
    }
    exit
}

fn as_text(found: &Reproduced<'_>, output: &Output) -> String {
    let Reproduced { of: figures, prediction, claims, .. } = found;
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
fn programs_text(programs: usize, figures: &Reproduction) -> String {
    let seed = match figures.papers.len() {
        0 | 1 => format!(", seed {}", figures.options.seed),
        _ => String::new(),
    };
    match programs {
        0 => String::new(),
        _ => format!("\nPredicted by {programs} runs of Bonnie from start to end{seed}.\n"),
    }
}

fn how_text(simulations: usize, figures: &Reproduction) -> String {
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
