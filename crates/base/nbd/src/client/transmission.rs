//! The client's transmission: requests to bytes, and bytes to ends of requests.
//!
//! ```text
//! submit ─► header bytes (the world sends the payload of a write behind them)
//! handle_bytes ─► Payload: the next bytes of the stream belong at a place of a read
//!              ─► Zeroes: a part of a read is zero
//!              ─► Ended
//! ```
//! A cookie is the request's place in the table and the number of uses of that place, so a duplicate reply is detected.
//! Each byte of a read must come once: received bytes are tracked in ranges.
//!
//! Invariant: the first fault is kept, and nothing is parsed after it. The world knows by its tags which requests were
//! in flight then.

use super::fault::ServerFault;
use super::handshake::ClientAgreement;
use super::ranges::{RangeError, Ranges};
use crate::export::{STRING_BYTES_MAX, TransmissionFlags};
use crate::op::{Errno, Op};
use crate::wire::{
    CHUNK_HEADER_BYTES, Fields, MESSAGE_BYTES_MAX, REQUEST_BYTES, RequestHeader, SIMPLE_REPLY_BYTES,
    SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC, chunk, command, command_flag,
};

/// Something to be done by a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientRequest {
    /// What.
    pub op: Op,
    /// First byte of the export; 0 for a flush.
    pub offset: u64,
    /// How many bytes, 0 for a flush only.
    pub length: u32,
}

/// Why a request can't be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many as may be are in flight.
    #[error("as many requests as may be are in flight")]
    Full,
    /// The server did not offer it.
    #[error("the server does not offer it")]
    NotOffered,
    /// It ends past the end, or is empty.
    #[error("it is not within the export")]
    OutOfRange,
    /// It is not whole minimum blocks.
    #[error("it is not whole blocks of the server's minimum size")]
    Unaligned,
    /// It is longer than the longest payload.
    #[error("it is longer than the server's longest payload")]
    TooLong,
}

/// What bytes from the server mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// Bring more bytes.
    More,
    /// The next `length` bytes of the stream belong `at` bytes into the read: take exactly so many off the stream
    /// before asking again.
    Payload {
        /// The world's name of the read.
        tag: u64,
        /// Where, from the start of the read.
        at: u32,
        /// How many bytes.
        length: u32,
    },
    /// So many bytes of the read are zero.
    Zeroes {
        /// The world's name of the read.
        tag: u64,
        /// Where, from the start of the read.
        at: u32,
        /// How many bytes.
        length: u32,
    },
    /// A request ended.
    Ended {
        /// The world's name of it.
        tag: u64,
        /// How.
        result: Result<(), Errno>,
    },
}

#[derive(Clone, Debug)]
struct Pending {
    in_flight: bool,
    /// How often the place was used; the upper part of the cookie.
    uses: u32,
    tag: u64,
    reads: bool,
    offset: u64,
    length: u32,
    error: Option<Errno>,
    ranges: Ranges,
}

/// The transmission of one connection on the client's side.
#[derive(Debug)]
pub struct ClientTransmission {
    agreement: ClientAgreement,
    requests: Vec<Pending>,
    free: Vec<u16>,
    /// A request whose last payload was announced, so that it ends when that was taken.
    ending: Option<u16>,
    fault: Option<ServerFault>,
}

impl ClientTransmission {
    /// Begins a transmission with at most `requests_max` requests in flight.
    pub fn new(agreement: ClientAgreement, requests_max: u16) -> Self {
        let idle = || Pending {
            in_flight: false,
            uses: 0,
            tag: 0,
            reads: false,
            offset: 0,
            length: 0,
            error: None,
            ranges: Ranges::new(),
        };
        Self {
            agreement,
            requests: (0..requests_max).map(|_| idle()).collect(),
            free: (0..requests_max).rev().collect(),
            ending: None,
            fault: None,
        }
    }

    /// Returns what was agreed on with the server.
    pub const fn agreement(&self) -> &ClientAgreement {
        &self.agreement
    }

