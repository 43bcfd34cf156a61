//! Shared by `measure` and `simulate`: sweeps, the search for the highest load, rounds until steady, the results file,
//! and the display of runs.
//!
//! Every run is in the results file before the next one begins, so neither Ctrl-C nor a crash takes a finished run away.

use super::compare_paper::ComparedPaper;
use crate::failure::{Exit, Failure};
use crate::inputs::{Numbers, PacingArgs, ReplayArgs, bad_order, between_checkpoints, some_bytes, workloads};
use crate::output::{Output, print, print_answer, remark};
use crate::progress::searched_share;
use crate::schema::Form;
use crate::verbs::keep::Keeper;
use crate::verbs::report::write_report;
use raidlab_advisor::Bound;
use raidlab_advisor::{ComparedTable, Verdict, verdicts};
use raidlab_report::StudyReport;
use raidlab_study::describe;
use raidlab_tracefile::ReadingAs;
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Actor, BoundFacts, Pacing, RequestRate, RunResult, Workload, derived_seed};
use raidlab_worlds::{
    Feeding, FeedingOrder, FindMethod, FindOrder, FoundLoad, Load, LoadPlan, LoadUnit, ROUNDS_MAX,
    RUN_TO_THE_END, SteadyRounds, accelerator, check_checkpoint, check_iodepths, default_iodepth, feed,
    find_load, sweep, until_steady, varied,
};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;

/// Time of training between two checkpoints, where nobody says.
pub(crate) const CHECKPOINT_EVERY: NanoSpan = NanoSpan::from_secs(1800);

/// What to go through.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct SweepArgs {
    /// Workloads: built-in names such as `database`, or workload files (.toml)
    #[arg(long, short, value_delimiter = ',', value_name = "NAME,...")]
    workload: Vec<String>,
    /// Replay a trace instead.
    #[command(flatten)]
    replay: ReplayArgs,
    /// Requests in flight: a number, a list 1,8,64, a range 1..64 that doubles, or 1..64+8 in steps [default: 1; in a timed
    /// replay up to 256]
    #[arg(long, visible_alias = "queue-depth", value_parser = sweep::iodepths, value_name = "N,...")]
    iodepth: Option<Numbers>,
    /// When requests start.
    #[command(flatten)]
    pacing: PacingArgs,
    /// Length of requests instead of the workload's own: 4KiB, a list, a range 512B..64KiB or 4KiB..32KiB+4KiB
    #[arg(long, value_parser = sweep::block_sizes, value_name = "SIZE,...")]
    block_size: Option<Numbers>,
    /// Percentage of reads instead of the workload's own: 67, a list, or a range 0..100+25
    #[arg(long, value_parser = sweep::read_pcts, value_name = "PERCENT,...")]
    read_pct: Option<Numbers<u8>>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

/// How long runs are, and what they are on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Time before the measured window, and what it is where nobody says; a trace has none then.
    pub(crate) ramp: (Option<NanoSpan>, NanoSpan),
    /// Whether the ramp grows where nobody says it, until write caches are in their steady state.
    pub(crate) settles: bool,
    /// Length of the measured window, and what it is where nobody says; a trace is replayed to its end then.
    pub(crate) run: (Option<NanoSpan>, NanoSpan),
    /// Targets of each run.
    pub(crate) targets: u32,
    /// How a trace is read.
    pub(crate) reading: ReadingAs,
    /// Whether the highest load is searched for.
    pub(crate) finds_load: bool,
}

/// What workloads have to do with training.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Training {
    /// They do nothing else.
    pub(crate) is_all: bool,
    /// They do nothing but write checkpoints, the first of which starts with the run.
    pub(crate) is_saving: bool,
}

impl SweepArgs {
    /// Whether its workloads do nothing but train; where they can't be read, `plan` says why.
    pub(crate) fn training(&self) -> Training {
        let workloads = workloads(&self.workload).unwrap_or_default();
        let saves = |(_, actor): (&str, &Actor)| matches!(actor, Actor::Checkpoint(_));
        let is_all = !workloads.is_empty() && workloads.iter().all(|it| it.spec.is_training());
        Training { is_all, is_saving: is_all && workloads.iter().all(|it| it.spec.actors().all(saves)) }
    }

