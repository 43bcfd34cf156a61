//! Finds the highest load that keeps a bound on latency, and its certainty.
//!
//! ```text
//! bounded │                  × × ×  at the first load above: n repeats, mean ± half-width
//! figure  │         ┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄  the bound
//!         │      · · ·              at the highest load below: n repeats, mean ± half-width
//!         └──────┼──────┼────────── load
//! ```
//! 1. **Search.** By *bisection* (Little's law gives the next load to try, see [`crate::read_off`]) or by a *ramp* through
//!    given loads until one misses the bound.
//! 2. **Repeats at the edge.** One run that kept a bound may have been lucky, and the search favours lucky ones. So the
//!    highest load that kept the bound, and the lowest that missed it, are run again up to `n` times each with their own
//!    seeds, and only these runs are judged: from their bounded figures x₁ … xₙ come the mean m and the 95 % confidence
//!    interval m ± t·s/√n, where s² = Σ(xᵢ − m)²/(n − 1) and t is Student's for n − 1 degrees of freedom. Repeats end
//!    early where an interval [`EARLY`] times as wide has the bound on one side: each look is one more chance to err.
//! 3. **Verdict.** The load is *sure* to keep the bound if its whole interval does. If even the mean misses it, the
//!    next lower load is taken, and repeated in turn.
//!
//! The rate at the bound is interpolated between the means of both sides. This assumes that runs are independent and
//! their figures nearly normal; means over thousands of requests are, a maximum is not.
//!
//! Source of the interval: any text on statistics, e.g. NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.5.2.

use crate::read_off::{LoadPoint, Search, SearchRange};
use raidlab_advisor::Bound;
use raidlab_workload::RunResult;
use serde::Serialize;

/// Loads below the first candidate that are tried in turn where repeats miss the bound.
const STEPS_DOWN_MAX: usize = 3;

/// How many times as wide as the last one an interval is that ends the repeats before their time.
const EARLY: f64 = 1.5;

/// How the search goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindMethod {
    /// By halving what is unknown, from this load on.
    Bisection {
        /// Load to begin with.
        first: u32,
    },
    /// Through these loads in rising order until one misses the bound.
    Ramp {
        /// Loads to try.
        loads: Vec<u32>,
    },
}

/// What to find.
#[derive(Clone, Debug)]
pub struct FindOrder<'a> {
    /// The bound to keep; one that limits latency.
    pub bound: &'a Bound,
    /// How to search.
    pub method: FindMethod,
    /// What the load is.
    pub unit: LoadUnit,
    /// Runs at each edge at most; fewer than two tell nothing of how sure the answer is.
    pub repeats: u32,
}

/// What is raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadUnit {
    /// Requests in flight, of a closed loop.
    Iodepth,
    /// Requests per second, of an open loop.
    RequestsPerSec,
}

/// The repeats at one load.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Repeats {
    /// The load.
    pub load: u32,
    /// The bounded figure of each run, in nanoseconds.
    pub bounded_ns: Vec<f64>,
    /// Requests per second of each run.
    pub iops: Vec<f64>,
    /// Mean of the bounded figures.
    pub bounded_ns_mean: f64,
    /// Half the width of their 95 % confidence interval; none for fewer than two runs.
    pub bounded_ns_half_width: Option<f64>,
    /// Mean of the rates.
    pub iops_mean: f64,
    /// Half the width of their 95 % confidence interval; none for fewer than two runs.
    pub iops_half_width: Option<f64>,
    /// Whether each run, on its own, kept the bound.
    pub kept: u32,
}

/// How sure it is that a load keeps the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The whole 95 % confidence interval keeps it.
    Sure,
    /// The mean keeps it, a part of the interval does not; or there was but one run.
    Likely,
    /// No load that was tried keeps it.
    NoneKeeps,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FoundLoad {
    /// Name of the workload.
    pub workload: String,
    /// What was run on.
    pub target: String,
    /// The bound, as it was written.
    pub bound: String,
    /// Its value in nanoseconds.
    pub bound_ns: f64,
    /// What the load is.
    pub unit: LoadUnit,
    /// The highest load that keeps the bound, or the lowest tried if none does.
    pub load: u32,
    /// How sure that is.
    pub certainty: Certainty,
    /// Requests per second at the bound, read off between the loads on both sides.
    pub iops_at_bound: f64,
    /// Bytes per second there.
    pub bytes_per_sec_at_bound: f64,
    /// Every load of the search, rising.
    pub points: Vec<LoadPoint>,
    /// The repeats at the loads on both sides of the bound, rising.
    pub repeats: Vec<Repeats>,
}

