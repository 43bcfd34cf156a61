//! Reads a trace from a Parquet file, batch by batch.
//!
//! The reader of the crate `parquet` panics on some damaged files (1 of about 1300 with a few random bytes changed), so
//! its calls are guarded here: such a panic becomes an error of the file, and nothing more is read from it.

use crate::error::TraceFileError;
use crate::schema::{COLUMNS, KEY_META, KEY_SCHEMA, SCHEMA, SCHEMA_BEFORE, TraceMeta};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use raidlab_trace::{Summary, TraceKind, TraceRecord};
use std::fs::File;
use std::io::{Read, Seek};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Requests of a batch.
pub const BATCH_RECORDS: usize = 8192;

/// A trace in a file, with what is known of it.
#[derive(Clone, Debug)]
pub struct TraceFile {
    path: PathBuf,
    meta: TraceMeta,
}

/// Reads the requests of a trace in their order.
pub struct Batches {
    path: PathBuf,
    reader: SerializedFileReader<File>,
    /// Where each column of [`COLUMNS`] is in the file.
    places: [usize; 6],
    /// The next row group.
    group: usize,
    columns: Option<Columns>,
    /// Rows read so far.
    rows: u64,
    time_ns: u64,
}

/// The columns of a row group.
struct Columns {
    times: Column<Int64Type>,
    devices: Column<Int32Type>,
    kinds: Column<ByteArrayType>,
    offsets: Column<Int64Type>,
    lengths: Column<Int64Type>,
    responses: Column<Int64Type>,
}

/// A column with the values that were read last.
struct Column<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    /// For each row, 1 where it has a value; empty where all have.
    levels: Vec<i16>,
    is_optional: bool,
}

impl TraceFile {
    /// Opens the trace in `path`. Without our metadata it is read once as a whole.
    ///
    /// # Errors
    /// [`TraceFileError`]: it can't be read, is no Parquet file, or no trace.
    pub fn open(path: &Path) -> Result<Self, TraceFileError> {
        let mut batches = Batches::open(path)?;
        let meta = match batches.meta()? {
            Some((SCHEMA, meta)) => meta,
            Some((_, before)) => {
                let names = before.summary.devices.iter().map(|device| device.name.clone()).collect();
                TraceMeta { summary: batches.summed_up(names)?.summary, ..before }
            }
            None => batches.summed_up(Vec::new())?,
        };
        Ok(Self { path: path.to_owned(), meta })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of it.
    pub fn meta(&self) -> &TraceMeta {
        &self.meta
    }

    /// Begins to read it.
    ///
    /// # Errors
    /// As [`TraceFile::open`].
    pub fn batches(&self) -> Result<Batches, TraceFileError> {
        Batches::open(&self.path)
    }
}

/// What a Parquet file begins with.
const PARQUET_MAGIC: &[u8] = b"PAR1";

impl Batches {
    fn open(path: &Path) -> Result<Self, TraceFileError> {
        let io = |source| TraceFileError::Io { path: path.to_owned(), source };
        let mut file = File::open(path).map_err(io)?;
        let mut magic = Vec::new();
        file.by_ref().take(PARQUET_MAGIC.len() as u64).read_to_end(&mut magic).map_err(io)?;
        if magic != PARQUET_MAGIC {
            return Err(no_trace(path, "it is no trace that raidlab made".to_owned()));
        }
        file.rewind().map_err(io)?;
        let reader = guarded(path, || SerializedFileReader::new(file))?;
        let columns = reader.metadata().file_metadata().schema_descr();
        let mut places = [0; 6];
        for (place, name) in places.iter_mut().zip(COLUMNS) {
            let found = columns.columns().iter().position(|column| column.path().string() == name);
            *place = found
                .ok_or_else(|| no_trace(path, format!("there is no column '{name}': this is no trace")))?;
            let column = columns.column(*place);
            if column.max_rep_level() > 0 || column.max_def_level() > 1 {
                return Err(no_trace(path, format!("column '{name}' is nested: a trace has plain ones")));
            }
        }
        Ok(Self { path: path.to_owned(), reader, places, group: 0, columns: None, rows: 0, time_ns: 0 })
    }

