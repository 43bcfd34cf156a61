//! Deliberate defects of the controller, for showing that the torture net catches them.
//!
//! Each is one small thing left out or done too early, of the kind that a wrong edit would leave behind. They exist only
//! with the cargo feature `mutants`; without it [`Controller::is_mutant`] is false at compile time. `make mutants` runs the
//! net against each and fails if one survives.

use crate::controller::Controller;

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Parity is computed and not written.
    ParityNotWritten,
    /// Q is not written.
    SecondParityNotWritten,
    /// The second copy of a mirrored strip is not written.
    SecondCopyNotWritten,
    /// Forced unit access is not passed on to the members.
    FuaIgnored,
    /// A host flush does not flush the members.
    FlushIgnored,
    /// A host flush does not wait for dirty blocks.
    FlushForgetsCache,
    /// A write in place begins without its record.
    RecordSkipped,
    /// A record is sent to one device only.
    RecordNotReplicated,
    /// Records are retired without a member flush.
    RecordRetiredEarly,
    /// The latest record gives up its room as soon as it is retired.
    RecordRoomGivenUp,
    /// A write begins before its region is marked on the devices.
    RegionNotMarked,
    /// Regions are cleared although writes in them are under way.
    RegionClearedEarly,
    /// Writes are acknowledged before the devices know of a missing member.
    BarrierSkipped,
    /// A device that comes back is trusted.
    StaleMemberTrusted,
    /// A rebuild's boundary moves before the strip is written.
    BoundaryEarly,
    /// Unsynced stripes are taken for synced.
    ResyncSkipped,
    /// A bad block is taken for readable.
    BadBlockForgotten,
    /// A slot's directory entry is stored before its bytes have arrived.
    EntryEarly,
    /// A slot's directory entry is not cleared when it has been destaged.
    EntryNotCleared,
    /// A mirrored write does not go to the second controller.
    MirrorSkipped,
    /// Clean cached blocks outlive a write that goes past the cache.
    StaleCacheKept,
    /// Two operations may run in one granule.
    LockIgnored,
    /// A block's tag is not compared when it is read.
    TagNotCompared,
}

impl Mutant {
    /// Every defect.
    pub const ALL: [Self; 23] = [
        Self::ParityNotWritten,
        Self::SecondParityNotWritten,
        Self::SecondCopyNotWritten,
        Self::FuaIgnored,
        Self::FlushIgnored,
        Self::FlushForgetsCache,
        Self::RecordSkipped,
        Self::RecordNotReplicated,
        Self::RecordRetiredEarly,
        Self::RecordRoomGivenUp,
        Self::RegionNotMarked,
        Self::RegionClearedEarly,
        Self::BarrierSkipped,
        Self::StaleMemberTrusted,
        Self::BoundaryEarly,
        Self::ResyncSkipped,
        Self::BadBlockForgotten,
        Self::EntryEarly,
        Self::EntryNotCleared,
        Self::MirrorSkipped,
        Self::StaleCacheKept,
        Self::LockIgnored,
        Self::TagNotCompared,
    ];
}

impl Controller {
    /// Gives the controller a defect.
    #[cfg(feature = "mutants")]
    pub fn set_mutant(&mut self, mutant: Option<Mutant>) {
        self.mutant = mutant;
    }

    /// True when the controller has this defect; never in a build without them.
    #[inline]
    pub(crate) fn is_mutant(&self, mutant: Mutant) -> bool {
        cfg!(feature = "mutants") && self.mutant == Some(mutant)
    }
}
