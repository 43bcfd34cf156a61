//! Calls that wait for their own requests: reads and writes past the page cache, and `fsync`.
//!
//! ```text
//!  direct read, write ──► requests, past cache and elevator ──► all ended ──► processor ──► return
//!  fsync ──► data written ──► new to the journal? ── yes ─► a commit ─┐
//!                                    └── no ─► a flush of the drives ─┴──► return
//! ```
//! Left out: buffered pages of the same file, for which direct reads and writes would have to wait, or which they would
//! drop.

use super::cache::{InodeId, Run};
use super::process::Blocked;
use super::world::{FileWorld, Whose};
use raidlab_controller::HostOp;
use raidlab_hardware::JournalMode;
use raidlab_units::Nanos;
use raidlab_workload::program::{FileId, Program};

impl<P: Program> FileWorld<'_, P> {
    /// Reads or writes `bytes` at the position, past the page cache. Returns how many were moved; none if the process has to wait.
    pub(super) fn move_directly(
        &mut self,
        now: Nanos,
        process: u32,
        (file, bytes, is_write): (FileId, u64, bool),
    ) -> Option<u64> {
        let (id, unit) = (self.inodes[file.0 as usize], self.spec.unit.0);
        let this = &mut self.processes[process as usize];
        let open = &mut this.open[file.0 as usize];
        let inode = self.cache.inode_mut(id);
        let start = open.position;
        let end = if is_write { start + bytes } else { (start + bytes).min(inode.bytes) };
        if this.own_ended || start >= end {
            open.position = end.max(start);
            this.bytes = end.saturating_sub(start);
            return Some(this.bytes);
        }
        let volume = inode.volume;
        if is_write {
            self.note_new(id, end, bytes);
        }
        let (first, last) = ((start / unit) as u32, ((end - 1) / unit) as u32);
        let run = Run { inode: id, first, units: last - first + 1 };
        let requests = self.send_direct(now, process, (run, is_write));
        let this = &mut self.processes[process as usize];
        (this.blocked, this.own_left) = (Blocked::Own, requests);
        self.take_answers_of(now, volume);
        None
    }

    /// Goes on with an `fsync`. Returns whether the process has to wait.
    pub(super) fn synchronises(&mut self, now: Nanos, process: u32, file: FileId) -> bool {
        let inode = self.inodes[file.0 as usize];
        if self.processes[process as usize].own_ended {
            return false;
        }
        self.flush_file(now, inode);
        if self.cache.inode(inode).unwritten > 0 {
            self.processes[process as usize].blocked = Blocked::Sync(inode);
            return true;
        }
        self.makes_durable(now, process, inode)
    }

    /// Begins what makes a file's data durable once they are on the volume. Returns whether the process has to wait for it.
    fn makes_durable(&mut self, now: Nanos, process: u32, id: InodeId) -> bool {
        let inode = self.cache.inode_mut(id);
        let volume = inode.volume;
        let this = &self.volumes[usize::from(volume)];
        if this.filesystem.fsync.is_none() || !(inode.is_news || this.is_volatile) {
            return false;
        }
        let is_news = core::mem::take(&mut inode.is_news);
        let waiting = &mut self.processes[process as usize];
        (waiting.blocked, waiting.own_left) = (Blocked::Own, 1);
        if is_news {
            self.want_commit(now, volume, Some(process));
        } else {
            self.send_own(now, volume, (HostOp::Flush, 0, 0), Whose::Process(process));
            self.take_answers_of(now, volume);
        }
        true
    }

    /// One thing that a process waits for has ended.
    pub(super) fn own_ended(&mut self, now: Nanos, process: u32) {
        let this = &mut self.processes[process as usize];
        this.own_left -= 1;
        if this.own_left == 0 {
            (this.blocked, this.own_ended) = (Blocked::Not, true);
            self.proceed(now, process);
        }
    }

    /// A file is written up to `end`, `bytes` of it now: notes what its journal has to tell.
    pub(super) fn note_new(&mut self, id: InodeId, end: u64, bytes: u64) {
        let inode = self.cache.inode_mut(id);
        let this = &mut self.volumes[usize::from(inode.volume)];
        let grown = end.saturating_sub(inode.bytes);
        inode.bytes = inode.bytes.max(end);
        let new = if this.filesystem.copy_on_write { bytes } else { grown };
        inode.is_news |= new > 0;
        if this.filesystem.journal != JournalMode::None {
            this.new_bytes += new;
        }
    }
}
