//! Arrays that keep metadata: created, stopped or dropped, found again in any order, and with unsuitable devices.
//!
//! Verified: the volume after each start, block by block, and what the report says of each device. Not verified here:
//! killed processes (`kill.rs`), commands (`operator.rs`).

use super::common::{self, BLOCK, Random};
use super::{GO_ON, folder, read_all, serve};
use raidlab_controller::{ArrayConfig, CacheMemory, DeviceState, MemberCache, MetadataPolicy, WritePolicy};
use raidlab_format::{ArrayName, AssembleError, StartOptions};
use raidlab_runtime::{
    ArrayError, ArrayWorld, Contents, CreateError, CreateOptions, DeviceVerdict, ExamineReport, RunSettings,
    ScriptOp, create, examine,
};
use raidlab_units::{ByteCount, Lba, MemberIndex};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub(crate) fn keeping(level: &str, members: u16, metadata: MetadataPolicy) -> ArrayConfig {
    let mut config = common::config(level, members, WritePolicy::WriteThrough);
    config.resilience.metadata = metadata;
    config.resilience.log_size = ByteCount::from_mib(1);
    config.resilience.spares = CreateOptions::SPARE_SLOTS;
    config
}

pub(crate) fn options(members: Vec<PathBuf>, spares: Vec<PathBuf>) -> CreateOptions {
    CreateOptions {
        name: ArrayName::new("büro").expect("a name"),
        members,
        spares,
        spare_slots: CreateOptions::SPARE_SLOTS,
        ..CreateOptions::default()
    }
}

pub(crate) fn make(folder: &Path, config: &ArrayConfig, spares: u16) -> Vec<PathBuf> {
    let paths = common::paths(folder, config.members + spares);
    let (members, spares) = paths.split_at(usize::from(config.members));
    create(config, &options(members.to_vec(), spares.to_vec()), &GO_ON, &mut |_, _| {})
        .expect("an array is made");
    paths
}

fn start(paths: &[PathBuf], settings: &RunSettings) -> Result<ArrayWorld, ArrayError> {
    let mut world = ArrayWorld::start(paths, settings, StartOptions::default()).world?;
    world.await_serving(&GO_ON)?;
    Ok(world)
}

/// Writes something everywhere and returns it.
fn fill(world: &mut ArrayWorld, seed: u64) -> Vec<u8> {
    let script = common::random_script(seed, world.volume_blocks(), 150);
    let first =
        ScriptOp::Write { lba: Lba(0), bytes: vec![7; world.volume_bytes().get() as usize], fua: false };
    assert!(serve(world, &[first], 1).iter().all(Result::is_ok));
    assert!(serve(world, &script, 1).iter().all(Result::is_ok));
    let (_, mut volume) = common::reference(&script, world.volume_blocks());
    let untouched = {
        let mark = |op: &ScriptOp| match op {
            ScriptOp::Write { lba, bytes, .. } => {
                let bytes = vec![1; bytes.len()];
                ScriptOp::Write { lba: *lba, bytes, fua: false }
            }
            other => other.clone(),
        };
        common::reference(&script.iter().map(mark).collect::<Vec<_>>(), world.volume_blocks()).1
    };
    for (byte, written) in volume.iter_mut().zip(&untouched) {
        *byte = if *written == 0 { 7 } else { *byte };
    }
    volume
}

fn verdict<'a>(report: &'a ExamineReport, path: &Path) -> &'a DeviceVerdict {
    let found = report.devices.iter().find(|device| device.path == path);
    &found.expect("every path has a verdict").verdict
}

