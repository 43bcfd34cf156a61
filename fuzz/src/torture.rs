//! Coverage-guided torture: an input is a plan as text, and what is counted are the edges of the controller and the format.
//!
//! ```text
//! plans that reached something new ── changed or spliced ── run, all checkers on ── kept if they reach something new
//! ```
//! See `crates/array/torture/src/mutate.rs` for how plans are changed, and `fuzz/run.sh` for how it is run. Of the
//! environment: with `PLANS=drawn` every plan is drawn anew from a seed and nothing is learnt, to compare with.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_crossover, fuzz_mutator, fuzz_target};
use raidlab_torture::{TorturePlan, read_plans, write_plans};
use raidlab_workload::Rng;
use std::sync::LazyLock;

/// How often a plan is drawn anew all the same.
const DRAWN_ONE_IN: u64 = 4;

static ARE_DRAWN: LazyLock<bool> = LazyLock::new(|| std::env::var("PLANS").is_ok_and(|plans| plans == "drawn"));

fuzz_target!(
    // Panics of the controller are findings of the world, told with the way there.
    init: std::panic::set_hook(Box::new(|_| {})),
    |input: &[u8]| -> Corpus {
        let Some(plan) = read(input) else { return Corpus::Reject };
        if let Err(failure) = plan.run() {
            eprintln!("{failure}");
            std::process::abort();
        }
        Corpus::Keep
    }
);

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let mut random = Rng::new(u64::from(seed));
    // Drawn plans are more different from each other than changed ones are from what they come from.
    let is_drawn = *ARE_DRAWN || random.below(DRAWN_ONE_IN) == 0;
    let plan = match read(&data[..size]) {
        Some(plan) if !is_drawn => plan.changed(&mut random),
        _ => TorturePlan::draw_short(&mut random),
    };
    write(plan, &mut data[..max_size])
});

fuzz_crossover!(|data1: &[u8], data2: &[u8], out: &mut [u8], seed: u32| {
    let mut random = Rng::new(u64::from(seed));
    let plan = match (read(data1), read(data2)) {
        (Some(one), Some(other)) if !*ARE_DRAWN => one.spliced(&other, &mut random),
        _ => TorturePlan::draw_short(&mut random),
    };
    write(plan, out)
});

fn read(input: &[u8]) -> Option<TorturePlan> {
    let plans = read_plans("input", str::from_utf8(input).ok()?).ok()?;
    plans.into_iter().next()
}

/// Writes as many of a plan's faults as there is room for.
fn write(mut plan: TorturePlan, out: &mut [u8]) -> usize {
    loop {
        let text = write_plans(std::slice::from_ref(&plan));
        if let Some(out) = out.get_mut(..text.len()) {
            out.copy_from_slice(text.as_bytes());
            return text.len();
        }
        if plan.faults.pop().is_none() {
            return 0;
        }
    }
}
