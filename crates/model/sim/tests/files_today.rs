//! Files on current hosts and filesystems: the cost of `fsync`, the page cache and copy on write, calculated by hand.

use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache};
use raidlab_hardware::{Catalog, DriveModel, HostModel};
use raidlab_sim::{
    ControllerName, FileAccess, FilePlace, FilesOutcome, HostVolume, LoadRegion, SimulatedEnclosure,
    SimulatedHost, SimulatedVolume, SimulationLoad, simulate_file_load,
};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, FlushRule, Measurement};
use std::num::NonZeroU32;

const MIB: u64 = 1 << 20;

/// A drive in the smallest server, as a volume of its own.
fn host(
    model: HostModel,
    drive: &str,
    filesystem: &str,
    file: FilePlace,
    access: FileAccess,
) -> SimulatedHost {
    let catalog = Catalog::builtin();
    let drive: DriveModel = catalog.drive(drive).expect("there").clone();
    let md = if drive.is_flash() { "linux-md-nvme" } else { "linux-md-sas" };
    let controller = catalog.controller(md).expect("there").clone().on_host(&model);
    let cache = CacheConfig { size: ByteCount::ZERO, ..CacheConfig::default() };
    let config = ArrayConfig {
        strip_size: ByteCount::from_kib(512),
        member_size: ByteCount::from_gib(800),
        member_cache: MemberCache::On,
        staging_size: ByteCount::from_mib(8),
        ..raidlab_testkit::array("jbod", 1, cache)
    };
    let volume = SimulatedVolume { config, drive, owner: ControllerName::A, beside: None };
    let filesystem = catalog.filesystem(filesystem).expect("there").clone();
    SimulatedHost {
        host: model,
        enclosures: vec![SimulatedEnclosure { controller, second: None, volumes: vec![volume] }],
        volumes: vec![HostVolume { enclosure: 0, volume: 0, filesystem }],
        files: vec![file],
        unit: ByteCount::from_kib(4),
        access,
    }
}

fn small_server() -> HostModel {
    Catalog::builtin().host("xeon-e-2388g").expect("there").clone()
}

fn empty(mib: u64) -> FilePlace {
    FilePlace { volume: 0, room: ByteCount(mib * MIB), bytes: ByteCount::ZERO }
}

fn whole(mib: u64) -> FilePlace {
    FilePlace { bytes: ByteCount(mib * MIB), ..empty(mib) }
}

fn run(
    host: &SimulatedHost,
    line: AccessLine,
    syncs: bool,
    iodepth: u32,
    ms: u64,
) -> (FilesOutcome, Measurement) {
    let mut workload = AccessSpec::new("made up", vec![line]);
    workload.flush = syncs.then_some(FlushRule { every: NonZeroU32::MIN, with_metadata: true });
    let load = SimulationLoad {
        workload,
        iodepth,
        region: LoadRegion::Bytes(host.files[0].room),
        ramp: NanoSpan::from_millis(ms / 4),
        run: NanoSpan::from_millis(ms),
        seed: 3,
    };
    simulate_file_load(host, &load).unwrap_or_else(|error| panic!("{error}"))
}

/// Microseconds from one write to the next, its synchronisation included.
fn us_for_each(measurement: &Measurement) -> f64 {
    1e6 / measurement.summaries().write.iops.0
}

fn mb_per_s(measurement: &Measurement) -> f64 {
    measurement.summaries().total.bytes_per_sec.mb_per_s()
}

#[test]
fn fsync_of_an_append_takes_two_places_on_a_disk_and_three_writes_on_flash_that_keeps_its_buffer() {
    let append = || AccessLine::plain(4096, 0, 0);
    let synced = |drive: &str, filesystem: &str, file| {
        let host = host(small_server(), drive, filesystem, file, FileAccess::Buffered);
        us_for_each(&run(&host, append(), true, 1, if drive.starts_with("samsung") { 100 } else { 4_000 }).1)
    };
    // 7200 rpm: 8.3 ms a revolution. A flush writes data and journal, in two places; the record goes to the media by itself.
    let disk = synced("st32000444ss", "ext4", empty(64)) / 1e3;
    assert!((8.3..42.0).contains(&disk), "{disk} ms: from one revolution to five");
    // One that keeps its cache over a loss of power is not waited for.
    let kept = synced("toshiba-mg08-16000", "ext4", empty(64)) / 1e3;
    assert!(kept < 1.0, "{kept} ms");
    // Data, four pages of journal, the record: three writes one after the other, each 20 us or less.
    let kept = synced("samsung-pm9a3-7680", "ext4", empty(64));
    assert!((20.0..90.0).contains(&kept), "{kept} us");
    // A log's write is its own record.
    let log = synced("samsung-pm9a3-7680", "xfs-v5", empty(64));
    assert!((0.5..0.8).contains(&(log / kept)), "two writes in place of three: {log} us, {kept} us");
    // What was there before has nothing to tell the journal: the data alone.
    let again = synced("samsung-pm9a3-7680", "ext4", whole(64));
    assert!((0.2..0.5).contains(&(again / kept)), "one write in place of three: {again} us, {kept} us");
    // A drive that may lose its buffer is flushed.
    let lost = synced("samsung-990-pro-2000", "ext4", empty(64));
    assert!(lost > 3.0 * kept, "{lost} us, {kept} us");
}

