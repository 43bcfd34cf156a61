//! Published figures: one row of a CSV file per figure, with the columns of [`COLUMNS`].
//!
//! Empty cells stay `None`, and unreadable ones are a [`RowProblem`]. All problems of a file are reported together, so
//! that its author can correct them at once. No row is ever skipped: a comparison that silently leaves out what it
//! can't predict looks better than it is.

mod cells;
mod matrix;

use self::cells::Cells;
pub use self::matrix::{MatrixRow, matrix_header, read_matrix};
use crate::predict::PredictOptions;
use raidlab_controller::{IoPolicy, ReadPolicy, WritePolicy};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{Metric, builtin_workload};
use raidlab_worlds::{TextFileError, read_text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// The columns of a file of published figures; their order is free.
pub const COLUMNS: [&str; 23] = [
    "id",
    "place",
    "system",
    "raid",
    "drives",
    "drive",
    "write_policy",
    "read_policy",
    "io_policy",
    "disk_cache",
    "cache_mirroring",
    "filesystem",
    "workload",
    "block_kib",
    "queue_depth",
    "streams",
    "volumes",
    "response_limit_ms",
    "stroke_pct",
    "file_mib",
    "metric",
    "value",
    "note",
];

/// Columns that a file may leave out: they say nothing about an array on raw volumes at a fixed queue depth.
const OPTIONAL_COLUMNS: [&str; 10] = [
    "place",
    "cache_mirroring",
    "disk_cache",
    "filesystem",
    "streams",
    "volumes",
    "response_limit_ms",
    "stroke_pct",
    "file_mib",
    "note",
];

raidlab_units::named! {
    /// What a published figure counts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum PublishedMetric {
        /// Requests per second.
        Iops = "iops",
        /// 2^10 bytes per second.
        KibPerS = "kib_per_s",
        /// 10^6 bytes per second.
        MbPerS = "mb_per_s",
        /// 2^20 bytes per second.
        MibPerS = "mib_per_s",
        /// Share of the time that a processor was busy, in percent.
        CpuPct = "cpu_pct",
    }
}

impl PublishedMetric {
    /// What a built-in workload is judged by; requests per second for an unknown one, which is reported when it is set up.
    pub(crate) fn of_workload(name: &str) -> Self {
        match builtin_workload(name).map(|found| found.metric) {
            Ok(Metric::MbPerS) => Self::MbPerS,
            _ => Self::Iops,
        }
    }
}

/// A published figure. Empty cells are `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedRow {
    /// Line in the file, from 1.
    pub line: u64,
    /// Names the row.
    pub id: String,
    /// Where in the publication it stands: `Table 4`.
    pub place: String,
    /// Controller and enclosure: `perc-h800/md1200`.
    pub system: String,
    /// RAID level.
    pub raid: String,
    /// Number of members.
    pub drives: u16,
    /// Catalogue id of the members.
    pub drive: String,
    /// When writes are acknowledged.
    pub write_policy: Option<WritePolicy>,
    /// Whether the controller reads ahead.
    pub read_policy: Option<ReadPolicy>,
    /// Whether reads are cached.
    pub io_policy: Option<IoPolicy>,
    /// Whether the members' own write caches are on.
    pub disk_cache: Option<bool>,
    /// Name of the workload.
    pub workload: String,
    /// Size of its requests.
    pub block: Option<ByteCount>,
    /// Whether two controllers keep copies of each other's dirty blocks.
    pub cache_mirroring: Option<bool>,
    /// Requests in flight; 0 where `response_limit` decides.
    pub queue_depth: u32,
    /// The figure is what the array does when requests take so long on average.
    pub response_limit: Option<NanoSpan>,
    /// Share of the volume in use, in percent.
    pub stroke_pct: Option<f64>,
    /// How it is simulated, if the paper that it belongs to has its own way for it.
    pub options: Option<PredictOptions>,
    /// Length of the file, where the workload has one.
    pub file: Option<ByteCount>,
    /// The filesystem that it is on.
    pub filesystem: Option<String>,
    /// Readers at once; 0 where the row does not say.
    pub streams: u32,
    /// Volumes that their files are on in turn; 0 where the row does not say.
    pub volumes: u32,
    /// What else it says.
    pub note: String,
    /// What `value` counts.
    pub metric: PublishedMetric,
    /// What the figure really counts, where a paper's figures are known to be labelled otherwise.
    pub counts: PublishedMetric,
    /// The figure.
    pub value: f64,
}

/// Why a row can't be predicted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowProblem {
    /// Line in the file, from 1.
    pub line: u64,
    /// The row's id.
    pub row: String,
    /// The column at fault.
    pub column: &'static str,
    /// What stands there.
    pub value: String,
    /// What is wrong with it.
    pub why: String,
    /// The known value that is most like it.
    pub nearest: Option<String>,
}

impl fmt::Display for RowProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, row, column, value, why, nearest } = self;
        write!(f, "line {line}, row '{row}', column {column}: '{value}' {why}")?;
        nearest.as_ref().map_or(Ok(()), |nearest| write!(f, "; nearest known: '{nearest}'"))
    }
}

