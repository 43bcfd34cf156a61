//! Workloads: built in, of files, and of job files of fio.

use crate::errors::refused;
use pyo3::prelude::*;
use raidlab::WorkloadFacts;
use raidlab_jobs::{Surroundings, import_fio};

/// What an application asks.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Workload(pub(crate) raidlab::Workload);

#[pymethods]
impl Workload {
    /// The built-in one of that full or short name, or that of the file of this path if it ends in `.toml`.
    #[new]
    fn new(name: &str) -> PyResult<Self> {
        raidlab::workload(name).map(Self).map_err(refused)
    }

    /// That of the TOML `text`; messages call it `name`.
    #[staticmethod]
    fn from_toml(name: &str, text: &str) -> PyResult<Self> {
        raidlab::Workload::from_toml(name, text).map(Self).map_err(refused)
    }

    /// Those of a job file of fio, one after the other, and notes on what was left out.
    #[staticmethod]
    fn from_fio(name: &str, text: &str) -> PyResult<(Vec<Self>, Vec<String>)> {
        let read = import_fio(name, text, Surroundings::NONE).map_err(refused)?;
        Ok((read.steps.into_iter().map(|step| Self(step.workload)).collect(), read.notes))
    }

    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// What is to be known of it, as JSON.
    fn facts(&self) -> String {
        serde_json::to_string(&WorkloadFacts::of(&self.0)).expect("text and numbers always print")
    }
}

/// Full names of the built-in workloads.
#[pyfunction]
pub(crate) fn workload_names() -> Vec<String> {
    raidlab::builtin_workloads().iter().map(|it| it.name().to_owned()).collect()
}
