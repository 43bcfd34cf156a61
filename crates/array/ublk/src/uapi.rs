//! The structures that the driver and its server exchange, as bytes.
//!
//! Numbers are in the machine's byte order. Structures have only the padding that is written here.
//! Source: `include/uapi/linux/ublk_cmd.h` of Linux 6.12; `include/uapi/asm-generic/ioctl.h` for the numbers of commands.

/// The device that makes devices.
pub(crate) const CONTROL_PATH: &str = "/dev/ublk-control";
/// A sector of Linux, in bytes.
pub(crate) const SECTOR_BYTES: u64 = 512;
/// Where a device is to get its number from the driver.
pub(crate) const NEW_DEVICE: u32 = u32::MAX;

const CONTROL_BYTES: u32 = 32;
const IO_BYTES: u32 = 16;
/// Directions of an ioctl's argument: from the driver, both.
const READ: u32 = 2;
const BOTH: u32 = 3;

const fn ioctl(direction: u32, number: u32, bytes: u32) -> u32 {
    direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
}

/// Commands to the control device.
pub(crate) mod command {
    use super::{BOTH, CONTROL_BYTES, READ, ioctl};
    pub(crate) const GET_DEV_INFO: u32 = ioctl(READ, 0x02, CONTROL_BYTES);
    pub(crate) const ADD_DEV: u32 = ioctl(BOTH, 0x04, CONTROL_BYTES);
    pub(crate) const DEL_DEV: u32 = ioctl(BOTH, 0x05, CONTROL_BYTES);
    pub(crate) const START_DEV: u32 = ioctl(BOTH, 0x06, CONTROL_BYTES);
    pub(crate) const STOP_DEV: u32 = ioctl(BOTH, 0x07, CONTROL_BYTES);
    pub(crate) const SET_PARAMS: u32 = ioctl(BOTH, 0x08, CONTROL_BYTES);
    /// Since Linux 6.9.
    pub(crate) const DEL_DEV_ASYNC: u32 = ioctl(READ, 0x14, CONTROL_BYTES);
}

/// Commands to a device's own character device.
pub(crate) const FETCH_REQ: u32 = ioctl(BOTH, 0x20, IO_BYTES);
pub(crate) const COMMIT_AND_FETCH_REQ: u32 = ioctl(BOTH, 0x21, IO_BYTES);

/// What a request does, the lowest byte of its operation and flags.
pub(crate) mod op {
    pub(crate) const READ: u8 = 0;
    pub(crate) const WRITE: u8 = 1;
    pub(crate) const FLUSH: u8 = 2;
    pub(crate) const WRITE_ZEROES: u8 = 5;
    /// Force unit access.
    pub(crate) const FUA: u32 = 1 << 13;
}

/// What a device is like.
pub(crate) mod attribute {
    pub(crate) const READ_ONLY: u32 = 1 << 0;
    pub(crate) const VOLATILE_CACHE: u32 = 1 << 2;
    pub(crate) const FUA: u32 = 1 << 3;
}

/// The state of a device that has no server.
pub(crate) const STATE_DEAD: u16 = 0;

/// `struct ublksrv_ctrl_cmd`, in the 80 bytes of a long entry.
pub(crate) fn control_command(device: u32, buffer: Option<(u64, u16)>, data: u64) -> [u8; 80] {
    const NO_QUEUE: u16 = u16::MAX;
    let (address, length) = buffer.unwrap_or((0, 0));
    let mut bytes = [0; 80];
    bytes[0..4].copy_from_slice(&device.to_ne_bytes());
    bytes[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
    bytes[6..8].copy_from_slice(&length.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes[16..24].copy_from_slice(&data.to_ne_bytes());
    bytes
}

/// `struct ublksrv_io_cmd`: for queue 0.
pub(crate) fn io_command(tag: u16, result: i32, address: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes
}

/// `struct ublksrv_ctrl_dev_info`, as far as it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceInfo {
    /// Requests in flight.
    pub(crate) depth: u16,
    /// [`STATE_DEAD`], or another.
    pub(crate) state: u16,
    /// Longest request.
    pub(crate) buffer_bytes: u32,
    /// Number of the device.
    pub(crate) device: u32,
    /// The server's own word, which the driver keeps.
    pub(crate) server_word: u64,
}

impl DeviceInfo {
    pub(crate) const BYTES: usize = 64;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        const QUEUES: u16 = 1;
        let mut bytes = [0; Self::BYTES];
        bytes[0..2].copy_from_slice(&QUEUES.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.state.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.buffer_bytes.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.device.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.server_word.to_ne_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            depth: u16::from_ne_bytes(part(bytes, 2)),
            state: u16::from_ne_bytes(part(bytes, 4)),
            buffer_bytes: u32::from_ne_bytes(part(bytes, 8)),
            device: u32::from_ne_bytes(part(bytes, 12)),
            server_word: u64::from_ne_bytes(part(bytes, 32)),
        }
    }
}

