//! Histories of counters, whose differences are rates: `node_exporter`'s series in Prometheus, and `pg_stat_io` of `PostgreSQL`.
//!
//! A counter that goes back was reset: that interval is left out.
//!
//! **Prometheus**: the answer to `query_range` of the counters themselves. Rates that Prometheus computed have no name left, and can't be
//! read. **`pg_stat_io`**: snapshots with a column of the time (`select now(), * from pg_stat_io`); a single one is counted from
//! `stats_reset`. Its requests are those of `PostgreSQL` to the system, of which the page cache may serve some.

use super::Located;
use super::iostat::{no_number, parsed};
use super::machines::{Labels, Machine, machines};
use crate::cells::{cells, number, shown};
use crate::clock::{DateOrder, seconds_in};
use crate::error::HistoryProblem;
use crate::reading::{Figure, Reading, Readings};
use serde_json::Value;
use std::collections::BTreeMap;

/// Values of counters by time, in seconds.
pub(super) type Snapshots = BTreeMap<u64, BTreeMap<Figure, f64>>;

fn of_node_exporter(name: &str) -> Option<(Figure, f64)> {
    const SECTOR: f64 = 512.0;
    Some(match name {
        "node_disk_reads_completed_total" | "node_disk_reads_completed" => (Figure::Reads, 1.0),
        "node_disk_writes_completed_total" | "node_disk_writes_completed" => (Figure::Writes, 1.0),
        "node_disk_read_bytes_total" | "node_disk_bytes_read" => (Figure::ReadBytes, 1.0),
        "node_disk_written_bytes_total" | "node_disk_bytes_written" => (Figure::WriteBytes, 1.0),
        "node_disk_sectors_read" => (Figure::ReadBytes, SECTOR),
        "node_disk_sectors_written" => (Figure::WriteBytes, SECTOR),
        // What all requests took, which becomes that of each.
        "node_disk_read_time_seconds_total" => (Figure::ReadMs, 1000.0),
        "node_disk_write_time_seconds_total" => (Figure::WriteMs, 1000.0),
        // Seconds of a second.
        "node_disk_io_time_seconds_total" => (Figure::BusyPct, 100.0),
        "node_disk_io_time_weighted_seconds_total" => (Figure::InFlight, 1.0),
        // Before version 0.16, in milliseconds.
        "node_disk_read_time_ms" => (Figure::ReadMs, 1.0),
        "node_disk_write_time_ms" => (Figure::WriteMs, 1.0),
        "node_disk_io_time_ms" => (Figure::BusyPct, 0.1),
        "node_disk_io_time_weighted" => (Figure::InFlight, 0.001),
        _ => return None,
    })
}

/// Adds the rates between neighbours of `snapshots`.
pub(super) fn push_rates(readings: &mut Readings, host: &str, device: &str, snapshots: &Snapshots) {
    for ((before_s, before), (after_s, after)) in snapshots.iter().zip(snapshots.iter().skip(1)) {
        let interval_s = (after_s - before_s) as f64;
        let mut reading =
            Reading { at_s: Some(*after_s as f64), interval_s: Some(interval_s), ..Reading::default() };
        let moved = |figure: &Figure| Some(after.get(figure)? - before.get(figure)?);
        if after.keys().any(|figure| moved(figure).is_some_and(|it| it < 0.0)) {
            readings.note("counters went back: they were reset, and those intervals are left out");
            continue;
        }
        for (figure, sum) in after.keys().filter_map(|figure| Some((*figure, moved(figure)?))) {
            let per = match figure {
                Figure::ReadMs => moved(&Figure::Reads),
                Figure::WriteMs => moved(&Figure::Writes),
                _ => Some(interval_s),
            };
            // Nothing ended, so nothing took any time.
            if let Some(per) = per.filter(|per| *per > 0.0) {
                reading.set(figure, sum / per);
            }
        }
        readings.push(host, device, reading);
    }
}

