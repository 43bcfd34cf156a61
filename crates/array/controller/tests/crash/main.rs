//! Power is cut after every single action of a short run, the array is started again, and every block must hold the old
//! or the new data of whatever was not acknowledged, the new of what was, and redundancy must agree. Where a member is away then
//! that was there before, its blocks of a write of whole stripes that was cut off may be lost; no others, and none is made up.
//!
//! Members complete at once and keep what they completed; the last write before the cut is kept in part only. Orders of
//! completion, volatile caches and random runs are left to the torture world. One test cuts the start after that
//! short, too.
//!
//! Ranges that become zeros between starts are in `zeroed_ranges`.

mod world;
mod zeroed_ranges;

use raidlab_controller::{
    ArrayConfig, CacheConfig, HostOp, MemberCache, MetadataPolicy, Resilience, WritePolicy,
};
use raidlab_format::{Assembly, StaleReason, StartOptions, assemble};
use raidlab_raid::StripUnit;
use raidlab_testkit::BLOCK;
use raidlab_units::{BlockSize, ByteCount, MemberIndex, NanoSpan, Nanos, StripeIndex};
use world::{Cut, Device, World};

fn config(level: &str, members: u16, metadata: MetadataPolicy) -> ArrayConfig {
    let cache = CacheConfig {
        size: ByteCount(64 * BLOCK as u64),
        block_size: ByteCount(4 * BLOCK as u64),
        flush_after: NanoSpan::from_secs(1),
        ..CacheConfig::default()
    };
    ArrayConfig {
        strip_size: ByteCount(4 * BLOCK as u64),
        block_size: BlockSize::B512,
        member_size: ByteCount(32 * BLOCK as u64),
        staging_size: ByteCount(64 * 1024),
        resilience: Resilience { metadata, log_size: ByteCount(32 * 1024), ..Resilience::default() },
        ..raidlab_testkit::array(level, members, cache)
    }
}

/// The same array with tags behind each strip, one block of them.
fn with_integrity(mut config: ArrayConfig) -> ArrayConfig {
    config.member_size.0 += config.member_size.0 / config.strip_size.0 * BLOCK as u64;
    config.resilience.integrity = true;
    config
}

/// The short run: small, overlapping, whole stripes.
const WRITES: [(u64, u64); 6] = [(0, 1), (1, 2), (6, 5), (0, 24), (3, 1), (17, 9)];

/// Which of them are whole stripes, and nothing else.
const WHOLE_STRIPES: usize = 3;

/// Makes the writes; write `n` fills its blocks with `n + 1`. Returns how many were acknowledged.
fn writes(world: &mut World) -> usize {
    let mut done = 0;
    for (number, (lba, blocks)) in WRITES.into_iter().enumerate() {
        let data = vec![number as u8 + 1; blocks as usize * BLOCK];
        if world.request(HostOp::Write { fua: true }, lba, data).is_err() {
            break;
        }
        done += 1;
    }
    done
}

/// What block `lba` may hold when the first `done` writes were acknowledged and the next may have been under way.
fn possible(lba: u64, done: usize) -> Vec<u8> {
    let covers = |&(first, blocks): &(u64, u64)| (first..first + blocks).contains(&lba);
    let newest = WRITES[..done].iter().rposition(covers).map_or(0, |number| number as u8 + 1);
    let next = WRITES.get(done).filter(|write| covers(write)).map(|_| done as u8 + 1);
    [Some(newest), next].into_iter().flatten().collect()
}

