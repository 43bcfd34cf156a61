//! Reads one candidate, and finds from all of them which array it is and which state is the newest.

use super::error::{AssembleError, StartedApart};
use super::roster::UnusableReason;
use crate::area::AreaLayout;
use crate::error::{DecodeError, Part};
use crate::identity::ArrayUuid;
use crate::label::Label;
use crate::state::{ArrayState, DeviceState};
use raidlab_units::{ByteCount, MemberIndex};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A device that may be of the array, as far as it can be read.
pub(super) struct Candidate<'a> {
    /// Its metadata area; empty when it can't be read.
    pub(super) area: &'a [u8],
    /// Who it says it is.
    pub(super) label: Result<Label, UnusableReason>,
    /// Its states. With a label they are of the label's array; without, each may be of another.
    pub(super) slots: [Result<ArrayState, DecodeError>; 2],
}

impl<'a> Candidate<'a> {
    pub(super) fn read(area: Option<&'a [u8]>) -> Self {
        let Some(area) = area else {
            let nothing = DecodeError::TooShort { part: Part::State, needed: 1, found: 0 };
            let slots = [Err(nothing.clone()), Err(nothing)];
            return Self { area: &[], label: Err(UnusableReason::Unreadable), slots };
        };
        let label = Label::decode(area);
        let slots = [0, 1].map(|slot| state_in_slot(area, slot, label.as_ref().ok()));
        let front = &area[..area.len().min(AreaLayout::FRONT_BYTES as usize)];
        let label = match label {
            Err(_) if !front.is_empty() && front.iter().all(|byte| *byte == 0) => Err(UnusableReason::Blank),
            label => label.map_err(UnusableReason::Label),
        };
        Self { area, label, slots }
    }

    /// The candidate's newest state, or why there is none in either slot.
    pub(super) fn newest(&self) -> Result<&ArrayState, [&DecodeError; 2]> {
        match &self.slots {
            [Ok(first), Ok(second)] => Ok(if first.generation >= second.generation { first } else { second }),
            [Ok(state), Err(_)] | [Err(_), Ok(state)] => Ok(state),
            [Err(first), Err(second)] => Err([first, second]),
        }
    }

    /// The newer version that a slot has, if one has.
    fn newer_version(&self) -> Option<u16> {
        self.slots.iter().filter_map(|slot| newer_version(slot.as_ref().err()?)).max()
    }

    /// Whether the candidate's state, if it has one, may be of the array.
    fn may_be_of(&self, array_uuid: ArrayUuid) -> bool {
        self.label.as_ref().map_or(true, |label| label.array_uuid == array_uuid)
    }

    /// Whether its label says that it is this device of a state.
    fn is_device(&self, state: &ArrayState, device: usize) -> bool {
        self.label.as_ref().is_ok_and(|label| {
            label.device.index() == device && label.device_uuid == state.devices[device].device_uuid
        })
    }
}

/// Reads a slot. What is of another array than the label, or of a generation that belongs in the other slot,
/// was not written there by us.
fn state_in_slot(area: &[u8], slot: usize, label: Option<&Label>) -> Result<ArrayState, DecodeError> {
    // The log's length does not matter for what stands before it.
    let layout = AreaLayout::new(ByteCount::ZERO);
    let state = ArrayState::decode(layout.state[slot].of(area).unwrap_or_default())?;
    let (found, generation) = (state.geometry.array_uuid, state.generation);
    if label.is_some_and(|label| label.array_uuid != found) {
        return Err(DecodeError::OtherArray { part: Part::State, found });
    }
    if layout.state_slot(generation) != layout.state[slot] {
        return Err(DecodeError::field(
            Part::State,
            "generation",
            generation,
            "even in slot 0 and odd in slot 1",
        ));
    }
    Ok(state)
}

/// The version in an error that says that it is a newer one.
pub(crate) fn newer_version(error: &DecodeError) -> Option<u16> {
    match *error {
        DecodeError::UnknownVersion { found, known, .. } if found > known => Some(found),
        _ => None,
    }
}

