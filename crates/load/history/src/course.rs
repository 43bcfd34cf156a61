//! Figures over time: each reading weighs as much as the time that it covers, or as the requests that it tells of.
//!
//! ```text
//!            00:00                    02:00
//! readings     |--- 1 h, 10 IOPS ---|1 s, 5000|
//! mean         (3600 x 10 + 1 x 5000) / 3601, and not (10 + 5000) / 2
//! ```
//! A reading behind a gap, in which nobody watched, weighs as one interval of those around it (`close_gaps`).
//!
//! A reading carries the end of its interval: what it tells lies before that, in all hours and days that the interval touches.

use crate::reading::Reading;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) const DAY_S: f64 = 86_400.0;
const HOUR_S: f64 = 3600.0;
/// Days of which growth can be told.
const GROWTH_DAYS_MIN: usize = 28;
/// A reading of a longer time says nothing of its days, and is damage more often than not.
const COVERED_S_MAX: f64 = 3660.0 * DAY_S;
/// The busiest hour is so much above the mean at least.
const PEAK_FACTOR: f64 = 1.05;

/// A figure over the whole history: each reading weighs as much as the time that it covers, and times of requests as much as their requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Percentiles {
    /// Mean.
    pub mean: f64,
    /// Half of the time, or of the requests, it was at most so much.
    pub p50: f64,
    /// 95 % it was.
    pub p95: f64,
    /// 99 % it was.
    pub p99: f64,
    /// The most.
    pub max: f64,
}

impl Percentiles {
    /// Of values with their weights.
    pub(crate) fn of(values: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        /// What sums of weights lose to rounding.
        const ROUNDING: f64 = 1e-9;
        let mut sorted: Vec<(f64, f64)> =
            values.filter(|(value, weight)| value.is_finite() && *weight > 0.0).collect();
        sorted.sort_by(|one, other| one.0.total_cmp(&other.0));
        let max = sorted.last()?.0;
        let whole: f64 = sorted.iter().map(|(_, weight)| weight).sum();
        let at = |pct: f64| {
            let (mut below, least) = (0.0, whole * (pct / 100.0 - ROUNDING));
            let found = sorted.iter().find(|(_, weight)| {
                below += weight;
                below >= least
            });
            found.map_or(max, |(value, _)| *value)
        };
        let mean = sorted.iter().map(|(value, weight)| value * weight).sum::<f64>() / whole;
        Some(Self { mean, p50: at(50.0), p95: at(95.0), p99: at(99.0), max })
    }
}

/// The readings of a device, each with the seconds that it covers.
pub(crate) struct Course<'a> {
    list: Vec<(&'a Reading, f64)>,
}

impl<'a> Course<'a> {
    /// A reading that does not tell its time counts as the usual one of the others; where none does, all count alike.
    pub(crate) fn of(list: &'a [Reading]) -> Self {
        let told = |it: &Reading| it.interval_s.filter(|it| *it > 0.0 && *it <= COVERED_S_MAX);
        let usual =
            Percentiles::of(list.iter().filter_map(told).map(|it| (it, 1.0))).map_or(1.0, |it| it.p50);
        Self { list: list.iter().map(|it| (it, told(it).unwrap_or(usual))).collect() }
    }

    /// A figure over time.
    pub(crate) fn figure(&self, figure: impl Fn(&Reading) -> Option<f64>) -> Option<Percentiles> {
        Percentiles::of(self.list.iter().filter_map(|(it, covers)| Some((figure(it)?, *covers))))
    }

    /// The time that a request took, over the requests; over time where their number is not told.
    pub(crate) fn latency(
        &self,
        ms: fn(&Reading) -> Option<f64>,
        rate: fn(&Reading) -> Option<f64>,
    ) -> Option<Percentiles> {
        let told = |it: &Reading| ms(it).filter(|ms| *ms > 0.0);
        let by_requests = self.list.iter().filter_map(|(it, covers)| Some((told(it)?, rate(it)? * covers)));
        Percentiles::of(by_requests).or_else(|| self.figure(told))
    }

