//! Which settings work on which parts, and which of them lose acknowledged writes with the power.
//!
//! | setting | acknowledged writes lost with the power |
//! |---|---|
//! | disk cache on, of drives that do not protect it | unflushed data in it |
//! | write-back, no battery | unflushed data in the controller's cache |
//! | all others | none |
//!
//! A drive that protects its cache or has none, and a controller without a cache, behave the same with either setting:
//! only the one that is off is tried.

use super::{ControllerPart, DrivePart, Geometry, PartList, Rejection, Settings};
use raidlab_units::ByteCount;
use serde::Serialize;

/// The parts that settings work on.
#[derive(Clone, Copy, Debug)]
pub struct Hardware<'a> {
    /// The drive.
    pub drive: &'a DrivePart,
    /// The controller.
    pub controller: &'a ControllerPart,
}

/// Acknowledged writes that a loss of power may take, at most; what the host flushed is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct AtRisk {
    /// In the controller's cache, in bytes.
    pub controller_bytes: u64,
    /// In the write caches of all members, in bytes.
    pub drives_bytes: u64,
}

impl AtRisk {
    /// Whether nothing is lost.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl<'a> Hardware<'a> {
    /// The parts of a geometry.
    pub fn of(parts: &'a PartList, geometry: Geometry) -> Self {
        Self {
            drive: &parts.drives[usize::from(geometry.drive)],
            controller: &parts.controllers[usize::from(geometry.controller)],
        }
    }

    /// What is at risk with `settings` on `members` of these drives.
    pub fn at_risk(&self, settings: Settings, members: u16) -> AtRisk {
        let of = |is_on: bool, size: ByteCount| if is_on { size.0 } else { 0 };
        let is_unkept = settings.write_back && !self.controller.is_battery_backed;
        AtRisk {
            controller_bytes: of(is_unkept, self.controller.cache),
            drives_bytes: of(settings.disk_cache, self.drive.volatile_cache) * u64::from(members),
        }
    }

    /// Why `settings` are not tried; none where they are.
    pub fn rejects(&self, settings: Settings, allows_volatile: bool) -> Option<Rejection> {
        let Self { drive, controller } = self;
        let does_nothing = (settings.write_back && controller.cache.0 == 0)
            || (settings.read_ahead && !controller.reads_ahead)
            || (settings.disk_cache && drive.volatile_cache.0 == 0);
        if does_nothing {
            return Some(Rejection::NoEffect);
        }
        let is_volatile = !self.at_risk(settings, 1).is_none();
        (is_volatile && !allows_volatile).then_some(Rejection::Volatile)
    }
}
