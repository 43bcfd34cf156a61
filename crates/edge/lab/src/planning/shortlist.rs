//! Which families are worth a simulation, in which order, where not all can be run.
//!
//! A family is all candidates that differ in the number of members only. The order is that of what a family does at best, or,
//! where a throughput is needed, of what it takes at least; of equal ones the faster at best. The last part of the list is
//! kept for kinds of drives that would not be in it, the best family of each: what other drives would do is part of the answer.

use super::Bench;
use raidlab_advisor::plan::{Geometry, Kept};
use raidlab_workload::Metric;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Of the list, this part is kept for drives that would not be in it: one in three.
const FOR_OTHERS: usize = 3;

/// Candidates that differ in the number of members only, fewest first.
pub(super) type Family<'a> = Vec<&'a Kept>;

/// The families in their order.
pub(super) fn families<'a>(bench: &Bench<'_>, kept: &'a [Kept]) -> Vec<Family<'a>> {
    let mut families: BTreeMap<Geometry, Family<'a>> = BTreeMap::new();
    for one in without_twins(bench, kept) {
        families.entry(Geometry { members: 0, ..one.geometry }).or_default().push(one);
    }
    let mut families: Vec<Family<'a>> = families.into_values().collect();
    for family in &mut families {
        family.sort_by_key(|one| one.geometry.members);
    }
    families.sort_by(|a, b| order(bench, a, b));
    families
}

/// Of arrays that differ only in which of two equally fast enclosures they are in, the one that takes least; of equals that whose
/// places are made for the drives.
fn without_twins<'a>(bench: &Bench<'_>, kept: &'a [Kept]) -> impl Iterator<Item = &'a Kept> {
    let port = |geometry: &Geometry| {
        let enclosure = geometry.enclosure.map(|index| &bench.parts.enclosures[usize::from(index)]);
        enclosure.map(|enclosure| enclosure.port_rate.0.to_bits())
    };
    let merit = |one: &Kept| {
        let enclosure = one.geometry.enclosure.map(|index| &bench.parts.enclosures[usize::from(index)]);
        let is_small = bench.parts.drives[usize::from(one.geometry.drive)].is_small;
        (one.cost.unwrap_or(0.0), enclosure.is_some_and(|enclosure| enclosure.is_small != is_small))
    };
    let mut best: BTreeMap<(Geometry, Option<u64>), &'a Kept> = BTreeMap::new();
    for one in kept {
        let key = (Geometry { enclosure: None, ..one.geometry }, port(&one.geometry));
        let place = best.entry(key).or_insert(one);
        if merit(one) < merit(place) {
            *place = one;
        }
    }
    best.into_values()
}

/// The first `count` of `families`, some of them exchanged for the best of other drives, and those that are left out.
pub(super) fn shortlist(families: Vec<Family<'_>>, count: usize) -> (Vec<Family<'_>>, Vec<Family<'_>>) {
    if families.len() <= count {
        return (families, Vec::new());
    }
    let own = count - count / FOR_OTHERS;
    let mut drives: BTreeSet<u16> = BTreeSet::new();
    let mut chosen = vec![false; families.len()];
    for (index, family) in families.iter().enumerate() {
        let is_new = drives.insert(family[0].geometry.drive);
        chosen[index] = index < own || is_new;
    }
    for index in 0..families.len() {
        if chosen.iter().filter(|is| **is).count() >= count {
            break;
        }
        chosen[index] = true;
    }
    let mut place = 0;
    let mut is_chosen = chosen.into_iter();
    families.into_iter().partition(|_| {
        let takes = is_chosen.next().expect("one for each") && place < count;
        place += usize::from(takes);
        takes
    })
}

fn order(bench: &Bench<'_>, a: &Family<'_>, b: &Family<'_>) -> Ordering {
    bound(bench, b)
        .total_cmp(&bound(bench, a))
        .then_with(|| best(bench, b).total_cmp(&best(bench, a)))
        .then_with(|| a[0].geometry.cmp(&b[0].geometry))
}

/// No member of the family is better than this: what it does at best, or, where a throughput is needed, less what it takes.
pub(super) fn bound(bench: &Bench<'_>, family: &[&Kept]) -> f64 {
    if wants_rate(bench) { -effort(family[0]) } else { best(bench, family) }
}

fn best(bench: &Bench<'_>, family: &[&Kept]) -> f64 {
    family.iter().map(|one| at_best(bench, one)).fold(0.0, f64::max)
}

/// Whether a throughput is needed.
pub(super) fn wants_rate(bench: &Bench<'_>) -> bool {
    bench.order.needs.iops.is_some() || bench.order.needs.bytes_per_sec.is_some()
}

fn effort(kept: &Kept) -> f64 {
    kept.cost.unwrap_or_else(|| f64::from(kept.geometry.members + kept.geometry.spares))
}

/// The score that its bounds would have.
fn at_best(bench: &Bench<'_>, kept: &Kept) -> f64 {
    let figures = kept.at_best.iter().zip(bench.demands).zip(bench.order.applications);
    figures
        .map(|((rate, demand), app)| metric(app.workload.metric, *rate, rate * demand.bytes_mean))
        .product()
}

/// The figure that an application is judged by.
pub(super) fn metric(metric: Metric, iops: f64, bytes_per_sec: f64) -> f64 {
    match metric {
        Metric::Iops => iops,
        Metric::MbPerS => bytes_per_sec / 1e6,
    }
}
