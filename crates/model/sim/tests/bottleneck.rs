//! Bottlenecks: right where they can be derived by hand, and the gains of all parts add up.

mod drives;

use drives::{config, controller, drive};
use raidlab_controller::WritePolicy;
use raidlab_hardware::{Catalog, ControllerPart, DrivePart};
use raidlab_sim::{
    Bottleneck, BottleneckOutcome, Extent, Goal, LoadRegion, Part, SimulatedArray, SimulationLoad,
    find_bottleneck, simulate,
};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, ArrivalProcess, Arrivals, ClosedLoop, Pacing, RequestRate};

/// One drive that answers in tens of microseconds and has no controller that counts before it.
fn nvme() -> SimulatedArray {
    let catalog = Catalog::builtin();
    let mut array = SimulatedArray {
        config: config("0", 1),
        drive: catalog.drive("generic-nvme").expect("in the catalogue").clone(),
        controller: catalog.controller("linux-md-nvme").expect("in the catalogue").clone(),
    };
    array.config.cache.write_policy = WritePolicy::WriteThrough;
    array
}

fn hard_drives(level: &str, members: u16) -> SimulatedArray {
    SimulatedArray { config: config(level, members), drive: drive(), controller: controller() }
}

fn load(line: AccessLine, iodepth: u32, run: NanoSpan) -> SimulationLoad {
    SimulationLoad {
        workload: AccessSpec::new("made up", vec![line]),
        iodepth,
        region: LoadRegion::Bytes(ByteCount::from_gib(64)),
        ramp: NanoSpan(run.0 / 10),
        run,
        seed: 7,
    }
}

fn found(array: &SimulatedArray, load: &SimulationLoad) -> BottleneckOutcome {
    let outcome = simulate(array, load).unwrap_or_else(|error| panic!("{error}"));
    let found = find_bottleneck(&array.enclosure(), load, &outcome, Extent::Gains, &mut |probes| {
        probes.iter().map(raidlab_sim::Probe::run).collect()
    });
    found.unwrap_or_else(|error| panic!("{error}"))
}

fn gain(found: &BottleneckOutcome, part: Part) -> f64 {
    found.gains.iter().find(|gain| gain.part == part).map_or(0.0, |gain| gain.share)
}

const MS_20: NanoSpan = NanoSpan::from_millis(20);
const READ_4K: AccessLine = AccessLine::plain(4096, 100, 100);

/// The drive is busy nearly all of the time, and would do many times more: the host asks for too little at a time.
#[test]
fn an_nvme_drive_at_depth_1_waits_for_requests_in_flight() {
    let load = load(READ_4K, 1, NanoSpan::from_millis(200));
    let outcome = simulate(&nvme(), &load).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.utilisation.drives_mean > 0.8, "{:?}", outcome.utilisation);
    let found = found(&nvme(), &load);
    assert_eq!(found.bottleneck, Bottleneck::Iodepth, "{found:?}");
    assert!(found.deeper.is_some_and(|deeper| (0.9..1.1).contains(&deeper)), "{found:?}");
}

#[test]
fn an_nvme_drive_at_depth_256_is_held_up_by_itself() {
    let found = found(&nvme(), &load(READ_4K, 256, MS_20));
    assert!(matches!(found.bottleneck, Bottleneck::Part(Part::Drives(_))), "{found:?}");
    assert!(found.deeper.is_some_and(|deeper| deeper < 0.3), "{found:?}");
}

/// A tenth more speed everywhere is a tenth more throughput, so the parts' gains add up to that, whichever of them set the pace.
#[test]
fn the_gains_of_all_parts_add_up_to_what_a_faster_world_would_do() {
    let mut slow_processor = nvme();
    slow_processor.controller.processors = 1;
    slow_processor.controller.host_command.read = NanoSpan::from_micros(10);
    let rows = [(nvme(), 1), (nvme(), 4), (slow_processor, 16)];
    for (array, iodepth) in rows {
        let found = found(&array, &load(READ_4K, iodepth, MS_20));
        let is_whole = |part: Part| !matches!(part, Part::Drives(part) if part != DrivePart::All);
        let sum: f64 = found.gains.iter().filter(|gain| is_whole(gain.part)).map(|gain| gain.share).sum();
        assert!((0.08..0.12).contains(&sum), "iodepth {iodepth}: {sum} of {found:?}");
    }
}