#[test]
fn an_array_is_found_again_in_any_order_after_a_stop_or_without_one() {
    let policies = [MetadataPolicy::Resync, MetadataPolicy::Bitmap, MetadataPolicy::Log];
    for (level, members) in [("0", 3), ("1", 2), ("5", 4), ("6", 5), ("10", 4), ("50:2-spans", 6)] {
        for metadata in policies {
            for (member_cache, policy, stops) in [
                (MemberCache::Off, WritePolicy::WriteThrough, true),
                (MemberCache::On, WritePolicy::WriteBack, true),
                (MemberCache::Off, WritePolicy::WriteThrough, false),
            ] {
                let row = format!("level {level}, {metadata}, {policy:?}, {member_cache:?}, stopped {stops}");
                let folder = folder();
                let mut config = keeping(level, members, metadata);
                (config.member_cache, config.cache.write_policy) = (member_cache, policy);
                let mut paths = make(folder.path(), &config, 1);
                let settings = RunSettings::of(&config);
                let mut world = start(&paths, &settings).expect(&row);
                assert_eq!(world.name(), "büro");
                let volume = fill(&mut world, 5);
                if stops {
                    world.stop(&GO_ON).expect(&row);
                }
                drop(world);
                paths.rotate_left(2);
                paths.swap(0, 1);
                let report = examine(&paths, StartOptions::default());
                let array = report.array.as_ref().expect(&row);
                // Without redundancy nothing is ever in doubt, so nobody is told that it is in use.
                let has_intent = level != "0";
                assert_eq!(array.dirty, !stops && has_intent, "{row}");
                assert_eq!((array.level.as_str(), array.absent.len()), (level, 0), "{row}");
                let mut world = start(&paths, &settings).expect(&row);
                assert!(read_all(&mut world) == Ok(volume), "{row}");
                world.stop(&GO_ON).expect(&row);
            }
        }
    }
}

type Damage = fn(&Path, &[PathBuf]);
type Expected = fn(&DeviceVerdict) -> bool;

fn overwrite(path: &Path, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).expect("the file can be opened");
    file.write_all_at(bytes, offset).expect("the file can be written");
}

