//! A member that is an NBD export of a running array: one connection on the array's ring, many requests in flight.
//!
//! ```text
//! member I/O ─► parts ─► queue ─► outbox ──sendmsg: alternating heads and array memory──► server
//!                             NbdReplies ◄──recv: heads, short payloads── server
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

use crate::device::Flushing;
use crate::error::RingError;
use crate::pieces::{Stored, cut, store};
use crate::ring::{LinkEntry, PIECES_PER_ENTRY, Ring};
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{IoVec, MessageHeader};
use raidlab_device::{NbdClient, NbdFilling, NbdMemory, NbdPlace, NbdReceiveOptions, NbdReplies};
use raidlab_nbd::{ClientRequest, ClientTransmission, Op, REQUEST_BYTES};
use raidlab_units::Nanos;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Requests in flight; more wait here.
const REQUESTS_MAX: u16 = 128;
/// Many replies to short reads are received at once.
const RECEIVE_OPTIONS: NbdReceiveOptions =
    NbdReceiveOptions { inbox_bytes: 128 << 10, direct_bytes_min: 16 << 10 };

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

/// The memory of requests in flight, by their tags: member I/Os, and the requests.
struct PartMemory<'a, I>(&'a [I], &'a [Option<(Part, Nanos)>]);

impl<'a, I: AsRef<[IoVec]>> PartMemory<'a, I> {
    /// The memory of a request's I/O, and where in it byte `at` of the request is.
    fn place(&self, tag: u64, at: u32) -> (&'a [IoVec], u64) {
        let (part, _) = self.1[tag as usize].expect("data comes for reads in flight");
        (self.0[part.io as usize].as_ref(), part.at + u64::from(at))
    }
}

impl<I: AsRef<[IoVec]>> NbdMemory for PartMemory<'_, I> {
    #[inline]
    fn put(&mut self, tag: u64, at: u32, bytes: &[u8]) {
        let (memory, at) = self.place(tag, at);
        store(memory, at, Stored::Bytes(bytes));
    }

    fn zero(&mut self, tag: u64, at: u32, length: u32) {
        let (memory, at) = self.place(tag, at);
        store(memory, at, Stored::Zeros(length.into()));
    }
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
    replies: NbdReplies,
    places: Vec<IoVec>,
    place_header: Box<MessageHeader>,
    outbox: Outbox,
    is_closing: bool,
    /// It was closed here while the server may go on.
    is_given_up: bool,
}

impl Link {
    /// A link over a connection whose socket is at place `file` of the ring. Its entries are named by `number`.
    pub(crate) fn new(client: NbdClient, number: u32, file: u16) -> Self {
        let (socket, transmission, replies) = client.into_parts(REQUESTS_MAX, RECEIVE_OPTIONS);
        Self {
            socket,
            file: FileRef::registered(file.into()),
            number,
            flushing: Flushing::of(transmission.agreement().flags),
            transmission,
            queue: VecDeque::new(),
            sent: vec![None; REQUESTS_MAX.into()],
            free: (0..REQUESTS_MAX).collect(),
            long_reads: 0,
            replies,
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
        self.replies.is_receiving() && self.is_quiet()
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
        self.is_closing && !self.replies.is_receiving() && !self.outbox.in_flight
    }

    /// The member I/Os of the parts that will never end, once for each part, of a link that is over.
    pub(crate) fn unfinished(&self) -> impl Iterator<Item = u32> + '_ {
        let sent = self.sent.iter().flatten().map(|(part, _)| part.io);
        sent.chain(self.queue.iter().map(|part| part.io))
    }

    /// Takes in the end of an entry. Returns why the connection is over, if it is.
    pub(crate) fn take(&mut self, entry: LinkEntry, result: Result<u32, Errno>) -> Result<(), Errno> {
        let bytes = result.unwrap_or(0);
        match entry {
            LinkEntry::Send => self.outbox.take(bytes as usize),
            LinkEntry::Receive => self.replies.received(bytes),
        }
        match (entry, result) {
            (_, Err(Errno::INTR | Errno::AGAIN)) => Ok(()),
            (LinkEntry::Receive, Ok(0)) => Err(Errno::CONNRESET),
            (_, result) => result.map(drop),
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
        if self.is_closing {
            return Ok(None);
        }
        let mut memory = PartMemory(ios, &self.sent);
        let Some(end) = self.replies.poll_end(&mut self.transmission, &mut memory)? else {
            return Ok(None);
        };
        let (part, _) = self.sent[end.tag as usize].take().expect("requests in flight end");
        self.free.push(end.tag as u16);
        self.long_reads -= u32::from(is_long_read(&part));
        Ok(Some(PartEnd { io: part.io, result: end.system_result().map(|()| part.bytes) }))
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
        if !self.replies.is_receiving() {
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
        let inbox_bytes = self.inbox_bytes_wanted();
        let entry = match self.replies.place() {
            NbdPlace::Memory(NbdFilling { tag, at, missing }) => {
                let (memory, at) = PartMemory(ios, &self.sent).place(tag, at);
                self.places.clear();
                cut(memory, at, missing.into(), &mut self.places);
                self.places.truncate(PIECES_PER_ENTRY);
                *self.place_header = MessageHeader::of(&self.places);
                entries::receive_message(self.file, &mut self.place_header)
            }
            NbdPlace::Inbox(room) => {
                let bytes = inbox_bytes.min(room.len());
                entries::receive(self.file, IoVec::of_mut(&mut room[..bytes]), false)
            }
        };
        ring.push_link(self.number, LinkEntry::Receive, entry)
    }

    /// How much is received into the inbox: while long reads are in flight what is missing of the head of data; a
    /// longer message, which is no data, takes a few rounds.
    fn inbox_bytes_wanted(&self) -> usize {
        if self.replies.is_filling() || self.long_reads == 0 {
            return RECEIVE_OPTIONS.inbox_bytes;
        }
        let head = self.transmission.data_head_bytes();
        head - self.replies.unread().len() % head
    }
}

const fn is_long_read(part: &Part) -> bool {
    matches!(part.op, Op::Read) && part.bytes >= RECEIVE_OPTIONS.direct_bytes_min
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

    /// Takes in that a send has ended, with so many bytes.
    fn take(&mut self, mut bytes: usize) {
        self.in_flight = false;
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
