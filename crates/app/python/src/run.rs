//! Runs and their reports.

use crate::errors::{in_python, refused};
use pyo3::prelude::*;
use raidlab_report::{StudyReport, page as pages, terminal};
use raidlab_store::{RunFilter, RunSelector, Store};
use raidlab_workload::{BottleneckFacts, RunResult};
use std::path::PathBuf;
use std::sync::Arc;

/// What a run came to.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Run(pub(crate) Arc<RunResult>);

impl From<RunResult> for Run {
    fn from(run: RunResult) -> Self {
        Self(Arc::new(run))
    }
}

#[pymethods]
impl Run {
    /// The run that `json` says all of.
    #[new]
    fn new(json: &str) -> PyResult<Self> {
        serde_json::from_str::<RunResult>(json).map(Self::from).map_err(refused)
    }

    /// All of it, as `--json` has it.
    fn json(&self) -> String {
        serde_json::to_string(&*self.0).expect("text and numbers always print")
    }

    /// What is to be known before its figures are trusted, a sentence each.
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().iter().map(|text| in_python(text)).collect()
    }

    /// The same, each with what is said of several runs that have it, and what this one ran on.
    fn doubts(&self) -> Vec<(&'static str, &str, String)> {
        self.0.doubts().map(|(what, text)| (what, self.0.target.as_str(), in_python(&text))).collect()
    }

    /// What set its pace, in a sentence, where that was looked for.
    fn bottleneck(&self) -> Option<String> {
        self.0.bottleneck.as_ref().map(BottleneckFacts::sentence)
    }
}

/// The words of the command line on `runs`, with the arguments of Python.
#[pyfunction]
pub(crate) fn explanation(runs: Vec<PyRef<'_, Run>>, width: u16) -> String {
    let options = terminal::TerminalOptions { width, colour: false };
    if let [only] = &runs[..] {
        return in_python(
            &(terminal::run(&only.0, options) + &terminal::doubts(&only.0.warnings(), options)),
        );
    }
    let runs = results(&runs);
    in_python(&(terminal::runs(&runs, options) + &terminal::doubts(&RunResult::doubts_of(&runs), options)))
}

/// The page of `runs`, with tables and charts.
#[pyfunction]
pub(crate) fn page(runs: Vec<PyRef<'_, Run>>, title: &str) -> String {
    let runs = results(&runs);
    let report = StudyReport {
        title,
        question: "",
        method: Vec::new(),
        setup: Vec::new(),
        runs: &runs,
        verdicts: &[],
        warnings: RunResult::doubts_of(&runs).iter().map(|text| in_python(text)).collect(),
        notes: Vec::new(),
        compared: &[],
        iodepth: None,
        axes: None,
    };
    pages::study(&report).to_html()
}

/// The runs of the results file at `path` that `selectors` name, or all: number, number of the study, title, start, tags and run of each.
#[pyfunction]
pub(crate) fn stored_runs(path: PathBuf, selectors: Vec<String>) -> PyResult<Vec<StoredRow>> {
    if !path.is_file() {
        return Err(refused(format!("{}: there is no such results file", path.display())));
    }
    let store = Store::open(&path).map_err(refused)?;
    let chosen = if selectors.is_empty() {
        let mut lines = store.list_runs(&RunFilter::default()).map_err(refused)?;
        lines.reverse();
        lines.sort_by(|a, b| a.started_at.cmp(&b.started_at));
        lines.iter().map(|line| line.id).collect()
    } else {
        let selectors =
            selectors.iter().map(|text| text.parse::<RunSelector>()).collect::<Result<Vec<_>, _>>();
        store.select(&selectors.map_err(refused)?).map_err(refused)?
    };
    let row = |id: i64| {
        let kept = store.run(id).map_err(refused)?;
        Ok((kept.id, kept.study, kept.title, kept.started_at, kept.tags, Run::from(kept.result)))
    };
    chosen.into_iter().map(row).collect()
}

/// A run and where it is kept.
type StoredRow = (i64, i64, String, String, Vec<String>, Run);

fn results(runs: &[PyRef<'_, Run>]) -> Vec<RunResult> {
    runs.iter().map(|run| (*run.0).clone()).collect()
}
