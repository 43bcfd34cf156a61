//! Files and block devices whose I/O does not end: the member is failed, and nobody uses the memory that the kernel may
//! still touch.
//!
//! ```text
//! overdue twice ─► member lost, its entries cancelled ─┬─► they end: the I/Os end as gone
//!                                                     └─► not for a second: parting. New I/O is held until none of other
//!                                                         members is in flight, the memory moves, the I/Os end as gone
//! ```
//! Linux can't take back I/O from a stuck driver, or from a file system's thread that waits for it. It may still read
//! and write the memory. So the array moves to other memory: the whole cache, the whole working memory and the controller's own, each to
//! a new mapping, a host's buffer to a separate one. The old memory stays there until the kernel returns the entries. The
//! slots of the I/Os are reused under other names ([`IoSlot::name`](super::slot::IoSlot::name)).
//!
//! NVRAM can't be moved. A read into it therefore keeps waiting, and so do requests that need its blocks; it ends as gone when the
//! kernel returns it. A write from there ends like all others: if late, it may store newer bytes than it was given, on a device that
//! the array has left.
//!
//! The device stays locked here until its last entry has ended, so that it is not reused under a late write.
//!
//! Each such entry blocks a worker thread of the kernel; more are allowed before other members run out of them
//! ([`Ring::make_way`]).
//!
//! Left out: devices that hang while an array is started or created, whose reads and writes are plain system calls.

use super::{Carrier, IoEnd, LOOK_EVERY_MIN, MemberPort};
use crate::error::RingError;
use crate::memory::Memory;
use crate::ring::{Direction, Ring};
use raidlab_controller::{Controller, MemberError, MemberIoId};
use raidlab_device::ring::IoVec;
use raidlab_units::{MemberIndex, NanoSpan, Nanos};
use std::path::Path;

/// How long entries that are taken back may take to end.
pub(crate) const CANCEL_PATIENCE: NanoSpan = NanoSpan::from_millis(1000);

/// Entries of one I/O that was given up.
#[derive(Debug)]
struct Stray {
    name: u32,
    entries: u32,
    member: MemberIndex,
    _pieces: Vec<IoVec>,
}

/// What the kernel still has, and what is kept for its sake.
#[derive(Debug, Default)]
pub(super) struct Hung {
    strays: Vec<Stray>,
    devices: Vec<(MemberIndex, Carrier)>,
    /// I/Os that were given up and go on waiting, because some of their memory can't be left.
    staying: u32,
    is_parting: bool,
}

impl Hung {
    /// Entries that the kernel has.
    pub(super) fn entries(&self) -> u32 {
        self.strays.iter().map(|stray| stray.entries).sum()
    }

    /// Whether the device at `path` was given up and the kernel still has entries of it. To open it might take for ever.
    pub(super) fn has(&self, path: &Path) -> bool {
        let is_it = |device: &Carrier| matches!(device, Carrier::File(device) if device.path() == path);
        self.devices.iter().any(|(_, device)| is_it(device))
    }

    /// Closes a device when the kernel has no entry of it any more.
    pub(super) fn close_later(&mut self, member: MemberIndex, device: Carrier) {
        self.devices.push((member, device));
        self.close_quiet();
    }

    fn close_quiet(&mut self) {
        let strays = &self.strays;
        for (_, device) in
            self.devices.extract_if(.., |(member, _)| !strays.iter().any(|stray| stray.member == *member))
        {
            // To close it may wait for the device, too. Without a thread it stays open.
            let close = std::thread::Builder::new().name("raidlab-close".to_owned());
            if let Err(error) = close.spawn(move || drop(device)) {
                tracing::warn!(%error, "a device that was given up can't be closed");
            }
        }
    }

    /// Takes in that an I/O that went on waiting has ended.
    pub(super) fn end_staying(&mut self) {
        self.staying = self.staying.checked_sub(1).expect("an I/O that goes on waiting was counted");
    }

    /// Takes in the end of an entry of an I/O that was given up.
    pub(super) fn end(&mut self, name: u32) {
        let stray = self.strays.iter_mut().find(|stray| stray.name == name);
        stray.expect("an entry in flight has an owner").entries -= 1;
        self.strays.retain(|stray| stray.entries > 0);
        self.close_quiet();
    }
}

