//! The controller's net: thousands of requests on tiny arrays with real bytes, over levels, policies, sizes and
//! orders of completion, healthy and with members or blocks missing. A failure prints the seed and the way there.

use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, FlushOrder, IoPolicy, MemberCache, ReadPolicy, Resilience,
    WritePolicy,
};
use raidlab_sim::{ByteWorld, LossNotice, MemberLoss, RunPlan, RunReport};
use raidlab_units::{BlockCount, BlockSize, ByteCount, MemberIndex, NanoSpan};
use raidlab_workload::{Rng, derived_seed};

/// A level to try: its name, the members, and how many of them any run may lose.
#[derive(Clone, Copy, Debug)]
struct LevelCase {
    level: &'static str,
    members: u16,
    losses: u16,
}

const LEVELS: [LevelCase; 18] = [
    LevelCase { level: "0", members: 3, losses: 0 },
    LevelCase { level: "1", members: 2, losses: 1 },
    LevelCase { level: "1", members: 3, losses: 2 },
    LevelCase { level: "1e", members: 5, losses: 1 },
    LevelCase { level: "1e:far", members: 3, losses: 1 },
    LevelCase { level: "1e:offset", members: 5, losses: 1 },
    LevelCase { level: "3", members: 4, losses: 1 },
    LevelCase { level: "5", members: 3, losses: 1 },
    LevelCase { level: "5", members: 5, losses: 1 },
    LevelCase { level: "6", members: 4, losses: 2 },
    LevelCase { level: "6", members: 7, losses: 2 },
    LevelCase { level: "10", members: 4, losses: 1 },
    LevelCase { level: "10", members: 6, losses: 1 },
    LevelCase { level: "10:far", members: 4, losses: 1 },
    LevelCase { level: "10:offset", members: 6, losses: 1 },
    LevelCase { level: "50:2-spans", members: 6, losses: 1 },
    LevelCase { level: "60:2-spans", members: 8, losses: 2 },
    LevelCase { level: "jbod", members: 2, losses: 0 },
];

/// Picks one of `choices`.
fn pick<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// A tiny array: strips of a few blocks, a cache of a few slots, so that eviction and stalls are common.
fn tiny_array(case: LevelCase, random: &mut Rng) -> ArrayConfig {
    let block_size = pick(random, &[BlockSize::B512, BlockSize::B512, BlockSize::B4096]);
    let strip_blocks = pick(random, &[8, 8, 16, 32]);
    let strip_bytes = strip_blocks * block_size.bytes();
    let cache_block = block_size.bytes() * pick(random, &[1, 2, 4, 8]);
    let start_pct = pick(random, &[10, 50, 80, 100]);
    ArrayConfig {
        level: case.level.parse().expect(case.level),
        members: case.members,
        strip_size: ByteCount(strip_bytes),
        block_size,
        member_size: ByteCount(strip_bytes * (3 + random.below(6))),
        member_cache: pick(random, &[MemberCache::Off, MemberCache::On]),
        cache: CacheConfig {
            size: ByteCount(cache_block * pick(random, &[4, 9, 16, 40])),
            block_size: ByteCount(cache_block),
            memory: pick(random, &[CacheMemory::Volatile, CacheMemory::BatteryBacked]),
            write_policy: pick(
                random,
                &[WritePolicy::WriteThrough, WritePolicy::WriteBack, WritePolicy::WriteBackBadBattery],
            ),
            read_policy: pick(
                random,
                &[ReadPolicy::NoReadAhead, ReadPolicy::ReadAhead, ReadPolicy::Adaptive],
            ),
            io_policy: pick(random, &[IoPolicy::Direct, IoPolicy::Cached]),
            flush_start_pct: start_pct,
            flush_stop_pct: pick(random, &[0, start_pct / 2, start_pct]),
            flush_after: pick(random, &[NanoSpan::from_millis(1), NanoSpan::from_secs(1)]),
            flush_iodepth: pick(random, &[1, 2, 8]),
            flush_order: pick(random, &[FlushOrder::Address, FlushOrder::Age]),
            gather_through: pick(random, &[true, false]),
            read_ahead: ByteCount(cache_block * pick(random, &[1, 4, 8])),
            ..CacheConfig::default()
        },
        staging_size: ByteCount(strip_bytes * u64::from(case.members) * pick(random, &[2, 4])),
        resilience: Resilience::default(),
    }
}

