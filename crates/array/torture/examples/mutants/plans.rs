//! The plans of a hunt: what a seed is tried with.
//!
//! Seeds take turns, so that no kind of plan has to wait for the budget of another:
//!
//! | seed modulo 10 | array | faults |
//! |---|---|---|
//! | 0 | as drawn | as drawn |
//! | 1 | as drawn | a storm: power cuts, one after a few requests |
//! | 2 | as drawn | mixed: some kinds in plenty, a third of them power cuts, many on the heels of others |
//! | 3 | members with caches, many flushes, few reads | mixed, of what a flush may not outrun |
//! | 4 | a safe cache that writes back, every third time mirrored and with a log, many flushes, few reads | mixed, of what concerns it |
//! | 5 | parity and a log | mixed |
//! | 6 | anything that is kept on members, every third time long ones | mixed, of what makes members come and go |
//! | 7 | redundancy and a bitmap | mixed |
//! | 8 | anything that is kept on members | stories, one after a few requests |
//! | 9 | parity and a log, redundancy and a bitmap, or a safe cache, in turns; every third time long ones | the same |
//! | 9, now and then, beyond the bounds | parity in spans and a log; copies on neighbours | the same, with plots of doubt |
//!
//! Both modes take turns below that, and every third round has tags.

use raidlab_controller::{ArrayConfig, CacheMemory, MemberCache, MetadataPolicy, WritePolicy};
use raidlab_torture::{Fault, FaultEvent, TortureMode, TorturePlan};
use raidlab_units::ByteCount;
use raidlab_workload::{Rng, derived_seed};

/// Host requests of a run.
const DRAWN_OPS: u64 = 600;
const STORM_OPS: u64 = 400;
const MIXED_OPS: u64 = 250;
const STORY_OPS: u64 = 120;

/// What a cache is hit by.
const OF_CACHES: [Fault; 9] = [
    Fault::OldImage,
    Fault::PeerFailover,
    Fault::Stop,
    Fault::Battery,
    Fault::Peer,
    Fault::Failover,
    Fault::Order,
    Fault::Died,
    Fault::Returned,
];

/// What a flush may not outrun.
const OF_FLUSHES: [Fault; 7] = [
    Fault::FlushError,
    Fault::StaleWrite,
    Fault::Died,
    Fault::Pulled,
    Fault::Returned,
    Fault::Order,
    Fault::Battery,
];

/// What makes members come and go.
const OF_MEMBERS: [Fault; 11] = [
    Fault::FlushError,
    Fault::StaleWrite,
    Fault::Died,
    Fault::Pulled,
    Fault::Returned,
    Fault::FailedByHand,
    Fault::WriteError,
    Fault::LatentError,
    Fault::Order,
    Fault::Stop,
    Fault::Repair,
];

/// Draws that an array is looked for in.
const DRAWS_MAX: u64 = 4_000;

