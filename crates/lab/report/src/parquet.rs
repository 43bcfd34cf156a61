//! Tables as Parquet, the column format that `DuckDB`, pandas, Polars and others read.
//!
//! Every column may have nulls. Text is UTF-8, counts are unsigned 64-bit integers, numbers doubles; compressed with
//! Snappy, in one row group: a table of runs is small. Source: Apache Parquet, `LogicalTypes.md`.

use crate::table::{Kind, Table, Value};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// The bytes of a file that holds `table`; `content` says what it is, and stands in the file's metadata.
///
/// # Errors
/// [`ParquetError`] when the library refuses.
pub fn table(table: &Table, content: &str) -> Result<Vec<u8>, ParquetError> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut file = SerializedFileWriter::new(Vec::new(), schema(table)?, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    let text = |value: &Value| value.text().map(ByteArray::from);
    let count = |value: &Value| value.count().map(u64::cast_signed);
    for (index, (_, kind)) in table.columns().iter().enumerate() {
        let values = table.rows().iter().map(|row| &row[index]);
        match kind {
            Kind::Text => column::<ByteArrayType>(&mut group, values.map(text))?,
            Kind::Count => column::<Int64Type>(&mut group, values.map(count))?,
            Kind::Real => column::<DoubleType>(&mut group, values.map(Value::real))?,
        }
    }
    group.close()?;
    file.append_key_value_metadata(KeyValue::new("raidlab.content".to_owned(), content.to_owned()));
    file.into_inner()
}

fn schema(table: &Table) -> Result<TypePtr, ParquetError> {
    let field = |(name, kind): &(String, Kind)| {
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Count => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Real => (Physical::DOUBLE, None),
        };
        Type::primitive_type_builder(name, physical)
            .with_logical_type(logical)
            .with_repetition(Repetition::OPTIONAL)
            .build()
            .map(Arc::new)
    };
    let fields = table.columns().iter().map(field).collect::<Result<Vec<_>, _>>()?;
    Type::group_type_builder("table").with_fields(fields).build().map(Arc::new)
}

/// Writes the next column of a group; 1 is the level of a value that is there.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("there are fewer columns than written".into()));
    };
    let mut levels = Vec::new();
    let mut present = Vec::new();
    for value in values {
        levels.push(i16::from(value.is_some()));
        present.extend(value);
    }
    column.typed::<T>().write_batch(&present, Some(&levels), None)?;
    column.close()
}
