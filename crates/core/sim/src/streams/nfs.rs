//! Calls of NFS clients: who waits for whom between a client's window and the server's volumes.
//!
//! ```text
//!  client                                      server
//!  window ─► calls ─► slots of the mount ─────► waiting calls ─► nfsd threads ─► file: there? ─► volume
//!    ▲                                                               │ thread is held until the data is sent
//!    └─ copy ◄─ [processor: packets, call] ◄═══ wire ◄═══ packets ◄──┘
//! ```
//! A server remembers the read-ahead windows of a few files between calls, the ones called for last. A call for a file that
//! it does not remember reads what it asks for, in whole pages and as many again, and nothing ahead. A call takes the window
//! over when it begins and notes it when it ends, so that calls side by side for a file that was forgotten all read without.
//!
//! Left out: lost fragments, calls that overtake each other (the shorter window stands for them), other calls than READ.
//! Source: Linux 2.4.18, `fs/nfsd/vfs.c` (`nfsd_get_raparms`), `fs/nfs/read.c`, `net/sunrpc/xprt.c`.

use super::reader::Reader;
use super::spec::NfsSpec;
use super::world::{Event, World};
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
    /// First byte not asked for, counted from the start of the file.
    to: u64,
    bytes: u32,
}

/// A file at the server.
#[derive(Clone, Debug, Default)]
struct ServedFile {
    /// All before this is in the server's memory.
    there: u64,
    /// Where the window that was asked for last starts.
    window: u64,
    /// Whether its window is remembered: a call notes it when it ends, for calls that begin after that.
    is_noted: bool,
    /// Calls that wait for data.
    parked: Vec<u32>,
}

/// Client and server.
#[derive(Debug)]
pub(super) struct Nfs<'a> {
    pub(super) spec: &'a NfsSpec,
    calls: Vec<Call>,
    free: Vec<u32>,
    /// Calls of each mount that are under way, and those that wait for one of its slots.
    mounts: Vec<(u32, VecDeque<u32>)>,
    free_threads: u32,
    waiting: VecDeque<u32>,
    files: Vec<ServedFile>,
    /// The clients' sides of the files.
    readers: Vec<Reader>,
    /// Streams whose files' windows are remembered, the one used last at the end.
    remembered: Vec<u32>,
    wire: Server,
    client: Server,
    client_taken: NanoSpan,
}

impl<'a> Nfs<'a> {
    pub(super) fn new(spec: &'a NfsSpec, streams: u32, volumes: usize) -> Self {
        Self {
            spec,
            calls: Vec::new(),
            free: Vec::new(),
            mounts: vec![(0, VecDeque::new()); volumes],
            free_threads: spec.server.threads,
            waiting: VecDeque::new(),
            files: vec![ServedFile::default(); streams as usize],
            readers: vec![Reader::default(); streams as usize],
            remembered: Vec::new(),
            wire: Server::default(),
            client: Server::default(),
            client_taken: NanoSpan::ZERO,
        }
    }

    /// What a client has asked for of its file.
    pub(super) fn client_reader(&mut self, stream: u32) -> &mut Reader {
        &mut self.readers[stream as usize]
    }

    /// Time that the client's processor was busy with calls.
    pub(super) const fn client_taken(&self) -> NanoSpan {
        self.client_taken
    }

    fn put(&mut self, call: Call) -> u32 {
        let number = self.free.pop().unwrap_or(self.calls.len() as u32);
        if number as usize == self.calls.len() {
            self.calls.push(call);
        }
        self.calls[number as usize] = call;
        number
    }

    /// Whether the window of this stream's file is remembered. It has a place among those that are, from now on.
    fn remembers(&mut self, stream: u32) -> bool {
        let model = &self.spec.server;
        if let Some(place) = self.remembered.iter().position(|other| *other == stream) {
            self.remembered.remove(place);
        } else if self.remembered.len() >= model.remembered_files as usize && !self.remembered.is_empty() {
            let forgotten = self.remembered.remove(0);
            self.files[forgotten as usize].is_noted = false;
        }
        if model.remembered_files > 0 {
            self.remembered.push(stream);
        }
        self.files[stream as usize].is_noted
    }

