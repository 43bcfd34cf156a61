//! The command line of a long campaign, for the examples that are one: see the heads of those.

use crate::campaign::kit::{Campaign, Figures, run, run_case};
use std::process::ExitCode;

const USAGE: &str = "arguments: [--minutes N] [--seed N] | --case SEED";

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

/// Does what the arguments of the process say with the campaign `C`.
#[expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a campaign of some minutes needs the clock"
)]
pub(crate) fn main<C: Campaign>() -> ExitCode {
    let Some(arguments) = arguments() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let started = std::time::Instant::now();
    let seconds = || started.elapsed().as_secs_f64();
    let result = match arguments.case {
        Some(case) => {
            let mut figures = Figures::default();
            run_case::<C>(case, &mut figures).map(|()| figures)
        }
        None => run::<C>(arguments.seed, |_| seconds() >= arguments.minutes * 60.0),
    };
    match result {
        Ok(figures) => {
            print::<C>(&figures, seconds());
            ExitCode::SUCCESS
        }
        Err(case) => {
            println!("failed after {:.0} s: repeat it with --case {case}", seconds());
            ExitCode::FAILURE
        }
    }
}

fn print<C: Campaign>(figures: &Figures<C::Outcome>, seconds: f64) {
    let rate = figures.cases as f64 / seconds;
    println!("{} cases in {seconds:.0} s, {rate:.0} per second", figures.cases);
    for outcome in C::OUTCOMES {
        println!("{:>12}  {outcome}", figures.of(*outcome));
    }
}
