//! Whether drives last: what wears them out, a bound from above, and what a simulation found.
//!
//! ```text
//! years at best = rated writes to flash * members / (host writes a day * units / data strips / merging * 365.25)
//! ```
//! A member is sent its share of what the host writes, with the level's copies and parities, at least that of whole
//! stripes. A write cache that merges writes to one place is allowed for as in [`super::estimate`]. Flash has to take at
//! least what it is sent. What a run's drives really take is found by simulation, and told as [`Life`]. Before that a
//! guess orders what to simulate: nothing merged, and as much collecting as the rating allows for where writes are at random.

use super::estimate::{Demand, MERGING};
use super::{Geometry, Needs};
use crate::risk::{DAYS_PER_YEAR, SECS_PER_DAY};
use raidlab_raid::StripeShape;
use serde::{Deserialize, Serialize};

/// What wears a drive out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Wear {
    /// Writes do not.
    #[default]
    None,
    /// Writes do; how much may be written nobody says.
    Unknown,
    /// Writes do; so much may be written.
    Rated(Rating),
}

/// How much may be written to a drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rating {
    /// Bytes that a host may write at random places.
    pub host_bytes: f64,
    /// Bytes that the flash takes for each of them, collecting included.
    pub amplification: f64,
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

/// Years that drives last which are sent `to_member` bytes a day and collect nothing.
fn years(rated: Rating, to_member: f64) -> f64 {
    rated.host_bytes * rated.amplification / (to_member * DAYS_PER_YEAR)
}

/// What a member is sent in a day at least, where the host writes so much, and none of it is merged.
fn to_member(shape: StripeShape, geometry: Geometry, written_per_day: f64) -> f64 {
    let units = f64::from(shape.unit_count()) / f64::from(shape.data_strips);
    written_per_day * units / f64::from(geometry.members)
}

/// Years that drives last at best, where the host writes so much in a day.
pub(super) fn years_at_best(
    rated: Rating,
    shape: StripeShape,
    geometry: Geometry,
    written_per_day: f64,
) -> f64 {
    years(rated, to_member(shape, geometry, written_per_day) / MERGING)
}

/// Years that they are expected to last, where `random_share` of the writes are at random.
pub(super) fn years_expected(
    rated: Rating,
    shape: StripeShape,
    geometry: Geometry,
    (written_per_day, random_share): (f64, f64),
) -> f64 {
    let amplification = 1.0 + random_share * (rated.amplification - 1.0);
    years(rated, to_member(shape, geometry, written_per_day)) / amplification
}
