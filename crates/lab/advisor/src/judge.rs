//! Groups the runs, chooses the depth at which each configuration is judged, and ranks.

use crate::batches::BatchMeans;
use crate::reason;
use crate::significance::Rounds;
use crate::{Alternative, Choice, Verdict};
use raidlab_units::NanoSpan;
use raidlab_workload::{ArrayFacts, OfferedLoad, RunResult, World};
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// The limit of the mean latency unless another is asked for: 20 ms, that of the `FAStT` evaluation.
pub const LAT_MEAN_LIMIT: NanoSpan = NanoSpan::from_millis(20);

/// A metric of at least this share of the best one counts as equal to it: two runs of one configuration differ by
/// about as much.
pub(crate) const EQUAL_SHARE: f64 = 0.98;

/// What differs as much with this chance where there is no difference is not told apart.
const CHANCE: f64 = 0.05;

/// Returns a verdict for each workload, real arrays first, with [`LAT_MEAN_LIMIT`].
///
/// Workloads come in the order of their first run. Runs that are not on an array are left out, and so is training: it is judged by how many
/// accelerators storage feeds, which is no rate within a latency.
pub fn verdicts(runs: &[RunResult]) -> Vec<Verdict> {
    verdicts_within(runs, LAT_MEAN_LIMIT)
}

/// Returns the verdicts with the limit `lat_mean_limit` of the mean latency.
pub fn verdicts_within(runs: &[RunResult], lat_mean_limit: NanoSpan) -> Vec<Verdict> {
    let trains = |name: &str| runs.iter().any(|run| run.workload == name && run.accelerators().is_some());
    let mut workloads: Vec<&str> = Vec::new();
    for run in runs.iter().filter(|run| !trains(run.checkpoint_of().unwrap_or(&run.workload))) {
        if !workloads.contains(&run.workload.as_str()) {
            workloads.push(&run.workload);
        }
    }
    let mut verdicts = Vec::new();
    for workload in workloads {
        for world in [World::Array, World::Simulated] {
            let group: Vec<(&ArrayFacts, &RunResult)> = runs
                .iter()
                .filter(|run| run.workload == workload && run.world == world)
                .filter_map(|run| run.array.as_ref().map(|array| (array, run)))
                .collect();
            verdicts.extend(verdict_of(&group, lat_mean_limit));
        }
    }
    verdicts
}

/// Judges the runs of one workload in one world; nothing to judge gives `None`.
fn verdict_of(group: &[(&ArrayFacts, &RunResult)], limit: NanoSpan) -> Option<Verdict> {
    let (_, first) = group.first()?;
    let mut ranked = ranked_choices(group, limit);
    let repeats: Vec<&[f64]> = ranked.iter().map(|choice| &choice.metric_repeats[..]).collect();
    let noise = Rounds::of(&repeats);
    for choice in &mut ranked {
        let share = match choice.metric_repeats.len() {
            0 | 1 => choice.metric_batches.map(BatchMeans::half_width_95),
            repeats => noise.map(|noise| noise.half_width_95(repeats)),
        };
        choice.metric_half_width_95 = share.map(|share| choice.metric_value * share);
    }
    let sound = |choice: &&Choice| choice.is_sound();
    let redundant: Vec<&Choice> =
        ranked.iter().filter(sound).filter(|choice| choice.is_redundant()).collect();
    let recommended = best_of(&redundant, noise).cloned();
    let too_close = too_close(&redundant, recommended.as_ref(), noise);
    let runner_up = recommended.as_ref().and_then(|best| runner_up_to(best, &redundant)).cloned();
    let exposed: Vec<&Choice> = ranked.iter().filter(sound).filter(|choice| !choice.is_redundant()).collect();
    let fastest_without_redundancy = best_of(&exposed, noise).cloned();
    let reference = recommended.as_ref().or(ranked.first()).map_or(0.0, |choice| choice.metric_value);
    let alternatives = ranked
        .into_iter()
        .map(|choice| Alternative {
            metric_ratio: (reference > 0.0).then(|| choice.metric_value / reference),
            choice,
        })
        .collect();
    let mut verdict = Verdict {
        workload: first.workload.clone(),
        world: first.world,
        metric: first.metric,
        lat_ns_mean_limit: limit.get(),
        recommended,
        too_close,
        runner_up,
        fastest_without_redundancy,
        reason: String::new(),
        alternatives,
    };
    verdict.reason = reason::of(&verdict);
    Some(verdict)
}

