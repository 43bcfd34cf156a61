//! The virtual world against hand calculations, and against itself.

mod drives;

use drives::{config, controller, drive};
use raidlab_controller::WritePolicy;
use raidlab_hardware::{Catalog, ControllerPart, DriveKind, FirstThread, ParityWorker, ShingleModel};
use raidlab_sim::{
    Bottleneck, Extent, LoadRegion, Part, SimError, SimulatedArray, SimulationLoad, SimulationOutcome,
    find_bottleneck, simulate, simulate_degraded,
};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec};

fn array(level: &str, members: u16) -> SimulatedArray {
    SimulatedArray { config: config(level, members), drive: drive(), controller: controller() }
}

fn load(line: AccessLine, iodepth: u32) -> SimulationLoad {
    SimulationLoad {
        workload: AccessSpec::new("made up", vec![line]),
        iodepth,
        region: LoadRegion::StrokePct(100),
        ramp: NanoSpan::from_secs(1),
        run: NanoSpan::from_secs(10),
        seed: 7,
    }
}

fn run(array: &SimulatedArray, load: &SimulationLoad) -> SimulationOutcome {
    simulate(array, load).unwrap_or_else(|error| panic!("{error}"))
}

/// What set the pace of `load` on `array`, of which the outcome is known.
fn bottleneck(array: &SimulatedArray, load: &SimulationLoad, outcome: &SimulationOutcome) -> Bottleneck {
    let found = find_bottleneck(&array.enclosure(), load, outcome, Extent::Gains, &mut |probes| {
        probes.iter().map(raidlab_sim::Probe::run).collect()
    });
    found.unwrap_or_else(|error| panic!("{error}")).bottleneck
}

const fn controllers(part: ControllerPart) -> Bottleneck {
    Bottleneck::Part(Part::Controller(part))
}

const fn is_drives(bottleneck: Bottleneck) -> bool {
    matches!(bottleneck, Bottleneck::Part(Part::Drives(_)))
}

fn iops(outcome: &SimulationOutcome) -> f64 {
    let measured = &outcome.measurement;
    assert_eq!(measured.ops.read.errors + measured.ops.write.errors, 0);
    (measured.ops.read.requests + measured.ops.write.requests) as f64 / measured.window.as_secs_f64()
}

/// One random 8 KiB read at a time on one spindle of 15000 rpm takes a seek and half a turn: 2 + 3.4 ms or so.
#[test]
fn one_random_read_at_a_time_takes_a_seek_and_half_a_turn() {
    let (array, load) = (array("0", 2), load(AccessLine::plain(8192, 100, 100), 1));
    let outcome = run(&array, &load);
    let iops = iops(&outcome);
    assert!((140.0..260.0).contains(&iops), "{iops} IOPS");
    assert_eq!(bottleneck(&array, &load, &outcome), Bottleneck::Iodepth, "two drives take turns");
    assert_eq!(outcome.counters.member_reads, outcome.host_requests);
}

/// Small random writes through parity cost 2 reads and 2 writes (RAID 5) or 3 and 3 (RAID 6), on mirrors 2 writes.
#[test]
fn small_writes_cost_what_the_level_says() {
    let rows = [("0", 8, 0.0, 1.0), ("10", 8, 0.0, 2.0), ("5", 8, 2.0, 2.0), ("6", 8, 3.0, 3.0)];
    for (level, members, reads, writes) in rows {
        let (array, load) = (array(level, members), load(AccessLine::plain(8192, 0, 100), 32));
        let outcome = run(&array, &load);
        let per_host = |count: u64| count as f64 / outcome.host_requests as f64;
        let (measured_reads, measured_writes) =
            (per_host(outcome.counters.member_reads), per_host(outcome.counters.member_writes));
        assert!((measured_reads - reads).abs() < 0.05, "level {level}: {measured_reads} reads");
        assert!((measured_writes - writes).abs() < 0.05, "level {level}: {measured_writes} writes");
        assert!(is_drives(bottleneck(&array, &load, &outcome)), "level {level}");
    }
}