    /// The runs that these arguments ask for.
    pub(crate) fn plan(&self, frame: &Frame) -> Result<LoadPlan, Failure> {
        let workers = vec![1];
        if let Some(order) = self.replay.order() {
            let workload = order.workload(frame.targets, frame.reading).map_err(bad_order)?;
            let iodepths = self.iodepth.clone().unwrap_or_else(|| vec![default_iodepth(&workload)]);
            let (ramp, run) = (frame.ramp.0.unwrap_or_default(), frame.run.0.unwrap_or(RUN_TO_THE_END));
            let workloads = vec![workload];
            let (settles, may_lengthen) = (false, false);
            return Ok(LoadPlan { workloads, iodepths, workers, ramp, run, settles, may_lengthen });
        }
        if self.workload.is_empty() {
            let missing = Failure::input(anyhow::anyhow!("no workload is given: --workload NAME"));
            return Err(missing.with_hint("'raidlab workloads' lists those that are built in"));
        }
        let (sizes, shares) = (self.block_size.as_deref(), self.read_pct.as_deref());
        let plain = self.pacing.apply(workloads(&self.workload)?)?;
        let unused = |option| move |error| Failure::input(error).with_option(option);
        let sized = varied(&plain, sizes.unwrap_or_default(), &[]).map_err(unused("--block-size"))?;
        let workloads = varied(&sized, &[], shares.unwrap_or_default()).map_err(unused("--read-pct"))?;
        let fit = workloads.iter().try_for_each(|workload| workload.spec.check_targets(frame.targets));
        fit.map_err(Failure::input)?;
        // A search goes from the iodepth on, whatever the workload's own is.
        if self.iodepth.is_some() && !frame.finds_load {
            check_iodepths(&workloads).map_err(|error| Failure::input(error).with_option("--iodepth"))?;
        }
        let iodepths = self.iodepth.clone().unwrap_or_else(|| vec![1]);
        let (ramp, run) = (frame.ramp.0.unwrap_or(frame.ramp.1), frame.run.0.unwrap_or(frame.run.1));
        let settles = frame.settles && frame.ramp.0.is_none();
        let may_lengthen = frame.run.0.is_none() && frame.ramp.0.is_none();
        Ok(LoadPlan { workloads, iodepths, workers, ramp, run, settles, may_lengthen })
    }
}

/// How to search for the highest load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FindBy {
    /// Halve what is unknown, from the first iodepth on
    Bisection,
    /// Go through the iodepths until one misses the bound
    Ramp,
}

/// What a run is repeated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Until {
    /// A steady state
    Steady,
}

/// What to judge by.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Bounds and repeats")]
pub(crate) struct JudgeArgs {
    /// A bound to be kept: `mean<=20ms`, `p99<=100ms` (p50 to p99.999, max), `iops>=5000`, `mb_per_s>=200`; may be repeated
    #[arg(long, value_name = "BOUND")]
    bound: Vec<Bound>,
    /// Find the highest load that keeps the bound on latency, and say how sure that is
    #[arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "bisection", requires = "bound")]
    find_load: Option<FindBy>,
    /// Runs at each edge of the load found at most, each with a seed of its own; fewer where there is no doubt left
    #[arg(long, default_value_t = 5, value_name = "N", requires = "find_load")]
    repeats: u32,
    /// How many accelerators are fed: these numbers of them, 1..16 (doubling) or a list, and then those between until the
    /// largest is known that keeps the workload's bound on utilisation
    #[arg(long, value_parser = sweep::streams, value_name = "N,...", conflicts_with_all = ["find_load", "until"])]
    accelerators: Option<Numbers>,
    /// With --accelerators: the time that a checkpoint of so many bytes takes, and its share of training time
    #[arg(long, value_name = "SIZE", requires = "accelerators", value_parser = some_bytes)]
    checkpoint: Option<ByteCount>,
    /// Time of training between two checkpoints [default: 30m, with --checkpoint]
    #[arg(long, value_name = "TIME", requires = "checkpoint", value_parser = between_checkpoints)]
    checkpoint_every: Option<NanoSpan>,
    /// Go on in rounds of --run until the last five are steady, 25 at most (SNIA PTS)
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "find_load")]
    until: Option<Until>,
}

