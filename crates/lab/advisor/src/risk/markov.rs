//! The chain of an array: which members are gone, and how many spares wait.
//!
//! A state is `(gone, spares)`. *Gone* is the count of failed members in each group, sorted, if the layout's members
//! form equal groups that survive a fixed number of failures (levels 0 to 6, 10 near, 50, 60): exact. Otherwise (1E, 10
//! far and offset, where each member has neighbours) it is the number of failed members, and all sets of this size that
//! lose nothing count as equally likely: exact up to two failed members, and a good approximation beyond.
//! ```text
//! failure of a member in a group with f gone   gone: f -> f+1 (lost, if f is all that the group survives)
//! end of a rebuild, if spares > 0              gone: f -> f-1, spares: -1 (lost, if a strip without redundancy is unreadable)
//! a failed drive is replaced                   spares: +1
//! ```
//! Failed drives that wait for replacement: `spares at first + gone - spares now`. Every failed member is equally
//! likely to be the one under rebuild. More than [`GONE_MAX`] members gone at once count as loss, by groups.
//!
//! *Shaken* is a third part of the state: a failure that will soon be followed by another one has happened (see the
//! head of [`super`]). It ends with the failure that follows.
//!
//! The chain is solved twice: once with unreadable strips as an end, for what happens first, and once without, for
//! whether the array is lost, and for how many blocks are, from the time spent in each state.

use super::chain::Chain;
use super::{LossChance, LossRules, Rates, ReadErrors, SECTOR_BYTES};
use std::collections::BTreeMap;

/// Members gone at once that the chain follows.
const GONE_MAX: u16 = 6;

/// Sets of failed members that are looked at, where the layout has no groups.
const SETS_MAX: f64 = 50_000.0;

/// What may happen to the members in one state.
struct Moves {
    /// Rate of failures that lose nothing, and the state they lead to.
    failures: Vec<(f64, Gone)>,
    /// Rate of failures that lose data.
    fatal: f64,
    /// Rate of failures that the chain does not follow.
    beyond: f64,
    /// Share of rebuilds that end so, what they meet that no redundancy covers, and the state they lead to.
    rebuilds: Vec<(f64, ReadErrors, Gone)>,
}

/// Failed members of each group that has any, most first; or their number alone.
type Gone = Vec<u16>;

/// The chances of an array with `rules` and `spares`.
pub(super) fn loss_chance(rules: &LossRules, rates: &Rates, spares: u16) -> LossChance {
    let moves: Box<dyn Fn(&Gone) -> Moves> = if let Some(groups) = rules.equal_groups() {
        let read_errors = rates.read_errors(critical_units(rules, groups));
        Box::new(move |gone| of_groups(groups, rates.failure, read_errors, gone))
    } else {
        let counts = Counts::of(rules, rates);
        Box::new(move |gone| counts.moves(rates.failure, gone))
    };
    let first = Builder::new(rates, spares, ReadLoss::Ends, &*moves).solve();
    let whole = Builder::new(rates, spares, ReadLoss::GoesOn, &*moves).solve();
    let [by_failures, by_read_errors, beyond] = first.ends;
    let array_lost = whole.ends[BY_FAILURES] + whole.ends[BEYOND];
    LossChance {
        per_year: by_failures + by_read_errors + beyond,
        per_year_by_failures: by_failures,
        per_year_by_read_errors: by_read_errors,
        per_year_beyond_model: beyond,
        array_lost_per_year: array_lost,
        array_bytes_per_year: array_lost * rules.usable_bytes(rates),
        sector_bytes_per_year: whole.blocks * rules.blocks_lost_each() * SECTOR_BYTES,
        per_rebuild: first.per_rebuild,
        array_lost_per_rebuild: whole.per_rebuild,
    }
}

/// Members that a rebuild reads without redundancy in a group that has lost all that it survives.
fn critical_units(rules: &LossRules, (_, _, survived): (u16, u16, u16)) -> f64 {
    if survived == 0 {
        return 0.0;
    }
    // All groups are equal, and so are their members: any will do.
    let mut group = rules.groups().first().copied().unwrap_or(0);
    let mut set = 0_u128;
    for _ in 0..survived {
        let lowest = group & group.wrapping_neg();
        (set, group) = (set | lowest, group & !lowest);
    }
    rules.uncovered_units(set, set.trailing_zeros() as u16)
}

