//! What `iostat` writes, as JSON and as text. sar's files have the same columns: see `sar`.
//!
//! Columns have the same names in all of them, with other units: `rkB/s`, `rMB/s`, `rd_sec` (sectors of 512 bytes per second), `kB_read/s`.
//!
//! Quirks: the first report of each run of iostat is of the time since the start of the system, unless it ran with `-y`, which nothing in
//! its output tells. `-h` and `--pretty` put the device last and part a report into several tables; `--human` writes units behind numbers.
//! Text of other languages has commas in numbers.

use super::{Located, Told};
use crate::cells::{number, shown};
use crate::clock::{DateOrder, seconds_in};
use crate::error::HistoryProblem;
use crate::reading::{Figure, Reading, Readings, RowTimes};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a column says, and what its unit is worth.
pub(super) fn meaning(column: &str) -> Option<(Figure, f64)> {
    const SECTOR: f64 = 512.0;
    const KIB: f64 = 1024.0;
    const MIB: f64 = 1_048_576.0;
    Some(match column {
        "r/s" => (Figure::Reads, 1.0),
        "w/s" => (Figure::Writes, 1.0),
        "tps" => (Figure::Requests, 1.0),
        "rkB/s" | "rkB" | "kB_read/s" => (Figure::ReadBytes, KIB),
        "kB/s" => (Figure::MovedBytes, KIB),
        "MB/s" => (Figure::MovedBytes, MIB),
        "wkB/s" | "wkB" | "kB_wrtn/s" => (Figure::WriteBytes, KIB),
        "rMB/s" | "MB_read/s" => (Figure::ReadBytes, MIB),
        "wMB/s" | "MB_wrtn/s" => (Figure::WriteBytes, MIB),
        "rd_sec" | "rd_sec/s" | "rsec/s" | "Blk_read/s" => (Figure::ReadBytes, SECTOR),
        "wr_sec" | "wr_sec/s" | "wsec/s" | "Blk_wrtn/s" => (Figure::WriteBytes, SECTOR),
        "aqu-sz" | "avgqu-sz" => (Figure::InFlight, 1.0),
        "util" | "%util" | "util-percent" => (Figure::BusyPct, 1.0),
        "r_await" => (Figure::ReadMs, 1.0),
        "w_await" => (Figure::WriteMs, 1.0),
        "await" => (Figure::RequestMs, 1.0),
        _ => return None,
    })
}

