//! The receiving side of an NBD client: what comes from the server becomes data in the memory of reads, and ends of
//! requests.
//!
//! ```text
//! socket ─► place ─► received ─► poll_end ─► ends of requests
//!             │                     └─ short payloads: copied from the inbox into their memory
//!             └─ long payloads: straight into their memory
//! ```
//! The owner of the socket receives, blocking or on a ring.
//!
//! Invariants: what has come of a payload is in its memory before more is received; the inbox stays in its place while
//! a receive is under way, and then neither the room behind its bytes nor the memory that is received into is touched.
//!
//! Left out: sending, and what a broken connection means for its requests.
//! Source: "The NBD protocol", transmission phase.

use raidlab_nbd::{ClientEvent, ClientTransmission, MESSAGE_BYTES_MAX, ServerFault};
use rustix::io::Errno;

/// Memory of the reads in flight, by the tags of their requests.
pub trait NbdMemory {
    /// Puts `bytes` at byte `at` of a read.
    fn put(&mut self, tag: u64, at: u32, bytes: &[u8]);

    /// Puts `length` zeros at byte `at` of a read.
    fn zero(&mut self, tag: u64, at: u32, length: u32);
}

/// The memory of the only read in flight.
impl NbdMemory for [u8] {
    fn put(&mut self, _: u64, at: u32, bytes: &[u8]) {
        self[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn zero(&mut self, _: u64, at: u32, length: u32) {
        self[at as usize..][..length as usize].fill(0);
    }
}

/// What is missing of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdFilling {
    /// The tag of the read.
    pub tag: u64,
    /// Its first byte that is missing.
    pub at: u32,
    /// How many bytes are missing.
    pub missing: u32,
}

/// Where the next bytes of the stream go.
#[derive(Debug)]
pub enum NbdPlace<'a> {
    /// Here, or into a part of it from its start on.
    Inbox(&'a mut [u8]),
    /// Into the memory of a read, or into a part of this from its start on.
    Memory(NbdFilling),
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdEnd {
    /// The tag of the request.
    pub tag: u64,
    /// How the server ended it.
    pub result: Result<(), raidlab_nbd::Errno>,
}

impl NbdEnd {
    /// Returns the result as a system call has it.
    ///
    /// # Errors
    /// The server's; the protocol's numbers are the system's.
    #[inline]
    pub fn system_result(self) -> Result<(), Errno> {
        self.result.map_err(|error| Errno::from_raw_os_error(error.number().cast_signed()))
    }
}

/// How to receive.
#[derive(Clone, Copy, Debug)]
pub struct NbdReceiveOptions {
    /// Length of the inbox; at least [`MESSAGE_BYTES_MAX`].
    pub inbox_bytes: usize,
    /// A payload of which so much is missing is received into its memory, not into the inbox, in bytes.
    pub direct_bytes_min: u32,
}

#[derive(Debug)]
enum Receiving {
    Nothing,
    IntoInbox,
    IntoMemory,
}

/// The receiving side of one connection.
#[derive(Debug)]
pub struct NbdReplies {
    inbox: Box<[u8]>,
    start: usize,
    end: usize,
    direct_bytes_min: u32,
    filling: Option<NbdFilling>,
    receiving: Receiving,
}

impl NbdReplies {
    /// The receiving side of a connection from which `unread` has come already.
    ///
    /// # Panics
    /// If the inbox has no room for the longest message, or for `unread`.
    pub fn new(options: NbdReceiveOptions, unread: &[u8]) -> Self {
        let NbdReceiveOptions { inbox_bytes, direct_bytes_min } = options;
        assert!(inbox_bytes >= MESSAGE_BYTES_MAX.max(unread.len()), "the longest message has room");
        let mut inbox = vec![0; inbox_bytes].into_boxed_slice();
        inbox[..unread.len()].copy_from_slice(unread);
        let (filling, receiving) = (None, Receiving::Nothing);
        Self { inbox, start: 0, end: unread.len(), direct_bytes_min, filling, receiving }
    }

    /// Bytes in the inbox.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.inbox[self.start..self.end]
    }

    /// Takes bytes out of the inbox that another part of the protocol understood.
    #[inline]
    pub(crate) fn skip(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Whether the next bytes of the stream are payload.
    #[inline]
    pub const fn is_filling(&self) -> bool {
        self.filling.is_some()
    }

    /// Whether a receive is under way.
    #[inline]
    pub const fn is_receiving(&self) -> bool {
        !matches!(self.receiving, Receiving::Nothing)
    }

    /// Begins a receive and says where to; [`NbdReplies::received`] ends it. There is none yet, and what has come was
    /// taken in with [`NbdReplies::poll_end`].
    ///
    /// # Panics
    /// If a receive is under way.
    #[inline]
    pub fn place(&mut self) -> NbdPlace<'_> {
        assert!(!self.is_receiving(), "one receive at a time");
        if let Some(filling) = self.filling.filter(|filling| filling.missing >= self.direct_bytes_min) {
            assert_eq!(self.start, self.end, "what has come of a payload is in its place");
            self.receiving = Receiving::IntoMemory;
            return NbdPlace::Memory(filling);
        }
        if self.start > 0 {
            self.inbox.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.receiving = Receiving::IntoInbox;
        NbdPlace::Inbox(&mut self.inbox[self.end..])
    }

    /// Takes in that the receive has ended, with so many bytes; 0 if it failed.
    ///
    /// # Panics
    /// If no receive is under way.
    #[inline]
    pub fn received(&mut self, bytes: u32) {
        match std::mem::replace(&mut self.receiving, Receiving::Nothing) {
            Receiving::Nothing => panic!("a receive ends once"),
            Receiving::IntoInbox => self.end += bytes as usize,
            Receiving::IntoMemory => self.fill(bytes),
        }
    }

    /// Returns the next request that has ended.
    ///
    /// # Errors
    /// What the server did that ends the connection.
    #[inline]
    pub fn poll_end(
        &mut self,
        transmission: &mut ClientTransmission,
        memory: &mut (impl NbdMemory + ?Sized),
    ) -> Result<Option<NbdEnd>, ServerFault> {
        loop {
            if !self.fill_from_inbox(memory) {
                return Ok(None);
            }
            let (used, event) = transmission.handle_bytes(self.unread())?;
            self.skip(used);
            match event {
                ClientEvent::More => return Ok(None),
                ClientEvent::Payload { tag, at, length } => {
                    self.filling = Some(NbdFilling { tag, at, missing: length });
                }
                ClientEvent::Zeroes { tag, at, length } => memory.zero(tag, at, length),
                ClientEvent::Ended { tag, result } => return Ok(Some(NbdEnd { tag, result })),
            }
        }
    }

    /// Moves payload out of the inbox, which is empty while memory is received into. Returns whether none is missing.
    #[inline]
    fn fill_from_inbox(&mut self, memory: &mut (impl NbdMemory + ?Sized)) -> bool {
        let Some(NbdFilling { tag, at, missing }) = self.filling else { return true };
        let length = self.unread().len().min(missing as usize);
        if length == 0 {
            return false;
        }
        memory.put(tag, at, &self.unread()[..length]);
        self.skip(length);
        self.fill(length as u32);
        self.filling.is_none()
    }

    /// Takes in that `bytes` of the payload are in their memory.
    #[inline]
    fn fill(&mut self, bytes: u32) {
        let filling = self.filling.as_mut().expect("a payload was being received");
        filling.at += bytes;
        filling.missing -= bytes;
        if filling.missing == 0 {
            self.filling = None;
        }
    }
}

#[cfg(test)]
mod tests;
