//! Sorts the candidates: present, stale, or not of the array.

use super::candidate::Candidate;
use super::error::AssembleError;
use crate::area::AreaLayout;
use crate::error::DecodeError;
use crate::identity::{ArrayUuid, DeviceUuid, StartNonce};
use crate::label::Label;
use crate::state::{ArrayState, DeviceState};
use raidlab_raid::Layout;
use raidlab_units::MemberIndex;

/// A candidate of another array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Which candidate.
    pub candidate: usize,
    /// The array that it belongs to.
    pub array_uuid: ArrayUuid,
}

/// A candidate that was of the array and is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Which candidate.
    pub candidate: usize,
    /// Who its label says that it is.
    pub device: MemberIndex,
    /// The newest generation that it holds.
    pub generation: u64,
    /// Why it is not used.
    pub reason: StaleReason,
}

/// Why a device of the array is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaleReason {
    /// The array went on without it.
    #[error("the array's newest state calls it missing")]
    CalledMissing,
    /// It missed two generations or more.
    #[error("its state is older than the array's newest by two generations or more")]
    Behind,
    /// It is one generation behind, and the start that wrote the newest state did not have it.
    #[error(
        "its state is of start {own} and does not know the array's latest, {latest}: it is a copy from before that start, or was \
         started without the others"
    )]
    MissedStart {
        /// The start that wrote its state.
        own: StartNonce,
        /// The one that wrote the newest.
        latest: StartNonce,
    },
    /// It holds another state of the newest generation.
    #[error(
        "it holds another state of the same generation, of start {own}: it was started without the others"
    )]
    Diverged {
        /// The start that wrote its state.
        own: StartNonce,
    },
    /// Another physical device has its place.
    #[error("device {expected} has taken its place")]
    Replaced {
        /// The physical device that the newest state names.
        expected: DeviceUuid,
    },
    /// The array has no such device.
    #[error("the array has only {devices} devices")]
    NoSuchDevice {
        /// How many it has.
        devices: usize,
    },
}

/// A candidate of which not enough can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// Which candidate.
    pub candidate: usize,
    /// Why not.
    pub reason: UnusableReason,
}

/// Why a candidate can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableReason {
    /// Its metadata area can't be read.
    #[error("its metadata area can't be read")]
    Unreadable,
    /// There are only zeros.
    #[error("it is blank")]
    Blank,
    /// It has no valid label.
    #[error("{0}")]
    Label(DecodeError),
    /// Its label is valid and neither of its state slots is.
    #[error("slot 0: {}; slot 1: {}", .0[0], .0[1])]
    State([DecodeError; 2]),
    /// Its metadata area ends before the log does.
    #[error("its metadata area has {found} bytes and the array's has {needed}: it was truncated")]
    Truncated {
        /// Length of the array's metadata area in bytes.
        needed: u64,
        /// Length of its own in bytes.
        found: u64,
    },
}

/// A role that no device in sync plays, of those present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// Which role.
    pub role: u16,
    /// The device that the newest state gives it to, or gave it to last; it may not be known.
    pub device: Option<MemberIndex>,
    /// Why that device does not play it.
    pub reason: LackReason,
}

/// Why a device does not play its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LackReason {
    /// The state calls it in sync, and it is not there or can't be used.
    Absent,
    /// The array went on without it: what it holds is stale.
    CalledMissing,
    /// It has been given only a part yet.
    Rebuilding,
}

impl core::fmt::Display for Lacking {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { role, device, reason } = self;
        match device {
            Some(MemberIndex(device)) => write!(f, "device {device} (role {role}), which ")?,
            None => write!(f, "a device for role {role}, which ")?,
        }
        f.write_str(match reason {
            LackReason::Absent => "is absent",
            LackReason::CalledMissing => "failed before, so that what it holds is stale",
            LackReason::Rebuilding => "is not rebuilt yet",
        })
    }
}

/// The candidates, sorted.
#[derive(Default)]
pub(super) struct Roster<'a> {
    /// For each device, the candidate that is it.
    pub(super) present: Vec<Option<usize>>,
    /// For each device that is present, its metadata area, at least as long as the array's; else empty.
    pub(super) areas: Vec<&'a [u8]>,
    pub(super) stale: Vec<Stale>,
    pub(super) foreign: Vec<Foreign>,
    pub(super) blank: Vec<usize>,
    pub(super) unusable: Vec<Unusable>,
}