/// Refuses candidates whose label is of a newer version: they may be of the array, and may know more than the
/// others.
pub(super) fn refuse_newer_labels(candidates: &[Candidate<'_>]) -> Result<(), AssembleError> {
    for (candidate, read) in candidates.iter().enumerate() {
        if let Err(UnusableReason::Label(error)) = &read.label
            && let Some(found) = newer_version(error)
        {
            return Err(AssembleError::newer_version(candidate, found));
        }
    }
    Ok(())
}

/// Refuses candidates that are, or may be, of the array and have a state of a newer version.
pub(super) fn refuse_newer_states(
    candidates: &[Candidate<'_>],
    array_uuid: ArrayUuid,
) -> Result<(), AssembleError> {
    for (candidate, read) in candidates.iter().enumerate().filter(|(_, read)| read.may_be_of(array_uuid)) {
        if let Some(found) = read.newer_version() {
            return Err(AssembleError::newer_version(candidate, found));
        }
    }
    Ok(())
}

/// Returns the array that is expected, or else the one of most labels.
pub(super) fn choose_array(
    candidates: &[Candidate<'_>],
    expected: Option<ArrayUuid>,
) -> Result<ArrayUuid, AssembleError> {
    let mut votes: BTreeMap<ArrayUuid, usize> = BTreeMap::new();
    for label in candidates.iter().filter_map(|read| read.label.as_ref().ok()) {
        *votes.entry(label.array_uuid).or_default() += 1;
    }
    if let Some(expected) = expected {
        if votes.contains_key(&expected) {
            return Ok(expected);
        }
        return Err(AssembleError::OtherArraysOnly { expected, found: votes.into_keys().collect() });
    }
    let most =
        votes.values().copied().max().ok_or(AssembleError::NoDevices { candidates: candidates.len() })?;
    let mut leaders: Vec<ArrayUuid> =
        votes.into_iter().filter(|(_, count)| *count == most).map(|(uuid, _)| uuid).collect();
    match leaders.len() {
        1 => Ok(leaders.remove(0)),
        _ => Err(AssembleError::SeveralArrays { found: leaders }),
    }
}

/// Returns the newest state of the array. States that were never complete and that it is chosen before are taken from the
/// candidates: they count as never written.
pub(super) fn choose_state(
    candidates: &mut [Candidate<'_>],
    array_uuid: ArrayUuid,
) -> Result<ArrayState, AssembleError> {
    let newest = newest_states(candidates, array_uuid)?;
    if let [state] = &newest[..] {
        return Ok(state.clone());
    }
    let on_most: Vec<&ArrayState> = newest.iter().filter(|state| most_hold(candidates, state)).collect();
    let generation = newest[0].generation;
    let diverged = || {
        let devices = |state| devices_with(candidates, state);
        let parts = newest.iter().map(|state| StartedApart { start: state.start, devices: devices(state) });
        AssembleError::Diverged { array_uuid, generation, parts: parts.collect() }
    };
    match on_most[..] {
        [state] => return Ok(state.clone()),
        [] => {}
        _ => return Err(diverged()),
    }
    let chosen = choose_incomplete(candidates, &newest).ok_or_else(diverged)?;
    for slot in candidates.iter_mut().flat_map(|read| &mut read.slots) {
        let is_other = |state: &ArrayState| state.generation == generation && !state.is_same(chosen);
        if slot.as_ref().is_ok_and(is_other) {
            *slot =
                Err(DecodeError::field(Part::State, "generation", generation, "on all devices, or left out"));
        }
    }
    Ok(chosen.clone())
}

/// The devices whose newest state is this one.
fn devices_with(candidates: &[Candidate<'_>], state: &ArrayState) -> Vec<MemberIndex> {
    let has_it = |read: &&Candidate<'_>| read.newest().is_ok_and(|own| own.is_same(state));
    let labels = candidates.iter().filter(has_it).filter_map(|read| read.label.as_ref().ok());
    labels.map(|label| label.device).collect()
}

/// The different states of the highest generation, each with all starts that any device says have found it.
fn newest_states(
    candidates: &[Candidate<'_>],
    array_uuid: ArrayUuid,
) -> Result<Vec<ArrayState>, AssembleError> {
    let states = || {
        let of_array = candidates.iter().filter(move |read| read.may_be_of(array_uuid));
        let states = of_array.flat_map(|read| read.slots.iter().flatten());
        states.filter(move |state| state.geometry.array_uuid == array_uuid)
    };
    let generation =
        states().map(|state| state.generation).max().ok_or(AssembleError::NoState { array_uuid })?;
    let mut found: Vec<&ArrayState> = states().filter(|state| state.generation == generation).collect();
    // Which starts are forgotten, where there are too many, does not depend on the order of the devices.
    found.sort_by(|one, other| {
        (other.found_by.len(), &other.found_by).cmp(&(one.found_by.len(), &one.found_by))
    });
    let mut newest: Vec<ArrayState> = Vec::new();
    for state in found {
        match newest.iter_mut().find(|known| known.is_same(state)) {
            Some(known) => state.found_by.iter().for_each(|start| known.note_found_by(*start)),
            None => newest.push(state.clone()),
        }
    }
    Ok(newest)
}

/// Of states that each are on half or less of the devices that they call in sync, the one that may have been complete. If
/// none may, nothing relied on any of them; then the one that leaves most in sync.
///
/// None is chosen before one of a later incarnation of NVRAM: where a device was lost, NVRAM may have got its label.
fn choose_incomplete<'s>(candidates: &[Candidate<'_>], newest: &'s [ArrayState]) -> Option<&'s ArrayState> {
    let incarnation = |state: &ArrayState| state.nvram_epoch | 1;
    let mut open: Vec<&ArrayState> =
        newest.iter().filter(|state| !was_never_complete(candidates, state)).collect();
    if open.is_empty() {
        let order = |state: &ArrayState| {
            let devices: Vec<DeviceState> = state.devices.iter().map(|device| device.state).collect();
            (Reverse(incarnation(state)), Reverse(in_sync(state).count()), devices)
        };
        let first = newest.iter().map(order).min();
        open = newest.iter().filter(|state| Some(order(state)) == first).collect();
    }
    let [chosen] = open[..] else { return None };
    newest.iter().all(|state| incarnation(state) <= incarnation(chosen)).then_some(chosen)
}

/// Whether all devices that `state` calls in sync are there, with it or with the generation before, as the start that wrote it
/// found or wrote that; at most half of them have it. A start without those that have it may have put another state in its place on
/// the rest. A device that the start did not find is a copy, and no witness: the one that it is a copy of may have the state.
fn was_never_complete(candidates: &[Candidate<'_>], state: &ArrayState) -> bool {
    let has_one_of_two = |device| {
        let found = candidates.iter().filter(|read| read.is_device(state, device));
        let mut slots = found.flat_map(|read| read.slots.iter().flatten());
        slots.any(|own| own.is_same(state) || is_before(own, state))
    };
    in_sync(state).count() > 0 && in_sync(state).all(has_one_of_two)
}

/// Whether a state is of the generation before, and on a device that the start which wrote the later one had.
fn is_before(own: &ArrayState, state: &ArrayState) -> bool {
    own.generation.checked_add(1) == Some(state.generation) && own.knows(state.start)
}

/// Whether more than half of the devices that `state` calls in sync hold just this state.
fn most_hold(candidates: &[Candidate<'_>], state: &ArrayState) -> bool {
    let is_held = |device: &usize| {
        let mut found = candidates.iter().filter(|read| read.is_device(state, *device));
        found.any(|read| read.newest().is_ok_and(|own| own.is_same(state)))
    };
    in_sync(state).filter(is_held).count() * 2 > in_sync(state).count()
}

/// The devices that a state calls in sync.
fn in_sync(state: &ArrayState) -> impl Iterator<Item = usize> {
    (0..state.devices.len()).filter(|device| state.devices[*device].state == DeviceState::InSync)
}
