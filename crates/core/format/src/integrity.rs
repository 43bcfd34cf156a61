//! Integrity tags: what each block's address and bytes should give.
//!
//! ```text
//! tag, 8 bytes:  | CRC32C(address, 8 bytes LE, then the block's bytes) u32 | low 32 bits of the address u32 |
//! strip:         | block 0 | block 1 | ... | block n-1 || tag blocks: tag 0, tag 1, ... tag n-1, zeros |
//! ```
//! The address is in the checksum so that a write that went to another place does not pass for the right one
//! there. T10 protection information does the same with a guard and a reference tag (SBC-4, section 4.21).

use raidlab_units::{BlockCount, BlockSize};

/// Length of a tag.
pub const TAG_BYTES: usize = 8;

/// Returns the tag of a block at `address` (the caller's choice, the same for writing and reading), in the
/// order in which `to_le_bytes` writes it.
pub fn tag(address: u64, bytes: &[u8]) -> u64 {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&address.to_le_bytes()), bytes);
    u64::from(checksum) | address << 32
}

/// Blocks that the tags of a strip of `strip_blocks` take.
pub const fn tag_blocks(strip_blocks: BlockCount, block_size: BlockSize) -> BlockCount {
    BlockCount(strip_blocks.0.div_ceil(block_size.bytes() / TAG_BYTES as u64))
}

/// The CRC32C of a row of a log record's payload.
pub fn row_checksum(row: &[u8]) -> u32 {
    crc32c::crc32c(row)
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
    fn a_tag_holds_the_address_and_depends_on_it() {
        let block = [7; 512];
        let mut both = 5_u64.to_le_bytes().to_vec();
        both.extend(block);
        assert_eq!(tag(5, &block), u64::from(row_checksum(&both)) | 5 << 32);
        // The low half of the address is equal here, so only the checksum tells them apart.
        assert_ne!(tag(5, &block), tag(5 | 1 << 32, &block));
        assert_ne!(tag(5, &block), tag(5, &[8; 512]));
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
}
