//! Loads of many short intervals: how they spread, how bursty they are, and how they go over the hours.
//!
//! Invariant: intervals are in the order of their times. Percentiles are weighted by the length of an interval, so that a pause of
//! the watcher counts as long as it was.

use raidlab_workload::DeviceLoad;
use serde::Serialize;

/// What was moved in a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Interval {
    /// Its start, from the start of the watch.
    pub start_ns: u64,
    /// Its length.
    pub length_ns: u64,
    /// Reads that ended.
    pub reads: u64,
    /// Writes that ended.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Requests in flight, on average.
    pub in_flight_mean: f64,
}

impl Interval {
    /// The interval of `load`, from `start_ns` on.
    pub fn of_load(load: &DeviceLoad, start_ns: u64, length_ns: u64) -> Self {
        Self {
            start_ns,
            length_ns,
            reads: load.reads,
            writes: load.writes,
            read_bytes: load.read_bytes,
            write_bytes: load.write_bytes,
            in_flight_mean: load.in_flight_mean,
        }
    }

    fn seconds(&self) -> f64 {
        self.length_ns.max(1) as f64 / 1e9
    }

    /// Requests per second.
    pub fn iops(&self) -> f64 {
        (self.reads + self.writes) as f64 / self.seconds()
    }

    /// Megabytes per second.
    pub fn mb_per_s(&self) -> f64 {
        (self.read_bytes + self.write_bytes) as f64 / 1e6 / self.seconds()
    }
}

/// All intervals of a watch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Intervals {
    list: Vec<Interval>,
}

impl Intervals {
    /// Keeps `part` of `all` writes, the same share in each interval.
    pub(crate) fn scale_writes(&mut self, part: u64, all: u64) {
        for interval in &mut self.list {
            let share = u128::from(interval.writes) * u128::from(part) / u128::from(all.max(1));
            interval.writes = u64::try_from(share).unwrap_or(u64::MAX);
        }
    }
}

/// How intervals spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct IntervalFigures {
    /// Mean length of an interval.
    pub interval_ns: u64,
    /// Number of intervals.
    pub intervals: u64,
    /// Requests per second that half of the time had at most.
    pub iops_p50: f64,
    /// The same of 95 % of the time.
    pub iops_p95: f64,
    /// The same of 99 % of the time.
    pub iops_p99: f64,
    /// Those of the busiest interval.
    pub iops_max: f64,
    /// Megabytes per second that 95 % of the time had at most.
    pub mb_per_s_p95: f64,
    /// Those of the busiest interval.
    pub mb_per_s_max: f64,
    /// Requests in flight that 95 % of the time had at most.
    pub in_flight_p95: f64,
    /// Share of the time without any request.
    pub idle_pct: f64,
    /// Variance of the requests of an interval over their mean: 1 is Poisson, 0 even, more bursty; none without requests.
    pub dispersion: Option<f64>,
}

/// An hour of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct HourFigures {
    /// From the start of the watch.
    pub hour: u64,
    /// Requests per second.
    pub iops: f64,
    /// Megabytes per second.
    pub mb_per_s: f64,
    /// Share of the requests that read; none without requests.
    pub read_pct: Option<f64>,
}

const HOUR_NS: u64 = 3_600_000_000_000;

impl Intervals {
    /// Adds the next one.
    pub fn push(&mut self, interval: Interval) {
        self.list.push(interval);
    }

    /// All of them, in their order.
    pub fn as_slice(&self) -> &[Interval] {
        &self.list
    }

    /// The value of `figure` that `pct` percent of the time had at most.
    fn percentile(&self, pct: f64, figure: impl Fn(&Interval) -> f64) -> f64 {
        let mut sorted: Vec<(f64, u64)> = self.list.iter().map(|it| (figure(it), it.length_ns)).collect();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let all: u64 = sorted.iter().map(|(_, length)| length).sum();
        let mut behind = all as f64 * pct / 100.0;
        for (value, length) in &sorted {
            behind -= *length as f64;
            if behind <= 0.0 {
                return *value;
            }
        }
        sorted.last().map_or(0.0, |(value, _)| *value)
    }

