//! Replay against slow oracles: a queue with several servers for the timing, and plain arithmetic for the places.

use super::*;
use crate::driver::tests::{Target, config, drive};
use crate::driver::{Driver, DriverError, DriverStep, Worker};
use crate::replay::TraceSource;
use crate::result::OpStats;
use crate::spec::AccessSpec;
use proptest::prelude::*;
use raidlab_trace::{Summary, TraceSummary};
use raidlab_units::{ByteCount, Nanos};
use std::cell::Cell;
use std::sync::Arc;

/// A trace in memory, which comes in batches and now and then lets its reader wait.
#[derive(Debug)]
struct InMemory {
    records: Vec<TraceRecord>,
    summary: TraceSummary,
    batch: usize,
    /// The reader fails after so many batches.
    fails_after: Option<usize>,
}

#[derive(Debug)]
struct Reader {
    records: Vec<TraceRecord>,
    next: usize,
    batch: usize,
    turn: usize,
    fails_after: Option<usize>,
}

impl InMemory {
    fn new(records: Vec<TraceRecord>, batch: usize) -> Self {
        let mut summary = Summary::default();
        for record in &records {
            summary.add(record);
        }
        let summary = summary.finish(&["a".into(), "b".into(), "c".into()]);
        Self { records, summary, batch, fails_after: None }
    }
}

impl TraceSource for InMemory {
    fn name(&self) -> String {
        "in memory".into()
    }

    fn summary(&self) -> &TraceSummary {
        &self.summary
    }

    fn open(&self, _: &DriverConfig) -> Result<Box<dyn TraceReader>, String> {
        let (records, batch, fails_after) = (self.records.clone(), self.batch, self.fails_after);
        Ok(Box::new(Reader { records, next: 0, batch, turn: 0, fails_after }))
    }
}

impl TraceReader for Reader {
    fn next_batch(&mut self, batch: &mut Vec<TraceRecord>) -> BatchStep {
        self.turn += 1;
        if self.fails_after.is_some_and(|turns| self.turn > turns) {
            return BatchStep::Failed("the disk is gone".into());
        }
        let rest = &self.records[self.next..];
        if rest.is_empty() {
            return BatchStep::End;
        }
        batch.clear();
        batch.extend_from_slice(&rest[..rest.len().min(self.batch)]);
        self.next += batch.len();
        BatchStep::Ready
    }
}

fn record(time_ns: u64, device: u16, kind: TraceKind, offset_bytes: u64, length_bytes: u64) -> TraceRecord {
    TraceRecord { time_ns, device, kind, offset_bytes, length_bytes, response_ns: None }
}

fn replay(records: Vec<TraceRecord>) -> Replay {
    Replay {
        source: Arc::new(InMemory::new(records, 3)),
        timing: Timing::Original,
        fit: Fit::Refuse,
        whole_blocks: false,
        targets: vec![Some(0), Some(1), None],
    }
}

fn spec(replay: Replay) -> AccessSpec {
    AccessSpec { name: "trace".into(), trace: Some(replay), ..AccessSpec::default() }
}

/// No ramp, and no end but that of the trace.
fn whole(iodepth: u32) -> DriverConfig {
    DriverConfig { iodepth, ramp: NanoSpan::ZERO, run: NanoSpan(u64::MAX / 4), ..config() }
}

const QUICK: Target = Target { fixed_ns: 10, jitter_ns: 0, error_pct: 0 };

/// When each request starts that is due at `due`, with `places` of them in flight.
fn queue_oracle(due: &[u64], service: &[u64], places: usize) -> Vec<u64> {
    let mut free_at = vec![0u64; places];
    let mut earliest = 0;
    let start = |(due, service): (&u64, &u64)| {
        let place = (0..places).min_by_key(|place| free_at[*place]).unwrap();
        earliest = free_at[place].max(*due).max(earliest);
        free_at[place] = earliest + service;
        earliest
    };
    due.iter().zip(service).map(start).collect()
}

fn any_timing() -> impl Strategy<Value = Timing> {
    prop_oneof![
        Just(Timing::Original),
        prop::sample::select(vec![0.5, 2.0, 3.25]).prop_map(Timing::Scaled),
        Just(Timing::None)
    ]
}