/// The plan of a seed, and its name.
pub(crate) fn plan_of(seed: u64) -> (TorturePlan, String) {
    let mode = if (seed / 10).is_multiple_of(2) { TortureMode::Bounded } else { TortureMode::Beyond };
    let has_tags = seed / 20 % 3 == 2;
    let draw = |ops, is_wanted: fn(&ArrayConfig) -> bool| draw(seed, ops, mode, has_tags, is_wanted);
    let any = |_: &ArrayConfig| true;
    let turn = seed / 10;
    let (kind, mut plan) = match seed % 10 {
        0 => ("drawn", draw(DRAWN_OPS, any)),
        1 => ("storm", draw(STORM_OPS, any)),
        2 => ("mixed", draw(MIXED_OPS, any)),
        3 => ("flushes", draw(MIXED_OPS, any)),
        4 if turn.is_multiple_of(3) => ("cache", draw(MIXED_OPS, mirrors_log)),
        4 => ("cache", draw(MIXED_OPS, keeps_dirty)),
        5 => ("log", draw(MIXED_OPS, |config| has_policy(config, MetadataPolicy::Log))),
        6 => ("members", draw(MIXED_OPS, is_kept)),
        7 => ("bitmap", draw(MIXED_OPS, |config| has_policy(config, MetadataPolicy::Bitmap))),
        8 => ("stories", draw(STORY_OPS, is_kept)),
        _ if turn % 6 == 3 => ("doubts", draw(STORY_OPS, has_spans)),
        _ if turn % 12 == 7 => ("doubts", draw(STORY_OPS, has_neighbours)),
        _ if turn.is_multiple_of(3) => {
            ("stories", draw(STORY_OPS, |config| has_policy(config, MetadataPolicy::Log)))
        }
        // Of a mirror the last device in sync may be lost while another is rebuilt, and the array be started with it.
        _ if turn % 3 == 1 && is_long(turn) => {
            let is_mirror = |config: &ArrayConfig| {
                config.level.to_string() == "1" && has_policy(config, MetadataPolicy::Bitmap)
            };
            ("stories", draw(STORY_OPS, is_mirror))
        }
        _ if turn % 3 == 1 => {
            ("stories", draw(STORY_OPS, |config| has_policy(config, MetadataPolicy::Bitmap)))
        }
        _ => ("stories", draw(STORY_OPS, keeps_dirty)),
    };
    match kind {
        "drawn" => {}
        "storm" => storm(&mut plan),
        "stories" => tell_stories(&mut plan),
        "doubts" => {
            tell_stories(&mut plan);
            plan.doubts = true;
        }
        "flushes" => mix(&mut plan, &OF_FLUSHES, has_tags),
        "cache" => mix(&mut plan, &OF_CACHES, has_tags),
        "members" => mix(&mut plan, &OF_MEMBERS, has_tags),
        _ => mix(&mut plan, &Fault::ALL, has_tags),
    }
    if ["flushes", "cache"].contains(&kind) {
        plan.workload.flush_permille = 200;
        plan.workload.read_pct = 30;
    }
    let may_be_long = kind == "members" || (kind == "stories" && seed % 10 == 9);
    if may_be_long && !has_tags && is_long(turn) {
        // So long that the boundary of a rebuild is written down on the way.
        plan.config.member_size = ByteCount(plan.config.strip_size.0 * (70 + seed % 80));
    }
    if kind == "flushes" {
        plan.config.member_cache = MemberCache::On;
    }
    (plan, format!("{kind} {}{}", mode.name(), if has_tags { " tags" } else { "" }))
}

fn draw(
    seed: u64,
    ops: u64,
    mode: TortureMode,
    has_tags: bool,
    is_wanted: fn(&ArrayConfig) -> bool,
) -> TorturePlan {
    let plan = |seed| TorturePlan::draw_with(has_tags, seed, ops, mode, None).expect("no level is asked for");
    let others = (0..DRAWS_MAX).map(|draw| plan(derived_seed(seed, draw)));
    core::iter::once(plan(seed)).chain(others).find(|plan| is_wanted(&plan.config)).expect("such are drawn")
}

/// Whether it is the turn of long members.
const fn is_long(turn: u64) -> bool {
    (turn / 4).is_multiple_of(3)
}

fn keeps_dirty(config: &ArrayConfig) -> bool {
    config.cache.memory == CacheMemory::BatteryBacked
        && config.cache.write_policy == WritePolicy::WriteBack
        && config.resilience.metadata != MetadataPolicy::None
}

/// Whether the second controller needs records of the log, too.
fn mirrors_log(config: &ArrayConfig) -> bool {
    keeps_dirty(config) && config.cache.mirror && has_policy(config, MetadataPolicy::Log)
}

fn is_kept(config: &ArrayConfig) -> bool {
    config.resilience.metadata != MetadataPolicy::None
}

