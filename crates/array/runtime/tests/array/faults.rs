//! Local members with faults, through the kernel ([`Faulty`]): errors of reads, writes and flushes, full disks, I/O
//! that does not
//! end.
//!
//! Verified: every byte read, then and after a start; which members are lost; that requests, commands, a stop and the
//! end of an array take bounded time. Not verified: block devices, whose driver may hold I/O that no signal reaches.

use super::common;
use super::faulty::{Faults, Faulty};
use super::loops::loop_over;
use super::operator::{Used, check_again, is_whole, replace, use_array};
use super::real::{keeping, options};
use super::{GO_ON, folder, read_all, serve};
use raidlab_controller::{ArrayConfig, CacheMemory, MemberCache, MetadataPolicy, WritePolicy};
use raidlab_format::{ArrayUuid, Placement, StartOptions};
use raidlab_runtime::{
    ArrayError, ArrayStatus, ArrayWorld, Condition, CreateOptions, DeviceCondition, RunSettings, ScriptOp,
    create,
};
use raidlab_units::{BlockCount, ByteCount, Lba, NanoSpan};
use rustix::fs::FlockOperation;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Much longer than anything here takes on a busy machine, much shorter than for ever.
const BOUND: Duration = Duration::from_mins(1);
const LIMIT: NanoSpan = NanoSpan::from_millis(1500);

/// An array of files whose member 1 has faults.
struct Bench {
    faulty: Faulty,
    members: Vec<PathBuf>,
    config: ArrayConfig,
    settings: RunSettings,
    folder: tempfile::TempDir,
}

fn bench(level: &str, members: u16, policy: WritePolicy) -> Option<Bench> {
    let mut config = keeping(level, members, MetadataPolicy::Log);
    config.cache.write_policy = policy;
    bench_of(config)
}

/// A folder in memory, where there is one: a disk that others keep busy does not answer for longer than [`LIMIT`], too.
fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| folder())
}

fn bench_of(config: ArrayConfig) -> Option<Bench> {
    raidlab_testkit::tell_panics();
    let folder = folder_in_memory();
    let mut members = common::paths(folder.path(), config.members);
    create(&config, &options(members.clone(), vec![]), &GO_ON, &mut |_, _| {}).expect("an array is made");
    let faulty = Faulty::mount(&folder.path().join("fuse"), &members[1])?;
    members[1] = faulty.path();
    let settings = RunSettings { member_timeout: LIMIT, ..common::settings(folder.path(), &config) };
    Some(Bench { faulty, members, config, settings, folder })
}

impl Bench {
    /// The array under load, whole.
    fn used(&self) -> Used {
        let used = use_array(self.members.clone(), self.settings.clone());
        used.until("used", |status| is_whole(status) && status.counters.host_writes > 100);
        used
    }

    /// The members that have no faults.
    fn others(&self) -> Vec<PathBuf> {
        self.members.iter().filter(|path| **path != self.faulty.path()).cloned().collect()
    }

    /// Where the data area of the member with faults begins.
    fn data_at(&self) -> u64 {
        let geometry = self.config.geometry(ArrayUuid::default());
        let below = common::paths(self.folder.path(), 2).remove(1);
        let bytes = std::fs::metadata(below).expect("it is there").len();
        Placement::new(&geometry, ByteCount(bytes)).expect("there is room").data_at
    }
}

fn goes_on(used: &Used) {
    let so_far = used.status().counters.host_writes;
    used.until("used on", |status| status.counters.host_writes > so_far + 100);
}

/// The kernel gives I/O back that heeds interrupts; the other kind keeps its memory, and ends late, in the midst of a load.
#[test]
fn a_file_whose_io_does_not_end_is_a_member_lost_and_the_memory_is_nobodys() {
    for (level, members, policy, heeds_interrupts) in [
        ("5", 4, WritePolicy::WriteThrough, true),
        ("5", 4, WritePolicy::WriteThrough, false),
        ("6", 5, WritePolicy::WriteBack, false),
        ("10", 4, WritePolicy::WriteBack, false),
    ] {
        let Some(bench) = bench(level, members, policy) else { return };
        let used = bench.used();
        bench.faulty.set(&Faults { is_silent: true, heeds_interrupts, ..Faults::default() });
        let status = used.until("degraded", |status| status.condition == Condition::Degraded);
        assert_eq!(status.devices[1].state, DeviceCondition::Missing, "{status:?}");
        goes_on(&used);
        let begin = Instant::now();
        while heeds_interrupts && bench.faulty.put_off() > 0 {
            assert!(begin.elapsed() < BOUND, "{} requests were not taken back", bench.faulty.put_off());
            std::thread::sleep(Duration::from_millis(10));
        }
        if !heeds_interrupts {
            assert!(bench.faulty.put_off() > 0, "nothing was in flight");
            let reason = used.refused(&replace("1", &bench.faulty.path()));
            assert!(reason.contains("in use"), "{reason}");
        }
        // Late reads and writes end now, where they were to, in memory that nobody uses.
        bench.faulty.wake();
        goes_on(&used);
        let begin = Instant::now();
        let new = bench.folder.path().join("new");
        used.done(&replace("1", &new));
        used.until("whole again", is_whole);
        assert!(begin.elapsed() < BOUND, "the rebuild took {:?}", begin.elapsed());
        let checker = used.stop();
        let mut members = bench.others();
        members.push(new);
        check_again(&members, &bench.settings, &checker);
    }
}

