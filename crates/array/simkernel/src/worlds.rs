//! Worlds: half of the plans have plenty of something that a plan drawn freely seldom has enough of at once.
//!
//! | world | what it has | what shows there |
//! |---|---|---|
//! | nvram | few small writes, mostly of blocks that are dirty in NVRAM already; the process is killed at a store | notes, entries and blocks of NVRAM that are late, torn or not stored once more |
//! | stalls, stays | clients that take their time while a member does not answer for longer than it may, and then does; another may follow; *stays*: reads into NVRAM, and block checksums | memory that moves under I/O, I/O that was held meanwhile, late ends |
//! | crowd | many connections for few buffers, ragged writes, slow members; clients that stop within a payload until they are answered | who waits for a buffer and is forgotten |
//! | rest | a cache that writes back, and clients that go; the process is killed when all that is dirty has had time to reach the members | timers |

use crate::plan::{ClientPlan, Fault, FaultEvent, Life, LifeEnd, Plan, Role, pick};
use raidlab_controller::{ArrayConfig, CacheMemory, IoPolicy, WritePolicy};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::Rng;

/// What a plan has plenty of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    Any,
    Nvram,
    Stalls,
    /// The same with reads that go on, since they are into NVRAM.
    Stays,
    Crowd,
    Rest,
}

impl World {
    pub(crate) fn draw(random: &mut Rng) -> Self {
        use World::{Any, Crowd, Nvram, Rest, Stalls, Stays};
        const PLENTY: [World; 8] = [Nvram, Nvram, Stalls, Stalls, Stays, Crowd, Crowd, Rest];
        if random.below(2) == 0 { Any } else { pick(random, &PLENTY) }
    }

    /// Whether an array will do.
    pub(crate) fn takes(self, config: &ArrayConfig) -> bool {
        let is_kept = config.cache.memory == CacheMemory::BatteryBacked && config.resilience.integrity;
        match self {
            Self::Stalls => Plan::victims(config) > 0,
            Self::Stays => Plan::victims(config) > 0 && is_kept,
            _ => true,
        }
    }

    /// Makes an array fit.
    pub(crate) fn fit(self, config: &mut ArrayConfig) {
        let cache = &mut config.cache;
        match self {
            Self::Nvram => {
                cache.memory = CacheMemory::BatteryBacked;
                cache.write_policy = WritePolicy::WriteBack;
                (cache.flush_start_pct, cache.flush_stop_pct) = (80, 40);
                cache.flush_after = NanoSpan::from_secs(1);
                // A block of the cache is dirty in part first, and its entry is stored again when more of it is.
                cache.block_size = ByteCount(cache.block_size.0.max(2 * config.block_size.bytes()));
                cache.size = ByteCount(cache.size.0.max(64 * cache.block_size.0));
            }
            Self::Rest => cache.write_policy = WritePolicy::WriteBack,
            Self::Stays => cache.io_policy = IoPolicy::Cached,
            Self::Any | Self::Stalls | Self::Crowd => {}
        }
    }

    /// Makes a plan fit whose lives were drawn freely.
    pub(crate) fn reshape(self, plan: &mut Plan, random: &mut Rng) {
        match self {
            Self::Any => return,
            Self::Nvram => plan.members.usual_us = 5,
            Self::Stalls | Self::Stays => {
                plan.member_timeout_ms = 400;
                // So slow that something is nearly always in flight, or now and then.
                let speeds = [(20_000, 0), (20_000, 0), (500, 10), (500, 100)];
                (plan.members.usual_us, plan.members.slow_permille) = pick(random, &speeds);
                plan.buffers = 64;
            }
            Self::Crowd => {
                plan.members.usual_us = 500;
                plan.buffers = pick(random, &[24, 24, 64]);
            }
            Self::Rest => {}
        }
        let config = plan.config.clone();
        for life in &mut plan.lives {
            match self {
                Self::Any => {}
                Self::Nvram => write_over(life, random),
                Self::Stalls | Self::Stays => stall(life, &config, plan.member_timeout_ms, random),
                Self::Crowd => crowd(life, random),
                Self::Rest => rest(life),
            }
        }
    }
}

/// Few small writes of one place, and the process ends at a store.
fn write_over(life: &mut Life, random: &mut Rng) {
    life.requests = pick(random, &[12, 40]);
    life.end = LifeEnd::KillAtStore(1 + random.below(life.requests * 16));
    life.faults.clear();
    life.clients.truncate(2);
    for client in &mut life.clients {
        client.role = Role::Mixed;
        (client.bytes_max, client.hot_bytes) =
            (pick(random, &[1 << 10, 8 << 10]), pick(random, &[8 << 10, 32 << 10, 128 << 10]));
        (client.fua_pct, client.flush_pct) = (pick(random, &[0, 0, 10]), pick(random, &[0, 0, 2]));
    }
}

/// A member does not answer for longer than the limit and the patience behind it, under load that outlasts that.
fn stall(life: &mut Life, config: &ArrayConfig, timeout_ms: u64, random: &mut Rng) {
    life.requests = pick(random, &[150, 400]);
    let victims = u64::from(Plan::victims(config));
    let first = random.below(victims);
    let mut after = random.below(life.requests / 2);
    let count = 1 + random.below(victims);
    life.faults
        .retain(|event| matches!(event.fault, Fault::Check | Fault::Replace { .. } | Fault::SecondStart));
    for nth in 0..count {
        let member = config.members - 1 - ((first + nth) % victims) as u16;
        let millis = timeout_ms + pick(random, &[1_100, 1_300, 2_000, 4_000, Plan::longest_hang_ms(config)]);
        life.faults.push(FaultEvent { after, fault: Fault::Hang { member, millis } });
        after += pick(random, &[0, 20, 200, 800]);
    }
    life.faults.sort_by_key(|event| event.after);
    if random.below(2) == 0 {
        life.end = LifeEnd::Stop;
    } else if let LifeEnd::Kill(entries) | LifeEnd::PowerCut(entries) = &mut life.end {
        *entries += life.requests * 4;
    }
    let pause_us = pick(random, &[20_000, 60_000, 150_000]);
    for client in &mut life.clients {
        (client.pause_us, client.depth, client.leaves_after) = (pause_us, pick(random, &[8, 24]), None);
        client.role = pick(random, &[Role::Mixed, Role::Mixed, Role::Reads]);
        client.hot_bytes = 1 << 30;
        client.bytes_max = client.bytes_max.min(32 << 10);
    }
}

/// As many clients as there may be, each with as much in flight as it may have.
fn crowd(life: &mut Life, random: &mut Rng) {
    life.requests = pick(random, &[150, 400]);
    let clients = pick(random, &[4, 6, 8]);
    let model = life.clients[0];
    let is_ragged = random.below(2) == 0;
    let roles: &[Role] = if is_ragged {
        &[Role::Ragged, Role::Ragged, Role::Mixed]
    } else {
        &[Role::Mixed, Role::Reads, Role::Ragged]
    };
    life.clients = (0..clients)
        .map(|_| ClientPlan {
            role: pick(random, roles),
            structured: random.below(2) == 0,
            depth: 24,
            bytes_max: pick(random, &[8 << 10, 160 << 10]),
            hot_bytes: 1 << 30,
            stalls: random.below(2) == 0,
            ..model
        })
        .collect();
}

/// Nothing goes wrong, and everybody goes.
fn rest(life: &mut Life) {
    life.faults.clear();
    life.end = LifeEnd::KillAtRest;
    life.requests = life.requests.min(60);
}
