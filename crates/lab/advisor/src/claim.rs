//! Published claims of the kind "A is so many times as fast as B", compared with predictions.
//!
//! A ratio is judged twice: by its error in percent, like every figure, and by its direction, whether A is on the
//! published side of B. A claim that only orders A and B has no error: its ratio is the bound that A over B must reach,
//! with 1 % tolerance for equal measurements.
//!
//! ```text
//! |error| <= 10 %           Within
//! right side of 1 or bound  Direction
//! else                      Missed
//! ```

use crate::comparison::{Comparison, ComparisonRow, ComparisonSummary};
use serde::{Deserialize, Serialize};

/// A prediction this close to the published ratio, in percent, holds.
pub const CLAIM_TOLERANCE_PCT: f64 = 10.0;

/// Share by which A may fall short of the bound of an order: what two measurements of the same thing differ by.
const ORDER_NOISE: f64 = 0.01;

raidlab_units::named! {
    /// How a publication means its ratio.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ClaimKind {
        /// A over B is about this.
        About = "about",
        /// The highest of several ratios is this.
        UpTo = "up-to",
        /// A over B is no less than this.
        Order = "order",
    }
}

/// What is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimMeasure {
    /// A ratio, which lies above or below 1.
    Ratio,
    /// A figure in its own unit, which has no direction.
    Figure,
}

raidlab_units::named! {
    /// Whether a claim holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum ClaimVerdict {
        /// The error is within [`CLAIM_TOLERANCE_PCT`].
        Within = "within 10 %",
        /// It is not, but the direction is right.
        Direction = "direction",
        /// Neither.
        Missed = "missed",
    }
}

/// A claim, as published and as predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClaimRow {
    /// Which claim it is.
    pub id: String,
    /// How its ratio is meant.
    pub kind: ClaimKind,
    /// What it is about.
    pub measure: ClaimMeasure,
    /// The published ratio or figure, above zero.
    pub published: f64,
    /// The prediction.
    pub predicted: f64,
    /// How far it is off, in percent of the published one; `None` where that is a bound.
    pub error_pct: Option<f64>,
    /// Whether the claim holds.
    pub verdict: ClaimVerdict,
}

impl ClaimRow {
    /// Judges `predicted`.
    ///
    /// Returns `None` when there is no relative error: the published number is not above zero, or either is not finite.
    pub fn of(
        id: String,
        kind: ClaimKind,
        measure: ClaimMeasure,
        published: f64,
        predicted: f64,
    ) -> Option<Self> {
        let error_pct = ComparisonRow::of(id.clone(), String::new(), published, predicted)?.error_pct;
        let is_near = error_pct.abs() <= CLAIM_TOLERANCE_PCT;
        let agrees = match (kind, measure) {
            (ClaimKind::Order, _) => predicted >= published * (1.0 - ORDER_NOISE),
            (_, ClaimMeasure::Figure) => false,
            (_, ClaimMeasure::Ratio) => (predicted - 1.0) * (published - 1.0) > 0.0,
        };
        let verdict = match (kind, is_near, agrees) {
            (ClaimKind::About | ClaimKind::UpTo, true, _) => ClaimVerdict::Within,
            (_, _, true) => ClaimVerdict::Direction,
            (_, _, false) => ClaimVerdict::Missed,
        };
        let error_pct = (kind != ClaimKind::Order).then_some(error_pct);
        Some(Self { id, kind, measure, published, predicted, error_pct, verdict })
    }
}

/// How many claims hold, and how far off the ratios are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ClaimSummary {
    /// Claims in all.
    pub claims: u64,
    /// Of them, those within the tolerance.
    pub within: u64,
    /// Of the others, those in the right direction.
    pub direction: u64,
    /// The rest.
    pub missed: u64,
    /// The errors of those that have one.
    #[serde(flatten)]
    pub errors: ComparisonSummary,
}

impl ClaimSummary {
    /// Sums `rows` up.
    pub fn of(rows: &[&ClaimRow]) -> Self {
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count() as u64;
        let with_error = rows.iter().filter(|row| row.error_pct.is_some());
        let errors = with_error
            .filter_map(|row| ComparisonRow::of(row.id.clone(), String::new(), row.published, row.predicted));
        Self {
            claims: rows.len() as u64,
            within: count(ClaimVerdict::Within),
            direction: count(ClaimVerdict::Direction),
            missed: count(ClaimVerdict::Missed),
            errors: Comparison::of(errors.collect()).summary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: ClaimKind, measure: ClaimMeasure, published: f64, predicted: f64) -> ClaimRow {
        ClaimRow::of("id".into(), kind, measure, published, predicted).unwrap()
    }

    #[test]
    fn a_claim_is_judged_by_its_error_and_by_its_direction() {
        use ClaimKind::{About, Order, UpTo};
        use ClaimMeasure::{Figure, Ratio};
        use ClaimVerdict::{Direction, Missed, Within};
        let rows = [
            (About, Ratio, 1.2, 1.319, Within),
            (About, Ratio, 1.2, 1.33, Direction),
            (About, Ratio, 1.2, 0.99, Missed),
            (About, Ratio, 0.92, 0.7, Direction),
            (About, Ratio, 0.92, 1.02, Missed),
            // Close enough on the wrong side of 1 is close enough.
            (About, Ratio, 0.92, 1.01, Within),
            (About, Ratio, 1.0, 1.09, Within),
            (About, Ratio, 1.0, 1.2, Missed),
            (UpTo, Ratio, 11.0, 5.0, Direction),
            (About, Figure, 250.0, 230.0, Within),
            (About, Figure, 250.0, 300.0, Missed),
            (Order, Ratio, 1.0, 1.01, Direction),
            (Order, Ratio, 1.0, 0.995, Direction),
            (Order, Ratio, 1.0, 0.98, Missed),
        ];
        for (kind, measure, published, predicted, verdict) in rows {
            let row = row(kind, measure, published, predicted);
            assert_eq!(row.verdict, verdict, "{kind:?} {measure:?} {published}, predicted {predicted}");
            assert_eq!(row.error_pct.is_none(), kind == Order);
        }
    }

    #[test]
    fn the_summary_counts_every_claim_and_the_errors_of_those_that_have_one() {
        let (about, ratio) = (ClaimKind::About, ClaimMeasure::Ratio);
        let rows = [
            row(about, ratio, 2.0, 2.1),
            row(about, ratio, 2.0, 3.0),
            row(about, ratio, 2.0, 0.5),
            row(ClaimKind::Order, ratio, 1.0, 7.0),
        ];
        let summary = ClaimSummary::of(&rows.iter().collect::<Vec<_>>());
        assert_eq!((summary.claims, summary.within, summary.direction, summary.missed), (4, 1, 2, 1));
        assert_eq!(summary.errors.rows, 3);
        assert_eq!(summary.errors.median_abs_error_pct, Some(50.0));
    }
}
