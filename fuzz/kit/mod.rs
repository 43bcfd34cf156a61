//! What campaigns have in common: cases that follow from one seed each, and what they came to.
//!
//! ```text
//! seed ── case 0, 1, 2 ... ── a seed each ── decisions ── Campaign::case ── outcomes, counted
//! input of libFuzzer ──────────────────────── decisions ── the same
//! ```
//! A case depends on its own seed only, so a failure is repeated with that seed alone. Tests, examples and the targets of
//! libFuzzer take this folder in by its path: it is no crate, so that campaigns see their crate as its users do.

#![allow(dead_code, reason = "tests, examples and targets use a part of it each")]

mod rng;

pub(crate) use rng::Rng;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Something whose cases are drawn, done and checked.
pub(crate) trait Campaign {
    /// What a case, or a part of one, can come to.
    type Outcome: Copy + Ord + fmt::Debug + fmt::Display + 'static;

    /// All of them.
    const OUTCOMES: &'static [Self::Outcome];

    /// Does the case that `rng` decides, adds what its parts came to, and panics when it fails.
    fn case(rng: &mut Rng<'_>, outcomes: &mut Vec<Self::Outcome>);
}

/// What a campaign did.
#[derive(Debug)]
pub(crate) struct Figures<O> {
    pub(crate) cases: u64,
    pub(crate) outcomes: BTreeMap<O, u64>,
}

impl<O> Default for Figures<O> {
    fn default() -> Self {
        Self { cases: 0, outcomes: BTreeMap::new() }
    }
}

impl<O: Copy + Ord> Figures<O> {
    /// How often a case, or a part of one, came to `outcome`.
    pub(crate) fn of(&self, outcome: O) -> u64 {
        self.outcomes.get(&outcome).copied().unwrap_or_default()
    }
}

/// Runs cases from `seed` on until `enough`.
///
/// # Errors
/// The seed of a case that panicked; the panic's message has gone to stderr.
pub(crate) fn run<C: Campaign>(
    seed: u64,
    mut enough: impl FnMut(&Figures<C::Outcome>) -> bool,
) -> Result<Figures<C::Outcome>, u64> {
    let mut figures = Figures::default();
    while !enough(&figures) {
        let case_seed = Rng::new(seed.wrapping_add(figures.cases)).next();
        run_case::<C>(case_seed, &mut figures)?;
    }
    Ok(figures)
}

/// Runs the case of a seed.
///
/// # Errors
/// The seed, when the case panicked; the panic's message has gone to stderr.
pub(crate) fn run_case<C: Campaign>(case_seed: u64, figures: &mut Figures<C::Outcome>) -> Result<(), u64> {
    let mut outcomes = Vec::new();
    catch_unwind(AssertUnwindSafe(|| C::case(&mut Rng::new(case_seed), &mut outcomes)))
        .map_err(|_| case_seed)?;
    figures.cases += 1;
    for outcome in outcomes {
        *figures.outcomes.entry(outcome).or_default() += 1;
    }
    Ok(())
}

/// Runs `cases` cases, and panics if one fails or if one of the outcomes was never reached: a campaign that reaches all of them
/// is known to look behind magics and checksums.
pub(crate) fn run_short<C: Campaign>(cases: u64) {
    let figures = run::<C>(2026, |figures| figures.cases >= cases).expect("no case fails");
    let missed: Vec<_> = C::OUTCOMES.iter().filter(|outcome| figures.of(**outcome) == 0).collect();
    assert!(missed.is_empty(), "the campaign never reached {missed:?}: {figures:?}");
}
