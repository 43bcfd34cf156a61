//! Searches for the load at which a bound is just kept, and interpolates a figure there.
//!
//! ```text
//! requests/s │          ·   ·  above      by Little's law a load of n requests that take t each is a rate of n / t, so
//!            │      ×─────── the figure   that the next load to try is the last one's rate times the limit
//!            │  ·  below
//!            └──────┼──────── mean time
//!                 limit
//! ```
//! A bound on a percentile is searched in the same way, as if it grew with the load like the mean. The figure is
//! interpolated between the nearest points on both sides, which are kept: they show its certainty. [`crate::find_load`]
//! builds on this search and adds repeats. Invariant: the points depend only on the limit, the step and the results of
//! the runs.

use raidlab_advisor::Bound;
use raidlab_units::NanoSpan;
use raidlab_workload::RunResult;
use serde::{Deserialize, Serialize};

/// Points of load to try at most.
const POINTS_MAX: usize = 12;
/// The greatest load to try.
const IODEPTH_MAX: u32 = 16_384;
/// Two loads as near as this on both sides of the limit are near enough: the rate between them is as good as straight.
const NEAR: f64 = 1.12;

/// A load that was tried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LoadPoint {
    /// Requests in flight.
    pub iodepth: u32,
    /// What is bounded, in nanoseconds; the mean time unless the bound is on a percentile.
    pub bounded_ns: f64,
    /// Mean time of a request in nanoseconds.
    pub lat_ns_mean: f64,
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_sec: f64,
}

/// A figure that was read off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ReadOff {
    /// Mean time of a request at which it was read off.
    pub limit: NanoSpan,
    /// Requests per second there.
    pub iops: f64,
    /// Bytes per second there.
    pub bytes_per_sec: f64,
    /// Whether loads on both sides of the limit were found. If not, the figure is the nearest load's.
    pub bracketed: bool,
    /// Every load that was tried, by its requests in flight.
    pub points: Vec<LoadPoint>,
}

impl ReadOff {
    /// How far apart the rates of the nearest loads on both sides of the limit are, in percent of the figure: what
    /// interpolating can be wrong by at most. Unknown if one side is missing.
    pub fn gap_pct(&self) -> Option<f64> {
        let limit_ns = self.limit.0 as f64;
        let below = self.points.iter().rfind(|point| point.lat_ns_mean <= limit_ns)?;
        let above = self.points.iter().find(|point| point.lat_ns_mean > limit_ns)?;
        Some((above.iops - below.iops).abs() / self.iops * 100.0)
    }
}

impl LoadPoint {
    pub(crate) fn of(iodepth: u32, bound: &Bound, result: &RunResult) -> Self {
        let total = &result.ops.total;
        Self {
            iodepth,
            bounded_ns: bound.figure_of(result),
            lat_ns_mean: total.lat_ns_mean,
            iops: total.iops.0,
            bytes_per_sec: total.bytes_per_sec.0,
        }
    }
}

/// Where a search begins, and how fine it gets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchRange {
    /// The load to try first.
    pub(crate) first: u32,
    /// Loads are multiples of this.
    pub(crate) step: u32,
    /// The greatest load to try.
    pub(crate) max: u32,
    /// Two loads on both sides of the limit are near enough if their ratio is at most this.
    pub(crate) near: f64,
    /// Points to try at most.
    pub(crate) points_max: usize,
    /// Whether the load is requests in flight, which Little's law ties to time; else it is a rate.
    pub(crate) is_depth: bool,
}

/// The points so far, and the nearest ones on both sides of the limit.
pub(crate) struct Search<'a> {
    bound: &'a Bound,
    range: SearchRange,
    pub(crate) points: Vec<LoadPoint>,
    pub(crate) below: Option<(LoadPoint, RunResult)>,
    pub(crate) above: Option<(LoadPoint, RunResult)>,
}

/// Raises or lowers the load, from `first` requests in flight, in multiples of `step`, until requests take `limit` on
/// average. Returns the figure and the run at the greatest load that keeps to the limit, or at the least one of all.
///
/// # Errors
/// Those of `run`.
pub fn read_off<E>(
    limit: NanoSpan,
    (first, step): (u32, u32),
    run: impl FnMut(u32) -> Result<RunResult, E>,
) -> Result<(ReadOff, RunResult), E> {
    let bound = Bound::on_mean(limit);
    let range = SearchRange {
        first,
        step: step.max(1),
        max: IODEPTH_MAX,
        near: NEAR,
        points_max: POINTS_MAX,
        is_depth: true,
    };
    Ok(Search::run(&bound, range, run)?.finish(limit))
}

