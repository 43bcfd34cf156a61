//! Keeping finished runs: in memory for the final output, and in a results file if there is one.
//!
//! Every run is in the file before the next one begins, so neither Ctrl-C nor a crash takes a finished run away.

use crate::failure::Failure;
use crate::output::remark;
use raidlab::Prediction;
use raidlab_machine::Environment;
use raidlab_report::StudyReport;
use raidlab_store::{
    FinishedRun, RunSelector, Store, StoreError, StoredRun, StudyEnd, StudyRunHead, StudyRunId,
};
use raidlab_study::describe;
use raidlab_workload::RunResult;
use raidlab_worlds::LoadPlan;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The results file that a verb reads.
#[derive(Debug, clap::Args)]
pub(crate) struct DbArgs {
    /// Results file
    #[arg(long, value_name = "FILE.sqlite", default_value = "raidlab.sqlite")]
    pub(crate) db: PathBuf,
}

impl DbArgs {
    /// Opens the file, which must be there: looking must not make one.
    pub(crate) fn open(&self) -> Result<Store, Failure> {
        if !self.db.exists() {
            return Err(Failure::input(anyhow::anyhow!("there is no results file {}", self.db.display()))
                .with_hint("'raidlab measure ... --db FILE.sqlite' makes one; name another with --db"));
        }
        Store::open(&self.db).map_err(store_failure)
    }

    /// The runs that `selectors` name, in full.
    pub(crate) fn runs(&self, selectors: &[RunSelector]) -> Result<Vec<StoredRun>, Failure> {
        let store = self.open()?;
        let ids = selected(&store, selectors)?;
        ids.into_iter().map(|id| store.run(id).map_err(store_failure)).collect()
    }
}

/// The numbers of the runs of `store` that `selectors` name; says which numbers of ranges no run has.
pub(crate) fn selected(store: &Store, selectors: &[RunSelector]) -> Result<Vec<i64>, Failure> {
    let ids = store.select(selectors).map_err(|error| {
        let is_number = matches!(
            error,
            StoreError::NoSuchRun { .. } | StoreError::NoSuchStudy { .. } | StoreError::NoSuchPlan { .. }
        );
        let failure = store_failure(error);
        match store.extent() {
            Ok([Some(runs), Some(studies)]) if is_number => {
                let (runs, studies) = (numbers("run", runs), numbers("study run", studies));
                failure.with_hint(format!("it has {runs} and {studies}"))
            }
            _ => failure,
        }
    })?;
    for gap in store.gaps(selectors).map_err(store_failure)? {
        remark(format_args!("note: the results file has no {}", numbers("run", gap)));
    }
    Ok(ids)
}

/// `run 3`, or `runs 3 to 7`.
fn numbers(what: &str, (first, last): (i64, i64)) -> String {
    if first == last { format!("{what} {first}") } else { format!("{what}s {first} to {last}") }
}

/// The results file that a verb writes if it is asked to.
#[derive(Debug, clap::Args)]
pub(crate) struct KeepDbArgs {
    /// Keep the results in this results file
    #[arg(long, value_name = "FILE.sqlite")]
    pub(crate) db: Option<PathBuf>,
}

impl KeepDbArgs {
    /// Keeps `results`, which began at `started_at`, where a file is named; the number of their study run there.
    pub(crate) fn keep(
        &self,
        planned: Planned,
        environment: Environment,
        started_at: SystemTime,
        results: Vec<RunResult>,
    ) -> Result<Option<i64>, Failure> {
        if self.db.is_none() {
            return Ok(None);
        }
        let is_complete = results.len() as u64 == planned.runs;
        let mut keeper = Keeper::begin_planned(self.db.as_deref(), planned, environment)?;
        results.into_iter().try_for_each(|result| keeper.take(started_at, result))?;
        keeper.end(is_complete, &[])?;
        Ok(keeper.study())
    }
}

/// What is not there, and a file that is none of results, is the asker's error, anything else the file's.
pub(crate) fn store_failure(error: StoreError) -> Failure {
    match error {
        StoreError::NoSuchRun { .. }
        | StoreError::NoSuchStudy { .. }
        | StoreError::NoSuchPlan { .. }
        | StoreError::NotAPlan { .. }
        | StoreError::NoSuchTag { .. } => Failure::input(error),
        StoreError::Open { .. }
        | StoreError::NotADatabase { .. }
        | StoreError::Foreign { .. }
        | StoreError::TooNew { .. } => Failure::input(error).with_hint("name another results file with --db"),
        other => Failure::run(other),
    }
}

