//! Which arrays an answer shows: not the best and its nearest likes, but each for something of its own.
//!
//! ```text
//! ranked ─► the best
//!        ├─ the best of another level, of other drives, of another controller     each family once
//!        ├─ the first in usable space, throughput, tail, loss, life, power, price  of the Pareto front
//!        └─ the next ones of another level, drive or controller than all shown, then of more or fewer members
//! ```
//! The same drives, level and controller in another enclosure are no other row.
//!
//! The **Pareto front** holds the arrays that no other beats in one of price, usable space, throughput, tail, chance of
//! loss, drive life and power without being worse in another. What is not known of an array is its worst.
//!
//! Rows stay in the order of the ranking. Pure: the same arrays give the same rows.

use super::rank::{Ranking, slowness};
use super::{Geometry, Judged, PartList};
use serde::Serialize;

raidlab_units::named! {
    /// What an array is shown for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Role {
        /// The first of all.
        Best = "best",
        /// The first where nothing keeps all needs.
        Nearest = "nearest",
        /// The first of its level.
        Level = "best of another level",
        /// The first of its drives.
        Drives = "best of other drives",
        /// The first of its line of controllers.
        Controller = "best of another controller",
        /// Nothing takes less.
        Cheapest = "takes least",
        /// Nothing holds more.
        Space = "most space",
        /// Nothing is faster.
        Fastest = "fastest",
        /// The slowest requests of nothing are faster.
        Tail = "shortest tail",
        /// Nothing loses data less probably.
        Safest = "least loss",
        /// Drives of nothing last longer.
        Longest = "longest life",
        /// Nothing takes less power.
        Power = "least power",
        /// It is next.
        Next = "next",
    }
}

/// An array that is shown, by its number in the ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub index: usize,
    /// What it is shown for; the first counts.
    pub roles: Vec<Role>,
}

/// Figures of which less is better.
type Merits = [f64; 7];

const MERIT_ROLES: [Role; 7] =
    [Role::Cheapest, Role::Space, Role::Fastest, Role::Tail, Role::Safest, Role::Longest, Role::Power];

/// The arrays of `judged`, best first, that an answer of `count` rows shows.
pub fn diverse(judged: &[Judged], ranking: Ranking<'_>, parts: &PartList, count: usize) -> Vec<Row> {
    let Some(first) = judged.first() else { return Vec::new() };
    let families = |index: usize| family(&judged[index], parts);
    let mut rows = Rows { judged, shown: Vec::new(), count: count.max(1) };
    rows.show(0, Role::Best);
    for (role, of) in [(Role::Level, 0), (Role::Drives, 1), (Role::Controller, 2)] {
        let own = family(first, parts)[of];
        let other = (0..judged.len()).find(|index| families(*index)[of] != own);
        if let Some(index) = other {
            rows.show(index, role);
        }
    }
    let merits: Vec<Merits> = judged.iter().map(|one| merits(one, ranking)).collect();
    let front = front(&merits);
    for (at, role) in MERIT_ROLES.into_iter().enumerate() {
        if let Some(index) = first_in(&merits, &front, at) {
            rows.show(index, role);
        }
    }
    // Of the rest first what differs from all that is shown in two of three, then in one.
    for alike_most in [1, 2, 3] {
        for index in 0..judged.len() {
            let own = families(index);
            let alike = |row: &Row| own.iter().zip(families(row.index)).filter(|(a, b)| *a == b).count();
            if rows.shown.iter().all(|row| row.index != index && alike(row) <= alike_most) {
                rows.show(index, Role::Next);
            }
        }
    }
    rows.shown.sort_by_key(|row| row.index);
    rows.shown
}

