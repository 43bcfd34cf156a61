//! The host port's part of the ring: its own entries, such as those of sockets, beside the members' I/O.
//!
//! A port gives each entry a name, which comes back with each completion. Entries in flight are listed here, so that
//! all can be ended with the port: an accept would wait for ever.
//!
//! Invariant: [`PortEntries::end_all`] runs before the port is given back to its owner, so no entry outlives the memory
//! that it names.
#![allow(unsafe_code)]

use crate::error::RingError;
use crate::ring::{Done, Owner, Ring};
use io_uring::squeue::Entry;
use raidlab_units::NanoSpan;
use rustix::io::Errno;

/// A completion of an entry of the port.
#[derive(Clone, Copy, Debug)]
pub struct EntryEnd {
    /// The name that it was pushed with.
    pub user: u64,
    /// What the kernel answered, or the error.
    pub result: Result<u32, Errno>,
    /// The same entry (a multishot accept, receive or poll, or a send without copying) will have more completions.
    pub is_followed: bool,
    /// All flags of the completion (`IORING_CQE_F_*`).
    pub flags: u32,
}

/// Names an entry that is in flight, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryId(u32);

/// The port's entries.
#[derive(Debug, Default)]
pub(crate) struct PortEntries {
    /// The port's name of each entry that is in flight.
    names: Vec<Option<u64>>,
    free: Vec<u32>,
    /// Completions that the port was not told yet.
    ended: Vec<EntryEnd>,
}

/// The ring, as a port may use it.
#[derive(Debug)]
pub struct PortRing<'a> {
    pub(crate) ring: &'a mut Ring,
    pub(crate) entries: &'a mut PortEntries,
}

impl PortRing<'_> {
    /// Queues an entry, which is submitted before the event loop waits next. Its completions come to
    /// [`crate::HostPort::handle_entry`] with `user`. The entry's own user data is replaced.
    ///
    /// # Safety
    /// Everything that the entry names (memory, lists of pieces, addresses, message headers) must stay valid and where it
    /// is, and must be used by nobody in a way that the kernel's use forbids, until its last completion. When
    /// [`crate::ArrayWorld::serve`] returns, all entries have had theirs. [`crate::HostBuffers`] stay where they are for
    /// all of that time.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub unsafe fn push(&mut self, user: u64, entry: Entry) -> Result<EntryId, RingError> {
        let number = self.entries.free.pop().unwrap_or_else(|| {
            self.entries.names.push(None);
            self.entries.names.len() as u32 - 1
        });
        self.entries.names[number as usize] = Some(user);
        self.ring.push_port(number, entry)?;
        Ok(EntryId(number))
    }

    /// Ends an entry early, if it is in flight and the kernel can. Its last completion comes all the same, often with
    /// `ECANCELED`.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub fn cancel(&mut self, entry: EntryId) -> Result<(), RingError> {
        self.ring.cancel(Owner::Port, entry.0)
    }

    /// Entries in flight.
    pub fn in_flight(&self) -> usize {
        self.entries.in_flight()
    }
}

impl PortEntries {
    fn in_flight(&self) -> usize {
        self.names.len() - self.free.len()
    }

    /// Takes in a completion.
    pub(crate) fn take(&mut self, done: Done) {
        let name = &mut self.names[done.number as usize];
        let user = name.expect("only entries in flight have completions");
        let is_followed = io_uring::cqueue::more(done.flags);
        if !is_followed {
            *name = None;
            self.free.push(done.number);
        }
        let Done { result, flags, .. } = done;
        self.ended.push(EntryEnd { user, result, is_followed, flags });
    }

    /// True while the port has not heard all.
    pub(crate) fn has_news(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Hands out all that ended.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = EntryEnd> {
        self.ended.drain(..)
    }

    /// Cancels what is in flight and waits for its end. Completions of others are appended to `others`.
    pub(crate) fn end_all(&mut self, ring: &mut Ring, others: &mut Vec<Done>) {
        const PATIENCE: NanoSpan = NanoSpan::from_millis(100);
        let mut done = Vec::new();
        // An entry that can't be cancelled yet is cancelled again later: the end of a cancel ends a wait, so that to ask in
        // every turn would never sleep.
        let mut cancel_at = ring.now();
        while self.in_flight() > 0 {
            let mut cancelled = Ok(());
            if ring.now() >= cancel_at {
                cancel_at += PATIENCE;
                let mut live = self.names.iter().enumerate().filter(|(_, name)| name.is_some());
                cancelled = live.try_for_each(|(number, _)| ring.cancel(Owner::Port, number as u32));
            }
            if let Err(error) = cancelled.and_then(|()| ring.enter(Some(PATIENCE))) {
                // The kernel would write to memory that nobody keeps any more.
                tracing::error!(%error, "entries of a port can't be ended");
                std::process::abort();
            }
            ring.reap(&mut done);
            for done in done.drain(..) {
                if done.owner == Owner::Port { self.take(done) } else { others.push(done) }
            }
        }
        self.ended.clear();
    }
}
