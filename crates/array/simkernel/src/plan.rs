//! A plan: all that a seed decides before a run: the array, its lives from start to end, clients, and what goes wrong.
//!
//! Each part is drawn from a stream of its own, so that lives, faults and requests can be left out while the rest stays as it is.
//! Kinds of faults come in swarms: most plans have few kinds (A. Groce et al., "Swarm testing", 2012). Half of the plans have plenty of
//! something (`worlds.rs`).

use crate::worlds::World;
use raidlab_controller::{
    ArrayConfig, CacheConfig, CacheMemory, ConfigError, Controller, MemberCache, MetadataPolicy, Resilience,
    WritePolicy,
};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_workload::{Rng, derived_seed};
use serde::{Deserialize, Serialize};

/// Levels, and numbers of members.
const LEVELS: [(&str, u16); 8] =
    [("1", 2), ("1", 3), ("5", 3), ("5", 4), ("6", 4), ("10", 4), ("1e", 3), ("0", 2)];

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A bit of all.
    Mixed,
    /// Mostly flushes, of what others wrote.
    Flushes,
    /// Reads.
    Reads,
    /// Mostly zeros.
    Zeroes,
    /// Mostly short writes that begin and end anywhere.
    Ragged,
    /// Reads the volume once from its beginning to its end.
    ReadsAll,
}

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClientPlan {
    /// What it does.
    pub role: Role,
    /// It asks for structured replies.
    pub structured: bool,
    /// Requests in flight at most.
    pub depth: u32,
    /// Longest request.
    pub bytes_max: u64,
    /// Requests begin and end at multiples of this at least.
    pub align_min: u64,
    /// Front of the volume that most requests go to.
    pub hot_bytes: u64,
    /// Share of writes with forced unit access, in percent.
    pub fua_pct: u8,
    /// Share of flushes, in percent.
    pub flush_pct: u8,
    /// It reads late.
    pub is_slow: bool,
    /// It goes without a word after so many requests, and comes again.
    #[serde(default)]
    pub leaves_after: Option<u64>,
    /// It waits for up to so long after each request, in microseconds.
    #[serde(default)]
    pub pause_us: u64,
    /// Now and then it stops within a payload until what it asked for before is answered.
    #[serde(default)]
    pub stalls: bool,
}

/// How a life of the array ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LifeEnd {
    /// Cleanly, when all clients are through.
    Stop,
    /// The process is killed after so many entries of the ring.
    Kill(u64),
    /// The power fails after so many entries.
    PowerCut(u64),
    /// The process is killed before so manieth store into NVRAM.
    KillAtStore(u64),
    /// The process is killed when all clients are through and the array was left alone for long enough to write back all that is dirty.
    KillAtRest,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// I/O of a member does not end for so many milliseconds.
    Hang {
        /// Which.
        member: u16,
        /// How long.
        millis: u64,
    },
    /// A member is gone.
    Gone {
        /// Which.
        member: u16,
    },
    /// I/O of a member fails for so many milliseconds, this share of it in thousandths.
    Errors {
        /// Which.
        member: u16,
        /// Share of I/O, in thousandths.
        permille: u64,
        /// How long.
        millis: u64,
    },
    /// There is no room for writes for so many milliseconds: on one member, or on all.
    Full {
        /// Which; all if none.
        member: Option<u16>,
        /// How long.
        millis: u64,
    },
    /// Another process tries to start the array.
    SecondStart,
    /// An operator takes a member out.
    Fail {
        /// Which.
        member: u16,
    },
    /// An operator puts a new device in the place of a member that is missing.
    Replace {
        /// Which.
        member: u16,
    },
    /// An operator has redundancy compared.
    Check,
}

/// A fault after so many entries of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct FaultEvent {
    /// Entries before it.
    pub after: u64,
    /// What goes wrong.
    pub fault: Fault,
}

/// From a start of the array to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Life {
    /// Requests of all clients.
    pub requests: u64,
    /// How it ends.
    pub end: LifeEnd,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<FaultEvent>,
    /// Who comes.
    pub clients: Vec<ClientPlan>,
}

