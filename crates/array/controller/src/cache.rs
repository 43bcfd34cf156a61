//! The cache: what it holds, how that gets in and out, and what protects it.
//!
//! ```text
//! host reads ──► read.rs ──► fill.rs (fills, read-ahead) ──► members
//!                   │            │
//! host writes ─► write.rs ──► slots.rs ──► destage.rs ─────► members
//!                                │
//!                             nvram.rs (directory), protection.rs (battery, second controller)
//! ```
//! Invariant: only the files below look at slots; others ask what stands here. Left out: what redundancy a destage changes,
//! which is its stripe operation's.

mod destage;
mod fill;
mod nvram;
mod protection;
mod read;
mod slots;
mod write;

pub(crate) use destage::AGE_TIMER;
pub use nvram::RestoreError;
pub use protection::{BatteryState, PeerState};

use crate::config::CacheConfig;
use crate::table::Slab;
use destage::Destage;
use fill::{Fill, Streams};
use raidlab_units::Lba;
use slots::Slots;
use std::collections::VecDeque;
use write::SlotWaiter;

/// All about the cache.
#[derive(Debug)]
pub(crate) struct CacheEngine {
    slots: Slots,
    fills: Slab<Fill>,
    streams: Streams,
    slot_waiters: Slab<SlotWaiter>,
    /// Cached writes that wait for places.
    stalled: VecDeque<u32>,
    destage: Destage,
    /// Dirty data was lost and no host flush has said so yet.
    lost_since_flush: Option<Lba>,
    battery: BatteryState,
    peer: PeerState,
    /// Labels on their way to NVRAM. The second controller may lack its own until there are none.
    labels_pending: u32,
    config: CacheConfig,
}

impl CacheEngine {
    /// An empty cache of so many slots.
    pub(crate) fn new(config: &CacheConfig, slots: u32) -> Self {
        let destage = Destage::new(config, slots);
        let mut slots = Slots::new(slots, config.block_size.0);
        slots.set_mirrors(config.mirror);
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
            config: *config,
        }
    }

    /// How many slots there are.
    pub(crate) fn slot_count(&self) -> u32 {
        self.slots.slot_count()
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

    /// True while cached writes wait for places.
    #[inline]
    pub(crate) fn has_stalled(&self) -> bool {
        !self.stalled.is_empty()
    }

    /// Takes in that a copy out of a slot has ended.
    #[inline]
    pub(crate) fn unpin(&mut self, slot: u32) {
        self.slots.unpin(slot);
    }

    /// Has the dirty slots of a stripe destaged first: a request waits for them.
    pub(crate) fn destage_first(&mut self, key: u64) {
        self.destage.urgent.push_back(key);
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

    /// Takes in that a label of NVRAM is written.
    pub(crate) fn end_label(&mut self) {
        self.labels_pending -= 1;
    }
}
