//! Predicts claims: every side of every claim becomes one or several modelled arrays, each distinct one is simulated
//! once, and the ratios are judged.
//!
//! ```text
//! claim ─ for each workload ─ A: candidates ─┐
//!                             B: candidates ─┴► distinct simulations ─► best or each ─► ratio ─► mean or highest ─► verdict
//! ```
//! A candidate is a side with all its cache settings filled in. A controller without a cache has fewer of them. Each is
//! simulated with several seeds, and the mean counts: spindles are not synchronised, their offsets are drawn from the
//! seed, and over the minutes of a real measurement they drift through all offsets.

use super::{Against, Choice, Claim, ClaimMethod, ClaimSide, ClaimWorkload};
use crate::predict::{
    FittedFigure, PredictError, PredictTask, PredictedConfiguration, Setup, ToSimulate, distinct_setups,
    fitted_figures, set_up, simulate,
};
use crate::published::{PublishedError, PublishedMetric, PublishedRow, RowProblem, row_of_pairs};
use raidlab_advisor::{ClaimKind, ClaimMeasure, ClaimRow, ClaimSummary};
use raidlab_controller::{IoPolicy, WritePolicy};
use raidlab_hosts::Hosts;
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// What one workload of a claim came to.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ClaimPart {
    /// The workload: A's, and B's behind a slash if that is another.
    pub workload: String,
    /// A's figure, in the workload's metric (the claim's, where that names one).
    pub a: f64,
    /// Which of [`ClaimPrediction::configurations`] it is the mean of, one for each seed.
    pub a_configurations: Vec<usize>,
    /// B's figure.
    pub b: Option<f64>,
    /// Which configurations that is the mean of; none without a B.
    pub b_configurations: Vec<usize>,
    /// A over B, or A's figure.
    pub predicted: f64,
}

/// A claim, judged, with all that it was judged by.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PredictedClaim {
    /// Published and predicted number, error and verdict.
    #[serde(flatten)]
    pub row: ClaimRow,
    /// Each workload's part in it.
    pub parts: Vec<ClaimPart>,
    /// Whether something was fitted to it.
    pub fitted: bool,
    /// Why no mechanism explains it, if none does.
    pub unexplained: Option<String>,
}

/// All claims, predicted.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ClaimPrediction {
    /// The claims, in the order of the file.
    pub claims: Vec<PredictedClaim>,
    /// What all of them amount to.
    pub summary: ClaimSummary,
    /// What those amount to that nothing was fitted to.
    pub summary_not_fitted: ClaimSummary,
    /// The distinct configurations, in the order of the claims.
    pub configurations: Vec<PredictedConfiguration>,
    /// The catalogue's fitted figures of the hardware in use.
    pub fitted_figures: Vec<FittedFigure>,
}

/// The candidates of one side for one workload.
struct Candidates {
    choice: Choice,
    /// For each of them, the indices of its setups, one for each seed.
    setups: Vec<Vec<usize>>,
}

/// One workload of a claim.
struct PartPlan {
    workload: String,
    metric: PublishedMetric,
    a: Candidates,
    b: Option<Candidates>,
}

/// Everything that is to be simulated.
#[derive(Default)]
struct Plan {
    setups: Vec<Setup>,
    /// For which claim each setup is.
    claim_of: Vec<usize>,
    problems: Vec<RowProblem>,
}

