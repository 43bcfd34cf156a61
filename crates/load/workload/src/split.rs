//! Latency split at submission: how long a request waited to be submitted, and how long it took from there.
//!
//! ```text
//! intended start            handed to the kernel                  its completion is taken in
//!      │── slat: arrival, place, ──│───────── clat: the call, storage, ──────│
//!      │        queue of a batch   │              the way back               │
//!      │────────────────────────── lat ──────────────────────────────────────│
//! ```
//! A world that knows the time reports it for each request ([`crate::Driver::handle_submitted`]), with one time for all
//! requests of one call. It is counted for reads and writes as a whole, not for the parts of a mix.
//!
//! Invariant: the sum of both is the total latency of the same request, so the means add up; percentiles do not.
//!
//! Source: fio's `slat`, `clat` and `lat`. Its `slat` ends when the call has returned; this one when the call begins,
//! so that work of the storage within the call does not count as waiting.

use crate::histogram::LatencyHistogram;
use raidlab_units::NanoSpan;
use serde::{Deserialize, Serialize};

/// Both parts of the latency of the requests of one direction, as counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SplitStats {
    /// From the (intended) start until the request was handed on.
    pub slat: LatencyHistogram,
    /// From there to its end.
    pub clat: LatencyHistogram,
}

/// Both parts of a latency, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LatencySplit {
    /// Submission: from the (intended) start until the request was handed to the kernel.
    pub slat: LatencyFigures,
    /// Completion: from there to its end.
    pub clat: LatencyFigures,
}

/// The figures of one part of a latency, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LatencyFigures {
    /// Mean, exact.
    pub ns_mean: f64,
    /// Standard deviation.
    pub ns_stddev: f64,
    /// Smallest.
    pub ns_min: u64,
    /// Median.
    pub ns_p50: u64,
    /// 90th percentile.
    pub ns_p90: u64,
    /// 99th percentile.
    pub ns_p99: u64,
    /// 99.9th percentile.
    pub ns_p999: u64,
    /// 99.99th percentile.
    pub ns_p9999: u64,
    /// 99.999th percentile.
    pub ns_p99999: u64,
    /// Largest.
    pub ns_max: u64,
}

impl SplitStats {
    /// Returns figures of nothing whose histograms are allocated already.
    pub(crate) fn allocated() -> Self {
        Self { slat: LatencyHistogram::allocated(), clat: LatencyHistogram::allocated() }
    }

    /// Counts a request.
    #[inline]
    pub(crate) fn count(&mut self, slat: NanoSpan, clat: NanoSpan) {
        self.slat.record_ns(slat.get());
        self.clat.record_ns(clat.get());
    }

    /// Both together; none if there is neither.
    pub(crate) fn merge(own: &mut Option<Box<Self>>, other: Option<&Self>) {
        if let Some(other) = other {
            let own = own.get_or_insert_default();
            own.slat.merge(&other.slat);
            own.clat.merge(&other.clat);
        }
    }

    /// Returns the figures.
    pub fn summary(&self) -> LatencySplit {
        LatencySplit { slat: LatencyFigures::of(&self.slat), clat: LatencyFigures::of(&self.clat) }
    }
}

impl LatencyFigures {
    fn of(histogram: &LatencyHistogram) -> Self {
        Self {
            ns_mean: histogram.mean_ns(),
            ns_stddev: histogram.stddev_ns(),
            ns_min: histogram.min_ns(),
            ns_p50: histogram.percentile_ns(50.0),
            ns_p90: histogram.percentile_ns(90.0),
            ns_p99: histogram.percentile_ns(99.0),
            ns_p999: histogram.percentile_ns(99.9),
            ns_p9999: histogram.percentile_ns(99.99),
            ns_p99999: histogram.percentile_ns(99.999),
            ns_max: histogram.max_ns(),
        }
    }
}
