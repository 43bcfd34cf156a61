//! The character of requests that were seen one by one: sizes, runs, arrivals, depth, places, reuse and latency.
//!
//! **Runs.** A request goes on from another if it starts where that one ended. Sixteen ends are kept, those used last, so that
//! several streams at once are still streams: a request that goes on from none of them is *random* and begins a run.
//!
//! **Gaps in the watch.** After [`Character::pause`] no time between requests is counted over the pause, and no run goes over it.
//!
//! Invariant: memory is bounded whatever the requests: sizes, places and requests in flight have limits, beyond which they are
//! counted with their neighbours.

use crate::intervals::share_pct;
use raidlab_trace::{Summary, TraceKind, TraceRecord, TraceSummary};
use raidlab_workload::LatencyHistogram;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Ends of requests that the next one may go on from.
const STREAMS: usize = 16;
/// Lengths that are told apart.
const SIZES_MAX: usize = 1024;
/// Places that are told apart; beyond them neighbours are counted together.
const PLACES_MAX: usize = 1 << 14;
/// Requests in flight that are kept at most.
const IN_FLIGHT_MAX: usize = 1 << 16;
/// Sizes that are listed.
const SIZES_LISTED: usize = 16;

/// What is known of requests of one length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SizeClass {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    /// Those that went on from no other.
    pub(crate) random: u64,
    /// All offsets, or-ed.
    address_bits: u64,
}

impl SizeClass {
    /// The largest power of two that divides all offsets; at most a mebibyte.
    pub(crate) fn align_bytes(&self) -> u64 {
        1 << self.address_bits.trailing_zeros().min(20)
    }
}

/// A run under way.
#[derive(Clone, Copy, Debug)]
struct Stream {
    end_bytes: u64,
    requests: u64,
    bytes: u64,
}

/// What is known of the requests of one device.
#[derive(Debug)]
pub struct Character {
    summary: Summary,
    sizes: BTreeMap<u64, SizeClass>,
    /// Runs that may go on; the one used last at the end.
    streams: Vec<Stream>,
    run_requests: LatencyHistogram,
    run_bytes: LatencyHistogram,
    gaps: LatencyHistogram,
    gap_sum_ns: f64,
    gap_squares: f64,
    last_ns: Option<u64>,
    /// Ends of requests in flight, the earliest first.
    ends: BinaryHeap<Reverse<u64>>,
    depths: LatencyHistogram,
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    /// Requests by place.
    places: BTreeMap<u64, u64>,
    place_bytes: u64,
    first_byte: u64,
    end_byte: u64,
}

impl Default for Character {
    fn default() -> Self {
        let empty = LatencyHistogram::allocated;
        Self {
            summary: Summary::default(),
            sizes: BTreeMap::new(),
            streams: Vec::with_capacity(STREAMS),
            run_requests: empty(),
            run_bytes: empty(),
            gaps: empty(),
            gap_sum_ns: 0.0,
            gap_squares: 0.0,
            last_ns: None,
            ends: BinaryHeap::new(),
            depths: empty(),
            reads: empty(),
            writes: empty(),
            places: BTreeMap::new(),
            place_bytes: 1 << 20,
            first_byte: u64::MAX,
            end_byte: 0,
        }
    }
}

impl Character {
    /// Takes in the next request of the device, in the order of their times.
    pub fn add(&mut self, record: &TraceRecord) {
        self.summary.add(record);
        if let Some(last_ns) = self.last_ns.replace(record.time_ns) {
            let gap_ns = record.time_ns.saturating_sub(last_ns);
            self.gaps.record_ns(gap_ns);
            self.gap_sum_ns += gap_ns as f64;
            self.gap_squares += (gap_ns as f64).powi(2);
        }
        self.add_depth(record);
        let times = match record.kind {
            TraceKind::Read => &mut self.reads,
            TraceKind::Write => &mut self.writes,
            _ => return,
        };
        if let Some(ns) = record.response_ns {
            times.record_ns(ns);
        }
        let is_random = self.go_on(record);
        self.add_size(record, is_random);
        self.add_place(record);
    }

    /// Takes in that requests were not seen for a time.
    pub fn pause(&mut self) {
        self.last_ns = None;
        self.ends.clear();
        for stream in std::mem::take(&mut self.streams) {
            self.end_run(stream);
        }
    }

