//! What sysstat makes of sar's files: `sadf -j`, `sadf -d`, the lines of `sadf` without either, and what `sar -d` prints.
//!
//! Quirks: sar does not tell reads from writes among requests. `sadf -d -- -A` has tables of everything else beside that of devices.
//! Text tells the day in its first line only, and times of 12 or 24 hours in front of each row; `-p` and `--pretty` put the device last, and
//! `--human` writes units behind numbers.

use super::Located;
use super::iostat::{devices, hosts, list, meaning, no_number, parsed, row};
use crate::cells::{number, shown};
use crate::clock::{DateOrder, seconds, seconds_in};
use crate::error::HistoryProblem;
use crate::reading::{Reading, Readings};
use serde_json::Value;

pub(super) fn json(text: &str) -> Result<Readings, Located> {
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

pub(super) fn database(text: &str) -> Result<Readings, Located> {
    let mut readings = Readings::default();
    let mut head: Vec<&str> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(names) = line.strip_prefix("# ") {
            head = names.split(';').collect();
            continue;
        }
        if head.get(3) != Some(&"DEV") {
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
        if line.trim().is_empty() || line.contains("LINUX-RESTART") {
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

pub(super) fn text(text: &str, order: DateOrder) -> Result<Readings, Located> {
    const DAY_S: f64 = 86_400.0;
    let (mut readings, mut host, mut date) =
        (Readings::default(), "host".to_owned(), "1970-01-01".to_owned());
    let (mut head, mut days, mut last_s): (Vec<&str>, f64, f64) = (Vec::new(), 0.0, 0.0);
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        if let Some((_, rest)) = line.split_once(" (").filter(|_| line.starts_with("Linux ")) {
            rest.split(')').next().unwrap_or("host").clone_into(&mut host);
            let is_date = |word: &&&str| seconds_in(&format!("{word} 0:00"), order).is_some();
            date = words.iter().find(is_date).map_or(date, |word| (*word).to_owned());
            (days, last_s) = (0.0, 0.0);
        }
        if is_head(line) {
            head = words;
            continue;
        }
        let is_none = words.is_empty() || words[0].starts_with("Average") || line.contains("LINUX RESTART");
        if is_none {
            head.clear();
            continue;
        }
        let Some(place) = head.iter().position(|word| *word == "DEV") else { continue };
        let line_number = Some(index as u64 + 1);
        // The device is first behind the time, or last.
        let first = head.iter().position(|word| *word == "DEV" || meaning(word).is_some()).unwrap_or(place);
        let time = words[..first].join(" ");
        let found = seconds_in(&format!("{date} {time}"), order);
        let found_s = found.ok_or_else(|| (line_number, HistoryProblem::Time(shown(&time))))?;
        // Midnight came between.
        if found_s + days + DAY_S / 2.0 < last_s {
            days += DAY_S;
        }
        last_s = found_s + days;
        let mut reading = Reading { at_s: Some(last_s), ..Reading::default() };
        for (figure, value) in row(&head, &words, line_number)? {
            reading.set(figure, value);
        }
        readings.push(&host, words[place], reading);
    }
    readings.note(NOT_TOLD_APART);
    Ok(readings)
}
