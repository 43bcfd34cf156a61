//! Coverage-guided fuzzing of the NBD protocol: libFuzzer's input makes the decisions of one case of the campaign.
//!
//! ```text
//! input bytes ── decisions ── a conversation, sane or damaged, or made-up bytes ── what must hold for any bytes
//! ```
//! See `crates/base/nbd/tests/campaign/mod.rs` for what is checked, and `fuzz/run.sh` for how it is run.

#![no_main]

#[path = "../../crates/base/nbd/tests/campaign/mod.rs"]
mod campaign;

libfuzzer_sys::fuzz_target!(|input: &[u8]| campaign::run_input(input));
