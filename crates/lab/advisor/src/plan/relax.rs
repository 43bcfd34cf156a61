//! If nothing fits: which single need prevents it, and how far it must give, the smallest change first.
//!
//! Each need is dropped in turn and everything is tried again. If something then fits, the best of it says how far that
//! need must give: the largest capacity, the fewest drives, the lowest price. Throughput is the upper bound by
//! arithmetic. If arithmetic leaves arrays and no simulated one satisfies all needs, [`near_misses`] uses their results
//! instead.

use super::{Judged, Kept, Needs, Request, enumerate};
use crate::bound::Bound;
use serde::Serialize;

/// A need that can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// Capacity.
    Usable,
    /// Failures survived.
    Survive,
    /// Requests or bytes per second.
    Throughput,
    /// Latency.
    Latency,
    /// Cost.
    Budget,
    /// Power.
    Power,
    /// Places.
    Slots,
    /// Rack units.
    RackUnits,
    /// Years that drives last.
    Life,
    /// Service with a member missing and while it is rebuilt.
    Degraded,
    /// Chance of losing data in a year.
    Loss,
}

/// One need that would let something fit.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Relaxation {
    /// Which.
    pub need: Need,
    /// What it would have to be, in the need's unit: bytes, failures, requests (or bytes, see [`Relaxation::is_bytes`]) per
    /// second, nanoseconds, money, watts, drives.
    pub to: f64,
    /// What it is now.
    pub from: f64,
    /// Geometries that fit then.
    pub fitting: u64,
    /// Whether a throughput is in bytes per second.
    pub is_bytes: bool,
    /// Number of the application, where it is a need of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<usize>,
    /// Which bound on latency, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<Bound>,
}

impl Relaxation {
    /// By how much the need gives, as a share: 0.2 is a fifth.
    pub fn share(&self) -> f64 {
        if self.from > 0.0 { (self.to / self.from - 1.0).abs() } else { 1.0 }
    }
}

const ALL: [Need; 11] = [
    Need::Usable,
    Need::Survive,
    Need::Throughput,
    Need::Latency,
    Need::Budget,
    Need::Power,
    Need::Slots,
    Need::RackUnits,
    Need::Life,
    Need::Degraded,
    Need::Loss,
];

/// Of arrays that were simulated and each miss a need: every single need that would let one of them fit.
pub fn near_misses(judged: &[Judged], needs: &Needs) -> Vec<Relaxation> {
    let mut found: Vec<Relaxation> =
        ALL.into_iter().filter_map(|need| near_miss(judged, needs, need)).collect();
    found.sort_by(|a, b| a.share().total_cmp(&b.share()));
    found
}

fn near_miss(judged: &[Judged], needs: &Needs, need: Need) -> Option<Relaxation> {
    let without = needs.without(need);
    let fit: Vec<&Judged> = judged.iter().filter(|one| one.keeps(&without) && !one.keeps(needs)).collect();
    let most = |of: &dyn Fn(&Judged) -> f64| fit.iter().map(|one| of(one)).reduce(f64::max);
    let least = |of: &dyn Fn(&Judged) -> f64| fit.iter().map(|one| of(one)).reduce(f64::min);
    let rates = |one: &Judged| {
        let of_app = |(app, it): (usize, &super::Performance)| {
            let iops = needs.iops_of(app).map(|need| Slow { app, need, rate: it.iops, is_bytes: false });
            let bytes = needs.bytes_per_sec_of(app);
            let bytes = bytes.map(|need| Slow { app, need, rate: it.bytes_per_sec, is_bytes: true });
            [iops, bytes]
        };
        one.performance.iter().enumerate().flat_map(of_app).flatten().collect::<Vec<_>>()
    };
    let slowest = (need == Need::Throughput).then(|| nearest(fit.iter().map(|one| rates(one)))).flatten();
    // Of the array that comes closest, the bound that it misses by most.
    let latency = || {
        let farthest = fit.iter().filter_map(|one| farthest_bound(one, needs));
        farthest.min_by(|a, b| a.share().total_cmp(&b.share()))
    };
    let bounded = (need == Need::Latency).then(latency).flatten();
    let (from, to) = match need {
        Need::Usable => (needs.usable.0 as f64, most(&|one| one.usable_bytes)),
        Need::Survive => (f64::from(needs.survive), most(&|one| f64::from(one.survives_always))),
        Need::Throughput => {
            let Slow { need, rate, .. } = slowest?;
            (need, Some(rate))
        }
        Need::Latency => {
            let Bounded { bound, figure, .. } = bounded?;
            (bound.value(), Some(figure))
        }
        Need::Budget => (needs.budget?, least(&|one| one.cost.unwrap_or(f64::INFINITY))),
        Need::Power => (needs.power_watts?, least(&|one| one.watts)),
        Need::Slots => (f64::from(needs.slots?), least(&|one| f64::from(one.drives()))),
        Need::RackUnits => {
            (f64::from(needs.rack_units?), least(&|one| one.rack_units.map_or(f64::INFINITY, f64::from)))
        }
        Need::Life => (needs.years?, most(&|one| one.life.years().unwrap_or(0.0))),
        Need::Degraded => (needs.keep_degraded?, most(&|one| one.degraded_share.unwrap_or(0.0))),
        Need::Loss => (needs.loss_per_year?, least(&|one| one.loss_per_year.unwrap_or(f64::INFINITY))),
    };
    let to = to.filter(|to| to.is_finite())?;
    let bound = bounded.map(|it| it.bound.clone());
    let application = bounded.map(|it| it.app).or(slowest.map(|it| it.app));
    let is_bytes = slowest.is_some_and(|it| it.is_bytes);
    Some(Relaxation { need, to, from, fitting: fit.len() as u64, is_bytes, bound, application })
}

