//! Sorts the runs of a study into the cells of its tables and charts.
//!
//! Four coordinates name a cell: the *profile* (a workload and how it is judged), the *configuration* (an array's level
//! and write policy, or storage without an array), the *side* (measured or simulated, and on what hardware) and the
//! load. Tables have a row per configuration and a group of columns per side; charts a panel per side and a line per
//! configuration.
//!
//! ```text
//!                    side 0: measured          side 1: simulated
//! configuration 0    no RAID                   (no such run)
//! configuration 1    RAID 0, write-through     RAID 0, write-through
//! ```
//!
//! Configurations of two sides are the same row if level, write policy, member count and strip are equal; the sides
//! differ in the hardware under them. Storage without an array is on the first side of its kind. Invariant: a cell has
//! at most one run; of several runs of a cell it is the one with the median figure.

use crate::figures::{Column, loads_name, three_digits};
use raidlab_units::ByteCount;
use raidlab_workload::{ArrayFacts, Metric, OfferedLoad, RunResult, World};
use std::collections::{BTreeMap, BTreeSet};

/// A workload and how it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profile<'a> {
    pub(crate) workload: &'a str,
    pub(crate) metric: Metric,
}

/// Where runs took place and on what: a group of columns, a panel of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Side<'a> {
    pub(crate) simulated: bool,
    /// Controller and kind of member; `None` when all of the side's runs were on storage without an array.
    hardware: Option<(&'a str, &'a str)>,
}

/// A row of the tables, a line of the charts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Configuration<'a> {
    /// Storage without an array, by the name of the target.
    Bare { target: &'a str },
    /// An array. The fields stand in the order in which rows are sorted.
    Array { level_number: u32, level: &'a str, policy: Policy<'a>, members: u16, strip_bytes: ByteCount },
}

/// A write policy by name; write-through comes before all others, as it promises most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy<'a>(pub(crate) &'a str);

/// A cell's place in the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CellKey {
    pub(crate) profile: usize,
    pub(crate) configuration: usize,
    pub(crate) side: usize,
    pub(crate) load: OfferedLoad,
}

/// The runs by profile, configuration, side and load.
#[derive(Debug)]
pub(crate) struct Matrix<'a> {
    pub(crate) profiles: Vec<Profile<'a>>,
    pub(crate) sides: Vec<Side<'a>>,
    pub(crate) configurations: Vec<Configuration<'a>>,
    /// Every load of the study, ascending.
    pub(crate) loads: Vec<OfferedLoad>,
    /// The one that tables and bars show of most profiles.
    pub(crate) load: OfferedLoad,
    /// The one that they show of each.
    profile_loads: Vec<OfferedLoad>,
    cells: BTreeMap<CellKey, &'a RunResult>,
}

impl<'a> Matrix<'a> {
    /// Sorts `runs`. Tables show `iodepth`, or by default the one that most cells have, and the highest of those.
    pub(crate) fn of(runs: &'a [RunResult], iodepth: Option<u32>) -> Self {
        let profiles = in_first_appearance(runs.iter().map(Profile::of));
        let sides = sides_of(runs);
        let configurations: Vec<_> =
            runs.iter().map(Configuration::of).collect::<BTreeSet<_>>().into_iter().collect();
        let loads: Vec<OfferedLoad> =
            runs.iter().map(RunResult::offered_load).collect::<BTreeSet<_>>().into_iter().collect();
        let mut repeats: BTreeMap<CellKey, Vec<&RunResult>> = BTreeMap::new();
        for run in runs {
            let key = CellKey {
                profile: position(&profiles, &Profile::of(run)),
                configuration: position(&configurations, &Configuration::of(run)),
                side: side_of(run, &sides),
                load: run.offered_load(),
            };
            repeats.entry(key).or_default().push(run);
        }
        let cells: BTreeMap<_, _> = repeats.into_iter().map(|(key, runs)| (key, middle(runs))).collect();
        let load = iodepth.map(OfferedLoad::Iodepth);
        let load = load.or(commonest(cells.keys())).unwrap_or(OfferedLoad::Iodepth(1));
        let load_of = |profile: usize| {
            let own = || cells.keys().filter(|key| key.profile == profile);
            // A profile of another kind of load has none of the others'.
            let is_other_kind = !own().any(|key| key.load.name() == load.name());
            commonest(own()).filter(|_| is_other_kind).unwrap_or(load)
        };
        let profile_loads = (0..profiles.len()).map(load_of).collect();
        Self { profiles, sides, configurations, loads, load, profile_loads, cells }
    }

