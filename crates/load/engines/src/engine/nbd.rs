//! The NBD engine: a connection for each target, whose sends and receives are entries of one ring.
//!
//! ```text
//! requests ─► heads and payloads ─► one send at a time ─► server
//! ends ◄─ replies ◄─ inbox ◄─ one receive at a time ◄──────┘       long payloads: into their buffers
//! ```
//! Requests that arrive while a send is under way go with the next one. All requests sent together share the cost of a
//! call, and so do all replies received together.
//!
//! **A connection that ends** or breaks the protocol fails its requests with [`FailureCause::Disconnected`].
//!
//! Invariant: at most one send and one receive of a connection are under way; the memory that they name stays in place.
//!
//! Left out: TLS, and several connections to one export (workers have one each).
//! Source: "The NBD protocol", transmission phase.
#![allow(unsafe_code)]

use super::in_flight::InFlight;
use super::{Completion, Engine, EngineIo, EngineKind, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::Target;
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{EntryEnd, IoVec, Ring, RingOptions};
use raidlab_nbd::{ClientEvent, ClientRequest, ClientTransmission, Op};
use raidlab_units::NanoSpan;
use raidlab_workload::IoOp;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::os::fd::OwnedFd;

/// What is received at once, in bytes: many replies to short reads.
const INBOX_BYTES: usize = 256 << 10;
/// What is collected for one send, in bytes; longer payloads go whole.
const OUTBOX_BYTES: usize = 128 << 10;
/// A payload of which so much is missing is received into its buffer, not into the inbox, in bytes.
const DIRECT_BYTES_MIN: u32 = 64 << 10;
/// The most requests in flight on one connection.
const IODEPTH_MAX: u32 = 16_384;
/// Names of entries: the connection's number and what it does.
const RECEIVE: u64 = 1;

/// A read whose payload comes.
#[derive(Clone, Copy, Debug)]
struct Filling {
    slot: u32,
    at: u32,
    missing: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Nothing,
    IntoInbox,
    IntoBuffer,
}

/// One connection.
#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    transmission: ClientTransmission,
    /// Taken in, not yet put into the outbox.
    waiting: Vec<u32>,
    /// What is to be sent: heads, and payloads behind theirs.
    outbox: Vec<u8>,
    /// Bytes of it that are sent.
    sent: usize,
    is_sending: bool,
    inbox: Box<[u8]>,
    start: usize,
    end: usize,
    receiving: Receiving,
    filling: Option<Filling>,
    is_over: bool,
}

/// Any number of requests in flight on NBD exports.
#[derive(Debug)]
pub struct NbdEngine {
    // The order matters: the ring must be gone before what its entries name.
    ring: Ring,
    links: Vec<Link>,
    in_flight: InFlight,
    notes: Vec<String>,
}

impl NbdEngine {
    /// Connects to each target, for up to the requests of `table`. Only the thread that calls this may use it.
    ///
    /// # Errors
    /// [`LoadError::Nbd`] for a server that can't be agreed with, [`LoadError::Iodepth`], or no ring.
    pub fn new(targets: &[&Target], table: SlotTable, memory: IoMemory) -> Result<Self, LoadError> {
        let in_flight = InFlight::new(EngineKind::Nbd, table, IODEPTH_MAX, memory)?;
        let mut notes = Vec::new();
        let ring = Ring::new(2 * targets.len() as u32, RingOptions::default(), &mut notes)?;
        let links =
            targets.iter().map(|target| Link::connect(target, table.iodepth)).collect::<Result<_, _>>()?;
        Ok(Self { ring, links, in_flight, notes })
    }

    /// Sends what waits and waits for what comes, as far as both can be done now.
    fn pump(&mut self, number: usize) {
        let link = &mut self.links[number];
        if link.is_over {
            return;
        }
        if !link.is_sending {
            link.pack(&mut self.in_flight);
            let bytes = &link.outbox[link.sent..];
            if !bytes.is_empty() {
                let entry = entries::send(FileRef::open(&link.socket), IoVec::of(bytes));
                let entry = entry.user_data((number as u64) << 1);
                // SAFETY: the outbox is not touched until the send has ended, and the engine waits for that.
                unsafe { self.ring.push(&entry) };
                link.is_sending = true;
            }
        }
        if link.receiving == Receiving::Nothing {
            let place = link.place_to_receive(&mut self.in_flight);
            let entry = entries::receive(FileRef::open(&link.socket), place, false)
                .user_data((number as u64) << 1 | RECEIVE);
            // SAFETY: inbox and buffers stay in their places until the receive has ended, and the engine waits for it.
            unsafe { self.ring.push(&entry) };
        }
    }