/// Finds the highest load that keeps the bound of `order`. `run` runs a load; its second argument is 0 in the search and
/// numbers the repeats from 1, for seeds of their own. Returns what was found, and every run in the order made.
///
/// # Errors
/// Those of `run`.
///
/// # Panics
/// If the bound does not limit latency.
pub fn find_load<E>(
    order: &FindOrder<'_>,
    mut run: impl FnMut(u32, u32) -> Result<RunResult, E>,
) -> Result<(FoundLoad, Vec<RunResult>), E> {
    assert!(order.bound.limits_latency(), "a highest load is found for a bound that limits latency");
    let mut runs = Vec::new();
    let mut search = match &order.method {
        FindMethod::Bisection { first } => Search::run(order.bound, range(order.unit, *first), |load| {
            let result = run(load, 0)?;
            runs.push(result.clone());
            Ok(result)
        })?,
        FindMethod::Ramp { loads } => ramp(order, loads, |load| {
            let result = run(load, 0)?;
            runs.push(result.clone());
            Ok(result)
        })?,
    };
    search.points.sort_by_key(|point| point.iodepth);
    let mut repeated = |load: u32| -> Result<Repeats, E> {
        let mut results = vec![run(load, 1)?];
        let mut repeats = Repeats::of(load, order.bound, &results);
        for number in 2..=order.repeats {
            results.push(run(load, number)?);
            repeats = Repeats::of(load, order.bound, &results);
            if repeats.is_clear(order.bound.value()) {
                break;
            }
        }
        runs.extend(results);
        Ok(repeats)
    };
    let edge = repeat_edge(order, &search, &mut repeated)?;
    let found = found(order, &search, edge, &runs[0]);
    Ok((found, runs))
}

fn range(unit: LoadUnit, first: u32) -> SearchRange {
    let is_depth = unit == LoadUnit::Iodepth;
    let max = if is_depth { crate::sweep::IODEPTH_MAX } else { 100_000_000 };
    SearchRange { first, step: 1, max, near: 1.03, points_max: 20, is_depth }
}

/// Tries `loads` until one misses the bound.
fn ramp<'a, E>(
    order: &FindOrder<'a>,
    loads: &[u32],
    mut run: impl FnMut(u32) -> Result<RunResult, E>,
) -> Result<Search<'a>, E> {
    let mut search = Search::new(order.bound, range(order.unit, 1));
    let mut loads = loads.to_vec();
    loads.sort_unstable();
    loads.dedup();
    for load in loads {
        search.take(load, run(load)?);
        if search.above.is_some() {
            break;
        }
    }
    Ok(search)
}

/// Repeats the highest load that kept the bound; where its mean misses it, the ones below in turn. Then the lowest load
/// that missed it, unless a repeat has told of one already. Rising by load.
fn repeat_edge<E>(
    order: &FindOrder<'_>,
    search: &Search<'_>,
    repeated: &mut impl FnMut(u32) -> Result<Repeats, E>,
) -> Result<Vec<Repeats>, E> {
    let mut edge = Vec::new();
    let limit_ns = order.bound.value();
    if order.repeats == 0 {
        return Ok(edge);
    }
    let kept = search.points.iter().filter(|point| point.bounded_ns <= limit_ns);
    let kept: Vec<u32> = kept.map(|point| point.iodepth).collect();
    for load in kept.into_iter().rev().take(STEPS_DOWN_MAX) {
        let repeats = repeated(load)?;
        let keeps = repeats.keeps(limit_ns);
        edge.push(repeats);
        if keeps {
            break;
        }
    }
    let has_miss = edge.iter().any(|repeats| !repeats.keeps(limit_ns));
    if let Some((above, _)) = search.above.as_ref().filter(|_| !has_miss) {
        edge.push(repeated(above.iodepth)?);
    }
    edge.sort_by_key(|repeats| repeats.load);
    Ok(edge)
}

fn found(order: &FindOrder<'_>, search: &Search<'_>, repeats: Vec<Repeats>, any: &RunResult) -> FoundLoad {
    let limit_ns = order.bound.value();
    // A load above whose first run was unlucky may keep the bound after all.
    let below = repeats.iter().rfind(|repeats| repeats.keeps(limit_ns));
    let candidate = match (below, &search.below) {
        (Some(repeats), _) => Some(repeats.load),
        // Without repeats the search is all there is.
        (None, Some((point, _))) if order.repeats == 0 => Some(point.iodepth),
        _ => None,
    };
    let is_sure = below.is_some_and(|repeats| {
        repeats.bounded_ns_half_width.is_some_and(|half| repeats.bounded_ns_mean + half <= limit_ns)
    });
    let (iops_at_bound, bytes_per_sec_at_bound) = rates(limit_ns, &repeats, search);
    FoundLoad {
        workload: any.workload.clone(),
        target: any.target.clone(),
        bound: order.bound.to_string(),
        bound_ns: limit_ns,
        unit: order.unit,
        load: candidate.unwrap_or_else(|| search.points.first().map_or(0, |point| point.iodepth)),
        certainty: match (candidate, is_sure) {
            (None, _) => Certainty::NoneKeeps,
            (Some(_), true) => Certainty::Sure,
            (Some(_), false) => Certainty::Likely,
        },
        iops_at_bound,
        bytes_per_sec_at_bound,
        points: search.points.clone(),
        repeats,
    }
}