/// How members answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemberManners {
    /// Usual time of an I/O, in microseconds.
    pub usual_us: u64,
    /// Share that takes up to a hundred times as long, in thousandths.
    pub slow_permille: u64,
    /// Share that moves less than was asked for, in thousandths.
    pub short_permille: u64,
    /// Share that is interrupted, in thousandths.
    pub interrupted_permille: u64,
}

/// A run, before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Plan {
    /// The seed of everything that is drawn on the way.
    pub seed: u64,
    /// The process is killed at so manieth call on a device of the creation, which is then repeated.
    #[serde(default)]
    pub create_cut_at: Option<u64>,
    /// A device that leaves a request unanswered for so long is gone, in milliseconds.
    pub member_timeout_ms: u64,
    /// Length of the export's buffers.
    pub buffer_bytes: u64,
    /// The export's buffers.
    pub buffers: u32,
    /// How members answer.
    pub members: MemberManners,
    /// Its lives.
    pub lives: Vec<Life>,
    /// The array.
    pub config: ArrayConfig,
}

pub(crate) fn pick<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

impl Plan {
    /// How long a member may not answer: nearly for ever, but where a read into NVRAM goes on waiting, and its host with it.
    pub(crate) fn longest_hang_ms(config: &ArrayConfig) -> u64 {
        if config.cache.memory == CacheMemory::BatteryBacked { 8_000 } else { 200_000 }
    }

    /// Draws the plan of a seed.
    pub fn draw(seed: u64) -> Self {
        let stream = |part| Rng::new(derived_seed(seed, part));
        let world = World::draw(&mut stream(5));
        let config = draw_array(world, &mut stream(1));
        let mut random = stream(2);
        let create_cut_at = (random.below(12) == 0).then(|| 1 + random.below(40));
        let members = MemberManners {
            usual_us: pick(&mut random, &[5, 50, 500]),
            slow_permille: pick(&mut random, &[0, 10, 100]),
            short_permille: pick(&mut random, &[0, 0, 10, 100]),
            interrupted_permille: pick(&mut random, &[0, 0, 10, 100]),
        };
        let member_timeout_ms = pick(&mut random, &[400, 2_000, 10_000]);
        let buffer_bytes = pick(&mut random, &[64 << 10, 64 << 10, 128 << 10]);
        let buffers = pick(&mut random, &[24, 24, 32, 64]);
        let count = 1 + stream(3).below(4);
        let swarm = stream(4).next_u64();
        let lives =
            (0..count).map(|at| draw_life(&config, swarm, member_timeout_ms, &mut stream(16 + at))).collect();
        let mut plan =
            Self { seed, create_cut_at, member_timeout_ms, buffer_bytes, buffers, members, lives, config };
        world.reshape(&mut plan, &mut stream(6));
        plan
    }

    /// Whether the cache outlives the process.
    pub(crate) fn has_nvram(&self) -> bool {
        self.config.cache.memory == CacheMemory::BatteryBacked
    }

    /// Whether every acknowledged write survives the end of the process.
    pub(crate) fn survives_kills(&self) -> bool {
        self.has_nvram() || self.config.cache.write_policy == WritePolicy::WriteThrough
    }

    /// Whether every acknowledged write survives a power cut.
    pub(crate) fn survives_cuts(&self) -> bool {
        self.survives_kills() && self.config.member_cache == MemberCache::Off
    }

    /// Whether the log records whole stripes by checksums: of those that a crash tears, what is on a member that leaves before the next start
    /// has compared them is lost (docs/fault-tolerance.md).
    pub(crate) fn may_lose_torn_stripes(config: &ArrayConfig) -> bool {
        let has_parity = config.level.to_string().starts_with(['5', '6']);
        let resilience = &config.resilience;
        let is_in_nvram = config.cache.memory == CacheMemory::BatteryBacked;
        has_parity && resilience.metadata == MetadataPolicy::Log && !resilience.integrity && !is_in_nvram
    }

    /// Whether requests may fail: nothing makes up for what a member can't read.
    pub(crate) fn may_fail(config: &ArrayConfig) -> bool {
        config.level.to_string() == "0"
    }

