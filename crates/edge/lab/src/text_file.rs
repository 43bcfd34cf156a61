//! Files of text that people write: read whole, and named with the reason where they can't be.

use std::path::{Path, PathBuf};

/// A file that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{path} cannot be read: {source}")]
pub struct TextFileError {
    /// The file.
    pub path: PathBuf,
    /// What the system said.
    pub source: std::io::Error,
}

/// The text of the file at `path`.
///
/// # Errors
/// [`TextFileError`], if it is not there, may not be read, or is no UTF-8.
pub(crate) fn read_text(path: &Path) -> Result<String, TextFileError> {
    std::fs::read_to_string(path).map_err(|source| TextFileError { path: path.to_owned(), source })
}
