//! The full risk report of one array.

use super::endurance::{Endurance, WriteFactors};
use super::{DrawnChance, FleetRisk, LossChance, Risk, RiskError, RiskSpec};
use serde::{Deserialize, Serialize};

/// All that is known of the risk of one array.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct RiskRange {
    /// Every figure at its better end.
    pub low_spec: RiskSpec,
    /// The least of each chance: with these, with what is taken to be, and with the worse ones.
    pub low: LossChance,
    /// Every figure at its worse end.
    pub high_spec: RiskSpec,
    /// The greatest of each chance.
    pub high: LossChance,
}

impl RiskRange {
    /// The range of an array that is taken to be `spec`. A chance need not be greatest where every figure is worst: failures that
    /// come in clusters, as many as before, leave fewer rebuilds to lose sectors in.
    ///
    /// # Errors
    /// [`RiskError`]: one of them is no array.
    pub fn of(low_spec: RiskSpec, spec: &RiskSpec, high_spec: RiskSpec) -> Result<Self, RiskError> {
        let chance = |spec: &RiskSpec| Risk::new(spec).map(|risk| risk.markov());
        let (first, taken, last) = (chance(&low_spec)?, chance(spec)?, chance(&high_spec)?);
        let extreme = |pick| first.each(&taken, pick).each(&last, pick);
        Ok(Self { low: extreme(f64::min), low_spec, high: extreme(f64::max), high_spec })
    }
}

/// A rebuild at a rate that is kept for it, and what that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::ByteCount;

    /// Defect: the chance of any loss of data was lower at the worse end than at the better one.
    #[test]
    fn low_is_never_above_high() {
        let spec = |followed_share| RiskSpec {
            level: "5".parse().expect("a level"),
            members: 8,
            annual_failure_share: 0.014,
            bits_per_read_error: Some(1e15),
            latent_errors_per_year: 0.0,
            blocks_per_latent_error: 1.0,
            capacity: ByteCount(20_000_000_000_000),
            rebuild_hours: 24.0,
            spares: 0,
            replace_hours: 24.0,
            check_days: None,
            followed_share,
            follow_days: 9.5,
        };
        let chance = |spec: &RiskSpec| Risk::new(spec).expect("it is an array").markov();
        let (better, worse) = (chance(&spec(0.0)), chance(&spec(0.129)));
        assert!(worse.per_year < better.per_year, "or this shows nothing");
        let range = RiskRange::of(spec(0.0), &spec(0.0), spec(0.129)).expect("it is an array");
        assert_eq!((range.low.per_year, range.high.per_year), (worse.per_year, better.per_year));
        assert_eq!(range.high.array_lost_per_year, worse.array_lost_per_year);
        assert_eq!(range.low.array_lost_per_year, better.array_lost_per_year);
    }
}
