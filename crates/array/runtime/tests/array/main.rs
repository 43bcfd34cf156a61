//! The real array: the same answers as the plain world, redundancy that holds on the files, and faults.

mod common;
mod exports;
mod faults;
mod faulty;
mod kill;
mod loops;
mod null;
mod operator;
mod peer;
mod port;
mod real;
mod threads;
mod truth;
mod worlds;

use common::{BLOCK, PlainWorld, Random};
use raidlab_controller::{
    ArrayConfig, CacheMemory, HostError, IoPolicy, MemberCache, MetadataPolicy, Notice, ReadPolicy,
    WritePolicy,
};
use raidlab_format::StartOptions;
use raidlab_runtime::{ArrayError, ArrayWorld, RunSettings, ScriptHost, ScriptOp, ScriptResult};
use raidlab_units::{BlockCount, BlockSize, ByteCount, Lba, MemberIndex, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, Driver, DriverConfig, Worker};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const LEVELS: [(&str, u16); 5] = [("0", 4), ("1", 2), ("5", 5), ("6", 6), ("10", 6)];
const POLICIES: [WritePolicy; 2] = [WritePolicy::WriteThrough, WritePolicy::WriteBack];
static GO_ON: AtomicBool = AtomicBool::new(false);

fn folder() -> tempfile::TempDir {
    raidlab_testkit::tell_panics();
    tempfile::tempdir().expect("a folder for the test")
}

fn world(folder: &Path, config: &ArrayConfig) -> ArrayWorld {
    common::make(folder, config);
    common::start(folder, config).expect("the array starts")
}

fn serve(world: &mut ArrayWorld, script: &[ScriptOp], iodepth: u32) -> Vec<ScriptResult> {
    let mut host = ScriptHost::new(script.to_vec(), BLOCK, iodepth);
    world.serve(&mut host, &GO_ON).expect("the array serves");
    host.into_results().into_iter().map(|result| result.expect("every request ends")).collect()
}

fn read_all(world: &mut ArrayWorld) -> Result<Vec<u8>, HostError> {
    let read = ScriptOp::Read { lba: Lba(0), blocks: world.volume_blocks() };
    serve(world, &[read], 1).remove(0)
}

#[test]
fn a_real_array_gives_the_same_bytes_and_member_io_as_the_plain_world() {
    for (level, members) in LEVELS {
        let config = common::config(level, members, WritePolicy::WriteThrough);
        let folder = folder();
        let mut real = world(folder.path(), &config);
        let script = common::random_script(7, real.volume_blocks(), 300);
        let (expected, volume) = common::reference(&script, real.volume_blocks());
        let mut plain = PlainWorld::new(&config);
        let results = serve(&mut real, &script, 1);
        assert!(results.iter().cloned().eq(expected.into_iter().map(Ok)), "level {level}: wrong bytes");
        assert!(plain.run(&script) == results, "level {level}: the plain world reads something else");
        let (real_counters, plain_counters) = (real.counters(), plain.counters());
        assert!(real_counters.member_writes > 0, "level {level}: nothing was written");
        assert_eq!(real_counters.member_reads, plain_counters.member_reads, "level {level}");
        assert_eq!(real_counters.member_writes, plain_counters.member_writes, "level {level}");
        assert_eq!(read_all(&mut real).expect("the volume can be read"), volume, "level {level}");
        drop(real);
        common::check_redundancy(&config, &common::data_areas(folder.path(), &config), &volume);
    }
}

/// Writes that cover the volume once in pieces of 1 to 24 blocks, shuffled; then reads in another order.
fn shuffled_cover(seed: u64, volume: BlockCount) -> Vec<ScriptOp> {
    let mut random = Random(seed);
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < volume.0 {
        let blocks = (1 + random.below(24)).min(volume.0 - at);
        pieces.push((Lba(at), blocks));
        at += blocks;
    }
    let mut script = Vec::new();
    for _ in 0..2 {
        for left in (1..pieces.len()).rev() {
            pieces.swap(left, random.below(left as u64 + 1) as usize);
        }
        let reads = !script.is_empty();
        for (lba, blocks) in &pieces {
            script.push(if reads {
                ScriptOp::Read { lba: *lba, blocks: BlockCount(*blocks) }
            } else {
                ScriptOp::Write { lba: *lba, bytes: random.bytes(blocks * BLOCK.bytes()), fua: false }
            });
        }
    }
    script
}