    fn add_depth(&mut self, record: &TraceRecord) {
        let Some(response_ns) = record.response_ns else { return };
        while self.ends.peek().is_some_and(|Reverse(end_ns)| *end_ns <= record.time_ns) {
            self.ends.pop();
        }
        if self.ends.len() < IN_FLIGHT_MAX {
            self.ends.push(Reverse(record.time_ns.saturating_add(response_ns)));
        }
        self.depths.record_ns(self.ends.len() as u64);
    }

    /// Whether it begins a run.
    fn go_on(&mut self, record: &TraceRecord) -> bool {
        let end_bytes = record.offset_bytes + record.length_bytes;
        let known = self.streams.iter().position(|stream| stream.end_bytes == record.offset_bytes);
        let mut stream = match known {
            Some(index) => self.streams.remove(index),
            None => Stream { end_bytes: 0, requests: 0, bytes: 0 },
        };
        stream.end_bytes = end_bytes;
        stream.requests += 1;
        stream.bytes += record.length_bytes;
        if self.streams.len() == STREAMS {
            let oldest = self.streams.remove(0);
            self.end_run(oldest);
        }
        self.streams.push(stream);
        known.is_none()
    }

    fn end_run(&mut self, stream: Stream) {
        self.run_requests.record_ns(stream.requests);
        self.run_bytes.record_ns(stream.bytes);
    }

    fn add_size(&mut self, record: &TraceRecord, is_random: bool) {
        let length = record.length_bytes;
        let key = if self.sizes.len() < SIZES_MAX || self.sizes.contains_key(&length) {
            length
        } else {
            let below = self.sizes.range(..length).next_back().map(|(key, _)| *key);
            below.or_else(|| self.sizes.keys().next().copied()).unwrap_or(length)
        };
        let class = self.sizes.entry(key).or_default();
        class.reads += u64::from(record.kind == TraceKind::Read);
        class.writes += u64::from(record.kind == TraceKind::Write);
        class.random += u64::from(is_random);
        class.address_bits |= record.offset_bytes;
    }

    fn add_place(&mut self, record: &TraceRecord) {
        self.first_byte = self.first_byte.min(record.offset_bytes);
        self.end_byte = self.end_byte.max(record.offset_bytes + record.length_bytes);
        *self.places.entry(record.offset_bytes / self.place_bytes).or_default() += 1;
        while self.places.len() > PLACES_MAX {
            self.place_bytes *= 2;
            let finer = std::mem::take(&mut self.places);
            for (place, count) in finer {
                *self.places.entry(place / 2).or_default() += count;
            }
        }
    }

    /// Returns the figures, and what an imitation is made of.
    pub(crate) fn finish(mut self) -> Seen {
        self.pause();
        let figures = self.figures();
        Seen {
            figures,
            sizes: self.sizes,
            run_bytes: self.run_bytes,
            gaps: self.gaps,
            places: self.places,
            place_bytes: self.place_bytes,
            first_byte: self.first_byte.min(self.end_byte),
            end_byte: self.end_byte,
        }
    }

    fn figures(&mut self) -> RequestFigures {
        let summary = std::mem::take(&mut self.summary).finish(&[]);
        let transfers = summary.reads + summary.writes;
        let random: u64 = self.sizes.values().map(|class| class.random).sum();
        let moved = summary.read_bytes + summary.write_bytes;
        let reused = moved.saturating_sub(summary.footprint_bytes);
        let told =
            |histogram: &LatencyHistogram, pct| (histogram.count() > 0).then(|| histogram.percentile_ns(pct));
        let gaps = self.gaps.count() as f64;
        let mean_gap = self.gap_sum_ns / gaps.max(1.0);
        RequestFigures {
            requests: summary.requests,
            flushes: summary.flushes,
            trims: summary.trims,
            read_pct: summary.read_pct(),
            random_pct: share_pct(random, transfers - random),
            run_requests_mean: (self.run_requests.count() > 0).then(|| self.run_requests.mean_ns()),
            run_bytes_p50: told(&self.run_bytes, 50.0),
            run_bytes_p99: told(&self.run_bytes, 99.0),
            sizes: self.size_figures(transfers),
            align_bytes: summary.align_bytes,
            gap_ns_mean: (gaps > 0.0).then_some(mean_gap),
            gap_ns_p50: told(&self.gaps, 50.0),
            gap_variation: (gaps > 0.0 && mean_gap > 0.0)
                .then(|| (self.gap_squares / gaps - mean_gap.powi(2)).max(0.0) / mean_gap.powi(2)),
            requests_per_sec_max: summary.requests_per_sec_max,
            depth_p50: told(&self.depths, 50.0),
            depth_p99: told(&self.depths, 99.0),
            depth_max: (self.depths.count() > 0).then(|| self.depths.max_ns()),
            working_set_bytes: summary.footprint_bytes,
            working_set_is_at_least: summary.footprint_is_at_least,
            reused_pct: share_pct(reused, moved - reused),
            hottest_tenth_pct: self.hottest_tenth_pct(transfers),
            read_ns_p50: told(&self.reads, 50.0),
            read_ns_p99: told(&self.reads, 99.0),
            write_ns_p50: told(&self.writes, 50.0),
            write_ns_p99: told(&self.writes, 99.0),
            summary,
        }
    }

