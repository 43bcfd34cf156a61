//! Where the parts of a device's metadata area are.
//!
//! ```text
//! byte 0       4096           20480          36864      40960      45056
//!  | label 4K | state 0  16K | state 1  16K | map 0 4K | map 1 4K | log ... rounded up to 4K | written 0 | written 1 |
//! ```
//! Everything begins on a multiple of 4096 bytes, so it consists of whole blocks at any block size. Everything before
//! the log has the same place in every array, so it can be read before the array's geometry is known.
//!
//! [`crate::Placement`] says where the area and its copy are on the device.

use crate::geometry::{Geometry, MetadataPolicy};
use crate::written::{WRITTEN_PAGE_BYTES, WRITTEN_PAGE_REGIONS};
use raidlab_units::{BlockSize, ByteCount};

/// Everything begins and ends on a multiple of this; no block is larger.
pub const AREA_UNIT_BYTES: u64 = 4096;
/// Length of the label.
pub const LABEL_BYTES: usize = 4096;
/// Length of one of the two state slots.
pub const STATE_BYTES: usize = 16384;
/// Length of one of the two bitmap slots.
pub const BITMAP_BYTES: usize = 4096;
/// The longest log, so that no sum overflows.
pub const LOG_BYTES_MAX: u64 = 1 << 40;

/// What the data area begins on a multiple of.
pub(crate) const DATA_UNIT_BYTES: u64 = 1 << 20;

const STATE_AT: u64 = LABEL_BYTES as u64;
const BITMAP_AT: u64 = STATE_AT + 2 * STATE_BYTES as u64;
const LOG_AT: u64 = BITMAP_AT + 2 * BITMAP_BYTES as u64;
const _: () = assert!(BlockSize::B4096.bytes() == AREA_UNIT_BYTES);
const _: () = assert!(LOG_AT.is_multiple_of(AREA_UNIT_BYTES));

/// A run of bytes in the metadata area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte, counted from the start of the area.
    pub offset_bytes: u64,
    /// Its length in bytes.
    pub length_bytes: u64,
}

impl Extent {
    /// One past its last byte.
    pub const fn end_bytes(self) -> u64 {
        self.offset_bytes + self.length_bytes
    }

    /// Returns its part of `area`, or `None` when the area ends before.
    pub fn of(self, area: &[u8]) -> Option<&[u8]> {
        let from = usize::try_from(self.offset_bytes).ok()?;
        area.get(from..usize::try_from(self.end_bytes()).ok()?)
    }
}

/// Where things stand in a device's metadata area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AreaLayout {
    /// The label.
    pub label: Extent,
    /// The state slots.
    pub state: [Extent; 2],
    /// The bitmap slots.
    pub bitmap: [Extent; 2],
    /// The ring of intent records.
    pub log: Extent,
    /// The two slots of the map of written regions; empty where there is none.
    pub written: [Extent; 2],
    /// Length of the whole area in bytes.
    pub total_bytes: u64,
}

impl AreaLayout {
    /// Length in bytes of all that stands before the log, the same in every array.
    pub const FRONT_BYTES: u64 = LOG_AT;
    /// Length in bytes of label and states, of which a device has a second copy at its end.
    pub const TAIL_BYTES: u64 = BITMAP_AT;

    /// Returns the layout for a log of `log` bytes or a little more: it is rounded up to [`AREA_UNIT_BYTES`],
    /// which is a multiple of every block size.
    ///
    /// `log` must not exceed [`LOG_BYTES_MAX`] (asserted; [`crate::Geometry::check`] says so first).
    ///
    /// # Panics
    /// If the log is longer than `LOG_BYTES_MAX`.
    pub const fn new(log: ByteCount) -> Self {
        assert!(log.0 <= LOG_BYTES_MAX, "the log is longer than any log may be");
        let log_bytes = log.0.next_multiple_of(AREA_UNIT_BYTES);
        Self {
            label: Extent { offset_bytes: 0, length_bytes: LABEL_BYTES as u64 },
            state: pair(STATE_AT, STATE_BYTES as u64),
            bitmap: pair(BITMAP_AT, BITMAP_BYTES as u64),
            log: Extent { offset_bytes: LOG_AT, length_bytes: log_bytes },
            written: pair(LOG_AT + log_bytes, 0),
            total_bytes: LOG_AT + log_bytes,
        }
    }

