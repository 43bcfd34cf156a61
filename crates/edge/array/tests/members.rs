//! Making, opening and removing member files, and every way in which that is refused.

use raidlab_array::{CreateOptions, DATA_OFFSET_BYTES, Existing, Members, MembersError};
use raidlab_units::{ByteCount, MemberIndex};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: ByteCount = ByteCount::from_kib(2052);
const REFUSE: CreateOptions = CreateOptions { member_bytes: SIZE, existing: Existing::Refuse };
const REPLACE: CreateOptions = CreateOptions { member_bytes: SIZE, existing: Existing::ReplaceScratch };

fn create(paths: &[PathBuf], options: &CreateOptions) -> Result<Members, MembersError> {
    Members::create(paths, options, &AtomicBool::new(false), &mut |_, _| {})
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for the test")
}

#[test]
fn members_are_allocated_zero_and_open_again() {
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 3);
    let mut reports = Vec::new();
    let cancel = AtomicBool::new(false);
    let made = Members::create(&paths, &REFUSE, &cancel, &mut |done, all| reports.push((done, all)));
    assert_eq!(made.expect("members can be made").count(), 3);
    let all = ByteCount(3 * SIZE.get());
    assert_eq!(reports.last(), Some(&(all, all)), "progress ends with all bytes");
    for path in &paths {
        let facts = std::fs::metadata(path).expect("the file is there");
        assert_eq!(facts.len(), SIZE.get() + DATA_OFFSET_BYTES);
        assert!(facts.blocks() * 512 >= facts.len(), "every block is allocated");
        let bytes = std::fs::read(path).expect("the file can be read");
        assert!(bytes[DATA_OFFSET_BYTES as usize..].iter().all(|byte| *byte == 0));
    }
    let opened = Members::open(&paths).expect("what was made can be opened");
    assert_eq!(opened.data_bytes(MemberIndex(2)), SIZE);
    assert_eq!(opened.path(MemberIndex(1)), paths[1]);
    opened.remove().expect("members can be removed");
    assert!(paths.iter().all(|path| !path.exists()));
}

#[test]
fn clearing_makes_members_zero_again() {
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 2);
    let mut members = create(&paths, &REFUSE).expect("members can be made");
    let mut bytes = std::fs::read(&paths[1]).expect("the file can be read");
    bytes[DATA_OFFSET_BYTES as usize..].fill(7);
    std::fs::write(&paths[1], &bytes).expect("the file can be written");
    members.clear(&AtomicBool::new(false), &mut |_, _| {}).expect("members can be cleared");
    let bytes = std::fs::read(&paths[1]).expect("the file can be read");
    assert!(bytes[DATA_OFFSET_BYTES as usize..].iter().all(|byte| *byte == 0));
    drop(members);
    Members::open(&paths).expect("the marks are still there");
}

#[test]
fn files_in_the_way_are_replaced_only_if_they_are_scratch_members_and_that_is_allowed() {
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 2);
    create(&paths, &REFUSE).expect("members can be made");
    assert!(matches!(create(&paths, &REFUSE), Err(MembersError::Exists { path }) if path == paths[0]));
    create(&paths, &REPLACE).expect("scratch members are replaced");
    let foreign = b"somebody's letters";
    std::fs::write(&paths[1], foreign).expect("the file can be written");
    assert!(matches!(create(&paths, &REPLACE), Err(MembersError::Foreign { path }) if path == paths[1]));
    assert_eq!(std::fs::read(&paths[1]).expect("the file is still there"), foreign);
    std::fs::remove_file(&paths[1]).expect("the file can be removed");
    std::fs::create_dir(&paths[1]).expect("a folder can be made");
    assert!(matches!(create(&paths, &REPLACE), Err(MembersError::Foreign { path }) if path == paths[1]));
}

#[test]
fn a_replaced_member_behind_a_link_is_refused() {
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 1);
    let target = folder.path().join("target");
    create(std::slice::from_ref(&target), &REFUSE).expect("a member can be made");
    std::os::unix::fs::symlink(&target, &paths[0]).expect("a link can be made");
    assert!(matches!(create(&paths, &REPLACE), Err(MembersError::Foreign { .. })));
    assert!(target.exists());
}

type Check = fn(&MembersError) -> bool;