pub(super) fn parsed(text: &str) -> Result<Value, Located> {
    serde_json::from_str(text)
        .map_err(|error| (Some(error.line() as u64), HistoryProblem::Json(shown(&error.to_string()))))
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The devices of a report, each with what it says.
pub(super) fn devices<'a>(report: &'a Value, key: &'a str) -> impl Iterator<Item = (&'a str, Reading)> {
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

pub(super) fn hosts(value: &Value) -> Result<impl Iterator<Item = (&str, &Value)>, Located> {
    let hosts = value.get("sysstat").and_then(|it| it.get("hosts")).and_then(Value::as_array);
    let hosts = hosts.ok_or((None, HistoryProblem::Missing("list of hosts (sysstat, hosts)")))?;
    Ok(hosts.iter().map(|host| (host.get("nodename").and_then(Value::as_str).unwrap_or("host"), host)))
}

/// The readings of a report, and which of them are of the time since the start of the system.
struct Reports {
    readings: Readings,
    /// The first of each device, while it may be all there is.
    since_boot: BTreeMap<(String, String), Reading>,
    /// Devices that the run of iostat has told of.
    seen: Vec<String>,
    told: Told,
}

impl Reports {
    const fn new(readings: Readings, told: Told) -> Self {
        Self { readings, since_boot: BTreeMap::new(), seen: Vec::new(), told }
    }

    /// iostat was started once more.
    fn start(&mut self) {
        self.seen.clear();
    }

    fn push(&mut self, host: &str, device: &str, reading: Reading) {
        if self.told.has_no_report_since_boot || self.seen.iter().any(|it| it == device) {
            self.readings.push(host, device, reading);
            return;
        }
        self.seen.push(device.to_owned());
        self.since_boot.entry((host.to_owned(), device.to_owned())).or_insert(reading);
    }

    /// All of them: a report since the start of the system is used where there is no other.
    fn end(mut self) -> Readings {
        let is_told_else = |key: &(String, String)| self.readings.by_device.contains_key(key);
        let (left_out, alone): (Vec<_>, Vec<_>) =
            self.since_boot.into_iter().partition(|(key, _)| is_told_else(key));
        if !left_out.is_empty() {
            self.readings.note(
                "the first report of each run of iostat is taken for that of the time since the start of the system, and left out \
                 (--no-since-boot keeps it: 'iostat -y' writes none)",
            );
        }
        if !alone.is_empty() {
            self.readings.note(
                "there is one report of a run of iostat: its rates are means since the start of the system, unless it ran with -y",
            );
        }
        for ((host, device), reading) in alone {
            self.readings.push(&host, &device, reading);
        }
        self.readings
    }
}

pub(super) fn json(text: &str, order: DateOrder, told: Told) -> Result<Readings, Located> {
    let (value, mut reports) = (parsed(text)?, Reports::new(Readings::default(), told));
    for (host, of_host) in hosts(&value)? {
        reports.start();
        let mut times = RowTimes::default();
        for report in list(of_host, "statistics") {
            let at_s =
                report.get("timestamp").and_then(Value::as_str).and_then(|text| seconds_in(text, order));
            let interval_s = at_s.and_then(|at_s| {
                times.at(at_s);
                times.covered_s()
            });
            for (device, reading) in devices(report, "disk_device") {
                reports.push(host, device, Reading { at_s, interval_s, ..reading });
            }
        }
    }
    Ok(reports.end())
}

fn is_device(word: &str) -> bool {
    word.trim_end_matches(':') == "Device"
}

/// Whether `line` is the head of a table of devices.
pub(super) fn is_text_head(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_at_end = |word: Option<&&str>| word.is_some_and(|word| is_device(word));
    (is_at_end(words.first()) || is_at_end(words.last())) && words.iter().any(|word| meaning(word).is_some())
}

/// A cell of `--human`: a number, and what its unit is worth beside that of its column.
fn with_unit(figure: Figure, cell: &str, unit: f64) -> Option<f64> {
    if let Some(value) = number(cell.trim_end_matches('%')) {
        return Some(value * unit);
    }
    let is_of_bytes = [Figure::ReadBytes, Figure::WriteBytes, Figure::MovedBytes].contains(&figure);
    let letter = cell.chars().last().filter(|_| is_of_bytes)?;
    let factor = (0u32..)
        .zip("BkMGTP".chars())
        .find(|(_, it)| *it == letter)
        .map(|(power, _)| 1u64 << (10 * power))?;
    Some(number(cell.strip_suffix(letter)?)? * factor as f64)
}

/// The columns of `words` by those of `head`, sar's too.
pub(super) fn row(head: &[&str], words: &[&str], line: Option<u64>) -> Result<Vec<(Figure, f64)>, Located> {
    if words.len() != head.len() {
        return Err((line, HistoryProblem::Cells { found: words.len(), expected: head.len() }));
    }
    let mut figures = Vec::new();
    for (column, cell) in head.iter().zip(words) {
        let Some((figure, unit)) = meaning(column) else { continue };
        let value = with_unit(figure, cell, unit).ok_or_else(|| no_number(line, column, cell))?;
        figures.push((figure, value));
    }
    Ok(figures)
}

pub(super) fn text(text: &str, order: DateOrder, told: Told) -> Result<Readings, Located> {
    let (mut reports, mut host) = (Reports::new(Readings::default(), told), "host".to_owned());
    let (mut head, mut at_s, mut times): (Vec<&str>, Option<f64>, RowTimes) =
        (Vec::new(), None, RowTimes::default());
    // A report may have several tables of the same devices.
    let mut report: BTreeMap<String, Reading> = BTreeMap::new();
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
        let is_banner = line.starts_with("Linux ");
        let time = seconds_in(line, order).filter(|_| head.is_empty());
        if is_banner || time.is_some() {
            flush(&mut reports, &host, &mut report);
        }
        if is_banner {
            (at_s, times) = (None, RowTimes::default());
            reports.start();
            if let Some((_, rest)) = line.split_once(" (") {
                rest.split(')').next().unwrap_or("host").clone_into(&mut host);
            }
        }
        at_s = time.or(at_s);
        if let Some(at_s) = time {
            times.at(at_s);
        }
        if head.is_empty() {
            continue;
        }
        let place = if is_device(head[0]) { 0 } else { head.len() - 1 };
        let figures = row(&head, &words, Some(index as u64 + 1))?;
        let device = words[place].trim_end_matches(':');
        let is_next = report
            .get_mut(device)
            .is_some_and(|reading| figures.iter().any(|(figure, _)| reading.has(*figure)));
        if is_next {
            flush(&mut reports, &host, &mut report);
        }
        let reading = report.entry(device.to_owned()).or_insert(Reading {
            at_s,
            interval_s: times.covered_s(),
            ..Reading::default()
        });
        for (figure, value) in figures {
            reading.set(figure, value);
        }
    }
    flush(&mut reports, &host, &mut report);
    Ok(reports.end())
}

/// Adds the devices of a report that is whole.
fn flush(reports: &mut Reports, host: &str, report: &mut BTreeMap<String, Reading>) {
    for (device, reading) in std::mem::take(report) {
        reports.push(host, &device, reading);
    }
}

pub(super) fn no_number(line: Option<u64>, column: &str, cell: &str) -> Located {
    (line, HistoryProblem::Number { column: shown(column), text: shown(cell) })
}
