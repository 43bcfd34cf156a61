//! Paced loops against slow oracles: a queue with several servers, users who think, and formulas.

use crate::driver::tests::{Logged, Target, config, drive, spec};
use crate::driver::{Driver, DriverConfig, DriverStep, IoOp};
use crate::pacing::{ArrivalProcess, Arrivals, ClosedLoop, FlushRule, Pacing, RequestRate};
use crate::places::Places;
use crate::result::Measurement;
use crate::schedule::Schedule;
use crate::spec::{AccessLine, AccessSpec, MixPart};
use proptest::prelude::*;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::num::NonZeroU32;

fn rate(per_second: f64) -> RequestRate {
    RequestRate::new(per_second).unwrap()
}

fn open(process: ArrivalProcess, per_second: f64, burst: u32) -> Pacing {
    Pacing::Open(Arrivals { process, rate: rate(per_second), burst })
}

fn closed(think_ns: u64, rate_max: Option<RequestRate>) -> Pacing {
    Pacing::Closed(ClosedLoop { think: NanoSpan(think_ns), rate_max, bytes_per_sec_max: None })
}

fn every(writes: u32, with_metadata: bool) -> FlushRule {
    FlushRule { every: NonZeroU32::new(writes).unwrap(), with_metadata }
}

fn random_reads() -> Vec<AccessLine> {
    vec![AccessLine::plain(4096, 67, 100)]
}

fn part(name: &str, pacing: Pacing) -> MixPart {
    MixPart { name: name.into(), lines: random_reads(), pacing, ..MixPart::default() }
}

fn mix(parts: Vec<MixPart>) -> AccessSpec {
    AccessSpec { name: "mix".into(), parts, ..AccessSpec::default() }
}

/// Requests, and the sum of their latencies, of a measurement.
fn counted(measured: &Measurement) -> (u64, u64) {
    let sum = |stats: &crate::result::OpStats| (stats.lat.mean_ns() * stats.requests as f64).round() as u64;
    (
        measured.ops.read.requests + measured.ops.write.requests,
        sum(&measured.ops.read) + sum(&measured.ops.write),
    )
}

/// When each request starts that becomes ready at `ready` and waits for one of `places`; it keeps the place for
/// `service`, and the place rests for `rest`.
fn queue_oracle(ready: &[u64], service: &[u64], places: usize, rest: u64) -> Vec<u64> {
    let mut free_at = vec![0u64; places];
    let start = |(ready, service): (&u64, &u64)| {
        let place = (0..places).min_by_key(|place| free_at[*place]).unwrap();
        let start = free_at[place].max(*ready);
        free_at[place] = start + service + rest;
        start
    };
    ready.iter().zip(service).map(start).collect()
}

fn services(log: &[Logged]) -> Vec<u64> {
    log.iter().map(|io| io.completed_at - io.issued_at).collect()
}

