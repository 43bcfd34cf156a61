//! What sysstat makes of sar's files: `sadf -j`, `sadf -d`, the lines of `sadf` without either, and what `sar -d` prints.
//!
//! Quirks: sar does not tell reads from writes among requests. `sadf -d -- -A` has tables of everything else beside that of devices;
//! `sadf -dh` puts all devices into one row, and `[...]` behind the head's last column.
//! Text tells the day in its first line only, and times of 12 or 24 hours in front of each row; `-p` and `--pretty` put the device last, and
//! `--human` writes units behind numbers.

use super::Located;
use super::iostat::{devices, hosts, list, meaning, no_number, parsed, row, time_of_report};
use crate::cells::{number, shown};
use crate::clock::{DateOrder, seconds, seconds_in};
use crate::error::HistoryProblem;
use crate::reading::{Reading, Readings, RowTimes};
use serde_json::Value;

pub(super) fn json(text: &str) -> Result<Readings, Located> {
    let (value, mut readings) = (parsed(text)?, Readings::default());
    for (host, of_host) in hosts(&value)? {
        for (number, report) in (1..).zip(list(of_host, "statistics")) {
            let word = |name: &str| report.get("timestamp").and_then(|it| it.get(name));
            let text = |name: &str| word(name).and_then(Value::as_str).unwrap_or("");
            let time = format!("{} {}", text("date"), text("time"));
            let told = Some(time.as_str()).filter(|time| !time.trim().is_empty());
            let at_s = time_of_report(number, told, DateOrder::default())?;
            let interval_s = word("interval").and_then(Value::as_f64).filter(|it| *it > 0.0);
            for (device, reading) in devices((number, report), "disk-device")? {
                readings.push(host, device, Reading { at_s, interval_s, ..reading });
            }
        }
    }
    readings.note(NOT_TOLD_APART);
    Ok(readings)
}

const NOT_TOLD_APART: &str =
    "sar does not tell reads from writes among requests: only their bytes are known apart";

pub(super) fn database(text: &str, order: DateOrder) -> Result<Readings, Located> {
    /// Host, interval and time.
    const FIXED: usize = 3;
    let mut readings = Readings::default();
    let (mut head, mut is_repeated): (Vec<&str>, bool) = (Vec::new(), false);
    for (index, line) in text.lines().enumerate() {
        if let Some(names) = line.strip_prefix("# ") {
            head = names.trim_end().split(';').collect();
            let once = head.last().and_then(|name| name.strip_suffix("[...]"));
            is_repeated = once.is_some();
            if let (Some(once), Some(last)) = (once, head.last_mut()) {
                *last = once;
            }
            continue;
        }
        if head.get(FIXED) != Some(&"DEV") {
            continue;
        }
        let cells: Vec<&str> = line.split(';').collect();
        if line.trim().is_empty() || cells.get(FIXED).is_none_or(|it| is_remark(it)) {
            continue;
        }
        let line_number = Some(index as u64 + 1);
        let (columns, told) = (&head[FIXED..], &cells[FIXED..]);
        let is_whole =
            if is_repeated { told.len().is_multiple_of(columns.len()) } else { told.len() == columns.len() };
        if !is_whole {
            return Err((line_number, HistoryProblem::Cells { found: cells.len(), expected: head.len() }));
        }
        let at_s = seconds_in(cells[2], order)
            .ok_or_else(|| (line_number, HistoryProblem::Time(shown(cells[2]))))?;
        let interval_s = number(cells[1]).filter(|it| *it > 0.0);
        for of_device in told.chunks(columns.len()) {
            let mut reading = Reading { at_s: Some(at_s), interval_s, ..Reading::default() };
            for (column, cell) in columns.iter().zip(of_device) {
                let Some((figure, unit)) = meaning(column) else { continue };
                let value = number(cell).ok_or_else(|| no_number(line_number, column, cell))?;
                reading.set(figure, value * unit);
            }
            readings.push(cells[0], of_device[0], reading);
        }
    }
    readings.note(NOT_TOLD_APART);
    Ok(readings)
}

/// Whether a cell, where a device should be, is a word about the system or a remark of its operator (`sadc -C`).
fn is_remark(cell: &str) -> bool {
    cell.starts_with("LINUX-RESTART") || cell.starts_with("COM ")
}

/// Whether a line of text tells no device at a time: `Average:` in any language, `Minimum:`, a restart, a remark.
fn is_aside(words: &[&str], line: &str) -> bool {
    let is_summary = words.iter().take(2).any(|word| word.ends_with([':', '\u{ff1a}']));
    let is_remark = words.iter().take(3).skip(1).any(|word| *word == "COM");
    words.is_empty() || is_summary || is_remark || line.contains("LINUX RESTART")
}

/// A line of `sadf FILE -- -d`: host, interval, time, device, column, value.
fn line_of(line: &str) -> Option<[&str; 6]> {
    let cells: Vec<&str> = line.split('\t').collect();
    let cells: [&str; 6] = cells.try_into().ok()?;
    (number(cells[1]).is_some() && seconds(cells[2]).is_some()).then_some(cells)
}

/// Whether `line` is one of such.
pub(super) fn is_line(line: &str) -> bool {
    line_of(line).is_some()
}

