//! Two controllers in the virtual world, against hand calculations.
//!
//! Tests with bytes check that acknowledged data is there after a failover: `may_fail_over` of the torture world;
//! `after_a_failover_the_mirror_has_every_acknowledged_write` here counts blocks.

mod drives;

use drives::{config, controller, drive};
use raidlab_controller::{MetadataPolicy, WritePolicy};
use raidlab_hardware::{ControllerPart, DualModel, LinkModel};
use raidlab_sim::{
    Bottleneck, ControllerFailure, ControllerName, Extent, FailoverOutcome, LoadRegion, Part,
    SecondController, SimError, SimulatedArray, SimulatedEnclosure, SimulatedVolume, SimulationLoad,
    SimulationOutcome, find_bottleneck, simulate, simulate_enclosure,
};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, Measurement, MixPart};
use std::num::NonZeroU32;

use ControllerName::{A, B};

const DETECTION: NanoSpan = NanoSpan::from_millis(1_500);

/// A volume over `members`, written through.
fn volume(level: &str, members: u16, owner: ControllerName) -> SimulatedVolume {
    SimulatedVolume { config: config(level, members), drive: drive(), owner, beside: None }
}

fn write_back(mut volume: SimulatedVolume, mirror: bool) -> SimulatedVolume {
    volume.config.cache.write_policy = WritePolicy::WriteBack;
    volume.config.cache.mirror = mirror;
    volume
}

fn dual() -> DualModel {
    DualModel {
        mirror_link: LinkModel { rate: BytesPerSec::from_mb_per_s(200.0), per_transfer: NanoSpan(10_000) },
        member_link_shared: false,
        failover_detection: DETECTION,
    }
}

fn enclosure(volumes: Vec<SimulatedVolume>) -> SimulatedEnclosure {
    let second = Some(SecondController { dual: dual(), failure: None });
    SimulatedEnclosure { controller: controller(), second, volumes }
}

/// Lets a controller fail `after` the start of the window.
fn failing(
    mut enclosure: SimulatedEnclosure,
    controller: ControllerName,
    after: NanoSpan,
) -> SimulatedEnclosure {
    let second = enclosure.second.as_mut().expect("there are two");
    second.failure = Some(ControllerFailure { controller, after });
    enclosure
}

fn load(line: AccessLine, iodepth: u32) -> SimulationLoad {
    SimulationLoad {
        workload: AccessSpec::new("made up", vec![line]),
        iodepth,
        region: LoadRegion::Bytes(ByteCount::from_gib(8)),
        ramp: NanoSpan::from_secs(1),
        run: NanoSpan::from_secs(6),
        seed: 7,
    }
}

fn run(enclosure: &SimulatedEnclosure, load: &SimulationLoad) -> SimulationOutcome {
    let outcome = simulate_enclosure(enclosure, load).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.measurement.ops.read.errors + outcome.measurement.ops.write.errors, 0);
    outcome
}

fn bottleneck(
    enclosure: &SimulatedEnclosure,
    load: &SimulationLoad,
    outcome: &SimulationOutcome,
) -> Bottleneck {
    let found = find_bottleneck(enclosure, load, outcome, Extent::Gains, &mut |probes| {
        probes.iter().map(raidlab_sim::Probe::run).collect()
    });
    found.unwrap_or_else(|error| panic!("{error}")).bottleneck
}

fn iops(outcome: &SimulationOutcome) -> f64 {
    let measured = &outcome.measurement;
    (measured.ops.read.requests + measured.ops.write.requests) as f64 / measured.window.as_secs_f64()
}

fn failover(outcome: &SimulationOutcome) -> FailoverOutcome {
    outcome.failover.expect("a controller failed")
}

#[test]
fn one_volume_on_one_controller_is_the_same_by_both_doors() {
    let SimulatedVolume { config, drive, .. } = volume("5", 5, A);
    let load = load(AccessLine::plain(8192, 67, 100), 16);
    let alone = simulate(&SimulatedArray { config, drive, controller: controller() }, &load);
    let alone = alone.unwrap_or_else(|error| panic!("{error}"));
    let enclosed = run(&enclosure(vec![volume("5", 5, A)]), &load);
    let figures = |it: &SimulationOutcome| (it.host_requests, it.counters, it.virtual_time, it.utilisation);
    assert_eq!(figures(&alone), figures(&enclosed));
    assert_eq!((alone.controllers.len(), enclosed.controllers.len()), (1, 2));
    assert_eq!(enclosed.controllers[1], raidlab_sim::ControllerUtilisation::default(), "B has nothing to do");
}