/// The same from runs that were done: where the load that takes `limit` on average lies among them. None without a run.
pub fn at_limit(limit: NanoSpan, runs: &[&RunResult]) -> Option<ReadOff> {
    let bound = Bound::on_mean(limit);
    let range = SearchRange {
        first: 1,
        step: 1,
        max: IODEPTH_MAX,
        near: NEAR,
        points_max: runs.len(),
        is_depth: true,
    };
    let mut search = Search::new(&bound, range);
    for run in runs {
        search.take(run.iodepth, RunResult::clone(run));
    }
    (!runs.is_empty()).then(|| search.finish(limit).0)
}

impl<'a> Search<'a> {
    /// Nothing tried yet.
    pub(crate) fn new(bound: &'a Bound, range: SearchRange) -> Self {
        Self { bound, range, points: Vec::new(), below: None, above: None }
    }

    /// Tries loads until another one would tell no more.
    pub(crate) fn run<E>(
        bound: &'a Bound,
        range: SearchRange,
        mut run: impl FnMut(u32) -> Result<RunResult, E>,
    ) -> Result<Self, E> {
        let mut search = Self::new(bound, range);
        let mut next = Some(search.rounded(f64::from(range.first)));
        while let Some(load) = next.filter(|_| search.points.len() < range.points_max) {
            search.take(load, run(load)?);
            next = search.next();
        }
        Ok(search)
    }

    /// The multiple of the step nearest to `iodepth`.
    fn rounded(&self, iodepth: f64) -> u32 {
        let SearchRange { step, max, .. } = self.range;
        let steps = (iodepth / f64::from(step)).round() as u32;
        steps.clamp(1, (max / step).max(1)) * step
    }

    pub(crate) fn take(&mut self, load: u32, result: RunResult) {
        let point = LoadPoint::of(load, self.bound, &result);
        self.points.push(point);
        // A run in which nothing ended was too short for its load, and keeps no bound.
        if self.bound.is_kept(&result) {
            if self.below.as_ref().is_none_or(|(best, _)| point.iodepth > best.iodepth) {
                self.below = Some((point, result));
            }
        } else if self.above.as_ref().is_none_or(|(best, _)| point.iodepth < best.iodepth) {
            self.above = Some((point, result));
        }
    }

    /// The next load to try, if another one would tell more.
    fn next(&self) -> Option<u32> {
        // Goes a little past the limit, so that a second point comes to lie on the other side of it.
        const BEYOND: f64 = 1.03;
        // Points by which a search that is still on one side has seen that small steps lead nowhere.
        const PATIENCE: usize = 3;
        let stride = if self.points.len() < PATIENCE { BEYOND } else { 2.0 };
        let (limit_ns, step) = (self.bound.value(), self.range.step);
        let wanted = |point: &LoadPoint| {
            // By Little's law so many were in flight; the bounded figure is taken to grow with them.
            let in_flight = point.iops * point.lat_ns_mean / 1e9;
            let load = if self.range.is_depth { in_flight } else { f64::from(point.iodepth) };
            load * limit_ns / point.bounded_ns.max(1.0)
        };
        let untried =
            |iodepth: u32| (self.points.iter().all(|point| point.iodepth != iodepth)).then_some(iodepth);
        match (&self.below, &self.above) {
            (Some((below, _)), None) => {
                let least =
                    f64::from(below.iodepth.saturating_add(step)).max(f64::from(below.iodepth) * stride);
                untried(self.rounded((wanted(below) * BEYOND).max(least)))
            }
            (None, Some((above, _))) => {
                let most = above.iodepth.saturating_sub(step);
                let most = f64::from(most).min(f64::from(above.iodepth) / stride);
                untried(self.rounded((wanted(above) / BEYOND).min(most)))
            }
            (Some((below, _)), Some((above, _))) => {
                let (low, high) = (f64::from(below.iodepth), f64::from(above.iodepth));
                // Loads out of order tell of noise: nothing between them would tell more.
                let is_near = high <= low * self.range.near || high - low <= f64::from(step);
                let share = share_of(limit_ns, below.bounded_ns, above.bounded_ns).clamp(0.2, 0.8);
                if is_near { None } else { untried(self.rounded(low + (high - low) * share)) }
            }
            (None, None) => None,
        }
    }

