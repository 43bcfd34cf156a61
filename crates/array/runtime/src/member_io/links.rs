//! The links' side of member I/O: I/Os to parts, ends of parts to ends of I/Os, and links that break.
//!
//! ```text
//! I/O ─► parts of at most a request; label and states twice; a flush behind, if the server has no FUA
//! server silent for too long, gone, or at fault ─► close ─► no entry in flight ─► parts end as gone, member lost
//! ```
//! Writes outstanding on an abandoned connection are tracked until the server closes it (`owing`).
//!
//! Invariant: a link leaves its place in the list when nothing of it is in flight, and its I/Os end before the member
//! is lost, so that nothing waits for them in vain.

use super::slot::{IoSlot, Transfer};
use super::{Carrier, IoEnd, MemberPort};
use crate::error::RingError;
use crate::link::{Link, Part, PartEnd};
use crate::ring::{Direction, Done, LinkEntry, Owner, Ring};
use raidlab_nbd::Op;
use raidlab_units::{MemberIndex, Nanos};
use rustix::io::Errno;
use std::fmt::Display;
use std::path::Path;

/// Who ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedBy {
    /// The server has, or its system has told that it is gone.
    Server,
    /// It is given up here, whatever the server does.
    Array,
}

impl EndedBy {
    const fn of(errno: Errno) -> Self {
        match errno {
            Errno::CONNRESET | Errno::PIPE => Self::Server,
            _ => Self::Array,
        }
    }
}

impl IoSlot {
    /// Queues the I/O's parts. There may be none.
    pub(super) fn queue(&mut self, io: u32, link: &mut Link) {
        self.attempts += 1;
        (self.interrupted, self.lacks_room, self.flush_after, self.error) = (false, false, false, None);
        (self.entries, self.bytes_left, self.at, self.is_flushing) = (0, 0, None, false);
        let flushing = link.flushing();
        let Some(Transfer { direction, offset, copy_offset, bytes, .. }) = self.transfer else {
            if flushing.has_flush() {
                self.queue_flush(io, link);
            }
            return;
        };
        let op = match direction {
            Direction::Read => Op::Read,
            Direction::Write { durable } => {
                self.flush_after = flushing.flushes_after(durable);
                Op::Write { fua: flushing.has_fua(durable) }
            }
        };
        let longest = link.part_bytes_max();
        for start in [Some(offset), copy_offset].into_iter().flatten() {
            let mut at = 0;
            while at < bytes {
                let length = longest.min(bytes - at);
                link.queue(Part { io, op, offset: start + at, at, bytes: length as u32 });
                self.entries += 1;
                self.bytes_left += length;
                at += length;
            }
        }
    }

    pub(super) fn queue_flush(&mut self, io: u32, link: &mut Link) {
        link.queue(Part { io, op: Op::Flush, offset: 0, at: 0, bytes: 0 });
        self.entries = 1;
        self.is_flushing = true;
    }
}

impl MemberPort {
    /// Takes in the end of an entry of a link.
    ///
    /// # Errors
    /// [`RingError`] if what follows can't be queued.
    pub(crate) fn take_link(&mut self, now: Nanos, done: Done, ring: &mut Ring) -> Result<(), RingError> {
        let (number, entry) = LinkEntry::of(done.number);
        let link =
            self.links[number as usize].as_mut().expect("a link stays while its entries are in flight");
        if let Err(errno) = link.take(entry, done.result) {
            self.break_off(number, EndedBy::of(errno), &errno, ring)?;
        }
        loop {
            let link = self.links[number as usize].as_mut().expect("it was there just now");
            match link.poll_end(&self.slots) {
                Ok(Some(PartEnd { io, result })) => self.end_part(io, result, ring)?,
                Ok(None) => break,
                Err(fault) => self.break_off(number, EndedBy::Array, &fault, ring)?,
            }
        }
        let link = self.links[number as usize].as_mut().expect("it was there just now");
        if link.is_over() { self.bury(number, ring) } else { link.pump(now, &self.slots, ring) }
    }

    fn end_part(&mut self, io: u32, result: Result<u32, Errno>, ring: &mut Ring) -> Result<(), RingError> {
        if let Some(end) = self.take_entry(io, result, ring)? {
            self.ends.push(end);
        }
        Ok(())
    }

    /// The member that a link is used for.
    fn user_of(&self, number: u32) -> Option<MemberIndex> {
        let is_user = |member: &MemberIndex| {
            let attached = self.places[member.index()].attached.as_ref();
            attached.is_some_and(|attached| matches!(attached.carrier, Carrier::Link(link) if link == number))
        };
        self.members().find(is_user)
    }

