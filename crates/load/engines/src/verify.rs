//! Verification of a load: every write is stamped, and every read is checked against the ledger of its target.
//!
//! ```text
//! drive: begin(io) ── stamps the buffer, or notes what may be there ──► engine ──► end(io) ── judges, or notes ──► faults
//! ```
//! All workers of a target share its ledger, behind a lock: one may read what another has written. A request's time in
//! the ledger begins before the engine gets it and ends after the engine returns it, so it is never shorter than on the
//! target. The cost is in the loop, and so in the latencies of waiting requests; a verified run is slower than a plain
//! one.

use crate::engine::EngineIo;
use crate::error::LoadError;
use crate::target::{Target, TargetKind};
use raidlab_units::ByteCount;
use raidlab_verify::{Checked, Fault, Ledger};
use raidlab_workload::{AccessSpec, DriverConfig, IoOp};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// Faults that are kept one by one; all are counted.
const FAULTS_KEPT: usize = 100;
/// Blocks of a ledger at most: it takes eight bytes for each.
const BLOCKS_MAX: u64 = 1 << 28;

/// What was found on a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks by how they were judged.
    pub checked: Checked,
    /// The first faults.
    pub faults: Vec<Fault>,
}

/// The verification of one target.
#[derive(Debug)]
pub(crate) struct Verifier {
    shared: Mutex<Shared>,
    iodepth: u32,
}

#[derive(Debug)]
struct Shared {
    ledger: Ledger,
    faults: Vec<Fault>,
}

impl Verifier {
    /// Verification of `target` under `spec`, for `workers` workers with `iodepth` requests each.
    ///
    /// # Errors
    /// [`LoadError::VerifyNothing`] if there is nothing to verify, [`LoadError::VerifySize`] if the target has too many
    /// blocks.
    pub(crate) fn new(
        target: &Target,
        spec: &AccessSpec,
        config: &DriverConfig,
        (workers, iodepth): (u32, u32),
    ) -> Result<Self, LoadError> {
        let path = || target.path().to_path_buf();
        if !spec.writes() || target.kind() == TargetKind::NoOp {
            return Err(LoadError::VerifyNothing { path: path(), workload: spec.name.clone() });
        }
        let block_bytes = config.block_bytes;
        let blocks = target.size().get() / u64::from(block_bytes);
        if blocks > BLOCKS_MAX {
            let size_max = ByteCount(BLOCKS_MAX * u64::from(block_bytes));
            return Err(LoadError::VerifySize { path: path(), size: target.size(), block_bytes, size_max });
        }
        let blocks_per_io = spec.request_bytes_max().div_ceil(block_bytes);
        let ledger = Ledger::new(new_run(), blocks, block_bytes, workers * iodepth, blocks_per_io);
        Ok(Self { shared: Mutex::new(Shared { ledger, faults: Vec::new() }), iodepth })
    }

    /// What `worker` needs in its loop.
    pub(crate) fn check(&self, worker: u32) -> Check<'_> {
        Check { verifier: self, first_slot: worker * self.iodepth }
    }

    /// What was found so far.
    pub(crate) fn verified(&self) -> Verified {
        let shared = self.lock();
        Verified { checked: shared.ledger.checked(), faults: shared.faults.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker's access to the verification of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Check<'a> {
    verifier: &'a Verifier,
    first_slot: u32,
}

impl Check<'_> {
    /// `io` is about to be done, in the driver's slot `slot`, with this buffer.
    pub(crate) fn begin(&self, slot: u32, io: &EngineIo, buffer: &mut [u8]) {
        let ledger = &mut self.verifier.lock().ledger;
        let first_block = io.offset_bytes / u64::from(ledger.block_bytes());
        if io.op == IoOp::Read {
            ledger.begin_read(self.first_slot + slot, first_block, buffer.len());
        } else {
            ledger.begin_write(self.first_slot + slot, first_block, buffer);
        }
    }

    /// `io` has ended. Of a read that failed nothing is known.
    pub(crate) fn end(&self, slot: u32, io: &EngineIo, buffer: &[u8], succeeded: bool) {
        let shared = &mut *self.verifier.lock();
        let (ledger, faults) = (&mut shared.ledger, &mut shared.faults);
        match io.op {
            IoOp::Write => ledger.end_write(self.first_slot + slot, succeeded),
            IoOp::Read if succeeded => ledger.end_read(self.first_slot + slot, buffer, &mut |fault| {
                if faults.len() < FAULTS_KEPT {
                    faults.push(fault);
                }
            }),
            _ => {}
        }
    }
}

/// A number that no other run has had: the time, and the process.
pub(crate) fn new_run() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).rotate_left(20) ^ u64::from(std::process::id())
}