impl JudgeArgs {
    /// Whether the highest load is searched for.
    pub(crate) fn finds_load(&self) -> bool {
        self.find_load.is_some()
    }

    /// Refuses a checkpoint that is longer than the `room` for it, before anything runs.
    pub(crate) fn check_checkpoint(&self, plan: &LoadPlan, room: ByteCount) -> Result<(), Failure> {
        let (Some(bytes), Some(training)) = (self.checkpoint, plan.workloads.first()) else { return Ok(()) };
        check_checkpoint(training.name(), bytes, room)
            .map_err(|error| Failure::input(error).with_option("--checkpoint"))
    }

    /// Whether loads are run again until they are steady.
    pub(crate) fn is_in_rounds(&self) -> bool {
        self.until.is_some()
    }

    /// Puts into `result` whether it keeps each bound; a search for the highest load goes beyond its bound on purpose.
    pub(crate) fn judge(&self, result: &mut RunResult) {
        if self.find_load.is_none() {
            result.bounds = self.bound.iter().map(|bound| bound.judged(result)).collect();
        }
    }

    /// The numbers of accelerators to try, if that is asked.
    fn feeding(&self) -> Option<FeedingOrder> {
        let counts = self.accelerators.clone()?;
        let every = self.checkpoint_every.unwrap_or(CHECKPOINT_EVERY);
        let checkpoint = self.checkpoint.map(|bytes| (bytes, every));
        Some(FeedingOrder { counts, checkpoint, ..FeedingOrder::default() })
    }

    /// The checkpoint that is written, if one is asked for.
    pub(crate) fn checkpoint(&self) -> Option<ByteCount> {
        self.checkpoint
    }

    /// Whether anything is written that the workloads do not write themselves.
    pub(crate) fn writes(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// The one bound that a highest load is to be found for, and how.
    fn search(&self) -> Result<Option<(&Bound, FindBy)>, Failure> {
        let Some(by) = self.find_load else { return Ok(None) };
        match &self.bound[..] {
            [bound] if bound.limits_latency() => Ok(Some((bound, by))),
            _ => Err(Failure::input(anyhow::anyhow!("--find-load needs one bound, on latency from above"))
                .with_hint("write --bound 'mean<=20ms' or --bound 'p99<=50ms'")),
        }
    }
}

/// Where results go.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub(crate) struct ReportArgs {
    /// Write an HTML report with charts here; it opens without a network
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Compare with a paper: its tables with the runs in them; with :TEXT the rows whose system or id has this text in it
    #[arg(long, value_name = "PAPER[:TEXT]")]
    compare_paper: Option<String>,
}

impl ReportArgs {
    /// The paper to compare with.
    pub(crate) fn compared_paper(&self) -> Result<Option<ComparedPaper>, Failure> {
        self.compare_paper.as_deref().map(ComparedPaper::find).transpose()
    }
}

/// Why a run gave no result.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The user stopped it.
    Cancelled,
    /// It failed.
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// What was concluded from runs, beside their figures.
#[derive(Debug, Default)]
pub(crate) struct Conclusions {
    /// The highest load of each workload, where it was searched for.
    found: Vec<FoundLoad>,
    /// How many accelerators each workload feeds, where that was asked.
    fed: Vec<Feeding>,
    /// The rounds of each load, where runs were repeated until steady.
    steady: Vec<SteadyRounds>,
    /// The user stopped before all was done.
    interrupted: bool,
    /// What went wrong before all was done.
    failure: Option<Failure>,
}

/// What a round is that follows others until they are steady.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// A run of its own, on a target as the one before left it.
    Runs,
    /// The next window of one long run. A world that starts anew for every run, and does the same each time, gets there by
    /// a longer ramp.
    Windows,
}

impl Rounds {
    /// The load of round `round`, from 1.
    fn load(self, load: &Load, round: u32) -> Load {
        let before = load.run.get().saturating_mul(u64::from(round - 1));
        match self {
            Self::Runs => load.clone(),
            Self::Windows => Load { ramp: NanoSpan(load.ramp.get().saturating_add(before)), ..load.clone() },
        }
    }
}

