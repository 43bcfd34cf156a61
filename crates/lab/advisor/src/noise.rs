//! The noise of the machine: the difference between repeats of one run, which should be equal.
//!
//! For the repeats of each run (one workload on one target at one depth) the coefficient of variation is computed: the
//! standard deviation over the mean, s / m with s^2 = sum (x - m)^2 / (n - 1). Simulated runs have no noise, and are
//! left out.

use crate::significance::mean_and_error;
use raidlab_workload::{RunResult, World};

/// What repeats differ by.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// Runs that were repeated.
    pub cells: usize,
    /// Median of their coefficients of variation, a share.
    pub median: f64,
    /// The largest, a share.
    pub worst: f64,
    /// Whose that is: workload, target, depth.
    pub worst_run: String,
}

impl Noise {
    /// It in a sentence or two.
    pub fn sentence(&self) -> String {
        let Self { cells, median, worst, worst_run } = self;
        format!(
            "Noise of this machine: repeats of the same run differ by {:.1} % (standard deviation, median of {cells} runs), and by \
             {:.0} % at the worst ({worst_run}). What repeats do not tell apart is called too close to call.",
            100.0 * median,
            100.0 * worst
        )
    }
}

/// The noise of the real runs among `runs`; none where none was repeated.
pub fn noise(runs: &[RunResult]) -> Option<Noise> {
    let mut cells: Vec<(&RunResult, Vec<f64>)> = Vec::new();
    for run in runs.iter().filter(|run| run.world != World::Simulated) {
        let is_same = |other: &RunResult| {
            (&other.workload, &other.lines, &other.target, other.offered_load(), &other.array)
                == (&run.workload, &run.lines, &run.target, run.offered_load(), &run.array)
        };
        match cells.iter_mut().find(|(first, _)| is_same(first)) {
            Some((_, values)) => values.push(run.metric_value()),
            None => cells.push((run, vec![run.metric_value()])),
        }
    }
    let mut spreads: Vec<(f64, &RunResult)> =
        cells.iter().filter_map(|(run, values)| Some((variation(values)?, *run))).collect();
    spreads.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (worst, run) = *spreads.last()?;
    Some(Noise {
        cells: spreads.len(),
        median: spreads[(spreads.len() - 1) / 2].0,
        worst,
        worst_run: format!("{} on {} at {}", run.workload, run.target, run.offered_load()),
    })
}

/// The coefficient of variation; none for fewer than two values or a mean of zero.
fn variation(values: &[f64]) -> Option<f64> {
    let (mean, error) = mean_and_error(values)?;
    (mean > 0.0).then(|| (error * values.len() as f64).sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::Iops;
    use raidlab_workload::{AccessLine, Metric};

    #[test]
    fn repeats_of_real_runs_tell_the_noise() {
        let run = |world, iodepth, iops| {
            let mut run = RunResult::unmeasured(world, "RAID 5".into(), "database".into(), Metric::Iops);
            (run.iodepth, run.ops.total.iops) = (iodepth, Iops(iops));
            run
        };
        let real = |iodepth, iops| run(World::Array, iodepth, iops);
        let runs = vec![
            real(1, 90.0),
            real(8, 100.0),
            real(1, 110.0),
            real(8, 100.0),
            run(World::Simulated, 1, 5.0),
            // What is called the same, and asks for other requests.
            RunResult { lines: vec![AccessLine::plain(1 << 20, 0, 0)], ..real(1, 5000.0) },
        ];
        let found = noise(&runs).unwrap();
        assert_eq!((found.cells, found.median), (2, 0.0));
        assert!((found.worst - 200.0_f64.sqrt() / 100.0).abs() < 1e-12, "{found:?}");
        assert!(
            found.sentence().contains("14 % at the worst (database on RAID 5 at iodepth 1)"),
            "{}",
            found.sentence()
        );
        assert_eq!(noise(&runs[..1]), None, "a run alone tells none");
        assert_eq!(noise(&[run(World::Simulated, 1, 5.0), run(World::Simulated, 1, 9.0)]), None);
    }
}
