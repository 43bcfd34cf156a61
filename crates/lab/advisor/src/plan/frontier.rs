//! Which arrays to simulate next, until no remaining array can beat the best.
//!
//! ```text
//! kept by arithmetic ─► twins out ─► open ─► poll_batch ─► simulated elsewhere ─► handle_judged
//!                                     │ ▲                                              │
//!                                     │ └── settings not yet tried ◄───────────────────┤
//!                                     └── can't beat the best, even at its bound: out ◄┘
//! ```
//! - **The bound decides what remains**: an open array is assumed to reach the bound of [`super::estimate`], with no
//!   latency, and with the plainest of the untried settings. If even that ranks behind the best, it is out. So an empty
//!   frontier proves the best of all arrays that arithmetic kept, if the bounds hold.
//! - **A guess decides what comes next**: an array is expected to reach the share of its bound that similar ones
//!   reached, and one with a new drive to reach all of it; its drives last as long as their rating says. A guess decides the order only, never what is left out.
//! - **Twins** differ in their enclosure only. A twin that is no faster than another and costs no less is out at once:
//!   of two shelves that make no difference the smaller is taken.
//! - **Settings**: a geometry is first run with everything that its controller can do, and with nothing of it. The other
//!   settings are run only while it may still be the best.
//!
//! - **Others of a kind**: what can't be the best is put aside, and [`Frontier::poll_of`] hands out the most promising of a
//!   level, of drives or of controllers, so that an answer can say how far it is behind. Of a kind of which some were run, that is one
//!   which is expected to stand before them: the first that was run of a kind is seldom the best of it.
//!
//! The same results give the same order. The caller decides how long to go on; [`Frontier::open`] says what is left.

use super::enumerate::slot_rate;
use super::rank::{RankKey, Ranking};
use super::{Geometry, Hardware, Judged, Kept, Life, Performance, Request, Settings};
use raidlab_raid::LevelVariant;
use std::collections::BTreeMap;

/// How alike an array is to one that was run: the first that is known counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Level(u16, u16, LevelVariant),
    DriveAndLevel(u16, LevelVariant),
    Drive(u16),
}

impl Likeness {
    fn all(geometry: &Geometry) -> [Self; 3] {
        let Geometry { drive, controller, level, .. } = *geometry;
        [Self::Level(drive, controller, level), Self::DriveAndLevel(drive, level), Self::Drive(drive)]
    }
}

/// The arrays that were run, by likeness: how many members each has, and what share of its bounds it reached.
type Reached = BTreeMap<Likeness, Vec<(u16, Vec<f64>)>>;

/// An array with settings that were not tried.
#[derive(Clone, Debug)]
struct Open {
    kept: Kept,
    /// Those to try next, then the others.
    settings: Vec<Settings>,
    /// How many of them go together.
    first: usize,
}

/// The search.
#[derive(Debug)]
pub struct Frontier<'a> {
    request: Request<'a>,
    ranking: Ranking<'a>,
    open: Vec<Open>,
    /// What can't be the best, and may be the best of its kind.
    aside: Vec<Open>,
    judged: Vec<Judged>,
    tried: Vec<Judged>,
    /// The bounds of what was handed out.
    bounds: BTreeMap<Geometry, Vec<f64>>,
}

impl<'a> Frontier<'a> {
    /// Begins a search among `kept`, which came of `request`.
    pub fn new(request: Request<'a>, kept: Vec<Kept>) -> Self {
        let has_prices = request.parts.has_priced(&kept);
        let ranking = Ranking { needs: request.needs, has_prices };
        let open = without_twins(&request, kept, has_prices);
        let open = open.into_iter().map(|kept| Open::new(&request, kept)).collect();
        Self {
            request,
            ranking,
            open,
            aside: Vec::new(),
            judged: Vec::new(),
            tried: Vec::new(),
            bounds: BTreeMap::new(),
        }
    }

