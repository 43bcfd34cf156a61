//! Latency histogram: counts by latency in buckets of a relative width below 0.1 %.
//!
//! The buckets are those of an HDR histogram with three significant digits over 1 ns to 1 h:
//! ```text
//! 0 1 2 ... 2047 | 2048 2050 ... 4094 | 4096 4100 ... 8188 | ...      1024 steps for each further power of two
//! ```
//! A percentile read from them is at most 0.1 % above the true one and never below. Count, sum, minimum and maximum are
//! exact and kept beside the buckets. A latency above one hour counts as one hour in the buckets (not in the sum and
//! the maximum).
//!
//! Counting a latency takes a count of leading zeros, two shifts and an addition: it happens for every I/O of a load
//! whose engine may take only 10 ns. That is why the buckets are written here.
//!
//! The buckets (270 KiB) are allocated with the first record, so an unused histogram costs nothing. Between processes a
//! histogram is sent as its non-empty buckets ([`HistogramRecord`]).
//! Source: Gil Tene, `HdrHistogram` (hdrhistogram.org); fio `stat.h` for the same idea.

use serde::{Deserialize, Serialize};

/// Longest latency that the buckets tell apart.
const LAT_NS_MAX_TRACKED: u64 = 3_600_000_000_000;
/// Steps for each power of two, as a power of two: three significant digits.
const STEP_BITS: u32 = 10;
/// Number of buckets.
const BUCKETS: usize = bucket_of(LAT_NS_MAX_TRACKED) + 1;

type Buckets = [u64; BUCKETS];

