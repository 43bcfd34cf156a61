//! Why a trace can't be imported, written or read.

use raidlab_trace::{TraceError, TraceFormat};
use std::io;
use std::path::PathBuf;

/// Why a trace can't be imported, written or read.
#[derive(Debug, thiserror::Error)]
pub enum TraceFileError {
    /// A file can't be opened, read, made or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line of the text is wrong.
    #[error(transparent)]
    Line(#[from] TraceError),
    /// There is no request in the text.
    #[error("{file}: there is no request in it")]
    Empty {
        /// The file.
        file: String,
    },
    /// Its events are others than the one that counts.
    #[error("{file}: there is no event {asked} in it, but {}: take that with --action {}", seen.join(" and "), seen.first().unwrap_or(&"Q"))]
    NoSuchAction {
        /// The file.
        file: String,
        /// What counts.
        asked: &'static str,
        /// What there is.
        seen: Vec<&'static str>,
    },
    /// Devices that were asked for are not in it.
    #[error("{file}: there is no request for device {}", missing.join(", "))]
    NoSuchDevice {
        /// The file.
        file: String,
        /// The devices.
        missing: Vec<String>,
    },
    /// The times of its format have a unit that nobody doubts.
    #[error("{file}: times of the format {format} have one unit: leave out --time-unit")]
    TimeUnit {
        /// The file.
        file: String,
        /// Its format.
        format: TraceFormat,
    },
    /// It is no Parquet file, or damaged.
    #[error("{}: {problem}", path.display())]
    Parquet {
        /// The file.
        path: PathBuf,
        /// What the reader or writer said.
        problem: String,
    },
    /// It is a Parquet file, but no trace.
    #[error("{}: {problem}", path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// What is missing or different.
        problem: String,
    },
    /// A row can't be.
    #[error("{}: row {row}: {problem}", path.display())]
    Row {
        /// The file.
        path: PathBuf,
        /// Which, the first being 1.
        row: u64,
        /// What is wrong with it.
        problem: &'static str,
    },
}