    /// Sums of two rates over the readings that tell both.
    pub(crate) fn both(
        &self,
        one: fn(&Reading) -> Option<f64>,
        other: fn(&Reading) -> Option<f64>,
    ) -> Option<(f64, f64)> {
        let each = self.list.iter().filter_map(|(it, covers)| Some((one(it)? * covers, other(it)? * covers)));
        each.reduce(|sum, it| (sum.0 + it.0, sum.1 + it.1))
    }

    /// Length of the readings that most of the time is told by, where it is told.
    pub(crate) fn interval_s(&self) -> Option<f64> {
        let told = self.list.iter().filter(|(it, _)| it.interval_s.is_some());
        Percentiles::of(told.map(|(_, covers)| (*covers, *covers))).map(|it| it.p50)
    }

    /// From the beginning of the first reading to the end of the last.
    pub(crate) fn days(&self) -> Option<f64> {
        let ends = || self.list.iter().filter_map(|(it, covers)| Some((it, it.at_s?, covers)));
        let begins = ends().map(|(it, at_s, covers)| it.interval_s.map_or(at_s, |_| at_s - covers));
        let first = begins.fold(f64::INFINITY, f64::min);
        let last = ends().map(|(_, at_s, _)| at_s).fold(f64::NEG_INFINITY, f64::max);
        (last > first).then(|| (last - first) / DAY_S)
    }

    /// End, length and rate of those readings that tell all three.
    fn requests(&self) -> impl Iterator<Item = (f64, f64, f64)> {
        self.list.iter().filter_map(|(it, covers)| Some((it.at_s?, *covers, it.iops()?)))
    }

    /// Mean requests per second of each hour of the day; empty for less than a day.
    pub(crate) fn by_hour(&self) -> Vec<f64> {
        let mut hours = [(0.0, 0.0); 24];
        for (at_s, covers, iops) in self.requests() {
            // Whole days touch all hours alike.
            let whole_days = (covers / DAY_S).floor();
            let mut add = |hour: f64, seconds: f64| {
                let (requests, covered) = &mut hours[hour as usize % 24];
                *requests += iops * seconds;
                *covered += seconds;
            };
            if whole_days > 0.0 {
                (0..24).for_each(|hour| add(f64::from(hour), whole_days * HOUR_S));
            }
            let rest = covers - whole_days * DAY_S;
            spread(at_s, rest, HOUR_S, |hour, seconds| add(hour.rem_euclid(24.0), seconds));
        }
        let is_whole = self.days().is_some_and(|days| days >= 0.95) && hours.iter().all(|(_, s)| *s > 0.0);
        if is_whole { hours.iter().map(|(sum, covered)| sum / covered).collect() } else { Vec::new() }
    }

    /// Percent per year by which daily means grow, by least squares; a day weighs as much as what is told of it.
    pub(crate) fn growth(&self) -> Option<f64> {
        let mut days: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
        for (at_s, covers, iops) in self.requests() {
            spread(at_s, covers, DAY_S, |day, seconds| {
                let (requests, covered) = days.entry(day as i64).or_default();
                *requests += iops * seconds;
                *covered += seconds;
            });
        }
        // Day, mean, weight.
        let points: Vec<(f64, f64, f64)> =
            days.iter().map(|(day, (sum, covered))| (*day as f64, sum / covered, *covered)).collect();
        let whole: f64 = points.iter().map(|it| it.2).sum();
        let mean = |part: &dyn Fn(&(f64, f64, f64)) -> f64| {
            points.iter().map(|it| part(it) * it.2).sum::<f64>() / whole
        };
        let (mean_day, mean_iops) = (mean(&|it| it.0), mean(&|it| it.1));
        let covariance = mean(&|it| (it.0 - mean_day) * (it.1 - mean_iops));
        let variance = mean(&|it| (it.0 - mean_day).powi(2));
        let is_told = points.len() >= GROWTH_DAYS_MIN && mean_iops > 0.0 && variance > 0.0;
        is_told.then(|| covariance / variance * 365.25 * 100.0 / mean_iops)
    }
}