    /// Members that may go wrong: as many as the level survives, and as crashes leave it.
    pub(crate) fn victims(config: &ArrayConfig) -> u16 {
        let (level, members) = (config.level.to_string(), config.members);
        let is_mirror = level.starts_with('1');
        let is_closed = is_mirror || config.resilience.metadata == MetadataPolicy::Log;
        match level.as_str() {
            // Without more than half of those that a start or the last state counts on it serves nobody.
            "1" => members / 2,
            "10" | "1e" => 1,
            "5" if is_closed => 1,
            "6" if is_closed => 2,
            _ => 0,
        }
    }
}

fn draw_life(config: &ArrayConfig, swarm: u64, timeout_ms: u64, random: &mut Rng) -> Life {
    let requests = pick(random, &[20, 60, 150, 400]);
    let most = requests * pick(random, &[2, 8]);
    let entries = 1 + random.below(most);
    let is_kept = config.cache.memory == CacheMemory::BatteryBacked;
    let end = match random.below(8) {
        0 => LifeEnd::Stop,
        1 | 2 => LifeEnd::Kill(entries),
        3..=5 if is_kept => LifeEnd::KillAtStore(1 + random.below(requests * 60)),
        _ => LifeEnd::PowerCut(entries),
    };
    let mut clients: Vec<ClientPlan> = (0..=random.below(4)).map(|_| draw_client(swarm, random)).collect();
    if random.below(2) == 0 {
        clients.push(ClientPlan { role: Role::Flushes, ..draw_client(swarm, random) });
    }
    let mut faults = Vec::new();
    if random.below(3) > 0 {
        for _ in 0..=random.below(3) {
            let after = random.below(entries.max(2));
            if let Some(fault) = draw_fault(config, swarm, timeout_ms, random) {
                faults.push(FaultEvent { after, fault });
            }
        }
    }
    faults.sort_by_key(|event| event.after);
    Life { requests, end, faults, clients }
}

fn draw_client(swarm: u64, random: &mut Rng) -> ClientPlan {
    ClientPlan {
        role: pick(
            random,
            &[Role::Mixed, Role::Mixed, Role::Mixed, Role::Zeroes, Role::Reads, Role::Flushes],
        ),
        structured: random.below(2) == 0,
        depth: pick(random, &[1, 2, 8, 24]),
        bytes_max: pick(random, &[1 << 10, 8 << 10, 32 << 10, 160 << 10]),
        align_min: if swarm & 1 == 0 {
            pick(random, &[128, 128, 512])
        } else {
            pick(random, &[128, 4096, 4096])
        },
        hot_bytes: pick(random, &[8 << 10, 64 << 10, 1 << 30]),
        fua_pct: pick(random, &[0, 10, 50, 100]),
        flush_pct: pick(random, &[0, 2, 10]),
        is_slow: random.below(6) == 0,
        leaves_after: (random.below(3) == 0).then(|| 1 + random.below(60)),
        pause_us: 0,
        stalls: false,
    }
}

fn draw_fault(config: &ArrayConfig, swarm: u64, timeout_ms: u64, random: &mut Rng) -> Option<Fault> {
    let victims = u64::from(Plan::victims(config));
    // The last members are those that may go wrong, so that it is never one too many.
    let member = |random: &mut Rng| config.members - 1 - random.below(victims) as u16;
    let long = timeout_ms * 2 + 3_000;
    let is_tried = |kind: u64| swarm >> (8 + 2 * kind) & 3 > 1;
    let kind = random.below(9);
    if victims == 0 && kind < 5 && Plan::may_fail(config) && swarm & 2 == 0 {
        // Nothing makes up for what can't be read: requests fail, and say so.
        let member = random.below(u64::from(config.members)) as u16;
        return Some(Fault::Errors {
            member,
            permille: pick(random, &[20, 300, 1000]),
            millis: pick(random, &[1, 20, 500]),
        });
    }
    if !is_tried(kind) || (victims == 0 && kind < 5) {
        return None;
    }
    Some(match kind {
        0 | 1 => {
            let millis =
                pick(random, &[timeout_ms / 8, timeout_ms + 600, long, Plan::longest_hang_ms(config)]);
            Fault::Hang { member: member(random), millis }
        }
        2 => Fault::Gone { member: member(random) },
        3 => {
            let (permille, millis) = (pick(random, &[20, 300, 1000]), pick(random, &[1, 20, 500]));
            Fault::Errors { member: member(random), permille, millis }
        }
        4 if random.below(2) == 0 => Fault::Fail { member: member(random) },
        4 => Fault::Replace { member: member(random) },
        5 => Fault::Full { member: None, millis: timeout_ms / 3 },
        6 if victims > 0 => {
            Fault::Full { member: Some(member(random)), millis: pick(random, &[timeout_ms / 2, long]) }
        }
        7 => Fault::SecondStart,
        _ => Fault::Check,
    })
}