fn plan(case: LevelCase, requests: u64, trouble: Trouble, random: &mut Rng) -> RunPlan {
    let lost = match trouble {
        Trouble::None | Trouble::BadBlocks => 0,
        Trouble::Losses => 1 + random.below(u64::from(case.losses)) as u16,
        Trouble::Both => random.below(u64::from(case.losses)) as u16,
    };
    let first = random.below(u64::from(case.members)) as u16;
    let step = 1 + random.below(u64::from(case.members) - 1) as u16;
    let mut losses: Vec<_> = (0..lost)
        .map(|index| MemberLoss {
            after_requests: random.below(requests),
            member: MemberIndex((first + index * step) % case.members),
            notice: pick(random, &[LossNotice::Told, LossNotice::FoundOut]),
        })
        .collect();
    losses.sort_by_key(|loss| loss.after_requests);
    RunPlan {
        requests,
        iodepth: pick(random, &[1, 4, 12, 24]),
        read_pct: pick(random, &[0, 30, 50, 80]),
        flush_pct: pick(random, &[0, 1, 5]),
        fua_pct: pick(random, &[0, 10, 50]),
        blocks_max: BlockCount(pick(random, &[4, 16, 48])),
        bad_blocks: if matches!(trouble, Trouble::BadBlocks | Trouble::Both) { 20 } else { 0 },
        battery_changes: pick(random, &[0, 0, 3, 20]),
        losses,
    }
}

/// What goes wrong in a run.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    Losses,
    BadBlocks,
    Both,
}

/// Runs one seed; panics with the configuration and the trace if a rule is broken.
fn run(case: LevelCase, seed: u64, requests: u64, trouble: Trouble) -> RunReport {
    let mut random = Rng::new(derived_seed(seed, u64::from(case.members)));
    let config = tiny_array(case, &mut random);
    let plan = plan(case, requests, trouble, &mut random);
    let mut world = ByteWorld::new(&config, seed)
        .unwrap_or_else(|error| panic!("{case:?} seed {seed}: {error}\n{config:?}"));
    world.run(&plan).unwrap_or_else(|failure| panic!("{case:?} {trouble:?} {failure}{config:?}\n{plan:?}"))
}

fn sweep(seeds: core::ops::Range<u64>, requests: u64, trouble: Trouble) {
    let min_losses = match trouble {
        Trouble::None => 0,
        Trouble::Losses | Trouble::BadBlocks => 1,
        Trouble::Both => 2,
    };
    for case in LEVELS.into_iter().filter(|case| case.losses >= min_losses) {
        for seed in seeds.clone() {
            let report = run(case, seed, requests, trouble);
            assert_eq!(report, RunReport { failed_requests: 0, failed_stripes: 0 }, "{case:?} seed {seed}");
        }
    }
}

#[test]
fn a_healthy_array_never_loses_a_write() {
    sweep(0..8, 400, Trouble::None);
}

#[test]
fn a_degraded_array_never_loses_a_write() {
    sweep(100..108, 400, Trouble::Losses);
}

#[test]
fn unreadable_blocks_are_made_up_from_redundancy() {
    sweep(200..206, 400, Trouble::BadBlocks);
}

#[test]
fn unreadable_blocks_on_a_degraded_array_are_made_up_from_redundancy() {
    sweep(300..308, 400, Trouble::Both);
}

/// One more member is lost than the level survives: what is still there must be right, and what is not must be
/// refused, not made up.
#[test]
fn a_failed_array_refuses_and_never_lies() {
    fail_arrays(400..404, 400);
}

fn fail_arrays(seeds: core::ops::Range<u64>, requests: u64) {
    for case in LEVELS {
        let more = LevelCase { losses: (case.losses + 1).min(case.members - 1), ..case };
        for seed in seeds.clone() {
            run(more, seed, requests, Trouble::Losses);
        }
    }
}

/// Many more seeds and requests than a quick run has time for.
#[test]
#[ignore = "takes minutes: cargo test -p raidlab-sim --release -- --ignored"]
fn long_soak() {
    sweep(1_000..1_100, 2_000, Trouble::None);
    sweep(2_000..2_100, 2_000, Trouble::Losses);
    sweep(3_000..3_100, 2_000, Trouble::BadBlocks);
    sweep(4_000..4_100, 2_000, Trouble::Both);
}

#[test]
#[ignore = "takes minutes: cargo test -p raidlab-sim --release -- --ignored"]
fn long_soak_of_failed_arrays() {
    fail_arrays(5_000..5_050, 2_000);
}