/// With 10 ms for a command through the firmware the processor is what limits all that is not cut through: requests over
/// several strips, and whatever changes parity.
#[test]
fn only_what_one_command_serves_is_cut_through() {
    const STRIP: u32 = 65536;
    let rows = [
        ("0", STRIP, 100, true),
        ("0", 2 * STRIP, 100, false),
        ("0", STRIP, 0, true),
        ("10", STRIP, 0, true),
        ("10", 2 * STRIP, 0, false),
        ("5", STRIP, 100, true),
        ("5", STRIP, 0, false),
    ];
    for (level, bytes, read_pct, is_cut) in rows {
        let mut array = array(level, 8);
        array.controller.member_command.read = NanoSpan::from_millis(10);
        array.controller.member_command.write = NanoSpan::from_millis(10);
        let load = load(AccessLine::plain(bytes, read_pct, 100), 32);
        let outcome = run(&array, &load);
        let is_free = is_drives(bottleneck(&array, &load, &outcome));
        assert_eq!(
            is_free, is_cut,
            "level {level}, {bytes} bytes, {read_pct} % reads: {:?}",
            outcome.utilisation
        );
    }
}

/// What the cache takes in costs the processor more; what passes it by does not.
#[test]
fn a_write_into_the_cache_pays_for_its_place() {
    for (policy, pays) in [(WritePolicy::WriteBack, true), (WritePolicy::WriteThrough, false)] {
        let mut array = array("0", 8);
        array.config.cache.write_policy = policy;
        array.controller.cache.write_in = NanoSpan::from_millis(10);
        let iops = iops(&run(&array, &load(AccessLine::plain(8192, 0, 100), 32)));
        assert_eq!(iops < 101.0, pays, "{policy:?}: {iops} IOPS");
    }
}

/// Parity of 10 ms a task holds the processor up unless an engine beside it computes it, which then does 100 a second.
#[test]
fn parity_beside_the_processor_leaves_it_free() {
    for (worker, busy) in [(ParityWorker::Processors, true), (ParityWorker::Engine, false)] {
        let mut array = array("5", 8);
        array.controller.parity_by = worker;
        array.controller.parity.per_task = NanoSpan::from_millis(10);
        let load = load(AccessLine::plain(8192, 0, 100), 32);
        let outcome = run(&array, &load);
        let iops = iops(&outcome);
        assert!(iops < 101.0, "{iops} IOPS");
        let part = if busy { ControllerPart::Processors } else { ControllerPart::ParityEngine };
        assert_eq!(bottleneck(&array, &load, &outcome), controllers(part), "{:?}", outcome.utilisation);
        assert_eq!(outcome.utilisation.processors > 0.9, busy);
    }
}

/// One thread takes 40 ms for each read; with more, the first has 20 ms of its own work for each, and no number of threads does
/// more than 50 a second.
#[test]
fn threads_for_io_bring_as_much_as_the_first_leaves_to_them() {
    let ms = NanoSpan::from_millis;
    let of_threads = |processors: u32| {
        let mut array = array("0", 8);
        array.controller.processors = processors;
        array.controller.cut_through = None;
        array.controller.host_command.read = ms(10);
        array.controller.member_command.read = ms(30);
        array.controller.first_thread = Some(FirstThread { member_command: ms(0), hand_over: ms(10) });
        let load = load(AccessLine::plain(8192, 100, 100), 64);
        let outcome = run(&array, &load);
        let busy = outcome.utilisation;
        (iops(&outcome), bottleneck(&array, &load, &outcome), busy.first_thread, busy.processors)
    };
    let is_about = |iops: f64, expected: f64| (expected * 0.97..expected * 1.03).contains(&iops);
    let first = controllers(ControllerPart::FirstThread);
    let [one, two, four] = [1, 2, 4].map(of_threads);
    assert!(is_about(one.0, 25.0) && one.1 == first && one.3 == 0.0, "{one:?}");
    // The other takes four reads in five, 24 ms for each five in all, as the first does: 10 + 0.8 * 10 + 0.2 * 30 ms.
    assert!(is_about(two.0, 1000.0 / 24.0) && two.3 > 0.97, "{two:?}");
    assert!(is_about(four.0, 50.0) && four.1 == first && four.3 < 0.7, "{four:?}");
}

#[test]
fn more_spindles_and_a_shorter_stroke_do_more() {
    let line = AccessLine::plain(8192, 67, 100);
    let few = iops(&run(&array("5", 5), &load(line, 64)));
    let many = iops(&run(&array("5", 10), &load(line, 64)));
    let short = SimulationLoad { region: LoadRegion::StrokePct(8), ..load(line, 64) };
    let short = iops(&run(&array("5", 10), &short));
    assert!(many > 1.6 * few, "{few} IOPS of 5 drives, {many} of 10");
    assert!(short > 1.1 * many, "{many} IOPS over all, {short} over 8%");
}

