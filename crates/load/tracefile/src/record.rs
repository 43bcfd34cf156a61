//! A trace that is recorded while it happens: requests in, a file out.

use crate::error::TraceFileError;
use crate::schema::TraceMeta;
use crate::write::TraceWriter;
use raidlab_trace::{Summary, TraceRecord};
use std::path::{Path, PathBuf};

/// Writes requests as they come.
#[derive(Debug)]
pub struct TraceRecorder {
    path: PathBuf,
    source: String,
    names: Vec<String>,
    writer: TraceWriter,
    summary: Summary,
    start_ns: Option<u64>,
}

impl TraceRecorder {
    /// Makes the file of a trace of devices called `names`, from `source`.
    ///
    /// # Errors
    /// [`TraceFileError::Io`] if it is there already, or can't be made.
    pub fn create(path: &Path, source: &str, names: &[String]) -> Result<Self, TraceFileError> {
        Ok(Self {
            path: path.to_owned(),
            source: source.to_owned(),
            names: names.to_owned(),
            writer: TraceWriter::create(path)?,
            summary: Summary::default(),
            start_ns: None,
        })
    }

    /// Writes the next request, in the order of their times.
    ///
    /// # Errors
    /// [`TraceFileError::Parquet`] with what the system said.
    pub fn push(&mut self, record: &TraceRecord) -> Result<(), TraceFileError> {
        let start_ns = *self.start_ns.get_or_insert(record.time_ns);
        let record = TraceRecord { time_ns: record.time_ns.saturating_sub(start_ns), ..*record };
        self.summary.add(&record);
        self.writer.push(&record)
    }

    /// Ends the file, and returns its name; without any request there is no file.
    ///
    /// # Errors
    /// [`TraceFileError::Parquet`] with what the system said.
    pub fn finish(self) -> Result<Option<PathBuf>, TraceFileError> {
        let Some(start_ns) = self.start_ns else {
            drop(self.writer);
            // It was made here.
            let _ = std::fs::remove_file(&self.path);
            return Ok(None);
        };
        let summary = self.summary.finish(&self.names);
        let meta = TraceMeta { source: self.source, format: None, start_ns, out_of_order: 0, summary };
        self.writer.finish(&meta)?;
        Ok(Some(self.path))
    }
}
