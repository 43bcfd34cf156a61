//! The server as a host of the array: accepts clients, and distributes the array's time and buffers.
//!
//! ```text
//! handle_entry, handle_completion ─► mark the connection ─► poll_step: pump the marked ones, hand requests out
//! ```
//! A connection that waits for a buffer is marked again when one is returned. Timeouts are checked once a second: for a
//! handshake that takes too long as a whole, and for a client that has taken no byte for too long while some are being
//! sent.
//!
//! Clients in their handshake have a pool of their own, so that idle ones take no seat of working clients (`seats.rs`).
//! When that pool is full, the peer with the most handshakes loses its oldest; of peers with few, an unknown one.
//!
//! Invariant: a connection's number, and with it the names of its entries, is reused only after all of them have ended.

use crate::common::{Common, Work};
use crate::connection::{Connection, EntryNames};
use crate::edges::{Edges, SCRATCH_BUFFERS};
use crate::entries;
use crate::error::ExportError;
use crate::listener::NbdListener;
use crate::peer::{Caller, Peer};
use crate::seats::Seats;
use crate::share::Share;
use raidlab_controller::{HostCompletion, HostTag};
use raidlab_nbd::{
    BlockSizes, Errno, Export, Exports, PAYLOAD_BYTES_DEFAULT, PIECE_BYTES_MIN, Piece, PieceEnd,
    ServerLimits, TransmissionFlags,
};
use raidlab_runtime::{
    CLIENT_CAUSED, EntryEnd, HostBuffers, HostPort, HostPortNeeds, HostStep, PortRing, RingError, StopWish,
};
use raidlab_units::{BlockSize, ByteCount, NanoSpan, Nanos};
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Time for a handshake.
const HANDSHAKE_LIMIT: NanoSpan = NanoSpan::from_millis(10_000);
/// Time for a client to take a byte.
const SEND_LIMIT: NanoSpan = NanoSpan::from_millis(30_000);
/// Time for what is in flight when the server stops.
const STOP_LIMIT: NanoSpan = NanoSpan::from_millis(10_000);
/// How often limits of time are looked at, and a failed accept is tried again.
const LOOK_EVERY: NanoSpan = NanoSpan::from_millis(1000);
/// Handshakes at once.
const HANDSHAKES_MAX: u32 = 64;
/// Handshakes that a known client has before those of unknown ones; beyond them it is a peer like others.
const KNOWN_HANDSHAKES: usize = HANDSHAKES_MAX as usize / 8;
/// Time for a handshake, even if others wait.
const GRACE: NanoSpan = NanoSpan::from_millis(100);
/// Room for those that are closed and not over yet.
const CLOSING_ROOM: u32 = 8;
/// Requests may begin and end anywhere, see `edges.rs`.
const MINIMUM_BYTES: u32 = 1;
/// The smallest block that is fast, in bytes, whatever the array's block.
const PREFERRED_BYTES_MIN: u32 = 4096;

/// Buffers that write zeroes and cache requests of one client have at once.
const BULK_PIECES_MAX: u16 = 8;

/// How a volume is exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdOptions {
    /// The export's name; clients that give none get it, too.
    pub name: String,
    /// What people read.
    pub description: String,
    /// Writes are refused.
    pub read_only: bool,
    /// Clients at once; those that are too many are told so.
    pub connections_max: u32,
    /// Requests of one client in flight; more wait in its socket.
    pub requests_max: u16,
    /// Buffers of all clients together, at least two for each.
    pub buffers: u32,
    /// Length of a buffer; longer requests are cut.
    pub buffer_bytes: ByteCount,
}

impl Default for NbdOptions {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            read_only: false,
            connections_max: 64,
            requests_max: 128,
            buffers: 256,
            buffer_bytes: ByteCount::from_kib(256),
        }
    }
}

/// Kinds of entries, the lowest bits of their names.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const KIND_BITS: u32 = 2;

const fn name(number: u32, kind: u64) -> u64 {
    (number as u64) << KIND_BITS | kind
}

#[derive(Debug)]
struct Door {
    listener: NbdListener,
    accepting: bool,
    /// Not before this, after the system had no descriptor left.
    again_at: Nanos,
}