proptest! {
    #[test]
    fn an_open_loop_is_a_queue_with_so_many_servers(
        seed in any::<u64>(),
        places in 1u32..6,
        start in 0u64..5000,
        ramp in 0u64..20_000,
        per_second in 1e6f64..2e7,
        burst in 1u32..4,
        fixed_ns in 1u64..600,
        jitter_ns in 0u64..600,
        poisson in any::<bool>(),
    ) {
        let process = if poisson { ArrivalProcess::Poisson } else { ArrivalProcess::Fixed };
        let pacing = open(process, per_second, burst);
        let spec = AccessSpec { pacing, iodepth: Some(places), ..spec(random_reads()) };
        let config = DriverConfig { seed, ramp: NanoSpan(ramp), run: NanoSpan(20_000), ..config() };
        let mut driver = Driver::new(&spec, &config).unwrap();
        let log = drive(&mut driver, start, Target { fixed_ns, jitter_ns, error_pct: 0 });

        // The arrivals are tested on their own; here they are the input of the oracle.
        let Pacing::Open(arrivals) = pacing else { unreachable!() };
        let seed = crate::rng::derived_seed(seed, super::ARRIVALS_STREAM);
        let mut schedule = Schedule::new(&arrivals, (0, 1), seed, Nanos(start));
        let window_end = start + ramp + 20_000;
        let mut arrived = Vec::new();
        while schedule.due().get() < window_end {
            arrived.push(schedule.due().get());
            schedule.advance();
        }
        let starts = queue_oracle(&arrived, &services(&log), places as usize, 0);
        let seen: Vec<u64> = log.iter().map(|io| io.issued_at).collect();
        prop_assert_eq!(&seen, &starts);

        let measured = driver.measurement();
        let in_window = |io: &&(u64, Logged)| (start + ramp..=window_end).contains(&io.1.completed_at);
        let pairs: Vec<(u64, Logged)> = arrived.iter().copied().zip(log.iter().copied()).collect();
        let expected = pairs.iter().filter(in_window);
        let expected = expected.fold((0, 0), |(count, sum), (arrived, io)| (count + 1, sum + io.completed_at - arrived));
        prop_assert_eq!(counted(&measured), expected);
        let lag = measured.lag.unwrap();
        prop_assert_eq!(lag.unserved, (arrived.len() - log.len()) as u64);
        let late = pairs.iter().filter(|(_, io)| io.issued_at >= start + ramp);
        let lags: Vec<u64> = late.map(|(arrived, io)| io.issued_at - arrived).collect();
        prop_assert_eq!(lag.lag.count(), lags.len() as u64);
        prop_assert_eq!(lag.lag.max_ns(), lags.iter().copied().max().unwrap_or(0));
    }

    #[test]
    fn users_think_after_each_of_their_requests(
        seed in any::<u64>(),
        places in 1u32..6,
        think in 1u64..2000,
        fixed_ns in 1u64..600,
        jitter_ns in 0u64..600,
    ) {
        let spec = AccessSpec { pacing: closed(think, None), ..spec(random_reads()) };
        let config = DriverConfig { seed, iodepth: places, ..config() };
        let mut driver = Driver::new(&spec, &config).unwrap();
        let log = drive(&mut driver, 0, Target { fixed_ns, jitter_ns, error_pct: 0 });
        let starts = queue_oracle(&vec![0; log.len()], &services(&log), places as usize, think);
        prop_assert_eq!(log.iter().map(|io| io.issued_at).collect::<Vec<_>>(), starts);
        prop_assert!(driver.measurement().lag.is_none());
    }
}

#[test]
fn a_limit_holds_the_rate_and_a_slow_target_stays_below_it() {
    for (limit, service_ns, expected) in [(1e6, 100, 10_000), (3e6, 100, 30_000), (1e9, 1000, 40_000)] {
        let spec = AccessSpec { pacing: closed(0, Some(rate(limit))), ..spec(random_reads()) };
        let config = DriverConfig { ramp: NanoSpan(100_000), run: NanoSpan(10_000_000), ..config() };
        let mut driver = Driver::new(&spec, &config).unwrap();
        drive(&mut driver, 0, Target { fixed_ns: service_ns, jitter_ns: 0, error_pct: 0 });
        let (requests, _) = counted(&driver.measurement());
        assert!(requests.abs_diff(expected) <= 4, "{limit}: {requests} of {expected}");
    }
    let bytes = Pacing::Closed(ClosedLoop {
        bytes_per_sec_max: Some(ByteCount(4096 * 1_000_000)),
        ..ClosedLoop::default()
    });
    let spec = AccessSpec { pacing: bytes, ..spec(random_reads()) };
    let config = DriverConfig { ramp: NanoSpan::ZERO, run: NanoSpan(10_000_000), ..config() };
    let mut driver = Driver::new(&spec, &config).unwrap();
    drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
    let (requests, _) = counted(&driver.measurement());
    assert!(requests.abs_diff(10_000) <= 4, "{requests}");
}

