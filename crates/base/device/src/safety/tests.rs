//! The decision against invented systems: a sysfs in a temporary folder, invented mount and swap tables.

use super::*;
use std::fs::{create_dir_all, write};
use std::os::unix::fs::symlink;

const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
const SDA1: DeviceId = DeviceId { major: 8, minor: 1 };
const SDA2: DeviceId = DeviceId { major: 8, minor: 2 };
const DM0: DeviceId = DeviceId { major: 253, minor: 0 };

/// A disk sda with partitions sda1 and sda2; dm-0 lies on sda2.
fn made_up_sysfs() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    for (home, number) in [
        ("devices/pci/sda", "8:0"),
        ("devices/pci/sda/sda1", "8:1"),
        ("devices/pci/sda/sda2", "8:2"),
        ("devices/virtual/dm-0", "253:0"),
    ] {
        for folder in ["holders", "slaves"] {
            create_dir_all(at(home).join(folder)).unwrap();
        }
        write(at(home).join("dev"), format!("{number}\n")).unwrap();
        create_dir_all(at("dev/block")).unwrap();
        symlink(at(home), at("dev/block").join(number)).unwrap();
    }
    for partition in ["1", "2"] {
        write(at("devices/pci/sda/sda").display().to_string() + partition + "/partition", partition).unwrap();
    }
    symlink(at("devices/virtual/dm-0"), at("devices/pci/sda/sda2/holders/dm-0")).unwrap();
    symlink(at("devices/pci/sda/sda2"), at("devices/virtual/dm-0/slaves/sda2")).unwrap();
    create_dir_all(at("block/loop3/loop")).unwrap();
    write(at("block/loop3/loop/backing_file"), "/images/disk one.img\n").unwrap();
    create_dir_all(at("block/loop4")).unwrap();
    root
}

#[test]
fn relatives_are_found_in_sysfs() {
    let sysfs = made_up_sysfs();
    let kin = |id| {
        let family = Family::read(sysfs.path(), id).unwrap();
        family.relatives.iter().map(|one| (one.kin, one.name.clone())).collect::<Vec<_>>()
    };
    let named =
        |list: &[(Kin, &str)]| list.iter().map(|(kin, name)| (*kin, (*name).to_owned())).collect::<Vec<_>>();
    assert_eq!(kin(SDA), named(&[(Kin::Itself, "sda"), (Kin::Partition, "sda1"), (Kin::Partition, "sda2")]));
    assert_eq!(kin(SDA1), named(&[(Kin::Itself, "sda1"), (Kin::WholeDisk, "sda")]));
    assert_eq!(kin(DM0), named(&[(Kin::Itself, "dm-0"), (Kin::Below, "sda2")]));
    assert!(Family::read(sysfs.path(), DeviceId { major: 9, minor: 9 }).is_err());
}

/// Name, device in question, mount table, swaps, what is found.
type Row<'a> = (&'a str, DeviceId, String, &'a [DeviceId], Option<&'a str>);

#[test]
fn use_is_found_on_the_device_and_its_relatives() {
    let sysfs = made_up_sysfs();
    let mounted = |id: DeviceId| format!("27 1 {}:{} / /mnt rw - ext4 /dev/x rw\n", id.major, id.minor);
    let rows: [Row<'_>; 11] = [
        ("nothing is used", SDA1, String::new(), &[], None),
        ("itself mounted", SDA1, mounted(SDA1), &[], Some("sda1 is mounted (ext4) on '/mnt'")),
        ("another one mounted", SDA1, mounted(SDA2), &[], None),
        ("whole disk mounted", SDA1, mounted(SDA), &[], Some("sda is mounted (ext4) on '/mnt'")),
        ("partition mounted", SDA, mounted(SDA1), &[], Some("sda1 is mounted (ext4) on '/mnt'")),
        ("partition is swap", SDA, String::new(), &[SDA1], Some("sda1 is in use as swap")),
        ("partition is held", SDA, String::new(), &[], Some("sda2 is held by dm-0")),
        ("itself is held", SDA2, String::new(), &[], Some("sda2 is held by dm-0")),
        ("holding is no use of the holder", DM0, String::new(), &[], None),
        ("what lies below is mounted", DM0, mounted(SDA2), &[], Some("sda2 is mounted (ext4) on '/mnt'")),
        ("itself is swap", DM0, String::new(), &[DM0], Some("dm-0 is in use as swap")),
    ];
    for (name, id, mounts, swaps, expected) in rows {
        let family = Family::read(sysfs.path(), id).unwrap();
        let found = find_use(&family, &parse_mountinfo(&mounts, &|_| None), swaps);
        assert_eq!(found.map(|used| used.to_string()).as_deref(), expected, "{name}");
    }
}

#[test]
fn a_mount_counts_by_what_it_was_mounted_from_too() {
    let sysfs = made_up_sysfs();
    let family = Family::read(sysfs.path(), SDA1).unwrap();
    let text = "40 1 0:45 / /home rw - btrfs /dev/sda1 rw\n";
    let resolve = |path: &str| (path == "/dev/sda1").then_some(SDA1);
    assert!(find_use(&family, &parse_mountinfo(text, &resolve), &[]).is_some());
}

