//! The write cache of a current disk at work: the pool offers the arm its nearest extents, and the arm takes one.

use super::{HardDrive, Job, JobKind};
use crate::drive::Sector;
use crate::hdd::geometry::Place;
use crate::hdd::pool::{Dirty, Pool};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

impl HardDrive {
    /// Whether writes survive a loss of power as soon as they are in the cache.
    pub(super) fn is_protected(&self) -> bool {
        self.pool.as_ref().is_some_and(Pool::is_protected)
    }

    /// Whether there is something to write out.
    pub(super) fn has_destage(&self) -> bool {
        if self.pool.is_some() {
            !self.cache.is_clean() || self.has_band_work()
        } else {
            !self.destage_jobs.is_empty()
        }
    }

    /// Fills the schedule of destages with what the arm may choose among, if it is not kept there.
    pub(super) fn offer_destages(&mut self, now: Nanos) {
        if self.shingled.is_some() {
            return self.offer_band_work(now);
        }
        let Some(pool) = &self.pool else { return };
        self.destage_jobs.clear();
        for extent in pool.window(self.swept_to, self.cache.flush_epoch()) {
            let place = self.fixed.geometry.place(Sector(extent.start));
            let job = destage_job(extent, place);
            self.destage_jobs.push(&self.fixed.arm, &self.fixed.geometry, extent.arrived, &place, true, job);
        }
    }

    /// Takes the chosen extent, or its front, for the arm to write.
    pub(super) fn take_destage(&mut self, index: usize) -> Job {
        let job = self.destage_jobs.take(index);
        if self.shingled.is_some() {
            return self.take_band_work(job);
        }
        let Some(pool) = &mut self.pool else { return job };
        let run = pool.run_sectors();
        let extent = pool.take(&mut self.cache, job.start, run);
        self.destaging = Some(extent);
        // What came last is at the end: a front that is cut off has long been in the drive.
        let arrived = if extent.sectors < job.sectors { Nanos::ZERO } else { job.arrived };
        Job { sectors: extent.sectors, arrived, ..job }
    }
}

/// The arm can set out at once: data that is still on its way comes while it moves.
fn destage_job(extent: &Dirty, place: Place) -> Job {
    Job {
        kind: JobKind::Destage { epoch: extent.epoch },
        start: extent.start,
        sectors: extent.sectors,
        host_bytes: ByteCount::ZERO,
        place,
        came: Nanos::ZERO,
        ready: Nanos::ZERO,
        arrived: extent.arrived,
        reselect: NanoSpan(0),
    }
}
