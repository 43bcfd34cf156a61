//! Simulated arrays, best first, and those that nothing beats in both performance and cost.
//!
//! - Arrays that satisfy every need come first.
//! - With a throughput need, the cheaper array is better, and without one where the needs ask for the cheapest. Of equals,
//!   and else, the faster one is better; differences below [`EQUAL_SHARE`] count as equal.
//! - Where no price is known, prices are assumed whose ratios are usual (`assumed`). An unknown price is not zero, and not
//!   comparable with them: where any array has a price, those without one come after all that have one.
//! - Of equals in both, the one that holds more is better. Then disk cache off is better than on, write-through than write-back, no
//!   read-ahead than read-ahead: the setting that needs less trust. Then the longer life of drives, and the simpler one: fewer slots,
//!   fewer enclosures, a smaller cache.

use super::estimate::Demand;
use super::{Geometry, Life, Needs, Settings};
use crate::judge::EQUAL_SHARE;
use raidlab_units::ByteCount;
use raidlab_workload::{Metric, OpSummary, RunResult};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// What a simulation found for one application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Performance {
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_sec: f64,
    /// Mean total latency.
    pub lat_ns_mean: f64,
    /// Total latency of the slower requests.
    #[serde(flatten)]
    pub tail: LatencyTail,
    /// Requests in flight.
    pub iodepth: u32,
    /// Requests per second that it was held to, so that those beside it get what they need; none where it took all that it got.
    pub held_iops: Option<f64>,
}

/// Total latency that so many percent of the requests stay within.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LatencyTail {
    /// The median.
    pub lat_ns_p50: u64,
    /// 90 %.
    pub lat_ns_p90: u64,
    /// 95 %; 99 % in runs from before it was kept.
    pub lat_ns_p95: u64,
    /// 99 %.
    pub lat_ns_p99: u64,
    /// 99.9 %.
    pub lat_ns_p999: u64,
    /// 99.99 %.
    pub lat_ns_p9999: u64,
    /// 99.999 %.
    pub lat_ns_p99999: u64,
    /// All.
    pub lat_ns_max: u64,
}

impl Performance {
    /// What `result` measured.
    pub fn of(result: &RunResult) -> Self {
        Self::of_requests(&result.ops.total, result.iodepth)
    }

    /// The figures of requests of which `iodepth` were in flight.
    pub fn of_requests(total: &OpSummary, iodepth: u32) -> Self {
        let p95 = total.lat_curve.iter().find(|point| point.pct == 95.0).map(|point| point.lat_ns);
        Self {
            iops: total.iops.0,
            bytes_per_sec: total.bytes_per_sec.0,
            lat_ns_mean: total.lat_ns_mean,
            tail: LatencyTail {
                lat_ns_p50: total.lat_ns_p50,
                lat_ns_p90: total.lat_ns_p90,
                lat_ns_p95: p95.unwrap_or(total.lat_ns_p99),
                lat_ns_p99: total.lat_ns_p99,
                lat_ns_p999: total.lat_ns_p999,
                lat_ns_p9999: total.lat_ns_p9999,
                lat_ns_p99999: total.lat_ns_p99999,
                lat_ns_max: total.lat_ns_max,
            },
            iodepth,
            held_iops: None,
        }
    }

    /// What `demand` gets at `iops` requests per second, without latency.
    pub(super) fn at_best(iops: f64, demand: &Demand) -> Self {
        let bytes_per_sec = iops * demand.bytes_mean;
        Self { iops, bytes_per_sec, iodepth: demand.iodepth, ..Self::default() }
    }

    /// The figure that an application is judged by, in its unit.
    pub fn metric(&self, metric: Metric) -> f64 {
        match metric {
            Metric::Iops => self.iops,
            Metric::MbPerS => self.bytes_per_sec / 1e6,
        }
    }
}

