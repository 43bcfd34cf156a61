//! What `iostat` writes, as JSON and as text. sar's files have the same columns: see `sar`.
//!
//! Columns have the same names in all of them, with other units: `rkB/s`, `rMB/s`, `rd_sec` (sectors of 512 bytes per second), `kB_read/s`.
//! JSON of sysstat 11.5.1 calls the rates `r`, `rkB` and `kB_read_per_sec`.
//!
//! Quirks: the first report of each run of iostat is of the time since the start of the system, unless it ran with `-y`, which nothing in
//! its output tells. `-z` leaves out the devices that were idle, and so whole reports may list none. `-h` and `--pretty` put the device
//! last and part a report into several tables; `--human` writes units behind numbers.
//! Text of other languages has commas in numbers.

use super::{Located, Told};
use crate::cells::{number, shown};
use crate::clock::{DateOrder, seconds_in};
use crate::error::HistoryProblem;
use crate::reading::{Figure, Reading, Readings, RowTimes};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a column says, and what its unit is worth.
pub(super) fn meaning(column: &str) -> Option<(Figure, f64)> {
    const SECTOR: f64 = 512.0;
    const KIB: f64 = 1024.0;
    const MIB: f64 = 1_048_576.0;
    Some(match column {
        "r/s" | "r" => (Figure::Reads, 1.0),
        "w/s" | "w" => (Figure::Writes, 1.0),
        "tps" => (Figure::Requests, 1.0),
        "rkB/s" | "rkB" | "kB_read/s" | "kB_read_per_sec" => (Figure::ReadBytes, KIB),
        "kB/s" => (Figure::MovedBytes, KIB),
        "MB/s" => (Figure::MovedBytes, MIB),
        "wkB/s" | "wkB" | "kB_wrtn/s" | "kB_wrtn_per_sec" => (Figure::WriteBytes, KIB),
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
    serde_json::from_str(text).map_err(|error| {
        let problem =
            if error.is_eof() { HistoryProblem::CutOff } else { HistoryProblem::Json(error.to_string()) };
        (Some(error.line() as u64), problem)
    })
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// The devices of report number `number`, each with what it says.
pub(super) fn devices<'a>(
    (number, report): (usize, &'a Value),
    key: &'a str,
) -> Result<Vec<(&'a str, Reading)>, Located> {
    let mut all = Vec::new();
    for device in list(report, "disk") {
        let Some((name, figures)) = device.get(key).and_then(Value::as_str).zip(device.as_object()) else {
            continue;
        };
        let mut reading = Reading::default();
        for (column, value) in figures.iter().filter(|(_, value)| !value.is_null()) {
            let Some((figure, unit)) = meaning(column) else { continue };
            let wrong = || {
                let place = format!("{column} of {name} in report {number}");
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                (None, HistoryProblem::Number { column: place, text: shown(&text) })
            };
            reading.set(figure, value.as_f64().ok_or_else(wrong)? * unit);
        }
        all.push((name, reading));
    }
    Ok(all)
}

/// The time in `text` of report number `number`; none where nothing is said.
pub(super) fn time_of_report(
    number: usize,
    text: Option<&str>,
    order: DateOrder,
) -> Result<Option<f64>, Located> {
    let wrong = |text: &str| (None, HistoryProblem::ReportTime { number, text: shown(text) });
    text.map(|text| seconds_in(text, order).ok_or_else(|| wrong(text))).transpose()
}

pub(super) fn hosts(value: &Value) -> Result<impl Iterator<Item = (&str, &Value)>, Located> {
    let hosts = value.get("sysstat").and_then(|it| it.get("hosts")).and_then(Value::as_array);
    let hosts = hosts.ok_or((None, HistoryProblem::Missing("list of hosts (sysstat, hosts)")))?;
    Ok(hosts.iter().map(|host| (host.get("nodename").and_then(Value::as_str).unwrap_or("host"), host)))
}

/// What a report says of the devices that it lists.
struct Report {
    host: String,
    /// Number of the run of iostat that wrote it.
    run: usize,
    at_s: Option<f64>,
    interval_s: Option<f64>,
    devices: BTreeMap<String, Reading>,
    /// Those of them that have more than zeros.
    busy: BTreeSet<String>,
}

/// All reports, in the order of the file.
struct Reports {
    list: Vec<Report>,
    run: usize,
    told: Told,
    /// Names that stand for several devices (`iostat -g`).
    groups: BTreeSet<String>,
}

impl Reports {
    const fn new(told: Told) -> Self {
        Self { list: Vec::new(), run: 0, told, groups: BTreeSet::new() }
    }

    /// iostat was started once more.
    const fn start(&mut self) {
        self.run += 1;
    }

    /// A report of the run, which lists nothing so far.
    fn open(&self, host: &str, at_s: Option<f64>, interval_s: Option<f64>) -> Report {
        let (host, run) = (host.to_owned(), self.run);
        Report { host, run, at_s, interval_s, devices: BTreeMap::new(), busy: BTreeSet::new() }
    }

    /// Takes the sums of groups away where their devices are told, too; whether it did.
    fn leave_out_groups(&mut self) -> bool {
        let is_device = |name: &String| !self.groups.contains(name);
        let has_devices = self.list.iter().any(|report| report.devices.keys().any(is_device));
        if has_devices {
            for report in &mut self.list {
                report.devices.retain(|name, _| !self.groups.contains(name));
                report.busy.retain(|name| !self.groups.contains(name));
            }
        }
        has_devices && !self.groups.is_empty()
    }

    /// The readings of all. A report since the start of the system is used where its host has no other.
    fn end(mut self) -> Readings {
        const LEFT_OUT: &str = "the first report of each run of iostat is taken for that of the time since the start of the system, and \
                                left out (--no-since-boot keeps it: 'iostat -y' writes none)";
        const ALONE: &str = "there is one report of a run of iostat: its rates are means since the start of the system, unless it ran \
                             with -y";
        let mut readings = Readings::default();
        if self.leave_out_groups() {
            readings.note("sums of groups (iostat -g) are left out: their devices are listed, too");
        }
        let has_none = self.told.has_no_report_since_boot;
        let mut hosts: BTreeMap<&str, BTreeMap<usize, Vec<&Report>>> = BTreeMap::new();
        for report in &self.list {
            // Without reports since the start a device that is idle in one run is known by the others.
            let run = if has_none { 0 } else { report.run };
            hosts.entry(&report.host).or_default().entry(run).or_default().push(report);
        }
        for runs in hosts.values() {
            let has_more = runs.values().any(|run| run.len() > 1);
            for run in runs.values() {
                if has_none {
                    push_run(&mut readings, None, run);
                } else if let (true, Some((first, others))) = (has_more, run.split_first()) {
                    readings.note(LEFT_OUT);
                    push_run(&mut readings, Some(first), others);
                }
            }
            let alone = runs.values().flatten().find(|report| !report.devices.is_empty());
            if let Some(alone) = alone.filter(|_| !has_none && !has_more) {
                readings.note(ALONE);
                push_run(&mut readings, None, &[alone]);
            }
        }
        readings
    }
}

/// Adds the reports of a run, behind that since the start of the system if there is one. Of a device that is known and not listed it adds
/// zeros, if iostat leaves out idle ones; what the report since the start does not list was plugged in later.
fn push_run(readings: &mut Readings, since_boot: Option<&Report>, reports: &[&Report]) {
    let idle = |report: &Report| -> Vec<(String, Reading)> {
        report.devices.iter().map(|(device, reading)| (device.clone(), reading.idle())).collect()
    };
    let leaves_out = leaves_out_idle(since_boot, reports);
    let mut known: BTreeMap<String, Reading> = match since_boot {
        Some(first) => idle(first).into_iter().collect(),
        None => reports.iter().flat_map(|report| idle(report)).collect(),
    };
    for report in reports {
        let Report { host, at_s, interval_s, .. } = report;
        let timed = |reading: &Reading| Reading { at_s: *at_s, interval_s: *interval_s, ..*reading };
        for (device, reading) in &report.devices {
            readings.push(host, device, timed(reading));
        }
        for (device, reading) in known.iter().filter(|(device, _)| !report.devices.contains_key(*device)) {
            if leaves_out {
                readings.note("reports do not list all devices: iostat -z leaves out those that were idle, and they count as idle there");
                readings.push(host, device, timed(reading));
            }
        }
        known.extend(idle(report));
    }
}

/// Whether iostat ran with `-z`. It did if a report lists nothing, or none lists an idle device, or more devices are gone and come back
/// than idle ones are listed: rates that are rounded look idle. Without `-z` a device that is gone was unplugged.
fn leaves_out_idle(since_boot: Option<&Report>, reports: &[&Report]) -> bool {
    let mut last: BTreeMap<&str, usize> = BTreeMap::new();
    let mut absent = 0;
    for (index, report) in since_boot.into_iter().chain(reports.iter().copied()).enumerate() {
        for device in report.devices.keys() {
            absent += last.insert(device, index).map_or(0, |before| index - before - 1);
        }
    }
    let lists_nothing = reports.iter().any(|report| report.devices.is_empty());
    let idle: usize = reports.iter().map(|report| report.devices.len() - report.busy.len()).sum();
    lists_nothing || idle == 0 || absent > idle
}

pub(super) fn json(text: &str, order: DateOrder, told: Told) -> Result<Readings, Located> {
    let (value, mut reports) = (parsed(text)?, Reports::new(told));
    for (host, of_host) in hosts(&value)? {
        reports.start();
        let mut times = RowTimes::default();
        let reports_of_disks = (1..).zip(list(of_host, "statistics")).filter(|it| it.1.get("disk").is_some());
        for (number, report) in reports_of_disks {
            let at_s = time_of_report(number, report.get("timestamp").and_then(Value::as_str), order)?;
            let interval_s = at_s.and_then(|at_s| {
                times.at(at_s);
                times.covered_s()
            });
            let mut next = reports.open(host, at_s, interval_s);
            let listed = devices((number, report), "disk_device")?;
            next.devices.extend(listed.into_iter().map(|(device, it)| (device.to_owned(), it)));
            let is_busy = |device: &&Value| {
                let figures = device.as_object().into_iter().flatten();
                figures.filter_map(|(_, value)| value.as_f64()).any(|value| value > 0.0)
            };
            let busy = list(report, "disk").filter(is_busy);
            next.busy = busy.filter_map(|it| Some(it.get("disk_device")?.as_str()?.to_owned())).collect();
            reports.list.push(next);
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

/// Whether a row has more than zeros beside the device at `place`.
fn is_busy(words: &[&str], place: usize) -> bool {
    let has_work = |cell: &str| with_unit(Figure::ReadBytes, cell, 1.0).is_some_and(|it| it > 0.0);
    words.iter().enumerate().any(|(at, cell)| at != place && has_work(cell))
}

pub(super) fn text(text: &str, order: DateOrder, told: Told) -> Result<Readings, Located> {
    let (mut reports, mut host) = (Reports::new(told), "host".to_owned());
    let (mut head, mut at_s, mut times): (Vec<&str>, Option<f64>, RowTimes) =
        (Vec::new(), None, RowTimes::default());
    // A report may have several tables of the same devices, each with a head of its own.
    let mut report: Option<(Report, Vec<Vec<&str>>)> = None;
    let mut is_indented = false;
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if is_text_head(line) {
            if report.as_ref().is_some_and(|(_, heads)| heads.contains(&words)) {
                reports.list.extend(report.take().map(|it| it.0));
            }
            let open = || (reports.open(&host, at_s, times.covered_s()), Vec::new());
            report.get_or_insert_with(open).1.push(words.clone());
            (head, is_indented) = (words, line.starts_with(' '));
            continue;
        }
        let is_of_cpu = line.starts_with("avg-cpu");
        let is_banner = line.starts_with("Linux ");
        if words.is_empty() || is_of_cpu {
            head.clear();
        }
        let time = if head.is_empty() { seconds_in(line, order) } else { None };
        if is_banner || is_of_cpu || time.is_some() {
            reports.list.extend(report.take().map(|it| it.0));
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
        // The row of a group is set in.
        if line.starts_with(' ') && !is_indented && place == 0 {
            reports.groups.insert(device.to_owned());
        }
        let Some((open, heads)) = &mut report else { continue };
        // Lines that were picked out of all have one head.
        let is_next = open
            .devices
            .get_mut(device)
            .is_some_and(|reading| figures.iter().any(|(figure, _)| reading.has(*figure)));
        if is_next {
            let next = reports.open(&host, at_s, times.covered_s());
            *heads = vec![head.clone()];
            reports.list.push(std::mem::replace(open, next));
        }
        if is_busy(&words, place) {
            open.busy.insert(device.to_owned());
        }
        let reading = open.devices.entry(device.to_owned()).or_default();
        for (figure, value) in figures {
            reading.set(figure, value);
        }
    }
    reports.list.extend(report.map(|it| it.0));
    Ok(reports.end())
}

pub(super) fn no_number(line: Option<u64>, column: &str, cell: &str) -> Located {
    (line, HistoryProblem::Number { column: shown(column), text: shown(cell) })
}