/// Checks every block. Where a member is `away` that was there before, blocks of the write of whole stripes may be lost if that
/// was under way. Returns how many are.
fn check(world: &mut World, done: usize, away: bool, what: &str) -> usize {
    assert!(world.serving, "{what}: the array did not start");
    assert_eq!(world.mismatches, 0, "{what}: nothing is corrupt");
    let volume = world.controller.volume_blocks().0;
    let read = |world: &mut World, lba, blocks| {
        let before = core::mem::take(&mut world.lost);
        let bytes = world.request(HostOp::Read, lba, vec![0; blocks as usize * BLOCK]);
        let bytes = bytes.unwrap_or_else(|Cut| panic!("{what}: power is not cut here"));
        let is_lost = core::mem::replace(&mut world.lost, before) > 0;
        (!is_lost).then_some(bytes)
    };
    let is_torn = |lba| away && done == WHOLE_STRIPES && lba < WRITES[WHOLE_STRIPES].1;
    let whole = read(world, 0, volume);
    for lba in 0..volume {
        let range = lba as usize * BLOCK..(lba as usize + 1) * BLOCK;
        let block = whole.as_ref().map(|bytes| bytes[range].to_vec()).or_else(|| read(world, lba, 1));
        world.lost += usize::from(block.is_none());
        let possible = possible(lba, done);
        let is_right = block.as_ref().map_or_else(
            || is_torn(lba),
            |block| possible.iter().any(|value| block.iter().all(|byte| byte == value)),
        );
        let begins = block.as_ref().map(|block| &block[..4]);
        assert!(is_right, "{what}: block {lba} begins {begins:?} (None: lost), possible {possible:?}");
    }
    assert_eq!(world.mismatches, 0, "{what}: nothing is corrupt");
    // No stripe has fewer than two data strips.
    assert!(world.lost as u64 <= WRITES[WHOLE_STRIPES].1 / 2, "{what}: more is lost than one strip a stripe");
    world.lost
}

/// Cuts power after each action of the run, leaves each device away in turn (or none), and checks what is there. Returns how many
/// blocks were lost in all.
fn cut_everywhere(config: &ArrayConfig, may_miss: bool) -> usize {
    let mut lost_blocks = 0;
    let members = config.members;
    let (level, metadata) = (config.level, config.resilience.metadata);
    for fuse in 0.. {
        let what = format!("{level}, {metadata:?}, cut after {fuse} actions");
        let mut world = World::create(config);
        world.fuse = fuse;
        let done = writes(&mut world);
        let absent: Vec<Option<u16>> =
            if may_miss { (0..members).map(Some).chain([None]).collect() } else { vec![None] };
        for absent in absent {
            let mut devices = world.devices.clone();
            if let Some(absent) = absent {
                devices[usize::from(absent)] = None;
            }
            let mut again = World::start(config, devices, u64::MAX);
            lost_blocks += check(&mut again, done, absent.is_some(), &format!("{what}, without {absent:?}"));
            // And once more, degraded in another way: redundancy must agree by now.
            let redundant = again.controller.failures_survived().always > 0;
            if absent.is_none() && redundant {
                for lost in 0..members {
                    let mut again = World::start(config, again.devices.clone(), u64::MAX);
                    again.devices[usize::from(lost)] = None;
                    again.controller.handle_member_loss(Nanos::ZERO, MemberIndex(lost));
                    check(&mut again, done, false, &format!("{what}, then without {lost}"));
                }
            }
        }
        if done == WRITES.len() {
            return lost_blocks;
        }
    }
    unreachable!("the run ends")
}

#[test]
fn the_log_closes_the_write_hole() {
    for (level, members) in [("5", 4), ("6", 5), ("3", 4), ("50:2-spans", 6)] {
        let lost = cut_everywhere(&config(level, members, MetadataPolicy::Log), true);
        assert!(
            lost > 0,
            "RAID {level}: a write of whole stripes was torn, and with a member away something is lost"
        );
    }
}

#[test]
fn the_log_closes_the_write_hole_under_a_cache() {
    let mut config = config("5", 4, MetadataPolicy::Log);
    config.cache.write_policy = WritePolicy::WriteBack;
    config.member_cache = MemberCache::On;
    cut_everywhere(&config, true);
}

