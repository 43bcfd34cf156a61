//! fio's output with `--output-format=terse`, versions 3 to 5, as the JSON that says the same.
//!
//! ```text
//! 3;fio-3.33;name;0;0;   KiB;KiB/s;iops;ms; slat(4); clat(4); 20 percentiles; lat(4); bw(5)   and so for writes
//! ```
//! Times are in microseconds, as in fio 2's JSON. The number of requests is none of the fields: it is the rate times the run, and
//! so as exact as the rate. Source: fio 3.33 `stat.c`, `show_thread_status_terse_all`.

use super::ForeignError;
use serde_json::{Map, Value, json};

/// Fields before those of reads.
const HEAD: usize = 5;
/// Fields of percentiles.
const PERCENTILES: usize = 20;

/// Fields of a direction; version 5 has the samples of bandwidth and of the rate, too.
fn fields_of(version: &str) -> Option<usize> {
    match version {
        "3" | "4" => Some(41),
        "5" => Some(47),
        _ => None,
    }
}

fn fields(line: &str) -> Option<(Vec<&str>, usize)> {
    let fields: Vec<&str> = line.trim().split(';').collect();
    let each = fields_of(fields.first()?)?;
    fields.get(1)?.starts_with("fio-").then_some((fields, each))
}

/// Whether a line of `text` is of that form, and nothing in it is JSON.
pub(super) fn is_terse(text: &str) -> bool {
    !text.contains("\"fio version\"") && text.lines().take(100).any(|line| fields(line).is_some())
}

/// Each line as fio's JSON has it.
pub(super) fn terse(text: &str) -> Result<Vec<Value>, ForeignError> {
    let mut found: Vec<Value> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some((fields, each)) = fields(line) else { continue };
        let needed = HEAD + 2 * each;
        if fields.len() < needed {
            let problem = format!("line {number} has {} fields of {needed}: it is cut off", fields.len());
            return Err(ForeignError::Malformed(problem));
        }
        let job = json!({
            "jobname": fields[2],
            "groupid": fields[3].parse::<u64>().unwrap_or(0),
            "error": fields[4].parse::<i64>().unwrap_or(0),
            "read": direction(&fields[HEAD..]),
            "write": direction(&fields[HEAD + each..]),
        });
        match found.last_mut().filter(|last| last["fio version"] == fields[1]).map(|last| &mut last["jobs"]) {
            Some(Value::Array(jobs)) => jobs.push(job),
            _ => found.push(json!({ "fio version": fields[1], "jobs": [job] })),
        }
    }
    Ok(found)
}

/// A direction from its first field on; there are enough of them.
fn direction(fields: &[&str]) -> Value {
    let number = |index: usize| fields[index].trim().trim_end_matches('%').parse::<f64>().unwrap_or(0.0);
    let latency = |from: usize| json!({ "min": number(from) as u64, "max": number(from + 1) as u64, "mean": number(from + 2), "stddev": number(from + 3) });
    let mut clat = latency(8);
    let point = |field: &&str| {
        let (pct, us) = field.split_once("%=")?;
        let us = us.parse::<u64>().ok().filter(|us| *us > 0)?;
        Some((pct.to_owned(), Value::from(us)))
    };
    let percentiles: Map<String, Value> = fields[12..12 + PERCENTILES].iter().filter_map(point).collect();
    clat["percentile"] = Value::Object(percentiles);
    json!({
        "io_kbytes": number(0),
        "bw": number(1),
        "iops": number(2),
        "runtime": number(3),
        "total_ios": (number(2) * number(3) / 1000.0).round() as u64,
        "slat": latency(4),
        "clat": clat,
        "lat": latency(12 + PERCENTILES),
    })
}