/// What may have become of a device, and what is then said of it.
fn damages() -> [(&'static str, Damage, Expected); 7] {
    [
        (
            "missing",
            |path, _| std::fs::remove_file(path).expect("it can be removed"),
            |verdict| matches!(verdict, DeviceVerdict::Unusable { .. }),
        ),
        (
            "truncated",
            |path, _| {
                let file = OpenOptions::new().write(true).open(path).expect("the file can be opened");
                file.set_len(5 << 18).expect("it can be cut");
            },
            |verdict| matches!(verdict, DeviceVerdict::Unusable { reason } if reason.contains("truncated")),
        ),
        (
            "wiped at both ends",
            |path, _| {
                let bytes = std::fs::metadata(path).expect("it is there").len();
                overwrite(path, 0, &vec![0; 1 << 20]);
                overwrite(path, bytes - (1 << 16), &vec![0; 1 << 16]);
            },
            |verdict| *verdict == DeviceVerdict::Blank,
        ),
        (
            "other data",
            |path, _| {
                let bytes = std::fs::metadata(path).expect("it is there").len();
                std::fs::write(path, vec![0x5a; bytes as usize]).expect("it can be written");
            },
            |verdict| matches!(verdict, DeviceVerdict::Unusable { .. }),
        ),
        (
            "of another array",
            |path, _| {
                let other = tempfile::tempdir().expect("a folder");
                let made = make(other.path(), &keeping("5", 4, MetadataPolicy::Log), 0);
                std::fs::copy(&made[2], path).expect("it can be copied");
            },
            |verdict| matches!(verdict, DeviceVerdict::Foreign { .. }),
        ),
        (
            "a front that was written over",
            |path, _| overwrite(path, 0, &vec![0xeb; 64 << 10]),
            |verdict| matches!(verdict, DeviceVerdict::Present { device: 2, .. }),
        ),
        (
            "an end that was written over",
            |path, _| {
                let bytes = std::fs::metadata(path).expect("it is there").len();
                overwrite(path, bytes - 36_864, &vec![0xeb; 36_864]);
            },
            |verdict| matches!(verdict, DeviceVerdict::Present { device: 2, .. }),
        ),
    ]
}

#[test]
fn a_device_that_is_not_what_it_should_be_is_named_and_the_array_goes_on() {
    for (what, damage, expected) in damages() {
        let folder = folder();
        let config = keeping("5", 4, MetadataPolicy::Log);
        let paths = make(folder.path(), &config, 0);
        let settings = RunSettings::of(&config);
        let mut world = start(&paths, &settings).expect(what);
        let volume = fill(&mut world, 3);
        drop(world);
        damage(&paths[2], &paths);
        let started = ArrayWorld::start(&paths, &settings, StartOptions::default());
        assert!(expected(verdict(&started.report, &paths[2])), "{what}: {:?}", started.report);
        let mut world = started.world.expect(what);
        world.await_serving(&GO_ON).expect(what);
        assert!(read_all(&mut world) == Ok(volume), "{what}");
        world.stop(&GO_ON).expect(what);
    }
}

#[test]
fn a_member_that_was_away_while_the_array_was_written_is_stale() {
    let folder = folder();
    let config = keeping("6", 5, MetadataPolicy::Log);
    let paths = make(folder.path(), &config, 0);
    let settings = RunSettings::of(&config);
    let mut world = start(&paths, &settings).expect("a whole array");
    fill(&mut world, 1);
    world.stop(&GO_ON).expect("it stops");
    drop(world);
    let mut world = start(&paths[1..], &settings).expect("one is absent");
    let volume = fill(&mut world, 2);
    drop(world);
    let started = ArrayWorld::start(&paths, &settings, StartOptions::default());
    let found = verdict(&started.report, &paths[0]);
    assert!(matches!(found, DeviceVerdict::Stale { device: 0, .. }), "{found:?}");
    let mut world = started.world.expect("the others know better");
    assert!(read_all(&mut world) == Ok(volume));
    assert_eq!(world.device_states().next(), Some(DeviceState::Missing));
}

#[test]
fn too_few_devices_are_refused_and_what_would_help_is_said() {
    let folder = folder();
    let config = keeping("5", 4, MetadataPolicy::Resync);
    let paths = make(folder.path(), &config, 0);
    let settings = RunSettings::of(&config);
    let mut world = start(&paths, &settings).expect("a whole array");
    fill(&mut world, 1);
    drop(world);
    let refused = |paths: &[PathBuf]| start(paths, &settings).expect_err("it may not be started");
    let error = refused(&paths[2..]);
    assert!(matches!(error, ArrayError::Assemble(AssembleError::NoQuorum { .. })), "{error}");
    let error = refused(&paths[1..]);
    assert!(matches!(error, ArrayError::Assemble(AssembleError::DirtyDegraded { .. })), "{error}");
    let report = examine(&paths[1..], StartOptions::default());
    assert!(report.array.is_none());
    assert!(report.refused.expect("a reason").len() > 40);
    assert!(matches!(report.devices[0].verdict, DeviceVerdict::Undecided { device: Some(1), .. }));
    let options = StartOptions { accept_write_hole: true, ..StartOptions::default() };
    ArrayWorld::start(&paths[1..], &settings, options).world.expect("the risk is accepted");
}

#[test]
fn devices_that_hold_something_are_not_taken_without_being_named() {
    let folder = folder();
    let config = keeping("5", 3, MetadataPolicy::Bitmap);
    let paths = common::paths(folder.path(), 3);
    std::fs::write(&paths[1], vec![1; 4 << 20]).expect("a file can be made");
    let made = |options: &CreateOptions| create(&config, options, &GO_ON, &mut |_, _| {});
    let mut order = options(paths.clone(), vec![]);
    let error = made(&order).expect_err("the second holds data");
    assert!(matches!(error, CreateError::Safety(_)), "{error}");
    assert!(!paths[0].exists(), "what was made is taken away again");
    assert_eq!(std::fs::read(&paths[1]).expect("it is there"), vec![1; 4 << 20], "it was not touched");
    order.destroy_data = vec!["elsewhere".to_owned(), paths[1].display().to_string()];
    let created = made(&order).expect("it was named");
    assert!(created.needs_resync, "what it held agrees with nothing");
    let other = CreateOptions { name: ArrayName::new("another").expect("a name"), ..order.clone() };
    assert!(matches!(made(&other), Err(CreateError::Safety(_))), "the others are devices of an array now");
    made(&order).expect("the same may be repeated: nobody used it yet");
    let world = start(&paths, &RunSettings::of(&config)).expect("it starts");
    order.destroy_data = paths.iter().map(|path| path.display().to_string()).collect();
    let error = made(&order).expect_err("they are in use");
    assert!(
        matches!(error, CreateError::Safety(raidlab_device::safety::SafetyError::InUse { .. })),
        "{error}"
    );
    drop(world);
    let twice = options(vec![paths[0].clone(), paths[1].clone(), paths[0].clone()], vec![]);
    let twice = CreateOptions { destroy_data: order.destroy_data.clone(), ..twice };
    let error = made(&twice).expect_err("one device can't be two");
    assert!(matches!(error, CreateError::NamedTwice { .. }), "{error}");
}

#[test]
fn redundancy_over_unknown_contents_is_computed_at_the_start() {
    for contents in [Contents::AsFound, Contents::Zeroed, Contents::Written] {
        let folder = folder();
        let config = keeping("5", 3, MetadataPolicy::Resync);
        let paths = common::paths(folder.path(), 3);
        let mut random = Random(8);
        for path in &paths {
            std::fs::write(path, random.bytes(4 << 20)).expect("a file can be made");
        }
        let destroy_data = paths.iter().map(|path| path.display().to_string()).collect();
        let order = CreateOptions { destroy_data, contents, ..options(paths.clone(), vec![]) };
        let created = create(&config, &order, &GO_ON, &mut |_, _| {}).expect("it is made");
        assert_eq!(created.needs_resync, contents == Contents::AsFound);
        let mut world = start(&paths, &RunSettings::of(&config)).expect("it starts");
        let before = read_all(&mut world).expect("all can be read");
        assert_eq!(before.iter().all(|byte| *byte == 0), contents != Contents::AsFound, "{contents:?}");
        world.drain(&GO_ON).expect("the resync ends");
        world.fail_member(MemberIndex(1)).expect("a member can be failed");
        assert!(read_all(&mut world) == Ok(before), "{contents:?}");
    }
}

#[test]
fn data_areas_are_as_large_as_the_smallest_device_allows() {
    let folder = folder();
    let mut config = keeping("1", 2, MetadataPolicy::Bitmap);
    config.member_size = ByteCount::ZERO;
    let paths = common::paths(folder.path(), 2);
    let order = CreateOptions { file_bytes: Some(ByteCount::from_mib(9)), ..options(paths.clone(), vec![]) };
    let created = create(&config, &order, &GO_ON, &mut |_, _| {}).expect("it is made");
    assert_eq!(created.config.member_size, ByteCount::from_mib(7));
    let world = start(&paths, &RunSettings::of(&config)).expect("it starts");
    assert_eq!(world.volume_bytes(), ByteCount::from_mib(7));
    let no_size = options(vec![folder.path().join("a"), folder.path().join("b")], vec![]);
    let error = create(&config, &no_size, &GO_ON, &mut |_, _| {}).expect_err("nobody said how long");
    assert!(matches!(error, CreateError::NoSize { .. }), "{error}");
}

/// What the cache has acknowledged and no member has, is there at the next start from the same NVRAM.
/// The same without a cache that outlives anything.
fn through(settings: &RunSettings) -> RunSettings {
    let mut settings = settings.clone();
    settings.cache.memory = CacheMemory::Volatile;
    settings.cache.write_policy = WritePolicy::WriteThrough;
    settings
}

#[test]
fn nvram_that_is_gone_is_given_up_only_when_that_is_said() {
    let folder = folder();
    let mut config = keeping("5", 4, MetadataPolicy::Log);
    config.cache.memory = CacheMemory::BatteryBacked;
    config.cache.write_policy = WritePolicy::WriteBack;
    let paths = make(folder.path(), &config, 0);
    let settings = common::settings(folder.path(), &config);
    let mut world = start(&paths, &settings).expect("it starts");
    let write = ScriptOp::Write { lba: Lba(0), bytes: Random(4).bytes(BLOCK.bytes()), fua: false };
    assert!(serve(&mut world, &[write], 1)[0].is_ok());
    drop(world);
    std::fs::remove_file(folder.path().join("kept")).expect("it is there");
    let error = start(&paths, &settings).map(drop).expect_err("a new file holds nothing");
    assert!(error.to_string().contains("--accept-lost-cache"), "{error}");
    assert!(!folder.path().join("kept").exists(), "nothing is made for an array that does not start");
    let accepting = RunSettings { accept_lost_cache: true, ..settings.clone() };
    drop(start(&paths, &accepting).expect("the loss is accepted"));
    drop(start(&paths, &settings).expect("the new file is the array's from then on"));
}

#[test]
fn nvram_outlives_the_array_and_a_wrong_file_is_refused() {
    for (level, members) in [("0", 3), ("5", 4), ("10", 4)] {
        let folder = folder();
        let mut config = keeping(level, members, MetadataPolicy::Log);
        config.cache.memory = CacheMemory::BatteryBacked;
        config.cache.write_policy = WritePolicy::WriteBack;
        config.cache.flush_start_pct = 100;
        config.cache.flush_stop_pct = 100;
        config.cache.flush_after = raidlab_units::NanoSpan::from_secs(3600);
        let paths = make(folder.path(), &config, 0);
        let settings = common::settings(folder.path(), &config);
        let mut world = start(&paths, &settings).expect(level);
        let bytes = Random(4).bytes(40 * BLOCK.bytes());
        let write = ScriptOp::Write { lba: Lba(3), bytes: bytes.clone(), fua: true };
        assert!(serve(&mut world, &[write], 1)[0].is_ok());
        assert_eq!(world.counters().member_writes, 0, "{level}: only the cache has it");
        drop(world);
        let mut other = settings.clone();
        other.cache.size = ByteCount::from_mib(1);
        assert!(matches!(start(&paths, &other), Err(ArrayError::Kept(_))), "{level}");
        let mut world = start(&paths, &settings).expect(level);
        let read = ScriptOp::Read { lba: Lba(3), blocks: raidlab_units::BlockCount(40) };
        assert!(serve(&mut world, &[read], 1)[0] == Ok(bytes), "{level}");
        drop(world);
        let without = RunSettings { nvram: None, ..through(&settings) };
        let refused = start(&paths, &without).map(drop);
        assert!(matches!(refused, Err(ArrayError::NvramMissing { .. })), "{level}: {refused:?}");
        start(&paths, &settings).expect(level).stop(&GO_ON).expect("a clean stop leaves nothing in it");
        drop(start(&paths, &without).expect("nothing is in the file"));
        let elsewhere = tempfile::tempdir().expect("a folder");
        let others = make(elsewhere.path(), &config, 0);
        let error = start(&others, &settings).expect_err("NVRAM is another array's");
        assert!(matches!(error, ArrayError::NvramOfOther { .. }), "{error}");
        std::fs::write(folder.path().join("kept"), "something else, and long enough to be one")
            .expect("written");
        assert!(matches!(start(&paths, &settings), Err(ArrayError::Kept(_))), "{level}");
    }
}
