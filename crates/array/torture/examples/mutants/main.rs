//! Shows that the torture net catches: each deliberate defect of the controller, of the assembly of arrays and of the layouts
//! must be found within a budget of CPU time.
//!
//! ```text
//! make mutants                                    all of them
//! make mutants ARGS="--seconds 30 Record Kept"    those whose names hold one of the words, half a minute each
//! make mutants ARGS="--none --seconds 600"        the plans of the hunts without a defect, of which none may fail
//! make mutants ARGS="--decisions --seconds 600"   which decisions of the controller plans reach, aiming at the rare ones
//! ```
//! A defect is a hunk of `crates/array/torture/mutants/*.diff` (`table.rs`), so the product knows nothing of them. This program
//! plants all of them, each behind a switch, in a copy of the core (`plant.rs`), and starts itself there to hunt them
//! (`hunt.rs`), and watches that (`begun.rs`). It fails if one survives.
#![expect(clippy::disallowed_methods, reason = "an example may read arguments and files")]

mod aims;
mod begun;
mod decisions;
mod hunt;
mod plans;
mod plant;
mod switch;
mod table;

use begun::Begun;
use hunt::{Hunted, Scan};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use table::Mutant;

const USAGE: &str = "\
Usage: mutants [--seconds N] [--seed N] [--jobs N] [--list | --none | --decisions] [WORD]...
  --seconds N   CPU time for each defect at most (600)
  --seed N      the first seed to try (1)
  --jobs N      so many defects at once (1)
  --list        tell what there is, and hunt nothing
  --none        run the plans without a defect, for that time in all; store those that fail, made small
  --decisions   tell which decisions plans reach, in that time, and aim at those that few do
  WORD          only defects whose name holds one of the words";

/// What was asked for.
struct Asked {
    seconds: u64,
    first_seed: u64,
    jobs: usize,
    list: bool,
    none: bool,
    decisions: bool,
    words: Vec<String>,
}

impl Asked {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            seconds: 600,
            first_seed: 1,
            jobs: 1,
            list: false,
            none: false,
            decisions: false,
            words: Vec::new(),
        };
        while let Some(arg) = args.next() {
            let mut number = || {
                let text = args.next().unwrap_or_default();
                text.parse::<u64>().map_err(|_| format!("{arg} needs a number, not '{text}'\n{USAGE}"))
            };
            match arg.as_str() {
                "--seconds" => asked.seconds = number()?,
                "--seed" => asked.first_seed = number()?,
                "--jobs" => asked.jobs = number()?.max(1) as usize,
                "--list" => asked.list = true,
                "--none" => asked.none = true,
                "--decisions" => asked.decisions = true,
                word if word.starts_with('-') => return Err(USAGE.to_owned()),
                word => asked.words.push(word.to_owned()),
            }
        }
        Ok(asked)
    }

    fn wants(&self, mutant: &Mutant) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| mutant.name.contains(word))
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(trouble) => {
            eprintln!("{trouble}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode, String> {
    let asked = Asked::parse(std::env::args().skip(1))?;
    let mutants = table::all();
    let wanted: Vec<(u32, &Mutant)> = (1..).zip(&mutants).filter(|(_, mutant)| asked.wants(mutant)).collect();
    if wanted.is_empty() {
        return Err("no defect has such a name: --list tells them".to_owned());
    }
    if asked.list {
        for (_, mutant) in wanted {
            println!("{:26} {}", mutant.name, mutant.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !switch::IS_PLANTED {
        return plant::plant_and_run(&mutants, std::env::args().skip(1));
    }
    if !begun::is_watched() {
        return begun::watch(|name| mutants.iter().any(|mutant| mutant.name == name && mutant.stops));
    }
    let wanted: Vec<_> = wanted.into_iter().filter(|(_, mutant)| !begun::is_done(mutant.name)).collect();
    // Panics are told with the run that they ended.
    std::panic::set_hook(Box::new(|_| {}));
    if asked.none {
        let failed = hunt::run_without(asked.first_seed, asked.seconds, &Begun::new(0))?;
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    if asked.decisions {
        let failed = decisions::hunt(asked.first_seed, asked.seconds, &Begun::new(0))?;
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let hunted = hunt_all(&wanted, &asked);
    Ok(if tell(&wanted, &hunted) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Hunts so many at once as was asked for; tells each when it is done with, and returns all in their order.
fn hunt_all(wanted: &[(u32, &Mutant)], asked: &Asked) -> Vec<Hunted> {
    println!("{:26} {:>7} {:>7} {:>7}  found", "defect", "CPU s", "seeds", "tried");
    let scan = Scan::new(asked.first_seed);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for job in 0..asked.jobs {
            let (scan, next, done) = (&scan, &next, &done);
            scope.spawn(move || {
                let begun = Begun::new(job);
                while let Some(&(number, mutant)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let hunted = hunt::hunt(number, mutant, asked.seconds, scan, &begun);
                    println!("{:26} {hunted}", mutant.name);
                    done.lock().expect("a hunt does not panic").push((number, hunted));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("a hunt does not panic");
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, hunted)| hunted).collect()
}

/// Tells what it came to; false if some survived.
fn tell(wanted: &[(u32, &Mutant)], hunted: &[Hunted]) -> bool {
    let mut found: Vec<(u64, &str)> = Vec::new();
    let mut survivors = Vec::new();
    for ((_, mutant), hunted) in wanted.iter().zip(hunted) {
        if hunted.find.is_some() {
            found.push((hunted.cpu_ns, mutant.name));
        } else {
            survivors.push(mutant.name);
        }
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    println!("\n{} defects, {} found, {} survived", wanted.len(), found.len(), survivors.len());
    println!("slowest:");
    for (cpu_ns, name) in found.iter().take(10) {
        println!("  {:7.1} {name}", *cpu_ns as f64 / 1e9);
    }
    if !survivors.is_empty() {
        println!("survivors: {}", survivors.join(" "));
    }
    survivors.is_empty()
}