    fn size_figures(&self, transfers: u64) -> Vec<SizeFigures> {
        let mut sizes: Vec<SizeFigures> = self
            .sizes
            .iter()
            .map(|(bytes, class)| {
                let count = class.reads + class.writes;
                SizeFigures {
                    length_bytes: *bytes,
                    pct: count as f64 * 100.0 / transfers.max(1) as f64,
                    read_pct: share_pct(class.reads, class.writes).unwrap_or(0.0),
                    random_pct: share_pct(class.random, count - class.random).unwrap_or(0.0),
                }
            })
            .collect();
        sizes.sort_by(|one, other| other.pct.total_cmp(&one.pct));
        sizes.truncate(SIZES_LISTED);
        sizes
    }

    fn hottest_tenth_pct(&self, transfers: u64) -> Option<f64> {
        let mut counts: Vec<u64> = self.places.values().copied().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let hottest: u64 = counts.iter().take(counts.len().div_ceil(10)).sum();
        (counts.len() >= 10).then(|| hottest as f64 * 100.0 / transfers.max(1) as f64)
    }
}

/// What requests were like: the figures, and the distributions behind them.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) figures: RequestFigures,
    pub(crate) sizes: BTreeMap<u64, SizeClass>,
    pub(crate) run_bytes: LatencyHistogram,
    pub(crate) gaps: LatencyHistogram,
    pub(crate) places: BTreeMap<u64, u64>,
    pub(crate) place_bytes: u64,
    pub(crate) first_byte: u64,
    pub(crate) end_byte: u64,
}

/// Figures of requests that were seen one by one.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RequestFigures {
    /// All that were seen.
    pub requests: u64,
    /// Flushes among them.
    pub flushes: u64,
    /// Trims among them.
    pub trims: u64,
    /// Reads of reads and writes.
    pub read_pct: Option<f64>,
    /// Reads and writes that went on from none of the last 16 streams.
    pub random_pct: Option<f64>,
    /// Requests of a run.
    pub run_requests_mean: Option<f64>,
    /// Length of a run that half of them have at most.
    pub run_bytes_p50: Option<u64>,
    /// The same of 99 %.
    pub run_bytes_p99: Option<u64>,
    /// The most frequent sizes.
    pub sizes: Vec<SizeFigures>,
    /// The largest power of two that divides all offsets and lengths.
    pub align_bytes: u64,
    /// Mean time from one arrival to the next.
    pub gap_ns_mean: Option<f64>,
    /// Time from one arrival to the next that half have at most.
    pub gap_ns_p50: Option<u64>,
    /// Squared coefficient of variation of these times: 0 is even, 1 Poisson, more bursty.
    pub gap_variation: Option<f64>,
    /// Requests of the busiest second.
    pub requests_per_sec_max: u64,
    /// Requests in flight at an arrival, itself included: half have at most so many.
    pub depth_p50: Option<u64>,
    /// The same of 99 %.
    pub depth_p99: Option<u64>,
    /// The most.
    pub depth_max: Option<u64>,
    /// Units of 4 KiB that were touched.
    pub working_set_bytes: u64,
    /// More than could be counted was touched.
    pub working_set_is_at_least: bool,
    /// Bytes that had been touched before, of all that were moved.
    pub reused_pct: Option<f64>,
    /// Share of the requests that went to the tenth of the touched places that was touched most; none with few places.
    pub hottest_tenth_pct: Option<f64>,
    /// Half of the reads took at most so long.
    pub read_ns_p50: Option<u64>,
    /// 99 % of the reads did.
    pub read_ns_p99: Option<u64>,
    /// Half of the writes did.
    pub write_ns_p50: Option<u64>,
    /// 99 % of the writes did.
    pub write_ns_p99: Option<u64>,
    /// The summary that a trace of them has.
    #[serde(skip)]
    pub summary: TraceSummary,
}

