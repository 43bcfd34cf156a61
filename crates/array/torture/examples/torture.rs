//! How many host requests one core checks in a second in the torture world, and what a run costs by kind of array.
//!
//! Run with `cargo run --release -p raidlab-torture --example torture [SEEDS] [OPS]`. The goal is 200,000 a second.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "an example may read the clock")]

use raidlab_torture::{TortureMode, TorturePlan, TortureReport};
use std::time::Instant;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let seeds: u64 = numbers.next().unwrap_or(200);
    let ops: u64 = numbers.next().unwrap_or(10_000);
    let first: u64 = numbers.next().unwrap_or(0);
    for mode in [TortureMode::Bounded, TortureMode::Beyond] {
        let mut sum = TortureReport::default();
        let start = Instant::now();
        for seed in first..first + seeds {
            let plan = TorturePlan::draw(seed, ops, mode, None).expect("any level");
            match plan.run() {
                Ok(report) => sum.add(&report),
                Err(failure) if seeds == 1 => println!("{failure}{plan:?}"),
                Err(failure) => {
                    println!("seed {seed}: {}: {}", failure.violation.checker(), failure.violation);
                }
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{}: {:.0} host requests/s, {:.1} member I/Os each, {:.0} seeds/s, {sum:?}",
            mode.name(),
            sum.host_ops as f64 / seconds,
            sum.member_ios as f64 / sum.host_ops as f64,
            seeds as f64 / seconds,
        );
    }
}
