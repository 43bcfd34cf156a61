//! What Performance Co-Pilot's clients print: `pmrep -o csv` and `pmdumptext -m`, a column for each metric and device.
//!
//! ```text
//! Time,"disk.dev.read-vda","disk.dev.read_bytes-vda"              pmrep
//! Time    local::disk.dev.read["vda"]    local::...               pmdumptext
//! none    count / second                 Kbyte / second
//! ```
//! Both tell rates: counts per second, KiB per second, and milliseconds of activity per second, unless a row of units below the head says
//! something else (`pmrep` has the same with `-U`); `blkread` and its kin count blocks of 512 bytes. `pmrep -k` writes `Host,Interval,` in front
//! of the time, whatever the separator. A cell without a value is empty, `?` or `N/A`: rates have none in their first row. Other
//! separators (`-d`) are known by the head.
//!
//! With `-r` both tell the counters themselves. Units say so (`count`, not `count / second`); without them a table is taken for such whose
//! values stand in the first row, never go down, and go up somewhere.

use super::Located;
use super::counters::{Snapshots, push_rates};
use super::iostat::no_number;
use crate::cells::{cells, number, shown};
use crate::clock::{DateOrder, seconds_in};
use crate::error::HistoryProblem;
use crate::reading::{Figure, Reading, Readings, RowTimes};
use std::collections::BTreeMap;