    /// Notes a file's window if it has a place.
    fn note_window(&mut self, stream: u32) {
        self.files[stream as usize].is_noted = self.remembered.contains(&stream);
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
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        nfs.files[stream as usize] = ServedFile::default();
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
            let to = reader.asked();
            let call = nfs.put(Call { stream, piece, to, bytes });
            nfs.mounts[mount].1.push_back(call);
            is_first = false;
            left -= u64::from(bytes);
        }
        self.send_calls(now, mount);
    }

    /// Sends calls of a mount as far as it has slots.
    fn send_calls(&mut self, now: Nanos, mount: usize) {
        /// A call is a small packet each way through two switches and drivers.
        const WAY: NanoSpan = NanoSpan::from_micros(50);
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let (under_way, waiting) = &mut nfs.mounts[mount];
        while *under_way < nfs.spec.server.client_calls {
            let Some(call) = waiting.pop_front() else { return };
            *under_way += 1;
            self.queue.push(now + WAY, Event::CallArrived { call });
        }
    }

    pub(super) fn call_answered(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let Call { stream, piece, .. } = nfs.calls[call as usize];
        nfs.readers[stream as usize].arrive(piece);
        nfs.free.push(call);
        let mount = usize::from(self.volume_of(stream));
        self.nfs.as_mut().expect(HAS_CLIENT).mounts[mount].0 -= 1;
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

    /// A thread looks for the data of its call, asks for what is missing and, where the window is remembered, for more.
    pub(super) fn call_decoded(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let Call { stream, to, bytes, .. } = nfs.calls[call as usize];
        let remembers = nfs.remembers(stream);
        let model = nfs.spec.server;
        let (asked, left) = self.asked_and_left(stream);
        let file = &mut self.nfs.as_mut().expect(HAS_CLIENT).files[stream as usize];
        // The first call of a window asks for the next one.
        let enters = remembers && to > file.window && left > 0;
        if to > asked || enters {
            let least = to.saturating_sub(asked);
            let call_bytes = u64::from(bytes);
            let more = if remembers {
                model.window.0.max(2 * call_bytes)
            } else {
                model.read_without.0.max(call_bytes)
            };
            file.window = asked;
            let pages = least.max(more).min(left);
            self.ask_for(now, stream, pages, true);
        }
        let file = &mut self.nfs.as_mut().expect(HAS_CLIENT).files[stream as usize];
        if file.there >= to {
            self.answer(now, call);
        } else {
            file.parked.push(call);
        }
    }

    /// Bytes of a stream's file that the server has asked its volume for, or is about to, and what is left of it.
    fn asked_and_left(&self, stream: u32) -> (u64, u64) {
        let at = &self.streams[stream as usize];
        let about_to = at.about_to_ask();
        (at.reader.asked() + about_to, at.reader.left() - about_to)
    }

    /// Takes in pieces of a file at the server, and answers the calls that waited for them.
    pub(super) fn serve_arrived(&mut self, now: Nanos, stream: u32) {
        let reader = &mut self.streams[stream as usize].reader;
        let mut there = 0;
        while reader.begin_copy() {
            there += reader.end_copy();
        }
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let file = &mut nfs.files[stream as usize];
        file.there += there;
        let (there, calls) = (file.there, &nfs.calls);
        let mut ready = Vec::new();
        file.parked.retain(|call| {
            let is_there = calls[*call as usize].to <= there;
            if is_there {
                ready.push(*call);
            }
            !is_there
        });
        let span = self.spec.server.per_request;
        for call in ready {
            let end = self.work(now, span);
            self.answer(end.max(now), call);
        }
    }

    fn answer(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_ref().expect(HAS_CLIENT);
        let bytes = nfs.calls[call as usize].bytes;
        let packets = nfs.packets(bytes);
        let span = nfs.spec.network.send_time(ByteCount(u64::from(bytes)), packets);
        let end = self.work(now, span);
        self.queue.push(end, Event::CallSent { call });
    }

    /// The answer is on its way; its thread takes the next call.
    pub(super) fn call_sent(&mut self, now: Nanos, call: u32) {
        let nfs = self.nfs.as_mut().expect(HAS_CLIENT);
        let Call { stream, bytes, .. } = nfs.calls[call as usize];
        nfs.note_window(stream);
        let (packets, size) = (nfs.packets(bytes), ByteCount(u64::from(bytes)));
        let arrived = nfs.wire.serve(now, nfs.spec.network.wire_time(size, packets));
        let per_call = match nfs.spec.transport {
            Transport::Udp => nfs.spec.server.client_call_udp,
            Transport::Tcp => nfs.spec.server.client_call_tcp,
        };
        let span = per_call + nfs.spec.network.receive_time(size, packets);
        nfs.client_taken += span;
        let end = nfs.client.serve_when_ready(now, arrived, span);
        self.queue.push(end, Event::CallAnswered { call });
        if let Some(next) = nfs.waiting.pop_front() {
            self.decode(now, next);
        } else {
            nfs.free_threads += 1;
        }
    }
}
