//! What biosnoop prints, a line for each request that has ended: bcc's, and that of libbpf-tools.
//!
//! ```text
//! TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)
//! 0.000004    supervise      1950    xvda1     W 13092560   4096     0.74
//! ```
//! The time is that of the end of a request: its start is that without its latency. The end of the first one is at zero, so its clock is
//! taken to begin [`START_NS`] before.
//!
//! Quirks: a process's name may have blanks, so columns are counted from the end. Between BYTES and LAT stand a letter with `-P` and a time
//! with `-Q`. `T` is R or W, and also F (flush), D (trim) and flags as in blkparse's text, but of libbpf-tools only: bcc calls all that is no
//! write a read; a flush has the sector before the first, and no bytes. bcc leaves DISK empty where it missed the beginning, the name of
//! the process is `?`, and the sector may be that before the first, or 0: such a request has no place, and is left out.
//!
//! Source: bcc, `tools/biosnoop.py` and `libbpf-tools/biosnoop.c`.

use super::blkparse::{Request, meaning, put};
use super::{SECTOR_BYTES, SECTORS_MAX};
use crate::error::LineProblem;
use crate::fields::{decimal_ns, shown, whole};
use crate::parser::TraceParser;
use crate::record::{TraceFormat, TraceRecord};

/// No request takes longer.
const START_NS: u64 = 3_600_000_000_000;
/// The sector of a flush, as bcc and as libbpf-tools print it.
const BEFORE_FIRST: [&str; 2] = ["18446744073709551615", "-1"];
/// The process of a request whose beginning bcc missed.
const UNSEEN: &str = "?";
const MILLISECONDS: u32 = 6;

/// The columns that count.
struct Row<'a> {
    time: &'a str,
    device: &'a str,
    kind: &'a str,
    sector: &'a str,
    bytes: &'a str,
    latency: &'a str,
}

fn row(text: &str) -> Option<Row<'_>> {
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let [time, before @ .., latency] = fields.as_slice() else { return None };
    let is_between =
        |field: &&str| field.contains('.') || field.bytes().all(|byte| byte.is_ascii_alphabetic());
    let between = before.iter().rev().take_while(|field| is_between(field)).count();
    match &before[..before.len() - between] {
        [UNSEEN, _pid, kind, sector, bytes] => {
            Some(Row { time, device: UNSEEN, kind, sector, bytes, latency })
        }
        [_, .., _pid, device, kind, sector, bytes] => {
            Some(Row { time, device, kind, sector, bytes, latency })
        }
        _ => None,
    }
}

fn is_head(text: &str) -> bool {
    text.starts_with("TIME(s)") && text.contains("SECTOR")
}

pub(crate) fn line(parser: &mut TraceParser, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
    if is_head(text) {
        return Ok(None);
    }
    let Row { time, device, kind, sector, bytes, latency } =
        row(text).ok_or(LineProblem::Fields { format: TraceFormat::Biosnoop })?;
    let ended_ns = parser.time_ns("the time", time, 9)?.saturating_add(START_NS);
    let response_ns = decimal_ns("the response time", latency, MILLISECONDS)?;
    let length_bytes = whole("the length", bytes, u64::MAX)?;
    let (mut flushes, kind) = meaning(kind)?;
    let is_nowhere = BEFORE_FIRST.contains(&sector);
    // Its beginning was not seen, and no place was kept.
    if (is_nowhere && length_bytes > 0) || (device == UNSEEN && (is_nowhere || sector == "0")) {
        parser.count_other();
        return Ok(None);
    }
    let is_flush = is_nowhere;
    flushes |= is_flush;
    // A flush before a write has data to move only if it has a length.
    let moves = match kind.filter(|_| !is_flush && (length_bytes > 0 || !flushes)) {
        Some(kind) => Some((kind, whole("the place", sector, SECTORS_MAX)? * SECTOR_BYTES, length_bytes)),
        None => None,
    };
    if !flushes && moves.is_none() {
        parser.count_other();
        return Ok(None);
    }
    let began_ns = ended_ns.saturating_sub(response_ns);
    put(parser, &shown(device), (began_ns, Some(response_ns)), Request { flushes, moves })
}

/// Whether `line` is one of such a file.
pub(crate) fn is_line(line: &str) -> bool {
    let are_figures = |row: Row<'_>| {
        meaning(row.kind).is_ok()
            && decimal_ns("", row.time, 9).is_ok()
            && row.latency.contains('.')
            && decimal_ns("", row.latency, MILLISECONDS).is_ok()
            && row.bytes.parse::<u64>().is_ok()
            && (BEFORE_FIRST.contains(&row.sector) || row.sector.parse::<u64>().is_ok())
    };
    is_head(line) || row(line).is_some_and(are_figures)
}
