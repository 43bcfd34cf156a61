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

use super::in_flight::{InFlight, told_by_in_flight};
use super::{Completion, Engine, EngineIo, EngineKind, FailureCause, SlotTable};
use crate::error::LoadError;
use crate::memory::IoMemory;
use crate::target::Target;
use raidlab_device::ring::entries::{self, FileRef};
use raidlab_device::ring::{EntryEnd, IoVec, Ring, RingOptions};
use raidlab_device::{NbdFilling, NbdMemory, NbdPlace, NbdReceiveOptions, NbdReplies};
use raidlab_nbd::{ClientRequest, ClientTransmission, Op};
use raidlab_units::NanoSpan;
use raidlab_workload::IoOp;
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use std::os::fd::OwnedFd;

/// Many replies to short reads are received at once.
const RECEIVE_OPTIONS: NbdReceiveOptions =
    NbdReceiveOptions { inbox_bytes: 256 << 10, direct_bytes_min: 64 << 10 };
/// What is collected for one send, in bytes; longer payloads go whole.
const OUTBOX_BYTES: usize = 128 << 10;
/// The most requests in flight on one connection.
const IODEPTH_MAX: u32 = 16_384;
/// Names of entries: the connection's number and what it does.
const RECEIVE: u64 = 1;

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
    replies: NbdReplies,
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
        if !link.replies.is_receiving() {
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
        let link = &mut self.links[number];
        while !link.is_over {
            let end = link.replies.poll_end(&mut link.transmission, &mut self.in_flight);
            let Some(end) = end.map_err(|fault| fault.to_string())? else { break };
            self.in_flight.end(end.tag as u32, end.system_result().err().map(FailureCause::Errno));
        }
        Ok(())
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
        if link.is_over && !link.is_sending && !link.replies.is_receiving() {
            self.in_flight.disconnect(number as u32);
        }
    }
}

impl NbdMemory for InFlight {
    #[inline]
    fn put(&mut self, tag: u64, at: u32, bytes: &[u8]) {
        self.bytes_of(tag as u32).put(tag, at, bytes);
    }

    fn zero(&mut self, tag: u64, at: u32, length: u32) {
        self.bytes_of(tag as u32).zero(tag, at, length);
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

    told_by_in_flight!();

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
        let is_busy = |link: &Link| link.is_sending || link.replies.is_receiving();
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
        let (socket, transmission, replies) = target.connect()?.into_parts(iodepth as u16, RECEIVE_OPTIONS);
        Ok(Self {
            socket,
            transmission,
            waiting: Vec::with_capacity(iodepth as usize),
            outbox: Vec::with_capacity(OUTBOX_BYTES),
            sent: 0,
            is_sending: false,
            replies,
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
        let bytes = result.max(0) as u32;
        if is_receive {
            self.replies.received(bytes);
        } else {
            self.is_sending = false;
            self.sent += bytes as usize;
        }
        match result {
            1.. => Ok(()),
            0 => Err("the server closed it".into()),
            negative => match Errno::from_raw_os_error(-negative) {
                Errno::INTR | Errno::AGAIN => Ok(()),
                errno => Err(errno.to_string()),
            },
        }
    }

    /// Where the next bytes go, and how many at most.
    fn place_to_receive(&mut self, in_flight: &mut InFlight) -> IoVec {
        match self.replies.place() {
            NbdPlace::Inbox(room) => IoVec::of_mut(room),
            NbdPlace::Memory(NbdFilling { tag, at, missing }) => {
                IoVec::of_mut(&mut in_flight.bytes_of(tag as u32)[at as usize..][..missing as usize])
            }
        }
    }
}
