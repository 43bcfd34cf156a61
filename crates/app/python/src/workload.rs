//! Workloads: built in, of files, of job files of fio, and of the caller's own.

use crate::errors::{in_python, refused};
use crate::own::{OwnFault, OwnWorkload};
use pyo3::prelude::*;
use raidlab::{NanoSpan, WorkloadFacts};
use raidlab_jobs::{RunHints, Surroundings, import_fio};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an application asks.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Workload {
    workload: raidlab::Workload,
    /// What makes its requests, where that is Python.
    own: Option<Arc<OwnWorkload>>,
}

impl Workload {
    /// As a sweep takes it, which is told by `fault` what Python raises.
    pub(crate) fn of_sweep(&self, fault: &Arc<OwnFault>) -> raidlab::Workload {
        self.own.as_ref().map_or_else(|| self.workload.clone(), |own| own.workload(fault))
    }
}

impl From<raidlab::Workload> for Workload {
    fn from(workload: raidlab::Workload) -> Self {
        Self { workload, own: None }
    }
}

/// Requests in flight, and what a job asks beside its requests: arguments of Python or words, and their values.
type JobHints = (Option<u32>, Vec<(&'static str, String)>);

/// A job, and how it runs.
type HintedJob = (Workload, JobHints);

fn hints(run: &RunHints) -> JobHints {
    let seconds = |span: NanoSpan| format!("{}ms", span.get().div_ceil(1_000_000));
    let asked = [
        ("run", run.run.map(seconds)),
        ("ramp", run.ramp.map(seconds)),
        ("region", run.size.map(|size| format!("{}B", size.get()))),
        ("seed", run.seed.map(|seed| seed.to_string())),
        ("targets", (!run.targets.is_empty()).then(|| run.targets.join(", "))),
        ("buffered", run.buffered.then(|| "1".to_owned())),
    ];
    let asked = asked.into_iter().filter_map(|(name, value)| Some((name, value?)));
    (run.iodepths.first().copied(), asked.collect())
}

#[pymethods]
impl Workload {
    /// The built-in one of that full or short name, or that of the file of this path if it ends in `.toml`.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        raidlab::workload(name).map(Self::from).map_err(refused)
    }

    /// That of the TOML `text`; messages call it `name`.
    #[staticmethod]
    fn from_toml(name: &str, text: &str) -> PyResult<Self> {
        raidlab::Workload::from_toml(name, text).map(Self::from).map_err(refused)
    }

    /// Those of a job file of fio with the variables of `env`, one after the other, each with how the job runs it, and notes on what was
    /// left out.
    #[staticmethod]
    fn from_fio(
        name: &str,
        text: &str,
        env: BTreeMap<String, String>,
    ) -> PyResult<(Vec<HintedJob>, Vec<String>)> {
        let variable = |name: &str| {
            let value = env.get(name).ok_or_else(|| format!("give env={{'{name}': ...}}"))?;
            Ok((value.clone(), "env="))
        };
        let around = Surroundings { variable: &variable, ..Surroundings::NONE };
        let read = import_fio(name, text, around).map_err(refused)?;
        let step = |step: raidlab_jobs::Step| (step.workload.into(), hints(&step.run));
        Ok((
            read.steps.into_iter().map(step).collect(),
            read.notes.iter().map(|note| in_python(note)).collect(),
        ))
    }

    /// The same with so many requests in flight, unless it has a number of its own.
    fn with_iodepth(&self, iodepth: u32) -> Self {
        let mut workload = self.workload.clone();
        workload.spec.iodepth = workload.spec.iodepth.or(Some(iodepth));
        Self { workload, own: self.own.clone() }
    }

    /// The one called `name` whose requests Python makes.
    #[staticmethod]
    fn from_own(name: String, make: Py<PyAny>, has_times: bool, largest: &str) -> PyResult<Self> {
        let own = Arc::new(OwnWorkload::new(name, make, has_times, largest)?);
        Ok(Self { workload: own.workload(&Arc::default()), own: Some(own) })
    }

    #[getter]
    fn name(&self) -> &str {
        self.workload.name()
    }

    /// What is to be known of it, as JSON.
    fn facts(&self) -> String {
        serde_json::to_string(&WorkloadFacts::of(&self.workload)).expect("text and numbers always print")
    }
}

/// Full names of the built-in workloads.
#[pyfunction]
pub(crate) fn workload_names() -> Vec<String> {
    raidlab::builtin_workloads().iter().map(|it| it.name().to_owned()).collect()
}
