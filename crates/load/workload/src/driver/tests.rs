//! The driver in a small world: a target with invented service times, and a log that a slow oracle reads.

use super::*;
use crate::pacing::{ArrivalProcess, Arrivals, Pacing, RequestRate};
use crate::result::OpStats;
use crate::rng::Rng;
use crate::spec::AccessLine;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BLOCK: u32 = 4096;

/// One I/O as the world saw it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged {
    pub(super) issued_at: u64,
    pub(super) completed_at: u64,
    pub(super) op: IoOp,
    pub(super) offset_bytes: u64,
    pub(super) bytes: u32,
    pub(super) succeeded: bool,
}

/// A target that takes `fixed_ns` plus up to `jitter_ns` for each I/O, and fails a share of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) fixed_ns: u64,
    pub(super) jitter_ns: u64,
    pub(super) error_pct: u8,
}

pub(super) fn config() -> DriverConfig {
    DriverConfig {
        region: ByteCount::from_mib(64),
        block_bytes: BLOCK,
        iodepth: 4,
        seed: 1,
        ramp: NanoSpan(1000),
        run: NanoSpan(10_000),
        ..DriverConfig::default()
    }
}

pub(super) fn spec(lines: Vec<AccessLine>) -> AccessSpec {
    AccessSpec::new("made-up", lines)
}

fn database() -> AccessSpec {
    spec(vec![AccessLine::plain(8192, 67, 100)])
}

/// Drives to the end, from the time `start` on; completions in flight lie in `due` by time and order of issue.
pub(super) fn drive(driver: &mut Driver, start: u64, target: Target) -> Vec<Logged> {
    let mut rng = Rng::new(99);
    let mut log = Vec::new();
    let mut due: BTreeMap<(u64, usize), u32> = BTreeMap::new();
    let mut slots = BTreeSet::new();
    let mut now = start;
    loop {
        match driver.poll_step(Nanos(now)) {
            DriverStep::Issue(io) => {
                assert!(slots.insert(io.slot), "slot {} is in flight already", io.slot);
                assert!((io.slot as usize) < driver.slots.len(), "slots are dense");
                let completed_at = now + target.fixed_ns + rng.below(target.jitter_ns + 1);
                due.insert((completed_at, log.len()), io.slot);
                let succeeded = !rng.chance_pct(target.error_pct);
                let (op, offset_bytes, bytes) = (io.op, io.offset_bytes, io.bytes);
                log.push(Logged { issued_at: now, completed_at, op, offset_bytes, bytes, succeeded });
            }
            DriverStep::Finished => {
                assert!(due.is_empty(), "finished with I/Os in flight");
                return log;
            }
            step => {
                let wake = if let DriverStep::WaitUntil(at) = step { at.get() } else { u64::MAX };
                assert!(wake > now, "a wait for {wake} at {now} would spin");
                match due.first_key_value().map(|(key, _)| *key) {
                    Some(key) if key.0 <= wake => {
                        now = key.0;
                        let slot = due.remove(&key).unwrap();
                        assert!(slots.remove(&slot));
                        driver.handle_completion(Nanos(now), slot, log[key.1].succeeded);
                    }
                    _ => now = wake,
                }
            }
        }
    }
}

/// What the window should hold: requests, bytes, errors, sum of latencies, per direction, and its end.
fn oracle(log: &[Logged], config: &DriverConfig, start: u64) -> ([[u64; 4]; 2], u64) {
    let window_start = start + config.ramp.get();
    let mut window_end = window_start + config.run.get();
    let mut by_completion: Vec<(usize, Logged)> = log.iter().copied().enumerate().collect();
    by_completion.sort_by_key(|(order, io)| (io.completed_at, *order));
    let mut counted = 0;
    let mut sums = [[0; 4]; 2];
    for (_, io) in by_completion {
        if io.completed_at < window_start || io.completed_at > window_end {
            continue;
        }
        if config.max_requests.is_some_and(|max| counted == max) {
            break;
        }
        counted += 1;
        if config.max_requests == Some(counted) {
            window_end = io.completed_at;
        }
        let sum = &mut sums[usize::from(io.op == IoOp::Write)];
        if io.succeeded {
            sum[0] += 1;
            sum[1] += u64::from(io.bytes);
            sum[3] += io.completed_at - io.issued_at;
        } else {
            sum[2] += 1;
        }
    }
    (sums, window_end)
}

