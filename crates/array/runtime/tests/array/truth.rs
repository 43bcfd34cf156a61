//! What an array reports is true: its status, its events, and its handling of damage to its own metadata.
//!
//! Verified: condition, failures left and lost blocks after crashes and damage; that events reach the history; both copies of
//! label and state. Not verified here: display and logging, which the command line's tests cover.

use super::common;
use super::operator::{is_whole, replace, use_array};
use super::real::{keeping, make, options};
use super::{GO_ON, folder, read_all};
use raidlab_controller::{ArrayConfig, MetadataPolicy};
use raidlab_format::{AREA_UNIT_BYTES, AreaLayout, LABEL_BYTES, Label, StartOptions, Unfinished};
use raidlab_runtime::{
    ArrayStatus, ArrayWorld, Command, Condition, CreateError, CreateOptions, DeviceCondition, EventLevel,
    HistoryPlace, RunSettings, create, examine, read_history, would_start,
};
use raidlab_units::ByteCount;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the second copy of label and state begins.
fn tail_at(path: &Path) -> u64 {
    let bytes = std::fs::metadata(path).expect("it is there").len();
    bytes / AREA_UNIT_BYTES * AREA_UNIT_BYTES - AreaLayout::TAIL_BYTES
}

fn file(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).expect("the file can be opened")
}

/// Past the page cache, as the array does it: where both meet, Linux has the next flush of the array fail.
fn file_in_use(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    options.open(path).expect("the file can be opened")
}

/// The label, or a block as long, at `offset`.
#[repr(align(4096))]
struct Block([u8; LABEL_BYTES]);

impl Block {
    fn read(path: &Path, offset: u64) -> Self {
        let mut block = Self([0; LABEL_BYTES]);
        file_in_use(path).read_exact_at(&mut block.0, offset).expect("it can be read");
        block
    }
}

/// Changes a byte.
fn flip(path: &Path, offset: u64) {
    let begin = offset / LABEL_BYTES as u64 * LABEL_BYTES as u64;
    let mut block = Block::read(path, begin);
    block.0[(offset - begin) as usize] ^= 1;
    file_in_use(path).write_all_at(&block.0, begin).expect("it can be written");
}

fn has_label(path: &Path, offset: u64) -> bool {
    Label::decode(&Block::read(path, offset).0).is_ok()
}

/// An array of five members, and its settings.
fn array(folder: &Path, metadata: MetadataPolicy) -> (ArrayConfig, Vec<PathBuf>, RunSettings) {
    let config = keeping("5", 5, metadata);
    let paths = make(folder, &config, 0);
    let history = Some(HistoryPlace::Folder(folder.join("history")));
    let settings = RunSettings { history, ..RunSettings::of(&config) };
    (config, paths, settings)
}

/// Starts an array, asks it how it is, and stops it.
fn status_of(paths: &[PathBuf], settings: &RunSettings) -> ArrayStatus {
    let mut world = ArrayWorld::start(paths, settings, StartOptions::default()).world.expect("it starts");
    world.await_serving(&GO_ON).expect("it serves");
    let status = world.status();
    world.stop(&GO_ON).expect("it stops");
    status
}

/// Defect: a byte flipped in the second copy was told by nobody and stayed; with the head wiped later the member was gone.
#[test]
fn damage_to_either_copy_of_the_metadata_is_told_and_mended_at_a_start() {
    for at_tail in [true, false] {
        let folder = folder();
        let (_, paths, settings) = array(folder.path(), MetadataPolicy::Log);
        let damaged = if at_tail { tail_at(&paths[1]) } else { 0 };
        // The label, and a slot of the state.
        flip(&paths[1], damaged + 40);
        flip(&paths[1], damaged + LABEL_BYTES as u64 + (16 << 10) + 100);
        let report = examine(&paths, StartOptions::default());
        let found: Vec<bool> =
            report.devices.iter().map(|it| if at_tail { it.copy_damaged } else { it.mended }).collect();
        assert_eq!(found, [false, true, false, false, false], "at the tail: {at_tail}");
        assert!(!has_label(&paths[1], damaged), "looking changes nothing");

        let used = use_array(paths.clone(), settings.clone());
        let status = used.until("whole", is_whole);
        let told = status.events.iter().find(|event| event.kind == "metadata-damaged").expect("it is told");
        assert_eq!((told.device, told.level), (Some(1), EventLevel::Warn));
        let place = if at_tail { "its end (label, state)" } else { "its head (label, state)" };
        assert!(told.text.contains(place), "{told:?}");
        used.stop();
        let report = examine(&paths, StartOptions::default());
        assert!(!report.devices.iter().any(|it| it.copy_damaged || it.mended), "{report:?}");
        // What is left of the other copy is enough now.
        let other = if at_tail { 0 } else { tail_at(&paths[1]) };
        file(&paths[1]).write_all_at(&vec![0; 1 << 15], other).expect("it can be wiped");
        assert_eq!(status_of(&paths, &settings).devices[1].state, DeviceCondition::InSync);
    }
}

