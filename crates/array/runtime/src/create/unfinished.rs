//! Files left by a killed creation: recognised as raidlab's own, and removed so that they can be made again.
//!
//! | a file named as a member or spare | is |
//! |---|---|
//! | has the mark of an unfinished array | left over |
//! | has the label of an array that another of the named files is unfinished for, and its first state | left over |
//! | anything else | the user's |
//!
//! A file gets the mark when it is created, before anything else, and the labels come last. A file whose creation was
//! killed before the mark is empty, and is also remade. An array of which some files have labels may have been started
//! without the others, and have data: then its state is no longer the first.

use crate::device::{Device, Purpose, failed};
use crate::error::CreateError;
use raidlab_format::{AreaLayout, ArrayState, ArrayUuid, LABEL_BYTES, Label, Unfinished};
use raidlab_units::ByteCount;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The generation of the state of an array that was never started.
const FIRST_GENERATION: u64 = 1;

/// What a file says of the array that it was made for.
enum Trace {
    Unfinished(ArrayUuid),
    NeverStarted(ArrayUuid),
}

/// Takes away what is left over at `paths`.
///
/// # Errors
/// [`CreateError`]: somebody is making the array at this moment, or the system refuses.
pub(super) fn clear_left_over(paths: &[&PathBuf]) -> Result<(), CreateError> {
    let mut traces = Vec::new();
    for path in paths {
        if let Some(trace) = trace(path)? {
            traces.push((*path, trace));
        }
    }
    let unfinished: BTreeSet<ArrayUuid> = traces
        .iter()
        .filter_map(|(_, trace)| if let Trace::Unfinished(uuid) = trace { Some(*uuid) } else { None })
        .collect();
    for (path, trace) in traces {
        let (Trace::Unfinished(uuid) | Trace::NeverStarted(uuid)) = trace;
        // One that is named twice is gone by now.
        if unfinished.contains(&uuid) && is_own_file(path) {
            // Whoever makes the array at this moment has it locked.
            let _held = Device::open(path, Purpose::Use)?;
            tracing::info!(path = %path.display(), "an unfinished member is made again");
            std::fs::remove_file(path).map_err(|source| failed("remove", path, source))?;
        }
    }
    Ok(())
}

fn trace(path: &Path) -> Result<Option<Trace>, CreateError> {
    if !is_own_file(path) {
        return Ok(None);
    }
    let front = Device::open(path, Purpose::Look)?.read(0, AreaLayout::FRONT_BYTES)?;
    if let Ok(mark) = Unfinished::decode(&front) {
        return Ok(Some(Trace::Unfinished(mark.array_uuid)));
    }
    let Ok(label) = Label::decode(&front) else { return Ok(None) };
    let slots = AreaLayout::new(ByteCount::ZERO).state;
    let states = slots.iter().filter_map(|slot| ArrayState::decode(slot.of(&front)?).ok());
    let generations: Vec<u64> = states.map(|state| state.generation).collect();
    Ok((generations == [FIRST_GENERATION]).then_some(Trace::NeverStarted(label.array_uuid)))
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
