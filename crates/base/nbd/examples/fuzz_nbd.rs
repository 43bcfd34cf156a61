//! A long campaign against both sides of the protocol, on stable Rust: see `tests/campaign/mod.rs`.
//!
//! ```text
//! cargo run --release -p raidlab-nbd --example fuzz_nbd -- --minutes 30 --seed 1
//! cargo run --release -p raidlab-nbd --example fuzz_nbd -- --case SEED      repeats one case
//! ```
//! With `CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true` in the environment, sums that overflow are found, too.
//!
//! A failure is printed with the seed of its case, and ends the campaign with exit code 1.

#[path = "../tests/campaign/mod.rs"]
mod campaign;
#[path = "../../../../fuzz/kit/command.rs"]
mod command;

fn main() -> std::process::ExitCode {
    command::main::<campaign::Conversations>()
}
