//! Load on real files: measurements, writes, and the end of a run.

mod common;

use common::{config, folder, lay_out, named, run, run_quietly, spec, test_file, until, writable};
use raidlab_engines::{
    EngineKind, FailureCause, Go, LoadError, LoadOptions, Target, TargetKind, TargetOptions, UringOptions,
    run_targets,
};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::{AccessLine, AccessSpec, DriverConfig, Measurement, MixPart};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ENGINES: [EngineKind; 3] = [EngineKind::Uring, EngineKind::Sync, EngineKind::Mapped];

fn with(engine: EngineKind) -> LoadOptions {
    LoadOptions { engine: Some(engine), ..LoadOptions::default() }
}

#[test]
fn a_mix_is_measured() {
    let (_folder, path) = test_file(4);
    for (engine, iodepth, direct) in [
        (EngineKind::Uring, 1, true),
        (EngineKind::Uring, 16, true),
        (EngineKind::Uring, 16, false),
        (EngineKind::Sync, 1, true),
        (EngineKind::Sync, 1, false),
        (EngineKind::Buffered, 1, false),
        (EngineKind::Mapped, 1, false),
    ] {
        let target = Target::open(&path, &TargetOptions { direct, ..writable() }).unwrap();
        assert_eq!((target.size(), target.kind()), (ByteCount::from_mib(4), TargetKind::File));
        let config = DriverConfig { ramp: NanoSpan::from_millis(20), ..until(&target, iodepth, 400) };
        let outcome = run_quietly(&target, &spec(8192, 67, 100), &config, &with(engine)).unwrap();
        let (read, write) = (&outcome.measurement.ops.read, &outcome.measurement.ops.write);
        let case = format!("{engine:?} {iodepth} {direct} {outcome:?}");
        assert_eq!(read.requests + write.requests, 400, "{case}");
        assert!(read.requests > write.requests && write.requests > 50, "{case}");
        assert_eq!(read.bytes.get(), read.requests * 8192);
        assert_eq!((read.errors, write.errors, outcome.first_failure()), (0, 0, None), "{case}");
        assert!(read.requests + write.requests <= outcome.issued.reads + outcome.issued.writes);
        assert_eq!(outcome.iodepth_reached, iodepth, "{case}");
        assert!(outcome.wall >= outcome.measurement.window + NanoSpan::from_millis(20), "{case}");
        assert!(outcome.cpu_ns_per_io().unwrap() > 100.0, "{case}");
        // The processor's time is read outside of the wall clock's.
        assert!(outcome.cost.thread_cpu <= outcome.wall + NanoSpan::from_millis(5), "{case}");
        assert_eq!((outcome.threads, outcome.targets.len()), (1, 1));
        assert!(!outcome.cancelled);
    }
}

/// A log on one file and random reads of another, which is open for reading only.
#[test]
fn parts_run_on_their_targets_alone() {
    let ((_one, first), (_other, second)) = (test_file(1), test_file(1));
    let data = Target::open(&first, &TargetOptions::default()).unwrap();
    let log = Target::open(&second, &writable()).unwrap();
    let part = |name: &str, target, line| MixPart {
        name: name.into(),
        target: NonZeroU32::new(target),
        lines: vec![line],
        ..MixPart::default()
    };
    let parts = vec![
        part("data", 1, AccessLine::plain(8192, 100, 100)),
        part("log", 2, AccessLine::plain(4096, 0, 0)),
    ];
    let spec = AccessSpec { name: "both".into(), parts, ..AccessSpec::default() };
    let all = |targets: &[&Target]| {
        let targets: Vec<_> = targets.iter().map(|target| (*target, until(target, 2, 200))).collect();
        let cancel = AtomicBool::new(false);
        run_targets(&targets, &spec, &LoadOptions::default(), &mut || Go::Now, &cancel, &mut |_| {})
    };
    let outcome = all(&[&data, &log]).unwrap();
    let requests = |measured: &Measurement| (measured.ops.read.requests, measured.ops.write.requests);
    assert_eq!(requests(&outcome.targets[0].measurement), (200, 0));
    assert_eq!(requests(&outcome.targets[1].measurement), (0, 200));
    let parts: Vec<_> = outcome.measurement.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(parts, ["data", "log"]);
    assert!(
        all(&[&log, &data]).is_err_and(|error| error.to_string().contains("read")),
        "no log on the first"
    );
    let refused = all(&[&log]).unwrap_err();
    assert!(refused.is_input() && refused.to_string().contains("has parts for 2 targets"), "{refused}");
}

