//! Shows that the torture net catches: each deliberate defect of the controller must be found within some ten thousand seeds.
//!
//! Run with `make mutants`, or `cargo run --release -p raidlab-sim --features mutants --example mutants [NAME]`. Prints for
//! each defect the first seed that it was found with, the checker that found it, and how many runs that took; fails if
//! one was not found.
#![expect(clippy::disallowed_methods, reason = "an example may read its arguments")]

use raidlab_controller::{
    CacheMemory, ConfigError, Controller, MemberCache, MetadataPolicy, Mutant, WritePolicy,
};
use raidlab_sim::{Fault, FaultEvent, TortureMode, TorturePlan, Violation, Workload};
use raidlab_units::{BlockCount, ByteCount};
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

/// Small writes to few stripes, a few at a time, each of them written down in kept memory, which alone says then which of
/// the older records are void. Actions finish in one order after the other, so that cuts come while records are made.
fn hammer(plan: &mut TorturePlan) {
    let level = if plan.seed % 8 == 3 { "5" } else { "6" }.parse().expect("a level");
    *plan = TorturePlan::draw(plan.seed, OPS, plan.mode, Some(level)).expect("the level is tried");
    let config = &mut plan.config;
    config.member_size = ByteCount(2 * config.strip_size.0);
    config.member_cache = MemberCache::Off;
    (config.cache.memory, config.cache.mirror) = (CacheMemory::BatteryBacked, false);
    config.cache.write_policy = WritePolicy::WriteThrough;
    config.resilience.metadata = MetadataPolicy::Log;
    config.resilience.log_size = ByteCount(1);
    if let Err(ConfigError::LogTooSmall { needed, .. }) = Controller::new(config) {
        config.resilience.log_size = ByteCount(needed.0.next_multiple_of(4096));
    }
    plan.workload =
        Workload { iodepth: 3, read_pct: 0, flush_permille: 0, fua_pct: 0, blocks_max: BlockCount(1) };
    storm(plan, 12);
    let order = |cut: &FaultEvent| [FaultEvent { fault: Fault::Order, ..*cut }, *cut];
    plan.faults = plan.faults.iter().flat_map(order).collect();
}

/// Power cuts in place of the plan's faults, one after a few requests: some defects need a cut at just the wrong moment.
fn storm(plan: &mut TorturePlan, gap_max: u64) {
    let mut random = Rng::new(plan.seed);
    let mut after_ops = 0;
    plan.faults.clear();
    while after_ops < OPS {
        after_ops += 1 + random.below(gap_max);
        plan.faults.push(FaultEvent { after_ops, fault: Fault::PowerCut, pick: random.next_u64() });
    }
}

/// Runs seeds until one finds the defect. A seed that fails without it proves nothing and is passed over.
fn hunt(mutant: Mutant) -> Option<(u64, u64, String)> {
    let mut ops = 0;
    for seed in 1..=SEEDS {
        let has_tags = mutant == Mutant::TagNotCompared;
        let drawn = TorturePlan::draw_with(has_tags, seed, OPS, TortureMode::Bounded, None);
        let mut plan = drawn.expect("no level is asked for");
        match seed % 4 {
            0 | 2 => storm(&mut plan, 16),
            3 if !has_tags => hammer(&mut plan),
            _ => {}
        }
        plan.mutant = Some(mutant);
        ops += OPS;
        let Err(failure) = plan.run() else { continue };
        // A start that is refused is no proof: nothing went wrong with the data.
        if matches!(*failure.violation, Violation::Refused { .. }) {
            continue;
        }
        plan.mutant = None;
        if plan.run().is_ok() {
            return Some((seed, ops, failure.violation.to_string()));
        }
    }
    None
}