fn of_groups(
    (groups, members, survived): (u16, u16, u16),
    failure: f64,
    read_errors: ReadErrors,
    gone: &Gone,
) -> Moves {
    let total: u16 = gone.iter().sum();
    let mut moves = Moves { failures: Vec::new(), fatal: 0.0, beyond: 0.0, rebuilds: Vec::new() };
    let whole = groups - gone.len() as u16;
    let touched = gone.iter().enumerate().map(|(index, f)| (Some(index), *f, 1));
    for (index, f, times) in touched.chain((whole > 0).then_some((None, 0, whole))) {
        let rate = failure * f64::from(times) * f64::from(members - f);
        if f == survived {
            moves.fatal += rate;
        } else if total == GONE_MAX {
            moves.beyond += rate;
        } else {
            moves.failures.push((rate, with(gone, index, f + 1)));
        }
        if f > 0 {
            let errors = if f == survived { read_errors } else { ReadErrors::default() };
            moves.rebuilds.push((f64::from(f) / f64::from(total), errors, with(gone, index, f - 1)));
        }
    }
    moves
}

/// `gone` with another count in one place, or in a group that was whole.
fn with(gone: &Gone, index: Option<usize>, count: u16) -> Gone {
    let mut other = gone.clone();
    match index {
        Some(index) => other[index] = count,
        None => other.push(count),
    }
    other.retain(|count| *count > 0);
    other.sort_unstable_by(|a, b| b.cmp(a));
    other
}

/// Of the sets of each number of failed members that lose nothing: their number, and what a rebuild of one of them meets on
/// average that no redundancy covers.
struct Counts {
    members: u16,
    sets: Vec<f64>,
    read_errors: Vec<ReadErrors>,
}

impl Counts {
    fn of(rules: &LossRules, rates: &Rates) -> Self {
        let members = rules.members();
        let (mut sets, mut read_errors, mut most) = (Vec::new(), Vec::new(), 1.0);
        for size in 0..=GONE_MAX.min(members) {
            if size > 0 {
                most *= f64::from(members - size + 1) / f64::from(size);
            }
            if most > SETS_MAX {
                break;
            }
            let (mut count, mut sum) = (0.0, ReadErrors::default());
            rules.surviving_sets(size, &mut |set| {
                count += 1.0;
                for member in (0..members).filter(|member| set >> member & 1 != 0) {
                    let errors = rates.read_errors(rules.uncovered_units(set, member));
                    sum.chance += errors.chance / f64::from(size);
                    sum.blocks += errors.blocks / f64::from(size);
                }
            });
            sets.push(count);
            let each = f64::max(count, 1.0);
            read_errors.push(ReadErrors { chance: sum.chance / each, blocks: sum.blocks / each });
        }
        Self { members, sets, read_errors }
    }

    fn moves(&self, failure: f64, gone: &Gone) -> Moves {
        let total = gone.first().copied().unwrap_or(0);
        let rate = failure * f64::from(self.members - total);
        let mut moves = Moves { failures: Vec::new(), fatal: 0.0, beyond: 0.0, rebuilds: Vec::new() };
        match self.sets.get(usize::from(total) + 1) {
            None => moves.beyond = rate,
            Some(larger) => {
                let pairs = self.sets[usize::from(total)] * f64::from(self.members - total);
                let survives = larger * f64::from(total + 1) / pairs;
                moves.fatal = rate * (1.0 - survives).max(0.0);
                moves.failures.extend((survives > 0.0).then(|| (rate * survives, vec![total + 1])));
            }
        }
        if total > 0 {
            let fewer = if total == 1 { Vec::new() } else { vec![total - 1] };
            moves.rebuilds.push((1.0, self.read_errors[usize::from(total)], fewer));
        }
        moves
    }
}

/// Whether a strip that can't be read ends the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadLoss {
    Ends,
    GoesOn,
}

/// Failed members, spares, and whether another failure is to follow soon.
type State = (Gone, u16, bool);

/// Makes the chain state by state, from the whole array on.
struct Builder<'a> {
    rates: &'a Rates,
    spares: u16,
    read_loss: ReadLoss,
    moves: &'a dyn Fn(&Gone) -> Moves,
    chain: Chain,
    numbers: BTreeMap<State, usize>,
    open: Vec<State>,
    /// States, and the rate at which blocks are met in them that can't be read.
    blocks: Vec<(usize, f64)>,
}

/// What the chain says.
struct Solved {
    /// Chance of each end within a year.
    ends: [f64; 3],
    /// Mean number of unreadable blocks in a year.
    blocks: f64,
    /// Chance of an end after the first failure and before all members are whole again.
    per_rebuild: f64,
}

/// Numbers of the absorbing states.
const BY_FAILURES: usize = 0;
const BY_READ_ERRORS: usize = 1;
const BEYOND: usize = 2;

impl<'a> Builder<'a> {
    fn new(rates: &'a Rates, spares: u16, read_loss: ReadLoss, moves: &'a dyn Fn(&Gone) -> Moves) -> Self {
        let mut chain = Chain::default();
        for end in [BY_FAILURES, BY_READ_ERRORS, BEYOND] {
            let number = chain.add_state();
            assert_eq!(number, end, "the ends are the first states");
        }
        let (numbers, open, blocks) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self { rates, spares, read_loss, moves, chain, numbers, open, blocks }
    }

