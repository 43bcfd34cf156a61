//! Calls of NFS clients: the waits between a client's window and the server's volumes.
//!
//! ```text
//!  client                                      server
//!  window ─► calls ─► [`Mount`] ──────────────► waiting calls ─► nfsd threads ─► file: there? ─► volume
//!    ▲                                                               │ thread is held until the data is sent
//!    └─ copy ◄─ [the reader's processor: packets, call] ◄═══ wire ◄═══ packets ◄──┘
//! ```
//! A thread goes through the pages of its call, requests those that nobody has requested, and waits for each that is
//! under way. What it requests before it waits goes to the volume in as few requests as possible. How far it reads
//! ahead is decided by the kernel ([`ReadAhead`]); the server remembers that state between calls for a few files, the
//! most recently used ones. A call takes the state when it begins and stores it when it ends, so parallel calls for one
//! file mostly read as if it were forgotten.
//!
//! Left out: lost fragments, other calls than READ, pages that are evicted before they were read.
//! Source: Linux 2.4.18, `fs/nfsd/vfs.c` (`nfsd_get_raparms`), `fs/nfs/read.c`, `net/sunrpc/xprt.c`.

use super::mount::Mount;
use super::readahead::{PAGE_BYTES, ReadAhead};
use super::reader::Reader;
use super::spec::NfsSpec;
use super::world::{Event, World};
use core::ops::Range;
use raidlab_hardware::{Server, Transport};
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::program::Program;
use std::collections::VecDeque;

/// A READ under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    stream: u32,
    /// The client's piece.
    piece: u32,
    bytes: u32,
    /// The next page that its thread comes to, and the first that is not asked for.
    page: u64,
    end: u64,
    /// What its thread knows of the file's reader, and whether this call is in order.
    known: ReadAhead,
    in_order: bool,
}

/// A page, or a block of the map, at the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Presence {
    #[default]
    Absent,
    Coming,
    There,
}

/// A file at the server.
#[derive(Clone, Debug, Default)]
struct ServedFile {
    pages: Vec<Presence>,
    /// Blocks of its map.
    maps: Vec<Presence>,
    /// Runs of pages that wait for a block of the map.
    unmapped: Vec<Range<u64>>,
    /// Calls that wait for the page that they came to.
    parked: Vec<u32>,
}

/// What is remembered of a file between calls.
#[derive(Clone, Copy, Debug)]
struct Remembered {
    file: usize,
    /// Calls that are at work with it, which keep it from being replaced.
    calls: u32,
    known: ReadAhead,
}

/// Client and server.
#[derive(Debug)]
pub(super) struct Nfs<'a> {
    pub(super) spec: &'a NfsSpec,
    calls: Vec<Call>,
    free: Vec<u32>,
    /// The client's side of each volume.
    mounts: Vec<Mount>,
    free_threads: u32,
    waiting: VecDeque<u32>,
    files: Vec<ServedFile>,
    /// The clients' sides of the files.
    readers: Vec<Reader>,
    /// What is remembered, of the file called for last at the end.
    remembered: Vec<Remembered>,
    /// Runs of pages that a call has asked for and not sent yet.
    plugged: Vec<Range<u64>>,
    /// Calls that go on, as long as that takes.
    woken: Vec<u32>,
    wire: Server,
    /// The client's processors; each reader keeps to one of them.
    client: Vec<Server>,
    client_taken: NanoSpan,
}

impl<'a> Nfs<'a> {
    pub(super) fn new(spec: &'a NfsSpec, streams: u32, volumes: usize) -> Self {
        Self {
            spec,
            calls: Vec::new(),
            free: Vec::new(),
            mounts: (0..volumes).map(|_| Mount::new(&spec.server, spec.transport)).collect(),
            free_threads: spec.server.threads,
            waiting: VecDeque::new(),
            files: vec![ServedFile::default(); streams as usize],
            readers: vec![Reader::default(); streams as usize],
            remembered: Vec::new(),
            plugged: Vec::new(),
            woken: Vec::new(),
            wire: Server::default(),
            client: vec![Server::default(); spec.server.client_processors as usize],
            client_taken: NanoSpan::ZERO,
        }
    }

