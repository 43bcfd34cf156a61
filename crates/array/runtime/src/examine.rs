//! Examines devices: what each of them is, and which array they form.
//!
//! ```text
//! device ─► front, tail ─► the better copy of each part ─► its own state ─► where its log is ─► metadata area ─┐
//! NVRAM ──────────────────────────────────────────────────────────────────────────────────────────────────────┼─►
//! assemble
//! ```
//! Devices come in any order. A device shorter than its own state requires was truncated; it is not used, but its label
//! and states still count as evidence.
//!
//! Left out: whether they may be started, which [`crate::ArrayWorld::start`] and [`crate::examine`] decide in one place.

use crate::copies::{MetadataCopies, damage_words, is_damaged, mend};
use crate::device::{Device, Purpose, Watched, is_nbd_uri, watched, with_patience};
use crate::error::DeviceError;
use crate::nvram::Nvram;
use raidlab_format::{
    AreaLayout, ArrayState, AssembleError, Assembly, CopyFault, CopyPlace, DeviceState, Doubt, LABEL_BYTES,
    Label, Placement, StaleReason, StartOptions, assemble, stale_reason,
};
use raidlab_units::{ByteCount, NanoSpan};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A device, and its metadata area as far as it could be read.
#[derive(Debug)]
pub(crate) struct Candidate {
    path: PathBuf,
    /// None when it can't be opened.
    pub(crate) device: Option<Device>,
    area: Option<Vec<u8>>,
    /// Copies of label and states that are worse than what is in `area`.
    faults: Vec<CopyFault>,
    trouble: Option<String>,
    /// Someone else has it.
    is_in_use: bool,
    /// It may only be read.
    refuses_writes: Option<DeviceError>,
    /// It ends before the length that its own state asks for.
    truncated: Option<String>,
}

impl Candidate {
    pub(crate) fn read(path: &Path, purpose: Purpose, is_patient: bool) -> Self {
        let path = path.to_owned();
        let mut candidate = Self {
            path,
            device: None,
            area: None,
            faults: Vec::new(),
            trouble: None,
            is_in_use: false,
            refuses_writes: None,
            truncated: None,
        };
        let in_use = |error: &DeviceError| matches!(error, DeviceError::InUse { .. });
        let is_worth_waiting = |error: &DeviceError| is_patient && in_use(error);
        match with_patience(|| Device::open(&candidate.path, purpose), is_worth_waiting) {
            Ok(device) => {
                // Who opens it for use has been told.
                if purpose == Purpose::Look {
                    candidate.is_in_use = device.is_taken();
                    candidate.refuses_writes = device.write_refusal();
                }
                if let Err(error) = candidate.read_area(&device, purpose) {
                    candidate.trouble = Some(error.to_string());
                }
                candidate.device = Some(device);
            }
            Err(error) => {
                // Who was killed a moment ago had it by this way: others are not waited for.
                candidate.is_in_use = in_use(&error) || matches!(error, DeviceError::InUseElsewhere { .. });
                candidate.trouble = Some(error.to_string());
                candidate.refuses_writes = matches!(error, DeviceError::NotWritable { .. }).then_some(error);
            }
        }
        candidate
    }

    /// One that can't be used, because it does not answer.
    fn silent(path: &Path, error: &DeviceError) -> Self {
        Self {
            path: path.to_owned(),
            device: None,
            area: None,
            faults: Vec::new(),
            trouble: Some(error.to_string()),
            is_in_use: false,
            refuses_writes: None,
            truncated: None,
        }
    }

    /// The same as [`Candidate::read`], but a file or block device has `limit` for each call of the system.
    fn read_within(limit: NanoSpan, path: &Path, purpose: Purpose, is_patient: bool) -> Self {
        if is_nbd_uri(path) {
            return Self::read(path, purpose, is_patient);
        }
        let own = path.to_owned();
        watched(path, limit, move || Self::read(&own, purpose, is_patient))
            .unwrap_or_else(|error| Self::silent(path, &error))
    }

