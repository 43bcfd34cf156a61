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

use crate::api::HostOp;
use crate::config::{CacheMemory, MemberCache, WritePolicy};
use crate::controller::Controller;
use crate::host_front::Request;
use raidlab_units::{BlockCount, Nanos};

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

impl Controller {
    /// Takes in the battery's state; under [`WritePolicy::WriteBack`] a cache that needs its battery writes through,
    /// and destages what it holds, while the battery is not good.
    pub fn handle_battery(&mut self, now: Nanos, state: BatteryState) {
        self.advance(now);
        let survived = self.cache_survives_power_loss();
        self.cache.battery = state;
        self.hold_to_protection(survived);
        self.check_log_place();
        self.pump();
    }

    /// Takes in the second controller's state, which matters to a mirrored cache only; it is present until told
    /// otherwise. Under [`WritePolicy::WriteBack`] the cache writes through, and destages what it holds, until the other
    /// is there and no slot is dirty that it lacks. A world that starts from NVRAM lets the other come only when
    /// [`Controller::restored_pending`] is 0, so that one of them always has what is restored.
    pub fn handle_peer(&mut self, now: Nanos, state: PeerState) {
        self.advance(now);
        let survived = self.cache_survives_power_loss();
        if state != core::mem::replace(&mut self.cache.peer, state) && self.config.cache.mirror {
            self.cache.slots.set_mirrors(state == PeerState::Present);
            if let Some(log) = self.write_intent.log() {
                log.forget_mirrored();
            }
            // What the other lacks goes to the members whatever the policy: there it needs no mirror.
            self.cache.destage_all();
            if self.start.has_label_written() {
                self.write_nvram_label();
            }
            self.check_log_place();
        }
        self.hold_to_protection(survived);
        self.pump();
    }

    /// Whether what is in the cache memory is found again after a power loss: power loss leaves it as it is, and memory and
    /// devices name the same incarnation of it (see `start.rs`).
    pub fn cache_survives_power_loss(&self) -> bool {
        let is_battery_good = self.config.cache.memory == CacheMemory::BatteryBacked
            && self.cache.battery == BatteryState::Good;
        is_battery_good && !self.start.lacks_life()
    }

    /// True while a mirrored cache's second controller has all that is dirty, so that it can take over: what it has must be
    /// of an incarnation that the devices know, and have the label that says so.
    pub fn is_mirroring(&self) -> bool {
        let has_label = self.cache.labels_pending == 0 && !self.start.lacks_life();
        self.cache.slots.is_mirrored()
            && self.write_intent.log_is_mirrored(!self.start.needs_nvram_log())
            && has_label
    }

    /// True while writes are acknowledged from the cache.
    pub fn writes_back(&self) -> bool {
        let cache = &self.config.cache;
        match cache.write_policy {
            WritePolicy::WriteThrough => false,
            WritePolicy::WriteBackBadBattery => true,
            WritePolicy::WriteBack => {
                (cache.memory == CacheMemory::Volatile || self.cache_survives_power_loss())
                    && (!cache.mirror || self.is_mirroring())
            }
        }
    }

    /// True when a cached write may not be acknowledged before the members have it.
    fn needs_members(&self, fua: bool) -> bool {
        !self.writes_back() || (fua && !self.cache_survives_power_loss())
    }

    /// Holds what is under way to the protection that there is now.
    fn hold_to_protection(&mut self, survived: bool) {
        let lost_memory = survived && !self.cache_survives_power_loss();
        for tag in self.host.tags() {
            let Request { active, op, through, durable, .. } = self.host.request(tag);
            match op {
                HostOp::Write { fua } if active && !through && !durable && self.needs_members(fua) => {
                    self.wait_for_members(tag);
                }
                HostOp::Flush if active && lost_memory && !self.host.is_in_line(tag) => {
                    // It went on to the members' caches because this one was safe; now it does so once more, afterwards.
                    self.begin_flush(tag);
                }
                HostOp::Read | HostOp::Write { .. } | HostOp::Flush | HostOp::Discard => {}
            }
        }
    }

    /// Lets a cached write end only when the members have what it has placed, and what it will place.
    fn wait_for_members(&mut self, tag: u32) {
        let request = self.host.request(tag);
        self.host.set_durable(tag, true);
        let (lba, placed) = (request.lba, BlockCount(request.placed));
        if placed == BlockCount::ZERO {
            return;
        }
        for key in self.geometry.cache_keys(lba, placed) {
            // A newer slot of a block is destaged after the older one, so waiting for the newer is waiting for both.
            let Some(slot) =
                self.cache.slots.lookup(key).filter(|&slot| self.cache.slots[slot].is_newer_than_members())
            else {
                continue;
            };
            self.cache.wait_for_destage(slot, tag, &mut self.host);
            if self.cache.slots[slot].incoming == 0 {
                let stripe = self.geometry.lock_of_block(key);
                self.cache.destage.urgent.push_back(stripe);
            }
        }
    }

    /// Whether the destage of a slot must survive power loss by itself: because that was promised, or is about to be
    /// promised by a flush.
    pub(crate) fn must_survive(&self, slot: u32) -> bool {
        let kept_flush = self.host.has_flushes() && self.cache_survives_power_loss();
        let slot = &self.cache.slots[slot];
        self.config.member_cache == MemberCache::On
            && (slot.promised || slot.sequence < self.cache.destage.promised_before || kept_flush)
    }

    /// Whether the first flush in line must wait. Where the cache survives power loss, dirty blocks need not be destaged,
    /// but those that are on their way into members' volatile caches must have arrived there before these are flushed.
    pub(crate) fn flush_waits(&self, up_to: u64) -> bool {
        if self.cache_survives_power_loss() {
            self.config.member_cache == MemberCache::On && self.cache.destage.unforced_count > 0
        } else {
            self.cache.slots.oldest_dirty().is_some_and(|slot| self.cache.slots[slot].sequence < up_to)
        }
    }
}