/// `struct ublk_params`: its basic part and that of discards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameters {
    /// [`attribute`]s.
    pub(crate) attributes: u32,
    /// Length of a block.
    pub(crate) block_bytes: u64,
    /// Length of I/O that is fast, a power of two.
    pub(crate) optimal_bytes: u64,
    /// Longest request.
    pub(crate) buffer_bytes: u32,
    /// Length of the device.
    pub(crate) bytes: u64,
}

impl Parameters {
    pub(crate) const BYTES: usize = 64;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        const TYPE_BASIC: u32 = 1 << 0;
        const TYPE_DISCARD: u32 = 1 << 1;
        let shift = |bytes: u64| bytes.ilog2() as u8;
        let sectors = self.buffer_bytes / SECTOR_BYTES as u32;
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&(Self::BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&(TYPE_BASIC | TYPE_DISCARD).to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.attributes.to_ne_bytes());
        let block = shift(self.block_bytes);
        bytes[12..16].copy_from_slice(&[
            block,
            block,
            shift(self.optimal_bytes.max(self.block_bytes)),
            block,
        ]);
        bytes[16..20].copy_from_slice(&sectors.to_ne_bytes());
        bytes[24..32].copy_from_slice(&(self.bytes / SECTOR_BYTES).to_ne_bytes());
        // No discard, but writes of zeros as long as other writes.
        bytes[44..48].copy_from_slice(&(self.block_bytes as u32).to_ne_bytes());
        bytes[52..56].copy_from_slice(&sectors.to_ne_bytes());
        bytes
    }
}

/// `struct ublksrv_io_desc`: a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// [`op`] and flags.
    pub(crate) op_flags: u32,
    /// Length in sectors.
    pub(crate) sectors: u32,
    /// First sector.
    pub(crate) start: u64,
}

impl Description {
    pub(crate) const BYTES: usize = 24;

    pub(crate) fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        Self {
            op_flags: u32::from_ne_bytes(part(bytes, 0)),
            sectors: u32::from_ne_bytes(part(bytes, 4)),
            start: u64::from_ne_bytes(part(bytes, 8)),
        }
    }
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("as long as asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_commands_are_those_of_the_header() {
        // Printed by a C program that includes <linux/ublk_cmd.h> of Linux 6.12.
        assert_eq!(command::ADD_DEV, 0xc020_7504);
        assert_eq!(command::GET_DEV_INFO, 0x8020_7502);
        assert_eq!(FETCH_REQ, 0xc010_7520);
        assert_eq!(COMMIT_AND_FETCH_REQ, 0xc010_7521);
    }

    #[test]
    fn what_the_driver_keeps_reads_back() {
        let info = DeviceInfo {
            depth: 128,
            state: STATE_DEAD,
            buffer_bytes: 1 << 19,
            device: 7,
            server_word: 0x1234_5678_9abc_def0,
        };
        assert_eq!(DeviceInfo::decode(&info.encode()), info);
    }

    #[test]
    fn parameters_stand_where_the_header_has_them() {
        let parameters = Parameters {
            attributes: attribute::VOLATILE_CACHE | attribute::FUA,
            block_bytes: 4096,
            optimal_bytes: 65_536,
            buffer_bytes: 1 << 19,
            bytes: 1 << 30,
        };
        let bytes = parameters.encode();
        let u32_at = |at: usize| u32::from_ne_bytes(part(&bytes, at));
        assert_eq!([u32_at(0), u32_at(4), u32_at(8)], [64, 3, 0b1100]);
        assert_eq!(bytes[12..16], [12, 12, 16, 12]);
        assert_eq!([u32_at(16), u32_at(20)], [1024, 0]);
        assert_eq!(u64::from_ne_bytes(part(&bytes, 24)), 1 << 21);
        // Discard: alignment, granularity, longest discard, longest write of zeros, segments.
        assert_eq!([u32_at(40), u32_at(44), u32_at(48), u32_at(52), u32_at(56)], [0, 4096, 0, 1024, 0]);
    }
}