fn has_policy(config: &ArrayConfig, policy: MetadataPolicy) -> bool {
    let level = config.level.to_string();
    let has_parity = ["3", "5", "6"].iter().any(|parity| level.starts_with(parity));
    let is_redundant = has_parity || level.starts_with('1');
    config.resilience.metadata == policy && is_redundant && (has_parity || policy != MetadataPolicy::Log)
}

/// Whether an array may have failed in one span while stripes of the other have all their devices.
fn has_spans(config: &ArrayConfig) -> bool {
    config.level.to_string().contains("spans") && has_policy(config, MetadataPolicy::Log)
}

/// Whether a device may be lost whose neighbour has a copy of what it holds, and whose copies may be in doubt.
fn has_neighbours(config: &ArrayConfig) -> bool {
    let level = config.level.to_string();
    let is_in_doubt = [MetadataPolicy::Bitmap, MetadataPolicy::Resync].contains(&config.resilience.metadata);
    is_in_doubt && (level.starts_with("1e") || level.contains(":far") || level.contains(":offset"))
}

fn storm(plan: &mut TorturePlan) {
    let mut random = Rng::new(plan.seed);
    let mut after_ops = 0;
    plan.faults.clear();
    while after_ops < plan.ops {
        after_ops += 1 + random.below(16);
        let fault = cut(&mut random);
        plan.faults.push(FaultEvent { after_ops, fault, pick: random.next_u64() });
    }
}

fn tell_stories(plan: &mut TorturePlan) {
    let mut random = Rng::new(derived_seed(plan.seed, 78));
    let mut after_ops = 0;
    plan.stories = true;
    plan.faults.clear();
    while after_ops < plan.ops {
        after_ops += random.below(16);
        let fault = if random.below(6) == 0 { Fault::PowerCut } else { Fault::CutAtMoment };
        plan.faults.push(FaultEvent { after_ops, fault, pick: random.next_u64() });
        after_ops += 1;
    }
}

/// A power cut, now or at a chosen moment.
fn cut(random: &mut Rng) -> Fault {
    if random.below(2) == 0 { Fault::PowerCut } else { Fault::CutAtMoment }
}

fn mix(plan: &mut TorturePlan, faults: &[Fault], has_tags: bool) {
    let mut random = Rng::new(derived_seed(plan.seed, 77));
    let in_use = random.next_u64();
    let gap_max = [4, 16, 48][random.below(3) as usize];
    let is_tried = |fault: &Fault| in_use >> (*fault as u32) & 1 == 1 && (has_tags || !fault.is_lie());
    let kinds: Vec<Fault> = faults.iter().copied().filter(is_tried).collect();
    let mut after_ops = 0;
    plan.faults.clear();
    while after_ops < plan.ops {
        after_ops += if random.below(3) == 0 { 0 } else { 1 + random.below(gap_max) };
        let is_cut = random.below(3) == 0 || kinds.is_empty();
        let fault = if is_cut { cut(&mut random) } else { kinds[random.below(kinds.len() as u64) as usize] };
        plan.faults.push(FaultEvent { after_ops, fault, pick: random.next_u64() });
    }
}

/// A plan with power cuts where it has none, each shortly after one of its faults: a run that meets a defect goes the same way
/// as before until then.
pub(crate) fn with_more_cuts(plan: &TorturePlan, variant: u64) -> TorturePlan {
    let mut random = Rng::new(derived_seed(plan.seed, 1_000 + variant));
    let mut plan = plan.clone();
    for _ in 0..=random.below(2) {
        let near = random.below(plan.faults.len() as u64 + 1) as usize;
        let after = plan.faults.get(near).map_or_else(|| random.below(plan.ops), |event| event.after_ops);
        let after_ops = after + random.below(6);
        let at = plan.faults.partition_point(|event| event.after_ops <= after_ops);
        let fault = cut(&mut random);
        plan.faults.insert(at, FaultEvent { after_ops, fault, pick: random.next_u64() });
    }
    plan
}
