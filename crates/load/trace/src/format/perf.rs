//! Block events as `perf script` and the kernel's `trace_pipe` print them, a line for each.
//!
//! ```text
//! fio  1234 [001]  123.456789: block:block_rq_issue: 8,0 WS 4096 () 2048 + 8 none,0,0 [fio]
//! fio-1234  [001] d..1. 123.456789: block_bio_queue: 8,0 R 4096 + 8 [fio]
//! ```
//! One event counts, so that a request with several is taken once: the first that is seen and is no end of a request, if there is one in the
//! first lines; else the first. A request that was requeued is inserted and issued once more, which counts once. What stands behind the device
//! is as in blkparse's text, with the length in bytes in front of it for some events.
//!
//! Source: Linux, `include/trace/events/block.h`.

use super::blkparse::{Request, put, request};
use crate::error::LineProblem;
use crate::fields::decimal_ns;
use crate::parser::TraceParser;
use crate::record::{TraceFormat, TraceRecord};

/// Events that have one line for each request, and the one after which some have another.
const EVENTS: [&str; 6] = [
    "block_bio_queue",
    "block_rq_insert",
    "block_rq_issue",
    "block_rq_complete",
    "block_bio_complete",
    REQUEUE,
];
/// The device gave a request back.
pub(crate) const REQUEUE: &str = "block_rq_requeue";

/// The event of `lines` that counts; none where there is no event in them.
pub(crate) fn event_of<'a>(lines: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut first = None;
    for (_, event, _) in lines.filter_map(parts).filter(|(_, event, _)| *event != REQUEUE) {
        if !is_end(event) {
            return Some(event);
        }
        first = first.or(Some(event));
    }
    first
}

/// Whether a request has ended by `event`.
pub(crate) fn is_end(event: &str) -> bool {
    event.ends_with("_complete")
}

/// The time, the event, and what is behind it.
pub(crate) fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let (event, at) = EVENTS.iter().find_map(|event| Some((*event, text.find(&format!("{event}:"))?)))?;
    let time = text[..at].trim_end().trim_end_matches("block:").trim_end().strip_suffix(':')?;
    let time = time.rsplit(char::is_whitespace).next()?;
    Some((time, event, &text[at + event.len() + 1..]))
}

pub(crate) fn line(parser: &mut TraceParser, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
    // Other events, heads and messages stand between.
    let Some((time, event, rest)) = parts(text) else { return Ok(None) };
    let is_requeue = event == REQUEUE;
    let is_counted = !is_requeue && parser.is_event(event);
    let has_been = (is_requeue || parser.has_requeued()) && !event.starts_with("block_bio");
    if has_been && let (device, Some(request)) = request_of(rest)? {
        if is_requeue {
            parser.requeue(device, &request);
        } else if parser.take_requeued(device, &request) && !is_end(event) {
            return Ok(None);
        }
    }
    if !is_counted {
        return Ok(None);
    }
    let time_ns = decimal_ns("the time", time, 9)?;
    let (device, asked) = request_of(rest)?;
    let Some(request) = asked else {
        parser.count_other();
        return Ok(None);
    };
    put(parser, device, (time_ns, None), request)
}

/// The device of an event, and what is asked of it, of the text behind the event's name.
pub(crate) fn request_of(rest: &str) -> Result<(&str, Option<Request>), LineProblem> {
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let [device, rwbs, behind @ ..] = &fields[..] else {
        return Err(LineProblem::Fields { format: TraceFormat::Perf });
    };
    // The range is what stands around the plus.
    let from = behind.iter().position(|field| *field == "+").and_then(|plus| plus.checked_sub(1));
    let mut range = behind[from.unwrap_or(0)..].iter().copied();
    Ok((device, request(rwbs, &mut range)?))
}

/// Whether `line` is an event.
pub(crate) fn is_line(line: &str) -> bool {
    parts(line).is_some_and(|(time, ..)| decimal_ns("", time, 9).is_ok())
}
