//! The state machine of a drive with a write buffer and a translation layer.
//!
//! ```text
//!  request -> [queue] -> Decoded -> read:  buffer, or die and channel -> link -> Finished
//!                                -> write: room in the buffer -> link -> Finished (protected, or not to be durable)
//!                                                            \-> drained ... -> flushed -> Finished (else)
//!                                -> trim:  forgotten -> Finished
//! ```
//! Every step that takes time is an event in the drive's own queue; equal times leave it first in, first out.

use super::buffer::{SectorMask, WriteBuffer};
use super::condition::DriveHistory;
use super::conditioned::conditioned;
use super::drain::{Begun, Drain, Parts};
use super::flash::{Flash, PageRead, SlcTimes};
use super::front::{Front, Way};
use super::map_cache::{MAP_PAGE, MapCache};
use super::model::FlashModel;
use super::placement::{Page, Placement};
use super::random::{Draw, spread};
use super::slc::SlcCache;
use super::translation::Translation;
use crate::drive::{
    DriveCompletion, DriveOp, DriveOptions, DriveRequest, DriveTimes, SECTOR_BYTES, SectorCount,
};
use crate::link::LinkModel;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Least that is moved over a channel for a read: what one code word protects.
const CODE_WORD: u64 = 4096;

/// Seed of all that is drawn; drives of one model differ by what they are asked.
const SEED: u64 = 24;

/// What a drive has done to its flash since it was made, its condition not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashCounters {
    /// Mapping units written for the host, and to fill up programs.
    pub host_units: u64,
    /// Mapping units moved by garbage collection.
    pub moved_units: u64,
    /// Those of the host's that went to the pseudo-SLC cache first.
    pub cached_units: u64,
    /// Mapping units folded from there into all bits of the cells.
    pub folded_units: u64,
    /// Mapping units written by wear levelling, by refresh, and for the map.
    pub upkeep_units: u64,
    /// Mapping units that the host trimmed.
    pub trimmed_units: u64,
    /// Map pages that were read from flash for a read of the host's.
    pub map_reads: u64,
    /// Programs begun, those of parity included.
    pub programs: u64,
    /// Blocks erased, those of all planes of a die counted as one.
    pub erases: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Decoded(u32),
    /// Its map pages are in memory.
    Mapped(u32),
    Finished(u32),
    Drain(Begun),
    /// No command may have been here for a while.
    Quiet,
}

/// When the drive counts as idle.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    after: NanoSpan,
    since: Nanos,
    /// Whether it is going to be looked at.
    is_due: bool,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    request: DriveRequest,
    /// Next unit of a write that has no place in the buffer yet.
    next_unit: u64,
    /// When its data have crossed the link.
    arrived: Nanos,
    /// Up to here `times` says where its time went.
    followed_to: Nanos,
    times: DriveTimes,
}

/// A solid-state drive at work.
#[derive(Clone, Debug)]
pub(crate) struct FlashDrive {
    front: Front,
    buffer: WriteBuffer,
    translation: Translation,
    placement: Placement,
    flash: Flash,
    drain: Drain,
    slc: Option<SlcCache>,
    map: Option<MapCache>,
    quiet: Option<Quiet>,
    trimmed_units: u64,
    map_reads: u64,
    unit_sectors: u64,
    queue_depth: usize,
    /// Whether a write is answered when it is in the buffer, and whether a flush has nothing to do.
    caches: bool,
    protected: bool,
    commands: Vec<Command>,
    free_commands: Vec<u32>,
    /// Writes that wait for room in the buffer.
    blocked: VecDeque<u32>,
    waiting: VecDeque<DriveRequest>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    sequence: u64,
    draw: Draw,
    done: VecDeque<DriveCompletion>,
    /// Where the time of each of them went, if that is followed.
    times_done: Option<VecDeque<DriveTimes>>,
}

