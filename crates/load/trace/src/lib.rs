//! Block traces: their formats, one record type for all, and the summary of a trace.
//!
//! ```
//! use raidlab_trace::{ParseOptions, TraceFormat, TraceParser, detect};
//!
//! let line = "128166372003061629,hm,1,Read,2096128,512,57319";
//! assert_eq!(detect(line), Some(TraceFormat::Msr));
//! let record = TraceParser::new(TraceFormat::Msr, ParseOptions::default()).line(line)?.expect("a request");
//! assert_eq!((record.offset_bytes, record.length_bytes), (2_096_128, 512));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//! fio iolog 2, 3 ┐
//! blkparse       │                                        ┌─► Summary
//! MSR Cambridge  ├─► TraceParser ─► Ordering ─► TraceRecord ──► a file, a replay
//! SPC, DiskSim   │   line by line   by time               └─► fio iolog 3
//! perf, biosnoop │
//! clouds' CSV    ┘
//! ```
//! | module | idea |
//! |---|---|
//! | `record` | one request, from any tool |
//! | `parser` | lines in, records out; detection of the format |
//! | `format` | a file for each format, with its quirks |
//! | `fields` | numbers and times in text, exact to the nanosecond |
//! | `ordering` | requests in the order of their times, the first at zero |
//! | `binary` | binary traces as lines of text |
//! | `pairs` | the kernel's events of a request's beginning and end, put together |
//! | `footprint` | the space that requests touch |
//! | `summary` | counts, sizes, places and rates of a whole trace |
//! | `iolog` | records as an iolog that fio replays |
//!
//! Invariants: nothing panics, whatever the bytes; memory does not grow with the number of lines, only with the devices
//! named and (up to a bound) the space touched; every refusal names the line and the reason.
//!
//! No file is opened here: the caller passes lines.
#![forbid(unsafe_code)]

mod binary;
mod error;
mod fields;
mod footprint;
mod format;
mod iolog;
mod ordering;
mod pairs;
mod parser;
mod record;
mod summary;

pub use binary::BinaryTrace;
pub use error::{LineProblem, TraceError};
pub use iolog::IologWriter;
pub use ordering::{ORDERING_WINDOW, Ordering};
pub use pairs::EventPairs;
pub use parser::{ParseOptions, TraceParser, detect};
pub use record::{BlkAction, TimeUnit, TraceFormat, TraceKind, TraceRecord, WaitMeaning};
pub use summary::{DeviceSummary, SizeShare, Summary, TraceSummary};
