//! Counts and their figures: histograms during a run, numbers for people afterwards.
//!
//! [`Measurement`] is a driver's counts, with full histograms, which workers add up; [`OpSummary`] and [`LagSummary`]
//! are stored.
//!
//! ```text
//! read, write ──────────────────► figures each, and of both together (the total)
//! flush, trim, write of zeroes ─► figures each, beside the total: they move no bytes
//! ```

use super::actors::{ActorMeasurement, ActorSummary};
use super::zero_of_null;
use crate::bins::{self, LatencyBin};
use crate::histogram::LatencyHistogram;
use crate::op::IoOp;
use crate::series::Series;
use crate::split::{LatencySplit, SplitStats};
use raidlab_units::{ByteCount, BytesPerSec, Iops, NanoSpan};
use serde::{Deserialize, Serialize};

/// What a driver counted for one direction, within the measured window only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpStats {
    /// Requests completed without error.
    pub requests: u64,
    /// Bytes they moved.
    pub bytes: ByteCount,
    /// Requests that failed.
    pub errors: u64,
    /// Total latency of the successful ones, from the (intended) start to completion.
    pub lat: LatencyHistogram,
    /// The two parts of that latency, where they were told apart.
    pub split: Option<Box<SplitStats>>,
}

/// What a driver counted, operation by operation.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Reads.
    pub read: OpStats,
    /// Writes.
    pub write: OpStats,
    /// What moves no bytes.
    #[serde(default)]
    pub others: OtherStats,
}

/// What a driver counted in the measured window: ramp and drain are not in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// Length of the window.
    pub window: NanoSpan,
    /// All requests.
    pub ops: Counts,
    /// Reads and writes, interval by interval.
    pub series: Series,
    /// Each part of a mix; empty for a workload of one part. The figures above are of all of them.
    pub parts: Vec<PartMeasurement>,
    /// What each actor did.
    #[serde(default)]
    pub actors: Vec<ActorMeasurement>,
    /// How late requests of open loops started; none without any.
    pub lag: Option<LagStats>,
}

/// What a driver counted of requests that move no bytes, within the measured window only.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OtherStats {
    /// Flushes of both kinds.
    pub flush: OpStats,
    /// Trims; their bytes are those of their ranges.
    pub trim: OpStats,
    /// Writes of zeroes; their bytes are those of their ranges.
    pub zeroes: OpStats,
}

/// What a driver counted of one part of a mix.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PartMeasurement {
    /// Its name.
    pub name: String,
    /// Its requests.
    pub ops: Counts,
    /// How late its requests started, in an open loop.
    pub lag: Option<LagStats>,
}

/// How late the requests of open loops started, of those that started in the window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LagStats {
    /// From arrival to start. It is in the latencies.
    pub lag: LatencyHistogram,
    /// From start to completion, of those that completed in the window: latencies without the lag.
    pub service: LatencyHistogram,
    /// Requests that arrived until the end of the window and never started.
    pub unserved: u64,
}

/// How late the requests of open loops started, as stored and shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LagSummary {
    /// Requests that started in the window.
    pub started: u64,
    /// Requests that arrived until its end and never started.
    pub unserved: u64,
    /// Mean time from arrival to start, which is in the latencies.
    pub lag_ns_mean: f64,
    /// Its median.
    #[serde(default)]
    pub lag_ns_p50: u64,
    /// Its 99th percentile.
    pub lag_ns_p99: u64,
    /// The longest.
    pub lag_ns_max: u64,
    /// Mean time from start to completion; zero for runs from before it was kept.
    #[serde(default)]
    pub service_ns_mean: f64,
    /// Its median.
    #[serde(default)]
    pub service_ns_p50: u64,
    /// Its 99th percentile.
    #[serde(default)]
    pub service_ns_p99: u64,
    /// The longest.
    #[serde(default)]
    pub service_ns_max: u64,
}

/// The figures of one part of a mix, as stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct PartSummary {
    /// Its name.
    pub name: String,
    /// Its requests.
    #[serde(flatten)]
    pub ops: Summaries,
    /// How late its requests started, in an open loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagSummary>,
}

