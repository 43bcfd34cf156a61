//! A short campaign (see `campaign/mod.rs`); the long one is `examples/fuzz.rs`.
//!
//! Verified: nothing panics, sane conversations are right to the byte, and the campaign reaches every way in which
//! a case can end, so that it is known to look behind the magics.

mod campaign;

use campaign::{OUTCOMES, run};

#[test]
fn a_short_campaign_reaches_everything_and_breaks_nothing() {
    let figures = run(2026, |figures| figures.cases >= 600).expect("no case fails");
    let missed: Vec<_> = OUTCOMES.iter().filter(|outcome| !figures.outcomes.contains_key(*outcome)).collect();
    assert!(missed.is_empty(), "the campaign never reached {missed:?}: {figures:?}");
}
