//! Why a history can't be read.

use crate::format::HistoryFormat;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {problem}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct HistoryError {
    /// The file.
    pub file: String,
    /// Its line, from 1, where that is known.
    pub line: Option<u64>,
    /// What is wrong.
    pub problem: HistoryProblem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistoryProblem {
    /// No format is known that begins like it.
    #[error("this is no history of a kind that is known: {}", HistoryFormat::known())]
    UnknownFormat,
    /// It is of sysstat, in a form that is not read.
    #[error(
        "this is {0}, which is not read: of sar's own file 'sadf -j FILE -- -d' writes what its devices did"
    )]
    OtherForm(&'static str),
    /// Prometheus was asked for one moment.
    #[error(
        "this answers what the counters were at one moment, and rates need a range: ask /api/v1/query_range with start, end and step"
    )]
    Instant,
    /// Prometheus has nothing of what it was asked for.
    #[error(
        "the query returned no series: look whether its start and end are times that Prometheus keeps, and whether it asks for names that \
         node_exporter has (query={{__name__=~\"node_disk_.*\"}})"
    )]
    NoSeries,
    /// Its JSON ends too early.
    #[error("the file is cut off: its JSON ends before it is whole; write or copy it to its end")]
    CutOff,
    /// It is no JSON.
    #[error("no JSON: {0}")]
    Json(String),
    /// A part that must be there is not.
    #[error("there is no {0}")]
    Missing(&'static str),
    /// A cell holds no number.
    #[error("{column} is '{text}', which is no number: write one, or take out what says it")]
    Number {
        /// Name of the column.
        column: String,
        /// What stands there.
        text: String,
    },
    /// The time of a report of JSON is none.
    #[error(
        "the time of report {number} is '{text}', which is none: write it as the tool does, or take the report out"
    )]
    ReportTime {
        /// The report of its host, from 1.
        number: usize,
        /// What stands there.
        text: String,
    },
    /// A cell holds no time.
    #[error("'{0}' is no time")]
    Time(String),
    /// Some dates have the day first, others the month.
    #[error("some of its dates have the day first, others the month: take its parts in one by one")]
    MixedDates,
    /// Prometheus could not answer.
    #[error("Prometheus answered with an error: {0}")]
    Refused(String),
    /// A line has other cells than the head.
    #[error("{found} cells where the head has {expected}")]
    Cells {
        /// In the line.
        found: usize,
        /// In the head.
        expected: usize,
    },
    /// Counters of disks stand in it, and none that is known.
    #[error(
        "none of its counters of disks is known, such as '{0}': record Disk Reads/sec, Disk Writes/sec, Disk Read Bytes/sec and Disk Write \
         Bytes/sec of 'PhysicalDisk'"
    )]
    UnknownCounter(String),
    /// No device was read or written in it.
    #[error("nothing in it says what a device read or wrote: {0}")]
    Nothing(&'static str),
}