/// Every configuration of the group at its depth: those within the limit first, then by metric.
fn ranked_choices(group: &[(&ArrayFacts, &RunResult)], limit: NanoSpan) -> Vec<Choice> {
    let mut arrays: Vec<&ArrayFacts> = Vec::new();
    for (array, _) in group {
        if !arrays.contains(array) {
            arrays.push(array);
        }
    }
    let only_reads =
        group.iter().all(|(_, run)| run.ops.write.requests == 0 && run.cost.host_writes.unwrap_or(0) == 0);
    let mut choices: Vec<Choice> = arrays
        .iter()
        .map(|array| {
            let runs: Vec<&RunResult> =
                group.iter().filter(|(other, _)| other == array).map(|(_, run)| *run).collect();
            let judged = judged_run(&runs, limit);
            let label = if only_reads { label_of_reads(array, &arrays) } else { label_among(array, &arrays) };
            let repeats = runs.iter().filter(|run| run.offered_load() == judged.offered_load());
            let metric_repeats: Vec<f64> = repeats.map(|run| run.metric_value()).collect();
            let metric_batches = BatchMeans::of(judged).filter(|_| metric_repeats.len() == 1);
            Choice { metric_repeats, metric_batches, ..choice_of(array, judged, label, limit) }
        })
        .collect();
    choices.sort_by(|a, b| {
        let by_limit = a.is_filling.cmp(&b.is_filling).then(b.keeps_limit.cmp(&a.keeps_limit));
        by_limit.then(b.metric_value.total_cmp(&a.metric_value))
    });
    choices
}

/// The run at the highest load that keeps the limit, else at the lowest load.
fn judged_run<'a>(runs: &[&'a RunResult], limit: NanoSpan) -> &'a RunResult {
    let loads: BTreeSet<OfferedLoad> = runs.iter().map(|run| run.offered_load()).collect();
    let medians: Vec<&RunResult> = loads.into_iter().map(|load| median_run(runs, load)).collect();
    let within = medians.iter().rev().find(|run| keeps_limit(run, limit));
    within.unwrap_or(&medians[0])
}

/// Of several runs at one load the one with the middle metric (the lower of two).
fn median_run<'a>(runs: &[&'a RunResult], load: OfferedLoad) -> &'a RunResult {
    let mut at_load: Vec<&RunResult> =
        runs.iter().copied().filter(|run| run.offered_load() == load).collect();
    at_load.sort_by(|a, b| a.metric_value().total_cmp(&b.metric_value()));
    at_load[(at_load.len() - 1) / 2]
}

fn keeps_limit(run: &RunResult, limit: NanoSpan) -> bool {
    run.ops.total.requests > 0 && run.lat_mean() <= limit
}

fn choice_of(array: &ArrayFacts, run: &RunResult, label: String, limit: NanoSpan) -> Choice {
    let total = &run.ops.total;
    let host_writes = run.cost.host_writes.unwrap_or(run.ops.write.requests);
    let host_ios = host_writes + run.cost.host_reads.unwrap_or(run.ops.read.requests);
    Choice {
        label,
        array: array.clone(),
        iodepth: run.iodepth,
        arrivals_per_sec: run.arrivals_per_sec,
        keeps_limit: keeps_limit(run, limit),
        metric_value: run.metric_value(),
        metric_repeats: Vec::new(),
        metric_batches: None,
        metric_half_width_95: None,
        iops: total.iops,
        bytes_per_sec: total.bytes_per_sec,
        lat_ns_mean: total.lat_ns_mean,
        lat_ns_p99: total.lat_ns_p99,
        errors: total.errors,
        is_filling: run.filling_text().is_some(),
        write_share: if host_ios == 0 { 0.0 } else { host_writes as f64 / host_ios as f64 },
        request_bytes_mean: if total.iops.0 > 0.0 { total.bytes_per_sec.0 / total.iops.0 } else { 0.0 },
        member_ios_per_host_io: run.cost.member_ios_per_host_io(),
    }
}

