//! A member that is an NBD export of a running array: one connection on the array's ring, many requests in flight.
//!
//! ```text
//! member I/O ─► parts ─► queue ─► outbox ──sendmsg: alternating heads and array memory──► server
//!                                  inbox ◄──recv: heads, short payloads── server
//!              array's memory ◄──recvmsg: long payloads, into their place── server
//! ```
//! A part is what one request may carry. At most one receive and one send are in flight; a receive always is, so that
//! the end of a connection is noticed at once. While long reads are in flight only one head is received at a time, so
//! that its payload goes to its place without a copy.
//!
//! Invariants: memory of a member I/O is touched only until its part has ended; a closing link starts nothing, and its
//! parts end only when the kernel holds no entry of it.
//!
//! Left out: connecting, which [`crate::device`] does, and reconnecting, which takes a command. Source: "The NBD
//! protocol".

use crate::device::{Flushing, Remote};
use crate::error::RingError;
use crate::pieces::{Stored, cut, store};
use crate::ring::{LinkEntry, PIECES_PER_ENTRY, Ring};
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{IoVec, MessageHeader};
use raidlab_nbd::{ClientEvent, ClientRequest, ClientTransmission, MESSAGE_BYTES_MAX, Op, REQUEST_BYTES};
use raidlab_units::Nanos;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Requests in flight; more wait here.
const REQUESTS_MAX: u16 = 128;
/// Length of the inbox: many replies to short reads.
const INBOX_BYTES: usize = 128 << 10;
const _: () =
    assert!(INBOX_BYTES > 2 * MESSAGE_BYTES_MAX, "the longest message fits behind what is left of another");
/// A payload of which so much is missing is received into its place, not into the inbox, in bytes.
const DIRECT_BYTES_MIN: u32 = 16 << 10;
/// A reply's bytes before the data of a read: a structured chunk's head and its offset, or a simple reply.
const STRUCTURED_HEAD_BYTES: usize = 28;
const SIMPLE_HEAD_BYTES: usize = 16;

/// A part of a member I/O: one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Number of the member I/O.
    pub(crate) io: u32,
    /// What to do.
    pub(crate) op: Op,
    /// First byte on the export.
    pub(crate) offset: u64,
    /// First byte in the memory of the I/O.
    pub(crate) at: u64,
    /// How many; 0 for a flush only.
    pub(crate) bytes: u32,
}

/// The end of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartEnd {
    /// Number of the member I/O.
    pub(crate) io: u32,
    /// Bytes moved, or why not.
    pub(crate) result: Result<u32, Errno>,
}

/// A payload that comes.
#[derive(Clone, Copy, Debug)]
struct Filling {
    io: u32,
    at: u64,
    missing: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Nothing,
    IntoInbox,
    IntoPlace,
}

/// What is being sent.
#[derive(Debug)]
struct Outbox {
    heads: Box<[u8]>,
    head_bytes: usize,
    pieces: Vec<IoVec>,
    /// Pieces that are sent.
    sent: usize,
    header: Box<MessageHeader>,
    in_flight: bool,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Link {
    socket: OwnedFd,
    /// Its place among the ring's files.
    file: FileRef,
    /// The name of its entries.
    number: u32,
    transmission: ClientTransmission,
    flushing: Flushing,
    queue: VecDeque<Part>,
    /// Requests in flight by their tags, and since when.
    sent: Vec<Option<(Part, Nanos)>>,
    free: Vec<u16>,
    /// Reads in flight whose payload is worth its own entry.
    long_reads: u32,
    inbox: Box<[u8]>,
    start: usize,
    end: usize,
    receiving: Receiving,
    filling: Option<Filling>,
    places: Vec<IoVec>,
    place_header: Box<MessageHeader>,
    outbox: Outbox,
    is_closing: bool,
    /// It was closed here while the server may go on.
    is_given_up: bool,
}

impl Link {
    /// A link over a connection whose socket is at place `file` of the ring. Its entries are named by `number`.
    pub(crate) fn new(remote: Remote, number: u32, file: u16) -> Self {
        let Remote { socket, agreement, unasked } = remote;
        let mut inbox = vec![0; INBOX_BYTES].into_boxed_slice();
        inbox[..unasked.len()].copy_from_slice(&unasked);
        Self {
            socket,
            file: FileRef::registered(file.into()),
            number,
            transmission: ClientTransmission::new(agreement, REQUESTS_MAX),
            flushing: Flushing::of(agreement.flags),
            queue: VecDeque::new(),
            sent: vec![None; REQUESTS_MAX.into()],
            free: (0..REQUESTS_MAX).collect(),
            long_reads: 0,
            inbox,
            start: 0,
            end: unasked.len(),
            receiving: Receiving::Nothing,
            filling: None,
            places: Vec::new(),
            place_header: Box::new(MessageHeader::of(&[])),
            outbox: Outbox {
                heads: vec![0; usize::from(REQUESTS_MAX) * REQUEST_BYTES].into(),
                head_bytes: 0,
                pieces: Vec::new(),
                sent: 0,
                header: Box::new(MessageHeader::of(&[])),
                in_flight: false,
            },
            is_closing: false,
            is_given_up: false,
        }
    }