/// Cache settings that take different ways through the array.
fn variants(level: &str, members: u16) -> Vec<(&'static str, ArrayConfig)> {
    let through = common::config(level, members, WritePolicy::WriteThrough);
    let back = common::config(level, members, WritePolicy::WriteBack);
    let mut battery = back.clone();
    battery.cache.memory = CacheMemory::BatteryBacked;
    battery.resilience.metadata = MetadataPolicy::Log;
    battery.cache.flush_after = NanoSpan::from_secs(20);
    let mut durable = through.clone();
    durable.member_cache = MemberCache::Off;
    let mut cached = back.clone();
    cached.cache.io_policy = IoPolicy::Cached;
    cached.cache.read_policy = ReadPolicy::ReadAhead;
    cached.cache.block_size = ByteCount::from_kib(16);
    vec![
        ("write-through", through),
        ("write-back", back),
        ("battery-backed", battery),
        ("durable members", durable),
        ("cached", cached),
    ]
}

#[test]
fn writes_at_depth_are_all_stored_and_redundancy_holds_on_the_files() {
    for (level, members) in LEVELS {
        for (variant, config) in variants(level, members) {
            let folder = folder();
            let mut world = world(folder.path(), &config);
            let script = shuffled_cover(11, world.volume_blocks());
            let (writes, reads) = script.split_at(script.len() / 2);
            let (expected, volume) = common::reference(&script, world.volume_blocks());
            let row = format!("level {level}, {variant}");
            assert!(serve(&mut world, writes, 16).iter().all(Result::is_ok), "{row}");
            let results = serve(&mut world, reads, 16);
            assert!(results.into_iter().eq(expected.into_iter().skip(writes.len()).map(Ok)), "{row}");
            let span = world.drain(&GO_ON).expect("the cache drains");
            assert!(span < NanoSpan::from_secs(10), "{row}: a drain does not wait for blocks to age: {span}");
            drop(world);
            common::check_redundancy(&config, &common::data_areas(folder.path(), &config), &volume);
        }
    }
}

#[test]
fn member_io_of_more_pieces_than_one_entry_takes_is_whole() {
    const SMALL: BlockSize = BlockSize::B512;
    let mut config = common::config("0", 2, WritePolicy::WriteBack);
    config.block_size = SMALL;
    config.cache.block_size = ByteCount(512);
    config.cache.size = ByteCount::from_mib(4);
    config.cache.flush_start_pct = 100;
    config.cache.flush_stop_pct = 100;
    config.cache.flush_after = NanoSpan::from_secs(20);
    config.strip_size = ByteCount::from_mib(1);
    let folder = folder();
    if common::direct_io_unit(folder.path()) > SMALL.bytes() {
        eprintln!("skipped: direct I/O is in larger units here");
        return;
    }
    let mut world = world(folder.path(), &config);
    // Every second block, then the others: neighbours in the strip are never neighbours in the cache.
    let mut random = Random(13);
    let blocks = world.volume_blocks().0;
    let order = (0..blocks).step_by(2).chain((1..blocks).step_by(2));
    let script: Vec<ScriptOp> =
        order.map(|lba| ScriptOp::Write { lba: Lba(lba), bytes: random.bytes(512), fua: false }).collect();
    let mut expected = vec![0; (blocks * 512) as usize];
    for op in &script {
        if let ScriptOp::Write { lba, bytes, .. } = op {
            expected[lba.0 as usize * 512..][..512].copy_from_slice(bytes);
        }
    }
    let mut host = ScriptHost::new(script, SMALL, 32);
    world.serve(&mut host, &GO_ON).expect("the array serves");
    assert_eq!(world.counters().member_writes, 0, "all of it fits the cache");
    world.drain(&GO_ON).expect("the cache drains");
    assert_eq!(world.counters().member_writes, 2, "each strip is one write");
    drop(world);
    let areas = common::data_areas(folder.path(), &config);
    assert!(areas.concat() == expected, "the strips lie one after the other");
}