pub(super) fn prometheus(text: &str) -> Result<Readings, Located> {
    let value = parsed(text)?;
    if value.get("status").and_then(Value::as_str) == Some("error") {
        let said = value.get("error").and_then(Value::as_str).unwrap_or("");
        return Err((None, HistoryProblem::Refused(said.chars().take(200).collect())));
    }
    let data = value.get("data").unwrap_or(&value);
    if data.get("resultType").and_then(Value::as_str) == Some("vector") {
        return Err((None, HistoryProblem::Instant));
    }
    let result = data.get("result").and_then(Value::as_array);
    let result = result.ok_or((None, HistoryProblem::Missing("list of series (data, result)")))?;
    if result.is_empty() {
        return Err((None, HistoryProblem::NoSeries));
    }
    let mut sources: BTreeMap<Labels, BTreeMap<String, Snapshots>> = BTreeMap::new();
    for one in result {
        let label = |name: &str| one.get("metric").and_then(|it| it.get(name)).and_then(Value::as_str);
        let (Some(name), Some(device)) = (label("__name__"), label("device")) else { continue };
        let Some((figure, unit)) = of_node_exporter(name) else { continue };
        let snapshots = sources.entry(labels_of(one)).or_default().entry(device.to_owned()).or_default();
        for pair in one.get("values").and_then(Value::as_array).into_iter().flatten() {
            let at_s = pair.get(0).and_then(Value::as_f64).filter(|it| (0.0..1e11).contains(it));
            let text = pair.get(1).and_then(Value::as_str);
            // A stale counter is NaN.
            if let Some(text) = text.filter(|text| text.parse::<f64>().is_err()) {
                return Err(no_number(
                    None,
                    &format!("{name} of {device} at {}", at_s.unwrap_or_default()),
                    text,
                ));
            }
            let count = text.and_then(number);
            let (Some(at_s), Some(count)) = (at_s, count) else { continue };
            snapshots.entry(at_s as u64).or_default().insert(figure, count * unit);
        }
    }
    let mut readings = Readings::default();
    for Machine { host, jobs, devices } in machines(sources) {
        if let (Some(job), 2..) = (jobs.first(), jobs.len()) {
            readings.note(&format!(
                "{} jobs asked {host}: that called '{job}' counts, the others are the same requests once more",
                jobs.len()
            ));
        }
        for (device, snapshots) in &devices {
            push_rates(&mut readings, &host, device, snapshots);
        }
    }
    Ok(readings)
}

/// The labels of a series, without its name and device.
fn labels_of(series: &Value) -> Labels {
    let labels = series.get("metric").and_then(Value::as_object).into_iter().flatten();
    let others = labels.filter(|(name, _)| !["__name__", "device"].contains(&name.as_str()));
    others.map(|(name, value)| (name.clone(), value.as_str().unwrap_or("").to_owned())).collect()
}

/// The head of a table of `pg_stat_io`, and what stands between its cells.
fn pg_head(text: &str) -> Option<(usize, char)> {
    let is_head =
        |line: &str| line.contains("backend_type") && line.contains("reads") && line.contains("writes");
    let (index, line) = text.lines().take(20).enumerate().find(|(_, line)| is_head(line))?;
    let by = ['|', '\t', ';', ','].into_iter().find(|by| line.contains(*by))?;
    Some((index, by))
}

pub(super) fn is_pg_head(text: &str) -> bool {
    pg_head(text).is_some()
}

/// Columns of `pg_stat_io` that are sums of what requests moved, and took in milliseconds.
const PG_SUMS: [(Figure, &str); 6] = [
    (Figure::ReadBytes, "read_bytes"),
    (Figure::WriteBytes, "write_bytes"),
    (Figure::WriteBytes, "extend_bytes"),
    (Figure::ReadMs, "read_time"),
    (Figure::WriteMs, "write_time"),
    (Figure::WriteMs, "extend_time"),
];