/// What there is of an array besides its drives.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Bulk {
    /// Places for drives in all enclosures.
    pub places: u32,
    /// Enclosures.
    pub enclosures: u16,
    /// Bytes of the controller's cache.
    pub cache_bytes: u64,
}

/// How far from a need, as a share of it: 0.1 is a tenth better than needed, below zero is a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Margins {
    /// Of capacity.
    pub usable: f64,
    /// Of throughput, the worst of all applications.
    pub throughput: Option<f64>,
    /// Of latency, the worst of all bounds and applications.
    pub latency: Option<f64>,
    /// Of the budget.
    pub budget: Option<f64>,
    /// Of power.
    pub power: Option<f64>,
    /// Of height.
    pub rack_units: Option<f64>,
    /// Of the years that drives last, where they are counted.
    pub life: Option<f64>,
    /// Of what is left with a member missing and while it is rebuilt, where that was simulated.
    pub degraded: Option<f64>,
    /// Of the chance of losing data, where it is known.
    pub loss: Option<f64>,
}

impl Margins {
    /// Each need that was stated, by name.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let rows = [
            ("capacity", Some(self.usable)),
            ("throughput", self.throughput),
            ("latency", self.latency),
            ("service while degraded or rebuilding", self.degraded),
            ("drive life", self.life),
            ("chance of data loss", self.loss),
            ("budget", self.budget),
            ("power", self.power),
            ("rack units", self.rack_units),
        ];
        rows.into_iter().filter_map(|(name, margin)| Some((name, margin?)))
    }
}

/// An array that was simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The hardware.
    pub geometry: Geometry,
    /// The settings.
    pub settings: Settings,
    /// What the host sees, in bytes.
    pub usable_bytes: f64,
    /// Failures survived, whichever they are.
    pub survives_always: u16,
    /// Cost of what has to be bought, where it is known.
    pub cost: Option<f64>,
    /// What has to be bought, see [`super::Kept::assumed_cost`].
    pub assumed_cost: f64,
    /// Height of all enclosures, where it is known.
    pub rack_units: Option<u32>,
    /// How long its drives last, the shortest of all applications.
    pub life: Life,
    /// What is left with a member missing or while it is rebuilt, as a share of the throughput needed, or else of the whole array's;
    /// none where it was not simulated.
    pub degraded_share: Option<f64>,
    /// Chance that data are lost in a year, at the reserved rate of rebuilds; none where it is not known.
    pub loss_per_year: Option<f64>,
    /// Power; of parts of which it is not known as is usual.
    pub watts: f64,
    /// What there is besides drives.
    pub bulk: Bulk,
    /// What each application gets.
    pub performance: Vec<Performance>,
    /// Product of what the applications get, each by its metric; what is ranked. Where they run together, one at a rate of its own
    /// counts as the share of that rate which it gets.
    pub score: f64,
}

/// An application that gets so many times the rate that it needs is under a higher load than that need.
const LOAD_RAISED: f64 = 1.02;

/// How much of a need short runs may miss that longer ones keep, as a share of it.
const NEARLY: f64 = 0.3;

impl Judged {
    /// Drives, spares included.
    pub fn drives(&self) -> u16 {
        self.geometry.members + self.geometry.spares
    }

    /// How many times as fast as `other` it is; none where an application is held to its needs in one of the two alone, whose result then
    /// says nothing of how fast that is.
    pub fn times_as_fast(&self, other: &Self) -> Option<f64> {
        let held = |one: &Self| one.performance.iter().map(|it| it.held_iops.is_some()).collect::<Vec<_>>();
        (held(self) == held(other)).then(|| self.score / other.score)
    }

