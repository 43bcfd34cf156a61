//! Shows that the net under the runtime and the export catches: each deliberate defect must be found within a budget of CPU time.
//!
//! ```text
//! make simkernel-mutants                                 all of them
//! make simkernel-mutants ARGS="--seconds 30 Fua Redo"    those whose names hold one of the words, half a minute each
//! ```
//! A defect is a hunk of `crates/array/simkernel/mutants/*.diff`. This program plants all of them, each behind a switch, in a copy of
//! the crates, and starts itself there. It fails if one survives.

#[path = "../../../torture/examples/mutants/copy.rs"]
mod copy;
#[path = "../hunt/mod.rs"]
mod hunt;
mod plant;
mod switch;
#[path = "../../../torture/examples/mutants/table.rs"]
#[allow(dead_code, reason = "the tables of the torture world are in there, too")]
mod table;

use hunt::{Errand, Hunted};
use std::process::ExitCode;

const TABLES: [&str; 2] =
    [include_str!("../../mutants/runtime.diff"), include_str!("../../mutants/export.diff")];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "--child") {
        return hunt::main(&args, switch::set);
    }
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(trouble) => {
            eprintln!("{trouble}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<bool, String> {
    let mutants = table::parse(&TABLES);
    if !switch::IS_PLANTED {
        return plant::plant_and_run(&mutants, args);
    }
    let (mut seconds, mut first_seed, mut words) = (600, 1, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number =
            || args.next().and_then(|text| text.parse::<u64>().ok()).ok_or(format!("{arg} needs a number"));
        match arg.as_str() {
            "--seconds" => seconds = number()?,
            "--seed" => first_seed = number()?,
            word => words.push(word),
        }
    }
    let mut survivors = Vec::new();
    for (mutant, it) in (1..).zip(&mutants) {
        if !words.is_empty() && !words.iter().any(|word| it.name.contains(word)) {
            continue;
        }
        let hunted = hunt_past(Errand { first_seed, seeds: u64::MAX, seconds, mutant });
        println!("{:24} {}", it.name, told(&hunted));
        if hunted.failure.is_none() {
            survivors.push(it.name);
        }
    }
    println!("survivors: {}", survivors.join(" "));
    Ok(survivors.is_empty())
}

/// Hunts, and goes on behind seeds that fail without the defect, too: they prove nothing, and are told.
fn hunt_past(mut errand: Errand) -> Hunted {
    let (first_seed, mut cpu_ns) = (errand.first_seed, 0);
    loop {
        let mut hunted = hunt::hunt(&errand);
        errand.seconds = errand.seconds.saturating_sub(hunted.cpu_ns / 1_000_000_000);
        cpu_ns += hunted.cpu_ns;
        let alone = hunted.failure.as_ref().map(|failure| failure.seed);
        if let Some(seed) = alone
            && let Some(failure) = hunt::run_apart(&raidlab_simkernel::Plan::draw(seed), 0)
        {
            println!("without a defect: {failure}");
            hunted.failure = None;
            if errand.seconds > 0 {
                errand.first_seed = seed + 1;
                continue;
            }
        }
        hunted.seeds += errand.first_seed - first_seed;
        hunted.cpu_ns = cpu_ns;
        return hunted;
    }
}

/// What a hunt came to.
fn told(hunted: &Hunted) -> String {
    let seconds = hunted.cpu_ns as f64 / 1e9;
    let Some(failure) = &hunted.failure else {
        return format!("{seconds:7.1} s, {} seeds, NOT FOUND", hunted.seeds);
    };
    format!("{seconds:7.1} s, {:.150}", failure.to_string())
}