fn meaning(metric: &str) -> Option<(Figure, f64)> {
    const KIB: f64 = 1024.0;
    const SECTOR: f64 = 512.0;
    Some(match metric.strip_prefix("disk.dev.").or_else(|| metric.strip_prefix("disk.all."))? {
        "read" => (Figure::Reads, 1.0),
        "write" => (Figure::Writes, 1.0),
        "total" => (Figure::Requests, 1.0),
        "read_bytes" => (Figure::ReadBytes, KIB),
        "write_bytes" => (Figure::WriteBytes, KIB),
        "total_bytes" => (Figure::MovedBytes, KIB),
        "blkread" => (Figure::ReadBytes, SECTOR),
        "blkwrite" => (Figure::WriteBytes, SECTOR),
        "blktotal" => (Figure::MovedBytes, SECTOR),
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

/// What `pmrep -k` writes in front of a head, and the cells that rows have there.
const EXTENDED: (&str, usize) = ("Host,Interval,", 2);

fn plain(head: &str) -> &str {
    head.strip_prefix(EXTENDED.0).unwrap_or(head)
}

/// Whether `line` is the head of pmrep's CSV.
pub(super) fn is_csv_head(line: &str) -> bool {
    let line = plain(line);
    line.starts_with("Time") && !line.contains("[\"") && separator(line).is_some()
}

/// Whether `line` is the head of pmdumptext's table.
pub(super) fn is_text_head(line: &str) -> bool {
    line.starts_with("Time") && line.contains("[\"") && separator(line).is_some()
}

pub(super) fn csv(text: &str, order: DateOrder) -> Result<Readings, Located> {
    table(text, order, is_csv_head)
}

pub(super) fn text(text: &str, order: DateOrder) -> Result<Readings, Located> {
    table(text, order, is_text_head)
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

/// Host, device and figure of a column.
type Place<'a> = (&'a str, &'a str, Figure);

/// The rows below a head.
#[derive(Default)]
struct Table<'a> {
    rows: Vec<(f64, BTreeMap<Place<'a>, f64>)>,
    /// Whether units say that these are counters.
    has_units_of_counters: bool,
}

/// Figures that PCP counts, and makes rates of.
const COUNTED: [Figure; 7] = [
    Figure::Reads,
    Figure::Writes,
    Figure::Requests,
    Figure::ReadBytes,
    Figure::WriteBytes,
    Figure::MovedBytes,
    Figure::BusyPct,
];

impl Table<'_> {
    fn is_of_counters(&self) -> bool {
        /// Rates of so few may go up all the same.
        const ROWS_MIN: usize = 3;
        let mut before: BTreeMap<&Place<'_>, f64> = BTreeMap::new();
        let (mut grows, mut falls) = (false, false);
        let has_first = self.rows.first().is_some_and(|(_, row)| !row.is_empty());
        let is_count =
            |place: &Place<'_>| matches!(place.2, Figure::Reads | Figure::Writes | Figure::Requests);
        for (place, value) in self.rows.iter().flat_map(|(_, row)| row) {
            // No counter holds a part of a request.
            falls |= is_count(place) && value.fract() != 0.0;
            if COUNTED.contains(&place.2)
                && let Some(before) = before.insert(place, *value)
            {
                (grows, falls) = (grows || *value > before, falls || *value < before);
            }
        }
        self.has_units_of_counters || (has_first && grows && !falls && self.rows.len() >= ROWS_MIN)
    }

    /// Adds its readings.
    fn end(self, readings: &mut Readings) {
        if self.is_of_counters() {
            readings.note(if self.has_units_of_counters {
                "its units are those of counters (-r): rates are what they grew by"
            } else {
                "its columns only grow, from the first row on: they are taken for counters (pmrep -r), and rates are what they grew by"
            });
            let mut devices: BTreeMap<(&str, &str), Snapshots> = BTreeMap::new();
            for (at_s, row) in self.rows {
                for ((host, device, figure), value) in row.into_iter().filter(|it| COUNTED.contains(&it.0.2))
                {
                    let snapshots = devices.entry((host, device)).or_default();
                    snapshots.entry(at_s as u64).or_default().insert(figure, value);
                }
            }
            for ((host, device), snapshots) in &devices {
                push_rates(readings, host, device, snapshots);
            }
            return;
        }
        let mut times = RowTimes::default();
        for (at_s, row) in self.rows {
            times.at(at_s);
            let mut devices: BTreeMap<(&str, &str), Reading> = BTreeMap::new();
            for ((host, device, figure), value) in row {
                devices.entry((host, device)).or_default().set(figure, value);
            }
            for ((host, device), reading) in devices {
                let interval_s = times.covered_s();
                readings.push(host, device, Reading { at_s: Some(at_s), interval_s, ..reading });
            }
        }
    }
}

fn table(text: &str, order: DateOrder, is_head: impl Fn(&str) -> bool) -> Result<Readings, Located> {
    let (mut readings, mut by) = (Readings::default(), ',');
    let (mut head, mut units): (Vec<&str>, Vec<String>) = (Vec::new(), Vec::new());
    let heads: Vec<Vec<String>> = text
        .lines()
        .filter(|line| is_head(line))
        .map(|line| cells(plain(line), separator(plain(line)).unwrap_or(',')))
        .collect();
    let mut heads = heads.iter();
    let (mut table, mut before) = (Table::default(), 0);
    for (index, line) in text.lines().enumerate() {
        if is_head(line) {
            by = separator(plain(line)).unwrap_or(',');
            before = if line.starts_with(EXTENDED.0) { EXTENDED.1 } else { 0 };
            head = heads.next().map_or_else(Vec::new, |head| head.iter().map(String::as_str).collect());
            units.clear();
            std::mem::take(&mut table).end(&mut readings);
            continue;
        }
        let line_number = Some(index as u64 + 1);
        let row = cells(line, by);
        let is_units = row.first().is_some_and(|cell| cell == "none" || cell.is_empty());
        if head.is_empty() || line.trim().is_empty() {
            continue;
        }
        if is_units {
            let is_counter = |(unit, name): (&String, &&str)| {
                let figure = column(name).and_then(|(_, metric, _)| meaning(metric));
                figure.is_some_and(|(figure, _)| COUNTED.contains(&figure))
                    && !unit.trim().is_empty()
                    && !unit.contains('/')
            };
            table.has_units_of_counters |= row.iter().zip(&head).any(is_counter);
            units = row;
            continue;
        }
        if row.len() != before + head.len() {
            let expected = before + head.len();
            return Err((line_number, HistoryProblem::Cells { found: row.len(), expected }));
        }
        let row = &row[before..];
        let named = line.split(by).next().filter(|_| before > 0);
        let at_s =
            seconds_in(&row[0], order).ok_or_else(|| (line_number, HistoryProblem::Time(shown(&row[0]))))?;
        let mut figures = BTreeMap::new();
        for (place, (name, cell)) in head.iter().zip(row).enumerate().skip(1) {
            let Some((host, metric, device)) = column(name) else { continue };
            let Some((figure, unit)) = meaning(metric) else { continue };
            let is_of_bytes = [Figure::ReadBytes, Figure::WriteBytes, Figure::MovedBytes].contains(&figure);
            let told = units.get(place).filter(|_| is_of_bytes).and_then(|unit| bytes_of_unit(unit));
            let unit = told.unwrap_or(unit);
            if ["", "?", "N/A"].contains(&cell.trim()) {
                continue;
            }
            let value = number(cell).ok_or_else(|| no_number(line_number, name, cell))?;
            figures.insert((named.unwrap_or(host), device, figure), value * unit);
        }
        table.rows.push((at_s, figures));
    }
    table.end(&mut readings);
    Ok(readings)
}
