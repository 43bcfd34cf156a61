//! Block traces in files: import of text, one Parquet schema, and reading it back.
//!
//! ```text
//! text, line by line ─► TraceParser ─► Ordering ─► Summary ─► TraceWriter ─► .parquet ─► TraceFile ─► Batches
//!      import.rs                (raidlab_trace)               write.rs                   read.rs, source.rs
//! ```
//! The schema, a row for each request, in the order of times:
//!
//! | column | type | meaning |
//! |---|---|---|
//! | `time_ns` | unsigned 64 bits | issue, from the first request of the trace |
//! | `device` | unsigned 16 bits | number of the device; the names are in the metadata |
//! | `kind` | text | `read`, `write`, `flush` or `trim` |
//! | `offset_bytes` | unsigned 64 bits | first byte on the device |
//! | `length_bytes` | unsigned 64 bits | length |
//! | `response_ns` | unsigned 64 bits, or null | response time, if the trace has it |
//!
//! The metadata hold `raidlab.trace.schema` (1) and `raidlab.trace`, JSON: source, format, the trace's own start and its
//! summary. A file with these columns and without our metadata can be read as well: its summary is then computed by
//! reading it once.
//!
//! Invariants: traces larger than memory are imported and read with a few megabytes; damage is an error.
#![forbid(unsafe_code)]

mod binary;
mod error;
mod import;
mod read;
mod record;
mod replay;
mod schema;
mod source;
mod write;

pub use error::TraceFileError;
pub use import::{Imported, import, write_iolog};
pub use read::{BATCH_RECORDS, Batches, TraceFile};
pub use record::TraceRecorder;
pub use replay::{ReplayOrder, ReplayOrderError};
pub use schema::{SCHEMA, TraceMeta};
pub use source::{FileSource, ReadingAs};
pub use write::TraceWriter;
