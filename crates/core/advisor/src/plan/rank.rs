//! Arrays that were simulated, best first, and the ones that nothing beats in both performance and cost.
//!
//! - Those that keep every need come first.
//! - With a throughput need, the cheaper array is the better one; without prices the one of fewer drives is. Of equals, and
//!   where no throughput is asked for, the faster one is, and what differs by less than [`EQUAL_SHARE`] counts as equal.
//! - Of equals the disk cache off is better than on, write-through than write-back, no read-ahead than read-ahead: what
//!   needs less to be trusted.

use super::{Geometry, Needs, Settings};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// A figure of at least this share of another counts as equal to it, as two runs of one array differ by about as much.
const EQUAL_SHARE: f64 = 0.98;

/// What a simulation found for one application.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_sec: f64,
    /// Mean total latency.
    pub lat_ns_mean: f64,
    /// Requests in flight.
    pub iodepth: u32,
}

/// How far from a need, as a share of it: 0.1 is a tenth better than needed, below zero is a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Margins {
    /// Of capacity.
    pub usable: f64,
    /// Of throughput, the worst of all applications.
    pub throughput: Option<f64>,
    /// Of latency.
    pub mean_response: Option<f64>,
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
    /// What each application gets.
    pub performance: Vec<Performance>,
    /// Product of what the applications get, each by its metric; what is ranked.
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
        let rates = self.performance.iter().flat_map(|it| {
            let iops = needs.iops.map(|need| over(it.iops, need));
            iops.into_iter().chain(needs.bytes_per_sec.map(|need| over(it.bytes_per_sec, need)))
        });
        let latencies = self
            .performance
            .iter()
            .filter_map(|it| needs.mean_response.map(|need| under(it.lat_ns_mean, need.get() as f64)));
        Margins {
            usable: over(self.usable_bytes, needs.usable.0 as f64),
            throughput: worst(rates.collect()),
            mean_response: worst(latencies.collect()),
            budget: needs.budget.and_then(|need| Some(under(self.cost?, need))),
            power: needs.power_watts.and_then(|need| Some(under(self.watts?, need))),
        }
    }

    /// Whether it keeps all of `needs`.
    pub fn keeps(&self, needs: &Needs) -> bool {
        let margins = self.margins(needs);
        let parts = [margins.throughput, margins.mean_response, margins.budget, margins.power];
        self.survives_always >= needs.survive
            && margins.usable >= 0.0
            && parts.into_iter().flatten().all(|margin| margin >= 0.0)
    }

    /// What it takes: money where all prices are known, else drives.
    fn effort(&self, has_prices: bool) -> f64 {
        self.cost.filter(|_| has_prices).unwrap_or_else(|| f64::from(self.drives()))
    }
}

/// Sorts `judged`, best first.
pub fn rank(judged: &mut [Judged], needs: &Needs) {
    let has_prices = judged.iter().all(|one| one.cost.is_some());
    let wants_rate = needs.iops.is_some() || needs.bytes_per_sec.is_some();
    // Equality by share is no order by itself: figures are put on a scale of steps of that share first.
    let step = |score: f64| (score.max(f64::MIN_POSITIVE).ln() / -EQUAL_SHARE.ln()).round();
    judged.sort_by(|a, b| {
        let keeps = b.keeps(needs).cmp(&a.keeps(needs));
        let effort = a.effort(has_prices).total_cmp(&b.effort(has_prices));
        let speed = step(b.score).total_cmp(&step(a.score));
        let both_keep = a.keeps(needs) && b.keeps(needs);
        let by_need = if wants_rate && both_keep { effort.then(speed) } else { speed.then(effort) };
        keeps.then(by_need).then_with(|| trust(&a.settings, &b.settings)).then(a.geometry.cmp(&b.geometry))
    });
}

/// What needs less to be trusted comes first.
fn trust(a: &Settings, b: &Settings) -> Ordering {
    let needs = |it: &Settings| (it.disk_cache, it.write_back, it.read_ahead, it.strip);
    needs(a).cmp(&needs(b))
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

/// All of `judged` as points, in their order; efficient among those that keep `needs`.
pub fn pareto(judged: &[Judged], needs: &Needs) -> Vec<ParetoPoint> {
    let has_prices = judged.iter().all(|one| one.cost.is_some());
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
