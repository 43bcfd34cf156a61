//! Why a trace can't be read: the file, the line, and the reason.

use crate::record::TraceFormat;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// It has too few fields, or too many.
    #[error("expected {}", format.line_form())]
    Fields {
        /// The format that it should be of.
        format: TraceFormat,
    },
    /// A field is no number, or one that can't be.
    #[error("{field} is '{text}', which is no number from 0 to {max}")]
    Number {
        /// Which field.
        field: &'static str,
        /// What stands there.
        text: String,
        /// The largest that may stand there.
        max: u64,
    },
    /// A field is none of the words that it may be.
    #[error("{field} is '{text}': {known} are known")]
    Word {
        /// Which field.
        field: &'static str,
        /// What stands there.
        text: String,
        /// What may stand there.
        known: &'static str,
    },
    /// The file is used and was never added.
    #[error("'{file}' is used here and was never added: an iolog needs '{file} add' before")]
    NotAdded {
        /// Its name.
        file: String,
    },
    /// `wait` in an iolog of version 3.
    #[error("'wait' has no place in an iolog of version 3, where every line has its time")]
    WaitInVersion3,
    /// The head of an iolog is missing, or is of a version that is not read.
    #[error("an iolog begins with 'fio version 2 iolog' or 'fio version 3 iolog'")]
    IologHead,
    /// There are more devices than can be numbered.
    #[error("more than 65536 devices are named: choose some with --device")]
    TooManyDevices,
    /// The range goes beyond any device.
    #[error("{length_bytes} bytes from byte {offset_bytes} on end beyond 2^64")]
    Range {
        /// First byte.
        offset_bytes: u64,
        /// Length.
        length_bytes: u64,
    },
    /// It is much earlier than requests before it.
    #[error(
        "its time is {early_ns} ns before that of a request more than {window} lines before: sort the trace by time"
    )]
    TooEarly {
        /// By how much.
        early_ns: u64,
        /// How many requests are kept to be put in order.
        window: usize,
    },
    /// The line is not text, or too long to be one of a trace.
    #[error("no line of a trace is that long")]
    TooLong,
    /// No format has such a line.
    #[error("this is no line of any format that is known ({}): name it with --format", known_formats())]
    UnknownFormat,
    /// Nothing is asked for in it.
    #[error("there is no request in it")]
    Empty,
}

/// Those that are told by a line.
fn known_formats() -> String {
    let told = TraceFormat::ALL.into_iter().filter(|format| *format != TraceFormat::OracleGeneral);
    told.map(TraceFormat::name).collect::<Vec<_>>().join(", ")
}

/// Why a trace can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct TraceError {
    /// The file.
    pub file: String,
    /// The line, the first being 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: LineProblem,
}
