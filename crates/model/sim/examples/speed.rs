//! Host requests simulated per second on one core: OLTP (8 KiB, 70% reads, random) on RAID 5 over nine drives, and
//! random writes of 4 KiB on a preconditioned flash drive, and on RAID 5 over eight of them.
//!
//! Run with `cargo run --release -p raidlab-sim --example speed [OF]`, which runs the lines that contain `OF`. The goals are
//! 1,000,000 a second for OLTP, 400,000 for one flash drive and 200,000 for eight.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "an example may read the clock")]

use raidlab_controller::{ArrayConfig, CacheConfig, CacheMemory, MemberCache, Resilience, WritePolicy};
use raidlab_hardware::{Catalog, DriveCondition, DriveHistory};
use raidlab_sim::{LoadRegion, SimulatedArray, SimulationLoad, simulate};
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec};
use std::error::Error;
use std::time::Instant;

/// A line of the table.
struct Row {
    name: String,
    array: SimulatedArray,
    load: SimulationLoad,
}

fn main() -> Result<(), Box<dyn Error>> {
    let of = std::env::args().nth(1).unwrap_or_default();
    let catalog = Catalog::builtin();
    let rows = oltp(&catalog)?.into_iter().chain(nvme(&catalog)?);
    for Row { name, array, load } in rows.filter(|row| row.name.contains(&of)) {
        let start = Instant::now();
        let outcome = simulate(&array, &load)?;
        let rate = outcome.host_requests as f64 / start.elapsed().as_secs_f64();
        let events = outcome.events as f64 / outcome.host_requests as f64;
        let iops = outcome.measurement.summaries().total.iops.0;
        println!(
            "{name}: {:.0} thousand host requests/s simulated, {events:.1} events each; {iops:.0} IOPS",
            rate / 1e3
        );
    }
    Ok(())
}

fn oltp(catalog: &Catalog) -> Result<Vec<Row>, Box<dyn Error>> {
    let rows = [
        ("st3600057ss", WritePolicy::WriteThrough, 500),
        ("st3600057ss", WritePolicy::WriteBack, 300),
        ("pliant-lb150", WritePolicy::WriteThrough, 60),
    ];
    let mut all = Vec::new();
    for (drive, write_policy, run_secs) in rows {
        for iodepth in [8, 64, 256] {
            let array = array(catalog, drive, write_policy)?;
            let load = SimulationLoad {
                workload: AccessSpec::new("oltp", vec![AccessLine::plain(8192, 70, 100)]),
                iodepth,
                region: LoadRegion::StrokePct(100),
                ramp: NanoSpan::from_secs(5),
                run: NanoSpan::from_secs(run_secs),
                seed: 1,
            };
            all.push(Row { name: format!("{drive:13} {write_policy:?} iodepth {iodepth}"), array, load });
        }
    }
    Ok(all)
}

/// Arrays of a flash drive that random writes have been over twice, so that garbage collection is at work from the start.
fn nvme(catalog: &Catalog) -> Result<Vec<Row>, Box<dyn Error>> {
    let condition = DriveCondition { history: DriveHistory::Random(2), fill_pct: 100 };
    let mut all = Vec::new();
    for (level, members) in [("0", 1), ("5", 8)] {
        for iodepth in [32, 256] {
            let mut array = array(catalog, "pliant-lb150", WritePolicy::WriteThrough)?;
            array.config.level = level.parse()?;
            array.config.members = members;
            array.config.block_size = BlockSize::B4096;
            array.config.member_size = ByteCount::from_gib(1000);
            array.drive = catalog.drive("samsung-pm9a3-7680")?.clone().in_condition(condition)?;
            array.controller = catalog.controller("linux-md-nvme")?.clone();
            let load = SimulationLoad {
                workload: AccessSpec::new("4k random write", vec![AccessLine::plain(4096, 0, 100)]),
                iodepth,
                region: LoadRegion::StrokePct(100),
                ramp: NanoSpan::from_millis(500),
                run: NanoSpan::from_secs(5),
                seed: 1,
            };
            all.push(Row { name: format!("nvme RAID {level} x{members} iodepth {iodepth}"), array, load });
        }
    }
    Ok(all)
}

fn array(
    catalog: &Catalog,
    drive: &str,
    write_policy: WritePolicy,
) -> Result<SimulatedArray, Box<dyn Error>> {
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