    /// Our metadata and the version of their schema; none if there are none.
    fn meta(&self) -> Result<Option<(u32, TraceMeta)>, TraceFileError> {
        let pairs = self.reader.metadata().file_metadata().key_value_metadata();
        let value = |key: &str| pairs?.iter().find(|pair| pair.key == key)?.value.as_deref();
        let Some(text) = value(KEY_META) else { return Ok(None) };
        let schema = value(KEY_SCHEMA).unwrap_or("");
        let known = [SCHEMA_BEFORE, SCHEMA].into_iter().find(|known| schema == known.to_string());
        let Some(known) = known else {
            let problem = format!("schema '{schema}' of traces is not known here, only up to {SCHEMA}");
            return Err(no_trace(&self.path, problem));
        };
        let meta = serde_json::from_str(text);
        meta.map(|meta| Some((known, meta)))
            .map_err(|error| no_trace(&self.path, format!("its metadata '{KEY_META}' are wrong: {error}")))
    }

    /// Reads all of it for its summary; devices without a name are called by their numbers.
    fn summed_up(&mut self, mut names: Vec<String>) -> Result<TraceMeta, TraceFileError> {
        let mut summary = Summary::default();
        let mut devices = 0;
        let mut batch = Vec::with_capacity(BATCH_RECORDS);
        while self.next(&mut batch)? {
            for record in &batch {
                summary.add(record);
                devices = devices.max(usize::from(record.device) + 1);
            }
        }
        names.extend((names.len()..devices).map(|device| device.to_string()));
        Ok(TraceMeta {
            source: self.path.display().to_string(),
            format: None,
            start_ns: 0,
            out_of_order: 0,
            summary: summary.finish(&names),
        })
    }

    /// Puts the next requests into `batch`, in place of what is there. Returns false when there are no more.
    ///
    /// # Errors
    /// [`TraceFileError`]: the file can't be read, is damaged, or has a row that can't be.
    pub fn next(&mut self, batch: &mut Vec<TraceRecord>) -> Result<bool, TraceFileError> {
        batch.clear();
        loop {
            if self.columns.is_none() && !self.next_group()? {
                return Ok(false);
            }
            let Some(columns) = &mut self.columns else { return Ok(false) };
            let read = guarded(&self.path, || columns.read(BATCH_RECORDS));
            if read.is_err() {
                (self.columns, self.group) = (None, usize::MAX);
            }
            let count = read?;
            if count > 0 {
                self.take(count, batch)?;
                return Ok(true);
            }
            self.columns = None;
        }
    }

    fn next_group(&mut self) -> Result<bool, TraceFileError> {
        if self.group >= self.reader.num_row_groups() {
            return Ok(false);
        }
        let path = &self.path;
        let group = guarded(path, || self.reader.get_row_group(self.group))?;
        let [times, devices, kinds, offsets, lengths, responses] = self.places;
        let column = |place: usize| {
            let is_optional = group.metadata().column(place).column_descr().max_def_level() > 0;
            let reader = guarded(path, || group.get_column_reader(place))?;
            Ok::<_, TraceFileError>((reader, is_optional))
        };
        let columns = Columns {
            times: Column::of_longs(path, 0, column(times)?)?,
            devices: Column::of_ints(path, 1, column(devices)?)?,
            kinds: Column::of_texts(path, 2, column(kinds)?)?,
            offsets: Column::of_longs(path, 3, column(offsets)?)?,
            lengths: Column::of_longs(path, 4, column(lengths)?)?,
            responses: Column::of_longs(path, 5, column(responses)?)?,
        };
        drop(group);
        self.columns = Some(columns);
        self.group += 1;
        Ok(true)
    }

