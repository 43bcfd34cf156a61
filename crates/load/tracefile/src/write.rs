//! Writes a trace to a Parquet file, row group by row group.

use crate::error::TraceFileError;
use crate::schema::{KEY_META, KEY_SCHEMA, SCHEMA, TraceMeta, columns};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;
use raidlab_trace::{TraceKind, TraceRecord};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a row group: about 6 MB while it is filled.
const GROUP_ROWS: usize = 1 << 17;

/// Writes requests into a file that did not exist before.
#[derive(Debug)]
pub struct TraceWriter {
    path: PathBuf,
    /// None when it is finished.
    file: Option<SerializedFileWriter<File>>,
    rows: Rows,
    kinds: [ByteArray; TraceKind::ALL.len()],
}

/// The rows of a row group under way, column by column.
#[derive(Debug, Default)]
struct Rows {
    times: Vec<i64>,
    devices: Vec<i32>,
    kinds: Vec<ByteArray>,
    offsets: Vec<i64>,
    lengths: Vec<i64>,
    responses: Vec<i64>,
    /// For each row, 1 where it has a response time.
    has_response: Vec<i16>,
}

impl TraceWriter {
    /// Makes the file.
    ///
    /// # Errors
    /// [`TraceFileError::Io`] if it is there already, or can't be made.
    pub fn create(path: &Path) -> Result<Self, TraceFileError> {
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|source| TraceFileError::Io { path: path.to_owned(), source })?;
        let mut properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
        // Times and places are near their predecessors more often than they repeat.
        for column in ["time_ns", "offset_bytes"] {
            let column = ColumnPath::from(column);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        let file = columns()
            .and_then(|columns| SerializedFileWriter::new(file, columns, Arc::new(properties.build())))
            .map_err(|error| failed(path, &error))?;
        let kinds = TraceKind::ALL.map(|kind| ByteArray::from(kind.name()));
        Ok(Self { path: path.to_owned(), file: Some(file), rows: Rows::default(), kinds })
    }

    /// Writes a request; they come in the order of their times.
    ///
    /// # Errors
    /// [`TraceFileError::Parquet`] with what the system said.
    pub fn push(&mut self, record: &TraceRecord) -> Result<(), TraceFileError> {
        let rows = &mut self.rows;
        rows.times.push(record.time_ns.cast_signed());
        rows.devices.push(i32::from(record.device));
        rows.kinds.push(self.kinds[record.kind.code()].clone());
        rows.offsets.push(record.offset_bytes.cast_signed());
        rows.lengths.push(record.length_bytes.cast_signed());
        rows.has_response.push(i16::from(record.response_ns.is_some()));
        rows.responses.extend(record.response_ns.map(u64::cast_signed));
        if rows.times.len() >= GROUP_ROWS { self.write_group() } else { Ok(()) }
    }

    /// Writes what is left, and what is known of the trace.
    ///
    /// # Errors
    /// [`TraceFileError::Parquet`] with what the system said.
    #[expect(clippy::missing_panics_doc, reason = "it is finished once")]
    pub fn finish(mut self, meta: &TraceMeta) -> Result<(), TraceFileError> {
        if !self.rows.times.is_empty() {
            self.write_group()?;
        }
        let mut file = self.file.take().expect("it is finished once");
        let meta = serde_json::to_string(meta).expect("it has no maps with odd keys");
        file.append_key_value_metadata(KeyValue::new(KEY_SCHEMA.to_owned(), SCHEMA.to_string()));
        file.append_key_value_metadata(KeyValue::new(KEY_META.to_owned(), meta));
        file.close().map(|_| ()).map_err(|error| failed(&self.path, &error))
    }

    fn write_group(&mut self) -> Result<(), TraceFileError> {
        let file = self.file.as_mut().expect("it is not finished");
        let written = file.next_row_group().and_then(|group| self.rows.write(group));
        self.rows.clear();
        written.map_err(|error| failed(&self.path, &error))
    }
}

impl Rows {
    fn write(&self, mut group: SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        column::<Int64Type>(&mut group, &self.times, None)?;
        column::<Int32Type>(&mut group, &self.devices, None)?;
        column::<ByteArrayType>(&mut group, &self.kinds, None)?;
        column::<Int64Type>(&mut group, &self.offsets, None)?;
        column::<Int64Type>(&mut group, &self.lengths, None)?;
        column::<Int64Type>(&mut group, &self.responses, Some(&self.has_response))?;
        group.close().map(|_| ())
    }

    fn clear(&mut self) {
        self.times.clear();
        self.devices.clear();
        self.kinds.clear();
        self.offsets.clear();
        self.lengths.clear();
        self.responses.clear();
        self.has_response.clear();
    }
}

/// Writes the next column of a group.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("there are fewer columns than written".into()));
    };
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

fn failed(path: &Path, error: &ParquetError) -> TraceFileError {
    TraceFileError::Parquet { path: path.to_owned(), problem: error.to_string() }
}
