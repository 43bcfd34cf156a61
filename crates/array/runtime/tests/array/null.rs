//! Arrays over members that store nothing.

use crate::{common, serve};
use raidlab_controller::{ArrayConfig, HostError, MetadataPolicy, Resilience, WritePolicy};
use raidlab_format::ArrayName;
use raidlab_runtime::{ArrayError, ArrayWorld, CreateError, CreateOptions, RunSettings, ScriptOp, create};
use raidlab_units::{BlockCount, Lba, MemberIndex};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

fn config(level: &str) -> ArrayConfig {
    let resilience = Resilience { metadata: MetadataPolicy::None, ..Resilience::default() };
    ArrayConfig { resilience, ..common::config(level, 1, WritePolicy::WriteThrough) }
}

fn start(config: &ArrayConfig, members: &[&str]) -> Result<ArrayWorld, ArrayError> {
    let members: Vec<PathBuf> = members.iter().map(PathBuf::from).collect();
    let name = ArrayName::new("null").expect("a name");
    ArrayWorld::start_null(name, &members, config, &RunSettings::of(config))
}

#[test]
fn reads_give_zeros_whatever_was_written_also_with_a_member_missing() {
    for (level, volume) in [("0", 4 << 20), ("1", 1 << 20), ("5", 3 << 20), ("6", 2 << 20), ("10", 2 << 20)] {
        let members = if level == "1" { &["null:1MiB", "null:1MiB"][..] } else { &["null:1MiB"; 4] };
        let mut world = start(&config(level), members).expect("it starts");
        assert_eq!(world.volume_bytes().get(), volume, "{level}");
        let script: Vec<ScriptOp> = [
            ScriptOp::Write { lba: Lba(3), bytes: vec![7; 9 * 4096], fua: true },
            ScriptOp::Flush,
            ScriptOp::Read { lba: Lba(0), blocks: BlockCount(20) },
        ]
        .into();
        let zeros = |world: &mut ArrayWorld| {
            let ended: Result<Vec<_>, HostError> = serve(world, &script, 1).into_iter().collect();
            let read = ended.expect("all is done").pop().expect("the read is last");
            assert_eq!(read, vec![0; 20 * 4096], "{level}");
        };
        zeros(&mut world);
        if level != "0" {
            world.fail_member(MemberIndex(0)).expect("a member can be failed");
            zeros(&mut world);
        }
    }
}

#[test]
fn an_array_that_would_keep_something_on_them_is_refused() {
    let resilience = Resilience { metadata: MetadataPolicy::Bitmap, ..Resilience::default() };
    let keeps = ArrayConfig { resilience, ..config("5") };
    let refused = start(&keeps, &["null:1MiB"; 3]).expect_err("it keeps metadata");
    assert!(matches!(refused, ArrayError::KeepsOnNull { .. }), "{refused}");
    for other in ["member", "null:", "null:x", "./null:1MiB", "/dev/null"] {
        let refused = start(&config("0"), &["null:1MiB", other]).expect_err("no null member");
        assert!(matches!(refused, ArrayError::NotNull { .. }), "{refused}");
    }
    let members = vec![PathBuf::from("null:64MiB"); 3];
    let options = CreateOptions { members, ..CreateOptions::default() };
    let made =
        create(&ArrayConfig { members: 3, ..config("5") }, &options, &AtomicBool::new(false), &mut |_, _| {});
    assert!(matches!(made, Err(CreateError::Device(_))), "{made:?}");
    assert!(!PathBuf::from("null:64MiB").exists());
}
