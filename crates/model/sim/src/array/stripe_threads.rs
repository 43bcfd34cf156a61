//! The threads that change stripes in Linux md: `raid5d` and its workers.
//!
//! ```text
//!   host write ─► processors: raid5_make_request ─► stripe threads ──────────────────────────────► members
//!                                                   handle_stripe, copies, parity, ops_run_io
//!   host read within a chunk ─► processors: raid5_read_one_chunk ────────────────────────────────► members
//! ```
//! There is one queue, served by `raid5d` and `group_thread_cnt` workers; they share no other resource. Their requests
//! go through one plug (`plug.rs`): over rotational members the workers put them into one list by address
//! (`defer_issue_bios`, `dispatch_defer_bios`), and a worker that ends its work or finds the list full sends it.
//!
//! Left out: the workers' wake-ups, and groups by memory node.
//! Source: Linux 6.1 drivers/md/raid5.c, `raid5d`, `raid5_do_work`, `handle_active_stripes`.

use super::attribution::{Station, Visit};
use super::servers::ServerPool;
use raidlab_controller::MemoryTask;
use raidlab_hardware::{ControllerModel, MdModel, MemoryWork, PAGE_BYTES};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// What a member command is to the stripe threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StripeIo {
    /// Reads what the change of a stripe, or a recovery, needs.
    Read,
    /// Writes what a host has.
    WriteData,
    /// Writes what was computed.
    WriteParity,
}

/// A parity volume of md as its stripe threads see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StripeVolume {
    pub(super) data_strips: u64,
    pub(super) parities: u64,
    /// What the threads write down first, they make, too.
    pub(super) has_write_log: bool,
}

/// The threads of one controller's volumes.
#[derive(Debug)]
pub(super) struct StripeThreads {
    threads: ServerPool,
}

impl StripeThreads {
    pub(super) fn new(md: &MdModel) -> Self {
        Self { threads: ServerPool::new(1 + md.group_thread_cnt) }
    }

    /// Makes a member command of `bytes`, which takes `remote` more where the drive is at another socket; returns when it is on its way.
    #[inline]
    pub(super) fn serve_io(
        &mut self,
        now: Nanos,
        (model, md): (&ControllerModel, &MdModel),
        (io, bytes, remote): (StripeIo, ByteCount, NanoSpan),
    ) -> Visit {
        let pages = bytes.0.div_ceil(PAGE_BYTES);
        let send = md.costs.io * pages + remote;
        let make = match io {
            StripeIo::Read => md.costs.pass_read * pages,
            StripeIo::WriteData if !md.skip_copy => model.memory_cost(MemoryWork::Copy, bytes, bytes),
            StripeIo::WriteData | StripeIo::WriteParity => NanoSpan::ZERO,
        };
        let span = make + send;
        Visit { station: Station::StripeThreads, now, span, end: self.threads.serve(now, span) }
    }

    /// Computes parity, or data from it; returns when that is done.
    #[inline]
    pub(super) fn serve_task(
        &mut self,
        now: Nanos,
        (model, md): (&ControllerModel, &MdModel),
        volume: StripeVolume,
        task: &MemoryTask,
    ) -> Visit {
        let (bytes_in, bytes_out) = (ByteCount(task.bytes_in), ByteCount(task.bytes_out));
        let row_bytes = task.bytes_out / volume.parities.max(1);
        let rows = row_bytes.div_ceil(PAGE_BYTES);
        let is_whole = task.bytes_in == volume.data_strips * row_bytes;
        let pass = if is_whole && md.batches() { md.costs.pass_batched } else { md.costs.pass };
        let span = pass * rows + model.memory_cost(MemoryWork::Parity, bytes_in, bytes_out);
        Visit { station: Station::StripeThreads, now, span, end: self.threads.serve(now, span) }
    }

    /// When one of them has nothing more to do.
    pub(super) fn idle_at(&self) -> Nanos {
        self.threads.first_free_at()
    }

    pub(super) fn busy_until_now(&self, now: Nanos) -> NanoSpan {
        self.threads.busy_until_now(now)
    }
}