/// A throughput that is needed, and what an array does of it.
#[derive(Clone, Copy, Debug)]
struct Slow {
    app: usize,
    need: f64,
    rate: f64,
    is_bytes: bool,
}

impl Slow {
    fn share(&self) -> f64 {
        self.rate / self.need
    }
}

/// Of what each array does of each need the least share, and of these the greatest.
fn nearest(arrays: impl Iterator<Item = Vec<Slow>>) -> Option<Slow> {
    let by_share = |a: &Slow, b: &Slow| a.share().total_cmp(&b.share());
    arrays.filter_map(|rates| rates.into_iter().min_by(by_share)).max_by(by_share)
}

/// A bound on latency, and what an array comes to.
#[derive(Clone, Copy, Debug)]
struct Bounded<'a> {
    bound: &'a Bound,
    figure: f64,
    app: usize,
}

impl Bounded<'_> {
    fn share(&self) -> f64 {
        self.figure / self.bound.value()
    }
}

/// The bound that an array is farthest beyond, whichever application it is with.
fn farthest_bound<'a>(one: &Judged, needs: &'a Needs) -> Option<Bounded<'a>> {
    let of_app = |(app, it): (usize, &super::Performance)| {
        let of_bound = |bound: &'a Bound| Bounded { bound, figure: bound.figure_in(it), app };
        needs.latency_of(app).map(of_bound).collect::<Vec<_>>()
    };
    let all = one.performance.iter().enumerate().flat_map(of_app);
    all.max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// The needs without each of those that arithmetic knows.
pub fn relaxed_needs(needs: &Needs) -> impl Iterator<Item = Needs> {
    arithmetic(needs).map(|need| needs.without(need))
}

/// The needs that are stated and that arithmetic knows.
fn arithmetic(needs: &Needs) -> impl Iterator<Item = Need> {
    let is_set = |need: &Need| match need {
        Need::Usable => true,
        Need::Survive => needs.survive > 0,
        Need::Throughput => needs.wants_rate(),
        // Arithmetic knows no latency, no faults and no more than a bound to the life of drives.
        Need::Latency | Need::Life | Need::Degraded => false,
        Need::RackUnits => needs.rack_units.is_some(),
        Need::Loss => needs.loss_per_year.is_some(),
        Need::Budget => needs.budget.is_some(),
        Need::Power => needs.power_watts.is_some(),
        Need::Slots => needs.slots.is_some(),
    };
    ALL.into_iter().filter(is_set)
}

/// Every single need that would let something fit, the smallest change first.
pub fn relaxations(request: &Request<'_>) -> Vec<Relaxation> {
    let mut found: Vec<Relaxation> =
        arithmetic(request.needs).filter_map(|need| relaxed(request, need)).collect();
    found.sort_by(|a, b| a.share().total_cmp(&b.share()));
    found
}

fn relaxed(request: &Request<'_>, need: Need) -> Option<Relaxation> {
    let needs = request.needs.without(need);
    let kept = enumerate(&Request { needs: &needs, ..request.clone() }).kept;
    let most = |of: &dyn Fn(&Kept) -> f64| kept.iter().map(of).reduce(f64::max);
    let least = |of: &dyn Fn(&Kept) -> f64| kept.iter().map(of).reduce(f64::min);
    let rates = |one: &Kept| {
        let of_app = |(app, rate): (usize, &f64)| {
            let need = request.needs.requests_per_sec(app, request.demands[app].bytes_mean)?;
            Some(Slow { app, need, rate: *rate, is_bytes: false })
        };
        one.at_best.iter().enumerate().filter_map(of_app).collect()
    };
    let slowest = (need == Need::Throughput).then(|| nearest(kept.iter().map(rates))).flatten();
    let (from, to) = match need {
        Need::Usable => (request.needs.usable.0 as f64, most(&|kept| kept.usable.0 as f64)),
        Need::Survive => (f64::from(request.needs.survive), most(&|kept| f64::from(kept.survives.0))),
        Need::Throughput => {
            let Slow { need, rate, .. } = slowest?;
            (need, Some(rate))
        }
        Need::Latency | Need::Life | Need::Degraded => return None,
        Need::Loss => {
            let loss = |kept: &Kept| request.parts.losses.get(&kept.geometry.on_paper());
            (request.needs.loss_per_year?, least(&|kept| loss(kept).copied().unwrap_or(f64::INFINITY)))
        }
        Need::RackUnits => (
            f64::from(request.needs.rack_units?),
            least(&|kept| kept.rack_units.map_or(f64::INFINITY, f64::from)),
        ),
        Need::Budget => (request.needs.budget?, least(&|kept| kept.cost.unwrap_or(f64::INFINITY))),
        Need::Power => (request.needs.power_watts?, least(&|kept| kept.watts)),
        Need::Slots => (
            f64::from(request.needs.slots?),
            least(&|kept| f64::from(kept.geometry.members + kept.geometry.spares)),
        ),
    };
    let to = to.filter(|to| to.is_finite())?;
    // Smaller needs make everything faster, too: what fits for that reason keeps this need, and says nothing about it.
    let gives = match need {
        Need::Usable | Need::Survive | Need::Throughput | Need::Life | Need::Degraded => to < from,
        Need::Latency | Need::Budget | Need::Power | Need::Slots | Need::RackUnits | Need::Loss => to > from,
    };
    let application = slowest.map(|it| it.app);
    let fitting = kept.len() as u64;
    gives.then_some(Relaxation { need, to, from, fitting, is_bytes: false, bound: None, application })
}
