//! Rules that software arrays have in place of a controller's own: what Linux md does with parts of stripes, copies and its
//! write-intent bitmap.
//!
//! ```text
//!   part of a stripe ─► collects ── another one reads what it needs ──► collects on      CoalescingRule::Prereads
//!                          └─────── none does ─► all that collect are carried out
//! ```
//! Every rule has a function of the kernel as its source. The default of each is what raidlab's own arrays do.

use raidlab_units::{ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};

/// How long a write through to a part of a stripe goes on collecting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CoalescingRule {
    /// While the write that comes up to its front is under way, for a bounded time (`write_coalescing.rs`).
    #[default]
    Sequence,
    /// While any stripe reads what the change of its parity needs; then all go on together. Source: Linux
    /// `drivers/md/raid5.c`, `raid5_activate_delayed`: `preread_active_stripes < IO_THRESHOLD`.
    Prereads,
}

/// How parity follows a change of a part of its stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ParityUpdate {
    /// With the fewest reads; from all data where both take as many. Source: Linux `drivers/md/raid5.c`,
    /// `handle_stripe_dirtying` with `PARITY_ENABLE_RMW`.
    #[default]
    FewestReads,
    /// The same, but from the old parity where both take as many: `PARITY_PREFER_RMW`.
    PreferModify,
    /// From all data wherever that can be read: `PARITY_DISABLE_RMW`.
    NeverModify,
}

/// What is held in memory of stripes that were changed, by whole rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StripeCache {
    /// Nothing.
    #[default]
    None,
    /// What was read, written and computed. Source: Linux `drivers/md/raid5.c`, `R5_UPTODATE`.
    Held,
    /// The same without what the host wrote, which is never copied: `R5_SkipCopy`.
    HeldWithoutWrites,
}

/// Which copy is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBalance {
    /// That with the fewest I/Os in flight; of equals the one that is nearest. Source for solid-state members: Linux
    /// `drivers/md/raid1.c`, `raid10.c`, `read_balance`.
    #[default]
    FewestInFlight,
    /// An idle one; where none is, the nearest, however many wait there: the same function for members that rotate.
    IdleThenNearest,
}

/// Where a change of redundancy is written down before it is made. In virtual time only: nothing reads it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteLogPlace {
    /// In a partial parity log on the member that has the parity. Source: Linux `drivers/md/raid5-ppl.c`.
    PartialParity,
    /// With data and parity in a journal on a device beside the members. Source: Linux `drivers/md/raid5-cache.c`, write-through.
    Journal,
}

impl WriteLogPlace {
    /// True of a log on each member, else there is one on a device beside them.
    pub(crate) const fn is_on_members(self) -> bool {
        matches!(self, Self::PartialParity)
    }
}

/// Where the write-intent bitmap stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BitmapPlace {
    /// On all members.
    #[default]
    Members,
    /// On all members, which are flushed before it is written. Source: Linux `drivers/md/md.c`, `md_super_write`: `REQ_PREFLUSH`.
    MembersFlushed,
    /// In a file on a device beside the members. In virtual time only. Source: Linux `drivers/md/md-bitmap.c`, `write_page`.
    Beside,
}

/// The rules of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ArrayRules {
    /// How long parts of stripes collect.
    pub coalescing: CoalescingRule,
    /// How parity follows them.
    pub parity_update: ParityUpdate,
    /// Which copy is read.
    pub read_balance: ReadBalance,
    /// Length on each member of what a stripe locks and changes at a time, where there is parity; its whole strips if none.
    /// Source: Linux `drivers/md/raid5.h`, `struct stripe_head`: a page of each member.
    /// In virtual time only: the log and the bitmap on devices count whole stripes, so that no array with rows starts from them.
    pub row: Option<ByteCount>,
    /// What is held of stripes that were changed: those of the latest [`ArrayRules::stripe_pages_max`] rows. Only a world that
    /// carries no bytes may have it.
    pub stripe_cache: StripeCache,
    /// How many whole stripes may go before parts of stripes that are ready ([`CoalescingRule::Prereads`]); at 0 all do, and none has
    /// to if none. Source: Linux `drivers/md/raid5.c`, `__get_priority_stripe`, `bypass_threshold`.
    pub preread_bypass: Option<u32>,
    /// Pages of 4 KiB on each member that changes of stripes have under way at most; no bound if none.
    pub stripe_pages_max: Option<u32>,
    /// What a bit of the write-intent bitmap stands for on each member at least; as little as the bitmap has bits for if none.
    pub bitmap_chunk: Option<ByteCount>,
    /// How long a region has no write before its bit is cleared, or twice as long; 5 s if none.
    pub bitmap_delay: Option<NanoSpan>,
    /// Where the bitmap stands.
    pub bitmap_place: BitmapPlace,
    /// What changes of redundancy are written down in first.
    pub write_log: Option<WriteLogPlace>,
    /// Bytes on each member in a second above which a scan makes way for the host; it never does if none. Source: Linux
    /// `drivers/md/md.c`, `md_do_sync`: `speed_min`, `is_mddev_idle`.
    pub scan_floor: Option<ByteCount>,
    /// Percent of the time that scans have for themselves, in slices with rests between; they go on beside the host if none. Hardware
    /// controllers call it their rebuild rate. In virtual time only.
    pub scan_share_pct: Option<u8>,
}

impl ArrayRules {
    /// What raidlab's own arrays do.
    pub const OWN: Self = Self {
        coalescing: CoalescingRule::Sequence,
        parity_update: ParityUpdate::FewestReads,
        read_balance: ReadBalance::FewestInFlight,
        row: None,
        stripe_cache: StripeCache::None,
        preread_bypass: None,
        stripe_pages_max: None,
        bitmap_chunk: None,
        bitmap_delay: None,
        bitmap_place: BitmapPlace::Members,
        write_log: None,
        scan_floor: None,
        scan_share_pct: None,
    };

    /// Whether there is a device beside the members and spares, which is named by the number behind theirs.
    pub fn has_device_beside(&self) -> bool {
        self.write_log.is_some_and(|place| !place.is_on_members()) || self.bitmap_place == BitmapPlace::Beside
    }

    /// Whether these are raidlab's own.
    pub(crate) fn are_own(&self) -> bool {
        *self == Self::OWN
    }
}
