//! Hunting a defect: plans of one seed after the other, until one fails with it and not without it.
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

use crate::switch;
use crate::table::Mutant;
use core::fmt;
use raidlab_controller::MemberCache;
use raidlab_sim::{Fault, FaultEvent, TortureMode, TorturePlan, Violation};
use raidlab_workload::{Rng, derived_seed};

/// How much a hunt may cost, and where it begins.
pub(crate) struct Budget {
    pub(crate) seconds: u64,
    pub(crate) first_seed: u64,
}

/// What a hunt came to.
pub(crate) struct Hunted {
    pub(crate) cpu_seconds: f64,
    seeds: u64,
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

/// Hunts defect `number`. A seed that fails without it proves nothing: it is told, and passed over.
pub(crate) fn hunt(number: u32, mutant: &Mutant, budget: &Budget) -> Hunted {
    let began = cpu_ns();
    let spent = || (cpu_ns() - began) as f64 / 1e9;
    let mut stopped = None;
    let mut seed = budget.first_seed;
    let mut find = None;
    while find.is_none() && spent() < budget.seconds as f64 {
        let (plan, kind) = plan_of(seed);
        switch::set(number);
        let result = plan.run();
        switch::set(0);
        if let Err(failure) = result {
            let violation = &failure.violation;
            let counts = mutant.stops || !is_stop(violation);
            if counts || stopped.is_none() {
                if let Err(failure) = plan.run() {
                    eprintln!("seed {seed} ({kind}) fails without a defect: {}", failure.violation);
                } else {
                    let told = format!("{}: {violation}", violation.checker()).replace('\n', " ");
                    let find_now = Some(Find { seed, plan: kind, told });
                    if counts { find = find_now } else { stopped = find_now }
                }
            }
        }
        seed += 1;
    }
    Hunted { cpu_seconds: spent(), seeds: seed - budget.first_seed, find, stopped }
}

impl fmt::Display for Hunted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu_seconds = self.cpu_seconds;
        if let Some(Find { seed, plan, told }) = &self.find {
            return write!(f, "{cpu_seconds:7.1} {seed:>8}  {plan:22} {told:.100}");
        }
        write!(f, "{cpu_seconds:7.1} {:>8}  {:22} NOT FOUND", self.seeds, "-")?;
        if let Some(Find { seed, plan, told }) = &self.stopped {
            write!(f, ", but stopped: seed {seed}, {plan}, {told:.100}")?;
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