#[test]
fn a_file_under_a_loop_device_is_held() {
    let sysfs = made_up_sysfs();
    let over = |file: &str| loop_device_over(sysfs.path(), Path::new(file)).unwrap();
    assert_eq!(over("/images/disk one.img").as_deref(), Some("loop3"));
    assert_eq!(over("/images/disk"), None);
}

/// A system without swap and mounts over the made-up sysfs.
fn check<'a>(path: &'a Path, file: &'a File, named: Option<&'a str>, root: &Path) -> Check<'a> {
    Check { path, file, destroy_data: named, system: System { proc: root.join("proc"), sysfs: root.into() } }
}

#[test]
fn a_file_may_be_written_when_empty_own_or_named() {
    let sysfs = made_up_sysfs();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let own = [
        vec![1; 4096],
        Trailer { complete: false, data_bytes: raidlab_units::ByteCount(4096), seed: 1 }.encode().to_vec(),
    ]
    .concat();
    let name = path.display().to_string();
    let folder_name = folder.path().display().to_string();
    let rows: [(&[u8], Option<&str>, bool); 7] = [
        (b"", None, true),
        (&own, None, true),
        (&own[..8191], None, false),
        (b"data", None, false),
        (b"data", Some("file"), false),
        (b"data", Some(&folder_name), false),
        (b"data", Some(&name), true),
    ];
    for (data, named, allowed) in rows {
        write(&path, data).unwrap();
        let file = File::open(&path).unwrap();
        let result = check(&path, &file, named, sysfs.path()).run();
        assert_eq!(result.is_ok(), allowed, "{} bytes, named {named:?}: {result:?}", data.len());
        if let Err(error) = result {
            assert!(error.to_string().contains(&format!("--destroy-data '{name}'")), "{error}");
        }
    }
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    let file = File::open(&link).unwrap();
    let full = path.canonicalize().unwrap().display().to_string();
    assert!(check(&link, &file, Some(&full), sysfs.path()).run().is_ok(), "the full path names it too");
}

#[test]
fn a_swap_file_is_never_written_even_if_named() {
    let sysfs = made_up_sysfs();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("swap file");
    write(&path, b"data").unwrap();
    create_dir_all(sysfs.path().join("proc")).unwrap();
    let escaped = path.display().to_string().replace(' ', "\\040");
    write(sysfs.path().join("proc/swaps"), format!("Filename Type\n{escaped} file 1 0 -2\n")).unwrap();
    let name = path.display().to_string();
    let result = check(&path, &File::open(&path).unwrap(), Some(&name), sysfs.path()).run();
    assert!(matches!(result, Err(SafetyError::InUse { used: Use::Swap { .. }, .. })), "{result:?}");
}

#[test]
fn other_things_than_storage_are_refused() {
    let sysfs = made_up_sysfs();
    for (path, kind) in [("/dev/null", "a character device"), ("/", "a directory")] {
        let result = check(Path::new(path), &File::open(path).unwrap(), Some(path), sysfs.path()).run();
        assert!(result.unwrap_err().to_string().contains(kind), "{path}");
    }
}

#[test]
fn a_file_of_zeros_that_raidlab_did_not_make_must_be_named() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("disk");
    let hole = File::options().create_new(true).read(true).write(true).open(&path).expect("it can be made");
    hole.set_len(3 << 20).expect("it can be made longer");
    for what in ["a hole from end to end", "zeros that were written"] {
        let refused = permit_write(&path, &hole, None).expect_err(what);
        assert!(matches!(refused, SafetyError::NotNamed { .. }), "{what}: {refused}");
        permit_write(&path, &hole, path.to_str()).expect("it was named");
        hole.write_all_at(&vec![0; 3 << 20], 0).expect("it can be written");
    }
}

#[test]
fn a_file_that_another_program_has_locked_is_refused_even_when_named() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("member");
    write(&path, [1; 4096]).expect("it can be written");
    let open = || File::open(&path).expect("it is there");
    let name = path.to_str().expect("a name in UTF-8");
    let owner = open();
    flock(&owner, FlockOperation::NonBlockingLockExclusive).expect("nobody else has it");
    let refused = permit_write(&path, &open(), Some(name)).expect_err("it is in use");
    assert!(matches!(refused, SafetyError::InUse { used: Use::Locked { .. }, .. }), "{refused}");
    assert!(share_file(&path, &open()).is_err());
    drop(owner);
    let (looked_at, one, other) = (open(), open(), open());
    permit_write(&path, &looked_at, Some(name)).expect("it was named");
    share_file(&path, &one).expect("it may be loaded");
    share_file(&path, &other).expect("by several");
    assert!(
        flock(open(), FlockOperation::NonBlockingLockExclusive).is_err(),
        "no array may take it meanwhile"
    );
    drop((one, other));
    flock(open(), FlockOperation::NonBlockingLockExclusive).expect("a look locks nothing");
}

#[test]
fn what_a_file_holds_is_named_where_it_is_known() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("image");
    write(&path, [&b"XFSB"[..], &[7; 4096]].concat()).expect("it can be written");
    let file = File::open(&path).expect("it is there");
    let refused = permit_write(&path, &file, None).expect_err("it holds data").to_string();
    assert!(refused.contains("did not lay out, with xfs (mark at byte 0)"), "{refused}");
    permit_write(&path, &file, path.to_str()).expect("a file is named by its path alone");
}