    /// Requests and bytes per second where the bound is just kept, interpolated between the nearest points on both sides;
    /// those of the nearest point where there is none on one side.
    pub(crate) fn rates_at_bound(&self) -> (f64, f64) {
        let limit_ns = self.bound.value();
        match (&self.below, &self.above) {
            (Some((below, _)), Some((above, _))) => {
                let share = share_of(limit_ns, below.bounded_ns, above.bounded_ns);
                let between = |low: f64, high: f64| low + (high - low) * share;
                (between(below.iops, above.iops), between(below.bytes_per_sec, above.bytes_per_sec))
            }
            (Some((point, _)), None) | (None, Some((point, _))) => (point.iops, point.bytes_per_sec),
            (None, None) => unreachable!("a search begins with a run"),
        }
    }

    fn finish(mut self, limit: NanoSpan) -> (ReadOff, RunResult) {
        self.points.sort_by_key(|point| point.iodepth);
        let bracketed = self.below.is_some() && self.above.is_some();
        let (iops, bytes_per_sec) = self.rates_at_bound();
        let nearest = self.below.or(self.above).expect("a search begins with a run");
        (ReadOff { limit, iops, bytes_per_sec, bracketed, points: self.points }, nearest.1)
    }
}

/// How far `at` lies on the way from `low` to `high`.
fn share_of(at: f64, low: f64, high: f64) -> f64 {
    if high > low { ((at - low) / (high - low)).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use raidlab_testkit::example_result;

    const LIMIT: NanoSpan = NanoSpan::from_millis(20);

    /// Reads off an array whose rate at a load is `rate`.
    fn of(first: u32, step: u32, rate: impl Fn(f64) -> f64) -> (ReadOff, RunResult) {
        let run = |iodepth: u32| {
            let iops = rate(f64::from(iodepth));
            let mut result = example_result("database", iops);
            result.ops.total.requests = 1000;
            result.ops.total.iops.0 = iops;
            result.ops.total.bytes_per_sec.0 = iops * 8192.0;
            result.ops.total.lat_ns_mean = f64::from(iodepth) / iops * 1e9;
            Ok::<_, Infallible>(result)
        };
        let Ok(found) = read_off(LIMIT, (first, step), run);
        found
    }

    #[test]
    fn the_figure_is_where_the_curve_meets_the_limit() {
        // Throughput n / (s + n / m): requests take 20 ms where n / m = 20 ms - s.
        for (service, most) in [(0.005, 8000.0), (0.012, 700.0), (0.018, 17_000.0), (0.0001, 2100.0)] {
            for first in [1, 40, 320, 4000] {
                let (found, run) = of(first, 2, |n| n / (service + n / most));
                let expected = (0.02 - service) * most / 0.02;
                let error = (found.iops / expected - 1.0).abs();
                assert!(found.bracketed && error < 0.02, "{service} {most} from {first}: {found:?}");
                assert!((found.bytes_per_sec / found.iops - 8192.0).abs() < 1e-6);
                assert!(found.gap_pct().is_some_and(|gap| gap < 25.0), "{:?}", found.gap_pct());
                assert!(run.ops.total.lat_ns_mean <= 20e6, "the run that is kept keeps to the limit");
                assert!(found.points.len() <= POINTS_MAX, "{service} {most} from {first}: {found:?}");
            }
        }
    }

    #[test]
    fn a_limit_that_no_load_keeps_or_all_keep_gives_the_nearest_load() {
        // 30 ms whatever the load; then no queueing at all.
        let (slow, run) = of(64, 4, |n| n / 0.03);
        assert!(!slow.bracketed && (slow.iops - 4.0 / 0.03).abs() < 1e-6, "{slow:?}");
        assert!(run.ops.total.lat_ns_mean > 20e6);
        assert_eq!(slow.gap_pct(), None);
        let (fast, _) = of(64, 4, |n| n / 0.001);
        assert!(!fast.bracketed && fast.points.len() <= POINTS_MAX, "{fast:?}");
    }

    #[test]
    fn loads_are_multiples_of_the_step_and_tried_once() {
        let (found, _) = of(50, 8, |n| n / (0.004 + n / 3000.0));
        let loads: Vec<u32> = found.points.iter().map(|point| point.iodepth).collect();
        assert!(loads.iter().all(|load| load.is_multiple_of(8)), "{loads:?}");
        assert!(loads.windows(2).all(|pair| pair[0] < pair[1]), "{loads:?}");
    }
}
