//! Shingled bands at work: the destinations of cached writes, and when bands are cleaned.

use super::{HardDrive, Job, JobKind};
use crate::drive::{DriveRequest, SECTOR_BYTES, Sector, SectorCount};
use crate::hdd::pool::Dirty;
use crate::hdd::shingles::{MediaCache, MediaCacheModel, Run};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::collections::{BTreeMap, VecDeque};

/// What a shingled drive has besides.
#[derive(Clone, Debug)]
pub(super) struct Shingled {
    log: MediaCache,
    log_sectors: u64,
    append_sectors: u64,
    idle: NanoSpan,
    /// When the host last asked for something.
    host_at: Nanos,
    /// When the arm looks for work by itself.
    wake: Option<Nanos>,
    band: Option<BandWork>,
    /// What the running job appends to the log.
    appending: Vec<Dirty>,
    /// Reads of which several pieces are outstanding.
    pieces: BTreeMap<u32, u32>,
}

/// A band that is being written, piece by piece.
#[derive(Clone, Debug)]
struct BandWork {
    start: u64,
    end: u64,
    /// What the log held of it before this is written with it.
    mark: u64,
    /// The dirty extent that is all of it; a band without is being cleaned.
    dirty: Option<Dirty>,
    /// Runs to be read or written (`true`).
    steps: VecDeque<(bool, Run)>,
}

/// What the arm of a shingled drive could do next for what is written.
#[derive(Clone, Copy, Debug)]
enum Next {
    Step,
    Append,
}

impl Shingled {
    pub(super) fn new(model: &MediaCacheModel, capacity: SectorCount) -> Self {
        Self {
            log: MediaCache::new(model, capacity),
            log_sectors: model.log_sectors(),
            append_sectors: model.append.0 / SECTOR_BYTES,
            idle: model.idle,
            host_at: Nanos::ZERO,
            wake: None,
            band: None,
            appending: Vec::new(),
            pieces: BTreeMap::new(),
        }
    }

    /// When the arm has something to do though nobody asks.
    pub(super) fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Forgets a wake that is due.
    pub(super) fn take_wake(&mut self, now: Nanos) -> bool {
        let is_due = self.wake.is_some_and(|wake| wake <= now);
        if is_due {
            self.wake = None;
        }
        is_due
    }

    /// A command of the host, its sectors counted as on the media.
    pub(super) fn accept(&mut self, now: Nanos, request: DriveRequest) -> DriveRequest {
        self.host_at = now;
        DriveRequest { start: Sector(request.start.0 + self.log_sectors), ..request }
    }

    /// Where a read finds its sectors.
    pub(super) fn locate(&self, start: u64, end: u64) -> Vec<Run> {
        self.log.locate(start, end)
    }

    pub(super) fn expect_pieces(&mut self, id: u32, pieces: usize) {
        self.pieces.insert(id, pieces as u32);
    }

    /// Whether a read that is done to a part waits for others.
    pub(super) fn has_more_pieces(&mut self, id: u32) -> bool {
        let Some(left) = self.pieces.get_mut(&id) else { return false };
        *left -= 1;
        let more = *left > 0;
        if !more {
            self.pieces.remove(&id);
        }
        more
    }

    fn has_work(&self) -> bool {
        self.band.is_some() || !self.log.is_empty()
    }
}

impl HardDrive {
    /// Whether a shingled drive has something to do besides what the host waits for.
    pub(super) fn has_band_work(&self) -> bool {
        self.shingled.as_ref().is_some_and(|shingled| shingled.has_work())
    }

    /// Puts what the arm can do for the bands, if anything, into the schedule of destages.
    pub(super) fn offer_band_work(&mut self, now: Nanos) {
        self.destage_jobs.clear();
        let Some(next) = self.next_for_bands(now) else { return };
        let (start, sectors, write) = self.extent_of(next);
        let job = Job {
            kind: if write { JobKind::BandWrite } else { JobKind::BandRead },
            start,
            sectors,
            host_bytes: ByteCount::ZERO,
            place: self.fixed.geometry.place(Sector(start)),
            came: Nanos::ZERO,
            ready: Nanos::ZERO,
            arrived: Nanos::ZERO,
            reselect: NanoSpan(0),
        };
        self.destage_jobs.push(&self.fixed.arm, &self.fixed.geometry, now, &job.place, write, job);
    }

    fn extent_of(&self, next: Next) -> (u64, u64, bool) {
        let shingled = self.shingled.as_ref().expect("only shingled drives are asked");
        match next {
            Next::Step => {
                let (write, (start, sectors)) = shingled.band.as_ref().expect("chosen").steps[0];
                (start, sectors, write)
            }
            Next::Append => {
                let sectors = self.gathered().iter().map(|run| run.1).sum();
                (shingled.log.append_at(sectors), sectors, true)
            }
        }
    }

    /// The extents that an append takes: the next ones in order, as many as fit.
    fn gathered(&self) -> Vec<Run> {
        let (Some(shingled), Some(pool)) = (&self.shingled, &self.pool) else { return Vec::new() };
        let mut left = shingled.append_sectors;
        let take = |extent: &Dirty| {
            let sectors = extent.sectors.min(left);
            left -= sectors;
            (sectors > 0).then_some((extent.start, sectors))
        };
        let window = pool.window(self.swept_home, self.cache.flush_epoch());
        window.take(shingled.log.extents_free()).map_while(take).collect()
    }

