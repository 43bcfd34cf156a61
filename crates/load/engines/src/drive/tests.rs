//! The loop on an engine without storage, with injected failures.

use super::*;
use raidlab_units::ByteCount;
use raidlab_workload::{AccessLine, AccessSpec, DriverConfig};

/// Every `fail_every`-th request to a target fails with `EIO`, none where that is 0; it brings back one at a time, the
/// latest first.
struct FakeEngine {
    table: SlotTable,
    ios: Vec<EngineIo>,
    queue: Vec<u32>,
    served: Vec<u32>,
    fail_every: Vec<u32>,
}

impl FakeEngine {
    fn new(iodepth: u32, fail_every: &[u32]) -> Self {
        let table = SlotTable::new(fail_every.len() as u32, iodepth);
        let no_io = EngineIo { slot: 0, target: 0, op: IoOp::Read, offset_bytes: 0, bytes: 0, fua: false };
        Self {
            table,
            ios: vec![no_io; table.slots()],
            queue: Vec::new(),
            served: vec![0; fail_every.len()],
            fail_every: fail_every.to_vec(),
        }
    }
}

impl Engine for FakeEngine {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn submit(&mut self, io: EngineIo) {
        assert_eq!(self.table.split(io.slot).0, io.target);
        self.ios[io.slot as usize] = io;
        self.queue.push(io.slot);
    }
    fn flush(&mut self) -> Result<(), Errno> {
        Ok(())
    }
    fn ready(&mut self) -> u32 {
        0
    }
    fn reap(&mut self, _at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        let Some(slot) = self.queue.pop() else { return Ok(()) };
        let target = self.ios[slot as usize].target as usize;
        self.served[target] += 1;
        let fail_every = self.fail_every[target];
        let fails = fail_every > 0 && self.served[target].is_multiple_of(fail_every);
        done.push(Completion { slot, failure: fails.then_some(FailureCause::Errno(Errno::IO)) });
        Ok(())
    }
    fn in_flight_max(&self) -> u32 {
        self.table.in_flight_max()
    }
    fn in_flight(&self) -> u32 {
        self.queue.len() as u32
    }
    fn io(&self, slot: u32) -> EngineIo {
        self.ios[slot as usize]
    }
}

/// Reads each target 3000 times; returns for each what was read, what failed, the first failure and why it was left.
fn on_fake(fail_every: &[u32]) -> Vec<(u64, u64, Option<IoFailure>, Option<LoadError>)> {
    let mut engine = FakeEngine::new(7, fail_every);
    let config = DriverConfig {
        region: ByteCount::from_mib(1),
        block_bytes: 512,
        iodepth: 7,
        seed: 42,
        run: NanoSpan::from_secs(60),
        max_requests: Some(3000),
        ..DriverConfig::default()
    };
    let spec = AccessSpec::new("test", vec![AccessLine::plain(4096, 100, 100)]);
    let lane = |_| Lane::new(Driver::new(&spec, &config).unwrap(), Path::new("/fake"), None);
    let table = engine.table;
    let mut drive = Drive::new(&mut engine, fail_every.iter().map(lane).collect(), table, Clock::start());
    drive.run(&AtomicBool::new(false), &mut |_, _, _| {}).unwrap();
    assert_eq!(drive.in_flight_reached, 7 * fail_every.len() as u32);
    let lanes = std::mem::take(&mut drive.lanes).into_iter().map(|lane| {
        let read = lane.driver.measurement().ops.read;
        (read.requests, read.errors, lane.first_failure, lane.error)
    });
    lanes.collect()
}

#[test]
fn failures_are_counted_and_a_long_row_of_them_ends_the_load() {
    let (requests, errors, failure, error) = on_fake(&[3]).remove(0);
    assert_eq!((requests, errors), (2000, 1000));
    assert!(error.is_none(), "{error:?}");
    let failure = failure.unwrap();
    assert_eq!((failure.bytes, failure.cause), (4096, FailureCause::Errno(Errno::IO)));
    let error = on_fake(&[1]).remove(0).3.unwrap().to_string();
    assert!(
        error.contains("'/fake' failed, the last of 1000 in a row") && error.contains("kernel's log"),
        "{error}"
    );
}

#[test]
fn a_target_that_fails_is_left_alone_and_the_others_go_on() {
    let ended = on_fake(&[0, 1, 5]);
    let counts: Vec<(u64, u64, bool)> =
        ended.iter().map(|(requests, errors, _, error)| (*requests, *errors, error.is_some())).collect();
    assert_eq!(counts, [(3000, 0, false), (0, 1000, true), (2400, 600, false)]);
}