fn sums_of(stats: &OpStats) -> [u64; 4] {
    assert_eq!(stats.lat.count(), stats.requests);
    let lat_sum = (stats.lat.mean_ns() * stats.requests as f64).round() as u64;
    [stats.requests, stats.bytes.get(), stats.errors, lat_sum]
}

proptest! {
    #[test]
    fn the_window_holds_what_a_slow_oracle_counts(
        seed in any::<u64>(),
        iodepth in 1u32..9,
        start in 0u64..5000,
        ramp in 0u64..3000,
        run in 1u64..20_000,
        max_requests in proptest::option::of(1u64..60),
        fixed_ns in 1u64..1500,
        jitter_ns in 0u64..1500,
        error_pct in prop_oneof![Just(0u8), Just(30), Just(100)],
        burst in 1u32..5,
        delay in prop_oneof![Just(0u64), 1u64..4000],
    ) {
        let config = DriverConfig {
            iodepth, seed, ramp: NanoSpan(ramp), run: NanoSpan(run), max_requests, ..config()
        };
        let line = AccessLine { burst, delay: NanoSpan(delay), ..AccessLine::plain(8192, 67, 50) };
        let mut driver = Driver::new(&spec(vec![line]), &config).unwrap();
        let log = drive(&mut driver, start, Target { fixed_ns, jitter_ns, error_pct });

        let (expected, window_end) = oracle(&log, &config, start);
        let measured = driver.measurement();
        prop_assert_eq!([sums_of(&measured.ops.read), sums_of(&measured.ops.write)], expected);
        prop_assert_eq!(measured.window.get(), window_end - start - ramp);
        // A count may end the window at an instant at which an earlier completion has already brought a new I/O.
        let last_issue = if max_requests.is_some() { window_end + 1 } else { window_end };
        prop_assert!(log.iter().all(|io| io.issued_at < last_issue));
        let issued = driver.issued();
        prop_assert_eq!(issued.reads + issued.writes, log.len() as u64);
        prop_assert_eq!(issued.bytes.get(), 8192 * log.len() as u64);
        for burst_ends in (burst as usize..log.len()).step_by(burst as usize) {
            let wait = log[burst_ends].issued_at - log[burst_ends - 1].issued_at;
            prop_assert!(wait >= delay, "burst after {wait} ns instead of {delay}");
        }
    }
}

#[test]
fn the_places_are_always_full_until_the_window_ends() {
    let mut driver = Driver::new(&database(), &config()).unwrap();
    let log = drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
    // Four places, 100 ns each, 11 us: 110 rounds; the last round is issued before the end and completes at it.
    assert_eq!(log.len(), 440);
    let measured = driver.measurement();
    assert_eq!(measured.window, NanoSpan(10_000));
    // Completions at 1000, 1100 .. 11000 ns: both ends of the window are in it.
    assert_eq!(measured.ops.read.requests + measured.ops.write.requests, 404);
    let total = measured.summaries().total;
    assert_eq!(
        (total.lat_ns_mean, total.lat_ns_min, total.lat_ns_p99, total.lat_ns_max),
        (100.0, 100, 100, 100)
    );
    assert_eq!(total.iops.0, 404.0 / 10e-6);
}

#[test]
fn a_count_ends_the_window_at_the_completion_that_reaches_it() {
    let config = DriverConfig { max_requests: Some(6), ..config() };
    let mut driver = Driver::new(&database(), &config).unwrap();
    drive(&mut driver, 0, Target { fixed_ns: 300, jitter_ns: 0, error_pct: 0 });
    // Four complete at 1200; of the four at 1500 two are counted.
    let measured = driver.measurement();
    assert_eq!(measured.window, NanoSpan(500));
    assert_eq!(measured.ops.read.requests + measured.ops.write.requests, 6);
    let progress = driver.window_progress(Nanos(1500));
    assert_eq!((progress.fraction, progress.requests, progress.in_flight), (1.0, 6, 0));
}

