//! A real target of which only the timing is seen, for `raidlab_calibrate`.
//!
//! An access is timed from just before its submission until its completion is seen. Nothing is verified, and nothing is
//! written unless the target was opened for it.

use crate::clock::Clock;
use crate::engine::{Completion, Engine, EngineIo, NbdEngine, SlotTable, UringEngine, UringOptions};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::{Target, TargetKind};
use raidlab_calibrate::{Access, TimedTarget, Timing};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::IoOp;

/// The most accesses in flight.
const DEPTH_MAX: u32 = 256;
/// The longest access, in bytes.
const ACCESS_BYTES_MAX: u32 = 256 << 10;
/// Who is silent for so long has failed.
const PATIENCE: NanoSpan = NanoSpan::from_secs(30);

/// Calls `work` with `target`, which must be a file, a block device or an NBD export.
///
/// # Errors
/// [`LoadError`] if no engine can be had for it.
pub fn with_timed<R>(target: &Target, work: impl FnOnce(&mut dyn TimedTarget) -> R) -> Result<R, LoadError> {
    let table = SlotTable::new(1, DEPTH_MAX);
    let ops: &[IoOp] = if target.may_write() { &[IoOp::Read, IoOp::Write] } else { &[IoOp::Read] };
    let memory = IoMemory::new(DEPTH_MAX, ACCESS_BYTES_MAX, ops, 1)?;
    let targets = [target];
    match target.kind() {
        TargetKind::Nbd => {
            let mut engine = NbdEngine::new(&targets, table, memory)?;
            Ok(work(&mut Timed::new(target, &mut engine)))
        }
        TargetKind::File | TargetKind::BlockDevice => {
            let mut engine = UringEngine::new(&targets, table, UringOptions::default(), memory)?;
            Ok(work(&mut Timed::new(target, &mut engine)))
        }
        TargetKind::Nfs | TargetKind::Xrootd | TargetKind::Samples | TargetKind::NoOp => {
            Err(LoadError::EngineUnfit { path: target.path().into(), engine: "io_uring" })
        }
    }
}

struct Timed<'a> {
    target: &'a Target,
    engine: &'a mut dyn Engine,
    clock: Clock,
    done: Vec<Completion>,
}

impl<'a> Timed<'a> {
    fn new(target: &'a Target, engine: &'a mut dyn Engine) -> Self {
        Self { target, engine, clock: Clock::start(), done: Vec::new() }
    }

    fn submit(&mut self, slot: u32, access: &Access) {
        let op = if access.is_write { IoOp::Write } else { IoOp::Read };
        let (offset_bytes, bytes) = (access.offset, access.bytes);
        self.engine.submit(EngineIo { slot, target: 0, op, offset_bytes, bytes, fua: false });
    }
}

impl TimedTarget for Timed<'_> {
    fn capacity(&self) -> ByteCount {
        self.target.size()
    }

    fn block_bytes(&self) -> u64 {
        self.target.block_bytes().into()
    }

    fn run(&mut self, accesses: &[Access], depth: u32) -> Result<Vec<Timing>, String> {
        let mut times = vec![Timing { start: Nanos::ZERO, end: Nanos::ZERO }; accesses.len()];
        let mut free: Vec<u32> = (0..depth.clamp(1, DEPTH_MAX)).rev().collect();
        let mut under_way = vec![0; DEPTH_MAX as usize];
        let (mut sent, mut ended) = (0, 0);
        let mut heard = self.clock.now();
        while ended < accesses.len() {
            let now = self.clock.now();
            while sent < accesses.len()
                && let Some(slot) = free.pop()
            {
                times[sent].start = now;
                under_way[slot as usize] = sent;
                self.submit(slot, &accesses[sent]);
                sent += 1;
            }
            self.done.clear();
            self.engine.reap(NanoSpan::from_secs(1), &mut self.done).map_err(|errno| errno.to_string())?;
            let now = self.clock.now();
            for Completion { slot, failure } in self.done.drain(..) {
                if let Some(failure) = failure {
                    return Err(failure.to_string());
                }
                times[under_way[slot as usize]].end = now;
                free.push(slot);
                ended += 1;
                heard = now;
            }
            if now.saturating_since(heard) > PATIENCE {
                return Err(format!("it was silent for {PATIENCE}"));
            }
        }
        Ok(times)
    }

    fn idle(&mut self, span: NanoSpan) {
        std::thread::sleep(std::time::Duration::from_nanos(span.0));
    }
}