/// A member's cache forgets its part of a whole stripe, and another member is away that has what was promised since.
#[test]
fn what_is_promised_outlives_the_whole_stripe_that_it_is_a_part_of() {
    for (level, members, blocks) in [("5", 4, 12), ("6", 5, 12)] {
        let mut config = config(level, members, MetadataPolicy::Log);
        config.member_cache = MemberCache::On;
        let mut world = World::create(&config);
        for (fua, lba, blocks, value) in [(false, 0, blocks, 1), (true, 5, 1, 2)] {
            let data = vec![value; blocks * BLOCK];
            assert!(world.request(HostOp::Write { fua }, lba, data).is_ok(), "power is not cut");
        }
        for (forgetful, absent) in (0..members).flat_map(|one| (0..members).map(move |other| (one, other))) {
            let mut devices = world.devices.clone();
            let forgets = devices[usize::from(forgetful)].as_mut().expect("all are there");
            forgets.data.clone_from(&forgets.durable);
            devices[usize::from(absent)] = None;
            let mut again = World::start(&config, devices, u64::MAX);
            let block = again.request(HostOp::Read, 5, vec![0; BLOCK]).unwrap_or_default();
            let what = format!("RAID {level}, {forgetful} has forgotten, {absent} is away");
            assert!(
                again.lost == 0 && block == [2; BLOCK],
                "{what}: {} lost, begins {:?}",
                again.lost,
                block.first()
            );
        }
    }
}

/// Power may go between data and its parity, too.
#[test]
fn parity_after_data_leaves_nothing_open() {
    for (level, members) in [("5", 4), ("6", 5)] {
        let mut config = config(level, members, MetadataPolicy::Log);
        config.cache.parity_after_data = true;
        cut_everywhere(&config, true);
        for lost in 0..members {
            cut_degraded(&config, lost);
        }
        config.resilience.metadata = MetadataPolicy::Bitmap;
        cut_everywhere(&config, false);
    }
}

/// What was marked is recomputed, by the bitmap region by region, without one all of it.
#[test]
fn redundancy_agrees_after_a_resync() {
    for metadata in [MetadataPolicy::Resync, MetadataPolicy::Bitmap] {
        for (level, members) in [("5", 4), ("6", 5), ("1", 2), ("10", 4), ("1e", 3), ("10:far", 4)] {
            cut_everywhere(&config(level, members, metadata), false);
        }
    }
}

/// The state may say that all is to be resynced while no device has marked a region. When that is done, a write must not rely
/// on marks that are nowhere.
#[test]
fn a_region_is_marked_on_the_devices_after_a_resync_of_everything() {
    for config in
        [config("5", 4, MetadataPolicy::Bitmap), with_integrity(config("1", 2, MetadataPolicy::Bitmap))]
    {
        let mut world = World::create_in(&config, true);
        assert_eq!(world.controller.out_of_sync_stripes(), 0, "the resync has ended");
        writes(&mut world);
        let areas: Vec<_> =
            world.devices.iter().map(|device| device.as_ref().map(|device| &*device.metadata)).collect();
        let found = assemble(&areas, None, StartOptions::default()).expect("an array");
        assert!(!found.state.needs_resync);
        assert!(found.out_of_sync.is_marked(found.out_of_sync.region_of(StripeIndex(0))), "{}", config.level);
    }
}

/// Mirrors have no write hole: what is left can be used after any cut.
#[test]
fn a_mirror_starts_without_any_of_its_members() {
    for metadata in [MetadataPolicy::Resync, MetadataPolicy::Bitmap, MetadataPolicy::Log] {
        for (level, members) in [("1", 3), ("10", 4), ("1e:offset", 3)] {
            cut_everywhere(&config(level, members, metadata), true);
        }
    }
}

/// Cuts power after each action of a run that lacks a member from the beginning, and starts again without it.
fn cut_degraded(config: &ArrayConfig, lost: u16) {
    for fuse in 0.. {
        let what = format!("{} without {lost}, cut after {fuse} actions", config.level);
        let mut world = World::create(config);
        world.devices[usize::from(lost)] = None;
        world.controller.handle_member_loss(Nanos::ZERO, MemberIndex(lost));
        world.run().unwrap_or_else(|_| panic!("{what}: power is not cut yet"));
        world.fuse = fuse;
        let done = writes(&mut world);
        let mut again = World::start(config, world.devices, u64::MAX);
        check(&mut again, done, false, &what);
        if done == WRITES.len() {
            return;
        }
    }
}