/// How often each latency occurred.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[schemars(with = "HistogramRecord")]
#[serde(into = "HistogramRecord", try_from = "HistogramRecord")]
pub struct LatencyHistogram {
    buckets: Option<Box<Buckets>>,
    count: u64,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { buckets: None, count: 0, sum_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

/// A histogram for another process: numbers and counts of the buckets that are not empty, and what is kept beside them.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
struct HistogramRecord {
    buckets: Vec<(u32, u64)>,
    sum_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

/// A bucket that no histogram has, or a count beyond all bounds: the record is of something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("latency bucket {bucket} does not exist, or counts too many")]
pub struct HistogramRecordError {
    /// Its number.
    pub bucket: u32,
}

impl From<LatencyHistogram> for HistogramRecord {
    fn from(histogram: LatencyHistogram) -> Self {
        let LatencyHistogram { buckets, sum_ns, min_ns, max_ns, .. } = histogram;
        let all = buckets.iter().flat_map(|buckets| (0..).zip(buckets.iter().copied()));
        Self { buckets: all.filter(|(_, count)| *count > 0).collect(), sum_ns, min_ns, max_ns }
    }
}

impl TryFrom<HistogramRecord> for LatencyHistogram {
    type Error = HistogramRecordError;

    fn try_from(record: HistogramRecord) -> Result<Self, HistogramRecordError> {
        let HistogramRecord { buckets, sum_ns, min_ns, max_ns } = record;
        let mut histogram = Self { sum_ns, min_ns, max_ns, ..Self::default() };
        for (bucket, times) in buckets {
            let own = histogram.buckets.get_or_insert_with(new_buckets).get_mut(bucket as usize);
            let sum = own.and_then(|own| {
                *own = own.checked_add(times)?;
                histogram.count.checked_add(times)
            });
            histogram.count = sum.ok_or(HistogramRecordError { bucket })?;
        }
        Ok(histogram)
    }
}

impl LatencyHistogram {
    /// Returns an empty histogram whose buckets are allocated already, for hot loops.
    pub fn allocated() -> Self {
        Self { buckets: Some(new_buckets()), ..Self::default() }
    }

    /// Counts one latency.
    #[inline]
    pub fn record_ns(&mut self, lat_ns: u64) {
        self.record_many_ns(lat_ns, 1);
    }

    /// Counts the same latency `times` times, above zero.
    #[inline]
    pub fn record_many_ns(&mut self, lat_ns: u64, times: u64) {
        let buckets = match &mut self.buckets {
            Some(buckets) => buckets,
            none => none.insert(new_buckets()),
        };
        buckets[bucket_of(lat_ns).min(BUCKETS - 1)] += times;
        self.count += times;
        self.sum_ns += u128::from(lat_ns) * u128::from(times);
        self.min_ns = self.min_ns.min(lat_ns);
        self.max_ns = self.max_ns.max(lat_ns);
    }

    /// Adds all that `other` counted.
    pub fn merge(&mut self, other: &Self) {
        if let Some(theirs) = &other.buckets {
            let ours = self.buckets.get_or_insert_with(new_buckets);
            ours.iter_mut().zip(theirs.iter()).for_each(|(ours, theirs)| *ours += theirs);
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Number of latencies counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact mean in nanoseconds; zero when nothing was counted.
    pub fn mean_ns(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum_ns as f64 / count as f64,
        }
    }

    /// Standard deviation in nanoseconds, from the buckets (off by less than 0.2 % of the mean); zero when nothing was
    /// counted.
    pub fn stddev_ns(&self) -> f64 {
        let mean_ns = self.mean_ns();
        let squares = |(lat_ns, count): (u64, u64)| (lat_ns as f64 - mean_ns).powi(2) * count as f64;
        match self.count() {
            0 => 0.0,
            count => (self.iter().map(squares).sum::<f64>() / count as f64).sqrt(),
        }
    }

    /// Exact smallest in nanoseconds; zero when nothing was counted.
    pub fn min_ns(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.min_ns }
    }

    /// Exact largest in nanoseconds; zero when nothing was counted.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the latency that `pct` percent of all stay at or below (nearest rank), at most 0.1 % too large, in
    /// nanoseconds; zero when nothing was counted. `pct` is taken within 0 to 100.
    pub fn percentile_ns(&self, pct: f64) -> u64 {
        let rank = ((pct.clamp(0.0, 100.0) / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut so_far = 0;
        let reached = self.iter().find(|(_, count)| {
            so_far += count;
            so_far >= rank
        });
        reached.map_or(0, |(lat_ns, _)| lat_ns.clamp(self.min_ns, self.max_ns))
    }

    /// Hands out the buckets that are not empty, in rising order: the largest latency of each in nanoseconds, and
    /// how many it counted.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let buckets = self.buckets.iter().flat_map(|buckets| buckets.iter().copied().enumerate());
        buckets.filter(|(_, count)| *count > 0).map(|(bucket, count)| (largest_of(bucket), count))
    }
}

/// Steps for each power of two of [`LatencySteps`], as a power of two: an eighth of the latency and less.
const COARSE_BITS: u32 = 3;
/// Number of those steps.
const STEPS: usize = step_of(LAT_NS_MAX_TRACKED) + 1;

/// How often each latency occurred, to an eighth of it: small enough to be told while a load runs. The difference of two is what
/// happened between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySteps([u64; STEPS]);

impl Default for LatencySteps {
    fn default() -> Self {
        Self([0; STEPS])
    }
}

impl LatencySteps {
    /// Adds what `histogram` counted.
    pub fn add_histogram(&mut self, histogram: &LatencyHistogram) {
        let Some(buckets) = &histogram.buckets else { return };
        // Only where there is something: there are many buckets.
        let (least, most) = (bucket_of(histogram.min_ns()), bucket_of(histogram.max_ns()).min(BUCKETS - 1));
        for bucket in least.min(most)..=most {
            self.0[step_of(largest_of(bucket)).min(STEPS - 1)] += buckets[bucket];
        }
    }

    /// Adds all that `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own += other);
    }

    /// What was counted since `before`; nothing where counting began anew meanwhile.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut between = *self;
        between.0.iter_mut().zip(&before.0).for_each(|(own, before)| *own = own.saturating_sub(*before));
        between
    }

    /// Number of latencies counted.
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The latency that `pct` percent of all stay at or below, up to an eighth too large, in nanoseconds; none where nothing was
    /// counted.
    pub fn percentile_ns(&self, pct: f64) -> Option<u64> {
        let rank = ((pct.clamp(0.0, 100.0) / 100.0 * self.count() as f64).ceil() as u64).max(1);
        let mut so_far = 0;
        let reached = self.0.iter().position(|count| {
            so_far += count;
            so_far >= rank
        });
        reached.map(largest_of_step)
    }
}

/// Which step counts a latency.
const fn step_of(lat_ns: u64) -> usize {
    let shift = (lat_ns | ((2 << COARSE_BITS) - 1)).ilog2() - COARSE_BITS;
    ((shift as usize) << COARSE_BITS) + (lat_ns >> shift) as usize
}

/// The largest latency that a step counts.
const fn largest_of_step(step: usize) -> u64 {
    let shift = (step >> COARSE_BITS).saturating_sub(1);
    let own = (step - (shift << COARSE_BITS)) as u64;
    ((own + 1) << shift) - 1
}

/// Which bucket counts a latency, if there were buckets without end.
#[inline]
const fn bucket_of(lat_ns: u64) -> usize {
    let shift = (lat_ns | ((2 << STEP_BITS) - 1)).ilog2() - STEP_BITS;
    ((shift as usize) << STEP_BITS) + (lat_ns >> shift) as usize
}

/// The largest latency that a bucket counts.
const fn largest_of(bucket: usize) -> u64 {
    let shift = (bucket >> STEP_BITS).saturating_sub(1);
    let step = (bucket - (shift << STEP_BITS)) as u64;
    ((step + 1) << shift) - 1
}

fn new_buckets() -> Box<Buckets> {
    let buckets = vec![0; BUCKETS].into_boxed_slice();
    buckets.try_into().unwrap_or_else(|_| unreachable!("it was made of this length"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_deviation_is_that_of_the_latencies() {
        let mut histogram = LatencyHistogram::default();
        assert!(histogram.stddev_ns().abs() < f64::EPSILON);
        for lat_ns in [2, 4, 4, 4, 5, 5, 7, 9] {
            histogram.record_ns(lat_ns * 100_000);
        }
        // The textbook's example, with a standard deviation of 2.
        assert!((histogram.stddev_ns() / 200_000.0 - 1.0).abs() < 0.002, "{}", histogram.stddev_ns());
    }

    /// The value of nearest rank, from a sorted list.
    fn oracle_percentile(sorted: &[u64], pct: f64) -> u64 {
        let rank = (pct / 100.0 * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[rank.min(sorted.len()) - 1]
    }

    fn latencies() -> impl Strategy<Value = Vec<u64>> {
        let latency = prop_oneof![0u64..5000, 1000u64..2_000_000, 1_000_000u64..LAT_NS_MAX_TRACKED];
        proptest::collection::vec(latency, 1..400)
    }

    fn histogram_of(values: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        for &value in values {
            histogram.record_ns(value);
        }
        histogram
    }

    proptest! {
        #[test]
        fn steps_tell_percentiles_of_what_came_between(before in latencies(), after in latencies()) {
            let (mut first, mut second) = (LatencySteps::default(), LatencySteps::default());
            first.add_histogram(&histogram_of(&before));
            second.add_histogram(&histogram_of(&[before, after.clone()].concat()));
            let between = second.since(&first);
            prop_assert_eq!(between.count(), after.len() as u64);
            let exact = histogram_of(&after);
            for pct in [50.0, 99.0, 100.0] {
                let (told, exact) = (between.percentile_ns(pct).expect("some"), exact.percentile_ns(pct));
                prop_assert!(told as f64 >= 0.998 * exact as f64 && told as f64 <= 1.126 * exact as f64 + 1.0, "{told} {exact}");
            }
            prop_assert_eq!(second.since(&second).percentile_ns(50.0), None);
        }

        #[test]
        fn percentiles_are_at_most_a_thousandth_above_a_sorted_list(values in latencies()) {
            let histogram = histogram_of(&values);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for pct in [0.0, 1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0] {
                let exact = oracle_percentile(&sorted, pct);
                let read = histogram.percentile_ns(pct);
                prop_assert!(read >= exact, "{pct}%: {read} below {exact}");
                prop_assert!(read as f64 <= exact as f64 * 1.001, "{pct}%: {read} too far above {exact}");
            }
            let sum: u128 = values.iter().map(|&v| u128::from(v)).sum();
            prop_assert_eq!(histogram.mean_ns(), sum as f64 / values.len() as f64);
            prop_assert_eq!(histogram.min_ns(), sorted[0]);
            prop_assert_eq!(histogram.max_ns(), sorted[sorted.len() - 1]);
        }

        #[test]
        fn merging_is_counting_together(a in latencies(), b in latencies()) {
            let mut merged = histogram_of(&a);
            merged.merge(&histogram_of(&b));
            let together = histogram_of(&[a, b].concat());
            prop_assert_eq!(merged.count(), together.count());
            prop_assert_eq!(merged.mean_ns(), together.mean_ns());
            prop_assert_eq!((merged.min_ns(), merged.max_ns()), (together.min_ns(), together.max_ns()));
            prop_assert_eq!(merged.iter().collect::<Vec<_>>(), together.iter().collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn a_record_brings_back_the_same_histogram(values in latencies()) {
            let histogram = histogram_of(&values);
            let text = serde_json::to_string(&histogram).unwrap();
            let back: LatencyHistogram = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(back.count(), histogram.count());
            prop_assert_eq!(back.mean_ns(), histogram.mean_ns());
            prop_assert_eq!((back.min_ns(), back.max_ns()), (histogram.min_ns(), histogram.max_ns()));
            prop_assert_eq!(back.iter().collect::<Vec<_>>(), histogram.iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_record_of_something_else_is_refused() {
        let max = u64::MAX;
        let records = [
            format!(r#"{{"buckets":[[{BUCKETS},1]],"sum_ns":0,"min_ns":0,"max_ns":0}}"#),
            format!(r#"{{"buckets":[[0,{max}],[1,1]],"sum_ns":0,"min_ns":0,"max_ns":0}}"#),
            format!(r#"{{"buckets":[[7,{max}],[7,1]],"sum_ns":0,"min_ns":0,"max_ns":0}}"#),
        ];
        for record in records {
            assert!(serde_json::from_str::<LatencyHistogram>(&record).is_err(), "{record}");
        }
        let empty: LatencyHistogram =
            serde_json::from_str(r#"{"buckets":[],"sum_ns":0,"min_ns":18446744073709551615,"max_ns":0}"#)
                .unwrap();
        assert_eq!((empty.count(), empty.min_ns(), empty.max_ns()), (0, 0, 0));
    }

    #[test]
    fn an_empty_histogram_reads_as_zero_and_adds_nothing() {
        for empty in [LatencyHistogram::default(), LatencyHistogram::allocated()] {
            let figures = (empty.count(), empty.min_ns(), empty.max_ns(), empty.percentile_ns(99.0));
            assert_eq!(figures, (0, 0, 0, 0));
            assert_eq!(empty.mean_ns(), 0.0);
            assert_eq!(empty.iter().count(), 0);
            let mut histogram = histogram_of(&[7]);
            histogram.merge(&empty);
            assert_eq!((histogram.count(), histogram.min_ns(), histogram.max_ns()), (1, 7, 7));
        }
    }

    #[test]
    fn more_than_an_hour_saturates_the_buckets_only() {
        let two_hours = 2 * LAT_NS_MAX_TRACKED;
        let histogram = histogram_of(&[1000, two_hours]);
        assert_eq!(histogram.max_ns(), two_hours);
        assert_eq!(histogram.mean_ns(), (1000 + two_hours) as f64 / 2.0);
        let p100 = histogram.percentile_ns(100.0);
        assert!((LAT_NS_MAX_TRACKED..two_hours).contains(&p100), "{p100}");
    }

    #[test]
    fn buckets_come_in_rising_order_and_hold_everything() {
        let histogram = histogram_of(&[5, 5, 900, 70_000, 70_001, 2_000_000]);
        let buckets: Vec<(u64, u64)> = histogram.iter().collect();
        assert!(buckets.is_sorted_by_key(|bucket| bucket.0));
        assert_eq!(buckets.iter().map(|bucket| bucket.1).sum::<u64>(), 6);
        assert_eq!(buckets[0], (5, 2));
    }
}
