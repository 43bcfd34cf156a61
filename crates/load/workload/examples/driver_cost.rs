//! The cost of the driver and its histogram per I/O, and the rate of data generation: `cargo run --release -p
//! raidlab-workload --example driver_cost`.
//!
//! Every I/O is issued, completed at once with an invented latency, and counted; nothing else happens, so all the time
//! is the driver's.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement reads the clock, the crate never does"
)]

use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::{
    AccessSpec, ArrivalProcess, Arrivals, DataGenerator, DataSpec, Distribution, Driver, DriverConfig,
    DriverStep, Pacing, Places, RequestRate, builtin_workload,
};
use std::time::Instant;

const REQUESTS: u64 = 20_000_000;

fn main() {
    for (name, iodepth) in [("database", 1), ("database", 64), ("streaming", 64), ("fastt600-web-server", 64)]
    {
        let workload = builtin_workload(name).expect("a built-in name");
        report(&format!("{name}, {iodepth} in flight"), &workload.spec, iodepth);
    }
    let database = || builtin_workload("database").expect("a built-in name").spec;
    let mut zipf = database();
    zipf.places =
        Places { distribution: Distribution::Zipf { theta: 0.99 }, scrambled: true, ..Places::default() };
    report("database by zipf, scrambled, 64 in flight", &zipf, 64);
    for process in [ArrivalProcess::Fixed, ArrivalProcess::Poisson] {
        let rate = RequestRate::new(1e6).expect("a rate");
        let pacing = Pacing::Open(Arrivals { process, rate, burst: 1 });
        report(&format!("database, {pacing}"), &AccessSpec { pacing, ..database() }, 64);
    }
    for data in [(0, 0), (50, 0), (0, 50)] {
        let (compressible_pct, dedupe_pct) = data;
        let generator = DataGenerator::new(DataSpec { compressible_pct, dedupe_pct }, 1);
        let mut bytes = vec![0; 1 << 20];
        let started = Instant::now();
        (0..1000).for_each(|round| generator.fill(round << 8, &mut bytes));
        let gb_per_s = 1000.0 * bytes.len() as f64 / started.elapsed().as_nanos() as f64;
        println!("data, {compressible_pct}% compressible, {dedupe_pct}% duplicates: {gb_per_s:.1} GB/s");
    }
}

fn report(what: &str, spec: &AccessSpec, iodepth: u32) {
    let config = DriverConfig {
        region: ByteCount(8_000_000_000),
        block_bytes: 512,
        iodepth,
        seed: 1,
        run: NanoSpan(u64::MAX),
        max_requests: Some(REQUESTS),
        ..DriverConfig::default()
    };
    let mut driver = Driver::new(spec, &config).expect("the profile fits");
    let started = Instant::now();
    drive(&mut driver);
    let ns = started.elapsed().as_nanos() as f64 / REQUESTS as f64;
    println!("{what}: {ns:.1} ns per I/O");
}

/// Completes the oldest I/O whenever all places are taken; latencies spread over a few hundred microseconds.
fn drive(driver: &mut Driver) {
    let mut now = 0u64;
    let mut in_flight = std::collections::VecDeque::with_capacity(64);
    loop {
        match driver.poll_step(Nanos(now)) {
            DriverStep::Issue(io) => in_flight.push_back((io.slot, io.offset_bytes)),
            DriverStep::Finished => return,
            // An open loop waits for an arrival with requests in flight: one of them ends meanwhile.
            DriverStep::WaitUntil(at) => {
                now = at.get();
                if let Some((slot, _)) = in_flight.pop_front() {
                    driver.handle_completion(Nanos(now), slot, true);
                }
            }
            DriverStep::WaitForCompletion => {
                let (slot, offset_bytes) = in_flight.pop_front().expect("an I/O is in flight");
                now += offset_bytes >> 14;
                driver.handle_completion(Nanos(now), slot, true);
            }
        }
    }
}