impl MemberPort {
    /// Gives files up whose I/O is overdue.
    pub(super) fn look_at_files(&mut self, now: Nanos, ring: &mut Ring) -> Result<(), RingError> {
        let mut slow = self.hung.entries();
        let (mut overdue, mut to_part) = (Vec::new(), Vec::new());
        for slot in self.slots.iter().filter(|slot| slot.entries > 0) {
            let age = now.saturating_since(slot.since);
            let attached = self.places[slot.member.index()].attached.as_ref();
            let is_file = attached.is_some_and(|attached| matches!(attached.carrier, Carrier::File(_)));
            if !is_file || age < self.member_timeout / 4 {
                continue;
            }
            slow += slot.entries;
            if age >= self.member_timeout {
                overdue.push(slot.member);
            }
            if !slot.stays {
                to_part.push(slot.member);
            }
        }
        ring.make_way(slow)?;
        for member in self.members() {
            let is_overdue = overdue.contains(&member);
            let place = &mut self.places[member.index()];
            // An end may be there that this thread, stopped itself, has not seen: it has by the next look.
            let is_sure = std::mem::replace(&mut place.is_suspect, is_overdue) && is_overdue;
            match place.hung_since {
                None if is_sure => self.give_up(member, now, ring)?,
                None if is_overdue => self.look_at = now + LOOK_EVERY_MIN,
                Some(since) if to_part.contains(&member) => {
                    self.hung.is_parting |= now.saturating_since(since) >= CANCEL_PATIENCE;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn give_up(&mut self, member: MemberIndex, now: Nanos, ring: &mut Ring) -> Result<(), RingError> {
        let path = self.path(member).map(|path| path.display().to_string()).unwrap_or_default();
        let limit = self.member_timeout;
        tracing::warn!(%member, path, "an I/O has not ended for {limit}: the device is given up");
        self.places[member.index()].hung_since = Some(now);
        self.losses.push(member);
        ring.cancel_file(member.0)
    }

    /// Whether new I/O is to be held, because memory is about to be moved.
    #[inline]
    pub(crate) const fn is_parting(&self) -> bool {
        self.hung.is_parting
    }

    /// Whether the kernel has entries of I/Os that were given up, those that go on waiting among them: some of their memory may have
    /// been left to it.
    pub(crate) fn has_strays(&self) -> bool {
        !self.hung.strays.is_empty() || self.hung.staying > 0
    }

    /// Whether I/O is in flight on devices that answer.
    pub(crate) fn has_others_in_flight(&self) -> bool {
        self.places.iter().any(|place| place.hung_since.is_none() && place.in_flight > 0)
    }

    /// Ends the I/Os that the kernel does not give back, after moving what they are on. Nothing else may be in flight
    /// (asserted).
    ///
    /// # Errors
    /// [`RingError`] if a device can't be let go.
    pub(crate) fn part(
        &mut self,
        memory: &mut Memory,
        controller: &mut Controller,
        ring: &mut Ring,
    ) -> Result<(), RingError> {
        assert!(!self.has_others_in_flight(), "memory is moved under I/O");
        self.hung.is_parting = false;
        let in_flight = |port: &Self, number: usize| port.slots[number].entries > 0;
        let hung: Vec<usize> = (0..self.slots.len()).filter(|number| in_flight(self, *number)).collect();
        for number in hung {
            let slot = &mut self.slots[number];
            let is_read = slot.transfer.is_some_and(|transfer| transfer.direction == Direction::Read);
            match memory.part_from(&slot.pieces, controller, ring) {
                Ok(()) => {}
                Err(reason) if is_read => {
                    tracing::warn!(member = %slot.member, "a read that does not end keeps its memory: {reason}");
                    // Some of it may have been left all the same: what comes there is of no use.
                    (slot.stays, slot.error) = (true, Some(MemberError::Gone));
                    self.hung.staying += 1;
                    continue;
                }
                Err(reason) => tracing::debug!(member = %slot.member, "a write was given up: {reason}"),
            }
            let (name, entries) = (slot.name(number as u32), std::mem::take(&mut slot.entries));
            let (member, pieces) = (slot.member, std::mem::take(&mut slot.pieces));
            slot.life = slot.life.wrapping_add(1);
            self.hung.strays.push(Stray { name, entries, member, _pieces: pieces });
            let place = &mut self.places[member.index()];
            place.in_flight -= 1;
            place.errors += 1;
            self.ends.push(IoEnd { id: MemberIoId(number as u32), result: Err(MemberError::Gone) });
        }
        self.members().try_for_each(|member| self.leave(member, ring))
    }

    /// How long the end of an array waits for what is in flight.
    pub(crate) fn patience_at_end(&self) -> NanoSpan {
        let has_hung = self.hung.entries() > 0 || self.places.iter().any(|place| place.hung_since.is_some());
        if has_hung { NanoSpan::ZERO } else { self.member_timeout }
    }

    /// Leaves all that the kernel may still touch where it is, for the rest of the process: it does not give it back.
    pub(crate) fn leak(&mut self) {
        std::mem::forget(std::mem::take(&mut self.slots));
        std::mem::forget(std::mem::take(&mut self.hung));
        for place in self.places.iter_mut().filter(|place| place.in_flight > 0 || place.hung_since.is_some())
        {
            std::mem::forget(place.attached.take());
        }
    }
}
