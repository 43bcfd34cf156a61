//! The fixed properties of an array.
//!
//! With integrity on, a strip's block checksums (tags) are in separate blocks behind it:
//! ```text
//! member    | strip 0 ...... | tags 0 | strip 1 ...... | tags 1 |
//!             strip_blocks   tag_blocks
//! ```
//! A layout does not know about tags: it is built for members that have only the strips.

use crate::area::LOG_BYTES_MAX;
use crate::error::Problem;
use crate::identity::ArrayUuid;
use crate::integrity::{tag_blocks, untagged_blocks};
use crate::state::DEVICES_MAX;
use raidlab_raid::{Layout, LayoutSpec, LevelVariant, build_layout};
use raidlab_units::{BlockCount, BlockSize, ByteCount};
use serde::{Deserialize, Serialize};

raidlab_units::named! {
    /// What is kept so that redundancy agrees again after a crash.
    ///
    /// The state has them by their numbers in this order.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum MetadataPolicy {
        #[default]
        /// Nothing: the array is not meant to be assembled again.
        None = "none",
        /// After a crash, all redundancy is recomputed.
        Resync = "resync",
        /// After a crash, the redundancy of the marked regions is recomputed.
        Bitmap = "bitmap",
        /// Intent records are written again after a crash. Mirrors, which have no write hole, use the bitmap
        /// instead.
        Log = "log",
    }
}

/// What an array is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Which array.
    pub array_uuid: ArrayUuid,
    /// The level, and what it leaves open.
    pub level: LevelVariant,
    /// Number of roles.
    pub members: u16,
    /// Number of hot spares; devices are numbered members first, then spares.
    pub spares: u16,
    /// Length of a strip, without tags.
    pub strip_bytes: ByteCount,
    /// Size of a block.
    pub block_size: BlockSize,
    /// Length of each device's data area, tags included.
    pub member_bytes: ByteCount,
    /// Length of each device's log; 0 for none.
    pub log_bytes: ByteCount,
    /// What is kept so that redundancy agrees again after a crash.
    pub metadata: MetadataPolicy,
    /// Whether every block has a tag.
    pub integrity: bool,
}

impl Geometry {
    /// Number of devices: members and spares.
    pub fn devices(&self) -> usize {
        usize::from(self.members) + usize::from(self.spares)
    }

    /// Blocks of a device's data area, tags included; a rest is not counted.
    pub fn member_blocks(&self) -> BlockCount {
        BlockCount(self.member_bytes.0 / self.block_size.bytes())
    }

    /// Blocks of a strip, without tags; a rest is not counted.
    pub fn strip_blocks(&self) -> BlockCount {
        BlockCount(self.strip_bytes.0 / self.block_size.bytes())
    }

    /// Strips of a device, with their tags.
    pub fn strips(&self) -> u64 {
        let LayoutSpec { strip_blocks, member_blocks, .. } = self.layout_spec();
        member_blocks.0.checked_div(strip_blocks.0).unwrap_or(0)
    }

    /// What the layout is built from: members without their tags.
    fn layout_spec(&self) -> LayoutSpec {
        let strip_blocks = self.strip_blocks();
        let tags = if self.integrity { tag_blocks(strip_blocks, self.block_size) } else { BlockCount::ZERO };
        let member_blocks = untagged_blocks(self.member_blocks(), strip_blocks, tags);
        LayoutSpec { level: self.level, members: self.members, strip_blocks, member_blocks }
    }

    /// Returns the layout and checks all that it depends on.
    ///
    /// # Errors
    /// [`Problem`] for a value that no array has.
    pub fn check(&self) -> Result<Box<dyn Layout>, Problem> {
        let block = self.block_size.bytes();
        let whole = |bytes: ByteCount| bytes.0 > 0 && bytes.0.is_multiple_of(block);
        require(
            whole(self.strip_bytes),
            "strip_bytes",
            self.strip_bytes.0,
            "a multiple of the block, above 0",
        )?;
        require(
            whole(self.member_bytes),
            "member_bytes",
            self.member_bytes.0,
            "a multiple of the block, above 0",
        )?;
        require(
            self.strip_blocks().0 <= STRIP_BLOCKS_MAX,
            "strip_bytes",
            self.strip_bytes.0,
            "below 2^32 blocks",
        )?;
        let log = self.log_bytes.0;
        require(
            log <= LOG_BYTES_MAX && log.is_multiple_of(block),
            "log_bytes",
            log,
            "whole blocks, at most 1 TiB",
        )?;
        require(self.members > 0, "members", self.members.into(), "1 or more")?;
        require(self.devices() <= DEVICES_MAX, "members and spares", self.devices() as u64, "256 or fewer")?;
        Ok(build_layout(&self.layout_spec())?)
    }
}

/// Rows of a strip are counted in 32 bits.
const STRIP_BLOCKS_MAX: u64 = u32::MAX as u64;

pub(crate) fn require(
    holds: bool,
    field: &'static str,
    value: u64,
    allowed: &'static str,
) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::Field { field, value, allowed }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_raid::Level;

    #[test]
    fn tags_take_room_from_the_strips() {
        // A strip of 65 blocks of 512 bytes needs two blocks of tags.
        for (integrity, member_blocks, strips) in
            [(false, 650, 10), (false, 670, 10), (true, 650, 9), (true, 669, 9), (true, 670, 10)]
        {
            let geometry = Geometry {
                array_uuid: ArrayUuid::default(),
                level: Level::Raid5.into(),
                members: 3,
                spares: 0,
                strip_bytes: ByteCount(65 * 512),
                block_size: BlockSize::B512,
                member_bytes: ByteCount(member_blocks * 512),
                log_bytes: ByteCount(0),
                metadata: MetadataPolicy::Resync,
                integrity,
            };
            let layout = geometry.check().expect("a possible array");
            assert_eq!(layout.stripe_count().0, strips, "integrity {integrity}, {member_blocks} blocks");
            assert_eq!(geometry.layout_spec().member_blocks.0, strips * 65);
        }
    }
}