impl FlashDrive {
    pub(crate) fn new(
        model: &FlashModel,
        capacity: SectorCount,
        link: LinkModel,
        options: DriveOptions,
    ) -> Self {
        let unit = model.translation.unit;
        let shape = model.shape(capacity);
        let unit_sectors = unit.0 / SECTOR_BYTES;
        let cells = &model.cells;
        let run_units = u64::from(cells.planes) * cells.page.0 / unit.0;
        let is_scattered = matches!(model.condition.history, DriveHistory::Random(_));
        let queue_depth = options.queue_depth.unwrap_or(model.front.queue_depth).max(1);
        let mut translation = conditioned(shape, model.condition, SEED);
        let slc = model.slc_shape(capacity, translation.groups(), translation.group_units());
        let mut slc = slc.map(SlcCache::new);
        if let Some(slc) = slc.as_mut().filter(|_| is_scattered) {
            let filled = model.condition.filled(translation.groups());
            slc.fill_up(&mut translation, filled, SEED);
        }
        let cells = &model.worn_cells();
        let times = model.slc.map(|slc| SlcTimes { program: slc.program, read: slc.read });
        Self {
            front: Front::new(&model.front, &model.caps, model.heat.as_ref(), link),
            buffer: WriteBuffer::new((model.buffer.size.0 / unit.0) as u32),
            placement: Placement::new(shape.units, run_units, cells.dies(), is_scattered),
            flash: Flash::new(cells, times.unwrap_or_default()),
            drain: Drain::new(model, mask_of(0, unit_sectors), translation.superblocks()),
            translation,
            slc,
            map: model.translation.map_cache.map(MapCache::new),
            quiet: model.idle.map(|idle| Quiet { after: idle.after, since: Nanos::ZERO, is_due: false }),
            trimmed_units: 0,
            map_reads: 0,
            unit_sectors,
            queue_depth: queue_depth as usize,
            caches: model.buffer.protected || options.write_cache.unwrap_or(true),
            protected: model.buffer.protected,
            commands: vec![],
            free_commands: vec![],
            blocked: VecDeque::new(),
            waiting: VecDeque::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            draw: Draw::new(SEED),
            done: VecDeque::new(),
            times_done: None,
        }
    }

    /// Brings its dies to other places in their blocks.
    pub(crate) fn stagger(&mut self, seed: u64) {
        self.flash.stagger(spread(seed));
    }

    pub(crate) fn follow_times(&mut self) {
        self.times_done = Some(VecDeque::new());
    }

    pub(crate) fn poll_times(&mut self) -> Option<DriveTimes> {
        self.times_done.as_mut()?.pop_front()
    }

    pub(crate) fn counters(&self) -> FlashCounters {
        let written = self.translation.written();
        let (cached, folded) = self.slc.as_ref().map_or((0, 0), SlcCache::written);
        FlashCounters {
            host_units: written.host + cached - folded,
            moved_units: written.moved,
            cached_units: cached,
            folded_units: folded,
            upkeep_units: self.drain.upkeep_units(),
            trimmed_units: self.trimmed_units,
            map_reads: self.map_reads,
            programs: self.drain.rows(),
            erases: self.flash.erases(),
        }
    }

