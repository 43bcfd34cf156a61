//! The label: the identity of a device. Written once, when the device joins the array.
//!
//! ```text
//!    0 seal, 16 bytes: magic "RAIDLBL\n", version, 0, CRC32C of all 4096 bytes
//!   16 array_uuid   16 bytes
//!   32 device_uuid  16 bytes
//!   48 device       u16
//!   50 name length  u16   in bytes, 0 to 64
//!   52 name         64 bytes: UTF-8, zeros behind
//!  116 zeros to 4096
//! ```

use crate::area::LABEL_BYTES;
use crate::error::{DecodeError, Part, Problem};
use crate::identity::{ArrayUuid, DeviceUuid};
use crate::seal::{SEAL_BYTES, check_length, check_zeros, open_plain, put, seal, take, u16_at};
use crate::state::DEVICES_MAX;
use raidlab_units::MemberIndex;

const ARRAY_AT: usize = SEAL_BYTES;
const DEVICE_UUID_AT: usize = 32;
const DEVICE_AT: usize = 48;
const NAME_LENGTH_AT: usize = 50;
const NAME_AT: usize = 52;
const ZEROS_AT: usize = NAME_AT + ArrayName::BYTES_MAX;

/// What people call an array: up to 64 bytes of UTF-8 without control characters, possibly none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrayName {
    /// Zeros behind the text.
    bytes: [u8; ArrayName::BYTES_MAX],
    length: u8,
}

/// The text is no name of an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' can't be the name of an array: use at most 64 bytes, and no control characters")]
pub struct BadName {
    /// The text.
    pub text: String,
}

impl Default for ArrayName {
    fn default() -> Self {
        Self { bytes: [0; Self::BYTES_MAX], length: 0 }
    }
}

impl ArrayName {
    /// Longest name in bytes.
    pub const BYTES_MAX: usize = 64;

    /// Returns `text` as a name.
    ///
    /// # Errors
    /// [`BadName`] if it is too long, or has control characters.
    pub fn new(text: &str) -> Result<Self, BadName> {
        if text.len() > Self::BYTES_MAX || text.chars().any(char::is_control) {
            return Err(BadName { text: text.escape_debug().to_string() });
        }
        let mut name = Self { length: text.len() as u8, ..Self::default() };
        name.bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(name)
    }

    /// The text.
    #[expect(clippy::missing_panics_doc, reason = "a name is made from text")]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).expect("a name is made from text")
    }
}

impl core::fmt::Display for ArrayName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

impl core::fmt::Debug for ArrayName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "ArrayName({:?})", self.as_str())
    }
}

/// Who a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The array it belongs to.
    pub array_uuid: ArrayUuid,
    /// Which physical device it is.
    pub device_uuid: DeviceUuid,
    /// Its number in the array: members first, then spares.
    pub device: MemberIndex,
    /// What people call the array; the same on every device.
    pub name: ArrayName,
}

impl Label {
    /// Writes the label over `out`, which must be [`LABEL_BYTES`] long, like the device's number,
    /// which must be below [`DEVICES_MAX`].
    ///
    /// # Panics
    /// If `out` is not `LABEL_BYTES` long.
    pub fn encode(&self, out: &mut [u8]) {
        assert_eq!(out.len(), LABEL_BYTES, "a label has its own length");
        assert!(self.device.index() < DEVICES_MAX, "{} is no device of an array", self.device);
        out.fill(0);
        put(out, ARRAY_AT, self.array_uuid.0);
        put(out, DEVICE_UUID_AT, self.device_uuid.0);
        put(out, DEVICE_AT, self.device.0.to_le_bytes());
        put(out, NAME_LENGTH_AT, u16::from(self.name.length).to_le_bytes());
        put(out, NAME_AT, self.name.bytes);
        seal(out, Part::Label, 0);
    }

    /// Reads the label that `bytes` begins with.
    ///
    /// # Errors
    /// [`DecodeError`] when there is none, or it is damaged or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        check_length(bytes, Part::Label, LABEL_BYTES as u64)?;
        let bytes = &bytes[..LABEL_BYTES];
        open_plain(bytes, Part::Label)?;
        let device = MemberIndex(u16_at(bytes, DEVICE_AT));
        if device.index() >= DEVICES_MAX {
            return Err(DecodeError::field(Part::Label, "device", device.0.into(), "below 256"));
        }
        check_zeros(bytes, Part::Label, ZEROS_AT)?;
        let (array, own) = (take(bytes, ARRAY_AT), take(bytes, DEVICE_UUID_AT));
        let name = decode_name(bytes)?;
        Ok(Self { array_uuid: ArrayUuid(array), device_uuid: DeviceUuid(own), device, name })
    }
}

fn decode_name(bytes: &[u8]) -> Result<ArrayName, DecodeError> {
    let length = usize::from(u16_at(bytes, NAME_LENGTH_AT));
    if length > ArrayName::BYTES_MAX {
        return Err(DecodeError::field(Part::Label, "name length", length as u64, "64 or less"));
    }
    let (text, rest) = bytes[NAME_AT..ZEROS_AT].split_at(length);
    if let Some(offset) = rest.iter().position(|byte| *byte != 0) {
        return Err(DecodeError::NotZero { part: Part::Label, offset: (NAME_AT + length + offset) as u64 });
    }
    let name = core::str::from_utf8(text).ok().and_then(|text| ArrayName::new(text).ok());
    name.ok_or(DecodeError::Impossible { part: Part::Label, problem: Problem::Name })
}
