//! The world of a file server: the order of events, the places of files, and the durations.

use super::nfs::Nfs;
use super::reader::Reader;
use super::spec::{PlacedFile, StreamsOutcome, StreamsSpec, StreamsVolume};
use crate::array::{ArrayPort, SimError};
use crate::queue::{Due, EventQueue};
use raidlab_hardware::Server;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::program::{FileCall, FileId, ProcessTime, Program, ProgramStep};
use raidlab_workload::{DriverIo, IoOp};

/// Blocks of the filesystem.
const BLOCK_BYTES: u64 = 4096;

/// What is due at the host.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A piece of this stream's file has come over the bus.
    Arrived { stream: u32, piece: u32 },
    /// The block of the map that this stream waits for has.
    MapArrived { stream: u32 },
    /// This stream's process runs, the next piece before it.
    Running { stream: u32 },
    /// This stream has copied a piece.
    Copied { stream: u32 },
    /// A call has come to the server.
    CallArrived { call: u32 },
    /// Pages of this stream's file have come to the server's memory.
    PagesArrived { stream: u32, first: u32, pages: u32 },
    /// A thread that waited for one of them goes on.
    CallWoken { call: u32 },
    /// A thread of the server has taken it in.
    CallDecoded { call: u32 },
    /// A thread has sent the answer.
    CallSent { call: u32 },
    /// The answer is at the client.
    CallAnswered { call: u32 },
}

/// A request to a volume.
#[derive(Clone, Copy, Debug)]
struct Request {
    event: Event,
    bytes: u64,
}

/// What is left of a window that a process asks for.
#[derive(Clone, Copy, Debug)]
struct Asking {
    left: u64,
    /// Whether that is all of it.
    starts_window: bool,
    /// Whether the process was about to copy a piece.
    then_copies: bool,
}

/// A process and its file.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// What is asked of the volume, of readers on the server.
    reader: Reader,
    pub(super) file: usize,
    /// What its process asks for next when the block of the map has come that it sleeps for.
    asking: Option<Asking>,
    /// Pages of its next window but for one.
    ahead_pages: u64,
    /// The part of the file whose place is known from the map, from its start.
    mapped: u64,
    /// Bytes that the call under way wants; none if there is no such call.
    wants: u64,
    /// Bytes of the file that are copied, and that calls have returned.
    copied: u64,
    returned: u64,
    cpu: NanoSpan,
}

/// Everything that happens in one simulation.
#[derive(Debug)]
pub(super) struct World<'a, P> {
    pub(super) spec: &'a StreamsSpec,
    program: &'a mut P,
    ports: Vec<ArrayPort<'a>>,
    pub(super) queue: EventQueue<Event>,
    bus: Server,
    bus_taken: NanoSpan,
    processors: Vec<Server>,
    processors_taken: NanoSpan,
    pub(super) streams: Vec<Stream>,
    running: u32,
    requests: Vec<Request>,
    free_slots: Vec<u32>,
    sent: u64,
    pub(super) nfs: Option<Nfs<'a>>,
}

impl<'a, P: Program> World<'a, P> {
    pub(super) fn new(
        spec: &'a StreamsSpec,
        ports: Vec<ArrayPort<'a>>,
        program: &'a mut P,
    ) -> Result<Self, SimError> {
        for file in &spec.files {
            let room = room_of(&spec.volumes[usize::from(file.volume)], &ports);
            let needed = file.start + needed_by(spec, file);
            if needed > room {
                return Err(SimError::RegionTooLarge { region: needed, volume: room });
            }
        }
        let count = program.process_count();
        Ok(Self {
            spec,
            ports,
            queue: EventQueue::new(0),
            bus: Server::default(),
            bus_taken: NanoSpan::ZERO,
            processors: vec![Server::default(); spec.server.processors as usize],
            processors_taken: NanoSpan::ZERO,
            program,
            streams: (0..count).map(|_| Stream::default()).collect(),
            running: count,
            requests: Vec::new(),
            free_slots: Vec::new(),
            sent: 0,
            nfs: spec.nfs.as_ref().map(|nfs| Nfs::new(nfs, count, spec.volumes.len())),
        })
    }