/// Whether the next run depends on those before: a search for the highest load, or rounds until steady. A search that can't
/// be done is an error.
pub(crate) fn is_step_by_step(judge: &JudgeArgs) -> Result<bool, Failure> {
    Ok(judge.search()?.is_some() || judge.until.is_some() || judge.accelerators.is_some())
}

/// Runs `plan` one run after another: each load once or until steady, or a search for the highest load of each workload.
/// `run` does a run, and is told what share of all runs is done, as far as that is known. Stops where `run` was cancelled.
pub(crate) fn carry_out(
    plan: &LoadPlan,
    seed: u64,
    judge: &JudgeArgs,
    rounds: Rounds,
    keeper: &mut Keeper,
    run: &mut dyn FnMut(&Load, &str, f64) -> Result<RunResult, Stop>,
) -> Result<Conclusions, Failure> {
    let mut conclusions = Conclusions::default();
    let search = judge.search()?;
    let is_uneven = |workload: &&Workload| workload.spec.is_uneven() && workload.spec.trace.is_none();
    if let Some(workload) = plan.workloads.iter().find(is_uneven).filter(|_| judge.until.is_some()) {
        let error = anyhow::anyhow!(
            "the load of workload {} is uneven by itself (a rhythm, or a checkpoint now and then): no round is like the one before",
            workload.name()
        );
        return Err(Failure::input(error)
            .with_option("--until")
            .with_hint("leave it out, and let --run hold several periods"));
    }
    let loads: Vec<Load> = match search {
        // One search for each workload; the iodepth of this load is not used.
        Some(_) => LoadPlan { iodepths: vec![plan.iodepths[0]], ..plan.clone() }.loads(seed).collect(),
        None => plan.loads(seed).collect(),
    };
    for (index, load) in loads.iter().enumerate() {
        let mut runs = 0;
        let mut kept = |load: &Load, label: &str, round: Option<u32>| -> Result<RunResult, Stop> {
            let started_at = SystemTime::now();
            let done = (index as f64 + searched_share(runs)) / loads.len() as f64;
            runs += 1;
            let mut result = run(load, label, done)?;
            if let Some(round) = round {
                result.settings.insert("round".into(), round.to_string());
            }
            judge.judge(&mut result);
            keeper.take(started_at, result.clone())?;
            Ok(result)
        };
        let ended = match (search, judge.until) {
            _ if judge.accelerators.is_some() => {
                feed_one(judge, load, plan.may_lengthen, &mut kept).map(|fed| conclusions.fed.extend(fed))
            }
            (Some((bound, by)), _) => search_one(plan, load, bound, by, judge.repeats, &mut kept)
                .map(|found| conclusions.found.push(found)),
            (None, Some(Until::Steady)) => {
                let label = |round| format!("round {round} of at most {ROUNDS_MAX}: {}", load.label());
                until_steady(ROUNDS_MAX, |round| kept(&rounds.load(load, round), &label(round), Some(round)))
                    .map(|rounds| conclusions.steady.push(rounds))
            }
            (None, None) => {
                let label = format!("run {} of {}: {}", index + 1, loads.len(), load.label());
                kept(load, &label, None).map(|_| ())
            }
        };
        match ended {
            Ok(()) => {}
            Err(Stop::Cancelled) => {
                conclusions.interrupted = true;
                break;
            }
            Err(Stop::Failed(failure)) => {
                conclusions.failure = Some(failure);
                break;
            }
        }
    }
    Ok(conclusions)
}

/// Does a run under a label, numbered where it is a round, and keeps it.
type KeptRun<'a> = dyn FnMut(&Load, &str, Option<u32>) -> Result<RunResult, Stop> + 'a;

