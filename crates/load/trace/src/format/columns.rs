//! Tables of requests that differ in the order of their columns and in units only.
//!
//! | format | a line |
//! |---|---|
//! | Alibaba, and what is made of oracleGeneral | `419,W,8792731648,16384,1577808144360767` |
//! | Tencent | `1538323199,42932745,8,0,1283` |
//! | SYSTOR '17 | `1455592806.420155,0.000304,R,3,123904,512` |
//! | FIU | `89966104730008 4892 syslogd 904265560 8 W 6 0 md5` |
//!
//! Quirks: the copies of some have a line of names in front. Sources: the README files of the traces.

use super::SECTOR_BYTES;
use crate::error::LineProblem;
use crate::fields::{decimal_ns, shown, whole};
use crate::parser::{Parsed, TraceParser};
use crate::record::{TraceFormat, TraceKind, TraceRecord};

/// A column: by its place from the front, or from the end.
#[derive(Clone, Copy)]
enum At {
    Front(usize),
    Back(usize),
}

/// Where the figures of a request stand, and in what units.
struct Table {
    has_commas: bool,
    /// Columns at least and at most.
    columns: (usize, usize),
    time: (At, u32),
    device: At,
    kind: At,
    /// Words for reads and for writes.
    words: [&'static str; 2],
    offset: (At, u64),
    length: (At, u64),
    response: Option<(At, u32)>,
    /// How the first name in a line of names begins.
    head: &'static str,
}

use At::{Back, Front};

fn table(format: TraceFormat) -> Option<Table> {
    let csv = Table {
        has_commas: true,
        columns: (5, 5),
        time: (Front(0), 9),
        device: Front(0),
        kind: Front(1),
        words: ["R", "W"],
        offset: (Front(2), 1),
        length: (Front(3), 1),
        response: None,
        head: "timestamp",
    };
    Some(match format {
        TraceFormat::Alibaba | TraceFormat::OracleGeneral => {
            Table { time: (Front(4), 3), head: "device", ..csv }
        }
        TraceFormat::Tencent => Table {
            device: Front(4),
            kind: Front(3),
            words: ["0", "1"],
            offset: (Front(1), SECTOR_BYTES),
            length: (Front(2), SECTOR_BYTES),
            ..csv
        },
        TraceFormat::Systor => Table {
            columns: (6, 6),
            device: Front(3),
            kind: Front(2),
            offset: (Front(4), 1),
            length: (Front(5), 1),
            response: Some((Front(1), 9)),
            ..csv
        },
        TraceFormat::Fiu => Table {
            has_commas: false,
            columns: (9, 16),
            time: (Front(0), 0),
            device: Back(1),
            kind: Back(3),
            offset: (Back(5), SECTOR_BYTES),
            length: (Back(4), SECTOR_BYTES),
            ..csv
        },
        _ => return None,
    })
}

impl Table {
    fn fields<'a>(&self, text: &'a str) -> Vec<&'a str> {
        if self.has_commas {
            text.split(',').map(str::trim).collect()
        } else {
            text.split_ascii_whitespace().collect()
        }
    }

    fn is_head(&self, fields: &[&str]) -> bool {
        fields.first().is_some_and(|name| name.to_ascii_lowercase().starts_with(self.head))
    }

    fn has_columns(&self, fields: &[&str]) -> bool {
        (self.columns.0..=self.columns.1).contains(&fields.len())
    }

    fn kind(&self, text: &str) -> Option<TraceKind> {
        // Flags may follow, as `WS`.
        let is = |word: &str| text == word || (text.starts_with(word) && !self.has_commas);
        let [reads, writes] = self.words;
        if is(reads) { Some(TraceKind::Read) } else { is(writes).then_some(TraceKind::Write) }
    }
}

/// The column at a place; empty where there is none.
fn at<'a>(fields: &[&'a str], place: At) -> &'a str {
    let index = match place {
        Front(index) => Some(index),
        Back(index) => fields.len().checked_sub(index + 1),
    };
    index.and_then(|index| fields.get(index)).copied().unwrap_or("")
}

pub(crate) fn line(
    parser: &mut TraceParser,
    format: TraceFormat,
    text: &str,
) -> Result<Option<TraceRecord>, LineProblem> {
    let wrong = || LineProblem::Fields { format };
    let table = table(format).ok_or_else(wrong)?;
    let fields = table.fields(text);
    if parser.is_first_line() && table.is_head(&fields) {
        return Ok(None);
    }
    if !table.has_columns(&fields) {
        return Err(wrong());
    }
    let kind = at(&fields, table.kind);
    let known = if table.words[0] == "R" { "R and W" } else { "0 (read) and 1 (write)" };
    let kind =
        table.kind(kind).ok_or_else(|| LineProblem::Word { field: "the kind", text: shown(kind), known })?;
    let bytes = |field, (place, unit): (At, u64)| {
        whole(field, at(&fields, place), u64::MAX / unit).map(|count| count * unit)
    };
    let parsed = Parsed {
        time_ns: parser.time_ns("the time", at(&fields, table.time.0), table.time.1)?,
        kind,
        offset_bytes: bytes("the place", table.offset)?,
        length_bytes: bytes("the length", table.length)?,
        response_ns: match table.response {
            // Some rows of SYSTOR '17 have none.
            Some((place, _)) if at(&fields, place).is_empty() => None,
            Some((place, digits)) => Some(decimal_ns("the response time", at(&fields, place), digits)?),
            None => None,
        },
    };
    let device = match (format, fields.as_slice()) {
        (TraceFormat::Fiu, [.., major, minor, _]) => format!("{},{}", shown(major), shown(minor)),
        _ => shown(at(&fields, table.device)),
    };
    parser.record(&device, parsed)
}

/// Whether `line` is one of such a file.
pub(crate) fn is_line(format: TraceFormat, line: &str) -> bool {
    // Nobody writes it as text.
    let Some(table) = table(format).filter(|_| format != TraceFormat::OracleGeneral) else { return false };
    let fields = table.fields(line);
    // fio's logs of latencies have blanks behind their commas, and columns as Tencent's; no trace has.
    if !table.has_columns(&fields) || (table.has_commas && line.contains(", ")) {
        return false;
    }
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    // Heads say little: the row behind them decides.
    table.kind(at(&fields, table.kind)).is_some()
        && decimal_ns("", at(&fields, table.time.0), table.time.1).is_ok()
        && [table.offset.0, table.length.0].iter().all(|place| is_number(at(&fields, *place)))
}
