//! The two copies of label and states on a device: both are read, and the better one overwrites the worse.
//!
//! ```text
//! start:    front, tail ─► the better of each part ─► assemble ─► over the worse, before the array has the device
//! running:  a check or a stop begins ─► a thread reads both copies ─► label: written by the thread
//!                                                                   ├► state: two generations, which the controller writes
//!                                                                   └► an older state: the device was put back to an earlier time
//! ```
//! While an array runs, only the controller writes states, so that no two writes of a slot meet; only this module
//! writes labels. A device whose copies are being read is held as by an I/O: it is not released before that has ended.

use crate::device::{Device, LocalDevice, Purpose};
use crate::error::DeviceError;
use raidlab_format::{AreaLayout, ArrayState, CopyFault, CopyPlace, Extent, Placement, mend_front};
use raidlab_units::{ByteCount, MemberIndex};
use std::path::PathBuf;
use std::time::Duration;

/// The writer of a state may be between its two copies; by then it has ended.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// States that differ so often are damaged.
const LOOKS: u32 = 4;

/// Label and states of a device, each from the better of its two copies, and what stands before the log.
#[derive(Debug)]
pub(crate) struct MetadataCopies {
    pub(crate) front: Vec<u8>,
    /// Copies that are worse than what is in `front`.
    pub(crate) faults: Vec<CopyFault>,
    /// Why the front could not be read, if it could not.
    pub(crate) trouble: Option<String>,
}

impl MetadataCopies {
    /// Reads them. A place that can't be read may still have its copy.
    pub(crate) fn read(device: &Device) -> Self {
        let (mut front, trouble) = match device.read(0, AreaLayout::FRONT_BYTES) {
            Ok(front) => (front, None),
            Err(error) => (vec![0; AreaLayout::FRONT_BYTES as usize], Some(error.to_string())),
        };
        let tail_at = Placement::tail_at(device.bytes());
        let tail = tail_at.map_or(Ok(Vec::new()), |at| device.read(at, AreaLayout::TAIL_BYTES));
        let faults = mend_front(&mut front, &tail.unwrap_or_default());
        Self { front, faults, trouble }
    }