    /// Runs until all processes have finished. `seed` is for the message only.
    pub(super) fn run(&mut self, seed: u64) -> Result<(), SimError> {
        for stream in 0..self.streams.len() as u32 {
            self.poll_process(Nanos::ZERO, stream);
        }
        while self.running > 0 {
            let ports = self.ports.iter().enumerate();
            let port = ports.filter_map(|(number, port)| Some((port.next_at()?, number))).min();
            match (self.queue.next_at(), port) {
                (Some(at), port) if port.is_none_or(|(other, _)| at <= other) => {
                    if let Some((now, Due::Event(event))) = self.queue.pop() {
                        self.handle(now, event);
                    }
                }
                (_, Some((at, port))) => {
                    self.ports[port].handle_next();
                    self.take_answers(at, port);
                }
                (_, None) => return Err(SimError::Stalled { at: self.queue.now(), seed }),
            }
        }
        Ok(())
    }

    fn handle(&mut self, now: Nanos, event: Event) {
        match event {
            Event::Arrived { stream, piece } => {
                self.streams[stream as usize].reader.arrive(piece);
                self.try_to_copy(now, stream);
            }
            Event::MapArrived { stream } if self.nfs.is_some() => self.map_arrived_at_server(now, stream),
            Event::PagesArrived { stream, first, pages } => self.pages_arrived(now, stream, first, pages),
            Event::CallWoken { call } => self.read_on(now, call),
            Event::MapArrived { stream } => {
                let at = &mut self.streams[stream as usize];
                at.mapped += self.spec.map_every.map_or(0, |every| every.0);
                let asking = at.asking.take().expect("it was asked for on the way through a window");
                self.ask_on(now, stream, asking);
            }
            Event::Running { stream } => self.copy(now, stream),
            Event::Copied { stream } => self.copied(now, stream),
            Event::CallArrived { call } => self.call_arrived(now, call),
            Event::CallDecoded { call } => self.call_decoded(now, call),
            Event::CallSent { call } => self.call_sent(now, call),
            Event::CallAnswered { call } => self.call_answered(now, call),
        }
    }

    // Processes.

    /// Lets a process call until it waits for something.
    fn poll_process(&mut self, now: Nanos, stream: u32) {
        loop {
            let time = ProcessTime { now, cpu: self.streams[stream as usize].cpu };
            let ProgramStep::Call(call) = self.program.poll_step(stream, time) else {
                self.running -= 1;
                return;
            };
            let moved = match call {
                FileCall::Open { file, .. } => {
                    self.open(now, stream, file);
                    0
                }
                FileCall::Read { bytes, .. } => match self.read(now, stream, bytes) {
                    Some(moved) => moved,
                    None => return,
                },
                FileCall::Close { .. } => 0,
                other => unreachable!("programs of this world read: {other:?}"),
            };
            self.program.handle_return(stream, time, moved);
        }
    }

    fn open(&mut self, now: Nanos, stream: u32, FileId(file): FileId) {
        let at = &mut self.streams[stream as usize];
        (at.file, at.mapped, at.copied, at.returned) = (file as usize, 0, 0, 0);
        let bytes = self.spec.files[at.file].bytes.0;
        at.reader.begin(bytes);
        if self.nfs.is_some() {
            self.begin_on_client(now, stream, bytes);
        }
    }

    /// Begins a read. Returns what it moves if that is copied already.
    fn read(&mut self, now: Nanos, stream: u32, bytes: u64) -> Option<u64> {
        if self.nfs.is_none() && self.streams[stream as usize].reader.asked() == 0 {
            // The first window covers the read (`do_generic_file_read`: `needed`).
            self.streams[stream as usize].ahead_pages = bytes / BLOCK_BYTES + 1;
            self.ask_for_window(now, stream, false);
        }
        let at = &mut self.streams[stream as usize];
        let wants = bytes.min(self.spec.files[at.file].bytes.0 - at.returned);
        if at.copied - at.returned < wants {
            at.wants = wants;
            return None;
        }
        at.returned += wants;
        Some(wants)
    }

    fn copied(&mut self, now: Nanos, stream: u32) {
        let bytes = self.end_copy(stream);
        let at = &mut self.streams[stream as usize];
        at.copied += bytes;
        if at.wants > 0 && at.copied - at.returned >= at.wants {
            let moved = core::mem::take(&mut at.wants);
            at.returned += moved;
            let time = ProcessTime { now, cpu: at.cpu };
            self.program.handle_return(stream, time, moved);
            self.poll_process(now, stream);
        }
        self.try_to_copy(now, stream);
    }

    /// Ends a copy and returns its length.
    fn end_copy(&mut self, stream: u32) -> u64 {
        let reader = match &mut self.nfs {
            Some(nfs) => nfs.client_reader(stream),
            None => &mut self.streams[stream as usize].reader,
        };
        reader.end_copy()
    }

