//! The load generator's cost per I/O: `cargo run --release -p raidlab-engines --example engine_cost [TARGET BYTES]`.
//!
//! Without a target: the null engine, and `io_uring` with requests that do nothing. With one, which may be an NBD
//! export's URI: random reads of it, of this many bytes, by the engine for its kind. Each line is a depth with the
//! results of a second: IOPS, and processor time of the thread per request.

use raidlab_engines::{EngineKind, Go, LoadOptions, Target, TargetOptions, run_targets};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, DriverConfig};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let bytes = args.get(1).map_or(4096, |text| text.parse().expect("a number of bytes"));
    let (target, engines) = match args.first() {
        None => {
            (Target::no_op(ByteCount::from_gib(1)), vec![Some(EngineKind::Null), Some(EngineKind::Uring)])
        }
        Some(path) => {
            let options = TargetOptions { direct: args.len() < 3, ..TargetOptions::default() };
            (Target::open(Path::new(path), &options).expect("a target"), vec![None])
        }
    };
    let spec = AccessSpec::new("reads", vec![AccessLine::plain(bytes, 100, 100)]);
    for engine in engines {
        for iodepth in [1, 32, 128] {
            let config = DriverConfig {
                region: target.size(),
                block_bytes: target.block_bytes(),
                iodepth,
                seed: 1,
                ramp: NanoSpan::from_millis(100),
                run: NanoSpan::from_secs(1),
                ..DriverConfig::default()
            };
            let options = LoadOptions { engine, ..LoadOptions::default() };
            let (targets, never) = ([(&target, config)], AtomicBool::new(false));
            let outcome = run_targets(&targets, &spec, &options, &mut || Go::Now, &never, &mut |_| {});
            let outcome = outcome.expect("it runs");
            let iops =
                outcome.measurement.ops.read.requests as f64 / outcome.measurement.window.as_secs_f64();
            let cpu_ns = outcome.cpu_ns_per_io().unwrap_or_default();
            println!(
                "{:10} depth {iodepth:3}: {iops:10.0} IOPS, {cpu_ns:6.1} ns of CPU each",
                outcome.engine
            );
        }
    }
}
