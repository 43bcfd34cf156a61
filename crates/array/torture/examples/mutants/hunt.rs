//! Hunting a defect: plans of one seed after the other, until one fails with it and not without it.
//!
//! Each plan is run once without a defect, for all hunts together. That tells which defects it asks for at all
//! (`switch.rs`), so that only those need be tried with it; a plan that fails without a defect proves nothing, is told, and
//! passed over. How many plans asked for a survivor tells whether the net never comes by, or sees nothing there.
//!
//! A defect that few plans ask for is hunted with changes of those that did (`aims.rs`), for three times as long as with seeds.

use crate::aims::Aims;
use crate::begun::Begun;
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
    /// Where the plan is, if no seed draws it.
    file: Option<String>,
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
pub(crate) fn run_without(first_seed: u64, seconds: u64, begun: &Begun) -> Result<u64, String> {
    let (mut failed, mut seed) = (0, first_seed);
    let began = cpu_ns();
    while cpu_ns() - began < seconds * 1_000_000_000 {
        let (plan, kind) = plan_of(seed);
        begun.note("none", || plan.clone());
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

/// CPU time for changes of plans that ask for a rare defect, for each second for seeds.
const AIMED_SHARE: u64 = 3;

/// Hunts defect `number`: in those seeds that ask for it, and in changes of these where they are few.
pub(crate) fn hunt(number: u32, mutant: &Mutant, seconds: u64, scan: &Scan, begun: &Begun) -> Hunted {
    let hunted = Hunted { cpu_ns: 0, seeds: 0, asked: 0, find: None, stopped: None };
    let mut hunt = Hunt { number, mutant, begun, aims: Aims::new(scan.first_seed), aimed_ns: 0, hunted };
    while hunt.hunted.find.is_none() && hunt.hunted.cpu_ns < seconds * 1_000_000_000 {
        let is_rare = hunt.hunted.asked * RARE < hunt.hunted.seeds;
        if is_rare && hunt.aimed_ns * (1 + AIMED_SHARE) < hunt.hunted.cpu_ns * AIMED_SHARE && hunt.aims.any()
        {
            hunt.try_aimed();
        } else {
            hunt.try_seed(scan);
        }
    }
    hunt.hunted
}

struct Hunt<'a> {
    number: u32,
    mutant: &'a Mutant,
    begun: &'a Begun,
    aims: Aims,
    /// Of the time, what went to changed plans.
    aimed_ns: u64,
    hunted: Hunted,
}

impl Hunt<'_> {
    const fn is_asked(&self, asked: &Asked) -> bool {
        asked[self.number as usize / 64] >> (self.number % 64) & 1 == 1
    }

    /// Tries the next seed, if it asks for the defect.
    fn try_seed(&mut self, scan: &Scan) {
        let seed = scan.first_seed + self.hunted.seeds;
        self.begun.note(self.mutant.name, || plan_of(seed).0);
        let seen = scan.seen(self.hunted.seeds as usize);
        self.hunted.seeds += 1;
        self.hunted.cpu_ns += seen.cpu_ns;
        if seen.fails || !self.is_asked(&seen.asked) {
            return;
        }
        self.hunted.asked += 1;
        let (plan, kind) = plan_of(seed);
        let variants = if self.hunted.asked * RARE < self.hunted.seeds { VARIANTS } else { 0 };
        for variant in 0..=variants {
            let tried = if variant == 0 { plan.clone() } else { with_more_cuts(&plan, variant) };
            let kind = format!("{kind}{}", "+".repeat(variant as usize));
            // The plan without more cuts does not fail without the defect.
            self.attempt(&tried, kind, variant == 0);
            if self.hunted.find.is_some() {
                return;
            }
        }
        self.aims.add(plan);
    }

    /// Tries a plan that was made of some that ask for the defect.
    fn try_aimed(&mut self) {
        let plan = self.aims.next();
        let began = self.hunted.cpu_ns;
        switch::take_asked();
        let failed = self.attempt(&plan, "changed".to_owned(), false);
        let asked = switch::take_asked();
        if self.is_asked(&asked) && !failed {
            self.aims.add(plan.clone());
        }
        self.aimed_ns += self.hunted.cpu_ns - began;
        if let Some(find) = &mut self.hunted.find {
            let file = format!("{}.toml", self.mutant.name);
            find.file = std::fs::write(&file, write_plans(&[plan])).is_ok().then_some(file);
        }
    }

    /// Runs a plan with the defect, and without it if it fails with it and may do so all the same. Returns whether it failed.
    fn attempt(&mut self, plan: &TorturePlan, kind: String, is_proven: bool) -> bool {
        let began = cpu_ns();
        self.begun.note(self.mutant.name, || plan.clone());
        let result = run_with(self.number, plan);
        let proves = result.is_err() && (is_proven || plan.run().is_ok());
        self.hunted.cpu_ns += cpu_ns() - began;
        let Err(failure) = result else { return false };
        if proves {
            let violation = &failure.violation;
            let told = format!("{}: {violation}", violation.checker()).replace('\n', " ");
            let find = Find { seed: plan.seed, plan: kind, told, file: None };
            if self.mutant.stops || !is_stop(violation) {
                self.hunted.find = Some(find);
            } else {
                self.hunted.stopped.get_or_insert(find);
            }
        }
        true
    }
}

impl fmt::Display for Hunted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu_ns, seeds, asked, find, stopped } = self;
        write!(f, "{:7.1} {seeds:>7} {asked:>7}  ", *cpu_ns as f64 / 1e9)?;
        if let Some(Find { seed, plan, told, file }) = find {
            let place = file.as_ref().map_or_else(|| format!("seed {seed}"), Clone::clone);
            return write!(f, "{place}, {plan}: {told:.100}");
        }
        write!(f, "NOT FOUND")?;
        if let Some(Find { seed, plan, told, .. }) = stopped {
            write!(f, ", but stops: seed {seed}, {plan}: {told:.100}")?;
        }
        Ok(())
    }
}

/// Processor time of this thread, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    let first = text.split(' ').next().and_then(|text| text.parse().ok());
    first.expect("the first number is the time on a processor")
}