/// The hour of the day with most requests; none of a day that is flat.
pub(crate) fn busiest_hour(by_hour: &[f64]) -> Option<u8> {
    let mean = by_hour.iter().sum::<f64>() / by_hour.len() as f64;
    let (hour, most) = by_hour.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1))?;
    (*most > mean * PEAK_FACTOR).then_some(hour as u8)
}

/// Gives a reading that spans a gap the interval of those around it, and counts such: whoever watches stopped meanwhile, and what the reading
/// tells is that of one interval, or a mean of the gap in which no peak is seen. Either is one reading.
pub(crate) fn close_gaps(list: &mut [Reading]) -> u64 {
    /// So many intervals of those around it are a gap; fewer are readings that were lost one by one.
    const GAP: f64 = 10.0;
    /// So many readings on either side are looked at. With fewer than this in all nothing tells a gap from a long interval.
    const AROUND: usize = 4;
    let told: Vec<Option<f64>> = list.iter().map(|it| it.interval_s).collect();
    let mut gaps = 0;
    for (at, reading) in list.iter_mut().enumerate() {
        let Some(own) = told[at] else { continue };
        let (before, after) = (&told[at.saturating_sub(AROUND)..at], &told[at + 1..]);
        let mut around: Vec<f64> =
            before.iter().chain(after.iter().take(AROUND)).copied().flatten().collect();
        // Where intervals change for good, half of those around it are as long.
        around.sort_by(f64::total_cmp);
        let usual = around.get(around.len() / 2).copied().filter(|_| around.len() >= AROUND);
        if let Some(usual) = usual.filter(|usual| own > usual * GAP) {
            reading.interval_s = Some(usual);
            gaps += 1;
        }
    }
    gaps
}

