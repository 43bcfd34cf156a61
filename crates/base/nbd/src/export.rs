//! What a server offers: exports with their sizes and flags.
//!
//! Invariant: everything in [`Exports`] can be sent on the wire: names differ and are strings of the protocol, block
//! sizes follow its rules, the size is a multiple of the minimum block.
//! Source: the document, "Conventions", "Size constraints" and "Transmission flags".

use core::ops::BitOr;

/// Longest string of the protocol (names, descriptions, messages), in bytes.
pub const STRING_BYTES_MAX: usize = 4096;
/// Longest payload where nothing else is agreed on, in bytes; what is not longer is no attack.
pub const PAYLOAD_BYTES_DEFAULT: u32 = 1 << 25;
/// Largest minimum block, in bytes.
const MINIMUM_BYTES_MAX: u32 = 1 << 16;
/// Smallest preferred block, in bytes.
const PREFERRED_BYTES_MIN: u32 = 512;
/// Most bytes of an export's name, so that a list entry of name and description is no longer than a message.
const NAME_BYTES_MAX: usize = STRING_BYTES_MAX;

/// What an export can do, as the 16 bits on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransmissionFlags(u16);

impl TransmissionFlags {
    /// The field means something. Always set.
    pub const HAS_FLAGS: Self = Self(1 << 0);
    /// Writes are refused.
    pub const READ_ONLY: Self = Self(1 << 1);
    /// Flush is understood.
    pub const SEND_FLUSH: Self = Self(1 << 2);
    /// Force unit access is understood.
    pub const SEND_FUA: Self = Self(1 << 3);
    /// Seeks cost time.
    pub const ROTATIONAL: Self = Self(1 << 4);
    /// Trim is understood.
    pub const SEND_TRIM: Self = Self(1 << 5);
    /// Write zeroes is understood.
    pub const SEND_WRITE_ZEROES: Self = Self(1 << 6);
    /// Reads in one chunk can be asked for. Set by the server's handshake where replies are structured.
    pub const SEND_DF: Self = Self(1 << 7);
    /// What one connection flushed is seen by all others.
    pub const CAN_MULTI_CONN: Self = Self(1 << 8);
    /// Cache is understood.
    pub const SEND_CACHE: Self = Self(1 << 10);

    /// Returns the flags of a field as it came; unknown ones are kept and mean nothing.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }

    /// Returns the field.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns whether all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}

impl BitOr for TransmissionFlags {
    type Output = Self;
    fn bitor(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }
}

/// The sizes that requests keep to, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    minimum: u32,
    preferred: u32,
    payload_max: u32,
}

/// Why sizes are no block sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockSizesError {
    /// The minimum is no power of two up to 64 KiB.
    #[error("the minimum block is {0} bytes; it must be a power of two up to {MINIMUM_BYTES_MAX}")]
    Minimum(u32),
    /// The preferred size is no power of two from 512 and the minimum on.
    #[error("the preferred block is {0} bytes; it must be a power of two and at least 512 and the minimum")]
    Preferred(u32),
    /// The longest payload is shorter than the preferred block.
    #[error("the longest payload is {0} bytes; it must be at least the preferred block")]
    PayloadMax(u32),
}

impl BlockSizes {
    /// What a client keeps to where the server says nothing.
    pub const CLIENT_DEFAULT: Self =
        Self { minimum: 512, preferred: 4096, payload_max: PAYLOAD_BYTES_DEFAULT };

    /// Makes sizes: `minimum` divides all offsets and lengths, `preferred` is what is fast, `payload_max` bounds
    /// the data of one request. All in bytes.
    ///
    /// # Errors
    /// [`BlockSizesError`] if the protocol does not allow them.
    pub const fn new(minimum: u32, preferred: u32, payload_max: u32) -> Result<Self, BlockSizesError> {
        if !minimum.is_power_of_two() || minimum > MINIMUM_BYTES_MAX {
            return Err(BlockSizesError::Minimum(minimum));
        }
        if !preferred.is_power_of_two() || preferred < minimum || preferred < PREFERRED_BYTES_MIN {
            return Err(BlockSizesError::Preferred(preferred));
        }
        if payload_max < preferred {
            return Err(BlockSizesError::PayloadMax(payload_max));
        }
        Ok(Self { minimum, preferred, payload_max })
    }

    /// Returns what divides all offsets and lengths, in bytes.
    pub const fn minimum(self) -> u32 {
        self.minimum
    }

    /// Returns the block that is fast, in bytes.
    pub const fn preferred(self) -> u32 {
        self.preferred
    }

    /// Returns the longest payload of one request, in bytes.
    pub const fn payload_max(self) -> u32 {
        self.payload_max
    }

    /// Returns whether a range begins and ends on minimum blocks.
    pub const fn are_kept_by(self, offset: u64, length: u32) -> bool {
        (offset | length as u64) & (self.minimum as u64 - 1) == 0
    }
}