/// Predicts `claims`; the options, the catalogue and the threads are those of `task`, whose rows have no part in it.
/// `progress` gets the simulations finished and planned.
///
/// # Errors
/// [`PredictError`]; claims that can't be simulated are reported all at once, before anything is.
pub fn predict_claims(
    task: &PredictTask<'_>,
    claims: &[Claim],
    method: &ClaimMethod,
    (hosts, cancel): (&mut Hosts, &AtomicBool),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<ClaimPrediction, PredictError> {
    let plan = ClaimPlan::of(task, claims, method)?;
    let (distinct, of_setup) = distinct_setups(&plan.setups);
    let claim_of = |setup: usize| claims[plan.claim_of[setup]].id.clone();
    let what = ToSimulate { setups: &plan.setups, distinct: &distinct, row_of: &claim_of };
    let results = simulate(task, &what, hosts, cancel, progress)?;
    let judged = plan.judged(&of_setup, &|configuration, metric| results[configuration].figure(metric, ""));
    let configurations = distinct.iter().zip(results);
    let configurations = configurations
        .map(|(first, simulated)| PredictedConfiguration {
            array: plan.setups[*first].array.clone(),
            result: simulated.result,
            read_off: simulated.read_off,
        })
        .collect();
    let summary = |wanted: &dyn Fn(&PredictedClaim) -> bool| {
        let rows: Vec<&ClaimRow> =
            judged.iter().filter(|claim| wanted(claim)).map(|claim| &claim.row).collect();
        ClaimSummary::of(&rows)
    };
    Ok(ClaimPrediction {
        summary: summary(&|_| true),
        summary_not_fitted: summary(&|claim| !claim.fitted),
        claims: judged,
        configurations,
        fitted_figures: fitted_figures(&plan.setups, task.catalog),
    })
}

/// The figure of a configuration in a metric.
type FigureOf<'a> = &'a dyn Fn(usize, PublishedMetric) -> f64;

/// Claims with everything that is to be simulated for them.
pub(crate) struct ClaimPlan<'a> {
    claims: &'a [Claim],
    method: &'a ClaimMethod,
    /// What is to be simulated.
    pub(crate) setups: Vec<Setup>,
    /// For which claim each setup is.
    claim_of: Vec<usize>,
    parts: Vec<Vec<PartPlan>>,
}

impl<'a> ClaimPlan<'a> {
    /// What is to be simulated for `claims`.
    ///
    /// # Errors
    /// [`PublishedError::Rows`] with every claim that can't be simulated.
    pub(crate) fn of(
        task: &PredictTask<'_>,
        claims: &'a [Claim],
        method: &'a ClaimMethod,
    ) -> Result<Self, PublishedError> {
        let (plan, parts) = plan(task, claims, method)?;
        Ok(Self { claims, method, setups: plan.setups, claim_of: plan.claim_of, parts })
    }

    /// The claims, judged by the figures of configurations; `of_setup` says which is that of each setup.
    pub(crate) fn judged(&self, of_setup: &[usize], figure: FigureOf<'_>) -> Vec<PredictedClaim> {
        let claims = self.claims.iter().zip(&self.parts);
        claims.map(|(claim, parts)| judge(claim, parts, of_setup, figure, self.method)).collect()
    }
}

/// What is to be simulated for `claims`, and each claim's part in it.
///
/// # Errors
/// [`PublishedError::Rows`] with every claim that can't be simulated.
fn plan(
    task: &PredictTask<'_>,
    claims: &[Claim],
    method: &ClaimMethod,
) -> Result<(Plan, Vec<Vec<PartPlan>>), PublishedError> {
    let mut plan = Plan::default();
    let parts = (0..claims.len())
        .map(|index| Planner { task, method, claim: &claims[index], index, plan: &mut plan }.parts())
        .collect();
    if plan.problems.is_empty() {
        return Ok((plan, parts));
    }
    // Every workload and candidate of a claim has the same problems.
    let mut problems: Vec<RowProblem> = Vec::new();
    for problem in plan.problems {
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    Err(PublishedError::Rows { file: task.file.to_owned(), problems })
}

/// Turns one claim into setups.
struct Planner<'a> {
    task: &'a PredictTask<'a>,
    method: &'a ClaimMethod,
    claim: &'a Claim,
    index: usize,
    plan: &'a mut Plan,
}