pub(super) fn lines(text: &str) -> Result<Readings, Located> {
    let mut readings = Readings::default();
    // The columns of a device and time stand below each other.
    let mut last: Option<([&str; 4], Reading)> = None;
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.split('\t').nth(3).is_some_and(is_remark) {
            continue;
        }
        let line_number = Some(index as u64 + 1);
        let found = line.split('\t').count();
        let [host, interval, time, device, column, value] =
            line_of(line).ok_or((line_number, HistoryProblem::Cells { found, expected: 6 }))?;
        // '-' and the names of processors and networks stand there, too.
        let Some((figure, unit)) = meaning(column).filter(|_| device != "-") else { continue };
        let key = [host, interval, time, device];
        let value = number(value).ok_or_else(|| no_number(line_number, column, value))?;
        if last.as_ref().is_none_or(|(of, _)| *of != key) {
            let interval_s = number(interval).filter(|it| *it > 0.0);
            let next = Reading { at_s: seconds(time), interval_s, ..Reading::default() };
            if let Some((of, reading)) = last.replace((key, next)) {
                readings.push(of[0], of[3], reading);
            }
        }
        if let Some((_, reading)) = &mut last {
            reading.set(figure, value * unit);
        }
    }
    if let Some((of, reading)) = last {
        readings.push(of[0], of[3], reading);
    }
    readings.note(NOT_TOLD_APART);
    Ok(readings)
}

/// Whether `line` is the head of a table of devices, behind its time.
pub(super) fn is_head(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let is_first = words.iter().take(3).skip(1).any(|word| *word == "DEV");
    (is_first || words.last() == Some(&"DEV"))
        && line.contains(':')
        && words.iter().any(|word| meaning(word).is_some())
}

/// The time in front of a row, or of the head itself: the device is first behind it, or last.
fn time_of(head: &[&str], words: &[&str]) -> String {
    let first = head.iter().position(|word| *word == "DEV" || meaning(word).is_some());
    words[..first.unwrap_or(0).min(words.len())].join(" ")
}

/// What `text` is, where it is of sysstat, and of a form that does not tell of devices or is not read.
pub(super) fn other_form(text: &str) -> Option<&'static str> {
    let begin = || text.lines().take(50);
    if begin().any(|line| line.contains("<sysstat")) {
        return Some("XML (sadf -x)");
    }
    if begin().any(|line| line.contains("<svg")) && text.contains("Linux ") {
        return Some("pictures (sadf -g)");
    }
    if begin().any(|line| line.contains("; major; ") || line.contains("; DEV; ")) {
        return Some("raw counters (sadf -r)");
    }
    // Its head stands below the line of the system, as iostat's tables do, but behind a time.
    let is_system = begin().find(|line| !line.trim().is_empty()).is_some_and(|it| it.starts_with("Linux "));
    let is_sar = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        words.next().is_some_and(|word| word.matches(':').count() == 2) && line.contains('/')
    };
    (is_system && begin().any(is_sar)).then_some("text of sar without devices")
}

pub(super) fn text(text: &str, order: DateOrder) -> Result<Readings, Located> {
    const DAY_S: f64 = 86_400.0;
    let (mut readings, mut host, mut date) =
        (Readings::default(), "host".to_owned(), "1970-01-01".to_owned());
    let (mut head, mut days, mut last_s): (Vec<&str>, f64, f64) = (Vec::new(), 0.0, 0.0);
    let mut times = RowTimes::default();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let Some((_, rest)) = line.split_once(" (").filter(|_| line.starts_with("Linux ")) {
            rest.split(')').next().unwrap_or("host").clone_into(&mut host);
            let is_date = |word: &&&str| seconds_in(&format!("{word} 0:00"), order).is_some();
            date = words.iter().find(is_date).map_or(date, |word| (*word).to_owned());
            (days, last_s, times) = (0.0, 0.0, RowTimes::default());
        }
        if is_head(line) {
            head = words;
            // The first row covers what has passed since then.
            times = RowTimes::default();
            if let Some(found_s) = seconds_in(&format!("{date} {}", time_of(&head, &head)), order) {
                days += if found_s + days + DAY_S / 2.0 < last_s { DAY_S } else { 0.0 };
                times.at(found_s + days);
            }
            continue;
        }
        if is_aside(&words, line) {
            // A remark stands within a table.
            if !words.contains(&"COM") {
                head.clear();
            }
            continue;
        }
        let Some(place) = head.iter().position(|word| *word == "DEV") else { continue };
        let line_number = Some(index as u64 + 1);
        let time = time_of(&head, &words);
        let found = seconds_in(&format!("{date} {time}"), order);
        let found_s = found.ok_or_else(|| (line_number, HistoryProblem::Time(shown(&time))))?;
        // Midnight came between.
        if found_s + days + DAY_S / 2.0 < last_s {
            days += DAY_S;
        }
        last_s = found_s + days;
        times.at(last_s);
        let mut reading = Reading { at_s: Some(last_s), interval_s: times.covered_s(), ..Reading::default() };
        for (figure, value) in row(&head, &words, line_number)? {
            reading.set(figure, value);
        }
        readings.push(&host, words[place], reading);
    }
    readings.note(NOT_TOLD_APART);
    Ok(readings)
}
