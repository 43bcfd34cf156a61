//! Drawn years of an array: which member fails when, by the layout's own rules.
//!
//! Losses are rare, so failures are drawn more often than they come, and each trial carries the likelihood ratio of its
//! draws: for an event of rate `r` drawn at rate `r'` a factor `r / r'`, and `exp(-(sum of rates - sum of r') dt)` for
//! each wait `dt`. The mean weight of the trials that lose data is then unbiased, and its variance gives the confidence
//! interval, by Student's distribution: the trials that saw a loss, less one, are its degrees of freedom, as the others say nothing
//! of the weights' spread. Where fewer than two saw one the interval is not known. Read errors change nothing afterwards, so they are not drawn: each rebuild adds their probability, times
//! the probability that none came before, and their mean number.
//!
//! The time since the last check is tracked: checks come at a fixed interval from a phase that each trial draws.
//!
//! Source: E. Lewis, F. Böhm, "Monte Carlo simulation of Markov unreliability models", Nuclear Engineering and Design 77,
//! 1984 (failure biasing).

use super::{DrawnChance, LossRules, Rates, Risk, SECTOR_BYTES};
use crate::significance::student_quantile;
use raidlab_workload::{Rng, derived_seed};

/// Failures per year that are drawn at least while the array is whole.
const WHOLE_FAILURES: f64 = 0.7;
/// Failures that are drawn at least while it is not, per repair.
const DEGRADED_FAILURES: f64 = 0.3;
/// Chance that is left out of an interval, both sides together.
const BEYOND: f64 = 0.01;

/// Whether failures are drawn more often than they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draw {
    /// As they come.
    Plain,
    /// More often, and weighted.
    Biased,
}

/// What came of one drawn year.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DrawnYear {
    /// Likelihood of the trial so far over that at which it was drawn.
    weight: f64,
    /// Chance that no rebuild so far met what can't be read.
    readable: f64,
    /// Chance of any loss of data, weighted.
    any: f64,
    /// 1 where the array is lost, weighted.
    array: f64,
    /// Mean number of unreadable blocks, weighted.
    blocks: f64,
    /// Whether more members failed than redundancy bears.
    is_lost: bool,
    /// Whether data were lost, where every event is drawn as it comes.
    pub(super) loses_data: bool,
    pub(super) failures: u32,
    pub(super) rebuilds: u32,
    /// Whether a failed member had to wait for a spare.
    pub(super) waited: bool,
}

/// Sum and sum of squares of a figure of each trial.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    /// Trials in which it is not zero.
    seen: u64,
    sum: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.seen += u64::from(value > 0.0);
        self.sum += value;
        self.squares += value * value;
    }

    /// Mean over `count` trials, and half the width of its interval of 99 %; none where fewer than two trials tell of its spread.
    fn mean(self, count: f64) -> (f64, Option<f64>) {
        let mean = self.sum / count;
        let half_width = |degrees: u64| {
            let error = ((self.squares / count - mean * mean).max(0.0) / (count - 1.0)).sqrt();
            student_quantile(BEYOND, degrees as f64) * error
        };
        (mean, self.seen.checked_sub(1).filter(|degrees| *degrees > 0).map(half_width))
    }
}

pub(super) fn drawn_chance(risk: &Risk, trials: u64, seed: u64) -> DrawnChance {
    let [mut any, mut array, mut blocks] = [Moments::default(); 3];
    let (mut losses, mut arrays_lost) = (0, 0);
    for trial in 0..trials {
        let year = draw_year(risk, Draw::Biased, derived_seed(seed, trial));
        any.add(year.any);
        array.add(year.array);
        blocks.add(year.blocks);
        losses += u64::from(year.any > 0.0);
        arrays_lost += u64::from(year.is_lost);
    }
    let count = trials.max(1) as f64;
    let (per_year, per_year_half_width) = any.mean(count);
    let (array_lost_per_year, array_lost_half_width) = array.mean(count);
    let bytes_each = risk.rules.blocks_lost_each() * SECTOR_BYTES;
    let (blocks, blocks_half_width) = blocks.mean(count);
    DrawnChance {
        per_year,
        per_year_half_width,
        array_lost_per_year,
        array_lost_half_width,
        sector_bytes_per_year: blocks * bytes_each,
        sector_bytes_half_width: blocks_half_width.map(|half| half * bytes_each),
        trials,
        losses,
        arrays_lost,
        seed,
    }
}

/// The rates at one moment: as they are, and as they are drawn.
struct Clocks {
    failure: f64,
    drawn_failure: f64,
    /// Of the failure that follows another one.
    follow: f64,
    rebuild: f64,
    replacement: f64,
}

