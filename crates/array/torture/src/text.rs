//! Plans as text, so that a run that once failed stays what it was when seeds come to mean other plans.
//!
//! A file holds one plan or many, each with every setting of its array and load, and a line for each fault: requests made
//! before it, its kind, the seed of what it hits.
//! ```toml
//! schema = 1
//!
//! [[plan]]
//! seed = 33
//! ops = 720
//! mode = "bounded"
//! faults = [
//!     "120 power-cut 0x1b03738712fad5c9",
//!     "121 returned 0x5eed",
//! ]
//!
//! [plan.workload]
//! iodepth = 4
//! ...
//! ```
//! Fields come and go by their structs alone ([`TorturePlan`], [`super::Workload`], [`ArrayConfig`]), kinds of fault by
//! [`Fault::ALL`]. Whatever can be read can be run: settings that the world could not bear are refused here.

use super::arrays::{LevelNotTried, is_tried};
use super::faults::{Fault, FaultEvent};
use super::plan::TorturePlan;
use core::fmt;
use raidlab_controller::{ArrayConfig, ConfigError, Controller};
use raidlab_format::{ArrayUuid, Problem};
use raidlab_units::ByteCount;
use raidlab_workload::toml_file::{TomlFileError, nearest, parse_generated};
use serde::{Deserialize, Serialize};

/// The only version that there is.
const SCHEMA: u32 = 1;

/// Bytes of an array's devices and memories at most: they are all held at once.
const BYTES_MAX: u64 = 256 << 20;

/// Members and spares at most.
const DEVICES_MAX: u64 = 64;

/// A file of plans.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    schema: u32,
    plan: Vec<TorturePlan>,
}

/// Why a file of plans can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanFileError {
    /// It is no such file.
    #[error(transparent)]
    Text(#[from] TomlFileError),
    /// There is none in it.
    #[error("{file}: there is no plan in it: a plan begins with [[plan]]")]
    Empty {
        /// The file.
        file: String,
    },
    /// One of them can't be carried out.
    #[error("{file}: plan {number}: {error}")]
    Plan {
        /// The file.
        file: String,
        /// Which plan of the file, from 1.
        number: usize,
        /// Why not.
        error: PlanError,
    },
}

/// Why a plan can't be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The level is not tried.
    #[error(transparent)]
    Level(#[from] LevelNotTried),
    /// The array is none.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The devices could not say what they belong to.
    #[error(transparent)]
    Geometry(#[from] Problem),
    /// It would take too much memory.
    #[error("the array takes {bytes}, all in memory: {} are the most", ByteCount(BYTES_MAX))]
    TooLarge {
        /// What it takes.
        bytes: ByteCount,
    },
    /// It has too many devices.
    #[error("{devices} members and spares are too many: {DEVICES_MAX} are the most")]
    TooManyDevices {
        /// How many it has.
        devices: u64,
    },
    /// A number is not between its bounds.
    #[error("{what} is {value}: it is a number from {min} to {max}")]
    OutOfBounds {
        /// Which number.
        what: &'static str,
        /// What it is.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A fault comes before the one above it.
    #[error(
        "fault {place} is after {after_ops} requests, and the one before it after more: put them in order"
    )]
    Disorder {
        /// Its place in the list, from 0.
        place: usize,
        /// When it comes.
        after_ops: u64,
    },
}

/// The plans in `text`, the content of the file called `file`.
///
/// # Errors
/// [`PlanFileError`] if the text is no file of plans, or if one of them can't be carried out.
pub fn read_plans(file: &str, text: &str) -> Result<Vec<TorturePlan>, PlanFileError> {
    let PlanFile { plan: plans, .. } = parse_generated(file, text, SCHEMA)?;
    if plans.is_empty() {
        return Err(PlanFileError::Empty { file: file.into() });
    }
    for (index, plan) in plans.iter().enumerate() {
        let at = |error| PlanFileError::Plan { file: file.into(), number: index + 1, error };
        plan.check().map_err(at)?;
    }
    Ok(plans)
}

/// A file of `plans`.
#[expect(clippy::missing_panics_doc, reason = "plans are made of tables, numbers and text")]
pub fn write_plans(plans: &[TorturePlan]) -> String {
    let file = PlanFile { schema: SCHEMA, plan: plans.to_vec() };
    toml::to_string_pretty(&file).expect("plans are made of tables, numbers and text")
}