    /// The load that tables and bars show of a profile.
    pub(crate) fn load_of(&self, profile: usize) -> OfferedLoad {
        self.profile_loads[profile]
    }

    /// The loads of all profiles that are shown, in words.
    pub(crate) fn shown_loads(&self) -> String {
        let texts = in_first_appearance(self.profile_loads.iter().map(ToString::to_string));
        if texts.is_empty() { self.load.to_string() } else { texts.join(" or ") }
    }

    /// The loads of the kinds that a profile was run at, ascending.
    pub(crate) fn loads_of(&self, profile: usize) -> Vec<OfferedLoad> {
        let own = || self.cells.keys().filter(|key| key.profile == profile).map(|key| key.load);
        self.loads.iter().copied().filter(|load| own().any(|other| other.name() == load.name())).collect()
    }

    /// The run of a cell, if it was done.
    pub(crate) fn run(&self, key: CellKey) -> Option<&'a RunResult> {
        self.cells.get(&key).copied()
    }

    /// The run of a cell at the load that tables show.
    pub(crate) fn shown(&self, profile: usize, configuration: usize, side: usize) -> Option<&'a RunResult> {
        self.run(CellKey { profile, configuration, side, load: self.load_of(profile) })
    }

    /// The runs of a line of a chart, by ascending load.
    pub(crate) fn line(&self, profile: usize, configuration: usize, side: usize) -> Vec<&'a RunResult> {
        let key = |load| CellKey { profile, configuration, side, load };
        let all = key(OfferedLoad::Iodepth(0))..=key(OfferedLoad::Accelerators(u32::MAX));
        self.cells.range(all).map(|(_, run)| *run).collect()
    }

    /// What tells the loads of a profile apart, for heads of columns and axes.
    pub(crate) fn load_name(&self, profile: usize) -> &'static str {
        loads_name(self.loads_of(profile))
    }

    /// Whether nothing was written in any run of a profile, so that write policies make no difference.
    pub(crate) fn only_reads(&self, profile: usize) -> bool {
        let mut runs = self.cells.iter().filter(|(key, _)| key.profile == profile).map(|(_, run)| run);
        runs.all(|run| run.ops.write.requests == 0 && run.cost.host_writes.unwrap_or(0) == 0)
    }

    /// What is known of an array on one side, whatever the profile.
    pub(crate) fn facts(&self, configuration: usize, side: usize) -> Option<&'a ArrayFacts> {
        let mine = self.cells.iter().find(|(key, _)| key.configuration == configuration && key.side == side);
        mine.and_then(|(_, run)| run.array.as_ref())
    }

    /// What is known of an array on any side.
    pub(crate) fn any_facts(&self, configuration: usize) -> Option<&'a ArrayFacts> {
        (0..self.sides.len()).find_map(|side| self.facts(configuration, side))
    }

    /// The name of a configuration, unambiguous within the study, and its write policy if it is an array.
    pub(crate) fn name(&self, configuration: usize) -> (String, Option<&'a str>) {
        match &self.configurations[configuration] {
            Configuration::Bare { target } => {
                let bare = self.configurations.iter().filter(|other| !other.is_array()).count();
                (if bare == 1 { "no RAID".to_owned() } else { file_name(target).to_owned() }, None)
            }
            Configuration::Array { level, policy, members, strip_bytes, .. } => {
                let mut name = format!("RAID {level}");
                if self.varies(|array| array.0) {
                    name += &format!(" x{members}");
                }
                if self.varies(|array| array.1) {
                    name += &format!(" {strip_bytes}");
                }
                (name, Some(policy.0))
            }
        }
    }

    /// The name of a configuration with its write policy, as one phrase.
    pub(crate) fn full_name(&self, configuration: usize) -> String {
        match self.name(configuration) {
            (name, Some(policy)) => format!("{name}, {policy}"),
            (name, None) => name,
        }
    }

    /// Whether what `of` takes from (member count, strip) differs between the arrays.
    fn varies<T: Ord>(&self, of: impl Fn((u16, ByteCount)) -> T) -> bool {
        let seen: BTreeSet<T> = self
            .configurations
            .iter()
            .filter_map(|configuration| match configuration {
                Configuration::Array { members, strip_bytes, .. } => Some(of((*members, *strip_bytes))),
                Configuration::Bare { .. } => None,
            })
            .collect();
        seen.len() > 1
    }

    /// Whether `run` shows the best figure of its column among the arrays of its profile and side, to three digits.
    /// A column in which all arrays show the same has no best one.
    pub(crate) fn is_best(&self, profile: usize, side: usize, column: Column, run: &RunResult) -> bool {
        let arrays = (0..self.configurations.len()).filter_map(|index| self.shown(profile, index, side));
        let values: Vec<f64> =
            arrays.filter(|run| run.array.is_some()).map(|run| column.value(run)).collect();
        let Some(lowest) = values.iter().copied().reduce(f64::min) else { return false };
        let Some(highest) = values.iter().copied().reduce(f64::max) else { return false };
        let best = three_digits(if column.higher_is_better() { highest } else { lowest });
        let differ = three_digits(lowest) != three_digits(highest);
        run.array.is_some() && differ && best == three_digits(column.value(run))
    }

    /// What all profiles' names start with, up to and with the last hyphen that they share; tables leave it out.
    pub(crate) fn common_prefix(&self) -> &'a str {
        let Some(first) = self.profiles.first().filter(|_| self.profiles.len() > 1) else { return "" };
        let is_shared =
            |prefix: &&str| self.profiles.iter().all(|profile| profile.workload.starts_with(*prefix));
        let prefixes = first.workload.match_indices('-').map(|(at, _)| &first.workload[..=at]);
        prefixes.rev().find(is_shared).unwrap_or("")
    }

    /// What a reader must know that the runs themselves tell: failed requests and cells without a run.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let failed: Vec<_> = self.cells.iter().filter(|(_, run)| run.ops.total.errors > 0).collect();
        if let Some((key, run)) = failed.iter().max_by_key(|(_, run)| run.ops.total.errors) {
            warnings.push(format!(
                "Requests failed in {} of {} runs, most in {} of {} at {}: {}. Their figures count only what succeeded.",
                failed.len(),
                self.cells.len(),
                run.workload,
                self.full_name(key.configuration),
                run.offered_load(),
                run.ops.total.errors
            ));
        }
        let expected = self.expected_cells();
        let missing = expected.iter().filter(|key| !self.cells.contains_key(key)).count();
        if missing > 0 {
            warnings.push(format!(
                "{missing} of {} cells have no finished run; tables leave them empty and charts leave them out.",
                expected.len()
            ));
        }
        warnings
    }

    /// Every cell that a complete study over the configurations, sides and loads of each side seen would have.
    /// Storage without an array is no part of a comparison: a load of its own on each is not taken for a gap.
    fn expected_cells(&self) -> BTreeSet<CellKey> {
        let places: BTreeSet<_> = self.cells.keys().map(|key| (key.configuration, key.side)).collect();
        let mut expected = BTreeSet::new();
        for profile in 0..self.profiles.len() {
            // What only reads is run with one write policy of several.
            let is_left_out = |configuration: usize, side: usize| {
                (self.only_reads(profile) || !self.configurations[configuration].is_array())
                    && self.line(profile, configuration, side).is_empty()
            };
            for (configuration, side) in
                places.iter().filter(|(configuration, side)| !is_left_out(*configuration, *side))
            {
                let has_load = |load: &&OfferedLoad| {
                    let is_array = self.configurations[*configuration].is_array();
                    let is_like = |key: &CellKey| key.side == *side && (is_array || key.profile == profile);
                    self.cells.keys().any(|key| is_like(key) && key.load == **load)
                };
                // The largest number of accelerators is searched for, array by array.
                let is_searched = |load: &&OfferedLoad| matches!(load, OfferedLoad::Accelerators(_));
                let own = self.loads_of(profile);
                for load in own.iter().filter(has_load).filter(|load| !is_searched(load)) {
                    expected.insert(CellKey {
                        profile,
                        configuration: *configuration,
                        side: *side,
                        load: *load,
                    });
                }
            }
        }
        expected
    }

    /// The distinct levels of the arrays, by name as [`Matrix::name`] gives it, in order of the rows.
    pub(crate) fn level_names(&self) -> Vec<String> {
        let arrays = (0..self.configurations.len()).filter(|index| self.configurations[*index].is_array());
        in_first_appearance(arrays.map(|index| self.name(index).0))
    }

    /// The distinct write policies, in order of the rows.
    pub(crate) fn policies(&self) -> Vec<&'a str> {
        in_first_appearance((0..self.configurations.len()).filter_map(|index| self.name(index).1))
    }
}

