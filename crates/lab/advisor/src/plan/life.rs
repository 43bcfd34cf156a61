//! Whether drives last: what wears them out, a bound from above, and what a simulation found.
//!
//! ```text
//! years at best = rated writes to flash * members / (host writes a day * units / data strips / merging * 365.25)
//! ```
//! A member is sent its share of what the host writes, with the level's copies and parities, at least that of whole
//! stripes. A write cache that merges writes to one place is allowed for as in [`super::estimate`]. Flash has to take at
//! least what it is sent. What a run's drives really take is found by simulation, and told as [`Life`].

use super::estimate::{Demand, MERGING};
use super::{Geometry, Needs};
use raidlab_raid::StripeShape;
use serde::{Deserialize, Serialize};

const SECS_PER_DAY: f64 = 86_400.0;
const DAYS_PER_YEAR: f64 = 365.25;

/// What wears a drive out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Wear {
    /// Writes do not.
    #[default]
    None,
    /// Writes do; how much may be written nobody says.
    Unknown,
    /// So many bytes that are written to its flash, collecting included.
    Rated(f64),
}

/// How long an array's drives last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Life {
    /// Nothing wears them out, or nothing is written.
    #[default]
    Endless,
    /// Writes wear them out; how soon nobody says.
    Unknown,
    /// Years until the rated writes are used up.
    Years(f64),
}

impl Life {
    /// Years, where they are counted.
    pub fn years(self) -> Option<f64> {
        match self {
            Self::Years(years) => Some(years),
            Self::Endless | Self::Unknown => None,
        }
    }

    /// Whether it is known to be as long as `years`.
    pub fn lasts(self, years: f64) -> bool {
        match self {
            Self::Endless => true,
            Self::Unknown => false,
            Self::Years(own) => own >= years,
        }
    }
}

impl Needs {
    /// Bytes that the host writes in a day at least: what is told, else at the rates that are needed, on average where that is told.
    pub(super) fn written_per_day_at_least(&self, demands: &[Demand], together: bool) -> f64 {
        let of_app = |(app, demand): (usize, &Demand)| {
            let rate = self.mean_iops_of(app).or_else(|| self.requests_per_sec(app, demand.bytes_mean));
            rate.unwrap_or(0.0) * demand.bytes_mean * (1.0 - demand.read_share) * SECS_PER_DAY
        };
        let each = demands.iter().enumerate().map(of_app);
        let by_rates = if together { each.sum() } else { each.fold(0.0, f64::max) };
        self.written_per_day.unwrap_or(by_rates)
    }
}

/// Years that drives of `rated` bytes to flash last at best, where the host writes so much in a day.
pub(super) fn years_at_best(rated: f64, shape: StripeShape, geometry: Geometry, written_per_day: f64) -> f64 {
    let units = f64::from(shape.unit_count()) / f64::from(shape.data_strips);
    let to_member = written_per_day * units / MERGING / f64::from(geometry.members);
    rated / (to_member * DAYS_PER_YEAR)
}