#[test]
fn an_array_ends_while_io_of_a_member_does_not() {
    for stops in [true, false] {
        let Some(bench) = bench("5", 4, WritePolicy::WriteThrough) else { return };
        let start = ArrayWorld::start(&bench.members, &bench.settings, StartOptions::default());
        let mut world = start.world.expect("it starts");
        world.await_serving(&GO_ON).expect("it is served");
        bench.faulty.set(&Faults { is_silent: true, ..Faults::default() });
        let write = |lba| ScriptOp::Write { lba: Lba(lba), bytes: vec![7; 65_536], fua: false };
        let begin = Instant::now();
        let script: Vec<ScriptOp> = (0..8).map(|number| write(number * 16)).collect();
        assert!(serve(&mut world, &script, 4).iter().all(Result::is_ok), "a write failed");
        if stops {
            world.stop(&GO_ON).expect("it stops");
        }
        drop(world);
        assert!(begin.elapsed() < BOUND, "it took {:?}", begin.elapsed());
        assert!(bench.faulty.put_off() > 0, "nothing was in flight");
        // Whoever starts the array without the member has it, and all that was written.
        let start = ArrayWorld::start(&bench.others(), &bench.settings, StartOptions::default());
        let mut world = start.world.expect("it starts");
        let read = ScriptOp::Read { lba: Lba(0), blocks: BlockCount(8 * 16) };
        assert!(serve(&mut world, &[read], 1) == [Ok(vec![7; 8 * 65_536])]);
        world.stop(&GO_ON).expect("it stops");
    }
}

const KEPT_MEMBERS: &str = "RAIDLAB_TEST_KEPT_MEMBERS";
const KEPT_FOLDER: &str = "RAIDLAB_TEST_KEPT_FOLDER";

fn with_nvram() -> ArrayConfig {
    let mut config = keeping("5", 4, MetadataPolicy::Log);
    config.cache.write_policy = WritePolicy::WriteBack;
    config.cache.memory = CacheMemory::BatteryBacked;
    config
}

/// The process that is killed in the next test, which starts it; alone it does nothing.
#[test]
#[ignore = "the process that another test kills, which it starts itself"]
fn reads_into_nvram_until_it_is_killed() {
    let (Ok(members), Some(folder)) = (std::env::var(KEPT_MEMBERS), std::env::var_os(KEPT_FOLDER)) else {
        return;
    };
    let paths: Vec<PathBuf> = members.split(':').map(PathBuf::from).collect();
    let settings = common::settings(Path::new(&folder), &with_nvram());
    let mut world = ArrayWorld::start(&paths, &settings, StartOptions::default()).world.expect("it starts");
    loop {
        read_all(&mut world).expect("it reads");
        std::fs::write(Path::new(&folder).join("reads"), "").expect("a file");
    }
}