    /// Takes in the ends that lie ready.
    fn take_ready(&mut self) {
        self.ring.ready();
        while let Some(end) = self.ring.next_end() {
            self.take(end);
        }
    }

    /// Takes in the end of an entry.
    fn take(&mut self, end: EntryEnd) {
        let number = (end.name >> 1) as usize;
        let taken = self.links[number].take(end.name & RECEIVE != 0, end.result);
        let parsed = taken.and_then(|()| self.parse(number));
        if let Err(why) = parsed {
            self.break_off(number, &why);
        }
    }

    /// Takes in the replies that have come.
    fn parse(&mut self, number: usize) -> Result<(), String> {
        loop {
            let link = &mut self.links[number];
            let is_whole =
                link.receiving != Receiving::IntoBuffer && link.fill_from_inbox(&mut self.in_flight);
            if !is_whole || link.is_over {
                return Ok(());
            }
            let input = &link.inbox[link.start..link.end];
            let (used, event) = link.transmission.handle_bytes(input).map_err(|fault| fault.to_string())?;
            link.start += used;
            match event {
                ClientEvent::More => return Ok(()),
                ClientEvent::Payload { tag, at, length } => {
                    link.filling = Some(Filling { slot: tag as u32, at, missing: length });
                }
                ClientEvent::Zeroes { tag, at, length } => {
                    self.in_flight.bytes_of(tag as u32)[at as usize..][..length as usize].fill(0);
                }
                ClientEvent::Ended { tag, result } => {
                    let failed = |errno: raidlab_nbd::Errno| {
                        FailureCause::Errno(Errno::from_raw_os_error(errno.number().cast_signed()))
                    };
                    self.in_flight.end(tag as u32, result.err().map(failed));
                }
            }
        }
    }

    /// Ends a connection and fails its requests.
    #[cold]
    fn break_off(&mut self, number: usize, why: &str) {
        let link = &mut self.links[number];
        if !std::mem::replace(&mut link.is_over, true) {
            self.notes.push(format!("a connection was broken off: {why}"));
            // Entries that are under way end with this.
            let _ = shutdown(&link.socket, Shutdown::Both);
        }
        self.fail_if_quiet(number);
    }

    /// Fails the requests of a connection that is over when the kernel holds none of its memory.
    fn fail_if_quiet(&mut self, number: usize) {
        let link = &self.links[number];
        if link.is_over && !link.is_sending && link.receiving == Receiving::Nothing {
            self.in_flight.disconnect(number as u32);
        }
    }
}

impl Engine for NbdEngine {
    fn name(&self) -> &'static str {
        EngineKind::Nbd.name()
    }

    #[inline]
    fn submit(&mut self, io: EngineIo) {
        self.in_flight.take(io);
        self.links[io.target as usize].waiting.push(io.slot);
        self.fail_if_quiet(io.target as usize);
    }

    fn flush(&mut self) -> Result<(), Errno> {
        self.take_ready();
        (0..self.links.len()).for_each(|number| self.pump(number));
        self.ring.submit()
    }

    fn ready(&mut self) -> u32 {
        self.in_flight.ended()
    }

    fn reap(&mut self, at_most: NanoSpan, done: &mut Vec<Completion>) -> Result<(), Errno> {
        self.take_ready();
        (0..self.links.len()).for_each(|number| self.pump(number));
        let wait = if self.in_flight.ended() == 0 { at_most } else { NanoSpan::ZERO };
        self.ring.submit_and_wait(wait)?;
        self.take_ready();
        self.in_flight.hand_out(done);
        Ok(())
    }

    fn in_flight_max(&self) -> u32 {
        self.in_flight.count_max()
    }

    fn in_flight(&self) -> u32 {
        self.in_flight.count()
    }

    fn buffer(&mut self, io: &EngineIo) -> Option<&mut [u8]> {
        self.in_flight.buffer(io)
    }

    fn io(&self, slot: u32) -> EngineIo {
        self.in_flight.io(slot)
    }

    fn notes(&self) -> &[String] {
        &self.notes
    }
}