    /// The socket.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// How writes become durable.
    pub(crate) const fn flushing(&self) -> Flushing {
        self.flushing
    }

    /// Longest part, in bytes: what the server takes in one request, whole smallest blocks.
    pub(crate) fn part_bytes_max(&self) -> u64 {
        let sizes = self.transmission.agreement().block_sizes;
        (sizes.payload_max() - sizes.payload_max() % sizes.minimum()).into()
    }

    /// Takes a part, which is sent with the next [`Link::pump`].
    pub(crate) fn queue(&mut self, part: Part) {
        self.queue.push_back(part);
    }

    /// Whether an entry is in flight that only waits for the server to speak unasked.
    pub(crate) fn is_waiting(&self) -> bool {
        self.receiving != Receiving::Nothing && self.is_quiet()
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.transmission.in_flight() == 0 && !self.outbox.in_flight
    }

    /// When the request was sent that has waited longest.
    pub(crate) fn waiting_since(&self) -> Option<Nanos> {
        self.sent.iter().flatten().map(|(_, at)| *at).min()
    }

    /// Starts nothing more and has the entries in flight end.
    pub(crate) fn close(&mut self) {
        if !std::mem::replace(&mut self.is_closing, true) {
            if self.is_quiet() {
                // A server likes to be told; one that does not read any more is not waited for.
                let words = self.transmission.disconnect();
                let _ = send(&self.socket, &words, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            }
            let _ = shutdown(&self.socket, Shutdown::Both);
        }
    }

    /// Starts nothing more, and ends the stream of requests so that the server can see its end; what it answers is not taken in.
    /// Entries in flight are the caller's to cancel.
    pub(crate) fn give_up(&mut self) {
        if !std::mem::replace(&mut self.is_closing, true) {
            self.is_given_up = true;
            let _ = shutdown(&self.socket, Shutdown::Write);
        }
    }

    /// Requests that the server was sent, in part at least, and has not answered.
    pub(crate) fn owed(&self) -> usize {
        self.sent.iter().flatten().count()
    }

    /// Whether it was closed by [`Link::give_up`].
    pub(crate) const fn is_given_up(&self) -> bool {
        self.is_given_up
    }

    /// The socket of a link that is over.
    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket
    }

    /// Whether it has been closed.
    pub(crate) const fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Whether it is closing and none of its entries is in flight.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_closing && matches!(self.receiving, Receiving::Nothing) && !self.outbox.in_flight
    }

