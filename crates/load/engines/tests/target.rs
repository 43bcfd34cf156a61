//! Opening, laying out and protecting targets.

mod common;

use common::{
    command, folder, is_root, lay_out, named, order, run_quietly, spec, test_file, until, writable,
};
use raidlab_engines::{LoadError, LoadOptions, Target, TargetKind, TargetOptions, lay_out_file};
use raidlab_units::ByteCount;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

#[test]
fn a_test_file_is_fully_written_and_used_again() {
    let folder = folder();
    let path = folder.path().join("file");
    let mut seen = Vec::new();
    let bytes = ByteCount(9 << 20);
    let laid_out =
        lay_out_file(&path, &order(bytes), &AtomicBool::new(false), &mut |step| seen.push(step)).unwrap();
    assert_eq!((laid_out.bytes, laid_out.reused), (bytes, false));
    assert_eq!(seen.last().map(|step| (step.written, step.total)), Some((bytes, bytes)));
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), bytes.get() + 4096);
    assert!(metadata.blocks() * 512 >= metadata.len(), "there are no holes");
    let data = std::fs::read(&path).unwrap();
    let blocks: BTreeSet<&[u8]> = data.chunks(4096).collect();
    assert_eq!(blocks.len(), data.len() / 4096, "no two blocks are alike");
    let ones: u32 = data[..bytes.get() as usize].iter().map(|byte| byte.count_ones()).sum();
    let share = f64::from(ones) / (bytes.get() as f64 * 8.0);
    assert!((0.499..0.501).contains(&share), "bits are even: {share}");

    assert!(lay_out(&path, bytes).unwrap(), "the same order is served already");
    assert!(!lay_out(&path, ByteCount(1 << 20)).unwrap(), "another size is laid out anew");
    assert_eq!(Target::open(&path, &TargetOptions::default()).unwrap().size(), ByteCount(1 << 20));
}

#[test]
fn a_file_with_a_hole_is_laid_out_again() {
    let (_folder, path) = test_file(1);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    if rustix::fs::fallocate(&file, hole, 0, 65_536).is_err() {
        eprintln!("SKIPPED a_file_with_a_hole_is_laid_out_again: this file system punches no holes");
        return;
    }
    assert!(!lay_out(&path, ByteCount::from_mib(1)).unwrap());
}

#[test]
fn a_stopped_lay_out_leaves_no_data() {
    let (_folder, path) = test_file(1);
    let cancel = AtomicBool::new(true);
    let stopped = folder();
    let other = stopped.path().join("stopped");
    let error = lay_out_file(&other, &order(ByteCount::from_mib(1)), &cancel, &mut |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::Cancelled { .. }), "{error}");
    assert!(!other.exists());

    let error = lay_out_file(&path, &order(ByteCount::from_mib(2)), &cancel, &mut |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::Cancelled { .. }), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "what was there before is emptied");
    assert!(!lay_out(&path, ByteCount::from_mib(1)).unwrap(), "and may be laid out again");
}

#[test]
fn foreign_data_is_never_overwritten_unless_named() {
    let folder = folder();
    let path = folder.path().join("thesis");
    std::fs::write(&path, vec![5; 1 << 20]).unwrap();
    let untouched = || assert_eq!(std::fs::read(&path).unwrap(), vec![5; 1 << 20]);

    let error = lay_out(&path, ByteCount::from_mib(1)).unwrap_err();
    assert!(error.to_string().contains("a file that raidlab did not lay out"), "{error}");
    untouched();
    let error = Target::open(&path, &writable()).unwrap_err().to_string();
    assert!(error.contains(&format!("say --destroy-data '{}'", path.display())), "{error}");
    let wrong = TargetOptions { destroy_data: Some("thesis".into()), ..writable() };
    let error = Target::open(&path, &wrong).unwrap_err().to_string();
    assert!(error.contains("(--destroy-data 'thesis' does not name it)"), "{error}");
    let mut too_large = order(ByteCount(1 << 60));
    too_large.destroy_data = Some(path.display().to_string());
    let error = lay_out_file(&path, &too_large, &AtomicBool::new(false), &mut |_| {}).unwrap_err();
    assert!(matches!(error, LoadError::NoSpace { .. }), "{error}");
    untouched();
    assert!(!Target::open(&path, &TargetOptions::default()).unwrap().may_write(), "reading is free");

    assert!(Target::open(&path, &named(&path)).unwrap().may_write());
    let mut allowed = order(ByteCount::from_mib(1));
    allowed.destroy_data = Some(path.display().to_string());
    assert!(!lay_out_file(&path, &allowed, &AtomicBool::new(false), &mut |_| {}).unwrap().reused);
}

