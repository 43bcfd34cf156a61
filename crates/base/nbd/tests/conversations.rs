//! A short campaign (see `campaign/mod.rs`); the long one is `examples/fuzz_nbd.rs`.
//!
//! Verified: nothing panics, valid conversations are right to the byte, and the campaign reaches every way in which a
//! case can end, so it does get past the magics.

mod campaign;

#[test]
fn a_short_campaign_reaches_everything_and_breaks_nothing() {
    campaign::kit::run_short::<campaign::Conversations>(600);
}
