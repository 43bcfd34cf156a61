//! A solid-state drive: flash dies behind channels, and a controller with a maximum rate of commands.
//!
//! ```text
//!  command -> firmware (commands per second) -> page by page: die (read, or program x write cost) -> channel -> link
//! ```
//!
//! Pages are striped over the dies in the order in which they are written (as in a log, so that any order of writing
//! loads all dies evenly); reads assume striping by address. There is no volatile write cache, which the drives of the
//! catalogue do not have: a write is done when its pages are programmed, and a flush has nothing to do.
//!
//! Once the drive is full, a page costs its die more than its own program: `write_amplification - 1` pages of other
//! blocks, each a read and a program, are moved to make room. The host does not wait for that, but the die is busy with
//! it after the program. Only data still valid when its block is collected is ever moved. So a page that is rewritten
//! while its blocks are still being filled makes room by itself, and nothing is moved for it.
//!
//! Left out: fresh-out-of-box speed, since the state is the steady one; pages written again later, but before they
//! would be collected. Source: Desnoyers, "Analytic models of SSD write performance", ACM TOS 10(2), 2014 (hot pages
//! cost little).

use crate::catalog::{CatalogError, Section, from_keys};
use crate::drive::{
    DriveCompletion, DriveOp, DriveOptions, DriveRequest, DriveTimes, SECTOR_BYTES, SectorCount,
};
use crate::link::{LinkModel, Server};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What is inside a solid-state drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SolidStateModel {
    /// Buses between controller and flash.
    pub channels: u32,
    /// Dies on each of them.
    pub dies_per_channel: u32,
    /// Unit of reading and programming.
    pub page_size: ByteCount,
    /// Time a die takes to read a page.
    pub page_read: NanoSpan,
    /// Time a die takes to program a page.
    pub page_program: NanoSpan,
    /// Between one channel's dies and the controller.
    pub channel: LinkModel,
    /// Controller time per read command.
    pub read_overhead: NanoSpan,
    /// Controller time per write command.
    pub write_overhead: NanoSpan,
    /// Pages programmed for each page that the host writes, in the steady state; at least 1.
    pub write_amplification: f64,
    /// Pages of a block, the unit of erasing. Every die fills one at a time.
    pub block_pages: u32,
    /// Commands the drive accepts at once; the rest wait at the sender.
    pub queue_depth: u32,
}

impl SolidStateModel {
    /// Reads the table `flash`.
    pub(crate) fn read(root: &mut Section<'_>) -> Result<Self, CatalogError> {
        let mut flash = root.section("flash")?;
        let model = from_keys!(flash, Self {
            channels, dies_per_channel, page_size, page_read, page_program,
            channel = LinkModel::read(flash.section("channel")?)?,
            read_overhead, write_overhead, write_amplification, block_pages, queue_depth,
        });
        for (key, count) in [
            ("channels", model.channels),
            ("dies_per_channel", model.dies_per_channel),
            ("block_pages", model.block_pages),
            ("queue_depth", model.queue_depth),
        ] {
            flash.refuse_if(count == 0, key, "at least 1")?;
        }
        if model.page_size.0 < SECTOR_BYTES || !model.page_size.0.is_power_of_two() {
            return Err(flash.bad_value("page_size", "a power of two, at least 512"));
        }
        flash.refuse_if(model.write_amplification < 1.0, "write_amplification", "at least 1")?;
        flash.finish(model)
    }
}

/// The pages that were written last: those whose blocks are still being filled.
///
/// Each page has one cell, by its number, which the page written last there takes. So a few pages are forgotten too soon,
/// which costs them what an older page costs.
#[derive(Clone, Debug)]
struct Young {
    cells: Vec<(u64, u64)>,
    /// Pages written since, from which on one is not young any more.
    span: u64,
}

impl Young {
    fn new(span: u64) -> Self {
        // Twice as many cells as pages, so that neighbours seldom meet.
        Self { cells: vec![(u64::MAX, 0); (2 * span).next_power_of_two() as usize], span }
    }

