//! Arrays over loop devices, which are block devices like any other: safety, exclusive use, and service.
//!
//! Needs root and free loop devices; without them the test says so and does nothing.

use super::common::Random;
use super::real::{keeping, options};
use super::{GO_ON, folder, read_all, serve};
use raidlab_controller::{ArrayConfig, MetadataPolicy};
use raidlab_device::safety::SafetyError;
use raidlab_format::StartOptions;
use raidlab_runtime::{
    ArrayError, ArrayWorld, CreateError, CreateOptions, DeviceError, RunSettings, ScriptOp, create, examine,
};
use raidlab_units::{ByteCount, Lba};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Loop devices over files of a folder, detached at the end.
pub(super) struct Loops {
    pub(super) devices: Vec<PathBuf>,
}

impl Drop for Loops {
    fn drop(&mut self) {
        for device in &self.devices {
            let _ = Command::new("losetup").arg("-d").arg(device).status();
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output =
        Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// Makes `count` loop devices, or says why there are none.
fn loops(folder: &Path, count: usize) -> Option<Loops> {
    let mut loops = Loops { devices: Vec::new() };
    for index in 0..count {
        let file = folder.join(format!("disk-{index}"));
        let made = std::fs::File::create(&file).and_then(|file| file.set_len(12 << 20));
        made.expect("a file can be made");
        loops.devices.append(&mut loop_over(&file)?.devices);
    }
    Some(loops)
}

/// A loop device over a file, or says why there is none.
pub(super) fn loop_over(file: &Path) -> Option<Loops> {
    match run("losetup", &["--find", "--show", &file.display().to_string()]) {
        Ok(device) => Some(Loops { devices: vec![device.into()] }),
        Err(reason) => {
            eprintln!("skipped: no loop devices here: {reason}");
            None
        }
    }
}

fn array() -> ArrayConfig {
    let mut config = keeping("5", 3, MetadataPolicy::Log);
    config.member_size = ByteCount::ZERO;
    config
}

#[test]
fn an_array_over_block_devices_is_made_with_care_and_has_them_for_itself() {
    let folder = folder();
    let Some(loops) = loops(folder.path(), 3) else { return };
    let names: Vec<String> = loops.devices.iter().map(|device| device.display().to_string()).collect();
    run("mkfs.ext4", &["-q", &names[1]]).expect("a file system can be made");
    let made = |destroy_data: Vec<String>| {
        let order = CreateOptions { destroy_data, ..options(loops.devices.clone(), vec![]) };
        create(&array(), &order, &GO_ON, &mut |_, _| {})
    };
    for named in [vec![], names.clone()] {
        let error = made(named.clone()).expect_err("not all are named with what they hold");
        assert!(matches!(error, CreateError::Safety(SafetyError::NotNamed { .. })), "{named:?}: {error}");
    }
    let mut named = names.clone();
    named[1] += ":ext4";
    let created = made(named.clone()).expect("all are named");
    assert!(created.needs_resync);
    let error = made(named).expect_err("they are devices of an array now");
    assert!(error.to_string().contains("raidlab"), "{error}");
    let settings = RunSettings::of(&created.config);
    let mut world =
        ArrayWorld::start(&loops.devices, &settings, StartOptions::default()).world.expect("it starts");
    let bytes = Random(2).bytes(world.volume_bytes().get());
    let write = ScriptOp::Write { lba: Lba(0), bytes: bytes.clone(), fua: true };
    assert!(serve(&mut world, &[write], 1)[0].is_ok());
    assert!(
        examine(&loops.devices, StartOptions::default()).array.is_some(),
        "it can be looked at while it runs"
    );
    let second = ArrayWorld::start(&loops.devices, &settings, StartOptions::default()).world;
    let error = second.expect_err("the devices are taken");
    assert!(matches!(error, ArrayError::Device(DeviceError::InUse { .. })), "{error}");
    world.stop(&GO_ON).expect("it stops");
    drop(world);
    // What a partitioner or a file system leaves at the front.
    run("dd", &["if=/dev/zero", &format!("of={}", names[0]), "bs=64k", "count=1", "oflag=direct"])
        .expect("written");
    let report = examine(&loops.devices, StartOptions::default());
    assert!(report.devices[0].mended, "{report:?}");
    let mut world =
        ArrayWorld::start(&loops.devices, &settings, StartOptions::default()).world.expect("it starts");
    assert!(read_all(&mut world) == Ok(bytes));
    world.stop(&GO_ON).expect("it stops");
}