    /// How they spread; none where there is none.
    pub fn figures(&self) -> Option<IntervalFigures> {
        let all_ns: u64 = self.list.iter().map(|it| it.length_ns).sum();
        let count = self.list.len() as u64;
        let idle = self.list.iter().filter(|it| it.reads + it.writes == 0).map(|it| it.length_ns);
        (count > 0 && all_ns > 0).then(|| IntervalFigures {
            interval_ns: all_ns / count,
            intervals: count,
            iops_p50: self.percentile(50.0, Interval::iops),
            iops_p95: self.percentile(95.0, Interval::iops),
            iops_p99: self.percentile(99.0, Interval::iops),
            iops_max: self.percentile(100.0, Interval::iops),
            mb_per_s_p95: self.percentile(95.0, Interval::mb_per_s),
            mb_per_s_max: self.percentile(100.0, Interval::mb_per_s),
            in_flight_p95: self.percentile(95.0, |it| it.in_flight_mean),
            idle_pct: idle.sum::<u64>() as f64 * 100.0 / all_ns as f64,
            dispersion: self.dispersion(),
        })
    }

    /// Variance of the requests of an interval over their mean.
    pub fn dispersion(&self) -> Option<f64> {
        let counts: Vec<f64> = self.list.iter().map(|it| (it.reads + it.writes) as f64).collect();
        let mean = counts.iter().sum::<f64>() / counts.len().max(1) as f64;
        let variance =
            counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len().max(1) as f64;
        (counts.len() >= 2 && mean > 0.0).then_some(variance / mean)
    }

    /// Hour by hour; empty for a watch of less than two hours.
    pub fn hours(&self) -> Vec<HourFigures> {
        let last = self.list.last().map_or(0, |it| (it.start_ns + it.length_ns) / HOUR_NS);
        if last < 2 {
            return Vec::new();
        }
        let mut hours = vec![Interval::default(); last as usize + 1];
        for it in &self.list {
            let hour = &mut hours[(it.start_ns / HOUR_NS) as usize];
            hour.length_ns += it.length_ns;
            hour.reads += it.reads;
            hour.writes += it.writes;
            hour.read_bytes += it.read_bytes;
            hour.write_bytes += it.write_bytes;
        }
        let figures = |(hour, it): (usize, &Interval)| HourFigures {
            hour: hour as u64,
            iops: it.iops(),
            mb_per_s: it.mb_per_s(),
            read_pct: share_pct(it.reads, it.writes),
        };
        hours.iter().enumerate().filter(|(_, it)| it.length_ns > 0).map(figures).collect()
    }
}

/// Percent that `part` is of itself and `others`; none of nothing.
pub(crate) fn share_pct(part: u64, others: u64) -> Option<f64> {
    (part + others > 0).then(|| part as f64 * 100.0 / (part + others) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(counts: &[(u64, u64)]) -> Intervals {
        let mut start_ns = 0;
        let mut made = Intervals::default();
        for (reads, length_ns) in counts {
            made.push(Interval {
                start_ns,
                length_ns: *length_ns,
                reads: *reads,
                read_bytes: reads * 4096,
                ..Interval::default()
            });
            start_ns += length_ns;
        }
        made
    }

    #[test]
    fn percentiles_are_of_the_time() {
        // Nine tenths of the time idle, then 1000 requests in a tenth of a second.
        let figures = of(&[(0, 900_000_000), (1000, 100_000_000)]).figures().expect("two intervals");
        assert_eq!((figures.iops_p50, figures.iops_p95, figures.iops_max), (0.0, 10_000.0, 10_000.0));
        assert_eq!((figures.idle_pct, figures.dispersion), (90.0, Some(500.0)));
        assert_eq!(Intervals::default().figures(), None);
    }

    #[test]
    fn even_loads_have_no_dispersion_and_idle_ones_none_at_all() {
        assert_eq!(of(&[(7, 10), (7, 10), (7, 10)]).dispersion(), Some(0.0));
        assert_eq!(of(&[(0, 10), (0, 10)]).dispersion(), None);
    }

    #[test]
    fn hours_are_told_of_long_watches() {
        let minute = 60_000_000_000;
        assert!(of(&[(5, minute); 100]).hours().is_empty());
        let counts: Vec<(u64, u64)> = (0..180).map(|it| (if it < 60 { 60 } else { 120 }, minute)).collect();
        let hours = of(&counts).hours();
        let rates: Vec<f64> = hours.iter().map(|hour| hour.iops).collect();
        assert_eq!(rates, [1.0, 2.0, 2.0]);
        assert_eq!(hours[0].read_pct, Some(100.0));
    }
}