    /// How far it is from each of `needs`.
    pub fn margins(&self, needs: &Needs) -> Margins {
        let over = |have: f64, need: f64| have / need - 1.0;
        let under = |have: f64, need: f64| 1.0 - have / need;
        let worst = |margins: Vec<f64>| margins.into_iter().reduce(f64::min);
        let performance = || self.performance.iter().enumerate();
        let rates = performance().flat_map(|(app, it)| {
            let iops = needs.iops_of(app).map(|need| over(it.iops, need));
            let both =
                iops.into_iter().chain(needs.bytes_per_sec_of(app).map(|need| over(it.bytes_per_sec, need)));
            // What arrives at exactly that rate is served, and no array serves more of it: this is no margin.
            both.filter(|margin| *margin != 0.0)
        });
        // The load is raised until a latency meets its bound, where a rate is needed, too: what it does beyond that rate is its margin.
        let is_raised = |app: usize, it: &Performance| {
            it.held_iops.is_none()
                && (needs.iops_of(app).is_some_and(|need| it.iops > LOAD_RAISED * need)
                    || needs.bytes_per_sec_of(app).is_some_and(|need| it.bytes_per_sec > LOAD_RAISED * need))
        };
        let latencies = performance().flat_map(|(app, it)| {
            let margins = needs.latency_of(app).map(move |bound| under(bound.figure_in(it), bound.value()));
            margins.filter(move |margin| *margin < 0.0 || !is_raised(app, it))
        });
        Margins {
            usable: over(self.usable_bytes, needs.usable.0 as f64),
            throughput: worst(rates.collect()),
            latency: worst(latencies.collect()),
            budget: needs.budget.and_then(|need| Some(under(self.cost?, need))),
            power: needs.power_watts.map(|need| under(self.watts, need)),
            rack_units: needs
                .rack_units
                .and_then(|need| Some(under(f64::from(self.rack_units?), f64::from(need)))),
            life: needs.years.and_then(|need| Some(over(self.life.years()?, need))),
            degraded: needs.keep_degraded.and_then(|need| Some(over(self.degraded_share?, need))),
            loss: needs.loss_per_year.and_then(|need| Some(under(self.loss_per_year?, need))),
        }
    }

    /// Whether it keeps `needs`, but for a throughput or a latency of which it misses little.
    pub fn nearly_keeps(&self, needs: &Needs) -> bool {
        self.keeps_but_for(needs, NEARLY)
    }

    /// Whether it keeps all of `needs`.
    pub fn keeps(&self, needs: &Needs) -> bool {
        self.keeps_but_for(needs, 0.0)
    }

    /// Whether it keeps `needs`, where it may miss that share of a throughput and of a latency.
    fn keeps_but_for(&self, needs: &Needs, missed: f64) -> bool {
        let margins = self.margins(needs);
        let is_near = |margin: Option<f64>| margin.is_none_or(|margin| margin >= -missed);
        let others = Margins { throughput: None, latency: None, ..margins };
        self.survives_always >= needs.survive
            && needs.years.is_none_or(|years| self.life.lasts(years))
            && is_near(margins.throughput)
            && is_near(margins.latency)
            && others.all().all(|(_, margin)| margin >= 0.0)
    }
}

/// The order of arrays.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<'a> {
    /// What they must do.
    pub needs: &'a Needs,
    /// Whether what they take is money, as the price of any of them is known; else it is counted by usual ratios of prices.
    pub has_prices: bool,
}

/// What an array takes: first the known prices, then the arrays without one by the usual ratios, in thousandths.
pub(super) type EffortKey = (bool, i64);

/// Where an array stands: the least is the best. What is equal in all of it makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankKey {
    misses: bool,
    /// Effort and speed, in the order that the needs give them.
    merits: [EffortKey; 2],
    usable_bytes: Reverse<u64>,
    /// Disk cache, write-back, read-ahead and another strip: what has to be trusted.
    trust: (bool, bool, bool, Option<ByteCount>),
    shortness: i64,
    places: (u32, u16),
    cache_bytes: u64,
}

/// How little a figure is of which more is better: equality by share is no order by itself, so figures are put on a scale of steps of
/// that share first.
fn steps_down(figure: f64) -> i64 {
    (figure.max(f64::MIN_POSITIVE).ln() / EQUAL_SHARE.ln()).round() as i64
}

