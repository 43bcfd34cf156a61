//! Block checksums (*tags*): a block's checksum and address.
//!
//! ```text
//! tag, 8 bytes:  | CRC32C of the block u32 | reference u32 |
//! reference:     low 32 bits of (block of the member, tags left out + role * 0x9e3779b1)
//! strip:         | block 0 | block 1 | ... | block n-1 || tag blocks: tag 0, tag 1, ... tag n-1, zeros |
//! ```
//! The reference detects a block that was written to a wrong place together with its tag: on another role, or elsewhere
//! on the same. T10 protection information does the same with a guard and a reference tag (SBC-4, section 4.21). The
//! checksum covers the block alone, so that a checksum computed for another purpose can be reused.
//!
//! A tag of zeros fits a block of zeros where nobody has written ([`crate::WrittenMap`]), and nothing elsewhere. So a lost first write of
//! a block is found like any other, whether the data or the tag is lost, and so is a range that became zeros, tags and all.

use raidlab_units::{BlockCount, BlockSize, MemberIndex, MemberLba};

/// Length of a tag.
pub const TAG_BYTES: usize = 8;

/// The tag of blocks whose tag is not known: it agrees with nothing but a block that happens to have it.
pub const NO_TAG: u64 = u64::MAX;

/// Spreads roles over references: 2^32 divided by the golden ratio (Knuth, TAOCP 6.4), which is odd.
const ROLE_STEP: u32 = 0x9e37_79b1;

/// Returns the tag of a block with `checksum`, `block` counted without tags on the device that plays `role`,
/// in the order in which `to_le_bytes` writes it.
pub const fn tag(checksum: u32, role: MemberIndex, block: MemberLba) -> u64 {
    let reference = (block.0 as u32).wrapping_add((role.0 as u32).wrapping_mul(ROLE_STEP));
    match checksum as u64 | (reference as u64) << 32 {
        // The two tags that are special stand for no block that was written.
        special @ (0 | NO_TAG) => special ^ 1,
        tag => tag,
    }
}

/// Blocks that the tags of a strip of `strip_blocks` take.
pub const fn tag_blocks(strip_blocks: BlockCount, block_size: BlockSize) -> BlockCount {
    BlockCount(strip_blocks.0.div_ceil(block_size.bytes() / TAG_BYTES as u64))
}

/// Blocks of a member's whole strips, when each has `tag_blocks` behind it that don't count.
pub const fn untagged_blocks(
    member_blocks: BlockCount,
    strip_blocks: BlockCount,
    tag_blocks: BlockCount,
) -> BlockCount {
    match member_blocks.0.checked_div(strip_blocks.0 + tag_blocks.0) {
        Some(strips) => BlockCount(strips * strip_blocks.0),
        None => BlockCount(0),
    }
}

/// The checksum of a block: of a log record's payload, or in a tag.
pub fn row_checksum(row: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_castagnolis() {
        // RFC 3720, section B.4: 32 bytes of 0, of 0xff, and ascending.
        assert_eq!(row_checksum(&[0; 32]), 0x8a91_36aa);
        assert_eq!(row_checksum(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(row_checksum(&core::array::from_fn::<u8, 32, _>(|at| at as u8)), 0x46dd_794e);
    }

    #[test]
    fn a_tag_depends_on_checksum_role_and_block() {
        let of = |checksum, role, block| tag(checksum, MemberIndex(role), MemberLba(block));
        assert_eq!(of(5, 0, 7), 7 << 32 | 5);
        assert_eq!(of(5, 1, 7).to_le_bytes(), [5, 0, 0, 0, 0xb8, 0x79, 0x37, 0x9e]);
        assert_eq!(of(5, 0, 7), of(5, 0, 7 + (1 << 32)), "the low 32 bits count");
        for role in 1..256 {
            assert_ne!(of(5, 0, 7), of(5, role, 7), "role {role} at the same place");
        }
    }

    #[test]
    fn tags_of_a_strip_take_whole_blocks() {
        for (strip_blocks, block, expected) in [
            (1, BlockSize::B512, 1),
            (64, BlockSize::B512, 1),
            (65, BlockSize::B512, 2),
            (512, BlockSize::B4096, 1),
            (513, BlockSize::B4096, 2),
        ] {
            assert_eq!(tag_blocks(BlockCount(strip_blocks), block), BlockCount(expected), "{strip_blocks}");
        }
    }

    #[test]
    fn only_whole_strips_with_their_tags_count() {
        for (member, strip, tags, expected) in [(32, 4, 0, 32), (32, 4, 1, 24), (35, 4, 1, 28), (9, 0, 0, 0)]
        {
            let found = untagged_blocks(BlockCount(member), BlockCount(strip), BlockCount(tags));
            assert_eq!(found, BlockCount(expected), "{member} blocks in strips of {strip} + {tags}");
        }
    }
}
