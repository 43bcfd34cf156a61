//! The arrays to try: every level at a few sizes, and everything else that can be set drawn at random.
//!
//! They are tiny: strips of a few blocks, a cache of a few slots, a handful of stripes, so that eviction, stalls, requests
//! over several stripes and two requests for one block are common.

use raidlab_controller::{
    ArrayConfig, ArrayRules, CacheConfig, CacheMemory, ConfigError, Controller, FlushOrder, IoPolicy,
    MemberCache, MetadataPolicy, ReadPolicy, Resilience, WritePolicy,
};
use raidlab_format::tag_blocks;
use raidlab_raid::LevelVariant;
use raidlab_units::{BlockCount, BlockSize, ByteCount, NanoSpan};
use raidlab_workload::Rng;

/// Levels, and the numbers of members to try each with.
const LEVELS: [(&str, u16); 18] = [
    ("0", 3),
    ("1", 2),
    ("1", 3),
    ("1e", 5),
    ("1e:far", 3),
    ("1e:offset", 5),
    ("3", 4),
    ("5", 3),
    ("5", 5),
    ("6", 4),
    ("6", 7),
    ("10", 4),
    ("10", 6),
    ("10:far", 4),
    ("10:offset", 6),
    ("50:2-spans", 6),
    ("60:2-spans", 8),
    ("jbod", 2),
];

/// The level is not one of those that are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("RAID {level} is not tried: choose one of {}", levels_text())]
pub struct LevelNotTried {
    /// What was asked for.
    pub level: LevelVariant,
}

fn levels_text() -> String {
    let mut names: Vec<_> = LEVELS.iter().map(|(name, _)| *name).collect();
    names.dedup();
    names.join(", ")
}

/// Whether plans may have an array of `level`.
pub(super) fn is_tried(level: LevelVariant) -> bool {
    LEVELS.iter().any(|(name, _)| name.parse() == Ok(level))
}

/// Picks one of `choices`.
pub(super) fn pick<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

/// A log that has room for a few records only, or for many: found by asking what would do.
pub(super) fn fit_log(config: &mut ArrayConfig, factor: u64) {
    config.resilience.log_size = ByteCount(1);
    if let Err(ConfigError::LogTooSmall { needed, .. }) = Controller::new(config) {
        config.resilience.log_size = ByteCount(needed.0.next_multiple_of(4096) * factor);
    }
}

/// Draws an array, of `level` if it is given.
pub(super) fn draw_array(
    level: Option<LevelVariant>,
    random: &mut Rng,
    resilience: &mut Rng,
) -> Result<ArrayConfig, LevelNotTried> {
    let parse = |name: &str| name.parse::<LevelVariant>().expect("the table holds levels");
    let wanted: Vec<_> = LEVELS
        .iter()
        .map(|(name, members)| (parse(name), *members))
        .filter(|(candidate, _)| level.is_none_or(|level| level == *candidate))
        .collect();
    match level {
        Some(level) if wanted.is_empty() => Err(LevelNotTried { level }),
        _ => {
            let (level, members) = pick(random, &wanted);
            let mut array = tiny_array(level, members, random);
            draw_resilience(&mut array, resilience);
            fit_log(&mut array, pick(random, &[1, 2, 8]));
            Ok(array)
        }
    }
}

/// Draws mirrored caches, spares, how scans go, how copies are chosen, what is read ahead and when parity is written. Now
/// and then a member is so long that the boundary of a rebuild is written down before its end.
fn draw_resilience(array: &mut ArrayConfig, random: &mut Rng) {
    array.cache.mirror = random.below(4) == 0;
    array.resilience.spares = pick(random, &[0, 0, 1, 2]);
    array.resilience.scan_iodepth = pick(random, &[1, 2, 4, 16]);
    let rate = pick(random, &[None, None, Some(1_000_000), Some(20_000_000)]);
    array.resilience.scan_bytes_per_sec = rate.map(ByteCount);
    if random.below(24) == 0 {
        array.member_size = ByteCount(array.strip_size.0 * (70 + random.below(80)));
    }
    array.cache.stream_lead = pick(random, &[0, 8, 8]);
    array.cache.parity_after_data = random.below(4) == 0;
    array.cache.read_ahead_on_miss = random.below(4) == 0;
    array.cache.read_ahead_with_queue = array.cache.parity_after_data;
}

/// Gives the blocks of an array tags, and room for them.
pub(super) fn give_tags(array: &mut ArrayConfig) {
    let strip_blocks = BlockCount(array.strip_size.0 / array.block_size.bytes());
    let strips = array.member_size.0 / array.strip_size.0;
    array.resilience.integrity = true;
    let tags = tag_blocks(strip_blocks, array.block_size);
    array.member_size.0 += strips * tags.0 * array.block_size.bytes();
    if array.resilience.log_size.0 > 0 {
        fit_log(array, 2);
    }
}

fn tiny_array(level: LevelVariant, members: u16, random: &mut Rng) -> ArrayConfig {
    // Mostly the smaller blocks: they are as good at finding mistakes, and quicker.
    let block_size = if random.below(16) == 0 { BlockSize::B4096 } else { BlockSize::B512 };
    let strip_blocks = pick(random, &[8, 8, 16, 32]);
    let strip_bytes = strip_blocks * block_size.bytes();
    let cache_block = block_size.bytes() * pick(random, &[1, 2, 4, 8]);
    ArrayConfig {
        level,
        members,
        strip_size: ByteCount(strip_bytes),
        block_size,
        member_size: ByteCount(strip_bytes * (3 + random.below(6))),
        member_cache: pick(random, &[MemberCache::Off, MemberCache::On]),
        cache: tiny_cache(cache_block, random),
        staging_size: ByteCount(strip_bytes * u64::from(members) * pick(random, &[2, 4])),
        resilience: Resilience {
            metadata: pick(
                random,
                &[MetadataPolicy::None, MetadataPolicy::Resync, MetadataPolicy::Bitmap, MetadataPolicy::Log],
            ),
            ..Resilience::default()
        },
    }
}

fn tiny_cache(cache_block: u64, random: &mut Rng) -> CacheConfig {
    let start_pct = pick(random, &[10, 50, 80, 100]);
    CacheConfig {
        size: ByteCount(cache_block * pick(random, &[4, 9, 16, 40])),
        block_size: ByteCount(cache_block),
        memory: pick(random, &[CacheMemory::Volatile, CacheMemory::BatteryBacked]),
        write_policy: pick(random, &WritePolicy::ALL),
        read_policy: pick(random, &ReadPolicy::ALL),
        io_policy: pick(random, &IoPolicy::ALL),
        flush_start_pct: start_pct,
        flush_stop_pct: pick(random, &[0, start_pct / 2, start_pct]),
        flush_after: pick(random, &[NanoSpan::from_millis(1), NanoSpan::from_secs(1)]),
        flush_iodepth: pick(random, &[1, 2, 8]),
        flush_partial_bytes: None,
        flush_order: pick(random, &[FlushOrder::Address, FlushOrder::Age]),
        coalesce_writes: pick(random, &[true, false]),
        parity_after_data: false,
        stream_lead: 0,
        read_ahead: ByteCount(cache_block * pick(random, &[1, 4, 8])),
        read_ahead_on_miss: false,
        read_ahead_with_queue: false,
        mirror: false,
        rules: ArrayRules::OWN,
    }
}
