//! The chain of an array: which members are gone, and how many spares wait.
//!
//! A state is `(gone, spares)`. *Gone* is the count of failed members in each group, sorted, where the layout's members
//! fall into equal groups that survive any so many failures (levels 0 to 6, 10 near, 50, 60): exact. Elsewhere (1E, 10 far
//! and offset, where each member has neighbours) it is the number of failed members, and of the sets of so many that lose
//! nothing each counts as equally likely: exact up to two failed members, and near to it beyond.
//! ```text
//! failure of a member in a group with f gone   gone: f -> f+1 (lost, if f is all that the group survives)
//! end of a rebuild, if spares > 0              gone: f -> f-1, spares: -1 (lost, if a strip without redundancy is unreadable)
//! a failed drive is replaced                   spares: +1
//! ```
//! Failed drives that wait to be replaced: `spares at first + gone - spares now`. Every failed member is as likely as any
//! other to be the one under rebuild. More than [`GONE_MAX`] members gone at once count as loss, told apart.

use super::chain::Chain;
use super::{LossChance, LossRules, Rates};
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
    /// Share of rebuilds that end so, their chance of a read error without redundancy, and the state they lead to.
    rebuilds: Vec<(f64, f64, Gone)>,
}

/// Failed members of each group that has any, most first; or their number alone.
type Gone = Vec<u16>;

/// The chances of an array with `rules` and `spares`.
pub(super) fn loss_chance(rules: &LossRules, rates: &Rates, spares: u16) -> LossChance {
    let moves: Box<dyn Fn(&Gone) -> Moves> = if let Some(groups) = rules.equal_groups() {
        let read_loss = rates.read_loss(critical_units(rules, groups));
        Box::new(move |gone| of_groups(groups, rates.failure, read_loss, gone))
    } else {
        let counts = Counts::of(rules, rates);
        Box::new(move |gone| counts.moves(rates.failure, gone))
    };
    Builder::new(rates, spares, &*moves).chances()
}

/// Members that a rebuild reads without redundancy in a group that has lost all that it survives.
fn critical_units(rules: &LossRules, (_, _, survived): (u16, u16, u16)) -> f64 {
    let mut units = 0.0;
    if survived > 0 {
        // The first group's members need not be the first members, so sets are tried until one is critical.
        rules.surviving_sets(survived, &mut |set| {
            units = f64::max(units, rules.uncovered_units(set, set.trailing_zeros() as u16));
        });
    }
    units
}

fn of_groups(
    (groups, members, survived): (u16, u16, u16),
    failure: f64,
    read_loss: f64,
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
            let loss = if f == survived { read_loss } else { 0.0 };
            moves.rebuilds.push((f64::from(f) / f64::from(total), loss, with(gone, index, f - 1)));
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

/// Of the sets of each number of failed members that lose nothing: their number, and the mean chance of a read error
/// where one of them is rebuilt.
struct Counts {
    members: u16,
    sets: Vec<f64>,
    read_loss: Vec<f64>,
}

impl Counts {
    fn of(rules: &LossRules, rates: &Rates) -> Self {
        let members = rules.members();
        let (mut sets, mut read_loss, mut most) = (Vec::new(), Vec::new(), 1.0);
        for size in 0..=GONE_MAX.min(members) {
            if size > 0 {
                most *= f64::from(members - size + 1) / f64::from(size);
            }
            if most > SETS_MAX {
                break;
            }
            let (mut count, mut loss) = (0.0, 0.0);
            rules.surviving_sets(size, &mut |set| {
                count += 1.0;
                for member in (0..members).filter(|member| set >> member & 1 != 0) {
                    loss += rates.read_loss(rules.uncovered_units(set, member)) / f64::from(size);
                }
            });
            sets.push(count);
            read_loss.push(if count > 0.0 { loss / count } else { 0.0 });
        }
        Self { members, sets, read_loss }
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
            moves.rebuilds.push((1.0, self.read_loss[usize::from(total)], fewer));
        }
        moves
    }
}

/// Makes the chain state by state, from the whole array on.
struct Builder<'a> {
    rates: &'a Rates,
    spares: u16,
    moves: &'a dyn Fn(&Gone) -> Moves,
    chain: Chain,
    numbers: BTreeMap<(Gone, u16), usize>,
    open: Vec<(Gone, u16)>,
}

/// Numbers of the absorbing states.
const BY_FAILURES: usize = 0;
const BY_READ_ERRORS: usize = 1;
const BEYOND: usize = 2;

impl<'a> Builder<'a> {
    fn new(rates: &'a Rates, spares: u16, moves: &'a dyn Fn(&Gone) -> Moves) -> Self {
        let mut chain = Chain::default();
        for end in [BY_FAILURES, BY_READ_ERRORS, BEYOND] {
            let number = chain.add_state();
            assert_eq!(number, end, "the ends are the first states");
        }
        Self { rates, spares, moves, chain, numbers: BTreeMap::new(), open: Vec::new() }
    }

    fn number(&mut self, gone: &Gone, spares: u16) -> usize {
        if let Some(number) = self.numbers.get(&(gone.clone(), spares)) {
            return *number;
        }
        let number = self.chain.add_state();
        self.numbers.insert((gone.clone(), spares), number);
        self.open.push((gone.clone(), spares));
        number
    }

    fn chances(mut self) -> LossChance {
        let whole = self.number(&Vec::new(), self.spares);
        while let Some((gone, spares)) = self.open.pop() {
            self.add_rates(&gone, spares);
        }
        let after = self.chain.after(whole, 1.0);
        let good: Vec<usize> =
            self.numbers.iter().filter(|((gone, _), _)| gone.is_empty()).map(|(_, number)| *number).collect();
        let first = self.chain.meets_first(&|state| state <= BEYOND, &|state| good.contains(&state));
        let degraded = self.numbers.get(&(vec![1], self.spares)).map(|number| first[*number]);
        LossChance {
            per_year: after[BY_FAILURES] + after[BY_READ_ERRORS] + after[BEYOND],
            per_year_by_failures: after[BY_FAILURES],
            per_year_by_read_errors: after[BY_READ_ERRORS],
            per_year_beyond_model: after[BEYOND],
            // Without redundancy there is no degraded state: the first failure is the loss.
            per_rebuild: degraded.unwrap_or(if self.rates.failure > 0.0 { 1.0 } else { 0.0 }),
        }
    }

    fn add_rates(&mut self, gone: &Gone, spares: u16) {
        let from = self.numbers[&(gone.clone(), spares)];
        let moves = (self.moves)(gone);
        self.chain.add_rate(from, BY_FAILURES, moves.fatal);
        self.chain.add_rate(from, BEYOND, moves.beyond);
        for (rate, next) in moves.failures.iter().filter(|(rate, _)| *rate > 0.0) {
            let to = self.number(next, spares);
            self.chain.add_rate(from, to, *rate);
        }
        if spares > 0 {
            for (share, loss, next) in &moves.rebuilds {
                let rate = self.rates.rebuild * share;
                self.chain.add_rate(from, BY_READ_ERRORS, rate * loss);
                let to = self.number(next, spares - 1);
                self.chain.add_rate(from, to, rate * (1.0 - loss));
            }
        }
        let waiting = self.spares + gone.iter().sum::<u16>() - spares;
        if waiting > 0 {
            let to = self.number(gone, spares + 1);
            self.chain.add_rate(from, to, self.rates.replacement * f64::from(waiting));
        }
    }
}