impl Drop for NbdEngine {
    /// Says good-bye, and waits until the kernel holds nothing of the connections' memory.
    fn drop(&mut self) {
        for link in &self.links {
            if !link.is_over && link.transmission.in_flight() == 0 && !link.is_sending {
                let words = link.transmission.disconnect();
                let _ = send(&link.socket, &words, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            }
            let _ = shutdown(&link.socket, Shutdown::Both);
        }
        let is_busy = |link: &Link| link.is_sending || link.receiving != Receiving::Nothing;
        while self.links.iter().any(is_busy) {
            if self.ring.submit_and_wait(NanoSpan::from_millis(50)).is_err() {
                // What the kernel may still write to is never given back.
                self.in_flight.leak_memory();
                self.links.drain(..).for_each(std::mem::forget);
                return;
            }
            self.ring.ready();
            while let Some(end) = self.ring.next_end() {
                let link = &mut self.links[(end.name >> 1) as usize];
                let _ = link.take(end.name & RECEIVE != 0, end.result);
            }
        }
    }
}

impl Link {
    fn connect(target: &Target, iodepth: u32) -> Result<Self, LoadError> {
        let (socket, agreement, unasked) = target.connect()?.into_parts();
        let mut inbox = vec![0; INBOX_BYTES].into_boxed_slice();
        inbox[..unasked.len()].copy_from_slice(&unasked);
        Ok(Self {
            socket,
            transmission: ClientTransmission::new(agreement, iodepth as u16),
            waiting: Vec::with_capacity(iodepth as usize),
            outbox: Vec::with_capacity(OUTBOX_BYTES),
            sent: 0,
            is_sending: false,
            inbox,
            start: 0,
            end: unasked.len(),
            receiving: Receiving::Nothing,
            filling: None,
            is_over: false,
        })
    }

    /// Puts what waits into the outbox, if that is sent.
    fn pack(&mut self, in_flight: &mut InFlight) {
        if self.sent < self.outbox.len() {
            return;
        }
        self.outbox.clear();
        self.sent = 0;
        let mut taken = 0;
        for slot in &self.waiting {
            if self.outbox.len() >= OUTBOX_BYTES {
                break;
            }
            let EngineIo { op, offset_bytes, bytes, fua, .. } = in_flight.io(*slot);
            let op_of = match op {
                IoOp::Read => Op::Read,
                IoOp::Write => Op::Write { fua },
                IoOp::Flush | IoOp::FlushData => Op::Flush,
                IoOp::Trim => Op::Trim { fua },
                IoOp::WriteZeroes => Op::WriteZeroes { fua, no_hole: false },
            };
            let request = ClientRequest { op: op_of, offset: offset_bytes, length: bytes };
            // Lengths, places and what is offered were looked at before the run; slots are as many as requests.
            let head = self.transmission.submit(request, u64::from(*slot)).expect("requests are made to fit");
            self.outbox.extend_from_slice(&head);
            if op == IoOp::Write {
                self.outbox.extend_from_slice(in_flight.bytes_of(*slot));
            }
            taken += 1;
        }
        self.waiting.drain(..taken);
    }

    /// Takes in the end of a send or a receive.
    fn take(&mut self, is_receive: bool, result: i32) -> Result<(), String> {
        let was = if is_receive {
            std::mem::replace(&mut self.receiving, Receiving::Nothing)
        } else {
            self.is_sending = false;
            Receiving::Nothing
        };
        match result {
            bytes if bytes > 0 && !is_receive => self.sent += bytes as usize,
            bytes if bytes > 0 && was == Receiving::IntoBuffer => self.filled(bytes as u32),
            bytes if bytes > 0 => self.end += bytes as usize,
            0 => return Err("the server closed it".into()),
            negative => match Errno::from_raw_os_error(-negative) {
                Errno::INTR | Errno::AGAIN => {}
                errno => return Err(errno.to_string()),
            },
        }
        Ok(())
    }

    fn filled(&mut self, bytes: u32) {
        let filling = self.filling.as_mut().expect("a payload was being received");
        filling.at += bytes;
        filling.missing -= bytes;
        if filling.missing == 0 {
            self.filling = None;
        }
    }

    /// Moves payload out of the inbox. Returns whether none is missing.
    fn fill_from_inbox(&mut self, in_flight: &mut InFlight) -> bool {
        let Some(Filling { slot, at, missing }) = self.filling else { return true };
        let length = (self.end - self.start).min(missing as usize);
        in_flight.bytes_of(slot)[at as usize..][..length]
            .copy_from_slice(&self.inbox[self.start..][..length]);
        self.start += length;
        self.filled(length as u32);
        self.filling.is_none()
    }

    /// Where the next bytes go, and how many at most.
    fn place_to_receive(&mut self, in_flight: &mut InFlight) -> IoVec {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if let Some(Filling { slot, at, missing }) = self.filling
            && missing >= DIRECT_BYTES_MIN
        {
            assert_eq!(self.end, 0, "what has come of a payload is in its place");
            self.receiving = Receiving::IntoBuffer;
            return IoVec::of_mut(&mut in_flight.bytes_of(slot)[at as usize..][..missing as usize]);
        }
        if self.start > 0 {
            self.inbox.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.receiving = Receiving::IntoInbox;
        IoVec::of_mut(&mut self.inbox[self.end..])
    }
}