#[test]
fn open_lays_out_what_is_missing_and_only_that() {
    let folder = folder();
    let sized = |mib| TargetOptions { lay_out: Some(ByteCount::from_mib(mib)), ..writable() };
    let path = folder.path().join("new");
    for mib in [1, 2, 2] {
        assert_eq!(Target::open(&path, &sized(mib)).unwrap().size(), ByteCount::from_mib(mib));
    }
    let foreign = folder.path().join("foreign");
    std::fs::write(&foreign, vec![1; 1 << 20]).unwrap();
    let error = Target::open(&foreign, &sized(2)).unwrap_err();
    assert!(error.to_string().contains("exists with 1 MiB, not the 2 MiB asked for"), "{error}");
    let reading = TargetOptions { may_write: false, ..sized(1) };
    assert_eq!(Target::open(&foreign, &reading).unwrap().size(), ByteCount::from_mib(1));
}

#[test]
fn what_is_no_target_is_refused_with_advice() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("empty"), "").unwrap();
    std::fs::write(at("file"), vec![0; 8192]).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let sized = |bytes| TargetOptions { lay_out: Some(ByteCount(bytes)), ..TargetOptions::default() };
    let plain = TargetOptions::default();
    let rows = [
        (at("missing"), plain.clone(), "cannot find"),
        (at("missing"), plain.clone(), "give a size to have a test file laid out there"),
        (at("no/folder"), sized(4096), "cannot create"),
        (folder.path().to_owned(), plain.clone(), "give a size to have a test file laid out there"),
        ("/dev/null".into(), plain.clone(), "is a character device"),
        (at("pipe"), plain.clone(), "is a pipe"),
        (at("empty"), plain, "holds 0 B"),
        (at("new"), sized(0), "give a multiple of 4096 above zero"),
        (at("new"), sized(5000), "give a multiple of 4096 above zero"),
        (at("new"), sized(1 << 60), "no room for"),
    ];
    for (path, options, expected) in rows {
        let error = Target::open(&path, &options).unwrap_err().to_string();
        assert!(error.contains(expected), "{}: {error}", path.display());
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
    assert!(!at("new").exists(), "a lay-out that can't fit leaves nothing behind");
}

#[test]
fn no_space_names_what_is_needed_and_what_there_is() {
    let folder = folder();
    let path = folder.path().join("huge");
    match lay_out(&path, ByteCount(1 << 59)) {
        Err(LoadError::NoSpace { path: named, needed, available }) => {
            assert_eq!((named, needed), (path.clone(), ByteCount((1 << 59) + 4096)));
            assert!(available > ByteCount::ZERO && available < needed);
        }
        other => panic!("{other:?}"),
    }
    assert!(!path.exists());
}

/// A loop device over a file, gone with this value.
struct LoopDevice(String);

impl LoopDevice {
    fn over(image: &Path) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let image = image.display().to_string();
        command(&["losetup", "--find", "--show", &image]).map(Self)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        command(&["losetup", "--detach", &self.0]);
    }
}

#[test]
fn block_devices_are_loaded_and_protected() {
    let folder = folder();
    let image = folder.path().join("image");
    std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let Some(device) = LoopDevice::over(&image) else {
        eprintln!("SKIPPED block_devices_are_loaded_and_protected: loop devices need root and losetup");
        return;
    };
    let path = Path::new(&device.0);
    let target = Target::open(path, &TargetOptions::default()).unwrap();
    assert_eq!((target.kind(), target.size()), (TargetKind::BlockDevice, ByteCount::from_mib(8)));
    run_quietly(&target, &spec(4096, 100, 100), &until(&target, 4, 100), &LoadOptions::default()).unwrap();

    let refusal = |options: &TargetOptions| Target::open(path, options).unwrap_err().to_string();
    assert!(refusal(&writable()).contains("whatever this device holds"));
    // A run leaves no claim behind: the next one can have the device at once.
    for _ in 0..5 {
        let target = Target::open(path, &named(path)).unwrap();
        let config = until(&target, 4, 200);
        let outcome = run_quietly(&target, &spec(4096, 50, 100), &config, &LoadOptions::default()).unwrap();
        let (read, write) = (&outcome.measurement.ops.read, &outcome.measurement.ops.write);
        assert!(write.requests > 50 && read.requests + write.requests == 200, "{outcome:?}");
    }

    let below = Target::open(&image, &named(&image)).unwrap_err().to_string();
    assert!(below.contains("is held by loop"), "{below}");

    if command(&["mkfs.ext4", "-q", "-F", &device.0]).is_none() {
        eprintln!("SKIPPED the rest of block_devices_are_loaded_and_protected: there is no mkfs.ext4");
        return;
    }
    assert!(
        refusal(&named(path)).contains("would destroy ext4 (mark at byte 1080)"),
        "{}",
        refusal(&named(path))
    );
    let named_fully = TargetOptions { destroy_data: Some(format!("{}:ext4", device.0)), ..writable() };
    drop(Target::open(path, &named_fully).unwrap());

    let mount_point = folder.path().join("mnt").display().to_string();
    std::fs::create_dir(&mount_point).unwrap();
    assert!(command(&["mount", &device.0, &mount_point]).is_some());
    let mounted = Target::open(path, &named_fully).map(drop);
    command(&["umount", &mount_point]);
    let mounted = mounted.unwrap_err().to_string();
    assert!(mounted.contains(&format!("is mounted (ext4) on '{mount_point}'")), "{mounted}");
}
