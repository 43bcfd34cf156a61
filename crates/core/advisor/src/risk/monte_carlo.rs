//! Years of an array, drawn: which member fails when, on the layout's own rules.
//!
//! Losses are rare, so failures are drawn more often than they come and each trial carries the likelihood ratio of what
//! was drawn: for an event of rate `r` drawn at rate `r'` a factor `r / r'`, and `exp(-(sum of rates - sum of r') dt)` for
//! each wait `dt`. The mean of the weights of the trials that lose data is then without bias, and its variance is what the
//! confidence interval is made of. Read errors are drawn more often in the same way.
//!
//! Time since the last check is kept as it is: checks come at a fixed interval from a phase that each trial draws.
//!
//! Source: E. Lewis, F. Böhm, "Monte Carlo simulation of Markov unreliability models", Nuclear Engineering and Design 77,
//! 1984 (failure biasing).

use super::{DrawnChance, LossRules, Rates, Risk};
use raidlab_workload::{Rng, derived_seed};

/// Failures per year that are drawn at least while the array is whole.
const WHOLE_FAILURES: f64 = 0.7;
/// Failures that are drawn at least while it is not, per repair.
const DEGRADED_FAILURES: f64 = 0.3;
/// Chance at which read errors are drawn at least where they are possible.
const READ_ERRORS: f64 = 0.3;
/// 99 % of a normal distribution lie within so many standard deviations.
const NORMAL_99: f64 = 2.575_829;

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
    /// Likelihood of the trial over that at which it was drawn.
    pub(super) weight: f64,
    pub(super) is_lost: bool,
    pub(super) failures: u32,
    pub(super) rebuilds: u32,
    /// Whether a failed member had to wait for a spare.
    pub(super) waited: bool,
}

pub(super) fn drawn_chance(risk: &Risk, trials: u64, seed: u64) -> DrawnChance {
    let (mut sum, mut squares, mut losses) = (0.0, 0.0, 0);
    for trial in 0..trials {
        let year = draw_year(risk, Draw::Biased, derived_seed(seed, trial));
        if year.is_lost {
            sum += year.weight;
            squares += year.weight * year.weight;
            losses += 1;
        }
    }
    let count = trials.max(1) as f64;
    let mean = sum / count;
    let deviation = ((squares / count - mean * mean).max(0.0) / count).sqrt();
    DrawnChance { per_year: mean, per_year_half_width: NORMAL_99 * deviation, trials, losses, seed }
}

/// The rates at one moment: as they are, and as they are drawn.
struct Clocks {
    failure: f64,
    drawn_failure: f64,
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
        now: 0.0,
        check_phase,
        drawn: DrawnYear { weight: 1.0, ..DrawnYear::default() },
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
        Clocks { failure, drawn_failure, rebuild, replacement }
    }

    /// Goes on to the next event; false if the year is over before.
    fn next_event(&mut self) -> bool {
        let clocks = self.clocks();
        let total = clocks.drawn_failure + clocks.rebuild + clocks.replacement;
        let wait = if total > 0.0 { -(1.0 - self.random.unit_f64()).ln() / total } else { f64::INFINITY };
        let passed = wait.min(1.0 - self.now);
        self.drawn.weight *= ((clocks.drawn_failure - clocks.failure) * passed).exp();
        self.now += passed;
        if self.now >= 1.0 {
            return false;
        }
        let which = self.random.unit_f64() * total;
        if which < clocks.drawn_failure {
            self.drawn.weight *= clocks.failure / clocks.drawn_failure;
            self.fail_one();
        } else if which < clocks.drawn_failure + clocks.rebuild {
            self.end_rebuild();
        } else {
            self.spares += 1;
        }
        true
    }

    fn fail_one(&mut self) {
        let every = u128::MAX >> (128 - u32::from(self.rules.members()));
        self.failed |= 1 << self.any_of(every & !self.failed);
        self.drawn.failures += 1;
        self.drawn.waited |= self.spares == 0;
        self.drawn.is_lost = self.rules.loses(self.failed);
    }

    fn end_rebuild(&mut self) {
        let member = self.any_of(self.failed);
        let units = self.rules.uncovered_units(self.failed, member);
        let since_check = (self.now + self.check_phase) % self.rates.check_years;
        let loss = self.rates.read_loss_after(units, since_check);
        let drawn = match self.draw {
            Draw::Biased if loss > 0.0 => loss.max(READ_ERRORS),
            _ => loss,
        };
        self.drawn.rebuilds += 1;
        if self.random.unit_f64() < drawn {
            self.drawn.weight *= loss / drawn;
            self.drawn.is_lost = true;
        } else {
            self.drawn.weight *= (1.0 - loss) / (1.0 - drawn);
            self.failed &= !(1 << member);
            self.spares -= 1;
        }
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