    /// What a client has asked for of its file.
    pub(super) fn client_reader(&mut self, stream: u32) -> &mut Reader {
        &mut self.readers[stream as usize]
    }

    /// Time that each of the client's processors was busy with calls, on average.
    pub(super) fn client_taken(&self) -> NanoSpan {
        self.client_taken / self.client.len() as u64
    }

    fn put(&mut self, call: Call) -> u32 {
        let number = self.free.pop().unwrap_or(self.calls.len() as u32);
        if number as usize == self.calls.len() {
            self.calls.push(call);
        }
        self.calls[number as usize] = call;
        number
    }

    /// What is remembered of `file`, with a place for what will be if none is there and one can be had.
    fn recall(&mut self, file: usize) -> ReadAhead {
        let found = self.remembered.iter().position(|other| other.file == file);
        let mut entry = Remembered { file, calls: 0, known: ReadAhead::default() };
        if let Some(place) = found {
            entry = self.remembered.remove(place);
        } else if self.remembered.len() >= self.spec.server.remembered_files as usize {
            let Some(idle) = self.remembered.iter().position(|other| other.calls == 0) else {
                return entry.known;
            };
            self.remembered.remove(idle);
        }
        entry.calls += 1;
        self.remembered.push(entry);
        entry.known
    }

    /// Notes what a call knows of `file` when it ends.
    fn note(&mut self, file: usize, known: ReadAhead) {
        if let Some(entry) = self.remembered.iter_mut().find(|other| other.file == file && other.calls > 0) {
            entry.calls -= 1;
            entry.known = known;
        }
    }

    fn packets(&self, bytes: u32) -> u64 {
        self.spec.network.reply_packets(ByteCount(u64::from(bytes)), self.spec.mtu, self.spec.transport)
    }
}

/// What the methods below are for.
const HAS_CLIENT: &str = "calls come from clients";