/// Whatever a controller has only one of, two controllers have twice; what they share they do not.
#[test]
fn two_controllers_do_twice_what_one_does_where_the_controller_sets_the_pace() {
    let mut slow_processor = controller();
    slow_processor.host_command.read = NanoSpan::from_millis(2);
    let mut slow_host_link = controller();
    slow_host_link.host_link.rate = BytesPerSec::from_mb_per_s(4.0);
    let mut slow_member_link = controller();
    slow_member_link.member_link.rate = BytesPerSec::from_mb_per_s(4.0);
    let rows = [
        (&slow_processor, false, ControllerPart::Processors, 2.0),
        (&slow_host_link, false, ControllerPart::HostLink, 2.0),
        (&slow_member_link, false, ControllerPart::MemberLink, 2.0),
        (&slow_member_link, true, ControllerPart::MemberLink, 1.0),
    ];
    let load = load(AccessLine::plain(8192, 100, 100), 64);
    for (controller, member_link_shared, part, times) in rows {
        let of = |owners: [ControllerName; 2]| {
            let mut enclosure = enclosure(owners.map(|owner| volume("5", 9, owner)).to_vec());
            enclosure.controller = controller.clone();
            enclosure.second.as_mut().expect("there are two").dual.member_link_shared = member_link_shared;
            let outcome = run(&enclosure, &load);
            assert_eq!(bottleneck(&enclosure, &load, &outcome), Bottleneck::Part(Part::Controller(part)));
            outcome
        };
        let (one, two) = (of([A, A]), of([A, B]));
        let ratio = iops(&two) / iops(&one);
        assert!((ratio - times).abs() < 0.05 * times, "{part:?}: {ratio} times");
        assert!(one.controllers[1].processors == 0.0, "B has no volume");
        assert!((two.controllers[0].processors - two.controllers[1].processors).abs() < 0.05);
    }
}

/// One write at a time: its copy passes the link and the other processor on top, and so does its entry of the directory.
#[test]
fn mirroring_a_write_costs_what_the_link_says() {
    let bytes = ByteCount::from_kib(16);
    let line = AccessLine::plain(bytes.0 as u32, 0, 100);
    let load = SimulationLoad { ramp: NanoSpan::ZERO, run: NanoSpan::from_millis(200), ..load(line, 1) };
    let of = |mirror| run(&enclosure(vec![write_back(volume("5", 5, A), mirror)]), &load);
    let (alone, mirrored) = (of(false), of(true));
    let (model, link) = (controller(), dual().mirror_link);
    // Four cache blocks, whose entries go in one message.
    let entry = ByteCount(4 * 32);
    let work = raidlab_hardware::MemoryWork::Copy;
    let other = |bytes| model.memory_cost(work, ByteCount::ZERO, bytes);
    // The owner's processor writes the copy twice, too.
    let more = link.transfer_time(bytes)
        + link.transfer_time(entry)
        + other(bytes)
        + other(entry)
        + model.copy.rate.time_for(bytes);
    let mean = |outcome: &SimulationOutcome| outcome.measurement.ops.write.lat.percentile_ns(50.0) as f64;
    let found = mean(&mirrored) - mean(&alone);
    let expected = more.0 as f64;
    assert!((found - expected).abs() < 0.05 * expected, "{found} ns more, expected {expected}");
    assert_eq!(alone.utilisation.mirror_link, 0.0);
}

/// The link carries its rate and no more, whoever sends.
#[test]
fn a_slow_mirror_link_sets_the_pace_of_writes() {
    let line = AccessLine::plain(65536, 0, 0);
    for owners in [[A, A], [A, B]] {
        let volumes = owners.map(|owner| write_back(volume("10", 8, owner), true)).to_vec();
        let mut enclosure = enclosure(volumes);
        let link = LinkModel { rate: BytesPerSec::from_mb_per_s(20.0), per_transfer: NanoSpan::ZERO };
        enclosure.second.as_mut().expect("there are two").dual.mirror_link = link;
        let load = load(line, 16);
        let outcome = run(&enclosure, &load);
        let found = bottleneck(&enclosure, &load, &outcome);
        assert_eq!(found, Bottleneck::Part(Part::MirrorLink), "{:?}", outcome.utilisation);
        let most = 20e6 / 65536.0;
        let iops = iops(&outcome);
        assert!(iops <= most * 1.01 && iops > most * 0.95, "{iops} IOPS, at most {most}");
    }
}