#[test]
fn what_can_not_be_made_is_refused_and_leaves_nothing_behind() {
    let folder = folder();
    let inside = Members::paths_in(folder.path(), 2);
    let with_size = |bytes| CreateOptions { member_bytes: ByteCount(bytes), existing: Existing::Refuse };
    let rows: Vec<(&str, Vec<PathBuf>, CreateOptions, Check)> = vec![
        ("no members", vec![], REFUSE, |e| matches!(e, MembersError::NoMembers)),
        ("one path twice", vec![inside[0].clone(), inside[0].clone()], REFUSE, |e| {
            matches!(e, MembersError::NamedTwice { .. })
        }),
        ("no size", inside.clone(), with_size(0), |e| matches!(e, MembersError::BadSize { .. })),
        ("half a page", inside.clone(), with_size(4096 + 512), |e| matches!(e, MembersError::BadSize { .. })),
        ("beyond any file", inside.clone(), with_size(u64::MAX - 4095), |e| {
            matches!(e, MembersError::BadSize { .. })
        }),
        (
            "a full disk",
            inside.clone(),
            with_size(1 << 60),
            |e| matches!(e, MembersError::NoSpace { needed, available, .. } if needed > available && available.get() > 0),
        ),
        (
            "a missing folder",
            Members::paths_in(&folder.path().join("absent"), 1),
            REFUSE,
            |e| matches!(e, MembersError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound),
        ),
        ("a folder that nobody can write", Members::paths_in(Path::new("/proc"), 1), REFUSE, |e| {
            matches!(e, MembersError::Io { .. } | MembersError::NoSpace { .. })
        }),
    ];
    for (name, paths, options, check) in rows {
        let error = create(&paths, &options).expect_err(name);
        assert!(check(&error), "{name}: {error:?}");
        assert!(!error.to_string().is_empty());
        assert!(paths.iter().all(|path| !path.exists()), "{name} leaves a file");
    }
}

#[test]
fn the_second_member_counts_with_the_first_for_space() {
    let folder = folder();
    let space = rustix::fs::statvfs(folder.path()).expect("the filesystem answers");
    let three_fifths = space.f_bavail * space.f_frsize / 5 * 3 / 4096 * 4096;
    let options = CreateOptions { member_bytes: ByteCount(three_fifths), existing: Existing::Refuse };
    let paths = Members::paths_in(folder.path(), 2);
    let error = create(&paths, &options).expect_err("two do not fit where one does");
    assert!(matches!(&error, MembersError::NoSpace { path, .. } if path == &paths[1]), "{error:?}");
}

#[test]
fn a_stopped_creation_leaves_nothing_behind() {
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 2);
    let cancel = AtomicBool::new(false);
    let options = CreateOptions { member_bytes: ByteCount::from_mib(64), ..REFUSE };
    let stop = &mut |_, _| cancel.store(true, Ordering::Relaxed);
    assert!(matches!(Members::create(&paths, &options, &cancel, stop), Err(MembersError::Cancelled)));
    assert!(paths.iter().all(|path| !path.exists()));
}

#[test]
fn only_whole_members_of_one_set_in_order_are_opened() {
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 3);
    create(&paths, &REFUSE).expect("members can be made");
    let others: Vec<PathBuf> = (0..3).map(|index| folder.path().join(format!("other-{index}"))).collect();
    create(&others, &REFUSE).expect("members can be made");
    let wrong_place = [
        vec![paths[1].clone(), paths[0].clone(), paths[2].clone()],
        vec![paths[0].clone(), paths[1].clone()],
        vec![paths[0].clone(), others[1].clone(), paths[2].clone()],
    ];
    for list in wrong_place {
        let error = Members::open(&list).expect_err("the wrong files");
        assert!(matches!(error, MembersError::WrongPlace { .. }), "{error:?}");
    }
    let file = std::fs::OpenOptions::new().write(true).open(&paths[2]).expect("the file can be opened");
    file.set_len(SIZE.get()).expect("the file can be cut");
    assert!(matches!(Members::open(&paths), Err(MembersError::WrongLength { .. })));
    std::fs::write(&paths[2], [0; 8192]).expect("the file can be written");
    assert!(matches!(Members::open(&paths), Err(MembersError::NotAMember { .. })));
    std::fs::remove_file(&paths[2]).expect("the file can be removed");
    assert!(matches!(Members::open(&paths), Err(MembersError::Io { .. })));
}

#[test]
fn a_member_whose_creation_was_interrupted_is_not_opened_but_can_be_replaced() {
    use std::os::unix::fs::FileExt;
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 1);
    create(&paths, &REFUSE).expect("a member can be made");
    let file = std::fs::OpenOptions::new().write(true).open(&paths[0]).expect("the file can be opened");
    file.write_all_at(&1_u32.to_le_bytes(), 20).expect("the state can be written");
    let error = Members::open(&paths).expect_err("an unfinished member is refused");
    assert!(matches!(error, MembersError::NotAMember { reason, .. } if reason.contains("interrupted")));
    create(&paths, &REPLACE).expect("an unfinished member is replaced");
    Members::open(&paths).expect("the new one is whole");
}

#[test]
fn a_member_in_use_is_neither_opened_nor_replaced() {
    let folder = folder();
    let paths = Members::paths_in(folder.path(), 2);
    let members = create(&paths, &REFUSE).expect("members can be made");
    assert!(matches!(Members::open(&paths), Err(MembersError::InUse { path }) if path == paths[0]));
    assert!(matches!(create(&paths, &REPLACE), Err(MembersError::InUse { path }) if path == paths[0]));
    assert!(paths.iter().all(|path| path.exists()));
    drop(members);
    drop(Members::open(&paths).expect("they are free again"));
    create(&paths, &REPLACE).expect("and can be replaced");
}
