//! Write-back: what makes the kernel write dirty units, and which processes wait for it.
//!
//! ```text
//!  0 ───── dirty_background_pct ───────── dirty_limit_pct ─────► dirty and being written, share of memory
//!   expired files only │ everybody's, one file after the other │ and writers wait
//! ```
//! Each volume's queue is kept filled while there is a reason to write: too much is dirty, a file has been dirty for
//! too long (then all of it goes), a process waits for memory or for a file, or a journal that orders data before
//! metadata is committed.

use super::cache::{InodeId, Run};
use super::elevator::Request;
use super::world::FileWorld;
use raidlab_hardware::{JournalMode, PAGE_BYTES};
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::program::Program;

impl<P: Program> FileWorld<'_, P> {
    /// Share of memory that `pct` percent are, in units.
    fn units_of(&self, pct: u8) -> u32 {
        let (all, _) = self.spec.host.page_memory();
        (all.0 / 100 * u64::from(pct) / self.spec.unit.0) as u32
    }

    /// Whether whoever writes has to wait.
    pub(super) fn is_over_limit(&self) -> bool {
        let limit = self.units_of(self.spec.host.kernel.dirty_limit_pct);
        self.cache.dirty + self.cache.writing > limit
    }

    /// Whether enough is dirty to write it in the background.
    fn is_over_background(&self) -> bool {
        self.cache.dirty > self.units_of(self.spec.host.kernel.dirty_background_pct)
    }

    /// Fills the queue of a volume while there is a reason to write.
    pub(super) fn flush(&mut self, now: Nanos, volume: u16) {
        let kernel = &self.spec.host.kernel;
        let most = (kernel.request_max.0 / self.spec.unit.0).max(1) as u32;
        while self.volumes[usize::from(volume)].elevator.write_count() < kernel.queue_requests {
            let all = self.starved > 0 || self.is_over_background();
            let wanted = |must_flush: bool| all || must_flush;
            let next =
                self.cache.flushable_on(volume).find(|(_, inode)| wanted(inode.must_flush)).map(|(id, _)| id);
            let Some(run) = next.and_then(|inode| self.cache.next_dirty(inode, most)) else { return };
            self.write_run(now, run);
        }
    }

    /// Sends a run, which is marked as being written, on its way.
    pub(super) fn write_run(&mut self, now: Nanos, run: Run) {
        let pages = u64::from(run.units) * self.spec.unit.0 / PAGE_BYTES;
        let volume = self.cache.inode(run.inode).volume;
        let driver = self.volumes[usize::from(volume)].driver;
        let span = (self.spec.host.page_out + driver.page_out) * pages;
        self.take_cpu(now, span);
        self.cache.inode_mut(run.inode).writers.serve(now, span);
        let checksums = self.volumes[usize::from(volume)].filesystem.checksum_time(pages * PAGE_BYTES);
        if checksums > NanoSpan::ZERO {
            self.take_cpu(now, checksums);
        }
        self.enqueue(now, run, true);
        self.write_maps(now, run);
    }

    /// Sends the blocks of a file's map on their way whose data have gone out for the first time. They are another file's
    /// pages to the kernel, that of the device, and go out by themselves.
    fn write_maps(&mut self, now: Nanos, run: Run) {
        const BLOCK_BYTES: u64 = 4096;
        let inode = self.cache.inode(run.inode);
        let (volume, base, written) = (inode.volume, inode.base, inode.maps_written);
        let this = &mut self.volumes[usize::from(volume)];
        let filesystem = this.filesystem;
        let Some(every) = filesystem.map_every else { return };
        let passed = u64::from(run.first + run.units) * self.spec.unit.0 / every.0;
        for map in written..passed {
            let offset = match filesystem.map_area_pct {
                Some(_) => map * BLOCK_BYTES,
                None => filesystem.place_of(base + map * every.0).0.saturating_sub(BLOCK_BYTES),
            };
            this.elevator.add(now, Request { run: None, is_write: true, offset, bytes: BLOCK_BYTES });
        }
        if passed > written {
            self.cache.inode_mut(run.inode).maps_written = passed;
            self.send(now, volume);
        }
    }

    /// Sends what a reclaim found dirty.
    pub(super) fn write_outgoing(&mut self, now: Nanos) {
        let runs = core::mem::take(&mut self.outgoing);
        for run in &runs {
            self.write_run(now, *run);
        }
        if self.outgoing.is_empty() {
            self.outgoing = runs;
            self.outgoing.clear();
        }
    }

    /// Something may have become dirty: fills the queues.
    pub(super) fn flush_all(&mut self, now: Nanos) {
        for volume in 0..self.volumes.len() as u16 {
            self.flush(now, volume);
        }
    }

    /// Looks for files that have been dirty for long.
    pub(super) fn flush_tick(&mut self, now: Nanos) {
        let expire = self.spec.host.kernel.dirty_expire;
        for inode in self.cache.inodes_mut() {
            if inode.flushable > 0 && now.saturating_since(inode.dirty_since) >= expire {
                inode.must_flush = true;
                inode.dirty_since = now;
            }
        }
        self.flush_all(now);
    }

    /// Commits a journal: its record goes out, and data before it where that is promised.
    pub(super) fn commit(&mut self, now: Nanos, volume: u16) {
        let this = &mut self.volumes[usize::from(volume)];
        let filesystem = this.filesystem;
        if this.new_bytes > 0 && filesystem.fsync.is_some() {
            return self.want_commit(now, volume, None);
        }
        let new = core::mem::take(&mut this.new_bytes);
        if new == 0 {
            return;
        }
        let mib = new.div_ceil(1 << 20);
        let bytes = (filesystem.journal_per_mib.0 * mib).next_multiple_of(PAGE_BYTES);
        let most = self.spec.host.kernel.request_max.0;
        let (offset, room) = filesystem.place_of(0);
        let bytes = bytes.clamp(PAGE_BYTES, most.min(room));
        this.elevator.add(now, Request { run: None, is_write: true, offset, bytes });
        if filesystem.journal == JournalMode::Ordered {
            for inode in self.cache.inodes_mut().filter(|inode| inode.volume == volume) {
                inode.must_flush = inode.flushable > 0;
            }
        }
        self.send(now, volume);
        self.flush(now, volume);
    }

    /// Lets the flusher write all of a file.
    pub(super) fn flush_file(&mut self, now: Nanos, inode: InodeId) {
        let this = self.cache.inode_mut(inode);
        this.must_flush = this.flushable > 0;
        let volume = this.volume;
        self.flush(now, volume);
    }
}