/// The level alone, where it tells the array from the others: write policies do nothing where nothing is written.
fn label_of_reads(array: &ArrayFacts, arrays: &[&ArrayFacts]) -> String {
    match arrays.iter().filter(|other| other.level == array.level).count() {
        1 => format!("RAID {}", array.level),
        _ => label_among(array, arrays),
    }
}

/// Level and write policy, and what else tells this array from the others that share both.
fn label_among(array: &ArrayFacts, arrays: &[&ArrayFacts]) -> String {
    let alike: Vec<&&ArrayFacts> = arrays.iter().filter(|other| other.label() == array.label()).collect();
    if alike.len() == 1 {
        return array.label();
    }
    let ArrayFacts { members, member_kind, controller, strip_bytes, usable_bytes, .. } = array;
    let same_but_size = |other: &&&ArrayFacts| {
        (other.members, &other.member_kind, &other.controller, other.strip_bytes)
            == (*members, member_kind, controller, *strip_bytes)
    };
    let size = match alike.iter().filter(|other| same_but_size(other)).count() {
        1 => String::new(),
        _ => format!(", {}", usable_bytes.decimal()),
    };
    format!("{} ({members} x {member_kind}, {controller}, strip {strip_bytes}{size})", array.label())
}

/// The first of `ranked`, or of what is as good as equal to it, the one that costs least.
fn best_of<'a>(ranked: &[&'a Choice], noise: Option<Rounds>) -> Option<&'a Choice> {
    let first = *ranked.first()?;
    let by_chance = ByChance { noise, others: ranked.len() - 1 };
    ranked
        .iter()
        .copied()
        .filter(|choice| choice.keeps_limit == first.keeps_limit)
        .filter(|choice| is_equal(choice, first) || by_chance.is(choice, first))
        .min_by(|a, b| cheaper_first(a, b))
}

fn is_equal(choice: &Choice, best: &Choice) -> bool {
    choice.metric_value >= EQUAL_SHARE * best.metric_value
}

/// Whether repeats, or the batches of single runs, tell that one of several is slower than the best.
#[derive(Clone, Copy)]
struct ByChance {
    noise: Option<Rounds>,
    /// How many are compared with the best.
    others: usize,
}

impl ByChance {
    /// Whether they do not tell which of the two is faster.
    fn is(self, choice: &Choice, best: &Choice) -> bool {
        let (ours, bests) = (&choice.metric_repeats, &best.metric_repeats);
        let chance = if ours.len() > 1 && bests.len() > 1 {
            self.noise.map(|noise| noise.chance_that_as_good(ours, bests, self.others))
        } else {
            choice.metric_batches.zip(best.metric_batches).map(|(own, its)| {
                own.chance_that_as_good(choice.metric_value, (best.metric_value, its), self.others)
            })
        };
        chance.is_some_and(|chance| chance >= CHANCE)
    }
}

/// The labels of those of `ranked` beside the recommended one that are not told apart from the first.
fn too_close(ranked: &[&Choice], recommended: Option<&Choice>, noise: Option<Rounds>) -> Vec<String> {
    let (Some(first), Some(recommended)) = (ranked.first(), recommended) else { return Vec::new() };
    let by_chance = ByChance { noise, others: ranked.len() - 1 };
    let is_close = |choice: &&&Choice| {
        choice.keeps_limit == first.keeps_limit
            && choice.array != recommended.array
            && (choice.array == first.array || by_chance.is(choice, first))
    };
    if recommended.array == first.array || by_chance.is(recommended, first) {
        ranked.iter().filter(is_close).map(|choice| choice.label.clone()).collect()
    } else {
        Vec::new()
    }
}

fn cheaper_first(a: &Choice, b: &Choice) -> Ordering {
    let risk = |choice: &Choice| match choice.array.write_policy.as_str() {
        "write-through" => 0,
        "write-back" => 1,
        _ => 2,
    };
    b.array
        .usable_fraction()
        .total_cmp(&a.array.usable_fraction())
        .then(b.array.failures_survived_always.cmp(&a.array.failures_survived_always))
        .then(risk(a).cmp(&risk(b)))
}

/// The best of `ranked` that differs from `best` in level; else the best other one.
fn runner_up_to<'a>(best: &Choice, ranked: &[&'a Choice]) -> Option<&'a Choice> {
    let others = || ranked.iter().copied().filter(|choice| choice.array != best.array);
    others().find(|choice| choice.array.level != best.array.level).or_else(|| others().next())
}
