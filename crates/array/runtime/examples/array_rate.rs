//! How fast an array of files in a folder takes writes or reads, and how many member I/Os these take, with a metadata policy.
//!
//! `array_rate FOLDER LEVEL MEMBERS METADATA BYTES RANDOM_PERCENT IODEPTH [READ_PERCENT [IO_THREADS]]` makes an array of members of 256 MiB
//! with the settings of `array create` and `array serve`, drives it for two seconds from this process (writes without threads for I/O
//! unless said otherwise), and prints bytes per second, requests per second and member I/Os per request. The members are deleted. For
//! `bench/array-metadata.sh` and `bench/io-threads.sh`.

use raidlab_controller::{ArrayConfig, CacheConfig, MemberCache, MetadataPolicy, Resilience};
use raidlab_format::{ArrayName, StartOptions};
use raidlab_runtime::{ArrayWorld, CreateOptions, RunSettings, create};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, Driver, DriverConfig, Worker};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

static GO_ON: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, level, members, metadata, load @ ..] = &arguments[..] else { return Err(USAGE.into()) };
    let [bytes, random_pct, iodepth, more @ ..] = load else { return Err(USAGE.into()) };
    let read_pct = more.first().map_or(Ok(0), |text| text.parse())?;
    let io_threads = more.get(1).map_or(Ok(0), |text| text.parse())?;
    let config = ArrayConfig {
        level: level.parse()?,
        members: members.parse()?,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B4096,
        member_size: ByteCount::from_mib(256),
        member_cache: MemberCache::On,
        cache: CacheConfig::default(),
        staging_size: ByteCount::from_mib(64),
        resilience: Resilience { metadata: policy(metadata)?, ..Resilience::default() },
    };
    let paths: Vec<PathBuf> =
        (0..config.members).map(|member| Path::new(folder).join(format!("member-{member}"))).collect();
    let line = AccessLine::plain(bytes.parse()?, read_pct, random_pct.parse()?);
    let settings = RunSettings { io_threads, ..RunSettings::of(&config) };
    measure(&config, &paths, &AccessSpec::new("load", vec![line]), iodepth.parse()?, &settings)?;
    paths.iter().try_for_each(std::fs::remove_file)?;
    Ok(())
}

fn policy(name: &str) -> Result<MetadataPolicy, String> {
    let policies =
        [MetadataPolicy::None, MetadataPolicy::Resync, MetadataPolicy::Bitmap, MetadataPolicy::Log];
    let found = policies.into_iter().find(|policy| policy.to_string() == name);
    found.ok_or_else(|| format!("{name} is no metadata policy"))
}

const USAGE: &str = "usage: array_rate FOLDER LEVEL MEMBERS METADATA BYTES RANDOM_PERCENT IODEPTH [READ_PERCENT [IO_THREADS]]";

fn measure(
    config: &ArrayConfig,
    paths: &[PathBuf],
    spec: &AccessSpec,
    iodepth: u32,
    settings: &RunSettings,
) -> Result<(), Box<dyn Error>> {
    let name = ArrayName::new("array-rate")?;
    let options = CreateOptions { name, members: paths.to_vec(), ..CreateOptions::default() };
    create(config, &options, &GO_ON, &mut |_, _| {})?;
    let mut world = ArrayWorld::start(paths, settings, StartOptions::default()).world?;
    world.await_serving(&GO_ON)?;
    let driver_config = DriverConfig {
        region: world.volume_bytes(),
        block_bytes: 4096,
        iodepth,
        seed: 1,
        ramp: NanoSpan::from_millis(500),
        run: NanoSpan::from_millis(2000),
        start_offset: ByteCount::ZERO,
        max_requests: None,
        worker: Worker::ALONE,
        ..DriverConfig::default()
    };
    let mut driver = Driver::new(spec, &driver_config)?;
    let outcome = world.run(&mut driver, &GO_ON, &mut |_| {})?;
    world.stop(&GO_ON)?;
    let (issued, seconds) = (driver.issued(), outcome.wall.get() as f64 / 1e9);
    let requests = issued.requests() as f64;
    let ios =
        outcome.counters.member_reads + outcome.counters.member_writes + outcome.counters.metadata_writes;
    let bytes_per_sec = requests * f64::from(spec.lines[0].bytes) / seconds;
    println!("{bytes_per_sec:.0} {:.0} {:.3}", requests / seconds, ios as f64 / requests);
    Ok(())
}