impl Planner<'_> {
    fn parts(&mut self) -> Vec<PartPlan> {
        let claim = self.claim;
        let mut parts = Vec::new();
        for pair in &claim.workloads {
            let a = self.candidates(&claim.a, &pair.a);
            let b = match &claim.b {
                Against::Side(side) => Some(self.candidates(side, &pair.b)),
                Against::Same => Some(self.candidates(&claim.a, &pair.b)),
                Against::Figure(_) => None,
            };
            let metric = match claim.b {
                Against::Figure(metric) => metric,
                // Two workloads have no common metric but bytes.
                Against::Same => PublishedMetric::MbPerS,
                Against::Side(_) => PublishedMetric::of_workload(&pair.a.name),
            };
            let workload = if pair.a == pair.b {
                pair.a.label()
            } else {
                format!("{}/{}", pair.a.label(), pair.b.label())
            };
            parts.push(PartPlan { workload, metric, a, b });
        }
        parts
    }

    /// Sets up `side` with every choice of its open cache settings.
    fn candidates(&mut self, side: &ClaimSide, workload: &ClaimWorkload) -> Candidates {
        let mut candidates = Candidates { choice: side.choice, setups: Vec::new() };
        match self.row(side, workload) {
            Ok(row) => {
                for row in self.choices(side, row) {
                    candidates.setups.extend(self.set_up(&row));
                }
            }
            Err(problems) => self.plan.problems.extend(problems),
        }
        candidates
    }

    /// The row that `side` describes, with what it leaves open as far as the method says.
    fn row(&self, side: &ClaimSide, workload: &ClaimWorkload) -> Result<PublishedRow, Vec<RowProblem>> {
        let claim = self.claim;
        let iodepth = self.method.iodepths.get(&workload.name).map_or(String::new(), u32::to_string);
        let block = workload.block.map_or(String::new(), |block| (block.0 as f64 / 1024.0).to_string());
        let mut pairs = vec![
            ("id", claim.id.as_str()),
            ("workload", &workload.name),
            ("queue_depth", &iodepth),
            ("block_kib", &block),
            ("metric", "iops"),
            ("value", "1"),
        ];
        pairs.extend(side.settings.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let system = pairs.iter().find(|(name, _)| *name == "system").map_or("", |(_, system)| system);
        let of_system = self.method.open_of_system.get(system).map_or("", String::as_str);
        for word in self.method.open.split_whitespace().chain(of_system.split_whitespace()) {
            let Some((name, value)) = word.split_once('=') else { continue };
            let is_chosen = side.choice != Choice::AsGiven && CHOSEN.contains(&name);
            if !is_chosen && pairs.iter().all(|(known, _)| *known != name) {
                pairs.push((name, value));
            }
        }
        row_of_pairs(claim.line, &pairs)
    }

    /// `row` with every choice of the cache settings that it leaves open.
    fn choices(&self, side: &ClaimSide, row: PublishedRow) -> Vec<PublishedRow> {
        if side.choice == Choice::AsGiven {
            return vec![PublishedRow {
                write_policy: row.write_policy.or(Some(WritePolicy::WriteThrough)),
                ..row
            }];
        }
        let controller = row.system.split('/').next().unwrap_or("");
        let has_cache = self.task.catalog.controller(controller).is_ok_and(|found| found.cache.size.0 > 0);
        let mut rows = Vec::new();
        for write in [WritePolicy::WriteThrough, WritePolicy::WriteBack] {
            for io in [IoPolicy::Direct, IoPolicy::Cached] {
                for disk in [false, true] {
                    let choice = PublishedRow {
                        write_policy: row.write_policy.or(Some(write)),
                        io_policy: row.io_policy.or(Some(io)),
                        disk_cache: row.disk_cache.or(Some(disk)),
                        ..row.clone()
                    };
                    let needs_cache = choice.write_policy != Some(WritePolicy::WriteThrough)
                        || choice.io_policy == Some(IoPolicy::Cached);
                    if (has_cache || !needs_cache) && !rows.contains(&choice) {
                        rows.push(choice);
                    }
                }
            }
        }
        rows
    }

    /// The places of the setups of `row` among all, or none after noting what is wrong.
    fn set_up(&mut self, row: &PublishedRow) -> Option<Vec<usize>> {
        let mut setup = match set_up(row, self.task) {
            Ok(setup) => setup,
            Err(problems) => {
                self.plan.problems.extend(problems);
                return None;
            }
        };
        if let (Some(region), Some(array)) = (self.method.region, &mut setup.array) {
            array.region = region.min(array.usable);
        }
        let first = self.plan.setups.len();
        for repeat in 0..self.method.repeats.get() {
            let load = setup.load.with_more_seed(u64::from(repeat));
            self.plan.setups.push(Setup { load, ..setup.clone() });
            self.plan.claim_of.push(self.index);
        }
        Some((first..self.plan.setups.len()).collect())
    }
}

