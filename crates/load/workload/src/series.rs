//! The time series of a run: the measured window cut into intervals of a second, with counts and latencies of each.
//!
//! ```text
//! window start                                                    window end
//!    │── slot 0 ──│── slot 1 ──│── ... ──│── slot n, may be shorter ──│
//!      1 s each, or so long that there are at most 3600 of them
//! ```
//! A request counts in the slot in which it *completes*, as in the window as a whole. All slots are allocated before
//! the run, so counting allocates nothing. [`Series`] is filled by a driver; [`RunSeries`] is stored: a column per
//! figure, which is small in JSON and suits charts.
//!
//! If a window's length is not known beforehand, as for a replay, it begins with slots of a second; when they are full,
//! pairs of them become one, and slots are twice as long from then on.
//!
//! Invariant: the slots' counts add up to those of the window.

use crate::bins::{self, BINS, LatencyBin};
use raidlab_units::{NanoSpan, Nanos};
use serde::{Deserialize, Serialize};

/// Slots at most.
const SLOTS_MAX: u64 = 3600;
/// Columns of the stored map of latencies at most; more would be narrower than a chart's pixels.
const MAP_COLUMNS: usize = 60;
/// Lengths of a slot, in seconds; the first that needs few enough slots is taken.
const INTERVALS_SECS: [u64; 9] = [1, 2, 5, 10, 30, 60, 300, 600, 3600];

/// What was counted in one direction in one slot.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Slot {
    requests: u64,
    errors: u64,
    bytes: u64,
    lat_ns_sum: u64,
    lat_ns_max: u64,
    #[serde(with = "crate::bins::sparse")]
    bins: [u32; BINS],
}

impl Default for Slot {
    fn default() -> Self {
        Self { requests: 0, errors: 0, bytes: 0, lat_ns_sum: 0, lat_ns_max: 0, bins: [0; BINS] }
    }
}

impl Slot {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.lat_ns_sum = self.lat_ns_sum.saturating_add(other.lat_ns_sum);
        self.lat_ns_max = self.lat_ns_max.max(other.lat_ns_max);
        for (mine, theirs) in self.bins.iter_mut().zip(&other.bins) {
            *mine = mine.saturating_add(*theirs);
        }
    }
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Track {
    Read,
    Write,
}

/// The slots of a window while it lasts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Series {
    interval: NanoSpan,
    /// Slots of reads; as long as the window has slots, or empty if the workload has no reads.
    read: Vec<Slot>,
    /// The same of writes.
    write: Vec<Slot>,
    /// The slot that completions fall into until `current_end`.
    current: usize,
    current_end: Nanos,
    start: Nanos,
    /// Slots become longer when they are full.
    is_growing: bool,
}

impl Series {
    /// Allocates the slots of a window of the length `run`.
    pub(crate) fn allocated(run: NanoSpan, reads: bool, writes: bool) -> Self {
        let interval = interval_of(run);
        let count = run.get().div_ceil(interval.get()).clamp(1, SLOTS_MAX) as usize;
        let slots = |used: bool| vec![Slot::default(); if used { count } else { 0 }];
        Self { interval, read: slots(reads), write: slots(writes), ..Self::default() }
    }

    /// Allocates the slots of a window of unknown length.
    pub(crate) fn growing(reads: bool, writes: bool) -> Self {
        let full = NanoSpan::from_secs(SLOTS_MAX);
        Self { is_growing: true, ..Self::allocated(full, reads, writes) }
    }

    /// Makes one slot of each two.
    #[cold]
    fn fold(&mut self) {
        for slots in [&mut self.read, &mut self.write] {
            for index in 0..slots.len() {
                let mut pair = slots.get(2 * index).cloned().unwrap_or_default();
                pair.merge(slots.get(2 * index + 1).unwrap_or(&Slot::default()));
                slots[index] = pair;
            }
        }
        self.interval = NanoSpan(self.interval.get().saturating_mul(2));
        self.current /= 2;
        let past = self.interval.get().saturating_mul(self.current as u64 + 1);
        self.current_end = Nanos(self.start.get().saturating_add(past));
    }

