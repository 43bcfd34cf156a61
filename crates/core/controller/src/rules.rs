//! Rules that software arrays have in place of a controller's own: what Linux md does with parts of stripes, copies and its
//! write-intent bitmap.
//!
//! ```text
//!   part of a stripe ─► collects ── another one reads what it needs ──► collects on      GatherRule::Prereads
//!                          └─────── none does ─► all that collect are carried out
//! ```
//! Every rule has a function of the kernel as its source. The default of each is what raidlab's own arrays do.
//! Left out: pages that md's stripe cache still holds from an earlier write are read again.

use raidlab_units::{ByteCount, NanoSpan};
use serde::{Deserialize, Serialize};

/// How long a write through to a part of a stripe goes on collecting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatherRule {
    /// While the write that comes up to its front is under way, for a bounded time (`gather.rs`).
    #[default]
    Sequence,
    /// While any stripe reads what the change of its parity needs; then all go on together. Source: Linux
    /// `drivers/md/raid5.c`, `raid5_activate_delayed`: `preread_active_stripes < IO_THRESHOLD`.
    Prereads,
}

/// How parity follows a change of a part of its stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Which copy is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadBalance {
    /// That with the fewest I/Os in flight; of equals the one that is nearest. Source for solid-state members: Linux
    /// `drivers/md/raid1.c`, `raid10.c`, `read_balance`.
    #[default]
    FewestInFlight,
    /// An idle one; where none is, the nearest, however many wait there: the same function for members that rotate.
    IdleThenNearest,
}

/// The rules of an array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ArrayRules {
    /// How long parts of stripes collect.
    pub gather: GatherRule,
    /// How parity follows them.
    pub parity_update: ParityUpdate,
    /// Which copy is read.
    pub read_balance: ReadBalance,
    /// Pages of 4 KiB on each member that changes of stripes have under way at most; no bound if none.
    pub stripe_pages_max: Option<u32>,
    /// What a bit of the write-intent bitmap stands for on each member at least; as little as the bitmap has bits for if none.
    pub bitmap_chunk: Option<ByteCount>,
    /// How long a region has no write before its bit is cleared, or twice as long; 5 s if none.
    pub bitmap_delay: Option<NanoSpan>,
}

impl ArrayRules {
    /// What raidlab's own arrays do.
    pub const OWN: Self = Self {
        gather: GatherRule::Sequence,
        parity_update: ParityUpdate::FewestReads,
        read_balance: ReadBalance::FewestInFlight,
        stripe_pages_max: None,
        bitmap_chunk: None,
        bitmap_delay: None,
    };

    /// Whether these are raidlab's own.
    pub fn are_own(&self) -> bool {
        *self == Self::OWN
    }
}