    fn next_for_bands(&mut self, now: Nanos) -> Option<Next> {
        self.begin_whole_band();
        let shingled = self.shingled.as_ref().expect("only shingled drives are asked");
        let idle_at = shingled.host_at + shingled.idle;
        let is_idle = self.host_jobs.is_empty() && now >= idle_at;
        if shingled.band.as_ref().is_some_and(|band| band.dirty.is_some()) {
            return Some(Next::Step);
        }
        let must_write = !self.cache.is_clean() && (self.cache.is_pressed() || is_idle);
        let mut is_stuck = false;
        if must_write {
            let gathered = self.gathered();
            let sectors = gathered.iter().map(|run| run.1).sum();
            if !gathered.is_empty() && shingled.log.has_room(sectors) {
                return Some(Next::Append);
            }
            is_stuck = true;
        }
        if (is_idle || is_stuck) && self.begin_cleaning() {
            return Some(Next::Step);
        }
        let waits = self.has_destage();
        if let Some(shingled) = self.shingled.as_mut().filter(|_| waits && now < idle_at) {
            shingled.wake = Some(idle_at);
        }
        None
    }

    /// Begins to write a band in place, if all of one is dirty and no other is under way.
    fn begin_whole_band(&mut self) {
        let (Some(shingled), Some(pool)) = (&mut self.shingled, &mut self.pool) else { return };
        let length = shingled.log.band_sectors();
        if shingled.band.as_ref().is_some_and(|band| band.dirty.is_some()) || !self.cache.may_hold(length) {
            return;
        }
        let band_in = |extent: &Dirty| {
            let start = shingled.log.band_from(extent.start);
            (start + length <= extent.end()).then_some((extent.start, start))
        };
        let Some((extent, start)) = pool.longest().and_then(band_in) else { return };
        let run = pool.run_sectors();
        let dirty = pool.take_within(&mut self.cache, extent, start, length);
        let end = start + length;
        // A band that was being cleaned is begun anew later.
        let mark = shingled.log.mark();
        let steps = pieces(start, end, run).map(|run| (true, run)).collect();
        shingled.band = Some(BandWork { start, end, mark, dirty: Some(dirty), steps });
    }

    /// Whether there is a band to clean, which is then begun.
    fn begin_cleaning(&mut self) -> bool {
        let (Some(shingled), Some(pool)) = (&mut self.shingled, &self.pool) else { return false };
        if shingled.band.is_some() {
            return true;
        }
        let Some(start) = shingled.log.oldest_band() else { return false };
        let (end, run) = (shingled.log.band_end(start), pool.run_sectors());
        let logged = shingled.log.logged(start, end);
        let read = pieces(start, end, run).chain(logged).map(|run| (false, run));
        let steps = read.chain(pieces(start, end, run).map(|run| (true, run))).collect();
        shingled.band = Some(BandWork { start, end, mark: shingled.log.mark(), dirty: None, steps });
        true
    }

    /// Notes that the job was chosen: an append takes its extents out of the write cache.
    pub(super) fn take_band_work(&mut self, job: Job) -> Job {
        let is_step =
            self.shingled.as_ref().and_then(|shingled| shingled.band.as_ref()).is_some_and(|band| {
                band.steps.front().is_some_and(|(_, run)| *run == (job.start, job.sectors))
            });
        if is_step {
            return job;
        }
        let gathered = self.gathered();
        let (Some(shingled), Some(pool)) = (&mut self.shingled, &mut self.pool) else { return job };
        let taken = gathered.iter().map(|(start, sectors)| pool.take(&mut self.cache, *start, *sectors));
        shingled.appending = taken.collect();
        let (start, sectors) = gathered.last().copied().unwrap_or_default();
        self.swept_home = start + sectors;
        job
    }

    /// A piece of a band has been read or written, or the log appended to.
    pub(super) fn end_band_work(&mut self, now: Nanos, job: &Job) {
        let Some(shingled) = &mut self.shingled else { return };
        let mut retired = core::mem::take(&mut shingled.appending);
        if retired.is_empty() {
            let band = shingled.band.as_mut().expect("a piece of a band was under way");
            band.steps.pop_front();
            if !band.steps.is_empty() {
                return;
            }
            shingled.log.forget(band.start, band.end, band.mark);
            retired.extend(shingled.band.take().and_then(|band| band.dirty));
        } else {
            let runs = retired.iter().map(|extent| (extent.start, extent.sectors));
            shingled.log.append(runs, job.sectors);
        }
        self.segments.forget(job.start, job.start + job.sectors);
        for extent in retired {
            self.retire(extent.epoch, extent.sectors);
        }
        self.unblock_writes(now);
    }

    /// Whether data of a write that is not on the media yet holds all of `start..end`.
    pub(super) fn is_being_shingled(&self, start: u64, end: u64) -> bool {
        self.shingled.as_ref().is_some_and(|shingled| {
            let band = shingled.band.as_ref().and_then(|band| band.dirty.as_ref());
            shingled.appending.iter().chain(band).any(|extent| extent.holds(start, end))
        })
    }
}

fn pieces(start: u64, end: u64, run: u64) -> impl Iterator<Item = Run> {
    (start..end).step_by(run as usize).map(move |from| (from, run.min(end - from)))
}