    fn number(&mut self, gone: &Gone, spares: u16, shaken: bool) -> usize {
        let state = (gone.clone(), spares, shaken);
        if let Some(number) = self.numbers.get(&state) {
            return *number;
        }
        let number = self.chain.add_state();
        self.numbers.insert(state.clone(), number);
        self.open.push(state);
        number
    }

    fn solve(mut self) -> Solved {
        let whole = self.number(&Vec::new(), self.spares, false);
        while let Some(state) = self.open.pop() {
            self.add_rates(&state);
        }
        let (after, spent) = self.chain.after(whole, 1.0);
        Solved {
            ends: [after[BY_FAILURES], after[BY_READ_ERRORS], after[BEYOND]],
            blocks: self.blocks.iter().map(|(state, rate)| spent[*state] * rate).sum(),
            per_rebuild: self.per_rebuild(),
        }
    }

    fn per_rebuild(&self) -> f64 {
        let is_whole = |((gone, ..), _): &(&State, &usize)| gone.is_empty();
        let good: Vec<usize> = self.numbers.iter().filter(is_whole).map(|(_, number)| *number).collect();
        let first = self.chain.meets_first(&|state| state <= BEYOND, &|state| good.contains(&state));
        let degraded =
            |shaken| self.numbers.get(&(vec![1], self.spares, shaken)).map(|number| first[*number]);
        match (degraded(false), degraded(true)) {
            (Some(alone), Some(followed)) => alone + self.rates.followed * (followed - alone),
            (Some(alone), None) => alone,
            (None, Some(followed)) => followed,
            // Without redundancy there is no degraded state: the first failure is the loss.
            (None, None) => f64::from(u8::from(self.rates.failure > 0.0)),
        }
    }

    fn add_rates(&mut self, (gone, spares, shaken): &State) {
        let from = self.numbers[&(gone.clone(), *spares, *shaken)];
        let (spares, shaken) = (*spares, *shaken);
        let moves = (self.moves)(gone);
        self.add_failures(from, &moves, spares, (1.0, shaken));
        let each: f64 = moves.fatal + moves.beyond + moves.failures.iter().map(|(rate, _)| rate).sum::<f64>();
        if shaken && each > 0.0 {
            self.add_failures(from, &moves, spares, (self.rates.follow / each, false));
        }
        if spares > 0 {
            let ends = self.read_loss == ReadLoss::Ends;
            for (share, errors, next) in &moves.rebuilds {
                let rate = self.rates.rebuild * share;
                let loss = if ends { errors.chance } else { 0.0 };
                self.chain.add_rate(from, BY_READ_ERRORS, rate * loss);
                let to = self.number(next, spares - 1, shaken);
                self.chain.add_rate(from, to, rate * (1.0 - loss));
                self.blocks.push((from, rate * errors.blocks));
            }
        }
        let waiting = self.spares + gone.iter().sum::<u16>() - spares;
        if waiting > 0 {
            let to = self.number(gone, spares + 1, shaken);
            self.chain.add_rate(from, to, self.rates.replacement * f64::from(waiting));
        }
    }

    /// Failures at `times` their rate. Each is followed by another one with the chance that the rates say; if it is not,
    /// `stays_shaken` says whether one is still to follow.
    fn add_failures(&mut self, from: usize, moves: &Moves, spares: u16, (times, stays_shaken): (f64, bool)) {
        self.chain.add_rate(from, BY_FAILURES, moves.fatal * times);
        self.chain.add_rate(from, BEYOND, moves.beyond * times);
        for (rate, next) in moves.failures.iter().filter(|(rate, _)| *rate > 0.0) {
            let followed = if stays_shaken { 1.0 } else { self.rates.followed };
            for (shaken, share) in [(true, followed), (false, 1.0 - followed)] {
                if share > 0.0 {
                    let to = self.number(next, spares, shaken);
                    self.chain.add_rate(from, to, rate * times * share);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sets were looked at until a plan of mirrors of 24 spent seconds on them.
    #[test]
    fn one_critical_set_is_as_good_as_all() {
        for (level, members) in [
            ("1", 2),
            ("1", 9),
            ("5", 3),
            ("5", 12),
            ("6", 9),
            ("10", 8),
            ("50:2-spans", 8),
            ("60:3-spans", 15),
            ("3", 4),
        ] {
            let rules = LossRules::of_level(level.parse().unwrap(), members).unwrap();
            let groups = rules.equal_groups().expect("it has groups");
            let mut most = 0.0;
            rules.surviving_sets(groups.2, &mut |set| {
                let of = |member| rules.uncovered_units(set, member);
                let units = (0..members).filter(|member| set >> member & 1 != 0).map(of);
                most = units.fold(most, f64::max);
            });
            assert_eq!(critical_units(&rules, groups).to_bits(), most.to_bits(), "RAID {level} x{members}");
        }
    }
}