/// A volume's NBD server. Lives on the array's ring: give it to [`raidlab_runtime::ArrayWorld::serve`].
#[derive(Debug)]
pub struct NbdServer {
    doors: Vec<Door>,
    common: Common,
    connections: Vec<Option<Box<Connection>>>,
    /// Connections that are not over.
    open: u32,
    /// Connections with news, each once.
    marked: VecDeque<u32>,
    is_marked: Vec<bool>,
    look_at: Nanos,
    stopping_since: Option<Nanos>,
    buffers: u32,
    buffer_bytes: ByteCount,
}

impl NbdServer {
    /// Exports a volume of `volume` bytes in blocks of `block_size` to all who come to `listeners`.
    ///
    /// # Errors
    /// [`ExportError`] if the options do not fit together.
    pub fn new(
        options: NbdOptions,
        block_size: BlockSize,
        volume: ByteCount,
        listeners: Vec<NbdListener>,
    ) -> Result<Self, ExportError> {
        let connections = options.connections_max;
        let places = connections + HANDSHAKES_MAX + CLOSING_ROOM;
        let needed = 2 * connections;
        if options.buffers < needed {
            let buffers = options.buffers;
            return Err(ExportError::TooFewBuffers { connections, needed, buffers });
        }
        let found = options.buffer_bytes.get();
        let whole = found.is_multiple_of(block_size.bytes()) && found >= u64::from(PIECE_BYTES_MIN);
        let Some(piece_bytes) = u32::try_from(found).ok().filter(|_| whole) else {
            return Err(ExportError::BufferBytes { found });
        };
        let limits = ServerLimits {
            requests: options.requests_max,
            pieces: options.requests_max,
            bulk_pieces: BULK_PIECES_MAX,
            piece_bytes,
        };
        let buffers = options.buffers;
        let seats = Seats::new(connections, listeners.iter().any(NbdListener::knows_clients));
        let exports = Exports::new(vec![export(options, block_size, volume)?])?;
        let doors = listeners
            .into_iter()
            .map(|listener| Door { listener, accepting: false, again_at: Nanos::ZERO })
            .collect();
        Ok(Self {
            doors,
            common: Common {
                exports,
                limits,
                seats,
                share: Share::new(buffers, connections, places),
                work: vec![Work::Free; buffers as usize],
                skips: vec![0; buffers as usize],
                zeroed: vec![0; buffers as usize],
                edges: Edges::new(buffers, block_size),
                ready: VecDeque::with_capacity(buffers as usize),
                freed: false,
            },
            connections: (0..places).map(|_| None).collect(),
            open: 0,
            marked: VecDeque::with_capacity(places as usize),
            is_marked: vec![false; places as usize],
            look_at: Nanos::ZERO,
            stopping_since: None,
            buffers: buffers + SCRATCH_BUFFERS,
            // A piece that begins within a block ends within one, too.
            buffer_bytes: ByteCount(found + block_size.bytes()),
        })
    }

    /// Returns how many clients are connected.
    pub const fn connections(&self) -> u32 {
        self.open
    }

    fn mark(&mut self, number: u32) {
        if !std::mem::replace(&mut self.is_marked[number as usize], true) {
            self.marked.push_back(number);
        }
    }

    /// Pumps the connections that have news, and those that waited for buffers that came back.
    fn pump(
        &mut self,
        now: Nanos,
        buffers: &mut HostBuffers,
        ring: &mut PortRing<'_>,
    ) -> Result<(), RingError> {
        loop {
            if std::mem::take(&mut self.common.freed) {
                for number in 0..self.connections.len() as u32 {
                    if self.connections[number as usize].as_ref().is_some_and(|found| found.starving) {
                        self.mark(number);
                    }
                }
            }
            let Some(number) = self.marked.pop_front() else { return Ok(()) };
            self.is_marked[number as usize] = false;
            let Some(connection) = &mut self.connections[number as usize] else { continue };
            let names = EntryNames { receive: name(number, RECEIVE), send: name(number, SEND) };
            connection.pump(&mut self.common, names, now, buffers, ring)?;
            if self.stopping_since.is_some() {
                connection.handle_stop();
            }
            if connection.is_over() {
                self.forget(number);
            }
        }
    }

    /// Lets go of a connection of which nothing is in flight.
    fn forget(&mut self, number: u32) {
        self.open -= 1;
        let over = self.connections[number as usize].take();
        if over.is_none_or(|found| found.is_in_handshake()) {
            return;
        }
        for tag in 0..self.common.work.len() {
            if self.common.work[tag] == Work::Held(number) {
                self.common.work[tag] = Work::Free;
                self.common.share.give_back(number, HostTag(tag as u32));
                self.common.freed = true;
            }
        }
        self.common.share.close(number);
        self.common.seats.give_back();
    }