#[test]
fn weights_share_the_requests_and_every_part_has_its_figures() {
    let weighted = |name: &str, weight| MixPart { weight: Some(weight), ..part(name, Pacing::default()) };
    let small = MixPart { lines: vec![AccessLine::plain(8192, 0, 0)], ..weighted("log", 1) };
    let spec = mix(vec![weighted("table", 6), small, weighted("index", 3)]);
    let config = DriverConfig { run: NanoSpan(1_000_000), ..config() };
    let mut driver = Driver::new(&spec, &config).unwrap();
    let log = drive(&mut driver, 0, Target { fixed_ns: 90, jitter_ns: 20, error_pct: 10 });
    assert_eq!(driver.iodepth(), 4, "they share the places of the run");
    let measured = driver.measurement();
    let ends: Vec<u64> = measured
        .parts
        .iter()
        .map(|part| {
            part.ops.read.requests + part.ops.read.errors + part.ops.write.requests + part.ops.write.errors
        })
        .collect();
    let total: u64 = ends.iter().sum();
    let all = measured.ops.read.requests
        + measured.ops.read.errors
        + measured.ops.write.requests
        + measured.ops.write.errors;
    assert_eq!(total, all);
    let chi2: f64 = ends
        .iter()
        .zip([0.6, 0.1, 0.3])
        .map(|(end, share)| (*end as f64 - share * total as f64).powi(2) / (share * total as f64))
        .sum();
    assert!(chi2 < 13.8, "chi square {chi2} with two degrees of freedom: {ends:?}");
    let names: Vec<&str> = measured.parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["table", "log", "index"]);
    let log_part = &measured.parts[1];
    assert_eq!(log_part.ops.read.requests, 0);
    assert_eq!(log_part.ops.write.bytes.get(), 8192 * log_part.ops.write.requests);
    // The log goes on from its own last write, whatever the others do.
    let writes: Vec<&Logged> = log.iter().filter(|io| io.bytes == 8192).collect();
    assert!(writes.windows(2).all(|pair| pair[1].offset_bytes == pair[0].offset_bytes + 8192));
    let bytes: u64 =
        measured.parts.iter().map(|part| part.ops.read.bytes.get() + part.ops.write.bytes.get()).sum();
    assert_eq!(bytes, (measured.ops.read.bytes + measured.ops.write.bytes).get());
}

#[test]
fn parts_without_weights_run_in_loops_of_their_own() {
    let users = MixPart { iodepth: Some(2), ..part("users", closed(900, None)) };
    let feed = part("feed", open(ArrivalProcess::Fixed, 1e6, 1));
    let scan = MixPart {
        lines: vec![AccessLine::plain(16_384, 100, 0)],
        places: Places {
            start: ByteCount::from_mib(32),
            size: Some(ByteCount::from_mib(1)),
            ..Places::default()
        },
        ..part("scan", Pacing::default())
    };
    let spec = mix(vec![users, feed, scan]);
    let config = DriverConfig { ramp: NanoSpan::ZERO, run: NanoSpan(1_000_000), iodepth: 3, ..config() };
    let mut driver = Driver::new(&spec, &config).unwrap();
    assert_eq!((driver.iodepth(), spec.iodepth(3)), (2 + 256 + 3, 2 + 256 + 3));
    let log = drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
    let measured = driver.measurement();
    let requests: Vec<u64> =
        measured.parts.iter().map(|part| part.ops.read.requests + part.ops.write.requests).collect();
    // Two users who ask every 1000 ns, a feed of one per 1000 ns, and three that always have one of 100 ns in flight.
    for (seen, expected) in requests.iter().zip([2000u64, 1000, 30_000]) {
        assert!(seen.abs_diff(expected) <= 3, "{requests:?}");
    }
    assert!(measured.parts[1].lag.is_some() && measured.parts[0].lag.is_none());
    assert_eq!(measured.lag.unwrap().lag.max_ns(), 0, "there was always a place");
    let scanned = log.iter().filter(|io| io.bytes == 16_384);
    assert!(scanned.clone().count() > 0);
    for io in scanned {
        assert!((32 << 20..33 << 20).contains(&io.offset_bytes), "{io:?}");
    }
}