    /// The member I/Os of the parts that will never end, once for each part, of a link that is over.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = u32> + '_ {
        let sent = self.sent.iter().flatten().map(|(part, _)| part.io);
        sent.chain(self.queue.iter().map(|part| part.io))
    }

    /// Takes in the end of an entry. Returns why the connection is over, if it is.
    pub(crate) fn take(&mut self, entry: LinkEntry, result: Result<u32, Errno>) -> Result<(), Errno> {
        match entry {
            LinkEntry::Send => self.outbox.in_flight = false,
            LinkEntry::Receive => {}
        }
        let receiving = match entry {
            LinkEntry::Send => Receiving::Nothing,
            LinkEntry::Receive => std::mem::replace(&mut self.receiving, Receiving::Nothing),
        };
        match (entry, result) {
            (_, Err(Errno::INTR | Errno::AGAIN)) => {}
            (_, Err(errno)) => return Err(errno),
            (LinkEntry::Receive, Ok(0)) => return Err(Errno::CONNRESET),
            (LinkEntry::Send, Ok(bytes)) => self.outbox.advance(bytes as usize),
            (LinkEntry::Receive, Ok(bytes)) if receiving == Receiving::IntoInbox => {
                self.end += bytes as usize;
            }
            (LinkEntry::Receive, Ok(bytes)) => self.fill(bytes),
        }
        Ok(())
    }

    /// Takes in that `bytes` of the payload are in their place.
    fn fill(&mut self, bytes: u32) {
        let filling = self.filling.as_mut().expect("a payload was being received");
        filling.at += u64::from(bytes);
        filling.missing -= bytes;
        if filling.missing == 0 {
            self.filling = None;
        }
    }

    /// Returns the next end among what has come. `ios` are the member I/Os by their numbers: the memory of each.
    ///
    /// # Errors
    /// What the server did that ends the connection.
    pub(crate) fn poll_end<I: AsRef<[IoVec]>>(
        &mut self,
        ios: &[I],
    ) -> Result<Option<PartEnd>, raidlab_nbd::ServerFault> {
        loop {
            if self.is_closing || self.receiving == Receiving::IntoPlace || !self.fill_from_inbox(ios) {
                return Ok(None);
            }
            let (used, event) = self.transmission.handle_bytes(&self.inbox[self.start..self.end])?;
            self.start += used;
            match event {
                ClientEvent::More => return Ok(None),
                ClientEvent::Payload { tag, at, length } => {
                    let (part, _) = self.sent[tag as usize].expect("data comes for reads in flight");
                    self.filling =
                        Some(Filling { io: part.io, at: part.at + u64::from(at), missing: length });
                }
                ClientEvent::Zeroes { tag, at, length } => {
                    let (part, _) = self.sent[tag as usize].expect("data comes for reads in flight");
                    let (memory, at) = (ios[part.io as usize].as_ref(), part.at + u64::from(at));
                    store(memory, at, Stored::Zeros(length.into()));
                }
                ClientEvent::Ended { tag, result } => {
                    let (part, _) = self.sent[tag as usize].take().expect("requests in flight end");
                    self.free.push(tag as u16);
                    self.long_reads -= u32::from(is_long_read(&part));
                    let result = match result {
                        Ok(()) => Ok(part.bytes),
                        Err(errno) => Err(Errno::from_raw_os_error(errno.number().cast_signed())),
                    };
                    return Ok(Some(PartEnd { io: part.io, result }));
                }
            }
        }
    }

    /// Moves payload out of the inbox. Returns whether none is missing.
    fn fill_from_inbox<I: AsRef<[IoVec]>>(&mut self, ios: &[I]) -> bool {
        let Some(filling) = self.filling else { return true };
        let length = (self.end - self.start).min(filling.missing as usize);
        let bytes = &self.inbox[self.start..self.start + length];
        store(ios[filling.io as usize].as_ref(), filling.at, Stored::Bytes(bytes));
        self.start += length;
        self.fill(length as u32);
        self.filling.is_none()
    }

    /// Sends what is queued and waits for what comes, as far as both can be done now.
    ///
    /// # Errors
    /// [`RingError`] if an entry can't be queued.
    pub(crate) fn pump<I: AsRef<[IoVec]>>(
        &mut self,
        now: Nanos,
        ios: &[I],
        ring: &mut Ring,
    ) -> Result<(), RingError> {
        if self.is_closing {
            return Ok(());
        }
        if !self.outbox.in_flight {
            self.pack(now, ios);
            self.outbox.send(self.number, self.file, ring)?;
        }
        if self.receiving == Receiving::Nothing {
            self.receive(ios, ring)?;
        }
        Ok(())
    }

    /// Puts what is queued into the outbox, if that is empty.
    fn pack<I: AsRef<[IoVec]>>(&mut self, now: Nanos, ios: &[I]) {
        if !self.outbox.is_empty() {
            return;
        }
        self.outbox.clear();
        while !self.queue.is_empty() {
            let Some(tag) = self.free.pop() else { return };
            let part = self.queue.pop_front().expect("it is not empty");
            let request = ClientRequest { op: part.op, offset: part.offset, length: part.bytes };
            let head = self.transmission.submit(request, tag.into());
            // Places on a device lie within it, its smallest block and its offers were looked at when it was attached.
            let head = head.expect("parts are made to fit");
            self.outbox.add_head(&head);
            if matches!(part.op, Op::Write { .. }) {
                cut(ios[part.io as usize].as_ref(), part.at, part.bytes.into(), &mut self.outbox.pieces);
            }
            self.long_reads += u32::from(is_long_read(&part));
            self.sent[usize::from(tag)] = Some((part, now));
        }
    }

    fn receive<I: AsRef<[IoVec]>>(&mut self, ios: &[I], ring: &mut Ring) -> Result<(), RingError> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if let Some(Filling { io, at, missing }) = self.filling
            && missing >= DIRECT_BYTES_MIN
        {
            assert_eq!(self.end, 0, "what has come of a payload is in its place");
            self.places.clear();
            cut(ios[io as usize].as_ref(), at, missing.into(), &mut self.places);
            self.places.truncate(PIECES_PER_ENTRY);
            *self.place_header = MessageHeader::of(&self.places);
            self.receiving = Receiving::IntoPlace;
            let entry = entries::receive_message(self.file, &mut self.place_header);
            return ring.push_link(self.number, LinkEntry::Receive, entry);
        }
        if self.start > 0 && self.inbox.len() - self.end < MESSAGE_BYTES_MAX {
            self.inbox.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let room = self.inbox.len() - self.end;
        let wanted = match self.filling {
            None if self.long_reads > 0 => self.head_bytes_missing(),
            _ => room,
        };
        self.receiving = Receiving::IntoInbox;
        let target = &mut self.inbox[self.end..][..wanted.min(room)];
        let entry = entries::receive(self.file, IoVec::of_mut(target), false);
        ring.push_link(self.number, LinkEntry::Receive, entry)
    }

    /// What is missing of a head of a read's reply; of a longer message, which is no data, it takes a few rounds.
    fn head_bytes_missing(&self) -> usize {
        let structured = self.transmission.agreement().structured;
        let head = if structured { STRUCTURED_HEAD_BYTES } else { SIMPLE_HEAD_BYTES };
        head - (self.end - self.start) % head
    }
}

