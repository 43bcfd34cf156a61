//! The narrowest part of storage as a pipe, and accelerators that read from it.

use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::{
    Accelerator, AccessSpec, Actor, Driver, DriverConfig, DriverError, DriverStep, MixPart, RunResult,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// One request after the other at a rate, and the same latency for each beside it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pipe {
    pub(super) bytes_per_sec: f64,
    pub(super) latency: NanoSpan,
}

/// Batches before the measured window, and in it.
const RAMP_STEPS: f64 = 15.0;
const RUN_STEPS: f64 = 60.0;

/// Utilisation in percent, and bytes per second, of accelerators that read from `pipe`.
pub(super) fn feed(it: &Accelerator, pipe: &Pipe) -> Result<(f64, f64), DriverError> {
    let bytes = f64::from(it.count) * it.batch_bytes();
    let step_secs = (bytes / pipe.bytes_per_sec).max(it.compute.as_secs_f64() + it.per_step.as_secs_f64());
    let part = MixPart {
        name: "training".to_owned(),
        actor: Some(Actor::Accelerator(it.clone())),
        ..MixPart::default()
    };
    let spec = AccessSpec { name: "training".to_owned(), parts: vec![part], ..AccessSpec::default() };
    let config = DriverConfig {
        region: ByteCount(1 << 44),
        block_bytes: 4096,
        iodepth: 1,
        seed: 1,
        ramp: NanoSpan::from_secs_f64(RAMP_STEPS * step_secs),
        run: NanoSpan::from_secs_f64(RUN_STEPS * step_secs),
        ..DriverConfig::default()
    };
    let mut driver = Driver::new(&spec, &config)?;
    let (mut now, mut busy_until) = (Nanos::ZERO, 0.0f64);
    let mut under_way: BinaryHeap<Reverse<(Nanos, u32)>> = BinaryHeap::new();
    loop {
        let next = under_way.peek().map(|Reverse((at, _))| *at);
        now = match driver.poll_step(now) {
            DriverStep::Issue(io) => {
                let took_ns = f64::from(io.bytes) * 1e9 / pipe.bytes_per_sec;
                busy_until = busy_until.max(now.get() as f64) + took_ns;
                under_way.push(Reverse((Nanos(busy_until as u64) + pipe.latency, io.slot)));
                continue;
            }
            DriverStep::Finished => break,
            DriverStep::WaitUntil(at) => next.map_or(at, |next| next.min(at)),
            DriverStep::WaitForCompletion => next.unwrap_or(now),
        };
        while let Some(Reverse((at, slot))) = under_way.peek().copied().filter(|Reverse((at, _))| *at <= now)
        {
            under_way.pop();
            driver.handle_completion(at.max(now), slot, true);
        }
    }
    let mut result = RunResult::default();
    result.set_measurement(&driver.measurement());
    let facts = result.accelerators().copied().unwrap_or_default();
    // Samples that were trained on, not what was read ahead in the window.
    Ok((facts.au_pct, facts.samples_per_s * it.sample.mean_bytes()))
}