#[test]
fn a_user_can_stop_in_ramp_and_window() {
    for (stop_at, window, counts) in [(500, 0, 0), (3050, 2050, 84)] {
        let mut driver = Driver::new(&database(), &config()).unwrap();
        let mut in_flight: Vec<(u64, u32)> = Vec::new();
        let mut now = 0;
        loop {
            if now >= stop_at {
                driver.handle_stop(Nanos(stop_at));
            }
            match driver.poll_step(Nanos(now)) {
                DriverStep::Issue(io) => in_flight.push((now + 100, io.slot)),
                DriverStep::Finished => break,
                _ => {
                    let (at, slot) = in_flight.remove(0);
                    if now < stop_at && stop_at < at {
                        driver.handle_stop(Nanos(stop_at));
                    }
                    now = at;
                    driver.handle_completion(Nanos(now), slot, true);
                }
            }
        }
        let measured = driver.measurement();
        assert_eq!(measured.window, NanoSpan(window), "stop at {stop_at}");
        assert_eq!(measured.ops.read.requests + measured.ops.write.requests, counts, "stop at {stop_at}");
    }
}

#[test]
fn progress_runs_from_nothing_to_one() {
    let mut driver = Driver::new(&database(), &config()).unwrap();
    assert_eq!(driver.window_progress(Nanos(77)).fraction, 0.0);
    driver.poll_step(Nanos(0));
    for (now, fraction, in_ramp) in
        [(0, 0.0, true), (999, 999.0 / 11e3, true), (5500, 0.5, false), (11_000, 1.0, false)]
    {
        let progress = driver.window_progress(Nanos(now));
        assert_eq!(
            (progress.fraction, progress.in_ramp, progress.in_flight),
            (fraction, in_ramp, 1),
            "at {now}"
        );
    }
}

#[test]
fn workers_share_the_load_and_their_measurements_add_up() {
    let whole = DriverConfig { iodepth: 7, max_requests: Some(10), ..config() };
    let parts: Vec<DriverConfig> = (0..3).map(|worker| whole.for_worker(worker, 3)).collect();
    assert_eq!(parts.iter().map(|part| part.iodepth).collect::<Vec<_>>(), [3, 2, 2]);
    assert_eq!(parts.iter().map(|part| part.max_requests.unwrap()).collect::<Vec<_>>(), [4, 3, 3]);
    assert_eq!(parts.iter().map(|part| part.seed).collect::<BTreeSet<_>>().len(), 3);
    let starts: Vec<u64> = parts.iter().map(|part| part.start_offset.get() / u64::from(BLOCK)).collect();
    assert_eq!(starts, [0, 5461, 10922]);

    let mut merged = Measurement::default();
    let mut requests = 0;
    for part in &parts {
        let mut driver = Driver::new(&database(), part).unwrap();
        drive(&mut driver, 0, Target { fixed_ns: 200, jitter_ns: 100, error_pct: 0 });
        let measured = driver.measurement();
        requests += measured.ops.read.requests + measured.ops.write.requests;
        merged.merge(&measured);
        assert!(merged.window >= measured.window);
    }
    assert_eq!(requests, 10);
    assert_eq!(merged.ops.read.requests + merged.ops.write.requests, 10);
    assert_eq!(merged.summaries().total.requests, 10);
    let late = whole.for_worker(0, 8).iodepth + whole.for_worker(7, 8).iodepth;
    assert_eq!(late, 1, "seven requests for eight workers leave the last with none");
}