proptest! {
    #[test]
    fn a_replay_is_a_queue_fed_by_the_trace(
        rows in proptest::collection::vec((0u64..400, any::<bool>(), 0u64..1000, 1u64..5), 2..120),
        timing in any_timing(),
        places in 1u32..6,
        start in 0u64..5000,
        fixed_ns in 1u64..600,
        jitter_ns in 0u64..600,
    ) {
        let mut time_ns = 0;
        let records: Vec<_> = rows.iter().map(|&(gap, reads, block, blocks)| {
            time_ns += gap + 1;
            let kind = if reads { TraceKind::Read } else { TraceKind::Write };
            record(time_ns, 0, kind, block * 4096, blocks * 4096)
        }).collect();
        let spec = spec(Replay { timing, ..replay(records.clone()) });
        let mut driver = Driver::new(&spec, &whole(places)).unwrap();
        let log = drive(&mut driver, start, Target { fixed_ns, jitter_ns, error_pct: 0 });

        let asked: Vec<_> = records.iter().map(|r| (r.kind == TraceKind::Read, r.offset_bytes, r.length_bytes)).collect();
        let seen: Vec<_> = log.iter().map(|io| (io.op == IoOp::Read, io.offset_bytes, u64::from(io.bytes))).collect();
        prop_assert_eq!(seen, asked, "all requests, in the order of the trace");

        let due: Vec<u64> = records.iter().map(|r| start + match timing {
            Timing::Original => r.time_ns,
            Timing::Scaled(factor) => (r.time_ns as f64 * factor) as u64,
            Timing::None => 0,
        }).collect();
        let services: Vec<u64> = log.iter().map(|io| io.completed_at - io.issued_at).collect();
        let starts: Vec<u64> = log.iter().map(|io| io.issued_at).collect();
        prop_assert_eq!(&starts, &queue_oracle(&due, &services, places as usize), "each at its time");

        let measured = driver.measurement();
        let end = log.iter().map(|io| io.completed_at).max().unwrap();
        prop_assert_eq!(measured.window, NanoSpan(end - start), "the window ends with the last completion");
        prop_assert_eq!(measured.ops.read.requests + measured.ops.write.requests, records.len() as u64);
        let total = measured.summaries().total;
        let from = if timing == Timing::None { &starts } else { &due };
        let latencies: u64 = log.iter().zip(from).map(|(io, from)| io.completed_at - from).sum();
        prop_assert!((total.lat_ns_mean * total.requests as f64 - latencies as f64).abs() < 1.0);
        match measured.lag {
            None => prop_assert_eq!(timing, Timing::None),
            Some(stats) => {
                let lag = stats.summary();
                let lags: Vec<u64> = starts.iter().zip(&due).map(|(start, due)| start - due).collect();
                let mean = |spans: &[u64]| spans.iter().sum::<u64>() as f64 / spans.len() as f64;
                prop_assert_eq!((lag.started, lag.unserved), (records.len() as u64, 0));
                prop_assert!((lag.lag_ns_mean - mean(&lags)).abs() < 1e-6);
                prop_assert!((lag.service_ns_mean - mean(&services)).abs() < 1e-6);
                prop_assert_eq!((lag.lag_ns_max, lag.service_ns_max), (*lags.iter().max().unwrap(), *services.iter().max().unwrap()));
            }
        }
    }

    #[test]
    fn every_request_is_placed_on_the_target_by_the_law_of_the_fit(
        rows in proptest::collection::vec((0u64..5000, 1u64..64), 1..40),
        region_blocks in 70u64..400,
        fit in prop::sample::select(vec![Fit::Wrap, Fit::Scale, Fit::Clip]),
        whole_blocks in any::<bool>(),
    ) {
        let unit = if whole_blocks { 512 } else { 4096 };
        let records: Vec<_> =
            rows.iter().map(|&(start, count)| record(0, 0, TraceKind::Read, start * unit, count * unit)).collect();
        let extent = records.iter().map(|r| r.offset_bytes + r.length_bytes).max().unwrap();
        let region = region_blocks * 4096 + 512;
        let spec = spec(Replay { timing: Timing::None, fit, whole_blocks, ..replay(records.clone()) });
        let config = DriverConfig { region: ByteCount(region), ..whole(1) };
        let mut driver = Driver::new(&spec, &config).unwrap();
        let log = drive(&mut driver, 0, QUICK);
        prop_assert!(driver.trace_fault().is_none());
        prop_assert_eq!(log.len(), records.len());
        for (io, asked) in log.iter().zip(&records) {
            let (first, last) = (asked.offset_bytes / 4096, (asked.offset_bytes + asked.length_bytes).div_ceil(4096));
            prop_assert_eq!(u64::from(io.bytes), (last - first) * 4096);
            prop_assert!(io.offset_bytes.is_multiple_of(4096));
            prop_assert!(io.offset_bytes + u64::from(io.bytes) <= region);
            let places = region_blocks - (last - first) + 1;
            let expected = match fit {
                Fit::Wrap => first % places,
                Fit::Clip => first.min(places - 1),
                _ if extent <= region => first.min(places - 1),
                _ => (u128::from(first) * 4096 * u128::from(region) / u128::from(extent) / 4096).min(u128::from(places - 1)) as u64,
            };
            prop_assert_eq!(io.offset_bytes / 4096, expected);
        }
    }
}