/// The bottleneck is not what is busiest: with few requests and a slow processor the drives are hardly busy, and with many
/// the processor's share is all there is.
#[test]
fn a_faster_bottleneck_gives_what_it_holds_up() {
    let mut array = nvme();
    array.controller.processors = 1;
    array.controller.host_command.read = NanoSpan::from_micros(20);
    let found = found(&array, &load(READ_4K, 64, NanoSpan::from_millis(100)));
    let processors = Part::HostProcessors;
    assert_eq!(found.bottleneck, Bottleneck::Part(processors), "{found:?}");
    assert!((0.09..0.11).contains(&gain(&found, processors)), "{found:?}");
}

/// Random reads on a disk wait for its arm and for the platter: neither alone for what both together do.
#[test]
fn a_disk_is_taken_apart() {
    let found =
        found(&hard_drives("0", 2), &load(AccessLine::plain(8192, 100, 100), 64, NanoSpan::from_secs(20)));
    assert!(matches!(found.bottleneck, Bottleneck::Part(Part::Drives(_))), "{found:?}");
    let inside: Vec<DrivePart> = found
        .gains
        .iter()
        .filter_map(|gain| if let Part::Drives(part) = gain.part { Some(part) } else { None })
        .collect();
    assert!(inside.contains(&DrivePart::Arm) && inside.contains(&DrivePart::Platters), "{inside:?}");
}

/// What arrives at its own rate is served at that rate; what counts is how long it takes.
#[test]
fn an_open_loop_is_judged_by_its_latency() {
    let mut load = load(AccessLine::plain(8192, 100, 100), 1, NanoSpan::from_secs(20));
    let rate = RequestRate::new(100.0).expect("above zero");
    load.workload.pacing = Pacing::Open(Arrivals { process: ArrivalProcess::Poisson, rate, burst: 1 });
    let mut array = hard_drives("0", 4);
    let found_fast = found(&array, &load);
    assert_eq!(found_fast.goal, Goal::Latency);
    assert!(matches!(found_fast.bottleneck, Bottleneck::Part(Part::Drives(_))), "{found_fast:?}");
    array.controller.host_command.read = NanoSpan::from_millis(9);
    array.controller.processors = 1;
    let found_slow = found(&array, &load);
    let processors = Part::Controller(ControllerPart::Processors);
    assert_eq!(found_slow.bottleneck, Bottleneck::Part(processors), "{found_slow:?}");
    // Served in nine tenths of its time, a queue as full as that is more than a tenth shorter.
    assert!(gain(&found_slow, processors) > 0.15, "{found_slow:?}");
}

/// A load that asks for less than it could have is its own bottleneck.
#[test]
fn a_limited_load_sets_its_own_pace() {
    let mut load = load(READ_4K, 8, NanoSpan::from_secs(1));
    load.workload.pacing =
        Pacing::Closed(ClosedLoop { rate_max: RequestRate::new(2000.0), ..ClosedLoop::default() });
    assert_eq!(found(&nvme(), &load).bottleneck, Bottleneck::Load);
}

/// A long run is not run again as a whole ten times.
#[test]
fn runs_are_cut_as_long_as_they_show_the_same() {
    let load = load(READ_4K, 8, NanoSpan::from_millis(1200));
    let found = found(&nvme(), &load);
    assert!(found.window.0 * 2 < load.run.0, "{found:?}");
    assert!(found.requests < 1_000_000, "{found:?}");
}

/// Windows of 143 requests once told gains of 45 and losses of 76 % beside "up to 5 % may be chance".
#[test]
fn chance_is_told_as_far_as_it_reaches_and_windows_are_made_longer() {
    let disks = hard_drives("0", 2);
    let of_run = |millis| {
        let load = load(AccessLine::plain(8192, 50, 100), 8, NanoSpan::from_millis(millis));
        (found(&disks, &load), load.run)
    };
    let (short, run) = of_run(500);
    assert!(short.window > run, "it was made longer: {short:?}");
    let (hopeless, _) = of_run(20);
    assert!(hopeless.noise > 0.1, "a few dozen requests tell little: {hopeless:?}");
    assert!(hopeless.noise > short.noise && short.noise < 0.2, "{short:?}");
}
