//! How late requests of an emulated array end, compared with the model.

use raidlab_units::NanoSpan;
use raidlab_workload::LatencyHistogram;
use serde::Serialize;

/// What counts as late: a tenth of a millisecond, far below the service time of any drive that turns.
const LATE: NanoSpan = NanoSpan::from_micros(100);

/// Counts of all requests by their lateness.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    counts: LatencyHistogram,
    late: u64,
}

/// What is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LatenessFacts {
    /// Requests that ended.
    pub requests: u64,
    /// Half of them ended within this time after the model's answer.
    pub late_ns_p50: u64,
    /// 99 of 100 did.
    pub late_ns_p99: u64,
    /// The latest of all.
    pub late_ns_max: u64,
    /// Requests later than 100 us.
    pub later_than_100us: u64,
}

impl Lateness {
    pub(super) fn record(&mut self, late: NanoSpan) {
        self.counts.record_ns(late.0);
        self.late += u64::from(late > LATE);
    }

    /// The figures so far.
    pub fn facts(&self) -> LatenessFacts {
        LatenessFacts {
            requests: self.counts.count(),
            late_ns_p50: self.counts.percentile_ns(50.0),
            late_ns_p99: self.counts.percentile_ns(99.0),
            late_ns_max: self.counts.max_ns(),
            later_than_100us: self.late,
        }
    }
}