/// Requests and bytes per second at the bound: between the means of the repeats on both sides, else as the search has it.
fn rates(limit_ns: f64, repeats: &[Repeats], search: &Search<'_>) -> (f64, f64) {
    let (iops, bytes_per_sec) = search.rates_at_bound();
    let bytes = if iops > 0.0 { bytes_per_sec / iops } else { 0.0 };
    let Some(below) = repeats.iter().rfind(|repeats| repeats.keeps(limit_ns)) else {
        return (iops, bytes_per_sec);
    };
    let above = repeats.iter().find(|repeats| repeats.load > below.load);
    let iops = above.map_or(below.iops_mean, |above| {
        let share = (limit_ns - below.bounded_ns_mean) / (above.bounded_ns_mean - below.bounded_ns_mean);
        below.iops_mean + (above.iops_mean - below.iops_mean) * share
    });
    (iops, iops * bytes)
}

impl Repeats {
    fn keeps(&self, limit_ns: f64) -> bool {
        self.bounded_ns_mean <= limit_ns
    }

    /// Whether there is no doubt on which side of the bound they are.
    fn is_clear(&self, limit_ns: f64) -> bool {
        let apart = (self.bounded_ns_mean - limit_ns).abs();
        // Where nothing varies, more of the same tells no more.
        self.bounded_ns_half_width.is_some_and(|half| half == 0.0 || apart > EARLY * half)
    }

    fn of(load: u32, bound: &Bound, results: &[RunResult]) -> Self {
        let bounded_ns: Vec<f64> = results.iter().map(|result| bound.figure_of(result)).collect();
        let iops: Vec<f64> = results.iter().map(|result| result.ops.total.iops.0).collect();
        let (bounded_ns_mean, bounded_ns_half_width) = mean_and_half_width(&bounded_ns);
        let (iops_mean, iops_half_width) = mean_and_half_width(&iops);
        let kept = results.iter().filter(|result| bound.is_kept(result)).count() as u32;
        Self {
            load,
            bounded_ns,
            iops,
            bounded_ns_mean,
            bounded_ns_half_width,
            iops_mean,
            iops_half_width,
            kept,
        }
    }
}

/// The mean of `values`, and half the width of its 95 % confidence interval where there are two or more.
fn mean_and_half_width(values: &[f64]) -> (f64, Option<f64>) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half_width = |t: f64| t * (squares / (count - 1.0)).sqrt() / count.sqrt();
    (mean, (values.len() >= 2).then(|| half_width(student_t(values.len() - 1))))
}

