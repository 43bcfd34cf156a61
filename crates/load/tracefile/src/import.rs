//! Imports text as a trace, and exports a trace as text that fio replays.

use crate::binary::trace_text;
use crate::error::TraceFileError;
use crate::read::{BATCH_RECORDS, TraceFile};
use crate::schema::TraceMeta;
use crate::write::TraceWriter;
use raidlab_trace::{
    BinaryTrace, IologWriter, LineProblem, Ordering, ParseOptions, Summary, TraceError, TraceFormat,
    TraceParser, detect,
};
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

/// A line is longer than any of a trace: names of files are at most 4096 bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The format is looked for in so many lines.
const LINES_LOOKED_AT: usize = 100;

/// A trace that was read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Name of the format that it was in.
    pub format: &'static str,
    /// What is known of it.
    pub meta: TraceMeta,
    /// Lines of the text; of a binary trace, those that say the same.
    pub lines: u64,
    /// What is to be known of it beside its requests: sentences.
    pub notes: Vec<String>,
}

/// The text, line by line.
struct Lines<R> {
    input: R,
    name: String,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next line; none at the end.
    fn next(&mut self) -> Result<Option<String>, TraceFileError> {
        self.line.clear();
        self.number += 1;
        let mut limited = (&mut self.input).take(LINE_BYTES_MAX);
        limited
            .read_until(b'\n', &mut self.line)
            .map_err(|source| TraceFileError::Io { path: self.name.clone().into(), source })?;
        if self.line.len() as u64 == LINE_BYTES_MAX {
            return Err(self.wrong(LineProblem::TooLong).into());
        }
        Ok((!self.line.is_empty()).then(|| String::from_utf8_lossy(&self.line).into_owned()))
    }

    fn wrong(&self, problem: LineProblem) -> TraceError {
        TraceError { file: self.name.clone(), line: self.number, problem }
    }
}

/// Reads `input`, called `name`, as a trace of `format`, or of the format that its first bytes or lines are of, and writes it to
/// `output`, if there is one.
///
/// # Errors
/// [`TraceFileError`] names the line, or the file that can't be read or written. No half file is left behind.
pub fn import(
    input: impl BufRead,
    name: &str,
    format: Option<TraceFormat>,
    options: ParseOptions,
    output: Option<&Path>,
) -> Result<Imported, TraceFileError> {
    let binary = (format == Some(TraceFormat::OracleGeneral)).then_some(BinaryTrace::OracleGeneral);
    let cannot = |source: io::Error| TraceFileError::Io { path: name.into(), source };
    let (input, binary) = trace_text(input, binary).map_err(cannot)?;
    let mut lines = Lines { input, name: name.to_owned(), line: Vec::new(), number: 0 };
    let mut first = Vec::new();
    let format = match format {
        Some(format) => format,
        None => look_for_format(&mut lines, &mut first)?,
    };
    if format == TraceFormat::Perf {
        while first.len() < LINES_LOOKED_AT
            && let Some(line) = lines.next()?
        {
            first.push(line);
        }
    }
    if options.time_unit.is_some() && !format.takes_time_unit() {
        return Err(TraceFileError::TimeUnit { file: name.to_owned(), format });
    }
    let mut parser = TraceParser::new(format, options);
    parser.look_at(first.iter().map(String::as_str));
    let mut import = Import {
        format: binary.map_or(format.name(), BinaryTrace::name),
        parser,
        ordering: Ordering::default(),
        summary: Summary::default(),
        writer: output.map(TraceWriter::create).transpose()?,
    };
    let read = import.read(lines, first).and_then(|lines| import.finish(name, lines));
    if let (Err(_), Some(path)) = (&read, output) {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(path);
    }
    read
}

/// Reads lines until one tells the format. All that were read are put into `first`.
fn look_for_format(
    lines: &mut Lines<impl BufRead>,
    first: &mut Vec<String>,
) -> Result<TraceFormat, TraceFileError> {
    while let Some(line) = lines.next()? {
        let found = detect(&line);
        first.push(line);
        match found {
            Some(format) => return Ok(format),
            None if first.len() == LINES_LOOKED_AT => break,
            None => {}
        }
    }
    let Some(place) = first.iter().position(|line| !line.trim().is_empty()) else {
        return Err(TraceFileError::Empty { file: lines.name.clone() });
    };
    lines.number = place as u64 + 1;
    Err(lines.wrong(LineProblem::UnknownFormat).into())
}

