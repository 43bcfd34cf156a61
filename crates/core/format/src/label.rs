//! The label: who a device is. Written once, when the device joins the array.
//!
//! ```text
//!    0 seal, 16 bytes: magic "RAIDLBL\n", version, 0, CRC32C of all 4096 bytes
//!   16 array_uuid   16 bytes
//!   32 device_uuid  16 bytes
//!   48 device       u16
//!   50 zeros to 4096
//! ```

use crate::area::LABEL_BYTES;
use crate::error::{DecodeError, Part};
use crate::identity::{ArrayUuid, DeviceUuid};
use crate::seal::{SEAL_BYTES, check_length, check_zeros, open_plain, put, seal, take, u16_at};
use crate::state::DEVICES_MAX;
use raidlab_units::MemberIndex;

const ARRAY_AT: usize = SEAL_BYTES;
const DEVICE_UUID_AT: usize = 32;
const DEVICE_AT: usize = 48;
const ZEROS_AT: usize = 50;

/// Who a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// The array it belongs to.
    pub array_uuid: ArrayUuid,
    /// Which physical device it is.
    pub device_uuid: DeviceUuid,
    /// Its number in the array: members first, then spares.
    pub device: MemberIndex,
}

impl Label {
    /// Writes the label over `out`, which must be [`LABEL_BYTES`] long (asserted), like the device's number,
    /// which must be below [`DEVICES_MAX`].
    pub fn encode(&self, out: &mut [u8]) {
        assert_eq!(out.len(), LABEL_BYTES, "a label has its own length");
        assert!(self.device.index() < DEVICES_MAX, "{} is no device of an array", self.device);
        out.fill(0);
        put(out, ARRAY_AT, self.array_uuid.0);
        put(out, DEVICE_UUID_AT, self.device_uuid.0);
        put(out, DEVICE_AT, self.device.0.to_le_bytes());
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
        Ok(Self { array_uuid: ArrayUuid(array), device_uuid: DeviceUuid(own), device })
    }
}
