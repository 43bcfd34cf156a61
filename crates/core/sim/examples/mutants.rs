//! Shows that the torture net catches: each deliberate defect of the controller must be found within some ten thousand seeds.
//!
//! Run with `make mutants`, or `cargo run --release -p raidlab-sim --features mutants --example mutants [NAME]`. Prints for
//! each defect the first seed that it was found with, the checker that found it, and how many runs that took; fails if
//! one was not found.
#![expect(clippy::disallowed_methods, reason = "an example may read its arguments")]

use raidlab_controller::Mutant;
use raidlab_sim::{Fault, FaultEvent, TortureMode, TorturePlan, Violation};
use raidlab_workload::Rng;
use std::process::ExitCode;

/// Seeds tried with each defect at most.
const SEEDS: u64 = 40_000;

/// Host requests of each run.
const OPS: u64 = 600;

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    // Panics are findings here, and told with their seed.
    std::panic::set_hook(Box::new(|_| {}));
    println!("{:24} {:>6} {:>9}  found", "defect", "seed", "host ops");
    let mut survivors = 0;
    for mutant in Mutant::ALL {
        let name = format!("{mutant:?}");
        if wanted.as_ref().is_some_and(|wanted| *wanted != name) {
            continue;
        }
        if let Some((seed, ops, found)) = hunt(mutant) {
            println!("{name:24} {seed:>6} {ops:>9}  {found}");
        } else {
            survivors += 1;
            println!("{name:24} {:>6} {:>9}  NOT FOUND", "-", SEEDS * OPS);
        }
    }
    if survivors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Power cuts in place of the plan's faults, one after a few requests: some defects need a cut at just the wrong moment.
fn storm(plan: &mut TorturePlan) {
    let mut random = Rng::new(plan.seed);
    let mut after_ops = 0;
    plan.faults.clear();
    while after_ops < OPS {
        after_ops += 1 + random.below(16);
        plan.faults.push(FaultEvent { after_ops, fault: Fault::PowerCut, pick: random.next_u64() });
    }
}

/// Runs seeds until one finds the defect. A seed that fails without it proves nothing and is passed over.
fn hunt(mutant: Mutant) -> Option<(u64, u64, String)> {
    let mut ops = 0;
    // Within the bounds what a bad block holds is almost never asked for.
    let is_beyond = mutant == Mutant::BadBlockForgotten;
    let mode = if is_beyond { TortureMode::Beyond } else { TortureMode::Bounded };
    for seed in 1..=SEEDS {
        let has_tags = mutant == Mutant::TagNotCompared;
        let drawn = TorturePlan::draw_with(has_tags, seed, OPS, mode, None);
        let mut plan = drawn.expect("no level is asked for");
        if seed % 2 == 0 {
            storm(&mut plan);
        }
        plan.mutant = Some(mutant);
        ops += OPS;
        let Err(failure) = plan.run() else { continue };
        // A start that is refused or a request that waits for ever is no proof: nothing went wrong with the data.
        if matches!(*failure.violation, Violation::Refused { .. })
            || failure.violation.checker() == "liveness"
        {
            continue;
        }
        plan.mutant = None;
        if plan.run().is_ok() {
            return Some((seed, ops, failure.violation.to_string()));
        }
    }
    None
}
