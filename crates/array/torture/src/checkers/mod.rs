//! What must hold, a file each. Every head says what its checker verifies and what it does not.

pub(super) mod bitmaps;
pub(super) mod durability;
pub(super) mod liveness;
pub(super) mod losses;
pub(super) mod protocol;
pub(super) mod provenance;
pub(super) mod records;
pub(super) mod redundancy;