/// The figures of one direction, as stored and shown. A zero in results of other programs may be a figure that is not known: it is null
/// where they are printed as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OpSummary {
    /// Requests completed without error in the window.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub requests: u64,
    /// Requests that failed in the window.
    pub errors: u64,
    /// Requests per second.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<Iops>")]
    pub iops: Iops,
    /// Bytes per second.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<BytesPerSec>")]
    pub bytes_per_sec: BytesPerSec,
    /// Mean total latency, exact.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<f64>")]
    pub lat_ns_mean: f64,
    /// Standard deviation of total latency.
    #[serde(default, deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<f64>")]
    pub lat_ns_stddev: f64,
    /// Smallest total latency.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_min: u64,
    /// Median total latency.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_p50: u64,
    /// 90th percentile of total latency.
    #[serde(default, deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_p90: u64,
    /// 99th percentile of total latency.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_p99: u64,
    /// 99.9th percentile of total latency.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_p999: u64,
    /// 99.99th percentile of total latency.
    #[serde(default, deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_p9999: u64,
    /// 99.999th percentile of total latency.
    #[serde(default, deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_p99999: u64,
    /// Largest total latency.
    #[serde(deserialize_with = "zero_of_null")]
    #[schemars(with = "Option<u64>")]
    pub lat_ns_max: u64,
    /// The distribution of total latency at the steps of [`CURVE_PCT`], for charts; empty when nothing was counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lat_curve: Vec<LatencyPoint>,
    /// How many requests took how long, in bins at most 12.5 % wide, or in the classes of another program; those without a request are
    /// left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lat_bins: Vec<LatencyBin>,
    /// The two parts of total latency, where they were told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<LatencySplit>,
}

/// The figures of requests, operation by operation, as stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Summaries {
    /// Reads.
    pub read: OpSummary,
    /// Writes.
    pub write: OpSummary,
    /// Both together.
    pub total: OpSummary,
    /// What moves no bytes.
    #[serde(flatten)]
    pub others: OtherSummaries,
}

/// The figures of requests that move no bytes, as stored and shown; none of what was not asked for. They are not in the
/// totals.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct OtherSummaries {
    /// Flushes of both kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<Box<OpSummary>>,
    /// Trims; bytes per second are those of their ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trim: Option<Box<OpSummary>>,
    /// Writes of zeroes; bytes per second are those of their ranges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_zeroes: Option<Box<OpSummary>>,
}

/// One point of a latency distribution.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LatencyPoint {
    /// Share of the requests that took no longer, in percent.
    pub pct: f64,
    /// How long they took at most.
    pub lat_ns: u64,
}

/// Percentiles at which a latency distribution is kept.
pub const CURVE_PCT: [f64; 20] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.99,
    99.999, 100.0,
];

impl OpStats {
    /// Counts `times` requests of `bytes` each that ended after `lat`, or failed without one.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u32, lat: Option<NanoSpan>, times: u64) {
        if let Some(lat) = lat {
            self.requests += times;
            self.bytes += ByteCount(u64::from(bytes) * times);
            self.lat.record_many_ns(lat.get(), times);
        } else {
            self.errors += times;
        }
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.lat.merge(&other.lat);
        SplitStats::merge(&mut self.split, other.split.as_deref());
    }
}

impl Counts {
    /// Returns counts of nothing, with the histograms of what there will be allocated already.
    pub(crate) fn allocated(reads: bool, writes: bool) -> Self {
        let stats = |used: bool| OpStats {
            lat: if used { LatencyHistogram::allocated() } else { LatencyHistogram::default() },
            ..OpStats::default()
        };
        Self { read: stats(reads), write: stats(writes), others: OtherStats::default() }
    }

    /// Returns the figures that requests of `op` count in.
    #[inline]
    pub(crate) fn of_mut(&mut self, op: IoOp) -> &mut OpStats {
        match op {
            IoOp::Read => &mut self.read,
            IoOp::Write => &mut self.write,
            IoOp::Flush | IoOp::FlushData => &mut self.others.flush,
            IoOp::Trim => &mut self.others.trim,
            IoOp::WriteZeroes => &mut self.others.zeroes,
        }
    }

    /// Adds what another worker counted.
    pub fn merge(&mut self, other: &Self) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.others.merge(&other.others);
    }

    /// Returns the figures of what was counted in a window of the length `window`.
    pub fn summaries(&self, window: NanoSpan) -> Summaries {
        let mut total = self.read.clone();
        total.merge(&self.write);
        Summaries {
            read: OpSummary::of(&self.read, window),
            write: OpSummary::of(&self.write, window),
            total: OpSummary::of(&total, window),
            others: self.others.summaries(window),
        }
    }
}

impl OtherStats {
    fn merge(&mut self, other: &Self) {
        self.flush.merge(&other.flush);
        self.trim.merge(&other.trim);
        self.zeroes.merge(&other.zeroes);
    }

    fn summaries(&self, window: NanoSpan) -> OtherSummaries {
        let of = |stats: &OpStats| {
            (stats.requests + stats.errors > 0).then(|| Box::new(OpSummary::of(stats, window)))
        };
        OtherSummaries { flush: of(&self.flush), trim: of(&self.trim), write_zeroes: of(&self.zeroes) }
    }

    /// Requests that succeeded, and that failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let all = [&self.flush, &self.trim, &self.zeroes];
        (all.iter().map(|stats| stats.requests).sum(), all.iter().map(|stats| stats.errors).sum())
    }
}