#[test]
fn nonsense_is_refused_and_never_panics() {
    let (refused, replayed) = (Cell::new(0), Cell::new(0));
    let rows = |offsets: u64, lengths: u64| {
        let row = (any::<u64>(), any::<u16>(), 0usize..4, 0..offsets, 0..lengths);
        proptest::collection::vec(row, 0..20)
    };
    proptest!(|(
        rows in prop_oneof![rows(u64::MAX, u64::MAX), rows(1 << 36, 1 << 24)],
        summed in prop_oneof![0usize..20, Just(20)],
        region in 1u64..1 << 40,
        whole_blocks in any::<bool>(),
        fit in prop::sample::select(vec![Fit::Refuse, Fit::Wrap, Fit::Scale, Fit::Clip]),
    )| {
        let records: Vec<_> = rows.iter().map(|&(time, device, kind, offset, length)| {
            record(time, device % 4, TraceKind::ALL[kind], offset, length.min(u64::MAX - offset))
        }).collect();
        // A summary that tells of some of the requests only.
        let mut source = InMemory::new(records.iter().take(summed).copied().collect(), 2);
        source.records = records;
        let replay = Replay { source: Arc::new(source), timing: Timing::None, fit, whole_blocks, ..replay(Vec::new()) };
        if let Ok(mut driver) = Driver::new(&spec(replay), &DriverConfig { region: ByteCount(region), ..whole(2) }) {
            for io in drive(&mut driver, 0, QUICK) {
                prop_assert!(io.offset_bytes + u64::from(io.bytes) <= region);
                replayed.set(replayed.get() + 1);
            }
        } else {
            refused.set(refused.get() + 1);
        }
    });
    assert!(refused.get() >= 30, "{} were refused", refused.get());
    assert!(replayed.get() >= 30, "{} requests were replayed", replayed.get());
}