    /// Returns how many requests are in flight.
    pub fn in_flight(&self) -> u16 {
        (self.requests.len() - self.free.len()) as u16
    }

    /// Returns the length of what comes before the data of a read, in bytes.
    pub const fn data_head_bytes(&self) -> usize {
        if self.agreement.structured { CHUNK_HEADER_BYTES + 8 } else { SIMPLE_REPLY_BYTES }
    }

    /// Takes a request under the world's name `tag` and returns the bytes to send; a write's payload goes behind
    /// them.
    ///
    /// # Errors
    /// [`SubmitError`] if it can't be sent now, or never.
    pub fn submit(&mut self, request: ClientRequest, tag: u64) -> Result<[u8; REQUEST_BYTES], SubmitError> {
        self.check(request)?;
        let place = self.free.pop().ok_or(SubmitError::Full)?;
        let pending = &mut self.requests[usize::from(place)];
        pending.in_flight = true;
        pending.uses = pending.uses.wrapping_add(1);
        pending.tag = tag;
        pending.reads = request.op == Op::Read;
        pending.offset = request.offset;
        pending.length = request.length;
        pending.error = None;
        pending.ranges.clear();
        let cookie = u64::from(pending.uses) << 32 | u64::from(place);
        let no_hole = matches!(request.op, Op::WriteZeroes { no_hole: true, .. });
        let fua = if request.op.is_fua() { command_flag::FUA } else { 0 };
        let flags = fua | if no_hole { command_flag::NO_HOLE } else { 0 };
        let (command, offset, length) = (request.op.command(), request.offset, request.length);
        Ok(RequestHeader { flags, command, cookie, offset, length }.encode())
    }

    /// Returns the bytes that say good-bye. Nothing may be sent after them; best sent when nothing is in flight.
    pub fn disconnect(&self) -> [u8; REQUEST_BYTES] {
        RequestHeader { flags: 0, command: command::DISC, cookie: 0, offset: 0, length: 0 }.encode()
    }

    fn check(&self, request: ClientRequest) -> Result<(), SubmitError> {
        use TransmissionFlags as Flags;
        let (op, sizes) = (request.op, self.agreement.block_sizes);
        let offers = |flag| self.agreement.flags.contains(flag);
        let offered = match op {
            Op::Read => true,
            Op::Write { .. } => !offers(Flags::READ_ONLY),
            Op::WriteZeroes { .. } => !offers(Flags::READ_ONLY) && offers(Flags::SEND_WRITE_ZEROES),
            Op::Trim { .. } => !offers(Flags::READ_ONLY) && offers(Flags::SEND_TRIM),
            Op::Cache => offers(Flags::SEND_CACHE),
            Op::Flush => offers(Flags::SEND_FLUSH),
        };
        if !offered || op.is_fua() && !offers(Flags::SEND_FUA) {
            return Err(SubmitError::NotOffered);
        }
        if op == Op::Flush {
            let empty = request.offset == 0 && request.length == 0;
            return if empty { Ok(()) } else { Err(SubmitError::OutOfRange) };
        }
        let end = request.offset.checked_add(u64::from(request.length));
        if request.length == 0 || end.is_none_or(|end| end > self.agreement.size_bytes) {
            return Err(SubmitError::OutOfRange);
        }
        if !sizes.are_kept_by(request.offset, request.length) {
            return Err(SubmitError::Unaligned);
        }
        let has_payload = matches!(op, Op::Read | Op::Write { .. });
        if has_payload && request.length > sizes.payload_max() {
            return Err(SubmitError::TooLong);
        }
        Ok(())
    }