    fn read_area(&mut self, device: &Device, purpose: Purpose) -> Result<(), DeviceError> {
        let copies = match purpose {
            Purpose::Look => MetadataCopies::read_in_use(device),
            Purpose::Use => MetadataCopies::read(device),
        };
        let MetadataCopies { front: mut area, faults, trouble } = copies;
        (self.faults, self.trouble) = (faults, trouble);
        if let Some(state) = newest_state(&area) {
            match Placement::new(&state.geometry, device.bytes()) {
                Ok(placement) => {
                    let log_at = AreaLayout::FRONT_BYTES;
                    area.extend(device.read(log_at, placement.area.total_bytes - log_at)?);
                }
                Err(short) => {
                    self.truncated = Some(short.to_string());
                    // Too short for any array, so that it is not used, and long enough to be evidence.
                    area.truncate(AreaLayout::TAIL_BYTES as usize);
                }
            }
        }
        self.area = Some(area);
        Ok(())
    }
}

impl Candidate {
    /// Where it is.
    pub(crate) fn path_text(&self) -> String {
        self.path.display().to_string()
    }

    /// Writes the better copy of label and states over a worse one, on a device that the array is about to use. Returns what was
    /// damaged, in words, and whether it could be mended; nothing if none was.
    ///
    /// # Errors
    /// In it: [`DeviceError::Io`], what the device says to it.
    pub(crate) fn mend_copies(&self) -> Option<(String, Result<(), DeviceError>)> {
        let (device, area) = (self.device.as_ref()?, self.area.as_deref()?);
        if self.faults.is_empty() {
            return None;
        }
        let mended = mend(device, area, &self.faults);
        // One that is only older is what a crash leaves, and no news.
        let damage = damage_words(&self.faults);
        (!damage.is_empty() || mended.is_err()).then_some((damage, mended))
    }
}

/// Looks at all files and block devices at once, so that many that do not answer take no longer than one. Returns, for each path, why it
/// is not to be opened for use, if so.
fn silent_ones(paths: &[PathBuf], limit: NanoSpan) -> Vec<Option<DeviceError>> {
    let look = |path: &PathBuf| {
        let own = path.clone();
        // What else is wrong with it is found when it is opened for use.
        let work =
            move || drop(Device::open(&own, Purpose::Look).and_then(|it| it.read(0, LABEL_BYTES as u64)));
        (!is_nbd_uri(path)).then(|| Watched::start(path, limit, work))
    };
    let looks: Vec<_> = paths.iter().map(look).collect();
    let ended =
        |look: Option<Result<Watched<()>, DeviceError>>| look?.and_then(|look| look.wait(|| {})).err();
    looks.into_iter().map(ended).collect()
}

/// The newest state in a front, wherever it belongs.
fn newest_state(front: &[u8]) -> Option<ArrayState> {
    let slots = AreaLayout::new(ByteCount::ZERO).state;
    let states = slots.iter().filter_map(|slot| ArrayState::decode(slot.of(front)?).ok());
    states.max_by_key(|state| state.generation)
}

/// What a device is to the array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum DeviceVerdict {
    /// It is used.
    Present {
        /// Its number in the array.
        device: u16,
        /// `in sync`, `rebuilding` or `spare`.
        state: String,
        /// The member of the layout that it plays.
        role: Option<u16>,
    },
    /// It was of the array.
    Stale {
        /// Its number in the array.
        device: u16,
        /// The newest generation that it holds.
        generation: u64,
        /// Why it is not used.
        reason: String,
    },
    /// It belongs to another array.
    Foreign {
        /// Which.
        array_uuid: String,
    },
    /// There is nothing on it.
    Blank,
    /// Not enough of it can be read.
    Unusable {
        /// Why.
        reason: String,
    },
    /// The devices are no array that may be started, so it is not known; this is what its label says.
    Undecided {
        /// The array that it belongs to, if its label is whole.
        array_uuid: Option<String>,
        /// Its number there.
        device: Option<u16>,
        /// The newest generation that it holds.
        generation: Option<u64>,
    },
}

/// What was found on one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct DeviceReport {
    /// Where it is.
    pub path: PathBuf,
    /// What it is to the array.
    pub verdict: DeviceVerdict,
    /// Its head is damaged: label or states were taken from the copy at its end.
    pub mended: bool,
    /// The second copy of label or states, at its end, is damaged.
    pub copy_damaged: bool,
    /// Name on its label.
    pub name: Option<String>,
}

/// A device of the array that is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct AbsentDevice {
    /// Its number in the array.
    pub device: u16,
    /// What it should be: `in sync`, `rebuilding` or `spare`.
    pub state: String,
    /// The member of the layout that it plays.
    pub role: Option<u16>,
}

