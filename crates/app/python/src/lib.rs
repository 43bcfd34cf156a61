//! The library as the module `_raidlab` of Python, beneath the package `raidlab` (packaging/python/raidlab).
//!
//! ```text
//! raidlab/*.py    arguments with names, units and defaults; results as objects   (Python, typed)
//!     │           texts, lists, JSON
//! _raidlab        Array, Catalog, Workload, Sweep, Run, Table, Controller                   (this crate)
//!     │
//! raidlab         the facade
//! ```
//! Here is what needs the facade's types, and nothing else: whatever can be said in Python is said there. Results go over as the JSON of
//! `--json`, tables as Arrow. A long call lets other threads of Python run and looks for signals 50 times a second.
#![allow(clippy::needless_pass_by_value, reason = "what comes from Python is owned by its call")]

mod array;
mod controller;
mod errors;
mod own;
mod run;
mod sweep;
mod table;
mod waiting;
mod workload;

use pyo3::prelude::*;

/// What the package is made of.
#[pymodule]
mod _raidlab {
    #[pymodule_export]
    use super::array::{Array, Catalog};
    #[pymodule_export]
    use super::controller::Controller;
    #[pymodule_export]
    use super::errors::RaidlabError;
    #[pymodule_export]
    use super::run::{Run, explanation, page, stored_runs};
    #[pymodule_export]
    use super::sweep::Sweep;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::workload::{Workload, workload_names};
    use super::{Bound, PyModule, PyResult};

    /// The version of the library.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::own::fault::register(module.py())
    }
}