/// What each of `shown`, best first, is among `all` that was looked at, best first: an array is first in something only where none is
/// before it, shown or not.
pub fn roles(shown: &[Judged], all: &[Judged], ranking: Ranking<'_>, parts: &PartList) -> Vec<Vec<Role>> {
    let mut roles: Vec<Vec<Role>> = vec![Vec::new(); shown.len()];
    let Some(first) = shown.first() else { return roles };
    let keeps = first.keeps(ranking.needs);
    roles[0].push(if keeps { Role::Best } else { Role::Nearest });
    for (role, of) in [(Role::Level, 0), (Role::Drives, 1), (Role::Controller, 2)] {
        let own = family(first, parts)[of];
        let other = all.iter().find(|one| family(one, parts)[of] != own);
        let place = other.and_then(|other| shown.iter().position(|one| one.geometry == other.geometry));
        if let Some(place) = place {
            roles[place].push(role);
        }
    }
    let of = |list: &[Judged]| list.iter().map(|one| merits(one, ranking)).collect::<Vec<Merits>>();
    let (of_shown, mut of_all) = (of(shown), of(all));
    of_all.extend(&of_shown);
    // To take least is no merit of what does not serve.
    for (at, role) in MERIT_ROLES.into_iter().enumerate().filter(|_| keeps) {
        let best = of_all.iter().map(|one| one[at]).fold(f64::INFINITY, f64::min);
        let differs = best < f64::INFINITY && of_all.iter().any(|other| other[at] > best);
        let place = of_shown.iter().position(|one| one[at] <= best).filter(|_| differs);
        if let Some(place) = place {
            roles[place].push(role);
        }
    }
    for own in roles.iter_mut().filter(|own| own.is_empty()) {
        own.push(Role::Next);
    }
    roles
}

/// The rows so far.
struct Rows<'a> {
    judged: &'a [Judged],
    shown: Vec<Row>,
    count: usize,
}

impl Rows<'_> {
    /// Shows an array for something, where there is room for it and it is not shown in another enclosure.
    fn show(&mut self, index: usize, role: Role) {
        let anywhere = |index: usize| Geometry { enclosure: None, ..self.judged[index].geometry };
        let is_shown = self.shown.iter().any(|row| anywhere(row.index) == anywhere(index));
        let has_room = self.shown.len() < self.count && !is_shown;
        match self.shown.iter_mut().find(|row| row.index == index) {
            Some(row) => row.roles.push(role),
            None if has_room => self.shown.push(Row { index, roles: vec![role] }),
            None => {}
        }
    }
}

/// Level, drives and controller, without what makes no difference of kind.
fn family<'a>(one: &Judged, parts: &'a PartList) -> [&'a str; 3] {
    let level = one.geometry.level.level.name();
    let drive = &parts.drives[usize::from(one.geometry.drive)].family;
    [level, drive, &parts.controllers[usize::from(one.geometry.controller)].family]
}

fn merits(one: &Judged, ranking: Ranking<'_>) -> Merits {
    let unknown = f64::INFINITY;
    let tail = one.performance.iter().map(|it| it.tail.lat_ns_p99).max().unwrap_or(u64::MAX);
    [
        match ranking.effort_key(one) {
            (false, thousandths) => thousandths as f64,
            (true, _) => unknown,
        },
        -one.usable_bytes,
        slowness(one) as f64,
        tail as f64,
        one.loss_per_year.unwrap_or(unknown),
        match one.life {
            super::Life::Endless => f64::NEG_INFINITY,
            super::Life::Years(years) => -years,
            super::Life::Unknown => unknown,
        },
        one.watts,
    ]
}

/// The arrays of the Pareto front.
fn front(merits: &[Merits]) -> Vec<usize> {
    let is_beaten = |own: &Merits| {
        merits.iter().any(|other| other != own && other.iter().zip(own).all(|(other, own)| other <= own))
    };
    (0..merits.len()).filter(|index| !is_beaten(&merits[*index])).collect()
}