#[test]
fn numbers_that_drive_nothing_are_refused() {
    let table = [
        (DriverConfig { iodepth: 0, ..config() }, "the number of requests in flight is 0: give at least 1"),
        (
            DriverConfig { run: NanoSpan::ZERO, ..config() },
            "the length of the measured window is 0: give at least 1",
        ),
        (DriverConfig { block_bytes: 0, ..config() }, "the target's block size is 0: give at least 1"),
        (
            DriverConfig { max_requests: Some(0), ..config() },
            "the number of requests that ends the window is 0: give at least 1",
        ),
        (
            DriverConfig { start_offset: ByteCount(100), ..config() },
            "the sequential stream can't start at byte 100: \
             give a multiple of 4096 below the region's 67108864 bytes",
        ),
        (
            DriverConfig { start_offset: ByteCount::from_mib(64), ..config() },
            "the sequential stream can't start at byte 67108864: \
             give a multiple of 4096 below the region's 67108864 bytes",
        ),
        (
            DriverConfig { region: ByteCount::ZERO, ..config() },
            "the region of 0 B is smaller than one request of 8192 bytes",
        ),
    ];
    for (config, expected) in table {
        assert_eq!(Driver::new(&database(), &config).unwrap_err().to_string(), expected);
    }
}

#[test]
#[should_panic(expected = "slot 0 completed but was not in flight")]
fn a_completion_of_nothing_is_a_fault_of_the_world() {
    Driver::new(&database(), &config()).unwrap().handle_completion(Nanos(1), 0, true);
}

#[test]
fn both_parts_of_latency_add_up_to_it() {
    let open = Pacing::Open(Arrivals {
        process: ArrivalProcess::Poisson,
        rate: RequestRate::new(2e6).unwrap(),
        burst: 1,
    });
    for pacing in [Pacing::default(), open] {
        let spec = AccessSpec { pacing, ..database() };
        let mut driver = Driver::new(&spec, &config()).unwrap().with_latency_split();
        let mut split: [Vec<(u64, u64)>; 2] = [Vec::new(), Vec::new()];
        let mut now = 0;
        let mut under_way = Vec::new();
        loop {
            match driver.poll_step(Nanos(now)) {
                DriverStep::Issue(io) => under_way.push((io.slot, io.op)),
                DriverStep::Finished => break,
                DriverStep::WaitUntil(Nanos(at)) if under_way.is_empty() => now = at,
                _ => {
                    // All that was issued is handed on 7 ns later by one call, and ends 30 ns after that.
                    for (slot, _) in &under_way {
                        driver.handle_submitted(Nanos(now + 7), *slot);
                    }
                    now += 37;
                    let in_window = (1000..=11_000).contains(&now);
                    for (slot, op) in under_way.drain(..) {
                        let issued_at = driver.slots[slot as usize].issued_at.get();
                        driver.handle_completion(Nanos(now), slot, true);
                        if in_window {
                            split[usize::from(op == IoOp::Write)].push((now - 30 - issued_at, 30));
                        }
                    }
                }
            }
        }
        let measured = driver.measurement();
        for (stats, expected) in [&measured.ops.read, &measured.ops.write].into_iter().zip(&split) {
            let figures = stats.split.as_ref().unwrap().summary();
            assert_eq!(stats.requests as usize, expected.len());
            let sum: u64 = expected.iter().map(|(slat, _)| slat).sum();
            assert_eq!(figures.slat.ns_mean, sum as f64 / expected.len() as f64);
            assert_eq!(figures.slat.ns_max, expected.iter().map(|(slat, _)| *slat).max().unwrap());
            assert_eq!((figures.clat.ns_min, figures.clat.ns_max), (30, 30));
            assert!((figures.slat.ns_mean + figures.clat.ns_mean - stats.lat.mean_ns()).abs() < 1e-6);
            assert!(pacing.is_open() || figures.slat.ns_max == 7, "{figures:?}");
        }
        let mut merged = measured.clone();
        merged.merge(&measured);
        let total = merged.summaries().total;
        assert_eq!(total.split.unwrap().slat.ns_max, measured.summaries().total.split.unwrap().slat.ns_max);
    }
}
