//! Plans changed a little, or made of two: what a campaign that is guided by coverage tries next.
//!
//! A setting is taken from a plan that is drawn anew, so it has a value that plans may have, and a field that is added to
//! a plan is changed here without a word about it. A change that makes no possible plan is not made. Changed plans are
//! short and small: that they are quick is worth more than what only long ones show.

use super::arrays::fit_log;
use super::faults::{Fault, FaultEvent};
use super::plan::{TortureMode, TorturePlan};
use raidlab_workload::Rng;
use std::collections::BTreeSet;
use toml::{Table, Value};

/// Host requests of a changed plan at most.
const OPS_MAX: u64 = 400;

/// Faults of a changed plan at most.
const FAULTS_MAX: usize = 40;

/// Bytes of a member of a changed plan at most.
const MEMBER_BYTES_MAX: u64 = 1 << 20;

/// Keys from a plan to one of its settings.
type Setting = Vec<String>;

impl TorturePlan {
    /// Draws a plan as short as changed ones are.
    #[expect(clippy::missing_panics_doc, reason = "no level is asked for")]
    pub fn draw_short(random: &mut Rng) -> Self {
        let mode = if random.chance_pct(50) { TortureMode::Bounded } else { TortureMode::Beyond };
        let seed = random.below(1 << 32);
        Self::draw(seed, OPS_MAX, mode, None).expect("no level is asked for")
    }

    /// This plan with one change or a few.
    #[must_use]
    pub fn changed(&self, random: &mut Rng) -> Self {
        let mut plan = self.clone();
        for _ in 0..=random.below(4) {
            match random.below(8) {
                0 => plan.seed = random.below(1 << 32),
                1 | 2 => plan.take_setting(&Self::draw_short(random), random),
                3 => plan.ops = 1 + random.below(OPS_MAX),
                _ => plan.change_faults(random),
            }
        }
        plan.tidied()
    }

    /// The beginning of this plan's faults and the end of those of `other`, on the array of the one or the other.
    #[must_use]
    pub fn spliced(&self, other: &Self, random: &mut Rng) -> Self {
        let base = if random.chance_pct(50) { self } else { other };
        let cut = random.below(OPS_MAX);
        let front = self.faults.iter().filter(|event| event.after_ops < cut);
        let back = other.faults.iter().filter(|event| event.after_ops >= cut);
        Self { faults: front.chain(back).copied().collect(), ..base.clone() }.tidied()
    }

    /// Takes one setting of the load, of the array, or the mode from `donor`.
    fn take_setting(&mut self, donor: &Self, random: &mut Rng) {
        let [mut mine, theirs] = [&*self, donor].map(tables);
        let all: Vec<Setting> = settings(&mine).union(&settings(&theirs)).cloned().collect();
        take(&mut mine, &theirs, &all[random.below(all.len() as u64) as usize]);
        let Ok(taken) = mine.try_into::<Self>() else { return };
        let Self { seed, ops, .. } = *self;
        let mut changed = Self { seed, ops, faults: self.faults.clone(), ..taken };
        fit_log(&mut changed.config, 1 << random.below(4));
        changed = changed.tidied();
        if changed.config.member_size.0 <= MEMBER_BYTES_MAX && changed.check().is_ok() {
            *self = changed;
        }
    }

    fn change_faults(&mut self, random: &mut Rng) {
        let faults = &mut self.faults;
        let place = random.below(faults.len() as u64 + 1) as usize;
        let moment = random.below(self.ops);
        let Some(event) = faults.get(place).copied() else {
            faults.push(new_fault(moment, random));
            return;
        };
        match random.below(8) {
            0 => faults.push(new_fault(moment, random)),
            1 => faults.push(new_fault(event.after_ops + random.below(3), random)),
            2 => drop(faults.remove(place)),
            3 => drop(faults.drain(place..(place + 1 + random.below(8) as usize).min(faults.len()))),
            4 => faults[place].after_ops = moment,
            5 => {
                // All that follows comes sooner or later by the same.
                let earlier = random.below(event.after_ops + 1);
                let later = random.below(32);
                for event in &mut faults[place..] {
                    event.after_ops = event.after_ops - earlier.min(event.after_ops) + later;
                }
            }
            6 => faults[place].pick = random.next_u64(),
            _ => faults.extend(storm(event, self.ops, random)),
        }
    }