#[test]
fn parts_run_on_their_targets_and_have_figures_there() {
    let on = |name: &str, target| MixPart {
        target: NonZeroU32::new(target),
        iodepth: Some(target + 1),
        ..part(name, Pacing::default())
    };
    let spec = mix(vec![on("data", 1), on("log", 2), on("all", 0)]);
    assert_eq!((spec.targets(), spec.iodepths_on(2, 9, 1)), (Some(2), vec![2 + 1, 3 + 1]));
    let mut merged = Measurement::default();
    for (index, expected) in [["data", "all"], ["log", "all"]].into_iter().enumerate() {
        let own = spec.on_target(index as u32, 2).unwrap();
        assert_eq!(own.validate(), Ok(()));
        let mut driver = Driver::new(&own, &config()).unwrap();
        drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
        let measured = driver.measurement();
        let names: Vec<&str> = measured.parts.iter().map(|part| part.name.as_str()).collect();
        assert_eq!(names, expected);
        merged.merge(&measured);
    }
    assert_eq!(merged.parts.len(), 3, "those of one name together");
    let refused = |spec: &AccessSpec, count| spec.on_target(0, count).unwrap_err().to_string();
    let told = "workload 'mix' has parts for 2 targets, and here is one: give it as many, in the order of their numbers";
    assert_eq!(refused(&spec, 1), told);
    assert_eq!(Driver::new(&spec, &config()).unwrap_err().to_string(), told, "whoever forgets it");
    assert!(spec.on_target(2, 3).is_ok_and(|own| own.parts.len() == 1), "those for all");
    let two = mix(vec![on("data", 1), on("log", 2)]);
    assert!(refused(&two, 3).contains("here are 3"));
    // A single one of a target has its figures, too.
    let mut driver = Driver::new(&two.on_target(1, 2).unwrap(), &config()).unwrap();
    drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
    assert_eq!(driver.measurement().parts.len(), 1);
}

#[test]
fn workers_share_rates_and_places_of_the_workload() {
    let feed = part("feed", open(ArrivalProcess::Fixed, 3e6, 1));
    let few = MixPart { iodepth: Some(2), ..part("few", open(ArrivalProcess::Fixed, 1e6, 1)) };
    let limited = part("limited", closed(0, Some(rate(5e5))));
    let spec = mix(vec![feed, few, limited]);
    let whole = DriverConfig { ramp: NanoSpan::ZERO, run: NanoSpan(1_000_000), iodepth: 3, ..config() };
    let mut merged = Measurement::default();
    let mut places = 0;
    for worker in 0..3 {
        let mut driver = Driver::new(&spec, &whole.for_worker(worker, 3)).unwrap();
        places += driver.iodepth();
        drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
        merged.merge(&driver.measurement());
    }
    assert_eq!(places, spec.iodepth(3));
    let requests: Vec<u64> =
        merged.parts.iter().map(|part| part.ops.read.requests + part.ops.write.requests).collect();
    for (seen, expected) in requests.iter().zip([3000u64, 1000, 500]) {
        assert!(seen.abs_diff(expected) <= 6, "{requests:?}");
    }
}

#[test]
fn a_stop_ends_an_open_loop_and_what_never_started_is_counted() {
    let spec =
        AccessSpec { pacing: open(ArrivalProcess::Fixed, 1e7, 1), iodepth: Some(1), ..spec(random_reads()) };
    let mut driver = Driver::new(&spec, &DriverConfig { ramp: NanoSpan::ZERO, ..config() }).unwrap();
    let DriverStep::Issue(io) = driver.poll_step(Nanos(0)) else { panic!("one is due at once") };
    assert!(matches!(io.op, IoOp::Read | IoOp::Write));
    assert_eq!(driver.poll_step(Nanos(500)), DriverStep::WaitForCompletion);
    driver.handle_stop(Nanos(1000));
    assert_eq!(driver.poll_step(Nanos(1000)), DriverStep::WaitForCompletion);
    driver.handle_completion(Nanos(1100), io.slot, true);
    assert_eq!(driver.poll_step(Nanos(1100)), DriverStep::Finished);
    let measured = driver.measurement();
    assert_eq!((measured.window, counted(&measured).0), (NanoSpan(1000), 0));
    // Due at 0, 100, .. 900 ns; the first started.
    assert_eq!(measured.lag.unwrap().unserved, 9);
}