impl<'a> Profile<'a> {
    fn of(run: &'a RunResult) -> Self {
        Self { workload: &run.workload, metric: run.metric }
    }
}

impl<'a> Side<'a> {
    /// `measured` or `simulated`.
    pub(crate) fn name(&self) -> &'static str {
        side_name(if self.simulated { World::Simulated } else { World::Array })
    }

    /// The controller and the kind of member of the side's arrays, if it has arrays.
    pub(crate) fn hardware(&self) -> Option<String> {
        self.hardware.map(|(controller, members)| format!("{controller}, {members}"))
    }

    /// Name and hardware.
    pub(crate) fn full_name(&self) -> String {
        match self.hardware() {
            Some(hardware) => format!("{}: {hardware}", self.name()),
            None => self.name().to_owned(),
        }
    }

    fn of(run: &'a RunResult) -> Self {
        let hardware =
            run.array.as_ref().map(|facts| (facts.controller.as_str(), facts.member_kind.as_str()));
        Self { simulated: run.world == World::Simulated, hardware }
    }
}

impl<'a> Configuration<'a> {
    fn of(run: &'a RunResult) -> Self {
        match &run.array {
            None => Self::Bare { target: &run.target },
            Some(facts) => Self::Array {
                level_number: leading_number(&facts.level),
                level: &facts.level,
                policy: Policy(&facts.write_policy),
                members: facts.members,
                strip_bytes: facts.strip_bytes,
            },
        }
    }

