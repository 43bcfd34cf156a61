//! The second controller: it goes and comes, and takes over when the first one is gone.
//!
//! ```text
//!  member writes in flight   none, all, a front part or any of the blocks reach the device, or its volatile cache
//!  members' volatile caches  as they were: the members keep their power
//!  memory tasks              none, all or the first of the steps are done, in both memories
//!  first controller          gone with its memory
//!  second controller         starts from its own copy of NVRAM; no other is there to mirror to
//! ```
//! All that was acknowledged must be there afterwards, whether or not it would have survived a power cut (`volume.rs`). The
//! first controller comes back later, with blank memory, as the second one.

use super::members::{Device, Presence};
use super::memories::Peer;
use super::plan::TortureMode;
use super::trace::TraceEvent;
use super::violation::Failure;
use super::volume::WriteNumber;
use super::world::TortureWorld;
use raidlab_controller::{MemberCache, PeerState};
use raidlab_workload::Rng;

impl TortureWorld {
    /// Whether the second controller may come: what was restored at a start is on the members.
    pub(super) fn may_peer_come(&self) -> bool {
        self.controller.is_serving() && self.controller.restored_pending() == 0
    }

    /// Whether the second controller may come or go.
    pub(super) fn may_change_peer(&self) -> bool {
        self.config.cache.mirror && (self.memories.peer_place() == Peer::Here || self.may_peer_come())
    }

    /// Lets the second controller come, or go.
    pub(super) fn change_peer(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        if self.memories.peer_place() != Peer::Here {
            return self.bring_peer();
        }
        self.memories.set_peer(Peer::Gone, pick);
        self.battery_changed = self.stamp;
        self.controller.handle_peer(self.now, PeerState::Gone);
        self.pump()
    }

    /// Lets the second controller come, with blank memory.
    pub(super) fn bring_peer(&mut self) -> Result<(), Failure> {
        self.memories.set_peer(Peer::Here, &mut self.random);
        self.battery_changed = self.stamp;
        self.tick(TraceEvent::PeerCame);
        self.controller.handle_peer(self.now, PeerState::Present);
        self.pump()
    }

    /// Whether the second controller could take over now.
    pub(super) fn may_fail_over(&self) -> bool {
        let is_ready = self.memories.peer_place() == Peer::Here && self.controller.is_serving();
        self.config.cache.mirror && is_ready && self.controller.is_mirroring() && self.may_crash()
    }

    /// Lets the second controller take over.
    pub(super) fn fail_over(&mut self, pick: &mut Rng) -> Result<(), Failure> {
        self.report.restarts += 1;
        self.tick(TraceEvent::TakenOver);
        self.look_at_states();
        let has_half = 2 * self.members_that_count().count() >= usize::from(self.config.members);
        if self.mode == TortureMode::Bounded && (self.has_write_hole() || !has_half) {
            // A write that fails now would lose a member while parity is in doubt, or leave fewer than half before the devices know
            // of the start: the others could start without those. A power cut ends this, too.
            let is_doomed = |device: &&mut Device| matches!(device.presence, Presence::Doomed(_));
            let doomed = self.devices.iter_mut().filter(is_doomed);
            doomed.for_each(|device| device.presence = Presence::Here);
        }
        self.note_end_of_controller();
        self.end_flights(pick, false);
        self.undo_corruption();
        self.memories.fail_over(pick);
        if self.config.member_cache == MemberCache::On && (self.has_lost() || self.media.has_dropped) {
            // What a lost device had in its cache, or one that failed a flush, may be gone, as after a power cut.
            self.volume.cut(WriteNumber(self.writes), self.stamp, true);
        } else {
            self.volume.fail_over(WriteNumber(self.writes), self.stamp);
        }
        self.last_progress = self.stamp;
        self.start_again(pick).map(|_| ())
    }
}