/// Runs that are about to be done.
pub(crate) struct Planned {
    /// The verb.
    pub(crate) kind: &'static str,
    pub(crate) title: String,
    /// How they are done, in a paragraph.
    pub(crate) method: String,
    /// How many they are.
    pub(crate) runs: u64,
    pub(crate) seed: u64,
    /// All settings, as JSON.
    pub(crate) configuration: String,
}

/// The loads of a study run, and what was predicted with them, where that can be simulated again.
#[derive(Serialize)]
struct KeptPlan<'a> {
    #[serde(flatten)]
    plan: &'a LoadPlan,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<&'a Prediction>,
}

/// What [`KeptPlan`] and a plan keep of a prediction.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptPrediction {
    pub(crate) prediction: Prediction,
}

/// The finished runs, in the results file where there is one.
pub(crate) struct Keeper {
    store: Option<(Store, StudyRunId)>,
    pub(crate) environment: Environment,
    pub(crate) title: String,
    pub(crate) method: String,
    pub(crate) results: Vec<RunResult>,
}

impl Keeper {
    /// Begins to keep the runs of `plan` on what `title` names.
    pub(crate) fn begin(
        db: Option<&Path>,
        kind: &'static str,
        title: String,
        (plan, prediction): (&LoadPlan, Option<&Prediction>),
        seed: u64,
        environment: Environment,
    ) -> Result<Self, Failure> {
        let kept = KeptPlan { plan, prediction };
        let configuration = serde_json::to_string(&kept).map_err(Failure::run)?;
        let planned = Planned {
            kind,
            title,
            method: describe::load(plan),
            runs: plan.run_count(),
            seed,
            configuration,
        };
        Self::begin_planned(db, planned, environment)
    }

    /// Begins to keep runs of any kind.
    pub(crate) fn begin_planned(
        db: Option<&Path>,
        planned: Planned,
        environment: Environment,
    ) -> Result<Self, Failure> {
        let Planned { kind, title, method, runs, seed, configuration } = planned;
        let paragraphs = [method];
        let head = StudyRunHead {
            kind,
            title: &title,
            question: "",
            method: &paragraphs,
            planned_runs: runs,
            seed,
            configuration,
        };
        let begin = |path: &Path| {
            let mut store = Store::open(path)?;
            let study = store.begin_study(&head)?;
            Ok((store, study))
        };
        let store = db.map(begin).transpose().map_err(store_failure)?;
        let [method] = paragraphs;
        Ok(Self { store, environment, title, method, results: Vec::new() })
    }

    /// Its number in the results file, where there is one.
    pub(crate) fn study(&self) -> Option<i64> {
        self.store.as_ref().map(|(_, study)| study.0)
    }

    /// Takes in a finished run; it is safe when this returns.
    pub(crate) fn take(&mut self, started_at: SystemTime, result: RunResult) -> Result<(), Failure> {
        self.store(self.results.len(), started_at, &result)?;
        self.results.push(result);
        Ok(())
    }

    /// Puts a finished run at its place in the plan into the file, for who takes in the results later, in their order.
    pub(crate) fn store(
        &mut self,
        ordinal: usize,
        started_at: SystemTime,
        result: &RunResult,
    ) -> Result<(), Failure> {
        let Some((store, study)) = &mut self.store else { return Ok(()) };
        let run = FinishedRun { ordinal: ordinal as u64, started_at, result, environment: &self.environment };
        store.insert_run(*study, &run).map(|_| ()).map_err(Failure::run)
    }

    /// What a report of the runs begins with.
    pub(crate) fn report(&self) -> StudyReport<'_> {
        StudyReport {
            title: &self.title,
            question: "",
            method: vec![self.method.clone()],
            setup: describe::setup(&self.environment),
            runs: &self.results,
            verdicts: &[],
            warnings: Vec::new(),
            notes: Vec::new(),
            compared: &[],
            iodepth: None,
            axes: None,
        }
    }

    /// Records the end, and what was concluded.
    pub(crate) fn end(&mut self, complete: bool, notes: &[String]) -> Result<(), Failure> {
        let Some((store, study)) = &mut self.store else { return Ok(()) };
        let end = if complete { StudyEnd::Complete } else { StudyEnd::Incomplete };
        store.end_study(*study, end, notes).map_err(Failure::run)
    }
}