impl<P: Program> World<'_, P> {
    // The client.

    /// Begins a file.
    pub(super) fn begin_on_client(&mut self, now: Nanos, stream: u32, bytes: u64) {
        let maps = self.spec.map_every.map_or(0, |every| bytes.div_ceil(every.0));
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let file = &mut nfs.files[stream as usize];
        file.pages.clear();
        file.pages.resize(bytes.div_ceil(PAGE_BYTES) as usize, Presence::Absent);
        file.maps.clear();
        file.maps.resize(maps as usize, Presence::Absent);
        nfs.readers[stream as usize].begin(bytes);
        self.call_for_window(now, stream);
    }

    fn call_for_window(&mut self, now: Nanos, stream: u32) {
        let mount = usize::from(self.volume_of(stream));
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let window = nfs.spec.server.client_read_ahead.0;
        let mut left = window.max(nfs.spec.transfer.0).min(nfs.readers[stream as usize].left());
        let asks_first = nfs.spec.server.client_windows > 1;
        let mut is_first = true;
        while left > 0 {
            let bytes = left.min(nfs.spec.transfer.0) as u32;
            let is_last = left <= nfs.spec.transfer.0;
            let reader = &mut nfs.readers[stream as usize];
            let piece = reader.ask(bytes, if asks_first { is_first } else { is_last });
            let end = reader.asked().div_ceil(PAGE_BYTES);
            let page = (reader.asked() - u64::from(bytes)) / PAGE_BYTES;
            let (known, in_order) = (ReadAhead::default(), false);
            let call = nfs.put(Call { stream, piece, bytes, page, end, known, in_order });
            nfs.mounts[mount].put(call);
            is_first = false;
            left -= u64::from(bytes);
        }
        self.send_calls(now, mount);
    }

    /// Sends calls of a mount as far as its window goes.
    fn send_calls(&mut self, now: Nanos, mount: usize) {
        /// A call is a small packet each way through two switches and drivers.
        const WAY: NanoSpan = NanoSpan::from_micros(50);
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        while let Some(call) = nfs.mounts[mount].poll_call() {
            self.queue.push(now + WAY, Event::CallArrived { call });
        }
    }

    pub(super) fn call_answered(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let Call { stream, piece, .. } = nfs.calls[call as usize];
        nfs.readers[stream as usize].arrive(piece);
        nfs.free.push(call);
        let mount = usize::from(self.volume_of(stream));
        self.nfs.as_mut().expect(HAS_CLIENT).mounts[mount].handle_answer(now);
        self.send_calls(now, mount);
        self.try_to_copy(now, stream);
    }

    pub(super) fn copy_on_client(&mut self, now: Nanos, stream: u32) {
        let (_, asks) = self.nfs.as_mut().expect(HAS_CLIENT).client_reader(stream).copying();
        if asks {
            self.call_for_window(now, stream);
        }
        self.queue.push(now, Event::Copied { stream });
    }

    // The server.

    pub(super) fn call_arrived(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        if nfs.free_threads == 0 {
            nfs.waiting.push_back(call);
            return;
        }
        nfs.free_threads -= 1;
        self.decode(now, call);
    }

    fn decode(&mut self, now: Nanos, call: u32) {
        let span = self.nfs.as_ref().expect(HAS_CLIENT).spec.server.server_call;
        let end = self.work(now, span);
        self.queue.push(end, Event::CallDecoded { call });
    }

    /// A thread has taken in a call.
    pub(super) fn call_decoded(&mut self, now: Nanos, call: u32) {
        let file = self.file_of(call);
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let mut known = nfs.recall(file);
        let at = &mut nfs.calls[call as usize];
        at.in_order = known.begin(at.page, at.end - at.page);
        at.known = known;
        self.read_on(now, call);
    }

    /// A thread goes through the pages of its call until it has all of them, or has to wait for one.
    pub(super) fn read_on(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let mut at = nfs.calls[call as usize];
        let mut waits = false;
        while at.page < at.end && !waits {
            let file = &mut nfs.files[at.stream as usize];
            if file.pages[at.page as usize] == Presence::Absent {
                ask_for_pages(file, &mut nfs.plugged, at.page..at.page + 1);
            }
            waits = file.pages[at.page as usize] == Presence::Coming;
            let ahead = at.known.reach(at.page, waits, at.in_order, file.pages.len() as u64);
            ask_for_pages(file, &mut nfs.plugged, ahead);
            at.page += 1;
        }
        nfs.calls[call as usize] = at;
        if waits {
            nfs.files[at.stream as usize].parked.push(call);
        }
        self.unplug(now, at.stream);
        if !waits {
            self.answer(now, call);
        }
    }

    /// Sends what was asked for, as far as the map is known.
    fn unplug(&mut self, now: Nanos, stream: u32) {
        let mut runs = core::mem::take(&mut self.nfs.as_mut().expect(HAS_CLIENT).plugged);
        for run in runs.drain(..) {
            self.send_pages(now, stream, run);
        }
        self.nfs.as_mut().expect(HAS_CLIENT).plugged = runs;
    }

    fn send_pages(&mut self, now: Nanos, stream: u32, mut run: Range<u64>) {
        while !run.is_empty() {
            let position = run.start * PAGE_BYTES;
            let mut bytes = ((run.end - run.start) * PAGE_BYTES).min(self.spec.server.request_max.0);
            if let Some(ByteCount(every)) = self.spec.map_every {
                bytes = bytes.min(every - position % every);
                let map = (position / every) as usize;
                let file = &mut self.nfs.as_mut().expect(HAS_CLIENT).files[stream as usize];
                if file.maps[map] != Presence::There {
                    file.unmapped.push(run.start..run.start + bytes / PAGE_BYTES);
                    if file.maps[map] == Presence::Absent {
                        file.maps[map] = Presence::Coming;
                        self.ask_for_map_at(now, stream, position / every * every);
                    }
                    run.start += bytes / PAGE_BYTES;
                    continue;
                }
            }
            let (part, offset, in_one) = self.part_of(stream, position);
            bytes = bytes.min(in_one / PAGE_BYTES * PAGE_BYTES);
            let pages = (bytes / PAGE_BYTES) as u32;
            let event = Event::PagesArrived { stream, first: run.start as u32, pages };
            self.send(now, part, offset, bytes, event);
            run.start += u64::from(pages);
        }
    }

    /// A block of the map is there: what waited for it goes out.
    pub(super) fn map_arrived_at_server(&mut self, now: Nanos, stream: u32) {
        let file = &mut self.nfs.as_mut().expect(HAS_CLIENT).files[stream as usize];
        // Blocks of a map are asked for, and come, in their order.
        if let Some(map) = file.maps.iter_mut().find(|map| **map == Presence::Coming) {
            *map = Presence::There;
        }
        for run in core::mem::take(&mut file.unmapped) {
            self.send_pages(now, stream, run);
        }
    }

    /// Pages are in the server's memory: calls that waited for one of them go on.
    pub(super) fn pages_arrived(&mut self, now: Nanos, stream: u32, first: u32, pages: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let file = &mut nfs.files[stream as usize];
        let run = u64::from(first)..u64::from(first + pages);
        file.pages[run.start as usize..run.end as usize].fill(Presence::There);
        let (calls, woken) = (&nfs.calls, &mut nfs.woken);
        file.parked.retain(|call| {
            // The call has stepped over the page that it waits for.
            let goes_on = run.contains(&(calls[*call as usize].page - 1));
            if goes_on {
                woken.push(*call);
            }
            !goes_on
        });
        let mut woken = core::mem::take(woken);
        let span = self.spec.server.per_request;
        for call in woken.drain(..) {
            let end = self.work(now, span);
            self.queue.push(end.max(now), Event::CallWoken { call });
        }
        self.nfs.as_mut().expect(HAS_CLIENT).woken = woken;
    }

    fn file_of(&self, call: u32) -> usize {
        let stream = self.nfs.as_ref().expect(HAS_CLIENT).calls[call as usize].stream;
        self.streams[stream as usize].file
    }

    /// A thread has all of a call's data.
    fn answer(&mut self, now: Nanos, call: u32) {
        let file = self.file_of(call);
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let Call { bytes, known, .. } = nfs.calls[call as usize];
        nfs.note(file, known);
        let packets = nfs.packets(bytes);
        let span = nfs.spec.network.send_time(ByteCount(u64::from(bytes)), packets);
        let end = self.work(now, span);
        self.queue.push(end, Event::CallSent { call });
    }

    /// The answer is on its way; its thread takes the next call.
    pub(super) fn call_sent(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let Call { stream, bytes, .. } = nfs.calls[call as usize];
        let (packets, size) = (nfs.packets(bytes), ByteCount(u64::from(bytes)));
        let arrived = nfs.wire.serve(now, nfs.spec.network.wire_time(size, packets));
        let model = &nfs.spec.server;
        let per_call = match nfs.spec.transport {
            Transport::Udp if packets > 1 => {
                model.client_call_udp + NanoSpan(model.client_fragment.0 * packets)
            }
            Transport::Udp => model.client_call_udp,
            Transport::Tcp => model.client_call_tcp,
        };
        let span = per_call + nfs.spec.network.receive_time(size, packets);
        nfs.client_taken += span;
        let processor = stream as usize % nfs.client.len();
        let end = nfs.client[processor].serve_when_ready(now, arrived, span);
        self.queue.push(end, Event::CallAnswered { call });
        if let Some(next) = nfs.waiting.pop_front() {
            self.decode(now, next);
        } else {
            nfs.free_threads += 1;
        }
    }
}

/// Puts those of `pages` that nobody has asked for with what a call has asked for.
fn ask_for_pages(file: &mut ServedFile, plugged: &mut Vec<Range<u64>>, pages: Range<u64>) {
    for page in pages {
        let presence = &mut file.pages[page as usize];
        if *presence != Presence::Absent {
            continue;
        }
        *presence = Presence::Coming;
        match plugged.last_mut().filter(|run| run.end == page) {
            Some(run) => run.end += 1,
            None => plugged.push(page..page + 1),
        }
    }
}
