//! `DiskSim`'s traces: the default ASCII format, and validation traces.
//!
//! ```text
//! 0.000000 0 1180088 16 1                       arrival_ms device block blocks flags (hexadecimal; bit 0: read)
//! R Miss  564347     2     14095.370     13876.270      R|W action block blocks response_us gap_us
//! ```
//! Blocks have 512 bytes. A validation trace has one request in flight at a time: each is issued after its
//! predecessor's completion and gap, so its time is the sum of all responses and gaps before it. Its `action` is the
//! buffer's behaviour as far as the bus showed it, and is ignored: a model must find that out by itself.
//!
//! Source: Bucy, Schindler, Schlosser, Ganger and others, "The `DiskSim` Simulation Environment Version 4.0 Reference
//! Manual",
//! CMU-PDL-08-101.

use super::{SECTOR_BYTES, first_fields};
use crate::error::LineProblem;
use crate::fields::{decimal_ns, shown, whole};
use crate::parser::{Parsed, TraceParser};
use crate::record::{TraceFormat, TraceKind, TraceRecord};

/// The only device of a validation trace.
const DRIVE: &str = "drive";
/// Blocks and lengths of `DiskSim` are C's `int`; these leave room to spare.
const BLOCK_MAX: u64 = 1 << 48;
const BLOCKS_MAX: u64 = (1 << 24) - 1;
/// An hour: no drive and no user pauses for longer.
const PAUSE_NS_MAX: u64 = 3600 * 1_000_000_000;

pub(crate) fn line(parser: &mut TraceParser, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
    let [time, device, block, blocks, flags] =
        all_fields(text).ok_or(LineProblem::Fields { format: TraceFormat::Disksim })?;
    let device = whole("the device", device, u64::from(u16::MAX))?;
    let known = "hexadecimal numbers";
    let flags = u32::from_str_radix(flags.trim_start_matches("0x"), 16).map_err(|_| LineProblem::Word {
        field: "flags",
        text: shown(flags),
        known,
    })?;
    let parsed = Parsed {
        time_ns: parser.time_ns("the arrival time", time, 6)?,
        kind: if flags & 1 == 1 { TraceKind::Read } else { TraceKind::Write },
        offset_bytes: whole("the block", block, BLOCK_MAX)? * SECTOR_BYTES,
        length_bytes: whole("the number of blocks", blocks, BLOCKS_MAX)? * SECTOR_BYTES,
        response_ns: None,
    };
    parser.record(&format!("dev{device}"), parsed)
}

pub(crate) fn validation_line(
    parser: &mut TraceParser,
    text: &str,
) -> Result<Option<TraceRecord>, LineProblem> {
    let format = TraceFormat::DisksimValidate;
    let [op, _action, block, blocks, response, gap] =
        all_fields(text).ok_or(LineProblem::Fields { format })?;
    let kind = kind_of(op).ok_or_else(|| LineProblem::Word {
        field: "the operation",
        text: shown(op),
        known: "R and W",
    })?;
    let span = |field, text: &str| {
        decimal_ns(field, text, 3).and_then(|ns| match ns {
            0..=PAUSE_NS_MAX => Ok(ns),
            _ => Err(LineProblem::Number { field, text: shown(text), max: PAUSE_NS_MAX / 1000 }),
        })
    };
    let (response_ns, gap_ns) = (span("the response time", response)?, span("the gap", gap)?);
    let time_ns = parser.clock_ns();
    parser.set_clock_ns(time_ns.saturating_add(response_ns + gap_ns));
    let length_bytes = whole("the number of blocks", blocks, BLOCKS_MAX)? * SECTOR_BYTES;
    if length_bytes == 0 {
        return Err(LineProblem::Empty);
    }
    let offset_bytes = whole("the block", block, BLOCK_MAX)? * SECTOR_BYTES;
    parser.record(DRIVE, Parsed { time_ns, kind, offset_bytes, length_bytes, response_ns: Some(response_ns) })
}

fn all_fields<const N: usize>(text: &str) -> Option<[&str; N]> {
    let mut fields = text.split_ascii_whitespace();
    let found = first_fields(&mut fields)?;
    fields.next().is_none().then_some(found)
}

fn kind_of(op: &str) -> Option<TraceKind> {
    match op {
        "R" => Some(TraceKind::Read),
        "W" => Some(TraceKind::Write),
        _ => None,
    }
}

/// Whether `line` is one of the default format.
pub(crate) fn is_line(line: &str) -> bool {
    all_fields(line).is_some_and(|[time, device, block, blocks, flags]: [&str; 5]| {
        let are_numbers = [device, block, blocks].iter().all(|text| text.parse::<u64>().is_ok());
        are_numbers
            && decimal_ns("", time, 6).is_ok()
            && u32::from_str_radix(flags.trim_start_matches("0x"), 16).is_ok()
    })
}

/// Whether `line` is one of a validation trace.
pub(crate) fn is_validation_line(line: &str) -> bool {
    all_fields(line).is_some_and(|[op, _, block, blocks, _, _]: [&str; 6]| {
        kind_of(op).is_some() && [block, blocks].iter().all(|text| text.parse::<u64>().is_ok())
    })
}
