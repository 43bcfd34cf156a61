//! Routes: writes of the superblock, and devices that leave or come.
//!
//! A change of membership drains the log before the superblock is written: a device that leaves takes records with it, and one
//! that comes brings older ones.

use crate::api::{HostError, HostTag, MemberError, Notice};
use crate::config::MemberCache;
use crate::controller::Controller;
use crate::ids::LockKey;
use crate::member_io::IoOwner;
use crate::metadata::SuperblockWaiter;
use crate::own;
use crate::scan::VisitEnd;
use raidlab_format::{DeviceUuid, STATE_BYTES};
use raidlab_units::{BlockCount, MemberIndex, MemberLba, Nanos};

impl Controller {
    /// Has the devices keep the superblock once more, in the slot of the generation before the last: that slot is written anew
    /// on all of them.
    pub fn handle_state_renewal(&mut self, now: Nanos) {
        self.advance(now);
        if self.metadata.record().is_some() && !self.metadata.is_frozen() {
            self.metadata.change();
        }
        self.pump();
    }

    /// Takes a member out of the array.
    pub(super) fn fail_member(&mut self, member: MemberIndex) {
        self.metadata.fail(&self.geometry, member, &mut self.outbox);
    }

    /// Takes in that a device with a new label answers at this place.
    pub(super) fn add_device(&mut self, device: MemberIndex, uuid: DeviceUuid) {
        if self.metadata.announce(&self.geometry, device, uuid, &mut self.outbox) {
            // Before it is admitted, too: what is read there from now on are its bytes.
            if self.start.is_replaying() {
                self.write_intent.replay().note_replaced(device);
            }
            self.admit_again(device);
        }
    }

    /// Makes a device that has come to the place of one that left a spare, once nothing from before is under way on it.
    pub(super) fn admit_again(&mut self, device: MemberIndex) {
        if self.ios.is_idle(device) && self.metadata.admit(device) {
            self.greet_newcomer();
            self.written.renew();
            self.outbox.notify(Notice::MemberAdded { member: device });
        }
    }

    /// True when a device is lost that may yet lose what it has acknowledged, because its cache is on.
    pub(super) fn lost_device_is_volatile(&self) -> bool {
        self.config.member_cache == MemberCache::On && self.metadata.any_lost()
    }

    /// Writes the newest generation if it is wanted and may be written. Returns true if someone who waited went on.
    #[inline]
    pub(super) fn pump_superblock(&mut self) -> bool {
        !self.metadata.keeps_nothing() && self.move_superblock_on()
    }

    #[inline(never)]
    fn move_superblock_on(&mut self) -> bool {
        if self.metadata.is_frozen() {
            self.cancel_drain();
        } else if self.metadata.wants_generation() && !self.start.is_replaying() {
            let drains =
                self.metadata.membership_changed() || self.metadata.wants_drained() || self.log_moves();
            if !drains || (self.write_intent.newcomers_served() && self.drain_log()) {
                self.write_superblock();
            }
        }
        self.pump_superblock_waiters()
    }

    fn write_superblock(&mut self) {
        let log_place = self.metadata.kept_record().log_place;
        let log_tail = self.write_intent.log().map(|log| log.is_named(log_place));
        let image = &mut self.own.bytes_mut()[own::STATE_AT..own::STATE_AT + STATE_BYTES];
        self.metadata.make_generation(log_tail, image);
        self.send_superblock();
    }

    /// Writes the superblock that a start has found once more: its image is in place.
    pub(super) fn send_found_superblock(&mut self) {
        self.metadata.begin_writing_found();
        self.send_superblock();
    }

    /// Writes the superblock's image to all devices that answer.
    fn send_superblock(&mut self) {
        let block_bytes = self.geometry.block_bytes();
        let slot = self.area.state_slot(self.metadata.kept_record().generation).offset_bytes / block_bytes;
        let blocks = BlockCount(STATE_BYTES as u64 / block_bytes);
        let Self { metadata, ios, outbox, .. } = self;
        let mut writes = 0;
        for device in metadata.answering() {
            ios.write_metadata(device, MemberLba(slot), blocks, IoOwner::Superblock, outbox);
            writes += 1;
        }
        metadata.begin_superblock_writes(writes);
        self.end_superblock_write();
    }

    /// Takes in the end of one write of the superblock.
    pub(super) fn superblock_write_done(&mut self, device: MemberIndex, result: Result<(), MemberError>) {
        if result.is_err() {
            self.metadata.fail_superblock_write(&self.geometry, device, &mut self.outbox);
        }
        self.end_superblock_write();
    }

    fn end_superblock_write(&mut self) {
        if self.metadata.end_superblock_write() {
            self.start_log_again();
        }
    }

    /// Lets those go on whose generation is durable, or never will be.
    fn pump_superblock_waiters(&mut self) -> bool {
        let mut went_on = false;
        while let Some((waiter, is_kept)) = self.metadata.next_waiter() {
            went_on = true;
            match waiter {
                SuperblockWaiter::Op(op) => self.finish_written(op, is_kept),
                SuperblockWaiter::Rewrite(op) => self.start_rewrites(op),
                SuperblockWaiter::Admission(op) if is_kept => self.admit(op),
                SuperblockWaiter::Admission(op) => self.give_window_up(op),
                SuperblockWaiter::Regions if is_kept => self.keep_regions(),
                SuperblockWaiter::Regions => self.end_regions(false),
                SuperblockWaiter::Visit(visit) => self.visit_ended(visit, VisitEnd::Done),
                SuperblockWaiter::Part(request) => {
                    let lba = self.host.request(request).lba;
                    let refused = Err(HostError::ArrayFailed { lba });
                    self.end_part(request, if is_kept { Ok(()) } else { refused });
                }
            }
        }
        went_on
    }

    /// Ends one part of a request when all changes up to now are kept.
    pub(super) fn end_part_when_kept(&mut self, request: HostTag) {
        if self.metadata.is_kept() {
            self.end_part(request, Ok(()));
        } else {
            self.metadata.wait(SuperblockWaiter::Part(request));
        }
    }

    /// Notes that redundancy agrees in a stripe.
    pub(super) fn stripe_synced(&mut self, key: LockKey) {
        if !self.metadata.mark_in_sync(key) {
            return;
        }
        let (stripe, _) = self.geometry.lock_start(key);
        let region = self.geometry.locks_of(self.write_intent.region_stripes(stripe));
        if self.metadata.next_out_of_sync(region.start).is_none_or(|next| next >= region.end) {
            let Self { write_intent, now, outbox, .. } = self;
            if let Some(bitmap) = write_intent.bitmap() {
                bitmap.release(stripe, *now, outbox);
            }
        }
    }

    /// True while a resync of the stripe is under way, which goes on for a while when a device is lost.
    pub(super) fn is_being_synced(&mut self, key: LockKey) -> bool {
        self.stripe_locks.is_syncing(key)
    }
}