    /// Lets a process run if its next piece is there: interrupt, switch and the look into the page cache come first.
    pub(super) fn try_to_copy(&mut self, now: Nanos, stream: u32) {
        let at = &mut self.streams[stream as usize];
        if at.asking.is_some() {
            return;
        }
        let reader = match &mut self.nfs {
            Some(nfs) => nfs.client_reader(stream),
            None => &mut at.reader,
        };
        if !reader.begin_copy() {
            return;
        }
        if self.nfs.is_some() {
            // The client's time is charged to its calls.
            self.queue.push(now, Event::Running { stream });
            return;
        }
        let end = self.work(now, self.spec.server.per_request);
        self.queue.push(end, Event::Running { stream });
    }

    fn copy(&mut self, now: Nanos, stream: u32) {
        if self.nfs.is_some() {
            return self.copy_on_client(now, stream);
        }
        let (_, asks) = self.streams[stream as usize].reader.copying();
        if asks {
            return self.ask_for_window(now, stream, true);
        }
        self.copy_piece(now, stream);
    }

    fn copy_piece(&mut self, now: Nanos, stream: u32) {
        let (bytes, _) = self.streams[stream as usize].reader.copying();
        let span = self.spec.server.copy.time_for(ByteCount(u64::from(bytes)));
        self.streams[stream as usize].cpu += span + self.spec.server.per_request;
        let end = self.work(now, span);
        self.queue.push(end, Event::Copied { stream });
    }

    /// Gives work to the processor that is free first; returns when it is done.
    pub(super) fn work(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        self.processors_taken += span;
        let processor = self.processors.iter_mut().min_by_key(|processor| processor.busy_until());
        processor.expect("the catalogue has at least one").serve(now, span)
    }

    /// The volume of a stream's file.
    pub(super) fn volume_of(&self, stream: u32) -> u16 {
        self.spec.files[self.streams[stream as usize].file].volume
    }

    // Asking.

    /// Lets a process ask for its next window, and then copy if it was about to. Windows double up to the longest.
    fn ask_for_window(&mut self, now: Nanos, stream: u32, then_copies: bool) {
        let most = self.ahead_pages_max(stream);
        let at = &mut self.streams[stream as usize];
        let pages = at.ahead_pages.min(most) + 1;
        at.ahead_pages = (2 * at.ahead_pages).min(most);
        let left = (pages * BLOCK_BYTES).min(at.reader.left());
        self.ask_on(now, stream, Asking { left, starts_window: true, then_copies });
    }

    /// The pages of the longest window of a stream's file but for one.
    fn ahead_pages_max(&self, stream: u32) -> u64 {
        let volume = &self.spec.volumes[usize::from(self.volume_of(stream))];
        let parts = volume.parts.len() as u64;
        if parts == 1 {
            return self.spec.server.read_ahead.0 / BLOCK_BYTES - 1;
        }
        volume.chunk.0 / BLOCK_BYTES * parts * u64::from(self.spec.server.stripe_window_chunks)
    }

    /// Asks for a window as far as the map is known; where it is not, the process sleeps until its next block has come.
    fn ask_on(&mut self, now: Nanos, stream: u32, mut asking: Asking) {
        while asking.left > 0 {
            let at = &mut self.streams[stream as usize];
            let asked = at.reader.asked();
            let known = self.spec.map_every.map_or(u64::MAX, |_| at.mapped - asked);
            if known == 0 {
                at.asking = Some(asking);
                return self.ask_for_map_at(now, stream, asked);
            }
            let (part, offset, in_one) = self.part_of(stream, asked);
            let bytes = asking.left.min(known).min(in_one).min(self.spec.server.request_max.0);
            let starts_window = core::mem::take(&mut asking.starts_window);
            let piece = self.streams[stream as usize].reader.ask(bytes as u32, starts_window);
            // The last page of a file is read whole.
            let whole = bytes.next_multiple_of(BLOCK_BYTES);
            self.send(now, part, offset, whole, Event::Arrived { stream, piece });
            asking.left -= bytes;
        }
        if asking.then_copies {
            self.copy_piece(now, stream);
        } else {
            self.try_to_copy(now, stream);
        }
    }

