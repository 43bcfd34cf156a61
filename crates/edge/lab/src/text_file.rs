//! Files of text, by people and by other programs: read whole, and named with the reason where they can't be.

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

impl TextFileError {
    /// Returns what makes the error of `path` out of what the system said.
    pub fn of(path: &Path) -> impl Fn(std::io::Error) -> Self {
        |source| Self { path: path.to_owned(), source }
    }
}

/// The text of the file at `path`.
///
/// # Errors
/// [`TextFileError`], if it is not there, may not be read, or is no UTF-8.
pub fn read_text(path: &Path) -> Result<String, TextFileError> {
    std::fs::read_to_string(path).map_err(TextFileError::of(path))
}

/// The text of another program's file at `path`; what is no UTF-8 in it is replaced.
///
/// # Errors
/// [`TextFileError`], if it is not there or may not be read.
pub fn read_foreign_text(path: &Path) -> Result<String, TextFileError> {
    let bytes = std::fs::read(path).map_err(TextFileError::of(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