    /// The area of an array. With block checksums it also has a map of written regions, in the room that is free before the data
    /// area: a bit for each strip of a device, if that is enough. Room that an older version left free is as good.
    pub fn of(geometry: &Geometry) -> Self {
        let area = Self::new(geometry.log_bytes);
        if !geometry.integrity || geometry.metadata == MetadataPolicy::None {
            return area;
        }
        let free = area.total_bytes.next_multiple_of(DATA_UNIT_BYTES) - area.total_bytes;
        let wanted = geometry.strips().div_ceil(WRITTEN_PAGE_REGIONS);
        let slot_bytes = wanted.min(free / (2 * WRITTEN_PAGE_BYTES as u64)) * WRITTEN_PAGE_BYTES as u64;
        let written = pair(area.total_bytes, slot_bytes);
        Self { written, total_bytes: written[1].end_bytes(), ..area }
    }

    /// A log of `log` bytes, or of a little more, behind which there is room for the map of written regions. A new array takes it.
    pub const fn log_with_map(log: ByteCount) -> ByteCount {
        let end = LOG_AT + log.0.next_multiple_of(AREA_UNIT_BYTES);
        let data_at = end.next_multiple_of(DATA_UNIT_BYTES);
        let longer = data_at + AREA_UNIT_BYTES - LOG_AT;
        if data_at - end >= 2 * WRITTEN_PAGE_BYTES as u64 || longer > LOG_BYTES_MAX {
            log
        } else {
            ByteCount(longer)
        }
    }

    /// Where `generation` of the state goes: the slot that holds the one before the last.
    pub const fn state_slot(&self, generation: u64) -> Extent {
        self.state[(generation % 2) as usize]
    }
}

const fn pair(offset_bytes: u64, length_bytes: u64) -> [Extent; 2] {
    [
        Extent { offset_bytes, length_bytes },
        Extent { offset_bytes: offset_bytes + length_bytes, length_bytes },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_without_gaps_on_whole_units() {
        for log_bytes in [0, 1, 512, 4096, 4097, 1 << 20, LOG_BYTES_MAX] {
            let area = AreaLayout::new(ByteCount(log_bytes));
            let mut next_bytes = 0;
            let [state_0, state_1] = area.state;
            let [bitmap_0, bitmap_1] = area.bitmap;
            for part in [area.label, state_0, state_1, bitmap_0, bitmap_1, area.log] {
                assert_eq!(part.offset_bytes, next_bytes);
                assert!(part.length_bytes.is_multiple_of(AREA_UNIT_BYTES));
                next_bytes = part.end_bytes();
            }
            assert_eq!(area.total_bytes, next_bytes);
            assert_eq!(area.log.offset_bytes, AreaLayout::FRONT_BYTES);
            assert!((log_bytes..log_bytes + AREA_UNIT_BYTES).contains(&area.log.length_bytes));
        }
    }

    /// Defect: an array with such a log had no map, and zeroed ranges were believed.
    #[test]
    fn a_new_log_leaves_room_for_the_map() {
        for kib in (0..2100).chain([4096, 1 << 20]) {
            let log = ByteCount(kib << 10);
            let rounded = AreaLayout::log_with_map(log);
            assert!(rounded >= log && rounded.0 - log.0 <= 2 * AREA_UNIT_BYTES + 4096, "{log} to {rounded}");
            let end = AreaLayout::new(rounded).total_bytes;
            assert!(end.next_multiple_of(DATA_UNIT_BYTES) - end >= 2 * WRITTEN_PAGE_BYTES as u64, "{log}");
            assert_eq!(AreaLayout::log_with_map(rounded), rounded);
        }
        assert_eq!(AreaLayout::log_with_map(ByteCount(LOG_BYTES_MAX)), ByteCount(LOG_BYTES_MAX));
    }

    #[test]
    fn generations_alternate_between_the_slots() {
        let area = AreaLayout::new(ByteCount(0));
        assert_eq!(area.state_slot(6), area.state[0]);
        assert_eq!(area.state_slot(7), area.state[1]);
    }

    #[test]
    fn a_part_beyond_the_end_is_not_there() {
        let area = AreaLayout::new(ByteCount(4096));
        assert_eq!(area.label.of(&[0; LABEL_BYTES]).map(<[u8]>::len), Some(LABEL_BYTES));
        assert_eq!(area.label.of(&[0; LABEL_BYTES - 1]), None);
        assert_eq!(area.log.of(&vec![0; 45056 + 4096]).map(<[u8]>::len), Some(4096));
        assert_eq!(area.log.of(&vec![0; 45056 + 4095]), None);
    }
}
