//! The world of a host: the order of events, the use of processor time, and the path of requests to volumes and back.

use super::cache::{InodeId, PageCache, Run};
use super::commit::Commits;
use super::elevator::{Elevator, Next, Request};
use super::process::Process;
use super::spec::{FilesOutcome, SimulatedHost};
use crate::array::{ArrayPort, HostIo, SimError, SimulatedEnclosure};
use crate::queue::{Due, EventQueue};
use raidlab_controller::{Counters, HostOp, MemberCache};
use raidlab_hardware::{DriverCost, FilesystemModel, JournalMode, PAGE_BYTES, Server};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::program::Program;
use raidlab_workload::{DriverIo, IoOp};

/// What is due at the host.
#[derive(Clone, Copy, Debug)]
pub(super) enum HostEvent {
    /// The processor has done a call of this process, or it has slept enough.
    CallDone(u32),
    /// The kernel looks for files that have been dirty for long.
    FlushTick,
    /// The journal of this volume is committed.
    Commit(u16),
}

/// A volume of the host.
#[derive(Debug)]
pub(super) struct Volume<'a> {
    pub(super) filesystem: &'a FilesystemModel,
    port: usize,
    number: u16,
    block_bytes: u64,
    pub(super) driver: DriverCost,
    pub(super) elevator: Elevator,
    /// Requests at the volume, by slot.
    sent: Vec<Option<Sent>>,
    free_slots: Vec<u32>,
    /// Whether drives may lose what they have acknowledged, so that the kernel flushes them.
    pub(super) is_volatile: bool,
    /// Where the next run goes that is copied on write, in units of the page cache; it goes round from `free_end` to `free_start`.
    free_next: u32,
    free_start: u32,
    free_end: u32,
    pub(super) commits: Commits,
    /// Bytes of new data since the last commit.
    pub(super) new_bytes: u64,
}

/// A request at a volume.
#[derive(Clone, Copy, Debug)]
enum Sent {
    /// From the volume's queue.
    Queued(Request),
    /// Past it.
    Own(Whose),
}

/// Who waits for a request that goes past the queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Whose {
    /// This process.
    Process(u32),
    /// The commit of the volume's journal.
    Commit,
}

/// Everything that happens in one simulation.
#[derive(Debug)]
pub(super) struct FileWorld<'a, P> {
    pub(super) spec: &'a SimulatedHost,
    pub(super) program: &'a mut P,
    pub(super) queue: EventQueue<HostEvent>,
    ports: Vec<ArrayPort<'a>>,
    pub(super) volumes: Vec<Volume<'a>>,
    pub(super) cache: PageCache,
    /// The contents of each file of the program.
    pub(super) inodes: Vec<InodeId>,
    pub(super) processes: Vec<Process>,
    /// Processes that have not finished.
    pub(super) running: u32,
    /// Processes that wait for memory.
    pub(super) starved: u32,
    cpus: Vec<Server>,
    /// Memory of a host with sockets, which all copies pass.
    memory: Server,
    cpu: NanoSpan,
    pub(super) calls: u64,
    requests: [u64; 2],
    bytes: [u64; 2],
    /// Runs that a reclaim wants written.
    pub(super) outgoing: Vec<Run>,
    ended: Nanos,
}