/// Hands the seconds out that an interval of `covers` seconds before `at_s` lies in each span of `length` seconds, by the number of the span.
fn spread(at_s: f64, covers: f64, length: f64, mut each: impl FnMut(f64, f64)) {
    let mut from_s = at_s - covers;
    let mut span = (from_s / length).floor();
    while from_s < at_s {
        let to_s = ((span + 1.0) * length).min(at_s);
        if to_s > from_s {
            each(span, to_s - from_s);
        }
        (from_s, span) = (to_s.max(from_s), span + 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at_s: f64, interval_s: f64, iops: f64) -> Reading {
        Reading {
            at_s: Some(at_s),
            interval_s: Some(interval_s),
            writes: Some(iops),
            write_bytes: Some(iops * 4096.0),
            write_ms: Some(if iops > 100.0 { 1.0 } else { 5.0 }),
            ..Reading::default()
        }
    }

    #[test]
    fn readings_weigh_as_much_as_the_time_that_they_cover() {
        let list = [reading(60.0, 60.0, 1000.0), reading(120.0, 60.0, 1000.0), reading(7320.0, 7200.0, 0.0)];
        let course = Course::of(&list);
        let iops = course.figure(Reading::iops).expect("it is told");
        assert_eq!((iops.mean.round(), iops.p95, iops.p99, iops.max), (16.0, 0.0, 1000.0, 1000.0));
        assert_eq!((course.days(), course.interval_s()), (Some(7320.0 / DAY_S), Some(7200.0)));
        // A day of ten minutes each, and five minutes of seconds.
        let day = (1..=144).map(|at| reading(f64::from(at) * 600.0, 600.0, 10.0));
        let burst = (1..=300).map(|at| reading(DAY_S + f64::from(at), 1.0, 5000.0));
        let list: Vec<Reading> = day.chain(burst).collect();
        let course = Course::of(&list);
        let iops = course.figure(Reading::iops).expect("it is told");
        assert_eq!((iops.mean.round(), iops.p99, iops.max), (27.0, 10.0, 5000.0));
        let (bytes, writes) = course.both(|it| it.write_bytes, |it| it.writes).expect("both are told");
        assert_eq!(bytes / writes, 4096.0);
        // 864 000 requests of 5 ms, 1 500 000 of 1 ms.
        let ms = course.latency(|it| it.write_ms, |it| it.writes).expect("it is told");
        assert_eq!(((ms.mean * 1000.0).round(), ms.p50), (2462.0, 1.0));
    }

    /// Ten hours without readings were 85 % of the time of a history, with one mean.
    #[test]
    fn a_reading_behind_a_gap_is_one_interval() {
        let steady = |from_s: f64, interval_s: f64, count: u32| {
            (1..=count).map(move |at| reading(from_s + f64::from(at) * interval_s, interval_s, 100.0))
        };
        let after_gap = |list: &mut Vec<Reading>, gap_s: f64| {
            let last_s = list.last().and_then(|it| it.at_s).unwrap_or(0.0);
            list.push(reading(last_s + gap_s, gap_s, 1.0));
        };
        let mut list: Vec<Reading> = steady(0.0, 15.0, 400).collect();
        after_gap(&mut list, 36_000.0);
        after_gap(&mut list, 7200.0);
        list.extend(steady(50_000.0, 15.0, 4));
        assert_eq!(close_gaps(&mut list), 2);
        let iops = Course::of(&list).figure(Reading::iops).expect("it is told");
        assert_eq!((iops.mean.round(), iops.p50, iops.p95), (100.0, 100.0, 100.0));
        // An interval that changes for good, lost readings, and so few that nothing is usual.
        let mut changed: Vec<Reading> = steady(0.0, 600.0, 20).chain(steady(12_000.0, 1.0, 300)).collect();
        changed.extend(steady(12_300.0, 600.0, 20));
        let mut lost: Vec<Reading> = steady(0.0, 15.0, 40).collect();
        after_gap(&mut lost, 120.0);
        let mut few: Vec<Reading> = steady(0.0, 15.0, 3).collect();
        after_gap(&mut few, 36_000.0);
        for mut list in [changed, lost, few] {
            assert_eq!(close_gaps(&mut list), 0);
        }
    }

    #[test]
    fn what_a_reading_tells_lies_before_its_end() {
        // Ten minutes each: all that ends after 9:00 and by 10:00 is of the hour from 9.
        let day = |peak: f64| -> Vec<Reading> {
            let at = (1..=144).map(|at| f64::from(at) * 600.0);
            at.map(|at_s| {
                reading(at_s, 600.0, if at_s > 9.0 * 3600.0 && at_s <= 36_000.0 { peak } else { 10.0 })
            })
            .collect()
        };
        let hours = Course::of(&day(50.0)).by_hour();
        assert_eq!((hours[8], hours[9], hours[10], busiest_hour(&hours)), (10.0, 50.0, 10.0, Some(9)));
        let flat = Course::of(&day(10.0)).by_hour();
        assert_eq!((flat.len(), busiest_hour(&flat)), (24, None));
        // Two hours and a half that end at a quarter past, and longer than a day.
        let mut seen = Vec::new();
        spread(3.25 * 3600.0, 9000.0, HOUR_S, |hour, seconds| seen.push((hour, seconds)));
        assert_eq!(seen, [(0.0, 900.0), (1.0, 3600.0), (2.0, 3600.0), (3.0, 900.0)]);
        let long = [reading(2.0 * DAY_S, 2.0 * DAY_S, 7.0)];
        assert_eq!(Course::of(&long).by_hour(), [7.0; 24]);
    }

    #[test]
    fn a_day_of_few_readings_does_not_bend_growth() {
        let mut list: Vec<Reading> =
            (1..=40).map(|day| reading(f64::from(day) * DAY_S, DAY_S, 100.0)).collect();
        list.push(reading(40.0 * DAY_S + 10.0, 10.0, 100_000.0));
        let growth = Course::of(&list).growth().expect("it is long enough");
        assert!(growth < 200.0, "{growth}");
    }
}