    /// Makes records of the `count` rows that were read last.
    fn take(&mut self, count: usize, batch: &mut Vec<TraceRecord>) -> Result<(), TraceFileError> {
        let Some(columns) = &self.columns else { return Ok(()) };
        let wrong = |row: u64, problem| TraceFileError::Row { path: self.path.clone(), row, problem };
        let mut responses = columns.responses.values.iter();
        for index in 0..count {
            self.rows += 1;
            let device = columns.devices.values[index];
            let kind = kind_of(&columns.kinds.values[index]);
            let record = TraceRecord {
                time_ns: columns.times.values[index].cast_unsigned(),
                device: u16::try_from(device).map_err(|_| wrong(self.rows, "its device is above 65535"))?,
                kind: kind
                    .ok_or_else(|| wrong(self.rows, "its kind is none of read, write, flush and trim"))?,
                offset_bytes: columns.offsets.values[index].cast_unsigned(),
                length_bytes: columns.lengths.values[index].cast_unsigned(),
                response_ns: match columns.responses.levels.get(index) {
                    Some(0) => None,
                    _ => responses.next().map(|ns| ns.cast_unsigned()),
                },
            };
            if record.offset_bytes.checked_add(record.length_bytes).is_none() {
                return Err(wrong(self.rows, "its end is beyond 2^64"));
            }
            if record.time_ns < self.time_ns {
                return Err(wrong(self.rows, "it is earlier than the row before: sort them by time_ns"));
            }
            self.time_ns = record.time_ns;
            batch.push(record);
        }
        Ok(())
    }
}

impl Columns {
    /// Reads up to `count` rows of all columns. Returns how many.
    fn read(&mut self, count: usize) -> Result<usize, ParquetError> {
        let read = self.times.read(count)?;
        let others = [
            self.devices.read(read)?,
            self.kinds.read(read)?,
            self.offsets.read(read)?,
            self.lengths.read(read)?,
            self.responses.read(read)?,
        ];
        let has_all = [self.times.is_full(read), self.devices.is_full(read), self.kinds.is_full(read)];
        let has_ranges = [self.offsets.is_full(read), self.lengths.is_full(read)];
        if others.iter().any(|rows| *rows != read) {
            return Err(ParquetError::General("its columns have different lengths".into()));
        }
        if !has_all.iter().chain(&has_ranges).all(|is_full| *is_full) {
            return Err(ParquetError::General("a row lacks its time, device, kind, offset or length".into()));
        }
        Ok(read)
    }
}

impl<T: DataType> Column<T> {
    fn new(reader: ColumnReaderImpl<T>, is_optional: bool) -> Self {
        Self { reader, values: Vec::new(), levels: Vec::new(), is_optional }
    }

    fn read(&mut self, count: usize) -> Result<usize, ParquetError> {
        self.values.clear();
        self.levels.clear();
        if count == 0 {
            return Ok(0);
        }
        let levels = self.is_optional.then_some(&mut self.levels);
        let (records, _, _) = self.reader.read_records(count, levels, None, &mut self.values)?;
        Ok(records)
    }

    /// Whether each of `rows` rows has a value.
    fn is_full(&self, rows: usize) -> bool {
        self.values.len() == rows
    }
}

/// A column as the file has it, and whether rows may lack it.
type Found = (ColumnReader, bool);

impl Column<Int64Type> {
    fn of_longs(path: &Path, column: usize, (reader, is_optional): Found) -> Result<Self, TraceFileError> {
        match reader {
            ColumnReader::Int64ColumnReader(_) => Ok(Self::new(get_typed_column_reader(reader), is_optional)),
            _ => Err(no_trace(path, format!("column '{}' is not of 64-bit numbers", COLUMNS[column]))),
        }
    }
}

impl Column<Int32Type> {
    fn of_ints(path: &Path, column: usize, (reader, is_optional): Found) -> Result<Self, TraceFileError> {
        match reader {
            ColumnReader::Int32ColumnReader(_) => Ok(Self::new(get_typed_column_reader(reader), is_optional)),
            _ => Err(no_trace(path, format!("column '{}' is not of 16-bit numbers", COLUMNS[column]))),
        }
    }
}

impl Column<ByteArrayType> {
    fn of_texts(path: &Path, column: usize, (reader, is_optional): Found) -> Result<Self, TraceFileError> {
        match reader {
            ColumnReader::ByteArrayColumnReader(_) => {
                Ok(Self::new(get_typed_column_reader(reader), is_optional))
            }
            _ => Err(no_trace(path, format!("column '{}' is not of text", COLUMNS[column]))),
        }
    }
}

fn kind_of(text: &ByteArray) -> Option<TraceKind> {
    TraceKind::ALL.into_iter().find(|kind| kind.name().as_bytes() == text.data())
}

/// Does `read`; a panic in it is an error, too. What it worked on is not to be used after an error.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, TraceFileError> {
    let problem = match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(done)) => return Ok(done),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the file is damaged".to_owned(),
    };
    Err(TraceFileError::Parquet { path: path.to_owned(), problem })
}

fn no_trace(path: &Path, problem: String) -> TraceFileError {
    TraceFileError::Schema { path: path.to_owned(), problem }
}