/// The same while the array runs: the check in the background looks at both copies.
#[test]
fn damage_to_the_metadata_is_found_and_mended_by_a_check() {
    let folder = folder();
    let (_, paths, settings) = array(folder.path(), MetadataPolicy::Bitmap);
    let used = use_array(paths.clone(), settings);
    used.until("whole", is_whole);
    let tail = tail_at(&paths[3]);
    flip(&paths[3], tail + 40);
    flip(&paths[2], 33);
    for slot in 0..2 {
        flip(&paths[4], tail_at(&paths[4]) + LABEL_BYTES as u64 + (slot << 14) + 100);
    }
    used.done(&Command::Check);
    let devices = |status: &ArrayStatus| {
        let told = status.events.iter().filter(|event| event.kind == "metadata-damaged");
        told.filter_map(|event| event.device).collect::<Vec<_>>()
    };
    used.until("told", |status| devices(status) == [2, 3, 4]);
    let is_mended = |paths: &[PathBuf]| {
        let report = examine(paths, StartOptions::default());
        !report.devices.iter().any(|it| it.copy_damaged || it.mended)
    };
    used.until("mended", |_| is_mended(&paths));
    used.done(&Command::Check);
    used.until("checked", |status| status.scan.is_none());
    assert_eq!(devices(&used.status()).len(), 3, "nothing is left to be told");
    used.stop();
}

/// Defect: a member that was put back to an earlier copy while the array ran had current states written over it by a stop, and counted as in
/// sync from then on.
#[test]
fn a_member_that_was_put_back_is_out_behind_a_stop() {
    let folder = folder();
    let (_, paths, settings) = array(folder.path(), MetadataPolicy::Log);
    let used = use_array(paths.clone(), settings.clone());
    used.until("whole", is_whole);
    used.stop();
    let before = std::fs::read(&paths[1]).expect("it can be read");
    let mut world = ArrayWorld::start(&paths, &settings, StartOptions::default()).world.expect("it starts");
    world.await_serving(&GO_ON).expect("it serves");
    let member = file_in_use(&paths[1]);
    for (at, bytes) in (0..).step_by(LABEL_BYTES).zip(before.chunks_exact(LABEL_BYTES)) {
        let block = Block(bytes.try_into().expect("a block"));
        member.write_all_at(&block.0, at).expect("it can be written");
    }
    world.stop(&GO_ON).expect("it stops");
    let told = world.status().events;
    drop(world);
    assert!(
        told.iter().any(|event| event.kind == "member-rolled-back" && event.device == Some(1)),
        "{told:?}"
    );
    let after = status_of(&paths, &settings);
    assert_eq!(after.condition, Condition::Degraded);
    assert_eq!(after.devices[1].state, DeviceCondition::Missing);
}

/// Defect: a member that had failed lost its role at the next start, and a free slot was said to be a missing device.
#[test]
fn a_missing_member_keeps_its_role_and_a_free_slot_is_none() {
    let folder = folder();
    let (config, paths, settings) = array(folder.path(), MetadataPolicy::Log);
    let used = use_array(paths.clone(), settings.clone());
    used.until("whole", is_whole);
    used.done(&Command::Fail { device: "2".into() });
    let before = used.until("degraded", |status| status.condition == Condition::Degraded);
    assert_eq!((before.devices[2].state, before.devices[2].role), (DeviceCondition::Missing, Some(2)));
    let uuid = before.devices[2].device_uuid.clone().expect("it had an identity");
    used.stop();

    let after = status_of(&paths, &settings);
    assert_eq!(after.condition, Condition::Degraded);
    let missing = &after.devices[2];
    assert_eq!((missing.state, missing.role), (DeviceCondition::Missing, Some(2)));
    assert_eq!(missing.device_uuid.as_ref(), Some(&uuid));
    for slot in &after.devices[usize::from(config.members)..] {
        assert_eq!((slot.state, slot.role), (DeviceCondition::Empty, None));
    }
}