impl OtherSummaries {
    /// Each that there is, with its word.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &OpSummary)> {
        let all = [("flush", &self.flush), ("trim", &self.trim), ("write-zeroes", &self.write_zeroes)];
        all.into_iter().filter_map(|(word, summary)| Some((word, summary.as_deref()?)))
    }

    /// Requests that failed, of all of them.
    pub fn errors(&self) -> u64 {
        self.iter().map(|(_, summary)| summary.errors).sum()
    }
}

impl OpSummary {
    /// Returns the figures of `stats`, counted in a window of the length `window`.
    pub fn of(stats: &OpStats, window: NanoSpan) -> Self {
        let lat = &stats.lat;
        let curve = |pct| LatencyPoint { pct, lat_ns: lat.percentile_ns(pct) };
        Self {
            requests: stats.requests,
            errors: stats.errors,
            iops: Iops::of(stats.requests, window),
            bytes_per_sec: BytesPerSec::of(stats.bytes, window),
            lat_ns_mean: lat.mean_ns(),
            lat_ns_stddev: lat.stddev_ns(),
            lat_ns_min: lat.min_ns(),
            lat_ns_p50: lat.percentile_ns(50.0),
            lat_ns_p90: lat.percentile_ns(90.0),
            lat_ns_p99: lat.percentile_ns(99.0),
            lat_ns_p999: lat.percentile_ns(99.9),
            lat_ns_p9999: lat.percentile_ns(99.99),
            lat_ns_p99999: lat.percentile_ns(99.999),
            lat_ns_max: lat.max_ns(),
            lat_curve: if lat.count() == 0 { Vec::new() } else { CURVE_PCT.map(curve).to_vec() },
            lat_bins: bins::coarse(lat.iter(), lat.max_ns()),
            split: stats.split.as_ref().map(|split| split.summary()),
        }
    }
}

impl Measurement {
    /// Adds what a worker counted that ran at the same time: counts and histograms add up.
    ///
    /// Workers that start together have windows of the same length. Where they differ (one reached its
    /// `max_requests` first) the longest counts, so the merged rate is never above what was delivered.
    pub fn merge(&mut self, other: &Self) {
        self.window = self.window.max(other.window);
        self.ops.merge(&other.ops);
        for theirs in &other.parts {
            match self.parts.iter_mut().find(|part| part.name == theirs.name) {
                Some(part) => part.merge(theirs),
                None => self.parts.push(theirs.clone()),
            }
        }
        for theirs in &other.actors {
            match self.actors.iter_mut().find(|actor| actor.name == theirs.name) {
                Some(actor) => actor.merge(theirs),
                None => self.actors.push(theirs.clone()),
            }
        }
        self.lag = LagStats::merged(self.lag.take(), other.lag.as_ref());
        self.series.merge(&other.series);
    }

    /// Returns the figures of each operation.
    pub fn summaries(&self) -> Summaries {
        self.ops.summaries(self.window)
    }

    /// Returns what each actor did.
    pub fn actor_summaries(&self) -> Vec<ActorSummary> {
        let mut actors: Vec<ActorSummary> =
            self.actors.iter().map(|actor| actor.summary(self.window)).collect();
        super::actors::tell_pause_once(&mut actors);
        actors
    }

    /// Returns the figures of each part of a mix.
    pub fn part_summaries(&self) -> Vec<PartSummary> {
        let summary = |part: &PartMeasurement| PartSummary {
            name: part.name.clone(),
            ops: part.ops.summaries(self.window),
            lag: part.lag.as_ref().map(LagStats::summary),
        };
        self.parts.iter().map(summary).collect()
    }
}

impl PartMeasurement {
    fn merge(&mut self, other: &Self) {
        self.ops.merge(&other.ops);
        self.lag = LagStats::merged(self.lag.take(), other.lag.as_ref());
    }
}

impl LagSummary {
    /// Whether requests waited for their start for longer than they took, on average.
    pub fn is_longer_than_service(&self) -> bool {
        self.service_ns_mean > 0.0 && self.lag_ns_mean > self.service_ns_mean
    }
}

impl LagStats {
    /// Both together; none if there is neither.
    pub(crate) fn merged(own: Option<Self>, other: Option<&Self>) -> Option<Self> {
        let Some(other) = other else { return own };
        let mut own = own.unwrap_or_default();
        own.lag.merge(&other.lag);
        own.service.merge(&other.service);
        own.unserved += other.unserved;
        Some(own)
    }

    /// Returns the figures.
    pub fn summary(&self) -> LagSummary {
        LagSummary {
            started: self.lag.count(),
            unserved: self.unserved,
            lag_ns_mean: self.lag.mean_ns(),
            lag_ns_p50: self.lag.percentile_ns(50.0),
            lag_ns_p99: self.lag.percentile_ns(99.0),
            lag_ns_max: self.lag.max_ns(),
            service_ns_mean: self.service.mean_ns(),
            service_ns_p50: self.service.percentile_ns(50.0),
            service_ns_p99: self.service.percentile_ns(99.0),
            service_ns_max: self.service.max_ns(),
        }
    }
}