    /// Notes that `page` is written as number `written`; true if it was young.
    fn renew(&mut self, page: u64, written: u64) -> bool {
        // Multiplication by the golden ratio spreads numbers that differ by a stride (Knuth, TAOCP 3, 6.4).
        let hash = (page.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        let mask = self.cells.len() - 1;
        let cell = &mut self.cells[hash & mask];
        let (before, at) = core::mem::replace(cell, (page, written));
        before == page && written - at < self.span
    }
}

/// Where time goes, while that is followed.
#[derive(Clone, Debug, Default)]
struct Times {
    /// Of commands inside the drive, by number of arrival.
    running: Vec<(u64, DriveTimes)>,
    /// Of those that are done.
    done: VecDeque<DriveTimes>,
}

/// A solid-state drive at work.
#[derive(Clone, Debug)]
pub(crate) struct SolidState {
    link: LinkModel,
    channel: LinkModel,
    page_sectors: u64,
    page_read: NanoSpan,
    page_program: NanoSpan,
    /// What a die does after a program to make room for it.
    collect: NanoSpan,
    read_overhead: NanoSpan,
    write_overhead: NanoSpan,
    queue_depth: u32,
    firmware: Server,
    interface: Server,
    channels: Vec<Server>,
    dies: Vec<Server>,
    /// Commands inside the drive, by completion time, then order of arrival.
    running: BinaryHeap<Reverse<(Nanos, u64, u32)>>,
    times: Option<Box<Times>>,
    /// The share that garbage collection has of what dies program.
    collected: f64,
    arrivals: u64,
    /// Pages written so far: the next one goes to the die after the last one's.
    pages_written: u64,
    young: Young,
    waiting: VecDeque<DriveRequest>,
    done: VecDeque<DriveCompletion>,
}

impl Times {
    /// A command has ended.
    fn end(&mut self, arrival: u64) {
        let own = self.running.iter().position(|(number, _)| *number == arrival);
        let own = own.expect("it was noted when the command began");
        self.done.push_back(self.running.swap_remove(own).1);
    }
}

impl SolidState {
    pub(crate) fn new(model: &SolidStateModel, link: LinkModel, options: DriveOptions) -> Self {
        let dies = model.channels as usize * model.dies_per_channel as usize;
        let move_ns = (model.page_read + model.page_program).0 as f64;
        let young = Young::new(u64::from(model.block_pages) * dies as u64);
        Self {
            link,
            channel: model.channel,
            page_sectors: model.page_size.0 / SECTOR_BYTES,
            page_read: model.page_read,
            page_program: model.page_program,
            collect: NanoSpan((move_ns * (model.write_amplification - 1.0)).round() as u64),
            read_overhead: model.read_overhead,
            write_overhead: model.write_overhead,
            queue_depth: options.queue_depth.unwrap_or(model.queue_depth).max(1),
            firmware: Server::default(),
            interface: Server::default(),
            channels: vec![Server::default(); model.channels as usize],
            dies: vec![Server::default(); dies],
            running: BinaryHeap::with_capacity(model.queue_depth as usize),
            times: None,
            collected: 1.0 - 1.0 / model.write_amplification,
            arrivals: 0,
            pages_written: 0,
            young,
            waiting: VecDeque::new(),
            done: VecDeque::new(),
        }
    }

    pub(crate) fn follow_times(&mut self) {
        self.times = Some(Box::default());
    }

    pub(crate) fn poll_times(&mut self) -> Option<DriveTimes> {
        self.times.as_mut()?.done.pop_front()
    }

    pub(crate) fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        if self.running.len() < self.queue_depth as usize {
            self.start(now, request);
        } else {
            self.waiting.push_back(request);
        }
    }

