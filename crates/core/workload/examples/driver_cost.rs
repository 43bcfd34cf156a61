//! What the driver and its histogram cost per I/O: `cargo run --release -p raidlab-workload --example driver_cost`.
//!
//! Every I/O is handed out, completed at once with a made-up latency, and counted; nothing else happens, so the
//! time is all the driver's.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a measurement reads the clock, the crate never does"
)]

use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::{Driver, DriverConfig, DriverStep, Worker, builtin_workload};
use std::time::Instant;

const REQUESTS: u64 = 20_000_000;

fn main() {
    for (name, iodepth) in [("database", 1), ("database", 64), ("streaming", 64), ("fastt600-web-server", 64)]
    {
        let workload = builtin_workload(name).expect("a built-in name");
        let config = DriverConfig {
            region: ByteCount(8_000_000_000),
            block_bytes: 512,
            iodepth,
            seed: 1,
            ramp: NanoSpan::ZERO,
            run: NanoSpan(u64::MAX),
            start_offset: ByteCount::ZERO,
            max_requests: Some(REQUESTS),
            worker: Worker::ALONE,
        };
        let mut driver = Driver::new(&workload.spec, &config).expect("the profile fits");
        let started = Instant::now();
        drive(&mut driver);
        let ns = started.elapsed().as_nanos() as f64 / REQUESTS as f64;
        println!("{name}, {iodepth} in flight: {ns:.1} ns per I/O");
    }
}

/// Completes the oldest I/O whenever all places are taken; latencies spread over a few hundred microseconds.
fn drive(driver: &mut Driver) {
    let mut now = 0u64;
    let mut in_flight = std::collections::VecDeque::with_capacity(64);
    loop {
        match driver.poll_step(Nanos(now)) {
            DriverStep::Issue(io) => in_flight.push_back((io.slot, io.offset_bytes)),
            DriverStep::Finished => return,
            DriverStep::WaitUntil(at) => now = at.get(),
            DriverStep::WaitForCompletion => {
                let (slot, offset_bytes) = in_flight.pop_front().expect("an I/O is in flight");
                now += offset_bytes >> 14;
                driver.handle_completion(Nanos(now), slot, true);
            }
        }
    }
}