impl<'a, P: Program> FileWorld<'a, P> {
    pub(super) fn new(
        spec: &'a SimulatedHost,
        program: &'a mut P,
        ports: Vec<ArrayPort<'a>>,
        (bases, used): (&[u64], &[u64]),
    ) -> Self {
        let (all, low) = spec.host.page_memory();
        let units = |bytes: u64| (bytes / spec.unit.0).min(u64::from(u32::MAX / 4)) as u32;
        let (low, all) = (units(low.0), units(all.0));
        let mut cache =
            PageCache::new(low.min(all).max(1), all.saturating_sub(low), (spec.unit.0 / PAGE_BYTES) as u32);
        let files = spec.files.iter().zip(bases);
        let inodes =
            files.map(|(file, base)| cache.add_inode(file.volume as u16, *base, file.bytes.0)).collect();
        let unit = spec.unit.0;
        let units_in = |bytes: u64| (bytes / unit).min(u64::from(u32::MAX / 2)) as u32;
        let volumes: Vec<Volume<'_>> = spec
            .volumes
            .iter()
            .zip(used)
            .map(|(volume, used)| Volume {
                filesystem: &volume.filesystem,
                port: volume.enclosure,
                number: volume.volume,
                block_bytes: ports[volume.enclosure].block_bytes(volume.volume),
                driver: spec.enclosures[volume.enclosure].controller.host_driver.unwrap_or_default(),
                elevator: Elevator::new(&spec.host.kernel),
                sent: Vec::new(),
                free_slots: Vec::new(),
                is_volatile: is_volatile(&spec.enclosures[volume.enclosure], volume.volume),
                free_next: units_in(*used),
                free_start: units_in(*used),
                free_end: units_in(
                    volume.filesystem.room_in(ports[volume.enclosure].volume_bytes(volume.volume)).0,
                ),
                commits: Commits::default(),
                new_bytes: 0,
            })
            .collect();
        let processes = program.process_count();
        Self {
            spec,
            program,
            // A deadline for each volume, the end of anticipation, and one for the program.
            queue: EventQueue::new(volumes.len() as u32 + 1),
            ports,
            volumes,
            cache,
            inodes,
            processes: (0..processes).map(|_| Process::new(spec.files.len())).collect(),
            running: processes,
            starved: 0,
            memory: Server::default(),
            cpus: vec![Server::default(); spec.host.processors as usize],
            cpu: NanoSpan::ZERO,
            calls: 0,
            requests: [0; 2],
            bytes: [0; 2],
            outgoing: Vec::new(),
            ended: Nanos::ZERO,
        }
    }

    /// Runs until all processes have finished. `seed` is for the message only.
    pub(super) fn run(&mut self, seed: u64) -> Result<(), SimError> {
        let kernel = &self.spec.host.kernel;
        self.queue.push(Nanos::ZERO + kernel.flush_interval, HostEvent::FlushTick);
        for (index, volume) in (0..).zip(&self.spec.volumes) {
            if volume.filesystem.journal != JournalMode::None {
                self.queue.push(Nanos::ZERO + volume.filesystem.commit_interval, HostEvent::Commit(index));
            }
        }
        self.poll_all(Nanos::ZERO);
        while self.running > 0 {
            let ports = self.ports.iter().enumerate();
            let earliest = ports.filter_map(|(index, port)| Some((port.next_at()?, index))).min();
            let host = self.queue.next_at().expect("the flusher always comes back");
            match earliest {
                Some((at, index)) if at < host => self.handle_port(at, index),
                _ => self.handle_host(),
            }
            if self.is_stuck() {
                return Err(SimError::Stalled { at: self.queue.now(), seed });
            }
        }
        Ok(())
    }

    /// Whether processes wait and only the flusher's clock ticks, for longer than anything takes.
    fn is_stuck(&self) -> bool {
        const PATIENCE: NanoSpan = NanoSpan::from_secs(3_600);
        self.queue.now() > self.ended + PATIENCE
    }

    fn handle_host(&mut self) {
        let Some((now, due)) = self.queue.pop() else { return };
        match due {
            Due::Event(HostEvent::CallDone(process)) => {
                self.ended = now;
                self.call_done(now, process);
            }
            Due::Event(HostEvent::FlushTick) => {
                self.flush_tick(now);
                self.queue.push(now + self.spec.host.kernel.flush_interval, HostEvent::FlushTick);
            }
            Due::Event(HostEvent::Commit(volume)) => {
                self.commit(now, volume);
                let interval = self.volumes[usize::from(volume)].filesystem.commit_interval;
                self.queue.push(now + interval, HostEvent::Commit(volume));
            }
            Due::Deadline(slot) if slot as usize == self.volumes.len() => {
                self.ended = now;
                self.poll_all(now);
            }
            Due::Deadline(volume) => self.send(now, volume as u16),
        }
    }

    fn handle_port(&mut self, now: Nanos, index: usize) {
        self.queue.advance_to(now);
        self.ports[index].handle_next();
        self.take_answers(now, index);
    }

