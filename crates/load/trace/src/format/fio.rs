//! fio's iologs.
//!
//! ```text
//! fio version 2 iolog          fio version 3 iolog
//! /dev/sda add                 0 /dev/sda add             files: add, open, close
//! /dev/sda open                3 /dev/sda open
//! /dev/sda read 4096 512       151 /dev/sda read 4096 512     action, offset, length in bytes
//! /dev/sda wait 500 0          -                              version 2 only
//! /dev/sda sync 0 0            460 /dev/sda sync 0 0          sync, datasync and others: a flush
//! ```
//! Quirks: times of version 3 are microseconds since the start of the job. `wait` of version 2 has two meanings: the
//! manual says microseconds from the previous `wait`, the program compares it with the *milliseconds since fio's start*
//! (`read_iolog_get`; fio 3.33 ends the waits 500, 1000 and 1200 after 1.07 s). A log of version 2 without `wait` has
//! no times: all its requests are at zero. fio's writer never writes `wait`. A file must be added before it is used,
//! because fio itself does not replay others; opening and closing changes nothing here.
//!
//! Source: fio's HOWTO, "Trace file format", and its `iolog.c`.

use super::first_fields;
use crate::error::LineProblem;
use crate::fields::{shown, whole};
use crate::parser::{Parsed, TraceParser};
use crate::record::{TraceFormat, TraceKind, TraceRecord, WaitMeaning};

pub(crate) const HEAD_2: &str = "fio version 2 iolog";
pub(crate) const HEAD_3: &str = "fio version 3 iolog";

const ACTIONS: &str = "add, open, close, read, write, trim, sync, datasync, sync_file_range, syncfs and wait";
const US_MAX: u64 = u64::MAX / 1000;
const MS_MAX: u64 = u64::MAX / 1_000_000;

pub(crate) fn line(parser: &mut TraceParser, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
    let format = parser.format();
    let head = if format == TraceFormat::Fio2 { HEAD_2 } else { HEAD_3 };
    if !parser.is_past_mark() {
        parser.pass_mark();
        return if text.starts_with(head) { Ok(None) } else { Err(LineProblem::IologHead) };
    }
    let mut fields = text.split_ascii_whitespace();
    let time_ns = match format {
        TraceFormat::Fio2 => parser.clock_ns(),
        _ => whole("the time", fields.next().unwrap_or(""), US_MAX)? * 1000,
    };
    let [file, action] = first_fields(&mut fields).ok_or(LineProblem::Fields { format })?;
    let range = (fields.next(), fields.next());
    if fields.next().is_some() {
        return Err(LineProblem::Fields { format });
    }
    match range {
        (None, _) => file_action(parser, file, action).map(|()| None),
        (Some(offset), Some(length)) => io_action(parser, time_ns, (file, action), (offset, length)),
        (Some(_), None) => Err(LineProblem::Fields { format }),
    }
}

fn file_action(parser: &mut TraceParser, file: &str, action: &str) -> Result<(), LineProblem> {
    match action {
        "add" if parser.is_wanted(file) => parser.add_device(file).map(|_| ()),
        "add" => Ok(()),
        "open" | "close" => check_added(parser, file),
        _ => Err(unknown(action)),
    }
}

fn io_action(
    parser: &mut TraceParser,
    time_ns: u64,
    (file, action): (&str, &str),
    (offset, length): (&str, &str),
) -> Result<Option<TraceRecord>, LineProblem> {
    let kind = match action {
        "read" => TraceKind::Read,
        "write" => TraceKind::Write,
        "trim" => TraceKind::Trim,
        "sync" | "datasync" | "sync_file_range" | "syncfs" => TraceKind::Flush,
        "wait" if parser.format() == TraceFormat::Fio2 => return wait(parser, offset).map(|()| None),
        "wait" => return Err(LineProblem::WaitInVersion3),
        _ => return Err(unknown(action)),
    };
    check_added(parser, file)?;
    let offset_bytes = whole("the offset", offset, u64::MAX)?;
    let length_bytes = whole("the length", length, u64::MAX)?;
    let range = if kind == TraceKind::Flush { (0, 0) } else { (offset_bytes, length_bytes) };
    let parsed = Parsed { time_ns, kind, offset_bytes: range.0, length_bytes: range.1, response_ns: None };
    parser.record(file, parsed)
}

/// Moves the clock of a log of version 2.
fn wait(parser: &mut TraceParser, text: &str) -> Result<(), LineProblem> {
    let now_ns = parser.clock_ns();
    let next_ns = match parser.options().wait {
        WaitMeaning::AsFioDoes => now_ns.max(whole("the wait", text, MS_MAX)? * 1_000_000),
        WaitMeaning::AsManualSays => now_ns.saturating_add(whole("the wait", text, US_MAX)? * 1000),
    };
    parser.set_clock_ns(next_ns);
    Ok(())
}

/// Files of which nothing is wanted were not added either.
fn check_added(parser: &TraceParser, file: &str) -> Result<(), LineProblem> {
    if parser.has_device(file) || !parser.is_wanted(file) {
        return Ok(());
    }
    Err(LineProblem::NotAdded { file: shown(file) })
}

fn unknown(action: &str) -> LineProblem {
    LineProblem::Word { field: "the action", text: shown(action), known: ACTIONS }
}