#[test]
fn data_survives_the_loss_of_as_many_members_as_the_level_promises() {
    let rows: [(&str, u16, &[u16]); 6] = [
        ("1", 2, &[0]),
        ("5", 5, &[2]),
        ("6", 6, &[1]),
        ("6", 6, &[0, 4]),
        ("10", 6, &[3]),
        ("10", 6, &[0, 2, 4]),
    ];
    for (level, members, lost) in rows {
        for policy in POLICIES {
            let config = common::config(level, members, policy);
            let folder = folder();
            let mut world = world(folder.path(), &config);
            let script = common::random_script(3, world.volume_blocks(), 200);
            serve(&mut world, &script, 1);
            for member in lost {
                world.fail_member(MemberIndex(*member)).expect("a member can be failed");
            }
            let row = format!("level {level} {policy:?} without {lost:?}");
            let (_, volume) = common::reference(&script, world.volume_blocks());
            assert_eq!(read_all(&mut world), Ok(volume), "{row}");
            let notices = lost.iter().map(|member| Notice::MemberFailed { member: MemberIndex(*member) });
            assert!(world.notices().eq(notices), "{row}");
            let more = common::random_script(4, world.volume_blocks(), 200);
            let all = [script, more.clone()].concat();
            let (expected, volume) = common::reference(&all, world.volume_blocks());
            let results = serve(&mut world, &more, 1);
            assert!(
                results.into_iter().eq(expected.into_iter().skip(200).map(Ok)),
                "{row}: degraded service"
            );
            world.drain(&GO_ON).expect("the cache drains");
            assert_eq!(read_all(&mut world), Ok(volume), "{row}: after degraded writes");
        }
    }
}

#[test]
fn a_member_file_cut_behind_our_back_is_gone_and_its_data_is_recovered() {
    let config = common::config("5", 5, WritePolicy::WriteThrough);
    let folder = folder();
    let mut world = world(folder.path(), &config);
    let script = common::random_script(5, world.volume_blocks(), 200);
    serve(&mut world, &script, 1);
    let path = &common::paths(folder.path(), 5)[3];
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("the file can be opened");
    file.set_len(1 << 20).expect("the file can be cut");
    let (_, volume) = common::reference(&script, world.volume_blocks());
    assert_eq!(read_all(&mut world), Ok(volume));
    assert!(world.notices().eq([Notice::MemberFailed { member: MemberIndex(3) }]));
}

#[test]
fn too_many_lost_members_fail_requests_and_not_the_process() {
    let config = common::config("5", 5, WritePolicy::WriteThrough);
    let folder = folder();
    let mut world = world(folder.path(), &config);
    for member in [0, 1] {
        world.fail_member(MemberIndex(member)).expect("a member can be failed");
    }
    assert!(matches!(read_all(&mut world), Err(HostError::DataLost { .. })));
    let write = ScriptOp::Write { lba: Lba(0), bytes: vec![1; 5 * 16384], fua: false };
    assert!(matches!(serve(&mut world, &[write], 1).remove(0), Err(HostError::ArrayFailed { .. })));
}

fn driver(world: &ArrayWorld, iodepth: u32, run_ms: u64) -> Driver {
    let spec = AccessSpec::new("mixed", vec![AccessLine::plain(8192, 67, 100)]);
    let config = DriverConfig {
        region: world.volume_bytes(),
        block_bytes: 4096,
        iodepth,
        seed: 1,
        ramp: NanoSpan::from_millis(20),
        run: NanoSpan::from_millis(run_ms),
        start_offset: ByteCount::ZERO,
        max_requests: None,
        worker: Worker::ALONE,
        ..DriverConfig::default()
    };
    Driver::new(&spec, &config).expect("a workload that fits")
}

#[test]
fn a_run_measures_and_leaves_nothing_dirty() {
    for policy in POLICIES {
        let config = common::config("6", 6, policy);
        let folder = folder();
        let mut world = world(folder.path(), &config);
        let mut reports = 0;
        let mut driver = driver(&world, 8, 200);
        let outcome = world.run(&mut driver, &GO_ON, &mut |_| reports += 1).expect("a run");
        let (read, write) = (&outcome.measurement.ops.read, &outcome.measurement.ops.write);
        assert!(read.requests > 0, "{policy:?}");
        assert!(write.requests > 0, "{policy:?}");
        assert_eq!((read.errors, write.errors), (0, 0), "{policy:?}");
        assert!(reports >= 2, "{policy:?}: {reports} reports");
        assert!(outcome.wall >= NanoSpan::from_millis(220), "{policy:?}: {}", outcome.wall);
        assert!(outcome.cpu > NanoSpan::ZERO, "{policy:?}");
        assert!(outcome.counters.member_writes > 0, "{policy:?}");
        assert_eq!(outcome.notices, [], "{policy:?}");
        let volume = read_all(&mut world).expect("the volume can be read");
        drop(world);
        common::check_redundancy(&config, &common::data_areas(folder.path(), &config), &volume);
    }
}

