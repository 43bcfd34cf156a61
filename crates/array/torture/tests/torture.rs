//! The controller's net: plans of many seeds on tiny arrays with real bytes, over levels, policies, sizes, orders of
//! completion and faults; and stored plans. A failure prints the seed and the way there.

use raidlab_torture::{Fault, FaultEvent, TortureMode, TorturePlan, TortureReport, read_plans};
use raidlab_units::BlockSize;

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
    // What a torn write of whole stripes may lose is judged by the checker of losses.
    assert_eq!(sum.array_failed_errors, 0);
    assert!(sum.faults.iter().all(|count| *count > 0), "every kind of fault was met: {sum:?}");
}

/// More is lost than the level survives: what is still there must be right, and what is not must be refused, not made up.
#[test]
fn a_failed_array_refuses_and_never_lies() {
    let sum = sweep(1_000..1_100, 1_000, TortureMode::Beyond);
    assert!(sum.data_lost_errors > 0, "{sum:?}");
    assert!(sum.array_failed_errors > 0, "{sum:?}");
}

/// Each file says in its first line what it showed.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a plan that is put into the folder is replayed without being named here"
)]
fn plans_that_once_failed() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torture/plans");
    let entries = std::fs::read_dir(folder).expect("the folder of plans");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 77, "{} plans", paths.len());
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("plans are text");
        assert!(text.starts_with("# "), "{}: a remark says what it showed", path.display());
        replay(&path.to_string_lossy(), &text);
    }
}

/// The fewest plans that reach all that a guided campaign reached of the controller.
#[test]
fn plans_that_reach_far() {
    let sum = replay("corpus.toml", include_str!("torture/corpus.toml"));
    assert!(sum.faults.iter().all(|count| *count > 0), "every kind of fault was met: {sum:?}");
    assert!(sum.refused > 0 && sum.array_failed_errors > 0 && sum.data_lost_errors > 0, "{sum:?}");
}

fn replay(file: &str, text: &str) -> TortureReport {
    let mut sum = TortureReport::default();
    for (index, plan) in read_plans(file, text).unwrap_or_else(|error| panic!("{error}")).iter().enumerate() {
        sum.add(&plan.run().unwrap_or_else(|failure| panic!("{file}, plan {}: {failure}", index + 1)));
    }
    sum
}

/// Each kind in plenty, with nothing else but power cuts, which show what it has left.
#[test]
fn each_kind_of_fault_is_met_and_survived_beside_power_cuts() {
    for fault in Fault::ALL {
        let mut met = 0;
        // What is gone has to go before it can be back, and few arrays have long blocks.
        let others: &[Fault] = match fault {
            Fault::Returned => &[Fault::Pulled],
            Fault::OldImage => &[Fault::Pulled, Fault::Returned],
            _ => &[],
        };
        let kinds = [&[fault], others].concat();
        let has_blocks = |seed: &u64| {
            let plan = TorturePlan::draw(*seed, 1, TortureMode::Bounded, None).expect("any level");
            fault != Fault::SectorTear || plan.config.block_size != BlockSize::B512
        };
        // Builds with debug assertions are slow: `make explore` takes twice as many.
        let seeds = if cfg!(debug_assertions) { 6 } else { 12 };
        for seed in (0..).filter(has_blocks).take(seeds) {
            for mode in [TortureMode::Bounded, TortureMode::Beyond] {
                let has_tags = fault.is_lie() || seed % 4 == 0;
                let mut plan = TorturePlan::draw_with(has_tags, seed, 400, mode, None).expect("any level");
                let needs_peer = matches!(fault, Fault::Peer | Fault::Failover | Fault::PeerFailover);
                plan.config.cache.mirror |= needs_peer;
                let event = |nth: u64| {
                    let next = kinds[nth as usize % kinds.len()];
                    let fault = if nth % 5 == 4 { Fault::PowerCut } else { next };
                    FaultEvent { after_ops: 20 + 13 * nth, fault, pick: (seed << 32) | (nth * 0x9e37_79b9) }
                };
                plan.faults = (0..28).map(event).collect();
                met += run_plan(&plan).faults[fault as usize];
            }
        }
        assert!(met > 0, "{} was never met", fault.name());
    }
}

/// Between stops and cuts members come back as they were before one of them.
#[test]
fn a_member_from_before_a_start_or_a_stop_is_never_used() {
    let mut met = 0;
    for seed in 0..60 {
        for mode in [TortureMode::Bounded, TortureMode::Beyond] {
            let mut plan = TorturePlan::draw(seed, 400, mode, None).expect("any level");
            plan.older_members = true;
            let event = |nth: u64| {
                let fault = if nth % 4 == 3 { Fault::Stop } else { Fault::PowerCut };
                FaultEvent { after_ops: 20 + 13 * nth, fault, pick: (seed << 32) | (nth * 0x9e37_79b9) }
            };
            plan.faults = (0..28).map(event).collect();
            met += run_plan(&plan).faults[Fault::OldImage as usize];
        }
    }
    assert!(met > 100, "members came back {met} times");
}

/// The plan of a seed with other faults.
fn with_faults(mut plan: TorturePlan, faults: &[(u64, Fault, u64)]) -> TorturePlan {
    let event = |&(after_ops, fault, pick)| FaultEvent { after_ops, fault, pick };
    plan.faults = faults.iter().map(event).collect();
    plan
}

/// A write of tags failed, their rows became bad blocks, and power failed when tags and data agreed again, but no device knew.
/// The array rightly gave the rows up; the net took them for readable because it asked the devices only.
#[test]
fn power_fails_before_the_devices_know_that_a_bad_block_was_mended() {
    let draw = |seed, ops| TorturePlan::draw(seed, ops, TortureMode::Bounded, None).expect("any level");
    let faults = [
        (10, Fault::WriteError, 18_328_122_910_761_395_350),
        (34, Fault::Order, 3_737_549_409_706_786_997),
        (85, Fault::LatentError, 962_598_702_322_767_109),
        (128, Fault::WriteError, 8_608_471_545_892_599_611),
        (142, Fault::PowerCut, 2_165_300_550_196_980_011),
    ];
    run_plan(&with_faults(draw(8_800_752, 143), &faults));
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
#[ignore = "takes minutes: cargo test -p raidlab-torture --release -- --ignored"]
fn long_soak() {
    sweep(1_000_000..1_002_000, 10_000, TortureMode::Bounded);
    sweep(2_000_000..2_001_000, 10_000, TortureMode::Beyond);
}