    /// Waits for a client at each door while there is room for one.
    fn accept(&mut self, now: Nanos, ring: &mut PortRing<'_>) -> Result<(), RingError> {
        if self.handshakes() > HANDSHAKES_MAX {
            self.make_room(now);
        }
        // Each door that waits for a client has room for it already.
        let waiting = self.doors.iter().filter(|door| door.accepting).count() as u32;
        let mut room = (HANDSHAKES_MAX + CLOSING_ROOM).saturating_sub(self.handshakes() + waiting);
        for (place, door) in (0..).zip(&mut self.doors) {
            if !door.accepting && now >= door.again_at && room > 0 {
                room -= 1;
                door.accepting = true;
                entries::accept(ring, name(place, ACCEPT), door.listener.socket())?;
            }
        }
        Ok(())
    }

    fn handle_accepted(&mut self, now: Nanos, door: usize, result: Result<u32, rustix::io::Errno>) {
        let door = &mut self.doors[door];
        door.accepting = false;
        let socket = match result {
            Ok(descriptor) => entries::accepted(descriptor),
            Err(errno) => {
                let address = door.listener.address();
                tracing::warn!(target: CLIENT_CAUSED, %errno, address, "a client can't be accepted");
                door.again_at = now + LOOK_EVERY;
                return;
            }
        };
        let caller = match Caller::of(socket, door.listener.is_tcp) {
            Ok(caller) => caller,
            Err(error) => {
                tracing::debug!(%error, "a client has gone already");
                return;
            }
        };
        let place = self.connections.iter().position(Option::is_none).expect("there was room for one");
        let number = place as u32;
        let security = door.listener.security.clone();
        self.connections[place] = Some(Box::new(Connection::new(number, caller, security, now)));
        self.open += 1;
        self.mark(number);
    }

    /// Connections in their handshake, those among them that are closed and not over.
    const fn handshakes(&self) -> u32 {
        self.open - self.common.seats.taken()
    }

    /// Closes a handshake if too many are open: one of the peer that has most, its oldest, once it has had a moment. Those who
    /// proved who they are and have few go last.
    fn make_room(&mut self, now: Nanos) {
        let all = self.connections.iter().flatten().map(Box::as_ref);
        let haggling = all.filter(|found| found.is_in_handshake() && !found.is_closing());
        let peers: Vec<Peer> = haggling.clone().map(|found| found.peer).collect();
        if peers.len() <= HANDSHAKES_MAX as usize {
            return;
        }
        let others = |peer: Peer| peers.iter().filter(|other| **other == peer).count();
        let key = |found: &&Connection| {
            let others = others(found.peer);
            (found.is_known() && others <= KNOWN_HANDSHAKES, Reverse(others), found.since)
        };
        // Who is to go is decided before it is asked whether it has had time: else a slow client that has had it would go in the
        // place of attackers that have just come.
        let had_time = |found: &&Connection| now.saturating_since(found.since) >= GRACE;
        let Some(number) = haggling.min_by_key(key).filter(had_time).map(|found| found.number) else {
            return;
        };
        let Some(victim) = &mut self.connections[number as usize] else { return };
        let peer = victim.peer;
        victim.close(&"another client needs its place");
        tracing::warn!(target: CLIENT_CAUSED, ?peer, "too many handshakes at once: the oldest was ended");
        self.mark(number);
    }

    /// Closes the connections that are out of time.
    fn look(&mut self, now: Nanos) {
        self.look_at = now + LOOK_EVERY;
        for number in 0..self.connections.len() as u32 {
            let Some(connection) = &mut self.connections[number as usize] else { continue };
            let slow = |since: Nanos, limit| now.saturating_since(since) >= limit;
            if connection.is_in_handshake() && slow(connection.since, HANDSHAKE_LIMIT) {
                connection.close(&"the handshake took too long");
            } else if connection.sending_since().is_some_and(|since| slow(since, SEND_LIMIT)) {
                connection.close(&"the client does not read");
            }
            self.mark(number);
        }
    }