    /// Asks for the block of the map that is for the data at `position`.
    pub(super) fn ask_for_map_at(&mut self, now: Nanos, stream: u32, position: u64) {
        let file = self.placed_file(stream);
        let place = match (file.map, self.spec.map_every) {
            (Some(first), Some(every)) => first.0 + position / every.0 * BLOCK_BYTES,
            _ => self.place_of(file, position).saturating_sub(BLOCK_BYTES),
        };
        let (part, offset, _) = self.part_at(file.volume, place);
        self.send(now, part, offset, BLOCK_BYTES, Event::MapArrived { stream });
    }

    fn placed_file(&self, stream: u32) -> &'a PlacedFile {
        &self.spec.files[self.streams[stream as usize].file]
    }

    /// Where a byte of a file stands on its volume. Blocks of the map stand between the data, unless they stand apart.
    fn place_of(&self, file: &PlacedFile, position: u64) -> u64 {
        let between = self.spec.map_every.filter(|_| file.map.is_none());
        let maps = between.map_or(0, |every| position / every.0 + 1);
        file.start.0 + position + maps * BLOCK_BYTES
    }

    /// The enclosure's volume that holds this byte of a stream's file, the byte of that, and how many from there on are in one
    /// piece.
    pub(super) fn part_of(&self, stream: u32, position: u64) -> ((u16, u16), u64, u64) {
        let file = self.placed_file(stream);
        self.part_at(file.volume, self.place_of(file, position))
    }

    /// The same for a byte of a volume.
    fn part_at(&self, volume: u16, place: u64) -> ((u16, u16), u64, u64) {
        let StreamsVolume { parts, chunk } = &self.spec.volumes[usize::from(volume)];
        let (count, chunk) = (parts.len() as u64, chunk.0);
        if count == 1 {
            return (parts[0], place, u64::MAX);
        }
        let (number, within) = (place / chunk, place % chunk);
        (parts[(number % count) as usize], number / count * chunk + within, chunk - within)
    }

    pub(super) fn send(
        &mut self,
        now: Nanos,
        (port, volume): (u16, u16),
        offset: u64,
        bytes: u64,
        event: Event,
    ) {
        let request = Request { event, bytes };
        let slot = self.free_slots.pop().unwrap_or(self.requests.len() as u32);
        if slot as usize == self.requests.len() {
            self.requests.push(request);
        }
        self.requests[slot as usize] = request;
        self.sent += 1;
        let io = DriverIo { slot, op: IoOp::Read, offset_bytes: offset, bytes: bytes as u32 };
        self.ports[usize::from(port)].handle_request(now, volume, io);
        self.take_answers(now, usize::from(port));
    }

    // Answers.

    /// Takes what a controller has answered over the bus. The controller sends data on while it comes in, so that an idle
    /// bus adds nothing; a busy one delays it.
    fn take_answers(&mut self, now: Nanos, port: usize) {
        while let Some((_, slot)) = self.ports[port].poll_answer() {
            let Request { event, bytes } = self.requests[slot as usize];
            self.free_slots.push(slot);
            let span = self.spec.server.bus.transfer_time(ByteCount(bytes));
            self.bus_taken += span;
            let began = Nanos(now.0.saturating_sub(span.0));
            let end = self.bus.serve(began, span).max(now);
            self.queue.push(end, event);
        }
    }

    pub(super) fn outcome(&self) -> StreamsOutcome {
        let time = self.queue.now() - Nanos::ZERO;
        let share = |span: NanoSpan| span.as_secs_f64() / time.as_secs_f64();
        StreamsOutcome {
            virtual_time: time,
            bus: share(self.bus_taken),
            processors: share(self.processors_taken) / self.processors.len() as f64,
            client: self.nfs.as_ref().map_or(0.0, |nfs| share(nfs.client_taken())),
            requests: self.sent,
        }
    }
}

/// Room of a volume: whole chunks on each of its parts.
fn room_of(volume: &StreamsVolume, ports: &[ArrayPort<'_>]) -> ByteCount {
    let parts = volume.parts.iter().map(|(port, part)| ports[usize::from(*port)].volume_bytes(*part).0);
    let chunks = parts.min().unwrap_or(0) / volume.chunk.0;
    ByteCount(chunks * volume.chunk.0 * volume.parts.len() as u64)
}

/// Room that a file takes, the blocks of its map included if they stand between its data.
fn needed_by(spec: &StreamsSpec, file: &PlacedFile) -> ByteCount {
    let between = spec.map_every.filter(|_| file.map.is_none());
    let maps = between.map_or(0, |every| file.bytes.0 / every.0 + 1);
    ByteCount(file.bytes.0.next_multiple_of(BLOCK_BYTES) + maps * BLOCK_BYTES)
}
