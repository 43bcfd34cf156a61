//! A short campaign (see `campaign/mod.rs`); the long one is `examples/fuzz_format.rs`.
//!
//! Verified: nothing panics, the rules hold, and the campaign reaches every way in which a start can end, so it does
//! get past the checksums.

mod campaign;
mod support;

#[test]
fn a_short_campaign_reaches_everything_and_breaks_nothing() {
    campaign::kit::run_short::<campaign::Metadata>(500);
}