/// The first array of the front by one merit; none where all arrays are alike in it.
fn first_in(merits: &[Merits], front: &[usize], at: usize) -> Option<usize> {
    let index = *front.iter().min_by(|a, b| merits[**a][at].total_cmp(&merits[**b][at]))?;
    let best = merits[index][at];
    let differs = merits.iter().any(|other| other[at] > best);
    (differs && best < f64::INFINITY).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{judged, needs, parts};
    use super::*;
    use crate::plan::Life;

    fn array(drive: u16, controller: u16, level: &str, members: u16) -> Judged {
        let one = judged(members, 1000.0 - f64::from(members), false);
        let level = level.parse().expect("a level");
        Judged { geometry: Geometry { drive, controller, level, ..one.geometry }, ..one }
    }

    /// Five rows once were one pair of drives behind five adapters.
    #[test]
    fn rows_are_of_several_levels_drives_and_controllers() {
        let (needs, parts) = (needs(), parts());
        let ranking = Ranking { needs: &needs, has_prices: false };
        let list = [
            array(0, 0, "1", 2),
            array(0, 1, "1", 2),
            array(0, 2, "1", 2),
            array(0, 0, "5", 3),
            array(1, 0, "1", 2),
            Judged { life: Life::Years(0.5), ..array(0, 0, "10", 4) },
        ];
        let rows = diverse(&list, ranking, &parts, 4);
        assert_eq!(rows.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 1, 3, 4]);
        let roles: Vec<Role> = rows.iter().map(|row| row.roles[0]).collect();
        assert_eq!(roles, [Role::Best, Role::Controller, Role::Level, Role::Drives]);
        assert_eq!(diverse(&list, ranking, &parts, 1).len(), 1);
        assert_eq!(diverse(&list, ranking, &parts, 50).len(), list.len(), "all where there is room");
        assert_eq!(diverse(&[], ranking, &parts, 5), []);
    }

    /// The second of five rows once was the first in another backplane.
    #[test]
    fn another_enclosure_is_no_other_row() {
        let (needs, parts) = (needs(), parts());
        let ranking = Ranking { needs: &needs, has_prices: false };
        let placed = |enclosure, members, watts| {
            let one = array(0, 0, "5", members);
            Judged { watts, geometry: Geometry { enclosure, ..one.geometry }, ..one }
        };
        let list = [
            placed(Some(0), 4, 90.0),
            placed(Some(1), 4, 80.0),
            placed(None, 4, 85.0),
            placed(Some(1), 5, 95.0),
            array(1, 0, "5", 4),
        ];
        let rows = diverse(&list, ranking, &parts, 5);
        assert_eq!(rows.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 3, 4]);
        let three = diverse(&list[..4], ranking, &parts, 5);
        assert_eq!(three.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 3]);
    }

    /// An array was called "least power" for taking least of the five that were shown, above a table with one that took less.
    #[test]
    fn what_is_first_is_first_of_all_that_was_looked_at() {
        let (needs, parts) = (needs(), parts());
        let ranking = Ranking { needs: &needs, has_prices: false };
        let of = |drive, level: &str, members, watts| Judged { watts, ..array(drive, 0, level, members) };
        let (best, other, least) = (of(0, "1", 2, 90.0), of(0, "5", 4, 80.0), of(1, "1", 8, 70.0));
        let shown = [best.clone(), other.clone()];
        let of_shown = roles(&shown, &shown, ranking, &parts);
        assert!(of_shown[1].contains(&Role::Power) && of_shown[1].contains(&Role::Level), "{of_shown:?}");
        let of_all = roles(&shown, &[best, other, least], ranking, &parts);
        assert!(of_all.iter().flatten().all(|role| *role != Role::Power), "{of_all:?}");
        assert!(of_all[0].contains(&Role::Best) && of_all[1].contains(&Role::Level), "{of_all:?}");
        assert_eq!(roles(&[], &[], ranking, &parts), Vec::<Vec<Role>>::new());
    }

    #[test]
    fn what_nothing_beats_in_one_figure_is_shown_for_it() {
        let (needs, parts) = (needs(), parts());
        let ranking = Ranking { needs: &needs, has_prices: false };
        let large = Judged { usable_bytes: 9e12, ..array(0, 0, "1", 4) };
        let beaten = Judged { usable_bytes: 8e12, score: 1.0, ..array(0, 0, "1", 6) };
        let list = [array(0, 0, "1", 2), beaten, large];
        let rows = diverse(&list, ranking, &parts, 2);
        assert_eq!(rows[1], Row { index: 2, roles: vec![Role::Space] });
    }
}
