//! blkparse's default output, a line for each event of a request.
//!
//! ```text
//!   8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]
//!   8,0    3        2     0.000001829   697  Q   W 223490 + 8 [kjournald]
//!   dev    cpu      seq   seconds       pid  act rwbs sector + sectors
//! ```
//! One event of each request is used: `Q` (queued by the application), `D` (issued to the device, after merges and
//! splits) or `C` (completed). What was requeued (`R`) has another `D`, which is left out. The first letters of `rwbs` give the kind: an `F` in front is a flush before it, which is a request of its own, then
//! `R`, `W`, `D` (trim) or `N` (only the flush); letters behind (`F` for FUA, `A`, `S`, `M`) are ignored.
//!
//! Quirks: sectors have 512 bytes on every device. A flush without data has no `+`. SCSI commands from user space have
//! a length and their bytes in brackets instead of a range, and are skipped, as are messages, plugs and timers. The
//! statistics at the end (`CPU0 (8,0):`, `Total (8,0):`) end the events. A traced partition shows as its whole device,
//! because `A` remaps it before `Q`. Times of different processors can be slightly out of order.
//!
//! Source: blkparse(1), "Default output per action"; `blk_fill_rwbs` in Linux, kernel/trace/blktrace.c.

use super::{SECTOR_BYTES, SECTORS_MAX, first_fields};
use crate::error::LineProblem;
use crate::fields::{decimal_ns, shown, whole};
use crate::parser::{Parsed, TraceParser};
use crate::record::{TraceFormat, TraceKind, TraceRecord};

/// Beginnings of the lines that follow the events.
const STATISTICS: [&str; 5] = ["CPU", "Total (", "Events (", "Skips:", "Throughput ("];
/// What blkparse says of its input before the first event.
const INPUT: &str = "Input file ";

pub(crate) fn line(parser: &mut TraceParser, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
    if STATISTICS.iter().any(|start| text.starts_with(start)) {
        parser.pass_mark();
    }
    if parser.is_past_mark() || text.starts_with(INPUT) {
        return Ok(None);
    }
    let mut fields = text.split_ascii_whitespace();
    let format = TraceFormat::Blkparse;
    let [device, _cpu, _sequence, time, _pid, action] =
        first_fields(&mut fields).ok_or(LineProblem::Fields { format })?;
    if !is_device(device) {
        return Err(LineProblem::Fields { format });
    }
    let is_requeue = action == "R" && parser.action() == "D";
    let is_counted = action == parser.action();
    if !is_counted {
        parser.count_action(action);
    }
    if !is_counted && !is_requeue {
        return Ok(None);
    }
    let time_ns = decimal_ns("the time", time, 9)?;
    let rwbs = fields.next().ok_or(LineProblem::Fields { format })?;
    let Some(request) = request(rwbs, &mut fields)? else {
        parser.count_other();
        return Ok(None);
    };
    if is_requeue {
        parser.requeue(device, &request);
        return Ok(None);
    }
    if parser.take_requeued(device, &request) {
        return Ok(None);
    }
    put(parser, device, (time_ns, None), request)
}

/// A flush, and the request behind it, at one time; both took the response time.
pub(super) fn put(
    parser: &mut TraceParser,
    device: &str,
    (time_ns, response_ns): (u64, Option<u64>),
    Request { flushes, moves }: Request,
) -> Result<Option<TraceRecord>, LineProblem> {
    let mut made = |(kind, offset_bytes, length_bytes)| {
        parser.record(device, Parsed { time_ns, kind, offset_bytes, length_bytes, response_ns })
    };
    let flush = if flushes { made((TraceKind::Flush, 0, 0))? } else { None };
    let moved = moves.map_or(Ok(None), made)?;
    if flush.is_none() {
        return Ok(moved);
    }
    parser.set_second(moved);
    Ok(flush)
}

/// What an event asks for: a flush, data that are moved and where, or both.
pub(crate) struct Request {
    pub(crate) flushes: bool,
    pub(crate) moves: Option<(TraceKind, u64, u64)>,
}

/// Whether `rwbs` has a flush, and what is moved, if anything is.
pub(super) fn meaning(rwbs: &str) -> Result<(bool, Option<TraceKind>), LineProblem> {
    let (flushes, rest) = rwbs.strip_prefix('F').map_or((false, rwbs), |rest| (true, rest));
    let moves = match rest.bytes().next() {
        Some(b'R') => Some(TraceKind::Read),
        Some(b'W') => Some(TraceKind::Write),
        Some(b'D') => Some(TraceKind::Trim),
        Some(b'N' | b'F' | b'S' | b'M' | b'A' | b'E' | b'Z' | b'B') => None,
        None if flushes => None,
        _ => {
            let known = "R, W, D, N, F and flags behind them";
            return Err(LineProblem::Word { field: "rwbs", text: shown(rwbs), known });
        }
    };
    Ok((flushes, moves))
}

/// What is asked for, and where; nothing where the event is of no block request.
pub(super) fn request<'a>(
    rwbs: &str,
    fields: &mut impl Iterator<Item = &'a str>,
) -> Result<Option<Request>, LineProblem> {
    let (flushes, moves) = meaning(rwbs)?;
    let start = fields.next();
    match (moves, start, fields.next(), fields.next()) {
        (Some(kind), Some(start), Some("+"), Some(sectors)) => {
            let start = whole("the sector", start, SECTORS_MAX)?;
            let sectors = whole("the number of sectors", sectors, SECTORS_MAX)?;
            let is_empty_flush = flushes && sectors == 0;
            let range = (kind, start * SECTOR_BYTES, sectors * SECTOR_BYTES);
            Ok(Some(Request { flushes, moves: (!is_empty_flush).then_some(range) }))
        }
        _ if flushes => Ok(Some(Request { flushes, moves: None })),
        _ => Ok(None),
    }
}

/// `8,0`.
fn is_device(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once(',').is_some_and(|(major, minor)| is_number(major) && is_number(minor))
}

/// Whether `line` is an event.
pub(crate) fn is_event(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace();
    first_fields::<6>(&mut fields).is_some_and(|[device, cpu, sequence, time, _, action]| {
        let are_numbers = [cpu, sequence].iter().all(|text| text.parse::<u64>().is_ok());
        is_device(device)
            && are_numbers
            && time.contains('.')
            && action.bytes().all(|byte| byte.is_ascii_alphabetic())
    })
}
