//! Writes that find no room on a device: they wait and are retried, because a full disk is no bad block.
//!
//! ```text
//! no space, or over quota ─► waits ─┬─► retried every 100 ms ─► there is room: goes on from there
//!                                   └─► none for the member timeout: the device is gone, like one that does not answer
//! ```
//! So a disk that was full for a moment leaves no record. If it stays full, members are lost one after the other, and
//! those beyond what the level survives are not recorded as missing: a start that finds room has everything that was
//! acknowledged.
//!
//! Invariant: a waiting write counts as in flight on its device, and has no entry in the ring or on a link.
//! Source: QEMU's `werror=enospc` and dm-thin's `no_space_timeout` wait in the same way.

use super::{IoEnd, MemberPort};
use crate::error::RingError;
use crate::ring::{Direction, Ring};
use raidlab_controller::{MemberError, MemberIoId};
use raidlab_units::{MemberIndex, NanoSpan, Nanos};
use rustix::io::Errno;

/// How often a write that waits for room is tried again.
pub(super) const TRY_EVERY: NanoSpan = NanoSpan::from_millis(100);

impl MemberPort {
    /// Whether a device had no room for what an entry of this I/O wrote.
    pub(super) fn lacks_room(&self, number: u32, errno: Errno) -> bool {
        let slot = &self.slots[number as usize];
        let writes = slot.transfer.is_some_and(|transfer| transfer.direction != Direction::Read);
        writes && !slot.is_flushing && matches!(errno, Errno::NOSPC | Errno::DQUOT)
    }

    /// Has a write wait whose entries have all ended.
    pub(super) fn wait_for_room(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        let is_news = !std::mem::replace(&mut slot.waited, true);
        self.places[slot.member.index()].waits_untold += u64::from(is_news);
        self.waiting.push(number);
    }

    /// Tries the writes again that wait for room, and gives devices up that have had none for too long.
    pub(super) fn look_for_room(&mut self, now: Nanos, ring: &mut Ring) -> Result<(), RingError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.look_at = self.look_at.min(now + TRY_EVERY);
        for number in std::mem::take(&mut self.waiting) {
            let slot = &mut self.slots[number as usize];
            let place = &self.places[slot.member.index()];
            let is_late = now.saturating_since(slot.since) >= self.member_timeout;
            if is_late || place.is_left {
                self.end_without_room(number, ring)?;
            } else {
                // It goes on from where it is sure to have come.
                slot.attempts = 1;
                self.start(number, ring)?;
            }
        }
        Ok(())
    }

    fn end_without_room(&mut self, number: u32, ring: &mut Ring) -> Result<(), RingError> {
        let member = self.slots[number as usize].member;
        let place = &mut self.places[member.index()];
        place.in_flight -= 1;
        place.errors += 1;
        place.tell(member, MemberError::Gone, Some(Errno::NOSPC));
        self.ends.push(IoEnd { id: MemberIoId(number), result: Err(MemberError::Gone) });
        self.leave(member, ring)
    }

    /// Whether writes wait for room.
    pub(crate) const fn waits_for_room(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes that began to wait for room on a device since this was asked last.
    pub(crate) fn take_new_waits(&mut self, member: MemberIndex) -> u64 {
        std::mem::take(&mut self.places[member.index()].waits_untold)
    }
}
