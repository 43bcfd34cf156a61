//! What sysstat writes: `sadf -j` and `-d` of sar's files, `iostat` as JSON and as text.
//!
//! Columns have the same names in all of them, with other units: `rkB/s`, `rMB/s`, `rd_sec` (sectors of 512 bytes per second), `kB_read/s`.
//!
//! Quirks: the first report of iostat is of the time since the start of the system. Device columns are `disk_device` (iostat) or
//! `disk-device` (sadf). sar does not tell reads from writes among requests. Text of other languages has commas in numbers.

use super::Located;
use crate::cells::{number, shown};
use crate::clock::seconds;
use crate::error::HistoryProblem;
use crate::reading::{Figure, Reading, Readings};
use serde_json::Value;

/// What a column says, and what its unit is worth.
fn meaning(column: &str) -> Option<(Figure, f64)> {
    const SECTOR: f64 = 512.0;
    const KIB: f64 = 1024.0;
    const MIB: f64 = 1_048_576.0;
    Some(match column {
        "r/s" => (Figure::Reads, 1.0),
        "w/s" => (Figure::Writes, 1.0),
        "tps" => (Figure::Requests, 1.0),
        "rkB/s" | "rkB" | "kB_read/s" => (Figure::ReadBytes, KIB),
        "wkB/s" | "wkB" | "kB_wrtn/s" => (Figure::WriteBytes, KIB),
        "rMB/s" | "MB_read/s" => (Figure::ReadBytes, MIB),
        "wMB/s" | "MB_wrtn/s" => (Figure::WriteBytes, MIB),
        "rd_sec" | "rd_sec/s" | "rsec/s" | "Blk_read/s" => (Figure::ReadBytes, SECTOR),
        "wr_sec" | "wr_sec/s" | "wsec/s" | "Blk_wrtn/s" => (Figure::WriteBytes, SECTOR),
        "aqu-sz" | "avgqu-sz" => (Figure::InFlight, 1.0),
        "util" | "%util" | "util-percent" => (Figure::BusyPct, 1.0),
        "r_await" => (Figure::ReadMs, 1.0),
        "w_await" => (Figure::WriteMs, 1.0),
        "await" => (Figure::EachMs, 1.0),
        _ => return None,
    })
}

fn parsed(text: &str) -> Result<Value, Located> {
    serde_json::from_str(text)
        .map_err(|error| (Some(error.line() as u64), HistoryProblem::Json(shown(&error.to_string()))))
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The devices of a report, each with what it says.
fn devices<'a>(report: &'a Value, key: &'a str) -> impl Iterator<Item = (&'a str, Reading)> {
    list(report, "disk").filter_map(move |device| {
        let mut reading = Reading::default();
        for (column, value) in device.as_object()? {
            if let (Some((figure, unit)), Some(value)) = (meaning(column), value.as_f64()) {
                reading.set(figure, value * unit);
            }
        }
        Some((device.get(key)?.as_str()?, reading))
    })
}

fn hosts(value: &Value) -> Result<impl Iterator<Item = (&str, &Value)>, Located> {
    let hosts = value.get("sysstat").and_then(|it| it.get("hosts")).and_then(Value::as_array);
    let hosts = hosts.ok_or((None, HistoryProblem::Missing("list of hosts (sysstat, hosts)")))?;
    Ok(hosts.iter().map(|host| (host.get("nodename").and_then(Value::as_str).unwrap_or("host"), host)))
}

pub(super) fn sadf_json(text: &str) -> Result<Readings, Located> {
    let (value, mut readings) = (parsed(text)?, Readings::default());
    for (host, of_host) in hosts(&value)? {
        for report in list(of_host, "statistics") {
            let word = |name: &str| report.get("timestamp").and_then(|it| it.get(name));
            let text = |name: &str| word(name).and_then(Value::as_str).unwrap_or("");
            let at_s = seconds(&format!("{} {}", text("date"), text("time")));
            let interval_s = word("interval").and_then(Value::as_f64).filter(|it| *it > 0.0);
            for (device, reading) in devices(report, "disk-device") {
                readings.push(host, device, Reading { at_s, interval_s, ..reading });
            }
        }
    }
    readings.note(NOT_TOLD_APART);
    Ok(readings)
}