    /// Takes in bytes from the server up to the first event. Returns how many bytes it used and the event; unused
    /// ones are to be given again, with more behind them, except those that a payload took.
    ///
    /// # Errors
    /// [`ServerFault`] if the connection can't go on; the same again afterwards.
    pub fn handle_bytes(&mut self, input: &[u8]) -> Result<(usize, ClientEvent), ServerFault> {
        if let Some(fault) = &self.fault {
            return Err(fault.clone());
        }
        if let Some(place) = self.ending.take() {
            let event = self.end(place).inspect_err(|fault| self.fault = Some(fault.clone()))?;
            return Ok((0, event));
        }
        let mut used = 0;
        loop {
            match self.take(&input[used..]) {
                Ok((0, _)) => return Ok((used, ClientEvent::More)),
                Ok((taken, Some(event))) => return Ok((used + taken, event)),
                Ok((taken, None)) => used += taken,
                Err(fault) => {
                    self.fault = Some(fault.clone());
                    return Err(fault);
                }
            }
        }
    }

    /// Takes in one message and returns its length, 0 where it is not whole, and the event, if it is one.
    fn take(&mut self, input: &[u8]) -> Result<(usize, Option<ClientEvent>), ServerFault> {
        let mut fields = Fields::new(input);
        match fields.u32() {
            None => Ok((0, None)),
            Some(SIMPLE_REPLY_MAGIC) => {
                let (Some(error), Some(cookie)) = (fields.u32(), fields.u64()) else { return Ok((0, None)) };
                let event = self.take_simple(error, cookie)?;
                Ok((SIMPLE_REPLY_BYTES, Some(event)))
            }
            Some(STRUCTURED_REPLY_MAGIC) if self.agreement.structured => self.take_chunk(fields),
            Some(_) => Err(ServerFault::ReplyMagic),
        }
    }

    fn place_of(&self, cookie: u64) -> Result<u16, ServerFault> {
        let place = (cookie & u64::from(u32::MAX)) as usize;
        match self.requests.get(place) {
            Some(request) if request.in_flight && u64::from(request.uses) == cookie >> 32 => Ok(place as u16),
            _ => Err(ServerFault::UnknownCookie(cookie)),
        }
    }

    fn take_simple(&mut self, error: u32, cookie: u64) -> Result<ClientEvent, ServerFault> {
        let place = self.place_of(cookie)?;
        let structured = self.agreement.structured;
        let request = &mut self.requests[usize::from(place)];
        if request.reads && structured {
            return Err(ServerFault::Reply { what: "a simple reply to a read" });
        }
        if error != 0 {
            request.error = Some(Errno::from_number(error));
            return self.end(place);
        }
        if !request.reads {
            return self.end(place);
        }
        let (tag, at, length) = (request.tag, 0, request.length);
        let whole = request.ranges.add(at, length);
        assert_eq!(whole, Ok(()), "the first payload of a read overlaps nothing");
        self.ending = Some(place);
        Ok(ClientEvent::Payload { tag, at, length })
    }

    fn take_chunk(&mut self, mut fields: Fields<'_>) -> Result<(usize, Option<ClientEvent>), ServerFault> {
        let (Some(flags), Some(kind), Some(cookie), Some(length)) =
            (fields.u16(), fields.u16(), fields.u64(), fields.u32())
        else {
            return Ok((0, None));
        };
        let place = self.place_of(cookie)?;
        let done = flags & chunk::FLAG_DONE != 0;
        if kind == chunk::OFFSET_DATA {
            let Some(offset) = fields.u64() else { return Ok((0, None)) };
            let event = self.take_data(place, done, offset, length)?;
            return Ok((CHUNK_HEADER_BYTES + 8, Some(event)));
        }
        if length as usize > MESSAGE_BYTES_MAX - CHUNK_HEADER_BYTES {
            return Err(ServerFault::MessageTooLong(length));
        }
        let Some(data) = fields.take(length as usize) else { return Ok((0, None)) };
        let event = match kind {
            chunk::NONE if done && data.is_empty() => Some(self.end(place)?),
            chunk::NONE => return Err(ServerFault::Reply { what: "an empty chunk that is not the last" }),
            chunk::OFFSET_HOLE => Some(self.take_hole(place, done, data)?),
            kind if kind & chunk::ERROR_BIT != 0 => self.take_error(place, done, kind, data)?,
            _ => return Err(ServerFault::Reply { what: "a chunk of an unexpected type" }),
        };
        Ok((CHUNK_HEADER_BYTES + data.len(), event))
    }