const fn is_long_read(part: &Part) -> bool {
    matches!(part.op, Op::Read) && part.bytes >= DIRECT_BYTES_MIN
}

impl Outbox {
    fn is_empty(&self) -> bool {
        self.sent == self.pieces.len()
    }

    fn clear(&mut self) {
        self.pieces.clear();
        (self.sent, self.head_bytes) = (0, 0);
    }

    fn add_head(&mut self, head: &[u8]) {
        let place = &mut self.heads[self.head_bytes..][..head.len()];
        place.copy_from_slice(head);
        self.pieces.push(IoVec { base: place.as_mut_ptr(), bytes: head.len() });
        self.head_bytes += head.len();
    }

    fn send(&mut self, number: u32, file: FileRef, ring: &mut Ring) -> Result<(), RingError> {
        if self.is_empty() {
            return Ok(());
        }
        let end = self.pieces.len().min(self.sent + PIECES_PER_ENTRY);
        *self.header = MessageHeader::of(&self.pieces[self.sent..end]);
        self.in_flight = true;
        ring.push_link(number, LinkEntry::Send, entries::send_message(file, &mut self.header))
    }

    /// Leaves out what is sent.
    fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let piece = &mut self.pieces[self.sent];
            let taken = bytes.min(piece.bytes);
            piece.base = piece.base.wrapping_add(taken);
            piece.bytes -= taken;
            bytes -= taken;
            self.sent += usize::from(piece.bytes == 0);
        }
    }
}