#[test]
fn those_who_synchronise_at_once_share_commits() {
    let writes = |iodepth| {
        let file = whole(64);
        let host = host(small_server(), "toshiba-mg08-16000", "btrfs", file, FileAccess::Direct);
        let (outcome, measurement) = run(&host, AccessLine::plain(4096, 0, 100), true, iodepth, 4_000);
        (outcome.counters.member_flushes as f64, measurement.summaries().write.iops.0)
    };
    let (one, many) = (writes(1), writes(16));
    assert!(many.1 > 2.0 * one.1, "{one:?} {many:?}");
}

#[test]
fn buffered_writes_go_at_the_rate_of_copies_until_too_much_is_dirty_and_then_at_the_drives() {
    let write = || AccessLine::plain(1 << 16, 0, 0);
    let model = small_server();
    // 64 KiB: a call of 0.3 us and a copy at 4 GB/s, 16.7 us. A tenth of 30 GiB may be dirty before anything is written.
    let by_hand = 65_536.0 / (model.per_call.0 as f64 + 65_536.0 / model.write_copy.0 * 1e9) * 1e3;
    let fast = host(model.clone(), "toshiba-mg08-16000", "ext4", empty(512), FileAccess::Buffered);
    let copied = mb_per_s(&run(&fast, write(), false, 1, 100).1);
    assert!((0.97..1.01).contains(&(copied / by_hand)), "{copied} MB/s, {by_hand} by hand");
    // With 256 MiB of page cache 51 MiB may be dirty: after that the disk sets the pace.
    let mut little = model;
    little.memory = little.memory_taken + ByteCount::from_mib(256);
    let slow = host(little, "toshiba-mg08-16000", "ext4", empty(8192), FileAccess::Buffered);
    let written = mb_per_s(&run(&slow, write(), false, 1, 8_000).1);
    let direct = host(small_server(), "toshiba-mg08-16000", "ext4", empty(8192), FileAccess::Direct);
    let drive = mb_per_s(&run(&direct, AccessLine::plain(1 << 20, 0, 0), false, 4, 4_000).1);
    assert!((0.7..1.1).contains(&(written / drive)), "{written} MB/s, the drive alone {drive}");
    assert!(written < copied / 4.0, "{written} MB/s, {copied}");
}

#[test]
fn memory_bounds_the_copies_of_many() {
    let mut model = small_server();
    let read = || AccessLine::plain(1 << 16, 100, 100);
    let cached = |model: &HostModel| {
        let host = host(model.clone(), "samsung-pm9a3-7680", "ext4", whole(16), FileAccess::Buffered);
        mb_per_s(&run(&host, read(), false, 8, 40).1)
    };
    // A process takes 0.3 us and 6 us at 11 GB/s; a byte that is copied is read and written, so 40 GB/s carry 20.
    let of_memory = cached(&model);
    assert!((19_000.0..20_100.0).contains(&of_memory), "{of_memory} MB/s");
    model.sockets.as_mut().expect("of today").memory_rate.0 *= 10.0;
    let of_processors = cached(&model);
    assert!((75_000.0..88_000.0).contains(&of_processors), "eight at 10.4 GB/s: {of_processors} MB/s");
}

#[test]
fn direct_reads_take_the_volumes_time_and_a_call() {
    let model = small_server();
    let host = host(model.clone(), "samsung-pm9a3-7680", "ext4", whole(4096), FileAccess::Direct);
    let (outcome, measurement) = run(&host, AccessLine::plain(4096, 100, 100), false, 1, 50);
    let read = measurement.summaries().read;
    assert!((60_000.0..120_000.0).contains(&read.lat_ns_mean), "{} ns", read.lat_ns_mean);
    assert!(outcome.bytes[0] >= read.requests * 4096, "nothing comes from memory");
}

#[test]
fn what_is_copied_on_write_lies_in_the_order_in_which_it_was_written() {
    let write = || AccessLine::plain(4096, 0, 100);
    let iops = |filesystem: &str| {
        let host = host(small_server(), "toshiba-mg08-16000", filesystem, whole(8192), FileAccess::Direct);
        run(&host, write(), false, 16, 4_000).1.summaries().write.iops.0
    };
    let (in_place, elsewhere) = (iops("ext4"), iops("btrfs"));
    assert!(elsewhere > 3.0 * in_place, "{elsewhere} {in_place}");
}

#[test]
fn requests_that_are_no_whole_pages_are_refused() {
    let host = host(small_server(), "samsung-pm9a3-7680", "ext4", whole(64), FileAccess::Direct);
    let load = SimulationLoad {
        workload: AccessSpec::new("made up", vec![AccessLine::plain(512, 100, 100)]),
        iodepth: 1,
        region: LoadRegion::Bytes(ByteCount(64 * MIB)),
        ramp: NanoSpan::ZERO,
        run: NanoSpan::from_millis(1),
        seed: 3,
    };
    let error = simulate_file_load(&host, &load).expect_err("half a page").to_string();
    assert!(error.contains("512 bytes are no whole pages"), "{error}");
}