/// A file in the page cache takes any length, as a log that is written record by record needs it.
#[test]
fn the_page_cache_takes_requests_of_any_length() {
    let (_folder, path) = test_file(1);
    let odd = spec(2300, 50, 100);
    for engine in [EngineKind::Uring, EngineKind::Buffered] {
        let target = Target::open(&path, &TargetOptions { direct: false, ..writable() }).unwrap();
        assert_eq!((target.blocks_for(&odd), target.blocks_for(&spec(4096, 0, 0))), (1, 512));
        let config = DriverConfig { block_bytes: 1, ..until(&target, 1, 200) };
        let outcome = run_quietly(&target, &odd, &config, &with(engine)).unwrap();
        let (read, write) = (&outcome.measurement.ops.read, &outcome.measurement.ops.write);
        assert_eq!((read.requests + write.requests, read.errors + write.errors), (200, 0));
        assert_eq!(write.bytes.get(), write.requests * 2300);
    }
    let direct = Target::open(&path, &writable()).unwrap();
    assert!(direct.blocks_for(&odd) >= 512);
    let config = DriverConfig { block_bytes: 1, ..until(&direct, 1, 200) };
    let refused = run_quietly(&direct, &odd, &config, &with(EngineKind::Uring));
    assert!(matches!(refused, Err(LoadError::BlockSize { .. })), "{refused:?}");
    let null = Target::no_op(ByteCount::from_mib(1));
    assert_eq!(null.blocks_for(&odd), 1, "a run that does nothing refuses no more than one that does");
}

#[test]
fn writes_land_everywhere_and_nowhere_else_and_no_two_are_alike() {
    for (engine, iodepth) in [(EngineKind::Uring, 7), (EngineKind::Sync, 1), (EngineKind::Mapped, 1)] {
        let (_folder, path) = test_file(2);
        let before = std::fs::read(&path).unwrap();
        let target = Target::open(&path, &writable()).unwrap();
        let region = ByteCount::from_mib(1);
        let config = DriverConfig { region, max_requests: Some(32), ..config(&target, iodepth, 60_000) };
        let outcome = run_quietly(&target, &spec(32_768, 0, 0), &config, &with(engine)).unwrap();
        assert_eq!(outcome.measurement.ops.write.requests, 32);
        let after = std::fs::read(&path).unwrap();
        let in_region = region.get() as usize;
        assert!(before[..in_region].chunks(4096).zip(after.chunks(4096)).all(|(old, new)| old != new));
        assert_eq!(before[2 << 20..], after[2 << 20..], "the mark of the file stays");
        // Requests that were in flight when the last one was counted may have gone on behind the region's end.
        let blocks: BTreeSet<&[u8]> = after[..in_region].chunks(4096).collect();
        assert_eq!(blocks.len(), in_region / 4096);
        assert_eq!(before[in_region..], after[in_region..], "nothing is written outside the region");
    }
}

