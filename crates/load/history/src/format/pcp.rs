//! What Performance Co-Pilot's clients print: `pmrep -o csv` and `pmdumptext -m`, a column for each metric and device.
//!
//! ```text
//! Time,"disk.dev.read-vda","disk.dev.read_bytes-vda"              pmrep
//! Time    local::disk.dev.read["vda"]    local::...               pmdumptext
//! none    count / second                 Kbyte / second
//! ```
//! Both tell rates: counts per second, KiB per second, and milliseconds of activity per second, unless a row of units below the head says
//! something else (`pmrep` has the same with `-U`). A cell without a value is empty, `?` or
//! `N/A`. Other separators (`-d`) are known by the head.

use super::Located;
use super::iostat::no_number;
use crate::cells::{cells, number, shown};
use crate::clock::seconds;
use crate::error::HistoryProblem;
use crate::reading::{Figure, Reading, Readings};
use std::collections::BTreeMap;

fn meaning(metric: &str) -> Option<(Figure, f64)> {
    const KIB: f64 = 1024.0;
    Some(match metric.strip_prefix("disk.dev.").or_else(|| metric.strip_prefix("disk.all."))? {
        "read" => (Figure::Reads, 1.0),
        "write" => (Figure::Writes, 1.0),
        "total" => (Figure::Requests, 1.0),
        "read_bytes" => (Figure::ReadBytes, KIB),
        "write_bytes" => (Figure::WriteBytes, KIB),
        // Milliseconds of a second.
        "avactive" => (Figure::BusyPct, 0.1),
        "avg_qlen" => (Figure::InFlight, 1.0),
        "r_await" => (Figure::ReadMs, 1.0),
        "w_await" => (Figure::WriteMs, 1.0),
        _ => return None,
    })
}

/// Host, metric and device of a column: `host:archive:disk.dev.read["vda"]`, `disk.dev.read-vda`.
fn column(name: &str) -> Option<(&str, &str, &str)> {
    let at = name.find("disk.")?;
    let host = name[..at].split(':').next().filter(|host| !host.is_empty()).unwrap_or("host");
    let rest = &name[at..];
    if let Some((metric, device)) = rest.split_once('[') {
        return Some((host, metric, device.trim_end_matches(']').trim_matches('"')));
    }
    let (metric, device) = rest.split_once('-').unwrap_or((rest, "all"));
    Some((host, metric, device))
}

const SEPARATORS: [char; 4] = ['\t', ',', ';', '|'];

fn separator(head: &str) -> Option<char> {
    SEPARATORS
        .into_iter()
        .find(|separator| cells(head, *separator).iter().skip(1).any(|it| column(it).is_some()))
}

/// Whether `line` is the head of pmrep's CSV.
pub(super) fn is_csv_head(line: &str) -> bool {
    line.starts_with("Time") && !line.contains("[\"") && separator(line).is_some()
}

/// Whether `line` is the head of pmdumptext's table.
pub(super) fn is_text_head(line: &str) -> bool {
    line.starts_with("Time") && line.contains("[\"") && separator(line).is_some()
}

pub(super) fn csv(text: &str) -> Result<Readings, Located> {
    table(text, is_csv_head)
}

pub(super) fn text(text: &str) -> Result<Readings, Located> {
    table(text, is_text_head)
}

/// Bytes of a column's unit: `Kbyte / second`, `KB/s`; none of other figures, and of units that are not known.
fn bytes_of_unit(unit: &str) -> Option<f64> {
    let unit = unit.split('/').next()?.trim().to_ascii_lowercase();
    let power = match unit.as_str() {
        "byte" | "bytes" | "b" => 0,
        "kbyte" | "kbytes" | "kb" => 1,
        "mbyte" | "mbytes" | "mb" => 2,
        "gbyte" | "gbytes" | "gb" => 3,
        "tbyte" | "tbytes" | "tb" => 4,
        _ => return None,
    };
    Some(1024f64.powi(power))
}

fn table(text: &str, is_head: impl Fn(&str) -> bool) -> Result<Readings, Located> {
    let mut readings = Readings::default();
    let (mut head, mut units): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut by = ',';
    for (index, line) in text.lines().enumerate() {
        if is_head(line) {
            by = separator(line).unwrap_or(',');
            (head, units) = (cells(line, by), Vec::new());
            continue;
        }
        let line_number = Some(index as u64 + 1);
        let row = cells(line, by);
        let is_units = row.first().is_some_and(|cell| cell == "none" || cell.is_empty());
        if head.is_empty() || line.trim().is_empty() {
            continue;
        }
        if is_units {
            units = row;
            continue;
        }
        if row.len() != head.len() {
            return Err((line_number, HistoryProblem::Cells { found: row.len(), expected: head.len() }));
        }
        let at_s = seconds(&row[0]).ok_or_else(|| (line_number, HistoryProblem::Time(shown(&row[0]))))?;
        let mut devices: BTreeMap<(&str, &str), Reading> = BTreeMap::new();
        for (place, (name, cell)) in head.iter().zip(&row).enumerate().skip(1) {
            let Some((host, metric, device)) = column(name) else { continue };
            let Some((figure, unit)) = meaning(metric) else { continue };
            let is_of_bytes = [Figure::ReadBytes, Figure::WriteBytes].contains(&figure);
            let told = units.get(place).filter(|_| is_of_bytes).and_then(|unit| bytes_of_unit(unit));
            let unit = told.unwrap_or(unit);
            if ["", "?", "N/A"].contains(&cell.trim()) {
                continue;
            }
            let value = number(cell).ok_or_else(|| no_number(line_number, name, cell))?;
            devices.entry((host, device)).or_default().set(figure, value * unit);
        }
        for ((host, device), reading) in devices {
            readings.push(host, device, Reading { at_s: Some(at_s), ..reading });
        }
    }
    Ok(readings)
}
