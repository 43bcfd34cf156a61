//! `raidlab compare plan:ID RUNS`: which assumption of a kept prediction measured runs show to be wrong.

use super::Args;
use crate::failure::{Exit, Failure};
use crate::output::{Output, print, print_answer, remark};
use crate::progress::Progress;
use crate::schema::Form;
use crate::verbs::keep::{KeptPrediction, selected, store_failure};
use raidlab::{ExplainError, Explanation, PredictionError, Run, explain};
use raidlab_store::{RunSelector, StoredRun, StudyRunId};
use raidlab_workload::World;
use serde::Serialize;

/// Explains what tells runs from plan `number`.
pub(super) fn run(args: &Args, number: i64, output: &Output) -> Result<Exit, Failure> {
    let (first, measured) = args.groups.split_first().expect("clap requires two");
    if let Some(other) = measured.iter().find(|it| matches!(it, RunSelector::Plan(_))) {
        let problem =
            anyhow::anyhow!("{other} is a plan, and {first} is compared with runs that were measured");
        return Err(Failure::input(problem)
            .with_hint("name runs, as 'raidlab runs --world measured' lists them: 12, 3..7, tag:NAME"));
    }
    if args.catalog.is_given() {
        let problem = anyhow::anyhow!("a plan is simulated with the catalogue that it was made with");
        return Err(Failure::input(problem).with_hint("leave --catalog, --fitted and --set out"));
    }
    let store = args.place.open()?;
    let predicted = selected(&store, std::slice::from_ref(first))?;
    let ids = selected(&store, measured)?;
    let study = store.study(StudyRunId(number)).map_err(store_failure)?;
    let kept: KeptPrediction = serde_json::from_str(&study.configuration).map_err(|error| {
        let problem = anyhow::anyhow!("{first} can't be simulated again: it does not say all of its array ({error})");
        Failure::input(problem).with_hint(
            "runs on a file of a host and runs kept by an older raidlab can't; plan or simulate once more with --db",
        )
    })?;
    let read = |ids: Vec<i64>| {
        ids.into_iter().map(|id| store.run(id).map_err(store_failure)).collect::<Result<Vec<_>, _>>()
    };
    let (predicted, runs) = (read(predicted)?, read(ids)?);
    if let Some(same) = runs.iter().find(|run| run.study == number) {
        let problem = anyhow::anyhow!("run {} is one of {first} itself", same.id);
        return Err(Failure::input(problem).with_hint("name runs that were measured"));
    }
    for run in runs.iter().filter(|run| run.result.world == World::Simulated) {
        remark(format_args!("note: run {} was simulated; it is taken as if it had been measured", run.id));
    }
    let results = |runs: &[StoredRun]| runs.iter().map(|run| run.result.clone()).collect::<Vec<Run>>();
    let mut progress = Progress::start();
    let found = explain(&kept.prediction, &results(&predicted), &results(&runs), args.threads, &mut |done| {
        progress.show("simulating with other assumptions", done);
    });
    progress.end();
    let found = found.map_err(failed)?;
    let ids: Vec<i64> = runs.iter().map(|run| run.id).collect();
    if output.is_json() {
        print_answer(&Answer { plan: number, run_ids: &ids, explanation: &found })?;
    } else {
        let names: Vec<String> = ids.iter().map(|id| format!("run {id}")).collect();
        print(&raidlab_report::terminal::explanation(&first.to_string(), &names, &found, output.terminal()))?;
    }
    Ok(Exit::Done)
}

fn failed(error: ExplainError) -> Failure {
    let hint = match &error {
        ExplainError::NoFigures { .. } => "name runs of 'measure', or imported ones of fio and Iometer",
        ExplainError::Prediction(PredictionError::Catalog(_) | PredictionError::Array(_)) => {
            "the catalogue has changed since; plan or simulate once more with --db"
        }
        _ => return Failure::input(error),
    };
    Failure::input(error).with_hint(hint)
}

/// The form of its answer.
pub(in crate::verbs) const FORM: Form = Form::whole::<Answer<'_>>();

/// What was found, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct Answer<'a> {
    plan: i64,
    run_ids: &'a [i64],
    #[serde(flatten)]
    explanation: &'a Explanation,
}