    /// Whether it is an array.
    pub(crate) fn is_array(&self) -> bool {
        matches!(self, Self::Array { .. })
    }
}

impl Ord for Policy<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |policy: &Self| policy.0 != "write-through";
        (key(self), self.0).cmp(&(key(other), other.0))
    }
}

impl PartialOrd for Policy<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The load that most cells have, and the highest of those.
fn commonest<'a>(keys: impl Iterator<Item = &'a CellKey>) -> Option<OfferedLoad> {
    let mut counts: BTreeMap<OfferedLoad, usize> = BTreeMap::new();
    keys.for_each(|key| *counts.entry(key.load).or_default() += 1);
    counts.into_iter().max_by_key(|(load, count)| (*count, *load)).map(|(load, _)| load)
}

/// Of the runs of a cell the one whose figure is in the middle, the lower of two; of equals the last.
fn middle(mut runs: Vec<&RunResult>) -> &RunResult {
    runs.reverse();
    runs.sort_by(|a, b| a.metric_value().total_cmp(&b.metric_value()));
    runs[(runs.len() - 1) / 2]
}

/// What tables and charts call the side on which `world` stands.
pub(crate) fn side_name(world: World) -> &'static str {
    match world {
        World::Measured | World::Array => "measured",
        World::Simulated => "simulated",
    }
}

