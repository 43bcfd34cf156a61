//! What protects data that only the cache holds: the battery and the second controller.
//!
//! | | survives a power loss | survives this controller |
//! |---|---|---|
//! | battery-backed, battery good | yes | no |
//! | mirrored, second controller there | as above | yes |
//!
//! Under [`WritePolicy::WriteBack`] a write is acknowledged from the cache only while all that the configuration asks for
//! is there. When some of it goes away, all that is dirty is destaged, and what is under way is held to what it will be
//! acknowledged under, not to what it began under: a cached write waits for the members, and so does a flush that found
//! the cache safe. What was acknowledged before is at risk until it is destaged; no controller can help that.
//!
//! A slot is mirrored or it is not, from the moment it becomes dirty. Those that became dirty while the second controller
//! was away stay so until they have been destaged; only then is the cache mirrored again.

use super::CacheEngine;
use crate::api::{HostOp, HostTag};
use crate::config::{CacheMemory, WritePolicy};
use crate::geometry::Geometry;
use crate::host_front::{HostFront, Request};
use crate::ids::SlotIndex;
use raidlab_units::BlockCount;

/// The state of the battery that keeps the cache memory. Only a good one keeps it; the others differ in what the
/// operator is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatteryState {
    /// Keeps the cache memory through a power loss.
    #[default]
    Good,
    /// Not full enough yet; it will be good.
    Charging,
    /// Discharged and charged on purpose, to learn its capacity; it will be good.
    Learning,
    /// Absent, or to be replaced.
    Failed,
}

/// Whether the second controller is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerState {
    /// It takes copies. Whenever it comes (back), its copy of the directory is empty: what it held while it was away is
    /// older than what the members hold.
    #[default]
    Present,
    /// It takes none. The world sees to it that the array is never started from what it holds.
    Gone,
}

impl CacheEngine {
    /// Takes in the battery's state.
    pub(crate) const fn set_battery(&mut self, state: BatteryState) {
        self.battery = state;
    }

    /// Takes in the second controller's state. Returns true if it has come, or gone, and has a part in this cache.
    pub(crate) fn set_peer(&mut self, state: PeerState) -> bool {
        let changes = state != core::mem::replace(&mut self.peer, state) && self.config.mirror;
        if changes {
            self.slots.set_mirrors(state == PeerState::Present);
            // What the other lacks goes to the members whatever the policy: there it needs no mirror.
            self.destage_all();
        }
        changes
    }

    /// Whether what is in the cache memory is found again after a power loss: power loss leaves it as it is, and memory and
    /// devices name the same incarnation of it (see `start.rs`).
    #[inline]
    pub(crate) fn survives_power_loss(&self) -> bool {
        let is_battery_good =
            self.config.memory == CacheMemory::BatteryBacked && self.battery == BatteryState::Good;
        is_battery_good && self.has_incarnation()
    }

    /// True while a mirrored cache's second controller has all that is dirty, and has it under a label of an incarnation that
    /// the devices know.
    pub(crate) const fn is_mirroring(&self) -> bool {
        self.slots.is_mirrored() && self.labels_pending == 0 && self.has_incarnation()
    }

    /// True while writes are acknowledged from the cache; `log_is_mirrored` where the second controller finds all records.
    #[inline]
    pub(crate) fn writes_back(&self, log_is_mirrored: bool) -> bool {
        match self.config.write_policy {
            WritePolicy::WriteThrough => false,
            WritePolicy::WriteBackBadBattery => true,
            WritePolicy::WriteBack => {
                (self.config.memory == CacheMemory::Volatile || self.survives_power_loss())
                    && (!self.config.mirror || (self.is_mirroring() && log_is_mirrored))
            }
        }
    }

    /// True when a cached write may not be acknowledged before the members have it.
    fn needs_members(&self, fua: bool, log_is_mirrored: bool) -> bool {
        !self.writes_back(log_is_mirrored) || (fua && !self.survives_power_loss())
    }

    /// Holds a request under way to the protection that there is now; the cache `survived` a power loss before. Returns true
    /// for a flush that must be repeated.
    pub(crate) fn hold_to_protection(
        &mut self,
        tag: HostTag,
        survived: bool,
        log_is_mirrored: bool,
        (geometry, host): (&Geometry, &mut HostFront),
    ) -> bool {
        let lost_memory = survived && !self.survives_power_loss();
        let Request { active, op, through, durable, .. } = host.request(tag);
        match op {
            HostOp::Write { fua }
                if active && !through && !durable && self.needs_members(fua, log_is_mirrored) =>
            {
                self.wait_for_members(tag, geometry, host);
                false
            }
            // It went on to the members' caches because this one was safe; now it does so once more, afterwards.
            HostOp::Flush => active && lost_memory && !host.is_in_line(tag),
            HostOp::Read | HostOp::Write { .. } | HostOp::Discard => false,
        }
    }

    /// Lets a cached write end only when the members have what it has placed, and what it will place.
    fn wait_for_members(&mut self, tag: HostTag, geometry: &Geometry, host: &mut HostFront) {
        let request = host.request(tag);
        host.set_durable(tag, true);
        let (lba, placed) = (request.lba, BlockCount(request.placed));
        if placed == BlockCount::ZERO {
            return;
        }
        for key in geometry.cache_keys(lba, placed) {
            // A newer slot of a block is destaged after the older one, so waiting for the newer is waiting for both.
            let Some(slot) = self.slots.lookup(key).filter(|&slot| self.slots[slot].is_newer_than_members())
            else {
                continue;
            };
            self.wait_for_destage(slot, tag, host);
            if self.slots[slot].incoming == 0 {
                self.destage_first(geometry.lock_of_block(key));
            }
        }
    }

    /// Whether the destage of a slot must survive power loss by itself: because that was promised, or is about to be
    /// promised by a flush.
    pub(super) fn must_survive(&self, slot: SlotIndex, keeps_flush: bool) -> bool {
        let slot = &self.slots[slot];
        self.is_member_cached
            && (slot.promised || slot.sequence < self.destage.promised_before || keeps_flush)
    }

    /// Whether the first flush in line must wait. Where the cache survives power loss, dirty blocks need not be destaged,
    /// but those that are on their way into members' volatile caches must have arrived there before these are flushed.
    pub(crate) fn flush_waits(&self, up_to: u64) -> bool {
        if self.survives_power_loss() {
            self.is_member_cached && self.destage.unforced_count > 0
        } else {
            self.slots.oldest_dirty().is_some_and(|slot| self.slots[slot].sequence < up_to)
        }
    }
}
