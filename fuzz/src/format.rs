//! Coverage-guided fuzzing of the on-disk format: libFuzzer's input makes the decisions of one case of the campaign.
//!
//! ```text
//! input bytes ── decisions ── draw an array, damage it with right checksums ── what must hold for any bytes
//! ```
//! So that coverage leads through structures and behind their checksums, and not into the search for a CRC. See
//! `crates/array/format/tests/campaign/mod.rs` for what is checked, and `fuzz/run.sh` for how it is run.

#![no_main]

#[path = "../../crates/array/format/tests/campaign/mod.rs"]
mod campaign;
#[path = "../../crates/array/format/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| campaign::run_input(input));
