//! Many equal arrays for a year: how many lose data, and the replacements and rebuilds of the others.
//!
//! The probability that any array loses data is `1 - (1 - p)^arrays`, where `p` is that of one by the Markov model. In
//! addition, years of the whole fleet are drawn without weights, to show what its owner sees.

use super::field::poisson_interval;
use super::monte_carlo::{Draw, draw_year};
use super::{Risk, RiskError};
use raidlab_workload::derived_seed;
use serde::{Deserialize, Serialize};

/// Chance that is left out on either side of the interval.
const TAIL: f64 = 0.005;

/// What a year does to a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct FleetRisk {
    /// Drives, spares included; those that make no whole array are left over.
    pub drives: u64,
    /// Arrays that they make.
    pub arrays: u64,
    /// Arrays that lose data in a year, a sector or more, on average, by the Markov model.
    pub losses_per_year: f64,
    /// Of them, those that are lost as a whole.
    pub arrays_lost_per_year: f64,
    /// Chance that at least one does.
    pub any_loss_per_year: f64,
    /// Years of the fleet that were drawn.
    pub years_drawn: u64,
    /// Arrays that lost data per drawn year, mean.
    pub drawn_losses_per_year: f64,
    /// How far its 99 % confidence interval reaches above it, and at most so far below: the exact one of a Poisson count.
    pub drawn_losses_half_width: f64,
    /// Members that failed per drawn year, mean.
    pub failures_per_year: f64,
    /// Rebuilds per drawn year, mean.
    pub rebuilds_per_year: f64,
    /// Arrays in which a failed member had to wait for a drive, per drawn year, mean.
    pub arrays_that_waited_per_year: f64,
}

/// The year of a fleet of `drives` that are all in arrays of `risk`, with `years` of it drawn from `seed`.
///
/// # Errors
/// [`RiskError::Figure`] if the drives do not make one array.
pub fn fleet_risk(risk: &Risk, drives: u64, years: u64, seed: u64) -> Result<FleetRisk, RiskError> {
    let arrays = drives / (u64::from(risk.spec.members) + u64::from(risk.spec.spares));
    if arrays == 0 {
        return Err(RiskError::Figure { what: "the fleet", expected: "holds at least one array" });
    }
    let markov = risk.markov();
    let chance = markov.per_year;
    let (mut losses, mut failures, mut rebuilds, mut waited) = (0_u64, 0_u64, 0_u64, 0_u64);
    for trial in 0..arrays * years {
        let year = draw_year(risk, Draw::Plain, derived_seed(seed, trial));
        losses += u64::from(year.loses_data);
        failures += u64::from(year.failures);
        rebuilds += u64::from(year.rebuilds);
        waited += u64::from(year.waited);
    }
    let per_year = |count: u64| count as f64 / years.max(1) as f64;
    Ok(FleetRisk {
        drives,
        arrays,
        losses_per_year: arrays as f64 * chance,
        arrays_lost_per_year: arrays as f64 * markov.array_lost_per_year,
        any_loss_per_year: -(arrays as f64 * (-chance).ln_1p()).exp_m1(),
        years_drawn: years,
        drawn_losses_per_year: per_year(losses),
        drawn_losses_half_width: (poisson_interval(losses, TAIL).1 - losses as f64) / years.max(1) as f64,
        failures_per_year: per_year(failures),
        rebuilds_per_year: per_year(rebuilds),
        arrays_that_waited_per_year: per_year(waited),
    })
}
