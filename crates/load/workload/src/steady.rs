//! Steady state by SNIA's definition: over five rounds the figure neither varies nor drifts too much.
//!
//! ```text
//! y │    ·       ───── the least-squares line rises or falls by at most 10 % of the average over the window,
//!   │ ────·──·──       and the largest and the smallest value are at most 20 % of the average apart
//!   │ ·         ·
//!   └─┬──┬──┬──┬──┬── round
//! ```
//! Within a single run, [`within`] uses fifths of the window as rounds, so that a drifting run is also detected.
//!
//! Left out: SNIA's rule that a device has to be steady for all block sizes of a test at once.
//! Source: SNIA Solid State Storage Performance Test Specification 2.0.2, its definitions of "round", "measurement
//! window" and
//! "steady state".

use crate::result::Metric;
use crate::series::RunSeries;
use serde::{Deserialize, Serialize};

/// Rounds of the window.
pub const STEADY_ROUNDS: usize = 5;
/// How far apart the largest and the smallest value may be, in percent of the average.
pub const RANGE_PCT_MAX: f64 = 20.0;
/// How far the line may rise or fall over the window, in percent of the average.
pub const SLOPE_PCT_MAX: f64 = 10.0;
/// Requests that a fifth of a run must hold for its rate to tell of the target rather than of chance.
const REQUESTS_MIN: u64 = 400;

/// The arithmetic of one window of rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct SteadyState {
    /// The figure in each round of the window.
    pub values: Vec<f64>,
    /// Their average.
    pub average: f64,
    /// The largest less the smallest, in percent of the average.
    pub range_pct: f64,
    /// What the line of least squares rises (or falls, below zero) per round.
    pub slope_per_round: f64,
    /// What it rises or falls from the first round to the last, without its sign, in percent of the average.
    pub slope_pct: f64,
    /// Whether both are within bounds.
    pub is_steady: bool,
}

impl SteadyState {
    /// Judges the last [`STEADY_ROUNDS`] of `values`; none where there are fewer.
    pub fn of(values: &[f64]) -> Option<Self> {
        let values = values.last_chunk::<STEADY_ROUNDS>()?;
        let count = STEADY_ROUNDS as f64;
        let average = values.iter().sum::<f64>() / count;
        let (low, high) =
            values.iter().fold((f64::MAX, f64::MIN), |(low, high), y| (low.min(*y), high.max(*y)));
        // Rounds are -2 to 2 about the middle one, so that the line's slope is Σxy / Σx².
        let middle = (count - 1.0) / 2.0;
        let rounds = || (0..STEADY_ROUNDS).map(|round| round as f64 - middle);
        let slope =
            rounds().zip(values).map(|(x, y)| x * y).sum::<f64>() / rounds().map(|x| x * x).sum::<f64>();
        let pct = |part: f64| if average > 0.0 { part / average * 100.0 } else { f64::MAX };
        let (range_pct, slope_pct) = (pct(high - low), pct((slope * (count - 1.0)).abs()));
        Some(Self {
            values: values.to_vec(),
            average,
            range_pct,
            slope_per_round: slope,
            slope_pct,
            is_steady: range_pct <= RANGE_PCT_MAX && slope_pct <= SLOPE_PCT_MAX,
        })
    }

    /// The arithmetic in a sentence; `unit` stands behind the average.
    pub fn arithmetic(&self, unit: &str) -> String {
        let values: Vec<String> = self.values.iter().map(|value| format!("{value:.1}")).collect();
        format!(
            "rounds {}; average {:.1} {unit}; range {:.1} % of it (bound {RANGE_PCT_MAX} %); line {:+.2} per round, \
             {:.1} % over the window (bound {SLOPE_PCT_MAX} %): {}",
            values.join(", "),
            self.average,
            self.range_pct,
            self.slope_per_round,
            self.slope_pct,
            if self.is_steady { "steady" } else { "not steady" }
        )
    }
}