/// Defect: "optimal, 1 member may fail" while stripes were out of sync: a member that failed then took flushed data along.
#[test]
fn an_array_whose_stripes_are_out_of_sync_does_not_claim_to_survive_a_member() {
    let folder = folder();
    let (_, paths, settings) = array_out_of_sync(folder.path());
    let used = use_array(paths, settings);
    let status = used.until("resyncing", |status| status.condition == Condition::Resyncing);
    assert!(status.out_of_sync_stripes > 0, "{status:?}");
    assert_eq!((status.failures_left, status.lost_blocks), (0, 0));
    used.done(&Command::ScanRate { bytes_per_sec: None });
    assert_eq!(used.until("whole", is_whole).failures_left, 1);
    used.stop();
}

/// The same when the member does fail: what parity in doubt can't make up is told as lost, and not as "degraded" alone.
#[test]
fn what_a_member_took_along_is_told_as_lost() {
    let folder = folder();
    let (config, paths, settings) = array_out_of_sync(folder.path());
    let mut world = ArrayWorld::start(&paths, &settings, StartOptions::default()).world.expect("it starts");
    world.await_serving(&GO_ON).expect("it serves");
    let stripes = world.status().out_of_sync_stripes;
    file(&paths[1]).set_len(0).expect("it can be cut");
    assert!(read_all(&mut world).is_err(), "a member is gone that nothing makes up");
    let status = world.status();
    assert_eq!(status.condition, Condition::DataLost, "{status:?}");
    assert_eq!((status.failures_left, status.devices[1].state), (0, DeviceCondition::Missing));
    let strip_blocks = config.strip_size.get() / config.block_size.bytes();
    // Of each stripe that was not resynced on the way at most one data strip.
    let bounds = 1..=stripes * strip_blocks;
    assert!(bounds.contains(&status.lost_blocks), "{} of {bounds:?}", status.lost_blocks);
}

/// An array of four members over files whose contents are not known, so that all is out of sync while background scans rest.
fn array_out_of_sync(folder: &Path) -> (ArrayConfig, Vec<PathBuf>, RunSettings) {
    let config = keeping("5", 4, MetadataPolicy::Bitmap);
    let paths: Vec<PathBuf> = (0..4).map(|index| folder.join(format!("m{index}"))).collect();
    for path in &paths {
        File::create(path).and_then(|file| file.set_len(16 << 20)).expect("a file of zeros");
    }
    let destroy_data = paths.iter().map(|path| path.display().to_string()).collect();
    let order = CreateOptions { destroy_data, ..options(paths.clone(), Vec::new()) };
    create(&config, &order, &GO_ON, &mut |_, _| {}).expect("an array is made");
    let settings = RunSettings { scan_bytes_per_sec: Some(ByteCount::ZERO), ..RunSettings::of(&config) };
    (config, paths, settings)
}

/// Defect: what happened to an array was gone with its process.
#[test]
fn events_outlive_the_process_with_their_times() {
    let folder = folder();
    let (_, paths, settings) = array(folder.path(), MetadataPolicy::Log);
    let used = use_array(paths.clone(), settings.clone());
    used.until("whole", is_whole);
    used.done(&Command::Fail { device: "1".into() });
    used.until("degraded", |status| status.condition == Condition::Degraded);
    used.done(&replace("1", &folder.path().join("new")));
    let status = used.until("whole", is_whole);
    let path = PathBuf::from(status.history.clone().expect("it is kept"));
    used.stop();

    let read = read_history(&path).expect("it is there");
    let told: Vec<(&str, EventLevel, Option<u16>)> = read
        .lines
        .iter()
        .map(|line| (line.event.kind.as_str(), line.event.level, line.event.device))
        .collect();
    for event in [
        ("serving", EventLevel::Info, None),
        ("member-failed", EventLevel::Error, Some(1)),
        ("member-added", EventLevel::Info, Some(1)),
        ("scan-begun", EventLevel::Info, Some(1)),
        ("scan-ended", EventLevel::Info, Some(1)),
        ("stopped", EventLevel::Info, None),
    ] {
        assert!(told.contains(&event), "{event:?} is not among {told:?}");
    }
    assert!(read.lines.iter().all(|line| line.array == "büro" && line.array_uuid == status.array_uuid));
    assert!(read.lines.windows(2).all(|pair| pair[0].event.time <= pair[1].event.time), "{read:?}");
    // A history that can't be written stops no array.
    let full = RunSettings { history: Some(HistoryPlace::File("/dev/full".into())), ..settings };
    let paths: Vec<PathBuf> = [&paths[..1], &paths[2..], &[folder.path().join("new")]].concat();
    status_of(&paths, &full);
}

