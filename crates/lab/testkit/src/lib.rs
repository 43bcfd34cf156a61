//! What tests of several crates need; no program depends on it.
//!
//! | world | members | memory | time |
//! |---|---|---|---|
//! | [`CountedWorld`] | end when they are told to, no bytes | at once, no bytes | a span for each round |
//! | [`InstantWorld`] | at once, no bytes | at once, no bytes | goes on with requests |
//!
//! Worlds with bytes stay with the tests that check them, and have their memories from [`Memories`]. The torture world, which a program
//! has, too, is a crate of its own.
#![forbid(unsafe_code)]

mod array;
mod counted;
mod instant;
mod memories;
mod panics;
mod random;

pub use array::{ARRAY_UUID, array, new_areas, start_nonce};
pub use counted::{CountedWorld, READ, STRIP, WRITE};
pub use instant::InstantWorld;
pub use memories::{BLOCK, Memories, multiply};
pub use panics::tell_panics;
pub use random::Random;

use raidlab_units::{BytesPerSec, Iops};
use raidlab_workload::{Metric, OpSummary, RunResult, Summaries, World};
use std::collections::BTreeMap;

/// A result of `iops` requests per second of 8 KiB, 1.25 ms on average and 3 ms at the 99th percentile.
#[must_use]
pub fn example_result(workload: &str, iops: f64) -> RunResult {
    let total = OpSummary {
        requests: 10,
        iops: Iops(iops),
        bytes_per_sec: BytesPerSec(iops * 8192.0),
        lat_ns_mean: 1.25e6,
        lat_ns_p99: 3_000_000,
        ..OpSummary::default()
    };
    RunResult {
        iodepth: 8,
        seed: u64::MAX,
        window_ns: 1_000_000_000,
        ops: Summaries { read: total.clone(), total, ..Summaries::default() },
        settings: BTreeMap::from([("ramp".into(), "1 s".into())]),
        ..RunResult::unmeasured(World::Simulated, "six drives".into(), workload.into(), Metric::Iops)
    }
}