#[test]
fn a_seed_is_a_run_with_a_failover_in_it() {
    let same = |seed| {
        let volumes = [A, B].map(|owner| write_back(volume("5", 5, owner), true)).to_vec();
        let enclosure = failing(enclosure(volumes), A, NanoSpan::from_secs(1));
        let load = SimulationLoad { seed, ..load(AccessLine::plain(8192, 50, 100), 16) };
        let it = run(&enclosure, &load);
        (it.host_requests, it.events, it.virtual_time, it.utilisation, it.counters, it.failover)
    };
    assert_eq!(same(1), same(1));
    assert_ne!(same(1), same(2));
}

/// Written through, there is nothing to restore: the pause is the detection, and nothing is lost.
#[test]
fn write_through_fails_over_without_loss_as_soon_as_it_is_found_out() {
    let volumes = [A, B].map(|owner| volume("5", 5, owner)).to_vec();
    let enclosure = failing(enclosure(volumes), A, NanoSpan::from_secs(2));
    let outcome = run(&enclosure, &load(AccessLine::plain(8192, 67, 100), 32));
    let found = failover(&outcome);
    assert_eq!((found.pause, found.detection), (Some(DETECTION), DETECTION));
    assert_eq!((found.lost_max, found.cache_blocks_restored), (ByteCount::ZERO, 0));
    assert_eq!((found.volumes, found.controller), (1, A));
    assert_eq!(found.requests_retried, 16, "half of the requests in flight were A's");
    let (before, after) = (found.before.expect("2 s").0, found.after_pause.expect("2.5 s").0);
    assert!((after / before - 1.0).abs() < 0.1, "drives set the pace: {before} and then {after} IOPS");
    // Nobody was served on A's volume meanwhile.
    let longest = outcome.measurement.ops.read.lat.max_ns();
    assert!(longest >= DETECTION.0, "{longest} ns is shorter than the pause");
}

/// With a mirror all that was dirty is destaged by the other controller, and that is the rest of the pause.
#[test]
fn the_pause_is_detection_and_restoring_what_the_mirror_held() {
    let of = |dirty_secs| {
        let volumes = [A, B].map(|owner| write_back(volume("5", 5, owner), true)).to_vec();
        let enclosure = failing(enclosure(volumes), B, NanoSpan::from_millis(dirty_secs));
        let load = SimulationLoad { ramp: NanoSpan::ZERO, ..load(AccessLine::plain(8192, 0, 100), 2) };
        failover(&run(&enclosure, &load))
    };
    let (short, long) = (of(20), of(60));
    for found in [short, long] {
        assert!(found.cache_blocks_restored > 100, "{found:?}");
        assert_eq!(found.lost_max, ByteCount::ZERO);
    }
    assert!(long.cache_blocks_restored > 2 * short.cache_blocks_restored);
    let restore = |found: FailoverOutcome| (found.pause.expect("it ended") - DETECTION).0 as f64;
    let per_block = |found: FailoverOutcome| restore(found) / found.cache_blocks_restored as f64;
    let ratio = per_block(long) / per_block(short);
    assert!((0.5..1.5).contains(&ratio), "{ratio}: restoring takes as long as there is to restore");
}

/// Every block that was acknowledged and not destaged is restored: with a load that writes each block once into a cache
/// that does not destage, that is every block written.
#[test]
fn after_a_failover_the_mirror_has_every_acknowledged_write() {
    let mut mirrored = write_back(volume("5", 5, A), true);
    mirrored.config.cache.flush_after = NanoSpan::from_secs(1_000);
    let block = mirrored.config.cache.block_size.0;
    let line = AccessLine::plain(block as u32, 0, 0);
    let of = |volume: &SimulatedVolume, after| {
        let enclosure = failing(enclosure(vec![volume.clone()]), A, after);
        let load = SimulationLoad { ramp: NanoSpan::ZERO, run: NanoSpan::from_secs(4), ..load(line, 1) };
        failover(&run(&enclosure, &load))
    };
    for after_us in [300, 1_000, 7_777, 50_000] {
        let after = NanoSpan::from_micros(after_us);
        let found = of(&mirrored, after);
        let acknowledged = (found.before.expect("some time").0 * after.as_secs_f64()).round() as u64;
        assert_eq!(found.requests_retried, 1);
        // The request in flight may have arrived in both memories and not at the host.
        let surplus = found.cache_blocks_restored.checked_sub(acknowledged);
        assert!(surplus.is_some_and(|surplus| surplus <= 1), "{acknowledged} acknowledged: {found:?}");
        // The same without a mirror loses them, and says so.
        let mut alone = mirrored.clone();
        alone.config.cache.mirror = false;
        let found = of(&alone, after);
        let acknowledged = (found.before.expect("some time").0 * after.as_secs_f64()).round() as u64;
        assert!(found.lost_max.0 >= acknowledged * block, "{acknowledged} acknowledged: {found:?}");
        assert_eq!((found.pause, found.cache_blocks_restored), (Some(DETECTION), 0));
    }
}