#[test]
fn a_seed_is_a_run() {
    let line = AccessLine::plain(8192, 67, 100);
    let same = |seed| {
        let outcome = run(&array("5", 5), &SimulationLoad { seed, ..load(line, 16) });
        (outcome.host_requests, outcome.events, outcome.virtual_time, outcome.utilisation, outcome.counters)
    };
    assert_eq!(same(1), same(1));
    assert_ne!(same(1), same(2));
}

/// A link that moves 10 MB/s moves no more, whichever it is, and is named.
#[test]
fn a_slow_resource_sets_the_pace_and_is_named() {
    let mut slow_host = array("0", 8);
    slow_host.controller.host_link.rate = raidlab_units::BytesPerSec::from_mb_per_s(10.0);
    let mut slow_members = array("0", 8);
    slow_members.controller.member_link.rate = raidlab_units::BytesPerSec::from_mb_per_s(10.0);
    let mut slow_processor = array("0", 8);
    slow_processor.controller.processors = 1;
    slow_processor.controller.host_command.read = NanoSpan::from_millis(10);
    slow_processor.controller.host_command.write = NanoSpan::from_millis(10);
    let rows = [
        (slow_host, controllers(ControllerPart::HostLink), 10e6 / 65536.0),
        (slow_members, controllers(ControllerPart::MemberLink), 10e6 / 65536.0),
        (slow_processor, controllers(ControllerPart::Processors), 100.0),
    ];
    for (array, expected, most) in rows {
        for read_pct in [0, 50, 100] {
            let load = load(AccessLine::plain(65536, read_pct, 100), 32);
            let outcome = run(&array, &load);
            assert_eq!(bottleneck(&array, &load, &outcome), expected, "{:?}", outcome.utilisation);
            let iops = iops(&outcome);
            assert!(iops <= most * 1.01 && iops > most * 0.9, "{expected}: {iops} IOPS, at most {most}");
        }
    }
}

/// With a battery the cache takes bursts at memory speed; under a lasting load the members set the pace again.
#[test]
fn write_back_answers_at_memory_speed_until_the_cache_is_full() {
    let mut cached = array("5", 5);
    cached.config.cache.write_policy = WritePolicy::WriteBack;
    cached.config.cache.size = ByteCount::from_mib(256);
    let line = AccessLine::plain(8192, 0, 100);
    let burst = SimulationLoad { ramp: NanoSpan::ZERO, run: NanoSpan::from_millis(50), ..load(line, 1) };
    let through = run(&array("5", 5), &burst);
    let back = run(&cached, &burst);
    assert!(iops(&back) > 20.0 * iops(&through), "{} and {} IOPS", iops(&back), iops(&through));
    cached.config.cache.size = ByteCount::from_mib(4);
    let load = load(line, 64);
    assert!(is_drives(bottleneck(&cached, &load, &run(&cached, &load))));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let line = AccessLine::plain(8192, 50, 100);
    let mut too_large = array("5", 5);
    too_large.config.member_size = ByteCount(601_000_000_000);
    assert!(matches!(simulate(&too_large, &load(line, 1)), Err(SimError::MemberTooLarge { .. })));
    let mut host_managed = array("5", 5);
    let DriveKind::HardDrive(hard) = &mut host_managed.drive.kind else { panic!("a hard drive") };
    hard.modern.shingles = Some(ShingleModel::Host { zone: ByteCount::from_mib(256) });
    let refused =
        simulate(&host_managed, &load(line, 1)).expect_err("it takes no writes but at write pointers");
    assert!(refused.to_string().contains("host-managed"), "{refused}");
    for stroke_pct in [0, 101] {
        let load = SimulationLoad { region: LoadRegion::StrokePct(stroke_pct), ..load(line, 1) };
        assert_eq!(simulate(&array("5", 5), &load).err(), Some(SimError::Stroke { stroke_pct }));
    }
    let region = LoadRegion::Bytes(ByteCount(u64::MAX));
    let load = SimulationLoad { region, ..load(line, 1) };
    assert!(matches!(simulate(&array("5", 5), &load), Err(SimError::RegionTooLarge { .. })));
    let mut no_processor = array("5", 5);
    no_processor.controller.processors = 0;
    assert!(matches!(simulate(&no_processor, &load), Err(SimError::ControllerFigure { .. })));
}

