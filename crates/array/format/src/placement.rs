//! Where an array's parts are on a device, and which copy of label and states counts.
//!
//! ```text
//! byte 0                                    data_at                                tail_at
//!  | label | states | maps | log | free ... | data area, member_bytes | free ...  | label | states | < 4096 |
//!    └─────── metadata area ─────┘            from a multiple of 1 MiB              └── the second copy
//! ```
//! Label and states are written to both places; a write has ended when both are. So whatever a partitioner or a file
//! system writes to the front of a device, its end still identifies it. The maps and the log are only at the front, and
//! other devices have them, too.
//!
//! For each part, [`mend_front`] takes the copy at the end if it is better: the only valid one, or a later state. A
//! crash between the two writes leaves two generations, of which the later counts. A start overwrites the worse copy
//! with the better one, so that both are there when the next is lost.
//!
//! Left out: a device that has grown or shrunk no longer has its second copy at its end.

use crate::area::{AREA_UNIT_BYTES, AreaLayout, DATA_UNIT_BYTES, Extent};
use crate::assemble::newer_version;
use crate::error::DecodeError;
use crate::geometry::Geometry;
use crate::identity::ArrayUuid;
use crate::label::Label;
use crate::state::ArrayState;
use raidlab_units::ByteCount;

/// Where an array's parts stand on a device of a certain length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The metadata area, from byte 0 on.
    pub area: AreaLayout,
    /// First byte of the data area.
    pub data_at: u64,
    /// First byte of the second copy of label and states.
    pub tail_at: u64,
}

/// A device is shorter than its array needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is {} long and must be {} or longer", found.beside(needed), needed.beside(found))]
pub struct DeviceTooShort {
    /// Length that would do.
    pub needed: ByteCount,
    /// Its length.
    pub found: ByteCount,
}

impl Placement {
    /// Returns where things stand on a device of `device` bytes.
    ///
    /// # Errors
    /// [`DeviceTooShort`] if the data area and the second copy do not fit.
    pub fn new(geometry: &Geometry, device: ByteCount) -> Result<Self, DeviceTooShort> {
        let area = AreaLayout::of(geometry);
        let data_at = data_at(&area);
        let needed = Self::needed_bytes(geometry.log_bytes, geometry.member_bytes);
        let data_end = data_at.checked_add(geometry.member_bytes.0);
        let fits = |tail_at: &u64| data_end.is_some_and(|end| end <= *tail_at);
        let tail_at = Self::tail_at(device).filter(fits).ok_or(DeviceTooShort { needed, found: device })?;
        Ok(Self { area, data_at, tail_at })
    }

    /// Length of a device that just holds a log of `log` and a data area of `data`; as long as there is where the sum has
    /// no number. `log` must not exceed [`crate::LOG_BYTES_MAX`] (asserted).
    pub fn needed_bytes(log: ByteCount, data: ByteCount) -> ByteCount {
        let data_at = data_at(&AreaLayout::new(log));
        let end = data.0.checked_next_multiple_of(AREA_UNIT_BYTES).unwrap_or(u64::MAX);
        ByteCount(end.saturating_add(data_at + AreaLayout::TAIL_BYTES))
    }

    /// Longest data area that a device of `device` bytes has room for beside a log of `log`, whole units of 4 KiB. `log`
    /// must not exceed [`crate::LOG_BYTES_MAX`] (asserted).
    pub fn data_bytes_max(log: ByteCount, device: ByteCount) -> ByteCount {
        let data_at = data_at(&AreaLayout::new(log));
        let tail_at = Self::tail_at(device).unwrap_or_default();
        ByteCount(tail_at.saturating_sub(data_at))
    }

    /// Where the second copy stands on a device of `device` bytes; nowhere on one without room for both.
    pub fn tail_at(device: ByteCount) -> Option<u64> {
        let end = device.0 - device.0 % AREA_UNIT_BYTES;
        end.checked_sub(AreaLayout::TAIL_BYTES).filter(|tail_at| *tail_at >= AreaLayout::FRONT_BYTES)
    }
}

fn data_at(area: &AreaLayout) -> u64 {
    area.total_bytes.next_multiple_of(DATA_UNIT_BYTES)
}

/// Where a copy of label and states stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyPlace {
    /// At the device's front.
    Head,
    /// At its end.
    Tail,
}

/// A copy of a part that is worse than the other copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyFault {
    /// The label, or a slot of the state.
    pub part: Extent,
    /// Which of its copies.
    pub place: CopyPlace,
    /// It is not what was written, or can't be read; else it is only older, because a crash came between the two writes.
    pub is_damaged: bool,
}

/// How good a copy of a part is; the better of two counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worth {
    /// Nothing that belongs there.
    Nothing,
    /// Valid, and of another array than the label.
    Foreign,
    /// Valid, of this generation.
    Valid(u64),
    /// Of a newer version, which must be seen and refused.
    Newer,
}

/// Puts into `front`, which a device begins with, those parts of `tail`, the copy at its end, that are better. Either may
/// be short or empty, where it can't be read. Returns the copies that the part in `front` is to be written over.
pub fn mend_front(front: &mut [u8], tail: &[u8]) -> Vec<CopyFault> {
    let area = AreaLayout::new(ByteCount(0));
    let label =
        take_better(front, tail, area.label, |part| worth(Label::decode(part).map(|_| Worth::Valid(0))));
    let own = Label::decode(front).ok().map(|label| label.array_uuid);
    let state = area.state.map(|slot| {
        take_better(front, tail, slot, |part| {
            worth(ArrayState::decode(part).map(|state| {
                if area.state_slot(state.generation) == slot { of_array(&state, own) } else { Worth::Nothing }
            }))
        })
    });
    label.into_iter().chain(state.into_iter().flatten()).collect()
}

fn worth(decoded: Result<Worth, DecodeError>) -> Worth {
    match decoded {
        Ok(worth) => worth,
        Err(error) if newer_version(&error).is_some() => Worth::Newer,
        Err(_) => Worth::Nothing,
    }
}

fn of_array(state: &ArrayState, own: Option<ArrayUuid>) -> Worth {
    if own.is_none_or(|own| own == state.geometry.array_uuid) {
        Worth::Valid(state.generation)
    } else {
        Worth::Foreign
    }
}

fn take_better(
    front: &mut [u8],
    tail: &[u8],
    part: Extent,
    worth: impl Fn(&[u8]) -> Worth,
) -> Option<CopyFault> {
    let range = part.offset_bytes as usize..part.end_bytes() as usize;
    let own = front.get_mut(range)?;
    let other = part.of(tail).unwrap_or_default();
    let (own_worth, other_worth) = (worth(own), worth(other));
    if own_worth.max(other_worth) < Worth::Valid(0) {
        // There is nothing to mend it from; a foreign state that is all there is must be seen.
        if other_worth > own_worth {
            own.copy_from_slice(other);
        }
        return None;
    }
    let worse = own_worth.min(other_worth);
    let is_damaged = !matches!(worse, Worth::Valid(_));
    if other_worth > own_worth {
        own.copy_from_slice(other);
        return Some(CopyFault { part, place: CopyPlace::Head, is_damaged });
    }
    (own[..] != *other).then_some(CopyFault { part, place: CopyPlace::Tail, is_damaged })
}