    /// Tells when the window starts.
    pub(crate) fn start(&mut self, window_start: Nanos) {
        self.start = window_start;
        self.current_end = Nanos(window_start.get().saturating_add(self.interval.get()));
    }

    /// Counts `times` requests of `bytes` each that completed at `now`, which never goes backwards. `lat` is none where they
    /// failed.
    #[inline]
    pub(crate) fn record(&mut self, now: Nanos, track: Track, bytes: u32, lat: Option<NanoSpan>, times: u32) {
        while now >= self.current_end {
            self.current += 1;
            self.current_end = Nanos(self.current_end.get().saturating_add(self.interval.get().max(1)));
            if self.is_growing && self.current >= SLOTS_MAX as usize {
                self.fold();
            }
        }
        let slots = match track {
            Track::Read => &mut self.read,
            Track::Write => &mut self.write,
        };
        if slots.is_empty() {
            return self.record_unforeseen(now, track, bytes, lat, times);
        }
        // What completes at the very end of the window belongs to its last slot.
        let last = slots.len() - 1;
        let slot = &mut slots[self.current.min(last)];
        let Some(lat) = lat else {
            slot.errors += u64::from(times);
            return;
        };
        slot.requests += u64::from(times);
        slot.bytes += u64::from(bytes) * u64::from(times);
        slot.lat_ns_sum = slot.lat_ns_sum.saturating_add(lat.get().saturating_mul(u64::from(times)));
        slot.lat_ns_max = slot.lat_ns_max.max(lat.get());
        slot.bins[bins::bin_of(lat.get())] += times;
    }

    /// Makes slots of a direction that the summary of a damaged trace does not tell of.
    #[cold]
    fn record_unforeseen(&mut self, now: Nanos, track: Track, bytes: u32, lat: Option<NanoSpan>, times: u32) {
        let count =
            if self.is_growing { SLOTS_MAX as usize } else { self.read.len().max(self.write.len()).max(1) };
        match track {
            Track::Read => self.read.resize_with(count, Slot::default),
            Track::Write => self.write.resize_with(count, Slot::default),
        }
        self.record(now, track, bytes, lat, times);
    }

    /// Adds what was counted beside this one, in a window that started at the same time.
    ///
    /// # Panics
    /// If both have slots, and not of one length.
    pub fn merge(&mut self, other: &Self) {
        if self.interval == NanoSpan::ZERO {
            self.clone_from(other);
            return;
        }
        if other.interval == NanoSpan::ZERO {
            return;
        }
        if self.interval < other.interval && self.is_growing {
            self.fold();
            return self.merge(other);
        }
        if other.interval < self.interval && other.is_growing {
            let mut longer = other.clone();
            longer.fold();
            return self.merge(&longer);
        }
        assert_eq!(self.interval, other.interval, "windows that are merged have slots of one length");
        for (mine, theirs) in [(&mut self.read, &other.read), (&mut self.write, &other.write)] {
            let count = mine.len().max(theirs.len());
            mine.resize(count, Slot::default());
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| mine.merge(theirs));
        }
    }

    /// The columns to store of a window that turned out to be `window` long; none where nothing was recorded.
    pub fn columns(&self, window: NanoSpan) -> Option<RunSeries> {
        let interval_ns = self.interval.get();
        if interval_ns == 0 || window == NanoSpan::ZERO {
            return None;
        }
        let slots = self.read.len().max(self.write.len());
        let count = (window.get().div_ceil(interval_ns) as usize).clamp(1, slots.max(1));
        let empty = Slot::default();
        let both = |index: usize| {
            let mut sum = self.read.get(index).unwrap_or(&empty).clone();
            sum.merge(self.write.get(index).unwrap_or(&empty));
            sum
        };
        Some(RunSeries {
            interval_ns,
            last_ns: window.get() - interval_ns * (count as u64 - 1),
            read: SeriesColumns::of(self.read.iter().take(count).cloned()),
            write: SeriesColumns::of(self.write.iter().take(count).cloned()),
            total: SeriesColumns::of((0..count).map(both)),
            lat_map: Some(LatencyMap::of(count, interval_ns, both)),
        })
    }
}

