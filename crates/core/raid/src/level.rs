//! The RAID levels by name, and the one place that turns a name into a layout.

use crate::layout::Layout;
use raidlab_units::BlockCount;

/// A RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Striping.
    Raid0,
    /// Mirroring.
    Raid1,
    /// Rotating parity.
    Raid5,
    /// Rotating P and Q.
    Raid6,
    /// Striped mirrors.
    Raid10,
}

/// What to lay out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutSpec {
    /// The level.
    pub level: Level,
    /// Number of members.
    pub members: u16,
    /// Length of a strip.
    pub strip_blocks: BlockCount,
    /// Data area of each member; what is beyond the last whole strip stays unused.
    pub member_blocks: BlockCount,
}

/// Why a layout can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {}

/// Builds the layout.
///
/// # Errors
/// [`LayoutError`] when the level does not allow the members or sizes.
pub fn build_layout(spec: &LayoutSpec) -> Result<Box<dyn Layout>, LayoutError> {
    unimplemented!("{spec:?}")
}