    /// The order of arrays.
    pub fn ranking(&self) -> Ranking<'a> {
        self.ranking
    }

    /// Hands out what to simulate next: up to `geometries`, each with one setting or more. Empty when nothing that is left can
    /// beat the best. Each comes with its bounds as performance.
    pub fn poll_batch(&mut self, geometries: usize) -> Vec<Judged> {
        let reached = self.reached();
        let expected = |(index, open)| (self.ranking.key(&self.expected(open, &reached)), index);
        let mut order: Vec<(RankKey, usize)> =
            self.open.iter().enumerate().map(|(index, open)| expected((index, open))).collect();
        order.sort_unstable();
        order.truncate(geometries);
        let mut batch = Vec::new();
        for (_, index) in order {
            let Open { kept, settings, first } = &mut self.open[index];
            batch.extend(settings.drain(..*first).map(|it| kept.unjudged(&self.request, it)));
            *first = settings.len();
            self.bounds.insert(kept.geometry, kept.at_best.clone());
        }
        self.open.retain(|open| !open.settings.is_empty());
        batch
    }

    /// Takes in what was simulated.
    pub fn handle_judged(&mut self, judged: Vec<Judged>) {
        for one in judged {
            let place = self.judged.iter_mut().find(|it| it.geometry == one.geometry);
            match place {
                None => self.judged.push(one.clone()),
                Some(place) if self.ranking.key(&one) < self.ranking.key(place) => *place = one.clone(),
                Some(_) => {}
            }
            self.tried.push(one);
        }
        self.ranking.sort(&mut self.judged);
        let Some(best) = self.judged.first().map(|best| self.ranking.key(best)) else { return };
        let (request, ranking) = (&self.request, self.ranking);
        let has_hope = |open: &mut Open| {
            let hopes = open.settings.iter();
            hopes.map(|it| ranking.key(&open.kept.unjudged(request, *it))).any(|hope| hope < best)
        };
        self.aside.extend(self.open.extract_if(.., |open| !has_hope(open)));
    }

    /// Hands out the most promising array that `is` of a kind, with its first settings, as [`Frontier::hope_of`] has it; it may be one
    /// that can't be the best. Empty where there is none.
    pub fn poll_of(&mut self, is: impl Fn(Geometry, Option<f64>) -> bool) -> Vec<Judged> {
        let Some(Open { kept, settings, first }) = self.first_of(is).map(|(_, open)| open.clone()) else {
            return Vec::new();
        };
        self.bounds.insert(kept.geometry, kept.at_best.clone());
        settings[..first].iter().map(|it| kept.unjudged(&self.request, *it)).collect()
    }

    /// The most promising array that `is` of a kind, was not simulated, and is expected to stand before all of the kind that were. It is
    /// told as it is expected to be; what its latency, faults and life come to nobody knows.
    pub fn hope_of(&self, is: impl Fn(Geometry, Option<f64>) -> bool) -> Option<Judged> {
        self.first_of(is).map(|(expected, _)| expected)
    }

    fn first_of(&self, is: impl Fn(Geometry, Option<f64>) -> bool) -> Option<(Judged, &Open)> {
        let reached = self.reached();
        let first = self.judged.iter().find(|one| is(one.geometry, one.cost)).map(|it| self.ranking.key(it));
        let is_new = |open: &Open| self.judged.iter().all(|it| it.geometry != open.kept.geometry);
        let is_it = |open: &&Open| is(open.kept.geometry, open.kept.cost) && is_new(open);
        let expected = self.aside.iter().chain(&self.open).filter(is_it).map(|open| {
            let expected = self.expected(open, &reached);
            (self.ranking.key(&expected), expected, open)
        });
        let hopes = expected.filter(|(key, ..)| first.is_none_or(|first| *key < first));
        hopes.min_by_key(|(key, ..)| *key).map(|(_, expected, open)| (expected, open))
    }

    /// Geometries that could still be better than the best, with settings that were not tried.
    pub fn open(&self) -> u64 {
        self.open.len() as u64
    }

    /// Each geometry that was simulated with its best settings, best first.
    pub fn judged(&self) -> &[Judged] {
        &self.judged
    }

    /// The search's results: each geometry with its best settings, best first, and all that was tried.
    pub fn into_results(self) -> (Vec<Judged>, Vec<Judged>) {
        (self.judged, self.tried)
    }

    fn reached(&self) -> Reached {
        let mut reached = Reached::new();
        for one in &self.judged {
            let shares: Vec<f64> = self.bounds[&one.geometry]
                .iter()
                .zip(&one.performance)
                .map(|(bound, it)| (it.iops / bound).clamp(0.0, 1.0))
                .collect();
            for likeness in Likeness::all(&one.geometry) {
                reached.entry(likeness).or_default().push((one.geometry.members, shares.clone()));
            }
        }
        reached
    }

    /// What an open array is expected to do: the share of its bound that the likest one reached which has the nearest number of
    /// members.
    fn expected(&self, open: &Open, reached: &Reached) -> Judged {
        let mut kept = open.kept.clone();
        let Geometry { members, .. } = kept.geometry;
        let known = Likeness::all(&kept.geometry).into_iter().find_map(|it| reached.get(&it));
        let nearest = known.and_then(|some| some.iter().min_by_key(|(other, _)| other.abs_diff(members)));
        if let Some((_, shares)) = nearest {
            kept.at_best.iter_mut().zip(shares).for_each(|(rate, share)| *rate *= share);
            let demands = self.request.demands.iter().zip(&kept.at_best);
            let score: f64 = demands.map(|(demand, iops)| demand.merit_at_best(*iops)).product();
            kept.score_at_best = kept.score_at_best.min(score);
        }
        Judged { life: kept.life_expected, ..kept.unjudged(&self.request, open.settings[0]) }
    }
}

