//! A long campaign against everything that parses bytes, on stable Rust: see `tests/campaign/mod.rs`.
//!
//! ```text
//! cargo run --release -p raidlab-format --example fuzz_format -- --minutes 30 --seed 1
//! cargo run --release -p raidlab-format --example fuzz_format -- --case SEED      repeats one case
//! ```
//! With `CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true` in the environment, sums that overflow are found, too.
//!
//! A failure is printed with the seed of its case, and ends the campaign with exit code 1.

#[path = "../tests/campaign/mod.rs"]
mod campaign;
#[path = "../../../../fuzz/kit/command.rs"]
mod command;
#[path = "../tests/support/mod.rs"]
mod support;

fn main() -> std::process::ExitCode {
    command::main::<campaign::Metadata>()
}
