//! Commits of a journal, for which `fsync` waits when its data is on the volume.
//!
//! ```text
//!  fsync ─► data written ─► journal blocks ─► flush ─► record, forced to the media ─► all waiting calls return
//!                           └────────────── one commit at a time ─────────────┘   others share the next one
//! ```
//! Drives without a volatile cache are not flushed, and need no forced writes (the block layer drops both). A journal
//! without blocks before its record is a log in which every commit is one write.
//!
//! Left out: a full journal, disabled barriers, a journal on a separate device.
//! Source: Linux 6.1, `fs/jbd2/commit.c` (`jbd2_journal_commit_transaction`, `journal_submit_commit_record` with
//! `REQ_PREFLUSH` and
//! `REQ_FUA`), `fs/xfs/xfs_log.c` (`xlog_write_iclog`), `fs/btrfs/disk-io.c` (`write_all_supers`), `block/blk-flush.c`.

use super::world::{FileWorld, Whose};
use raidlab_controller::HostOp;
use raidlab_hardware::PAGE_BYTES;
use raidlab_units::Nanos;
use raidlab_workload::program::Program;

/// What a commit waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    /// There is none.
    #[default]
    Idle,
    Journal,
    Flush,
    Record,
}

/// The commits of one volume.
#[derive(Clone, Debug, Default)]
pub(super) struct Commits {
    step: Step,
    /// Processes that the one under way is for.
    waiting: Vec<u32>,
    /// Processes that came since it began.
    next: Vec<u32>,
    /// Whether another is wanted though nobody waits for it.
    is_due: bool,
    /// Where the journal goes on, from its start.
    position: u64,
}

impl<P: Program> FileWorld<'_, P> {
    /// Lets `process` wait for a commit that begins now or later, or only asks for one.
    pub(super) fn want_commit(&mut self, now: Nanos, volume: u16, process: Option<u32>) {
        let commits = &mut self.volumes[usize::from(volume)].commits;
        match process {
            Some(process) => commits.next.push(process),
            None => commits.is_due = true,
        }
        if commits.step == Step::Idle {
            self.begin_commit(now, volume);
        }
    }

    fn begin_commit(&mut self, now: Nanos, volume: u16) {
        let this = &mut self.volumes[usize::from(volume)];
        let commits = &mut this.commits;
        if commits.next.is_empty() && !commits.is_due {
            return;
        }
        commits.is_due = false;
        core::mem::swap(&mut commits.waiting, &mut commits.next);
        let fsync = this.filesystem.fsync.expect("only such filesystems commit in steps");
        let mib = core::mem::take(&mut this.new_bytes).div_ceil(1 << 20);
        let of_data = (this.filesystem.journal_per_mib.0 * mib).next_multiple_of(PAGE_BYTES);
        // What a record takes is in it; what many files have to tell is more.
        let bytes = if of_data > fsync.record.0 { fsync.journal.0.max(of_data) } else { fsync.journal.0 };
        if bytes == 0 {
            return self.flush_or_record(now, volume);
        }
        self.volumes[usize::from(volume)].commits.step = Step::Journal;
        self.write_journal(now, volume, (HostOp::Write { fua: false }, bytes));
    }

    /// A request of the commit has ended.
    pub(super) fn commit_goes_on(&mut self, now: Nanos, volume: u16) {
        match self.volumes[usize::from(volume)].commits.step {
            Step::Idle => unreachable!("it has asked for nothing"),
            Step::Journal => self.flush_or_record(now, volume),
            Step::Flush => self.write_record(now, volume),
            Step::Record => self.end_commit(now, volume),
        }
    }

    fn flush_or_record(&mut self, now: Nanos, volume: u16) {
        let this = &mut self.volumes[usize::from(volume)];
        if !this.is_volatile {
            return self.write_record(now, volume);
        }
        this.commits.step = Step::Flush;
        self.send_own(now, volume, (HostOp::Flush, 0, 0), Whose::Commit);
        self.take_answers_of(now, volume);
    }

    fn write_record(&mut self, now: Nanos, volume: u16) {
        let this = &mut self.volumes[usize::from(volume)];
        this.commits.step = Step::Record;
        let bytes = this.filesystem.fsync.map_or(PAGE_BYTES, |fsync| fsync.record.0);
        let fua = this.is_volatile;
        self.write_journal(now, volume, (HostOp::Write { fua }, bytes));
    }

    /// Writes what comes next in the journal, which stands before the first data and goes round.
    fn write_journal(&mut self, now: Nanos, volume: u16, (op, bytes): (HostOp, u64)) {
        let request_max = self.spec.host.kernel.request_max.0;
        let this = &mut self.volumes[usize::from(volume)];
        let area = this.filesystem.place_of(0).0.max(PAGE_BYTES);
        let bytes = bytes.next_multiple_of(PAGE_BYTES).min(area).min(request_max);
        if this.commits.position + bytes > area {
            this.commits.position = 0;
        }
        let offset = this.commits.position;
        this.commits.position += bytes;
        self.send_own(now, volume, (op, offset, bytes), Whose::Commit);
        self.take_answers_of(now, volume);
    }

    fn end_commit(&mut self, now: Nanos, volume: u16) {
        let commits = &mut self.volumes[usize::from(volume)].commits;
        commits.step = Step::Idle;
        let waiting = core::mem::take(&mut commits.waiting);
        self.begin_commit(now, volume);
        for process in waiting {
            self.own_ended(now, process);
        }
    }
}
