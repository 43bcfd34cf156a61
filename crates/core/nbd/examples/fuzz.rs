//! A long campaign against both sides of the protocol, on stable Rust: see `tests/campaign/mod.rs` for what it
//! does.
//!
//! ```text
//! cargo run --release -p raidlab-nbd --example fuzz -- --minutes 30 --seed 1
//! cargo run --release -p raidlab-nbd --example fuzz -- --case SEED      repeats one case
//! ```
//! With `CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true` in the environment, sums that overflow are found, too.
//!
//! A failure is printed with the seed of its case, and ends the campaign with exit code 1.

#[path = "../tests/campaign/mod.rs"]
mod campaign;

use campaign::{Figures, OUTCOMES};
use std::process::ExitCode;

const USAGE: &str = "usage: fuzz [--minutes N] [--seed N] | fuzz --case SEED";

struct Arguments {
    minutes: f64,
    seed: u64,
    case: Option<u64>,
}

#[expect(clippy::disallowed_methods, reason = "a command has arguments")]
fn arguments() -> Option<Arguments> {
    let mut found = Arguments { minutes: 1.0, seed: 1, case: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next()?;
        match word.as_str() {
            "--minutes" => found.minutes = value.parse().ok()?,
            "--seed" => found.seed = value.parse().ok()?,
            "--case" => found.case = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(found)
}

#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a campaign of some minutes needs the clock"
)]
fn main() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let started = std::time::Instant::now();
    let seconds = || started.elapsed().as_secs_f64();
    let result = match arguments.case {
        Some(case) => {
            let mut figures = Figures::default();
            campaign::run_case(case, &mut figures).map(|()| figures)
        }
        None => campaign::run(arguments.seed, |_| seconds() >= arguments.minutes * 60.0),
    };
    match result {
        Ok(figures) => {
            print(&figures, seconds());
            ExitCode::SUCCESS
        }
        Err(case) => {
            println!("failed after {:.0} s: repeat it with --case {case}", seconds());
            ExitCode::FAILURE
        }
    }
}

fn print(figures: &Figures, seconds: f64) {
    let rate = figures.cases as f64 / seconds;
    println!("{} cases in {seconds:.0} s, {rate:.0} per second", figures.cases);
    for outcome in &OUTCOMES {
        println!("{:>12}  {outcome}", figures.outcomes.get(outcome).copied().unwrap_or_default());
    }
}