    /// The same with its faults in order, and without those that would never come, could not be borne or are too many.
    fn tidied(mut self) -> Self {
        let Self { ops, ref config, .. } = self;
        let fits = |event: &FaultEvent| {
            event.after_ops < ops && (config.resilience.integrity || !event.fault.is_lie())
        };
        self.faults.retain(fits);
        self.faults.sort_by_key(|event| event.after_ops);
        self.faults.truncate(FAULTS_MAX);
        self
    }
}

fn new_fault(after_ops: u64, random: &mut Rng) -> FaultEvent {
    FaultEvent { after_ops, fault: super::arrays::pick(random, &Fault::ALL), pick: random.next_u64() }
}

/// More of the same after a few requests each: some moments are hit only by one of many.
fn storm(event: FaultEvent, ops: u64, random: &mut Rng) -> Vec<FaultEvent> {
    let gap_max = super::arrays::pick(random, &[2, 16, 64]);
    let mut events = Vec::new();
    let mut after_ops = event.after_ops;
    while after_ops < ops && events.len() < FAULTS_MAX {
        after_ops += 1 + random.below(gap_max);
        events.push(FaultEvent { after_ops, pick: random.next_u64(), ..event });
    }
    events
}

/// A plan as tables, its faults left out.
fn tables(plan: &TorturePlan) -> Table {
    let bare = TorturePlan { seed: 0, faults: Vec::new(), ..plan.clone() };
    Table::try_from(bare).expect("plans are made of tables, numbers and text")
}

/// What there is to set in a plan, beside what is changed in ways of its own.
fn settings(plan: &Table) -> BTreeSet<Setting> {
    let mut found = paths(plan);
    found.retain(|path| !["seed", "ops", "faults"].contains(&path[0].as_str()));
    found
}

fn paths(table: &Table) -> BTreeSet<Setting> {
    let mut found = BTreeSet::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                let below = |path: Setting| [vec![key.clone()], path].concat();
                found.extend(paths(inner).into_iter().map(below));
            }
            _ => drop(found.insert(vec![key.clone()])),
        }
    }
    found
}

/// Sets `mine` at `path` to what `theirs` has there, which may be nothing.
fn take(mine: &mut Table, theirs: &Table, path: &[String]) {
    let Some((key, rest)) = path.split_first() else { return };
    match (mine.get_mut(key), theirs.get(key)) {
        (Some(Value::Table(mine)), Some(Value::Table(theirs))) => take(mine, theirs, rest),
        (_, Some(value)) => drop(mine.insert(key.clone(), value.clone())),
        (_, None) => drop(mine.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::TortureWorld;
    use super::*;

    /// What is tried can be read again, can be carried out, and is short.
    #[test]
    fn changed_plans_are_possible_and_differ() {
        let mut random = Rng::new(1);
        let mut plan = TorturePlan::draw_short(&mut random);
        let mut same = 0;
        for _ in 0..2_000 {
            let other = TorturePlan::draw_short(&mut random);
            let next = match random.below(8) {
                0 => other,
                1 => plan.spliced(&other, &mut random),
                _ => plan.changed(&mut random),
            };
            assert_eq!(next.check(), Ok(()), "{next:?}");
            assert!(TortureWorld::new(&next.config, next.seed).is_ok(), "{next:?}");
            assert!(
                next.ops <= OPS_MAX && (next.faults.len() <= FAULTS_MAX || next.ops == OPS_MAX),
                "{next:?}"
            );
            same += u32::from(next == plan);
            plan = next;
        }
        assert!(same < 200, "{same}");
    }

    /// Every setting is reached, so that one that is added is, too.
    #[test]
    fn every_setting_is_changed() {
        let mut random = Rng::new(2);
        let mut left = settings(&tables(&TorturePlan::draw_short(&mut random)));
        for _ in 0..20_000 {
            let plan = TorturePlan::draw_short(&mut random);
            let (before, after) = (tables(&plan), tables(&plan.changed(&mut random)));
            left.retain(|path| at(&before, path) == at(&after, path));
        }
        // What plans are never drawn with can't be taken from one.
        assert!(left.is_empty(), "{left:?}");
    }

    fn at<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
        let (key, rest) = path.split_first()?;
        match table.get(key) {
            Some(Value::Table(inner)) => at(inner, rest),
            found => found,
        }
    }
}
