//! Arrays of solid-state drives as they are today.

mod drives;

use drives::config;
use raidlab_controller::WritePolicy;
use raidlab_hardware::Catalog;
use raidlab_sim::{LoadRegion, SimulatedArray, SimulationLoad, simulate};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec};

/// Requests a second of `line` on eight mirrored drives.
fn iops(line: AccessLine, region: LoadRegion, iodepth: u32) -> f64 {
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
    let outcome = simulate(&SimulatedArray { config, drive, controller }, &load).expect("it can be");
    let measured = &outcome.measurement;
    (measured.ops.read.requests + measured.ops.write.requests) as f64 / measured.window.as_secs_f64()
}

/// All lanes of a link were one server, which ended at 2.68 million reads a second.
#[test]
fn mirrors_of_eight_drives_read_on_all_lanes_at_once() {
    let reads = iops(AccessLine::plain(4096, 100, 100), LoadRegion::StrokePct(100), 2048);
    assert!((4.0e6..9.0e6).contains(&reads), "{reads} reads a second");
}

/// Writes to the hottest block queued behind each other's programs.
#[test]
fn writes_to_few_blocks_are_as_fast_as_any() {
    let region = LoadRegion::Bytes(ByteCount::from_mib(1));
    let hot = iops(AccessLine::plain(4096, 0, 100), region, 64);
    let spread = iops(AccessLine::plain(4096, 0, 100), LoadRegion::StrokePct(100), 64);
    assert!(hot > 0.9 * spread, "hot: {hot}, spread: {spread} a second");
}