#[test]
fn a_stop_is_prompt_and_keeps_what_was_measured() {
    let (_folder, path) = test_file(1);
    for engine in ENGINES {
        let target = Target::open(&path, &TargetOptions::default()).unwrap();
        let cancel = AtomicBool::new(false);
        let config = config(&target, 1, 3_600_000);
        let mut calls = 0;
        let mut stopped_at = None;
        let outcome = run(&target, &spec(4096, 100, 100), &config, &with(engine), &cancel, &mut |seen| {
            calls += 1;
            assert!(seen.window.requests > 0 && seen.window.fraction < 0.01);
            if calls == 2 {
                cancel.store(true, Ordering::Relaxed);
                stopped_at = Some((Instant::now(), seen.elapsed, seen.window.requests));
            }
        })
        .unwrap();
        let (at, elapsed, requests) = stopped_at.unwrap();
        assert!(at.elapsed() < Duration::from_millis(500), "{engine:?}");
        assert!(outcome.cancelled);
        assert!(outcome.measurement.ops.read.requests >= requests && requests > 0);
        assert!(outcome.measurement.window >= elapsed);
        assert!(outcome.measurement.window < elapsed + NanoSpan::from_millis(500));
    }
}

#[test]
fn a_stop_is_prompt_while_nothing_is_issued() {
    let target = Target::no_op(ByteCount::from_mib(1));
    let lines = vec![AccessLine { delay: NanoSpan::from_secs(600), ..AccessLine::plain(512, 100, 0) }];
    let spec = AccessSpec::new("slow", lines);
    for engine in ENGINES {
        let cancel = AtomicBool::new(false);
        let started = Instant::now();
        let config = config(&target, 1, 3_600_000);
        let outcome = run(&target, &spec, &config, &with(engine), &cancel, &mut |_| {
            cancel.store(true, Ordering::Relaxed);
        })
        .unwrap();
        assert!(started.elapsed() < Duration::from_secs(2));
        assert_eq!((outcome.cancelled, outcome.measurement.ops.read.requests), (true, 1));
        assert!(outcome.cost.thread_cpu < NanoSpan::from_millis(100), "waiting does not spin");
    }
}

#[test]
fn bursts_keep_their_distance() {
    let target = Target::no_op(ByteCount::from_mib(1));
    let lines =
        vec![AccessLine { delay: NanoSpan::from_millis(10), burst: 3, ..AccessLine::plain(512, 100, 0) }];
    let spec = AccessSpec::new("bursts", lines);
    let outcome = run_quietly(&target, &spec, &until(&target, 4, 12), &LoadOptions::default()).unwrap();
    let measured = &outcome.measurement;
    assert_eq!(measured.ops.read.requests, 12);
    assert!(measured.window >= NanoSpan::from_millis(30), "three delays between four bursts: {measured:?}");
}

#[test]
fn the_no_op_target_costs_little() {
    let target = Target::no_op(ByteCount::from_gib(1));
    let outcome =
        run_quietly(&target, &spec(4096, 67, 100), &until(&target, 32, 100_000), &LoadOptions::default())
            .unwrap();
    assert!(outcome.cpu_ns_per_io().unwrap() < 5000.0, "{outcome:?}");
    assert_eq!(outcome.iodepth_reached, 32);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (_folder, path) = test_file(1);
    let reading = Target::open(&path, &TargetOptions::default()).unwrap();
    let writing = Target::open(&path, &writable()).unwrap();
    let good = config(&reading, 1, 10);
    let two = DriverConfig { iodepth: 2, ..good.clone() };
    let large = DriverConfig { region: ByteCount::from_mib(2), ..good.clone() };
    let odd = DriverConfig { block_bytes: 100, ..good.clone() };
    let deep = DriverConfig { iodepth: 32_769, ..good.clone() };
    let rows: [(&str, &Target, u8, &DriverConfig, EngineKind, &str); 6] = [
        ("writes", &reading, 99, &good, EngineKind::Uring, "workload 'test' writes, but"),
        ("region", &writing, 0, &large, EngineKind::Uring, "holds 1 MiB, less than the region of 2 MiB"),
        ("blocks", &writing, 0, &odd, EngineKind::Uring, "not of 100: use its block size"),
        (
            "sync",
            &writing,
            0,
            &two,
            EngineKind::Sync,
            "the psync engine keeps 1 to 1 requests in flight, not 2",
        ),
        ("depth", &writing, 0, &deep, EngineKind::Uring, "1 to 32768 requests in flight, not 32769"),
        ("request", &writing, 0, &good, EngineKind::Uring, "is smaller than one request of 2097152 bytes"),
    ];
    for (name, target, read_pct, config, engine, expected) in rows {
        let bytes = if name == "request" { 2 << 20 } else { 4096 };
        let error = run_quietly(target, &spec(bytes, read_pct, 0), config, &with(engine)).unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
    }
}

