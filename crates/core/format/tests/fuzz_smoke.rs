//! A short campaign (see `campaign/mod.rs`); the long one is `examples/fuzz.rs`.
//!
//! Verified: nothing panics, what must hold holds, and the campaign reaches every way in which a start can
//! end, so that it is known to look behind the checksums.

mod campaign;
mod support;

use campaign::{OUTCOMES, run};

#[test]
fn a_short_campaign_reaches_everything_and_breaks_nothing() {
    let figures = run(2026, |figures| figures.cases >= 500).expect("no case fails");
    let missed: Vec<_> = OUTCOMES.iter().filter(|outcome| !figures.outcomes.contains_key(*outcome)).collect();
    assert!(missed.is_empty(), "the campaign never reached {missed:?}: {figures:?}");
}
