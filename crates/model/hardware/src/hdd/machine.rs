//! The state machine of a hard drive: commands in, the arm at work, completions out.
//!
//! Two things end by themselves: the arm's current job ([`Running`]) and transfers over the interface without the arm
//! (`replies`: buffer hits, cached writes). The next deadline is the earlier of the two.
//!
//! The firmware plans ahead: the arm starts for the next job when the media is done with the last one, although that
//! one's completion takes a little longer on the wire. A command's own overhead and transfer come before the arm can
//! work on it, and so cost nothing while the arm is busy with others. That is the gain of queued sequential writes over
//! single ones, which find their sector just gone.
//!
//! Invariants: at most one job runs; nothing waits while the arm is idle (reading ahead counts as idle).

mod ahead;
mod cached;
mod pooled;
mod shingled;

use self::ahead::Ahead;
use self::shingled::Shingled;
use super::buffer::Segments;
use super::dirty::WriteCache;
use super::geometry::{Geometry, Place, TURN};
use super::model::{AfterOp, BusModel, HardDriveModel, Kept, Overheads, ReadAhead};
use super::pool::{Dirty, Pool};
use super::schedule::{Ages, Arm, ArmPosition, Schedule};
use super::shingles::{MediaCacheModel, Run};
use crate::drive::{
    DriveCompletion, DriveOp, DriveOptions, DriveRequest, DriveTimes, SECTOR_BYTES, Sector, SectorCount,
};
use crate::link::{LinkModel, Server};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobKind {
    Read { id: u32 },
    Write { id: u32 },
    Destage { epoch: u64 },
    BandRead,
    BandWrite,
}

impl JobKind {
    fn is_write(self) -> bool {
        !matches!(self, Self::Read { .. } | Self::BandRead)
    }
}

/// Work for the arm.
#[derive(Clone, Copy, Debug)]
struct Job {
    kind: JobKind,
    start: u64,
    sectors: u64,
    /// Bytes that the host gets, which may be more than the arm still has to read.
    host_bytes: ByteCount,
    place: Place,
    /// When its command came.
    came: Nanos,
    /// When the arm may start on it.
    ready: Nanos,
    /// When all its data is in the drive; for a read, when it is decoded.
    arrived: Nanos,
    /// From the media to when data or completion can go out.
    reselect: NanoSpan,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    job: Job,
    /// First sector that the buffer holds of a read: its own first, or one that passed before it.
    from: u64,
    media_end: Nanos,
    done: Nanos,
}

/// Where time goes, while that is followed.
#[derive(Clone, Debug, Default)]
struct Times {
    /// Of the running job.
    running: DriveTimes,
    /// Of the job or the reply that ended last.
    ended: DriveTimes,
    /// Since when nothing but a reply was left to do, of each of them.
    replies: VecDeque<Nanos>,
    /// Of the commands that are done.
    done: VecDeque<DriveTimes>,
}

/// Where the head is when a job begins.
#[derive(Clone, Copy, Debug)]
struct Positioned {
    /// When the job's first sector passes under the head.
    media_start: Nanos,
    /// Turns from there to where the head landed in the middle of a read, which has the rest by then: it is done when
    /// the sector in which it landed has passed.
    landed: Option<u64>,
    /// As [`Running::from`].
    from: u64,
    /// When the arm set out, and when it is on the track; the same where that is not followed.
    arm: [Nanos; 2],
}

/// What commands pass on their way to the arm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Front {
    firmware: Server,
    interface: Server,
}

/// What does not change while a drive works.
#[derive(Debug)]
struct Fixed {
    geometry: Geometry,
    arm: Arm,
    bus: BusModel,
    overheads: Overheads,
    command_work: NanoSpan,
    queue_depth: u32,
    read_ahead: ReadAhead,
    keeps: Kept,
    reads_on_arrival: bool,
    capacity: u64,
    physical_sectors: u64,
}