    /// The array is done with a piece.
    fn end_piece(&mut self, tag: HostTag, number: u32, piece: Piece, end: PieceEnd) {
        self.common.handle_write_end(&piece);
        let connection = self.connections[number as usize].as_mut().expect("it has a request in flight");
        connection.handle_piece_end(tag, piece, end, &mut self.common);
        self.mark(number);
    }

    fn step(
        &mut self,
        now: Nanos,
        buffers: &mut HostBuffers,
        ring: &mut PortRing<'_>,
    ) -> Result<HostStep, RingError> {
        if let Some(request) = self.common.ready.pop_front() {
            return Ok(HostStep::Submit(request));
        }
        if now >= self.look_at {
            self.look(now);
        }
        while self.common.edges.has_news() {
            if let Some((tag, number, piece)) = self.common.take_in_edges(buffers) {
                self.end_piece(tag, number, piece, PieceEnd::Failed(Errno::Io));
            }
        }
        self.pump(now, buffers, ring)?;
        if self.stopping_since.is_none() {
            self.accept(now, ring)?;
        }
        if let Some(request) = self.common.ready.pop_front() {
            return Ok(HostStep::Submit(request));
        }
        if let Some(since) = self.stopping_since
            && (self.open == 0 || now.saturating_since(since) >= STOP_LIMIT)
        {
            return Ok(HostStep::Finished);
        }
        let idle = self.open == 0 && self.stopping_since.is_none();
        let all_accept = self.doors.iter().all(|door| door.accepting);
        Ok(if idle && all_accept { HostStep::WaitForCompletion } else { HostStep::WaitUntil(self.look_at) })
    }
}

/// What clients are told of the volume.
fn export(options: NbdOptions, block_size: BlockSize, volume: ByteCount) -> Result<Export, ExportError> {
    use TransmissionFlags as Flags;
    let preferred = PREFERRED_BYTES_MIN.max(block_size.bytes() as u32);
    let always = Flags::SEND_FLUSH | Flags::SEND_FUA | Flags::SEND_CACHE | Flags::CAN_MULTI_CONN;
    let changes =
        if options.read_only { Flags::READ_ONLY } else { Flags::SEND_TRIM | Flags::SEND_WRITE_ZEROES };
    Ok(Export {
        name: options.name,
        description: options.description,
        size_bytes: volume.get(),
        block_sizes: BlockSizes::new(MINIMUM_BYTES, preferred, PAYLOAD_BYTES_DEFAULT)?,
        flags: always | changes,
    })
}

impl HostPort for NbdServer {
    fn needs(&self) -> HostPortNeeds {
        HostPortNeeds { slots: self.buffers, slot_bytes: self.buffer_bytes }
    }

    fn poll_step(&mut self, now: Nanos, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> HostStep {
        self.step(now, buffers, ring).unwrap_or_else(|error| {
            tracing::error!(%error, "the export can't go on");
            HostStep::Finished
        })
    }

    fn handle_completion(&mut self, _now: Nanos, completion: HostCompletion, _buffers: &HostBuffers) {
        let tag = completion.tag;
        if let Err(error) = completion.result {
            tracing::warn!(target: CLIENT_CAUSED, %error, "a client's request failed");
        }
        if self.common.handle_scratch_end(tag, completion.result.is_ok()) {
            return;
        }
        let Work::Running(number, piece) = self.common.work[tag.0 as usize] else {
            unreachable!("buffer {} was not worked on", tag.0)
        };
        let end = completion.result.map_or(PieceEnd::Failed(Errno::Io), |()| PieceEnd::Done);
        self.end_piece(tag, number, piece, end);
    }

    fn handle_entry(&mut self, now: Nanos, end: EntryEnd) {
        let (number, kind) = ((end.user >> KIND_BITS) as u32, end.user & ((1 << KIND_BITS) - 1));
        if kind == ACCEPT {
            return self.handle_accepted(now, number as usize, end.result);
        }
        let connection = self.connections[number as usize].as_mut().expect("it has an entry in flight");
        if kind == RECEIVE {
            connection.handle_received(end.result, &mut self.common);
        } else {
            connection.handle_sent(now, end.result, &mut self.common);
        }
        self.mark(number);
    }

    fn handle_stop(&mut self, now: Nanos) -> StopWish {
        self.stopping_since = Some(now);
        for number in 0..self.connections.len() as u32 {
            if let Some(connection) = &mut self.connections[number as usize] {
                connection.handle_stop();
                self.mark(number);
            }
        }
        StopWish::GoOn
    }
}