/// What an array was found to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ArrayFound {
    /// Its name.
    pub name: String,
    /// Its identity.
    pub array_uuid: String,
    /// RAID level, as raidlab prints it.
    pub level: String,
    /// Members of the layout.
    pub members: u16,
    /// Slots for spares.
    pub spare_slots: u16,
    /// Length of a strip.
    pub strip_bytes: u64,
    /// Length of a block.
    pub block_bytes: u64,
    /// Length of each data area.
    pub member_bytes: u64,
    /// What is kept on the devices against crashes.
    pub metadata: String,
    /// Whether blocks have tags.
    pub integrity: bool,
    /// Newest generation of the state.
    pub generation: u64,
    /// It was not stopped cleanly.
    pub dirty: bool,
    /// Devices of the array that are not there.
    pub absent: Vec<AbsentDevice>,
    /// Why redundancy may disagree, if it may.
    pub doubt: Option<String>,
    /// Intent records to be written again.
    pub records: usize,
    /// Regions to be resynced, of all.
    pub out_of_sync_regions: u32,
    /// What became of the NVRAM.
    pub nvram: String,
    /// Blocks of the cache that NVRAM holds.
    pub kept_blocks: usize,
}

/// What a set of devices is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ExamineReport {
    /// The array, if it may be started.
    pub array: Option<ArrayFound>,
    /// Why it may not, and what would help.
    pub refused: Option<String>,
    /// The devices, in the order in which they were named.
    pub devices: Vec<DeviceReport>,
}

/// What a set of devices is, with the devices.
#[derive(Debug)]
pub(crate) struct Examination {
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) outcome: Result<Assembly, AssembleError>,
}

impl Examination {
    pub(crate) fn of(
        paths: &[PathBuf],
        purpose: Purpose,
        kept: Option<&Nvram>,
        options: StartOptions,
        limit: NanoSpan,
    ) -> Self {
        let silent = silent_ones(paths, limit);
        let mut is_patient = true;
        let mut candidates = Vec::with_capacity(paths.len());
        for (path, silence) in paths.iter().zip(silent) {
            let candidate = match silence {
                Some(error) => Candidate::silent(path, &error),
                None => Candidate::read_within(limit, path, purpose, is_patient),
            };
            // Whoever has one for so long has the others, too.
            is_patient &= !candidate.is_in_use;
            candidates.push(candidate);
        }
        let areas: Vec<_> = candidates.iter().map(|candidate| candidate.area.as_deref()).collect();
        let outcome = assemble(&areas, kept.map(Nvram::image), options);
        Self { candidates, outcome }
    }

    /// A device that someone else has.
    pub(crate) fn in_use(&self) -> Option<&Path> {
        self.candidates.iter().find(|candidate| candidate.is_in_use).map(|candidate| candidate.path.as_path())
    }

    /// What the system says of a device that may only be read. Started without it, the array would go on as if it had failed.
    pub(crate) fn take_refusal_to_write(&mut self) -> Option<DeviceError> {
        self.candidates.iter_mut().find_map(|candidate| candidate.refuses_writes.take())
    }

    /// The report for people.
    pub(crate) fn report(&self) -> ExamineReport {
        let devices = self.candidates.iter().enumerate();
        let devices = devices.map(|(index, candidate)| DeviceReport {
            path: candidate.path.clone(),
            verdict: self.verdict(index, candidate),
            mended: is_damaged(&candidate.faults, CopyPlace::Head),
            copy_damaged: is_damaged(&candidate.faults, CopyPlace::Tail),
            name: label_of(candidate).map(|label| label.name.to_string()),
        });
        ExamineReport {
            array: self.outcome.as_ref().ok().map(array_found),
            refused: self.outcome.as_ref().err().map(ToString::to_string),
            devices: devices.collect(),
        }
    }

