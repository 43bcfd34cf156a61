//! The write cache: data acknowledged before it is on the media, and its way there.

use super::{HardDrive, Job, JobKind};
use crate::drive::{DriveOp, DriveRequest, Sector};
use crate::hdd::dirty::BlockedWrite;
use crate::hdd::schedule::{Ages, Choice};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

impl HardDrive {
    pub(super) fn accept_cached_write(&mut self, now: Nanos, decoded: Nanos, request: DriveRequest) {
        let (start, sectors) = (request.start.0, request.sectors.0);
        let asks_for_media = request.op == DriveOp::Write { fua: true } || !self.cache.is_on();
        let forced = asks_for_media && !self.is_protected();
        self.stop_read_ahead(now);
        self.forget(start, start + sectors);
        let begin = decoded + self.beyond_work(self.fixed.overheads.write_data);
        let arrived =
            self.front.interface.serve(begin, self.fixed.bus.write.transfer_time(request.sectors.bytes()));
        let write = BlockedWrite { id: request.id, start, sectors, arrived, forced };
        if !self.cache.blocked.is_empty() || !self.store(now, write) {
            self.cache.blocked.push_back(write);
        }
        self.start_next(now, now);
    }

    /// Takes a write into the cache, if there is room.
    fn store(&mut self, now: Nanos, write: BlockedWrite) -> bool {
        let is_stored = match &mut self.pool {
            Some(pool) => pool.put(&mut self.cache, &write),
            None => self.store_among_few(now, &write),
        };
        if is_stored && write.forced {
            self.cache.flush(write.id);
        } else if is_stored {
            self.reply(write.arrived.max(now) + self.fixed.overheads.write_completion, write.id, now);
        }
        is_stored
    }

    fn store_among_few(&mut self, now: Nanos, write: &BlockedWrite) -> bool {
        match self.meeting_extent(write) {
            Some((_, 0)) => {} // The new data replaces what was there and not yet written.
            Some((index, more)) if self.cache.has_memory(more) => {
                let extent = self.destage_jobs.job_mut(index);
                extent.sectors += more;
                extent.arrived = write.arrived;
                self.cache.grow_extent(more);
            }
            _ if self.cache.has_room(write.sectors) => self.add_extent(now, write),
            _ => return false,
        }
        true
    }

    /// The dirty extent in which `write` starts or which it continues, and by how many sectors it would grow.
    fn meeting_extent(&self, write: &BlockedWrite) -> Option<(usize, u64)> {
        let extents = self.destage_jobs.jobs();
        let index =
            extents.iter().position(|extent| write.start.wrapping_sub(extent.start) <= extent.sectors)?;
        let extent = &extents[index];
        let sectors = (write.start + write.sectors - extent.start).max(extent.sectors);
        (sectors <= self.segments.segment_sectors().max(extent.sectors))
            .then(|| (index, sectors - extent.sectors))
    }

    fn add_extent(&mut self, now: Nanos, write: &BlockedWrite) {
        let place = self.fixed.geometry.place(Sector(write.start));
        let job = Job {
            kind: JobKind::Destage { epoch: self.cache.add_extent(write.sectors) },
            start: write.start,
            sectors: write.sectors,
            host_bytes: ByteCount::ZERO,
            place,
            came: Nanos::ZERO,
            ready: write.arrived,
            arrived: write.arrived,
            reselect: NanoSpan(0),
        };
        self.destage_jobs.push(&self.fixed.arm, &self.fixed.geometry, now, &place, true, job);
    }

    /// Whether the write cache holds all of `start..end` in one extent.
    pub(super) fn is_dirty(&self, start: u64, end: u64) -> bool {
        if self.cache.is_clean() {
            return false;
        }
        if let Some(pool) = &self.pool {
            return pool.holds(start, end)
                || self.is_being_shingled(start, end)
                || self.destaging.is_some_and(|extent| extent.holds(start, end));
        }
        let holds = |extent: &Job| {
            start.wrapping_sub(extent.start) < extent.sectors && end <= extent.start + extent.sectors
        };
        let running = self.running.as_ref().map(|running| &running.job);
        let destaging = running.filter(|job| matches!(job.kind, JobKind::Destage { .. }));
        destaging.is_some_and(holds) || self.destage_jobs.jobs().iter().any(holds)
    }

    /// The best dirty extent, at a cost that can be compared with that of a command.
    ///
    /// An extent's own age counts only while a flush waits for it, for its write was acknowledged long ago. A write
    /// that waits for room waits for any of them alike.
    pub(super) fn choose_destage(&mut self, begin: Nanos) -> Option<Choice> {
        self.offer_destages(begin);
        let ages = if self.cache.is_flushing() { Ages::Count } else { Ages::Ignore };
        let mut choice =
            self.destage_jobs.choose(&self.fixed.arm, &self.fixed.geometry, self.position, begin, ages)?;
        if let Some(write) = self.cache.blocked.front() {
            choice.cost -=
                self.fixed.arm.discount_between(&self.fixed.geometry, write.arrived.min(begin), begin);
        }
        Some(choice)
    }

    pub(super) fn unblock_writes(&mut self, now: Nanos) {
        while let Some(write) = self.cache.blocked.front().copied() {
            if !self.store(now, write) {
                return;
            }
            self.cache.blocked.pop_front();
        }
    }
}