    fn take_answers(&mut self, now: Nanos, index: usize) {
        while let Some((number, slot)) = self.ports[index].poll_answer() {
            let volume = self.volumes.iter().position(|it| it.port == index && it.number == number);
            let volume = volume.expect("only volumes of this host are asked");
            self.request_ended(now, volume as u16, slot);
        }
    }

    /// Takes what a volume may have answered at once.
    pub(super) fn take_answers_of(&mut self, now: Nanos, volume: u16) {
        self.take_answers(now, self.volumes[usize::from(volume)].port);
    }

    // Processor time.

    /// Takes a processor for `span`, the one that is free first, and returns when it has done it.
    pub(super) fn take_cpu(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        self.cpu += span;
        let cpu = self.cpus.iter_mut().min_by_key(|cpu| cpu.busy_until());
        cpu.expect("a host has a processor").serve(now, span)
    }

    /// Copies `bytes` to or from a program: each is read and written in memory. Returns when they have passed that.
    pub(super) fn pass_memory(&mut self, now: Nanos, bytes: u64) -> Nanos {
        let Some(sockets) = &self.spec.host.sockets else { return now };
        let span = sockets.memory_rate_of_all().time_for(ByteCount(2 * bytes));
        self.memory.serve(now, span)
    }

    // Requests.

    /// Puts the run of a file into the queue of its volume, in as many requests as it takes.
    pub(super) fn enqueue(&mut self, now: Nanos, run: Run, is_write: bool) {
        let volume = self.cache.inode(run.inode).volume;
        if is_write {
            self.copy_on_write(run);
        }
        let unit = self.spec.unit.0;
        let (mut first, end) = (run.first, run.first + run.units);
        while first < end {
            let part = Run { inode: run.inode, first, units: end - first };
            let (offset, units) = self.piece_of(part);
            let part = Run { units, ..part };
            let request = Request { run: Some(part), is_write, offset, bytes: u64::from(units) * unit };
            self.volumes[usize::from(volume)].elevator.add(now, request);
            first += units;
        }
        self.send(now, volume);
    }

    /// Where the first units of a run are on their volume, and how many of them one request moves.
    fn piece_of(&self, run: Run) -> (u64, u32) {
        let inode = self.cache.inode(run.inode);
        let (unit, most) = (self.spec.unit.0, self.spec.host.kernel.request_max.0);
        let (position, together) = inode.position_of(run.first, run.units, unit);
        let (offset, room) = self.volumes[usize::from(inode.volume)].filesystem.place_of(position);
        // A unit that metadata cuts in two counts as being before it.
        let whole = (room.min(most) / unit).max(1).min(u64::from(together));
        (offset, whole as u32)
    }

    /// Gives a run that is about to be written a new place, where the filesystem copies on write.
    fn copy_on_write(&mut self, run: Run) {
        let inode = self.cache.inode_mut(run.inode);
        let volume = &mut self.volumes[usize::from(inode.volume)];
        if !volume.filesystem.copy_on_write || volume.free_end - volume.free_start < run.units {
            return;
        }
        if volume.free_end - volume.free_next < run.units {
            volume.free_next = volume.free_start;
        }
        inode.move_units(run.first, run.units, volume.free_next);
        volume.free_next += run.units;
    }

    /// Reads or writes a run past cache and queue for `process`. Returns how many requests that takes.
    pub(super) fn send_direct(&mut self, now: Nanos, process: u32, (run, is_write): (Run, bool)) -> u32 {
        let volume = self.cache.inode(run.inode).volume;
        if is_write {
            self.copy_on_write(run);
        }
        let op = if is_write { HostOp::Write { fua: false } } else { HostOp::Read };
        let (mut first, end, mut requests) = (run.first, run.first + run.units, 0);
        while first < end {
            let (offset, units) = self.piece_of(Run { first, units: end - first, ..run });
            let bytes = u64::from(units) * self.spec.unit.0;
            self.send_own(now, volume, (op, offset, bytes), Whose::Process(process));
            (first, requests) = (first + units, requests + 1);
        }
        requests
    }