#[test]
fn the_log_closes_the_write_hole_of_a_degraded_array() {
    for (level, members) in [("5", 4), ("6", 5), ("3", 4)] {
        for lost in 0..members {
            let config = config(level, members, MetadataPolicy::Log);
            cut_degraded(&config, lost);
            cut_degraded(&with_integrity(config), lost);
        }
    }
}

/// True if a start would write records again.
fn has_records(devices: &[Option<Device>]) -> bool {
    let areas: Vec<_> =
        devices.iter().map(|device| device.as_ref().map(|device| &*device.metadata)).collect();
    !assemble(&areas, None, StartOptions::default()).expect("an array").records.is_empty()
}

/// A start that writes records again is cut short, too, and the next one lacks a device: it may be the only one on which
/// the first cut left a whole record.
#[test]
fn a_start_that_replays_may_be_cut_short() {
    for (level, members) in [("5", 4), ("6", 4)] {
        let config = config(level, members, MetadataPolicy::Log);
        for fuse in 0.. {
            let mut world = World::create(&config);
            world.fuse = fuse;
            let done = writes(&mut world);
            for start_fuse in 0.. {
                if !has_records(&world.devices) {
                    break;
                }
                let second = World::start(&config, world.devices.clone(), start_fuse);
                for absent in 0..usize::from(members) {
                    let mut devices = second.devices.clone();
                    devices[absent] = None;
                    let what =
                        format!("{level}, cut after {fuse}, then after {start_fuse}, without {absent}");
                    check(&mut World::start(&config, devices, u64::MAX), done, true, &what);
                }
                if second.serving {
                    break;
                }
            }
            if done == WRITES.len() {
                break;
            }
        }
    }
}

/// Between the write of the data and that of the tags there is a moment, too.
#[test]
fn tags_agree_after_a_replay() {
    for (level, members) in [("5", 4), ("6", 5), ("3", 4), ("50:2-spans", 6)] {
        let lost = cut_everywhere(&with_integrity(config(level, members, MetadataPolicy::Log)), true);
        assert_eq!(lost, 0, "the log has all that was being written");
    }
    let mut config = with_integrity(config("5", 4, MetadataPolicy::Log));
    config.cache.write_policy = WritePolicy::WriteBack;
    config.member_cache = MemberCache::On;
    cut_everywhere(&config, true);
}

#[test]
fn tags_agree_after_a_resync() {
    for metadata in [MetadataPolicy::Resync, MetadataPolicy::Bitmap] {
        for (level, members) in [("5", 4), ("6", 5), ("1", 2), ("10", 4), ("1e", 3), ("10:far", 4)] {
            cut_everywhere(&with_integrity(config(level, members, metadata)), false);
        }
    }
    for metadata in [MetadataPolicy::Resync, MetadataPolicy::Bitmap, MetadataPolicy::Log] {
        for (level, members) in [("1", 3), ("10", 4), ("1e:offset", 3)] {
            cut_everywhere(&with_integrity(config(level, members, metadata)), true);
        }
    }
}

/// Without redundancy there are still tags to agree with.
#[test]
fn a_crash_leaves_no_errors_where_there_is_no_redundancy() {
    for metadata in [MetadataPolicy::Resync, MetadataPolicy::Bitmap, MetadataPolicy::Log] {
        for (level, members) in [("0", 3), ("jbod", 2)] {
            cut_everywhere(&with_integrity(config(level, members, metadata)), false);
        }
    }
}

/// What a start would find of devices.
fn found(devices: &[Option<Device>]) -> Assembly {
    let areas: Vec<_> =
        devices.iter().map(|device| device.as_ref().map(|device| &*device.metadata)).collect();
    assemble(&areas, None, StartOptions::default()).expect("an array")
}