/// One that fits the world.
fn draw_array(world: World, random: &mut Rng) -> ArrayConfig {
    loop {
        let mut config = draw_any_array(random);
        if world.takes(&config) {
            world.fit(&mut config);
            fit_log(&mut config, pick(random, &[1, 2, 8]));
            return config;
        }
    }
}

fn draw_any_array(random: &mut Rng) -> ArrayConfig {
    let (level, members) = pick(random, &LEVELS);
    let block_size = pick(random, &[BlockSize::B512, BlockSize::B4096, BlockSize::B4096]);
    let strip_bytes = block_size.bytes() * pick(random, &[8, 8, 16]);
    let cache_block = block_size.bytes() * pick(random, &[1, 2, 4]);
    let policies = [
        MetadataPolicy::Log,
        MetadataPolicy::Log,
        MetadataPolicy::Log,
        MetadataPolicy::Bitmap,
        MetadataPolicy::Resync,
    ];
    let mut config = ArrayConfig {
        level: level.parse().expect("the table holds levels"),
        members,
        strip_size: ByteCount(strip_bytes),
        block_size,
        member_size: ByteCount(strip_bytes * (3 + random.below(12))),
        member_cache: pick(random, &[MemberCache::On, MemberCache::Off]),
        cache: draw_cache(cache_block, random),
        staging_size: ByteCount(strip_bytes * u64::from(members) * pick(random, &[2, 4])),
        resilience: Resilience {
            metadata: pick(random, &policies),
            integrity: random.below(5) == 0,
            scan_iodepth: 2,
            ..Resilience::default()
        },
    };
    if config.resilience.integrity {
        let strip_blocks = raidlab_units::BlockCount(config.strip_size.0 / block_size.bytes());
        let tags = raidlab_format::tag_blocks(strip_blocks, block_size);
        config.member_size.0 += config.member_size.0 / config.strip_size.0 * tags.0 * block_size.bytes();
    }
    config
}

/// A log that has room for few records, or for many: found by asking what would do.
fn fit_log(config: &mut ArrayConfig, factor: u64) {
    config.resilience.log_size = ByteCount(1);
    if let Err(ConfigError::LogTooSmall { needed, .. }) = Controller::new(config) {
        config.resilience.log_size = ByteCount(needed.0.next_multiple_of(4096) * factor);
    }
}

fn draw_cache(cache_block: u64, random: &mut Rng) -> CacheConfig {
    let start_pct = pick(random, &[10, 50, 80]);
    CacheConfig {
        size: ByteCount(cache_block * pick(random, &[8, 16, 64])),
        block_size: ByteCount(cache_block),
        memory: pick(random, &[CacheMemory::Volatile, CacheMemory::BatteryBacked]),
        write_policy: pick(
            random,
            &[WritePolicy::WriteBack, WritePolicy::WriteBack, WritePolicy::WriteThrough],
        ),
        flush_start_pct: start_pct,
        flush_stop_pct: start_pct / 2,
        flush_after: pick(random, &[NanoSpan::from_millis(1), NanoSpan::from_secs(1)]),
        flush_iodepth: pick(random, &[1, 2, 8]),
        read_ahead: ByteCount(cache_block * pick(random, &[1, 4])),
        mirror: false,
        ..CacheConfig::default()
    }
}
