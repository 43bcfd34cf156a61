//! An NBD client as a state machine: it draws requests, sends them in pieces of any length, takes replies, and goes, politely or
//! in the middle of anything. Its socket is one end of a pair of the system's; the export has the other.
//!
//! Verified: every request of a living connection is answered once, with all bytes of what was asked for and no others, and without
//! an error. What the bytes may be is the oracle's to say.

use crate::oracle::{CELL_BYTES, Cells, Oracle, Value, WriteEnd, fill, read_cell};
use crate::plan::{ClientPlan, Role};
use crate::wire::{self, Body, OptionReply, Reply};
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::Rng;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Bytes that are received at once.
const RECEIVE_BYTES: usize = 64 << 10;

/// What a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write {
        fua: bool,
    },
    Flush,
    /// Changes nothing.
    Hint,
}

/// A request that was not answered.
#[derive(Debug)]
struct Request {
    kind: Kind,
    /// Its number among all of the run.
    number: u32,
    offset: u64,
    length: u32,
    /// When it began, by the oracle.
    began: u64,
    since: Nanos,
    /// Where its payload begins and ends among all bytes that are sent.
    payload: (u64, u64),
    data: Vec<u8>,
    /// Bytes of `data` that came.
    came: u32,
    failed: Option<u32>,
}

impl Request {
    const fn cells(&self) -> Cells {
        Cells { first: (self.offset / CELL_BYTES) as u32, count: (self.length as u64 / CELL_BYTES) as u32 }
    }

    /// How much of a write the export may carry out when only `sent` bytes of its payload came: whole pieces, which end at multiples of
    /// `piece_bytes` in the volume where the write is longer than one.
    fn carried_out(&self, sent: u64, piece_bytes: u32) -> u64 {
        let piece_bytes = u64::from(piece_bytes);
        let end = (self.offset + sent) / piece_bytes * piece_bytes;
        if u64::from(self.length) <= piece_bytes { 0 } else { end.saturating_sub(self.offset) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Greeting,
    Options,
    Transmission,
    /// It has said that it goes, and waits for the end of the stream.
    Leaving,
}

/// What is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Complaint {
    pub(crate) checker: &'static str,
    pub(crate) text: String,
}

fn complain<T>(checker: &'static str, text: impl Into<String>) -> Result<T, Complaint> {
    Err(Complaint { checker, text: text.into() })
}

/// What the clients of a run share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) oracle: Oracle,
    pub(crate) volume_bytes: u64,
    /// Numbers of requests.
    pub(crate) next_number: u32,
    /// Requests that may still be made in this life.
    pub(crate) requests_left: u64,
    /// More went wrong than the array survives: requests may fail.
    pub(crate) may_fail: bool,
    /// What a crash has torn may be lost with a member.
    pub(crate) may_lose_torn: bool,
    /// The export is being stopped.
    pub(crate) is_stopping: bool,
    pub(crate) answered: u64,
    /// Length of the export's buffers: a payload is carried out in pieces of this.
    pub(crate) piece_bytes: u32,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) plan: ClientPlan,
    random: Rng,
    socket: Option<OwnedFd>,
    stage: Stage,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that were handed over.
    handed: usize,
    /// Bytes that were handed over before those.
    sent_before: u64,
    incoming: Vec<u8>,
    taken: usize,
    /// What is received goes here first.
    room: Box<[u8]>,
    /// The data that comes now: of which request, where in it, how much is missing, and whether nothing follows.
    filling: Option<(u64, usize, usize, bool)>,
    requests: BTreeMap<u64, Request>,
    next_cookie: u64,
    made: u64,
    /// Where a client that reads everything is.
    at: u64,
    /// Its socket took nothing last.
    is_full: bool,
    /// It makes no request before.
    pauses_until: Nanos,
    /// Among all bytes that are sent, those from here on wait until all requests before this one are answered.
    stall: Option<(u64, u64)>,
    is_over: bool,
}