impl Open {
    /// All settings that work on it, those first that let its controller do all that it can, and nothing of it.
    fn new(request: &Request<'_>, kept: Kept) -> Self {
        let hardware = Hardware::of(request.parts, kept.geometry);
        let works = |it: &&Settings| hardware.rejects(**it, request.space.allows_volatile).is_none();
        let mut settings: Vec<Settings> = request.space.settings.iter().filter(works).copied().collect();
        let does_all = |it: &Settings| (!it.disk_cache, it.write_back, it.read_ahead, it.strip.is_none());
        let does_nothing =
            |it: &Settings| (!it.disk_cache, !it.write_back, !it.read_ahead, it.strip.is_none());
        let mut first = 0;
        for place in 0..settings.len().min(2) {
            let rest = settings[place..].iter().enumerate();
            let next = if place == 0 {
                rest.max_by_key(|(_, it)| does_all(it))
            } else {
                rest.max_by_key(|(_, it)| does_nothing(it))
            };
            let at = place + next.map_or(0, |(at, _)| at);
            settings.swap(place, at);
            first = place + 1;
        }
        Self { kept, settings, first }
    }
}

impl Kept {
    /// The array with `settings` and, as its performance, what it does at best.
    pub fn unjudged(&self, request: &Request<'_>, settings: Settings) -> Judged {
        let figures = self.at_best.iter().zip(request.demands);
        let performance: Vec<Performance> =
            figures.map(|(iops, demand)| Performance::at_best(*iops, demand)).collect();
        Judged {
            geometry: self.geometry,
            settings,
            usable_bytes: self.usable.0 as f64,
            survives_always: self.survives.0,
            cost: self.cost,
            assumed_cost: self.assumed_cost,
            rack_units: self.rack_units,
            life: Life::Endless,
            degraded_share: None,
            loss_per_year: None,
            watts: self.watts,
            bulk: self.bulk,
            performance,
            score: self.score_at_best,
        }
    }
}

/// Without arrays that are in an enclosure which makes them no faster than another does, and takes no less: money where it is
/// known, which is less than an unknown sum, else by usual prices; places that are made for larger drives, places, enclosures.
fn without_twins(request: &Request<'_>, kept: Vec<Kept>, has_prices: bool) -> Vec<Kept> {
    // Of all drives together, and of one.
    let rates = |one: &Kept| {
        let drive = &request.parts.drives[usize::from(one.geometry.drive)];
        let controller = &request.parts.controllers[usize::from(one.geometry.controller)];
        let enclosure = one.geometry.enclosure.map(|index| &request.parts.enclosures[usize::from(index)]);
        let all = enclosure.map_or(f64::INFINITY, |it| it.port_rate.0).min(controller.member_rate.0);
        let slot = slot_rate(drive, controller, enclosure).map_or(f64::INFINITY, |rate| rate.0);
        [all, slot.min(drive.rates.media)]
    };
    let takes = |one: &Kept| {
        let drive = &request.parts.drives[usize::from(one.geometry.drive)];
        let enclosure = one.geometry.enclosure.map(|index| &request.parts.enclosures[usize::from(index)]);
        let is_carried = enclosure.is_some_and(|it| !drive.forms.contains(&it.form));
        let cost = if has_prices { one.cost } else { Some(one.assumed_cost) };
        let (is_unpriced, cost) = (cost.is_none(), cost.unwrap_or(one.assumed_cost));
        (is_unpriced, (cost * 100.0) as u64, is_carried, one.bulk)
    };
    let mut places: BTreeMap<Geometry, Vec<Kept>> = BTreeMap::new();
    for one in kept {
        places.entry(Geometry { enclosure: None, ..one.geometry }).or_default().push(one);
    }
    let mut left = Vec::new();
    for mut twins in places.into_values() {
        twins.sort_by_key(takes);
        let mut before: Vec<[f64; 2]> = Vec::new();
        for one in twins {
            let own = rates(&one);
            if !before.iter().any(|[all, slot]| *all >= own[0] && *slot >= own[1]) {
                before.push(own);
                left.push(one);
            }
        }
    }
    left
}

#[cfg(test)]
mod tests;