/// A member comes back as it was after a crash, and the start after that crash was cut short after each of its actions: either the start
/// had acknowledged nothing, and every block is there, or the copy is stale.
#[test]
fn a_member_from_before_a_start_is_stale_once_the_start_has_written() {
    for (level, members) in [("1", 3), ("5", 4), ("6", 5)] {
        let config = config(level, members, MetadataPolicy::Log);
        let mut world = World::create(&config);
        world.fuse = 40;
        let done = writes(&mut world);
        let copy = world.devices[1].clone();
        let mut is_stale = false;
        for fuse in 0.. {
            let mut devices = World::start(&config, world.devices.clone(), fuse);
            let has_served = devices.serving;
            devices.devices[1].clone_from(&copy);
            let assembly = found(&devices.devices);
            let reasons: Vec<_> = assembly.stale.iter().map(|it| it.reason).collect();
            assert!(!is_stale || !reasons.is_empty(), "RAID {level}: it was stale before action {fuse}");
            is_stale = matches!(reasons[..], [StaleReason::MissedStart { .. }]);
            let mut again = World::start(&config, devices.devices, u64::MAX);
            check(&mut again, done, true, &format!("RAID {level}, a start cut after {fuse} actions"));
            if has_served {
                assert!(is_stale, "RAID {level}: the start serves, and the copy counts");
                break;
            }
        }
    }
}

/// A copy that was taken while the array ran is put back after a clean stop.
#[test]
fn a_member_from_before_a_clean_stop_is_stale() {
    for member_cache in [MemberCache::Off, MemberCache::On] {
        let mut config = config("5", 4, MetadataPolicy::Log);
        config.member_cache = member_cache;
        let mut world = World::create(&config);
        writes(&mut world);
        let copy = world.devices[2].clone();
        let data = vec![9; BLOCK];
        assert!(world.request(HostOp::Write { fua: true }, 8, data).is_ok(), "power is not cut");
        world.controller.handle_stop(Nanos::ZERO);
        assert!(world.run().is_ok(), "power is not cut");
        world.devices[2].clone_from(&copy);
        let assembly = found(&world.devices);
        assert!(!assembly.state.dirty, "it was stopped");
        assert_eq!(assembly.stale.first().map(|it| it.reason), Some(StaleReason::Behind));
    }
}

/// A record that can't be read leaves its stripe in doubt: rows that a later record of the same stripe names are not resynced alone, after
/// which the stripe would be in sync, and a block that nobody has written made up from parity that is too old.
#[test]
fn a_record_that_is_given_up_leaves_all_of_its_stripe_in_doubt() {
    let mut config = config("6", 5, MetadataPolicy::Log);
    config.cache.write_policy = WritePolicy::WriteBack;
    config.member_cache = MemberCache::On;
    let mut world = World::create(&config);
    // A row of the first strip, then the row behind it in each of the three.
    for blocks in [&[0][..], &[1, 5, 9]] {
        for &lba in blocks {
            let data = vec![lba as u8 + 1; BLOCK];
            assert!(world.request(HostOp::Write { fua: false }, lba, data).is_ok(), "power is not cut");
        }
        world.controller.handle_destage_all(Nanos::ZERO);
        assert!(world.run().is_ok(), "power is not cut");
    }
    let device = |unit| usize::from(world.controller.layout().place(StripeIndex(0), unit).member.0);
    let (second, [p, q]) =
        (device(StripUnit::Data { strip: 1, copy: 0 }), [0, 1].map(|it| device(StripUnit::Parity(it))));
    let mut devices = world.devices;
    let forgets = devices[q].as_mut().expect("all are there");
    forgets.data.clone_from(&forgets.durable);
    // What the first record holds can be read while the devices are looked at, and then no more.
    let mut again = World::assembled(&config, devices);
    for block in again.devices.iter_mut().flatten().flat_map(|device| device.metadata.chunks_exact_mut(BLOCK))
    {
        if block.iter().all(|byte| *byte == 1) {
            block.fill(0);
        }
    }
    assert!(again.run().is_ok() && again.serving, "power is not cut");
    let mut devices = again.devices;
    (devices[second], devices[p]) = (None, None);
    let mut without = World::start(&config, devices, u64::MAX);
    let block = without.request(HostOp::Read, 4, vec![0; BLOCK]).expect("power is not cut");
    assert!(without.lost > 0 || block == [0; BLOCK], "it begins with {}", block[0]);
}