#[test]
fn devices_go_to_their_targets_and_every_kind_of_request_is_made() {
    use TraceKind::{Flush, Read, Trim, Write, WriteZeroes};
    let records = vec![
        record(0, 0, Read, 0, 4096),
        record(10, 1, Write, 4096, 4096),
        record(20, 2, Read, 8192, 4096),
        record(30, 0, Flush, 0, 0),
        record(40, 0, Trim, 0, 4096),
        record(50, 0, Read, 12_288, 0),
        record(60, 0, Write, 16_384, 4096),
        record(70, 0, WriteZeroes, 4096, 8192),
        record(80, 2, Trim, 0, 4096),
    ];
    let spec = spec(replay(records));
    let offsets = |index| {
        let mut driver =
            Driver::new(&spec, &DriverConfig { worker: Worker { index, count: 2 }, ..whole(4) }).unwrap();
        let log = drive(&mut driver, 0, QUICK);
        let measured = driver.measurement();
        let of = |stats: &OpStats| (stats.requests, stats.bytes.get());
        let others =
            [&measured.ops.others.flush, &measured.ops.others.trim, &measured.ops.others.zeroes].map(of);
        assert_eq!(measured.lag.unwrap().lag.count(), log.len() as u64);
        assert_eq!(driver.issued().requests(), log.len() as u64);
        let log = log.iter().map(|io| (io.issued_at, io.op, io.offset_bytes, io.bytes)).collect::<Vec<_>>();
        (log, others)
    };
    let all = vec![
        (0, IoOp::Read, 0, 4096),
        (30, IoOp::FlushData, 0, 0),
        (40, IoOp::Trim, 0, 4096),
        (60, IoOp::Write, 16_384, 4096),
        (70, IoOp::WriteZeroes, 4096, 8192),
    ];
    assert_eq!(offsets(0), (all, [(1, 0), (1, 4096), (1, 8192)]));
    assert_eq!(offsets(1), (vec![(10, IoOp::Write, 4096, 4096)], [(0, 0); 3]));
    assert!(spec.reads() && spec.writes() && spec.is_open());
    let third = DriverConfig { worker: Worker { index: 2, count: 3 }, ..whole(4) };
    assert_eq!(
        Driver::new(&spec, &third).unwrap_err().to_string(),
        "no request of the trace goes to target 2"
    );
}

#[test]
fn trims_are_narrowed_to_whole_blocks_and_writes_widened() {
    use TraceKind::{Trim, Write, WriteZeroes};
    let records = [Write, Trim, WriteZeroes]
        .map(|kind| record(0, 0, kind, 512, 8192))
        .into_iter()
        .chain([record(0, 0, Trim, 512, 3584)]);
    let exact = Replay { timing: Timing::None, ..replay(records.collect()) };
    let error = Driver::new(&spec(exact.clone()), &whole(1)).unwrap_err().to_string();
    assert_eq!(error, "requests of the trace are aligned to 512 bytes, and the target has blocks of 4096");
    let mut driver = Driver::new(&spec(Replay { whole_blocks: true, ..exact }), &whole(1)).unwrap();
    let log =
        drive(&mut driver, 0, QUICK).iter().map(|io| (io.op, io.offset_bytes, io.bytes)).collect::<Vec<_>>();
    assert_eq!(log, [(IoOp::Write, 0, 12_288), (IoOp::Trim, 4096, 4096), (IoOp::WriteZeroes, 4096, 4096)]);
}

#[test]
fn a_trim_beyond_the_target_is_found_before_the_run() {
    let far =
        replay(vec![record(0, 0, TraceKind::Read, 0, 4096), record(9, 0, TraceKind::Trim, 1 << 30, 1 << 20)]);
    let error = Driver::new(&spec(far.clone()), &whole(1)).unwrap_err().to_string();
    assert!(
        error.contains("device a of the trace goes up to") && error.contains("(1074790400 bytes)"),
        "{error}"
    );
    let scaled = spec(Replay { fit: Fit::Scale, ..far });
    let log = drive(&mut Driver::new(&scaled, &whole(1)).unwrap(), 0, QUICK);
    assert!(log.iter().all(|io| io.offset_bytes + u64::from(io.bytes) <= ByteCount::from_mib(64).get()));
    assert_eq!(log.len(), 2);
}

#[test]
fn a_trace_that_can_not_be_read_on_ends_the_run_with_the_reason() {
    let records = (0..9).map(|n| record(n * 10, 0, TraceKind::Read, n * 4096, 4096)).collect();
    let mut source = InMemory::new(records, 3);
    source.fails_after = Some(2);
    let spec = spec(Replay { source: Arc::new(source), ..replay(Vec::new()) });
    let mut driver = Driver::new(&spec, &whole(4)).unwrap();
    assert_eq!(drive(&mut driver, 0, QUICK).len(), 6);
    assert_eq!(driver.trace_fault().unwrap().to_string(), "the disk is gone");
}

