//! Rounds until the target is steady, as in SNIA's performance test.
//!
//! The same load is run again and again, each run a round, until the figure of the last five rounds neither varies nor
//! drifts too much ([`raidlab_workload::steady`] has the arithmetic), or until the maximum number of rounds. A device
//! that was idle or freshly erased serves its first rounds faster than it can sustain; only rounds of the steady window
//! show what it delivers.
//!
//! Source: SNIA Solid State Storage Performance Test Specification 2.0.2, its definitions of "round" and "steady
//! state", and its flow of preconditioning and test.

use raidlab_workload::{Metric, RunResult, SteadyState};
use serde::Serialize;

/// Rounds at most, as the specification has it.
pub const ROUNDS_MAX: u32 = 25;

/// What came of the rounds of one load.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SteadyRounds {
    /// Name of the workload.
    pub workload: String,
    /// What was run on.
    pub target: String,
    /// Requests in flight.
    pub iodepth: u32,
    /// What is tracked: the figure that the workload is judged by.
    pub metric: Metric,
    /// It in each round.
    pub values: Vec<f64>,
    /// The last five rounds; none where there were fewer.
    pub window: Option<SteadyState>,
}

impl SteadyRounds {
    /// Whether the last five rounds are steady.
    pub fn is_steady(&self) -> bool {
        self.window.as_ref().is_some_and(|window| window.is_steady)
    }
}

/// Runs rounds, numbered from 1, until the last five are steady, `rounds_max` at most; at least one.
///
/// # Errors
/// Those of `run`.
pub fn until_steady<E>(
    rounds_max: u32,
    mut run: impl FnMut(u32) -> Result<RunResult, E>,
) -> Result<SteadyRounds, E> {
    let first = run(1)?;
    let mut rounds = SteadyRounds {
        workload: first.workload.clone(),
        target: first.target.clone(),
        iodepth: first.iodepth,
        metric: first.metric,
        values: vec![first.metric_value()],
        window: None,
    };
    for round in 2..=rounds_max {
        rounds.values.push(run(round)?.metric_value());
        rounds.window = SteadyState::of(&rounds.values);
        if rounds.is_steady() {
            break;
        }
    }
    Ok(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::convert::Infallible;
    use raidlab_testkit::example_result;

    fn rounds(rounds_max: u32, figure: impl Fn(u32) -> f64) -> SteadyRounds {
        let run = |round| Ok::<_, Infallible>(example_result("database", figure(round)));
        let Ok(rounds) = until_steady(rounds_max, run);
        rounds
    }

    #[test]
    fn rounds_end_with_the_first_steady_window() {
        // A fresh device that slows down to 1000: 4000, 2500, 1750, 1375, 1188, 1094, 1047, ...
        let falling = rounds(ROUNDS_MAX, |round| 1000.0 + 6000.0 * 0.5_f64.powf(f64::from(round)));
        assert!(falling.is_steady() && falling.values.len() == 10, "{falling:?}");
        assert_eq!(rounds(ROUNDS_MAX, |_| 500.0).values.len(), 5);
    }

    #[test]
    fn what_never_settles_is_told() {
        let restless = rounds(8, |round| if round % 2 == 0 { 100.0 } else { 200.0 });
        assert!(!restless.is_steady() && restless.values.len() == 8);
        assert_eq!(rounds(3, |_| 500.0).window, None, "three rounds are no window");
    }
}