impl<'a> Roster<'a> {
    pub(super) fn sort(candidates: &[Candidate<'a>], state: &ArrayState) -> Result<Self, AssembleError> {
        let devices = state.devices.len();
        let mut roster = Self { present: vec![None; devices], areas: vec![&[]; devices], ..Self::default() };
        for (candidate, read) in candidates.iter().enumerate() {
            match &read.label {
                Err(UnusableReason::Blank) => roster.blank.push(candidate),
                Err(reason) => roster.unusable.push(Unusable { candidate, reason: reason.clone() }),
                Ok(label) if label.array_uuid != state.geometry.array_uuid => {
                    roster.foreign.push(Foreign { candidate, array_uuid: label.array_uuid });
                }
                Ok(label) => roster.sort_own(candidate, read, label, state)?,
            }
        }
        Ok(roster)
    }

    /// Sorts a candidate whose label says that it is of the array.
    fn sort_own(
        &mut self,
        candidate: usize,
        read: &Candidate<'a>,
        label: &Label,
        newest: &ArrayState,
    ) -> Result<(), AssembleError> {
        let own = match read.newest() {
            Ok(own) => own,
            Err(slots) => {
                let reason = UnusableReason::State(slots.map(Clone::clone));
                self.unusable.push(Unusable { candidate, reason });
                return Ok(());
            }
        };
        let device = label.device;
        if let Some(reason) = stale_reason(label, own, newest) {
            self.stale.push(Stale { candidate, device, generation: own.generation, reason });
            return Ok(());
        }
        let (needed, found) = (AreaLayout::of(&newest.geometry).total_bytes, read.area.len() as u64);
        if found < needed {
            self.unusable.push(Unusable { candidate, reason: UnusableReason::Truncated { needed, found } });
            return Ok(());
        }
        if let Some(first) = self.present[device.index()] {
            return Err(AssembleError::Duplicate { device, first, second: candidate });
        }
        self.present[device.index()] = Some(candidate);
        self.areas[device.index()] = read.area;
        Ok(())
    }

    /// The devices that the state calls in sync and that are present, with their metadata areas.
    pub(super) fn in_sync<'s>(
        &'s self,
        state: &'s ArrayState,
    ) -> impl Iterator<Item = (MemberIndex, &'a [u8])> + 's {
        called_in_sync(state)
            .filter(|device| self.is_present(*device))
            .map(|device| (device, self.areas[device.index()]))
    }

    /// The devices that the state calls in sync and that are not present.
    pub(super) fn absent(&self, state: &ArrayState) -> Vec<MemberIndex> {
        called_in_sync(state).filter(|device| !self.is_present(*device)).collect()
    }

    fn is_present(&self, device: MemberIndex) -> bool {
        self.present[device.index()].is_some()
    }

    /// The roles that no device in sync plays, of those present.
    pub(super) fn open_roles(&self, state: &ArrayState) -> Vec<u16> {
        let played =
            |role| self.in_sync(state).any(|(device, _)| state.devices[device.index()].role == Some(role));
        (0..state.geometry.members).filter(|role| !played(*role)).collect()
    }

    /// Who would play the open roles.
    pub(super) fn lacking(&self, state: &ArrayState) -> Vec<Lacking> {
        let lines = || (0..).map(MemberIndex).zip(&state.devices);
        // A missing device had no role in the states of earlier writers; its number was its role unless a spare came.
        let of_role = |role: u16, wanted: DeviceState| {
            lines().find(|(device, line)| {
                let is_known = line.role == Some(role);
                let is_likely = line.role.is_none() && wanted == DeviceState::Missing && device.0 == role;
                line.state == wanted && (is_known || is_likely)
            })
        };
        let lack = |role| {
            let reasons = [
                (DeviceState::InSync, LackReason::Absent),
                (DeviceState::Rebuilding, LackReason::Rebuilding),
                (DeviceState::Missing, LackReason::CalledMissing),
            ];
            let found =
                reasons.into_iter().find_map(|(wanted, reason)| Some((of_role(role, wanted)?.0, reason)));
            let (device, reason) =
                found.map_or((None, LackReason::CalledMissing), |(it, why)| (Some(it), why));
            Lacking { role, device, reason }
        };
        self.open_roles(state).into_iter().map(lack).collect()
    }

    /// Checks that more than half of the devices that the state calls in sync are present; returns whether
    /// they are not and that is accepted.
    pub(super) fn check_quorum(
        &self,
        state: &ArrayState,
        layout: &dyn Layout,
        accept: bool,
    ) -> Result<bool, AssembleError> {
        let (in_sync, present) = (called_in_sync(state).count(), self.in_sync(state).count());
        if present * 2 > in_sync {
            return Ok(false);
        }
        if accept {
            return Ok(true);
        }
        Err(AssembleError::NoQuorum {
            generation: state.generation,
            in_sync,
            present,
            needed: in_sync / 2 + 1,
            absent: self.absent(state),
            stale: self.stale.clone(),
            is_enough: self.is_enough(state, layout),
        })
    }

    /// True if the devices that are there and in sync have all data, or the rest of it can be made up.
    pub(super) fn is_enough(&self, state: &ArrayState, layout: &dyn Layout) -> bool {
        let open_roles = self.open_roles(state);
        !layout.loses_data(&|role| open_roles.contains(&role.0))
    }
}

fn called_in_sync(state: &ArrayState) -> impl Iterator<Item = MemberIndex> {
    let devices = (0..).map(MemberIndex).zip(&state.devices);
    devices.filter(|(_, record)| record.state == DeviceState::InSync).map(|(device, _)| device)
}

/// Why a device of the array must not be used, in the order in which the reasons count; `own` is the newest state that the device
/// holds, `newest` the array's.
pub fn stale_reason(label: &Label, own: &ArrayState, newest: &ArrayState) -> Option<StaleReason> {
    let devices = newest.devices.len();
    let Some(record) = newest.devices.get(label.device.index()) else {
        return Some(StaleReason::NoSuchDevice { devices });
    };
    if record.device_uuid != label.device_uuid {
        return Some(StaleReason::Replaced { expected: record.device_uuid });
    }
    if record.state == DeviceState::Missing {
        return Some(StaleReason::CalledMissing);
    }
    match newest.generation - own.generation {
        0 if own.is_same(newest) => None,
        0 => Some(StaleReason::Diverged { own: own.start }),
        1 if own.knows(newest.start) => None,
        1 => Some(StaleReason::MissedStart { own: own.start, latest: newest.start }),
        _ => Some(StaleReason::Behind),
    }
}
