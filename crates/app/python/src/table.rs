//! The tables of `raidlab export` as Arrow streams: the columns are made in one place, and any frame library reads them.
//!
//! Source: Arrow `PyCapsule` interface, `__arrow_c_stream__`.

use crate::errors::refused;
use crate::run::Run;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};
use raidlab_report::table::{KeptRun, Kind, Table as Rows, Value};
use std::sync::Arc;

/// Number, number of the study, title, start, tags and run.
type KeptRow<'py> = (i64, i64, String, String, Vec<String>, PyRef<'py, Run>);

/// A table of runs.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Table(Rows);

#[pymethods]
impl Table {
    /// One row a run, an interval of a run or a bin of its latencies: `kind` is `runs`, `series` or `histograms`. Each run has its number.
    #[new]
    fn new(kind: &str, runs: Vec<KeptRow<'_>>) -> PyResult<Self> {
        let kept: Vec<KeptRun<'_>> = runs
            .iter()
            .map(|(id, study, title, started_at, tags, run)| KeptRun {
                id: *id,
                study: *study,
                title,
                started_at,
                tags,
                run: &run.0,
            })
            .collect();
        match kind {
            "runs" => Ok(Self(Rows::runs(&kept))),
            "series" => Ok(Self(Rows::series(&kept))),
            "histograms" => Ok(Self(Rows::histograms(&kept))),
            _ => Err(refused(format!("'{kind}' is none of runs, series, histograms"))),
        }
    }

    /// Names of the columns.
    fn columns(&self) -> Vec<String> {
        self.0.columns().iter().map(|(name, _)| name.clone()).collect()
    }

    /// How many rows there are.
    fn __len__(&self) -> usize {
        self.0.rows().len()
    }

    /// The rows, each with a value or nothing for every column.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        self.0.rows().iter().map(|row| row.iter().map(|value| object(py, value)).collect()).collect()
    }

    /// The bytes of a Parquet file.
    fn parquet<'py>(&self, py: Python<'py>, content: &str) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| raidlab_report::parquet::table(&self.0, content)).map_err(refused)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The table as a stream of Arrow. Its columns have the types that they have, whatever is asked for.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batch = batch(&self.0).map_err(refused)?;
        let schema = batch.schema();
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

fn object<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::Count(count) => count.into_pyobject(py)?.into_any(),
        Value::Real(number) => number.into_pyobject(py)?.into_any(),
    })
}

fn batch(table: &Rows) -> Result<RecordBatch, ArrowError> {
    let field = |(name, kind): &(String, Kind)| {
        let of_kind = match kind {
            Kind::Text => DataType::Utf8,
            Kind::Count => DataType::UInt64,
            Kind::Real => DataType::Float64,
        };
        Field::new(name, of_kind, true)
    };
    let column = |(index, (_, kind)): (usize, &(String, Kind))| -> ArrayRef {
        let values = table.rows().iter().map(|row| &row[index]);
        match kind {
            Kind::Text => Arc::new(values.map(Value::text).collect::<StringArray>()),
            Kind::Count => Arc::new(values.map(Value::count).collect::<UInt64Array>()),
            Kind::Real => Arc::new(values.map(Value::real).collect::<Float64Array>()),
        }
    };
    let schema = Schema::new(table.columns().iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), table.columns().iter().enumerate().map(column).collect())
}
