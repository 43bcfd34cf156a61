//! How many host requests one core simulates in a second: OLTP (8 KiB, 70% reads, random) on RAID 5 over nine drives.
//!
//! Run with `cargo run --release -p raidlab-sim --example speed`. The goal is 1,000,000 a second.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "an example may read the clock")]

use raidlab_controller::{ArrayConfig, CacheConfig, CacheMemory, MemberCache, Resilience, WritePolicy};
use raidlab_hardware::Catalog;
use raidlab_sim::{LoadRegion, SimulatedArray, SimulationLoad, simulate};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec};
use std::error::Error;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let rows = [
        ("st3600057ss", WritePolicy::WriteThrough, 500),
        ("st3600057ss", WritePolicy::WriteBack, 300),
        ("pliant-lb150", WritePolicy::WriteThrough, 60),
    ];
    for (drive, write_policy, run_secs) in rows {
        for iodepth in [8, 64, 256] {
            let array = array(drive, write_policy)?;
            let load = SimulationLoad {
                workload: AccessSpec::new("oltp", vec![AccessLine::plain(8192, 70, 100)]),
                iodepth,
                region: LoadRegion::StrokePct(100),
                ramp: NanoSpan::from_secs(5),
                run: NanoSpan::from_secs(run_secs),
                seed: 1,
            };
            let start = Instant::now();
            let outcome = simulate(&array, &load)?;
            let rate = outcome.host_requests as f64 / start.elapsed().as_secs_f64();
            let events = outcome.events as f64 / outcome.host_requests as f64;
            println!(
                "{drive:13} {write_policy:?} iodepth {iodepth}: {:.0} thousand host requests/s simulated, \
                 {events:.1} events each",
                rate / 1e3
            );
        }
    }
    Ok(())
}

fn array(drive: &str, write_policy: WritePolicy) -> Result<SimulatedArray, Box<dyn Error>> {
    let catalog = Catalog::builtin();
    Ok(SimulatedArray {
        config: ArrayConfig {
            level: "5".parse()?,
            members: 9,
            strip_size: ByteCount::from_kib(64),
            block_size: BlockSize::B512,
            member_size: ByteCount::from_gib(100),
            member_cache: MemberCache::Off,
            cache: CacheConfig {
                size: ByteCount::from_mib(512),
                memory: CacheMemory::BatteryBacked,
                write_policy,
                flush_after: NanoSpan::from_secs(4),
                flush_iodepth: 64,
                ..CacheConfig::default()
            },
            staging_size: ByteCount::from_mib(64),
            resilience: Resilience::default(),
        },
        drive: catalog.drive(drive)?.clone(),
        controller: catalog.controller("perc-h800")?.clone(),
    })
}