/// Nobody may write the file: as root that takes more than its mode.
fn let_nobody_write(path: &Path, may_nobody: bool) {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let file = File::open(path).expect("it can be read");
    if rustix::process::geteuid().is_root() {
        let flags = ioctl_getflags(&file).expect("the file system has flags");
        let flags = if may_nobody { flags | IFlags::IMMUTABLE } else { flags - IFlags::IMMUTABLE };
        ioctl_setflags(&file, flags).expect("root may");
    } else {
        let mode = if may_nobody { 0o444 } else { 0o644 };
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    }
}

/// Defect: a member that could only be read was left out as if it had failed, which cost redundancy; with all of them read only, what
/// looks at them said that they would start.
#[test]
fn members_that_can_only_be_read_are_no_reason_to_start_without_them() {
    let folder = folder();
    let (_, paths, settings) = array(folder.path(), MetadataPolicy::Log);
    for unwritable in [&paths[2..3], &paths] {
        for path in unwritable {
            let_nobody_write(path, true);
        }
        let refused = would_start(&paths, &settings, StartOptions::default()).refused;
        let started = ArrayWorld::start(&paths, &settings, StartOptions::default()).world;
        for path in unwritable {
            let_nobody_write(path, false);
        }
        let error = started.map(drop).expect_err("it is not started").to_string();
        assert!(error.contains("can't be written"), "{error}");
        assert_eq!(refused, Some(error), "both say the same");
    }
    assert_eq!(status_of(&paths, &settings).condition, Condition::Optimal, "nothing was lost by it");
}

/// Defects: a device that was named twice was waited for as if somebody else had it; any file took the lines of a history, a member too.
#[test]
fn names_that_can_not_be_meant_are_refused_before_anything_is_touched() {
    let folder = folder();
    let (_, paths, settings) = array(folder.path(), MetadataPolicy::Log);
    let alias = folder.path().join("alias");
    std::os::unix::fs::symlink(&paths[0], &alias).expect("a link");
    let refusal = |paths: &[PathBuf], settings: &RunSettings| {
        let refused = would_start(paths, settings, StartOptions::default()).refused;
        let started = ArrayWorld::start(paths, settings, StartOptions::default()).world;
        let error = started.map(drop).expect_err("it is not started").to_string();
        assert_eq!(refused.as_ref(), Some(&error), "both say the same");
        error
    };
    let twice = [&paths[..], &[alias]].concat();
    assert!(refusal(&twice, &settings).contains("alias is named twice"));

    let other = folder.path().join("notes");
    std::fs::write(&other, "mine\n").expect("it can be written");
    let beside = folder.path().join("kept");
    std::fs::write(folder.path().join("kept.1"), "mine\n").expect("it can be written");
    for wrong in [&other, &beside, &paths[0], &folder.path().to_owned()] {
        let settings = RunSettings { history: Some(HistoryPlace::File(wrong.clone())), ..settings.clone() };
        assert!(refusal(&paths, &settings).contains("is no history of an array"), "{}", wrong.display());
    }
    assert_eq!(std::fs::read_to_string(other).expect("it is there"), "mine\n");
    let own = RunSettings { history: Some(HistoryPlace::File(folder.path().join("own"))), ..settings };
    for _ in 0..2 {
        status_of(&paths, &own);
    }
}

/// What a creation that was killed may have left of three members.
fn left_over(folder: &Path, state: &str) -> Vec<PathBuf> {
    let config = keeping("5", 3, MetadataPolicy::Log);
    let paths = make(folder, &config, 0);
    let mut label = vec![0; LABEL_BYTES];
    file(&paths[0]).read_exact_at(&mut label, 0).expect("it can be read");
    let array_uuid = Label::decode(&label).expect("it is labelled").array_uuid;
    let unlabel = |path: &Path| {
        let mut mark = vec![0; LABEL_BYTES];
        Unfinished { array_uuid }.encode(&mut mark);
        file(path).write_all_at(&mark, 0).expect("it can be written");
        file(path).write_all_at(&[0; LABEL_BYTES], tail_at(path)).expect("it can be written");
    };
    match state {
        "before the labels" => paths.iter().for_each(|path| unlabel(path)),
        "among the labels" => unlabel(&paths[2]),
        "while files were made" => {
            unlabel(&paths[0]);
            file(&paths[1]).set_len(0).expect("it can be cut");
            std::fs::remove_file(&paths[2]).expect("it can be removed");
        }
        other => unreachable!("{other}"),
    }
    paths
}

