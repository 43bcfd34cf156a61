//! Simulated arrays, best first, and those that nothing beats in both performance and cost.
//!
//! - Arrays that satisfy every need come first.
//! - With a throughput need, the cheaper array is better; without prices the one with fewer drives. Of equals, and
//!   without a throughput need, the faster one is better; differences below [`EQUAL_SHARE`] count as equal.
//! - Of equals, disk cache off is better than on, write-through than write-back, no read-ahead than read-ahead: the
//!   setting that needs less trust. Then the smaller and simpler one is better: fewer enclosures, fewer slots, less
//!   capacity, a smaller cache.

use super::estimate::Demand;
use super::{Geometry, Needs, Settings};
use raidlab_units::ByteCount;
use raidlab_workload::{Metric, OpSummary, RunResult};
use serde::{Deserialize, Serialize};

/// A figure of at least this share of another counts as equal to it, as two runs of one array differ by about as much.
const EQUAL_SHARE: f64 = 0.98;

/// What a simulation found for one application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
}

/// Total latency that so many percent of the requests stay within.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bulk {
    /// Places for drives in all enclosures.
    pub places: u32,
    /// Enclosures.
    pub enclosures: u16,
    /// Bytes of the controller's cache.
    pub cache_bytes: u64,
}

/// How far from a need, as a share of it: 0.1 is a tenth better than needed, below zero is a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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
    /// Cost, where it is known.
    pub cost: Option<f64>,
    /// Power, where it is known.
    pub watts: Option<f64>,
    /// What there is besides drives.
    pub bulk: Bulk,
    /// What each application gets.
    pub performance: Vec<Performance>,
    /// Product of what the applications get, each by its metric; what is ranked. Where they run together, one at a rate of its own
    /// counts as the share of that rate which it gets.
    pub score: f64,
}

impl Judged {
    /// Drives, spares included.
    pub fn drives(&self) -> u16 {
        self.geometry.members + self.geometry.spares
    }

    /// How far it is from each of `needs`.
    pub fn margins(&self, needs: &Needs) -> Margins {
        let over = |have: f64, need: f64| have / need - 1.0;
        let under = |have: f64, need: f64| 1.0 - have / need;
        let worst = |margins: Vec<f64>| margins.into_iter().reduce(f64::min);
        let performance = || self.performance.iter().enumerate();
        let rates = performance().flat_map(|(app, it)| {
            let iops = needs.iops_of(app).map(|need| over(it.iops, need));
            iops.into_iter().chain(needs.bytes_per_sec_of(app).map(|need| over(it.bytes_per_sec, need)))
        });
        let latencies = performance().flat_map(|(app, it)| {
            needs.latency_of(app).map(move |bound| under(bound.figure_in(it), bound.value()))
        });
        Margins {
            usable: over(self.usable_bytes, needs.usable.0 as f64),
            throughput: worst(rates.collect()),
            latency: worst(latencies.collect()),
            budget: needs.budget.and_then(|need| Some(under(self.cost?, need))),
            power: needs.power_watts.and_then(|need| Some(under(self.watts?, need))),
        }
    }

    /// Whether it keeps all of `needs`.
    pub fn keeps(&self, needs: &Needs) -> bool {
        let margins = self.margins(needs);
        let parts = [margins.throughput, margins.latency, margins.budget, margins.power];
        self.survives_always >= needs.survive
            && margins.usable >= 0.0
            && parts.into_iter().flatten().all(|margin| margin >= 0.0)
    }

    /// What it takes: money where all prices are known, else drives.
    fn effort(&self, has_prices: bool) -> f64 {
        self.cost.filter(|_| has_prices).unwrap_or_else(|| f64::from(self.drives()))
    }
}

/// The order of arrays.
#[derive(Clone, Copy, Debug)]
pub struct Ranking<'a> {
    /// What they must do.
    pub needs: &'a Needs,
    /// Whether what they take is money; else it is drives.
    pub has_prices: bool,
}

/// Where an array stands: the least is the best. What is equal in all of it makes no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankKey {
    misses: bool,
    /// Effort and speed, in the order that the needs give them.
    merits: [i64; 2],
    /// Disk cache, write-back, read-ahead and another strip: what has to be trusted.
    trust: (bool, bool, bool, Option<ByteCount>),
    places: (u32, u16),
    usable_bytes: u64,
    cache_bytes: u64,
}

impl Ranking<'_> {
    /// Where `one` stands.
    pub fn key(&self, one: &Judged) -> RankKey {
        let keeps = one.keeps(self.needs);
        let effort = (one.effort(self.has_prices) * 1000.0).round() as i64;
        // Equality by share is no order by itself: figures are put on a scale of steps of that share first.
        let slowness = (one.score.max(f64::MIN_POSITIVE).ln() / EQUAL_SHARE.ln()).round() as i64;
        let Settings { strip, write_back, read_ahead, disk_cache } = one.settings;
        RankKey {
            misses: !keeps,
            merits: if self.needs.wants_rate() && keeps { [effort, slowness] } else { [slowness, effort] },
            trust: (disk_cache, write_back, read_ahead, strip),
            places: (one.bulk.places, one.bulk.enclosures),
            usable_bytes: one.usable_bytes as u64,
            cache_bytes: one.bulk.cache_bytes,
        }
    }

    /// Sorts `judged`, best first.
    pub fn sort(&self, judged: &mut [Judged]) {
        judged.sort_by_cached_key(|one| (self.key(one), one.geometry));
    }
}

/// An array in the chart of performance against effort.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParetoPoint {
    /// Number of the array in the list.
    pub index: usize,
    /// Cost, or drives where a price is not known.
    pub effort: f64,
    /// What is ranked.
    pub score: f64,
    /// Whether it keeps all needs.
    pub keeps_needs: bool,
    /// Whether it keeps all needs, and no other that does is as fast for less, or faster for as much.
    pub is_efficient: bool,
}

/// All of `judged` as points, in their order; efficient among those that keep the needs.
pub fn pareto(judged: &[Judged], ranking: Ranking<'_>) -> Vec<ParetoPoint> {
    let Ranking { needs, has_prices } = ranking;
    let figures: Vec<(f64, f64, bool)> =
        judged.iter().map(|one| (one.effort(has_prices), one.score, one.keeps(needs))).collect();
    let beats = |a: &(f64, f64, bool), b: &(f64, f64, bool)| {
        a.2 && a.0 <= b.0 && a.1 >= b.1 && (a.0, a.1) != (b.0, b.1)
    };
    let point = |(index, own): (usize, &(f64, f64, bool))| ParetoPoint {
        index,
        effort: own.0,
        score: own.1,
        keeps_needs: own.2,
        is_efficient: own.2 && !figures.iter().any(|other| beats(other, own)),
    };
    figures.iter().enumerate().map(point).collect()
}