/// Defect: the NVRAM file was free as soon as its process was gone, while a device might still write into it. A block device
/// holds no thread of the process, so that nothing else kept the lock.
#[test]
fn nvram_that_a_device_may_still_write_to_is_nobodys() {
    let Some(mut bench) = bench_of(with_nvram()) else { return };
    let Some(device) = loop_over(&bench.faulty.path()) else { return };
    bench.members[1].clone_from(&device.devices[0]);
    let start = || ArrayWorld::start(&bench.members, &bench.settings, StartOptions::default()).world;
    let mut world = start().expect("it starts");
    let bytes = vec![7; world.volume_bytes().get() as usize];
    let write = ScriptOp::Write { lba: Lba(0), bytes: bytes.clone(), fua: true };
    assert!(serve(&mut world, &[write], 1)[0].is_ok());
    world.stop(&GO_ON).expect("it stops");
    drop(world);
    let paths: Vec<String> = bench.members.iter().map(|path| path.display().to_string()).collect();
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "faults::reads_into_nvram_until_it_is_killed", "--ignored", "--test-threads=1"])
        .env(KEPT_MEMBERS, paths.join(":"))
        .env(KEPT_FOLDER, bench.folder.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("this program runs");
    let begin = Instant::now();
    let until = |truth: &dyn Fn() -> bool, what: &str| {
        while !truth() {
            assert!(begin.elapsed() < BOUND, "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    until(&|| bench.folder.path().join("reads").exists(), "the child does not read");
    bench.faulty.set(&Faults { is_silent: true, ..Faults::default() });
    until(&|| bench.faulty.put_off() > 0, "nothing was in flight");
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let kept = File::open(bench.folder.path().join("kept")).expect("it is there");
    let is_free = || rustix::fs::flock(&kept, FlockOperation::NonBlockingLockExclusive).is_ok();
    for _ in 0..50 {
        assert!(!is_free(), "the next array may have memory that a device will write to");
        std::thread::sleep(Duration::from_millis(10));
    }
    bench.faulty.wake();
    until(&is_free, "the memory is locked for ever");
    drop(kept);
    let mut world = start().expect("it starts");
    assert!(read_all(&mut world) == Ok(bytes));
    world.stop(&GO_ON).expect("it stops");
}

#[test]
fn requests_that_need_a_silent_member_end_in_an_error() {
    let Some(bench) = bench("0", 3, WritePolicy::WriteThrough) else { return };
    let start = ArrayWorld::start(&bench.members, &bench.settings, StartOptions::default());
    let mut world = start.world.expect("it starts");
    world.await_serving(&GO_ON).expect("it is served");
    bench.faulty.set(&Faults { is_silent: true, ..Faults::default() });
    let begin = Instant::now();
    let read = ScriptOp::Read { lba: Lba(0), blocks: world.volume_blocks() };
    let write = ScriptOp::Write { lba: Lba(0), bytes: vec![1; 1 << 20], fua: true };
    assert!(serve(&mut world, &[read, write], 1).iter().all(Result::is_err));
    drop(world);
    assert!(begin.elapsed() < BOUND, "it took {:?}", begin.elapsed());
}

/// The kernel tells of a failed flush once; the next one is a success that covers nothing of before.
#[test]
fn a_flush_that_fails_is_a_member_lost() {
    for (errno, member_cache) in [
        (libc::EIO, MemberCache::On),
        (libc::EIO, MemberCache::Off),
        (libc::ENOSPC, MemberCache::On),
        (libc::EINTR, MemberCache::On),
    ] {
        let Some(mut bench) = bench("5", 4, WritePolicy::WriteThrough) else { return };
        bench.settings.member_cache = member_cache;
        let used = bench.used();
        assert!(bench.faulty.syncs() > 0, "nothing is flushed");
        bench.faulty.set(&Faults { sync_error: Some(errno), ..Faults::default() });
        let status = used.until("degraded", |status| status.condition == Condition::Degraded);
        assert_eq!(status.devices[1].state, DeviceCondition::Missing, "{errno}: {status:?}");
        bench.faulty.set(&Faults::default());
        goes_on(&used);
        let checker = used.stop();
        check_again(&bench.others(), &bench.settings, &checker);
    }
}

#[test]
fn blocks_that_a_file_can_not_read_are_repaired_and_the_member_stays() {
    let Some(bench) = bench("5", 3, WritePolicy::WriteThrough) else { return };
    let used = bench.used();
    let data_at = bench.data_at();
    let unreadable = data_at + (32 << 10)..data_at + (100 << 10);
    bench.faulty.set(&Faults { unreadable, ..Faults::default() });
    let status = used.until("read", |status| status.devices[1].errors > 3);
    assert_eq!(status.devices[1].state, DeviceCondition::InSync, "{status:?}");
    bench.faulty.set(&Faults::default());
    let checker = used.stop();
    check_again(&bench.members, &bench.settings, &checker);
}

#[test]
fn blocks_that_a_file_can_not_write_are_bad_blocks_and_no_data_is_lost() {
    for (level, members, policy) in [("5", 3, WritePolicy::WriteThrough), ("6", 5, WritePolicy::WriteBack)] {
        let Some(bench) = bench(level, members, policy) else { return };
        let used = bench.used();
        let data_at = bench.data_at();
        let unwritable = data_at + (32 << 10)..data_at + (100 << 10);
        bench.faulty.set(&Faults { unwritable, ..Faults::default() });
        let status = used.until("written", |status| status.devices[1].errors > 3);
        assert_eq!(status.devices[1].state, DeviceCondition::InSync, "{status:?}");
        assert!(status.devices[1].bad_blocks > 0, "{status:?}");
        goes_on(&used);
        // A start, too, must not read what the failed writes have left there.
        let checker = used.stop();
        bench.faulty.set(&Faults::default());
        check_again(&bench.members, &bench.settings, &checker);
    }
}

/// Defect: each write to a full disk became a bad block, and with the list full, or two in a row, data was gone that had never been touched.
#[test]
fn a_write_waits_for_room_on_a_full_disk() {
    for errno in [libc::ENOSPC, libc::EDQUOT] {
        let Some(bench) = bench("5", 4, WritePolicy::WriteThrough) else { return };
        let used = bench.used();
        let full = Faults { unwritable: 0..u64::MAX, write_error: Some(errno), ..Faults::default() };
        bench.faulty.set(&full);
        let told = |status: &ArrayStatus| status.events.iter().any(|event| event.kind == "no-room");
        used.until("told", told);
        bench.faulty.set(&Faults::default());
        goes_on(&used);
        let status = used.status();
        assert_eq!((status.condition, status.devices[1].bad_blocks), (Condition::Optimal, 0), "{status:?}");
        let checker = used.stop();
        check_again(&bench.members, &bench.settings, &checker);
    }
}

#[test]
fn a_disk_that_stays_full_is_a_member_lost() {
    let Some(bench) = bench("5", 4, WritePolicy::WriteBack) else { return };
    let used = bench.used();
    let write_error = Some(libc::ENOSPC);
    bench.faulty.set(&Faults { unwritable: 0..u64::MAX, write_error, ..Faults::default() });
    let status = used.until("degraded", |status| status.condition == Condition::Degraded);
    assert_eq!(status.devices[1].state, DeviceCondition::Missing, "{status:?}");
    goes_on(&used);
    let checker = used.stop();
    check_again(&bench.others(), &bench.settings, &checker);
}

/// Defect: a stop said that the array was stopped when what it had acknowledged had been given up on a full disk.
#[test]
fn a_stop_tells_of_acknowledged_writes_that_are_lost() {
    let mut config = keeping("0", 2, MetadataPolicy::Bitmap);
    config.cache.write_policy = WritePolicy::WriteBack;
    let Some(bench) = bench_of(config) else { return };
    let stop_after_writes = |faults: &Faults| {
        let started = ArrayWorld::start(&bench.members, &bench.settings, StartOptions::default());
        let mut world = started.world.expect("it starts");
        world.await_serving(&GO_ON).expect("it serves");
        bench.faulty.set(faults);
        // One strip of each member after the other.
        let step = bench.config.strip_size.get() / bench.config.block_size.bytes();
        let write = |at| ScriptOp::Write { lba: Lba(at * step), bytes: vec![7; 1 << 12], fua: false };
        let written = serve(&mut world, &(0..4).map(write).collect::<Vec<_>>(), 1);
        assert!(written.iter().all(Result::is_ok), "{written:?}");
        world.stop(&GO_ON)
    };
    stop_after_writes(&Faults::default()).expect("nothing is lost");
    let write_error = Some(libc::ENOSPC);
    let full = Faults { unwritable: 0..u64::MAX, write_error, ..Faults::default() };
    let told = stop_after_writes(&full).expect_err("what was acknowledged is lost");
    assert!(matches!(told, ArrayError::WritesLost { .. }), "{told}");
}

/// Defect: a start, and a creation, waited for ever for a device that did not answer.
#[test]
fn a_start_goes_on_without_a_device_that_does_not_answer() {
    let Some(bench) = bench("5", 4, WritePolicy::WriteThrough) else { return };
    bench.faulty.set(&Faults { is_silent: true, ..Faults::default() });
    let begin = Instant::now();
    let used = use_array(bench.members.clone(), bench.settings.clone());
    let status = used.until("used", |status| status.counters.host_writes > 100);
    assert_eq!(status.devices[1].state, DeviceCondition::Missing, "{status:?}");
    let checker = used.stop();
    assert!(begin.elapsed() < BOUND, "it took {:?}", begin.elapsed());
    check_again(&bench.others(), &bench.settings, &checker);
}

#[test]
fn a_creation_ends_that_meets_a_device_that_does_not_answer() {
    let Some(bench) = bench("5", 3, WritePolicy::WriteThrough) else { return };
    bench.faulty.set(&Faults { is_silent: true, ..Faults::default() });
    let new = bench.folder.path().join("new");
    let members = vec![new.clone(), bench.faulty.path(), bench.folder.path().join("newer")];
    let destroy_data = vec![bench.faulty.path().display().to_string()];
    let order = CreateOptions { member_timeout: Some(LIMIT), destroy_data, ..options(members, vec![]) };
    let error = create(&bench.config, &order, &GO_ON, &mut |_, _| {}).expect_err("it can't be made");
    assert!(error.to_string().contains(&bench.faulty.path().display().to_string()), "{error}");
    assert!(error.to_string().contains("does not answer"), "{error}");
    // What it had made goes when the device wakes, and the device is not written.
    bench.faulty.wake();
    let begin = Instant::now();
    while new.exists() {
        assert!(begin.elapsed() < BOUND, "an unfinished member is left");
        std::thread::sleep(Duration::from_millis(10));
    }
    let used = bench.used();
    used.stop();
}
