//! The trace file format of the Storage Performance Council, used for `UMass`'s Financial and `WebSearch` traces.
//!
//! ```text
//! 0,20941264,8192,W,0.551706
//! asu,lba,bytes,opcode,seconds     further fields are ignored
//! ```
//! An application storage unit is a device. Addresses are blocks of 512 bytes, lengths are bytes, times are seconds
//! from the start. Quirk: the opcode may be in either case.
//!
//! Source: Storage Performance Council, "SPC Trace File Format Specification", revision 1.0.1.

use super::{SECTOR_BYTES, SECTORS_MAX, first_fields};
use crate::error::LineProblem;
use crate::fields::{shown, whole};
use crate::parser::{Parsed, TraceParser};
use crate::record::{TraceFormat, TraceKind, TraceRecord};

pub(crate) fn line(parser: &mut TraceParser, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
    let fields = fields_of(text).ok_or(LineProblem::Fields { format: TraceFormat::Spc })?;
    let [asu, lba, size, opcode, time] = fields;
    let asu = whole("the application storage unit", asu, u64::from(u16::MAX))?;
    let known = "R and W";
    let kind = kind_of(opcode).ok_or_else(|| LineProblem::Word {
        field: "the opcode",
        text: shown(opcode),
        known,
    })?;
    let parsed = Parsed {
        time_ns: parser.time_ns("the timestamp", time, 9)?,
        kind,
        offset_bytes: whole("the address", lba, SECTORS_MAX)? * SECTOR_BYTES,
        length_bytes: whole("the size", size, u64::MAX)?,
        response_ns: None,
    };
    parser.record(&format!("asu{asu}"), parsed)
}

fn fields_of(text: &str) -> Option<[&str; 5]> {
    first_fields(&mut text.split(',').map(str::trim))
}

fn kind_of(opcode: &str) -> Option<TraceKind> {
    match opcode {
        "R" | "r" => Some(TraceKind::Read),
        "W" | "w" => Some(TraceKind::Write),
        _ => None,
    }
}

/// Whether `line` is one of such a file.
pub(crate) fn is_line(line: &str) -> bool {
    fields_of(line).is_some_and(|[asu, lba, _, opcode, _]| {
        [asu, lba].iter().all(|text| text.parse::<u64>().is_ok()) && kind_of(opcode).is_some()
    })
}