/// Drops times that are all zero: they are without `track_io_timing`.
fn drop_untimed(snapshots: &mut Snapshots) {
    for figure in [Figure::ReadMs, Figure::WriteMs] {
        if snapshots.values().all(|counts| counts.get(&figure).is_none_or(|ms| *ms == 0.0)) {
            for counts in snapshots.values_mut() {
                counts.remove(&figure);
            }
        }
    }
}

pub(super) fn pg_stat_io(text: &str, order: DateOrder) -> Result<Readings, Located> {
    const TIMES: [&str; 6] = ["now", "time", "ts", "timestamp", "at", "sampled_at"];
    let (start, by) = pg_head(text).ok_or((None, HistoryProblem::Missing("head")))?;
    let trimmed =
        |line: &str| -> Vec<String> { cells(line, by).iter().map(|it| it.trim().to_owned()).collect() };
    let head = trimmed(text.lines().nth(start).unwrap_or(""));
    let place = |names: &[&str]| head.iter().position(|name| names.contains(&name.as_str()));
    let at = place(&TIMES).ok_or((
        Some(start as u64 + 1),
        HistoryProblem::Missing("column of the time: select now(), * from pg_stat_io"),
    ))?;
    let (reset, op_bytes) = (place(&["stats_reset"]), place(&["op_bytes"]));
    // Extends write new pages, and are told apart from writes.
    let counted: [(Figure, &[&str]); 3] =
        [(Figure::Reads, &["reads"]), (Figure::Writes, &["writes"]), (Figure::Writes, &["extends"])];
    let (mut snapshots, mut resets): (Snapshots, Option<f64>) = (Snapshots::new(), None);
    for (index, line) in text.lines().enumerate().skip(start + 1) {
        let line_number = Some(index as u64 + 1);
        let is_rule = line.trim_start().starts_with("--");
        if line.trim().is_empty() || is_rule || line.trim_start().starts_with('(') || trimmed(line) == head {
            continue;
        }
        let row = trimmed(line);
        if row.len() != head.len() {
            return Err((line_number, HistoryProblem::Cells { found: row.len(), expected: head.len() }));
        }
        let at_s = seconds_in(&row[at], order)
            .ok_or_else(|| (line_number, HistoryProblem::Time(shown(&row[at]))))?;
        resets = resets.or_else(|| reset.and_then(|reset| seconds_in(&row[reset], order)));
        let value = |place: usize| match row[place].as_str() {
            "" => Ok(0.0),
            text => number(text).ok_or_else(|| no_number(line_number, &head[place], text)),
        };
        let page = op_bytes.map_or(Ok(8192.0), value)?;
        let counts = snapshots.entry(at_s as u64).or_default();
        let mut add = |figure, value: f64| *counts.entry(figure).or_default() += value;
        for (figure, names) in &counted {
            let Some(place) = place(names) else { continue };
            let count = value(place)?;
            add(*figure, count);
            if !head.iter().any(|name| name == "read_bytes") {
                let of_bytes = if *figure == Figure::Reads { Figure::ReadBytes } else { Figure::WriteBytes };
                add(of_bytes, count * page);
            }
        }
        for (figure, name) in PG_SUMS {
            if let Some(place) = place(&[name]) {
                add(figure, value(place)?);
            }
        }
    }
    drop_untimed(&mut snapshots);
    let mut readings = Readings::default();
    if let (1, Some(reset_s)) = (snapshots.len(), resets) {
        let zero: BTreeMap<Figure, f64> =
            snapshots.values().flat_map(BTreeMap::keys).map(|figure| (*figure, 0.0)).collect();
        snapshots.entry(reset_s as u64).or_insert(zero);
        readings.note("there is one snapshot: its rates are means since stats_reset, without peaks");
    }
    push_rates(&mut readings, "postgres", "pg_stat_io", &snapshots);
    readings.note(
        "pg_stat_io counts what PostgreSQL asks of the system: the page cache may have served some of it",
    );
    Ok(readings)
}
