//! The columns of a trace in a Parquet file, and its metadata.

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};
use raidlab_trace::TraceSummary;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Version of the schema: the second one has writes of zeroes, and counts flushes and trims by device.
pub const SCHEMA: u32 = 2;
/// The one before, whose files are read with a summary made anew.
pub(crate) const SCHEMA_BEFORE: u32 = 1;
/// Keys of the metadata.
pub(crate) const KEY_SCHEMA: &str = "raidlab.trace.schema";
pub(crate) const KEY_META: &str = "raidlab.trace";

/// Names of the columns, in their order.
pub(crate) const COLUMNS: [&str; 6] =
    ["time_ns", "device", "kind", "offset_bytes", "length_bytes", "response_ns"];

/// What is known of a trace beside its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceMeta {
    /// Where it comes from: the name of the text that was imported.
    pub source: String,
    /// Format of that text; none for a file that was not imported.
    pub format: Option<String>,
    /// Time of the first request on the trace's own clock, from that clock's zero.
    pub start_ns: u64,
    /// Requests that were not in the order of their times, and were put there.
    pub out_of_order: u64,
    /// What it asks.
    pub summary: TraceSummary,
}

/// Types of the columns.
pub(crate) fn columns() -> Result<TypePtr, ParquetError> {
    let unsigned = |name: &str, bits: i8, repetition| {
        let physical = if bits == 64 { Physical::INT64 } else { Physical::INT32 };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(Some(LogicalType::integer(bits, false)))
            .with_repetition(repetition)
            .build()
            .map(Arc::new)
    };
    let kind = Type::primitive_type_builder("kind", Physical::BYTE_ARRAY)
        .with_logical_type(Some(LogicalType::String))
        .with_repetition(Repetition::REQUIRED)
        .build()?;
    let [time, device, _, offset, length, response] = COLUMNS;
    let fields = vec![
        unsigned(time, 64, Repetition::REQUIRED)?,
        unsigned(device, 16, Repetition::REQUIRED)?,
        Arc::new(kind),
        unsigned(offset, 64, Repetition::REQUIRED)?,
        unsigned(length, 64, Repetition::REQUIRED)?,
        unsigned(response, 64, Repetition::OPTIONAL)?,
    ];
    Type::group_type_builder("trace").with_fields(fields).build().map(Arc::new)
}
