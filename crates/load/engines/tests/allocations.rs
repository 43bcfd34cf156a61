//! The load loop allocates nothing per request, with histograms, series and a split of latency kept.
//!
//! All allocations of the process are counted, also those of the load's threads. A run of many requests may make as
//! many as one of few: those before the first request and after the last.

use raidlab_engines::{EngineKind, Go, LoadOptions, Target, run_targets};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, DriverConfig};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is the system allocator's; counting touches no memory that it hands out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations of a run of so many requests that do nothing, half of them reads.
fn allocations(engine: EngineKind, options: &LoadOptions, requests: u64) -> u64 {
    let target = Target::no_op(ByteCount::from_gib(1));
    let lines = vec![
        AccessLine { share_pct: 40, ..AccessLine::plain(4096, 50, 100) },
        AccessLine { share_pct: 60, ..AccessLine::plain(512, 50, 0) },
    ];
    let config = DriverConfig {
        region: target.size(),
        block_bytes: target.block_bytes(),
        iodepth: if engine.is_one_at_a_time() { 1 } else { 32 },
        seed: 42,
        run: NanoSpan::from_secs(600),
        max_requests: Some(requests),
        ..DriverConfig::default()
    };
    let options = LoadOptions { engine: Some(engine), ..options.clone() };
    let spec = AccessSpec::new("mix", lines);
    let (targets, never) = ([(&target, config)], AtomicBool::new(false));
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let outcome = run_targets(&targets, &spec, &options, &mut || Go::Now, &never, &mut |_| {});
    let outcome = outcome.expect("it runs");
    let made = ALLOCATIONS.load(Ordering::Relaxed) - before;
    let measured = &outcome.measurement;
    assert_eq!(measured.ops.read.requests + measured.ops.write.requests, requests);
    made
}

#[test]
fn no_request_allocates() {
    let split = LoadOptions { latency_split: true, ..LoadOptions::default() };
    for (engine, options) in [
        (EngineKind::Null, &LoadOptions::default()),
        (EngineKind::Null, &split),
        (EngineKind::Uring, &LoadOptions::default()),
        (EngineKind::Uring, &split),
        (EngineKind::Sync, &split),
        (EngineKind::Mapped, &split),
    ] {
        let few = allocations(engine, options, 1000);
        let many = allocations(engine, options, 201_000);
        // A run that takes longer may wake the thread that shows progress once more.
        assert!(many <= few + 20, "{engine:?}: {few} allocations for 1000 requests, {many} for 201000");
        assert!(few > 10, "allocations are counted: {few}");
    }
}
