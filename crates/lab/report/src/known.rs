//! What is not known of a run. Results of other programs do not have every figure: [`OpSummary`] keeps those as zero, and nothing that is
//! shown or exported says 0 of them.
//!
//! A request takes time, and what moved has a rate and a length: a zero beside such is a figure that is missing. Reads and writes are not
//! told apart where both together moved, and neither alone.

use raidlab_workload::{OpSummary, RunResult};
use serde_json::Value;

/// Whether there was any request.
pub(crate) fn has_moved(summary: &OpSummary) -> bool {
    summary.requests > 0 || summary.iops.0 > 0.0 || summary.bytes_per_sec.0 > 0.0
}

/// Whether the run tells reads from writes.
pub(crate) fn tells_directions(run: &RunResult) -> bool {
    let ops = &run.ops;
    !has_moved(&ops.total) || has_moved(&ops.read) || has_moved(&ops.write)
}

/// Whether a zero in `figure` of the requests called `kind` stands for what the run of another program does not tell.
pub(crate) fn is_missing(run: &RunResult, kind: &str, summary: &OpSummary, figure: &str) -> bool {
    let is_part = kind == "read" || kind == "write";
    let is_apart = !is_part || tells_directions(run);
    run.is_foreign()
        && match figure {
            "requests" | "iops" | "bytes_per_sec" => has_moved(summary) || !is_apart,
            _ => figure.starts_with("lat_ns_"),
        }
}

/// Whether a `count` of the run stands for what another program does not tell.
pub(crate) fn is_missing_count(run: &RunResult, count: u64) -> bool {
    count == 0 && run.is_foreign()
}

/// Makes null in `json`, the serialisation of `run`, of what is not known.
pub fn null_what_is_missing(run: &RunResult, json: &mut Value) {
    let ops = &run.ops;
    let others = ops.others.iter().map(|(kind, summary)| (kind.replace('-', "_"), summary));
    let moved = [("read", &ops.read), ("write", &ops.write), ("total", &ops.total)];
    for (kind, summary) in moved.into_iter().map(|(kind, it)| (kind.to_owned(), it)).chain(others) {
        for (figure, value) in json.get_mut(&kind).and_then(Value::as_object_mut).into_iter().flatten() {
            if value.as_f64() == Some(0.0) && is_missing(run, &kind, summary, figure) {
                *value = Value::Null;
            }
        }
    }
    for (figure, count) in [("iodepth", run.iodepth.into()), ("window_ns", run.window_ns)] {
        if is_missing_count(run, count) {
            json[figure] = Value::Null;
        }
    }
}