    /// Begins the end of a link.
    fn break_off(
        &mut self,
        number: u32,
        by: EndedBy,
        why: &dyn Display,
        ring: &mut Ring,
    ) -> Result<(), RingError> {
        let is_news = self.links[number as usize].as_ref().is_some_and(|link| !link.is_closing());
        if let Some(member) = self.user_of(number).filter(|_| is_news) {
            let path = self.path(member).map(|path| path.display().to_string()).unwrap_or_default();
            tracing::warn!(%member, path, %why, "the connection is broken off");
        }
        let link = self.links[number as usize].as_mut().expect("a link that breaks is there");
        if by == EndedBy::Server || link.owed() == 0 {
            link.close();
            return Ok(());
        }
        link.give_up();
        // Its memory is another's soon, and it may be silent for ever.
        for entry in [LinkEntry::Receive, LinkEntry::Send] {
            ring.cancel(Owner::Link, entry.number(number))?;
        }
        Ok(())
    }

    /// Ends the I/Os of a link that is over, and forgets it.
    fn bury(&mut self, number: u32, ring: &mut Ring) -> Result<(), RingError> {
        let user = self.user_of(number);
        let link = self.links[number as usize].take().expect("a link that is over is there");
        let path = user.and_then(|member| self.path(member)).map(Path::to_owned);
        if let Some(attached) = user.and_then(|member| self.places[member.index()].attached.as_mut()) {
            attached.carrier = Carrier::Lost;
        }
        for io in link.unfinished() {
            self.end_part(io, Err(Errno::NODEV), ring)?;
        }
        if let Some(path) = path.filter(|_| link.is_given_up()) {
            self.owing.take(&path, *link);
        }
        self.losses.extend(user);
        Ok(())
    }

    /// Sends what is queued.
    ///
    /// # Errors
    /// [`RingError`] if it can't be queued.
    #[inline]
    pub(crate) fn pump(&mut self, now: Nanos, ring: &mut Ring) -> Result<(), RingError> {
        if !std::mem::take(&mut self.is_queued) {
            return Ok(());
        }
        self.links.iter_mut().flatten().try_for_each(|link| link.pump(now, &self.slots, ring))
    }

    /// Breaks off links whose server has been silent for too long.
    pub(super) fn look_at_links(&mut self, now: Nanos, ring: &mut Ring) -> Result<(), RingError> {
        self.owing.look();
        for number in 0..self.links.len() as u32 {
            let Some(link) = &self.links[number as usize] else { continue };
            let limit = self.member_timeout;
            if link.waiting_since().is_some_and(|since| now.saturating_since(since) >= limit) {
                self.break_off(number, EndedBy::Array, &format_args!("no answer for {limit}"), ring)?;
            }
            // One that was closed while nothing of it was in flight hears of no end.
            if self.links[number as usize].as_ref().is_some_and(|link| link.is_over()) {
                self.bury(number, ring)?;
            }
        }
        Ok(())
    }

    /// Takes in that the array uses a member no more: its connection or file is given up when nothing is in flight there.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn let_go(&mut self, member: MemberIndex, ring: &mut Ring) -> Result<(), RingError> {
        self.places[member.index()].is_left = true;
        self.leave(member, ring)
    }

    /// Whether the device at `path` may be used, and why not: the kernel may still have I/O of it, and a server may still do what it was sent over a
    /// connection that was given up. One that `was_restarted` does not.
    pub(crate) fn check_settled(&mut self, path: &Path, was_restarted: bool) -> Result<(), String> {
        if was_restarted {
            self.owing.forgive(path);
        }
        if self.hung.has(path) {
            return Err(format!("{} is in use: I/O that was given up there has not ended", path.display()));
        }
        self.owing.check(path)
    }

    /// Closes the link or the file of a member that was left and is quiet: the file may be taken elsewhere, or joins again.
    pub(super) fn leave(&mut self, member: MemberIndex, ring: &mut Ring) -> Result<(), RingError> {
        let place = &mut self.places[member.index()];
        if !place.is_left || place.in_flight > 0 {
            return Ok(());
        }
        let Some(attached) = &mut place.attached else { return Ok(()) };
        match attached.carrier {
            Carrier::File(_) => {
                ring.clear_file(member.0)?;
                let file = std::mem::replace(&mut attached.carrier, Carrier::Lost);
                if place.hung_since.is_some() {
                    self.hung.close_later(member, file);
                }
            }
            Carrier::Link(link) => {
                if let Some(link) = &mut self.links[link as usize] {
                    link.close();
                }
            }
            Carrier::Null | Carrier::Lost => {}
        }
        Ok(())
    }

    /// Ends all connections, so that none of their entries stays in flight.
    pub(crate) fn hang_up(&mut self) {
        self.links.iter_mut().flatten().for_each(|link| link.close());
    }

    /// Entries in flight that wait for what may never come.
    pub(crate) fn idle_entries(&self) -> u32 {
        let waiting: u32 = self.links.iter().flatten().map(|link| u32::from(link.is_waiting())).sum();
        waiting + self.hung.entries()
    }

    /// Whether there are ends or losses that the controller was not told of.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        !self.ends.is_empty() || !self.losses.is_empty()
    }

    /// Returns the next end of an I/O of a link.
    #[inline]
    pub(crate) fn poll_end(&mut self) -> Option<IoEnd> {
        self.ends.pop()
    }

    /// Returns the next member whose link has broken, after all ends of its I/Os.
    #[inline]
    pub(crate) fn poll_loss(&mut self) -> Option<MemberIndex> {
        self.losses.pop()
    }
}
