//! The verbs of the command line, a module each: its arguments, and what it does with them.

pub(crate) mod array;
pub(crate) mod catalog;
pub(crate) mod doctor;
pub(crate) mod fit;
pub(crate) mod import;
pub(crate) mod measure;
pub(crate) mod model;
pub(crate) mod reproduce;
pub(crate) mod runs;
pub(crate) mod simulate;
pub(crate) mod soak;
pub(crate) mod study;
pub(crate) mod torture;
pub(crate) mod workloads;

use crate::failure::{Exit, Failure};
use crate::output::{Output, print};
use raidlab_lab::Bound;
use raidlab_workload::RunResult;

/// Prints `results`, tells which of `bounds` they miss, and says how the verb ends.
fn conclude_runs(
    results: &[RunResult],
    bounds: &[Bound],
    interrupted: bool,
    output: &Output,
) -> Result<Exit, Failure> {
    match (output.is_json(), results) {
        (true, _) => print(&raidlab_report::json::runs(results))?,
        (false, [only]) => print(&raidlab_report::terminal::run(only, output.terminal()))?,
        (false, _) => print(&raidlab_report::terminal::runs(results, output.terminal()))?,
    }
    for warning in results.iter().flat_map(RunResult::warnings) {
        eprintln!("warning: {warning}");
    }
    let mut missed = false;
    for result in results {
        for bound in bounds.iter().filter(|bound| !bound.is_kept(result)) {
            missed = true;
            eprintln!("bound missed: {bound} by {} at iodepth {}", result.workload, result.iodepth);
        }
    }
    Ok(match (interrupted, missed) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::BoundMissed,
        (false, false) => Exit::Done,
    })
}