/// The length of a slot for a window of the length `run`.
fn interval_of(run: NanoSpan) -> NanoSpan {
    let fits = |secs: &&u64| run.get().div_ceil(NanoSpan::from_secs(**secs).get()) <= SLOTS_MAX;
    let secs = INTERVALS_SECS
        .iter()
        .find(fits)
        .copied()
        .unwrap_or_else(|| run.get() / 1_000_000_000 / SLOTS_MAX + 1);
    NanoSpan::from_secs(secs)
}

/// A run's window over time, as stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RunSeries {
    /// Length of an interval.
    pub interval_ns: u64,
    /// Length of the last one, which the end of the window may have cut short.
    pub last_ns: u64,
    /// Reads; empty columns where the workload has none.
    pub read: SeriesColumns,
    /// Writes; empty columns where the workload has none.
    pub write: SeriesColumns,
    /// Both together.
    pub total: SeriesColumns,
    /// How many requests took how long, over time; none for runs from before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lat_map: Option<LatencyMap>,
}

/// Latencies over time, reads and writes together: a histogram for each stretch of the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LatencyMap {
    /// Length of a stretch: one interval or several; the end of the window may cut the last one short.
    pub interval_ns: u64,
    /// The bins of each stretch that are not empty, as those of [`crate::OpSummary::lat_bins`].
    pub stretches: Vec<Vec<LatencyBin>>,
}

impl LatencyMap {
    /// The map of `count` slots of the length `interval_ns`.
    fn of(count: usize, interval_ns: u64, slot: impl Fn(usize) -> Slot) -> Self {
        let group = count.div_ceil(MAP_COLUMNS).max(1);
        let stretch = |first: usize| {
            let mut sum = Slot::default();
            (first..count.min(first + group)).for_each(|index| sum.merge(&slot(index)));
            let counted = sum.bins.iter().enumerate().filter(|(_, requests)| **requests > 0);
            let steps = counted.map(|(bin, requests)| (bins::upper_ns(bin), u64::from(*requests)));
            bins::coarse(steps, sum.lat_ns_max)
        };
        Self {
            interval_ns: interval_ns.saturating_mul(group as u64),
            stretches: (0..count).step_by(group).map(stretch).collect(),
        }
    }
}

/// One direction over time: a value per interval in each column.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SeriesColumns {
    /// Requests completed without error.
    pub requests: Vec<u64>,
    /// Requests that failed.
    pub errors: Vec<u64>,
    /// Bytes that the successful ones moved.
    pub bytes: Vec<u64>,
    /// Mean total latency, rounded; zero where nothing completed.
    pub lat_ns_mean: Vec<u64>,
    /// Median total latency, at most 12.5 % too large.
    pub lat_ns_p50: Vec<u64>,
    /// 99th percentile of total latency, at most 12.5 % too large.
    pub lat_ns_p99: Vec<u64>,
    /// 99.9th percentile of total latency, at most 12.5 % too large.
    pub lat_ns_p999: Vec<u64>,
    /// Largest total latency, exact.
    pub lat_ns_max: Vec<u64>,
}