/// The one that is left has no mirror: write-back writes through from then on.
#[test]
fn who_is_left_without_a_mirror_writes_through() {
    let volumes = [A, B].map(|owner| write_back(volume("10", 4, owner), true)).to_vec();
    let enclosure = failing(enclosure(volumes), A, NanoSpan::from_millis(100));
    let load = SimulationLoad { ramp: NanoSpan::ZERO, ..load(AccessLine::plain(4096, 0, 100), 2) };
    let found = failover(&run(&enclosure, &load));
    let (before, after) = (found.before.expect("100 ms").0, found.after_pause.expect("seconds").0);
    assert!(before > 3.0 * after, "{before} and then {after} IOPS");
}

/// A part for a volume has all of its requests in flight there, whatever number of volumes there is.
#[test]
fn parts_run_on_the_volumes_that_they_are_for() {
    let part = |name: &str, target, line| MixPart {
        name: name.into(),
        target: NonZeroU32::new(target),
        lines: vec![line],
        iodepth: Some(1),
        ..MixPart::default()
    };
    let log = part("log", 2, AccessLine::plain(8192, 0, 0));
    let both = |parts| AccessSpec { name: "both".into(), parts, ..AccessSpec::default() };
    let run = |workload: AccessSpec, volumes: &[ControllerName]| {
        let volumes = volumes.iter().map(|owner| volume("10", 4, *owner)).collect();
        let load = SimulationLoad { workload, ..load(AccessLine::plain(8192, 100, 100), 1) };
        simulate_enclosure(&enclosure(volumes), &load).map(|outcome| outcome.measurement)
    };
    let data = AccessLine::plain(8192, 100, 100);
    let found = run(both(vec![part("data", 1, data), log.clone()]), &[A, B]).expect("it can be run");
    let alone =
        run(AccessSpec { iodepth: Some(1), ..AccessSpec::new("data", vec![data]) }, &[A]).expect("it can");
    let reads = |measured: &Measurement| measured.ops.read.requests as f64;
    assert_eq!(found.parts.iter().map(|part| part.name.as_str()).collect::<Vec<_>>(), ["data", "log"]);
    assert!((reads(&found) / reads(&alone) - 1.0).abs() < 0.1, "{} and {}", reads(&found), reads(&alone));
    let refused = run(both(vec![part("data", 1, data), log]), &[A]).expect_err("there is one volume");
    assert!(refused.to_string().contains("has parts for 2 targets, and here is one"), "{refused}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let line = AccessLine::plain(8192, 50, 100);
    let refused = |enclosure: &SimulatedEnclosure, iodepth| {
        simulate_enclosure(enclosure, &load(line, iodepth)).expect_err("it makes no sense")
    };
    let single = |volume| SimulatedEnclosure { second: None, ..enclosure(vec![volume]) };
    let lacks = refused(&single(volume("5", 5, B)), 1);
    assert!(matches!(lacks, SimError::NoSecondController { volume: 0, .. }), "{lacks}");
    let lacks = refused(&single(write_back(volume("5", 5, A), true)), 1);
    assert!(matches!(lacks, SimError::NoSecondController { volume: 0, .. }), "{lacks}");
    assert_eq!(refused(&enclosure(vec![]), 1), SimError::NoVolumes);
    let two = enclosure(vec![volume("5", 5, A), volume("5", 5, B)]);
    assert_eq!(refused(&two, 1), SimError::TooFewRequests { iodepth: 1, volumes: 2 });
    let (after, run) = (NanoSpan::from_secs(6), NanoSpan::from_secs(6));
    assert_eq!(refused(&failing(two.clone(), A, after), 2), SimError::FailureAfterRun { after, run });
    let mut kept = two;
    kept.volumes[1].config.resilience.metadata = MetadataPolicy::Log;
    let policy = MetadataPolicy::Log;
    assert_eq!(
        refused(&failing(kept.clone(), B, NanoSpan::ZERO), 2),
        SimError::FailoverWithMetadata { policy }
    );
    // The volume that stays where it is may keep what it likes.
    assert!(simulate_enclosure(&failing(kept, A, NanoSpan::ZERO), &load(line, 2)).is_ok());
}
