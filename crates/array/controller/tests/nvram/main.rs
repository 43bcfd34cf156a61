//! Power cuts and failovers of a controller with kept or mirrored cache memory, at any action.
//!
//! Verified: that after any prefix of actions the directory and the cache memory (the second controller's, for a
//! failover) bring back every block that was acknowledged under a promise that covers the cut, and nothing that a later
//! such write replaced; that flushes and forced unit access keep their promise through changes of the battery and of the
//! second controller; that entries number what is dirty, and that both directories agree while the cache is mirrored.
//! Not verified: redundancy after a cut, which is the intent log's to close, and timing.

mod cases;
mod cuts;
mod history;
mod world;

use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, FlushOrder, HostOp, IoPolicy, MemberCache, ReadPolicy, WritePolicy,
};
use raidlab_testkit::BLOCK;
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use world::{Cut, Random, World};

const STRIP_BLOCKS: u64 = 8;

/// A tiny array, so that evictions, stalls and writes to blocks under destage are common.
fn array(random: &mut Random) -> ArrayConfig {
    let (level, members) = random.pick(&[("0", 2), ("1", 2), ("10", 4), ("5", 3), ("6", 4)]);
    let cache_block = BLOCK as u64 * random.pick(&[1, 2, 4, 8]);
    let strip = STRIP_BLOCKS * BLOCK as u64;
    let start_pct = random.pick(&[0, 30, 80, 100]);
    let member_cache = random.pick(&[MemberCache::Off, MemberCache::On]);
    let cache = CacheConfig {
        size: ByteCount(cache_block * random.pick(&[1, 3, 6, 12])),
        block_size: ByteCount(cache_block),
        memory: CacheMemory::BatteryBacked,
        write_policy: random.pick(&[
            WritePolicy::WriteBack,
            WritePolicy::WriteBack,
            WritePolicy::WriteBackBadBattery,
        ]),
        read_policy: random.pick(&[ReadPolicy::NoReadAhead, ReadPolicy::ReadAhead]),
        io_policy: random.pick(&[IoPolicy::Direct, IoPolicy::Cached]),
        flush_start_pct: start_pct,
        flush_stop_pct: random.pick(&[0, start_pct]),
        flush_after: random.pick(&[NanoSpan::from_millis(1), NanoSpan::from_secs(1)]),
        flush_iodepth: random.pick(&[1, 4]),
        flush_order: random.pick(&[FlushOrder::Address, FlushOrder::Age]),
        ..CacheConfig::default()
    };
    ArrayConfig {
        strip_size: ByteCount(strip),
        block_size: BlockSize::B512,
        member_size: ByteCount(strip * 4),
        member_cache,
        staging_size: ByteCount(strip * 8),
        ..raidlab_testkit::array(level, members, cache)
    }
}

/// Random requests in random order, with cuts between actions, and changes of battery and second controller.
fn run(config: &ArrayConfig, seed: u64, cut_odds: u64) -> u64 {
    let mut world = World::new(config, seed);
    world.cut_odds = cut_odds;
    let (depth, hot) = (1 + world.random.below(8), 1 + world.random.below(48));
    for _ in 0..400 {
        let cut = match world.random.below(100) {
            0..2 => world.change_battery(),
            2..4 if config.cache.mirror => world.change_peer(),
            4..50 if (world.waiting() as u64) < depth => submit(&mut world, hot),
            _ => world.step().err(),
        };
        if let Some(cut) = cut {
            world.cut(cut);
        }
    }
    while let Err(cut) = world.finish_all() {
        world.cut(cut);
    }
    world.cuts
}

fn submit(world: &mut World, hot: u64) -> Option<Cut> {
    let volume = world.controller.volume_blocks().0;
    let lba = world.random.below(hot.min(volume));
    let blocks = (1 + world.random.below(12)).min(volume - lba);
    match world.random.below(10) {
        0 => world.submit(HostOp::Flush, 0, 0),
        1..3 => world.submit(HostOp::Read, lba, blocks),
        3 => world.submit(HostOp::Write { fua: true }, lba, blocks),
        _ => world.submit(HostOp::Write { fua: false }, lba, blocks),
    }
}

fn soak(seeds: core::ops::Range<u64>, change: impl Fn(&mut Random, &mut ArrayConfig)) {
    let mut cuts = 0;
    for seed in seeds {
        let mut random = Random(seed);
        let mut config = array(&mut random);
        change(&mut random, &mut config);
        let odds = random.pick(&[20, 100, 400]);
        let outcome = std::panic::catch_unwind(|| run(&config, seed, odds));
        cuts += outcome.unwrap_or_else(|_| panic!("seed {seed}: {config:#?}"));
    }
    assert!(cuts > 0, "no run was ever cut");
}

#[test]
fn a_power_cut_at_any_action_loses_nothing_promised() {
    soak(0..600, |_, _| {});
}

#[test]
fn a_failover_at_any_action_loses_nothing_promised() {
    soak(1_000..1_600, |random, config| {
        config.cache.mirror = true;
        config.cache.memory =
            random.pick(&[CacheMemory::BatteryBacked, CacheMemory::BatteryBacked, CacheMemory::Volatile]);
    });
}

#[test]
#[ignore = "takes minutes: cargo test -p raidlab-controller --release --test nvram -- --ignored"]
fn long_soak() {
    soak(10_000..100_000, |random, config| config.cache.mirror = random.once_in(2));
}
