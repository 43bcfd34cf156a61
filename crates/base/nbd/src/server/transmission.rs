//! The server's transmission: bytes to requests, requests to pieces, ended pieces to replies.
//!
//! ```text
//! handle_bytes ─► table of requests ─► peek_piece, start_piece ─┐
//!      └─ Payload ─► start_payload ─────────────────────────────┼─► the world works on pieces
//!                                                               │
//! poll_output ◄── ready ◄── (parked: simple reads, in order) ◄── handle_piece_end
//! ```
//! Pieces fit the world's buffers, so a long request needs few of them at once. Structured reads are sent chunk by
//! chunk as pieces end. A simple reply to a read is one uninterrupted stream of bytes: pieces that end early are
//! *parked*. A reply of more than one piece begins only when it can't wait for a buffer that another reply holds: when
//! all its pieces are started, or no other read has any. Reads get their pieces first come, first served, so the second
//! case always comes. If such a reply has begun and a later piece fails, the connection can only be cut.
//!
//! Write zeroes and cache can request 4 GiB in 28 bytes. They are *bulk*: few of their pieces are started at once, and
//! other requests overtake them.
//!
//! A request leaves the table when its last reply is taken, so that a client that does not read can't make the server
//! accept more.
//!
//! Left out: extents other than "allocated" for block status, which the protocol always allows.
//! Source: the document, "Transmission", "Request types".

use super::handshake::{ALLOCATION_ID, ClientFault, ServerAgreement};
use super::reply::{BufferId, Head, Output, Payload};
use super::request::{Kind, Piece, PieceEnd, Request, Rules};
use crate::export::Export;
use crate::op::{Errno, Op};
use crate::wire::{REQUEST_BYTES, RequestHeader, command};
use std::collections::VecDeque;

/// Smallest piece, in bytes: reads up to here must be answered in one chunk when the client asks for that.
pub const PIECE_BYTES_MIN: u32 = 1 << 16;

/// What one connection may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Requests in flight; beyond it no more bytes are taken in.
    pub requests: u16,
    /// Pieces in flight, over all requests.
    pub pieces: u16,
    /// Pieces of write zeroes and cache in flight, over all requests.
    pub bulk_pieces: u16,
    /// Longest piece, in bytes: the length of the world's buffers.
    pub piece_bytes: u32,
}

/// What the bytes that came mean for the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// Bring more bytes.
    More,
    /// Too much is in flight: ask again after pieces have ended and replies are handed out.
    Full,
    /// The next bytes are the payload of this piece: call [`ServerTransmission::start_payload`] when there is a
    /// buffer, and take exactly its length off the stream before asking again.
    Payload(Piece),
    /// The client says good-bye; no more bytes are taken in. Close when [`ServerTransmission::is_idle`].
    Disconnect,
    /// The connection can't go on.
    Fault(ClientFault),
}

/// Whose a buffer is after its piece has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The world's.
    Free,
    /// It holds what is to be sent, and comes back with an [`Output`].
    Kept,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Header,
    /// The payload of this write comes.
    Payload(u16),
    /// The rest of the payload of this write, in bytes, is of no use.
    Skip(u16, u32),
    Closed,
    Fault(ClientFault),
}

/// A piece of a read that has ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    piece: Piece,
    buffer: BufferId,
    end: PieceEnd,
}

#[derive(Clone, Copy, Debug)]
enum Ready {
    /// The only reply of this request.
    Whole(u16),
    /// Some of a read.
    Part(Ended),
    Free(BufferId),
}

/// The transmission of one connection on the server's side.
#[derive(Debug)]
pub struct ServerTransmission {
    rules: Rules,
    structured: bool,
    limits: ServerLimits,
    input: Input,
    requests: Vec<Request>,
    free: Vec<u16>,
    /// Requests without payload that have pieces to give out, in their order.
    startable: VecDeque<u16>,
    /// Pieces given out that are not ended, or ended and not handed out.
    pieces: u16,
    /// Those of them that are of reads.
    read_pieces: u32,
    /// Those of them that are bulk.
    bulk_pieces: u16,
    ready: VecDeque<Ready>,
    /// Pieces of simple reads of more than one piece that wait for their turn.
    parked: Vec<Ended>,
    /// The read whose simple reply has begun and not ended.
    streaming: Option<u16>,
    shutting_down: bool,
}