/// Requests of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SizeFigures {
    /// The length.
    pub length_bytes: u64,
    /// Their share of reads and writes.
    pub pct: f64,
    /// Reads among them.
    pub read_pct: f64,
    /// Those that began a run.
    pub random_pct: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(time_ns: u64, offset_bytes: u64, length_bytes: u64, response_ns: u64) -> TraceRecord {
        TraceRecord {
            time_ns,
            device: 0,
            kind: TraceKind::Read,
            offset_bytes,
            length_bytes,
            response_ns: Some(response_ns),
        }
    }

    fn figures_of(records: impl IntoIterator<Item = TraceRecord>) -> RequestFigures {
        let mut character = Character::default();
        for record in records {
            character.add(&record);
        }
        character.finish().figures
    }

    #[test]
    fn streams_side_by_side_are_not_random_and_their_runs_are_whole() {
        // Four streams of 100 requests each, request by request in turn.
        let turns = (0..400u64).map(|n| read(n * 1000, (n % 4) * (1 << 30) + (n / 4) * 4096, 4096, 500));
        let figures = figures_of(turns);
        assert_eq!(figures.random_pct, Some(1.0), "only the first of each stream");
        assert_eq!((figures.run_requests_mean, figures.depth_max), (Some(100.0), Some(1)));
        assert_eq!(figures.gap_variation, Some(0.0), "they come evenly");
        // More streams than are kept: each request begins a run.
        let many = (0..340u64).map(|n| read(n, (n % 17) * (1 << 30) + (n / 17) * 4096, 4096, 1));
        assert_eq!(figures_of(many).random_pct, Some(100.0));
    }

    #[test]
    fn depth_and_reuse_are_counted() {
        // Eight at once, each 1 ms long, then again at the same places.
        let batch = |at: u64| (0..8u64).map(move |n| read(at, n * 8192, 4096, 1_000_000));
        let figures = figures_of(batch(0).chain(batch(2_000_000)));
        assert_eq!((figures.depth_max, figures.depth_p50), (Some(8), Some(4)));
        assert_eq!((figures.working_set_bytes, figures.reused_pct), (8 * 4096, Some(50.0)));
        assert_eq!(figures.read_pct, Some(100.0));
        assert!(figures.gap_variation.is_some_and(|it| it > 3.0), "{:?}", figures.gap_variation);
    }

    #[test]
    fn a_pause_is_no_gap() {
        let mut character = Character::default();
        character.add(&read(0, 0, 4096, 10));
        character.add(&read(1000, 4096, 4096, 10));
        character.pause();
        character.add(&read(10_000_000_000, 8192, 4096, 10));
        let figures = character.finish().figures;
        assert_eq!((figures.gap_ns_mean, figures.requests), (Some(1000.0), 3));
        assert_eq!(figures.run_requests_mean, Some(1.5), "a run ends with the watch");
    }

    #[test]
    fn nothing_seen_is_none() {
        let figures = figures_of([]);
        assert_eq!((figures.requests, figures.random_pct, figures.read_ns_p50), (0, None, None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_requests_are_bearable(records in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..100)) {
            let count = records.len() as u64;
            let mut times: Vec<u64> = records.iter().map(|it| it.0).collect();
            times.sort_unstable();
            let made = records.iter().zip(times).map(|(&(_, offset, length, response), time)| {
                read(time, offset, (length >> (length % 64)).min(u64::MAX - offset), response)
            });
            let figures = figures_of(made);
            prop_assert_eq!(figures.requests, count);
            prop_assert!(figures.random_pct.is_none_or(|pct| (0.0..=100.0).contains(&pct)));
        }
    }
}