/// Looks for the highest load of the kind of `like` that keeps `bound`: requests in flight, or the rate of an open loop.
fn search_one(
    plan: &LoadPlan,
    like: &Load,
    bound: &Bound,
    by: FindBy,
    repeats: u32,
    kept: &mut KeptRun<'_>,
) -> Result<FoundLoad, Stop> {
    let (unit, first) = searched(like, by, plan.iodepths[0])?;
    let method = match by {
        FindBy::Bisection => FindMethod::Bisection { first },
        FindBy::Ramp => FindMethod::Ramp { loads: plan.iodepths.clone() },
    };
    let order = FindOrder { bound, method, unit, repeats };
    let search = find_load(&order, |value, repeat| {
        let seed = if repeat == 0 { like.seed } else { derived_seed(like.seed, u64::from(repeat)) };
        let load = Load { seed, ..at_load(like, value) };
        let what = match unit {
            LoadUnit::Iodepth => load.label(),
            LoadUnit::RequestsPerSec => format!("{} at {value} requests/s", load.workload.name()),
        };
        let label = match repeat {
            0 => format!("looking for the highest load: {what}"),
            _ => format!("repeat {repeat} of {repeats}: {what}"),
        };
        kept(&load, &label, None)
    });
    search.map(|(found, _)| found)
}

/// Looks for the number of accelerators that are fed.
fn feed_one(
    judge: &JudgeArgs,
    like: &Load,
    may_lengthen: bool,
    kept: &mut KeptRun<'_>,
) -> Result<Option<Feeding>, Stop> {
    let name = like.workload.name();
    if accelerator(&like.workload.spec).is_none() {
        let error =
            anyhow::anyhow!("workload '{name}' has no accelerators, whose number --accelerators gives");
        return Err(Failure::input(error)
            .with_hint("mlperf-unet3d, mlperf-resnet50 and mlperf-cosmoflow have")
            .into());
    }
    let order = FeedingOrder { may_lengthen, ..judge.feeding().unwrap_or_default() };
    feed(like, &order, &mut |load| kept(load, &format!("feeding accelerators: {}", load.label()), None))
}

/// What the load of `like` is counted in, and where a search begins.
fn searched(like: &Load, by: FindBy, iodepth: u32) -> Result<(LoadUnit, u32), Failure> {
    let spec = &like.workload.spec;
    let refused =
        |why: &str| Failure::input(anyhow::anyhow!("--find-load and workload '{}': {why}", spec.name));
    match spec.pacing {
        _ if !spec.parts.is_empty() => Err(refused("it is a mix, which has no one load to raise")),
        Pacing::Open(_) if by == FindBy::Ramp => {
            Err(refused("it has arrivals at a rate, which the iodepths of a ramp do not change")
                .with_hint("write --find-load=bisection"))
        }
        Pacing::Open(arrivals) => Ok((LoadUnit::RequestsPerSec, (arrivals.rate.per_second() as u32).max(1))),
        Pacing::Closed(_) => Ok((LoadUnit::Iodepth, iodepth)),
    }
}

/// `like` at another load: the rate of an open loop, else requests in flight, also where the workload has its own.
fn at_load(like: &Load, value: u32) -> Load {
    let mut load = like.clone();
    if let Pacing::Open(arrivals) = &mut load.workload.spec.pacing {
        arrivals.rate =
            RequestRate::new(f64::from(value)).expect("loads are at least 1 and below the highest rate");
    } else {
        load.workload.spec.iodepth = None;
        load.iodepth = value;
    }
    load
}

/// Prints the runs and what was concluded from them, also where a failure ended them, and says how the verb ends.
pub(crate) fn conclude(
    mut keeper: Keeper,
    mut conclusions: Conclusions,
    report: &ReportArgs,
    output: &Output,
) -> Result<Exit, Failure> {
    let failure = conclusions.failure.take();
    let notes = notes_of(&keeper.results, &conclusions);
    keeper.end(!conclusions.interrupted && failure.is_none(), &notes)?;
    if keeper.results.is_empty()
        && let Some(failure) = failure
    {
        return Err(failure);
    }
    let compared = report.compared_paper()?.map_or_else(Vec::new, |paper| paper.tables(&keeper.results));
    show(&keeper.results, &conclusions, &compared, output)?;
    let mut told = BTreeSet::new();
    for warning in keeper.results.iter().flat_map(RunResult::warnings) {
        if told.insert(warning.clone()) {
            remark(format_args!("warning: {warning}"));
        }
    }
    if let Some(path) = &report.report {
        // A verdict compares arrays; runs on one target have none to compare.
        let has_arrays = keeper.results.iter().any(|run| run.array.is_some());
        let verdicts = if has_arrays { verdicts(&keeper.results) } else { Vec::new() };
        write_report(
            path,
            &StudyReport { compared: &compared, ..compose(&keeper, &conclusions, &verdicts) },
        )?;
    }
    for result in &keeper.results {
        for missed in result.bounds_missed() {
            let (workload, load, BoundFacts { bound, found_text, .. }) =
                (&result.workload, result.offered_load(), missed);
            remark(format_args!("bound missed: {bound} by {workload} at {load}: {found_text}"));
        }
    }
    // What was done is shown; that not all was is the last word.
    failure.map_or_else(|| Ok(conclusions.exit(&keeper.results)), Err)
}

