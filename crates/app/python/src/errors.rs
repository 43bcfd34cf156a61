//! Errors of the facade as an exception of Python, with the text of the command line.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::fmt::Display;

pyo3::create_exception!(
    _raidlab,
    RaidlabError,
    PyValueError,
    "What was asked can't be; the text is that of the command line."
);

/// What was said of input, as it is.
pub(crate) fn refused(error: impl Display) -> PyErr {
    RaidlabError::new_err(error.to_string())
}

/// The same, of an argument and its value.
pub(crate) fn refused_argument(name: &str, value: impl Display, error: impl Display) -> PyErr {
    RaidlabError::new_err(format!("{name}={value}: {error}"))
}
