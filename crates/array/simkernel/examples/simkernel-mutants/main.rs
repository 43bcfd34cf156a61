//! Shows that the net under the runtime and the export catches: each deliberate defect must be found within a budget of CPU time.
//!
//! ```text
//! make simkernel-mutants                                 all of them
//! make simkernel-mutants ARGS="--seconds 30 Fua Redo"    those whose names hold one of the words, half a minute each
//! ```
//! A defect is a hunk of `crates/array/simkernel/mutants/*.diff`. This program plants all of them, each behind a switch, in a copy of
//! the crates, and starts itself there. It fails if one survives.

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
        let hunted = hunt::hunt(&Errand { first_seed, seeds: u64::MAX, seconds, mutant });
        println!("{:24} {}", it.name, told(&hunted));
        if hunted.failure.is_none() {
            survivors.push(it.name);
        }
    }
    println!("survivors: {}", survivors.join(" "));
    Ok(survivors.is_empty())
}

/// What a hunt came to. A plan that fails without the defect proves nothing.
fn told(hunted: &Hunted) -> String {
    let seconds = hunted.cpu_ns as f64 / 1e9;
    let Some(failure) = &hunted.failure else {
        return format!("{seconds:7.1} s, {} seeds, NOT FOUND", hunted.seeds);
    };
    let alone = hunt::run_apart(&raidlab_simkernel::Plan::draw(failure.seed), 0);
    let proves = if alone.is_some() { ", BUT FAILS WITHOUT IT" } else { "" };
    format!("{seconds:7.1} s, {:.150}{proves}", failure.to_string())
}