#[test]
fn counters_of_a_run_do_not_include_the_run_before() {
    let config = common::config("10", 6, WritePolicy::WriteBack);
    let folder = folder();
    let mut world = world(folder.path(), &config);
    let mut sum = 0;
    for _ in 0..2 {
        let mut driver = driver(&world, 4, 50);
        let before = world.counters().member_writes;
        let outcome = world.run(&mut driver, &GO_ON, &mut |_| {}).expect("a run");
        assert_eq!(outcome.counters.member_writes, world.counters().member_writes - before);
        sum += outcome.counters.member_writes;
    }
    assert_eq!(sum, world.counters().member_writes);
}

#[test]
fn a_stopped_run_ends_soon_and_the_array_goes_on() {
    let config = common::config("5", 5, WritePolicy::WriteBack);
    let folder = folder();
    let mut world = world(folder.path(), &config);
    let cancel = AtomicBool::new(false);
    let mut long = driver(&world, 8, 3_600_000);
    let stopped = world.run(&mut long, &cancel, &mut |seen| {
        if seen.requests > 0 {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    assert!(matches!(stopped, Err(ArrayError::Cancelled)));
    let mut short = driver(&world, 8, 50);
    let outcome = world.run(&mut short, &GO_ON, &mut |_| {}).expect("a run");
    assert!(outcome.measurement.ops.read.requests > 0);
}

#[test]
fn settings_that_can_not_be_are_refused() {
    let config = common::config("5", 5, WritePolicy::WriteThrough);
    let folder = folder();
    common::make(folder.path(), &config);
    let with = |change: &dyn Fn(&mut RunSettings)| {
        let mut settings = RunSettings::of(&config);
        change(&mut settings);
        let paths = common::paths(folder.path(), 5);
        let error = ArrayWorld::start(&paths, &settings, StartOptions::default()).world;
        error.expect_err("settings that can't be")
    };
    let error = with(&|settings| settings.staging_size = ByteCount(4096));
    assert!(matches!(error, ArrayError::Config(_)), "{error}");
    let error = with(&|settings| settings.cache.mirror = true);
    assert!(matches!(error, ArrayError::NoSecondController), "{error}");
    let error = with(&|settings| settings.cache.memory = CacheMemory::BatteryBacked);
    assert!(matches!(error, ArrayError::NoNvram), "{error}");
    let error = with(&|settings| {
        settings.cache.memory = CacheMemory::BatteryBacked;
        settings.nvram = Some(folder.path().join("kept"));
    });
    assert!(matches!(error, ArrayError::KeepsNothing), "{error}");
    assert!(!folder.path().join("kept").exists(), "nothing is made for an array that does not start");
}

#[test]
fn a_workload_for_another_volume_is_refused() {
    let small = common::config("5", 3, WritePolicy::WriteThrough);
    let large = common::config("0", 4, WritePolicy::WriteThrough);
    let (one, other) = (folder(), folder());
    let mut small = world(one.path(), &small);
    let large = world(other.path(), &large);
    let error =
        small.run(&mut driver(&large, 1, 50), &GO_ON, &mut |_| {}).expect_err("the region is too large");
    assert!(matches!(error, ArrayError::RegionTooLarge { .. }));
}

#[test]
fn members_come_back_and_serve_the_same_data_again() {
    let config = common::config("6", 6, WritePolicy::WriteBack);
    let folder = folder();
    let mut first = world(folder.path(), &config);
    let script = common::random_script(9, first.volume_blocks(), 100);
    serve(&mut first, &script, 1);
    first.drain(&GO_ON).expect("the cache drains");
    let (_, volume) = common::reference(&script, first.volume_blocks());
    drop(first);
    let mut second = common::start(folder.path(), &config).expect("the array starts");
    assert_eq!(read_all(&mut second), Ok(volume));
}