    pub(crate) fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        if self.commands.len() - self.free_commands.len() < self.queue_depth {
            self.start(now, request);
        } else {
            self.waiting.push_back(request);
        }
    }

    pub(crate) fn poll_deadline(&self) -> Option<Nanos> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    pub(crate) fn handle_deadline(&mut self, now: Nanos) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied().filter(|first| first.0.0 <= now)
        {
            self.events.pop();
            match event {
                Event::Decoded(command) => self.decoded(at, command),
                Event::Mapped(command) => self.read(at, command, self.commands[command as usize].request),
                Event::Finished(command) => self.finish(at, command),
                Event::Drain(Begun::Load) => {
                    self.drain.handle_loaded();
                    self.drain(at);
                }
                Event::Drain(Begun::Program(flight)) => self.programmed(at, flight),
                Event::Quiet => self.look_at_quiet(at),
            }
        }
    }

    pub(crate) fn poll_completion(&mut self) -> Option<DriveCompletion> {
        self.done.pop_front()
    }

    fn push(&mut self, at: Nanos, event: Event) {
        self.events.push(Reverse((at, self.sequence, event)));
        self.sequence += 1;
    }

    fn start(&mut self, now: Nanos, request: DriveRequest) {
        let first = request.start.0 / self.unit_sectors;
        let command = Command {
            request,
            next_unit: first,
            arrived: now,
            followed_to: now,
            times: DriveTimes::default(),
        };
        let index = self.free_commands.pop().unwrap_or(self.commands.len() as u32);
        match self.commands.get_mut(index as usize) {
            Some(free) => *free = command,
            None => self.commands.push(command),
        }
        let way = if request.op == DriveOp::Read { Way::Read } else { Way::Write };
        let (bytes, units) = match request.op {
            // Its ranges are short, however long what they name is.
            DriveOp::Trim => (ByteCount::ZERO, 1),
            _ => (request.sectors.bytes(), self.end_unit(&request) - first),
        };
        if self.commands.len() - self.free_commands.len() == 1 {
            self.front.set_working(now, true);
        }
        let at = self.front.decode(now, way, bytes, units);
        self.pass_front(index, at);
        self.push(at, Event::Decoded(index));
        if self.quiet.is_some() {
            self.drain.set_idle(false);
        }
    }

    /// Notes that `command` is before the flash until `at`.
    #[inline]
    fn pass_front(&mut self, command: u32, at: Nanos) {
        let command = &mut self.commands[command as usize];
        command.times.front += at.saturating_since(command.followed_to);
        command.followed_to = command.followed_to.max(at);
    }

    /// Notes that `command` has waited until `at` for programs, garbage collection's among them, of which the last took `own`
    /// and was its own.
    #[inline]
    fn wait_for_programs(&mut self, command: u32, at: Nanos, own: NanoSpan) {
        let command = &mut self.commands[command as usize];
        let waited = at.saturating_since(command.followed_to);
        if waited == NanoSpan::ZERO {
            return;
        }
        command.followed_to = at;
        let due = self.translation.due_per_unit();
        let own = own.min(waited);
        let others = waited - own;
        let collection = NanoSpan((others.0 as f64 * due / (1.0 + due)) as u64);
        command.times.collection += collection;
        command.times.dies += own;
        command.times.dies_waiting += others - collection;
    }

    /// The unit after the last that `request` touches.
    fn end_unit(&self, request: &DriveRequest) -> u64 {
        (request.start.0 + request.sectors.0).div_ceil(self.unit_sectors)
    }

    /// The sectors of `unit` that `request` touches.
    #[inline]
    fn sectors_in(&self, request: &DriveRequest, unit: u64) -> (u64, u64) {
        let base = unit * self.unit_sectors;
        let end = (request.start.0 + request.sectors.0).min(base + self.unit_sectors);
        (request.start.0.max(base) - base, end - base)
    }

    fn decoded(&mut self, now: Nanos, command: u32) {
        let request = self.commands[command as usize].request;
        match request.op {
            DriveOp::Read => match self.look_up(now, &request) {
                Some(page) => {
                    self.follow_page(now, command, page);
                    self.commands[command as usize].followed_to = page.ready;
                    self.push(page.ready, Event::Mapped(command));
                }
                None => self.read(now, command, request),
            },
            DriveOp::Write { .. } => {
                let first = request.start.0 / self.unit_sectors;
                self.placement.write(first, self.end_unit(&request) - first);
                self.blocked.push_back(command);
                self.admit(now);
            }
            DriveOp::Flush => {
                let is_waiting = !self.protected && self.buffer.flush(command);
                if is_waiting {
                    self.drain(now);
                } else {
                    let at = now + self.front.latency(Way::Write);
                    self.pass_front(command, at);
                    self.push(at, Event::Finished(command));
                }
            }
            DriveOp::Trim => self.trim(now, command, request),
        }
    }

    /// Has the map pages of a read here; the last of those that have to be read from flash, if any has.
    #[inline]
    fn look_up(&mut self, now: Nanos, request: &DriveRequest) -> Option<PageRead> {
        let map = self.map.as_mut()?;
        let first = MapCache::page_of(request.start.0 / self.unit_sectors);
        let last = MapCache::page_of((request.start.0 + request.sectors.0 - 1) / self.unit_sectors);
        let mut ready: Option<PageRead> = None;
        for page in first..=last {
            if map.touch(page, false).is_missed {
                self.map_reads += 1;
                let hash = spread(self.map_reads);
                let die = super::random::scaled(hash, self.flash.dies());
                self.flash.read(now, die as u32, MAP_PAGE, hash, u64::MAX);
                ready = ready.max(Some(self.flash.last_read()));
            }
        }
        ready
    }

    /// Forgets the data of the units that lie within `request`; those that it only touches keep theirs.
    fn trim(&mut self, now: Nanos, command: u32, request: DriveRequest) {
        let first = request.start.0.div_ceil(self.unit_sectors);
        let end = (request.start.0 + request.sectors.0) / self.unit_sectors;
        if first < end {
            self.trimmed_units += end - first;
            self.buffer.forget(first..end);
            for group in self.translation.groups_in(first..end) {
                self.translation.forget(group);
                if let Some(slc) = &mut self.slc {
                    slc.forget(group);
                }
            }
            self.answer_flushed(now);
            self.admit(now);
        }
        self.push(now + self.front.latency(Way::Write), Event::Finished(command));
    }

    fn read(&mut self, now: Nanos, command: u32, request: DriveRequest) {
        let mut last_page = PageRead { ready: now, sensed: now, ..PageRead::default() };
        let mut page = None;
        let mut page_bytes = 0;
        for unit in request.start.0 / self.unit_sectors..self.end_unit(&request) {
            let (from, to) = self.sectors_in(&request, unit);
            let is_cached = self.slc.as_ref().is_some_and(|slc| slc.holds(self.translation.group(unit)));
            if self.buffer.has(unit, mask_of(from, to)) || !(is_cached || self.translation.is_written(unit)) {
                continue;
            }
            let of_unit = (self.placement.page(unit), is_cached);
            let bytes = ((to - from) * SECTOR_BYTES)
                .next_multiple_of(CODE_WORD.min(self.unit_sectors * SECTOR_BYTES));
            match page {
                Some(before) if before == of_unit => page_bytes += bytes,
                _ => {
                    if let Some(before) = page.replace(of_unit) {
                        last_page = last_page.max(self.read_page(now, before, page_bytes));
                    }
                    page_bytes = bytes;
                }
            }
        }
        if let Some(last) = page {
            last_page = last_page.max(self.read_page(now, last, page_bytes));
        }
        let ready = last_page.ready;
        let out = self.front.transfer(now, ready, Way::Read, request.sectors.bytes());
        let at = out + self.front.latency(Way::Read);
        self.follow_page(now, command, last_page);
        self.commands[command as usize].times.front += at - ready;
        self.push(at, Event::Finished(command));
    }

    fn read_page(&mut self, now: Nanos, (page, is_cached): (Page, bool), bytes: u64) -> PageRead {
        if is_cached {
            self.flash.read_slc(now, page.die, ByteCount(bytes));
        } else {
            let chance = self.draw.next();
            self.flash.read(now, page.die, ByteCount(bytes), page.hash, chance);
        }
        self.flash.last_read()
    }

    /// Notes that `command` asked at `now` for a page, and has it.
    #[inline]
    fn follow_page(&mut self, now: Nanos, command: u32, page: PageRead) {
        let times = &mut self.commands[command as usize].times;
        times.dies += page.sensing;
        times.dies_waiting += (page.sensed - now) - page.sensing;
        times.channels += page.moving;
        times.channels_waiting += (page.ready - page.sensed) - page.moving;
    }

    /// Takes what there is room for into the buffer, in the order in which it came.
    fn admit(&mut self, now: Nanos) {
        while let Some(command) = self.blocked.front().copied() {
            let Command { request, next_unit, .. } = self.commands[command as usize];
            let end = self.end_unit(&request);
            let mut unit = next_unit;
            while unit < end {
                let (from, to) = self.sectors_in(&request, unit);
                if !self.buffer.put(unit, mask_of(from, to)) {
                    break;
                }
                unit += 1;
            }
            self.commands[command as usize].next_unit = unit;
            if unit < end {
                break;
            }
            self.blocked.pop_front();
            self.taken_in(now, command, request);
        }
        self.drain(now);
    }

    /// All of a write has its place in the buffer.
    fn taken_in(&mut self, now: Nanos, command: u32, request: DriveRequest) {
        let arrived = self.front.transfer(now, now, Way::Write, request.sectors.bytes());
        let answered = arrived + self.front.latency(Way::Write);
        self.wait_for_programs(command, now, NanoSpan::ZERO);
        self.pass_front(command, answered);
        self.commands[command as usize].arrived = answered;
        let is_durable = self.protected || (self.caches && request.op == DriveOp::Write { fua: false });
        if is_durable || !self.buffer.flush(command) {
            self.push(answered, Event::Finished(command));
        }
    }

    fn drain(&mut self, now: Nanos) {
        let Self { buffer, translation, placement, flash, slc, map, drain, events, sequence, .. } = self;
        let (slc, map) = (slc.as_mut(), map.as_mut());
        let mut parts = Parts { buffer, translation, placement, flash, slc, map };
        while let Some((at, begun)) = drain.poll(now, &mut parts) {
            events.push(Reverse((at, *sequence, Event::Drain(begun))));
            *sequence += 1;
        }
    }

    fn programmed(&mut self, now: Nanos, flight: u32) {
        if let Some(later) = self.drain.handle_programmed(now, flight, &self.flash, &mut self.buffer) {
            return self.push(later, Event::Drain(Begun::Program(flight)));
        }
        self.answer_flushed(now);
        self.admit(now);
    }

    /// Ends the flushes and forced writes that wait for nothing any more.
    fn answer_flushed(&mut self, now: Nanos) {
        while let Some(command) = self.buffer.poll_flushed() {
            let at = now.max(self.commands[command as usize].arrived);
            self.wait_for_programs(command, at, self.drain.ended_took());
            self.push(at, Event::Finished(command));
        }
    }

    /// Takes in that nothing may have been asked of the drive for as long as it takes to be idle.
    fn look_at_quiet(&mut self, now: Nanos) {
        let is_free = self.commands.len() == self.free_commands.len();
        let Some(quiet) = self.quiet.as_mut() else { return };
        let due = quiet.since + quiet.after;
        quiet.is_due = is_free && due > now;
        if quiet.is_due {
            self.push(due, Event::Quiet);
        } else if is_free {
            self.drain.set_idle(true);
            self.drain(now);
        }
    }

    fn finish(&mut self, now: Nanos, command: u32) {
        let Command { request, times, .. } = self.commands[command as usize];
        self.done.push_back(DriveCompletion { id: request.id });
        if let Some(done) = &mut self.times_done {
            done.push_back(times);
        }
        self.free_commands.push(command);
        let is_last = self.commands.len() == self.free_commands.len();
        if is_last {
            self.front.set_working(now, false);
        }
        if let Some(request) = self.waiting.pop_front() {
            self.start(now, request);
        } else if let Some(quiet) = &mut self.quiet
            && is_last
        {
            quiet.since = now;
            if !quiet.is_due {
                quiet.is_due = true;
                let due = now + quiet.after;
                self.push(due, Event::Quiet);
            }
        }
    }
}

/// Sectors `from..to` of a unit.
#[inline]
fn mask_of(from: u64, to: u64) -> SectorMask {
    (SectorMask::MAX >> (128 - (to - from))) << from
}