/// A hard drive at work.
#[derive(Clone, Debug)]
pub(crate) struct HardDrive {
    /// Copies share it: with thousands of drives, what all of them read stays in the processor's cache.
    fixed: Arc<Fixed>,

    front: Front,
    position: ArmPosition,
    /// When the arm was last done with the media.
    arm_free: Nanos,
    running: Option<Running>,
    ahead: Option<Ahead>,
    host_jobs: Schedule<Job>,
    destage_jobs: Schedule<Job>,
    segments: Segments,
    /// The sectors written last, if reads may find them in the buffer.
    written: Range<u64>,
    cache: WriteCache,
    /// The dirty extents of a drive of today; the schedule of destages then holds only those that are being chosen among.
    pool: Option<Pool>,
    /// What the running job takes from the pool to the media.
    destaging: Option<Dirty>,
    /// Where the last job ended.
    swept_to: u64,
    shingled: Option<Box<Shingled>>,
    /// Where the last append took its extents from.
    swept_home: u64,
    /// Whether the command before was a write.
    after_write: bool,
    /// Where it ended.
    last_end: u64,

    /// Commands inside the drive.
    outstanding: u32,
    /// Commands that the drive can't take yet.
    waiting: VecDeque<DriveRequest>,
    /// What completes without the arm, in order.
    replies: VecDeque<(Nanos, u32)>,
    times: Option<Box<Times>>,
    done: VecDeque<DriveCompletion>,
}

impl HardDrive {
    /// The model must be one that the catalogue reader accepted.
    pub(crate) fn new(
        model: &HardDriveModel,
        capacity: SectorCount,
        link: LinkModel,
        options: DriveOptions,
    ) -> Self {
        let media_cache = model.modern.media_cache();
        let media_sectors = SectorCount(capacity.0 + media_cache.map_or(0, MediaCacheModel::log_sectors));
        let geometry =
            Geometry::new(&model.mechanics, media_sectors).expect("checked when the model was read");
        let arm = Arm::new(model, &geometry).expect("checked when the model was read");
        let queue_depth = options.queue_depth.unwrap_or(model.firmware.queue_depth).max(1);
        let sectors = model.buffer.size.0 / SECTOR_BYTES;
        let segment_sectors = sectors / u64::from(model.buffer.segments);
        let pool = model.modern.pool;
        let cache_on = options.write_cache.unwrap_or(model.buffer.write_cache)
            || pool.is_some_and(|pool| pool.protected);
        // Half of the memory may be dirty if nothing else is said: the other half stays with the readers.
        let dirty_sectors = pool.map_or(sectors / 2, |pool| pool.size.0 / SECTOR_BYTES);
        let mut cache = WriteCache::new(cache_on, model.buffer.write_extents, dirty_sectors);
        let mut held = pool.as_ref().map(Pool::new);
        // A drive that manages its shingles has a log besides, which these writes say nothing of.
        if let (None, Some(held), Some(writes)) = (media_cache, &mut held, pool.and_then(|pool| pool.resting))
        {
            held.rest(&mut cache, writes, capacity);
        }
        let fixed = Arc::new(Fixed {
            geometry,
            arm,
            bus: model.bus.unwrap_or(BusModel::of_link(link)),
            overheads: model.firmware.overheads,
            command_work: model.firmware.command_work,
            queue_depth,
            read_ahead: model.buffer.read_ahead,
            keeps: model.buffer.keeps,
            reads_on_arrival: model.buffer.reads_on_arrival,
            capacity: media_sectors.0,
            physical_sectors: model.modern.physical_sectors,
        });
        Self {
            fixed,
            front: Front::default(),
            position: ArmPosition::default(),
            arm_free: Nanos::ZERO,
            running: None,
            ahead: None,
            host_jobs: Schedule::with_capacity(queue_depth as usize),
            destage_jobs: Schedule::with_capacity(
                pool.map_or(model.buffer.write_extents, |pool| pool.window) as usize,
            ),
            segments: Segments::new(model.buffer.segments, segment_sectors, model.buffer.fixed_segments),
            written: 0..0,
            after_write: false,
            last_end: 0,
            cache,
            pool: held,
            destaging: None,
            swept_to: 0,
            shingled: media_cache.map(|cache| Box::new(Shingled::new(cache, capacity))),
            swept_home: 0,
            outstanding: 0,
            waiting: VecDeque::new(),
            replies: VecDeque::new(),
            times: None,
            done: VecDeque::new(),
        }
    }