/// How slow an array is.
pub(super) fn slowness(one: &Judged) -> i64 {
    steps_down(one.score)
}

/// How short its drives last.
fn shortness(life: Life) -> i64 {
    match life {
        Life::Endless => i64::MIN,
        Life::Years(years) => steps_down(years),
        Life::Unknown => i64::MAX,
    }
}

impl Ranking<'_> {
    /// Where `one` stands.
    pub fn key(&self, one: &Judged) -> RankKey {
        let keeps = one.keeps(self.needs);
        let effort = self.effort_key(one);
        let slowness = (false, slowness(one));
        let Settings { strip, write_back, read_ahead, disk_cache } = one.settings;
        RankKey {
            misses: !keeps,
            merits: if self.needs.wants_cheapest() && keeps {
                [effort, slowness]
            } else {
                [slowness, effort]
            },
            usable_bytes: Reverse(one.usable_bytes as u64),
            trust: (disk_cache, write_back, read_ahead, strip),
            shortness: shortness(one.life),
            places: (one.bulk.places, one.bulk.enclosures),
            cache_bytes: one.bulk.cache_bytes,
        }
    }

    /// What `one` takes: money where any array has a price and this one's is known, by usual ratios of prices where none has one.
    pub fn effort(&self, one: &Judged) -> Option<f64> {
        if self.has_prices { one.cost } else { Some(one.assumed_cost) }
    }

    pub(super) fn effort_key(&self, one: &Judged) -> EffortKey {
        // Sums of the same prices in another order differ in their last digits.
        let thousandths = |effort: f64| (effort * 1000.0).round() as i64;
        match self.effort(one) {
            Some(effort) => (false, thousandths(effort)),
            None => (true, thousandths(one.assumed_cost)),
        }
    }

    /// Sorts `judged`, best first.
    pub fn sort(&self, judged: &mut [Judged]) {
        judged.sort_by_cached_key(|one| (self.key(one), one.geometry));
    }
}

/// An array in the chart of performance against effort.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ParetoPoint {
    /// Number of the array in the list.
    pub index: usize,
    /// Cost, by usual ratios where no array has a price; none where only this one's price is not known.
    pub effort: Option<f64>,
    /// What is ranked.
    pub score: f64,
    /// Whether it keeps all needs.
    pub keeps_needs: bool,
    /// Whether it keeps all needs, its effort is known, and no other such one is as fast (within what two runs differ by) for less, or
    /// faster for as much.
    pub is_efficient: bool,
}

/// All of `judged` as points, in their order; efficient among those that keep the needs.
pub fn pareto(judged: &[Judged], ranking: Ranking<'_>) -> Vec<ParetoPoint> {
    let point = |(index, one): (usize, &Judged)| ParetoPoint {
        index,
        effort: ranking.effort(one),
        score: one.score,
        keeps_needs: one.keeps(ranking.needs),
        is_efficient: false,
    };
    let mut points: Vec<ParetoPoint> = judged.iter().enumerate().map(point).collect();
    let serving = points.iter().filter(|it| it.keeps_needs && it.effort.is_some());
    let mut serving: Vec<(EffortKey, RankKey, usize)> = serving
        .map(|it| (ranking.effort_key(&judged[it.index]), ranking.key(&judged[it.index]), it.index))
        .collect();
    serving.sort_unstable();
    // From the least effort on, each that is clearly faster than the one before it.
    let mut fastest = None;
    let mut effort = None;
    for (own, _, index) in serving {
        let score = points[index].score;
        // Of as much effort the first in the order stands for all.
        if effort != Some(own) && fastest.is_none_or(|fastest| score * EQUAL_SHARE > fastest) {
            points[index].is_efficient = true;
            (effort, fastest) = (Some(own), Some(score));
        }
    }
    points
}