    /// Sends a request past the queue.
    pub(super) fn send_own(
        &mut self,
        now: Nanos,
        volume: u16,
        (op, offset, bytes): (HostOp, u64, u64),
        whose: Whose,
    ) {
        if let Some(kind) = match op {
            HostOp::Read => Some(0),
            HostOp::Write { .. } => Some(1),
            HostOp::Flush | HostOp::Discard => None,
        } {
            self.requests[kind] += 1;
            self.bytes[kind] += bytes;
        }
        let this = &mut self.volumes[usize::from(volume)];
        let slot = this.take_slot(Sent::Own(whose));
        let block = this.block_bytes;
        let offset_bytes = offset / block * block;
        let io = HostIo { slot, op, offset_bytes, bytes: bytes.next_multiple_of(block) as u32 };
        self.ports[this.port].handle_host_io(now, this.number, io);
    }

    /// Sends what the volume has room for.
    pub(super) fn send(&mut self, now: Nanos, volume: u16) {
        let kernel = &self.spec.host.kernel;
        let wake = loop {
            let this = &mut self.volumes[usize::from(volume)];
            match this.elevator.poll(now, kernel) {
                Next::Send(request) => {
                    let slot = this.take_slot(Sent::Queued(request));
                    let (op, kind) = if request.is_write { (IoOp::Write, 1) } else { (IoOp::Read, 0) };
                    self.requests[kind] += 1;
                    self.bytes[kind] += request.bytes;
                    let block = this.block_bytes;
                    let io = DriverIo {
                        slot,
                        op,
                        offset_bytes: request.offset / block * block,
                        bytes: request.bytes.next_multiple_of(block) as u32,
                    };
                    self.ports[this.port].handle_request(now, this.number, io);
                }
                Next::WaitUntil(at) => break Some(at),
                Next::Nothing => break None,
            }
        };
        self.queue.set_deadline(u32::from(volume), wake);
        // A controller may have answered at once.
        let port = self.volumes[usize::from(volume)].port;
        self.take_answers(now, port);
    }

    fn request_ended(&mut self, now: Nanos, volume: u16, slot: u32) {
        let this = &mut self.volumes[usize::from(volume)];
        let sent = this.sent[slot as usize].take().expect("it was sent");
        this.free_slots.push(slot);
        let request = match sent {
            Sent::Queued(request) => request,
            Sent::Own(Whose::Process(process)) => return self.own_ended(now, process),
            Sent::Own(Whose::Commit) => return self.commit_goes_on(now, volume),
        };
        this.elevator.handle_end(now, request.is_write, &self.spec.host.kernel);
        if let Some(run) = request.run {
            if request.is_write {
                self.cache.end_write(run);
                self.flush(now, volume);
                self.written(now);
            } else {
                self.cache.end_read(run);
                self.read_ended(now, run);
            }
        }
        self.send(now, volume);
    }

    pub(super) fn outcome(&self) -> FilesOutcome {
        let mut counters = Counters::default();
        self.ports.iter().for_each(|port| counters.merge(&port.counters()));
        FilesOutcome {
            virtual_time: self.ended - Nanos::ZERO,
            calls: self.calls,
            requests: self.requests,
            bytes: self.bytes,
            cpu: self.cpu,
            counters,
        }
    }
}

impl Volume<'_> {
    /// A slot for a request that goes to the volume.
    fn take_slot(&mut self, sent: Sent) -> u32 {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.sent.push(None);
            self.sent.len() as u32 - 1
        });
        self.sent[slot as usize] = Some(sent);
        slot
    }
}

/// Whether the kernel has to flush a volume: software RAID and plain adapters say what their drives say. What a controller with
/// a cache of its own does with a flush, it knows itself.
fn is_volatile(enclosure: &SimulatedEnclosure, volume: u16) -> bool {
    let volume = &enclosure.volumes[usize::from(volume)];
    let drives =
        volume.config.member_cache == MemberCache::On && volume.drive.volatile_cache() > ByteCount::ZERO;
    drives || volume.config.cache.size > ByteCount::ZERO
}
