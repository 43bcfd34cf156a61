//! Runs side by side: the same figures of several groups of runs, the difference of each group from the first, and the
//! spread of repeated runs in a group.
//!
//! ```text
//! group A: runs 1 2 3     cell (workload, load[, configuration]) ─► figure ─► Spread of A, Spread of B, difference
//! group B: runs 4 5 6
//! ```
//! Runs of a group with equal workload, load and configuration are repeats of one cell: rounds, or other seeds. The
//! configuration is part of the cell only if a group has several; otherwise it is what is compared. If every group has
//! one cell, these are compared even if their loads differ.
//!
//! A difference is significant if the 95 % confidence intervals of the means do not touch; without repeats nothing is
//! said. The tests of [`crate::significance`] stand beside it, and see differences that this rule of thumb misses. Left
//! out: a correction for many figures at once.

use crate::significance::{MannWhitney, Welch, mann_whitney, welch};
use raidlab_workload::{RunResult, Spread};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Some runs under one name.
#[derive(Clone, Debug)]
pub struct RunGroup<'a> {
    /// What the group is called: `tag:before`.
    pub name: String,
    /// Its runs.
    pub runs: Vec<&'a RunResult>,
}

/// Groups side by side.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Contrast {
    /// Names of the groups; the others are compared with the first.
    pub groups: Vec<String>,
    /// What each group is, where all its runs are of one configuration.
    pub configurations: Vec<Option<String>>,
    /// Workload, and iodepth or rate, of each group, where all its runs have the same.
    pub loads: Vec<Option<String>>,
    /// Each cell that any group has.
    pub cells: Vec<ContrastCell>,
}

/// One kind of run in all groups.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ContrastCell {
    /// What the runs are: workload and iodepth, and the configuration where groups have several.
    pub name: String,
    /// Its figures.
    pub figures: Vec<ContrastFigure>,
}

/// One figure in all groups.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ContrastFigure {
    /// What it is, with its unit: `iops`, `lat_ms_p99`.
    pub name: &'static str,
    /// Whether more is better.
    pub higher_is_better: bool,
    /// The figure in each group; none where the group has no such run.
    pub groups: Vec<Option<ContrastValue>>,
}

/// A figure of a group.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ContrastValue {
    /// Mean and spread over the repeats.
    pub spread: Spread,
    /// How far the mean is from the first group's, in percent of that; none for the first group and where that has none.
    pub difference_pct: Option<f64>,
    /// Whether the confidence intervals of both means are apart; none where one of the two has no repeats.
    pub is_apart: Option<bool>,
    /// Whether the means differ, this group's less the first one's; none where one of the two has no repeats.
    pub welch: Option<Welch>,
    /// Whether the ranks differ; none for the first group and where one of the two has no repeats.
    pub mann_whitney: Option<MannWhitney>,
}