/// The sides of `runs`, measured ones first. A side without hardware stays only if its kind has no other.
fn sides_of(runs: &[RunResult]) -> Vec<Side<'_>> {
    let seen = in_first_appearance(runs.iter().map(Side::of));
    let has_arrays =
        |simulated| seen.iter().any(|side| side.simulated == simulated && side.hardware.is_some());
    let mut sides: Vec<Side> =
        seen.iter().copied().filter(|side| side.hardware.is_some() || !has_arrays(side.simulated)).collect();
    sides.sort_by_key(|side| side.simulated);
    sides
}

/// The side of `sides` on which `run` stands.
fn side_of(run: &RunResult, sides: &[Side]) -> usize {
    let side = Side::of(run);
    let matches = |other: &Side| {
        other.simulated == side.simulated && (side.hardware.is_none() || other.hardware == side.hardware)
    };
    sides.iter().position(matches).expect("every run's side was collected")
}

/// The items without repetition, in the order in which they first came.
fn in_first_appearance<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

fn position<T: PartialEq>(items: &[T], wanted: &T) -> usize {
    items.iter().position(|item| item == wanted).expect("every run's coordinates were collected")
}

/// The number at the start of a level's name, so that RAID 10 comes after RAID 6; names without one come last.
fn leading_number(level: &str) -> u32 {
    let digits = level.len() - level.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    level[..digits].parse().unwrap_or(u32::MAX)
}

/// What follows the last slash, or everything.
fn file_name(target: &str) -> &str {
    target.rsplit('/').find(|part| !part.is_empty()).unwrap_or(target)
}

#[cfg(test)]
mod tests {
    use super::Matrix;
    use crate::figures::Column;
    use crate::testdata::study_runs;
    use raidlab_workload::{CacheFill, OfferedLoad, RunResult, World};

    fn names(matrix: &Matrix) -> Vec<String> {
        (0..matrix.configurations.len()).map(|index| matrix.full_name(index)).collect()
    }

    fn sides(matrix: &Matrix) -> Vec<String> {
        matrix.sides.iter().map(super::Side::full_name).collect()
    }

    /// Gives the simulated runs of `level` a change.
    fn with_simulated(level: &str, change: fn(&mut RunResult)) -> Vec<RunResult> {
        let mut runs = study_runs();
        let is_meant = |run: &&mut RunResult| {
            run.world == World::Simulated && run.array.as_ref().is_some_and(|array| array.level == level)
        };
        runs.iter_mut().filter(is_meant).for_each(change);
        runs
    }

    #[test]
    fn rows_are_sorted_by_level_and_policy_whatever_the_order_of_the_runs() {
        let expected = [
            "no RAID",
            "RAID 0, write-through",
            "RAID 0, write-back",
            "RAID 1, write-through",
            "RAID 1, write-back",
            "RAID 5, write-through",
            "RAID 5, write-back",
            "RAID 6, write-through",
            "RAID 6, write-back",
            "RAID 10, write-through",
            "RAID 10, write-back",
        ];
        let mut runs = study_runs();
        assert_eq!(names(&Matrix::of(&runs, None)), expected);
        runs.reverse();
        let reversed = Matrix::of(&runs, None);
        assert_eq!(names(&reversed), expected);
        assert_eq!(sides(&reversed), ["measured: raidlab, file", "simulated: perc-h800, ST3600057SS"]);
    }

    #[test]
    fn other_hardware_is_another_side_and_other_members_another_row() {
        let drives = with_simulated("10", |run| {
            if let Some(array) = &mut run.array {
                array.member_kind = "LB150".to_owned();
            }
        });
        let matrix = Matrix::of(&drives, None);
        assert_eq!(sides(&matrix)[1..], ["simulated: perc-h800, ST3600057SS", "simulated: perc-h800, LB150"]);
        let members = with_simulated("10", |run| {
            if let Some(array) = &mut run.array {
                array.members = 12;
            }
        });
        let matrix = Matrix::of(&members, None);
        assert_eq!(names(&matrix)[9..11], ["RAID 10 x6, write-through", "RAID 10 x12, write-through"]);
    }

