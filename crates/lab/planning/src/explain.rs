//! Which assumption of a prediction was wrong, by runs that were measured.
//!
//! ```text
//! what both were asked ─► workload differs? ─► simulated again with the measured one
//!                                                     │ what is left
//!                          drive, link, host: each alone slower or faster, as fits best ─► which of them explain it
//! ```
//! - **The workload is compared first**: it is a fact and no guess. What a run does not say counts as predicted.
//! - **One change at a time**: all times of the drives, of the links, or of what requests cost processors are multiplied by one
//!   number, which is searched from a sixteenth to sixteen times.
//! - **How well it fits** is judged by all figures that both have: requests per second and mean latencies within 5 %, percentiles
//!   within 10 %, the 99th within 20 %, the root of the mean of squares ([`Trial::distance`] is 1 at these).
//! - **What can't be told apart is said**: changes that fit about as well as the best one are all named. More runs, at other depths
//!   and sizes, tell more.
//!
//! Left out: two assumptions that are wrong at once, and what no part is slow by: another level, a cache that is off.

mod figures;
mod trial;

pub use figures::{AskedFigure, DoneFigure, Off, distance, done, off, off_pct};
pub use trial::like_run;

use crate::prediction::{Prediction, PredictionError};
use figures::Asked;
use raidlab_hosts::all_processors;
use raidlab_workload::RunResult;
use raidlab_worlds::Assumption;
use raidlab_worlds::simulated::SimulatedError;
use serde::Serialize;
use std::num::NonZeroUsize;
use trial::{Bench, TIMES_MAX};

/// A change that fits so many times worse than the best one explains a difference as well.
const AS_WELL: f64 = 1.25;

/// And so many tolerances worse, whatever the best is.
const AS_WELL_MORE: f64 = 0.3;

/// What is left of a difference by a change that explains it, at most.
const LEFT_MAX: f64 = 0.35;

/// The most of what a change begins with that may be left of it: less is no explanation.
const GAIN_LEAST: f64 = 0.7;

/// A factor this near the ends of the search, as a natural logarithm, is none that was found: what fits best lies beyond.
const AT_END: f64 = 0.1;

/// A part that takes so much more or less time, as a natural logarithm, is as it was assumed.
const AS_ASSUMED: f64 = 0.05;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The prediction can't be simulated again.
    #[error(transparent)]
    Prediction(#[from] PredictionError),
    /// The array refuses the load.
    #[error("{load}: {source}")]
    Run {
        /// The load in a few words.
        load: String,
        /// What is against it.
        source: SimulatedError,
    },
    /// The prediction has no run to compare with.
    #[error("the prediction has no runs")]
    NoRuns,
    /// A measured run is of something else than requests of a workload.
    #[error("the run on {target} has no requests per second and no latencies: it measured something else")]
    NoFigures {
        /// What was measured.
        target: String,
    },
}

/// What a prediction was wrong about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Other requests were made.
    Workload,
    /// The members take another time.
    Drive,
    /// The links do.
    Link,
    /// What requests cost processors does.
    Host,
}

impl Cause {
    const fn of(part: Assumption) -> Self {
        match part {
            Assumption::Drive => Self::Drive,
            Assumption::Link => Self::Link,
            Assumption::Host => Self::Host,
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The prediction agrees with what was measured.
    Agrees,
    /// One change explains the difference.
    One,
    /// Several explain it about as well: these runs can't tell them apart.
    Several,
    /// No single change does.
    None,
}

/// A measured run beside what was predicted for it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ComparedRun {
    /// What was measured.
    pub target: String,
    /// The measured workload.
    pub workload: String,
    /// The predicted one that it is compared with.
    pub predicted_workload: String,
    /// What both were asked.
    pub asked: Vec<AskedFigure>,
    /// What came of both.
    pub done: Vec<DoneFigure>,
}

/// One change of the prediction, and how well it fits all runs then.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Trial {
    /// What was changed.
    pub change: Cause,
    /// How many times as long the part takes, where it is a part.
    pub times: Option<f64>,
    /// Whether the search of it ended where it may not go on: what fits best lies beyond.
    pub at_bound: bool,
    /// How far requests per second and mean latencies are off then, in percent.
    pub off_pct: f64,
    /// The same of all figures, in tolerances.
    pub distance: f64,
    /// Whether it explains the difference.
    pub explains: bool,
}

/// Why measured runs are not what was predicted.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Explanation {
    /// The predicted array.
    pub array: String,
    /// Each measured run.
    pub runs: Vec<ComparedRun>,
    /// How far the prediction is off, in percent.
    pub off_pct: f64,
    /// The same of all figures, in tolerances.
    pub distance: f64,
    /// What was tried: the measured workload where it differs, then each part on top of it, best first.
    pub trials: Vec<Trial>,
    /// What was found.
    pub finding: Finding,
    /// What was wrong, the workload first; where the finding is `several`, any of the others.
    pub causes: Vec<Cause>,
    /// What else is to be known, sentences.
    pub notes: Vec<String>,
}