    /// Reads them on a device that may be written meanwhile.
    pub(crate) fn read_in_use(device: &Device) -> Self {
        let mut copies = Self::read(device);
        for _ in 1..LOOKS {
            if !copies.faults.iter().any(|fault| fault.is_damaged) {
                break;
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
            copies = Self::read(device);
        }
        copies
    }
}

/// Whether a copy at this place is damaged.
pub(crate) fn is_damaged(faults: &[CopyFault], place: CopyPlace) -> bool {
    faults.iter().any(|fault| fault.is_damaged && fault.place == place)
}

/// Writes the parts that `front` has over those of their copies that are worse.
///
/// # Errors
/// [`DeviceError::Io`]: what the device says to it.
pub(crate) fn mend(device: &Device, front: &[u8], faults: &[CopyFault]) -> Result<(), DeviceError> {
    let Some(tail_at) = Placement::tail_at(device.bytes()) else { return Ok(()) };
    for CopyFault { part, place, .. } in faults {
        let base = if *place == CopyPlace::Head { 0 } else { tail_at };
        let bytes = part.of(front).expect("a fault is of a part that was read");
        device.write(base + part.offset_bytes, bytes)?;
    }
    device.sync()
}

/// What is damaged, in words: "head (label), end (label, state)".
pub(crate) fn damage_words(faults: &[CopyFault]) -> String {
    let label = AreaLayout::new(ByteCount::ZERO).label;
    let at = |place, name: &str| {
        let damaged = || faults.iter().filter(move |fault| fault.is_damaged && fault.place == place);
        let parts = [
            (damaged().any(|it| it.part == label), "label"),
            (damaged().any(|it| it.part != label), "state"),
        ];
        let parts: Vec<_> =
            parts.into_iter().filter(|(is_there, _)| *is_there).map(|(_, part)| part).collect();
        (!parts.is_empty()).then(|| format!("{name} ({})", parts.join(", ")))
    };
    let both = [at(CopyPlace::Head, "head"), at(CopyPlace::Tail, "end")];
    both.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A device whose copies are to be looked at while the array uses it.
#[derive(Debug)]
pub(crate) struct Suspect {
    pub(crate) member: MemberIndex,
    pub(crate) reach: Reach,
    /// What its label must be.
    pub(crate) label: Vec<u8>,
    /// The generation of the state that it keeps; none while a newer one is on the way.
    pub(crate) generation: Option<u64>,
}

/// How a device that is in use is reached beside the array's own way.
#[derive(Debug)]
pub(crate) enum Reach {
    /// The file, open.
    File(LocalDevice),
    /// An export, by another connection.
    Export(PathBuf),
}

/// What became of a look.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) member: MemberIndex,
    pub(crate) found: Result<Findings, DeviceError>,
}

/// What a look has found.
#[derive(Debug)]
pub(crate) struct Findings {
    /// Copies that are damaged, in words; empty where none is.
    pub(crate) damage: String,
    /// Whether states are to be written anew.
    pub(crate) renews_state: bool,
    /// Why a label could not be written, if it could not.
    pub(crate) refused: Option<String>,
    /// The generation of the state in the place of the one that was kept there, where that is older.
    pub(crate) older_generation: Option<u64>,
}

impl Suspect {
    /// Looks at the copies, and writes labels that are damaged.
    pub(crate) fn look(self) -> Looked {
        let Self { member, reach, label, generation } = self;
        let device = match reach {
            Reach::File(file) => Ok(Device::Local(file)),
            Reach::Export(path) => Device::open(&path, Purpose::Use),
        };
        Looked { member, found: device.map(|device| look_at(&device, &label, generation)) }
    }
}

fn look_at(device: &Device, label: &[u8], generation: Option<u64>) -> Findings {
    let MetadataCopies { mut front, mut faults, .. } = MetadataCopies::read_in_use(device);
    let older_generation = generation.and_then(|kept| older_than(kept, &front));
    if older_generation.is_some() {
        // Nothing is written there any more: its next start is to see what it is.
        return Findings { damage: String::new(), renews_state: false, refused: None, older_generation };
    }
    let part = AreaLayout::new(ByteCount::ZERO).label;
    let renews_state = faults.iter().any(|fault| fault.is_damaged && fault.part != part);
    faults.retain(|fault| fault.part != part);
    let wrong = wrong_labels(device, part, label);
    faults.extend(&wrong);
    front[..label.len()].copy_from_slice(label);
    let refused = if wrong.is_empty() { Ok(()) } else { mend(device, &front, &wrong) };
    Findings {
        damage: damage_words(&faults),
        renews_state,
        refused: refused.err().map(|error| error.to_string()),
        older_generation,
    }
}

/// The generation of the state that is where that of generation `kept` was written, if it is older: newer ones are written over it
/// alone, or into the other slot.
fn older_than(kept: u64, front: &[u8]) -> Option<u64> {
    let slot = AreaLayout::new(ByteCount::ZERO).state_slot(kept);
    let found = ArrayState::decode(slot.of(front)?).ok()?;
    (found.generation < kept).then_some(found.generation)
}

/// The copies of the label that are not what they must be.
fn wrong_labels(device: &Device, part: Extent, label: &[u8]) -> Vec<CopyFault> {
    let places = [(CopyPlace::Head, Some(0)), (CopyPlace::Tail, Placement::tail_at(device.bytes()))];
    let is_wrong = |at: Option<u64>| {
        at.is_some_and(|at| device.read(at, part.length_bytes).ok().as_deref() != Some(label))
    };
    let wrong = places.into_iter().filter(|(_, at)| is_wrong(*at));
    wrong.map(|(place, _)| CopyFault { part, place, is_damaged: true }).collect()
}
