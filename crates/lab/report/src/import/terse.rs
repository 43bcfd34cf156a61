//! fio's output with `--output-format=terse`, versions 2 to 5, as the JSON that says the same.
//!
//! ```text
//! 2;name;0;0;             KiB;...  (does not name the program)
//! 3;fio-3.33;name;0;0;   KiB;KiB/s;iops;ms; slat(4); clat(4); 20 percentiles; lat(4); bw(5)   and so for writes
//! ```
//! Times are in microseconds, as in fio 2's JSON. The number of requests is none of the fields: it is the rate times the run, and
//! so as exact as the rate. Source: fio 3.33 `stat.c`, `show_thread_status_terse_all`.

use super::snapshots::reports;
use super::{FIGURE_MAX, ForeignError};
use serde_json::{Map, Value, json};

/// Fields of percentiles.
const PERCENTILES: usize = 20;

/// Fields before those of reads, and those of a direction; version 5 has the samples of bandwidth and of the rate, too.
fn fields_of(version: &str) -> Option<(usize, usize)> {
    match version {
        "2" => Some((4, 41)),
        "3" | "4" => Some((5, 41)),
        "5" => Some((5, 47)),
        _ => None,
    }
}

/// A line of that form.
struct Line<'a> {
    program: &'a str,
    fields: Vec<&'a str>,
    head: usize,
    each: usize,
}

fn fields(line: &str) -> Option<Line<'_>> {
    let fields: Vec<&str> = line.trim().split(';').collect();
    let (head, each) = fields_of(fields.first()?)?;
    let is_count = |place: usize| fields.get(place).is_some_and(|field| field.parse::<f64>().is_ok());
    if head == 4 {
        let is_terse = fields.len() > 40 && (2..12).all(is_count);
        return is_terse.then_some(Line { program: "fio-2 (terse)", fields, head, each });
    }
    let program = *fields.get(1)?;
    program.starts_with("fio-").then_some(Line { program, fields, head, each })
}

/// Whether a line of `text` is of that form, and nothing in it is JSON.
pub(super) fn is_terse(text: &str) -> bool {
    !text.contains("\"fio version\"") && text.lines().take(100).any(|line| fields(line).is_some())
}

/// The lines of each report as fio's JSON has them.
pub(super) fn terse(text: &str) -> Result<Vec<Value>, ForeignError> {
    let mut found: Vec<(&str, Vec<Value>)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(Line { program, fields, head, each }) = fields(line) else { continue };
        let needed = head + 2 * each;
        if fields.len() < needed {
            let problem = format!("line {number} has {} fields of {needed}: it is cut off", fields.len());
            return Err(ForeignError::Malformed(problem));
        }
        let job = json!({
            "jobname": fields[head - 3],
            "groupid": fields[head - 2].parse::<u64>().unwrap_or(0),
            "error": fields[head - 1].parse::<i64>().unwrap_or(0),
            "read": direction(&fields[head..], (number, head))?,
            "write": direction(&fields[head + each..], (number, head + each))?,
        });
        match found.last_mut().filter(|(last, _)| *last == program) {
            Some((_, jobs)) => jobs.push(job),
            None => found.push((program, vec![job])),
        }
    }
    let mut documents = Vec::new();
    for (program, jobs) in found {
        let of_report = |jobs: Vec<Value>| json!({ "fio version": program, "jobs": jobs });
        documents.extend(reports(jobs)?.into_iter().map(of_report));
    }
    Ok(documents)
}

/// A direction from its first field on, which is in a line and place of it; there are enough of them. A rate that is none is an error.
fn direction(fields: &[&str], (line, place): (usize, usize)) -> Result<Value, ForeignError> {
    const RATES: [&str; 4] = ["KiB moved", "bandwidth", "iops", "runtime"];
    for (index, name) in RATES.into_iter().enumerate() {
        if fields[index].trim().parse::<f64>().ok().is_none_or(|it| !(0.0..FIGURE_MAX).contains(&it)) {
            let shown: String = fields[index].chars().take(40).collect();
            let at = place + index + 1;
            let problem = format!("line {line}, field {at}: {name} is '{shown}', which is no figure");
            return Err(ForeignError::Malformed(problem));
        }
    }
    let number = |index: usize| {
        let number = fields[index].trim().trim_end_matches('%').parse::<f64>().unwrap_or(0.0);
        if (0.0..FIGURE_MAX).contains(&number) { number } else { 0.0 }
    };
    let latency = |from: usize| json!({ "min": number(from) as u64, "max": number(from + 1) as u64, "mean": number(from + 2), "stddev": number(from + 3) });
    let mut clat = latency(8);
    let point = |field: &&str| {
        let (pct, us) = field.split_once("%=")?;
        let us = us.parse::<u64>().ok().filter(|us| *us > 0)?;
        Some((pct.to_owned(), Value::from(us)))
    };
    let percentiles: Map<String, Value> = fields[12..12 + PERCENTILES].iter().filter_map(point).collect();
    clat["percentile"] = Value::Object(percentiles);
    Ok(json!({
        "io_kbytes": number(0),
        "bw": number(1),
        "iops": number(2),
        "runtime": number(3),
        "total_ios": (number(2) * number(3) / 1000.0).round() as u64,
        "slat": latency(4),
        "clat": clat,
        "lat": latency(12 + PERCENTILES),
    }))
}