/// Something that a server offers under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// What clients ask for; may be empty.
    pub name: String,
    /// What people read; may be empty.
    pub description: String,
    /// Length in bytes.
    pub size_bytes: u64,
    /// Sizes that requests keep to.
    pub block_sizes: BlockSizes,
    /// What it can do. `HAS_FLAGS` and `SEND_DF` are the handshake's business and need not be set.
    pub flags: TransmissionFlags,
}

/// Why exports can't be offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// There is none.
    #[error("there is nothing to export")]
    None,
    /// A name or a description is no string of the protocol.
    #[error("'{text}' is no name or description: more than {NAME_BYTES_MAX} bytes, or with a NUL")]
    Text {
        /// The text.
        text: String,
    },
    /// Two have one name.
    #[error("two exports are called '{name}'")]
    Twice {
        /// The name.
        name: String,
    },
    /// The size is no multiple of the minimum block, or too large for a file.
    #[error("export '{name}' has {size_bytes} bytes; it must be whole blocks, less than 2^63 bytes")]
    Size {
        /// The name.
        name: String,
        /// Its size in bytes.
        size_bytes: u64,
    },
}

/// All that a server offers. The first is also the one that clients without a name get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exports(Vec<Export>);

impl Exports {
    /// Offers `exports`.
    ///
    /// # Errors
    /// [`ExportError`] if they can't be told to a client.
    pub fn new(exports: Vec<Export>) -> Result<Self, ExportError> {
        if exports.is_empty() {
            return Err(ExportError::None);
        }
        for (place, export) in exports.iter().enumerate() {
            for text in [&export.name, &export.description] {
                if text.len() > NAME_BYTES_MAX || text.contains('\0') {
                    return Err(ExportError::Text { text: text.clone() });
                }
            }
            let name = export.name.clone();
            if exports[..place].iter().any(|earlier| earlier.name == name) {
                return Err(ExportError::Twice { name });
            }
            let size_bytes = export.size_bytes;
            let whole = size_bytes.is_multiple_of(u64::from(export.block_sizes.minimum));
            if !whole || size_bytes > i64::MAX as u64 {
                return Err(ExportError::Size { name, size_bytes });
            }
        }
        Ok(Self(exports))
    }

    /// Returns an export by its place in the list, which a handshake gave.
    pub fn get(&self, place: usize) -> &Export {
        &self.0[place]
    }

    /// Returns the place of the export of that name; the empty name is the first's, too.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        let found = self.0.iter().position(|export| export.name.as_bytes() == name);
        found.or(name.is_empty().then_some(0))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Export> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(name: &str, size_bytes: u64) -> Export {
        let block_sizes = BlockSizes::new(512, 4096, PAYLOAD_BYTES_DEFAULT).expect("allowed");
        let flags = TransmissionFlags::SEND_FLUSH;
        Export { name: name.into(), description: String::new(), size_bytes, block_sizes, flags }
    }

    #[test]
    fn sizes_keep_to_the_rules() {
        use BlockSizesError::{Minimum, PayloadMax, Preferred};
        let rows = [
            ((0, 512, 512), Err(Minimum(0))),
            ((3, 512, 512), Err(Minimum(3))),
            ((1 << 17, 1 << 17, 1 << 20), Err(Minimum(1 << 17))),
            ((1, 256, 1 << 20), Err(Preferred(256))),
            ((4096, 512, 1 << 20), Err(Preferred(512))),
            ((512, 1536, 1 << 20), Err(Preferred(1536))),
            ((512, 4096, 4095), Err(PayloadMax(4095))),
            ((1, 512, 1000), Ok(())),
            ((1 << 16, 1 << 16, u32::MAX), Ok(())),
        ];
        for ((minimum, preferred, payload_max), expected) in rows {
            let found = BlockSizes::new(minimum, preferred, payload_max).map(|_| ());
            assert_eq!(found, expected, "{minimum} {preferred} {payload_max}");
        }
    }

    #[test]
    fn exports_are_found_by_name() {
        let exports = Exports::new(vec![export("a", 512), export("", 1024)]).expect("allowed");
        assert_eq!([exports.find(b"a"), exports.find(b""), exports.find(b"b")], [Some(0), Some(1), None]);
        let exports = Exports::new(vec![export("a", 0), export("b", 0)]).expect("allowed");
        assert_eq!(exports.find(b""), Some(0));
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        let twice = Exports::new(vec![export("a", 0), export("a", 0)]);
        assert_eq!(twice, Err(ExportError::Twice { name: "a".into() }));
        assert_eq!(Exports::new(vec![]), Err(ExportError::None));
        for size_bytes in [513, 1 << 63] {
            let expected = Err(ExportError::Size { name: "a".into(), size_bytes });
            assert_eq!(Exports::new(vec![export("a", size_bytes)]), expected);
        }
        for name in ["a\0b", &"a".repeat(4097)] {
            let expected = Err(ExportError::Text { text: name.into() });
            assert_eq!(Exports::new(vec![export(name, 0)]), expected);
        }
    }
}