const NOT_TOLD_APART: &str =
    "sar does not tell reads from writes among requests: only their bytes are known apart";

pub(super) fn json(text: &str) -> Result<Readings, Located> {
    let (value, mut readings) = (parsed(text)?, Readings::default());
    for (host, of_host) in hosts(&value)? {
        for report in list(of_host, "statistics") {
            let at_s = report.get("timestamp").and_then(Value::as_str).and_then(seconds);
            for (device, reading) in devices(report, "disk_device") {
                readings.push(host, device, Reading { at_s, ..reading });
            }
        }
    }
    readings.drop_since_boot();
    Ok(readings)
}

/// Whether `line` is the head of a table of devices.
pub(super) fn is_text_head(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let is_device = words.next().is_some_and(|word| word.trim_end_matches(':') == "Device");
    is_device && words.any(|word| meaning(word).is_some())
}

pub(super) fn text(text: &str) -> Result<Readings, Located> {
    let (mut readings, mut host) = (Readings::default(), "host".to_owned());
    let (mut head, mut at_s): (Vec<&str>, Option<f64>) = (Vec::new(), None);
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if is_text_head(line) {
            head = words;
            continue;
        }
        if words.is_empty() || line.starts_with("avg-cpu") {
            head.clear();
            continue;
        }
        if let Some(found) = seconds(line) {
            at_s = Some(found);
        }
        if let Some((_, rest)) = line.split_once(" (").filter(|_| line.starts_with("Linux ")) {
            rest.split(')').next().unwrap_or("host").clone_into(&mut host);
        }
        if head.is_empty() {
            continue;
        }
        let line_number = Some(index as u64 + 1);
        if words.len() != head.len() {
            let problem = HistoryProblem::Cells { found: words.len(), expected: head.len() };
            return Err((line_number, problem));
        }
        let mut reading = Reading { at_s, ..Reading::default() };
        for (column, cell) in head.iter().zip(&words) {
            let Some((figure, unit)) = meaning(column) else { continue };
            let value = number(cell).ok_or_else(|| no_number(line_number, column, cell))?;
            reading.set(figure, value * unit);
        }
        readings.push(&host, words[0].trim_end_matches(':'), reading);
    }
    readings.drop_since_boot();
    Ok(readings)
}

pub(super) fn no_number(line: Option<u64>, column: &str, cell: &str) -> Located {
    (line, HistoryProblem::Number { column: shown(column), text: shown(cell) })
}

pub(super) fn sadf_database(text: &str) -> Result<Readings, Located> {
    let mut readings = Readings::default();
    let mut head: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(names) = line.strip_prefix("# ") {
            head = names.split(';').collect();
            continue;
        }
        let cells: Vec<&str> = line.split(';').collect();
        if line.trim().is_empty() || cells.get(3).is_none_or(|it| it.starts_with("LINUX-RESTART")) {
            continue;
        }
        let line_number = Some(index as u64 + 1);
        if cells.len() != head.len() {
            return Err((line_number, HistoryProblem::Cells { found: cells.len(), expected: head.len() }));
        }
        let at_s = seconds(cells[2]).ok_or_else(|| (line_number, HistoryProblem::Time(shown(cells[2]))))?;
        let interval_s = number(cells[1]).filter(|it| *it > 0.0);
        let mut reading = Reading { at_s: Some(at_s), interval_s, ..Reading::default() };
        for (column, cell) in head.iter().zip(&cells) {
            let Some((figure, unit)) = meaning(column) else { continue };
            let value = number(cell).ok_or_else(|| no_number(line_number, column, cell))?;
            reading.set(figure, value * unit);
        }
        readings.push(cells[0], cells[3], reading);
    }
    readings.note(NOT_TOLD_APART);
    Ok(readings)
}
