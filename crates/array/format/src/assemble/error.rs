//! Why a set of devices can't be started, and what would help.

use super::intent::Doubt;
use super::replay::LogTrouble;
use super::roster::{LackReason, Lacking, Stale};
use crate::identity::{ArrayUuid, StartNonce};
use crate::seal::VERSION;
use core::fmt::Display;
use raidlab_units::MemberIndex;

/// Why a set of devices can't be started as an array.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssembleError {
    /// No candidate has a valid label.
    #[error(
        "none of the {candidates} devices given is of an array: name the array's devices, or create an \
         array on these"
    )]
    NoDevices {
        /// How many were given.
        candidates: usize,
    },
    /// The array that was asked for is not among the candidates.
    #[error("no device of array {expected} is given, only of {}: name its devices", list(.found, "no array"))]
    OtherArraysOnly {
        /// What was asked for.
        expected: ArrayUuid,
        /// What is there.
        found: Vec<ArrayUuid>,
    },
    /// As many candidates belong to one array as to another.
    #[error("the devices belong to several arrays: {}; name the devices of one of them only", list(.found, "none"))]
    SeveralArrays {
        /// The arrays with the most candidates.
        found: Vec<ArrayUuid>,
    },
    /// Written by a newer raidlab.
    #[error(
        "{} holds version {found} of raidlab's format and this raidlab knows {known}: use a newer raidlab, \
         or leave it out if it is not of the array",
        version_place(*.candidate)
    )]
    NewerVersion {
        /// Which candidate; `None` for the NVRAM.
        candidate: Option<usize>,
        /// Its version.
        found: u16,
        /// The newest version that is understood.
        known: u16,
    },
    /// No candidate has a valid state.
    #[error(
        "no device of array {array_uuid} has a valid state: it was never completely created, or the devices \
         given are all damaged; name the rest of its devices, or create it anew"
    )]
    NoState {
        /// The array.
        array_uuid: ArrayUuid,
    },
    /// The array was started in two parts that do not know of each other.
    #[error(
        "the devices of array {array_uuid} hold different states of generation {generation}: it was started \
         in parts, or copies of it were. Last written: {}. Name the devices of one start only, and accept a minority \
         (--accept-minority) if they are too few: what was written to the others since is lost",
        parts_text(.parts)
    )]
    Diverged {
        /// The array.
        array_uuid: ArrayUuid,
        /// The generation that there is more than once.
        generation: u64,
        /// Who has which state.
        parts: Vec<StartedApart>,
    },
    /// Two candidates are the same device.
    #[error(
        "candidates {first} and {second} are both device {}: the same device by two paths, or a copy of it; name \
         it once",
        device.0
    )]
    Duplicate {
        /// Which device.
        device: MemberIndex,
        /// A candidate that is it.
        first: usize,
        /// Another one.
        second: usize,
    },
    /// Too few members are present to know that the others did not go on without them.
    #[error(
        "generation {generation} calls {in_sync} members in sync; {present} of them are present and \
         {needed} are needed. Absent: {}. {}Bring them back{}",
        devices(.absent),
        out_of_date(.stale),
        if *.is_enough {
            "; or, if they are gone for good, accept a minority (--accept-minority): what was written to them since is lost"
        } else {
            ": more are absent than the level survives"
        }
    )]
    NoQuorum {
        /// The newest generation.
        generation: u64,
        /// Members that it calls in sync.
        in_sync: usize,
        /// Those of them that are present.
        present: usize,
        /// The fewest that would do.
        needed: usize,
        /// Those that are not.
        absent: Vec<MemberIndex>,
        /// Candidates that are out of date.
        stale: Vec<Stale>,
        /// The others have all data.
        is_enough: bool,
    },
    /// Members are missing, and parity may not agree with data.
    #[error(
        "the array can't tell what its missing members held: {doubt}. Missing: {}. {}",
        list(.lacking, "none"),
        way_back(.doubt, .lacking, *.is_enough)
    )]
    DirtyDegraded {
        /// Why parity may not agree.
        doubt: Doubt,
        /// Roles that no device in sync plays, of those present, with who would play them.
        lacking: Vec<Lacking>,
        /// The others have all data, if their parity agrees.
        is_enough: bool,
    },
    /// The log is not the array's.
    #[error(
        "the log can't be replayed: {trouble}. Bring absent devices back{}",
        if *.is_enough {
            "; or accept the write hole (--accept-write-hole): the log is then left out and all redundancy recomputed"
        } else {
            ": more are absent than the level survives"
        }
    )]
    Log {
        /// What is wrong with it.
        trouble: LogTrouble,
        /// The devices that are there have all data.
        is_enough: bool,
    },
}

/// Devices with one of several states that do not know of each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartedApart {
    /// The start that wrote the state.
    pub start: StartNonce,
    /// The devices that have it.
    pub devices: Vec<MemberIndex>,
}

impl Display for StartedApart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} by start {}", devices(&self.devices), self.start)
    }
}

impl AssembleError {
    pub(super) fn newer_version(candidate: usize, found: u16) -> Self {
        Self::NewerVersion { candidate: Some(candidate), found, known: VERSION }
    }

    pub(super) fn newer_kept_version(found: u16) -> Self {
        Self::NewerVersion { candidate: None, found, known: VERSION }
    }
}

/// What would help. Nothing that is accepted does where more is missing than the level survives.
fn way_back(doubt: &Doubt, lacking: &[Lacking], is_enough: bool) -> String {
    let mut ways = Vec::new();
    if lacking.iter().any(|it| it.reason == LackReason::Absent) {
        ways.push("the absent devices");
    }
    if matches!(doubt, Doubt::NvramLog(_)) {
        ways.push("the NVRAM");
    }
    let ways = ways.join(", or ");
    let risk = "the write hole (--accept-write-hole): what was being written when the array stopped, and data beside it, may then be wrong";
    match (ways.as_str(), is_enough) {
        ("", true) => format!("Accept {risk}"),
        (ways, true) => format!("Bring back {ways}; or accept {risk}"),
        ("", false) => "More are missing than the level survives".to_owned(),
        (ways, false) => format!("Bring back {ways}: more are missing than the level survives"),
    }
}

fn list(items: &[impl Display], none: &str) -> String {
    match items {
        [] => none.into(),
        _ => items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn devices(numbers: &[MemberIndex]) -> String {
    let names: Vec<String> = numbers.iter().map(|number| format!("device {}", number.0)).collect();
    list(&names, "none")
}

fn parts_text(parts: &[StartedApart]) -> String {
    parts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Which candidates are out of date, and why, if any are.
fn out_of_date(stale: &[Stale]) -> String {
    let lines = stale.iter().map(|it| format!("Device {} is given, but {}. ", it.device.0, it.reason));
    lines.collect()
}

fn version_place(candidate: Option<usize>) -> String {
    candidate.map_or("NVRAM".into(), |candidate| format!("candidate {candidate}"))
}
