//! The controller's net: plans of many seeds on tiny arrays with real bytes, over levels, policies, sizes, orders of
//! completion and faults; and the list of seeds that once failed. A failure prints the seed and the way there.

use raidlab_sim::{TortureMode, TorturePlan, TortureReport};

/// Runs one plan; panics with the plan and the trace if a rule is broken.
fn run_plan(plan: &TorturePlan) -> TortureReport {
    plan.run().unwrap_or_else(|failure| panic!("{failure}{plan:?}"))
}

fn run(seed: u64, ops: u64, mode: TortureMode) -> TortureReport {
    run_plan(&TorturePlan::draw(seed, ops, mode, None).expect("any level"))
}

fn sweep(seeds: core::ops::Range<u64>, ops: u64, mode: TortureMode) -> TortureReport {
    let mut sum = TortureReport::default();
    seeds.for_each(|seed| sum.add(&run(seed, ops, mode)));
    sum
}

#[test]
fn an_array_survives_what_its_level_survives() {
    let sum = sweep(0..200, 1_000, TortureMode::Bounded);
    assert_eq!((sum.data_lost_errors, sum.array_failed_errors), (0, 0));
    assert!(sum.faults.iter().all(|count| *count > 0), "every kind of fault was met: {sum:?}");
}

/// More is lost than the level survives: what is still there must be right, and what is not must be refused, not made up.
#[test]
fn a_failed_array_refuses_and_never_lies() {
    let sum = sweep(1_000..1_100, 1_000, TortureMode::Beyond);
    assert!(sum.data_lost_errors > 0, "{sum:?}");
    assert!(sum.array_failed_errors > 0, "{sum:?}");
}

#[test]
fn seeds_that_once_failed() {
    for line in include_str!("torture/seeds.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).expect("seed, requests, mode");
        let (seed, ops) = (number(), number());
        let (mode, has_tags) = match words.next() {
            Some("bounded") => (TortureMode::Bounded, false),
            Some("beyond") => (TortureMode::Beyond, false),
            Some("bounded+tags") => (TortureMode::Bounded, true),
            Some("beyond+tags") => (TortureMode::Beyond, true),
            other => panic!("no mode is {other:?}"),
        };
        run_plan(&TorturePlan::draw_with(has_tags, seed, ops, mode, None).expect("any level"));
    }
}

#[test]
fn a_seed_is_a_run() {
    for seed in 7..12 {
        let [first, second] = [(); 2].map(|()| run(seed, 500, TortureMode::Bounded));
        assert_eq!(first, second);
        assert_ne!(first.digest, run(seed, 501, TortureMode::Bounded).digest);
    }
}

/// Many more seeds and requests than a quick run has time for.
#[test]
#[ignore = "takes minutes: cargo test -p raidlab-sim --release -- --ignored"]
fn long_soak() {
    sweep(1_000_000..1_002_000, 10_000, TortureMode::Bounded);
    sweep(2_000_000..2_001_000, 10_000, TortureMode::Beyond);
}