/// Student's t for a two-sided 95 % interval.
fn student_t(degrees: usize) -> f64 {
    /// For 1, 2, ... degrees of freedom. Source: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
    const T: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    // Beyond the table the next lower entry would be too wide by less than 5 %; the normal value comes in from above.
    T.get(degrees.wrapping_sub(1)).copied().unwrap_or(2.042)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use raidlab_testkit::example_result;

    /// A closed loop on a server of `most` requests per second behind `service` seconds; repeats differ by `noise`.
    fn server(service: f64, most: f64, noise: f64) -> impl FnMut(u32, u32) -> Result<RunResult, Infallible> {
        move |load, number| {
            let n = f64::from(load);
            let wobble = 1.0 + noise * (f64::from((load * 7 + number * 13) % 5) - 2.0) / 2.0;
            let iops = n / (service + n / most) / wobble;
            let mut result = example_result("database", iops);
            result.ops.total.requests = 1000;
            result.ops.total.lat_ns_mean = n / iops * 1e9;
            result.ops.total.lat_ns_p99 = (3.0 * n / iops * 1e9) as u64;
            Ok(result)
        }
    }

    fn find(text: &str, method: FindMethod, repeats: u32, noise: f64) -> (FoundLoad, usize) {
        let bound: Bound = text.parse().unwrap();
        let order = FindOrder { bound: &bound, method, unit: LoadUnit::Iodepth, repeats };
        let Ok((found, runs)) = find_load(&order, server(0.005, 8000.0, noise));
        (found, runs.len())
    }

    #[test]
    fn bisection_finds_the_very_load_and_reads_the_rate_off() {
        // 5 ms + n / 8000 s: 20 ms are reached at 120 requests in flight, 6000 per second.
        for first in [1, 64, 5000] {
            let (found, runs) = find("mean<=20ms", FindMethod::Bisection { first }, 5, 0.0);
            assert!((117..=120).contains(&found.load), "{found:?}");
            assert_eq!(found.certainty, Certainty::Sure);
            assert!((found.iops_at_bound - 6000.0).abs() < 5.0, "{found:?}");
            assert_eq!(
                runs,
                found.points.len() + 4,
                "repeats that are all alike end after two on both sides"
            );
        }
        let (tail, _) = find("p99<=60ms", FindMethod::Bisection { first: 4 }, 5, 0.0);
        assert!((117..=120).contains(&tail.load), "{tail:?}");
    }

    #[test]
    fn a_ramp_stops_at_the_first_load_that_misses() {
        let method = FindMethod::Ramp { loads: vec![256, 1, 32, 64, 128, 512] };
        let (found, _) = find("mean<=20ms", method, 3, 0.0);
        let tried: Vec<u32> = found.points.iter().map(|point| point.iodepth).collect();
        assert_eq!((found.load, tried), (64, vec![1, 32, 64, 128]));
        assert!((found.iops_at_bound - 6000.0).abs() < 150.0, "{found:?}");
    }

    #[test]
    fn noise_at_the_edge_makes_the_answer_less_sure() {
        let (found, _) = find("mean<=20ms", FindMethod::Ramp { loads: vec![60, 119, 125] }, 5, 0.2);
        // The repeats at 119 have 19.875 ms on average, give or take 10 %: their interval goes past the bound.
        assert_eq!((found.load, found.certainty), (119, Certainty::Likely), "{found:?}");
        let edge = &found.repeats[1];
        assert!(edge.kept > 0 && edge.kept < 5 && edge.bounded_ns_half_width.unwrap() > 1e6, "{edge:?}");
        let (clear, _) = find("mean<=20ms", FindMethod::Ramp { loads: vec![60, 200] }, 5, 0.2);
        assert_eq!((clear.load, clear.certainty), (60, Certainty::Sure), "{clear:?}");
    }

    /// Of 46 s of a search once two thirds were repeats of which the first two had told everything.
    #[test]
    fn repeats_end_where_there_is_no_doubt_left() {
        for (noise, loads, expected) in [(0.01, vec![60, 200], 4..=6), (0.2, vec![60, 119, 125], 8..=10)] {
            let ramp = FindMethod::Ramp { loads };
            let (found, runs) = find("mean<=20ms", ramp, 5, noise);
            let repeats = runs - found.points.len();
            assert!(expected.contains(&repeats), "{repeats} at a noise of {noise}: {found:?}");
        }
    }

    #[test]
    fn a_load_whose_repeats_miss_gives_way_to_the_one_below() {
        let bound: Bound = "mean<=20ms".parse().unwrap();
        let method = FindMethod::Ramp { loads: vec![60, 119, 125] };
        let order = FindOrder { bound: &bound, method, unit: LoadUnit::Iodepth, repeats: 3 };
        let mut steady = server(0.005, 8000.0, 0.0);
        // The search was lucky at 119: every later run there takes 10 % longer.
        let Ok((found, _)) = find_load(&order, |load, number| {
            let Ok(mut result) = steady(load, number);
            if number > 0 && load == 119 {
                result.ops.total.lat_ns_mean *= 1.1;
            }
            Ok::<_, Infallible>(result)
        });
        let loads: Vec<u32> = found.repeats.iter().map(|repeats| repeats.load).collect();
        assert_eq!((found.load, found.certainty, loads), (60, Certainty::Sure, vec![60, 119]));
    }

    #[test]
    fn a_bound_that_nothing_keeps_is_told() {
        let (found, _) = find("mean<=1ms", FindMethod::Bisection { first: 8 }, 3, 0.0);
        assert_eq!((found.load, found.certainty), (1, Certainty::NoneKeeps), "{found:?}");
        let (unsure, runs) = find("mean<=20ms", FindMethod::Bisection { first: 8 }, 0, 0.0);
        assert_eq!((unsure.certainty, runs), (Certainty::Likely, unsure.points.len()));
    }

    #[test]
    fn the_interval_is_students() {
        // 1, 2, 3: s = 1, t = 4.303 for two degrees of freedom.
        let (mean, half) = mean_and_half_width(&[1.0, 2.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12 && (half.unwrap() - 4.303 / 3.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_half_width(&[7.0]), (7.0, None));
    }
}