/// One year that is under way.
struct Year<'a> {
    rules: &'a LossRules,
    rates: &'a Rates,
    draw: Draw,
    random: Rng,
    spares_at_first: u32,
    failed: u128,
    spares: u32,
    /// Whether another failure is to follow soon.
    shaken: bool,
    now: f64,
    check_phase: f64,
    drawn: DrawnYear,
}

pub(super) fn draw_year(risk: &Risk, draw: Draw, seed: u64) -> DrawnYear {
    let mut random = Rng::new(seed);
    let check_phase = random.unit_f64() * risk.rates.check_years;
    let spares = u32::from(risk.spec.spares);
    let mut year = Year {
        rules: &risk.rules,
        rates: &risk.rates,
        draw,
        random,
        spares_at_first: spares,
        failed: 0,
        spares,
        shaken: false,
        now: 0.0,
        check_phase,
        drawn: DrawnYear { weight: 1.0, readable: 1.0, ..DrawnYear::default() },
    };
    while !year.drawn.is_lost && year.next_event() {}
    year.drawn
}

impl Year<'_> {
    fn clocks(&self) -> Clocks {
        let gone = self.failed.count_ones();
        let failure = self.rates.failure * f64::from(u32::from(self.rules.members()) - gone);
        let rebuild = if gone > 0 && self.spares > 0 { self.rates.rebuild } else { 0.0 };
        let waiting = self.spares_at_first + gone - self.spares;
        let replacement = self.rates.replacement * f64::from(waiting);
        let least = match (self.draw, gone) {
            (Draw::Plain, _) => 0.0,
            (Draw::Biased, 0) => WHOLE_FAILURES,
            (Draw::Biased, _) => DEGRADED_FAILURES * if rebuild > 0.0 { rebuild } else { replacement },
        };
        let drawn_failure = if failure > 0.0 { failure.max(least) } else { 0.0 };
        let follow = if self.shaken { self.rates.follow } else { 0.0 };
        Clocks { failure, drawn_failure, follow, rebuild, replacement }
    }

    /// Goes on to the next event; false if the year is over before.
    fn next_event(&mut self) -> bool {
        let clocks = self.clocks();
        let total = clocks.drawn_failure + clocks.follow + clocks.rebuild + clocks.replacement;
        let wait = if total > 0.0 { -(1.0 - self.random.unit_f64()).ln() / total } else { f64::INFINITY };
        let passed = wait.min(1.0 - self.now);
        self.drawn.weight *= ((clocks.drawn_failure - clocks.failure) * passed).exp();
        self.now += passed;
        if self.now >= 1.0 {
            return false;
        }
        let which = self.random.unit_f64() * total;
        let failures = clocks.drawn_failure + clocks.follow;
        if which < clocks.drawn_failure {
            self.drawn.weight *= clocks.failure / clocks.drawn_failure;
            self.fail_one();
        } else if which < failures {
            self.shaken = false;
            self.fail_one();
        } else if which < failures + clocks.rebuild {
            self.end_rebuild();
        } else {
            self.spares += 1;
        }
        true
    }

    fn fail_one(&mut self) {
        let every = u128::MAX >> (128 - u32::from(self.rules.members()));
        self.failed |= 1 << self.any_of(every & !self.failed);
        // One failure is to follow at a time.
        self.shaken =
            self.shaken || (self.rates.followed > 0.0 && self.random.unit_f64() < self.rates.followed);
        let drawn = &mut self.drawn;
        drawn.failures += 1;
        drawn.waited |= self.spares == 0;
        drawn.is_lost = self.rules.loses(self.failed);
        if drawn.is_lost {
            drawn.loses_data = true;
            drawn.any += drawn.weight * drawn.readable;
            drawn.array = drawn.weight;
        }
    }

    fn end_rebuild(&mut self) {
        let member = self.any_of(self.failed);
        let units = self.rules.uncovered_units(self.failed, member);
        let since_check = (self.now + self.check_phase) % self.rates.check_years;
        let errors = self.rates.read_errors_after(units, since_check);
        let drawn = &mut self.drawn;
        drawn.any += drawn.weight * drawn.readable * errors.chance;
        drawn.readable *= 1.0 - errors.chance;
        drawn.blocks += drawn.weight * errors.blocks;
        drawn.rebuilds += 1;
        drawn.loses_data |= self.draw == Draw::Plain && self.random.unit_f64() < errors.chance;
        self.failed &= !(1 << member);
        self.spares -= 1;
    }

    /// One member of `set`, which is not empty, each as likely as the others.
    fn any_of(&mut self, set: u128) -> u16 {
        let mut left = set;
        for _ in 0..self.random.below(u64::from(set.count_ones())) {
            left &= left - 1;
        }
        left.trailing_zeros() as u16
    }
}