impl Client {
    pub(crate) fn new(plan: ClientPlan, seed: u64) -> Self {
        Self {
            plan,
            random: Rng::new(seed),
            socket: None,
            stage: Stage::Greeting,
            outgoing: Vec::new(),
            handed: 0,
            sent_before: 0,
            incoming: Vec::new(),
            taken: 0,
            room: vec![0; RECEIVE_BYTES].into_boxed_slice(),
            filling: None,
            requests: BTreeMap::new(),
            next_cookie: 1,
            made: 0,
            at: 0,
            is_full: false,
            pauses_until: Nanos::ZERO,
            stall: None,
            is_over: false,
        }
    }

    /// Is connected by this end of a pair.
    pub(crate) fn connect(&mut self, socket: OwnedFd) {
        self.socket = Some(socket);
    }

    /// Whether it does nothing more.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    pub(crate) const fn has_come(&self) -> bool {
        self.socket.is_some()
    }

    /// When the oldest request began that has no answer.
    pub(crate) fn waits_since(&self) -> Option<Nanos> {
        self.requests.values().map(|request| request.since).min().filter(|_| !self.is_over)
    }

    /// Takes what came, makes requests, and sends some of it.
    ///
    /// # Errors
    /// What the server did wrong.
    pub(crate) fn act(&mut self, now: Nanos, common: &mut Common) -> Result<(), Complaint> {
        if self.is_over || self.socket.is_none() {
            return Ok(());
        }
        let is_open = self.receive()?;
        self.converse(common)?;
        if self.is_over {
            return Ok(());
        }
        if !is_open {
            return self.end_of_stream(common);
        }
        if self.stage == Stage::Transmission {
            self.make_requests(now, common);
            if self.plan.leaves_after.is_some_and(|requests| self.made >= requests)
                && (self.outgoing.len() > self.handed || self.random.below(4) == 0)
            {
                self.send_some();
                self.vanish(common);
                return Ok(());
            }
        }
        self.send_some();
        Ok(())
    }

    fn end_of_stream(&mut self, common: &mut Common) -> Result<(), Complaint> {
        let waits = self.requests.len();
        let refused = self.stage == Stage::Options || self.stage == Stage::Greeting;
        // A simple reply that has begun can't tell of an error.
        let is_cut = !self.plan.structured && self.filling.is_some() && common.may_fail;
        if !(common.is_stopping || refused || is_cut || self.stage == Stage::Leaving && waits == 0) {
            return complain("answers", format!("a connection was closed with {waits} requests unanswered"));
        }
        self.vanish(common);
        Ok(())
    }

    /// Returns whether more may come.
    fn receive(&mut self) -> Result<bool, Complaint> {
        let Some(socket) = &self.socket else { return Ok(false) };
        if self.plan.is_slow && self.random.below(4) > 0 {
            return Ok(true);
        }
        self.incoming.drain(..std::mem::take(&mut self.taken));
        loop {
            match recv(socket, &mut self.room[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(false),
                Ok((came, _)) => self.incoming.extend_from_slice(&self.room[..came]),
                Err(Errno::AGAIN) => return Ok(true),
                Err(errno) => return complain("answers", format!("a client's socket: {errno}")),
            }
        }
    }

    fn send_some(&mut self) {
        let Some(socket) = &self.socket else { return };
        let waiting = &self.outgoing[self.handed..self.may_be_sent()];
        if waiting.is_empty() {
            return;
        }
        // All of it, or a part that ends anywhere.
        let bytes = match self.random.below(4) {
            0 => 1 + self.random.below(waiting.len() as u64) as usize,
            1 => waiting.len().min(1 + self.random.below(4096) as usize),
            _ => waiting.len(),
        };
        // A peer that has gone is noticed when it is read from.
        let sent =
            send(socket, &waiting[..bytes], SendFlags::DONTWAIT | SendFlags::NOSIGNAL).unwrap_or_default();
        self.is_full = sent == 0;
        self.handed += sent;
        if self.handed == self.outgoing.len() {
            self.sent_before += self.handed as u64;
            self.outgoing.clear();
            self.handed = 0;
        }
    }

    /// End of what may be sent now.
    fn may_be_sent(&self) -> usize {
        match self.stall {
            Some((at, cookie))
                if self.requests.first_key_value().is_some_and(|(first, _)| *first < cookie) =>
            {
                self.outgoing.len().min((at - self.sent_before) as usize)
            }
            _ => self.outgoing.len(),
        }
    }

    /// Whether bytes wait to be sent that may be sent now.
    pub(crate) fn has_more(&self) -> bool {
        !self.is_full && self.may_be_sent() > self.handed
    }

    /// Goes without a word. What it had sent may still be carried out.
    pub(crate) fn vanish(&mut self, common: &mut Common) {
        self.is_over = true;
        self.socket = None;
        let sent = self.sent_before + self.handed as u64;
        for (_, request) in std::mem::take(&mut self.requests) {
            match request.kind {
                Kind::Read => common.oracle.end_read(request.began),
                Kind::Flush | Kind::Hint => {}
                Kind::Write { .. } => {
                    let (start, end) = request.payload;
                    let end_of_write = if sent >= end {
                        WriteEnd::Unknown
                    } else {
                        let cells =
                            request.carried_out(sent.saturating_sub(start), common.piece_bytes) / CELL_BYTES;
                        WriteEnd::CutOff { from: request.cells().first + cells as u32 }
                    };
                    common.oracle.end_write(request.number, request.cells(), end_of_write);
                }
            }
        }
    }

    fn converse(&mut self, common: &mut Common) -> Result<(), Complaint> {
        loop {
            let waiting = &self.incoming[self.taken..];
            match self.stage {
                Stage::Greeting => {
                    let Some(greeting) = waiting.get(..wire::GREETING_BYTES) else { return Ok(()) };
                    if !greeting.starts_with(wire::NBD_MAGIC) {
                        return complain("answers", "the greeting is none of NBD");
                    }
                    self.taken += wire::GREETING_BYTES;
                    wire::hello(self.plan.structured, &mut self.outgoing);
                    self.stage = Stage::Options;
                }
                Stage::Options => {
                    let parsed = wire::option_reply(waiting).or_else(|text| complain("answers", text))?;
                    let Some((bytes, reply)) = parsed else { return Ok(()) };
                    self.taken += bytes;
                    match reply {
                        OptionReply::GoesOn => {}
                        OptionReply::Transmits => self.stage = Stage::Transmission,
                        OptionReply::Refused => {
                            self.vanish(common);
                            return Ok(());
                        }
                    }
                }
                Stage::Transmission | Stage::Leaving => {
                    if !self.take_reply(common)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Takes one reply, or data of one. Returns whether there may be more.
    fn take_reply(&mut self, common: &mut Common) -> Result<bool, Complaint> {
        let waiting = &self.incoming[self.taken..];
        if let Some((cookie, at, missing, is_last)) = self.filling {
            let bytes = waiting.len().min(missing);
            let request = self.requests.get_mut(&cookie).expect("it waits for data");
            request.data[at..at + bytes].copy_from_slice(&waiting[..bytes]);
            request.came += bytes as u32;
            self.taken += bytes;
            if bytes < missing {
                self.filling = Some((cookie, at + bytes, missing - bytes, is_last));
                return Ok(false);
            }
            self.filling = None;
            if is_last {
                self.end_request(cookie, common)?;
            }
            return Ok(true);
        }
        let is_read = |cookie| self.requests.get(&cookie).is_some_and(|request| request.kind == Kind::Read);
        let parsed = wire::reply(waiting, is_read).or_else(|text| complain("answers", text))?;
        let Some((bytes, Reply { cookie, is_last, body })) = parsed else { return Ok(false) };
        self.taken += bytes;
        let Some(request) = self.requests.get_mut(&cookie) else {
            return complain("answers", format!("request {cookie} was answered and is not in flight"));
        };
        match body {
            Body::Nothing => {}
            Body::Failed(errno) => request.failed = Some(errno),
            Body::AllData => self.filling = Some((cookie, 0, request.length as usize, true)),
            Body::Data { offset, bytes } | Body::Hole { offset, bytes } => {
                let end = offset.checked_add(bytes as u64);
                let within = offset >= request.offset
                    && end.is_some_and(|end| end <= request.offset + u64::from(request.length));
                if request.kind != Kind::Read || !within {
                    return complain("answers", format!("bytes {offset}+{bytes} answer {request:?}"));
                }
                let at = (offset - request.offset) as usize;
                if matches!(body, Body::Data { .. }) {
                    self.filling = Some((cookie, at, bytes, is_last));
                } else {
                    request.data[at..at + bytes].fill(0);
                    request.came += bytes as u32;
                }
            }
        }
        if self.filling.is_none() && is_last {
            self.end_request(cookie, common)?;
        }
        Ok(true)
    }

    fn end_request(&mut self, cookie: u64, common: &mut Common) -> Result<(), Complaint> {
        let request = self.requests.remove(&cookie).expect("it is in flight");
        common.answered += 1;
        let cells = request.cells();
        if let Some(errno) = request.failed {
            match request.kind {
                Kind::Write { .. } => common.oracle.end_write(request.number, cells, WriteEnd::Refused),
                Kind::Read => common.oracle.end_read(request.began),
                Kind::Flush | Kind::Hint => {}
            }
            let is_stop = errno == wire::ESHUTDOWN && common.is_stopping;
            let is_torn = common.may_lose_torn && common.oracle.may_be_torn(cells);
            if is_stop || is_torn || common.may_fail {
                return Ok(());
            }
            let (kind, offset, length) = (request.kind, request.offset, request.length);
            return complain(
                "errors",
                format!("{kind:?} of {length} bytes at {offset} failed: error {errno}"),
            );
        }
        match request.kind {
            Kind::Write { fua } => {
                common.oracle.end_write(request.number, cells, WriteEnd::Acknowledged { fua });
            }
            Kind::Flush => common.oracle.end_flush(request.began),
            Kind::Hint => {}
            Kind::Read => {
                if request.came != request.length {
                    let (came, length) = (request.came, request.length);
                    return complain("answers", format!("a read of {length} bytes was given {came}"));
                }
                let judged = judge(&request, &mut common.oracle);
                common.oracle.end_read(request.began);
                judged?;
            }
        }
        Ok(())
    }

    fn make_requests(&mut self, now: Nanos, common: &mut Common) {
        let has_room =
            |it: &Self| it.requests.len() < it.plan.depth as usize && it.outgoing.len() < 256 << 10;
        while now >= self.pauses_until && has_room(self) {
            if !self.make_request(now, common) {
                break;
            }
            if self.plan.pause_us > 0 {
                self.pauses_until = now + NanoSpan(1 + self.random.below(self.plan.pause_us * 1_000));
            }
            // Now and then only one.
            if self.random.below(3) == 0 {
                break;
            }
        }
        if self.is_through(common) && self.requests.is_empty() {
            self.stage = Stage::Leaving;
            wire::request(0, wire::DISCONNECT, 0, 0, 0, &mut self.outgoing);
        }
    }

    fn is_through(&self, common: &Common) -> bool {
        match self.plan.role {
            Role::ReadsAll => self.at >= common.volume_bytes,
            _ => common.requests_left == 0,
        }
    }

    /// Draws one. Returns whether there was one to be made.
    fn make_request(&mut self, now: Nanos, common: &mut Common) -> bool {
        if self.is_through(common) {
            return false;
        }
        if self.plan.role == Role::ReadsAll {
            let length = (common.volume_bytes - self.at).min(48 << 10) as u32;
            self.add(now, common, (wire::READ, 0), (self.at, length));
            self.at += u64::from(length);
            return true;
        }
        common.requests_left -= 1;
        self.made += 1;
        let choice = self.random.below(100) as u8;
        let fua = if self.random.chance_pct(self.plan.fua_pct) { wire::FLAG_FUA } else { 0 };
        let no_hole = if self.random.below(2) == 0 { wire::FLAG_NO_HOLE } else { 0 };
        let what = match self.plan.role {
            Role::Flushes if choice < 90 => (wire::FLUSH, 0),
            Role::Reads | Role::Flushes => (wire::READ, 0),
            _ if choice < self.plan.flush_pct => (wire::FLUSH, 0),
            Role::Zeroes if choice < 60 => (wire::WRITE_ZEROES, fua | no_hole),
            Role::Ragged if choice < 85 => (wire::WRITE, fua),
            _ if choice < 30 => (wire::READ, 0),
            _ if choice < 34 => (wire::CACHE, 0),
            _ if choice < 38 => (wire::TRIM, fua),
            _ if choice < 46 => (wire::WRITE_ZEROES, fua | no_hole),
            _ => (wire::WRITE, fua),
        };
        let range = if what.0 == wire::FLUSH { (0, 0) } else { self.range(common) };
        self.add(now, common, what, range);
        true
    }

    /// A range of whole cells, often aligned to blocks, mostly within the part of the volume that all clients use.
    fn range(&mut self, common: &Common) -> (u64, u32) {
        let align = [CELL_BYTES, 512, 4096, 4096][self.random.below(4) as usize].max(self.plan.align_min);
        let align = if self.plan.role == Role::Ragged { CELL_BYTES } else { align };
        let longest = self.plan.bytes_max.max(align) / align;
        let units = match self.random.below(3) {
            0 => 1,
            1 => 1 + self.random.below(longest.min(4)),
            _ => 1 + self.random.below(longest),
        };
        let length = (units * align).min(common.volume_bytes / 2);
        let within = if self.random.below(4) > 0 {
            common.volume_bytes.min(self.plan.hot_bytes)
        } else {
            common.volume_bytes
        };
        let places = within.max(length + align) - length;
        let offset = self.random.below(places / align + 1) * align;
        (offset.min(common.volume_bytes - length) / CELL_BYTES * CELL_BYTES, length as u32)
    }

    fn add(
        &mut self,
        now: Nanos,
        common: &mut Common,
        (code, flags): (u16, u16),
        (offset, length): (u64, u32),
    ) {
        let cookie = self.next_cookie;
        self.next_cookie += 1 + self.random.below(3);
        let number = common.next_number;
        common.next_number += 1;
        wire::request(flags, code, cookie, offset, length, &mut self.outgoing);
        let kind = match code {
            wire::READ => Kind::Read,
            wire::FLUSH => Kind::Flush,
            wire::WRITE | wire::WRITE_ZEROES => Kind::Write { fua: flags & wire::FLAG_FUA != 0 },
            _ => Kind::Hint,
        };
        let sent = |client: &Self| client.sent_before + client.outgoing.len() as u64;
        let start = sent(self);
        let data = vec![0xee; if kind == Kind::Read { length as usize } else { 0 }];
        let mut request = Request {
            kind,
            number,
            offset,
            length,
            began: 0,
            since: now,
            payload: (start, start),
            data,
            came: 0,
            failed: None,
        };
        let cells = request.cells();
        request.began = match kind {
            Kind::Read => common.oracle.begin_read(),
            Kind::Flush => common.oracle.begin_flush(),
            Kind::Hint => 0,
            Kind::Write { .. } if code == wire::WRITE_ZEROES => {
                common.oracle.begin_write(number, cells, Value::Zeros)
            }
            Kind::Write { .. } => {
                let from = self.outgoing.len();
                self.outgoing.resize(from + length as usize, 0);
                fill(cells.first, number, &mut self.outgoing[from..]);
                common.oracle.begin_write(number, cells, Value::Write(number))
            }
        };
        request.payload.1 = sent(self);
        if self.plan.stalls && request.payload.1 > start && self.may_be_sent() == self.outgoing.len() {
            let at = start + self.random.below(request.payload.1 - start);
            self.stall = (self.random.below(3) == 0).then_some((at, cookie));
        }
        self.requests.insert(cookie, request);
    }
}

/// Whether all that a read brought may be there.
fn judge(request: &Request, oracle: &mut Oracle) -> Result<(), Complaint> {
    let first = request.cells().first;
    for (cell, bytes) in (first..).zip(request.data.chunks_exact(CELL_BYTES as usize)) {
        let found = read_cell(cell, bytes);
        let judged = found.and_then(|value| {
            let judged = oracle.judge(request.began, cell, value);
            judged.map_err(|text| format!("{value:?} was read there; {text}"))
        });
        judged.or_else(|text| complain("bytes", format!("cell {cell}: {text}")))?;
    }
    Ok(())
}