    pub(crate) fn poll_deadline(&self) -> Option<Nanos> {
        self.running.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(crate) fn handle_deadline(&mut self, now: Nanos) {
        while let Some(Reverse((_, arrival, id))) =
            self.running.peek().filter(|first| first.0.0 <= now).copied()
        {
            self.running.pop();
            self.done.push_back(DriveCompletion { id });
            if let Some(times) = &mut self.times {
                times.end(arrival);
            }
            if let Some(request) = self.waiting.pop_front() {
                self.start(now, request);
            }
        }
    }

    pub(crate) fn poll_completion(&mut self) -> Option<DriveCompletion> {
        self.done.pop_front()
    }

    /// Notes where the time of the command that begins goes.
    #[inline]
    fn note(&mut self, times: DriveTimes) {
        if let Some(all) = &mut self.times {
            all.running.push((self.arrivals, times));
        }
    }

    /// Works out when `request` is done, taking what it needs of every resource on the way.
    fn start(&mut self, now: Nanos, request: DriveRequest) {
        let at = match request.op {
            DriveOp::Read => self.read(now, request),
            DriveOp::Write { .. } => self.write(now, request),
            DriveOp::Flush => {
                let end = self.firmware.serve(now, self.write_overhead);
                self.note(DriveTimes { front: end - now, ..DriveTimes::default() });
                end
            }
            DriveOp::Trim => unreachable!("only drives with a translation layer are asked to trim"),
        };
        self.running.push(Reverse((at, self.arrivals, request.id)));
        self.arrivals += 1;
    }

    fn read(&mut self, now: Nanos, request: DriveRequest) -> Nanos {
        let decoded = self.firmware.serve(now, self.read_overhead);
        // When the page that comes last is in the buffer, when it was sensed, and how long a channel carries it.
        let mut last = (decoded, decoded, NanoSpan::ZERO);
        self.each_page(request, |drive, page, bytes| {
            let (die, channel) = drive.die_of(page);
            let sensed = drive.dies[die].serve(decoded, drive.page_read);
            let transfer = drive.channel.transfer_time(bytes);
            let carried = drive.channels[channel].serve_when_ready(decoded, sensed, transfer);
            last = last.max((carried, sensed, transfer));
        });
        let (in_buffer, sensed, carrying) = last;
        let transfer = self.link.transfer_time(request.sectors.bytes());
        let sent = self.interface.serve_when_ready(decoded, in_buffer, transfer);
        self.note(DriveTimes {
            dies: self.page_read,
            dies_waiting: (sensed - decoded) - self.page_read,
            channels: carrying,
            channels_waiting: (in_buffer - sensed) - carrying,
            front: (decoded - now) + (sent - in_buffer),
            ..DriveTimes::default()
        });
        sent
    }

    fn write(&mut self, now: Nanos, request: DriveRequest) -> Nanos {
        let decoded = self.firmware.serve(now, self.write_overhead);
        let in_buffer = self.interface.serve(decoded, self.link.transfer_time(request.sectors.bytes()));
        // When the page that comes last is programmed, when its die had it, and how long a channel carried it.
        let mut last = (in_buffer, in_buffer, NanoSpan::ZERO);
        self.each_page(request, |drive, page, bytes| {
            // What is written goes to the end of the log, wherever it was before.
            let (die, channel) = drive.die_of(drive.pages_written);
            let was_young = drive.young.renew(page, drive.pages_written);
            drive.pages_written += 1;
            let transfer = drive.channel.transfer_time(bytes);
            let loaded = drive.channels[channel].serve_when_ready(decoded, in_buffer, transfer);
            let programmed = drive.dies[die].serve_when_ready(decoded, loaded, drive.page_program);
            last = last.max((programmed, loaded, transfer));
            if !was_young {
                let collect = drive.collect;
                drive.dies[die].serve(decoded, collect);
            }
        });
        let (programmed, loaded, carrying) = last;
        // A die that is busy is so with programs, its own and those of garbage collection.
        let waited = (programmed - loaded) - self.page_program;
        let collection = NanoSpan((waited.0 as f64 * self.collected) as u64);
        self.note(DriveTimes {
            dies: self.page_program,
            dies_waiting: waited - collection,
            channels: carrying,
            channels_waiting: (loaded - in_buffer) - carrying,
            collection,
            front: in_buffer - now,
            ..DriveTimes::default()
        });
        programmed
    }

    /// Calls `work` with the drive, and number and bytes of each page that `request` touches.
    fn each_page(&mut self, request: DriveRequest, mut work: impl FnMut(&mut Self, u64, ByteCount)) {
        let end = request.start.0 + request.sectors.0;
        let mut sector = request.start.0;
        while sector < end {
            let page = sector / self.page_sectors;
            let next = ((page + 1) * self.page_sectors).min(end);
            work(self, page, SectorCount(next - sector).bytes());
            sector = next;
        }
    }

    /// The die of a page, and its channel. Neighbouring pages lie on different channels, so that a long transfer uses all
    /// of them.
    fn die_of(&self, page: u64) -> (usize, usize) {
        let die = (page % self.dies.len() as u64) as usize;
        (die, die % self.channels.len())
    }
}