/// Defect: a `create` that was killed left files that the next one refused.
#[test]
fn what_a_killed_creation_left_is_made_again_and_nothing_else_is() {
    let config = ArrayConfig { member_size: ByteCount::from_mib(4), ..keeping("5", 3, MetadataPolicy::Log) };
    let again =
        |paths: &[PathBuf]| create(&config, &options(paths.to_vec(), Vec::new()), &GO_ON, &mut |_, _| {});
    for state in ["before the labels", "among the labels", "while files were made"] {
        let folder = folder();
        let paths = left_over(folder.path(), state);
        let made = again(&paths).unwrap_or_else(|error| panic!("{state}: {error}"));
        assert!(!made.needs_resync, "{state}: all files are new");
        assert!(examine(&paths, StartOptions::default()).refused.is_none(), "{state}");
    }

    // An array that was started without the member that lacks its label is somebody's.
    let folder = folder();
    let used = left_over(folder.path(), "among the labels");
    status_of(&used[..2], &RunSettings::of(&config));
    let before = std::fs::read(&used[0]).expect("it can be read");
    let refused = again(&used).expect_err("two of them hold an array");
    assert!(matches!(refused, CreateError::Safety(_)), "{refused}");
    assert!(std::fs::read(&used[0]).expect("it is there") == before);
    // Another file's mark makes no file its own.
    let folder = super::folder();
    let foreign = left_over(folder.path(), "before the labels");
    std::fs::write(&foreign[1], vec![0x5a; 16 << 20]).expect("it can be written");
    let refused = again(&foreign).expect_err("one of them is somebody's");
    assert!(matches!(refused, CreateError::Safety(_)), "{refused}");
}

/// Defect: a `create` that was killed after the last label could not be repeated.
#[test]
fn a_creation_that_nobody_heard_the_end_of_can_be_repeated() {
    let config = ArrayConfig { member_size: ByteCount::from_mib(4), ..keeping("5", 3, MetadataPolicy::Log) };
    let again = |config: &ArrayConfig, paths: &[PathBuf]| {
        create(config, &options(paths.to_vec(), Vec::new()), &GO_ON, &mut |_, _| {})
    };
    let folder = folder();
    let paths = common::paths(folder.path(), 3);
    let first = again(&config, &paths).expect("it is made");
    let second = again(&config, &paths).expect("it is made again");
    assert!(first.array_uuid != second.array_uuid && !second.needs_resync, "all files are new");
    // Defect: one that was killed while it took these away left some, which the next took for somebody's.
    std::fs::remove_file(&paths[0]).expect("it was made");
    again(&config, &paths).expect("it is made, whichever are left");
    assert!(examine(&paths, StartOptions::default()).refused.is_none());
    // Of a file that was there before and was named, only what is in it may be written over once more.
    let longer = std::fs::metadata(&paths[0]).expect("it is there").len() + (1 << 20);
    for path in &paths[1..] {
        std::fs::remove_file(path).expect("it was made");
    }
    std::fs::write(&paths[0], vec![7; longer as usize]).expect("it can be written");
    let named = CreateOptions {
        destroy_data: vec![paths[0].display().to_string()],
        ..options(paths.clone(), vec![])
    };
    create(&config, &named, &GO_ON, &mut |_, _| {}).expect("it is named");
    assert!(
        matches!(again(&config, &paths), Err(CreateError::Safety(_))),
        "what was there before must be named"
    );
    let third = create(&config, &named, &GO_ON, &mut |_, _| {}).expect("it holds nothing now");
    assert!(third.needs_resync, "what is in the longer one is not known");
    assert_eq!(std::fs::metadata(&paths[0]).expect("it is there").len(), longer);

    // Another array, or one that was started, is somebody's.
    let others = [
        ArrayConfig { strip_size: ByteCount::from_kib(4), ..config.clone() },
        ArrayConfig { level: "0".parse().expect("a level"), ..config.clone() },
    ];
    for other in &others {
        let refused = again(other, &paths).expect_err("it is another array");
        assert!(matches!(refused, CreateError::Safety(_)), "{refused}");
    }
    let mut swapped = paths.clone();
    swapped.swap(0, 1);
    assert!(matches!(again(&config, &swapped), Err(CreateError::Safety(_))), "not in these places");
    assert!(paths.iter().all(|path| path.exists()), "what is refused takes nothing away");
    status_of(&paths, &RunSettings::of(&config));
    let refused = again(&config, &paths).expect_err("it was started");
    assert!(matches!(refused, CreateError::Safety(_)), "{refused}");
    // What keeps nothing does not tell whether it was started.
    let keeps_nothing = keeping("0", 3, MetadataPolicy::None);
    let folder = super::folder();
    let paths = make(folder.path(), &keeps_nothing, 0);
    let sized = ArrayConfig { member_size: ByteCount::from_mib(4), ..keeps_nothing };
    assert!(matches!(again(&sized, &paths), Err(CreateError::Safety(_))));
}