    #[test]
    fn what_runs_tell_of_themselves_is_not_told_twice() {
        let filling = with_simulated("10", |run| {
            run.cache_fill = Some(CacheFill {
                dirty_bytes_start: 0,
                dirty_bytes_end: 1 << 40,
                cache_bytes: 1 << 41,
                flush_start_pct: 80,
                absorbed_bytes: None,
            });
        });
        assert!(!RunResult::doubts_of(&filling).is_empty());
        assert_eq!(Matrix::of(&filling, None).warnings(), [""; 0]);
    }

    #[test]
    fn storage_without_an_array_is_named_by_its_file_when_there_are_several() {
        let mut runs = study_runs();
        let mut other = runs[0].clone();
        other.target = "/mnt/fast/other.dat".to_owned();
        runs.push(other);
        assert_eq!(names(&Matrix::of(&runs, None))[..2], ["other.dat", "first-look.dat"]);
    }

    #[test]
    fn the_iodepth_shown_is_the_highest_that_most_cells_have() {
        let mut runs = study_runs();
        assert_eq!(Matrix::of(&runs, None).load, OfferedLoad::Iodepth(64));
        assert_eq!(Matrix::of(&runs, Some(8)).load, OfferedLoad::Iodepth(8));
        runs.retain(|run| run.iodepth < 32 || run.world == World::Simulated);
        assert_eq!(Matrix::of(&runs, None).load, OfferedLoad::Iodepth(16));
        assert_eq!(Matrix::of(&[], None).load, OfferedLoad::Iodepth(1));
    }

    #[test]
    fn each_rate_of_an_open_loop_is_a_load_of_its_own() {
        let mut runs = study_runs()[..1].to_vec();
        runs[0].arrivals_per_sec = Some(200.0);
        runs.push(RunResult { arrivals_per_sec: Some(0.5), ..runs[0].clone() });
        let matrix = Matrix::of(&runs, None);
        assert_eq!(matrix.line(0, 0, 0).len(), 2);
        assert_eq!(
            (matrix.load.to_string(), matrix.load_name(0)),
            ("200 requests/s".into(), "offered requests/s")
        );
        runs[1].arrivals_per_sec = None;
        assert_eq!(Matrix::of(&runs, None).load_name(0), "load");
    }

    #[test]
    fn of_several_runs_of_a_cell_the_last_counts() {
        let mut runs = study_runs();
        let mut again = runs[0].clone();
        again.seed = 43;
        runs.push(again);
        let matrix = Matrix::of(&runs, Some(runs[0].iodepth));
        assert_eq!(matrix.shown(0, 0, 0).map(|run| run.seed), Some(43));
    }

    #[test]
    fn the_best_is_an_array_and_better_than_another() {
        let runs = study_runs();
        let matrix = Matrix::of(&runs, None);
        let best = |profile: usize, column: Column| -> Vec<String> {
            let is_best = |index: &usize| {
                matrix.shown(profile, *index, 0).is_some_and(|run| matrix.is_best(profile, 0, column, run))
            };
            (0..matrix.configurations.len()).filter(is_best).map(|index| matrix.full_name(index)).collect()
        };
        assert_eq!(best(0, Column::MbPerS), [""; 0], "all arrays read alike");
        // Storage without an array is faster than any array here, and still not the best array.
        assert_eq!(best(2, Column::Iops), ["RAID 0, write-back"]);
        assert_eq!(best(2, Column::LatP99), ["RAID 0, write-back"]);
    }

    #[test]
    fn the_common_prefix_ends_at_a_hyphen() {
        for (workloads, prefix) in [
            (&["storagebench-database", "storagebench-restore"][..], "storagebench-"),
            (&["oltp-4k", "oltp-4m"], "oltp-"),
            (&["data", "database"], ""),
            (&["a-b", "c-d"], ""),
            (&["only-one"], ""),
        ] {
            let mut runs = study_runs();
            runs.truncate(workloads.len());
            for (run, workload) in runs.iter_mut().zip(workloads) {
                (*workload).clone_into(&mut run.workload);
            }
            assert_eq!(Matrix::of(&runs, None).common_prefix(), prefix, "{workloads:?}");
        }
    }
}