impl Explanation {
    /// What was found for `change`, if it was tried.
    pub fn trial(&self, change: Cause) -> Option<&Trial> {
        self.trials.iter().find(|trial| trial.change == change)
    }
}

/// Explains what tells `measured` runs from `predicted` ones, which are those of `prediction`, by simulations on up to `threads`
/// threads; all processors if none is said. `progress` is told how much of it is done.
///
/// # Errors
/// [`ExplainError`] if the prediction can't be simulated again, or a run has no figures.
pub fn explain(
    prediction: &Prediction,
    predicted: &[RunResult],
    measured: &[RunResult],
    threads: Option<NonZeroUsize>,
    progress: &mut dyn FnMut(f64),
) -> Result<Explanation, ExplainError> {
    if let Some(run) = measured.iter().find(|run| run.ops.total.requests == 0) {
        return Err(ExplainError::NoFigures { target: run.target.clone() });
    }
    let bench = Bench::new(prediction, measured, threads.unwrap_or_else(all_processors))?;
    let mut notes = Vec::new();
    let mut kept = Vec::new();
    for pair in &bench.pairs {
        let of_load = |run: &&RunResult| {
            run.workload == pair.load.workload.name()
                && run.iodepth == pair.load.workload.spec.iodepth(pair.load.iodepth)
        };
        kept.push(match predicted.iter().find(of_load) {
            Some(run) => run.clone(),
            None => bench.as_predicted(pair)?,
        });
    }
    let mut runs = Vec::new();
    for ((pair, kept), measured) in bench.pairs.iter().zip(&kept).zip(measured) {
        let (one, other) = (Asked::of(kept), Asked::of(measured));
        runs.push(ComparedRun {
            target: measured.target.clone(),
            workload: measured.workload.clone(),
            predicted_workload: pair.load.workload.name().to_owned(),
            asked: one.beside(&other),
            done: done(kept, measured),
        });
        notes.extend(pair.notes.iter().cloned());
        if one.places != other.places && !measured.lines.is_empty() {
            notes.push(format!(
                "places differ ('{}' predicted, '{}' measured), and those of the prediction are kept in all trials",
                one.places.as_deref().unwrap_or("everywhere"),
                other.places.as_deref().unwrap_or("everywhere"),
            ));
        }
    }
    let pairs = || kept.iter().zip(measured);
    let (off, distance) = (off_pct(pairs()), distance(pairs()));
    let mut found = Explanation {
        array: bench.label()?,
        runs,
        off_pct: off,
        distance,
        trials: Vec::new(),
        finding: Finding::Agrees,
        causes: Vec::new(),
        notes,
    };
    search(&bench, &mut found, progress)?;
    Ok(found)
}

/// Tries one change after the other, and says which explain the difference.
fn search(
    bench: &Bench<'_>,
    found: &mut Explanation,
    progress: &mut dyn FnMut(f64),
) -> Result<(), ExplainError> {
    let is_other_workload = bench.pairs.iter().any(|pair| pair.is_other);
    // As the trials are: their windows are shorter than those of the prediction.
    let base = bench.as_measured()?;
    let mut left = base.distance;
    if is_other_workload {
        let explains = base.distance <= (LEFT_MAX * found.distance).max(1.0);
        found.trials.push(Trial {
            change: Cause::Workload,
            times: None,
            at_bound: false,
            off_pct: base.off_pct,
            distance: base.distance,
            explains,
        });
        found.causes.push(Cause::Workload);
        if base.distance <= 1.0 {
            found.finding = Finding::One;
            return Ok(());
        }
        // What is left is another's.
    } else if found.distance <= 1.0 {
        return Ok(());
    } else {
        left = left.max(f64::MIN_POSITIVE);
    }
    let mut trials = bench.parts(progress)?;
    trials.sort_by(|one, other| one.distance.total_cmp(&other.distance));
    let best = trials.first().map_or(f64::INFINITY, |trial| trial.distance);
    let limit = (AS_WELL * best).max(best + AS_WELL_MORE);
    let enough = (LEFT_MAX * left).max(1.5);
    for trial in &mut trials {
        let is_other = trial.times.is_some_and(|times| times.ln().abs() > AS_ASSUMED);
        let gains = trial.distance <= enough && trial.distance <= GAIN_LEAST * left;
        trial.at_bound = trial.times.is_some_and(|times| times.ln().abs() > TIMES_MAX.ln() - AT_END);
        // At an end of the search it is something else, unless hardly anything is left.
        let is_found = !trial.at_bound || trial.distance <= 1.0;
        trial.explains = is_other && is_found && trial.distance <= limit && gains;
    }
    let explaining: Vec<Cause> = trials.iter().filter(|it| it.explains).map(|it| it.change).collect();
    found.finding = match explaining.len() {
        // The rest of it is too little to be anybody's.
        0 if found.trial(Cause::Workload).is_some_and(|trial| trial.explains) => Finding::One,
        0 => Finding::None,
        1 => Finding::One,
        _ => Finding::Several,
    };
    found.causes.extend(explaining);
    found.trials.extend(trials);
    Ok(())
}