proptest! {
    #[test]
    fn a_flush_follows_every_so_many_writes_and_counts_apart(
        writes in 1u32..9,
        with_metadata in any::<bool>(),
        places in 1u32..5,
        think in prop::sample::select(vec![0u64, 300]),
        is_open in any::<bool>(),
        error_pct in prop::sample::select(vec![0u8, 20]),
    ) {
        let pacing = if is_open { open(ArrivalProcess::Fixed, 5e6, 1) } else { closed(think, None) };
        let spec = AccessSpec {
            pacing,
            iodepth: Some(places),
            flush: Some(every(writes, with_metadata)),
            ..spec(random_reads())
        };
        let target = Target { fixed_ns: 150, jitter_ns: 90, error_pct };
        let config = DriverConfig { ramp: NanoSpan::ZERO, run: NanoSpan(60_000), ..config() };
        let mut driver = Driver::new(&spec, &config).unwrap();
        let log = drive(&mut driver, 0, target);
        let mut since = 0;
        for io in &log {
            prop_assert!(since < writes || io.op.is_flush(), "a flush is the next request");
            match io.op {
                IoOp::Write => since += 1,
                IoOp::Read => {}
                flush => {
                    prop_assert_eq!(flush == IoOp::Flush, with_metadata);
                    prop_assert_eq!((since, io.offset_bytes, io.bytes), (writes, 0, 0));
                    since = 0;
                }
            }
        }
        let measured = driver.measurement();
        let in_window = |io: &&Logged| io.completed_at <= 60_000 && io.op.is_flush();
        let (good, bad): (Vec<&Logged>, Vec<&Logged>) = log.iter().filter(in_window).partition(|io| io.succeeded);
        let flush = &measured.ops.others.flush;
        prop_assert_eq!((flush.requests, flush.errors), (good.len() as u64, bad.len() as u64));
        let lat: u64 = good.iter().map(|io| io.completed_at - io.issued_at).sum();
        prop_assert_eq!((flush.lat.mean_ns() * good.len() as f64).round() as u64, lat);
        let transfers = log.iter().filter(|io| !io.op.is_flush()).count() as u64;
        prop_assert_eq!(driver.issued().reads + driver.issued().writes, transfers);
        if is_open {
            prop_assert_eq!(measured.lag.unwrap().lag.count(), transfers, "flushes arrive with their writes");
        }
    }
}

#[test]
fn flushes_do_not_count_towards_the_requests_that_end_a_run() {
    let spec = AccessSpec { flush: Some(every(1, false)), ..spec(vec![AccessLine::plain(4096, 0, 100)]) };
    let run = NanoSpan::from_secs(1);
    let config = DriverConfig { iodepth: 1, ramp: NanoSpan::ZERO, run, max_requests: Some(10), ..config() };
    let mut driver = Driver::new(&spec, &config).unwrap();
    drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
    let measured = driver.measurement();
    assert_eq!((measured.ops.write.requests, measured.ops.others.flush.requests), (10, 9));
}

#[test]
fn each_part_has_flushes_of_its_own() {
    let writes = vec![AccessLine::plain(4096, 0, 100)];
    let part = |name: &str, flush| MixPart { lines: writes.clone(), flush, ..part(name, closed(0, None)) };
    let mut driver =
        Driver::new(&mix(vec![part("log", Some(every(1, true))), part("users", None)]), &config()).unwrap();
    drive(&mut driver, 0, Target { fixed_ns: 100, jitter_ns: 0, error_pct: 0 });
    let measured = driver.measurement();
    let flushes: Vec<u64> = measured.parts.iter().map(|part| part.ops.others.flush.requests).collect();
    assert_eq!((flushes[0], flushes[1]), (measured.ops.others.flush.requests, 0));
    assert!(flushes[0].abs_diff(measured.parts[0].ops.write.requests) <= 4 && flushes[0] > 100);
    let wrong = AccessSpec { flush: Some(every(1, true)), ..mix(vec![part("a", None), part("b", None)]) };
    let error = wrong.validate().unwrap_err().to_string();
    assert_eq!(
        error,
        "workload 'mix': arrival, limit, think, iodepth and flush_every are those of each part without weights"
    );
}