impl TorturePlan {
    /// Whether it can be carried out.
    ///
    /// # Errors
    /// [`PlanError`] if not.
    pub fn check(&self) -> Result<(), PlanError> {
        let load = &self.workload;
        let bounds = [
            ("workload.iodepth", u64::from(load.iodepth), 1, 1 << 20),
            ("workload.read-pct", u64::from(load.read_pct), 0, 100),
            ("workload.flush-permille", u64::from(load.flush_permille), 0, 1_000),
            ("workload.fua-pct", u64::from(load.fua_pct), 0, 100),
            ("workload.blocks-max", load.blocks_max.0, 1, 1 << 20),
            ("workload.batch-pct", u64::from(load.batch_pct), 0, 100),
            ("workload.whole-stripes-pct", u64::from(load.whole_stripes_pct), 0, 100),
        ];
        if let Some((what, value, min, max)) = bounds.into_iter().find(|it| !(it.2..=it.3).contains(&it.1)) {
            return Err(PlanError::OutOfBounds { what, value, min, max });
        }
        check_array(&self.config)?;
        let mut latest = 0;
        for (place, event) in self.faults.iter().enumerate() {
            let FaultEvent { after_ops, .. } = *event;
            if after_ops < core::mem::replace(&mut latest, after_ops) {
                return Err(PlanError::Disorder { place, after_ops });
            }
        }
        Ok(())
    }
}

fn check_array(config: &ArrayConfig) -> Result<(), PlanError> {
    if !is_tried(config.level) {
        return Err(LevelNotTried { level: config.level }.into());
    }
    let devices = u64::from(config.members) + u64::from(config.resilience.spares);
    if devices > DEVICES_MAX {
        return Err(PlanError::TooManyDevices { devices });
    }
    // Sizes first: the controller sets up tables for what it is asked for.
    let each = config.member_size.0.saturating_add(config.resilience.log_size.0);
    let memories = config.cache.size.0.saturating_add(config.staging_size.0);
    let bytes = each.saturating_mul(devices).saturating_add(memories);
    if bytes > BYTES_MAX {
        return Err(PlanError::TooLarge { bytes: ByteCount(bytes) });
    }
    Controller::new(config)?;
    config.geometry(ArrayUuid::default()).check()?;
    Ok(())
}

impl fmt::Display for FaultEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:#x}", self.after_ops, self.fault.name(), self.pick)
    }
}

/// Why a line is no fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultTextError {
    /// It is not made of three words.
    #[error(
        "'{text}' is no fault: write requests before it, kind and pick, such as \"120 power-cut 0x5eed\""
    )]
    Shape {
        /// The line.
        text: String,
    },
    /// There is no such kind.
    #[error("there is no fault '{kind}': the nearest known is '{nearest}'")]
    Kind {
        /// What stands for a kind.
        kind: String,
        /// The kind that is spelt most like it.
        nearest: &'static str,
    },
}

impl From<FaultEvent> for String {
    fn from(event: FaultEvent) -> Self {
        event.to_string()
    }
}

impl TryFrom<String> for FaultEvent {
    type Error = FaultTextError;

    fn try_from(text: String) -> Result<Self, FaultTextError> {
        let numbers = |after_ops: &str, pick: &str| {
            let pick = u64::from_str_radix(pick.strip_prefix("0x")?, 16).ok()?;
            Some((after_ops.parse().ok()?, pick))
        };
        let words: Vec<&str> = text.split(' ').collect();
        let [after_ops, kind, pick] = words[..] else { return Err(FaultTextError::Shape { text }) };
        let Some((after_ops, pick)) = numbers(after_ops, pick) else {
            return Err(FaultTextError::Shape { text });
        };
        let nearest = || nearest(kind, Fault::ALL.iter().map(|fault| fault.name())).unwrap_or_default();
        let unknown = || FaultTextError::Kind { kind: kind.into(), nearest: nearest() };
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == kind).ok_or_else(unknown)?;
        Ok(Self { after_ops, fault, pick })
    }
}

#[cfg(test)]
mod tests;