    fn verdict(&self, index: usize, candidate: &Candidate) -> DeviceVerdict {
        if let Some(reason) = candidate.trouble.clone().filter(|_| candidate.area.is_none()) {
            return DeviceVerdict::Unusable { reason };
        }
        let Ok(assembly) = &self.outcome else {
            let label = label_of(candidate);
            if let Some(stale) = label.as_ref().and_then(|label| self.stale_beside(candidate, label)) {
                return stale;
            }
            return DeviceVerdict::Undecided {
                array_uuid: label.map(|label| label.array_uuid.to_string()),
                device: label.map(|label| label.device.0),
                generation: candidate.area.as_deref().and_then(newest_state).map(|state| state.generation),
            };
        };
        if let Some(device) = assembly.present.iter().position(|present| *present == Some(index)) {
            let line = &assembly.state.devices[device];
            return DeviceVerdict::Present {
                device: device as u16,
                state: line.state.name().to_owned(),
                role: line.role,
            };
        }
        if let Some(stale) = assembly.stale.iter().find(|stale| stale.candidate == index) {
            return DeviceVerdict::Stale {
                device: stale.device.0,
                generation: stale.generation,
                reason: stale.reason.to_string(),
            };
        }
        if let Some(foreign) = assembly.foreign.iter().find(|foreign| foreign.candidate == index) {
            return DeviceVerdict::Foreign { array_uuid: foreign.array_uuid.to_string() };
        }
        let unusable = assembly.unusable.iter().find(|unusable| unusable.candidate == index);
        match (&candidate.truncated, unusable) {
            (Some(short), Some(_)) => {
                DeviceVerdict::Unusable { reason: format!("it was truncated: {short}") }
            }
            (None, Some(unusable)) => DeviceVerdict::Unusable { reason: unusable.reason.to_string() },
            (_, None) => DeviceVerdict::Blank,
        }
    }
}

impl Examination {
    /// That a device is out of date, by what the others of its array say, though they are too few to start it.
    fn stale_beside(&self, candidate: &Candidate, label: &Label) -> Option<DeviceVerdict> {
        let state_of = |candidate: &Candidate| candidate.area.as_deref().and_then(newest_state);
        let is_of_array =
            |other: &&Candidate| label_of(other).is_some_and(|other| other.array_uuid == label.array_uuid);
        let own = state_of(candidate)?;
        let others = self.candidates.iter().filter(is_of_array).filter_map(state_of);
        let newest = others.max_by_key(|state| state.generation)?;
        let reason = stale_reason(label, &own, &newest);
        // Of two parts that do not know of each other neither is the stale one.
        let reason = reason.filter(|reason| !matches!(reason, StaleReason::Diverged { .. }))?;
        let (device, generation) = (label.device.0, own.generation);
        Some(DeviceVerdict::Stale { device, generation, reason: reason.to_string() })
    }
}

/// What array the device at `path` is a member of, in words.
pub(crate) fn array_on(path: &Path) -> Option<String> {
    let candidate = Candidate::read(path, Purpose::Look, false);
    let name = label_of(&candidate)?.name;
    let level = candidate.area.as_deref().and_then(newest_state).map(|state| state.geometry.level);
    let level = level.map_or_else(String::new, |level| format!(" (RAID {level})"));
    Some(format!("a member of the array '{name}'{level}"))
}

fn label_of(candidate: &Candidate) -> Option<Label> {
    candidate.area.as_deref().and_then(|area| Label::decode(area).ok())
}

fn array_found(assembly: &Assembly) -> ArrayFound {
    let state = &assembly.state;
    let geometry = &state.geometry;
    let absent = state.devices.iter().zip(&assembly.present).enumerate();
    let absent =
        absent.filter(|(_, (line, present))| present.is_none() && line.state != DeviceState::Missing);
    ArrayFound {
        name: assembly.name.to_string(),
        array_uuid: geometry.array_uuid.to_string(),
        level: geometry.level.to_string(),
        members: geometry.members,
        spare_slots: geometry.spares,
        strip_bytes: geometry.strip_bytes.get(),
        block_bytes: geometry.block_size.bytes(),
        member_bytes: geometry.member_bytes.get(),
        metadata: geometry.metadata.to_string(),
        integrity: geometry.integrity,
        generation: state.generation,
        // A bitmap says by its marks that the array was being written, and the state does not.
        dirty: state.dirty || matches!(assembly.doubt, Some(Doubt::Regions { .. })),
        absent: absent
            .map(|(device, (line, _))| AbsentDevice {
                device: device as u16,
                state: line.state.name().to_owned(),
                role: line.role,
            })
            .collect(),
        doubt: assembly.doubt.as_ref().map(ToString::to_string),
        records: assembly.records.len(),
        out_of_sync_regions: assembly.out_of_sync.marked_count(),
        nvram: assembly.kept.to_string(),
        kept_blocks: assembly.nvram_entries.len(),
    }
}