/// Judges a run by the fifths of its window. None where the window has fewer than five intervals, or a fifth holds
/// so few requests that chance alone would spread them.
pub fn within(series: &RunSeries, metric: Metric) -> Option<SteadyState> {
    let total = &series.total;
    // A last interval that was cut short tells little.
    let whole = total.len() - usize::from(series.last_ns < series.interval_ns && !total.is_empty());
    let per_part = whole / STEADY_ROUNDS;
    if per_part == 0 {
        return None;
    }
    // What does not fill a fifth is left out at the front, where a run is least settled.
    let from = whole - per_part * STEADY_ROUNDS;
    let sums = |counts: &[u64]| -> Vec<u64> {
        counts[from..whole].chunks(per_part).map(|part| part.iter().sum()).collect()
    };
    if sums(&total.requests).iter().sum::<u64>() < REQUESTS_MIN * STEADY_ROUNDS as u64 {
        return None;
    }
    let secs = per_part as f64 * series.interval_ns as f64 / 1e9;
    let values = match metric {
        Metric::Iops => sums(&total.requests).iter().map(|count| *count as f64 / secs).collect::<Vec<_>>(),
        Metric::MbPerS => sums(&total.bytes).iter().map(|bytes| *bytes as f64 / 1e6 / secs).collect(),
    };
    SteadyState::of(&values)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::series::SeriesColumns;

    #[test]
    fn the_verdict_is_that_of_the_specification() {
        let rows: [(&[f64], f64, f64, bool); 6] = [
            (&[100.0, 100.0, 100.0, 100.0, 100.0], 0.0, 0.0, true),
            // 10 % up and down: the range is at its bound, the line is flat.
            (&[90.0, 110.0, 100.0, 110.0, 90.0], 20.0, 0.0, true),
            (&[89.0, 111.0, 100.0, 111.0, 89.0], 22.0, 0.0, false),
            // 2.5 more each round: 10 % over the window.
            (&[95.0, 97.5, 100.0, 102.5, 105.0], 10.0, 10.0, true),
            (&[94.0, 97.0, 100.0, 103.0, 106.0], 12.0, 12.0, false),
            (&[500.0, 106.0, 103.0, 100.0, 97.0, 94.0], 12.0, 12.0, false),
        ];
        for (values, range, slope, steady) in rows {
            let found = SteadyState::of(values).unwrap();
            assert!((found.range_pct - range).abs() < 1e-9, "{values:?}: {found:?}");
            assert!((found.slope_pct - slope).abs() < 1e-9, "{values:?}: {found:?}");
            assert_eq!(found.is_steady, steady, "{values:?}");
        }
        assert_eq!(SteadyState::of(&[1.0; 4]), None);
        assert!(!SteadyState::of(&[0.0; 5]).unwrap().is_steady, "nothing at all is no steady state");
    }

    fn series(requests: &[u64], last_ns: u64) -> RunSeries {
        let total =
            SeriesColumns { requests: requests.into(), bytes: requests.into(), ..SeriesColumns::default() };
        RunSeries { interval_ns: 1_000_000_000, last_ns, total, ..RunSeries::default() }
    }

    #[test]
    fn a_run_is_judged_by_its_fifths() {
        let whole = 1_000_000_000;
        // The first second fills no fifth, the last was cut short.
        let found =
            within(&series(&[9999, 600, 400, 500, 500, 400, 600, 500, 500, 450, 550, 7], 9), Metric::Iops);
        assert_eq!(found.map(|it| (it.values, it.is_steady)), Some((vec![500.0; 5], true)));
        let falling = within(&series(&[900, 800, 700, 600, 500], whole), Metric::Iops).unwrap();
        assert!(!falling.is_steady && falling.slope_per_round == -100.0, "{falling:?}");
        assert_eq!(within(&series(&[900, 800, 700, 600], whole), Metric::Iops), None, "too short");
        assert_eq!(within(&series(&[9, 8, 7, 6, 5], whole), Metric::Iops), None, "too few requests");
        assert_eq!(within(&RunSeries::default(), Metric::Iops), None);
    }

    #[test]
    fn the_arithmetic_is_told() {
        let text = SteadyState::of(&[94.0, 97.0, 100.0, 103.0, 106.0]).unwrap().arithmetic("IOPS");
        for part in
            ["94.0, 97.0", "average 100.0 IOPS", "range 12.0 %", "+3.00 per round, 12.0 %", "not steady"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
