//! Hunting a defect: plans of one seed after the other, until one fails with it and not without it.
//!
//! Each plan is run once without a defect, for all hunts together. That tells which defects it asks for at all
//! (`switch.rs`), so that only those need be tried with it; a plan that fails without a defect proves nothing, is told, and
//! passed over. How many plans asked for a survivor tells whether the net never comes by, or sees nothing there.

use crate::plans::{plan_of, with_more_cuts};
use crate::switch::{self, Asked};
use crate::table::Mutant;
use core::fmt;
use raidlab_torture::{Failure, TorturePlan, Violation, shrink, write_plans};
use std::sync::Mutex;

/// What a hunt came to.
pub(crate) struct Hunted {
    /// What it would have cost alone: the runs without the defect, and with it.
    pub(crate) cpu_ns: u64,
    seeds: u64,
    /// Seeds of these that ask for the defect, and were run with it.
    asked: u64,
    pub(crate) find: Option<Find>,
    /// Stopped the array, or a request; not counted.
    stopped: Option<Find>,
}

pub(crate) struct Find {
    seed: u64,
    plan: String,
    told: String,
}

/// Tries of each seed with more power cuts, where few seeds meet the defect.
const VARIANTS: u64 = 3;
/// Few: one in so many.
const RARE: u64 = 8;

/// True if a violation says that something stopped, and not that data went wrong.
fn is_stop(violation: &Violation) -> bool {
    matches!(violation, Violation::Refused { .. }) || ["liveness", "panic"].contains(&violation.checker())
}

/// What runs without a defect have told of each seed; shared by all hunts.
pub(crate) struct Scan {
    first_seed: u64,
    seen: Mutex<Vec<Seen>>,
}

/// A run without a defect.
#[derive(Clone, Copy)]
struct Seen {
    /// It has failed: with a defect it would prove nothing.
    fails: bool,
    asked: Asked,
    cpu_ns: u64,
}

impl Scan {
    pub(crate) const fn new(first_seed: u64) -> Self {
        Self { first_seed, seen: Mutex::new(Vec::new()) }
    }

    /// The run of the `index`-th seed, made if it has not been.
    fn seen(&self, index: usize) -> Seen {
        let known = |seen: &[Seen]| seen.get(index).copied();
        if let Some(seen) = known(&self.seen.lock().expect("a run does not panic")) {
            return seen;
        }
        let seed = self.first_seed + index as u64;
        let (plan, kind) = plan_of(seed);
        let began = cpu_ns();
        switch::take_asked();
        let result = plan.run();
        let seen = Seen { fails: result.is_err(), asked: switch::take_asked(), cpu_ns: cpu_ns() - began };
        let mut all = self.seen.lock().expect("a run does not panic");
        // Another hunt may have made it meanwhile.
        if all.len() == index {
            all.push(seen);
            if let Err(failure) = result {
                eprintln!("seed {seed} ({kind}) fails without a defect: {}", failure.violation);
            }
        }
        seen
    }
}

/// Runs the plans of one seed after the other without a defect. Stores those that fail, made small, and returns how many did.
///
/// # Errors
/// A plan can't be stored.
pub(crate) fn run_without(first_seed: u64, seconds: u64) -> Result<u64, String> {
    let (mut failed, mut seed) = (0, first_seed);
    let began = cpu_ns();
    while cpu_ns() - began < seconds * 1_000_000_000 {
        let (plan, kind) = plan_of(seed);
        if let Err(failure) = plan.run() {
            failed += 1;
            let file = format!("{seed}-{}.toml", plan.mode.name());
            println!("seed {seed} ({kind}), stored in target/mutants/{file}: {}", failure.violation);
            let remark = format!("# {kind}: {}\n", failure.violation).replace('\n', " ");
            let text = format!("{}\n{}", remark.trim_end(), write_plans(&[shrink(&plan, &failure).plan]));
            std::fs::write(&file, text).map_err(|error| format!("{file}: {error}"))?;
        }
        seed += 1;
    }
    println!("{} seeds, from {first_seed}: {failed} failed", seed - first_seed);
    Ok(failed)
}

fn run_with(number: u32, plan: &TorturePlan) -> Result<(), Failure> {
    switch::set(number);
    let result = plan.run();
    switch::set(0);
    result.map(drop)
}

/// Hunts defect `number`, in those seeds that ask for it.
pub(crate) fn hunt(number: u32, mutant: &Mutant, seconds: u64, scan: &Scan) -> Hunted {
    let mut hunted = Hunted { cpu_ns: 0, seeds: 0, asked: 0, find: None, stopped: None };
    while hunted.find.is_none() && hunted.cpu_ns < seconds * 1_000_000_000 {
        let seed = scan.first_seed + hunted.seeds;
        let seen = scan.seen(hunted.seeds as usize);
        hunted.seeds += 1;
        hunted.cpu_ns += seen.cpu_ns;
        if seen.fails || seen.asked[number as usize / 64] >> (number % 64) & 1 == 0 {
            continue;
        }
        hunted.asked += 1;
        let (plan, kind) = plan_of(seed);
        let variants = if hunted.asked * RARE < hunted.seeds { VARIANTS } else { 0 };
        for variant in 0..=variants {
            let tried = if variant == 0 { plan.clone() } else { with_more_cuts(&plan, variant) };
            let began = cpu_ns();
            let result = run_with(number, &tried);
            // The plan without more cuts does not fail without the defect.
            let proves = result.is_err() && (variant == 0 || tried.run().is_ok());
            hunted.cpu_ns += cpu_ns() - began;
            let Err(failure) = result else { continue };
            if !proves {
                continue;
            }
            let violation = &failure.violation;
            let told = format!("{}: {violation}", violation.checker()).replace('\n', " ");
            let find = Find { seed, plan: format!("{kind}{}", "+".repeat(variant as usize)), told };
            if mutant.stops || !is_stop(violation) {
                hunted.find = Some(find);
                break;
            }
            hunted.stopped.get_or_insert(find);
        }
    }
    hunted
}

impl fmt::Display for Hunted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu_ns, seeds, asked, find, stopped } = self;
        write!(f, "{:7.1} {seeds:>7} {asked:>7}  ", *cpu_ns as f64 / 1e9)?;
        if let Some(Find { seed, plan, told }) = find {
            return write!(f, "seed {seed}, {plan}: {told:.100}");
        }
        write!(f, "NOT FOUND")?;
        if let Some(Find { seed, plan, told }) = stopped {
            write!(f, ", but stops: seed {seed}, {plan}: {told:.100}")?;
        }
        Ok(())
    }
}

/// Processor time of this thread, in nanoseconds.
fn cpu_ns() -> u64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    let first = text.split(' ').next().and_then(|text| text.parse().ok());
    first.expect("the first number is the time on a processor")
}