impl SeriesColumns {
    fn of(slots: impl Iterator<Item = Slot>) -> Self {
        let mut columns = Self::default();
        for slot in slots {
            let percentile = |pct| bins::percentile_ns(&slot.bins, pct, slot.lat_ns_max);
            columns.requests.push(slot.requests);
            columns.errors.push(slot.errors);
            columns.bytes.push(slot.bytes);
            columns.lat_ns_mean.push((slot.lat_ns_sum + slot.requests / 2) / slot.requests.max(1));
            columns.lat_ns_p50.push(percentile(50.0));
            columns.lat_ns_p99.push(percentile(99.0));
            columns.lat_ns_p999.push(percentile(99.9));
            columns.lat_ns_max.push(slot.lat_ns_max);
        }
        columns
    }

    /// Number of intervals.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there is no interval: the workload has nothing of this direction.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

impl RunSeries {
    /// The length of interval `index` of the columns, which all have as many.
    pub fn span_ns(&self, index: usize) -> u64 {
        if index + 1 == self.total.len() { self.last_ns } else { self.interval_ns }
    }

    /// Seconds from the start of the window to the middle of each interval, where its figures stand in a chart.
    pub fn middles_secs(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.total.len())
            .map(|index| (index as f64 * self.interval_ns as f64 + self.span_ns(index) as f64 / 2.0) / 1e9)
    }

    /// Requests per second in each interval of `columns`.
    pub fn iops<'a>(&'a self, columns: &'a SeriesColumns) -> impl Iterator<Item = f64> + 'a {
        self.rates(&columns.requests)
    }

    /// Bytes per second in each interval of `columns`.
    pub fn bytes_per_sec<'a>(&'a self, columns: &'a SeriesColumns) -> impl Iterator<Item = f64> + 'a {
        self.rates(&columns.bytes)
    }