type Figure = (&'static str, bool, fn(&RunResult) -> Option<f64>);

/// The figures that are compared: name, whether more is better, and where it stands.
const FIGURES: [Figure; 8] = [
    ("iops", true, |run| known(run, run.ops.total.iops.0)),
    ("mb_per_s", true, |run| known(run, run.ops.total.bytes_per_sec.mb_per_s())),
    ("lat_ms_mean", false, |run| (run.ops.total.lat_ns_mean > 0.0).then(|| run.ops.total.lat_ns_mean / 1e6)),
    ("lat_ms_p50", false, |run| ms(run.ops.total.lat_ns_p50)),
    ("lat_ms_p99", false, |run| ms(run.ops.total.lat_ns_p99)),
    ("lat_ms_p99.9", false, |run| ms(run.ops.total.lat_ns_p999)),
    ("lat_ms_max", false, |run| ms(run.ops.total.lat_ns_max)),
    ("cpu_us_per_io", false, |run| run.cost.cpu_ns_per_io.map(|ns| ns / 1e3)),
];

/// Nothing where another program measured it and did not say.
fn known(run: &RunResult, figure: f64) -> Option<f64> {
    (figure > 0.0 || !run.is_foreign()).then_some(figure)
}

fn ms(ns: u64) -> Option<f64> {
    (ns > 0).then(|| ns as f64 / 1e6)
}

impl Contrast {
    /// Puts `groups` side by side.
    pub fn of(groups: &[RunGroup<'_>]) -> Self {
        let naming = Naming::of(groups);
        let mut names: Vec<String> = Vec::new();
        let mut cells: Vec<BTreeMap<String, Vec<&RunResult>>> = Vec::new();
        for group in groups {
            let mut mine: BTreeMap<String, Vec<&RunResult>> = BTreeMap::new();
            for run in &group.runs {
                let name = naming.name(run);
                if !names.contains(&name) {
                    names.push(name.clone());
                }
                mine.entry(name).or_default().push(run);
            }
            cells.push(mine);
        }
        let cell = |name: &String| {
            let runs: Vec<&[&RunResult]> =
                cells.iter().map(|mine| mine.get(name).map_or(&[][..], Vec::as_slice)).collect();
            ContrastCell { name: name.clone(), figures: figures(&runs) }
        };
        Self {
            groups: groups.iter().map(|group| group.name.clone()).collect(),
            configurations: groups.iter().map(RunGroup::only_configuration).collect(),
            loads: groups.iter().map(RunGroup::only_load).collect(),
            cells: names.iter().map(cell).collect(),
        }
    }
}

impl RunGroup<'_> {
    fn only_load(&self) -> Option<String> {
        let mut all: BTreeSet<String> = self.runs.iter().map(|run| Naming::Load.name(run)).collect();
        if all.len() == 1 { all.pop_first() } else { None }
    }

    fn configurations(&self) -> BTreeSet<String> {
        self.runs.iter().map(|run| run.configuration_label()).collect()
    }

    fn only_configuration(&self) -> Option<String> {
        let mut all = self.configurations();
        if all.len() == 1 { all.pop_first() } else { None }
    }
}

/// What cells are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Naming {
    /// Every group has one cell: nothing is told apart.
    Any,
    /// Workload and iodepth.
    Load,
    /// These and the configuration.
    LoadAndConfiguration,
}

impl Naming {
    fn of(groups: &[RunGroup<'_>]) -> Self {
        let loads = |group: &RunGroup<'_>| {
            let all: BTreeSet<String> = group.runs.iter().map(|run| Self::Load.name(run)).collect();
            all.len()
        };
        match groups.iter().map(|group| group.configurations().len()).max() {
            Some(2..) => Self::LoadAndConfiguration,
            _ if groups.iter().all(|group| loads(group) <= 1) => Self::Any,
            _ => Self::Load,
        }
    }

    fn name(self, run: &RunResult) -> String {
        let load = format!("{} at {}", run.workload, run.offered_load());
        match self {
            Self::Any => "all runs".to_owned(),
            Self::Load => load,
            Self::LoadAndConfiguration => format!("{load}, {}", run.configuration_label()),
        }
    }
}

/// The figures of one cell, without those that no run has.
fn figures(groups: &[&[&RunResult]]) -> Vec<ContrastFigure> {
    let figure = |(name, higher_is_better, of): &Figure| {
        let values: Vec<Vec<f64>> =
            groups.iter().map(|runs| runs.iter().filter_map(|run| of(run)).collect()).collect();
        let spreads: Vec<Option<Spread>> =
            values.iter().map(|values| (!values.is_empty()).then(|| Spread::of(values))).collect();
        let are_repeats = |index: usize| index > 0 && values[0].len() > 1 && values[index].len() > 1;
        let first = spreads.first().copied().flatten();
        let value = |(index, spread): (usize, &Option<Spread>)| {
            let against = first.filter(|_| index > 0);
            spread.map(|spread| ContrastValue {
                spread,
                difference_pct: against
                    .filter(|first| first.mean != 0.0)
                    .map(|first| 100.0 * (spread.mean - first.mean) / first.mean),
                is_apart: against.and_then(|first| is_apart(&first, &spread)),
                welch: are_repeats(index).then(|| welch(&values[index], &values[0])).flatten(),
                mann_whitney: are_repeats(index).then(|| mann_whitney(&values[index], &values[0])).flatten(),
            })
        };
        ContrastFigure {
            name,
            higher_is_better: *higher_is_better,
            groups: spreads.iter().enumerate().map(value).collect(),
        }
    };
    let all = FIGURES.iter().map(figure);
    all.filter(|figure| figure.groups.iter().any(Option::is_some)).collect()
}