/// An import under way.
struct Import {
    format: &'static str,
    parser: TraceParser,
    ordering: Ordering,
    summary: Summary,
    writer: Option<TraceWriter>,
}

impl Import {
    /// Takes in all lines, those that were read before first. Returns how many there were.
    fn read(&mut self, mut lines: Lines<impl BufRead>, first: Vec<String>) -> Result<u64, TraceFileError> {
        lines.number = 0;
        for line in first {
            lines.number += 1;
            self.take(&lines, &line)?;
        }
        while let Some(line) = lines.next()? {
            self.take(&lines, &line)?;
        }
        while let Some(record) = self.ordering.pop() {
            self.put(&record)?;
        }
        Ok(lines.number - 1)
    }

    fn take<R: BufRead>(&mut self, lines: &Lines<R>, line: &str) -> Result<(), TraceFileError> {
        let wrong = |problem| lines.wrong(problem);
        let mut next = self.parser.line(line).map_err(wrong)?;
        while let Some(record) = next {
            if let Some(earliest) = self.ordering.push(record).map_err(wrong)? {
                self.put(&earliest)?;
            }
            next = self.parser.second();
        }
        Ok(())
    }

    fn put(&mut self, record: &raidlab_trace::TraceRecord) -> Result<(), TraceFileError> {
        self.summary.add(record);
        self.writer.as_mut().map_or(Ok(()), |writer| writer.push(record))
    }

    fn finish(&mut self, name: &str, lines: u64) -> Result<Imported, TraceFileError> {
        let missing: Vec<String> = self.parser.devices_missing().map(str::to_owned).collect();
        if !missing.is_empty() {
            return Err(TraceFileError::NoSuchDevice { file: name.to_owned(), missing });
        }
        let Some(start_ns) = self.ordering.start_ns() else {
            let seen: Vec<&str> = self.parser.other_actions().collect();
            if !seen.is_empty() {
                let asked = self.parser.action();
                return Err(TraceFileError::NoSuchAction { file: name.to_owned(), asked, seen });
            }
            return Err(TraceFileError::Empty { file: name.to_owned() });
        };
        let format = self.format;
        let meta = TraceMeta {
            source: name.to_owned(),
            format: Some(format.to_owned()),
            start_ns,
            out_of_order: self.ordering.out_of_order(),
            summary: std::mem::take(&mut self.summary).finish(self.parser.devices()),
        };
        if let Some(writer) = self.writer.take() {
            writer.finish(&meta)?;
        }
        Ok(Imported { format, meta, lines, notes: self.parser.notes() })
    }
}

/// Writes `trace` as an iolog of fio, version 3, for the files called `files` by the numbers of the devices; without any they
/// are called as in the trace.
///
/// # Errors
/// [`TraceFileError`] if the trace can't be read; what can't be written is an error of `path`.
pub fn write_iolog(
    trace: &TraceFile,
    files: &[String],
    path: &Path,
    out: &mut impl Write,
) -> Result<(), TraceFileError> {
    let failed = |source: io::Error| TraceFileError::Io { path: path.to_owned(), source };
    let devices = &trace.meta().summary.devices;
    let names: Vec<String> =
        (0..devices.len()).map(|n| files.get(n).unwrap_or(&devices[n].name).clone()).collect();
    let writer = IologWriter::new(&names);
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = writer.head(&mut text);
    let mut batch = Vec::with_capacity(BATCH_RECORDS);
    let mut batches = trace.batches()?;
    let mut time_ns = 0;
    while batches.next(&mut batch)? {
        for record in &batch {
            time_ns = record.time_ns;
            let _ = writer.request(record, &mut text);
        }
        out.write_all(text.as_bytes()).map_err(failed)?;
        text.clear();
    }
    let _ = writer.tail(time_ns, &mut text);
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}
