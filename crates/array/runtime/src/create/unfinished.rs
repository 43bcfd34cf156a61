//! What a killed creation left: recognised as raidlab's own, so that the same creation can be repeated.
//!
//! | a device named as a member or spare | is |
//! |---|---|
//! | a file with the mark of an unfinished array | left over: removed, and made again |
//! | a file with the label of an array that another of the named files is unfinished for, and its first state | left over: removed, and made again |
//! | a device with the label of the very array that is to be made (its name, its geometry, its place), and its first state, as all that were named are or would be | left over: a file of the right length is removed, and made again; what was there before and was named to be overwritten is, whatever it was named with. One that is not there may have been removed by a creation that was killed while it cleared |
//! | anything else | the user's |
//!
//! A file gets the mark when it is created, before anything else, and the labels come last: a creation that was killed between
//! the last label and its answer has made the array, and nobody knows. A file whose creation was killed before the mark is
//! empty, and is also remade. An array that was started may have data: then its state is no longer the first. One that keeps no
//! metadata has no states to tell that from, so only its marks count.

use crate::device::{Device, Purpose, failed, is_nbd_uri, is_there};
use crate::error::CreateError;
use raidlab_controller::{ArrayConfig, MetadataPolicy};
use raidlab_format::{
    AreaLayout, ArrayName, ArrayState, ArrayUuid, Geometry, LABEL_BYTES, Label, Unfinished,
};
use raidlab_units::ByteCount;
use std::collections::BTreeSet;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The generation of the state of an array that was never started.
const FIRST_GENERATION: u64 = 1;

/// What a device says of the array that it was made for.
enum Trace {
    Unfinished(ArrayUuid),
    NeverStarted(Box<(Label, Geometry)>),
    /// A creation that was killed among the labels has wiped it.
    Blank,
    /// There is none: a creation that was killed while it cleared what another had left has removed it.
    Absent,
}

/// The array that is to be made.
pub(super) struct Wanted<'a> {
    pub(super) name: ArrayName,
    pub(super) config: &'a ArrayConfig,
    /// Length of files that are made, if any can be.
    pub(super) file_bytes: Option<ByteCount>,
}

impl Wanted<'_> {
    /// Whether a device in place `number` is one that the same creation has made.
    fn is_made(&self, number: usize, label: &Label, found: &Geometry) -> bool {
        let mut config = self.config.clone();
        if config.member_size == ByteCount::ZERO {
            // All that the smallest has, which is not known yet.
            config.member_size = found.member_bytes;
        }
        label.name == self.name
            && label.device.index() == number
            && found.metadata != MetadataPolicy::None
            && config.geometry(label.array_uuid) == *found
    }

    /// Whether all devices are what the same creation has made of them, as far as it came.
    fn are_all_made(&self, traces: &[Option<Trace>]) -> bool {
        let mut arrays = BTreeSet::new();
        let is_made = |(number, trace): (usize, &Option<Trace>)| match trace {
            Some(Trace::NeverStarted(it)) => {
                arrays.insert(it.0.array_uuid);
                self.is_made(number, &it.0, &it.1)
            }
            Some(Trace::Blank | Trace::Absent) => true,
            _ => false,
        };
        traces.iter().enumerate().all(is_made) && arrays.len() == 1
    }
}

/// Takes away what is left over at `paths`, in the order of their places. Returns those that were there before it, and hold nothing.
///
/// # Errors
/// [`CreateError`]: somebody is making the array at this moment, or the system refuses.
pub(super) fn clear_left_over(paths: &[&PathBuf], wanted: &Wanted<'_>) -> Result<Vec<PathBuf>, CreateError> {
    let traces = paths.iter().map(|path| trace(path)).collect::<Result<Vec<_>, _>>()?;
    let unfinished: BTreeSet<ArrayUuid> = traces
        .iter()
        .filter_map(|trace| if let Some(Trace::Unfinished(uuid)) = trace { Some(*uuid) } else { None })
        .collect();
    let are_all_made = wanted.are_all_made(&traces);
    let mut empty = Vec::new();
    for (path, trace) in paths.iter().zip(traces) {
        let array_uuid = match trace {
            Some(Trace::Unfinished(array_uuid)) => array_uuid,
            Some(Trace::NeverStarted(it)) => it.0.array_uuid,
            Some(Trace::Blank | Trace::Absent) | None => continue,
        };
        let bytes = std::fs::metadata(path).ok().map(|facts| ByteCount(facts.len()));
        let has_length = bytes.is_some() && bytes == wanted.file_bytes;
        // One that is named twice is gone by now.
        if is_own_file(path) && (unfinished.contains(&array_uuid) || are_all_made && has_length) {
            // Whoever makes the array at this moment has it locked.
            let _held = Device::open(path, Purpose::Use)?;
            tracing::info!(path = %path.display(), "an unfinished member is made again");
            std::fs::remove_file(path).map_err(|source| failed("remove", path, source))?;
        } else if are_all_made {
            empty.push((*path).clone());
        }
    }
    Ok(empty)
}

fn trace(path: &Path) -> Result<Option<Trace>, CreateError> {
    if !is_there(path) {
        return Ok(Some(Trace::Absent));
    }
    if !is_nbd_uri(path) && !is_own_file(path) && !is_block_device(path) {
        return Ok(None);
    }
    let front = Device::open(path, Purpose::Look)?.read(0, AreaLayout::FRONT_BYTES)?;
    if let Ok(mark) = Unfinished::decode(&front) {
        return Ok(Some(Trace::Unfinished(mark.array_uuid)));
    }
    let Ok(label) = Label::decode(&front) else {
        let is_blank = front.len() >= LABEL_BYTES && front[..LABEL_BYTES].iter().all(|byte| *byte == 0);
        return Ok(is_blank.then_some(Trace::Blank));
    };
    let slots = AreaLayout::new(ByteCount::ZERO).state;
    let states = slots.iter().filter_map(|slot| ArrayState::decode(slot.of(&front)?).ok());
    let mut states: Vec<ArrayState> = states.collect();
    let first = states.pop().filter(|state| states.is_empty() && state.generation == FIRST_GENERATION);
    Ok(first.map(|state| Trace::NeverStarted(Box::new((label, state.geometry)))))
}

fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|facts| facts.file_type().is_block_device())
}

/// Whether a file is one whose creation was killed before its mark: an empty one.
pub(super) fn is_unmarked(device: &Device) -> bool {
    device.bytes() == ByteCount::ZERO && is_own_file(device.path())
}

fn is_own_file(path: &Path) -> bool {
    // One that is linked to was not made here.
    std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file())
}

/// What a file that is being made for the array begins with.
pub(super) fn mark(array_uuid: ArrayUuid) -> Vec<u8> {
    let mut mark = vec![0; LABEL_BYTES];
    Unfinished { array_uuid }.encode(&mut mark);
    mark
}
