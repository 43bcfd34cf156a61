//! The cache: what it holds, how that gets in and out, and what protects it.
//!
//! ```text
//! host reads ──► read.rs ──► fill.rs (fills, read-ahead) ──► members
//!                   │            │
//! host writes ─► write.rs ──► slots.rs ──► destage.rs ─────► members
//!                                │
//!                             nvram.rs (directory), protection.rs (battery, second controller)
//! ```
//! Invariant: only the files below look at slots; other parts call the methods here. Left out: how a destage changes redundancy
//! (`stripe_engine`), and reads from members, which the controller begins (`controller/cache.rs`).

mod destage;
mod fill;
mod nvram;
mod protection;
mod read;
mod slots;
mod write;

pub(crate) use destage::{AGE_TIMER, DestageStep};
pub use nvram::RestoreError;
pub use protection::{BatteryState, PeerState};
pub(crate) use read::CachedRead;

use crate::api::HostTag;
use crate::config::{ArrayConfig, CacheConfig, MemberCache};
use crate::geometry::Geometry;
use crate::host_front::HostFront;
use crate::ids::{LockKey, SlotIndex};
use crate::memory_task::MemoryTasks;
use crate::metadata::Metadata;
use crate::outbox::Outbox;
use crate::stripe_engine::StripeEngine;
use crate::stripe_locks::StripeLocks;
use crate::table::Slab;
use destage::Destage;
use fill::{Fill, Streams};
use raidlab_units::{Lba, Nanos};
use slots::Slots;
use std::collections::VecDeque;
use write::SlotWaiter;

/// What the cache looks at of the rest of the controller, and where it asks for memory work.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Nanos,
    pub(crate) geometry: &'a Geometry,
    pub(crate) metadata: &'a Metadata,
    pub(crate) locks: &'a mut StripeLocks,
    pub(crate) stripes: &'a mut StripeEngine,
    pub(crate) host: &'a mut HostFront,
    pub(crate) tasks: &'a mut MemoryTasks,
    pub(crate) outbox: &'a mut Outbox,
}

/// All about the cache.
#[derive(Debug)]
pub(crate) struct CacheEngine {
    slots: Slots,
    fills: Slab<Fill>,
    streams: Streams,
    slot_waiters: Slab<SlotWaiter>,
    /// Cached writes that wait for places.
    stalled: VecDeque<HostTag>,
    destage: Destage,
    /// Dirty data was lost and no host flush has said so yet.
    lost_since_flush: Option<Lba>,
    battery: BatteryState,
    peer: PeerState,
    /// Labels on their way to NVRAM. The second controller may lack its own until there are none.
    labels_pending: u32,
    /// NVRAM names no incarnation that the devices know, or another: the next start would not use it.
    lacks_incarnation: bool,
    /// Members have volatile caches.
    is_member_cached: bool,
    config: CacheConfig,
}

impl CacheEngine {
    /// An empty cache of so many slots.
    pub(crate) fn new(config: &ArrayConfig, slots: u32) -> Self {
        let ArrayConfig { cache, member_cache, .. } = config;
        let destage = Destage::new(cache, slots);
        let mut slots = Slots::new(slots, cache.block_size.0);
        slots.set_mirrors(cache.mirror);
        Self {
            slots,
            fills: Slab::new(),
            streams: Streams::default(),
            slot_waiters: Slab::new(),
            stalled: VecDeque::new(),
            destage,
            lost_since_flush: None,
            battery: BatteryState::Good,
            peer: PeerState::Present,
            labels_pending: 0,
            lacks_incarnation: false,
            is_member_cached: *member_cache == MemberCache::On,
            config: *cache,
        }
    }

    /// How many slots there are.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.slot_count()
    }

    /// Array blocks that the members do not have yet.
    pub(crate) fn dirty_blocks(&self) -> u64 {
        self.slots.dirty_blocks()
    }

    /// Slots that are dirty or being destaged.
    #[inline]
    pub(crate) const fn dirty_count(&self) -> u32 {
        self.slots.dirty_count()
    }

    /// True when no slot holds anything, so that no lookup can hit.
    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Sequence that the next slot to become dirty will get.
    pub(crate) const fn next_sequence(&self) -> u64 {
        self.slots.next_sequence()
    }

    /// True unless all places are preserved, so that none gets free before the array starts again.
    #[inline]
    pub(crate) const fn has_room(&self) -> bool {
        !self.slots.are_preserved()
    }

    /// True while cached writes wait for places.
    #[inline]
    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Takes in that a copy out of a slot has ended.
    #[inline]
    pub(crate) fn unpin(&mut self, slot: SlotIndex) {
        self.slots.unpin(slot);
    }

    /// Has the dirty slots of a stripe destaged first: a request waits for them.
    pub(crate) fn destage_first(&mut self, key: LockKey) {
        self.destage.urgent.push_back(key);
    }

    /// The first block of an acknowledged write that did not reach the members, if there is one that no host flush has told of.
    pub(crate) const fn untold_loss(&self) -> Option<Lba> {
        self.lost_since_flush
    }

    /// Promises a host flush that what became dirty before `up_to` survives a power loss. Returns what was lost of it, if
    /// something was.
    pub(crate) fn promise_flush(&mut self, up_to: u64) -> Option<Lba> {
        self.destage.promised_before = up_to;
        self.lost_since_flush.take()
    }

    /// True while the second controller is there.
    pub(crate) fn has_peer(&self) -> bool {
        self.peer == PeerState::Present
    }
}
