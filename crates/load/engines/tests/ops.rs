//! Flushes, trims and writes of zeroes on real files, by every engine that supports them.

mod common;

use common::{named, run_quietly, test_file, to_the_end, trace, writable};
use raidlab_engines::{EngineKind, LoadOptions, Target, TargetOptions, UringOptions};
use raidlab_trace::TraceKind;
use raidlab_units::ByteCount;
use raidlab_workload::{AccessSpec, FlushRule};
use std::num::NonZeroU32;

const ENGINES: [EngineKind; 4] =
    [EngineKind::Uring, EngineKind::Sync, EngineKind::Buffered, EngineKind::Mapped];
const KIB: u64 = 1024;

fn with(engine: EngineKind) -> LoadOptions {
    LoadOptions { engine: Some(engine), ..LoadOptions::default() }
}

fn opened(path: &std::path::Path, engine: EngineKind) -> Target {
    Target::open(path, &TargetOptions { direct: !engine.is_through_page_cache(), ..named(path) }).unwrap()
}

#[test]
fn a_trace_does_what_it_says_and_nothing_else() {
    for engine in ENGINES {
        let (_folder, path) = test_file(1);
        let before = std::fs::read(&path).unwrap();
        let target = opened(&path, engine);
        let spec = trace(&[
            (TraceKind::Read, 0, 4 * KIB),
            (TraceKind::Write, 64 * KIB, 8 * KIB),
            (TraceKind::Flush, 0, 0),
            (TraceKind::Trim, 128 * KIB, 64 * KIB),
            (TraceKind::Flush, 0, 0),
        ]);
        let outcome = run_quietly(&target, &spec, &to_the_end(&target), &with(engine)).unwrap();
        let measured = &outcome.measurement;
        assert_eq!(outcome.first_failure(), None, "{engine:?}");
        assert_eq!((measured.ops.read.requests, measured.ops.write.requests), (1, 1), "{engine:?}");
        let others = [&measured.ops.others.flush, &measured.ops.others.trim, &measured.ops.others.zeroes];
        assert_eq!(others.map(|stats| stats.requests), [2, 1, 0], "{engine:?}");
        assert!(others[0].lat.min_ns() > 0 && others[1].lat.min_ns() > 0, "{engine:?}");
        assert_eq!((outcome.issued.requests(), outcome.issued.others), (5, 3));
        let after = std::fs::read(&path).unwrap();
        let [written, hole] = [64 * 1024..72 * 1024, 128 * 1024..192 * 1024];
        assert!(after[hole.clone()].iter().all(|byte| *byte == 0), "{engine:?}: a hole reads as zeroes");
        assert!(before[written.clone()] != after[written.clone()]);
        let same = (0..before.len())
            .all(|at| written.contains(&at) || hole.contains(&at) || before[at] == after[at]);
        assert!(same && before.len() == after.len(), "{engine:?}: all else is as it was");
    }
}

#[test]
fn zeroes_are_written_where_the_file_system_can_and_refused_before_the_run_where_not() {
    for engine in ENGINES {
        let (_folder, path) = test_file(1);
        let before = std::fs::read(&path).unwrap();
        let blocks =
            |path: &std::path::Path| std::os::unix::fs::MetadataExt::blocks(&path.metadata().unwrap());
        let blocks_before = blocks(&path);
        let target = opened(&path, engine);
        let spec = trace(&[(TraceKind::WriteZeroes, 8 * KIB, 16 * KIB)]);
        let after = match run_quietly(&target, &spec, &to_the_end(&target), &with(engine)) {
            Ok(outcome) => {
                assert_eq!(outcome.measurement.ops.others.zeroes.requests, 1, "{engine:?}");
                let after = std::fs::read(&path).unwrap();
                assert!(after[8192..24_576].iter().all(|byte| *byte == 0), "{engine:?}");
                [&before[..8192], &after[8192..24_576], &before[24_576..]].concat()
            }
            Err(error) => {
                assert!(
                    error.to_string().starts_with("there are writes of zeroes in the workload"),
                    "{error}"
                );
                before
            }
        };
        assert!(std::fs::read(&path).unwrap() == after, "{engine:?}");
        assert_eq!(blocks(&path), blocks_before, "{engine:?}: to ask what can be done leaves nothing behind");
    }
}