/// Requests a second of `line` on eight mirrored drives.
fn mirrored_nvme_iops(line: AccessLine, region: LoadRegion, iodepth: u32) -> f64 {
    let catalog = Catalog::builtin();
    let mut config = config("10", 8);
    config.cache.write_policy = WritePolicy::WriteThrough;
    let drive = catalog.drive("generic-nvme").expect("in the catalogue").clone();
    let controller = catalog.controller("linux-md-nvme").expect("in the catalogue").clone();
    let load = SimulationLoad {
        workload: AccessSpec::new("made up", vec![line]),
        iodepth,
        region,
        ramp: NanoSpan::from_millis(20),
        run: NanoSpan::from_millis(100),
        seed: 7,
    };
    iops(&run(&SimulatedArray { config, drive, controller }, &load))
}

/// Above its floor a rebuild makes way for the host: it has a window under way at a time.
#[test]
fn a_rebuild_makes_way_for_the_host_above_its_floor() {
    let with = |scan_floor| {
        let mut array = array("5", 5);
        array.config.resilience.spares = 1;
        array.config.resilience.scan_iodepth = 64;
        array.config.cache.rules.scan_floor = scan_floor;
        let load = load(AccessLine::plain(8192, 100, 100), 8);
        let outcome = simulate_degraded(&array.enclosure(), &load, MemberIndex(0)).expect("it runs");
        (iops(&outcome), outcome.rebuild.expect("it is under way").done)
    };
    let (free, low, high) =
        (with(None), with(Some(ByteCount::from_kib(1000))), with(Some(ByteCount::from_mib(1000))));
    assert!(low.0 > 1.2 * free.0, "requests: {} a second where it makes way, else {}", low.0, free.0);
    assert!(low.1 < free.1, "rebuilt: {} where it makes way, else {}", low.1, free.1);
    assert_eq!(high, free, "what is below its floor makes no way");
}

/// It was an index out of bounds in the controller.
#[test]
fn a_member_that_is_not_there_can_not_be_missing() {
    let mut array = array("5", 5);
    array.config.resilience.spares = 1;
    let load = load(AccessLine::plain(8192, 100, 100), 8);
    let with = |member| simulate_degraded(&array.enclosure(), &load, MemberIndex(member)).map(drop);
    assert_eq!(with(5), Ok(()), "a spare is one of its devices");
    assert_eq!(with(6), Err(SimError::NoSuchMember { member: 6, devices: 6 }));
    assert_eq!(with(99), Err(SimError::NoSuchMember { member: 99, devices: 6 }));
}

/// In slices a rebuild takes its share of the time from the host and no more, and the host leaves it that.
#[test]
fn a_rebuild_has_its_share_of_the_time() {
    let with = |spares, scan_share_pct| {
        let mut array = array("5", 5);
        (array.config.resilience.spares, array.config.resilience.scan_iodepth) = (spares, 64);
        array.config.cache.rules.scan_share_pct = scan_share_pct;
        let load = load(AccessLine::plain(8192, 100, 100), 8);
        let outcome = simulate_degraded(&array.enclosure(), &load, MemberIndex(0)).expect("it runs");
        (iops(&outcome), outcome.rebuild.map_or(0, |progress| progress.done) as f64)
    };
    let (degraded, free, shared) = (with(0, None), with(1, None), with(1, Some(30)));
    assert!(free.0 < 0.6 * degraded.0, "it takes what it gets: {free:?} of {degraded:?}");
    assert!(shared.0 > 0.68 * degraded.0, "the host keeps its share: {shared:?} of {degraded:?}");
    assert!((0.2..0.4).contains(&(shared.1 / free.1)), "and so does the rebuild: {shared:?} of {free:?}");
}

/// All lanes of a link were one server, which ended at 2.68 million reads a second.
#[test]
fn mirrors_of_eight_drives_read_on_all_lanes_at_once() {
    let reads = mirrored_nvme_iops(AccessLine::plain(4096, 100, 100), LoadRegion::StrokePct(100), 2048);
    assert!((4.0e6..9.0e6).contains(&reads), "{reads} reads a second");
}

/// Writes to the hottest block queued behind each other's programs.
#[test]
fn writes_to_few_blocks_are_as_fast_as_any() {
    let region = LoadRegion::Bytes(ByteCount::from_mib(1));
    let hot = mirrored_nvme_iops(AccessLine::plain(4096, 0, 100), region, 64);
    let spread = mirrored_nvme_iops(AccessLine::plain(4096, 0, 100), LoadRegion::StrokePct(100), 64);
    assert!(hot > 0.9 * spread, "hot: {hot}, spread: {spread} a second");
}
