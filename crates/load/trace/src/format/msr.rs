//! The CSV of the block traces that Microsoft Research Cambridge published (SNIA IOTTA repository).
//!
//! ```text
//! 128166372003061629,usr,0,Read,7014609920,24576,41286
//! timestamp          host disk type offset bytes response
//! ```
//! Timestamps and response times are in Windows' file time units of 100 ns; timestamps count from 1601, and give the
//! request's issue. A device is a host's disk, `usr.0`. Quirks: files have no line of column names, but some copies do;
//! times are rounded to the host's clock tick, so many requests share one.
//!
//! Source: the README of the traces; Narayanan, Donnelly and Rowstron, "Write off-loading", FAST 2008.

use super::first_fields;
use crate::error::LineProblem;
use crate::fields::{shown, whole};
use crate::parser::{Parsed, TraceParser};
use crate::record::{TraceFormat, TraceKind, TraceRecord};

/// Nanoseconds in a unit of Windows' file time.
const TICK_NS: u64 = 100;

pub(crate) fn line(parser: &mut TraceParser, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
    let is_first = parser.is_first_line();
    let fields = fields_of(text).ok_or(LineProblem::Fields { format: TraceFormat::Msr })?;
    if is_first && is_head(&fields) {
        return Ok(None);
    }
    let [time, host, disk, kind, offset, size, response] = fields;
    let disk = whole("the disk number", disk, u64::from(u16::MAX))?;
    let kind = kind_of(kind).ok_or_else(|| LineProblem::Word {
        field: "the type",
        text: shown(kind),
        known: "Read and Write",
    })?;
    let ticks_max = u64::MAX / TICK_NS;
    let parsed = Parsed {
        time_ns: whole("the timestamp", time, ticks_max)? * TICK_NS,
        kind,
        offset_bytes: whole("the offset", offset, u64::MAX)?,
        length_bytes: whole("the size", size, u64::MAX)?,
        response_ns: Some(whole("the response time", response, ticks_max)? * TICK_NS),
    };
    parser.record(&format!("{}.{disk}", shown(host)), parsed)
}

fn fields_of(text: &str) -> Option<[&str; 7]> {
    let mut fields = text.split(',').map(str::trim);
    let found = first_fields(&mut fields)?;
    fields.next().is_none().then_some(found)
}

fn kind_of(text: &str) -> Option<TraceKind> {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    if is("read") { Some(TraceKind::Read) } else { is("write").then_some(TraceKind::Write) }
}

fn is_head(fields: &[&str; 7]) -> bool {
    fields[0].eq_ignore_ascii_case("timestamp")
}

/// Whether `line` is one of such a file.
pub(crate) fn is_line(line: &str) -> bool {
    fields_of(line).is_some_and(|fields| is_head(&fields) || kind_of(fields[3]).is_some())
}