#[test]
fn flushes_are_timed_beside_the_writes_that_they_follow() {
    for (engine, iodepth, with_metadata) in [
        (EngineKind::Uring, 1, true),
        (EngineKind::Uring, 8, false),
        (EngineKind::Sync, 1, false),
        (EngineKind::Buffered, 1, true),
        (EngineKind::Mapped, 1, true),
        (EngineKind::Mapped, 1, false),
    ] {
        let (_folder, path) = test_file(1);
        let target = opened(&path, engine);
        let flush = NonZeroU32::new(4).map(|every| FlushRule { every, with_metadata });
        let spec = AccessSpec { flush, ..common::spec(4096, 0, 100) };
        let outcome =
            run_quietly(&target, &spec, &common::until(&target, iodepth, 40), &with(engine)).unwrap();
        let measured = &outcome.measurement;
        assert_eq!((measured.ops.write.requests, outcome.first_failure()), (40, None), "{engine:?}");
        // Nine behind the first 36 writes, and one behind the last; those in flight at the end are not counted.
        let (flushes, in_flight) = (measured.ops.others.flush.requests, u64::from(iodepth));
        assert!((10 - in_flight..=10 + in_flight).contains(&flushes), "{engine:?}: {flushes}");
    }
}

#[test]
fn what_can_not_be_done_is_said_before_the_run() {
    let (_folder, path) = test_file(1);
    let target = Target::open(&path, &writable()).unwrap();
    let trims = trace(&[(TraceKind::Trim, 0, 4 * KIB)]);
    let verified = LoadOptions { verify: true, ..with(EngineKind::Uring) };
    let error = run_quietly(&target, &trims, &to_the_end(&target), &verified).unwrap_err().to_string();
    assert!(error.contains("there are trims in the workload") && error.contains("not verified"), "{error}");
    let reading = Target::open(&path, &TargetOptions::default()).unwrap();
    let error = run_quietly(&reading, &trims, &to_the_end(&reading), &with(EngineKind::Sync))
        .unwrap_err()
        .to_string();
    assert!(error.contains("opened for reading only"), "a trim destroys data as a write does: {error}");
    let flush = trace(&[(TraceKind::Flush, 0, 0)]);
    let outcome = run_quietly(&reading, &flush, &to_the_end(&reading), &with(EngineKind::Sync)).unwrap();
    assert_eq!(outcome.measurement.ops.others.flush.requests, 1, "a flush changes nothing");
}

#[test]
fn a_ring_that_was_to_poll_says_why_it_does_not() {
    let (_folder, path) = test_file(1);
    let target = Target::open(&path, &writable()).unwrap();
    let uring = UringOptions { io_poll: true, kernel_thread: false };
    let options = LoadOptions { uring, ..with(EngineKind::Uring) };
    let flush = trace(&[(TraceKind::Flush, 0, 0)]);
    let outcome = run_quietly(&target, &flush, &to_the_end(&target), &options).unwrap();
    assert_eq!(outcome.measurement.ops.others.flush.requests, 1);
    assert!(
        outcome.notes.iter().any(|note| note.contains("polls for reads and writes only")),
        "{:?}",
        outcome.notes
    );
}

#[test]
fn a_target_that_does_nothing_does_all_of_it() {
    let target = Target::no_op(ByteCount::from_mib(1));
    let all = [TraceKind::Flush, TraceKind::Trim, TraceKind::WriteZeroes, TraceKind::Read, TraceKind::Write];
    let spec = trace(&all.map(|kind| (kind, 0, if kind == TraceKind::Flush { 0 } else { 4 * KIB })));
    for engine in [EngineKind::Null, EngineKind::Uring, EngineKind::Sync, EngineKind::Mapped] {
        let outcome = run_quietly(&target, &spec, &to_the_end(&target), &with(engine)).unwrap();
        let others = &outcome.measurement.ops.others;
        let counts = [&others.flush, &others.trim, &others.zeroes].map(|stats| stats.requests);
        assert_eq!((counts, outcome.first_failure()), ([1; 3], None), "{engine:?}");
    }
}