impl ServerTransmission {
    /// Begins the transmission of `export`. The limits must allow one request and one piece, and pieces must be at
    /// least [`PIECE_BYTES_MIN`] long and whole minimum blocks.
    ///
    /// # Panics
    /// If the limits have no room for the largest request that was agreed on.
    pub fn new(export: &Export, agreement: ServerAgreement, limits: ServerLimits) -> Self {
        let ServerLimits { requests, pieces, bulk_pieces, piece_bytes } = limits;
        let all_go = requests > 0 && pieces > 0 && bulk_pieces > 0;
        assert!(all_go, "some requests could never be done with {limits:?}");
        assert!(piece_bytes >= PIECE_BYTES_MIN, "pieces of {piece_bytes} bytes are too short");
        let minimum = export.block_sizes.minimum();
        assert!(piece_bytes.is_multiple_of(minimum), "pieces of {piece_bytes} bytes in blocks of {minimum}");
        let waiting = usize::from(requests) + 2 * usize::from(pieces);
        Self {
            rules: Rules::new(export, agreement.structured, agreement.allocation, piece_bytes),
            structured: agreement.structured,
            limits,
            input: Input::Header,
            requests: vec![Request::IDLE; usize::from(requests)],
            free: (0..requests).rev().collect(),
            startable: VecDeque::with_capacity(usize::from(requests)),
            pieces: 0,
            read_pieces: 0,
            bulk_pieces: 0,
            ready: VecDeque::with_capacity(waiting),
            parked: Vec::with_capacity(usize::from(pieces)),
            streaming: None,
            shutting_down: false,
        }
    }