impl Conclusions {
    /// How the verb ends on a process that shows nothing; what the runs were is known to all.
    pub(crate) fn exit_unshown(&mut self, keeper: &Keeper) -> Result<Exit, Failure> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(self.exit(&keeper.results)),
        }
    }

    fn exit(&self, results: &[RunResult]) -> Exit {
        let none_keeps = |found: &FoundLoad| found.certainty == raidlab_worlds::Certainty::NoneKeeps;
        let missed = self.found.iter().any(none_keeps)
            || self.fed.iter().any(|fed| fed.most.is_none())
            || self.steady.iter().any(|rounds| !rounds.is_steady())
            || results.iter().any(|result| result.bounds_missed().next().is_some());
        match (self.interrupted, missed) {
            (true, _) => Exit::Interrupted,
            (false, true) => Exit::BoundMissed,
            (false, false) => Exit::Done,
        }
    }
}

fn show(
    results: &[RunResult],
    conclusions: &Conclusions,
    compared: &[ComparedTable],
    output: &Output,
) -> Result<(), Failure> {
    let Conclusions { found, fed, steady, .. } = conclusions;
    if output.is_json() {
        if found.is_empty() && steady.is_empty() && fed.is_empty() {
            return print(&raidlab_report::json::runs(results));
        }
        return print_answer(&Judged { runs: results, found, fed, steady });
    }
    let options = output.terminal();
    let mut text = match results {
        // Its runs are the rows of its table.
        _ if !fed.is_empty() => raidlab_report::terminal::feedings(fed, results, options),
        [only] => raidlab_report::terminal::run(only, options),
        _ => raidlab_report::terminal::runs(results, options),
    };
    for paragraph in sentences(conclusions) {
        text.extend(["\n", &paragraph.join("\n  "), "\n"]);
    }
    text += &raidlab_report::terminal::compared(compared, options);
    print(&text)
}

/// A paragraph for each conclusion but how many accelerators are fed, which stands above its table.
fn sentences(conclusions: &Conclusions) -> Vec<Vec<String>> {
    let found = conclusions.found.iter().map(describe::found_load);
    found.chain(conclusions.steady.iter().map(describe::steady_rounds)).collect()
}

/// The same, each in a line.
fn notes_of(results: &[RunResult], conclusions: &Conclusions) -> Vec<String> {
    let fed = conclusions.fed.iter().map(Feeding::sentences);
    let concluded = fed.chain(sentences(conclusions)).map(|paragraph| paragraph.join(". ") + ".");
    concluded.chain(raidlab_report::hosts::notes(results)).collect()
}

fn compose<'a>(keeper: &'a Keeper, conclusions: &'a Conclusions, verdicts: &'a [Verdict]) -> StudyReport<'a> {
    StudyReport {
        verdicts,
        warnings: RunResult::doubts_of(&keeper.results),
        notes: notes_of(&keeper.results, conclusions),
        ..keeper.report()
    }
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<Judged<'_>>();

/// Runs and what was concluded from them, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Judged<'a> {
    runs: &'a [RunResult],
    found: &'a [FoundLoad],
    #[serde(skip_serializing_if = "<[Feeding]>::is_empty")]
    fed: &'a [Feeding],
    steady: &'a [SteadyRounds],
}