/// Settings that `best` and `any` choose.
const CHOSEN: [&str; 3] = ["write_policy", "io_policy", "disk_cache"];

impl ClaimWorkload {
    fn label(&self) -> String {
        self.block.map_or_else(|| self.name.clone(), |block| format!("{} {block}", self.name))
    }
}

fn judge(
    claim: &Claim,
    plans: &[PartPlan],
    of_setup: &[usize],
    figure: FigureOf<'_>,
    method: &ClaimMethod,
) -> PredictedClaim {
    let parts: Vec<ClaimPart> = plans.iter().map(|plan| part(claim, plan, of_setup, figure)).collect();
    let ratios = parts.iter().map(|part| part.predicted);
    let predicted = match claim.kind {
        ClaimKind::UpTo => ratios.fold(0.0, f64::max),
        ClaimKind::About | ClaimKind::Order => ratios.sum::<f64>() / parts.len() as f64,
    };
    let measure = match claim.b {
        Against::Figure(_) => ClaimMeasure::Figure,
        Against::Side(_) | Against::Same => ClaimMeasure::Ratio,
    };
    let row = ClaimRow::of(claim.id.clone(), claim.kind, measure, claim.ratio, predicted);
    PredictedClaim {
        row: row.expect("published ratios are above zero, and a modelled array that serves has a rate"),
        parts,
        fitted: method.fitted.contains(&claim.id),
        unexplained: method.unexplained.get(&claim.id).cloned(),
    }
}

/// A candidate's mean figure, and the configurations that it is the mean of.
#[derive(Clone)]
struct Outcome {
    figure: f64,
    configurations: Vec<usize>,
}

/// The outcomes of the candidates that count: the best, or of `any` all.
fn outcomes(
    candidates: &Candidates,
    metric: PublishedMetric,
    of_setup: &[usize],
    figure: FigureOf<'_>,
) -> Vec<Outcome> {
    let outcome = |setups: &Vec<usize>| {
        let configurations: Vec<usize> = setups.iter().map(|setup| of_setup[*setup]).collect();
        let sum: f64 = configurations.iter().map(|index| figure(*index, metric)).sum();
        Outcome { figure: sum / configurations.len() as f64, configurations }
    };
    let all = candidates.setups.iter().map(outcome);
    match candidates.choice {
        Choice::Any => all.collect(),
        Choice::AsGiven | Choice::Best => {
            all.max_by(|a, b| a.figure.total_cmp(&b.figure)).into_iter().collect()
        }
    }
}

/// Compares the candidates that count; of several, those that fit the claim worst.
fn part(claim: &Claim, plan: &PartPlan, of_setup: &[usize], figure: FigureOf<'_>) -> ClaimPart {
    let outcomes = |candidates: &Candidates| outcomes(candidates, plan.metric, of_setup, figure);
    let b_side: Vec<Option<Outcome>> = match &plan.b {
        Some(b) => outcomes(b).into_iter().map(Some).collect(),
        None => vec![None],
    };
    let pairs =
        outcomes(&plan.a).into_iter().flat_map(|a| b_side.iter().map(move |b| (a.clone(), b.clone())));
    let parts = pairs.map(|(a, b)| ClaimPart {
        workload: plan.workload.clone(),
        predicted: b.as_ref().map_or(a.figure, |b| a.figure / b.figure),
        a: a.figure,
        a_configurations: a.configurations,
        b: b.as_ref().map(|b| b.figure),
        b_configurations: b.map_or(Vec::new(), |b| b.configurations),
    });
    let off = |part: &ClaimPart| (part.predicted / claim.ratio).ln().abs();
    parts.max_by(|a, b| off(a).total_cmp(&off(b))).expect("every side has a candidate")
}

#[cfg(test)]
mod tests;
