//! Where nothing fits: which single need stands in the way, and how far it would have to give, the smallest change first.
//!
//! Each need is left out in turn and everything is tried again. Where something fits then, the best that fits says how far
//! that need has to give: the largest capacity, the fewest drives, the lowest price. What it says of throughput is at best,
//! by arithmetic. Where arithmetic leaves arrays and none of those that were simulated keeps all needs, [`near_misses`] takes
//! what they do instead.

use super::{Judged, Kept, Needs, Request, enumerate};
use crate::bound::Bound;
use serde::Serialize;

/// A need that can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
}

/// One need that would let something fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

const ALL: [Need; 7] =
    [Need::Usable, Need::Survive, Need::Throughput, Need::Latency, Need::Budget, Need::Power, Need::Slots];

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
    let worst = |one: &Judged, of: &dyn Fn(&super::Performance) -> f64| {
        one.performance.iter().map(of).reduce(f64::min).unwrap_or(0.0)
    };
    let is_bytes = needs.iops.is_none();
    // Of the array that comes closest, the bound that it misses by most.
    let latency = || {
        let farthest = fit.iter().filter_map(|one| farthest_bound(one, needs));
        farthest.min_by(|a, b| a.share().total_cmp(&b.share()))
    };
    let bounded = (need == Need::Latency).then(latency).flatten();
    let (from, to) = match need {
        Need::Usable => (needs.usable.0 as f64, most(&|one| one.usable_bytes)),
        Need::Survive => (f64::from(needs.survive), most(&|one| f64::from(one.survives_always))),
        Need::Throughput if is_bytes => {
            (needs.bytes_per_sec?, most(&|one| worst(one, &|it| it.bytes_per_sec)))
        }
        Need::Throughput => (needs.iops?, most(&|one| worst(one, &|it| it.iops))),
        Need::Latency => {
            let Bounded { bound, figure } = bounded?;
            (bound.value(), Some(figure))
        }
        Need::Budget => (needs.budget?, least(&|one| one.cost.unwrap_or(f64::INFINITY))),
        Need::Power => (needs.power_watts?, least(&|one| one.watts.unwrap_or(f64::INFINITY))),
        Need::Slots => (f64::from(needs.slots?), least(&|one| f64::from(one.drives()))),
    };
    let to = to.filter(|to| to.is_finite())?;
    let bound = bounded.map(|it| it.bound.clone());
    Some(Relaxation { need, to, from, fitting: fit.len() as u64, is_bytes, bound })
}

/// A bound on latency, and what an array comes to.
#[derive(Clone, Copy, Debug)]
struct Bounded<'a> {
    bound: &'a Bound,
    figure: f64,
}

impl Bounded<'_> {
    fn share(&self) -> f64 {
        self.figure / self.bound.value()
    }
}

/// The bound that an array is farthest beyond, whichever application it is with.
fn farthest_bound<'a>(one: &Judged, needs: &'a Needs) -> Option<Bounded<'a>> {
    let of_bound = |bound: &'a Bound| {
        let figures = one.performance.iter().map(|it| bound.figure_in(it));
        figures.reduce(f64::max).map(|figure| Bounded { bound, figure })
    };
    needs.latency.iter().filter_map(of_bound).max_by(|a, b| a.share().total_cmp(&b.share()))
}

/// Every single need that would let something fit, the smallest change first.
pub fn relaxations(request: &Request<'_>) -> Vec<Relaxation> {
    let needs = request.needs;
    let is_set = |need: &Need| match need {
        Need::Usable => true,
        Need::Survive => needs.survive > 0,
        Need::Throughput => needs.iops.is_some() || needs.bytes_per_sec.is_some(),
        // Arithmetic knows no latency.
        Need::Latency => false,
        Need::Budget => needs.budget.is_some(),
        Need::Power => needs.power_watts.is_some(),
        Need::Slots => needs.slots.is_some(),
    };
    let mut found: Vec<Relaxation> =
        ALL.into_iter().filter(is_set).filter_map(|need| relaxed(request, need)).collect();
    found.sort_by(|a, b| a.share().total_cmp(&b.share()));
    found
}

fn relaxed(request: &Request<'_>, need: Need) -> Option<Relaxation> {
    let needs = request.needs.without(need);
    let kept = enumerate(&Request { needs: &needs, ..request.clone() }).kept;
    let most = |of: &dyn Fn(&Kept) -> f64| kept.iter().map(of).reduce(f64::max);
    let least = |of: &dyn Fn(&Kept) -> f64| kept.iter().map(of).reduce(f64::min);
    let (from, to) = match need {
        Need::Usable => (request.needs.usable.0 as f64, most(&|kept| kept.usable.0 as f64)),
        Need::Survive => (f64::from(request.needs.survive), most(&|kept| f64::from(kept.survives.0))),
        Need::Throughput => {
            let worst = |kept: &Kept| kept.at_best.iter().copied().fold(f64::INFINITY, f64::min);
            let needed =
                request.demands.iter().filter_map(|demand| request.needs.requests_per_sec(demand.bytes_mean));
            (needed.fold(0.0, f64::max), most(&worst))
        }
        Need::Latency => return None,
        Need::Budget => (request.needs.budget?, least(&|kept| kept.cost.unwrap_or(f64::INFINITY))),
        Need::Power => (request.needs.power_watts?, least(&|kept| kept.watts.unwrap_or(f64::INFINITY))),
        Need::Slots => (
            f64::from(request.needs.slots?),
            least(&|kept| f64::from(kept.geometry.members + kept.geometry.spares)),
        ),
    };
    let to = to.filter(|to| to.is_finite())?;
    // Smaller needs make everything faster, too: what fits for that reason keeps this need, and says nothing about it.
    let gives = match need {
        Need::Usable | Need::Survive | Need::Throughput => to < from,
        Need::Latency | Need::Budget | Need::Power | Need::Slots => to > from,
    };
    gives.then_some(Relaxation { need, to, from, fitting: kept.len() as u64, is_bytes: false, bound: None })
}
