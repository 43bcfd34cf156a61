//! The full risk report of one array.

use super::endurance::{Endurance, WriteFactors};
use super::{DrawnChance, FleetRisk, LossChance, RiskSpec};
use serde::{Deserialize, Serialize};

/// All that is known of the risk of one array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RiskReport {
    /// The array and what may happen to it.
    pub spec: RiskSpec,
    /// Where the figures of `spec` come from: their names, and a source each.
    pub sources: Vec<(String, String)>,
    /// The chances by the Markov model.
    pub markov: LossChance,
    /// The same where every figure is at the better, and at the worse end of its range.
    pub range: RiskRange,
    /// The same as `markov`, drawn.
    pub drawn: DrawnChance,
    /// Mean time to data loss in years by the formula of 1988, where it holds.
    pub patterson_years: Option<f64>,
    /// How the rebuild is paced, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<RebuildPace>,
    /// How long the drives may be written so, where that is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endurance: Option<EnduranceReport>,
    /// The year of a fleet, where one is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetRisk>,
}

/// An array at the two ends of what its figures may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RiskRange {
    /// Every figure at its better end.
    pub low_spec: RiskSpec,
    /// The chances then.
    pub low: LossChance,
    /// Every figure at its worse end.
    pub high_spec: RiskSpec,
    /// The chances then.
    pub high: LossChance,
}

/// A rebuild at a rate that is kept for it, and what that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RebuildPace {
    /// Rate at which the drive is written, in bytes per second, on average from end to end.
    pub bytes_per_sec: f64,
    /// Time that it takes, in hours.
    pub hours: f64,
    /// Share of each member's time that it takes; the rest is for service.
    pub member_share: f64,
}

impl RebuildPace {
    /// A rebuild that has `share` of each member's time, above 0 and at most 1, of drives of `bytes` that are written at
    /// `full_bytes_per_sec` with nothing else to do.
    pub fn of_share(share: f64, bytes: f64, full_bytes_per_sec: f64) -> Self {
        let bytes_per_sec = share * full_bytes_per_sec;
        Self { bytes_per_sec, hours: bytes / bytes_per_sec / 3600.0, member_share: share }
    }
}

/// How long the drives may be written so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnduranceReport {
    /// Bytes that the host writes in a day.
    pub host_bytes_per_day: f64,
    /// What members write for each byte of the host.
    pub factors: WriteFactors,
    /// Life of a member with small requests at random places.
    pub small: Endurance,
    /// Life of a member with whole stripes.
    pub whole_stripes: Endurance,
    /// Years of `small`.
    pub small_years: f64,
    /// Years of `whole_stripes`.
    pub whole_stripes_years: f64,
}