    /// Takes in bytes from the client: as many requests as there are, up to the next payload. Returns how many
    /// bytes it used and why it stopped; unused ones are to be given again, with more behind them.
    pub fn handle_bytes(&mut self, input: &[u8]) -> (usize, Intake) {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            match self.input {
                Input::Header => {
                    let Some(bytes) = rest.first_chunk::<REQUEST_BYTES>() else {
                        return (used, Intake::More);
                    };
                    match self.take_header(bytes) {
                        Some(intake) => return (used, intake),
                        None => used += REQUEST_BYTES,
                    }
                }
                Input::Payload(place) => {
                    let request = &self.requests[usize::from(place)];
                    let Kind::Op(op) = request.kind else { unreachable!("only writes have payloads") };
                    if request.error.is_some() {
                        self.input = Input::Skip(place, request.length - request.cut);
                    } else if self.pieces == self.limits.pieces {
                        return (used, Intake::Full);
                    } else {
                        let piece = request.next_piece(place, op, self.limits.piece_bytes);
                        return (used, Intake::Payload(piece));
                    }
                }
                Input::Skip(place, left) => {
                    let skipped = rest.len().min(left as usize);
                    used += skipped;
                    if skipped < left as usize {
                        self.input = Input::Skip(place, left - skipped as u32);
                        return (used, Intake::More);
                    }
                    self.input = Input::Header;
                    self.requests[usize::from(place)].all_cut = true;
                    self.finish_if_done(place);
                }
                Input::Closed => return (used, Intake::Disconnect),
                Input::Fault(fault) => return (used, Intake::Fault(fault)),
            }
        }
    }

    /// Takes in one header. Returns why to stop instead of taking it, if there is a reason.
    fn take_header(&mut self, bytes: &[u8; REQUEST_BYTES]) -> Option<Intake> {
        let Some(header) = RequestHeader::decode(bytes) else {
            return Some(self.fault(ClientFault::RequestMagic));
        };
        if header.command == command::DISC {
            self.input = Input::Closed;
            return Some(Intake::Disconnect);
        }
        let writes = header.command == command::WRITE;
        if writes && header.length > self.rules.write_bytes_max() {
            return Some(self.fault(ClientFault::WriteTooLong(header.length)));
        }
        let Some(place) = self.free.pop() else { return Some(Intake::Full) };
        let checked = if self.shutting_down { Err(Errno::ShuttingDown) } else { self.rules.check(&header) };
        self.requests[usize::from(place)] = Request {
            kind: checked.unwrap_or(Kind::Refused),
            reads: header.command == command::READ,
            cookie: header.cookie,
            offset: header.offset,
            length: header.length,
            error: checked.err(),
            all_cut: false,
            ..Request::IDLE
        };
        match checked {
            Err(_) if writes => self.input = Input::Skip(place, header.length),
            Ok(Kind::Op(Op::Write { .. })) if header.length > 0 => self.input = Input::Payload(place),
            Ok(Kind::Op(op)) if header.length > 0 || op == Op::Flush => self.startable.push_back(place),
            _ => self.ready.push_back(Ready::Whole(place)),
        }
        None
    }

    fn fault(&mut self, fault: ClientFault) -> Intake {
        self.input = Input::Fault(fault);
        Intake::Fault(fault)
    }

    /// Gives out the piece whose payload comes next. Only after [`Intake::Payload`] (asserted); the piece must end
    /// in [`ServerTransmission::handle_piece_end`].
    pub fn start_payload(&mut self) -> Piece {
        let Input::Payload(place) = self.input else { unreachable!("no payload comes next") };
        let request = &mut self.requests[usize::from(place)];
        let Kind::Op(op) = request.kind else { unreachable!("only writes have payloads") };
        let piece = request.next_piece(place, op, self.limits.piece_bytes);
        request.count_piece(piece.length);
        if request.all_cut {
            self.input = Input::Header;
        }
        self.pieces += 1;
        piece
    }

    /// Returns the next piece of a request without payload, if one may be started.
    pub fn peek_piece(&self) -> Option<Piece> {
        self.startable_piece().map(|(_, piece)| piece)
    }

    /// The next piece, and where in the line its request stands.
    fn startable_piece(&self) -> Option<(usize, Piece)> {
        if self.pieces == self.limits.pieces || matches!(self.input, Input::Fault(_)) {
            return None;
        }
        let bulk_may = self.bulk_pieces < self.limits.bulk_pieces;
        let may = |place: &u16| bulk_may || !self.op_of(*place).is_bulk();
        let found = self.startable.iter().position(may)?;
        let place = self.startable[found];
        let request = &self.requests[usize::from(place)];
        Some((found, request.next_piece(place, self.op_of(place), self.limits.piece_bytes)))
    }

    fn op_of(&self, place: u16) -> Op {
        let Kind::Op(op) = self.requests[usize::from(place)].kind else {
            unreachable!("only operations have pieces")
        };
        op
    }

    /// Gives out the piece that [`ServerTransmission::peek_piece`] returned last. There must be one;
    /// it must end in [`ServerTransmission::handle_piece_end`].
    ///
    /// # Panics
    /// If no piece may be started.
    pub fn start_piece(&mut self) -> Piece {
        let (found, piece) = self.startable_piece().expect("a piece may be started");
        let request = &mut self.requests[usize::from(piece.request)];
        request.count_piece(piece.length);
        let (reads, all_cut) = (request.reads, request.all_cut);
        if all_cut || !reads {
            self.startable.remove(found);
        }
        if !all_cut && !reads {
            // A long one without data lets the others pass; reads stay in order, see the head.
            self.startable.push_back(piece.request);
        }
        self.pieces += 1;
        self.read_pieces += u32::from(reads);
        self.bulk_pieces += u16::from(piece.op.is_bulk());
        piece
    }

    /// Takes in the end of a piece that worked in `buffer`, whose number the world chose. Returns whose the buffer is.
    ///
    /// # Panics
    /// If the piece is not running.
    pub fn handle_piece_end(&mut self, piece: Piece, buffer: BufferId, end: PieceEnd) -> Fate {
        let place = piece.request;
        let request = &mut self.requests[usize::from(place)];
        assert!(request.running > 0, "{piece:?} ended twice");
        let failed = match end {
            PieceEnd::Failed(errno) => Some(errno),
            PieceEnd::Done | PieceEnd::Zeroes => None,
        };
        let failed_before = request.error.is_some();
        request.error = request.error.or(failed);
        if failed.is_some() && !request.all_cut && !matches!(piece.op, Op::Write { .. }) {
            request.all_cut = true;
            self.startable.retain(|waiting| *waiting != place);
        }
        let part = Ended { piece, buffer, end };
        if !request.reads {
            request.running -= 1;
            self.pieces -= 1;
            self.bulk_pieces -= u16::from(piece.op.is_bulk());
            self.finish_if_done(place);
            return Fate::Free;
        }
        if self.structured {
            self.ready.push_back(Ready::Part(part));
            return if end == PieceEnd::Done { Fate::Kept } else { Fate::Free };
        }
        if failed.is_some() || failed_before {
            self.fail_simple_read(place);
            return Fate::Free;
        }
        if piece.length == request.length {
            self.ready.push_back(Ready::Part(part));
        } else {
            self.parked.push(part);
        }
        Fate::Kept
    }

    /// A piece of a simple read is of no use, because it or another one failed.
    fn fail_simple_read(&mut self, place: u16) {
        if self.streaming == Some(place) {
            self.fault(ClientFault::ReadFailed);
        }
        let mut gone = 1;
        let ready = &mut self.ready;
        self.parked.retain(|part| {
            let other = part.piece.request != place;
            if !other {
                ready.push_back(Ready::Free(part.buffer));
                gone += 1;
            }
            other
        });
        self.requests[usize::from(place)].running -= u32::from(gone);
        self.pieces -= gone;
        self.read_pieces -= u32::from(gone);
        self.finish_if_done(place);
    }

    /// Answers a request that is answered as a whole, if nothing of it is left to be done.
    fn finish_if_done(&mut self, place: u16) {
        let request = &self.requests[usize::from(place)];
        if request.all_cut && request.running == 0 {
            self.ready.push_back(Ready::Whole(place));
        }
    }

    /// Returns what to send or free next. After a fault nothing is sent any more.
    pub fn poll_output(&mut self) -> Option<Output> {
        if matches!(self.input, Input::Fault(_)) {
            return None;
        }
        if self.streaming.is_none() {
            match self.ready.pop_front() {
                Some(Ready::Whole(place)) => return Some(Output::Reply(self.reply(place), None)),
                Some(Ready::Part(part)) => return Some(self.reply_part(part)),
                Some(Ready::Free(buffer)) => return Some(Output::Free(buffer)),
                None => {}
            }
        }
        self.poll_stream()
    }

    /// The reply of a request as a whole; its place is free afterwards.
    fn reply(&mut self, place: u16) -> Head {
        let request = self.requests[usize::from(place)];
        self.free.push(place);
        match request.error {
            Some(errno) if self.structured => Head::error(request.cookie, errno),
            None if request.kind == Kind::BlockStatus => {
                Head::block_status(request.cookie, ALLOCATION_ID, request.length, 0)
            }
            None if request.reads && self.structured => Head::none(request.cookie),
            error => Head::simple(request.cookie, error),
        }
    }

    /// A chunk of a structured read, or all of a simple one.
    fn reply_part(&mut self, part: Ended) -> Output {
        let Ended { piece, buffer, end } = part;
        let (cookie, done) = self.count_handed_out(piece.request);
        let head = match end {
            PieceEnd::Done | PieceEnd::Zeroes if !self.structured => Head::simple(cookie, None),
            PieceEnd::Done => Head::data(cookie, done, piece.offset, piece.length),
            PieceEnd::Zeroes => Head::hole(cookie, done, piece.offset, piece.length),
            PieceEnd::Failed(errno) => Head::error_at(cookie, done, errno, piece.offset),
        };
        let has_payload = !self.structured || end == PieceEnd::Done;
        Output::Reply(head, has_payload.then_some(Payload { buffer, length: piece.length }))
    }

    /// Counts a piece of a read as handed out. Returns the cookie and whether it was the last, which frees the place.
    fn count_handed_out(&mut self, place: u16) -> (u64, bool) {
        let request = &mut self.requests[usize::from(place)];
        request.running -= 1;
        self.pieces -= 1;
        self.read_pieces -= 1;
        let last = request.all_cut && request.running == 0;
        if last {
            self.free.push(place);
        }
        (request.cookie, last)
    }

    /// The next part of the simple reply that has begun, or the first of one that may begin.
    fn poll_stream(&mut self) -> Option<Output> {
        let found = self.parked.iter().position(|part| {
            let request = &self.requests[usize::from(part.piece.request)];
            let next = part.piece.offset - request.offset == u64::from(request.replied);
            let alone = request.all_cut || self.read_pieces == request.running;
            next && self.streaming.map_or(alone, |streaming| streaming == part.piece.request)
        })?;
        let Ended { piece, buffer, .. } = self.parked.swap_remove(found);
        let request = &mut self.requests[usize::from(piece.request)];
        let head = if request.replied == 0 { Head::simple(request.cookie, None) } else { Head::EMPTY };
        request.replied += piece.length;
        let (_, last) = self.count_handed_out(piece.request);
        self.streaming = (!last).then_some(piece.request);
        Some(Output::Reply(head, Some(Payload { buffer, length: piece.length })))
    }

    /// From here on new requests are refused, because the server is about to stop. Those in flight go on.
    pub const fn handle_shutdown(&mut self) {
        self.shutting_down = true;
    }

    /// Returns whether new requests are refused.
    pub const fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Returns why the connection can't go on, if it can't.
    pub const fn fault_found(&self) -> Option<ClientFault> {
        match self.input {
            Input::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// Returns whether no request is in flight and all replies are handed out.
    pub fn is_idle(&self) -> bool {
        self.free.len() == self.requests.len() && self.ready.is_empty()
    }

    /// Returns the pieces that are given out, or ended and not handed out.
    pub const fn pieces_in_flight(&self) -> u16 {
        self.pieces
    }
}
