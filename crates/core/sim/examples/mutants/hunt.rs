//! Hunting a defect: plans of one seed after the other, until one fails with it and not without it.
//!
//! Each plan is run once without a defect, for all hunts together. That tells which defects it asks for at all
//! (`switch.rs`), so that only those need be tried with it; a plan that fails without a defect proves nothing, is told, and
//! passed over. How many plans asked for a survivor tells whether the net never comes by, or sees nothing there.
//!
//! Seeds take turns in what plan they draw, so that no kind of plan has to wait for the budget of another:
//!
//! | seed modulo 4 | plan |
//! |---|---|
//! | 0 | as drawn |
//! | 1 | a storm: power cuts in place of its faults, one after a few requests |
//! | 2 | mixed: some kinds of fault in plenty, a third of them power cuts, many on the heels of others |
//! | 3 | mixed, over devices with caches, with many flushes and few reads |
//!
//! Both modes take turns below that, and every third round has tags.

use crate::switch::{self, Asked};
use crate::table::Mutant;
use core::fmt;
use raidlab_controller::MemberCache;
use raidlab_sim::{Fault, FaultEvent, TortureMode, TorturePlan, Violation};
use raidlab_workload::{Rng, derived_seed};
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

/// Host requests of a run.
const DRAWN_OPS: u64 = 600;
const STORM_OPS: u64 = 400;
const MIXED_OPS: u64 = 250;

/// The plan of a seed, and its kind.
fn plan_of(seed: u64) -> (TorturePlan, String) {
    let mode = if (seed / 4).is_multiple_of(2) { TortureMode::Bounded } else { TortureMode::Beyond };
    let has_tags = seed / 8 % 3 == 2;
    let (kind, ops) = match seed % 4 {
        0 => ("drawn", DRAWN_OPS),
        1 => ("storm", STORM_OPS),
        2 => ("mixed", MIXED_OPS),
        _ => ("flushes", MIXED_OPS),
    };
    let mut plan = TorturePlan::draw_with(has_tags, seed, ops, mode, None).expect("no level is asked for");
    match seed % 4 {
        0 => {}
        1 => storm(&mut plan),
        2 => mix(&mut plan, has_tags),
        _ => {
            mix(&mut plan, has_tags);
            plan.workload.flush_permille = 250;
            plan.workload.read_pct = 30;
            plan.config.member_cache = MemberCache::On;
        }
    }
    (plan, format!("{kind} {}{}", mode.name(), if has_tags { " tags" } else { "" }))
}

fn storm(plan: &mut TorturePlan) {
    let mut random = Rng::new(plan.seed);
    let mut after_ops = 0;
    plan.faults.clear();
    while after_ops < plan.ops {
        after_ops += 1 + random.below(16);
        plan.faults.push(FaultEvent { after_ops, fault: Fault::PowerCut, pick: random.next_u64() });
    }
}

fn mix(plan: &mut TorturePlan, has_tags: bool) {
    let mut random = Rng::new(derived_seed(plan.seed, 77));
    let in_use = random.next_u64();
    let gap_max = [4, 16, 48][random.below(3) as usize];
    let is_tried = |fault: &Fault| in_use >> (*fault as u32) & 1 == 1 && (has_tags || !fault.is_lie());
    let kinds: Vec<Fault> = Fault::ALL.into_iter().filter(is_tried).collect();
    let mut after_ops = 0;
    plan.faults.clear();
    while after_ops < plan.ops {
        after_ops += if random.below(3) == 0 { 0 } else { 1 + random.below(gap_max) };
        let is_cut = random.below(3) == 0 || kinds.is_empty();
        let fault = if is_cut { Fault::PowerCut } else { kinds[random.below(kinds.len() as u64) as usize] };
        plan.faults.push(FaultEvent { after_ops, fault, pick: random.next_u64() });
    }
}

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
        let began = cpu_ns();
        switch::set(number);
        let result = plan.run();
        switch::set(0);
        hunted.cpu_ns += cpu_ns() - began;
        let Err(failure) = result else { continue };
        let violation = &failure.violation;
        let told = format!("{}: {violation}", violation.checker()).replace('\n', " ");
        let find = Find { seed, plan: kind, told };
        if mutant.stops || !is_stop(violation) {
            hunted.find = Some(find);
        } else {
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
