//! Replays: how much is in flight, and what a result says of them.

use crate::load::RUN_TO_THE_END;
use raidlab_units::NanoSpan;
use raidlab_workload::{AccessSpec, OPEN_IODEPTH_DEFAULT, Workload};

/// Buffers for what is in flight take so much at most, where nobody says how much may be in flight.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Requests of `workload` in flight at most, where nobody says: enough for bursts in a timed replay, within 1 GiB of buffers;
/// one in a closed loop.
pub fn default_iodepth(workload: &Workload) -> u32 {
    let spec = &workload.spec;
    if spec.trace.is_none() || !spec.is_open() {
        return 1;
    }
    let fit = BUFFER_BYTES_MAX / u64::from(spec.request_bytes_max().max(1));
    OPEN_IODEPTH_DEFAULT.min(fit as u32).max(1)
}

/// Settings of a run that replays a trace; none for others.
pub(crate) fn settings(spec: &AccessSpec, run: NanoSpan) -> Vec<(&'static str, String)> {
    let Some(replay) = &spec.trace else { return Vec::new() };
    let summary = replay.summary();
    let mut settings = vec![
        ("trace", replay.source.name()),
        ("timing", replay.timing.to_string()),
        ("fit", replay.fit.name().to_owned()),
    ];
    // What is made while it is read has no length that anybody knows.
    if summary.requests > 0 {
        settings.push(("trace span", NanoSpan(summary.span_ns).to_string()));
        settings.push(("trace requests", summary.requests.to_string()));
    }
    if run == RUN_TO_THE_END {
        settings.push(("run", "to the end of the trace".to_owned()));
    }
    if replay.whole_blocks {
        settings.push(("whole blocks", "yes".to_owned()));
    }
    let unused = replay.targets.iter().zip(&summary.devices).filter(|(target, _)| target.is_none());
    let unused: Vec<&str> = unused.map(|(_, device)| device.name.as_str()).collect();
    if !unused.is_empty() {
        settings.push(("devices left out", unused.join(", ")));
    }
    settings
}
