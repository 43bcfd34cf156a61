//! The range of a plan's first array when its estimated figures vary ([`raidlab_worlds`]).

use super::{Bench, PlanError, judge};
use raidlab_advisor::plan::{Judged, LatencyTail, Performance};
use raidlab_hardware::End;
use serde::Serialize;

/// What one application gets at both ends of what the array's figures may be: the reported figures, times what the ends change
/// them by in runs that are alike, so that the range holds what it is the range of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PerformanceRange {
    /// Every figure at its slower end.
    pub slower: Performance,
    /// Every figure at its faster end.
    pub faster: Performance,
}

impl PerformanceRange {
    /// The range around what is `told`, by shorter runs with the figures as they are, at their slower and at their faster ends. Where
    /// a latency is bound, the runs were of as much load as keeps the bound, and their latencies are told as they are.
    pub(super) fn around(told: &Performance, [as_is, one, other]: [Performance; 3], is_bound: bool) -> Self {
        let (slower, faster) = if one.iops <= other.iops { (one, other) } else { (other, one) };
        let scaled = |end: Performance, at_most: fn(f64, f64) -> f64, at_least: fn(f64, f64) -> f64| {
            let more = |of: fn(&Performance) -> f64| at_most(told_times(told, &end, &as_is, of), of(told));
            let longer = |of: fn(&Performance) -> f64| {
                at_least(if is_bound { of(&end) } else { told_times(told, &end, &as_is, of) }, of(told))
            };
            let tail = |of: fn(&LatencyTail) -> u64| {
                let [told_ns, end_ns, as_is_ns] = [told, &end, &as_is].map(|it| of(&it.tail) as f64);
                // A run that is too short for the percentile has none.
                let times = if as_is_ns > 0.0 { end_ns / as_is_ns } else { 1.0 };
                let is_own = is_bound && end_ns > 0.0;
                at_least(if is_own { end_ns } else { told_ns * times }, told_ns).round() as u64
            };
            Performance {
                iops: more(|it| it.iops),
                bytes_per_sec: more(|it| it.bytes_per_sec),
                lat_ns_mean: longer(|it| it.lat_ns_mean),
                tail: LatencyTail {
                    lat_ns_p50: tail(|it| it.lat_ns_p50),
                    lat_ns_p90: tail(|it| it.lat_ns_p90),
                    lat_ns_p95: tail(|it| it.lat_ns_p95),
                    lat_ns_p99: tail(|it| it.lat_ns_p99),
                    lat_ns_p999: tail(|it| it.lat_ns_p999),
                    lat_ns_p9999: tail(|it| it.lat_ns_p9999),
                    lat_ns_p99999: tail(|it| it.lat_ns_p99999),
                    lat_ns_max: tail(|it| it.lat_ns_max),
                },
                ..end
            }
        };
        Self { slower: scaled(slower, f64::min, f64::max), faster: scaled(faster, f64::max, f64::min) }
    }

    /// Whether the ends differ at all, as three digits show them.
    pub(super) fn is_wide(&self) -> bool {
        self.faster.iops > 1.005 * self.slower.iops
    }
}

/// A figure that is told, times what it changes by at an end.
fn told_times(
    told: &Performance,
    end: &Performance,
    as_is: &Performance,
    of: fn(&Performance) -> f64,
) -> f64 {
    of(told) * of(end) / of(as_is)
}

/// What the applications of a run get with the array's parts at one end of their figures, or as they are, at the paces that it
/// was judged with, or at lower ones where those miss a bound then.
pub(super) fn at_end(
    bench: &Bench<'_>,
    judged: &Judged,
    (run, end): (usize, Option<End>),
) -> Result<Vec<Performance>, PlanError> {
    let order = bench.order;
    let models = bench.models(judged.geometry);
    let at = end.map(|end| models.catalog_at(order.catalog, end)).transpose();
    let at = at
        .map_err(|source| PlanError::End { label: bench.label(judged.geometry), source: Box::new(source) })?;
    let order = order.with_catalog(at.as_ref().unwrap_or(order.catalog));
    let bench = Bench { order: &order, parts: bench.parts, demands: bench.demands };
    let array = bench.array(judged, judged.geometry.spares, judge::Window::Short)?;
    let paces = judge::paces(&bench, judged, run);
    let (_, found) = judge::run_within_bounds(&bench, judged, (&array, run, judge::Window::Short), &paces)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2170 requests/s once stood beside "2246 to 2246", which other runs of another length had done.
    #[test]
    fn a_range_holds_what_it_is_the_range_of() {
        let of = |iops: f64| Performance {
            iops,
            bytes_per_sec: iops * 8192.0,
            lat_ns_mean: 64e9 / iops,
            tail: LatencyTail { lat_ns_p99: (640e9 / iops) as u64, ..LatencyTail::default() },
            ..Performance::default()
        };
        let told = of(2170.0);
        let around = |ends| PerformanceRange::around(&told, ends, false);
        let none = around([of(2246.0); 3]);
        assert!((none.slower.iops - 2170.0).abs() < 1e-9 && !none.is_wide(), "{none:?}");
        let wide = around([of(2246.0), of(2021.4), of(2470.6)]);
        assert!((wide.slower.iops - 1953.0).abs() < 1e-6 && (wide.faster.iops - 2387.0).abs() < 1e-6);
        assert!(wide.slower.lat_ns_mean > told.lat_ns_mean && wide.faster.lat_ns_mean < told.lat_ns_mean);
        let p99 = [&wide.faster, &told, &wide.slower].map(|it| it.tail.lat_ns_p99);
        assert!(p99.is_sorted() && p99[0] < p99[2], "its slowest requests, too: {p99:?}");
        // Both ends on one side by chance: the range still holds the figure.
        let odd = around([of(2000.0), of(2010.0), of(2100.0)]);
        assert!(odd.slower.iops <= told.iops && told.iops <= odd.faster.iops && odd.is_wide());
        // Each run has as much load as keeps a bound, and at an end it is kept by less load.
        let kept = |iops: f64, p99: u64| Performance {
            tail: LatencyTail { lat_ns_p99: p99, ..of(iops).tail },
            ..of(iops)
        };
        let ends = [kept(2246.0, 930_000), kept(2021.4, 995_000), kept(2470.6, 930_000)];
        let bound = PerformanceRange::around(&kept(2170.0, 980_000), ends, true);
        assert_eq!([&bound.slower, &bound.faster].map(|it| it.tail.lat_ns_p99), [995_000, 930_000]);
    }
}