#[test]
fn a_file_that_shrinks_under_load_ends_the_run() {
    for engine in ENGINES {
        let folder = folder();
        let path = folder.path().join("file");
        std::fs::write(&path, vec![1; 8192]).unwrap();
        let target =
            Target::open(&path, &TargetOptions { direct: false, ..TargetOptions::default() }).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(6144).unwrap();
        // The first request is short by 2048 bytes; going on with the rest finds the end.
        let result = run_quietly(&target, &spec(8192, 100, 0), &config(&target, 1, 1000), &with(engine));
        match result {
            Err(LoadError::Failing {
                cause: FailureCause::EndOfFile, offset_bytes: 0, bytes: 8192, ..
            }) => {}
            other => panic!("{engine:?}: {other:?}"),
        }
    }
}

#[test]
fn a_mapped_file_that_is_cut_off_in_mid_run_is_an_error_and_no_crash() {
    let (_folder, path) = test_file(4);
    for read_pct in [100, 0] {
        lay_out(&path, ByteCount::from_mib(4)).unwrap();
        let target = Target::open(&path, &TargetOptions { direct: false, ..writable() }).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let config = config(&target, 1, 3_600_000);
        let (spec, options, never) =
            (spec(16_384, read_pct, 0), with(EngineKind::Mapped), AtomicBool::new(false));
        let mut is_cut = false;
        let result = run(&target, &spec, &config, &options, &never, &mut |_| {
            if !std::mem::replace(&mut is_cut, true) {
                file.set_len(40_960).unwrap();
            }
        });
        let Err(LoadError::Failing { cause: FailureCause::EndOfFile, offset_bytes, .. }) = result else {
            panic!("{read_pct}: {result:?}")
        };
        assert!(offset_bytes >= 32_768, "what is left of the file can be read: {offset_bytes}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn latency_is_cut_in_two_where_that_is_asked_for() {
    let (_folder, path) = test_file(1);
    for (engine, iodepth) in [(EngineKind::Uring, 16), (EngineKind::Sync, 1), (EngineKind::Mapped, 1)] {
        let target =
            Target::open(&path, &TargetOptions { direct: false, ..TargetOptions::default() }).unwrap();
        for latency_split in [true, false] {
            let options = LoadOptions { latency_split, ..with(engine) };
            let config = until(&target, iodepth, 500);
            // Long enough to take some time even from memory.
            let outcome = run_quietly(&target, &spec(262_144, 100, 100), &config, &options).unwrap();
            let read = &outcome.measurement.ops.read;
            assert_eq!(read.split.is_some(), latency_split);
            let Some(split) = &read.split else { continue };
            assert_eq!((split.slat.count(), split.clat.count()), (500, 500));
            let sum_ns = split.slat.mean_ns() + split.clat.mean_ns();
            assert!((sum_ns / read.lat.mean_ns() - 1.0).abs() < 1e-9, "{engine:?}");
            // What is queued is handed on within microseconds; the call itself is counted with the storage.
            assert!(split.slat.percentile_ns(50.0) < split.clat.percentile_ns(50.0), "{engine:?}");
        }
    }
}

#[test]
fn writes_to_the_medium_are_slower_and_land_all_the_same() {
    for engine in [EngineKind::Uring, EngineKind::Sync, EngineKind::Buffered, EngineKind::Mapped] {
        let (_folder, path) = test_file(1);
        let before = std::fs::read(&path).unwrap();
        let target = Target::open(&path, &TargetOptions { direct: false, ..writable() }).unwrap();
        let config = DriverConfig { max_requests: Some(16), ..config(&target, 1, 600_000) };
        let options = LoadOptions { fua: true, ..with(engine) };
        // Blocks that are no pages: what is written out begins and ends within some.
        let outcome = run_quietly(&target, &spec(6144, 0, 0), &config, &options).unwrap();
        assert_eq!(
            (outcome.measurement.ops.write.requests, outcome.first_failure()),
            (16, None),
            "{engine:?}"
        );
        let after = std::fs::read(&path).unwrap();
        assert!((0..16).all(|block| before[block * 6144..][..4096] != after[block * 6144..][..4096]));
    }
}

#[test]
fn no_space_under_a_sparse_file_is_said() {
    let folder = folder();
    let mount_point = folder.path().display().to_string();
    let mounted = common::is_root()
        && common::command(&["mount", "-t", "tmpfs", "-o", "size=1m", "none", &mount_point]).is_some();
    if !mounted {
        eprintln!("SKIPPED no_space_under_a_sparse_file_is_said: mounting a small tmpfs needs root");
        return;
    }
    let path = folder.path().join("sparse");
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let results = ENGINES.map(|engine| {
        let target = Target::open(&path, &TargetOptions { direct: false, ..named(&path) }).unwrap();
        let result = run_quietly(&target, &spec(65_536, 0, 0), &config(&target, 1, 5000), &with(engine));
        (result, target)
    });
    let results = results.map(|(result, _)| result);
    common::command(&["umount", &mount_point]);
    for result in results {
        let error = result.map(|_| ()).unwrap_err();
        let is_no_space =
            matches!(error, LoadError::Failing { cause: FailureCause::Errno(Errno::NOSPC), op: "write", .. });
        assert!(is_no_space && error.to_string().contains("free some space"), "{error}");
    }
}

#[test]
fn many_targets_and_workers_are_loaded_side_by_side() {
    let (_one, first) = test_file(1);
    let (_two, second) = test_file(2);
    let nothing = Target::no_op(ByteCount::from_mib(1));
    for (engine, iodepth, threads) in
        [(Some(EngineKind::Uring), 3, 6), (None, 3, 6), (Some(EngineKind::Sync), 1, 9)]
    {
        let [a, b] = [&first, &second].map(|path| Target::open(path, &writable()).unwrap());
        let targets: Vec<_> =
            [&a, &b, &nothing].map(|target| (target, until(target, iodepth, 90))).into_iter().collect();
        let options = LoadOptions {
            engine,
            workers: NonZeroU32::new(3).unwrap(),
            cpus: vec![0],
            ..LoadOptions::default()
        };
        let spec = spec(4096, 50, 100);
        let run = |cancel: bool| {
            run_targets(&targets, &spec, &options, &mut || Go::Now, &AtomicBool::new(cancel), &mut |_| {})
                .unwrap()
        };
        let outcome = run(false);
        let case = format!("{engine:?} {outcome:?}");
        assert_eq!((outcome.threads, outcome.iodepth_reached), (threads, 3 * 3 * iodepth), "{case}");
        let sum: u64 = outcome.targets.iter().map(|target| target.measurement.ops.read.requests).sum();
        assert_eq!(sum, outcome.measurement.ops.read.requests);
        let requests = |measured: &Measurement| measured.ops.read.requests + measured.ops.write.requests;
        assert!(outcome.targets.iter().all(|target| requests(&target.measurement) == 90), "{case}");
        assert!(outcome.targets.iter().all(|target| target.error.is_none()), "{case}");
        assert!(outcome.cost.thread_cpu > NanoSpan::ZERO);
        let stopped = run(true);
        assert!(stopped.cancelled && stopped.measurement.window < NanoSpan::from_secs(60));
    }
}

#[test]
fn workers_read_different_places() {
    let folder = folder();
    let path = folder.path().join("file");
    let blocks: Vec<u8> = (0..64_u8).flat_map(|block| vec![block; 4096]).collect();
    std::fs::write(&path, blocks).unwrap();
    let target = Target::open(&path, &named(&path)).unwrap();
    // Four workers write one block each of a sequential stream: a quarter of the region apart.
    let config = DriverConfig { max_requests: Some(4), ..config(&target, 1, 60_000) };
    let options = LoadOptions { workers: NonZeroU32::new(4).unwrap(), ..LoadOptions::default() };
    let outcome = run_quietly(&target, &spec(4096, 0, 0), &config, &options).unwrap();
    assert_eq!(outcome.measurement.ops.write.requests, 4);
    let after = std::fs::read(&path).unwrap();
    let changed: Vec<usize> =
        (0..64).filter(|block| after[block * 4096..][..4096] != vec![*block as u8; 4096]).collect();
    assert_eq!(changed, [0, 16, 32, 48]);
}

#[test]
fn one_target_that_fails_does_not_stop_the_others_and_all_failing_is_an_error() {
    let folder = folder();
    let [good, bad] = ["good", "bad"].map(|name| folder.path().join(name));
    for path in [&good, &bad] {
        std::fs::write(path, vec![1; 1 << 20]).unwrap();
    }
    let open =
        |path| Target::open(path, &TargetOptions { direct: false, ..TargetOptions::default() }).unwrap();
    let (first, second) = (open(&good), open(&bad));
    std::fs::OpenOptions::new().write(true).open(&bad).unwrap().set_len(512).unwrap();
    for engine in ENGINES {
        let spec = spec(4096, 100, 100);
        let run = |targets: &[&Target]| {
            let targets: Vec<_> = targets.iter().map(|target| (*target, until(target, 1, 200))).collect();
            run_targets(&targets, &spec, &with(engine), &mut || Go::Now, &AtomicBool::new(false), &mut |_| {})
        };
        let outcome = run(&[&second, &first]).unwrap();
        let error = outcome.targets[0].error.as_ref().expect("it is too short").to_string();
        assert!(error.contains("bad' failed, so the load on it was ended"), "{error}");
        assert!(
            outcome.targets[1].error.is_none() && outcome.targets[1].measurement.ops.read.requests == 200
        );
        assert!(matches!(run(&[&second]), Err(LoadError::Failing { .. })));
    }
}

#[test]
fn wishes_that_can_not_be_granted_are_told_and_the_load_runs_all_the_same() {
    let (_folder, path) = test_file(1);
    let target = Target::open(&path, &TargetOptions::default()).unwrap();
    for (io_poll, kernel_thread) in [(true, false), (false, true), (true, true)] {
        let options =
            LoadOptions { uring: UringOptions { io_poll, kernel_thread }, ..LoadOptions::default() };
        let outcome = run_quietly(&target, &spec(4096, 100, 100), &until(&target, 4, 50), &options).unwrap();
        assert_eq!(outcome.measurement.ops.read.requests, 50);
        let told = outcome.notes.join(" ");
        for (wished, fact, word) in
            [(io_poll, "polled ends", "IOPOLL"), (kernel_thread, "submitting kernel thread", "SQPOLL")]
        {
            let is_granted = outcome.engine.contains(fact);
            assert!(is_granted <= wished, "{outcome:?}");
            assert_eq!(wished && !is_granted, told.contains(word), "{outcome:?}");
        }
    }
}

#[test]
fn a_processor_that_there_is_not_is_refused() {
    let target = Target::no_op(ByteCount::from_mib(1));
    for cpu in [1023, 100_000] {
        let options = LoadOptions {
            cpus: vec![0, cpu],
            workers: NonZeroU32::new(2).unwrap(),
            ..LoadOptions::default()
        };
        let error =
            run_quietly(&target, &spec(512, 100, 100), &config(&target, 1, 50), &options).unwrap_err();
        assert!(matches!(error, LoadError::Pin { cpu: refused, .. } if refused == cpu), "{error}");
    }
}