fn is_apart(one: &Spread, other: &Spread) -> Option<bool> {
    Some((one.mean - other.mean).abs() > one.ci95_half? + other.ci95_half?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::Iops;
    use raidlab_workload::{Metric, World};

    fn run(target: &str, workload: &str, iodepth: u32, iops: f64) -> RunResult {
        let mut run = RunResult::unmeasured(World::Measured, target.into(), workload.into(), Metric::Iops);
        run.iodepth = iodepth;
        run.ops.total.iops = Iops(iops);
        run
    }

    fn contrast(groups: &[(&str, &[RunResult])]) -> Contrast {
        let groups = groups
            .iter()
            .map(|(name, runs)| RunGroup { name: (*name).to_owned(), runs: runs.iter().collect() });
        Contrast::of(&groups.collect::<Vec<_>>())
    }

    #[test]
    fn two_runs_are_compared_whatever_they_are() {
        let both = contrast(&[("1", &[run("a", "x", 1, 200.0)]), ("2", &[run("b", "y", 8, 150.0)])]);
        assert_eq!(both.configurations, [Some("a".to_owned()), Some("b".to_owned())]);
        assert_eq!(both.loads, [Some("x at iodepth 1".to_owned()), Some("y at iodepth 8".to_owned())]);
        let [cell] = &both.cells[..] else { panic!("{both:?}") };
        let iops = &cell.figures[0];
        let [Some(first), Some(second)] = &iops.groups[..] else { panic!("{iops:?}") };
        assert_eq!((first.difference_pct, second.difference_pct), (None, Some(-25.0)));
        assert_eq!(second.is_apart, None, "one run each proves nothing");
        assert!(cell.figures.iter().all(|figure| figure.name != "lat_ms_mean"), "none was measured");
    }

    #[test]
    fn repeats_give_a_spread_and_a_verdict() {
        let runs = |values: &[f64]| -> Vec<RunResult> {
            values.iter().map(|iops| run("a", "x", 1, *iops)).collect()
        };
        for (others, apart) in [([120.0, 121.0, 122.0], true), ([99.0, 101.0, 104.0], false)] {
            let both = contrast(&[("1", &runs(&[100.0, 101.0, 102.0])), ("2", &runs(&others))]);
            let value = both.cells[0].figures[0].groups[1].expect("it has runs");
            assert_eq!((value.spread.count, value.is_apart), (3, Some(apart)));
            let welch = value.welch.expect("both have repeats");
            assert_eq!(welch.p < 0.05, apart, "{welch:?}");
            // Three against three: the most lopsided order is one of 20, and so is its mirror.
            let ranks = value.mann_whitney.expect("both have repeats");
            assert_eq!((ranks.p - 0.1).abs() < 1e-12, apart, "{ranks:?}");
        }
    }

    #[test]
    fn cells_are_told_apart_by_what_differs_within_a_group() {
        let names = |contrast: Contrast| -> Vec<String> {
            contrast.cells.into_iter().map(|cell| cell.name).collect()
        };
        let loads = [run("a", "x", 1, 1.0), run("a", "x", 8, 2.0)];
        let other = [run("b", "x", 8, 3.0)];
        let by_load = contrast(&[("1", &loads), ("2", &other)]);
        assert_eq!(by_load.cells[0].figures[0].groups[1], None);
        assert_eq!(by_load.cells[1].figures[0].groups[1].and_then(|it| it.difference_pct), Some(50.0));
        assert_eq!(names(by_load), ["x at iodepth 1", "x at iodepth 8"]);
        let targets = [run("a", "x", 1, 1.0), run("b", "x", 1, 2.0)];
        let by_target = names(contrast(&[("1", &targets), ("2", &targets)]));
        assert_eq!(by_target, ["x at iodepth 1, a", "x at iodepth 1, b"]);
    }
}