#[test]
fn a_batch_that_is_not_there_yet_is_waited_for() {
    #[derive(Debug)]
    struct Slow(u32);
    impl TraceReader for Slow {
        fn next_batch(&mut self, batch: &mut Vec<TraceRecord>) -> BatchStep {
            self.0 += 1;
            batch.clear();
            match self.0 {
                1 | 2 => BatchStep::NotYet,
                3 => {
                    batch.push(record(1000, 0, TraceKind::Read, 0, 4096));
                    BatchStep::Ready
                }
                _ => BatchStep::End,
            }
        }
    }
    let one = replay(vec![record(0, 0, TraceKind::Read, 0, 4096)]);
    let mut stream = TraceStream::new(&one, &whole(1)).unwrap();
    stream.reader = Box::new(Slow(0));
    assert_eq!(
        [stream.peek(), stream.peek(), stream.peek()],
        [Next::NotYet, Next::NotYet, Next::At(NanoSpan(1000))]
    );
    stream.take();
    assert_eq!(stream.peek(), Next::Ended);
}

#[test]
fn what_does_not_fit_is_refused_with_the_reason() {
    let two = |offset, length| {
        vec![record(0, 0, TraceKind::Read, 0, 4096), record(9, 0, TraceKind::Write, offset, length)]
    };
    let refused = |replay: Replay| match Driver::new(&spec(replay), &whole(1)) {
        Err(DriverError::Replay(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        refused(replay(two(64 << 20, 4096))),
        "device a of the trace goes up to 64.0 MiB (67112960 bytes), and its target has 64 MiB (67108864 bytes)"
    );
    assert_eq!(
        refused(replay(two(512, 512))),
        "requests of the trace are aligned to 512 bytes, and the target has blocks of 4096"
    );
    assert_eq!(
        refused(replay(two(0, 33 << 20))),
        "the longest request of the trace has 33 MiB, and at most 32 MiB can be replayed"
    );
    let untimed = vec![record(0, 0, TraceKind::Read, 0, 4096); 2];
    assert_eq!(
        refused(replay(untimed.clone())),
        "all requests of the trace are at one time, so there is no timing to keep"
    );
    assert!(Driver::new(&spec(Replay { timing: Timing::None, ..replay(untimed) }), &whole(1)).is_ok());
    assert_eq!(
        refused(Replay { timing: Timing::Scaled(0.0), ..replay(two(0, 4096)) }),
        "a timing can't be scaled by 0: give a number above zero"
    );
}

#[test]
fn a_stop_ends_a_replay() {
    let records = (0..100).map(|n| record(n * 1000, 0, TraceKind::Read, n * 4096, 4096)).collect();
    let mut driver = Driver::new(&spec(replay(records)), &whole(4)).unwrap();
    assert!(matches!(driver.poll_step(Nanos(0)), DriverStep::Issue(_)));
    assert_eq!(driver.poll_step(Nanos(0)), DriverStep::WaitUntil(Nanos(1000)));
    driver.handle_stop(Nanos(500));
    driver.handle_completion(Nanos(600), 0, true);
    assert_eq!(driver.poll_step(Nanos(600)), DriverStep::Finished);
}

#[test]
fn what_was_due_and_never_started_is_counted() {
    let records = (0..9).map(|n| record(n * 100, 0, TraceKind::Read, n * 4096, 4096)).collect();
    let spec = spec(Replay { source: Arc::new(InMemory::new(records, 9)), ..replay(Vec::new()) });
    let mut driver = Driver::new(&spec, &DriverConfig { run: NanoSpan(550), ..whole(1) }).unwrap();
    let log = drive(&mut driver, 0, Target { fixed_ns: 300, ..QUICK });
    assert_eq!(log.len(), 2, "at 0 and 300; the next would start at 600, when the window is over");
    let lag = driver.measurement().lag.unwrap();
    assert_eq!((lag.lag.count(), lag.unserved), (2, 4), "those of 200, 300, 400 and 500");
}

#[test]
fn timings_are_read_and_printed() {
    for text in ["original", "none", "scaled:2.5"] {
        assert_eq!(text.parse::<Timing>().unwrap().to_string(), text);
    }
    for text in ["", "scaled", "scaled:0", "scaled:-1", "scaled:inf", "scaled:nan", "fast"] {
        assert!(text.parse::<Timing>().is_err(), "{text}");
    }
}