    pub(crate) fn follow_times(&mut self) {
        self.times = Some(Box::default());
    }

    pub(crate) fn poll_times(&mut self) -> Option<DriveTimes> {
        self.times.as_mut()?.done.pop_front()
    }

    /// Exchanges what is before the arm: another arm works behind it, too.
    pub(crate) fn swap_front(&mut self, front: &mut Front) {
        core::mem::swap(&mut self.front, front);
    }

    #[inline]
    pub(crate) fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        if self.outstanding < self.fixed.queue_depth {
            self.accept(now, request);
        } else {
            self.waiting.push_back(request);
        }
    }

    #[inline]
    pub(crate) fn poll_deadline(&self) -> Option<Nanos> {
        let reply = self.replies.front().map(|(at, _)| *at);
        let job = self.running.map(|running| running.done);
        let due = match (reply, job) {
            (Some(reply), Some(job)) => Some(reply.min(job)),
            (one, other) => one.or(other),
        };
        let Some(shingled) = &self.shingled else { return due };
        due.into_iter().chain(shingled.wake()).min()
    }

    pub(crate) fn handle_deadline(&mut self, now: Nanos) {
        loop {
            if let Some(running) = self.running.filter(|running| running.done <= now) {
                self.running = None;
                self.end_job(now, &running);
            } else if let Some((at, id)) = self.replies.front().filter(|(at, _)| *at <= now).copied() {
                self.replies.pop_front();
                if let Some(times) = &mut self.times {
                    let since = times.replies.pop_front().expect("each reply has one");
                    times.ended = DriveTimes { front: at.saturating_since(since), ..DriveTimes::default() };
                }
                self.complete(id);
            } else if self.shingled.as_mut().is_some_and(|shingled| shingled.take_wake(now)) {
                self.start_next(now, now);
            } else {
                return;
            }
            while self.outstanding < self.fixed.queue_depth {
                let Some(request) = self.waiting.pop_front() else { break };
                self.accept(now, request);
            }
        }
    }

    #[inline]
    pub(crate) fn poll_completion(&mut self) -> Option<DriveCompletion> {
        self.done.pop_front()
    }

    fn accept(&mut self, now: Nanos, request: DriveRequest) {
        self.outstanding += 1;
        let decoded = self.front.firmware.serve(now, self.fixed.command_work);
        let request = match &mut self.shingled {
            Some(shingled) => shingled.accept(now, request),
            None => request,
        };
        match request.op {
            DriveOp::Read => self.accept_read(now, decoded, request),
            DriveOp::Write { .. } if self.shingled.is_some() => {
                self.accept_cached_write(now, decoded, request);
            }
            DriveOp::Write { fua } if (fua && !self.is_protected()) || !self.cache.is_on() => {
                self.accept_write(now, decoded, request);
            }
            DriveOp::Write { .. } => self.accept_cached_write(now, decoded, request),
            DriveOp::Flush if self.cache.is_clean() || self.is_protected() => {
                // No arm moves for it, but the firmware has to look for what is not on the media yet.
                let handled = decoded + self.beyond_work(self.fixed.overheads.write_miss);
                self.reply(handled + self.fixed.overheads.write_completion, request.id, now);
            }
            DriveOp::Flush => self.cache.flush(request.id),
            DriveOp::Trim => unreachable!("only drives with a translation layer are asked to trim"),
        }
        self.after_write = matches!(request.op, DriveOp::Write { .. });
        self.last_end = request.start.0 + request.sectors.0;
    }

    /// What an overhead takes beyond the work of the firmware.
    #[inline]
    fn beyond_work(&self, overhead: AfterOp) -> NanoSpan {
        let whole = if self.after_write { overhead.write } else { overhead.read };
        NanoSpan(whole.0.saturating_sub(self.fixed.command_work.0))
    }

    fn accept_read(&mut self, now: Nanos, decoded: Nanos, request: DriveRequest) {
        let (mut start, mut end) = (request.start.0, request.start.0 + request.sectors.0);
        let host_bytes = request.sectors.bytes();
        self.note_read_ahead(now);
        if let Some(runs) = self.moved(start, end) {
            if runs.len() > 1 {
                self.read_pieces(now, decoded, request.id, &runs);
                return;
            }
            (start, end) = (runs[0].0, runs[0].0 + runs[0].1);
        }
        if self.finds(start, end) {
            let ready = decoded + self.beyond_work(self.fixed.overheads.read_hit);
            let sent = self.front.interface.serve(ready, self.fixed.bus.read.transfer_time(host_bytes));
            self.reply(sent + self.fixed.overheads.read_completion, request.id, now);
            self.read_further(now, end);
            return;
        }
        let (kind, reselect) = (JobKind::Read { id: request.id }, self.fixed.overheads.read_reselect);
        let ready = decoded + self.beyond_work(self.fixed.overheads.read_miss);
        if let Some(ahead) = self.ahead.filter(|ahead| self.segments.reaches(ahead.segment, start)) {
            // The arm is on its way to these sectors, or waits just before them.
            start = self.segments.end_of(ahead.segment).max(start);
            let arrived = decoded + self.beyond_work(self.fixed.overheads.read_hit);
            if start < ahead.limit {
                let place = self.fixed.geometry.place(Sector(start));
                let job = Job {
                    kind,
                    start,
                    sectors: end - start,
                    host_bytes,
                    place,
                    came: now,
                    ready,
                    arrived,
                    reselect,
                };
                self.ahead = None;
                let turns = self.turns_to(&ahead, start + 1) - place.sector_turn;
                let media_start = ahead.since + self.fixed.geometry.time_of(turns);
                self.run(now, Positioned { media_start, landed: None, from: start, arm: [now; 2] }, job);
                return;
            }
        }
        let place = self.fixed.geometry.place(Sector(start));
        let sectors = end - start;
        let job =
            Job { kind, start, sectors, host_bytes, place, came: now, ready, arrived: decoded, reselect };
        self.host_jobs.push(&self.fixed.arm, &self.fixed.geometry, now, &place, false, job);
        self.start_next(now, now);
    }

    /// Where shingled bands have what is to be read, unless it is still in the write cache.
    fn moved(&self, start: u64, end: u64) -> Option<Vec<Run>> {
        let shingled = self.shingled.as_ref().filter(|_| !self.is_dirty(start, end))?;
        Some(shingled.locate(start, end))
    }

    /// A read of which the media cache holds parts: each piece by itself, from where it is.
    fn read_pieces(&mut self, now: Nanos, decoded: Nanos, id: u32, runs: &[Run]) {
        let ready = decoded + self.beyond_work(self.fixed.overheads.read_miss);
        if let Some(shingled) = &mut self.shingled {
            shingled.expect_pieces(id, runs.len());
        }
        for (start, sectors) in runs.iter().copied() {
            let (kind, reselect) = (JobKind::Read { id }, self.fixed.overheads.read_reselect);
            let place = self.fixed.geometry.place(Sector(start));
            let host_bytes = SectorCount(sectors).bytes();
            let job =
                Job { kind, start, sectors, host_bytes, place, came: now, ready, arrived: decoded, reselect };
            self.host_jobs.push(&self.fixed.arm, &self.fixed.geometry, now, &place, false, job);
        }
        self.start_next(now, now);
    }

    /// Whether all of `start..end` is in the buffer.
    #[inline]
    fn finds(&mut self, start: u64, end: u64) -> bool {
        (self.fixed.keeps.reads && self.segments.hit(start, end))
            || self.is_dirty(start, end)
            || (self.fixed.keeps.writes && self.written.start <= start && end <= self.written.end)
    }

    fn accept_write(&mut self, now: Nanos, decoded: Nanos, request: DriveRequest) {
        self.stop_read_ahead(now);
        let job = self.write_job(JobKind::Write { id: request.id }, decoded, request);
        self.host_jobs.push(&self.fixed.arm, &self.fixed.geometry, now, &job.place, true, job);
        self.start_next(now, now);
    }

    /// Takes in the data of a write and makes the arm's job of it.
    fn write_job(&mut self, kind: JobKind, decoded: Nanos, request: DriveRequest) -> Job {
        let apart = self.after_write && self.last_end != request.start.0;
        let early = self.fixed.overheads.early_disconnect.filter(|_| apart);
        self.forget(request.start.0, request.start.0 + request.sectors.0);
        let bytes = request.sectors.bytes();
        let transfer = self.fixed.bus.write.transfer_time(bytes);
        let whole = |early: Option<NanoSpan>, usual| early.map_or(usual, AfterOp::either);
        let data = whole(early.map(|early| early.data), self.fixed.overheads.write_data);
        let seek = whole(early.map(|early| early.seek), self.fixed.overheads.write_miss);
        let begin = decoded + self.beyond_work(data);
        let arrived = self.front.interface.serve(begin, transfer);
        let first_piece = self.fixed.bus.write.transfer_time(bytes.min(self.fixed.bus.piece));
        let planned = decoded + self.beyond_work(seek);
        Job {
            kind,
            start: request.start.0,
            sectors: request.sectors.0,
            host_bytes: bytes,
            place: self.fixed.geometry.place(request.start),
            came: Nanos(decoded.0 - self.fixed.command_work.0),
            ready: planned.max(Nanos(arrived.0 - transfer.0 + first_piece.0)),
            arrived,
            reselect: early.map_or(self.fixed.overheads.write_reselect, |early| early.reselect),
        }
    }

    /// Empties what the buffer holds of sectors that are about to be overwritten, and holds these instead if it does.
    fn forget(&mut self, start: u64, end: u64) {
        self.segments.forget(start, end);
        if self.fixed.keeps.writes {
            self.written = if self.written.end == start { self.written.start..end } else { start..end };
        }
    }

    /// Gives the idle arm its next job; it can set out at `earliest`.
    fn start_next(&mut self, now: Nanos, earliest: Nanos) {
        self.start_next_behind(now, earliest, None);
    }

    /// The same right behind a read up to the sector `read_to`: a drive that reads ahead has gone on there, and need not
    /// wait for the overhead of a command that asks for just that.
    fn start_next_behind(&mut self, now: Nanos, earliest: Nanos, read_to: Option<u64>) {
        if self.running.is_some() || (self.host_jobs.is_empty() && !self.has_destage()) {
            return;
        }
        self.stop_read_ahead(now);
        let begin = earliest.max(self.arm_free);
        let host =
            self.host_jobs.choose(&self.fixed.arm, &self.fixed.geometry, self.position, begin, Ages::Count);
        let destage =
            if host.is_none() || self.cache.is_pressed() { self.choose_destage(begin) } else { None };
        let job = match (host, destage) {
            (Some(host), Some(destage)) if destage.cost < host.cost => self.take_destage(destage.index),
            (Some(host), _) => self.host_jobs.take(host.index),
            (None, Some(destage)) => self.take_destage(destage.index),
            // What is dirty waits for the host to be idle.
            (None, None) => return,
        };
        let write = job.kind.is_write();
        let is_read_on = !write && read_to == Some(job.start) && self.fixed.read_ahead != ReadAhead::Off;
        let begin = if is_read_on { begin } else { begin.max(job.ready) };
        let media_start = self.fixed.arm.reach(&self.fixed.geometry, self.position, begin, &job.place, write);
        let read_on_arrival = self.fixed.reads_on_arrival && !write;
        let landed = if read_on_arrival { self.landed_at(begin, media_start, &job) } else { None };
        let from = if self.fixed.keeps.passed && !write {
            self.first_passed(begin, media_start, &job)
        } else {
            job.start
        };
        let on_track = if self.times.is_some() {
            self.fixed.arm.ready(&self.fixed.geometry, self.position, begin, &job.place, write)
        } else {
            begin
        };
        self.run(now, Positioned { media_start, landed, from, arm: [begin, on_track] }, job);
    }

    /// Turns from the first sector of a read to where the head lands, if that is within the read.
    ///
    /// Only for reads on one track: with more, the next track has to come round anyway.
    fn landed_at(&self, begin: Nanos, media_start: Nanos, job: &Job) -> Option<u64> {
        if job.sectors > u64::from(job.place.left_on_track) {
            return None;
        }
        let ready = self.fixed.arm.ready(&self.fixed.geometry, self.position, begin, &job.place, false);
        let wait = self.fixed.geometry.turns_in(media_start.saturating_since(ready));
        let landed = TURN.saturating_sub(wait);
        (landed < job.place.sector_turn * job.sectors).then_some(landed)
    }

    /// The first sector of the run that ends with a read and passes under the head after it lands on their track.
    fn first_passed(&self, begin: Nanos, media_start: Nanos, job: &Job) -> u64 {
        let ready = self.fixed.arm.ready(&self.fixed.geometry, self.position, begin, &job.place, false);
        let wait = self.fixed.geometry.turns_in(media_start.saturating_since(ready));
        let track_start = self.fixed.geometry.track_start(Sector(job.start));
        job.start.saturating_sub(wait / job.place.sector_turn).max(track_start)
    }

    /// Starts `job` where the head is `positioned`.
    fn run(&mut self, now: Nanos, positioned: Positioned, job: Job) {
        let Positioned { media_start, landed, from, arm: [begin, on_track] } = positioned;
        let write = job.kind.is_write();
        let (turns, cylinder, head) =
            self.fixed.geometry.pass(&job.place, Sector(job.start), SectorCount(job.sectors), write);
        // Sectors that the media gives last, being the first ones of a read in which the head landed.
        let first_ones = landed.map(|landed| landed / job.place.sector_turn + 1);
        let turns = match first_ones {
            Some(sectors) => sectors * job.place.sector_turn,
            None if write => {
                let turns = turns + self.turns_to_read_around(&job);
                turns + self.lost_turns(media_start, turns, &job)
            }
            None => turns,
        };
        let media_end = media_start + self.fixed.geometry.time_of(turns);
        self.position = ArmPosition { cylinder, head };
        self.swept_to = job.start + job.sectors;
        let done = if matches!(job.kind, JobKind::BandRead) {
            media_end
        } else if write {
            media_end.max(job.arrived) + job.reselect + self.fixed.overheads.write_completion
        } else {
            let behind = first_ones.map_or(0, |first_ones| job.sectors.saturating_sub(first_ones));
            self.read_sent(now, media_start, media_end, behind, &job) + self.fixed.overheads.read_completion
        };
        if let Some(times) = &mut self.times {
            times.running = DriveTimes {
                arm: on_track.saturating_since(begin),
                platters: media_end.saturating_since(on_track),
                front: begin.min(job.ready).saturating_since(job.came) + done.saturating_since(media_end),
                ..DriveTimes::default()
            };
        }
        self.running = Some(Running { job, from, media_end, done });
    }

    /// Turns that a write of `turns` loses because the media gets to its last sector before the bus does.
    #[inline]
    fn lost_turns(&self, media_start: Nanos, turns: u64, job: &Job) -> u64 {
        let last_sector = media_start + self.fixed.geometry.time_of(turns - job.place.sector_turn);
        let late = job.arrived.saturating_since(last_sector);
        if late.0 == 0 { 0 } else { self.fixed.geometry.turns_in(late).div_ceil(TURN) * TURN }
    }

    /// Turns that a write takes longer because it begins or ends within a physical sector: what is already there is read as
    /// it passes, and all is written a turn later.
    #[inline]
    fn turns_to_read_around(&self, job: &Job) -> u64 {
        let is_whole = |sector: u64| sector.is_multiple_of(self.fixed.physical_sectors);
        if is_whole(job.start) && is_whole(job.start + job.sectors) { 0 } else { TURN }
    }

    /// When the host has all data of a read that the media gives from `media_start` to `media_end`.
    ///
    /// The last `behind` sectors are in the buffer by then, but the host takes all in order.
    fn read_sent(
        &mut self,
        now: Nanos,
        media_start: Nanos,
        media_end: Nanos,
        behind: u64,
        job: &Job,
    ) -> Nanos {
        let transfer = self.fixed.bus.read.transfer_time(job.host_bytes);
        // The wire carries nothing before the media has it, and no more in all than it can.
        let sent = self.front.interface.serve(now.max(job.arrived), transfer);
        let begin = match self.fixed.bus.read_high_water_pct {
            None => media_start,
            // What is in the buffer already can go at once.
            Some(_) if job.host_bytes > SectorCount(job.sectors).bytes() => job.arrived,
            Some(pct) => {
                let sectors = (job.sectors * u64::from(pct) / 100).clamp(1, job.sectors);
                let (turns, ..) =
                    self.fixed.geometry.pass(&job.place, Sector(job.start), SectorCount(sectors), false);
                media_start + self.fixed.geometry.time_of(turns) + job.reselect
            }
        };
        let last_piece = job.host_bytes.min(self.fixed.bus.piece).max(SectorCount(behind + 1).bytes());
        let last_piece = self.fixed.bus.read.transfer_time(last_piece.min(job.host_bytes));
        sent.max(begin + transfer).max(media_end + last_piece)
    }

    fn end_job(&mut self, now: Nanos, running: &Running) {
        let job = &running.job;
        let end = job.start + job.sectors;
        self.arm_free = running.media_end;
        if let Some(times) = &mut self.times {
            times.ended = times.running;
        }
        match job.kind {
            JobKind::Read { id } => {
                let segment = self.segments.fill(running.from, job.start, end);
                if !self.shingled.as_mut().is_some_and(|shingled| shingled.has_more_pieces(id)) {
                    self.complete(id);
                }
                self.start_next_behind(now, running.media_end, Some(end));
                if self.running.is_none()
                    && let Some(limit) = self.ahead_limit(segment, end)
                {
                    self.start_read_ahead(segment, end, running.media_end, limit);
                }
                return;
            }
            JobKind::Write { id } => self.complete(id),
            JobKind::BandRead | JobKind::BandWrite => self.end_band_work(now, job),
            JobKind::Destage { epoch } => {
                self.retire(epoch, job.sectors);
                self.destaging = None;
                self.unblock_writes(now);
            }
        }
        self.start_next(now, running.media_end);
    }

    /// Counts an extent as being on the media, and completes the flushes that waited for it.
    fn retire(&mut self, epoch: u64, sectors: u64) {
        let (done, outstanding, times) = (&mut self.done, &mut self.outstanding, &mut self.times);
        self.cache.retire_extent(epoch, sectors, |id| {
            done.push_back(DriveCompletion { id });
            if let Some(times) = times {
                times.done.push_back(DriveTimes::default());
            }
            *outstanding -= 1;
        });
    }

    /// Promises the completion of `id`, for which the arm has nothing to do since `since`, at `at`, or right after the replies
    /// before it.
    fn reply(&mut self, at: Nanos, id: u32, since: Nanos) {
        let at = self.replies.back().map_or(at, |(last, _)| at.max(*last));
        self.replies.push_back((at, id));
        if let Some(times) = &mut self.times {
            times.replies.push_back(since);
        }
    }

    /// A command is done, by the job or the reply that ended last.
    fn complete(&mut self, id: u32) {
        self.outstanding -= 1;
        self.done.push_back(DriveCompletion { id });
        if let Some(times) = &mut self.times {
            times.done.push_back(times.ended);
        }
    }
}