    fn rates<'a>(&'a self, counts: &'a [u64]) -> impl Iterator<Item = f64> + 'a {
        let rate = |(index, count): (usize, &u64)| *count as f64 * 1e9 / self.span_ns(index).max(1) as f64;
        counts.iter().enumerate().map(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn counted(run_secs: u64, at_ns: &[u64]) -> Series {
        let mut series = Series::allocated(NanoSpan::from_secs(run_secs), true, false);
        series.start(Nanos(0));
        for &at in at_ns {
            series.record(Nanos(at), Track::Read, 4096, Some(NanoSpan(at / 1000)), 1);
        }
        series
    }

    #[test]
    fn completions_fall_into_the_second_in_which_they_happen() {
        let series = counted(4, &[0, 10, SECOND - 1, SECOND, 3 * SECOND, 4 * SECOND]);
        let stored = series.columns(NanoSpan::from_secs(4)).unwrap();
        assert_eq!(stored.read.requests, [3, 1, 0, 2], "the end of the window is in its last slot");
        assert_eq!(stored.total, stored.read);
        assert!(stored.write.is_empty());
        assert_eq!(stored.read.lat_ns_max[1], 1_000_000);
        assert_eq!(stored.read.lat_ns_mean, [333_333, 1_000_000, 0, 3_500_000]);
        assert_eq!(stored.iops(&stored.total).collect::<Vec<_>>(), [3.0, 1.0, 0.0, 2.0]);
        assert_eq!(stored.bytes_per_sec(&stored.total).next(), Some(3.0 * 4096.0));
    }

    #[test]
    fn a_window_that_ends_early_has_a_short_last_interval() {
        let series = counted(60, &[SECOND / 2, SECOND + 1, SECOND + SECOND / 4]);
        let stored = series.columns(NanoSpan(SECOND + SECOND / 4)).unwrap();
        assert_eq!((stored.total.len(), stored.last_ns), (2, SECOND / 4));
        assert_eq!(stored.iops(&stored.total).collect::<Vec<_>>(), [1.0, 8.0]);
        assert_eq!(stored.middles_secs().collect::<Vec<_>>(), [0.5, 1.125]);
    }

    #[test]
    fn the_map_of_latencies_holds_every_request_in_few_columns() {
        for (secs, columns, interval) in [(3, 3, 1), (60, 60, 1), (61, 31, 2), (150, 50, 3)] {
            let at: Vec<u64> = (0..secs).map(|second| second * SECOND + 5_000).collect();
            let stored = counted(secs, &at).columns(NanoSpan::from_secs(secs)).unwrap();
            let map = stored.lat_map.unwrap();
            assert_eq!((map.stretches.len(), map.interval_ns), (columns, interval * SECOND), "{secs}");
            let requests = map.stretches.iter().flatten().map(|bin| bin.requests).sum::<u64>();
            assert_eq!(requests, secs, "{secs}");
            let last = map.stretches.last().and_then(|bins| bins.last()).map(|bin| bin.lat_ns);
            assert_eq!(last, Some((at[at.len() - 1]) / 1000), "the longest of a stretch bounds its last bin");
        }
    }

    #[test]
    fn failures_are_counted_apart() {
        let mut series = counted(1, &[5]);
        series.record(Nanos(6), Track::Read, 4096, None, 1);
        let stored = series.columns(NanoSpan::from_secs(1)).unwrap();
        assert_eq!((&stored.read.requests[..], &stored.read.errors[..]), (&[1][..], &[1][..]));
    }

    #[test]
    fn what_workers_counted_adds_up() {
        let mut sum = Series::default();
        sum.merge(&counted(2, &[0, SECOND]));
        sum.merge(&counted(2, &[SECOND + 1, SECOND + 2]));
        sum.merge(&Series::default());
        let mut writes = Series::allocated(NanoSpan::from_secs(2), false, true);
        writes.start(Nanos(0));
        writes.record(Nanos(3), Track::Write, 512, Some(NanoSpan(70_000)), 1);
        sum.merge(&writes);
        let stored = sum.columns(NanoSpan::from_secs(2)).unwrap();
        assert_eq!((&stored.read.requests[..], &stored.write.requests[..]), (&[1, 3][..], &[1, 0][..]));
        assert_eq!(stored.total.requests, [2, 3]);
    }

    #[test]
    fn a_window_of_unknown_length_doubles_its_intervals() {
        let grown = |secs: &[u64]| {
            let mut series = Series::growing(true, false);
            series.start(Nanos(7));
            for at in secs {
                series.record(Nanos(7 + at * SECOND), Track::Read, 512, Some(NanoSpan(1)), 1);
            }
            series
        };
        let short = grown(&[0, 1, 1, 3599]);
        assert_eq!(short.columns(NanoSpan::from_secs(3600)).unwrap().interval_ns, SECOND);
        let mut long = grown(&[0, 1, 2, 3, 5, 3600, 10_000]);
        let stored = long.columns(NanoSpan::from_secs(10_001)).unwrap();
        assert_eq!((stored.interval_ns, stored.read.len()), (4 * SECOND, 2501));
        let counts = &stored.read.requests;
        assert_eq!((counts[..2].to_vec(), counts[900], counts[2500]), (vec![4, 1], 1, 1));
        assert_eq!(counts.iter().sum::<u64>(), 7);
        long.merge(&short);
        let mut other_way = short;
        other_way.merge(&grown(&[0, 1, 2, 3, 5, 3600, 10_000]));
        for merged in [long, other_way] {
            let stored = merged.columns(NanoSpan::from_secs(10_001)).unwrap();
            assert_eq!(stored.read.requests[..2], [7, 1]);
            assert_eq!(stored.read.requests.iter().sum::<u64>(), 11);
        }
    }

    #[test]
    fn long_windows_have_longer_intervals() {
        for (secs, interval) in [(1, 1), (3600, 1), (3601, 2), (86_400, 30), (100 * 86_400, 3600)] {
            assert_eq!(interval_of(NanoSpan::from_secs(secs)), NanoSpan::from_secs(interval), "{secs}");
        }
        let endless = Series::allocated(NanoSpan(u64::MAX), true, false);
        assert!(endless.read.len() as u64 <= SLOTS_MAX);
    }
}