/// Why a file of published figures can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] TextFileError),
    /// The file is no CSV.
    #[error("{file} is not a well-formed CSV file: {source}")]
    Csv {
        /// The file.
        file: String,
        /// What is wrong.
        source: csv::Error,
    },
    /// The header lacks a column.
    #[error("{file} lacks the column{} {}", if columns.len() == 1 { "" } else { "s" }, columns.join(", "))]
    MissingColumns {
        /// The file.
        file: String,
        /// What is missing.
        columns: Vec<&'static str>,
    },
    /// The header has a column that means nothing here.
    #[error("{file} has an unknown column '{column}'{}", nearest.map_or(String::new(), |name| format!("; nearest known: '{name}'")))]
    UnknownColumn {
        /// The file.
        file: String,
        /// Its name.
        column: String,
        /// The known one most like it.
        nearest: Option<&'static str>,
    },
    /// The file has a header and nothing else.
    #[error("{file} holds no rows")]
    Empty {
        /// The file.
        file: String,
    },
    /// Rows can't be read, or name hardware or workloads that the catalogue lacks.
    #[error("{file}: {} of its rows cannot be predicted:{}", count_rows(problems), list(problems))]
    Rows {
        /// The file.
        file: String,
        /// All of them.
        problems: Vec<RowProblem>,
    },
}

/// Number of different rows among `problems`: one row can have several.
fn count_rows(problems: &[RowProblem]) -> usize {
    let mut lines: Vec<u64> = problems.iter().map(|problem| problem.line).collect();
    lines.dedup();
    lines.len()
}

fn list(problems: &[RowProblem]) -> String {
    problems.iter().fold(String::new(), |text, problem| format!("{text}\n  {problem}"))
}

/// Reads the file at `path`.
///
/// # Errors
/// [`PublishedError`]; rows that can't be read are reported all at once.
pub fn read_published(path: &Path) -> Result<Vec<PublishedRow>, PublishedError> {
    let text = read_text(path)?;
    parse_published(&path.display().to_string(), &text)
}

/// Reads `text`, the contents of `file`.
///
/// # Errors
/// [`PublishedError`]; rows that can't be read are reported all at once.
pub fn parse_published(file: &str, text: &str) -> Result<Vec<PublishedRow>, PublishedError> {
    read_records(file, text, &COLUMNS, &OPTIONAL_COLUMNS, |header, record, line, problems| {
        Cells { header, record, line, problems }.row()
    })
}

/// Reads each record of `text`, the contents of `file`, whose header must have all of `columns`, but for `optional` ones, and
/// no others. `read` is given header, record and line, and notes what is wrong.
///
/// # Errors
/// [`PublishedError`]; records that can't be read are reported all at once.
pub(crate) fn read_records<T>(
    file: &str,
    text: &str,
    columns: &[&'static str],
    optional: &[&str],
    mut read: impl FnMut(&csv::StringRecord, &csv::StringRecord, u64, &mut Vec<RowProblem>) -> Option<T>,
) -> Result<Vec<T>, PublishedError> {
    let csv_error = |source| PublishedError::Csv { file: file.to_owned(), source };
    // The reader counts lines that end in both as one less.
    let text = text.replace("\r\n", "\n");
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let header = reader.headers().map_err(csv_error)?.clone();
    check_header(file, &header, columns, optional)?;
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for record in reader.records() {
        let record = record.map_err(csv_error)?;
        let line = record.position().map_or(0, csv::Position::line);
        found.extend(read(&header, &record, line, &mut problems));
    }
    if !problems.is_empty() {
        return Err(PublishedError::Rows { file: file.to_owned(), problems });
    }
    if found.is_empty() { Err(PublishedError::Empty { file: file.to_owned() }) } else { Ok(found) }
}

/// What a record has in `column`; nothing where the file lacks it.
pub(crate) fn cell<'a>(header: &csv::StringRecord, record: &'a csv::StringRecord, column: &str) -> &'a str {
    let index = header.iter().position(|name| name == column);
    index.and_then(|index| record.get(index)).unwrap_or("")
}

/// Reads a row from `pairs` of a column and its cell, as if it stood in line `line` of a file.
///
/// # Errors
/// Everything that is wrong with it, an unknown column too.
pub(crate) fn row_of_pairs(line: u64, pairs: &[(&str, &str)]) -> Result<PublishedRow, Vec<RowProblem>> {
    let (header, record): (csv::StringRecord, csv::StringRecord) =
        (pairs.iter().map(|pair| pair.0).collect(), pairs.iter().map(|pair| pair.1).collect());
    let mut problems = Vec::new();
    let mut cells = Cells { header: &header, record: &record, line, problems: &mut problems };
    let row = cells.row();
    row.ok_or(problems)
}

fn check_header(
    file: &str,
    header: &csv::StringRecord,
    columns: &[&'static str],
    optional: &[&str],
) -> Result<(), PublishedError> {
    let file = file.to_owned();
    if let Some(column) = header.iter().find(|column| !columns.contains(column)) {
        let nearest = raidlab_workload::toml_file::nearest(column, columns.iter().copied());
        return Err(PublishedError::UnknownColumn { file, column: column.to_owned(), nearest });
    }
    let is_missing =
        |column: &&&str| !optional.contains(*column) && !header.iter().any(|name| name == **column);
    let columns: Vec<&'static str> = columns.iter().filter(is_missing).copied().collect();
    if columns.is_empty() { Ok(()) } else { Err(PublishedError::MissingColumns { file, columns }) }
}

#[cfg(test)]
mod tests;
