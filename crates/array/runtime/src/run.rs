//! A workload measured on a real array: the counts of its driver, the controller and the processor.
//!
//! ```text
//! drain what is left ─► count ─► ramp, window, end of what is in flight ─► drain ─► count again
//! ```
//! Invariant: each run pays for everything that it made dirty, and for nothing else.

use crate::error::ArrayError;
use crate::host::DriverHost;
use crate::world::ArrayWorld;
use raidlab_controller::{Counters, Notice};
use raidlab_units::NanoSpan;
use raidlab_workload::{Driver, Measurement, WindowProgress};
use std::sync::atomic::AtomicBool;

/// What a run gave.
#[derive(Clone, Debug)]
pub struct ArrayOutcome {
    /// What the driver counted.
    pub measurement: Measurement,
    /// What the controller counted from the start of the run to the end of the drain.
    pub counters: Counters,
    /// Processor time of this process from the start of the run to the end of the drain.
    pub cpu: NanoSpan,
    /// Wall-clock time of ramp, window and the end of what was in flight.
    pub wall: NanoSpan,
    /// Wall-clock time that the dirty blocks left in the cache took to reach the members after the run.
    pub drain: NanoSpan,
    /// What happened to the array meanwhile.
    pub notices: Vec<Notice>,
}

impl ArrayWorld {
    /// Drives a workload against the volume, then drains the cache. `progress` is called about ten times per second.
    /// Dirty blocks that a stopped run left behind are drained first and are no part of the outcome.
    ///
    /// # Errors
    /// [`ArrayError`]: a driver made for another volume, a failing ring, a cache that can't be drained, or `cancel`.
    pub fn run(
        &mut self,
        driver: &mut Driver,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(WindowProgress),
    ) -> Result<ArrayOutcome, ArrayError> {
        let mut host = DriverHost::new(driver, self.block_size(), self.volume_bytes(), progress)?;
        if !self.controller.is_idle() {
            self.drain(cancel)?;
        }
        self.notices.clear();
        let (counters, cpu, start) = (self.controller.counters(), cpu_time(), self.now());
        self.serve(&mut host, cancel)?;
        let wall = self.now() - start;
        let drain = self.drain(cancel)?;
        Ok(ArrayOutcome {
            measurement: driver.measurement(),
            counters: since(self.controller.counters(), counters),
            cpu: cpu_time() - cpu,
            wall,
            drain,
            notices: std::mem::take(&mut self.notices).into(),
        })
    }
}

/// Processor time of this process so far, all its threads and the kernel's work for them.
fn cpu_time() -> NanoSpan {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    NanoSpan(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// What was counted between two looks at the counters.
fn since(now: Counters, before: Counters) -> Counters {
    Counters {
        member_reads: now.member_reads - before.member_reads,
        member_writes: now.member_writes - before.member_writes,
        member_flushes: now.member_flushes - before.member_flushes,
        member_discards: now.member_discards - before.member_discards,
        discards_ignored: now.discards_ignored - before.discards_ignored,
        cache_hit_blocks: now.cache_hit_blocks - before.cache_hit_blocks,
        copy_bytes: now.copy_bytes - before.copy_bytes,
        parity_bytes: now.parity_bytes - before.parity_bytes,
        metadata_writes: now.metadata_writes - before.metadata_writes,
        mismatched_blocks: now.mismatched_blocks - before.mismatched_blocks,
    }
}
