//! How many requests a second one core does through an array in this process: controller, memory and event loop, and no device.
//!
//! `null_rate LEVEL MEMBERS BYTES READ_PERCENT IODEPTH` drives random requests for two seconds against an array over null
//! members with [`RunSettings`] as `array serve` has them, and prints requests per second of processor time, and of time. For
//! `bench/null-path.sh`.

use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache, MetadataPolicy, Resilience};
use raidlab_format::ArrayName;
use raidlab_runtime::{ArrayWorld, RunSettings};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, Driver, DriverConfig, Worker};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [level, members, bytes, read_pct, iodepth] = &arguments[..] else {
        panic!("usage: null_rate LEVEL MEMBERS BYTES READ_PERCENT IODEPTH")
    };
    let number = |text: &String| text.parse::<u32>().expect("a number");
    let config = config(level);
    let members = vec![PathBuf::from("null:1TiB"); number(members) as usize];
    let name = ArrayName::new("null").expect("it is short");
    let mut world =
        ArrayWorld::start_null(name, &members, &config, &RunSettings::of(&config)).expect("an array");
    let spec = AccessSpec::new("null", vec![AccessLine::plain(number(bytes), number(read_pct) as u8, 100)]);
    let driver_config = DriverConfig {
        region: world.volume_bytes(),
        block_bytes: 4096,
        iodepth: number(iodepth),
        seed: 1,
        ramp: NanoSpan::from_millis(200),
        run: NanoSpan::from_millis(2000),
        start_offset: ByteCount::ZERO,
        max_requests: None,
        worker: Worker::ALONE,
        ..DriverConfig::default()
    };
    let mut driver = Driver::new(&spec, &driver_config).expect("a workload that fits");
    let outcome = world.run(&mut driver, &AtomicBool::new(false), &mut |_| {}).expect("a run");
    let requests = driver.issued().requests() as f64;
    let rate = |span: NanoSpan| requests / (span.get() as f64 / 1e9);
    println!("{:.0} {:.0}", rate(outcome.cpu), rate(outcome.wall));
}

fn config(level: &str) -> ArrayConfig {
    ArrayConfig {
        level: level.parse().expect("a level"),
        members: 0,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B4096,
        member_size: ByteCount::ZERO,
        member_cache: MemberCache::On,
        cache: CacheConfig::default(),
        staging_size: ByteCount::from_mib(64),
        resilience: Resilience { metadata: MetadataPolicy::None, ..Resilience::default() },
    }
}