    fn take_data(
        &mut self,
        place: u16,
        done: bool,
        offset: u64,
        chunk_length: u32,
    ) -> Result<ClientEvent, ServerFault> {
        let length = chunk_length.checked_sub(8).filter(|length| *length > 0);
        let length = length.ok_or(ServerFault::Reply { what: "a chunk of data without data" })?;
        let (tag, at) = self.count_data(place, done, offset, length)?;
        Ok(ClientEvent::Payload { tag, at, length })
    }

    fn take_hole(&mut self, place: u16, done: bool, data: &[u8]) -> Result<ClientEvent, ServerFault> {
        let mut fields = Fields::new(data);
        let (Some(offset), Some(length), []) = (fields.u64(), fields.u32(), fields.rest()) else {
            return Err(ServerFault::Reply { what: "a hole of a wrong length" });
        };
        if length == 0 {
            return Err(ServerFault::Reply { what: "an empty hole" });
        }
        let (tag, at) = self.count_data(place, done, offset, length)?;
        Ok(ClientEvent::Zeroes { tag, at, length })
    }

    /// Counts a part of a read as come. Returns the tag and the place in the read.
    fn count_data(
        &mut self,
        place: u16,
        done: bool,
        offset: u64,
        length: u32,
    ) -> Result<(u64, u32), ServerFault> {
        let request = &mut self.requests[usize::from(place)];
        if !request.reads {
            return Err(ServerFault::Reply { what: "data for a request that is no read" });
        }
        let range = ServerFault::Range { offset, length };
        let at = offset.checked_sub(request.offset).filter(|at| *at < u64::from(request.length));
        let Some(at) = at.map(|at| at as u32).filter(|at| request.length - at >= length) else {
            return Err(range);
        };
        request.ranges.add(at, length).map_err(|error| match error {
            RangeError::Overlap => range,
            RangeError::Full => ServerFault::Scattered,
        })?;
        self.ending = done.then_some(place);
        Ok((request.tag, at))
    }

    fn take_error(
        &mut self,
        place: u16,
        done: bool,
        kind: u16,
        data: &[u8],
    ) -> Result<Option<ClientEvent>, ServerFault> {
        const WRONG: ServerFault = ServerFault::Reply { what: "an error of a wrong length" };
        let mut fields = Fields::new(data);
        let (error, message) = (fields.u32().ok_or(WRONG)?, fields.u16().ok_or(WRONG)?);
        fields.take(usize::from(message)).ok_or(WRONG)?;
        if usize::from(message) > STRING_BYTES_MAX {
            return Err(WRONG);
        }
        if error == 0 {
            return Err(ServerFault::Reply { what: "an error without a number" });
        }
        let request = &mut self.requests[usize::from(place)];
        if kind == chunk::ERROR_OFFSET {
            let offset = fields.u64().ok_or(WRONG)?;
            let at = offset.checked_sub(request.offset);
            if at.is_none_or(|at| at > u64::from(request.length)) {
                return Err(ServerFault::Range { offset, length: 0 });
            }
        }
        if matches!(kind, chunk::ERROR | chunk::ERROR_OFFSET) && !fields.rest().is_empty() {
            return Err(WRONG);
        }
        request.error = request.error.or(Some(Errno::from_number(error)));
        if done { self.end(place).map(Some) } else { Ok(None) }
    }

    fn end(&mut self, place: u16) -> Result<ClientEvent, ServerFault> {
        let request = &mut self.requests[usize::from(place)];
        if request.reads && request.error.is_none() && !request.ranges.cover(request.length) {
            return Err(ServerFault::Incomplete);
        }
        request.in_flight = false;
        self.free.push(place);
        Ok(ClientEvent::Ended { tag: request.tag, result: request.error.map_or(Ok(()), Err) })
    }
}
